//! Removal of keys that another program has overwritten. A position that cannot be read is removed,
//! too.

use redis::RedisError;

use super::link::Link;
use super::{scripts, with_timeout};
use crate::engine::Result;
use crate::engine::faults::{self, Fault};

/// The keys of a function, which belong to one stream.
pub(super) enum OwnKeys {
    /// Position, frames, event ids.
    Log([String; 3]),
    /// Leases, ends of leases, arrivals.
    Presence([String; 3]),
}

impl OwnKeys {
    pub(super) fn names(&self) -> &[String; 3] {
        match self {
            Self::Log(names) | Self::Presence(names) => names,
        }
    }

    /// The types of the values.
    fn types(&self) -> [&'static str; 3] {
        match self {
            Self::Log(_) => ["hash", "stream", "zset"],
            Self::Presence(_) => ["hash", "zset", "zset"],
        }
    }
}

/// Whether a function has found a value of another type or form.
pub(super) fn is_damage(error: &RedisError) -> bool {
    matches!(error.code(), Some("WRONGTYPE" | "DAMAGED"))
}

/// Removes the keys with values of other types, and the fences that are not numbers.
pub(super) async fn remove_foreign(
    link: &mut Link,
    keys: &OwnKeys,
    cause: &RedisError,
) -> Result<()> {
    let mut call = scripts::MEND_SCRIPT.prepare_invoke();
    call.key(keys.names()).arg(&keys.types());
    call.arg(i32::from(matches!(keys, OwnKeys::Log(_))));
    let removed: Vec<String> = with_timeout(link.invoke(&call)).await?;
    for key in removed {
        tracing::error!(
            key,
            %cause,
            "removed a key of the realtime engine that another program had overwritten"
        );
        faults::count(Fault::KeyReplaced);
    }
    Ok(())
}
