use std::sync::{Arc, Mutex};

use linchpin::Code;
use linchpin::axum;
use linchpin::axum::extract::Path;
use linchpin::axum::http::{HeaderMap, StatusCode};

use super::super::breach::{BreachOnError, Breaches};
use super::super::policy::Password;
use super::*;
use crate::secret::SecretText;

fn password(text: &str) -> Password {
    Password::for_check(&SecretText::new(text), 128).unwrap()
}

/// SHA-1 of "password" is 5BAA61E4C9B93F3F0682250B6CF8331B7EE68FD8.
const PREFIX: &str = "5BAA6";
const SUFFIX: &str = "1E4C9B93F3F0682250B6CF8331B7EE68FD8";

/// A server of the range protocol: records the request and sends a fixed response.
async fn server(status: u16, answer: impl Into<String>) -> (RangeChecker, Arc<Mutex<Vec<String>>>) {
    let requests = Arc::new(Mutex::new(Vec::new()));
    let (seen, answer) = (requests.clone(), answer.into());
    let handler = move |Path(prefix): Path<String>, headers: HeaderMap| async move {
        seen.lock().unwrap().push(format!(
            "{prefix} {}",
            headers["add-padding"].to_str().unwrap()
        ));
        (StatusCode::from_u16(status).unwrap(), answer)
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}/range/", listener.local_addr().unwrap());
    let app = axum::Router::new().route("/range/{prefix}", axum::routing::get(handler));
    tokio::spawn(async move { axum::serve(listener, app).await });
    (RangeChecker::at(base).unwrap(), requests)
}

async fn check(checker: impl BreachChecker, on_error: BreachOnError) -> Result<()> {
    Breaches {
        checker: Some(Arc::new(checker)),
        on_error,
    }
    .check(&password("password"))
    .await
}

#[tokio::test]
async fn only_five_hash_characters_are_sent_and_a_breached_password_is_refused() {
    let (checker, requests) = server(
        200,
        format!("0018A45C4D1DEF81644B54AB7F969B88D65:3\r\n{SUFFIX}:52579\r\n"),
    )
    .await;
    let error = check(checker, BreachOnError::Allow).await.unwrap_err();
    assert_eq!(
        (error.code().as_str(), error.details()[0].path.as_str()),
        ("password_breached", "password")
    );
    assert_eq!(*requests.lock().unwrap(), [format!("{PREFIX} true")]);
}

#[tokio::test]
async fn unlisted_passwords_and_padding_lines_pass() {
    for answer in [
        format!("0018A45C4D1DEF81644B54AB7F969B88D65:3\r\n{SUFFIX}:0\r\n"),
        String::new(),
    ] {
        let (checker, _) = server(200, answer).await;
        assert!(check(checker, BreachOnError::Refuse).await.is_ok());
    }
}

#[tokio::test]
async fn a_failing_server_is_handled_as_configured() {
    for (status, answer) in [
        (500, String::new()),
        (404, String::new()),
        (302, String::new()),
        (200, "<html>".to_owned()),
        (200, "A:1\n".repeat(300_000)),
    ] {
        let (checker, _) = server(status, answer.clone()).await;
        assert!(
            check(checker.clone(), BreachOnError::Allow).await.is_ok(),
            "{status}"
        );
        let error = check(checker, BreachOnError::Refuse).await.unwrap_err();
        assert_eq!(error.code(), Code::Unavailable, "{status}");
    }
}

struct Silent;

impl BreachChecker for Silent {
    fn is_breached<'a>(&'a self, _: &'a str, _: &'a str) -> BoxFuture<'a, Result<bool>> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test(start_paused = true)]
async fn a_breach_check_times_out_after_three_seconds() {
    let start = tokio::time::Instant::now();
    assert_eq!(
        check(Silent, BreachOnError::Refuse)
            .await
            .unwrap_err()
            .code(),
        Code::Unavailable
    );
    assert!(check(Silent, BreachOnError::Allow).await.is_ok());
    assert_eq!(
        start.elapsed(),
        2 * TIMEOUT,
        "the paused clock advances only while all tasks wait"
    );
}

#[tokio::test]
async fn without_a_checker_every_password_passes() {
    assert!(
        Breaches::default()
            .check(&password("password"))
            .await
            .is_ok()
    );
}

#[test]
fn malformed_lines_of_the_range_response_are_recognised() {
    assert_eq!(
        listed(&format!("{}:1", SUFFIX.to_lowercase()), SUFFIX),
        Some(true)
    );
    assert_eq!(listed("abc", SUFFIX), None);
    assert_eq!(listed("abc:x", SUFFIX), None);
    assert_eq!(listed("\r\n\n", SUFFIX), Some(false));
}
