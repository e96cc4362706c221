//! Attempts to sign in with a password. An attempt is counted before the check; a success removes
//! it from the counters.

use linchpin::{Cx, Error, Result};
use serde_json::json;

use crate::core::{AuditEvent, Client, Core};
use crate::device::Device;
use crate::entities::User;
use crate::error::rate_limited;
use crate::identity::PrimaryField;
use crate::limit::{Bucket, Full, Hit, Taken};
use crate::mail::MailKind;

/// Maximum waiting time, in seconds, in the response to a locked-out client. Apart from the time,
/// the response is the same as for any exhausted limit.
const LOCKED_OUT_SECONDS: u32 = 3600;

/// After the owner signed in without a password or reset it, guesses from other addresses do not
/// lock out the owner's address for this number of seconds.
const PROOF_SECONDS: u32 = 3600;

/// A counted attempt.
pub(crate) struct Attempt {
    taken: Taken,
    /// The device of the client, if the user signed in on it before.
    device: Option<Device>,
}

impl Attempt {
    /// Removes the attempt from the counters, because it was refused for another reason.
    pub(crate) async fn undo(&self) {
        self.taken.undo().await;
    }
}

impl Core {
    /// Counts an attempt. Identifiers without an account are counted in the same way.
    ///
    /// # Errors
    /// 429; 503 when the counters cannot be reached.
    pub(crate) async fn attempt(
        &self,
        client: &Client,
        identifier: &str,
        user: Option<&User>,
    ) -> Result<Attempt> {
        let (cx, address) = (client.cx(), client.limit_key());
        let device = match user {
            Some(user) => {
                self.devices
                    .recognised(&cx, client.device(), &user.id)
                    .await?
            }
            None => None,
        };
        let (of_address, of_both, of_identifier) = (
            [address.as_str()],
            [address.as_str(), identifier],
            [identifier],
        );
        let of_device = [device.as_ref().map_or("", |device| device.id.as_str())];
        let mut hits = vec![
            Hit {
                bucket: Bucket::LoginIp,
                key: &of_address,
            },
            Hit {
                bucket: Bucket::Login,
                key: &of_both,
            },
        ];
        if device.is_some() {
            hits.push(Hit {
                bucket: Bucket::LoginDevice,
                key: &of_device,
            });
        } else {
            if !self
                .limiter
                .is_noted(&proved_at(&address, identifier))
                .await?
            {
                hits.push(Hit {
                    bucket: Bucket::LoginIdentifier,
                    key: &of_identifier,
                });
            }
            if self.has_another_way(&cx, user).await? {
                hits.push(Hit {
                    bucket: Bucket::PasswordLockout,
                    key: &of_identifier,
                });
            }
        }
        let taken = match self.limiter.admit(&hits).await? {
            Ok(taken) => taken,
            Err(full) => return Err(self.throttled(&cx, client, identifier, user, full).await?),
        };
        match self
            .limiter
            .admit_distinct(
                Hit {
                    bucket: Bucket::LoginSpread,
                    key: &of_address,
                },
                identifier,
            )
            .await
        {
            Ok(Ok(spread)) => Ok(Attempt {
                taken: taken.and(spread),
                device,
            }),
            Ok(Err(full)) => {
                taken.undo().await;
                Err(self.throttled(&cx, client, identifier, user, full).await?)
            }
            Err(unreachable) => {
                taken.undo().await;
                Err(unreachable)
            }
        }
    }

    /// Refuses an attempt. Writes an audit log entry only for the first refusal in each window,
    /// because anyone can cause any number of refusals.
    async fn throttled(
        &self,
        cx: &Cx,
        client: &Client,
        identifier: &str,
        user: Option<&User>,
        full: Full,
    ) -> Result<Error> {
        let locked = full.bucket == Bucket::PasswordLockout;
        let seconds = if locked {
            full.seconds.min(LOCKED_OUT_SECONDS)
        } else {
            full.seconds
        };
        let (name, address) = (full.bucket.row().name, client.limit_key());
        // One entry for each key of the bucket. Buckets by address ignore the identifier, because a
        // client can invent any number of identifiers.
        let key = match full.bucket {
            Bucket::LoginIp | Bucket::LoginSpread => [address.as_str(), ""],
            Bucket::Login => [address.as_str(), identifier],
            _ => ["", identifier],
        };
        if self
            .limiter
            .is_first(&["auth:login.throttled", name, key[0], key[1]], seconds)
            .await?
        {
            let happened = AuditEvent {
                event: "auth:login.throttled",
                user: user.map(|user| user.id.as_str()),
                session: None,
                outcome: "rate_limited",
                details: json!({ "method": "password", "reason": name }),
            };
            self.audit(cx, client, happened).await?;
        }
        Ok(rate_limited(seconds))
    }

    /// Whether a user can still sign in while the password is locked. Only then do guesses lock it.
    /// For an identifier without an account, the function makes the same queries as for an account.
    async fn has_another_way(&self, cx: &Cx, user: Option<&User>) -> Result<bool> {
        let auth = &self.config.auth;
        let by_mail = auth.resets() || auth.magic_link.enabled;
        if by_mail && auth.primary_field == PrimaryField::Email {
            return Ok(true);
        }
        let id = user.map_or("", |user| user.id.as_str());
        let device = self.devices.has_devices(cx, id).await?;
        let passkey = self.signs_in_by_passkey(cx, id).await?;
        let provider = self.signs_in_by_provider(cx, id).await?;
        Ok(
            device
                || passkey
                || provider
                || user.is_none_or(|user| by_mail && user.email.is_some()),
        )
    }

    /// Resets the counters after a correct password.
    pub(crate) async fn succeeded(&self, attempt: Attempt, identifier: &str) {
        attempt.taken.succeeded().await;
        if attempt.device.is_some() {
            self.limiter
                .clear(Hit {
                    bucket: Bucket::PasswordLockout,
                    key: &[identifier],
                })
                .await;
        }
    }

    /// Resets the counters after the owner signed in without a password, or reset the password. The
    /// next password is checked at once, and for one hour guesses from other addresses do not lock
    /// out this address.
    ///
    /// # Errors
    /// 503 when the counters cannot be reached.
    pub(crate) async fn unlock(&self, client: &Client, identifier: &str) -> Result<()> {
        let address = client.limit_key();
        let (of_identifier, of_both) = ([identifier], [address.as_str(), identifier]);
        for hit in [
            Hit {
                bucket: Bucket::PasswordLockout,
                key: &of_identifier,
            },
            Hit {
                bucket: Bucket::LoginIdentifier,
                key: &of_identifier,
            },
            Hit {
                bucket: Bucket::Login,
                key: &of_both,
            },
        ] {
            self.limiter.clear(hit).await;
        }
        self.limiter
            .note(&proved_at(&address, identifier), PROOF_SECONDS)
            .await
    }

    /// Writes the audit log entry of a wrong password. The guess that exhausts the limit sends a
    /// mail to the owner.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(crate) async fn failed(
        &self,
        client: &Client,
        attempt: &Attempt,
        user: Option<&User>,
    ) -> Result<()> {
        attempt.taken.failed().await?;
        let failed = AuditEvent {
            event: "auth:login.failed",
            user: user.map(|user| user.id.as_str()),
            session: None,
            outcome: "invalid_credentials",
            details: json!({ "method": "password", "reason": "invalid_credentials" }),
        };
        let notified = user.filter(|_| attempt.taken.is_last(Bucket::PasswordLockout));
        client
            .cx()
            .transaction(async |cx| {
                self.audit(cx, client, failed).await?;
                match notified {
                    Some(user) => {
                        self.parts
                            .notice(cx, client, user, MailKind::PasswordUnderAttack)
                            .await
                    }
                    None => Ok(()),
                }
            })
            .await
    }
}

/// The key of the mark that the owner of the account proved the identity from this address.
fn proved_at<'a>(address: &'a str, identifier: &'a str) -> [&'a str; 3] {
    ["proved at", address, identifier]
}
