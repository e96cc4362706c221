//! Frames to clients: bytes that are made once and shared.

use bytes::Bytes;
use linchpin::{Code, Error, Timestamp};
use serde::ser::SerializeSeq;
use serde::{Serialize, Serializer};

use super::write::Object;
use super::{AckId, Position};

/// A frame to clients. A clone shares the bytes, so that one frame can be in the queues of
/// thousands of sockets. The bytes are those that a socket writes: the head of the WebSocket frame
/// is made once too.
///
/// ```
/// use linchpin_realtime::protocol::ServerFrame;
///
/// assert_eq!(ServerFrame::pong(Some("7")).as_str(), r#"{"event":"pong","ref":"7"}"#);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerFrame {
    bytes: Bytes,
    /// The length of the head; 0 for blocks of server-sent events.
    head: u8,
}

/// The members of the first frame of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Connected<'a> {
    /// The id of the connection.
    pub id: &'a str,
    /// The user, if the handshake had a credential.
    pub user_id: Option<&'a str>,
    /// Whether the connection waits for a frame `auth`.
    pub pending: bool,
    /// After this many milliseconds without another frame the server sends a ping.
    pub heartbeat_ms: u64,
    /// The longest message that the server accepts, in bytes.
    pub max_frame_bytes: usize,
}

/// The members of the answer to a subscription.
#[derive(Clone, Copy, Debug)]
pub struct Subscribed<'a> {
    /// The room.
    pub room: &'a str,
    /// Where the client is now: before the replayed frames if it was recovered, else at the top.
    pub position: &'a Position,
    /// Whether the room keeps a history.
    pub recoverable: bool,
    /// The number of frames that follow, if the client's position was good.
    pub recovered: Option<u64>,
    /// Why the client's position was not good.
    pub reason: Option<ResetReason>,
    /// Whether the connection was in the room before.
    pub already: bool,
    /// Who is in the room, if its channel shows it.
    pub presence: Option<PresenceList<'a>>,
    /// The `ref` of the frame that this answers.
    pub reference: Option<&'a str>,
}

/// The users in a room.
#[derive(Clone, Copy, Debug)]
pub struct PresenceList<'a> {
    /// The first of them, with the time of their arrival.
    pub users: &'a [(String, Timestamp)],
    /// The number of all of them.
    pub count: usize,
}

/// Why a client cannot continue from its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResetReason {
    /// The stream has lost its frames and began anew.
    EpochChanged,
    /// The history does not reach back so far, or too much was missed.
    HistoryUnavailable,
    /// The stream is not there yet.
    OffsetAhead,
    /// The room keeps no history.
    NotRecoverable,
    /// The engine cannot read its streams now.
    PersistenceUnavailable,
    /// A check of the subscription failed.
    Unavailable,
    /// The subscriber sees other events than before.
    RightsChanged,
    /// The room was not joined.
    Denied,
}

impl ResetReason {
    /// The reason as frames carry it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::EpochChanged => "epoch_changed",
            Self::HistoryUnavailable => "history_unavailable",
            Self::OffsetAhead => "offset_ahead",
            Self::NotRecoverable => "not_recoverable",
            Self::PersistenceUnavailable => "persistence_unavailable",
            Self::Unavailable => "unavailable",
            Self::RightsChanged => "rights_changed",
            Self::Denied => "denied",
        }
    }
}

/// Why a frame `auth` changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthError {
    /// The token is empty, unknown, expired or revoked.
    InvalidCredentials,
    /// The token is of another user or tenant, or the connection used rooms anonymously.
    IdentityAlreadyBound,
    /// The store of sessions or of limits does not answer; the client may try again.
    Unavailable,
}

impl AuthError {
    /// The code as frames carry it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InvalidCredentials => "INVALID_CREDENTIALS",
            Self::IdentityAlreadyBound => "IDENTITY_ALREADY_BOUND",
            Self::Unavailable => "AUTH_UNAVAILABLE",
        }
    }
}

impl ServerFrame {
    fn of(object: Object) -> Self {
        Self::from_text(&object.close())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        // Both constructors take UTF-8.
        std::str::from_utf8(&self.bytes[usize::from(self.head)..]).unwrap_or_default()
    }

    /// The length of the text in bytes.
    pub fn len(&self) -> usize {
        self.bytes.len() - usize::from(self.head)
    }

    /// Whether the text is empty, which no frame of this protocol is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A text that another part of the crate has made.
    pub(crate) fn from_text(text: &str) -> Self {
        let mut bytes = Vec::with_capacity(MOST_HEAD + text.len());
        write_head(&mut bytes, text.len());
        let head = bytes.len();
        bytes.extend_from_slice(text.as_bytes());
        Self {
            bytes: bytes.into(),
            // At most `MOST_HEAD`.
            head: u8::try_from(head).unwrap_or_default(),
        }
    }

    /// The blocks of an event, which a response sends without a head.
    pub(crate) fn from_block(text: String) -> Self {
        Self {
            bytes: text.into(),
            head: 0,
        }
    }

    /// The bytes to write.
    pub(crate) fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The bytes to write.
    pub(crate) fn into_bytes(self) -> Bytes {
        self.bytes
    }

    /// The first frame of a connection.
    pub fn connected(connected: Connected<'_>) -> Self {
        Self::of(
            Object::event("connected")
                .with("id", connected.id)
                .with("protocol", &1)
                .with("userId", &connected.user_id)
                .with("pending", &connected.pending)
                .with("heartbeatMs", &connected.heartbeat_ms)
                .with("maxFrameBytes", &connected.max_frame_bytes),
        )
    }

    /// The room is joined.
    pub fn subscribed(subscribed: Subscribed<'_>) -> Self {
        let reason = subscribed.reason.map(ResetReason::as_str);
        Self::of(
            Object::event("subscribed")
                .with("room", subscribed.room)
                .with("epoch", &*subscribed.position.epoch)
                .with("offset", &subscribed.position.offset)
                .with("recoverable", &subscribed.recoverable)
                .with("recovered", &subscribed.recovered.is_some())
                .with("replayed", &subscribed.recovered.unwrap_or(0))
                .maybe("reason", reason)
                .maybe("already", subscribed.already.then_some(&true))
                .maybe("presence", subscribed.presence.as_ref())
                .maybe("ref", subscribed.reference),
        )
    }

    /// The room is not joined.
    pub fn subscribe_denied(room: &str, code: Code, reference: Option<&str>) -> Self {
        Self::of(
            Object::event("subscribe_denied")
                .with("room", room)
                .with("code", code.as_str())
                .maybe("ref", reference),
        )
    }

    /// The room is left. `code` is the reason if the server ended the subscription.
    pub fn unsubscribed(room: &str, code: Option<Code>, reference: Option<&str>) -> Self {
        Self::of(
            Object::event("unsubscribed")
                .with("room", room)
                .maybe("code", code.map(Code::as_str))
                .maybe("ref", reference),
        )
    }

    /// Continuity of the room is lost; the client refetches and continues from `position`.
    pub fn reset(room: &str, position: &Position, reason: ResetReason) -> Self {
        Self::of(
            Object::event("reset")
                .with("room", room)
                .with("epoch", &*position.epoch)
                .with("offset", &position.offset)
                .with("reason", reason.as_str()),
        )
    }

    /// A record left the sight of the subscriber; `offset` is that of the event that hid it.
    pub fn hidden(room: &str, entity: &str, id: &str, offset: u64) -> Self {
        Self::of(
            Object::event("hidden")
                .with("room", room)
                .with("payload", &Hidden { entity, id })
                .with("offset", &offset),
        )
    }

    /// A room of `recover` was joined at its top instead, or not at all.
    pub fn recover_failed(room: &str, reason: ResetReason) -> Self {
        Self::of(
            Object::event("recover_failed")
                .with("room", room)
                .with("reason", reason.as_str()),
        )
    }

    /// The end of `recover`: the number of replayed frames, and the rooms that were recovered.
    pub fn recovered(replayed: u64, rooms: &[String], reference: Option<&str>) -> Self {
        Self::of(
            Object::event("recovered")
                .with("replayed", &replayed)
                .with("rooms", rooms)
                .maybe("ref", reference),
        )
    }

    /// The event was executed. `result` is JSON. With `replayed`, it is the stored result of an
    /// earlier event with the same key.
    pub fn ack(id: &AckId, result: &str, replayed: bool, reference: Option<&str>) -> Self {
        let outcome = if replayed { "replayed" } else { "ok" };
        Self::of(
            Object::event("ack")
                .with("ackId", id)
                .with("outcome", outcome)
                .raw("result", result)
                .maybe("ref", reference),
        )
    }

    /// The event was not executed, or failed.
    pub fn ack_error(id: &AckId, error: &Error, reference: Option<&str>) -> Self {
        let text = match error.code() {
            Code::Unauthorized => "unauthenticated",
            Code::Forbidden => "forbidden",
            _ => sentence(error),
        };
        let object = Object::event("ack")
            .with("ackId", id)
            .with("outcome", "error")
            .with("error", text);
        Self::of(failure(object, error).maybe("ref", reference))
    }

    /// The answer to a frame that failed and has no other answer.
    pub fn error(error: &Error, source_event: Option<&str>, reference: Option<&str>) -> Self {
        let object = Object::event("ws:error").with("message", sentence(error));
        Self::of(
            failure(object, error)
                .maybe("sourceEvent", source_event)
                .maybe("ref", reference),
        )
    }

    /// The answer to a frame without `ackId` while the connection waits for authentication.
    pub fn unauthenticated(source_event: Option<&str>, reference: Option<&str>) -> Self {
        Self::of(
            Object::event("ws:error")
                .with("code", "UNAUTHENTICATED")
                .with("message", "Authenticate first: send a frame `auth`")
                .maybe("sourceEvent", source_event)
                .maybe("ref", reference),
        )
    }

    /// The users in a room, as the answer to `presence`.
    pub fn presence(room: &str, list: PresenceList<'_>, reference: Option<&str>) -> Self {
        Self::of(
            Object::event("presence")
                .with("room", room)
                .with("users", &Users(list.users))
                .with("count", &list.count)
                .with("truncated", &list.is_truncated())
                .maybe("ref", reference),
        )
    }

    /// A user came into a room.
    pub fn presence_join(room: &str, user: &str) -> Self {
        Self::of(
            Object::event("presence_join")
                .with("room", room)
                .with("userId", user),
        )
    }

    /// A user left a room.
    pub fn presence_leave(room: &str, user: &str) -> Self {
        Self::of(
            Object::event("presence_leave")
                .with("room", room)
                .with("userId", user),
        )
    }

    /// The connection acts for a user until `expires`. `refreshed` if it did before.
    pub fn authenticated(
        user: Option<&str>,
        expires: Option<Timestamp>,
        refreshed: bool,
        reference: Option<&str>,
    ) -> Self {
        Self::of(
            Object::event("auth:authenticated")
                .with("userId", &user)
                .with("expiresAt", &expires)
                .maybe("refreshed", refreshed.then_some(&true))
                .maybe("ref", reference),
        )
    }

    /// The frame `auth` changed nothing.
    pub fn auth_error(error: AuthError, reference: Option<&str>) -> Self {
        Self::of(
            Object::event("auth:error")
                .with("code", error.as_str())
                .maybe("ref", reference),
        )
    }

    /// The token expires soon; the client refreshes it now.
    pub fn auth_expiring(expires: Timestamp) -> Self {
        Self::of(Object::event("auth:expiring").with("expiresAt", &expires))
    }

    /// The answer to `ping`.
    pub fn pong(reference: Option<&str>) -> Self {
        Self::of(Object::event("pong").maybe("ref", reference))
    }

    /// The server stops; the client connects anew after this many milliseconds.
    pub fn draining(reconnect_in_ms: u64) -> Self {
        Self::of(Object::event("draining").with("reconnectInMs", &reconnect_in_ms))
    }

    /// A frame of a room that is never stored: it has no offset. `from` is the sender of a relayed
    /// frame; `payload` is JSON.
    pub fn ephemeral(event: &str, room: &str, payload: &str, from: Option<&str>) -> Self {
        Self::of(
            Object::event(event)
                .with("room", room)
                .raw("payload", payload)
                .maybe("from", from),
        )
    }
}

/// The most bytes before the text of a frame.
const MOST_HEAD: usize = 10;
/// The first byte of a text message in one frame.
const TEXT: u8 = 0x81;

/// Writes the head of a frame of a server, which masks nothing: RFC 6455, section 5.2.
fn write_head(into: &mut Vec<u8>, length: usize) {
    into.push(TEXT);
    match (u8::try_from(length), u16::try_from(length)) {
        (Ok(short @ 0..=125), _) => into.push(short),
        (_, Ok(length)) => {
            into.push(126);
            into.extend_from_slice(&length.to_be_bytes());
        }
        _ => {
            into.push(127);
            into.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
}

/// `{"entity","id"}`
#[derive(Serialize)]
pub(super) struct Hidden<'a> {
    pub(super) entity: &'a str,
    pub(super) id: &'a str,
}

impl PresenceList<'_> {
    fn is_truncated(&self) -> bool {
        self.users.len() < self.count
    }
}

impl Serialize for PresenceList<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct List<'a> {
            users: Users<'a>,
            count: usize,
            truncated: bool,
        }
        List {
            users: Users(self.users),
            count: self.count,
            truncated: self.is_truncated(),
        }
        .serialize(serializer)
    }
}

struct Users<'a>(&'a [(String, Timestamp)]);

impl Serialize for Users<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct User<'a> {
            user_id: &'a str,
            since: Timestamp,
        }
        let mut list = serializer.serialize_seq(Some(self.0.len()))?;
        for (user_id, since) in self.0 {
            list.serialize_element(&User {
                user_id,
                since: *since,
            })?;
        }
        list.end()
    }
}

impl Serialize for AckId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => serializer.serialize_str(text),
            Self::Number(number) => serializer.serialize_i64(*number),
        }
    }
}

/// The sentence for people. The text of a fault of the server is for the log only.
fn sentence(error: &Error) -> &str {
    match error.code() {
        Code::Internal => "Internal error",
        _ => error.message(),
    }
}

/// Adds the code of an error, its details and the time to wait.
fn failure(object: Object, error: &Error) -> Object {
    #[derive(Serialize)]
    struct Detail<'a> {
        path: &'a str,
        code: &'a str,
        message: &'a str,
    }
    let details: Vec<Detail<'_>> = error
        .details()
        .iter()
        .map(|problem| Detail {
            path: &problem.path,
            code: problem.code,
            message: &problem.message,
        })
        .collect();
    let wait = error
        .retry_after_seconds()
        .map(|seconds| u64::from(seconds) * 1000);
    object
        .with("code", error.code().as_str())
        .maybe("details", (!details.is_empty()).then_some(&details))
        .maybe("retryAfterMs", wait.as_ref())
}
