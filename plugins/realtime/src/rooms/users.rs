//! The users of a node: their connections, and what counts against their limits.

use std::collections::HashMap;
use std::sync::Arc;

use linchpin::{Actor, ActorKind};
use tokio::time::Instant;

use super::Entry;
use crate::connection::{Limits, TokenBucket};

/// Rooms of a user whose relayed frames are counted, before those without recent ones are forgotten.
const MOST_RELAYS: usize = 200;

/// Whose limits a connection counts against. Another tenant may have a user with the same id, and a
/// program may be called like a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Who {
    id: Arc<str>,
    kind: ActorKind,
    tenant: Option<Arc<str>>,
}

impl Who {
    /// `None` for an actor without an id, such as an anonymous one.
    pub(super) fn of(actor: &Actor) -> Option<Self> {
        Some(Self {
            id: Arc::from(actor.id.as_deref()?),
            kind: actor.kind.clone(),
            tenant: actor.tenant_id.as_deref().map(Arc::from),
        })
    }
}

/// A user with its connections.
pub(super) struct User {
    /// The oldest first.
    pub(super) entries: Vec<Arc<Entry>>,
    pub(super) subscribes: TokenBucket,
    pub(super) relays: Relays,
}

impl User {
    fn new(limits: &Limits, now: Instant) -> Self {
        Self {
            entries: Vec::new(),
            subscribes: TokenBucket::new(limits.subscribes_per_minute, now),
            relays: Relays::default(),
        }
    }

    /// Whether nothing is lost if it is forgotten: it has no connection, and its limits are as
    /// those of a new one.
    fn is_idle(&mut self, limits: &Limits, now: Instant) -> bool {
        let most = limits.subscribes_per_minute;
        self.entries.is_empty()
            && self.subscribes.is_full(f64::from(most) / 60.0, most, now)
            && self.relays.are_full(now)
    }
}

/// The users of a node, by their ids.
#[derive(Default)]
pub(super) struct Users(HashMap<Arc<str>, Vec<(Who, User)>>);

impl Users {
    pub(super) fn get(&self, who: &Who) -> Option<&User> {
        let same = self.0.get(&who.id)?;
        same.iter().find(|(one, _)| one == who).map(|(_, of)| of)
    }

    pub(super) fn get_mut(&mut self, who: &Who) -> Option<&mut User> {
        let same = self.0.get_mut(&who.id)?;
        let found = same.iter_mut().find(|(one, _)| one == who);
        found.map(|(_, of)| of)
    }

    /// The user, as a new one if it is not known.
    pub(super) fn get_or_new(&mut self, who: &Who, limits: &Limits, now: Instant) -> &mut User {
        // Nearly always there is one. An empty list would take memory for four.
        let same = self.0.entry(Arc::clone(&who.id));
        let same = same.or_insert_with(|| Vec::with_capacity(1));
        let at = same.iter().position(|(one, _)| one == who);
        let at = at.unwrap_or_else(|| {
            same.push((who.clone(), User::new(limits, now)));
            same.len() - 1
        });
        &mut same[at].1
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The connections of all users with this id.
    pub(super) fn entries_of(&self, id: &str) -> Vec<Arc<Entry>> {
        let same = self.0.get(id).into_iter().flatten();
        same.flat_map(|(_, of)| of.entries.iter().cloned())
            .collect()
    }

    /// A connection has ended. Its user is forgotten with the last one, but not what counts
    /// against its limits: another connection would begin with full ones.
    pub(super) fn remove(&mut self, who: &Who, entry: &Arc<Entry>, limits: &Limits, now: Instant) {
        let Some(same) = self.0.get_mut(&who.id) else {
            return;
        };
        same.retain_mut(|(one, of)| {
            if one != who {
                return true;
            }
            of.entries.retain(|one| !Arc::ptr_eq(one, entry));
            !of.is_idle(limits, now)
        });
        if same.is_empty() {
            self.0.remove(&who.id);
        }
    }

    /// Forgets the users without connections whose limits are full again.
    pub(super) fn forget_idle(&mut self, limits: &Limits, now: Instant) {
        self.0.retain(|_, same| {
            same.retain_mut(|(_, of)| !of.is_idle(limits, now));
            !same.is_empty()
        });
    }
}

/// The limits of a caller: its relayed frames by variant and room, and its requests for presence by
/// room.
#[derive(Default)]
pub(super) struct Relays(HashMap<String, Relay>);

struct Relay {
    bucket: TokenBucket,
    per_second: f64,
    burst: u32,
}

impl Relay {
    fn is_full(&mut self, now: Instant) -> bool {
        self.bucket.is_full(self.per_second, self.burst, now)
    }
}

impl Relays {
    /// Counts a frame; `false` if there are too many.
    pub(super) fn take(&mut self, key: String, per_second: f64, burst: u32, now: Instant) -> bool {
        if self.0.len() > MOST_RELAYS {
            self.0.retain(|_, relay| !relay.is_full(now));
        }
        let relay = self.0.entry(key).or_insert_with(|| Relay {
            bucket: TokenBucket::new(burst, now),
            per_second,
            burst,
        });
        relay.bucket.take(per_second, burst, now)
    }

    fn are_full(&mut self, now: Instant) -> bool {
        self.0.values_mut().all(|relay| relay.is_full(now))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_slow_relay_is_not_forgotten_because_of_fast_ones() {
        let (mut relays, now) = (Relays::default(), Instant::now());
        // One frame per minute.
        assert!(relays.take("slow".to_owned(), 1.0 / 60.0, 1, now));
        for n in 0..=MOST_RELAYS {
            assert!(relays.take(format!("fast {n}"), 10.0, 10, now));
        }
        let later = now + Duration::from_secs(30);
        assert!(relays.take("fast again".to_owned(), 10.0, 10, later));
        assert!(relays.0.len() < 10, "full ones are forgotten");
        assert!(!relays.take("slow".to_owned(), 1.0 / 60.0, 1, later));
    }
}
