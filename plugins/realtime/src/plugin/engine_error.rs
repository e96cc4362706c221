//! The start-up error of an engine, with the address of its server.

use linchpin::Error;

use super::EngineChoice;
use crate::engine::EngineError;

/// Returns the start-up error of an engine: its name, the host and port of its server, the cause
/// and the setting. It contains no credentials.
pub(super) fn start_error(choice: &EngineChoice, cause: &EngineError) -> Error {
    let urls: &[String] = match choice {
        EngineChoice::Memory | EngineChoice::Own(_) => &[],
        #[cfg(feature = "postgres")]
        EngineChoice::Postgres(options) => std::slice::from_ref(&options.url),
        #[cfg(feature = "redis")]
        EngineChoice::Redis(options) => &options.urls,
        #[cfg(feature = "nats")]
        EngineChoice::Nats(options) => &options.urls,
    };
    let hosts: Vec<&str> = urls.iter().filter_map(|url| host(url)).collect();
    let at = if hosts.is_empty() {
        String::new()
    } else {
        format!(" at `{}`", hosts.join(", "))
    };
    let setting = if urls.is_empty() {
        ""
    } else {
        "; check the address in `Realtime::engine` or LINCHPIN_REALTIME_ENGINE_URL"
    };
    Error::internal(format!(
        "engine `{choice:?}`{at} did not start: {cause}{setting}"
    ))
}

/// Returns the host and port of a URL, or `None` if any part of the text could be a credential.
fn host(url: &str) -> Option<&str> {
    let (_, rest) = url.split_once("://")?;
    let (authority, rest) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    // A password with an unescaped `/` ends the authority too early.
    if rest.contains('@') {
        return None;
    }
    let host = authority.rsplit('@').next()?;
    let is_port = |port: &str| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    let name = match host.rsplit_once(':') {
        Some((name, port)) if is_port(port) => name,
        _ => host,
    };
    let name = name
        .strip_prefix('[')
        .and_then(|name| name.strip_suffix(']'))
        .or_else(|| (!name.contains(':')).then_some(name))?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:%".contains(&byte);
    (!name.is_empty() && name.bytes().all(is_plain)).then_some(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_contain_no_credentials() {
        for (url, expected) in [
            ("nats://127.0.0.1:4222", Some("127.0.0.1:4222")),
            ("redis://user:secret@cache:6379/1", Some("cache:6379")),
            ("redis://:secret@[::1]:6379", Some("[::1]:6379")),
            (
                "postgres://app:secret@db.example/app?sslmode=require",
                Some("db.example"),
            ),
            ("nats://token@host", Some("host")),
            // The password contains `/` or `@`, or the URL has no `@` after the password.
            ("postgres://app:se/cret@db/app", None),
            ("postgres://app:se@cret@db/app", Some("db")),
            ("redis://app:secret", None),
            ("redis+unix:///run/redis.sock?pass=secret", None),
            ("redis:secret@cache", None),
            ("", None),
        ] {
            assert_eq!(host(url), expected, "{url}");
        }
    }

    #[test]
    fn the_error_of_an_engine_without_a_server_names_no_setting() {
        let cause = EngineError::unavailable("the disk is full");
        let error = start_error(&EngineChoice::Memory, &cause);
        let cause = std::error::Error::source(&error).map(ToString::to_string);
        let text = "engine `memory` did not start: the realtime engine is unavailable: the disk \
                    is full";
        assert_eq!(cause.as_deref(), Some(text));
    }
}
