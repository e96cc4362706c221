//! Pages for the account: sessions, and the security page.

use axum::body::Body;
use axum::http::Response;
use linchpin::{Error, Result, axum};
use maud::{Markup, html};

use super::enter::NEW_PASSWORD;
use super::layout::{Field, Width};
use super::visit::{Answered, Visit, go, with};
use super::{deletion, email, factors, passkeys, providers, texts};
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
            html! { button.danger { "End all other sessions" } },
        )?)
    } else {
        None
    };
    let content = html! {
        h1 { "Sessions" }
        p.lead { "Devices on which you are signed in. End sessions that you do not recognise." }
        (visit.notice(error))
        section.card { ul.list { @for item in &items { (item) } } }
        @if let Some(end_all) = &end_all { (end_all) }
    };
    visit.show("Sessions", Width::Wide, content, error)
}

fn one_session(visit: &Visit, session: &Session, current: bool) -> Result<Markup> {
    let device = device::name(session.user_agent.as_deref());
    let place = session.ip.as_deref().unwrap_or("unknown address");
    let end = if current {
        html! { span.badge { "This device" } }
    } else {
        let id = html! { input type="hidden" name="id" value=(session.handle); };
        visit.form(
            "/sessions/end",
            html! {
                (id)
                button.plain.small aria-label={ "End the session of " (device) } { "End" }
            },
        )?
    };
    Ok(html! {
        li {
            div.what {
                strong { (device) }
                span {
                    (place)
                    " · active "
                    (texts::time(session.last_active_at))
                    " · since "
                    (texts::time(session.created_at))
                }
            }
            (end)
        }
    })
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
        Ok(Some((true, answered))) => Ok(answered.add_to(visit.done("/sign-in", "signed-out"))),
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

/// The security page: the ways to sign in.
///
/// # Errors
/// If the page cannot be rendered.
pub(super) async fn security_page(visit: &Visit, error: Option<&Error>) -> Result<Response<Body>> {
    let Some(known) = visit.known.clone() else {
        return Ok(visit.to_sign_in());
    };
    if error.is_some_and(|error| error.code() == STEP_UP_REQUIRED) {
        // After the step-up the user starts the change again.
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
        return deletion::scheduled_deletion_page(visit, due, error);
    }
    let deletion = auth.account_deletion.enabled.then(|| {
        html! {
            section.card {
                h2 { "Delete account" }
                p.lead { "Deletes the account and all of its data." }
                a.button.danger.small href=(visit.page("/delete")) { "Delete account" }
            }
        }
    });
    let factors = if auth.mfa.enabled {
        Some(factors::section(visit, &user).await?)
    } else {
        None
    };
    let providers = providers::section(visit, &user).await?;
    let content = html! {
        h1 { "Security" }
        p.lead { "Your sign-in details." }
        (visit.notice(error))
        (account_section(visit, &user)?)
        @if let Some(password) = &password { (password) }
        @if let Some(factors) = &factors { (factors) }
        @if let Some(passkeys) = &passkeys { (passkeys) }
        @if let Some(providers) = &providers { (providers) }
        @if let Some(deletion) = &deletion { (deletion) }
    };
    visit.show("Security", Width::Wide, content, error)
}

/// The identifier and address of the account, and whether the address is verified.
fn account_section(visit: &Visit, user: &User) -> Result<Markup> {
    let can_verify = visit.core.config.auth.email_verification.enabled;
    let state = match (&user.email, user.email_verified_at) {
        (None, _) => None,
        (Some(_), Some(_)) => Some(html! { span.badge { "Confirmed" } }),
        (Some(_), None) if can_verify => Some(visit.form(
            "/verify/resend",
            html! { button.plain.small { "Send confirmation email" } },
        )?),
        (Some(_), None) => None,
    };
    let change = can_verify.then(|| {
        let label = if user.email.is_some() {
            "Change email address"
        } else {
            "Add an email address"
        };
        html! { a.button.plain.small href=(visit.page(email::PATH)) { (label) } }
    });
    let email = user
        .email
        .as_ref()
        .filter(|email| **email != user.identifier_display);
    Ok(html! {
        section.card {
            h2 { "Account" }
            ul.list {
                li {
                    div.what {
                        strong { (user.identifier_display) }
                        @if let Some(name) = &user.display_name { span { (name) } }
                        @if let Some(email) = email { span { (email) } }
                    }
                    div.row {
                        @if let Some(state) = &state { (state) }
                        @if let Some(change) = &change { (change) }
                    }
                }
            }
        }
    })
}

fn password_section(visit: &Visit, user: &User, error: Option<&Error>) -> Result<Markup> {
    let has_password = user.password_hash.is_some();
    let current = has_password.then(|| {
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
    // Shows password managers which account the password belongs to.
    let username_field = html! {
        input type="text" name="username" value=(user.identifier_display)
            autocomplete="username" hidden;
    };
    let button = if has_password {
        html! { button.small { "Change password" } }
    } else {
        html! { button.small { "Set a password" } }
    };
    let form = visit.form(
        "/security/password",
        html! {
            (username_field)
            @if let Some(current) = &current { (current) }
            (new.show(error))
            (button)
        },
    )?;
    Ok(html! {
        section.card {
            h2 { "Password" }
            p.lead { "A change ends all other sessions." }
            (form)
        }
    })
}

pub(super) async fn set_password(visit: Visit) -> Result<Response<Body>> {
    let done = async {
        let Some(_) = visit.active()? else {
            return Ok(None);
        };
        let input = SetPasswordInput {
            password: visit.form.get("password").to_owned(),
            current_password: visit.form.non_empty("currentPassword"),
        };
        let reply = password::set(visit.core.clone(), visit.call(&[])?, input).await?;
        Answered::of(reply).await.map(Some)
    };
    match done.await {
        Ok(None) => Ok(visit.to_sign_in()),
        Ok(Some(answered)) => Ok(answered.add_to(visit.done("/security", "password"))),
        Err(error) => security_page(&visit, Some(&error)).await,
    }
}
