//! Referential integrity: a written key must refer to a visible record, and a deletion follows the
//! `on_delete` rules of its dependents.
//!
//! [`Table::execute`] calls this module for every route and operation. Both checks run in the
//! transaction of the statement. A key takes a shared lock on the record that it refers to, so that
//! no other call deletes that record in between. A deletion runs before its effects. So a
//! concurrent write of the deleted key either precedes the deletion, and its record is found, or is
//! refused.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use super::gate::{Admission, Viewer};
use super::prepared::Change;
use super::restriction::{Included, Reach};
use super::{Prepared, Table};
use crate::cx::Retry;
use crate::entity::{EntityDesc, Gate, OnDelete};
use crate::filter::{Filter, Op, Operand, Source};
use crate::store::{Assign, AssignValue, Order, Pick, Plan, Rows};
use crate::validate::list_value;
use crate::{Code, Cx, Error, Problem, Result, Value};

/// The maximum number of records or keys in one statement.
const CHUNK: u32 = 500;

/// A foreign key of another entity that refers to this entity.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dependent {
    /// The other entity.
    entity: &'static EntityDesc,
    /// The position of the foreign key.
    key: usize,
    /// The `on_delete` rule for the record with the foreign key.
    rule: OnDelete,
}

impl Dependent {
    /// Whether the dependent can prevent a deletion, directly or through its own dependents.
    pub(super) fn may_prevent_deletion(&self) -> bool {
        // The effects of a cascade are known only when it runs. Until then it counts as one that
        // can prevent the deletion.
        matches!(self.rule, OnDelete::Restrict | OnDelete::Cascade)
    }
}

/// The dependents of an entity among all entities of an app.
pub(super) fn dependents(
    on: &EntityDesc,
    all: impl Iterator<Item = &'static EntityDesc>,
) -> Vec<Dependent> {
    let mut found: Vec<Dependent> = Vec::new();
    for entity in all {
        for relation in entity.relations {
            if let Some((key, rule)) = relation.enforced()
                && (relation.target)().storage_name == on.storage_name
            {
                found.push(Dependent { entity, key, rule });
            }
        }
    }
    // Relations that refuse the deletion come before those that change records.
    found.sort_by_key(|d| {
        (
            !matches!(d.rule, OnDelete::Restrict),
            d.entity.storage_name,
            d.key,
        )
    });
    found
}

/// The foreign keys of an entity that must refer to visible records.
pub(super) struct References {
    all: Vec<Reference>,
    /// Reads a record of the entity without restriction; prepared at its first use.
    own: OnceLock<Prepared>,
}

/// A foreign key that must refer to a visible record of `target`, because of a gate or a relation.
pub(super) struct Reference {
    field: usize,
    target: &'static EntityDesc,
    gate: Option<&'static Gate>,
    /// The statements for callers and for the app itself; each is prepared at its first use.
    lock_statements: [OnceLock<LockStatement>; 2],
}

/// The statement that locks the record of a key.
struct LockStatement {
    statement: Prepared,
    admission: Admission,
}

impl References {
    /// Collects the foreign keys. The check of a gate includes that of a relation on the same
    /// field.
    pub(super) fn new(desc: &'static EntityDesc) -> Self {
        let mut all: Vec<Reference> = Vec::new();
        let gates = desc
            .gates
            .iter()
            .map(|gate| (gate.field, gate.target, Some(gate)));
        let relations = desc
            .relations
            .iter()
            .filter_map(|relation| Some((relation.enforced()?.0, (relation.target)(), None)));
        for (field, target, gate) in gates.chain(relations) {
            let known = |reference: &Reference| {
                reference.field == field && reference.target.storage_name == target.storage_name
            };
            if gate.is_some() || !all.iter().any(known) {
                all.push(Reference {
                    field,
                    target,
                    gate,
                    lock_statements: Default::default(),
                });
            }
        }
        Self {
            all,
            own: OnceLock::new(),
        }
    }

    fn of(&self, field: usize) -> impl Iterator<Item = &Reference> {
        self.all
            .iter()
            .filter(move |reference| reference.field == field)
    }
}

impl Table {
    /// Runs a statement that writes foreign keys. Each key must refer to a visible record.
    ///
    /// # Errors
    /// `validation_failed` with `reference` for each key without a visible record; otherwise the
    /// errors of the statement.
    pub(super) async fn referring(
        &self,
        cx: Cx,
        prepared: &Prepared,
        args: Vec<Value>,
        rows: Rows,
    ) -> Result<Rows> {
        let keys = written_keys(prepared, &args);
        if keys.is_empty() {
            return self.statements().execute(&cx, prepared, args, rows).await;
        }
        let (mut retry, own_transaction) = (
            self.statements()
                .retry(&cx, Some((&prepared.statement, &args))),
            cx.in_transaction().is_none(),
        );
        loop {
            let (args, rows) = (args.clone(), rows.clone());
            let done = retry
                .attempt(&cx, async |cx| {
                    self.check_and_run(cx, own_transaction, &keys, prepared, args, rows)
                        .await
                })
                .await;
            if let Some(done) = retry.finished(done).await {
                return done;
            }
        }
    }

    /// Checks the keys and runs the statement, within a transaction. `own_transaction` means that
    /// the transaction was begun for this statement only.
    async fn check_and_run(
        &self,
        cx: &Cx,
        own_transaction: bool,
        keys: &[(usize, Value)],
        prepared: &Prepared,
        args: Vec<Value>,
        rows: Rows,
    ) -> Result<Rows> {
        self.statements()
            .lock_counters_before_keys(cx, prepared, &args)
            .await?;
        let mut problems = Vec::new();
        for (field, value) in keys {
            for reference in self.references.of(*field) {
                if !self
                    .sibling(reference.target)?
                    .lock_referenced(cx, reference, value.clone())
                    .await?
                {
                    let text = format!(
                        "does not refer to an existing record of {}",
                        reference.target.name
                    );
                    problems.push(Problem::new(
                        self.desc.fields[*field].wire,
                        "reference",
                        text,
                    ));
                    break;
                }
            }
        }
        if !problems.is_empty() {
            return Err(Error::validation(problems));
        }
        self.statements()
            .execute(&cx.with_locks_held(own_transaction), prepared, args, rows)
            .await
    }

    /// Whether the entity has foreign keys that must refer to records.
    pub(crate) fn has_references(&self) -> bool {
        !self.references.all.is_empty()
    }

    /// Checks the foreign keys of a restored record. Each must refer to a visible record, which
    /// stays locked until the end of the transaction.
    ///
    /// # Errors
    /// `conflict` with `reference` for each key without a visible record. The transaction is then
    /// rolled back.
    pub(crate) async fn check_restored(&self, cx: &Cx, id: Value) -> Result<()> {
        let result = self.lock_all_referenced(cx, id).await;
        if result.is_err()
            && let Some(transaction) = cx.in_transaction()
        {
            transaction.doom();
        }
        result
    }

    async fn lock_all_referenced(&self, cx: &Cx, id: Value) -> Result<()> {
        let own = match self.references.own.get() {
            Some(own) => own,
            None => {
                let filter = Filter::eq_arg(self.desc.primary, 0);
                let own = self.unrestricted(Plan::Select {
                    filter,
                    order: Vec::new(),
                    after: None,
                    limit: None,
                })?;
                self.references.own.get_or_init(|| own)
            }
        };
        let found = self
            .statements()
            .execute(&cx.unlimited(), own, vec![id], Rows::records(self.desc))
            .await?
            .records;
        let mut problems: Vec<Problem> = Vec::new();
        for record in &found {
            for reference in &self.references.all {
                let (key, path) = (
                    &record[reference.field],
                    self.desc.fields[reference.field].name_in_errors(),
                );
                let known = problems.iter().any(|problem| problem.path == path);
                if !key.is_null()
                    && !known
                    && !self
                        .sibling(reference.target)?
                        .lock_referenced(cx, reference, key.clone())
                        .await?
                {
                    problems.push(Problem::new(
                        path,
                        "reference",
                        format!(
                            "does not refer to an existing record of {}",
                            reference.target.name
                        ),
                    ));
                }
            }
        }
        if problems.is_empty() {
            return Ok(());
        }
        Err(Error::new(
            Code::Conflict,
            "This record refers to a record that no longer exists",
        )
        .with_details(problems))
    }

    /// The attempts of an internal transaction.
    pub(crate) fn retry(&self, cx: &Cx) -> Retry {
        self.statements().retry(cx, None)
    }

    /// Whether a key refers to a visible record that satisfies the conditions of the gate. The
    /// record stays locked until the transaction of `cx` has ended.
    async fn lock_referenced(&self, cx: &Cx, reference: &Reference, key: Value) -> Result<bool> {
        let slot = &reference.lock_statements[usize::from(cx.reaches_all())];
        let lock = match slot.get() {
            Some(lock) => lock,
            None => {
                let lock = self.lock_statement(reference.gate, cx.reaches_all())?;
                slot.get_or_init(|| lock)
            }
        };
        let mut args = vec![key];
        lock.admission.arguments(cx, &mut args);
        // The call may be limited to some records of the referring entity. These conditions do not
        // apply to the record that the key refers to.
        Ok(self
            .statements()
            .execute(&cx.unlimited(), &lock.statement, args, Rows::count())
            .await?
            .count
            > 0)
    }

    fn lock_statement(&self, gate: Option<&Gate>, system: bool) -> Result<LockStatement> {
        let viewer = Viewer {
            reach: if system { Reach::System } else { Reach::Caller },
            reads: false,
        };
        let (admission, further) = gate.map_or((Admission::default(), Filter::TRUE), |gate| {
            Admission::of(gate, viewer, 1)
        });
        let filter = Filter::eq_arg(self.desc.primary, 0).and(further);
        let statement = self.prepare(Included::Hold.name(), Plan::Hold { filter })?;
        Ok(LockStatement {
            statement,
            admission,
        })
    }

    /// Deletes records, then updates or deletes their dependents.
    ///
    /// # Errors
    /// `conflict` with `referenced` if a relation refuses the deletion. Nothing is changed then,
    /// and an outer transaction is rolled back. Otherwise the errors of the statement.
    pub(super) async fn deleting(
        &self,
        cx: Cx,
        prepared: &Prepared,
        args: Vec<Value>,
        rows: Rows,
    ) -> Result<Rows> {
        let mut retry = self
            .statements()
            .retry(&cx, Some((&prepared.statement, &args)));
        loop {
            let (args, rows) = (args.clone(), rows.clone());
            let done = retry
                .attempt(&cx, async |cx| {
                    self.delete_all(cx, prepared, args, rows).await
                })
                .await;
            if let Some(done) = retry.finished(done).await {
                return done;
            }
        }
    }

    /// Deletes the records and applies the rules, within a transaction.
    async fn delete_all(
        &self,
        cx: &Cx,
        prepared: &Prepared,
        args: Vec<Value>,
        rows: Rows,
    ) -> Result<Rows> {
        let rows = rows.noting([self.desc.primary].into());
        let mut rows = self.statements().execute(cx, prepared, args, rows).await?;
        let keys = keys_of(&mut rows);
        let result = self.apply_on_delete(&cx.for_effects(), keys).await;
        // A part of the deletion has been done, so the transaction must roll back.
        if result.is_err()
            && let Some(transaction) = cx.in_transaction()
        {
            transaction.doom();
        }
        result.map(|()| rows)
    }

    /// Applies the `on_delete` rules to the dependents of deleted records, then to their
    /// dependents. A record is deleted once, so cycles end.
    async fn apply_on_delete(&self, cx: &Cx, keys: Vec<Value>) -> Result<()> {
        let mut tables: BTreeMap<&'static str, Arc<Self>> = BTreeMap::new();
        let mut work: Vec<(&'static EntityDesc, Vec<Value>)> = vec![(self.desc, keys)];
        while let Some((entity, keys)) = work.pop() {
            let table = if let Some(table) = tables.get(entity.storage_name) {
                Arc::clone(table)
            } else {
                let table = self.sibling(entity)?;
                tables.insert(entity.storage_name, Arc::clone(&table));
                table
            };
            for chunk in keys.chunks(CHUNK as usize) {
                for dependent in table.dependents() {
                    let other = self.sibling(dependent.entity)?;
                    match dependent.rule {
                        OnDelete::None => {}
                        OnDelete::Restrict => {
                            other
                                .refuse_if_referenced(cx, &table, dependent.key, chunk)
                                .await?;
                        }
                        OnDelete::SetNull => {
                            other.clear_references(cx, dependent.key, chunk).await?;
                        }
                        OnDelete::Cascade => {
                            while let deleted =
                                other.delete_referencing(cx, dependent.key, chunk).await?
                                && !deleted.is_empty()
                            {
                                let last = deleted.len() < CHUNK as usize;
                                if !other.dependents().is_empty() {
                                    work.push((dependent.entity, deleted));
                                }
                                if last {
                                    break;
                                }
                            }
                        }
                    }
                }
            }
        }
        Ok(())
    }

    async fn refuse_if_referenced(
        &self,
        cx: &Cx,
        target: &Self,
        key: usize,
        keys: &[Value],
    ) -> Result<()> {
        let statement = self.shape("delete", &[b'n', key as u8], || Plan::Exists {
            filter: refers_to_any(key),
        })?;
        if self
            .statements()
            .execute(cx, &statement, vec![list_value(keys)], Rows::count())
            .await?
            .count
            == 0
        {
            return Ok(());
        }
        let problem = Problem::new(
            target.desc.primary_field().wire,
            "referenced",
            format!("is referenced by a record of {}", self.desc.name),
        );
        Err(Error::new(Code::Conflict, "Other records depend on it").with_details(vec![problem]))
    }

    async fn clear_references(&self, cx: &Cx, key: usize, keys: &[Value]) -> Result<()> {
        let statement = self.shape("update", &[b'o', key as u8], || {
            let null = Assign {
                field: key,
                value: AssignValue::Set(Source::Value(Value::Null)),
            };
            Plan::Update {
                filter: refers_to_any(key),
                set: self.touch(vec![null], 1),
                pick: Some(self.first_chunk()),
            }
        })?;
        loop {
            let args = vec![list_value(keys), Value::Date(cx.now())];
            if self
                .statements()
                .execute(cx, &statement, args, Rows::count())
                .await?
                .count
                < CHUNK as usize
            {
                return Ok(());
            }
        }
    }

    /// Deletes up to 500 records that refer to one of these keys. Returns the keys of the deleted
    /// records.
    async fn delete_referencing(&self, cx: &Cx, key: usize, keys: &[Value]) -> Result<Vec<Value>> {
        let remove = || Plan::Delete {
            filter: refers_to_any(key),
            pick: Some(self.first_chunk()),
        };
        let statement = self.shape("delete", &[b'x', key as u8], remove)?;
        let rows = Rows::count().noting([self.desc.primary].into());
        let mut rows = self
            .statements()
            .execute(cx, &statement, vec![list_value(keys)], rows)
            .await?;
        Ok(keys_of(&mut rows))
    }

    fn first_chunk(&self) -> Pick {
        Pick::part(
            vec![Order {
                field: self.desc.primary,
                desc: false,
            }],
            CHUNK,
        )
    }
}

/// The keys that a statement writes. An upsert can write two values to one field.
fn written_keys(prepared: &Prepared, args: &[Value]) -> Vec<(usize, Value)> {
    let Change::Keys(sources) = prepared.change() else {
        return Vec::new();
    };
    let mut keys: Vec<(usize, Value)> = Vec::new();
    for (field, source) in sources.iter() {
        let value = match source {
            Source::Arg { index, .. } => args.get(*index).cloned().unwrap_or_default(),
            Source::Value(value) => value.clone(),
            Source::Param(_) | Source::Ctx(_) | Source::Now => Value::Null,
        };
        let pair = (*field, value);
        if !pair.1.is_null() && !keys.contains(&pair) {
            keys.push(pair);
        }
    }
    keys
}

/// The condition for records that refer to one of the keys in the first argument.
fn refers_to_any(key: usize) -> Filter {
    Filter::cond(
        key,
        Op::In,
        Operand::One(Source::Arg {
            index: 0,
            nullable: false,
        }),
    )
}

/// Takes the keys out of the notes of a result.
fn keys_of(rows: &mut Rows) -> Vec<Value> {
    rows.notes
        .take()
        .map(|notes| notes.rows)
        .unwrap_or_default()
        .into_iter()
        .filter_map(|note| note.values.into_iter().next())
        .collect()
}
