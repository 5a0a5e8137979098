//! Dates and times that Spark before 3.0 wrote, or a later Spark in legacy mode: in the calendar that has Julian days
//! before 1582-10-15.
//!
//! A file says so in its footer. Days are exactly those that Spark reads. Times before 1900 depend on tables of each time
//! zone and are refused. INVARIANT: a value is rebased as Spark does it, or the file is refused; none is shifted.

use arrow_array::PrimitiveArray;
use arrow_array::types::TimestampMicrosecondType;
use parquet::file::metadata::KeyValue;

use crate::error::{Result, Unreadable};

/// 1582-10-15 in days since 1970: days are equal in both calendars from here on.
const GREGORIAN: i32 = -141_427;
/// 1900-01-01T00:00:00Z in µs: zones had their own mean times before.
const MEAN_TIMES_US: i64 = -2_208_988_800_000_000;
/// The day before which the time zone of a reader decides: a day more than the greatest offset.
const DAY_US: i64 = 86_400_000_000;

/// Which values of a file are in the old calendar.
#[derive(Debug, Clone, Default)]
pub(super) struct OldCalendar {
    dates: bool,
    times: bool,
}

impl OldCalendar {
    /// Return what the footer of a file says.
    pub(super) fn of(pairs: &[KeyValue]) -> Self {
        let has = |key: &str| pairs.iter().any(|pair| pair.key == key);
        let version = pairs.iter().find(|pair| pair.key == "org.apache.spark.version");
        let version = version.and_then(|pair| pair.value.as_deref()).map(numbers);
        let older = |than: (u32, u32)| version.is_some_and(|found| found < than);
        Self {
            dates: has("org.apache.spark.legacyDateTime") || older((3, 0)),
            times: has("org.apache.spark.legacyDateTime") || has("org.apache.spark.legacyINT96") || older((3, 1)),
        }
    }

    pub(super) fn has_old_dates(&self) -> bool {
        self.dates
    }

    /// Return a day in today's calendar.
    pub(super) fn days(&self, days: i32) -> i32 {
        if self.dates { julian_to_gregorian_days(days) } else { days }
    }

    /// Return times in today's calendar. `is_instant`: not local times, which Spark never writes in the old one.
    pub(super) fn micros(
        &self,
        given: PrimitiveArray<TimestampMicrosecondType>,
        is_instant: bool,
    ) -> Result<PrimitiveArray<TimestampMicrosecondType>> {
        let is_old = |micros: &i64| *micros < MEAN_TIMES_US + DAY_US;
        if !self.times || !is_instant || !given.iter().flatten().any(|micros| is_old(&micros)) {
            return Ok(given);
        }
        let what = "it has times before 1900 that Spark wrote in the calendar of Spark 2";
        Err(Unreadable::file(what)
            .with_hint("read and write the file with Spark 3 or newer, which writes today's calendar")
            .into())
    }
}

fn numbers(version: &str) -> (u32, u32) {
    let mut parts = version.split('.').map(|part| part.parse().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0))
}

/// Return a day of the old calendar as the day with the same year, month and day of today's calendar.
///
/// 29 February of a year that is no leap year today becomes 1 March, as in Spark (`rebaseJulianToGregorianDays`).
fn julian_to_gregorian_days(days: i32) -> i32 {
    if days >= GREGORIAN {
        return days;
    }
    // Days since 0000-03-01 of the Julian calendar, whose years of 365.25 days begin in March here.
    let since = i64::from(days) + 719_470;
    let cycle = since.div_euclid(1461);
    let day_of_cycle = since.rem_euclid(1461);
    let year_of_cycle = (day_of_cycle / 365).min(3);
    let year = cycle * 4 + year_of_cycle;
    let day_of_year = day_of_cycle - year_of_cycle * 365;
    // The same month and day in today's calendar: its leap days differ by centuries.
    let gregorian =
        365 * year + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + day_of_year - 719_468;
    i32::try_from(gregorian).unwrap_or(days)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_before_1582_keep_their_year_month_and_day() {
        // Spark: rebaseJulianToGregorianDays of the old calendar's 0001-01-01, 1000-01-01, 1582-10-04, 1582-10-15.
        for (old, new) in
            [(-719_164, -719_162), (-354_280, -354_285), (-141_428, -141_438), (-141_427, -141_427), (0, 0)]
        {
            assert_eq!(julian_to_gregorian_days(old), new, "{old}");
        }
    }
}
