//! Pages to delete the account and to cancel the deletion.

use axum::body::Body;
use axum::http::Response;
use linchpin::{Error, Result, axum};
use maud::html;

use super::account::security_page;
use super::layout::Width;
use super::mailed::{Simple, token, token_field};
use super::texts;
use super::visit::{Answered, Visit, go, with};
use crate::error::STEP_UP_REQUIRED;
use crate::routes::deletion::{self, DeleteInput};
use crate::routes::shapes::CancelInput;

const KEEP_PAGE: Simple = Simple {
    title: "Keep your account",
    lead: "Your account is scheduled for deletion. Confirm to cancel the deletion.",
    path: "/keep",
    button: "Keep my account",
};

/// The page of an account whose deletion is scheduled. Its only action is to cancel the deletion.
pub(super) fn scheduled_deletion_page(
    visit: &Visit,
    due: linchpin::Timestamp,
    error: Option<&Error>,
) -> Result<Response<Body>> {
    let form = visit.form("/keep", html! { button { "Keep my account" } })?;
    let content = html! {
        section.card {
            h1 { "Your account will be deleted" }
            p.lead { "On " (texts::time(due)) ". Until then you can keep it." }
            (visit.notice(error))
            (form)
        }
    };
    visit.show(
        "Your account will be deleted",
        Width::Narrow,
        content,
        error,
    )
}

pub(super) async fn delete(visit: Visit) -> Result<Response<Body>> {
    if visit.known.is_none() {
        return Ok(visit.to_sign_in());
    }
    let form = visit.form("/delete", html! { button.danger { "Delete my account" } })?;
    let grace = visit
        .core
        .config
        .auth
        .account_deletion
        .grace_seconds
        .div_ceil(86_400);
    let when = match grace {
        0 => html! { "This cannot be undone." },
        days => {
            html! {
                "You have "
                (usize::try_from(days).unwrap_or(usize::MAX))
                " days to change your mind; then it cannot be undone."
            }
        }
    };
    let content = html! {
        section.card {
            h1 { "Delete your account?" }
            p.lead { "All other sessions will be ended. " (when) }
            (form)
        }
        p.foot { a href=(visit.page("/security")) { "Keep it" } }
    };
    visit.show("Delete your account?", Width::Narrow, content, None)
}

pub(super) async fn deleting(visit: Visit) -> Result<Response<Body>> {
    let done = async {
        let Some(_) = visit.active()? else {
            return Ok(None);
        };
        let input = DeleteInput {
            method: None,
            code: None,
            password: None,
            reauth_token: None,
            webauthn_response: None,
        };
        Answered::of(deletion::delete(visit.core.clone(), visit.call(&[])?, input).await?)
            .await
            .map(Some)
    };
    match done.await {
        Ok(None) => Ok(visit.to_sign_in()),
        Ok(Some(answered)) if answered.body["deletionScheduledFor"].is_string() => {
            Ok(go(&visit.page("/security")))
        }
        Ok(Some(answered)) => Ok(answered.add_to(visit.done("/sign-in", "deleted"))),
        Err(error) if error.code() == STEP_UP_REQUIRED => Ok(go(&with(
            &visit.page("/confirm"),
            "returnTo",
            &visit.page("/delete"),
        ))),
        Err(error) => security_page(&visit, Some(&error)).await,
    }
}

pub(super) async fn keep(visit: Visit) -> Result<Response<Body>> {
    keep_page(&visit, None)
}

fn keep_page(visit: &Visit, error: Option<&Error>) -> Result<Response<Body>> {
    KEEP_PAGE.show(visit, token_field(visit, error), None, error)
}

pub(super) async fn keeping(visit: Visit) -> Result<Response<Body>> {
    // The mailed token (which does not sign in) or the session authenticates the request.
    let token = Some(token(&visit)).filter(|token| !token.is_empty());
    if token.is_none() && visit.known.is_none() {
        return Ok(visit.to_sign_in());
    }
    let mailed = token.is_some();
    match deletion::cancel(visit.core.clone(), visit.call(&[])?, CancelInput { token }).await {
        Ok(_) => Ok(visit.done(
            if visit.known.is_some() {
                "/security"
            } else {
                "/sign-in"
            },
            "kept",
        )),
        Err(error) if mailed => keep_page(&visit, Some(&error)),
        Err(error) => security_page(&visit, Some(&error)).await,
    }
}
