//! Pages for users: sign-in and the account. Only passkeys need JavaScript.
//!
//! A page has no logic of its own. It reads a form, calls the handler of the JSON route of the same
//! name, and shows the result, so there is no second way to a session. A successful action ends in
//! a redirect, so that a reload does not repeat it.

mod account;
mod deletion;
mod email;
mod enter;
mod factors;
mod forms;
mod layout;
mod mailed;
mod passkeys;
#[cfg(feature = "providers")]
mod providers;
#[cfg(not(feature = "providers"))]
#[path = "providers_absent.rs"]
mod providers;
mod renewal;
mod second;
mod texts;
mod visit;

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderValue, Response};
use axum::response::IntoResponse;
use axum::routing::{MethodRouter, get, post};
use linchpin::{Code, Error, Result, axum};

use crate::config::PagesSection;
use crate::core::Core;
use forms::Form;
use renewal::RenewalCookies;
use visit::Visit;

/// The base path below the mount.
pub(crate) const BASE: &str = "/ui";

/// The path to sign out.
const SIGN_OUT: &str = "/sign-out";

const STYLE: &str = include_str!("pages.css");
const SCRIPT: &str = include_str!("pages.js");
/// Files change only with the version of the plugin. They are small, and read again after an hour.
const CACHE_ONE_HOUR: HeaderValue = HeaderValue::from_static("public, max-age=3600");

/// The router with the pages that the settings enable.
pub(crate) fn router(core: &Arc<Core>) -> Router {
    let auth = &core.config.auth;
    let theme = theme(&auth.pages);
    let mut out = Router::new()
        .route("/", get(handler(core, enter::home)))
        .route(
            "/assets/pages.css",
            file("text/css; charset=utf-8", STYLE.to_owned()),
        )
        .route(
            "/assets/pages.js",
            file("text/javascript; charset=utf-8", SCRIPT.to_owned()),
        )
        .route("/assets/theme.css", file("text/css; charset=utf-8", theme))
        .route(
            "/sign-in",
            get(handler(core, enter::sign_in)).post(handler(core, enter::signing_in)),
        )
        .route(SIGN_OUT, post(handler(core, enter::signing_out)))
        .route(
            "/confirm",
            get(handler(core, second::confirm)).post(handler(core, second::confirming)),
        )
        .route(
            "/confirm/send",
            post(handler(core, second::sending_to_confirm)),
        )
        .route(
            "/confirm/passkey",
            post(handler(core, second::confirming_by_passkey)),
        )
        .route("/security", get(handler(core, account::security)))
        .route("/sessions", get(handler(core, account::sessions)))
        .route("/sessions/end", post(handler(core, account::end_session)))
        .route(
            "/sessions/end-others",
            post(handler(core, account::end_others)),
        );
    if auth.account_deletion.enabled {
        out = out
            .route(
                "/delete",
                get(handler(core, deletion::delete)).post(handler(core, deletion::deleting)),
            )
            .route(
                "/keep",
                get(handler(core, deletion::keep)).post(handler(core, deletion::keeping)),
            );
    }
    if auth.password.enabled {
        out = out
            .route(
                "/register",
                get(handler(core, enter::register)).post(handler(core, enter::registering)),
            )
            .route(
                "/security/password",
                post(handler(core, account::set_password)),
            );
    }
    if auth.resets() {
        out = out
            .route(
                "/forgot",
                get(handler(core, mailed::forgot)).post(handler(core, mailed::asking_for_reset)),
            )
            .route(
                "/reset",
                get(handler(core, mailed::reset)).post(handler(core, mailed::resetting)),
            );
    }
    if auth.email_verification.enabled {
        out = out
            .route(
                "/verify",
                get(handler(core, mailed::verify)).post(handler(core, mailed::verifying)),
            )
            .route("/verify/resend", post(handler(core, mailed::resending)))
            .route(
                email::PATH,
                get(handler(core, email::email)).post(handler(core, email::asking)),
            );
    }
    #[cfg(feature = "providers")]
    if !core.oauth.is_empty() {
        out = out
            .route(providers::START, get(handler(core, providers::start)))
            .route(providers::BACK, get(handler(core, providers::back)))
            .route(providers::LINK, get(handler(core, providers::link)))
            .route(providers::LINKED, get(handler(core, providers::linked)))
            .route(providers::UNLINK, post(handler(core, providers::unlinking)));
    }
    if auth.magic_link.enabled {
        out = out
            .route(
                "/link",
                get(handler(core, mailed::link)).post(handler(core, mailed::asking_for_link)),
            )
            .route(
                "/enter",
                get(handler(core, mailed::enter)).post(handler(core, mailed::entering)),
            );
    }
    if auth.mfa.enabled {
        out = out
            .route(
                "/second",
                get(handler(core, second::second)).post(handler(core, second::answering)),
            )
            .route("/second/send", post(handler(core, second::sending)))
            .route(
                "/second/passkey",
                post(handler(core, second::answering_by_passkey)),
            )
            .route("/factors/remove", post(handler(core, factors::removing)))
            .route(
                "/factors/recovery",
                post(handler(core, factors::renewing_codes)),
            );
        // A disabled factor cannot be set up. `/factors/remove` still removes one that exists.
        // Among the JSON routes, only the removal of all factors removes a disabled factor.
        let (app, mail, phone) = (
            auth.mfa.totp.enabled,
            auth.mfa.email_otp.enabled,
            auth.mfa.sms.enabled,
        );
        if app {
            out = out
                .route("/factors/app", post(handler(core, factors::begin_app)))
                .route(
                    "/factors/app/verify",
                    post(handler(core, factors::verify_app)),
                );
        }
        if mail {
            out = out.route("/factors/email", post(handler(core, factors::begin_email)));
        }
        if phone {
            out = out.route("/factors/phone", post(handler(core, factors::begin_phone)));
        }
        if mail || phone {
            out = out.route(
                "/factors/sent/verify",
                post(handler(core, factors::verify_sent)),
            );
        }
    }
    if auth.passkeys.enabled {
        out = out
            .route("/passkeys/add", post(handler(core, passkeys::add)))
            .route("/passkeys/rename", post(handler(core, passkeys::rename)))
            .route(
                "/passkeys/remove",
                post(handler(core, factors::removing_passkey)),
            );
        if auth.passkeys.primary {
            out = out.route("/passkey", post(handler(core, passkeys::signing_in)));
        }
    }
    // Unknown paths get a page too.
    out.fallback(message_page(
        core,
        Code::NotFound,
        "There is no page at this address",
    ))
    .method_not_allowed_fallback(message_page(
        core,
        Code::MethodNotAllowed,
        "This address does not support that request method",
    ))
}

/// The page at the base path with a slash. A nested router only has the path without it.
pub(crate) fn home(core: &Arc<Core>) -> MethodRouter {
    get(handler(core, enter::home))
}

/// A page with one message.
fn message_page(
    core: &Arc<Core>,
    code: Code,
    what: &'static str,
) -> impl Fn() -> std::future::Ready<Response<Body>> + Clone + use<> {
    let core = Arc::clone(core);
    move || std::future::ready(layout::failed(&core, &Error::new(code, what)))
}

/// The handler of a page or of its form.
fn handler<F, Fut>(
    core: &Arc<Core>,
    run: F,
) -> impl Fn(Request) -> std::pin::Pin<Box<dyn Future<Output = Response<Body>> + Send>>
+ Clone
+ use<F, Fut>
where
    F: Fn(Visit) -> Fut + Clone + Send + 'static,
    Fut: Future<Output = Result<Response<Body>>> + Send,
{
    let core = Arc::clone(core);
    move |request| {
        let (core, run) = (Arc::clone(&core), run.clone());
        Box::pin(async move {
            let mut cookies = RenewalCookies::default();
            let done = match check_request(&core, request, &mut cookies).await {
                Ok(FormCheck::Proceed(visit)) => run(*visit).await,
                Ok(FormCheck::Redirect(response)) => Ok(response),
                Err(error) => Err(error),
            };
            let mut response = done.unwrap_or_else(|error| layout::failed(&core, &error));
            cookies.give(&mut response);
            response
        })
    }
}

/// The result of the checks before a page.
enum FormCheck {
    Proceed(Box<Visit>),
    /// The form was sent too late, so it is not processed.
    Redirect(Response<Body>),
}

/// Checks the form of a request, and renews the session if needed. A form of another owner renews
/// nothing.
async fn check_request(
    core: &Arc<Core>,
    request: Request,
    cookies: &mut RenewalCookies,
) -> Result<FormCheck> {
    let mut visit = Visit::of(Arc::clone(core), request).await?;
    let renewable = visit.renewable().await?;
    let form = if visit.is_form() {
        Some(
            visit
                .check(renewable.as_ref().map(|(_, handle)| handle.as_str()))
                .await?,
        )
    } else {
        None
    };
    let is_sign_out = matches!(form, Some(Form::Expired)) && visit.path() == SIGN_OUT;
    match (&form, &renewable) {
        // Signing out needs no renewal, and must work if a renewal fails.
        _ if is_sign_out => visit.end_expired_session(cookies).await?,
        (None | Some(Form::Expired), Some((token, _))) => visit.renew(token, cookies).await?,
        _ => {}
    }
    Ok(match form {
        _ if is_sign_out => FormCheck::Proceed(Box::new(visit)),
        Some(Form::Outdated) => FormCheck::Redirect(visit.outdated_form()),
        Some(Form::Expired) if visit.known.is_none() => FormCheck::Redirect(visit.to_sign_in()),
        _ => FormCheck::Proceed(Box::new(visit)),
    })
}

fn file(kind: &'static str, text: String) -> MethodRouter {
    get(move || {
        let text = text.clone();
        async move {
            (
                [
                    (CONTENT_TYPE, HeaderValue::from_static(kind)),
                    (CACHE_CONTROL, CACHE_ONE_HOUR),
                ],
                text,
            )
                .into_response()
        }
    })
}

/// The style sheet with the theme of the app. The settings are checked: no value can end its
/// declaration.
fn theme(pages: &PagesSection) -> String {
    let lines: Vec<String> = pages
        .theme
        .iter()
        .map(|(name, value)| format!("  --{name}: {value};\n"))
        .collect();
    if lines.is_empty() {
        String::new()
    } else {
        format!(":root {{\n{}}}\n", lines.concat())
    }
}
