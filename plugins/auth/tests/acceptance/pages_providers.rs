//! The pages for sign-in by providers, linking and unlinking. The issuer is the npm package
//! `oidc-provider`.

use linchpin_auth::{Auth, SameSite};
use serde_json::json;

use crate::cases;
use crate::factor::code_at;
use crate::issuer::{Browser, FLOW_COOKIE, Peer, parameter};
use crate::oauth::{app, app_with};
use crate::post::Post;
use crate::server::{GOOD, Reply, Server, Store};
use crate::visitor::{Visitor, text};

cases! {
    every_store:
        providers_are_linked_and_unlinked_by_pages, the_last_sign_in_method_is_not_unlinked,
        a_link_needs_the_confirmation_of_the_user;
    one_store:
        a_provider_sign_in_requires_the_second_factor, a_provider_sign_in_returns_to_its_target,
        a_provider_sign_in_works_with_strict_cookies, failed_provider_sign_ins_are_reported,
        closed_sign_up_creates_no_account;
}

/// Returns a user name at the issuer that no other case uses, because the issuer is shared.
fn unique_login(name: &str) -> String {
    use std::sync::atomic::{AtomicUsize, Ordering};
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    format!("page{name}{}", NEXT.fetch_add(1, Ordering::SeqCst))
}

/// Follows the button of a page to the provider, signs in there as `login`, and returns the final
/// response of the app.
async fn sign_in_by_page(visitor: &mut Visitor<'_>, start: &str, login: &str) -> Reply {
    let redirect = visitor.follow(start).await;
    assert_eq!(redirect.status, 303, "{}", text(&redirect));
    let url = redirect.header("location");
    assert!(url.starts_with(&Peer::shared().issuer), "{url}");
    let callback = Browser::new().sign_in(&url, login).await;
    let back = visitor.sent_back(&callback).await;
    assert_eq!(back.status, 302, "{back:?}");
    visitor.sent_back(&back.header("location")).await
}

/// Links the provider through its page: signs in at the provider as `login` and returns the final
/// redirect of the app.
async fn link(visitor: &mut Visitor<'_>, login: &str) -> Reply {
    let page = visitor.follow("/provider/link?id=peer").await;
    let body = text(&page);
    let to = "/auth/peer/link?returnTo=%2Fauth%2Fui%2Fprovider%2Flinked";
    assert!(
        page.status == 200 && body.contains(&format!("href=\"{to}\">Continue to peer")),
        "{body}"
    );
    let redirect = visitor
        .send("GET", to, &[("sec-fetch-site", "same-origin")], "")
        .await;
    assert_eq!(redirect.status, 302, "{redirect:?}");
    let callback = Browser::new()
        .sign_in(&redirect.header("location"), login)
        .await;
    let back = visitor.sent_back(&callback).await;
    visitor.sent_back(&back.header("location")).await
}

async fn a_provider_sign_in_returns_to_its_target(store: Store) {
    let app = app(&store).await;
    let id = unique_login("in");
    let mut ada = Visitor::new(&app);
    for page in ["/sign-in?returnTo=/app?x=1", "/register?returnTo=/app?x=1"] {
        let page = text(&ada.get(page).await);
        assert!(
            page.contains("href=\"/auth/ui/provider?returnTo=%2Fapp%3Fx%3D1&amp;id=peer\"")
                && page.contains("Continue with peer"),
            "{page}"
        );
    }
    // A redirect to the provider needs a click on a page of the app: links of other sites, mails,
    // and requests without an origin do not redirect.
    for from in [
        &[("sec-fetch-site", "cross-site")][..],
        &[("sec-fetch-site", "same-site")],
        &[("sec-fetch-site", "none")],
        &[],
    ] {
        let asked = ada
            .send(
                "GET",
                "/auth/ui/provider?returnTo=/app?x=1&id=peer",
                from,
                "",
            )
            .await;
        assert!(
            asked.status == 200 && text(&asked).contains("Continue with peer"),
            "{from:?}: {}",
            text(&asked)
        );
    }
    let done = sign_in_by_page(&mut ada, "/provider?returnTo=/app?x=1&id=peer", &id).await;
    assert_eq!(
        (done.status, done.header("location").as_str()),
        (303, "/app?x=1"),
        "{}",
        text(&done)
    );
    let page = text(&ada.get("/security").await);
    assert!(
        page.contains(&format!("<strong>{id}@peer.test</strong>")) && page.contains("Unlink peer"),
        "{page}"
    );
    // A signed-in user is not redirected to the provider. After a sign-out, a sign-in works again,
    // also without a return address.
    assert_eq!(
        ada.follow("/provider?id=peer").await.header("location"),
        "/auth/ui/security"
    );
    ada.fill("/security", "/sign-out", &[]).await;
    assert_eq!(
        sign_in_by_page(&mut ada, "/provider?id=peer", &id)
            .await
            .header("location"),
        "/auth/ui/security"
    );
    // Foreign return targets are ignored, and so are too long ones.
    for asked in ["//evil.test".to_owned(), format!("/{}", "%26".repeat(700))] {
        let mut bob = Visitor::new(&app);
        let done = sign_in_by_page(
            &mut bob,
            &format!("/provider?id=peer&returnTo={asked}"),
            &id,
        )
        .await;
        assert_eq!(done.header("location"), "/auth/ui/security", "{asked}");
    }
}

async fn failed_provider_sign_ins_are_reported(store: Store) {
    let app = app(&store).await;
    let id = unique_login("wrong");
    Visitor::new(&app).sign_up(&format!("{id}@peer.test")).await;
    let mut ada = Visitor::new(&app);
    // An account with this address exists; only its owner can link the provider.
    let failed = sign_in_by_page(&mut ada, "/provider?id=peer&returnTo=/app", &id).await;
    assert_eq!(
        failed.header("location"),
        "/auth/ui/sign-in?returnTo=%2Fapp&failed=account_exists"
    );
    let page = text(
        &ada.get("/sign-in?returnTo=/app&failed=account_exists")
            .await,
    );
    assert!(
        page.contains("role=\"alert\">An account with that email address already exists."),
        "{page}"
    );
    // The user cancels at the provider.
    let redirect = ada.follow("/provider?id=peer").await;
    let callback = Browser::new().deny(&redirect.header("location")).await;
    let back = ada.sent_back(&callback).await;
    assert_eq!(
        ada.sent_back(&back.header("location"))
            .await
            .header("location"),
        "/auth/ui/sign-in?failed=access_denied"
    );
    // A code works once, in the browser that started the flow.
    let redirect = ada.follow("/provider?id=peer").await;
    let callback = Browser::new()
        .sign_in(&redirect.header("location"), &unique_login("new"))
        .await;
    let landing = ada.sent_back(&callback).await.header("location");
    assert_eq!(parameter(&landing, "code").map(|code| code.len()), Some(43));
    let mut eve = Visitor::new(&app);
    eve.follow("/provider?id=peer").await;
    assert_eq!(
        eve.sent_back(&landing).await.header("location"),
        "/auth/ui/sign-in?failed=expired"
    );
    assert!(!eve.is_signed_in().await);
    // The code is refused too in a browser in which a sibling domain has planted the flow's cookie.
    let mark = "__Secure-oauth_flow";
    eve.cookies
        .insert(mark.to_owned(), ada.cookies[mark].clone());
    assert_eq!(
        eve.sent_back(&landing).await.header("location"),
        "/auth/ui/sign-in?failed=expired"
    );
    assert!(!eve.is_signed_in().await);
    assert_eq!(
        ada.sent_back(&landing).await.header("location"),
        "/auth/ui/security"
    );
    assert!(ada.is_signed_in().await);
    assert_eq!(
        ada.sent_back(&landing).await.header("location"),
        "/auth/ui/security?failed=overtaken"
    );
    ada.fill("/security", "/sign-out", &[]).await;
    assert_eq!(
        ada.sent_back(&landing).await.header("location"),
        "/auth/ui/sign-in?failed=expired"
    );
    // Unknown providers, and callbacks that nobody requested.
    assert_eq!(ada.follow("/provider?id=nobody").await.status, 404);
    assert_eq!(ada.follow("/provider").await.status, 404);
    for query in [
        "",
        "?code=",
        "?code=x",
        "?error=%3Cscript%3E",
        "?linked=peer",
    ] {
        let reply = ada.follow(&format!("/provider/back{query}")).await;
        let to = reply.header("location");
        assert!(
            reply.status == 303 && to.starts_with("/auth/ui/sign-in?failed="),
            "{query}: {to}"
        );
        let page = text(&ada.get(to.strip_prefix("/auth/ui").unwrap()).await);
        assert!(!page.contains("<script>"), "{page}");
    }
    // Above the limit, the response says when to try again.
    let mut refused = ada.follow("/provider?id=peer").await;
    for _ in 0..40 {
        if refused.status == 429 {
            break;
        }
        refused = ada.follow("/provider?id=peer").await;
    }
    assert!(
        refused.status == 429 && text(&refused).contains("Too many attempts."),
        "{}",
        text(&refused)
    );
    assert!(!refused.header("retry-after").is_empty());
}

async fn a_provider_sign_in_requires_the_second_factor(store: Store) {
    let app = app_with(&store, |auth| {
        auth.configure(|config| config.auth.mfa.enabled = true)
    })
    .await;
    let id = unique_login("mfa");
    let mut ada = Visitor::new(&app);
    sign_in_by_page(&mut ada, "/provider?id=peer", &id).await;
    let page = ada.fill("/security", "/factors/app", &[]).await;
    let secret = crate::visitor::hidden(&page, "secret").unwrap();
    assert_eq!(
        ada.fill(
            "/security",
            "/factors/app/verify",
            &[("code", &code_at(&app, &secret, 0))]
        )
        .await
        .status,
        200
    );
    let mut again = Visitor::new(&app);
    let asked = sign_in_by_page(&mut again, "/provider?id=peer&returnTo=/app", &id).await;
    assert_eq!(
        asked.header("location"),
        "/auth/ui/second?returnTo=%2Fapp",
        "{}",
        text(&asked)
    );
    assert!(!again.is_signed_in().await && !again.cookies.contains_key("__Host-token"));
    app.advance(30).await;
    let fields = [
        ("code", code_at(&app, &secret, 0)),
        ("returnTo", "/app".to_owned()),
    ];
    let fields: Vec<(&str, &str)> = fields
        .iter()
        .map(|(name, value)| (*name, value.as_str()))
        .collect();
    assert_eq!(
        again
            .fill("/second?returnTo=/app", "/second", &fields)
            .await
            .header("location"),
        "/app"
    );
    assert!(again.is_signed_in().await);
}

async fn providers_are_linked_and_unlinked_by_pages(store: Store) {
    let post = Post::default();
    let app = app_with(&store, |auth| post.on(auth)).await;
    let id = unique_login("link");
    let mut ada = Visitor::new(&app);
    ada.sign_up("ada@x.test").await;
    let page = text(&ada.get("/security").await);
    assert!(
        page.contains("Not linked")
            && page.contains("href=\"/auth/ui/provider/link?id=peer\" aria-label=\"Link peer\""),
        "{page}"
    );
    let done = link(&mut ada, &id).await;
    assert_eq!(done.header("location"), "/auth/ui/security?done=linked");
    let page = text(&ada.get("/security?done=linked").await);
    assert!(
        page.contains("peer <span class=\"badge\">Linked</span>") && !page.contains("Not linked"),
        "{page}"
    );
    assert_eq!(post.all("provider_linked", 1).await[0].to, "ada@x.test");
    // Another user's account.
    let mut bob = Visitor::new(&app);
    bob.sign_up("bob@x.test").await;
    assert_eq!(
        link(&mut bob, &id).await.header("location"),
        "/auth/ui/security?failed=already_linked"
    );
    assert!(
        text(&bob.get("/security?failed=already_linked").await)
            .contains("role=\"alert\">That account is linked to another user")
    );
    // Unlinking requires a recent proof and then returns to the page.
    app.advance(301).await;
    let asked = ada
        .fill("/security", "/provider/unlink", &[("id", "peer")])
        .await;
    assert_eq!(
        asked.header("location"),
        "/auth/ui/confirm?returnTo=%2Fauth%2Fui%2Fsecurity"
    );
    let fields = [("password", GOOD), ("returnTo", "/auth/ui/security")];
    assert_eq!(
        ada.fill("/confirm?returnTo=/auth/ui/security", "/confirm", &fields)
            .await
            .header("location"),
        "/auth/ui/security"
    );
    assert_eq!(
        ada.fill("/security", "/provider/unlink", &[("id", "other")])
            .await
            .status,
        404
    );
    assert_eq!(
        ada.fill("/security", "/provider/unlink", &[("id", "peer")])
            .await
            .header("location"),
        "/auth/ui/security?done=unlinked"
    );
    assert!(text(&ada.get("/security").await).contains("Not linked"));
    post.only("provider_unlinked", 1).await;
    // A link needs a recent sign-in and an account that is not scheduled for deletion.
    app.advance(901).await;
    let stale = ada.follow("/provider/link?id=peer").await;
    assert_eq!(
        stale.header("location"),
        "/auth/ui/confirm?returnTo=%2Fauth%2Fui%2Fprovider%2Flink%3Fid%3Dpeer"
    );
    ada.fill("/confirm", "/confirm", &[("password", GOOD)])
        .await;
    ada.fill("/delete", "/delete", &[]).await;
    assert_eq!(ada.follow("/provider/link?id=peer").await.status, 403);
    assert_eq!(
        ada.fill("/security", "/provider/unlink", &[("id", "peer")])
            .await
            .status,
        403
    );
    let mut nobody = Visitor::new(&app);
    assert_eq!(nobody.follow("/provider/link?id=peer").await.status, 303);
}

/// A link that another person prepared opens a page that asks for confirmation. Only the user can
/// continue.
async fn a_link_needs_the_confirmation_of_the_user(store: Store) {
    let app = app(&store).await;
    Visitor::new(&app).sign_up("ada@x.test").await;
    for (asked, target) in [
        ("/auth/peer/link?returnTo=/", "/auth/ui/security"),
        ("/auth/ui/../peer/link", "/auth/ui/security"),
        (
            "/auth/ui/provider/link?id=peer",
            "/auth/ui/provider/link?id=peer",
        ),
    ] {
        let mut ada = Visitor::new(&app);
        let fields = [
            ("identifier", "ada@x.test"),
            ("password", GOOD),
            ("returnTo", asked),
        ];
        assert_eq!(
            ada.fill("/sign-in", "/sign-in", &fields)
                .await
                .header("location"),
            target,
            "{asked}"
        );
        let page = ada.follow("/provider/link?id=peer").await;
        assert!(
            page.status == 200
                && page.header("location").is_empty()
                && !ada.cookies.contains_key(FLOW_COOKIE),
            "{page:?}"
        );
    }
    let mut ada = Visitor::new(&app);
    ada.sign_in("ada@x.test", GOOD).await;
    for headers in [
        &[("sec-fetch-site", "cross-site")][..],
        &[("sec-fetch-site", "same-site")],
        &[("referer", "https://evil.test/")],
        &[],
    ] {
        let reply = ada
            .send(
                "GET",
                "/auth/peer/link?returnTo=/auth/ui/provider/linked",
                headers,
                "",
            )
            .await;
        reply.refused(403, "csrf_failed");
    }
    assert_eq!(ada.follow("/provider/link?id=nobody").await.status, 404);
}

async fn the_last_sign_in_method_is_not_unlinked(store: Store) {
    let app = app(&store).await;
    let id = unique_login("only");
    let mut ada = Visitor::new(&app);
    sign_in_by_page(&mut ada, "/provider?id=peer", &id).await;
    let kept = ada
        .fill("/security", "/provider/unlink", &[("id", "peer")])
        .await;
    assert!(
        kept.status == 409 && text(&kept).contains("Set a password or add a passkey first."),
        "{}",
        text(&kept)
    );
    // A user without proof signs in again, and returns to the same page.
    app.advance(301).await;
    let asked = ada.fill("/delete", "/delete", &[]).await;
    assert_eq!(
        asked.header("location"),
        "/auth/ui/confirm?returnTo=%2Fauth%2Fui%2Fdelete"
    );
    let page = "/confirm?returnTo=/auth/ui/delete";
    assert!(text(&ada.get(page).await).contains("Sign in again"));
    let out = ada
        .fill(
            page,
            "/sign-out",
            &[("again", "yes"), ("returnTo", "/auth/ui/delete")],
        )
        .await;
    assert_eq!(
        out.header("location"),
        "/auth/ui/sign-in?returnTo=%2Fauth%2Fui%2Fdelete&done=signed-out"
    );
    assert_eq!(
        sign_in_by_page(&mut ada, "/provider?id=peer&returnTo=/auth/ui/delete", &id)
            .await
            .header("location"),
        "/auth/ui/delete"
    );
    assert_eq!(
        ada.fill("/delete", "/delete", &[]).await.header("location"),
        "/auth/ui/security"
    );
    assert!(text(&ada.get("/security").await).contains("Your account will be deleted"));
}

/// A browser does not send `SameSite=Strict` cookies with a request that another site caused. So
/// the app responds with a page that redirects the browser again.
async fn a_provider_sign_in_works_with_strict_cookies(store: Store) {
    let app = app_with(&store, |auth| {
        auth.configure(|config| config.auth.cookies.same_site = SameSite::Strict)
    })
    .await;
    let mut ada = Visitor::new(&app);
    // Another site cannot start a sign-in, because the provider may redirect back without asking
    // the user.
    let asked = ada
        .sent_back("/auth/ui/provider?id=peer&returnTo=/app")
        .await;
    assert!(
        asked.status == 200
            && asked.header("refresh").is_empty()
            && text(&asked).contains("Continue with peer"),
        "{}",
        text(&asked)
    );
    let page = sign_in_by_page(
        &mut ada,
        "/provider?id=peer&returnTo=/app",
        &unique_login("strict"),
    )
    .await;
    assert_eq!(
        (page.status, page.header("refresh").as_str()),
        (200, "0; url=/app"),
        "{page:?}"
    );
    assert!(text(&page).contains("href=\"/app\"") && ada.is_signed_in().await);
}

async fn closed_sign_up_creates_no_account(store: Store) {
    let closed = |auth: Auth| auth.configure(|config| config.auth.oauth.allow_sign_up = false);
    let app: Server = app_with(&store, closed).await;
    let mut ada = Visitor::new(&app);
    assert!(text(&ada.get("/sign-in").await).contains("Continue with peer"));
    assert!(!text(&ada.get("/register").await).contains("Continue with peer"));
    let failed = sign_in_by_page(&mut ada, "/provider?id=peer", &unique_login("closed")).await;
    assert_eq!(
        failed.header("location"),
        "/auth/ui/sign-in?failed=sign_up_disabled"
    );
    app.stop().await;
    // Without passwords, providers are the only way to sign in.
    let app = app_with(&store, |auth| {
        auth.configure(|config| config.auth.password.enabled = false)
    })
    .await;
    let mut ada = Visitor::new(&app);
    let page = text(&ada.get("/sign-in").await);
    assert!(
        page.contains("Continue with peer")
            && !page.contains("type=\"password\"")
            && !page.contains("class=\"or\""),
        "{page}"
    );
    assert_eq!(ada.get("/register").await.status, 404);
    sign_in_by_page(&mut ada, "/provider?id=peer", &unique_login("bare")).await;
    let token = ada.cookies["__Host-token"].clone();
    assert_eq!(app.me(&token).await.json()["providers"], json!(["peer"]));
}
