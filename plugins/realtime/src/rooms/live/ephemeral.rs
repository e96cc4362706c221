//! Delivery of ephemeral messages to the members of a room. These messages are never stored.

use std::hash::BuildHasher;
use std::sync::Arc;

use super::{Live, MAX_HELD, PresenceChange, queue};
use crate::connection::{Class, Connection};
use crate::protocol::ServerFrame;
use crate::rooms::stored::EphemeralMessage;

impl Live {
    /// Queues an ephemeral message for the members.
    pub(super) fn forward(&self, ephemeral: &EphemeralMessage, due: &mut Vec<Arc<Connection>>) {
        // A user gets no frame about its own arrival or departure: `about` is this user.
        let change = |user: &String, arrived| PresenceChange {
            user: self.hasher.hash_one(user.as_str()),
            arrived,
        };
        let (frame, class, except, about, change) = match ephemeral {
            EphemeralMessage::Frame {
                event,
                payload,
                from,
                except,
            } => (
                ServerFrame::ephemeral(event, &self.room, payload.get(), from.as_deref()),
                Class::ephemeral(&self.room, event, from.as_deref().unwrap_or_default()),
                except.as_deref(),
                None,
                None,
            ),
            EphemeralMessage::Join { user } => (
                ServerFrame::presence_join(&self.room, user),
                Class::ephemeral(&self.room, "presence_join", user),
                None,
                Some(user.as_str()),
                Some(change(user, true)),
            ),
            EphemeralMessage::Leave { user } => (
                ServerFrame::presence_leave(&self.room, user),
                Class::ephemeral(&self.room, "presence_leave", user),
                None,
                Some(user.as_str()),
                Some(change(user, false)),
            ),
        };
        for (id, member) in &mut *self.members.lock() {
            if except == Some(&**id) || about.is_some_and(|user| member.is_user(user)) {
                continue;
            }
            match &mut member.held {
                Some(held) if held.ephemeral.len() < MAX_HELD => {
                    held.ephemeral.push((frame.clone(), class.clone(), change));
                }
                Some(_) => {}
                None => {
                    if change.is_none_or(|change| member.needs_change(&change)) {
                        queue(&member.connection, frame.clone(), class.clone(), due);
                    }
                }
            }
        }
    }
}
