//! The page to change the address of the account. The link in the mail leads to another page, which
//! completes the change.

use axum::body::Body;
use axum::http::Response;
use linchpin::{Error, Result, axum};
use maud::html;

use super::account::security_page;
use super::layout::{Field, Width};
use super::visit::{Visit, go, with};
use crate::entities::User;
use crate::error::STEP_UP_REQUIRED;
use crate::flow::Need;
use crate::routes::email::{self, ChangeEmailInput};

/// The path of the page.
pub(super) const PATH: &str = "/email";

/// The account whose address may be changed now; `None` if nobody is signed in.
async fn owner(visit: &Visit) -> Result<Option<User>> {
    let Some(known) = visit.active()? else {
        return Ok(None);
    };
    let user = visit
        .core
        .users
        .get(&visit.client.cx(), known.user_id.as_str())
        .await?
        .ok_or_else(Error::unauthorized)?;
    // Checked before the form is shown, so that no user fills in a form that is refused.
    visit
        .core
        .require(&visit.client, known, &user, Need::ProofButMail)?;
    Ok(Some(user))
}

pub(super) async fn email(visit: Visit) -> Result<Response<Body>> {
    match owner(&visit).await {
        Ok(None) => Ok(visit.to_sign_in()),
        Ok(Some(user)) => email_page(&visit, &user, None),
        Err(error) => refused(&visit, &error).await,
    }
}

fn email_page(visit: &Visit, user: &User, error: Option<&Error>) -> Result<Response<Body>> {
    let new = Field {
        name: "email",
        label: "New email address",
        kind: "email",
        autocomplete: "email",
        value: visit.form.get("email"),
        first: true,
        ..Field::TEXT
    };
    let form = visit.form(PATH, html! { (new.show(error)) button { "Send the link" } })?;
    let content = html! {
        section.card {
            h1 { "Change your email address" }
            p.lead {
                "We send a link to the new address. The address changes when you open the link."
                @if let Some(email) = &user.email {
                    " Until then "
                    strong { (email) }
                    " stays in use, and we notify it by email."
                }
            }
            (visit.notice(error))
            (form)
        }
        p.foot { a href=(visit.page("/security")) { "Cancel" } }
    };
    visit.show("Change your email address", Width::Narrow, content, error)
}

async fn refused(visit: &Visit, error: &Error) -> Result<Response<Body>> {
    if error.code() == STEP_UP_REQUIRED {
        return Ok(go(&with(
            &visit.page("/confirm"),
            "returnTo",
            &visit.page(PATH),
        )));
    }
    security_page(visit, Some(error)).await
}

pub(super) async fn asking(visit: Visit) -> Result<Response<Body>> {
    let user = match owner(&visit).await {
        Ok(None) => return Ok(visit.to_sign_in()),
        Ok(Some(user)) => user,
        Err(error) => return refused(&visit, &error).await,
    };
    let email = visit.form.get("email").to_owned();
    let input = ChangeEmailInput {
        email,
        method: None,
        code: None,
        password: None,
        reauth_token: None,
        webauthn_response: None,
    };
    match email::change(visit.core.clone(), visit.call(&[])?, input).await {
        Ok(_) => Ok(visit.done("/security", "email-asked")),
        Err(error) => email_page(&visit, &user, Some(&error)),
    }
}
