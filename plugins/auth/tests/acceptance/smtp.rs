//! Mail over a real SMTP server.

use std::sync::Arc;

use linchpin_auth::SmtpMailer;
use serde_json::{Value as Json, json};

use crate::cases;
use crate::server::{GOOD, Server, Store};
use crate::sink::Sink;

cases! {
    every_store: mail_waits_while_the_server_is_down;
    one_store: mail_is_sent_by_smtp;
}

async fn mailing(store: &Store, server: &str) -> Server {
    let mailer = Arc::new(SmtpMailer::new(server, "Accounts <accounts@example.test>").unwrap());
    let with_mailer = |auth: linchpin_auth::Auth| {
        auth.configure(|config| {
            config.auth.mailer = Some(mailer);
            config.auth.email_verification.enabled = true;
            config.auth.email_verification.link_base_url = Some("https://app.test/verify".into());
            config.auth.password_reset.link_base_url = Some("https://app.test/reset".into());
        })
    };
    store.app_with(with_mailer).await
}

/// The token of the link in the latest mail to an address.
fn token_in(mails: &[Json], to: &str, page: &str) -> String {
    let mail = mails
        .iter()
        .rev()
        .find(|mail| mail["to"][0] == to && mail["text"].as_str().unwrap().contains(page));
    let mail = mail.unwrap_or_else(|| panic!("no mail to {to} with {page} in {mails:?}"));
    assert_eq!(mail["from"], "accounts@example.test");
    let (_, rest) = mail["text"]
        .as_str()
        .unwrap()
        .split_once("#token=")
        .unwrap();
    rest.split_whitespace().next().unwrap().to_owned()
}

async fn mail_is_sent_by_smtp(store: Store) {
    let sink = Sink::start();
    let app = mailing(&store, &sink.url()).await;
    let ada = app.register("a@x.test").await;
    let token = token_in(
        &sink.received(1).await,
        "a@x.test",
        "https://app.test/verify",
    );
    assert_eq!(
        app.post("/auth/verify-email", json!({ "token": token }))
            .await
            .status,
        200
    );
    assert_eq!(app.me(&ada.token).await.json()["emailVerified"], true);
    // The owner gets a mail about every change of the password.
    let check_mail = |mails: &[Json], subject: &str, what: &str| {
        let mail = mails
            .iter()
            .find(|mail| mail["subject"] == subject)
            .unwrap_or_else(|| panic!("no `{subject}` in {mails:?}"));
        assert_eq!(
            (&mail["to"], &mail["from"]),
            (&json!(["a@x.test"]), &json!("accounts@example.test"))
        );
        assert_eq!(mail["autoSubmitted"], "auto-generated");
        assert!(
            ["text", "html"]
                .iter()
                .all(|body| mail[*body].as_str().unwrap().contains(what)),
            "{mail}"
        );
    };
    let body = json!({ "password": "amber-walrus-17-dune", "currentPassword": GOOD });
    let set = app
        .with(&ada.token, "POST", "/auth/set-password", Some(body))
        .await;
    assert_eq!(set.status, 200, "{set:?}");
    check_mail(
        &sink.received(2).await,
        "Your password was changed",
        "was changed on",
    );

    assert_eq!(
        app.post("/auth/forgot-password", json!({ "email": "a@x.test" }))
            .await
            .status,
        200
    );
    let token = token_in(
        &sink.received(3).await,
        "a@x.test",
        "https://app.test/reset",
    );
    let reset = app
        .post(
            "/auth/reset-password",
            json!({ "token": token, "password": "brisk-lantern-47-reef" }),
        )
        .await;
    assert_eq!(reset.status, 200, "{reset:?}");
    let mails = sink.received(4).await;
    check_mail(&mails, "Your password was reset", "was reset on");
    // No mail contains a password.
    let passwords = [GOOD, "amber-walrus", "brisk-lantern"];
    assert!(
        mails.len() == 4
            && !passwords
                .iter()
                .any(|password| mails.iter().any(|mail| mail.to_string().contains(password))),
        "{mails:?}"
    );
}

async fn mail_waits_while_the_server_is_down(store: Store) {
    let sink = Sink::start();
    let (port, url) = (sink.port(), sink.url());
    let app = mailing(&store, &url).await;
    let made = app
        .post(
            "/auth/register",
            json!({ "email": "a@x.test", "password": GOOD }),
        )
        .await;
    let asked = app
        .post("/auth/forgot-password", json!({ "email": "a@x.test" }))
        .await;
    sink.received(2).await;
    drop(sink);
    let shape = |reply: &crate::server::Reply| {
        let mut names: Vec<String> = reply.json().as_object().unwrap().keys().cloned().collect();
        names.sort();
        (reply.status, names)
    };
    let while_down = app
        .post(
            "/auth/register",
            json!({ "email": "b@x.test", "password": GOOD }),
        )
        .await;
    assert_eq!(shape(&while_down), shape(&made));
    let asked_while_down = app
        .post("/auth/forgot-password", json!({ "email": "b@x.test" }))
        .await;
    assert_eq!(
        (asked_while_down.status, &asked_while_down.body),
        (asked.status, &asked.body)
    );

    let restarted = Sink::at(port);
    // By the clock of the app, the pause between two attempts is at most an hour.
    let mails = tokio::time::timeout(std::time::Duration::from_mins(1), async {
        loop {
            app.advance(60).await;
            let messages = restarted.messages();
            if messages.len() >= 2 {
                return messages;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    });
    let mails = mails.await.expect("mail arrives once the server is back");
    let token = token_in(&mails, "b@x.test", "https://app.test/verify");
    assert_eq!(
        app.post("/auth/verify-email", json!({ "token": token }))
            .await
            .status,
        200
    );
}
