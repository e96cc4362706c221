//! `JwtAuth`: bearer tokens signed with the app's secret, until a full authentication plugin takes over.

use std::sync::Arc;
use std::time::Duration;

use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation, decode, encode};
use quick_cache::sync::Cache;
use serde::{Deserialize, Serialize};

use crate::app::{Command, MiddlewareCx, Plugin, PostCx, SigningSecret};
use crate::http::{ActorResolver, Clock, Resolution, RouteAuth};
use crate::resource::BoxFuture;
use crate::{Actor, ActorKind, Code, Error, Result};

/// Verified tokens kept; each is some hundred bytes.
const CACHED: usize = 10_000;
/// Longest token looked at, in bytes.
const LONGEST: usize = 8 * 1024;

/// Resolves the actor from `Authorization: Bearer <token>`: HS256 with the app's signing secret, `exp` and `sub` required,
/// `nbf` honoured; `sid`, `roles` and `tenant` are taken over. Every other algorithm is refused.
///
/// A token that cannot be used is 401 on every route, public ones included: a caller who sends one means to be known. It
/// adds the command `token`, which mints one for trying out.
#[derive(Debug, Default)]
pub struct JwtAuth(());

impl JwtAuth {
    /// The plugin.
    pub fn new() -> Self {
        Self(())
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

impl Plugin for JwtAuth {
    fn name(&self) -> &'static str {
        "jwt-auth"
    }

    fn setup_middleware<'a>(&'a self, cx: &'a mut MiddlewareCx) -> BoxFuture<'a, Result<()>> {
        Box::pin(async {
            let verifier = Verifier::new(cx.signing_secrets(), Arc::clone(cx.clock()));
            cx.set_actor_resolver(Arc::new(verifier))
        })
    }

    fn setup_post<'a>(&'a self, cx: &'a mut PostCx) -> BoxFuture<'a, Result<()>> {
        Box::pin(async { cx.registrar().set_route_auth(RouteAuth::default()) })
    }

    fn commands(&self) -> Vec<Command> {
        vec![Command { name: "token", about: "mints a token: --sub NAME [--role R]… [--tenant T] [--ttl 1h]", run: Box::new(token) }]
    }
}

struct Verified {
    actor: Arc<Actor>,
    not_before: i64,
    expires: i64,
}

/// Verifies tokens and remembers those it has verified.
struct Verifier {
    keys: Vec<DecodingKey>,
    validation: Validation,
    clock: Clock,
    verified: Cache<Box<str>, Arc<Verified>>,
}

impl Verifier {
    fn new(secrets: &[SigningSecret], clock: Clock) -> Self {
        let mut validation = Validation::new(Algorithm::HS256);
        // Times are checked here, against the application's clock, on every use of a cached token as well.
        validation.validate_exp = false;
        validation.validate_nbf = false;
        validation.validate_aud = false;
        validation.set_required_spec_claims(&["exp", "sub"]);
        let keys = secrets.iter().map(|s| DecodingKey::from_secret(s.expose())).collect();
        Self { keys, validation, clock, verified: Cache::new(CACHED) }
    }

    fn actor(&self, token: &str) -> Result<Arc<Actor>> {
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
        let now = (self.clock)().millis().div_euclid(1000);
        if now >= verified.expires || now < verified.not_before {
            return Err(refused());
        }
        Ok(Arc::clone(&verified.actor))
    }

    fn verify(&self, token: &str) -> Result<Verified> {
        let claims = self.keys.iter().find_map(|key| decode::<Claims>(token, key, &self.validation).ok()).ok_or_else(refused)?.claims;
        if claims.sub.is_empty() || claims.sub.len() > 255 {
            return Err(refused());
        }
        let actor = Actor {
            id: Some(claims.sub),
            kind: ActorKind::User,
            tenant_id: claims.tenant,
            session_id: claims.sid,
            roles: claims.roles,
            claims: claims.others,
        };
        Ok(Verified { actor: Arc::new(actor), not_before: claims.nbf.unwrap_or(i64::MIN), expires: claims.exp })
    }
}

fn refused() -> Error {
    Error::new(Code::Unauthorized, "The token is not valid")
}

thread_local! {
    static ANONYMOUS: Arc<Actor> = Arc::new(Actor::anonymous());
}

impl ActorResolver for Verifier {
    fn resolve(&self, parts: &Parts) -> Resolution {
        let Some(header) = parts.headers.get(AUTHORIZATION) else {
            return Resolution::Ready(Ok(ANONYMOUS.with(Arc::clone)));
        };
        let token = header.to_str().ok().and_then(|text| {
            let (scheme, token) = text.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
        });
        Resolution::Ready(token.ok_or_else(refused).and_then(|token| self.actor(token)))
    }
}

/// `token --sub alice --role admin --tenant t --ttl 1h`
fn token(args: &[String], secrets: &[SigningSecret]) -> Result<String> {
    let usage = |what: String| Error::new(Code::Internal, format!("{what}\nusage: token --sub NAME [--role R]… [--tenant T] [--ttl 1h]"));
    let mut claims =
        Claims { sub: String::new(), exp: 0, nbf: None, sid: None, roles: Vec::new(), tenant: None, others: Default::default() };
    let mut ttl = Duration::from_secs(3600);
    let mut args = args.iter();
    while let Some(option) = args.next() {
        let value = args.next().ok_or_else(|| usage(format!("`{option}` needs a value")))?;
        match option.as_str() {
            "--sub" => claims.sub.clone_from(value),
            "--role" => claims.roles.push(value.clone()),
            "--tenant" => claims.tenant = Some(value.clone()),
            "--ttl" => ttl = duration(value).ok_or_else(|| usage(format!("`{value}` is no duration such as 90s, 15m, 1h or 7d")))?,
            _ => return Err(usage(format!("unknown option `{option}`"))),
        }
    }
    if claims.sub.is_empty() {
        return Err(usage("`--sub` is required".to_owned()));
    }
    claims.exp = crate::Timestamp::system_now().millis() / 1000 + ttl.as_secs() as i64;
    let Some(secret) = secrets.first() else { return Err(usage("no signing secret is configured".to_owned())) };
    encode(&Header::new(Algorithm::HS256), &claims, &EncodingKey::from_secret(secret.expose())).map_err(Error::internal)
}

fn duration(text: &str) -> Option<Duration> {
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit())?);
    let number: u64 = number.parse().ok()?;
    let unit = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        _ => return None,
    };
    number.checked_mul(unit).filter(|s| *s > 0 && *s < 1 << 32).map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Timestamp;

    const SECRET: &str = "a-secret-for-tests-of-32-bytes!!!!";
    const NOW: i64 = 1_800_000_000;

    fn verifier() -> Verifier {
        let secrets: Vec<_> = SigningSecret::new(SECRET).into_iter().collect();
        Verifier::new(&secrets, Arc::new(|| Timestamp::from_millis(NOW * 1000)))
    }

    fn signed(header: &Header, secret: &str, claims: &serde_json::Value) -> String {
        encode(header, claims, &EncodingKey::from_secret(secret.as_bytes())).unwrap_or_default()
    }

    fn hs256(claims: serde_json::Value) -> String {
        signed(&Header::new(Algorithm::HS256), SECRET, &claims)
    }

    #[test]
    fn takes_a_good_token_over() {
        let token = hs256(
            serde_json::json!({"sub": "alice", "exp": NOW + 1, "nbf": NOW, "sid": "s", "roles": ["admin"], "tenant": "t", "plan": "pro"}),
        );
        let verifier = verifier();
        for _ in 0..2 {
            let actor = verifier.actor(&token).ok();
            let actor = actor.as_deref();
            assert_eq!(actor.and_then(|a| a.id.as_deref()), Some("alice"));
            assert!(
                actor.is_some_and(|a| a.roles == ["admin"] && a.tenant_id.as_deref() == Some("t") && a.session_id.as_deref() == Some("s"))
            );
            assert!(actor.is_some_and(|a| a.claims["plan"] == "pro"));
        }
    }

    #[test]
    fn refuses_every_other_one() {
        let good = serde_json::json!({"sub": "alice", "exp": NOW + 100});
        let none = {
            use base64::Engine;
            let b64 = |t: &str| base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(t);
            format!("{}.{}.", b64(r#"{"alg":"none","typ":"JWT"}"#), b64(&good.to_string()))
        };
        let bad = [
            none,
            signed(&Header::new(Algorithm::HS384), SECRET, &good),
            signed(&Header::new(Algorithm::HS512), SECRET, &good),
            signed(&Header::new(Algorithm::HS256), "another-secret-of-at-least-32-bytes", &good),
            hs256(serde_json::json!({"sub": "alice", "exp": NOW})),
            hs256(serde_json::json!({"sub": "alice", "exp": NOW + 100, "nbf": NOW + 1})),
            hs256(serde_json::json!({"sub": "alice"})),
            hs256(serde_json::json!({"exp": NOW + 100})),
            hs256(serde_json::json!({"sub": "", "exp": NOW + 100})),
            hs256(serde_json::json!({"sub": 7, "exp": NOW + 100})),
            hs256(serde_json::json!({"sub": "alice", "exp": "never"})),
            String::new(),
            "a.b.c".to_owned(),
            "x".repeat(LONGEST + 1),
        ];
        let verifier = verifier();
        for token in bad {
            assert_eq!(verifier.actor(&token).err().map(|e| e.code()), Some(Code::Unauthorized), "{token}");
        }
    }

    #[test]
    fn a_cached_token_expires() {
        let now = Arc::new(std::sync::atomic::AtomicI64::new(NOW));
        let clock = Arc::clone(&now);
        let secrets: Vec<_> = SigningSecret::new(SECRET).into_iter().collect();
        let verifier =
            Verifier::new(&secrets, Arc::new(move || Timestamp::from_millis(clock.load(std::sync::atomic::Ordering::SeqCst) * 1000)));
        let token = hs256(serde_json::json!({"sub": "alice", "exp": NOW + 10}));
        assert!(verifier.actor(&token).is_ok());
        now.store(NOW + 10, std::sync::atomic::Ordering::SeqCst);
        assert!(verifier.actor(&token).is_err());
    }
}
