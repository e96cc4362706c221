//! What an attacker, or a broken provider, may try: every one of it ends at the return target with a code, and signs nobody in.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use linchpin::BoxFuture;
use linchpin_auth::{Auth, AuthHooks, HookCx, HookError, HookResult, Limit, ProviderSection, SignIn, SignUp};
use serde_json::{Value as Json, json};

use crate::cases;
use crate::issuer::{APP, Away, Browser, landed};
use crate::server::{GOOD, Reply, Server, Store};
use crate::standin::{Bad, CLIENT, Manner, SECRET, StandIn, key, other_key, public, sign};

cases!(
    tokens_that_prove_nothing,
    answers_that_are_none,
    mix_up,
    somebody_else_in_userinfo,
    parallel_callbacks_and_exchanges,
    links_that_a_page_elsewhere_asks_for,
    links_whose_session_has_ended_meanwhile,
    starts_for_somebody_elses_verifier,
    hooks_are_asked,
    suspended_and_unverified,
    limits,
    nothing_secret_is_kept_or_told,
    settings_are_told_by_key,
);

/// An app whose provider `stand` is the server, at the present.
async fn app(store: &Store, standin: &StandIn) -> Server {
    app_with(store, standin, |auth| auth).await
}

async fn app_with(store: &Store, standin: &StandIn, change: impl FnOnce(Auth) -> Auth) -> Server {
    let provider = ProviderSection::new(CLIENT).secret(SECRET.to_owned()).issuer(standin.url.as_str());
    let auth = |auth: Auth| change(auth.provider("stand", provider).configure(|config| config.auth.public_url = Some(APP.to_owned())));
    let app = store.app_with(auth).await;
    app.to_the_present().await;
    app
}

/// Goes there and comes back.
async fn arrive(app: &Server) -> (Away, Reply) {
    let away = Away::from(app, "/auth/stand").await;
    let callback = Browser::new().sign_in(&away.url, "").await;
    let back = away.back(app, &callback).await;
    (away, back)
}

async fn tokens_that_prove_nothing(store: Store) {
    let standin = StandIn::start().await;
    let app = app(&store, &standin).await;
    type Change = Box<dyn FnOnce(&mut Manner)>;
    let claim = |name: &'static str, value: Json| -> Change { Box::new(move |manner| drop(manner.claims.insert(name.to_owned(), value))) };
    let signed = |sign: fn(&Json) -> String| -> Change { Box::new(move |manner| manner.sign = sign) };
    let without = |name: &'static str| -> Change { Box::new(move |manner| manner.without.push(name)) };
    let bad: Vec<(&str, Change)> = vec![
        ("alg none", signed(|claims| forged(&json!({ "alg": "none", "typ": "JWT" }), claims, None))),
        ("alg none, key named", signed(|claims| forged(&json!({ "alg": "none", "kid": "k1" }), claims, None))),
        ("HS256 under the client's secret", signed(|claims| forged(&json!({ "alg": "HS256", "kid": "k1" }), claims, Some(SECRET)))),
        (
            "HS256 under the public key",
            signed(|claims| forged(&json!({ "alg": "HS256", "kid": "k1" }), claims, Some(&public(key(), "k1").to_string()))),
        ),
        ("another key under its name", signed(|claims| sign(claims, other_key(), "k1"))),
        ("an unknown key", signed(|claims| sign(claims, other_key(), "k2"))),
        ("a key id with a path", signed(|claims| sign(claims, key(), "../jwks"))),
        ("no signature", signed(|claims| sign(claims, key(), "k1").rsplit_once('.').unwrap().0.to_owned() + ".")),
        ("two parts", signed(|claims| sign(claims, key(), "k1").rsplit_once('.').unwrap().0.to_owned())),
        (
            "a changed claim",
            signed(|claims| {
                let token = sign(claims, key(), "k1");
                let parts: Vec<&str> = token.split('.').collect();
                let mut other = claims.clone();
                other["sub"] = json!("somebody-else");
                format!("{}.{}.{}", parts[0], URL_SAFE_NO_PAD.encode(other.to_string()), parts[2])
            }),
        ),
        ("crit", signed(|claims| forged(&json!({ "alg": "ES256", "kid": "k1", "crit": ["exp"] }), claims, Some("x")))),
        ("garbage", signed(|_| "words.of.a provider".to_owned())),
        ("a very long token", signed(|_| "x".repeat(200_000))),
        ("another audience", claim("aud", json!("another-client"))),
        ("no audience", without("aud")),
        ("several audiences without azp", claim("aud", json!([CLIENT, "another-client"]))),
        ("an audience that is a number", claim("aud", json!(7))),
        ("another party", claim("azp", json!("another-client"))),
        ("a party that is null", claim("azp", json!(null))),
        ("another nonce", claim("nonce", json!("another"))),
        ("no nonce", without("nonce")),
        ("a nonce that is null", claim("nonce", json!(null))),
        ("another issuer", claim("iss", json!("https://evil.test"))),
        ("its issuer with a slash", claim("iss", json!(format!("{}/", standin.url)))),
        ("no issuer", without("iss")),
        ("expired", claim("exp", json!(-60))),
        ("no end", without("exp")),
        ("an end that is text", claim("exp", json!("tomorrow"))),
        ("from the future", claim("iat", json!(120))),
        ("no beginning", without("iat")),
        ("not yet", claim("nbf", json!(120))),
        ("nobody", without("sub")),
        ("an empty name", claim("sub", json!(""))),
        ("a name that is a list", claim("sub", json!(["subject-1"]))),
        ("a very long name", claim("sub", json!("x".repeat(256)))),
        ("a name with a line break", claim("sub", json!("a\nb"))),
    ];
    for (what, change) in bad {
        standin.behave(change);
        let (_, back) = arrive(&app).await;
        assert_eq!(landed(&back, "error"), "provider_error", "{what}");
        // More than the limit of callbacks.
        app.advance(2).await;
    }
    app.post("/auth/login", json!({ "email": "ada@standin.test", "password": GOOD })).await.refused(401, "invalid_credentials");
    // What is unusual and right all the same; the clocks have come apart by little.
    standin.behave(|manner| {
        manner.claims.insert("aud".to_owned(), json!([CLIENT, "another-client"]));
        manner.claims.insert("azp".to_owned(), json!(CLIENT));
        manner.claims.insert("iat".to_owned(), json!(80));
        manner.claims.insert("exp".to_owned(), json!(600));
        manner.claims.insert("email_verified".to_owned(), json!("true"));
    });
    let (away, back) = arrive(&app).await;
    assert_eq!(away.exchange(&app, &landed(&back, "code")).await.status, 200);
    // None of it could make the server fetch keys for each made up id.
    assert!(standin.asked("/jwks") <= 3, "{}", standin.asked("/jwks"));
    assert_eq!(standin.faults(), Vec::<String>::new());
}

/// A token that no library would make.
fn forged(header: &Json, claims: &Json, secret: Option<&str>) -> String {
    let text = format!("{}.{}", URL_SAFE_NO_PAD.encode(header.to_string()), URL_SAFE_NO_PAD.encode(claims.to_string()));
    let Some(secret) = secret else { return format!("{text}.") };
    let mut mac = <Hmac<sha2::Sha256> as KeyInit>::new_from_slice(secret.as_bytes()).unwrap();
    mac.update(text.as_bytes());
    format!("{text}.{}", URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes()))
}

async fn answers_that_are_none(store: Store) {
    let standin = StandIn::start().await;
    let app = app(&store, &standin).await;
    // Where to send somebody cannot be asked: they are told so where they wanted to go.
    for bad in [Bad::Redirect, Bad::Huge, Bad::Html, Bad::Error, Bad::NotJson, Bad::Nothing] {
        standin.behave(|manner| {
            manner.answers.insert("/.well-known/openid-configuration".to_owned(), bad);
        });
        let start = app.raw("GET", "/auth/stand?returnTo=/app", &[], "").await;
        assert_eq!(start.header("location"), "/app?error=provider_error", "{bad:?}");
        let json = app.unchecked("POST", "/auth/stand", &[("accept", "application/json")], "").await;
        assert_eq!((json.status, json.text("code").as_str()), (503, "unavailable"), "{bad:?}");
        app.advance(6).await;
    }
    standin.behave(|manner| drop(manner.metadata.insert("issuer".to_owned(), json!("https://evil.test"))));
    let start = app.raw("GET", "/auth/stand", &[], "").await;
    assert_eq!(start.header("location"), "/?error=provider_error");
    app.advance(6).await;
    // Addresses that are not under TLS, and not of this machine.
    for (name, url) in [("authorization_endpoint", "http://provider.test/authorize"), ("authorization_endpoint", "javascript:alert(1)")] {
        standin.behave(|manner| drop(manner.metadata.insert(name.to_owned(), json!(url))));
        let start = app.raw("GET", "/auth/stand", &[], "").await;
        assert_eq!(start.header("location"), "/?error=provider_error");
        app.advance(3601).await;
    }
    let url = &standin.url;
    let honest = |manner: &mut Manner| {
        manner.without.push("email");
        manner.metadata.insert("userinfo_endpoint".to_owned(), json!(format!("{url}/userinfo")));
        manner.documents.insert("/userinfo".to_owned(), json!({ "sub": "subject-1", "email": "ada@standin.test", "email_verified": true }));
    };
    for path in ["/token", "/userinfo", "/jwks"] {
        for bad in [Bad::Redirect, Bad::Huge, Bad::Html, Bad::Error, Bad::NotJson, Bad::Nothing] {
            standin.behave(|manner| {
                honest(manner);
                manner.answers.insert(path.to_owned(), bad);
            });
            // Of a provider that is met for the first time, so that it is asked for everything.
            let own = Store::memory();
            let fresh = self::app(&own, &standin).await;
            let (_, back) = arrive(&fresh).await;
            assert_eq!(landed(&back, "error"), "provider_error", "{path} {bad:?}");
            fresh.stop().await;
        }
    }
    standin.behave(|manner| {
        honest(manner);
        manner.answers.insert("/token".to_owned(), Bad::Slow);
    });
    let fresh_store = Store::memory();
    let fresh = self::app(&fresh_store, &standin).await;
    let (_, back) = arrive(&fresh).await;
    assert_eq!(landed(&back, "error"), "provider_error");
    standin.behave(honest);
    let (away, back) = arrive(&fresh).await;
    let done = away.exchange(&fresh, &landed(&back, "code")).await;
    assert_eq!((done.status, done.text("email")), (200, "ada@standin.test".to_owned()));
}

/// RFC 9207: the answer says whose it is, and nobody else's is taken.
async fn mix_up(store: Store) {
    let (honest, evil) = (StandIn::start().await, StandIn::start().await);
    let section = |server: &StandIn| ProviderSection::new(CLIENT).secret(SECRET.to_owned()).issuer(server.url.as_str());
    let (one, two) = (section(&honest), section(&evil));
    let app = store
        .app_with(|auth| {
            auth.provider("stand", one).provider("evil", two).configure(|config| config.auth.public_url = Some(APP.to_owned()))
        })
        .await;
    app.to_the_present().await;
    // Somebody who wants to sign in at the evil one is sent on to the honest one, whose code comes back to the evil one's path.
    let away = Away::from(&app, "/auth/evil").await;
    let on = away.url.replace(&evil.url, &honest.url);
    let callback = Browser::new().sign_in(&on, "").await;
    assert!(callback.contains("/auth/evil/callback"), "{callback}");
    assert_eq!(landed(&away.back(&app, &callback).await, "error"), "provider_error");
    assert_eq!((evil.asked("/token"), honest.asked("/token")), (0, 0), "the code went to nobody");
    // The same without the issuer's name in it, and with it in an answer that is an error.
    for (cut, expected) in [(true, "provider_error"), (false, "provider_error")] {
        let away = Away::from(&app, "/auth/stand").await;
        let callback = Browser::new().sign_in(&away.url, "").await;
        let without: String = callback.split('&').filter(|pair| !pair.starts_with("iss=")).collect::<Vec<_>>().join("&");
        let callback =
            if cut { without } else { format!("{}&error=access_denied", without.replace("code=", "iss=https%3A%2F%2Fevil.test&x=")) };
        assert_eq!(landed(&away.back(&app, &callback).await, "error"), expected);
    }
    let (away, back) = arrive(&app).await;
    assert_eq!(away.exchange(&app, &landed(&back, "code")).await.status, 200);
    // The provider's code is redeemed once: whoever sends it a second time has a state that is used.
    assert_eq!(honest.asked("/token"), 1);
    assert_eq!((honest.faults(), evil.faults()), (vec![], vec![]));
}

async fn somebody_else_in_userinfo(store: Store) {
    let standin = StandIn::start().await;
    let app = app(&store, &standin).await;
    let url = standin.url.clone();
    for document in [
        json!({ "sub": "somebody-else", "email": "eve@standin.test", "email_verified": true }),
        json!({ "email": "eve@standin.test", "email_verified": true }),
        json!({ "sub": ["subject-1"], "email": "eve@standin.test", "email_verified": true }),
    ] {
        standin.behave(|manner| {
            manner.without.push("email");
            manner.metadata.insert("userinfo_endpoint".to_owned(), json!(format!("{url}/userinfo")));
            manner.documents.insert("/userinfo".to_owned(), document);
        });
        assert_eq!(landed(&arrive(&app).await.1, "error"), "provider_error");
    }
    // A verified address in the token is not taken together with another one of the document.
    standin.behave(|manner| {
        manner.without.push("email");
        manner.documents.insert("/userinfo".to_owned(), json!({ "sub": "subject-1", "email": "eve@standin.test" }));
    });
    assert_eq!(landed(&arrive(&app).await.1, "error"), "email_not_verified");
}

async fn parallel_callbacks_and_exchanges(store: Store) {
    let standin = StandIn::start().await;
    let app = app(&store, &standin).await;
    let away = Away::from(&app, "/auth/stand").await;
    let callback = Browser::new().sign_in(&away.url, "").await;
    let backs = futures_util::future::join_all((0..10).map(|_| away.back(&app, &callback))).await;
    let landed_at: Vec<&Reply> = backs.iter().filter(|back| back.status == 302).collect();
    assert_eq!((landed_at.len(), standin.asked("/token")), (1, 1));
    for refused in backs.iter().filter(|back| back.status != 302) {
        refused.refused(400, "invalid_state");
    }
    let code = landed(landed_at[0], "code");
    let exchanged = futures_util::future::join_all((0..10).map(|_| away.exchange(&app, &code))).await;
    assert_eq!(exchanged.iter().filter(|reply| reply.status == 200).count(), 1);
    for refused in exchanged.iter().filter(|reply| reply.status != 200) {
        refused.refused(401, "invalid_code");
    }
    // The same new person comes back in several browsers at once, and is one account.
    standin.behave(|manner| {
        manner.claims.insert("sub".to_owned(), json!("subject-2"));
        manner.claims.insert("email".to_owned(), json!("bob@standin.test"));
    });
    let all = futures_util::future::join_all((0..6).map(|_| async {
        let (away, back) = arrive(&app).await;
        away.exchange(&app, &landed(&back, "code")).await
    }))
    .await;
    let ids: std::collections::BTreeSet<String> = all.iter().map(|reply| reply.text("userId")).collect();
    assert!(ids.len() == 1 && all.iter().all(|reply| reply.status == 200), "{all:?}");
}

async fn links_that_a_page_elsewhere_asks_for(store: Store) {
    let standin = StandIn::start().await;
    let app = app(&store, &standin).await;
    let login = app.post("/auth/register", json!({ "email": "eve@x.test", "password": GOOD })).await;
    let (token, csrf) = (login.text("token"), login.cookie_value("csrf_token"));
    let session = format!("__Host-token={token}; csrf_token={csrf}");
    let origin = format!("http://{}", app.host());
    let get = async |headers: &[(&str, &str)]| {
        let all: Vec<_> = headers.iter().copied().chain([("cookie", session.as_str())]).collect();
        app.raw("GET", "/auth/stand/link", &all, "").await
    };
    let same_page = format!("{origin}/settings");
    for own in [&[("sec-fetch-site", "same-origin")][..], &[("sec-fetch-site", "none")], &[("referer", &same_page)]] {
        assert_eq!(get(own).await.status, 302, "{own:?}");
    }
    for foreign in [
        &[][..],
        &[("sec-fetch-site", "cross-site")],
        &[("sec-fetch-site", "same-site")],
        &[("sec-fetch-site", "cross-site"), ("referer", &same_page)],
        &[("referer", "https://evil.test/")],
        &[("referer", "nothing")],
    ] {
        get(foreign).await.refused(403, "csrf_failed");
    }
    // What no browser sends by itself goes by POST.
    let bearer = format!("Bearer {token}");
    let headers = [("authorization", bearer.as_str()), ("sec-fetch-site", "same-origin")];
    app.raw("GET", "/auth/stand/link", &headers, "").await.refused(403, "csrf_failed");
    app.raw("GET", "/auth/stand/link", &[("sec-fetch-site", "same-origin")], "").await.refused(401, "unauthorized");
    app.raw("POST", "/auth/stand/link", &[("cookie", &session)], "").await.refused(403, "csrf_failed");
    let proved = [("cookie", session.as_str()), ("x-csrf-token", &csrf), ("origin", &origin)];
    assert_eq!(app.raw("POST", "/auth/stand/link", &proved, "").await.status, 303);
    // Somebody sends a victim's browser to the end of a link of their own: it is not the browser that was sent away.
    let own = Away::of(&app.raw("POST", "/auth/stand/link", &proved, "").await);
    let callback = Browser::new().sign_in(&own.url, "").await;
    let victim = Away::from(&app, "/auth/stand").await;
    victim.back(&app, &callback).await.refused(400, "invalid_state");
    assert_eq!(
        app.raw("GET", "/auth/stand/link?returnTo=//evil.test", &[("cookie", &session), ("sec-fetch-site", "none")], "").await.status,
        400
    );
}

/// Whoever ends their sessions while a provider is being asked is not found linked to it afterwards.
async fn links_whose_session_has_ended_meanwhile(store: Store) {
    let standin = StandIn::start().await;
    let app = app(&store, &standin).await;
    let ada = app.register("ada@x.test").await;
    standin.behave(|manner| {
        manner.answers.insert("/token".to_owned(), Bad::Held);
    });
    let set = |from: &str, to: &str| json!({ "currentPassword": from, "password": to });
    const OTHER: &str = "amber-walrus-17-dune";
    for what in ["logout", "everywhere else", "another password"] {
        let thief = app.login("ada@x.test").await;
        let away = Away::of(&app.with(&thief.token, "POST", "/auth/stand/link", None).await);
        let callback = Browser::new().sign_in(&away.url, "").await;
        let meanwhile = async {
            standin.is_asked().await;
            let done = match what {
                "logout" => app.with(&thief.token, "POST", "/auth/logout", None).await,
                "everywhere else" => app.with(&ada.token, "POST", "/auth/sessions/revoke-others", None).await,
                _ => app.with(&ada.token, "POST", "/auth/set-password", Some(set(GOOD, OTHER))).await,
            };
            assert_eq!(done.status, 200, "{what}: {done:?}");
            standin.let_go();
        };
        let (back, ()) = futures_util::future::join(away.back(&app, &callback), meanwhile).await;
        back.refused(400, "invalid_state");
        assert_eq!(app.me(&ada.token).await.json()["providers"], json!([]), "{what}");
    }
    // One that lives on gets its link.
    let away = Away::of(&app.with(&ada.token, "POST", "/auth/stand/link", None).await);
    let callback = Browser::new().sign_in(&away.url, "").await;
    let meanwhile = async {
        standin.is_asked().await;
        app.with(&ada.token, "PATCH", "/auth/me", Some(json!({ "displayName": "Ada" }))).await;
        standin.let_go();
    };
    let (back, ()) = futures_util::future::join(away.back(&app, &callback), meanwhile).await;
    assert_eq!(landed(&back, "linked"), "stand", "a change of the account alone ends nothing");
    assert_eq!(app.me(&ada.token).await.json()["providers"], json!(["stand"]));
}

/// With a challenge, the code that comes back is worth a session to whoever made that: a page elsewhere must not bring its own.
async fn starts_for_somebody_elses_verifier(store: Store) {
    let standin = StandIn::start().await;
    let app = app_with(&store, &standin, |auth| {
        auth.configure(|config| {
            config.security.allowed_origins.push("https://spa.test".to_owned());
            config.auth.oauth.allowed_redirect_origins.push("https://native.test".to_owned());
        })
    })
    .await;
    let challenge = "x".repeat(43);
    let (plain, bound) = ("/auth/stand".to_owned(), format!("/auth/stand?codeChallenge={challenge}"));
    let start = async |path: &str, headers: &[(&str, &str)]| app.raw("GET", path, headers, "").await;
    let (cross, evil, spa) = (("sec-fetch-site", "cross-site"), ("referer", "https://evil.test/"), ("referer", "https://spa.test/"));
    for foreign in [&[cross][..], &[cross, evil], &[("sec-fetch-site", "same-site"), evil], &[evil], &[cross, cross]] {
        start(&bound, foreign).await.refused(403, "csrf_failed");
    }
    for own in [&[][..], &[("sec-fetch-site", "none")], &[("sec-fetch-site", "same-origin")], &[cross, spa], &[spa]] {
        assert_eq!(start(&bound, own).await.status, 302, "{own:?}");
    }
    // Some browsers call it cross-site when an app opened them, which nothing says more of; what comes back is for the app.
    let native = format!("{bound}&returnTo=https://native.test/done");
    for any in [&[][..], &[cross]] {
        assert_eq!(start(&native, any).await.status, 302, "{any:?}");
    }
    start(&native, &[cross, evil]).await.refused(403, "csrf_failed");
    start(&native, &[cross, cross]).await.refused(403, "csrf_failed");
    // Without one it is good in the browser that was sent away, and there alone.
    for any in [&[][..], &[cross], &[cross, evil]] {
        assert_eq!(start(&plain, any).await.status, 302, "{any:?}");
    }
}

#[derive(Default)]
struct Asked(Arc<Mutex<Vec<String>>>);

impl AuthHooks for Asked {
    fn pre_register<'a>(&'a self, _: &'a HookCx, input: &'a SignUp) -> BoxFuture<'a, HookResult> {
        Box::pin(async {
            self.0.lock().unwrap().push(format!("pre_register {} {}", input.identifier, input.method));
            match input.identifier.as_str() {
                "no@standin.test" => Err(HookError::new("words of the app").status(403).code("blocked")),
                "panic@standin.test" => panic!("a hook of tests"),
                _ => Ok(()),
            }
        })
    }

    fn post_register<'a>(&'a self, _: &'a HookCx, input: &'a SignUp) -> BoxFuture<'a, HookResult> {
        self.0.lock().unwrap().push(format!("post_register {} {}", input.method, input.user_id.is_some()));
        Box::pin(async { Ok(()) })
    }

    fn pre_login<'a>(&'a self, _: &'a HookCx, input: &'a SignIn) -> BoxFuture<'a, HookResult> {
        self.0.lock().unwrap().push(format!("pre_login {} {}", input.method, input.user_id.is_some()));
        let again = self.0.lock().unwrap().iter().filter(|asked| asked.starts_with("pre_login")).count() > 1;
        Box::pin(async move { if again { Err(HookError::new("words of the app")) } else { Ok(()) } })
    }

    fn post_login<'a>(&'a self, _: &'a HookCx, input: &'a SignIn) -> BoxFuture<'a, HookResult<Json>> {
        self.0.lock().unwrap().push(format!("post_login {} {:?}", input.method, input.amr));
        Box::pin(async { Ok(json!({ "customClaims": { "plan": "pro" } })) })
    }
}

async fn hooks_are_asked(store: Store) {
    let standin = StandIn::start().await;
    let asked = Asked::default();
    let seen = Arc::clone(&asked.0);
    let app = app_with(&store, &standin, |auth| auth.hooks(asked)).await;
    let claim = |email: &'static str| move |manner: &mut Manner| drop(manner.claims.insert("email".to_owned(), json!(email)));
    standin.behave(claim("no@standin.test"));
    assert_eq!(arrive(&app).await.1.header("location"), "/?error=hook_rejected");
    standin.behave(claim("panic@standin.test"));
    assert_eq!(arrive(&app).await.1.header("location"), "/?error=server_error");
    standin.behave(claim("ada@standin.test"));
    let (away, back) = arrive(&app).await;
    let first = away.exchange(&app, &landed(&back, "code")).await;
    assert_eq!(crate::server::claims(&first.text("token"))["plan"], "pro");
    let (away, back) = arrive(&app).await;
    assert_eq!(away.exchange(&app, &landed(&back, "code")).await.text("userId"), first.text("userId"));
    assert_eq!(arrive(&app).await.1.header("location"), "/?error=hook_rejected");
    // It is told behind the request's back.
    for _ in 0..500 {
        if seen.lock().unwrap().iter().any(|asked| asked.starts_with("post_register")) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let mut seen = seen.lock().unwrap().clone();
    seen.retain(|asked| asked != "post_register oauth true");
    let expected = [
        "pre_register no@standin.test oauth",
        "pre_register panic@standin.test oauth",
        "pre_register ada@standin.test oauth",
        "post_login oauth [\"fed\"]",
        "pre_login oauth true",
        "post_login oauth [\"fed\"]",
        "pre_login oauth true",
    ];
    assert_eq!(seen, expected);
}

async fn suspended_and_unverified(store: Store) {
    let standin = StandIn::start().await;
    let post = crate::post::Post::default();
    let app = app_with(&store, &standin, |auth| {
        post.on(auth).configure(|config| {
            config.auth.email_verification.enabled = true;
            config.auth.email_verification.required = true;
            config.auth.oauth.allow_sign_up = true;
        })
    })
    .await;
    // A provider that is not trusted with addresses: the account is there, and its address has to be proved first.
    assert_eq!(arrive(&app).await.1.header("location"), "/?error=email_not_verified");
    assert_eq!(arrive(&app).await.1.header("location"), "/?error=email_not_verified");
    let token = post.token("verify_email", 1).await;
    assert_eq!(app.post("/auth/verify-email", json!({ "token": token })).await.status, 200);
    let (away, back) = arrive(&app).await;
    let done = away.exchange(&app, &landed(&back, "code")).await;
    assert_eq!((done.status, post.count("verify_email")), (200, 1));
    // Suspended on the way there, and between coming back and the exchange.
    let (late, back) = arrive(&app).await;
    let code = landed(&back, "code");
    app.change(&done.text("userId"), json!({ "suspended": true })).await;
    late.exchange(&app, &code).await.refused(403, "account_suspended");
    assert_eq!(arrive(&app).await.1.header("location"), "/?error=account_suspended");
    app.change(&done.text("userId"), json!({ "suspended": false })).await;
    // Whoever has no account gets none where that is so.
    app.stop().await;
    let other = StandIn::start().await;
    let app = app_with(&store, &other, |auth| auth.configure(|config| config.auth.oauth.allow_sign_up = false)).await;
    other.behave(|manner| drop(manner.claims.insert("email".to_owned(), json!("new@standin.test"))));
    assert_eq!(arrive(&app).await.1.header("location"), "/?error=sign_up_disabled");
    // An account that is not proved has no provider linked to it where addresses are verified.
    app.stop().await;
    let app = app_with(&store, &other, |auth| post.on(auth).configure(|config| config.auth.email_verification.enabled = true)).await;
    let eve = app.register("eve@x.test").await;
    app.with(&eve.token, "POST", "/auth/stand/link", None).await.refused(403, "email_not_verified");
}

async fn limits(store: Store) {
    let standin = StandIn::start().await;
    let app = app_with(&store, &standin, |auth| {
        auth.configure(|config| {
            for bucket in ["oauthStart", "oauthCallback", "oauthExchange", "link"] {
                config.auth.rate_limit.buckets.insert(bucket.to_owned(), Limit { max: 2, window_seconds: 60 });
            }
        })
    })
    .await;
    let ada = app.register("ada@x.test").await;
    for _ in 0..2 {
        assert_eq!(app.raw("GET", "/auth/stand", &[], "").await.status, 302);
        app.raw("GET", "/auth/stand/callback", &[], "").await.refused(400, "invalid_state");
        app.post("/auth/oauth/exchange", json!({ "code": "x" })).await.refused(401, "invalid_code");
        assert_eq!(app.with(&ada.token, "POST", "/auth/stand/link", None).await.status, 303);
    }
    app.raw("POST", "/auth/stand", &[], "").await.refused(429, "rate_limited");
    app.raw("GET", "/auth/stand/callback", &[], "").await.refused(429, "rate_limited");
    app.post("/auth/oauth/exchange", json!({ "code": "x" })).await.refused(429, "rate_limited");
    app.with(&ada.token, "POST", "/auth/stand/link", None).await.refused(429, "rate_limited");
}

/// No secret, token, address or word of a provider is in an answer, in an address, or in what is written down.
async fn nothing_secret_is_kept_or_told(store: Store) {
    let standin = StandIn::start().await;
    let app = app(&store, &standin).await;
    standin.behave(|manner| {
        manner.answers.insert("/token".to_owned(), Bad::Error);
    });
    let (_, refused) = arrive(&app).await;
    standin.behave(|_| {});
    let (away, back) = arrive(&app).await;
    let done = away.exchange(&app, &landed(&back, "code")).await;
    app.change(&done.text("userId"), json!({ "roles": ["admin"] })).await;
    let shown = format!("{:?} {:?}", refused.headers, back.headers);
    for secret in [SECRET, "the-access-token", "ada@standin.test", "words of a provider", "subject-1"] {
        assert!(!shown.contains(secret), "{secret} in {shown}");
    }
    let activity = app.get(&done.text("token"), "/auth/activity").await;
    let text = String::from_utf8_lossy(&activity.body).into_owned();
    for secret in [SECRET, "the-access-token", "subject-1", &landed(&back, "code"), &away.asked("state"), &away.cookie] {
        assert!(!text.contains(secret), "{secret} in {text}");
    }
}

async fn settings_are_told_by_key(store: Store) {
    let file = json!({ "auth": { "publicUrl": "app.test", "oauth": {
        "postRedirect": "//evil.test",
        "allowedRedirectOrigins": ["*", "https://x.test/path"],
        "linking": "always",
        "google": { "clientSecret": "the-client-secret" },
        "github": { "clientId": "x" },
        "apple": { "clientId": "x", "clientSecret": "y", "teamId": "t", "privateKey": "-----BEGIN nothing" },
        "microsoft": { "clientId": "x", "clientSecret": "y", "tenant": "some where", "trustEmail": true },
        "gitlab": { "clientId": "x", "clientSecret": "y", "baseUrl": "http://gitlab.test", "redirectUri": "http://app.test/x" },
        "login": { "clientId": "x", "issuer": "https://x.test" },
        "Big": { "clientId": "x", "issuer": "https://x.test" },
        "work": { "clientId": "x" },
        "mine": { "clientId": "x", "issuer": "https://x.test?y", "scopes": ["email"], "teamId": "t", "secret": "z" },
    } } });
    let error = match store.try_app(|_| Auth::from_config(linchpin_auth::AuthConfig::from_json(&file))).await {
        Ok(_) => panic!("the app started"),
        Err(error) => error.to_string(),
    };
    for key in [
        "auth.publicUrl",
        "auth.oauth.postRedirect",
        "auth.oauth.allowedRedirectOrigins",
        "auth.oauth.linking",
        "auth.oauth.google.clientId",
        "auth.oauth.github.clientSecret",
        "auth.oauth.apple.clientSecret",
        "auth.oauth.apple.keyId",
        "auth.oauth.apple.privateKey",
        "auth.oauth.microsoft.tenant",
        "auth.oauth.microsoft.trustEmail",
        "auth.oauth.gitlab.baseUrl",
        "auth.oauth.gitlab.redirectUri",
        "auth.oauth.login",
        "auth.oauth.Big",
        "auth.oauth.work.issuer",
        "auth.oauth.mine.issuer",
        "auth.oauth.mine.scopes",
        "auth.oauth.mine.teamId",
        "auth.oauth.mine.secret",
    ] {
        assert!(
            error.contains(&format!("{key}:")) || error.contains(&format!("{key} ")) || error.contains(&format!("`{key}`")),
            "{key} in {error}"
        );
    }
    assert!(!error.contains("the-client-secret") && !error.contains("BEGIN nothing"), "{error}");
    // Production takes nothing without TLS, not even from this machine; and without a public address nobody can be sent back.
    let auth = |auth: Auth| auth.provider("local", ProviderSection::new("x").issuer("http://127.0.0.1:4000"));
    let error = match store.try_app_in(linchpin::Environment::Production, auth).await {
        Ok(_) => panic!("the app started"),
        Err(error) => error.to_string(),
    };
    assert!(error.contains("auth.oauth.local.issuer") && error.contains("auth.oauth.local.redirectUri"), "{error}");
    let variables = [
        ("LINCHPIN_AUTH_PUBLIC_URL", "https://app.test"),
        ("LINCHPIN_AUTH_OAUTH_MY_IDP_CLIENT_ID", "x"),
        ("LINCHPIN_AUTH_OAUTH_MY_IDP_ISSUER", "https://idp.test"),
        ("LINCHPIN_AUTH_OAUTH_GITHUB_CLIENT_ID", "x"),
        ("LINCHPIN_AUTH_OAUTH_GITHUB_CLIENT_SECRET", "y"),
    ];
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let app = store.try_app(|_| Auth::from_config(linchpin_auth::AuthConfig::from_vars(variables))).await.unwrap();
    let shown = app.raw("GET", "/auth/providers", &[], "").await.json();
    assert_eq!(shown["providers"], json!([{ "id": "github", "name": "GitHub" }, { "id": "my-idp", "name": "my-idp" }]));
}
