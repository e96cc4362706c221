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
    /// The further names under which clients get it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<String>,
    /// The payload in the form that clients get.
    pub payload: Box<RawValue>,
    /// Whether the payload is left out, because it is too large: clients read the record.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// The id of the event.
    pub id: String,
    /// The instant of the commit, RFC 3339.
    pub at: String,
    /// The record that the event is about; absent for what code publishes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<About>,
}

/// The record of an event, for the check of each subscriber.
#[derive(Debug, Serialize, Deserialize)]
pub struct About {
    /// The storage name of its entity.
    pub entity: String,
    /// Its id.
    pub record: String,
    /// The fields that conditions read, by wire name: after the event, or before a deletion.
    pub state: Map<String, Value>,
    /// The same before an update, if it changed a field that a condition reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Map<String, Value>>,
    /// Whether the record is deleted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deleted: bool,
    /// Whether an update moved the record to another room. Callers that saw it before get `hidden`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub left: bool,
    /// Whether the event is not listed. Callers that see the record get nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub quiet: bool,
}

impl StoredFrame {
    /// Whether clients get a reference to the record instead of the payload.
    pub(super) fn is_left_out(&self, outbound_bytes: usize) -> bool {
        self.truncated || self.payload.get().len() > outbound_bytes
    }

    /// The bytes for the engine.
    ///
    /// # Errors
    /// `internal`, which texts and JSON rule out.
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
// Without a tag inside: JSON text as it is cannot be read behind one.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Passing {
    /// A frame of a member or of code.
    Frame {
        event: String,
        payload: Box<RawValue>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from: Option<String>,
        /// The connection that does not get it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        except: Option<String>,
    },
    /// A user came.
    Join { user: String },
    /// A user left.
    Leave { user: String },
}

impl Passing {
    pub(crate) fn encode(&self) -> Result<Bytes> {
        serde_json::to_vec(self)
            .map(Bytes::from)
            .map_err(Error::internal)
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok()
    }
}

/// The longest name of a stream in bytes. Engines have it in an index.
const LONGEST: usize = 1_024;

/// The name of the stream of a room. `owners` is the partition of a collection: the texts of its
/// tenant and scopes; empty for the room of a record. A name that would be too long ends with a
/// digest of the owners.
pub fn stream_name(room: &str, owners: &[Option<String>]) -> String {
    let mut name = room.to_owned();
    for owner in owners {
        name.push('|');
        match owner {
            None => name.push('-'),
            Some(text) => {
                name.push('=');
                // A text with the separator must not look like two owners, and databases store no
                // zero byte.
                let text = text.replace('%', "%25").replace('|', "%7C");
                name.push_str(&text.replace('\0', "%00"));
            }
        }
    }
    if name.len() > LONGEST && name.len() > room.len() {
        use std::fmt::Write as _;
        let digest = Sha256::digest(&name.as_bytes()[room.len()..]);
        name.truncate(room.len());
        // Owners begin with another sign.
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
            assert!(name.len() <= LONGEST && !name.contains('\0'), "{name}");
        }
    }

    #[test]
    fn a_frame_is_read_as_it_was_written() {
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
    fn a_passing_frame_is_read_as_it_was_written() {
        let frame = Passing::Frame {
            event: "typing".to_owned(),
            payload: RawValue::from_string(r#"{"n": 1.0}"#.to_owned()).unwrap(),
            from: Some("ada".to_owned()),
            except: None,
        };
        match Passing::decode(&frame.encode().unwrap()) {
            Some(Passing::Frame { payload, from, .. }) => {
                assert_eq!(
                    (payload.get(), from.as_deref()),
                    (r#"{"n": 1.0}"#, Some("ada"))
                );
            }
            other => panic!("{other:?}"),
        }
    }
}
