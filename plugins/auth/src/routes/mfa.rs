//! Routes for the second factors of the caller: set-up, removal, recovery codes.

use std::sync::Arc;
use std::time::Duration;

use linchpin::http::{AnswerDesc, GuardDesc, Nothing, PluginCall, PluginRoute, Reply, Route};
use linchpin::{Code, Error, Result};
use serde::{Deserialize, Serialize};

use super::account::caller;
use super::mailed::message_reply;
use super::mfa_shapes::{
    CodeInput, Enrolled, MethodsView, RecoveryCodes, TotpSetup, proof_input, proof_refused,
};
use super::{CoreCell, DONE, route, with_core};
use crate::config::AuthConfig;
use crate::core::{Client, Core};
use crate::entities::User;
use crate::error::{
    CSRF_FAILED, DELETION_SCHEDULED, EMAIL_NOT_VERIFIED, INVALID_CHALLENGE, INVALID_CODE,
    LAST_CREDENTIAL, MFA_NOT_ENABLED, MFA_REQUIRED, SETUP_NOT_STARTED, STEP_UP_REQUIRED, refuse,
};
use crate::flow::{By, Need, Without};
use crate::guards::{ENROLLING, RECENT};
use crate::limit::table::ATTEMPTS_PER_SETUP;
use crate::limit::{Bucket, Hit};
use crate::mfa::{ProofMethod, enrolled};
use crate::onetime::{OneTime, Purpose, Terms};
use crate::secret::{SecretBytes, SecretText};
use crate::session::CheckedSession;
use crate::totp;

proof_input! {
    /// A proof.
    ProofInput {}
}

/// Time in which the set-up of an authenticator app can be completed.
const SETUP_LIFETIME: Duration = Duration::from_mins(10);

pub(super) const RECENT_SIGN_IN: &[GuardDesc] = &[GuardDesc::new(RECENT)];
pub(super) const FACTOR_SET_UP: &[AnswerDesc] =
    &[AnswerDesc::of::<Enrolled>(200, "The factor is set up.")];
pub(super) const SETUP_ERRORS: &[Code] = &[
    STEP_UP_REQUIRED,
    EMAIL_NOT_VERIFIED,
    DELETION_SCHEDULED,
    CSRF_FAILED,
    Code::Conflict,
    Code::RateLimited,
];
pub(super) const REMOVAL: &[Code] = proof_refused!(MFA_REQUIRED, MFA_NOT_ENABLED);

/// Errors of the removal of all factors. It also removes passkeys, which may be the only way to
/// sign in.
const REMOVAL_OF_ALL: &[Code] = proof_refused!(MFA_REQUIRED, MFA_NOT_ENABLED, LAST_CREDENTIAL);

static SETUP: Route<Nothing> = route(Route::post("mfa_setup", "mfa/setup"))
    .doc("Starts the set-up of an authenticator app.\n\nAn existing one works until the new one is set up.")
    .auth(ENROLLING)
    .guards(RECENT_SIGN_IN)
    .answers(&[AnswerDesc::of::<TotpSetup>(200, "The secret.")])
    .errors(SETUP_ERRORS);
static VERIFY_SETUP: Route<CodeInput> = route(Route::post("mfa_verify_setup", "mfa/verify-setup"))
    .doc("Completes the set-up of an authenticator app with one of its codes.")
    .auth(ENROLLING)
    .answers(FACTOR_SET_UP)
    .errors(&[
        SETUP_NOT_STARTED,
        INVALID_CODE,
        STEP_UP_REQUIRED,
        EMAIL_NOT_VERIFIED,
        DELETION_SCHEDULED,
        CSRF_FAILED,
        Code::Conflict,
    ]);
static METHODS: Route<Nothing> = route(Route::get("mfa_methods", "mfa/methods"))
    .doc("Lists the caller's second factors.")
    .auth(ENROLLING)
    .answers(&[AnswerDesc::of::<MethodsView>(200, "The factors.")])
    .errors(&[DELETION_SCHEDULED]);
static REMOVE_ALL: Route<ProofInput> = route(Route::delete("mfa_remove", "mfa"))
    .doc("Removes all second factors and the recovery codes.")
    .auth("userAuth")
    .answers(DONE)
    .errors(REMOVAL_OF_ALL);
static REMOVE_TOTP: Route<ProofInput> = route(Route::delete("mfa_remove_totp", "mfa/totp"))
    .doc("Removes the authenticator app.")
    .auth("userAuth")
    .answers(DONE)
    .errors(REMOVAL);
static RECOVERY: Route<ProofInput> = route(Route::post("mfa_recovery_codes", "mfa/recovery-codes"))
    .doc("Creates new recovery codes. The earlier ones no longer work.")
    .auth("userAuth")
    .answers(&[AnswerDesc::of::<RecoveryCodes>(
        200,
        "The codes, shown once.",
    )])
    .errors(REMOVAL);

/// The routes that the settings enable.
pub(super) fn routes(config: &AuthConfig, core_cell: &CoreCell) -> Vec<PluginRoute> {
    let mount = config.auth.mount.as_str();
    let mut out = Vec::new();
    if !config.auth.mfa.enabled {
        return out;
    }
    if config.auth.mfa.totp.enabled {
        out.push(SETUP.bind(
            mount,
            with_core(core_cell, |core, call, _| setup(core, call)),
        ));
        out.push(VERIFY_SETUP.bind(mount, with_core(core_cell, verify_setup)));
        out.push(REMOVE_TOTP.bind(
            mount,
            with_core(core_cell, |core, call, input| {
                remove(core, call, input, &[ProofMethod::Totp])
            }),
        ));
    }
    out.push(METHODS.bind(
        mount,
        with_core(core_cell, |core, call, _| methods(core, call)),
    ));
    out.push(REMOVE_ALL.bind(
        mount,
        with_core(core_cell, |core, call, input| {
            remove(core, call, input, &ProofMethod::METHODS)
        }),
    ));
    out.push(RECOVERY.bind(mount, with_core(core_cell, recovery_codes)));
    out.extend(super::mfa_sent::routes(config, core_cell));
    out.extend(super::mfa_login::routes(config, core_cell));
    out
}

/// The caller's session, client and current account.
pub(super) async fn session_and_account(
    core: &Core,
    call: &PluginCall,
) -> Result<(CheckedSession, Client, User)> {
    let known = caller(call)?;
    let client = core.client(call);
    let user = core
        .users
        .get(&client.cx(), known.user_id.as_str())
        .await?
        .ok_or_else(Error::unauthorized)?;
    Ok((known, client, user))
}

/// The secret of an authenticator app that is being set up.
#[derive(Serialize, Deserialize)]
struct Pending {
    secret: Vec<u8>,
    /// The handle of the session that started the set-up; empty if an older version of the plugin
    /// started it.
    #[serde(default)]
    session: String,
}

pub(super) async fn setup(core: Arc<Core>, call: PluginCall) -> Result<Reply> {
    let (known, client, user) = session_and_account(&core, &call).await?;
    core.require(&client, &known, &user, Need::Recent)?;
    core.limiter
        .take(&[Hit {
            bucket: Bucket::MfaSetup,
            key: &[&user.id, &known.handle],
        }])
        .await?
        .succeeded()
        .await;
    core.may_add_way_in(&user)?;
    let secret = totp::secret(&*core.env.rng)?;
    let pending = Pending {
        secret: secret.expose().to_vec(),
        session: known.handle,
    };
    let terms = Terms {
        lifetime: SETUP_LIFETIME,
        attempts: ATTEMPTS_PER_SETUP,
        sends: 0,
        only_newest: true,
    };
    // The client does not get the token: the code and the session are enough.
    let (_, one) = core
        .parts
        .tokens
        .issue_with_record(&client.cx(), Purpose::TotpSetup, &user.id, &pending, terms)
        .await?;
    let mfa = &core.config.auth.mfa;
    let issuer = mfa.issuer.as_deref().unwrap_or(&core.config.auth.app_name);
    let shown = TotpSetup {
        secret: totp::base32(&secret).expose().to_owned(),
        uri: mfa
            .totp
            .rules()
            .uri(issuer, &user.identifier_display, &secret)
            .expose()
            .to_owned(),
        expires_at: one.expires_at.unwrap_or(client.now),
    };
    Reply::json(200, &shown)
}

pub(super) async fn verify_setup(
    core: Arc<Core>,
    call: PluginCall,
    input: CodeInput,
) -> Result<Reply> {
    let (known, client, user) = session_and_account(&core, &call).await?;
    let cx = client.cx();
    let not_started = || refuse(SETUP_NOT_STARTED);
    let begun = core
        .parts
        .tokens
        .newest(&cx, Purpose::TotpSetup, &user.id)
        .await?
        .ok_or_else(not_started)?;
    let pending: Pending = core.parts.tokens.payload(&begun)?;
    if pending.session != known.handle {
        // Another session started the set-up. This session must not use up its attempts.
        return Err(not_started());
    }
    core.may_add_way_in(&user)?;
    core.require_factors(&known, &user)?;
    let tried = core
        .parts
        .tokens
        .attempt(&cx, &begun)
        .await?
        .ok_or_else(not_started)?;
    let secret = SecretBytes::new(pending.secret);
    let typed = SecretText::from(input.code);
    let Some(step) =
        core.config
            .auth
            .mfa
            .totp
            .rules()
            .step(&secret, typed.expose(), client.now, None)
    else {
        return Err(wrong_code(&core, &client, &tried).await?);
    };
    finish_setup(
        &core,
        &client,
        (&user, &known),
        &begun,
        ProofMethod::Totp,
        Some((secret.expose(), Some(step))),
    )
    .await
}

/// The error for a wrong code of a set-up. The last attempt ends the set-up.
pub(super) async fn wrong_code(core: &Core, client: &Client, tried: &OneTime) -> Result<Error> {
    if tried.attempts_left == 0 {
        core.parts.tokens.remove(&client.cx(), tried).await?;
    }
    Ok(refuse(INVALID_CODE))
}

/// Completes the set-up of a factor. `data` is stored with the factor: its secret or phone number,
/// and the time step of the code.
pub(super) async fn finish_setup(
    core: &Core,
    client: &Client,
    (user, known): (&User, &CheckedSession),
    begun: &OneTime,
    way: ProofMethod,
    data: Option<(&[u8], Option<i64>)>,
) -> Result<Reply> {
    let done = client
        .cx()
        .transaction(async |cx| {
            if !core.parts.tokens.take(cx, begun).await? {
                return Err(refuse(if way == ProofMethod::Totp {
                    SETUP_NOT_STARTED
                } else {
                    INVALID_CHALLENGE
                }));
            }
            if let Some((value, step)) = data {
                core.store_factor(cx, user, way, value, step, client.now)
                    .await?;
            }
            core.enrol(cx, client, user, way, &known.handle).await
        })
        .await;
    core.checks.forget(&user.id);
    let recovery_codes = done?.map(|codes| exposed(&codes)).unwrap_or_default();
    Reply::json(
        200,
        &Enrolled {
            ok: true,
            message: "The second factor was set up.".to_owned(),
            recovery_codes,
        },
    )
}

fn exposed(codes: &[SecretText]) -> Vec<String> {
    codes.iter().map(|code| code.expose().to_owned()).collect()
}

async fn methods(core: Arc<Core>, call: PluginCall) -> Result<Reply> {
    let (_, client, user) = session_and_account(&core, &call).await?;
    let left = core.recovery_codes_left(&client.cx(), &user).await?;
    let view = MethodsView {
        methods: core
            .methods(&user)
            .iter()
            .map(|way| way.name().to_owned())
            .collect(),
        recovery_codes_left: i64::try_from(left).unwrap_or(i64::MAX),
        required: core.config.auth.mfa.required,
    };
    Reply::json(200, &view)
}

pub(super) async fn remove(
    core: Arc<Core>,
    call: PluginCall,
    mut input: ProofInput,
    ways: &'static [ProofMethod],
) -> Result<Reply> {
    let (known, client, user) = session_and_account(&core, &call).await?;
    let proof = core
        .prove(&client, &known, &user, &input.take_proof(), Need::Proof)
        .await?;
    core.may_unenrol(&user, ways)?;
    if ways.contains(&ProofMethod::Webauthn) {
        let all = core.passkeys.of(&client.cx(), &user.id).await?;
        core.keeps_a_way_in(&client.cx(), &user, Without::Passkeys(&all))
            .await?;
    }
    let done = client
        .cx()
        .transaction(async |cx| {
            proof.spend(&core, cx, &client, &user).await?;
            core.unenrol(cx, &client, &user, ways, By::Session(&known.handle))
                .await
        })
        .await;
    core.checks.forget(&user.id);
    done?;
    message_reply("The second factor was removed.")
}

pub(super) async fn recovery_codes(
    core: Arc<Core>,
    call: PluginCall,
    mut input: ProofInput,
) -> Result<Reply> {
    let (known, client, user) = session_and_account(&core, &call).await?;
    let proof = core
        .prove(&client, &known, &user, &input.take_proof(), Need::Proof)
        .await?;
    if enrolled(&user).is_empty() {
        return Err(refuse(MFA_NOT_ENABLED));
    }
    let codes = client
        .cx()
        .transaction(async |cx| {
            proof.spend(&core, cx, &client, &user).await?;
            core.renew_recovery_codes(cx, &client, &user, &known.handle)
                .await
        })
        .await;
    core.checks.forget(&user.id);
    Reply::json(
        200,
        &RecoveryCodes {
            recovery_codes: exposed(&codes?),
        },
    )
}
