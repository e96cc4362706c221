//! The session check: whether a token is valid. Recent results are cached.
//!
//! A change of a user drops the user's cached sessions in this process before the response. Each
//! user has a counter in a fixed set, and a change increments it. A cache entry contains the
//! counter from before its read, so a read during which the record changed is not used.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use linchpin::http::CredentialFeed;
use linchpin::{Actor, ActorKind, Attached, Cx, Result, Timestamp};
use parking_lot::Mutex;
use quick_cache::sync::Cache;
use serde_json::Value;
use tokio::sync::mpsc;

use super::{CheckedSession, sid};
use crate::config::AuthConfig;
use crate::entities::{Session, SessionAdapter, SessionPatch, User, UserAdapter};
use crate::env::Env;
use crate::keys::signing::{Signing, Verified};
use crate::mfa::{Factors, must_enrol};
use crate::tenant::{TenantAndRoles, Tenants};

/// Number of cached tokens.
const CACHED_TOKENS: usize = 100_000;
/// Number of counters. Users may share one, which only costs extra reads.
const COUNTERS: usize = 4096;
/// Number of locks. Concurrent requests with the same token wait for one read of it.
const LOCKS: usize = 1024;
/// Interval of writes of the last activity, in milliseconds.
const ACTIVITY_INTERVAL: i64 = 60_000;

/// The cached result of a token.
pub(crate) struct CachedToken {
    pub(crate) actor: Arc<Actor>,
    token: Verified,
    /// The index of the counter of the user.
    counter_index: usize,
    /// The value of this counter at the read.
    counter: u64,
    read_at: Timestamp,
    expires_at: Timestamp,
    handle: String,
    last_active: AtomicI64,
}

impl CachedToken {
    /// The instant at which the token or its session expires.
    pub(crate) fn expires_at(&self) -> Timestamp {
        self.token.expires_at().min(self.expires_at)
    }
}

/// The result of a repeated check.
pub(crate) enum Recheck {
    /// Nothing has changed.
    Same,
    /// The session is still valid. This is its new result.
    Now(Arc<CachedToken>),
    /// The session has ended.
    Ended,
}

/// Checks tokens and sessions.
pub(crate) struct Checks {
    users: UserAdapter,
    sessions: SessionAdapter,
    signing: Arc<Signing>,
    env: Env,
    cache_millis: i64,
    idle: i64,
    /// Whether every account needs a second factor.
    mfa_required: bool,
    /// The second factors that the settings use.
    factors: Factors,
    activity_millis: i64,
    remembered: Cache<Box<str>, Arc<CachedToken>>,
    counters: Box<[AtomicU64]>,
    locks: Box<[tokio::sync::Mutex<()>]>,
    keys: RandomState,
    /// Activity that is being written.
    pending_activity: Mutex<HashMap<String, i64>>,
    tenants: Tenants,
    /// The channel to the bus, if there is one.
    invalidations: Option<mpsc::Sender<String>>,
    /// Informs connections that live longer than a request.
    pub(crate) changes: CredentialFeed,
}

impl Checks {
    pub(crate) fn new(
        config: &AuthConfig,
        (users, sessions): (UserAdapter, SessionAdapter),
        signing: Arc<Signing>,
        env: Env,
        tenants: Tenants,
        invalidations: Option<mpsc::Sender<String>>,
    ) -> Arc<Self> {
        let session = &config.auth.session;
        let seconds = |n: u64| i64::try_from(n).unwrap_or(i64::MAX / 1000) * 1000;
        let idle = seconds(session.idle_seconds);
        Arc::new(Self {
            users,
            sessions,
            signing,
            env,
            cache_millis: seconds(session.cache_seconds),
            idle,
            mfa_required: config.auth.mfa.required,
            factors: Factors::of(config),
            // The activity must be written often enough for the idle timeout.
            activity_millis: if idle > 0 {
                ACTIVITY_INTERVAL.min(idle / 4)
            } else {
                ACTIVITY_INTERVAL
            },
            remembered: Cache::new(CACHED_TOKENS),
            counters: (0..COUNTERS).map(|_| AtomicU64::new(0)).collect(),
            locks: (0..LOCKS).map(|_| tokio::sync::Mutex::new(())).collect(),
            keys: RandomState::new(),
            pending_activity: Mutex::default(),
            tenants,
            invalidations,
            changes: CredentialFeed::new(),
        })
    }

    fn counter_index(&self, user: &str) -> usize {
        self.keys.hash_one(user) as usize % COUNTERS
    }

    /// Drops the cached sessions of a user. Call it after a change is stored and before the
    /// response.
    pub(crate) fn forget(&self, user: &str) {
        self.forget_locally(user);
        if let Some(invalidations) = &self.invalidations {
            // If the queue is full, other processes read the change when their cache expires.
            let _ = invalidations.try_send(user.to_owned());
        }
    }

    /// Drops the cached sessions of a user after a change in another process.
    pub(crate) fn forget_locally(&self, user: &str) {
        self.counters[self.counter_index(user)].fetch_add(1, Ordering::SeqCst);
        // After the counter: a subscriber that checks its session immediately then reads the
        // change.
        self.changes.user_changed(user);
    }

    /// The actor of a cached token.
    pub(crate) fn cached_actor(self: &Arc<Self>, token: &str) -> Option<Arc<Actor>> {
        Some(Arc::clone(&self.cached(token)?.actor))
    }

    /// The cached result of a token.
    pub(crate) fn cached(self: &Arc<Self>, token: &str) -> Option<Arc<CachedToken>> {
        let found = self.remembered.get(token)?;
        let now = self.env.clock.now();
        if !found.token.is_current(now) || !self.is_fresh(&found, now) {
            return None;
        }
        self.record_activity(&found, now);
        Some(found)
    }

    /// Whether a cached result is still current. The token may have expired.
    fn is_fresh(&self, found: &CachedToken, now: Timestamp) -> bool {
        let age = now.millis() - found.read_at.millis();
        (0..self.cache_millis).contains(&age)
            && self.counters[found.counter_index].load(Ordering::SeqCst) == found.counter
            && now < found.expires_at
            && !self.is_idle(found.last_active.load(Ordering::Relaxed), now)
    }

    fn is_idle(&self, last_active: i64, now: Timestamp) -> bool {
        self.idle > 0 && now.millis() - last_active > self.idle
    }

    /// Reads the actor of a token from the store; `None` if the token is invalid.
    ///
    /// # Errors
    /// `unavailable` if the store cannot be read.
    pub(crate) async fn find_actor(self: &Arc<Self>, token: &str) -> Result<Option<Arc<Actor>>> {
        let found = self.find(token).await?;
        Ok(found.map(|found| Arc::clone(&found.actor)))
    }

    /// Reads the result of a token from the store; `None` if the token is invalid.
    ///
    /// # Errors
    /// `unavailable` if the store cannot be read.
    pub(crate) async fn find(self: &Arc<Self>, token: &str) -> Result<Option<Arc<CachedToken>>> {
        let Some(verified) = self.signing.verify(token, self.env.clock.now()) else {
            return Ok(None);
        };
        if self.cache_millis == 0 {
            return self.read(verified, true).await;
        }
        // Concurrent requests with one token share one read.
        let _one = self.locks[self.keys.hash_one(token) as usize % LOCKS]
            .lock()
            .await;
        if let Some(found) = self.cached(token) {
            return Ok(Some(found));
        }
        let Some(found) = self.read(verified, true).await? else {
            self.remembered.remove(token);
            return Ok(None);
        };
        self.remembered.insert(token.into(), Arc::clone(&found));
        Ok(Some(found))
    }

    /// Checks the session of an earlier result again. The token may have expired meanwhile.
    /// `is_activity` says that the check counts as activity.
    ///
    /// # Errors
    /// `unavailable` if the store cannot be read.
    pub(crate) async fn again(
        self: &Arc<Self>,
        earlier: &CachedToken,
        is_activity: bool,
    ) -> Result<Recheck> {
        let now = self.env.clock.now();
        if self.is_fresh(earlier, now) {
            if is_activity {
                self.record_activity(earlier, now);
            }
            return Ok(Recheck::Same);
        }
        let found = self.read(earlier.token.clone(), is_activity).await?;
        Ok(found.map_or(Recheck::Ended, Recheck::Now))
    }

    /// Reads the session of a token. `is_activity` says that this counts as activity.
    async fn read(
        self: &Arc<Self>,
        token: Verified,
        is_activity: bool,
    ) -> Result<Option<Arc<CachedToken>>> {
        let counter_index = self.counter_index(&token.sub);
        let counter = self.counters[counter_index].load(Ordering::SeqCst);
        let now = self.env.clock.now();
        let cx = Cx::system("session check").at(now);
        let Some((mut session, mut owner)) = self.valid_session(&cx, &token).await? else {
            return Ok(None);
        };
        let mut last_active = self.last_active(&session);
        if self.is_idle(last_active, now) {
            // A pending write may have completed after the session was read, so the session is read
            // again.
            let Some(again) = self.valid_session(&cx, &token).await? else {
                return Ok(None);
            };
            (session, owner) = again;
            last_active = self.last_active(&session);
            if self.is_idle(last_active, now) {
                return Ok(None);
            }
        }
        let expires_at = session.expires_at.unwrap_or(Timestamp::MIN);
        let handle = session.handle.clone();
        // A token in a cookie may lack the app's claims, because they are too large; then the
        // claims of the session are used.
        let mut claims = match &session.custom_claims {
            Some(Value::Object(custom)) => custom.clone(),
            _ => serde_json::Map::new(),
        };
        claims.extend(token.claims.clone());
        let acting = self.tenants.of(&owner.id, &owner.roles, &claims).await?;
        let found = Arc::new(CachedToken {
            actor: Arc::new(self.actor(&token, session, &owner, (acting, claims))),
            token,
            counter_index,
            counter,
            read_at: now,
            expires_at,
            handle,
            last_active: AtomicI64::new(last_active),
        });
        if is_activity {
            self.record_activity(&found, now);
        }
        Ok(Some(found))
    }

    /// The last use of a session, including writes that are pending.
    fn last_active(&self, session: &Session) -> i64 {
        self.pending_activity
            .lock()
            .get(&session.handle)
            .copied()
            .unwrap_or(i64::MIN)
            .max(session.last_active_at.millis())
    }

    /// The session and user of a token, if both are valid.
    async fn valid_session(&self, cx: &Cx, token: &Verified) -> Result<Option<(Session, User)>> {
        let session = self
            .sessions
            .by_sid(cx, sid::hash(&token.sid))
            .await?
            .filter(|session| session.user_id == token.sub);
        let Some(session) = session else {
            return Ok(None);
        };
        let Some(user) = self.users.get(cx, session.user_id.as_str()).await? else {
            return Ok(None);
        };
        Ok(session.is_live(&user, cx.now()).then_some((session, user)))
    }

    fn actor(
        &self,
        token: &Verified,
        session: Session,
        user: &User,
        tenant_and_claims: (TenantAndRoles, serde_json::Map<String, Value>),
    ) -> Actor {
        let known = CheckedSession {
            user_id: user.id.clone(),
            handle: session.handle.clone(),
            sid: token.sid.clone(),
            auth_at: session.auth_at,
            // A step-up from before the factor existed does not count.
            step_up_at: session.step_up_at.filter(|_| {
                !self.factors.requires_second_factor(user)
                    || session.proved_factors == Some(user.mfa_version)
            }),
            step_up_by: session.step_up_by,
            proved_factors: session.proved_factors,
            aal: session.aal,
            proved_only_by_passkey: session.proved_only_by_passkey(),
            email_verified: user.email_verified_at.is_some(),
            restricted: user.deletion_due_at.is_some(),
            mfa_setup_required: must_enrol(self.mfa_required, user),
        };
        let (acting, claims) = tenant_and_claims;
        Actor {
            id: Some(user.id.clone()),
            kind: ActorKind::User,
            tenant_id: acting.tenant,
            session_id: Some(session.handle),
            roles: acting.roles,
            claims: claims.into_iter().collect(),
            attached: Attached::new(Arc::new(known)),
        }
    }

    /// Writes the last activity at intervals, in the background.
    fn record_activity(self: &Arc<Self>, found: &CachedToken, now: Timestamp) {
        let last = found.last_active.load(Ordering::Relaxed);
        if now.millis() - last < self.activity_millis {
            return;
        }
        if found
            .last_active
            .compare_exchange(last, now.millis(), Ordering::Relaxed, Ordering::Relaxed)
            .is_err()
        {
            return;
        }
        let (checks, handle) = (Arc::clone(self), found.handle.clone());
        checks
            .pending_activity
            .lock()
            .insert(handle.clone(), now.millis());
        tokio::spawn(async move {
            let patch = SessionPatch {
                last_active_at: Some(now),
                ..SessionPatch::default()
            };
            let written = checks
                .sessions
                .update(
                    &Cx::system("session activity").at(now),
                    handle.clone(),
                    patch,
                    None,
                )
                .await;
            if let Err(error) = written
                && error.code() != linchpin::Code::NotFound
            {
                tracing::warn!(error = ?error, "the last activity of a session was not stored");
            }
            let mut pending_activity = checks.pending_activity.lock();
            if pending_activity.get(&handle) == Some(&now.millis()) {
                pending_activity.remove(&handle);
            }
        });
    }
}

impl std::fmt::Debug for Checks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Checks")
            .field("remembered", &self.remembered.len())
            .finish_non_exhaustive()
    }
}
