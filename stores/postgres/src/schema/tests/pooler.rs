//! A pooler between the store and the server.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use linchpin_conformance::THING;
use linchpin_core::Value;
use linchpin_core::schema::{Locking, SchemaFault, SchemaStore};
use linchpin_core::store::{Plan, Rows, Store, create_tables};

use super::server;
use crate::{PostgresOptions, PostgresStore};

/// `PgBouncer` in front of a server. It is stopped on drop.
struct Pooler {
    process: Child,
    port: u16,
    _folder: tempfile::TempDir,
}

impl Pooler {
    /// `mode` is `transaction` or `session`.
    fn start(server: &url::Url, mode: &str) -> Self {
        let port = server::ports::free_port();
        let folder = tempfile::tempdir().expect("a folder");
        let users = folder.path().join("users");
        std::fs::write(&users, format!("\"{}\" \"\"\n", server.username())).expect("written");
        let settings = folder.path().join("settings");
        let text = format!(
            "[databases]\n* = host={} port={}\n[pgbouncer]\nlisten_addr = 127.0.0.1\n\
             listen_port = {port}\nunix_socket_dir =\nauth_type = trust\nauth_file = {}\n\
             pool_mode = {mode}\ndefault_pool_size = 100\n\
             ignore_startup_parameters = options\n",
            server.host_str().expect("a host"),
            server.port().unwrap_or(5432),
            users.display(),
        );
        std::fs::write(&settings, text).expect("written");
        let program = server::programs::pooler()
            .expect("PgBouncer is not installed: `apt-get install pgbouncer`");
        let mut command = Command::new(program);
        if server::programs::is_root() {
            // PgBouncer refuses to run as root.
            command.args(["-u", "nobody"]);
            give_away(&[folder.path(), &users, &settings]);
        }
        let process = command
            .arg(&settings)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("started");
        let pooler = Self {
            process,
            port,
            _folder: folder,
        };
        let end = Instant::now() + Duration::from_mins(1);
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(Instant::now() < end, "PgBouncer does not start");
            std::thread::sleep(Duration::from_millis(20));
        }
        pooler
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// Makes the user of `PgBouncer` the owner of its files.
fn give_away(files: &[&Path]) {
    let done = Command::new("chown")
        .arg(server::programs::NOBODY)
        .args(files)
        .status()
        .expect("chown");
    assert!(done.success(), "the settings cannot be given away");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pooler_in_transaction_mode_is_refused() {
    let server = url::Url::parse(&server::fresh_database()).expect("a URL");
    for (mode, refused) in [("transaction", true), ("session", false)] {
        let pooler = Pooler::start(&server, mode);
        let mut url = server.clone();
        url.set_port(Some(pooler.port)).expect("a port");
        let store = PostgresStore::open(PostgresOptions::new(url.as_str())).expect("opened");
        match (store.schema.try_lock().await, refused) {
            (Err(error), true) => {
                assert_eq!(error.fault, SchemaFault::Pooler, "{error}");
            }
            (Ok(Locking::Taken(mut lock)), false) => lock.check().await.expect("held"),
            (outcome, _) => panic!(
                "{mode}: {:?}",
                outcome.map(|_| "a lock").map_err(|e| e.message)
            ),
        }
        store.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_starts_with_a_pooler_only_in_session_mode() {
    let server = url::Url::parse(&server::fresh_database()).expect("a URL");
    for (mode, refused) in [("transaction", true), ("session", false)] {
        let pooler = Pooler::start(&server, mode);
        let mut url = server.clone();
        url.set_port(Some(pooler.port)).expect("a port");
        let store = PostgresStore::open(PostgresOptions::new(url.as_str())).expect("opened");
        let connected = store.schema().expect("a schema").connect().await;
        match (connected, refused) {
            (Err(error), true) => {
                assert_eq!(error.fault, SchemaFault::Pooler, "{error}");
                // The error names the setting to change.
                let setting = "`pool_mode = session`";
                assert!(error.message.contains(setting), "{error}");
            }
            (Ok(session), false) => {
                drop(session);
                create_tables(&store, &[&THING]).await.expect("created");
                let insert = store.prepare(&THING, Plan::Insert).expect("a plan");
                for n in 0..20 {
                    let mut record = vec![Value::Null; THING.fields.len()];
                    record[0] = Value::Text(n.to_string());
                    record[7] = Value::Text("draft".to_owned());
                    let stored = store.run(&insert, record, Rows::count()).await;
                    stored.expect("stored");
                }
            }
            (outcome, _) => panic!(
                "{mode}: {:?}",
                outcome.map(|_| "a session").map_err(|e| e.message)
            ),
        }
        store.close().await;
    }
}
