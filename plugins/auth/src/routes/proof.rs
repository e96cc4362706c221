//! Routes for proofs of the signed-in user: possible methods, and the step-up.

use std::sync::Arc;
use std::time::Duration;

use linchpin::http::{AnswerDesc, PluginCall, PluginRoute, Reply, Route};
use linchpin::{Code, Error, Result};
use serde_json::json;

use super::account::caller;
use super::mfa_shapes::{ReauthInput, ReauthView, StepUpInput};
use super::shapes::Reissued;
use super::{CoreCell, route, with_core};
use crate::config::AuthConfig;
use crate::core::{AuditEvent, Core};
use crate::entities::SessionPatch;
use crate::error::{
    CSRF_FAILED, DELETION_SCHEDULED, FACTOR_NOT_ALLOWED, INVALID_CHALLENGE, INVALID_CODE,
    INVALID_CREDENTIALS, METHOD_UNAVAILABLE, refuse,
};
use crate::flow::Need;
use crate::guards::ENROLLING;
use crate::limit::table::ATTEMPTS_PER_SETUP;
use crate::limit::{Bucket, Hit};
use crate::mfa::{Pending, ProofMethod, SuppliedProof};
use crate::onetime::{Purpose, Terms};

/// Lifetime of the token of `/reauth/challenge`.
const LIFETIME: Duration = Duration::from_mins(5);

static REAUTH: Route<ReauthInput> = route(Route::post("reauth_challenge", "reauth/challenge"))
    .doc("Returns the methods by which callers can prove their identity.\n\nA code is sent if the request has the method `emailOtp` or `sms`, or if this is the only second factor of the caller.")
    .auth(ENROLLING)
    .answers(&[AnswerDesc::sparse::<ReauthView>(200, "The methods.")])
    .errors(&[METHOD_UNAVAILABLE, DELETION_SCHEDULED, CSRF_FAILED, Code::RateLimited]);
static STEP_UP: Route<StepUpInput> = route(Route::post("step_up", "step-up"))
    .doc("Steps up: proves the identity of the signed-in user again.\n\nThe session continues under a new token; the former one is invalid.")
    .auth(ENROLLING)
    .answers(&[AnswerDesc::sparse::<Reissued>(200, "The new tokens of the session.")])
    .errors(&[
        INVALID_CODE,
        INVALID_CREDENTIALS,
        INVALID_CHALLENGE,
        FACTOR_NOT_ALLOWED,
        DELETION_SCHEDULED,
        CSRF_FAILED,
        Code::RateLimited,
    ]);

/// The routes, which every app has.
pub(super) fn routes(config: &AuthConfig, core_cell: &CoreCell) -> Vec<PluginRoute> {
    let mount = config.auth.mount.as_str();
    vec![
        REAUTH.bind(mount, with_core(core_cell, reauth)),
        STEP_UP.bind(mount, with_core(core_cell, step_up)),
    ]
}

pub(super) async fn reauth(core: Arc<Core>, call: PluginCall, input: ReauthInput) -> Result<Reply> {
    let known = caller(&call)?;
    let client = core.client(&call);
    let cx = client.cx();
    let user = core
        .users
        .get(&cx, known.user_id.as_str())
        .await?
        .ok_or_else(Error::unauthorized)?;
    core.limiter
        .take(&[Hit {
            bucket: Bucket::Reauth,
            key: &[&user.id, &known.handle],
        }])
        .await?
        .succeeded()
        .await;
    let ways = core.proof_methods(&cx, &user).await?;
    let methods = core.methods(&user);
    let chosen = match input.method {
        Some(method) if ways.contains(&method) => Some(method),
        Some(_) => return Err(refuse(METHOD_UNAVAILABLE)),
        // Without a method in the request, the only second factor is chosen, unless its code cannot
        // be sent. Then the caller uses another method.
        None => methods
            .first()
            .copied()
            .filter(|way| methods.len() == 1 && (!way.is_sent() || core.can_send(&user, *way))),
    };
    let mut view = ReauthView {
        available_methods: ways.iter().map(|way| way.name().to_owned()).collect(),
        reauth_token: None,
        webauthn_options: None,
        expires_at: None,
    };
    if let Some(way) = chosen.filter(|way| way.is_sent() || *way == ProofMethod::Webauthn) {
        if way == ProofMethod::Sms {
            core.count_message(&client, &user.id, &[&known.handle], None)
                .await?
                .succeeded()
                .await;
        }
        let token = cx.transaction(async |cx| {
            let mut pending = Pending::reauth(&user, &known.handle);
            let tokens = &core.parts.tokens;
            let terms = Terms {
                lifetime: LIFETIME,
                attempts: ATTEMPTS_PER_SETUP,
                sends: 0,
                only_newest: false,
            };
            let mut options = None;
            if way == ProofMethod::Webauthn {
                let (asked, browser_options) = core.second_passkey_options(cx, &user, None).await?;
                (pending.asked, options) = (Some(asked), Some(browser_options));
            }
            let (token, one) = tokens
                .issue_with_record(cx, Purpose::Reauth, &user.id, &pending, terms)
                .await?;
            // The newest token of this session counts. Tokens of other sessions stay valid.
            for earlier in tokens
                .unused_tokens(cx, Purpose::Reauth, &user.id)
                .await?
                .into_iter()
                .filter(|given| given.order() < one.order())
            {
                if tokens
                    .payload::<Pending>(&earlier)
                    .is_ok_and(|earlier| earlier.session == pending.session)
                {
                    tokens.remove(cx, &earlier).await?;
                }
            }
            if way.is_sent() {
                pending.sent = Some(core.send_code(cx, &client, &user, way, &one.id).await?);
                tokens.replace(cx, &one, &pending).await?;
            }
            Ok((token, one.expires_at, options))
        });
        let (token, expires_at, options) = token.await?;
        view.webauthn_options = options;
        view.reauth_token = Some(token.expose().to_owned());
        view.expires_at = expires_at;
    }
    Reply::sparse(200, &view)
}

pub(super) async fn step_up(
    core: Arc<Core>,
    call: PluginCall,
    input: StepUpInput,
) -> Result<Reply> {
    let known = caller(&call)?;
    let client = core.client(&call);
    let cx = client.cx();
    let user = core
        .users
        .get(&cx, known.user_id.as_str())
        .await?
        .ok_or_else(Error::unauthorized)?;
    let way = input.method;
    let proof = core
        .prove(
            &client,
            &known,
            &user,
            &SuppliedProof::from(input),
            Need::StepUp,
        )
        .await?;
    let is_second_factor = way != ProofMethod::Password;
    let patch = || SessionPatch {
        auth_at: Some(client.now),
        step_up_at: Some(Some(client.now)),
        step_up_by: Some(Some(way)),
        // An account with a second factor has proved it now.
        aal: is_second_factor.then_some(2),
        proved_factors: is_second_factor.then_some(Some(user.mfa_version)),
        ..SessionPatch::default()
    };
    let added: &[&str] = if is_second_factor {
        &[way.amr(), "mfa"]
    } else {
        &[way.amr()]
    };
    let done = cx
        .transaction(async |cx| {
            proof.spend(&core, cx, &client, &user).await?;
            let renewed = core.reissue(cx, &client, &known, added, patch).await?;
            let happened = AuditEvent::about("auth:step_up", &user.id)
                .session(&known.handle)
                .details(json!({ "method": way.name() }));
            core.audit(cx, &client, happened).await?;
            Ok(renewed)
        })
        .await;
    core.checks.forget(&user.id);
    let (session, sid) = done?;
    core.renewed(&client, &session, &sid, Some(client.now))
}
