//! The stored form of positions and frames.
//!
//! Each message of a stream's subject contains the whole state that the stream has after this
//! message: the position, the fences, and the sequence numbers of earlier frames. So an append
//! needs only the last message of a subject. It is atomic, because it succeeds only if this message
//! is still the last one.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use bytes::Bytes;
use linchpin::Timestamp;
use serde::{Deserialize, Serialize};

use crate::engine::{Epoch, EventId, Frame, Position};

/// The number of frames in a block. The message of its last frame lists the others.
pub(super) const BLOCK: u64 = 64;
/// The maximum number of blocks that a state lists.
const MAX_BLOCKS: usize = 1024;
/// The maximum length in bytes of the text before a frame.
const MAX_HEAD: usize = 128 * 1024;

/// The kind of a message. The first byte of the message is the letter of its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A frame was appended.
    Frame,
    /// The position is kept for longer, a fence is higher, or old frames were removed.
    Kept,
    /// A new epoch begins.
    Begun,
}

impl Kind {
    const fn letter(self) -> u8 {
        match self {
            Self::Frame => b'f',
            Self::Kept => b'k',
            Self::Begun => b'b',
        }
    }
}

/// A frame that an index lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Listed {
    /// The sequence number of its message.
    pub(super) seq: u64,
    /// The `short_hash` of its event.
    pub(super) short_hash: u32,
}

/// The message numbers of the frames of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Index {
    /// The sequence numbers of the last frames of blocks, the newest one last.
    pub(super) blocks: Vec<u64>,
    /// The frames after the newest whole block, the newest one last.
    pub(super) rest: Vec<Listed>,
}

impl Index {
    pub(super) fn push(&mut self, offset: u64, frame: Listed) {
        if offset.is_multiple_of(BLOCK) {
            self.rest.clear();
            self.blocks.push(frame.seq);
        } else {
            self.rest.push(frame);
        }
    }

    /// Removes blocks beyond the `kept` newest frames, once enough of them have accumulated.
    /// Returns the sequence number of the oldest message that is still needed.
    pub(super) fn trim(&mut self, kept: u32) -> Option<u64> {
        let kept = usize::try_from(u64::from(kept).div_ceil(BLOCK)).unwrap_or(MAX_BLOCKS) + 1;
        let kept = kept.min(MAX_BLOCKS - 4);
        if self.blocks.len() < kept + 4.max(kept / 4) && self.blocks.len() < MAX_BLOCKS {
            return None;
        }
        self.blocks.drain(..self.blocks.len() - kept);
        self.blocks.first().copied()
    }
}

/// The state of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct State {
    pub(super) top: Position,
    /// The event of the last frame of the epoch.
    pub(super) last: Option<EventId>,
    /// The time at which the position expires, in milliseconds.
    pub(super) expires: i64,
    /// The highest fence of each consumer.
    pub(super) fences: BTreeMap<String, u64>,
    pub(super) index: Index,
}

impl State {
    /// Begins a new epoch. Fences stay.
    pub(super) fn begin(fences: BTreeMap<String, u64>, expires: i64) -> Self {
        Self {
            top: Position {
                epoch: Epoch::random(),
                offset: 0,
            },
            last: None,
            expires,
            fences,
            index: Index::default(),
        }
    }
}

#[derive(Serialize, Deserialize)]
struct Head {
    epoch: String,
    offset: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    event: Option<String>,
    at: i64,
    expires: i64,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    fences: BTreeMap<String, u64>,
    /// The first number, and the differences of the others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    blocks: Vec<u64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    rest: Vec<u64>,
    #[serde(rename = "prints", default, skip_serializing_if = "String::is_empty")]
    short_hashes: String,
}

/// A stored message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) kind: Kind,
    /// The state after the message. The index of a frame does not list the frame itself, since its
    /// sequence number is not known before it is stored.
    pub(super) state: State,
    /// The time at which it was stored, in milliseconds.
    pub(super) at: i64,
    /// The data of a frame.
    pub(super) data: Bytes,
}

impl Record {
    pub(super) fn write(&self) -> Bytes {
        let state = &self.state;
        let rest = &state.index.rest;
        let short_hashes: Vec<u8> = rest
            .iter()
            .flat_map(|f| f.short_hash.to_be_bytes())
            .collect();
        let head = Head {
            epoch: state.top.epoch.as_str().to_owned(),
            offset: state.top.offset,
            event: state.last.as_ref().map(|event| event.as_str().to_owned()),
            at: self.at,
            expires: state.expires,
            fences: state.fences.clone(),
            blocks: differences(state.index.blocks.iter().copied()),
            rest: differences(rest.iter().map(|frame| frame.seq)),
            short_hashes: STANDARD_NO_PAD.encode(short_hashes),
        };
        let mut text = vec![self.kind.letter()];
        // Numbers and strings always have a JSON form.
        text.extend(serde_json::to_vec(&head).unwrap_or_default());
        text.push(b'\n');
        text.extend_from_slice(&self.data);
        text.into()
    }

    /// Reads a message. Returns `None` if it has another form.
    pub(super) fn read(text: &Bytes) -> Option<Self> {
        let (kind, head, data) = split(text)?;
        let head: Head = serde_json::from_slice(head).ok()?;
        let event = match head.event {
            Some(event) => Some(EventId::new(&event)?),
            None => None,
        };
        let short_hashes = STANDARD_NO_PAD.decode(head.short_hashes).ok()?;
        let (blocks, rest) = (sums(&head.blocks), sums(&head.rest));
        let is_consistent = short_hashes.len() == 4 * rest.len() && rest.len() < BLOCK as usize;
        let is_frame = kind == Kind::Frame;
        if !is_consistent
            || head.offset > 1 << 53
            || (is_frame && (event.is_none() || head.offset == 0))
        {
            return None;
        }
        let short_hashes = short_hashes.chunks_exact(4).map(|short_hash| {
            let bytes = <[u8; 4]>::try_from(short_hash).unwrap_or_default();
            u32::from_be_bytes(bytes)
        });
        let rest = rest.into_iter().zip(short_hashes);
        Some(Self {
            kind,
            state: State {
                top: Position {
                    epoch: head.epoch.parse().ok()?,
                    offset: head.offset,
                },
                last: event,
                expires: head.expires,
                fences: head.fences,
                index: Index {
                    blocks,
                    rest: rest
                        .map(|(seq, short_hash)| Listed { seq, short_hash })
                        .collect(),
                },
            },
            at: head.at,
            data,
        })
    }

    /// Returns the state after the message, which is stored under this number.
    pub(super) fn into_state(self, seq: u64) -> State {
        let mut state = self.state;
        if let (Kind::Frame, Some(event)) = (self.kind, &state.last) {
            let short_hash = short_hash(event);
            state
                .index
                .push(state.top.offset, Listed { seq, short_hash });
        }
        state
    }

    /// Returns the frame of the message, if it has one.
    pub(super) fn into_frame(self) -> Option<Frame> {
        if self.kind != Kind::Frame {
            return None;
        }
        Some(Frame {
            position: self.state.top,
            event: self.state.last?,
            data: self.data,
            at: Timestamp::from_millis(self.at),
        })
    }
}

/// Returns the kind of a message, the text before its frame, and the frame.
fn split(text: &Bytes) -> Option<(Kind, &[u8], Bytes)> {
    let kinds = [Kind::Frame, Kind::Kept, Kind::Begun];
    let first = text.first()?;
    let kind = kinds.into_iter().find(|kind| kind.letter() == *first)?;
    let searched = &text[..text.len().min(MAX_HEAD)];
    let end = searched.iter().position(|byte| *byte == b'\n')?;
    Some((kind, &text[1..end], text.slice(end + 1..)))
}

/// The parts that a node needs of a received message.
#[derive(Debug)]
pub(super) enum Received {
    Frame(Frame),
    Kept,
    Begun,
}

/// Reads a received message. Returns `None` if it has another form.
pub(super) fn read_received(text: &Bytes) -> Option<Received> {
    #[derive(Deserialize)]
    struct Top<'a> {
        epoch: &'a str,
        offset: u64,
        event: Option<&'a str>,
        at: i64,
    }
    let (kind, head, data) = split(text)?;
    let head: Top<'_> = serde_json::from_slice(head).ok()?;
    let epoch = head.epoch.parse().ok()?;
    Some(match kind {
        Kind::Kept => Received::Kept,
        Kind::Begun => Received::Begun,
        Kind::Frame => Received::Frame(Frame {
            position: Position {
                epoch,
                offset: head.offset,
            },
            event: EventId::new(head.event?)?,
            data,
            at: Timestamp::from_millis(head.at),
        }),
    })
}

/// Returns the first number, and the difference of each other number to the one before it.
fn differences(numbers: impl Iterator<Item = u64>) -> Vec<u64> {
    let mut last = 0_u64;
    numbers
        .map(|number| number.wrapping_sub(std::mem::replace(&mut last, number)))
        .collect()
}

/// Returns the numbers with these differences. It is the inverse of [`differences`].
fn sums(differences: &[u64]) -> Vec<u64> {
    let mut last = 0_u64;
    let sum = |difference: &u64| {
        last = last.wrapping_add(*difference);
        last
    };
    differences.iter().map(sum).collect()
}

/// A short hash of an event (FNV-1a), equal in every process.
pub(super) fn short_hash(event: &EventId) -> u32 {
    let hash = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = event.as_str().bytes().fold(0xcbf2_9ce4_8422_2325, hash);
    ((hash >> 32) ^ hash) as u32
}
