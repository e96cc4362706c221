//! Entries of a stream at their position, and the frames of them that each member gets.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use linchpin::{Actor, EntityEvent};

use super::carrier::Carrier;
use super::guards::{Subject, Tuples, Verdict, Verdicts};
use super::live::{Live, shown_position};
use super::origin::StoredEvent;
use super::stored::{About, StoredFrame};
use crate::connection::Connection;
use crate::engine;
use crate::protocol::{ServerFrame, UnplacedFrame};
use crate::sse::{self, UnplacedBlocks};

/// A durable frame at its position, ready for every member.
pub(super) struct Placed {
    pub(super) position: engine::Position,
    frames: Vec<ServerFrame>,
    hidden: Option<ServerFrame>,
    subject: Option<Subject>,
    /// The entity and the id of its record.
    pub(super) record: Option<(String, String)>,
    /// The event, for the filter of an endpoint.
    event: Option<EntityEvent>,
    /// The entry has no payload, because the endpoint does not list the event or the record has
    /// left the partition. It can only hide a record.
    unlisted: bool,
    /// No member gets it, because the conditions on its record cannot be evaluated.
    withheld: bool,
    /// The room's own record is gone.
    pub(super) ends_room: bool,
    /// The room's own record changed in a field that conditions read.
    pub(super) rechecks: bool,
    /// Such a field changed, and a gate leads to another record, so each member is checked again.
    pub(super) asks: bool,
}

/// The frames of entries that a caller gets when they are read again.
pub(super) struct Shown {
    pub(super) frames: Vec<ServerFrame>,
    /// Whether the last entry has a frame among them.
    pub(super) to_the_end: bool,
}

impl Placed {
    /// Whether the filter of the endpoint admits the event for a connection. A filter that panics
    /// withholds the event from this connection only. The filter sees listed events only: the frame
    /// that hides a record is sent without it.
    pub(super) fn passes(&self, carrier: Carrier, connection: &Connection) -> bool {
        let Carrier::Endpoint(endpoint) = carrier else {
            return true;
        };
        let Some(filter) = endpoint.filter else {
            return true;
        };
        if self.unlisted {
            return true;
        }
        // Without its event the filter cannot decide.
        let Some(event) = &self.event else {
            return false;
        };
        let identity = connection.identity();
        let anonymous;
        let actor = match &identity {
            Some(identity) => &*identity.actor,
            None => {
                anonymous = Actor::anonymous();
                &anonymous
            }
        };
        let admits = AssertUnwindSafe(|| (filter.admits)(actor, event));
        catch_unwind(admits).unwrap_or_else(|_| {
            connection.meter().filter_failed();
            let (function, path) = (filter.function, endpoint.path);
            tracing::error!(function, path, "the filter of an SSE endpoint has panicked");
            false
        })
    }
}

impl Live {
    /// Makes the frames of an entry of the stream, once for all members.
    pub(super) fn place(&self, frame: &engine::Frame, outbound_bytes: usize) -> Arc<Placed> {
        let mut placed = Placed {
            position: frame.position,
            frames: Vec::new(),
            hidden: None,
            subject: None,
            record: None,
            event: None,
            unlisted: false,
            withheld: false,
            ends_room: false,
            rechecks: false,
            asks: false,
        };
        let decoded = match self.carrier {
            Carrier::Channel(_) => StoredFrame::decode(&frame.data).map(|frame| (frame, None)),
            Carrier::Endpoint(_) => {
                StoredEvent::decode(&frame.data).map(|stored| (stored.frame, stored.origin))
            }
        };
        let (stored, origin) = match decoded {
            Ok(decoded) => decoded,
            Err(error) => {
                tracing::error!(%error, room = self.room, "a frame of a stream cannot be read");
                placed.withheld = true;
                return Arc::new(placed);
            }
        };
        placed.event = origin.and_then(|origin| origin.event(&stored));
        placed.frames = match self.carrier {
            Carrier::Channel(_) => self.frames(&stored, frame.position.offset, outbound_bytes),
            Carrier::Endpoint(_) => vec![blocks(&stored, &frame.position, outbound_bytes)],
        };
        if let Some(about) = stored.about {
            let of = self.carrier.record_of();
            let is_own = self.record.as_ref() == Some(&about.record);
            let of = of.filter(|of| is_own && about.entity == of.storage_name);
            placed.ends_room = of.is_some() && about.deleted;
            let changed = of.is_some() && !about.deleted && about.before.is_some();
            placed.unlisted = about.quiet || about.left;
            if about.quiet {
                placed.frames = Vec::new();
            }
            // A channel forwards no events of its own entity if the entity has gates.
            if of.is_some_and(|of| !of.gates.is_empty()) {
                placed.asks = changed;
            } else {
                placed.subject = self.guards.subject(&about);
                placed.withheld = placed.subject.is_none();
                placed.hidden = Some(self.hidden(&about, &frame.position));
                placed.rechecks = changed;
            }
            placed.record = Some((about.entity, about.record));
        }
        Arc::new(placed)
    }

    /// The frames of an entry for sockets: one for each name.
    fn frames(&self, stored: &StoredFrame, offset: u64, outbound_bytes: usize) -> Vec<ServerFrame> {
        let payload = stored.payload.get();
        let names = std::iter::once(&stored.event).chain(&stored.aliases);
        names
            .map(|event| {
                let unplaced = match &stored.about {
                    Some(about) if stored.is_left_out(outbound_bytes) => UnplacedFrame::truncated(
                        event,
                        &self.room,
                        (&about.entity, &about.record),
                        &stored.id,
                        &stored.at,
                    ),
                    _ => UnplacedFrame::new(event, &self.room, payload, &stored.id, &stored.at),
                };
                unplaced.at(offset)
            })
            .collect()
    }

    fn hidden(&self, about: &About, position: &engine::Position) -> ServerFrame {
        let (entity, record) = (&about.entity, &about.record);
        match self.carrier {
            Carrier::Channel(_) => ServerFrame::hidden(&self.room, entity, record, position.offset),
            Carrier::Endpoint(_) => sse::hidden(entity, record, &shown_position(position)),
        }
    }

    /// The frames of entries for one connection. If the last entry about a record does not show it,
    /// the earlier ones are withheld, so that a withdrawn record is not disclosed afterwards.
    pub(super) fn frames_for(
        &self,
        entries: &[Arc<Placed>],
        tuples: &Tuples,
        connection: &Connection,
    ) -> Shown {
        let mut seen: HashMap<&(String, String), Verdict> = HashMap::new();
        let mut shown: Vec<&[ServerFrame]> = Vec::with_capacity(entries.len());
        for placed in entries.iter().rev() {
            let (verdict, frames) = self.shown(placed, tuples, &mut Verdicts::default());
            let last = match &placed.record {
                Some(record) => *seen.entry(record).or_insert(verdict),
                None => verdict,
            };
            let withdrawn = last != Verdict::Shown && verdict == Verdict::Shown;
            let passes = !withdrawn && !frames.is_empty();
            let passes = passes && placed.passes(self.carrier, connection);
            shown.push(if passes { frames } else { &[] });
        }
        Shown {
            to_the_end: shown.first().is_none_or(|frames| !frames.is_empty()),
            frames: shown.into_iter().rev().flatten().cloned().collect(),
        }
    }

    pub(super) fn shown<'a>(
        &self,
        placed: &'a Placed,
        tuples: &Tuples,
        verdicts: &mut Verdicts,
    ) -> (Verdict, &'a [ServerFrame]) {
        if placed.withheld {
            return (Verdict::Withheld, &[]);
        }
        let verdict = match &placed.subject {
            None => Verdict::Shown,
            Some(subject) => verdicts.of(&self.guards, subject, tuples, || (self.clock)()),
        };
        let frames = match verdict {
            Verdict::Shown => &placed.frames[..],
            Verdict::Hidden => placed.hidden.as_slice(),
            Verdict::Withheld => &[],
        };
        (verdict, frames)
    }
}

/// The blocks of an entry for responses, in one piece.
fn blocks(stored: &StoredFrame, at: &engine::Position, outbound_bytes: usize) -> ServerFrame {
    let payload = stored.payload.get();
    let aliases: Vec<&str> = stored.aliases.iter().map(String::as_str).collect();
    let unplaced = match &stored.about {
        Some(about) if stored.is_left_out(outbound_bytes) => {
            UnplacedBlocks::truncated(&stored.event, &aliases, &about.entity, &about.record)
        }
        _ => UnplacedBlocks::new(&stored.event, &aliases, payload),
    };
    unplaced.at(&shown_position(at))
}
