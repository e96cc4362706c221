//! Sign-in by a provider, by the client, with npm `oidc-provider` as the issuer.

use linchpin_auth::Auth;
use serde_json::{Value as Json, json};

use super::{Mode, PAGE, Page, app, both_modes};
use crate::issuer::{APP, Browser, Peer, parameter};
use crate::post::Post;
use crate::server::{GOOD, Server};

both_modes!(providers);

pub(super) const HOOKS: &[&str] = &[
    "getLinkUrl",
    "getOAuthUrl",
    "useLogout",
    "useOAuthExchange",
    "useOAuthUnlink",
    "useResendVerification",
    "useSetPassword",
    "useUser",
    "useVerifyEmail",
];

/// Follows an address of the client to a provider, signs in there as `login`, and returns the
/// address to which the browser was redirected.
async fn come_back(page: &mut Page, url: &str, login: &str) -> String {
    let away = page.visit(url);
    assert_eq!(away["status"], 302, "{away}");
    let callback = Browser::new()
        .sign_in(away["location"].as_str().unwrap(), login)
        .await;
    let back = page.visit(&callback.replacen(APP, &page.api.clone(), 1));
    assert_eq!(back["status"], 302, "{back}");
    back["location"].as_str().unwrap().to_owned()
}

/// Comes back with a code, to a page at this origin.
pub(super) async fn code(page: &mut Page, origin: &str, login: &str) -> Json {
    let url = page.address(
        "getOAuthUrl",
        "work",
        &json!({ "returnTo": format!("{origin}/back") }),
    );
    // The server has its own client, scopes and callback for the provider: what the page adds is
    // passed over.
    for (name, value) in [
        ("client_id", "of-the-page"),
        ("scope", "openid calendar"),
        ("redirect_uri", "/somewhere"),
    ] {
        assert_eq!(parameter(&url, name).as_deref(), Some(value), "{url}");
    }
    let to = come_back(page, &url, login).await;
    assert!(to.starts_with(&format!("{origin}/back?code=")), "{to}");
    json!({ "code": parameter(&to, "code") })
}

fn linked(page: &mut Page) -> Json {
    page.read("useUser")["user"]["providers"].clone()
}

pub(super) async fn with_peer(post: &Post, change: impl FnOnce(Auth) -> Auth) -> Server {
    let returning = |auth: Auth| {
        auth.configure(|config| config.auth.oauth.allowed_redirect_origins = vec![PAGE.to_owned()])
    };
    let app = app(post, |auth| change(Peer::shared().on(returning(auth)))).await;
    app.to_the_present().await;
    app
}

async fn providers(mode: Mode) {
    let post = Post::default();
    let app = with_peer(&post, |auth| auth).await;
    let mut page = Page::open(&app, mode);
    let login = if mode == Mode::Token {
        "of-the-client-by-token"
    } else {
        "of-the-client-by-cookie"
    };
    let email = format!("{login}@peer.test");
    let redeem = code(&mut page, PAGE, login).await;
    let api = page.api.clone();
    let redeem = if mode == Mode::Token {
        // In token mode the client sends no cookie to another origin, so that nothing tells the
        // server that it is the browser which was sent away. On the origin of the server the
        // browser sends it by itself.
        page.refused("useOAuthExchange", redeem, 401, "invalid_code");
        page.go(&api);
        code(&mut page, PAGE, login).await
    } else {
        redeem
    };
    let (done, state) = page.call("useOAuthExchange", redeem);
    assert_eq!(
        (&done["email"], &state["user"], &state["path"]),
        (&json!(email), &json!(email), &json!("/home"))
    );
    assert_eq!(
        (&state["token"], &state["refresh"]),
        (&json!(mode == Mode::Token), &json!(mode == Mode::Token))
    );
    assert_eq!(linked(&mut page), json!(["peer"]));

    // The only way in stays. With another one it goes, after a sign-in a moment ago, which is all
    // that the client can prove.
    page.refused("useOAuthUnlink", json!("peer"), 409, "last_credential");
    page.says(
        "useSetPassword",
        json!({ "password": GOOD }),
        "The password was set.",
    );
    page.says(
        "useOAuthUnlink",
        json!("peer"),
        "The provider was unlinked.",
    );
    assert_eq!(linked(&mut page), json!([]));

    // Linking: for a proved address, by a link on a page of the server's own origin, with cookies.
    page.call("useResendVerification", json!({ "email": email }));
    page.says(
        "useVerifyEmail",
        json!({ "token": post.token("verify_email", 1).await }),
        "The address is verified.",
    );
    let url = page.address("getLinkUrl", "work", &json!(null));
    if mode == Mode::Cookie {
        let refused = page.visit(&url);
        assert_eq!(refused["status"], 403, "{refused}");
        page.go(&api);
    }
    let to = come_back(&mut page, &url, login).await;
    assert_eq!(to, "/?linked=peer");
    assert_eq!(linked(&mut page), json!(["peer"]));
    if mode == Mode::Cookie {
        page.go(PAGE);
    }
    page.logout();
    page.has_called(HOOKS);
}
