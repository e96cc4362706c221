//! A member of the noticeboard adds a passkey and signs in with it, in Chromium with its virtual
//! authenticator.

#![allow(missing_docs)]

use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::Duration;

use example_support::ports::free_port;
use example_support::session::command;

/// This test uses only a part of the module.
#[allow(dead_code, clippy::unwrap_used)]
#[path = "../../../runtime/tests/support/chromium.rs"]
mod chromium;

use chromium::Browser;

/// A running program. Dropping it kills it, also if the test panics.
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
    let port = free_port();
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
    let (sender, mailed) = tokio::sync::oneshot::channel();
    // Reads all output, so that the program never waits for a reader.
    std::thread::spawn(move || {
        let mut sender = Some(sender);
        for line in console.lines().map_while(Result::ok) {
            if let (Some((_, token)), true) = (line.split_once("#token="), sender.is_some()) {
                let _ = sender
                    .take()
                    .map(|sender| sender.send(token.trim().to_owned()));
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
    // Only an account with a verified address can add a passkey.
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
