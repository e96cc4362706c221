//! Devices that somebody has signed in from: who guesses elsewhere cannot keep their owner out.
//!
//! A device holds a token that is good for one user. A browser that several people share recognises
//! whoever signed in last: a token for all of them could be planted in a browser, and would then be
//! recognised, or even trusted, for its next user.

pub(crate) mod entity;
mod name;

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use linchpin::{Code, Cx, PageArgs, Result, Timestamp};
use sha2::{Digest, Sha256};

pub(crate) use entity::Device;
pub(crate) use name::name;

use entity::{DeviceAdapter, DeviceCreate, DevicePatch};

use crate::core::{later, millis};
use crate::entities::User;
use crate::env::Env;
use crate::keys::derive::{Purpose, Ring, mac};
use crate::secret::{SecretText, same};

/// How long a device is recognised after it was last seen, in seconds: 180 days.
pub(crate) const LIFETIME: u64 = 180 * 24 * 60 * 60;
/// How often it is written down that it was seen, in milliseconds: once a day.
const SEEN: i64 = 24 * 60 * 60 * 1000;
/// Devices of one user; beyond it the one that was not seen for longest goes. Programs that keep no
/// token make one with each sign-in.
const MOST: usize = 50;
/// New devices of a user within [`LATELY`] that they are told of.
const TOLD: usize = 5;
/// One hour, in milliseconds.
const LATELY: i64 = 60 * 60 * 1000;

const VERSION: &str = "v1";
const SECRET: usize = 32;
const MAC: usize = 32;
/// Longest token looked at, in bytes.
const LONGEST: usize = 256;

/// Recognises devices.
#[derive(Clone, Debug)]
pub(crate) struct Devices {
    records: DeviceAdapter,
    ring: Arc<Ring>,
    env: Env,
}

impl Devices {
    pub(crate) fn new(records: DeviceAdapter, ring: Arc<Ring>, env: Env) -> Self {
        Self { records, ring, env }
    }

    /// The device behind a token, if it is one of this user. Without a right token the store is not
    /// asked, whoever the user is.
    ///
    /// # Errors
    /// When the store cannot tell.
    pub(crate) async fn recognised(
        &self,
        cx: &Cx,
        token: Option<&str>,
        user: &str,
    ) -> Result<Option<Device>> {
        let Some(secret) = token.and_then(|token| self.secret(token, user)) else {
            return Ok(None);
        };
        let found = self.records.get(cx, hash(&secret)).await?;
        Ok(found.filter(|device| {
            device.user_id == user && device.expires_at.is_some_and(|end| cx.now() < end)
        }))
    }

    /// Whether a user has signed in from any device that is still recognised.
    ///
    /// # Errors
    /// When the store cannot tell.
    pub(crate) async fn any(&self, cx: &Cx, user: &str) -> Result<bool> {
        let page = PageArgs {
            limit: Some(1),
            ..PageArgs::default()
        };
        Ok(!self
            .records
            .of_holder(cx, user.to_owned(), page)
            .await?
            .items
            .is_empty())
    }

    /// Whether a new device of a user is worth a mail: it is not their first, and they were told of
    /// few others in the last hour. Whoever signs in over and over is told of at first, and does
    /// not fill a mailbox.
    ///
    /// # Errors
    /// When the store cannot tell.
    pub(crate) async fn is_news(&self, cx: &Cx, user: &User) -> Result<bool> {
        let devices = self.of(cx, &user.id).await?;
        let fresh = devices.is_empty() && cx.now() < later(user.created_at, millis(LIFETIME));
        let lately = devices
            .iter()
            .filter(|device| {
                device
                    .told_at
                    .is_some_and(|at| cx.now() < later(at, LATELY))
            })
            .count();
        Ok(!fresh && lately < TOLD)
    }

    /// Remembers a new device of a user, who was told of it or not, and makes the token that it is
    /// recognised by.
    ///
    /// # Errors
    /// When it cannot be kept.
    pub(crate) async fn remember(
        &self,
        cx: &Cx,
        user: &str,
        told: bool,
    ) -> Result<(Device, SecretText)> {
        let secret = self.env.random::<SECRET>()?;
        let now = cx.now();
        let new = DeviceCreate {
            id: hash(&secret),
            user_id: user.to_owned(),
            trusted_until: None,
            trusted_version: None,
            created_at: now,
            told_at: told.then_some(now),
            last_seen_at: now,
            expires_at: Some(end(now)),
        };
        let device = self.records.create(cx, new).await?;
        for oldest in self.of(cx, user).await?.into_iter().skip(MOST) {
            self.remove(cx, oldest.id).await?;
        }
        let mut bytes = secret.to_vec();
        bytes.extend_from_slice(&self.ring.mac(Purpose::Device, &[&secret, user.as_bytes()]));
        let token = format!(
            "{VERSION}.{}.{}",
            self.ring.kid(),
            URL_SAFE_NO_PAD.encode(bytes)
        );
        Ok((device, SecretText::new(token)))
    }

    /// Notes that a device is used, so that it is recognised for longer.
    ///
    /// # Errors
    /// When that cannot be kept.
    pub(crate) async fn seen(&self, cx: &Cx, device: &Device) -> Result<()> {
        let now = cx.now();
        if now.millis() - device.last_seen_at.millis() < SEEN {
            return Ok(());
        }
        let patch = DevicePatch {
            last_seen_at: Some(now),
            expires_at: Some(Some(end(now))),
            ..DevicePatch::default()
        };
        unless_gone(
            self.records
                .update(cx, device.id.as_str(), patch, None)
                .await
                .map(drop),
        )
    }

    /// Lets a device count as the second factor for a while, for an account as it is now.
    ///
    /// # Errors
    /// When that cannot be kept.
    pub(crate) async fn trust(
        &self,
        cx: &Cx,
        device: &Device,
        user: &User,
        seconds: u64,
    ) -> Result<()> {
        let patch = DevicePatch {
            trusted_until: Some(Some(later(cx.now(), millis(seconds)))),
            trusted_version: Some(Some(version(user))),
            ..DevicePatch::default()
        };
        unless_gone(
            self.records
                .update(cx, device.id.as_str(), patch, None)
                .await
                .map(drop),
        )
    }

    /// Trusts none of a user's devices any more. They are recognised as before.
    ///
    /// # Errors
    /// When the store cannot say that they are not.
    pub(crate) async fn distrust(&self, cx: &Cx, user: &str) -> Result<()> {
        for device in self
            .of(cx, user)
            .await?
            .into_iter()
            .filter(|device| device.trusted_until.is_some())
        {
            let patch = DevicePatch {
                trusted_until: Some(None),
                trusted_version: Some(None),
                ..DevicePatch::default()
            };
            unless_gone(
                self.records
                    .update(cx, device.id, patch, None)
                    .await
                    .map(drop),
            )?;
        }
        Ok(())
    }

    /// Forgets all devices of a user.
    ///
    /// # Errors
    /// When the store cannot say that they are forgotten.
    pub(crate) async fn forget(&self, cx: &Cx, user: &str) -> Result<()> {
        for device in self.of(cx, user).await? {
            self.remove(cx, device.id).await?;
        }
        Ok(())
    }

    async fn of(&self, cx: &Cx, user: &str) -> Result<Vec<Device>> {
        let mut devices = self
            .records
            .of_holder(cx, user.to_owned(), PageArgs::default())
            .await?
            .items;
        devices.sort_by(|a, b| (b.last_seen_at, &b.id).cmp(&(a.last_seen_at, &a.id)));
        Ok(devices)
    }

    async fn remove(&self, cx: &Cx, id: String) -> Result<()> {
        unless_gone(self.records.delete(cx, id, None).await)
    }

    /// The secret of a token that was made for this user.
    fn secret(&self, token: &str, user: &str) -> Option<[u8; SECRET]> {
        if token.len() > LONGEST {
            return None;
        }
        let mut parts = token.split('.');
        let (Some(VERSION), Some(kid), Some(body), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return None;
        };
        let bytes = URL_SAFE_NO_PAD
            .decode(body)
            .ok()
            .filter(|bytes| bytes.len() == SECRET + MAC)?;
        let (secret, made) = bytes.split_at(SECRET);
        let expected = mac(
            self.ring.key_of(kid, Purpose::Device)?,
            &[secret, user.as_bytes()],
        );
        if same(&expected, made) {
            secret.try_into().ok()
        } else {
            None
        }
    }
}

impl Device {
    /// Whether it counts as the second factor of an account.
    pub(crate) fn is_trusted(&self, user: &User, now: Timestamp) -> bool {
        self.trusted_until.is_some_and(|end| now < end)
            && self.trusted_version == Some(version(user))
    }
}

/// Both only ever grow, and so does their sum: it is the same only while both are.
fn version(user: &User) -> i64 {
    user.password_version + user.mfa_version
}

fn hash(secret: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(secret))
}

fn end(now: Timestamp) -> Timestamp {
    later(now, millis(LIFETIME))
}

fn unless_gone(done: Result<()>) -> Result<()> {
    match done {
        Err(error) if error.code() == Code::NotFound => Ok(()),
        done => done,
    }
}
