//! Creation of accounts. No other code creates one.

use linchpin::{Code, Error, Result, Timestamp};
use serde_json::{Value, json};

use crate::core::{AuditEvent, Client, Core};
use crate::entities::{User, UserCreate};
use crate::error::{INVALID_TOKEN, refuse};
use crate::identity::PrimaryField;
use crate::identity::normalise::Identifier;
use crate::oauth::Identity;
use crate::onetime::OneTime;

/// A new account.
pub(crate) struct NewAccount {
    pub(crate) identifier: Identifier,
    pub(crate) email: Option<Identifier>,
    pub(crate) email_verified_at: Option<Timestamp>,
    pub(crate) password_hash: Option<String>,
    pub(crate) roles: Vec<String>,
    /// The method, such as `password`.
    pub(crate) method: &'static str,
    /// The provider of the sign-up, with the identity at the provider.
    pub(crate) link: Option<(String, Identity)>,
    /// Data of the app.
    pub(crate) app_metadata: Option<Value>,
}

impl NewAccount {
    /// A sign-up with a password.
    pub(crate) fn signed_up(
        core: &Core,
        identifier: Identifier,
        email: Option<Identifier>,
        hash: String,
    ) -> Self {
        let roles = core.config.auth.default_role.iter().cloned().collect();
        Self {
            identifier,
            email,
            email_verified_at: None,
            password_hash: Some(hash),
            roles,
            method: "password",
            link: None,
            app_metadata: None,
        }
    }
}

impl Core {
    /// Creates an account, and mails a link that verifies its address if verification is enabled.
    ///
    /// # Errors
    /// `conflict` with the field's name in requests.
    pub(crate) async fn create_account(&self, client: &Client, new: NewAccount) -> Result<User> {
        self.create_account_with(client, new, None).await
    }

    /// Like [`Core::create_account`], and consumes a token in the same transaction.
    ///
    /// # Errors
    /// 400 `invalid_token` if another request consumed it; the errors of [`Core::create_account`].
    pub(crate) async fn create_account_with(
        &self,
        client: &Client,
        new: NewAccount,
        token: Option<&OneTime>,
    ) -> Result<User> {
        let NewAccount {
            identifier,
            email,
            email_verified_at,
            password_hash,
            roles,
            method,
            link,
            app_metadata,
        } = new;
        self.delete_due_accounts(client, &identifier, email.as_ref())
            .await?;
        let to_verify = email
            .as_ref()
            .filter(|_| self.config.auth.email_verification.enabled && email_verified_at.is_none());
        // Anyone can sign up with another person's address, delete the account, and do both again.
        // So these mails are limited. The owner of an account can request another link.
        let counted = match to_verify {
            Some(email) => self.may_mail(&email.normalised).await?,
            None => None,
        };
        let new = UserCreate {
            identifier: identifier.normalised,
            identifier_display: identifier.display,
            email: email.as_ref().map(|email| email.display.clone()),
            email_normalised: email.map(|email| email.normalised),
            email_verified_at,
            proved_at: email_verified_at,
            password_hash,
            password_version: None,
            session_epoch: None,
            roles: Some(roles),
            suspended_at: None,
            suspended_reason: None,
            deletion_due_at: None,
            display_name: None,
            first_name: None,
            last_name: None,
            user_metadata: json!({}),
            app_metadata,
            user_handle: self.random_text::<32>()?,
            mfa_version: None,
            mfa_methods: None,
            created_at: client.now,
        };
        let cx = client.cx();
        let made = cx.transaction(async |cx| {
            if let Some(token) = token
                && !self.parts.tokens.take(cx, token).await?
            {
                return Err(refuse(INVALID_TOKEN));
            }
            let user = self.users.create(cx, new).await?;
            self.audit(
                cx,
                client,
                AuditEvent::about("auth:user.created", &user.id)
                    .details(json!({ "method": method })),
            )
            .await?;
            if let Some((provider, identity)) = &link {
                self.store_link(cx, client, provider, identity, &user.id)
                    .await?;
            }
            if counted.is_some() {
                self.send_verification(cx, &user).await?;
            }
            Ok(user)
        });
        let made = made.await;
        if let (Err(_), Some(counted)) = (&made, &counted) {
            counted.undo().await;
        }
        made.map_err(|error| conflict_of_field(self.config.auth.primary_field, error))
    }
}

impl Core {
    /// Deletes accounts that block a new one and whose deletion is due, even if the background job
    /// has not deleted them yet.
    ///
    /// # Errors
    /// If they cannot be deleted.
    pub(crate) async fn delete_due_accounts(
        &self,
        client: &Client,
        identifier: &Identifier,
        email: Option<&Identifier>,
    ) -> Result<()> {
        let cx = client.cx();
        let of_identifier = self
            .users
            .by_identifier(&cx, identifier.normalised.as_str())
            .await?;
        let of_email = match email {
            Some(email) => self.users.by_email(&cx, email.normalised.as_str()).await?,
            None => None,
        };
        for gone in of_identifier
            .into_iter()
            .chain(of_email)
            .filter(|user| user.is_gone(client.now))
        {
            self.purge(&gone).await?;
        }
        Ok(())
    }
}

/// Maps a unique conflict to an error with the field's name in requests.
fn conflict_of_field(primary: PrimaryField, error: Error) -> Error {
    if error.code() != Code::Conflict {
        return error;
    }
    let of_primary = error
        .details()
        .iter()
        .any(|problem| problem.path == "identifier");
    Error::unique([if of_primary { primary.name() } else { "email" }])
}
