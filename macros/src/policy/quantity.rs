//! Quantities in text: an integer with a unit, `"2MiB"`, `"5s"`.

use syn::LitStr;

use crate::diagnostics::{Diagnostics, list};
use crate::options::{self, Opt, OptValue};

/// A unit, and its size in bytes or in milliseconds.
type Unit = (&'static str, u64);

const BYTES: &[Unit] = &[
    ("B", 1),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
];
const DURATIONS: &[Unit] = &[
    ("s", 1_000),
    ("min", 60_000),
    ("h", 3_600_000),
    ("d", 86_400_000),
];
const MILLISECONDS: &[Unit] = &[("ms", 1), ("s", 1_000), ("min", 60_000), ("h", 3_600_000)];

/// Reads `max_body = "2MiB"`, in bytes.
pub(super) fn bytes(opt: &Opt, d: &mut Diagnostics) -> Option<u64> {
    amount(
        &text(opt, "max_body = \"2MiB\"", "B", d)?,
        &opt.name(),
        "max_body = \"2MiB\"",
        BYTES,
        d,
    )
}

/// Reads `timeout = "5s"`, in milliseconds.
pub(super) fn timeout(opt: &Opt, d: &mut Diagnostics) -> Option<u64> {
    amount(
        &text(opt, "timeout = \"5s\"", "s", d)?,
        &opt.name(),
        "timeout = \"5s\"",
        MILLISECONDS,
        d,
    )
}

/// Reads a duration such as `"24h"`, and returns it in milliseconds.
pub(crate) fn duration(text: &LitStr, of: &str, example: &str, d: &mut Diagnostics) -> Option<u64> {
    amount(text, of, example, DURATIONS, d)
}

/// Returns the text after `=`. For a number without quotes, the message suggests the text.
fn text(opt: &Opt, example: &str, unit: &str, d: &mut Diagnostics) -> Option<LitStr> {
    if let OptValue::Expr(value) = &opt.value
        && let Some(Ok(number)) = options::as_int(value)
    {
        d.error(
            value,
            format!("`{}` must be a text: a number with its unit", opt.key),
        )
        .help(format!("`{} = \"{number}{unit}\"`", opt.key));
        return None;
    }
    opt.text(example, d)
}

fn amount(
    text: &LitStr,
    of: &str,
    example: &str,
    units: &[Unit],
    d: &mut Diagnostics,
) -> Option<u64> {
    let value = text.value();
    let digits = value.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = value.split_at(digits);
    let Some((_, factor)) = units
        .iter()
        .find(|(name, _)| *name == unit.trim())
        .filter(|_| digits > 0)
    else {
        let names = list(units.iter().map(|(name, _)| name));
        let intended_unit = intended_unit(unit.trim(), units)
            .filter(|_| digits > 0)
            .map(|unit| format!("`\"{number}{unit}\"`"));
        d.error(
            text,
            format!("`{of}` must be a whole number with one of the units {names}"),
        )
        .help(intended_unit.unwrap_or_else(|| format!("`{example}`")));
        return None;
    };
    match number
        .parse::<u64>()
        .ok()
        .and_then(|n| n.checked_mul(*factor))
    {
        Some(0) => {
            d.error(text, format!("`{of}` must be greater than 0"))
                .help(format!("`{example}`"));
            None
        }
        Some(amount) => Some(amount),
        None => {
            d.error(text, format!("`{of}` is too large"))
                .help(format!("`{example}`"));
            None
        }
    }
}

/// Returns the unit that another spelling probably means: `8mb`, `8M`, `5 seconds`.
fn intended_unit<'u>(written: &str, units: &[(&'u str, u64)]) -> Option<&'u str> {
    let written = written.to_lowercase();
    let initial = written.chars().next()?;
    let same = units
        .iter()
        .find(|(name, _)| name.to_lowercase() == written);
    let unit_names = [
        "byte",
        "kilobyte",
        "megabyte",
        "gigabyte",
        "millisecond",
        "second",
        "minute",
        "hour",
        "day",
    ];
    let known = written.len() == 1
        || unit_names.contains(&written.trim_end_matches('s'))
        || ["sec", "secs", "mins", "hr", "hrs"].contains(&&*written);
    let begins = || {
        units
            .iter()
            .find(|(name, _)| known && name.to_lowercase().starts_with(initial))
    };
    let millis = written.starts_with("milli").then_some("ms");
    same.map(|(name, _)| *name)
        .or(millis
            .and_then(|ms| units.iter().find(|(name, _)| *name == ms))
            .map(|(name, _)| *name))
        .or_else(|| {
            let (name, _) = begins()?;
            (*name != "ms" || written != "m").then_some(*name)
        })
}

#[cfg(test)]
mod tests {
    use proc_macro2::Span;

    use super::*;

    fn read(text: &str, units: &[Unit]) -> Result<u64, String> {
        let mut d = Diagnostics::new();
        let amount = amount(
            &LitStr::new(text, Span::call_site()),
            "it",
            "it = ..",
            units,
            &mut d,
        );
        let texts = d.into_texts();
        amount.ok_or_else(|| {
            texts
                .join("; ")
                .split("help: ")
                .nth(1)
                .unwrap_or_default()
                .to_owned()
        })
    }

    #[test]
    fn other_spellings_of_units_are_refused_with_a_suggestion() {
        assert_eq!(read("8MB", BYTES), Ok(8_000_000));
        assert_eq!(read("2 GiB", BYTES), Ok(2 << 30));
        assert_eq!(read("250ms", MILLISECONDS), Ok(250));
        for (wrong, expected_help) in [
            ("8mb", "`\"8MB\"`"),
            ("8M", "`\"8MB\"`"),
            ("8 megabytes", "`\"8MB\"`"),
            ("2 megs", "`it = ..`"),
            ("MB", "`it = ..`"),
            ("1.5MB", "`it = ..`"),
            ("-1MB", "`it = ..`"),
            ("0B", "`it = ..`"),
            ("99999999999999GiB", "`it = ..`"),
        ] {
            assert_eq!(read(wrong, BYTES), Err(expected_help.to_owned()), "{wrong}");
        }
        for (wrong, expected_help) in [
            ("5 seconds", "`\"5s\"`"),
            ("5sec", "`\"5s\"`"),
            ("5m", "`it = ..`"),
            ("9 milliseconds", "`\"9ms\"`"),
        ] {
            assert_eq!(
                read(wrong, MILLISECONDS),
                Err(expected_help.to_owned()),
                "{wrong}"
            );
        }
    }
}
