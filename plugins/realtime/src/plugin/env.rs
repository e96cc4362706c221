//! Settings from environment variables: `LINCHPIN_REALTIME_DRAIN_SECONDS` is
//! `realtime.drain_seconds`.

use std::str::FromStr;
use std::time::Duration;

use linchpin::Problem;
use linchpin::suggest::did_you_mean;

use super::config::{Endpoint, EngineChoice, RealtimeConfig};
use crate::connection::OnExceeded;

/// The prefix of the variables of the plugin.
pub(super) const VARIABLES: [&str; 1] = ["LINCHPIN_REALTIME_"];

/// The variable with the database of the app. The engine `postgres` uses this database if
/// `LINCHPIN_REALTIME_ENGINE_URL` is not set.
const DATABASE: &str = "LINCHPIN_DATABASE_URL";

/// Reads one variable.
type Read = fn(&mut RealtimeConfig, &str) -> Result<(), String>;

/// The variables, without their prefix. `ENGINE` and `ENGINE_URL` are read together.
const READERS: &[(&str, Read)] = &[
    ("ENDPOINTS", |config, text| {
        let paths = text
            .split(',')
            .map(str::trim)
            .filter(|path| !path.is_empty());
        config.endpoints = paths.map(Endpoint::new).collect();
        Ok(())
    }),
    ("CLUSTER", |config, text| {
        set(&mut config.cluster, flag(text))
    }),
    ("RECHECK_SECONDS", |config, text| {
        set(&mut config.recheck, seconds(text))
    }),
    ("DRAIN_SECONDS", |config, text| {
        set(&mut config.drain, seconds(text))
    }),
    ("FIRST_MESSAGE_AUTH", |config, text| {
        set(&mut config.first_message_auth, flag(text))
    }),
    ("LIMITS_INBOUND_BYTES", |config, text| {
        set(&mut config.limits.inbound_bytes, number(text))
    }),
    ("LIMITS_OUTBOUND_BYTES", |config, text| {
        set(&mut config.limits.outbound_bytes, number(text))
    }),
    ("LIMITS_ROOMS", |config, text| {
        set(&mut config.limits.rooms, number(text))
    }),
    ("LIMITS_CONNECTIONS_PER_USER", |config, text| {
        set(&mut config.limits.connections_per_user, number(text))
    }),
    ("LIMITS_CONNECTIONS_PER_ADDRESS", |config, text| {
        set(&mut config.limits.connections_per_address, number(text))
    }),
    ("LIMITS_CONNECTIONS_PER_NODE", |config, text| {
        set(&mut config.limits.connections_per_node, number(text))
    }),
    ("LIMITS_FRAMES_PER_SECOND", |config, text| {
        set(&mut config.limits.frames_per_second, number(text))
    }),
    ("LIMITS_FRAMES_BURST", |config, text| {
        set(&mut config.limits.frames_burst, number(text))
    }),
    ("LIMITS_ON_EXCEEDED", |config, text| {
        set(
            &mut config.limits.on_exceeded,
            match text {
                "discard" => Ok(OnExceeded::Discard),
                "close" => Ok(OnExceeded::Close),
                _ => Err("must be `discard` or `close`"),
            },
        )
    }),
    ("LIMITS_RELAYS_PER_SECOND", |config, text| {
        set(&mut config.limits.relays_per_second, number(text))
    }),
    ("LIMITS_SUBSCRIBES_PER_MINUTE", |config, text| {
        set(&mut config.limits.subscribes_per_minute, number(text))
    }),
    ("LIMITS_HANDSHAKES_PER_MINUTE", |config, text| {
        set(&mut config.limits.handshakes_per_minute, number(text))
    }),
    ("LIMITS_HANDLER_SECONDS", |config, text| {
        set(&mut config.limits.handler_time, seconds(text))
    }),
    ("LIMITS_QUEUE_FRAMES", |config, text| {
        set(&mut config.limits.queue_frames, number(text))
    }),
    ("LIMITS_QUEUE_BYTES", |config, text| {
        set(&mut config.limits.queue_bytes, number(text))
    }),
    ("LIMITS_HEARTBEAT_SECONDS", |config, text| {
        set(&mut config.limits.heartbeat, seconds(text))
    }),
    ("LIMITS_HEARTBEAT_TIMEOUT_SECONDS", |config, text| {
        set(&mut config.limits.heartbeat_timeout, seconds(text))
    }),
    ("LIMITS_STALL_SECONDS", |config, text| {
        set(&mut config.limits.stall, seconds(text))
    }),
    ("LIMITS_AUTHENTICATION_SECONDS", |config, text| {
        set(&mut config.limits.authentication_time, seconds(text))
    }),
    ("LIMITS_EXPIRY_NOTICE_SECONDS", |config, text| {
        set(&mut config.limits.expiry_notice, seconds(text))
    }),
    ("LIMITS_EXPIRY_GRACE_SECONDS", |config, text| {
        set(&mut config.limits.expiry_grace, seconds(text))
    }),
];

fn set<T>(place: &mut T, value: Result<T, &'static str>) -> Result<(), String> {
    *place = value?;
    Ok(())
}

fn flag(text: &str) -> Result<bool, &'static str> {
    text.parse().map_err(|_| "must be `true` or `false`")
}

fn number<T: FromStr>(text: &str) -> Result<T, &'static str> {
    text.parse().map_err(|_| "must be a whole number")
}

fn seconds(text: &str) -> Result<Duration, &'static str> {
    let seconds = text
        .parse()
        .map_err(|_| "must be a whole number of seconds")?;
    Ok(Duration::from_secs(seconds))
}

impl RealtimeConfig {
    /// Returns the default settings, overridden by the variables `LINCHPIN_REALTIME_*`.
    /// `LINCHPIN_REALTIME_ENGINE` is `memory`, `postgres`, `redis` or `nats`;
    /// `LINCHPIN_REALTIME_ENGINE_URL` is the address of the server for the last three. For
    /// `postgres` the default address is the database of the app. A wrong or unknown variable is
    /// reported when the app starts.
    pub fn from_env() -> Self {
        let all = std::env::vars_os();
        Self::from_vars(all.filter_map(|(name, value)| {
            Some((
                name.into_string().ok()?,
                value.to_string_lossy().into_owned(),
            ))
        }))
    }

    /// Does the same as [`from_env`](Self::from_env) with the given variables.
    pub fn from_vars(variables: impl IntoIterator<Item = (String, String)>) -> Self {
        let mut config = Self {
            from_environment: true,
            ..Self::default()
        };
        let (mut engine, mut url, mut database) = (None, None, None);
        for (name, value) in variables {
            let value = value.trim();
            let Some(key) = name.strip_prefix(VARIABLES[0]) else {
                if name == DATABASE {
                    database = Some(value.to_owned());
                }
                continue;
            };
            let done = match key {
                "ENGINE" => {
                    engine = Some(value.to_owned());
                    Ok(())
                }
                "ENGINE_URL" => {
                    url = Some(value.to_owned());
                    Ok(())
                }
                key => match READERS.iter().find(|(known, _)| *known == key) {
                    Some((_, read)) => read(&mut config, value)
                        .map_err(|why| (why + &found_text(value), "invalid")),
                    None => {
                        let known = READERS.iter().map(|(known, _)| *known);
                        let hint = did_you_mean(key, known.chain(["ENGINE", "ENGINE_URL"]));
                        Err((format!("is not a setting{hint}"), "unknown"))
                    }
                },
            };
            if let Err((why, code)) = done {
                config.problems.push(Problem::new(name, code, why));
            }
        }
        if let Some(engine) = engine {
            match choice(&engine, url, database) {
                Ok(engine) => config.engine = engine,
                Err(why) => {
                    let name = "LINCHPIN_REALTIME_ENGINE";
                    config.problems.push(Problem::new(name, "invalid", why));
                }
            }
        }
        config
    }
}

fn found_text(value: &str) -> String {
    format!(", found `{value}`")
}

/// Returns the engine with a name.
fn choice(
    name: &str,
    url: Option<String>,
    database: Option<String>,
) -> Result<EngineChoice, String> {
    match name {
        "memory" => Ok(EngineChoice::Memory),
        "postgres" => {
            let database = database.filter(|url| url.starts_with("postgres"));
            postgres(url.or(database))
        }
        "redis" => redis(url),
        "nats" => nats(url),
        _ => Err(format!(
            "must be `memory`, `postgres`, `redis` or `nats`{}",
            found_text(name)
        )),
    }
}

#[cfg(feature = "postgres")]
fn postgres(url: Option<String>) -> Result<EngineChoice, String> {
    let url = url.ok_or(
        "`postgres` needs a database: set LINCHPIN_REALTIME_ENGINE_URL to `postgres://..`",
    )?;
    let options = crate::engine::PostgresEngineOptions::new(url);
    Ok(EngineChoice::Postgres(options))
}

#[cfg(not(feature = "postgres"))]
fn postgres(_: Option<String>) -> Result<EngineChoice, String> {
    Err(
        "this build has no engine `postgres`: enable feature `postgres` of linchpin-realtime"
            .into(),
    )
}

#[cfg(feature = "redis")]
fn redis(url: Option<String>) -> Result<EngineChoice, String> {
    let url =
        url.ok_or("`redis` needs a server: set LINCHPIN_REALTIME_ENGINE_URL to `redis://..`")?;
    Ok(EngineChoice::Redis(crate::engine::RedisEngineOptions::new(
        url,
    )))
}

#[cfg(not(feature = "redis"))]
fn redis(_: Option<String>) -> Result<EngineChoice, String> {
    Err("this build has no engine `redis`: enable feature `redis` of linchpin-realtime".into())
}

#[cfg(feature = "nats")]
fn nats(url: Option<String>) -> Result<EngineChoice, String> {
    let url =
        url.ok_or("`nats` needs a server: set LINCHPIN_REALTIME_ENGINE_URL to `nats://..`")?;
    Ok(EngineChoice::Nats(crate::engine::NatsEngineOptions::new(
        url,
    )))
}

#[cfg(not(feature = "nats"))]
fn nats(_: Option<String>) -> Result<EngineChoice, String> {
    Err("this build has no engine `nats`: enable feature `nats` of linchpin-realtime".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::Limits;

    fn read(variables: &[(&str, &str)]) -> RealtimeConfig {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        RealtimeConfig::from_vars(variables.iter().map(owned))
    }

    #[test]
    fn every_mistake_is_reported_under_its_name() {
        let config = read(&[
            ("LINCHPIN_REALTIME_DRAIN_SECONDS", "soon"),
            ("LINCHPIN_REALTIME_RECHECK_SECONDS", "0"),
            ("LINCHPIN_REALTIME_ENDPOINTS", "/__ws, rooms, /__ws"),
            ("LINCHPIN_REALTIME_LIMITS_ROOM", "7"),
            ("LINCHPIN_REALTIME_LIMITS_QUEUE_FRAMES", "3"),
            ("LINCHPIN_REALTIME_ENGINE", "mysql"),
            ("LINCHPIN_PORT", "80"),
        ]);
        let problems: Vec<String> = config
            .check()
            .into_iter()
            .map(|problem| format!("{}: {}", problem.path, problem.message))
            .collect();
        assert_eq!(
            problems,
            [
                "LINCHPIN_REALTIME_DRAIN_SECONDS: must be a whole number of seconds, found `soon`",
                "LINCHPIN_REALTIME_LIMITS_ROOM: is not a setting; did you mean `LIMITS_ROOMS`?",
                "LINCHPIN_REALTIME_ENGINE: must be `memory`, `postgres`, `redis` or `nats`, found `mysql`",
                "realtime.limits.queue_frames: must be 16 to 4096, not 3",
                "realtime.recheck_seconds: must be 1 to 3600, not 0",
                "realtime.endpoints: `rooms` must be a path of static segments, such as `/__ws`",
                "realtime.endpoints: `/__ws` is listed twice",
            ]
        );
    }

    #[test]
    fn each_variable_sets_its_setting() {
        let config = read(&[
            ("LINCHPIN_REALTIME_ENDPOINTS", "/__ws,/__rooms"),
            ("LINCHPIN_REALTIME_CLUSTER", "true"),
            ("LINCHPIN_REALTIME_LIMITS_ON_EXCEEDED", "close"),
            ("LINCHPIN_REALTIME_FIRST_MESSAGE_AUTH", "false"),
        ]);
        assert!(config.check().is_empty());
        let paths: Vec<&str> = config
            .endpoints
            .iter()
            .map(|one| one.path.as_str())
            .collect();
        assert_eq!(paths, ["/__ws", "/__rooms"]);
        assert!(config.cluster && !config.first_message_auth);
        assert_eq!(
            config.limits,
            Limits {
                on_exceeded: OnExceeded::Close,
                ..Limits::default()
            }
        );
    }

    /// The pattern names all fields, so a new limit without a variable does not compile.
    #[test]
    fn each_limit_has_a_variable() {
        let limits = READERS.iter().map(|(name, _)| *name);
        let limits = limits.filter(|name| name.starts_with("LIMITS_"));
        let variables: Vec<(String, String)> = limits
            .zip(20_u32..)
            .map(|(name, n)| {
                let value = match name {
                    "LIMITS_ON_EXCEEDED" => "close".to_owned(),
                    _ => n.to_string(),
                };
                (format!("LINCHPIN_REALTIME_{name}"), value)
            })
            .collect();
        let Limits {
            inbound_bytes,
            outbound_bytes,
            rooms,
            connections_per_user,
            connections_per_address,
            connections_per_node,
            frames_per_second,
            frames_burst,
            on_exceeded,
            relays_per_second,
            subscribes_per_minute,
            handshakes_per_minute,
            handler_time,
            queue_frames,
            queue_bytes,
            heartbeat,
            heartbeat_timeout,
            stall,
            authentication_time,
            expiry_notice,
            expiry_grace,
        } = RealtimeConfig::from_vars(variables.iter().cloned()).limits;
        assert_eq!(on_exceeded, OnExceeded::Close);
        let seconds = |time: Duration| usize::try_from(time.as_secs()).unwrap();
        let mut values = vec![
            inbound_bytes,
            outbound_bytes,
            rooms,
            connections_per_user,
            connections_per_address,
            connections_per_node,
            frames_per_second as usize,
            frames_burst as usize,
            relays_per_second as usize,
            subscribes_per_minute as usize,
            handshakes_per_minute as usize,
            seconds(handler_time),
            queue_frames,
            queue_bytes,
            seconds(heartbeat),
            seconds(heartbeat_timeout),
            seconds(stall),
            seconds(authentication_time),
            seconds(expiry_notice),
            seconds(expiry_grace),
        ];
        values.sort_unstable();
        let mut expected: Vec<usize> = variables.iter().flat_map(|(_, n)| n.parse()).collect();
        expected.sort_unstable();
        assert_eq!(values, expected);
    }

    #[cfg(feature = "nats")]
    #[test]
    fn the_engine_nats_needs_an_address() {
        let engine = ("LINCHPIN_REALTIME_ENGINE", "nats");
        let config = read(&[engine]);
        assert!(config.check()[0].message.contains("nats://"));
        let address = ("LINCHPIN_REALTIME_ENGINE_URL", "nats://localhost");
        let config = read(&[engine, address]);
        assert_eq!(format!("{:?}", config.engine), "nats");
    }

    #[cfg(feature = "postgres")]
    #[test]
    fn the_engine_postgres_uses_the_database_of_the_app_by_default() {
        let name = |config: RealtimeConfig| format!("{:?}", config.engine);
        let engine = ("LINCHPIN_REALTIME_ENGINE", "postgres");
        let own = ("LINCHPIN_DATABASE_URL", "postgres://localhost/app");
        assert_eq!(name(read(&[engine, own])), "postgres");
        let config = read(&[engine, ("LINCHPIN_DATABASE_URL", "sqlite:app.db")]);
        assert!(
            config.check()[0]
                .message
                .contains("LINCHPIN_REALTIME_ENGINE_URL")
        );
    }
}
