//! Authentication for Linchpin: accounts, sessions, second factors, guards, and an actor on every
//! request.
//!
//! Each rule is in one module. `password` checks passwords, `identity` normalises addresses and
//! names, `flow` turns a proof into a session, `session` checks sessions, and `guards` decides
//! which callers may call a route. The README of the crate lists all rules with their files.
//!
//! # Features
//!
//! All of these are on by default. An app that needs none of them compiles faster with
//! `default-features = false`.
//!
//! - `providers`: sign-in by OAuth 2 and OpenID Connect. Without it, a provider in `auth.oauth` is
//!   a start-up error.
//! - `smtp`: `SmtpMailer`.
//! - `breach-check`: `RangeChecker`, which looks up new passwords in Have I Been Pwned.
// Code that only one feature uses is compiled without the feature too. With all features, unused
// code is an error.
#![cfg_attr(
    not(all(feature = "breach-check", feature = "providers", feature = "smtp")),
    allow(dead_code)
)]

mod commands;
mod config;
mod core;
mod credentials;
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

/// Compiles the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
