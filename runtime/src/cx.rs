//! The call context: who calls, when, and under which request.

#[cfg(feature = "server")]
use std::hash::BuildHasher;
#[cfg(feature = "server")]
use std::net::IpAddr;
#[cfg(feature = "server")]
use std::num::NonZeroU64;
use std::sync::Arc;
#[cfg(feature = "server")]
use std::sync::OnceLock;

#[cfg(feature = "server")]
use crate::Uuid;
use crate::entity::{Entity, EntityDesc, Field, FieldType};
use crate::filter::CtxPath;
#[cfg(feature = "server")]
use crate::store::TxScope;
use crate::{Actor, ContextDesc, ContextValue, Timestamp, Value};

/// The context of one call: every adapter method takes one, so no call is without a scope.
#[derive(Clone, Debug)]
pub struct Cx {
    scope: Scope,
    now: Timestamp,
    request_id: Arc<str>,
    #[cfg(feature = "server")]
    transaction: Option<Arc<TxScope>>,
    /// Where the request came from.
    #[cfg(feature = "server")]
    from: Option<IpAddr>,
    /// Where the first event of the call is noted, for its answer.
    #[cfg(feature = "server")]
    emitted: Option<Arc<OnceLock<Uuid>>>,
    /// The operation that other routes' statements run for.
    #[cfg(feature = "server")]
    operation: Option<&'static str>,
    /// What must hold of the records that it may touch.
    #[cfg(feature = "server")]
    only: Option<Arc<crate::permission::Only>>,
    /// What is told of its changes.
    #[cfg(feature = "server")]
    audit: Option<Arc<crate::audit::Auditing>>,
    /// Whether it follows from a change that the caller was allowed to make: then it reaches whosever records there are.
    #[cfg(feature = "server")]
    follows: bool,
    /// Whether what keeps numbers of the records that it changes has been taken; and whether the transaction ends with the statement.
    #[cfg(feature = "server")]
    taken: Option<bool>,
    /// What most calls have none of: parents and values of the context.
    around: Option<Arc<Around>>,
}

/// What surrounds a call besides its actor.
#[derive(Clone, Debug, Default)]
struct Around {
    /// Parameters of parent paths: storage name and field of the entity below, and the value.
    parents: Vec<(&'static str, usize, Value)>,
    /// Values of the context by name; null where who provides them has none.
    context: Vec<(&'static str, Value)>,
    /// What the call answers once.
    #[cfg(feature = "server")]
    once: Option<Arc<crate::http::Once>>,
}

#[derive(Clone, Debug)]
enum Scope {
    Actor(Arc<Actor>),
    /// The reason, and whether deleted records are meant as well.
    #[cfg_attr(not(feature = "server"), allow(dead_code))] // only stores reach deleted records
    System(&'static str, bool),
}

impl Cx {
    /// A call on behalf of an actor, at the system clock's present.
    pub fn actor(actor: impl Into<Arc<Actor>>) -> Self {
        Self::new(actor.into(), Timestamp::system_now(), "".into())
    }

    /// A call of the application itself. The reason is logged; tenant and data scope do not apply.
    pub fn system(reason: &'static str) -> Self {
        Self {
            scope: Scope::System(reason, false),
            now: Timestamp::system_now(),
            request_id: "".into(),
            #[cfg(feature = "server")]
            transaction: None,
            #[cfg(feature = "server")]
            from: None,
            #[cfg(feature = "server")]
            emitted: None,
            #[cfg(feature = "server")]
            operation: None,
            #[cfg(feature = "server")]
            only: None,
            #[cfg(feature = "server")]
            audit: None,
            #[cfg(feature = "server")]
            follows: false,
            #[cfg(feature = "server")]
            taken: None,
            around: None,
        }
    }

    /// A call on behalf of an actor at an instant, under a request.
    pub fn new(actor: Arc<Actor>, now: Timestamp, request_id: Arc<str>) -> Self {
        Self {
            scope: Scope::Actor(actor),
            now,
            request_id,
            #[cfg(feature = "server")]
            transaction: None,
            #[cfg(feature = "server")]
            from: None,
            #[cfg(feature = "server")]
            emitted: None,
            #[cfg(feature = "server")]
            operation: None,
            #[cfg(feature = "server")]
            only: None,
            #[cfg(feature = "server")]
            audit: None,
            #[cfg(feature = "server")]
            follows: false,
            #[cfg(feature = "server")]
            taken: None,
            around: None,
        }
    }

    /// The same call from an address.
    #[cfg(feature = "server")]
    pub(crate) fn called_from(mut self, from: Option<IpAddr>) -> Self {
        self.from = from;
        self
    }

    /// Where the request came from, as far as that is known.
    #[cfg(feature = "server")]
    pub(crate) fn address(&self) -> Option<IpAddr> {
        self.from
    }

    /// A number for whose call it is, where callers share what there is little of: equal for calls of one actor, or of one
    /// address (of IPv6: the 2^64 around it) when the actor is anonymous; `None` for the application itself.
    #[cfg(feature = "server")]
    pub(crate) fn caller(&self) -> Option<NonZeroU64> {
        // Random per process, so that nobody can choose a name that shares with somebody else.
        static KEYS: OnceLock<std::collections::hash_map::RandomState> = OnceLock::new();
        let (actor, keys) = (self.get_actor()?, KEYS.get_or_init(Default::default));
        let key = match &actor.id {
            Some(id) => keys.hash_one((&actor.tenant_id, id)),
            None => keys.hash_one(self.from.map(crate::address::one_client)),
        };
        NonZeroU64::new(key | 1)
    }

    /// The same call at another instant, for tests and jobs.
    #[must_use]
    pub fn at(mut self, now: Timestamp) -> Self {
        self.now = now;
        self
    }

    /// The same call below a parent: the value of a field that a parameter of `parent_path` is bound to.
    ///
    /// Over HTTP the path says it; in code, `cx.within(comment::doc_id, "d1")`.
    #[must_use]
    pub fn within<F: Field>(self, _field: F, value: impl Into<<F::Ty as FieldType>::Inner>) -> Self {
        self.within_value(F::Entity::DESC, F::INDEX, value.into().into_value())
    }

    pub(crate) fn within_value(self, entity: &EntityDesc, field: usize, value: Value) -> Self {
        let mut around = self.surroundings();
        around.parents.retain(|(of, at, _)| (*of, *at) != (entity.storage_name, field));
        around.parents.push((entity.storage_name, field, value));
        Self { around: Some(Arc::new(around)), ..self }
    }

    fn surroundings(&self) -> Around {
        self.around.as_deref().cloned().unwrap_or_default()
    }

    /// What [`Cx::within`] said of a field.
    #[cfg(feature = "server")]
    pub(crate) fn bound(&self, entity: &EntityDesc, field: usize) -> Option<Value> {
        let mut parents = self.around.as_deref()?.parents.iter();
        parents.find(|(of, at, _)| (*of, *at) == (entity.storage_name, field)).map(|(.., value)| value.clone())
    }

    /// The same call with a value of the context, as `ctx(locale)` reads it.
    ///
    /// Over HTTP a plugin provides it; in code, `cx.with_context(locale, "de")`.
    #[must_use]
    pub fn with_context<V: ContextValue>(self, _value: V, held: impl Into<V::Value>) -> Self {
        self.with_context_values([(V::NAME, held.into().into_value())])
    }

    pub(crate) fn with_context_values(self, values: impl IntoIterator<Item = (&'static str, Value)>) -> Self {
        let mut around = self.surroundings();
        for (name, value) in values {
            around.context.retain(|(other, _)| *other != name);
            around.context.push((name, value));
        }
        Self { around: Some(Arc::new(around)), ..self }
    }

    /// Says a member of the answer that `output_once` of the route declares: it stands in the answer of this call, and nowhere
    /// else. Where there is no such answer, as in a call from code, it is dropped.
    ///
    /// # Errors
    /// `internal` when the route declares no such name, or another type.
    #[cfg(feature = "server")]
    pub fn answer_once<T: FieldType>(&self, name: &str, value: T) -> crate::Result<()> {
        match self.once() {
            None => Ok(()),
            Some(once) => once.say(name, T::KIND, value.into_value()),
        }
    }

    /// The same call with room for what it answers once.
    #[cfg(feature = "server")]
    pub(crate) fn answering_once(self, declared: &'static [crate::entity::FieldDesc]) -> Self {
        let once = Some(Arc::new(crate::http::Once::new(declared)));
        Self { around: Some(Arc::new(Around { once, ..self.surroundings() })), ..self }
    }

    #[cfg(feature = "server")]
    pub(crate) fn once(&self) -> Option<&crate::http::Once> {
        self.around.as_deref()?.once.as_deref()
    }

    /// A value of the context; `None` when nobody has provided it, or there is none for this call.
    pub fn context<V: ContextValue>(&self, _value: V) -> Option<V::Value> {
        // Who provided it gave it this type.
        V::Value::from_value(self.provided(V::DESC)?.as_ref()).ok()
    }

    /// Every value of the context, by name.
    #[cfg(feature = "server")]
    pub(crate) fn context_values(&self) -> &[(&'static str, Value)] {
        self.around.as_deref().map_or(&[], |around| &around.context)
    }

    /// Null when there is none for this call; `None` when nobody was asked.
    fn provided(&self, desc: ContextDesc) -> Option<&Value> {
        self.around.as_deref()?.context.iter().find(|(name, _)| *name == desc.name).map(|(_, value)| value)
    }

    /// The same call, limited to some records of an entity.
    #[cfg(feature = "server")]
    pub(crate) fn limited(self, only: crate::permission::Only) -> Self {
        Self { only: Some(Arc::new(only)), ..self }
    }

    /// The same call without such a limit.
    #[cfg(feature = "server")]
    pub(crate) fn unlimited(&self) -> Self {
        Self { only: None, ..self.clone() }
    }

    /// What must hold of the records of an entity that the call may touch.
    #[cfg(feature = "server")]
    pub(crate) fn only(&self, entity: &EntityDesc) -> Option<&Arc<crate::permission::Only>> {
        self.only.as_ref().filter(|only| only.is_of(entity))
    }

    /// The same call with deleted records in reach.
    ///
    /// # Errors
    /// 403 on behalf of an actor.
    #[cfg(feature = "server")]
    pub(crate) fn including_deleted(&self) -> crate::Result<Self> {
        match self.scope {
            Scope::System(reason, _) => Ok(Self { scope: Scope::System(reason, true), ..self.clone() }),
            Scope::Actor(_) => Err(crate::Error::forbidden()),
        }
    }

    /// The same call as far as it follows from what it has done: no matter whose records.
    #[cfg(feature = "server")]
    pub(crate) fn following(&self) -> Self {
        Self { follows: true, operation: None, only: None, audit: None, ..self.clone() }
    }

    /// The same call, with what keeps numbers of the records that its next statement changes taken. `whole` says that the transaction
    /// ends with that statement: nothing of it lasts when it fails.
    #[cfg(feature = "server")]
    pub(crate) fn having_taken(&self, whole: bool) -> Self {
        Self { taken: Some(whole), ..self.clone() }
    }

    /// Whether that is so, and whether the transaction ends with the statement.
    #[cfg(feature = "server")]
    pub(crate) fn has_taken(&self) -> Option<bool> {
        self.taken
    }

    /// The same call with its changes told to the audit log.
    #[cfg(feature = "server")]
    pub(crate) fn audited(self, auditing: &Arc<crate::audit::Auditing>) -> Self {
        Self { audit: Some(Arc::clone(auditing)), ..self }
    }

    /// The same call with nothing told, and what was to be told.
    #[cfg(feature = "server")]
    pub(crate) fn untold(&self) -> Option<(Self, Arc<crate::audit::Auditing>)> {
        let auditing = self.audit.clone()?;
        Some((Self { audit: None, ..self.clone() }, auditing))
    }

    /// The same call in the name of the application itself.
    #[cfg(feature = "server")]
    pub(crate) fn into_system(self, reason: &'static str) -> Self {
        Self { scope: Scope::System(reason, false), ..self }
    }

    /// Whether it is what follows from a deletion.
    #[cfg(feature = "server")]
    pub(crate) fn follows(&self) -> bool {
        self.follows
    }

    /// Whether records of every tenant and scope are in reach.
    #[cfg(feature = "server")]
    pub(crate) fn reaches_all(&self) -> bool {
        self.follows || self.system_reason().is_some()
    }

    /// Whether deleted records are in reach.
    #[cfg(feature = "server")]
    pub(crate) fn reaches_deleted(&self) -> bool {
        matches!(self.scope, Scope::System(_, true))
    }

    /// A context value; null when absent, and for the application itself.
    #[cfg(feature = "server")]
    pub(crate) fn value(&self, path: CtxPath) -> Value {
        match path {
            CtxPath::Value(desc) => self.provided(desc).cloned().unwrap_or_default(),
            _ => self.get_actor().map(|actor| actor.lookup(path)).unwrap_or_default(),
        }
    }

    /// The actor; `None` for system calls.
    pub fn get_actor(&self) -> Option<&Arc<Actor>> {
        match &self.scope {
            Scope::Actor(actor) => Some(actor),
            Scope::System(..) => None,
        }
    }

    /// Why the application itself calls; `None` for actors.
    pub fn system_reason(&self) -> Option<&'static str> {
        match &self.scope {
            Scope::Actor(_) => None,
            Scope::System(reason, _) => Some(reason),
        }
    }

    /// The call's one instant.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// The request's id; empty outside HTTP.
    pub fn request_id(&self) -> &str {
        &self.request_id
    }

    /// Runs calls that take effect together: when `work` fails, none of them has happened.
    ///
    /// `work` gets a context of its own; what is called with it, on any adapter of one store, belongs to the transaction.
    /// A call with the outer context does not, and may have to wait for the transaction's end. A transaction inside another
    /// is part of that one. It should be short: an embedded store lets nobody else write meanwhile, and gives up on one
    /// that says nothing for some seconds.
    ///
    /// # Errors
    /// What `work` answers; `unavailable` when what it did could not be made to last, and then nothing of it has happened.
    ///
    /// ```no_run
    /// # use linchpin::prelude::*;
    /// # #[entity] #[derive(Clone, Debug)] pub struct Account { #[field(primary)] pub id: String, #[field(default = 0)] pub balance: i64 }
    /// # async fn f(accounts: AccountAdapter, cx: &linchpin::Cx) -> linchpin::Result<()> {
    /// cx.transaction(async |cx| {
    ///     accounts.update(cx, "a", AccountPatch { balance: Some(0), ..Default::default() }, None).await?;
    ///     accounts.delete(cx, "b", None).await
    /// })
    /// .await
    /// # }
    /// ```
    #[cfg(feature = "server")]
    pub async fn transaction<T>(&self, work: impl AsyncFnOnce(&Self) -> crate::Result<T>) -> crate::Result<T> {
        if self.transaction.is_some() {
            return work(self).await;
        }
        let transaction = Arc::new(TxScope::default());
        let inner = Self { transaction: Some(Arc::clone(&transaction)), ..self.clone() };
        match work(&inner).await {
            Ok(value) => {
                transaction.commit().await?;
                // Only now have its events happened.
                if let Some(first) = transaction.first_event() {
                    self.note_event(first);
                }
                Ok(value)
            }
            Err(error) => {
                transaction.rollback().await;
                Err(error)
            }
        }
    }

    /// Where the id of the call's first event will stand.
    #[cfg(feature = "server")]
    pub(crate) fn watch(&mut self) -> Arc<OnceLock<Uuid>> {
        Arc::clone(self.emitted.get_or_insert_default())
    }

    /// The first event of the call so far, or of the transaction that it is part of.
    #[cfg(feature = "server")]
    pub(crate) fn first_event(&self) -> Option<Uuid> {
        match &self.transaction {
            Some(transaction) => transaction.first_event(),
            None => self.emitted.as_ref()?.get().cloned(),
        }
    }

    /// Notes an event of the call; the first one counts.
    #[cfg(feature = "server")]
    pub(crate) fn note_event(&self, id: Uuid) {
        if let Some(place) = &self.emitted {
            // Set already: it is not the first.
            let _ = place.set(id);
        }
    }

    /// The same call on behalf of an operation: what it changes by way of other routes are that operation's events.
    #[cfg(feature = "server")]
    pub(crate) fn for_operation(&self, name: &'static str) -> Self {
        Self { operation: Some(name), ..self.clone() }
    }

    /// The operation that the call runs for, when its statements are other routes'.
    #[cfg(feature = "server")]
    pub(crate) fn operation(&self) -> Option<&'static str> {
        self.operation
    }

    /// The same call beside the transaction that it is part of: what runs so neither begins it nor waits for it to begin.
    #[cfg(feature = "server")]
    pub(crate) fn beside_transaction(&self) -> Self {
        Self { transaction: None, ..self.clone() }
    }

    /// The transaction that calls with this context belong to.
    #[cfg(feature = "server")]
    pub(crate) fn in_transaction(&self) -> Option<&Arc<TxScope>> {
        self.transaction.as_ref()
    }

    /// A context value as a binding reads it.
    ///
    /// # Errors
    /// When it is null: 401 for an anonymous actor, 403 otherwise. A value that nobody was asked for is `internal`.
    pub fn bind(&self, path: CtxPath) -> crate::Result<Value> {
        let value = match (path, &self.scope) {
            (CtxPath::Value(desc), scope) => match (self.provided(desc), scope) {
                (Some(value), _) => value.clone(),
                (None, Scope::System(..)) => return Err(crate::Error::forbidden()),
                (None, Scope::Actor(_)) => {
                    let name = desc.name;
                    return Err(crate::Error::internal(format!(
                        "`ctx({name})` has no value here: say it with `cx.with_context({name}, ..)`"
                    )));
                }
            },
            (_, Scope::System(..)) => return Err(crate::Error::forbidden()),
            (_, Scope::Actor(actor)) => actor.lookup(path),
        };
        match (value, &self.scope) {
            (Value::Null, Scope::Actor(actor)) if actor.id.is_none() => Err(crate::Error::unauthorized()),
            (Value::Null, _) => Err(crate::Error::forbidden()),
            (value, _) => Ok(value),
        }
    }
}
