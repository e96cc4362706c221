//! The actor of each request.

use std::sync::{Arc, OnceLock};

use axum::http::request::Parts;
use linchpin::http::{ActorResolver, Origin, Resolution};
use linchpin::{Actor, Error, Result, axum};

use crate::core::{Client, Core};
use crate::guards::checked_session;
use crate::session::credential::{self, Credential};
use crate::session::csrf::Presented;

/// Resolves actors after start-up.
pub(crate) struct Resolver {
    core: Arc<OnceLock<Arc<Core>>>,
    anonymous: Arc<Actor>,
    /// The anonymous actor of a request whose credential is invalid.
    unrecognised: Arc<Actor>,
}

impl Resolver {
    pub(crate) fn new(core: Arc<OnceLock<Arc<Core>>>) -> Self {
        Self {
            core,
            anonymous: Arc::new(Actor::anonymous()),
            unrecognised: Arc::new(Actor::with_invalid_credential()),
        }
    }

    fn anonymous_actor(&self) -> Resolution {
        Resolution::Ready(Ok(Arc::clone(&self.anonymous)))
    }

    /// The actor for an invalid credential. Routes of this plugin treat it as a caller without a
    /// credential: a client gets a new credential from these routes, so their responses must not
    /// ask for a refresh.
    fn unrecognised(&self, core: &Core, path: &str) -> &Arc<Actor> {
        let is_plugin_route = path
            .strip_prefix(&*core.config.auth.mount)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        if is_plugin_route {
            &self.anonymous
        } else {
            &self.unrecognised
        }
    }

    /// Resolves a token. The CSRF check of a cookie runs after its session is known.
    fn token(
        &self,
        core: &Arc<Core>,
        token: &str,
        path: &str,
        csrf_check: Option<CsrfCheck>,
    ) -> Resolution {
        let found = core.checks.cached_actor(token);
        if let (Some(actor), None) = (&found, &csrf_check) {
            return Resolution::Ready(Ok(Arc::clone(actor)));
        }
        let (core, token, unrecognised) = (
            Arc::clone(core),
            token.to_owned(),
            Arc::clone(self.unrecognised(core, path)),
        );
        Resolution::Later(Box::pin(async move {
            let found = match found {
                Some(actor) => Ok(Some(actor)),
                None => core.checks.find_actor(&token).await,
            };
            match (found, csrf_check) {
                (Ok(None), _) => Ok(unrecognised),
                (Ok(Some(actor)), None) => Ok(actor),
                (Ok(Some(actor)), Some(csrf)) => csrf.check(&core, actor).await,
                // A token that cannot be checked is neither valid nor invalid.
                (Err(error), _) => Err(Error::unavailable(error)),
            }
        }))
    }
}

/// The CSRF check of a request with a cookie, with the data for its audit entry.
struct CsrfCheck {
    presented: Presented,
    client: Client,
    path: String,
}

impl CsrfCheck {
    /// Returns the actor if the request is not forged.
    async fn check(self, core: &Core, actor: Arc<Actor>) -> Result<Arc<Actor>> {
        let Some(known) = checked_session(&actor) else {
            return Ok(actor);
        };
        match core.csrf.check(&self.presented, &known.sid, &core.ring) {
            Ok(()) => Ok(actor),
            Err(refusal) => Err(core
                .forged(&self.client, Some(known), &self.path, refusal)
                .await),
        }
    }
}

impl ActorResolver for Resolver {
    fn resolve(&self, parts: &Parts, origin: Origin<'_>) -> Resolution {
        let Some(core) = self.core.get() else {
            return Resolution::Ready(Err(Error::unavailable("authentication is not set up yet")));
        };
        let path = parts.uri.path();
        match credential::of(&parts.headers, &core.cookies) {
            Credential::None => self.anonymous_actor(),
            Credential::Unusable => {
                Resolution::Ready(Ok(Arc::clone(self.unrecognised(core, path))))
            }
            Credential::Header(token) => self.token(core, token, path, None),
            Credential::Bearer(token) => match core.program(token) {
                Some(service) => Resolution::Ready(Ok(service)),
                None => self.token(core, token, path, None),
            },
            Credential::Cookie(_) if core.csrf.checks_itself(path) => self.anonymous_actor(),
            Credential::Cookie(token) => {
                let presented =
                    core.csrf
                        .parts_to_check(&parts.method, path, &parts.headers, &core.cookies);
                let csrf_check = presented.map(|presented| CsrfCheck {
                    presented,
                    client: core.client_of(&parts.headers, origin),
                    path: path.to_owned(),
                });
                self.token(core, token, path, csrf_check)
            }
        }
    }
}
