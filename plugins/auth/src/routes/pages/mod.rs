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
use renewal::Kept;
use visit::Visit;

/// The base path below the mount.
pub(crate) const BASE: &str = "/ui";

/// The path to sign out.
const SIGN_OUT: &str = "/sign-out";

const STYLE: &str = include_str!("pages.css");
const SCRIPT: &str = include_str!("pages.js");
/// Files change only with the version of the plugin. They are small, and read again after an hour.
const KEEP: HeaderValue = HeaderValue::from_static("public, max-age=3600");

/// The router with the pages that the settings enable.
pub(crate) fn router(core: &Arc<Core>) -> Router {
    let auth = &core.config.auth;
    let theme = theme(&auth.pages);
    let mut out = Router::new()
        .route("/", get(shown(core, enter::home)))
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
            get(shown(core, enter::sign_in)).post(shown(core, enter::signing_in)),
        )
        .route(SIGN_OUT, post(shown(core, enter::signing_out)))
        .route(
            "/confirm",
            get(shown(core, second::confirm)).post(shown(core, second::confirming)),
        )
        .route(
            "/confirm/send",
            post(shown(core, second::sending_to_confirm)),
        )
        .route(
            "/confirm/passkey",
            post(shown(core, second::confirming_by_passkey)),
        )
        .route("/security", get(shown(core, account::security)))
        .route("/sessions", get(shown(core, account::sessions)))
        .route("/sessions/end", post(shown(core, account::end_session)))
        .route(
            "/sessions/end-others",
            post(shown(core, account::end_others)),
        );
    if auth.account_deletion.enabled {
        out = out
            .route(
                "/delete",
                get(shown(core, deletion::delete)).post(shown(core, deletion::deleting)),
            )
            .route(
                "/keep",
                get(shown(core, deletion::keep)).post(shown(core, deletion::keeping)),
            );
    }
    if auth.password.enabled {
        out = out
            .route(
                "/register",
                get(shown(core, enter::register)).post(shown(core, enter::registering)),
            )
            .route(
                "/security/password",
                post(shown(core, account::set_password)),
            );
    }
    if auth.resets() {
        out = out
            .route(
                "/forgot",
                get(shown(core, mailed::forgot)).post(shown(core, mailed::asking_for_reset)),
            )
            .route(
                "/reset",
                get(shown(core, mailed::reset)).post(shown(core, mailed::resetting)),
            );
    }
    if auth.email_verification.enabled {
        out = out
            .route(
                "/verify",
                get(shown(core, mailed::verify)).post(shown(core, mailed::verifying)),
            )
            .route("/verify/resend", post(shown(core, mailed::resending)))
            .route(
                email::PATH,
                get(shown(core, email::email)).post(shown(core, email::asking)),
            );
    }
    #[cfg(feature = "providers")]
    if !core.oauth.is_empty() {
        out = out
            .route(providers::START, get(shown(core, providers::start)))
            .route(providers::BACK, get(shown(core, providers::back)))
            .route(providers::LINK, get(shown(core, providers::link)))
            .route(providers::LINKED, get(shown(core, providers::linked)))
            .route(providers::UNLINK, post(shown(core, providers::unlinking)));
    }
    if auth.magic_link.enabled {
        out = out
            .route(
                "/link",
                get(shown(core, mailed::link)).post(shown(core, mailed::asking_for_link)),
            )
            .route(
                "/enter",
                get(shown(core, mailed::enter)).post(shown(core, mailed::entering)),
            );
    }
    if auth.mfa.enabled {
        out = out
            .route(
                "/second",
                get(shown(core, second::second)).post(shown(core, second::answering)),
            )
            .route("/second/send", post(shown(core, second::sending)))
            .route(
                "/second/passkey",
                post(shown(core, second::answering_by_passkey)),
            )
            .route("/factors/remove", post(shown(core, factors::removing)))
            .route(
                "/factors/recovery",
                post(shown(core, factors::renewing_codes)),
            );
        // As with the JSON routes, a disabled factor cannot be set up, but an existing one can be
        // removed.
        let (app, mail, phone) = (
            auth.mfa.totp.enabled,
            auth.mfa.email_otp.enabled,
            auth.mfa.sms.enabled,
        );
        if app {
            out = out
                .route("/factors/app", post(shown(core, factors::begin_app)))
                .route(
                    "/factors/app/verify",
                    post(shown(core, factors::verify_app)),
                );
        }
        if mail {
            out = out.route("/factors/email", post(shown(core, factors::begin_email)));
        }
        if phone {
            out = out.route("/factors/phone", post(shown(core, factors::begin_phone)));
        }
        if mail || phone {
            out = out.route(
                "/factors/sent/verify",
                post(shown(core, factors::verify_sent)),
            );
        }
    }
    if auth.passkeys.enabled {
        out = out
            .route("/passkeys/add", post(shown(core, passkeys::add)))
            .route("/passkeys/rename", post(shown(core, passkeys::rename)))
            .route(
                "/passkeys/remove",
                post(shown(core, factors::removing_passkey)),
            );
        if auth.passkeys.primary {
            out = out.route("/passkey", post(shown(core, passkeys::signing_in)));
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
    get(shown(core, enter::home))
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
fn shown<F, Fut>(
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
            let mut kept = Kept::default();
            let done = match arrived(&core, request, &mut kept).await {
                Ok(Arrived::Here(visit)) => run(*visit).await,
                Ok(Arrived::Gone(response)) => Ok(response),
                Err(error) => Err(error),
            };
            let mut response = done.unwrap_or_else(|error| layout::failed(&core, &error));
            kept.give(&mut response);
            response
        })
    }
}

/// The result of the checks before a page.
enum Arrived {
    Here(Box<Visit>),
    /// A form that was sent too late: the redirect.
    Gone(Response<Body>),
}

/// Checks the form of a request, and renews the session if needed. A form of another owner renews
/// nothing.
async fn arrived(core: &Arc<Core>, request: Request, kept: &mut Kept) -> Result<Arrived> {
    let mut visit = Visit::of(Arc::clone(core), request).await?;
    let renewable = visit.renewable().await?;
    let form = if visit.is_form() {
        Some(
            visit
                .judge(renewable.as_ref().map(|(_, handle)| handle.as_str()))
                .await?,
        )
    } else {
        None
    };
    let leaves = matches!(form, Some(Form::Left)) && visit.path() == SIGN_OUT;
    match (&form, &renewable) {
        // Signing out needs no renewal, and must work if a renewal fails.
        _ if leaves => visit.leave(kept).await?,
        (None | Some(Form::Left), Some((token, _))) => visit.renew(token, kept).await?,
        _ => {}
    }
    Ok(match form {
        _ if leaves => Arrived::Here(Box::new(visit)),
        Some(Form::Outdated) => Arrived::Gone(visit.outdated_form()),
        Some(Form::Left) if visit.known.is_none() => Arrived::Gone(visit.to_sign_in()),
        _ => Arrived::Here(Box::new(visit)),
    })
}

fn file(kind: &'static str, text: String) -> MethodRouter {
    get(move || {
        let text = text.clone();
        async move {
            (
                [
                    (CONTENT_TYPE, HeaderValue::from_static(kind)),
                    (CACHE_CONTROL, KEEP),
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
