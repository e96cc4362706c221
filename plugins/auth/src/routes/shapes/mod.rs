//! What routes take and answer.

mod account;
mod history;
mod session;
mod sign_in;

use linchpin::Embedded;

pub(crate) use account::*;
pub(crate) use history::*;
pub(crate) use session::*;
pub(crate) use sign_in::*;

/// Done, with a text that may be shown.
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

/// Where somebody is to go.
#[derive(Embedded)]
pub(crate) struct SendTo {
    pub(crate) url: String,
}
