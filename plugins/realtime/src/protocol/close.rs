//! The reasons why a connection ends, with their WebSocket close codes.

/// Why the server ends a connection. Each reason has one close code, and one text that clients can
/// read as `CloseEvent.reason`. For server-sent events, the event `linchpin:close` has the same
/// code and text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Close {
    /// 1000: the client requested the close, or the connection is no longer needed.
    Normal,
    /// 1001: after a ping, no bytes arrived within the heartbeat timeout (10 s by default).
    Heartbeat,
    /// 1002: the bytes are not WebSocket frames.
    Protocol,
    /// 1003: a binary message.
    Binary,
    /// 1007: a text message, or the reason of a close frame, that is not UTF-8.
    InvalidUtf8,
    /// 1008: too many frames for too long.
    RateLimited,
    /// 1009: a message above the limit, counted over its fragments.
    TooLarge,
    /// 1011: a fault of the server.
    Internal,
    /// 1012: the server stops. The client connects to another one.
    Restart,
    /// 1013: the server cannot accept the connection now.
    TryAgainLater,
    /// 4400: ten frames within a minute could not be read.
    BadFrames,
    /// 4401: the session ended: logout, revocation, suspension, a new password, deletion.
    SessionEnded,
    /// 4401: the token expired and was not refreshed within the grace period (30 s by default).
    TokenExpired,
    /// 4401: no authentication within the time limit after the handshake (10 s by default).
    AuthTimeout,
    /// 4401: three tokens were refused.
    AuthFailed,
    /// 4403: the caller may not use this endpoint any more.
    Forbidden,
    /// 4408: the client reads more slowly than its rooms send.
    SlowConsumer,
    /// 4409: the user opened more connections than the limit; the oldest ends.
    Replaced,
}

/// The next step of a client whose connection was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reconnect {
    /// Stay disconnected.
    Stop,
    /// Connect again, with the usual back-off.
    BackOff,
    /// Connect again, after 5 s or more.
    Slowly,
    /// Connect again after the `reconnectInMs` of the frame `draining`.
    WhenTold,
    /// Refresh the token once, then connect again; stop if the refresh is refused.
    AfterRefresh,
}

impl Close {
    /// All reasons, ordered by code.
    pub const ALL: [Self; 18] = [
        Self::Normal,
        Self::Heartbeat,
        Self::Protocol,
        Self::Binary,
        Self::InvalidUtf8,
        Self::RateLimited,
        Self::TooLarge,
        Self::Internal,
        Self::Restart,
        Self::TryAgainLater,
        Self::BadFrames,
        Self::SessionEnded,
        Self::TokenExpired,
        Self::AuthTimeout,
        Self::AuthFailed,
        Self::Forbidden,
        Self::SlowConsumer,
        Self::Replaced,
    ];

    /// Returns the WebSocket close code.
    pub const fn code(self) -> u16 {
        self.entry().0
    }

    /// Returns the text that is sent with the code; empty for [`Close::Normal`].
    pub const fn reason(self) -> &'static str {
        self.entry().1
    }

    /// Returns the next step of the client.
    pub const fn reconnect(self) -> Reconnect {
        self.entry().2
    }

    /// Returns the code, the text and the next step of a reason.
    const fn entry(self) -> (u16, &'static str, Reconnect) {
        use Reconnect::{AfterRefresh, BackOff, Slowly, Stop, WhenTold};
        match self {
            Self::Normal => (1000, "", Stop),
            Self::Heartbeat => (1001, "Heartbeat timeout", BackOff),
            Self::Protocol => (1002, "protocol", BackOff),
            Self::Binary => (1003, "Binary not supported", BackOff),
            Self::InvalidUtf8 => (1007, "invalid UTF-8", BackOff),
            Self::RateLimited => (1008, "rate limit exceeded", Slowly),
            Self::TooLarge => (1009, "Message too large", BackOff),
            Self::Internal => (1011, "internal", BackOff),
            Self::Restart => (1012, "restart", WhenTold),
            Self::TryAgainLater => (1013, "try again later", Slowly),
            Self::BadFrames => (4400, "bad frames", Stop),
            Self::SessionEnded => (4401, "session_ended", AfterRefresh),
            Self::TokenExpired => (4401, "token_expired", AfterRefresh),
            Self::AuthTimeout => (4401, "auth_timeout", AfterRefresh),
            Self::AuthFailed => (4401, "auth_failed", AfterRefresh),
            Self::Forbidden => (4403, "forbidden", Stop),
            Self::SlowConsumer => (4408, "slow consumer", BackOff),
            Self::Replaced => (4409, "replaced", Stop),
        }
    }
}

impl std::fmt::Display for Close {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.reason() {
            "" => write!(f, "{}", self.code()),
            reason => write!(f, "{} {reason}", self.code()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_fits_into_a_close_frame_and_is_listed_once() {
        for (at, close) in Close::ALL.into_iter().enumerate() {
            // The payload of a control frame has at most 125 bytes, two of them for the code.
            assert!(close.reason().len() <= 123);
            assert!(matches!(close.code(), 1000..=1013 | 4400..=4409));
            for other in &Close::ALL[at + 1..] {
                assert!(close.code() <= other.code());
                assert_ne!(close.to_string(), other.to_string());
            }
        }
    }

    #[test]
    fn a_client_reconnects_unless_its_frames_or_rights_caused_the_close() {
        let stops: Vec<u16> = Close::ALL
            .into_iter()
            .filter(|close| close.reconnect() == Reconnect::Stop)
            .map(Close::code)
            .collect();
        assert_eq!(stops, [1000, 4400, 4403, 4409]);
        let refreshes = Close::ALL
            .into_iter()
            .filter(|close| close.reconnect() == Reconnect::AfterRefresh);
        assert!(refreshes.map(Close::code).all(|code| code == 4401));
    }
}
