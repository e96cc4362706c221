//! Two processes of one app on one Postgres. A session that ends in one process is refused by the
//! other as soon as the bus delivers the message, and within `session.cacheSeconds` while the bus
//! is disconnected.
//!
//! The clock of each process stands still until the test moves it, so no cache entry expires by
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

/// How long a session is remembered, in seconds.
const REMEMBERED: i64 = 30;
/// How many times the test looks for a change of the other process, every 10 ms, before it fails.
const PATIENCE: usize = 6000;

/// One of the processes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "it is run by the others, in processes of their own"]
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
            config.auth.session.cache_seconds = REMEMBERED.unsigned_abs();
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
    // Whichever of the processes is first makes it.
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

/// Two processes, the server between them, and who looks after it by a database of its own.
struct Both {
    one: Process,
    two: Process,
    control: String,
    _server: Server,
}

impl Both {
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
        both.listening(2).await;
        both
    }

    /// Until so many processes listen.
    async fn listening(&self, count: usize) {
        for _ in 0..PATIENCE {
            if self.backends("LISTEN").len() == count {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{count} processes were to listen: {:?}", self.backends(""));
    }

    /// The connections of the processes whose last statement begins like this.
    fn backends(&self, begin: &str) -> Vec<String> {
        let sql = format!(
            "SELECT pid, query FROM pg_stat_activity WHERE datname = 'postgres' AND query LIKE '{begin}%'"
        );
        rows(&self.control, &sql, |pid, _| pid)
    }

    /// Ends both directions of the bus.
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
        self.listening(0).await;
    }

    /// Ends the connections that the processes tell each other over.
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

    /// Whether anybody new is let in.
    fn let_in(&self, anybody: bool) {
        execute(
            &self.control,
            &format!("ALTER DATABASE postgres WITH ALLOW_CONNECTIONS {anybody}"),
        )
        .unwrap();
    }
}

/// Once a process has heard of it.
async fn refuses(process: &Process, token: &str) {
    for _ in 0..PATIENCE {
        if process.peer.me(token).await == 401 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the other process never heard of it");
}

/// A user with a session in each of the processes; both processes have cached both sessions.
async fn known(both: &Both, email: &str) -> (String, String, String) {
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
async fn what_one_process_ends_the_other_refuses() {
    let both = Both::start().await;
    // A session that is left, and one that is ended from the other process.
    let (_, first, second) = known(&both, "ada@x.test").await;
    logout(&both.one, &first).await;
    assert_eq!(
        both.one.peer.me(&first).await,
        401,
        "in its own process it ends before the answer"
    );
    refuses(&both.two, &first).await;
    assert_eq!(
        (
            both.one.peer.me(&second).await,
            both.two.peer.me(&second).await
        ),
        (200, 200)
    );
    let third = both.one.peer.login("ada@x.test", GOOD).await.text("token");
    assert_eq!(both.two.peer.me(&third).await, 200);
    let left = both
        .one
        .peer
        .ask("POST", "sessions/revoke-others", &third, Json::Null)
        .await
        .unwrap();
    assert_eq!(
        (left.status, left.body["revoked"].clone()),
        (200, json!(1)),
        "{left:?}"
    );
    refuses(&both.two, &second).await;
    assert_eq!(both.two.peer.me(&third).await, 200);
    // Another password.
    let (_, first, second) = known(&both, "bob@x.test").await;
    let body = json!({ "password": NEW, "currentPassword": GOOD });
    let changed = both
        .two
        .peer
        .ask("POST", "set-password", &second, body)
        .await
        .unwrap();
    assert_eq!(changed.status, 200, "{changed:?}");
    refuses(&both.one, &first).await;
    assert_eq!(
        (
            both.one.peer.me(&second).await,
            both.two.peer.me(&second).await
        ),
        (200, 200)
    );
    // Somebody is suspended, by an administrator.
    let (eve, first, second) = known(&both, "eve@x.test").await;
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
    refuses(&both.two, &first).await;
    refuses(&both.two, &second).await;
    assert_eq!(both.two.peer.login("eve@x.test", GOOD).await.status, 403);
    // A step-up: the former token is worth nothing anywhere.
    refuses(&both.two, &root).await;
    assert_eq!(both.two.peer.me(&proved.text("token")).await, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bus_that_is_cut_costs_time_and_comes_back() {
    let mut both = Both::start().await;
    let (_, first, second) = known(&both, "ada@x.test").await;
    let (_, other, _) = known(&both, "bob@x.test").await;
    both.let_in(false);
    both.cut().await;
    logout(&both.one, &first).await;
    // The other process got no message: it uses its cache until the entry expires.
    assert_eq!(both.one.peer.me(&first).await, 401);
    assert_eq!(both.two.peer.me(&first).await, 200, "the bus is not cut");
    both.two.tell(REMEMBERED - 1).await;
    assert_eq!(both.two.peer.me(&first).await, 200);
    both.two.tell(1).await;
    both.one.tell(REMEMBERED).await;
    assert_eq!(
        (
            both.two.peer.me(&first).await,
            both.two.peer.me(&second).await
        ),
        (401, 200)
    );
    // Both come back by themselves, in either direction.
    both.let_in(true);
    both.listening(2).await;
    assert_eq!(both.two.peer.me(&other).await, 200);
    logout(&both.one, &other).await;
    refuses(&both.two, &other).await;
    let (_, first, second) = known(&both, "eve@x.test").await;
    logout(&both.two, &second).await;
    refuses(&both.one, &second).await;
    // A connection that breaks without anybody being kept out: the next word goes over another.
    assert_eq!(
        (
            both.one.peer.me(&first).await,
            both.two.peer.me(&first).await
        ),
        (200, 200)
    );
    both.cut_senders();
    logout(&both.two, &first).await;
    refuses(&both.one, &first).await;
}
