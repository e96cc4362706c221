use super::*;

const NOW: i64 = 1_800_000_000;
const OLD: &[u8] = b"an old secret for tests of 32 bytes!!";
const NEW: &[u8] = b"a new secret for tests of 32 bytes!!!";

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis(seconds * 1000)
}

fn signing_with(secrets: &[&[u8]]) -> Signing {
    let secrets: Vec<Vec<u8>> = secrets.iter().map(|s| s.to_vec()).collect();
    let signing_with = Ring::new(&secrets).unwrap();
    Signing::hs256(&secrets, &signing_with).unwrap()
}

fn claims() -> Map<String, Value> {
    let claims =
        json!({ "sub": "u", "sid": "s", "jti": "j", "iat": NOW, "nbf": NOW, "exp": NOW + 60 });
    claims.as_object().cloned().unwrap()
}

fn signed_token(header: &Value, claims: &Value, secret: &[u8]) -> String {
    signed_text(&header.to_string(), &claims.to_string(), secret)
}

fn signed_text(header: &str, claims: &str, secret: &[u8]) -> String {
    use hmac::{Hmac, KeyInit, Mac};
    let text = format!(
        "{}.{}",
        URL_SAFE_NO_PAD.encode(header),
        URL_SAFE_NO_PAD.encode(claims)
    );
    let mut mac = <Hmac<sha2::Sha256> as KeyInit>::new_from_slice(secret).unwrap();
    mac.update(text.as_bytes());
    format!(
        "{text}.{}",
        URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes())
    )
}

#[test]
fn a_token_is_valid_only_within_its_times() {
    let signing = signing_with(&[NEW]);
    let token = signing.sign(claims()).unwrap();
    let verified = signing.verify(&token, at(NOW)).unwrap();
    assert_eq!((verified.sub.as_str(), verified.sid.as_str()), ("u", "s"));
    assert!(signing.verify(&token, at(NOW + 60 + LEEWAY - 1)).is_some());
    assert!(signing.verify(&token, at(NOW + 60 + LEEWAY)).is_none());
    assert!(signing.verify_expired(&token, at(NOW + 9999)).is_some());
    assert!(signing.verify(&token, at(NOW - LEEWAY)).is_some());
    assert!(signing.verify(&token, at(NOW - LEEWAY - 1)).is_none());
}

#[test]
fn the_newest_secret_signs_and_all_verify() {
    let old = signing_with(&[OLD]).sign(claims()).unwrap();
    let both = signing_with(&[NEW, OLD]);
    assert!(both.verify(&old, at(NOW)).is_some());
    assert!(
        signing_with(&[NEW])
            .verify(&both.sign(claims()).unwrap(), at(NOW))
            .is_some()
    );
    assert!(signing_with(&[NEW]).verify(&old, at(NOW)).is_none());
}

#[test]
fn forged_and_malformed_tokens_are_refused() {
    let signing =
        signing_with(&[NEW, OLD]).with_issuer_and_audience(Some("iss".into()), Some("aud".into()));
    let kid = signing.kid.clone();
    let mut full = Value::Object(claims());
    full["iss"] = json!("iss");
    full["aud"] = json!("aud");
    let header = json!({ "typ": "JWT", "alg": "HS256", "kid": kid });
    assert!(
        signing
            .verify(&signed_token(&header, &full, NEW), at(NOW))
            .is_some(),
        "a token signed with the secret is valid"
    );
    let with = |base: &Value, name: &str, value: Value| {
        let mut changed = base.clone();
        changed[name] = value;
        changed
    };
    let without = |base: &Value, name: &str| {
        let mut changed = base.clone();
        changed.as_object_mut().unwrap().remove(name);
        changed
    };
    let mut bad = vec![
        signed_token(&header, &full, OLD),
        signed_token(&header, &full, b""),
    ];
    for alg in ["none", "HS384", "RS256", "EdDSA", "hs256", ""] {
        bad.push(signed_token(&with(&header, "alg", json!(alg)), &full, NEW));
    }
    for typ in [json!("at+jwt"), json!("jwt"), Value::Null] {
        bad.push(signed_token(&with(&header, "typ", typ), &full, NEW));
    }
    for kid in [
        json!("nobody"),
        json!("../../dev/null"),
        json!("' OR 1=1"),
        json!(1),
        Value::Null,
    ] {
        bad.push(signed_token(&with(&header, "kid", kid), &full, NEW));
    }
    for name in ["typ", "alg", "kid"] {
        bad.push(signed_token(&without(&header, name), &full, NEW));
    }
    for name in FORBIDDEN {
        bad.push(signed_token(&with(&header, name, json!([])), &full, NEW));
        bad.push(signed_token(&with(&header, name, Value::Null), &full, NEW));
    }
    for name in ["sub", "sid", "exp", "nbf", "iat", "iss", "aud"] {
        bad.push(signed_token(&header, &without(&full, name), NEW));
        bad.push(signed_token(&header, &with(&full, name, json!({})), NEW));
        bad.push(signed_token(
            &header,
            &with(&full, name, json!("other\u{0}")),
            NEW,
        ));
    }
    bad.push(signed_token(
        &header,
        &with(&full, "aud", json!(["aud", "other"])),
        NEW,
    ));
    bad.push(signed_token(
        &header,
        &with(&full, "iat", json!(NOW + 1000)),
        NEW,
    ));
    bad.push(signed_token(
        &header,
        &with(&full, "exp", json!(i64::MIN)),
        NEW,
    ));
    // A claim that occurs twice, with different values or with the same value.
    let text = full.to_string();
    for (name, value) in [
        ("sid", "\"other\""),
        ("sid", "\"s\""),
        ("sub", "\"other\""),
        ("exp", "9999999999"),
        ("jti", "\"j\""),
    ] {
        let twice = [
            format!("{{\"{name}\":{value},{}", &text[1..]),
            format!("{},\"{name}\":{value}}}", &text[..text.len() - 1]),
        ];
        bad.extend(
            twice
                .iter()
                .map(|claims| signed_text(&header.to_string(), claims, NEW)),
        );
    }
    let named = header.to_string();
    bad.push(signed_text(
        &format!("{},\"kid\":{}}}", &named[..named.len() - 1], header["kid"]),
        &text,
        NEW,
    ));
    bad.push(signed_text(&named, "[]", NEW));
    assert!(
        signing
            .verify(&signed_text(&named, &text, NEW), at(NOW))
            .is_some()
    );
    let good = signed_token(&header, &full, NEW);
    bad.extend(["", ".", "..", "a.b.c"].map(str::to_owned));
    bad.extend([
        format!("{good}."),
        format!(".{good}"),
        format!("{good}="),
        good[..good.len() - 1].to_owned(),
    ]);
    bad.push(format!(
        "{}.{}.",
        URL_SAFE_NO_PAD.encode(header.to_string()),
        URL_SAFE_NO_PAD.encode(full.to_string())
    ));
    bad.push(signed_token(
        &header,
        &with(&full, "x", json!("x".repeat(MAX_TOKEN_BYTES))),
        NEW,
    ));
    for token in bad {
        assert!(signing.verify(&token, at(NOW)).is_none(), "{token}");
    }
}

/// Keys for tests, created by `openssl genpkey`.
const ED25519: &str = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n-----END PRIVATE KEY-----\n";

#[test]
fn public_keys_are_published_in_the_jwks() {
    let signing = Signing::asymmetric(
        Algorithm::EdDsa,
        &[SigningKey::Private {
            kid: "k1".into(),
            pem: ED25519.into(),
        }],
    )
    .unwrap();
    let token = signing.sign(claims()).unwrap();
    assert!(signing.verify(&token, at(NOW)).is_some());
    let jwks: Value = serde_json::from_str(signing.jwks().unwrap()).unwrap();
    let key = &jwks["keys"][0];
    assert_eq!(
        (&key["kid"], &key["kty"], &key["alg"], &key["use"]),
        (&json!("k1"), &json!("OKP"), &json!("EdDSA"), &json!("sig"))
    );
    assert!(key.get("d").is_none(), "{jwks}");
    let x = URL_SAFE_NO_PAD.decode(key["x"].as_str().unwrap()).unwrap();
    for alg in ["HS256", "EdDSA"] {
        let header = json!({ "typ": "JWT", "alg": alg, "kid": "k1" });
        assert!(
            signing
                .verify(
                    &signed_token(&header, &Value::Object(claims()), &x),
                    at(NOW)
                )
                .is_none()
        );
    }
    for (algorithm, keys, what) in [
        (Algorithm::EdDsa, vec![], "private"),
        (
            Algorithm::Rs256,
            vec![SigningKey::Private {
                kid: "k1".into(),
                pem: ED25519.into(),
            }],
            "must be an RS256 key",
        ),
        (
            Algorithm::EdDsa,
            vec![
                SigningKey::Private {
                    kid: "k1".into(),
                    pem: ED25519.into()
                };
                2
            ],
            "twice",
        ),
    ] {
        let error = Signing::asymmetric(algorithm, &keys).unwrap_err();
        assert!(error.contains(what), "{error}");
    }
}
