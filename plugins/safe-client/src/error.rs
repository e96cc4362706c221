//! Errors: refused URLs, and requests without a response.
//!
//! No message contains an address of a private network, so messages can be shown to the user who
//! entered the URL.

use std::time::Duration;

/// The reason why a URL is refused. The message is for the user who entered the URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The text is not a URL.
    #[error("is not a URL")]
    Unreadable,
    /// The URL is longer than 2,048 bytes.
    #[error("is longer than 2,048 bytes")]
    TooLong,
    /// The scheme is neither `https` nor, if it is allowed, `http`.
    #[error("must begin with https://")]
    Scheme,
    /// The URL contains a user name or a password.
    #[error("must not contain a user name or password")]
    UserInformation,
    /// The URL contains a fragment.
    #[error("must not contain a fragment")]
    Fragment,
    /// The host name belongs to a private network, or has no dot.
    #[error("must name a public host")]
    Host,
    /// The port is below 1024 and not 80 or 443.
    #[error("must use port 443, 80, or one from 1024 on")]
    Port,
    /// An address of the host is not public.
    #[error("must not lead to an address that is not public")]
    Address,
}

/// A phase of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// The resolution of the name.
    Resolve,
    /// The connection and the TLS handshake.
    Connect,
    /// The request and the head of the response.
    Response,
}

/// The reason why a request has no response.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// The URL is refused. Nothing was sent.
    #[error("the URL {0}")]
    Refused(#[from] Refusal),
    /// The name has no address, or its resolution failed.
    #[error("the name of the host cannot be resolved")]
    Unresolved,
    /// No address of the host accepts connections.
    #[error("the host accepts no connection")]
    Unreachable,
    /// The certificate is not valid for the host, or the TLS handshake failed.
    #[error("no TLS connection: {0}")]
    Tls(String),
    /// A phase took longer than allowed.
    #[error("no answer within {0:?} ({1:?})")]
    Timeout(Duration, Phase),
    /// The head of the response is over 16 KiB or has more than 100 headers.
    #[error("the headers of the response are too large")]
    HeadersTooLarge,
    /// The server does not speak HTTP/1.1, or closed the connection before it responded.
    #[error("the response is not valid HTTP: {0}")]
    Protocol(String),
    /// A header of the request is invalid, or only the client may set it.
    #[error("the header `{0}` cannot be sent")]
    Header(String),
}

/// The reason why a client cannot be created.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// The system has no root certificate.
    #[error("the system has no root certificates: install its package `ca-certificates`")]
    NoRoots,
    /// A root certificate of the settings cannot be read.
    #[error("a root certificate cannot be read: {0}")]
    Root(String),
    /// TLS cannot be set up.
    #[error("TLS cannot be set up: {0}")]
    Tls(String),
}
