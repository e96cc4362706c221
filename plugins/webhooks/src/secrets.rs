//! The secrets of an endpoint. They are stored as one encrypted text in its record.

use std::time::Duration;

use linchpin::seal::{DataKeys, Place};
use linchpin::{Error, Result, Timestamp};
use serde::{Deserialize, Serialize};
use zeroize::{ZeroizeOnDrop, Zeroizing};

use crate::delivery::later;
use crate::entity::webhook_endpoint;
use crate::signature::SigningSecret;

/// The maximum number of secrets of an endpoint.
const MAX_SECRETS: usize = 5;

/// The secrets of an endpoint, newest first.
#[derive(Debug)]
pub(crate) struct Secrets(Vec<Secret>);

#[derive(Debug)]
struct Secret {
    signing: SigningSecret,
    created_at: Timestamp,
    expires_at: Option<Timestamp>,
}

/// A secret in the form that is encrypted.
#[derive(Serialize, Deserialize, ZeroizeOnDrop)]
struct Stored {
    secret: String,
    created_at: i64,
    expires_at: Option<i64>,
}

impl Secrets {
    /// The secrets of a new endpoint.
    pub(crate) fn new(secret: SigningSecret, now: Timestamp) -> Self {
        Self(vec![Secret {
            signing: secret,
            created_at: now,
            expires_at: None,
        }])
    }

    /// Decrypts the secrets of an endpoint.
    pub(crate) fn open(keys: &DataKeys, endpoint: &str, sealed: &str) -> Result<Self> {
        let plain = keys
            .open(place(endpoint), sealed)
            .map_err(Error::internal)?;
        let stored: Vec<Stored> = serde_json::from_slice(plain.expose())
            .map_err(|_| Error::internal("the secrets of an endpoint cannot be parsed"))?;
        let secrets = stored.into_iter().map(|stored| {
            Ok(Secret {
                signing: SigningSecret::parse(&stored.secret)
                    .map_err(|_| Error::internal("a secret of an endpoint cannot be parsed"))?,
                created_at: Timestamp::from_millis(stored.created_at),
                expires_at: stored.expires_at.map(Timestamp::from_millis),
            })
        });
        secrets.collect::<Result<_>>().map(Self)
    }

    /// Encrypts the secrets for the record of an endpoint.
    pub(crate) fn seal(&self, keys: &DataKeys, endpoint: &str) -> Result<String> {
        let stored: Vec<Stored> = self
            .0
            .iter()
            .map(|secret| Stored {
                secret: secret.signing.text().to_owned(),
                created_at: secret.created_at.millis(),
                expires_at: secret.expires_at.map(Timestamp::millis),
            })
            .collect();
        let plain = Zeroizing::new(serde_json::to_vec(&stored).map_err(Error::internal)?);
        keys.seal(place(endpoint), &plain)
    }

    /// Inserts a new secret as the first one. The former secrets still sign until `overlap` has
    /// passed, or until their own end if it is earlier. Returns the end of the secret that was the
    /// first one before, or `None` if no former secret still signs.
    pub(crate) fn rotate(
        &mut self,
        secret: SigningSecret,
        overlap: Duration,
        now: Timestamp,
    ) -> Option<Timestamp> {
        let end = later(now, overlap);
        for former in &mut self.0 {
            former.expires_at = Some(former.expires_at.map_or(end, |known| known.min(end)));
        }
        self.0
            .retain(|former| former.expires_at.is_none_or(|end| end > now));
        let former = self.0.first().and_then(|former| former.expires_at);
        self.0.insert(
            0,
            Secret {
                signing: secret,
                created_at: now,
                expires_at: None,
            },
        );
        self.0.truncate(MAX_SECRETS);
        former
    }

    /// The secrets that sign now, newest first.
    pub(crate) fn live(&self, now: Timestamp) -> Vec<&SigningSecret> {
        let live = self
            .0
            .iter()
            .filter(|one| one.expires_at.is_none_or(|end| end > now));
        live.map(|one| &one.signing).collect()
    }
}

/// The field and record in which the secrets of an endpoint are stored. Encryption binds the
/// secrets to them.
fn place(endpoint: &str) -> Place<'_> {
    Place::of(webhook_endpoint::sealed, endpoint)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(seconds * 1_000)
    }

    fn texts(secrets: &Secrets, now: Timestamp) -> Vec<String> {
        secrets
            .live(now)
            .iter()
            .map(|secret| secret.text().to_owned())
            .collect()
    }

    #[test]
    fn a_former_secret_signs_until_the_end_of_the_overlap() {
        let made: Vec<SigningSecret> = (0..8).map(|_| SigningSecret::generate().unwrap()).collect();
        let text: Vec<String> = made.iter().map(|secret| secret.text().to_owned()).collect();
        let mut made = made.into_iter();
        let mut secrets = Secrets::new(made.next().unwrap(), at(0));
        let end = secrets.rotate(made.next().unwrap(), Duration::from_mins(1), at(10));
        assert_eq!(end, Some(at(70)));
        assert_eq!(texts(&secrets, at(69)), [text[1].clone(), text[0].clone()]);
        assert_eq!(texts(&secrets, at(70)), [text[1].clone()]);
        // A longer overlap does not extend the end of older secrets.
        secrets.rotate(made.next().unwrap(), Duration::from_mins(10), at(20));
        assert_eq!(texts(&secrets, at(71)), [text[2].clone(), text[1].clone()]);
        // There are at most five secrets. An overlap of zero ends all former ones immediately.
        for _ in 0..4 {
            secrets.rotate(made.next().unwrap(), Duration::from_mins(10), at(30));
        }
        assert_eq!(texts(&secrets, at(31)).len(), 5);
        assert_eq!(
            secrets.rotate(made.next().unwrap(), Duration::ZERO, at(32)),
            None
        );
        assert_eq!(texts(&secrets, at(32)), [text[7].clone()]);
    }
}
