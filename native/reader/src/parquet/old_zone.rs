//! Time zones as Spark rebases times of the old calendar in them; old_calendar.txt has the figures.
//!
//! Java's older classes, which Spark 2 wrote with, know no mean times of places before 1900. INVARIANT: a time becomes
//! exactly the time that Spark reads; `OldCalendar.java` asks Spark and writes the figures.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::old_calendar::julian_to_gregorian_days;

const SECOND_US: i64 = 1_000_000;
const DAY_S: i64 = 86_400;
/// 1582-10-15 and 1900-01-01 in seconds since 1970.
const GREGORIAN_S: i64 = -12_219_292_800;
const LAST_CHANGE_S: i64 = -2_208_988_800;

/// How times of the old calendar are moved in a time zone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct OldZone {
    /// The offset from UTC in which the local time was written.
    offset_s: i64,
    /// The seconds to add before the first change.
    added_s: i64,
    /// Each change, in UTC, and the seconds to add from it on.
    changes: Vec<(i64, i64)>,
}

impl OldZone {
    /// Return the zone of a name. Java reads a name that it does not know as GMT.
    pub(super) fn of(name: &str) -> Self {
        static KNOWN: LazyLock<HashMap<&str, OldZone>> =
            LazyLock::new(|| include_str!("old_calendar.txt").lines().flat_map(zones).collect());
        KNOWN.get(name).cloned().unwrap_or_else(|| Self { offset_s: fixed(name).unwrap_or(0), ..Self::default() })
    }

    /// Return a time, in µs since 1970, in today's calendar.
    pub(super) fn rebased(&self, micros: i64) -> i64 {
        let second = micros.div_euclid(SECOND_US);
        if second >= LAST_CHANGE_S {
            return micros;
        }
        let local = second + self.offset_s;
        let moved = if local < GREGORIAN_S {
            let day = i32::try_from(local.div_euclid(DAY_S)).unwrap_or(i32::MIN);
            i64::from(julian_to_gregorian_days(day) - day) * DAY_S + self.added_s
        } else {
            let change = self.changes.iter().rev().find(|(since, _)| *since <= second);
            change.map_or(self.added_s, |(_, added)| *added)
        };
        micros.saturating_add(moved * SECOND_US)
    }
}

/// Return the zones of a line: numbers, then names.
fn zones(line: &'static str) -> impl Iterator<Item = (&'static str, OldZone)> {
    let words: Vec<&str> = line.split(' ').collect();
    let numbers: Vec<i64> = words.iter().map_while(|word| word.parse().ok()).collect();
    let pairs: Vec<(i64, i64)> = numbers.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
    let zone = pairs.split_first().map_or_else(OldZone::default, |(first, changes)| OldZone {
        offset_s: first.0,
        added_s: first.1,
        changes: changes.to_vec(),
    });
    words.into_iter().skip(numbers.len()).map(move |name| (name, zone.clone()))
}

/// Return the offset, in seconds, of names such as `GMT+5:30` and `GMT-0800`.
fn fixed(name: &str) -> Option<i64> {
    let rest = name.strip_prefix("GMT")?;
    let (sign, digits) = match rest.split_at_checked(1)? {
        ("+", digits) => (1, digits),
        ("-", digits) => (-1, digits),
        _ => return None,
    };
    let (hours, minutes) = match digits.split_once(':') {
        Some((hours, minutes)) if minutes.len() == 2 => (hours, minutes),
        Some(_) => return None,
        None if digits.len() <= 2 => (digits, "0"),
        None => digits.split_at_checked(digits.len() - 2)?,
    };
    let number = |text: &str, most: i64| {
        let is_short = (1..=2).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
        is_short.then(|| text.parse::<i64>().ok()).flatten().filter(|number| *number <= most)
    };
    Some(sign * (number(hours, 23)? * 3600 + number(minutes, 59)? * 60))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_move_as_spark_moves_them() {
        // RebaseDateTime.rebaseJulianToGregorianMicros of Spark 4.3, in seconds.
        for (zone, second, expected) in [
            ("Europe/Berlin", -62_135_773_200, -62_135_600_008),
            ("Europe/Berlin", -12_219_296_401, -12_220_160_009),
            ("Europe/Berlin", -12_219_296_400, -12_219_296_008),
            ("Europe/Berlin", -2_422_054_409, -2_422_054_017),
            ("Europe/Berlin", -2_422_054_408, -2_422_054_408),
            ("Asia/Kolkata", -2_209_000_000, -2_208_999_470),
            ("Mars/Olympus", -12_219_292_801, -12_220_156_801),
            ("GMT+5:30", -12_219_312_600, -12_219_312_600),
            ("GMT+5:30", -12_219_312_601, -12_220_176_601),
        ] {
            assert_eq!(OldZone::of(zone).rebased(second * SECOND_US), expected * SECOND_US, "{zone} {second}");
        }
    }

    #[test]
    fn fixed_offsets_are_those_of_java() {
        for (name, expected) in
            [("GMT+5", Some(18_000)), ("GMT-0830", Some(-30_600)), ("GMT+530", Some(19_800)), ("GMT+1:02", Some(3720))]
        {
            assert_eq!(fixed(name), expected, "{name}");
        }
        for name in ["GMT", "+01:00", "GMT+", "GMT+24", "GMT+1:2", "GMT+12345", "GMT+é"] {
            assert_eq!(fixed(name), None, "{name}");
        }
    }
}
