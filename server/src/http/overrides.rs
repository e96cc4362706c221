//! Overrides: generated routes that run a function of the app.

use std::sync::Arc;

use crate::entity::{Entity, FieldType, PageArgs};
use crate::operation::Sql;
use crate::resource::{Adapter, Adapters, BoxFuture, Draft, Form, ListRequest, Outcome, Table};
use crate::validate::canonical_value;
use crate::{Cx, Error, Result, Value};

/// A replacement for the executor of a route (`overrides`). The policy, parsing and validation run
/// before it, and the projection runs after it.
pub type Override = Arc<dyn Fn(OverrideCall) -> BoxFuture<'static, Result<Outcome>> + Send + Sync>;

/// The input of an override.
#[derive(Debug)]
pub struct OverrideCall {
    /// The caller, the instant and the request id.
    pub cx: Cx,
    /// The table of the route's entity.
    pub table: Arc<Table>,
    /// Typed access to every entity.
    pub adapters: Adapters,
    /// The typed inputs.
    pub inputs: Inputs,
    /// The requested form of records, to be passed to `table`.
    pub form: Form,
    /// `create`, `list` and so on, or the name of the operation.
    pub route: &'static str,
}

impl OverrideCall {
    /// The adapter of the route's entity, or of another entity.
    ///
    /// # Errors
    /// When no package of the app lists `E`.
    pub fn adapter<E: Entity>(&self) -> Result<E::Adapter>
    where
        E::Adapter: From<Adapter<E>>,
    {
        self.adapters.get::<E>()
    }

    /// The key of the record in the path.
    ///
    /// # Errors
    /// `internal` when the route has no record in its path, or keys have another type.
    pub fn key<T: FieldType>(&self) -> Result<T> {
        let key = match &self.inputs {
            Inputs::Get(key) | Inputs::Update(key, ..) | Inputs::Delete(key, _) => Some(key),
            Inputs::Operation(args, ..) => args.first().and_then(Option::as_ref),
            Inputs::Create(_) | Inputs::List(_) => None,
        };
        let key =
            key.ok_or_else(|| Error::internal(format!("route `{}` names no record", self.route)))?;
        T::from_value(key.as_ref()).map_err(Error::internal)
    }

    /// Returns the argument of an operation at a position; an omitted argument is null.
    ///
    /// # Errors
    /// `internal` when the route is not an operation, or the argument has another type.
    pub fn arg<T: FieldType>(&self, position: usize) -> Result<T> {
        let Inputs::Operation(args, ..) = &self.inputs else {
            return Err(Error::internal(format!(
                "route `{}` has no arguments",
                self.route
            )));
        };
        let value = args.get(position).cloned().flatten().unwrap_or_default();
        T::from_value(value.as_ref()).map_err(Error::internal)
    }

    /// Prepares SQL on the entity's table, with the row-level filter of the route; see
    /// [`CustomCall::sql`](crate::operation::CustomCall::sql).
    pub fn sql(&self, text: &'static str) -> Sql<'_> {
        Sql::new(&self.table, &self.cx, self.route, text)
    }

    /// The outcome of a route that returns one record: the record with this key, with the fields
    /// that the caller may read.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn record(&self, key: impl FieldType) -> Result<Outcome> {
        let key = canonical_value(self.table.desc.primary_field(), key.into_value());
        Ok(Outcome::Record(
            self.table
                .read(&self.cx, self.route, key, &self.form)
                .await?,
        ))
    }
}

/// The typed inputs of a route.
#[derive(Debug)]
pub enum Inputs {
    /// For `create`: a value for every field, defaults included.
    Create(Draft),
    /// For `list`.
    List(ListRequest),
    /// For `get`: the key.
    Get(Value),
    /// For `update`: the key, the changes, the expected version.
    Update(Value, Draft, Option<i64>),
    /// For `delete`: the key, the expected version.
    Delete(Value, Option<i64>),
    /// For an operation: its arguments, page and expected version.
    Operation(Vec<Option<Value>>, PageArgs, Option<i64>),
}
