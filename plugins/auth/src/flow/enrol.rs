//! Set-up and removal of second factors. Only this module changes the factors of an account and the
//! data that depends on them.

use linchpin::{Code, Cx, PageArgs, Result, Timestamp};
use serde_json::json;

use super::factors::factor_place;
use crate::core::{AuditEvent, Client, Core, later};
use crate::entities::{SessionPatch, User, UserPatch};
use crate::error::{MFA_NOT_ENABLED, MFA_REQUIRED, conflict, refuse};
use crate::mail::MailKind;
use crate::mfa::entity::{FactorCreate, FactorPatch, RecoveryCodeCreate};
use crate::mfa::{ProofMethod, enrolled};
use crate::onetime::Purpose;
use crate::recovery::RecoveryCode;
use crate::secret::SecretText;

/// Challenges for a factor that has changed.
const FACTOR_CHALLENGES: &[Purpose] = &[Purpose::Login, Purpose::Reauth];

/// Pending flows of sessions, and links that undo a change of the address. Other links that were
/// mailed to the account's own address are not among them, because only the owner of the mailbox
/// can use them.
const SESSION_FLOWS: &[Purpose] = &[
    Purpose::VerifyNewEmail,
    Purpose::UndoEmail,
    Purpose::Login,
    Purpose::TotpSetup,
    Purpose::EmailOtpSetup,
    Purpose::SmsSetup,
    Purpose::Reauth,
    Purpose::WebauthnRegister,
    Purpose::OauthState,
    Purpose::OauthCode,
];

/// Pending flows that add a way to sign in or a factor.
const ADDING_FLOWS: &[Purpose] = &[
    Purpose::VerifyNewEmail,
    Purpose::TotpSetup,
    Purpose::EmailOtpSetup,
    Purpose::SmsSetup,
    Purpose::WebauthnRegister,
    Purpose::OauthState,
];

/// The actor that removes factors.
#[derive(Clone, Copy)]
pub(crate) enum By<'a> {
    /// The owner, in the session with this handle.
    Session(&'a str),
    /// An administrator with this id; `None` is the app.
    Administrator(Option<&'a str>),
    /// A mailed link or a task that returns the account to the owner of its mailbox.
    Proof,
}

impl<'a> By<'a> {
    fn session(self) -> Option<&'a str> {
        match self {
            Self::Session(handle) => Some(handle),
            Self::Administrator(_) | Self::Proof => None,
        }
    }

    fn administrator(self) -> Option<&'a str> {
        match self {
            Self::Administrator(id) => id,
            Self::Session(_) | Self::Proof => None,
        }
    }
}

impl Core {
    /// Adds a factor that the session with this handle set up, in the caller's transaction. Returns
    /// the recovery codes if it is the first factor. `user` is the account as it was read.
    ///
    /// # Errors
    /// 409 if the account changed since it was read; 401 if the session has ended.
    pub(crate) async fn enrol(
        &self,
        cx: &Cx,
        client: &Client,
        user: &User,
        way: ProofMethod,
        session: &str,
    ) -> Result<Option<Vec<SecretText>>> {
        let before = enrolled(user);
        let mut methods = before.clone();
        if !methods.contains(&way) {
            methods.push(way);
        }
        self.set_methods(cx, client, user, &methods, Some(session))
            .await?;
        self.audit(
            cx,
            client,
            AuditEvent::about("auth:mfa.enabled", &user.id)
                .details(json!({ "method": way.name() })),
        )
        .await?;
        self.parts
            .notice_of(
                cx,
                client,
                user,
                MailKind::MfaEnabled,
                &[("method", way.name())],
            )
            .await?;
        if before.is_empty() {
            self.replace_recovery_codes(cx, user).await.map(Some)
        } else {
            Ok(None)
        }
    }

    /// Removes factors in the caller's transaction. Without any factor left, the recovery codes are
    /// removed too.
    ///
    /// # Errors
    /// 409 if the account changed since it was read; 401 if the session has ended.
    pub(crate) async fn unenrol(
        &self,
        cx: &Cx,
        client: &Client,
        user: &User,
        ways: &[ProofMethod],
        by: By<'_>,
    ) -> Result<()> {
        let (removed, remaining): (Vec<ProofMethod>, Vec<ProofMethod>) = enrolled(user)
            .into_iter()
            .partition(|way| ways.contains(way));
        self.set_methods(cx, client, user, &remaining, by.session())
            .await?;
        for way in &removed {
            if *way == ProofMethod::Webauthn {
                let all = self.passkeys.of(cx, &user.id).await?;
                self.drop_passkeys(cx, client, user, &all).await?;
            }
            if let Some(factor) = self
                .parts
                .factors
                .factor_of_user(cx, user.id.clone(), *way)
                .await?
            {
                self.parts.factors.delete(cx, factor.id, None).await?;
            }
            let details = json!({ "method": way.name(), "by": by.administrator() });
            self.audit(
                cx,
                client,
                AuditEvent::about("auth:mfa.disabled", &user.id).details(details),
            )
            .await?;
            self.parts
                .notice_of(
                    cx,
                    client,
                    user,
                    MailKind::MfaDisabled,
                    &[("method", way.name())],
                )
                .await?;
        }
        if remaining.is_empty() {
            self.drop_recovery_codes(cx, user, None).await
        } else {
            Ok(())
        }
    }

    /// Checks whether these factors may be removed.
    ///
    /// # Errors
    /// 409 `mfa_not_enabled` if the account has none of them; 403 `mfa_required` if it must keep
    /// one.
    pub(crate) fn may_unenrol(&self, user: &User, ways: &[ProofMethod]) -> Result<()> {
        let (removed, remaining): (Vec<ProofMethod>, Vec<ProofMethod>) = enrolled(user)
            .into_iter()
            .partition(|way| ways.contains(way));
        if removed.is_empty() {
            return Err(refuse(MFA_NOT_ENABLED));
        }
        // If a second factor is required, text messages alone are not enough.
        let needed =
            self.config.auth.mfa.required && remaining.iter().all(|way| *way == ProofMethod::Sms);
        if needed {
            Err(refuse(MFA_REQUIRED))
        } else {
            Ok(())
        }
    }

    /// Stores whether the account has passkeys as a factor, and increments the version of its
    /// factors.
    ///
    /// # Errors
    /// 409 if the account changed since it was read; 401 if the session has ended.
    pub(crate) async fn update_passkey_factor(
        &self,
        cx: &Cx,
        client: &Client,
        user: &User,
        has_passkeys: bool,
        session: &str,
    ) -> Result<()> {
        let mut methods: Vec<ProofMethod> = enrolled(user)
            .into_iter()
            .filter(|way| *way != ProofMethod::Webauthn)
            .collect();
        methods.extend(has_passkeys.then_some(ProofMethod::Webauthn));
        self.set_methods(cx, client, user, &methods, Some(session))
            .await
    }

    /// Stores the factors of an account and increments their version. Challenges for a factor end.
    /// The trust in devices also ends, because it is valid only for one version. Other sessions
    /// must prove a factor again, unless a factor was added to existing ones.
    async fn set_methods(
        &self,
        cx: &Cx,
        client: &Client,
        user: &User,
        methods: &[ProofMethod],
        session: Option<&str>,
    ) -> Result<()> {
        let names = ProofMethod::METHODS
            .iter()
            .filter(|way| methods.contains(way))
            .map(|way| way.name().to_owned())
            .collect();
        let patch = UserPatch {
            mfa_methods: Some(names),
            mfa_version: Some(user.mfa_version + 1),
            ..UserPatch::default()
        };
        self.users
            .update(cx, user.id.as_str(), patch, Some(user.version))
            .await
            .map_err(conflict)?;
        if let Some(session) = session {
            let added = methods.iter().any(|way| !enrolled(user).contains(way));
            self.keep_sessions_proved(cx, client, user, session, added)
                .await?;
        }
        self.parts
            .tokens
            .void(cx, &user.id, FACTOR_CHALLENGES)
            .await
    }

    /// Marks sessions as having proved a factor under the next `mfa_version`. The session that
    /// makes the change is marked if it had already proved a factor, or if it set up the first
    /// factor. If a factor was `added` to existing ones, all sessions that had proved a factor are
    /// marked.
    async fn keep_sessions_proved(
        &self,
        cx: &Cx,
        client: &Client,
        user: &User,
        session: &str,
        added: bool,
    ) -> Result<()> {
        let first = added && self.methods(user).is_empty();
        let all = self.sessions_of(cx, &user.id).await?;
        if !all
            .iter()
            .any(|one| one.handle == session && one.is_of(user) && !one.is_over(client.now))
        {
            return Err(linchpin::Error::unauthorized());
        }
        for one in all {
            let own = one.handle == session;
            let stays_proved =
                one.proved_factors == Some(user.mfa_version) && (own || (added && !first));
            if stays_proved || (own && first) {
                let patch = SessionPatch {
                    proved_factors: Some(Some(user.mfa_version + 1)),
                    ..SessionPatch::default()
                };
                match self.sessions.update(cx, one.handle, patch, None).await {
                    // The session ended meanwhile.
                    Err(error) if error.code() == Code::NotFound && !own => {}
                    done => drop(done?),
                }
            }
        }
        Ok(())
    }

    /// Stores the data of a factor, which replaces earlier data.
    ///
    /// # Errors
    /// If it cannot be stored.
    pub(crate) async fn store_factor(
        &self,
        cx: &Cx,
        user: &User,
        way: ProofMethod,
        value: &[u8],
        step: Option<i64>,
        now: Timestamp,
    ) -> Result<()> {
        let factors = &self.parts.factors;
        let seal = |id: &str| self.parts.keys.seal(factor_place(id), value);
        match factors.factor_of_user(cx, user.id.clone(), way).await? {
            Some(factor) => {
                let patch = FactorPatch {
                    sealed: Some(seal(&factor.id)?),
                    last_step: Some(step),
                    created_at: Some(now),
                };
                factors
                    .update(cx, factor.id, patch, Some(factor.version))
                    .await
                    .map_err(conflict)
                    .map(drop)
            }
            None => {
                let id = self.random_text::<16>()?;
                let sealed = seal(&id)?;
                let new = FactorCreate {
                    id,
                    user_id: user.id.clone(),
                    way,
                    sealed,
                    last_step: step,
                    created_at: now,
                };
                factors.create(cx, new).await.map(drop)
            }
        }
    }

    /// Creates new recovery codes; the earlier ones no longer work. The caller has written the
    /// account in the same transaction, so of two concurrent calls only one succeeds.
    ///
    /// # Errors
    /// If they cannot be stored.
    pub(crate) async fn replace_recovery_codes(
        &self,
        cx: &Cx,
        user: &User,
    ) -> Result<Vec<SecretText>> {
        self.drop_recovery_codes(cx, user, None).await?;
        let mut texts = Vec::new();
        for _ in 0..self.config.auth.mfa.recovery_codes {
            let code = RecoveryCode::generate(&*self.env.rng)?;
            let mac = code.stored(&self.parts.keys, &user.id);
            let new = RecoveryCodeCreate {
                user_id: user.id.clone(),
                mac,
                created_at: cx.now(),
            };
            self.parts.codes.create(cx, new).await?;
            texts.push(code.formatted());
        }
        Ok(texts)
    }

    /// Deletes recovery codes: all of them, or those that were created at `since` or later.
    async fn drop_recovery_codes(
        &self,
        cx: &Cx,
        user: &User,
        since: Option<Timestamp>,
    ) -> Result<()> {
        let codes = self
            .parts
            .codes
            .codes_of(cx, user.id.clone(), PageArgs::default())
            .await?
            .items;
        for code in codes
            .into_iter()
            .filter(|code| since.is_none_or(|since| code.created_at >= since))
        {
            match self.parts.codes.delete(cx, code.id, None).await {
                // The code was just used.
                Err(error) if error.code() == Code::NotFound => {}
                done => done?,
            }
        }
        Ok(())
    }

    /// Replaces the recovery codes at the request of the owner's session.
    ///
    /// # Errors
    /// 409 if the account changed since it was read; 401 if the session has ended.
    pub(crate) async fn renew_recovery_codes(
        &self,
        cx: &Cx,
        client: &Client,
        user: &User,
        session: &str,
    ) -> Result<Vec<SecretText>> {
        self.set_methods(cx, client, user, &enrolled(user), Some(session))
            .await?;
        self.audit(
            cx,
            client,
            AuditEvent::about("auth:mfa.recovery_regenerated", &user.id),
        )
        .await?;
        self.parts
            .notice(cx, client, user, MailKind::RecoveryCodesRegenerated)
            .await?;
        self.replace_recovery_codes(cx, user).await
    }

    /// Removes everything that was set up before the mailbox was verified for the first time:
    /// providers, passkeys, second factors and recovery codes, recognised devices, a scheduled
    /// deletion, a pending change of address, and all other pending flows. It runs in the
    /// transaction of the verification; the caller removes the password and the sessions. Returns
    /// the changed account.
    ///
    /// # Errors
    /// If something cannot be removed.
    pub(crate) async fn drop_unproved(&self, cx: &Cx, client: &Client, id: &str) -> Result<User> {
        self.drop_since(cx, client, id, Timestamp::MIN).await?;
        self.parts.tokens.void(cx, id, SESSION_FLOWS).await?;
        self.devices.forget(cx, id).await?;
        let now = self
            .users
            .get(cx, id)
            .await?
            .ok_or_else(linchpin::Error::not_found)?;
        if now.deletion_due_at.is_none() {
            return Ok(now);
        }
        self.cancel_deletion_in(cx, client, &now).await
    }

    /// Removes everything that was added to an account since its sign-up. It runs in the
    /// transaction in which a mailed link confirms the sign-up, because the person who follows the
    /// link may not have made these additions. The password or provider of the sign-up stays, with
    /// its sessions, because the link was mailed for this sign-up and is often followed on another
    /// device. Codes by mail stay too, because only the owner of the mailbox can set them up.
    ///
    /// # Errors
    /// If something cannot be removed.
    pub(crate) async fn drop_added(&self, cx: &Cx, client: &Client, user: &User) -> Result<()> {
        self.parts.tokens.void(cx, &user.id, ADDING_FLOWS).await?;
        let since = later(user.created_at, 1);
        let has_additions = !self.passkeys.of(cx, &user.id).await?.is_empty()
            || !self
                .parts
                .factors
                .factors_of(cx, user.id.clone(), PageArgs::default())
                .await?
                .items
                .is_empty()
            || self
                .links_of(cx, &user.id)
                .await?
                .iter()
                .any(|link| link.created_at >= since);
        // Without anything to remove, the account is not changed.
        if has_additions {
            self.drop_since(cx, client, &user.id, since).await
        } else {
            Ok(())
        }
    }

    /// Removes ways to sign in and second factors that were set up at `since` or later, when
    /// another person controlled the account. It runs in the transaction that returns the account
    /// to its owner. The owner gets a mail at the restored address.
    ///
    /// # Errors
    /// If something cannot be removed.
    pub(crate) async fn drop_since(
        &self,
        cx: &Cx,
        client: &Client,
        id: &str,
        since: Timestamp,
    ) -> Result<()> {
        let user = self
            .users
            .get(cx, id)
            .await?
            .ok_or_else(linchpin::Error::not_found)?;
        self.remove_links_since(cx, client, &user, since).await?;
        let (removed, remaining): (Vec<_>, Vec<_>) = self
            .passkeys
            .of(cx, id)
            .await?
            .into_iter()
            .partition(|passkey| passkey.created_at >= since);
        self.drop_passkeys(cx, client, &user, &removed).await?;
        let factors = self
            .parts
            .factors
            .factors_of(cx, id.to_owned(), PageArgs::default())
            .await?
            .items;
        let mut ways: Vec<ProofMethod> = factors
            .into_iter()
            .filter(|factor| factor.created_at >= since)
            .map(|factor| factor.way)
            .collect();
        if remaining.is_empty() {
            ways.push(ProofMethod::Webauthn);
        }
        if since < user.created_at {
            // Codes by mail have no record with a time. They count as being as old as the account.
            ways.push(ProofMethod::EmailOtp);
        }
        // Even if there is no factor to remove, the version of the factors changes, which ends the
        // trust in devices. Some of them may belong to the other person.
        self.unenrol(cx, client, &user, &ways, By::Proof).await?;
        self.drop_recovery_codes(cx, &user, Some(since)).await
    }

    /// Removes all second factors of a user who lost them.
    ///
    /// # Errors
    /// `not_found`; 409 `mfa_not_enabled`.
    pub(crate) async fn reset_mfa(
        &self,
        client: &Client,
        by: Option<&str>,
        id: &str,
    ) -> Result<User> {
        let cx = client.cx();
        let user = self
            .users
            .get(&cx, id)
            .await?
            .ok_or_else(linchpin::Error::not_found)?;
        if enrolled(&user).is_empty() {
            return Err(refuse(MFA_NOT_ENABLED));
        }
        let by = By::Administrator(by);
        let done = cx
            .transaction(async |cx| {
                self.unenrol(cx, client, &user, &ProofMethod::METHODS, by)
                    .await
            })
            .await;
        self.checks.forget(id);
        done?;
        self.users
            .get(&cx, id)
            .await?
            .ok_or_else(linchpin::Error::not_found)
    }
}
