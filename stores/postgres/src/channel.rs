//! A notification channel of the server (`LISTEN` and `NOTIFY`).

use std::future::poll_fn;
use std::task::Poll;

use tokio::sync::Mutex;
use tokio_postgres::{AsyncMessage, Client};

use super::PostgresOptions;
use super::connect::Connector;
use linchpin_core::{Code, Error, Result};

/// The maximum length of a text in bytes. The server accepts less than 8,000 bytes.
const MAX_TEXT: usize = 7000;
/// The maximum length of an identifier on the server, in bytes.
const MAX_NAME: usize = 63;

/// Sends short texts from one process to all listeners (`LISTEN` and `NOTIFY`). Nothing is stored:
/// a text without a listener is lost. Use it for hints, not for data that must arrive.
pub struct Channel {
    connector: Connector,
    name: String,
    sender: Mutex<Option<Client>>,
}

impl std::fmt::Debug for Channel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Channel").field(&self.name).finish()
    }
}

impl Channel {
    /// Creates a channel. It connects when it is first used.
    ///
    /// # Errors
    /// If the options or the name are not valid: a name has lower-case letters, digits and
    /// underscores.
    pub fn new(options: &PostgresOptions, name: &str) -> Result<Self> {
        let valid = !name.is_empty()
            && name.len() <= MAX_NAME
            && name
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
        if !valid {
            return Err(Error::new(
                Code::Internal,
                format!(
                    "`{name}` cannot be the name of a channel: use 1 to {MAX_NAME} lower-case letters, digits and `_`"
                ),
            ));
        }
        Ok(Self {
            connector: Connector::new(options)?,
            name: name.to_owned(),
            sender: Mutex::new(None),
        })
    }

    /// Sends a text over one persistent connection.
    ///
    /// # Errors
    /// `unavailable` if the server cannot be reached; `internal` for a text that is too long.
    pub async fn notify(&self, text: &str) -> Result<()> {
        if text.len() > MAX_TEXT {
            return Err(Error::internal("a text is too long for a channel"));
        }
        let mut sender = self.sender.lock().await;
        let client = match sender.take().filter(|client| !client.is_closed()) {
            Some(client) => client,
            None => self.in_time(self.connect()).await?,
        };
        let sent = async {
            client
                .execute("SELECT pg_notify($1, $2)", &[&self.name, &text])
                .await
        };
        self.in_time(sent).await?;
        // The connection is kept only after success. After a failure or a cancellation the next
        // call connects again.
        *sender = Some(client);
        Ok(())
    }

    /// Calls `on_text` with each new text until the connection breaks.
    ///
    /// # Errors
    /// Always `unavailable`: the function returns only after the connection has broken.
    pub async fn listen(&self, on_text: &(dyn Fn(&str) + Send + Sync)) -> Result<()> {
        let (client, mut connection) = self.in_time(self.connector.connect_to_listen()).await?;
        let listen = async move {
            let listening = client
                .batch_execute(&format!("LISTEN \"{}\"", self.name))
                .await;
            (client, listening)
        };
        let mut listen = std::pin::pin!(listen);
        let mut open_client = None;
        poll_fn(|cx| {
            loop {
                if open_client.is_none()
                    && let Poll::Ready((client, listening)) = listen.as_mut().poll(cx)
                {
                    // The client is kept, because dropping it closes the connection.
                    open_client = Some(client);
                    if let Err(error) = listening {
                        return Poll::Ready(Err(Error::unavailable(error)));
                    }
                }
                match connection.poll_message(cx) {
                    Poll::Ready(Some(Ok(AsyncMessage::Notification(sent)))) => {
                        on_text(sent.payload());
                    }
                    Poll::Ready(Some(Ok(_))) => {}
                    Poll::Ready(Some(Err(error))) => {
                        return Poll::Ready(Err(Error::unavailable(error)));
                    }
                    Poll::Ready(None) => {
                        return Poll::Ready(Err(Error::unavailable("the connection has ended")));
                    }
                    Poll::Pending => return Poll::Pending,
                }
            }
        })
        .await
    }

    async fn connect(&self) -> std::result::Result<Client, tokio_postgres::Error> {
        let (client, connection) = self.connector.connect().await?;
        tokio::spawn(connection);
        Ok(client)
    }

    async fn in_time<T>(
        &self,
        work: impl Future<Output = std::result::Result<T, tokio_postgres::Error>>,
    ) -> Result<T> {
        match tokio::time::timeout(self.connector.connect_timeout, work).await {
            Ok(done) => done.map_err(Error::unavailable),
            Err(_) => Err(Error::unavailable(format!(
                "no answer within {:?}",
                self.connector.connect_timeout
            ))),
        }
    }
}
