//! Ways to sign in: who may add one, which an account has, and that one remains.

use linchpin::{Cx, Result};

use crate::core::Core;
use crate::entities::{Credential, User};
use crate::error::{EMAIL_NOT_VERIFIED, LAST_CREDENTIAL, refuse};
use crate::mfa::Way;
use crate::oauth::entity::ProviderLink;

/// What an account is to do without.
#[derive(Clone, Copy)]
pub(crate) enum Without<'a> {
    Passkeys(&'a [Credential]),
    Link(&'a ProviderLink),
}

impl Core {
    /// Whether an account may get a further way to sign in, or a further factor: where addresses
    /// are proved, its own has to be.
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

    /// Whether an account can be signed in to with a passkey.
    ///
    /// # Errors
    /// When the store cannot tell.
    pub(crate) async fn signs_in_by_passkey(&self, cx: &Cx, user: &str) -> Result<bool> {
        self.has_passkeys_beside(cx, user, 0).await
    }

    /// Whether the owner of an account can sign in by a provider.
    ///
    /// # Errors
    /// When the store cannot answer.
    pub(crate) async fn signs_in_by_provider(&self, cx: &Cx, user: &str) -> Result<bool> {
        self.has_providers_beside(cx, user, None).await
    }

    /// Whether one passkey is all that an account has: nothing else proves who its owner is, and
    /// there is no mail or provider to sign in by beside which it would be the second factor. Where
    /// recovery codes are left, its owner proves by one of them.
    ///
    /// # Errors
    /// When the store cannot tell.
    pub(crate) async fn has_one_passkey_alone(&self, cx: &Cx, user: &User) -> Result<bool> {
        let auth = &self.config.auth;
        let by_mail = user.email.is_some()
            && (auth.magic_link.enabled || (auth.resets() && auth.password.enabled));
        Ok(self.methods(user) == [Way::Webauthn]
            && !self.takes_password(user)
            && !by_mail
            && !self.signs_in_by_provider(cx, &user.id).await?
            && self.passkeys.of(cx, &user.id).await?.len() == 1
            && self.recovery_codes_left(cx, user).await? == 0)
    }

    /// Lets an account do without something, if its owner can sign in all the same: with a
    /// password, a passkey or a provider.
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
            // Nobody signs in with them: they are no way in.
            Without::Passkeys(gone) if gone.is_empty() || !self.config.auth.passkeys.primary => {
                return Ok(());
            }
            Without::Passkeys(gone) => (gone.len(), None),
            Without::Link(link) => (0, Some(link)),
        };
        let kept = self.takes_password(user)
            || self.has_passkeys_beside(cx, &user.id, passkeys).await?
            || self.has_providers_beside(cx, &user.id, link).await?;
        if kept {
            Ok(())
        } else {
            Err(refuse(LAST_CREDENTIAL))
        }
    }

    /// Whether passkeys sign in, and an account has more of them than so many.
    async fn has_passkeys_beside(&self, cx: &Cx, user: &str, gone: usize) -> Result<bool> {
        let settings = &self.config.auth.passkeys;
        Ok(settings.enabled && settings.primary && self.passkeys.of(cx, user).await?.len() > gone)
    }

    /// Whether an account is linked to a provider that is set up here, by another link than this
    /// one.
    async fn has_providers_beside(
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
