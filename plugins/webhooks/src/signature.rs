//! Secrets of endpoints, and the signatures of requests.

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use linchpin::{Error, Result};
use zeroize::Zeroizing;

const PREFIX: &str = "whsec_";

/// A secret that signs requests: `whsec_` and 24 to 64 bytes in base64.
#[derive(Clone)]
pub struct SigningSecret {
    text: Zeroizing<String>,
    key: Zeroizing<Vec<u8>>,
}

/// The text is no secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be `whsec_` and 24 to 64 bytes in base64")]
pub struct SecretFormat;

impl std::fmt::Debug for SigningSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SigningSecret(..)")
    }
}

impl SigningSecret {
    pub(crate) fn generate() -> Result<Self> {
        let mut key = Zeroizing::new(vec![0; 32]);
        aws_lc_rs::rand::fill(&mut key).map_err(|_| Error::internal("no randomness"))?;
        let text = Zeroizing::new(format!("{PREFIX}{}", STANDARD.encode(&*key)));
        Ok(Self { text, key })
    }

    pub(crate) fn parse(text: &str) -> Result<Self, SecretFormat> {
        let encoded = text.strip_prefix(PREFIX).ok_or(SecretFormat)?;
        let key = Zeroizing::new(STANDARD.decode(encoded).map_err(|_| SecretFormat)?);
        if !(24..=64).contains(&key.len()) {
            return Err(SecretFormat);
        }
        Ok(Self {
            text: Zeroizing::new(text.to_owned()),
            key,
        })
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn hint(&self) -> &str {
        &self.text[self.text.len() - 4..]
    }
}

pub(crate) fn sign(secrets: &[&SigningSecret], id: &str, timestamp: i64, body: &[u8]) -> String {
    let sign = |secret: &&SigningSecret| {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &secret.key);
        let mut mac = hmac::Context::with_key(&key);
        mac.update(format!("{id}.{timestamp}.").as_bytes());
        mac.update(body);
        format!("v1,{}", STANDARD.encode(mac.sign()))
    };
    secrets.iter().map(sign).collect::<Vec<_>>().join(" ")
}

pub(crate) fn sign_compat(secrets: &[&SigningSecret], timestamp: i64, body: &[u8]) -> String {
    let mut out = format!("t={timestamp}");
    for secret in secrets {
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret.text.as_bytes());
        let mut mac = hmac::Context::with_key(&key);
        mac.update(format!("{timestamp}.").as_bytes());
        mac.update(body);
        out.push_str(",v1=");
        for byte in mac.sign().as_ref() {
            out.push_str(&format!("{byte:02x}"));
        }
    }
    out
}
