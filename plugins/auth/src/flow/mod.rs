//! Flows: they turn each kind of proof into a session, change accounts, and end sessions.

mod admin;
mod attempt;
mod challenge;
mod concealed;
mod create;
mod deletion;
mod email;
mod end;
mod enrol;
mod factors;
mod forged;
#[cfg(feature = "providers")]
mod linking;
mod links;
mod lock;
mod login;
#[cfg(feature = "providers")]
pub(crate) mod oauth;
mod outbox_tasks;
mod parts;
pub(crate) mod passkeys;
mod password;
pub(crate) mod proof;
mod reissue;
mod rekey;
mod renew;
mod send;
mod ways_in;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use linchpin::http::Reply;
use linchpin::{Result, Timestamp};
use serde_json::{Map, Value, json};

use crate::core::{Client, Core, millis};
use crate::entities::{Session, User};
use crate::routes::shapes::{Authenticated, Reissued};
use crate::session::{csrf, refresh};

pub(crate) use admin::own_account_error;
pub(crate) use challenge::Answer;
pub(crate) use create::NewAccount;
pub(crate) use deletion::Purge;
pub(crate) use end::Reason;
pub(crate) use enrol::By;
pub(crate) use login::{Proved, SERVICE};
pub(crate) use outbox_tasks::OutboxTasks;
pub(crate) use parts::{Parts, To};
pub(crate) use password::Cause;
pub(crate) use proof::{Need, Proof};
pub use rekey::Rekeyed;
pub(crate) use rekey::register as register_sealed;
pub(crate) use renew::Pace;
pub(crate) use ways_in::Without;

/// Maximum number of attempts of a flow whose records other requests change at the same time. Each
/// conflict means that another request succeeded.
const MAX_ATTEMPTS: usize = 16;

/// A session with the tokens of its client.
pub(crate) struct Tokens {
    pub(crate) access: String,
    /// The access token for a cookie, if the other one is longer than browsers accept.
    for_cookie: Option<String>,
    pub(crate) expires_at: Timestamp,
    pub(crate) refresh: Option<String>,
    /// When the refresh token expires.
    refresh_until: Timestamp,
    /// The handle of the session.
    handle: String,
}

impl Core {
    /// Signs the access token of a session and derives its refresh token.
    ///
    /// # Errors
    /// If the token cannot be signed.
    pub(crate) fn tokens(&self, session: &Session, sid: &str, now: Timestamp) -> Result<Tokens> {
        let refreshes = &self.config.auth.refresh;
        let end = session.expires_at.unwrap_or(now);
        let expires_at = if refreshes.enabled {
            crate::core::later(now, millis(refreshes.access_seconds)).min(end)
        } else {
            end
        };
        let custom = match &session.custom_claims {
            Some(Value::Object(custom)) => custom.clone(),
            _ => Map::new(),
        };
        let mut claims = Map::new();
        let seconds = |at: Timestamp| at.millis().div_euclid(1000);
        let jti = uuid::Builder::from_random_bytes(self.env.random()?).into_uuid();
        claims.insert("sub".to_owned(), json!(session.user_id));
        claims.insert("sid".to_owned(), json!(sid));
        claims.insert("jti".to_owned(), json!(jti.hyphenated().to_string()));
        claims.insert("iat".to_owned(), json!(seconds(now)));
        claims.insert("nbf".to_owned(), json!(seconds(now)));
        claims.insert("exp".to_owned(), json!(seconds(expires_at)));
        // The plugin's own claims come last, so that the app's claims cannot replace them.
        let mut all = custom;
        let own_claims = (!all.is_empty()).then(|| claims.clone());
        all.append(&mut claims);
        let access = self.signing.sign(all)?;
        let for_cookie = match own_claims {
            Some(own_claims) if !self.cookies.fits(&access) => {
                tracing::warn!(
                    user = session.user_id,
                    "the token with custom claims is too long for a cookie; the cookie contains a token without custom claims"
                );
                Some(self.signing.sign(own_claims)?)
            }
            _ => None,
        };
        Ok(Tokens {
            access,
            for_cookie,
            // The expiry of the token, in whole seconds.
            expires_at: Timestamp::from_millis(seconds(expires_at) * 1000),
            refresh: refreshes
                .enabled
                .then(|| refresh::make(&self.ring, session, session.generation))
                .flatten(),
            handle: session.handle.clone(),
            refresh_until: crate::core::later(
                session.rotated_at,
                millis(refreshes.refresh_seconds),
            )
            .min(end),
        })
    }

    /// Sets the cookies of the tokens, if the transport uses cookies. The caller has put the tokens
    /// in the body.
    ///
    /// # Errors
    /// If the random source fails.
    pub(crate) fn attach_tokens(
        &self,
        reply: Reply,
        tokens: &Tokens,
        sid: &str,
        now: Timestamp,
    ) -> Result<Reply> {
        // The difference in whole seconds, as tokens count them.
        let seconds = |at: Timestamp| at.millis().div_euclid(1000) - now.millis().div_euclid(1000);
        let csrf = csrf::make(&self.env, &self.ring, sid)?;
        let refresh = match tokens.refresh.as_deref() {
            Some(token) => {
                let given = csrf::make(
                    &self.env,
                    &self.ring,
                    &csrf::refresh_subject(&tokens.handle),
                )?;
                Some((token, given, seconds(tokens.refresh_until)))
            }
            None => None,
        };
        let access = tokens.for_cookie.as_ref().unwrap_or(&tokens.access);
        Ok(self
            .cookies
            .set(reply, (access, seconds(tokens.expires_at)), refresh, &csrf))
    }

    /// The response of a sign-up whose address must be verified first.
    pub(crate) fn pending_verification(user: &User) -> Authenticated {
        Authenticated {
            token: String::new(),
            user_id: user.id.clone(),
            email: user.email.clone(),
            email_verified: Some(false),
            refresh_token: None,
            expires_at: None,
            device_token: None,
            deletion_scheduled_for: None,
            mfa_setup_required: None,
        }
    }

    /// The response for a session that continues under new tokens, for example after a step-up.
    ///
    /// # Errors
    /// If the tokens cannot be created.
    pub(crate) fn renewed(
        &self,
        client: &Client,
        session: &Session,
        sid: &str,
        step_up_at: Option<Timestamp>,
    ) -> Result<Reply> {
        let tokens = self.tokens(session, sid, client.now)?;
        let in_body = self.config.auth.session.transport.bodies();
        let message = if step_up_at.is_some() {
            "You have proved who you are."
        } else {
            "The password was set."
        };
        let reissued = Reissued {
            ok: true,
            message: message.to_owned(),
            token: if in_body {
                tokens.access.clone()
            } else {
                String::new()
            },
            refresh_token: tokens.refresh.clone().filter(|_| in_body),
            step_up_at,
            expires_at: tokens.expires_at,
        };
        self.attach_tokens(Reply::sparse(200, &reissued)?, &tokens, sid, client.now)
    }

    /// The response of a completed sign-in.
    pub(crate) fn authenticated(&self, user: &User, tokens: &Tokens) -> Authenticated {
        let in_body = self.config.auth.session.transport.bodies();
        Authenticated {
            token: if in_body {
                tokens.access.clone()
            } else {
                String::new()
            },
            user_id: user.id.clone(),
            email: user.email.clone(),
            email_verified: user
                .email
                .as_ref()
                .map(|_| user.email_verified_at.is_some()),
            refresh_token: tokens.refresh.clone().filter(|_| in_body),
            expires_at: Some(tokens.expires_at),
            device_token: None,
            deletion_scheduled_for: user.deletion_due_at,
            mfa_setup_required: self.must_enrol(user).then_some(true),
        }
    }

    /// Random bytes as text.
    ///
    /// # Errors
    /// If the random source fails.
    pub(crate) fn random_text<const N: usize>(&self) -> Result<String> {
        Ok(URL_SAFE_NO_PAD.encode(self.env.random::<N>()?))
    }
}
