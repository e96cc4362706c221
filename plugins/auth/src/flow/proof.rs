//! Proof of the signed-in user, and its age. Every route that needs a recent sign-in or a proof
//! calls this module. It has two rules ([`Need`]):
//!
//! - `Recent`: a recent sign-in, or a proof in the body.
//! - `Proof`: a proof in the body, or a recent step-up. An account with neither password nor second
//!   factor needs a recent sign-in. For the removal of one of several ways to sign in, a recent
//!   sign-in is enough if the account has no second factor.
//!
//! For an account with second factors, both need a session that has proved one of the current
//! factors: at sign-in, by a step-up, or by setting up the first one. A session that was opened
//! before the factor existed, or on a trusted device, must prove one first. A passkey that does not
//! verify its user is one factor; if the account has nothing else, it is enough.

use linchpin::{Code, Cx, Error, Result};
use serde_json::json;

use super::factors::CorrectFactor;
use crate::core::{AuditEvent, Client, Core};
use crate::entities::User;
use crate::error::{
    FACTOR_NOT_ALLOWED, INVALID_CHALLENGE, INVALID_CODE, INVALID_CREDENTIALS, STEP_UP_REQUIRED,
    refuse,
};
use crate::limit::{Bucket, Hit, Taken};
use crate::mfa::{Challenge, Pending, ProofMethod, SuppliedFactor, SuppliedProof};
use crate::onetime::{OneTime, Purpose};
use crate::secret::SecretText;
use crate::session::{CheckedSession, is_fresh};

/// The proof that a route needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// A recent sign-in, or a proof in the body.
    Recent,
    /// A proof in the body, or a recent step-up.
    Proof,
    /// Like `Proof`, for the removal of a passkey or a provider if another way to sign in remains.
    /// Without a second factor, a recent sign-in is enough.
    WayIn,
    /// Like `Proof`, but for a step-up: an earlier step-up is not enough.
    StepUp,
    /// Like `Proof`, but not by mail: for a change of the address to which codes are mailed.
    ProofButMail,
}

/// A sufficient proof. It is used up in the transaction of the change.
#[must_use]
pub(crate) struct Proof {
    /// The handle of the session of the request.
    pub(crate) session: String,
    right: Option<CorrectFactor>,
    challenge: Option<OneTime>,
}

impl Proof {
    /// Uses up the proof. Nothing is done if the session has ended meanwhile, for example while a
    /// hook ran or a password was checked.
    ///
    /// # Errors
    /// `invalid_challenge` or `invalid_code` if another request used it up; 401 if the session has
    /// ended.
    pub(crate) async fn spend(
        &self,
        core: &Core,
        cx: &Cx,
        client: &Client,
        user: &User,
    ) -> Result<()> {
        if !core.is_live(cx, client, &self.session, &user.id).await? {
            return Err(Error::unauthorized());
        }
        if let Some(challenge) = &self.challenge
            && !core.parts.tokens.take(cx, challenge).await?
        {
            return Err(refuse(INVALID_CHALLENGE));
        }
        match &self.right {
            Some(right) => right.spend(core, cx, client, user).await,
            None => Ok(()),
        }
    }
}

impl Core {
    /// Checks that the signed-in user gave the proof that a route needs. A proof in the body is
    /// checked even if none is needed: a wrong one is refused. It counts for this request only.
    ///
    /// # Errors
    /// 403 `step_up_required`, `factor_not_allowed`; 401 for a wrong proof; 429.
    pub(crate) async fn prove(
        &self,
        client: &Client,
        known: &CheckedSession,
        user: &User,
        typed: &SuppliedProof,
        need: Need,
    ) -> Result<Proof> {
        match typed.supplied_factor()? {
            // After a step-up, the password of an account with second factors is not a proof, but a
            // wrong one is refused.
            Some(SuppliedFactor::Password(typed))
                if need != Need::StepUp && self.is_unneeded_password(client, known, user, need) =>
            {
                self.prove_password(client, known, user, &typed).await?;
                Ok(Proof {
                    session: known.handle.clone(),
                    right: None,
                    challenge: None,
                })
            }
            Some(tried) => {
                self.prove_with(client, known, user, typed, &tried, need)
                    .await
            }
            None => {
                self.require(client, known, user, need)?;
                Ok(Proof {
                    session: known.handle.clone(),
                    right: None,
                    challenge: None,
                })
            }
        }
    }

    /// Whether a password in the body is not needed: the account has second factors, and the
    /// session alone is enough.
    fn is_unneeded_password(
        &self,
        client: &Client,
        known: &CheckedSession,
        user: &User,
        need: Need,
    ) -> bool {
        !self.methods(user).is_empty()
            && self.takes_password(user)
            && self.suffices(client, known, user, need)
    }

    /// Checks for a recent sign-in or step-up, if the body has no proof.
    ///
    /// # Errors
    /// 403 `step_up_required`.
    pub(crate) fn require(
        &self,
        client: &Client,
        known: &CheckedSession,
        user: &User,
        need: Need,
    ) -> Result<()> {
        if self.suffices(client, known, user, need) {
            Ok(())
        } else {
            Err(refuse(STEP_UP_REQUIRED))
        }
    }

    /// Whether the session's sign-in or step-up is recent enough.
    fn suffices(&self, client: &Client, known: &CheckedSession, user: &User, need: Need) -> bool {
        let ages = &self.config.auth.step_up;
        if !self.has_proved_factors(known, user) {
            return false;
        }
        match need {
            Need::Recent => is_fresh(known.auth_at, client.now, ages.account_max_age_seconds),
            Need::Proof | Need::WayIn | Need::StepUp | Need::ProofButMail => {
                let by_mail = known.step_up_by == Some(ProofMethod::EmailOtp);
                let counts = need != Need::ProofButMail || !by_mail;
                let stepped_up = known
                    .step_up_at
                    .is_some_and(|at| counts && is_fresh(at, client.now, ages.max_age_seconds));
                // A user without any factor signs in again. So does a user who could only repeat
                // the proof of the sign-in.
                let repeats_sign_in =
                    known.proved_only_by_passkey && self.methods(user) == [ProofMethod::Webauthn];
                let has_no_other_proof = !self.takes_password(user)
                    && (repeats_sign_in || self.methods(user).is_empty());
                let by_sign_in =
                    has_no_other_proof || (need == Need::WayIn && self.methods(user).is_empty());
                stepped_up
                    || (by_sign_in && is_fresh(known.auth_at, client.now, ages.max_age_seconds))
            }
        }
    }

    /// Whether a session has proved a second factor of its account, or the account has none.
    pub(crate) fn has_proved_factors(&self, known: &CheckedSession, user: &User) -> bool {
        self.methods(user).is_empty() || known.proved_factors == Some(user.mfa_version)
    }

    /// Checks for the proof of an existing factor when another one is about to be added.
    ///
    /// # Errors
    /// 403 `step_up_required`.
    pub(crate) fn require_factors(&self, known: &CheckedSession, user: &User) -> Result<()> {
        if self.has_proved_factors(known, user) {
            Ok(())
        } else {
            Err(refuse(STEP_UP_REQUIRED))
        }
    }

    /// Checks the factor in a body. Wrong ones count together with all other proofs of the user.
    ///
    /// # Errors
    /// 403 `factor_not_allowed`; 401 `invalid_code`, `invalid_credentials`,
    /// `invalid_challenge`; 429.
    pub(crate) async fn prove_with(
        &self,
        client: &Client,
        known: &CheckedSession,
        user: &User,
        typed: &SuppliedProof,
        tried: &SuppliedFactor,
        need: Need,
    ) -> Result<Proof> {
        let challenge = match (&typed.token, tried) {
            (Some(token), SuppliedFactor::Sent(..) | SuppliedFactor::Webauthn(_)) => self
                .reauth(&client.cx(), token.expose(), known, user)
                .await?
                .ok_or_else(|| refuse(INVALID_CHALLENGE))
                .map(Some)?,
            _ => None,
        };
        let way = tried.way(
            challenge
                .as_ref()
                .and_then(|one| one.pending.sent.as_ref())
                .map(|sent| sent.way),
        );
        if !self.is_accepted_proof(user, way)
            || (need == Need::ProofButMail && way == ProofMethod::EmailOtp)
        {
            return Err(refuse(FACTOR_NOT_ALLOWED));
        }
        let taken = self.count_proof(client, known, user).await?;
        let judged = async {
            if let Some(challenge) = &challenge
                && self
                    .parts
                    .tokens
                    .attempt(&client.cx(), &challenge.one_time)
                    .await?
                    .is_none()
            {
                return Err(refuse(INVALID_CHALLENGE));
            }
            self.check_factor(client, user, tried, challenge.as_ref())
                .await
        };
        match judged.await {
            Ok(Some(right)) => {
                taken.succeeded().await;
                if right.is_bare_passkey()
                    && self.has_proved_passkey_only(&client.cx(), known).await?
                {
                    return Err(refuse(FACTOR_NOT_ALLOWED));
                }
                let challenge = challenge.map(|challenge| challenge.one_time);
                Ok(Proof {
                    session: known.handle.clone(),
                    right: Some(right),
                    challenge,
                })
            }
            Ok(None) => {
                let outcome = if way == ProofMethod::Password {
                    INVALID_CREDENTIALS
                } else {
                    INVALID_CODE
                };
                self.proof_failed(client, known, way, outcome).await?;
                Err(refuse(outcome))
            }
            Err(error) => {
                // A check that failed for another reason does not count.
                if error.code().status() >= 500 {
                    taken.undo().await;
                }
                Err(error)
            }
        }
    }

    /// Counts a proof, by session, so that a person who stole one session cannot lock out the
    /// owner's session. There is also a limit over all sessions, from which recognised devices are
    /// exempt.
    async fn count_proof(
        &self,
        client: &Client,
        known: &CheckedSession,
        user: &User,
    ) -> Result<Taken> {
        let device = self
            .devices
            .recognised(&client.cx(), client.device(), &user.id)
            .await?;
        let mut user_key = vec![user.id.as_str()];
        user_key.extend(device.as_ref().map(|device| device.id.as_str()));
        let session_hit = Hit {
            bucket: Bucket::Proof,
            key: &[&user.id, &known.handle],
        };
        self.limiter
            .take(&[
                session_hit,
                Hit {
                    bucket: Bucket::ProofUser,
                    key: &user_key,
                },
            ])
            .await
    }

    /// Checks the current password for a change of it. Wrong ones count with all other proofs.
    ///
    /// # Errors
    /// 401 `invalid_credentials`; 429.
    pub(crate) async fn prove_password(
        &self,
        client: &Client,
        known: &CheckedSession,
        user: &User,
        typed: &SecretText,
    ) -> Result<()> {
        let taken = self.count_proof(client, known, user).await?;
        match self.is_password(user, typed).await {
            Ok(true) => {
                taken.succeeded().await;
                Ok(())
            }
            Ok(false) => {
                self.proof_failed(client, known, ProofMethod::Password, INVALID_CREDENTIALS)
                    .await?;
                Err(refuse(INVALID_CREDENTIALS))
            }
            Err(error) => {
                taken.undo().await;
                Err(error)
            }
        }
    }

    /// Whether a session was opened by a passkey without user verification and nothing was proved
    /// since: the same passkey proves nothing more.
    async fn has_proved_passkey_only(&self, cx: &Cx, known: &CheckedSession) -> Result<bool> {
        let session = self
            .sessions
            .get(cx, known.handle.as_str())
            .await?
            .ok_or_else(Error::unauthorized)?;
        Ok(session.amr.iter().all(|how| how == "pop" || how == "user"))
    }

    async fn proof_failed(
        &self,
        client: &Client,
        known: &CheckedSession,
        way: ProofMethod,
        outcome: Code,
    ) -> Result<()> {
        let failed = AuditEvent {
            outcome: outcome.as_str(),
            ..AuditEvent::about("auth:step_up.failed", &known.user_id)
                .session(&known.handle)
                .details(json!({ "method": way.name() }))
        };
        self.audit(&client.cx(), client, failed).await
    }

    /// The pending challenge of `/reauth/challenge` for this session; `None` for any other token.
    async fn reauth(
        &self,
        cx: &Cx,
        token: &str,
        known: &CheckedSession,
        user: &User,
    ) -> Result<Option<Challenge>> {
        let Some(one_time) = self.parts.tokens.find(cx, Purpose::Reauth, token).await? else {
            return Ok(None);
        };
        let pending: Pending = self.parts.tokens.payload(&one_time)?;
        let own = one_time.user_id == user.id
            && pending.session.as_deref() == Some(known.handle.as_str())
            && pending.is_current(user);
        Ok(own.then_some(Challenge { one_time, pending }))
    }
}
