//! Mail by SMTP.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use lettre::message::{Mailbox, MultiPart};
use lettre::transport::smtp::AsyncSmtpTransportBuilder;
use lettre::{AsyncSmtpTransport, AsyncTransport, Message, Tokio1Executor};
use linchpin::{BoxFuture, Error, Result};
use tokio::runtime::Handle;
use url::{Host, Url};

use super::{Mail, Mailer};

/// Timeout of one step of the protocol.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Sends mail by SMTP, over a pool of connections.
#[derive(Clone)]
pub struct SmtpMailer(Arc<Inner>);

type Transport = AsyncSmtpTransport<Tokio1Executor>;

struct Inner {
    builder: AsyncSmtpTransportBuilder,
    from: Mailbox,
    /// The pool starts tasks, so the first mail creates it, in the Tokio runtime that sends this
    /// mail.
    pool: OnceLock<(Handle, Transport)>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some((runtime, transport)) = self.pool.take() {
            let _inside = runtime.enter();
            drop(transport);
        }
    }
}

impl fmt::Debug for SmtpMailer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SmtpMailer")
            .field("from", &self.0.from)
            .finish_non_exhaustive()
    }
}

impl SmtpMailer {
    /// A mailer for a server, with the sender `from` (such as `Accounts <accounts@example.com>`).
    ///
    /// The address of the server is `smtps://user:password@host` for TLS, or
    /// `smtp://user:password@host?tls=required` for STARTTLS. Without TLS only a server on this
    /// machine is accepted.
    ///
    /// # Errors
    /// The reason why the address or the sender is invalid. The text does not contain the password.
    pub fn new(server: &str, from: &str) -> Result<Self, String> {
        let url = Url::parse(server)
            .map_err(|e| format!("the address of the mail server is not valid: {e}"))?;
        let encrypted = match url.scheme() {
            "smtps" => true,
            "smtp" => url
                .query_pairs()
                .any(|(key, value)| key == "tls" && value == "required"),
            other => {
                return Err(format!(
                    "the address of the mail server must begin with `smtps://` or `smtp://`, not with `{other}`"
                ));
            }
        };
        if !encrypted && !is_this_machine(&url) {
            return Err(
                "mail would be sent without encryption: use `smtps://…`, or \
                 `smtp://…?tls=required`"
                    .into(),
            );
        }
        let from = from
            .parse()
            .map_err(|e| format!("the sender address of mail is not valid: {e}"))?;
        let builder = Transport::from_url(server)
            .map_err(|e| format!("the address of the mail server is not valid: {e}"))?
            .timeout(Some(TIMEOUT));
        Ok(Self(Arc::new(Inner {
            builder,
            from,
            pool: OnceLock::new(),
        })))
    }

    async fn deliver(&self, mail: Mail) -> Result<()> {
        let to: lettre::Address = mail
            .to
            .parse()
            .map_err(|_| Error::internal("the recipient of a mail is not an address"))?;
        let message = Message::builder()
            .from(self.0.from.clone())
            .to(Mailbox::new(None, to))
            .subject(mail.subject)
            // Prevents automatic replies of other programs.
            .header(AutoSubmitted)
            .multipart(MultiPart::alternative_plain_html(mail.text, mail.html))
            .map_err(Error::internal)?;
        let (_, transport) = self
            .0
            .pool
            .get_or_init(|| (Handle::current(), self.0.builder.clone().build()));
        transport
            .send(message)
            .await
            .map(|_| ())
            .map_err(Error::unavailable)
    }
}

impl Mailer for SmtpMailer {
    fn send(&self, mail: Mail) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.deliver(mail))
    }
}

fn is_this_machine(url: &Url) -> bool {
    // `Url` accepts any host in a scheme that is not a web scheme, so the host is parsed again.
    let host = url.host_str().and_then(|host| Host::parse(host).ok());
    match host {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(v4)) => v4.is_loopback(),
        Some(Host::Ipv6(v6)) => v6.is_loopback(),
        None => false,
    }
}

/// `Auto-Submitted: auto-generated` (RFC 3834).
#[derive(Clone)]
struct AutoSubmitted;

impl lettre::message::header::Header for AutoSubmitted {
    fn name() -> lettre::message::header::HeaderName {
        lettre::message::header::HeaderName::new_from_ascii_str("Auto-Submitted")
    }

    fn parse(_: &str) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        Ok(Self)
    }

    fn display(&self) -> lettre::message::header::HeaderValue {
        lettre::message::header::HeaderValue::new(Self::name(), "auto-generated".to_owned())
    }
}

#[cfg(test)]
mod tests;
