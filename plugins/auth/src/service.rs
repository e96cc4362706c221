//! Administration of accounts from code of the app.

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

/// Minimum length of a generated password: two recovery codes, 120 bits.
const GENERATED_PASSWORD_CHARS: usize = 24;

/// Administration of accounts from code. `adapters.provided::<AuthService>()` returns it after
/// start-up.
#[derive(Clone, Debug)]
pub struct AuthService {
    core: Arc<Core>,
}

/// An account, as code of the app reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Account {
    /// The id of the account and of its actor.
    pub id: String,
    /// The identifier as the user typed it.
    pub identifier: String,
    /// The email address as the user typed it.
    pub email: Option<String>,
    /// When the address was verified; `None` if it is not verified.
    pub email_verified_at: Option<Timestamp>,
    /// The roles of the account.
    pub roles: Vec<String>,
    /// When the account was suspended; `None` if it is not suspended.
    pub suspended_at: Option<Timestamp>,
    /// Data of the app, which the user cannot read.
    pub app_metadata: Option<Value>,
}

/// A new account for [`AuthService::create_user`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NewUser {
    /// The identifier, of the kind in `auth.primaryField`.
    pub identifier: String,
    /// The email address, if the identifier is not one.
    pub email: Option<String>,
    /// Whether the address is verified.
    pub email_verified: bool,
    /// A password. The rules for sign-ups apply.
    pub password: Option<SecretText>,
    /// The hash of an imported password: an Argon2 hash as a PHC string, or a hash that a
    /// [`LegacyVerifier`](crate::LegacyVerifier) of the app checks. The first sign-in replaces it.
    pub password_hash: Option<SecretText>,
    /// The roles of the account; `None` assigns the default role.
    pub roles: Option<Vec<String>>,
    /// Data of the app, which the user can neither read nor change.
    pub app_metadata: Option<Value>,
}

impl NewUser {
    /// An account with an identifier and nothing else.
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

    /// Sets the password.
    #[must_use]
    pub fn password(self, password: impl Into<String>) -> Self {
        Self {
            password: Some(SecretText::new(password)),
            ..self
        }
    }

    /// Sets the roles, which replace the default role.
    #[must_use]
    pub fn roles<R: Into<String>>(self, roles: impl IntoIterator<Item = R>) -> Self {
        Self {
            roles: Some(roles.into_iter().map(Into::into).collect()),
            ..self
        }
    }

    /// Marks the email address as verified.
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

    /// The app itself as the client of a call.
    fn client(&self) -> Client {
        Client::of_app(self.core.now())
    }

    /// Returns an account by its id.
    ///
    /// # Errors
    /// When the store cannot answer.
    pub async fn account(&self, id: &str) -> Result<Option<Account>> {
        Ok(self
            .unless_gone(self.core.users.get(&self.client().cx(), id).await?)
            .map(Account::from))
    }

    /// Returns an account by its identifier, in any spelling.
    ///
    /// # Errors
    /// When the store cannot answer.
    pub async fn account_by_identifier(&self, identifier: &str) -> Result<Option<Account>> {
        let Ok(identifier) = self.core.config.auth.primary_field.parse(identifier) else {
            return Ok(None);
        };
        Ok(self
            .unless_gone(
                self.core
                    .users
                    .by_identifier(&self.client().cx(), identifier.normalised)
                    .await?,
            )
            .map(Account::from))
    }

    /// Returns the account unless its deletion is due.
    fn unless_gone(&self, user: Option<User>) -> Option<User> {
        let client = self.client();
        user.filter(|user| !user.is_gone(client.now))
    }

    /// Creates an account, for example the first administrator. It does not run the sign-up hooks.
    /// Without a password the user signs in another way, or sets one by a password reset.
    ///
    /// # Errors
    /// `conflict` if the account exists; `validation_failed`, `password_too_common`,
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
        core.check_roles(&roles)?;
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
                        "is not a password hash that this app can verify",
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

    /// Opens a session for an account without any proof and returns its access token. Use it in
    /// tests, and in tools that act on behalf of a user. An account that cannot sign in is refused
    /// here too.
    ///
    /// # Errors
    /// `not_found`; the error of [`AuthHooks::pre_login`](crate::AuthHooks::pre_login), which runs
    /// with the method `service`; `account_suspended`, `email_not_verified`; `mfa_required` for an
    /// account with a second factor.
    pub async fn sign_in(&self, id: &str) -> Result<SecretText> {
        let client = self.client();
        let user = self.unless_gone(self.core.users.get(&client.cx(), id).await?);
        let user = user.ok_or_else(|| Error::new(Code::NotFound, "There is no such account"))?;
        self.core
            .open_for(&client, user)
            .await
            .map(|tokens| SecretText::new(tokens.access))
    }

    /// Suspends an account: it cannot sign in, and all its sessions end.
    ///
    /// # Errors
    /// `not_found`.
    pub async fn suspend(&self, id: &str, reason: Option<String>) -> Result<Account> {
        self.core
            .suspend(&self.client(), None, id, reason)
            .await
            .map(Account::from)
    }

    /// Lifts a suspension. Sessions that ended stay ended.
    ///
    /// # Errors
    /// `not_found`.
    pub async fn unsuspend(&self, id: &str) -> Result<Account> {
        self.core
            .unsuspend(&self.client(), None, id)
            .await
            .map(Account::from)
    }

    /// Replaces the roles of an account. The next request uses the new ones.
    ///
    /// # Errors
    /// `not_found`; `validation_failed` for a role that is not in `auth.roles`.
    pub async fn set_roles(&self, id: &str, roles: Vec<String>) -> Result<Account> {
        self.core
            .set_roles(&self.client(), None, id, roles)
            .await
            .map(Account::from)
    }

    /// Drops the cached tenant of an account's sessions, so that the next request calls the
    /// [`TenantResolver`](crate::TenantResolver) again. Call it after the transaction that stores,
    /// changes or removes a membership. Without the call, the former tenant stays for
    /// `auth.session.cacheSeconds`. The `auth.session.bus` informs other processes.
    ///
    /// ```
    /// use linchpin::prelude::*;
    /// use linchpin_auth::AuthService;
    ///
    /// /// The membership of a user in a tenant.
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

    /// Marks the email address as verified or not verified.
    ///
    /// # Errors
    /// `not_found`.
    pub async fn set_email_verified(&self, id: &str, verified: bool) -> Result<Account> {
        self.core
            .set_email_verified(&self.client(), id, verified)
            .await
            .map(Account::from)
    }

    /// Replaces the app's data of an account, which the user can neither read nor change.
    ///
    /// # Errors
    /// `not_found`.
    pub async fn set_app_metadata(&self, id: &str, metadata: Option<Value>) -> Result<Account> {
        self.core
            .set_app_metadata(&self.client(), id, metadata)
            .await
            .map(Account::from)
    }

    /// Removes all second factors of an account, for a user who lost them.
    ///
    /// # Errors
    /// `not_found`; `mfa_not_enabled` when it has none.
    pub async fn reset_mfa(&self, id: &str) -> Result<Account> {
        self.core
            .reset_mfa(&self.client(), None, id)
            .await
            .map(Account::from)
    }

    /// Ends all sessions of an account and returns their number.
    ///
    /// # Errors
    /// If the store is not reachable.
    pub async fn revoke_sessions(&self, id: &str) -> Result<i64> {
        self.core
            .end_all(&self.client(), id, None, Reason::Revoked)
            .await
    }

    /// Encrypts all stored data with the newest key of `security.dataKeys` or the newest secret,
    /// and reports the unused recovery codes that still need a former key.
    ///
    /// # Errors
    /// If the store is not reachable, or if a record cannot be decrypted. A second call continues.
    pub async fn rekey(&self) -> Result<Rekeyed> {
        self.core.rekey(false).await
    }

    /// Like [`AuthService::rekey`], and also deletes the recovery codes that need a former key, so
    /// that this key can be removed. Their owners get a mail.
    ///
    /// # Errors
    /// The errors of [`AuthService::rekey`].
    pub async fn rekey_ending_codes(&self) -> Result<Rekeyed> {
        self.core.rekey(true).await
    }

    /// Whether the app runs in production, where development features are off.
    pub(crate) fn is_production(&self) -> bool {
        self.core.production
    }

    /// Whether the identifier is an email address.
    pub(crate) fn identifies_by_email(&self) -> bool {
        self.core.config.auth.primary_field == PrimaryField::Email
    }

    /// Whether accounts have passwords.
    pub(crate) fn has_passwords(&self) -> bool {
        self.core.config.auth.password.enabled
    }

    /// A random password that the password rules accept.
    pub(crate) fn generated_password(&self) -> Result<SecretText> {
        let mut text = zeroize::Zeroizing::new(String::new());
        while text.len() < *self.core.policy.length.start() || text.len() < GENERATED_PASSWORD_CHARS
        {
            if !text.is_empty() {
                text.push('-');
            }
            text.push_str(
                RecoveryCode::generate(&*self.core.env.rng)?
                    .formatted()
                    .expose(),
            );
        }
        Ok(SecretText::from(text))
    }

    /// Checks that the app declares these roles.
    ///
    /// # Errors
    /// An error that lists the declared roles.
    pub(crate) fn require_declared_roles(&self, roles: &[String]) -> Result<()> {
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
                "`{unknown}` is not a role of this app, which {there_are}: add it with \
                 `Auth::roles` or `auth.roles`"
            ),
        ))
    }

    /// Sets a session's step-up to now, for tests of routes that need one.
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
