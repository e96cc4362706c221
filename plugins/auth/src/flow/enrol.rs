//! Setting second factors up and taking them away: the one place that changes what an account has,
//! and all that goes with it.

use linchpin::{Code, Cx, PageArgs, Result, Timestamp};
use serde_json::json;

use super::factors::factor_place;
use crate::core::{Client, Core, Happened, later};
use crate::entities::{SessionPatch, User, UserPatch};
use crate::error::{MFA_NOT_ENABLED, MFA_REQUIRED, overtaken, refuse};
use crate::mail::MailKind;
use crate::mfa::entity::{FactorCreate, FactorPatch, RecoveryCodeCreate};
use crate::mfa::{Way, enrolled};
use crate::onetime::Purpose;
use crate::recovery::RecoveryCode;
use crate::secret::SecretText;

/// What was waiting for a factor that is another one now.
const WAITING: &[Purpose] = &[Purpose::Login, Purpose::Reauth];

/// What somebody may have under way who is signed in, or was. What was mailed to the account's own
/// address is not among them: it is of use to nobody who does not read its mail.
const BEGUN: &[Purpose] = &[
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

/// What of it adds to the account.
const ADDING: &[Purpose] = &[
    Purpose::VerifyNewEmail,
    Purpose::TotpSetup,
    Purpose::EmailOtpSetup,
    Purpose::SmsSetup,
    Purpose::WebauthnRegister,
    Purpose::OauthState,
];

/// Who takes factors away.
#[derive(Clone, Copy)]
pub(crate) enum By<'a> {
    /// Their owner, in the session of this handle.
    Session(&'a str),
    /// Somebody else, by their id; without one, the app.
    Administrator(Option<&'a str>),
    /// Nobody: whose mailbox it is was proved.
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
    /// Notes that an account has a factor, set up in the session of this handle, as part of the
    /// caller's transaction; what it was found by must have been `user`. The answer is its recovery
    /// codes, when it is the first one.
    ///
    /// # Errors
    /// 409 when the account was changed since it was read; 401 when the session has ended.
    pub(crate) async fn enrol(
        &self,
        cx: &Cx,
        client: &Client,
        user: &User,
        way: Way,
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
            Happened::to("auth:mfa.enabled", &user.id).details(json!({ "method": way.name() })),
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

    /// Takes factors away, as part of the caller's transaction. With the last one go the recovery
    /// codes.
    ///
    /// # Errors
    /// 409 when the account was changed since it was read; 401 when the session has ended in which
    /// it is done.
    pub(crate) async fn unenrol(
        &self,
        cx: &Cx,
        client: &Client,
        user: &User,
        ways: &[Way],
        by: By<'_>,
    ) -> Result<()> {
        let (gone, left): (Vec<Way>, Vec<Way>) = enrolled(user)
            .into_iter()
            .partition(|way| ways.contains(way));
        self.set_methods(cx, client, user, &left, by.session())
            .await?;
        for way in &gone {
            if *way == Way::Webauthn {
                let all = self.passkeys.of(cx, &user.id).await?;
                self.drop_passkeys(cx, client, user, &all).await?;
            }
            if let Some(factor) = self.parts.factors.of_way(cx, user.id.clone(), *way).await? {
                self.parts.factors.delete(cx, factor.id, None).await?;
            }
            let details = json!({ "method": way.name(), "by": by.administrator() });
            self.audit(
                cx,
                client,
                Happened::to("auth:mfa.disabled", &user.id).details(details),
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
        if left.is_empty() {
            self.drop_recovery_codes(cx, user, None).await
        } else {
            Ok(())
        }
    }

    /// Whether an account may do without these factors.
    ///
    /// # Errors
    /// 409 `mfa_not_enabled` when it has none of them; 403 `mfa_required` when it must keep one.
    pub(crate) fn may_unenrol(&self, user: &User, ways: &[Way]) -> Result<()> {
        let (gone, left): (Vec<Way>, Vec<Way>) = enrolled(user)
            .into_iter()
            .partition(|way| ways.contains(way));
        if gone.is_empty() {
            return Err(refuse(MFA_NOT_ENABLED));
        }
        // A phone alone is not enough where everybody has to have one.
        let needed = self.config.auth.mfa.required && left.iter().all(|way| *way == Way::Sms);
        if needed {
            Err(refuse(MFA_REQUIRED))
        } else {
            Ok(())
        }
    }

    /// Notes that an account has passkeys, or has fewer, where nothing else follows from it.
    ///
    /// # Errors
    /// 409 when the account was changed since it was read; 401 when the session has ended in which
    /// it is done.
    pub(crate) async fn note_passkeys(
        &self,
        cx: &Cx,
        client: &Client,
        user: &User,
        any: bool,
        session: &str,
    ) -> Result<()> {
        let mut methods: Vec<Way> = enrolled(user)
            .into_iter()
            .filter(|way| *way != Way::Webauthn)
            .collect();
        methods.extend(any.then_some(Way::Webauthn));
        self.set_methods(cx, client, user, &methods, Some(session))
            .await
    }

    /// Writes down what an account has. What waits for a factor ends; so does the trust in devices,
    /// which is in the version, and what other sessions have proved, unless a factor is added to
    /// those that were there.
    async fn set_methods(
        &self,
        cx: &Cx,
        client: &Client,
        user: &User,
        methods: &[Way],
        session: Option<&str>,
    ) -> Result<()> {
        let names = Way::METHODS
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
            .map_err(overtaken)?;
        if let Some(session) = session {
            let added = methods.iter().any(|way| !enrolled(user).contains(way));
            self.go_on_proved(cx, client, user, session, added).await?;
        }
        self.parts.tokens.void(cx, &user.id, WAITING).await
    }

    /// Lets sessions count as ones that have proved a factor under the account's next version as
    /// well: that in which it is done, if it had under the one before, or has just set up the
    /// first; and where a factor is `added` to those that were there, all that had.
    async fn go_on_proved(
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
            let had = one.proved_factors == Some(user.mfa_version) && (own || (added && !first));
            if had || (own && first) {
                let patch = SessionPatch {
                    proved_factors: Some(Some(user.mfa_version + 1)),
                    ..SessionPatch::default()
                };
                match self.sessions.update(cx, one.handle, patch, None).await {
                    // Ended meanwhile.
                    Err(error) if error.code() == Code::NotFound && !own => {}
                    done => drop(done?),
                }
            }
        }
        Ok(())
    }

    /// Keeps what belongs to a factor, in place of what did before.
    ///
    /// # Errors
    /// When it cannot be kept.
    pub(crate) async fn keep_factor(
        &self,
        cx: &Cx,
        user: &User,
        way: Way,
        value: &[u8],
        step: Option<i64>,
        now: Timestamp,
    ) -> Result<()> {
        let factors = &self.parts.factors;
        let seal = |id: &str| {
            self.parts
                .keys
                .seal(&*self.env.rng, factor_place(id), value)
        };
        match factors.of_way(cx, user.id.clone(), way).await? {
            Some(factor) => {
                let patch = FactorPatch {
                    sealed: Some(seal(&factor.id)?),
                    last_step: Some(step),
                    created_at: Some(now),
                };
                factors
                    .update(cx, factor.id, patch, Some(factor.version))
                    .await
                    .map_err(overtaken)
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

    /// Makes new recovery codes; the earlier ones no longer work. The caller has written the
    /// account in the same transaction, so that two who do this at once do not both succeed.
    ///
    /// # Errors
    /// When they cannot be kept.
    pub(crate) async fn replace_recovery_codes(
        &self,
        cx: &Cx,
        user: &User,
    ) -> Result<Vec<SecretText>> {
        self.drop_recovery_codes(cx, user, None).await?;
        let mut shown = Vec::new();
        for _ in 0..self.config.auth.mfa.recovery_codes {
            let code = RecoveryCode::generate(&*self.env.rng)?;
            let mac = code.stored(&self.parts.keys, &user.id);
            let new = RecoveryCodeCreate {
                user_id: user.id.clone(),
                mac,
                created_at: cx.now(),
            };
            self.parts.codes.create(cx, new).await?;
            shown.push(code.shown());
        }
        Ok(shown)
    }

    /// Takes recovery codes away, or those alone that were made at an instant or after it.
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
                // Just used.
                Err(error) if error.code() == Code::NotFound => {}
                done => done?,
            }
        }
        Ok(())
    }

    /// New recovery codes in place of the earlier ones, as their owner asks for in a session.
    ///
    /// # Errors
    /// 409 when the account was changed since it was read; 401 when the session has ended.
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
            Happened::to("auth:mfa.recovery_regenerated", &user.id),
        )
        .await?;
        self.parts
            .notice(cx, client, user, MailKind::RecoveryCodesRegenerated)
            .await?;
        self.replace_recovery_codes(cx, user).await
    }

    /// Takes away whatever somebody set up who never proved that the account's mailbox is theirs:
    /// providers, passkeys, second factors and recovery codes, recognised devices, a deletion that
    /// waits, the wish for another address, and whatever else is under way. Part of the transaction
    /// in which the mailbox is proved; the caller takes the password and the sessions away. The
    /// answer is the account as it is then.
    ///
    /// # Errors
    /// When it cannot be taken away.
    pub(crate) async fn drop_unproved(&self, cx: &Cx, client: &Client, id: &str) -> Result<User> {
        self.drop_since(cx, client, id, Timestamp::MIN).await?;
        self.parts.tokens.void(cx, id, BEGUN).await?;
        self.devices.forget(cx, id).await?;
        let now = self
            .users
            .get(cx, id)
            .await?
            .ok_or_else(linchpin::Error::not_found)?;
        if now.deletion_due_at.is_none() {
            return Ok(now);
        }
        self.call_off(cx, client, &now).await
    }

    /// Takes away what was added to an account since it was made, as part of the transaction in
    /// which a mailed link confirms the sign-up: who follows it may not be who added that. What the
    /// account was made with stays, a password or a provider, with its sessions: the link was
    /// mailed for that, and is often followed on another device. So do codes by mail, which only
    /// who reads it has set up.
    ///
    /// # Errors
    /// When it cannot be taken away.
    pub(crate) async fn drop_added(&self, cx: &Cx, client: &Client, user: &User) -> Result<()> {
        self.parts.tokens.void(cx, &user.id, ADDING).await?;
        let since = later(user.created_at, 1);
        let any = !self.passkeys.of(cx, &user.id).await?.is_empty()
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
        // Nothing else of the account is touched where there is nothing.
        if any {
            self.drop_since(cx, client, &user.id, since).await
        } else {
            Ok(())
        }
    }

    /// Takes away by what else somebody may sign in, and what is asked of them, that was set up at
    /// an instant or after it: the account was not its owner's then. Part of the transaction in
    /// which it is theirs again; its owner is told at the address that it has by now.
    ///
    /// # Errors
    /// When it cannot be taken away.
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
        let (gone, left): (Vec<_>, Vec<_>) = self
            .passkeys
            .of(cx, id)
            .await?
            .into_iter()
            .partition(|passkey| passkey.created_at >= since);
        self.drop_passkeys(cx, client, &user, &gone).await?;
        let factors = self
            .parts
            .factors
            .factors_of(cx, id.to_owned(), PageArgs::default())
            .await?
            .items;
        let mut ways: Vec<Way> = factors
            .into_iter()
            .filter(|factor| factor.created_at >= since)
            .map(|factor| factor.way)
            .collect();
        if left.is_empty() {
            ways.push(Way::Webauthn);
        }
        if since < user.created_at {
            // Codes by mail keep nothing that would say since when: they are as old as the account.
            ways.push(Way::EmailOtp);
        }
        // Either way the account's factors have another version, which ends the trust in devices:
        // some may be the other's.
        self.unenrol(cx, client, &user, &ways, By::Proof).await?;
        self.drop_recovery_codes(cx, &user, Some(since)).await
    }

    /// Takes every second factor of somebody away who has lost them.
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
            .transaction(async |cx| self.unenrol(cx, client, &user, &Way::METHODS, by).await)
            .await;
        self.checks.forget(id);
        done?;
        self.users
            .get(&cx, id)
            .await?
            .ok_or_else(linchpin::Error::not_found)
    }
}
