//! AUTH-17 to AUTH-19: tokens, as two other libraries see them; and every forged one.

use std::io::Write;
use std::process::{Command, Stdio};

use linchpin_auth::{Algorithm, Auth, SigningKey};
use serde_json::{Value as Json, json};

use crate::cases;
use crate::issuer::PEER;
use crate::server::{SECRET, Server, Store, claims, header};

cases!(auth_17, auth_18, auth_19, no_token_is_refused_for_its_length);

/// `PyJWT`: `{"token", "secret" | "jwks", "algorithm", "audience"?, "issuer"?}` in, claims out.
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

/// Runs `PyJWT`; a machine without it fails.
fn pyjwt(program: &str, question: &Json) -> Json {
    let python = std::env::var("LINCHPIN_TEST_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let answer = run(Command::new(python).args(["-c", program]), question);
    serde_json::from_slice(&answer.expect("python3 with PyJWT: cargo xtask test installs it")).unwrap()
}

/// The claims that `jose` reads; what it says instead where it refuses the token. A machine without it fails.
fn jose(app: &Server, question: &Json) -> Result<Json, String> {
    let mut question = question.clone();
    question["now"] = json!(app.now_seconds());
    let answer = run(Command::new("node").arg("verify.mjs").current_dir(PEER), &question);
    answer.map(|claims| serde_json::from_slice(&claims).unwrap())
}

/// What a program answers, or complains of.
fn run(program: &mut Command, question: &Json) -> Result<Vec<u8>, String> {
    let child = program.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = child.expect("cargo xtask test says what is missing");
    child.stdin.take().unwrap().write_all(question.to_string().as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    if output.status.success() { Ok(output.stdout) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}

/// The claims of a token, which both libraries read alike.
fn verified(app: &Server, question: &Json) -> Json {
    let seen = pyjwt(VERIFY, question);
    assert_eq!(jose(app, question).as_ref(), Ok(&seen));
    seen
}

async fn auth_17(store: Store) {
    let app = store.app().await;
    let ada = app.register("ada@example.test").await;
    let seen = verified(&app, &json!({ "token": ada.token, "secret": SECRET, "algorithm": "HS256" }));
    assert_eq!((&seen["sub"], seen["iat"].as_i64()), (&json!(ada.id), Some(app.now_seconds())));
    assert_eq!(seen["iat"], seen["nbf"]);
    assert_eq!(seen["exp"].as_i64().unwrap() - seen["iat"].as_i64().unwrap(), 604_800);
    assert!(seen["sid"].as_str().unwrap().len() == 43 && seen["jti"].as_str().unwrap().len() == 36);
    let header = header(&ada.token);
    assert!(header["kid"].as_str().unwrap().len() == 12 && header["typ"] == "JWT" && header["alg"] == "HS256", "{header}");
    // What it signs with the same secret is good; what says anything else of itself is not.
    let forge = |claims: &Json, headers: &Json| {
        let question = json!({ "claims": claims, "secret": SECRET, "algorithm": "HS256", "headers": headers });
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
        forge(&seen, &json!({ "kid": header["kid"], "jku": "https://evil.test" })),
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
    app.me(pyjwt(SIGN, &question).as_str().unwrap()).await.refused(401, "unauthorized");
}

async fn auth_18(store: Store) {
    let meant = |issuer: &'static str, audience: &'static str| {
        move |auth: Auth| {
            auth.configure(|config| {
                config.security.issuer = Some(issuer.to_owned());
                config.security.audience = Some(audience.to_owned());
            })
        }
    };
    let app = store.app_with(meant("https://me.test", "api")).await;
    let ada = app.register("ada@example.test").await;
    let question_of =
        |token: &str| json!({ "token": token, "secret": SECRET, "algorithm": "HS256", "audience": "api", "issuer": "https://me.test" });
    let seen = verified(&app, &question_of(&ada.token));
    assert_eq!((&seen["iss"], &seen["aud"]), (&json!("https://me.test"), &json!("api")));
    let mut other = seen.clone();
    other["aud"] = json!("another");
    let question = json!({ "claims": other, "secret": SECRET, "algorithm": "HS256", "headers": { "kid": header(&ada.token)["kid"] } });
    let foreign = pyjwt(SIGN, &question);
    app.me(foreign.as_str().unwrap()).await.refused(401, "unauthorized");
    assert_eq!(app.me(&ada.token).await.status, 200);
    // The peer looks at what it is told to look at.
    let mut elsewhere = question_of(&ada.token);
    elsewhere["audience"] = json!("another");
    let refused = jose(&app, &elsewhere).unwrap_err();
    assert!(refused.contains("claim: 'aud'"), "{refused}");
    app.advance(604_801).await;
    let late = jose(&app, &question_of(&ada.token)).unwrap_err();
    assert!(late.contains("ERR_JWT_EXPIRED"), "{late}");
}

/// A key of tests, as PEM in PKCS#8.
fn key(algorithm: &str) -> String {
    let args: &[&str] = match algorithm {
        "EdDSA" => &["genpkey", "-algorithm", "ed25519"],
        _ => &["genpkey", "-algorithm", "rsa", "-pkeyopt", "rsa_keygen_bits:2048"],
    };
    let output = Command::new("openssl").args(args).output().expect("openssl");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

async fn auth_19(store: Store) {
    let app = store.app().await;
    app.raw("GET", "/.well-known/jwks.json", &[], "").await.refused(404, "not_found");
    app.stop().await;
    for (name, algorithm) in [("EdDSA", Algorithm::EdDsa), ("RS256", Algorithm::Rs256)] {
        let (old, new) = (key(name), key(name));
        let private = |kid: &str, pem: &str| SigningKey::Private { kid: kid.to_owned(), pem: pem.to_owned() };
        let with = |keys: Vec<SigningKey>| {
            move |auth: Auth| {
                auth.configure(|config| {
                    config.security.algorithm = algorithm;
                    config.security.keys = keys;
                })
            }
        };
        let app = store.app_with(with(vec![private("new", &new), private("old", &old)])).await;
        let email = format!("{name}@example.test");
        let ada = app.register(&email).await;
        let jwks = app.raw("GET", "/.well-known/jwks.json", &[], "").await;
        assert_eq!((jwks.status, jwks.header("cache-control")), (200, "max-age=300".to_owned()));
        let kids: Vec<Json> = jwks.json()["keys"].as_array().unwrap().iter().map(|k| k["kid"].clone()).collect();
        assert_eq!(kids, [json!("new"), json!("old")]);
        for secret in ["d", "p", "q", "k"] {
            assert!(jwks.json()["keys"][0].get(secret).is_none(), "{jwks:?}");
        }
        let seen = verified(&app, &json!({ "token": ada.token, "jwks": jwks.json(), "algorithm": name }));
        assert_eq!(seen["sub"], json!(ada.id));
        assert_eq!(app.me(&ada.token).await.status, 200);
        // The secret signs nothing here.
        let question = json!({ "claims": claims(&ada.token), "secret": SECRET, "algorithm": "HS256", "headers": { "kid": "new" } });
        app.me(pyjwt(SIGN, &question).as_str().unwrap()).await.refused(401, "unauthorized");
        app.stop().await;
    }
}

async fn no_token_is_refused_for_its_length(store: Store) {
    let app = store.app().await;
    let long = format!("Bearer {}", "x".repeat(16 << 10));
    app.raw("GET", "/auth/me", &[("authorization", &long)], "").await.refused(401, "unauthorized");
    let dots = format!("Bearer {}", ".".repeat(4000));
    app.raw("GET", "/auth/me", &[("authorization", &dots)], "").await.refused(401, "unauthorized");
}
