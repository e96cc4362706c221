//! The actor of a token: verified once, cached, and compared with the clock on every use.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use jsonwebtoken::{Algorithm, DecodingKey, Header, Validation, decode};
use linchpin_server::axum::http::HeaderMap;
use linchpin_server::axum::http::header::AUTHORIZATION;
use linchpin_server::axum::http::request::Parts;
use quick_cache::{Weighter, sync::Cache};

use linchpin_core::{Actor, ActorKind, Attached, Code, Error, Result};
use linchpin_server::SigningSecret;
use linchpin_server::http::{ActorResolver, Clock, Origin, Resolution};

use crate::{Claims, install_crypto};

/// Bytes of verified tokens kept.
const CACHED: u64 = 16 << 20;
/// The memory of a cached token besides its text, in bytes.
const OVERHEAD: u64 = 512;
/// How far the clocks of issuer and app may differ, in seconds.
pub(super) const LEEWAY: i64 = 10;
/// The maximum length of a token, in bytes.
pub(super) const LONGEST: usize = 8 * 1024;

pub(super) struct Verified {
    actor: Arc<Actor>,
    /// Its memory, in bytes.
    weight: u64,
    not_before: i64,
    expires: i64,
}

impl Verified {
    pub(super) fn actor(&self) -> Arc<Actor> {
        Arc::clone(&self.actor)
    }

    /// The second in which the token expires.
    pub(super) fn expires(&self) -> i64 {
        self.expires
    }
}

/// The credential of a request.
pub(super) enum Presented<'a> {
    Nothing,
    /// It is no token, for this reason.
    Unusable(Error),
    Token(&'a str),
}

/// The token in the headers of a request.
pub(super) fn presented(headers: &HeaderMap) -> Presented<'_> {
    let mut headers = headers.get_all(AUTHORIZATION).iter();
    let Some(header) = headers.next() else {
        return Presented::Nothing;
    };
    if headers.next().is_some() {
        // Two identities are none.
        return Presented::Unusable(refused());
    }
    let token = header.to_str().ok().and_then(|text| {
        let (scheme, token) = text.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
    });
    match token {
        Some(token) => Presented::Token(token),
        None => Presented::Unusable(Error::new(
            Code::Unauthorized,
            "The Authorization header must be `Bearer <token>`",
        )),
    }
}

/// Verifies tokens and remembers those it has verified.
pub(super) struct Verifier {
    keys: Vec<DecodingKey>,
    validation: Validation,
    clock: Clock,
    /// The latest second that the clock has shown: a clock that is set back makes no expired token
    /// good again.
    latest: AtomicI64,
    anonymous: Arc<Actor>,
    /// The key is the whole token, because another signature is another token. Only verified tokens
    /// are cached, so that a caller without the secret cannot evict others.
    pub(super) verified: Cache<Box<str>, Arc<Verified>, Weight>,
}

#[derive(Clone)]
pub(super) struct Weight;

impl Weighter<Box<str>, Arc<Verified>> for Weight {
    fn weight(&self, token: &Box<str>, verified: &Arc<Verified>) -> u64 {
        token.len() as u64 + verified.weight + OVERHEAD
    }
}

impl Verifier {
    pub(super) fn new(secrets: &[SigningSecret], clock: Clock) -> Self {
        install_crypto();
        let mut validation = Validation::new(Algorithm::HS256);
        // Times are checked here, against the application's clock, on every use of a cached token
        // as well.
        validation.validate_exp = false;
        validation.validate_nbf = false;
        validation.validate_aud = false;
        validation.set_required_spec_claims(&["exp", "sub"]);
        let keys = secrets
            .iter()
            .map(|s| DecodingKey::from_secret(s.expose()))
            .collect();
        Self {
            keys,
            validation,
            clock,
            latest: AtomicI64::new(i64::MIN),
            anonymous: Arc::new(Actor::anonymous()),
            verified: Cache::with_weighter((CACHED / (2 * OVERHEAD)) as usize, CACHED, Weight),
        }
    }

    pub(super) fn actor(&self, token: &str) -> Result<Arc<Actor>> {
        self.verified(token).map(|verified| verified.actor())
    }

    /// # Errors
    /// `unauthorized` if the token is not valid now.
    pub(super) fn verified(&self, token: &str) -> Result<Arc<Verified>> {
        if token.len() > LONGEST {
            return Err(refused());
        }
        let verified = match self.verified.get(token) {
            Some(verified) => verified,
            None => {
                let verified = Arc::new(self.verify(token)?);
                self.verified.insert(token.into(), Arc::clone(&verified));
                verified
            }
        };
        let mut now = (self.clock)().millis().div_euclid(1000);
        let latest = self.latest.load(Ordering::Relaxed);
        if now > latest {
            self.latest.fetch_max(now, Ordering::Relaxed);
        } else {
            now = latest;
        }
        if now >= verified.expires.saturating_add(LEEWAY) {
            return Err(Error::new(Code::Unauthorized, "The token has expired"));
        }
        if now < verified.not_before.saturating_sub(LEEWAY) {
            return Err(refused());
        }
        Ok(verified)
    }

    fn verify(&self, token: &str) -> Result<Verified> {
        let mut why = None;
        let read = |key: &DecodingKey| {
            decode::<Claims>(token, key, &self.validation)
                .map_err(|error| why = Some(error))
                .ok()
        };
        let Some(data) = self.keys.iter().find_map(read) else {
            // For readers of the log: the secret of another app, or a missing claim. The response
            // contains no reason.
            tracing::debug!(
                error = why.map(tracing::field::display),
                "a token was refused"
            );
            return Err(refused());
        };
        let claims = data.claims;
        let names = [
            Some(&claims.sub),
            claims.sid.as_ref(),
            claims.tenant.as_ref(),
        ];
        if !acceptable(&data.header)
            || !names
                .into_iter()
                .flatten()
                .chain(&claims.roles)
                .all(|name| is_name(name))
        {
            return Err(refused());
        }
        // Names are at most 255 bytes each; claims may be of any form, and an array of digits takes
        // sixteen times its text.
        let weight = claims
            .roles
            .iter()
            .map(|role| 32 + role.len() as u64)
            .sum::<u64>()
            + claims
                .others
                .iter()
                .map(|(name, value)| 64 + name.len() as u64 + weight(value))
                .sum::<u64>();
        let actor = Actor {
            id: Some(claims.sub),
            kind: ActorKind::User,
            tenant_id: claims.tenant,
            session_id: claims.sid,
            roles: claims.roles,
            claims: claims.others,
            attached: Attached::default(),
        };
        Ok(Verified {
            actor: Arc::new(actor),
            weight,
            not_before: claims.nbf.unwrap_or(i64::MIN),
            expires: claims.exp,
        })
    }
}

/// The approximate memory of a claim, in bytes. The parser has limited its depth.
fn weight(value: &serde_json::Value) -> u64 {
    use serde_json::Value;
    size_of::<Value>() as u64
        + match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => 0,
            Value::String(text) => text.len() as u64,
            Value::Array(items) => items.iter().map(weight).sum(),
            Value::Object(members) => members
                .iter()
                .map(|(name, value)| 64 + name.len() as u64 + weight(value))
                .sum(),
        }
}

/// Accepts a plain JWT only: no key in the header, and no critical extensions.
fn acceptable(header: &Header) -> bool {
    header
        .typ
        .as_deref()
        .is_none_or(|typ| typ.eq_ignore_ascii_case("JWT"))
        && header.crit.is_none()
        && header.jwk.is_none()
        && header.jku.is_none()
        && header.x5u.is_none()
        && header.x5c.is_none()
        && header.enc.is_none()
        && header.zip.is_none()
}

/// Texts that may be compared with and bound to stored ones.
fn is_name(text: &str) -> bool {
    !text.is_empty() && text.len() <= 255 && !text.contains(char::is_control)
}

/// One text for everything that is wrong with a token: an attacker learns nothing from it.
fn refused() -> Error {
    Error::new(Code::Unauthorized, "The token is not valid")
}

impl ActorResolver for Verifier {
    fn resolve(&self, parts: &Parts, _: Origin<'_>) -> Resolution {
        Resolution::Ready(match presented(&parts.headers) {
            Presented::Nothing => Ok(Arc::clone(&self.anonymous)),
            Presented::Unusable(error) => Err(error),
            Presented::Token(token) => self.actor(token),
        })
    }
}
