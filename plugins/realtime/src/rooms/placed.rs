//! Entries of a stream at their position, and the frames that each member gets for them.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use linchpin::{Actor, EntityEvent};

use super::carrier::Carrier;
use super::guards::{Subject, Tuples, Visibility, VisibilityCache};
use super::live::{Live, client_position};
use super::origin::StoredEvent;
use super::stored::{About, StoredFrame};
use crate::connection::Connection;
use crate::engine;
use crate::protocol::{ServerFrame, UnplacedFrame};
use crate::sse::{self, UnplacedBlocks};

/// A durable frame with its position, prepared for all members.
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
    /// No member gets a frame, because the entry cannot be read, or because the conditions on the
    /// record cannot be evaluated.
    withheld: bool,
    /// The room's own record was deleted, so the room ends.
    pub(super) ends_room: bool,
    /// The room's own record changed in a field that conditions read.
    pub(super) own_record_changed: bool,
    /// The room's own record changed in a field that conditions read, and its entity has gates.
    /// Each member is then checked again through the read route.
    pub(super) needs_recheck: bool,
}

/// The frames that a caller gets for the entries of a replay.
pub(super) struct Shown {
    pub(super) frames: Vec<ServerFrame>,
    /// Whether `frames` contains a frame of the last entry.
    pub(super) to_the_end: bool,
}

impl Placed {
    /// Whether the filter of the endpoint admits the event for a connection. A filter that panics
    /// withholds the event from this connection only. The filter runs only for listed events. A
    /// frame that hides a record is sent without a call of the filter.
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
        // Without the event, the filter cannot run.
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
    /// Encodes the frames of an entry of the stream once for all members.
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
            own_record_changed: false,
            needs_recheck: false,
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
                placed.needs_recheck = changed;
            } else {
                placed.subject = self.guards.subject(&about);
                placed.withheld = placed.subject.is_none();
                placed.hidden = Some(self.hidden(&about, &frame.position));
                placed.own_record_changed = changed;
            }
            placed.record = Some((about.entity, about.record));
        }
        Arc::new(placed)
    }

    /// Returns the frames of an entry for sockets: one for each name.
    fn frames(&self, stored: &StoredFrame, offset: u64, outbound_bytes: usize) -> Vec<ServerFrame> {
        let payload = stored.payload.get();
        let names = std::iter::once(&stored.event).chain(&stored.aliases);
        names
            .map(|event| {
                let unplaced = match &stored.about {
                    Some(about) if stored.is_payload_omitted(outbound_bytes) => {
                        UnplacedFrame::truncated(
                            event,
                            &self.room,
                            (&about.entity, &about.record),
                            &stored.id,
                            &stored.at,
                        )
                    }
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
            Carrier::Endpoint(_) => sse::hidden(entity, record, &client_position(position)),
        }
    }

    /// Returns the frames of entries for one connection. If the connection may not see the last
    /// entry about a record, it gets no earlier one either, so that a hidden record is not
    /// disclosed later.
    pub(super) fn frames_for(
        &self,
        entries: &[Arc<Placed>],
        tuples: &Tuples,
        connection: &Connection,
    ) -> Shown {
        let mut newest: HashMap<&(String, String), Visibility> = HashMap::new();
        let mut shown: Vec<&[ServerFrame]> = Vec::with_capacity(entries.len());
        for placed in entries.iter().rev() {
            let (visibility, frames) =
                self.visible_frames(placed, tuples, &mut VisibilityCache::default());
            let last = match &placed.record {
                Some(record) => *newest.entry(record).or_insert(visibility),
                None => visibility,
            };
            let withdrawn = last != Visibility::Shown && visibility == Visibility::Shown;
            let passes = !withdrawn && !frames.is_empty();
            let passes = passes && placed.passes(self.carrier, connection);
            shown.push(if passes { frames } else { &[] });
        }
        Shown {
            to_the_end: shown.first().is_none_or(|frames| !frames.is_empty()),
            frames: shown.into_iter().rev().flatten().cloned().collect(),
        }
    }

    /// Returns the visibility of an entry for a caller, and the frames that the caller gets.
    pub(super) fn visible_frames<'a>(
        &self,
        placed: &'a Placed,
        tuples: &Tuples,
        cache: &mut VisibilityCache,
    ) -> (Visibility, &'a [ServerFrame]) {
        if placed.withheld {
            return (Visibility::Withheld, &[]);
        }
        let visibility = match &placed.subject {
            None => Visibility::Shown,
            Some(subject) => cache.of(&self.guards, subject, tuples, || (self.clock)()),
        };
        let frames = match visibility {
            Visibility::Shown => &placed.frames[..],
            Visibility::Hidden => placed.hidden.as_slice(),
            Visibility::Withheld => &[],
        };
        (visibility, frames)
    }
}

/// Returns the blocks of an entry for responses as one frame.
fn blocks(stored: &StoredFrame, at: &engine::Position, outbound_bytes: usize) -> ServerFrame {
    let payload = stored.payload.get();
    let aliases: Vec<&str> = stored.aliases.iter().map(String::as_str).collect();
    let unplaced = match &stored.about {
        Some(about) if stored.is_payload_omitted(outbound_bytes) => {
            UnplacedBlocks::truncated(&stored.event, &aliases, &about.entity, &about.record)
        }
        _ => UnplacedBlocks::new(&stored.event, &aliases, payload),
    };
    unplaced.at(&client_position(at))
}
