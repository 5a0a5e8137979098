//! Dates and times: what Spark's casts take, and what would be a guess.

use super::*;

fn times(zone: &str) -> Times {
    Times::iso(Zone::new(zone).unwrap())
}

fn seconds(text: &str, zone: &str) -> Option<i64> {
    times(zone).timestamp(text.as_bytes()).map(|us| us.div_euclid(1_000_000))
}

#[test]
fn a_date_has_four_digits_of_a_year_and_nothing_left_over() {
    let iso = times("UTC");
    assert_eq!(iso.date(b"1970-01-01"), Some(0));
    assert_eq!(iso.date(b" 2024-1-5 "), iso.date(b"2024-01-05"));
    assert_eq!(iso.date(b"0001-01-01"), Some(-719_162));
    assert_eq!(iso.date(b"9999-12-31"), Some(2_932_896));
    assert_eq!(iso.date(b"2024-02-29T10:00:00Z"), iso.date(b"2024-02-29"));
    for text in
        ["24-01-05", "2024", "2024-01", "2024-02-30", "2023-02-29", "epoch", "now", "2024-01-05 x", "10000-01-01"]
    {
        assert_eq!(iso.date(text.as_bytes()), None, "{text}");
    }
}

#[test]
fn fractions_are_cut_at_microseconds() {
    let found = times("UTC").timestamp(b"2024-01-01 23:59:59.999999999").unwrap();
    assert_eq!(found % 1_000_000, 999_999);
    assert_eq!(times("UTC").timestamp(b"1969-12-31 23:59:59.9999999"), Some(-1));
}

#[test]
fn a_time_without_an_offset_is_in_the_zone() {
    assert_eq!(seconds("2024-01-05 10:00:00", "UTC"), Some(1_704_448_800));
    assert_eq!(seconds("2024-01-05 10:00:00", "Europe/Berlin"), Some(1_704_445_200));
    assert_eq!(seconds("2024-01-05T10:00:00+02:00", "Europe/Berlin"), Some(1_704_441_600));
    assert_eq!(seconds("2024-01-05T10:00:00 Europe/Paris", "UTC"), Some(1_704_445_200));
    assert_eq!(seconds("2024-01-05", "+01:00"), Some(1_704_409_200));
}

#[test]
fn a_local_time_that_stands_twice_is_the_earlier_and_one_that_is_left_out_moves_forward() {
    let zone = Zone::new("America/New_York").unwrap();
    let at = |text: &str| Times::iso(zone.clone()).timestamp(text.as_bytes()).unwrap() / 1_000_000;
    assert_eq!(at("2013-11-03 01:30:00"), 1_383_456_600);
    assert_eq!(at("2013-03-10 02:30:00"), 1_362_900_600);
    let near = Zone::new("America/New_York").unwrap();
    for day in 1..=30 {
        let wall = i64::from(calendar::days(2013, 11, day).unwrap()) * DAY_US + 5_400_000_000;
        let fresh = Zone::new("America/New_York").unwrap();
        assert_eq!(near.instant_of_wall(wall), fresh.instant_of_wall(wall), "{day}");
    }
}

/// Local times over two years, hour by hour, and each change of the offset to the µs.
fn walls(name: &str) -> Vec<i64> {
    let zone = jiff::tz::TimeZone::get(name).unwrap();
    let first = i64::from(calendar::days(2023, 1, 1).unwrap()) * DAY_US;
    let mut walls: Vec<i64> = (0..2 * 365 * 24).map(|hour| first + hour * 3_600_000_000).collect();
    let start = jiff::Timestamp::from_microsecond(first).unwrap();
    for change in zone.following(start).take(4) {
        let at = change.timestamp().as_microsecond() + i64::from(change.offset().seconds()) * 1_000_000;
        walls.extend([-3_600_000_000, -1, 0, 1, 1_800_000_000, 3_600_000_000].map(|distance| at + distance));
    }
    walls
}

#[test]
fn an_instant_does_not_depend_on_the_times_that_were_read_before() {
    for name in ["Europe/Berlin", "America/New_York", "America/Santiago", "Africa/Cairo", "Australia/Lord_Howe"] {
        let mut walls = walls(name);
        let alone: Vec<Option<i64>> =
            walls.iter().map(|wall| Zone::new(name).unwrap().instant_of_wall(*wall)).collect();
        let mut pairs: Vec<(i64, Option<i64>)> = walls.drain(..).zip(alone).collect();
        for turn in 0..3u64 {
            match turn {
                0 => pairs.sort_unstable(),
                1 => pairs.reverse(),
                _ => pairs.sort_by_key(|(wall, _)| wall.unsigned_abs().wrapping_mul(0x9e37_79b9_7f4a_7c15)),
            }
            let zone = Zone::new(name).unwrap();
            for (wall, expected) in &pairs {
                assert_eq!(zone.instant_of_wall(*wall), *expected, "{name} {wall}");
            }
        }
    }
}

#[test]
fn the_last_day_of_9999_is_in_every_zone() {
    for (zone, hours) in [("Europe/Berlin", 1), ("Asia/Tokyo", 9), ("Etc/UTC", 0), ("America/New_York", -5)] {
        let found = seconds("9999-12-31 00:00:00", zone);
        assert_eq!(found, Some(253_402_214_400 - hours * 3600), "{zone}");
    }
    assert_eq!(seconds("9999-12-31 23:59:59", "Europe/Berlin"), Some(253_402_300_799 - 3600));
    assert_eq!(seconds("9999-12-31 23:59:59", "America/New_York"), None);
}

#[test]
fn a_local_time_column_refuses_an_offset() {
    assert_eq!(times("UTC").timestamp_ntz(b"1970-01-01 00:00:01"), Some(1_000_000));
    assert_eq!(times("UTC").timestamp_ntz(b"1970-01-01 00:00:01Z"), None);
}

fn by(pattern: &str, text: &str) -> Option<i64> {
    let times = times("UTC").with_timestamp_format(pattern).unwrap();
    times.timestamp(text.as_bytes()).map(|us| us.div_euclid(1_000))
}

#[test]
fn patterns_have_sparks_letters() {
    let wanted = seconds("2013-02-03 16:05:06", "UTC").map(|s| s * 1000);
    assert_eq!(by("yyyy-MM-dd HH:mm:ss", "2013-02-03 16:05:06"), wanted);
    assert_eq!(by("yyyyMMddHHmmss", "20130203160506"), wanted);
    assert_eq!(by("dd.MM.yyyy'T'HH:mm:ss XXX", "03.02.2013T18:05:06 +02:00"), wanted);
    assert_eq!(by("MMM d, yyyy h:mm:ss a", "feb 3, 2013 4:05:06 pm"), wanted);
    assert_eq!(by("yyyy-MM-dd[ HH:mm:ss]", "2013-02-03 16:05:06"), wanted);
    assert_eq!(by("yyyy-MM-dd[ HH:mm:ss]", "2013-02-03"), seconds("2013-02-03", "UTC").map(|s| s * 1000));
    assert_eq!(by("yyyy-MM-dd HH:mm:ss.SSS", "2013-02-03 16:05:06.007"), wanted.map(|ms| ms + 7));
    assert_eq!(by("yyyy-DDD HH:mm:ss", "2013-034 16:05:06"), wanted);
    assert_eq!(by("yyyy-MM-dd HH:mm:ss", "2013-2-3 16:05:06"), None);
    assert_eq!(by("yyyy-MM-dd", "2013-02-03x"), None);
}

#[test]
fn an_unknown_letter_is_refused_when_it_is_declared() {
    for pattern in [
        "YYYY-MM-dd",
        "yyyy-ww",
        "yyyy-MM-dd'T",
        "yyyy]",
        "[yyyy",
        "",
        "qq",
        "%Y-%m-%d",
        "HHH",
        "yyyy-MM-dd #",
        "EEE d",
        "uuuu",
    ] {
        assert!(Pattern::new(pattern).is_err(), "{pattern}");
    }
    let refused = Pattern::new("%d/%m/%Y").unwrap_err();
    assert!(refused.ends_with("hint: write `dd/MM/yyyy`"), "{refused}");
}

proptest::proptest! {
    #[test]
    fn nothing_panics(text in ".{0,30}", pattern in "[yMdHhmsSXVzaE\\[\\]' -]{0,20}") {
        let iso = times("Europe/Berlin");
        let _ = (iso.date(text.as_bytes()), iso.timestamp(text.as_bytes()), iso.timestamp_ntz(text.as_bytes()));
        if let Ok(found) = Pattern::new(&pattern) {
            let _ = found.parse(text.as_bytes()).and_then(|parsed| parsed.wall_us());
        }
    }
}
