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

/// The error of a text that is not a signing secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be `whsec_` and 24 to 64 bytes in base64")]
pub struct SecretFormat;

impl std::fmt::Debug for SigningSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SigningSecret(..)")
    }
}

impl SigningSecret {
    /// Generates a secret with 32 random bytes.
    ///
    /// # Errors
    /// If the operating system returns no random bytes.
    pub fn generate() -> Result<Self> {
        let mut key = Zeroizing::new(vec![0; 32]);
        aws_lc_rs::rand::fill(&mut key).map_err(|_| Error::internal("no randomness"))?;
        let text = Zeroizing::new(format!("{PREFIX}{}", STANDARD.encode(&*key)));
        Ok(Self { text, key })
    }

    /// Reads the text of a secret.
    ///
    /// ```
    /// use linchpin_webhooks::SigningSecret;
    ///
    /// assert!(SigningSecret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").is_ok());
    /// assert!(SigningSecret::parse("hunter2").is_err());
    /// ```
    ///
    /// # Errors
    /// If the text is not `whsec_` and 24 to 64 bytes in base64.
    pub fn parse(text: &str) -> Result<Self, SecretFormat> {
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

    /// The key of the HMAC.
    pub(crate) fn key(&self) -> &[u8] {
        &self.key
    }

    /// The last four characters.
    pub(crate) fn hint(&self) -> &str {
        &self.text[self.text.len() - 4..]
    }
}

/// The header `webhook-signature`: one `v1` signature for each secret.
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

/// The header `x-webhook-signature`: the time, and one signature for each secret.
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

#[cfg(test)]
mod tests {
    use super::*;

    // The example of the Standard Webhooks libraries.
    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const BODY: &[u8] = br#"{"test": 2432232314}"#;

    #[test]
    fn signatures_equal_the_known_ones() {
        let secret = SigningSecret::parse(SECRET).unwrap();
        let signature = sign(
            &[&secret],
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            1_614_265_330,
            BODY,
        );
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
        // Computed with the `hmac` module of Python.
        let compat = sign_compat(&[&secret, &secret], 1_614_265_330, BODY);
        let hex = "2e37df5d4a028c51a7f3133d64ae1e300d2c2c900f1b1d49d4369ad2530f8964";
        assert_eq!(compat, format!("t=1614265330,v1={hex},v1={hex}"));
    }

    #[test]
    fn secrets_have_24_to_64_bytes() {
        for (bytes, valid) in [(0, false), (23, false), (24, true), (64, true), (65, false)] {
            let text = format!("{PREFIX}{}", STANDARD.encode(vec![7; bytes]));
            assert_eq!(SigningSecret::parse(&text).is_ok(), valid, "{bytes}");
        }
        for text in [
            "",
            "whsec_",
            "whsec_!",
            "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
            "whsec_é",
        ] {
            assert!(SigningSecret::parse(text).is_err());
        }
        let (one, two) = (
            SigningSecret::generate().unwrap(),
            SigningSecret::generate().unwrap(),
        );
        assert_ne!(one.text(), two.text());
        assert_eq!(SigningSecret::parse(one.text()).unwrap().key(), one.key());
        assert_eq!(one.key().len(), 32);
        assert!(one.text().ends_with(one.hint()) && one.hint().len() == 4);
        assert_eq!(format!("{one:?}"), "SigningSecret(..)");
    }
}
