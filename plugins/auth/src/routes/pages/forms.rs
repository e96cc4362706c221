//! Checks that a form is from a page of the plugin and was sent on purpose.
//!
//! A form contains a token for the session of its page, or for the browser if nobody was signed in.
//! The token is bound to the handle of the session, which does not change with a refresh or a
//! step-up. So a form that was open meanwhile stays valid.

use linchpin::{Error, Result};

use super::visit::Visit;
use crate::core::Core;
use crate::error::{CSRF_FAILED, refuse};
use crate::session::csrf;

const SESSION: &str = "session";
const BROWSER: &str = "browser";

/// The owner of a form.
#[derive(Clone, Copy)]
pub(super) enum Owner<'a> {
    /// The session with this handle.
    Session(&'a str),
    /// A browser, by the value of its cookie.
    Browser(&'a str),
}

impl Owner<'_> {
    fn kind(self) -> &'static str {
        match self {
            Self::Session(_) => SESSION,
            Self::Browser(_) => BROWSER,
        }
    }

    /// The signed text. It contains a space, which no `sid` has, so the tokens of JSON routes are
    /// different.
    fn subject(self) -> String {
        let (Self::Session(name) | Self::Browser(name)) = self;
        format!("{} {name}", self.kind())
    }

    /// Creates the token of a form.
    ///
    /// # Errors
    /// If the random source fails.
    pub(super) fn token(self, core: &Core) -> Result<String> {
        Ok(format!(
            "{}.{}",
            self.kind(),
            csrf::make(&core.env, &core.ring, &self.subject())?
        ))
    }

    fn matches(self, token: &str, core: &Core) -> bool {
        let (kind, token) = token.split_once('.').unwrap_or_default();
        kind == self.kind() && csrf::is_token_of(token, &self.subject(), &core.ring)
    }
}

/// The result of the check.
pub(super) enum Form {
    /// The current user sent the form on purpose.
    Intended,
    /// The form belongs to a session of this browser whose access token has expired. The session
    /// may be renewed.
    Expired,
    /// The form was opened before the user signed in in another window.
    Outdated,
}

impl Visit {
    /// Checks the form of the request. `renewable` is the session that the browser may renew, if
    /// nobody is signed in.
    ///
    /// # Errors
    /// 403 `csrf_failed` if the form is from no page of this session or this browser.
    pub(super) async fn check(&self, renewable: Option<&str>) -> Result<Form> {
        if let Err(refusal) = self.core.csrf.may_sign_in(self.headers()) {
            return Err(self.forged(refusal).await);
        }
        let token = self.form.get("csrf");
        let is_of = |owner: Owner<'_>| owner.matches(token, &self.core);
        let of_browser = self.is_of_browser(token);
        match (&self.known, renewable) {
            (Some(known), _) if is_of(Owner::Session(&known.handle)) => Ok(Form::Intended),
            (Some(_), _) if of_browser => Ok(Form::Outdated),
            (None, _) if of_browser => Ok(Form::Intended),
            // A form of any other session is refused.
            (None, Some(handle)) if is_of(Owner::Session(handle)) => Ok(Form::Expired),
            // The session of the form cannot be checked, so its action is not performed. The user
            // is redirected to the sign-in page.
            (None, None)
                if token
                    .split_once('.')
                    .is_some_and(|(kind, _)| kind == SESSION) =>
            {
                Ok(Form::Expired)
            }
            _ => Err(self.forged(refuse(CSRF_FAILED)).await),
        }
    }

    /// Whether the form belongs to the session with this handle.
    pub(super) fn is_form_of(&self, handle: &str) -> bool {
        Owner::Session(handle).matches(self.form.get("csrf"), &self.core)
    }

    /// Whether the token was created for this browser while nobody was signed in.
    pub(super) fn is_of_browser(&self, token: &str) -> bool {
        self.browser()
            .is_some_and(|browser| Owner::Browser(browser).matches(token, &self.core))
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
