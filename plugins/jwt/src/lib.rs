//! `JwtAuth`: bearer tokens signed with the app's secret, for apps whose users are managed
//! by another system.
//!
//! The crate `linchpin` re-exports it (feature `jwt`, on by default).

mod command;
mod credentials;
#[cfg(test)]
mod tests;
mod verifier;

use std::sync::Arc;
use std::time::Duration;

use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde::{Deserialize, Serialize};

use self::verifier::Verifier;
use linchpin_core::{Actor, BoxFuture, Code, Error, Result, Timestamp};
use linchpin_server::http::{Credentials, RouteAuth};
use linchpin_server::{Command, MiddlewareCx, Plugin, PostCx, SigningSecret};

/// Reads the actor from a JWT in the header `Authorization: Bearer <token>`.
///
/// A token must be signed with HS256 and the app's signing secret, and must have the claims `sub`
/// and `exp`. `exp` and `nbf` are checked with a leeway of 10 s. The claims `sid`, `roles` and
/// `tenant` become the session, the roles and the tenant of the actor. Tokens with another
/// algorithm, with a key in the header (`jwk`, `jku`, `x5u`, `x5c`) or with extensions (`crit`) are
/// refused.
///
/// An invalid token gets 401 on every route, including public ones, because the caller expects to
/// be authenticated. The plugin adds the command `token`, which prints a token for manual tests.
#[derive(Debug, Default)]
pub struct JwtAuth(());

impl JwtAuth {
    /// The plugin.
    pub fn new() -> Self {
        Self(())
    }

    /// Returns a token for `actor` that is valid for `ttl` from now on. The id, the session, the
    /// roles and the tenant of the actor become claims. Use it in tests, and in your own services
    /// that call the app for a user.
    ///
    /// ```
    /// use linchpin::prelude::*;
    ///
    /// let editor = Actor::user("alice").with_roles(["editor"]);
    /// let token = JwtAuth::token("only a test: 32 bytes or more of it", &editor, std::time::Duration::from_mins(5))?;
    /// assert_eq!(token.split('.').count(), 3);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// If the actor has no id, or if the secret is shorter than 32 bytes.
    pub fn token(secret: &str, actor: &Actor, ttl: Duration) -> Result<String> {
        let secret = SigningSecret::new(secret).map_err(|why| Error::new(Code::Internal, why))?;
        let Some(sub) = actor.id.clone() else {
            return Err(Error::new(
                Code::Internal,
                "a token needs an actor with an id",
            ));
        };
        Claims {
            sid: actor.session_id.clone(),
            roles: actor.roles.clone(),
            tenant: actor.tenant_id.clone(),
            ..Claims::of(sub)
        }
        .signed(ttl, &secret)
    }
}

#[derive(Serialize, Deserialize)]
struct Claims {
    sub: String,
    exp: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    nbf: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sid: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    roles: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tenant: Option<String>,
    #[serde(flatten)]
    others: std::collections::BTreeMap<String, serde_json::Value>,
}

impl Claims {
    fn of(sub: String) -> Self {
        Self {
            sub,
            exp: 0,
            nbf: None,
            sid: None,
            roles: Vec::new(),
            tenant: None,
            others: std::collections::BTreeMap::new(),
        }
    }

    fn signed(mut self, ttl: Duration, secret: &SigningSecret) -> Result<String> {
        let seconds = i64::try_from(ttl.as_secs()).unwrap_or(i64::MAX);
        self.exp = (Timestamp::system_now().millis() / 1000).saturating_add(seconds);
        install_crypto();
        encode(
            &Header::new(Algorithm::HS256),
            &self,
            &EncodingKey::from_secret(secret.expose()),
        )
        .map_err(Error::internal)
    }
}

impl Plugin for JwtAuth {
    fn name(&self) -> &'static str {
        "jwt-auth"
    }

    fn setup_middleware<'a>(&'a self, cx: &'a mut MiddlewareCx) -> BoxFuture<'a, Result<()>> {
        Box::pin(async {
            let verifier = Arc::new(Verifier::new(cx.signing_secrets(), Arc::clone(cx.clock())));
            cx.set_credentials(Arc::clone(&verifier) as Arc<dyn Credentials>)?;
            cx.set_actor_resolver(verifier)
        })
    }

    fn setup_post<'a>(&'a self, cx: &'a mut PostCx) -> BoxFuture<'a, Result<()>> {
        Box::pin(async { cx.registrar().set_route_auth(RouteAuth::default()) })
    }

    fn commands(&self) -> Vec<Command> {
        vec![Command::alone(
            "token",
            "prints a token: --sub NAME [--role R]… [--tenant T] [--sid S] [--ttl 1h]",
            command::token,
        )]
    }
}

/// Installs the cryptography backend of `jsonwebtoken` explicitly. If another crate enables a
/// second backend by feature, `jsonwebtoken` would panic at the first use. A backend that is
/// already installed is kept.
fn install_crypto() {
    let _ = jsonwebtoken::crypto::aws_lc::DEFAULT_PROVIDER.install_default();
}
