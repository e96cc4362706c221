//! The executor of one mounted entity: CRUD, planned operations, pages.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::RwLock;

use super::cursor::encode;
use super::{Call, CursorKey, Draft, Executor, Form, Outcome};
use crate::entity::{DefaultDesc, Direction, EntityDesc, Flags, Kind, PageArgs};
use crate::filter::{Filter, Op, Operand, Source};
use crate::operation::{AssignSpec, OpSpec};
use crate::store::{After, Assign, AssignValue, Order, Plan, Projection, Row, Rows, Statement, Store};
use crate::validate::Validator;
use crate::{Code, Cx, Error, Problem, Result, Timestamp, Value};

/// Most statements kept per entity for shapes that requests choose (filters of lists, fields of patches).
const SHAPES: usize = 512;
/// How often a guarded write is repeated when the record looks as if it should have succeeded.
const RETRIES: usize = 3;

/// One mounted entity.
pub struct Table {
    /// What it is.
    pub desc: &'static EntityDesc,
    /// Where it lives.
    pub store: Arc<dyn Store>,
    /// Its rules.
    pub validator: Validator,
    /// All readable fields.
    pub projection: Arc<Projection>,
    cursors: CursorKey,
    insert: Arc<Statement>,
    get: Arc<Statement>,
    delete: Arc<Statement>,
    delete_version: Option<Arc<Statement>>,
    shapes: RwLock<HashMap<Box<[u8]>, Arc<Statement>>>,
    operations: RwLock<HashMap<&'static str, Arc<dyn Executor>>>,
}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Table").field("entity", &self.desc.name).field("store", &self.store.name()).finish_non_exhaustive()
    }
}

/// What a list asks for.
#[derive(Debug, Default)]
pub struct ListRequest {
    /// Limit and cursor.
    pub page: PageArgs,
    /// Field and direction; the default sort when absent.
    pub sort: Option<(usize, Direction)>,
    /// Conditions with fixed values.
    pub filter: Option<Filter>,
}

impl Table {
    /// Mounts an entity on a store: prepares its fixed statements.
    ///
    /// # Errors
    /// When a rule or a statement is refused.
    pub fn new(desc: &'static EntityDesc, store: Arc<dyn Store>, cursors: CursorKey) -> Result<Self> {
        let by_id = || Filter::eq_arg(desc.primary, 0);
        let select = Plan::Select { filter: by_id(), order: Vec::new(), after: None, limit: None };
        let delete_version = match desc.version {
            Some(version) => Some(store.prepare(desc, Plan::Delete { filter: by_id().and(Filter::eq_arg(version.field, 1)) })?),
            None => None,
        };
        Ok(Self {
            desc,
            validator: Validator::new(desc)?,
            projection: Arc::new(Projection::readable(desc)),
            cursors,
            insert: store.prepare(desc, Plan::Insert)?,
            get: store.prepare(desc, select)?,
            delete: store.prepare(desc, Plan::Delete { filter: by_id() })?,
            delete_version,
            shapes: RwLock::default(),
            operations: RwLock::default(),
            store,
        })
    }

    /// Rows in the wanted form.
    pub fn rows(&self, form: &Form) -> Rows {
        match form {
            Form::Json(projection) => Rows::json(projection),
            Form::Records => Rows::records(self.desc),
        }
        .version_of(self.desc)
    }

    /// The key named by a path segment; `None` when it can name no record of this entity.
    pub fn parse_id(&self, text: &str) -> Option<Value> {
        match self.desc.primary_field().kind {
            Kind::Integer => {
                let id: i64 = text.parse().ok()?;
                (itoa::Buffer::new().format(id) == text).then_some(Value::Int(id))
            }
            _ => valid_key(text).then(|| Value::Text(text.to_owned())),
        }
    }

    /// Creates a record. On success the rows hold it.
    ///
    /// # Errors
    /// `validation_failed` with every problem; `conflict` for a taken key or unique.
    pub async fn create(&self, cx: &Cx, draft: Draft, form: &Form) -> Result<(Rows, Value)> {
        let values: Vec<Value> = self.checked_create(cx, draft)?.values.into_iter().map(Option::unwrap_or_default).collect();
        let mut rows = self.rows(form);
        rows.push(&values[..]);
        let id = values[self.desc.primary].clone();
        self.store.run(&self.insert, values, Rows::count()).rows().await?;
        Ok((rows, id))
    }

    /// A draft of a new record that meets every rule, with a value for every field: defaults are filled in.
    ///
    /// # Errors
    /// `validation_failed` with every problem.
    pub fn checked_create(&self, cx: &Cx, draft: Draft) -> Result<Draft> {
        let Draft { mut values, mut problems } = draft;
        for (i, field) in self.desc.fields.iter().enumerate() {
            match &values[i] {
                Some(Value::Null) if !field.optional => {
                    problems.push(Problem::new(field.wire, "null_not_allowed", "must not be null"));
                }
                Some(value) => self.check_value(i, value, &mut problems),
                None => {
                    let value = match field.default {
                        DefaultDesc::Uuid => Value::Text(uuid::Uuid::now_v7().as_hyphenated().to_string()),
                        DefaultDesc::Cuid => Value::Text(cuid2::create_id()),
                        DefaultDesc::Now => Value::Date(cx.now()),
                        DefaultDesc::Literal(value) => value(),
                        DefaultDesc::None if field.flags.has(Flags::VERSION) => Value::Int(1),
                        DefaultDesc::None if field.flags.has(Flags::ON_UPDATE) => Value::Date(cx.now()),
                        DefaultDesc::None if field.optional => Value::Null,
                        DefaultDesc::None => match field.kind {
                            Kind::StringArray => Value::Strings(Vec::new()),
                            Kind::Items(_) => Value::Json("[]".to_owned()),
                            _ => {
                                // A member that was there but unreadable has been reported as such.
                                if !problems.iter().any(|p| p.path == field.wire) {
                                    problems.push(Problem::new(field.wire, "required", "is required"));
                                }
                                continue;
                            }
                        },
                    };
                    values[i] = Some(value);
                }
            }
        }
        if problems.is_empty()
            && let Some(check) = self.desc.check
        {
            let merged: Vec<Value> = values.iter().map(|v| v.clone().unwrap_or_default()).collect();
            problems.extend(check(&Borrowed(&merged)).err());
        }
        if !problems.is_empty() {
            return Err(Error::validation(problems));
        }
        Ok(Draft { values, problems })
    }

    /// Reads one record; `count` is 0 when it is not visible.
    ///
    /// # Errors
    /// When the store cannot answer.
    pub async fn get(&self, _cx: &Cx, id: Value, form: &Form) -> Result<Rows> {
        self.store.run(&self.get, vec![id], self.rows(form)).rows().await
    }

    /// Changes the present fields of a draft and returns the record.
    ///
    /// # Errors
    /// `validation_failed`, `not_found`, `precondition_failed` when `version` is not the stored one, `conflict`.
    pub async fn update(&self, cx: &Cx, id: Value, draft: Draft, version: Option<i64>, form: &Form) -> Result<Rows> {
        let Draft { values, .. } = self.checked_update(draft)?;
        if values.iter().all(Option::is_none) {
            let rows = self.get(cx, id, form).await?;
            return self.found(rows, version);
        }
        if let Some(check) = self.desc.check {
            return self.update_checked(cx, id, values, version, form, check).await;
        }
        let sets: Vec<(usize, Value)> = values.into_iter().enumerate().filter_map(|(i, v)| Some((i, v?))).collect();
        let mut conditions = vec![(self.desc.primary, id.clone())];
        if let (Some(v), Some(desc)) = (version, self.desc.version) {
            conditions.push((desc.field, Value::Int(v)));
        }
        self.write(cx, &id, conditions, sets, version, form).await
    }

    /// A draft of changes that meets every rule on single fields. The rule over the whole record needs the record.
    ///
    /// # Errors
    /// `validation_failed` with every problem.
    pub fn checked_update(&self, draft: Draft) -> Result<Draft> {
        let Draft { values, mut problems } = draft;
        for (i, field) in self.desc.fields.iter().enumerate() {
            match &values[i] {
                Some(Value::Null) if !field.optional => {
                    problems.push(Problem::new(field.wire, "null_not_allowed", "must not be null"));
                }
                Some(value) => self.check_value(i, value, &mut problems),
                None => {}
            }
        }
        if problems.is_empty() { Ok(Draft { values, problems }) } else { Err(Error::validation(problems)) }
    }

    // With a rule over the whole record, the write carries what the rule saw: it applies only while the record is unchanged.
    async fn update_checked(
        &self,
        cx: &Cx,
        id: Value,
        values: Vec<Option<Value>>,
        version: Option<i64>,
        form: &Form,
        check: fn(&dyn Row) -> std::result::Result<(), Problem>,
    ) -> Result<Rows> {
        for _ in 0..8 {
            let current = self.get(cx, id.clone(), &Form::Records).await?;
            let mut current = self.found(current, version)?;
            let Some(old) = current.records.pop() else { return Err(Error::not_found()) };
            let merged: Vec<Value> = old.iter().zip(&values).map(|(old, new)| new.as_ref().unwrap_or(old).clone()).collect();
            check(&Borrowed(&merged)).map_err(Error::invalid)?;
            let unchanged = old.into_vec().into_iter().enumerate().collect();
            let sets = values.iter().enumerate().filter_map(|(i, v)| Some((i, v.clone()?))).collect();
            match self.write_once(cx, unchanged, sets, form).await? {
                rows if rows.count > 0 => return Ok(rows),
                _ => {}
            }
        }
        Err(Error::new(Code::Conflict, "The record kept changing; try again"))
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
        for _ in 0..RETRIES {
            let rows = self.write_once(cx, conditions.clone(), sets.clone(), form).await?;
            if rows.count > 0 {
                return Ok(rows);
            }
            // Zero rows: one read says why. When it finds nothing wrong, the record changed in between.
            let current = self.get(cx, id.clone(), &Form::Json(Arc::clone(&self.projection))).await?;
            self.found(current, version)?;
        }
        Err(Error::new(Code::Conflict, "The record kept changing; try again"))
    }

    async fn write_once(&self, cx: &Cx, conditions: Vec<(usize, Value)>, sets: Vec<(usize, Value)>, form: &Form) -> Result<Rows> {
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
        let statement = self.shape(&key, || {
            let filter = (0..condition_count)
                .map(|i| {
                    Filter::cond(
                        usize::from(shape[1 + 2 * i]),
                        Op::Eq,
                        Operand::One(Source::Arg { index: i, nullable: shape[2 + 2 * i] == 1 }),
                    )
                })
                .fold(Filter::TRUE, Filter::and);
            let set = (0..set_count)
                .map(|i| Assign {
                    field: usize::from(shape[2 + 2 * condition_count + i]),
                    value: AssignValue::Set(Source::Arg { index: condition_count + i, nullable: true }),
                })
                .collect();
            Plan::Update { filter, set: self.touch(set, condition_count + set_count) }
        })?;
        self.store.run(&statement, args, self.rows(form)).rows().await
    }

    /// Adds what every mutation writes: on-update dates (from the argument slot `now`) and the version.
    pub fn touch(&self, mut set: Vec<Assign>, now: usize) -> Vec<Assign> {
        for (field, desc) in self.desc.fields.iter().enumerate() {
            if set.iter().any(|a| a.field == field) {
                continue;
            }
            if desc.flags.has(Flags::ON_UPDATE) {
                set.push(Assign { field, value: AssignValue::Set(Source::Arg { index: now, nullable: false }) });
            } else if desc.flags.has(Flags::VERSION) {
                set.push(Assign { field, value: AssignValue::Add(Source::Value(Value::Int(1))) });
            }
        }
        set
    }

    /// Removes a record.
    ///
    /// # Errors
    /// `not_found`; `precondition_failed` when `version` is not the stored one.
    pub async fn delete(&self, cx: &Cx, id: Value, version: Option<i64>) -> Result<()> {
        for _ in 0..RETRIES {
            let (statement, args) = match (version, &self.delete_version) {
                (Some(version), Some(statement)) => (statement, vec![id.clone(), Value::Int(version)]),
                _ => (&self.delete, vec![id.clone()]),
            };
            if self.store.run(statement, args, Rows::count()).rows().await?.count > 0 {
                return Ok(());
            }
            let current = self.get(cx, id.clone(), &Form::Json(Arc::clone(&self.projection))).await?;
            self.found(current, version)?;
        }
        Err(Error::new(Code::Conflict, "The record kept changing; try again"))
    }

    /// The rows, if there is one and its version is the expected one.
    ///
    /// # Errors
    /// `not_found`, `precondition_failed`.
    pub fn found(&self, rows: Rows, version: Option<i64>) -> Result<Rows> {
        if rows.count == 0 {
            return Err(Error::not_found());
        }
        match (version, rows.version) {
            (Some(expected), Some(stored)) if expected != stored => {
                Err(Error::new(Code::PreconditionFailed, "The record has another version"))
            }
            _ => Ok(rows),
        }
    }

    /// A page of the records that match.
    ///
    /// # Errors
    /// `invalid_cursor`; `validation_failed` for a limit of 0.
    pub async fn list(&self, cx: &Cx, request: ListRequest, form: &Form) -> Result<Outcome> {
        let order = match request.sort {
            Some((field, direction)) => self.order(field, direction == Direction::Desc),
            None => self.order(self.desc.sort.field, self.desc.sort.desc),
        };
        let filter = request.filter.unwrap_or(Filter::TRUE);
        let limit = Some(request.page.limit.unwrap_or(self.desc.pagination.default_limit));
        self.page(cx, "list", filter, order, limit, request.page.cursor.as_deref(), form).await
    }

    /// A sort by one field with the primary key as tie-break.
    pub fn order(&self, field: usize, desc: bool) -> Vec<Order> {
        let mut order = vec![Order { field, desc }];
        if field != self.desc.primary {
            order.push(Order { field: self.desc.primary, desc });
        }
        order
    }

    /// A page of records: the one place where limits, cursors and shapes of selects meet.
    ///
    /// `route` names the caller in cursors, so that none travels between routes. `limit` `None` is unbounded.
    ///
    /// # Errors
    /// `invalid_cursor`; `validation_failed` for a limit of 0.
    #[allow(clippy::too_many_arguments)] // a page has this many parts; a struct for one private caller each would hide them
    pub async fn page(
        &self,
        cx: &Cx,
        route: &str,
        filter: Filter,
        order: Vec<Order>,
        limit: Option<u32>,
        cursor: Option<&str>,
        form: &Form,
    ) -> Result<Outcome> {
        if limit == Some(0) {
            return Err(Error::invalid(Problem::new("query:limit", "range", "must be at least 1")));
        }
        let limit = limit.map(|l| l.min(self.desc.pagination.max_limit));
        let mut args = Vec::new();
        let mut shape = vec![b's'];
        let filter = lift(filter, cx.now(), &mut args, &mut shape);
        let mut context = Vec::with_capacity(128);
        context.extend_from_slice(self.desc.storage_name.as_bytes());
        context.push(0);
        context.extend_from_slice(route.as_bytes());
        context.push(0);
        for key in &order {
            shape.extend_from_slice(&[0xfe, key.field as u8, u8::from(key.desc)]);
        }
        context.extend_from_slice(&shape);
        // A later page reads a later clock, so the fingerprint knows where `now` stands but not what it was.
        for value in args.iter().filter(|value| **value != Value::Date(cx.now())) {
            encode(value, &mut context);
        }
        let after = match cursor {
            None => None,
            Some(cursor) => {
                let values = self.cursors.open(cursor, order.len(), &context)?;
                let keys = values
                    .into_iter()
                    .map(|value| {
                        shape.push(if value.is_null() { 0xf0 } else { 0xf1 });
                        (!value.is_null()).then(|| {
                            args.push(value);
                            args.len() - 1
                        })
                    })
                    .collect();
                Some(After { keys })
            }
        };
        let keys: Vec<usize> = order.iter().map(|o| o.field).collect();
        let slot = limit.map(|limit| {
            shape.push(b'l');
            args.push(Value::Int(i64::from(limit) + 1));
            Source::Arg { index: args.len() - 1, nullable: false }
        });
        let statement = self.shape(&shape, || Plan::Select { filter, order, after, limit: slot })?;
        let mut rows = self.rows(form);
        if let Some(limit) = limit {
            rows = rows.limit(limit as usize, keys);
        }
        let rows = self.store.run(&statement, args, rows).rows().await?;
        let next_cursor = rows.more.then(|| self.cursors.seal(&rows.last, &context));
        Ok(Outcome::Page { rows, next_cursor })
    }

    /// The first record that matches a filter with fixed values, in an order.
    ///
    /// # Errors
    /// When the store cannot answer.
    pub async fn first(&self, cx: &Cx, filter: Filter, order: Vec<Order>, form: &Form) -> Result<Rows> {
        let mut args = Vec::new();
        let mut shape = vec![b'f'];
        let filter = lift(filter, cx.now(), &mut args, &mut shape);
        for key in &order {
            shape.extend_from_slice(&[0xfe, key.field as u8, u8::from(key.desc)]);
        }
        let limit = Some(Source::Value(Value::Int(1)));
        let statement = self.shape(&shape, || Plan::Select { filter, order, after: None, limit })?;
        self.store.run(&statement, args, self.rows(form)).rows().await
    }

    /// Whether equality on these fields names at most one record: the primary key, or all fields of a unique that are
    /// never null.
    pub fn pins_one(&self, fields: &[AssignSpec]) -> bool {
        let named = |field: usize| fields.iter().any(|a| a.field == field);
        let certain = |field: &usize| named(*field) && !self.desc.fields[*field].optional;
        named(self.desc.primary) || self.desc.uniques.iter().any(|u| u.fields.iter().all(certain))
    }

    /// The statement of a shape, prepared on first use.
    ///
    /// # Errors
    /// When the store refuses the plan.
    pub fn shape(&self, key: &[u8], plan: impl FnOnce() -> Plan) -> Result<Arc<Statement>> {
        if let Some(statement) = self.shapes.read().get(key) {
            return Ok(Arc::clone(statement));
        }
        let statement = self.store.prepare(self.desc, plan())?;
        let mut shapes = self.shapes.write();
        if shapes.len() >= SHAPES {
            // Clients choose shapes; forgetting all of them bounds memory, and the common ones are back at once.
            shapes.clear();
        }
        shapes.insert(key.into(), Arc::clone(&statement));
        Ok(statement)
    }

    /// Runs an operation; plans it on first use.
    ///
    /// # Errors
    /// Whatever the operation answers.
    pub async fn run(&self, spec: &'static OpSpec, call: Call<'_>) -> Result<Outcome> {
        let executor = self.executor(spec)?;
        executor.run(self, call).await
    }

    /// The planned form of an operation.
    ///
    /// # Errors
    /// When the store refuses a statement of it.
    pub fn executor(&self, spec: &'static OpSpec) -> Result<Arc<dyn Executor>> {
        if let Some(executor) = self.operations.read().get(spec.name) {
            return Ok(Arc::clone(executor));
        }
        let executor: Arc<dyn Executor> = Arc::from(spec.kind.plan(spec, self)?);
        self.operations.write().insert(spec.name, Arc::clone(&executor));
        Ok(executor)
    }

    fn check_value(&self, field: usize, value: &Value, problems: &mut Vec<Problem>) {
        if field == self.desc.primary
            && let Value::Text(text) = value
            && !valid_key(text)
        {
            let wire = self.desc.fields[field].wire;
            problems.push(Problem::new(wire, "format", "must be 1 to 255 bytes without control characters, and not `.` or `..`"));
            return;
        }
        self.validator.check(field, value, self.desc.fields[field].wire, problems);
    }
}

fn valid_key(text: &str) -> bool {
    // Nearly all keys are ASCII, where looking at bytes is enough.
    let controls = if text.is_ascii() { text.bytes().any(|b| b.is_ascii_control()) } else { text.chars().any(char::is_control) };
    (1..=255).contains(&text.len()) && text != "." && text != ".." && !controls
}

/// Replaces fixed values by arguments, so that equal shapes share a statement. Nulls stay: they render differently.
fn lift(filter: Filter, now: Timestamp, args: &mut Vec<Value>, shape: &mut Vec<u8>) -> Filter {
    match filter {
        Filter::All(list) => {
            shape.push(b'&');
            let list = list.into_iter().map(|f| lift(f, now, args, shape)).collect();
            shape.push(b')');
            Filter::All(list)
        }
        Filter::Any(list) => {
            shape.push(b'|');
            let list = list.into_iter().map(|f| lift(f, now, args, shape)).collect();
            shape.push(b')');
            Filter::Any(list)
        }
        Filter::Cond { field, op, value } => {
            shape.extend_from_slice(&[b'c', field as u8, op as u8]);
            let mut source = |s: Source, shape: &mut Vec<u8>| match s {
                Source::Value(Value::Null) => {
                    shape.push(0);
                    Source::Value(Value::Null)
                }
                Source::Value(value) => {
                    shape.push(1);
                    args.push(value);
                    Source::Arg { index: args.len() - 1, nullable: false }
                }
                Source::Now => {
                    shape.push(2);
                    args.push(Value::Date(now));
                    Source::Arg { index: args.len() - 1, nullable: false }
                }
                other => other,
            };
            let value = match value {
                Operand::One(s) => Operand::One(source(s, shape)),
                Operand::List(list) => {
                    shape.extend_from_slice(&(list.len() as u32).to_le_bytes());
                    Operand::List(list.into_iter().map(|s| source(s, shape)).collect())
                }
            };
            Filter::Cond { field, op, value }
        }
    }
}

/// Values in field order, as a row behind a reference.
pub(crate) struct Borrowed<'a>(pub &'a [Value]);

impl Row for Borrowed<'_> {
    fn value(&self, field: usize) -> crate::ValueRef<'_> {
        self.0.value(field)
    }
}
