//! Points in time, to the microsecond, in UTC.

use std::fmt;

const MICROSECOND: i128 = 1;
const SECOND: i128 = 1_000_000 * MICROSECOND;
const MINUTE: i128 = 60 * SECOND;
const DAY: i128 = 24 * 60 * MINUTE;

/// 0001-01-01 and 10000-01-01.
const FIRST: i64 = -62_135_596_800_000_000;
const AFTER_LAST: i64 = 253_402_300_800_000_000;

/// Microseconds since 1970-01-01T00:00:00Z, leap seconds left out: some 292,000 years to either side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub i64);

impl Time {
    /// Reads `YYYY-MM-DD`, with `THH:MM`, `THH:MM:SS` or `THH:MM:SS.ffffff` behind it if wanted, and `Z` or `+HH:MM` behind that (none: UTC).
    ///
    /// # Example
    /// ```
    /// use xmml_pool::time::Time;
    /// assert_eq!(Time::parse("1970-01-02T01:00+01:00"), Some(Time(86_400_000_000)));
    /// assert_eq!(Time::parse("1970-02-30"), None);
    /// ```
    pub fn parse(text: &str) -> Option<Time> {
        let (date, clock) = match text.split_once('T') {
            Some((date, clock)) => (date, Some(clock)),
            None => (text, None),
        };
        let mut since = days(date)? * DAY;
        if let Some(clock) = clock {
            let (clock, offset) = split_offset(clock)?;
            since += time_of_day(clock)? - offset;
        }
        i64::try_from(since).ok().map(Time)
    }

    /// Whether it is in the years 1 to 9999, which every language can show.
    pub fn is_of_a_calendar(self) -> bool {
        (FIRST..AFTER_LAST).contains(&self.0)
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (day, within) = (i128::from(self.0).div_euclid(DAY), i128::from(self.0).rem_euclid(DAY));
        let (year, month, day) = civil(day as i64);
        let sign = if year < 0 { "-" } else { "" };
        write!(f, "{sign}{:04}-{month:02}-{day:02}", year.abs())?;
        if within == 0 {
            return Ok(());
        }
        let (minutes, rest) = (within / MINUTE, within % MINUTE);
        write!(f, "T{:02}:{:02}", minutes / 60, minutes % 60)?;
        if rest > 0 {
            write!(f, ":{:02}", rest / SECOND)?;
            let fraction = format!("{:06}", rest % SECOND);
            if fraction != "000000" {
                write!(f, ".{}", fraction.trim_end_matches('0'))?;
            }
        }
        write!(f, "Z")
    }
}

/// Days since 1970-01-01.
fn days(date: &str) -> Option<i128> {
    let (before, date) = match date.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, date),
    };
    let mut parts = date.splitn(3, '-');
    let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
    let year = before * digits(year, 4..=6)?;
    let (month, day) = (digits(month, 2..=2)?, digits(day, 2..=2)?);
    let since = days_from_civil(year, month, day);
    (civil(since) == (year, month, day)).then_some(i128::from(since))
}

fn time_of_day(clock: &str) -> Option<i128> {
    let (clock, fraction) = match clock.split_once('.') {
        Some((clock, fraction)) if clock.len() == 8 => (clock, fraction),
        Some(_) => return None,
        None => (clock, "0"),
    };
    let mut parts = clock.split(':');
    let (hour, minute) = (digits(parts.next()?, 2..=2)?, digits(parts.next()?, 2..=2)?);
    let second = parts.next().map_or(Some(0), |second| digits(second, 2..=2))?;
    let fraction = digits(fraction, 1..=6)? * 10_i64.pow(6 - fraction.len() as u32);
    if parts.next().is_some() || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    Some(i128::from(hour * 60 + minute) * MINUTE + i128::from(second) * SECOND + i128::from(fraction))
}

/// The time of day, and how much later than in UTC clocks are there.
fn split_offset(clock: &str) -> Option<(&str, i128)> {
    if let Some(clock) = clock.strip_suffix('Z') {
        return Some((clock, 0));
    }
    let Some(at) = clock.find(['+', '-']) else { return Some((clock, 0)) };
    let (clock, offset) = clock.split_at(at);
    let (hours, minutes) = offset[1..].split_once(':')?;
    let (hours, minutes) = (digits(hours, 2..=2)?, digits(minutes, 2..=2)?);
    let ahead = i128::from(hours * 60 + minutes) * MINUTE;
    (hours < 24 && minutes < 60).then_some((clock, if offset.starts_with('-') { -ahead } else { ahead }))
}

fn digits(text: &str, count: std::ops::RangeInclusive<usize>) -> Option<i64> {
    (count.contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok())?
}

/// Days since 1970-01-01 of a date of the proleptic Gregorian calendar. Years begin in March here, so that a leap day is the last of its
/// year (the algorithm: H. Hinnant, chrono-compatible low-level date algorithms, 2021).
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// The inverse of [`days_from_civil`].
fn civil(since: i64) -> (i64, i64, i64) {
    let since = since + 719_468;
    let era = since.div_euclid(146_097);
    let day_of_era = since.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn dates_and_times_are_read_with_and_without_their_parts() {
        let day = 20_784 * 86_400_000_000;
        for (text, micros) in [
            ("2026-11-27", day),
            ("2026-11-27T00:00Z", day),
            ("2026-11-27T12:30", day + 45_000_000_000),
            ("2026-11-27T12:30:05", day + 45_005_000_000),
            ("2026-11-27T12:30:05.25Z", day + 45_005_250_000),
            ("2026-11-27T13:30:05.25+01:00", day + 45_005_250_000),
            ("2026-11-27T07:00:05.25-05:30", day + 45_005_250_000),
            ("1969-12-31T23:59:59.999999", -1),
            ("2024-02-29", 19_782 * 86_400_000_000),
        ] {
            assert_eq!(Time::parse(text), Some(Time(micros)), "{text}");
        }
    }

    #[test]
    fn what_is_no_time_is_none() {
        for text in [
            "",
            "2026",
            "2026-11",
            "26-11-27",
            "2026-13-01",
            "2026-02-29",
            "2026-11-27T",
            "2026-11-27T25:00",
            "2026-11-27T12:60",
            "2026-11-27T12:30:60",
            "2026-11-27T12:30.5",
            "2026-11-27 12:30",
            "2026-11-27T12:30+1",
            "2026-11-27T12:30:05.1234567",
            "999999-01-01",
            "2026-11-27T12:30:05:06",
            "+026-11-27",
            "2026-11-27Z",
        ] {
            assert_eq!(Time::parse(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_time_is_read_as_it_was_written(micros in any::<i64>()) {
            prop_assert_eq!(Time::parse(&Time(micros).to_string()), Some(Time(micros)));
        }
    }
}
