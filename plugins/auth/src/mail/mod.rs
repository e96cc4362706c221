//! Mail: mailers, templates and kinds. The outbox stores mail until it is sent.

mod kinds;
mod local;
#[cfg(feature = "smtp")]
mod smtp;
mod template;

use std::collections::BTreeMap;
use std::fmt;

use linchpin::{BoxFuture, Result};
use serde::Serialize;

pub use kinds::MailKind;
pub use local::{ConsoleMailer, FileMailer};
#[cfg(feature = "smtp")]
pub use smtp::SmtpMailer;
pub use template::{Template, Templates};

/// A mail for a [`Mailer`]. It may contain a link or a code that signs in, so `Debug` prints only
/// its kind.
#[derive(Clone, PartialEq, Eq, Serialize)]
pub struct Mail {
    /// The address of the recipient.
    pub to: String,
    /// The kind of the mail.
    pub kind: MailKind,
    /// The recipient's preferred language as a tag such as `de-CH`, from `locale` in the account's
    /// `userMetadata`. `None` if it is not set, and for an address without an account, because the
    /// request may come from another person. Templates have one language; a [`Mailer`] may choose
    /// texts by this tag.
    pub locale: Option<String>,
    /// The subject: one line.
    pub subject: String,
    /// The plain text body.
    pub text: String,
    /// The HTML body.
    pub html: String,
    /// The variables of the template.
    pub vars: BTreeMap<String, String>,
}

impl fmt::Debug for Mail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mail")
            .field("kind", &self.kind)
            .finish_non_exhaustive()
    }
}

/// Sends mail.
pub trait Mailer: Send + Sync + 'static {
    /// Sends a mail. After an error the mail is sent again later.
    fn send(&self, mail: Mail) -> BoxFuture<'_, Result<()>>;

    /// Whether the mailer shows mail to the operator of the app. Production refuses such a mailer.
    fn is_for_development(&self) -> bool {
        false
    }
}
