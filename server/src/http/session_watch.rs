//! Notifications about ended sessions and deleted accounts, from an authentication plugin to
//! plugins that keep records about them.

use std::fmt;
use std::sync::Arc;

use parking_lot::RwLock;

use crate::resource::{Adapters, BoxFuture};
use crate::{Cx, Result};

/// Called when sessions and accounts end. Plugins register one with
/// [`PostCx::watch_sessions`](crate::PostCx::watch_sessions).
///
/// Both methods run in the transaction that ends the session or the account. An error rolls it
/// back.
pub trait SessionWatch: Send + Sync + 'static {
    /// Called when a session was ended by a logout, by a revocation, or with its account; not when
    /// a session has expired.
    ///
    /// # Errors
    /// The errors of the store.
    fn session_ended<'a>(
        &'a self,
        cx: &'a Cx,
        user: &'a str,
        session: &'a str,
    ) -> BoxFuture<'a, Result<()>>;

    /// Called when an account was deleted permanently.
    ///
    /// # Errors
    /// The errors of the store.
    fn account_deleted<'a>(&'a self, cx: &'a Cx, user: &'a str) -> BoxFuture<'a, Result<()>>;
}

/// The watches of an app, for authentication plugins.
///
/// ```
/// use linchpin::http::SessionWatches;
/// use linchpin::{Adapters, Cx, Result};
///
/// async fn log_out(adapters: &Adapters, user: &str, session: &str) -> Result<()> {
///     Cx::system("a logout")
///         .transaction(async |cx| {
///             // ... delete the session ...
///             SessionWatches::of(adapters).session_ended(cx, user, session).await
///         })
///         .await
/// }
/// ```
#[derive(Clone, Default)]
pub struct SessionWatches(Arc<RwLock<Vec<Arc<dyn SessionWatch>>>>);

impl fmt::Debug for SessionWatches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SessionWatches")
            .field(&self.0.read().len())
            .finish()
    }
}

impl SessionWatches {
    /// The watches of the app with these adapters.
    pub fn of(adapters: &Adapters) -> Self {
        match adapters.provided::<Self>() {
            Ok(watches) => Self::clone(&watches),
            Err(_) => Self::default(),
        }
    }

    /// Adds a watch to an app.
    pub(crate) fn add(adapters: &Adapters, watch: Arc<dyn SessionWatch>) {
        let watches = Self::of(adapters);
        watches.0.write().push(watch);
        adapters.provide(watches);
    }

    fn all(&self) -> Vec<Arc<dyn SessionWatch>> {
        self.0.read().clone()
    }

    /// Notifies every watch that a session was ended. Call it in the transaction that ends the
    /// session.
    ///
    /// # Errors
    /// The first error of a watch.
    pub async fn session_ended(&self, cx: &Cx, user: &str, session: &str) -> Result<()> {
        for watch in self.all() {
            watch.session_ended(cx, user, session).await?;
        }
        Ok(())
    }

    /// Notifies every watch that an account was deleted. Call it in the transaction that deletes
    /// the account.
    ///
    /// # Errors
    /// The first error of a watch.
    pub async fn account_deleted(&self, cx: &Cx, user: &str) -> Result<()> {
        for watch in self.all() {
            watch.account_deleted(cx, user).await?;
        }
        Ok(())
    }
}
