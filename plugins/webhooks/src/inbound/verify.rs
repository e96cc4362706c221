//! Verifies the signatures of received webhooks. They are computed over the bytes as received.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::{digest, hmac};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderName};
use linchpin::{Code, Error, Timestamp};
use zeroize::Zeroizing;

use crate::signature::SigningSecret;

/// The allowed difference between the timestamp and the clock in Standard Webhooks, in seconds.
const TOLERANCE: u64 = 300;
/// The maximum number of signatures of a request that are compared.
const MAX_SIGNATURES: usize = 64;
/// The maximum length of a message id, in bytes.
const MAX_ID_LENGTH: usize = 256;

/// The rules for the signatures of one sender.
///
/// ```
/// use std::time::Duration;
/// use linchpin_webhooks::{Algorithm, Encoding, SharedSecret, SigningSecret, Verifier};
///
/// # fn main() -> Result<(), linchpin_webhooks::SecretFormat> {
/// let standard = Verifier::StandardWebhooks {
///     secrets: vec![SigningSecret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")?],
/// };
/// let stripe = Verifier::HmacTimestamped {
///     header: "stripe-signature".parse().unwrap(),
///     secrets: vec![SharedSecret::new("the text of the secret")],
///     tolerance: Duration::from_secs(300),
/// };
/// let github = Verifier::Hmac {
///     header: "x-hub-signature-256".parse().unwrap(),
///     algorithm: Algorithm::Sha256,
///     encoding: Encoding::Hex,
///     prefix: "sha256=".to_owned(),
///     secrets: vec![SharedSecret::new("the text of the secret")],
/// };
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub enum Verifier {
    /// Standard Webhooks: the headers `webhook-id`, `webhook-timestamp` and `webhook-signature`, or
    /// the same with `svix-`. One valid `v1` signature by one of the secrets is enough; signatures
    /// of other versions are ignored. The timestamp may differ from the clock by at most 300
    /// seconds.
    StandardWebhooks {
        /// The secrets, such as the current and the former one.
        secrets: Vec<SigningSecret>,
    },
    /// A header of the form `t=<seconds>,v1=<hex>`, as Stripe sends: HMAC-SHA256 over
    /// `<seconds>.<body>`.
    HmacTimestamped {
        /// The name of the header.
        header: HeaderName,
        /// The secrets, such as the current and the former one.
        secrets: Vec<SharedSecret>,
        /// The maximum difference between the timestamp and the clock, in both directions.
        tolerance: Duration,
    },
    /// A header with the HMAC of the body, as GitHub sends. It has no timestamp, so an old request
    /// is recognized only as a duplicate.
    Hmac {
        /// The name of the header.
        header: HeaderName,
        /// The hash function.
        algorithm: Algorithm,
        /// The encoding of the value.
        encoding: Encoding,
        /// The text before the value, such as `sha256=`; may be empty.
        prefix: String,
        /// The secrets, such as the current and the former one.
        secrets: Vec<SharedSecret>,
    },
    /// A function of the app; see [`Verifier::own`].
    Own(OwnVerifier),
}

/// A hash function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// SHA-1, only for senders that offer nothing else.
    Sha1,
    /// SHA-256.
    Sha256,
    /// SHA-512.
    Sha512,
}

/// The form of a signature as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// Hexadecimal digits, of either case.
    Hex,
    /// Base64 with padding.
    Base64,
}

/// A secret whose bytes are the key of an HMAC. `Debug` does not show it.
#[derive(Clone)]
pub struct SharedSecret(Zeroizing<Vec<u8>>);

impl SharedSecret {
    /// Creates a secret from these bytes, or from the UTF-8 bytes of a text.
    pub fn new(bytes: impl AsRef<[u8]>) -> Self {
        Self(Zeroizing::new(bytes.as_ref().to_vec()))
    }
}

impl fmt::Debug for SharedSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedSecret(..)")
    }
}

/// A request with a valid signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// The id by which repeated messages are recognized: 1 to 256 visible ASCII characters. It is
    /// the `webhook-id` of Standard Webhooks. The other built-in verifiers have no signed id, so
    /// they use the SHA-256 hash of the body, in hexadecimal digits.
    pub message_id: String,
}

/// The error of a request without a valid signature.
pub(super) const INVALID: Code = Code::Other(400, "invalid_signature");

/// The signature is missing, wrong or stale. The response does not distinguish these cases.
///
/// It converts to the error 400 `invalid_signature`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the signature is missing, wrong or stale")]
pub struct InvalidSignature;

impl From<InvalidSignature> for Error {
    fn from(invalid: InvalidSignature) -> Self {
        Self::new(INVALID, invalid.to_string())
    }
}

type Check = dyn Fn(&HeaderMap, &[u8]) -> Result<Verified, InvalidSignature> + Send + Sync;

/// A function that verifies requests.
#[derive(Clone)]
pub struct OwnVerifier(Arc<Check>);

impl fmt::Debug for OwnVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OwnVerifier(..)")
    }
}

impl Verifier {
    /// A verifier that calls a function with the headers and the body. The function must compare
    /// secrets in constant time.
    pub fn own(
        check: impl Fn(&HeaderMap, &[u8]) -> Result<Verified, InvalidSignature> + Send + Sync + 'static,
    ) -> Self {
        Self::Own(OwnVerifier(Arc::new(check)))
    }

    /// Whether the verifier has no secret, or an empty one. Without a secret it would refuse every
    /// request, and anyone can sign with an empty one.
    pub(super) fn lacks_secret(&self) -> bool {
        match self {
            Self::StandardWebhooks { secrets } => secrets.is_empty(),
            Self::HmacTimestamped { secrets, .. } | Self::Hmac { secrets, .. } => {
                secrets.is_empty() || secrets.iter().any(|secret| secret.0.is_empty())
            }
            Self::Own(_) => false,
        }
    }
}

/// Verifies the signature of a request. `body` is the body as received, before any parsing.
///
/// ```
/// use linchpin::Timestamp;
/// use linchpin_webhooks::{InvalidSignature, SigningSecret, Verifier, verify};
///
/// # fn main() -> Result<(), linchpin_webhooks::SecretFormat> {
/// let secret = SigningSecret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")?;
/// let verifier = Verifier::StandardWebhooks { secrets: vec![secret] };
/// let mut headers = http::HeaderMap::new();
/// let now = Timestamp::from_millis(1_614_265_330_000);
/// assert_eq!(verify(&headers, b"{}", &verifier, now), Err(InvalidSignature));
///
/// let signature = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
/// headers.insert("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek".parse().unwrap());
/// headers.insert("webhook-timestamp", "1614265330".parse().unwrap());
/// headers.insert("webhook-signature", signature.parse().unwrap());
/// let verified = verify(&headers, br#"{"test": 2432232314}"#, &verifier, now).unwrap();
/// assert_eq!(verified.message_id, "msg_p5jXN8AQM9LWM0D4loKWxJek");
/// # Ok(()) }
/// ```
///
/// # Errors
/// If the signature is missing, wrong or stale.
pub fn verify(
    headers: &HeaderMap,
    body: &[u8],
    verifier: &Verifier,
    now: Timestamp,
) -> Result<Verified, InvalidSignature> {
    match verifier {
        Verifier::StandardWebhooks { secrets } => standard(headers, body, secrets, now),
        Verifier::HmacTimestamped {
            header,
            secrets,
            tolerance,
        } => timestamped(
            single_header(headers, header.as_str())?,
            body,
            secrets,
            *tolerance,
            now,
        ),
        Verifier::Hmac {
            header,
            algorithm,
            encoding,
            prefix,
            secrets,
        } => {
            let value = single_header(headers, header.as_str())?;
            let text = value.strip_prefix(&**prefix).ok_or(InvalidSignature)?;
            let given = encoding.decode(text).ok_or(InvalidSignature)?;
            let tags = secrets
                .iter()
                .map(|secret| tag(algorithm.hmac(), &secret.0, &[body]));
            any_matches(&tags.collect::<Vec<_>>(), &[given])?;
            Ok(verified_by_body(body))
        }
        Verifier::Own(OwnVerifier(check)) => {
            let verified = check(headers, body)?;
            check_id(&verified.message_id)?;
            Ok(verified)
        }
    }
}

fn standard(
    headers: &HeaderMap,
    body: &[u8],
    secrets: &[SigningSecret],
    now: Timestamp,
) -> Result<Verified, InvalidSignature> {
    const NAMES: [&str; 3] = ["webhook-id", "webhook-timestamp", "webhook-signature"];
    const SVIX: [&str; 3] = ["svix-id", "svix-timestamp", "svix-signature"];
    let standard = NAMES.iter().any(|name| headers.contains_key(*name));
    let [id, timestamp, signatures] = if standard { NAMES } else { SVIX };
    let (id, timestamp) = (
        single_header(headers, id)?,
        single_header(headers, timestamp)?,
    );
    let signatures = single_header(headers, signatures)?;
    check_id(id)?;
    check_recent(timestamp, TOLERANCE, now)?;
    let given: Vec<Vec<u8>> = signatures
        .split(' ')
        .filter_map(|entry| entry.strip_prefix("v1,"))
        .take(MAX_SIGNATURES)
        .filter_map(|text| STANDARD.decode(text).ok())
        .collect();
    if given.is_empty() {
        return Err(InvalidSignature);
    }
    // One HMAC is computed for each secret, whatever the number of signatures in the request.
    let head = format!("{id}.{timestamp}.");
    let tags = secrets
        .iter()
        .map(|secret| tag(hmac::HMAC_SHA256, secret.key(), &[head.as_bytes(), body]));
    any_matches(&tags.collect::<Vec<_>>(), &given)?;
    Ok(Verified {
        message_id: id.to_owned(),
    })
}

fn timestamped(
    value: &str,
    body: &[u8],
    secrets: &[SharedSecret],
    tolerance: Duration,
    now: Timestamp,
) -> Result<Verified, InvalidSignature> {
    let pairs = || {
        value
            .split(',')
            .filter_map(|pair| pair.trim().split_once('='))
    };
    let mut times = pairs().filter(|(name, _)| *name == "t");
    let (Some((_, timestamp)), None) = (times.next(), times.next()) else {
        return Err(InvalidSignature);
    };
    check_recent(timestamp, tolerance.as_secs(), now)?;
    let given: Vec<Vec<u8>> = pairs()
        .filter(|(name, _)| *name == "v1")
        .take(MAX_SIGNATURES)
        .filter_map(|(_, text)| Encoding::Hex.decode(text))
        .collect();
    if given.is_empty() {
        return Err(InvalidSignature);
    }
    let head = format!("{timestamp}.");
    let tags = secrets
        .iter()
        .map(|secret| tag(hmac::HMAC_SHA256, &secret.0, &[head.as_bytes(), body]));
    any_matches(&tags.collect::<Vec<_>>(), &given)?;
    Ok(verified_by_body(body))
}

/// The value of a header that occurs once.
fn single_header<'a>(headers: &'a HeaderMap, name: &str) -> Result<&'a str, InvalidSignature> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => value.to_str().map_err(|_| InvalidSignature),
        _ => Err(InvalidSignature),
    }
}

fn check_id(id: &str) -> Result<(), InvalidSignature> {
    let valid =
        (1..=MAX_ID_LENGTH).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic());
    if valid { Ok(()) } else { Err(InvalidSignature) }
}

/// Checks that a time in Unix seconds differs from now by at most `tolerance` seconds.
fn check_recent(timestamp: &str, tolerance: u64, now: Timestamp) -> Result<(), InvalidSignature> {
    // `parse` would also accept a sign.
    let digits = timestamp.bytes().all(|byte| byte.is_ascii_digit());
    let seconds: i64 = timestamp.parse().map_err(|_| InvalidSignature)?;
    let now = now.millis().div_euclid(1_000);
    if digits && seconds.abs_diff(now) <= tolerance {
        Ok(())
    } else {
        Err(InvalidSignature)
    }
}

/// Compares every signature with every valid one, each in constant time.
fn any_matches(tags: &[hmac::Tag], given: &[Vec<u8>]) -> Result<(), InvalidSignature> {
    let mut matches = false;
    for tag in tags {
        for signature in given {
            matches |= verify_slices_are_equal(tag.as_ref(), signature).is_ok();
        }
    }
    if matches {
        Ok(())
    } else {
        Err(InvalidSignature)
    }
}

fn tag(algorithm: hmac::Algorithm, key: &[u8], parts: &[&[u8]]) -> hmac::Tag {
    let mut mac = hmac::Context::with_key(&hmac::Key::new(algorithm, key));
    for part in parts {
        mac.update(part);
    }
    mac.sign()
}

fn verified_by_body(body: &[u8]) -> Verified {
    let hash = digest::digest(&digest::SHA256, body);
    let digits = hash.as_ref().iter().map(|byte| format!("{byte:02x}"));
    Verified {
        message_id: digits.collect(),
    }
}

impl Algorithm {
    fn hmac(self) -> hmac::Algorithm {
        match self {
            Self::Sha1 => hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
            Self::Sha256 => hmac::HMAC_SHA256,
            Self::Sha512 => hmac::HMAC_SHA512,
        }
    }
}

impl Encoding {
    fn decode(self, text: &str) -> Option<Vec<u8>> {
        match self {
            Self::Base64 => STANDARD.decode(text).ok(),
            Self::Hex => {
                let digit = |byte: u8| char::from(byte).to_digit(16);
                let pairs = text.as_bytes().chunks(2).map(|pair| match *pair {
                    [high, low] => u8::try_from(digit(high)? * 16 + digit(low)?).ok(),
                    _ => None,
                });
                pairs.collect()
            }
        }
    }
}

#[cfg(test)]
#[path = "verify_tests.rs"]
mod tests;
