//! New accounts. No route, and no code of an app, makes one in another way.

use linchpin::{Code, Error, Result, Timestamp};
use serde_json::{Value, json};

use crate::core::{Client, Core, Happened};
use crate::entities::{User, UserCreate};
use crate::error::{INVALID_TOKEN, refuse};
use crate::identity::PrimaryField;
use crate::identity::normalise::Identifier;
use crate::oauth::Identity;
use crate::onetime::OneTime;

/// What an account is made of.
pub(crate) struct NewAccount {
    pub(crate) identifier: Identifier,
    pub(crate) email: Option<Identifier>,
    pub(crate) email_verified_at: Option<Timestamp>,
    pub(crate) password_hash: Option<String>,
    pub(crate) roles: Vec<String>,
    /// `password` and so on.
    pub(crate) method: &'static str,
    /// The provider that its owner signed up with, and whom it knows them as.
    pub(crate) link: Option<(String, Identity)>,
    /// What the app keeps with it for itself.
    pub(crate) app_metadata: Option<Value>,
}

impl NewAccount {
    /// By somebody who signs up with a password.
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
    /// Makes an account, and mails a link that proves its address where that is asked for.
    ///
    /// # Errors
    /// `conflict` under the name that clients know the field by.
    pub(crate) async fn create_account(&self, client: &Client, new: NewAccount) -> Result<User> {
        self.create_account_with(client, new, None).await
    }

    /// The same, with a token that is taken with it.
    ///
    /// # Errors
    /// 400 `invalid_token` when somebody else has taken it; as [`Core::create_account`].
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
        self.make_room(client, &identifier, email.as_ref()).await?;
        let proves = email
            .as_ref()
            .filter(|_| self.config.auth.email_verification.enabled && email_verified_at.is_none());
        // Somebody else's address may be signed up, deleted and signed up again. Its owner asks for
        // another link.
        let counted = match proves {
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
                Happened::to("auth:user.created", &user.id).details(json!({ "method": method })),
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
        made.map_err(|error| taken(self.config.auth.primary_field, error))
    }
}

impl Core {
    /// Removes accounts that are in the way of a new one and whose deletion is due: they are gone
    /// for everybody, whether or not the job that removes them has been there.
    ///
    /// # Errors
    /// When they cannot be removed.
    pub(crate) async fn make_room(
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

/// A unique that is taken, under the name that the client knows the field by.
fn taken(primary: PrimaryField, error: Error) -> Error {
    if error.code() != Code::Conflict {
        return error;
    }
    let of_primary = error
        .details()
        .iter()
        .any(|problem| problem.path == "identifier");
    Error::unique([if of_primary { primary.name() } else { "email" }])
}
