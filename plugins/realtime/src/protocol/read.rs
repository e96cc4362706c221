//! Reads the members of frames from clients, and collects their problems.

use std::borrow::Cow;

use linchpin::validate::Json;
use linchpin::{Code, Error, Problem};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{AckId, INVALID_FRAME, Position, RecoverRoom, Refused, UNKNOWN_ACTION};

/// The maximum length of `ref` and of a textual `ackId`, in characters.
const LONGEST_ID: usize = 64;
/// The maximum length of an event's name, in bytes.
const LONGEST_EVENT: usize = 128;
/// The maximum length of an idempotency key, in bytes.
const LONGEST_KEY: usize = 255;
/// The maximum number of rooms of one `recover`.
const MAX_ROOMS: usize = 1000;
/// The maximum number of problems in one answer.
const MAX_PROBLEMS: usize = 20;

/// Returns the refusal of a text without readable members.
pub(super) fn without_members(error: Error) -> Refused {
    Refused {
        error,
        ack_id: None,
        source_event: None,
        reference: None,
    }
}

pub(super) fn malformed(error: &Error) -> Error {
    let reason = error.message().split_once(": ").map_or("", |(_, why)| why);
    Error::new(
        Code::MalformedJson,
        format!("The frame is not one JSON object: {reason}"),
    )
}

pub(super) fn invalid(mut problems: Vec<Problem>) -> Error {
    problems.truncate(MAX_PROBLEMS);
    Error::new(INVALID_FRAME, "The frame is not valid").with_details(problems)
}

/// The kinds of frames.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Subscribe,
    Unsubscribe,
    Event,
    Recover,
    Presence,
    Ping,
    Auth,
}

impl Kind {
    const ALL: [Self; 7] = [
        Self::Subscribe,
        Self::Unsubscribe,
        Self::Event,
        Self::Recover,
        Self::Presence,
        Self::Ping,
        Self::Auth,
    ];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Subscribe => "subscribe",
            Self::Unsubscribe => "unsubscribe",
            Self::Event => "event",
            Self::Recover => "recover",
            Self::Presence => "presence",
            Self::Ping => "ping",
            Self::Auth => "auth",
        }
    }

    /// The member that names the kind.
    const fn member(self) -> &'static str {
        match self {
            Self::Auth => "type",
            _ => "action",
        }
    }
}

/// The members of a frame that are not read yet, and the problems found so far.
pub(super) struct Reader<'a> {
    pub(super) members: Vec<(Cow<'a, str>, Json<'a>)>,
    pub(super) problems: Vec<Problem>,
}

impl<'a> Reader<'a> {
    fn take(&mut self, name: &str) -> Option<Json<'a>> {
        let at = self.members.iter().position(|(key, _)| key == name)?;
        Some(self.members.swap_remove(at).1)
    }

    pub(super) fn skip(&mut self, name: &str) {
        self.take(name);
    }

    /// Reads `action`, or `type` of `auth`.
    pub(super) fn kind(&mut self) -> Result<Kind, Error> {
        let has_action = self.members.iter().any(|(key, _)| key == "action");
        let member = if has_action { "action" } else { "type" };
        let problem = |code, message| invalid(vec![Problem::new("action", code, message)]);
        match self.take(member) {
            None => Err(problem("required", "is required")),
            Some(Json::Text(name)) => Kind::ALL
                .into_iter()
                .find(|kind| kind.name() == name && kind.member() == member)
                .ok_or_else(|| {
                    let known: Vec<&str> = Kind::ALL
                        .iter()
                        .filter(|kind| kind.member() == "action")
                        .map(|kind| kind.name())
                        .collect();
                    Error::new(
                        UNKNOWN_ACTION,
                        format!(
                            "Unknown action; write one of {}, or `type: \"auth\"`",
                            known.join(", ")
                        ),
                    )
                }),
            Some(_) => Err(problem("type", "must be a string")),
        }
    }

    pub(super) fn required<T>(
        &mut self,
        name: &str,
        read: impl FnOnce(Json<'a>, &str) -> Result<T, Problem>,
    ) -> Option<T> {
        if let Some(value) = self.take(name) {
            return self.read(value, name, read);
        }
        self.problems
            .push(Problem::new(name, "required", "is required"));
        None
    }

    pub(super) fn optional<T>(
        &mut self,
        name: &str,
        read: impl FnOnce(Json<'a>, &str) -> Result<T, Problem>,
    ) -> Option<T> {
        let value = self.take(name)?;
        self.read(value, name, read)
    }

    fn read<T>(
        &mut self,
        value: Json<'a>,
        name: &str,
        read: impl FnOnce(Json<'a>, &str) -> Result<T, Problem>,
    ) -> Option<T> {
        read(value, name)
            .map_err(|problem| self.problems.push(problem))
            .ok()
    }

    pub(super) fn finish(mut self) -> Result<(), Error> {
        let unknown = self.members.iter().take(MAX_PROBLEMS);
        self.problems
            .extend(unknown.map(|(key, _)| unknown_member(key)));
        if self.problems.is_empty() {
            return Ok(());
        }
        self.problems.sort();
        Err(invalid(self.problems))
    }
}

pub(super) fn unknown_member(key: &str) -> Problem {
    let mut path: String = key.chars().take(LONGEST_ID).collect();
    if path.len() < key.len() {
        path.push('…');
    }
    Problem::new(path, "unknown_field", "is not a member of this frame")
}

pub(super) fn text_of(value: Json<'_>, at: &str) -> Result<String, Problem> {
    match value {
        Json::Text(text) => Ok(text.into_owned()),
        _ => Err(Problem::new(at, "type", "must be a string")),
    }
}

/// Reads a text whose length is 1 to `most`. `count` measures the length.
pub(super) fn bounded(
    value: Json<'_>,
    at: &str,
    most: usize,
    count: impl Fn(&str) -> usize,
) -> Result<String, Problem> {
    let text = text_of(value, at)?;
    match count(&text) {
        0 => Err(Problem::new(at, "min_length", "must not be empty")),
        n if n > most => Err(Problem::new(
            at,
            "max_length",
            format!("must have at most {most} characters"),
        )),
        _ => Ok(text),
    }
}

pub(super) fn short_text(value: Json<'_>, at: &str) -> Result<String, Problem> {
    // Stop counting early in a text that is far too long.
    bounded(value, at, LONGEST_ID, |text| {
        text.chars().take(LONGEST_ID + 1).count()
    })
}

pub(super) fn event_name(value: Json<'_>, at: &str) -> Result<String, Problem> {
    bounded(value, at, LONGEST_EVENT, str::len)
}

pub(super) fn key(value: Json<'_>, at: &str) -> Result<String, Problem> {
    let key = bounded(value, at, LONGEST_KEY, str::len)?;
    if key.bytes().all(|b| b.is_ascii_graphic()) {
        Ok(key)
    } else {
        Err(Problem::new(
            at,
            "format",
            "must consist of visible ASCII characters",
        ))
    }
}

pub(super) fn ack(value: Json<'_>, at: &str) -> Result<AckId, Problem> {
    match value {
        Json::Text(_) => short_text(value, at).map(AckId::Text),
        Json::Number(literal) => literal
            .parse()
            .map(AckId::Number)
            .map_err(|_| Problem::new(at, "type", "must be an integer of 64 bits, or a string")),
        _ => Err(Problem::new(at, "type", "must be a string or an integer")),
    }
}

pub(super) fn since(value: Json<'_>, at: &str) -> Result<Position, Problem> {
    let Json::Object(mut rest) = value else {
        return Err(Problem::new(at, "type", "must be an object"));
    };
    let position = position(&mut rest, at)?;
    no_other_members(&rest, at)?;
    Ok(position)
}

/// Reads `epoch` and `offset`, and removes them from an object's members.
pub(super) fn position<'a>(
    members: &mut Vec<(Cow<'a, str>, Json<'a>)>,
    at: &str,
) -> Result<Position, Problem> {
    let epoch = member(members, "epoch", at, |value, at| {
        bounded(value, at, Position::MAX_EPOCH, str::len)
    })?;
    let offset = member(members, "offset", at, |value, at| match value {
        // An offset that is too large for a number is above the top of every stream.
        Json::Number(literal) if literal.bytes().all(|b| b.is_ascii_digit()) => {
            Ok(literal.parse().unwrap_or(u64::MAX))
        }
        _ => Err(Problem::new(
            at,
            "type",
            "must be an integer of 0 or greater",
        )),
    })?;
    Ok(Position::new(epoch, offset))
}

pub(super) fn member<'a, T>(
    members: &mut Vec<(Cow<'a, str>, Json<'a>)>,
    name: &str,
    at: &str,
    read: impl FnOnce(Json<'a>, &str) -> Result<T, Problem>,
) -> Result<T, Problem> {
    let path = format!("{at}.{name}");
    match members.iter().position(|(key, _)| key == name) {
        Some(found) => read(members.swap_remove(found).1, &path),
        None => Err(Problem::new(path, "required", "is required")),
    }
}

pub(super) fn no_other_members(
    members: &[(Cow<'_, str>, Json<'_>)],
    at: &str,
) -> Result<(), Problem> {
    match members.first() {
        None => Ok(()),
        Some((key, _)) => {
            let mut problem = unknown_member(key);
            problem.path = format!("{at}.{}", problem.path);
            Err(problem)
        }
    }
}

pub(super) fn recover(value: Json<'_>, at: &str) -> Result<Vec<RecoverRoom>, Problem> {
    let Json::Array(list) = value else {
        return Err(Problem::new(at, "type", "must be a list"));
    };
    if list.is_empty() || list.len() > MAX_ROOMS {
        let (code, message) = if list.is_empty() {
            ("min_items", "must not be empty".to_owned())
        } else {
            ("max_items", format!("must name at most {MAX_ROOMS} rooms"))
        };
        return Err(Problem::new(at, code, message));
    }
    let rooms = list.into_iter().enumerate().map(|(i, item)| {
        let at = format!("{at}[{i}]");
        let Json::Object(mut rest) = item else {
            return Err(Problem::new(at, "type", "must be an object"));
        };
        let room = member(&mut rest, "room", &at, text_of)?;
        let since = position(&mut rest, &at)?;
        no_other_members(&rest, &at)?;
        Ok(RecoverRoom { room, since })
    });
    rooms.collect()
}

/// Returns the text of the member `payload` of a frame that has already been parsed.
pub(super) fn payload(text: &str) -> Option<Box<str>> {
    #[derive(Deserialize)]
    struct Frame<'a> {
        #[serde(borrow)]
        payload: Option<&'a RawValue>,
    }
    let frame: Frame<'_> = serde_json::from_str(text).ok()?;
    frame.payload.map(|payload| payload.get().into())
}
