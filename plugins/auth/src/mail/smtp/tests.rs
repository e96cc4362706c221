use std::collections::BTreeMap;

use super::*;
use crate::mail::{MailKind, Templates};
use crate::testing::sink::Sink;

fn mail(to: &str, subject: &str) -> Mail {
    let vars = BTreeMap::from([
        (
            "link".to_owned(),
            "https://x.test/reset#token=abc".to_owned(),
        ),
        ("app".to_owned(), "Söhne".to_owned()),
    ]);
    let mail = Templates::default().render(to.into(), MailKind::PasswordReset, None, vars);
    Mail {
        subject: subject.into(),
        ..mail
    }
}

#[tokio::test]
async fn a_server_receives_the_text_and_the_html_body() {
    let sink = Sink::start();
    let mailer = SmtpMailer::new(&sink.url(), "Accounts <accounts@example.test>").unwrap();
    mailer
        .send(mail("alice@example.test", "Grüße"))
        .await
        .unwrap();
    mailer
        .send(mail("bob@xn--bcher-kva.example", "Two"))
        .await
        .unwrap();
    let received = sink.received(2).await;
    let first = &received[0];
    assert_eq!(
        (first["from"].as_str(), first["to"][0].as_str()),
        (Some("accounts@example.test"), Some("alice@example.test"))
    );
    assert_eq!(
        (first["subject"].as_str(), first["autoSubmitted"].as_str()),
        (Some("Grüße"), Some("auto-generated"))
    );
    assert!(
        first["text"]
            .as_str()
            .unwrap()
            .contains("https://x.test/reset#token=abc"),
        "{first}"
    );
    assert!(
        first["html"]
            .as_str()
            .unwrap()
            .contains("<a href=\"https://x.test/reset#token=abc\">")
            && first["html"].as_str().unwrap().contains("Söhne")
    );
    assert_eq!(received[1]["to"][0], "bob@xn--bcher-kva.example");
}

#[tokio::test]
async fn an_address_or_a_subject_cannot_add_a_header() {
    let sink = Sink::start();
    let mailer = SmtpMailer::new(&sink.url(), "accounts@example.test").unwrap();
    for to in [
        "alice@example.test\r\nBcc: eve@evil.test",
        "alice@example.test, eve@evil.test",
        "",
        "<alice@example.test>",
    ] {
        assert!(mailer.send(mail(to, "x")).await.is_err(), "{to:?}");
    }
    // Templates replace line breaks. A subject that still has one must not add a header.
    let _ = mailer
        .send(mail(
            "alice@example.test",
            "x\r\nBcc: eve@evil.test\r\n\r\nbody",
        ))
        .await;
    mailer
        .send(mail("alice@example.test", "last"))
        .await
        .unwrap();
    for received in sink.received(1).await {
        assert!(
            received["bcc"].is_null()
                && received["to"] == serde_json::json!(["alice@example.test"]),
            "{received}"
        );
    }
}

#[tokio::test]
async fn a_server_that_is_down_is_reported_as_unavailable() {
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let mailer =
        SmtpMailer::new(&format!("smtp://127.0.0.1:{port}"), "accounts@example.test").unwrap();
    assert_eq!(
        mailer
            .send(mail("alice@example.test", "x"))
            .await
            .unwrap_err()
            .code(),
        linchpin::Code::Unavailable
    );
}

#[test]
fn only_a_server_on_loopback_may_be_unencrypted() {
    for server in [
        "smtp://mail.example.test",
        "smtp://mail.example.test?tls=opportunistic",
        "smtp://192.0.2.1:25",
        "http://x",
        "mail",
        "smtp://127.0.0.1.evil.test",
    ] {
        assert!(SmtpMailer::new(server, "a@x.test").is_err(), "{server}");
    }
    for server in [
        "smtps://u:p@mail.example.test",
        "smtp://mail.example.test?tls=required",
        "smtp://127.0.0.1:2525",
        "smtp://localhost",
        "smtp://[::1]:25",
    ] {
        assert!(SmtpMailer::new(server, "a@x.test").is_ok(), "{server}");
    }
    let refused = SmtpMailer::new("smtp://user:hunter2@mail.example.test", "a@x.test").unwrap_err();
    assert!(!refused.contains("hunter2"));
    assert!(
        !format!(
            "{:?}",
            SmtpMailer::new("smtps://user:hunter2@mail.example.test", "a@x.test").unwrap()
        )
        .contains("hunter2")
    );
    assert!(SmtpMailer::new("smtps://mail.example.test", "nobody").is_err());
}
