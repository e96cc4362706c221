//! What is stored, as ordinary entities of the namespace `auth` without routes. They are written by
//! create, update under version, lookups and deletes by id alone, so they live on every store.

use linchpin::prelude::*;
use serde_json::Value as Json;

use crate::device::entity::{Device, OF_HOLDER};
use crate::keys::uses::DataKeyUse;
use crate::limit::counter::{Counter, END_EMPTY, GIVE_BACK, TAKE};
use crate::mfa::Way;
use crate::mfa::entity::{CODES_OF, FACTORS_OF, Factor, OF_WAY, RecoveryCode, UNUSED, USE};
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
#[allow(clippy::struct_field_names)] // named as on the wire
pub(crate) struct User {
    #[field(primary, default = uuid)]
    pub(crate) id: String,
    /// In the one form that is compared.
    pub(crate) identifier: String,
    /// As typed.
    pub(crate) identifier_display: String,
    pub(crate) email: Option<String>,
    pub(crate) email_normalised: Option<String>,
    pub(crate) email_verified_at: Option<Timestamp>,
    /// When its owner first proved an address of it, whatever has become of that since.
    pub(crate) proved_at: Option<Timestamp>,
    /// Argon2id as a PHC string.
    #[field(private)]
    pub(crate) password_hash: Option<String>,
    /// Raised by every change of the password: challenges of before die with it.
    #[field(default = 0)]
    pub(crate) password_version: i64,
    /// Raised whenever all sessions end: what is opened by somebody who had proved themselves
    /// before is worth nothing.
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
    /// What authenticators know the account by: random, and nothing else.
    #[field(immutable)]
    pub(crate) user_handle: String,
    /// Raised by every change of a factor.
    #[field(default = 0)]
    pub(crate) mfa_version: i64,
    /// The second factors that are set up, by name.
    pub(crate) mfa_methods: Vec<String>,
    pub(crate) created_at: Timestamp,
}

/// A session: what a token is good for as long as it is there. It is one family of refresh tokens.
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
    /// What clients call it: knowing it authenticates nothing.
    #[field(primary)]
    pub(crate) handle: String,
    /// Raised by each change of the `sid`, which is made from it.
    #[field(default = 0)]
    pub(crate) sid_version: i64,
    /// SHA-256 of the `sid` claim.
    #[field(private)]
    pub(crate) sid_hash: String,
    #[field(immutable)]
    pub(crate) user_id: String,
    /// That of its user when they proved who they are.
    #[field(default = 0)]
    pub(crate) epoch: i64,
    /// What the refresh tokens of the family are made with.
    #[field(private)]
    pub(crate) family_seed: String,
    #[field(default = 0)]
    pub(crate) generation: i64,
    pub(crate) rotated_at: Timestamp,
    pub(crate) created_at: Timestamp,
    pub(crate) auth_at: Timestamp,
    pub(crate) step_up_at: Option<Timestamp>,
    /// What that was done with.
    pub(crate) step_up_by: Option<Way>,
    /// The version of its user's factors (`mfa_version`) for which it has proved one of them. When
    /// another session takes one away, or sets up the first, it proves one again.
    pub(crate) proved_factors: Option<i64>,
    pub(crate) last_active_at: Timestamp,
    /// Its hard end.
    pub(crate) expires_at: Option<Timestamp>,
    pub(crate) ip: Option<String>,
    pub(crate) user_agent: Option<String>,
    /// How its user proved who they are (RFC 8176).
    pub(crate) amr: Vec<String>,
    /// 1: one factor; 2: two, or a passkey that verified its user.
    pub(crate) aal: i64,
    #[field(private)]
    pub(crate) custom_claims: Option<Json>,
}

impl User {
    /// Its address is proved at an instant.
    pub(crate) fn proved(&self, now: Timestamp) -> UserPatch {
        // Accounts of before that was noted have only the date of the last proof.
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

    /// Nobody has proved the address that it has.
    pub(crate) fn unproved() -> UserPatch {
        UserPatch {
            email_verified_at: Some(None),
            ..UserPatch::default()
        }
    }

    /// Whether it is as good as gone: its deletion is due, whether or not it has been removed.
    pub(crate) fn is_gone(&self, now: Timestamp) -> bool {
        self.deletion_due_at.is_some_and(|due| now >= due)
    }
}

impl Session {
    /// Whether it is this user's, opened since all of theirs were last ended.
    pub(crate) fn is_of(&self, user: &User) -> bool {
        self.user_id == user.id && self.epoch == user.session_epoch
    }

    /// Whether it began with holding a passkey, and nothing has been proved besides.
    pub(crate) fn holds_passkey_alone(&self) -> bool {
        self.amr.iter().any(|how| how == "pop")
            && self.amr.iter().all(|how| how == "pop" || how == "user")
    }

    /// Whether its hard end has come.
    pub(crate) fn is_over(&self, now: Timestamp) -> bool {
        self.expires_at.is_none_or(|end| now >= end)
    }

    /// Whether a token of it may still work: it is neither over, nor idle for longer than `idle`,
    /// nor was its last refresh token given longer than `refresh` ago. Both in milliseconds, 0 for
    /// no bound.
    pub(crate) fn is_usable(&self, now: Timestamp, idle: i64, refresh: i64) -> bool {
        let within =
            |since: Timestamp, most: i64| most == 0 || now.millis() - since.millis() <= most;
        !self.is_over(now) && within(self.last_active_at, idle) && within(self.rotated_at, refresh)
    }

    /// Whether it is worth anything: neither over nor ended, and its user may sign in.
    pub(crate) fn is_live(&self, user: &User, now: Timestamp) -> bool {
        !self.is_over(now) && self.is_of(user) && user.suspended_at.is_none() && !user.is_gone(now)
    }
}

/// What has happened. Rows are only ever added, and go by themselves; of a deleted account they
/// keep a name that leads to nobody.
#[entity(namespace = "auth", index(user_id, desc(at)), index(by_id), index(desc(at)), sort = desc(at), ttl(expires_at), routes(disabled))]
#[derive(Clone)]
pub(crate) struct Audit {
    #[field(primary, default = uuid)]
    pub(crate) id: String,
    /// `auth:login` and so on.
    pub(crate) event: String,
    pub(crate) at: Timestamp,
    pub(crate) user_id: Option<String>,
    /// Who did it, where that is somebody else: the `by` of the details, by which the row is found
    /// when they leave.
    pub(crate) by_id: Option<String>,
    /// The handle.
    pub(crate) session_id: Option<String>,
    pub(crate) tenant_id: Option<String>,
    pub(crate) ip: Option<String>,
    pub(crate) user_agent: Option<String>,
    pub(crate) request_id: Option<String>,
    /// `ok` or why not.
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
    /// Given by the authenticator; base64url.
    #[field(primary)]
    pub(crate) id: String,
    #[field(immutable)]
    pub(crate) user_id: String,
    /// A COSE key; base64url.
    #[field(immutable)]
    pub(crate) public_key: String,
    /// The authenticator's count of uses; 0 where it has none.
    #[field(default = 0)]
    pub(crate) sign_count: i64,
    /// Whether it verified its user when it was made.
    #[field(immutable)]
    pub(crate) user_verified: bool,
    /// Whether it can be copied to other devices.
    #[field(immutable)]
    pub(crate) backup_eligible: bool,
    /// Whether it has been.
    pub(crate) backed_up: bool,
    #[field(immutable)]
    pub(crate) transports: Vec<String>,
    pub(crate) name: String,
    pub(crate) created_at: Timestamp,
    pub(crate) last_used_at: Option<Timestamp>,
    /// Since when its count says that there is a copy of it.
    pub(crate) suspect_since: Option<Timestamp>,
}

/// The passkeys of a user.
#[operation(kind = "lookup", fields(user_id = param(user_id)), returns = "many", route(disabled))]
pub(crate) const PASSKEYS_OF: Operation<Credential>;

/// A password that was used before.
#[entity(namespace = "auth", unique(user_id, number), routes(disabled))]
#[derive(Clone)]
pub(crate) struct PasswordHistory {
    #[field(primary, default = uuid)]
    pub(crate) id: String,
    #[field(immutable)]
    pub(crate) user_id: String,
    #[field(private)]
    pub(crate) password_hash: String,
    /// The version of the password: which one came before which.
    pub(crate) number: i64,
}

/// The former passwords of a user.
#[operation(kind = "lookup", fields(user_id = param(user_id)), returns = "many", route(disabled))]
pub(crate) const OF_OWNER: Operation<PasswordHistory>;

/// The account of an identifier.
#[operation(kind = "lookup", fields(identifier = param(identifier)), returns = "one", route(disabled))]
pub(crate) const BY_IDENTIFIER: Operation<User>;

/// Ends every session there is, and those that are being opened.
#[operation(kind = "increment", field = session_epoch, route(disabled))]
pub(crate) const NEW_EPOCH: Operation<User>;

/// The account of an email address.
#[operation(kind = "lookup", fields(email_normalised = param(email)), returns = "one", route(disabled))]
pub(crate) const BY_EMAIL: Operation<User>;

/// The session of a token.
#[operation(kind = "lookup", fields(sid_hash = param(sid_hash)), returns = "one", route(disabled))]
pub(crate) const BY_SID: Operation<Session>;

/// The sessions of a user, newest first.
#[operation(kind = "lookup", fields(user_id = param(user_id)), returns = "many", route(disabled))]
pub(crate) const OF_USER: Operation<Session>;

/// All of them.
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
        entity(Factor, [OF_WAY, FACTORS_OF]),
        entity(RecoveryCode, [CODES_OF, UNUSED, USE])
    ]
);
