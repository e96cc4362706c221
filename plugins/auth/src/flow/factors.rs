//! Trying a factor: in one place for the second factor of a sign-in, for step-up, and for a proof
//! in a body.
//!
//! A try has two halves. First it is judged, which changes nothing; what is right is then spent, in
//! the transaction of what it is good for. So a proof that a hook or a rule refuses afterwards is
//! still unused, and of a hundred who use it at once one does.

use linchpin::{Code, Cx, PageArgs, Result};
use serde_json::json;

use super::passkeys::Used;
use crate::core::{Client, Core, Happened};
use crate::entities::User;
use crate::error::{INVALID_CODE, refuse};
use crate::keys::data::Place;
use crate::mail::MailKind;
use crate::mfa::entity::{Factor, FactorPatch};
use crate::mfa::{Challenge, Factors, Tried, Way, must_enrol};
use crate::password::{Password, Verdict};
use crate::recovery::RecoveryCode;
use crate::secret::{SecretBytes, SecretText};

/// A factor that was right. Whoever asked by a challenge takes that as well: a code that was sent
/// costs nothing else.
#[must_use]
pub(crate) struct Right(Cost);

/// What using it up takes.
enum Cost {
    Nothing,
    /// The step of an authenticator app: none of before counts any more.
    Step {
        factor: Factor,
        step: i64,
    },
    /// A recovery code, as it may be stored.
    Recovery(Vec<String>),
    /// The use of a passkey: its count goes up.
    Passkey(Box<Used>),
}

impl Right {
    /// Whether it is a passkey that did not verify its user: whoever holds it has proved no more
    /// than that.
    pub(crate) fn is_bare_passkey(&self) -> bool {
        matches!(&self.0, Cost::Passkey(used) if !used.asserted.flags.user_verified)
    }

    /// Uses it up, as part of what it is good for.
    ///
    /// # Errors
    /// `invalid_code` when somebody else was faster.
    pub(crate) async fn spend(
        &self,
        core: &Core,
        cx: &Cx,
        client: &Client,
        user: &User,
    ) -> Result<()> {
        match &self.0 {
            Cost::Nothing => Ok(()),
            Cost::Step { factor, step } => {
                let patch = FactorPatch {
                    last_step: Some(Some(*step)),
                    ..FactorPatch::default()
                };
                match core
                    .parts
                    .factors
                    .update(cx, factor.id.as_str(), patch, Some(factor.version))
                    .await
                {
                    Ok(_) => Ok(()),
                    Err(error)
                        if matches!(error.code(), Code::PreconditionFailed | Code::NotFound) =>
                    {
                        Err(refuse(INVALID_CODE))
                    }
                    Err(error) => Err(error),
                }
            }
            Cost::Recovery(macs) => core.use_recovery_code(cx, client, user, macs).await,
            Cost::Passkey(used) => match core.note_use(cx, client, used).await {
                Err(error) if matches!(error.code(), Code::PreconditionFailed | Code::NotFound) => {
                    Err(refuse(INVALID_CODE))
                }
                done => done,
            },
        }
    }
}

impl Core {
    /// The second factors of an account.
    pub(crate) fn methods(&self, user: &User) -> Vec<Way> {
        Factors::of(&self.config).methods(user)
    }

    /// Whether an account has to set up a second factor before anything else.
    pub(crate) fn must_enrol(&self, user: &User) -> bool {
        must_enrol(self.config.auth.mfa.required, user)
    }

    /// What an account can prove itself with: its second factors and recovery codes, or its
    /// password when it has none.
    ///
    /// # Errors
    /// When the store cannot tell.
    pub(crate) async fn ways(&self, cx: &Cx, user: &User) -> Result<Vec<Way>> {
        let mut ways = self.methods(user);
        if ways.is_empty() {
            return Ok(self
                .takes_password(user)
                .then_some(Way::Password)
                .into_iter()
                .collect());
        }
        if self.recovery_codes_left(cx, user).await? > 0 {
            ways.push(Way::Recovery);
        }
        Ok(ways)
    }

    /// Whether a factor is one that an account proves itself with.
    pub(crate) fn counts(&self, user: &User, way: Way) -> bool {
        let methods = self.methods(user);
        match way {
            Way::Password => methods.is_empty() && self.takes_password(user),
            Way::Recovery => !methods.is_empty(),
            method => methods.contains(&method),
        }
    }

    pub(crate) fn takes_password(&self, user: &User) -> bool {
        self.config.auth.password.enabled && user.password_hash.is_some()
    }

    /// Tries a factor that counts for the account; `None` when it is wrong. A code that was sent is
    /// one of the challenge.
    ///
    /// # Errors
    /// When it cannot be tried.
    pub(crate) async fn judge(
        &self,
        client: &Client,
        user: &User,
        tried: &Tried,
        challenge: Option<&Challenge>,
    ) -> Result<Option<Right>> {
        let cx = client.cx();
        match tried {
            Tried::Password(typed) => Ok(self
                .is_password(user, typed)
                .await?
                .then_some(Right(Cost::Nothing))),
            Tried::Totp(typed) => self.judge_totp(&cx, user, typed).await,
            Tried::Recovery(typed) => self.judge_recovery(&cx, user, typed).await,
            Tried::Sent(way, typed) => {
                Ok(challenge.and_then(|challenge| self.judge_sent(client, *way, typed, challenge)))
            }
            Tried::Webauthn(response) => match challenge {
                Some(challenge) => {
                    let used = self
                        .judge_second_passkey(client, user, response, challenge)
                        .await?;
                    Ok(used.map(|used| Right(Cost::Passkey(Box::new(used)))))
                }
                None => Ok(None),
            },
        }
    }

    /// Whether a text is the account's password.
    ///
    /// # Errors
    /// 503 when too many wait to know.
    pub(crate) async fn is_password(&self, user: &User, typed: &SecretText) -> Result<bool> {
        let most = usize::try_from(self.config.auth.password.max_length).unwrap_or(128);
        // A text that no password can be is as wrong as any other.
        let Ok(password) = Password::tried(typed, most) else {
            return Ok(false);
        };
        Ok(matches!(
            self.hasher
                .verify(password, user.password_hash.clone())
                .await?,
            Verdict::Right { .. }
        ))
    }

    async fn judge_totp(&self, cx: &Cx, user: &User, typed: &SecretText) -> Result<Option<Right>> {
        let Some(factor) = self
            .parts
            .factors
            .of_way(cx, user.id.clone(), Way::Totp)
            .await?
        else {
            return Ok(None);
        };
        let Some(secret) = self.open_factor(&factor) else {
            return Ok(None);
        };
        let step = self.config.auth.mfa.totp.rules().step(
            &secret,
            typed.expose(),
            cx.now(),
            factor.last_step,
        );
        Ok(step.map(|step| Right(Cost::Step { factor, step })))
    }

    async fn judge_recovery(
        &self,
        cx: &Cx,
        user: &User,
        typed: &SecretText,
    ) -> Result<Option<Right>> {
        let Some(code) = RecoveryCode::parse(typed.expose()) else {
            return Ok(None);
        };
        let macs = code.candidates(&self.parts.keys, &user.id);
        for mac in &macs {
            if self
                .parts
                .codes
                .unused(cx, user.id.clone(), mac.clone())
                .await?
                .is_some()
            {
                return Ok(Some(Right(Cost::Recovery(macs))));
            }
        }
        Ok(None)
    }

    fn judge_sent(
        &self,
        client: &Client,
        way: Option<Way>,
        typed: &SecretText,
        challenge: &Challenge,
    ) -> Option<Right> {
        let sent = challenge.pending.sent.as_ref()?;
        let meant = way.is_none_or(|way| way == sent.way) && client.now.millis() < sent.until;
        let right = crate::otp::matches(
            &self.parts.keys,
            &challenge.one.id,
            typed.expose(),
            &sent.mac,
        );
        (meant && right).then_some(Right(Cost::Nothing))
    }

    /// What is kept with a factor. One that cannot be read, because it was changed outside or its
    /// key is gone, proves nothing: whoever runs the app is told, and its owner goes on with
    /// another.
    pub(crate) fn open_factor(&self, factor: &Factor) -> Option<SecretBytes> {
        let opened = self
            .parts
            .keys
            .open(factor_place(&factor.id), &factor.sealed);
        opened.inspect_err(|error| tracing::error!(factor = factor.id, error = ?error, "a second factor cannot be read")).ok()
    }

    /// How many recovery codes are left.
    ///
    /// # Errors
    /// When the store cannot tell.
    pub(crate) async fn recovery_codes_left(&self, cx: &Cx, user: &User) -> Result<usize> {
        Ok(self
            .parts
            .codes
            .codes_of(cx, user.id.clone(), PageArgs::default())
            .await?
            .items
            .len())
    }

    async fn use_recovery_code(
        &self,
        cx: &Cx,
        client: &Client,
        user: &User,
        macs: &[String],
    ) -> Result<()> {
        for mac in macs {
            if self
                .parts
                .codes
                .r#use(cx, user.id.as_str(), mac.as_str())
                .await?
            {
                let left = self.recovery_codes_left(cx, user).await?;
                let details = json!({ "method": "recovery", "left": left });
                self.audit(
                    cx,
                    client,
                    Happened::to("auth:mfa.recovery_used", &user.id).details(details),
                )
                .await?;
                return self
                    .parts
                    .notice_of(
                        cx,
                        client,
                        user,
                        MailKind::RecoveryCodeUsed,
                        &[("left", &left.to_string())],
                    )
                    .await;
            }
        }
        Err(refuse(INVALID_CODE))
    }
}

/// Where a factor's secret is kept.
pub(crate) fn factor_place(id: &str) -> Place<'_> {
    Place {
        entity: "auth_factors",
        id,
        field: "sealed",
    }
}
