//! Tokens that work once: issued, looked up, and taken in one place, whatever they are for.
//!
//! Who presents one is first judged in every other way (is the new password good, do hooks agree)
//! and takes it last, together with what it is good for. So what is refused leaves it usable, and
//! of a hundred who present it at once one has an effect.

pub(crate) mod entity;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use linchpin::{Code, Cx, Error, PageArgs, Result, Timestamp};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};

use crate::env::Env;
use crate::keys::data::{DataKeys, Place};
use crate::secret::SecretText;
pub(crate) use entity::{OneTime, Purpose};
use entity::{OneTimeAdapter, OneTimeCreate, OneTimePatch};

/// How long a token can be that is worth looking up: ours have 43 characters.
const LONGEST: usize = 64;

/// Gives out tokens and takes them back.
#[derive(Clone, Debug)]
pub(crate) struct OneTimes {
    records: OneTimeAdapter,
    keys: Arc<DataKeys>,
    env: Env,
    /// How many have been given out since the start: of two of one millisecond it tells which came
    /// later.
    given: Arc<AtomicI64>,
}

/// What a new token bears.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    pub(crate) lifetime: Duration,
    /// Wrong answers until it is dead.
    pub(crate) tries: i64,
    /// Codes that may be sent for it, beside the first.
    pub(crate) sends: i64,
    /// Whether the user's earlier ones of the same purpose end.
    pub(crate) only_newest: bool,
}

impl Terms {
    /// Of a link: whoever has it needs nothing else, and a newer one ends it.
    pub(crate) const fn link(lifetime: Duration) -> Self {
        Self {
            lifetime,
            tries: 0,
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
            given: Arc::default(),
        }
    }

    /// The records behind them.
    pub(crate) fn records(&self) -> &OneTimeAdapter {
        &self.records
    }

    /// Gives out a token. The payload is kept with it, encrypted.
    ///
    /// # Errors
    /// When it cannot be kept.
    pub(crate) async fn issue<T: Serialize>(
        &self,
        cx: &Cx,
        purpose: Purpose,
        user: &str,
        payload: &T,
        terms: Terms,
    ) -> Result<SecretText> {
        self.give(cx, purpose, user, payload, terms)
            .await
            .map(|(token, _)| token)
    }

    /// The same, with what is kept of it.
    ///
    /// # Errors
    /// When it cannot be kept.
    pub(crate) async fn give<T: Serialize>(
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
        let (user_id, tries_left, sends_left) = (user.to_owned(), terms.tries, terms.sends);
        let nth = self.given.fetch_add(1, Ordering::Relaxed);
        let record = OneTimeCreate {
            id,
            purpose,
            user_id,
            sealed,
            tries_left,
            sends_left,
            created_at,
            nth,
            expires_at,
        };
        let kept = self.records.create(cx, record).await?;
        if terms.only_newest {
            self.keep_newest(cx, purpose, user).await?;
        }
        Ok((token, kept))
    }

    /// Ends all but the newest. Everybody who issues one does so after their own is there: whoever
    /// looks last sees all of them, and all agree on which is the newest.
    async fn keep_newest(&self, cx: &Cx, purpose: Purpose, user: &str) -> Result<()> {
        let mut given = self.given(cx, purpose, user).await?;
        given.sort_by(|a, b| b.order().cmp(&a.order()));
        for earlier in given.into_iter().skip(1) {
            self.remove(cx, &earlier).await?;
        }
        Ok(())
    }

    /// The newest token that a user has been given for a purpose, while it lasts. One that was
    /// changed outside is none.
    ///
    /// # Errors
    /// When the store cannot tell.
    pub(crate) async fn newest(
        &self,
        cx: &Cx,
        purpose: Purpose,
        user: &str,
    ) -> Result<Option<OneTime>> {
        let given = self
            .given(cx, purpose, user)
            .await?
            .into_iter()
            .filter(|one| one.expires_at.is_some_and(|end| cx.now() < end));
        Ok(given
            .filter(|one| self.is_ours(one))
            .max_by(|a, b| a.order().cmp(&b.order())))
    }

    /// What a user has been given for a purpose and not used.
    ///
    /// # Errors
    /// When the store cannot tell.
    pub(crate) async fn given(
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

    /// What a token is, without taking it. `None` for one that is unknown, used, over, or for
    /// another purpose.
    ///
    /// # Errors
    /// When the store cannot tell.
    pub(crate) async fn find(
        &self,
        cx: &Cx,
        purpose: Purpose,
        token: &str,
    ) -> Result<Option<OneTime>> {
        if token.is_empty() || token.len() > LONGEST {
            return Ok(None);
        }
        let found = self.records.get(cx, hash(token)).await?;
        Ok(found.filter(|one| {
            one.purpose == purpose
                && one.expires_at.is_some_and(|end| cx.now() < end)
                && self.is_ours(one)
        }))
    }

    /// Takes a token that was found: false when somebody else has, or its time is over. To be done
    /// in the transaction of what it is good for, so that both happen or neither.
    ///
    /// # Errors
    /// When the store cannot tell.
    pub(crate) async fn take(&self, cx: &Cx, found: &OneTime) -> Result<bool> {
        Ok(self
            .records
            .redeem(cx, found.id.as_str(), found.purpose)
            .await?
            .is_some())
    }

    /// Counts a try of an answer, before it is looked at, so that many at a time have no more tries
    /// than one after another. `None` when there are none left, or the token is gone; else what it
    /// is now.
    ///
    /// # Errors
    /// When the store cannot tell.
    pub(crate) async fn attempt(&self, cx: &Cx, found: &OneTime) -> Result<Option<OneTime>> {
        counted(
            self.records
                .r#try(cx, found.id.as_str(), found.purpose)
                .await,
        )
    }

    /// Counts a code that is about to be sent. `None` when no more may be.
    ///
    /// # Errors
    /// When the store cannot tell.
    pub(crate) async fn count_send(&self, cx: &Cx, found: &OneTime) -> Result<Option<OneTime>> {
        counted(
            self.records
                .send(cx, found.id.as_str(), found.purpose)
                .await,
        )
    }

    /// Replaces what is kept with a token.
    ///
    /// # Errors
    /// `not_found` when it is gone.
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

    /// What was kept with a token.
    ///
    /// # Errors
    /// When it cannot be read.
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
            .map_err(|_| Error::internal("the payload of a token cannot be read"))
    }

    /// Whether what is kept with a token is what was kept: one that was changed outside is none.
    fn is_ours(&self, one: &OneTime) -> bool {
        let opened = one
            .sealed
            .as_deref()
            .map(|sealed| self.keys.open(place(&one.id), sealed));
        match opened {
            Some(Err(error)) => {
                tracing::error!(error = ?error, "what is kept with a token cannot be read");
                false
            }
            Some(Ok(_)) => true,
            None => false,
        }
    }

    /// Ends what a user has been given for these purposes.
    ///
    /// # Errors
    /// When the store cannot say that they have ended.
    pub(crate) async fn void(&self, cx: &Cx, user: &str, purposes: &[Purpose]) -> Result<()> {
        for purpose in purposes {
            for given in self.given(cx, *purpose, user).await? {
                self.remove(cx, &given).await?;
            }
        }
        Ok(())
    }

    /// Ends what a user has been given for a purpose at an instant or after it.
    ///
    /// # Errors
    /// As [`OneTimes::void`].
    pub(crate) async fn void_since(
        &self,
        cx: &Cx,
        user: &str,
        purpose: Purpose,
        since: Timestamp,
    ) -> Result<()> {
        for given in self
            .given(cx, purpose, user)
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
    /// When the store cannot say that it has ended.
    pub(crate) async fn remove(&self, cx: &Cx, given: &OneTime) -> Result<()> {
        match self.records.delete(cx, given.id.as_str(), None).await {
            Err(error) if error.code() == Code::NotFound => Ok(()),
            done => done,
        }
    }

    fn seal<T: Serialize>(&self, id: &str, payload: &T) -> Result<String> {
        let plain = zeroize::Zeroizing::new(serde_json::to_vec(payload).map_err(Error::internal)?);
        self.keys.seal(&*self.env.rng, place(id), &plain)
    }
}

/// What a token is stored and named by.
pub(crate) fn hash(token: &str) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(token))
}

fn counted(done: Result<OneTime>) -> Result<Option<OneTime>> {
    match done {
        Ok(one) => Ok(Some(one)),
        // Below zero, or gone.
        Err(error) if matches!(error.code(), Code::ValidationFailed | Code::NotFound) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Where what belongs to a token is kept.
pub(crate) fn place(id: &str) -> Place<'_> {
    Place {
        entity: "auth_one_times",
        id,
        field: "sealed",
    }
}

fn later(now: Timestamp, by: Duration) -> Timestamp {
    Timestamp::from_millis(
        now.millis()
            .saturating_add(i64::try_from(by.as_millis()).unwrap_or(i64::MAX)),
    )
}

#[cfg(test)]
mod tests;
