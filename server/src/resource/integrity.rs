//! Referential integrity: a written key must name a visible record, and a deletion follows the
//! `on_delete` rules of its dependents.
//!
//! [`Table::execute`] calls this module for every route and operation. Both checks run in the
//! transaction of the statement. A key takes a shared lock on the record that it refers to, so that
//! no other call deletes that record in between. A deletion runs before its effects: a concurrent
//! record with the deleted key was either written before, and is found, or is refused.

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

/// The most records or keys in one statement.
const CHUNK: u32 = 500;

/// A field of another entity that contains keys of this one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dependent {
    /// The other entity.
    entity: &'static EntityDesc,
    /// The field.
    key: usize,
    /// The rule for its record.
    rule: OnDelete,
}

impl Dependent {
    /// Whether it can forbid a deletion, directly or through its own dependents.
    pub(super) fn keeps(&self) -> bool {
        // The effects of a cascade are found when it runs. Until then, assume that they can change
        // records.
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

/// The records that the keys of an entity must name.
pub(super) struct Names {
    all: Vec<Name>,
    /// Reads a record of the entity without restriction; prepared at its first use.
    own: OnceLock<Prepared>,
}

/// The entity whose records a key must name, because of a gate or a relation.
pub(super) struct Name {
    field: usize,
    target: &'static EntityDesc,
    gate: Option<&'static Gate>,
    /// For callers and for the app itself; each prepared at its first use.
    held: [OnceLock<LockStatement>; 2],
}

/// The statement that locks the record of a key.
struct LockStatement {
    statement: Prepared,
    admission: Admission,
}

impl Names {
    /// A gate includes the check of a relation.
    pub(super) fn new(desc: &'static EntityDesc) -> Self {
        let mut all: Vec<Name> = Vec::new();
        let gates = desc
            .gates
            .iter()
            .map(|gate| (gate.field, gate.target, Some(gate)));
        let relations = desc
            .relations
            .iter()
            .filter_map(|relation| Some((relation.enforced()?.0, (relation.target)(), None)));
        for (field, target, gate) in gates.chain(relations) {
            let known = |name: &Name| {
                name.field == field && name.target.storage_name == target.storage_name
            };
            if gate.is_some() || !all.iter().any(known) {
                all.push(Name {
                    field,
                    target,
                    gate,
                    held: Default::default(),
                });
            }
        }
        Self {
            all,
            own: OnceLock::new(),
        }
    }

    fn of(&self, field: usize) -> impl Iterator<Item = &Name> {
        self.all.iter().filter(move |name| name.field == field)
    }
}

impl Table {
    /// Runs a statement that writes keys. Each key must name a visible record.
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
        let keys = named(prepared, &args);
        if keys.is_empty() {
            return self.statements().execute(&cx, prepared, args, rows).await;
        }
        let (mut retry, whole) = (
            self.statements()
                .retry(&cx, Some((&prepared.statement, &args))),
            cx.in_transaction().is_none(),
        );
        loop {
            let (args, rows) = (args.clone(), rows.clone());
            let done = retry
                .attempt(&cx, async |cx| {
                    self.refer(cx, whole, &keys, prepared, args, rows).await
                })
                .await;
            if let Some(done) = retry.finished(done).await {
                return done;
            }
        }
    }

    /// The same within a transaction. `whole` means that the transaction was begun for this
    /// statement only.
    async fn refer(
        &self,
        cx: &Cx,
        whole: bool,
        keys: &[(usize, Value)],
        prepared: &Prepared,
        args: Vec<Value>,
        rows: Rows,
    ) -> Result<Rows> {
        self.statements()
            .take_before_keys(cx, prepared, &args)
            .await?;
        let mut problems = Vec::new();
        for (field, value) in keys {
            for name in self.names.of(*field) {
                if !self
                    .sibling(name.target)?
                    .hold(cx, name, value.clone())
                    .await?
                {
                    let text = format!("names no record of {}", name.target.name);
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
            .execute(&cx.having_taken(whole), prepared, args, rows)
            .await
    }

    /// Whether the entity has keys that must name records.
    pub(crate) fn names_records(&self) -> bool {
        !self.names.all.is_empty()
    }

    /// Checks the keys of a restored record: each must name a visible record, which stays locked
    /// until the end of the transaction.
    ///
    /// # Errors
    /// `conflict` with `reference` for each key without a visible record. The transaction is then
    /// rolled back.
    pub(crate) async fn coming_back(&self, cx: &Cx, id: Value) -> Result<()> {
        let held = self.hold_named(cx, id).await;
        if held.is_err()
            && let Some(transaction) = cx.in_transaction()
        {
            transaction.doom();
        }
        held
    }

    async fn hold_named(&self, cx: &Cx, id: Value) -> Result<()> {
        let own = match self.names.own.get() {
            Some(own) => own,
            None => {
                let filter = Filter::eq_arg(self.desc.primary, 0);
                let own = self.unrestricted(Plan::Select {
                    filter,
                    order: Vec::new(),
                    after: None,
                    limit: None,
                })?;
                self.names.own.get_or_init(|| own)
            }
        };
        let found = self
            .statements()
            .execute(&cx.unlimited(), own, vec![id], Rows::records(self.desc))
            .await?
            .records;
        let mut problems: Vec<Problem> = Vec::new();
        for record in &found {
            for name in &self.names.all {
                let (key, path) = (
                    &record[name.field],
                    self.desc.fields[name.field].name_in_errors(),
                );
                let known = problems.iter().any(|problem| problem.path == path);
                if !key.is_null()
                    && !known
                    && !self
                        .sibling(name.target)?
                        .hold(cx, name, key.clone())
                        .await?
                {
                    problems.push(Problem::new(
                        path,
                        "reference",
                        format!("names no record of {}", name.target.name),
                    ));
                }
            }
        }
        if problems.is_empty() {
            return Ok(());
        }
        Err(Error::new(Code::Conflict, "What it belongs to is gone").with_details(problems))
    }

    /// The attempts of a transaction of the engine.
    pub(crate) fn retry(&self, cx: &Cx) -> Retry {
        self.statements().retry(cx, None)
    }

    /// Whether a key names a visible record that it may name. The record stays locked until the
    /// transaction of `cx` has ended.
    async fn hold(&self, cx: &Cx, name: &Name, key: Value) -> Result<bool> {
        let slot = &name.held[usize::from(cx.reaches_all())];
        let held = match slot.get() {
            Some(held) => held,
            None => {
                let held = self.holding(name.gate, cx.reaches_all())?;
                slot.get_or_init(|| held)
            }
        };
        let mut args = vec![key];
        held.admission.arguments(cx, &mut args);
        // The conditions on the records that refer to it do not matter here.
        Ok(self
            .statements()
            .execute(&cx.unlimited(), &held.statement, args, Rows::count())
            .await?
            .count
            > 0)
    }

    fn holding(&self, gate: Option<&Gate>, system: bool) -> Result<LockStatement> {
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

    /// Within a transaction.
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
        let followed = self.follow(&cx.for_effects(), keys).await;
        // Half of it has been done.
        if followed.is_err()
            && let Some(transaction) = cx.in_transaction()
        {
            transaction.doom();
        }
        followed.map(|()| rows)
    }

    /// Applies the `on_delete` rules to the dependents of deleted records, then to their
    /// dependents. A record is deleted once, so cycles end.
    async fn follow(&self, cx: &Cx, keys: Vec<Value>) -> Result<()> {
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
                            other.refuse_named(cx, &table, dependent.key, chunk).await?;
                        }
                        OnDelete::SetNull => other.forget(cx, dependent.key, chunk).await?,
                        OnDelete::Cascade => {
                            while let gone = other.remove_naming(cx, dependent.key, chunk).await?
                                && !gone.is_empty()
                            {
                                let last = gone.len() < CHUNK as usize;
                                if !other.dependents().is_empty() {
                                    work.push((dependent.entity, gone));
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

    async fn refuse_named(&self, cx: &Cx, named: &Self, key: usize, keys: &[Value]) -> Result<()> {
        let statement = self.shape("delete", &[b'n', key as u8], || Plan::Exists {
            filter: naming(key),
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
            named.desc.primary_field().wire,
            "referenced",
            format!("is named by a record of {}", self.desc.name),
        );
        Err(Error::new(Code::Conflict, "Other records depend on it").with_details(vec![problem]))
    }

    async fn forget(&self, cx: &Cx, key: usize, keys: &[Value]) -> Result<()> {
        let statement = self.shape("update", &[b'o', key as u8], || {
            let null = Assign {
                field: key,
                value: AssignValue::Set(Source::Value(Value::Null)),
            };
            Plan::Update {
                filter: naming(key),
                set: self.touch(vec![null], 1),
                pick: Some(self.few()),
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

    /// Deletes up to 500 records that name one of these keys. Returns their own keys.
    async fn remove_naming(&self, cx: &Cx, key: usize, keys: &[Value]) -> Result<Vec<Value>> {
        let remove = || Plan::Delete {
            filter: naming(key),
            pick: Some(self.few()),
        };
        let statement = self.shape("delete", &[b'x', key as u8], remove)?;
        let rows = Rows::count().noting([self.desc.primary].into());
        let mut rows = self
            .statements()
            .execute(cx, &statement, vec![list_value(keys)], rows)
            .await?;
        Ok(keys_of(&mut rows))
    }

    fn few(&self) -> Pick {
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
fn named(prepared: &Prepared, args: &[Value]) -> Vec<(usize, Value)> {
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

/// The condition for records with one of the keys in the first argument.
fn naming(key: usize) -> Filter {
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
