//! Routes for sign-in with providers. Each provider has its own paths below the mount.

use std::sync::Arc;

use axum::http::header::{ACCEPT, LOCATION, SET_COOKIE};
use axum::http::{HeaderMap, HeaderValue, Method};
use linchpin::entity::{FieldDesc, Kind};
use linchpin::http::{AnswerDesc, Nothing, PluginCall, PluginRoute, Reply, Route, RouteInput};
use linchpin::{Code, Error, Problem, Result, axum};

use super::account::caller;
use super::mailed::{count_by_ip, message_reply};
use super::mfa_shapes::{proof_input, proof_refused};
use super::shapes::{ExchangeInput, ProviderList, ProviderView, SendTo};
use super::{CoreCell, DEVICE, DONE, SIGNED_IN, route, session_of, with_core};
use crate::config::AuthConfig;
use crate::core::{Client, Core};
use crate::error::{
    ACCOUNT_SUSPENDED, CSRF_FAILED, DELETION_SCHEDULED, EMAIL_NOT_VERIFIED, INVALID_CODE,
    INVALID_CREDENTIALS, INVALID_REDIRECT, INVALID_STATE, LAST_CREDENTIAL, MFA_SETUP_REQUIRED,
    STEP_UP_REQUIRED,
};
use crate::flow::Need;
use crate::flow::oauth::{Departure, LinkFor, Marks, Return};
use crate::limit::Bucket;
use crate::oauth::Connection;
use crate::oauth::preset::is_id;
use crate::return_target::ReturnTarget;
use crate::secret::SecretText;
use crate::session::credential::SingleValue;
use crate::session::csrf::FETCH_SITE;

const fn text(wire: &'static str) -> FieldDesc {
    FieldDesc::new(wire, wire, wire, Kind::String, true)
}

/// A parameter that clients send and the server ignores: the app configures the requests to
/// providers.
const fn ignored(wire: &'static str) -> FieldDesc {
    FieldDesc {
        doc: "Ignored: the server uses its own settings for the provider.",
        ..text(wire)
    }
}

const TARGET: &[FieldDesc] = &[
    text("returnTo"),
    text("return_to"),
    text("codeChallenge"),
    ignored("client_id"),
    ignored("scope"),
    ignored("redirect_uri"),
];
const LINK_TARGET: &[FieldDesc] = &[
    text("returnTo"),
    text("return_to"),
    ignored("client_id"),
    ignored("scope"),
    ignored("redirect_uri"),
];
const ANSWER: &[FieldDesc] = &[text("code"), text("state"), text("iss"), text("error")];

const TO_PROVIDER: &[AnswerDesc] = &[AnswerDesc::empty(302, "Redirect to the provider.")];
const TO_PROVIDER_BY_POST: &[AnswerDesc] = &[
    AnswerDesc::of::<SendTo>(200, "The URL of the provider, if the request accepts JSON."),
    AnswerDesc::empty(303, "Redirect to the provider."),
];
const BACK: &[AnswerDesc] = &[AnswerDesc::empty(
    302,
    "Redirect to the return address, with `code`, `linked` or `error` in its query.",
)];
const BACK_BY_POST: &[AnswerDesc] = &[AnswerDesc::empty(
    303,
    "Redirect to the same path, with the result in its query.",
)];
const START_REFUSED: &[Code] = &[INVALID_REDIRECT, CSRF_FAILED, Code::RateLimited];
const LINK_REFUSED: &[Code] = &[
    INVALID_REDIRECT,
    STEP_UP_REQUIRED,
    EMAIL_NOT_VERIFIED,
    DELETION_SCHEDULED,
    MFA_SETUP_REQUIRED,
    CSRF_FAILED,
    Code::RateLimited,
];

const UNLINK_REFUSED: &[Code] = proof_refused!(LAST_CREDENTIAL, Code::NotFound);

proof_input! {
    /// Proof for the removal of a link to a provider.
    UnlinkInput {}
}

static PROVIDERS: Route<Nothing> = route(Route::get("providers", "providers"))
    .doc("Lists the providers for sign-in.")
    .public()
    .answers(&[AnswerDesc::of::<ProviderList>(200, "The providers, by id.")]);
static EXCHANGE: Route<ExchangeInput> = route(Route::post("oauth_exchange", "oauth/exchange"))
    .doc("Completes a sign-in at a provider with its one-time code.\n\nThe code works once and expires after a minute. It needs the verifier of `codeChallenge`, or the browser that started the sign-in.")
    .public()
    .reads(DEVICE).answers(SIGNED_IN)
    .errors(&[INVALID_CODE, INVALID_CREDENTIALS, ACCOUNT_SUSPENDED, EMAIL_NOT_VERIFIED, CSRF_FAILED, Code::RateLimited]);

/// A route with a path of a provider. Routes need names and paths that live as long as the process;
/// these are created once, at start-up.
fn provider_route<I: RouteInput>(
    make: fn(&'static str, &'static str) -> Route<I>,
    name: &str,
    id: &str,
    tail: &str,
) -> Route<I> {
    let leak = |text: String| -> &'static str { Box::leak(text.into_boxed_str()) };
    route(make(
        leak(format!("{name}_{}", id.replace('-', "_"))),
        leak(format!("{id}{tail}")),
    ))
}

/// Makes a route live as long as the process.
fn leak_route<I: RouteInput>(route: Route<I>) -> &'static Route<I> {
    Box::leak(Box::new(route))
}

/// The routes that the settings enable.
pub(super) fn routes(config: &AuthConfig, core_cell: &CoreCell) -> Vec<PluginRoute> {
    let mount = config.auth.mount.as_str();
    let mut out = Vec::new();
    // The check of the settings reports an invalid id.
    for id in config.auth.oauth.providers.keys().filter(|id| is_id(id)) {
        let bound = |route: Route<Nothing>, run: ProviderHandler| {
            let id: Arc<str> = Arc::from(id.as_str());
            leak_route(route).bind(
                mount,
                with_core(core_cell, move |core, call, _| {
                    run(core, call, Arc::clone(&id))
                }),
            )
        };
        let begin = provider_route(Route::get, "oauth_start", id, "")
            .doc("Redirects a browser to the provider to sign in.")
            .public();
        out.push(bound(
            begin
                .query(TARGET)
                .answers(TO_PROVIDER)
                .errors(START_REFUSED),
            |core, call, id| Box::pin(start(core, call, id)),
        ));
        let begin = provider_route(Route::post, "oauth_begin", id, "")
            .doc("Returns the URL of the provider for a sign-in.")
            .public();
        let begin = begin
            .query(TARGET)
            .answers(TO_PROVIDER_BY_POST)
            .errors(START_REFUSED);
        out.push(bound(begin, |core, call, id| {
            Box::pin(start(core, call, id))
        }));
        let back = provider_route(Route::get, "oauth_callback", id, "/callback")
            .doc("The callback of the provider.")
            .public();
        let back = back.query(ANSWER).lenient().errors(&[
            INVALID_STATE,
            INVALID_REDIRECT,
            Code::RateLimited,
        ]);
        let back = back.answers(BACK);
        out.push(bound(back, |core, call, id| {
            Box::pin(callback(core, call, id))
        }));
        let form = provider_route(Route::post, "oauth_form_post", id, "/callback")
            .doc("The callback of a provider that posts a form.");
        let form = form.public().form(ANSWER).lenient().answers(BACK_BY_POST);
        out.push(bound(form, |core, call, id| {
            Box::pin(std::future::ready(form_post(&core, &call, &id)))
        }));
        let link = provider_route(Route::get, "oauth_link", id, "/link")
            .doc("Redirects a browser to the provider to link it to the caller's account.");
        let link = link
            .auth("userAuth")
            .query(LINK_TARGET)
            .answers(TO_PROVIDER)
            .errors(LINK_REFUSED);
        out.push(bound(link, |core, call, id| {
            Box::pin(self::link(core, call, id))
        }));
        let link = provider_route(Route::post, "oauth_begin_link", id, "/link")
            .doc("Returns the URL of the provider that links it to the caller's account.");
        let link = link
            .auth("userAuth")
            .query(LINK_TARGET)
            .answers(TO_PROVIDER_BY_POST)
            .errors(LINK_REFUSED);
        out.push(bound(link, |core, call, id| {
            Box::pin(self::link(core, call, id))
        }));
        let end = provider_route(Route::delete, "oauth_unlink", id, "/link")
            .doc("Removes the link of the caller's account to the provider.");
        let end: &'static Route<UnlinkInput> =
            leak_route(end.auth("userAuth").answers(DONE).errors(UNLINK_REFUSED));
        let id: Arc<str> = Arc::from(id.as_str());
        out.push(end.bind(
            mount,
            with_core(core_cell, move |core, call, input| {
                unlink(core, call, input, Arc::clone(&id))
            }),
        ));
    }
    if !out.is_empty() {
        out.push(PROVIDERS.bind(
            mount,
            with_core(core_cell, |core, _, _| async move { providers(&core) }),
        ));
        out.push(EXCHANGE.bind(mount, with_core(core_cell, exchange)));
    }
    out
}

/// The handler of a provider's route.
type ProviderHandler =
    fn(Arc<Core>, PluginCall, Arc<str>) -> linchpin::BoxFuture<'static, Result<Reply>>;

/// Paths of routes that begin or complete a sign-in at a provider. They check for forged requests
/// themselves.
pub(super) fn self_checking_paths(config: &AuthConfig) -> impl Iterator<Item = String> {
    let ids = config.auth.oauth.providers.keys().filter(|id| is_id(id));
    ids.flat_map(|id| [id.clone(), format!("{id}/callback")])
        .chain(["oauth/exchange".to_owned()])
}

fn providers(core: &Core) -> Result<Reply> {
    let providers = core
        .oauth
        .all()
        .map(|provider| ProviderView {
            id: provider.id.clone(),
            name: provider.name.clone(),
        })
        .collect();
    Reply::json(200, &ProviderList { providers })
}

async fn start(core: Arc<Core>, call: PluginCall, id: Arc<str>) -> Result<Reply> {
    if call.method == Method::POST {
        core.may_sign_in(&call, &id).await?;
    }
    let (asked, challenge) = (return_address(&call)?, call.query::<String>(2)?);
    begin(
        &core,
        &call,
        &id,
        FlowRequest {
            challenge,
            ..FlowRequest::returning_to(asked)
        },
    )
    .await
}

/// Redirects a browser to a provider to sign in.
///
/// # Errors
/// 400 `invalid_redirect`, or for an invalid code challenge; 404; 429.
pub(super) async fn begin(
    core: &Core,
    call: &PluginCall,
    id: &str,
    request: FlowRequest<'_>,
) -> Result<Reply> {
    let client = core.client(call);
    let connection = core.oauth.get(id).ok_or_else(Error::not_found)?;
    count_by_ip(core, &client, Bucket::OauthStart).await?;
    if request
        .challenge
        .as_deref()
        .is_some_and(|challenge| !is_hash(challenge))
    {
        return Err(Error::invalid(Problem::new(
            "query:codeChallenge",
            "format",
            "must be the S256 challenge of a verifier",
        )));
    }
    redirect_to_provider(core, &client, call, connection, request).await
}

async fn link(core: Arc<Core>, call: PluginCall, id: Arc<str>) -> Result<Reply> {
    let known = caller(&call)?;
    let client = core.client(&call);
    // A POST was checked for forgery before.
    if call.method != Method::POST
        && let Err(refusal) = core.csrf.is_own_navigation(&call.headers, &core.cookies)
    {
        return Err(core
            .forged(
                &client,
                Some(&known),
                &format!("{}/{id}/link", core.config.auth.mount),
                refusal,
            )
            .await);
    }
    let connection = core.oauth.get(&id).ok_or_else(Error::not_found)?;
    let user = core
        .users
        .get(&client.cx(), known.user_id.as_str())
        .await?
        .ok_or_else(Error::unauthorized)?;
    core.require(&client, &known, &user, Need::Recent)?;
    core.may_add_way_in(&user)?;
    core.limiter
        .take_in_session(Bucket::Link, Bucket::LinkUser, &user.id, &known.handle)
        .await?;
    let link = Some(LinkFor {
        user: user.id,
        session: known.handle,
    });
    let asked = return_address(&call)?;
    redirect_to_provider(
        &core,
        &client,
        &call,
        connection,
        FlowRequest {
            link,
            ..FlowRequest::returning_to(asked)
        },
    )
    .await
}

async fn unlink(
    core: Arc<Core>,
    call: PluginCall,
    input: UnlinkInput,
    id: Arc<str>,
) -> Result<Reply> {
    end_link(&core, &call, input, &id).await
}

/// Removes the link of the caller's account to a provider.
///
/// # Errors
/// The errors of [`Core::prove`] and [`Core::unlink`]; 429.
pub(super) async fn end_link(
    core: &Core,
    call: &PluginCall,
    mut input: UnlinkInput,
    id: &str,
) -> Result<Reply> {
    let known = caller(call)?;
    let client = core.client(call);
    let connection = core.oauth.get(id).ok_or_else(Error::not_found)?;
    let user = core
        .users
        .get(&client.cx(), known.user_id.as_str())
        .await?
        .ok_or_else(Error::unauthorized)?;
    core.limiter
        .take_in_session(Bucket::Link, Bucket::LinkUser, &user.id, &known.handle)
        .await?;
    let proof = core
        .prove(&client, &known, &user, &input.take_proof(), Need::WayIn)
        .await?;
    core.unlink(&client, &user, &connection.provider, proof)
        .await?;
    message_reply("The provider was unlinked.")
}

/// The request of a flow.
pub(super) struct FlowRequest<'a> {
    /// The return address.
    asked: Option<String>,
    challenge: Option<String>,
    link: Option<LinkFor>,
    /// The mark of the browser for this host. Without it, the cookie of the request is used, or a
    /// new mark.
    host: Option<&'a str>,
}

impl<'a> FlowRequest<'a> {
    fn returning_to(asked: Option<String>) -> Self {
        Self {
            asked,
            challenge: None,
            link: None,
            host: None,
        }
    }

    /// A flow that a page starts, with the mark that the page gives the browser for this host.
    pub(super) fn of_page(back: String, host: &'a str) -> Self {
        Self {
            host: Some(host),
            ..Self::returning_to(Some(back))
        }
    }
}

/// The return address in the query.
fn return_address(call: &PluginCall) -> Result<Option<String>> {
    Ok(call.query(0)?.or(call.query(1)?))
}

async fn redirect_to_provider(
    core: &Core,
    client: &Client,
    call: &PluginCall,
    connection: &Connection,
    request: FlowRequest<'_>,
) -> Result<Reply> {
    let oauth = &core.config.auth.oauth;
    let FlowRequest {
        asked,
        challenge,
        link,
        host,
    } = request;
    let asked = asked.unwrap_or_else(|| oauth.post_redirect.clone());
    let target = ReturnTarget::parse(&asked, &oauth.allowed_redirect_origins)?;
    if challenge.is_some()
        && call.method != Method::POST
        && let Err(refusal) = core.csrf.may_bind(&call.headers, target.is_path())
    {
        return Err(core
            .forged(
                client,
                None,
                &format!("{}/{}", core.config.auth.mount, connection.provider.id),
                refusal,
            )
            .await);
    }
    let flow = match flow_cookie(core.cookies.flow(&call.headers)) {
        Some(known) => known.to_owned(),
        None => core.random_text::<32>()?,
    };
    let (host, is_new) = match host.or_else(|| flow_cookie(core.cookies.browser(&call.headers))) {
        Some(known) => (known.to_owned(), false),
        None => (core.random_text::<32>()?, true),
    };
    let departure = Departure {
        target: &target,
        challenge,
        browser: (&flow, &host),
        link,
    };
    let url = core
        .start_provider_flow(client, connection, departure)
        .await?;
    let reply = match url {
        Some(url) if call.method != Method::GET && accepts_json(&call.headers) => {
            Reply::json(200, &SendTo { url })?
        }
        None if call.method != Method::GET && accepts_json(&call.headers) => {
            return Err(Error::unavailable(
                "the provider cannot be reached, so the URL for the sign-in is unknown",
            ));
        }
        Some(url) => redirect(call, &url)?,
        None => redirect(call, &target.with("error", "provider_error"))?,
    };
    let reply = core.cookies.set_flow(reply, &flow);
    Ok(match core.cookies.set_browser(&host).filter(|_| is_new) {
        Some(cookie) => reply.and_header(SET_COOKIE, cookie),
        None => reply,
    })
}

/// 302 for a GET, 303 for a POST.
fn redirect(call: &PluginCall, to: &str) -> Result<Reply> {
    let status = if call.method == Method::GET { 302 } else { 303 };
    Ok(Reply::empty(status)?.header(
        LOCATION,
        HeaderValue::try_from(to).map_err(Error::internal)?,
    ))
}

fn accepts_json(headers: &HeaderMap) -> bool {
    let kinds = headers
        .get_all(ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','));
    kinds.into_iter().any(|kind| {
        kind.split(';')
            .next()
            .unwrap_or_default()
            .trim()
            .eq_ignore_ascii_case("application/json")
    })
}

/// Whether the text is 32 bytes in `base64url`, like random values and SHA-256 hashes here.
fn is_hash(text: &str) -> bool {
    text.len() == 43
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
}

/// A random value from a cookie.
fn flow_cookie(cookie: SingleValue<'_>) -> Option<&str> {
    match cookie {
        SingleValue::Text(value) if is_hash(value) => Some(value),
        _ => None,
    }
}

/// The marks that a browser got when it was redirected.
fn browser_marks(core: &Core, headers: &HeaderMap) -> Option<Marks> {
    let flow = flow_cookie(core.cookies.flow(headers))?.to_owned();
    // If hosts share cookies, the provider may redirect to another host than the one that started
    // the flow.
    let is_host_only = core.config.auth.cookies.domain.is_none();
    let host = flow_cookie(core.cookies.browser(headers))
        .filter(|_| is_host_only)
        .map(str::to_owned);
    Some(Marks {
        flow,
        host,
        is_browser: is_host_only && headers.contains_key(FETCH_SITE),
    })
}

async fn callback(core: Arc<Core>, call: PluginCall, id: Arc<str>) -> Result<Reply> {
    let client = core.client(&call);
    let connection = core.oauth.get(&id).ok_or_else(Error::not_found)?;
    count_by_ip(&core, &client, Bucket::OauthCallback).await?;
    let [code, state, issuer, error] = answer(&call)?;
    let user = session_of(&core, &call).await?.map(|known| known.user_id);
    let back = Return {
        code,
        state,
        issuer,
        error,
        browser: browser_marks(&core, &call.headers),
        user,
    };
    let to = core
        .finish_provider_flow(&client, connection, &back)
        .await?;
    redirect(&call, &to)
}

/// A page of the provider posts the result as a form. The browser sends this request without its
/// `SameSite` cookies, so it is redirected to the same address by GET.
fn form_post(core: &Core, call: &PluginCall, id: &str) -> Result<Reply> {
    let connection = core.oauth.get(id).ok_or_else(Error::not_found)?;
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    for (field, value) in ANSWER.iter().zip(answer(call)?) {
        if let Some(value) = value {
            query.append_pair(field.wire, &value);
        }
    }
    redirect(
        call,
        &format!("{}?{}", connection.provider.callback, query.finish()),
    )
}

/// The `code`, `state`, `iss` and `error` of a callback.
fn answer(call: &PluginCall) -> Result<[Option<String>; 4]> {
    Ok([
        call.query(0)?,
        call.query(1)?,
        call.query(2)?,
        call.query(3)?,
    ])
}

async fn exchange(core: Arc<Core>, call: PluginCall, input: ExchangeInput) -> Result<Reply> {
    core.may_sign_in(&call, "oauth/exchange").await?;
    redeem(&core, &call, input).await
}

/// Exchanges a one-time code for a session. The marks or the code verifier prove that it is the
/// same browser or client, so the origin and the method of the request do not matter.
///
/// # Errors
/// 401 `invalid_code`; 429; the errors of [`Core::complete_primary`].
pub(super) async fn redeem(core: &Core, call: &PluginCall, input: ExchangeInput) -> Result<Reply> {
    let client = core.client(call);
    count_by_ip(core, &client, Bucket::OauthExchange).await?;
    let (code, verifier) = (
        SecretText::from(input.code),
        input.code_verifier.map(SecretText::from),
    );
    let browser = browser_marks(core, &call.headers);
    core.redeem(
        &client,
        code.expose(),
        verifier.as_ref().map(SecretText::expose),
        browser.as_ref(),
    )
    .await
}
