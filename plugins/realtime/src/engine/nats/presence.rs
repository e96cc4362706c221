//! Leases of users.
//!
//! The subject of a stream has one message: the leases of all users on all nodes. A change expects
//! the message that it has read to be the last one, so each change is atomic.

use std::collections::BTreeMap;
use std::hash::BuildHasher;

use bytes::Bytes;
use linchpin::Timestamp;
use serde::{Deserialize, Serialize};

use super::Inner;
use super::link::in_time;
use super::store::Lost;
use super::tops::{ATTEMPTS, overtaken};
use crate::engine::faults::{self, Fault};
use crate::engine::{LEASE, Member, PresenceChanges, Present, Result, Stream};

/// The number of locks, so that the calls of a node seldom overtake each other.
pub(super) const LOCKS: usize = 64;
/// The maximum length of the headers of a message.
const HEADERS: usize = 512;
/// The maximum length of a user without the id, and of a further node of a user.
const USER: usize = 64;
const NODE: usize = 40;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Leases(BTreeMap<String, User>);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct User {
    /// When the user has arrived, in milliseconds.
    #[serde(rename = "s")]
    since: i64,
    /// The end of the lease on each node. A lease that has run out counts until it is removed.
    #[serde(rename = "n")]
    nodes: BTreeMap<String, i64>,
}

impl User {
    fn is_present(&self, now: i64) -> bool {
        self.nodes.values().any(|until| *until > now)
    }
}

impl Leases {
    /// Adds leases, as long as they need at most `room` further bytes; returns the users who have
    /// arrived.
    fn enter(&mut self, users: &[&str], node: &str, now: i64, mut room: usize) -> Vec<String> {
        let until = now + LEASE.as_millis() as i64;
        let (mut arrived, mut left_out) = (Vec::new(), 0_usize);
        for user in users {
            let known = self.0.get_mut(*user);
            let bytes = match &known {
                Some(known) if known.nodes.contains_key(node) => 0,
                Some(_) => NODE,
                None => USER + serde_json::to_string(user).map_or(0, |text| text.len()),
            };
            let Some(rest) = room.checked_sub(bytes) else {
                left_out += 1;
                continue;
            };
            room = rest;
            let nodes = match known {
                Some(known) => &mut known.nodes,
                None => {
                    arrived.push((*user).to_owned());
                    let nodes = BTreeMap::new();
                    let new = User { since: now, nodes };
                    &mut self.0.entry((*user).to_owned()).or_insert(new).nodes
                }
            };
            nodes.insert(node.to_owned(), until);
        }
        if left_out > 0 {
            tracing::warn!(
                left_out,
                "users of a room are not counted as present: one message holds no more"
            );
        }
        arrived
    }

    /// Removes leases; returns the users who have none left.
    fn remove(&mut self, ends: impl Fn(&str, &str, i64) -> bool) -> Vec<String> {
        let mut gone = Vec::new();
        self.0.retain(|id, user| {
            user.nodes.retain(|node, until| !ends(id, node, *until));
            if user.nodes.is_empty() {
                gone.push(id.clone());
            }
            !user.nodes.is_empty()
        });
        gone
    }

    fn expire(&mut self, now: i64) -> Vec<String> {
        self.remove(|_, _, until| until <= now)
    }

    fn present(&self, max: usize, now: i64) -> Present {
        let present = self.0.iter().filter(|(_, user)| user.is_present(now));
        let mut users: Vec<Member> = present
            .map(|(id, user)| Member {
                user: id.clone(),
                since: Timestamp::from_millis(user.since),
            })
            .collect();
        users.sort_by(|a, b| (a.since, &a.user).cmp(&(b.since, &b.user)));
        let count = users.len();
        users.truncate(max);
        Present { users, count }
    }
}

impl Inner {
    /// The leases of a stream, and the number and the length of their message.
    async fn leases(&self, subject: &str) -> Result<(Leases, u64, usize)> {
        let Some(stored) = self.last(&self.names.users_stream(), subject).await? else {
            return Ok((Leases::default(), 0, 0));
        };
        if let Ok(leases) = serde_json::from_slice(&stored.text) {
            return Ok((leases, stored.seq, stored.text.len()));
        }
        tracing::error!(
            subject,
            "the leases of the realtime engine were replaced by a foreign message"
        );
        faults::count(Fault::KeyReplaced);
        Ok((Leases::default(), stored.seq, 0))
    }

    /// Changes the leases of a stream in one step. `change` gets the leases, and the number of bytes
    /// that can be added.
    async fn change<T>(
        &self,
        stream: &Stream,
        change: impl Fn(&mut Leases, usize) -> T,
    ) -> Result<T> {
        in_time(self.change_in_turn(stream, change)).await?
    }

    async fn change_in_turn<T>(
        &self,
        stream: &Stream,
        change: impl Fn(&mut Leases, usize) -> T,
    ) -> Result<T> {
        let subject = self.names.users(Some(stream.name()));
        let hash = self.hasher.hash_one(stream.name());
        let at = usize::try_from(hash % LOCKS as u64).unwrap_or(0);
        let _own = self.locks[at].lock().await;
        for _ in 0..ATTEMPTS {
            let (client, _) = self.client().await?;
            let (before, seq, bytes) = self.leases(&subject).await?;
            let room = client.max_payload().saturating_sub(bytes + HEADERS);
            let mut leases = before.clone();
            let changes = change(&mut leases, room);
            if leases == before {
                return Ok(changes);
            }
            let text = serde_json::to_vec(&leases).map_err(crate::engine::EngineError::failed)?;
            // Tried again, it could find its own change and report no arrival.
            let put = self.put(&subject, Bytes::from(text), seq, false, Lost::Unavailable);
            if put.await?.is_some() {
                return Ok(changes);
            }
        }
        Err(overtaken())
    }

    pub(super) async fn enter(&self, stream: &Stream, users: &[&str]) -> Result<Vec<String>> {
        let (node, now) = (self.node.as_str(), self.now());
        let enter = |leases: &mut Leases, room| leases.enter(users, node, now, room);
        self.change(stream, enter).await
    }

    pub(super) async fn exit(&self, stream: &Stream, users: &[&str]) -> Result<Vec<String>> {
        let own = self.node.as_str();
        let ends = |id: &str, node: &str, _: i64| node == own && users.contains(&id);
        self.change(stream, |leases, _| leases.remove(ends)).await
    }

    pub(super) async fn expire(&self, stream: &Stream) -> Result<Vec<String>> {
        let now = self.now();
        self.change(stream, |leases, _| leases.expire(now)).await
    }

    /// Enters users and removes the leases that have run out, in one step.
    pub(super) async fn renew_leases(
        &self,
        stream: &Stream,
        users: &[&str],
    ) -> Result<PresenceChanges> {
        let (node, now) = (self.node.as_str(), self.now());
        let renew = |leases: &mut Leases, room| {
            let arrived = leases.enter(users, node, now, room);
            let left = leases.expire(now);
            PresenceChanges { arrived, left }
        };
        self.change(stream, renew).await
    }

    pub(super) async fn present(&self, stream: &Stream, max: usize) -> Result<Present> {
        let subject = self.names.users(Some(stream.name()));
        let (leases, ..) = self.leases(&subject).await?;
        Ok(leases.present(max, self.now()))
    }
}
