//! Rate limits: how often one caller may call a route.

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

/// Who is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Caller<'a> {
    /// An actor, by id.
    Actor(&'a str),
    /// Whoever calls from an address; of IPv6, from the 2^64 around it, which its owner has as
    /// well.
    Address(IpAddr),
    /// Nobody known, from an address nobody knows: all of them count as one.
    Unknown,
}

/// What is counted on its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RateKey<'a> {
    /// `posts.create`: where the records are stored, and the route's name; of a plugin's route,
    /// method and path.
    pub route: &'a str,
    /// The tenant of the actor.
    pub tenant: Option<&'a str>,
    /// Who calls.
    pub caller: Caller<'a>,
}

/// Whether a call may go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateVerdict {
    /// It may, and has been counted.
    Admitted,
    /// It may not; after so many milliseconds another attempt may succeed.
    Refused(u64),
}

/// The answer of a [`RateStore`]: most know it at once.
pub enum RateReply {
    /// Known.
    Ready(Result<RateVerdict>),
    /// Asked elsewhere.
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

/// Where calls are counted. [`RatesInProcess`] counts those of one process; one that several share
/// is a plugin's to bring.
pub trait RateStore: Send + Sync + 'static {
    /// Counts a call, unless `limit.max` were made within `limit.window` milliseconds before `now`
    /// already. Refused calls do not count. An error stands for counters that cannot be reached.
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
        // By its name, which the forms of one lookup share: two paths are not twice as many calls.
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
    /// `rate_limited` with the seconds to wait; `unavailable` when the counters cannot be reached
    /// and the limit does not fail open.
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
                tracing::warn!(%error, route = &*self.route, "calls are not counted: the counters cannot be reached");
                Ok(())
            }
            Err(error) => Err(Error::unavailable(error)),
        }
    }
}
