//! A dishonest provider: invalid tokens, invalid responses, names of other users.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use linchpin_auth::ProviderSection;
use serde_json::{Value as Json, json};

use super::{app, arrive};
use crate::issuer::{APP, Away, Browser, landed};
use crate::server::{GOOD, Store};
use crate::standin::{Bad, CLIENT, Manner, SECRET, StandIn, key, other_key, public, sign};

pub(super) async fn tokens_that_prove_nothing(store: Store) {
    let standin = StandIn::start().await;
    let app = app(&store, &standin).await;
    type Change = Box<dyn FnOnce(&mut Manner)>;
    let claim = |name: &'static str, value: Json| -> Change {
        Box::new(move |manner| drop(manner.claims.insert(name.to_owned(), value)))
    };
    let signed =
        |sign: fn(&Json) -> String| -> Change { Box::new(move |manner| manner.sign = sign) };
    let without =
        |name: &'static str| -> Change { Box::new(move |manner| manner.without.push(name)) };
    let bad: Vec<(&str, Change)> = vec![
        (
            "alg none",
            signed(|claims| forged(&json!({ "alg": "none", "typ": "JWT" }), claims, None)),
        ),
        (
            "alg none, key named",
            signed(|claims| forged(&json!({ "alg": "none", "kid": "k1" }), claims, None)),
        ),
        (
            "HS256 under the client's secret",
            signed(|claims| {
                forged(
                    &json!({ "alg": "HS256", "kid": "k1" }),
                    claims,
                    Some(SECRET),
                )
            }),
        ),
        (
            "HS256 under the public key",
            signed(|claims| {
                forged(
                    &json!({ "alg": "HS256", "kid": "k1" }),
                    claims,
                    Some(&public(key(), "k1").to_string()),
                )
            }),
        ),
        (
            "another key under its name",
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
        ("another party", claim("azp", json!("another-client"))),
        ("a party that is null", claim("azp", json!(null))),
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
        ("no end", without("exp")),
        ("an end that is text", claim("exp", json!("tomorrow"))),
        ("from the future", claim("iat", json!(120))),
        ("no beginning", without("iat")),
        ("not yet", claim("nbf", json!(120))),
        ("nobody", without("sub")),
        ("an empty name", claim("sub", json!(""))),
        ("a name that is a list", claim("sub", json!(["subject-1"]))),
        ("a name that is a number", claim("sub", json!(4711))),
        (
            "two names",
            signed(|claims| sign(&Twice(claims), key(), "k1")),
        ),
        ("a very long name", claim("sub", json!("x".repeat(256)))),
        ("a name with a line break", claim("sub", json!("a\nb"))),
    ];
    let bad = bad
        .into_iter()
        .chain(["mac", "DPoP", "N_A", ""].map(|kind| -> (&str, Change) {
            (
                "a token of another kind",
                Box::new(move |manner| manner.token_type = kind),
            )
        }));
    for (what, change) in bad {
        standin.behave(change);
        let (_, back) = arrive(&app).await;
        assert_eq!(landed(&back, "error"), "provider_error", "{what}");
        // More than the limit of callbacks.
        app.advance(2).await;
    }
    app.post(
        "/auth/login",
        json!({ "email": "ada@standin.test", "password": GOOD }),
    )
    .await
    .refused(401, "invalid_credentials");
    // Unusual but valid responses, with a small clock difference.
    standin.behave(|manner| {
        manner
            .claims
            .insert("aud".to_owned(), json!([CLIENT, "another-client"]));
        manner.claims.insert("azp".to_owned(), json!(CLIENT));
        manner.claims.insert("iat".to_owned(), json!(80));
        manner.claims.insert("exp".to_owned(), json!(600));
        manner
            .claims
            .insert("email_verified".to_owned(), json!("true"));
        manner.token_type = "bearer";
    });
    let (away, back) = arrive(&app).await;
    assert_eq!(
        away.exchange(&app, &landed(&back, "code")).await.status,
        200
    );
    // None of it could make the server fetch keys for each made up id.
    assert!(standin.asked("/jwks") <= 3, "{}", standin.asked("/jwks"));
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

/// A token that no library would make.
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

pub(super) async fn answers_that_are_none(store: Store) {
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
        standin.behave(|manner| {
            manner
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
    standin.behave(|manner| {
        drop(
            manner
                .metadata
                .insert("issuer".to_owned(), json!("https://evil.test")),
        );
    });
    let start = app.raw("GET", "/auth/stand", &[], "").await;
    assert_eq!(start.header("location"), "/?error=provider_error");
    app.advance(6).await;
    // Addresses that are not under TLS, and not of this machine.
    for (name, url) in [
        ("authorization_endpoint", "http://provider.test/authorize"),
        ("authorization_endpoint", "javascript:alert(1)"),
    ] {
        standin.behave(|manner| drop(manner.metadata.insert(name.to_owned(), json!(url))));
        let start = app.raw("GET", "/auth/stand", &[], "").await;
        assert_eq!(start.header("location"), "/?error=provider_error");
        app.advance(3601).await;
    }
    let url = &standin.url;
    let honest = |manner: &mut Manner| {
        manner.without.push("email");
        manner.metadata.insert(
            "userinfo_endpoint".to_owned(),
            json!(format!("{url}/userinfo")),
        );
        manner.documents.insert(
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
            standin.behave(|manner| {
                honest(manner);
                manner.answers.insert(path.to_owned(), bad);
            });
            // With a new app, so that every document of the provider is fetched.
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
    assert_eq!(
        (done.status, done.text("email")),
        (200, "ada@standin.test".to_owned())
    );
}

/// RFC 9207: a response names its issuer, and the response of another issuer is refused.
pub(super) async fn mix_up(store: Store) {
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
    // A user who signs in at the evil provider is redirected to the honest one, whose code returns
    // to the evil one's path.
    let away = Away::from(&app, "/auth/evil").await;
    let on = away.url.replace(&evil.url, &honest.url);
    let callback = Browser::new().sign_in(&on, "").await;
    assert!(callback.contains("/auth/evil/callback"), "{callback}");
    assert_eq!(
        landed(&away.back(&app, &callback).await, "error"),
        "provider_error"
    );
    assert_eq!(
        (evil.asked("/token"), honest.asked("/token")),
        (0, 0),
        "the code went to nobody"
    );
    // The same without the issuer's name in it, and with it in an answer that is an error.
    for (cut, expected) in [(true, "provider_error"), (false, "provider_error")] {
        let away = Away::from(&app, "/auth/stand").await;
        let callback = Browser::new().sign_in(&away.url, "").await;
        let without: String = callback
            .split('&')
            .filter(|pair| !pair.starts_with("iss="))
            .collect::<Vec<_>>()
            .join("&");
        let callback = if cut {
            without
        } else {
            format!(
                "{}&error=access_denied",
                without.replace("code=", "iss=https%3A%2F%2Fevil.test&x=")
            )
        };
        assert_eq!(landed(&away.back(&app, &callback).await, "error"), expected);
    }
    let (away, back) = arrive(&app).await;
    assert_eq!(
        away.exchange(&app, &landed(&back, "code")).await.status,
        200
    );
    // The provider's code is redeemed once: whoever sends it a second time has a state that is
    // used.
    assert_eq!(honest.asked("/token"), 1);
    assert_eq!((honest.faults(), evil.faults()), (vec![], vec![]));
}

pub(super) async fn somebody_else_in_userinfo(store: Store) {
    let standin = StandIn::start().await;
    let app = app(&store, &standin).await;
    let url = standin.url.clone();
    for document in [
        json!({ "sub": "somebody-else", "email": "eve@standin.test", "email_verified": true }),
        json!({ "email": "eve@standin.test", "email_verified": true }),
        json!({ "sub": ["subject-1"], "email": "eve@standin.test", "email_verified": true }),
        json!({ "sub": 1, "email": "eve@standin.test", "email_verified": true }),
    ] {
        standin.behave(|manner| {
            manner.without.push("email");
            manner.metadata.insert(
                "userinfo_endpoint".to_owned(),
                json!(format!("{url}/userinfo")),
            );
            manner.documents.insert("/userinfo".to_owned(), document);
        });
        assert_eq!(landed(&arrive(&app).await.1, "error"), "provider_error");
    }
    // A verified address in the token is not taken together with another one of the document.
    standin.behave(|manner| {
        manner.without.push("email");
        manner.documents.insert(
            "/userinfo".to_owned(),
            json!({ "sub": "subject-1", "email": "eve@standin.test" }),
        );
    });
    assert_eq!(landed(&arrive(&app).await.1, "error"), "email_not_verified");
}
