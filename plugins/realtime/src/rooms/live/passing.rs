//! What is never stored on its way to the members of a room.

use std::hash::BuildHasher;
use std::sync::Arc;

use super::{Change, Live, MOST_HELD, queue};
use crate::connection::{Class, Connection};
use crate::protocol::ServerFrame;
use crate::rooms::stored::Passing;

impl Live {
    /// Passes what is never stored.
    pub(super) fn forward(&self, passing: &Passing, due: &mut Vec<Arc<Connection>>) {
        // Users get no frame about their own arrival.
        let change = |user: &String, came| Change {
            user: self.hasher.hash_one(user.as_str()),
            came,
        };
        let (frame, class, except, about, change) = match passing {
            Passing::Frame {
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
            Passing::Join { user } => (
                ServerFrame::presence_join(&self.room, user),
                Class::ephemeral(&self.room, "presence_join", user),
                None,
                Some(user.as_str()),
                Some(change(user, true)),
            ),
            Passing::Leave { user } => (
                ServerFrame::presence_leave(&self.room, user),
                Class::ephemeral(&self.room, "presence_leave", user),
                None,
                Some(user.as_str()),
                Some(change(user, false)),
            ),
        };
        for (id, member) in &mut *self.members.lock() {
            if except == Some(&**id) || about.is_some_and(|user| member.is_of(user)) {
                continue;
            }
            match &mut member.held {
                Some(held) if held.passing.len() < MOST_HELD => {
                    held.passing.push((frame.clone(), class.clone(), change));
                }
                Some(_) => {}
                None => {
                    if change.is_none_or(|change| member.takes(&change)) {
                        queue(&member.connection, frame.clone(), class.clone(), due);
                    }
                }
            }
        }
    }
}
