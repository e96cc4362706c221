//! Who calls: the actor of each request.

use std::sync::{Arc, OnceLock};

use axum::http::request::Parts;
use linchpin::http::{ActorResolver, Resolution};
use linchpin::{Actor, Error, Result, axum};

use crate::core::Core;
use crate::guards::known;
use crate::session::credential::{self, Credential};
use crate::session::csrf::Presented;

/// Finds actors once the plugin is at work.
pub(crate) struct Resolver {
    core: Arc<OnceLock<Arc<Core>>>,
    anonymous: Arc<Actor>,
}

impl Resolver {
    pub(crate) fn new(core: Arc<OnceLock<Arc<Core>>>) -> Self {
        Self { core, anonymous: Arc::new(Actor::anonymous()) }
    }

    fn nobody(&self) -> Resolution {
        Resolution::Ready(Ok(Arc::clone(&self.anonymous)))
    }

    /// The actor of a token. What a request authenticated by a cookie has to prove is judged once its session is known.
    fn token(&self, core: &Arc<Core>, token: &str, asked: Option<Presented>) -> Resolution {
        if let Some(actor) = core.checks.known(token) {
            return Resolution::Ready(meant(core, actor, asked.as_ref()));
        }
        let (core, token, anonymous) = (Arc::clone(core), token.to_owned(), Arc::clone(&self.anonymous));
        Resolution::Later(Box::pin(async move {
            match core.checks.look(&token).await {
                Ok(None) => Ok(anonymous),
                Ok(Some(actor)) => meant(&core, actor, asked.as_ref()),
                // What cannot be checked is neither good nor bad.
                Err(error) => Err(Error::unavailable(error)),
            }
        }))
    }
}

/// The actor, if what was asked of the request is proved.
fn meant(core: &Core, actor: Arc<Actor>, asked: Option<&Presented>) -> Result<Arc<Actor>> {
    if let (Some(presented), Some(known)) = (asked, known(&actor)) {
        core.csrf.judge(presented, &known.sid, &core.ring)?;
    }
    Ok(actor)
}

impl ActorResolver for Resolver {
    fn resolve(&self, parts: &Parts) -> Resolution {
        let Some(core) = self.core.get() else {
            return Resolution::Ready(Err(Error::unavailable("authentication is not set up yet")));
        };
        match credential::of(&parts.headers, &core.cookies) {
            Credential::None | Credential::Unusable => self.nobody(),
            Credential::Header(token) => self.token(core, token, None),
            Credential::Bearer(token) => match core.service(token).filter(|_| !token.contains('.')) {
                Some(service) => Resolution::Ready(Ok(service)),
                None => self.token(core, token, None),
            },
            Credential::Cookie(_) if core.csrf.judges_itself(parts.uri.path()) => self.nobody(),
            Credential::Cookie(token) => {
                let asked = core.csrf.asked(&parts.method, parts.uri.path(), &parts.headers, &core.cookies);
                self.token(core, token, asked)
            }
        }
    }
}
