//! Context values: their providers, and the routes that read them.

use std::sync::Arc;

use axum::http::request::Parts;

use super::endpoint::{Action, Endpoint};
use crate::entity::{DefaultDesc, EntityDesc, FieldType, Kind, ScopeFrom};
use crate::filter::CtxPath;
use crate::operation::Derive;
use crate::resource::BoxFuture;
use crate::validate::MAX_INTEGER;
use crate::{ContextDesc, ContextValue, Cx, Error, Problem, Result, Value};

/// The request for which a provider finds a value.
#[derive(Clone, Copy, Debug)]
pub struct ContextCall<'a> {
    /// The call: its actor, its instant, its request id.
    pub cx: &'a Cx,
    /// The head of the request.
    pub parts: &'a Parts,
}

/// The result of a provider: the value, or null.
type Provide = Arc<dyn for<'a> Fn(ContextCall<'a>) -> ContextOutcome<'a> + Send + Sync>;

enum ContextOutcome<'a> {
    Ready(Result<Value>),
    Later(BoxFuture<'a, Result<Value>>),
}

/// The providers of context values, in the order in which plugins registered them.
#[derive(Clone, Default)]
pub struct ContextProviders(Vec<(ContextDesc, Provide)>);

impl std::fmt::Debug for ContextProviders {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list()
            .entries(self.0.iter().map(|(desc, _)| desc.name))
            .finish()
    }
}

impl ContextProviders {
    /// Adds a synchronous provider.
    ///
    /// # Errors
    /// When the name is taken.
    pub fn add<V: ContextValue>(
        &mut self,
        provide: impl Fn(ContextCall<'_>) -> Result<Option<V::Value>> + Send + Sync + 'static,
    ) -> Result<()> {
        self.insert::<V>(Arc::new(move |call| {
            ContextOutcome::Ready(provide(call).map(value))
        }))
    }

    /// Adds an asynchronous provider.
    ///
    /// # Errors
    /// When the name is taken.
    pub fn add_later<V: ContextValue>(
        &mut self,
        provide: impl for<'a> Fn(ContextCall<'a>) -> BoxFuture<'a, Result<Option<V::Value>>>
        + Send
        + Sync
        + 'static,
    ) -> Result<()>
    where
        V::Value: Send,
    {
        self.insert::<V>(Arc::new(move |call| {
            let provided = provide(call);
            ContextOutcome::Later(Box::pin(async move { provided.await.map(value) }))
        }))
    }

    fn insert<V: ContextValue>(&mut self, provide: Provide) -> Result<()> {
        if self.kind_of(V::NAME).is_some() {
            return Err(Error::internal(format!(
                "two plugins provide `ctx({})`; keep one",
                V::NAME
            )));
        }
        self.0.push((V::DESC, provide));
        Ok(())
    }

    /// The type of a provided value.
    pub(crate) fn kind_of(&self, name: &str) -> Option<Kind> {
        self.0
            .iter()
            .find(|(desc, _)| desc.name == name)
            .map(|(desc, _)| desc.kind)
    }

    /// Every name.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> {
        self.0.iter().map(|(desc, _)| desc.name)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the same call with all context values.
    ///
    /// # Errors
    /// The errors of a provider; `validation_failed` for a value that no field can hold.
    pub(super) async fn with_provided_values(&self, parts: &Parts, mut cx: Cx) -> Result<Cx> {
        // Providers run one after the other, so that each can read the values of the previous ones.
        for (desc, provide) in &self.0 {
            let value = match provide(ContextCall { cx: &cx, parts }) {
                ContextOutcome::Ready(value) => value?,
                ContextOutcome::Later(value) => value.await?,
            };
            check(*desc, &value)?;
            cx = cx.with_context_values([(desc.name, value)]);
        }
        Ok(cx)
    }
}

fn value<T: FieldType>(provided: Option<T>) -> Value {
    provided.map_or(Value::Null, T::into_value)
}

/// Refuses a value that stores cannot compare: a provider may take it from the request.
fn check(desc: ContextDesc, value: &Value) -> Result<()> {
    let problem = match value {
        Value::Text(text) if text.contains('\0') => Some(("format", "must not contain U+0000")),
        Value::Int(n) if n.unsigned_abs() > MAX_INTEGER.unsigned_abs() => {
            Some(("range", "must be within ±(2^53−1)"))
        }
        Value::Float(n) if !n.is_finite() => Some(("range", "must be finite")),
        _ => None,
    };
    match problem {
        None => Ok(()),
        Some((code, message)) => Err(Error::validation(vec![Problem::new(
            format!("ctx:{}", desc.name),
            code,
            message,
        )])),
    }
}

/// The context values that a route needs: those that its declaration names, and those that the
/// conditions on its entity's records read.
pub(crate) fn needed(endpoint: &Endpoint) -> Vec<ContextDesc> {
    let lifted = matches!(endpoint.action, Action::Operation(spec, _) if spec.unscoped.is_some());
    let own = !matches!(endpoint.action, Action::Extra(_) | Action::Plugin(_));
    let desc = endpoint
        .table
        .as_ref()
        .map(|table| table.desc)
        .filter(|_| own);
    let scopes = desc
        .into_iter()
        .flat_map(|desc| desc.scope)
        .filter(|scope| !lifted && scope.holds_on(&endpoint.name));
    let scopes = scopes.filter_map(|scope| match scope.from {
        ScopeFrom::Ctx(path) => Some(path),
        ScopeFrom::Path(_) => None,
    });
    let defaults = desc
        .filter(|_| matches!(endpoint.action, Action::Create))
        .into_iter()
        .flat_map(|desc| desc.fields);
    let defaults = defaults.filter_map(|field| match field.default {
        DefaultDesc::Ctx(path) => Some(path),
        _ => None,
    });
    let mut out: Vec<ContextDesc> = scopes
        .chain(defaults)
        .filter_map(provided_value)
        .chain(desc.into_iter().flat_map(needed_by_conditions))
        .collect();
    if let Action::Operation(spec, _) = endpoint.action {
        out.extend_from_slice(spec.context);
        let entities = spec.kind.derived().map_or_else(Vec::new, Derive::entities);
        out.extend(entities.into_iter().flat_map(needed_by_conditions));
    }
    out.sort_by_key(|desc| desc.name);
    out.dedup();
    out
}

/// The context values that the conditions and gates of an entity read.
pub(crate) fn needed_by_conditions(desc: &'static EntityDesc) -> impl Iterator<Item = ContextDesc> {
    crate::resource::gate::context(desc)
        .into_iter()
        .filter_map(provided_value)
}

/// A context value that is not a value of the actor.
pub(crate) fn provided_value(path: CtxPath) -> Option<ContextDesc> {
    match path {
        CtxPath::Value(desc) => Some(desc),
        CtxPath::ActorId
        | CtxPath::TenantId
        | CtxPath::ActorKind
        | CtxPath::SessionId
        | CtxPath::Claim(_) => None,
    }
}
