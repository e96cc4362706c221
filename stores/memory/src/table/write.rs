//! Changes of the records of a table. A statement makes all its changes or none.

use super::{Change, Data, Record, Table};
use linchpin_core::filter::Filter;
use linchpin_core::store::assign;
use linchpin_core::store::evaluate::same_keys;
use linchpin_core::store::{Assign, Pick, Rows};
use linchpin_core::{Error, Result, Value};

impl Table {
    /// Adds a record. If the store generated the key, the record is added to `rows`, because the
    /// caller does not know the key.
    pub(crate) fn insert(
        &self,
        data: &mut Data,
        mut values: Vec<Value>,
        rows: &mut Rows,
    ) -> Result<()> {
        if values.len() != self.entity.fields.len() {
            return Err(Error::internal("an insert takes one value per field"));
        }
        let primary = self.entity.primary;
        let generated = values[primary].is_null();
        if generated {
            values[primary] = self.next_key(data)?;
        }
        let record: Record = values.into();
        self.check_free(data, &record)?;
        self.link(data, &record);
        if generated {
            rows.push(&record[..]);
        } else {
            rows.record(&record[..]);
        }
        self.outbox.append(rows.entries());
        Ok(())
    }

    /// Changes the matching records. If a unique constraint is violated, all of them stay
    /// unchanged.
    pub(crate) fn update(
        &self,
        (data, others): Change<'_>,
        (filter, pick): (&Filter, Option<&Pick>),
        set: &[Assign],
        args: &[Value],
        rows: &mut Rows,
    ) -> Result<()> {
        let old = self.picked(data, others, filter, pick, args);
        self.replace(data, &old, set, args, rows)?;
        self.outbox.append(rows.entries());
        Ok(())
    }

    /// Replaces all old records by the changed ones, or none of them.
    fn replace(
        &self,
        data: &mut Data,
        old: &[Record],
        set: &[Assign],
        args: &[Value],
        rows: &mut Rows,
    ) -> Result<()> {
        let new: Vec<Record> = old
            .iter()
            .map(|record| assign(record, set, args).map(Record::from))
            .collect::<Result<_>>()?;
        // All old records are removed before new ones are added, so that one statement can exchange
        // unique values between records.
        for record in old {
            self.unlink(data, record);
        }
        for (done, record) in new.iter().enumerate() {
            if let Err(error) = self.check_free(data, record) {
                for record in &new[..done] {
                    self.unlink(data, record);
                }
                for record in old {
                    self.link(data, record);
                }
                return Err(error);
            }
            self.link(data, record);
        }
        for record in &new {
            rows.push(&record[..]);
        }
        Ok(())
    }

    /// Adds the first values of `args` as a record, or changes the existing record with the same
    /// keys.
    pub(crate) fn upsert(
        &self,
        (data, others): Change<'_>,
        keys: &[usize],
        (filter, set): (&Filter, &[Assign]),
        args: &[Value],
        rows: &mut Rows,
    ) -> Result<()> {
        let fields = self.entity.fields.len();
        let values = args
            .get(..fields)
            .ok_or_else(|| Error::internal("an upsert takes one value per field"))?;
        let new: Record = values.to_vec().into();
        let same = |old: &&Record| same_keys(self.entity, keys, &new, old);
        if let Some(old) = data.records.values().find(same).cloned() {
            if self.tables(data, others).matches(filter, &old, args) {
                self.replace(data, &[old], set, args, rows)?;
                self.outbox.append(rows.entries());
            }
            return Ok(());
        }
        let mut values = values.to_vec();
        if values[self.entity.primary].is_null() {
            values[self.entity.primary] = self.next_key(data)?;
        }
        let record: Record = values.into();
        self.check_free(data, &record)?;
        self.link(data, &record);
        rows.push(&record[..]);
        rows.created = true;
        self.outbox.append(rows.entries());
        Ok(())
    }

    /// Deletes the matching records.
    pub(crate) fn delete(
        &self,
        (data, others): Change<'_>,
        filter: &Filter,
        pick: Option<&Pick>,
        args: &[Value],
        rows: &mut Rows,
    ) {
        let gone = self.picked(data, others, filter, pick, args);
        for record in gone {
            self.unlink(data, &record);
            rows.push(&record[..]);
        }
        self.outbox.append(rows.entries());
    }
}
