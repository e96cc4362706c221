//! Pages to sign in, sign up and sign out.

use axum::body::Body;
use axum::http::Response;
use linchpin::http::Reply;
use linchpin::{Error, Result, axum};
use maud::html;

use super::layout::{Field, Width};
use super::providers;
use super::visit::{Answered, Visit, go, with};
use crate::config::SameSite;
use crate::identity::PrimaryField;
use crate::routes::shapes::{SignInInput, SignUpInput};
use crate::routes::{account, sessions};

/// The page at the base path.
pub(super) async fn home(visit: Visit) -> Result<Response<Body>> {
    Ok(if visit.known.is_some() {
        go(&visit.target())
    } else {
        go(&visit.with_target("/sign-in"))
    })
}

pub(super) async fn sign_in(visit: Visit) -> Result<Response<Body>> {
    if visit.known.is_some() {
        // A redirect to this page may carry a message. The security page shows it instead.
        let message_page = ["done", "failed"]
            .into_iter()
            .find_map(|word| Some((word, visit.query.non_empty(word)?)));
        let message_page =
            message_page.map(|(word, value)| with(&visit.page("/security"), word, &value));
        return message_page.map_or_else(|| redirect_to_target(&visit), |to| Ok(go(&to)));
    }
    if visit.may_be_renewable() {
        return visit.repeat_from_own_page();
    }
    sign_in_page(&visit, None)
}

/// Redirects a signed-in user to the target. If another site started the navigation, browsers
/// withhold `SameSite=Strict` cookies, so the page shows a link that the user clicks.
fn redirect_to_target(visit: &Visit) -> Result<Response<Body>> {
    let strict = visit.core.config.auth.cookies.same_site == SameSite::Strict;
    if strict && visit.is_repeated() {
        visit.show_link(&visit.target())
    } else {
        Ok(go(&visit.target()))
    }
}

pub(super) fn sign_in_page(visit: &Visit, error: Option<&Error>) -> Result<Response<Body>> {
    let auth = &visit.core.config.auth;
    let password = if auth.password.enabled {
        Some(visit.form(
            "/sign-in",
            html! {
                (identifier(auth.primary_field, visit.form.get("identifier"), true).show(error))
                (Field::PASSWORD.show(error))
                button { "Sign in" }
                @if auth.resets() {
                    p.hint { a href=(visit.with_target("/forgot")) { "Forgot your password?" } }
                }
            },
        )?)
    } else {
        None
    };
    let providers = providers::buttons(visit);
    let passkey = if auth.passkeys.enabled && auth.passkeys.primary {
        Some(visit.passkey_form(
            "sign-in",
            "/passkey",
            html! {
                button class=[auth.password.enabled.then_some("plain")] { "Sign in with a passkey" }
            },
        )?)
    } else {
        None
    };
    // Passkeys need JavaScript. If they are the only other way, a script shows this `or`.
    let or = match (
        &password,
        auth.magic_link.enabled || !providers.is_empty(),
        &passkey,
    ) {
        (None, ..) | (_, false, None) => None,
        (Some(_), true, _) => Some(html! { p.or { "or" } }),
        (Some(_), false, Some(_)) => Some(html! { p.or hidden data-with-passkey { "or" } }),
    };
    let content = html! {
        section.card {
            h1 { "Sign in" }
            p.lead { "to continue to " (auth.app_name) }
            (visit.notice(error))
            @if let Some(password) = &password { (password) }
            @if let Some(or) = &or { (or) }
            div.stack {
                @for button in &providers { (button) }
                @if let Some(passkey) = &passkey { (passkey) }
                @if auth.magic_link.enabled {
                    a.button.plain href=(visit.with_target("/link")) { "Email me a sign-in link" }
                }
            }
        }
        @if auth.password.enabled {
            p.foot {
                "New here? "
                a href=(visit.with_target("/register")) { "Create an account" }
            }
        }
    };
    visit.show("Sign in", Width::Narrow, content, error)
}

/// The field for the identifier.
pub(super) fn identifier(primary: PrimaryField, value: &str, first: bool) -> Field<'_> {
    let (label, kind, autocomplete) = match primary {
        PrimaryField::Email => ("Email address", "email", "username"),
        PrimaryField::Username => ("User name", "text", "username"),
        PrimaryField::Phone => ("Phone number", "tel", "tel"),
    };
    // The field has this name for every kind of identifier. `with_form_field_name` gives the errors
    // of the JSON route the same name.
    Field {
        name: "identifier",
        label,
        kind,
        autocomplete,
        value,
        first,
        ..Field::TEXT
    }
}

/// Renames the field of an error to its name in the form.
pub(super) fn with_form_field_name(visit: &Visit, error: Error) -> Error {
    let wire = visit.core.config.auth.primary_field.name();
    let mut details = error.details().to_vec();
    for problem in details.iter_mut().filter(|problem| problem.path == wire) {
        "identifier".clone_into(&mut problem.path);
    }
    error.with_details(details)
}

pub(super) async fn signing_in(visit: Visit) -> Result<Response<Body>> {
    let input = SignInInput {
        identifier: visit.form.get("identifier").to_owned(),
        password: visit.form.get("password").to_owned(),
    };
    match account::login(visit.core.clone(), visit.call(&[])?, input).await {
        Ok(reply) => signed_in(&visit, reply).await,
        Err(error) => sign_in_page(&visit, Some(&with_form_field_name(&visit, error))),
    }
}

/// The response after a first factor: the session, or the page of the second factor.
pub(super) async fn signed_in(visit: &Visit, reply: Reply) -> Result<Response<Body>> {
    let answered = Answered::of(reply).await?;
    if let Some(token) = answered.body["mfaToken"].as_str() {
        return Ok(visit.keep_challenge(go(&visit.with_target("/second")), token));
    }
    Ok(answered.add_to(go(&visit.target())))
}

pub(super) async fn register(visit: Visit) -> Result<Response<Body>> {
    if visit.known.is_some() {
        return redirect_to_target(&visit);
    }
    if visit.may_be_renewable() {
        return visit.repeat_from_own_page();
    }
    register_page(&visit, None)
}

fn register_page(visit: &Visit, error: Option<&Error>) -> Result<Response<Body>> {
    let auth = &visit.core.config.auth;
    let field = Field {
        autocomplete: if auth.primary_field == PrimaryField::Email {
            "email"
        } else {
            "username"
        },
        ..identifier(auth.primary_field, visit.form.get("identifier"), true)
    };
    let email = (auth.primary_field != PrimaryField::Email).then(|| {
        let (value, hint) = (
            visit.form.get("email"),
            "Needed to reset a forgotten password.",
        );
        Field {
            name: "email",
            label: "Email address (optional)",
            kind: "email",
            autocomplete: "email",
            value,
            hint,
            required: false,
            ..Field::TEXT
        }
        .show(error)
    });
    let password = Field {
        autocomplete: "new-password",
        hint: NEW_PASSWORD,
        ..Field::PASSWORD
    };
    let form = visit.form(
        "/register",
        html! {
            (field.show(error))
            @if let Some(email) = &email { (email) }
            (password.show(error))
            button { "Create account" }
        },
    )?;
    let providers = if providers::sign_up(visit) {
        providers::buttons(visit)
    } else {
        Vec::new()
    };
    let content = html! {
        section.card {
            h1 { "Create an account" }
            p.lead { "at " (auth.app_name) }
            (visit.notice(error))
            (form)
            @if !providers.is_empty() {
                p.or { "or" }
                div.stack { @for button in &providers { (button) } }
            }
        }
        p.foot {
            "Have an account? "
            a href=(visit.with_target("/sign-in")) { "Sign in" }
        }
    };
    visit.show("Create an account", Width::Narrow, content, error)
}

/// The hint for a new password.
pub(super) const NEW_PASSWORD: &str = "Use several unrelated words. Spaces are allowed.";

pub(super) async fn registering(visit: Visit) -> Result<Response<Body>> {
    let form = &visit.form;
    let input = SignUpInput {
        identifier: form.get("identifier").to_owned(),
        password: form.get("password").to_owned(),
        email: form.non_empty("email"),
    };
    match account::register(visit.core.clone(), visit.call(&[])?, input).await {
        Ok(reply) => {
            let answered = Answered::of(reply).await?;
            // Without a session, the address must be verified first.
            let must_verify =
                answered.body.get("token").is_none() || answered.body.get("expiresAt").is_none();
            Ok(if must_verify {
                visit.done("/sign-in", "registered")
            } else {
                answered.add_to(go(&visit.target()))
            })
        }
        Err(error) => register_page(&visit, Some(&with_form_field_name(&visit, error))),
    }
}

pub(super) async fn signing_out(visit: Visit) -> Result<Response<Body>> {
    // A user without any factor proves the identity by a new sign-in: the user is signed out, signs
    // in again, and then continues at the target.
    let again = visit.form.get("again") == "yes";
    let out = if again {
        go(&with(&visit.with_target("/sign-in"), "done", "signed-out"))
    } else {
        visit.done("/sign-in", "signed-out")
    };
    // The session may have ended already.
    let Some(known) = &visit.known else {
        return Ok(out);
    };
    let answered =
        Answered::of(sessions::revoke(visit.core.clone(), visit.call(&[&known.handle])?).await?)
            .await?;
    Ok(answered.add_to(out))
}
