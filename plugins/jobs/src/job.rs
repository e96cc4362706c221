//! The trait of a job, and the context of a running job.

use std::any::TypeId;
use std::time::Duration;

use linchpin::{Adapters, BoxFuture, Cx, Error, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Work that a worker does later.
///
/// The value is stored as JSON. Add members with `#[serde(default)]`, so that stored jobs of an
/// earlier release can still be read. A job runs at least once, so `run` must tolerate that an
/// earlier attempt has already done a part of the work.
pub trait Job: Serialize + DeserializeOwned + Send + 'static {
    /// The name in the store, unique within an app.
    const NAME: &'static str;

    /// The number of attempts after which a failing job is parked, 1 or more; 6 by default.
    const ATTEMPTS: u32 = 6;

    /// The timeout of an attempt, at most a day; 1 minute by default.
    const TIMEOUT: Duration = Duration::from_mins(1);

    /// The pause after a number of failed attempts, from 1 on: by default 10 s, 40 s, 160 s and so
    /// on, at most an hour.
    fn pause(failed: u32) -> Duration {
        let factor = 4_u64.saturating_pow(failed.saturating_sub(1).min(16));
        Duration::from_secs(10_u64.saturating_mul(factor).min(3_600))
    }

    /// Does the work.
    ///
    /// # Errors
    /// Any error; the job is tried again later.
    fn run(self, cx: JobCx) -> impl Future<Output = Result<()>> + Send;
}

/// The context of a running job.
#[derive(Clone, Debug)]
pub struct JobCx {
    /// The context for calls of adapters. The caller is the application itself.
    pub cx: Cx,
    /// Typed access to every adapter of the app.
    pub adapters: Adapters,
    /// The id of the job, the same in every attempt.
    pub id: String,
    /// The number of this attempt, from 1.
    pub attempt: u32,
}

/// The constants and functions of one job type.
#[derive(Clone, Copy)]
pub(crate) struct Kind {
    pub(crate) id: TypeId,
    pub(crate) name: &'static str,
    pub(crate) attempts: u32,
    pub(crate) timeout: Duration,
    pub(crate) pause: fn(u32) -> Duration,
    pub(crate) run: fn(&str, JobCx) -> Result<BoxFuture<'static, Result<()>>>,
}

impl Kind {
    pub(crate) fn of<T: Job>() -> Self {
        Self {
            id: TypeId::of::<T>(),
            name: T::NAME,
            attempts: T::ATTEMPTS,
            timeout: T::TIMEOUT,
            pause: T::pause,
            run: |payload, cx| {
                let job: T = serde_json::from_str(payload).map_err(Error::internal)?;
                Ok(Box::pin(job.run(cx)))
            },
        }
    }
}
