//! Looking after one's account: where one is signed in, and what one signs in with.

use axum::body::Body;
use axum::http::Response;
use linchpin::{Error, Result, axum};

use super::enter::NEW_PASSWORD;
use super::html::{Html, html};
use super::layout::{Field, Width};
use super::visit::{Answered, Visit, go, with};
use super::{deletion, email, factors, passkeys, providers, words};
use crate::device;
use crate::entities::{Session, User};
use crate::error::STEP_UP_REQUIRED;
use crate::routes::shapes::SetPasswordInput;
use crate::routes::{password, sessions as session_routes};

pub(super) async fn sessions(visit: Visit) -> Result<Response<Body>> {
    sessions_page(&visit, None).await
}

async fn sessions_page(visit: &Visit, error: Option<&Error>) -> Result<Response<Body>> {
    let Some(known) = visit.enrolling()? else {
        return Ok(visit.to_sign_in());
    };
    let mut all = visit
        .core
        .active_sessions_of(&visit.client, &known.user_id, Some(&known.handle))
        .await?;
    all.sort_by_key(|session| {
        (
            session.handle != known.handle,
            std::cmp::Reverse(session.last_active_at),
        )
    });
    let others = all.len() > 1;
    let items = all
        .iter()
        .map(|session| one_session(visit, session, session.handle == known.handle))
        .collect::<Result<Vec<_>>>()?;
    let end_all = if others {
        Some(visit.form(
            "/sessions/end-others",
            html!("<button class=\"danger\">End all other sessions</button>"),
        )?)
    } else {
        None
    };
    let content = html!(
        "<h1>Sessions</h1><p class=\"lead\">Where your account is signed in. End what you do not know.</p>" (visit.notice(error))
        "<section class=\"card\"><ul class=\"list\">" (items) "</ul></section>" (end_all)
    );
    visit.show("Sessions", Width::Wide, content, error)
}

fn one_session(visit: &Visit, session: &Session, current: bool) -> Result<Html> {
    let device = device::name(session.user_agent.as_deref());
    let place = session.ip.as_deref().unwrap_or("unknown address");
    let end = if current {
        html!("<span class=\"badge\">This device</span>")
    } else {
        let id = html!("<input type=\"hidden\" name=\"id\" value=\"" (session.handle) "\">");
        visit.form(
            "/sessions/end",
            html!((id) "<button class=\"plain small\" aria-label=\"End the session of " (device) "\">End</button>"),
        )?
    };
    Ok(html!(
        "<li><div class=\"what\"><strong>" (device) "</strong><span>" (place) " · active " (words::time(session.last_active_at)) " · since "
        (words::time(session.created_at)) "</span></div>" (end) "</li>"
    ))
}

pub(super) async fn end_session(visit: Visit) -> Result<Response<Body>> {
    let done = async {
        let Some(known) = visit.active()? else {
            return Ok(None);
        };
        let own = known.handle == visit.form.get("id");
        let reply =
            session_routes::revoke(visit.core.clone(), visit.call(&[visit.form.get("id")])?)
                .await?;
        Ok(Some((own, Answered::of(reply).await?)))
    };
    match done.await {
        Ok(None) => Ok(visit.to_sign_in()),
        Ok(Some((true, answered))) => Ok(answered.carry(visit.done("/sign-in", "signed-out"))),
        Ok(Some(_)) => Ok(visit.done("/sessions", "session")),
        Err(error) => sessions_page(&visit, Some(&error)).await,
    }
}

pub(super) async fn end_others(visit: Visit) -> Result<Response<Body>> {
    let done = async {
        let Some(_) = visit.active()? else {
            return Ok(None);
        };
        session_routes::revoke_others(visit.core.clone(), visit.call(&[])?)
            .await
            .map(Some)
    };
    match done.await {
        Ok(None) => Ok(visit.to_sign_in()),
        Ok(Some(_)) => Ok(visit.done("/sessions", "sessions")),
        Err(error) => sessions_page(&visit, Some(&error)).await,
    }
}

pub(super) async fn security(visit: Visit) -> Result<Response<Body>> {
    security_page(&visit, None).await
}

/// What one signs in with.
///
/// # Errors
/// When the page cannot be made.
pub(super) async fn security_page(visit: &Visit, error: Option<&Error>) -> Result<Response<Body>> {
    let Some(known) = visit.known.clone() else {
        return Ok(visit.to_sign_in());
    };
    if error.is_some_and(|error| error.code() == STEP_UP_REQUIRED) {
        // What was asked for is asked again once it is known who asks.
        return Ok(go(&with(
            &visit.page("/confirm"),
            "returnTo",
            &visit.page("/security"),
        )));
    }
    let (core, cx) = (&visit.core, visit.client.cx());
    let user = core
        .users
        .get(&cx, known.user_id.as_str())
        .await?
        .ok_or_else(Error::unauthorized)?;
    let auth = &core.config.auth;
    let password = if auth.password.enabled {
        Some(password_section(visit, &user, error)?)
    } else {
        None
    };
    let passkeys = if auth.passkeys.enabled {
        Some(passkeys::section(
            visit,
            &core.passkeys.of(&cx, &user.id).await?,
        )?)
    } else {
        None
    };
    if let Some(due) = user.deletion_due_at {
        return deletion::kept_page(visit, due, error);
    }
    let deletion = auth.account_deletion.enabled.then(|| {
        html!(
            "<section class=\"card\"><h2>Delete account</h2><p class=\"lead\">With everything that belongs to it.</p>"
            "<a class=\"button danger small\" href=\"" (visit.page("/delete")) "\">Delete account</a></section>"
        )
    });
    let factors = if auth.mfa.enabled {
        Some(factors::section(visit, &user).await?)
    } else {
        None
    };
    let providers = providers::section(visit, &user).await?;
    let content = html!(
        "<h1>Security</h1><p class=\"lead\">What you sign in with.</p>"(visit.notice(error))(who(
            visit, &user
        )?)(password)(factors)(passkeys)(providers)(deletion)
    );
    visit.show("Security", Width::Wide, content, error)
}

/// Who is signed in, and whether their address is proved.
fn who(visit: &Visit, user: &User) -> Result<Html> {
    let asks = visit.core.config.auth.email_verification.enabled;
    let state = match (&user.email, user.email_verified_at) {
        (None, _) => None,
        (Some(_), Some(_)) => Some(html!("<span class=\"badge\">Confirmed</span>")),
        (Some(_), None) if asks => Some(visit.form(
            "/verify/resend",
            html!("<button class=\"plain small\">Send confirmation mail</button>"),
        )?),
        (Some(_), None) => None,
    };
    let change = asks.then(|| {
        let label = if user.email.is_some() { "Change email address" } else { "Add an email address" };
        html!("<a class=\"button plain small\" href=\"" (visit.page(email::PATH)) "\">" (label) "</a>")
    });
    let email = user
        .email
        .as_ref()
        .filter(|email| **email != user.identifier_display)
        .map(|email| html!("<span>" (email) "</span>"));
    let name = user
        .display_name
        .as_ref()
        .map(|name| html!("<span>" (name) "</span>"));
    Ok(html!(
        "<section class=\"card\"><h2>Account</h2><ul class=\"list\"><li><div class=\"what\"><strong>" (user.identifier_display) "</strong>" (name) (email)
        "</div><div class=\"row\">" (state) (change) "</div></li></ul></section>"
    ))
}

fn password_section(visit: &Visit, user: &User, error: Option<&Error>) -> Result<Html> {
    let has = user.password_hash.is_some();
    let current = has.then(|| {
        Field {
            name: "currentPassword",
            label: "Current password",
            ..Field::PASSWORD
        }
        .show(error)
    });
    let new = Field {
        label: "New password",
        autocomplete: "new-password",
        hint: NEW_PASSWORD,
        ..Field::PASSWORD
    };
    // So that password managers know whose it is.
    let whose = html!("<input type=\"text\" name=\"username\" value=\"" (user.identifier_display) "\" autocomplete=\"username\" hidden>");
    let button = if has {
        html!("<button class=\"small\">Change password</button>")
    } else {
        html!("<button class=\"small\">Set a password</button>")
    };
    let form = visit.form(
        "/security/password",
        html!((whose)(current)(new.show(error))(button)),
    )?;
    Ok(
        html!("<section class=\"card\"><h2>Password</h2><p class=\"lead\">Changing it signs you out everywhere else.</p>" (form) "</section>"),
    )
}

pub(super) async fn set_password(visit: Visit) -> Result<Response<Body>> {
    let done = async {
        let Some(_) = visit.active()? else {
            return Ok(None);
        };
        let input = SetPasswordInput {
            password: visit.form.get("password").to_owned(),
            current_password: visit.form.given("currentPassword"),
        };
        let reply = password::set(visit.core.clone(), visit.call(&[])?, input).await?;
        Answered::of(reply).await.map(Some)
    };
    match done.await {
        Ok(None) => Ok(visit.to_sign_in()),
        Ok(Some(answered)) => Ok(answered.carry(visit.done("/security", "password"))),
        Err(error) => security_page(&visit, Some(&error)).await,
    }
}
