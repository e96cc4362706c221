//! One-time tokens: issued, looked up and consumed here, for all purposes.
//!
//! A request with a token first checks everything else (such as the rules of a new password, and
//! hooks). It consumes the token last, in the transaction of its effect. So a refused request
//! leaves the token valid, and only one of several concurrent requests with the same token
//! succeeds.

pub(crate) mod entity;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use linchpin::seal::{DataKeys, Place};
use linchpin::{Code, Cx, Error, PageArgs, Result, Timestamp};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};

use crate::env::Env;
use crate::secret::SecretText;
pub(crate) use entity::{OneTime, Purpose};
use entity::{OneTimeAdapter, OneTimeCreate, OneTimePatch, one_time};

/// Maximum length of a token that is looked up. Issued tokens have 43 characters.
const MAX_TOKEN_BYTES: usize = 64;

/// Issues and consumes tokens.
#[derive(Clone, Debug)]
pub(crate) struct OneTimes {
    records: OneTimeAdapter,
    keys: Arc<DataKeys>,
    env: Env,
    /// Number of tokens issued since the start, which orders tokens of one millisecond.
    issued: Arc<AtomicI64>,
}

/// The terms of a new token.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    pub(crate) lifetime: Duration,
    /// Number of wrong answers that end it.
    pub(crate) attempts: i64,
    /// Number of codes that can be sent for it after the first one.
    pub(crate) sends: i64,
    /// Whether the user's earlier tokens of the same purpose end.
    pub(crate) only_newest: bool,
}

impl Terms {
    /// The terms of a link: no code is typed, so no attempts are counted, and a newer link ends it.
    pub(crate) const fn link(lifetime: Duration) -> Self {
        Self {
            lifetime,
            attempts: 0,
            sends: 0,
            only_newest: true,
        }
    }
}

impl OneTimes {
    pub(crate) fn new(records: OneTimeAdapter, keys: Arc<DataKeys>, env: Env) -> Self {
        Self {
            records,
            keys,
            env,
            issued: Arc::default(),
        }
    }

    /// Issues a token. The payload is stored with it, encrypted.
    ///
    /// # Errors
    /// If it cannot be stored.
    pub(crate) async fn issue<T: Serialize>(
        &self,
        cx: &Cx,
        purpose: Purpose,
        user: &str,
        payload: &T,
        terms: Terms,
    ) -> Result<SecretText> {
        self.issue_with_record(cx, purpose, user, payload, terms)
            .await
            .map(|(token, _)| token)
    }

    /// Like [`OneTimes::issue`], and returns the stored record too.
    ///
    /// # Errors
    /// If it cannot be stored.
    pub(crate) async fn issue_with_record<T: Serialize>(
        &self,
        cx: &Cx,
        purpose: Purpose,
        user: &str,
        payload: &T,
        terms: Terms,
    ) -> Result<(SecretText, OneTime)> {
        let token = SecretText::new(URL_SAFE_NO_PAD.encode(self.env.random::<32>()?));
        let id = hash(token.expose());
        let sealed = Some(self.seal(&id, payload)?);
        let created_at = cx.now();
        let expires_at = Some(later(created_at, terms.lifetime));
        let (user_id, attempts_left, sends_left) = (user.to_owned(), terms.attempts, terms.sends);
        let nth = self.issued.fetch_add(1, Ordering::Relaxed);
        let record = OneTimeCreate {
            id,
            purpose,
            user_id,
            sealed,
            attempts_left,
            sends_left,
            created_at,
            nth,
            expires_at,
        };
        let stored = self.records.create(cx, record).await?;
        if terms.only_newest {
            self.keep_newest(cx, purpose, user).await?;
        }
        Ok((token, stored))
    }

    /// Ends all tokens except the newest. Each request runs this after its own token is stored, so
    /// the last of several concurrent requests sees all tokens. All of them agree on which token is
    /// the newest.
    async fn keep_newest(&self, cx: &Cx, purpose: Purpose, user: &str) -> Result<()> {
        let mut given = self.unused_tokens(cx, purpose, user).await?;
        given.sort_by(|a, b| b.order().cmp(&a.order()));
        for earlier in given.into_iter().skip(1) {
            self.remove(cx, &earlier).await?;
        }
        Ok(())
    }

    /// Returns the newest valid token of a user for a purpose. A token whose payload was changed
    /// by another program is invalid.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub(crate) async fn newest(
        &self,
        cx: &Cx,
        purpose: Purpose,
        user: &str,
    ) -> Result<Option<OneTime>> {
        let given = self
            .unused_tokens(cx, purpose, user)
            .await?
            .into_iter()
            .filter(|one| one.expires_at.is_some_and(|end| cx.now() < end));
        Ok(given
            .filter(|one| self.is_decryptable(one))
            .max_by(|a, b| a.order().cmp(&b.order())))
    }

    /// Returns the unused tokens of a user for a purpose.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub(crate) async fn unused_tokens(
        &self,
        cx: &Cx,
        purpose: Purpose,
        user: &str,
    ) -> Result<Vec<OneTime>> {
        Ok(self
            .records
            .given(cx, user.to_owned(), purpose, PageArgs::default())
            .await?
            .items)
    }

    /// Returns the record of a token without consuming it. `None` if it is unknown, used, expired,
    /// or for another purpose.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub(crate) async fn find(
        &self,
        cx: &Cx,
        purpose: Purpose,
        token: &str,
    ) -> Result<Option<OneTime>> {
        if token.is_empty() || token.len() > MAX_TOKEN_BYTES {
            return Ok(None);
        }
        let found = self.records.get(cx, hash(token)).await?;
        Ok(found.filter(|one| {
            one.purpose == purpose
                && one.expires_at.is_some_and(|end| cx.now() < end)
                && self.is_decryptable(one)
        }))
    }

    /// Consumes a token: false if another request has consumed it or it has expired. Call it in the
    /// transaction of the token's effect.
    ///
    /// # Errors
    /// If the store cannot be written.
    pub(crate) async fn take(&self, cx: &Cx, found: &OneTime) -> Result<bool> {
        Ok(self
            .records
            .redeem(cx, found.id.as_str(), found.purpose)
            .await?
            .is_some())
    }

    /// Counts an attempt before its answer is checked, so that concurrent requests have no more
    /// attempts than sequential ones. `None` if no attempt remains or the token is gone, otherwise
    /// the changed record.
    ///
    /// # Errors
    /// If the store cannot be written.
    pub(crate) async fn attempt(&self, cx: &Cx, found: &OneTime) -> Result<Option<OneTime>> {
        none_if_refused(
            self.records
                .r#try(cx, found.id.as_str(), found.purpose)
                .await,
        )
    }

    /// Counts a code that is about to be sent. `None` if no more are allowed.
    ///
    /// # Errors
    /// If the store cannot be written.
    pub(crate) async fn count_send(&self, cx: &Cx, found: &OneTime) -> Result<Option<OneTime>> {
        none_if_refused(
            self.records
                .send(cx, found.id.as_str(), found.purpose)
                .await,
        )
    }

    /// Replaces the payload of a token.
    ///
    /// # Errors
    /// `not_found` if the token is gone.
    pub(crate) async fn replace<T: Serialize>(
        &self,
        cx: &Cx,
        found: &OneTime,
        payload: &T,
    ) -> Result<OneTime> {
        let patch = OneTimePatch {
            sealed: Some(Some(self.seal(&found.id, payload)?)),
            ..OneTimePatch::default()
        };
        self.records
            .update(cx, found.id.as_str(), patch, None)
            .await
    }

    /// Decrypts the payload of a token.
    ///
    /// # Errors
    /// If it cannot be decrypted.
    pub(crate) fn payload<T: DeserializeOwned>(&self, found: &OneTime) -> Result<T> {
        let sealed = found
            .sealed
            .as_deref()
            .ok_or_else(|| Error::internal("a token has no payload"))?;
        let plain = self
            .keys
            .open(place(&found.id), sealed)
            .map_err(Error::internal)?;
        serde_json::from_slice(plain.expose())
            .map_err(|_| Error::internal("the payload of a token cannot be parsed"))
    }

    /// Whether the payload can be decrypted. If not, another program changed it.
    fn is_decryptable(&self, one: &OneTime) -> bool {
        let opened = one
            .sealed
            .as_deref()
            .map(|sealed| self.keys.open(place(&one.id), sealed));
        match opened {
            Some(Err(error)) => {
                tracing::error!(error = ?error, "the payload of a token cannot be decrypted");
                false
            }
            Some(Ok(_)) => true,
            None => false,
        }
    }

    /// Ends the tokens of a user for these purposes.
    ///
    /// # Errors
    /// If the store cannot delete them.
    pub(crate) async fn void(&self, cx: &Cx, user: &str, purposes: &[Purpose]) -> Result<()> {
        for purpose in purposes {
            for given in self.unused_tokens(cx, *purpose, user).await? {
                self.remove(cx, &given).await?;
            }
        }
        Ok(())
    }

    /// Ends the tokens of a user for a purpose that were issued at `since` or later.
    ///
    /// # Errors
    /// The errors of [`OneTimes::void`].
    pub(crate) async fn void_since(
        &self,
        cx: &Cx,
        user: &str,
        purpose: Purpose,
        since: Timestamp,
    ) -> Result<()> {
        for given in self
            .unused_tokens(cx, purpose, user)
            .await?
            .into_iter()
            .filter(|given| given.created_at >= since)
        {
            self.remove(cx, &given).await?;
        }
        Ok(())
    }

    /// Ends a token.
    ///
    /// # Errors
    /// If the store cannot delete it.
    pub(crate) async fn remove(&self, cx: &Cx, given: &OneTime) -> Result<()> {
        match self.records.delete(cx, given.id.as_str(), None).await {
            Err(error) if error.code() == Code::NotFound => Ok(()),
            done => done,
        }
    }

    fn seal<T: Serialize>(&self, id: &str, payload: &T) -> Result<String> {
        let plain = zeroize::Zeroizing::new(serde_json::to_vec(payload).map_err(Error::internal)?);
        self.keys.seal(place(id), &plain)
    }
}

/// The id of a token's record.
pub(crate) fn hash(token: &str) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(token))
}

/// Maps a refused count to `None`.
fn none_if_refused(done: Result<OneTime>) -> Result<Option<OneTime>> {
    match done {
        Ok(one) => Ok(Some(one)),
        // The counter would go below zero, or the token is gone.
        Err(error) if matches!(error.code(), Code::ValidationFailed | Code::NotFound) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The place of a token's encrypted payload.
fn place(id: &str) -> Place<'_> {
    Place::of(one_time::sealed, id)
}

fn later(now: Timestamp, by: Duration) -> Timestamp {
    Timestamp::from_millis(
        now.millis()
            .saturating_add(i64::try_from(by.as_millis()).unwrap_or(i64::MAX)),
    )
}

#[cfg(test)]
mod tests;
