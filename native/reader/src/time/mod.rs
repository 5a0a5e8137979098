//! Dates and times: from text to days and microseconds, in ISO forms or by patterns in Spark's letters.
//!
//! INVARIANT: a text gives one value or none. Years are 1 to 9999, and fractions are cut at microseconds.

mod calendar;
mod iso;
mod parse;
mod pattern;
#[cfg(test)]
mod tests;
mod zone;

pub use pattern::Pattern;
pub use zone::Zone;

use calendar::{DAY_US, DAYS, MICROS};

/// Whether an instant in µs is within the years 1 to 9999.
pub(crate) fn is_in_bounds(micros: i64) -> bool {
    MICROS.contains(&micros)
}

/// How the dates and times of a source are written.
#[derive(Debug, Clone)]
pub struct Times {
    zone: Zone,
    date: Option<Pattern>,
    timestamp: Option<Pattern>,
    timestamp_ntz: Option<Pattern>,
}

impl Times {
    /// ISO forms. A time without an offset is a local time of `zone`.
    #[must_use]
    pub fn iso(zone: Zone) -> Self {
        Self { zone, date: None, timestamp: None, timestamp_ntz: None }
    }

    /// Read dates by a pattern. The error says why it is refused.
    pub fn with_date_format(mut self, pattern: &str) -> Result<Self, String> {
        self.date = Some(Pattern::new(pattern)?);
        Ok(self)
    }

    /// Read timestamps by a pattern. The error says why it is refused.
    pub fn with_timestamp_format(mut self, pattern: &str) -> Result<Self, String> {
        self.timestamp = Some(Pattern::new(pattern)?);
        Ok(self)
    }

    /// Read timestamps without a time zone by a pattern. The error says why it is refused.
    pub fn with_timestamp_ntz_format(mut self, pattern: &str) -> Result<Self, String> {
        self.timestamp_ntz = Some(Pattern::new(pattern)?);
        Ok(self)
    }

    /// Return a date in days since 1970-01-01.
    #[must_use]
    pub fn date(&self, text: &[u8]) -> Option<i32> {
        let Some(pattern) = &self.date else { return iso::date(text) };
        let found = pattern.parse(text)?;
        let days = i32::try_from(found.wall_us()?.div_euclid(DAY_US)).ok()?;
        DAYS.contains(&days).then_some(days)
    }

    /// Return a timestamp in µs since the epoch, UTC.
    #[must_use]
    pub fn timestamp(&self, text: &[u8]) -> Option<i64> {
        let found = match &self.timestamp {
            None => iso::timestamp(text, |wall| self.zone.instant_of_wall(wall))?.0,
            Some(pattern) => pattern.parse(text)?.instant_us(&self.zone)?,
        };
        MICROS.contains(&found).then_some(found)
    }

    /// Return a timestamp without a time zone in µs since 1970. A text with an offset has no such value.
    #[must_use]
    pub fn timestamp_ntz(&self, text: &[u8]) -> Option<i64> {
        let found = match &self.timestamp_ntz {
            None => match iso::timestamp(text, Some)? {
                (wall, false) => wall,
                (_, true) => return None,
            },
            Some(pattern) => {
                let found = pattern.parse(text)?;
                if found.has_zone() {
                    return None;
                }
                found.wall_us()?
            }
        };
        MICROS.contains(&found).then_some(found)
    }
}
