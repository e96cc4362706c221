//! Changes of records that something goes along with: the numbers that other records keep of them,
//! and the audit log.
//!
//! What goes along with a change rests on what the records were and what they are. So they are
//! taken first, then the statement runs on those that were taken, and all of it is one transaction.

use std::sync::Arc;

use super::firsts::{nameable, turn};
use super::prepared::Prepared;
use super::statement::Statements;
use super::summaries::{Move, Summaries};
use crate::audit::{Auditing, Seen};
use crate::entity::{FieldDesc, Least};
use crate::filter::eval::compare;
use crate::filter::{Filter, Op, Operand, Source};
use crate::store::{Assign, AssignValue, Pick, Plan, Reply, Rows, Statement, layout};
use crate::validate::list_value;
use crate::{Code, Cx, Error, Problem, Result, Value};

/// A record as it was and as it is: `None` where there was, or is, none.
type Pair<'a> = (Option<&'a [Value]>, Option<&'a [Value]>);

/// What goes along with a change.
struct Along<'a> {
    auditing: Option<Arc<Auditing>>,
    summaries: Option<&'a Summaries>,
    /// Whether the transaction is this one's.
    whole: bool,
}

impl Statements {
    /// Runs a statement that changes records, and what goes along with that.
    pub(super) fn with_consequences<'a>(
        &'a self,
        cx: Cx,
        auditing: Option<Arc<Auditing>>,
        summaries: Option<&'a Summaries>,
        statement: &'a Arc<Statement>,
        args: Vec<Value>,
        rows: Rows,
    ) -> Reply<'a> {
        Reply::Later(Box::pin(async move {
            let along = Along {
                auditing,
                summaries,
                whole: cx.in_transaction().is_none(),
            };
            let mut again = self.again(&cx, Some((statement, &args)));
            loop {
                let (args, rows) = (args.clone(), rows.clone());
                let done = again
                    .attempt(&cx, async |cx| {
                        self.consequences(cx, &along, statement, args, rows).await
                    })
                    .await;
                if let Some(done) = again.over(done).await {
                    return done;
                }
            }
        }))
    }

    async fn consequences(
        &self,
        cx: &Cx,
        along: &Along<'_>,
        statement: &Arc<Statement>,
        args: Vec<Value>,
        rows: Rows,
    ) -> Result<Rows> {
        let whole = along.whole || cx.has_taken() == Some(true);
        let inserts = matches!(statement.plan, Plan::Insert);
        let mut added = None;
        match along.summaries {
            // What a new record adds is known before, and the addition takes what it adds to.
            Some(summaries) if inserts => {
                self.add(cx, summaries, &[(None, Some(&args))], false)
                    .await?;
                // A transaction of the user's may go on without the record.
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
                // Made by somebody else between the look and the write.
                (false, None) => {
                    doom(cx);
                    return Err(Error::kept_changing().overtaken());
                }
            });
        }
        if let Some(summaries) = along.summaries.filter(|_| !inserts) {
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
        if let Some(auditing) = &along.auditing {
            for (before, after) in changes {
                auditing
                    .tell(cx, self.desc(), Seen { before, after })
                    .await?;
            }
        }
        Ok(rows)
    }

    /// Moves the numbers that other records keep by what changes make of them. `free` says that
    /// fewer than the least may be left.
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
                .send(cx, &group.add, group.addition(&one, free), Rows::count())
                .await?
                .count
                > 0
            {
                continue;
            }
            // There may be none yet: whoever makes it counts what has been committed by then.
            if !self.alone() && nameable(group.target()) {
                self.take_turn(cx, turn(group.target(), one.key())).await?;
                if self
                    .send(cx, &group.add, group.addition(&one, free), Rows::count())
                    .await?
                    .count
                    > 0
                {
                    continue;
                }
            }
            // A key may name nothing. Where there is a record, it holds too few or too many.
            let least = group.least(&one).filter(|_| !free);
            if (least.is_some() || one.grows())
                && self
                    .send(cx, &group.there, group.which(&one), Rows::count())
                    .await?
                    .count
                    > 0
            {
                return Err(refused(least, &self.desc().fields[group.by()]));
            }
        }
        Ok(())
    }

    /// Counts what has named a new record before it was there.
    async fn count_first(&self, cx: &Cx, record: &[Value]) -> Result<()> {
        let desc = self.desc();
        if !self.firsts().any() || !nameable(desc) {
            return Ok(());
        }
        self.take_turn(cx, turn(desc, &record[desc.primary]))
            .await?;
        for first in self.firsts().prepared(desc, self.store())? {
            let counted = self
                .send(cx, &first.count, first.which(desc, record), Rows::values(1))
                .await?
                .records;
            if let Some(number @ Value::Int(1..)) = counted.first().and_then(|row| row.first()) {
                let args = vec![record[desc.primary].clone(), number.clone()];
                self.send(cx, &first.write, args, Rows::count()).await?;
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

    /// Takes the records that keep numbers of those which a statement is about to change, before it
    /// takes these.
    async fn take_parents(
        &self,
        cx: &Cx,
        summaries: &Summaries,
        statement: &Arc<Statement>,
        args: &[Value],
    ) -> Result<()> {
        // The only one that writes has taken everything.
        if self.alone() {
            return Ok(());
        }
        let mut concerned = Vec::new();
        if let Some(look) = self.look(statement)? {
            concerned = self
                .send(cx, &look, args.to_vec(), Rows::records(self.desc()))
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
            self.send(cx, take, vec![list_value(&keys)], Rows::count())
                .await?;
        }
        Ok(())
    }

    /// The same for a statement that has keys looked up before it runs: whoever looks up a record
    /// holds it, and could not take it then.
    pub(super) async fn take_before_keys(
        &self,
        cx: &Cx,
        prepared: &Prepared,
        args: &[Value],
    ) -> Result<()> {
        let Some(summaries) = self.summaries().filter(|_| !self.alone()) else {
            return Ok(());
        };
        let (statement, settled) = self.settled(cx, prepared, args.to_vec())?;
        if !summaries.concerned(&statement.plan) {
            return Ok(());
        }
        if let Plan::Insert = statement.plan {
            return self
                .take(cx, summaries.parents([settled.as_slice()].into_iter()))
                .await;
        }
        self.take_parents(cx, summaries, &statement, &settled).await
    }

    /// Reads what a statement is about to change, as far as it is there.
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

    /// Runs a statement; the records that it changes as they were, and what it answers.
    async fn seen(
        &self,
        cx: &Cx,
        statement: &Arc<Statement>,
        mut args: Vec<Value>,
        rows: Rows,
    ) -> Result<(Vec<Box<[Value]>>, Rows)> {
        let (desc, rows) = (self.desc(), rows.witnessing(self.desc()));
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
            _ => return Ok((Vec::new(), self.send(cx, statement, args, rows).await?)),
        };
        let before = self
            .send(cx, &looking, args.clone(), Rows::records(desc))
            .await?
            .records;
        let Some(write) = narrowed else {
            return Ok((before, self.send(cx, statement, args, rows).await?));
        };
        if before.is_empty() {
            return Ok((before, rows.without_recording()));
        }
        // The records that were seen, whatever else matches by now.
        let keys: Vec<Value> = before
            .iter()
            .map(|record| record[desc.primary].clone())
            .collect();
        args.truncate(statement.plan.arity(desc));
        args.push(list_value(&keys));
        let rows = self.send(cx, &write, args, rows).await?;
        Ok((before, rows))
    }
}

/// What an update writes to a field; null when it writes nothing, or nothing that is known before.
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

/// Why a number could not be moved: by its least, if it has gone down to that, else by what numbers
/// may be. `key` names the record that keeps it.
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
            key.told(),
            "range",
            "a number of what it names would go beyond ±9007199254740991",
        )),
    }
}

/// Nothing of the transaction may last: a part of what was refused has happened.
fn doom(cx: &Cx) {
    if let Some(transaction) = cx.in_transaction() {
        transaction.doom();
    }
}
