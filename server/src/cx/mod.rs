//! The call context: the caller, the instant and the request of a call.

mod audit;
mod conditions;
mod moment;
mod once;
mod options;
mod reach;
mod transaction;

use std::hash::BuildHasher;
use std::net::IpAddr;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::OnceLock;

pub(crate) use self::audit::Auditing;
pub(crate) use self::conditions::{CallConditions, refused};
use self::moment::Moment;
pub(crate) use self::once::Once;
use self::options::CallOptions;
pub(crate) use self::transaction::Retry;
use crate::Uuid;
use crate::filter::CtxPath;
use crate::store::TxScope;
use crate::{Actor, Timestamp, Value};

/// The context of one call. Every adapter method takes one, so every call has a scope.
#[derive(Clone, Debug)]
pub struct Cx {
    scope: Scope,
    now: Moment,
    request_id: Arc<str>,
    transaction: Option<Arc<TxScope>>,
    /// The address of the client.
    from: Option<IpAddr>,
    /// The id of the first event of the call, for its response.
    emitted: Option<Arc<OnceLock<Uuid>>>,
    /// The operation that makes this call, if the call runs statements of other routes.
    operation: Option<&'static str>,
    /// The conditions on the records that the call may touch.
    only: Option<Arc<CallConditions>>,
    /// The audit of the call's changes.
    audit: Option<Arc<Auditing>>,
    /// Whether the call is an effect of a change that the caller was allowed to make. An effect
    /// reaches the records of every owner.
    is_effect: bool,
    /// `Some` if the transaction already holds the locks on the records whose counters the next
    /// statement changes. The value says whether the transaction ends with that statement.
    locks_held: Option<bool>,
    /// Whether the call is at the head of a queue for a record.
    at_queue_head: bool,
    /// Parts that most calls do not have: parents and context values.
    options: Option<Arc<CallOptions>>,
}

#[derive(Clone, Debug)]
enum Scope {
    Actor(Arc<Actor>),
    /// The reason, and whether deleted records are within reach.
    System(&'static str, bool),
}

impl Cx {
    /// Creates a call on behalf of an actor, at the current time of the app's clock: every call of
    /// an adapter reads [`App::clock`] again, and all calls of one transaction share an instant.
    /// [`Cx::at`] sets another instant.
    ///
    /// [`App::clock`]: crate::App::clock
    pub fn actor(actor: impl Into<Arc<Actor>>) -> Self {
        Self::of(Scope::Actor(actor.into()), Moment::present(), "".into())
    }

    /// Creates a call of the application itself, at the current time of the app's clock like
    /// [`Cx::actor`]. The reason is logged. Tenants and data scopes do not apply. [`Cx::within`]
    /// sets the tenant that it acts in.
    pub fn system(reason: &'static str) -> Self {
        Self::of(Scope::System(reason, false), Moment::present(), "".into())
    }

    /// Creates a call on behalf of an actor at an instant, with a request id.
    pub fn new(actor: Arc<Actor>, now: Timestamp, request_id: Arc<str>) -> Self {
        Self::of(Scope::Actor(actor), Moment::At(now), request_id)
    }

    /// A call without optional parts.
    fn of(scope: Scope, now: Moment, request_id: Arc<str>) -> Self {
        Self {
            scope,
            now,
            request_id,
            transaction: None,
            from: None,
            emitted: None,
            operation: None,
            only: None,
            audit: None,
            is_effect: false,
            locks_held: None,
            at_queue_head: false,
            options: None,
        }
    }

    /// The same call on behalf of another actor.
    pub(crate) fn by(mut self, actor: Arc<Actor>) -> Self {
        self.scope = Scope::Actor(actor);
        self
    }

    /// The same call from a client address.
    pub(crate) fn called_from(mut self, from: Option<IpAddr>) -> Self {
        self.from = from;
        self
    }

    /// The client address, if known.
    pub(crate) fn address(&self) -> Option<IpAddr> {
        self.from
    }

    /// A hash of the caller, for fair sharing of limited resources. It is equal for calls of one
    /// actor, or of one address (for IPv6: its /64) if the actor is anonymous; `None` for the
    /// application itself.
    pub(crate) fn caller(&self) -> Option<NonZeroU64> {
        // Random per process, so that a caller cannot choose a name that collides with another
        // caller.
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
        self.now = Moment::At(now);
        self
    }

    /// The same call, in the same transaction, by the application itself. A plugin uses it for its
    /// own records about callers, because tenants and data scopes do not apply. See [`Cx::system`].
    #[must_use]
    pub fn as_system(&self, reason: &'static str) -> Self {
        Self {
            scope: Scope::System(reason, false),
            only: None,
            options: None,
            ..self.clone()
        }
    }

    /// A context value; null if the call has none. The application itself has no actor, so the
    /// values of the actor are null for it.
    pub(crate) fn value(&self, path: CtxPath) -> Value {
        match path {
            CtxPath::Value(desc) => self.provided(desc).cloned().unwrap_or_default(),
            _ => self
                .get_actor()
                .map(|actor| actor.lookup(path))
                .unwrap_or_default(),
        }
    }

    /// The actor; `None` for system calls.
    pub fn get_actor(&self) -> Option<&Arc<Actor>> {
        match &self.scope {
            Scope::Actor(actor) => Some(actor),
            Scope::System(..) => None,
        }
    }

    /// The actor's id, as records store their creator. `None` for anonymous callers and for system
    /// calls.
    ///
    /// ```
    /// # use linchpin::{Actor, Cx, Error, Result};
    /// fn signed_in(cx: &Cx) -> Result<&str> {
    ///     cx.get_actor_id().ok_or_else(Error::unauthorized)
    /// }
    /// assert_eq!(signed_in(&Cx::actor(Actor::user("ada")))?, "ada");
    /// assert!(Cx::actor(Actor::anonymous()).get_actor_id().is_none() && Cx::system("a job").get_actor_id().is_none());
    /// # Ok::<(), Error>(())
    /// ```
    pub fn get_actor_id(&self) -> Option<&str> {
        self.get_actor()?.id.as_deref()
    }

    /// The reason of a system call; `None` for actors.
    pub fn system_reason(&self) -> Option<&'static str> {
        match &self.scope {
            Scope::Actor(_) => None,
            Scope::System(reason, _) => Some(reason),
        }
    }

    /// The instant of the call. A context from [`Cx::actor`] or [`Cx::system`] belongs to no app,
    /// so its instant is the time of its creation by the system clock. In a transaction, it is the
    /// instant of the first call after that call. For the current time of an app, use
    /// [`Adapters::now`](crate::Adapters::now).
    pub fn now(&self) -> Timestamp {
        self.now.best_known()
    }

    /// The same call at the current time of an app, unless its instant is fixed.
    pub(crate) fn by_clock(&self, clock: &crate::clock::Clock) -> std::borrow::Cow<'_, Self> {
        match self.now.by(clock) {
            None => std::borrow::Cow::Borrowed(self),
            Some(now) => std::borrow::Cow::Owned(self.clone().at(now)),
        }
    }

    /// The request's id; empty outside HTTP.
    pub fn request_id(&self) -> &str {
        &self.request_id
    }

    /// Returns a context value for a binding.
    ///
    /// # Errors
    /// If it is null: 401 for an anonymous actor, 403 otherwise. `internal` if no provider was
    /// called for the value.
    pub fn bind(&self, path: CtxPath) -> crate::Result<Value> {
        let value = match (path, &self.scope) {
            (CtxPath::Value(desc), scope) => match (self.provided(desc), scope) {
                (Some(value), _) => value.clone(),
                (None, Scope::System(..)) => return Err(crate::Error::forbidden()),
                (None, Scope::Actor(_)) => {
                    let name = desc.name;
                    return Err(crate::Error::internal(format!(
                        "`ctx({name})` has no value in this call: set it with `cx.with_context({name}, ..)`"
                    )));
                }
            },
            (_, Scope::System(..)) => return Err(crate::Error::forbidden()),
            (_, Scope::Actor(actor)) => actor.lookup(path),
        };
        match (value, &self.scope) {
            (Value::Null, Scope::Actor(actor)) if actor.id.is_none() => {
                Err(crate::Error::unauthorized())
            }
            (Value::Null, _) => Err(crate::Error::forbidden()),
            (value, _) => Ok(value),
        }
    }
}
