//! Routes for passkeys: registration, list, renaming and removal. `passkey_login` signs in.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use linchpin::http::{AnswerDesc, Nothing, PluginCall, PluginRoute, Reply, Route};
use linchpin::{Code, Error, Problem, Result, Timestamp};
use serde_json::json;

use super::account::caller;
use super::mailed::said;
use super::mfa::{ProofInput, whose};
use super::mfa_shapes::proof_refused;
use super::passkey_shapes::{
    LoginInput, LoginOptions, LoginOptionsInput, PasskeyList, PasskeyMade, PasskeyView,
    RegisterInput, RegistrationOptions, RenameInput,
};
use super::{DEVICE, DONE, Place, SIGNED_IN, at, passkey_login, route};
use crate::config::AuthConfig;
use crate::core::{AuditEvent, Client, Core};
use crate::entities::{Credential, CredentialCreate, CredentialPatch, User};
use crate::error::{
    ACCOUNT_SUSPENDED, CSRF_FAILED, DELETION_SCHEDULED, EMAIL_NOT_VERIFIED, HOOK_REJECTED,
    HOOK_TIMEOUT, INVALID_CHALLENGE, INVALID_CREDENTIALS, LAST_CREDENTIAL, LIMIT_REACHED,
    MFA_REQUIRED, MFA_SETUP_REQUIRED, STEP_UP_REQUIRED, WEBAUTHN_FAILED, conflict, refuse,
};
use crate::flow::passkeys::{PasskeyRequest, as_mailed};
use crate::flow::{By, Need, Proof, Without};
use crate::guards::ENROLLING;
use crate::mail::MailKind;
use crate::mfa::{Way, enrolled};
use crate::onetime::{Purpose, Terms};
use crate::session::Known;
use crate::webauthn::Registered;

/// Maximum number of passkeys of an account.
const MOST: usize = 25;
/// Maximum length of a name in characters.
const LONGEST_NAME: usize = 64;
const REGISTERING: Duration = Duration::from_mins(5);

const REMOVAL: &[Code] = proof_refused!(MFA_REQUIRED, LAST_CREDENTIAL, Code::NotFound);

static REGISTER_OPTIONS: Route<Nothing> = route(Route::post(
    "passkey_register_options",
    "mfa/webauthn/register-options",
))
.doc("Returns the options for the registration of a passkey.")
.auth(ENROLLING)
.answers(&[AnswerDesc::of::<RegistrationOptions>(
    200,
    "The options, and the token for their result.",
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
    "The options, and the token for their result.",
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
pub(super) fn routes(config: &AuthConfig, place: &Place) -> Vec<PluginRoute> {
    let (passkeys, mount) = (&config.auth.passkeys, config.auth.mount.as_str());
    let mut out = Vec::new();
    if passkeys.enabled {
        out.push(REGISTER_OPTIONS.bind(
            mount,
            at(place, |core, call, _| register_options(core, call)),
        ));
        out.push(REGISTER.bind(mount, at(place, register)));
        out.push(CREDENTIALS.bind(mount, at(place, |core, call, _| credentials(core, call))));
        out.push(RENAME.bind(mount, at(place, rename)));
        out.push(REMOVE.bind(mount, at(place, remove)));
        out.push(REMOVE_ALL.bind(mount, at(place, remove_all)));
    }
    if passkeys.enabled && passkeys.primary {
        out.push(LOGIN_OPTIONS.bind(
            mount,
            at(place, |core, call, _| {
                passkey_login::login_options(core, call)
            }),
        ));
        out.push(LOGIN.bind(mount, at(place, passkey_login::login)));
    }
    out
}

async fn register_options(core: Arc<Core>, call: PluginCall) -> Result<Reply> {
    let (known, client, user) = whose(&core, &call).await?;
    let cx = client.cx();
    core.may_add_way_in(&user)?;
    core.require(&client, &known, &user, Need::Recent)?;
    let had = core.passkeys.of(&cx, &user.id).await?;
    if had.len() >= MOST {
        return Err(refuse(LIMIT_REACHED));
    }
    let (asked, options) = core.ask_for_new_passkey(&user, &known.handle, &had)?;
    let token = core
        .parts
        .tokens
        .issue(
            &cx,
            Purpose::WebauthnRegister,
            &user.id,
            &asked,
            Terms::link(REGISTERING),
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
    let (known, client, user) = whose(&core, &call).await?;
    let cx = client.cx();
    let tokens = &core.parts.tokens;
    core.may_add_way_in(&user)?;
    let invalid = || refuse(INVALID_CHALLENGE);
    let found = tokens
        .find(&cx, Purpose::WebauthnRegister, &input.registration_token)
        .await?
        .ok_or_else(invalid)?;
    let asked: PasskeyRequest = tokens.payload(&found)?;
    if found.user_id != user.id || asked.session != known.handle {
        return Err(invalid());
    }
    core.require_factors(&known, &user)?;
    let judged = core.passkeys.judge_new(
        input.attestation_response,
        &asked,
        core.config.auth.passkeys.user_verification,
    );
    let Ok((registered, transports)) = judged else {
        // The options are valid for one answer.
        tokens.take(&cx, &found).await?;
        return Err(refuse(WEBAUTHN_FAILED));
    };
    let new = created(&user, registered, transports, named(input.name), client.now);
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
                .map_err(taken)?;
            if core.passkeys.of(cx, &user.id).await?.len() > MOST {
                return Err(refuse(LIMIT_REACHED));
            }
            let details = json!({ "credentialId": credential.id });
            core.audit(
                cx,
                &client,
                AuditEvent::to("auth:passkey.added", &user.id)
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
                    &[("name", &as_mailed(&credential.name))],
                )
                .await?;
            let second = core.config.auth.mfa.enabled;
            let codes = if enrolled(&user).contains(&Way::Webauthn) {
                core.hold(cx, &user).await.map_err(conflict)?;
                // The other branches check this too.
                if !core.is_live(cx, &client, &known.handle, &user.id).await? {
                    return Err(Error::unauthorized());
                }
                None
            } else if second {
                core.enrol(cx, &client, &user, Way::Webauthn, &known.handle)
                    .await?
            } else {
                core.note_passkeys(cx, &client, &user, true, &known.handle)
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
fn taken(error: Error) -> Error {
    if error.code() == Code::Conflict {
        Error::unique(["credentialId"])
    } else {
        error
    }
}

fn created(
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

/// The default name of a passkey.
fn named(typed: Option<String>) -> String {
    let typed = typed.unwrap_or_default();
    let name = typed.trim();
    if name.is_empty() {
        "Passkey".to_owned()
    } else {
        name.chars().take(LONGEST_NAME).collect()
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
            credentials: all.into_iter().map(shown).collect(),
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
    let own = own(&core, &cx, &known, call.param(0)).await?;
    let patch = CredentialPatch {
        name: Some(name.to_owned()),
        ..CredentialPatch::default()
    };
    Reply::json(
        200,
        &shown(
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
    let (known, client, user) = whose(&core, &call).await?;
    let one = own(&core, &client.cx(), &known, call.param(0)).await?;
    let proof = core
        .prove(&client, &known, &user, &input.typed(), Need::WayIn)
        .await?;
    take_away(&core, &client, &user, &proof, &[one]).await?;
    said("The passkey was removed.")
}

async fn remove_all(core: Arc<Core>, call: PluginCall, mut input: ProofInput) -> Result<Reply> {
    let (known, client, user) = whose(&core, &call).await?;
    let all = core.passkeys.of(&client.cx(), &user.id).await?;
    let proof = core
        .prove(&client, &known, &user, &input.typed(), Need::WayIn)
        .await?;
    if all.is_empty() {
        return Err(Error::not_found());
    }
    take_away(&core, &client, &user, &proof, &all).await?;
    said("All passkeys were removed.")
}

/// Removes passkeys. The account is written under the version that was read: if two requests remove
/// the last two passkeys at once, one of them gets a conflict.
async fn take_away(
    core: &Core,
    client: &Client,
    user: &User,
    proof: &Proof,
    gone: &[Credential],
) -> Result<()> {
    let cx = client.cx();
    core.keeps_a_way_in(&cx, user, Without::Passkeys(gone))
        .await?;
    let last = core.passkeys.of(&cx, &user.id).await?.len() == gone.len();
    let method = core.methods(user).contains(&Way::Webauthn);
    if last && method {
        core.may_unenrol(user, &[Way::Webauthn])?;
    }
    let done = cx
        .transaction(async |cx| {
            proof.spend(core, cx, client, user).await?;
            if last && method {
                return core
                    .unenrol(
                        cx,
                        client,
                        user,
                        &[Way::Webauthn],
                        By::Session(&proof.session),
                    )
                    .await;
            }
            core.note_passkeys(cx, client, user, !last, &proof.session)
                .await?;
            core.drop_passkeys(cx, client, user, gone).await
        })
        .await;
    core.checks.forget(&user.id);
    done
}

/// Returns a passkey of the caller.
async fn own(core: &Core, cx: &linchpin::Cx, known: &Known, id: &str) -> Result<Credential> {
    core.passkeys
        .credentials
        .get(cx, id)
        .await?
        .filter(|one| one.user_id == known.user_id)
        .ok_or_else(Error::not_found)
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
