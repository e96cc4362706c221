//! Authentication for Linchpin: accounts, sessions, factors and guards, and an actor on every
//! request.
//!
//! Each rule has one place: what a password must be in `password`, what two spellings of one
//! address have in common in `identity`, how a login ends in a session in `flow`, what a session is
//! worth in `session`, who may call what in `guards`.
//!
//! # Features
//!
//! All of these are on by default. An app that needs none of them compiles faster with
//! `default-features = false`.
//!
//! - `providers`: sign-in by OAuth 2 and OpenID Connect. Without it, settings below `auth.oauth`
//!   that name a provider keep the app from starting.
//! - `smtp`: `SmtpMailer`.
//! - `breach-check`: `RangeChecker`, which asks Have I Been Pwned about new passwords.
// What is used with a feature alone stays in place without it. With all features, nothing may be
// unused.
#![cfg_attr(
    not(all(feature = "breach-check", feature = "providers", feature = "smtp")),
    allow(dead_code)
)]

mod commands;
mod config;
mod core;
mod device;
mod entities;
mod env;
mod error;
mod flow;
mod guards;
mod hooks;
mod identity;
mod keys;
mod limit;
mod mail;
mod mfa;
mod oauth;
mod onetime;
mod otp;
mod outbox;
mod password;
mod plugin;
mod recovery;
mod resolver;
mod return_target;
mod routes;
mod secret;
mod service;
mod session;
mod sms;
mod tenant;
#[cfg(test)]
mod testing;
mod totp;
mod webauthn;

pub use config::{
    ApiCredential, AuthConfig, AuthSection, CookieSection, DataKey, DeletionSection,
    EmailOtpSection, Linking, MagicLinkSection, MfaSection, OauthSection, OnPasswordChange,
    PagesSection, PasskeySection, PasswordSection, ProviderSection, RateLimitSection,
    RefreshSection, ResetSection, ResponseMode, SameSite, Security, SessionSection, SmsSection,
    StepUpSection, TotpSection, Transport, UserVerification, VerificationSection,
};
pub use env::{Clock, Env, SecureRng};
#[cfg(feature = "test-util")]
pub use env::{FakeClock, SeededRng};
pub use flow::Rekeyed;
pub use hooks::{
    AccountDeletion, AuthHooks, HookCx, HookError, HookResult, PasswordChange, SignIn, SignUp,
};
pub use identity::{PrimaryField, TrustProxy};
pub use keys::signing::{Algorithm, SigningKey};
pub use limit::table::Limit;
#[cfg(feature = "smtp")]
pub use mail::SmtpMailer;
pub use mail::{ConsoleMailer, FileMailer, Mail, MailKind, Mailer, Template, Templates};
#[cfg(feature = "breach-check")]
pub use password::RangeChecker;
pub use password::{Argon2Cost, BreachChecker, BreachOnError, LegacyVerifier};
pub use plugin::Auth;
pub use secret::SecretText;
pub use service::{
    Account, AccountQuery, AuditEntry, AuditQuery, AuthService, NewUser, SessionInfo,
};
pub use session::bus::InvalidationBus;
#[cfg(feature = "postgres")]
pub use session::bus::PostgresBus;
pub use sms::{E164, SmsProvider};
pub use tenant::{TenantCx, TenantResolver};
pub use totp::TotpAlgorithm;

/// The example of the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
