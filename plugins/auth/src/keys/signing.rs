//! Keys that sign and verify access tokens. No other code decides whether a token is valid.

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

/// Maximum length of a token in bytes.
const MAX_TOKEN_BYTES: usize = 8 * 1024;
/// Maximum difference between the clocks of two servers, in seconds.
const LEEWAY: i64 = 10;
/// Minimum modulus of an RSA key in bytes: 2048 bits.
const MIN_RSA_BYTES: usize = 256;

/// The algorithm of access tokens: `signing.algorithm`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Algorithm {
    /// HMAC-SHA256 with the signing secret: anyone who can verify a token could also sign one.
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

/// A configured key. A private key signs and verifies; a public key verifies tokens of an earlier
/// key.
#[derive(Clone)]
pub enum SigningKey {
    /// A private key in PEM (PKCS#8).
    Private {
        /// The key id in tokens.
        kid: String,
        /// The PEM text.
        pem: String,
    },
    /// A public key in PEM.
    Public {
        /// The key id in tokens.
        kid: String,
        /// The PEM text.
        pem: String,
    },
}

impl SigningKey {
    /// The key id.
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
    /// By key id.
    verifiers: HashMap<String, DecodingKey>,
    validation: Validation,
    issuer: Option<String>,
    audience: Option<String>,
    /// The JWK set; `None` if there are no public keys.
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

/// The header of a token: required and allowed members.
#[derive(Deserialize)]
struct RawHeader {
    typ: String,
    alg: String,
    kid: String,
    #[serde(flatten)]
    others: Map<String, Value>,
}

/// Header members that contain keys or change the processing of a token. They are refused.
const FORBIDDEN: [&str; 7] = ["crit", "jwk", "jku", "x5u", "x5c", "enc", "zip"];

impl Signing {
    /// Signs with the newest secret itself and not with a key that is derived from it, so that any
    /// library can verify the tokens. The secrets are newest first.
    ///
    /// # Errors
    /// If there is no secret.
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

    /// Signs with a key pair; keys are newest first.
    ///
    /// # Errors
    /// The wrong key and the reason.
    pub(crate) fn asymmetric(algorithm: Algorithm, keys: &[SigningKey]) -> Result<Self, String> {
        install_crypto();
        let Some(SigningKey::Private { kid, .. }) = keys.first() else {
            return Err("the first key must be a private key: set its `privateKeyPem`".to_owned());
        };
        let mut signer = None;
        let mut verifiers = HashMap::new();
        let mut public = Vec::new();
        for key in keys {
            let key_error = |what: &str| format!("key `{}` {what}", key.kid());
            // The library refuses shorter RSA keys.
            let size = if algorithm == Algorithm::Rs256 {
                ", with at least 2048 bits"
            } else {
                ""
            };
            let (jwk, private) = public_part(algorithm, key).map_err(|()| {
                key_error(&format!("must be an {} key in PEM{size}", algorithm.name()))
            })?;
            if let AlgorithmParameters::RSA(rsa) = &jwk.algorithm
                && URL_SAFE_NO_PAD.decode(&rsa.n).map_or(0, |n| n.len()) < MIN_RSA_BYTES
            {
                return Err(key_error("is shorter than 2048 bits"));
            }
            let verifier = DecodingKey::from_jwk(&jwk).map_err(|_| key_error("cannot verify"))?;
            if verifiers.insert(key.kid().to_owned(), verifier).is_some() {
                return Err(format!("the key id `{}` is used twice", key.kid()));
            }
            let mut public_jwk = serde_json::to_value(&jwk).map_err(|e| e.to_string())?;
            public_jwk["kid"] = json!(key.kid());
            public_jwk["use"] = json!("sig");
            public_jwk["alg"] = json!(algorithm.name());
            public.push(public_jwk);
            if signer.is_none() {
                signer = private;
            }
        }
        let signer =
            signer.ok_or("the first key must be a private key: set its `privateKeyPem`")?;
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
        // The library checks the signature only. `verify_expired` and `is_current` check the times
        // and the other claims, with the plugin's clock.
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

    /// Adds these claims to every token and requires them.
    #[must_use]
    pub(crate) fn with_issuer_and_audience(
        self,
        issuer: Option<String>,
        audience: Option<String>,
    ) -> Self {
        Self {
            issuer,
            audience,
            ..self
        }
    }

    /// The public keys as a JWK set; `None` for HS256.
    pub(crate) fn jwks(&self) -> Option<&str> {
        self.jwks.as_deref()
    }

    /// Signs claims.
    ///
    /// # Errors
    /// `internal` if the library fails.
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

    /// The claims of a token with a valid signature, even if it has expired; `None` for any other
    /// token.
    fn verified_claims(&self, token: &str) -> Option<Map<String, Value>> {
        if token.len() > MAX_TOKEN_BYTES || token.bytes().filter(|b| *b == b'.').count() != 2 {
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
        // The algorithm comes from the key, never from the token.
        if header.alg != self.algorithm.name() {
            return None;
        }
        jsonwebtoken::decode::<Claims>(token, key, &self.validation)
            .ok()
            .map(|data| data.claims.0)
    }

    /// Verifies a token, except for its session.
    pub(crate) fn verify(&self, token: &str, now: Timestamp) -> Option<Verified> {
        let verified = self.verify_expired(token, now)?;
        verified.is_current(now).then_some(verified)
    }

    /// Verifies a token that may have expired. An expired token still identifies the session that a
    /// sign-out ends.
    pub(crate) fn verify_expired(&self, token: &str, now: Timestamp) -> Option<Verified> {
        let claims = self.verified_claims(token)?;
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

/// A verified token.
#[derive(Clone, Debug)]
pub(crate) struct Verified {
    pub(crate) sub: String,
    pub(crate) sid: String,
    /// In seconds since 1970.
    exp: i64,
    nbf: i64,
    pub(crate) claims: Map<String, Value>,
}

impl Verified {
    /// The instant at which the token expires.
    pub(crate) fn expires_at(&self) -> Timestamp {
        Timestamp::from_millis(self.exp.saturating_mul(1000))
    }

    /// Whether the token is valid at this time.
    pub(crate) fn is_current(&self, now: Timestamp) -> bool {
        let seconds = now.millis().div_euclid(1000);
        seconds < self.exp.saturating_add(LEEWAY) && self.nbf <= seconds.saturating_add(LEEWAY)
    }
}

/// The public key of a configured key, and its private key if it has one.
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

/// Installs the cryptography of the token library explicitly. If another crate enables a second
/// backend, the library would otherwise panic at its first use. An installed backend stays.
fn install_crypto() {
    let _ = jsonwebtoken::crypto::aws_lc::DEFAULT_PROVIDER.install_default();
}

#[cfg(test)]
mod tests;
