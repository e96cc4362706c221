//! Attacks and broken providers: such a flow ends with an error code and without a sign-in.

mod elsewhere;
mod provider;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use linchpin::BoxFuture;
use linchpin_auth::{
    Auth, AuthHooks, HookCx, HookError, HookResult, Limit, ProviderSection, SignIn, SignUp,
};
use serde_json::{Value as Json, json};

use self::elsewhere::{
    a_callback_at_another_host_is_refused, links_requested_by_another_origin_are_refused,
    links_started_before_a_second_factor_need_a_proof, links_whose_session_has_ended_are_refused,
    parallel_callbacks_and_exchanges_succeed_once, sign_ins_that_a_hook_refuses_link_nothing,
    starts_with_a_foreign_verifier_are_refused,
};
use self::provider::{
    another_subject_in_userinfo_is_refused, invalid_id_tokens_are_refused,
    issuer_mix_up_is_refused, known_keys_stay_valid_if_new_ones_cannot_be_read,
    malformed_provider_responses_are_refused,
};
use crate::cases;
use crate::issuer::{APP, Browser, StartedFlow, callback_parameter};
use crate::server::{Reply, Server, Store};
use crate::standin::{Bad, Behaviour, CLIENT, SECRET, StandIn};

cases! {
    every_store:
        parallel_callbacks_and_exchanges_succeed_once, links_whose_session_has_ended_are_refused,
        links_started_before_a_second_factor_need_a_proof,
        suspended_and_unverified_accounts_cannot_sign_in, provider_sign_ins_are_limited,
        no_secret_is_stored_or_returned, hooks_run_in_provider_sign_ins,
        sign_ins_that_a_hook_refuses_link_nothing;
    one_store:
        malformed_provider_responses_are_refused, a_callback_at_another_host_is_refused,
        known_keys_stay_valid_if_new_ones_cannot_be_read,
        links_requested_by_another_origin_are_refused, issuer_mix_up_is_refused,
        wrong_settings_are_reported_by_key, another_subject_in_userinfo_is_refused,
        starts_with_a_foreign_verifier_are_refused,
        invalid_id_tokens_are_refused;
}

/// An app with the provider `stand`.
async fn app(store: &Store, standin: &StandIn) -> Server {
    app_with(store, standin, |auth| auth).await
}

async fn app_with(store: &Store, standin: &StandIn, change: impl FnOnce(Auth) -> Auth) -> Server {
    let provider = ProviderSection::new(CLIENT)
        .secret(SECRET.to_owned())
        .issuer(standin.url.as_str());
    let auth = |auth: Auth| {
        change(
            auth.provider("stand", provider)
                .configure(|config| config.auth.public_url = Some(APP.to_owned())),
        )
    };
    let app = store.app_with(auth).await;
    app.to_the_present().await;
    app
}

/// Signs in at the provider and sends the callback to the app.
async fn arrive(app: &Server) -> (StartedFlow, Reply) {
    let flow = StartedFlow::from(app, "/auth/stand").await;
    let callback = Browser::new().sign_in(&flow.url, "").await;
    let back = flow.back(app, &callback).await;
    (flow, back)
}

#[derive(Default)]
struct RecordingHooks(Arc<Mutex<Vec<String>>>);

impl AuthHooks for RecordingHooks {
    fn pre_register<'a>(&'a self, _: &'a HookCx, input: &'a SignUp) -> BoxFuture<'a, HookResult> {
        Box::pin(async {
            self.0.lock().unwrap().push(format!(
                "pre_register {} {}",
                input.identifier, input.method
            ));
            match input.identifier.as_str() {
                "no@standin.test" => Err(HookError::new("words of the app")
                    .status(403)
                    .code("blocked")),
                "panic@standin.test" => panic!("a hook of tests"),
                _ => Ok(()),
            }
        })
    }

    fn post_register<'a>(&'a self, _: &'a HookCx, input: &'a SignUp) -> BoxFuture<'a, HookResult> {
        self.0.lock().unwrap().push(format!(
            "post_register {} {}",
            input.method,
            input.user_id.is_some()
        ));
        Box::pin(async { Ok(()) })
    }

    fn pre_login<'a>(&'a self, _: &'a HookCx, input: &'a SignIn) -> BoxFuture<'a, HookResult> {
        self.0.lock().unwrap().push(format!(
            "pre_login {} {}",
            input.method,
            input.user_id.is_some()
        ));
        let is_second_login = self
            .0
            .lock()
            .unwrap()
            .iter()
            .filter(|call| call.starts_with("pre_login"))
            .count()
            > 1;
        Box::pin(async move {
            if is_second_login {
                Err(HookError::new("words of the app"))
            } else {
                Ok(())
            }
        })
    }

    fn post_login<'a>(
        &'a self,
        _: &'a HookCx,
        input: &'a SignIn,
    ) -> BoxFuture<'a, HookResult<Json>> {
        self.0
            .lock()
            .unwrap()
            .push(format!("post_login {} {:?}", input.method, input.amr));
        Box::pin(async { Ok(json!({ "customClaims": { "plan": "pro" } })) })
    }
}

async fn hooks_run_in_provider_sign_ins(store: Store) {
    let standin = StandIn::start().await;
    let hooks = RecordingHooks::default();
    let calls = Arc::clone(&hooks.0);
    let app = app_with(&store, &standin, |auth| auth.hooks(hooks)).await;
    let claim = |email: &'static str| {
        move |behaviour: &mut Behaviour| {
            drop(behaviour.claims.insert("email".to_owned(), json!(email)));
        }
    };
    standin.behave(claim("no@standin.test"));
    assert_eq!(
        arrive(&app).await.1.header("location"),
        "/?error=hook_rejected"
    );
    standin.behave(claim("panic@standin.test"));
    assert_eq!(
        arrive(&app).await.1.header("location"),
        "/?error=server_error"
    );
    standin.behave(claim("ada@standin.test"));
    let (flow, back) = arrive(&app).await;
    let first = flow
        .exchange(&app, &callback_parameter(&back, "code"))
        .await;
    assert_eq!(crate::server::claims(&first.text("token"))["plan"], "pro");
    let (flow, back) = arrive(&app).await;
    assert_eq!(
        flow.exchange(&app, &callback_parameter(&back, "code"))
            .await
            .text("userId"),
        first.text("userId")
    );
    assert_eq!(
        arrive(&app).await.1.header("location"),
        "/?error=hook_rejected"
    );
    // The hook `post_register` runs after the response.
    for _ in 0..500 {
        if calls
            .lock()
            .unwrap()
            .iter()
            .any(|call| call.starts_with("post_register"))
        {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let mut calls = calls.lock().unwrap().clone();
    calls.retain(|call| call != "post_register oauth true");
    let expected = [
        "pre_register no@standin.test oauth",
        "pre_register panic@standin.test oauth",
        "pre_register ada@standin.test oauth",
        "post_login oauth [\"fed\"]",
        "pre_login oauth true",
        "post_login oauth [\"fed\"]",
        "pre_login oauth true",
    ];
    assert_eq!(calls, expected);
}

async fn suspended_and_unverified_accounts_cannot_sign_in(store: Store) {
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
    // A provider whose addresses are not trusted: the account exists, and its address must be
    // verified first.
    assert_eq!(
        arrive(&app).await.1.header("location"),
        "/?error=email_not_verified"
    );
    assert_eq!(
        arrive(&app).await.1.header("location"),
        "/?error=email_not_verified"
    );
    let token = post.token("verify_email", 1).await;
    assert_eq!(
        app.post("/auth/verify-email", json!({ "token": token }))
            .await
            .status,
        200
    );
    let (flow, back) = arrive(&app).await;
    let done = flow
        .exchange(&app, &callback_parameter(&back, "code"))
        .await;
    assert_eq!((done.status, post.count("verify_email")), (200, 1));
    // The account is suspended between the callback and the exchange, then before the callback.
    let (late, back) = arrive(&app).await;
    let code = callback_parameter(&back, "code");
    app.change(&done.text("userId"), json!({ "suspended": true }))
        .await;
    late.exchange(&app, &code)
        .await
        .refused(403, "account_suspended");
    assert_eq!(
        arrive(&app).await.1.header("location"),
        "/?error=account_suspended"
    );
    app.change(&done.text("userId"), json!({ "suspended": false }))
        .await;
    // A user without an account gets none if sign-up is disabled.
    app.stop().await;
    let other = StandIn::start().await;
    let app = app_with(&store, &other, |auth| {
        auth.configure(|config| config.auth.oauth.allow_sign_up = false)
    })
    .await;
    other.behave(|behaviour| {
        drop(
            behaviour
                .claims
                .insert("email".to_owned(), json!("new@standin.test")),
        );
    });
    assert_eq!(
        arrive(&app).await.1.header("location"),
        "/?error=sign_up_disabled"
    );
    // If addresses are verified, an account with an unverified address cannot link a provider.
    app.stop().await;
    let app = app_with(&store, &other, |auth| {
        post.on(auth)
            .configure(|config| config.auth.email_verification.enabled = true)
    })
    .await;
    let eve = app.register("eve@x.test").await;
    app.with(&eve.token, "POST", "/auth/stand/link", None)
        .await
        .refused(403, "email_not_verified");
}

async fn provider_sign_ins_are_limited(store: Store) {
    let standin = StandIn::start().await;
    let app = app_with(&store, &standin, |auth| {
        auth.configure(|config| {
            for bucket in ["oauthStart", "oauthCallback", "oauthExchange", "link"] {
                config.auth.rate_limit.buckets.insert(
                    bucket.to_owned(),
                    Limit {
                        max: 2,
                        window_seconds: 60,
                    },
                );
            }
        })
    })
    .await;
    let ada = app.register("ada@x.test").await;
    for _ in 0..2 {
        assert_eq!(app.raw("GET", "/auth/stand", &[], "").await.status, 302);
        app.raw("GET", "/auth/stand/callback", &[], "")
            .await
            .refused(400, "invalid_state");
        app.post("/auth/oauth/exchange", json!({ "code": "x" }))
            .await
            .refused(401, "invalid_code");
        assert_eq!(
            app.with(&ada.token, "POST", "/auth/stand/link", None)
                .await
                .status,
            303
        );
    }
    app.raw("POST", "/auth/stand", &[], "")
        .await
        .refused(429, "rate_limited");
    app.raw("GET", "/auth/stand/callback", &[], "")
        .await
        .refused(429, "rate_limited");
    app.post("/auth/oauth/exchange", json!({ "code": "x" }))
        .await
        .refused(429, "rate_limited");
    app.with(&ada.token, "POST", "/auth/stand/link", None)
        .await
        .refused(429, "rate_limited");
}

/// No response, URL or stored record contains a secret, token, address or text of a provider.
async fn no_secret_is_stored_or_returned(store: Store) {
    let standin = StandIn::start().await;
    let app = app(&store, &standin).await;
    standin.behave(|behaviour| {
        behaviour.answers.insert("/token".to_owned(), Bad::Error);
    });
    let (_, refused) = arrive(&app).await;
    standin.behave(|_| {});
    let (flow, back) = arrive(&app).await;
    let done = flow
        .exchange(&app, &callback_parameter(&back, "code"))
        .await;
    app.change(&done.text("userId"), json!({ "roles": ["admin"] }))
        .await;
    let returned = format!("{:?} {:?}", refused.headers, back.headers);
    for secret in [
        SECRET,
        "the-access-token",
        "ada@standin.test",
        "words of a provider",
        "subject-1",
    ] {
        assert!(!returned.contains(secret), "{secret} in {returned}");
    }
    let activity = app.get(&done.text("token"), "/auth/activity").await;
    let text = String::from_utf8_lossy(&activity.body).into_owned();
    for secret in [
        SECRET,
        "the-access-token",
        "subject-1",
        &callback_parameter(&back, "code"),
        &flow.url_parameter("state"),
        &flow.cookie,
    ] {
        assert!(!text.contains(secret), "{secret} in {text}");
    }
}

async fn wrong_settings_are_reported_by_key(store: Store) {
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
    let error = match store
        .try_app(|_| Auth::from_config(linchpin_auth::AuthConfig::from_json(&file)))
        .await
    {
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
            error.contains(&format!("{key}:"))
                || error.contains(&format!("{key} "))
                || error.contains(&format!("`{key}`")),
            "{key} in {error}"
        );
    }
    assert!(
        !error.contains("the-client-secret") && !error.contains("BEGIN nothing"),
        "{error}"
    );
    // Production requires TLS for every URL, also local ones, and a public address for redirects.
    let auth = |auth: Auth| {
        auth.provider(
            "local",
            ProviderSection::new("x").issuer("http://127.0.0.1:4000"),
        )
    };
    let error = match store
        .try_app_in(linchpin::Environment::Production, auth)
        .await
    {
        Ok(_) => panic!("the app started"),
        Err(error) => error.to_string(),
    };
    assert!(
        error.contains("auth.oauth.local.issuer") && error.contains("auth.oauth.local.redirectUri"),
        "{error}"
    );
    let variables = [
        ("LINCHPIN_AUTH_PUBLIC_URL", "https://app.test"),
        ("LINCHPIN_AUTH_OAUTH_MY_IDP_CLIENT_ID", "x"),
        ("LINCHPIN_AUTH_OAUTH_MY_IDP_ISSUER", "https://idp.test"),
        ("LINCHPIN_AUTH_OAUTH_GITHUB_CLIENT_ID", "x"),
        ("LINCHPIN_AUTH_OAUTH_GITHUB_CLIENT_SECRET", "y"),
    ];
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let app = store
        .try_app(|_| {
            Auth::from_config(linchpin_auth::AuthConfig::from_vars(variables)).roles(["admin"])
        })
        .await
        .unwrap();
    let providers = app.raw("GET", "/auth/providers", &[], "").await.json();
    assert_eq!(
        providers["providers"],
        json!([{ "id": "github", "name": "GitHub" }, { "id": "my-idp", "name": "my-idp" }])
    );
}
