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

/// How long messages with positions and frames are kept: longer than the life of any position.
const FRAMES_AGE: Duration = Duration::from_hours(15 * 24);
/// How long leases are kept: longer than any of them.
const USERS_AGE: Duration = Duration::from_hours(1);
/// The delay before a retry to create a stream, if the server cannot create its files yet.
const CREATE_RETRY: Duration = Duration::from_millis(20);
/// The maximum number of subjects in one answer. The server sets this limit.
const PAGE: usize = 100_000;

const EXPECTED: &str = "Nats-Expected-Last-Subject-Sequence";
const ROLLUP: &str = "Nats-Rollup";

/// Error codes of the server.
mod code {
    pub(super) const NO_MESSAGE: u32 = 10_037;
    pub(super) const NO_JETSTREAM: [u32; 2] = [10_039, 10_076];
    pub(super) const NO_STORE: u32 = 10_049;
    pub(super) const OTHER_SETTINGS: u32 = 10_058;
    pub(super) const NO_STREAM: u32 = 10_059;
    /// Another message is the last one. The second code means that the servers of a cluster are
    /// still copying another message of the subject.
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

/// The members of an API answer that the engine reads.
#[derive(Deserialize, Default)]
struct ApiReply {
    error: Option<Failure>,
    seq: Option<u64>,
    message: Option<ApiMessage>,
    config: Option<Value>,
    created: Option<String>,
    state: Option<ApiState>,
}

#[derive(Deserialize)]
struct ApiMessage {
    seq: u64,
    #[serde(default)]
    data: String,
}

#[derive(Deserialize)]
struct ApiState {
    #[serde(default)]
    messages: u64,
    #[serde(default)]
    first_seq: u64,
    #[serde(default)]
    last_seq: u64,
    #[serde(default)]
    subjects: serde_json::Map<String, Value>,
}

/// Returns the number that the first message of a `JetStream` stream will get, if the settings
/// contain it and the stream has never had a message.
fn unused_first(reply: &ApiReply) -> Option<u64> {
    let (config, state) = (reply.config.as_ref()?, reply.state.as_ref()?);
    let first = config["first_seq"].as_u64()?;
    (state.messages == 0 && state.first_seq == first).then_some(first)
}

/// How to treat a message whose connection was lost before the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lost {
    /// As a conflict with another message. The caller reads the last message, and finds its own
    /// change in it.
    Conflict,
    /// As an error. After a retry the caller would not find its own change, or would make it twice.
    Unavailable,
}

/// A stored message.
pub(super) struct Stored {
    pub(super) seq: u64,
    pub(super) text: Bytes,
}

/// The time at which a `JetStream` stream was created, and the number of its last message. After
/// the stream was created again or restored, the time differs or the number is lower.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct StreamIdentity {
    pub(super) created: String,
    pub(super) last: u64,
}

fn read(message: &Message) -> Result<ApiReply> {
    serde_json::from_slice(&message.payload)
        .map_err(|_| EngineError::failed("JetStream has sent an answer that cannot be read"))
}

impl Inner {
    /// Sends a request to the `JetStream` API. An error of the API is returned as an answer, too.
    async fn api_request(&self, subject: &str, body: &impl Serialize) -> Result<ApiReply> {
        let body = serde_json::to_vec(body).map_err(EngineError::failed)?;
        let subject = format!("$JS.API.{subject}");
        let answer = self.request(&subject, HeaderMap::new(), body.into());
        match answer.await? {
            Answer::Message(message) => read(&message),
            Answer::NoResponder => Err(no_jetstream()),
        }
    }

    /// Creates missing `JetStream` streams.
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
        // A stream that is created again starts at another number. A remembered number of the
        // earlier stream is then never valid for the new one.
        frames["first_seq"] = (RandomState::new().hash_one(0) >> 12).max(1).into();
        frames["republish"] = json!({ "src": names.frames(None), "dest": names.live(None) });
        if let Some(first) = self.create(&name, &frames).await? {
            // Some versions of the server (such as 2.10.26 and 2.11.0) lose all messages at their
            // next start if the first message has exactly the configured first number. So each node
            // skips this number while the stream is empty. The purge removes no message.
            let query = json!({ "seq": first + 1 });
            let reply = self
                .api_request(&format!("STREAM.PURGE.{name}"), &query)
                .await?;
            reply.error.map_or(Ok(()), |failure| Err(failure.error()))?;
        }
        let name = names.users_stream();
        let mut users = stream(&name, names.users(None), USERS_AGE);
        users["max_msgs_per_subject"] = 1.into();
        self.create(&name, &users).await.map(drop)
    }

    /// Creates a `JetStream` stream. Returns the number that its first message will get, if the
    /// stream has had no message yet.
    async fn create(&self, name: &str, settings: &Value) -> Result<Option<u64>> {
        let mut attempts = 50;
        let failure = loop {
            let reply = self
                .api_request(&format!("STREAM.CREATE.{name}"), settings)
                .await?;
            let Some(failure) = reply.error else {
                return Ok(unused_first(&reply));
            };
            attempts -= 1;
            // The server may still be removing the files of a stream that was just deleted.
            if failure.err_code != code::NO_STORE || attempts == 0 {
                break failure;
            }
            tokio::time::sleep(CREATE_RETRY).await;
        };
        if failure.err_code != code::OTHER_SETTINGS {
            return Err(failure.error());
        }
        // An operator may have changed limits and replicas. The settings that the engine relies on
        // must be unchanged.
        let reply = self
            .api_request(&format!("STREAM.INFO.{name}"), &json!({}))
            .await?;
        let unused = unused_first(&reply);
        let found = reply.config.unwrap_or_default();
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
                    "the `{key}` of the JetStream stream `{name}` differs from the value that the \
                     engine needs: remove the stream, or set another prefix of the engine"
                )));
            }
        }
        Ok(unused)
    }

    /// Stores a message if the last message of its subject has the expected number (0 if there is
    /// no message). With `alone`, earlier messages of the subject are removed. Returns the number
    /// of the message, or `None` if another message is the last one.
    ///
    /// If the connection is lost before the answer, the message may be stored or not. `lost` sets
    /// how this case is treated.
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
            None if lost == Lost::Conflict => return Ok(None),
            None => return Err(EngineError::unavailable("the connection was lost")),
            Some(Answer::NoResponder) => {
                // Another program has removed the stream.
                self.revive().await?;
                return Ok(None);
            }
        };
        let reply = read(&message)?;
        match (reply.error, reply.seq) {
            (Some(failure), _) if code::OTHER_LAST.contains(&failure.err_code) => Ok(None),
            (Some(failure), _) => Err(failure.error()),
            (None, Some(seq)) => Ok(Some(seq)),
            (None, None) => Err(EngineError::failed("JetStream has not confirmed a message")),
        }
    }

    /// Creates streams that were removed while the engine is running. A server that is just
    /// starting may not have `JetStream` yet.
    async fn revive(&self) -> Result<()> {
        self.forget();
        self.create_streams()
            .await
            .map_err(|error| EngineError::unavailable(error.to_string()))
    }

    /// Returns the message that a request finds, if there is one.
    async fn get(&self, stream: &str, query: Value) -> Result<Option<Stored>> {
        let reply = self
            .api_request(&format!("STREAM.MSG.GET.{stream}"), &query)
            .await?;
        match (reply.error, reply.message) {
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

    /// Reads the last message of a subject from the leader of the `JetStream` stream.
    pub(super) async fn last(&self, stream: &str, subject: &str) -> Result<Option<Stored>> {
        self.get(stream, json!({ "last_by_subj": subject })).await
    }

    /// Reads the message with a number.
    pub(super) async fn at(&self, stream: &str, seq: u64) -> Result<Option<Bytes>> {
        let query = json!({ "seq": seq });
        let body = serde_json::to_vec(&query).map_err(EngineError::failed)?;
        let subject = format!("$JS.API.DIRECT.GET.{stream}");
        // A replica may answer this request. The answer is the plain message, not the JSON of the
        // API.
        let answer = self.request(&subject, HeaderMap::new(), body.into());
        if let Answer::Message(message) = answer.await?
            && message.status.is_none()
        {
            return Ok(Some(message.payload));
        }
        let stored = self.get(stream, query).await?;
        Ok(stored.map(|stored| stored.text))
    }

    /// Removes the messages of a subject before a number.
    pub(super) async fn remove_before(&self, subject: &str, seq: u64) -> Result<()> {
        let stream = self.names.frames_stream();
        let query = json!({ "filter": subject, "seq": seq });
        let reply = self
            .api_request(&format!("STREAM.PURGE.{stream}"), &query)
            .await?;
        reply.error.map_or(Ok(()), |failure| Err(failure.error()))
    }

    /// Reads the identity of the `JetStream` stream of frames. Creates the stream if it was
    /// removed.
    pub(super) async fn identity(&self) -> Result<StreamIdentity> {
        let stream = self.names.frames_stream();
        let reply = self
            .api_request(&format!("STREAM.INFO.{stream}"), &json!({}))
            .await?;
        match reply.error {
            Some(failure) if failure.err_code == code::NO_STREAM => {
                self.revive().await?;
                Ok(StreamIdentity::default())
            }
            Some(failure) => Err(failure.error()),
            None => Ok(StreamIdentity {
                created: reply.created.unwrap_or_default(),
                last: reply.state.map_or(0, |state| state.last_seq),
            }),
        }
    }

    /// The subjects of all stored positions.
    pub(super) async fn subjects(&self) -> Result<Vec<String>> {
        let stream = self.names.frames_stream();
        let mut all = Vec::new();
        loop {
            let query = json!({ "subjects_filter": self.names.frames(None), "offset": all.len() });
            let reply = self
                .api_request(&format!("STREAM.INFO.{stream}"), &query)
                .await?;
            match reply.error {
                Some(failure) if failure.err_code == code::NO_STREAM => return Ok(all),
                Some(failure) => return Err(failure.error()),
                None => {}
            }
            let page = reply.state.map(|state| state.subjects).unwrap_or_default();
            let last = page.len() < PAGE;
            all.extend(page.into_iter().map(|(subject, _)| subject));
            if last {
                return Ok(all);
            }
        }
    }
}
