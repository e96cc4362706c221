//! Events in the form in which a store keeps them.
//!
//! A row of the outbox holds events of one commit. A commit with many events has several rows. The
//! text of a row is `{"v":2,"events":[{..},{..}]}`. Rows of the first format have one event, and
//! the entity of that event in a separate column.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::value::RawValue;

use super::{ActorRef, EntityEvent, Payload, RecordRef};
use crate::{Timestamp, Uuid};

/// The format of the rows that this release writes.
const FORMAT: u32 = 2;
/// The maximum number of bytes of events in a row, unless one event alone has more.
const MAX_ROW_BYTES: usize = 128 << 10;

/// An event as a statement recorded it.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The event, which all consumers of this process share.
    pub event: Arc<EntityEvent>,
    /// Whether only consumers that need every record receive it.
    pub internal: bool,
    /// Whether the outbox stores it. If not, its consumers get it in process after the commit.
    pub stored: bool,
    /// See [`Entry::text`]. The payload of the event is a range of this text.
    pub(crate) text: Arc<str>,
}

/// Events of one commit, with the number of their row in the outbox.
#[derive(Clone, Debug)]
pub struct OutboxRow {
    /// The number of the row; 0 if the events are not stored.
    pub seq: i64,
    /// The events in the order of their statements.
    pub events: Vec<Entry>,
    /// The reason why the row cannot be read, if another program wrote it. `events` is empty then.
    pub unreadable: Option<String>,
    /// The approximate number of bytes that it takes in memory.
    pub bytes: usize,
}

/// The columns of a row of the outbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredText {
    /// The id of the first event.
    pub id: Uuid,
    /// The storage name of the entity; empty in a row of many events.
    pub entity: String,
    /// The key of the record; `None` in a row of many events.
    pub record: Option<String>,
    /// The time of the first event.
    pub at: Timestamp,
    /// The events as JSON.
    pub event: String,
}

/// The JSON of an event.
#[derive(serde::Deserialize)]
struct Stored<'a> {
    #[serde(default)]
    id: Option<Uuid>,
    #[serde(default)]
    entity: Option<String>,
    #[serde(default)]
    record: Option<String>,
    #[serde(default)]
    at: Option<i64>,
    name: String,
    route: String,
    actor: String,
    #[serde(rename = "actorId", default)]
    actor_id: Option<String>,
    #[serde(default)]
    tenant: Option<String>,
    request: String,
    /// `before` or `after`: whether the stored state is the one before or after the change. If
    /// `state` is missing, the stored state is the payload with the fields of `beyond`.
    #[serde(default)]
    of: Option<String>,
    #[serde(default)]
    version: Option<i64>,
    #[serde(default)]
    internal: bool,
    #[serde(rename = "ref", default)]
    reference: bool,
    #[serde(default)]
    keys: Vec<String>,
    /// One of three states: the fields that conditions of consumers read, if a reference replaces
    /// the payload; the states of many records; or, in rows of the first format, the payload and
    /// the other fields as one object.
    #[serde(borrow, default)]
    state: Option<&'a RawValue>,
    /// The fields beyond the payload that conditions of consumers read.
    #[serde(borrow, default)]
    beyond: Option<&'a RawValue>,
    #[serde(borrow, default)]
    before: Option<&'a RawValue>,
    #[serde(borrow)]
    payload: &'a RawValue,
}

/// The JSON of a row.
#[derive(serde::Deserialize)]
struct Group<'a> {
    v: u32,
    #[serde(borrow)]
    events: Vec<&'a RawValue>,
}

impl Entry {
    /// The JSON of the event, as the outbox stores it.
    pub fn text(&self) -> &str {
        &self.text
    }

    fn decode(text: &str, row: &StoredText) -> serde_json::Result<Self> {
        let stored: Stored<'_> = serde_json::from_str(text)?;
        let shared: Arc<str> = Arc::from(text);
        let range = |part: &RawValue| {
            // The parser borrowed the part from `text`.
            let start = part.get().as_ptr().addr() - text.as_ptr().addr();
            start..start + part.get().len()
        };
        let payload_range = range(stored.payload);
        let payload = Payload::within(&shared, payload_range.clone(), None);
        let state = match (stored.state, stored.beyond) {
            (Some(state), _) => Payload::within(&shared, range(state), None),
            (None, Some(beyond)) => Payload::within(&shared, payload_range, Some(range(beyond))),
            (None, None) => payload.clone(),
        };
        let (mut before, mut after) = (
            stored
                .before
                .map(|json| Payload::within(&shared, range(json), None)),
            None,
        );
        match stored.of.as_deref() {
            Some("before") => before = Some(state),
            Some(_) => after = Some(state),
            None => {}
        }
        let entity: Cow<'static, str> = Cow::Owned(stored.entity.unwrap_or(row.entity.clone()));
        let record_id = stored.record.or_else(|| row.record.clone());
        let payload_ref = record_id.clone().filter(|_| stored.reference);
        let event = EntityEvent {
            id: stored.id.unwrap_or_else(|| row.id.clone()),
            name: stored.name,
            payload_ref: payload_ref.map(|id| RecordRef {
                entity: entity.clone(),
                id,
            }),
            entity,
            route: Cow::Owned(stored.route),
            record_id,
            payload,
            before,
            after,
            actor: ActorRef {
                kind: stored.actor,
                id: stored.actor_id,
            },
            tenant_id: stored.tenant,
            request_id: stored.request,
            at: stored.at.map_or(row.at, Timestamp::from_millis),
            version: stored.version,
            keys: stored.keys,
        };
        Ok(Self {
            event: Arc::new(event),
            internal: stored.internal,
            stored: true,
            text: shared,
        })
    }
}

impl StoredText {
    /// Joins the stored events of a commit into rows, each with its entries. A row contains at most
    /// 128 KiB of events, or one larger event.
    pub fn of(entries: &[Entry]) -> Vec<(Self, Vec<Entry>)> {
        let mut rows: Vec<(Self, Vec<Entry>)> = Vec::new();
        for entry in entries.iter().filter(|entry| entry.stored) {
            match rows.last_mut() {
                Some((row, row_entries)) if row.event.len() + entry.text.len() <= MAX_ROW_BYTES => {
                    row.event.push(',');
                    row.event.push_str(&entry.text);
                    row_entries.push(entry.clone());
                }
                _ => {
                    let mut event = String::with_capacity(entry.text.len() + 32);
                    event.push_str("{\"v\":2,\"events\":[");
                    event.push_str(&entry.text);
                    let row = Self {
                        id: entry.event.id.clone(),
                        entity: String::new(),
                        record: None,
                        at: entry.event.at,
                        event,
                    };
                    rows.push((row, vec![entry.clone()]));
                }
            }
        }
        for (row, _) in &mut rows {
            row.event.push_str("]}");
        }
        rows
    }

    /// Reads the events of a row.
    pub fn decode(self, seq: i64) -> OutboxRow {
        let bytes = self.event.len();
        match self.events() {
            Ok(events) => OutboxRow {
                seq,
                events,
                unreadable: None,
                bytes,
            },
            Err(error) => OutboxRow {
                seq,
                events: Vec::new(),
                unreadable: Some(format!(
                    "the events of row {seq} cannot be read, because another program or a newer release has written to the outbox: {error}"
                )),
                bytes,
            },
        }
    }

    fn events(&self) -> Result<Vec<Entry>, String> {
        let one = |text: &str| Entry::decode(text, self).map_err(|error| error.to_string());
        if !self.entity.is_empty() {
            return Ok(vec![one(&self.event)?]);
        }
        let group: Group<'_> =
            serde_json::from_str(&self.event).map_err(|error| error.to_string())?;
        if group.v > FORMAT {
            return Err(format!(
                "they have format {}, which a newer release writes",
                group.v
            ));
        }
        group.events.iter().map(|event| one(event.get())).collect()
    }
}

impl OutboxRow {
    /// A row that this process has written.
    pub fn new(seq: i64, events: Vec<Entry>) -> Self {
        let bytes = events.iter().map(|entry| entry.text.len() + 256).sum();
        Self {
            seq,
            events,
            unreadable: None,
            bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn row(entity: &str, event: &str) -> OutboxRow {
        let row = StoredText {
            id: Uuid::parse("01890a5d-ac96-774b-bcce-b302099a8057").expect("an id"),
            entity: entity.to_owned(),
            record: Some("7".to_owned()).filter(|_| !entity.is_empty()),
            at: Timestamp::from_millis(5),
            event: event.to_owned(),
        };
        row.decode(3)
    }

    #[test]
    fn a_stored_row_of_the_first_format_can_be_read() {
        let text = r#"{"name":"posts.created","route":"create","actor":"user","actorId":"ann","request":"r","of":"after","version":2,"state":{"id":"7","secret":true},"payload":{"id":"7"}}"#;
        let row = row("posts", text);
        assert_eq!(row.unreadable, None);
        let event = &row.events[0].event;
        assert_eq!(event.id.as_str(), "01890a5d-ac96-774b-bcce-b302099a8057");
        assert_eq!(
            (
                event.entity.as_ref(),
                event.record_id.as_deref(),
                event.at.millis()
            ),
            ("posts", Some("7"), 5)
        );
        assert_eq!(event.payload, json!({"id": "7"}));
        assert_eq!(
            event.after.as_ref().map(Payload::value),
            Some(&json!({"id": "7", "secret": true}))
        );
        assert_eq!((event.version, &event.before), (Some(2), &None));
        // Without a separate state, the payload is the state.
        let text = r#"{"name":"n","route":"delete","actor":"system","request":"","of":"before","payload":{"id":"7"}}"#;
        let event = &self::row("posts", text).events[0].event;
        assert_eq!(event.before, Some(Payload::from(json!({"id": "7"}))));
        assert_eq!(event.after, None);
    }

    #[test]
    fn the_text_of_a_read_event_is_its_stored_json() {
        let text = r#"{"entity":"posts","record":"7","name":"posts.created","route":"create","actor":"user","request":"r","of":"after","beyond":{"secret":true},"before":{"id":"6"},"payload":{"id":"7"}}"#;
        for row in [
            row("", &format!(r#"{{"v":2,"events":[{text}]}}"#)),
            row("posts", text),
        ] {
            let entry = &row.events[0];
            assert_eq!(entry.text(), text);
            assert_eq!(entry.event.payload.text(), r#"{"id":"7"}"#);
            let after = json!({"id": "7", "secret": true});
            assert_eq!(entry.event.after, Some(Payload::from(after)));
            assert_eq!(entry.event.before, Some(Payload::from(json!({"id": "6"}))));
        }
    }

    #[test]
    fn an_unreadable_row_reports_the_reason() {
        for (entity, event, why) in [
            ("posts", "{}", "missing field"),
            ("", "[", "EOF"),
            (
                "",
                r#"{"v":3,"events":[]}"#,
                "they have format 3, which a newer release writes",
            ),
        ] {
            let row = row(entity, event);
            assert!(row.events.is_empty());
            let reason = row.unreadable.expect("unreadable");
            assert!(reason.contains(why) && reason.contains("row 3"), "{reason}");
        }
    }
}
