//! Settings: what they are by default, how they are written, and what is wrong with them.

mod check;
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
mod words;

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

/// All settings of the plugin; the table in its README says what each means. What is not set is as
/// secure as it can be without knowing the app.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct AuthConfig {
    /// `security`
    pub security: Security,
    /// `auth`
    pub auth: AuthSection,
    /// What was wrong with the form of what was read.
    pub(crate) problems: Vec<Problem>,
    /// Whether the environment was read: its variables are nobody's mistake then.
    pub(crate) of_environment: bool,
}

/// Keys, proxies, origins.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Security {
    /// `signing.secret`: newest first. Those of the app when there are none here.
    pub secrets: Vec<SecretText>,
    /// `signing.algorithm`
    pub algorithm: Algorithm,
    /// `signing.keys`: newest first, for `EdDSA` and `RS256`.
    pub keys: Vec<SigningKey>,
    /// `signing.issuer`
    pub issuer: Option<String>,
    /// `signing.audience`
    pub audience: Option<String>,
    /// `dataKeys`: for data at rest, newest first; derived from the secrets when there are none
    /// here.
    pub data_keys: Vec<DataKey>,
    /// `trustProxy`
    pub trust_proxy: TrustProxy,
    /// `allowedOrigins`: besides the server's own.
    pub allowed_origins: Vec<String>,
    /// `csrf.enabled`
    pub csrf: bool,
    /// `csrf.exemptPaths`: whole paths; with `/*` at the end, all below.
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

/// A program that calls with a fixed bearer token: the actor kind `service`.
#[derive(Clone, Debug)]
pub struct ApiCredential {
    /// What it is called; the actor's id.
    pub id: String,
    /// At least 32 characters, without dots.
    pub token: SecretText,
    /// The actor's roles.
    pub roles: Vec<String>,
}

/// Accounts and sessions.
#[derive(Clone)]
#[non_exhaustive]
pub struct AuthSection {
    /// `mount`
    pub mount: String,
    /// `publicUrl`: where browsers reach the app, as `https://app.example.com`.
    pub public_url: Option<String>,
    /// `roles`: all there are.
    pub roles: Vec<String>,
    /// `defaultRole`: of new accounts.
    pub default_role: Option<String>,
    /// `primaryField`
    pub primary_field: PrimaryField,
    /// `concealRegistration`: whether a sign-up is answered the same whether there is an account or
    /// not. It needs `emailVerification` and accounts known by email address.
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
    /// Who sends mail; in development the console unless it is set.
    pub mailer: Option<Arc<dyn Mailer>>,
    /// What mails say.
    pub templates: Templates,
    /// `appName`: what pages, mails, authenticator apps and passkeys call the app.
    pub app_name: String,
    /// `mfa`
    pub mfa: MfaSection,
    /// Says which tenant a user acts in; without it, none.
    pub tenants: Option<Arc<dyn TenantResolver>>,
    /// `oauth`
    pub oauth: OauthSection,
    /// `stepUp`
    pub step_up: StepUpSection,
    /// `rateLimit`
    pub rate_limit: RateLimitSection,
    /// `admin.role`: who may call the routes below `/admin`; without it there are none.
    pub admin_role: Option<String>,
    /// `audit.retentionSeconds`
    pub audit_retention_seconds: u64,
    /// `hooks`
    pub hooks: Option<Arc<dyn AuthHooks>>,
    /// `env`: the app's clock and the system's randomness unless it is set, which takes the feature
    /// `test-util`.
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
    /// Whether accounts have passwords at all.
    pub enabled: bool,
    /// Fewest characters: 8 to 64.
    pub min_length: u64,
    /// Most characters.
    pub max_length: u64,
    /// Earlier passwords that may not come back, the present one besides; 0: any may.
    pub history_count: u64,
    /// What hashing one costs.
    pub argon2: Argon2Cost,
    /// Knows passwords from breaches.
    pub breach_checker: Option<Arc<dyn BreachChecker>>,
    /// What happens when it cannot tell.
    pub breach_on_error: BreachOnError,
    /// Check hashes that were imported.
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

/// How a client carries its session: `session.transport`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    /// In bodies and cookies.
    #[default]
    Both,
    /// In cookies alone.
    Cookie,
    /// In bodies alone; no cookie is set or read.
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
    /// How clients carry it.
    pub transport: Transport,
    /// Its hard end, from the login: 7 days, with refresh tokens 90.
    pub absolute_seconds: Option<u64>,
    /// Its end when nothing happens; 0: none.
    pub idle_seconds: u64,
    /// Beyond it the oldest ends.
    pub max_per_user: u64,
    /// Which ones end when the password is changed.
    pub on_password_change: OnPasswordChange,
    /// Tells other processes of changes, so that they count there at once; without one, within
    /// `cache_seconds`.
    pub bus: Option<Arc<dyn InvalidationBus>>,
    /// For how long what is known of one is taken for true without a look, 0 to 30. Changes within
    /// the process count at once.
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
    /// Whether there are any.
    pub enabled: bool,
    /// How long access tokens live then.
    pub access_seconds: u64,
    /// How long one lives, from its rotation.
    pub refresh_seconds: u64,
    /// How long the one before is answered with the same successor.
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

/// `SameSite` of cookies: `cookies.sameSite`.
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
    /// Without it only in development.
    pub secure: bool,
    /// Of the access token.
    pub same_site: SameSite,
    /// Shared with subdomains of it.
    pub domain: Option<String>,
    /// Of the access token.
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
    /// How fresh a proof `require_step_up` asks for.
    pub max_age_seconds: u64,
    /// How fresh a login the account routes ask for.
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
    /// Without it only in development.
    pub enabled: bool,
    /// Limits in place of those of the table, by the names of their buckets: `login`, `register`
    /// and so on.
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
    /// The hard end of a session, in seconds from its login.
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
