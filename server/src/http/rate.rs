//! Rate limits: the maximum number of calls of a route per caller and time window.

mod window;

use std::fmt;
use std::future::ready;
use std::net::IpAddr;
use std::sync::Arc;

pub use window::RatesInProcess;

use super::{Endpoint, RateLimit};
use crate::address::one_client;
use crate::resource::BoxFuture;
use crate::{Actor, Code, Error, Result, Timestamp};

/// The caller whose calls are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Caller<'a> {
    /// An actor, by id.
    Actor(&'a str),
    /// The callers from an IP address, or from a /64 network for IPv6: the anonymous callers, or
    /// all callers if the limit is `by_address`.
    Address(IpAddr),
    /// The same callers if their address is not known: all of them share one counter.
    Unknown,
}

/// The key of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RateKey<'a> {
    /// The storage name and the route's name: `posts.create`. For a plugin's route: method and
    /// path.
    pub route: &'a str,
    /// The tenant of the actor.
    pub tenant: Option<&'a str>,
    /// The caller.
    pub caller: Caller<'a>,
}

/// The decision about a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateVerdict {
    /// The call is allowed, and was counted.
    Admitted,
    /// The call is refused; a retry may succeed after this number of milliseconds.
    Refused(u64),
}

/// The result of a [`RateStore`]. Most stores return it immediately.
pub enum RateReply {
    /// Available now.
    Ready(Result<RateVerdict>),
    /// Available after an await.
    Later(BoxFuture<'static, Result<RateVerdict>>),
}

impl fmt::Debug for RateReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ready(verdict) => f.debug_tuple("Ready").field(verdict).finish(),
            Self::Later(_) => f.debug_tuple("Later").finish_non_exhaustive(),
        }
    }
}

/// The store of the counters. [`RatesInProcess`] counts the calls of one process; a store shared by
/// several processes must come from a plugin.
pub trait RateStore: Send + Sync + 'static {
    /// Counts a call, unless `limit.max` calls were already made within `limit.window` milliseconds
    /// before `now`. Refused calls do not count. An error means that the counters are unavailable.
    fn count(&self, key: &RateKey<'_>, limit: RateLimit, now: Timestamp) -> RateReply;
}

/// The limit of a mounted route.
pub(super) struct Limiter {
    route: Box<str>,
    limit: RateLimit,
    store: Arc<dyn RateStore>,
}

impl Limiter {
    pub(super) fn new(endpoint: &Endpoint, limit: RateLimit, store: Arc<dyn RateStore>) -> Self {
        // All forms of one lookup share the name of the operation, so two paths do not double the
        // limit.
        let route = match &endpoint.table {
            Some(table) => format!("{}.{}", table.desc.storage_name, endpoint.name),
            None => format!("{} {}", endpoint.method.as_str(), endpoint.path),
        };
        Self {
            route: route.into(),
            limit,
            store,
        }
    }

    /// Counts a call.
    ///
    /// # Errors
    /// `rate_limited` with the seconds to wait; `unavailable` if the counters are unavailable and
    /// the limit does not fail open.
    pub(super) fn admit(
        &self,
        actor: &Actor,
        from: Option<IpAddr>,
        now: Timestamp,
    ) -> BoxFuture<'_, Result<()>> {
        let caller = match (&actor.id, from) {
            (Some(id), _) if !self.limit.by_address => Caller::Actor(id),
            (_, Some(address)) => Caller::Address(one_client(address)),
            (_, None) => Caller::Unknown,
        };
        let key = RateKey {
            route: &self.route,
            tenant: actor.tenant_id.as_deref(),
            caller,
        };
        match self.store.count(&key, self.limit, now) {
            RateReply::Ready(verdict) => Box::pin(ready(self.judge(verdict))),
            RateReply::Later(verdict) => Box::pin(async { self.judge(verdict.await) }),
        }
    }

    fn judge(&self, verdict: Result<RateVerdict>) -> Result<()> {
        match verdict {
            Ok(RateVerdict::Admitted) => Ok(()),
            Ok(RateVerdict::Refused(wait)) => {
                let seconds = u32::try_from(wait.div_ceil(1000))
                    .unwrap_or(u32::MAX)
                    .max(1);
                Err(Error::new(Code::RateLimited, "Too many requests").retry_after(seconds))
            }
            Err(error) if self.limit.fail_open => {
                tracing::warn!(%error, route = &*self.route, "the rate limit is not applied: the counters cannot be reached");
                Ok(())
            }
            Err(error) => Err(Error::unavailable(error)),
        }
    }
}
