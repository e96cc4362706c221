//! Tests of the verification of signatures.

use super::*;
use crate::signature::{sign, sign_compat};

const AT: i64 = 1_614_265_330;
const BODY: &[u8] = br#"{"test": 2432232314}"#;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis(seconds * 1_000)
}

fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    let pairs = pairs
        .iter()
        .map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()));
    pairs.collect()
}

fn signed(id: &str, time: &str, signature: &str) -> HeaderMap {
    headers(&[
        ("webhook-id", id),
        ("webhook-timestamp", time),
        ("webhook-signature", signature),
    ])
}

fn secrets(count: usize) -> Vec<SigningSecret> {
    (0..count)
        .map(|_| SigningSecret::generate().unwrap())
        .collect()
}

#[test]
fn standard_webhooks_accept_any_configured_secret_and_refuse_changed_bodies() {
    let all = secrets(3);
    let verifier = Verifier::StandardWebhooks {
        secrets: all.clone(),
    };
    let time = AT.to_string();
    for secret in &all {
        let signature = sign(&[secret], "m1", AT, BODY);
        let among = format!("v1a,xyz v1,AAAA v2,zz {signature} v1,!!");
        let good = signed("m1", &time, &among);
        for now in [AT - 300, AT, AT + 300] {
            let verified = verify(&good, BODY, &verifier, at(now)).unwrap();
            assert_eq!(verified.message_id, "m1");
        }
        for (headers, body, now) in [
            (&good, BODY, AT + 301),
            (&good, BODY, AT - 301),
            (&good, &b"{}"[..], AT),
            (&signed("m2", &time, &signature), BODY, AT),
            (&signed("m1", &(AT + 1).to_string(), &signature), BODY, AT),
            (&signed("m1", &format!("+{time}"), &signature), BODY, AT),
            (&signed("m1", "99999999999999999999", &signature), BODY, AT),
            (
                &signed("m1", &time, &signature.replace("v1,", "v2,")),
                BODY,
                AT,
            ),
            (&signed("m1", &time, ""), BODY, AT),
            (&HeaderMap::new(), BODY, AT),
        ] {
            let refused = verify(headers, body, &verifier, at(now));
            assert_eq!(refused, Err(InvalidSignature));
        }
        let svix = headers(&[
            ("svix-id", "m1"),
            ("svix-timestamp", &time),
            ("svix-signature", &signature),
        ]);
        assert!(verify(&svix, BODY, &verifier, at(AT)).is_ok());
        // A request with two values is refused, because it is unknown which one was signed.
        let mut twice = good.clone();
        twice.append("webhook-id", "m1".parse().unwrap());
        assert!(verify(&twice, BODY, &verifier, at(AT)).is_err());
    }
    let foreign = sign(&[&secrets(1)[0]], "m1", AT, BODY);
    assert!(verify(&signed("m1", &time, &foreign), BODY, &verifier, at(AT)).is_err());
}

#[test]
fn only_the_first_signatures_are_compared() {
    let all = secrets(1);
    let good = sign(&[&all[0]], "m1", AT, BODY);
    let verifier = Verifier::StandardWebhooks { secrets: all };
    let time = AT.to_string();
    let after = |count: usize| format!("{}{good}", "v1,AAAA ".repeat(count));
    assert!(verify(&signed("m1", &time, &after(63)), BODY, &verifier, at(AT)).is_ok());
    assert!(verify(&signed("m1", &time, &after(64)), BODY, &verifier, at(AT)).is_err());
}

#[test]
fn the_compatibility_header_has_a_timestamp() {
    let all = secrets(2);
    let value = sign_compat(&[&all[0], &all[1]], AT, BODY);
    let verifier_of = |secret: &SigningSecret, tolerance| Verifier::HmacTimestamped {
        header: HeaderName::from_static("x-webhook-signature"),
        secrets: vec![SharedSecret::new(secret.text())],
        tolerance: Duration::from_secs(tolerance),
    };
    let good = headers(&[("x-webhook-signature", &value)]);
    for secret in &all {
        assert!(verify(&good, BODY, &verifier_of(secret, 10), at(AT + 10)).is_ok());
        assert!(verify(&good, BODY, &verifier_of(secret, 10), at(AT - 11)).is_err());
        assert!(verify(&good, b"{}", &verifier_of(secret, 10), at(AT)).is_err());
    }
    let twice = headers(&[("x-webhook-signature", &format!("t=1,{value}"))]);
    assert!(verify(&twice, BODY, &verifier_of(&all[0], 10), at(AT)).is_err());
    assert!(verify(&good, BODY, &verifier_of(&secrets(1)[0], 10), at(AT)).is_err());
}

#[test]
fn plain_hmacs_are_verified_in_each_encoding() {
    // The example in GitHub's documentation, and RFC 2202 and RFC 4231, case 2.
    let cases = [
        (
            Algorithm::Sha256,
            Encoding::Hex,
            "sha256=",
            "It's a Secret to Everybody",
            "Hello, World!",
            "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17",
        ),
        (
            Algorithm::Sha1,
            Encoding::Hex,
            "",
            "Jefe",
            "what do ya want for nothing?",
            "EFFCDF6AE5EB2FA2D27416D5F184DF9C259A7C79",
        ),
        (
            Algorithm::Sha256,
            Encoding::Base64,
            "",
            "Jefe",
            "what do ya want for nothing?",
            "W9zBRr9gdU5qBCQmCJV1x1oAPwidJzmDnexYuWTsOEM=",
        ),
        (
            Algorithm::Sha512,
            Encoding::Base64,
            "",
            "Jefe",
            "what do ya want for nothing?",
            "Fkt6e/z4GeLjlfvnO1bgo4e9ZCIugx/WECcM1+olBVSXWL91wFqZSm0DT2X48Ob9yuqxo01Ka0tjbgcKOLznNw==",
        ),
    ];
    for (algorithm, encoding, prefix, secret, body, value) in cases {
        let verifier = Verifier::Hmac {
            header: HeaderName::from_static("x-signature"),
            algorithm,
            encoding,
            prefix: prefix.to_owned(),
            secrets: vec![SharedSecret::new("former"), SharedSecret::new(secret)],
        };
        let with_signature = |value: &str| headers(&[("x-signature", value)]);
        let verified = verify(&with_signature(value), body.as_bytes(), &verifier, at(0)).unwrap();
        assert_eq!(verified, verified_by_body(body.as_bytes()));
        assert!(verify(&with_signature(value), b"other", &verifier, at(0)).is_err());
        for wrong in [
            "",
            "sha256=",
            "sha256=7",
            &value[..value.len() - 2],
            "sha256=zz",
        ] {
            assert!(verify(&with_signature(wrong), body.as_bytes(), &verifier, at(0)).is_err());
        }
    }
}

#[test]
fn own_functions_must_return_a_valid_id() {
    let verifier_with_id = |id: &'static str| {
        Verifier::own(move |_, _| {
            Ok(Verified {
                message_id: id.to_owned(),
            })
        })
    };
    assert!(verify(&HeaderMap::new(), b"", &verifier_with_id("id"), at(0)).is_ok());
    assert!(verify(&HeaderMap::new(), b"", &verifier_with_id(""), at(0)).is_err());
    assert!(verify(&HeaderMap::new(), b"", &verifier_with_id("a b"), at(0)).is_err());
}

#[test]
fn debug_shows_no_secret() {
    let verifier = Verifier::HmacTimestamped {
        header: HeaderName::from_static("x"),
        secrets: vec![SharedSecret::new("hunter2")],
        tolerance: Duration::ZERO,
    };
    assert!(!format!("{verifier:?}").contains("hunter2"));
}
