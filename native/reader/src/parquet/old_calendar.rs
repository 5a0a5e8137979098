//! Dates and times that Spark before 3.0 wrote, or a later Spark in legacy mode: in the calendar that has Julian days
//! before 1582-10-15.
//!
//! A file says so in its footer. INVARIANT: a value becomes exactly the value that Spark reads.

use arrow_array::PrimitiveArray;
use arrow_array::types::TimestampMicrosecondType;
use parquet::file::metadata::KeyValue;

use super::old_zone::OldZone;

/// 1582-10-15 in days since 1970: days are equal in both calendars from here on.
const GREGORIAN: i32 = -141_427;

/// The two ways in which a file stores times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stored {
    /// 64 bits with a unit.
    InUnits,
    /// 96 bits: a day and nanoseconds.
    InDays,
}

/// Which values of a file are in the old calendar, and the time zone that they were written in.
#[derive(Debug, Clone, Default)]
pub(super) struct OldCalendar {
    has_dates: bool,
    units: Option<OldZone>,
    days: Option<OldZone>,
}

impl OldCalendar {
    /// Return what the footer of a file says. Files of Spark 2 name no time zone; they were written in `time_zone`.
    pub(super) fn of(pairs: &[KeyValue], time_zone: &str) -> Self {
        let value = |name: &str| {
            let found = pairs.iter().find(|pair| pair.key.strip_prefix("org.apache.spark.") == Some(name));
            found.map(|pair| pair.value.as_deref().unwrap_or_default())
        };
        // Spark compares versions as texts, and looks for the other marks only in files that have a version.
        let Some(version) = value("version") else { return Self::default() };
        let has_dates = version < "3.0.0" || value("legacyDateTime").is_some();
        let has_days = version < "3.1.0" || value("legacyINT96").is_some();
        if !has_dates && !has_days {
            return Self::default();
        }
        let zone = OldZone::of(value("timeZone").unwrap_or(time_zone));
        Self { has_dates, units: has_dates.then(|| zone.clone()), days: has_days.then_some(zone) }
    }

    pub(super) fn has_old_dates(&self) -> bool {
        self.has_dates
    }

    /// Return a day in today's calendar.
    pub(super) fn days(&self, days: i32) -> i32 {
        if self.has_dates { julian_to_gregorian_days(days) } else { days }
    }

    /// Return instants in today's calendar. Spark never writes local times in the old one.
    pub(super) fn micros(
        &self,
        given: PrimitiveArray<TimestampMicrosecondType>,
        stored: Stored,
    ) -> PrimitiveArray<TimestampMicrosecondType> {
        let zone = match stored {
            Stored::InUnits => &self.units,
            Stored::InDays => &self.days,
        };
        match zone {
            None => given,
            Some(zone) => given.unary(|micros| zone.rebased(micros)),
        }
    }
}

/// Return a day of the old calendar as the day with the same year, month and day of today's calendar.
///
/// 29 February of a year that is no leap year today becomes 1 March, as in Spark (`rebaseJulianToGregorianDays`).
pub(super) fn julian_to_gregorian_days(days: i32) -> i32 {
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
