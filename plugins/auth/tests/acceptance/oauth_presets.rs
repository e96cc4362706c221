//! Every preset, with a test server that makes the same checks as the real provider.

use linchpin_auth::{ProviderSection, SecretText};
use serde_json::{Value as Json, json};

use crate::cases;
use crate::issuer::{APP, Browser, StartedFlow, callback_parameter};
use crate::server::{Reply, Server, Store};
use crate::standin::{Behaviour, CLIENT, SECRET, StandIn, key, other_key, public};

cases! {
    one_store:
        presets_without_openid_sign_in, unverified_provider_addresses_are_not_trusted,
        openid_presets_sign_in,
        the_apple_preset_signs_its_client_token,
        the_microsoft_preset_checks_the_tenant, the_gitlab_preset_accepts_a_base_url,
        presets_have_the_addresses_of_the_providers;
}

/// An app with a preset at the server.
async fn app(
    store: &Store,
    standin: &StandIn,
    id: &str,
    change: impl FnOnce(&mut ProviderSection),
) -> Server {
    let mut provider = ProviderSection::new(CLIENT);
    provider.client_secret = Some(SecretText::new(SECRET));
    provider.stand_in = Some(standin.url.clone());
    change(&mut provider);
    let app = store
        .app_with(|auth| {
            auth.provider(id, provider)
                .configure(|config| config.auth.public_url = Some(APP.to_owned()))
        })
        .await;
    app.to_the_present().await;
    app
}

/// Signs in at the provider and sends the callback to the app.
async fn arrive(app: &Server, id: &str) -> (StartedFlow, Reply) {
    let flow = StartedFlow::from(app, &format!("/auth/{id}")).await;
    let callback = Browser::new().sign_in(&flow.url, "").await;
    let back = flow.back(app, &callback).await;
    (flow, back)
}

async fn enter(app: &Server, id: &str) -> Reply {
    let (flow, back) = arrive(app, id).await;
    let done = flow.exchange(app, &callback_parameter(&back, "code")).await;
    assert_eq!(done.status, 200, "{done:?}");
    done
}

fn github() -> Vec<(&'static str, Json)> {
    let emails = json!([
        { "email": "old@standin.test", "primary": false, "verified": true },
        { "email": "Ada@standin.test", "primary": true, "verified": true },
    ]);
    vec![
        (
            "/user",
            json!({ "id": 583_231, "login": "ada", "email": "public@elsewhere.test" }),
        ),
        ("/user/emails", emails),
    ]
}

fn bitbucket() -> Vec<(&'static str, Json)> {
    let emails = json!({ "values": [
        { "email": "old@standin.test", "is_primary": false, "is_confirmed": true },
        { "email": "Ada@standin.test", "is_primary": true, "is_confirmed": true },
    ] });
    vec![
        (
            "/2.0/user",
            json!({ "uuid": "{2c7b1d5e}", "username": "ada" }),
        ),
        ("/2.0/user/emails", emails),
    ]
}

fn respond_with(documents: Vec<(&'static str, Json)>) -> impl FnOnce(&mut Behaviour) {
    move |behaviour| {
        behaviour.documents.extend(
            documents
                .into_iter()
                .map(|(path, document)| (path.to_owned(), document)),
        );
    }
}

async fn presets_without_openid_sign_in(store: Store) {
    let standin = StandIn::start().await;
    let me = |path, document: Json| vec![(path, document)];
    for (id, scope, documents) in [
        ("github", "read:user user:email", github()),
        (
            "discord",
            "identify email",
            me(
                "/api/v10/users/@me",
                json!({ "id": "80351110224678912", "email": "Ada@standin.test", "verified": true }),
            ),
        ),
        (
            "facebook",
            "email",
            me(
                "/v23.0/me?fields=id%2Cemail",
                json!({ "id": "1234567890", "email": "Ada@standin.test" }),
            ),
        ),
        (
            "twitter",
            "users.read tweet.read users.email",
            me(
                "/2/users/me?user.fields=confirmed_email",
                json!({ "data": { "id": "2244994945", "confirmed_email": "Ada@standin.test" } }),
            ),
        ),
        ("bitbucket", "account email", bitbucket()),
    ] {
        standin.behave(respond_with(documents));
        let own = Store::memory();
        let app = app(&own, &standin, id, |provider| {
            if id == "twitter" {
                provider.scopes = Some(scope.split(' ').map(str::to_owned).collect());
            }
        })
        .await;
        let flow = StartedFlow::from(&app, &format!("/auth/{id}")).await;
        assert_eq!(
            (
                flow.url_parameter("scope").as_str(),
                flow.url_parameter("nonce").as_str()
            ),
            (scope, ""),
            "{id}"
        );
        let done = enter(&app, id).await;
        assert_eq!(
            (done.text("email").as_str(), &done.json()["emailVerified"]),
            ("Ada@standin.test", &json!(false)),
            "{id}"
        );
        assert_eq!(
            enter(&app, id).await.text("userId"),
            done.text("userId"),
            "{id}"
        );
        assert_eq!(
            app.me(&done.text("token")).await.json()["providers"],
            json!([id])
        );
        app.stop().await;
    }
    assert_eq!(standin.faults(), Vec::<String>::new());
    // One preset is also tested on the store of this case.
    standin.behave(respond_with(github()));
    let app = app(&store, &standin, "github", |_| {}).await;
    assert_eq!(
        enter(&app, "github").await.text("email"),
        "Ada@standin.test"
    );
}

async fn unverified_provider_addresses_are_not_trusted(store: Store) {
    let standin = StandIn::start().await;
    for (id, documents, expected) in [
        (
            "github",
            vec![
                ("/user", json!({ "id": 1, "email": "ada@standin.test" })),
                (
                    "/user/emails",
                    json!([{ "email": "ada@standin.test", "primary": true, "verified": false }]),
                ),
            ],
            "email_required",
        ),
        (
            "github",
            vec![
                ("/user", json!({ "id": 1 })),
                (
                    "/user/emails",
                    json!([{ "email": "ada@standin.test", "primary": false, "verified": true }]),
                ),
            ],
            "email_required",
        ),
        (
            "github",
            vec![("/user", json!({ "id": -1 })), ("/user/emails", json!([]))],
            "provider_error",
        ),
        (
            "github",
            vec![
                ("/user", json!({ "login": "ada" })),
                ("/user/emails", json!([])),
            ],
            "provider_error",
        ),
        (
            "github",
            vec![
                ("/user", json!({ "id": 1 })),
                ("/user/emails", json!({ "message": "no" })),
            ],
            "provider_error",
        ),
        (
            "discord",
            vec![(
                "/api/v10/users/@me",
                json!({ "id": "1", "email": "ada@standin.test", "verified": false }),
            )],
            "email_not_verified",
        ),
        (
            "discord",
            vec![(
                "/api/v10/users/@me",
                json!({ "id": "1", "email": "ada@standin.test" }),
            )],
            "email_not_verified",
        ),
        (
            "facebook",
            vec![("/v23.0/me?fields=id%2Cemail", json!({ "id": "1" }))],
            "email_required",
        ),
        (
            "twitter",
            vec![("/2/users/me", json!({ "data": { "id": "1" } }))],
            "email_required",
        ),
        (
            "bitbucket",
            vec![
                ("/2.0/user", json!({ "uuid": "{1}" })),
                (
                    "/2.0/user/emails",
                    json!({ "values": [{ "email": "a@b.test", "is_primary": true, "is_confirmed": false }] }),
                ),
            ],
            "email_required",
        ),
        (
            "discord",
            vec![(
                "/api/v10/users/@me",
                json!({ "id": "1", "email": "no address", "verified": true }),
            )],
            "email_required",
        ),
    ] {
        standin.behave(respond_with(documents.clone()));
        let own = Store::memory();
        let app = app(&own, &standin, id, |_| {}).await;
        assert_eq!(
            callback_parameter(&arrive(&app, id).await.1, "error"),
            expected,
            "{id} {documents:?}"
        );
        app.stop().await;
    }
    drop(store);
}

async fn openid_presets_sign_in(store: Store) {
    let standin = StandIn::start().await;
    for (id, path, trusted) in [
        ("google", "", true),
        ("slack", "", false),
        ("linkedin", "/oauth", false),
        ("gitlab", "", false),
    ] {
        let issuer = format!("{}{path}", standin.url);
        let own = issuer.clone();
        standin.behave(|behaviour| {
            behaviour.claims.insert("iss".to_owned(), json!(own));
            behaviour.iss = Some(own);
            if id == "linkedin" {
                // LinkedIn leaves the nonce out. A nonce of another flow is still refused.
                behaviour.without.push("nonce");
            }
        });
        let memory = Store::memory();
        let app = app(&memory, &standin, id, |_| {}).await;
        let flow = StartedFlow::from(&app, &format!("/auth/{id}")).await;
        assert_eq!(
            (
                flow.url_parameter("scope").as_str(),
                flow.url_parameter("nonce").len()
            ),
            ("openid email profile", 43),
            "{id}"
        );
        assert_eq!(
            enter(&app, id).await.json()["emailVerified"],
            json!(trusted),
            "{id}"
        );
        standin.behave(|behaviour| {
            behaviour.claims.insert("iss".to_owned(), json!(issuer));
            behaviour.iss = Some(issuer);
            behaviour
                .claims
                .insert("nonce".to_owned(), json!("another"));
        });
        assert_eq!(
            callback_parameter(&arrive(&app, id).await.1, "error"),
            "provider_error"
        );
        app.stop().await;
    }
    assert_eq!(standin.faults(), Vec::<String>::new());
    standin.behave(|behaviour| behaviour.in_body = true);
    let app = app(&store, &standin, "google", |_| {}).await;
    assert_eq!(
        enter(&app, "google").await.text("email"),
        "ada@standin.test"
    );
}

async fn the_apple_preset_signs_its_client_token(store: Store) {
    let standin = StandIn::start().await;
    standin.behave(|behaviour| {
        behaviour.in_body = true;
        behaviour
            .claims
            .insert("email_verified".to_owned(), json!("true"));
    });
    let app = app(&store, &standin, "apple", |provider| {
        provider.client_secret = None;
        provider.team_id = Some("the-team".to_owned());
        provider.key_id = Some("apple-key".to_owned());
        provider.private_key = Some(SecretText::new(other_key()));
    })
    .await;
    let flow = StartedFlow::from(&app, "/auth/apple").await;
    assert_eq!(
        (
            flow.url_parameter("scope").as_str(),
            flow.url_parameter("response_mode").as_str()
        ),
        ("name email", "form_post")
    );
    let callback = Browser::new().sign_in(&flow.url, "").await;
    let form = callback.split_once('?').unwrap().1;
    let posted = app
        .raw(
            "POST",
            "/auth/apple/callback",
            &[("content-type", "application/x-www-form-urlencoded")],
            &format!("{form}&user=%7B%22name%22%3A1%7D"),
        )
        .await;
    assert_eq!(
        (posted.status, posted.header("location")),
        (303, callback.clone())
    );
    let code = callback_parameter(&flow.back(&app, &posted.header("location")).await, "code");
    let done = flow.exchange(&app, &code).await;
    assert_eq!(
        (done.status, &done.json()["emailVerified"]),
        (200, &json!(true)),
        "{done:?}"
    );
    assert_eq!(standin.faults(), Vec::<String>::new());
}

const TENANT: &str = "72f988bf-86f1-41af-91ab-2d7cd011db47";
const OTHER: &str = "11111111-2222-4333-8444-555555555555";
const PERSONAL: &str = "9188040d-6c67-4c5b-b112-36a304b66dad";

async fn the_microsoft_preset_checks_the_tenant(store: Store) {
    let standin = StandIn::start().await;
    let issuer = |tenant: &str| format!("{}/{tenant}/v2.0", standin.url);
    let token = |configured: &'static str, tid: Json, iss: String, edov: Json| {
        let (open, keys) = (
            issuer(if configured.contains('-') {
                configured
            } else {
                "{tenantid}"
            }),
            issuer("{tenantid}"),
        );
        move |behaviour: &mut Behaviour| {
            behaviour.metadata.insert("issuer".to_owned(), json!(open));
            behaviour.metadata.insert(
                "authorization_response_iss_parameter_supported".to_owned(),
                json!(false),
            );
            let mut jwk = public(key(), "k1");
            jwk["issuer"] = json!(keys);
            behaviour.documents.insert(
                "/jwks".to_owned(),
                json!({ "keys": [jwk, { "kty": "unheard of" }] }),
            );
            behaviour.iss = Some(iss.clone());
            behaviour.without.push("email_verified");
            for (name, value) in [("iss", json!(iss)), ("tid", tid), ("xms_edov", edov)] {
                behaviour.claims.insert(name.to_owned(), value);
            }
        }
    };
    let yes = || json!(true);
    for (configured, tid, issuer_tenant, edov, expected) in [
        ("common", json!(TENANT), TENANT, yes(), "code"),
        ("common", json!(PERSONAL), PERSONAL, json!("1"), "code"),
        // The address is not verified: any tenant can set any address.
        (
            "common",
            json!(TENANT),
            TENANT,
            json!(false),
            "email_not_verified",
        ),
        (
            "common",
            json!(TENANT),
            TENANT,
            json!(null),
            "email_not_verified",
        ),
        // The issuer must be the issuer of the tenant in the claim `tid`.
        ("common", json!(OTHER), TENANT, yes(), "provider_error"),
        (
            "common",
            json!("{tenantid}"),
            "{tenantid}",
            yes(),
            "provider_error",
        ),
        ("common", json!(null), TENANT, yes(), "provider_error"),
        ("common", json!("common"), "common", yes(), "provider_error"),
        (
            "organizations",
            json!(PERSONAL),
            PERSONAL,
            yes(),
            "provider_error",
        ),
        ("organizations", json!(TENANT), TENANT, yes(), "code"),
        ("consumers", json!(TENANT), TENANT, yes(), "provider_error"),
        (TENANT, json!(TENANT), TENANT, yes(), "code"),
        (TENANT, json!(OTHER), OTHER, yes(), "provider_error"),
    ] {
        standin.behave(token(configured, tid.clone(), issuer(issuer_tenant), edov));
        let own = Store::memory();
        let app = app(&own, &standin, "microsoft", |provider| {
            provider.tenant = (configured != "common").then(|| configured.to_owned());
        })
        .await;
        let (_, back) = arrive(&app, "microsoft").await;
        let got = callback_parameter(&back, if expected == "code" { "code" } else { "error" });
        assert!(
            expected == "code" || got == expected,
            "{configured} {tid} {issuer_tenant}: {got}"
        );
        app.stop().await;
    }
    // A token is refused if its key belongs to another tenant.
    standin.behave(|behaviour| {
        token("common", json!(TENANT), issuer(TENANT), yes())(behaviour);
        let mut jwk = public(key(), "k1");
        jwk["issuer"] = json!(issuer(OTHER));
        behaviour
            .documents
            .insert("/jwks".to_owned(), json!({ "keys": [jwk] }));
    });
    let app = app(&store, &standin, "microsoft", |_| {}).await;
    assert_eq!(
        callback_parameter(&arrive(&app, "microsoft").await.1, "error"),
        "provider_error"
    );
}

async fn the_gitlab_preset_accepts_a_base_url(store: Store) {
    let standin = StandIn::start().await;
    let base = format!("{}/git", standin.url);
    let own = base.clone();
    let honest = move |behaviour: &mut Behaviour| {
        behaviour.claims.insert("iss".to_owned(), json!(own));
        behaviour.iss = Some(own.clone());
        behaviour
            .metadata
            .insert("jwks_uri".to_owned(), json!(format!("{own}/keys/jwks")));
    };
    standin.behave(|behaviour| {
        honest(behaviour);
        behaviour.metadata.insert(
            "token_endpoint".to_owned(),
            json!("https://gitlab.com/oauth/token"),
        );
    });
    let app = app(&store, &standin, "gitlab", |provider| {
        provider.stand_in = None;
        provider.base_url = Some(format!("{base}/"));
    })
    .await;
    let start = app.raw("GET", "/auth/gitlab", &[], "").await;
    assert_eq!(start.header("location"), "/?error=provider_error");
    app.advance(6).await;
    standin.behave(|behaviour| {
        honest(behaviour);
        behaviour
            .documents
            .insert("/git/keys/jwks".to_owned(), json!({}));
    });
    assert!(
        StartedFlow::from(&app, "/auth/gitlab")
            .await
            .url
            .starts_with(&format!("{base}/authorize?"))
    );
}

/// The addresses of the real providers.
async fn presets_have_the_addresses_of_the_providers(store: Store) {
    let app = store
        .app_with(|auth| {
            let auth = ["github", "discord", "facebook", "twitter", "bitbucket"]
                .into_iter()
                .fold(auth, |auth, id| {
                    auth.provider(id, ProviderSection::new(CLIENT).secret(SECRET.to_owned()))
                });
            auth.configure(|config| {
                config.auth.public_url = Some("https://app.test/base/".to_owned());
            })
        })
        .await;
    for (id, url) in [
        ("github", "https://github.com/login/oauth/authorize?"),
        ("discord", "https://discord.com/oauth2/authorize?"),
        ("facebook", "https://www.facebook.com/v23.0/dialog/oauth?"),
        ("twitter", "https://x.com/i/oauth2/authorize?"),
        ("bitbucket", "https://bitbucket.org/site/oauth2/authorize?"),
    ] {
        let flow = StartedFlow::from(&app, &format!("/auth/{id}")).await;
        assert!(flow.url.starts_with(url), "{}", flow.url);
        assert_eq!(
            flow.url_parameter("redirect_uri"),
            format!("https://app.test/base/auth/{id}/callback")
        );
        assert!(!flow.url.contains("secret"), "{}", flow.url);
    }
}
