//! Mail: who sends it and what it says. The outbox sees to it that none is lost.

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

/// A mail as it is sent. It may hold a link or a code that lets somebody in, so nothing of it is
/// printed.
#[derive(Clone, PartialEq, Eq, Serialize)]
pub struct Mail {
    /// The address.
    pub to: String,
    /// What it is about.
    pub kind: MailKind,
    /// The language its reader prefers, a tag such as `de-CH`: what the account's `userMetadata`
    /// has as `locale`. `None` where it says nothing of the kind, and for whoever has no account
    /// yet: the language of a request may be that of somebody else. Templates are in one language;
    /// a [`Mailer`] may choose its own words by this.
    pub locale: Option<String>,
    /// One line.
    pub subject: String,
    /// The body for every reader.
    pub text: String,
    /// The same for those who read HTML.
    pub html: String,
    /// What the bodies were made from.
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
    /// Sends one. It is asked again, later, when it answers an error.
    fn send(&self, mail: Mail) -> BoxFuture<'_, Result<()>>;

    /// Whether it shows mail to whoever runs the app: such a mailer keeps production from starting.
    fn is_for_development(&self) -> bool {
        false
    }
}
