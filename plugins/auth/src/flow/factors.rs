//! The check of a factor. The second factor of a sign-in, the step-up, and a proof in a request
//! body all use this module.
//!
//! A check has two steps. `check_factor` checks the factor and does not use it up. `spend` uses it
//! up, in the transaction that needs the proof. So a proof stays unused if a hook or a rule refuses
//! the request, and only one of many concurrent requests with the same proof succeeds.

use linchpin::seal::Place;
use linchpin::{Code, Cx, PageArgs, Result};
use serde_json::json;

use super::passkeys::Used;
use crate::core::{AuditEvent, Client, Core};
use crate::entities::User;
use crate::error::{INVALID_CODE, refuse};
use crate::mail::MailKind;
use crate::mfa::entity::{Factor, FactorPatch, factor};
use crate::mfa::{Challenge, Factors, ProofMethod, SuppliedFactor, must_enrol};
use crate::password::{Password, Verdict};
use crate::recovery::RecoveryCode;
use crate::secret::{SecretBytes, SecretText};

/// A factor that was correct. The caller also consumes the challenge of the request; a sent code
/// needs nothing else.
#[must_use]
pub(crate) struct CorrectFactor(Cost);

/// The write that uses up the factor.
enum Cost {
    Nothing,
    /// The time step of an authenticator app. Codes of earlier steps are invalid afterwards.
    Step {
        factor: Factor,
        step: i64,
    },
    /// The possible hashes of a recovery code.
    Recovery(Vec<String>),
    /// The use of a passkey: its signature counter grows.
    Passkey(Box<Used>),
}

impl CorrectFactor {
    /// Whether it is a passkey that did not verify its user, which proves possession only.
    pub(crate) fn is_bare_passkey(&self) -> bool {
        matches!(&self.0, Cost::Passkey(used) if !used.asserted.flags.user_verified)
    }

    /// Uses up the factor, in the transaction that needs the proof.
    ///
    /// # Errors
    /// `invalid_code` if another request used it first.
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
            Cost::Passkey(used) => match core.store_passkey_use(cx, client, used).await {
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
    pub(crate) fn methods(&self, user: &User) -> Vec<ProofMethod> {
        Factors::of(&self.config).methods(user)
    }

    /// Whether an account must set up a second factor before anything else.
    pub(crate) fn must_enrol(&self, user: &User) -> bool {
        must_enrol(self.config.auth.mfa.required, user)
    }

    /// The methods by which an account proves its owner: its second factors and recovery codes, or
    /// its password if it has none.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub(crate) async fn proof_methods(&self, cx: &Cx, user: &User) -> Result<Vec<ProofMethod>> {
        let mut ways = self.methods(user);
        if ways.is_empty() {
            return Ok(self
                .takes_password(user)
                .then_some(ProofMethod::Password)
                .into_iter()
                .collect());
        }
        if self.recovery_codes_left(cx, user).await? > 0 {
            ways.push(ProofMethod::Recovery);
        }
        Ok(ways)
    }

    /// Whether this method proves the owner of the account.
    pub(crate) fn is_accepted_proof(&self, user: &User, way: ProofMethod) -> bool {
        let methods = self.methods(user);
        match way {
            ProofMethod::Password => methods.is_empty() && self.takes_password(user),
            ProofMethod::Recovery => !methods.is_empty(),
            method => methods.contains(&method),
        }
    }

    /// Whether a password proves the owner of the account.
    pub(crate) fn takes_password(&self, user: &User) -> bool {
        self.config.auth.password.enabled && user.password_hash.is_some()
    }

    /// Checks a factor of the account; `None` if it is wrong. A sent code is checked against the
    /// challenge.
    ///
    /// # Errors
    /// If it cannot be checked.
    pub(crate) async fn check_factor(
        &self,
        client: &Client,
        user: &User,
        tried: &SuppliedFactor,
        challenge: Option<&Challenge>,
    ) -> Result<Option<CorrectFactor>> {
        let cx = client.cx();
        match tried {
            SuppliedFactor::Password(typed) => Ok(self
                .is_password(user, typed)
                .await?
                .then_some(CorrectFactor(Cost::Nothing))),
            SuppliedFactor::Totp(typed) => self.check_totp(&cx, user, typed).await,
            SuppliedFactor::Recovery(typed) => self.check_recovery_code(&cx, user, typed).await,
            SuppliedFactor::Sent(way, typed) => Ok(challenge
                .and_then(|challenge| self.check_sent_code(client, *way, typed, challenge))),
            SuppliedFactor::Webauthn(response) => match challenge {
                Some(challenge) => {
                    let used = self
                        .check_second_passkey(client, user, response, challenge)
                        .await?;
                    Ok(used.map(|used| CorrectFactor(Cost::Passkey(Box::new(used)))))
                }
                None => Ok(None),
            },
        }
    }

    /// Whether a text is the account's password.
    ///
    /// # Errors
    /// 503 if too many checks are waiting.
    pub(crate) async fn is_password(&self, user: &User, typed: &SecretText) -> Result<bool> {
        let max_length = usize::try_from(self.config.auth.password.max_length).unwrap_or(128);
        // A text that cannot be a password is a wrong password.
        let Ok(password) = Password::for_check(typed, max_length) else {
            return Ok(false);
        };
        Ok(matches!(
            self.hasher
                .verify(password, user.password_hash.clone())
                .await?,
            Verdict::Right { .. }
        ))
    }

    async fn check_totp(
        &self,
        cx: &Cx,
        user: &User,
        typed: &SecretText,
    ) -> Result<Option<CorrectFactor>> {
        let Some(factor) = self
            .parts
            .factors
            .factor_of_user(cx, user.id.clone(), ProofMethod::Totp)
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
        Ok(step.map(|step| CorrectFactor(Cost::Step { factor, step })))
    }

    async fn check_recovery_code(
        &self,
        cx: &Cx,
        user: &User,
        typed: &SecretText,
    ) -> Result<Option<CorrectFactor>> {
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
                return Ok(Some(CorrectFactor(Cost::Recovery(macs))));
            }
        }
        Ok(None)
    }

    fn check_sent_code(
        &self,
        client: &Client,
        way: Option<ProofMethod>,
        typed: &SecretText,
        challenge: &Challenge,
    ) -> Option<CorrectFactor> {
        let sent = challenge.pending.sent.as_ref()?;
        let is_expected = way.is_none_or(|way| way == sent.way) && client.now.millis() < sent.until;
        let right = crate::otp::matches(
            &self.parts.keys,
            &challenge.one_time.id,
            typed.expose(),
            &sent.mac,
        );
        (is_expected && right).then_some(CorrectFactor(Cost::Nothing))
    }

    /// Decrypts the data of a factor. If it cannot be decrypted, because another program changed it
    /// or its key is missing, this logs an error and returns `None`. The user can use another
    /// factor.
    pub(crate) fn open_factor(&self, factor: &Factor) -> Option<SecretBytes> {
        let opened = self
            .parts
            .keys
            .open(factor_place(&factor.id), &factor.sealed);
        opened.inspect_err(|error| tracing::error!(factor = factor.id, error = ?error, "a second factor cannot be decrypted")).ok()
    }

    /// The number of unused recovery codes.
    ///
    /// # Errors
    /// If the store cannot be read.
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
                    AuditEvent::about("auth:mfa.recovery_used", &user.id).details(details),
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

/// The place of a factor's secret. The secret can be decrypted only at this place.
pub(crate) fn factor_place(id: &str) -> Place<'_> {
    Place::of(factor::sealed, id)
}
