//! The ring of keys that sign and verify access tokens: the one place that decides whether a token
//! is one of ours.

use std::collections::HashMap;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::jwk::{AlgorithmParameters, Jwk};
use jsonwebtoken::{DecodingKey, EncodingKey, Header, Validation};
use linchpin::{Error, Result, Timestamp};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::claims::Claims;
use super::derive::Ring;

/// Longest token looked at, in bytes.
const LONGEST: usize = 8 * 1024;
/// How far the clocks of two nodes may differ, in seconds.
const LEEWAY: i64 = 10;
/// Smallest modulus of an RSA key, in bytes: 2048 bits.
const SMALLEST_RSA: usize = 256;

/// How access tokens are signed: `signing.algorithm`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Algorithm {
    /// With the signing secret: whoever verifies could sign as well.
    #[default]
    Hs256,
    /// Ed25519.
    EdDsa,
    /// RSA with SHA-256.
    Rs256,
}

impl Algorithm {
    fn name(self) -> &'static str {
        match self {
            Self::Hs256 => "HS256",
            Self::EdDsa => "EdDSA",
            Self::Rs256 => "RS256",
        }
    }

    fn library(self) -> jsonwebtoken::Algorithm {
        match self {
            Self::Hs256 => jsonwebtoken::Algorithm::HS256,
            Self::EdDsa => jsonwebtoken::Algorithm::EdDSA,
            Self::Rs256 => jsonwebtoken::Algorithm::RS256,
        }
    }
}

/// A key as configured: the private one signs and verifies, a public one verifies what an earlier
/// key has signed.
#[derive(Clone)]
pub enum SigningKey {
    /// PEM of a private key in PKCS#8.
    Private {
        /// The id that tokens name it by.
        kid: String,
        /// The text.
        pem: String,
    },
    /// PEM of a public key.
    Public {
        /// The id that tokens name it by.
        kid: String,
        /// The text.
        pem: String,
    },
}

impl SigningKey {
    /// The id.
    pub fn kid(&self) -> &str {
        match self {
            Self::Private { kid, .. } | Self::Public { kid, .. } => kid,
        }
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SigningKey").field(&self.kid()).finish()
    }
}

/// The keys of access tokens.
pub(crate) struct Signing {
    algorithm: Algorithm,
    kid: String,
    signer: EncodingKey,
    /// By id, an opaque text.
    verifiers: HashMap<String, DecodingKey>,
    validation: Validation,
    issuer: Option<String>,
    audience: Option<String>,
    /// The public keys; `None` when there are none.
    jwks: Option<String>,
}

impl fmt::Debug for Signing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signing")
            .field("algorithm", &self.algorithm)
            .field("kid", &self.kid)
            .finish_non_exhaustive()
    }
}

/// What a token must say of itself, and all that it may say.
#[derive(Deserialize)]
struct RawHeader {
    typ: String,
    alg: String,
    kid: String,
    #[serde(flatten)]
    others: Map<String, Value>,
}

/// What brings keys, or asks for something we would have to understand.
const FORBIDDEN: [&str; 7] = ["crit", "jwk", "jku", "x5u", "x5c", "enc", "zip"];

impl Signing {
    /// With the secrets themselves, newest first, so that any library can verify.
    ///
    /// # Errors
    /// When there is no secret.
    pub(crate) fn hs256(secrets: &[Vec<u8>], ring: &Ring) -> Result<Self, String> {
        let first = secrets.first().ok_or("a signing secret is required")?;
        let verifiers = ring
            .kids()
            .map(str::to_owned)
            .zip(secrets.iter().map(|s| DecodingKey::from_secret(s)))
            .collect();
        Ok(Self::new(
            Algorithm::Hs256,
            ring.kid().to_owned(),
            EncodingKey::from_secret(first),
            verifiers,
            None,
        ))
    }

    /// With a key pair; keys are newest first.
    ///
    /// # Errors
    /// What is wrong with which key.
    pub(crate) fn asymmetric(algorithm: Algorithm, keys: &[SigningKey]) -> Result<Self, String> {
        install_crypto();
        let Some(SigningKey::Private { kid, .. }) = keys.first() else {
            return Err("the first key must be a private one".to_owned());
        };
        let mut signer = None;
        let mut verifiers = HashMap::new();
        let mut public = Vec::new();
        for key in keys {
            let named = |what: &str| format!("key `{}` {what}", key.kid());
            // The library reads no private key of RSA that is shorter.
            let size = if algorithm == Algorithm::Rs256 {
                ", of 2048 bits at least"
            } else {
                ""
            };
            let (jwk, private) = public_part(algorithm, key)
                .map_err(|()| named(&format!("is no {} key in PEM{size}", algorithm.name())))?;
            if let AlgorithmParameters::RSA(rsa) = &jwk.algorithm
                && URL_SAFE_NO_PAD.decode(&rsa.n).map_or(0, |n| n.len()) < SMALLEST_RSA
            {
                return Err(named("is shorter than 2048 bits"));
            }
            let verifier = DecodingKey::from_jwk(&jwk).map_err(|_| named("cannot verify"))?;
            if verifiers.insert(key.kid().to_owned(), verifier).is_some() {
                return Err(named("stands there twice"));
            }
            let mut shown = serde_json::to_value(&jwk).map_err(|e| e.to_string())?;
            shown["kid"] = json!(key.kid());
            shown["use"] = json!("sig");
            shown["alg"] = json!(algorithm.name());
            public.push(shown);
            if signer.is_none() {
                signer = private;
            }
        }
        let signer = signer.ok_or("the first key must be a private one")?;
        Ok(Self::new(
            algorithm,
            kid.clone(),
            signer,
            verifiers,
            Some(json!({ "keys": public }).to_string()),
        ))
    }

    fn new(
        algorithm: Algorithm,
        kid: String,
        signer: EncodingKey,
        verifiers: HashMap<String, DecodingKey>,
        jwks: Option<String>,
    ) -> Self {
        install_crypto();
        let mut validation = Validation::new(algorithm.library());
        // Everything but the signature is checked below, in the contract's order and against the
        // plugin's clock.
        validation.validate_exp = false;
        validation.validate_nbf = false;
        validation.validate_aud = false;
        validation.required_spec_claims.clear();
        Self {
            algorithm,
            kid,
            signer,
            verifiers,
            validation,
            issuer: None,
            audience: None,
            jwks,
        }
    }

    /// Puts these in every token, and requires them.
    #[must_use]
    pub(crate) fn meant(self, issuer: Option<String>, audience: Option<String>) -> Self {
        Self {
            issuer,
            audience,
            ..self
        }
    }

    /// The public keys as a JWK set; `None` for HS256, whose keys are nobody's business.
    pub(crate) fn jwks(&self) -> Option<&str> {
        self.jwks.as_deref()
    }

    /// Signs claims.
    ///
    /// # Errors
    /// `internal` when the library cannot.
    pub(crate) fn sign(&self, mut claims: Map<String, Value>) -> Result<String> {
        if let Some(issuer) = &self.issuer {
            claims.insert("iss".to_owned(), json!(issuer));
        }
        if let Some(audience) = &self.audience {
            claims.insert("aud".to_owned(), json!(audience));
        }
        let mut header = Header::new(self.algorithm.library());
        header.kid = Some(self.kid.clone());
        jsonwebtoken::encode(&header, &claims, &self.signer).map_err(Error::internal)
    }

    /// The claims of a token of ours, whatever its times; `None` for everything else.
    fn signed(&self, token: &str) -> Option<Map<String, Value>> {
        if token.len() > LONGEST || token.bytes().filter(|b| *b == b'.').count() != 2 {
            return None;
        }
        let header = URL_SAFE_NO_PAD.decode(token.split('.').next()?).ok()?;
        let header: RawHeader = serde_json::from_slice(&header).ok()?;
        if header.typ != "JWT"
            || FORBIDDEN
                .iter()
                .any(|name| header.others.contains_key(*name))
        {
            return None;
        }
        let key = self.verifiers.get(&header.kid)?;
        // The key decides, never the token.
        if header.alg != self.algorithm.name() {
            return None;
        }
        jsonwebtoken::decode::<Claims>(token, key, &self.validation)
            .ok()
            .map(|data| data.claims.0)
    }

    /// Verifies a token, all but its session.
    pub(crate) fn verify(&self, token: &str, now: Timestamp) -> Option<Verified> {
        let verified = self.verify_expired(token, now)?;
        verified.is_current(now).then_some(verified)
    }

    /// Verifies a token that may have expired: it still says which session to end.
    pub(crate) fn verify_expired(&self, token: &str, now: Timestamp) -> Option<Verified> {
        let claims = self.signed(token)?;
        let time = |name: &str| claims.get(name).and_then(Value::as_i64);
        let text = |name: &str| {
            claims
                .get(name)
                .and_then(Value::as_str)
                .filter(|t| !t.is_empty() && t.len() <= 255 && !t.contains('\0'))
        };
        let (exp, nbf, iat) = (time("exp")?, time("nbf")?, time("iat")?);
        let seconds = now.millis().div_euclid(1000);
        if nbf.max(iat) > seconds.saturating_add(LEEWAY) {
            return None;
        }
        if self
            .issuer
            .as_deref()
            .is_some_and(|issuer| claims.get("iss").and_then(Value::as_str) != Some(issuer))
        {
            return None;
        }
        if self
            .audience
            .as_deref()
            .is_some_and(|audience| claims.get("aud").and_then(Value::as_str) != Some(audience))
        {
            return None;
        }
        Some(Verified {
            sub: text("sub")?.to_owned(),
            sid: text("sid")?.to_owned(),
            exp,
            nbf: nbf.max(iat),
            claims,
        })
    }
}

/// A token of ours.
#[derive(Debug)]
pub(crate) struct Verified {
    pub(crate) sub: String,
    pub(crate) sid: String,
    /// In seconds.
    exp: i64,
    nbf: i64,
    pub(crate) claims: Map<String, Value>,
}

impl Verified {
    /// Whether its times are right at an instant.
    pub(crate) fn is_current(&self, now: Timestamp) -> bool {
        let seconds = now.millis().div_euclid(1000);
        seconds < self.exp.saturating_add(LEEWAY) && self.nbf <= seconds.saturating_add(LEEWAY)
    }
}

/// The public part of a key, and the private one if it has one.
fn public_part(algorithm: Algorithm, key: &SigningKey) -> Result<(Jwk, Option<EncodingKey>), ()> {
    match key {
        SigningKey::Private { pem, .. } => {
            let key = match algorithm {
                Algorithm::EdDsa => EncodingKey::from_ed_pem(pem.as_bytes()),
                Algorithm::Rs256 => EncodingKey::from_rsa_pem(pem.as_bytes()),
                Algorithm::Hs256 => return Err(()),
            };
            let key = key.map_err(|_| ())?;
            Ok((
                Jwk::from_encoding_key(&key, algorithm.library()).map_err(|_| ())?,
                Some(key),
            ))
        }
        SigningKey::Public { pem, .. } => {
            let key = match algorithm {
                Algorithm::EdDsa => DecodingKey::from_ed_pem(pem.as_bytes()),
                Algorithm::Rs256 => DecodingKey::from_rsa_pem(pem.as_bytes()),
                Algorithm::Hs256 => return Err(()),
            };
            let key = key.map_err(|_| ())?;
            Ok((
                Jwk::from_decoding_key(&key, Some(algorithm.library())).map_err(|_| ())?,
                None,
            ))
        }
    }
}

/// The cryptography of tokens, installed by name: when another crate of the build switches on a
/// second backend, choosing by feature would panic at first use. Whoever installed one first keeps
/// it.
fn install_crypto() {
    let _ = jsonwebtoken::crypto::aws_lc::DEFAULT_PROVIDER.install_default();
}

#[cfg(test)]
mod tests;
