//! Pages for second factors: set-up, removal, recovery codes.

use axum::body::Body;
use axum::http::Response;
use linchpin::{Error, Result, axum};
use maud::{Markup, html};
use qrcodegen::{QrCode, QrCodeEcc};
use serde_json::Value;

use super::account::security_page;
use super::layout::{Field, Width};
use super::visit::{Answered, Visit};
use crate::entities::User;
use crate::flow::Need;
use crate::mfa::ProofMethod;
use crate::routes::mfa_shapes::{CodeInput, PhoneInput, SetupInput};
use crate::routes::{mfa, mfa_sent};

/// No proof in the form: the session must be recent.
fn no_proof() -> mfa::ProofInput {
    mfa::ProofInput {
        method: None,
        code: None,
        password: None,
        reauth_token: None,
        webauthn_response: None,
    }
}

/// The second factors of the user.
///
/// # Errors
/// If the store cannot be read.
pub(super) async fn section(visit: &Visit, user: &User) -> Result<Markup> {
    let (core, settings) = (&visit.core, &visit.core.config.auth.mfa);
    let methods = core.methods(user);
    let mut items = Vec::new();
    if settings.totp.enabled {
        let begin = visit.form("/factors/app", html! { button.plain.small { "Set up" } })?;
        let state = if methods.contains(&ProofMethod::Totp) {
            remove(visit, ProofMethod::Totp)?
        } else {
            begin
        };
        items.push(item(
            "Authenticator app",
            "Codes from an app on your phone.",
            methods.contains(&ProofMethod::Totp),
            &state,
        ));
    }
    if settings.email_otp.enabled && user.email.is_some() {
        let begin = visit.form("/factors/email", html! { button.plain.small { "Set up" } })?;
        let state = if methods.contains(&ProofMethod::EmailOtp) {
            remove(visit, ProofMethod::EmailOtp)?
        } else {
            begin
        };
        items.push(item(
            "Codes by email",
            "We email a code when you sign in.",
            methods.contains(&ProofMethod::EmailOtp),
            &state,
        ));
    }
    if settings.sms.enabled {
        let field = html! {
            div.field {
                label for="phone" { "Phone number" }
                input id="phone" name="phone" type="tel" autocomplete="tel" required;
            }
        };
        let begin = visit.form(
            "/factors/phone",
            html! {
                div.row {
                    (field)
                    button.plain.small { "Set up" }
                }
            },
        )?;
        let state = if methods.contains(&ProofMethod::Sms) {
            remove(visit, ProofMethod::Sms)?
        } else {
            begin
        };
        items.push(item(
            "Codes by text message",
            "We send a code to your phone when you sign in.",
            methods.contains(&ProofMethod::Sms),
            &state,
        ));
    }
    if !methods.is_empty() {
        let left = core.recovery_codes_left(&visit.client.cx(), user).await?;
        let what =
            format!("{left} left. Each code signs you in once if you cannot use another method.");
        let renew = visit.form(
            "/factors/recovery",
            html! { button.plain.small { "New codes" } },
        )?;
        items.push(item("Recovery codes", &what, false, &renew));
    }
    Ok(html! {
        section.card {
            h2 { "Two-step verification" }
            p.lead { "A second proof of identity, in addition to your password." }
            ul.list { @for item in &items { (item) } }
        }
    })
}

fn item(name: &'static str, description: &str, is_on: bool, action: &Markup) -> Markup {
    html! {
        li {
            div.what {
                strong {
                    (name)
                    @if is_on {
                        " "
                        span.badge { "On" }
                    }
                }
                span { (description) }
            }
            (action)
        }
    }
}

fn remove(visit: &Visit, way: ProofMethod) -> Result<Markup> {
    let method = html! { input type="hidden" name="method" value=(way.name()); };
    visit.form(
        "/factors/remove",
        html! { (method) button.danger.small { "Remove" } },
    )
}

/// Whether a factor may be set up now: the sign-in is recent, and no deletion is scheduled.
async fn may_begin(visit: &Visit) -> Result<bool> {
    let Some(known) = visit.enrolling()? else {
        return Ok(false);
    };
    let user = visit
        .core
        .users
        .get(&visit.client.cx(), known.user_id.as_str())
        .await?
        .ok_or_else(Error::unauthorized)?;
    visit
        .core
        .require(&visit.client, known, &user, Need::Recent)?;
    Ok(true)
}

pub(super) async fn begin_app(visit: Visit) -> Result<Response<Body>> {
    let done = async {
        if !may_begin(&visit).await? {
            return Ok(None);
        }
        Answered::of(mfa::setup(visit.core.clone(), visit.call(&[])?).await?)
            .await
            .map(Some)
    };
    match done.await {
        Ok(None) => Ok(visit.to_sign_in()),
        Ok(Some(answered)) => {
            let text = |name: &str| answered.body[name].as_str().unwrap_or_default().to_owned();
            app_page(&visit, &text("secret"), &text("uri"), None)
        }
        Err(error) => security_page(&visit, Some(&error)).await,
    }
}

/// The form contains the secret, so that the page can be shown again after a wrong code.
fn app_page(
    visit: &Visit,
    secret: &str,
    uri: &str,
    error: Option<&Error>,
) -> Result<Response<Body>> {
    let hidden_fields = html! {
        input type="hidden" name="secret" value=(secret);
        input type="hidden" name="uri" value=(uri);
    };
    let code = Field {
        name: "code",
        label: "Code from the app",
        autocomplete: "one-time-code",
        first: true,
        ..Field::TEXT
    };
    let form = visit.form(
        "/factors/app/verify",
        html! {
            (hidden_fields)
            (code.show(error))
            button { "Turn on" }
        },
    )?;
    let groups: Vec<String> = secret
        .as_bytes()
        .chunks(4)
        .map(|four| String::from_utf8_lossy(four).into_owned())
        .collect();
    let content = html! {
        section.card {
            h1 { "Authenticator app" }
            p.lead {
                "Scan this code with the app, or enter the key manually. "
                "Then enter the code from the app."
            }
            (visit.notice(error))
            @if let Some(picture) = picture(uri) { (picture) }
            p.secret { (groups.join(" ")) }
            p { a href=(otpauth(uri)) { "Open in an app on this device" } }
            (form)
        }
        p.foot { a href=(visit.page("/security")) { "Cancel" } }
    };
    visit.show("Authenticator app", Width::Narrow, content, error)
}

/// The URI as a QR code.
fn picture(uri: &str) -> Option<Markup> {
    let code = QrCode::encode_text(otpauth(uri), QrCodeEcc::Medium)
        .ok()
        .filter(|_| !otpauth(uri).is_empty())?;
    let size = code.size();
    let dark = (0..size)
        .flat_map(|y| (0..size).map(move |x| (x, y)))
        .filter(|(x, y)| code.get_module(*x, *y));
    // The standard requires a margin of four modules.
    let path = dark
        .map(|(x, y)| format!("M{} {}h1v1h-1z", x + 4, y + 4))
        .collect::<Vec<_>>()
        .concat();
    let side = usize::try_from(size + 8).ok()?;
    Some(html! {
        svg.qr viewBox={ "0 0 " (side) " " (side) } role="img"
            aria-label="QR code of the key" {
            path fill="#fff" d={ "M0 0h" (side) "v" (side) "H0z" } {}
            path fill="#000" d=(path) {}
        }
    })
}

/// Returns the text if it is an `otpauth` URI, because it comes from the form.
fn otpauth(uri: &str) -> &str {
    if uri.starts_with("otpauth://") {
        uri
    } else {
        ""
    }
}

pub(super) async fn verify_app(visit: Visit) -> Result<Response<Body>> {
    if visit.enrolling()?.is_none() {
        return Ok(visit.to_sign_in());
    }
    let input = CodeInput {
        code: visit.form.get("code").trim().to_owned(),
    };
    match mfa::verify_setup(visit.core.clone(), visit.call(&[])?, input).await {
        Ok(reply) => enrolled(&visit, Answered::of(reply).await?),
        Err(error) if error.code().status() == 401 => app_page(
            &visit,
            visit.form.get("secret"),
            visit.form.get("uri"),
            Some(&error),
        ),
        Err(error) => security_page(&visit, Some(&error)).await,
    }
}

/// The response after a set-up. With the first factor, recovery codes are shown once.
pub(super) fn enrolled(visit: &Visit, answered: Answered) -> Result<Response<Body>> {
    match codes(&answered.body) {
        Some(codes) => codes_page(visit, &codes),
        None => Ok(visit.done("/security", "factor")),
    }
}

fn codes(body: &Value) -> Option<Vec<String>> {
    let list = body["recoveryCodes"]
        .as_array()
        .filter(|list| !list.is_empty())?;
    Some(
        list.iter()
            .filter_map(|code| code.as_str().map(str::to_owned))
            .collect(),
    )
}

fn codes_page(visit: &Visit, codes: &[String]) -> Result<Response<Body>> {
    let items: Vec<Markup> = codes.iter().map(|code| html! { li { (code) } }).collect();
    let content = html! {
        section.card {
            h1 { "Recovery codes" }
            p.lead {
                "Store these codes where you can find them without this device. "
                "Each code works once. They are not shown again."
            }
            ol.codes { @for item in &items { (item) } }
            a.button href=(visit.page("/security")) { "I have stored them" }
        }
    };
    visit.show("Recovery codes", Width::Narrow, content, None)
}

pub(super) async fn begin_email(visit: Visit) -> Result<Response<Body>> {
    begin_sent(visit, ProofMethod::EmailOtp).await
}

pub(super) async fn begin_phone(visit: Visit) -> Result<Response<Body>> {
    begin_sent(visit, ProofMethod::Sms).await
}

async fn begin_sent(visit: Visit, way: ProofMethod) -> Result<Response<Body>> {
    let done = async {
        if !may_begin(&visit).await? {
            return Ok(None);
        }
        let (core, call) = (visit.core.clone(), visit.call(&[])?);
        let reply = match way {
            ProofMethod::Sms => {
                mfa_sent::enable_sms(
                    core,
                    call,
                    PhoneInput {
                        phone: visit.form.get("phone").trim().to_owned(),
                    },
                )
                .await?
            }
            _ => mfa_sent::enable_mail(core, call).await?,
        };
        Answered::of(reply).await.map(Some)
    };
    match done.await {
        Ok(None) => Ok(visit.to_sign_in()),
        Ok(Some(answered)) => sent_page(
            &visit,
            way,
            answered.body["setupToken"].as_str().unwrap_or_default(),
            None,
        ),
        Err(error) => security_page(&visit, Some(&error)).await,
    }
}

fn sent_page(
    visit: &Visit,
    way: ProofMethod,
    token: &str,
    error: Option<&Error>,
) -> Result<Response<Body>> {
    let hidden_fields = html! {
        input type="hidden" name="setupToken" value=(token);
        input type="hidden" name="method" value=(way.name());
    };
    let code = Field {
        name: "code",
        label: "Code from the message",
        autocomplete: "one-time-code",
        first: true,
        ..Field::TEXT
    };
    let form = visit.form(
        "/factors/sent/verify",
        html! {
            (hidden_fields)
            (code.show(error))
            button { "Turn on" }
        },
    )?;
    let content = html! {
        section.card {
            h1 { "We have sent a code" }
            p.lead { "Enter the code to turn on this method." }
            (visit.notice(error))
            (form)
        }
        p.foot { a href=(visit.page("/security")) { "Cancel" } }
    };
    visit.show("We have sent a code", Width::Narrow, content, error)
}

pub(super) async fn verify_sent(visit: Visit) -> Result<Response<Body>> {
    if visit.enrolling()?.is_none() {
        return Ok(visit.to_sign_in());
    }
    let way = if visit.form.get("method") == ProofMethod::Sms.name() {
        ProofMethod::Sms
    } else {
        ProofMethod::EmailOtp
    };
    let token = visit.form.get("setupToken").to_owned();
    let input = SetupInput {
        setup_token: token.clone(),
        code: visit.form.get("code").trim().to_owned(),
    };
    match mfa_sent::verify(visit.core.clone(), visit.call(&[])?, input, way).await {
        Ok(reply) => enrolled(&visit, Answered::of(reply).await?),
        Err(error) if error.code() == crate::error::INVALID_CODE => {
            sent_page(&visit, way, &token, Some(&error))
        }
        Err(error) => security_page(&visit, Some(&error)).await,
    }
}

pub(super) async fn removing(visit: Visit) -> Result<Response<Body>> {
    let ways: &'static [ProofMethod] = match visit.form.get("method") {
        "totp" => &[ProofMethod::Totp],
        "emailOtp" => &[ProofMethod::EmailOtp],
        "sms" => &[ProofMethod::Sms],
        _ => &[],
    };
    let done = async {
        let Some(_) = visit.active()? else {
            return Ok(None);
        };
        mfa::remove(visit.core.clone(), visit.call(&[])?, no_proof(), ways)
            .await
            .map(Some)
    };
    match done.await {
        Ok(None) => Ok(visit.to_sign_in()),
        Ok(Some(_)) => Ok(visit.done("/security", "removed")),
        Err(error) => security_page(&visit, Some(&error)).await,
    }
}

pub(super) async fn renewing_codes(visit: Visit) -> Result<Response<Body>> {
    let done = async {
        let Some(_) = visit.active()? else {
            return Ok(None);
        };
        let reply = mfa::recovery_codes(visit.core.clone(), visit.call(&[])?, no_proof()).await?;
        Answered::of(reply).await.map(Some)
    };
    match done.await {
        Ok(None) => Ok(visit.to_sign_in()),
        Ok(Some(answered)) => enrolled(&visit, answered),
        Err(error) => security_page(&visit, Some(&error)).await,
    }
}

pub(super) async fn removing_passkey(visit: Visit) -> Result<Response<Body>> {
    let done = async {
        let Some(_) = visit.active()? else {
            return Ok(None);
        };
        crate::routes::passkeys::remove(
            visit.core.clone(),
            visit.call(&[visit.form.get("id")])?,
            no_proof(),
        )
        .await
        .map(Some)
    };
    match done.await {
        Ok(None) => Ok(visit.to_sign_in()),
        Ok(Some(_)) => Ok(visit.done("/security", "passkey-removed")),
        Err(error) => security_page(&visit, Some(&error)).await,
    }
}
