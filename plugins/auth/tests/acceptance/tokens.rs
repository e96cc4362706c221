//! Access tokens: two other libraries verify them, and the app refuses forged ones.

use std::io::Write;
use std::process::{Command, Stdio};

use jsonwebtoken::{EncodingKey, Header};
use linchpin_auth::{Algorithm, Auth, AuthConfig, SigningKey};
use serde_json::{Value as Json, json};

use crate::cases;
use crate::issuer::PEER;
use crate::server::{SECRET, Server, Store, claims, header};

cases! {
    one_store:
        tokens_have_standard_claims, issuer_and_audience_are_checked, keys_are_published_as_jwks,
        former_keys_verify_and_do_not_sign, invalid_keys_stop_the_start,
        a_public_key_is_not_accepted_as_a_secret, no_token_is_refused_for_its_length;
}

/// A Python program that verifies a token with `PyJWT` and prints its claims. The input is
/// `{"token", "secret" | "jwks", "algorithm", "audience"?, "issuer"?}`.
const VERIFY: &str = r"
import json, sys, jwt
q = json.load(sys.stdin)
options = {'verify_aud': 'audience' in q, 'verify_exp': False, 'verify_nbf': False, 'verify_iat': False}
key = q.get('secret')
if 'jwks' in q:
    kid = jwt.get_unverified_header(q['token'])['kid']
    key = [k.key for k in jwt.PyJWKSet.from_dict(q['jwks']).keys if k.key_id == kid][0]
print(json.dumps(jwt.decode(q['token'], key, algorithms=[q['algorithm']], audience=q.get('audience'), issuer=q.get('issuer'), options=options)))
";
const SIGN: &str = r"
import json, sys, jwt
q = json.load(sys.stdin)
print(json.dumps(jwt.encode(q['claims'], q['secret'], algorithm=q['algorithm'], headers=q['headers'])))
";

/// Runs `PyJWT`, which must be installed.
fn pyjwt(program: &str, question: &Json) -> Json {
    let python = std::env::var("LINCHPIN_TEST_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let answer = run(Command::new(python).args(["-c", program]), question);
    serde_json::from_slice(
        &answer.expect("python3 with PyJWT is needed: `cargo xtask test` installs it"),
    )
    .unwrap()
}

/// Returns the claims that `jose` reads, or its error if it refuses the token. `jose` must be
/// installed.
fn jose(app: &Server, question: &Json) -> Result<Json, String> {
    let mut question = question.clone();
    question["now"] = json!(app.now_seconds());
    let answer = run(
        Command::new("node").arg("verify.mjs").current_dir(PEER),
        &question,
    );
    answer.map(|claims| serde_json::from_slice(&claims).unwrap())
}

/// The output of a program, or its error.
fn run(program: &mut Command, question: &Json) -> Result<Vec<u8>, String> {
    let child = program
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = child.expect("`cargo xtask test` prints what is missing");
    child
        .stdin
        .take()
        .unwrap()
        .write_all(question.to_string().as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    if output.status.success() {
        Ok(output.stdout)
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

/// The claims of a token. Both libraries must return the same.
fn verified_claims(app: &Server, question: &Json) -> Json {
    let seen = pyjwt(VERIFY, question);
    assert_eq!(jose(app, question).as_ref(), Ok(&seen));
    seen
}

async fn tokens_have_standard_claims(store: Store) {
    let app = store.app().await;
    let ada = app.register("ada@example.test").await;
    let seen = verified_claims(
        &app,
        &json!({ "token": ada.token, "secret": SECRET, "algorithm": "HS256" }),
    );
    assert_eq!(
        (&seen["sub"], seen["iat"].as_i64()),
        (&json!(ada.id), Some(app.now_seconds()))
    );
    assert_eq!(seen["iat"], seen["nbf"]);
    assert_eq!(
        seen["exp"].as_i64().unwrap() - seen["iat"].as_i64().unwrap(),
        604_800
    );
    assert!(seen["sid"].as_str().unwrap().len() == 43 && seen["jti"].as_str().unwrap().len() == 36);
    let header = header(&ada.token);
    assert!(
        header["kid"].as_str().unwrap().len() == 12
            && header["typ"] == "JWT"
            && header["alg"] == "HS256",
        "{header}"
    );
    // A token that is signed with the same secret is valid. It is refused if a header or a claim is
    // wrong, or if it has no signature.
    let forge = |claims: &Json, headers: &Json| {
        let question =
            json!({ "claims": claims, "secret": SECRET, "algorithm": "HS256", "headers": headers });
        pyjwt(SIGN, &question).as_str().unwrap().to_owned()
    };
    let kid = json!({ "kid": header["kid"] });
    assert_eq!(app.me(&forge(&seen, &kid)).await.status, 200);
    let changed = |name: &str, value: Json| {
        let mut claims = seen.clone();
        claims[name] = value;
        forge(&claims, &kid)
    };
    let now = app.now_seconds();
    let bad = [
        forge(&seen, &json!({})),
        forge(&seen, &json!({ "kid": "another" })),
        forge(
            &seen,
            &json!({ "kid": header["kid"], "jku": "https://evil.test" }),
        ),
        forge(&seen, &json!({ "kid": header["kid"], "crit": ["x"] })),
        forge(&seen, &json!({ "kid": header["kid"], "typ": "at+jwt" })),
        changed("sub", json!("somebody")),
        changed("sid", json!("somebody")),
        changed("exp", json!(now - 11)),
        changed("nbf", json!(now + 11)),
        changed("iat", json!(now + 11)),
    ];
    for token in bad {
        app.me(&token).await.refused(401, "unauthorized");
    }
    let question = json!({ "claims": seen, "secret": "", "algorithm": "none", "headers": kid });
    app.me(pyjwt(SIGN, &question).as_str().unwrap())
        .await
        .refused(401, "unauthorized");
}

async fn issuer_and_audience_are_checked(store: Store) {
    let with_issuer = |issuer: &'static str, audience: &'static str| {
        move |auth: Auth| {
            auth.configure(|config| {
                config.security.issuer = Some(issuer.to_owned());
                config.security.audience = Some(audience.to_owned());
            })
        }
    };
    let app = store.app_with(with_issuer("https://me.test", "api")).await;
    let ada = app.register("ada@example.test").await;
    let question_of = |token: &str| json!({ "token": token, "secret": SECRET, "algorithm": "HS256", "audience": "api", "issuer": "https://me.test" });
    let seen = verified_claims(&app, &question_of(&ada.token));
    assert_eq!(
        (&seen["iss"], &seen["aud"]),
        (&json!("https://me.test"), &json!("api"))
    );
    let mut other = seen.clone();
    other["aud"] = json!("another");
    let question = json!({ "claims": other, "secret": SECRET, "algorithm": "HS256", "headers": { "kid": header(&ada.token)["kid"] } });
    let foreign = pyjwt(SIGN, &question);
    app.me(foreign.as_str().unwrap())
        .await
        .refused(401, "unauthorized");
    assert_eq!(app.me(&ada.token).await.status, 200);
    // `jose` checks the audience and the expiry.
    let mut elsewhere = question_of(&ada.token);
    elsewhere["audience"] = json!("another");
    let refused = jose(&app, &elsewhere).unwrap_err();
    assert!(refused.contains("claim: 'aud'"), "{refused}");
    app.advance(604_801).await;
    let late = jose(&app, &question_of(&ada.token)).unwrap_err();
    assert!(late.contains("ERR_JWT_EXPIRED"), "{late}");
}

/// Generates a private key: PEM in PKCS#8.
fn key(algorithm: &str) -> String {
    let args: &[&str] = match algorithm {
        "EdDSA" => &["genpkey", "-algorithm", "ed25519"],
        "short" => &[
            "genpkey",
            "-algorithm",
            "rsa",
            "-pkeyopt",
            "rsa_keygen_bits:1024",
        ],
        _ => &[
            "genpkey",
            "-algorithm",
            "rsa",
            "-pkeyopt",
            "rsa_keygen_bits:2048",
        ],
    };
    let output = Command::new("openssl")
        .args(args)
        .output()
        .expect("openssl");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

/// The public key of a private key, in PEM.
fn public(pem: &str) -> String {
    let mut child = Command::new("openssl")
        .args(["pkey", "-pubout"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(pem.as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

/// A token with the claims of another token, signed with this key.
fn signed(token: &str, kid: &str, algorithm: jsonwebtoken::Algorithm, key: &EncodingKey) -> String {
    let header = Header {
        kid: Some(kid.to_owned()),
        ..Header::new(algorithm)
    };
    jsonwebtoken::encode(&header, &claims(token), key).unwrap()
}

/// A settings file with signing keys.
fn settings_file(algorithm: &str, keys: &Json) -> Json {
    json!({ "security": { "signing": { "algorithm": algorithm, "keys": keys } } })
}

/// An app with these signing keys. A file and the environment must give the same keys.
async fn with_keys(store: &Store, algorithm: &str, keys: &Json) -> linchpin::Result<Server> {
    let from_file = AuthConfig::from_json(&settings_file(algorithm, keys)).security;
    let settings = [
        ("ALGORITHM", algorithm.to_owned()),
        ("KEYS", keys.to_string()),
    ];
    let variables =
        settings.map(|(name, value)| (format!("LINCHPIN_SECURITY_SIGNING_{name}"), value));
    let from_environment = AuthConfig::from_vars(variables).security;
    assert_eq!(
        format!("{:?} {:?}", from_file.algorithm, from_file.keys),
        format!(
            "{:?} {:?}",
            from_environment.algorithm, from_environment.keys
        )
    );
    let set = |auth: Auth| {
        auth.configure(|config| {
            config.security.algorithm = from_file.algorithm;
            config.security.keys = from_file.keys;
        })
    };
    store.try_app(set).await
}

/// Tokens of a former key are valid while its public key is configured. It signs no new tokens.
async fn former_keys_verify_and_do_not_sign(store: Store) {
    for name in ["EdDSA", "RS256"] {
        let (old, new) = (key(name), key(name));
        let (algorithm, old_key) = match name {
            "EdDSA" => (
                jsonwebtoken::Algorithm::EdDSA,
                EncodingKey::from_ed_pem(old.as_bytes()).unwrap(),
            ),
            _ => (
                jsonwebtoken::Algorithm::RS256,
                EncodingKey::from_rsa_pem(old.as_bytes()).unwrap(),
            ),
        };
        let first = json!({ "kid": "new", "privateKeyPem": new });
        let app = with_keys(
            &store,
            name,
            &json!([first, { "kid": "old", "publicKeyPem": public(&old) }]),
        )
        .await
        .unwrap();
        let ada = app.register(&format!("{name}@example.test")).await;
        assert_eq!(header(&ada.token)["kid"], "new");
        let jwks = app
            .raw("GET", "/.well-known/jwks.json", &[], "")
            .await
            .json();
        for (kid, status) in [("old", 200), ("new", 401), ("another", 401)] {
            let token = signed(&ada.token, kid, algorithm, &old_key);
            assert_eq!(app.me(&token).await.status, status, "{name} {kid}");
            if kid == "old" {
                verified_claims(
                    &app,
                    &json!({ "token": token, "jwks": jwks, "algorithm": name }),
                );
            }
        }
        app.stop().await;
        // Without the public key, these tokens are refused.
        let app = with_keys(&store, name, &json!([first])).await.unwrap();
        let bob = app.register(&format!("{name}2@example.test")).await;
        app.me(&signed(&bob.token, "old", algorithm, &old_key))
            .await
            .refused(401, "unauthorized");
        app.stop().await;
    }
}

async fn invalid_keys_stop_the_start(store: Store) {
    let (good, other, short, ed) = (key("RS256"), key("RS256"), key("short"), key("EdDSA"));
    let private = |kid: &str, pem: &str| json!({ "kid": kid, "privateKeyPem": pem });
    let no_kid = "`kid` must be 1 to 64 letters, digits, dashes or underscores";
    for (keys, message) in [
        (json!([]), "the first key must be a private key"),
        (
            json!([{ "kid": "a", "publicKeyPem": public(&good) }]),
            "the first key must be a private key",
        ),
        (
            json!([{ "kid": "a", "publicKeyPem": public(&good) }, private("b", &other)]),
            "the first key must be a private key",
        ),
        (
            json!([private("a", &short)]),
            "key `a` must be an RS256 key in PEM, with at least 2048 bits",
        ),
        (
            json!([private("a", &good), { "kid": "b", "publicKeyPem": public(&short) }]),
            "key `b` is shorter than 2048 bits",
        ),
        (
            json!([private("a", &ed)]),
            "key `a` must be an RS256 key in PEM",
        ),
        (
            json!([private("a", "-----BEGIN PRIVATE KEY-----")]),
            "key `a` must be an RS256 key in PEM",
        ),
        (
            json!([private("a", &good), private("a", &other)]),
            "the key id `a` is used twice",
        ),
        (json!([private("", &good)]), no_kid),
        (json!([private("a b", &good)]), no_kid),
        (json!([private("../a", &good)]), no_kid),
        (json!([private(&"a".repeat(65), &good)]), no_kid),
    ] {
        let error = with_keys(&store, "RS256", &keys)
            .await
            .err()
            .map(|error| error.to_string())
            .unwrap_or_default();
        assert!(
            error.contains("security.signing.keys: ") && error.contains(message),
            "{message}: {error}"
        );
        assert!(!error.contains("BEGIN"), "{error}");
    }
    for malformed in [
        json!({}),
        json!({ "kid": "a" }),
        json!({ "privateKeyPem": good }),
        json!({ "kid": "a", "pem": good }),
        { json!({ "kid": "a", "privateKeyPem": good, "publicKeyPem": public(&good) }) },
    ] {
        let file = settings_file("RS256", &json!([malformed]));
        let error = store
            .try_app(|_| Auth::from_config(AuthConfig::from_json(&file)))
            .await
            .err()
            .map(|error| error.to_string());
        assert!(
            error.is_some_and(|error| error.contains(
                "each key must be an object { kid, privateKeyPem } or { kid, publicKeyPem }"
            )),
            "{malformed}"
        );
    }
    with_keys(
        &store,
        "RS256",
        &json!([private(&"a_-9".repeat(16), &good)]),
    )
    .await
    .unwrap()
    .stop()
    .await;
}

/// A public key verifies tokens of its private key only, and is not accepted as an HMAC secret.
async fn a_public_key_is_not_accepted_as_a_secret(store: Store) {
    let (new, old) = (key("RS256"), key("RS256"));
    let keys = json!([{ "kid": "new", "privateKeyPem": new }, { "kid": "old", "publicKeyPem": public(&old) }]);
    let app = with_keys(&store, "RS256", &keys).await.unwrap();
    let ada = app.register("ada@example.test").await;
    for (kid, pem) in [("new", public(&new)), ("old", public(&old))] {
        for secret in [pem.as_str(), pem.trim_end(), &pem.replace('\n', "\r\n")] {
            let forged = signed(
                &ada.token,
                kid,
                jsonwebtoken::Algorithm::HS256,
                &EncodingKey::from_secret(secret.as_bytes()),
            );
            app.me(&forged).await.refused(401, "unauthorized");
        }
    }
    let own = EncodingKey::from_rsa_pem(new.as_bytes()).unwrap();
    assert_eq!(
        app.me(&signed(
            &ada.token,
            "new",
            jsonwebtoken::Algorithm::RS256,
            &own
        ))
        .await
        .status,
        200,
        "the same claims with a valid signature are accepted"
    );
}

async fn keys_are_published_as_jwks(store: Store) {
    let app = store.app().await;
    app.raw("GET", "/.well-known/jwks.json", &[], "")
        .await
        .refused(404, "not_found");
    app.stop().await;
    for (name, algorithm) in [("EdDSA", Algorithm::EdDsa), ("RS256", Algorithm::Rs256)] {
        let (old, new) = (key(name), key(name));
        let private = |kid: &str, pem: &str| SigningKey::Private {
            kid: kid.to_owned(),
            pem: pem.to_owned(),
        };
        let with = |keys: Vec<SigningKey>| {
            move |auth: Auth| {
                auth.configure(|config| {
                    config.security.algorithm = algorithm;
                    config.security.keys = keys;
                })
            }
        };
        let app = store
            .app_with(with(vec![private("new", &new), private("old", &old)]))
            .await;
        let email = format!("{name}@example.test");
        let ada = app.register(&email).await;
        let jwks = app.raw("GET", "/.well-known/jwks.json", &[], "").await;
        assert_eq!(
            (jwks.status, jwks.header("cache-control")),
            (200, "max-age=300".to_owned())
        );
        let kids: Vec<Json> = jwks.json()["keys"]
            .as_array()
            .unwrap()
            .iter()
            .map(|k| k["kid"].clone())
            .collect();
        assert_eq!(kids, [json!("new"), json!("old")]);
        for secret in ["d", "p", "q", "k"] {
            assert!(jwks.json()["keys"][0].get(secret).is_none(), "{jwks:?}");
        }
        let seen = verified_claims(
            &app,
            &json!({ "token": ada.token, "jwks": jwks.json(), "algorithm": name }),
        );
        assert_eq!(seen["sub"], json!(ada.id));
        assert_eq!(app.me(&ada.token).await.status, 200);
        // The app signs with a key pair, so a token that is signed with its secret is refused.
        let question = json!({ "claims": claims(&ada.token), "secret": SECRET, "algorithm": "HS256", "headers": { "kid": "new" } });
        app.me(pyjwt(SIGN, &question).as_str().unwrap())
            .await
            .refused(401, "unauthorized");
        app.stop().await;
    }
}

async fn no_token_is_refused_for_its_length(store: Store) {
    let app = store.app().await;
    let long = format!("Bearer {}", "x".repeat(16 << 10));
    app.raw("GET", "/auth/me", &[("authorization", &long)], "")
        .await
        .refused(401, "unauthorized");
    let dots = format!("Bearer {}", ".".repeat(4000));
    app.raw("GET", "/auth/me", &[("authorization", &dots)], "")
        .await
        .refused(401, "unauthorized");
}
