//! The instant of a call: fixed, or the current time of the app that it reaches.

use std::sync::{Arc, OnceLock};

use crate::Timestamp;

/// The instant of a call.
#[derive(Clone, Debug)]
pub(super) enum Moment {
    /// Fixed by the caller.
    At(Timestamp),
    /// The current time of the app whose adapter is called. The value is the time of creation of
    /// the context by the system clock.
    Present(Timestamp),
    /// Like `Present`, within a transaction: the first call of the transaction fixes the instant
    /// for all of its calls.
    Shared(Timestamp, Arc<OnceLock<Timestamp>>),
}

impl Moment {
    /// The current time of an app that is not known yet.
    pub(super) fn present() -> Self {
        Self::Present(Timestamp::system_now())
    }

    /// The best known value.
    pub(super) fn best_known(&self) -> Timestamp {
        match self {
            Self::At(now) | Self::Present(now) => *now,
            Self::Shared(created_at, settled) => settled.get().copied().unwrap_or(*created_at),
        }
    }

    /// The instant by the clock of an app; `None` if it is fixed.
    pub(super) fn by(&self, clock: &crate::clock::Clock) -> Option<Timestamp> {
        match self {
            Self::At(_) => None,
            Self::Present(_) => Some(clock()),
            Self::Shared(_, settled) => Some(*settled.get_or_init(|| clock())),
        }
    }

    /// The instant shared by the calls of a transaction.
    pub(super) fn shared(&self) -> Self {
        match self {
            Self::Present(created_at) => Self::Shared(*created_at, Arc::default()),
            other => other.clone(),
        }
    }
}
