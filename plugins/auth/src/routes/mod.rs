//! The routes: requests, guards and responses. The other modules contain the handlers.

mod account;
mod admin;
mod concealed;
mod deletion;
mod email;
mod mailed;
mod mfa;
mod mfa_login;
mod mfa_sent;
pub(crate) mod mfa_shapes;
#[cfg(feature = "providers")]
mod oauth;
pub(crate) mod pages;
mod passkey_login;
mod passkey_shapes;
mod passkeys;
mod password;
mod proof;
mod refresh;
mod sessions;
pub(crate) mod shapes;

use std::sync::{Arc, OnceLock};

use linchpin::http::{
    AnswerDesc, Nothing, Partial, PluginCall, PluginRoute, Reply, Route, RouteInput,
};
use linchpin::{Code, Error, Result};

use crate::config::AuthConfig;
use crate::core::Core;
use crate::error::{
    ACCOUNT_SUSPENDED, CSRF_FAILED, CURRENT_PASSWORD_REQUIRED, DELETION_SCHEDULED,
    EMAIL_NOT_VERIFIED, HOOK_REJECTED, HOOK_TIMEOUT, INVALID_CREDENTIALS, INVALID_TOKEN,
    MFA_SETUP_REQUIRED, PASSWORD_BREACHED, PASSWORD_REUSED, PASSWORD_TOO_COMMON, REFRESH_INVALID,
    REFRESH_REQUIRED, REFRESH_REUSED, STEP_UP_REQUIRED,
};
use crate::guards::{ENROLLING, SESSION, checked_session};
use crate::identity::PrimaryField;
use crate::session::CheckedSession;
use crate::session::credential::{self, Credential};
use shapes::{
    Authenticated, EmailInput, MagicLinkInput, OptionalEmailInput, Profile, RefreshInput, Reissued,
    Renewed, ResetInput, Revoked, Said, SessionList, SetPasswordInput, SignInByEmail,
    SignInByPhone, SignInByUsername, SignUpByEmail, SignUpByPhone, SignUpByUsername, TokenInput,
    UserView,
};

/// The name of the plugin, which is the tag of its routes in the OpenAPI document.
pub(crate) const PLUGIN: &str = "auth";
/// Maximum size of a body in bytes.
const MAX_BODY: u64 = 64 << 10;
/// Responses must not be cached.
const HEADERS: &[(&str, &str)] = &[
    ("cache-control", "no-store"),
    ("referrer-policy", "no-referrer"),
];

/// The settings of all routes.
pub(crate) const fn route<I: RouteInput>(route: Route<I>) -> Route<I> {
    route.of(PLUGIN).headers(HEADERS).max_body(MAX_BODY)
}

/// Errors of the routes that end sessions of the caller.
const ACTIVE: &[Code] = &[
    DELETION_SCHEDULED,
    MFA_SETUP_REQUIRED,
    CSRF_FAILED,
    Code::NotFound,
];
const SIGNED_UP: &[AnswerDesc] = &[AnswerDesc::sparse::<Authenticated>(
    201,
    "The account was created, and its user is signed in.",
)];
const SIGN_UP_REFUSED: &[Code] = &[
    INVALID_CREDENTIALS,
    PASSWORD_TOO_COMMON,
    PASSWORD_BREACHED,
    Code::Conflict,
    Code::RateLimited,
    CSRF_FAILED,
    HOOK_REJECTED,
    HOOK_TIMEOUT,
];
const SIGNED_IN: &[AnswerDesc] = &[
    AnswerDesc::sparse::<Authenticated>(200, "Signed in."),
    AnswerDesc::sparse::<mfa_shapes::ChallengeView>(200, "A second factor is required."),
];
/// The request header of a client that stores its cookies itself.
const DEVICE: &[(&str, &str)] = &[(
    "x-device-token",
    "The `deviceToken` of an earlier sign-in, which identifies the device. Browsers send the \
     device cookie instead.",
)];
const SIGN_IN_REFUSED: &[Code] = &[
    INVALID_CREDENTIALS,
    ACCOUNT_SUSPENDED,
    EMAIL_NOT_VERIFIED,
    Code::RateLimited,
    CSRF_FAILED,
    HOOK_REJECTED,
    HOOK_TIMEOUT,
];
const DONE_OR_NOTHING: &[AnswerDesc] = &[AnswerDesc::of::<Said>(
    200,
    "Done, or there was nothing to do.",
)];
const DONE: &[AnswerDesc] = &[AnswerDesc::of::<Said>(200, "Done.")];

const fn register<I: RouteInput>() -> Route<I> {
    route(Route::post("register", "register"))
        .doc("Creates an account and signs in.")
        .public()
        .answers(SIGNED_UP)
        .errors(SIGN_UP_REFUSED)
}

const fn login<I: RouteInput>() -> Route<I> {
    route(Route::post("login", "login"))
        .doc("Signs in with a password.")
        .public()
        .reads(DEVICE)
        .answers(SIGNED_IN)
        .errors(SIGN_IN_REFUSED)
}

static REGISTER_BY_EMAIL: Route<SignUpByEmail> = register();
static REGISTER_CONCEALED: Route<SignUpByEmail> = route(Route::post("register", "register"))
    .doc("Creates an account and mails its owner a link. The owner of an existing account gets a notice.\n\nThe response is the same in both cases.")
    .public()
    .answers(&[AnswerDesc::of::<Said>(202, "If the address can be used, a mail is sent to it.")])
    .errors(&[PASSWORD_TOO_COMMON, PASSWORD_BREACHED, Code::RateLimited, CSRF_FAILED, HOOK_REJECTED, HOOK_TIMEOUT]);
static REGISTER_BY_USERNAME: Route<SignUpByUsername> = register();
static REGISTER_BY_PHONE: Route<SignUpByPhone> = register();
static LOGIN_BY_EMAIL: Route<SignInByEmail> = login();
static LOGIN_BY_USERNAME: Route<SignInByUsername> = login();
static LOGIN_BY_PHONE: Route<SignInByPhone> = login();

static LOGOUT: Route<Nothing> = route(Route::post("logout", "logout"))
    .doc("Ends the sessions of all tokens in the request.\n\nInvalid tokens are ignored; an expired token still ends its session.")
    .public()
    .answers(DONE)
    .errors(&[CSRF_FAILED]);
static ME: Route<Nothing> = route(Route::get("me", "me"))
    .doc("Returns the caller's account.")
    .auth(SESSION)
    .answers(&[AnswerDesc::of::<UserView>(200, "The account.")]);
static UPDATE_ME: Route<Partial<Profile>> = route(Route::patch("update_me", "me"))
    .doc("Changes the caller's profile.")
    .auth("userAuth")
    .answers(&[AnswerDesc::of::<UserView>(200, "The changed account.")])
    .errors(&[DELETION_SCHEDULED, MFA_SETUP_REQUIRED, CSRF_FAILED]);
static SESSIONS: Route<Nothing> = route(Route::get("sessions", "sessions"))
    .doc("Lists the caller's sessions, last active first.")
    .auth(ENROLLING)
    .answers(&[AnswerDesc::of::<SessionList>(200, "The sessions.")])
    .errors(&[DELETION_SCHEDULED]);
static REVOKE: Route<Nothing> = route(Route::delete("revoke_session", "sessions/{sessionId}"))
    .doc("Ends a session of the caller. If it is the current session, this is a logout.")
    .answers(DONE)
    .errors(ACTIVE);
static REVOKE_ALL: Route<Nothing> = route(Route::delete("revoke_sessions", "sessions"))
    .doc("Ends all sessions of the caller except the current one.")
    .answers(&[AnswerDesc::of::<Revoked>(
        200,
        "The number of ended sessions.",
    )])
    .errors(ACTIVE);
static REVOKE_OTHERS: Route<Nothing> =
    route(Route::post("revoke_others", "sessions/revoke-others"))
        .doc("Ends all sessions of the caller except the current one.")
        .answers(&[AnswerDesc::of::<Revoked>(
            200,
            "The number of ended sessions.",
        )])
        .errors(ACTIVE);
static REFRESH: Route<RefreshInput> = route(Route::post("refresh", "refresh"))
    .doc("Renews the tokens of a session.\n\nThe refresh token comes from the body, from the header `x-refresh-token`, or from the cookie.")
    .public()
    .reads(&[("x-refresh-token", "The refresh token, if it is not in the body.")])
    .answers(&[AnswerDesc::sparse::<Renewed>(200, "The new tokens.")])
    .errors(&[REFRESH_REQUIRED, REFRESH_INVALID, REFRESH_REUSED, ACCOUNT_SUSPENDED, EMAIL_NOT_VERIFIED, CSRF_FAILED, Code::RateLimited]);

/// Errors of a mailed token that signs in.
const LINK_REFUSED: &[Code] = &[
    INVALID_TOKEN,
    INVALID_CREDENTIALS,
    ACCOUNT_SUSPENDED,
    CSRF_FAILED,
    Code::Conflict,
    Code::RateLimited,
    HOOK_REJECTED,
    HOOK_TIMEOUT,
];

static FORGOT: Route<EmailInput> = route(Route::post("forgot_password", "forgot-password"))
    .doc("Mails a link to set a new password.\n\nThe response does not show whether the account exists.")
    .public()
    .answers(DONE_OR_NOTHING)
    .errors(&[Code::RateLimited]);
static RESET: Route<ResetInput> = route(Route::post("reset_password", "reset-password"))
    .doc("Sets a new password with a mailed token. All sessions end.")
    .public()
    .answers(DONE)
    .errors(&[
        INVALID_TOKEN,
        PASSWORD_TOO_COMMON,
        PASSWORD_BREACHED,
        PASSWORD_REUSED,
        Code::Conflict,
        Code::RateLimited,
        HOOK_REJECTED,
        HOOK_TIMEOUT,
    ]);
static SET_PASSWORD: Route<SetPasswordInput> = route(Route::post("set_password", "set-password"))
    .doc("Sets or changes the caller's password. All other sessions end.")
    .auth("userAuth")
    .answers(&[
        AnswerDesc::of::<Said>(200, "Done."),
        AnswerDesc::sparse::<Reissued>(
            200,
            "Done. The response has new tokens if all sessions ended.",
        ),
    ])
    .errors(&[
        CURRENT_PASSWORD_REQUIRED,
        PASSWORD_TOO_COMMON,
        PASSWORD_BREACHED,
        PASSWORD_REUSED,
        INVALID_CREDENTIALS,
        STEP_UP_REQUIRED,
        DELETION_SCHEDULED,
        MFA_SETUP_REQUIRED,
        CSRF_FAILED,
        Code::Conflict,
        Code::RateLimited,
        HOOK_REJECTED,
        HOOK_TIMEOUT,
    ]);
static VERIFY_EMAIL: Route<TokenInput> = route(Route::post("verify_email", "verify-email"))
    .doc("Verifies an address with a mailed token.")
    .public()
    .answers(DONE)
    .errors(&[INVALID_TOKEN, Code::Conflict, Code::RateLimited]);
static VERIFY_AND_LOGIN: Route<TokenInput> =
    route(Route::post("verify_and_login", "verify-and-login"))
        .doc("Verifies the address of a sign-up with a mailed token, and signs in.")
        .public()
        .reads(DEVICE)
        .answers(SIGNED_IN)
        .errors(LINK_REFUSED);
static RESEND: Route<OptionalEmailInput> = route(Route::post("resend_verification", "resend-verification"))
    .doc("Mails another link that verifies an address.\n\nThe response does not show whether the account exists.")
    .public()
    .answers(DONE_OR_NOTHING)
    // The address is optional for a caller with a session, so a cookie may authenticate the
    // request.
    .errors(&[CSRF_FAILED, Code::RateLimited]);
static MAGIC_REQUEST: Route<MagicLinkInput> =
    route(Route::post("magic_link_request", "magic-link/request"))
        .doc(
            "Mails a link that signs in.\n\nThe response does not show whether the account exists.",
        )
        .public()
        .answers(DONE_OR_NOTHING)
        .errors(&[Code::RateLimited]);
static MAGIC_VERIFY: Route<TokenInput> =
    route(Route::post("magic_link_verify", "magic-link/verify"))
        .doc("Signs in with a mailed token.")
        .public()
        .reads(DEVICE)
        .answers(SIGNED_IN)
        .errors(LINK_REFUSED);

/// The key set at the root of the server.
#[derive(linchpin::Embedded)]
struct Jwks {
    keys: serde_json::Value,
}

static JWKS: Route<Nothing> = Route::get("jwks", ".well-known/jwks.json")
    .of(PLUGIN)
    .headers(&[("cache-control", "max-age=300")])
    .doc("Returns the public keys of access tokens.")
    .public()
    .answers(&[AnswerDesc::of::<Jwks>(200, "A JWK set.")]);

/// The state of the running plugin, which is set at start-up.
pub(crate) type CoreCell = Arc<OnceLock<Arc<Core>>>;

/// A handler with the state of the running plugin.
fn with_core<I, F, Fut>(
    core_cell: &CoreCell,
    run: F,
) -> impl Fn(PluginCall, I) -> std::pin::Pin<Box<dyn Future<Output = Result<Reply>> + Send>>
+ Send
+ Sync
+ 'static
where
    I: RouteInput,
    F: Fn(Arc<Core>, PluginCall, I) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Reply>> + Send + 'static,
{
    let core_cell = Arc::clone(core_cell);
    move |call, input| match core_cell.get() {
        Some(core) => Box::pin(run(Arc::clone(core), call, input)),
        None => Box::pin(std::future::ready(Err(Error::unavailable(
            "authentication is not set up yet",
        )))),
    }
}

/// All routes that the settings enable.
pub(crate) fn all(config: &AuthConfig, core_cell: &CoreCell) -> Vec<PluginRoute> {
    let (auth, mount) = (&config.auth, config.auth.mount.as_str());
    let mut out = Vec::new();
    if auth.password.enabled {
        out.push(match auth.primary_field {
            PrimaryField::Email => {
                let route = if auth.conceal_registration {
                    &REGISTER_CONCEALED
                } else {
                    &REGISTER_BY_EMAIL
                };
                route.bind(
                    mount,
                    with_core(core_cell, |core, call, input: SignUpByEmail| {
                        account::register(core, call, input.into())
                    }),
                )
            }
            PrimaryField::Username => REGISTER_BY_USERNAME.bind(
                mount,
                with_core(core_cell, |core, call, input: SignUpByUsername| {
                    account::register(core, call, input.into())
                }),
            ),
            PrimaryField::Phone => REGISTER_BY_PHONE.bind(
                mount,
                with_core(core_cell, |core, call, input: SignUpByPhone| {
                    account::register(core, call, input.into())
                }),
            ),
        });
        out.push(match auth.primary_field {
            PrimaryField::Email => LOGIN_BY_EMAIL.bind(
                mount,
                with_core(core_cell, |core, call, input: SignInByEmail| {
                    account::login(core, call, input.into())
                }),
            ),
            PrimaryField::Username => LOGIN_BY_USERNAME.bind(
                mount,
                with_core(core_cell, |core, call, input: SignInByUsername| {
                    account::login(core, call, input.into())
                }),
            ),
            PrimaryField::Phone => LOGIN_BY_PHONE.bind(
                mount,
                with_core(core_cell, |core, call, input: SignInByPhone| {
                    account::login(core, call, input.into())
                }),
            ),
        });
    }
    out.push(LOGOUT.bind(
        mount,
        with_core(core_cell, |core, call, _| account::logout(core, call)),
    ));
    out.push(ME.bind(
        mount,
        with_core(core_cell, |core, call, _| account::me(core, call)),
    ));
    out.push(UPDATE_ME.bind(mount, with_core(core_cell, account::update_me)));
    out.push(SESSIONS.bind(
        mount,
        with_core(core_cell, |core, call, _| sessions::list(core, call)),
    ));
    out.push(REVOKE.bind(
        mount,
        with_core(core_cell, |core, call, _| sessions::revoke(core, call)),
    ));
    out.push(REVOKE_ALL.bind(
        mount,
        with_core(core_cell, |core, call, _| {
            sessions::revoke_others(core, call)
        }),
    ));
    out.push(REVOKE_OTHERS.bind(
        mount,
        with_core(core_cell, |core, call, _| {
            sessions::revoke_others(core, call)
        }),
    ));
    if auth.refresh.enabled {
        out.push(REFRESH.bind(mount, with_core(core_cell, refresh::refresh)));
    }
    if auth.password.enabled {
        out.push(SET_PASSWORD.bind(mount, with_core(core_cell, password::set)));
    }
    if auth.resets() {
        out.push(FORGOT.bind(mount, with_core(core_cell, password::forgot)));
        out.push(RESET.bind(mount, with_core(core_cell, password::reset)));
    }
    if auth.email_verification.enabled {
        out.push(VERIFY_EMAIL.bind(mount, with_core(core_cell, mailed::verify_email)));
        out.push(RESEND.bind(mount, with_core(core_cell, mailed::resend_verification)));
    }
    if auth.conceal_registration && auth.password.enabled {
        out.push(VERIFY_AND_LOGIN.bind(mount, with_core(core_cell, concealed::verify_and_login)));
    }
    if auth.magic_link.enabled {
        out.push(MAGIC_REQUEST.bind(mount, with_core(core_cell, mailed::magic_request)));
        out.push(MAGIC_VERIFY.bind(mount, with_core(core_cell, mailed::magic_verify)));
    }
    out.extend(proof::routes(config, core_cell));
    out.extend(mfa::routes(config, core_cell));
    out.extend(deletion::routes(config, core_cell));
    out.extend(email::routes(config, core_cell));
    #[cfg(feature = "providers")]
    out.extend(oauth::routes(config, core_cell));
    out.extend(admin::routes(config, core_cell));
    out.extend(passkeys::routes(config, core_cell));
    if config.security.algorithm != crate::keys::signing::Algorithm::Hs256 {
        out.push(JWKS.bind(
            "/",
            with_core(core_cell, |core, _, _| async move { jwks(&core) }),
        ));
    }
    out
}

/// Paths of routes on which a session cookie does not authenticate the request, so the general
/// check for forged requests does not run. A route that needs this check makes it itself.
pub(crate) fn self_checking_paths(config: &AuthConfig) -> Vec<String> {
    let fixed = [
        "register",
        "login",
        "logout",
        "refresh",
        "forgot-password",
        "reset-password",
        "verify-email",
        "verify-and-login",
        "magic-link/request",
        "magic-link/verify",
        "passkey/login-options",
        "passkey/login",
        "mfa/verify",
        "mfa/resend",
    ];
    let paths = fixed.into_iter().map(str::to_owned);
    #[cfg(feature = "providers")]
    let paths = paths.chain(oauth::self_checking_paths(config));
    paths
        .map(|path| format!("{}/{path}", config.auth.mount))
        .collect()
}

/// The session of the caller. On self-checking paths a session cookie gives the request no actor, so
/// the cookie is read here.
async fn session_of(core: &Core, call: &PluginCall) -> Result<Option<CheckedSession>> {
    let actor = match credential::of(&call.headers, &core.cookies) {
        Credential::Cookie(token) => match core.checks.cached_actor(token) {
            Some(actor) => Some(actor),
            None => core
                .checks
                .find_actor(token)
                .await
                .map_err(Error::unavailable)?,
        },
        _ => None,
    };
    let by_cookie = actor.as_deref().and_then(checked_session);
    Ok(by_cookie
        .or_else(|| call.cx.get_actor().and_then(|actor| checked_session(actor)))
        .cloned())
}

fn jwks(core: &Core) -> Result<Reply> {
    let keys: serde_json::Value = core
        .signing
        .jwks()
        .map(serde_json::from_str)
        .transpose()
        .map_err(Error::internal)?
        .ok_or_else(Error::not_found)?;
    Reply::json(200, &keys)
}
