//! `custom`: a function of the user's for each store, within the same shell as every other kind.
//!
//! The declaration says what goes in and what comes out; [`CustomCall`] is what a function gets to work with.

use super::{Answer, Kind};
use crate::Code;
use crate::entity::{self, EntityDesc, FieldDesc};

/// Options of a custom operation.
#[derive(Debug)]
pub struct Custom {
    /// What it answers.
    pub output: Shape,
    /// Whether it is declared to read only: its method is GET.
    pub reads: bool,
    /// Whether its path names a record.
    pub by_id: bool,
    /// Texts of its statements, and conditions of them, that the app does not start without.
    pub texts: &'static [&'static str],
    /// The function of each store.
    #[cfg(feature = "server")]
    pub handlers: Handlers,
}

/// The function of each store; `None` where there is none.
#[cfg(feature = "server")]
#[derive(Clone, Copy, Debug, Default)]
pub struct Handlers {
    /// On `memory`.
    pub memory: Option<Handler>,
    /// On `sqlite`.
    pub sqlite: Option<Handler>,
    /// On `postgres`.
    pub postgres: Option<Handler>,
}

/// A function as the runtime calls it; the macro writes it around the user's.
#[cfg(feature = "server")]
pub type Handler = fn(call::Erased) -> crate::BoxFuture<'static, crate::Result<call::Made>>;

/// The form of an answer.
#[derive(Clone, Copy, Debug)]
pub enum Shape {
    /// None: 204.
    Nothing,
    /// A value of a type.
    Value(entity::Kind),
    /// An object.
    Object(&'static [FieldDesc]),
    /// That, or null.
    Optional(&'static Shape),
    /// A list of that.
    List(&'static Shape),
    /// The record whose key the function answers.
    Record,
    /// The record whose key the function answers, or null.
    RecordOrNull,
    /// The records whose keys the function answers, in that order.
    Records,
}

/// A type that a custom operation may answer with.
///
/// Implemented for `String`, `Uuid`, `bool`, `i64`, `f64`, `Timestamp`, `serde_json::Value`, `Json<T>`, `#[derive(Embedded)]`
/// structs, and `Option` and `Vec` of each. The entity itself, an `Option` or a `Vec` of it are answered by key.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be answered by a custom operation",
    label = "not an output",
    note = "use a #[derive(Embedded)] struct, a plain value, Json<T>, an Option or a Vec of one, or the operation's own entity"
)]
pub trait Output: serde::Serialize + serde::de::DeserializeOwned + Send + 'static {
    /// How it looks.
    const SHAPE: Shape;
}

macro_rules! plain {
    ($($ty:ty),*) => {$(
        impl Output for $ty {
            const SHAPE: Shape = Shape::Value(<$ty as entity::FieldType>::KIND);
        }
    )*};
}
plain!(String, entity::Uuid, bool, i64, f64, crate::Timestamp, serde_json::Value);

impl<T: entity::Embedded + Send + 'static> Output for T {
    const SHAPE: Shape = Shape::Object(T::FIELDS);
}

impl<T: serde::Serialize + serde::de::DeserializeOwned + Send + 'static> Output for entity::Json<T> {
    const SHAPE: Shape = Shape::Value(entity::Kind::Json);
}

impl<T: Output> Output for Option<T> {
    const SHAPE: Shape = Shape::Optional(&T::SHAPE);
}

impl<T: Output> Output for Vec<T> {
    const SHAPE: Shape = Shape::List(&T::SHAPE);
}

#[doc(hidden)]
impl Custom {
    /// Answers in this form.
    pub const fn new(output: Shape) -> Self {
        Self {
            output,
            reads: false,
            by_id: false,
            texts: &[],
            #[cfg(feature = "server")]
            handlers: Handlers { memory: None, sqlite: None, postgres: None },
        }
    }

    /// With the texts of its statements.
    #[must_use]
    pub const fn sql(self, texts: &'static [&'static str]) -> Self {
        Self { texts, ..self }
    }

    /// Reads only.
    #[must_use]
    pub const fn reads(self) -> Self {
        Self { reads: true, ..self }
    }

    /// Works on the record that its path names.
    #[must_use]
    pub const fn by_id(self) -> Self {
        Self { by_id: true, ..self }
    }

    /// On the memory store.
    #[cfg(feature = "server")]
    #[must_use]
    pub const fn memory(self, handler: Option<Handler>) -> Self {
        Self { handlers: Handlers { memory: handler, ..self.handlers }, ..self }
    }

    /// On SQLite.
    #[cfg(feature = "server")]
    #[must_use]
    pub const fn sqlite(self, handler: Option<Handler>) -> Self {
        Self { handlers: Handlers { sqlite: handler, ..self.handlers }, ..self }
    }

    /// On Postgres.
    #[cfg(feature = "server")]
    #[must_use]
    pub const fn postgres(self, handler: Option<Handler>) -> Self {
        Self { handlers: Handlers { postgres: handler, ..self.handlers }, ..self }
    }
}

#[cfg(feature = "server")]
impl Handlers {
    fn of(&self, store: &str) -> Option<Handler> {
        match store {
            "memory" => self.memory,
            "sqlite" => self.sqlite,
            "postgres" => self.postgres,
            _ => None,
        }
    }
}

/// The parameters of a custom operation, as fields of nothing that is stored.
#[doc(hidden)]
pub const fn custom_params(fields: &'static [FieldDesc]) -> EntityDesc {
    EntityDesc::new("", "", "", fields)
}

impl Kind for Custom {
    fn name(&self) -> &'static str {
        "custom"
    }

    fn touches(&self, _: &crate::entity::EntityDesc) -> crate::entity::FieldSet {
        if self.reads { crate::entity::FieldSet::NONE } else { crate::entity::FieldSet::ALL }
    }

    fn capability(&self) -> &'static str {
        "custom.factory"
    }

    #[cfg(feature = "server")]
    fn brings(&self, store: &str) -> bool {
        self.handlers.of(store).is_some()
    }

    fn returns(&self) -> Answer {
        match self.output {
            Shape::Nothing => Answer::Nothing,
            Shape::Record => Answer::Record,
            Shape::RecordOrNull => Answer::RecordOrNull,
            Shape::Records => Answer::Records,
            Shape::Value(_) | Shape::Object(_) | Shape::Optional(_) | Shape::List(_) => Answer::Value,
        }
    }

    fn shape(&self) -> Option<Shape> {
        Some(self.output)
    }

    fn texts(&self) -> &'static [&'static str] {
        self.texts
    }

    fn by_id(&self) -> bool {
        self.by_id
    }

    fn reads(&self) -> bool {
        self.reads
    }

    fn statements(&self, _: &EntityDesc) -> Option<usize> {
        None
    }

    fn errors(&self) -> &'static [Code] {
        &[Code::ValidationFailed, Code::NotFound, Code::Conflict]
    }

    #[cfg(feature = "server")]
    fn plan(
        &'static self,
        spec: &'static super::OpSpec,
        table: &crate::resource::Table,
    ) -> crate::Result<Box<dyn crate::resource::Executor>> {
        Ok(Box::new(run::Run::new(self, spec, table)?))
    }
}

#[cfg(feature = "server")]
pub(crate) mod call;
#[cfg(feature = "server")]
pub(crate) mod records;

#[cfg(feature = "server")]
mod run {
    use super::call::{Erased, Made};
    use super::{Custom, Handler};
    use crate::entity::SortDesc;
    use crate::filter::{Filter, Op, Operand, Source};
    use crate::operation::{OpSpec, Place, bind};
    use crate::resource::{BoxFuture, Call, Executor, Form, Outcome, Table};
    use crate::store::{Plan, Rows};
    use crate::validate::{Validator, canonical_value, list_value};
    use crate::{Error, Result, Value};

    pub(super) struct Run {
        kind: &'static Custom,
        spec: &'static OpSpec,
        handler: Handler,
        /// The parameter that is the body, and what holds for it.
        body: Option<(usize, Validator)>,
    }

    impl Run {
        pub(super) fn new(kind: &'static Custom, spec: &'static OpSpec, table: &Table) -> Result<Self> {
            let store = table.store_name();
            let handler = kind.handlers.of(store).ok_or_else(|| {
                let (name, entity) = (spec.name, table.desc.name);
                Error::internal(format!("no {store} factory is registered for operation `{name}` of `{entity}`"))
            })?;
            let body = spec.params.iter().position(|param| matches!(param.place, Place::Whole(_)));
            let rules = |at: usize| Ok::<_, Error>((at, Validator::new(spec.params[at].entity.unwrap_or(table.desc))?));
            Ok(Self { kind, spec, handler, body: body.map(rules).transpose()? })
        }

        async fn answer(&self, table: &Table, call: &Call<'_>, made: Made) -> Result<Outcome> {
            match made {
                Made::Nothing => Ok(Outcome::Nothing),
                Made::Json(text) => Ok(Outcome::Json(text)),
                Made::One(Some(key)) => Ok(Outcome::Record(table.read(call.cx, self.spec.name, stored(table, key), call.form).await?)),
                Made::One(None) => Ok(Outcome::Record(Rows::count())),
                Made::Many(keys) => {
                    let keys = keys.into_iter().map(|key| stored(table, key)).collect();
                    Ok(Outcome::List(self.many(table, call, keys).await?))
                }
                Made::Chosen(choice) => Ok(Outcome::List(choice.read(table, call.cx, self.spec.name, call.form).await?)),
            }
        }

        /// Records by their keys, in that order and under the guard; those nobody may see are left out.
        async fn many(&self, table: &Table, call: &Call<'_>, mut keys: Vec<Value>) -> Result<Rows> {
            let mut seen = std::collections::HashSet::new();
            keys.retain(|key| seen.insert(key_text(key)));
            let primary = table.desc.primary;
            let plan = || {
                let slot = Source::Arg { index: 0, nullable: false };
                let filter = Filter::cond(primary, Op::In, Operand::One(slot));
                Plan::Select { filter, order: table.order(&[SortDesc { field: primary, desc: false }]), after: None, limit: None }
            };
            let statement = table.shape(self.spec.name, b"custom keys", plan)?;
            let mut rows = table.execute(call.cx, &statement, vec![list_value(&keys)], table.rows(&Form::Records)).await?;
            let place = |record: &[Value]| {
                let key = key_text(&record[primary]);
                keys.iter().position(|wanted| key_text(wanted) == key)
            };
            rows.records.sort_by_cached_key(|record| place(record));
            Ok(rows)
        }
    }

    /// A key as the table holds it.
    fn stored(table: &Table, key: Value) -> Value {
        canonical_value(table.desc.primary_field(), key)
    }

    /// Keys are texts or whole numbers, and all of an entity alike.
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
                debug_assert!(self.kind.handlers.of(table.store_name()).is_some());
                self.answer(table, &call, made).await
            })
        }
    }
}
