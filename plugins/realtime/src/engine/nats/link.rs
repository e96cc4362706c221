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

use super::{Inner, LIMIT, NatsEngineOptions, PATIENCE, RECONNECT, State};
use crate::engine::{EngineError, Result};

/// The time before the next attempt to connect, at first and at most.
const RETRY: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));
/// The maximum number of messages of a subscription that wait for the engine. If there are more, it
/// reads the frames from their streams.
const WAITING: usize = 1024;
/// The oldest server that has what the engine needs.
const OLDEST: (i64, i64, i64) = (2, 10, 0);
/// The minimum length of a message that the server must take.
const LEAST_PAYLOAD: usize = 1 << 20;

/// Where to connect to. The addresses are without credentials, since the driver logs them.
pub(super) struct Address {
    servers: Vec<ServerAddr>,
    /// Whether all connections are encrypted, also those to servers of the cluster that have no
    /// address here. Otherwise such a server could be sent the credentials as plain text.
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
            // The error of the driver could quote the address.
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
            .connection_timeout(PATIENCE)
            .request_timeout(Some(PATIENCE))
            .subscription_capacity(WAITING)
            .ping_interval(Duration::from_secs(15))
            .reconnect_delay_callback(|attempt| match attempt {
                0 | 1 => Duration::ZERO,
                attempt => {
                    let doubled = u32::try_from(attempt - 2).unwrap_or(u32::MAX).min(10);
                    (RETRY.0 * 2_u32.pow(doubled)).min(RETRY.1)
                }
            })
            .event_callback(move |event| {
                // After the end, nothing receives it.
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
        // The driver has no limit for the lookup of names.
        let limit = PATIENCE * u32::try_from(self.servers.len() + 1).unwrap_or(u32::MAX);
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
        check(&client)?;
        Ok(client)
    }
}

/// Refuses a server that cannot store streams.
fn check(client: &Client) -> Result<()> {
    let info = client.server_info();
    let (major, minor, patch) = OLDEST;
    if !client.is_server_compatible(major, minor, patch) {
        return Err(EngineError::failed(format!(
            "the server is NATS {}, and the engine needs {major}.{minor} or newer",
            info.version
        )));
    }
    if !info.jetstream {
        return Err(no_jetstream());
    }
    if info.max_payload < LEAST_PAYLOAD {
        return Err(EngineError::failed(format!(
            "the NATS server takes messages of at most {} bytes, and the engine needs \
             {LEAST_PAYLOAD}: raise `max_payload` of the server",
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

/// Ends a step that takes too long: it needs several requests, or waits for other calls.
pub(super) async fn in_time<T>(step: impl Future<Output = T>) -> Result<T> {
    let ended = tokio::time::timeout(LIMIT, step).await;
    ended.map_err(|_| no_answer())
}

/// Whether a client has a connection now, and the number of its connections so far.
pub(super) fn status(client: &Client) -> (bool, u64) {
    let connects = client.statistics();
    let connects = connects.connects.load(std::sync::atomic::Ordering::Relaxed);
    let connected = client.connection_state() == ConnectionState::Connected;
    (connected, connects)
}

/// The answer to a request.
pub(super) enum Answer {
    Message(Message),
    /// Nothing listens to the subject.
    Nobody,
}

impl Inner {
    /// The client, and the number of its connection; waits a moment for a new connection.
    pub(super) async fn client(&self) -> Result<(Client, u64)> {
        let mut state = self.state.subscribe();
        let known = state.wait_for(|state| !matches!(state, State::Apart));
        match tokio::time::timeout(RECONNECT, known).await {
            Ok(Ok(state)) => match &*state {
                State::Connected(client, number) => Ok((client.clone(), *number)),
                State::Apart | State::Closed => {
                    Err(EngineError::unavailable("the engine is closed"))
                }
            },
            Ok(Err(_)) => Err(EngineError::unavailable("the engine is closed")),
            Err(_) => Err(EngineError::unavailable("the server is not connected")),
        }
    }

    /// Sends a request that may be repeated, and waits for the answer. If the connection is lost
    /// before, it is sent again over the next one.
    pub(super) async fn request(
        &self,
        subject: &str,
        headers: HeaderMap,
        payload: Bytes,
    ) -> Result<Answer> {
        let asked = async {
            loop {
                let (headers, payload) = (headers.clone(), payload.clone());
                if let Some(answer) = self.request_once(subject, headers, payload).await? {
                    return Ok(answer);
                }
            }
        };
        let asked = tokio::time::timeout(PATIENCE, asked).await;
        asked.unwrap_or_else(|_| Err(no_answer()))
    }

    /// Sends a request, and waits for the answer on the same connection. `None`: the connection was
    /// lost, and the request may have been executed.
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
        // The limit of the driver begins when it takes the request. It may be busy before.
        let answer = tokio::select! {
            answer = client.send_request(subject.to_owned(), request) => answer,
            refusal = refused => return Err(refusal),
            _ = lost => return Ok(None),
            () = tokio::time::sleep(PATIENCE) => return Err(no_answer()),
        };
        match answer {
            Ok(message) => Ok(Some(Answer::Message(message))),
            Err(error) => match error.kind() {
                RequestErrorKind::NoResponders => Ok(Some(Answer::Nobody)),
                RequestErrorKind::MaxPayloadExceeded => Err(EngineError::TooLarge {
                    bytes,
                    max: client.max_payload(),
                }),
                RequestErrorKind::TimedOut => Err(no_answer()),
                _ => Err(EngineError::unavailable(error)),
            },
        }
    }

    /// Waits until the server refuses a message to a subject. A refusal is no answer to a request,
    /// and names the subject only.
    fn refused(&self, subject: &str) -> impl Future<Output = EngineError> + use<> {
        let named = format!("\"{}\"", subject.to_ascii_lowercase());
        let mut refusals = self.refusals.subscribe();
        async move {
            while refusals.changed().await.is_ok() {
                let refusal = refusals.borrow_and_update().clone();
                if refusal.to_ascii_lowercase().contains(&named) {
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
        match tokio::time::timeout(PATIENCE, sent).await {
            Ok(sent) => sent.map_err(EngineError::unavailable),
            Err(_) => Err(no_answer()),
        }
    }
}
