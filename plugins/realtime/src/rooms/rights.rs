//! New checks of open subscriptions: after changes of the caller's rights, and at an interval.

use std::sync::Arc;

use futures_util::stream::{self, StreamExt};
use linchpin::http::{CredentialChange, CredentialChanges, CredentialUse};
use linchpin::{Code, Error};
use tokio::time::{Instant, sleep};

use super::carrier::Carrier;
use super::guards::Tuples;
use super::join::CHECK_TIMEOUT;
use super::live::{Live, Member, client_position};
use super::members::end_subscription;
use super::stored::stream_name;
use super::{Entry, RoomHub};
use crate::channel::RoomName;
use crate::connection::Class;
use crate::engine::{self, RENEWAL};
use crate::protocol::ResetReason;

/// The maximum number of concurrent checks of connections.
pub(super) const MAX_CHECKS: usize = 32;
/// The maximum number of changes of credentials that are processed concurrently.
const MAX_CHANGES: usize = 16;

impl RoomHub {
    /// Watches changes of credentials, checks open subscriptions at an interval, and renews
    /// presence. The three run concurrently, and end with the task.
    pub async fn watch(self: Arc<Self>) {
        tokio::join!(self.follow_changes(), self.recheck(), self.renew());
    }

    async fn follow_changes(&self) {
        let changes = match &self.settings.credentials {
            Some(credentials) => credentials.changes(),
            None => CredentialChanges::none(),
        };
        let next = |mut changes: CredentialChanges| async {
            let change = changes.next().await;
            Some((change, changes))
        };
        let changes = stream::unfold(changes, next);
        let check = async |change| {
            let entries = match change {
                CredentialChange::User(user) => self.entries.lock().users.entries_of(&user),
                CredentialChange::Any => self.all_entries(),
            };
            // Check sessions first: a session that has ended needs no check of its rooms.
            let session = async |entry: &Arc<Entry>| self.check_session(entry).await;
            stream::iter(&entries)
                .for_each_concurrent(MAX_CHECKS, session)
                .await;
            self.check_all(&entries).await;
        };
        changes.for_each_concurrent(MAX_CHANGES, check).await;
    }

    async fn recheck(&self) {
        loop {
            sleep(self.settings.recheck).await;
            self.check_all(&self.all_entries()).await;
        }
    }

    async fn renew(&self) {
        loop {
            sleep(RENEWAL).await;
            self.renew_presence().await;
            let limits = &self.settings.limits;
            self.entries
                .lock()
                .users
                .forget_idle(limits, Instant::now());
        }
    }

    fn all_entries(&self) -> Vec<Arc<Entry>> {
        self.entries.lock().all.values().cloned().collect()
    }

    async fn check_all(&self, entries: &[Arc<Entry>]) {
        let rights = async |entry: &Arc<Entry>| self.check_rights(entry).await;
        stream::iter(entries)
            .for_each_concurrent(MAX_CHECKS, rights)
            .await;
    }

    /// Ends a connection whose session has ended. If the check fails, the connection stays open.
    async fn check_session(&self, entry: &Entry) {
        let check = self.actor(entry, CredentialUse::Check);
        let _ = tokio::time::timeout(CHECK_TIMEOUT, check).await;
    }

    /// Checks the session of a connection and all its subscriptions. A session that has ended ends
    /// the connection. A subscription that is no longer allowed ends, and the others stay.
    pub(super) async fn check_rights(&self, entry: &Arc<Entry>) {
        let (check, rooms): (u64, Vec<_>) = {
            let mut state = entry.state.lock();
            state.rights += 1;
            let rooms = state.rooms.iter();
            let rooms = rooms.map(|(room, live)| (room.clone(), Arc::clone(live)));
            (state.rights, rooms.collect())
        };
        if rooms.is_empty() {
            self.check_session(entry).await;
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
                    live.apply_check(entry.connection.id(), check, tuples);
                    continue;
                }
                // The caller now belongs to another partition.
                Ok(_) => Error::forbidden(),
                Err(error) => error,
            };
            let code = match refused.code() {
                Code::NotFound => Code::NotFound,
                Code::Unauthorized | Code::Forbidden => Code::Forbidden,
                // A check that cannot be completed counts as a refusal.
                _ => Code::Unavailable,
            };
            let connection = &entry.connection;
            let at = live.position_of(connection.id());
            if self.leave(entry, &room) {
                // The client may have missed events, so it gets a reset first.
                if let (Code::Unavailable, Some(at)) = (code, at) {
                    let at = client_position(&at);
                    connection.send(live.reset_frame(&at, ResetReason::Unavailable));
                }
                end_subscription(connection, &room, code);
            }
        }
    }
}

impl Live {
    /// Sets the values of a member that a later check has returned. `check` is the number of the
    /// check. If the values differ, the subscription is reset, because the visible events have
    /// changed.
    ///
    /// Checks of one connection may run at the same time. The result of a check never replaces the
    /// result of a check that began later.
    pub(super) fn apply_check(&self, id: &str, check: u64, tuples: Tuples) {
        let mut members = self.members.lock();
        let Some(member) = members.get_mut(id) else {
            return;
        };
        if check < member.checked {
            return;
        }
        member.checked = check;
        if member.tuples == tuples {
            return;
        }
        member.tuples = self.share(tuples);
        let Some(at) = self.member_position(member) else {
            return;
        };
        let (position, reason) = (client_position(&at), ResetReason::RightsChanged);
        match &mut member.held {
            Some(held) => held.reset(position, reason),
            None => {
                let frame = self.reset_frame(&position, reason);
                member.connection.push(frame, Class::Durable);
            }
        }
    }

    /// Returns the position up to which a member has received frames.
    pub(super) fn position_of(&self, id: &str) -> Option<engine::Position> {
        let members = self.members.lock();
        members
            .get(id)
            .and_then(|member| self.member_position(member))
    }

    fn member_position(&self, member: &Member) -> Option<engine::Position> {
        let at = *self.delivered.lock();
        // The subscription of the node may not have reached the position at which the member
        // joined.
        let joined = member.joined_at.filter(|joined| {
            at.is_none_or(|at| at.epoch == joined.epoch && at.offset < joined.offset)
        });
        joined.or(at)
    }

    /// Sets the position at which the node's subscription begins.
    pub(super) fn start_at(&self, position: engine::Position) {
        self.delivered.lock().get_or_insert(position);
    }
}
