//! Opens a session after a proof. No other code opens a session.

use linchpin::http::Reply;
use linchpin::{Code, Cx, PageArgs, Result, Timestamp};
use serde_json::{Value, json};

use super::{Reason, Tokens};
use crate::core::{AuditEvent, Client, Core, later, millis};
use crate::device::{self, Device, LIFETIME};
use crate::entities::{Session, SessionCreate, SessionPatch, User};
use crate::error::{
    ACCOUNT_SUSPENDED, EMAIL_NOT_VERIFIED, INVALID_CREDENTIALS, MFA_REQUIRED, refuse,
};
use crate::hooks::SignIn;
use crate::mail::MailKind;
use crate::mfa::{FirstFactor, Pending, ProofMethod};
use crate::secret::SecretText;
use crate::session::sid;

/// An account and the proof of its owner.
pub(crate) struct Proved {
    pub(crate) user: User,
    /// The method, such as `password`.
    pub(crate) method: &'static str,
    /// Authentication methods of the proof (RFC 8176).
    pub(crate) amr: &'static [&'static str],
    /// 2 if the proof alone counts as two factors.
    pub(crate) aal: i64,
    /// The status of the response: 201 for a sign-up.
    pub(crate) status: u16,
}

/// The method of sessions that the app opens on behalf of a user.
pub(crate) const SERVICE: &str = "service";

/// The names of the first factors of a sign-in. A challenge contains one of them.
const METHODS: [&str; 5] = [
    "password",
    "magicLink",
    "verifyAndLogin",
    "passkey",
    "oauth",
];

/// A session that is about to be opened.
pub(super) struct PendingSession {
    user: User,
    method: &'static str,
    amr: Vec<String>,
    aal: i64,
    /// The second factor.
    second: Option<ProofMethod>,
    /// Whether the first factor is the only proof of the account, so that a step-up could only
    /// repeat it.
    is_only_factor: bool,
    /// Whether the device is trusted from now on.
    trusts_device: bool,
    /// Whether a user's device signs in; false if the app itself does.
    on_device: bool,
    status: u16,
}

/// A session that was opened.
struct Opened {
    tokens: Tokens,
    sid: String,
    /// The token of a new device.
    device: Option<SecretText>,
}

impl PendingSession {
    /// A session after the first factor, or after a proof that counts as two factors.
    fn primary(proved: Proved) -> Self {
        let Proved {
            user,
            method,
            amr,
            aal,
            status,
        } = proved;
        Self {
            user,
            method,
            amr: amr.iter().map(|how| (*how).to_owned()).collect(),
            aal,
            second: None,
            is_only_factor: false,
            trusts_device: false,
            on_device: true,
            status,
        }
    }

    /// A session after the second factor.
    pub(super) fn second(
        user: &User,
        pending: &Pending,
        way: ProofMethod,
        trusts_device: bool,
    ) -> Self {
        let begun = pending.begun.as_ref();
        let method = METHODS
            .into_iter()
            .find(|name| begun.is_some_and(|begun| begun.method == *name))
            .unwrap_or("mfa");
        let mut amr: Vec<String> = begun.map(|begun| begun.amr.clone()).unwrap_or_default();
        for how in [way.amr(), "mfa"] {
            if !amr.iter().any(|known| known == how) {
                amr.push(how.to_owned());
            }
        }
        Self {
            user: user.clone(),
            method,
            amr,
            aal: 2,
            second: Some(way),
            is_only_factor: false,
            trusts_device,
            on_device: true,
            status: 200,
        }
    }
}

impl Core {
    /// Completes a sign-in after a first proof; no other function does. It checks suspension,
    /// verification, scheduled deletion and the second factor, and then opens the session.
    ///
    /// # Errors
    /// 403 `account_suspended`, `email_not_verified`; 401 `invalid_credentials` for an account
    /// whose deletion is due.
    pub(crate) async fn complete_primary(&self, client: &Client, proved: Proved) -> Result<Reply> {
        self.complete_with(client, proved, None).await
    }

    /// Like [`Core::complete_primary`], for a proof by this passkey, which cannot be the second
    /// factor too.
    ///
    /// # Errors
    /// The errors of [`Core::complete_primary`].
    pub(crate) async fn complete_with(
        &self,
        client: &Client,
        proved: Proved,
        passkey: Option<&str>,
    ) -> Result<Reply> {
        let begun = FirstFactor::by(proved.method, proved.amr, passkey);
        let methods = self.missing_factors(client, &proved, &begun).await?;
        if !methods.is_empty() {
            return self
                .require_second_factor(client, &proved.user, begun, &methods)
                .await;
        }
        let is_only_factor = passkey.is_some()
            && self
                .has_one_passkey_alone(&client.cx(), &proved.user)
                .await?;
        self.open_session(
            client,
            PendingSession {
                is_only_factor,
                ..PendingSession::primary(proved)
            },
            async |_| Ok(()),
        )
        .await
    }

    /// Runs the hook `pre_login` for a sign-in without a typed identifier.
    ///
    /// # Errors
    /// The refusal of the hook; 504 `hook_timeout`.
    pub(crate) async fn run_pre_login(
        &self,
        client: &Client,
        method: &'static str,
        user: &User,
    ) -> Result<()> {
        let sign_in = SignIn {
            identifier: None,
            method,
            user_id: Some(user.id.clone()),
            session_id: None,
            amr: Vec::new(),
        };
        self.hooks
            .run_pre(&self.hook_cx(client), &sign_in, |hooks, cx, input| {
                hooks.pre_login(cx, input)
            })
            .await
    }

    /// Opens a session for the app on behalf of a user. An account that cannot sign in is refused.
    ///
    /// # Errors
    /// The errors of [`Core::complete_primary`] and [`Core::run_pre_login`]; 403 `mfa_required` if
    /// the account needs a second factor.
    pub(crate) async fn open_for(&self, client: &Client, user: User) -> Result<Tokens> {
        self.run_pre_login(client, SERVICE, &user).await?;
        let proved = Proved {
            user,
            method: SERVICE,
            amr: &[],
            aal: 1,
            status: 200,
        };
        if !self
            .missing_factors(
                client,
                &proved,
                &FirstFactor::by(proved.method, proved.amr, None),
            )
            .await?
            .is_empty()
        {
            return Err(refuse(MFA_REQUIRED));
        }
        let opening = PendingSession {
            on_device: false,
            ..PendingSession::primary(proved)
        };
        self.create_session(client, &opening, async |_| Ok(()))
            .await
            .map(|opened| opened.tokens)
    }

    /// The second factors that can complete the sign-in; the user proves one of them. Empty if none
    /// is needed.
    async fn missing_factors(
        &self,
        client: &Client,
        proved: &Proved,
        begun: &FirstFactor,
    ) -> Result<Vec<ProofMethod>> {
        let user = &proved.user;
        if user.suspended_at.is_some() {
            return Err(refuse(ACCOUNT_SUSPENDED));
        }
        if self.must_verify(user) {
            return Err(refuse(EMAIL_NOT_VERIFIED));
        }
        if user.is_gone(client.now) {
            return Err(refuse(INVALID_CREDENTIALS));
        }
        if proved.aal >= 2 {
            return Ok(Vec::new());
        }
        let methods = self.methods_after(&client.cx(), user, Some(begun)).await?;
        let waived = !methods.is_empty() && self.is_trusted(client, user).await?;
        Ok(if waived { Vec::new() } else { methods })
    }

    /// Whether the client's device is trusted for this account.
    async fn is_trusted(&self, client: &Client, user: &User) -> Result<bool> {
        if self.config.auth.mfa.trust_device_seconds == 0 {
            return Ok(false);
        }
        let device = self
            .devices
            .recognised(&client.cx(), client.device(), &user.id)
            .await?;
        Ok(device.is_some_and(|device| device.is_trusted(user, client.now)))
    }

    /// Whether the account cannot sign in before its address is verified.
    pub(crate) fn must_verify(&self, user: &User) -> bool {
        self.config.auth.email_verification.required
            && user.email.is_some()
            && user.email_verified_at.is_none()
    }

    /// Opens the session and runs `spend` in one transaction.
    pub(super) async fn open_session(
        &self,
        client: &Client,
        opening: PendingSession,
        spend: impl AsyncFnOnce(&Cx) -> Result<()>,
    ) -> Result<Reply> {
        let Opened {
            tokens,
            sid,
            device,
        } = self.create_session(client, &opening, spend).await?;
        let mut authenticated = self.authenticated(&opening.user, &tokens);
        let in_body = self.config.auth.session.transport.bodies();
        authenticated.device_token = device
            .as_ref()
            .filter(|_| in_body)
            .map(|token| token.expose().to_owned());
        let reply = self.attach_tokens(
            Reply::sparse(opening.status, &authenticated)?,
            &tokens,
            &sid,
            client.now,
        )?;
        Ok(match &device {
            Some(token) => self.cookies.set_device(reply, token.expose(), LIFETIME),
            None => reply,
        })
    }

    /// Stores a new session, its device and its audit log entry in one transaction, together with
    /// `spend`. Then it ends surplus sessions and runs the hook `post_login`.
    async fn create_session(
        &self,
        client: &Client,
        opening: &PendingSession,
        spend: impl AsyncFnOnce(&Cx) -> Result<()>,
    ) -> Result<Opened> {
        let cx = client.cx();
        let PendingSession {
            user,
            method,
            amr,
            aal,
            second,
            is_only_factor,
            trusts_device,
            on_device,
            ..
        } = opening;
        let (handle, family_seed) = (self.random_text::<16>()?, self.random_text::<32>()?);
        let sid = sid::make(&self.ring, &handle, &family_seed, 0);
        let new = SessionCreate {
            handle: handle.clone(),
            sid_version: None,
            sid_hash: sid::hash(&sid),
            user_id: user.id.clone(),
            epoch: Some(user.session_epoch),
            family_seed,
            generation: None,
            rotated_at: client.now,
            created_at: client.now,
            auth_at: client.now,
            step_up_at: (*aal >= 2).then_some(client.now),
            step_up_by: *second,
            // The transaction below checks that the account still has this version.
            proved_factors: (*aal >= 2 || *is_only_factor).then_some(user.mfa_version),
            last_active_at: client.now,
            expires_at: Some(later(client.now, millis(self.config.absolute_seconds()))),
            ip: client.ip.map(|ip| ip.to_string()),
            user_agent: client.user_agent.clone(),
            amr: Some(amr.clone()),
            aal: *aal,
            custom_claims: None,
        };
        let known = self
            .devices
            .recognised(&cx, client.device(), &user.id)
            .await?;
        if *on_device && *method != "password" {
            // The owner has signed in, so earlier guesses by others no longer count.
            self.unlock(client, &user.identifier).await?;
        }
        let (session, device) = cx
            .transaction(async |cx| {
                spend(cx).await?;
                let session = self.sessions.create(cx, new).await?;
                // Since the proof, a change of the password or a suspension may have ended all
                // sessions, or the account may have got a second factor.
                let now = self.users.get(cx, user.id.as_str()).await?;
                if !now
                    .is_some_and(|now| session.is_of(&now) && now.mfa_version == user.mfa_version)
                {
                    return Err(refuse(INVALID_CREDENTIALS));
                }
                let token = if *on_device {
                    self.record_device(cx, client, user, known, *trusts_device)
                        .await?
                } else {
                    None
                };
                let details = json!({ "method": method, "amr": amr });
                self.audit(
                    cx,
                    client,
                    AuditEvent::about("auth:session.created", &user.id).session(&handle),
                )
                .await?;
                self.audit(
                    cx,
                    client,
                    AuditEvent::about("auth:login", &user.id)
                        .session(&handle)
                        .details(details),
                )
                .await?;
                Ok((session, token))
            })
            .await?;
        self.end_oldest_sessions(&cx, client, &user.id).await?;
        let session = self.with_claims(&cx, client, session, method).await?;
        let tokens = self.tokens(&session, &sid, client.now)?;
        Ok(Opened {
            tokens,
            sid,
            device,
        })
    }

    /// Updates the device of a sign-in. For a device that is new to the account it returns a token
    /// and mails the owner, unless the account is new or there were many such mails.
    async fn record_device(
        &self,
        cx: &Cx,
        client: &Client,
        user: &User,
        known: Option<Device>,
        trusts_device: bool,
    ) -> Result<Option<SecretText>> {
        let (device, token) = match known {
            Some(device) => {
                self.devices.update_last_seen(cx, &device).await?;
                (device, None)
            }
            None => {
                let notified = self.devices.should_notify(cx, user).await?;
                if notified {
                    let device = device::name(client.user_agent.as_deref());
                    self.parts
                        .notice_of(
                            cx,
                            client,
                            user,
                            MailKind::NewDeviceLogin,
                            &[("device", &device)],
                        )
                        .await?;
                }
                let (device, token) = self.devices.remember(cx, &user.id, notified).await?;
                (device, Some(token))
            }
        };
        let trusted = self.config.auth.mfa.trust_device_seconds;
        if trusts_device && trusted > 0 {
            self.devices.trust(cx, &device, user, trusted).await?;
        }
        Ok(token)
    }

    /// Runs the hook `post_login` and stores its claims with the session, so that a refresh signs
    /// them again. An error of the hook, or in storing its claims, does not stop the sign-in.
    ///
    /// # Errors
    /// 401 `invalid_credentials` if the session has ended meanwhile.
    async fn with_claims(
        &self,
        cx: &Cx,
        client: &Client,
        session: Session,
        method: &'static str,
    ) -> Result<Session> {
        let input = SignIn {
            identifier: None,
            method,
            user_id: Some(session.user_id.clone()),
            session_id: Some(session.handle.clone()),
            amr: session.amr.clone(),
        };
        // The user or the hook ended the session meanwhile. An ended session gets no token; the
        // response is that of any sign-in during a concurrent change.
        let session_ended = || refuse(INVALID_CREDENTIALS);
        let Some(claims) = self.hooks.claims(&self.hook_cx(client), &input).await else {
            let is_live_now = self.hooks.is_empty()
                || self
                    .is_live(cx, client, &session.handle, &session.user_id)
                    .await?;
            return if is_live_now {
                Ok(session)
            } else {
                Err(session_ended())
            };
        };
        let patch = SessionPatch {
            custom_claims: Some(Some(Value::Object(claims))),
            ..SessionPatch::default()
        };
        match self
            .sessions
            .update(cx, session.handle.clone(), patch, None)
            .await
        {
            Err(error) if error.code() == Code::NotFound => Err(session_ended()),
            Err(error) => {
                let request_id = client.request_id.as_str();
                tracing::warn!(hook = "post_login", request_id, error = ?error, "the claims were not stored; the sign-in continues without them");
                Ok(session)
            }
            done => done,
        }
    }

    /// Ends the oldest sessions of a user that exceed the maximum. Each sign-in runs this after its
    /// own session is stored, so the last of several concurrent sign-ins sees all sessions. All of
    /// them agree on which sessions are the oldest.
    async fn end_oldest_sessions(&self, cx: &Cx, client: &Client, user: &str) -> Result<()> {
        let max = usize::try_from(self.config.auth.session.max_per_user).unwrap_or(usize::MAX);
        let mut sessions = self.sessions_of(cx, user).await?;
        sessions.sort_by_key(|session| std::cmp::Reverse(age(session)));
        for session in sessions.into_iter().skip(max) {
            self.end(cx, client, &session, Reason::Evicted).await?;
        }
        Ok(())
    }

    /// Returns the sessions of a user.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub(crate) async fn sessions_of(&self, cx: &Cx, user: &str) -> Result<Vec<Session>> {
        Ok(self
            .sessions
            .of_user(cx, user.to_owned(), PageArgs::default())
            .await?
            .items)
    }
}

/// The order of sessions: by creation time, then by handle.
fn age(session: &Session) -> (Timestamp, String) {
    (session.created_at, session.handle.clone())
}
