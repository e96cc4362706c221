//! The stored form of frames: the data for clients, and the data with which the server decides
//! which clients get it.

use bytes::Bytes;
use linchpin::{Error, Result};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

/// A frame of a room or of an endpoint. An engine stores it as bytes and never reads it.
///
/// `about` never leaves the server.
#[derive(Debug, Serialize, Deserialize)]
pub struct StoredFrame {
    /// The name of the event on the wire.
    pub event: String,
    /// Further names. Clients get the event under each of them, too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<String>,
    /// The payload in the form that clients get.
    pub payload: Box<RawValue>,
    /// Whether the payload is omitted because it is too large. Clients then read the record.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// The id of the event.
    pub id: String,
    /// The time of the commit, in RFC 3339.
    pub at: String,
    /// The record that the event is about; absent for frames that code publishes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<About>,
}

/// The record of an event, for the check of each subscriber.
#[derive(Debug, Serialize, Deserialize)]
pub struct About {
    /// The storage name of its entity.
    pub entity: String,
    /// The id of the record.
    pub record: String,
    /// The fields that conditions read, by wire name: after the event, or before a deletion.
    pub state: Map<String, Value>,
    /// The same fields before an update, if it changed a field that a condition reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Map<String, Value>>,
    /// Whether the record is deleted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deleted: bool,
    /// Whether an update moved the record to another room. Callers who could see it before get
    /// `hidden`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub left: bool,
    /// Whether the declaration does not list the event. Callers who can still see the record get
    /// nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub quiet: bool,
}

impl StoredFrame {
    /// Whether clients get a reference to the record instead of the payload.
    pub(super) fn is_payload_omitted(&self, outbound_bytes: usize) -> bool {
        self.truncated || self.payload.get().len() > outbound_bytes
    }

    /// Encodes the frame for the engine.
    ///
    /// # Errors
    /// `internal`. It cannot occur, because strings and JSON can always be encoded.
    pub fn encode(&self) -> Result<Bytes> {
        serde_json::to_vec(self)
            .map(Bytes::from)
            .map_err(Error::internal)
    }

    /// Reads the bytes of an engine.
    ///
    /// # Errors
    /// `internal` for bytes that another program has written.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        serde_json::from_slice(bytes).map_err(Error::internal)
    }
}

/// A message that is passed to the members of a room and never stored.
// The enum is externally tagged, because serde cannot read `RawValue` in an internally tagged one.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum EphemeralMessage {
    /// A frame of a member or of code.
    Frame {
        event: String,
        payload: Box<RawValue>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from: Option<String>,
        /// The connection that does not get the frame.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        except: Option<String>,
    },
    /// A user arrived in the room.
    Join { user: String },
    /// A user left the room.
    Leave { user: String },
}

impl EphemeralMessage {
    pub(crate) fn encode(&self) -> Result<Bytes> {
        serde_json::to_vec(self)
            .map(Bytes::from)
            .map_err(Error::internal)
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok()
    }
}

/// The maximum length of a stream's name in bytes. Database indexes limit it.
const MAX_NAME_BYTES: usize = 1_024;

/// Returns the name of the stream of a room. `owners` is the partition of a collection: the values
/// of its tenant and scopes. It is empty for the room of a record. A name that would be too long
/// ends with a digest of the owners.
pub fn stream_name(room: &str, owners: &[Option<String>]) -> String {
    let mut name = room.to_owned();
    for owner in owners {
        name.push('|');
        match owner {
            None => name.push('-'),
            Some(text) => {
                name.push('=');
                // Escape the separator, so that one owner cannot look like two, and the zero byte,
                // which databases do not store.
                let text = text.replace('%', "%25").replace('|', "%7C");
                name.push_str(&text.replace('\0', "%00"));
            }
        }
    }
    if name.len() > MAX_NAME_BYTES && name.len() > room.len() {
        use std::fmt::Write as _;
        let digest = Sha256::digest(&name.as_bytes()[room.len()..]);
        name.truncate(room.len());
        // After `|`, every other name has `-` or `=`, never `#`.
        name.push_str("|#");
        for byte in digest {
            // Writing to a String cannot fail.
            let _ = write!(name, "{byte:02x}");
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_never_share_a_stream() {
        let some = |text: &str| Some(text.to_owned());
        let all = [
            vec![],
            vec![None],
            vec![some("")],
            vec![some("-")],
            vec![some("a|=b")],
            vec![some("a"), some("b")],
            vec![some("a%7C=b")],
            vec![None, some("a")],
            vec![some("a"), None],
            vec![some("a\0b")],
            vec![some("a%00b")],
            vec![some(&"x".repeat(5_000))],
            vec![some(&"x".repeat(5_001))],
            vec![some(&"x".repeat(2_500)), some(&"x".repeat(2_499))],
        ];
        let names: std::collections::HashSet<String> =
            all.iter().map(|owners| stream_name("r", owners)).collect();
        assert_eq!(names.len(), all.len());
        let room = "r".repeat(512);
        for name in all.iter().map(|owners| stream_name(&room, owners)) {
            assert!(
                name.len() <= MAX_NAME_BYTES && !name.contains('\0'),
                "{name}"
            );
        }
    }

    #[test]
    fn an_encoded_frame_decodes_unchanged() {
        let frame = StoredFrame {
            event: "tasks.created".to_owned(),
            aliases: vec!["task:new".to_owned()],
            payload: RawValue::from_string(r#"{"n": 1.0}"#.to_owned()).unwrap(),
            truncated: false,
            id: "e1".to_owned(),
            at: "2026-01-02T03:04:05.000Z".to_owned(),
            about: Some(About {
                entity: "tasks".to_owned(),
                record: "1".to_owned(),
                state: Map::new(),
                before: None,
                deleted: false,
                left: false,
                quiet: false,
            }),
        };
        let back = StoredFrame::decode(&frame.encode().unwrap()).unwrap();
        assert_eq!(back.payload.get(), r#"{"n": 1.0}"#);
        assert_eq!(back.about.unwrap().record, "1");
        assert!(StoredFrame::decode(b"{}").is_err());
    }

    #[test]
    fn an_encoded_message_decodes_unchanged() {
        let frame = EphemeralMessage::Frame {
            event: "typing".to_owned(),
            payload: RawValue::from_string(r#"{"n": 1.0}"#.to_owned()).unwrap(),
            from: Some("ada".to_owned()),
            except: None,
        };
        match EphemeralMessage::decode(&frame.encode().unwrap()) {
            Some(EphemeralMessage::Frame { payload, from, .. }) => {
                assert_eq!(
                    (payload.get(), from.as_deref()),
                    (r#"{"n": 1.0}"#, Some("ada"))
                );
            }
            other => panic!("{other:?}"),
        }
    }
}
