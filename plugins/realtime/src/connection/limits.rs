//! Limits of connections, with their defaults and ranges.

use std::ops::RangeInclusive;
use std::time::Duration;

use linchpin::Problem;

/// The limits of WebSocket connections.
///
/// ```
/// use linchpin_realtime::connection::Limits;
///
/// let limits = Limits { rooms: 5, ..Limits::default() };
/// assert!(limits.problems("realtime.limits").is_empty());
/// let limits = Limits { rooms: 0, ..Limits::default() };
/// assert_eq!(limits.problems("realtime.limits")[0].path, "realtime.limits.rooms");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    /// The longest message from a client in bytes, counted over its fragments: 1 KiB to 1 MiB.
    pub inbound_bytes: usize,
    /// The longest payload to a client in bytes: 1 KiB to 1 MiB. A frame with a longer payload is
    /// sent without it.
    pub outbound_bytes: usize,
    /// Rooms of one connection: 1 to 1000.
    pub rooms: usize,
    /// Connections of one user, at least 1. A connection above this limit ends the oldest one.
    pub connections_per_user: usize,
    /// Connections of anonymous callers from one address, at least 1.
    pub connections_per_address: usize,
    /// Connections of one node, at least 1.
    pub connections_per_node: usize,
    /// Frames that a client may send per second, on average: 1 to 1000.
    pub frames_per_second: u32,
    /// Frames that a client may send at once: 1 to 10 000.
    pub frames_burst: u32,
    /// The consequence of a frame above this limit.
    pub on_exceeded: OnExceeded,
    /// Relayed frames per second, room and user: 1 to 1000.
    pub relays_per_second: u32,
    /// Subscriptions per minute and user, at least 1.
    pub subscribes_per_minute: u32,
    /// Handshakes per minute and user or address, at least 1. The same limit applies separately to
    /// SSE streams that anonymous callers open, and to extensions of connections.
    pub handshakes_per_minute: u32,
    /// The longest time that one frame may take to execute: 1 s to 60 s.
    pub handler_time: Duration,
    /// Frames that wait for a slow client: 16 to 4096.
    pub queue_frames: usize,
    /// Bytes that wait for a slow client: 64 KiB to 16 MiB.
    pub queue_bytes: usize,
    /// After this time without another frame to the client the server sends a ping: 1 s to 5 min.
    pub heartbeat: Duration,
    /// The longest time from a ping to the next bytes from the client: 1 s to 5 min.
    pub heartbeat_timeout: Duration,
    /// The longest time for which a socket may accept no byte: 1 s to 5 min. For responses of SSE
    /// endpoints it is at most 30 s.
    pub stall: Duration,
    /// The longest time from the handshake to a good token: 1 s to 5 min.
    pub authentication_time: Duration,
    /// The time from the notice to the client until the end of its token: 1 s to 1 h.
    pub expiry_notice: Duration,
    /// The time after the end of a token in which the client may still refresh it: at most 1 h.
    pub expiry_grace: Duration,
}

/// The consequence of a frame above the limit of frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnExceeded {
    /// The frame is discarded and its client notified; 100 discarded frames within 10 s end the
    /// connection.
    #[default]
    Discard,
    /// The connection ends.
    Close,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            inbound_bytes: 64 << 10,
            outbound_bytes: 64 << 10,
            rooms: 100,
            connections_per_user: 20,
            connections_per_address: 20,
            connections_per_node: 20_000,
            frames_per_second: 20,
            frames_burst: 400,
            on_exceeded: OnExceeded::Discard,
            relays_per_second: 10,
            subscribes_per_minute: 1000,
            handshakes_per_minute: 60,
            handler_time: Duration::from_secs(10),
            queue_frames: 256,
            queue_bytes: 1 << 20,
            heartbeat: Duration::from_secs(30),
            heartbeat_timeout: Duration::from_secs(10),
            stall: Duration::from_secs(10),
            authentication_time: Duration::from_secs(10),
            expiry_notice: Duration::from_mins(1),
            expiry_grace: Duration::from_secs(30),
        }
    }
}

impl Limits {
    /// The values outside of their ranges, each with its path under `prefix`.
    pub fn problems(&self, prefix: &str) -> Vec<Problem> {
        const KIB: usize = 1 << 10;
        const MAX: usize = u32::MAX as usize;
        const FIVE_MINUTES: Duration = Duration::from_mins(5);
        const SECOND: Duration = Duration::from_secs(1);
        let numbers = [
            ("inbound_bytes", self.inbound_bytes, KIB..=KIB * KIB),
            ("outbound_bytes", self.outbound_bytes, KIB..=KIB * KIB),
            ("rooms", self.rooms, 1..=1000),
            ("connections_per_user", self.connections_per_user, 1..=MAX),
            (
                "connections_per_address",
                self.connections_per_address,
                1..=MAX,
            ),
            ("connections_per_node", self.connections_per_node, 1..=MAX),
            (
                "frames_per_second",
                self.frames_per_second as usize,
                1..=1000,
            ),
            ("frames_burst", self.frames_burst as usize, 1..=10_000),
            (
                "relays_per_second",
                self.relays_per_second as usize,
                1..=1000,
            ),
            (
                "subscribes_per_minute",
                self.subscribes_per_minute as usize,
                1..=MAX,
            ),
            (
                "handshakes_per_minute",
                self.handshakes_per_minute as usize,
                1..=MAX,
            ),
            ("queue_frames", self.queue_frames, 16..=4096),
            ("queue_bytes", self.queue_bytes, 64 * KIB..=16 * KIB * KIB),
        ];
        let hour = Duration::from_hours(1);
        let times = [
            (
                "handler_time",
                self.handler_time,
                SECOND..=Duration::from_mins(1),
            ),
            ("heartbeat", self.heartbeat, SECOND..=FIVE_MINUTES),
            (
                "heartbeat_timeout",
                self.heartbeat_timeout,
                SECOND..=FIVE_MINUTES,
            ),
            ("stall", self.stall, SECOND..=FIVE_MINUTES),
            (
                "authentication_time",
                self.authentication_time,
                SECOND..=FIVE_MINUTES,
            ),
            ("expiry_notice", self.expiry_notice, SECOND..=hour),
            ("expiry_grace", self.expiry_grace, Duration::ZERO..=hour),
        ];
        let numbers = numbers.into_iter().filter_map(|(name, value, range)| {
            outside(prefix, name, &value, &range, ToString::to_string)
        });
        let times = times.into_iter().filter_map(|(name, value, range)| {
            outside(prefix, name, &value, &range, |time| format!("{time:?}"))
        });
        numbers.chain(times).collect()
    }
}

fn outside<T: PartialOrd>(
    prefix: &str,
    name: &str,
    value: &T,
    range: &RangeInclusive<T>,
    text: impl Fn(&T) -> String,
) -> Option<Problem> {
    (!range.contains(value)).then(|| {
        let (least, most) = (text(range.start()), text(range.end()));
        Problem::new(
            format!("{prefix}.{name}"),
            "range",
            format!("must be {least} to {most}, not {}", text(value)),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_within_their_ranges_and_every_range_is_checked() {
        assert!(Limits::default().problems("limits").is_empty());
        let zero = Limits {
            inbound_bytes: 0,
            outbound_bytes: 2 << 20,
            rooms: 1001,
            connections_per_user: 0,
            connections_per_address: 0,
            connections_per_node: 0,
            frames_per_second: 1001,
            frames_burst: 0,
            on_exceeded: OnExceeded::Close,
            relays_per_second: 0,
            subscribes_per_minute: 0,
            handshakes_per_minute: 0,
            handler_time: Duration::ZERO,
            queue_frames: 15,
            queue_bytes: 1,
            heartbeat: Duration::ZERO,
            heartbeat_timeout: Duration::ZERO,
            stall: Duration::ZERO,
            authentication_time: Duration::ZERO,
            expiry_notice: Duration::ZERO,
            expiry_grace: Duration::from_hours(2),
        };
        assert_eq!(zero.problems("limits").len(), 20);
    }
}
