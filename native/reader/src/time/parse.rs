//! Texts read by a pattern, and what their fields mean together.
//!
//! As in Spark, letters match in any case, a missing year is 1970, a missing month or day the first, and a missing time
//! of day midnight. INVARIANT: a field that is there twice, or disagrees with others, makes the text none.

use super::calendar::{DAY_US, days, is_leap};
use super::iso::fraction;
use super::pattern::{Item, Minutes, Number, Offset, Pattern};
use super::zone::{Zone, offset_us};

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// The fields of a text.
#[derive(Debug, Clone, Default)]
pub(super) struct Parsed {
    year: Option<u32>,
    month: Option<u32>,
    day: Option<u32>,
    day_of_year: Option<u32>,
    hour: Option<u32>,
    half_hour: Option<u32>,
    is_afternoon: Option<bool>,
    minute: Option<u32>,
    second: Option<u32>,
    micros: i64,
    offset: Option<i64>,
    zone: Option<Zone>,
}

impl Pattern {
    /// Return the fields of a text, all of which the pattern must describe.
    pub(super) fn parse(&self, text: &[u8]) -> Option<Parsed> {
        let mut parsed = Parsed::default();
        let rest = items(&self.items, text, &mut parsed)?;
        rest.is_empty().then_some(parsed)
    }
}

fn items<'a>(items: &[Item], text: &'a [u8], parsed: &mut Parsed) -> Option<&'a [u8]> {
    let mut rest = text;
    for (place, item) in items.iter().enumerate() {
        rest = match item {
            Item::Optional(inner) => {
                let mut tried = parsed.clone();
                match self::items(inner, rest, &mut tried) {
                    Some(after) => {
                        *parsed = tried;
                        after
                    }
                    None => rest,
                }
            }
            Item::Number { field, least, most } => {
                number(*field, *least, most - adjacent(*least, *most, &items[place + 1..], rest), rest, parsed)?
            }
            other => one(other, rest, parsed)?,
        };
    }
    Some(rest)
}

/// Return how many digits a number of variable width leaves to the numbers of fixed width directly behind it.
fn adjacent(least: usize, most: usize, after: &[Item], text: &[u8]) -> usize {
    let fixed: usize = after
        .iter()
        .map_while(|item| match item {
            Item::Number { least, most, .. } if least == most => Some(*least),
            Item::ShortYear => Some(2),
            _ => None,
        })
        .sum();
    if fixed == 0 || least == most {
        return 0;
    }
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    most - digits.saturating_sub(fixed).clamp(least, most)
}

fn number<'a>(field: Number, least: usize, most: usize, text: &'a [u8], parsed: &mut Parsed) -> Option<&'a [u8]> {
    let count = text.iter().take(most).take_while(|byte| byte.is_ascii_digit()).count();
    if count < least
        || (most > 2 && field == Number::Year && text.get(count).is_some_and(u8::is_ascii_digit) && least != most)
    {
        return None;
    }
    let value = text[..count].iter().fold(0, |value, byte| value * 10 + u32::from(byte - b'0'));
    parsed.set(field, value)?;
    Some(&text[count..])
}

fn one<'a>(item: &Item, text: &'a [u8], parsed: &mut Parsed) -> Option<&'a [u8]> {
    match item {
        Item::ShortYear => {
            let (digits, rest) = text.split_at_checked(2)?;
            let value = super::super::text::number::integer(digits, 0, 99).filter(|_| digits[0].is_ascii_digit())?;
            put(&mut parsed.year, 2000 + u32::try_from(value).ok()?)?;
            Some(rest)
        }
        Item::Month { is_full } => {
            let (place, rest) = name(&MONTHS, *is_full, text)?;
            put(&mut parsed.month, u32::try_from(place).ok()? + 1)?;
            Some(rest)
        }
        Item::HalfDay => {
            let is_afternoon = match without(text, "AM") {
                Some(_) => false,
                None => without(text, "PM").map(|_| true)?,
            };
            put(&mut parsed.is_afternoon, is_afternoon)?;
            Some(&text[2..])
        }
        Item::Era => without(text, "AD"),
        Item::Fraction(most) => {
            let digits = text.iter().take(*most).take_while(|byte| byte.is_ascii_digit()).count();
            parsed.micros = fraction(&text[..digits]).0;
            (digits > 0).then_some(&text[digits..])
        }
        Item::Offset(form) => {
            let (offset, rest) = offset(*form, text)?;
            put(&mut parsed.offset, offset)?;
            Some(rest)
        }
        Item::Zone => {
            let end = text.iter().position(|byte| !is_of_zone(*byte)).unwrap_or(text.len());
            let (zone, rest) = text.split_at(end);
            parsed.zone = Some(std::str::from_utf8(zone).ok().and_then(Zone::new)?);
            Some(rest)
        }
        Item::Literal(wanted) => without(text, wanted),
        Item::Optional(_) | Item::Number { .. } => None,
    }
}

/// Return what follows `wanted`, in any case of letters.
fn without<'a>(text: &'a [u8], wanted: &str) -> Option<&'a [u8]> {
    let (found, rest) = text.split_at_checked(wanted.len())?;
    found.eq_ignore_ascii_case(wanted.as_bytes()).then_some(rest)
}

fn name<'a>(names: &[&str], is_full: bool, text: &'a [u8]) -> Option<(usize, &'a [u8])> {
    names.iter().enumerate().find_map(|(place, name)| {
        let wanted = if is_full { name } else { &name[..3] };
        without(text, wanted).map(|rest| (place, rest))
    })
}

fn is_of_zone(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'_' | b'+' | b'-' | b':')
}

fn offset(form: Offset, text: &[u8]) -> Option<(i64, &[u8])> {
    if form.has_z
        && let [b'Z' | b'z', rest @ ..] = text
    {
        return Some((0, rest));
    }
    let step = if form.has_colon { 3 } else { 2 };
    let digits = |from: usize| {
        let part = text.get(from..from + step)?;
        let two = if form.has_colon { part.strip_prefix(b":")? } else { part };
        two.iter().all(u8::is_ascii_digit).then_some(())
    };
    let hours = text.get(1..3)?;
    if !matches!(text[0], b'+' | b'-') || !hours.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let mut end = 3;
    match (form.minutes, digits(3)) {
        (_, Some(())) => end += step,
        (Minutes::Optional, None) => {}
        (_, None) => return None,
    }
    if form.minutes == Minutes::AndSeconds && end > 3 && digits(end).is_some() {
        end += step;
    }
    Some((offset_us(&text[..end])?, &text[end..]))
}

/// Set a field; `None` if it has another value already.
fn put<T: PartialEq + Copy>(field: &mut Option<T>, value: T) -> Option<()> {
    (field.is_none_or(|found| found == value)).then(|| *field = Some(value))
}

impl Parsed {
    fn set(&mut self, field: Number, value: u32) -> Option<()> {
        let within = |range: std::ops::RangeInclusive<u32>| range.contains(&value).then_some(value);
        match field {
            Number::Year => put(&mut self.year, within(1..=9999)?),
            Number::Month => put(&mut self.month, within(1..=12)?),
            Number::Day => put(&mut self.day, within(1..=31)?),
            Number::DayOfYear => put(&mut self.day_of_year, within(1..=366)?),
            Number::Hour => put(&mut self.hour, within(0..=23)?),
            Number::HourFromOne => put(&mut self.hour, within(1..=24)? % 24),
            Number::HalfDayHour => put(&mut self.half_hour, within(1..=12)? % 12),
            Number::HalfDayHourFromZero => put(&mut self.half_hour, within(0..=11)?),
            Number::Minute => put(&mut self.minute, within(0..=59)?),
            Number::Second => put(&mut self.second, within(0..=59)?),
        }
    }

    /// Whether an offset or a zone was written.
    pub(super) fn has_zone(&self) -> bool {
        self.offset.is_some() || self.zone.is_some()
    }

    /// Return the local time that the fields are, in µs since 1970.
    pub(super) fn wall_us(&self) -> Option<i64> {
        let date = self.days()?;
        let seconds = i64::from(self.hour()?) * 3600
            + i64::from(self.minute.unwrap_or(0)) * 60
            + i64::from(self.second.unwrap_or(0));
        Some(i64::from(date) * DAY_US + seconds * 1_000_000 + self.micros)
    }

    /// Return the instant that the fields are; without an offset they are a local time of `zone`.
    pub(super) fn instant_us(&self, zone: &Zone) -> Option<i64> {
        let wall = self.wall_us()?;
        match (self.offset, &self.zone) {
            (Some(offset), _) => Some(wall - offset),
            (None, written) => written.as_ref().unwrap_or(zone).instant_of_wall(wall),
        }
    }

    fn days(&self) -> Option<i32> {
        let year = i32::try_from(self.year.unwrap_or(1970)).ok()?;
        let Some(day_of_year) = self.day_of_year else {
            return days(year, self.month.unwrap_or(1), self.day.unwrap_or(1));
        };
        if self.month.is_some() || self.day.is_some() || day_of_year > if is_leap(year) { 366 } else { 365 } {
            return None;
        }
        Some(days(year, 1, 1)? + i32::try_from(day_of_year).ok()? - 1)
    }

    fn hour(&self) -> Option<u32> {
        match (self.hour, self.half_hour, self.is_afternoon) {
            (Some(hour), None, None) => Some(hour),
            (Some(hour), None, Some(is_afternoon)) => ((hour >= 12) == is_afternoon).then_some(hour),
            (None, Some(hour), Some(is_afternoon)) => Some(hour + if is_afternoon { 12 } else { 0 }),
            (None, Some(hour), None) => Some(hour),
            (None, None, _) => Some(0),
            (Some(hour), Some(half), _) => (hour % 12 == half).then_some(hour),
        }
    }
}
