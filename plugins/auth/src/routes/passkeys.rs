//! Passkeys: making them, signing in with them, and looking after them.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use linchpin::http::{AnswerDesc, Nothing, PluginCall, PluginRoute, Reply, Route};
use linchpin::{Code, Embedded, Error, Problem, Result, Timestamp};
use serde_json::{Value as Json, json};

use super::account::caller;
use super::mailed::by_ip;
use super::shapes::Authenticated;
use super::{Place, at, route};
use crate::config::AuthConfig;
use crate::core::{Client, Core, Happened};
use crate::entities::{Credential, CredentialCreate, CredentialPatch, User};
use crate::error::{
    ACCOUNT_SUSPENDED, CSRF_FAILED, DELETION_SCHEDULED, EMAIL_NOT_VERIFIED, HOOK_TIMEOUT, INVALID_CHALLENGE, INVALID_CREDENTIALS,
    LIMIT_REACHED, MFA_SETUP_REQUIRED, STEP_UP_REQUIRED, WEBAUTHN_FAILED, refuse,
};
use crate::flow::passkeys::{Asked, Unproved, Used, was_overtaken};
use crate::flow::{Need, Proved};
use crate::guards::ENROLLING;
use crate::hooks::SignIn;
use crate::limit::{Bucket, Hit};
use crate::mail::MailKind;
use crate::onetime::{OneTime, Purpose, Terms};
use crate::session::Known;
use crate::webauthn::Registered;

/// Most passkeys of an account.
const MOST: usize = 25;
/// Longest name, in characters.
const LONGEST_NAME: usize = 64;
const REGISTERING: Duration = Duration::from_mins(5);
const SIGNING_IN: Duration = Duration::from_mins(2);
const PASSKEY: &str = "passkey";

/// What `navigator.credentials.create()` is asked.
#[derive(Embedded)]
struct RegistrationOptions {
    /// `PublicKeyCredentialCreationOptionsJSON`
    options: Json,
    registration_token: String,
}

/// What it answered.
#[derive(Embedded)]
struct RegisterInput {
    registration_token: String,
    /// `RegistrationResponseJSON`
    attestation_response: Json,
    #[field(length = ..=64)]
    name: Option<String>,
}

/// A new passkey.
#[derive(Embedded)]
struct PasskeyMade {
    ok: bool,
    credential_id: String,
    /// The account's first ones; null when it has some already.
    recovery_codes: Option<Vec<String>>,
}

/// A passkey as its owner sees it.
#[derive(Embedded)]
struct PasskeyView {
    credential_id: String,
    name: String,
    created_at: Timestamp,
    last_used_at: Option<Timestamp>,
    transports: Vec<String>,
    backed_up: bool,
    user_verified: bool,
}

/// The passkeys of an account.
#[derive(Embedded)]
struct PasskeyList {
    credentials: Vec<PasskeyView>,
}

/// Another name for one.
#[derive(Embedded)]
struct RenameInput {
    #[field(length = 1..=64)]
    name: String,
}

/// Who wants to sign in, which nobody asks: the answer is the same for all.
#[derive(Embedded)]
struct LoginOptionsInput {
    #[field(length = ..=254)]
    #[allow(dead_code)] // accepted and never used: an answer that depended on it would tell who has an account
    identifier: Option<String>,
}

/// What `navigator.credentials.get()` is asked.
#[derive(Embedded)]
struct LoginOptions {
    /// `PublicKeyCredentialRequestOptionsJSON`
    options: Json,
    passkey_token: String,
}

/// What it answered.
#[derive(Embedded)]
struct LoginInput {
    passkey_token: String,
    /// `AuthenticationResponseJSON`
    assertion_response: Json,
}

static REGISTER_OPTIONS: Route<Nothing> = route(Route::post("passkey_register_options", "mfa/webauthn/register-options"))
    .doc("What a browser is asked to make a passkey.")
    .auth(ENROLLING)
    .answers(&[AnswerDesc::of::<RegistrationOptions>(200, "Options, and the token to answer them with.")])
    .errors(&[STEP_UP_REQUIRED, EMAIL_NOT_VERIFIED, LIMIT_REACHED, DELETION_SCHEDULED, CSRF_FAILED]);
static REGISTER: Route<RegisterInput> = route(Route::post("passkey_register", "mfa/webauthn/register"))
    .doc("Adds a passkey to the caller's account.")
    .auth(ENROLLING)
    .answers(&[AnswerDesc::of::<PasskeyMade>(200, "Added.")])
    .errors(&[INVALID_CHALLENGE, WEBAUTHN_FAILED, EMAIL_NOT_VERIFIED, LIMIT_REACHED, Code::Conflict, DELETION_SCHEDULED, CSRF_FAILED]);
static CREDENTIALS: Route<Nothing> = route(Route::get("passkeys", "mfa/webauthn/credentials"))
    .doc("The caller's passkeys, the oldest first.")
    .answers(&[AnswerDesc::of::<PasskeyList>(200, "The passkeys.")])
    .errors(&[DELETION_SCHEDULED, MFA_SETUP_REQUIRED]);
static RENAME: Route<RenameInput> = route(Route::patch("rename_passkey", "mfa/webauthn/credentials/{credentialId}"))
    .doc("Gives a passkey of the caller another name.")
    .answers(&[AnswerDesc::of::<PasskeyView>(200, "The passkey.")])
    .errors(&[Code::NotFound, DELETION_SCHEDULED, MFA_SETUP_REQUIRED, CSRF_FAILED]);
static LOGIN_OPTIONS: Route<LoginOptionsInput> = route(Route::post("passkey_login_options", "passkey/login-options"))
    .doc("What a browser is asked to sign in with a passkey.\n\nThe answer is the same whoever asks.")
    .public()
    .answers(&[AnswerDesc::of::<LoginOptions>(200, "Options, and the token to answer them with.")])
    .errors(&[Code::RateLimited]);
static LOGIN: Route<LoginInput> = route(Route::post("passkey_login", "passkey/login"))
    .doc("Signs in with a passkey.")
    .public()
    .answers(&[AnswerDesc::sparse::<Authenticated>(200, "Signed in.")])
    .errors(&[
        INVALID_CHALLENGE,
        WEBAUTHN_FAILED,
        INVALID_CREDENTIALS,
        ACCOUNT_SUSPENDED,
        EMAIL_NOT_VERIFIED,
        CSRF_FAILED,
        Code::RateLimited,
        HOOK_TIMEOUT,
    ]);

/// Those that the settings ask for.
pub(super) fn routes(config: &AuthConfig, place: &Place) -> Vec<PluginRoute> {
    let (passkeys, mount) = (&config.auth.passkeys, config.auth.mount.as_str());
    let mut out = Vec::new();
    if passkeys.enabled {
        out.push(REGISTER_OPTIONS.bind(mount, at(place, |core, call, _| register_options(core, call))));
        out.push(REGISTER.bind(mount, at(place, register)));
        out.push(CREDENTIALS.bind(mount, at(place, |core, call, _| credentials(core, call))));
        out.push(RENAME.bind(mount, at(place, rename)));
    }
    if passkeys.enabled && passkeys.primary {
        out.push(LOGIN_OPTIONS.bind(mount, at(place, |core, call, _| login_options(core, call))));
        out.push(LOGIN.bind(mount, at(place, login)));
    }
    out
}

/// The caller, who may add a passkey.
async fn enrolling(core: &Core, client: &Client, known: &Known) -> Result<User> {
    let user = core.users.get(&client.cx(), known.user_id.as_str()).await?.ok_or_else(Error::unauthorized)?;
    // Whoever has signed up with somebody else's address must not keep a key to the account.
    if core.config.auth.email_verification.enabled && user.email_verified_at.is_none() {
        return Err(refuse(EMAIL_NOT_VERIFIED));
    }
    Ok(user)
}

async fn register_options(core: Arc<Core>, call: PluginCall) -> Result<Reply> {
    let known = caller(&call)?;
    let client = core.client(&call);
    let cx = client.cx();
    let user = enrolling(&core, &client, &known).await?;
    if !core.suffices(&client, &known, &user, Need::Recent) {
        return Err(refuse(STEP_UP_REQUIRED));
    }
    let had = core.passkeys.of(&cx, &user.id).await?;
    if had.len() >= MOST {
        return Err(refuse(LIMIT_REACHED));
    }
    let (asked, options) = core.ask_for_new_passkey(&user, &known.handle, &had)?;
    let token = core.parts.tokens.issue(&cx, Purpose::WebauthnRegister, &user.id, &asked, Terms::link(REGISTERING)).await?;
    Reply::json(200, &RegistrationOptions { options, registration_token: token.expose().to_owned() })
}

async fn register(core: Arc<Core>, call: PluginCall, input: RegisterInput) -> Result<Reply> {
    let known = caller(&call)?;
    let client = core.client(&call);
    let cx = client.cx();
    let tokens = &core.parts.tokens;
    let user = enrolling(&core, &client, &known).await?;
    let invalid = || refuse(INVALID_CHALLENGE);
    let found = tokens.find(&cx, Purpose::WebauthnRegister, &input.registration_token).await?.ok_or_else(invalid)?;
    let asked: Asked = tokens.payload(&found)?;
    if found.user_id != user.id || asked.session != known.handle {
        return Err(invalid());
    }
    let judged = core.passkeys.judge_new(input.attestation_response, &asked, core.config.auth.passkeys.user_verification);
    let Ok((registered, transports)) = judged else {
        // It was asked once and answered once.
        tokens.take(&cx, &found).await?;
        return Err(refuse(WEBAUTHN_FAILED));
    };
    let new = created(&user, registered, transports, named(input.name), client.now);
    let made = cx
        .transaction(async |cx| {
            if !tokens.take(cx, &found).await? {
                return Err(invalid());
            }
            let credential = core.passkeys.credentials.create(cx, new).await?;
            if core.passkeys.of(cx, &user.id).await?.len() > MOST {
                return Err(refuse(LIMIT_REACHED));
            }
            let details = json!({ "credentialId": credential.id });
            core.audit(cx, &client, Happened::to("auth:passkey.added", &user.id).session(&known.handle).details(details)).await?;
            core.parts.notice_of(cx, &client, &user, MailKind::PasskeyAdded, &[("name", &credential.name)]).await?;
            Ok(credential)
        })
        .await;
    core.checks.forget(&user.id);
    let credential = made.map_err(|error| if error.code() == Code::Conflict { Error::unique(["credentialId"]) } else { error })?;
    Reply::json(200, &PasskeyMade { ok: true, credential_id: credential.id, recovery_codes: None })
}

fn created(user: &User, registered: Registered, transports: Vec<String>, name: String, now: Timestamp) -> CredentialCreate {
    CredentialCreate {
        id: URL_SAFE_NO_PAD.encode(registered.credential_id),
        user_id: user.id.clone(),
        public_key: URL_SAFE_NO_PAD.encode(registered.public_key),
        sign_count: Some(i64::from(registered.sign_count)),
        user_verified: registered.flags.user_verified,
        backup_eligible: registered.flags.backup_eligible,
        backed_up: registered.flags.backed_up,
        transports: Some(transports),
        name,
        created_at: now,
        last_used_at: None,
        suspect_since: None,
    }
}

/// What a passkey is called whose owner says nothing.
fn named(typed: Option<String>) -> String {
    let typed = typed.unwrap_or_default();
    let name = typed.trim();
    if name.is_empty() { "Passkey".to_owned() } else { name.chars().take(LONGEST_NAME).collect() }
}

async fn credentials(core: Arc<Core>, call: PluginCall) -> Result<Reply> {
    let known = caller(&call)?;
    let all = core.passkeys.of(&core.client(&call).cx(), &known.user_id).await?;
    Reply::json(200, &PasskeyList { credentials: all.into_iter().map(shown).collect() })
}

async fn rename(core: Arc<Core>, call: PluginCall, input: RenameInput) -> Result<Reply> {
    let known = caller(&call)?;
    let cx = core.client(&call).cx();
    let name = input.name.trim();
    if name.is_empty() {
        return Err(Error::invalid(Problem::new("name", "required", "must not be blank")));
    }
    let own = own(&core, &cx, &known, call.param(0)).await?;
    let patch = CredentialPatch { name: Some(name.to_owned()), ..CredentialPatch::default() };
    Reply::json(200, &shown(core.passkeys.credentials.update(&cx, own.id, patch, None).await?))
}

/// A passkey of the caller.
async fn own(core: &Core, cx: &linchpin::Cx, known: &Known, id: &str) -> Result<Credential> {
    core.passkeys.credentials.get(cx, id).await?.filter(|one| one.user_id == known.user_id).ok_or_else(Error::not_found)
}

fn shown(credential: Credential) -> PasskeyView {
    PasskeyView {
        credential_id: credential.id,
        name: credential.name,
        created_at: credential.created_at,
        last_used_at: credential.last_used_at,
        transports: credential.transports,
        backed_up: credential.backed_up,
        user_verified: credential.user_verified,
    }
}

async fn login_options(core: Arc<Core>, call: PluginCall) -> Result<Reply> {
    let client = core.client(&call);
    by_ip(&core, &client, Bucket::PasskeyOptions).await?;
    let (asked, options) = core.ask_for_passkey(&[], core.config.auth.passkeys.user_verification)?;
    let terms = Terms { only_newest: false, ..Terms::link(SIGNING_IN) };
    let token = core.parts.tokens.issue(&client.cx(), Purpose::PasskeyLogin, "", &asked, terms).await?;
    Reply::json(200, &LoginOptions { options, passkey_token: token.expose().to_owned() })
}

async fn login(core: Arc<Core>, call: PluginCall, input: LoginInput) -> Result<Reply> {
    core.may_sign_in(&call, "passkey/login").await?;
    let client = core.client(&call);
    let cx = client.cx();
    let attempt = core.limiter.take(&[Hit { bucket: Bucket::PasskeyLogin, of: &[&client.counted()] }]).await?;
    let invalid = || refuse(INVALID_CHALLENGE);
    let found = core.parts.tokens.find(&cx, Purpose::PasskeyLogin, &input.passkey_token).await?.ok_or_else(invalid)?;
    let asked: Asked = core.parts.tokens.payload(&found)?;
    let policy = core.config.auth.passkeys.user_verification;
    let mut told = false;
    for tried in 0.. {
        let judged = core.judge_passkey(&cx, &client, &asked, input.assertion_response.clone(), None, policy).await?;
        let used = match judged {
            Ok(used) => used,
            Err(unproved) => return Err(failed(&core, &client, &found, unproved).await?),
        };
        if used.user.suspended_at.is_some() {
            attempt.undo().await;
            return Err(refuse(ACCOUNT_SUSPENDED));
        }
        if !std::mem::replace(&mut told, true) {
            let user_id = Some(used.user.id.clone());
            let sign_in = SignIn { identifier: None, method: PASSKEY, user_id, session_id: None, amr: Vec::new() };
            if let Err(refusal) = core.hooks.ask(&core.hook_cx(&client), &sign_in, |hooks, cx, input| hooks.pre_login(cx, input)).await {
                attempt.undo().await;
                return Err(refusal);
            }
        }
        let noted = cx
            .transaction(async |cx| {
                if !core.parts.tokens.take(cx, &found).await? {
                    return Err(invalid());
                }
                core.note_use(cx, &client, &used).await
            })
            .await;
        if was_overtaken(&noted, tried) {
            continue;
        }
        noted?;
        attempt.succeeded().await;
        return core.complete_primary(&client, proved(used)).await;
    }
    Err(invalid())
}

/// A passkey that verified its user is two factors by itself.
fn proved(used: Used) -> Proved {
    let verified = used.asserted.flags.user_verified;
    let amr: &[&str] = if verified { &["pop", "user", "mfa"] } else { &["pop", "user"] };
    Proved { user: used.user, method: PASSKEY, amr, aal: if verified { 2 } else { 1 }, status: 200 }
}

/// Writes down a use that proved nothing; what was asked is used up.
async fn failed(core: &Core, client: &Client, found: &OneTime, unproved: Unproved) -> Result<Error> {
    let happened = Happened {
        event: "auth:login.failed",
        user: unproved.user.as_deref(),
        session: None,
        outcome: "webauthn_failed",
        details: json!({ "method": PASSKEY, "reason": unproved.fault.0 }),
    };
    let cx = client.cx();
    cx.transaction(async |cx| {
        core.parts.tokens.take(cx, found).await?;
        if let Some(copied) = &unproved.copied {
            core.suspect(cx, client, copied).await?;
        }
        core.audit(cx, client, happened).await
    })
    .await?;
    Ok(refuse(WEBAUTHN_FAILED))
}
