//! The second factor of a sign-in: the challenge, sent codes, and the answer. There is no session
//! yet.

use std::time::Duration;

use linchpin::http::Reply;
use linchpin::{Code, Error, Problem, Result};
use serde_json::json;

use super::login::PendingSession;
use crate::core::{AuditEvent, Client, Core};
use crate::entities::User;
use crate::error::{
    ACCOUNT_SUSPENDED, INVALID_CHALLENGE, INVALID_CODE, METHOD_UNAVAILABLE, rate_limited, refuse,
};
use crate::limit::table::SENDS_PER_CHALLENGE;
use crate::limit::{Bucket, Hit, Taken};
use crate::mail::MailKind;
use crate::mfa::{Challenge, FirstFactor, Pending, ProofMethod, SuppliedFactor, is_number};
use crate::onetime::{OneTime, Purpose, Terms};
use crate::routes::mfa_shapes::ChallengeView;
use crate::secret::SecretText;

/// The answer to a challenge.
pub(crate) struct Answer {
    pub(crate) token: SecretText,
    pub(crate) method: Option<ProofMethod>,
    pub(crate) code: Option<SecretText>,
    pub(crate) webauthn: Option<serde_json::Value>,
    /// Whether the device is trusted from now on.
    pub(crate) trusts_device: bool,
}

impl Answer {
    /// Returns the factor that the answer contains. Digits without a method are the sent code if
    /// one was sent, otherwise the code of an authenticator app.
    fn supplied_factor(
        &self,
        methods: &[ProofMethod],
        pending: &Pending,
    ) -> Result<SuppliedFactor> {
        let missing = |path: &str| {
            Error::invalid(Problem::new(
                path,
                "required",
                "is required for this method",
            ))
        };
        let code = || self.code.clone().ok_or_else(|| missing("code"));
        Ok(match (self.method, &self.webauthn) {
            (Some(ProofMethod::Webauthn), response) => SuppliedFactor::Webauthn(
                response
                    .clone()
                    .ok_or_else(|| missing("webauthnResponse"))?,
            ),
            (None, Some(response)) => SuppliedFactor::Webauthn(response.clone()),
            (Some(ProofMethod::Totp), _) => SuppliedFactor::Totp(code()?),
            (Some(ProofMethod::Recovery), _) => SuppliedFactor::Recovery(code()?),
            (Some(way @ (ProofMethod::EmailOtp | ProofMethod::Sms)), _) => {
                SuppliedFactor::Sent(Some(way), code()?)
            }
            // The password was the first factor.
            (Some(ProofMethod::Password), _) => return Err(refuse(METHOD_UNAVAILABLE)),
            (None, None) => {
                let code = code()?;
                match is_number(&code) {
                    false => SuppliedFactor::Recovery(code),
                    true if methods.contains(&ProofMethod::Totp) && pending.sent.is_none() => {
                        SuppliedFactor::Totp(code)
                    }
                    true => SuppliedFactor::Sent(None, code),
                }
            }
        })
    }
}

impl Core {
    /// Creates a challenge for the second factor. If there is only one method and it sends codes, a
    /// code is sent at once.
    ///
    /// # Errors
    /// If the challenge cannot be stored.
    pub(crate) async fn require_second_factor(
        &self,
        client: &Client,
        user: &User,
        begun: FirstFactor,
        methods: &[ProofMethod],
    ) -> Result<Reply> {
        let mfa = &self.config.auth.mfa;
        let send = match methods {
            [way] if way.is_sent() && self.sends_code_at_once(client, user, *way).await? => {
                Some(*way)
            }
            _ => None,
        };
        let terms = Terms {
            lifetime: Duration::from_secs(mfa.challenge_seconds),
            attempts: i64::try_from(mfa.max_attempts).unwrap_or(1),
            sends: SENDS_PER_CHALLENGE,
            only_newest: false,
        };
        let cx = client.cx();
        let made = cx.transaction(async |cx| {
            let mut pending = Pending::login(user, begun);
            let mut options = None;
            if methods.contains(&ProofMethod::Webauthn) {
                let (asked, browser_options) = self
                    .second_passkey_options(cx, user, pending.first_passkey())
                    .await?;
                (pending.asked, options) = (Some(asked), Some(browser_options));
            }
            let (token, one) = self
                .parts
                .tokens
                .issue_with_record(cx, Purpose::Login, &user.id, &pending, terms)
                .await?;
            if let Some(way) = send {
                pending.sent = Some(self.send_code(cx, client, user, way, &one.id).await?);
                self.parts.tokens.replace(cx, &one, &pending).await?;
            }
            Ok((token, one.expires_at, options))
        });
        let (token, expires_at, webauthn_options) = made.await?;
        let view = ChallengeView {
            token: String::new(),
            mfa_required: true,
            mfa_token: token.expose().to_owned(),
            mfa_methods: methods.iter().map(|way| way.name().to_owned()).collect(),
            recovery_available: self.recovery_codes_left(&cx, user).await? > 0,
            webauthn_options,
            user_id: user.id.clone(),
            expires_at: expires_at.unwrap_or(client.now),
        };
        Reply::sparse(200, &view)
    }

    /// Whether a code is sent with a challenge. If the limit is exhausted no code is sent: a
    /// recovery code still works, and a request for another code returns the seconds to wait.
    async fn sends_code_at_once(
        &self,
        client: &Client,
        user: &User,
        way: ProofMethod,
    ) -> Result<bool> {
        if !self.can_send(user, way) {
            return Ok(false);
        }
        match self.count_send(client, user, way).await {
            Ok(_) => Ok(true),
            Err(error) if error.code() == Code::RateLimited => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Counts a code that is about to be sent for a sign-in. Codes for a recognised device are
    /// counted separately, so that other people who know the password cannot use up the owner's
    /// codes.
    async fn count_send(&self, client: &Client, user: &User, way: ProofMethod) -> Result<Taken> {
        let device = self
            .devices
            .recognised(&client.cx(), client.device(), &user.id)
            .await?;
        let mut limit_key = vec![user.id.as_str()];
        limit_key.extend(device.as_ref().map(|device| device.id.as_str()));
        let taken = self
            .limiter
            .take(&[Hit {
                bucket: Bucket::MfaResend,
                key: &limit_key,
            }])
            .await?;
        if way != ProofMethod::Sms {
            return Ok(taken);
        }
        match self
            .count_message(client, &user.id, &limit_key[1..], None)
            .await
        {
            Ok(message) => Ok(taken.and(message)),
            Err(refusal) => {
                taken.undo().await;
                Err(refusal)
            }
        }
    }

    /// Returns a valid challenge with its account.
    ///
    /// # Errors
    /// 401 `invalid_challenge`; 403 `account_suspended`.
    pub(crate) async fn pending_challenge(
        &self,
        client: &Client,
        token: &SecretText,
    ) -> Result<(Challenge, User)> {
        let invalid = || refuse(INVALID_CHALLENGE);
        let cx = client.cx();
        let one_time = self
            .parts
            .tokens
            .find(&cx, Purpose::Login, token.expose())
            .await?
            .ok_or_else(invalid)?;
        let pending: Pending = self.parts.tokens.payload(&one_time)?;
        let user = self
            .users
            .get(&cx, one_time.user_id.as_str())
            .await?
            .filter(|user| !user.is_gone(client.now))
            .ok_or_else(invalid)?;
        if user.suspended_at.is_some() {
            return Err(refuse(ACCOUNT_SUSPENDED));
        }
        if pending.is_current(&user) {
            Ok((Challenge { one_time, pending }, user))
        } else {
            Err(invalid())
        }
    }

    /// Sends another code for a challenge, or asks for a passkey again.
    ///
    /// # Errors
    /// 400 `method_unavailable`; 401 `invalid_challenge`; 429.
    pub(crate) async fn resend(
        &self,
        client: &Client,
        token: &SecretText,
        method: Option<ProofMethod>,
    ) -> Result<Option<serde_json::Value>> {
        let (mut challenge, user) = self.pending_challenge(client, token).await?;
        let methods = self
            .methods_after(&client.cx(), &user, challenge.pending.begun.as_ref())
            .await?;
        let offered: Vec<ProofMethod> = methods
            .into_iter()
            .filter(|way| way.is_sent() || *way == ProofMethod::Webauthn)
            .collect();
        let previous = challenge.pending.sent.as_ref().map(|sent| sent.way);
        let way = method
            .or(previous)
            .or(offered.first().copied())
            .filter(|way| offered.contains(way))
            .ok_or_else(|| refuse(METHOD_UNAVAILABLE))?;
        let cx = client.cx();
        // A passkey sends nothing.
        let taken = if way.is_sent() {
            Some(self.count_send(client, &user, way).await?)
        } else {
            None
        };
        if self
            .parts
            .tokens
            .count_send(&cx, &challenge.one_time)
            .await?
            .is_none()
        {
            // A code that was not sent is not counted.
            if let Some(taken) = taken {
                taken.undo().await;
            }
            let remaining_millis =
                challenge.one_time.expires_at.unwrap_or(client.now).millis() - client.now.millis();
            return Err(rate_limited(
                u32::try_from(remaining_millis.max(0).div_euclid(1000) + 1).unwrap_or(1),
            ));
        }
        cx.transaction(async |cx| {
            let mut options = None;
            if way == ProofMethod::Webauthn {
                let (asked, browser_options) = self
                    .second_passkey_options(cx, &user, challenge.pending.first_passkey())
                    .await?;
                (challenge.pending.asked, options) = (Some(asked), Some(browser_options));
            } else {
                challenge.pending.sent = Some(
                    self.send_code(cx, client, &user, way, &challenge.one_time.id)
                        .await?,
                );
            }
            match self
                .parts
                .tokens
                .replace(cx, &challenge.one_time, &challenge.pending)
                .await
            {
                Err(error) if error.code() == Code::NotFound => Err(refuse(INVALID_CHALLENGE)),
                done => done.map(|_| options),
            }
        })
        .await
    }

    /// Completes a sign-in with its second factor.
    ///
    /// # Errors
    /// 401 `invalid_code` with the remaining attempts, `invalid_challenge`; 403
    /// `account_suspended`; 429.
    pub(crate) async fn answer_second(&self, client: &Client, answer: Answer) -> Result<Reply> {
        let address = client.limit_key();
        let of_address = self
            .limiter
            .take(&[Hit {
                bucket: Bucket::MfaVerifyIp,
                key: &[&address],
            }])
            .await?;
        let (challenge, user) = self.pending_challenge(client, &answer.token).await?;
        let cx = client.cx();
        let methods = self
            .methods_after(&cx, &user, challenge.pending.begun.as_ref())
            .await?;
        let tried = match answer.supplied_factor(&methods, &challenge.pending) {
            Ok(tried) => tried,
            Err(error) => {
                of_address.undo().await;
                return Err(error);
            }
        };
        let way = tried.way(challenge.pending.sent.as_ref().map(|sent| sent.way));
        if !self.is_accepted_proof(&user, way) || (way.is_sent() && !methods.contains(&way)) {
            of_address.undo().await;
            return Err(refuse(METHOD_UNAVAILABLE));
        }
        // On a recognised device, guesses from other devices do not count.
        let device = self
            .devices
            .recognised(&cx, client.device(), &user.id)
            .await?;
        let mut of_user = vec![user.id.as_str()];
        of_user.extend(device.as_ref().map(|device| device.id.as_str()));
        let taken = match self
            .limiter
            .take(&[Hit {
                bucket: Bucket::MfaVerifyUser,
                key: &of_user,
            }])
            .await
        {
            Ok(of_user) => of_address.and(of_user),
            Err(refusal) => {
                of_address.undo().await;
                return Err(refusal);
            }
        };
        let judged = async {
            let counted = self
                .parts
                .tokens
                .attempt(&cx, &challenge.one_time)
                .await?
                .ok_or_else(|| refuse(INVALID_CHALLENGE))?;
            self.check_factor(client, &user, &tried, Some(&challenge))
                .await
                .map(|right| (right, counted))
        };
        let right = match judged.await {
            Ok((Some(right), _)) => right,
            Ok((None, counted)) => {
                return Err(self
                    .second_factor_failed(client, &user, way, &counted, &taken)
                    .await?);
            }
            Err(error) => {
                if error.code().status() >= 500 {
                    taken.undo().await;
                }
                return Err(error);
            }
        };
        taken.succeeded().await;
        let opening = PendingSession::second(&user, &challenge.pending, way, answer.trusts_device);
        let opened = self.open_session(client, opening, async |cx| {
            if !self.parts.tokens.take(cx, &challenge.one_time).await? {
                return Err(refuse(INVALID_CHALLENGE));
            }
            right.spend(self, cx, client, &user).await
        });
        opened.await
    }

    /// Writes the audit log entry of a wrong second factor. The last attempt ends the challenge.
    /// The guess that exhausts the limit sends a mail to the owner, because the client has proved
    /// the first factor.
    async fn second_factor_failed(
        &self,
        client: &Client,
        user: &User,
        way: ProofMethod,
        counted: &OneTime,
        taken: &Taken,
    ) -> Result<Error> {
        let failed = AuditEvent {
            outcome: INVALID_CODE.as_str(),
            ..AuditEvent::about("auth:mfa.failed", &user.id)
                .details(json!({ "method": way.name() }))
        };
        let cx = client.cx();
        let done = cx.transaction(async |cx| {
            self.audit(cx, client, failed).await?;
            if taken.is_last(Bucket::MfaVerifyUser) {
                self.parts
                    .notice(cx, client, user, MailKind::MfaUnderAttack)
                    .await?;
            }
            if counted.attempts_left == 0 {
                self.parts.tokens.remove(cx, counted).await
            } else {
                Ok(())
            }
        });
        done.await?;
        let left = counted.attempts_left;
        let left = Problem::new(
            "code",
            "tries_left",
            format!("{left} {} left", if left == 1 { "try" } else { "tries" }),
        );
        Ok(refuse(INVALID_CODE).with_details(vec![left]))
    }
}
