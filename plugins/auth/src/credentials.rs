//! Credentials of connections that live longer than a request, such as sockets.

use std::sync::{Arc, OnceLock};

use axum::http::HeaderMap;
use linchpin::http::{Credential, CredentialChanges, CredentialPlace, CredentialUse, Credentials};
use linchpin::{Attached, BoxFuture, Error, Result, axum};

use crate::core::{Client, Core};
use crate::session::check::{CachedToken, Recheck};
use crate::session::credential;

/// Checks credentials after start-up.
pub(crate) struct Connections(Arc<OnceLock<Arc<Core>>>);

impl Connections {
    pub(crate) fn new(core: Arc<OnceLock<Arc<Core>>>) -> Self {
        Self(core)
    }

    fn core(&self) -> Result<&Arc<Core>> {
        self.0
            .get()
            .ok_or_else(|| Error::unavailable("authentication is not set up yet"))
    }

    /// The credential for the token of a user.
    async fn token(&self, token: &str) -> Result<Option<Credential>> {
        let checks = &self.core()?.checks;
        let found = match checks.cached(token) {
            Some(found) => Some(found),
            None => checks.find(token).await.map_err(Error::unavailable)?,
        };
        Ok(found.map(credential))
    }

    /// The credential for the token of a program or of a user.
    async fn bearer(&self, token: &str) -> Result<Option<Credential>> {
        match self.core()?.program(token) {
            Some(actor) => Ok(Some(Credential {
                actor,
                expires_at: None,
                attached: Attached::default(),
            })),
            None => self.token(token).await,
        }
    }
}

fn credential(found: Arc<CachedToken>) -> Credential {
    Credential {
        actor: Arc::clone(&found.actor),
        expires_at: Some(found.expires_at()),
        attached: Attached::new(found),
    }
}

impl Credentials for Connections {
    fn presented(&self, headers: &HeaderMap) -> Option<CredentialPlace> {
        use credential::Credential as Found;
        match credential::of(headers, &self.core().ok()?.cookies) {
            Found::None => None,
            Found::Cookie(_) => Some(CredentialPlace::Cookie),
            Found::Unusable if !credential::in_headers(headers) => Some(CredentialPlace::Cookie),
            Found::Unusable | Found::Header(_) | Found::Bearer(_) => Some(CredentialPlace::Header),
        }
    }

    fn of_headers<'a>(
        &'a self,
        headers: &'a HeaderMap,
    ) -> BoxFuture<'a, Result<Option<Credential>>> {
        use credential::Credential as Found;
        Box::pin(async move {
            match credential::of(headers, &self.core()?.cookies) {
                Found::None | Found::Unusable => Ok(None),
                Found::Header(token) | Found::Cookie(token) => self.token(token).await,
                Found::Bearer(token) => self.bearer(token).await,
            }
        })
    }

    fn of_token<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Result<Option<Credential>>> {
        Box::pin(self.bearer(token))
    }

    fn again<'a>(
        &'a self,
        earlier: &'a Credential,
        used: CredentialUse,
    ) -> BoxFuture<'a, Result<Option<Credential>>> {
        Box::pin(async move {
            let Some(found) = earlier.attached.get::<CachedToken>() else {
                // The token of a program is a setting, so it stays valid while the app runs.
                return Ok(Some(earlier.clone()));
            };
            let active = used == CredentialUse::Activity;
            let again = self.core()?.checks.again(found, active).await;
            Ok(match again.map_err(Error::unavailable)? {
                Recheck::Same => Some(earlier.clone()),
                Recheck::Now(found) => Some(credential(found)),
                Recheck::Ended => None,
            })
        })
    }

    fn is_open<'a>(&'a self, user: &'a str, session: &'a str) -> BoxFuture<'a, Result<bool>> {
        Box::pin(async move {
            let core = self.core()?;
            let client = Client::of_app(core.now());
            let open = core.is_live(&client.cx(), &client, session, user).await;
            open.map_err(Error::unavailable)
        })
    }

    fn changes(&self) -> CredentialChanges {
        self.core().map_or_else(
            |_| CredentialChanges::none(),
            |core| core.checks.changes.subscribe(),
        )
    }
}
