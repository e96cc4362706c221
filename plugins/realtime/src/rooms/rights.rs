//! Standing subscriptions are checked again: after changes of the caller's rights, and from time to
//! time.

use std::sync::Arc;

use linchpin::http::{CredentialChange, CredentialChanges, CredentialUse};
use linchpin::{Code, Error};
use tokio::time::{Instant, sleep_until};

use super::carrier::Carrier;
use super::members::end_subscription;
use super::stored::stream_name;
use super::{Entry, RoomHub};
use crate::channel::RoomName;
use crate::engine::RENEWAL;

impl RoomHub {
    /// Watches changes of credentials, checks standing subscriptions from time to time, and renews
    /// presence. It ends when the hub is dropped elsewhere, or with its task.
    pub async fn watch(self: Arc<Self>) {
        let mut changes = match &self.settings.credentials {
            Some(credentials) => credentials.changes(),
            None => CredentialChanges::none(),
        };
        let mut recheck = Instant::now() + self.settings.recheck;
        let mut renewal = Instant::now() + RENEWAL;
        loop {
            tokio::select! {
                change = changes.next() => match change {
                    CredentialChange::User(user) => {
                        let entries = self.entries.lock().users.get(&user).map(|of| of.entries.clone());
                        self.check_all(&entries.unwrap_or_default()).await;
                    }
                    CredentialChange::Any => self.check_everybody().await,
                },
                () = sleep_until(recheck) => {
                    self.check_everybody().await;
                    recheck = Instant::now() + self.settings.recheck;
                }
                () = sleep_until(renewal) => {
                    self.renew_presence().await;
                    renewal = Instant::now() + RENEWAL;
                }
            }
        }
    }

    async fn check_everybody(&self) {
        let all: Vec<Arc<Entry>> = self.entries.lock().all.values().cloned().collect();
        self.check_all(&all).await;
    }

    async fn check_all(&self, entries: &[Arc<Entry>]) {
        for entry in entries {
            self.check_rights(entry).await;
        }
    }

    /// Checks the session of a connection and all its subscriptions. A session that has ended ends
    /// the connection; a subscription that is no longer allowed ends alone.
    pub(super) async fn check_rights(&self, entry: &Arc<Entry>) {
        let rooms: Vec<_> = {
            let mut state = entry.state.lock();
            state.rights += 1;
            let rooms = state.rooms.iter();
            rooms
                .map(|(room, live)| (room.clone(), Arc::clone(live)))
                .collect()
        };
        if rooms.is_empty() {
            // The session alone.
            let _ = self.actor(entry, CredentialUse::Check).await;
            return;
        }
        for (room, live) in rooms {
            if entry.connection.is_closing() {
                return;
            }
            let id = match live.carrier {
                Carrier::Channel(_) => match RoomName::parse(&room) {
                    Ok(name) => name.id,
                    Err(_) => continue,
                },
                Carrier::Endpoint(_) => None,
            };
            let refused = match self.admit(entry, live.carrier, id.as_deref()).await {
                Ok((tuples, owners)) if stream_name(&room, &owners) == live.stream.name() => {
                    live.update(entry.connection.id(), tuples);
                    continue;
                }
                // The caller belongs to another partition now.
                Ok(_) => Error::forbidden(),
                Err(error) => error,
            };
            let code = match refused.code() {
                Code::NotFound => Code::NotFound,
                Code::Unauthorized | Code::Forbidden => Code::Forbidden,
                // A check that cannot be made counts as a refusal.
                _ => Code::Unavailable,
            };
            if self.leave(entry, &room) {
                end_subscription(&entry.connection, &room, code);
            }
        }
    }
}
