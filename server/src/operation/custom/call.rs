//! The input of a custom operation's function, and the conversion of its result.

use std::marker::PhantomData;
use std::sync::{Arc, OnceLock};

use super::super::CustomOutput as Output;
use super::records::{Answers, Choice, MayName, Named, NamesOne, Records};
use crate::entity::{Embedded, Entity, FieldType, Kind};
use crate::filter::Filter;
use crate::operation::OpSpec;
use crate::resource::{Adapter, Call, Form, Table, records_of};
use crate::store::{CustomStore, Plan, SqlAnswer, SqlQuery, SqlRow, SqlStore, SqlTransaction};
use crate::{Cx, Error, Result, Value};

/// A call without the types of its entity and its store.
#[doc(hidden)]
#[derive(Debug)]
pub struct Erased {
    cx: Cx,
    table: Arc<Table>,
    spec: &'static OpSpec,
    version: Option<i64>,
    args: std::vec::IntoIter<Option<Value>>,
}

/// The result of a function, without the type of its output.
#[doc(hidden)]
#[derive(Debug)]
pub enum Made {
    Nothing,
    Json(Vec<u8>),
    One(Option<Value>),
    Many(Vec<Value>),
    Chosen(Choice),
}

impl Erased {
    pub(super) fn new(table: Arc<Table>, spec: &'static OpSpec, call: &Call<'_>) -> Result<Self> {
        // A caller who may not see any records is refused before the function runs.
        table.admit(call.cx, spec.name)?;
        Ok(Self {
            cx: call.cx.for_operation(spec.name),
            table,
            spec,
            version: call.version,
            args: call.args.clone().into_iter(),
        })
    }

    /// The call with the types of its entity and its store.
    pub fn typed<E: Entity, S: CustomStore>(&self) -> CustomCall<E, S> {
        let Self {
            cx,
            table,
            spec,
            version,
            ..
        } = self;
        CustomCall {
            cx: cx.clone(),
            table: Arc::clone(table),
            spec,
            version: *version,
            native: OnceLock::new(),
            of: PhantomData,
        }
    }

    /// The next argument.
    ///
    /// # Errors
    /// When it has another type than declared.
    pub fn take<T: FieldType>(&mut self) -> Result<T> {
        let value = self.args.next().flatten().unwrap_or_default();
        T::from_value(value.as_ref()).map_err(Error::internal)
    }

    /// The body.
    ///
    /// # Errors
    /// When it has another form than declared.
    pub fn input<T: Embedded>(&mut self) -> Result<T> {
        match self.args.next() {
            Some(Some(Value::Json(text))) => serde_json::from_str(&text).map_err(Error::internal),
            _ => Err(Error::internal("a custom operation lacks its input")),
        }
    }
}

/// An error of the function: an error of the framework is kept, any other error becomes 500.
fn framework_error<T, E: Into<Box<dyn std::error::Error + Send + Sync>>>(
    result: Result<T, E>,
) -> Result<T> {
    result.map_err(|error| match error.into().downcast::<Error>() {
        Ok(ours) => *ours,
        Err(other) => Error::internal(other),
    })
}

/// Accepts a result that is not a record.
///
/// # Errors
/// The errors of the function.
#[doc(hidden)]
pub fn made_value<T: Output, V: Answers<T>>(
    result: Result<V, impl Into<Box<dyn std::error::Error + Send + Sync>>>,
) -> Result<Made> {
    serde_json::to_vec(&framework_error(result)?.answer())
        .map(Made::Json)
        .map_err(Error::internal)
}

/// Accepts any result, for an operation without output.
///
/// # Errors
/// The errors of the function.
#[doc(hidden)]
pub fn made_nothing<T, E: Into<Box<dyn std::error::Error + Send + Sync>>>(
    result: Result<T, E>,
) -> Result<Made> {
    framework_error(result).map(|_| Made::Nothing)
}

/// Accepts the key of a record.
///
/// # Errors
/// The errors of the function.
#[doc(hidden)]
pub fn made_record<T: Entity, N: NamesOne<T>>(
    result: Result<N, impl Into<Box<dyn std::error::Error + Send + Sync>>>,
) -> Result<Made> {
    Ok(Made::One(Some(framework_error(result)?.key().into_value())))
}

/// Accepts the key of a record, or `None`.
///
/// # Errors
/// The errors of the function.
#[doc(hidden)]
pub fn made_optional<T: Entity, N: MayName<T>>(
    result: Result<N, impl Into<Box<dyn std::error::Error + Send + Sync>>>,
) -> Result<Made> {
    Ok(Made::One(
        framework_error(result)?.key().map(FieldType::into_value),
    ))
}

/// Accepts the keys of records, or a condition that selects them.
///
/// # Errors
/// The errors of the function.
#[doc(hidden)]
pub fn made_records<T: Entity, N: Named<T>>(
    result: Result<N, impl Into<Box<dyn std::error::Error + Send + Sync>>>,
) -> Result<Made> {
    Ok(framework_error(result)?.made())
}

/// A call on the memory store.
pub type MemoryCall<E> = CustomCall<E, crate::store::memory::OnMemory>;

/// A call on SQLite.
#[cfg(feature = "sqlite")]
pub type SqliteCall<E> = CustomCall<E, crate::store::sqlite::OnSqlite>;

/// A call on Postgres.
#[cfg(feature = "postgres")]
pub type PostgresCall<E> = CustomCall<E, crate::store::postgres::OnPostgres>;

/// A call of a custom operation of `E` on the store `S`: its context, the entity's adapter, and SQL
/// with the row-level filter of the caller.
///
/// A function for every SQL store is generic: `async fn top<S: SqlStore>(call: CustomCall<Post, S>)
/// -> Result<..>`.
pub struct CustomCall<E, S: CustomStore> {
    cx: Cx,
    table: Arc<Table>,
    spec: &'static OpSpec,
    version: Option<i64>,
    /// The store's own handle, from the first use on.
    native: OnceLock<Option<S::Native>>,
    of: PhantomData<fn() -> E>,
}

impl<E, S: CustomStore> std::fmt::Debug for CustomCall<E, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CustomCall")
            .field("operation", &self.spec.name)
            .field("store", &S::NAME)
            .finish_non_exhaustive()
    }
}

impl<E: Entity, S: CustomStore> CustomCall<E, S> {
    /// The context: the caller, the instant and the request id. Changes that adapters make with it
    /// emit events of this operation.
    pub fn cx(&self) -> &Cx {
        &self.cx
    }

    /// The declaration.
    pub fn declaration(&self) -> &'static OpSpec {
        self.spec
    }

    /// The version that the caller expects of the record in the path (`If-Match`).
    pub fn version(&self) -> Option<i64> {
        self.version
    }

    /// The adapter of the entity. Unlike SQL of the function, changes through the adapter respect
    /// constraints, versions and `on_update` dates, emit events, and can be part of
    /// `cx().transaction(..)`.
    pub fn adapter(&self) -> E::Adapter
    where
        E::Adapter: From<Adapter<E>>,
    {
        Adapter::new(Arc::clone(&self.table)).into()
    }

    /// Returns a value that a start-up hook has stored for handlers: see
    /// [`Adapters::provide`](crate::Adapters::provide).
    ///
    /// # Errors
    /// `internal` when no hook has provided a `T`.
    pub fn provided<T: Send + Sync + 'static>(&self) -> Result<Arc<T>> {
        self.table.provided()
    }

    /// Returns the store's own handle, such as a connection pool, for statements that cannot
    /// contain the row-level filter. The reason is logged. The function itself decides which
    /// records its caller may see.
    ///
    /// # Errors
    /// `internal` if the store has no handle of this type.
    pub fn unguarded(&self, reason: &'static str) -> Result<&S::Native> {
        tracing::debug!(operation = self.spec.name, reason, "unguarded access");
        let handle = || Some(*self.table.native()?.downcast::<S::Native>().ok()?);
        self.native.get_or_init(handle).as_ref().ok_or_else(|| {
            Error::internal(format!(
                "the store has no handle of the type of `{}`",
                S::NAME
            ))
        })
    }

    /// Returns every record that the caller may see, in the default order of the entity. All of
    /// them are in memory at once: use it only with the memory store and for small tables.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn visible(&self) -> Result<Vec<E>> {
        let table = &self.table;
        let plan = || Plan::Select {
            filter: Filter::TRUE,
            order: table.order(table.desc.sort),
            after: None,
            limit: None,
        };
        let statement = table.shape(self.spec.name, b"custom visible", plan)?;
        records_of(
            &table
                .execute(&self.cx, &statement, Vec::new(), table.rows(&Form::Records))
                .await?,
        )
    }
}

impl<E: Entity, S: SqlStore> CustomCall<E, S> {
    /// Creates a statement on the entity's own table. The text contains the row-level filter as
    /// `{visible}` or `{guard}`. These names are replaced:
    ///
    /// - `{visible}` in `FROM`: the records that the caller may see, under the name of the table;
    /// - `{guard}` in `WHERE`: the condition for these records, for statements that change records;
    /// - `{table}`: the table;
    /// - `{column:title}`: the column of the field `title`.
    ///
    /// While a migration that renames the table or the column is open, `{table}` and
    /// `{column:title}` become the former names.
    ///
    /// A text with neither `{visible}` nor `{guard}` is an error. Parameters are `$1`, `$2` and so
    /// on, for every store. A statement is refused inside `cx().transaction(..)`.
    pub fn sql(&self, text: &'static str) -> Sql<'_> {
        Sql::new(&self.table, &self.cx, self.spec.name, text)
    }

    /// Selects the records that match a condition in SQL, among those that the caller may see.
    /// Return the result from the function, or [read](Self::read) it. The condition becomes part of
    /// `WHERE`, together with the row-level filter. Its parameters are `$1`, `$2` and so on, for
    /// every store.
    ///
    /// The condition reads other tables without the row-level filters of their entities. The
    /// condition is put in parentheses. A text that closes these parentheses, or contains a comment
    /// or a `;`, is an error when the statement first runs.
    pub fn records(&self, condition: &'static str) -> Records<E> {
        Records::new(condition)
    }

    /// Reads records.
    ///
    /// # Errors
    /// `internal` for a text that the database refuses; `unavailable`, `timeout`.
    pub async fn read(&self, records: Records<E>) -> Result<Vec<E>> {
        records_of(
            &records
                .choice()
                .read(&self.table, &self.cx, self.spec.name, &Form::Records)
                .await?,
        )
    }

    /// Begins a transaction for SQL of the function; see [`Sql::within`].
    ///
    /// # Errors
    /// `unavailable` when the store cannot begin one at present.
    pub async fn begin(&self) -> Result<SqlTransaction> {
        refuse_in_transaction(&self.cx)?;
        self.table.sql()?.begin(self.table.desc).await
    }
}

/// An SQL statement of a handler. Nothing runs before [`rows`](Self::rows),
/// [`column`](Self::column) or [`execute`](Self::execute).
#[must_use = "a statement does nothing until it is run"]
#[derive(Debug)]
pub struct Sql<'a> {
    table: &'a Table,
    cx: &'a Cx,
    route: &'static str,
    text: &'static str,
    values: Vec<(Value, Kind)>,
    within: Option<&'a mut SqlTransaction>,
}

impl<'a> Sql<'a> {
    pub(crate) fn new(
        table: &'a Table,
        cx: &'a Cx,
        route: &'static str,
        text: &'static str,
    ) -> Self {
        Self {
            table,
            cx,
            route,
            text,
            values: Vec::new(),
            within: None,
        }
    }

    /// Sets the value of the next parameter: the first one is `$1`.
    pub fn bind<T: FieldType>(mut self, value: T) -> Self {
        self.values.push((value.into_value(), T::KIND));
        self
    }

    /// Runs the statement within a transaction.
    pub fn within(self, transaction: &'a mut SqlTransaction) -> Self {
        Self {
            within: Some(transaction),
            ..self
        }
    }

    /// Runs the statement and returns all rows.
    ///
    /// # Errors
    /// `internal` for a text without `{visible}` and `{guard}`, or one that the database refuses;
    /// `conflict` for a unique value that is taken; `unavailable`, `timeout`.
    pub async fn rows(self) -> Result<Vec<SqlRow>> {
        match self.run(true).await? {
            SqlAnswer::Rows(rows) => Ok(rows),
            SqlAnswer::Count(_) => Err(Error::internal("rows were expected")),
        }
    }

    /// The values of one column.
    ///
    /// # Errors
    /// As [`Sql::rows`].
    pub async fn column<T: FieldType>(self, column: &str) -> Result<Vec<T>> {
        self.rows()
            .await?
            .iter()
            .map(|row| row.get(column))
            .collect()
    }

    /// Runs the statement and returns the number of changed records.
    ///
    /// # Errors
    /// As [`Sql::rows`].
    pub async fn execute(self) -> Result<u64> {
        match self.run(false).await? {
            SqlAnswer::Count(changed) => Ok(changed),
            SqlAnswer::Rows(_) => Err(Error::internal("a number was expected")),
        }
    }

    async fn run(self, rows: bool) -> Result<SqlAnswer> {
        refuse_in_transaction(self.cx)?;
        let filter = self.table.condition(self.cx, self.route)?;
        let query = SqlQuery {
            entity: self.table.desc,
            text: self.text,
            values: self.values,
            filter,
        };
        self.table.sql()?.run(query, self.within, rows).await
    }
}

/// Refuses SQL statements on the connection pool while the call is part of a transaction that
/// blocks the store: the statements would not see the writes of the transaction, and could wait for
/// it forever.
fn refuse_in_transaction(cx: &Cx) -> Result<()> {
    match cx.in_transaction() {
        None => Ok(()),
        Some(_) => Err(Error::internal(
            "SQL of a handler cannot run inside `cx.transaction(..)`: use the adapter there",
        )),
    }
}
