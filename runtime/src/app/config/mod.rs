//! Configuration, from code and from the environment; every mistake is reported at once, under its name.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::time::Duration;

use super::secret::SigningSecret;
use super::suggest::did_you_mean;
use crate::http::Cors;
use crate::{Code, Error, Problem, Result};

/// The environment's variables, each with what it sets.
const VARIABLES: &[(&str, &str)] = &[
    ("LINCHPIN_HOST", "address to listen on"),
    ("LINCHPIN_PORT", "port to listen on"),
    ("LINCHPIN_SIGNING_SECRET", "signing secrets, newest first, separated by commas"),
    ("LINCHPIN_DATABASE_URL", "sqlite:<file>, postgres://… or memory:"),
    ("LINCHPIN_SQLITE_DURABILITY", "full or normal"),
    ("LINCHPIN_POSTGRES_READERS", "connections for reads"),
    ("LINCHPIN_POSTGRES_WRITERS", "connections for writes"),
    ("LINCHPIN_POSTGRES_POOL", "connections for conversations"),
    ("LINCHPIN_POSTGRES_TRANSACTIONS", "transactions at a time"),
    ("LINCHPIN_POSTGRES_IN_FLIGHT", "reads, and writes, that may be under way"),
    ("LINCHPIN_POSTGRES_STATEMENT_SECONDS", "seconds a statement may take"),
    ("LINCHPIN_POSTGRES_CONNECT_SECONDS", "seconds connecting may take"),
    ("LINCHPIN_ENVIRONMENT", "development or production"),
    ("LINCHPIN_DOCS", "true or false"),
    ("LINCHPIN_OPENAPI", "true or false"),
    ("LINCHPIN_CORS_ORIGINS", "origins whose pages may read answers, separated by commas"),
    ("LINCHPIN_CORS_CREDENTIALS", "true or false"),
    ("LINCHPIN_MAX_CONNECTIONS", "most connections at a time"),
    ("LINCHPIN_SHUTDOWN_SECONDS", "seconds a stop may take"),
    ("LINCHPIN_LOG", "a filter such as info or linchpin=debug"),
    ("LINCHPIN_LOG_FORMAT", "text or json"),
];

/// What an app is built from, besides plugins and packages.
///
/// | variable | meaning | default |
/// |---|---|---|
/// | `LINCHPIN_ENVIRONMENT` | `development` or `production` | `development` |
/// | `LINCHPIN_HOST` | address to listen on | loopback; every address in production |
/// | `LINCHPIN_PORT` | 0 to 65535; 0 picks a free one | 3000 |
/// | `LINCHPIN_SIGNING_SECRET` | `security.signing.secret`: one or several, newest first, separated by commas, of at least 32 bytes | in development one is made and kept beside the database; required in production |
/// | `LINCHPIN_DATABASE_URL` | `sqlite:<file>`, `postgres://user:password@host:port/database` (feature `postgres`) or `memory:` | `sqlite:linchpin.db` |
/// | `LINCHPIN_SQLITE_DURABILITY` | `full` or `normal` | `full` |
/// | `LINCHPIN_POSTGRES_READERS` | connections for reads | 2 |
/// | `LINCHPIN_POSTGRES_WRITERS` | connections for writes | 4 |
/// | `LINCHPIN_POSTGRES_POOL` | most connections for conversations | 8 |
/// | `LINCHPIN_POSTGRES_TRANSACTIONS` | transactions of this process at a time | 1 |
/// | `LINCHPIN_POSTGRES_IN_FLIGHT` | reads, and as many writes, that may be under way; one more is refused with 503 | 1024 |
/// | `LINCHPIN_POSTGRES_STATEMENT_SECONDS` | how long a statement may take on the server | 30 |
/// | `LINCHPIN_POSTGRES_CONNECT_SECONDS` | how long connecting may take | 5 |
/// | `LINCHPIN_DOCS` | `true` or `false`: whether `/docs` is served | `true`; `false` in production |
/// | `LINCHPIN_OPENAPI` | `true` or `false`: whether `/openapi.json` is served, to anybody | `true` |
/// | `LINCHPIN_CORS_ORIGINS` | `security.cors.origins`: exact origins whose pages may read answers, separated by commas | none |
/// | `LINCHPIN_CORS_CREDENTIALS` | `security.cors.credentials`: whether their requests may carry cookies | `false` |
/// | `LINCHPIN_MAX_CONNECTIONS` | most connections at a time; further ones wait | 10000, and no more than the process may open files |
/// | `LINCHPIN_SHUTDOWN_SECONDS` | how long accepted requests may take once the app stops | 10 |
/// | `LINCHPIN_LOG` | a filter such as `info,linchpin=debug` | `info` |
/// | `LINCHPIN_LOG_FORMAT` | `text` or `json` | `text` |
///
/// Any other variable that begins with `LINCHPIN_` is refused: it is a misspelling.
#[derive(Clone, Debug)]
pub struct Config {
    pub(crate) host: IpAddr,
    pub(crate) port: u16,
    pub(crate) secrets: Vec<SigningSecret>,
    pub(crate) database: Database,
    pub(crate) durability: Durability,
    pub(crate) postgres: Postgres,
    pub(crate) environment: Environment,
    pub(crate) docs: Option<bool>,
    pub(crate) openapi: bool,
    pub(crate) cors: Cors,
    pub(crate) max_connections: usize,
    pub(crate) grace: Duration,
    pub(crate) log: String,
    pub(crate) log_json: bool,
    problems: Vec<Problem>,
}

/// Where records live.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Database {
    /// In this process; gone when it stops.
    Memory,
    /// In a file beside the app.
    Sqlite(PathBuf),
    /// On a server, at this URL.
    Postgres(DatabaseUrl),
}

/// The URL of a server. It holds a password, so it is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct DatabaseUrl(String);

impl DatabaseUrl {
    /// The URL itself.
    #[cfg_attr(not(feature = "postgres"), allow(dead_code))] // nobody else connects
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("DatabaseUrl(..)")
    }
}

/// `stores.postgres`: how a server is used; what is not named is as the store has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Postgres {
    /// Connections for reads.
    pub readers: Option<usize>,
    /// Connections for writes.
    pub writers: Option<usize>,
    /// Most connections for conversations.
    pub pool: Option<usize>,
    /// Transactions of this process at a time.
    pub transactions: Option<usize>,
    /// Reads, and as many writes, that may be under way.
    pub in_flight: Option<usize>,
    /// How long a statement may take on the server.
    pub statement_timeout: Option<Duration>,
    /// How long connecting may take.
    pub connect_timeout: Option<Duration>,
}

/// When a write of the embedded store counts as done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Durability {
    /// When it is on disk.
    #[default]
    Full,
    /// When the operating system has it; a power failure may take back the last moments.
    Normal,
}

/// What the app is for at present.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Environment {
    /// On a developer's machine: conveniences are on.
    #[default]
    Development,
    /// For others: everything must be named.
    Production,
}

impl Default for Config {
    fn default() -> Self {
        Self::new()
    }
}

impl Config {
    /// Development on port 3000 of loopback, a SQLite file `linchpin.db` in the working folder.
    pub fn new() -> Self {
        Self {
            host: IpAddr::V4(Ipv4Addr::LOCALHOST),
            port: 3000,
            secrets: Vec::new(),
            database: Database::Sqlite("linchpin.db".into()),
            durability: Durability::Full,
            postgres: Postgres::default(),
            environment: Environment::Development,
            docs: None,
            openapi: true,
            cors: Cors::default(),
            max_connections: 10_000,
            grace: Duration::from_secs(10),
            log: "info".to_owned(),
            log_json: false,
            problems: Vec::new(),
        }
    }

    /// [`Config::new`] with what the environment's `LINCHPIN_*` variables say.
    ///
    /// A variable that is wrong or unknown is reported when the app starts, with every other mistake of the configuration.
    ///
    /// # Errors
    /// None at present; the result leaves room for an environment that cannot be read at all.
    pub fn from_env() -> Result<Self> {
        Self::from_vars(std::env::vars_os().filter_map(|(k, v)| Some((k.into_string().ok()?, v.to_string_lossy().into_owned()))))
    }

    /// [`Config::from_env`] over given variables.
    ///
    /// # Errors
    /// As [`Config::from_env`].
    pub fn from_vars(vars: impl IntoIterator<Item = (String, String)>) -> Result<Self> {
        let mut config = Self::new();
        let mut seen_host = false;
        for (name, value) in vars {
            if !name.starts_with("LINCHPIN_") {
                continue;
            }
            seen_host |= name == "LINCHPIN_HOST";
            config.variable(&name, value.trim());
        }
        if config.environment == Environment::Production && !seen_host {
            config.host = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        }
        Ok(config)
    }

    fn variable(&mut self, name: &str, value: &str) {
        let wrong = |message: &str| Problem::new(name, "invalid", format!("{message}, found `{value}`"));
        let problem = match name {
            "LINCHPIN_HOST" => value.parse().map(|v| self.host = v).err().map(|_| wrong("must be an IP address")),
            "LINCHPIN_PORT" => value.parse().map(|v| self.port = v).err().map(|_| wrong("must be a port from 0 to 65535")),
            "LINCHPIN_SIGNING_SECRET" => {
                for secret in value.split(',') {
                    self.add_secret(name, secret);
                }
                None
            }
            "LINCHPIN_DATABASE_URL" => database(value).map(|v| self.database = v).err().map(|e| Problem::new(name, "invalid", e)),
            "LINCHPIN_SQLITE_DURABILITY" => match value {
                "full" => None,
                "normal" => {
                    self.durability = Durability::Normal;
                    None
                }
                _ => Some(wrong("must be `full` or `normal`")),
            },
            "LINCHPIN_POSTGRES_READERS" => count(value).map(|n| self.postgres.readers = Some(n)).err().map(&wrong),
            "LINCHPIN_POSTGRES_WRITERS" => count(value).map(|n| self.postgres.writers = Some(n)).err().map(&wrong),
            "LINCHPIN_POSTGRES_POOL" => count(value).map(|n| self.postgres.pool = Some(n)).err().map(&wrong),
            "LINCHPIN_POSTGRES_TRANSACTIONS" => count(value).map(|n| self.postgres.transactions = Some(n)).err().map(&wrong),
            "LINCHPIN_POSTGRES_IN_FLIGHT" => count(value).map(|n| self.postgres.in_flight = Some(n)).err().map(&wrong),
            "LINCHPIN_POSTGRES_STATEMENT_SECONDS" => {
                count(value).map(|n| self.postgres.statement_timeout = Some(Duration::from_secs(n as u64))).err().map(&wrong)
            }
            "LINCHPIN_POSTGRES_CONNECT_SECONDS" => {
                count(value).map(|n| self.postgres.connect_timeout = Some(Duration::from_secs(n as u64))).err().map(&wrong)
            }
            "LINCHPIN_ENVIRONMENT" => match value {
                "development" => None,
                "production" => {
                    self.environment = Environment::Production;
                    None
                }
                _ => Some(wrong("must be `development` or `production`")),
            },
            "LINCHPIN_DOCS" => value.parse().map(|v| self.docs = Some(v)).err().map(|_| wrong("must be `true` or `false`")),
            "LINCHPIN_OPENAPI" => value.parse().map(|v| self.openapi = v).err().map(|_| wrong("must be `true` or `false`")),
            "LINCHPIN_CORS_ORIGINS" => {
                for origin in value.split(',').map(str::trim).filter(|o| !o.is_empty()) {
                    self.add_origin(name, origin);
                }
                None
            }
            "LINCHPIN_CORS_CREDENTIALS" => {
                value.parse().map(|v| self.cors.credentials = v).err().map(|_| wrong("must be `true` or `false`"))
            }
            "LINCHPIN_MAX_CONNECTIONS" => match value.parse() {
                Ok(most) if most > 0 => {
                    self.max_connections = most;
                    None
                }
                _ => Some(wrong("must be a number greater than 0")),
            },
            "LINCHPIN_SHUTDOWN_SECONDS" => match value.parse() {
                Ok(seconds) => {
                    self.grace = Duration::from_secs(seconds);
                    None
                }
                Err(_) => Some(wrong("must be a number of seconds")),
            },
            "LINCHPIN_LOG" => {
                value.clone_into(&mut self.log);
                let checked = tracing_subscriber::EnvFilter::try_new(value);
                checked.err().map(|e| wrong(&format!("must be a log filter such as `info,linchpin=debug` ({e})")))
            }
            "LINCHPIN_LOG_FORMAT" => match value {
                "text" => None,
                "json" => {
                    self.log_json = true;
                    None
                }
                _ => Some(wrong("must be `text` or `json`")),
            },
            _ => {
                let hint = did_you_mean(name, VARIABLES.iter().map(|(name, _)| *name));
                Some(Problem::new(name, "unknown", format!("is not a variable of Linchpin{hint}")))
            }
        };
        self.problems.extend(problem);
    }

    fn add_origin(&mut self, name: &str, origin: &str) {
        let problem = match url::Url::parse(origin) {
            _ if origin == "*" => Some("must name origins: `*` would let every page read answers".to_owned()),
            // What browsers send as `Origin` is compared byte for byte.
            Ok(url) if matches!(url.scheme(), "http" | "https") && url.origin().ascii_serialization() == origin => None,
            Ok(url) if matches!(url.scheme(), "http" | "https") => {
                Some(format!("must be an origin such as `{}`, found `{origin}`", url.origin().ascii_serialization()))
            }
            _ => Some(format!("must be an origin such as `https://app.example.com`, found `{origin}`")),
        };
        match problem {
            Some(message) => self.problems.push(Problem::new(name, "invalid", message)),
            None => self.cors.origins.push(origin.to_owned()),
        }
    }

    fn add_secret(&mut self, name: &str, secret: &str) {
        match SigningSecret::new(secret) {
            Ok(secret) if self.secrets.contains(&secret) => self.problems.push(Problem::new(name, "invalid", "names one secret twice")),
            Ok(secret) => self.secrets.push(secret),
            Err(why) => self.problems.push(Problem::new(name, "invalid", why)),
        }
    }

    /// The problems found so far, as one error.
    pub(crate) fn checked(self) -> Result<Self> {
        if self.problems.is_empty() {
            return Ok(self);
        }
        Err(Error::new(Code::Internal, "The configuration is not valid").with_details(self.problems))
    }

    /// The port to listen on; 0 picks a free one.
    #[must_use]
    pub fn port(mut self, port: u16) -> Self {
        self.port = port;
        self
    }

    /// The address to listen on; loopback by default, every address in production.
    #[must_use]
    pub fn host(mut self, host: IpAddr) -> Self {
        self.host = host;
        self
    }

    /// `security.signing.secret`: the first secret given signs, all verify. Read it from the environment, never write it here
    /// outside of tests.
    #[must_use]
    pub fn signing_secret(mut self, secret: impl AsRef<str>) -> Self {
        self.add_secret("security.signing.secret", secret.as_ref());
        self
    }

    /// Where records live: `sqlite:<file>`, `postgres://…` or `memory:`.
    #[must_use]
    pub fn database(mut self, url: impl AsRef<str>) -> Self {
        match database(url.as_ref()) {
            Ok(database) => self.database = database,
            Err(why) => self.problems.push(Problem::new("stores.default", "invalid", why)),
        }
        self
    }

    /// When a write of the embedded store counts as done.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// `stores.postgres`: how a server is used.
    #[must_use]
    pub fn postgres(mut self, postgres: Postgres) -> Self {
        let counts = [postgres.readers, postgres.writers, postgres.pool, postgres.transactions, postgres.in_flight];
        let names = ["readers", "writers", "pool", "transactions", "in_flight"];
        for (name, _) in names.iter().zip(counts).filter(|(_, n)| n.is_some_and(|n| !(1..=COUNT).contains(&n))) {
            self.problems.push(Problem::new(format!("stores.postgres.{name}"), "invalid", format!("must be from 1 to {COUNT}")));
        }
        self.postgres = postgres;
        self
    }

    /// Development or production.
    #[must_use]
    pub fn environment(mut self, environment: Environment) -> Self {
        self.environment = environment;
        self
    }

    /// Whether `/docs` is served; by default only in development.
    #[must_use]
    pub fn docs(mut self, on: bool) -> Self {
        self.docs = Some(on);
        self
    }

    /// Whether `/openapi.json` is served; it is public.
    #[must_use]
    pub fn openapi(mut self, on: bool) -> Self {
        self.openapi = on;
        self
    }

    /// `security.cors`: the exact origins whose pages may read answers, and whether their requests may carry cookies.
    #[must_use]
    pub fn cors<O: AsRef<str>>(mut self, origins: impl IntoIterator<Item = O>, credentials: bool) -> Self {
        for origin in origins {
            self.add_origin("security.cors.origins", origin.as_ref());
        }
        self.cors.credentials = credentials;
        self
    }

    /// Most connections at a time; further ones wait until one ends. 10,000 by default, and never more than the process may
    /// open files.
    #[must_use]
    pub fn max_connections(mut self, most: usize) -> Self {
        self.max_connections = most.max(1);
        self
    }

    /// How long a stop waits for requests it has accepted; 10 s by default.
    #[must_use]
    pub fn shutdown_grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// The signing secrets, with the development one when none was given.
    pub(crate) fn signing_secrets(&self) -> Result<Vec<SigningSecret>> {
        if !self.secrets.is_empty() {
            return Ok(self.secrets.clone());
        }
        if self.environment == Environment::Production {
            let problem = Problem::new(
                "security.signing.secret",
                "required",
                "is required in production: set LINCHPIN_SIGNING_SECRET to at least 32 random bytes",
            );
            return Err(Error::new(Code::Internal, "The configuration is not valid").with_details(vec![problem]));
        }
        let folder = match &self.database {
            Database::Sqlite(file) => file.parent().unwrap_or(file.as_path()).to_owned(),
            Database::Memory | Database::Postgres(_) => PathBuf::new(),
        };
        let secret = SigningSecret::development(&folder).map_err(|why| {
            Error::new(Code::Internal, "The configuration is not valid").with_details(vec![Problem::new(
                "security.signing.secret",
                "invalid",
                why,
            )])
        })?;
        tracing::warn!("no signing secret is set: using this folder's development secret (.linchpin/development-secret)");
        Ok(vec![secret])
    }

    pub(crate) fn docs_on(&self) -> bool {
        self.docs.unwrap_or(self.environment == Environment::Development)
    }
}

/// The greatest number of connections, statements or seconds.
const COUNT: usize = 100_000;

fn count(text: &str) -> Result<usize, &'static str> {
    text.parse().ok().filter(|n| (1..=COUNT).contains(n)).ok_or("must be a number from 1 to 100000")
}

fn database(url: &str) -> Result<Database, String> {
    let problem = || format!("must be `sqlite:<file>`, `postgres://…` or `memory:`, found `{}`", url.split(':').next().unwrap_or_default());
    match url.split_once(':') {
        Some(("postgres" | "postgresql", rest)) if rest.starts_with("//") => Ok(Database::Postgres(DatabaseUrl(url.to_owned()))),
        Some(("memory", "")) => Ok(Database::Memory),
        Some(("sqlite", path)) => {
            let path = path.strip_prefix("//").unwrap_or(path);
            if path.is_empty() || path == ":memory:" { Err(problem()) } else { Ok(Database::Sqlite(path.into())) }
        }
        _ => Err(problem()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vars(list: &[(&str, &str)]) -> Result<Config> {
        Config::from_vars(list.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))).and_then(Config::checked)
    }

    #[test]
    fn reports_every_mistake_at_once_and_no_secret() {
        let wrong = [
            ("LINCHPIN_PORT", "70000"),
            ("LINCHPIN_PROT", "1"),
            ("LINCHPIN_SIGNING_SECRET", "hush-hush"),
            ("LINCHPIN_DATABASE_URL", "mysql://u:pw@h/db"),
            ("LINCHPIN_POSTGRES_READERS", "0"),
            ("LINCHPIN_DOCS", "maybe"),
            ("LINCHPIN_CORS_ORIGINS", "https://good.example, https://bad.example/path"),
            ("LINCHPIN_MAX_CONNECTIONS", "0"),
            ("OTHER", "ignored"),
        ];
        let error = vars(&wrong).err().map(|e| e.to_string()).unwrap_or_default();
        for name in [
            "LINCHPIN_PORT",
            "LINCHPIN_PROT",
            "LINCHPIN_SIGNING_SECRET",
            "LINCHPIN_DATABASE_URL",
            "LINCHPIN_POSTGRES_READERS",
            "LINCHPIN_DOCS",
            "LINCHPIN_CORS_ORIGINS",
            "LINCHPIN_MAX_CONNECTIONS",
        ] {
            assert!(error.contains(name), "{name} in {error}");
        }
        assert!(error.contains("did you mean `LINCHPIN_PORT`?"), "{error}");
        assert!(error.contains("such as `https://bad.example`"), "{error}");
        assert!(!error.contains("hush-hush") && !error.contains("pw"), "{error}");
    }

    #[test]
    fn a_production_app_needs_a_secret() {
        let config = vars(&[("LINCHPIN_ENVIRONMENT", "production")]).ok();
        assert!(config.is_some_and(|c| c.signing_secrets().is_err() && !c.docs_on() && c.host.is_unspecified()));
    }

    #[test]
    fn a_server_is_chosen_by_its_url() {
        let config = vars(&[("LINCHPIN_DATABASE_URL", "postgresql://u:hush@h/db?sslmode=require"), ("LINCHPIN_POSTGRES_WRITERS", "3")]);
        let config = config.expect("a valid configuration");
        assert!(matches!(&config.database, Database::Postgres(url) if url.expose().starts_with("postgresql://u:hush@h")));
        assert_eq!(config.postgres.writers, Some(3));
        assert!(!format!("{config:?}").contains("hush"));
    }

    #[test]
    fn secrets_are_never_printed() {
        let config = Config::new().signing_secret("0123456789abcdef0123456789abcdef");
        assert!(!format!("{config:?}").contains("0123456789abcdef"));
    }
}
