//! The users of a node: their connections, and the use of their limits.

use std::collections::HashMap;
use std::sync::Arc;

use linchpin::{Actor, ActorKind};
use tokio::time::Instant;

use super::Entry;
use crate::connection::{Limits, TokenBucket};

/// The number of counted rooms of a user above which rooms without recent relayed frames are
/// forgotten.
const MAX_RELAYS: usize = 200;

/// The caller under whose limits a connection is counted. The id is not enough: a user of another
/// tenant, or a program, may have the same id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct UserKey {
    id: Arc<str>,
    kind: ActorKind,
    tenant: Option<Arc<str>>,
}

impl UserKey {
    /// Returns `None` for an actor without an id, such as an anonymous one.
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
    /// The connections, the oldest first.
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

    /// Whether the user can be forgotten: it has no connection, and its limits equal those of a new
    /// user.
    fn is_idle(&mut self, limits: &Limits, now: Instant) -> bool {
        let most = limits.subscribes_per_minute;
        self.entries.is_empty()
            && self.subscribes.is_full(f64::from(most) / 60.0, most, now)
            && self.relays.are_full(now)
    }
}

/// The users of a node, by their ids.
#[derive(Default)]
pub(super) struct Users(HashMap<Arc<str>, Vec<(UserKey, User)>>);

impl Users {
    pub(super) fn get(&self, who: &UserKey) -> Option<&User> {
        let same_id = self.0.get(&who.id)?;
        same_id
            .iter()
            .find(|(one, _)| one == who)
            .map(|(_, user)| user)
    }

    pub(super) fn get_mut(&mut self, who: &UserKey) -> Option<&mut User> {
        let same_id = self.0.get_mut(&who.id)?;
        let found = same_id.iter_mut().find(|(one, _)| one == who);
        found.map(|(_, user)| user)
    }

    /// Returns the user. Adds it if it is not known.
    pub(super) fn get_or_new(&mut self, who: &UserKey, limits: &Limits, now: Instant) -> &mut User {
        // Nearly always there is one user. A list without a given capacity would allocate four
        // slots.
        let same_id = self.0.entry(Arc::clone(&who.id));
        let same_id = same_id.or_insert_with(|| Vec::with_capacity(1));
        let at = same_id.iter().position(|(one, _)| one == who);
        let at = at.unwrap_or_else(|| {
            same_id.push((who.clone(), User::new(limits, now)));
            same_id.len() - 1
        });
        &mut same_id[at].1
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the connections of all users with this id.
    pub(super) fn entries_of(&self, id: &str) -> Vec<Arc<Entry>> {
        let same_id = self.0.get(id).into_iter().flatten();
        same_id
            .flat_map(|(_, user)| user.entries.iter().cloned())
            .collect()
    }

    /// Removes a connection that has ended. A user without connections is kept until its limits are
    /// full again; otherwise a new connection would start with full limits.
    pub(super) fn remove(
        &mut self,
        who: &UserKey,
        entry: &Arc<Entry>,
        limits: &Limits,
        now: Instant,
    ) {
        let Some(same_id) = self.0.get_mut(&who.id) else {
            return;
        };
        same_id.retain_mut(|(one, user)| {
            if one != who {
                return true;
            }
            user.entries.retain(|one| !Arc::ptr_eq(one, entry));
            !user.is_idle(limits, now)
        });
        if same_id.is_empty() {
            self.0.remove(&who.id);
        }
    }

    /// Forgets the users without connections whose limits are full again.
    pub(super) fn forget_idle(&mut self, limits: &Limits, now: Instant) {
        self.0.retain(|_, same_id| {
            same_id.retain_mut(|(_, user)| !user.is_idle(limits, now));
            !same_id.is_empty()
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
    /// Counts a frame. Returns `false` if there are too many.
    pub(super) fn take(&mut self, key: String, per_second: f64, burst: u32, now: Instant) -> bool {
        if self.0.len() > MAX_RELAYS {
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
        for n in 0..=MAX_RELAYS {
            assert!(relays.take(format!("fast {n}"), 10.0, 10, now));
        }
        let later = now + Duration::from_secs(30);
        assert!(relays.take("fast again".to_owned(), 10.0, 10, later));
        assert!(relays.0.len() < 10, "full limits are forgotten");
        assert!(!relays.take("slow".to_owned(), 1.0 / 60.0, 1, later));
    }
}
