//! A room as one node serves it: its members, and the frames that reach them.

mod passing;

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use linchpin::{Code, Timestamp};
use parking_lot::Mutex;

use super::carrier::Carrier;
use super::guards::{Guards, Tuples, Verdict, Verdicts};
use super::placed::Placed;
use super::stored::Passing;
use crate::channel::RoomName;
use crate::connection::{Class, Connection, flush_all};
use crate::engine::faults::{self, Fault};
use crate::engine::{self, Delivery, Stream};
use crate::protocol::{Position, ResetReason, ServerFrame};
use crate::sse;

/// The maximum number of frames that wait while a member joins. More of them cause a reset.
const MOST_HELD: usize = 1_000;

/// A room on this node.
pub(super) struct Live {
    pub(super) carrier: Carrier,
    /// The room as clients name it.
    pub(super) room: String,
    /// The id of the room's own record; `None` for collections.
    pub(super) record: Option<String>,
    pub(super) stream: Stream,
    pub(super) guards: Arc<Guards>,
    pub(super) clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    pub(super) members: Mutex<HashMap<Arc<str>, Member>>,
    /// The position up to which members were given frames; locked after `members`.
    pub(super) at: Mutex<Option<engine::Position>>,
    /// The values of the last member that has joined. Equal ones are shared.
    common: Mutex<Tuples>,
    /// The hasher of the users in [`Member::named`].
    hasher: RandomState,
}

pub(super) struct Member {
    pub(super) connection: Arc<Connection>,
    pub(super) tuples: Tuples,
    /// The number of the check that has found them; 0 for that of the join.
    pub(super) checked: u64,
    /// The frames that arrived while the member joins; `None` once it has joined.
    pub(super) held: Option<Held>,
    /// The position up to which it got everything when it joined. The subscription of the node may
    /// be behind it.
    pub(super) joined_at: Option<engine::Position>,
    /// The users of its presence snapshot, as hashes in ascending order, who neither came nor left
    /// since. Their arrival may still be on its way from the engine.
    named: Vec<u64>,
}

impl Member {
    fn is_of(&self, user: &str) -> bool {
        let identity = self.connection.identity();
        identity.is_some_and(|who| who.actor.id.as_deref() == Some(user))
    }

    /// Whether a change of presence says something that the member does not know: its snapshot
    /// may have shown the arrival of a user already.
    fn takes(&mut self, change: &Change) -> bool {
        match self.named.binary_search(&change.user) {
            Ok(at) => {
                self.named.remove(at);
                !change.came
            }
            Err(_) => true,
        }
    }
}

/// A user who came into a room or left it.
#[derive(Clone, Copy)]
struct Change {
    user: u64,
    came: bool,
}

#[derive(Default)]
pub(super) struct Held {
    frames: Vec<Arc<Placed>>,
    /// The frames that are never stored.
    passing: Vec<(ServerFrame, Class, Option<Change>)>,
    /// A reset, or too many frames: the member starts at this position, and `frames` come after
    /// it.
    reset: Option<(Position, ResetReason)>,
}

impl Held {
    pub(super) fn reset(&mut self, position: Position, reason: ResetReason) {
        self.frames.clear();
        self.reset = Some((position, reason));
    }
}

/// A subscription that the server ends, or checks again.
pub(super) struct Affected {
    pub(super) connection: Arc<Connection>,
    /// Why it ends; `None` if a change came with the join, so that the check of the join may have
    /// missed it.
    pub(super) code: Option<Code>,
}

impl Affected {
    /// What follows from an entry that a member was given, and that ends its subscription with
    /// `code`.
    fn of(connection: &Arc<Connection>, entry: &Placed, code: Option<Code>) -> Option<Self> {
        (code.is_some() || entry.asks).then(|| Self {
            connection: Arc::clone(connection),
            code,
        })
    }

    pub(super) fn again(connection: &Arc<Connection>) -> Self {
        Self {
            connection: Arc::clone(connection),
            code: None,
        }
    }

    /// A subscription whose join knew the position of an entry already.
    fn known(connection: &Arc<Connection>, entry: &Placed) -> Option<Self> {
        (entry.rechecks || entry.asks || entry.ends_room).then(|| Self::again(connection))
    }
}

impl Live {
    pub(super) fn new(
        carrier: Carrier,
        room: String,
        stream: Stream,
        guards: Arc<Guards>,
        clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    ) -> Self {
        let named = RoomName::parse(&room).ok();
        let record = named.filter(|_| carrier.record_of().is_some());
        Self {
            carrier,
            record: record.and_then(|name| Some(name.id?.into_owned())),
            room,
            stream,
            guards,
            clock,
            members: Mutex::default(),
            at: Mutex::default(),
            common: Mutex::new(Arc::from([])),
            hasher: RandomState::new(),
        }
    }

    /// Adds a member for whom frames wait until [`release`](Self::release).
    pub(super) fn hold(&self, connection: &Arc<Connection>, tuples: Tuples) {
        let member = Member {
            connection: Arc::clone(connection),
            tuples,
            checked: 0,
            held: Some(Held::default()),
            joined_at: None,
            named: Vec::new(),
        };
        self.members
            .lock()
            .insert(Arc::clone(connection.shared_id()), member);
    }

    /// Gives a member the waiting frames above `top`, and all later ones. Returns the subscriptions
    /// that end with them, or must be checked again.
    pub(super) fn release(
        &self,
        connection: &Arc<Connection>,
        top: engine::Position,
    ) -> Vec<Affected> {
        let mut due = Vec::new();
        let mut members = self.members.lock();
        let (mut affected, mut ends) = (Vec::new(), false);
        let Some(member) = members.get_mut(connection.id()) else {
            return affected;
        };
        let Some(held) = member.held.take() else {
            return affected;
        };
        for (frame, class, change) in held.passing {
            if change.is_none_or(|change| member.takes(&change)) {
                member.connection.push(frame, class);
            }
        }
        let reset = held.reset.is_some();
        member.joined_at = (!reset).then_some(top);
        if let Some((position, reason)) = held.reset {
            member.connection.send(self.reset_frame(&position, reason));
        }
        let mut verdicts = Verdicts::default();
        for placed in held.frames {
            let position = placed.position;
            let is_later = position.epoch == top.epoch && position.offset > top.offset;
            if reset || is_later {
                let code = self.deliver_to(member, &placed, &mut verdicts, &mut due);
                ends |= code.is_some();
                affected.extend(Affected::of(connection, &placed, code));
            } else {
                affected.extend(Affected::known(connection, &placed));
            }
            verdicts = Verdicts::default();
        }
        if ends {
            members.remove(connection.id());
        }
        drop(members);
        flush_all(&mut due);
        affected
    }

    /// Removes a member; returns whether it was one.
    pub(super) fn remove(&self, id: &str) -> bool {
        self.members.lock().remove(id).is_some()
    }

    /// Sets the values of a member that joins.
    pub(super) fn update(&self, id: &str, tuples: Tuples) {
        let tuples = self.share(tuples);
        if let Some(member) = self.members.lock().get_mut(id) {
            member.tuples = tuples;
        }
    }

    /// Equal values that are in memory already, instead of these.
    pub(super) fn share(&self, tuples: Tuples) -> Tuples {
        let mut common = self.common.lock();
        if *common != tuples {
            *common = tuples;
        }
        Arc::clone(&common)
    }

    /// Queues a delivery of the engine for the members. Returns the subscriptions that end with it;
    /// `due` are the connections to be flushed.
    pub(super) fn deliver(
        &self,
        delivery: Delivery,
        outbound_bytes: usize,
        due: &mut Vec<Arc<Connection>>,
    ) -> Vec<Affected> {
        match delivery {
            Delivery::Frame(frame) => self.frame(&self.place(&frame, outbound_bytes), due),
            Delivery::Message(message) => {
                match Passing::decode(&message) {
                    Some(passing) => self.forward(&passing, due),
                    // A newer version of the app, or another program, has written it.
                    None => faults::count(Fault::MessageUnreadable),
                }
                Vec::new()
            }
            Delivery::Reset { position, reason } => {
                let reason = match reason {
                    engine::ResetReason::EpochChanged => ResetReason::EpochChanged,
                    engine::ResetReason::HistoryUnavailable => ResetReason::HistoryUnavailable,
                };
                self.reset(&position, reason);
                Vec::new()
            }
        }
    }

    /// Queues the frames of an entry for the members. `due` are the connections to be flushed.
    fn frame(&self, placed: &Arc<Placed>, due: &mut Vec<Arc<Connection>>) -> Vec<Affected> {
        let mut verdicts = Verdicts::default();
        let mut affected = Vec::new();
        let mut members = self.members.lock();
        *self.at.lock() = Some(placed.position);
        members.retain(|_, member| {
            if let Some(held) = &mut member.held {
                if held.frames.len() < MOST_HELD {
                    held.frames.push(Arc::clone(placed));
                } else {
                    let position = shown_position(&placed.position);
                    held.reset(position, ResetReason::HistoryUnavailable);
                }
                return true;
            }
            let position = placed.position;
            let known = |top: engine::Position| {
                top.epoch == position.epoch && position.offset <= top.offset
            };
            if member.joined_at.is_some_and(known) {
                affected.extend(Affected::known(&member.connection, placed));
                return true;
            }
            let code = self.deliver_to(member, placed, &mut verdicts, due);
            let stays = code.is_none();
            affected.extend(Affected::of(&member.connection, placed, code));
            stays
        });
        affected
    }

    /// Gives a member its frames of an entry. Returns the code if the subscription ends with it.
    fn deliver_to(
        &self,
        member: &Member,
        placed: &Placed,
        verdicts: &mut Verdicts,
        due: &mut Vec<Arc<Connection>>,
    ) -> Option<Code> {
        let (verdict, frames) = self.shown(placed, &member.tuples, verdicts);
        if placed.rechecks && verdict != Verdict::Shown {
            return Some(Code::NotFound);
        }
        if frames.is_empty() || !placed.passes(self.carrier, &member.connection) {
            // A client that gets no frame of this entry still gets the position.
            member.connection.pass(shown_position(&placed.position));
            return placed.ends_room.then_some(Code::NotFound);
        }
        for frame in frames {
            queue(&member.connection, frame.clone(), Class::Durable, due);
        }
        placed.ends_room.then_some(Code::NotFound)
    }

    /// The frame that reports lost continuity.
    pub(super) fn reset_frame(&self, position: &Position, reason: ResetReason) -> ServerFrame {
        match self.carrier {
            Carrier::Channel(_) => ServerFrame::reset(&self.room, position, reason),
            Carrier::Endpoint(_) => sse::reset(position, reason),
        }
    }

    fn reset(&self, position: &engine::Position, reason: ResetReason) {
        let mut members = self.members.lock();
        *self.at.lock() = Some(*position);
        let position = shown_position(position);
        let frame = self.reset_frame(&position, reason);
        for member in members.values_mut() {
            match &mut member.held {
                Some(held) => held.reset(position.clone(), reason),
                None => {
                    member.connection.push(frame.clone(), Class::Durable);
                }
            }
        }
    }

    /// The presence snapshot of a member that joins names these users.
    pub(super) fn name<'a>(&self, id: &str, users: impl Iterator<Item = &'a str>) {
        let mut named: Vec<u64> = users.map(|user| self.hasher.hash_one(user)).collect();
        named.sort_unstable();
        if let Some(member) = self.members.lock().get_mut(id) {
            member.named = named;
        }
    }

    /// Forgets the users in the snapshots of members that have joined, because all earlier changes
    /// of presence have arrived by now.
    pub(super) fn forget_named(&self) {
        for member in self.members.lock().values_mut() {
            if member.held.is_none() {
                member.named = Vec::new();
            }
        }
    }
}

/// Puts a frame into the queue of a connection; `due` are the connections to be flushed.
fn queue(
    connection: &Arc<Connection>,
    frame: ServerFrame,
    class: Class,
    due: &mut Vec<Arc<Connection>>,
) {
    let (_, flush) = connection.enqueue(frame, class);
    if flush {
        due.push(Arc::clone(connection));
    }
}

/// A position as frames carry it.
pub(super) fn shown_position(position: &engine::Position) -> Position {
    Position::new(position.epoch.as_str(), position.offset)
}
