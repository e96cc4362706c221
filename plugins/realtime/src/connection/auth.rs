//! Authentication of a live connection, as a state machine without I/O.
//!
//! ```text
//! pending ──good token──▶ bound ──end of the token + grace──▶ closed
//!    │  ▲                 │   ▲
//!    │  └─bad token (2)   └───┘ a good token of the same user and tenant
//!    ├─third bad token──▶ closed
//!    └─10 s─────────────▶ closed      anonymous ──good token, no room yet──▶ bound
//! ```

use std::time::Duration;

use linchpin::Timestamp;
use tokio::time::Instant;

use super::{Identity, Limits};
use crate::protocol::{AuthError, Close};

/// The number of bad tokens that ends a pending connection.
const MAX_FAILURES: u8 = 3;

/// The state of authentication of one connection.
#[derive(Debug)]
pub(crate) enum Authentication {
    /// No credential yet: the client has to send a token.
    Pending {
        /// The time at which the connection ends.
        until: Instant,
        /// The number of bad tokens so far.
        failures: u8,
    },
    /// The endpoint accepts anonymous callers.
    Anonymous {
        /// Whether a room has been joined.
        joined: bool,
    },
    /// The connection acts for an authenticated caller.
    Bound {
        /// The caller, and the time until which the identity is valid.
        identity: Identity,
        /// Whether the client was notified that its token expires.
        notified: bool,
    },
}

/// The result of a frame `auth`.
#[derive(Debug)]
pub(crate) enum TokenOutcome {
    /// The connection has the identity of the token.
    Bound {
        /// Whether the connection had an identity before.
        refreshed: bool,
    },
    /// Nothing changed.
    Error(AuthError),
    /// Nothing changed, and the connection ends.
    Failed(AuthError, Close),
}

/// An action that is due at the current time.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// Notify the client that its token expires.
    Expiring(Timestamp),
    /// Close the connection.
    Close(Close),
}

impl Authentication {
    /// Returns the state after a handshake. `identity` is `Some` if it had a credential.
    pub(crate) fn new(
        identity: Option<Identity>,
        anonymous: bool,
        limits: &Limits,
        now: Instant,
    ) -> Self {
        match identity {
            Some(identity) => Self::Bound {
                identity,
                notified: false,
            },
            None if anonymous => Self::Anonymous { joined: false },
            None => Self::Pending {
                until: now + limits.authentication_time,
                failures: 0,
            },
        }
    }

    /// Whether frames other than `auth` and `ping` are refused.
    pub(crate) fn is_pending(&self) -> bool {
        matches!(self, Self::Pending { .. })
    }

    /// The identity, if there is one.
    pub(crate) fn identity(&self) -> Option<&Identity> {
        match self {
            Self::Bound { identity, .. } => Some(identity),
            _ => None,
        }
    }

    /// Records that a room was joined: an anonymous connection stays anonymous from now on.
    pub(crate) fn joined(&mut self) {
        if let Self::Anonymous { joined } = self {
            *joined = true;
        }
    }

    /// Applies the result of a token check: an identity, `None` for a bad token, or an error if the
    /// token could not be checked.
    pub(crate) fn take(&mut self, result: linchpin::Result<Option<Identity>>) -> TokenOutcome {
        let Ok(found) = result else {
            return TokenOutcome::Error(AuthError::Unavailable);
        };
        let Some(found) = found else {
            return match self {
                Self::Pending { failures, .. } => {
                    *failures += 1;
                    if *failures >= MAX_FAILURES {
                        TokenOutcome::Failed(AuthError::InvalidCredentials, Close::AuthFailed)
                    } else {
                        TokenOutcome::Error(AuthError::InvalidCredentials)
                    }
                }
                _ => TokenOutcome::Error(AuthError::InvalidCredentials),
            };
        };
        let refreshed = match self {
            Self::Pending { .. } | Self::Anonymous { joined: false } => false,
            Self::Bound { identity, .. } if identity.is_of_same_caller(&found) => true,
            Self::Anonymous { .. } | Self::Bound { .. } => {
                return TokenOutcome::Error(AuthError::IdentityAlreadyBound);
            }
        };
        *self = Self::Bound {
            identity: found,
            notified: false,
        };
        TokenOutcome::Bound { refreshed }
    }

    /// Returns the action that is due now.
    pub(crate) fn due(&mut self, limits: &Limits, now: Instant, clock: Timestamp) -> Option<Due> {
        match self {
            Self::Pending { until, .. } => {
                (now >= *until).then_some(Due::Close(Close::AuthTimeout))
            }
            Self::Anonymous { .. } => None,
            Self::Bound { identity, notified } => {
                let expires = identity.expires_at?;
                if clock >= later(expires, limits.expiry_grace) {
                    return Some(Due::Close(Close::TokenExpired));
                }
                if *notified || clock < earlier(expires, limits.expiry_notice) {
                    return None;
                }
                *notified = true;
                Some(Due::Expiring(expires))
            }
        }
    }

    /// Returns the time at which [`due`](Self::due) has to be called again.
    pub(crate) fn next(&self, limits: &Limits, now: Instant, clock: Timestamp) -> Option<Instant> {
        match self {
            Self::Pending { until, .. } => Some(*until),
            Self::Anonymous { .. } => None,
            Self::Bound { identity, notified } => {
                let expires = identity.expires_at?;
                let at = if *notified {
                    later(expires, limits.expiry_grace)
                } else {
                    earlier(expires, limits.expiry_notice)
                };
                let left = at.millis().saturating_sub(clock.millis()).max(0);
                // Timers have a maximum length. A token that is valid for years is checked once a
                // day.
                Some(now + Duration::from_millis(left as u64).min(Duration::from_hours(24)))
            }
        }
    }
}

fn later(at: Timestamp, by: Duration) -> Timestamp {
    Timestamp::from_millis(at.millis().saturating_add(by.as_millis() as i64))
}

fn earlier(at: Timestamp, by: Duration) -> Timestamp {
    Timestamp::from_millis(at.millis().saturating_sub(by.as_millis() as i64))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use linchpin::{Actor, Attached, Error};

    use super::*;

    fn identity(user: &str, tenant: Option<&str>, expires: i64) -> Identity {
        let mut actor = Actor::user(user);
        actor.tenant_id = tenant.map(str::to_owned);
        Identity {
            actor: Arc::new(actor),
            expires_at: Some(Timestamp::from_millis(expires)),
            attached: Attached::default(),
        }
    }

    fn pending() -> Authentication {
        Authentication::new(None, false, &Limits::default(), Instant::now())
    }

    #[tokio::test(start_paused = true)]
    async fn a_pending_connection_closes_after_three_bad_tokens_or_ten_seconds() {
        let (limits, now) = (Limits::default(), Instant::now());
        let mut auth = pending();
        assert!(auth.is_pending());
        for _ in 0..2 {
            assert!(matches!(
                auth.take(Ok(None)),
                TokenOutcome::Error(AuthError::InvalidCredentials)
            ));
        }
        // A token that could not be checked does not count as bad.
        for _ in 0..10 {
            assert!(matches!(
                auth.take(Err(Error::unavailable("down"))),
                TokenOutcome::Error(AuthError::Unavailable)
            ));
        }
        assert!(matches!(
            auth.take(Ok(None)),
            TokenOutcome::Failed(AuthError::InvalidCredentials, Close::AuthFailed)
        ));
        let mut auth = pending();
        let clock = Timestamp::from_millis(0);
        let end = auth.next(&limits, now, clock).unwrap();
        assert_eq!(end - now, Duration::from_secs(10));
        assert_eq!(auth.due(&limits, now, clock), None);
        assert_eq!(
            auth.due(&limits, end, clock),
            Some(Due::Close(Close::AuthTimeout))
        );
    }

    #[tokio::test(start_paused = true)]
    async fn an_identity_is_bound_once_and_refreshed_by_the_same_caller_only() {
        let mut auth = pending();
        let alice = || identity("alice", Some("t1"), 1_000);
        assert!(matches!(
            auth.take(Ok(Some(alice()))),
            TokenOutcome::Bound { refreshed: false }
        ));
        for other in [
            identity("bob", Some("t1"), 9_000),
            identity("alice", Some("t2"), 9_000),
            identity("alice", None, 9_000),
        ] {
            assert!(matches!(
                auth.take(Ok(Some(other))),
                TokenOutcome::Error(AuthError::IdentityAlreadyBound)
            ));
            assert_eq!(auth.identity().unwrap().expires_at, alice().expires_at);
        }
        assert!(matches!(
            auth.take(Ok(None)),
            TokenOutcome::Error(AuthError::InvalidCredentials)
        ));
        let later = identity("alice", Some("t1"), 5_000);
        assert!(matches!(
            auth.take(Ok(Some(later))),
            TokenOutcome::Bound { refreshed: true }
        ));
        assert_eq!(
            auth.identity().unwrap().expires_at,
            Some(Timestamp::from_millis(5_000))
        );
    }

    #[tokio::test(start_paused = true)]
    async fn an_anonymous_connection_accepts_a_token_until_it_joins_a_room() {
        let new = || Authentication::new(None, true, &Limits::default(), Instant::now());
        let mut auth = new();
        assert!(!auth.is_pending());
        assert!(matches!(
            auth.take(Ok(Some(identity("alice", None, 1)))),
            TokenOutcome::Bound { refreshed: false }
        ));
        let mut auth = new();
        auth.joined();
        assert!(matches!(
            auth.take(Ok(Some(identity("alice", None, 1)))),
            TokenOutcome::Error(AuthError::IdentityAlreadyBound)
        ));
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_is_notified_once_a_minute_before_its_token_ends_and_has_a_grace_period() {
        let (limits, now) = (Limits::default(), Instant::now());
        let expires = 100_000;
        let mut auth =
            Authentication::new(Some(identity("alice", None, expires)), false, &limits, now);
        let at = Timestamp::from_millis;
        assert_eq!(
            auth.next(&limits, now, at(0)),
            Some(now + Duration::from_secs(40))
        );
        assert_eq!(auth.due(&limits, now, at(39_999)), None);
        assert_eq!(
            auth.due(&limits, now, at(40_000)),
            Some(Due::Expiring(at(expires)))
        );
        assert_eq!(auth.due(&limits, now, at(40_000)), None);
        assert_eq!(
            auth.next(&limits, now, at(40_000)),
            Some(now + Duration::from_secs(90))
        );
        assert_eq!(auth.due(&limits, now, at(129_999)), None);
        // After a refresh within the grace period, a new notification comes before the new end.
        auth.take(Ok(Some(identity("alice", None, 400_000))));
        assert_eq!(auth.due(&limits, now, at(130_000)), None);
        assert_eq!(
            auth.due(&limits, now, at(340_000)),
            Some(Due::Expiring(at(400_000)))
        );
        assert_eq!(
            auth.due(&limits, now, at(430_000)),
            Some(Due::Close(Close::TokenExpired))
        );
        // A credential that does not expire causes no notification.
        let mut forever = identity("job", None, 0);
        forever.expires_at = None;
        let mut auth = Authentication::new(Some(forever), false, &limits, now);
        assert_eq!(auth.due(&limits, now, Timestamp::MAX), None);
        assert_eq!(auth.next(&limits, now, at(0)), None);
    }
}
