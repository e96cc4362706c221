//! Frames from clients, read strictly.

use linchpin::validate::Json;
use linchpin::{Error, Problem};

use super::Position;
use super::read::{
    Kind, Reader, ack, event_name, invalid, key, malformed, payload, recover, short_text, since,
    text_of, without_members,
};

/// A frame from a client.
///
/// ```
/// use linchpin_realtime::protocol::ClientFrame;
///
/// let frame = ClientFrame::parse(r#"{"action":"subscribe","room":"tasks:live","ref":"1"}"#);
/// assert!(matches!(frame, Ok(ClientFrame::Subscribe { room, .. }) if room == "tasks:live"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientFrame {
    /// Joins a room. A client that was in it before may send its position.
    Subscribe {
        /// The room's name, as the client wrote it.
        room: String,
        /// The position of the last frame that the client has.
        since: Option<Position>,
        /// The answer repeats it.
        reference: Option<String>,
    },
    /// Leaves a room.
    Unsubscribe {
        /// The room's name, as the client wrote it.
        room: String,
        /// The answer repeats it.
        reference: Option<String>,
    },
    /// Calls an operation or a handler, or is relayed to the members of a room.
    Event(Box<EventCall>),
    /// Joins several rooms, each from a position.
    Recover {
        /// The rooms with their positions, at least one.
        rooms: Vec<RecoverRoom>,
        /// The answer repeats it.
        reference: Option<String>,
    },
    /// Requests the users in a room.
    Presence {
        /// The room's name, as the client wrote it.
        room: String,
        /// The answer repeats it.
        reference: Option<String>,
    },
    /// Authenticates the connection, or refreshes its authentication.
    Auth {
        /// The token as the client wrote it; it may be empty.
        token: Token,
        /// The answer repeats it.
        reference: Option<String>,
    },
    /// Asks for `pong`.
    Ping {
        /// The answer repeats it.
        reference: Option<String>,
    },
}

/// An event from a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventCall {
    /// The event's name, at most 128 bytes.
    pub event: String,
    /// The payload as JSON text; `None` if it is absent or null.
    pub payload: Option<Box<str>>,
    /// The room that the event is for.
    pub room: Option<String>,
    /// If it is present, the event is answered by exactly one `ack`.
    pub ack_id: Option<AckId>,
    /// An idempotency key. An operation with `idempotent` runs once for each key. Other events with
    /// a key are refused.
    pub idempotency_key: Option<String>,
    /// The answer repeats it.
    pub reference: Option<String>,
}

/// A room of a `recover` frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecoverRoom {
    /// The room's name, as the client wrote it.
    pub room: String,
    /// The position of the last frame that the client has.
    pub since: Position,
}

/// The `ackId` of an event. The answer repeats it in the form that the client sent.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum AckId {
    /// 1 to 64 characters.
    Text(String),
    /// An integer.
    Number(i64),
}

/// A token. Its `Debug` hides the text.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// The text.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(..)")
    }
}

/// A frame that cannot be executed, with the members that its answer repeats.
#[derive(Debug)]
pub struct Refused {
    /// `malformed_json`, `invalid_frame` or `unknown_action`.
    pub error: Error,
    /// The `ackId` of an event, if it can be read. If so, the answer is an `ack`.
    pub ack_id: Option<AckId>,
    /// The name of the event or of the action, if it can be read.
    pub source_event: Option<String>,
    /// The `ref`, if it can be read.
    pub reference: Option<String>,
}

impl ClientFrame {
    /// Reads one text message: the bare text `ping`, or one JSON object.
    ///
    /// # Errors
    /// `malformed_json` for text that is not JSON, for duplicate keys, lone surrogates and nesting
    /// over 64. `unknown_action` for an unknown value of `action` or `type`. `invalid_frame` for
    /// unknown members, missing ones and values of a wrong form; the details name all of them.
    pub fn parse(text: &str) -> Result<Self, Box<Refused>> {
        if text == "ping" {
            return Ok(Self::Ping { reference: None });
        }
        let members = match Json::parse(text.as_bytes()) {
            Ok(Json::Object(members)) => members,
            Ok(_) => {
                return Err(Box::new(without_members(invalid(vec![Problem::new(
                    "",
                    "type",
                    "must be an object",
                )]))));
            }
            Err(error) => return Err(Box::new(without_members(malformed(&error)))),
        };
        let mut reader = Reader {
            members,
            problems: Vec::new(),
        };
        let reference = reader.optional("ref", short_text);
        let kind = match reader.kind() {
            Ok(kind) => kind,
            Err(error) => {
                return Err(Box::new(Refused {
                    error,
                    ack_id: None,
                    source_event: None,
                    reference,
                }));
            }
        };
        let mut ack_id = None;
        let mut source_event = Some(kind.name().to_owned());
        let frame = match kind {
            Kind::Subscribe => {
                let room = reader.required("room", text_of);
                let since = reader.optional("since", since);
                room.map(|room| Self::Subscribe {
                    room,
                    since,
                    reference: reference.clone(),
                })
            }
            Kind::Unsubscribe => reader
                .required("room", text_of)
                .map(|room| Self::Unsubscribe {
                    room,
                    reference: reference.clone(),
                }),
            Kind::Presence => reader.required("room", text_of).map(|room| Self::Presence {
                room,
                reference: reference.clone(),
            }),
            Kind::Event => {
                ack_id = reader.optional("ackId", ack);
                let event = reader.required("event", event_name);
                source_event.clone_from(&event);
                let room = reader.optional("room", text_of);
                let idempotency_key = reader.optional("idempotencyKey", key);
                reader.skip("payload");
                event.map(|event| {
                    Self::Event(Box::new(EventCall {
                        event,
                        payload: payload(text),
                        room,
                        ack_id: ack_id.clone(),
                        idempotency_key,
                        reference: reference.clone(),
                    }))
                })
            }
            Kind::Recover => reader
                .required("rooms", recover)
                .map(|rooms| Self::Recover {
                    rooms,
                    reference: reference.clone(),
                }),
            Kind::Auth => reader.required("token", text_of).map(|token| Self::Auth {
                token: Token(token),
                reference: reference.clone(),
            }),
            Kind::Ping => Some(Self::Ping {
                reference: reference.clone(),
            }),
        };
        match (frame, reader.finish()) {
            (Some(frame), Ok(())) => Ok(frame),
            (_, problems) => Err(Box::new(Refused {
                error: problems.err().unwrap_or_else(|| invalid(Vec::new())),
                ack_id,
                source_event,
                reference,
            })),
        }
    }
}
