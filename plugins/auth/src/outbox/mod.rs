//! The outbox: work that a request leaves for afterwards, kept in the store until it is done.
//!
//! Mail and text messages go through it, and so does whatever must not show by its time whether an
//! account exists. A task is done at least once: a process that dies in the middle leaves it to the
//! next one.

pub(crate) mod entity;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use linchpin::entity::{Direction, ListQuery};
use linchpin::{BoxFuture, Code, Cx, Error, Field, Result, Timestamp};
use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, watch};

use crate::core::Client;
use crate::env::Env;
use crate::keys::data::{DataKeys, Place};
use crate::mail::MailKind;
use entity::{OutboxAdapter, OutboxCreate, OutboxPatch, outbox};

/// Pauses before each repetition; after the last one a task is given up.
const BACK_OFF: [Duration; 5] = [
    Duration::from_secs(10),
    Duration::from_mins(1),
    Duration::from_mins(5),
    Duration::from_mins(30),
    Duration::from_hours(2),
];

/// How long a task may take, and when another process may assume that who took it has died.
const LONGEST: Duration = Duration::from_mins(1);
const LEASE: Duration = Duration::from_secs(90);

/// So many are done at a time.
const AT_ONCE: u32 = 16;

/// How often somebody looks who was not woken.
const LOOK: Duration = Duration::from_secs(1);

/// Something to be done after the answer.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "task", rename_all = "snake_case")]
pub(crate) enum Task {
    /// Sends a mail.
    Mail {
        kind: MailKind,
        to: String,
        locale: Option<String>,
        vars: BTreeMap<String, String>,
        /// The address as it is counted, where its reader may not be who causes the mail: it is
        /// left out when there were too many.
        #[serde(default)]
        counted: Option<String>,
    },
    /// Sends a text message.
    Sms { to: String, text: String },
    /// Looks for the account of an address, and mails it what was asked for.
    Lookup {
        what: Asked,
        identifier: String,
        /// Whether so many were asked for that a mail is sent only if no earlier one is good any
        /// more.
        #[serde(default)]
        full: bool,
        #[serde(flatten)]
        from: Whence,
    },
    /// Makes the account of a concealed sign-up, or tells the owner of the one there is.
    SignUp(Concealed),
}

/// A sign-up that tells nobody what becomes of it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Concealed {
    /// The address, in both its forms.
    pub(crate) normalised: String,
    pub(crate) display: String,
    pub(crate) password_hash: String,
    /// When it was asked for, which may be long before it is done.
    pub(crate) asked_at: Timestamp,
    #[serde(flatten)]
    pub(crate) from: Whence,
}

/// The request that left a task, as far as it is written down.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Whence {
    ip: Option<IpAddr>,
    user_agent: Option<String>,
    request_id: String,
}

impl From<&Client> for Whence {
    fn from(client: &Client) -> Self {
        Self {
            ip: client.ip,
            user_agent: client.user_agent.clone(),
            request_id: client.request_id.clone(),
        }
    }
}

impl Whence {
    /// Whoever asked, at the instant at which it is done.
    pub(crate) fn client(self, now: Timestamp) -> Client {
        Client {
            ip: self.ip,
            user_agent: self.user_agent,
            request_id: self.request_id,
            ..Client::own(now)
        }
    }
}

/// What somebody who is not signed in may have mailed to an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Asked {
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

/// Does tasks.
pub(crate) trait Perform: Send + Sync + 'static {
    /// Does one. It is done again, later, when the answer is an error.
    fn perform(&self, task: Task) -> BoxFuture<'_, Result<()>>;
}

/// Where tasks are put.
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

    /// The records behind it.
    pub(crate) fn records(&self) -> &OutboxAdapter {
        &self.records
    }

    /// Keeps a task until it is done or its time is over. In a transaction, it is part of it.
    ///
    /// # Errors
    /// When it cannot be kept.
    pub(crate) async fn put(&self, cx: &Cx, task: &Task, lifetime: Option<Duration>) -> Result<()> {
        let mut id = String::with_capacity(32);
        for byte in self.env.random::<16>()? {
            // Writing to a string cannot fail.
            let _ = write!(id, "{byte:02x}");
        }
        let plain = zeroize::Zeroizing::new(serde_json::to_vec(task).map_err(Error::internal)?);
        let sealed = self.keys.seal(&*self.env.rng, place(&id), &plain)?;
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

    /// Does what is due, several tasks at a time. The answer is how many were taken.
    ///
    /// # Errors
    /// When the store cannot be reached.
    pub(crate) async fn round(&self, performer: &dyn Perform) -> Result<usize> {
        let cx = self.now();
        // The longest due first.
        let due = ListQuery::new()
            .filter(outbox::due_at.lte(cx.now()))
            .sort(outbox::due_at, Direction::Asc)
            .limit(AT_ONCE);
        let due = self.records.list(&cx, due).await?;
        let taken = due
            .items
            .into_iter()
            .map(|record| self.take(&cx, performer, record));
        join_all(taken).await.into_iter().sum()
    }

    async fn take(
        &self,
        cx: &Cx,
        performer: &dyn Perform,
        record: entity::Outbox,
    ) -> Result<usize> {
        let attempts = record.attempts + 1;
        let lease = OutboxPatch {
            attempts: Some(attempts),
            due_at: Some(later(cx.now(), LEASE)),
            ..OutboxPatch::default()
        };
        let version = match self
            .records
            .update(cx, record.id.as_str(), lease, Some(record.version))
            .await
        {
            Ok(taken) => taken.version,
            // Somebody else has it.
            Err(error) if matches!(error.code(), Code::PreconditionFailed | Code::NotFound) => {
                return Ok(0);
            }
            Err(error) => return Err(error),
        };
        let done = match self.opened(&record) {
            Ok(task) => match tokio::time::timeout(LONGEST, performer.perform(task)).await {
                Ok(done) => done,
                Err(_) => Err(Error::unavailable("it took too long")),
            },
            Err(error) => Err(error),
        };
        // The clock may have gone on.
        let cx = self.now();
        let pause = usize::try_from(attempts - 1)
            .ok()
            .and_then(|n| BACK_OFF.get(n));
        let over = match (done, pause) {
            (Ok(()), _) => {
                self.records
                    .delete(&cx, record.id.as_str(), Some(version))
                    .await
            }
            (Err(error), Some(pause)) => {
                tracing::warn!(error = ?error, attempts, "a task of the outbox failed and is done again");
                let patch = OutboxPatch {
                    due_at: Some(later(cx.now(), *pause)),
                    ..OutboxPatch::default()
                };
                self.records
                    .update(&cx, record.id.as_str(), patch, Some(version))
                    .await
                    .map(|_| ())
            }
            (Err(error), None) => {
                tracing::error!(error = ?error, attempts, "a task of the outbox is given up");
                self.records
                    .delete(&cx, record.id.as_str(), Some(version))
                    .await
            }
        };
        match over {
            // Its time was over, or another has taken over.
            Err(error) if matches!(error.code(), Code::PreconditionFailed | Code::NotFound) => {
                Ok(1)
            }
            over => over.map(|()| 1),
        }
    }

    fn opened(&self, record: &entity::Outbox) -> Result<Task> {
        let plain = self
            .keys
            .open(place(&record.id), &record.sealed)
            .map_err(Error::internal)?;
        serde_json::from_slice(plain.expose())
            .map_err(|_| Error::internal("a task of the outbox cannot be read"))
    }

    /// Does tasks as they come, until it is told to stop.
    pub(crate) fn work(&self, performer: Arc<dyn Perform>) -> Worker {
        let (stop, mut stopped) = watch::channel(false);
        let queue = self.clone();
        let task = tokio::spawn(async move {
            loop {
                match queue.round(&*performer).await {
                    Ok(0) => {}
                    Ok(_) if !*stopped.borrow() => continue,
                    Ok(_) => {}
                    Err(error) => tracing::warn!(error = ?error, "the outbox cannot be read"),
                }
                tokio::select! {
                    () = queue.wake.notified() => {}
                    () = tokio::time::sleep(queue.env.clock.pause(LOOK)) => {}
                    _ = stopped.changed() => {}
                }
                if *stopped.borrow() {
                    break;
                }
            }
        });
        Worker { stop, task }
    }

    fn now(&self) -> Cx {
        Cx::system("outbox").at(self.env.clock.now())
    }

    /// The caller's transaction at the plugin's clock.
    fn system(&self, cx: &Cx) -> Cx {
        cx.clone().at(self.env.clock.now())
    }
}

/// Whoever does the tasks.
#[derive(Debug)]
pub(crate) struct Worker {
    stop: watch::Sender<bool>,
    task: tokio::task::JoinHandle<()>,
}

impl Worker {
    /// Lets what has begun come to its end, and begins nothing more.
    pub(crate) async fn stop(self) {
        // The worker may have ended already; then there is nothing to wait for.
        let _ = self.stop.send(true);
        let _ = self.task.await;
    }
}

/// Where a task is kept.
pub(crate) fn place(id: &str) -> Place<'_> {
    Place {
        entity: "auth_outbox",
        id,
        field: "sealed",
    }
}

fn later(now: Timestamp, by: Duration) -> Timestamp {
    Timestamp::from_millis(
        now.millis()
            .saturating_add(i64::try_from(by.as_millis()).unwrap_or(i64::MAX)),
    )
}

#[cfg(test)]
mod tests;
