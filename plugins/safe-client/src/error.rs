//! Why a request was not sent, or has no answer.
//!
//! No message contains an address of a private network, so that a refusal can be shown to the person
//! who named the URL.

use std::time::Duration;

/// Why an address is refused. The text is for the person who named the address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The text is no URL.
    #[error("is not a URL")]
    Unreadable,
    /// The URL is longer than 2,048 bytes.
    #[error("is longer than 2,048 bytes")]
    TooLong,
    /// The scheme is not `https`, nor `http` where that is allowed.
    #[error("must begin with https://")]
    Scheme,
    /// The URL contains a name or a password.
    #[error("must not contain a user name or password")]
    UserInformation,
    /// The URL contains a fragment.
    #[error("must not contain a fragment")]
    Fragment,
    /// The host is a name of a private network, or has no dot.
    #[error("must name a public host")]
    Host,
    /// A port below 1024 other than 80 and 443.
    #[error("must use port 443, 80, or one from 1024 on")]
    Port,
    /// An address of the host is not public.
    #[error("leads to an address that is not public")]
    Address,
}

/// A phase of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// The resolution of the name.
    Resolve,
    /// The connection, and the handshake of TLS.
    Connect,
    /// The request and the head of the response.
    Response,
}

/// Why a request has no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// The address is refused. Nothing was sent.
    #[error("the URL {0}")]
    Refused(#[from] Refusal),
    /// The name has no address, or the name server did not answer usefully.
    #[error("the name of the host cannot be resolved")]
    Unresolved,
    /// No address of the host accepts connections.
    #[error("the host accepts no connection")]
    Unreachable,
    /// The certificate is not that of the host, or the handshake failed.
    #[error("no TLS connection: {0}")]
    Tls(String),
    /// A phase took longer than allowed.
    #[error("no answer within {0:?} ({1:?})")]
    Timeout(Duration, Phase),
    /// The head of the response is over 16 KiB or has more than 100 headers.
    #[error("the headers of the response are too large")]
    HeadersTooLarge,
    /// The other side is not an HTTP/1.1 server, or closed the connection before it answered.
    #[error("the response is not valid HTTP: {0}")]
    Protocol(String),
    /// A header of the request is one that the client sets, or not a legal one.
    #[error("the header `{0}` cannot be sent")]
    Header(String),
}

/// Why a client cannot be made.
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
