//! The executor of `collection`.

use serde_json::value::RawValue;

use super::{Collection, CollectionMethod};
use crate::filter::{Filter, Op, Operand, Source};
use crate::operation::OpSpec;
use crate::resource::{BoxFuture, Call, Executor, Form, MAX_REPEATS, Outcome, Prepared, Table};
use crate::store::{Assign, AssignValue, Plan, Rows};
use crate::{Code, Error, Problem, Result, Value};

/// Plans an operation of this kind for one mounted entity.
///
/// # Errors
/// If the store refuses a statement of the operation.
pub(super) fn plan(
    kind: &'static Collection,
    spec: &'static OpSpec,
    table: &Table,
) -> Result<Box<dyn Executor>> {
    Ok(Box::new(Run::new(kind, spec, table)?))
}

// Positions of the arguments of every statement: the record, the item or its id, the instant of the
// call; then further arguments.
const RECORD: usize = 0;
const ITEM: usize = 1;
const NOW: usize = 2;
const REST: usize = 3;

/// Members by name, in their JSON form.
type Members<'a> = std::collections::BTreeMap<String, &'a RawValue>;

pub(super) struct Run {
    kind: &'static Collection,
    spec: &'static OpSpec,
    read: Prepared,
}

impl Run {
    pub(super) fn new(
        kind: &'static Collection,
        spec: &'static OpSpec,
        table: &Table,
    ) -> Result<Self> {
        let by_id = Filter::eq_arg(table.desc.primary, RECORD);
        let read = table.prepare(
            spec.name,
            Plan::Select {
                filter: by_id,
                order: Vec::new(),
                after: None,
                limit: None,
            },
        )?;
        Ok(Self { kind, spec, read })
    }

    async fn run(&self, table: &Table, call: &Call<'_>) -> Result<Outcome> {
        super::bind::check(self.spec, table, call, &[])?;
        let mut arguments = call.args.iter().cloned().map(Option::unwrap_or_default);
        let record = arguments.next().unwrap_or_default();
        let (first, second) = (
            arguments.next().unwrap_or_default(),
            arguments.next().unwrap_or_default(),
        );
        match self.kind.method {
            CollectionMethod::List => {
                let rows = table.found(self.read(table, call, record).await?, None)?;
                Ok(Outcome::Json(self.list(&rows).to_owned().into_bytes()))
            }
            CollectionMethod::Add => self.add(table, call, record, first).await,
            CollectionMethod::Set => self.set(table, call, record, first).await,
            CollectionMethod::Remove => {
                self.remove(table, call, record, self.id(table, first)?)
                    .await
            }
            CollectionMethod::Update => {
                self.update(table, call, record, self.id(table, first)?, second)
                    .await
            }
        }
    }

    async fn add(
        &self,
        table: &Table,
        call: &Call<'_>,
        record: Value,
        item: Value,
    ) -> Result<Outcome> {
        let text = json(&item)?.to_owned();
        table.validator.check_item(self.kind.field, &text)?;
        let members: Members<'_> = serde_json::from_str(&text).map_err(Error::internal)?;
        let id = members.get(self.kind.key).and_then(|raw| id_of(raw));
        let rest = vec![id.clone().ok_or_else(|| self.missing_key())?];
        let set = AssignValue::AddItem(arg(ITEM));
        let has_no_such_item = Filter::Item {
            field: self.kind.field,
            key: self.kind.key,
            value: arg(REST),
            must_exist: false,
        };
        let max_items = table.desc.fields[self.kind.field].rules.items.1;
        let has_room = [self.kind.max, max_items]
            .into_iter()
            .flatten()
            .min()
            .map(|max| self.bound(Op::Shorter, max));
        let guard = has_no_such_item.and(has_room.unwrap_or(Filter::TRUE));
        self.write(table, call, record, item, set, guard, rest, |found| {
            if found.iter().any(|item| self.has_id(item, id.as_ref())) {
                let at = self.kind.key;
                Error::new(Code::Conflict, "An item with this key exists already")
                    .with_details(vec![Problem::new(at, "unique", "is taken")])
            } else if self.kind.max.is_some_and(|max| found.len() >= max as usize) {
                collection_full()
            } else if let Some(max_items) =
                max_items.filter(|max_items| found.len() >= *max_items as usize)
            {
                self.length_error(table, "max_items", format!("must hold at most {max_items}"))
            } else {
                Error::kept_changing()
            }
        })
        .await?;
        Ok(Outcome::Json(text.into_bytes()))
    }

    async fn set(
        &self,
        table: &Table,
        call: &Call<'_>,
        record: Value,
        items: Value,
    ) -> Result<Outcome> {
        let text = json(&items)?.to_owned();
        let list: Vec<&RawValue> = serde_json::from_str(&text).map_err(Error::internal)?;
        if self.kind.max.is_some_and(|max| list.len() > max as usize) {
            return Err(collection_full());
        }
        let mut problems = Vec::new();
        table
            .validator
            .check(self.kind.field, &items, "", &mut problems);
        if !problems.is_empty() {
            return Err(Error::validation(problems));
        }
        let set = AssignValue::Set(arg(ITEM));
        self.write(
            table,
            call,
            record,
            items,
            set,
            Filter::TRUE,
            Vec::new(),
            |_| Error::kept_changing(),
        )
        .await?;
        Ok(Outcome::Json(text.into_bytes()))
    }

    async fn remove(
        &self,
        table: &Table,
        call: &Call<'_>,
        record: Value,
        id: Value,
    ) -> Result<Outcome> {
        let set = AssignValue::RemoveItem {
            key: self.kind.key,
            id: arg(ITEM),
        };
        let least = table.desc.fields[self.kind.field]
            .rules
            .items
            .0
            .unwrap_or(0);
        let guard = if least > 0 {
            self.item_exists().and(self.bound(Op::Longer, least))
        } else {
            self.item_exists()
        };
        self.write(
            table,
            call,
            record,
            id.clone(),
            set,
            guard,
            Vec::new(),
            |found| {
                if found.len() <= least as usize
                    && found.iter().any(|item| self.has_id(item, Some(&id)))
                {
                    return self.length_error(
                        table,
                        "min_items",
                        format!("must keep at least {least}"),
                    );
                }
                self.missing_item(found, &id)
            },
        )
        .await?;
        Ok(Outcome::Nothing)
    }

    /// A condition on the number of items before the change.
    fn bound(&self, op: Op, than: u32) -> Filter {
        Filter::cond(
            self.kind.field,
            op,
            Operand::One(Source::Value(Value::Int(i64::from(than)))),
        )
    }

    /// The error for a list that would have too many or too few items.
    fn length_error(&self, table: &Table, code: &'static str, message: String) -> Error {
        Error::invalid(Problem::new(
            table.desc.fields[self.kind.field].wire,
            code,
            message,
        ))
    }

    async fn update(
        &self,
        table: &Table,
        call: &Call<'_>,
        record: Value,
        id: Value,
        patch: Value,
    ) -> Result<Outcome> {
        let text = json(&patch)?.to_owned();
        table.validator.check_item(self.kind.field, &text)?;
        let members: Members<'_> = serde_json::from_str(&text).map_err(Error::internal)?;
        let fields = table.desc.fields[self.kind.field].kind.item_fields();
        // The member names from the declaration, because the statement needs names that live as
        // long as the plan.
        let changed_members: Vec<(&'static str, &RawValue)> = fields
            .iter()
            .filter_map(|field| Some((field.wire, *members.get(field.wire)?)))
            .collect();
        if changed_members.is_empty() {
            let found = table.found(
                self.read(table, call, record).await?,
                table.desc.version.and(call.version),
            )?;
            return self.item(&found, &id);
        }
        let rest: Vec<Value> = changed_members
            .iter()
            .map(|(_, raw)| Value::Json(raw.get().to_owned()))
            .collect();
        let members = changed_members
            .iter()
            .enumerate()
            .map(|(i, (name, _))| (*name, arg(REST + i)))
            .collect();
        let set = AssignValue::ChangeItem {
            key: self.kind.key,
            id: arg(ITEM),
            members,
        };
        let rows = self
            .write(
                table,
                call,
                record,
                id.clone(),
                set,
                self.item_exists(),
                rest,
                |found| self.missing_item(found, &id),
            )
            .await?;
        self.item(&rows, &id)
    }

    /// Writes to the record's list if a condition holds; otherwise `refuse` gets the items and
    /// returns the error.
    #[allow(clippy::too_many_arguments)] // the parts of one statement
    async fn write(
        &self,
        table: &Table,
        call: &Call<'_>,
        record: Value,
        item: Value,
        set: AssignValue,
        guard: Filter,
        rest: Vec<Value>,
        refuse: impl Fn(&[&RawValue]) -> Error,
    ) -> Result<Rows> {
        let version = table.desc.version.and(call.version);
        let mut shape = format!("{}:{}:", self.spec.name, version.is_some()).into_bytes();
        if let AssignValue::ChangeItem { members, .. } = &set {
            shape.extend(members.iter().flat_map(|(name, _)| name.bytes().chain([0])));
        }
        let last = REST + rest.len();
        let statement = table.shape(self.spec.name, &shape, || {
            let mut filter = Filter::eq_arg(table.desc.primary, RECORD).and(guard);
            if let (Some(field), true) = (table.desc.version, version.is_some()) {
                filter = filter.and(Filter::eq_arg(field.field, last));
            }
            let set = table.touch(
                vec![Assign {
                    field: self.kind.field,
                    value: set,
                }],
                NOW,
            );
            Plan::Update {
                filter,
                set,
                pick: None,
            }
        })?;
        for _ in 0..MAX_REPEATS {
            let mut args = vec![record.clone(), item.clone(), Value::Date(call.cx.now())];
            args.extend(rest.iter().cloned().chain(version.map(Value::Int)));
            let rows = table
                .execute(call.cx, &statement, args, table.rows(&Form::Records))
                .await?;
            if rows.count > 0 {
                return Ok(rows);
            }
            let found = table.found(self.read(table, call, record.clone()).await?, version)?;
            let list: Vec<&RawValue> =
                serde_json::from_str(self.list(&found)).map_err(Error::internal)?;
            let error = refuse(&list);
            if error.code() != Code::Conflict || !error.details().is_empty() {
                return Err(error);
            }
        }
        Err(Error::kept_changing())
    }

    async fn read(&self, table: &Table, call: &Call<'_>, record: Value) -> Result<Rows> {
        table
            .execute(
                call.cx,
                &self.read,
                vec![record],
                table.rows(&Form::Records),
            )
            .await
    }

    /// The list in the record that was read.
    fn list<'a>(&self, rows: &'a Rows) -> &'a str {
        match rows
            .records
            .first()
            .and_then(|record| record.get(self.kind.field))
        {
            Some(Value::Json(text)) => text,
            _ => "[]",
        }
    }

    /// The item with this id in the record that was read.
    fn item(&self, rows: &Rows, id: &Value) -> Result<Outcome> {
        let list: Vec<&RawValue> =
            serde_json::from_str(self.list(rows)).map_err(Error::internal)?;
        let item = list
            .into_iter()
            .find(|item| self.has_id(item, Some(id)))
            .ok_or_else(Error::not_found)?;
        Ok(Outcome::Json(item.get().to_owned().into_bytes()))
    }

    fn has_id(&self, item: &RawValue, id: Option<&Value>) -> bool {
        let members: Members<'_> = serde_json::from_str(item.get()).unwrap_or_default();
        members
            .get(self.kind.key)
            .and_then(|raw| id_of(raw))
            .as_ref()
            == id
    }

    fn item_exists(&self) -> Filter {
        Filter::Item {
            field: self.kind.field,
            key: self.kind.key,
            value: arg(ITEM),
            must_exist: true,
        }
    }

    fn missing_item(&self, found: &[&RawValue], id: &Value) -> Error {
        if found.iter().any(|item| self.has_id(item, Some(id))) {
            Error::kept_changing()
        } else {
            Error::not_found()
        }
    }

    fn missing_key(&self) -> Error {
        Error::invalid(Problem::new(self.kind.key, "required", "is required"))
    }

    /// The key of an item from its path segment; `not_found` for text that cannot be a key.
    fn id(&self, table: &Table, text: Value) -> Result<Value> {
        let fields = table.desc.fields[self.kind.field].kind.item_fields();
        let is_number = fields
            .iter()
            .any(|f| f.wire == self.kind.key && matches!(f.kind, crate::entity::Kind::Integer));
        match text {
            Value::Text(text) if is_number => {
                let id: i64 = text.parse().map_err(|_| Error::not_found())?;
                if itoa::Buffer::new().format(id) == text {
                    Ok(Value::Int(id))
                } else {
                    Err(Error::not_found())
                }
            }
            id => Ok(id),
        }
    }
}

fn arg(index: usize) -> Source {
    Source::Arg {
        index,
        nullable: false,
    }
}

fn json(value: &Value) -> Result<&str> {
    match value {
        Value::Json(text) => Ok(text),
        _ => Err(Error::internal("an item is JSON")),
    }
}

fn id_of(raw: &RawValue) -> Option<Value> {
    match serde_json::from_str(raw.get()).ok()? {
        serde_json::Value::String(text) => Some(Value::Text(text)),
        serde_json::Value::Number(number) => number.as_i64().map(Value::Int),
        _ => None,
    }
}

fn collection_full() -> Error {
    Error::new(
        Code::CollectionFull,
        "The list contains the maximum number of items",
    )
}

impl Executor for Run {
    fn run<'a>(&'a self, table: &'a Table, call: Call<'a>) -> BoxFuture<'a, Result<Outcome>> {
        Box::pin(async move { self.run(table, &call).await })
    }
}
