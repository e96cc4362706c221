//! The queue: the API that adds jobs.

use std::sync::Arc;

use linchpin::entity::ListQuery;
use linchpin::{Code, Cx, Error, Field, Result, Timestamp};
use tokio::sync::Notify;

use crate::entity::{QueuedJobAdapter, QueuedJobCreate, queued_job};
use crate::job::Job;
use crate::recurring::KEY;

/// Adds jobs. `adapters.provided::<JobQueue>()` returns it.
#[derive(Clone, Debug)]
pub struct JobQueue {
    pub(crate) records: QueuedJobAdapter,
    pub(crate) wake: Arc<Notify>,
    /// The names of the jobs of the app.
    pub(crate) names: Arc<[String]>,
}

impl JobQueue {
    /// Adds a job that runs as soon as possible. It is part of the transaction of `cx`, if there is
    /// one.
    ///
    /// # Errors
    /// `internal` if no [`Jobs::job`](crate::Jobs::job) names the type, or if the job cannot be
    /// written as JSON; the errors of the store.
    pub async fn put<T: Job>(&self, cx: &Cx, job: &T) -> Result<()> {
        self.put_at(cx, job, cx.now()).await
    }

    /// Adds a job that does not run before an instant.
    ///
    /// # Errors
    /// As [`JobQueue::put`].
    pub async fn put_at<T: Job>(&self, cx: &Cx, job: &T, at: Timestamp) -> Result<()> {
        self.add(cx, job, None, at).await
    }

    /// Adds a job unless one of the same name and key waits, runs or is parked. Returns whether it
    /// was added. The key `schedule` is reserved for recurring jobs.
    ///
    /// # Errors
    /// As [`JobQueue::put`]; `internal` for the reserved key.
    pub async fn put_once<T: Job>(&self, cx: &Cx, key: &str, job: &T) -> Result<bool> {
        if key == KEY {
            return Err(Error::internal(format!(
                "the key `{KEY}` is reserved for recurring jobs: use another key"
            )));
        }
        let same = queued_job::name
            .eq(T::NAME.to_owned())
            .and(queued_job::key.eq(key.to_owned()));
        let found = self
            .records
            .list(cx, ListQuery::new().filter(same).limit(1))
            .await?;
        if !found.items.is_empty() {
            return Ok(false);
        }
        match self.add(cx, job, Some(key.to_owned()), cx.now()).await {
            Ok(()) => Ok(true),
            // Another call has added it meanwhile.
            Err(error) if error.code() == Code::Conflict && !cx.is_in_transaction() => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn add<T: Job>(
        &self,
        cx: &Cx,
        job: &T,
        key: Option<String>,
        due_at: Timestamp,
    ) -> Result<()> {
        if !self.names.iter().any(|name| name == T::NAME) {
            let text = format!(
                "the job `{}` is not registered: call `Jobs::job` with its type",
                T::NAME
            );
            return Err(Error::internal(text));
        }
        let record = QueuedJobCreate {
            name: T::NAME.to_owned(),
            payload: serde_json::to_string(job).map_err(Error::internal)?,
            key,
            status: None,
            due_at,
            attempts: None,
            error: None,
        };
        self.records.create(cx, record).await?;
        let wake = Arc::clone(&self.wake);
        cx.after_commit(move || wake.notify_one());
        Ok(())
    }
}
