//! Requests to `JetStream`: streams, messages, and their numbers.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use async_nats::{HeaderMap, Message};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Inner;
use super::link::{Answer, no_jetstream};
use crate::engine::{EngineError, Result};

/// How long a message of a position is kept: longer than any position lives.
const FRAMES_AGE: Duration = Duration::from_hours(15 * 24);
/// How long leases are kept: longer than any of them.
const USERS_AGE: Duration = Duration::from_hours(1);
/// The time before a stream is created again whose files the server cannot create yet.
const AGAIN: Duration = Duration::from_millis(20);
/// The maximum number of subjects of an answer, which the server sets.
const PAGE: usize = 100_000;

const EXPECTED: &str = "Nats-Expected-Last-Subject-Sequence";
const ROLLUP: &str = "Nats-Rollup";

/// Codes of errors, as the server sends them.
mod code {
    pub(super) const NO_MESSAGE: u32 = 10_037;
    pub(super) const NO_JETSTREAM: [u32; 2] = [10_039, 10_076];
    pub(super) const NO_STORE: u32 = 10_049;
    pub(super) const OTHER_SETTINGS: u32 = 10_058;
    pub(super) const NO_STREAM: u32 = 10_059;
    /// The second one means that servers of a cluster still copy another message of the subject.
    pub(super) const OTHER_LAST: [u32; 2] = [10_071, 10_164];
}

#[derive(Deserialize)]
struct Failure {
    #[serde(default)]
    code: u32,
    #[serde(default)]
    err_code: u32,
    #[serde(default)]
    description: String,
}

impl Failure {
    fn error(self) -> EngineError {
        let text = format!("JetStream: {} (error {})", self.description, self.err_code);
        if code::NO_JETSTREAM.contains(&self.err_code) {
            no_jetstream()
        } else if (400..500).contains(&self.code) && self.err_code != code::NO_STREAM {
            EngineError::failed(text)
        } else {
            EngineError::unavailable(text)
        }
    }
}

/// The parts of answers that the engine reads.
#[derive(Deserialize, Default)]
struct Said {
    error: Option<Failure>,
    seq: Option<u64>,
    message: Option<SaidMessage>,
    config: Option<Value>,
    created: Option<String>,
    state: Option<SaidState>,
}

#[derive(Deserialize)]
struct SaidMessage {
    seq: u64,
    #[serde(default)]
    data: String,
}

#[derive(Deserialize)]
struct SaidState {
    #[serde(default)]
    messages: u64,
    #[serde(default)]
    first_seq: u64,
    #[serde(default)]
    last_seq: u64,
    #[serde(default)]
    subjects: serde_json::Map<String, Value>,
}

/// The number that the first message of a `JetStream` stream will get, if the settings name it and
/// the stream has had no message.
fn unused_first(said: &Said) -> Option<u64> {
    let (config, state) = (said.config.as_ref()?, said.state.as_ref()?);
    let first = config["first_seq"].as_u64()?;
    (state.messages == 0 && state.first_seq == first).then_some(first)
}

/// The result of a message whose connection was lost before the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lost {
    /// As if another message were the last one: the caller reads that, and finds its own change.
    Overtaken,
    /// An error: the caller would not find its own change, or do it twice.
    Unavailable,
}

/// A stored message.
pub(super) struct Stored {
    pub(super) seq: u64,
    pub(super) text: Bytes,
}

/// The identity of a `JetStream` stream and its last number. If the stream is created again or
/// restored, they change in another way than by messages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Life {
    pub(super) created: String,
    pub(super) last: u64,
}

fn read(message: &Message) -> Result<Said> {
    serde_json::from_slice(&message.payload)
        .map_err(|_| EngineError::failed("JetStream has sent an answer that cannot be read"))
}

impl Inner {
    /// A request to the interface of `JetStream`. An error is an answer, too.
    async fn ask(&self, subject: &str, body: &impl Serialize) -> Result<Said> {
        let body = serde_json::to_vec(body).map_err(EngineError::failed)?;
        let subject = format!("$JS.API.{subject}");
        let answer = self.request(&subject, HeaderMap::new(), body.into());
        match answer.await? {
            Answer::Message(message) => read(&message),
            Answer::Nobody => Err(no_jetstream()),
        }
    }

    /// Creates the `JetStream` streams that are missing.
    pub(super) async fn create_streams(&self) -> Result<()> {
        let names = &self.names;
        let stream = |name: &str, subjects: String, age: Duration| {
            json!({
                "name": name,
                "subjects": [subjects],
                "retention": "limits",
                "discard": "old",
                "storage": "file",
                "num_replicas": self.replicas,
                "max_age": u64::try_from(age.as_nanos()).unwrap_or(u64::MAX),
                "duplicate_window": 1_000_000_000_u64,
                "max_msgs": -1,
                "max_bytes": -1,
                "max_consumers": -1,
                "allow_direct": true,
                "allow_rollup_hdrs": true,
            })
        };
        let name = names.frames_stream();
        let mut frames = stream(&name, names.frames(None), FRAMES_AGE);
        // A stream that is created again has other numbers. So a number that a node remembers of
        // the earlier one is not taken for one of this stream.
        frames["first_seq"] = (RandomState::new().hash_one(0) >> 12).max(1).into();
        frames["republish"] = json!({ "src": names.frames(None), "dest": names.live(None) });
        if let Some(first) = self.create(&name, &frames).await? {
            // Some versions (2.10.26 and 2.11.0 among them) lose all messages at their next start if
            // the first one has exactly that number. So no message gets it: each node that may come
            // first skips it before it appends, and removes no message.
            let which = json!({ "seq": first + 1 });
            let said = self.ask(&format!("STREAM.PURGE.{name}"), &which).await?;
            said.error.map_or(Ok(()), |failure| Err(failure.error()))?;
        }
        let name = names.users_stream();
        let mut users = stream(&name, names.users(None), USERS_AGE);
        users["max_msgs_per_subject"] = 1.into();
        self.create(&name, &users).await.map(drop)
    }

    /// Creates a `JetStream` stream. Returns the number that its first message will get, if none has
    /// got it yet.
    async fn create(&self, name: &str, settings: &Value) -> Result<Option<u64>> {
        let mut attempts = 50;
        let failure = loop {
            let said = self.ask(&format!("STREAM.CREATE.{name}"), settings).await?;
            let Some(failure) = said.error else {
                return Ok(unused_first(&said));
            };
            attempts -= 1;
            // A server still removes the files of a stream that was deleted a moment ago.
            if failure.err_code != code::NO_STORE || attempts == 0 {
                break failure;
            }
            tokio::time::sleep(AGAIN).await;
        };
        if failure.err_code != code::OTHER_SETTINGS {
            return Err(failure.error());
        }
        // An operator may have changed limits and replicas. What the engine relies on must stay.
        let said = self.ask(&format!("STREAM.INFO.{name}"), &json!({})).await?;
        let unused = unused_first(&said);
        let found = said.config.unwrap_or_default();
        let needed = [
            "subjects",
            "retention",
            "discard",
            "allow_direct",
            "allow_rollup_hdrs",
            "republish",
            "max_msgs_per_subject",
        ];
        for key in needed {
            let (own, found) = (&settings[key], &found[key]);
            let unset = own.is_null() && (found.is_null() || found == -1);
            if own != found && !unset {
                return Err(EngineError::failed(format!(
                    "the JetStream stream `{name}` has another `{key}` than the engine needs: \
                     remove the stream, or give the engine another prefix"
                )));
            }
        }
        Ok(unused)
    }

    /// Stores a message if the last message of its subject has the expected number, which is 0 if
    /// there is none. `alone`: earlier messages of the subject are removed. Returns the number, or
    /// `None` if another message is the last one.
    ///
    /// If the connection is lost meanwhile, the message may be stored or not. `lost` says what that
    /// is.
    pub(super) async fn put(
        &self,
        subject: &str,
        text: Bytes,
        expected: u64,
        alone: bool,
        lost: Lost,
    ) -> Result<Option<u64>> {
        let mut headers = HeaderMap::new();
        headers.insert(EXPECTED, expected.to_string());
        if alone {
            headers.insert(ROLLUP, "sub");
        }
        let message = match self.request_once(subject, headers, text).await? {
            Some(Answer::Message(message)) => message,
            None if lost == Lost::Overtaken => return Ok(None),
            None => return Err(EngineError::unavailable("the connection was lost")),
            Some(Answer::Nobody) => {
                // Another program has removed the stream.
                self.revive().await?;
                return Ok(None);
            }
        };
        let said = read(&message)?;
        match (said.error, said.seq) {
            (Some(failure), _) if code::OTHER_LAST.contains(&failure.err_code) => Ok(None),
            (Some(failure), _) => Err(failure.error()),
            (None, Some(seq)) => Ok(Some(seq)),
            (None, None) => Err(EngineError::failed("JetStream has not confirmed a message")),
        }
    }

    /// Creates streams that were removed while the engine runs. A server that starts again may have
    /// no `JetStream` for a moment.
    async fn revive(&self) -> Result<()> {
        self.forget();
        self.create_streams()
            .await
            .map_err(|error| EngineError::unavailable(error.to_string()))
    }

    /// The message that a request finds, if there is one.
    async fn get(&self, stream: &str, which: Value) -> Result<Option<Stored>> {
        let said = self
            .ask(&format!("STREAM.MSG.GET.{stream}"), &which)
            .await?;
        match (said.error, said.message) {
            (Some(failure), _) if failure.err_code == code::NO_MESSAGE => Ok(None),
            (Some(failure), _) if failure.err_code == code::NO_STREAM => {
                self.revive().await?;
                Ok(None)
            }
            (Some(failure), _) => Err(failure.error()),
            (None, Some(message)) => {
                let text = STANDARD.decode(message.data).map_err(EngineError::failed)?;
                Ok(Some(Stored {
                    seq: message.seq,
                    text: text.into(),
                }))
            }
            (None, None) => Err(EngineError::failed("JetStream has sent no message")),
        }
    }

    /// The last message of a subject, as the leader of the `JetStream` stream knows it.
    pub(super) async fn last(&self, stream: &str, subject: &str) -> Result<Option<Stored>> {
        self.get(stream, json!({ "last_by_subj": subject })).await
    }

    /// The message with a number.
    pub(super) async fn at(&self, stream: &str, seq: u64) -> Result<Option<Bytes>> {
        let which = json!({ "seq": seq });
        let body = serde_json::to_vec(&which).map_err(EngineError::failed)?;
        let subject = format!("$JS.API.DIRECT.GET.{stream}");
        // A replica may answer, without the encoding of the interface.
        let answer = self.request(&subject, HeaderMap::new(), body.into());
        if let Answer::Message(message) = answer.await?
            && message.status.is_none()
        {
            return Ok(Some(message.payload));
        }
        let stored = self.get(stream, which).await?;
        Ok(stored.map(|stored| stored.text))
    }

    /// Removes the messages of a subject before a number.
    pub(super) async fn remove_before(&self, subject: &str, seq: u64) -> Result<()> {
        let stream = self.names.frames_stream();
        let which = json!({ "filter": subject, "seq": seq });
        let said = self.ask(&format!("STREAM.PURGE.{stream}"), &which).await?;
        said.error.map_or(Ok(()), |failure| Err(failure.error()))
    }

    /// The identity of the `JetStream` stream of frames. Creates it if it was removed.
    pub(super) async fn life(&self) -> Result<Life> {
        let stream = self.names.frames_stream();
        let said = self
            .ask(&format!("STREAM.INFO.{stream}"), &json!({}))
            .await?;
        match said.error {
            Some(failure) if failure.err_code == code::NO_STREAM => {
                self.revive().await?;
                Ok(Life::default())
            }
            Some(failure) => Err(failure.error()),
            None => Ok(Life {
                created: said.created.unwrap_or_default(),
                last: said.state.map_or(0, |state| state.last_seq),
            }),
        }
    }

    /// The subjects of all stored positions.
    pub(super) async fn subjects(&self) -> Result<Vec<String>> {
        let stream = self.names.frames_stream();
        let mut all = Vec::new();
        loop {
            let which = json!({ "subjects_filter": self.names.frames(None), "offset": all.len() });
            let said = self.ask(&format!("STREAM.INFO.{stream}"), &which).await?;
            match said.error {
                Some(failure) if failure.err_code == code::NO_STREAM => return Ok(all),
                Some(failure) => return Err(failure.error()),
                None => {}
            }
            let page = said.state.map(|state| state.subjects).unwrap_or_default();
            let last = page.len() < PAGE;
            all.extend(page.into_iter().map(|(subject, _)| subject));
            if last {
                return Ok(all);
            }
        }
    }
}
