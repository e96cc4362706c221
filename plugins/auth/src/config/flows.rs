//! Settings of flows that send mail.

use linchpin::Environment;

use super::{AuthConfig, AuthSection};
use crate::identity::PrimaryField;
use crate::mail::ConsoleMailer;

/// The rule for the address of a page.
const PAGE: &str =
    "the https address of a page, without a fragment (in development, http is allowed, too)";

/// The page under `/auth/ui` that accepts the mailed links of a section.
fn own_page(section: &str) -> &'static str {
    match section {
        "passwordReset" => "reset",
        "magicLink" => "enter",
        "accountDeletion" => "keep",
        _ => "verify",
    }
}

/// The error if the page of a link is set and the app has no mailer.
const UNSENT_LINK: &str = "the link to this page is mailed, but there is no mailer: set auth.mailer in \
                      code, for example to an `SmtpMailer`";

/// The settings `auth.emailVerification`: mails that verify the address of an account.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct VerificationSection {
    /// Whether a new account gets a mail with a link that verifies its address.
    pub enabled: bool,
    /// Whether an account can sign in only after its address is verified.
    pub required: bool,
    /// Lifetime of the link in seconds.
    pub token_seconds: u64,
    /// The page of the link. The token is in the fragment `#token=`.
    pub link_base_url: Option<String>,
}

impl Default for VerificationSection {
    fn default() -> Self {
        Self {
            enabled: false,
            required: false,
            token_seconds: 86_400,
            link_base_url: None,
        }
    }
}

/// The settings `auth.passwordReset`: mailed links that set a new password.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ResetSection {
    /// Whether a forgotten password can be reset. By default it can if `link_base_url` is set and
    /// sign-in by password is enabled. Resets need a mailer.
    pub enabled: Option<bool>,
    /// Lifetime of the link in seconds.
    pub token_seconds: u64,
    /// The page of the link. The token is in the fragment `#token=`.
    pub link_base_url: Option<String>,
}

impl Default for ResetSection {
    fn default() -> Self {
        Self {
            enabled: None,
            token_seconds: 1800,
            link_base_url: None,
        }
    }
}

/// The settings `auth.magicLink`: mailed links that sign in.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct MagicLinkSection {
    /// Whether users can sign in with a mailed link.
    pub enabled: bool,
    /// Lifetime of the link in seconds.
    pub token_seconds: u64,
    /// The page of the link. The token is in the fragment `#token=`.
    pub link_base_url: Option<String>,
    /// Whether an unknown address gets a link that creates an account. It needs `primaryField`
    /// `email`.
    pub allow_sign_up: bool,
}

impl Default for MagicLinkSection {
    fn default() -> Self {
        Self {
            enabled: false,
            token_seconds: 600,
            link_base_url: None,
            allow_sign_up: false,
        }
    }
}

/// The settings `auth.accountDeletion`: users who delete their own accounts.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DeletionSection {
    /// Whether users may delete their accounts.
    pub enabled: bool,
    /// Seconds in which a user can cancel the deletion; 0 deletes at once.
    pub grace_seconds: u64,
    /// The page that cancels the deletion with the mailed token in the fragment `#token=`. Without
    /// a page, the mail only gives the date, and users sign in to cancel the deletion.
    pub link_base_url: Option<String>,
}

impl Default for DeletionSection {
    fn default() -> Self {
        Self {
            enabled: true,
            grace_seconds: 604_800,
            link_base_url: None,
        }
    }
}

/// The sessions that a change of the password ends: `session.onPasswordChange`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnPasswordChange {
    /// All other sessions.
    #[default]
    RevokeOthers,
    /// All sessions; the session that changed the password continues under a new token.
    RevokeAllAndReissue,
}

impl AuthSection {
    /// Whether a forgotten password can be reset. Routes, pages and the checks of settings use
    /// this. It does not depend on the mailer: start-up fails if resets are on without a mailer.
    pub(crate) fn resets(&self) -> bool {
        self.password_reset
            .enabled
            .unwrap_or(self.password_reset.link_base_url.is_some() && self.password.enabled)
    }
}

/// Checks the settings. In development, sets the console mailer if the app has no mailer.
pub(super) fn check(
    config: &mut AuthConfig,
    environment: Environment,
    mut wrong: impl FnMut(&str, &str),
) {
    let production = environment == Environment::Production;
    let auth = &mut config.auth;
    let has_mailer = auth.mailer.is_some();
    if !has_mailer && !production {
        auth.mailer = Some(std::sync::Arc::new(ConsoleMailer));
    }
    if production
        && auth
            .mailer
            .as_ref()
            .is_some_and(|mailer| mailer.is_for_development())
    {
        wrong(
            "auth.mailer",
            "is for development only, because it shows mail to the operator of the app: set another mailer in code, such as an `SmtpMailer`",
        );
    }
    let (resets, enabled_by_page) = (auth.resets(), auth.password_reset.enabled.is_none());
    if resets && !auth.password.enabled {
        wrong("auth.passwordReset.enabled", "needs auth.password.enabled");
    }
    if auth.email_verification.required && !auth.email_verification.enabled {
        wrong(
            "auth.emailVerification.required",
            "needs auth.emailVerification.enabled",
        );
    }
    if auth.conceal_registration
        && !(auth.email_verification.enabled && auth.primary_field == PrimaryField::Email)
    {
        wrong(
            "auth.concealRegistration",
            "needs auth.emailVerification.enabled, and auth.primaryField `email`",
        );
    }
    let mails = [
        ("passwordReset", resets, &auth.password_reset.link_base_url),
        (
            "emailVerification",
            auth.email_verification.enabled,
            &auth.email_verification.link_base_url,
        ),
        (
            "magicLink",
            auth.magic_link.enabled,
            &auth.magic_link.link_base_url,
        ),
    ];
    for (section, _, link) in mails.into_iter().filter(|(_, enabled, _)| *enabled) {
        match auth.mailer {
            // Resets are on only because the page is set.
            None if section == "passwordReset" && enabled_by_page => {
                wrong(
                    "auth.passwordReset.linkBaseUrl",
                    &format!("{UNSENT_LINK}, or set auth.passwordReset.enabled to `false`"),
                );
            }
            None => wrong("auth.mailer", &format!("is required by auth.{section}")),
            Some(_) => {}
        }
        if !link
            .as_deref()
            .is_some_and(|link| is_page(link, production))
        {
            let rule_start = if link.is_some() {
                "must be"
            } else {
                "is required: it is"
            };
            wrong(
                &format!("auth.{section}.linkBaseUrl"),
                &page_rule(section, rule_start),
            );
        }
    }
    if auth.magic_link.allow_sign_up && auth.primary_field != PrimaryField::Email {
        wrong(
            "auth.magicLink.allowSignUp",
            "needs auth.primaryField `email`",
        );
    }
    let deletion = &auth.account_deletion;
    // The audit log records who requested a deletion, so it must keep the entry until the deletion.
    let min_retention = if deletion.enabled {
        deletion.grace_seconds
    } else {
        0
    };
    if !(min_retention..=315_360_000).contains(&auth.audit_retention_seconds) {
        wrong(
            "auth.audit.retentionSeconds",
            "must be between accountDeletion.graceSeconds and 315360000",
        );
    }
    if deletion
        .link_base_url
        .as_deref()
        .is_some_and(|link| !is_page(link, production))
    {
        wrong(
            "auth.accountDeletion.linkBaseUrl",
            &page_rule("accountDeletion", "must be"),
        );
    }
    let is_mailed =
        deletion.enabled && deletion.grace_seconds > 0 && deletion.link_base_url.is_some();
    if is_mailed && auth.mailer.is_none() {
        wrong(
            "auth.accountDeletion.linkBaseUrl",
            &format!("{UNSENT_LINK}, or remove this setting"),
        );
    }
}

/// The rule for the page of a section's links, with the plugin's own page as the example.
fn page_rule(section: &str, must: &str) -> String {
    format!(
        "{must} {PAGE}, such as the page of this plugin, https://app.example.com/auth/ui/{}",
        own_page(section)
    )
}

fn is_page(text: &str, production: bool) -> bool {
    url::Url::parse(text).is_ok_and(|url| {
        let scheme = url.scheme() == "https" || (url.scheme() == "http" && !production);
        scheme
            && url.has_host()
            && url.fragment().is_none()
            && url.username().is_empty()
            && url.password().is_none()
    })
}
