//! Whether a form is one of ours, and meant by who sends it.
//!
//! A form holds a token for the session it was made for, or for the browser where nobody was signed
//! in. The session is named by its handle, which stays when its tokens are renewed or its user
//! steps up: a form that was open meanwhile is as good as before.

use linchpin::{Error, Result};

use super::visit::Visit;
use crate::core::Core;
use crate::error::{CSRF_FAILED, refuse};
use crate::session::csrf;

const SESSION: &str = "session";
const BROWSER: &str = "browser";

/// Whose a form is.
#[derive(Clone, Copy)]
pub(super) enum Owner<'a> {
    /// The session of this handle.
    Session(&'a str),
    /// A browser, by what its cookie says.
    Browser(&'a str),
}

impl Owner<'_> {
    fn kind(self) -> &'static str {
        match self {
            Self::Session(_) => SESSION,
            Self::Browser(_) => BROWSER,
        }
    }

    /// What is signed. No `sid`, which tokens of JSON routes are bound to, has a space in it.
    fn subject(self) -> String {
        let (Self::Session(name) | Self::Browser(name)) = self;
        format!("{} {name}", self.kind())
    }

    /// The token of a form of theirs.
    ///
    /// # Errors
    /// When there is no randomness.
    pub(super) fn token(self, core: &Core) -> Result<String> {
        Ok(format!(
            "{}.{}",
            self.kind(),
            csrf::make(&core.env, &core.ring, &self.subject())?
        ))
    }

    fn holds(self, token: &str, core: &Core) -> bool {
        let (kind, token) = token.split_once('.').unwrap_or_default();
        kind == self.kind() && csrf::is_of(token, &self.subject(), &core.ring)
    }
}

/// What a form is worth.
pub(super) enum Form {
    /// What whoever is there wants.
    Meant,
    /// What somebody wanted who was signed in here. They are not any more, as far as this request
    /// shows; it may be renewed.
    Left,
    /// What somebody wanted who was not signed in yet, and is by now.
    Overtaken,
}

impl Visit {
    /// Judges the form that was sent. `renewable` is the session that the browser may renew, if
    /// nobody is signed in.
    ///
    /// # Errors
    /// 403 `csrf_failed` for a form that no page of ours holds, for this session or this browser.
    pub(super) async fn judge(&self, renewable: Option<&str>) -> Result<Form> {
        if let Err(refusal) = self.core.csrf.may_sign_in(self.headers()) {
            return Err(self.forged(refusal).await);
        }
        let token = self.form.get("csrf");
        let is_of = |owner: Owner<'_>| owner.holds(token, &self.core);
        let of_browser = self.is_of_browser(token);
        match (&self.known, renewable) {
            (Some(known), _) if is_of(Owner::Session(&known.handle)) => Ok(Form::Meant),
            (Some(_), _) if of_browser => Ok(Form::Overtaken),
            (None, _) if of_browser => Ok(Form::Meant),
            // A form of another session than the one to be renewed is worth as little as any.
            (None, Some(handle)) if is_of(Owner::Session(handle)) => Ok(Form::Left),
            // Whose it was cannot be known, and nothing is done for it: to be asked to sign in is
            // what they expect.
            (None, None)
                if token
                    .split_once('.')
                    .is_some_and(|(kind, _)| kind == SESSION) =>
            {
                Ok(Form::Left)
            }
            _ => Err(self.forged(refuse(CSRF_FAILED)).await),
        }
    }

    /// Whether the form that was sent is of the session of a handle.
    pub(super) fn is_form_of(&self, handle: &str) -> bool {
        Owner::Session(handle).holds(self.form.get("csrf"), &self.core)
    }

    /// Whether a token was made for this browser while nobody was signed in.
    pub(super) fn is_of_browser(&self, token: &str) -> bool {
        self.browser()
            .is_some_and(|browser| Owner::Browser(browser).holds(token, &self.core))
    }

    async fn forged(&self, refusal: Error) -> Error {
        self.core
            .forged(
                &self.client,
                self.known.as_ref(),
                &self.page(self.path()),
                refusal,
            )
            .await
    }
}
