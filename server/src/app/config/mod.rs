//! Configuration, from code and from the environment. All mistakes are reported together, each with
//! the name of its setting.

use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::time::Duration;

mod database;
mod env;
#[cfg(test)]
mod tests;

use self::database::MAX_COUNT;
pub use self::database::Postgres;
use super::data_keys;
use super::secret::SigningSecret;
use super::stores::Stores;
use crate::http::Cors;
use crate::seal::Key;
use crate::store::memory::MemoryProvider;
use crate::store::{DatabaseUrl, StoreProvider};
use crate::{Code, Error, Problem, Result};
use linchpin_migrate::SchemaCheck;

/// The key of the signing secrets.
const SECRET: &str = "security.signing.secret";
/// The key of the database URL.
const DATABASE: &str = "stores.default";

/// The configuration of an app: the address, the database, the secrets, and limits.
///
/// [`Config::from_env`] reads it from environment variables; this is the usual form for a server.
/// [`Config::new`] has the defaults for development, which methods change; this is the usual form
/// for tests. Both can be combined: a method replaces the value of a variable.
///
/// ```
/// use linchpin::prelude::*;
///
/// let config = Config::new().database("memory:").port(0);
/// let app = App::new(config);
/// # drop(app);
/// # fn server() -> linchpin::Result<()> {
/// let config = Config::from_env()?.cors(["https://app.example.com"], false);
/// # drop(config);
/// # Ok(())
/// # }
/// ```
///
/// No method fails. [`App::run`](crate::App::run) and [`App::start`](crate::App::start) check the
/// whole configuration and report all mistakes together, each with the name of its setting.
///
/// In production (`LINCHPIN_ENVIRONMENT=production`) a setting without a safe default is required:
/// the signing secret. The app then listens on every address and does not serve `/docs`.
///
/// # Variables
///
/// Some settings have a name, such as `security.signing.secret`; error messages use it.
///
/// | variable | meaning | default |
/// |---|---|---|
/// | `LINCHPIN_ENVIRONMENT` | `development` or `production` | `development` |
/// | `LINCHPIN_HOST` | IP address to listen on | loopback; every address in production |
/// | `LINCHPIN_PORT` | port to listen on; 0 picks a free one | 3000 |
/// | `LINCHPIN_SIGNING_SECRET` | `security.signing.secret`: one or more secrets of at least 32 bytes, newest first, separated by commas | in development a secret is created and stored next to the database; required in production |
/// | `LINCHPIN_DATA_KEYS` | `security.dataKeys`: keys that encrypt stored secrets, newest first, as a JSON list such as `[{"kid":"2026-11","key":"<32 bytes in base64>"}]` | none |
/// | `LINCHPIN_DATABASE_URL` | `sqlite:<file>`, `postgres://user:password@host:port/database` (feature `postgres`), `memory:`, or the URL of a store of another crate | `sqlite:linchpin.db` |
/// | `LINCHPIN_SQLITE_DURABILITY` | `full`: a write is on disk before its response; `normal`: a power failure may lose the last writes | `full` |
/// | `LINCHPIN_POSTGRES_READERS` | connections for reads that an index covers | 2 |
/// | `LINCHPIN_POSTGRES_SCANS` | connections for reads that may take long, and the same number again for a first attempt with a time limit of 50 ms | 4 |
/// | `LINCHPIN_POSTGRES_WRITERS` | connections for writes | 16 |
/// | `LINCHPIN_POSTGRES_POOL` | maximum number of connections in the pool for the application's own SQL | 8 |
/// | `LINCHPIN_POSTGRES_TRANSACTIONS` | maximum number of concurrent transactions of this process | 8 |
/// | `LINCHPIN_POSTGRES_IN_FLIGHT` | maximum number of reads in progress, and the same number of writes; further ones are refused with 503 | 1024 |
/// | `LINCHPIN_POSTGRES_STATEMENT_SECONDS` | seconds that the server lets a statement run | 30 |
/// | `LINCHPIN_POSTGRES_CONNECT_SECONDS` | seconds to wait for a connection | 5 |
/// | `LINCHPIN_DOCS` | `true` or `false`: whether `/docs` is served | `true`; `false` in production |
/// | `LINCHPIN_OPENAPI` | `true` or `false`: whether `/openapi.json` is served, without authentication | `true` |
/// | `LINCHPIN_CORS_ORIGINS` | `security.cors.origins`: exact origins whose pages may read responses, separated by commas | none |
/// | `LINCHPIN_CORS_CREDENTIALS` | `security.cors.credentials`: whether their requests may carry cookies | `false` |
/// | `LINCHPIN_MAX_CONNECTIONS` | maximum number of concurrent connections; further ones wait | 10000, at most the number of files that the process may open |
/// | `LINCHPIN_CONNECTIONS_PER_ADDRESS` | maximum number of concurrent connections per IP address, or per /64 of IPv6; further ones are refused with 503 | half of `LINCHPIN_MAX_CONNECTIONS`, at least 256; no limit for loopback |
/// | `LINCHPIN_BODIES_MIB` | total size of the bodies of all requests in progress, in MiB; further requests are refused with 503 | 256 |
/// | `LINCHPIN_SHUTDOWN_SECONDS` | seconds that accepted requests may take when the app stops | 10 |
/// | `LINCHPIN_SCHEMA_CHECK` | `schema.check`: the reaction at start-up if the tables differ from the ledger of migrations: `error`, `warn` or `off` | `error` |
/// | `LINCHPIN_LOG` | filter of the log, such as `info,linchpin=debug` | `info` |
/// | `LINCHPIN_LOG_FORMAT` | format of the log: `text` or `json` | `text` |
///
/// Any other variable with the prefix `LINCHPIN_` is refused as a misspelling, unless a plugin or a
/// store of the app reads it.
#[derive(Clone, Debug)]
pub struct Config {
    pub(crate) host: IpAddr,
    pub(crate) port: u16,
    pub(crate) secrets: Vec<SigningSecret>,
    /// The keys of stored data, newest first.
    pub(crate) data_keys: Vec<(String, Key)>,
    pub(crate) database: DatabaseUrl,
    /// The name of the setting that `database` comes from.
    database_at: &'static str,
    pub(crate) durability: Durability,
    pub(crate) postgres: Postgres,
    pub(crate) environment: Environment,
    pub(crate) docs: Option<bool>,
    pub(crate) openapi: bool,
    pub(crate) cors: Cors,
    pub(crate) max_connections: usize,
    pub(crate) connections_per_address: Option<usize>,
    pub(crate) bodies: u64,
    pub(crate) grace: Duration,
    pub(crate) schema_check: SchemaCheck,
    pub(crate) log: String,
    pub(crate) log_json: bool,
    problems: Vec<Problem>,
}

/// The moment at which a write of the embedded store counts as done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Durability {
    /// The write is on disk.
    #[default]
    Full,
    /// The operating system has the write; a power failure may lose the last writes.
    Normal,
}

/// The environment that an app runs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Environment {
    /// A developer's machine: development conveniences are on.
    #[default]
    Development,
    /// Production: every setting without a safe default is required.
    Production,
}

impl Default for Config {
    fn default() -> Self {
        Self::new()
    }
}

impl Config {
    /// Creates the defaults: development on port 3000 of loopback, a SQLite file `linchpin.db` in
    /// the working directory.
    pub fn new() -> Self {
        Self {
            host: IpAddr::V4(Ipv4Addr::LOCALHOST),
            port: 3000,
            secrets: Vec::new(),
            data_keys: Vec::new(),
            database: DatabaseUrl::new("sqlite:linchpin.db"),
            database_at: DATABASE,
            durability: Durability::Full,
            postgres: Postgres::default(),
            environment: Environment::Development,
            docs: None,
            openapi: true,
            cors: Cors::default(),
            max_connections: 10_000,
            connections_per_address: None,
            bodies: crate::http::BODIES,
            grace: Duration::from_secs(10),
            schema_check: SchemaCheck::Error,
            log: "info".to_owned(),
            log_json: false,
            problems: Vec::new(),
        }
    }

    fn allow_origin(&mut self, name: &str, origin: &str) {
        match Cors::refuses(origin) {
            Some(message) => self.problems.push(Problem::new(name, "invalid", message)),
            None => self.cors.origins.push(origin.to_owned()),
        }
    }

    fn add_secret(&mut self, name: &str, secret: &str) {
        match SigningSecret::new(secret) {
            Ok(secret) if self.secrets.contains(&secret) => {
                self.problems.push(Problem::new(
                    name,
                    "invalid",
                    "contains the same secret twice",
                ));
            }
            Ok(secret) => self.secrets.push(secret),
            Err(why) => self.problems.push(Problem::new(name, "invalid", why)),
        }
    }

    /// Sets the port to listen on; 0 picks a free one.
    #[must_use]
    pub fn port(mut self, port: u16) -> Self {
        self.port = port;
        self
    }

    /// Sets the address to listen on; loopback by default, every address in production.
    #[must_use]
    pub fn host(mut self, host: IpAddr) -> Self {
        self.host = host;
        self
    }

    /// Adds a `security.signing.secret`. The first secret signs, all secrets verify. Read it from
    /// the environment; never write it in code outside of tests.
    #[must_use]
    pub fn signing_secret(mut self, secret: impl AsRef<str>) -> Self {
        self.add_secret(SECRET, secret.as_ref());
        self
    }

    /// Sets `security.dataKeys`: the ids and keys that encrypt stored secrets, newest first. A key is
    /// 32 random bytes in base64. The first key encrypts, all keys decrypt; see
    /// [`seal`](crate::seal). Read them from the environment; never write them in code outside of
    /// tests.
    ///
    /// ```
    /// use linchpin::prelude::*;
    ///
    /// let config = Config::new().data_keys([
    ///     ("2026-11", "ZZ1XvL9sq0vGQ2Vh0nS2sFv2pLr1cB5oKc1n7mW8y3E="),
    ///     ("2025-04", "BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc="),
    /// ]);
    /// # drop(config);
    /// ```
    #[must_use]
    pub fn data_keys<I: AsRef<str>, K: AsRef<str>>(
        mut self,
        keys: impl IntoIterator<Item = (I, K)>,
    ) -> Self {
        let keys: Vec<(I, K)> = keys.into_iter().collect();
        let pairs = keys.iter().map(|(kid, key)| (kid.as_ref(), key.as_ref()));
        self.data_keys = data_keys::checked(data_keys::SETTING, pairs, &mut self.problems);
        self
    }

    /// Sets the database URL: `sqlite:<file>`, `postgres://…`, `memory:`, or the URL of a store
    /// that the app gets with [`App::store_provider`](crate::App::store_provider).
    #[must_use]
    pub fn database(mut self, url: impl AsRef<str>) -> Self {
        self.database = DatabaseUrl::new(url.as_ref());
        self.database_at = DATABASE;
        self
    }

    /// The stores of this build, with these settings.
    // The in-memory store has no settings.
    #[cfg_attr(
        not(any(feature = "sqlite", feature = "postgres")),
        allow(clippy::unused_self)
    )]
    pub(super) fn providers(&self) -> Vec<Box<dyn StoreProvider>> {
        vec![
            Box::new(MemoryProvider),
            #[cfg(feature = "sqlite")]
            Box::new(self.sqlite_provider()),
            #[cfg(feature = "postgres")]
            Box::new(self.postgres_provider()),
        ]
    }

    /// Opens SQLite files with these settings.
    #[cfg(feature = "sqlite")]
    fn sqlite_provider(&self) -> crate::store::sqlite::SqliteProvider {
        use crate::store::sqlite;
        sqlite::SqliteProvider {
            durability: match self.durability {
                Durability::Full => sqlite::Durability::Full,
                Durability::Normal => sqlite::Durability::Normal,
            },
        }
    }

    /// Opens `PostgreSQL` databases with these settings.
    #[cfg(feature = "postgres")]
    fn postgres_provider(&self) -> crate::store::postgres::PostgresProvider {
        let mut provider = crate::store::postgres::PostgresProvider::default();
        let (options, named) = (&mut provider.options, self.postgres);
        options.readers = named.readers.unwrap_or(options.readers);
        options.scans = named.scans.unwrap_or(options.scans);
        options.writers = named.writers.unwrap_or(options.writers);
        options.pool = named.pool.unwrap_or(options.pool);
        options.transactions = named.transactions.unwrap_or(options.transactions);
        options.in_flight = named.in_flight.unwrap_or(options.in_flight);
        options.statement_timeout = named.statement_timeout.unwrap_or(options.statement_timeout);
        options.connect_timeout = named.connect_timeout.unwrap_or(options.connect_timeout);
        provider
    }

    /// Sets when a write of the embedded store counts as done.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// Sets `stores.postgres`: connections, limits and timeouts of a Postgres server.
    #[must_use]
    pub fn postgres(mut self, postgres: Postgres) -> Self {
        let counts = [
            postgres.readers,
            postgres.scans,
            postgres.writers,
            postgres.pool,
            postgres.transactions,
            postgres.in_flight,
        ];
        let names = [
            "readers",
            "scans",
            "writers",
            "pool",
            "transactions",
            "in_flight",
        ];
        for (name, _) in names
            .iter()
            .zip(counts)
            .filter(|(_, n)| n.is_some_and(|n| !(1..=MAX_COUNT).contains(&n)))
        {
            self.problems.push(Problem::new(
                format!("stores.postgres.{name}"),
                "invalid",
                format!("must be from 1 to {MAX_COUNT}"),
            ));
        }
        self.postgres = postgres;
        self
    }

    /// Sets development or production.
    #[must_use]
    pub fn environment(mut self, environment: Environment) -> Self {
        self.environment = environment;
        self
    }

    /// Sets whether `/docs` is served; by default only in development.
    #[must_use]
    pub fn docs(mut self, on: bool) -> Self {
        self.docs = Some(on);
        self
    }

    /// Sets whether `/openapi.json` is served; it needs no authentication.
    #[must_use]
    pub fn openapi(mut self, on: bool) -> Self {
        self.openapi = on;
        self
    }

    /// Sets `security.cors`: the exact origins whose pages may read responses, and whether their
    /// requests may carry cookies.
    #[must_use]
    pub fn cors<O: AsRef<str>>(
        mut self,
        origins: impl IntoIterator<Item = O>,
        credentials: bool,
    ) -> Self {
        for origin in origins {
            self.allow_origin("security.cors.origins", origin.as_ref());
        }
        self.cors.credentials = credentials;
        self
    }

    /// Sets the maximum number of concurrent connections; further connections wait until one ends.
    /// 10,000 by default, and never more than the number of files that the process may open.
    #[must_use]
    pub fn max_connections(mut self, most: usize) -> Self {
        self.max_connections = most.max(1);
        self
    }

    /// Sets the maximum number of concurrent connections per IP address, or per /64 of IPv6;
    /// further ones are refused with 503. By default half of all connections, at least 256;
    /// connections from the machine itself, such as a local proxy, may use all. If a proxy runs on
    /// another machine, set this to the number of its connections.
    #[must_use]
    pub fn connections_per_address(mut self, most: usize) -> Self {
        self.connections_per_address = Some(most.max(1));
        self
    }

    /// Sets the total size of the bodies of all requests in progress, in MiB. A request above the
    /// limit is refused with 503. Bodies of a few KiB do not count. 256 by default.
    #[must_use]
    pub fn bodies_mib(mut self, mib: u32) -> Self {
        self.bodies = u64::from(mib.max(1)) << 20;
        self
    }

    /// Sets how long a stop waits for accepted requests; 10 s by default.
    #[must_use]
    pub fn shutdown_grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Sets `schema.check`: the reaction at start-up if the tables of the database differ from its
    /// ledger of migrations. By default the app does not start.
    #[must_use]
    pub fn schema_check(mut self, check: SchemaCheck) -> Self {
        self.schema_check = check;
        self
    }

    /// Returns the configuration and its signing secrets, with the development secret if none was
    /// given; or all mistakes.
    pub(super) fn checked(mut self, stores: &Stores<'_>) -> Result<(Self, Vec<SigningSecret>)> {
        let flaw = stores.flaw(&self.database);
        self.problems
            .extend(flaw.map(|flaw| Problem::new(self.database_at, "invalid", flaw)));
        // The directory of a database is never created: otherwise a misspelled path or a missing
        // mount would start the app with a new, empty database.
        let file = stores
            .find(&self.database)
            .and_then(|provider| provider.file(&self.database));
        let missing = |file: &&PathBuf| {
            file.parent()
                .is_some_and(|folder| !folder.as_os_str().is_empty() && !folder.is_dir())
        };
        let missing_folder = file.as_ref().filter(missing).map(|file| {
            format!("is the file {}, whose folder does not exist: create the folder, or set LINCHPIN_DATABASE_URL to another file", file.display())
        });
        // A development secret would be kept in that directory.
        let no_folder_for_secret =
            missing_folder.is_some() && self.environment != Environment::Production;
        self.problems
            .extend(missing_folder.map(|message| Problem::new(DATABASE, "invalid", message)));
        if self.secrets.is_empty()
            && !no_folder_for_secret
            && !self
                .problems
                .iter()
                .any(|p| p.path == env::SECRET || p.path == SECRET)
        {
            match self.development_secret(file.as_deref()) {
                Ok(secret) => self.secrets.push(secret),
                Err(problem) => self.problems.push(problem),
            }
        }
        if self.environment == Environment::Production {
            let weak = self.secrets.iter().filter_map(SigningSecret::weakness);
            let problems: Vec<Problem> = weak
                .map(|why| Problem::new(SECRET, "invalid", why))
                .collect();
            self.problems.extend(problems);
            self.problems.extend(data_keys::weak(&self.data_keys));
        }
        for unread in self.problems.iter_mut().filter(|problem| {
            problem.code == "unknown" && !problem.message.contains("did you mean")
        }) {
            unread.message.push_str(
                "; a plugin reads its variables only if it was created with `from_env`, as `Auth::from_env()`",
            );
        }
        if self.problems.is_empty() {
            let secrets = self.secrets.clone();
            return Ok((self, secrets));
        }
        Err(Error::new(Code::Internal, "The configuration is not valid")
            .with_details(self.problems))
    }

    /// `file` is the database file: the secret is kept in the same directory.
    fn development_secret(&self, file: Option<&Path>) -> Result<SigningSecret, Problem> {
        if self.environment == Environment::Production {
            let message = format!(
                "is required in production: set {} to at least 32 random bytes",
                env::SECRET
            );
            return Err(Problem::new(SECRET, "required", message));
        }
        let folder = file.map_or(Path::new(""), |file| file.parent().unwrap_or(file));
        let (secret, file) = SigningSecret::development(folder)
            .map_err(|why| Problem::new(SECRET, "invalid", why))?;
        tracing::warn!(
            "no signing secret is set: using the development secret in {}",
            file.display()
        );
        Ok(secret)
    }

    pub(crate) fn docs_on(&self) -> bool {
        self.docs
            .unwrap_or(self.environment == Environment::Development)
    }
}
