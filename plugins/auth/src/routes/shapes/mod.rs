//! Requests and responses.

mod account;
mod history;
mod session;
mod sign_in;

use linchpin::Embedded;

pub(crate) use account::*;
pub(crate) use history::*;
pub(crate) use session::*;
pub(crate) use sign_in::*;

/// An acknowledgement with a text for users.
#[derive(Embedded)]
pub(crate) struct Said {
    pub(crate) ok: bool,
    pub(crate) message: String,
}

/// A token from a mail.
#[derive(Embedded)]
pub(crate) struct TokenInput {
    pub(crate) token: String,
}

/// An address to go to.
#[derive(Embedded)]
pub(crate) struct SendTo {
    pub(crate) url: String,
}
