//! Decides whether a request becomes a WebSocket connection.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use linchpin::axum::http::header::{
    ORIGIN, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use linchpin::axum::http::{HeaderMap, HeaderName, HeaderValue};
use linchpin::{BoxFuture, Code, Error, Problem, Result};
use sha1::{Digest, Sha1};

use super::{Identity, check_kept_headers};

/// The name of the protocol in `Sec-WebSocket-Protocol`.
pub const PROTOCOL: &str = "linchpin.v1";

/// A request for a connection.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The text after `?` in the URL.
    pub query: Option<&'a str>,
    /// Whether the request asks for an upgrade to WebSocket.
    pub upgrade: bool,
    /// The headers.
    pub headers: &'a HeaderMap,
}

/// The behaviour of an endpoint for a request without a credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissingCredential {
    /// The connection waits for a frame `auth`.
    Pending,
    /// The connection is anonymous.
    Anonymous,
    /// The request is refused.
    Refused,
}

/// The data and functions of the endpoint and its node that the checks need.
pub trait HandshakeChecks: Send + Sync {
    /// Returns the seconds after which the client may try again; `None` if the node accepts
    /// connections.
    fn retry_after_if_closed(&self) -> Option<u32>;

    /// Whether pages of this origin may connect. The app's own origin and the listed origins may.
    fn admits_origin(&self, origin: &str) -> bool;

    /// Returns `true` if the credential of the request is a cookie, `false` if it is in another
    /// header, and `None` without a credential.
    fn credential_is_cookie(&self, headers: &HeaderMap) -> Option<bool>;

    /// Checks the credential in the headers. Returns `None` for a bad one.
    ///
    /// # Errors
    /// If it cannot be checked now.
    fn identify<'a>(&'a self, headers: &'a HeaderMap) -> BoxFuture<'a, Result<Option<Identity>>>;

    /// Returns how the endpoint treats a request without a credential.
    fn on_missing_credential(&self) -> MissingCredential;

    /// Counts a handshake for its user, or for its address if there is none.
    ///
    /// # Errors
    /// `rate_limited` with the seconds to wait, if there were too many handshakes or if the address
    /// has reached its limit of anonymous connections.
    fn count<'a>(&'a self, identity: Option<&'a Identity>) -> BoxFuture<'a, Result<()>>;
}

/// A request that becomes a connection.
#[derive(Debug)]
pub struct Accepted {
    /// The caller, if the request had a credential.
    pub identity: Option<Identity>,
    /// Whether the connection waits for a frame `auth`.
    pub pending: bool,
    /// The headers of the answer 101, without `Connection` and `Upgrade`.
    pub headers: Vec<(HeaderName, HeaderValue)>,
}

/// The answer to a refused request.
#[derive(Debug)]
pub struct Refusal {
    /// The error with its status.
    pub error: Error,
    /// Further headers of the answer.
    pub headers: Vec<(HeaderName, HeaderValue)>,
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self {
            error,
            headers: Vec::new(),
        }
    }
}

/// Checks a request in the order of this table. The first check that fails determines the answer:
///
/// | Check | Answer |
/// |---|---|
/// | the URL has no query parameters: no credential is read from a URL | 400 `unknown_parameter` |
/// | the request asks for an upgrade to WebSocket | 426 `upgrade_required` |
/// | the version is 13 and the key has 16 bytes | 400 `validation_failed` |
/// | the headers that the connection keeps have at most 8 KiB, without credentials and headers about the handshake | 431 `headers_too_large` |
/// | the node accepts connections | 503 `unavailable` |
/// | an `Origin` is allowed, and present if a cookie is the credential | 403 `origin_not_allowed` |
/// | the credential is good, or not required | 401 `unauthorized` |
/// | the caller has not made too many handshakes | 429 `rate_limited` |
/// | `linchpin.v1` is among the offered protocols, if there are any | 400 `validation_failed` |
///
/// No extension is accepted: compression costs memory for each connection, and can reveal secrets.
///
/// # Errors
/// The answer.
pub async fn check(
    request: Request<'_>,
    checks: &dyn HandshakeChecks,
) -> Result<Accepted, Refusal> {
    let headers = request.headers;
    check_no_query(request.query)?;
    if !request.upgrade {
        return Err(Refusal {
            error: Error::new(
                Code::Other(426, "upgrade_required"),
                "This path accepts only WebSocket connections",
            ),
            headers: vec![(UPGRADE, HeaderValue::from_static("websocket"))],
        });
    }
    let key = version_and_key(headers)?;
    check_kept_headers(headers)?;
    if let Some(seconds) = checks.retry_after_if_closed() {
        let error = Error::new(
            Code::Unavailable,
            "The server does not accept connections now",
        );
        return Err(error.retry_after(seconds).into());
    }
    let credential_is_cookie = checks.credential_is_cookie(headers);
    check_origin(headers, credential_is_cookie == Some(true), checks)?;
    let identity = match credential_is_cookie {
        Some(_) => {
            let found = checks.identify(headers).await?;
            Some(found.ok_or_else(Error::unauthorized)?)
        }
        None if checks.on_missing_credential() == MissingCredential::Refused => {
            return Err(Error::unauthorized().into());
        }
        None => None,
    };
    checks.count(identity.as_ref()).await?;
    let mut answer = vec![(
        HeaderName::from_static("sec-websocket-accept"),
        accept(key.as_bytes()),
    )];
    if offers_protocol(headers)? {
        answer.push((SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(PROTOCOL)));
    }
    Ok(Accepted {
        pending: identity.is_none() && checks.on_missing_credential() == MissingCredential::Pending,
        identity,
        headers: answer,
    })
}

fn check_no_query(query: Option<&str>) -> Result<()> {
    let names: Vec<&str> = query
        .unwrap_or("")
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| pair.split_once('=').map_or(pair, |(name, _)| name))
        .collect();
    if names.is_empty() {
        return Ok(());
    }
    let details = names
        .into_iter()
        .take(20)
        .map(|name| {
            let name: String = name.chars().take(64).collect();
            Problem::new(
                format!("query:{name}"),
                "unknown_parameter",
                "is not a parameter of this path",
            )
        })
        .collect();
    Err(Error::new(Code::UnknownParameter, "Unknown query parameters").with_details(details))
}

/// Returns the value of a header. Returns `None` if it is absent, repeated or not ASCII.
fn single_value(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value.trim())
}

fn version_and_key(headers: &HeaderMap) -> Result<&str, Refusal> {
    const VERSION: &str = "13";
    let mut problems = Vec::new();
    if single_value(headers, SEC_WEBSOCKET_VERSION) != Some(VERSION) {
        let path = "header:Sec-WebSocket-Version";
        problems.push(Problem::new(path, "enum", "must be 13"));
    }
    let key = single_value(headers, SEC_WEBSOCKET_KEY).filter(|key| {
        let mut bytes = [0; 18];
        matches!(STANDARD.decode_slice(key, &mut bytes), Ok(16))
    });
    match key {
        Some(key) if problems.is_empty() => return Ok(key),
        Some(_) => {}
        None => {
            let path = "header:Sec-WebSocket-Key";
            problems.push(Problem::new(path, "format", "must be 16 bytes in base64"));
        }
    }
    Err(Refusal {
        error: Error::validation(problems),
        headers: vec![(SEC_WEBSOCKET_VERSION, HeaderValue::from_static(VERSION))],
    })
}

fn check_origin(
    headers: &HeaderMap,
    credential_is_cookie: bool,
    checks: &dyn HandshakeChecks,
) -> Result<()> {
    let allowed = if headers.contains_key(ORIGIN) {
        single_value(headers, ORIGIN).is_some_and(|origin| checks.admits_origin(origin))
    } else {
        // A browser sends `Origin` with every handshake. A cookie without it comes from another
        // program.
        !credential_is_cookie
    };
    if allowed {
        return Ok(());
    }
    Err(Error::new(
        Code::Other(403, "origin_not_allowed"),
        "Pages of this origin may not connect",
    ))
}

/// Whether the client offers the protocol by name.
fn offers_protocol(headers: &HeaderMap) -> Result<bool> {
    let mut offered = headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter().peekable();
    if offered.peek().is_none() {
        return Ok(false);
    }
    let found = offered
        .filter_map(|value| value.to_str().ok())
        .flat_map(|list| list.split(','))
        .any(|name| name.trim() == PROTOCOL);
    if found {
        return Ok(true);
    }
    Err(Error::invalid(Problem::new(
        "header:Sec-WebSocket-Protocol",
        "enum",
        format!("must offer {PROTOCOL}, or be absent"),
    )))
}

/// Returns the value of `Sec-WebSocket-Accept` for a key, as RFC 6455 defines it.
fn accept(key: &[u8]) -> HeaderValue {
    const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
    let hash = Sha1::new().chain_update(key).chain_update(GUID).finalize();
    // Base64 is valid in a header.
    HeaderValue::from_str(&STANDARD.encode(hash)).unwrap_or(HeaderValue::from_static(""))
}

#[cfg(test)]
#[path = "handshake_tests.rs"]
mod tests;
