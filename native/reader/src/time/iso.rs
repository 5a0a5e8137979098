//! Dates and times in the ISO forms that Spark's casts take, with every part checked.
//!
//! INVARIANT: no value is guessed. A year has four digits, a part that is there has its range, and nothing is left over.

use super::calendar::{DAY_US, days};
use super::zone::{Zone, offset_us};
use crate::text::number::trimmed;

/// A date, and what follows it.
struct Dated<'a> {
    days: i32,
    rest: &'a [u8],
}

/// A time of day, and the zone that follows it.
struct Timed<'a> {
    micros: i64,
    zone: &'a [u8],
}

/// Return the days of a date. A time of day may follow; it is cut off.
pub(super) fn date(text: &[u8]) -> Option<i32> {
    let found = dated(trimmed(text))?;
    if !found.rest.is_empty() {
        let timed = time_of_day(found.rest)?;
        if !timed.zone.is_empty() {
            zone(timed.zone)?;
        }
    }
    Some(found.days)
}

/// Return a time in µs since 1970, and whether an offset or a zone was written. Without one it is a local time.
pub(super) fn timestamp(text: &[u8], local: impl Fn(i64) -> Option<i64>) -> Option<(i64, bool)> {
    let text = trimmed(text);
    let found = dated(text)?;
    let midnight = i64::from(found.days) * DAY_US;
    if found.rest.is_empty() {
        return Some((local(midnight)?, false));
    }
    let timed = time_of_day(found.rest)?;
    let wall = midnight + timed.micros;
    match timed.zone {
        [] => Some((local(wall)?, false)),
        [b'Z'] => Some((wall, true)),
        written => match offset_us(written) {
            Some(offset) => Some((wall - offset, true)),
            None => Some((zone(written)?.instant_of_wall(wall)?, true)),
        },
    }
}

fn zone(text: &[u8]) -> Option<Zone> {
    std::str::from_utf8(trimmed(text)).ok().and_then(Zone::new)
}

/// Read `yyyy-[M]M-[d]d`, which a sign may precede.
#[inline]
fn dated(text: &[u8]) -> Option<Dated<'_>> {
    let text = text.strip_prefix(b"+").unwrap_or(text);
    if let [a, b, c, d, b'-', e, f, b'-', g, h, rest @ ..] = text
        && let (Some(year), Some(month), Some(day)) = (four(*a, *b, *c, *d), two(*e, *f), two(*g, *h))
        && !rest.first().is_some_and(u8::is_ascii_digit)
    {
        return Some(Dated { days: days(year, month, day)?, rest });
    }
    let [a, b, c, d, b'-', rest @ ..] = text else { return None };
    let year = four(*a, *b, *c, *d)?;
    let (month, rest) = one_or_two(rest)?;
    let (day, rest) = one_or_two(rest.strip_prefix(b"-")?)?;
    Some(Dated { days: days(year, month, day)?, rest })
}

/// Read `T` or a space, then `[H]H[:[m]m[:[s]s[.f…]]]`. What follows is the zone.
#[inline]
fn time_of_day(text: &[u8]) -> Option<Timed<'_>> {
    let (b'T' | b' ', rest) = text.split_first()? else { return None };
    let (hour, rest) = one_or_two(rest)?;
    if rest.is_empty() {
        return (hour <= 23).then_some(Timed { micros: i64::from(hour) * 3_600_000_000, zone: rest });
    }
    let (minute, rest) = one_or_two(rest.strip_prefix(b":")?)?;
    let (second, rest) = match rest.strip_prefix(b":") {
        Some(rest) => one_or_two(rest)?,
        None => (0, rest),
    };
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let (fraction, zone) = match rest.strip_prefix(b".") {
        Some(rest) => fraction(rest),
        None => (0, rest),
    };
    let seconds = i64::from(hour) * 3600 + i64::from(minute) * 60 + i64::from(second);
    Some(Timed { micros: seconds * 1_000_000 + fraction, zone })
}

/// Read the digits of a fraction of a second in µs; further digits are cut off.
pub(super) fn fraction(text: &[u8]) -> (i64, &[u8]) {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let mut micros = 0;
    let zeros = std::iter::repeat(&b'0');
    for digit in text[..digits].iter().chain(zeros).take(6) {
        micros = micros * 10 + i64::from(digit - b'0');
    }
    (micros, &text[digits..])
}

fn one_or_two(text: &[u8]) -> Option<(u32, &[u8])> {
    match text {
        [a, b, c, ..] if a.is_ascii_digit() && b.is_ascii_digit() && c.is_ascii_digit() => None,
        [a, b, rest @ ..] if b.is_ascii_digit() => Some((two(*a, *b)?, rest)),
        [a, rest @ ..] if a.is_ascii_digit() => Some((u32::from(a - b'0'), rest)),
        _ => None,
    }
}

#[inline]
fn two(a: u8, b: u8) -> Option<u32> {
    let (a, b) = (a.wrapping_sub(b'0'), b.wrapping_sub(b'0'));
    (a <= 9 && b <= 9).then(|| u32::from(a) * 10 + u32::from(b))
}

#[inline]
fn four(a: u8, b: u8, c: u8, d: u8) -> Option<i32> {
    i32::try_from(two(a, b)? * 100 + two(c, d)?).ok()
}
