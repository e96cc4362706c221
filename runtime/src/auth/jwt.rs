//! `JwtAuth`: bearer tokens signed with the app's secret, for apps whose users are known elsewhere.

use std::sync::Arc;
use std::time::Duration;

use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation, decode, encode};
use quick_cache::{Weighter, sync::Cache};
use serde::{Deserialize, Serialize};

use crate::app::{Command, MiddlewareCx, Plugin, PostCx, SigningSecret, did_you_mean};
use crate::http::{ActorResolver, Clock, Origin, Resolution, RouteAuth};
use crate::resource::BoxFuture;
use crate::{Actor, ActorKind, Code, Error, Result};

/// Bytes of verified tokens kept.
const CACHED: u64 = 16 << 20;
/// What a kept token costs besides its text, in bytes.
const OVERHEAD: u64 = 512;
/// How far the clocks of issuer and app may differ, in seconds.
const LEEWAY: i64 = 10;
/// Longest token looked at, in bytes.
const LONGEST: usize = 8 * 1024;

/// Resolves the actor from `Authorization: Bearer <token>`: HS256 with the app's signing secret, `exp` and `sub` required,
/// `nbf` honoured, both with 10 s of leeway; `sid`, `roles` and `tenant` are taken over. Every other algorithm is refused, and
/// so are headers that bring keys (`jwk`, `jku`, `x5u`, `x5c`) or extensions (`crit`).
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

    /// A token for `actor`, good from now on for `ttl`: id, session, roles and tenant become its claims. For tests, and for
    /// services of yours that may say who calls.
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
    /// When the actor has no id, or the secret is shorter than 32 bytes.
    pub fn token(secret: &str, actor: &Actor, ttl: Duration) -> Result<String> {
        let secret = SigningSecret::new(secret).map_err(|why| Error::new(Code::Internal, why))?;
        let Some(sub) = actor.id.clone() else {
            return Err(Error::new(Code::Internal, "a token is for an actor with an id"));
        };
        Claims { sid: actor.session_id.clone(), roles: actor.roles.clone(), tenant: actor.tenant_id.clone(), ..Claims::of(sub) }
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
        Self { sub, exp: 0, nbf: None, sid: None, roles: Vec::new(), tenant: None, others: std::collections::BTreeMap::new() }
    }

    fn signed(mut self, ttl: Duration, secret: &SigningSecret) -> Result<String> {
        let seconds = i64::try_from(ttl.as_secs()).unwrap_or(i64::MAX);
        self.exp = (crate::Timestamp::system_now().millis() / 1000).saturating_add(seconds);
        install_crypto();
        encode(&Header::new(Algorithm::HS256), &self, &EncodingKey::from_secret(secret.expose())).map_err(Error::internal)
    }
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
        vec![Command::alone("token", "mints a token: --sub NAME [--role R]… [--tenant T] [--sid S] [--ttl 1h]", token)]
    }
}

struct Verified {
    actor: Arc<Actor>,
    /// What it holds in memory, in bytes.
    weight: u64,
    not_before: i64,
    expires: i64,
}

/// Verifies tokens and remembers those it has verified.
struct Verifier {
    keys: Vec<DecodingKey>,
    validation: Validation,
    clock: Clock,
    anonymous: Arc<Actor>,
    /// Keyed by the whole token: another signature is another token. Only verified ones get in, so that nobody without a
    /// secret can push others out.
    verified: Cache<Box<str>, Arc<Verified>, Weight>,
}

#[derive(Clone)]
struct Weight;

impl Weighter<Box<str>, Arc<Verified>> for Weight {
    fn weight(&self, token: &Box<str>, verified: &Arc<Verified>) -> u64 {
        token.len() as u64 + verified.weight + OVERHEAD
    }
}

impl Verifier {
    fn new(secrets: &[SigningSecret], clock: Clock) -> Self {
        install_crypto();
        let mut validation = Validation::new(Algorithm::HS256);
        // Times are checked here, against the application's clock, on every use of a cached token as well.
        validation.validate_exp = false;
        validation.validate_nbf = false;
        validation.validate_aud = false;
        validation.set_required_spec_claims(&["exp", "sub"]);
        let keys = secrets.iter().map(|s| DecodingKey::from_secret(s.expose())).collect();
        Self {
            keys,
            validation,
            clock,
            anonymous: Arc::new(Actor::anonymous()),
            verified: Cache::with_weighter((CACHED / (2 * OVERHEAD)) as usize, CACHED, Weight),
        }
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
        if now >= verified.expires.saturating_add(LEEWAY) {
            return Err(Error::new(Code::Unauthorized, "The token has expired"));
        }
        if now < verified.not_before.saturating_sub(LEEWAY) {
            return Err(refused());
        }
        Ok(Arc::clone(&verified.actor))
    }

    fn verify(&self, token: &str) -> Result<Verified> {
        let mut why = None;
        let read = |key: &DecodingKey| decode::<Claims>(token, key, &self.validation).map_err(|error| why = Some(error)).ok();
        let Some(data) = self.keys.iter().find_map(read) else {
            // For whoever reads the log: another folder's secret, a missing claim. The answer says nothing of it.
            tracing::debug!(error = why.map(tracing::field::display), "a token was refused");
            return Err(refused());
        };
        let claims = data.claims;
        let names = [Some(&claims.sub), claims.sid.as_ref(), claims.tenant.as_ref()];
        if !acceptable(&data.header) || !names.into_iter().flatten().chain(&claims.roles).all(|name| is_name(name)) {
            return Err(refused());
        }
        // Names are at most 255 bytes each; claims may be of any form, and an array of digits takes sixteen times its text.
        let weight = claims.roles.iter().map(|role| 32 + role.len() as u64).sum::<u64>()
            + claims.others.iter().map(|(name, value)| 64 + name.len() as u64 + weight(value)).sum::<u64>();
        let actor = Actor {
            id: Some(claims.sub),
            kind: ActorKind::User,
            tenant_id: claims.tenant,
            session_id: claims.sid,
            roles: claims.roles,
            claims: claims.others,
            attached: crate::Attached::default(),
        };
        Ok(Verified { actor: Arc::new(actor), weight, not_before: claims.nbf.unwrap_or(i64::MIN), expires: claims.exp })
    }
}

/// About what a claim holds in memory, in bytes. Reading it has bounded its depth.
fn weight(value: &serde_json::Value) -> u64 {
    use serde_json::Value;
    size_of::<Value>() as u64
        + match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => 0,
            Value::String(text) => text.len() as u64,
            Value::Array(items) => items.iter().map(weight).sum(),
            Value::Object(members) => members.iter().map(|(name, value)| 64 + name.len() as u64 + weight(value)).sum(),
        }
}

/// The cryptography of tokens, installed by name: when another crate of the build switches on a second backend, choosing by
/// feature would panic at first use. Whoever installed one first keeps it.
fn install_crypto() {
    let _ = jsonwebtoken::crypto::aws_lc::DEFAULT_PROVIDER.install_default();
}

/// A plain JWT: it brings no key of its own, and asks for nothing we would have to understand.
fn acceptable(header: &Header) -> bool {
    header.typ.as_deref().is_none_or(|typ| typ.eq_ignore_ascii_case("JWT"))
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
        let mut headers = parts.headers.get_all(AUTHORIZATION).iter();
        let Some(header) = headers.next() else {
            return Resolution::Ready(Ok(Arc::clone(&self.anonymous)));
        };
        if headers.next().is_some() {
            // Two identities are none.
            return Resolution::Ready(Err(refused()));
        }
        let token = header.to_str().ok().and_then(|text| {
            let (scheme, token) = text.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
        });
        let no_bearer = || Error::new(Code::Unauthorized, "The Authorization header must be `Bearer <token>`");
        Resolution::Ready(token.ok_or_else(no_bearer).and_then(|token| self.actor(token)))
    }
}

/// `token --sub alice --role admin --tenant t --ttl 1h`
fn token(args: &[String], secrets: &[SigningSecret]) -> Result<String> {
    let usage =
        |what: String| Error::new(Code::Internal, format!("{what}\nusage: token --sub NAME [--role R]… [--tenant T] [--sid S] [--ttl 1h]"));
    let mut claims = Claims::of(String::new());
    let mut ttl = Duration::from_hours(1);
    let mut args = args.iter();
    while let Some(option) = args.next() {
        const OPTIONS: [&str; 5] = ["--sub", "--role", "--tenant", "--sid", "--ttl"];
        if !OPTIONS.contains(&option.as_str()) {
            return Err(usage(format!("unknown option `{option}`{}", did_you_mean(option, OPTIONS))));
        }
        let value = args.next().ok_or_else(|| usage(format!("`{option}` needs a value")))?;
        match option.as_str() {
            "--sub" => claims.sub.clone_from(value),
            "--role" => claims.roles.push(value.clone()),
            "--tenant" => claims.tenant = Some(value.clone()),
            "--sid" => claims.sid = Some(value.clone()),
            _ => ttl = duration(value).ok_or_else(|| usage(format!("`{value}` is no duration such as 90s, 15m, 1h or 7d")))?,
        }
    }
    if claims.sub.is_empty() {
        return Err(usage("`--sub` is required".to_owned()));
    }
    let Some(secret) = secrets.first() else { return Err(usage("no signing secret is configured".to_owned())) };
    claims.signed(ttl, secret)
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
            signed(&Header { typ: Some("at+jwt".into()), ..Header::new(Algorithm::HS256) }, SECRET, &good),
            signed(&Header { typ: None, crit: Some(vec!["exp".into()]), ..Header::new(Algorithm::HS256) }, SECRET, &good),
            signed(&Header { jku: Some("https://evil.example".into()), ..Header::new(Algorithm::HS256) }, SECRET, &good),
            hs256(serde_json::json!({"sub": "alice", "exp": NOW - LEEWAY})),
            hs256(serde_json::json!({"sub": "alice", "exp": i64::MIN})),
            hs256(serde_json::json!({"sub": "alice", "exp": NOW + 100, "nbf": NOW + LEEWAY + 1})),
            hs256(serde_json::json!({"sub": "alice", "exp": NOW + 100, "nbf": i64::MAX})),
            hs256(serde_json::json!({"sub": "alice", "exp": NOW + 100, "nbf": "now"})),
            hs256(serde_json::json!({"sub": "alice", "exp": NOW + 100, "roles": "admin"})),
            hs256(serde_json::json!({"sub": "alice", "exp": NOW + 100, "roles": [1]})),
            hs256(serde_json::json!({"sub": "a\u{0}b", "exp": NOW + 100})),
            hs256(serde_json::json!({"sub": "a\nb", "exp": NOW + 100})),
            hs256(serde_json::json!({"sub": "a\u{7f}", "exp": NOW + 100})),
            hs256(serde_json::json!({"sub": "alice", "sid": "\u{1b}[2J", "exp": NOW + 100})),
            hs256(serde_json::json!({"sub": "alice", "roles": ["a\u{85}b"], "exp": NOW + 100})),
            hs256(serde_json::json!({"sub": "alice", "exp": NOW + 100, "tenant": ""})),
            hs256(serde_json::json!({"sub": "alice"})),
            hs256(serde_json::json!({"exp": NOW + 100})),
            hs256(serde_json::json!({"sub": "", "exp": NOW + 100})),
            hs256(serde_json::json!({"sub": 7, "exp": NOW + 100})),
            hs256(serde_json::json!({"sub": "alice", "exp": "never"})),
            String::new(),
            "a.b.c".to_owned(),
            "..".to_owned(),
            format!("{}.", hs256(good.clone())),
            hs256(good.clone()).rsplit_once('.').map(|(body, _)| format!("{body}.")).unwrap_or_default(),
            "x".repeat(LONGEST + 1),
        ];
        let verifier = verifier();
        for token in bad {
            assert_eq!(verifier.actor(&token).err().map(|e| e.code()), Some(Code::Unauthorized), "{token}");
        }
    }

    #[test]
    fn the_first_secret_signs_and_all_verify() {
        let secrets: Vec<_> =
            ["a-new-secret-for-tests-of-32-bytes", SECRET].into_iter().filter_map(|s| SigningSecret::new(s).ok()).collect();
        let verifier = Verifier::new(&secrets, Arc::new(Timestamp::system_now));
        let args = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let new = token(&args("--sub alice --role admin --role editor --tenant t --sid s --ttl 90s"), &secrets).unwrap();
        let old = token(&args("--sub bob"), &secrets[1..]).unwrap();
        let alice = verifier.actor(&new).unwrap();
        assert_eq!((alice.id.as_deref(), alice.tenant_id.as_deref(), alice.session_id.as_deref()), (Some("alice"), Some("t"), Some("s")));
        assert_eq!(alice.roles, ["admin", "editor"]);
        assert_eq!(verifier.actor(&old).unwrap().id.as_deref(), Some("bob"));
        assert!(Verifier::new(&secrets[1..], Arc::new(Timestamp::system_now)).actor(&new).is_err(), "the new secret is unknown to it");
        for (line, text) in [
            ("--role a", "`--sub` is required"),
            ("--sub", "needs a value"),
            ("--sub a --rol b", "did you mean `--role`?"),
            ("--sub a --ttl 10", "no duration"),
        ] {
            let error = token(&args(line), &secrets).unwrap_err();
            assert!(error.to_string().contains(text), "{line}: {error}");
        }
    }

    #[test]
    fn headers_are_one_bearer_token_or_none() {
        let verifier = verifier();
        let good = hs256(serde_json::json!({"sub": "alice", "exp": NOW + 1}));
        let resolve = |headers: &[&str]| {
            let mut request = axum::http::Request::builder();
            for header in headers {
                request = request.header(AUTHORIZATION, *header);
            }
            let origin = Origin { request_id: &crate::http::RequestId::of(&axum::http::HeaderMap::new()), from: None };
            match verifier.resolve(&request.body(()).unwrap().into_parts().0, origin) {
                Resolution::Ready(actor) => actor.map(|a| a.id.clone()).map_err(|e| e.code()),
                Resolution::Later(_) => panic!("known at once"),
            }
        };
        assert_eq!(resolve(&[]), Ok(None));
        assert_eq!(resolve(&[&format!("bEARER {good}")]), Ok(Some("alice".to_owned())));
        let bearer = format!("Bearer {good}");
        for bad in [&["Bearer"][..], &["Bearer "], &[""], &["Basic YTpi"], &[&good], &[&bearer, &bearer], &["Bearer a b"]] {
            assert_eq!(resolve(bad), Err(Code::Unauthorized), "{bad:?}");
        }
    }

    #[test]
    fn large_claims_weigh_what_they_hold() {
        let verifier = verifier();
        let token = hs256(serde_json::json!({"sub": "alice", "exp": NOW + 10, "list": vec![1; 2000]}));
        assert!(verifier.actor(&token).is_ok() && token.len() < LONGEST);
        assert!(verifier.verified.weight() >= 2000 * size_of::<serde_json::Value>() as u64, "{}", verifier.verified.weight());
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
        now.store(NOW + 10 + LEEWAY, std::sync::atomic::Ordering::SeqCst);
        assert!(verifier.actor(&token).is_err());
    }
}
