//! What the app itself may do with accounts, beside what their owners can.

use std::sync::Arc;

use linchpin::{Code, Error, Problem, Result, Timestamp};
use serde_json::Value;

mod reads;

pub use reads::{AccountQuery, AuditEntry, AuditQuery, SessionInfo};

use crate::core::{Client, Core};
use crate::entities::User;
use crate::flow::{NewAccount, Reason, Rekeyed, SERVICE};
use crate::identity::PrimaryField;
use crate::identity::normalise;
use crate::recovery::RecoveryCode;
use crate::secret::SecretText;

/// Fewest characters of a password that we make: two recovery codes, 120 bits.
const FRESH: usize = 24;

/// Administration of accounts, for code: `adapters.provided::<AuthService>()` once the app is set
/// up.
#[derive(Clone, Debug)]
pub struct AuthService {
    core: Arc<Core>,
}

/// An account as code sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Account {
    /// Its id, which is that of the actor.
    pub id: String,
    /// The identifier as typed.
    pub identifier: String,
    /// The email address as typed.
    pub email: Option<String>,
    /// Since when that is known to be its owner's.
    pub email_verified_at: Option<Timestamp>,
    /// What its owner may do.
    pub roles: Vec<String>,
    /// Since when it is suspended.
    pub suspended_at: Option<Timestamp>,
    /// What the app keeps with it for itself.
    pub app_metadata: Option<Value>,
}

/// An account that code makes.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NewUser {
    /// What it is known by: of the kind that `auth.primaryField` names.
    pub identifier: String,
    /// The email address, where accounts are known by something else.
    pub email: Option<String>,
    /// Whether the address is known to be its owner's.
    pub email_verified: bool,
    /// A password, under the rules for those of sign-ups.
    pub password: Option<SecretText>,
    /// The hash of a password that another program made, where there is a
    /// [`LegacyVerifier`](crate::LegacyVerifier) for it, or an Argon2 hash as a PHC string. It is
    /// replaced when its owner first signs in.
    pub password_hash: Option<SecretText>,
    /// What its owner may do; the default role unless it is said here.
    pub roles: Option<Vec<String>>,
    /// What the app keeps with it for itself: its owner neither sees nor changes it.
    pub app_metadata: Option<Value>,
}

impl NewUser {
    /// An account with nothing but an identifier.
    pub fn new(identifier: impl Into<String>) -> Self {
        Self {
            identifier: identifier.into(),
            email: None,
            email_verified: false,
            password: None,
            password_hash: None,
            roles: None,
            app_metadata: None,
        }
    }

    /// With a password.
    #[must_use]
    pub fn password(self, password: impl Into<String>) -> Self {
        Self {
            password: Some(SecretText::new(password)),
            ..self
        }
    }

    /// With these roles in place of the default one.
    #[must_use]
    pub fn roles<R: Into<String>>(self, roles: impl IntoIterator<Item = R>) -> Self {
        Self {
            roles: Some(roles.into_iter().map(Into::into).collect()),
            ..self
        }
    }

    /// With an address that is known to be its owner's.
    #[must_use]
    pub fn verified(self) -> Self {
        Self {
            email_verified: true,
            ..self
        }
    }
}

impl From<User> for Account {
    fn from(user: User) -> Self {
        Self {
            id: user.id,
            identifier: user.identifier_display,
            email: user.email,
            email_verified_at: user.email_verified_at,
            roles: user.roles,
            suspended_at: user.suspended_at,
            app_metadata: user.app_metadata,
        }
    }
}

impl AuthService {
    pub(crate) fn new(core: Arc<Core>) -> Self {
        Self { core }
    }

    /// The app itself as a client.
    fn client(&self) -> Client {
        Client::own(self.core.now())
    }

    /// An account.
    ///
    /// # Errors
    /// When the store cannot answer.
    pub async fn account(&self, id: &str) -> Result<Option<Account>> {
        Ok(self
            .there(self.core.users.get(&self.client().cx(), id).await?)
            .map(Account::from))
    }

    /// The account that is known by an identifier, however it is spelt.
    ///
    /// # Errors
    /// When the store cannot answer.
    pub async fn account_by_identifier(&self, identifier: &str) -> Result<Option<Account>> {
        let Ok(identifier) = self.core.config.auth.primary_field.parse(identifier) else {
            return Ok(None);
        };
        Ok(self
            .there(
                self.core
                    .users
                    .by_identifier(&self.client().cx(), identifier.normalised)
                    .await?,
            )
            .map(Account::from))
    }

    /// The account, unless its deletion is due.
    fn there(&self, user: Option<User>) -> Option<User> {
        let client = self.client();
        user.filter(|user| !user.is_gone(client.now))
    }

    /// Makes an account, as the first administrator's. Hooks of sign-ups are not asked: this is the
    /// app itself. Without a password its owner signs in another way, or sets one by a link for a
    /// forgotten password.
    ///
    /// # Errors
    /// `conflict` when there is one; `validation_failed`, `password_too_common`,
    /// `password_breached`.
    pub async fn create_user(&self, new: NewUser) -> Result<Account> {
        let (core, primary) = (&self.core, self.core.config.auth.primary_field);
        let identifier = primary
            .parse(&new.identifier)
            .map_err(|what| Error::invalid(what.at(primary.name())))?;
        let email = match (primary, &new.email) {
            (PrimaryField::Email, _) => Some(identifier.clone()),
            (_, Some(email)) => {
                Some(normalise::email(email).map_err(|what| Error::invalid(what.at("email")))?)
            }
            (_, None) => None,
        };
        let roles = new
            .roles
            .unwrap_or_else(|| core.config.auth.default_role.iter().cloned().collect());
        core.judge_roles(&roles)?;
        let password_hash = match &new.password {
            Some(typed) => {
                let names: Vec<&str> = [&identifier]
                    .into_iter()
                    .chain(&email)
                    .flat_map(|one| [one.normalised.as_str(), one.display.as_str()])
                    .collect();
                let password = core.policy.check(typed, &names)?;
                core.breaches.check(&password).await?;
                Some(core.hasher.hash(password).await?)
            }
            None => match &new.password_hash {
                Some(hash) if !core.hasher.can_read(hash.expose()) => {
                    let problem = Problem::new(
                        "passwordHash",
                        "format",
                        "is no hash that this app can check passwords with",
                    );
                    return Err(Error::invalid(problem));
                }
                imported => imported.as_ref().map(|hash| hash.expose().to_owned()),
            },
        };
        let client = self.client();
        let email_verified_at = (new.email_verified && email.is_some()).then_some(client.now);
        let account = NewAccount {
            identifier,
            email,
            email_verified_at,
            password_hash,
            roles,
            method: SERVICE,
            link: None,
            app_metadata: new.app_metadata,
        };
        core.create_account(&client, account)
            .await
            .map(Account::from)
    }

    /// Opens a session for an account, without any proof, and answers its access token: for tests,
    /// and for tools that act in the name of a user. What keeps its owner from signing in keeps the
    /// app from it as well.
    ///
    /// # Errors
    /// `not_found`; what [`AuthHooks::pre_login`](crate::AuthHooks::pre_login) refuses with, asked
    /// with the method `service`; `account_suspended`, `email_not_verified`, and `mfa_required` for
    /// an account with a second factor.
    pub async fn sign_in(&self, id: &str) -> Result<SecretText> {
        let client = self.client();
        let user = self.there(self.core.users.get(&client.cx(), id).await?);
        let user = user.ok_or_else(|| Error::new(Code::NotFound, "There is no such account"))?;
        self.core
            .open_for(&client, user)
            .await
            .map(|tokens| SecretText::new(tokens.access))
    }

    /// Shuts an account: nobody signs in to it, and all its sessions end.
    ///
    /// # Errors
    /// `not_found`.
    pub async fn suspend(&self, id: &str, reason: Option<String>) -> Result<Account> {
        self.core
            .suspend(&self.client(), None, id, reason)
            .await
            .map(Account::from)
    }

    /// Opens it again. Its former sessions stay ended.
    ///
    /// # Errors
    /// `not_found`.
    pub async fn unsuspend(&self, id: &str) -> Result<Account> {
        self.core
            .unsuspend(&self.client(), None, id)
            .await
            .map(Account::from)
    }

    /// Replaces what its owner may do, from the next request on.
    ///
    /// # Errors
    /// `not_found`; `validation_failed` for a role that is not in `auth.roles`.
    pub async fn set_roles(&self, id: &str, roles: Vec<String>) -> Result<Account> {
        self.core
            .set_roles(&self.client(), None, id, roles)
            .await
            .map(Account::from)
    }

    /// Has the sessions of an account ask the [`TenantResolver`](crate::TenantResolver) anew, from
    /// the next request on: to be called once a membership has been stored, changed or removed,
    /// after its transaction. Without it what is known of a session counts for
    /// `auth.session.cacheSeconds`. Other processes are told by `auth.session.bus`, where there is
    /// one.
    ///
    /// ```
    /// use linchpin::prelude::*;
    /// use linchpin_auth::AuthService;
    ///
    /// /// Somebody in a tenant.
    /// #[entity(routes(disabled))]
    /// #[derive(Clone, Debug)]
    /// pub struct Membership {
    ///     #[field(primary, default = uuid)]
    ///     pub id: String,
    ///     pub user_id: String,
    /// }
    ///
    /// # fn with(app: App) -> App {
    /// app.on_event::<Membership, _, _>("memberships", |event| async move {
    ///     let held = event.after.as_ref().or(event.before.as_ref());
    ///     if let Some(user) = held.and_then(|record| record["userId"].as_str()) {
    ///         event.adapters()?.provided::<AuthService>()?.membership_changed(user);
    ///     }
    ///     Ok(())
    /// })
    /// # }
    /// ```
    pub fn membership_changed(&self, id: &str) {
        self.core.checks.forget(id);
    }

    /// Notes that an email address is known to be its owner's, or that it is not.
    ///
    /// # Errors
    /// `not_found`.
    pub async fn set_email_verified(&self, id: &str, verified: bool) -> Result<Account> {
        self.core
            .set_email_verified(&self.client(), id, verified)
            .await
            .map(Account::from)
    }

    /// Replaces what the app keeps with an account for itself: its owner neither sees nor changes
    /// it.
    ///
    /// # Errors
    /// `not_found`.
    pub async fn set_app_metadata(&self, id: &str, metadata: Option<Value>) -> Result<Account> {
        self.core
            .set_app_metadata(&self.client(), id, metadata)
            .await
            .map(Account::from)
    }

    /// Takes all second factors of an account away, for an owner who has lost them.
    ///
    /// # Errors
    /// `not_found`; `mfa_not_enabled` when it has none.
    pub async fn reset_mfa(&self, id: &str) -> Result<Account> {
        self.core
            .reset_mfa(&self.client(), None, id)
            .await
            .map(Account::from)
    }

    /// Ends all sessions of an account; how many.
    ///
    /// # Errors
    /// When the store cannot say that they have ended.
    pub async fn revoke_sessions(&self, id: &str) -> Result<i64> {
        self.core
            .end_all(&self.client(), id, None, Reason::Revoked)
            .await
    }

    /// Writes what is encrypted under a former key of `security.dataKeys`, or of a former secret,
    /// anew under the newest, and says which unused recovery codes still need a former one.
    ///
    /// # Errors
    /// When the store cannot, or something cannot be read. It may be begun again.
    pub async fn rekey(&self) -> Result<Rekeyed> {
        self.core.rekey(false).await
    }

    /// The same, and ends the recovery codes that need a former key, so that it can be removed.
    /// Their owners get a mail.
    ///
    /// # Errors
    /// As [`AuthService::rekey`].
    pub async fn rekey_ending_codes(&self) -> Result<Rekeyed> {
        self.core.rekey(true).await
    }

    /// Whether people are served: nothing that is for trying out works.
    pub(crate) fn is_production(&self) -> bool {
        self.core.production
    }

    /// Whether accounts are known by an address, which its owner can prove.
    pub(crate) fn knows_by_address(&self) -> bool {
        self.core.config.auth.primary_field == PrimaryField::Email
    }

    /// Whether accounts have passwords at all.
    pub(crate) fn has_passwords(&self) -> bool {
        self.core.config.auth.password.enabled
    }

    /// A password that nobody has thought of, as long as the rules want it.
    pub(crate) fn fresh_password(&self) -> Result<SecretText> {
        let mut text = zeroize::Zeroizing::new(String::new());
        while text.len() < *self.core.policy.length.start() || text.len() < FRESH {
            if !text.is_empty() {
                text.push('-');
            }
            text.push_str(
                RecoveryCode::generate(&*self.core.env.rng)?
                    .shown()
                    .expose(),
            );
        }
        Ok(SecretText::from(text))
    }

    /// Whether these are roles of the app.
    ///
    /// # Errors
    /// One that says which there are.
    pub(crate) fn known_roles(&self, roles: &[String]) -> Result<()> {
        let known = &self.core.config.auth.roles;
        let Some(unknown) = roles.iter().find(|role| !known.contains(role)) else {
            return Ok(());
        };
        let there_are = if known.is_empty() {
            "declares none".to_owned()
        } else {
            format!("has {}", known.join(", "))
        };
        Err(Error::new(
            Code::Internal,
            format!(
                "`{unknown}` is no role of this app, which {there_are} (`Auth::roles`, `auth.roles`)"
            ),
        ))
    }

    /// Lets a session count as one that has just proved who its user is, for tests of what asks for
    /// that.
    ///
    /// # Errors
    /// `not_found`.
    #[cfg(feature = "test-util")]
    pub async fn step_up_session(&self, session: &str) -> Result<()> {
        let client = self.client();
        let cx = client.cx();
        let found = self
            .core
            .sessions
            .get(&cx, session)
            .await?
            .ok_or_else(Error::not_found)?;
        let user = self
            .core
            .users
            .get(&cx, found.user_id.as_str())
            .await?
            .ok_or_else(Error::not_found)?;
        let patch = crate::entities::SessionPatch {
            step_up_at: Some(Some(client.now)),
            proved_factors: Some(Some(user.mfa_version)),
            ..Default::default()
        };
        let session = self.core.sessions.update(&cx, session, patch, None).await?;
        self.core.checks.forget(&session.user_id);
        Ok(())
    }
}
