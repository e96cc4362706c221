//! The stored entities, in the namespace `auth` and without routes. The plugin uses only operations
//! that the memory, SQLite and PostgreSQL stores all support: creates, updates, deletes, lookups,
//! lists, increments and consumes.

use linchpin::prelude::*;
use serde_json::Value as Json;

use crate::device::entity::{Device, OF_HOLDER};
use crate::keys::uses::DataKeyUse;
use crate::limit::counter::{Counter, END_EMPTY, GIVE_BACK, TAKE};
use crate::mfa::ProofMethod;
use crate::mfa::entity::{CODES_OF, FACTOR_OF_USER, FACTORS_OF, Factor, RecoveryCode, UNUSED, USE};
use crate::oauth::entity::{LINKS_OF, OF_IDENTITY, ProviderLink};
use crate::onetime::entity::{GIVEN, OneTime, REDEEM, SEND, TRY};
use crate::outbox::entity::Outbox;

/// An account.
#[entity(
    namespace = "auth",
    unique(identifier),
    unique(email_normalised),
    index(deletion_due_at),
    index(created_at),
    sort = desc(created_at),
    version(required_on_write = false),
    routes(disabled)
)]
#[derive(Clone)]
pub(crate) struct User {
    #[field(primary, default = uuid)]
    pub(crate) id: String,
    /// The identifier in normalised form.
    pub(crate) identifier: String,
    /// The identifier as typed.
    pub(crate) identifier_display: String,
    pub(crate) email: Option<String>,
    pub(crate) email_normalised: Option<String>,
    pub(crate) email_verified_at: Option<Timestamp>,
    /// When the account first verified an address, even if the address changed since.
    pub(crate) proved_at: Option<Timestamp>,
    /// The password hash: Argon2id as a PHC string.
    #[field(private)]
    pub(crate) password_hash: Option<String>,
    /// Incremented by every change of the password, which invalidates earlier challenges.
    #[field(default = 0)]
    pub(crate) password_version: i64,
    /// Incremented when all sessions end, so that a sign-in that began before cannot open a
    /// session.
    #[field(default = 0)]
    pub(crate) session_epoch: i64,
    pub(crate) roles: Vec<String>,
    pub(crate) suspended_at: Option<Timestamp>,
    pub(crate) suspended_reason: Option<String>,
    pub(crate) deletion_due_at: Option<Timestamp>,
    pub(crate) display_name: Option<String>,
    pub(crate) first_name: Option<String>,
    pub(crate) last_name: Option<String>,
    pub(crate) user_metadata: Json,
    #[field(private)]
    pub(crate) app_metadata: Option<Json>,
    /// The random user handle of the account in passkeys.
    #[field(immutable)]
    pub(crate) user_handle: String,
    /// Incremented by every change of a second factor.
    #[field(default = 0)]
    pub(crate) mfa_version: i64,
    /// Names of the second factors that are set up.
    pub(crate) mfa_methods: Vec<String>,
    pub(crate) created_at: Timestamp,
}

/// A session, which is also one family of refresh tokens. Its tokens work as long as the record
/// exists.
#[entity(
    namespace = "auth",
    unique(sid_hash),
    index(user_id, created_at),
    sort = desc(created_at),
    ttl(expires_at),
    version(required_on_write = false),
    routes(disabled)
)]
#[derive(Clone)]
pub(crate) struct Session {
    /// The handle: the name of the session for clients. It cannot be used to authenticate.
    #[field(primary)]
    pub(crate) handle: String,
    /// Incremented by each change of the `sid`, which is derived from it.
    #[field(default = 0)]
    pub(crate) sid_version: i64,
    /// SHA-256 of the `sid` claim.
    #[field(private)]
    pub(crate) sid_hash: String,
    #[field(immutable)]
    pub(crate) user_id: String,
    /// The `session_epoch` of the user at the sign-in.
    #[field(default = 0)]
    pub(crate) epoch: i64,
    /// The seed of the family's refresh tokens.
    #[field(private)]
    pub(crate) family_seed: String,
    #[field(default = 0)]
    pub(crate) generation: i64,
    pub(crate) rotated_at: Timestamp,
    pub(crate) created_at: Timestamp,
    pub(crate) auth_at: Timestamp,
    pub(crate) step_up_at: Option<Timestamp>,
    /// The method of the last step-up.
    pub(crate) step_up_by: Option<ProofMethod>,
    /// The `mfa_version` that the user had when this session proved a factor. If another session
    /// removes a factor or sets up the first one, this session must prove a factor again.
    pub(crate) proved_factors: Option<i64>,
    pub(crate) last_active_at: Timestamp,
    /// Maximum lifetime of the session.
    pub(crate) expires_at: Option<Timestamp>,
    pub(crate) ip: Option<String>,
    pub(crate) user_agent: Option<String>,
    /// Authentication methods of the session (RFC 8176).
    pub(crate) amr: Vec<String>,
    /// Authentication level. 1: one factor. 2: two factors, or a passkey that verified its user.
    pub(crate) aal: i64,
    #[field(private)]
    pub(crate) custom_claims: Option<Json>,
}

impl User {
    /// A patch that marks the address as verified at an instant.
    pub(crate) fn proved(&self, now: Timestamp) -> UserPatch {
        // Older records only have the date of the last verification.
        let first = self
            .proved_at
            .is_none()
            .then(|| Some(self.email_verified_at.unwrap_or(now)));
        UserPatch {
            email_verified_at: Some(Some(now)),
            proved_at: first,
            ..UserPatch::default()
        }
    }

    /// A patch that marks the address as not verified.
    pub(crate) fn unproved() -> UserPatch {
        UserPatch {
            email_verified_at: Some(None),
            ..UserPatch::default()
        }
    }

    /// Whether the deletion of the account is due, even if the record still exists.
    pub(crate) fn is_gone(&self, now: Timestamp) -> bool {
        self.deletion_due_at.is_some_and(|due| now >= due)
    }
}

impl Session {
    /// Whether the session belongs to the user and has the user's current `session_epoch`. The
    /// epoch changes when all sessions of the user end.
    pub(crate) fn is_of(&self, user: &User) -> bool {
        self.user_id == user.id && self.epoch == user.session_epoch
    }

    /// Whether the session was opened by a passkey that did not verify its user, and nothing was
    /// proved since.
    pub(crate) fn proved_only_by_passkey(&self) -> bool {
        self.amr.iter().any(|how| how == "pop")
            && self.amr.iter().all(|how| how == "pop" || how == "user")
    }

    /// Whether the maximum lifetime is over.
    pub(crate) fn is_over(&self, now: Timestamp) -> bool {
        self.expires_at.is_none_or(|end| now >= end)
    }

    /// Whether a token of the session may still work. The lifetime is not over, the last request is
    /// at most `idle` ago, and the last refresh token was issued at most `refresh` ago. `idle` and
    /// `refresh` are in milliseconds; 0 means no limit.
    pub(crate) fn is_usable(&self, now: Timestamp, idle: i64, refresh: i64) -> bool {
        let within =
            |since: Timestamp, most: i64| most == 0 || now.millis() - since.millis() <= most;
        !self.is_over(now) && within(self.last_active_at, idle) && within(self.rotated_at, refresh)
    }

    /// Whether the session is valid: not over, not ended, and its user may sign in.
    pub(crate) fn is_live(&self, user: &User, now: Timestamp) -> bool {
        !self.is_over(now) && self.is_of(user) && user.suspended_at.is_none() && !user.is_gone(now)
    }
}

/// An entry of the audit log. Entries are only added, and expire. In the entries of a deleted
/// account, a pseudonym replaces the id.
#[entity(namespace = "auth", index(user_id, desc(at)), index(by_id), index(desc(at)), sort = desc(at), ttl(expires_at), routes(disabled))]
#[derive(Clone)]
pub(crate) struct Audit {
    #[field(primary, default = uuid)]
    pub(crate) id: String,
    /// The event, such as `auth:login`.
    pub(crate) event: String,
    pub(crate) at: Timestamp,
    pub(crate) user_id: Option<String>,
    /// The account that acted, if it is not `user_id`. The details contain the same id as `by`;
    /// this field makes it possible to query the entries when that account is deleted.
    pub(crate) by_id: Option<String>,
    /// The handle of the session.
    pub(crate) session_id: Option<String>,
    pub(crate) tenant_id: Option<String>,
    pub(crate) ip: Option<String>,
    pub(crate) user_agent: Option<String>,
    pub(crate) request_id: Option<String>,
    /// `ok` or the error code.
    pub(crate) outcome: String,
    pub(crate) details: Option<Json>,
    pub(crate) expires_at: Option<Timestamp>,
}

/// A passkey.
#[entity(
    namespace = "auth",
    index(user_id, created_at),
    sort = desc(created_at),
    version(required_on_write = false),
    routes(disabled)
)]
#[derive(Clone)]
pub(crate) struct Credential {
    /// The id that the authenticator created, in base64url.
    #[field(primary)]
    pub(crate) id: String,
    #[field(immutable)]
    pub(crate) user_id: String,
    /// The public key: a COSE key in base64url.
    #[field(immutable)]
    pub(crate) public_key: String,
    /// The authenticator's signature counter; 0 if it has none.
    #[field(default = 0)]
    pub(crate) sign_count: i64,
    /// Whether the authenticator verified its user at the registration.
    #[field(immutable)]
    pub(crate) user_verified: bool,
    /// Whether the passkey can be copied to other devices.
    #[field(immutable)]
    pub(crate) backup_eligible: bool,
    /// Whether the passkey has been copied to other devices.
    pub(crate) backed_up: bool,
    #[field(immutable)]
    pub(crate) transports: Vec<String>,
    pub(crate) name: String,
    pub(crate) created_at: Timestamp,
    pub(crate) last_used_at: Option<Timestamp>,
    /// When the signature counter first showed that a copy exists.
    pub(crate) suspect_since: Option<Timestamp>,
}

/// Returns the passkeys of a user.
#[operation(kind = "lookup", fields(user_id = param(user_id)), returns = "many", route(disabled))]
pub(crate) const PASSKEYS_OF: Operation<Credential>;

/// A former password.
#[entity(namespace = "auth", unique(user_id, number), routes(disabled))]
#[derive(Clone)]
pub(crate) struct PasswordHistory {
    #[field(primary, default = uuid)]
    pub(crate) id: String,
    #[field(immutable)]
    pub(crate) user_id: String,
    #[field(private)]
    pub(crate) password_hash: String,
    /// The `password_version` of the account with this password. Newer passwords have larger
    /// numbers.
    pub(crate) number: i64,
}

/// Returns the former passwords of a user.
#[operation(kind = "lookup", fields(user_id = param(user_id)), returns = "many", route(disabled))]
pub(crate) const OF_OWNER: Operation<PasswordHistory>;

/// Returns the account with an identifier.
#[operation(kind = "lookup", fields(identifier = param(identifier)), returns = "one", route(disabled))]
pub(crate) const BY_IDENTIFIER: Operation<User>;

/// Ends all sessions of the user, and those that are about to be opened.
#[operation(kind = "increment", field = session_epoch, route(disabled))]
pub(crate) const NEW_EPOCH: Operation<User>;

/// Returns the account with an email address.
#[operation(kind = "lookup", fields(email_normalised = param(email)), returns = "one", route(disabled))]
pub(crate) const BY_EMAIL: Operation<User>;

/// Returns the session of a token.
#[operation(kind = "lookup", fields(sid_hash = param(sid_hash)), returns = "one", route(disabled))]
pub(crate) const BY_SID: Operation<Session>;

/// Returns the sessions of a user, newest first.
#[operation(kind = "lookup", fields(user_id = param(user_id)), returns = "many", route(disabled))]
pub(crate) const OF_USER: Operation<Session>;

/// All entities of the plugin.
pub(crate) static ENTITIES: Package = package!(
    name = "linchpin-auth",
    entities = [
        entity(User, [BY_IDENTIFIER, BY_EMAIL, NEW_EPOCH]),
        entity(Session, [BY_SID, OF_USER]),
        entity(Audit),
        entity(PasswordHistory, [OF_OWNER]),
        entity(Credential, [PASSKEYS_OF]),
        entity(Counter, [TAKE, GIVE_BACK, END_EMPTY]),
        entity(Outbox),
        entity(DataKeyUse),
        entity(Device, [OF_HOLDER]),
        entity(ProviderLink, [OF_IDENTITY, LINKS_OF]),
        entity(OneTime, [REDEEM, TRY, SEND, GIVEN]),
        entity(Factor, [FACTOR_OF_USER, FACTORS_OF]),
        entity(RecoveryCode, [CODES_OF, UNUSED, USE])
    ]
);
