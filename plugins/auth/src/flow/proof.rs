//! Proof of who is signed in, and how recent it is: the rules R and P. Every route that asks for
//! either asks here.
//!
//! - R: signed in lately, or a proof in the body.
//! - P: a proof in the body, or a step-up a moment ago; for an account with neither password nor
//!   second factor, a sign-in a moment ago. One of several ways to sign in is taken away after a
//!   sign-in a moment ago by every account without second factors.
//!
//! On an account with second factors both ask for a session that has proved one of them, as they
//! are now: at its sign-in, by a step-up, or by setting up the first one. A session that was opened
//! before there was one, or on a trusted device, proves one first. A passkey that does not verify
//! its user is one factor; where an account has nothing else, that is all there is to prove.

use linchpin::{Code, Cx, Error, Result};
use serde_json::json;

use super::factors::Right;
use crate::core::{Client, Core, Happened};
use crate::entities::User;
use crate::error::{
    FACTOR_NOT_ALLOWED, INVALID_CHALLENGE, INVALID_CODE, INVALID_CREDENTIALS, STEP_UP_REQUIRED,
    refuse,
};
use crate::limit::{Bucket, Hit, Taken};
use crate::mfa::{Challenge, Pending, Tried, Typed, Way};
use crate::onetime::{OneTime, Purpose};
use crate::secret::SecretText;
use crate::session::{Known, is_fresh};

/// What a route asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// R.
    Recent,
    /// P.
    Proof,
    /// P, for taking away a passkey or a provider, while another way to sign in remains: clients
    /// send no proof with it.
    WayIn,
    /// P, to be proved now: a step-up does not follow from the one before.
    StepUp,
    /// P, but what is proved by mail does not count: for changing the address that it goes to.
    ProofButMail,
}

/// Proof that suffices. It is spent in the transaction of what it was asked for.
#[must_use]
pub(crate) struct Proof {
    /// The handle of the session that it was given in.
    pub(crate) session: String,
    right: Option<Right>,
    challenge: Option<OneTime>,
}

impl Proof {
    /// Uses up what it was given with, if anything. A session that has ended since, while a hook
    /// was asked or a password tried, has nothing done in its name.
    ///
    /// # Errors
    /// `invalid_challenge`, `invalid_code` when somebody else has used it meanwhile; 401 when the
    /// session has ended.
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
    /// Asks who is signed in for what a route needs. What a body says is judged even where nothing
    /// more is needed: a wrong proof is refused whoever sends it. It counts for this request alone.
    ///
    /// # Errors
    /// 403 `step_up_required`, `factor_not_allowed`; 401 for a wrong proof; 429.
    pub(crate) async fn prove(
        &self,
        client: &Client,
        known: &Known,
        user: &User,
        typed: &Typed,
        need: Need,
    ) -> Result<Proof> {
        match typed.tried()? {
            // After a step-up, the password of an account with second factors is no proof by
            // itself, but a wrong one is refused.
            Some(Tried::Password(typed))
                if need != Need::StepUp && self.is_beside(client, known, user, need) =>
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

    /// Whether a password is sent where a second factor was proved a moment ago, which is what
    /// counts.
    fn is_beside(&self, client: &Client, known: &Known, user: &User, need: Need) -> bool {
        !self.methods(user).is_empty()
            && self.takes_password(user)
            && self.suffices(client, known, user, need)
    }

    /// Asks for a sign-in or a step-up that is recent enough, where a body holds no proof.
    ///
    /// # Errors
    /// 403 `step_up_required`.
    pub(crate) fn require(
        &self,
        client: &Client,
        known: &Known,
        user: &User,
        need: Need,
    ) -> Result<()> {
        if self.suffices(client, known, user, need) {
            Ok(())
        } else {
            Err(refuse(STEP_UP_REQUIRED))
        }
    }

    /// Whether somebody needs to prove nothing, because they just have.
    fn suffices(&self, client: &Client, known: &Known, user: &User, need: Need) -> bool {
        let ages = &self.config.auth.step_up;
        if !self.has_proved_factors(known, user) {
            return false;
        }
        match need {
            Need::Recent => is_fresh(known.auth_at, client.now, ages.account_max_age_seconds),
            Need::Proof | Need::WayIn | Need::StepUp | Need::ProofButMail => {
                let by_mail = known.step_up_by == Some(Way::EmailOtp);
                let counts = need != Need::ProofButMail || !by_mail;
                let stepped_up = known
                    .step_up_at
                    .is_some_and(|at| counts && is_fresh(at, client.now, ages.max_age_seconds));
                // Whoever can prove nothing signs in again; so does whoever can only prove once
                // more what they signed in with.
                let again = known.holds_passkey_alone && self.methods(user) == [Way::Webauthn];
                let nothing =
                    !self.takes_password(user) && (again || self.methods(user).is_empty());
                let by_sign_in = nothing || (need == Need::WayIn && self.methods(user).is_empty());
                stepped_up
                    || (by_sign_in && is_fresh(known.auth_at, client.now, ages.max_age_seconds))
            }
        }
    }

    /// Whether a session has proved a second factor of its account, as far as that has any.
    pub(crate) fn has_proved_factors(&self, known: &Known, user: &User) -> bool {
        self.methods(user).is_empty() || known.proved_factors == Some(user.mfa_version)
    }

    /// Asks for a factor that was there, where another one is about to be set up that was begun
    /// before.
    ///
    /// # Errors
    /// 403 `step_up_required`.
    pub(crate) fn require_factors(&self, known: &Known, user: &User) -> Result<()> {
        if self.has_proved_factors(known, user) {
            Ok(())
        } else {
            Err(refuse(STEP_UP_REQUIRED))
        }
    }

    /// Tries the factor that a body holds; wrong ones are counted with every other proof of the
    /// user.
    ///
    /// # Errors
    /// 403 `factor_not_allowed`; 401 `invalid_code`, `invalid_credentials`,
    /// `invalid_challenge`; 429.
    pub(crate) async fn prove_with(
        &self,
        client: &Client,
        known: &Known,
        user: &User,
        typed: &Typed,
        tried: &Tried,
        need: Need,
    ) -> Result<Proof> {
        let challenge = match (&typed.token, tried) {
            (Some(token), Tried::Sent(..) | Tried::Webauthn(_)) => self
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
        if !self.counts(user, way) || (need == Need::ProofButMail && way == Way::EmailOtp) {
            return Err(refuse(FACTOR_NOT_ALLOWED));
        }
        let taken = self.count_proof(client, known, user).await?;
        let judged = async {
            if let Some(challenge) = &challenge
                && self
                    .parts
                    .tokens
                    .attempt(&client.cx(), &challenge.one)
                    .await?
                    .is_none()
            {
                return Err(refuse(INVALID_CHALLENGE));
            }
            self.judge(client, user, tried, challenge.as_ref()).await
        };
        match judged.await {
            Ok(Some(right)) => {
                taken.succeeded().await;
                if right.is_bare_passkey() && self.holds_nothing_else(&client.cx(), known).await? {
                    return Err(refuse(FACTOR_NOT_ALLOWED));
                }
                let challenge = challenge.map(|challenge| challenge.one);
                Ok(Proof {
                    session: known.handle.clone(),
                    right: Some(right),
                    challenge,
                })
            }
            Ok(None) => {
                let outcome = if way == Way::Password {
                    INVALID_CREDENTIALS
                } else {
                    INVALID_CODE
                };
                self.proof_failed(client, known, way, outcome).await?;
                Err(refuse(outcome))
            }
            Err(error) => {
                // What could not be tried is no failure.
                if error.code().status() >= 500 {
                    taken.undo().await;
                }
                Err(error)
            }
        }
    }

    /// Counts a proof, by the session that it is given in: whoever has stolen another one keeps its
    /// owner from proving nothing. What all of them try together has a bound as well, from which a
    /// device is apart that its owner has signed in from before.
    async fn count_proof(&self, client: &Client, known: &Known, user: &User) -> Result<Taken> {
        let device = self
            .devices
            .recognised(&client.cx(), client.device(), &user.id)
            .await?;
        let mut of_all = vec![user.id.as_str()];
        of_all.extend(device.as_ref().map(|device| device.id.as_str()));
        let of_session = Hit {
            bucket: Bucket::Proof,
            of: &[&user.id, &known.handle],
        };
        self.limiter
            .take(&[
                of_session,
                Hit {
                    bucket: Bucket::ProofUser,
                    of: &of_all,
                },
            ])
            .await
    }

    /// Tries the current password of who is to change it; a wrong one is counted with every other
    /// proof.
    ///
    /// # Errors
    /// 401 `invalid_credentials`; 429.
    pub(crate) async fn prove_password(
        &self,
        client: &Client,
        known: &Known,
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
                self.proof_failed(client, known, Way::Password, INVALID_CREDENTIALS)
                    .await?;
                Err(refuse(INVALID_CREDENTIALS))
            }
            Err(error) => {
                taken.undo().await;
                Err(error)
            }
        }
    }

    /// Whether a session began with holding a passkey, and nothing has been proved besides: holding
    /// one again proves nothing more.
    async fn holds_nothing_else(&self, cx: &Cx, known: &Known) -> Result<bool> {
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
        known: &Known,
        way: Way,
        outcome: Code,
    ) -> Result<()> {
        let failed = Happened {
            outcome: outcome.as_str(),
            ..Happened::to("auth:step_up.failed", &known.user_id)
                .session(&known.handle)
                .details(json!({ "method": way.name() }))
        };
        self.audit(&client.cx(), client, failed).await
    }

    /// What `/reauth/challenge` gave out for this session; `None` for anything else.
    async fn reauth(
        &self,
        cx: &Cx,
        token: &str,
        known: &Known,
        user: &User,
    ) -> Result<Option<Challenge>> {
        let Some(one) = self.parts.tokens.find(cx, Purpose::Reauth, token).await? else {
            return Ok(None);
        };
        let pending: Pending = self.parts.tokens.payload(&one)?;
        let own = one.user_id == user.id
            && pending.session.as_deref() == Some(known.handle.as_str())
            && pending.is_current(user);
        Ok(own.then_some(Challenge { one, pending }))
    }
}
