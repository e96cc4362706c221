//! Shared by the benchmark programs: seeded records, a token, the command line of a server, and the
//! client that sends requests.
//!
//! The generated server creates the schema, and all servers get copies of one seeded database.

pub mod account;
pub mod client;
pub mod line;
mod seed;
#[cfg(feature = "auth")]
pub mod times;

pub use seed::seed;

use serde::{Deserialize, Serialize};

/// The signing secret of every server and the driver.
pub const SECRET: &str = "a-secret-of-the-benchmarks-32-bytes";

/// The number of posts and the number of items. Each of the 1,000 owners has 20 items.
pub const ROWS: usize = 20_000;

/// The key of a seeded post or item.
pub fn id(n: usize) -> String {
    format!("018f0000-0000-7000-8000-{n:012x}")
}

/// The claims that every server checks.
#[derive(Debug, Serialize, Deserialize)]
pub struct Claims {
    /// The caller.
    pub sub: String,
    /// Seconds since the epoch.
    pub exp: i64,
}

/// A token that every server accepts. Encoding it cannot fail: the header and key are fixed.
pub fn token() -> String {
    let claims = Claims {
        sub: "bench".to_owned(),
        exp: now_millis() / 1000 + 86_400,
    };
    let key = jsonwebtoken::EncodingKey::from_secret(SECRET.as_bytes());
    jsonwebtoken::encode(&jsonwebtoken::Header::default(), &claims, &key).unwrap_or_default()
}

/// Milliseconds since the epoch.
pub fn now_millis() -> i64 {
    let since = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// `<port> <database URL>` of a server's command line.
pub fn arguments() -> (u16, String) {
    let mut args = std::env::args().skip(1);
    let port = args.next().and_then(|a| a.parse().ok()).unwrap_or(0);
    (
        port,
        args.next().unwrap_or_else(|| "sqlite:bench.db".to_owned()),
    )
}
