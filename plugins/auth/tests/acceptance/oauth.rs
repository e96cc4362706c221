//! Sign-in with providers. The issuer is the npm package `oidc-provider`.

mod accounts;

use linchpin_auth::{Auth, ResponseMode};
use serde_json::json;

use self::accounts::{
    a_deleted_account_leaves_no_link, a_provider_does_not_replace_the_second_factor,
    a_provider_does_not_take_over_an_existing_account, an_account_links_a_provider,
    an_account_of_a_provider_sets_its_first_password, the_last_way_to_sign_in_is_not_unlinked,
    verified_linking_needs_two_verified_addresses,
};
use crate::cases;
use crate::issuer::{
    APP, Browser, FLOW_COOKIE, Peer, StartedFlow, callback_parameter, decode, enter, parameter,
};
use crate::server::{Reply, Server, Store};

cases! {
    every_store:
        a_sign_in_with_a_provider_starts_with_a_redirect, a_provider_signs_in_by_an_exchange_code,
        a_native_client_proves_itself_by_its_verifier, an_exchange_code_expires,
        a_wrong_state_is_refused,
        a_provider_does_not_take_over_an_existing_account,
        verified_linking_needs_two_verified_addresses, an_account_links_a_provider,
        the_last_way_to_sign_in_is_not_unlinked,
        an_account_of_a_provider_sets_its_first_password,
        a_provider_does_not_replace_the_second_factor, a_deleted_account_leaves_no_link;
    one_store:
        return_addresses_are_restricted, rotated_keys_of_a_provider_are_fetched,
        public_key_algorithms_are_accepted_and_hmac_is_refused,
        a_form_post_is_redirected_to_a_get;
}

/// An app with the shared issuer. Its clock is set to the time of the issuer.
pub async fn app(store: &Store) -> Server {
    app_with(store, |auth| auth).await
}

pub async fn app_with(store: &Store, change: impl FnOnce(Auth) -> Auth) -> Server {
    let app = store.app_with(|auth| change(Peer::shared().on(auth))).await;
    app.to_the_present().await;
    app
}

async fn a_sign_in_with_a_provider_starts_with_a_redirect(store: Store) {
    let app = app(&store).await;
    let peer = Peer::shared();
    let providers = app.raw("GET", "/auth/providers", &[], "").await;
    assert_eq!(
        (providers.status, providers.json()),
        (
            200,
            json!({ "providers": [{ "id": "peer", "name": "peer" }] })
        )
    );
    let start = app.raw("GET", "/auth/peer", &[], "").await;
    assert_eq!(start.status, 302);
    let flow = StartedFlow::of(&start);
    assert!(
        flow.url.starts_with(&format!("{}/auth?", peer.issuer)),
        "{}",
        flow.url
    );
    let expected = [
        ("response_type", "code"),
        ("client_id", "app"),
        ("redirect_uri", "https://app.test/auth/peer/callback"),
        ("scope", "openid email profile"),
        ("code_challenge_method", "S256"),
    ];
    for (name, value) in expected {
        assert_eq!(flow.url_parameter(name), value, "{name}");
    }
    assert!(
        ["state", "nonce", "code_challenge"]
            .iter()
            .all(|name| flow.url_parameter(name).len() == 43),
        "{}",
        flow.url
    );
    let cookie = start.cookie(FLOW_COOKIE).unwrap();
    for attribute in [
        "HttpOnly",
        "Secure",
        "SameSite=Lax",
        "Path=/auth",
        "Max-Age=600",
    ] {
        assert!(cookie.contains(attribute), "{attribute} in {cookie}");
    }
    let post = app.raw("POST", "/auth/peer", &[], "").await;
    assert_eq!(post.status, 303);
    assert_ne!(
        StartedFlow::of(&post).url_parameter("state"),
        flow.url_parameter("state")
    );
    let json = app
        .raw(
            "POST",
            "/auth/peer?returnTo=/x",
            &[
                ("accept", "application/json"),
                ("origin", "https://evil.test"),
            ],
            "",
        )
        .await;
    json.refused(403, "csrf_failed");
    let json = app
        .raw(
            "POST",
            "/auth/peer?returnTo=/x",
            &[("accept", "text/html, application/json;q=0.9")],
            "",
        )
        .await;
    assert!(
        json.status == 200
            && json.text("url").starts_with(&peer.issuer)
            && json.cookie(FLOW_COOKIE).is_some(),
        "{json:?}"
    );
    for (method, path) in [
        ("GET", "/auth/nobody"),
        ("POST", "/auth/nobody"),
        ("GET", "/auth/nobody/callback?state=x"),
    ] {
        app.raw(method, path, &[], "")
            .await
            .refused(404, "not_found");
    }
    app.raw("GET", "/auth/peer?next=/x", &[], "")
        .await
        .refused(400, "unknown_parameter");
    app.raw("GET", "/auth/peer?codeChallenge=short", &[], "")
        .await
        .problem("format", "query:codeChallenge");
    // A cookie that the app issued is kept for several flows; an invented one is replaced.
    let second = StartedFlow::again(&app, "/auth/peer", Some(&flow)).await;
    assert_eq!(second.cookie, flow.cookie);
    let invented = app
        .raw(
            "GET",
            "/auth/peer",
            &[("cookie", "__Secure-oauth_flow=x")],
            "",
        )
        .await;
    assert_ne!(StartedFlow::of(&invented).cookie, "x");
}

async fn a_provider_signs_in_by_an_exchange_code(store: Store) {
    let app = app(&store).await;
    let flow = StartedFlow::from(&app, "/auth/peer?returnTo=/app").await;
    let callback = Browser::new().sign_in(&flow.url, "ada").await;
    let back = flow.back(&app, &callback).await;
    let code = callback_parameter(&back, "code");
    assert!(back.header("location").starts_with("/app?code=") && code.len() == 43);
    assert!(back.headers.get("set-cookie").is_none(), "{back:?}");
    let done = flow.exchange(&app, &code).await;
    assert_eq!(
        (
            done.status,
            done.json()["email"].clone(),
            done.json()["emailVerified"].clone()
        ),
        (200, json!("ada@peer.test"), json!(false))
    );
    assert!(done.cookie("__Host-token").is_some());
    flow.exchange(&app, &code)
        .await
        .refused(401, "invalid_code");
    let me = app.me(&done.text("token")).await.json();
    assert_eq!(
        (&me["providers"], &me["hasPassword"], &me["roles"]),
        (&json!(["peer"]), &json!(false), &json!(["member"]))
    );
    let sessions = app.get(&done.text("token"), "/auth/sessions").await.json();
    assert_eq!(sessions["sessions"][0]["amr"], json!(["fed"]));
    // A second sign-in of the same person uses the same account.
    let again = enter(&app, "peer", "ada").await;
    assert_eq!(again.text("userId"), done.text("userId"));
    let other = enter(&app, "peer", "bob").await;
    assert_ne!(other.text("userId"), done.text("userId"));
    let events = app.get(&again.text("token"), "/auth/activity").await.json();
    let names: Vec<&str> = events["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| event["event"].as_str().unwrap())
        .collect();
    for event in [
        "auth:user.created",
        "auth:oauth.linked",
        "auth:login",
        "auth:session.created",
    ] {
        assert!(names.contains(&event), "{event} in {names:?}");
    }
}

/// A client without cookies proves by its code verifier that it started the flow.
async fn a_native_client_proves_itself_by_its_verifier(store: Store) {
    let app = app(&store).await;
    // RFC 7636, appendix B.
    let (verifier, challenge) = (
        "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk",
        "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM",
    );
    let sign_in = async || {
        let flow = StartedFlow::from(&app, &format!("/auth/peer?codeChallenge={challenge}")).await;
        // The challenge sent to the provider is not this one.
        assert_ne!(flow.url_parameter("code_challenge"), challenge);
        let callback = Browser::new().sign_in(&flow.url, "nat").await;
        let code = callback_parameter(&flow.back(&app, &callback).await, "code");
        (flow, code)
    };
    let (_, code) = sign_in().await;
    let done = app
        .post(
            "/auth/oauth/exchange",
            json!({ "code": code, "codeVerifier": verifier }),
        )
        .await;
    assert_eq!(done.status, 200, "{done:?}");
    // A wrong verifier uses up the code, and the cookie does not replace the verifier.
    for wrong in [
        "",
        "wrong",
        challenge,
        &"x".repeat(43),
        &"x".repeat(129),
        &"\u{e9}".repeat(43),
    ] {
        let (_, code) = sign_in().await;
        app.post(
            "/auth/oauth/exchange",
            json!({ "code": code, "codeVerifier": wrong }),
        )
        .await
        .refused(401, "invalid_code");
        app.post(
            "/auth/oauth/exchange",
            json!({ "code": code, "codeVerifier": verifier }),
        )
        .await
        .refused(401, "invalid_code");
        app.advance(6).await;
    }
    let (flow, code) = sign_in().await;
    flow.exchange(&app, &code)
        .await
        .refused(401, "invalid_code");
    app.post(
        "/auth/oauth/exchange",
        json!({ "code": code, "codeVerifier": verifier }),
    )
    .await
    .refused(401, "invalid_code");
    app.post("/auth/oauth/exchange", json!({ "codeVerifier": verifier }))
        .await
        .problem("required", "code");
}

async fn an_exchange_code_expires(store: Store) {
    let app = app(&store).await;
    let sign_in = async || {
        let flow = StartedFlow::from(&app, "/auth/peer").await;
        let callback = Browser::new().sign_in(&flow.url, "old").await;
        let code = callback_parameter(&flow.back(&app, &callback).await, "code");
        (flow, code)
    };
    let ((flow, code), (late, late_code)) = (sign_in().await, sign_in().await);
    app.advance(59).await;
    assert_eq!(flow.exchange(&app, &code).await.status, 200);
    app.advance(2).await;
    late.exchange(&app, &late_code)
        .await
        .refused(401, "invalid_code");
    // A code from another browser, or without a cookie, is refused and used up.
    let (own, code) = sign_in().await;
    let other = StartedFlow::from(&app, "/auth/peer").await;
    other
        .exchange(&app, &code)
        .await
        .refused(401, "invalid_code");
    own.exchange(&app, &code).await.refused(401, "invalid_code");
    let (own, code) = sign_in().await;
    app.post("/auth/oauth/exchange", json!({ "code": code }))
        .await
        .refused(401, "invalid_code");
    own.exchange(&app, &code).await.refused(401, "invalid_code");
    for code in ["", "x", &"x".repeat(5000)] {
        own.exchange(&app, code).await.refused(401, "invalid_code");
    }
}

async fn a_wrong_state_is_refused(store: Store) {
    let app = store
        .app_with(|auth| Peer::shared().with(Peer::shared().on(auth), "other", |other| other))
        .await;
    app.to_the_present().await;
    let refused = |reply: &Reply| {
        reply.refused(400, "invalid_state");
        assert!(reply.headers.get("location").is_none());
    };
    let flow = StartedFlow::from(&app, "/auth/peer").await;
    for query in [
        "",
        "?code=x",
        "?state=",
        "?code=x&state=unknown",
        &format!("?code=x&state={}", "x".repeat(3000)),
    ] {
        refused(
            &flow
                .back(&app, &format!("/auth/peer/callback{query}"))
                .await,
        );
    }
    let callback = Browser::new().sign_in(&flow.url, "sid").await;
    let path = callback.strip_prefix(APP).unwrap();
    // Another browser, a request without a cookie, and the path of another provider are refused.
    // They do not use up the state.
    refused(
        &StartedFlow::from(&app, "/auth/peer")
            .await
            .back(&app, path)
            .await,
    );
    refused(&app.raw("GET", path, &[], "").await);
    refused(
        &flow
            .back(&app, &path.replace("/auth/peer/", "/auth/other/"))
            .await,
    );
    let twice = format!(
        "{FLOW_COOKIE}={}; {FLOW_COOKIE}={}",
        flow.cookie, flow.cookie
    );
    refused(&app.raw("GET", path, &[("cookie", &twice)], "").await);
    assert_eq!(
        callback_parameter(&flow.back(&app, path).await, "code").len(),
        43
    );
    refused(&flow.back(&app, path).await);
    let late = StartedFlow::from(&app, "/auth/peer").await;
    let callback = Browser::new().sign_in(&late.url, "sid").await;
    app.advance(601).await;
    refused(&late.back(&app, &callback).await);
    // The user refuses at the provider.
    let flow = StartedFlow::from(&app, "/auth/peer?returnTo=/app").await;
    let callback = Browser::new().deny(&flow.url).await;
    assert_eq!(
        parameter(&callback, "error").as_deref(),
        Some("access_denied")
    );
    let back = flow.back(&app, &callback).await;
    assert_eq!(back.header("location"), "/app?error=access_denied");
    refused(&flow.back(&app, &callback).await);
}

async fn return_addresses_are_restricted(store: Store) {
    let app = app_with(&store, |auth| {
        auth.configure(|config| {
            config.auth.oauth.allowed_redirect_origins = vec!["https://front.test".to_owned()];
            config.auth.oauth.post_redirect = "/home".into();
        })
    })
    .await;
    let arrive = async |query: &str| {
        let flow = StartedFlow::from(&app, &format!("/auth/peer{query}")).await;
        let callback = Browser::new().sign_in(&flow.url, "ret").await;
        flow.back(&app, &callback).await.header("location")
    };
    for (query, expected) in [
        ("", "/home?code="),
        ("?returnTo=/app", "/app?code="),
        ("?return_to=%2Fapp%3Fx%3D1%23top", "/app?x=1&code="),
        (
            "?returnTo=https%3A%2F%2Ffront.test%2Fin",
            "https://front.test/in?code=",
        ),
    ] {
        let to = arrive(query).await;
        assert!(to.starts_with(expected), "{to}");
    }
    for target in [
        "https%3A%2F%2Fevil.test%2F",
        "%2F%2Fevil.test",
        "%2F%5Cevil.test",
        "%5C%5Cevil.test",
        "%2F%252Fevil.test",
        "%2F%255Cevil.test",
        "%2F%09%2Fevil.test",
        "%2Fx%0D%0ASet-Cookie%3A%20a%3Db",
        "https%3A%2F%2Ffront.test.evil.test",
        "https%3A%2F%2Ffront.test%40evil.test",
        "https%3A%2F%2Ffront.test%5C%40evil.test",
        "javascript%3Aalert(1)",
        "data%3Atext%2Fhtml%2Cx",
        "%20%2F%2Fevil.test",
        "app",
        "",
    ] {
        for (method, name) in [
            ("GET", "returnTo"),
            ("POST", "returnTo"),
            ("GET", "return_to"),
        ] {
            let reply = app
                .raw(method, &format!("/auth/peer?{name}={target}"), &[], "")
                .await;
            reply.refused(400, "invalid_redirect");
            app.advance(3).await;
            assert!(reply.headers.get("location").is_none(), "{reply:?}");
        }
    }
}

async fn rotated_keys_of_a_provider_are_fetched(store: Store) {
    let peer = Peer::start();
    let app = store.app_with(|auth| peer.on(auth)).await;
    app.to_the_present().await;
    assert_eq!(enter(&app, "peer", "ada").await.status, 200);
    peer.rotate().await;
    assert_eq!(enter(&app, "peer", "ada").await.status, 200);
    // At most one fetch per minute: unknown key ids do not make the app fetch keys each time.
    peer.rotate().await;
    let flow = StartedFlow::from(&app, "/auth/peer").await;
    let callback = Browser::new().sign_in(&flow.url, "ada").await;
    assert_eq!(
        callback_parameter(&flow.back(&app, &callback).await, "error"),
        "provider_error"
    );
}

async fn public_key_algorithms_are_accepted_and_hmac_is_refused(store: Store) {
    let peer = Peer::shared();
    let client = |id: &'static str| {
        move |mut provider: linchpin_auth::ProviderSection| {
            provider.client_id = id.into();
            provider.client_secret = provider.client_secret.filter(|_| id != "public");
            provider.redirect_uri = Some("https://app.test/auth/peer/callback".to_owned());
            provider
        }
    };
    let app = store
        .app_with(|auth| {
            ["public", "ps", "es", "ed", "hs"]
                .into_iter()
                .fold(auth, |auth, id| peer.with(auth, id, client(id)))
        })
        .await;
    app.to_the_present().await;
    for id in ["public", "ps", "es", "ed", "hs"] {
        let flow = StartedFlow::from(&app, &format!("/auth/{id}")).await;
        let callback = Browser::new()
            .sign_in(&flow.url, "alg")
            .await
            .replace("/auth/peer/", &format!("/auth/{id}/"));
        let back = flow.back(&app, &callback).await;
        // A token that is signed with the client's secret is refused: anyone who has the secret can
        // create one.
        if id == "hs" {
            assert_eq!(callback_parameter(&back, "error"), "provider_error");
        } else {
            // All providers have the same issuer, so it is the same person.
            assert_eq!(
                flow.exchange(&app, &callback_parameter(&back, "code"))
                    .await
                    .status,
                200,
                "{id}"
            );
        }
    }
}

async fn a_form_post_is_redirected_to_a_get(store: Store) {
    let app = store
        .app_with(|auth| {
            Peer::shared().with(auth, "peer", |mut provider| {
                provider.response_mode = Some(ResponseMode::FormPost);
                provider
            })
        })
        .await;
    app.to_the_present().await;
    let flow = StartedFlow::from(&app, "/auth/peer").await;
    assert_eq!(flow.url_parameter("response_mode"), "form_post");
    let page = Browser::new().walk(&flow.url, Some("form")).await.unwrap();
    let text = String::from_utf8_lossy(&page.body).into_owned();
    assert!(
        text.contains("action=\"https://app.test/auth/peer/callback\""),
        "{text}"
    );
    let inputs: Vec<String> = text
        .split("<input")
        .skip(1)
        .map(|input| {
            ["name", "value"]
                .map(|name| {
                    input
                        .split(&format!("{name}=\""))
                        .nth(1)
                        .unwrap()
                        .split('"')
                        .next()
                        .unwrap()
                        .replace(':', "%3A")
                        .replace('/', "%2F")
                })
                .join("=")
        })
        .collect();
    let form = format!("{}&id_token=x&user=%7B%7D", inputs.join("&"));
    // The form is posted from the provider's page, without the cookie.
    let sent = [
        ("content-type", "application/x-www-form-urlencoded"),
        ("origin", "null"),
        ("sec-fetch-site", "cross-site"),
    ];
    let bounced = app.raw("POST", "/auth/peer/callback", &sent, &form).await;
    let to = bounced.header("location");
    assert!(
        bounced.status == 303
            && to.starts_with("https://app.test/auth/peer/callback?code=")
            && !to.contains("id_token"),
        "{bounced:?}"
    );
    assert_eq!(
        decode(&parameter(&to, "iss").unwrap()),
        Peer::shared().issuer
    );
    let code = callback_parameter(&flow.back(&app, &to).await, "code");
    assert_eq!(flow.exchange(&app, &code).await.status, 200);
    app.raw(
        "POST",
        "/auth/peer/callback",
        &[("content-type", "application/json")],
        "{}",
    )
    .await
    .refused(415, "unsupported_media_type");
}

/// Returns a number that no other case uses, because the issuer is shared.
pub fn unique_number() -> usize {
    static NEXT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    NEXT.fetch_add(1, std::sync::atomic::Ordering::SeqCst)
}
