//! The entity of stored jobs.

use linchpin::prelude::*;

/// The status of a stored job.
#[derive(FieldEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum JobStatus {
    /// It runs when it is due.
    Waiting,
    /// Every attempt failed. An operator retries or drops it with the command `jobs`.
    Parked,
}

/// A stored job: it waits, runs or is parked.
#[entity(
    namespace = "jobs",
    path = "jobs",
    unique(name, key),
    index(status, due_at),
    version(required_on_write = false),
    sort = asc(due_at),
    routes(disabled)
)]
#[derive(Clone, Debug)]
pub struct QueuedJob {
    /// The id.
    #[field(primary, default = uuid)]
    pub id: String,
    /// The name of its type.
    pub name: String,
    /// The value, as JSON.
    pub payload: String,
    /// The key, unique among the jobs of one name; most jobs have none.
    pub key: Option<String>,
    /// The status.
    #[field(default = JobStatus::Waiting)]
    pub status: JobStatus,
    /// The time of the next attempt. During an attempt, it is the end of the lease. After that
    /// time, another worker may take the job.
    pub due_at: Timestamp,
    /// The attempts so far.
    #[field(default = 0)]
    pub attempts: i64,
    /// The last failure.
    pub error: Option<String>,
    /// The time at which it was put into the queue.
    #[field(default = now)]
    pub created_at: Timestamp,
}

/// The most jobs that [`CLAIM`] leases.
pub(crate) const MAX_CLAIMED: usize = 16;

/// Leases due jobs, the longest waiting ones first.
#[operation(
    kind = "batch",
    action = "update",
    filter = (status == JobStatus::Waiting && due_at <= now() && name.one_of(param(names))),
    set(due_at = param(lease_end)),
    limit = 16,
    sort = asc(due_at),
    returns = "records",
)]
pub(crate) const CLAIM: Operation<QueuedJob>;

/// Leases the due job that has waited longest.
#[operation(
    kind = "batch",
    action = "update",
    filter = (status == JobStatus::Waiting && due_at <= now() && name.one_of(param(names))),
    set(due_at = param(lease_end)),
    limit = 1,
    sort = asc(due_at),
    returns = "records",
)]
pub(crate) const CLAIM_ONE: Operation<QueuedJob>;

/// Makes parked jobs due again.
#[operation(
    kind = "batch",
    action = "update",
    filter = (status == JobStatus::Parked && id.one_of(param(ids))),
    set(status = JobStatus::Waiting, attempts = 0, due_at = now()),
    route(disabled),
)]
pub(crate) const RETRY: Operation<QueuedJob>;

/// Removes parked jobs.
#[operation(
    kind = "batch",
    action = "delete",
    filter = (status == JobStatus::Parked && id.one_of(param(ids))),
    route(disabled),
)]
pub(crate) const DROP: Operation<QueuedJob>;

/// The jobs of an app.
pub(crate) static ENTITIES: Package = package!(
    name = "linchpin-jobs",
    mount = "/jobs",
    entities = [entity(QueuedJob, [CLAIM, CLAIM_ONE, RETRY, DROP])],
);
