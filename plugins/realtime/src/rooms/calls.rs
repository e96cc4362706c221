//! Events from clients: operations, handlers, and relayed frames.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use linchpin::http::{CredentialUse, RateLimit, RouteReply};
use linchpin::{Code, Error, Problem, Result};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use tokio::time::Instant;

use super::carrier::Carrier;
use super::stored::EphemeralMessage;
use super::users::Relays;
use super::{Entry, RoomHub};
use crate::channel::{
    ChannelDesc, Declared, Handle, Incoming, Mark, PayloadReader, RoomKey, RoomName, VariantDesc,
};
use crate::connection::{Connection, Outcome};
use crate::protocol::{EventCall, INVALID_ROOM, NOT_SUBSCRIBED, UNKNOWN_EVENT};

/// The readers of payloads, by the indexes of channel and variant.
pub(super) struct Readers(HashMap<(usize, usize), PayloadReader>);

impl Readers {
    pub(super) fn new(declared: &Declared) -> Result<Self> {
        let mut readers = HashMap::new();
        for (channel, desc) in declared.channels().iter().enumerate() {
            for (at, variant) in desc.variants.iter().enumerate() {
                if matches!(variant.mark, Mark::Relay { .. } | Mark::Handler { .. }) {
                    readers.insert((channel, at), PayloadReader::new(variant)?);
                }
            }
        }
        Ok(Self(readers))
    }
}

/// A client's event with its channel and variant.
struct Call<'a> {
    entry: &'a Arc<Entry>,
    frame: &'a EventCall,
    room: &'a str,
    id: Option<String>,
    channel: &'static ChannelDesc,
    variant: &'static VariantDesc,
    /// The indexes of channel and variant.
    at: (usize, usize),
}

impl RoomHub {
    /// Executes a client's event.
    pub(super) async fn call(
        &self,
        connection: &Arc<Connection>,
        call: &EventCall,
    ) -> Result<Outcome> {
        let entry = self.caller_of(connection)?;
        let invalid = || Error::new(INVALID_ROOM, "This is not a valid room name");
        let unknown = || Error::new(UNKNOWN_EVENT, "No channel takes this event from clients");
        let declared = &self.settings.declared;
        let Some(room) = call.room.as_deref() else {
            // Every event needs a room. Without one, report an unknown event name first.
            let mut channels = declared.channels().iter();
            let known = channels.any(|channel| channel.incoming(&call.event).is_some());
            return Err(if known { invalid() } else { unknown() });
        };
        let name = RoomName::parse(room).map_err(|_| invalid())?;
        let channel = declared
            .channel_of(&name)
            .filter(|channel| channel.endpoint == entry.endpoint)
            .ok_or_else(invalid)?;
        let mut channels = declared.channels().iter();
        let at = channels.position(|one| std::ptr::eq(*one, channel));
        let (variant_at, variant) = channel.incoming(&call.event).ok_or_else(unknown)?;
        let call = Call {
            entry: &entry,
            frame: call,
            room,
            id: name.id.as_deref().map(str::to_owned),
            channel,
            variant,
            at: (at.unwrap_or_default(), variant_at),
        };
        self.check_key(&call)?;
        match variant.mark {
            Mark::Relay { rate, echo } => self.relay(&call, rate, echo).await,
            Mark::Operation(incoming) => self.operation(&call, incoming).await,
            Mark::Handler { handle, .. } => self.handler(&call, handle).await,
            Mark::On(_) | Mark::Publish { .. } => Err(unknown()),
        }
    }

    /// Refuses an idempotency key that would have no effect. Otherwise the client could repeat the
    /// event and wrongly expect that it runs only once.
    ///
    /// # Errors
    /// `validation_failed`.
    fn check_key(&self, call: &Call<'_>) -> Result<()> {
        if call.frame.idempotency_key.is_none() {
            return Ok(());
        }
        if let Mark::Operation(incoming) = call.variant.mark
            && let (entity, name) = (incoming.entity, incoming.operation.name)
            && self.settings.caller.is_idempotent(entity, name)
        {
            return Ok(());
        }
        let text = "is not allowed: the event does not run an operation with `idempotent`";
        let problem = Problem::new("idempotencyKey", "not_allowed", text);
        Err(Error::invalid(problem))
    }

    /// Returns the payload of a relayed frame or of a handler, validated like a request body.
    fn payload(&self, call: &Call<'_>) -> Result<String> {
        let payload = call.frame.payload.as_deref().map(str::as_bytes);
        match self.readers.0.get(&call.at) {
            Some(reader) => reader.read(payload, (self.settings.clock)()),
            None => Ok("null".to_owned()),
        }
    }

    /// Passes a frame to the members of the room.
    async fn relay(&self, call: &Call<'_>, rate: Option<RateLimit>, echo: bool) -> Result<Outcome> {
        let connection = &call.entry.connection;
        let live = call.entry.state.lock().rooms.get(call.room).cloned();
        let live = live.ok_or_else(|| Error::new(NOT_SUBSCRIBED, "Join the room first"))?;
        self.take_relay(call, rate)?;
        let payload = self.payload(call)?;
        let identity = connection.identity();
        let names = std::iter::once(&call.variant.name).chain(call.variant.alias);
        for name in names {
            let ephemeral = EphemeralMessage::Frame {
                event: (*name).to_owned(),
                payload: RawValue::from_string(payload.clone()).map_err(Error::internal)?,
                from: identity.as_ref().and_then(|who| who.actor.id.clone()),
                except: (!echo).then(|| connection.id().to_owned()),
            };
            let message = ephemeral.encode()?;
            self.settings.engine.send(&live.stream, message).await?;
        }
        Ok(empty_outcome())
    }

    fn take_relay(&self, call: &Call<'_>, rate: Option<RateLimit>) -> Result<()> {
        let (burst, seconds) = match rate {
            Some(rate) => (rate.max, rate.window as f64 / 1000.0),
            None => (self.settings.limits.relays_per_second, 1.0),
        };
        let per_second = f64::from(burst) / seconds.max(0.001);
        self.take_frame(call.entry, call.variant.name, call.room, per_second, burst)
    }

    /// Counts a frame of one kind for a room against the limit of its user. An anonymous connection
    /// has its own limit.
    ///
    /// # Errors
    /// `rate_limited`.
    pub(super) fn take_frame(
        &self,
        entry: &Entry,
        kind: &str,
        room: &str,
        per_second: f64,
        burst: u32,
    ) -> Result<()> {
        let (key, now) = (format!("{kind}\n{room}"), Instant::now());
        let take = |relays: &mut Relays| relays.take(key, per_second, burst, now);
        let user = entry.state.lock().user.clone();
        let taken = match user {
            Some(user) => {
                let mut entries = self.entries.lock();
                let found = entries.users.get_mut(&user);
                found.is_none_or(|user| take(&mut user.relays))
            }
            None => take(&mut entry.state.lock().relays),
        };
        if taken {
            return Ok(());
        }
        Err(Error::new(Code::RateLimited, "Too many frames for this room").retry_after(1))
    }

    /// Runs an operation through the policy of its route.
    async fn operation(&self, call: &Call<'_>, incoming: Incoming) -> Result<Outcome> {
        let actor = self.actor(call.entry, CredentialUse::Activity).await?;
        let mut members = match call.frame.payload.as_deref() {
            None => Map::new(),
            Some(text) => match serde_json::from_str(text).map_err(Error::internal)? {
                Value::Object(members) => members,
                _ => {
                    let problem = Problem::new("", "type", "must be an object");
                    return Err(Error::invalid(problem));
                }
            },
        };
        let room_id = call.id.clone().unwrap_or_default();
        let id = match incoming.by {
            None => room_id,
            Some(by) => {
                let id = match members.remove("id") {
                    Some(Value::String(id)) => id,
                    Some(_) => {
                        let problem = Problem::new("id", "type", "must be a string");
                        return Err(Error::invalid(problem));
                    }
                    None => {
                        let problem = Problem::new("id", "required", "is required");
                        return Err(Error::invalid(problem));
                    }
                };
                // The record must belong to the room.
                let get = Self::request(call.entry, incoming.entity, "get", &actor)
                    .id(&id)
                    .uncounted();
                let reply = self.settings.caller.call(get).await?;
                if !reply.is_success() {
                    return Err(error_of(&reply));
                }
                let field = incoming.entity.fields[by].wire;
                let belongs = match &reply.json()?[field] {
                    Value::String(text) => *text == room_id,
                    Value::Number(number) => number.to_string() == room_id,
                    _ => false,
                };
                if !belongs {
                    return Err(Error::not_found());
                }
                id
            }
        };
        let mut request =
            Self::request(call.entry, incoming.entity, incoming.operation.name, &actor)
                .id(id)
                .members(members);
        if let Some(key) = &call.frame.idempotency_key {
            request = request.idempotency_key(key)?;
        }
        let reply = self.settings.caller.call(request).await?;
        if !reply.is_success() {
            return Err(error_of(&reply));
        }
        let result = std::str::from_utf8(&reply.body).map_err(Error::internal)?;
        Ok(Outcome {
            result: if result.is_empty() { "null" } else { result }.to_owned(),
            replayed: reply.is_replayed(),
        })
    }

    /// Runs a function of the app. The caller must be allowed to join the room.
    async fn handler(&self, call: &Call<'_>, handle: Handle) -> Result<Outcome> {
        let payload = self.payload(call)?;
        self.admit(
            call.entry,
            Carrier::Channel(call.channel),
            call.id.as_deref(),
        )
        .await?;
        let actor = self.actor(call.entry, CredentialUse::Activity).await?;
        let route = match call.id {
            Some(_) => "get",
            None => "list",
        };
        let request = Self::request(call.entry, call.channel.of, route, &actor).uncounted();
        let cx = self.settings.caller.admit(request).await?;
        let key = match &call.id {
            Some(id) => RoomKey::Record(id.clone()),
            None => RoomKey::Collection,
        };
        let result = handle(&cx, self.settings.rooms.clone(), key, &payload).await?;
        Ok(Outcome {
            result: result.to_string(),
            replayed: false,
        })
    }
}

fn empty_outcome() -> Outcome {
    Outcome {
        result: "null".to_owned(),
        replayed: false,
    }
}

/// Returns the error of a route that refused a call.
fn error_of(reply: &RouteReply) -> Error {
    #[derive(Deserialize)]
    struct Body {
        error: String,
        code: String,
        #[serde(default)]
        details: Vec<Detail>,
    }
    #[derive(Deserialize)]
    struct Detail {
        path: String,
        code: String,
        message: String,
    }
    let Ok(body) = serde_json::from_slice::<Body>(&reply.body) else {
        return Error::internal(format!("a route answered {} without a body", reply.status));
    };
    let details = body.details.into_iter().map(|detail| {
        let code = static_code(&detail.code);
        Problem::new(detail.path, code, detail.message)
    });
    let details = details.collect();
    let error = Error::new(code_of(reply.status, &body.code), body.error).with_details(details);
    let wait = reply.headers.get("retry-after");
    match wait.and_then(|value| value.to_str().ok()?.parse().ok()) {
        Some(seconds) => error.retry_after(seconds),
        None => error,
    }
}

/// Returns the error code with this text.
fn code_of(status: u16, text: &str) -> Code {
    match text {
        "unauthorized" => Code::Unauthorized,
        "forbidden" => Code::Forbidden,
        "not_found" => Code::NotFound,
        "validation_failed" => Code::ValidationFailed,
        "rate_limited" => Code::RateLimited,
        "timeout" => Code::Timeout,
        "internal" => Code::Internal,
        "unavailable" => Code::Unavailable,
        other => Code::Other(status, static_code(other)),
    }
}

/// Returns an equal text with static lifetime. Codes are constants of the app, so there are few of
/// them.
fn static_code(code: &str) -> &'static str {
    static KNOWN: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut all = KNOWN.lock();
    if let Some(found) = all.get(code) {
        return found;
    }
    let kept: &'static str = Box::leak(code.to_owned().into_boxed_str());
    all.insert(kept);
    kept
}
