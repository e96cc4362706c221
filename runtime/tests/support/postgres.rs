//! A `PostgreSQL` server for the tests of one binary, with a schema for each test that needs one.
//!
//! `LINCHPIN_TEST_POSTGRES` is the URL of another server, which may be any engine with the same
//! protocol. Without a server, the tests fail.
#![allow(dead_code, clippy::expect_used, clippy::unwrap_used)] // each binary uses a part of it

pub mod ports;
pub mod programs;

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

/// A server that this process starts. The server ends with this process, even after a crash: the
/// shell that runs the server reads commands from a pipe of this process, and the pipe then closes.
pub struct Server {
    port: u16,
    folder: PathBuf,
    shell: Child,
}

impl Server {
    /// Creates a data folder and starts a server on it.
    pub fn start() -> Self {
        let port = ports::free_port();
        let folder = tempfile::Builder::new()
            .prefix("linchpin-pg")
            .tempdir()
            .expect("a folder")
            .keep();
        let bin = programs::folder()
            .expect("PostgreSQL is not installed: run `apt-get install postgresql`, or set LINCHPIN_TEST_POSTGRES to the URL of a server");
        let user: String = programs::prefix()
            .iter()
            .flat_map(|word| [word, " "])
            .collect();
        if programs::is_root() {
            let done = Command::new("chown")
                .arg(programs::NOBODY)
                .arg(&folder)
                .status()
                .expect("chown");
            assert!(done.success(), "cannot change the owner of the folder");
        }
        let (bin, data) = (bin.display(), folder.display());
        // The shell reads the commands `kill` and `start` from standard input, which closes when
        // this process ends.
        let script = format!(
            "cd {data}; up() {{ {user}{bin}/postgres -D {data}/data >>{data}/log 2>&1 & pid=$!; }}
            {user}{bin}/initdb -D {data}/data -U test --auth=trust --encoding=UTF8 --locale=C.UTF-8 --no-sync >{data}/initdb 2>&1 || exit 1
            cat >>{data}/data/postgresql.conf <<END
listen_addresses = '127.0.0.1'
port = {port}
unix_socket_directories = ''
fsync = off
max_connections = 400
shared_buffers = 64MB
END
            up
            while read -r word; do
                case $word in
                kill) kill -QUIT $pid; wait $pid ;;
                start) up ;;
                esac
            done
            kill -QUIT $pid; wait $pid; rm -rf {data}"
        );
        let shell = Command::new("sh")
            .arg("-c")
            .arg(script)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let server = Self {
            port,
            folder,
            shell: shell.expect("a shell"),
        };
        server.wait();
        server
    }

    fn wait(&self) {
        let end = Instant::now() + Duration::from_mins(1);
        while execute(&self.url(), "SELECT 1").is_err() {
            let log = || {
                ["initdb", "log"]
                    .map(|f| std::fs::read_to_string(self.folder.join(f)).unwrap_or_default())
                    .join("\n")
            };
            assert!(
                Instant::now() < end,
                "PostgreSQL does not start:\n{}",
                log()
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn send_command(&mut self, word: &str) {
        self.shell
            .stdin
            .as_mut()
            .expect("a pipe")
            .write_all(format!("{word}\n").as_bytes())
            .expect("the shell reads commands");
    }

    /// Ends the server at once, like a crash. The function blocks until the server accepts no
    /// connection. If an app runs on the same thread, call this function on another thread, because
    /// the server waits for each connection that the app has begun to open and not yet used.
    pub fn kill(&mut self) {
        self.send_command("kill");
        let address = SocketAddr::from(([127, 0, 0, 1], self.port));
        let end = Instant::now() + Duration::from_mins(1);
        // If a connection attempt times out, the port still listens. The test must not mistake this
        // server for the next one.
        let refused = || {
            TcpStream::connect_timeout(&address, Duration::from_millis(100))
                .is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionRefused)
        };
        while !refused() {
            assert!(Instant::now() < end, "the server does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Starts the server again.
    pub fn restart(&mut self) {
        self.send_command("start");
        self.wait();
    }

    /// Turns on encryption at the next start.
    pub fn encrypt(&self, certificate: &str, key: &str) {
        let data = self.folder.join("data");
        let owner = std::fs::metadata(&data).expect("a folder");
        for (name, text) in [("server.crt", certificate), ("server.key", key)] {
            let file = data.join(name);
            std::fs::write(&file, text).expect("written");
            std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600))
                .expect("permissions");
            let (user, group) = (
                std::os::unix::fs::MetadataExt::uid(&owner),
                std::os::unix::fs::MetadataExt::gid(&owner),
            );
            std::os::unix::fs::chown(&file, Some(user), Some(group)).expect("given away");
        }
        let mut settings = std::fs::OpenOptions::new()
            .append(true)
            .open(data.join("postgresql.conf"))
            .expect("settings");
        settings.write_all(b"ssl = on\n").expect("written");
    }

    /// Makes the server require a password of a user.
    pub fn ask_for_password(&self, user: &str) {
        let file = self.folder.join("data/pg_hba.conf");
        let rules = std::fs::read_to_string(&file).expect("rules");
        std::fs::write(
            &file,
            format!("host all {user} 127.0.0.1/32 scram-sha-256\n{rules}"),
        )
        .expect("written");
        execute(&self.url(), "SELECT pg_reload_conf()").expect("read again");
    }

    /// The log of the server.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.join("log")).expect("a log")
    }

    /// The URL of its database.
    pub fn url(&self) -> String {
        format!("postgres://test@127.0.0.1:{}/postgres", self.port)
    }
}

/// The number of schemas per database of the server that this process starts. An app reads the
/// catalog when it starts, and this read takes longer with every table of the database.
const SCHEMAS: usize = 32;

/// The server of this binary.
static SERVER: OnceLock<Server> = OnceLock::new();

/// The log of the server that this process started.
pub fn log() -> String {
    SERVER
        .get()
        .expect("a server that this process started")
        .log()
}

/// The URL of a new, empty schema on this binary's server.
pub fn fresh_url() -> String {
    /// The database of the next schema, and the number of schemas so far.
    static LAST: Mutex<(String, usize)> = Mutex::new((String::new(), 0));
    if let Ok(named) = std::env::var("LINCHPIN_TEST_POSTGRES") {
        return fresh_schema(&named);
    }
    let base = SERVER.get_or_init(Server::start).url();
    let database = {
        let mut last = LAST.lock().expect("a database");
        let (database, made) = &mut *last;
        if *made == 0 {
            database.clone_from(&base);
        } else if *made % SCHEMAS == 0 {
            let another = database_of(&base, &format!("postgres_{made}"));
            another.trim_end_matches('?').clone_into(database);
        }
        *made += 1;
        database.clone()
    };
    fresh_schema(&database)
}

/// Creates a database on the server of the URL `base`; returns the URL of the new database.
fn database_of(base: &str, name: &str) -> String {
    execute(base, &format!("CREATE DATABASE {name} TEMPLATE template0")).expect("a database");
    let (address, settings) = base.split_once('?').unwrap_or((base, ""));
    let (server, _) = address.rsplit_once('/').expect("a database in the URL");
    format!("{server}/{name}?{settings}")
}

/// The URL of a new, empty database. Transactions of other tests do not delay index builds in it.
pub fn fresh_database() -> String {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let base = fresh_url();
    let name = format!(
        "linchpin_{}_{}",
        std::process::id(),
        NEXT.fetch_add(1, Ordering::Relaxed)
    );
    // Cuts off the name of the schema, which is the last part.
    let (base, _) = base.rsplit_once(['?', '&']).expect("a schema in the URL");
    database_of(base, &name)
}

/// The URL of a new, empty schema on a server.
pub fn fresh_schema(base: &str) -> String {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let schema = format!(
        "linchpin_{}_{}",
        std::process::id(),
        NEXT.fetch_add(1, Ordering::Relaxed)
    );
    execute(base, &format!("CREATE SCHEMA {schema}")).expect("a schema");
    let separator = if base.contains('?') { '&' } else { '?' };
    format!("{base}{separator}options=-c%20search_path%3D{schema}")
}

/// Runs SQL on its own thread, because the caller may be inside a tokio runtime.
pub fn execute(url: &str, sql: &str) -> Result<(), tokio_postgres::Error> {
    query(url, sql).map(drop)
}

/// The first two columns of the result of a query.
pub fn rows<T>(url: &str, sql: &str, read: impl Fn(String, String) -> T) -> Vec<T> {
    let text = |row: &tokio_postgres::SimpleQueryRow, i| row.get(i).unwrap_or_default().to_owned();
    query(url, sql)
        .expect("rows")
        .iter()
        .map(|row| read(text(row, 0), text(row, 1)))
        .collect()
}

fn query(
    url: &str,
    sql: &str,
) -> Result<Vec<tokio_postgres::SimpleQueryRow>, tokio_postgres::Error> {
    let run = async {
        let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await?;
        let driven = tokio::spawn(connection);
        let answer = client.simple_query(sql).await?;
        drop(client);
        drop(driven.await);
        let rows = answer.into_iter().filter_map(|m| {
            if let tokio_postgres::SimpleQueryMessage::Row(row) = m {
                Some(row)
            } else {
                None
            }
        });
        Ok(rows.collect())
    };
    let runtime = || {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime")
    };
    std::thread::scope(|s| s.spawn(|| runtime().block_on(run)).join()).expect("no panic")
}
