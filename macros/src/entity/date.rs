//! Dates in declarations, read at compile time: RFC 3339.

/// Converts an RFC 3339 instant to milliseconds since the epoch. Fractions of a millisecond are
/// rounded down.
pub(crate) fn parse(text: &str) -> Option<i64> {
    let bytes = text.as_bytes();
    let digits = |from: usize, count: usize| -> Option<i64> {
        let part = bytes.get(from..from + count)?;
        part.iter()
            .all(u8::is_ascii_digit)
            .then(|| part.iter().fold(0, |n, b| n * 10 + i64::from(b - b'0')))
    };
    let is = |at: usize, allowed: &[u8]| bytes.get(at).is_some_and(|b| allowed.contains(b));
    let (year, month, day) = (digits(0, 4)?, digits(5, 2)?, digits(8, 2)?);
    let (hour, minute, second) = (digits(11, 2)?, digits(14, 2)?, digits(17, 2)?);
    let separators = is(4, b"-") && is(7, b"-") && is(10, b"Tt") && is(13, b":") && is(16, b":");
    if !separators
        || year == 0
        || !(1..=12).contains(&month)
        || day == 0
        || day > days_in(year, month)
    {
        return None;
    }
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let mut rest = 19;
    let mut millis = 0;
    if is(rest, b".") {
        let fraction = bytes[rest + 1..]
            .iter()
            .take_while(|b| b.is_ascii_digit())
            .count();
        if fraction == 0 {
            return None;
        }
        for i in 0..3 {
            millis = millis * 10
                + if i < fraction {
                    digits(rest + 1 + i, 1)?
                } else {
                    0
                };
        }
        rest += 1 + fraction;
    }
    let offset = match bytes.get(rest)? {
        b'Z' | b'z' if bytes.len() == rest + 1 => 0,
        sign @ (b'+' | b'-') if bytes.len() == rest + 6 && is(rest + 3, b":") => {
            let (hours, minutes) = (digits(rest + 1, 2)?, digits(rest + 4, 2)?);
            if hours > 23 || minutes > 59 {
                return None;
            }
            (hours * 60 + minutes) * if *sign == b'-' { -60_000 } else { 60_000 }
        }
        _ => return None,
    };
    let seconds = ((days_from_epoch(year, month, day) * 24 + hour) * 60 + minute) * 60 + second;
    Some(seconds * 1000 + millis - offset)
}

fn days_in(year: i64, month: i64) -> i64 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

fn days_from_epoch(year: i64, month: i64, day: i64) -> i64 {
    /// The number of days from 0001-01-01 to 1970-01-01.
    const DAYS_TO_EPOCH: i64 = 719_162;
    let before = year - 1;
    let leap_days = before / 4 - before / 100 + before / 400;
    let months: i64 = (1..month).map(|m| days_in(year, m)).sum();
    before * 365 + leap_days + months + day - 1 - DAYS_TO_EPOCH
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn instants_are_converted_to_milliseconds() {
        assert_eq!(parse("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(parse("2026-01-02T03:04:05.678Z"), Some(1_767_323_045_678));
        assert_eq!(
            parse("2026-01-02T03:04:05.6789+02:00"),
            Some(1_767_315_845_678)
        );
        assert_eq!(
            parse("2000-02-29T00:00:00.5-00:30"),
            Some(951_782_400_000 + 30 * 60_000 + 500)
        );
        assert_eq!(parse("0001-01-01T00:00:00Z"), Some(-62_135_596_800_000));
    }

    #[test]
    fn invalid_instants_are_rejected() {
        for text in [
            "2026-01-02",
            "2026-01-02T03:04:05",
            "2026-02-29T00:00:00Z",
            "2026-01-01T00:00:60Z",
            "2026-01-01T00:00:00.Z",
            "x",
            "",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
