//! Time zones: from local times to instants.
//!
//! INVARIANT: a local time that a zone has twice means the earlier instant, and one that it leaves out is moved forward
//! by the gap, as in `java.time`.

use std::cell::Cell;

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{Span, Timestamp};

use super::calendar::DAY_US;

const EPOCH: Date = Date::constant(1970, 1, 1);

/// A time zone.
#[derive(Debug, Clone)]
pub struct Zone {
    kind: Kind,
    /// The last interval of instants with one offset: its start, its end, the offset.
    last: Cell<(i64, i64, i64)>,
}

#[derive(Debug, Clone)]
enum Kind {
    /// A fixed offset from UTC in µs.
    Fixed(i64),
    Named(TimeZone),
}

impl Zone {
    /// UTC.
    #[must_use]
    pub fn utc() -> Self {
        Self::fixed(0)
    }

    fn fixed(offset_us: i64) -> Self {
        Self { kind: Kind::Fixed(offset_us), last: Cell::new((0, 0, 0)) }
    }

    /// Return a zone by its name in the time zone database, or by its offset: `UTC`, `+01:00`, `GMT+1`, `UTC+01:00`.
    #[must_use]
    pub fn new(name: &str) -> Option<Self> {
        let name = name.trim();
        if matches!(name, "UTC" | "GMT" | "UT" | "Z") {
            return Some(Self::utc());
        }
        let offset = ["UTC", "GMT", "UT"].iter().find_map(|prefix| name.strip_prefix(prefix)).unwrap_or(name);
        if offset.starts_with(['+', '-']) {
            return offset_us(offset.as_bytes()).map(Self::fixed);
        }
        let zone = TimeZone::get(name).ok()?;
        Some(Self { kind: Kind::Named(zone), last: Cell::new((0, 0, 0)) })
    }

    /// Return the instant of a local time. Both are µs since 1970.
    #[must_use]
    pub fn instant_of_wall(&self, wall_us: i64) -> Option<i64> {
        let zone = match &self.kind {
            Kind::Fixed(offset) => return wall_us.checked_sub(*offset),
            Kind::Named(zone) => zone,
        };
        let (start, end, offset) = self.last.get();
        let guess = wall_us - offset;
        if start <= guess && guess < end {
            return Some(guess);
        }
        let offset = match zone.to_ambiguous_timestamp(local(wall_us)?).offset() {
            AmbiguousOffset::Unambiguous { offset } => offset,
            // The offset before a gap moves the time forward, and that before a fold is of the earlier instant.
            AmbiguousOffset::Gap { before, .. } | AmbiguousOffset::Fold { before, .. } => before,
        };
        let instant = wall_us - i64::from(offset.seconds()) * 1_000_000;
        self.remember(zone, instant);
        Some(instant)
    }

    /// Remember the interval around an instant. It begins two days after the offset changed, and ends two days before it
    /// changes, so that no local time in it is twice or left out. The last days of 9999 are not remembered.
    fn remember(&self, zone: &TimeZone, instant: i64) {
        // `preceding` leaves out a change at the instant itself.
        let (Ok(at), Ok(after)) = (Timestamp::from_microsecond(instant), Timestamp::from_microsecond(instant + 1))
        else {
            return;
        };
        let offset = i64::from(zone.to_offset(at).seconds()) * 1_000_000;
        let micros = |found: Option<Timestamp>, open: i64| found.map_or(open, Timestamp::as_microsecond);
        let start = micros(zone.preceding(after).next().map(|change| change.timestamp()), i64::MIN / 2);
        let end = micros(zone.following(at).next().map(|change| change.timestamp()), i64::MAX / 2);
        self.last.set((start + 2 * DAY_US, end - 2 * DAY_US, offset));
    }
}

/// Return a local time in the years up to 9999.
fn local(wall_us: i64) -> Option<DateTime> {
    let days = i32::try_from(wall_us.div_euclid(DAY_US)).ok()?;
    let date = EPOCH.checked_add(Span::new().try_days(days).ok()?).ok()?;
    let nanos = wall_us.rem_euclid(DAY_US) * 1000;
    date.to_datetime(Time::midnight()).checked_add(Span::new().try_nanoseconds(nanos).ok()?).ok()
}

/// Return an offset such as `+01:00`, `-8`, `+0130` or `+01:00:30` in µs.
pub(super) fn offset_us(text: &[u8]) -> Option<i64> {
    let (sign, rest) = match text {
        [b'+', rest @ ..] => (1, rest),
        [b'-', rest @ ..] => (-1, rest),
        _ => return None,
    };
    let parts: Vec<&[u8]> = match rest {
        [a, b, c, d] if rest.iter().all(u8::is_ascii_digit) => {
            return seconds(&[&[*a, *b], &[*c, *d]]).map(|found| sign * found * 1_000_000);
        }
        [a, b, c, d, e, f] if rest.iter().all(u8::is_ascii_digit) => {
            return seconds(&[&[*a, *b], &[*c, *d], &[*e, *f]]).map(|found| sign * found * 1_000_000);
        }
        _ => rest.split(|byte| *byte == b':').collect(),
    };
    seconds(&parts).map(|found| sign * found * 1_000_000)
}

fn seconds(parts: &[&[u8]]) -> Option<i64> {
    if parts.len() > 3 || parts.iter().any(|part| part.is_empty() || part.len() > 2) {
        return None;
    }
    let mut found = [0; 3];
    for (place, part) in parts.iter().enumerate() {
        found[place] = super::super::text::number::integer(part, 0, 59).filter(|_| part[0].is_ascii_digit())?;
    }
    let total = found[0] * 3600 + found[1] * 60 + found[2];
    (total <= 18 * 3600).then_some(total)
}
