//! A dishonest provider: invalid tokens, invalid responses, names of other users.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use linchpin_auth::ProviderSection;
use serde_json::{Value as Json, json};

use super::{app, arrive};
use crate::issuer::{APP, Browser, StartedFlow, callback_parameter, parameter};
use crate::server::{GOOD, Store};
use crate::standin::{Bad, Behaviour, CLIENT, SECRET, StandIn, key, other_key, public, sign};

pub(super) async fn invalid_id_tokens_are_refused(store: Store) {
    let standin = StandIn::start().await;
    let app = app(&store, &standin).await;
    type Change = Box<dyn FnOnce(&mut Behaviour)>;
    let claim = |name: &'static str, value: Json| -> Change {
        Box::new(move |behaviour| drop(behaviour.claims.insert(name.to_owned(), value)))
    };
    let signed =
        |sign: fn(&Json) -> String| -> Change { Box::new(move |behaviour| behaviour.sign = sign) };
    let without =
        |name: &'static str| -> Change { Box::new(move |behaviour| behaviour.without.push(name)) };
    let bad: Vec<(&str, Change)> = vec![
        (
            "alg none",
            signed(|claims| forged(&json!({ "alg": "none", "typ": "JWT" }), claims, None)),
        ),
        (
            "alg none with a key id",
            signed(|claims| forged(&json!({ "alg": "none", "kid": "k1" }), claims, None)),
        ),
        (
            "HS256 with the client's secret",
            signed(|claims| {
                forged(
                    &json!({ "alg": "HS256", "kid": "k1" }),
                    claims,
                    Some(SECRET),
                )
            }),
        ),
        (
            "HS256 with the public key as the secret",
            signed(|claims| {
                forged(
                    &json!({ "alg": "HS256", "kid": "k1" }),
                    claims,
                    Some(&public(key(), "k1").to_string()),
                )
            }),
        ),
        (
            "another key with the same key id",
            signed(|claims| sign(claims, other_key(), "k1")),
        ),
        (
            "an unknown key",
            signed(|claims| sign(claims, other_key(), "k2")),
        ),
        (
            "a key id with a path",
            signed(|claims| sign(claims, key(), "../jwks")),
        ),
        (
            "no signature",
            signed(|claims| {
                sign(claims, key(), "k1")
                    .rsplit_once('.')
                    .unwrap()
                    .0
                    .to_owned()
                    + "."
            }),
        ),
        (
            "two parts",
            signed(|claims| {
                sign(claims, key(), "k1")
                    .rsplit_once('.')
                    .unwrap()
                    .0
                    .to_owned()
            }),
        ),
        (
            "a changed claim",
            signed(|claims| {
                let token = sign(claims, key(), "k1");
                let parts: Vec<&str> = token.split('.').collect();
                let mut other = claims.clone();
                other["sub"] = json!("somebody-else");
                format!(
                    "{}.{}.{}",
                    parts[0],
                    URL_SAFE_NO_PAD.encode(other.to_string()),
                    parts[2]
                )
            }),
        ),
        (
            "crit",
            signed(|claims| {
                forged(
                    &json!({ "alg": "ES256", "kid": "k1", "crit": ["exp"] }),
                    claims,
                    Some("x"),
                )
            }),
        ),
        ("garbage", signed(|_| "words.of.a provider".to_owned())),
        ("a very long token", signed(|_| "x".repeat(200_000))),
        ("another audience", claim("aud", json!("another-client"))),
        ("no audience", without("aud")),
        (
            "several audiences without azp",
            claim("aud", json!([CLIENT, "another-client"])),
        ),
        ("an audience that is a number", claim("aud", json!(7))),
        (
            "another authorized party",
            claim("azp", json!("another-client")),
        ),
        (
            "an authorized party that is null",
            claim("azp", json!(null)),
        ),
        ("another nonce", claim("nonce", json!("another"))),
        ("no nonce", without("nonce")),
        ("a nonce that is null", claim("nonce", json!(null))),
        ("another issuer", claim("iss", json!("https://evil.test"))),
        (
            "its issuer with a slash",
            claim("iss", json!(format!("{}/", standin.url))),
        ),
        ("no issuer", without("iss")),
        ("expired", claim("exp", json!(-60))),
        ("no expiry", without("exp")),
        ("an expiry that is text", claim("exp", json!("tomorrow"))),
        ("from the future", claim("iat", json!(120))),
        ("no issue time", without("iat")),
        ("not yet", claim("nbf", json!(120))),
        ("no subject", without("sub")),
        ("an empty subject", claim("sub", json!(""))),
        (
            "a subject that is a list",
            claim("sub", json!(["subject-1"])),
        ),
        ("a subject that is a number", claim("sub", json!(4711))),
        (
            "two subjects",
            signed(|claims| sign(&Twice(claims), key(), "k1")),
        ),
        ("a very long subject", claim("sub", json!("x".repeat(256)))),
        ("a subject with a line break", claim("sub", json!("a\nb"))),
    ];
    let bad = bad
        .into_iter()
        .chain(["mac", "DPoP", "N_A", ""].map(|kind| -> (&str, Change) {
            (
                "a token of another kind",
                Box::new(move |behaviour| behaviour.token_type = kind),
            )
        }));
    for (what, change) in bad {
        standin.behave(change);
        let (_, back) = arrive(&app).await;
        assert_eq!(
            callback_parameter(&back, "error"),
            "provider_error",
            "{what}"
        );
        // Time passes, because there are more callbacks than the limit allows.
        app.advance(2).await;
    }
    app.post(
        "/auth/login",
        json!({ "email": "ada@standin.test", "password": GOOD }),
    )
    .await
    .refused(401, "invalid_credentials");
    // Unusual but valid responses, with a small clock difference.
    standin.behave(|behaviour| {
        behaviour
            .claims
            .insert("aud".to_owned(), json!([CLIENT, "another-client"]));
        behaviour.claims.insert("azp".to_owned(), json!(CLIENT));
        behaviour.claims.insert("iat".to_owned(), json!(80));
        behaviour.claims.insert("exp".to_owned(), json!(600));
        behaviour
            .claims
            .insert("email_verified".to_owned(), json!("true"));
        behaviour.token_type = "bearer";
    });
    let (flow, back) = arrive(&app).await;
    assert_eq!(
        flow.exchange(&app, &callback_parameter(&back, "code"))
            .await
            .status,
        200
    );
    // Invented key ids do not make the app fetch keys each time.
    assert!(
        standin.requests_for("/jwks") <= 3,
        "{}",
        standin.requests_for("/jwks")
    );
    assert_eq!(standin.faults(), Vec::<String>::new());
}

/// Claims with one repeated name.
struct Twice<'a>(&'a Json);

impl serde::Serialize for Twice<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeMap;
        let mut members = serializer.serialize_map(None)?;
        members.serialize_entry("sub", "somebody-else")?;
        for (name, value) in self.0.as_object().into_iter().flatten() {
            members.serialize_entry(name, value)?;
        }
        members.end()
    }
}

/// A token that libraries refuse to create.
fn forged(header: &Json, claims: &Json, secret: Option<&str>) -> String {
    let text = format!(
        "{}.{}",
        URL_SAFE_NO_PAD.encode(header.to_string()),
        URL_SAFE_NO_PAD.encode(claims.to_string())
    );
    let Some(secret) = secret else {
        return format!("{text}.");
    };
    let mut mac = <Hmac<sha2::Sha256> as KeyInit>::new_from_slice(secret.as_bytes()).unwrap();
    mac.update(text.as_bytes());
    format!(
        "{text}.{}",
        URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes())
    )
}

pub(super) async fn known_keys_stay_valid_if_new_ones_cannot_be_read(store: Store) {
    let standin = StandIn::start().await;
    let app = app(&store, &standin).await;
    let error = async || parameter(&arrive(&app).await.1.header("location"), "error");
    assert_eq!(error().await, None);
    let no_keys = |behaviour: &mut Behaviour| {
        behaviour.answers.insert("/jwks".to_owned(), Bad::Error);
    };
    standin.behave(|behaviour| {
        no_keys(behaviour);
        behaviour.sign = |claims| sign(claims, other_key(), "k2");
    });
    let before = standin.requests_for("/jwks");
    assert_eq!(error().await.as_deref(), Some("provider_error"));
    assert!(standin.requests_for("/jwks") > before);
    standin.behave(no_keys);
    assert_eq!(error().await, None);
}

pub(super) async fn malformed_provider_responses_are_refused(store: Store) {
    let standin = StandIn::start().await;
    let app = app(&store, &standin).await;
    // If the provider's configuration cannot be read, the return address gets the error.
    for bad in [
        Bad::Redirect,
        Bad::Huge,
        Bad::Html,
        Bad::Error,
        Bad::NotJson,
        Bad::Nothing,
    ] {
        standin.behave(|behaviour| {
            behaviour
                .answers
                .insert("/.well-known/openid-configuration".to_owned(), bad);
        });
        let start = app.raw("GET", "/auth/stand?returnTo=/app", &[], "").await;
        assert_eq!(
            start.header("location"),
            "/app?error=provider_error",
            "{bad:?}"
        );
        let json = app
            .unchecked("POST", "/auth/stand", &[("accept", "application/json")], "")
            .await;
        assert_eq!(
            (json.status, json.text("code").as_str()),
            (503, "unavailable"),
            "{bad:?}"
        );
        app.advance(6).await;
    }
    standin.behave(|behaviour| {
        drop(
            behaviour
                .metadata
                .insert("issuer".to_owned(), json!("https://evil.test")),
        );
    });
    let start = app.raw("GET", "/auth/stand", &[], "").await;
    assert_eq!(start.header("location"), "/?error=provider_error");
    app.advance(6).await;
    // Addresses without TLS that are not on this machine.
    for (name, url) in [
        ("authorization_endpoint", "http://provider.test/authorize"),
        ("authorization_endpoint", "javascript:alert(1)"),
    ] {
        standin.behave(|behaviour| drop(behaviour.metadata.insert(name.to_owned(), json!(url))));
        let start = app.raw("GET", "/auth/stand", &[], "").await;
        assert_eq!(start.header("location"), "/?error=provider_error");
        app.advance(3601).await;
    }
    let url = &standin.url;
    let honest = |behaviour: &mut Behaviour| {
        behaviour.without.push("email");
        behaviour.metadata.insert(
            "userinfo_endpoint".to_owned(),
            json!(format!("{url}/userinfo")),
        );
        behaviour.documents.insert(
            "/userinfo".to_owned(),
            json!({ "sub": "subject-1", "email": "ada@standin.test", "email_verified": true }),
        );
    };
    for path in ["/token", "/userinfo", "/jwks"] {
        for bad in [
            Bad::Redirect,
            Bad::Huge,
            Bad::Html,
            Bad::Error,
            Bad::NotJson,
            Bad::Nothing,
        ] {
            standin.behave(|behaviour| {
                honest(behaviour);
                behaviour.answers.insert(path.to_owned(), bad);
            });
            // Each case uses a new app, so that the app fetches every document of the provider.
            let own = Store::memory();
            let new_app = self::app(&own, &standin).await;
            let (_, back) = arrive(&new_app).await;
            assert_eq!(
                callback_parameter(&back, "error"),
                "provider_error",
                "{path} {bad:?}"
            );
            new_app.stop().await;
        }
    }
    standin.behave(|behaviour| {
        honest(behaviour);
        behaviour.answers.insert("/token".to_owned(), Bad::Slow);
    });
    let new_store = Store::memory();
    let new_app = self::app(&new_store, &standin).await;
    let (_, back) = arrive(&new_app).await;
    assert_eq!(callback_parameter(&back, "error"), "provider_error");
    standin.behave(honest);
    let (flow, back) = arrive(&new_app).await;
    let done = flow
        .exchange(&new_app, &callback_parameter(&back, "code"))
        .await;
    assert_eq!(
        (done.status, done.text("email")),
        (200, "ada@standin.test".to_owned())
    );
}

/// RFC 9207: a response names its issuer, and the response of another issuer is refused.
pub(super) async fn issuer_mix_up_is_refused(store: Store) {
    let (honest, evil) = (StandIn::start().await, StandIn::start().await);
    let section = |server: &StandIn| {
        ProviderSection::new(CLIENT)
            .secret(SECRET.to_owned())
            .issuer(server.url.as_str())
    };
    let (one, two) = (section(&honest), section(&evil));
    let app = store
        .app_with(|auth| {
            auth.provider("stand", one)
                .provider("evil", two)
                .configure(|config| config.auth.public_url = Some(APP.to_owned()))
        })
        .await;
    app.to_the_present().await;
    // A user starts a sign-in at the evil provider, which redirects the user to the honest
    // provider. The code of the honest provider then returns to the callback path of the evil one.
    let flow = StartedFlow::from(&app, "/auth/evil").await;
    let honest_url = flow.url.replace(&evil.url, &honest.url);
    let callback = Browser::new().sign_in(&honest_url, "").await;
    assert!(callback.contains("/auth/evil/callback"), "{callback}");
    assert_eq!(
        callback_parameter(&flow.back(&app, &callback).await, "error"),
        "provider_error"
    );
    assert_eq!(
        (evil.requests_for("/token"), honest.requests_for("/token")),
        (0, 0),
        "the code was sent to no provider"
    );
    // A response without its issuer, and an error response of another issuer, are refused.
    for (is_cut, expected) in [(true, "provider_error"), (false, "provider_error")] {
        let flow = StartedFlow::from(&app, "/auth/stand").await;
        let callback = Browser::new().sign_in(&flow.url, "").await;
        let without: String = callback
            .split('&')
            .filter(|pair| !pair.starts_with("iss="))
            .collect::<Vec<_>>()
            .join("&");
        let callback = if is_cut {
            without
        } else {
            format!(
                "{}&error=access_denied",
                without.replace("code=", "iss=https%3A%2F%2Fevil.test&x=")
            )
        };
        assert_eq!(
            callback_parameter(&flow.back(&app, &callback).await, "error"),
            expected
        );
    }
    let (flow, back) = arrive(&app).await;
    assert_eq!(
        flow.exchange(&app, &callback_parameter(&back, "code"))
            .await
            .status,
        200
    );
    // The provider's code is redeemed once. A second callback has a used state.
    assert_eq!(honest.requests_for("/token"), 1);
    assert_eq!((honest.faults(), evil.faults()), (vec![], vec![]));
}

pub(super) async fn another_subject_in_userinfo_is_refused(store: Store) {
    let standin = StandIn::start().await;
    let app = app(&store, &standin).await;
    let url = standin.url.clone();
    for document in [
        json!({ "sub": "somebody-else", "email": "eve@standin.test", "email_verified": true }),
        json!({ "email": "eve@standin.test", "email_verified": true }),
        json!({ "sub": ["subject-1"], "email": "eve@standin.test", "email_verified": true }),
        json!({ "sub": 1, "email": "eve@standin.test", "email_verified": true }),
    ] {
        standin.behave(|behaviour| {
            behaviour.without.push("email");
            behaviour.metadata.insert(
                "userinfo_endpoint".to_owned(),
                json!(format!("{url}/userinfo")),
            );
            behaviour.documents.insert("/userinfo".to_owned(), document);
        });
        assert_eq!(
            callback_parameter(&arrive(&app).await.1, "error"),
            "provider_error"
        );
    }
    // A verified address in the token does not verify another address in the userinfo document.
    standin.behave(|behaviour| {
        behaviour.without.push("email");
        behaviour.documents.insert(
            "/userinfo".to_owned(),
            json!({ "sub": "subject-1", "email": "eve@standin.test" }),
        );
    });
    assert_eq!(
        callback_parameter(&arrive(&app).await.1, "error"),
        "email_not_verified"
    );
}
