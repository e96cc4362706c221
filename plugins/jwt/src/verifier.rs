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

/// The maximum size of the cache of verified tokens, in bytes.
const MAX_CACHE_BYTES: u64 = 16 << 20;
/// The memory of a cached token in addition to its text, in bytes.
const OVERHEAD: u64 = 512;
/// The maximum difference between the clocks of the issuer and the app, in seconds.
pub(super) const LEEWAY: i64 = 10;
/// The maximum length of a token, in bytes.
pub(super) const MAX_TOKEN_BYTES: usize = 8 * 1024;

pub(super) struct Verified {
    actor: Arc<Actor>,
    /// Its memory, in bytes.
    weight: u64,
    /// In seconds since 1970, like `expires`.
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
    /// The header contains no token, for this reason.
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
        // Two headers could name two callers.
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

/// Verifies tokens, and caches verified ones.
pub(super) struct Verifier {
    keys: Vec<DecodingKey>,
    validation: Validation,
    clock: Clock,
    /// The latest second that the clock has shown. An expired token stays expired after the clock
    /// is set back.
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
        // `verified` checks the times with the app's clock on every use, also of cached tokens.
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
            verified: Cache::with_weighter(
                (MAX_CACHE_BYTES / (2 * OVERHEAD)) as usize,
                MAX_CACHE_BYTES,
                Weight,
            ),
        }
    }

    pub(super) fn actor(&self, token: &str) -> Result<Arc<Actor>> {
        self.verified(token).map(|verified| verified.actor())
    }

    /// Verifies a token, or finds it in the cache, and checks its times.
    ///
    /// # Errors
    /// `unauthorized` if the token is not valid now.
    pub(super) fn verified(&self, token: &str) -> Result<Arc<Verified>> {
        if token.len() > MAX_TOKEN_BYTES {
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
            // Only the log contains the reason, such as another secret or a missing claim.
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
        // A role has at most 255 bytes. Other claims may have any form; an array of digits takes
        // sixteen times the memory of its text.
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

/// Whether a text can be an id, a session, a tenant or a role: 1 to 255 bytes without control
/// characters.
fn is_name(text: &str) -> bool {
    !text.is_empty() && text.len() <= 255 && !text.contains(char::is_control)
}

/// The error for an invalid token. It has no reason, so that it reveals nothing to an attacker.
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
