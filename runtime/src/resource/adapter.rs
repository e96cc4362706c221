//! The typed face of a table.

use std::collections::HashMap;
use std::marker::PhantomData;
use std::sync::Arc;

use serde::de::DeserializeOwned;

use super::provisions::Provided;
use super::{Borrowed, Call, Draft, Form, ListRequest, Outcome, Table};
use crate::entity::{Entity, FieldType, ListQuery, Many, One, Page, PageArgs, Upserted};
use crate::event::EventBus;
use crate::operation::OpSpec;
use crate::store::Rows;
use crate::{Cx, Error, Result, Value};

/// CRUD of an entity in code. The generated adapter dereferences to it and adds a method per operation.
pub struct Adapter<E> {
    table: Arc<Table>,
    entity: PhantomData<fn() -> E>,
}

impl<E> Clone for Adapter<E> {
    fn clone(&self) -> Self {
        Self { table: Arc::clone(&self.table), entity: PhantomData }
    }
}

impl<E> std::fmt::Debug for Adapter<E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Adapter").field(&self.table).finish()
    }
}

impl<E: Entity> Adapter<E> {
    /// The typed face of a table of `E`.
    #[doc(hidden)]
    pub fn new(table: Arc<Table>) -> Self {
        Self { table, entity: PhantomData }
    }

    /// Creates a record.
    ///
    /// # Errors
    /// `validation_failed` with every problem; `conflict` for a taken key or unique.
    pub async fn create(&self, cx: &Cx, input: E::Create) -> Result<E> {
        let draft = Draft::from_input(self.table.desc, input);
        let (rows, _) = self.table.create(cx, draft, &Form::Records).await?;
        one(rows)
    }

    /// A page of records.
    ///
    /// # Errors
    /// `invalid_cursor`; `validation_failed` for a limit of 0.
    pub async fn list(&self, cx: &Cx, query: ListQuery<E>) -> Result<Page<E>> {
        let ListQuery { page, sort, filter, deleted, .. } = query;
        page_of(self.table.list(cx, ListRequest { page, sort, filter, deleted }, &Form::Records).await?)
    }

    /// A record by its key; `None` when there is none.
    ///
    /// # Errors
    /// When the store cannot answer.
    pub async fn get(&self, cx: &Cx, id: impl Into<E::Id>) -> Result<Option<E>> {
        optional(self.table.get(cx, id.into().into_value(), &Form::Records).await?)
    }

    /// Changes the members of `patch` that are present. `version`, when given, must be the stored one.
    ///
    /// # Errors
    /// `validation_failed`, `not_found`, `precondition_failed`, `conflict`.
    pub async fn update(&self, cx: &Cx, id: impl Into<E::Id>, patch: E::Patch, version: Option<i64>) -> Result<E> {
        let draft = Draft::from_input(self.table.desc, patch);
        one(self.table.update(cx, id.into().into_value(), draft, version, &Form::Records).await?)
    }

    /// Removes a record. `version`, when given, must be the stored one.
    ///
    /// # Errors
    /// `not_found`, `precondition_failed`.
    pub async fn delete(&self, cx: &Cx, id: impl Into<E::Id>, version: Option<i64>) -> Result<()> {
        self.table.delete(cx, id.into().into_value(), version).await
    }

    /// The record that each key names, for a relation of `belongs_to`: `posts.related(cx, Post::AUTHOR, [post.author_id])`.
    ///
    /// One statement for all keys; `None` for a key that is null or names no visible record.
    ///
    /// # Errors
    /// 401 or 403 when tenant or scope of the other entity need a value that the caller has not.
    pub async fn related<T: Entity>(
        &self,
        cx: &Cx,
        relation: One<E, T>,
        keys: impl IntoIterator<Item = impl Into<Option<T::Id>>>,
    ) -> Result<Vec<Option<T>>> {
        let keys: Vec<Value> = keys.into_iter().map(|key| key.into().map_or(Value::Null, FieldType::into_value)).collect();
        let found = self.table.related_values(cx, relation.name, &keys).await?;
        let read = |values: &[Value]| T::read(&Borrowed(values)).map_err(Error::internal);
        found.iter().map(|(records, _)| records.first().map(|values| read(values)).transpose()).collect()
    }

    /// The first records that name each key, for a relation of `has_many`: `posts.related_pages(cx, Post::COMMENTS, [post.id])`.
    ///
    /// One statement for all keys. A page's cursor goes on in [`list`](Self::list) of the other entity, filtered by the key alone.
    ///
    /// # Errors
    /// As [`related`](Self::related).
    pub async fn related_pages<T: Entity>(
        &self,
        cx: &Cx,
        relation: Many<E, T>,
        keys: impl IntoIterator<Item = impl Into<E::Id>>,
    ) -> Result<Vec<Page<T>>> {
        let keys: Vec<Value> = keys.into_iter().map(|key| key.into().into_value()).collect();
        let found = self.table.related_values(cx, relation.name, &keys).await?;
        let read = |values: &[Value]| T::read(&Borrowed(values)).map_err(Error::internal);
        let page = |(records, next_cursor): (Vec<Box<[Value]>>, Option<String>)| {
            let items = records.iter().map(|values| read(values)).collect::<Result<_>>()?;
            Ok(Page { items, has_more: next_cursor.is_some(), next_cursor })
        };
        found.into_iter().map(page).collect()
    }

    /// Removes a record for good, also where deleting only marks it. Only for [`Cx::system`].
    ///
    /// # Errors
    /// `forbidden` on behalf of an actor; `not_found`.
    pub async fn purge(&self, cx: &Cx, id: impl Into<E::Id>) -> Result<()> {
        self.table.purge(cx, id.into().into_value()).await
    }
}

/// Runs an operation that answers a record. For generated methods.
///
/// # Errors
/// Those of the operation; `not_found` when it found nothing.
#[doc(hidden)]
pub async fn run_record<E: Entity>(adapter: &Adapter<E>, spec: &'static OpSpec, cx: &Cx, args: Vec<Option<Value>>) -> Result<E> {
    match call(adapter, spec, cx, args, PageArgs::default()).await? {
        Outcome::Record(rows) | Outcome::Upserted(rows) => one(rows),
        _ => Err(unexpected(spec)),
    }
}

/// Runs an operation that answers a record of another entity. For generated methods.
///
/// # Errors
/// Those of the operation.
#[doc(hidden)]
pub async fn run_other<E: Entity, T: Entity>(adapter: &Adapter<E>, spec: &'static OpSpec, cx: &Cx, args: Vec<Option<Value>>) -> Result<T> {
    match call(adapter, spec, cx, args, PageArgs::default()).await? {
        Outcome::Record(rows) => one(rows),
        _ => Err(unexpected(spec)),
    }
}

/// Runs an operation that answers a record or nothing. For generated methods.
///
/// # Errors
/// Those of the operation.
#[doc(hidden)]
pub async fn run_optional<E: Entity>(adapter: &Adapter<E>, spec: &'static OpSpec, cx: &Cx, args: Vec<Option<Value>>) -> Result<Option<E>> {
    match call(adapter, spec, cx, args, PageArgs::default()).await? {
        Outcome::Record(rows) => optional(rows),
        _ => Err(unexpected(spec)),
    }
}

/// Runs an operation that answers a page. For generated methods.
///
/// # Errors
/// Those of the operation.
#[doc(hidden)]
pub async fn run_page<E: Entity>(
    adapter: &Adapter<E>,
    spec: &'static OpSpec,
    cx: &Cx,
    args: Vec<Option<Value>>,
    page: PageArgs,
) -> Result<Page<E>> {
    page_of(call(adapter, spec, cx, args, page).await?)
}

/// Runs an operation that answers an array of records. For generated methods.
///
/// # Errors
/// Those of the operation.
#[doc(hidden)]
pub async fn run_list<E: Entity>(
    adapter: &Adapter<E>,
    spec: &'static OpSpec,
    cx: &Cx,
    args: Vec<Option<Value>>,
    page: PageArgs,
) -> Result<Vec<E>> {
    match call(adapter, spec, cx, args, page).await? {
        Outcome::List(rows) => rows.records.iter().map(|values| E::read(&Borrowed(values)).map_err(Error::internal)).collect(),
        _ => Err(unexpected(spec)),
    }
}

/// A struct of what an aggregate computes; the macro writes it.
pub trait NumbersRow: Sized {
    /// From the key, if there is one, and the members.
    ///
    /// # Errors
    /// When a value has another form.
    fn read(values: &[Value]) -> Result<Self>;
}

/// Runs an aggregate of all records. For generated methods.
///
/// # Errors
/// Those of the operation.
#[doc(hidden)]
pub async fn run_row<E: Entity, R: NumbersRow>(
    adapter: &Adapter<E>,
    spec: &'static OpSpec,
    cx: &Cx,
    args: Vec<Option<Value>>,
) -> Result<R> {
    run_rows(adapter, spec, cx, args).await?.pop().ok_or_else(|| unexpected(spec))
}

/// Runs an aggregate of groups. For generated methods.
///
/// # Errors
/// Those of the operation.
#[doc(hidden)]
pub async fn run_rows<E: Entity, R: NumbersRow>(
    adapter: &Adapter<E>,
    spec: &'static OpSpec,
    cx: &Cx,
    args: Vec<Option<Value>>,
) -> Result<Vec<R>> {
    match call(adapter, spec, cx, args, PageArgs::default()).await? {
        Outcome::Numbers { rows, .. } => rows.iter().map(|row| R::read(row)).collect(),
        _ => Err(unexpected(spec)),
    }
}

/// Runs an operation that answers records of another entity. For generated methods.
///
/// # Errors
/// Those of the operation.
#[doc(hidden)]
pub async fn run_records<E: Entity, T: Entity>(
    adapter: &Adapter<E>,
    spec: &'static OpSpec,
    cx: &Cx,
    args: Vec<Option<Value>>,
) -> Result<Vec<T>> {
    match call(adapter, spec, cx, args, PageArgs::default()).await? {
        Outcome::List(rows) => rows.records.iter().map(|values| T::read(&Borrowed(values)).map_err(Error::internal)).collect(),
        _ => Err(unexpected(spec)),
    }
}

/// Runs an operation that answers values. For generated methods.
///
/// # Errors
/// Those of the operation.
#[doc(hidden)]
pub async fn run_values<E: Entity, T: FieldType>(
    adapter: &Adapter<E>,
    spec: &'static OpSpec,
    cx: &Cx,
    args: Vec<Option<Value>>,
) -> Result<Vec<T>> {
    match call(adapter, spec, cx, args, PageArgs::default()).await? {
        Outcome::List(rows) => {
            let first = |values: &[Value]| T::from_value(crate::store::Row::value(values, 0)).map_err(Error::internal);
            rows.records.iter().map(|values| first(values)).collect()
        }
        _ => Err(unexpected(spec)),
    }
}

/// Runs an operation that answers a boolean. For generated methods.
///
/// # Errors
/// Those of the operation.
#[doc(hidden)]
pub async fn run_bool<E: Entity>(adapter: &Adapter<E>, spec: &'static OpSpec, cx: &Cx, args: Vec<Option<Value>>) -> Result<bool> {
    match call(adapter, spec, cx, args, PageArgs::default()).await? {
        Outcome::Boolean(b) => Ok(b),
        _ => Err(unexpected(spec)),
    }
}

/// Runs an operation that answers a number. For generated methods.
///
/// # Errors
/// Those of the operation.
#[doc(hidden)]
pub async fn run_count<E: Entity>(adapter: &Adapter<E>, spec: &'static OpSpec, cx: &Cx, args: Vec<Option<Value>>) -> Result<u64> {
    match call(adapter, spec, cx, args, PageArgs::default()).await? {
        Outcome::Count(n) => Ok(n),
        _ => Err(unexpected(spec)),
    }
}

/// Runs an operation that answers nothing. For generated methods.
///
/// # Errors
/// Those of the operation.
#[doc(hidden)]
pub async fn run_unit<E: Entity>(adapter: &Adapter<E>, spec: &'static OpSpec, cx: &Cx, args: Vec<Option<Value>>) -> Result<()> {
    match call(adapter, spec, cx, args, PageArgs::default()).await? {
        Outcome::Nothing => Ok(()),
        _ => Err(unexpected(spec)),
    }
}

/// Runs an operation that answers JSON of a known form. For generated methods.
///
/// # Errors
/// Those of the operation.
#[doc(hidden)]
pub async fn run_json<E: Entity, T: DeserializeOwned>(
    adapter: &Adapter<E>,
    spec: &'static OpSpec,
    cx: &Cx,
    args: Vec<Option<Value>>,
) -> Result<T> {
    match call(adapter, spec, cx, args, PageArgs::default()).await? {
        Outcome::Json(text) => serde_json::from_slice(&text).map_err(Error::internal),
        _ => Err(unexpected(spec)),
    }
}

/// Runs an upsert. For generated methods.
///
/// # Errors
/// Those of the operation.
#[doc(hidden)]
pub async fn run_upserted<E: Entity>(
    adapter: &Adapter<E>,
    spec: &'static OpSpec,
    cx: &Cx,
    args: Vec<Option<Value>>,
) -> Result<Upserted<E>> {
    match call(adapter, spec, cx, args, PageArgs::default()).await? {
        Outcome::Upserted(rows) => {
            let created = rows.created;
            Ok(Upserted { entity: one(rows)?, created })
        }
        _ => Err(unexpected(spec)),
    }
}

async fn call<E: Entity>(
    adapter: &Adapter<E>,
    spec: &'static OpSpec,
    cx: &Cx,
    args: Vec<Option<Value>>,
    page: PageArgs,
) -> Result<Outcome> {
    adapter.table.run(spec, Call { cx, args, page, form: &Form::Records, version: None }).await
}

fn unexpected(spec: &OpSpec) -> Error {
    Error::internal(format!("operation `{}` answered in another form than declared", spec.name))
}

fn optional<E: Entity>(mut rows: Rows) -> Result<Option<E>> {
    let Some(values) = rows.records.pop() else { return Ok(None) };
    E::read(&Borrowed(&values)).map(Some).map_err(Error::internal)
}

fn one<E: Entity>(rows: Rows) -> Result<E> {
    optional(rows)?.ok_or_else(Error::not_found)
}

fn page_of<E: Entity>(outcome: Outcome) -> Result<Page<E>> {
    let Outcome::Page { rows, next_cursor } = outcome else {
        return Err(Error::internal("a page was expected"));
    };
    let items = rows.records.iter().map(|values| E::read(&Borrowed(values)).map_err(Error::internal)).collect::<Result<_>>()?;
    Ok(Page { items, has_more: next_cursor.is_some(), next_cursor })
}

/// Typed access to every adapter of an app.
#[derive(Clone, Default)]
pub struct Adapters {
    tables: Arc<HashMap<&'static str, Arc<Table>>>,
    events: EventBus,
    provided: Provided,
}

impl std::fmt::Debug for Adapters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.tables.values()).finish()
    }
}

impl Adapters {
    /// Adapters over mounted tables.
    #[doc(hidden)]
    pub fn new(tables: impl IntoIterator<Item = Arc<Table>>) -> Self {
        // Storage names are unique within an app: start-up checks that.
        let tables: Arc<HashMap<_, Arc<Table>>> = Arc::new(tables.into_iter().map(|t| (t.desc.storage_name, t)).collect());
        let provided = Provided::default();
        for table in tables.values() {
            table.link(&tables, &provided);
        }
        Self { tables, events: EventBus::default(), provided }
    }

    /// With the bus of the app.
    pub(crate) fn with_events(self, events: EventBus) -> Self {
        Self { events, ..self }
    }

    /// Whether changes of any entity make events.
    pub(crate) fn emit(&self) -> bool {
        self.tables.values().any(|table| table.emits())
    }

    /// Where events can be listened to.
    pub fn events(&self) -> &EventBus {
        &self.events
    }

    /// Keeps a value for handlers of custom operations and routes of this app, by its type: what an `after_adapters` hook has
    /// captured, such as the adapters of other entities. A second value of a type takes the first one's place.
    pub fn provide<T: Send + Sync + 'static>(&self, value: T) {
        self.provided.put(value);
    }

    /// What [`Adapters::provide`] keeps.
    ///
    /// # Errors
    /// `internal` when nobody has provided a `T`.
    pub fn provided<T: Send + Sync + 'static>(&self) -> Result<Arc<T>> {
        self.provided.get()
    }

    /// The adapter of `E`.
    ///
    /// # Errors
    /// When no package of the app lists `E`.
    pub fn get<E: Entity>(&self) -> Result<E::Adapter> {
        match self.table(E::DESC.storage_name) {
            Some(table) => Ok(Adapter::new(Arc::clone(table)).into()),
            None => Err(Error::internal(format!("entity `{}` is in no package of this app", E::DESC.name))),
        }
    }

    /// Makes the search index of `E` anew, from every record there is; says how many. Records are written and searched
    /// meanwhile. An index follows changes by itself: this is for one that was lost or brought back from an old copy.
    ///
    /// # Errors
    /// When `E` has no search provider; when the store or the provider fails.
    pub async fn rebuild_search<E: Entity>(&self) -> Result<u64> {
        self.rebuild_index(E::DESC.storage_name).await
    }

    /// Makes the search index of an entity anew.
    pub(crate) async fn rebuild_index(&self, storage_name: &str) -> Result<u64> {
        let table = self.table(storage_name);
        match table.and_then(|table| Some((table, table.search_index()?))) {
            Some((table, index)) => index.rebuild(table).await,
            None => Err(Error::internal(format!("`{storage_name}` has no search index in this app"))),
        }
    }

    /// Every table.
    pub(crate) fn tables(&self) -> Vec<Arc<Table>> {
        self.tables.values().map(Arc::clone).collect()
    }

    /// The table with a storage name.
    #[doc(hidden)]
    pub fn table(&self, storage_name: &str) -> Option<&Arc<Table>> {
        self.tables.get(storage_name)
    }
}
