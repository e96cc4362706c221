//! Two processes of one app on one Postgres. A session that ends in one process is refused by the
//! other as soon as the bus delivers the message, and within `session.cacheSeconds` while the bus
//! is disconnected.
//!
//! The clock of each process does not advance until the test moves it, so no cache entry expires by
//! itself: a refusal by the other process proves that the bus delivered the message.

use std::io::BufRead;
use std::sync::Arc;
use std::time::Duration;

use linchpin::prelude::*;
use linchpin::store::postgres::PostgresOptions;
use linchpin_auth::{
    Argon2Cost, Auth, AuthService, Clock, Env, FakeClock, Limit, NewUser, PostgresBus, SecretText,
};
use serde_json::{Value as Json, json};

use crate::child::{GOOD, NEW, Process, ROOT, URL};
use crate::postgres_server::{Server, execute, rows};

/// Seconds for which a session is cached.
const CACHE_SECONDS: i64 = 30;
/// Number of checks for a change of the other process, every 10 ms, before the test fails.
const MAX_CHECKS: usize = 6000;

/// A server process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "other tests run it in a child process"]
async fn serve() {
    let Ok(url) = std::env::var(URL) else { return };
    let clock = Arc::new(FakeClock::at(
        Timestamp::parse("2026-03-04T05:06:07.008Z").unwrap(),
    ));
    let bus = Arc::new(PostgresBus::new(&PostgresOptions::new(url.as_str())).unwrap());
    let env = Env {
        clock: Arc::clone(&clock) as _,
        ..Env::system()
    };
    let auth = Auth::new()
        .roles(["admin", "member"])
        .default_role("member")
        .env(env)
        .configure(|config| {
            config.auth.password.argon2 = Argon2Cost::OF_TESTS;
            config.auth.session.cache_seconds = CACHE_SECONDS.unsigned_abs();
            config.auth.session.bus = Some(bus);
            config.auth.admin_role = Some("admin".to_owned());
            for bucket in ["register", "login", "proof"] {
                config.auth.rate_limit.buckets.insert(
                    bucket.to_owned(),
                    Limit {
                        max: 1000,
                        window_seconds: 3600,
                    },
                );
            }
        });
    let reading = Arc::clone(&clock);
    let config = Config::new()
        .signing_secret("a-secret-of-tests-of-32-bytes-or-more")
        .port(0)
        .database(url.as_str());
    let running = App::new(config)
        .plugin(auth)
        .clock(move || reading.now())
        .start()
        .await
        .unwrap();
    let mut root = NewUser::new(ROOT);
    root.password = Some(SecretText::new(GOOD));
    root.roles = Some(vec!["admin".to_owned()]);
    // The first process creates the administrator.
    match running
        .adapters()
        .provided::<AuthService>()
        .unwrap()
        .create_user(root)
        .await
    {
        Err(error) if error.code() != linchpin::Code::Conflict => panic!("{error}"),
        _ => {}
    }
    println!("PORT {}", running.address().port());
    let commands = std::thread::spawn(move || {
        for line in std::io::stdin()
            .lock()
            .lines()
            .map_while(std::result::Result::ok)
        {
            clock.advance(Duration::from_secs(line.parse().unwrap()));
            println!("ARMED");
        }
    });
    while !commands.is_finished() {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Two server processes, their Postgres server, and the URL of another database for control
/// statements.
struct TwoProcesses {
    one: Process,
    two: Process,
    control: String,
    _server: Server,
}

impl TwoProcesses {
    async fn start() -> Self {
        let server = Server::start();
        let url = server.url();
        let control = url.replace("/postgres", "/template1");
        let (one, two) = (
            Process::of("bus::serve", &url),
            Process::of("bus::serve", &url),
        );
        let both = Self {
            one,
            two,
            control,
            _server: server,
        };
        both.wait_for_listeners(2).await;
        both
    }

    /// Waits until this number of processes listen.
    async fn wait_for_listeners(&self, count: usize) {
        for _ in 0..MAX_CHECKS {
            if self.backends("LISTEN").len() == count {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{count} processes should listen: {:?}", self.backends(""));
    }

    /// The process ids of the connections whose last statement begins with this text.
    fn backends(&self, begin: &str) -> Vec<String> {
        let sql = format!(
            "SELECT pid, query FROM pg_stat_activity WHERE datname = 'postgres' AND query LIKE '{begin}%'"
        );
        rows(&self.control, &sql, |pid, _| pid)
    }

    /// Ends the connections of the bus in both directions.
    async fn cut(&self) {
        for begin in ["LISTEN", "SELECT pg_notify"] {
            for pid in self.backends(begin) {
                execute(
                    &self.control,
                    &format!("SELECT pg_terminate_backend({pid})"),
                )
                .unwrap();
            }
        }
        self.wait_for_listeners(0).await;
    }

    /// Ends the connections over which the processes send messages.
    fn cut_senders(&self) {
        let senders = self.backends("SELECT pg_notify");
        assert!(!senders.is_empty());
        for pid in senders {
            execute(
                &self.control,
                &format!("SELECT pg_terminate_backend({pid})"),
            )
            .unwrap();
        }
    }

    /// Allows or forbids new connections to the database.
    fn allow_connections(&self, allowed: bool) {
        execute(
            &self.control,
            &format!("ALTER DATABASE postgres WITH ALLOW_CONNECTIONS {allowed}"),
        )
        .unwrap();
    }
}

/// Waits until a process refuses the token.
async fn wait_until_refused(process: &Process, token: &str) {
    for _ in 0..MAX_CHECKS {
        if process.peer.me(token).await == 401 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the process still accepts the token");
}

/// A user with a session in each of the processes; both processes have cached both sessions.
async fn user_with_cached_sessions(both: &TwoProcesses, email: &str) -> (String, String, String) {
    let made = both.one.peer.register(email).await;
    assert_eq!(made.status, 201, "{made:?}");
    let (first, second) = (
        made.text("token"),
        both.two.peer.login(email, GOOD).await.text("token"),
    );
    for process in [&both.one, &both.two] {
        assert_eq!(
            (
                process.peer.me(&first).await,
                process.peer.me(&second).await
            ),
            (200, 200)
        );
    }
    (made.text("userId"), first, second)
}

async fn logout(process: &Process, token: &str) {
    assert_eq!(
        process
            .peer
            .ask("POST", "logout", token, Json::Null)
            .await
            .unwrap()
            .status,
        200
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_ended_by_one_process_is_refused_by_the_other() {
    let both = TwoProcesses::start().await;
    // A logout, then the end of all other sessions.
    let (_, first, second) = user_with_cached_sessions(&both, "ada@x.test").await;
    logout(&both.one, &first).await;
    assert_eq!(
        both.one.peer.me(&first).await,
        401,
        "in its own process the session ends before the response"
    );
    wait_until_refused(&both.two, &first).await;
    assert_eq!(
        (
            both.one.peer.me(&second).await,
            both.two.peer.me(&second).await
        ),
        (200, 200)
    );
    let third = both.one.peer.login("ada@x.test", GOOD).await.text("token");
    assert_eq!(both.two.peer.me(&third).await, 200);
    let revoked = both
        .one
        .peer
        .ask("POST", "sessions/revoke-others", &third, Json::Null)
        .await
        .unwrap();
    assert_eq!(
        (revoked.status, revoked.body["revoked"].clone()),
        (200, json!(1)),
        "{revoked:?}"
    );
    wait_until_refused(&both.two, &second).await;
    assert_eq!(both.two.peer.me(&third).await, 200);
    // A change of the password.
    let (_, first, second) = user_with_cached_sessions(&both, "bob@x.test").await;
    let body = json!({ "password": NEW, "currentPassword": GOOD });
    let changed = both
        .two
        .peer
        .ask("POST", "set-password", &second, body)
        .await
        .unwrap();
    assert_eq!(changed.status, 200, "{changed:?}");
    wait_until_refused(&both.one, &first).await;
    assert_eq!(
        (
            both.one.peer.me(&second).await,
            both.two.peer.me(&second).await
        ),
        (200, 200)
    );
    // An administrator suspends an account.
    let (eve, first, second) = user_with_cached_sessions(&both, "eve@x.test").await;
    let root = both.one.peer.login(ROOT, GOOD).await.text("token");
    assert_eq!(both.two.peer.me(&root).await, 200);
    let proved = both
        .one
        .peer
        .ask(
            "POST",
            "step-up",
            &root,
            json!({ "method": "password", "password": GOOD }),
        )
        .await
        .unwrap();
    let suspended = both
        .one
        .peer
        .ask(
            "POST",
            &format!("admin/users/{eve}/suspend"),
            &proved.text("token"),
            json!({}),
        )
        .await
        .unwrap();
    assert_eq!(suspended.status, 200, "{suspended:?}");
    wait_until_refused(&both.two, &first).await;
    wait_until_refused(&both.two, &second).await;
    assert_eq!(both.two.peer.login("eve@x.test", GOOD).await.status, 403);
    // After a step-up, both processes refuse the former token.
    wait_until_refused(&both.two, &root).await;
    assert_eq!(both.two.peer.me(&proved.text("token")).await, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_bus_connection_delays_revocations_and_recovers() {
    let mut both = TwoProcesses::start().await;
    let (_, first, second) = user_with_cached_sessions(&both, "ada@x.test").await;
    let (_, other, _) = user_with_cached_sessions(&both, "bob@x.test").await;
    both.allow_connections(false);
    both.cut().await;
    logout(&both.one, &first).await;
    // The other process got no message: it uses its cache until the entry expires.
    assert_eq!(both.one.peer.me(&first).await, 401);
    assert_eq!(
        both.two.peer.me(&first).await,
        200,
        "the bus still delivers messages"
    );
    both.two.send_command(CACHE_SECONDS - 1).await;
    assert_eq!(both.two.peer.me(&first).await, 200);
    both.two.send_command(1).await;
    both.one.send_command(CACHE_SECONDS).await;
    assert_eq!(
        (
            both.two.peer.me(&first).await,
            both.two.peer.me(&second).await
        ),
        (401, 200)
    );
    // Both directions recover by themselves.
    both.allow_connections(true);
    both.wait_for_listeners(2).await;
    assert_eq!(both.two.peer.me(&other).await, 200);
    logout(&both.one, &other).await;
    wait_until_refused(&both.two, &other).await;
    let (_, first, second) = user_with_cached_sessions(&both, "eve@x.test").await;
    logout(&both.two, &second).await;
    wait_until_refused(&both.one, &second).await;
    // If only the sending connection breaks, the next message is sent over a new connection.
    assert_eq!(
        (
            both.one.peer.me(&first).await,
            both.two.peer.me(&first).await
        ),
        (200, 200)
    );
    both.cut_senders();
    logout(&both.two, &first).await;
    wait_until_refused(&both.one, &first).await;
}
