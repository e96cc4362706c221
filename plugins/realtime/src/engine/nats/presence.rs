//! Presence: the leases of users.
//!
//! The subject of a stream has one message: the leases of all users on all nodes. A change succeeds
//! only if the message that it has read is still the last one, so each change is atomic.

use std::collections::BTreeMap;
use std::hash::BuildHasher;

use bytes::Bytes;
use linchpin::Timestamp;
use serde::{Deserialize, Serialize};

use super::Inner;
use super::link::in_time;
use super::store::Lost;
use super::tops::{ATTEMPTS, conflict_error};
use crate::engine::faults::{self, Fault};
use crate::engine::{LEASE, Member, PresenceChanges, Present, Result, Stream};

/// The number of locks. With a lock, concurrent changes by calls of the same node rarely conflict.
pub(super) const LOCKS: usize = 64;
/// The maximum length of the headers of a message.
const MAX_HEADER_BYTES: usize = 512;
/// The maximum number of bytes for a user, without the id.
const MAX_USER_BYTES: usize = 64;
/// The maximum number of bytes for each further node of a user.
const MAX_NODE_BYTES: usize = 40;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Leases(BTreeMap<String, User>);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct User {
    /// The time of the user's arrival, in milliseconds.
    #[serde(rename = "s")]
    since: i64,
    /// The end of the lease on each node. An expired lease counts until it is removed.
    #[serde(rename = "n")]
    nodes: BTreeMap<String, i64>,
}

impl User {
    fn is_present(&self, now: i64) -> bool {
        self.nodes.values().any(|until| *until > now)
    }
}

impl Leases {
    /// Adds the leases that fit into `free_bytes` further bytes. Returns the users who have
    /// arrived.
    fn enter(
        &mut self,
        users: &[&str],
        node: &str,
        now: i64,
        mut free_bytes: usize,
    ) -> Vec<String> {
        let until = now + LEASE.as_millis() as i64;
        let (mut arrived, mut left_out) = (Vec::new(), 0_usize);
        for user in users {
            let known = self.0.get_mut(*user);
            let bytes = match &known {
                Some(known) if known.nodes.contains_key(node) => 0,
                Some(_) => MAX_NODE_BYTES,
                None => MAX_USER_BYTES + serde_json::to_string(user).map_or(0, |text| text.len()),
            };
            let Some(rest) = free_bytes.checked_sub(bytes) else {
                left_out += 1;
                continue;
            };
            free_bytes = rest;
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
                "some users of a room are not counted as present: the message with the leases is \
                 full"
            );
        }
        arrived
    }

    /// Removes leases. Returns the users who have no lease left.
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
    /// Reads the leases of a stream, and the number and the length of their message.
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

    /// Changes the leases of a stream in one step. `change` gets the leases, and the number of
    /// bytes that can be added.
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
        let _guard = self.locks[at].lock().await;
        for _ in 0..ATTEMPTS {
            let (client, _) = self.client().await?;
            let (before, seq, bytes) = self.leases(&subject).await?;
            let free_bytes = client
                .max_payload()
                .saturating_sub(bytes + MAX_HEADER_BYTES);
            let mut leases = before.clone();
            let changes = change(&mut leases, free_bytes);
            if leases == before {
                return Ok(changes);
            }
            let text = serde_json::to_vec(&leases).map_err(crate::engine::EngineError::failed)?;
            // A retry could find the change of the first attempt, and would then report no arrival.
            let put = self.put(&subject, Bytes::from(text), seq, false, Lost::Unavailable);
            if put.await?.is_some() {
                return Ok(changes);
            }
        }
        Err(conflict_error())
    }

    pub(super) async fn enter(&self, stream: &Stream, users: &[&str]) -> Result<Vec<String>> {
        let (node, now) = (self.node.as_str(), self.now());
        let enter = |leases: &mut Leases, free_bytes| leases.enter(users, node, now, free_bytes);
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

    /// Enters users and removes the expired leases in one step.
    pub(super) async fn renew_leases(
        &self,
        stream: &Stream,
        users: &[&str],
    ) -> Result<PresenceChanges> {
        let (node, now) = (self.node.as_str(), self.now());
        let renew = |leases: &mut Leases, free_bytes| {
            let arrived = leases.enter(users, node, now, free_bytes);
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
