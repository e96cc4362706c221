//! The records of one entity, and the statements that change them.

use std::collections::BTreeMap;
use std::sync::Arc;

use linchpin_core::entity::{EntityDesc, Kind};
use linchpin_core::store::evaluate::{Key, same_keys, unique_key};
use linchpin_core::store::{Assign, Rows, assign};
use linchpin_core::{Error, Result, Value};

/// A value for each field of the entity, in order.
pub(crate) type Record = Arc<[Value]>;

/// The records by their keys. A copy shares them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table(Arc<BTreeMap<Key, Record>>);

impl Table {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The records in the order of their keys.
    pub(crate) fn records(&self) -> impl Iterator<Item = &Record> + Clone {
        self.0.values()
    }

    /// Adds a record. The caller knows its values, so a row is returned only for a generated key.
    pub(crate) fn insert(
        &mut self,
        entity: &EntityDesc,
        mut values: Vec<Value>,
        rows: &mut Rows,
    ) -> Result<()> {
        let generated = self.generate_key(entity, &mut values)?;
        let record = self.add(entity, values.into())?;
        if generated {
            rows.push(&record[..]);
        } else {
            rows.record(&record[..]);
        }
        Ok(())
    }

    /// Adds the record of an upsert, and returns it as a row.
    pub(crate) fn upsert(
        &mut self,
        entity: &EntityDesc,
        args: &[Value],
        rows: &mut Rows,
    ) -> Result<()> {
        let mut values = args[..entity.fields.len()].to_vec();
        self.generate_key(entity, &mut values)?;
        let record = self.add(entity, values.into())?;
        rows.push(&record[..]);
        rows.created = true;
        Ok(())
    }

    /// The existing record that an upsert changes, if there is one.
    pub(crate) fn with_keys_of(
        &self,
        entity: &EntityDesc,
        keys: &[usize],
        args: &[Value],
    ) -> Result<Option<Record>> {
        let new = args
            .get(..entity.fields.len())
            .ok_or_else(|| Error::internal("an upsert takes one value per field"))?;
        let has_same_keys = |old: &&Record| same_keys(entity, keys, new, old);
        Ok(self.records().find(has_same_keys).cloned())
    }

    /// Writes assignments to these records, and returns them as rows.
    pub(crate) fn change(
        &mut self,
        entity: &EntityDesc,
        old: &[Record],
        set: &[Assign],
        args: &[Value],
        rows: &mut Rows,
    ) -> Result<()> {
        // Removes all old records first, because unique values may move between the records.
        self.remove_by_key(entity, old);
        for record in old {
            let new = self.add(entity, assign(record, set, args)?.into())?;
            rows.push(&new[..]);
        }
        Ok(())
    }

    /// Removes these records, and returns them as rows.
    pub(crate) fn remove(&mut self, entity: &EntityDesc, old: &[Record], rows: &mut Rows) {
        self.remove_by_key(entity, old);
        for record in old {
            rows.push(&record[..]);
        }
    }

    /// Removes these records without a result.
    fn remove_by_key(&mut self, entity: &EntityDesc, old: &[Record]) {
        let records = Arc::make_mut(&mut self.0);
        for record in old {
            records.remove(&Key(record[entity.primary].clone()));
        }
    }

    /// Adds a record unless its key or a unique value is taken.
    fn add(&mut self, entity: &EntityDesc, record: Record) -> Result<Record> {
        let wire = |field: &usize| entity.fields[*field].wire;
        let key = Key(record[entity.primary].clone());
        if self.0.contains_key(&key) {
            return Err(Error::unique([wire(&entity.primary)]));
        }
        for unique in entity.uniques {
            let Some(values) = unique_key(entity, unique, &record) else {
                continue;
            };
            let taken =
                |other: &Record| unique_key(entity, unique, other).as_ref() == Some(&values);
            if self.records().any(taken) {
                return Err(Error::unique(unique.fields.iter().map(wire)));
            }
        }
        Arc::make_mut(&mut self.0).insert(key, Arc::clone(&record));
        Ok(record)
    }

    /// Gives a record the next integer key if it has none. Returns whether it did.
    fn generate_key(&self, entity: &EntityDesc, values: &mut [Value]) -> Result<bool> {
        if values.len() != entity.fields.len() {
            return Err(Error::internal("an insert takes one value per field"));
        }
        if !values[entity.primary].is_null() {
            return Ok(false);
        }
        if !matches!(entity.primary_field().kind, Kind::Integer) {
            return Err(Error::internal("a record without a key"));
        }
        let last = match self.0.last_key_value() {
            Some((Key(Value::Int(last)), _)) => *last,
            _ => 0,
        };
        values[entity.primary] = Value::Int(last.max(0) + 1);
        Ok(true)
    }
}
