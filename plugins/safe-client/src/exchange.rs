//! One request and its response, on a connection that is used only for them.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, timeout_at};

use crate::connect::Link;
use crate::error::{Failure, Phase};
use crate::target::Target;

/// The maximum number of bytes of the head of a response.
const MAX_HEAD_BYTES: usize = 16 * 1024;
/// The maximum number of headers of a response.
const MAX_HEADERS: usize = 100;
/// The maximum number of bytes that are read of a response's body.
const MAX_BODY_BYTES: usize = 64 * 1024;

/// A request.
#[derive(Debug, Clone)]
pub struct Outgoing {
    /// The URL, as the untrusted source gave it.
    pub url: String,
    /// The method.
    pub method: Method,
    /// The headers, without `host`, `content-length`, `connection` and `user-agent`.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
    /// How long the whole attempt may take; 15 s by default.
    pub timeout: Duration,
}

impl Outgoing {
    /// A POST of `body` with the type `application/json`.
    pub fn post(url: impl Into<String>, body: impl Into<Bytes>) -> Self {
        let json = HeaderValue::from_static("application/json");
        Self {
            url: url.into(),
            method: Method::POST,
            headers: HeaderMap::from_iter([(header::CONTENT_TYPE, json)]),
            body: body.into(),
            timeout: Duration::from_secs(15),
        }
    }

    /// The same request with a header.
    ///
    /// # Errors
    /// [`Failure::Header`] if only the client may set the header, or if the name or the value is
    /// invalid.
    pub fn header(mut self, name: &str, value: &str) -> Result<Self, Failure> {
        let refused = || Failure::Header(name.to_owned());
        let key: HeaderName = name.parse().map_err(|_| refused())?;
        if SET_BY_CLIENT.contains(&key.as_str()) {
            return Err(refused());
        }
        let value = HeaderValue::from_str(value).map_err(|_| refused())?;
        self.headers.append(key, value);
        Ok(self)
    }

    /// The same request with another timeout of the whole attempt.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }
}

/// Headers that only the client may set, because they describe the connection or the body.
const SET_BY_CLIENT: [&str; 10] = [
    "host",
    "connection",
    "content-length",
    "expect",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// A response.
#[derive(Debug, Clone)]
pub struct Reply {
    /// The status. A redirect is a response like any other: it is not followed.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The address of the server; `None` if the operating system no longer knows it.
    pub peer: Option<SocketAddr>,
    /// At most the first 64 KiB of the body.
    pub body: Bytes,
    /// Whether the body was longer, or took longer than the attempt may take.
    pub is_cut: bool,
}

/// Sends a request on a connection, reads the response, and closes the connection.
pub(crate) async fn exchange(
    link: Link,
    (target, outgoing, user_agent): (&Target, Outgoing, &str),
    end: Instant,
) -> Result<Reply, Failure> {
    let (limit, peer) = (outgoing.timeout, link.peer());
    let request = request(target, outgoing, user_agent)?;
    let reply = match link {
        Link::Plain(stream) => send_on(stream, request, (limit, end)).await,
        Link::Tls(stream) => send_on(stream, request, (limit, end)).await,
    };
    reply.map(|reply| Reply { peer, ..reply })
}

fn request(
    target: &Target,
    outgoing: Outgoing,
    user_agent: &str,
) -> Result<Request<Full<Bytes>>, Failure> {
    let mut request = Request::new(Full::new(outgoing.body));
    *request.method_mut() = outgoing.method;
    *request.uri_mut() = target.path.clone();
    *request.headers_mut() = outgoing.headers;
    for name in SET_BY_CLIENT {
        if request.headers().contains_key(name) {
            return Err(Failure::Header(name.to_owned()));
        }
    }
    let value = |name: &str, text: &str| {
        HeaderValue::from_str(text).map_err(|_| Failure::Header(name.to_owned()))
    };
    let headers = request.headers_mut();
    headers.insert(header::HOST, value("host", &target.authority)?);
    headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    if !headers.contains_key(header::USER_AGENT) {
        headers.insert(header::USER_AGENT, value("user-agent", user_agent)?);
    }
    Ok(request)
}

async fn send_on<S>(
    stream: S,
    request: Request<Full<Bytes>>,
    (limit, end): (Duration, Instant),
) -> Result<Reply, Failure>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let timed_out = |_| Failure::Timeout(limit, Phase::Response);
    let (mut sender, connection) = http1::Builder::new()
        .max_buf_size(MAX_HEAD_BYTES)
        .max_headers(MAX_HEADERS)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(failure)?;
    // The task ends with the attempt, even if the server never responds.
    let task = AbortOnDrop(tokio::spawn(connection));
    let answered = timeout_at(end, sender.send_request(request)).await;
    let response = answered.map_err(timed_out)?.map_err(failure)?;
    let (head, body) = response.into_parts();
    let (body, is_cut) = read(body, end).await?;
    drop(task);
    Ok(Reply {
        status: head.status,
        headers: head.headers,
        peer: None,
        body,
        is_cut,
    })
}

/// A task that is aborted on drop.
struct AbortOnDrop<T>(tokio::task::JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Reads a body up to the maximum or until the end of the attempt. Returns whether it was cut off.
async fn read(mut body: Incoming, end: Instant) -> Result<(Bytes, bool), Failure> {
    let mut all = BytesMut::new();
    loop {
        let Ok(frame) = timeout_at(end, body.frame()).await else {
            return Ok((all.freeze(), true));
        };
        let Some(frame) = frame else {
            return Ok((all.freeze(), false));
        };
        // If the connection breaks within the body, the response without the rest is returned.
        let Ok(frame) = frame else {
            return Ok((all.freeze(), true));
        };
        let Ok(data) = frame.into_data() else {
            continue;
        };
        let room = MAX_BODY_BYTES - all.len();
        all.extend_from_slice(&data[..data.len().min(room)]);
        if data.len() > room {
            return Ok((all.freeze(), true));
        }
    }
}

fn failure(error: hyper::Error) -> Failure {
    if error.is_parse_too_large() {
        return Failure::HeadersTooLarge;
    }
    Failure::Protocol(error.to_string())
}
