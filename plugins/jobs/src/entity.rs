//! The entity of stored jobs.

use linchpin::prelude::*;

/// Whether a worker takes a job.
#[derive(FieldEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum JobStatus {
    /// It runs when it is due.
    Waiting,
    /// Every attempt failed. It waits for the command `jobs`.
    Parked,
}

/// A job that is not done.
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
    /// At most one job of a name has a key.
    pub key: Option<String>,
    /// Whether a worker takes it.
    #[field(default = JobStatus::Waiting)]
    pub status: JobStatus,
    /// The time of the next attempt. During an attempt it is the end of the lease: then another
    /// worker may take the job.
    pub due_at: Timestamp,
    /// The attempts so far.
    #[field(default = 0)]
    pub attempts: i64,
    /// The last failure.
    pub error: Option<String>,
    /// When it was put into the queue.
    #[field(default = now)]
    pub created_at: Timestamp,
}

/// Takes jobs that are due, those that wait longest first.
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
    entities = [entity(QueuedJob, [CLAIM, RETRY, DROP])],
);
