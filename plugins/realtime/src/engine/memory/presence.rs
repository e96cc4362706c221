//! The leases of present users.

use std::collections::HashMap;

use linchpin::Timestamp;

use super::log::later;
use crate::engine::{LEASE, Member, NodeId, Present};

#[derive(Default)]
pub(super) struct Leases {
    streams: HashMap<String, HashMap<String, User>>,
}

struct User {
    since: Timestamp,
    /// The end of the lease on each node. An expired lease counts until `expire` removes it, so
    /// that the departure is announced before the next arrival.
    nodes: HashMap<NodeId, Timestamp>,
}

impl User {
    fn is_present(&self, now: Timestamp) -> bool {
        self.nodes.values().any(|until| *until > now)
    }
}

impl Leases {
    pub(super) fn enter(
        &mut self,
        stream: &str,
        users: &[&str],
        node: NodeId,
        now: Timestamp,
    ) -> Vec<String> {
        let present = self.streams.entry(stream.to_owned()).or_default();
        let mut arrived = Vec::new();
        for id in users {
            let user = present.entry((*id).to_owned()).or_insert_with(|| {
                arrived.push((*id).to_owned());
                User {
                    since: now,
                    nodes: HashMap::new(),
                }
            });
            user.nodes.insert(node, later(now, LEASE));
        }
        arrived
    }

    pub(super) fn leave(&mut self, stream: &str, users: &[&str], node: NodeId) -> Vec<String> {
        self.remove(stream, |id, holder, _| {
            *holder == node && users.contains(&id)
        })
    }

    pub(super) fn expire(&mut self, stream: &str, now: Timestamp) -> Vec<String> {
        self.remove(stream, |_, _, until| until <= now)
    }

    /// Removes leases. Returns the users who have no lease left.
    fn remove(
        &mut self,
        stream: &str,
        ends: impl Fn(&str, &NodeId, Timestamp) -> bool,
    ) -> Vec<String> {
        let Some(present) = self.streams.get_mut(stream) else {
            return Vec::new();
        };
        let mut gone = Vec::new();
        present.retain(|id, user| {
            user.nodes.retain(|node, until| !ends(id, node, *until));
            let stays = !user.nodes.is_empty();
            if !stays {
                gone.push(id.clone());
            }
            stays
        });
        if present.is_empty() {
            self.streams.remove(stream);
        }
        gone
    }

    pub(super) fn present(&self, stream: &str, max: usize, now: Timestamp) -> Present {
        let mut users: Vec<Member> = self
            .streams
            .get(stream)
            .into_iter()
            .flatten()
            .filter(|(_, user)| user.is_present(now))
            .map(|(id, user)| Member {
                user: id.clone(),
                since: user.since,
            })
            .collect();
        users.sort_by(|a, b| (a.since, &a.user).cmp(&(b.since, &b.user)));
        let count = users.len();
        users.truncate(max);
        Present { users, count }
    }
}
