//! Routes for accounts: register, login, logout, me.

use std::sync::Arc;

use axum::http::header::COOKIE;
use linchpin::http::{Partial, PluginCall, Reply};
use linchpin::{Code, Cx, Error, Problem, Result, axum};
use serde_json::{Value, json};

use super::concealed;
use super::mailed::message_reply;
use super::shapes::{Profile, SignInInput, SignUpInput, UserView};
use crate::core::{AuditEvent, Client, Core};
use crate::entities::{Session, User, UserPatch};
use crate::error::{INVALID_CREDENTIALS, refuse};
use crate::flow::{NewAccount, Proved, Reason};
use crate::guards::checked_session;
use crate::hooks::{SignIn, SignUp};
use crate::identity::PrimaryField;
use crate::identity::normalise::{self, Identifier};
use crate::limit::{Bucket, Hit};
use crate::password::{Password, Verdict};
use crate::secret::SecretText;
use crate::session::credential::{self, Credential, SingleValue};
use crate::session::{CheckedSession, csrf, refresh, sid};

/// Maximum size of user metadata in bytes.
const MAX_METADATA_BYTES: usize = 16 << 10;
/// Maximum nesting of user metadata.
const MAX_METADATA_DEPTH: usize = 8;
const PASSWORD: &str = "password";

pub(super) async fn register(
    core: Arc<Core>,
    call: PluginCall,
    input: SignUpInput,
) -> Result<Reply> {
    core.may_sign_in(&call, "register").await?;
    let client = core.client(&call);
    let typed = SecretText::from(input.password);
    let (identifier, email) =
        identifiers(&core, &input.identifier, input.email.as_deref(), &typed)?;
    let names: Vec<&str> = [&identifier]
        .into_iter()
        .chain(&email)
        .flat_map(|one| [one.normalised.as_str(), one.display.as_str()])
        .collect();
    let password = core.policy.check(&typed, &names)?;
    core.limiter
        .take(&[Hit {
            bucket: Bucket::Register,
            key: &[&client.limit_key()],
        }])
        .await?
        .succeeded()
        .await;
    core.breaches.check(&password).await?;
    let hook_cx = core.hook_cx(&client);
    let mut sign_up = SignUp {
        identifier: identifier.normalised.clone(),
        method: PASSWORD,
        user_id: None,
    };
    core.hooks
        .run_pre(&hook_cx, &sign_up, |hooks, cx, input| {
            hooks.pre_register(cx, input)
        })
        .await?;
    if core.config.auth.conceal_registration {
        let hash = core
            .hasher
            .hash_with(password, concealed::salt(&core, &identifier.normalised))
            .await?;
        return concealed::queue_sign_up(&core, &client, identifier, hash).await;
    }
    let hash = core.hasher.hash(password).await?;
    let new = NewAccount::signed_up(&core, identifier, email, hash);
    let user = core.create_account(&client, new).await?;
    sign_up.user_id = Some(user.id.clone());
    core.hooks
        .spawn_post("post_register", hook_cx, sign_up, |hooks, cx, input| {
            hooks.post_register(cx, input)
        });
    if core.must_verify(&user) {
        // The account exists, but it cannot sign in before its address is verified.
        return Reply::sparse(201, &Core::pending_verification(&user));
    }
    core.complete_primary(
        &client,
        Proved {
            user,
            method: PASSWORD,
            amr: &["pwd"],
            aal: 1,
            status: 201,
        },
    )
    .await
}

/// Both identifiers of a sign-up. Their errors are reported together with those of the password's
/// length.
fn identifiers(
    core: &Core,
    typed: &str,
    email: Option<&str>,
    password: &SecretText,
) -> Result<(Identifier, Option<Identifier>)> {
    let primary = core.config.auth.primary_field;
    let mut problems: Vec<Problem> = Vec::new();
    let identifier = primary
        .parse(typed)
        .map_err(|what| problems.push(what.at(primary.name())))
        .ok();
    let email = match (primary, email) {
        (PrimaryField::Email, _) => identifier.clone(),
        (_, Some(email)) => normalise::email(email)
            .map_err(|what| problems.push(what.at("email")))
            .ok(),
        (_, None) => None,
    };
    match identifier {
        Some(identifier) if problems.is_empty() => Ok((identifier, email)),
        _ => {
            if let Err(error) = core.policy.check(password, &[]) {
                problems.extend(
                    error
                        .details()
                        .iter()
                        .filter(|_| error.code() == Code::ValidationFailed)
                        .cloned(),
                );
            }
            Err(Error::validation(problems))
        }
    }
}

pub(super) async fn login(core: Arc<Core>, call: PluginCall, input: SignInInput) -> Result<Reply> {
    core.may_sign_in(&call, "login").await?;
    let client = core.client(&call);
    let primary = core.config.auth.primary_field;
    let max_length = usize::try_from(core.config.auth.password.max_length).unwrap_or(128);
    let identifier = primary
        .parse(&input.identifier)
        .map_err(|what| Error::invalid(what.at(primary.name())))?;
    let password = Password::for_check(&SecretText::from(input.password), max_length)?;
    let cx = client.cx();
    let user = core
        .users
        .by_identifier(&cx, identifier.normalised.as_str())
        .await?
        .filter(|user| !user.is_gone(client.now));
    let attempt = core
        .attempt(&client, &identifier.normalised, user.as_ref())
        .await?;
    let hook_cx = core.hook_cx(&client);
    let sign_in = SignIn {
        identifier: Some(identifier.normalised.clone()),
        method: PASSWORD,
        user_id: None,
        session_id: None,
        amr: Vec::new(),
    };
    if let Err(refusal) = core
        .hooks
        .run_pre(&hook_cx, &sign_in, |hooks, cx, input| {
            hooks.pre_login(cx, input)
        })
        .await
    {
        // An attempt that a hook refuses does not count.
        attempt.undo().await;
        return Err(refusal);
    }
    // With concealed sign-ups, the response must not show whether the account existed before.
    let concealed =
        |user: &&User| core.config.auth.conceal_registration && user.email_verified_at.is_none();
    let stored = user
        .as_ref()
        .filter(|user| !concealed(user))
        .and_then(|user| user.password_hash.clone());
    let verdict = match core.hasher.verify(password, stored).await {
        Ok(verdict) => verdict,
        Err(error) => {
            // If the password could not be checked, the attempt does not count.
            attempt.undo().await;
            return Err(error);
        }
    };
    match (verdict, user) {
        (Verdict::Right { rehashed }, Some(user)) => {
            core.succeeded(attempt, &identifier.normalised).await;
            let user = rehash(&core, &cx, user, rehashed).await?;
            core.complete_primary(
                &client,
                Proved {
                    user,
                    method: PASSWORD,
                    amr: &["pwd"],
                    aal: 1,
                    status: 200,
                },
            )
            .await
        }
        (_, user) => {
            core.failed(&client, &attempt, user.as_ref()).await?;
            Err(refuse(INVALID_CREDENTIALS))
        }
    }
}

/// Stores a hash with the current parameters, unless the password has changed meanwhile.
async fn rehash(core: &Core, cx: &Cx, user: User, hash: Option<String>) -> Result<User> {
    let Some(hash) = hash else { return Ok(user) };
    let patch = UserPatch {
        password_hash: Some(Some(hash)),
        ..UserPatch::default()
    };
    match core
        .users
        .update(cx, user.id.clone(), patch, Some(user.version))
        .await
    {
        Err(error) if matches!(error.code(), Code::PreconditionFailed | Code::Conflict) => Ok(user),
        done => done,
    }
}

pub(super) async fn logout(core: Arc<Core>, call: PluginCall) -> Result<Reply> {
    let client = core.client(&call);
    let cx = client.cx();
    let by_header = sessions_of_tokens(
        &core,
        &cx,
        &client,
        credential::of_headers(&call.headers).collect(),
    )
    .await?;
    let by_cookie = match core.cookies.token(&call.headers) {
        SingleValue::Text(token) => sessions_of_tokens(&core, &cx, &client, vec![token]).await?,
        _ => Vec::new(),
    };
    let by_refresh = match (
        core.refresh_given(&cx, &call.headers).await?,
        core.cookies.refresh(&call.headers),
    ) {
        (Some((token, _)), _) | (None, SingleValue::Text(token)) => {
            session_of_refresh_token(&core, &cx, token).await?
        }
        (None, _) => None,
    };
    let by_any_cookie: Vec<(Session, String)> = by_cookie.into_iter().chain(by_refresh).collect();
    if by_header.is_empty()
        && let Some((_, sid)) = by_any_cookie.first()
    {
        // The caller sent only cookies, so a page of another origin may have sent the request.
        let csrf_result = core.csrf.check(
            &core.csrf.presented(&call.headers, &core.cookies),
            sid,
            &core.ring,
        );
        if let Err(refusal) = csrf_result {
            return Err(core
                .forged(
                    &client,
                    None,
                    &format!("{}/logout", core.config.auth.mount),
                    refusal,
                )
                .await);
        }
    }
    for (session, _) in by_header.iter().chain(&by_any_cookie) {
        core.end(&cx, &client, session, Reason::Logout).await?;
    }
    let done = message_reply("You are signed out.")?;
    // A page of another origin must not sign the user out, so its request clears no cookies.
    Ok(if core.csrf.may_sign_in(&call.headers).is_ok() {
        core.cookies.clear(done)
    } else {
        done
    })
}

/// The sessions of these access tokens, expired ones included, each with its `sid`.
async fn sessions_of_tokens(
    core: &Core,
    cx: &Cx,
    client: &Client,
    tokens: Vec<&str>,
) -> Result<Vec<(Session, String)>> {
    let mut out = Vec::new();
    for token in tokens {
        let Some(verified) = core.signing.verify_expired(token, client.now) else {
            continue;
        };
        let session = core.sessions.by_sid(cx, sid::hash(&verified.sid)).await?;
        out.extend(
            session
                .filter(|session| session.user_id == verified.sub)
                .map(|session| (session, verified.sid)),
        );
    }
    Ok(out)
}

/// The session of a refresh token, with its `sid`.
async fn session_of_refresh_token(
    core: &Core,
    cx: &Cx,
    token: &str,
) -> Result<Option<(Session, String)>> {
    let Some(presented) = refresh::Presented::parse(token) else {
        return Ok(None);
    };
    let session = core
        .sessions
        .get(cx, presented.handle())
        .await?
        .filter(|session| presented.is_of(&core.ring, session));
    Ok(session.and_then(|session| sid::of(&core.ring, &session).map(|sid| (session, sid))))
}

pub(super) async fn me(core: Arc<Core>, call: PluginCall) -> Result<Reply> {
    let actor = call.cx.get_actor().ok_or_else(Error::unauthorized)?;
    let known = checked_session(actor).ok_or_else(Error::unauthorized)?;
    let cx = Cx::system("auth").at(call.cx.now());
    let user = core
        .users
        .get(&cx, known.user_id.as_str())
        .await?
        .ok_or_else(Error::unauthorized)?;
    let providers = core.providers_of(&cx, &user.id).await?;
    let view = view(&core, user, providers, Some(known));
    let reply = Reply::json(
        200,
        &UserView {
            tenant_id: actor.tenant_id.clone(),
            ..view
        },
    )?;
    // A client that lost its CSRF cookie gets a new one here. Programs send no cookies, so their
    // credential is not read twice.
    match call
        .headers
        .contains_key(COOKIE)
        .then(|| credential::of(&call.headers, &core.cookies))
    {
        Some(Credential::Cookie(_)) => Ok(core
            .cookies
            .set_csrf(reply, &csrf::make(&core.env, &core.ring, &known.sid)?)),
        _ => Ok(reply),
    }
}

pub(super) async fn update_me(
    core: Arc<Core>,
    call: PluginCall,
    mut input: Partial<Profile>,
) -> Result<Reply> {
    let known = caller(&call)?;
    let client = core.client(&call);
    let metadata: Option<Value> = input.take("userMetadata")?;
    if let Some(metadata) = &metadata {
        check_metadata(metadata)?;
    }
    let patch = UserPatch {
        display_name: input.take("displayName")?,
        first_name: input.take("firstName")?,
        last_name: input.take("lastName")?,
        user_metadata: metadata,
        ..UserPatch::default()
    };
    let has_no_name = [&patch.display_name, &patch.first_name, &patch.last_name]
        .iter()
        .all(|name| name.is_none());
    let unchanged = has_no_name && patch.user_metadata.is_none();
    let cx = client.cx();
    let changed = cx.transaction(async |cx| {
        if unchanged {
            // Without a change, neither the account nor an audit entry is written.
            return core
                .users
                .get(cx, known.user_id.as_str())
                .await?
                .ok_or_else(Error::unauthorized);
        }
        let user = core
            .users
            .update(cx, known.user_id.clone(), patch, None)
            .await?;
        let happened = AuditEvent::about("auth:user.updated", &user.id).session(&known.handle);
        core.audit(
            cx,
            &client,
            happened.details(json!({ "method": "profile" })),
        )
        .await?;
        Ok(user)
    });
    let user = changed.await.map_err(|error| {
        if error.code() == Code::NotFound {
            Error::unauthorized()
        } else {
            error
        }
    })?;
    let providers = core.providers_of(&cx, &user.id).await?;
    Reply::json(
        200,
        &UserView {
            tenant_id: client.tenant.clone(),
            ..view(&core, user, providers, Some(&known))
        },
    )
}

fn check_metadata(metadata: &Value) -> Result<()> {
    let problem =
        |code, message: &str| Err(Error::invalid(Problem::new("userMetadata", code, message)));
    if !metadata.is_object() {
        return problem("type", "must be an object");
    }
    if metadata.to_string().len() > MAX_METADATA_BYTES {
        return problem("max_length", "must be at most 16 KiB");
    }
    if depth(metadata) > MAX_METADATA_DEPTH {
        return problem("max_depth", "must be at most 8 deep");
    }
    Ok(())
}

/// The nesting depth of a value. The JSON parser has limited the depth, so the recursion is safe.
fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(members) => 1 + members.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

/// The session of the caller.
pub(super) fn caller(call: &PluginCall) -> Result<CheckedSession> {
    let actor = call.cx.get_actor().ok_or_else(Error::unauthorized)?;
    checked_session(actor)
        .cloned()
        .ok_or_else(Error::unauthorized)
}

/// An account with its providers, for the holder of a session or for an administrator.
pub(super) fn view(
    core: &Core,
    user: User,
    providers: Vec<String>,
    known: Option<&CheckedSession>,
) -> UserView {
    let primary = core.config.auth.primary_field;
    let methods: Vec<String> = core
        .methods(&user)
        .iter()
        .map(|way| way.name().to_owned())
        .collect();
    let (username, phone) = match primary {
        PrimaryField::Email => (None, None),
        PrimaryField::Username => (Some(user.identifier_display), None),
        PrimaryField::Phone => (None, Some(user.identifier_display)),
    };
    UserView {
        user_id: user.id.clone(),
        id: user.id,
        email: user.email,
        username,
        phone,
        email_verified: user.email_verified_at.is_some(),
        roles: user.roles,
        display_name: user.display_name,
        first_name: user.first_name,
        last_name: user.last_name,
        user_metadata: user.user_metadata,
        has_password: user.password_hash.is_some(),
        mfa_enabled: !methods.is_empty(),
        mfa_methods: methods,
        providers,
        suspended: user.suspended_at.is_some(),
        deletion_scheduled_for: user.deletion_due_at,
        session_id: known.map(|known| known.handle.clone()).unwrap_or_default(),
        tenant_id: None,
        created_at: user.created_at,
    }
}
