//! Effects of a change on other records: their counters, and the audit log.
//!
//! An effect depends on the records before and after the change. The transaction locks the records,
//! runs the statement on the locked records, and then writes the effects.

use std::sync::Arc;

use super::audit::{AuditLog, Seen};
use super::counter_backfill::{nameable, turn};
use super::prepared::Prepared;
use super::statement::Statements;
use super::summaries::{Move, Summaries};
use crate::cx::Auditing;
use crate::entity::{FieldDesc, Least};
use crate::filter::eval::compare;
use crate::filter::{Filter, Op, Operand, Source};
use crate::store::{Assign, AssignValue, Pick, Plan, Reply, Rows, Statement, layout};
use crate::validate::list_value;
use crate::{Code, Cx, Error, Problem, Result, Value};

/// A record before and after a change; `None` if it did not or does not exist.
type Pair<'a> = (Option<&'a [Value]>, Option<&'a [Value]>);

/// The audit of a call, and the log of the app.
pub(super) type Audit<'a> = (&'a AuditLog, Arc<Auditing>);

/// The effects of a change.
struct Effects<'a> {
    audit: Option<Audit<'a>>,
    summaries: Option<&'a Summaries>,
    /// Whether the transaction was begun for this change.
    whole: bool,
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
                whole: cx.in_transaction().is_none(),
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
        let whole = effects.whole || cx.has_taken() == Some(true);
        let inserts = matches!(statement.plan, Plan::Insert);
        let mut added = None;
        match effects.summaries {
            // The counters of a new record are known before the insert, and adding locks their records.
            Some(summaries) if inserts => {
                self.add(cx, summaries, &[(None, Some(&args))], false)
                    .await?;
                // A transaction of the app may continue without the record.
                added = (!whole).then(|| (summaries, args.clone()));
            }
            Some(summaries) if cx.has_taken().is_none() => {
                self.take_parents(cx, summaries, statement, &args).await?;
            }
            _ => {}
        }
        let (before, mut rows) = match (self.seen(cx, statement, args, rows).await, added) {
            (Ok(seen), _) => seen,
            (Err(error), None) => return Err(error),
            (Err(error), Some((summaries, args))) => {
                if self
                    .add(cx, summaries, &[(Some(&args), None)], true)
                    .await
                    .is_err()
                {
                    doom(cx);
                }
                return Err(error);
            }
        };
        let (removes, primary) = (
            matches!(statement.plan, Plan::Delete { .. }),
            self.desc().primary,
        );
        let after = rows.witnessed();
        let mut changes: Vec<Pair<'_>> = Vec::with_capacity(after.len());
        // By key: there may be as many as a batch changes.
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
                // Another call created it between the read and the write.
                (false, None) => {
                    doom(cx);
                    return Err(Error::kept_changing().conflicting_write());
                }
            });
        }
        if let Some(summaries) = effects.summaries.filter(|_| !inserts) {
            let moved = self
                .add(cx, summaries, &changes, cx.system_reason().is_some())
                .await;
            // The records have been changed already.
            if moved.is_err() {
                doom(cx);
            }
            moved?;
        }
        if inserts || rows.created {
            for record in changes
                .iter()
                .filter_map(|(before, after)| after.filter(|_| before.is_none()))
            {
                self.count_first(cx, record).await?;
            }
        }
        if let Some((log, auditing)) = &effects.audit {
            for (before, after) in changes {
                log.record(cx, auditing, self.desc(), Seen { before, after })
                    .await?;
            }
        }
        Ok(rows)
    }

    /// Adds to the counters of other records. `free` allows less than their minimum.
    async fn add(
        &self,
        cx: &Cx,
        summaries: &Summaries,
        changes: &[Pair<'_>],
        free: bool,
    ) -> Result<()> {
        let mut moves: Vec<Move> = Vec::new();
        for (before, after) in changes {
            summaries.moved(&mut moves, *before, *after);
        }
        for one in summaries.ordered(moves) {
            let group = summaries.group(one.group);
            if self
                .with_computed(cx, &group.add, group.addition(&one, free), Rows::count())
                .await?
                .count
                > 0
            {
                continue;
            }
            // The counter may not exist yet: the call that creates it counts the records that are
            // committed by then.
            if !self.alone() && nameable(group.target()) {
                self.take_turn(cx, turn(group.target(), one.key())).await?;
                if self
                    .with_computed(cx, &group.add, group.addition(&one, free), Rows::count())
                    .await?
                    .count
                    > 0
                {
                    continue;
                }
            }
            // A key may refer to no record. If the record exists, its counter is below the minimum
            // or above the maximum.
            let least = group.least(&one).filter(|_| !free);
            if (least.is_some() || one.grows())
                && self
                    .with_computed(cx, &group.there, group.which(&one), Rows::count())
                    .await?
                    .count
                    > 0
            {
                return Err(refused(least, &self.desc().fields[group.by()]));
            }
        }
        Ok(())
    }

    /// Counts the records that named a new record before it existed.
    async fn count_first(&self, cx: &Cx, record: &[Value]) -> Result<()> {
        let desc = self.desc();
        if !self.backfill().any() || !nameable(desc) {
            return Ok(());
        }
        self.take_turn(cx, turn(desc, &record[desc.primary]))
            .await?;
        for counter in self.backfill().prepared(desc, self.store())? {
            let counted = self
                .with_computed(
                    cx,
                    &counter.count,
                    counter.which(desc, record),
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

    async fn take_turn(&self, cx: &Cx, turn: i64) -> Result<()> {
        match cx.in_transaction() {
            Some(transaction) => transaction.take_turn(turn).await,
            None => Ok(()),
        }
    }

    /// Locks the records whose counters a statement changes, before the statement locks its own
    /// records.
    async fn take_parents(
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
        let mut concerned = Vec::new();
        if let Some(look) = self.look(statement)? {
            concerned = self
                .with_computed(cx, &look, args.to_vec(), Rows::records(self.desc()))
                .await?
                .records;
        }
        let mut new = vec![Value::Null; self.desc().fields.len()];
        for key in summaries.keys() {
            new[key] = written(&statement.plan, key, args);
        }
        let made = matches!(statement.plan, Plan::Upsert { .. })
            .then(|| args.get(..new.len()))
            .flatten();
        let all = concerned
            .iter()
            .map(|record| &**record)
            .chain([new.as_slice()])
            .chain(made);
        self.take(cx, summaries.parents(all)).await
    }

    async fn take(&self, cx: &Cx, parents: Vec<(&Arc<Statement>, Vec<Value>)>) -> Result<()> {
        for (take, keys) in parents {
            self.with_computed(cx, take, vec![list_value(&keys)], Rows::count())
                .await?;
        }
        Ok(())
    }

    /// The same for a statement that looks up keys before it runs. The look-up takes a shared lock,
    /// which would prevent the lock on a counter.
    pub(super) async fn take_before_keys(
        &self,
        cx: &Cx,
        prepared: &Prepared,
        args: &[Value],
    ) -> Result<()> {
        let Some(summaries) = self.summaries().filter(|_| !self.alone()) else {
            return Ok(());
        };
        let (statement, restricted) = self.restrict(cx, prepared, args.to_vec())?;
        if !summaries.concerned(&statement.plan) {
            return Ok(());
        }
        if let Plan::Insert = statement.plan {
            return self
                .take(cx, summaries.parents([restricted.as_slice()].into_iter()))
                .await;
        }
        self.take_parents(cx, summaries, &statement, &restricted)
            .await
    }

    /// The statement that reads the records that another one changes.
    fn look(&self, statement: &Arc<Statement>) -> Result<Option<Arc<Statement>>> {
        let (filter, pick) = match &statement.plan {
            Plan::Update { filter, pick, .. } | Plan::Delete { filter, pick } => {
                (filter.clone(), pick.clone())
            }
            Plan::Upsert { keys, .. } => (layout::met(self.desc(), keys), None),
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
    async fn seen(
        &self,
        cx: &Cx,
        statement: &Arc<Statement>,
        mut args: Vec<Value>,
        rows: Rows,
    ) -> Result<(Vec<Box<[Value]>>, Rows)> {
        let (desc, mut rows) = (self.desc(), rows.witnessing(self.desc()));
        let (looking, narrowed) = match &statement.plan {
            Plan::Update { filter, set, pick } => {
                let those = Source::Arg {
                    index: statement.plan.arity(desc),
                    nullable: false,
                };
                let filter_of = || {
                    filter.clone().and(Filter::cond(
                        desc.primary,
                        Op::In,
                        Operand::One(those.clone()),
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
                    filter: layout::met(desc, keys),
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
            .with_computed(cx, &looking, args.clone(), Rows::records(desc))
            .await?
            .records;
        if let Some(recording) = &mut rows.recording {
            recording.witness(&before);
        }
        let Some(write) = narrowed else {
            return Ok((before, self.with_computed(cx, statement, args, rows).await?));
        };
        if before.is_empty() {
            return Ok((before, rows.without_recording()));
        }
        // Only the records that were read, even if more match now.
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
fn written(plan: &Plan, field: usize, args: &[Value]) -> Value {
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
/// `key` is the field that names its record.
fn refused(least: Option<Least>, key: &FieldDesc) -> Error {
    match least {
        Some(Least { code, .. }) => {
            let code = if code == Code::Conflict.as_str() {
                Code::Conflict
            } else {
                Code::Other(409, code)
            };
            Error::new(code, "Fewer would be left than there must be")
        }
        None => Error::invalid(Problem::new(
            key.name_in_errors(),
            "range",
            "a counter of the related record would exceed ±9007199254740991",
        )),
    }
}

/// Makes the transaction of a call roll back: a part of the refused change has been written.
fn doom(cx: &Cx) {
    if let Some(transaction) = cx.in_transaction() {
        transaction.doom();
    }
}
