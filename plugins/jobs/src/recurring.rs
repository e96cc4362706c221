//! Recurring jobs. Each has one record with the key `schedule`; after each run, its due time is set
//! to the next time of its schedule.

use std::time::SystemTime;

use linchpin::entity::ListQuery;
use linchpin::{Code, Cx, Error, Field, Result, Timestamp};

use crate::entity::{QueuedJob, QueuedJobAdapter, QueuedJobCreate, QueuedJobPatch, queued_job};

/// The key of the records of recurring jobs. No other job has it.
pub(crate) const KEY: &str = "schedule";

/// A recurring job, as the app declares it.
#[derive(Clone, Debug)]
pub(crate) struct Recurring {
    pub(crate) name: &'static str,
    pub(crate) payload: String,
    pub(crate) schedule: cronexpr::Crontab,
}

/// Parses a cron expression of five fields with an optional time zone: `0 3 * * * Europe/Berlin`.
/// The default is UTC.
pub(crate) fn parse(text: &str) -> std::result::Result<cronexpr::Crontab, String> {
    let without_zone = text.split_whitespace().count() == 5;
    let with_zone = if without_zone {
        format!("{text} UTC")
    } else {
        text.to_owned()
    };
    cronexpr::parse_crontab(&with_zone).map_err(|error| error.to_string())
}

impl Recurring {
    /// Returns the first time of the schedule after `at`.
    pub(crate) fn after(&self, at: Timestamp) -> Result<Timestamp> {
        let millis = at.millis();
        let start = cronexpr::MakeTimestamp::from_millisecond(millis).map_err(Error::internal)?;
        let next = self.schedule.find_next(start).map_err(Error::internal)?;
        let next = SystemTime::from(next.timestamp())
            .duration_since(SystemTime::UNIX_EPOCH)
            .map_err(Error::internal)?;
        let next = i64::try_from(next.as_millis()).map_err(Error::internal)?;
        Ok(Timestamp::from_millis(next))
    }

    /// Creates the record of this job. If it exists, updates its payload, and its due time if the
    /// schedule now has an earlier one. If an attempt has begun, the due time does not change: it
    /// is the end of the lease of that attempt, or the time of the next attempt.
    pub(crate) async fn ensure(&self, records: &QueuedJobAdapter, cx: &Cx) -> Result<()> {
        let due_at = self.after(cx.now())?;
        let known = queued_job::name
            .eq(self.name.to_owned())
            .and(queued_job::key.eq(KEY.to_owned()));
        let query = ListQuery::new().filter(known).limit(1);
        let found: Option<QueuedJob> = records.list(cx, query).await?.items.pop();
        let done = match found {
            Some(job) => {
                let is_earlier = job.attempts == 0 && due_at < job.due_at;
                if !is_earlier && job.payload == self.payload {
                    return Ok(());
                }
                let patch = QueuedJobPatch {
                    due_at: is_earlier.then_some(due_at),
                    payload: Some(self.payload.clone()),
                    ..QueuedJobPatch::default()
                };
                records
                    .update(cx, job.id.as_str(), patch, Some(job.version))
                    .await
                    .map(drop)
            }
            None => {
                let record = QueuedJobCreate {
                    name: self.name.to_owned(),
                    payload: self.payload.clone(),
                    key: Some(KEY.to_owned()),
                    status: None,
                    due_at,
                    attempts: None,
                    error: None,
                };
                records.create(cx, record).await.map(drop)
            }
        };
        match done {
            // Another process created, changed or removed the record at the same time.
            Err(error)
                if matches!(
                    error.code(),
                    Code::Conflict | Code::PreconditionFailed | Code::NotFound
                ) =>
            {
                Ok(())
            }
            done => done,
        }
    }
}
