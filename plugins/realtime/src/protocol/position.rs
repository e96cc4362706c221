//! Positions in a stream.

use std::sync::Arc;

/// The place of a frame in its stream: the epoch of the stream and the offset within the epoch.
///
/// A position grants no rights. It is no secret.
///
/// ```
/// use linchpin_realtime::protocol::Position;
///
/// let position = Position::new("k3XvQ2mN8pLr0sTa", 41);
/// assert_eq!(position.to_string(), "k3XvQ2mN8pLr0sTa-41");
/// assert_eq!(Position::parse("k3XvQ2mN8pLr0sTa-41"), Some(position));
/// assert_eq!(Position::parse("41"), None);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Position {
    /// The epoch. It changes when the stream has lost its frames. Offsets of different epochs
    /// cannot be compared.
    pub epoch: Arc<str>,
    /// The offset: 1, 2, 3 and so on in each epoch; 0 is the place before the first frame.
    pub offset: u64,
}

impl Position {
    /// The maximum length of an epoch that clients may send, in bytes.
    pub const MAX_EPOCH: usize = 64;

    /// Creates the position `offset` of `epoch`.
    pub fn new(epoch: impl Into<Arc<str>>, offset: u64) -> Self {
        Self {
            epoch: epoch.into(),
            offset,
        }
    }

    /// Reads the `id` of a server-sent event, `<epoch>-<offset>`. Returns `None` for any other
    /// text, even for another spelling of the same number, such as `01`.
    ///
    /// Epochs may contain `-`, so the last `-` is the separator.
    pub fn parse(id: &str) -> Option<Self> {
        let (epoch, offset) = id.rsplit_once('-')?;
        let legal = (1..=Self::MAX_EPOCH).contains(&epoch.len())
            && epoch
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
        let canonical = offset.bytes().all(|b| b.is_ascii_digit())
            && (offset.len() == 1 || !offset.starts_with('0'));
        if !legal || !canonical {
            return None;
        }
        Some(Self::new(epoch, offset.parse().ok()?))
    }
}

impl std::fmt::Display for Position {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}", self.epoch, self.offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_spelling_of_a_position_is_read() {
        for good in [Position::new("a-b_C", 0), Position::new("-", u64::MAX)] {
            assert_eq!(Position::parse(&good.to_string()), Some(good));
        }
        for bad in [
            "",
            "-",
            "-1",
            "abc",
            "e-",
            "e-01",
            "e-+1",
            "e--",
            "e- 1",
            "e-1 ",
            "é-1",
            "e\n-1",
            "e-18446744073709551616",
        ] {
            assert_eq!(Position::parse(bad), None, "{bad:?}");
        }
        assert_eq!(Position::parse("e--1"), Some(Position::new("e-", 1)));
        assert_eq!(Position::parse(&format!("{}-1", "e".repeat(65))), None);
    }
}
