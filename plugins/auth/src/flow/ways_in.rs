//! Ways to sign in: the requirement for a new one, the existing ones of an account, and the check
//! that a removal keeps one.

use linchpin::{Cx, Result};

use crate::core::Core;
use crate::entities::{Credential, User};
use crate::error::{EMAIL_NOT_VERIFIED, LAST_CREDENTIAL, refuse};
use crate::mfa::ProofMethod;
use crate::oauth::entity::ProviderLink;

/// A removal from an account.
#[derive(Clone, Copy)]
pub(crate) enum Without<'a> {
    Passkeys(&'a [Credential]),
    Link(&'a ProviderLink),
}

impl Core {
    /// Checks that an account may get another way to sign in or another factor. If addresses are
    /// verified, the account's address must be verified.
    ///
    /// # Errors
    /// 403 `email_not_verified`.
    pub(crate) fn may_add_way_in(&self, user: &User) -> Result<()> {
        let unproved =
            self.config.auth.email_verification.enabled && user.email_verified_at.is_none();
        if unproved {
            Err(refuse(EMAIL_NOT_VERIFIED))
        } else {
            Ok(())
        }
    }

    /// Whether an account can sign in with a passkey.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub(crate) async fn signs_in_by_passkey(&self, cx: &Cx, user: &str) -> Result<bool> {
        self.has_other_passkeys(cx, user, 0).await
    }

    /// Whether an account can sign in with a provider.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub(crate) async fn signs_in_by_provider(&self, cx: &Cx, user: &str) -> Result<bool> {
        self.has_other_providers(cx, user, None).await
    }

    /// Whether one passkey is the only proof of an account: no other factor, no recovery codes, and
    /// no mail or provider for which the passkey would be the second factor.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub(crate) async fn has_one_passkey_alone(&self, cx: &Cx, user: &User) -> Result<bool> {
        let auth = &self.config.auth;
        let by_mail = user.email.is_some()
            && (auth.magic_link.enabled || (auth.resets() && auth.password.enabled));
        Ok(self.methods(user) == [ProofMethod::Webauthn]
            && !self.takes_password(user)
            && !by_mail
            && !self.signs_in_by_provider(cx, &user.id).await?
            && self.passkeys.of(cx, &user.id).await?.len() == 1
            && self.recovery_codes_left(cx, user).await? == 0)
    }

    /// Checks that the owner can still sign in after a removal: with a password, a passkey or a
    /// provider.
    ///
    /// # Errors
    /// 409 `last_credential`.
    pub(crate) async fn keeps_a_way_in(
        &self,
        cx: &Cx,
        user: &User,
        without: Without<'_>,
    ) -> Result<()> {
        let (passkeys, link) = match without {
            // Nothing is removed, or passkeys are not a way to sign in.
            Without::Passkeys(gone) if gone.is_empty() || !self.config.auth.passkeys.primary => {
                return Ok(());
            }
            Without::Passkeys(gone) => (gone.len(), None),
            Without::Link(link) => (0, Some(link)),
        };
        let kept = self.takes_password(user)
            || self.has_other_passkeys(cx, &user.id, passkeys).await?
            || self.has_other_providers(cx, &user.id, link).await?;
        if kept {
            Ok(())
        } else {
            Err(refuse(LAST_CREDENTIAL))
        }
    }

    /// Whether sign-in with passkeys is enabled and the account has more than `gone` passkeys.
    async fn has_other_passkeys(&self, cx: &Cx, user: &str, gone: usize) -> Result<bool> {
        let settings = &self.config.auth.passkeys;
        Ok(settings.enabled && settings.primary && self.passkeys.of(cx, user).await?.len() > gone)
    }

    /// Whether the account has another link to a configured provider.
    async fn has_other_providers(
        &self,
        cx: &Cx,
        user: &str,
        gone: Option<&ProviderLink>,
    ) -> Result<bool> {
        if self.oauth.is_empty() {
            return Ok(false);
        }
        let counts = |link: &ProviderLink| {
            gone.is_none_or(|gone| link.id != gone.id)
                && self.oauth.name_of(&link.provider).is_some()
        };
        Ok(self.links_of(cx, user).await?.iter().any(counts))
    }
}
