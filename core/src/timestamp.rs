//! Points in time with millisecond precision.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::steady::{Steady, time};

/// A point in time: milliseconds since 1970-01-01T00:00:00Z, years 0001 to 9999.
///
/// On the wire it is RFC 3339 in UTC with three decimals.
///
/// ```
/// use linchpin::Timestamp;
/// let t = Timestamp::parse("2026-01-02T03:04:05+02:00").unwrap();
/// assert_eq!(t.to_string(), "2026-01-02T01:04:05.000Z");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

/// The text is not an RFC 3339 date-time with an offset, or outside the years 0001 to 9999.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be an RFC 3339 date-time such as 2026-01-02T03:04:05Z")]
pub struct ParseTimestampError;

impl Timestamp {
    /// 0001-01-01T00:00:00.000Z.
    pub const MIN: Self = Self(-62_135_596_800_000);
    /// 9999-12-31T23:59:59.999Z.
    pub const MAX: Self = Self(253_402_300_799_999);

    /// Converts milliseconds since the epoch. Values outside the years 0001 to 9999 are clamped.
    pub const fn from_millis(millis: i64) -> Self {
        if millis < Self::MIN.0 {
            Self::MIN
        } else if millis > Self::MAX.0 {
            Self::MAX
        } else {
            Self(millis)
        }
    }

    /// Returns the milliseconds since the epoch.
    pub const fn millis(self) -> i64 {
        self.0
    }

    /// Returns the current time of the system clock, rounded down to the millisecond. It never goes
    /// back within the process, so expired records stay expired: after the system clock was set
    /// back, the time continues from the latest returned time at half speed until the clock reaches
    /// it.
    ///
    /// On `wasm32-unknown-unknown` it reads the clocks of JavaScript (`Date` and `Performance`).
    ///
    /// Code that handles a request reads `now` from its `Cx` instead, so that the whole call uses
    /// one time.
    pub fn system_now() -> Self {
        let millis = match time::SystemTime::now().duration_since(time::UNIX_EPOCH) {
            Ok(since) => i64::try_from(since.as_millis()).unwrap_or(i64::MAX),
            Err(before) => -i64::try_from(before.duration().as_millis()).unwrap_or(i64::MAX),
        };
        static STEADY: Steady = Steady::new();
        Self::from_millis(STEADY.at(millis, time::Instant::now))
    }

    /// Parses RFC 3339 with any offset. Fractions below a millisecond are cut off.
    ///
    /// # Errors
    /// If the text is a date without a time, has no offset, has second 60, or has a year outside
    /// 0001 to 9999.
    pub fn parse(text: &str) -> Result<Self, ParseTimestampError> {
        let bytes = text.as_bytes();
        let digits = |range: std::ops::Range<usize>| -> Option<i64> {
            let part = bytes.get(range)?;
            part.iter()
                .all(u8::is_ascii_digit)
                .then(|| part.iter().fold(0, |n, b| n * 10 + i64::from(b - b'0')))
        };
        let is = |at: usize, any: &[u8]| bytes.get(at).is_some_and(|b| any.contains(b));
        let parsed = (|| {
            let (year, month, day) = (digits(0..4)?, digits(5..7)?, digits(8..10)?);
            let (hour, minute, second) = (digits(11..13)?, digits(14..16)?, digits(17..19)?);
            if !(is(4, b"-") && is(7, b"-") && is(10, b"Tt") && is(13, b":") && is(16, b":")) {
                return None;
            }
            if year < 1 || hour > 23 || minute > 59 || second > 59 {
                return None;
            }
            let date = jiff::civil::Date::new(
                i16::try_from(year).ok()?,
                i8::try_from(month).ok()?,
                i8::try_from(day).ok()?,
            )
            .ok()?;
            let mut at = 19;
            let mut millis = 0;
            if is(at, b".") {
                let start = at + 1;
                at = start;
                while is(at, b"0123456789") {
                    at += 1;
                }
                if at == start {
                    return None;
                }
                for place in 0..3 {
                    let digit = if start + place < at {
                        i64::from(bytes[start + place] - b'0')
                    } else {
                        0
                    };
                    millis = millis * 10 + digit;
                }
            }
            let offset_minutes = if is(at, b"Zz") {
                at += 1;
                0
            } else {
                let sign = if is(at, b"+") {
                    1
                } else if is(at, b"-") {
                    -1
                } else {
                    return None;
                };
                let (hours, minutes) = (digits(at + 1..at + 3)?, digits(at + 4..at + 6)?);
                if !is(at + 3, b":") || hours > 23 || minutes > 59 {
                    return None;
                }
                at += 6;
                sign * (hours * 60 + minutes)
            };
            if at != bytes.len() {
                return None;
            }
            let days = days_from_civil(
                i64::from(date.year()),
                i64::from(date.month()),
                i64::from(date.day()),
            );
            let total = ((days * 24 + hour) * 60 + minute - offset_minutes) * 60_000
                + second * 1000
                + millis;
            (Self::MIN.0..=Self::MAX.0)
                .contains(&total)
                .then_some(Self(total))
        })();
        parsed.ok_or(ParseTimestampError)
    }

    /// Returns the start of the period that contains this time, in UTC. The first day of year 1 is
    /// a Monday, so the result is never out of range.
    #[must_use]
    #[doc(hidden)]
    pub fn truncated(self, to: Truncate) -> Self {
        const DAY: i64 = 86_400_000;
        let days = self.0.div_euclid(DAY);
        let (year, month, _) = civil_from_days(days);
        Self(match to {
            Truncate::Year => days_from_civil(year, 1, 1) * DAY,
            Truncate::Month => days_from_civil(year, month, 1) * DAY,
            // 1970-01-05 was a Monday.
            Truncate::Week => (days - (days - 4).rem_euclid(7)) * DAY,
            Truncate::Day => days * DAY,
            Truncate::Hour => self.0.div_euclid(3_600_000) * 3_600_000,
        })
    }

    /// Returns the 24 bytes of the wire form, for writers that must not allocate.
    pub fn to_bytes(self) -> [u8; 24] {
        let days = self.0.div_euclid(86_400_000);
        let in_day = self.0.rem_euclid(86_400_000);
        let (year, month, day) = civil_from_days(days);
        let mut out = *b"0000-00-00T00:00:00.000Z";
        let mut put = |at: usize, width: usize, mut n: i64| {
            for i in (0..width).rev() {
                out[at + i] = b'0' + u8::try_from(n % 10).unwrap_or(0);
                n /= 10;
            }
        };
        put(0, 4, year);
        put(5, 2, month);
        put(8, 2, day);
        put(11, 2, in_day / 3_600_000);
        put(14, 2, in_day / 60_000 % 60);
        put(17, 2, in_day / 1000 % 60);
        put(20, 3, in_day % 1000);
        out
    }
}

/// Returns the days from 1970-01-01 to a date of the proleptic Gregorian calendar.
///
/// This is the algorithm `days_from_civil` of Howard Hinnant. It counts in eras of 400 years, which
/// all have 146,097 days, and years begin in March, so that the leap day is the last day of a year.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let march_year = if month <= 2 { year - 1 } else { year };
    let era = march_year.div_euclid(400);
    let year_of_era = march_year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// Returns the year, month and day of a number of days since 1970-01-01: the inverse of
/// [`days_from_civil`].
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days_since_year_0 = days + 719_468;
    let era = days_since_year_0.div_euclid(146_097);
    let day_of_era = days_since_year_0.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let months_since_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * months_since_march + 2) / 5 + 1;
    let month = if months_since_march < 10 {
        months_since_march + 3
    } else {
        months_since_march - 9
    };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.to_bytes();
        f.write_str(std::str::from_utf8(&bytes).map_err(|_| fmt::Error)?)
    }
}

impl std::str::FromStr for Timestamp {
    type Err = ParseTimestampError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

/// A period, in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Truncate {
    /// Starts on the first of January.
    Year,
    /// Starts on the first of the month.
    Month,
    /// Starts on Monday.
    Week,
    /// Starts at midnight, UTC.
    Day,
    /// Starts at the full hour.
    Hour,
}

#[cfg(test)]
mod tests {
    use super::{Timestamp, Truncate};

    #[test]
    fn timestamps_of_the_whole_range_survive_a_round_trip() {
        for text in [
            "0001-01-01T00:00:00.000Z",
            "1969-12-31T23:59:59.999Z",
            "1970-01-01T00:00:00.000Z",
            "2000-02-29T12:00:00.001Z",
            "2026-04-05T23:59:59.999Z",
            "9999-12-31T23:59:59.999Z",
        ] {
            assert_eq!(
                Timestamp::parse(text).map(|t| t.to_string()).as_deref(),
                Ok(text)
            );
        }
        for millis in (Timestamp::MIN.millis()..Timestamp::MAX.millis()).step_by(86_399_999_937) {
            let t = Timestamp::from_millis(millis);
            assert_eq!(Timestamp::parse(&t.to_string()), Ok(t));
        }
    }

    #[test]
    fn texts_that_are_not_rfc_3339_are_refused() {
        for text in [
            "2026-01-02",
            "2026-01-02T03:04:05",
            "2026-01-02T03:04:60Z",
            "0000-01-01T00:00:00Z",
            "10000-01-01T00:00:00Z",
            "2026-02-30T00:00:00Z",
            "2026-01-02 03:04:05Z",
            "2026-01-02T03:04:05.Z",
            "2026-01-02T03:04:05Zx",
            "2026-01-02T03:04:05+2:00",
            "2026-01-02T24:00:00Z",
            "",
            "0001-01-01T00:00:00+01:00",
            "2026-01-02T03:04:05 02:00",
        ] {
            assert!(Timestamp::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn truncated_times_agree_with_the_calendar() {
        let check = |text: &str, expected: [&str; 5]| {
            let at = Timestamp::parse(text).unwrap_or_default();
            let periods = [
                Truncate::Year,
                Truncate::Month,
                Truncate::Week,
                Truncate::Day,
                Truncate::Hour,
            ];
            let found = periods.map(|to| at.truncated(to).to_string());
            assert_eq!(
                found,
                expected.map(|text| format!("{text}:00:00.000Z")),
                "{text}"
            );
        };
        check(
            "2026-04-05T13:14:15.016Z",
            [
                "2026-01-01T00",
                "2026-04-01T00",
                "2026-03-30T00",
                "2026-04-05T00",
                "2026-04-05T13",
            ],
        );
        check("0001-01-01T00:00:00Z", ["0001-01-01T00"; 5]);
        check(
            "1969-12-31T23:59:59.999Z",
            [
                "1969-01-01T00",
                "1969-12-01T00",
                "1969-12-29T00",
                "1969-12-31T00",
                "1969-12-31T23",
            ],
        );
        check(
            "1970-01-05T00:00:00Z",
            [
                "1970-01-01T00",
                "1970-01-01T00",
                "1970-01-05T00",
                "1970-01-05T00",
                "1970-01-05T00",
            ],
        );
        check(
            "9999-12-31T23:59:59.999Z",
            [
                "9999-01-01T00",
                "9999-12-01T00",
                "9999-12-27T00",
                "9999-12-31T00",
                "9999-12-31T23",
            ],
        );
        // Compares with another calendar library.
        for millis in (Timestamp::MIN.millis()..Timestamp::MAX.millis()).step_by(86_399_999_937) {
            let at = Timestamp::from_millis(millis);
            let text = at.to_string();
            let date: jiff::civil::Date = text[..10].parse().unwrap_or_default();
            let days_since_monday = date.weekday().to_monday_zero_offset();
            let monday = date
                .checked_sub(jiff::Span::new().days(days_since_monday))
                .unwrap_or_default();
            assert_eq!(
                at.truncated(Truncate::Week).to_string()[..10],
                monday.to_string(),
                "{text}"
            );
            assert_eq!(
                at.truncated(Truncate::Month).to_string()[..10],
                format!("{}-01", &text[..7]),
                "{text}"
            );
        }
    }

    #[test]
    fn fractions_below_a_millisecond_are_cut_off() {
        assert_eq!(
            Timestamp::parse("2026-01-02T03:04:05.1239Z").map(Timestamp::millis),
            Timestamp::parse("2026-01-02T03:04:05.123Z").map(Timestamp::millis)
        );
    }
}
