//! Routes for factors with sent codes: by mail and by text message.

use std::sync::Arc;
use std::time::Duration;

use linchpin::http::{AnswerDesc, Nothing, PluginCall, PluginRoute, Reply, Route};
use linchpin::{Code, Cx, Error, Problem, Result};
use serde::{Deserialize, Serialize};

use super::mfa::{
    FACTOR_SET_UP, ProofInput, RECENT_SIGN_IN, REMOVAL, SETUP_ERRORS, finish_setup, remove,
    session_and_account, wrong_code,
};
use super::mfa_shapes::{PhoneInput, SetupInput, SetupSent};
use super::{CoreCell, DONE, route, with_core};
use crate::config::AuthConfig;
use crate::core::{Client, Core};
use crate::entities::User;
use crate::error::{
    CSRF_FAILED, DELETION_SCHEDULED, EMAIL_MISSING, EMAIL_NOT_VERIFIED, INVALID_CHALLENGE,
    INVALID_CODE, STEP_UP_REQUIRED, refuse,
};
use crate::flow::Need;
use crate::guards::ENROLLING;
use crate::limit::Bucket;
use crate::limit::table::ATTEMPTS_PER_SETUP;
use crate::mfa::{ProofMethod, Sent};
use crate::onetime::{Purpose, Terms};
use crate::otp;
use crate::secret::SecretText;
use crate::sms::E164;

const SENT: &[AnswerDesc] = &[AnswerDesc::of::<SetupSent>(200, "A code was sent.")];
const VERIFY: &[Code] = &[
    INVALID_CODE,
    INVALID_CHALLENGE,
    STEP_UP_REQUIRED,
    EMAIL_NOT_VERIFIED,
    DELETION_SCHEDULED,
    CSRF_FAILED,
    Code::Conflict,
];

static MAIL_ENABLE: Route<Nothing> =
    route(Route::post("mfa_email_otp_enable", "mfa/email-otp/enable"))
        .doc("Starts the set-up of codes by mail: mails a code.")
        .auth(ENROLLING)
        .guards(RECENT_SIGN_IN)
        .answers(SENT)
        .errors(&[
            EMAIL_MISSING,
            STEP_UP_REQUIRED,
            EMAIL_NOT_VERIFIED,
            DELETION_SCHEDULED,
            CSRF_FAILED,
            Code::RateLimited,
        ]);
static MAIL_VERIFY: Route<SetupInput> = route(Route::post(
    "mfa_email_otp_verify_setup",
    "mfa/email-otp/verify-setup",
))
.doc("Completes the set-up of codes by mail.")
.auth(ENROLLING)
.answers(FACTOR_SET_UP)
.errors(VERIFY);
static MAIL_REMOVE: Route<ProofInput> =
    route(Route::delete("mfa_remove_email_otp", "mfa/email-otp"))
        .doc("Turns off codes by mail.")
        .auth("userAuth")
        .answers(DONE)
        .errors(REMOVAL);
static SMS_ENABLE: Route<PhoneInput> = route(Route::post("mfa_sms_enable", "mfa/sms/enable"))
    .doc("Starts the set-up of a phone: sends a code to it.")
    .auth(ENROLLING)
    .guards(RECENT_SIGN_IN)
    .answers(SENT)
    .errors(SETUP_ERRORS);
static SMS_VERIFY: Route<SetupInput> =
    route(Route::post("mfa_sms_verify_setup", "mfa/sms/verify-setup"))
        .doc("Completes the set-up of a phone.")
        .auth(ENROLLING)
        .answers(FACTOR_SET_UP)
        .errors(VERIFY);
static SMS_REMOVE: Route<ProofInput> = route(Route::delete("mfa_remove_sms", "mfa/sms"))
    .doc("Removes the phone.")
    .auth("userAuth")
    .answers(DONE)
    .errors(REMOVAL);

pub(super) fn routes(config: &AuthConfig, core_cell: &CoreCell) -> Vec<PluginRoute> {
    let (mount, mfa) = (config.auth.mount.as_str(), &config.auth.mfa);
    let mut out = Vec::new();
    if mfa.email_otp.enabled {
        out.push(MAIL_ENABLE.bind(
            mount,
            with_core(core_cell, |core, call, _| enable_mail(core, call)),
        ));
        out.push(MAIL_VERIFY.bind(
            mount,
            with_core(core_cell, |core, call, input| {
                verify(core, call, input, ProofMethod::EmailOtp)
            }),
        ));
        out.push(MAIL_REMOVE.bind(
            mount,
            with_core(core_cell, |core, call, input| {
                remove(core, call, input, &[ProofMethod::EmailOtp])
            }),
        ));
    }
    if mfa.sms.enabled {
        out.push(SMS_ENABLE.bind(mount, with_core(core_cell, enable_sms)));
        out.push(SMS_VERIFY.bind(
            mount,
            with_core(core_cell, |core, call, input| {
                verify(core, call, input, ProofMethod::Sms)
            }),
        ));
        out.push(SMS_REMOVE.bind(
            mount,
            with_core(core_cell, |core, call, input| {
                remove(core, call, input, &[ProofMethod::Sms])
            }),
        ));
    }
    out
}

/// A factor that is being set up.
#[derive(Serialize, Deserialize)]
struct Pending {
    /// The mail address or the phone number.
    to: String,
    sent: Option<Sent>,
}

pub(super) async fn enable_mail(core: Arc<Core>, call: PluginCall) -> Result<Reply> {
    let (known, client, user) = session_and_account(&core, &call).await?;
    core.require(&client, &known, &user, Need::Recent)?;
    core.limiter
        .take_in_session(
            Bucket::MfaEnable,
            Bucket::MfaEnableUser,
            &user.id,
            &known.handle,
        )
        .await?;
    let to = user
        .email_normalised
        .clone()
        .ok_or_else(|| refuse(EMAIL_MISSING))?;
    core.may_add_way_in(&user)?;
    let seconds = core.config.auth.mfa.email_otp.seconds;
    begin(
        &core,
        &client,
        &user,
        Purpose::EmailOtpSetup,
        (to, seconds),
        async |cx, id| core.send_by_mail(cx, &client, &user, id).await,
    )
    .await
}

pub(super) async fn enable_sms(
    core: Arc<Core>,
    call: PluginCall,
    input: PhoneInput,
) -> Result<Reply> {
    let (known, client, user) = session_and_account(&core, &call).await?;
    core.require(&client, &known, &user, Need::Recent)?;
    let wrong = || {
        Error::invalid(Problem::new(
            "phone",
            "format",
            "must be a phone number such as +4930123456",
        ))
    };
    let number = E164::parse(&input.phone).ok_or_else(wrong)?;
    core.limiter
        .take_in_session(
            Bucket::MfaEnable,
            Bucket::MfaEnableUser,
            &user.id,
            &known.handle,
        )
        .await?;
    core.may_add_way_in(&user)?;
    core.count_message(&client, &user.id, &[&known.handle], Some(&number))
        .await?
        .succeeded()
        .await;
    let number_and_seconds = (number.as_str().to_owned(), core.config.auth.mfa.sms.seconds);
    begin(
        &core,
        &client,
        &user,
        Purpose::SmsSetup,
        number_and_seconds,
        async |cx, id| core.send_to_phone(cx, &client, &number, id).await,
    )
    .await
}

/// Sends a code with `send`, and stores the pending set-up. `to` is the address or number, and
/// `seconds` is the lifetime of the code.
async fn begin(
    core: &Core,
    client: &Client,
    user: &User,
    purpose: Purpose,
    (to, seconds): (String, u64),
    send: impl AsyncFnOnce(&Cx, &str) -> Result<Sent>,
) -> Result<Reply> {
    let terms = Terms {
        lifetime: Duration::from_secs(seconds),
        attempts: ATTEMPTS_PER_SETUP,
        sends: 0,
        only_newest: true,
    };
    let cx = client.cx();
    let begun = cx.transaction(async |cx| {
        let mut pending = Pending { to, sent: None };
        let (token, one) = core
            .parts
            .tokens
            .issue_with_record(cx, purpose, &user.id, &pending, terms)
            .await?;
        pending.sent = Some(send(cx, &one.id).await?);
        core.parts.tokens.replace(cx, &one, &pending).await?;
        Ok((token, one.expires_at))
    });
    let (token, expires_at) = begun.await?;
    let sent = SetupSent {
        ok: true,
        message: "A code has been sent.".to_owned(),
        setup_token: token.expose().to_owned(),
        expires_at: expires_at.unwrap_or(client.now),
    };
    Reply::json(200, &sent)
}

pub(super) async fn verify(
    core: Arc<Core>,
    call: PluginCall,
    input: SetupInput,
    way: ProofMethod,
) -> Result<Reply> {
    let (known, client, user) = session_and_account(&core, &call).await?;
    let cx = client.cx();
    let purpose = if way == ProofMethod::Sms {
        Purpose::SmsSetup
    } else {
        Purpose::EmailOtpSetup
    };
    let (token, typed) = (
        SecretText::from(input.setup_token),
        SecretText::from(input.code),
    );
    let invalid = || refuse(INVALID_CHALLENGE);
    let begun = core
        .parts
        .tokens
        .find(&cx, purpose, token.expose())
        .await?
        .filter(|one| one.user_id == user.id)
        .ok_or_else(invalid)?;
    core.may_add_way_in(&user)?;
    core.require_factors(&known, &user)?;
    let pending: Pending = core.parts.tokens.payload(&begun)?;
    // The code verifies only the address to which it was sent.
    if way == ProofMethod::EmailOtp && user.email_normalised.as_ref() != Some(&pending.to) {
        return Err(invalid());
    }
    let tried = core
        .parts
        .tokens
        .attempt(&cx, &begun)
        .await?
        .ok_or_else(invalid)?;
    let is_correct = pending
        .sent
        .is_some_and(|sent| otp::matches(&core.parts.keys, &begun.id, typed.expose(), &sent.mac));
    if !is_correct {
        return Err(wrong_code(&core, &client, &tried).await?);
    }
    let data = (way == ProofMethod::Sms).then_some((pending.to.as_bytes(), None));
    finish_setup(&core, &client, (&user, &known), &begun, way, data).await
}
