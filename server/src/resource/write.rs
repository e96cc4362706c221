//! Create, update and delete.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use super::key::valid_key;
use super::{Borrowed, Draft, Form, Table, computed};
use crate::entity::{DefaultDesc, EntityDesc, Flags, RecordCheck};
use crate::filter::{CtxPath, Filter, Op, Operand, Source};
use crate::store::queues::{self, Place};
use crate::store::{Assign, AssignValue, Plan, Rows};
use crate::{Cx, Error, Problem, Result, Value};

/// The maximum number of repetitions of a conditional write that changed nothing although a read of
/// the record finds no reason.
pub(crate) const MAX_REPEATS: usize = 3;
/// The maximum number of repetitions of a write that depends on a read, each after a concurrent
/// change of the record.
const MAX_ATTEMPTS: usize = 32;

/// The attempts of a change that depends on a read of its record.
///
/// Of several concurrent calls on one record, only one succeeds at a time. A call waits in a queue
/// of this process if other calls already wait there, or if its first attempt has failed because of
/// another call. The first call of the queue reads and writes while the others wait, so every call
/// succeeds in the end. After a conflict with another process or with a transaction, the call waits
/// for a random time and tries again.
///
/// A call waits in one queue at most: calls from the head of a queue use [`ChangeAttempts::inner`]
/// and wait in no other queue.
#[derive(Default)]
pub(crate) struct ChangeAttempts {
    attempts: usize,
    place: Option<Place>,
    /// The call at the head of a queue.
    head: Option<Cx>,
}

impl ChangeAttempts {
    /// Waits for the next attempt; `false` after the last one. The record may be known only after
    /// the first attempt.
    pub(crate) async fn next(&mut self, cx: &Cx, desc: &EntityDesc, id: Option<&Value>) -> bool {
        let attempt = self.attempts;
        if attempt == MAX_ATTEMPTS {
            return false;
        }
        self.attempts += 1;
        if let Some(rounds) = attempt.checked_sub(3) {
            self.place = None;
            // A call within a transaction does not sleep, because others wait for its locks.
            if cx.in_transaction().is_none() {
                // Each call has its own random state.
                let micros = RandomState::new().hash_one(attempt) % (1000 << rounds.min(6));
                tokio::time::sleep(Duration::from_micros(micros)).await;
            }
        }
        // A call within a transaction does not wait here, because the first call of the queue may
        // wait for its locks. The first call itself waits for no other call.
        if let (None, Some(id), None, false) =
            (&self.place, id, cx.in_transaction(), cx.is_at_queue_head())
        {
            let of = match id {
                Value::Int(id) => ("turns", desc.storage_name, Some(*id), None),
                other => ("turns", desc.storage_name, None, other.as_text()),
            };
            let alone = attempt == 0 && queues::is_free(of);
            if !alone {
                self.place = Some(queues::first(of).await);
                self.head.get_or_insert_with(|| cx.at_queue_head());
            }
        }
        true
    }

    /// The context for an attempt. At the head of a queue, the context is marked as such.
    pub(crate) fn inner<'a>(&'a self, cx: &'a Cx) -> &'a Cx {
        self.head.as_ref().unwrap_or(cx)
    }
}

impl Table {
    /// Creates a record. If it succeeds, the rows contain the record.
    ///
    /// # Errors
    /// `validation_failed` with every problem; `conflict` if another record has the key or a unique
    /// value.
    pub async fn create(&self, cx: &Cx, draft: Draft, form: &Form) -> Result<(Rows, Value)> {
        let values: Vec<Value> = self
            .checked_create(cx, draft)?
            .values
            .into_iter()
            .map(Option::unwrap_or_default)
            .collect();
        let mut rows = self.rows(form);
        rows.push(&values[..]);
        let id = values[self.desc.primary].clone();
        self.execute(cx, &self.fixed.insert, values, Rows::count())
            .rows()
            .await?;
        Ok((rows, id))
    }

    /// Checks the draft of a new record against every rule and fills in defaults.
    ///
    /// # Errors
    /// `validation_failed` with every problem.
    pub fn checked_create(&self, cx: &Cx, draft: Draft) -> Result<Draft> {
        self.new_record(cx, draft, self.desc.check)
    }

    /// Like [`checked_create`](Self::checked_create), without the rule over the whole record, which
    /// may not be needed.
    ///
    /// # Errors
    /// As [`checked_create`](Self::checked_create).
    pub(crate) fn checked_fields(&self, cx: &Cx, draft: Draft) -> Result<Draft> {
        self.new_record(cx, draft, None)
    }

    fn new_record(&self, cx: &Cx, draft: Draft, check: Option<RecordCheck>) -> Result<Draft> {
        let Draft {
            mut values,
            mut problems,
            mut defaulted,
        } = draft;
        self.stamp(cx, "create", &mut values)?;
        for (i, field) in self.desc.fields.iter().enumerate() {
            match &values[i] {
                // The field is computed from the other fields.
                _ if field.computed.is_some() => values[i] = Some(Value::Null),
                Some(Value::Null) if !field.optional => {
                    problems.push(Problem::new(
                        field.wire,
                        "null_not_allowed",
                        "must not be null",
                    ));
                }
                Some(value) => self.check_value(i, value, &mut problems),
                None => {
                    let value = match field.default {
                        DefaultDesc::Uuid => {
                            Value::Text(uuid::Uuid::now_v7().as_hyphenated().to_string())
                        }
                        DefaultDesc::Cuid => Value::Text(cuid2::create_id()),
                        DefaultDesc::Now => Value::Date(cx.now()),
                        DefaultDesc::Literal(value) => value(),
                        DefaultDesc::Ctx(path) => ctx_default(cx, path, field.optional)?,
                        DefaultDesc::None if field.flags.has(Flags::VERSION) => Value::Int(1),
                        DefaultDesc::None if field.flags.has(Flags::ON_UPDATE) => {
                            Value::Date(cx.now())
                        }
                        DefaultDesc::None if field.optional => Value::Null,
                        DefaultDesc::None => match field.empty() {
                            Some(empty) => empty,
                            None => {
                                // A member that is present but cannot be read has been reported
                                // already.
                                if !problems.iter().any(|p| p.path == field.wire) {
                                    problems.push(Problem::new(
                                        field.wire,
                                        "required",
                                        "is required",
                                    ));
                                }
                                continue;
                            }
                        },
                    };
                    if matches!(field.default, DefaultDesc::Ctx(_) | DefaultDesc::Now)
                        && !value.is_null()
                    {
                        self.check_value(i, &value, &mut problems);
                    }
                    values[i] = Some(value);
                    defaulted = defaulted.with(i);
                }
            }
        }
        if problems.is_empty() && (self.computes || check.is_some()) {
            let mut record: Vec<Value> =
                values.into_iter().map(Option::unwrap_or_default).collect();
            computed::fill(self.desc, &mut record)?;
            problems.extend(check.and_then(|check| check(&Borrowed(&record)).err()));
            values = record.into_iter().map(Some).collect();
        }
        if !problems.is_empty() {
            return Err(Error::validation(problems));
        }
        Ok(Draft {
            values,
            problems,
            defaulted,
        })
    }

    /// Changes the present fields of a draft and returns the record.
    ///
    /// # Errors
    /// `validation_failed`, `not_found`, `precondition_failed` when `version` is not the stored
    /// one, `conflict`.
    pub async fn update(
        &self,
        cx: &Cx,
        id: Value,
        draft: Draft,
        version: Option<i64>,
        form: &Form,
    ) -> Result<Rows> {
        let Draft { values, .. } = self.checked_update(draft)?;
        if values.iter().all(Option::is_none) {
            let rows = self.read(cx, "update", id, form).await?;
            return self.found(rows, version);
        }
        if let Some(check) = self.desc.check {
            return self
                .update_checked(cx, id, values, version, form, check)
                .await;
        }
        let sets: Vec<(usize, Value)> = values
            .into_iter()
            .enumerate()
            .filter_map(|(i, v)| Some((i, v?)))
            .collect();
        let mut conditions = vec![(self.desc.primary, id.clone())];
        if let (Some(v), Some(desc)) = (version, self.desc.version) {
            conditions.push((desc.field, Value::Int(v)));
        }
        self.write(cx, &id, conditions, sets, version, form).await
    }

    /// Checks the draft of a change against the rules of single fields. The rule over the whole
    /// record needs the record.
    ///
    /// # Errors
    /// `validation_failed` with every problem.
    pub fn checked_update(&self, draft: Draft) -> Result<Draft> {
        let Draft {
            values,
            mut problems,
            defaulted,
        } = draft;
        for (i, field) in self.desc.fields.iter().enumerate() {
            match &values[i] {
                Some(Value::Null) if !field.optional => {
                    problems.push(Problem::new(
                        field.wire,
                        "null_not_allowed",
                        "must not be null",
                    ));
                }
                Some(value) => self.check_value(i, value, &mut problems),
                None => {}
            }
        }
        if problems.is_empty() {
            Ok(Draft {
                values,
                problems,
                defaulted,
            })
        } else {
            Err(Error::validation(problems))
        }
    }

    // If there is a rule over the whole record, the write applies only if the record has not
    // changed since the rule was checked.
    async fn update_checked(
        &self,
        cx: &Cx,
        id: Value,
        values: Vec<Option<Value>>,
        version: Option<i64>,
        form: &Form,
        check: RecordCheck,
    ) -> Result<Rows> {
        let mut attempts = ChangeAttempts::default();
        while attempts.next(cx, self.desc, Some(&id)).await {
            let cx = attempts.inner(cx);
            let current = self.read(cx, "update", id.clone(), &Form::Records).await?;
            let mut current = self.found(current, version)?;
            let Some(old) = current.records.pop() else {
                return Err(Error::not_found());
            };
            let mut merged: Vec<Value> = old
                .iter()
                .zip(&values)
                .map(|(old, new)| new.as_ref().unwrap_or(old).clone())
                .collect();
            computed::fill(self.desc, &mut merged)?;
            check(&Borrowed(&merged)).map_err(Error::invalid)?;
            let unchanged = old.into_vec().into_iter().enumerate().collect();
            let sets = values
                .iter()
                .enumerate()
                .filter_map(|(i, v)| Some((i, v.clone()?)))
                .collect();
            match self.write_once(cx, "update", unchanged, sets, form).await? {
                rows if rows.count > 0 => return Ok(rows),
                _ => {}
            }
        }
        Err(Error::kept_changing())
    }

    async fn write(
        &self,
        cx: &Cx,
        id: &Value,
        conditions: Vec<(usize, Value)>,
        sets: Vec<(usize, Value)>,
        version: Option<i64>,
        form: &Form,
    ) -> Result<Rows> {
        for _ in 0..MAX_REPEATS {
            let rows = self
                .write_once(cx, "update", conditions.clone(), sets.clone(), form)
                .await?;
            if rows.count > 0 {
                return Ok(rows);
            }
            // No row was written: one read finds the reason. If it finds none, the record changed
            // in between.
            let current = self
                .read(
                    cx,
                    "update",
                    id.clone(),
                    &Form::Json(Arc::clone(&self.projection)),
                )
                .await?;
            self.found(current, version)?;
        }
        Err(Error::kept_changing())
    }

    /// Writes to the record if it still has these values; otherwise `count` is 0.
    ///
    /// # Errors
    /// If the store refuses the statement or fails.
    pub(crate) async fn write_once(
        &self,
        cx: &Cx,
        route: &'static str,
        conditions: Vec<(usize, Value)>,
        sets: Vec<(usize, Value)>,
        form: &Form,
    ) -> Result<Rows> {
        let mut shape = vec![b'u'];
        let mut args = Vec::with_capacity(conditions.len() + sets.len() + 1);
        for (field, value) in conditions {
            shape.extend_from_slice(&[field as u8, u8::from(value.is_null())]);
            args.push(value);
        }
        shape.push(0xff);
        let condition_count = args.len();
        for (field, value) in sets {
            shape.push(field as u8);
            args.push(value);
        }
        let set_count = args.len() - condition_count;
        args.push(Value::Date(cx.now()));
        let key = shape.clone();
        let statement = self.shape(route, &key, || {
            let filter = (0..condition_count)
                .map(|i| {
                    Filter::cond(
                        usize::from(shape[1 + 2 * i]),
                        Op::Eq,
                        Operand::One(Source::Arg {
                            index: i,
                            nullable: shape[2 + 2 * i] == 1,
                        }),
                    )
                })
                .fold(Filter::TRUE, Filter::and);
            let set = (0..set_count)
                .map(|i| Assign {
                    field: usize::from(shape[2 + 2 * condition_count + i]),
                    value: AssignValue::Set(Source::Arg {
                        index: condition_count + i,
                        nullable: true,
                    }),
                })
                .collect();
            Plan::Update {
                filter,
                set: self.touch(set, condition_count + set_count),
                pick: None,
            }
        })?;
        self.execute(cx, &statement, args, self.rows(form))
            .rows()
            .await
    }

    /// Adds the values that every change writes: on-update dates (from the argument slot `now`) and
    /// the version.
    pub fn touch(&self, set: Vec<Assign>, now: usize) -> Vec<Assign> {
        super::touch::touch(self.desc, set, now)
    }

    /// Removes a record in any state, even if deletion only marks records. For the application
    /// itself.
    ///
    /// # Errors
    /// `forbidden` on behalf of an actor; `not_found`.
    pub async fn purge(&self, cx: &Cx, id: Value) -> Result<()> {
        if cx.system_reason().is_none() {
            return Err(Error::forbidden());
        }
        match self
            .execute(cx, &self.fixed.purge, vec![id], Rows::count())
            .await?
            .count
        {
            0 => Err(Error::not_found()),
            _ => Ok(()),
        }
    }

    /// Removes a record.
    ///
    /// # Errors
    /// `not_found`; `precondition_failed` when `version` is not the stored one.
    pub async fn delete(&self, cx: &Cx, id: Value, version: Option<i64>) -> Result<()> {
        for _ in 0..MAX_REPEATS {
            let (statement, args) = match (version, &self.fixed.delete_version) {
                (Some(version), Some(statement)) => {
                    (statement, vec![id.clone(), Value::Int(version)])
                }
                _ => (&self.fixed.delete, vec![id.clone()]),
            };
            if self
                .execute(cx, statement, args, Rows::count())
                .rows()
                .await?
                .count
                > 0
            {
                return Ok(());
            }
            let current = self
                .read(
                    cx,
                    "delete",
                    id.clone(),
                    &Form::Json(Arc::clone(&self.projection)),
                )
                .await?;
            self.found(current, version)?;
        }
        Err(Error::kept_changing())
    }

    fn check_value(&self, field: usize, value: &Value, problems: &mut Vec<Problem>) {
        if field == self.desc.primary
            && let Value::Text(text) = value
            && !valid_key(text)
        {
            let wire = self.desc.fields[field].wire;
            problems.push(Problem::new(
                wire,
                "format",
                "must be 1 to 255 bytes without control characters, and not `.` or `..`",
            ));
            return;
        }
        self.validator
            .check(field, value, self.desc.fields[field].wire, problems);
    }
}

/// A context value as the default of a field; a call of the application itself has none.
pub(super) fn ctx_default(cx: &Cx, path: CtxPath, optional: bool) -> Result<Value> {
    if optional && cx.system_reason().is_some() {
        Ok(Value::Null)
    } else {
        cx.bind(path)
    }
}
