//! Valid and invalid tokens.

use std::sync::Arc;

use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use linchpin_server::axum::http::header::AUTHORIZATION;

use linchpin_core::{Code, Timestamp};
use linchpin_server::SigningSecret;
use linchpin_server::http::{ActorResolver, Origin, RequestId, Resolution};

use super::command::token;
use super::verifier::{LEEWAY, MAX_TOKEN_BYTES, Verifier};

const SECRET: &str = "a-secret-for-tests-of-32-bytes!!!!";
const NOW: i64 = 1_800_000_000;

fn verifier() -> Verifier {
    let secrets: Vec<_> = SigningSecret::new(SECRET).into_iter().collect();
    Verifier::new(&secrets, Arc::new(|| Timestamp::from_millis(NOW * 1000)))
}

fn signed(header: &Header, secret: &str, claims: &serde_json::Value) -> String {
    encode(header, claims, &EncodingKey::from_secret(secret.as_bytes())).unwrap_or_default()
}

fn hs256(claims: serde_json::Value) -> String {
    signed(&Header::new(Algorithm::HS256), SECRET, &claims)
}

#[test]
fn a_valid_token_becomes_the_actor() {
    let token = hs256(
        serde_json::json!({"sub": "alice", "exp": NOW + 1, "nbf": NOW, "sid": "s", "roles": ["admin"], "tenant": "t", "plan": "pro"}),
    );
    let verifier = verifier();
    // The second call reads the cached token.
    for _ in 0..2 {
        let actor = verifier.actor(&token).ok();
        let actor = actor.as_deref();
        assert_eq!(actor.and_then(|a| a.id.as_deref()), Some("alice"));
        assert!(actor.is_some_and(|a| a.roles == ["admin"]
            && a.tenant_id.as_deref() == Some("t")
            && a.session_id.as_deref() == Some("s")));
        assert!(actor.is_some_and(|a| a.claims["plan"] == "pro"));
    }
}

#[test]
fn invalid_tokens_are_refused() {
    let good = serde_json::json!({"sub": "alice", "exp": NOW + 100});
    let none = {
        use base64::Engine;
        let b64 = |t: &str| base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(t);
        format!(
            "{}.{}.",
            b64(r#"{"alg":"none","typ":"JWT"}"#),
            b64(&good.to_string())
        )
    };
    let bad = [
        none,
        signed(&Header::new(Algorithm::HS384), SECRET, &good),
        signed(&Header::new(Algorithm::HS512), SECRET, &good),
        signed(
            &Header::new(Algorithm::HS256),
            "another-secret-of-at-least-32-bytes",
            &good,
        ),
        signed(
            &Header {
                typ: Some("at+jwt".into()),
                ..Header::new(Algorithm::HS256)
            },
            SECRET,
            &good,
        ),
        signed(
            &Header {
                typ: None,
                crit: Some(vec!["exp".into()]),
                ..Header::new(Algorithm::HS256)
            },
            SECRET,
            &good,
        ),
        signed(
            &Header {
                jku: Some("https://evil.example".into()),
                ..Header::new(Algorithm::HS256)
            },
            SECRET,
            &good,
        ),
        hs256(serde_json::json!({"sub": "alice", "exp": NOW - LEEWAY})),
        hs256(serde_json::json!({"sub": "alice", "exp": i64::MIN})),
        hs256(serde_json::json!({"sub": "alice", "exp": NOW + 100, "nbf": NOW + LEEWAY + 1})),
        hs256(serde_json::json!({"sub": "alice", "exp": NOW + 100, "nbf": i64::MAX})),
        hs256(serde_json::json!({"sub": "alice", "exp": NOW + 100, "nbf": "now"})),
        hs256(serde_json::json!({"sub": "alice", "exp": NOW + 100, "roles": "admin"})),
        hs256(serde_json::json!({"sub": "alice", "exp": NOW + 100, "roles": [1]})),
        hs256(serde_json::json!({"sub": "a\u{0}b", "exp": NOW + 100})),
        hs256(serde_json::json!({"sub": "a\nb", "exp": NOW + 100})),
        hs256(serde_json::json!({"sub": "a\u{7f}", "exp": NOW + 100})),
        hs256(serde_json::json!({"sub": "alice", "sid": "\u{1b}[2J", "exp": NOW + 100})),
        hs256(serde_json::json!({"sub": "alice", "roles": ["a\u{85}b"], "exp": NOW + 100})),
        hs256(serde_json::json!({"sub": "alice", "exp": NOW + 100, "tenant": ""})),
        hs256(serde_json::json!({"sub": "alice"})),
        hs256(serde_json::json!({"exp": NOW + 100})),
        hs256(serde_json::json!({"sub": "", "exp": NOW + 100})),
        hs256(serde_json::json!({"sub": 7, "exp": NOW + 100})),
        hs256(serde_json::json!({"sub": "alice", "exp": "never"})),
        String::new(),
        "a.b.c".to_owned(),
        "..".to_owned(),
        format!("{}.", hs256(good.clone())),
        hs256(good.clone())
            .rsplit_once('.')
            .map(|(body, _)| format!("{body}."))
            .unwrap_or_default(),
        "x".repeat(MAX_TOKEN_BYTES + 1),
    ];
    let verifier = verifier();
    for token in bad {
        assert_eq!(
            verifier.actor(&token).err().map(|e| e.code()),
            Some(Code::Unauthorized),
            "{token}"
        );
    }
}

#[test]
fn the_first_secret_signs_and_all_verify() {
    let secrets: Vec<_> = ["a-new-secret-for-tests-of-32-bytes", SECRET]
        .into_iter()
        .filter_map(|s| SigningSecret::new(s).ok())
        .collect();
    let verifier = Verifier::new(&secrets, Arc::new(Timestamp::system_now));
    let args = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let new = token(
        &args("--sub alice --role admin --role editor --tenant t --sid s --ttl 90s"),
        &secrets,
    )
    .unwrap();
    let old = token(&args("--sub bob"), &secrets[1..]).unwrap();
    let alice = verifier.actor(&new).unwrap();
    assert_eq!(
        (
            alice.id.as_deref(),
            alice.tenant_id.as_deref(),
            alice.session_id.as_deref()
        ),
        (Some("alice"), Some("t"), Some("s"))
    );
    assert_eq!(alice.roles, ["admin", "editor"]);
    assert_eq!(verifier.actor(&old).unwrap().id.as_deref(), Some("bob"));
    assert!(
        Verifier::new(&secrets[1..], Arc::new(Timestamp::system_now))
            .actor(&new)
            .is_err(),
        "a verifier without the new secret accepts its token"
    );
}

#[test]
fn the_token_command_reports_invalid_arguments() {
    let secrets: Vec<_> = SigningSecret::new(SECRET).into_iter().collect();
    for (line, text) in [
        ("--role a", "`--sub` is required"),
        ("--sub", "needs a value"),
        ("--sub a --rol b", "did you mean `--role`?"),
        ("--sub a --ttl 10", "not a duration"),
    ] {
        let arguments: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let error = token(&arguments, &secrets).unwrap_err();
        assert!(error.to_string().contains(text), "{line}: {error}");
    }
}

#[test]
fn only_a_single_bearer_token_is_accepted() {
    let verifier = verifier();
    let good = hs256(serde_json::json!({"sub": "alice", "exp": NOW + 1}));
    let resolve = |headers: &[&str]| {
        let mut request = linchpin_server::axum::http::Request::builder();
        for header in headers {
            request = request.header(AUTHORIZATION, *header);
        }
        let origin = Origin {
            request_id: &RequestId::of(&linchpin_server::axum::http::HeaderMap::new()),
            from: None,
        };
        match verifier.resolve(&request.body(()).unwrap().into_parts().0, origin) {
            Resolution::Ready(actor) => actor.map(|a| a.id.clone()).map_err(|e| e.code()),
            Resolution::Later(_) => panic!("not resolved at once"),
        }
    };
    assert_eq!(resolve(&[]), Ok(None));
    assert_eq!(
        resolve(&[&format!("bEARER {good}")]),
        Ok(Some("alice".to_owned()))
    );
    let bearer = format!("Bearer {good}");
    for bad in [
        &["Bearer"][..],
        &["Bearer "],
        &[""],
        &["Basic YTpi"],
        &[&good],
        &[&bearer, &bearer],
        &["Bearer a b"],
    ] {
        assert_eq!(resolve(bad), Err(Code::Unauthorized), "{bad:?}");
    }
}

#[test]
fn the_cache_weight_counts_large_claims() {
    let verifier = verifier();
    let token = hs256(serde_json::json!({"sub": "alice", "exp": NOW + 10, "list": vec![1; 2000]}));
    assert!(verifier.actor(&token).is_ok() && token.len() < MAX_TOKEN_BYTES);
    assert!(
        verifier.verified.weight() >= 2000 * size_of::<serde_json::Value>() as u64,
        "{}",
        verifier.verified.weight()
    );
}

#[test]
fn a_cached_token_expires() {
    let now = Arc::new(std::sync::atomic::AtomicI64::new(NOW));
    let clock = Arc::clone(&now);
    let secrets: Vec<_> = SigningSecret::new(SECRET).into_iter().collect();
    let verifier = Verifier::new(
        &secrets,
        Arc::new(move || {
            Timestamp::from_millis(clock.load(std::sync::atomic::Ordering::SeqCst) * 1000)
        }),
    );
    let token = hs256(serde_json::json!({"sub": "alice", "exp": NOW + 10}));
    assert!(verifier.actor(&token).is_ok());
    now.store(NOW + 10 + LEEWAY, std::sync::atomic::Ordering::SeqCst);
    assert!(verifier.actor(&token).is_err());
    // If the clock is set back, the token stays expired. Another token with the same `exp` is also
    // refused, although it was never verified before.
    now.store(NOW, std::sync::atomic::Ordering::SeqCst);
    assert!(verifier.actor(&token).is_err());
    assert!(
        verifier
            .actor(&hs256(serde_json::json!({"sub": "bob", "exp": NOW + 10})))
            .is_err()
    );
    assert!(
        verifier
            .actor(&hs256(serde_json::json!({"sub": "bob", "exp": NOW + 100})))
            .is_ok()
    );
}

#[tokio::test]
async fn the_credential_of_a_connection_expires_with_its_token() {
    use linchpin_server::http::{CredentialUse, Credentials};

    let verifier = verifier();
    let token = hs256(serde_json::json!({"sub": "alice", "exp": NOW + 60, "tenant": "t"}));
    let found = verifier.of_token(&token).await.expect("an answer");
    let found = found.expect("a good token");
    assert_eq!(found.actor.id.as_deref(), Some("alice"));
    assert_eq!(
        found.expires_at,
        Some(Timestamp::from_millis((NOW + 60) * 1000))
    );
    let again = verifier.again(&found, CredentialUse::Check).await;
    assert!(
        again
            .expect("an answer")
            .is_some_and(|again| again.is_of_same_caller(&found))
    );
}

#[tokio::test]
async fn a_credential_is_read_from_exactly_one_bearer_header() {
    use linchpin_server::axum::http::{HeaderMap, HeaderValue};
    use linchpin_server::http::{CredentialPlace, Credentials};

    let verifier = verifier();
    let token = hs256(serde_json::json!({"sub": "alice", "exp": NOW + 60, "tenant": "t"}));
    let headers = |values: &[&str]| {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(AUTHORIZATION, HeaderValue::from_str(value).expect("text"));
        }
        headers
    };
    let good = format!("Bearer {token}");
    for (sent, place, is_good) in [
        (vec![], None, false),
        (vec![&*good], Some(CredentialPlace::Header), true),
        (vec![&*good, &*good], Some(CredentialPlace::Header), false),
        (vec!["Bearer x"], Some(CredentialPlace::Header), false),
        (vec!["Basic x"], Some(CredentialPlace::Header), false),
    ] {
        let headers = headers(&sent);
        assert_eq!(verifier.presented(&headers), place, "{sent:?}");
        let found = verifier.of_headers(&headers).await.expect("an answer");
        assert_eq!(found.is_some(), is_good, "{sent:?}");
    }
    assert!(verifier.of_token("").await.expect("an answer").is_none());
}
