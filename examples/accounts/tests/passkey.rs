//! A member of the noticeboard adds a passkey and signs in with it: in Chromium, with an
//! authenticator that Chromium itself plays.

#![allow(missing_docs)]

use std::io::{BufRead, BufReader};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::time::Duration;

use example_support::session::command;

/// Other tests use more of this module.
#[allow(dead_code, clippy::unwrap_used)]
#[path = "../../../runtime/tests/support/chromium.rs"]
mod chromium;

use chromium::Browser;

/// A program that ends with the test, whatever becomes of it.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_signs_in_with_a_passkey() {
    let folder = tempfile::tempdir().expect("a folder");
    let port = TcpListener::bind("127.0.0.1:0")
        .and_then(|listener| listener.local_addr())
        .expect("a free port")
        .port();
    let origin = format!("http://localhost:{port}");
    let mut program = command(env!("CARGO_BIN_EXE_accounts"), folder.path());
    program
        .env("LINCHPIN_PORT", port.to_string())
        .env("LINCHPIN_AUTH_PASSKEYS_ORIGINS", &origin);
    let mut app = Running(
        program
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the application starts"),
    );
    let console = BufReader::new(app.0.stdout.take().expect("its console"));
    let (tell, mailed) = tokio::sync::oneshot::channel();
    // Reads all output, so that the program never waits for a reader.
    std::thread::spawn(move || {
        let mut tell = Some(tell);
        for line in console.lines().map_while(Result::ok) {
            if let (Some((_, token)), true) = (line.split_once("#token="), tell.is_some()) {
                let _ = tell.take().map(|tell| tell.send(token.trim().to_owned()));
            }
        }
    });
    for _ in 0..600 {
        if TcpStream::connect(("127.0.0.1", port)).is_ok() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let mut browser = Browser::start().await;
    browser.plug_in(true).await;
    browser
        .open(&format!("{origin}/auth/ui/register?returnTo=/notices/page"))
        .await;
    browser
        .submit(
            "main form",
            &[
                ("identifier", "ada@example.test"),
                ("password", "violet-otter-91-lamp"),
            ],
        )
        .await;
    assert_eq!(
        browser.path().await,
        "/notices/page",
        "{}",
        browser.seen().await
    );
    // A passkey needs a verified mailbox.
    let token = mailed.await.expect("a link on the console");
    let proved = browser
        .post(
            "/auth/verify-email",
            &serde_json::json!({ "token": token }),
            None,
        )
        .await;
    assert_eq!(proved["status"], 200, "{proved}");
    browser.open(&format!("{origin}/auth/ui/security")).await;
    browser
        .submit("form[data-passkey=add]", &[("name", "My laptop")])
        .await;
    assert!(
        browser.seen().await.contains("The passkey was added."),
        "{}",
        browser.seen().await
    );
    browser.submit("header form", &[]).await;
    assert_eq!(browser.path().await, "/auth/ui/sign-in?done=signed-out");
    browser
        .open(&format!("{origin}/auth/ui/sign-in?returnTo=/notices/page"))
        .await;
    browser.submit("form[data-passkey=sign-in]", &[]).await;
    assert_eq!(
        browser.path().await,
        "/notices/page",
        "{}",
        browser.seen().await
    );
    assert!(
        browser
            .seen()
            .await
            .contains("You are signed in; roles: member."),
        "{}",
        browser.seen().await
    );
    browser.stop().await;
}
