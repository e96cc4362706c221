//! Flows that another page or another person has started, or that have expired.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use linchpin::BoxFuture;
use linchpin_auth::{AuthHooks, HookCx, HookError, HookResult, Linking, SignIn};
use serde_json::json;

use super::{app, app_with, arrive};
use crate::factor::enrol;
use crate::issuer::{APP, Browser, FLOW_COOKIE, StartedFlow, callback_parameter};
use crate::post::Post;
use crate::server::{GOOD, Reply, Store};
use crate::standin::{Bad, StandIn};

pub(super) async fn parallel_callbacks_and_exchanges_succeed_once(store: Store) {
    let standin = StandIn::start().await;
    let app = app(&store, &standin).await;
    let flow = StartedFlow::from(&app, "/auth/stand").await;
    let callback = Browser::new().sign_in(&flow.url, "").await;
    let backs = futures_util::future::join_all((0..10).map(|_| flow.back(&app, &callback))).await;
    let landed_at: Vec<&Reply> = backs.iter().filter(|back| back.status == 302).collect();
    assert_eq!((landed_at.len(), standin.requests_for("/token")), (1, 1));
    for refused in backs.iter().filter(|back| back.status != 302) {
        refused.refused(400, "invalid_state");
    }
    let code = callback_parameter(landed_at[0], "code");
    let exchanged =
        futures_util::future::join_all((0..10).map(|_| flow.exchange(&app, &code))).await;
    assert_eq!(
        exchanged.iter().filter(|reply| reply.status == 200).count(),
        1
    );
    for refused in exchanged.iter().filter(|reply| reply.status != 200) {
        refused.refused(401, "invalid_code");
    }
    // Concurrent callbacks of one new person in several browsers create one account.
    standin.behave(|behaviour| {
        behaviour
            .claims
            .insert("sub".to_owned(), json!("subject-2"));
        behaviour
            .claims
            .insert("email".to_owned(), json!("bob@standin.test"));
    });
    let all = futures_util::future::join_all((0..6).map(|_| async {
        let (flow, back) = arrive(&app).await;
        flow.exchange(&app, &callback_parameter(&back, "code"))
            .await
    }))
    .await;
    let ids: std::collections::BTreeSet<String> =
        all.iter().map(|reply| reply.text("userId")).collect();
    assert!(
        ids.len() == 1 && all.iter().all(|reply| reply.status == 200),
        "{all:?}"
    );
}

pub(super) async fn links_requested_by_another_origin_are_refused(store: Store) {
    let standin = StandIn::start().await;
    let app = app(&store, &standin).await;
    let login = app
        .post(
            "/auth/register",
            json!({ "email": "eve@x.test", "password": GOOD }),
        )
        .await;
    let (token, csrf) = (login.text("token"), login.cookie_value("csrf_token"));
    let session = format!("__Host-token={token}; csrf_token={csrf}");
    let origin = format!("http://{}", app.host());
    let get = async |headers: &[(&str, &str)]| {
        let all: Vec<_> = headers
            .iter()
            .copied()
            .chain([("cookie", session.as_str())])
            .collect();
        app.raw("GET", "/auth/stand/link", &all, "").await
    };
    let same_page = format!("{origin}/settings");
    for own in [
        &[("sec-fetch-site", "same-origin")][..],
        &[("sec-fetch-site", "none")],
        &[("referer", &same_page)],
    ] {
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
    // A GET that is authenticated by a header is refused too.
    let bearer = format!("Bearer {token}");
    let headers = [
        ("authorization", bearer.as_str()),
        ("sec-fetch-site", "same-origin"),
    ];
    app.raw("GET", "/auth/stand/link", &headers, "")
        .await
        .refused(403, "csrf_failed");
    // All these refusals together cause one audit entry.
    let events = app.get(&token, "/auth/activity").await.json()["items"]
        .as_array()
        .cloned()
        .unwrap();
    assert_eq!(
        events
            .iter()
            .filter(|event| event["event"] == "auth:csrf.failed")
            .count(),
        1,
        "{events:?}"
    );
    app.raw(
        "GET",
        "/auth/stand/link",
        &[("sec-fetch-site", "same-origin")],
        "",
    )
    .await
    .refused(401, "unauthorized");
    app.raw("POST", "/auth/stand/link", &[("cookie", &session)], "")
        .await
        .refused(403, "csrf_failed");
    let proved = [
        ("cookie", session.as_str()),
        ("x-csrf-token", &csrf),
        ("origin", &origin),
    ];
    assert_eq!(
        app.raw("POST", "/auth/stand/link", &proved, "")
            .await
            .status,
        303
    );
    // An attacker sends a victim's browser to the callback of the attacker's link. The callback is
    // refused, because this browser did not start the flow.
    let own = StartedFlow::of(&app.raw("POST", "/auth/stand/link", &proved, "").await);
    let callback = Browser::new().sign_in(&own.url, "").await;
    let victim = StartedFlow::from(&app, "/auth/stand").await;
    victim
        .back(&app, &callback)
        .await
        .refused(400, "invalid_state");
    // The callback is refused too if a sibling domain has planted the flow's cookie: the browser
    // also needs a cookie that only this host can set.
    let planted = format!("{FLOW_COOKIE}={}", own.cookie);
    let path = callback.strip_prefix(APP).unwrap();
    let mark = victim
        .host
        .as_deref()
        .map(|host| format!("{planted}; __Host-browser={host}"));
    for cookie in [planted.as_str(), mark.as_deref().unwrap()] {
        let back = app
            .raw(
                "GET",
                path,
                &[("cookie", cookie), ("sec-fetch-site", "cross-site")],
                "",
            )
            .await;
        back.refused(400, "invalid_state");
    }
    assert_eq!(app.me(&token).await.json()["providers"], json!([]));
    // The link is refused if another user has signed in meanwhile in the same browser.
    let bob = app.register("bob@x.test").await;
    let link = StartedFlow::of(&app.raw("POST", "/auth/stand/link", &proved, "").await);
    let link_callback = Browser::new().sign_in(&link.url, "").await;
    let marks = format!(
        "{FLOW_COOKIE}={}; __Host-browser={}",
        link.cookie,
        link.host.unwrap()
    );
    let by_bob = format!("{marks}; __Host-token={}", bob.token);
    app.raw(
        "GET",
        link_callback.strip_prefix(APP).unwrap(),
        &[("cookie", &by_bob)],
        "",
    )
    .await
    .refused(400, "invalid_state");
    for who in [&token, &bob.token] {
        assert_eq!(app.me(who).await.json()["providers"], json!([]));
    }
    let both = format!(
        "{planted}; __Host-browser={}; __Host-token={token}",
        own.host.unwrap()
    );
    assert_eq!(
        callback_parameter(
            &app.raw(
                "GET",
                path,
                &[("cookie", &both), ("sec-fetch-site", "cross-site")],
                ""
            )
            .await,
            "linked"
        ),
        "stand"
    );
    assert_eq!(
        app.raw(
            "GET",
            "/auth/stand/link?returnTo=//evil.test",
            &[("cookie", &session), ("sec-fetch-site", "none")],
            ""
        )
        .await
        .status,
        400
    );
}

/// Ending sessions during the provider's sign-in prevents the link.
pub(super) async fn links_whose_session_has_ended_are_refused(store: Store) {
    let standin = StandIn::start().await;
    let app = app(&store, &standin).await;
    let ada = app.register("ada@x.test").await;
    standin.behave(|behaviour| {
        behaviour.answers.insert("/token".to_owned(), Bad::Held);
    });
    let passwords = |from: &str, to: &str| json!({ "currentPassword": from, "password": to });
    const OTHER: &str = "amber-walrus-17-dune";
    for what in ["logout", "everywhere else", "another password"] {
        let thief = app.login("ada@x.test").await;
        let flow = StartedFlow::of(
            &app.with(&thief.token, "POST", "/auth/stand/link", None)
                .await,
        );
        let callback = Browser::new().sign_in(&flow.url, "").await;
        let meanwhile = async {
            standin.wait_for_request().await;
            let done = match what {
                "logout" => app.with(&thief.token, "POST", "/auth/logout", None).await,
                "everywhere else" => {
                    app.with(&ada.token, "POST", "/auth/sessions/revoke-others", None)
                        .await
                }
                _ => {
                    app.with(
                        &ada.token,
                        "POST",
                        "/auth/set-password",
                        Some(passwords(GOOD, OTHER)),
                    )
                    .await
                }
            };
            assert_eq!(done.status, 200, "{what}: {done:?}");
            standin.let_go();
        };
        let (back, ()) = futures_util::future::join(flow.back(&app, &callback), meanwhile).await;
        back.refused(400, "invalid_state");
        assert_eq!(
            app.me(&ada.token).await.json()["providers"],
            json!([]),
            "{what}"
        );
    }
    // A session that still exists gets its link.
    let flow = StartedFlow::of(&app.with(&ada.token, "POST", "/auth/stand/link", None).await);
    let callback = Browser::new().sign_in(&flow.url, "").await;
    let meanwhile = async {
        standin.wait_for_request().await;
        app.with(
            &ada.token,
            "PATCH",
            "/auth/me",
            Some(json!({ "displayName": "Ada" })),
        )
        .await;
        standin.let_go();
    };
    let (back, ()) = futures_util::future::join(flow.back(&app, &callback), meanwhile).await;
    assert_eq!(
        callback_parameter(&back, "linked"),
        "stand",
        "a change of the account alone does not refuse the link"
    );
    assert_eq!(
        app.me(&ada.token).await.json()["providers"],
        json!(["stand"])
    );
}

/// A link that was started before the account had a second factor needs a session that has proved
/// the factor.
pub(super) async fn links_started_before_a_second_factor_need_a_proof(store: Store) {
    let standin = StandIn::start().await;
    let app = app_with(&store, &standin, |auth| {
        auth.configure(|config| config.auth.mfa.enabled = true)
    })
    .await;
    let (ada, thief) = (
        app.register("ada@x.test").await,
        app.login("ada@x.test").await,
    );
    let mut links = Vec::new();
    for who in [&thief, &ada] {
        let flow = StartedFlow::of(&app.with(&who.token, "POST", "/auth/stand/link", None).await);
        let callback = Browser::new().sign_in(&flow.url, "").await;
        links.push((flow, callback));
    }
    enrol(&app, &ada).await;
    links[0]
        .0
        .back(&app, &links[0].1)
        .await
        .refused(400, "invalid_state");
    assert_eq!(app.me(&ada.token).await.json()["providers"], json!([]));
    assert_eq!(
        callback_parameter(&links[1].0.back(&app, &links[1].1).await, "linked"),
        "stand"
    );
}

/// If a flow has a code challenge, anyone who has the verifier can exchange the returned code for a
/// session. So a page of another origin must not start such a flow.
pub(super) async fn starts_with_a_foreign_verifier_are_refused(store: Store) {
    let standin = StandIn::start().await;
    let app = app_with(&store, &standin, |auth| {
        auth.configure(|config| {
            config
                .security
                .allowed_origins
                .push("https://spa.test".to_owned());
            config
                .auth
                .oauth
                .allowed_redirect_origins
                .push("https://native.test".to_owned());
        })
    })
    .await;
    let challenge = "x".repeat(43);
    let (plain, bound) = (
        "/auth/stand".to_owned(),
        format!("/auth/stand?codeChallenge={challenge}"),
    );
    let start =
        async |path: &str, headers: &[(&str, &str)]| app.raw("GET", path, headers, "").await;
    let (cross, evil, spa) = (
        ("sec-fetch-site", "cross-site"),
        ("referer", "https://evil.test/"),
        ("referer", "https://spa.test/"),
    );
    for foreign in [
        &[cross][..],
        &[cross, evil],
        &[("sec-fetch-site", "same-site"), evil],
        &[evil],
        &[cross, cross],
    ] {
        start(&bound, foreign).await.refused(403, "csrf_failed");
    }
    for own in [
        &[][..],
        &[("sec-fetch-site", "none")],
        &[("sec-fetch-site", "same-origin")],
        &[cross, spa],
        &[spa],
    ] {
        assert_eq!(start(&bound, own).await.status, 302, "{own:?}");
    }
    // Some browsers report a request as cross-site if a native app opened the browser. The result
    // is then sent to that app.
    let native = format!("{bound}&returnTo=https://native.test/done");
    for any in [&[][..], &[cross]] {
        assert_eq!(start(&native, any).await.status, 302, "{any:?}");
    }
    start(&native, &[cross, evil])
        .await
        .refused(403, "csrf_failed");
    start(&native, &[cross, cross])
        .await
        .refused(403, "csrf_failed");
    // Without a challenge, any page may start the flow: the returned code is valid only in the
    // browser that was redirected.
    for any in [&[][..], &[cross], &[cross, evil]] {
        assert_eq!(start(&plain, any).await.status, 302, "{any:?}");
    }
}

/// Counts the calls of `pre_login`, and refuses sign-ins while its flag is set.
#[derive(Clone, Default)]
struct LoginHook(Arc<(AtomicUsize, AtomicBool)>);

impl AuthHooks for LoginHook {
    fn pre_login<'a>(&'a self, _: &'a HookCx, _: &'a SignIn) -> BoxFuture<'a, HookResult> {
        self.0.0.fetch_add(1, Ordering::SeqCst);
        let refuses = self.0.1.load(Ordering::SeqCst);
        Box::pin(async move {
            if refuses {
                Err(HookError::new("no"))
            } else {
                Ok(())
            }
        })
    }
}

/// A sign-in that a hook refuses links nothing and mails nothing.
pub(super) async fn sign_ins_that_a_hook_refuses_link_nothing(store: Store) {
    let (standin, post, login_hook) = (
        StandIn::start().await,
        Post::default(),
        LoginHook::default(),
    );
    let app = app_with(&store, &standin, |auth| {
        post.on(auth).hooks(login_hook.clone()).configure(|config| {
            config.auth.oauth.linking = Linking::Verified;
            config
                .auth
                .oauth
                .providers
                .get_mut("stand")
                .unwrap()
                .trust_email = Some(true);
        })
    })
    .await;
    standin.behave(|behaviour| {
        drop(
            behaviour
                .claims
                .insert("email".to_owned(), json!("ada@standin.test")),
        );
    });
    let ada = app.register("ada@standin.test").await;
    app.change(&ada.id, json!({ "emailVerified": true })).await;
    login_hook.0.1.store(true, Ordering::SeqCst);
    assert_eq!(
        arrive(&app).await.1.header("location"),
        "/?error=hook_rejected"
    );
    assert_eq!(app.me(&ada.token).await.json()["providers"], json!([]));
    let events = app.get(&ada.token, "/auth/activity").await.json()["items"].to_string();
    assert!(!events.contains("auth:oauth.linked"), "{events}");
    assert_eq!(
        (
            post.count("provider_linked"),
            login_hook.0.0.swap(0, Ordering::SeqCst)
        ),
        (0, 1)
    );
    // The hook runs once for an accepted sign-in.
    login_hook.0.1.store(false, Ordering::SeqCst);
    let (flow, back) = arrive(&app).await;
    assert_eq!(
        flow.exchange(&app, &callback_parameter(&back, "code"))
            .await
            .text("userId"),
        ada.id
    );
    assert_eq!(
        app.me(&ada.token).await.json()["providers"],
        json!(["stand"])
    );
    assert_eq!(
        (
            post.all("provider_linked", 1).await.len(),
            login_hook.0.0.load(Ordering::SeqCst)
        ),
        (1, 1)
    );
}

/// Hosts with a common cookie domain share the flow's cookie. Each host has its own
/// `__Host-browser` cookie. A provider may redirect to either host.
pub(super) async fn a_callback_at_another_host_is_refused(store: Store) {
    for shared in [true, false] {
        let standin = StandIn::start().await;
        let domain = shared.then(|| "app.test".to_owned());
        let app = app_with(&store, &standin, |auth| {
            auth.configure(|config| config.auth.cookies.domain = domain)
        })
        .await;
        let other = "A".repeat(43);
        for host_cookie in [None, Some(&other)] {
            let flow = StartedFlow::from(&app, "/auth/stand").await;
            assert!(flow.host.is_some());
            let own = format!("{FLOW_COOKIE}={}", flow.cookie);
            let cookies = host_cookie.map_or_else(
                || own.clone(),
                |other| format!("{own}; __Host-browser={other}"),
            );
            let callback = Browser::new().sign_in(&flow.url, "").await;
            let path = callback.strip_prefix(APP).unwrap();
            let back = app
                .raw(
                    "GET",
                    path,
                    &[("cookie", &cookies), ("sec-fetch-site", "cross-site")],
                    "",
                )
                .await;
            if !shared {
                back.refused(400, "invalid_state");
                continue;
            }
            assert_eq!(back.status, 302, "{host_cookie:?}: {back:?}");
            let headers = [
                ("cookie", cookies.as_str()),
                ("content-type", "application/json"),
                ("sec-fetch-site", "same-origin"),
            ];
            let done = app
                .raw(
                    "POST",
                    "/auth/oauth/exchange",
                    &headers,
                    &json!({ "code": callback_parameter(&back, "code") }).to_string(),
                )
                .await;
            assert_eq!(done.status, 200, "{host_cookie:?}: {done:?}");
        }
        app.stop().await;
    }
}
