//! A server that is killed between two writes leaves no partial state, and no user is locked out.
//!
//! Each case repeats one request. Each time the server stops at the next point: before a write,
//! before a commit, or after a commit. At this point the server is killed (on SQLite and Postgres),
//! or its store fails from this point on (in memory). Then the client, which got no response or an
//! error, retries.

#![allow(clippy::unwrap_used, missing_docs)] // in a test, a panic reports the failure

#[cfg(feature = "postgres")]
mod bus;
mod child;
mod grace;
mod stopping;

use std::time::Duration;

use child::{Answer, GOOD, NEW, Peer, Process, app};
use grace::{Cancellation, Purge, Request};
use linchpin::store::memory::Memory;
use serde_json::json;
use stopping::{Stop, Then, stopping};

#[path = "../../../../runtime/tests/support/around.rs"]
mod around;
#[cfg(feature = "postgres")]
#[path = "../../../../runtime/tests/support/postgres.rs"]
mod postgres_server;

/// The server that other tests kill.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "other tests run it in a child process"]
async fn serve() {
    child::serve().await;
}

/// The account of a case before its request, and its credentials.
struct Before {
    id: String,
    email: String,
    token: String,
    refresh: String,
    /// Another session.
    other: String,
}

/// A user with two sessions.
async fn registered_user(peer: &Peer, n: i64) -> Before {
    let email = format!("user{n}@x.test");
    let made = peer.register(&email).await;
    assert_eq!(made.status, 201, "{made:?}");
    let other = peer.login(&email, GOOD).await.text("token");
    Before {
        id: made.text("userId"),
        token: made.text("token"),
        refresh: made.text("refreshToken"),
        other,
        email,
    }
}

/// One request, and the checks after it, with or without a response.
trait Case {
    /// The grace period of deletions in seconds.
    const GRACE: u64 = 0;
    /// Seconds that pass before the request.
    const WAIT_SECONDS: u64 = 0;

    async fn before(peer: &Peer, n: i64) -> Before {
        registered_user(peer, n).await
    }

    async fn request(peer: &Peer, before: &Before) -> Option<Answer>;

    /// Checks the state after the request. `answer` is `None` if there was no response.
    async fn check(peer: &Peer, before: &Before, answer: Option<Answer>);
}

struct Registration;

impl Case for Registration {
    async fn before(_: &Peer, n: i64) -> Before {
        Before {
            id: String::new(),
            email: format!("user{n}@x.test"),
            token: String::new(),
            refresh: String::new(),
            other: String::new(),
        }
    }

    async fn request(peer: &Peer, before: &Before) -> Option<Answer> {
        peer.ask(
            "POST",
            "register",
            "",
            json!({ "email": before.email, "password": GOOD }),
        )
        .await
    }

    async fn check(peer: &Peer, before: &Before, answer: Option<Answer>) {
        let again = peer.register(&before.email).await;
        match (answer.map(|answer| answer.status), again.status) {
            (Some(201) | None, 409) | (None | Some(503), 201) => {}
            // The account was created, and a later step failed.
            (Some(503), 409) => {}
            other => panic!("{other:?} {again:?}"),
        }
        let login = peer.login(&before.email, GOOD).await;
        assert_eq!(
            login.status, 200,
            "the registered user can sign in: {login:?}"
        );
        assert_eq!(peer.me(&login.text("token")).await, 200);
    }
}

struct PasswordChange;

impl Case for PasswordChange {
    async fn request(peer: &Peer, before: &Before) -> Option<Answer> {
        peer.ask(
            "POST",
            "set-password",
            &before.token,
            json!({ "password": NEW, "currentPassword": GOOD }),
        )
        .await
    }

    async fn check(peer: &Peer, before: &Before, answer: Option<Answer>) {
        let (old, new) = (
            peer.login(&before.email, GOOD).await.status,
            peer.login(&before.email, NEW).await.status,
        );
        assert!(
            [(200, 401), (401, 200)].contains(&(old, new)),
            "exactly one password is valid: {old}, {new}"
        );
        let changed = new == 200;
        assert!(
            changed || answer.as_ref().is_none_or(|answer| answer.status == 503),
            "{answer:?}"
        );
        let sessions = (peer.me(&before.token).await, peer.me(&before.other).await);
        assert_eq!(
            sessions,
            (200, if changed { 401 } else { 200 }),
            "the other session ends with the old password"
        );
        if !changed {
            let again = Self::request(peer, before).await.unwrap();
            assert_eq!(again.status, 200, "{again:?}");
        }
    }
}

struct Deletion;

impl Case for Deletion {
    async fn request(peer: &Peer, before: &Before) -> Option<Answer> {
        peer.ask("DELETE", "me", &before.token, json!({ "password": GOOD }))
            .await
    }

    async fn check(peer: &Peer, before: &Before, answer: Option<Answer>) {
        let login = peer.login(&before.email, GOOD).await.status;
        let sessions = (peer.me(&before.token).await, peer.me(&before.other).await);
        match login {
            200 => {
                assert!(
                    answer.as_ref().is_none_or(|answer| answer.status == 503),
                    "{answer:?}"
                );
                assert_eq!(sessions, (200, 200), "the request had no effect");
                let again = Self::request(peer, before).await.unwrap();
                assert_eq!(again.status, 200, "{again:?}");
            }
            401 => assert_eq!(sessions, (401, 401), "all sessions have ended"),
            other => panic!("{other}"),
        }
        let new = peer.register(&before.email).await;
        assert_eq!(new.status, 201, "the address is free: {new:?}");
    }
}

struct Refresh;

impl Case for Refresh {
    async fn request(peer: &Peer, before: &Before) -> Option<Answer> {
        peer.ask(
            "POST",
            "refresh",
            "",
            json!({ "refreshToken": before.refresh }),
        )
        .await
    }

    async fn check(peer: &Peer, before: &Before, _: Option<Answer>) {
        // A client without a response tries again, and continues.
        let again = Self::request(peer, before).await.unwrap();
        assert_eq!(again.status, 200, "{again:?}");
        assert_eq!(peer.me(&again.text("token")).await, 200);
        let next = peer
            .post(
                "refresh",
                json!({ "refreshToken": again.text("refreshToken") }),
            )
            .await;
        assert_eq!(next.status, 200, "{next:?}");
    }
}

/// Kills a server at each point, until a request ends before the point.
async fn run_with_kills<C: Case>(url: &str) {
    let (mut points, mut passed) = (0, 0);
    let mut process = Process::start(url, C::GRACE, passed);
    loop {
        let peer = process.peer.clone();
        let before = C::before(&peer, points).await;
        if C::WAIT_SECONDS > 0 {
            passed += C::WAIT_SECONDS;
            process.pass(C::WAIT_SECONDS).await;
        }
        process.stop_after(points).await;
        let answer = tokio::select! {
            biased;
            () = process.wait_until_stopped() => None,
            answer = C::request(&peer, &before) => answer,
        };
        drop(process);
        process = Process::start(url, C::GRACE, passed);
        let done = answer.is_some();
        C::check(&process.peer, &before, answer).await;
        if done {
            break;
        }
        points += 1;
    }
    assert!(points >= 3, "the server stopped at {points} points only");
}

/// Makes the store fail at each point, until a request ends before the point.
async fn with_failing_store<C: Case>() {
    let stop = Stop::new(|| Then::Fail);
    let (running, clock) = app(stopping(Memory::new(), &stop), C::GRACE).await;
    let peer = Peer::at(running.address().port());
    let mut points = 0;
    loop {
        let before = C::before(&peer, points).await;
        clock.advance(Duration::from_secs(C::WAIT_SECONDS));
        stop.after(points);
        let answer = C::request(&peer, &before).await;
        let stopped = stop.has_stopped();
        stop.never();
        assert!(
            answer
                .as_ref()
                .is_some_and(|answer| answer.status < 500 || answer.status == 503),
            "{answer:?}"
        );
        C::check(&peer, &before, answer).await;
        if !stopped {
            break;
        }
        points += 1;
    }
    assert!(points >= 3, "the server stopped at {points} points only");
    running.stop().await.unwrap();
}

macro_rules! cases {
    ($($name:ident: $case:ident),* $(,)?) => {
        mod memory {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::with_failing_store::<super::$case>().await;
            })*
        }
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                let folder = tempfile::tempdir().unwrap();
                super::run_with_kills::<super::$case>(&format!("sqlite:{}", folder.path().join("crash.db").display())).await;
            })*
        }
        #[cfg(feature = "postgres")]
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::run_with_kills::<super::$case>(&crate::postgres_server::fresh_url()).await;
            })*
        }
    };
}

cases!(
    registration: Registration,
    password_change: PasswordChange,
    deletion: Deletion,
    deletion_with_grace: Request,
    deletion_called_off: Cancellation,
    deletion_that_is_due: Purge,
    refresh: Refresh,
);
