//! Pages for mailed links. A link contains its token after `#`, which is not sent to servers.
//! Without JavaScript the user pastes it.

use axum::body::Body;
use axum::http::Response;
use linchpin::{Error, Result, axum};
use maud::{Markup, html};

use super::enter::{NEW_PASSWORD, identifier, signed_in, with_form_field_name};
use super::layout::{Field, Width};
use super::visit::{Visit, go};
use crate::error::INVALID_TOKEN;
use crate::onetime::Purpose;
use crate::routes::shapes::{
    EmailInput, MagicLinkInput, OptionalEmailInput, ResetInput, TokenInput,
};
use crate::routes::{concealed, mailed, password};

/// A page with one form.
pub(super) struct Simple {
    pub(super) title: &'static str,
    pub(super) lead: &'static str,
    pub(super) path: &'static str,
    pub(super) button: &'static str,
}

impl Simple {
    /// # Errors
    /// If the random source fails.
    pub(super) fn show(
        &self,
        visit: &Visit,
        fields: Markup,
        more: Option<Markup>,
        error: Option<&Error>,
    ) -> Result<Response<Body>> {
        let form = visit.form(self.path, html! { (fields) button { (self.button) } })?;
        let content = html! {
            section.card {
                h1 { (self.title) }
                p.lead { (self.lead) }
                (visit.notice(error))
                (form)
                @if let Some(more) = &more { (more) }
            }
            p.foot { a href=(visit.with_target("/sign-in")) { "Back to sign-in" } }
        };
        visit.show(self.title, Width::Narrow, content, error)
    }
}

/// The token in the form. The user may have pasted the whole link.
pub(super) fn token(visit: &Visit) -> String {
    let typed = visit.form.get("token").trim();
    typed
        .rsplit_once("#token=")
        .map_or(typed, |(_, token)| token)
        .to_owned()
}

/// The field for the token, which the script fills.
pub(super) fn token_field(visit: &Visit, error: Option<&Error>) -> Markup {
    let hint = "The link fills this in. You can also paste the whole link.";
    Field {
        name: "token",
        label: "Code from the email",
        value: visit.form.get("token"),
        hint,
        autocomplete: "one-time-code",
        ..Field::TEXT
    }
    .show(error)
}

fn email_field(visit: &Visit) -> Field<'_> {
    Field {
        name: "email",
        label: "Email address",
        kind: "email",
        autocomplete: "email",
        value: visit.form.get("email"),
        first: true,
        ..Field::TEXT
    }
}

const FORGOT: Simple = Simple {
    title: "Forgot your password?",
    lead: "Enter your email address. We send you a link to set a new password.",
    path: "/forgot",
    button: "Send the link",
};
const RESET: Simple = Simple {
    title: "Set a new password",
    lead: "All of your sessions will be ended.",
    path: "/reset",
    button: "Set password",
};
const VERIFY: Simple = Simple {
    title: "Confirm your email address",
    lead: "The email says what this does: it confirms your address, or it undoes a change of your address.",
    path: "/verify",
    button: "Confirm",
};
const LINK: Simple = Simple {
    title: "Sign in by email",
    lead: "We send you a link that signs you in. The link works once.",
    path: "/link",
    button: "Send the link",
};
const ENTER: Simple = Simple {
    title: "Sign in by email",
    lead: "The link works once.",
    path: "/enter",
    button: "Sign in",
};

pub(super) async fn forgot(visit: Visit) -> Result<Response<Body>> {
    FORGOT.show(&visit, email_field(&visit).show(None), None, None)
}

pub(super) async fn asking_for_reset(visit: Visit) -> Result<Response<Body>> {
    let input = EmailInput {
        email: visit.form.get("email").to_owned(),
    };
    match password::forgot(visit.core.clone(), visit.call(&[])?, input).await {
        Ok(_) => Ok(visit.done("/reset", "asked")),
        Err(error) => FORGOT.show(
            &visit,
            email_field(&visit).show(Some(&error)),
            None,
            Some(&error),
        ),
    }
}

fn reset_fields(visit: &Visit, error: Option<&Error>) -> Markup {
    let new = Field {
        label: "New password",
        autocomplete: "new-password",
        hint: NEW_PASSWORD,
        ..Field::PASSWORD
    };
    html! { (token_field(visit, error)) (new.show(error)) }
}

pub(super) async fn reset(visit: Visit) -> Result<Response<Body>> {
    RESET.show(&visit, reset_fields(&visit, None), None, None)
}

pub(super) async fn resetting(visit: Visit) -> Result<Response<Body>> {
    let input = ResetInput {
        token: token(&visit),
        password: visit.form.get("password").to_owned(),
    };
    match password::reset(visit.core.clone(), visit.call(&[])?, input).await {
        Ok(_) => Ok(visit.done("/sign-in", "reset")),
        Err(error) => RESET.show(
            &visit,
            reset_fields(&visit, Some(&error)),
            None,
            Some(&error),
        ),
    }
}

fn verify_page(visit: &Visit, error: Option<&Error>) -> Result<Response<Body>> {
    let email = visit.known.is_none().then(|| {
        Field {
            first: false,
            ..email_field(visit)
        }
        .show(None)
    });
    let again = visit.form(
        "/verify/resend",
        html! {
            @if let Some(email) = &email { (email) }
            button.plain { "Send the email again" }
        },
    )?;
    let again = html! {
        details {
            summary { "No email?" }
            (again)
        }
    };
    VERIFY.show(visit, token_field(visit, error), Some(again), error)
}

pub(super) async fn verify(visit: Visit) -> Result<Response<Body>> {
    verify_page(&visit, None)
}

pub(super) async fn verifying(visit: Visit) -> Result<Response<Body>> {
    if visit.core.config.auth.conceal_registration && visit.known.is_none() {
        // The link of a concealed sign-up signs in too; the link of a changed address does not.
        match concealed::verify_and_login(
            visit.core.clone(),
            visit.call(&[])?,
            TokenInput {
                token: token(&visit),
            },
        )
        .await
        {
            Err(error) if error.code() == INVALID_TOKEN => {}
            Err(error) => return verify_page(&visit, Some(&error)),
            Ok(reply) => return signed_in(&visit, reply).await,
        }
    }
    let next = if visit.known.is_some() {
        "/security"
    } else {
        "/sign-in"
    };
    match mailed::prove_mailbox(
        &visit.core,
        &visit.call(&[])?,
        TokenInput {
            token: token(&visit),
        },
    )
    .await
    {
        // All sessions have ended.
        Ok(Purpose::UndoEmail) => Ok(visit.done("/sign-in", "undone")),
        Ok(Purpose::VerifyNewEmail) => Ok(visit.done(next, "email")),
        Ok(_) => Ok(visit.done(next, "verified")),
        Err(error) => verify_page(&visit, Some(&error)),
    }
}

pub(super) async fn resending(visit: Visit) -> Result<Response<Body>> {
    let input = OptionalEmailInput {
        email: visit.form.non_empty("email"),
    };
    match mailed::resend_verification(visit.core.clone(), visit.call(&[])?, input).await {
        Ok(_) => Ok(visit.done(
            if visit.known.is_some() {
                "/security"
            } else {
                "/verify"
            },
            "sent",
        )),
        Err(error) => verify_page(&visit, Some(&error)),
    }
}

fn link_page(visit: &Visit, error: Option<&Error>) -> Result<Response<Body>> {
    let field = identifier(
        visit.core.config.auth.primary_field,
        visit.form.get("identifier"),
        true,
    );
    LINK.show(visit, field.show(error), None, error)
}

pub(super) async fn link(visit: Visit) -> Result<Response<Body>> {
    link_page(&visit, None)
}

pub(super) async fn asking_for_link(visit: Visit) -> Result<Response<Body>> {
    let input = MagicLinkInput {
        identifier: visit.form.get("identifier").to_owned(),
    };
    match mailed::magic_request(visit.core.clone(), visit.call(&[])?, input).await {
        Ok(_) => Ok(go(&super::visit::with(
            &visit.with_target("/enter"),
            "done",
            "asked",
        ))),
        Err(error) => link_page(&visit, Some(&with_form_field_name(&visit, error))),
    }
}

pub(super) async fn enter(visit: Visit) -> Result<Response<Body>> {
    ENTER.show(&visit, token_field(&visit, None), None, None)
}

pub(super) async fn entering(visit: Visit) -> Result<Response<Body>> {
    match mailed::magic_verify(
        visit.core.clone(),
        visit.call(&[])?,
        TokenInput {
            token: token(&visit),
        },
    )
    .await
    {
        Ok(reply) => signed_in(&visit, reply).await,
        Err(error) => ENTER.show(
            &visit,
            token_field(&visit, Some(&error)),
            None,
            Some(&error),
        ),
    }
}
