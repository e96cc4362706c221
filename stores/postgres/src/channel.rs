//! A notification channel of the server: short texts from one process to all listeners.

use std::future::poll_fn;
use std::task::Poll;

use tokio::sync::Mutex;
use tokio_postgres::{AsyncMessage, Client};

use super::PostgresOptions;
use super::connect::Connector;
use linchpin_core::{Code, Error, Result};

/// The maximum length of a text; the server accepts less than 8000 bytes.
const LONGEST: usize = 7000;
/// The maximum length of an identifier on the server.
const NAME: usize = 63;

/// Texts from one process to all listeners (`LISTEN` and `NOTIFY`). Nothing is stored: a text
/// without a listener is lost. Use it for hints, not for data that must arrive.
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
    /// Creates a channel. It connects on first use.
    ///
    /// # Errors
    /// If the options or the name are not valid: a name has lower-case letters, digits and
    /// underscores.
    pub fn new(options: &PostgresOptions, name: &str) -> Result<Self> {
        let valid = !name.is_empty()
            && name.len() <= NAME
            && name
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
        if !valid {
            return Err(Error::new(
                Code::Internal,
                format!("`{name}` cannot be the name of a channel"),
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
        if text.len() > LONGEST {
            return Err(Error::internal("a text is too long for a channel"));
        }
        let mut sender = self.sender.lock().await;
        let client = match sender.take().filter(|client| !client.is_closed()) {
            Some(client) => client,
            None => self.patiently(self.connect()).await?,
        };
        let sent = async {
            client
                .execute("SELECT pg_notify($1, $2)", &[&self.name, &text])
                .await
        };
        self.patiently(sent).await?;
        // Kept only if it works: after a failure or a cancellation the next call connects again.
        *sender = Some(client);
        Ok(())
    }

    /// Passes on all texts from now on, until the connection breaks.
    ///
    /// # Errors
    /// `unavailable`, always: it listens until the connection breaks.
    pub async fn listen(&self, heard: &(dyn Fn(&str) + Send + Sync)) -> Result<()> {
        let (client, mut connection) = self.patiently(self.connector.connect_to_listen()).await?;
        let asked = async move {
            let listening = client
                .batch_execute(&format!("LISTEN \"{}\"", self.name))
                .await;
            (client, listening)
        };
        let mut asked = std::pin::pin!(asked);
        let mut held = None;
        poll_fn(|cx| {
            loop {
                if held.is_none()
                    && let Poll::Ready((client, listening)) = asked.as_mut().poll(cx)
                {
                    // The connection ends with its client.
                    held = Some(client);
                    if let Err(error) = listening {
                        return Poll::Ready(Err(Error::unavailable(error)));
                    }
                }
                match connection.poll_message(cx) {
                    Poll::Ready(Some(Ok(AsyncMessage::Notification(sent)))) => {
                        heard(sent.payload());
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

    async fn patiently<T>(
        &self,
        work: impl Future<Output = std::result::Result<T, tokio_postgres::Error>>,
    ) -> Result<T> {
        match tokio::time::timeout(self.connector.patience, work).await {
            Ok(done) => done.map_err(Error::unavailable),
            Err(_) => Err(Error::unavailable(format!(
                "no answer within {:?}",
                self.connector.patience
            ))),
        }
    }
}
