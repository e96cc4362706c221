//! One table in memory.

mod read;
mod write;

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::others::LockedTable;
use super::outbox::Queue;
use linchpin_core::entity::{EntityDesc, Kind};
use linchpin_core::store::evaluate::{Key, unique_key};
pub(super) use linchpin_core::store::fixed;
use linchpin_core::validate::MAX_INTEGER;
use linchpin_core::{Error, Result, Value};

pub(super) type Record = Arc<[Value]>;

/// The records of the changed table and of other tables, for one statement.
pub(super) type Change<'a> = (&'a mut Data, &'a [LockedTable<'a>]);

/// The records of one entity, protected by one lock.
#[derive(Debug)]
pub(super) struct Table {
    entity: &'static EntityDesc,
    data: RwLock<Data>,
    /// Events are added while the data is locked, so that they are in the order of changes.
    outbox: Arc<Queue>,
}

/// The contents of a table at some moment.
pub(super) struct Saved(Data);

/// The records of a table.
#[derive(Clone, Debug)]
pub(super) struct Data {
    pub(super) records: BTreeMap<Key, Record>,
    /// For each declared unique constraint: the values, and the key of the record that has them.
    uniques: Vec<BTreeMap<Box<[Key]>, Key>>,
}

impl Table {
    pub(super) fn new(entity: &'static EntityDesc, outbox: Arc<Queue>) -> Self {
        let uniques = entity.uniques.iter().map(|_| BTreeMap::new()).collect();
        Self {
            entity,
            data: RwLock::new(Data {
                records: BTreeMap::new(),
                uniques,
            }),
            outbox,
        }
    }

    /// Saves the contents. Records are shared, not copied.
    pub(super) fn save(&self) -> Saved {
        Saved(self.data.read().clone())
    }

    /// Restores saved contents.
    pub(super) fn restore(&self, saved: Saved) {
        *self.data.write() = saved.0;
    }

    pub(super) fn entity(&self) -> &'static EntityDesc {
        self.entity
    }

    pub(super) fn read(&self) -> RwLockReadGuard<'_, Data> {
        self.data.read()
    }

    pub(super) fn write(&self) -> RwLockWriteGuard<'_, Data> {
        self.data.write()
    }

    /// The next integer key of a record without a key.
    fn next_key(&self, data: &Data) -> Result<Value> {
        if !matches!(self.entity.primary_field().kind, Kind::Integer) {
            return Err(Error::internal("a record without a key"));
        }
        let last = match data.records.last_key_value() {
            Some((Key(Value::Int(last)), _)) => (*last).max(0),
            _ => 0,
        };
        if last < MAX_INTEGER {
            Ok(Value::Int(last + 1))
        } else {
            Err(Error::internal("all integer keys are taken"))
        }
    }

    /// Checks that no record has the key or the unique values of this one.
    fn check_free(&self, data: &Data, record: &Record) -> Result<()> {
        let wire = |field: usize| self.entity.fields[field].wire;
        if data.records.contains_key(&self.key(record)) {
            return Err(Error::unique([wire(self.entity.primary)]));
        }
        for (unique, taken) in self.entity.uniques.iter().zip(&data.uniques) {
            if unique_key(self.entity, unique, record).is_some_and(|key| taken.contains_key(&key)) {
                return Err(Error::unique(unique.fields.iter().map(|f| wire(*f))));
            }
        }
        Ok(())
    }

    /// Adds a record and its unique values.
    fn link(&self, data: &mut Data, record: &Record) {
        for (unique, taken) in self.entity.uniques.iter().zip(&mut data.uniques) {
            if let Some(key) = unique_key(self.entity, unique, record) {
                taken.insert(key, self.key(record));
            }
        }
        data.records.insert(self.key(record), Arc::clone(record));
    }

    /// Removes a record and its unique values.
    fn unlink(&self, data: &mut Data, record: &Record) {
        for (unique, taken) in self.entity.uniques.iter().zip(&mut data.uniques) {
            if let Some(key) = unique_key(self.entity, unique, record) {
                taken.remove(&key);
            }
        }
        data.records.remove(&self.key(record));
    }

    fn key(&self, record: &Record) -> Key {
        Key(record[self.entity.primary].clone())
    }
}
