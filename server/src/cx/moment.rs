//! The instant of a call: said, or the present of whichever app it reaches.

use std::sync::{Arc, OnceLock};

use crate::Timestamp;

/// The instant of a call.
#[derive(Clone, Debug)]
pub(super) enum Moment {
    /// Said.
    At(Timestamp),
    /// The present of the app whose adapter is called. Held: when the context was made, by the
    /// system clock.
    Present(Timestamp),
    /// The same within a transaction, whose first call settles it for all.
    Shared(Timestamp, Arc<OnceLock<Timestamp>>),
}

impl Moment {
    /// The present of an app that is not known yet.
    pub(super) fn present() -> Self {
        Self::Present(Timestamp::system_now())
    }

    /// As far as it is known.
    pub(super) fn shown(&self) -> Timestamp {
        match self {
            Self::At(now) | Self::Present(now) => *now,
            Self::Shared(made, settled) => settled.get().copied().unwrap_or(*made),
        }
    }

    /// By the clock of an app; `None` when it has been said.
    pub(super) fn by(&self, clock: &crate::clock::Clock) -> Option<Timestamp> {
        match self {
            Self::At(_) => None,
            Self::Present(_) => Some(clock()),
            Self::Shared(_, settled) => Some(*settled.get_or_init(|| clock())),
        }
    }

    /// That of a transaction's calls.
    pub(super) fn shared(&self) -> Self {
        match self {
            Self::Present(made) => Self::Shared(*made, Arc::default()),
            other => other.clone(),
        }
    }
}
