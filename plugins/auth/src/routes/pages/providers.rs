//! Pages for sign-in with providers. They use links instead of forms, because the content security
//! policy forbids redirects of forms to other sites.

use axum::body::Body;
use axum::http::header::{LOCATION, SET_COOKIE};
use axum::http::{Response, StatusCode};
use axum::response::IntoResponse;
use linchpin::http::Reply;
use linchpin::{Error, Result, axum};
use maud::{Markup, html};

use super::account::security_page;
use super::enter::{sign_in_page, signed_in};
use super::layout::{Width, set_security_headers};
use super::texts;
use super::visit::{Visit, go, with};
use crate::config::SameSite;
use crate::entities::User;
use crate::error::{INVALID_CODE, STEP_UP_REQUIRED};
use crate::flow::Need;
use crate::identity::PrimaryField;
use crate::return_target::ReturnTarget;
use crate::routes::oauth::{self, FlowRequest, UnlinkInput};
use crate::routes::shapes::ExchangeInput;

/// Starts a sign-in at a provider, and completes it.
pub(super) const START: &str = "/provider";
pub(super) const BACK: &str = "/provider/back";
/// Starts a link to a provider, and completes it.
pub(super) const LINK: &str = "/provider/link";
pub(super) const LINKED: &str = "/provider/linked";
/// The query parameter that identifies the browser.
const BROWSER_PARAMETER: &str = "browser";
pub(super) const UNLINK: &str = "/provider/unlink";

/// A button for each provider.
pub(super) fn buttons(visit: &Visit) -> Vec<Markup> {
    let one = |id: &str, name: &str| {
        let to = with(&visit.with_target(START), "id", id);
        html! { a.button.plain href=(to) { (initial(name)) "Continue with " (name) } }
    };
    visit
        .core
        .oauth
        .all()
        .map(|provider| one(&provider.id, &provider.name))
        .collect()
}

/// The first letter of a name, as decoration.
fn initial(name: &str) -> Markup {
    let letter: String = name
        .chars()
        .next()
        .map(|c| c.to_uppercase().collect())
        .unwrap_or_default();
    html! { span.mark aria-hidden="true" { (letter) } }
}

/// Whether a sign-in with a provider may create an account.
pub(super) fn sign_up(visit: &Visit) -> bool {
    let auth = &visit.core.config.auth;
    auth.oauth.allow_sign_up && auth.primary_field == PrimaryField::Email
}

/// The redirect to the provider, or to the page of an error.
fn redirect_or_error(reply: Reply) -> Response<Body> {
    let mut response = reply.into_response();
    *response.status_mut() = StatusCode::SEE_OTHER;
    set_security_headers(response.headers_mut());
    response
}

pub(super) async fn start(visit: Visit) -> Result<Response<Body>> {
    if visit.known.is_some() {
        return Ok(go(&visit.target()));
    }
    // A provider with earlier consent redirects back at once. So a link of another site, or in a
    // mail, would sign the user in without consent. The user chooses on a page of the plugin
    // instead.
    if !visit.core.csrf.is_from_own_page(visit.headers()) {
        return sign_in_page(&visit, None);
    }
    // If the return address with the target is too long, the target is dropped.
    let token = visit.csrf()?;
    let marked = |page: String| with(&page, BROWSER_PARAMETER, &token);
    let back =
        Some(marked(visit.with_target(BACK))).filter(|back| ReturnTarget::parse(back, &[]).is_ok());
    let back = back.unwrap_or_else(|| marked(visit.page(BACK)));
    let request = FlowRequest::of_page(back, visit.browser_mark());
    match oauth::begin(
        &visit.core,
        &visit.call(&[])?,
        visit.query.get("id"),
        request,
    )
    .await
    {
        Ok(reply) => Ok(visit.bind(redirect_or_error(reply))),
        Err(error) => sign_in_page(&visit, Some(&error)),
    }
}

/// Completes a sign-in. The code works once, for a minute, in the browser that was redirected. The
/// query parameter `browser` identifies that browser. So neither a link on another page nor cookies
/// that a sibling domain planted can sign the user in as another person.
pub(super) async fn back(visit: Visit) -> Result<Response<Body>> {
    if visit.known.is_some() {
        return redirect_from_page(&visit, visit.outdated_form());
    }
    if !visit.is_of_browser(visit.query.get(BROWSER_PARAMETER)) {
        return redirect_from_page(
            &visit,
            go(&with(&visit.with_target("/sign-in"), "failed", "expired")),
        );
    }
    let failed = |word: &str| go(&with(&visit.with_target("/sign-in"), "failed", word));
    let Some(code) = visit.query.non_empty("code") else {
        return redirect_from_page(&visit, failed(visit.query.get("error")));
    };
    match oauth::redeem(
        &visit.core,
        &visit.call(&[])?,
        ExchangeInput {
            code,
            code_verifier: None,
        },
    )
    .await
    {
        Ok(reply) => redirect_from_page(&visit, signed_in(&visit, reply).await?),
        Err(error) if error.code() == INVALID_CODE => Ok(failed("expired")),
        Err(error) => sign_in_page(&visit, Some(&error)),
    }
}

/// A redirect after another site sent the browser here. With `SameSite=Strict` the browser would
/// withhold its cookies, so a page of the plugin redirects.
fn redirect_from_page(visit: &Visit, gone: Response<Body>) -> Result<Response<Body>> {
    let to = gone.headers().get(LOCATION).and_then(|to| to.to_str().ok());
    let (SameSite::Strict, Some(to)) = (visit.core.config.auth.cookies.same_site, to) else {
        return Ok(gone);
    };
    let mut page = visit.show_redirect(to)?;
    for cookie in gone.headers().get_all(SET_COOKIE) {
        page.headers_mut().append(SET_COOKIE, cookie.clone());
    }
    Ok(page)
}

/// The providers, and which of them are linked to the account.
///
/// # Errors
/// If the store cannot be read.
pub(super) async fn section(visit: &Visit, user: &User) -> Result<Option<Markup>> {
    if visit.core.oauth.is_empty() {
        return Ok(None);
    }
    let links = visit.core.links_of(&visit.client.cx(), &user.id).await?;
    let mut items = Vec::new();
    for provider in visit.core.oauth.all() {
        let (badge, what, action) = match links.iter().find(|link| link.provider == provider.id) {
            Some(link) => {
                let id = html! { input type="hidden" name="id" value=(provider.id); };
                let label = format!("Unlink {}", provider.name);
                let form = html! { (id) button.danger.small aria-label=(label) { "Unlink" } };
                let since = format!("Since {}", texts::time(link.created_at));
                (
                    Some(html! { " " span.badge { "Linked" } }),
                    since,
                    visit.form(UNLINK, form)?,
                )
            }
            None => {
                let to = with(&visit.page(LINK), "id", &provider.id);
                let label = format!("Link {}", provider.name);
                let link = html! {
                    a.button.plain.small href=(to) aria-label=(label) { "Link" }
                };
                (None, "Not linked".to_owned(), link)
            }
        };
        items.push(html! {
            li {
                div.what {
                    strong {
                        (provider.name)
                        @if let Some(badge) = &badge { (badge) }
                    }
                    span { (what) }
                }
                (action)
            }
        });
    }
    Ok(Some(html! {
        section.card {
            h2 { "Linked accounts" }
            p.lead { "Accounts of other services that you can sign in with." }
            ul.list { @for item in &items { (item) } }
        }
    }))
}

/// Asks whether to link a provider. Only a click continues, so a link to this page does not link an
/// account.
pub(super) async fn link(visit: Visit) -> Result<Response<Body>> {
    let id = visit.query.get("id").to_owned();
    match may_link(&visit, &id).await {
        Ok(None) => Ok(visit.to_sign_in()),
        Ok(Some(name)) => link_page(&visit, &id, &name),
        Err(error) if error.code() == STEP_UP_REQUIRED => Ok(go(&with(
            &visit.page("/confirm"),
            "returnTo",
            &with(&visit.page(LINK), "id", &id),
        ))),
        Err(error) => security_page(&visit, Some(&error)).await,
    }
}

/// The name of a provider that may be linked now; `None` if nobody is signed in. The route of the
/// link checks this again.
async fn may_link(visit: &Visit, id: &str) -> Result<Option<String>> {
    let Some(known) = visit.active()? else {
        return Ok(None);
    };
    let core = &visit.core;
    let connection = core.oauth.get(id).ok_or_else(Error::not_found)?;
    let user = core
        .users
        .get(&visit.client.cx(), known.user_id.as_str())
        .await?
        .ok_or_else(Error::unauthorized)?;
    core.require(&visit.client, known, &user, Need::Recent)?;
    core.may_add_way_in(&user)?;
    Ok(Some(connection.provider.name.clone()))
}

fn link_page(visit: &Visit, id: &str, name: &str) -> Result<Response<Body>> {
    let to = with(
        &format!("{}/{id}/link", visit.core.config.auth.mount),
        "returnTo",
        &visit.page(LINKED),
    );
    let content = html! {
        section.card {
            h1 { "Link " (name) "?" }
            p.lead {
                "Afterwards you can sign in with that account. You continue at the provider, which then sends you back."
            }
            a.button href=(to) { "Continue to " (name) }
        }
        p.foot { a href=(visit.page("/security")) { "Cancel" } }
    };
    visit.show("Link another account", Width::Narrow, content, None)
}

/// Shows the result of a link.
pub(super) async fn linked(visit: Visit) -> Result<Response<Body>> {
    let gone = match (
        visit.query.non_empty("error"),
        visit.query.non_empty("linked"),
    ) {
        (Some(word), _) => go(&with(&visit.page("/security"), "failed", &word)),
        (None, Some(_)) => visit.done("/security", "linked"),
        (None, None) => go(&visit.page("/security")),
    };
    redirect_from_page(&visit, gone)
}

pub(super) async fn unlinking(visit: Visit) -> Result<Response<Body>> {
    let done = async {
        let Some(_) = visit.active()? else {
            return Ok(None);
        };
        let proof = UnlinkInput {
            method: None,
            code: None,
            password: None,
            reauth_token: None,
            webauthn_response: None,
        };
        oauth::end_link(&visit.core, &visit.call(&[])?, proof, visit.form.get("id"))
            .await
            .map(Some)
    };
    match done.await {
        Ok(None) => Ok(visit.to_sign_in()),
        Ok(Some(_)) => Ok(visit.done("/security", "unlinked")),
        Err(error) => security_page(&visit, Some(&error)).await,
    }
}
