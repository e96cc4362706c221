//! Credentials outside of the request pipeline: the interface between an authentication plugin and
//! plugins that hold connections, such as sockets.
//!
//! A request is authenticated once, by the [`ActorResolver`](super::ActorResolver). A connection
//! that lives longer than a request must check again whether its credential is still valid. For
//! this it is notified of changes of users and sessions.

use std::fmt;
use std::sync::Arc;

use axum::http::HeaderMap;
use tokio::sync::broadcast;

use crate::resource::BoxFuture;
use crate::{Actor, Attached, Result, Timestamp};

/// The number of changes that wait for a busy subscriber. A subscriber that misses some gets
/// [`CredentialChange::Any`].
const MAX_WAITING: usize = 1024;

/// The place of a credential in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CredentialPlace {
    /// A header that the client's code sets, such as `Authorization`.
    Header,
    /// A cookie, which browsers send by themselves: the request may be forged, so its `Origin` must
    /// be checked.
    Cookie,
}

/// A credential that was valid when it was checked.
#[derive(Clone, Debug)]
pub struct Credential {
    /// The caller: id, tenant, roles, and the handle of the session in `session_id`.
    pub actor: Arc<Actor>,
    /// The instant at which the token expires; `None` for a credential without an end.
    pub expires_at: Option<Timestamp>,
    /// The plugin's own data, with which it checks the credential again.
    pub attached: Attached,
}

impl Credential {
    /// Whether two credentials are of the same user in the same tenant.
    pub fn is_of_same_caller(&self, other: &Self) -> bool {
        let (one, other) = (&self.actor, &other.actor);
        one.kind == other.kind && one.id == other.id && one.tenant_id == other.tenant_id
    }
}

/// The reason for which an earlier credential is checked again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CredentialUse {
    /// The caller acts: the check counts as activity of the session.
    Activity,
    /// The server checks by itself: an idle session stays idle.
    Check,
}

/// Checks credentials of connections. An authentication plugin installs one with
/// [`MiddlewareCx::set_credentials`](crate::MiddlewareCx::set_credentials); other plugins get it
/// from [`PostCx::credentials`](crate::PostCx::credentials).
///
/// An error means that the credential cannot be checked now, for example because the store of
/// sessions cannot be reached. The credential is then neither valid nor invalid.
pub trait Credentials: Send + Sync + 'static {
    /// The place of the credential in these headers; `None` if there is none. If there are several
    /// credentials, it is the place of the one that authentication uses. The credential may be
    /// invalid.
    fn presented(&self, headers: &HeaderMap) -> Option<CredentialPlace>;

    /// Checks the credential in these headers. `None` if it is invalid, or if there is none. The
    /// caller is responsible for the protection against forged requests.
    ///
    /// # Errors
    /// `unavailable` if the credential cannot be checked now.
    fn of_headers<'a>(
        &'a self,
        headers: &'a HeaderMap,
    ) -> BoxFuture<'a, Result<Option<Credential>>>;

    /// Checks a token that arrived in a message instead of a header. `None` if it is invalid.
    ///
    /// # Errors
    /// As [`Credentials::of_headers`].
    fn of_token<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Result<Option<Credential>>>;

    /// Checks an earlier credential again: `None` if its session has ended. The result has the
    /// current roles and tenant. The expiry of the token itself is not checked: compare
    /// `expires_at`.
    ///
    /// # Errors
    /// As [`Credentials::of_headers`].
    fn again<'a>(
        &'a self,
        earlier: &'a Credential,
        used: CredentialUse,
    ) -> BoxFuture<'a, Result<Option<Credential>>>;

    /// Whether a session of a user is open, by its handle. The default is `true`, for plugins
    /// without sessions.
    ///
    /// # Errors
    /// As [`Credentials::of_headers`].
    fn is_open<'a>(&'a self, user: &'a str, session: &'a str) -> BoxFuture<'a, Result<bool>> {
        let _ = (user, session);
        Box::pin(std::future::ready(Ok(true)))
    }

    /// Subscribes to changes from now on: changes in this process, and changes in other processes
    /// if the plugin is notified of them.
    fn changes(&self) -> CredentialChanges;
}

/// A change after which credentials must be checked again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CredentialChange {
    /// A session of this user has ended, or roles, the tenant or another restriction of the user
    /// has changed.
    User(Arc<str>),
    /// Any user may have changed.
    Any,
}

/// A source of changes, for authentication plugins.
#[derive(Clone)]
pub struct CredentialFeed(broadcast::Sender<Arc<str>>);

impl CredentialFeed {
    /// Creates a source without subscribers.
    pub fn new() -> Self {
        Self(broadcast::Sender::new(MAX_WAITING))
    }

    /// Notifies all subscribers that a user has changed. It never waits.
    pub fn user_changed(&self, id: &str) {
        if self.0.receiver_count() > 0 {
            // There may be no receiver any more; this is not an error.
            let _ = self.0.send(id.into());
        }
    }

    /// Subscribes to the changes from now on.
    pub fn subscribe(&self) -> CredentialChanges {
        CredentialChanges(Some(self.0.subscribe()))
    }
}

impl Default for CredentialFeed {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for CredentialFeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CredentialFeed")
            .field(&self.0.receiver_count())
            .finish()
    }
}

/// A subscription to changes of credentials.
pub struct CredentialChanges(Option<broadcast::Receiver<Arc<str>>>);

impl CredentialChanges {
    /// A subscription without changes, for credentials that cannot change.
    pub fn none() -> Self {
        Self(None)
    }

    /// Waits for the next change. Without a source of changes, it waits forever. It is safe to drop
    /// the future and to call again.
    pub async fn next(&mut self) -> CredentialChange {
        let Some(receiver) = &mut self.0 else {
            return std::future::pending().await;
        };
        match receiver.recv().await {
            Ok(user) => CredentialChange::User(user),
            Err(broadcast::error::RecvError::Lagged(_)) => CredentialChange::Any,
            Err(broadcast::error::RecvError::Closed) => {
                self.0 = None;
                std::future::pending().await
            }
        }
    }
}

impl fmt::Debug for CredentialChanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CredentialChanges").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn changes_reach_every_subscriber_and_gaps_are_reported() {
        let feed = CredentialFeed::new();
        feed.user_changed("nobody listens");
        let (mut one, mut other) = (feed.subscribe(), feed.subscribe());
        feed.user_changed("ada");
        for subscriber in [&mut one, &mut other] {
            assert_eq!(
                subscriber.next().await,
                CredentialChange::User("ada".into())
            );
        }
        for n in 0..=MAX_WAITING {
            feed.user_changed(&n.to_string());
        }
        assert_eq!(one.next().await, CredentialChange::Any);
        assert_eq!(one.next().await, CredentialChange::User("1".into()));
    }

    #[tokio::test]
    async fn a_subscription_without_a_source_waits() {
        let feed = CredentialFeed::new();
        let closed = feed.subscribe();
        drop(feed);
        for mut waits in [closed, CredentialChanges::none()] {
            assert!(waits.next().now_or_never().is_none());
        }
    }
}
