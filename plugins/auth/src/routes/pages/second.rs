//! Pages for the second factor of a sign-in, and for the step-up.

use axum::body::Body;
use axum::http::Response;
use linchpin::{Error, Result, axum};
use maud::{Markup, html};

use super::email;
use super::enter::{sign_in_page, signed_in};
use super::layout::{Field, Width};
use super::passkeys::response;
use super::visit::{Answered, Visit, go};
use crate::error::INVALID_CHALLENGE;
use crate::mfa::{ProofMethod, is_number};
use crate::routes::mfa_shapes::{ReauthInput, ResendInput, StepUpInput, VerifyInput};
use crate::routes::{mfa_login, proof};
use crate::secret::SecretText;

/// The field for a code of any method.
fn code_field(ways: &[ProofMethod], error: Option<&Error>) -> Markup {
    let app = ways.contains(&ProofMethod::Totp);
    let sent = ways.iter().any(|way| way.is_sent());
    let hint = match (app, sent) {
        (true, true) => {
            "A code from your authenticator app, a code from the message we sent, or a recovery code."
        }
        (true, false) => "A code from your authenticator app, or a recovery code.",
        (false, true) => "The code from the message we sent, or a recovery code.",
        (false, false) => "A recovery code.",
    };
    Field {
        name: "code",
        label: "Code",
        hint,
        autocomplete: "one-time-code",
        first: true,
        ..Field::TEXT
    }
    .show(error)
}

/// The choice of the source of a numeric code: an app or a message. A user who requested a message
/// may still use the app.
fn code_source(ways: &[ProofMethod], sent: bool) -> Option<Markup> {
    let app = ProofMethod::Totp.name();
    let one = |value: &str, label: &str, checked: bool| {
        html! {
            div.check {
                input id={ "from-" (value) } name="from" type="radio" value=(value)
                    checked[checked];
                label for={ "from-" (value) } { (label) }
            }
        }
    };
    match (ways.contains(&ProofMethod::Totp), sent) {
        (false, _) => None,
        (true, false) => Some(html! { input type="hidden" name="from" value=(app); }),
        (true, true) => Some(html! {
            fieldset.field {
                legend { "Source of the code" }
                (one("message", "The message we sent", true))
                (one(app, "My authenticator app", false))
            }
        }),
    }
}

/// Whether the form says that its code is from an app.
fn is_from_app(visit: &Visit, code: &str) -> bool {
    visit.form.get("from") == ProofMethod::Totp.name()
        && is_number(&SecretText::new(code.to_owned()))
}

/// A button for each method that sends codes.
fn senders(visit: &Visit, path: &str, ways: &[ProofMethod]) -> Result<Vec<Markup>> {
    let one = |way: &ProofMethod| {
        let label = if *way == ProofMethod::Sms {
            "Text me a code"
        } else {
            "Email me a code"
        };
        let method = html! { input type="hidden" name="method" value=(way.name()); };
        visit.form(path, html! { (method) button.plain { (label) } })
    };
    ways.iter().filter(|way| way.is_sent()).map(one).collect()
}

/// The method in the form.
fn method(visit: &Visit) -> Option<ProofMethod> {
    [ProofMethod::EmailOtp, ProofMethod::Sms]
        .into_iter()
        .find(|way| way.name() == visit.form.get("method"))
}

pub(super) async fn second(visit: Visit) -> Result<Response<Body>> {
    second_page(&visit, None).await
}

async fn second_page(visit: &Visit, error: Option<&Error>) -> Result<Response<Body>> {
    let Some(token) = visit.challenge() else {
        return Ok(go(&visit.with_target("/sign-in")));
    };
    let (challenge, user) = match visit
        .core
        .pending_challenge(&visit.client, &SecretText::new(token.clone()))
        .await
    {
        Ok(found) => found,
        // The challenge has expired: the sign-in starts again.
        Err(over) => {
            return sign_in_page(visit, Some(&over)).map(|page| visit.forget_challenge(page));
        }
    };
    let ways = visit
        .core
        .methods_after(&visit.client.cx(), &user, challenge.pending.begun.as_ref())
        .await?;
    let trust = (visit.core.config.auth.mfa.trust_device_seconds > 0).then(|| {
        html! {
            div.field.check {
                input id="trust" name="trust" type="checkbox" value="yes";
                label for="trust" { "Do not ask again on this device" }
            }
        }
    });
    let from = code_source(&ways, challenge.pending.sent.is_some());
    let form = visit.form(
        "/second",
        html! {
            (code_field(&ways, error))
            @if let Some(from) = &from { (from) }
            @if let Some(trust) = &trust { (trust) }
            button { "Continue" }
        },
    )?;
    let passkey = if ways.contains(&ProofMethod::Webauthn) {
        let step = html! {
            input type="hidden" name="challenge" value=(token);
            button.plain { "Use a passkey" }
        };
        Some(visit.passkey_form("second", "/second/passkey", step)?)
    } else {
        None
    };
    let content = html! {
        section.card {
            h1 { "One more step" }
            p.lead { "Confirm your identity." }
            (visit.notice(error))
            (form)
            div.stack.more {
                @if let Some(passkey) = &passkey { (passkey) }
                @for form in senders(visit, "/second/send", &ways)? { (form) }
            }
        }
        p.foot { a href=(visit.with_target("/sign-in")) { "Start again" } }
    };
    visit.show("One more step", Width::Narrow, content, error)
}

pub(super) async fn answering(visit: Visit) -> Result<Response<Body>> {
    answer(visit, None).await
}

pub(super) async fn answering_by_passkey(visit: Visit) -> Result<Response<Body>> {
    match response(&visit) {
        Ok(response) => answer(visit, Some(response)).await,
        Err(error) => second_page(&visit, Some(&error)).await,
    }
}

async fn answer(
    visit: Visit,
    webauthn_response: Option<serde_json::Value>,
) -> Result<Response<Body>> {
    let Some(token) = visit.challenge() else {
        return Ok(go(&visit.with_target("/sign-in")));
    };
    let code = webauthn_response
        .is_none()
        .then(|| visit.form.get("code").trim().to_owned());
    let trust_device = (visit.form.get("trust") == "yes").then_some(true);
    let method = code
        .as_deref()
        .is_some_and(|code| is_from_app(&visit, code))
        .then_some(ProofMethod::Totp);
    let input = VerifyInput {
        mfa_token: token,
        method,
        code,
        webauthn_response,
        trust_device,
    };
    match mfa_login::verify(visit.core.clone(), visit.call(&[])?, input).await {
        Ok(reply) => signed_in(&visit, reply)
            .await
            .map(|gone| visit.forget_challenge(gone)),
        Err(error) if error.code() == INVALID_CHALLENGE => {
            sign_in_page(&visit, Some(&error)).map(|page| visit.forget_challenge(page))
        }
        Err(error) => second_page(&visit, Some(&error)).await,
    }
}

pub(super) async fn sending(visit: Visit) -> Result<Response<Body>> {
    let Some(token) = visit.challenge() else {
        return Ok(go(&visit.with_target("/sign-in")));
    };
    let input = ResendInput {
        mfa_token: token,
        method: method(&visit),
    };
    match mfa_login::resend(visit.core.clone(), visit.call(&[])?, input).await {
        Ok(_) => Ok(go(&super::visit::with(
            &visit.with_target("/second"),
            "done",
            "code",
        ))),
        Err(error) => second_page(&visit, Some(&error)).await,
    }
}

pub(super) async fn confirm(visit: Visit) -> Result<Response<Body>> {
    confirm_page(&visit, None).await
}

async fn confirm_page(visit: &Visit, error: Option<&Error>) -> Result<Response<Body>> {
    let Some(known) = visit.enrolling()? else {
        return Ok(visit.to_sign_in());
    };
    let (core, cx) = (&visit.core, visit.client.cx());
    let user = core
        .users
        .get(&cx, known.user_id.as_str())
        .await?
        .ok_or_else(Error::unauthorized)?;
    let mut ways = core.proof_methods(&cx, &user).await?;
    if visit
        .target_parameter()
        .is_some_and(|target| target == visit.page(email::PATH))
    {
        // A proof by mail does not count for a change of the mail address.
        ways.retain(|way| *way != ProofMethod::EmailOtp);
    }
    let mut forms = Vec::new();
    if ways.contains(&ProofMethod::Password) {
        let field = Field {
            first: true,
            ..Field::PASSWORD
        }
        .show(error);
        forms.push(visit.form("/confirm", html! { (field) button { "Continue" } })?);
    } else if ways.iter().any(|way| *way != ProofMethod::Webauthn) {
        let from = code_source(&ways, visit.sent_by().is_some());
        forms.push(visit.form(
            "/confirm",
            html! {
                (code_field(&ways, error))
                @if let Some(from) = &from { (from) }
                button { "Continue" }
            },
        )?);
    }
    if ways.is_empty() {
        // A user without any factor signs in again.
        let again = html! {
            input type="hidden" name="again" value="yes";
            button { "Sign in again" }
        };
        forms.push(visit.form("/sign-out", again)?);
    }
    let mut more = senders(visit, "/confirm/send", &ways)?;
    if ways.contains(&ProofMethod::Webauthn) {
        more.insert(
            0,
            visit.passkey_form(
                "confirm",
                "/confirm/passkey",
                html! { button.plain { "Use a passkey" } },
            )?,
        );
    }
    let content = html! {
        section.card {
            h1 { "Is it you?" }
            p.lead { "Please confirm your identity again before this change." }
            (visit.notice(error))
            @for form in &forms { (form) }
            div.stack.more { @for form in &more { (form) } }
        }
        p.foot { a href=(visit.target()) { "Cancel" } }
    };
    visit.show("Is it you?", Width::Narrow, content, error)
}

pub(super) async fn confirming(visit: Visit) -> Result<Response<Body>> {
    let code = visit.form.get("code").trim().to_owned();
    let mut input = step_up(if visit.form.get("password").is_empty() {
        ProofMethod::Recovery
    } else {
        ProofMethod::Password
    });
    if input.method == ProofMethod::Password {
        input.password = visit.form.non_empty("password");
    } else {
        // A numeric code is from the app if the form says so; otherwise it is the sent code, if one
        // was sent.
        input.reauth_token = visit.challenge().filter(|_| !is_from_app(&visit, &code));
        input.method = match (
            is_number(&SecretText::new(code.clone())),
            &input.reauth_token,
        ) {
            (true, Some(_)) => ProofMethod::EmailOtp,
            (true, None) => ProofMethod::Totp,
            (false, _) => ProofMethod::Recovery,
        };
        if let (ProofMethod::EmailOtp, Some(way)) = (input.method, visit.sent_by()) {
            input.method = way;
        }
        input.code = Some(code);
    }
    confirmed(visit, input).await
}

pub(super) async fn confirming_by_passkey(visit: Visit) -> Result<Response<Body>> {
    match response(&visit) {
        Ok(response) => {
            let input = StepUpInput {
                webauthn_response: Some(response),
                reauth_token: visit.form.non_empty("token"),
                ..step_up(ProofMethod::Webauthn)
            };
            confirmed(visit, input).await
        }
        Err(error) => confirm_page(&visit, Some(&error)).await,
    }
}

fn step_up(method: ProofMethod) -> StepUpInput {
    StepUpInput {
        method,
        code: None,
        password: None,
        reauth_token: None,
        webauthn_response: None,
    }
}

async fn confirmed(visit: Visit, input: StepUpInput) -> Result<Response<Body>> {
    if visit.enrolling()?.is_none() {
        return Ok(visit.to_sign_in());
    }
    match proof::step_up(visit.core.clone(), visit.call(&[])?, input).await {
        Ok(reply) => {
            let answered = Answered::of(reply).await?;
            Ok(answered.add_to(visit.forget_challenge(go(&visit.target()))))
        }
        Err(error) => confirm_page(&visit, Some(&error)).await,
    }
}

pub(super) async fn sending_to_confirm(visit: Visit) -> Result<Response<Body>> {
    if visit.enrolling()?.is_none() {
        return Ok(visit.to_sign_in());
    }
    let way = method(&visit);
    match proof::reauth(
        visit.core.clone(),
        visit.call(&[])?,
        ReauthInput { method: way },
    )
    .await
    {
        Ok(reply) => {
            let answered = Answered::of(reply).await?;
            let token = answered.body["reauthToken"].as_str().unwrap_or_default();
            let gone = go(&super::visit::with(
                &visit.with_target("/confirm"),
                "done",
                "code",
            ));
            Ok(visit.keep_challenge(
                gone,
                &format!("{token}.{}", way.map_or("", ProofMethod::name)),
            ))
        }
        Err(error) => confirm_page(&visit, Some(&error)).await,
    }
}
