//! Rate limits and lockout: an attempt is counted before it is checked. A success gives it back:
//! the counter no longer includes it.
//!
//! Because counting comes first, concurrent guesses cannot pass more often than sequential ones.
//! Counters are records in the app's store, so processes share them. Each step is one atomic
//! operation on one record.

pub(crate) mod counter;
pub(crate) mod table;

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use linchpin::{Code, Cx, Error, Result, Timestamp};

use crate::core::later;
use crate::env::Env;
use crate::error::rate_limited;
use crate::keys::derive::{Purpose, Ring};
use counter::{CounterAdapter, CounterCreate, CounterPatch};
pub(crate) use table::{Bucket, Counted, Limits};

/// Maximum number of attempts of a step after write conflicts. Each conflict means that another
/// request succeeded.
const MAX_ATTEMPTS: usize = 64;

/// A bucket and the key that is counted in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hit<'a> {
    pub(crate) bucket: Bucket,
    /// The key: the client's address, the normalised identifier or the user id. The documentation
    /// of the bucket says which.
    pub(crate) key: &'a [&'a str],
}

/// Counts attempts.
#[derive(Clone, Debug)]
pub(crate) struct Limiter {
    counters: CounterAdapter,
    ring: Arc<Ring>,
    env: Env,
    /// `None` if limits are disabled, which production refuses.
    limits: Option<Limits>,
}

/// The counters of an attempt. If it is dropped the attempt stays counted: only a success gives it
/// back.
#[must_use]
#[derive(Debug)]
pub(crate) struct Taken {
    limiter: Limiter,
    tickets: Vec<Ticket>,
}

#[derive(Debug)]
struct Ticket {
    id: String,
    bucket: Bucket,
    window_end: Option<Timestamp>,
    /// The number of attempts that remain in the window.
    left: i64,
    /// The mark of a value that was counted, for `admit_distinct`.
    mark: Option<String>,
}

/// An exhausted bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full {
    pub(crate) bucket: Bucket,
    /// Seconds until the window ends.
    pub(crate) seconds: u32,
}

enum Step {
    Taken {
        left: i64,
        window_end: Option<Timestamp>,
    },
    /// Seconds until the window ends.
    Full(u32),
}

impl Limiter {
    pub(crate) fn new(
        counters: CounterAdapter,
        ring: Arc<Ring>,
        env: Env,
        limits: Option<Limits>,
    ) -> Self {
        Self {
            counters,
            ring,
            env,
            limits,
        }
    }

    /// Counts an attempt in all buckets, or in none of them.
    ///
    /// # Errors
    /// 429 `rate_limited` with the seconds to wait if a bucket is exhausted; 503 if the store is
    /// not reachable.
    pub(crate) async fn take(&self, hits: &[Hit<'_>]) -> Result<Taken> {
        self.admit(hits)
            .await?
            .map_err(|full| rate_limited(full.seconds))
    }

    /// Counts an action of a session, in the bucket of the session and in the bucket of all
    /// sessions of the user.
    ///
    /// # Errors
    /// The errors of [`Limiter::take`].
    pub(crate) async fn take_in_session(
        &self,
        session: Bucket,
        all: Bucket,
        user: &str,
        handle: &str,
    ) -> Result<()> {
        let hits = [
            Hit {
                bucket: session,
                key: &[user, handle],
            },
            Hit {
                bucket: all,
                key: &[user],
            },
        ];
        self.take(&hits).await?.succeeded().await;
        Ok(())
    }

    /// Like [`Limiter::take`], for a caller that needs the exhausted bucket.
    ///
    /// # Errors
    /// 503 if the store is not reachable.
    pub(crate) async fn admit(&self, hits: &[Hit<'_>]) -> Result<Result<Taken, Full>> {
        let mut taken = Taken {
            limiter: self.clone(),
            tickets: Vec::with_capacity(hits.len()),
        };
        let Some(limits) = &self.limits else {
            return Ok(Ok(taken));
        };
        for hit in hits {
            let (bucket, id) = (hit.bucket, self.id(hit.bucket, hit.key));
            match self.step(&id, limits.of(bucket)).await {
                Ok(Step::Taken { left, window_end }) => taken.tickets.push(Ticket {
                    id,
                    bucket,
                    window_end,
                    left,
                    mark: None,
                }),
                Ok(Step::Full(seconds)) => {
                    taken.undo().await;
                    return Ok(Err(Full { bucket, seconds }));
                }
                Err(error) => return Err(unreachable(error)),
            }
        }
        Ok(Ok(taken))
    }

    /// Sets a mark for some seconds, and returns true if the mark was not set before. So an event
    /// that anyone can cause is recorded only once in this time.
    ///
    /// # Errors
    /// 503 if the store is not reachable.
    pub(crate) async fn is_first(&self, key: &[&str], seconds: u32) -> Result<bool> {
        let (id, cx) = (self.mark(key), self.cx());
        match self
            .counters
            .create(
                &cx,
                CounterCreate {
                    id,
                    left: 0,
                    window_end: Some(after(cx.now(), seconds)),
                },
            )
            .await
        {
            Ok(_) => Ok(true),
            Err(error) if error.code() == Code::Conflict => Ok(false),
            Err(error) => Err(unreachable(error)),
        }
    }

    /// Sets a mark for some seconds from now, even if it is set already.
    ///
    /// # Errors
    /// 503 if the store is not reachable.
    pub(crate) async fn note(&self, key: &[&str], seconds: u32) -> Result<()> {
        for _ in 0..MAX_ATTEMPTS {
            if self.is_first(key, seconds).await? {
                return Ok(());
            }
            let cx = self.cx();
            let patch = CounterPatch {
                window_end: Some(Some(after(cx.now(), seconds))),
                ..CounterPatch::default()
            };
            match self.counters.update(&cx, self.mark(key), patch, None).await {
                // The mark expired in between.
                Err(error) if error.code() == Code::NotFound => {}
                done => return done.map(drop).map_err(unreachable),
            }
        }
        Err(Error::unavailable("a counter kept changing"))
    }

    /// Removes a mark of [`Limiter::is_first`], because the event did not happen.
    pub(crate) async fn forget(&self, key: &[&str]) {
        self.remove(&self.mark(key)).await;
    }

    /// Whether a mark of [`Limiter::is_first`] or [`Limiter::note`] is set.
    ///
    /// # Errors
    /// 503 if the store is not reachable.
    pub(crate) async fn is_noted(&self, key: &[&str]) -> Result<bool> {
        Ok(self
            .counters
            .get(&self.cx(), self.mark(key))
            .await
            .map_err(unreachable)?
            .is_some())
    }

    /// Counts a value once in each window; a value that was counted before passes. Two requests
    /// with the same new value at the same moment may count it twice for a short time. Then the
    /// limit is stricter, never more permissive.
    ///
    /// # Errors
    /// The errors of [`Limiter::admit`].
    pub(crate) async fn admit_distinct(
        &self,
        hit: Hit<'_>,
        value: &str,
    ) -> Result<Result<Taken, Full>> {
        let mut taken = Taken {
            limiter: self.clone(),
            tickets: Vec::new(),
        };
        let Some(limits) = &self.limits else {
            return Ok(Ok(taken));
        };
        let parts: Vec<&str> = hit.key.iter().copied().chain([value]).collect();
        let mark = self.id(hit.bucket, &parts);
        let cx = self.cx();
        if self
            .counters
            .get(&cx, mark.as_str())
            .await
            .map_err(unreachable)?
            .is_some()
        {
            return Ok(Ok(taken));
        }
        let (bucket, id) = (hit.bucket, self.id(hit.bucket, hit.key));
        let (left, window_end) = match self
            .step(&id, limits.of(bucket))
            .await
            .map_err(unreachable)?
        {
            Step::Taken { left, window_end } => (left, window_end),
            Step::Full(seconds) => return Ok(Err(Full { bucket, seconds })),
        };
        let ticket = Ticket {
            id,
            bucket,
            window_end,
            left,
            mark: Some(mark.clone()),
        };
        match self
            .counters
            .create(
                &cx,
                CounterCreate {
                    id: mark,
                    left: 0,
                    window_end,
                },
            )
            .await
        {
            Ok(_) => taken.tickets.push(ticket),
            // Another request just counted it.
            Err(error) if error.code() == Code::Conflict => {
                self.give_back(&ticket.id, ticket.bucket, ticket.window_end)
                    .await;
            }
            Err(error) => return Err(unreachable(error)),
        }
        Ok(Ok(taken))
    }

    /// Resets a counter.
    pub(crate) async fn clear(&self, hit: Hit<'_>) {
        if self.limits.is_some() {
            self.remove(&self.id(hit.bucket, hit.key)).await;
        }
    }

    async fn step(&self, id: &str, limit: table::Limit) -> Result<Step> {
        for _ in 0..MAX_ATTEMPTS {
            let cx = self.cx();
            match self.counters.take(&cx, id).await {
                Ok(counter) => {
                    return Ok(Step::Taken {
                        left: counter.left,
                        window_end: counter.window_end,
                    });
                }
                Err(error) if error.code() == Code::NotFound => {
                    let window_end = Some(after(cx.now(), limit.window_seconds));
                    let left = i64::from(limit.max) - 1;
                    let first = CounterCreate {
                        id: id.to_owned(),
                        left,
                        window_end,
                    };
                    match self.counters.create(&cx, first).await {
                        Ok(_) => return Ok(Step::Taken { left, window_end }),
                        // Another request started the window.
                        Err(error) if error.code() == Code::Conflict => {}
                        Err(error) => return Err(error),
                    }
                }
                // The counter would go below zero: the window is exhausted, unless it ended
                // meanwhile.
                Err(error) if error.code() == Code::ValidationFailed => {
                    if let Some(full) = self
                        .counters
                        .get(&cx, id)
                        .await?
                        .filter(|counter| counter.left == 0)
                    {
                        return Ok(Step::Full(
                            full.window_end
                                .map_or(1, |end| seconds_until(cx.now(), end)),
                        ));
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Err(Error::unavailable("a counter kept changing"))
    }

    /// Extends the window of a counter to n windows from now, where n is the number of attempts
    /// that were counted when the ticket was taken. The end never moves back: of several concurrent
    /// requests, the one with the highest n may finish first.
    async fn prolong(&self, ticket: &Ticket) -> Result<()> {
        let Some(limits) = &self.limits else {
            return Ok(());
        };
        let (limit, cx) = (limits.of(ticket.bucket), self.cx());
        let failures = i64::from(limit.max).saturating_sub(ticket.left);
        let end = Some(later(
            cx.now(),
            failures.saturating_mul(i64::from(limit.window_seconds) * 1000),
        ));
        if end <= ticket.window_end {
            return Ok(());
        }
        for _ in 0..MAX_ATTEMPTS {
            // A success may have reset the counter meanwhile.
            let counter = self
                .counters
                .get(&cx, ticket.id.as_str())
                .await
                .map_err(unreachable)?;
            let Some(counter) = counter.filter(|counter| counter.window_end < end) else {
                return Ok(());
            };
            let patch = CounterPatch {
                window_end: Some(end),
                ..CounterPatch::default()
            };
            match self
                .counters
                .update(&cx, ticket.id.as_str(), patch, Some(counter.version))
                .await
            {
                Err(error) if error.code() == Code::PreconditionFailed => {}
                Err(error) if error.code() == Code::NotFound => return Ok(()),
                done => return done.map(drop).map_err(unreachable),
            }
        }
        Err(Error::unavailable("a counter kept changing"))
    }

    /// Gives an attempt back. If that fails, the limit is stricter for a while.
    async fn give_back(&self, id: &str, bucket: Bucket, window_end: Option<Timestamp>) {
        let (Some(end), Some(limits)) = (window_end, &self.limits) else {
            return;
        };
        let max = i64::from(limits.of(bucket).max);
        let cx = self.cx();
        let given = match self.counters.give_back(&cx, id, end).await {
            Ok(counter) if counter.left >= max => {
                self.counters.end_empty(&cx, id, max, end).await.map(|_| ())
            }
            Ok(_) => Ok(()),
            // The window has ended.
            Err(error) if error.code() == Code::NotFound => Ok(()),
            Err(error) => Err(error),
        };
        log(given);
    }

    async fn remove(&self, id: &str) {
        match self.counters.delete(&self.cx(), id, None).await {
            Err(error) if error.code() == Code::NotFound => {}
            done => log(done),
        }
    }

    fn id(&self, bucket: Bucket, key: &[&str]) -> String {
        let parts: Vec<&[u8]> = std::iter::once(bucket.row().name)
            .chain(key.iter().copied())
            .map(str::as_bytes)
            .collect();
        URL_SAFE_NO_PAD.encode(self.ring.mac(Purpose::Limit, &parts))
    }

    fn mark(&self, key: &[&str]) -> String {
        let parts: Vec<&[u8]> = std::iter::once("noted")
            .chain(key.iter().copied())
            .map(str::as_bytes)
            .collect();
        URL_SAFE_NO_PAD.encode(self.ring.mac(Purpose::Limit, &parts))
    }

    fn cx(&self) -> Cx {
        Cx::system("rate limits").at(self.env.clock.now())
    }
}

impl Taken {
    /// The attempt succeeded: counters of failures get it back, and counters of consecutive
    /// failures are reset.
    pub(crate) async fn succeeded(self) {
        for ticket in &self.tickets {
            match ticket.bucket.row().counted {
                Counted::All => {}
                Counted::Failures => self.return_ticket(ticket).await,
                Counted::FailuresInARow | Counted::FailuresThatAdd => {
                    self.limiter.remove(&ticket.id).await;
                }
            }
        }
    }

    /// The attempt failed: extends the windows of `FailuresThatAdd`. An attempt that was refused
    /// before its check does not extend them.
    ///
    /// # Errors
    /// 503 if the store is not reachable.
    pub(crate) async fn failed(&self) -> Result<()> {
        for ticket in self
            .tickets
            .iter()
            .filter(|ticket| ticket.bucket.row().counted == Counted::FailuresThatAdd)
        {
            self.limiter.prolong(ticket).await?;
        }
        Ok(())
    }

    /// Whether this attempt was the last one that the bucket allows. Only one request gets true;
    /// this request informs the owner.
    pub(crate) fn is_last(&self, bucket: Bucket) -> bool {
        self.tickets
            .iter()
            .any(|ticket| ticket.bucket == bucket && ticket.left == 0)
    }

    /// Adds the counters of another part of the same attempt.
    pub(crate) fn and(mut self, other: Self) -> Self {
        self.tickets.extend(other.tickets);
        self
    }

    /// Gives everything back, because another rule refused the attempt.
    pub(crate) async fn undo(&self) {
        for ticket in self.tickets.iter().rev() {
            self.return_ticket(ticket).await;
        }
    }

    async fn return_ticket(&self, ticket: &Ticket) {
        // The mark is removed first. Until the attempt is given back, the value may be counted
        // twice, but it is never left uncounted.
        if let Some(mark) = &ticket.mark {
            self.limiter.remove(mark).await;
        }
        self.limiter
            .give_back(&ticket.id, ticket.bucket, ticket.window_end)
            .await;
    }
}

fn after(now: Timestamp, seconds: u32) -> Timestamp {
    Timestamp::from_millis(now.millis() + i64::from(seconds) * 1000)
}

/// Rounds up to whole seconds, so that a client that waits is not too early.
fn seconds_until(now: Timestamp, end: Timestamp) -> u32 {
    let millis = u64::try_from(end.millis() - now.millis()).unwrap_or(0);
    u32::try_from(millis.div_ceil(1000))
        .unwrap_or(u32::MAX)
        .max(1)
}

/// Without counters every attempt is refused.
fn unreachable(error: Error) -> Error {
    if error.code() == Code::Unavailable {
        error
    } else {
        Error::unavailable(error)
    }
}

fn log(done: Result<()>) {
    if let Err(error) = done {
        tracing::warn!(error = ?error, "the counter of a rate limit was not updated, so a successful attempt still counts as a failed one");
    }
}

#[cfg(test)]
mod tests;
