//! The outbox: tasks that run after the response, stored until they are done.
//!
//! It sends mail and text messages, and does work whose time would show whether an account exists.
//! A task runs at least once: if a process dies during a task, another one repeats it.

pub(crate) mod entity;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use linchpin::entity::{Direction, ListQuery};
use linchpin::seal::{DataKeys, Place};
use linchpin::{BoxFuture, Code, Cx, Error, Field, Result, Timestamp};
pub(crate) use linchpin_worker::Worker;
use linchpin_worker::{Source, later};
use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, watch};

use crate::core::Client;
use crate::env::Env;
use crate::mail::MailKind;
use entity::{OutboxAdapter, OutboxCreate, OutboxPatch, outbox};

/// Pauses between attempts. After the last one the task is dropped.
const BACK_OFF: [Duration; 5] = [
    Duration::from_secs(10),
    Duration::from_mins(1),
    Duration::from_mins(5),
    Duration::from_mins(30),
    Duration::from_hours(2),
];

/// Maximum duration of a task.
pub(crate) const MAX_TASK_DURATION: Duration = Duration::from_mins(1);
/// Time after which another process repeats a task that was started.
const LEASE: Duration = Duration::from_secs(90);

/// Number of tasks that run at the same time.
const MAX_CONCURRENT_TASKS: u32 = 16;

/// Interval at which the worker looks for tasks if nothing wakes it.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// A task that runs after the response.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "task", rename_all = "snake_case")]
pub(crate) enum Task {
    /// Sends a mail.
    Mail {
        kind: MailKind,
        to: String,
        locale: Option<String>,
        vars: BTreeMap<String, String>,
        /// The address for the limit of mails, if its owner may not have caused the mail. If the
        /// limit is exhausted the mail is dropped.
        #[serde(default)]
        counted: Option<String>,
    },
    /// Sends a text message.
    Sms { to: String, text: String },
    /// Finds the account of an address and mails what was requested.
    Lookup {
        what: RequestedMail,
        identifier: String,
        /// Whether the limit of mails is exhausted: then a mail is sent only if no earlier link is
        /// valid.
        #[serde(default)]
        full: bool,
        #[serde(flatten)]
        from: TaskOrigin,
    },
    /// Creates the account of a concealed sign-up, or informs the owner of the existing one.
    SignUp(Concealed),
}

/// A sign-up whose response does not show whether the account exists.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Concealed {
    /// The normalised address.
    pub(crate) normalised: String,
    pub(crate) display: String,
    pub(crate) password_hash: String,
    /// The time of the request, which may be long before the task runs.
    pub(crate) asked_at: Timestamp,
    #[serde(flatten)]
    pub(crate) from: TaskOrigin,
}

/// The client of the request, as far as it is stored.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct TaskOrigin {
    ip: Option<IpAddr>,
    user_agent: Option<String>,
    request_id: String,
}

impl From<&Client> for TaskOrigin {
    fn from(client: &Client) -> Self {
        Self {
            ip: client.ip,
            user_agent: client.user_agent.clone(),
            request_id: client.request_id.clone(),
        }
    }
}

impl TaskOrigin {
    /// The client at the time of the task.
    pub(crate) fn client(self, now: Timestamp) -> Client {
        Client {
            ip: self.ip,
            user_agent: self.user_agent,
            request_id: self.request_id,
            ..Client::of_app(now)
        }
    }
}

/// Mails that anyone can request for an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RequestedMail {
    PasswordReset,
    Verification,
    MagicLink,
}

impl std::fmt::Debug for Task {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Mail { kind, .. } => write!(f, "Mail({})", kind.name()),
            Self::Sms { .. } => f.write_str("Sms"),
            Self::Lookup { what, .. } => write!(f, "Lookup({what:?})"),
            Self::SignUp(_) => f.write_str("SignUp"),
        }
    }
}

/// Performs tasks.
pub(crate) trait Perform: Send + Sync + 'static {
    /// Performs a task. After an error it is repeated later.
    fn perform(&self, task: Task) -> BoxFuture<'_, Result<()>>;
}

/// The queue of tasks.
#[derive(Clone, Debug)]
pub(crate) struct OutboxQueue {
    records: OutboxAdapter,
    keys: Arc<DataKeys>,
    env: Env,
    wake: Arc<Notify>,
}

impl OutboxQueue {
    pub(crate) fn new(records: OutboxAdapter, keys: Arc<DataKeys>, env: Env) -> Self {
        Self {
            records,
            keys,
            env,
            wake: Arc::new(Notify::new()),
        }
    }

    /// Stores a task until it is done or its lifetime is over. It is part of the transaction of
    /// `cx`, if there is one. The worker is woken after the commit.
    ///
    /// # Errors
    /// If it cannot be stored.
    pub(crate) async fn put(&self, cx: &Cx, task: &Task, lifetime: Option<Duration>) -> Result<()> {
        let mut id = String::with_capacity(32);
        for byte in self.env.random::<16>()? {
            // Writing to a string cannot fail.
            let _ = write!(id, "{byte:02x}");
        }
        let plain = zeroize::Zeroizing::new(serde_json::to_vec(task).map_err(Error::internal)?);
        let sealed = self.keys.seal(place(&id), &plain)?;
        let now = self.env.clock.now();
        let expires_at = lifetime.map(|lifetime| later(now, lifetime));
        let record = OutboxCreate {
            id,
            sealed,
            attempts: None,
            due_at: now,
            expires_at,
        };
        self.records.create(&self.system(cx), record).await?;
        let wake = Arc::clone(&self.wake);
        cx.after_commit(move || wake.notify_one());
        Ok(())
    }

    /// Returns due tasks, longest waiting first. Another process may take the same tasks.
    async fn due(&self) -> Result<Vec<entity::Outbox>> {
        let cx = self.now();
        let due = ListQuery::new()
            .filter(outbox::due_at.lte(cx.now()))
            .sort(outbox::due_at, Direction::Asc)
            .limit(MAX_CONCURRENT_TASKS);
        Ok(self.records.list(&cx, due).await?.items)
    }

    /// Leases a task and runs it, unless another process has taken it; then writes its result.
    async fn attempt(&self, performer: &dyn Perform, record: entity::Outbox) -> Result<()> {
        let attempts = record.attempts + 1;
        let cx = self.now();
        // The attempt is counted before it begins. So a task that crashes the process is dropped
        // after its last attempt, too.
        let begun = OutboxPatch {
            attempts: Some(attempts),
            due_at: Some(later(cx.now(), LEASE)),
            ..OutboxPatch::default()
        };
        let begun = self
            .records
            .update(&cx, record.id.as_str(), begun, Some(record.version))
            .await;
        let version = match begun {
            Ok(begun) => begun.version,
            Err(error) if is_lost(&error) => return Ok(()),
            Err(error) => return Err(error),
        };
        let done = match self.decrypt(&record) {
            Ok(task) => {
                match tokio::time::timeout(MAX_TASK_DURATION, performer.perform(task)).await {
                    Ok(done) => done,
                    Err(_) => Err(Error::unavailable("it took too long")),
                }
            }
            Err(error) => Err(error),
        };
        match self.settle(&record.id, (attempts, version), done).await {
            // The task expired, or another process has taken it.
            Err(error) if is_lost(&error) => Ok(()),
            settled => settled,
        }
    }

    /// Removes a task that is done or has failed too often; sets the time of the next attempt
    /// otherwise.
    async fn settle(
        &self,
        id: &str,
        (attempts, version): (i64, i64),
        done: Result<()>,
    ) -> Result<()> {
        let cx = self.now();
        let pause = usize::try_from(attempts - 1)
            .ok()
            .and_then(|n| BACK_OFF.get(n));
        match (done, pause) {
            (Ok(()), _) => {}
            (Err(error), Some(pause)) => {
                tracing::warn!(error = ?error, attempts, "a task of the outbox failed and is repeated later");
                let patch = OutboxPatch {
                    due_at: Some(later(cx.now(), *pause)),
                    ..OutboxPatch::default()
                };
                let written = self.records.update(&cx, id, patch, Some(version));
                return written.await.map(drop);
            }
            (Err(error), None) => {
                tracing::error!(error = ?error, attempts, "a task of the outbox failed too often and is dropped");
            }
        }
        self.records.delete(&cx, id, Some(version)).await
    }

    fn decrypt(&self, record: &entity::Outbox) -> Result<Task> {
        let plain = self
            .keys
            .open(place(&record.id), &record.sealed)
            .map_err(Error::internal)?;
        serde_json::from_slice(plain.expose())
            .map_err(|_| Error::internal("a task of the outbox cannot be parsed"))
    }

    /// Starts a worker, which runs tasks until it is stopped.
    pub(crate) fn start_worker(&self, performer: Arc<dyn Perform>) -> Worker {
        let source = Tasks {
            queue: self.clone(),
            performer,
        };
        Worker::start(Arc::new(source), Arc::clone(&self.wake))
    }

    fn now(&self) -> Cx {
        Cx::system("outbox").at(self.env.clock.now())
    }

    /// The caller's context at the time of the plugin's clock.
    fn system(&self, cx: &Cx) -> Cx {
        cx.clone().at(self.env.clock.now())
    }
}

/// The tasks of a queue, as work for a worker.
struct Tasks {
    queue: OutboxQueue,
    performer: Arc<dyn Perform>,
}

impl Source for Tasks {
    type Item = entity::Outbox;

    fn name(&self) -> &'static str {
        "auth"
    }

    fn at_once(&self) -> usize {
        MAX_CONCURRENT_TASKS as usize
    }

    /// Tasks run in rounds, because the order of the tasks of a sign-up could otherwise show
    /// whether the account exists.
    fn is_in_rounds(&self) -> bool {
        true
    }

    fn interval(&self) -> Duration {
        self.queue.env.clock.pause(POLL_INTERVAL)
    }

    fn claim(&self, _: usize) -> BoxFuture<'_, Result<Vec<entity::Outbox>>> {
        Box::pin(self.queue.due())
    }

    fn run(
        self: Arc<Self>,
        task: entity::Outbox,
        mut stopped: watch::Receiver<bool>,
    ) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            if let Err(error) = self.queue.attempt(&*self.performer, task).await {
                tracing::warn!(
                    error = ?error,
                    "a task of the outbox could not be started, or its result could not be stored; \
                     it is repeated"
                );
                // A task without a lease is due again at once, so this waits for one interval.
                tokio::select! {
                    () = tokio::time::sleep(self.interval()) => {}
                    _ = stopped.changed() => {}
                }
            }
        })
    }
}

fn is_lost(error: &Error) -> bool {
    matches!(error.code(), Code::PreconditionFailed | Code::NotFound)
}

/// The place of a task's encrypted data.
fn place(id: &str) -> Place<'_> {
    Place::of(outbox::sealed, id)
}

#[cfg(test)]
mod tests;
