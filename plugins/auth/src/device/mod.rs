//! Recognised devices: devices on which a user has completed a sign-in. Wrong passwords from other
//! devices do not lock out the user on such a device.
//!
//! A device token works for one user. A shared browser recognises the user who signed in last. One
//! token for several users would be unsafe: an attacker could plant it in a browser, which would
//! then be recognised, or even trusted, for its next user.

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
use crate::keys::derive::{Purpose, Ring};
use crate::secret::{SecretText, same};

/// Seconds for which a device is recognised after its last use: 180 days.
pub(crate) const LIFETIME: u64 = 180 * 24 * 60 * 60;
/// Minimum time between two updates of `last_seen_at`, in milliseconds: one day.
const SEEN_INTERVAL: i64 = 24 * 60 * 60 * 1000;
/// Maximum number of devices of a user. A further device replaces the one with the oldest
/// `last_seen_at`. A program that keeps no token creates a device with each sign-in.
const MAX_DEVICES: usize = 50;
/// Maximum number of mails about new devices within [`NOTICE_WINDOW`].
const MAX_NOTICES: usize = 5;
/// One hour, in milliseconds.
const NOTICE_WINDOW: i64 = 60 * 60 * 1000;

const VERSION: &str = "v1";
const SECRET_BYTES: usize = 32;
const MAC_BYTES: usize = 32;
/// Maximum length of a token in bytes.
const MAX_TOKEN_BYTES: usize = 256;

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

    /// Returns the device of a token if the token belongs to this user. The store is read only if
    /// the MAC of the token is valid for this user.
    ///
    /// # Errors
    /// If the store cannot be read.
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

    /// Whether any device of the user is still recognised.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub(crate) async fn has_devices(&self, cx: &Cx, user: &str) -> Result<bool> {
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

    /// Whether a mail about a new device is sent. The first device causes no mail. [`MAX_NOTICES`]
    /// limits the mails of an hour, so that many sign-ins do not fill a mailbox.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub(crate) async fn should_notify(&self, cx: &Cx, user: &User) -> Result<bool> {
        let devices = self.of_user(cx, &user.id).await?;
        let is_first_device =
            devices.is_empty() && cx.now() < later(user.created_at, millis(LIFETIME));
        let recent_notices = devices
            .iter()
            .filter(|device| {
                device
                    .notified_at
                    .is_some_and(|at| cx.now() < later(at, NOTICE_WINDOW))
            })
            .count();
        Ok(!is_first_device && recent_notices < MAX_NOTICES)
    }

    /// Stores a new device of a user and returns its token. `notified` is true if a mail was sent.
    ///
    /// # Errors
    /// If it cannot be stored.
    pub(crate) async fn remember(
        &self,
        cx: &Cx,
        user: &str,
        notified: bool,
    ) -> Result<(Device, SecretText)> {
        let secret = self.env.random::<SECRET_BYTES>()?;
        let now = cx.now();
        let new = DeviceCreate {
            id: hash(&secret),
            user_id: user.to_owned(),
            trusted_until: None,
            trusted_version: None,
            created_at: now,
            notified_at: notified.then_some(now),
            last_seen_at: now,
            expires_at: Some(expiry(now)),
        };
        let device = self.records.create(cx, new).await?;
        for oldest in self.of_user(cx, user).await?.into_iter().skip(MAX_DEVICES) {
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

    /// Updates `last_seen_at`, so that the device is recognised for longer.
    ///
    /// # Errors
    /// If it cannot be stored.
    pub(crate) async fn update_last_seen(&self, cx: &Cx, device: &Device) -> Result<()> {
        let now = cx.now();
        if now.millis() - device.last_seen_at.millis() < SEEN_INTERVAL {
            return Ok(());
        }
        let patch = DevicePatch {
            last_seen_at: Some(now),
            expires_at: Some(Some(expiry(now))),
            ..DevicePatch::default()
        };
        ignore_missing(
            self.records
                .update(cx, device.id.as_str(), patch, None)
                .await
                .map(drop),
        )
    }

    /// Trusts a device for a while: it replaces the second factor until the account changes.
    ///
    /// # Errors
    /// If it cannot be stored.
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
        ignore_missing(
            self.records
                .update(cx, device.id.as_str(), patch, None)
                .await
                .map(drop),
        )
    }

    /// Ends the trust in all devices of a user. They are still recognised.
    ///
    /// # Errors
    /// If it cannot be stored.
    pub(crate) async fn distrust(&self, cx: &Cx, user: &str) -> Result<()> {
        for device in self
            .of_user(cx, user)
            .await?
            .into_iter()
            .filter(|device| device.trusted_until.is_some())
        {
            let patch = DevicePatch {
                trusted_until: Some(None),
                trusted_version: Some(None),
                ..DevicePatch::default()
            };
            ignore_missing(
                self.records
                    .update(cx, device.id, patch, None)
                    .await
                    .map(drop),
            )?;
        }
        Ok(())
    }

    /// Deletes all devices of a user.
    ///
    /// # Errors
    /// If they cannot be deleted.
    pub(crate) async fn forget(&self, cx: &Cx, user: &str) -> Result<()> {
        for device in self.of_user(cx, user).await? {
            self.remove(cx, device.id).await?;
        }
        Ok(())
    }

    async fn of_user(&self, cx: &Cx, user: &str) -> Result<Vec<Device>> {
        let mut devices = self
            .records
            .of_holder(cx, user.to_owned(), PageArgs::default())
            .await?
            .items;
        devices.sort_by(|a, b| (b.last_seen_at, &b.id).cmp(&(a.last_seen_at, &a.id)));
        Ok(devices)
    }

    async fn remove(&self, cx: &Cx, id: String) -> Result<()> {
        ignore_missing(self.records.delete(cx, id, None).await)
    }

    /// Returns the secret of a token if the token belongs to this user.
    fn secret(&self, token: &str, user: &str) -> Option<[u8; SECRET_BYTES]> {
        if token.len() > MAX_TOKEN_BYTES {
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
            .filter(|bytes| bytes.len() == SECRET_BYTES + MAC_BYTES)?;
        let (secret, mac) = bytes.split_at(SECRET_BYTES);
        let key = self.ring.key_of(kid, Purpose::Device)?;
        let expected = key.mac(&[secret, user.as_bytes()]);
        if same(&expected, mac) {
            secret.try_into().ok()
        } else {
            None
        }
    }
}

impl Device {
    /// Whether the device replaces the second factor of the account.
    pub(crate) fn is_trusted(&self, user: &User, now: Timestamp) -> bool {
        self.trusted_until.is_some_and(|end| now < end)
            && self.trusted_version == Some(version(user))
    }
}

/// The version of the account for trusted devices. Both versions only grow, so the sum is equal
/// only if both are equal.
fn version(user: &User) -> i64 {
    user.password_version + user.mfa_version
}

fn hash(secret: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(secret))
}

fn expiry(now: Timestamp) -> Timestamp {
    later(now, millis(LIFETIME))
}

fn ignore_missing(done: Result<()>) -> Result<()> {
    match done {
        Err(error) if error.code() == Code::NotFound => Ok(()),
        done => done,
    }
}
