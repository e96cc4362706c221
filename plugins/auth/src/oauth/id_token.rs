//! Validation of ID tokens (OpenID Connect Core 3.1.3.7), with the plugin's clock.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use linchpin::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::discovery::{Key, Metadata, TENANT, is_tenant};
use super::preset::CONSUMERS;
use super::{Dialect, Failure};
use crate::keys::claims;
use crate::secret::same;

/// Maximum difference between two clocks in seconds.
const LEEWAY: i64 = 30;

/// The accepted algorithms, by their names in tokens. All use public keys.
const ALGORITHMS: [(&str, Algorithm); 4] = [
    ("RS256", Algorithm::RS256),
    ("PS256", Algorithm::PS256),
    ("ES256", Algorithm::ES256),
    ("EdDSA", Algorithm::EdDSA),
];

pub(super) type Claims = Map<String, Value>;

/// The required content of a token.
pub(super) struct Expected<'a> {
    pub(super) client_id: &'a str,
    pub(super) nonce: &'a str,
    pub(super) dialect: &'a Dialect,
    pub(super) metadata: &'a Metadata,
}

#[derive(Deserialize)]
struct RawHeader {
    alg: String,
    kid: Option<String>,
    crit: Option<Value>,
}

fn header(token: &str) -> Result<RawHeader, Failure> {
    let unreadable = Failure("the id_token cannot be read");
    let header = token
        .split('.')
        .next()
        .and_then(|part| URL_SAFE_NO_PAD.decode(part).ok())
        .ok_or(unreadable)?;
    serde_json::from_slice(&header).map_err(|_| unreadable)
}

/// The key id in a token's header.
pub(super) fn kid(token: &str) -> Result<Option<String>, Failure> {
    Ok(header(token)?.kid)
}

/// Validates a token and returns its claims.
pub(super) fn verify(
    token: &str,
    keys: &[Key],
    expected: &Expected<'_>,
    now: Timestamp,
) -> Result<Claims, Failure> {
    let header = header(token)?;
    if header.crit.is_some() {
        return Err(Failure("the id_token has an unknown critical header"));
    }
    let (name, algorithm) = ALGORITHMS
        .into_iter()
        .find(|(name, _)| *name == header.alg)
        .ok_or(Failure(
            "the id_token is signed with an algorithm that is not accepted",
        ))?;
    let (key, claims) = verified_claims(token, keys, header.kid.as_deref(), name, algorithm)?;
    let text = |name: &str| claims.get(name).and_then(Value::as_str);
    let issuer = issuer(&claims, expected)?;
    if text("iss") != Some(issuer.as_str())
        || key
            .issuer
            .as_ref()
            .is_some_and(|key_issuer| !is_for(key_issuer, &issuer))
    {
        return Err(Failure("the id_token is from another issuer"));
    }
    let audiences: Vec<&Value> = match claims.get("aud") {
        Some(Value::Array(several)) => several.iter().collect(),
        Some(one) => vec![one],
        None => Vec::new(),
    };
    let party = text("azp");
    let is_for_client = audiences
        .iter()
        .any(|audience| audience.as_str() == Some(expected.client_id));
    if !is_for_client
        || (audiences.len() > 1 && party.is_none())
        || (claims.contains_key("azp") && party != Some(expected.client_id))
    {
        return Err(Failure("the id_token is for another client"));
    }
    let seconds = now.millis().div_euclid(1000);
    let time = |name: &str| {
        claims
            .get(name)
            .and_then(Value::as_f64)
            .map(|seconds| seconds as i64)
    };
    let valid_from = time("iat")
        .ok_or(Failure("the id_token has no issue time"))?
        .max(time("nbf").unwrap_or(i64::MIN));
    if valid_from > seconds.saturating_add(LEEWAY)
        || time("exp").is_none_or(|end| seconds >= end.saturating_add(LEEWAY))
    {
        return Err(Failure(
            "the id_token is expired, not valid yet, or has no expiry time",
        ));
    }
    let nonce_matches = match text("nonce") {
        Some(nonce) => same(nonce.as_bytes(), expected.nonce.as_bytes()),
        None => *expected.dialect == Dialect::NoNonce && !claims.contains_key("nonce"),
    };
    if !nonce_matches {
        return Err(Failure(
            "the id_token does not have the nonce of this sign-in",
        ));
    }
    Ok(claims)
}

/// The claims of a token whose signature one of the keys verifies.
fn verified_claims<'k>(
    token: &str,
    keys: &'k [Key],
    kid: Option<&str>,
    name: &str,
    algorithm: Algorithm,
) -> Result<(&'k Key, Claims), Failure> {
    let fits = |key: &&Key| {
        is_for_algorithm(&key.jwk, name) && kid.is_none_or(|kid| key.kid.as_deref() == Some(kid))
    };
    let mut found = keys.iter().filter(fits);
    let (key, second) = (
        found
            .next()
            .ok_or(Failure("the id_token is signed by an unknown key"))?,
        found.next(),
    );
    if second.is_some() {
        return Err(Failure("the id_token matches several keys of the issuer"));
    }
    let mut validation = Validation::new(algorithm);
    // The library checks the signature only; the claims are checked with the plugin's clock.
    validation.validate_exp = false;
    validation.validate_nbf = false;
    validation.validate_aud = false;
    validation.required_spec_claims.clear();
    let verifier =
        DecodingKey::from_jwk(&key.jwk).map_err(|_| Failure("a key of the issuer is unusable"))?;
    let claims = jsonwebtoken::decode::<claims::Claims>(token, &verifier, &validation);
    let claims = claims
        .map_err(|_| Failure("the id_token has an invalid signature or unreadable claims"))?;
    Ok((key, claims.claims.0))
}

/// Whether a key can verify this algorithm: it has the right type and names no other algorithm.
fn is_for_algorithm(jwk: &Jwk, name: &str) -> bool {
    use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve};
    let fits = match &jwk.algorithm {
        AlgorithmParameters::RSA(_) => matches!(name, "RS256" | "PS256"),
        AlgorithmParameters::EllipticCurve(key) => {
            name == "ES256" && key.curve == EllipticCurve::P256
        }
        AlgorithmParameters::OctetKeyPair(key) => {
            name == "EdDSA" && key.curve == EllipticCurve::Ed25519
        }
        _ => false,
    };
    fits && jwk
        .common
        .key_algorithm
        .is_none_or(|algorithm| algorithm.to_string() == name)
}

/// The required issuer of a token. For Microsoft it depends on the tenant in the token.
fn issuer(claims: &Claims, expected: &Expected<'_>) -> Result<String, Failure> {
    let Dialect::Microsoft { tenant: configured } = expected.dialect else {
        return Ok(expected.metadata.issuer.clone());
    };
    let tenant = claims
        .get("tid")
        .and_then(Value::as_str)
        .filter(|tenant| is_tenant(tenant));
    let tenant = tenant.ok_or(Failure("the id_token names no tenant"))?;
    let allowed = match configured.as_str() {
        "organizations" => tenant != CONSUMERS,
        "consumers" => tenant == CONSUMERS,
        _ => true,
    };
    if allowed {
        Ok(expected.metadata.issuer_of(tenant))
    } else {
        Err(Failure("the id_token is from a tenant that is not allowed"))
    }
}

/// Whether the issuer that a key names is this issuer. The key may name it with [`TENANT`] in place
/// of the tenant.
fn is_for(key_issuer: &str, issuer: &str) -> bool {
    match key_issuer.split_once(TENANT) {
        Some((front, back)) => issuer
            .strip_prefix(front)
            .and_then(|rest| rest.strip_suffix(back))
            .is_some_and(is_tenant),
        None => key_issuer == issuer,
    }
}
