//! Effects of a change on other records: their counters, and the audit log.
//!
//! An effect depends on the records before and after the change. The transaction locks the records,
//! runs the statement on the locked records, and then writes the effects.

use std::sync::Arc;

use super::audit::{AuditLog, RecordChange};
use super::counter_backfill::{advisory_lock_id, is_key_predictable};
use super::prepared::Prepared;
use super::statement::Statements;
use super::summaries::{Difference, Summaries};
use crate::cx::Auditing;
use crate::entity::{FieldDesc, Least};
use crate::filter::eval::compare;
use crate::filter::{Filter, Op, Operand, Source};
use crate::store::{Assign, AssignValue, Pick, Plan, Reply, Rows, Statement, layout};
use crate::validate::list_value;
use crate::{Code, Cx, Error, Problem, Result, Value};

/// A record before and after a change. `None` before the change if it is new, and after the change
/// if it was deleted.
type Pair<'a> = (Option<&'a [Value]>, Option<&'a [Value]>);

/// The audit of a call, and the log of the app.
pub(super) type Audit<'a> = (&'a AuditLog, Arc<Auditing>);

/// The effects of a change.
struct Effects<'a> {
    audit: Option<Audit<'a>>,
    summaries: Option<&'a Summaries>,
    /// Whether the transaction was begun for this change.
    own_transaction: bool,
}

impl Statements {
    /// Runs a statement and writes its effects, in one transaction. Repeats the transaction after a
    /// concurrent change.
    pub(super) fn changing<'a>(
        &'a self,
        cx: Cx,
        audit: Option<Audit<'a>>,
        summaries: Option<&'a Summaries>,
        statement: &'a Arc<Statement>,
        args: Vec<Value>,
        rows: Rows,
    ) -> Reply<'a> {
        Reply::Later(Box::pin(async move {
            let effects = Effects {
                audit,
                summaries,
                own_transaction: cx.in_transaction().is_none(),
            };
            let mut retry = self.retry(&cx, Some((statement, &args)));
            loop {
                let (args, rows) = (args.clone(), rows.clone());
                let done = retry
                    .attempt(&cx, async |cx| {
                        self.change(cx, &effects, statement, args, rows).await
                    })
                    .await;
                if let Some(done) = retry.finished(done).await {
                    return done;
                }
            }
        }))
    }

    async fn change(
        &self,
        cx: &Cx,
        effects: &Effects<'_>,
        statement: &Arc<Statement>,
        args: Vec<Value>,
        rows: Rows,
    ) -> Result<Rows> {
        let own_transaction = effects.own_transaction || cx.locks_held() == Some(true);
        let inserts = matches!(statement.plan, Plan::Insert);
        let mut to_undo = None;
        match effects.summaries {
            // The counters that a new record changes are known before the insert. Adding to them
            // locks their records.
            Some(summaries) if inserts => {
                self.add(cx, summaries, &[(None, Some(&args))], false)
                    .await?;
                // A transaction of the app may continue after the insert has failed. Then this
                // addition must be undone.
                to_undo = (!own_transaction).then(|| (summaries, args.clone()));
            }
            Some(summaries) if cx.locks_held().is_none() => {
                self.lock_counter_records(cx, summaries, statement, &args)
                    .await?;
            }
            _ => {}
        }
        let (before, mut rows) = match (
            self.run_with_before(cx, statement, args, rows).await,
            to_undo,
        ) {
            (Ok(seen), _) => seen,
            (Err(error), None) => return Err(error),
            (Err(error), Some((summaries, args))) => {
                if self
                    .add(cx, summaries, &[(Some(&args), None)], true)
                    .await
                    .is_err()
                {
                    must_roll_back(cx);
                }
                return Err(error);
            }
        };
        let (removes, primary) = (
            matches!(statement.plan, Plan::Delete { .. }),
            self.desc().primary,
        );
        let after = rows.take_changed_records();
        let mut changes: Vec<Pair<'_>> = Vec::with_capacity(after.len());
        // Sorted by key for the search below, because a batch may change many records.
        let mut by_key: Vec<&[Value]> = before.iter().map(|record| &**record).collect();
        by_key.sort_unstable_by(|a, b| compare(a[primary].as_ref(), b[primary].as_ref()));
        for record in &after {
            let known = by_key
                .binary_search_by(|old| compare(old[primary].as_ref(), record[primary].as_ref()))
                .ok()
                .map(|at| by_key[at]);
            changes.push(match (removes, known) {
                (true, _) => (Some(record), None),
                (false, Some(old)) => (Some(old), Some(record)),
                (false, None) if inserts || rows.created => (None, Some(record)),
                // Another call created the record between the read and the write.
                (false, None) => {
                    must_roll_back(cx);
                    return Err(Error::kept_changing().conflicting_write());
                }
            });
        }
        if let Some(summaries) = effects.summaries.filter(|_| !inserts) {
            let result = self
                .add(cx, summaries, &changes, cx.system_reason().is_some())
                .await;
            // The records have been changed already, so the transaction must roll back.
            if result.is_err() {
                must_roll_back(cx);
            }
            result?;
        }
        if inserts || rows.created {
            for record in changes
                .iter()
                .filter_map(|(before, after)| after.filter(|_| before.is_none()))
            {
                self.count_earlier_references(cx, record).await?;
            }
        }
        if let Some((log, auditing)) = &effects.audit {
            for (before, after) in changes {
                log.record(cx, auditing, self.desc(), RecordChange { before, after })
                    .await?;
            }
        }
        Ok(rows)
    }

    /// Adds to the counters of other records. With `ignore_minimum`, a counter may fall below its
    /// minimum.
    async fn add(
        &self,
        cx: &Cx,
        summaries: &Summaries,
        changes: &[Pair<'_>],
        ignore_minimum: bool,
    ) -> Result<()> {
        let mut differences: Vec<Difference> = Vec::new();
        for (before, after) in changes {
            summaries.collect_differences(&mut differences, *before, *after);
        }
        for difference in summaries.ordered(differences) {
            let group = summaries.group(difference.group);
            if self
                .with_computed(
                    cx,
                    &group.add,
                    group.addition(&difference, ignore_minimum),
                    Rows::count(),
                )
                .await?
                .count
                > 0
            {
                continue;
            }
            // The record with the counter may not exist yet. The call that creates it counts the
            // records that are committed at that time.
            if !self.alone() && is_key_predictable(group.target()) {
                self.take_advisory_lock(cx, advisory_lock_id(group.target(), difference.key()))
                    .await?;
                if self
                    .with_computed(
                        cx,
                        &group.add,
                        group.addition(&difference, ignore_minimum),
                        Rows::count(),
                    )
                    .await?
                    .count
                    > 0
                {
                    continue;
                }
            }
            // Nothing was added: either no record has this key, which is allowed, or its counter
            // would fall below the minimum or exceed the maximum.
            let least = group.least(&difference).filter(|_| !ignore_minimum);
            if (least.is_some() || difference.grows())
                && self
                    .with_computed(
                        cx,
                        &group.exists,
                        group.key_args(&difference),
                        Rows::count(),
                    )
                    .await?
                    .count
                    > 0
            {
                return Err(counter_error(least, &self.desc().fields[group.by()]));
            }
        }
        Ok(())
    }

    /// Counts the records that referred to a new record before it existed.
    async fn count_earlier_references(&self, cx: &Cx, record: &[Value]) -> Result<()> {
        let desc = self.desc();
        if !self.backfill().has_counters() || !is_key_predictable(desc) {
            return Ok(());
        }
        self.take_advisory_lock(cx, advisory_lock_id(desc, &record[desc.primary]))
            .await?;
        for counter in self.backfill().prepared(desc, self.store())? {
            let counted = self
                .with_computed(
                    cx,
                    &counter.count,
                    counter.key_args(desc, record),
                    Rows::values(1),
                )
                .await?
                .records;
            if let Some(number @ Value::Int(1..)) = counted.first().and_then(|row| row.first()) {
                let args = vec![record[desc.primary].clone(), number.clone()];
                self.with_computed(cx, &counter.write, args, Rows::count())
                    .await?;
            }
        }
        Ok(())
    }

    /// Takes an advisory lock until the end of the call's transaction. Without a transaction, it
    /// does nothing.
    async fn take_advisory_lock(&self, cx: &Cx, key: i64) -> Result<()> {
        match cx.in_transaction() {
            Some(transaction) => transaction.take_advisory_lock(key).await,
            None => Ok(()),
        }
    }

    /// Locks the records whose counters a statement changes, before the statement locks its own
    /// records.
    async fn lock_counter_records(
        &self,
        cx: &Cx,
        summaries: &Summaries,
        statement: &Arc<Statement>,
        args: &[Value],
    ) -> Result<()> {
        // A store with one writer needs no locks.
        if self.alone() {
            return Ok(());
        }
        let mut changed_records = Vec::new();
        if let Some(look) = self.read_statement(statement)? {
            changed_records = self
                .with_computed(cx, &look, args.to_vec(), Rows::records(self.desc()))
                .await?
                .records;
        }
        let mut new = vec![Value::Null; self.desc().fields.len()];
        for key in summaries.keys() {
            new[key] = written_value(&statement.plan, key, args);
        }
        let new_record = matches!(statement.plan, Plan::Upsert { .. })
            .then(|| args.get(..new.len()))
            .flatten();
        let all = changed_records
            .iter()
            .map(|record| &**record)
            .chain([new.as_slice()])
            .chain(new_record);
        self.lock_parents(cx, summaries.parents(all)).await
    }

    /// Locks records with counters. Each statement gets the keys of the records to lock.
    async fn lock_parents(
        &self,
        cx: &Cx,
        parents: Vec<(&Arc<Statement>, Vec<Value>)>,
    ) -> Result<()> {
        for (lock, keys) in parents {
            self.with_computed(cx, lock, vec![list_value(&keys)], Rows::count())
                .await?;
        }
        Ok(())
    }

    /// Locks the records whose counters a statement changes, for a statement that looks up keys
    /// before it runs. The look-up takes a shared lock, which would prevent the lock on a counter.
    pub(super) async fn lock_counters_before_keys(
        &self,
        cx: &Cx,
        prepared: &Prepared,
        args: &[Value],
    ) -> Result<()> {
        let Some(summaries) = self.summaries().filter(|_| !self.alone()) else {
            return Ok(());
        };
        let (statement, restricted) = self.restrict(cx, prepared, args.to_vec())?;
        if !summaries.applies_to(&statement.plan) {
            return Ok(());
        }
        if let Plan::Insert = statement.plan {
            return self
                .lock_parents(cx, summaries.parents([restricted.as_slice()].into_iter()))
                .await;
        }
        self.lock_counter_records(cx, summaries, &statement, &restricted)
            .await
    }

    /// The statement that reads the records that another one changes.
    fn read_statement(&self, statement: &Arc<Statement>) -> Result<Option<Arc<Statement>>> {
        let (filter, pick) = match &statement.plan {
            Plan::Update { filter, pick, .. } | Plan::Delete { filter, pick } => {
                (filter.clone(), pick.clone())
            }
            Plan::Upsert { keys, .. } => (layout::upsert_match(self.desc(), keys), None),
            _ => return Ok(None),
        };
        let select = || {
            let (order, limit) = match pick {
                Some(Pick { order, limit, .. }) => {
                    (order, Some(Source::Value(Value::Int(i64::from(limit)))))
                }
                None => (Vec::new(), None),
            };
            Plan::Select {
                filter,
                order,
                after: None,
                limit,
            }
        };
        self.derived(statement, b's', select).map(Some)
    }

    /// Runs a statement. Returns its records before the change, and its rows.
    async fn run_with_before(
        &self,
        cx: &Cx,
        statement: &Arc<Statement>,
        mut args: Vec<Value>,
        rows: Rows,
    ) -> Result<(Vec<Box<[Value]>>, Rows)> {
        let (desc, mut rows) = (self.desc(), rows.with_changed_records(self.desc()));
        let (lock, limited_update) = match &statement.plan {
            Plan::Update { filter, set, pick } => {
                let keys_argument = Source::Arg {
                    index: statement.plan.arity(desc),
                    nullable: false,
                };
                let filter_of = || {
                    filter.clone().and(Filter::cond(
                        desc.primary,
                        Op::In,
                        Operand::One(keys_argument.clone()),
                    ))
                };
                let look = self.derived(statement, b'l', || Plan::Lock {
                    filter: filter.clone(),
                    pick: pick.clone(),
                })?;
                let write = self.derived(statement, b'w', || Plan::Update {
                    filter: filter_of(),
                    set: set.clone(),
                    pick: None,
                })?;
                (look, Some(write))
            }
            Plan::Upsert { keys, .. } => (
                self.derived(statement, b'l', || Plan::Lock {
                    filter: layout::upsert_match(desc, keys),
                    pick: None,
                })?,
                None,
            ),
            _ => {
                return Ok((
                    Vec::new(),
                    self.with_computed(cx, statement, args, rows).await?,
                ));
            }
        };
        let before = self
            .with_computed(cx, &lock, args.clone(), Rows::records(desc))
            .await?
            .records;
        if let Some(recording) = &mut rows.recording {
            recording.set_before(&before);
        }
        let Some(write) = limited_update else {
            return Ok((before, self.with_computed(cx, statement, args, rows).await?));
        };
        if before.is_empty() {
            return Ok((before, rows.without_recording()));
        }
        // The change is limited to the records that were read, even if more match now.
        let keys: Vec<Value> = before
            .iter()
            .map(|record| record[desc.primary].clone())
            .collect();
        args.truncate(statement.plan.arity(desc));
        args.push(list_value(&keys));
        let rows = self.with_computed(cx, &write, args, rows).await?;
        Ok((before, rows))
    }
}

/// The value that an update writes to a field; null if it writes none or computes it in the store.
fn written_value(plan: &Plan, field: usize, args: &[Value]) -> Value {
    let set: &[Assign] = match plan {
        Plan::Update { set, .. } | Plan::Upsert { set, .. } => set,
        _ => &[],
    };
    match set
        .iter()
        .find(|assign| assign.field == field)
        .map(|assign| &assign.value)
    {
        Some(AssignValue::Set(Source::Arg { index, .. })) => {
            args.get(*index).cloned().unwrap_or_default()
        }
        Some(AssignValue::Set(Source::Value(value))) => value.clone(),
        _ => Value::Null,
    }
}

/// The error of a counter that cannot change: below its minimum, or outside the range of numbers.
/// `key` is the foreign key that refers to the record with the counter.
fn counter_error(least: Option<Least>, key: &FieldDesc) -> Error {
    match least {
        Some(Least { code, .. }) => {
            let code = if code == Code::Conflict.as_str() {
                Code::Conflict
            } else {
                Code::Other(409, code)
            };
            Error::new(
                code,
                "The number of related records would fall below its minimum",
            )
        }
        None => Error::invalid(Problem::new(
            key.name_in_errors(),
            "range",
            "a counter of the related record would exceed ±9007199254740991",
        )),
    }
}

/// Makes the transaction of a call roll back: a part of the refused change has been written.
fn must_roll_back(cx: &Cx) {
    if let Some(transaction) = cx.in_transaction() {
        transaction.doom();
    }
}
