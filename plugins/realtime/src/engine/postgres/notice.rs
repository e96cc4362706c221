//! The payloads that nodes send to each other with NOTIFY.
//!
//! The first line of a payload makes it unique, because the server drops a payload that is sent
//! twice in one transaction. Each further line is one notice.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::engine::{NodeId, Stream};

/// The maximum length of a payload in bytes. The server accepts less than 8000 bytes.
const MAX_PAYLOAD: usize = 7900;
/// The maximum length in bytes of a message within a payload. A longer one is stored in a table.
pub(super) const INLINE: usize = 4096;

/// The hash of a stream's name, which identifies the stream in notices. A collision only causes a
/// needless read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Tag(u64);

impl Tag {
    pub(super) fn of(stream: &Stream) -> Self {
        // FNV-1a, because its result is equal on every node.
        let fold = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        Self(stream.name().bytes().fold(0xcbf2_9ce4_8422_2325, fold))
    }

    fn encode(self) -> String {
        URL_SAFE_NO_PAD.encode(self.0.to_be_bytes())
    }

    fn decode(text: &str) -> Option<Self> {
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        Some(Self(u64::from_be_bytes(bytes.try_into().ok()?)))
    }
}

/// The content of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Body {
    Inline(Vec<u8>),
    /// The id of the row that holds the message.
    Stored(i64),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Notice {
    /// Frames were appended, or the epoch was replaced.
    Changed(Tag),
    /// A message to the subscribers of a stream. It has the whole name of the stream, because two
    /// streams may have the same tag.
    Message(String, Body),
    /// A control message, for one node or for all nodes.
    Control(Option<NodeId>, Body),
    /// All streams have new epochs.
    Renewed,
    /// A notice without content. It shows the listeners that their connection works.
    Alive,
}

impl Body {
    fn encode(&self) -> String {
        match self {
            Self::Inline(bytes) => format!("={}", STANDARD_NO_PAD.encode(bytes)),
            Self::Stored(row) => row.to_string(),
        }
    }

    fn decode(text: &str) -> Option<Self> {
        match text.strip_prefix('=') {
            Some(bytes) => STANDARD_NO_PAD.decode(bytes).ok().map(Self::Inline),
            None => text.parse().ok().map(Self::Stored),
        }
    }
}

impl Notice {
    fn encode(&self) -> String {
        match self {
            Self::Changed(tag) => format!("f {}", tag.encode()),
            Self::Message(stream, body) => {
                format!("m {} {}", STANDARD_NO_PAD.encode(stream), body.encode())
            }
            Self::Control(None, body) => format!("c * {}", body.encode()),
            Self::Control(Some(node), body) => format!("c {node} {}", body.encode()),
            Self::Renewed => "r".to_owned(),
            Self::Alive => "a".to_owned(),
        }
    }

    fn decode(line: &str) -> Option<Self> {
        let mut words = line.split(' ');
        let kind = words.next()?;
        match kind {
            "a" => return Some(Self::Alive),
            "r" => return Some(Self::Renewed),
            _ => {}
        }
        let to = words.next()?;
        let body = words.next().map(Body::decode);
        match (kind, body) {
            ("f", None) => Some(Self::Changed(Tag::decode(to)?)),
            ("m", Some(body)) => {
                let name = STANDARD_NO_PAD.decode(to).ok()?;
                Some(Self::Message(String::from_utf8(name).ok()?, body?))
            }
            ("c", Some(body)) if to == "*" => Some(Self::Control(None, body?)),
            ("c", Some(body)) => Some(Self::Control(Some(to.parse().ok()?), body?)),
            _ => None,
        }
    }
}

/// Packs notices into as few payloads as possible. `next` numbers the payloads of a node.
pub(super) fn encode(node: NodeId, next: &mut u64, notices: &[Notice]) -> Vec<String> {
    let mut texts: Vec<String> = Vec::new();
    for notice in notices {
        let line = notice.encode();
        match texts.last_mut() {
            Some(text) if text.len() + 1 + line.len() <= MAX_PAYLOAD => {
                let _ = write!(text, "\n{line}");
            }
            _ => {
                *next += 1;
                texts.push(format!("{node} {next}\n{line}"));
            }
        }
    }
    texts
}

/// Returns the notices of a payload. Notices that only a newer version knows are skipped.
pub(super) fn decode(text: &str) -> impl Iterator<Item = Notice> {
    text.lines().skip(1).filter_map(Notice::decode)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_notices_decode_unchanged_and_fit_into_payloads() {
        let node = NodeId::random();
        let stream = || "tasks:1 é:live".to_owned();
        let mut notices = vec![
            Notice::Alive,
            Notice::Renewed,
            Notice::Message(stream(), Body::Inline(vec![0, 255, b'\n', b' '])),
            Notice::Message(stream(), Body::Inline(Vec::new())),
            Notice::Message(stream(), Body::Stored(7)),
            Notice::Control(None, Body::Inline(vec![1; INLINE])),
            Notice::Control(Some(node), Body::Inline(vec![2; INLINE])),
        ];
        notices.extend((0..2000).map(|n| Notice::Changed(Tag(n))));
        let mut next = 0;
        let texts = encode(node, &mut next, &notices);
        assert_eq!(next, texts.len() as u64);
        assert!(texts.iter().all(|text| text.len() <= MAX_PAYLOAD));
        let read: Vec<Notice> = texts.iter().flat_map(|text| decode(text)).collect();
        assert_eq!(read, notices);
    }

    #[test]
    fn notices_of_newer_versions_are_skipped() {
        let read: Vec<Notice> = decode("node 1\nz x y\nf ???\n\nm a\na").collect();
        assert_eq!(read, [Notice::Alive]);
    }
}
