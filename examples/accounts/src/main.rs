//! A noticeboard with accounts. Members sign in with a password, a passkey or a local test
//! provider. Roles decide who writes and who administers.

use linchpin::axum::response::Html;
use linchpin::prelude::*;
use linchpin_auth::{Auth, ProviderSection};

/// The public address of the app, unless `LINCHPIN_AUTH_PUBLIC_URL` sets another one.
const DEFAULT_ADDRESS: &str = "http://localhost:3000";
/// The identity provider on this machine, unless the variables `LINCHPIN_AUTH_OAUTH_LOCAL_..` name
/// another one.
const DEFAULT_ISSUER: &str = "http://127.0.0.1:4000";
/// The secret of the app at that provider.
const CLIENT_SECRET: &str = "a secret of the peer & its client: 100%";

/// A notice for all members.
#[entity(
    namespace = "board",
    sort = desc(created_at),
    routes(auth = "userAuth", update(roles = ["admin"]), delete(roles = ["admin"], guards(require_step_up(300))))
)]
#[derive(Clone, Debug)]
pub struct Notice {
    #[field(primary, default = uuid)]
    pub id: String,
    #[field(length = 1..=200)]
    pub text: String,
    #[field(default = now)]
    pub created_at: Timestamp,
}

/// The start page: `GET /notices/welcome`. A provider redirects here with a code, which is
/// exchanged for a session.
#[route(entity = Notice, method = "GET", path = "welcome", auth = none)]
async fn welcome() -> Html<&'static str> {
    Html(include_str!("welcome.html"))
}

/// The page for members: `GET /notices/page`.
#[route(entity = Notice, method = "GET", path = "page", auth = "userAuth")]
async fn inside(notices: NoticeAdapter, cx: Cx) -> Result<Html<String>> {
    let roles = cx
        .get_actor()
        .map(|actor| actor.roles.join(", "))
        .unwrap_or_default();
    let items = notices.list(&cx, ListQuery::new()).await?.items;
    let list: String = items
        .iter()
        .map(|notice| format!("<li>{}</li>\n", escape_html(&notice.text)))
        .collect();
    Ok(Html(format!(
        "<!doctype html>\n<title>Notices</title>\n<p>You are signed in; roles: {}.</p>\n<ul>\n{list}</ul>\n",
        escape_html(&roles)
    )))
}

/// The page for administrators only: `GET /notices/office`.
#[route(entity = Notice, method = "GET", path = "office", roles = ["admin"])]
async fn office(notices: NoticeAdapter, cx: Cx) -> Result<Html<String>> {
    let page = notices.list(&cx, ListQuery::new()).await?;
    let more = if page.has_more { "more than " } else { "" };
    Ok(Html(format!(
        "<!doctype html>\n<title>Office</title>\n<p>Notices: {more}{}.</p>\n",
        page.items.len()
    )))
}

/// Escapes a text for HTML.
fn escape_html(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

/// The package: notices and their pages.
pub static BOARD: Package = package!(
    name = "board",
    entities = [entity(Notice, [welcome, inside, office])]
);

/// The settings of accounts. The environment may set the public address, the page of the
/// verification link and the local provider. All other settings are constant, such as passkeys for
/// `localhost`.
fn auth() -> Auth {
    Auth::from_env()
        .roles(["admin", "member"])
        .default_role("member")
        .configure(|config| {
            let auth = &mut config.auth;
            auth.app_name = "the noticeboard".to_owned();
            let public_url = auth
                .public_url
                .get_or_insert_with(|| DEFAULT_ADDRESS.to_owned())
                .clone();
            auth.email_verification.enabled = true;
            auth.email_verification
                .link_base_url
                .get_or_insert_with(|| format!("{public_url}/notices/welcome"));
            auth.passkeys.enabled = true;
            auth.passkeys.rp_id = "localhost".to_owned();
            if auth.passkeys.origins.is_empty() {
                auth.passkeys.origins = vec![DEFAULT_ADDRESS.to_owned()];
            }
            auth.oauth.post_redirect = "/notices/welcome".to_owned();
            let local = || {
                ProviderSection::new("app")
                    .secret(CLIENT_SECRET.to_owned())
                    .issuer(DEFAULT_ISSUER)
            };
            auth.oauth
                .providers
                .entry("local".to_owned())
                .or_insert_with(local);
        })
}

#[tokio::main]
async fn main() -> linchpin::Result<()> {
    App::new(Config::from_env()?)
        .plugin(auth())
        .package(&BOARD)
        .run()
        .await
}
