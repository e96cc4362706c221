//! The connection to the server, and its addresses.

use std::time::Duration;

use async_nats::connection::State as ConnectionState;
use async_nats::{
    Client, ConnectErrorKind, ConnectOptions, Event, HeaderMap, Message, Request, RequestErrorKind,
    ServerAddr,
};
use bytes::Bytes;
use percent_encoding::percent_decode_str;
use tokio::sync::mpsc;

use super::{Inner, NatsEngineOptions, RECONNECT, REQUEST_TIMEOUT, STEP_TIMEOUT, State};
use crate::engine::{EngineError, Result};

/// The delay before the next attempt to connect. It doubles up to [`MAX_RETRY`].
const FIRST_RETRY: Duration = Duration::from_millis(50);
const MAX_RETRY: Duration = Duration::from_secs(2);
/// The maximum number of messages of a subscription that wait for the engine. If there are more,
/// the engine reads the frames from their streams.
const MAX_WAITING: usize = 1024;
/// The oldest version of the server that the engine supports.
const MIN_VERSION: (i64, i64, i64) = (2, 10, 0);
/// The minimum of the server's `max_payload` in bytes. The engine refuses a server with a lower
/// limit.
const MIN_PAYLOAD: usize = 1 << 20;

/// The addresses of the servers, and the credentials separately, because the driver logs the
/// addresses.
pub(super) struct Address {
    servers: Vec<ServerAddr>,
    /// Whether all connections are encrypted, even those to servers of the cluster that have no
    /// address here. Otherwise the driver could send the credentials to such a server as plain
    /// text.
    encrypted: bool,
    credentials: Credentials,
}

enum Credentials {
    None,
    Token(String),
    Password(String, String),
}

fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

impl Address {
    pub(super) fn new(options: &NatsEngineOptions) -> Result<Self> {
        let (mut servers, mut credentials) = (Vec::new(), Credentials::None);
        for text in &options.urls {
            // The driver's error could contain the address, and so the password.
            let wrong = || {
                EngineError::failed(
                    "a NATS URL is not valid: write `nats://host:port`, or `tls://host:port` for \
                     an encrypted connection",
                )
            };
            let mut url = text
                .parse::<ServerAddr>()
                .map_err(|_| wrong())?
                .into_inner();
            if !matches!(url.scheme(), "nats" | "tls") || url.host_str().is_none_or(str::is_empty) {
                return Err(wrong());
            }
            match (url.username(), url.password()) {
                ("", None) => {}
                (token, None) => credentials = Credentials::Token(decoded(token)),
                (user, Some(password)) => {
                    credentials = Credentials::Password(decoded(user), decoded(password));
                }
            }
            let removed = url.set_username("").and_then(|()| url.set_password(None));
            removed.map_err(|()| wrong())?;
            servers.push(ServerAddr::from_url(url).map_err(|_| wrong())?);
        }
        if servers.is_empty() {
            return Err(EngineError::failed("give at least one NATS URL"));
        }
        let encrypted = servers.iter().any(ServerAddr::tls_required);
        if servers
            .iter()
            .any(|server| server.tls_required() != encrypted)
        {
            return Err(EngineError::failed(
                "the NATS URLs must all begin with `nats://` or all with `tls://`",
            ));
        }
        Ok(Self {
            servers,
            encrypted,
            credentials,
        })
    }

    /// Connects. Events of the connection go to `events`.
    pub(super) async fn connect(&self, events: mpsc::UnboundedSender<Event>) -> Result<Client> {
        let mut options = ConnectOptions::new()
            .name("linchpin")
            .require_tls(self.encrypted)
            .connection_timeout(REQUEST_TIMEOUT)
            .request_timeout(Some(REQUEST_TIMEOUT))
            .subscription_capacity(MAX_WAITING)
            .ping_interval(Duration::from_secs(15))
            .reconnect_delay_callback(|attempt| match attempt {
                0 | 1 => Duration::ZERO,
                attempt => {
                    let doubled = u32::try_from(attempt - 2).unwrap_or(u32::MAX).min(10);
                    (FIRST_RETRY * 2_u32.pow(doubled)).min(MAX_RETRY)
                }
            })
            .event_callback(move |event| {
                // After the engine is closed, no task receives the event.
                let _ = events.send(event);
                std::future::ready(())
            });
        options = match &self.credentials {
            Credentials::None => options,
            Credentials::Token(token) => options.token(token.clone()),
            Credentials::Password(user, password) => {
                options.user_and_password(user.clone(), password.clone())
            }
        };
        // The driver has no time limit for DNS lookups.
        let limit = REQUEST_TIMEOUT * u32::try_from(self.servers.len() + 1).unwrap_or(u32::MAX);
        let client = tokio::time::timeout(limit, options.connect(&self.servers))
            .await
            .map_err(|_| no_answer())?
            .map_err(|error| match error.kind() {
                ConnectErrorKind::Authentication | ConnectErrorKind::AuthorizationViolation => {
                    EngineError::failed("the NATS server refuses the credentials of the URL")
                }
                ConnectErrorKind::ServerParse => EngineError::failed(error),
                _ => EngineError::unavailable(error),
            })?;
        check_server(&client)?;
        Ok(client)
    }
}

/// Refuses a server that is too old, that cannot store streams, or whose `max_payload` is too low.
fn check_server(client: &Client) -> Result<()> {
    let info = client.server_info();
    let (major, minor, patch) = MIN_VERSION;
    if !client.is_server_compatible(major, minor, patch) {
        return Err(EngineError::failed(format!(
            "the server is NATS {}, and the engine needs {major}.{minor} or newer",
            info.version
        )));
    }
    if !info.jetstream {
        return Err(no_jetstream());
    }
    if info.max_payload < MIN_PAYLOAD {
        return Err(EngineError::failed(format!(
            "the NATS server accepts messages of at most {} bytes, and the engine needs \
             {MIN_PAYLOAD}: raise `max_payload` of the server",
            info.max_payload
        )));
    }
    Ok(())
}

pub(super) fn no_jetstream() -> EngineError {
    EngineError::failed(
        "the NATS server has no JetStream: start it with `--jetstream`, or enable JetStream for \
         the account",
    )
}

pub(super) fn no_answer() -> EngineError {
    EngineError::unavailable("the NATS server does not answer")
}

/// Runs a step that needs several requests or waits for other calls, with a time limit.
pub(super) async fn in_time<T>(step: impl Future<Output = T>) -> Result<T> {
    let ended = tokio::time::timeout(STEP_TIMEOUT, step).await;
    ended.map_err(|_| no_answer())
}

/// Returns whether a client has a connection now, and the number of its connections so far.
pub(super) fn status(client: &Client) -> (bool, u64) {
    let connects = client.statistics();
    let connects = connects.connects.load(std::sync::atomic::Ordering::Relaxed);
    let connected = client.connection_state() == ConnectionState::Connected;
    (connected, connects)
}

/// The answer to a request.
pub(super) enum Answer {
    Message(Message),
    /// No subscriber listens to the subject.
    NoResponder,
}

impl Inner {
    /// Returns the client and the number of its connection. Waits a short time for a new
    /// connection.
    pub(super) async fn client(&self) -> Result<(Client, u64)> {
        let mut state = self.state.subscribe();
        let known = state.wait_for(|state| !matches!(state, State::Disconnected));
        match tokio::time::timeout(RECONNECT, known).await {
            Ok(Ok(state)) => match &*state {
                State::Connected(client, number) => Ok((client.clone(), *number)),
                State::Disconnected | State::Closed => {
                    Err(EngineError::unavailable("the engine is closed"))
                }
            },
            Ok(Err(_)) => Err(EngineError::unavailable("the engine is closed")),
            Err(_) => Err(EngineError::unavailable(
                "there is no connection to the NATS server",
            )),
        }
    }

    /// Sends a request that may be repeated, and waits for the answer. If the connection is lost
    /// before the answer, the request is sent again over the next one.
    pub(super) async fn request(
        &self,
        subject: &str,
        headers: HeaderMap,
        payload: Bytes,
    ) -> Result<Answer> {
        let repeated = async {
            loop {
                let (headers, payload) = (headers.clone(), payload.clone());
                if let Some(answer) = self.request_once(subject, headers, payload).await? {
                    return Ok(answer);
                }
            }
        };
        let repeated = tokio::time::timeout(REQUEST_TIMEOUT, repeated).await;
        repeated.unwrap_or_else(|_| Err(no_answer()))
    }

    /// Sends a request, and waits for the answer on the same connection. Returns `None` if the
    /// connection was lost. The server may then have executed the request.
    pub(super) async fn request_once(
        &self,
        subject: &str,
        headers: HeaderMap,
        payload: Bytes,
    ) -> Result<Option<Answer>> {
        let (client, own) = self.client().await?;
        let bytes = payload.len();
        let request = Request::new().headers(headers).payload(payload);
        let refused = self.refused(subject);
        let mut state = self.state.subscribe();
        let lost =
            state.wait_for(|state| !matches!(state, State::Connected(_, number) if *number == own));
        // The driver starts its own time limit only when it takes the request from its queue. This
        // can be late, so this function has a time limit, too.
        let answer = tokio::select! {
            answer = client.send_request(subject.to_owned(), request) => answer,
            refusal = refused => return Err(refusal),
            _ = lost => return Ok(None),
            () = tokio::time::sleep(REQUEST_TIMEOUT) => return Err(no_answer()),
        };
        match answer {
            Ok(message) => Ok(Some(Answer::Message(message))),
            Err(error) => match error.kind() {
                RequestErrorKind::NoResponders => Ok(Some(Answer::NoResponder)),
                RequestErrorKind::MaxPayloadExceeded => Err(EngineError::TooLarge {
                    bytes,
                    max: client.max_payload(),
                }),
                RequestErrorKind::TimedOut => Err(no_answer()),
                _ => Err(EngineError::unavailable(error)),
            },
        }
    }

    /// Waits until the server refuses a message to a subject. The server reports a refusal as an
    /// event that names only the subject, not as an answer to the request.
    fn refused(&self, subject: &str) -> impl Future<Output = EngineError> + use<> {
        let quoted_subject = format!("\"{}\"", subject.to_ascii_lowercase());
        let mut refusals = self.refusals.subscribe();
        async move {
            while refusals.changed().await.is_ok() {
                let refusal = refusals.borrow_and_update().clone();
                if refusal.to_ascii_lowercase().contains(&quoted_subject) {
                    let text = format!("the NATS server refuses a message: {refusal}");
                    return EngineError::failed(text);
                }
            }
            std::future::pending().await
        }
    }

    /// Publishes a message that is not stored.
    pub(super) async fn publish(&self, subject: String, kind: u8, message: &Bytes) -> Result<()> {
        crate::engine::check_message(message)?;
        let (client, _) = self.client().await?;
        let mut text = Vec::with_capacity(message.len() + 1);
        text.push(kind);
        text.extend_from_slice(message);
        let sent = client.publish(subject, text.into());
        match tokio::time::timeout(REQUEST_TIMEOUT, sent).await {
            Ok(sent) => sent.map_err(EngineError::unavailable),
            Err(_) => Err(no_answer()),
        }
    }
}
