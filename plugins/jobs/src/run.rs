//! Running jobs: the claim, the attempt, and its result.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use linchpin::http::Clock;
use linchpin::{Adapters, BoxFuture, Code, Cx, Error, Result};
use tokio::sync::watch;

use crate::entity::{JobStatus, MAX_CLAIMED, QueuedJob, QueuedJobAdapter, QueuedJobPatch};
use crate::job::{JobCx, Kind};
use crate::recurring::{KEY, Recurring};
use linchpin_worker::Source;
use linchpin_worker::later;

/// The lease of a claim, until the attempt begins.
const CLAIM_LEASE: Duration = Duration::from_mins(1);
/// The time from the timeout of an attempt to the end of its lease.
const LEASE_MARGIN: Duration = Duration::from_secs(30);
/// The maximum number of characters of a stored error.
const MAX_ERROR_CHARS: usize = 1_000;

/// The jobs of an app and their records.
pub(crate) struct Runner {
    pub(crate) records: QueuedJobAdapter,
    pub(crate) adapters: Adapters,
    pub(crate) clock: Clock,
    pub(crate) kinds: BTreeMap<&'static str, Kind>,
    pub(crate) recurring: Vec<Recurring>,
    pub(crate) at_once: usize,
}

impl Source for Runner {
    type Item = QueuedJob;

    fn name(&self) -> &'static str {
        "jobs"
    }

    fn at_once(&self) -> usize {
        self.at_once
    }

    fn claim(&self, free: usize) -> BoxFuture<'_, Result<Vec<QueuedJob>>> {
        Box::pin(async move {
            let names: Vec<&str> = self.kinds.keys().copied().collect();
            if names.is_empty() {
                return Ok(Vec::new());
            }
            let cx = self.cx();
            let lease_end = later(cx.now(), CLAIM_LEASE);
            if free < MAX_CLAIMED {
                return self.records.claim_one(&cx, names, lease_end).await;
            }
            self.records.claim(&cx, names, lease_end).await
        })
    }

    fn run(self: Arc<Self>, job: QueuedJob, _: watch::Receiver<bool>) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let (id, name) = (job.id.clone(), job.name.clone());
            if let Err(error) = self.attempt(job).await {
                tracing::warn!(job = name, id, error = ?error, "could not write the result of a job; the job is repeated after its lease ends");
            }
        })
    }
}

impl Runner {
    pub(crate) fn cx(&self) -> Cx {
        Cx::system("background jobs").at((self.clock)())
    }

    /// Runs a claimed job, and writes its result.
    async fn attempt(&self, job: QueuedJob) -> Result<()> {
        let Some(kind) = self.kinds.get(job.name.as_str()) else {
            return Ok(());
        };
        let attempt = u32::try_from(job.attempts)
            .unwrap_or(u32::MAX)
            .saturating_add(1);
        // The attempt is counted before it begins, so that a job that crashes its process is also
        // parked after its last attempt.
        let lease_end = later((self.clock)(), kind.timeout + LEASE_MARGIN);
        let begun = QueuedJobPatch {
            attempts: Some(i64::from(attempt)),
            due_at: Some(lease_end),
            ..QueuedJobPatch::default()
        };
        let job = match self
            .records
            .update(&self.cx(), job.id.as_str(), begun, Some(job.version))
            .await
        {
            Ok(job) => job,
            // Another worker has taken the job.
            Err(error) if is_lost(&error) => return Ok(()),
            Err(error) => return Err(error),
        };
        let failure = if attempt > kind.attempts {
            Some("the process ended during the last attempt".to_owned())
        } else {
            self.execute(kind, &job, attempt).await.err()
        };
        let written = match failure {
            None => self.finish(&job).await,
            Some(text) => self.fail(kind, &job, attempt, text).await,
        };
        match written {
            // The lease has ended, and another worker has taken the job.
            Err(error) if is_lost(&error) => Ok(()),
            written => written,
        }
    }

    /// Runs the function of the job; returns the text of its failure.
    async fn execute(
        &self,
        kind: &Kind,
        job: &QueuedJob,
        attempt: u32,
    ) -> std::result::Result<(), String> {
        let cx = JobCx {
            cx: self.cx(),
            adapters: self.adapters.clone(),
            id: job.id.clone(),
            attempt,
        };
        let work = (kind.run)(&job.payload, cx)
            .map_err(|_| "the stored payload of the job cannot be parsed".to_owned())?;
        match tokio::time::timeout(kind.timeout, AssertUnwindSafe(work).catch_unwind()).await {
            Ok(Ok(Ok(()))) => Ok(()),
            Ok(Ok(Err(error))) => Err(text_of(&error)),
            Ok(Err(_)) => Err("it panicked".to_owned()),
            Err(_) => Err(format!("it took longer than {:?}", kind.timeout)),
        }
    }

    fn recurring(&self, job: &QueuedJob) -> Option<&Recurring> {
        let mut recurring = self.recurring.iter();
        (job.key.as_deref() == Some(KEY)).then(|| recurring.find(|one| one.name == job.name))?
    }

    /// Removes a finished job; sets the next time of a recurring job.
    async fn finish(&self, job: &QueuedJob) -> Result<()> {
        let cx = self.cx();
        let Some(recurring) = self.recurring(job) else {
            return self
                .records
                .delete(&cx, job.id.as_str(), Some(job.version))
                .await;
        };
        let patch = QueuedJobPatch {
            due_at: Some(recurring.after(cx.now())?),
            attempts: Some(0),
            error: Some(None),
            ..QueuedJobPatch::default()
        };
        self.records
            .update(&cx, job.id.as_str(), patch, Some(job.version))
            .await
            .map(drop)
    }

    /// Writes a failure: the job is retried, or parked after its last attempt. A recurring job
    /// waits for its next time instead of being parked.
    async fn fail(&self, kind: &Kind, job: &QueuedJob, attempt: u32, text: String) -> Result<()> {
        let cx = self.cx();
        let is_last = attempt >= kind.attempts;
        let mut patch = QueuedJobPatch {
            due_at: Some(later(cx.now(), (kind.pause)(attempt))),
            error: Some(Some(text.clone())),
            ..QueuedJobPatch::default()
        };
        match self.recurring(job) {
            Some(recurring) if is_last => {
                patch.due_at = Some(recurring.after(cx.now())?);
                patch.attempts = Some(0);
            }
            None if is_last => patch.status = Some(JobStatus::Parked),
            _ => {}
        }
        if is_last {
            tracing::error!(
                job = job.name,
                id = job.id,
                attempt,
                cause = text,
                "a job failed in its last attempt"
            );
        } else {
            tracing::warn!(
                job = job.name,
                id = job.id,
                attempt,
                cause = text,
                "a job failed and is retried"
            );
        }
        self.records
            .update(&cx, job.id.as_str(), patch, Some(job.version))
            .await
            .map(drop)
    }
}

fn is_lost(error: &Error) -> bool {
    matches!(error.code(), Code::PreconditionFailed | Code::NotFound)
}

/// An error with its causes, short enough to be stored.
fn text_of(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(one) = cause {
        text.push_str(": ");
        text.push_str(&one.to_string());
        cause = one.source();
    }
    text.chars()
        .filter(|c| *c != '\0')
        .take(MAX_ERROR_CHARS)
        .collect()
}
