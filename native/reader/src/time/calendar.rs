//! Days of the proleptic Gregorian calendar, and the bounds of times: years 1 to 9999, which all readers support.

/// 0001-01-01 and 9999-12-31, in days since 1970-01-01.
pub(super) const DAYS: std::ops::RangeInclusive<i32> = -719_162..=2_932_896;
/// 0001-01-01T00:00:00 and the last µs of 9999, in µs since 1970-01-01.
pub(super) const MICROS: std::ops::RangeInclusive<i64> = -62_135_596_800_000_000..=253_402_300_799_999_999;
pub(super) const DAY_US: i64 = 86_400_000_000;

/// Return the days since 1970-01-01; `None` if there is no such day in the years 1 to 9999.
pub(super) fn days(year: i32, month: u32, day: u32) -> Option<i32> {
    if !(1..=9999).contains(&year) || !(1..=12).contains(&month) || day < 1 || day > month_days(year, month) {
        return None;
    }
    // Years begin in March here, so that the leap day is the last one.
    let shifted = if month > 2 { year } else { year - 1 };
    let month_from_march = i32::try_from((month + 9) % 12).ok()?;
    let day_of_year = (153 * month_from_march + 2) / 5 + i32::try_from(day).ok()? - 1;
    let leap_days = shifted / 4 - shifted / 100 + shifted / 400;
    Some(365 * shifted + leap_days + day_of_year - 719_468)
}

/// Return the number of days of a month.
pub(super) fn month_days(year: i32, month: u32) -> u32 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

pub(super) fn is_leap(year: i32) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}
