//! The command `token`.

use std::time::Duration;

use linchpin_core::suggest::did_you_mean;
use linchpin_core::{Code, Error, Result};
use linchpin_server::SigningSecret;

use crate::Claims;

/// `token --sub alice --role admin --tenant t --ttl 1h`
pub(super) fn token(args: &[String], secrets: &[SigningSecret]) -> Result<String> {
    let usage = |what: String| {
        Error::new(
            Code::Internal,
            format!(
                "{what}\nusage: token --sub NAME [--role R]… [--tenant T] [--sid S] [--ttl 1h]"
            ),
        )
    };
    let mut claims = Claims::of(String::new());
    let mut ttl = Duration::from_hours(1);
    let mut args = args.iter();
    while let Some(option) = args.next() {
        const OPTIONS: [&str; 5] = ["--sub", "--role", "--tenant", "--sid", "--ttl"];
        if !OPTIONS.contains(&option.as_str()) {
            return Err(usage(format!(
                "unknown option `{option}`{}",
                did_you_mean(option, OPTIONS)
            )));
        }
        let value = args
            .next()
            .ok_or_else(|| usage(format!("`{option}` needs a value")))?;
        match option.as_str() {
            "--sub" => claims.sub.clone_from(value),
            "--role" => claims.roles.push(value.clone()),
            "--tenant" => claims.tenant = Some(value.clone()),
            "--sid" => claims.sid = Some(value.clone()),
            _ => {
                ttl = duration(value).ok_or_else(|| {
                    usage(format!(
                        "`{value}` is not a duration such as 90s, 15m, 1h or 7d"
                    ))
                })?;
            }
        }
    }
    if claims.sub.is_empty() {
        return Err(usage("`--sub` is required".to_owned()));
    }
    let Some(secret) = secrets.first() else {
        return Err(usage(
            "no signing secret is configured: set LINCHPIN_SIGNING_SECRET".to_owned(),
        ));
    };
    claims.signed(ttl, secret)
}

fn duration(text: &str) -> Option<Duration> {
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit())?);
    let number: u64 = number.parse().ok()?;
    let unit = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        _ => return None,
    };
    number
        .checked_mul(unit)
        .filter(|s| *s > 0 && *s < 1 << 32)
        .map(Duration::from_secs)
}
