//! The executor of `custom`.
//!
//! The function of an app gets a [`CustomCall`](call::CustomCall).

pub(crate) mod call;
pub(crate) mod records;

use self::call::{Erased, Made};
use super::Custom;
use crate::entity::SortDesc;
use crate::filter::{Filter, Op, Operand, Source};
use crate::operation::{OpSpec, Place, bind};
use crate::resource::{BoxFuture, Call, Executor, Form, Outcome, Table};
use crate::store::{Plan, Rows};
use crate::validate::{Validator, canonical_value, list_value};
use crate::{Error, Result, Value};

/// The function that the server calls. The macro generates it around the user's function.
pub type Handler = fn(Erased) -> BoxFuture<'static, Result<Made>>;

/// Plans an operation of this kind for one mounted entity.
///
/// # Errors
/// If the store refuses a statement of the operation.
pub(super) fn plan(
    kind: &'static Custom,
    spec: &'static OpSpec,
    table: &Table,
) -> Result<Box<dyn Executor>> {
    Ok(Box::new(Run::new(kind, spec, table)?))
}

pub(super) struct Run {
    kind: &'static Custom,
    spec: &'static OpSpec,
    handler: Handler,
    /// The parameter that is the body, and its rules.
    body: Option<(usize, Validator)>,
}

impl Run {
    pub(super) fn new(kind: &'static Custom, spec: &'static OpSpec, table: &Table) -> Result<Self> {
        let store = table.store_name();
        let handler = kind
            .handler(store)
            .and_then(|handler| handler.downcast_ref::<Handler>())
            .ok_or_else(|| {
                let (name, entity) = (spec.name, table.desc.name);
                Error::internal(format!(
                    "no {store} function is registered for operation `{name}` of `{entity}`"
                ))
            })?;
        let body = spec
            .params
            .iter()
            .position(|param| matches!(param.place, Place::Whole(_)));
        let rules = |at: usize| {
            Ok::<_, Error>((
                at,
                Validator::new(spec.params[at].entity.unwrap_or(table.desc))?,
            ))
        };
        Ok(Self {
            kind,
            spec,
            handler: *handler,
            body: body.map(rules).transpose()?,
        })
    }

    async fn answer(&self, table: &Table, call: &Call<'_>, made: Made) -> Result<Outcome> {
        match made {
            Made::Nothing => Ok(Outcome::Nothing),
            Made::Json(text) => Ok(Outcome::Json(text)),
            Made::One(Some(key)) => Ok(Outcome::Record(
                table
                    .read(call.cx, self.spec.name, stored(table, key), call.form)
                    .await?,
            )),
            Made::One(None) => Ok(Outcome::Record(Rows::count())),
            Made::Many(keys) => {
                let keys = keys.into_iter().map(|key| stored(table, key)).collect();
                Ok(Outcome::List(self.many(table, call, keys).await?))
            }
            Made::Chosen(choice) => Ok(Outcome::List(
                choice
                    .read(table, call.cx, self.spec.name, call.form)
                    .await?,
            )),
        }
    }

    /// Reads records by their keys, in that order, with the row-level filter. Records that the
    /// caller cannot see are left out.
    async fn many(&self, table: &Table, call: &Call<'_>, mut keys: Vec<Value>) -> Result<Rows> {
        let mut seen = std::collections::HashSet::new();
        keys.retain(|key| seen.insert(key_text(key)));
        let primary = table.desc.primary;
        let plan = || {
            let slot = Source::Arg {
                index: 0,
                nullable: false,
            };
            let filter = Filter::cond(primary, Op::In, Operand::One(slot));
            Plan::Select {
                filter,
                order: table.order(&[SortDesc {
                    field: primary,
                    desc: false,
                }]),
                after: None,
                limit: None,
            }
        };
        let statement = table.shape(self.spec.name, b"custom keys", plan)?;
        let mut rows = table
            .execute(
                call.cx,
                &statement,
                vec![list_value(&keys)],
                table.rows(&Form::Records),
            )
            .await?;
        let place = |record: &[Value]| {
            let key = key_text(&record[primary]);
            keys.iter().position(|wanted| key_text(wanted) == key)
        };
        rows.records.sort_by_cached_key(|record| place(record));
        Ok(rows)
    }
}

/// A key in the form in which the table stores it.
fn stored(table: &Table, key: Value) -> Value {
    canonical_value(table.desc.primary_field(), key)
}

/// The key as text. A key is text or an integer; the type is the same for all records of an entity.
fn key_text(key: &Value) -> String {
    match key {
        Value::Text(text) => text.clone(),
        Value::Int(number) => number.to_string(),
        _ => String::new(),
    }
}

impl Executor for Run {
    fn run<'a>(&'a self, table: &'a Table, call: Call<'a>) -> BoxFuture<'a, Result<Outcome>> {
        Box::pin(async move {
            bind::check(self.spec, table, &call, &[])?;
            if let Some((at, rules)) = &self.body
                && let Some(Some(Value::Json(text))) = call.args.get(*at)
            {
                rules.check_item(self.spec.params[*at].field, text)?;
            }
            let erased = Erased::new(table.sibling(table.desc)?, self.spec, &call)?;
            let made = (self.handler)(erased).await?;
            debug_assert!(self.kind.handler(table.store_name()).is_some());
            self.answer(table, &call, made).await
        })
    }
}
