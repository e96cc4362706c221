//! Frames to clients. Their bytes are encoded once and shared.

use bytes::Bytes;
use linchpin::{Code, Error, Timestamp};
use serde::ser::SerializeSeq;
use serde::{Serialize, Serializer};

use super::write::Object;
use super::{AckId, Position};

/// A frame to clients. A clone shares the bytes, so that one frame can be in the queues of
/// thousands of sockets. The bytes include the header of the WebSocket frame, so it is encoded only
/// once too.
///
/// ```
/// use linchpin_realtime::protocol::ServerFrame;
///
/// assert_eq!(ServerFrame::pong(Some("7")).as_str(), r#"{"event":"pong","ref":"7"}"#);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerFrame {
    bytes: Bytes,
    /// The length of the WebSocket header in bytes; 0 for blocks of server-sent events.
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
    /// The position of the client: before the replayed frames if it was recovered, otherwise the
    /// top.
    pub position: &'a Position,
    /// Whether the room keeps a history.
    pub recoverable: bool,
    /// The number of replayed frames that follow, if the client's position was usable.
    pub recovered: Option<u64>,
    /// The reason why the client's position was not usable.
    pub reason: Option<ResetReason>,
    /// Whether the connection was in the room before.
    pub already: bool,
    /// The users in the room, if its channel has presence.
    pub presence: Option<PresenceList<'a>>,
    /// The `ref` of the frame that is answered.
    pub reference: Option<&'a str>,
}

/// The users in a room.
#[derive(Clone, Copy, Debug)]
pub struct PresenceList<'a> {
    /// The users who arrived first, with the time of their arrival.
    pub users: &'a [(String, Timestamp)],
    /// The number of all users.
    pub count: usize,
}

/// The reason why a client cannot resume from its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResetReason {
    /// The stream has lost its frames and has a new epoch.
    EpochChanged,
    /// The history does not reach back to the position, or the client missed too many frames.
    HistoryUnavailable,
    /// The position is above the top of the stream.
    OffsetAhead,
    /// The room keeps no history.
    NotRecoverable,
    /// The engine cannot read its streams now.
    PersistenceUnavailable,
    /// A check of the subscription failed.
    Unavailable,
    /// The events that the subscriber may see have changed.
    RightsChanged,
    /// The room was not joined.
    Denied,
}

impl ResetReason {
    /// Returns the reason in the form that frames carry.
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

/// The reason why a frame `auth` was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthError {
    /// The token is empty, unknown, expired or revoked.
    InvalidCredentials,
    /// The token belongs to another user or tenant, or the connection has joined rooms anonymously.
    IdentityAlreadyBound,
    /// The session store or the store of rate limits does not answer. The client may try again.
    Unavailable,
}

impl AuthError {
    /// Returns the code in the form that frames carry.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InvalidCredentials => "INVALID_CREDENTIALS",
            Self::IdentityAlreadyBound => "IDENTITY_ALREADY_BOUND",
            Self::Unavailable => "AUTH_UNAVAILABLE",
        }
    }
}

impl ServerFrame {
    fn from_object(object: Object) -> Self {
        Self::from_text(&object.close())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        // Both constructors accept only UTF-8.
        std::str::from_utf8(&self.bytes[usize::from(self.head)..]).unwrap_or_default()
    }

    /// The length of the text in bytes.
    pub fn len(&self) -> usize {
        self.bytes.len() - usize::from(self.head)
    }

    /// Whether the text is empty. A frame of this protocol is never empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Creates a frame from a text that another module has encoded.
    pub(crate) fn from_text(text: &str) -> Self {
        let mut bytes = Vec::with_capacity(MAX_HEAD + text.len());
        write_head(&mut bytes, text.len());
        let head = bytes.len();
        bytes.extend_from_slice(text.as_bytes());
        Self {
            bytes: bytes.into(),
            // At most `MAX_HEAD`.
            head: u8::try_from(head).unwrap_or_default(),
        }
    }

    /// Creates a frame from the blocks of a server-sent event, which have no WebSocket header.
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
        Self::from_object(
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
        Self::from_object(
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
        Self::from_object(
            Object::event("subscribe_denied")
                .with("room", room)
                .with("code", code.as_str())
                .maybe("ref", reference),
        )
    }

    /// The room is left. `code` is the reason if the server ended the subscription.
    pub fn unsubscribed(room: &str, code: Option<Code>, reference: Option<&str>) -> Self {
        Self::from_object(
            Object::event("unsubscribed")
                .with("room", room)
                .maybe("code", code.map(Code::as_str))
                .maybe("ref", reference),
        )
    }

    /// The client may have missed frames of the room. It reads the state again and continues from
    /// `position`.
    pub fn reset(room: &str, position: &Position, reason: ResetReason) -> Self {
        Self::from_object(
            Object::event("reset")
                .with("room", room)
                .with("epoch", &*position.epoch)
                .with("offset", &position.offset)
                .with("reason", reason.as_str()),
        )
    }

    /// A record is no longer visible to the subscriber. `offset` is the offset of the event that
    /// hid it.
    pub fn hidden(room: &str, entity: &str, id: &str, offset: u64) -> Self {
        Self::from_object(
            Object::event("hidden")
                .with("room", room)
                .with("payload", &RecordReference { entity, id })
                .with("offset", &offset),
        )
    }

    /// A room of `recover` was joined at its top instead, or not at all.
    pub fn recover_failed(room: &str, reason: ResetReason) -> Self {
        Self::from_object(
            Object::event("recover_failed")
                .with("room", room)
                .with("reason", reason.as_str()),
        )
    }

    /// The end of `recover`: the number of replayed frames, and the rooms that were recovered.
    pub fn recovered(replayed: u64, rooms: &[String], reference: Option<&str>) -> Self {
        Self::from_object(
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
        Self::from_object(
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
        Self::from_object(failure(object, error).maybe("ref", reference))
    }

    /// The answer to a frame that failed and has no other answer.
    pub fn error(error: &Error, source_event: Option<&str>, reference: Option<&str>) -> Self {
        let object = Object::event("ws:error").with("message", sentence(error));
        Self::from_object(
            failure(object, error)
                .maybe("sourceEvent", source_event)
                .maybe("ref", reference),
        )
    }

    /// The answer to a frame without `ackId` while the connection waits for authentication.
    pub fn unauthenticated(source_event: Option<&str>, reference: Option<&str>) -> Self {
        Self::from_object(
            Object::event("ws:error")
                .with("code", "UNAUTHENTICATED")
                .with("message", "Authenticate first: send a frame `auth`")
                .maybe("sourceEvent", source_event)
                .maybe("ref", reference),
        )
    }

    /// The users in a room, as the answer to `presence`.
    pub fn presence(room: &str, list: PresenceList<'_>, reference: Option<&str>) -> Self {
        Self::from_object(
            Object::event("presence")
                .with("room", room)
                .with("users", &Users(list.users))
                .with("count", &list.count)
                .with("truncated", &list.is_truncated())
                .maybe("ref", reference),
        )
    }

    /// A user entered a room.
    pub fn presence_join(room: &str, user: &str) -> Self {
        Self::from_object(
            Object::event("presence_join")
                .with("room", room)
                .with("userId", user),
        )
    }

    /// A user left a room.
    pub fn presence_leave(room: &str, user: &str) -> Self {
        Self::from_object(
            Object::event("presence_leave")
                .with("room", room)
                .with("userId", user),
        )
    }

    /// The connection acts for a user until `expires`. `refreshed` is set if the connection was
    /// already authenticated before this frame.
    pub fn authenticated(
        user: Option<&str>,
        expires: Option<Timestamp>,
        refreshed: bool,
        reference: Option<&str>,
    ) -> Self {
        Self::from_object(
            Object::event("auth:authenticated")
                .with("userId", &user)
                .with("expiresAt", &expires)
                .maybe("refreshed", refreshed.then_some(&true))
                .maybe("ref", reference),
        )
    }

    /// The frame `auth` was refused and changed nothing.
    pub fn auth_error(error: AuthError, reference: Option<&str>) -> Self {
        Self::from_object(
            Object::event("auth:error")
                .with("code", error.as_str())
                .maybe("ref", reference),
        )
    }

    /// The token expires soon; the client refreshes it now.
    pub fn auth_expiring(expires: Timestamp) -> Self {
        Self::from_object(Object::event("auth:expiring").with("expiresAt", &expires))
    }

    /// The answer to `ping`.
    pub fn pong(reference: Option<&str>) -> Self {
        Self::from_object(Object::event("pong").maybe("ref", reference))
    }

    /// The server stops. The client connects again after this many milliseconds.
    pub fn draining(reconnect_in_ms: u64) -> Self {
        Self::from_object(Object::event("draining").with("reconnectInMs", &reconnect_in_ms))
    }

    /// A frame of a room that is never stored: it has no offset. `from` is the sender of a relayed
    /// frame; `payload` is JSON.
    pub fn ephemeral(event: &str, room: &str, payload: &str, from: Option<&str>) -> Self {
        Self::from_object(
            Object::event(event)
                .with("room", room)
                .raw("payload", payload)
                .maybe("from", from),
        )
    }
}

/// The maximum number of bytes before the text of a frame.
const MAX_HEAD: usize = 10;
/// The first byte of a text message in one frame.
const TEXT: u8 = 0x81;

/// Writes the header of a server's frame, which is never masked: RFC 6455, section 5.2.
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

/// A record, as frames name it: `{"entity","id"}`.
#[derive(Serialize)]
pub(super) struct RecordReference<'a> {
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

/// Returns the message for people. The text of an internal error goes only to the log.
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
