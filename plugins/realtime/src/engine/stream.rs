//! Streams: names, limits of history, positions.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// How long the position of a stream is kept after its history has expired: 7 days.
pub const POSITION_TTL: Duration = Duration::from_hours(7 * 24);

/// The limits of the frames that can be read again from a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct History {
    /// The maximum number of frames; 0 turns recovery off.
    pub size: u32,
    /// The maximum age of a frame.
    pub ttl: Duration,
}

impl Default for History {
    /// 200 frames, 10 minutes.
    fn default() -> Self {
        Self {
            size: 200,
            ttl: Duration::from_mins(10),
        }
    }
}

impl History {
    /// The minimum number of frames that an engine keeps, so that live subscriptions can fill gaps.
    const MIN_SIZE: u32 = 256;
    /// The minimum time for which an engine keeps frames, so that live subscriptions can fill gaps.
    const MIN_TTL: Duration = Duration::from_mins(1);

    /// A stream whose frames cannot be read again.
    pub const NONE: Self = Self {
        size: 0,
        ttl: Duration::from_secs(1),
    };

    /// Whether frames can be read again.
    pub fn is_recoverable(self) -> bool {
        self.size > 0
    }

    /// The number of frames that an engine stores: `size`, at least 256.
    pub fn kept_size(self) -> u32 {
        self.size.max(Self::MIN_SIZE)
    }

    /// How long an engine stores frames: `ttl`, at least 1 minute.
    pub fn kept_ttl(self) -> Duration {
        self.ttl.max(Self::MIN_TTL)
    }

    /// How long after its last use a position is kept.
    pub fn position_ttl(self) -> Duration {
        self.ttl + POSITION_TTL
    }
}

/// A stream: an ordered, bounded log. Its name identifies it on every node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Stream {
    name: Arc<str>,
    /// The limits of its history. They must be equal on every node.
    pub history: History,
}

impl Stream {
    /// Creates a stream with a name: any text of 1 to 1024 bytes.
    pub fn new(name: impl Into<Arc<str>>, history: History) -> Self {
        Self {
            name: name.into(),
            history,
        }
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn shared_name(&self) -> Arc<str> {
        Arc::clone(&self.name)
    }
}

/// The identity of a sequence of offsets: 16 random characters. If the position of a stream is
/// lost, the stream gets another epoch, so that offsets are never reused within an epoch.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Epoch([u8; 16]);

impl Epoch {
    /// A new epoch: 96 random bits in base64url.
    ///
    /// # Panics
    /// If the operating system has no randomness.
    pub fn random() -> Self {
        Self(random_text())
    }

    /// The epoch as text.
    pub fn as_str(&self) -> &str {
        // The bytes are always ASCII.
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

/// 96 random bits in base64url.
pub(super) fn random_text() -> [u8; 16] {
    let (mut random, mut text) = ([0; 12], [0; 16]);
    #[allow(clippy::expect_used)] // without randomness nothing in the process is safe
    getrandom::fill(&mut random).expect("the operating system provides randomness");
    let written = URL_SAFE_NO_PAD.encode_slice(random, &mut text);
    debug_assert_eq!(written, Ok(16));
    text
}

/// The error for a text that is not 16 characters of base64url.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an epoch is 16 characters of base64url")]
pub struct ParseEpochError;

impl FromStr for Epoch {
    type Err = ParseEpochError;

    fn from_str(text: &str) -> Result<Self, ParseEpochError> {
        let bytes: [u8; 16] = text.as_bytes().try_into().map_err(|_| ParseEpochError)?;
        let valid = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_');
        if bytes.iter().all(valid) {
            Ok(Self(bytes))
        } else {
            Err(ParseEpochError)
        }
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A place in a stream: the epoch, and the offset of a frame (1, 2, 3 …), or 0 before the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Position {
    /// The epoch of the stream.
    pub epoch: Epoch,
    /// The number of the frame within it.
    pub offset: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_has_16_characters_and_parses_from_its_text() {
        let epoch = Epoch::random();
        assert_eq!(epoch.as_str().len(), 16);
        assert_eq!(epoch.as_str().parse(), Ok(epoch));
        assert_ne!(epoch, Epoch::random());
        for wrong in [
            "",
            "short",
            "fifteen-or-so--",
            "seventeen--------",
            "sixteen/chars+==",
        ] {
            assert_eq!(wrong.parse::<Epoch>(), Err(ParseEpochError), "{wrong}");
        }
    }
}
