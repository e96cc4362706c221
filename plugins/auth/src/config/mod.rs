//! Settings: fields, defaults, sources and checks.

mod check;
mod choices;
mod data_keys;
mod flows;
mod mfa;
mod oauth;
mod pages;
mod passkeys;
mod production;
mod read;
mod reader;
mod table;

use std::collections::BTreeMap;
use std::sync::Arc;

use linchpin::Problem;

use crate::env::Env;
use crate::hooks::AuthHooks;
use crate::identity::{PrimaryField, TrustProxy};
use crate::keys::signing::{Algorithm, SigningKey};
use crate::limit::table::Limit;
use crate::mail::{Mailer, Templates};
use crate::password::{Argon2Cost, BreachChecker, BreachOnError, LegacyVerifier};
use crate::secret::SecretText;
use crate::session::bus::InvalidationBus;
use crate::tenant::TenantResolver;

pub(crate) use check::Checked;
pub use data_keys::DataKey;
pub use flows::{
    DeletionSection, MagicLinkSection, OnPasswordChange, ResetSection, VerificationSection,
};
pub use mfa::{EmailOtpSection, MfaSection, SmsSection, TotpSection};
pub use oauth::{Linking, OauthSection, ProviderSection, ResponseMode};
pub use pages::PagesSection;
pub use passkeys::{PasskeySection, UserVerification};
pub(crate) use reader::VARIABLES;

/// All settings of the plugin. The README explains each of them. A setting that is not set has the
/// most secure value that works for any app. In [`Security`] and [`AuthSection`], the comment of a
/// field begins with its key, such as `signing.secret`, if it has one.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct AuthConfig {
    /// `security`
    pub security: Security,
    /// `auth`
    pub auth: AuthSection,
    /// Mistakes in the form of the settings that were read.
    pub(crate) problems: Vec<Problem>,
    /// Whether the settings come from the environment. If not, an `LINCHPIN_AUTH_` variable is a
    /// start-up error.
    pub(crate) from_environment: bool,
}

/// Keys, proxies and origins.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Security {
    /// `signing.secret`: newest first. Without one, the secrets of the app are used.
    pub secrets: Vec<SecretText>,
    /// `signing.algorithm`
    pub algorithm: Algorithm,
    /// `signing.keys`: newest first, for `EdDSA` and `RS256`.
    pub keys: Vec<SigningKey>,
    /// `signing.issuer`
    pub issuer: Option<String>,
    /// `signing.audience`
    pub audience: Option<String>,
    /// `dataKeys`: keys for stored data, newest first. Without one, the keys are derived from the
    /// secrets.
    pub data_keys: Vec<DataKey>,
    /// `trustProxy`
    pub trust_proxy: TrustProxy,
    /// `allowedOrigins`: in addition to the server's own origin.
    pub allowed_origins: Vec<String>,
    /// `csrf.enabled`
    pub csrf: bool,
    /// `csrf.exemptPaths`: exact paths, or a path with `/*` at the end for all paths below it.
    pub csrf_exempt: Vec<String>,
    /// `apiCredentials`
    pub api_credentials: Vec<ApiCredential>,
}

impl Default for Security {
    fn default() -> Self {
        Self {
            secrets: Vec::new(),
            algorithm: Algorithm::default(),
            keys: Vec::new(),
            issuer: None,
            audience: None,
            data_keys: Vec::new(),
            trust_proxy: TrustProxy::default(),
            allowed_origins: Vec::new(),
            csrf: true,
            csrf_exempt: Vec::new(),
            api_credentials: Vec::new(),
        }
    }
}

/// A program that calls with a static bearer token. Its actor has the kind `service`.
#[derive(Clone, Debug)]
pub struct ApiCredential {
    /// The id of the actor.
    pub id: String,
    /// The token: at least 32 characters, no dots.
    pub token: SecretText,
    /// The roles of the actor.
    pub roles: Vec<String>,
}

/// Settings of accounts and sessions.
#[derive(Clone)]
#[non_exhaustive]
pub struct AuthSection {
    /// `mount`
    pub mount: String,
    /// `publicUrl`: the address of the app for browsers, such as `https://app.example.com`.
    pub public_url: Option<String>,
    /// `roles`: all roles of the app.
    pub roles: Vec<String>,
    /// `defaultRole`: the role of new accounts.
    pub default_role: Option<String>,
    /// `primaryField`
    pub primary_field: PrimaryField,
    /// `concealRegistration`: whether the response of a sign-up is the same if the account exists.
    /// It needs `emailVerification` and email addresses as identifiers.
    pub conceal_registration: bool,
    /// `password`
    pub password: PasswordSection,
    /// `session`
    pub session: SessionSection,
    /// `refreshTokens`
    pub refresh: RefreshSection,
    /// `cookies`
    pub cookies: CookieSection,
    /// `emailVerification`
    pub email_verification: VerificationSection,
    /// `passwordReset`
    pub password_reset: ResetSection,
    /// `magicLink`
    pub magic_link: MagicLinkSection,
    /// `passkeys`
    pub passkeys: PasskeySection,
    /// `accountDeletion`
    pub account_deletion: DeletionSection,
    /// `pages`
    pub pages: PagesSection,
    /// Sends mail. The default in development is the console.
    pub mailer: Option<Arc<dyn Mailer>>,
    /// Texts of the mails.
    pub templates: Templates,
    /// `appName`: the name of the app in pages, mails, authenticator apps and passkeys.
    pub app_name: String,
    /// `mfa`
    pub mfa: MfaSection,
    /// Returns the tenant of a user; without it, users have no tenant.
    pub tenants: Option<Arc<dyn TenantResolver>>,
    /// `oauth`
    pub oauth: OauthSection,
    /// `stepUp`
    pub step_up: StepUpSection,
    /// `rateLimit`
    pub rate_limit: RateLimitSection,
    /// `admin.role`: the role that may call the routes below `/admin`. Without it they do not
    /// exist.
    pub admin_role: Option<String>,
    /// `audit.retentionSeconds`
    pub audit_retention_seconds: u64,
    /// `hooks`
    pub hooks: Option<Arc<dyn AuthHooks>>,
    /// `env`: clock and randomness, set by tests with the feature `test-util`. The default is the
    /// clock of the app and the randomness of the system.
    pub(crate) env: Option<Env>,
}

impl std::fmt::Debug for AuthSection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut out = f.debug_struct("AuthSection");
        out.field("mount", &self.mount)
            .field("roles", &self.roles)
            .field("primary_field", &self.primary_field);
        out.field("session", &self.session)
            .field("refresh", &self.refresh)
            .field("cookies", &self.cookies);
        out.field("hooks", &self.hooks.is_some())
            .finish_non_exhaustive()
    }
}

impl Default for AuthSection {
    fn default() -> Self {
        Self {
            mount: "/auth".to_owned(),
            public_url: None,
            roles: Vec::new(),
            default_role: None,
            primary_field: PrimaryField::default(),
            conceal_registration: false,
            password: PasswordSection::default(),
            session: SessionSection::default(),
            refresh: RefreshSection::default(),
            cookies: CookieSection::default(),
            email_verification: VerificationSection::default(),
            password_reset: ResetSection::default(),
            magic_link: MagicLinkSection::default(),
            passkeys: PasskeySection::default(),
            mfa: MfaSection::default(),
            account_deletion: DeletionSection::default(),
            pages: PagesSection::default(),
            mailer: None,
            templates: Templates::default(),
            app_name: "this service".to_owned(),
            tenants: None,
            oauth: OauthSection::default(),
            step_up: StepUpSection::default(),
            rate_limit: RateLimitSection::default(),
            admin_role: None,
            audit_retention_seconds: 31_536_000,
            hooks: None,
            env: None,
        }
    }
}

/// `password`
#[derive(Clone)]
#[non_exhaustive]
pub struct PasswordSection {
    /// Whether accounts have passwords.
    pub enabled: bool,
    /// Minimum length in characters: 8 to 64.
    pub min_length: u64,
    /// Maximum length in characters.
    pub max_length: u64,
    /// Number of former passwords that may not be used again, in addition to the current one; 0
    /// allows any password.
    pub history_count: u64,
    /// The cost of a password hash.
    pub argon2: Argon2Cost,
    /// Checks whether a password is known from a data breach.
    pub breach_checker: Option<Arc<dyn BreachChecker>>,
    /// Whether a password is accepted if the breach check fails.
    pub breach_on_error: BreachOnError,
    /// Verify imported hashes of other systems.
    pub legacy: Vec<Arc<dyn LegacyVerifier>>,
}

impl Default for PasswordSection {
    fn default() -> Self {
        Self {
            enabled: true,
            min_length: 8,
            max_length: 128,
            history_count: 0,
            argon2: Argon2Cost::default(),
            breach_checker: None,
            breach_on_error: BreachOnError::default(),
            legacy: Vec::new(),
        }
    }
}

/// The places of a session's tokens in requests and responses: `session.transport`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    /// In response bodies and in cookies.
    #[default]
    Both,
    /// In cookies only.
    Cookie,
    /// In response bodies only. No cookie is set or read.
    Bearer,
}

impl Transport {
    pub(crate) fn cookies(self) -> bool {
        self != Self::Bearer
    }

    pub(crate) fn bodies(self) -> bool {
        self != Self::Cookie
    }
}

/// `session`
#[derive(Clone)]
#[non_exhaustive]
pub struct SessionSection {
    /// The places of tokens in requests and responses.
    pub transport: Transport,
    /// Maximum lifetime of a session in seconds: 7 days, or 90 days with refresh tokens.
    pub absolute_seconds: Option<u64>,
    /// Seconds without a request after which a session ends; 0 means never.
    pub idle_seconds: u64,
    /// Maximum number of sessions of an account. A further sign-in ends the oldest one.
    pub max_per_user: u64,
    /// The sessions that end with a change of the password.
    pub on_password_change: OnPasswordChange,
    /// Informs other processes of changed sessions at once. Without it they read the change within
    /// `cache_seconds`.
    pub bus: Option<Arc<dyn InvalidationBus>>,
    /// Seconds for which a checked session is cached, 0 to 30. A change in the same process takes
    /// effect at once.
    pub cache_seconds: u64,
}

impl std::fmt::Debug for SessionSection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut out = f.debug_struct("SessionSection");
        out.field("transport", &self.transport)
            .field("absolute_seconds", &self.absolute_seconds);
        out.field("idle_seconds", &self.idle_seconds)
            .field("max_per_user", &self.max_per_user);
        out.field("on_password_change", &self.on_password_change)
            .field("cache_seconds", &self.cache_seconds);
        out.field("bus", &self.bus.is_some()).finish()
    }
}

impl Default for SessionSection {
    fn default() -> Self {
        Self {
            transport: Transport::default(),
            absolute_seconds: None,
            idle_seconds: 0,
            max_per_user: 20,
            on_password_change: OnPasswordChange::default(),
            bus: None,
            cache_seconds: 5,
        }
    }
}

/// `refreshTokens`
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RefreshSection {
    /// Whether refresh tokens are issued.
    pub enabled: bool,
    /// Lifetime of an access token in seconds, if refresh tokens are issued.
    pub access_seconds: u64,
    /// Lifetime of a refresh token in seconds, from its issue.
    pub refresh_seconds: u64,
    /// Seconds for which a used refresh token returns the same successor again.
    pub grace_seconds: u64,
}

impl Default for RefreshSection {
    fn default() -> Self {
        Self {
            enabled: false,
            access_seconds: 900,
            refresh_seconds: 2_592_000,
            grace_seconds: 10,
        }
    }
}

/// The attribute `SameSite` of cookies: `cookies.sameSite`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // the names are those of the standard
pub enum SameSite {
    #[default]
    Lax,
    Strict,
    None,
}

/// `cookies`
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CookieSection {
    /// The attribute `Secure`. Only development accepts `false`.
    pub secure: bool,
    /// The attribute `SameSite` of the access token's cookie.
    pub same_site: SameSite,
    /// The attribute `Domain`, which shares the cookies with subdomains.
    pub domain: Option<String>,
    /// The attribute `Path` of the access token's cookie.
    pub path: String,
}

impl Default for CookieSection {
    fn default() -> Self {
        Self {
            secure: true,
            same_site: SameSite::default(),
            domain: None,
            path: "/".to_owned(),
        }
    }
}

/// `stepUp`
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StepUpSection {
    /// Maximum age in seconds of a step-up for `require_step_up`.
    pub max_age_seconds: u64,
    /// Maximum age in seconds of a sign-in for routes that change the account.
    pub account_max_age_seconds: u64,
}

impl Default for StepUpSection {
    fn default() -> Self {
        Self {
            max_age_seconds: 300,
            account_max_age_seconds: 900,
        }
    }
}

/// `rateLimit`
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RateLimitSection {
    /// Whether limits apply. Only development accepts `false`.
    pub enabled: bool,
    /// Limits that replace the defaults, by bucket: `login`, `register` and so on.
    pub buckets: BTreeMap<String, Limit>,
}

impl Default for RateLimitSection {
    fn default() -> Self {
        Self {
            enabled: true,
            buckets: BTreeMap::new(),
        }
    }
}

impl AuthConfig {
    /// The maximum lifetime of a session in seconds.
    pub(crate) fn absolute_seconds(&self) -> u64 {
        self.auth
            .session
            .absolute_seconds
            .unwrap_or(if self.auth.refresh.enabled {
                7_776_000
            } else {
                604_800
            })
    }
}
