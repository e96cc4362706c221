//! Routes for passkeys: registration, list, renaming and removal. `passkey_login` signs in.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use linchpin::http::{AnswerDesc, Nothing, PluginCall, PluginRoute, Reply, Route};
use linchpin::{Code, Error, Problem, Result, Timestamp};
use serde_json::json;

use super::account::caller;
use super::mailed::message_reply;
use super::mfa::{ProofInput, session_and_account};
use super::mfa_shapes::proof_refused;
use super::passkey_shapes::{
    LoginInput, LoginOptions, LoginOptionsInput, PasskeyList, PasskeyMade, PasskeyView,
    RegisterInput, RegistrationOptions, RenameInput,
};
use super::{CoreCell, DEVICE, DONE, SIGNED_IN, passkey_login, route, with_core};
use crate::config::AuthConfig;
use crate::core::{AuditEvent, Client, Core};
use crate::entities::{Credential, CredentialCreate, CredentialPatch, User};
use crate::error::{
    ACCOUNT_SUSPENDED, CSRF_FAILED, DELETION_SCHEDULED, EMAIL_NOT_VERIFIED, HOOK_REJECTED,
    HOOK_TIMEOUT, INVALID_CHALLENGE, INVALID_CREDENTIALS, LAST_CREDENTIAL, LIMIT_REACHED,
    MFA_REQUIRED, MFA_SETUP_REQUIRED, STEP_UP_REQUIRED, WEBAUTHN_FAILED, conflict, refuse,
};
use crate::flow::passkeys::{PasskeyRequest, name_for_mail};
use crate::flow::{By, Need, Proof, Without};
use crate::guards::ENROLLING;
use crate::mail::MailKind;
use crate::mfa::{ProofMethod, enrolled};
use crate::onetime::{Purpose, Terms};
use crate::session::CheckedSession;
use crate::webauthn::Registered;

/// Maximum number of passkeys of an account.
const MAX_PASSKEYS: usize = 25;
/// Maximum length of a name in characters.
const MAX_NAME_CHARS: usize = 64;
const REGISTRATION_LIFETIME: Duration = Duration::from_mins(5);

const REMOVAL: &[Code] = proof_refused!(MFA_REQUIRED, LAST_CREDENTIAL, Code::NotFound);

static REGISTER_OPTIONS: Route<Nothing> = route(Route::post(
    "passkey_register_options",
    "mfa/webauthn/register-options",
))
.doc("Returns the options for the registration of a passkey.")
.auth(ENROLLING)
.answers(&[AnswerDesc::of::<RegistrationOptions>(
    200,
    "The options for the browser, and the token to send with its result.",
)])
.errors(&[
    STEP_UP_REQUIRED,
    EMAIL_NOT_VERIFIED,
    LIMIT_REACHED,
    DELETION_SCHEDULED,
    CSRF_FAILED,
]);
static REGISTER: Route<RegisterInput> =
    route(Route::post("passkey_register", "mfa/webauthn/register"))
        .doc("Adds a passkey to the caller's account.")
        .auth(ENROLLING)
        .answers(&[AnswerDesc::of::<PasskeyMade>(200, "The passkey was added.")])
        .errors(&[
            INVALID_CHALLENGE,
            WEBAUTHN_FAILED,
            STEP_UP_REQUIRED,
            EMAIL_NOT_VERIFIED,
            LIMIT_REACHED,
            Code::Conflict,
            DELETION_SCHEDULED,
            CSRF_FAILED,
        ]);
static CREDENTIALS: Route<Nothing> = route(Route::get("passkeys", "mfa/webauthn/credentials"))
    .doc("Lists the caller's passkeys, oldest first.")
    .answers(&[AnswerDesc::of::<PasskeyList>(200, "The passkeys.")])
    .errors(&[DELETION_SCHEDULED, MFA_SETUP_REQUIRED]);
static RENAME: Route<RenameInput> = route(Route::patch(
    "rename_passkey",
    "mfa/webauthn/credentials/{credentialId}",
))
.doc("Renames a passkey of the caller.")
.answers(&[AnswerDesc::of::<PasskeyView>(200, "The passkey.")])
.errors(&[
    Code::NotFound,
    DELETION_SCHEDULED,
    MFA_SETUP_REQUIRED,
    CSRF_FAILED,
]);
static REMOVE: Route<ProofInput> = route(Route::delete(
    "remove_passkey",
    "mfa/webauthn/credentials/{credentialId}",
))
.doc("Removes a passkey of the caller.")
.answers(DONE)
.errors(REMOVAL);
static REMOVE_ALL: Route<ProofInput> = route(Route::delete("remove_passkeys", "mfa/webauthn"))
    .doc("Removes all passkeys of the caller.")
    .answers(DONE)
    .errors(REMOVAL);
static LOGIN_OPTIONS: Route<LoginOptionsInput> = route(Route::post(
    "passkey_login_options",
    "passkey/login-options",
))
.doc("Returns the options for a sign-in with a passkey.\n\nThe response is the same for all callers.")
.public()
.answers(&[AnswerDesc::of::<LoginOptions>(
    200,
    "The options for the browser, and the token to send with its result.",
)])
.errors(&[Code::RateLimited]);
static LOGIN: Route<LoginInput> = route(Route::post("passkey_login", "passkey/login"))
    .doc("Signs in with a passkey.")
    .public()
    .reads(DEVICE)
    .answers(SIGNED_IN)
    .errors(&[
        INVALID_CHALLENGE,
        WEBAUTHN_FAILED,
        INVALID_CREDENTIALS,
        ACCOUNT_SUSPENDED,
        EMAIL_NOT_VERIFIED,
        CSRF_FAILED,
        Code::RateLimited,
        HOOK_REJECTED,
        HOOK_TIMEOUT,
    ]);

/// The routes that the settings enable.
pub(super) fn routes(config: &AuthConfig, core_cell: &CoreCell) -> Vec<PluginRoute> {
    let (passkeys, mount) = (&config.auth.passkeys, config.auth.mount.as_str());
    let mut out = Vec::new();
    if passkeys.enabled {
        out.push(REGISTER_OPTIONS.bind(
            mount,
            with_core(core_cell, |core, call, _| register_options(core, call)),
        ));
        out.push(REGISTER.bind(mount, with_core(core_cell, register)));
        out.push(CREDENTIALS.bind(
            mount,
            with_core(core_cell, |core, call, _| credentials(core, call)),
        ));
        out.push(RENAME.bind(mount, with_core(core_cell, rename)));
        out.push(REMOVE.bind(mount, with_core(core_cell, remove)));
        out.push(REMOVE_ALL.bind(mount, with_core(core_cell, remove_all)));
    }
    if passkeys.enabled && passkeys.primary {
        out.push(LOGIN_OPTIONS.bind(
            mount,
            with_core(core_cell, |core, call, _| {
                passkey_login::login_options(core, call)
            }),
        ));
        out.push(LOGIN.bind(mount, with_core(core_cell, passkey_login::login)));
    }
    out
}

async fn register_options(core: Arc<Core>, call: PluginCall) -> Result<Reply> {
    let (known, client, user) = session_and_account(&core, &call).await?;
    let cx = client.cx();
    core.may_add_way_in(&user)?;
    core.require(&client, &known, &user, Need::Recent)?;
    let existing = core.passkeys.of(&cx, &user.id).await?;
    if existing.len() >= MAX_PASSKEYS {
        return Err(refuse(LIMIT_REACHED));
    }
    let (request, options) = core.registration_options(&user, &known.handle, &existing)?;
    let token = core
        .parts
        .tokens
        .issue(
            &cx,
            Purpose::WebauthnRegister,
            &user.id,
            &request,
            Terms::link(REGISTRATION_LIFETIME),
        )
        .await?;
    Reply::json(
        200,
        &RegistrationOptions {
            options,
            registration_token: token.expose().to_owned(),
        },
    )
}

pub(super) async fn register(
    core: Arc<Core>,
    call: PluginCall,
    input: RegisterInput,
) -> Result<Reply> {
    let (known, client, user) = session_and_account(&core, &call).await?;
    let cx = client.cx();
    let tokens = &core.parts.tokens;
    core.may_add_way_in(&user)?;
    let invalid = || refuse(INVALID_CHALLENGE);
    let found = tokens
        .find(&cx, Purpose::WebauthnRegister, &input.registration_token)
        .await?
        .ok_or_else(invalid)?;
    let request: PasskeyRequest = tokens.payload(&found)?;
    if found.user_id != user.id || request.session != known.handle {
        return Err(invalid());
    }
    core.require_factors(&known, &user)?;
    let judged = core.passkeys.check_new_passkey(
        input.attestation_response,
        &request,
        core.config.auth.passkeys.user_verification,
    );
    let Ok((registered, transports)) = judged else {
        // The options are valid for one answer.
        tokens.take(&cx, &found).await?;
        return Err(refuse(WEBAUTHN_FAILED));
    };
    let new = new_credential(
        &user,
        registered,
        transports,
        name_or_default(input.name),
        client.now,
    );
    let made = cx
        .transaction(async |cx| {
            if !tokens.take(cx, &found).await? {
                return Err(invalid());
            }
            let credential = core
                .passkeys
                .credentials
                .create(cx, new)
                .await
                .map_err(already_registered)?;
            if core.passkeys.of(cx, &user.id).await?.len() > MAX_PASSKEYS {
                return Err(refuse(LIMIT_REACHED));
            }
            let details = json!({ "credentialId": credential.id });
            core.audit(
                cx,
                &client,
                AuditEvent::about("auth:passkey.added", &user.id)
                    .session(&known.handle)
                    .details(details),
            )
            .await?;
            core.parts
                .notice_of(
                    cx,
                    &client,
                    &user,
                    MailKind::PasskeyAdded,
                    &[("name", &name_for_mail(&credential.name))],
                )
                .await?;
            let second = core.config.auth.mfa.enabled;
            let codes = if enrolled(&user).contains(&ProofMethod::Webauthn) {
                core.lock_unchanged(cx, &user).await.map_err(conflict)?;
                // The other branches check this too.
                if !core.is_live(cx, &client, &known.handle, &user.id).await? {
                    return Err(Error::unauthorized());
                }
                None
            } else if second {
                core.enrol(cx, &client, &user, ProofMethod::Webauthn, &known.handle)
                    .await?
            } else {
                core.update_passkey_factor(cx, &client, &user, true, &known.handle)
                    .await?;
                None
            };
            Ok((credential, codes))
        })
        .await;
    core.checks.forget(&user.id);
    let (credential, codes) = made?;
    let recovery_codes = codes
        .iter()
        .flatten()
        .map(|code| code.expose().to_owned())
        .collect();
    let message = "The passkey was added.".to_owned();
    Reply::json(
        200,
        &PasskeyMade {
            ok: true,
            message,
            credential_id: credential.id,
            recovery_codes,
        },
    )
}

/// The error for a credential that is registered already, for any account.
fn already_registered(error: Error) -> Error {
    if error.code() == Code::Conflict {
        Error::unique(["credentialId"])
    } else {
        error
    }
}

fn new_credential(
    user: &User,
    registered: Registered,
    transports: Vec<String>,
    name: String,
    now: Timestamp,
) -> CredentialCreate {
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

/// The name of a passkey as typed, or the default name.
fn name_or_default(typed: Option<String>) -> String {
    let typed = typed.unwrap_or_default();
    let name = typed.trim();
    if name.is_empty() {
        "Passkey".to_owned()
    } else {
        name.chars().take(MAX_NAME_CHARS).collect()
    }
}

async fn credentials(core: Arc<Core>, call: PluginCall) -> Result<Reply> {
    let known = caller(&call)?;
    let all = core
        .passkeys
        .of(&core.client(&call).cx(), &known.user_id)
        .await?;
    Reply::json(
        200,
        &PasskeyList {
            credentials: all.into_iter().map(passkey_view).collect(),
        },
    )
}

pub(super) async fn rename(core: Arc<Core>, call: PluginCall, input: RenameInput) -> Result<Reply> {
    let known = caller(&call)?;
    let cx = core.client(&call).cx();
    let name = input.name.trim();
    if name.is_empty() {
        return Err(Error::invalid(Problem::new(
            "name",
            "required",
            "must not be blank",
        )));
    }
    let own = passkey_of_caller(&core, &cx, &known, call.param(0)).await?;
    let patch = CredentialPatch {
        name: Some(name.to_owned()),
        ..CredentialPatch::default()
    };
    Reply::json(
        200,
        &passkey_view(
            core.passkeys
                .credentials
                .update(&cx, own.id, patch, None)
                .await?,
        ),
    )
}

pub(super) async fn remove(
    core: Arc<Core>,
    call: PluginCall,
    mut input: ProofInput,
) -> Result<Reply> {
    let (known, client, user) = session_and_account(&core, &call).await?;
    let one = passkey_of_caller(&core, &client.cx(), &known, call.param(0)).await?;
    let proof = core
        .prove(&client, &known, &user, &input.take_proof(), Need::WayIn)
        .await?;
    remove_passkeys(&core, &client, &user, &proof, &[one]).await?;
    message_reply("The passkey was removed.")
}

async fn remove_all(core: Arc<Core>, call: PluginCall, mut input: ProofInput) -> Result<Reply> {
    let (known, client, user) = session_and_account(&core, &call).await?;
    let all = core.passkeys.of(&client.cx(), &user.id).await?;
    let proof = core
        .prove(&client, &known, &user, &input.take_proof(), Need::WayIn)
        .await?;
    if all.is_empty() {
        return Err(Error::not_found());
    }
    remove_passkeys(&core, &client, &user, &proof, &all).await?;
    message_reply("All passkeys were removed.")
}

/// Removes passkeys. The account is written only if its version is still the one that was read: if
/// two requests remove the last two passkeys at once, one of them gets a conflict.
async fn remove_passkeys(
    core: &Core,
    client: &Client,
    user: &User,
    proof: &Proof,
    gone: &[Credential],
) -> Result<()> {
    let cx = client.cx();
    core.keeps_a_way_in(&cx, user, Without::Passkeys(gone))
        .await?;
    let removes_all = core.passkeys.of(&cx, &user.id).await?.len() == gone.len();
    let is_factor = core.methods(user).contains(&ProofMethod::Webauthn);
    if removes_all && is_factor {
        core.may_unenrol(user, &[ProofMethod::Webauthn])?;
    }
    let done = cx
        .transaction(async |cx| {
            proof.spend(core, cx, client, user).await?;
            if removes_all && is_factor {
                return core
                    .unenrol(
                        cx,
                        client,
                        user,
                        &[ProofMethod::Webauthn],
                        By::Session(&proof.session),
                    )
                    .await;
            }
            core.update_passkey_factor(cx, client, user, !removes_all, &proof.session)
                .await?;
            core.drop_passkeys(cx, client, user, gone).await
        })
        .await;
    core.checks.forget(&user.id);
    done
}

/// Returns a passkey of the caller.
async fn passkey_of_caller(
    core: &Core,
    cx: &linchpin::Cx,
    known: &CheckedSession,
    id: &str,
) -> Result<Credential> {
    core.passkeys
        .credentials
        .get(cx, id)
        .await?
        .filter(|one| one.user_id == known.user_id)
        .ok_or_else(Error::not_found)
}

fn passkey_view(credential: Credential) -> PasskeyView {
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
