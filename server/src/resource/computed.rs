//! Computed fields: their values are computed from other fields of the record. Each statement that
//! changes those fields also writes the computed values.
//!
//! No store can call a function of the app. So the computed value is an argument of the statement
//! that writes its inputs. It is computed from the record as it was read and from the changes of
//! the statement. The statement then writes only if the record is unchanged; after a concurrent
//! change, the record is read again. A statement that changes several records may need a different
//! value for each. Then a transaction locks the records and writes their computed values first.
//! After that, the statement changes all of them at once.

use std::cmp::Ordering;
use std::sync::Arc;

use super::statement::Statements;
use super::write::ChangeAttempts;
use crate::entity::EntityDesc;
use crate::filter::eval::compare;
use crate::filter::{Filter, Op, Operand, Source};
use crate::store::assign;
use crate::store::{Assign, AssignValue, Plan, Reply, Row, Rows, Statement, layout};
use crate::validate::{list_value, out_of_range, too_long_for_index};
use crate::{Code, Cx, Error, Result, Value, ValueRef};

/// A record whose computed fields have no value yet.
struct WithoutComputed<'a> {
    desc: &'static EntityDesc,
    record: &'a [Value],
}

impl Row for WithoutComputed<'_> {
    fn value(&self, field: usize) -> ValueRef<'_> {
        match self.desc.fields.get(field).and_then(|f| f.computed) {
            Some(computed) => (computed.blank)(),
            None => self.record.value(field),
        }
    }
}

/// Writes the computed fields of a record into it.
///
/// # Errors
/// `validation_failed` with `range` for a number outside the JSON range, and with `max_length` for
/// a text that is too long for its index; `internal` if the record cannot be read.
pub(super) fn fill(desc: &'static EntityDesc, record: &mut [Value]) -> Result<()> {
    for field in computed(desc) {
        record[field] = value(desc, field, record)?;
    }
    Ok(())
}

/// The value of a computed field in a record.
fn value(desc: &'static EntityDesc, field: usize, record: &[Value]) -> Result<Value> {
    let lacks = || Error::internal(format!("`{}` has no computed field at {field}", desc.name));
    let field_desc = desc.fields.get(field).ok_or_else(lacks)?;
    let value = (field_desc.computed.ok_or_else(lacks)?.value)(&WithoutComputed { desc, record })
        .map_err(Error::internal)?;
    match out_of_range(&value).or_else(|| too_long_for_index(&value, desc, field)) {
        // The inputs come from the caller, so it is the caller's error.
        Some(flaw) => Err(Error::invalid(flaw.at(field_desc.name_in_errors()))),
        None => Ok(value),
    }
}

fn computed(desc: &EntityDesc) -> impl Iterator<Item = usize> {
    (0..desc.fields.len()).filter(|field| desc.fields[*field].computed.is_some())
}

/// The computed fields that depend on written fields.
pub(crate) fn affected(desc: &EntityDesc, written: impl Fn(usize) -> bool) -> Vec<usize> {
    computed(desc)
        .filter(|field| inputs(desc, *field).any(&written))
        .collect()
}

/// The fields that a computed field depends on.
fn inputs(desc: &EntityDesc, field: usize) -> impl Iterator<Item = usize> {
    let from = desc.fields[field]
        .computed
        .map_or(&[][..], |computed| computed.from);
    let all = if from.is_empty() {
        0..desc.fields.len()
    } else {
        0..0
    };
    from.iter()
        .copied()
        .chain(all.filter(|of| desc.fields[*of].computed.is_none()))
}

/// The computed fields that become stale by assignments, without those that the assignments write.
fn stale(desc: &EntityDesc, set: &[Assign]) -> Vec<usize> {
    let written = |field: usize| set.iter().any(|a| a.field == field);
    let mut all = affected(desc, written);
    all.retain(|field| !written(*field));
    all
}

/// The fields that some computed fields depend on, each once.
fn inputs_of(desc: &EntityDesc, fields: &[usize]) -> Vec<usize> {
    let mut all: Vec<usize> = fields
        .iter()
        .flat_map(|field| inputs(desc, *field))
        .collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// `field = argument`, for fields whose values are consecutive arguments.
fn set_from(desc: &EntityDesc, fields: &[usize], at: usize) -> impl Iterator<Item = Assign> {
    fields.iter().enumerate().map(move |(i, field)| {
        let source = Source::Arg {
            index: at + i,
            nullable: desc.fields[*field].optional,
        };
        Assign {
            field: *field,
            value: AssignValue::Set(source),
        }
    })
}

/// The condition that fields still have the values of consecutive arguments.
fn unchanged(desc: &EntityDesc, fields: &[usize], at: usize) -> Filter {
    let same = |(i, field): (usize, &usize)| {
        let source = Source::Arg {
            index: at + i,
            nullable: desc.fields[*field].optional,
        };
        Filter::cond(*field, Op::Eq, Operand::One(source))
    };
    Filter::All(fields.iter().enumerate().map(same).collect())
}

/// Whether a filter matches at most one record: it fixes the key, or all fields of a unique.
fn matches_one(desc: &EntityDesc, filter: &Filter) -> bool {
    fn fixes(filter: &Filter, field: usize) -> bool {
        match filter {
            Filter::All(list) => list.iter().any(|part| fixes(part, field)),
            Filter::Cond {
                field: of,
                op: Op::Eq,
                value: Operand::One(_),
            } => *of == field,
            _ => false,
        }
    }
    fixes(filter, desc.primary)
        || desc
            .uniques
            .iter()
            .any(|unique| unique.fields.iter().all(|field| fixes(filter, *field)))
}

/// Whether a statement writes records of an entity with computed fields.
pub(super) fn applies_to(statement: &Statement) -> bool {
    matches!(
        statement.plan,
        Plan::Insert | Plan::Update { .. } | Plan::Upsert { .. }
    ) && computed(statement.entity).next().is_some()
}

/// The computed fields that a statement makes stale.
struct StaleFields {
    fields: Vec<usize>,
    inputs: Vec<usize>,
    /// The index of the first added argument.
    base: usize,
}

/// Statements that change any number of records of an entity with computed fields.
struct ManyStatements<'a> {
    set: &'a [Assign],
    /// Reads and locks the records.
    look: Arc<Statement>,
    /// Writes the computed fields of the records with the given keys.
    note: Arc<Statement>,
    /// Runs the original change on the locked records.
    write: Arc<Statement>,
}

impl Statements {
    /// Runs a statement with the values of computed fields.
    pub(super) fn computing<'a>(
        &'a self,
        cx: &Cx,
        statement: &'a Arc<Statement>,
        mut args: Vec<Value>,
        rows: Rows,
    ) -> Reply<'a> {
        let desc = statement.entity;
        let (set, creates): (&[Assign], bool) = match &statement.plan {
            Plan::Insert => (&[], true),
            Plan::Upsert { set, .. } => (set, true),
            Plan::Update { set, .. } => (set, false),
            _ => (&[], false),
        };
        if creates
            && let Some(record) = args.get_mut(..desc.fields.len())
            && let Err(error) = fill(desc, record)
        {
            return Reply::Ready(Err(error));
        }
        let fields = stale(desc, set);
        if fields.is_empty() {
            return self.dispatch(cx, statement, args, rows);
        }
        let stale = StaleFields {
            inputs: inputs_of(desc, &fields),
            fields,
            base: statement.plan.arity(desc),
        };
        let cx = cx.clone();
        Reply::Later(Box::pin(async move {
            match &statement.plan {
                Plan::Upsert { .. } => {
                    self.upsert_computed(&cx, statement, &stale, args, rows)
                        .await
                }
                Plan::Update {
                    filter, pick: None, ..
                } if matches_one(desc, filter) => {
                    self.update_computed(&cx, statement, &stale, args, rows)
                        .await
                }
                _ => {
                    self.update_all_computed(cx, statement, &stale, args, rows)
                        .await
                }
            }
        }))
    }

    /// Changes one record.
    async fn update_computed(
        &self,
        cx: &Cx,
        original: &Arc<Statement>,
        stale: &StaleFields,
        args: Vec<Value>,
        rows: Rows,
    ) -> Result<Rows> {
        let Plan::Update { filter, set, .. } = &original.plan else {
            return Err(Error::internal("no update"));
        };
        let desc = original.entity;
        let look = self.derived(original, b'c', || Plan::Select {
            filter: filter.clone(),
            order: Vec::new(),
            after: None,
            limit: None,
        })?;
        let write = self.derived(original, b'C', || Plan::Update {
            filter: filter.clone().and(unchanged(
                desc,
                &stale.inputs,
                stale.base + stale.fields.len(),
            )),
            set: set
                .iter()
                .cloned()
                .chain(set_from(desc, &stale.fields, stale.base))
                .collect(),
            pick: None,
        })?;
        let mut attempts = ChangeAttempts::default();
        let mut id = None;
        while attempts.next(cx, desc, id.as_ref()).await {
            let cx = attempts.inner(cx);
            let found = self
                .dispatch(cx, &look, args.clone(), Rows::records(desc))
                .await?
                .records;
            let old = match &found[..] {
                [] => return Ok(rows.without_recording()),
                [old] => old,
                // Several tenants have a record with this value of a unique.
                _ => {
                    return self
                        .update_all_computed(cx.clone(), original, stale, args, rows)
                        .await;
                }
            };
            let args = stale.args(desc, old, set, &args)?;
            let done = self.dispatch(cx, &write, args, rows.clone()).await?;
            if done.count > 0 {
                return Ok(done);
            }
            id = Some(old[desc.primary].clone());
        }
        Err(Error::kept_changing())
    }

    /// Changes any number of records: writes the computed values of each, then runs the statement.
    async fn update_all_computed(
        &self,
        cx: Cx,
        original: &Arc<Statement>,
        stale: &StaleFields,
        args: Vec<Value>,
        rows: Rows,
    ) -> Result<Rows> {
        let Plan::Update { filter, set, pick } = &original.plan else {
            return Err(Error::internal("no update"));
        };
        let (desc, count) = (original.entity, stale.fields.len());
        let with_keys_in = |index| {
            Filter::cond(
                desc.primary,
                Op::In,
                Operand::One(Source::Arg {
                    index,
                    nullable: false,
                }),
            )
        };
        let look = self.derived(original, b'd', || Plan::Lock {
            filter: filter.clone(),
            pick: pick.clone(),
        })?;
        let note = self.derived(original, b'n', || Plan::Update {
            filter: with_keys_in(count),
            set: set_from(desc, &stale.fields, 0).collect(),
            pick: None,
        })?;
        // The records are found by their keys. They matched the filter before, and are locked, but
        // may not match it any more after their computed values were written.
        let write = self.derived(original, b'D', || Plan::Update {
            filter: with_keys_in(stale.base),
            set: set.clone(),
            pick: None,
        })?;
        let (all, mut retry) = (
            ManyStatements {
                set,
                look,
                note,
                write,
            },
            self.retry(&cx, Some((original, &args))),
        );
        loop {
            let (args, rows) = (args.clone(), rows.clone());
            let done = retry
                .attempt(&cx, async |cx| {
                    self.write_all_computed(cx, &all, stale, args, rows).await
                })
                .await;
            if let Some(done) = retry.finished(done).await {
                return done;
            }
        }
    }

    /// Like [`Self::update_all_computed`], within a transaction.
    async fn write_all_computed(
        &self,
        cx: &Cx,
        all: &ManyStatements<'_>,
        stale: &StaleFields,
        mut args: Vec<Value>,
        rows: Rows,
    ) -> Result<Rows> {
        let (desc, set) = (self.desc(), all.set);
        let found = self
            .dispatch(cx, &all.look, args.clone(), Rows::records(desc))
            .await?
            .records;
        if found.is_empty() {
            return Ok(rows.without_recording());
        }
        let mut groups: Vec<(Vec<Value>, Vec<Value>)> = Vec::new();
        for old in &found {
            let values = stale.values(desc, old, set, &args)?;
            if stale
                .fields
                .iter()
                .zip(&values)
                .all(|(field, value)| old[*field] == *value)
            {
                continue;
            }
            groups.push((values, vec![old[desc.primary].clone()]));
        }
        // Records with equal computed values are written together.
        groups.sort_by(|(a, _), (b, _)| order(a, b));
        groups.dedup_by(|(next, keys), (one, all)| {
            let same = next == one;
            if same {
                all.append(keys);
            }
            same
        });
        let keys: Vec<Value> = found
            .iter()
            .map(|record| record[desc.primary].clone())
            .collect();
        args.truncate(stale.base);
        args.push(list_value(&keys));
        let done = async {
            for (mut values, keys) in groups {
                values.push(list_value(&keys));
                self.dispatch(cx, &all.note, values, Rows::count()).await?;
            }
            self.dispatch(cx, &all.write, args, rows).await
        };
        let done = done.await;
        // Some computed values may have been written already, so the transaction must roll back.
        if done.is_err()
            && let Some(transaction) = cx.in_transaction()
        {
            transaction.doom();
        }
        done
    }

    /// Creates a record, or changes the existing one.
    async fn upsert_computed(
        &self,
        cx: &Cx,
        original: &Arc<Statement>,
        stale: &StaleFields,
        args: Vec<Value>,
        rows: Rows,
    ) -> Result<Rows> {
        let Plan::Upsert { keys, filter, set } = &original.plan else {
            return Err(Error::internal("no upsert"));
        };
        let desc = original.entity;
        let look = self.derived(original, b'c', || Plan::Select {
            filter: layout::upsert_match(desc, keys),
            order: Vec::new(),
            after: None,
            limit: None,
        })?;
        let create = self.derived(original, b'i', || Plan::Upsert {
            keys: keys.clone(),
            filter: filter.clone().and(Filter::Any(Vec::new())),
            set: set.clone(),
        })?;
        // The values are computed from the existing record. A value computed from the new record
        // could conflict with another record.
        let further = stale.base + stale.fields.len();
        let change = self.derived(original, b'C', || Plan::Update {
            filter: filter
                .clone()
                .and(unchanged(desc, &stale.inputs, further))
                .and(Filter::eq_arg(desc.primary, further + stale.inputs.len())),
            set: set
                .iter()
                .cloned()
                .chain(set_from(desc, &stale.fields, stale.base))
                .collect(),
            pick: None,
        })?;
        let mut attempts = ChangeAttempts::default();
        // The record that was found and not changed.
        let mut refused: Option<Box<[Value]>> = None;
        // The record that a concurrent call has created.
        let mut existing: Option<Box<[Value]>> = None;
        let read = async || {
            let found = self
                .dispatch(cx, &look, args.clone(), Rows::records(desc))
                .await?;
            Ok::<_, Error>(found.records.into_iter().next())
        };
        while attempts
            .next(
                cx,
                desc,
                refused.as_ref().map(|record| &record[desc.primary]),
            )
            .await
        {
            let found = if existing.is_some() {
                existing.take()
            } else {
                read().await?
            };
            let (statement, args) = match &found {
                None => (&create, args.clone()),
                // The record is unchanged since the last attempt, so the caller cannot reach it.
                Some(old) if refused.as_ref() == Some(old) => return Ok(rows.without_recording()),
                Some(old) => {
                    let mut args = stale.args(desc, old, set, &args)?;
                    args.push(old[desc.primary].clone());
                    (&change, args)
                }
            };
            let done = match self.dispatch(cx, statement, args, rows.clone()).await {
                // If another call creates the same record concurrently, a unique over a computed
                // field may be checked before the keys. The conflict means that the record exists
                // now.
                Err(error) if found.is_none() && error.code() == Code::Conflict => {
                    existing = read().await?;
                    if existing.is_none() {
                        return Err(error);
                    }
                    continue;
                }
                done => done?,
            };
            if done.count > 0 {
                return Ok(done);
            }
            refused = found;
        }
        Err(Error::kept_changing())
    }
}

impl StaleFields {
    /// The values of the computed fields in a record after some assignments.
    fn values(
        &self,
        desc: &'static EntityDesc,
        old: &[Value],
        set: &[Assign],
        args: &[Value],
    ) -> Result<Vec<Value>> {
        let new = assign(old, set, args)?;
        self.fields
            .iter()
            .map(|field| value(desc, *field, &new))
            .collect()
    }

    /// The arguments of a statement on a record that was read: its own arguments, the computed
    /// values, and the inputs.
    fn args(
        &self,
        desc: &'static EntityDesc,
        old: &[Value],
        set: &[Assign],
        args: &[Value],
    ) -> Result<Vec<Value>> {
        let own = args.iter().take(self.base).cloned();
        let values = self.values(desc, old, set, args)?;
        Ok(own
            .chain(values)
            .chain(self.inputs.iter().map(|field| old[*field].clone()))
            .collect())
    }
}

/// Any order in which equal values are neighbours.
fn order(a: &[Value], b: &[Value]) -> Ordering {
    let each = a
        .iter()
        .zip(b)
        .map(|(a, b)| compare(a.as_ref(), b.as_ref()));
    each.fold(Ordering::Equal, Ordering::then)
}
