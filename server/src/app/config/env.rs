//! Settings from environment variables.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use super::database::parse_count;
use super::{Config, Durability, Environment, data_keys};
use crate::store::DatabaseUrl;
use crate::suggest::nearest;
use crate::{Problem, Result};
use linchpin_migrate::SchemaCheck;

/// The prefix of all variables.
const PREFIX: &str = "LINCHPIN_";
/// The variable of the signing secrets.
pub(super) const SECRET: &str = "LINCHPIN_SIGNING_SECRET";
/// The variable of the keys of stored data.
const DATA_KEYS: &str = "LINCHPIN_DATA_KEYS";
/// The variable of the database URL.
const DATABASE: &str = "LINCHPIN_DATABASE_URL";

/// The known variables; the table at [`Config`] describes them.
const VARIABLES: &[&str] = &[
    "LINCHPIN_HOST",
    "LINCHPIN_PORT",
    SECRET,
    DATA_KEYS,
    DATABASE,
    "LINCHPIN_SQLITE_DURABILITY",
    "LINCHPIN_POSTGRES_READERS",
    "LINCHPIN_POSTGRES_SCANS",
    "LINCHPIN_POSTGRES_WRITERS",
    "LINCHPIN_POSTGRES_POOL",
    "LINCHPIN_POSTGRES_TRANSACTIONS",
    "LINCHPIN_POSTGRES_IN_FLIGHT",
    "LINCHPIN_POSTGRES_STATEMENT_SECONDS",
    "LINCHPIN_POSTGRES_CONNECT_SECONDS",
    "LINCHPIN_ENVIRONMENT",
    "LINCHPIN_DOCS",
    "LINCHPIN_OPENAPI",
    "LINCHPIN_CORS_ORIGINS",
    "LINCHPIN_CORS_CREDENTIALS",
    "LINCHPIN_MAX_CONNECTIONS",
    "LINCHPIN_CONNECTIONS_PER_ADDRESS",
    "LINCHPIN_BODIES_MIB",
    "LINCHPIN_SHUTDOWN_SECONDS",
    "LINCHPIN_SCHEMA_CHECK",
    "LINCHPIN_LOG",
    "LINCHPIN_LOG_FORMAT",
];

impl Config {
    /// Reads the `LINCHPIN_*` environment variables over [`Config::new`].
    ///
    /// A variable that is wrong or unknown is reported when the app starts, with every other
    /// mistake of the configuration.
    ///
    /// # Errors
    /// Never at present. Later versions may return an error for an environment that cannot be read.
    pub fn from_env() -> Result<Self> {
        Self::from_vars(
            std::env::vars_os().filter_map(|(k, v)| {
                Some((k.into_string().ok()?, v.to_string_lossy().into_owned()))
            }),
        )
    }

    /// Like [`Config::from_env`], with the given variables.
    ///
    /// # Errors
    /// Like [`Config::from_env`].
    pub fn from_vars(vars: impl IntoIterator<Item = (String, String)>) -> Result<Self> {
        let mut config = Self::new();
        let mut seen_host = false;
        for (name, value) in vars {
            if !name.starts_with(PREFIX) {
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

    /// Accepts unknown variables with these prefixes: a plugin or a store of another crate reads
    /// them.
    pub(in crate::app) fn leave(&mut self, prefixes: &[&str]) {
        self.problems.retain(|problem| {
            problem.code != "unknown"
                || !prefixes
                    .iter()
                    .any(|prefix| problem.path.starts_with(prefix))
        });
        for problem in self.problems.iter_mut().filter(|problem| {
            problem.code == "unknown" && !problem.message.contains("did you mean")
        }) {
            // Only the prefix of a plugin's variables is known here, so only the prefix is
            // compared.
            let meant = prefixes.iter().find_map(|prefix| {
                let begin = problem
                    .path
                    .match_indices('_')
                    .map(|(at, _)| problem.path.split_at(at + 1));
                let most = (prefix.len().saturating_sub(PREFIX.len()) / 4).max(1);
                let mut near =
                    begin.filter(|(begin, _)| strsim::osa_distance(begin, prefix) <= most);
                near.next().map(|(_, rest)| format!("{prefix}{rest}"))
            });
            if let Some(meant) = meant {
                problem
                    .message
                    .push_str(&format!("; did you mean `{meant}`?"));
            }
        }
    }

    fn variable(&mut self, name: &str, value: &str) {
        let wrong =
            |message: &str| Problem::new(name, "invalid", format!("{message}, found `{value}`"));
        let problem = match name {
            "LINCHPIN_HOST" => value
                .parse()
                .map(|v| self.host = v)
                .err()
                .map(|_| wrong("must be an IP address")),
            "LINCHPIN_PORT" => value
                .parse()
                .map(|v| self.port = v)
                .err()
                .map(|_| wrong("must be a port from 0 to 65535")),
            SECRET => {
                for secret in value.split(',') {
                    self.add_secret(name, secret);
                }
                None
            }
            DATA_KEYS => {
                self.data_keys = data_keys::from_json(name, value, &mut self.problems);
                None
            }
            DATABASE => {
                self.database = DatabaseUrl::new(value);
                self.database_at = DATABASE;
                None
            }
            "LINCHPIN_SQLITE_DURABILITY" => match value {
                "full" => None,
                "normal" => {
                    self.durability = Durability::Normal;
                    None
                }
                _ => Some(wrong("must be `full` or `normal`")),
            },
            "LINCHPIN_POSTGRES_READERS" => parse_count(value)
                .map(|n| self.postgres.readers = Some(n))
                .err()
                .map(&wrong),
            "LINCHPIN_POSTGRES_SCANS" => parse_count(value)
                .map(|n| self.postgres.scans = Some(n))
                .err()
                .map(&wrong),
            "LINCHPIN_POSTGRES_WRITERS" => parse_count(value)
                .map(|n| self.postgres.writers = Some(n))
                .err()
                .map(&wrong),
            "LINCHPIN_POSTGRES_POOL" => parse_count(value)
                .map(|n| self.postgres.pool = Some(n))
                .err()
                .map(&wrong),
            "LINCHPIN_POSTGRES_TRANSACTIONS" => parse_count(value)
                .map(|n| self.postgres.transactions = Some(n))
                .err()
                .map(&wrong),
            "LINCHPIN_POSTGRES_IN_FLIGHT" => parse_count(value)
                .map(|n| self.postgres.in_flight = Some(n))
                .err()
                .map(&wrong),
            "LINCHPIN_POSTGRES_STATEMENT_SECONDS" => parse_count(value)
                .map(|n| self.postgres.statement_timeout = Some(Duration::from_secs(n as u64)))
                .err()
                .map(&wrong),
            "LINCHPIN_POSTGRES_CONNECT_SECONDS" => parse_count(value)
                .map(|n| self.postgres.connect_timeout = Some(Duration::from_secs(n as u64)))
                .err()
                .map(&wrong),
            "LINCHPIN_ENVIRONMENT" => match value {
                "development" => None,
                "production" => {
                    self.environment = Environment::Production;
                    None
                }
                _ => Some(wrong("must be `development` or `production`")),
            },
            "LINCHPIN_DOCS" => value
                .parse()
                .map(|v| self.docs = Some(v))
                .err()
                .map(|_| wrong("must be `true` or `false`")),
            "LINCHPIN_OPENAPI" => value
                .parse()
                .map(|v| self.openapi = v)
                .err()
                .map(|_| wrong("must be `true` or `false`")),
            "LINCHPIN_CORS_ORIGINS" => {
                for origin in value.split(',').map(str::trim).filter(|o| !o.is_empty()) {
                    self.allow_origin(name, origin);
                }
                None
            }
            "LINCHPIN_CORS_CREDENTIALS" => value
                .parse()
                .map(|v| self.cors.credentials = v)
                .err()
                .map(|_| wrong("must be `true` or `false`")),
            "LINCHPIN_MAX_CONNECTIONS" => match value.parse() {
                Ok(most) if most > 0 => {
                    self.max_connections = most;
                    None
                }
                _ => Some(wrong("must be a number greater than 0")),
            },
            "LINCHPIN_CONNECTIONS_PER_ADDRESS" => match value.parse() {
                Ok(most) if most > 0 => {
                    self.connections_per_address = Some(most);
                    None
                }
                _ => Some(wrong("must be a number greater than 0")),
            },
            "LINCHPIN_BODIES_MIB" => parse_count(value)
                .map(|n| self.bodies = (n as u64) << 20)
                .err()
                .map(&wrong),
            "LINCHPIN_SHUTDOWN_SECONDS" => match value.parse() {
                Ok(seconds) => {
                    self.grace = Duration::from_secs(seconds);
                    None
                }
                Err(_) => Some(wrong("must be a number of seconds")),
            },
            "LINCHPIN_SCHEMA_CHECK" => {
                let check = match value {
                    "error" => Some(SchemaCheck::Error),
                    "warn" => Some(SchemaCheck::Warn),
                    "off" => Some(SchemaCheck::Off),
                    _ => None,
                };
                self.schema_check = check.unwrap_or(self.schema_check);
                let wrong = || wrong("must be `error`, `warn` or `off`");
                check.is_none().then(wrong)
            }
            "LINCHPIN_LOG" => {
                value.clone_into(&mut self.log);
                log_flaw(value).map(|flaw| {
                    wrong(&format!(
                        "must be a log filter such as `info,linchpin=debug`: {flaw}"
                    ))
                })
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
                // The common prefix is left out, because it does not help to find the variable that
                // was meant.
                let near = nearest(
                    name.trim_start_matches(PREFIX),
                    VARIABLES
                        .iter()
                        .map(|known| known.trim_start_matches(PREFIX)),
                );
                let hint = near.map_or_else(String::new, |known| {
                    format!("; did you mean `{PREFIX}{known}`?")
                });
                Some(Problem::new(
                    name,
                    "unknown",
                    format!("is not a known variable of this app{hint}"),
                ))
            }
        };
        self.problems.extend(problem);
    }
}

/// Returns the mistake in a log filter. The library reads the misspelled level `infoo` as the name
/// of a module, and then logs almost nothing.
fn log_flaw(filter: &str) -> Option<String> {
    let levels = ["off", "error", "warn", "info", "debug", "trace"];
    let is_level = |text: &str| levels.iter().any(|level| level.eq_ignore_ascii_case(text));
    for part in filter.split(',').map(str::trim) {
        let (module, level) = part
            .rsplit_once('=')
            .map_or((None, part), |(module, level)| (Some(module), level));
        if !is_level(level) {
            let hint = nearest(level, levels)
                .map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
            return Some(format!(
                "`{part}` does not end with a level ({}){hint}",
                levels.join(", ")
            ));
        }
        if module.is_some_and(|module| module.trim().is_empty()) {
            return Some(format!("`{part}` has no module before `=`"));
        }
    }
    tracing_subscriber::EnvFilter::try_new(filter)
        .err()
        .map(|error| error.to_string())
}
