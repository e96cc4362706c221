//! The call context: who calls, when, and under which request.

mod around;
mod moment;
mod once;
mod only;
mod reach;
mod transaction;

use std::hash::BuildHasher;
use std::net::IpAddr;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::OnceLock;

use self::around::Around;
use self::moment::Moment;
pub(crate) use self::once::Once;
pub(crate) use self::only::{Only, refused};
pub(crate) use self::transaction::Again;
use crate::Uuid;
use crate::filter::CtxPath;
use crate::store::TxScope;
use crate::{Actor, Timestamp, Value};

/// The context of one call: every adapter method takes one, so no call is without a scope.
#[derive(Clone, Debug)]
pub struct Cx {
    scope: Scope,
    now: Moment,
    request_id: Arc<str>,
    transaction: Option<Arc<TxScope>>,
    /// Where the request came from.
    from: Option<IpAddr>,
    /// Where the first event of the call is noted, for its answer.
    emitted: Option<Arc<OnceLock<Uuid>>>,
    /// The operation that other routes' statements run for.
    operation: Option<&'static str>,
    /// What must hold of the records that it may touch.
    only: Option<Arc<Only>>,
    /// What is told of its changes.
    audit: Option<Arc<crate::audit::Auditing>>,
    /// Whether it follows from a change that the caller was allowed to make: then it reaches
    /// whosever records there are.
    is_effect: bool,
    /// Whether what keeps numbers of the records that it changes has been taken; and whether the
    /// transaction ends with the statement.
    taken: Option<bool>,
    /// Whether it is at the head of a queue for a record.
    first: bool,
    /// What most calls have none of: parents and values of the context.
    around: Option<Arc<Around>>,
}

#[derive(Clone, Debug)]
enum Scope {
    Actor(Arc<Actor>),
    /// The reason, and whether deleted records are meant as well.
    System(&'static str, bool),
}

impl Cx {
    /// A call on behalf of an actor, at the present of the app's clock: every call of an adapter
    /// reads [`App::clock`] anew, and all calls of one transaction share an instant. [`Cx::at`]
    /// says another one.
    ///
    /// [`App::clock`]: crate::App::clock
    pub fn actor(actor: impl Into<Arc<Actor>>) -> Self {
        Self::of(Scope::Actor(actor.into()), Moment::present(), "".into())
    }

    /// A call of the application itself, at the present of the app's clock as for [`Cx::actor`].
    /// The reason is logged; tenant and data scope do not apply. [`Cx::within`] says which tenant
    /// it acts in.
    pub fn system(reason: &'static str) -> Self {
        Self::of(Scope::System(reason, false), Moment::present(), "".into())
    }

    /// A call on behalf of an actor at an instant, under a request.
    pub fn new(actor: Arc<Actor>, now: Timestamp, request_id: Arc<str>) -> Self {
        Self::of(Scope::Actor(actor), Moment::At(now), request_id)
    }

    /// A call with nothing else around it.
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
            taken: None,
            first: false,
            around: None,
        }
    }

    /// The same call on behalf of another actor.
    pub(crate) fn by(mut self, actor: Arc<Actor>) -> Self {
        self.scope = Scope::Actor(actor);
        self
    }

    /// The same call from an address.
    pub(crate) fn called_from(mut self, from: Option<IpAddr>) -> Self {
        self.from = from;
        self
    }

    /// Where the request came from, as far as that is known.
    pub(crate) fn address(&self) -> Option<IpAddr> {
        self.from
    }

    /// A number for whose call it is, where callers share what there is little of: equal for calls
    /// of one actor, or of one address (of IPv6: the 2^64 around it) when the actor is anonymous;
    /// `None` for the application itself.
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
        self.now = Moment::At(now);
        self
    }

    /// A context value; null when absent, and for the application itself.
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

    /// The actor's id: what a record says of who made it. `None` for anonymous callers and for
    /// system calls.
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

    /// Why the application itself calls; `None` for actors.
    pub fn system_reason(&self) -> Option<&'static str> {
        match &self.scope {
            Scope::Actor(_) => None,
            Scope::System(reason, _) => Some(reason),
        }
    }

    /// The call's one instant. Of a context that [`Cx::actor`] or [`Cx::system`] has made, which
    /// belongs to no app: when it was made, by the system clock; in a transaction, the instant of
    /// its calls once there was one. The present of an app is
    /// [`Adapters::now`](crate::Adapters::now).
    pub fn now(&self) -> Timestamp {
        self.now.shown()
    }

    /// The same call at the present of an app, unless an instant has been said.
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

    /// A context value as a binding reads it.
    ///
    /// # Errors
    /// When it is null: 401 for an anonymous actor, 403 otherwise. A value that nobody was asked
    /// for is `internal`.
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
            (Value::Null, Scope::Actor(actor)) if actor.id.is_none() => {
                Err(crate::Error::unauthorized())
            }
            (Value::Null, _) => Err(crate::Error::forbidden()),
            (value, _) => Ok(value),
        }
    }
}
