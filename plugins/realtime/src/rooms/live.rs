//! A room on one node: its members, and the delivery of frames to them.

mod ephemeral;

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use linchpin::{Code, Timestamp};
use parking_lot::Mutex;

use super::carrier::Carrier;
use super::guards::{Guards, Tuples, Visibility, VisibilityCache};
use super::placed::Placed;
use super::stored::EphemeralMessage;
use crate::channel::RoomName;
use crate::connection::{Class, Connection, flush_all};
use crate::engine::faults::{self, Fault};
use crate::engine::{self, Delivery, Stream};
use crate::protocol::{Position, ResetReason, ServerFrame};
use crate::sse;

/// The maximum number of frames that are held while a member joins. More of them cause a reset.
const MAX_HELD: usize = 1_000;

/// A room on this node.
pub(super) struct Live {
    pub(super) carrier: Carrier,
    /// The name of the room for clients.
    pub(super) room: String,
    /// The id of the room's own record; `None` for collections.
    pub(super) record: Option<String>,
    pub(super) stream: Stream,
    pub(super) guards: Arc<Guards>,
    pub(super) clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    pub(super) members: Mutex<HashMap<Arc<str>, Member>>,
    /// The position up to which members have received frames. It is locked after `members`.
    pub(super) delivered: Mutex<Option<engine::Position>>,
    /// The values of the last member that has joined. Members with equal values share one copy.
    shared_tuples: Mutex<Tuples>,
    /// The hasher of the users in [`Member::snapshot_users`].
    hasher: RandomState,
}

pub(super) struct Member {
    pub(super) connection: Arc<Connection>,
    pub(super) tuples: Tuples,
    /// The number of the check that returned `tuples`; 0 for the check of the join.
    pub(super) checked: u64,
    /// The frames that arrived while the member joins; `None` once it has joined.
    pub(super) held: Option<Held>,
    /// The position up to which the join sent the frames. The node's subscription may not have
    /// reached it yet.
    pub(super) joined_at: Option<engine::Position>,
    /// The users of its presence snapshot who neither arrived nor left since, as hashes in
    /// ascending order. The engine may still deliver their arrival, which the member must not get
    /// twice.
    snapshot_users: Vec<u64>,
}

impl Member {
    fn is_user(&self, user: &str) -> bool {
        let identity = self.connection.identity();
        identity.is_some_and(|who| who.actor.id.as_deref() == Some(user))
    }

    /// Whether a change of presence is new for the member. Its snapshot may already contain a user
    /// who arrives. The change removes its user from `snapshot_users`.
    fn needs_change(&mut self, change: &PresenceChange) -> bool {
        match self.snapshot_users.binary_search(&change.user) {
            Ok(at) => {
                self.snapshot_users.remove(at);
                !change.arrived
            }
            Err(_) => true,
        }
    }
}

/// A user who arrived in a room or left it.
#[derive(Clone, Copy)]
struct PresenceChange {
    user: u64,
    arrived: bool,
}

#[derive(Default)]
pub(super) struct Held {
    frames: Vec<Arc<Placed>>,
    /// The frames that are never stored.
    ephemeral: Vec<(ServerFrame, Class, Option<PresenceChange>)>,
    /// Set after a reset, or if there were too many frames. The member starts at this position, and
    /// `frames` come after it.
    reset: Option<(Position, ResetReason)>,
}

impl Held {
    pub(super) fn reset(&mut self, position: Position, reason: ResetReason) {
        self.frames.clear();
        self.reset = Some((position, reason));
    }
}

/// A subscription that the server ends or checks again.
pub(super) struct Affected {
    pub(super) connection: Arc<Connection>,
    /// The reason why it ends; `None` if it is only checked again.
    pub(super) code: Option<Code>,
}

impl Affected {
    /// Returns the subscription of a member after the delivery of an entry, if it ends with `code`
    /// or has to be checked again.
    fn after_delivery(
        connection: &Arc<Connection>,
        entry: &Placed,
        code: Option<Code>,
    ) -> Option<Self> {
        (code.is_some() || entry.needs_recheck).then(|| Self {
            connection: Arc::clone(connection),
            code,
        })
    }

    pub(super) fn to_recheck(connection: &Arc<Connection>) -> Self {
        Self {
            connection: Arc::clone(connection),
            code: None,
        }
    }

    /// Returns the subscription of a member if it has to be checked again because of an entry that
    /// its join has already read.
    fn if_recheck_needed(connection: &Arc<Connection>, entry: &Placed) -> Option<Self> {
        (entry.own_record_changed || entry.needs_recheck || entry.ends_room)
            .then(|| Self::to_recheck(connection))
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
            delivered: Mutex::default(),
            shared_tuples: Mutex::new(Arc::from([])),
            hasher: RandomState::new(),
        }
    }

    /// Adds a member whose frames are held until [`release`](Self::release).
    pub(super) fn hold(&self, connection: &Arc<Connection>, tuples: Tuples) {
        let member = Member {
            connection: Arc::clone(connection),
            tuples,
            checked: 0,
            held: Some(Held::default()),
            joined_at: None,
            snapshot_users: Vec::new(),
        };
        self.members
            .lock()
            .insert(Arc::clone(connection.shared_id()), member);
    }

    /// Sends a member the held frames above `top`, and from now on all later ones. Returns the
    /// subscriptions that end with these frames or must be checked again.
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
        for (frame, class, change) in held.ephemeral {
            if change.is_none_or(|change| member.needs_change(&change)) {
                member.connection.push(frame, class);
            }
        }
        let reset = held.reset.is_some();
        member.joined_at = (!reset).then_some(top);
        if let Some((position, reason)) = held.reset {
            member.connection.send(self.reset_frame(&position, reason));
        }
        let mut cache = VisibilityCache::default();
        for placed in held.frames {
            let position = placed.position;
            let is_later = position.epoch == top.epoch && position.offset > top.offset;
            if reset || is_later {
                let code = self.deliver_to(member, &placed, &mut cache, &mut due);
                ends |= code.is_some();
                affected.extend(Affected::after_delivery(connection, &placed, code));
            } else {
                affected.extend(Affected::if_recheck_needed(connection, &placed));
            }
            cache = VisibilityCache::default();
        }
        if ends {
            members.remove(connection.id());
        }
        drop(members);
        flush_all(&mut due);
        affected
    }

    /// Removes a member. Returns whether it was in the room.
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

    /// Returns the shared copy if it is equal to these values. Otherwise shares these values and
    /// returns them.
    pub(super) fn share(&self, tuples: Tuples) -> Tuples {
        let mut shared_tuples = self.shared_tuples.lock();
        if *shared_tuples != tuples {
            *shared_tuples = tuples;
        }
        Arc::clone(&shared_tuples)
    }

    /// Queues a delivery of the engine for the members. Returns the subscriptions that end with it
    /// or must be checked again. Adds the connections to flush to `due`.
    pub(super) fn deliver(
        &self,
        delivery: Delivery,
        outbound_bytes: usize,
        due: &mut Vec<Arc<Connection>>,
    ) -> Vec<Affected> {
        match delivery {
            Delivery::Frame(frame) => self.deliver_frame(&self.place(&frame, outbound_bytes), due),
            Delivery::Message(message) => {
                match EphemeralMessage::decode(&message) {
                    Some(ephemeral) => self.forward(&ephemeral, due),
                    // A newer version of the app, or another program, has written the message.
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

    /// Queues the frames of an entry for the members. Adds the connections to flush to `due`.
    fn deliver_frame(&self, placed: &Arc<Placed>, due: &mut Vec<Arc<Connection>>) -> Vec<Affected> {
        let mut cache = VisibilityCache::default();
        let mut affected = Vec::new();
        let mut members = self.members.lock();
        *self.delivered.lock() = Some(placed.position);
        members.retain(|_, member| {
            if let Some(held) = &mut member.held {
                if held.frames.len() < MAX_HELD {
                    held.frames.push(Arc::clone(placed));
                } else {
                    let position = client_position(&placed.position);
                    held.reset(position, ResetReason::HistoryUnavailable);
                }
                return true;
            }
            let position = placed.position;
            let was_read = |top: engine::Position| {
                top.epoch == position.epoch && position.offset <= top.offset
            };
            if member.joined_at.is_some_and(was_read) {
                affected.extend(Affected::if_recheck_needed(&member.connection, placed));
                return true;
            }
            let code = self.deliver_to(member, placed, &mut cache, due);
            let stays = code.is_none();
            affected.extend(Affected::after_delivery(&member.connection, placed, code));
            stays
        });
        affected
    }

    /// Queues the frames of an entry for one member. Returns the code if its subscription ends.
    fn deliver_to(
        &self,
        member: &Member,
        placed: &Placed,
        cache: &mut VisibilityCache,
        due: &mut Vec<Arc<Connection>>,
    ) -> Option<Code> {
        let (visibility, frames) = self.visible_frames(placed, &member.tuples, cache);
        if placed.own_record_changed && visibility != Visibility::Shown {
            return Some(Code::NotFound);
        }
        if frames.is_empty() || !placed.passes(self.carrier, &member.connection) {
            // The client gets no frame of this entry. The next heartbeat of a response sends the
            // position instead.
            member.connection.skip_to(client_position(&placed.position));
            return placed.ends_room.then_some(Code::NotFound);
        }
        for frame in frames {
            queue(&member.connection, frame.clone(), Class::Durable, due);
        }
        placed.ends_room.then_some(Code::NotFound)
    }

    /// Returns the frame that reports a reset.
    pub(super) fn reset_frame(&self, position: &Position, reason: ResetReason) -> ServerFrame {
        match self.carrier {
            Carrier::Channel(_) => ServerFrame::reset(&self.room, position, reason),
            Carrier::Endpoint(_) => sse::reset(position, reason),
        }
    }

    fn reset(&self, position: &engine::Position, reason: ResetReason) {
        let mut members = self.members.lock();
        *self.delivered.lock() = Some(*position);
        let position = client_position(position);
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

    /// Records the users in the presence snapshot of a joining member.
    pub(super) fn set_snapshot_users<'a>(&self, id: &str, users: impl Iterator<Item = &'a str>) {
        let mut snapshot_users: Vec<u64> = users.map(|user| self.hasher.hash_one(user)).collect();
        snapshot_users.sort_unstable();
        if let Some(member) = self.members.lock().get_mut(id) {
            member.snapshot_users = snapshot_users;
        }
    }

    /// Forgets the users in the snapshots of members that have joined, because all earlier changes
    /// of presence have arrived by now.
    pub(super) fn forget_snapshot_users(&self) {
        for member in self.members.lock().values_mut() {
            if member.held.is_none() {
                member.snapshot_users = Vec::new();
            }
        }
    }
}

/// Puts a frame into the queue of a connection. Adds the connection to `due` if it must be flushed.
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

/// Returns a position in the form that frames carry.
pub(super) fn client_position(position: &engine::Position) -> Position {
    Position::new(position.epoch.as_str(), position.offset)
}
