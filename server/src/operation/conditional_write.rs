//! Conditional writes: one `UPDATE` with its condition in the `WHERE` clause.
//!
//! Every operation kind that changes one record under a condition uses this module. If no row was
//! changed, one read finds the reason.

use super::bind::{self, Slots};
use super::write::Write;
use super::{AssignSpec, OpSpec};
use crate::filter::Filter;
use crate::resource::{Call, Form, MAX_REPEATS, Prepared, Table};
use crate::store::{Assign, Plan, Rows};
use crate::{Error, Result, Value};

/// The reason why a visible record was not changed.
pub(crate) enum Refusal {
    /// The condition holds now: another call changed the record in between.
    Retry,
    /// The record already has the wanted values; it is returned as it is.
    Unchanged,
    /// The call is refused with this error.
    Error(Error),
}

/// A planned conditional write.
pub(crate) struct ConditionalWrite {
    spec: &'static OpSpec,
    matches: &'static [AssignSpec],
    write: Write,
    read: Prepared,
    read_slots: Slots,
}

impl ConditionalWrite {
    /// Plans a write of `fixed` and `set` to the record whose fields equal `matches`, on the
    /// condition that the filter `guard` is true for the record.
    ///
    /// # Errors
    /// When the store refuses a statement.
    pub(crate) fn new(
        spec: &'static OpSpec,
        table: &Table,
        matches: &'static [AssignSpec],
        guard: Filter,
        fixed: Vec<Assign>,
        set: &'static [AssignSpec],
    ) -> Result<Self> {
        let mut read_slots = Slots::default();
        let filter = read_slots.filter(table.desc, bind::equalities(matches));
        let read = table.prepare(
            spec.name,
            Plan::Select {
                filter,
                order: Vec::new(),
                after: None,
                limit: None,
            },
        )?;
        let write = Write::new(
            spec,
            table,
            bind::equalities(matches).and(guard),
            fixed,
            set,
        )?;
        Ok(Self {
            spec,
            matches,
            write,
            read,
            read_slots,
        })
    }

    /// Runs the write. `refuse` explains a visible record that was not changed.
    ///
    /// # Errors
    /// `validation_failed`, `not_found`, `precondition_failed`, the error of `refuse`, and
    /// `conflict` if the record keeps changing.
    pub(crate) async fn run(
        &self,
        table: &Table,
        call: &Call<'_>,
        refuse: impl Fn(&[Value]) -> Refusal,
    ) -> Result<Rows> {
        bind::check(self.spec, table, call, self.write.set())?;
        table.refuse_ambiguous(call.cx, self.matches)?;
        let expected = table.desc.version.and(call.version);
        if self.write.writes_nothing(call) {
            return table.found(self.read(table, call, call.form).await?, expected);
        }
        let variant = self.write.of(table, call, expected)?;
        for _ in 0..MAX_REPEATS {
            let args = variant.values(call, expected)?;
            let rows = table
                .execute(call.cx, &variant.statement, args, table.rows(call.form))
                .await?;
            if rows.count > 0 {
                return Ok(rows);
            }
            let rows = table.found(self.read(table, call, &Form::Records).await?, expected)?;
            match rows.records.first().map(|record| refuse(record)) {
                Some(Refusal::Error(error)) => return Err(error),
                Some(Refusal::Retry) => {}
                Some(Refusal::Unchanged) => {
                    return table.found(self.read(table, call, call.form).await?, expected);
                }
                None => return Err(Error::not_found()),
            }
        }
        Err(Error::kept_changing())
    }

    /// Reads the matching record, if the caller can see it.
    ///
    /// # Errors
    /// If the store fails.
    pub(crate) async fn read(&self, table: &Table, call: &Call<'_>, form: &Form) -> Result<Rows> {
        let args = self.read_slots.values(call.cx, &call.args)?;
        table
            .execute(call.cx, &self.read, args, table.rows(form))
            .await
    }
}
