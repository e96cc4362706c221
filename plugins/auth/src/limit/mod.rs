//! Rate limits and lockout: counters that are taken before an attempt and given back by its
//! success.
//!
//! Because they are taken before, a hundred guesses at once pass no more often than a hundred in a
//! row. Counters are records of the app's store, so that several processes share them; every step
//! is one atomic operation on one record.

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

/// How often a step is repeated that met another one. Each repetition means that somebody else got
/// on.
const TRIES: usize = 64;

/// One thing to count: a bucket and what it is kept for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hit<'a> {
    pub(crate) bucket: Bucket,
    /// The address, the identifier in its normalised form, the user's id: what the bucket's comment
    /// says.
    pub(crate) of: &'a [&'a str],
}

/// Counts attempts.
#[derive(Clone, Debug)]
pub(crate) struct Limiter {
    counters: CounterAdapter,
    ring: Arc<Ring>,
    env: Env,
    /// `None` when they are switched off, which production refuses.
    limits: Option<Limits>,
}

/// What an attempt was counted in. Dropped, it stays counted: an attempt that ends in any other way
/// than success has failed.
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
    /// What is left of the window behind it.
    left: i64,
    /// A mark of its own that says what has been counted already.
    mark: Option<String>,
}

/// A bucket that lets nothing more pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full {
    pub(crate) bucket: Bucket,
    /// Until its window ends.
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

    /// Counts an attempt in all these buckets, or in none of them.
    ///
    /// # Errors
    /// 429 `rate_limited` with the seconds to wait, when one is full; 503 when the counters cannot
    /// be reached.
    pub(crate) async fn take(&self, hits: &[Hit<'_>]) -> Result<Taken> {
        self.admit(hits)
            .await?
            .map_err(|full| rate_limited(full.seconds))
    }

    /// Counts what a session of a user begins, in its own bucket and in the one of all their
    /// sessions.
    ///
    /// # Errors
    /// As [`Limiter::take`].
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
                of: &[user, handle],
            },
            Hit {
                bucket: all,
                of: &[user],
            },
        ];
        self.take(&hits).await?.succeeded().await;
        Ok(())
    }

    /// The same as [`Limiter::take`], for who wants to know which bucket is full.
    ///
    /// # Errors
    /// 503 when the counters cannot be reached.
    pub(crate) async fn admit(&self, hits: &[Hit<'_>]) -> Result<Result<Taken, Full>> {
        let mut taken = Taken {
            limiter: self.clone(),
            tickets: Vec::with_capacity(hits.len()),
        };
        let Some(limits) = &self.limits else {
            return Ok(Ok(taken));
        };
        for hit in hits {
            let (bucket, id) = (hit.bucket, self.id(hit.bucket, hit.of));
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

    /// Whether this is the first of its kind in a while: what anybody can cause is written down
    /// once, however often they do.
    ///
    /// # Errors
    /// 503 when the counters cannot be reached.
    pub(crate) async fn is_first(&self, of: &[&str], seconds: u32) -> Result<bool> {
        let (id, cx) = (self.mark(of), self.cx());
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

    /// Writes something down for a while from now, however long it stands there already.
    ///
    /// # Errors
    /// 503 when the counters cannot be reached.
    pub(crate) async fn note(&self, of: &[&str], seconds: u32) -> Result<()> {
        for _ in 0..TRIES {
            if self.is_first(of, seconds).await? {
                return Ok(());
            }
            let cx = self.cx();
            let patch = CounterPatch {
                window_end: Some(Some(after(cx.now(), seconds))),
                ..CounterPatch::default()
            };
            match self.counters.update(&cx, self.mark(of), patch, None).await {
                // Its time has ended in between.
                Err(error) if error.code() == Code::NotFound => {}
                done => return done.map(drop).map_err(unreachable),
            }
        }
        Err(Error::unavailable("a counter kept changing"))
    }

    /// Strikes out what [`Limiter::is_first`] has written down: what was to follow from it has not.
    pub(crate) async fn forget(&self, of: &[&str]) {
        self.remove(&self.mark(of)).await;
    }

    /// Whether [`Limiter::is_first`] or [`Limiter::note`] has written it down, and it still counts.
    ///
    /// # Errors
    /// 503 when the counters cannot be reached.
    pub(crate) async fn is_noted(&self, of: &[&str]) -> Result<bool> {
        Ok(self
            .counters
            .get(&self.cx(), self.mark(of))
            .await
            .map_err(unreachable)?
            .is_some())
    }

    /// Counts a value of `of` that this window has not seen yet; one that it has seen passes
    /// without being counted. Two who bring the same new value at the same moment count it twice
    /// until the second has noticed: stricter, never more generous.
    ///
    /// # Errors
    /// As [`Limiter::admit`].
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
        let parts: Vec<&str> = hit.of.iter().copied().chain([value]).collect();
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
        let (bucket, id) = (hit.bucket, self.id(hit.bucket, hit.of));
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
            // Somebody else has just counted it.
            Err(error) if error.code() == Code::Conflict => {
                self.give_back(&ticket.id, ticket.bucket, ticket.window_end)
                    .await;
            }
            Err(error) => return Err(unreachable(error)),
        }
        Ok(Ok(taken))
    }

    /// Empties a counter: what it was kept against is over.
    pub(crate) async fn clear(&self, hit: Hit<'_>) {
        if self.limits.is_some() {
            self.remove(&self.id(hit.bucket, hit.of)).await;
        }
    }

    async fn step(&self, id: &str, limit: table::Limit) -> Result<Step> {
        for _ in 0..TRIES {
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
                        // Somebody else began the window.
                        Err(error) if error.code() == Code::Conflict => {}
                        Err(error) => return Err(error),
                    }
                }
                // Below zero: the window is full, unless it has ended meanwhile.
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

    /// Keeps a counter for as many windows from now as it had counted when a ticket was taken, and
    /// never for less than it is kept already: of many at once the one that counted most may be
    /// done first.
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
        for _ in 0..TRIES {
            // A success may have emptied it meanwhile.
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

    /// Gives one back. That it cannot be done makes the limit stricter and nothing else.
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

    fn id(&self, bucket: Bucket, of: &[&str]) -> String {
        let parts: Vec<&[u8]> = std::iter::once(bucket.row().name)
            .chain(of.iter().copied())
            .map(str::as_bytes)
            .collect();
        URL_SAFE_NO_PAD.encode(self.ring.mac(Purpose::Limit, &parts))
    }

    fn mark(&self, of: &[&str]) -> String {
        let parts: Vec<&[u8]> = std::iter::once("noted")
            .chain(of.iter().copied())
            .map(str::as_bytes)
            .collect();
        URL_SAFE_NO_PAD.encode(self.ring.mac(Purpose::Limit, &parts))
    }

    fn cx(&self) -> Cx {
        Cx::system("rate limits").at(self.env.clock.now())
    }
}

impl Taken {
    /// The attempt succeeded: what counts failures only is given back, what counts them in a row
    /// begins anew.
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

    /// The attempt failed: what keeps failures in mind for longer the more there are does so. What
    /// was refused before it was tried prolongs nothing.
    ///
    /// # Errors
    /// 503 when the counters cannot be reached.
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

    /// Whether it was the last that a bucket lets pass: whoever takes that one, and nobody else,
    /// tells who has to know.
    pub(crate) fn is_last(&self, bucket: Bucket) -> bool {
        self.tickets
            .iter()
            .any(|ticket| ticket.bucket == bucket && ticket.left == 0)
    }

    /// Counts what another has taken as part of the same attempt.
    pub(crate) fn and(mut self, other: Self) -> Self {
        self.tickets.extend(other.tickets);
        self
    }

    /// The attempt was never made, because something else forbade it.
    pub(crate) async fn undo(&self) {
        for ticket in self.tickets.iter().rev() {
            self.return_ticket(ticket).await;
        }
    }

    async fn return_ticket(&self, ticket: &Ticket) {
        // The mark goes first: between the two, the value may be counted twice, but never not at
        // all.
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

/// Whole seconds, so that whoever waits them is not a moment too early.
fn seconds_until(now: Timestamp, end: Timestamp) -> u32 {
    let millis = u64::try_from(end.millis() - now.millis()).unwrap_or(0);
    u32::try_from(millis.div_ceil(1000))
        .unwrap_or(u32::MAX)
        .max(1)
}

/// Without counters nothing may be tried.
fn unreachable(error: Error) -> Error {
    if error.code() == Code::Unavailable {
        error
    } else {
        Error::unavailable(error)
    }
}

fn log(done: Result<()>) {
    if let Err(error) = done {
        tracing::warn!(error = ?error, "an attempt that succeeded stays counted");
    }
}

#[cfg(test)]
mod tests;
