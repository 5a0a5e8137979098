//! Where records and fields of CSV end.
//!
//! The rules are Spark's: a quote opens a field only directly after a separator or at the start of a record, line ends
//! inside quotes belong to the field, and text after a closing quote makes the whole field literal up to the separator.
//! INVARIANT: the result depends on the bytes alone. A record whose end is not certain yet needs more bytes.

use memchr::memchr3;

use super::dialect::Dialect;

const SIDE: u32 = 1 << 31;
const QUOTED: u32 = 1 << 31;

/// Where the text of a field stands: in the data, or in the side buffer if it has escapes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    start: u32,
    end: u32,
}

impl Span {
    fn plain(start: usize, end: usize) -> Self {
        Self { start: narrow(start), end: narrow(end) }
    }

    pub(super) fn quoted(start: usize, end: usize) -> Self {
        Self { start: narrow(start), end: narrow(end) | QUOTED }
    }

    pub(super) fn side(start: usize, end: usize) -> Self {
        Self { start: narrow(start) | SIDE, end: narrow(end) | QUOTED }
    }

    /// Whether the field was in quotes.
    #[must_use]
    pub fn is_quoted(self) -> bool {
        self.end & QUOTED != 0
    }

    /// The text of the field.
    #[must_use]
    #[inline]
    pub fn text<'a>(self, data: &'a [u8], side: &'a [u8]) -> &'a [u8] {
        let from = if self.start & SIDE == 0 { data } else { side };
        &from[(self.start & !SIDE) as usize..(self.end & !QUOTED) as usize]
    }
}

#[expect(clippy::cast_possible_truncation, reason = "buffers are at most 1 GiB")]
fn narrow(place: usize) -> u32 {
    place as u32
}

/// The fields of records.
#[derive(Debug, Default)]
pub struct Fields {
    /// The fields of all records, one after the other.
    pub spans: Vec<Span>,
    /// Texts that are not in the data as they are.
    pub side: Vec<u8>,
}

/// What stands at a place of the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// A record.
    Record(Found),
    /// A line that is no record: blank, or a comment. `next` is where the following line begins.
    Blank {
        /// Where the following line begins.
        next: usize,
    },
    /// More bytes are needed.
    More,
    /// Nothing.
    End,
}

/// A record that was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// Where its line end begins.
    pub end: usize,
    /// Where the next record begins.
    pub next: usize,
    /// How many lines it has.
    pub lines: u64,
    /// Whether its last quote is not closed.
    pub is_open: bool,
}

/// A field that was found in quotes, and where what follows it begins.
pub(super) struct Quoted {
    pub(super) span: Span,
    pub(super) after: usize,
    pub(super) lines: u64,
    pub(super) is_open: bool,
}

/// Finds records and their fields.
#[derive(Debug, Clone)]
pub struct Splitter {
    pub(super) dialect: Dialect,
    /// The first bytes of what ends a field that is not in quotes.
    ends: [u8; 3],
}

impl Splitter {
    /// Return a splitter for a dialect.
    #[must_use]
    pub fn new(dialect: Dialect) -> Self {
        let separator = dialect.separator.first().copied().unwrap_or(b',');
        let ends = match dialect.line_end.as_deref() {
            Some([first, ..]) => [separator, *first, *first],
            _ => [separator, b'\n', b'\r'],
        };
        Self { dialect, ends }
    }

    /// Find the record at `start` and add its fields. After `More`, `fields` may have fields of the record.
    pub fn next(&self, data: &[u8], start: usize, is_last: bool, fields: &mut Fields) -> Step {
        if start == data.len() {
            return if is_last { Step::End } else { Step::More };
        }
        match self.blank(data, start, is_last) {
            Some(0) => self.record(data, start, is_last, fields).map_or(Step::More, Step::Record),
            Some(next) => Step::Blank { next },
            None => Step::More,
        }
    }

    /// Return where the line after a blank line or a comment begins; 0 if a record begins at `start`.
    fn blank(&self, data: &[u8], start: usize, is_last: bool) -> Option<usize> {
        let first = data[start];
        let is_comment = self.dialect.comment == Some(first);
        if first > b' ' && !is_comment {
            return Some(0);
        }
        let mut at = start;
        while at < data.len() {
            let end = self.dialect.line_end(&data[at..], is_last)?;
            if end > 0 {
                return Some(at + end);
            }
            if !is_comment && (data[at] > b' ' || self.dialect.separator(&data[at..], is_last)? > 0) {
                return Some(0);
            }
            at += 1;
        }
        is_last.then_some(at)
    }

    fn record(&self, data: &[u8], start: usize, is_last: bool, fields: &mut Fields) -> Option<Found> {
        let (mut at, mut lines, mut is_open) = (start, 1, false);
        loop {
            if self.dialect.trim_leading {
                at = self.without_white_space(data, at, is_last)?;
            }
            let after = if self.dialect.quote.is_some() && data.get(at) == self.dialect.quote.as_ref() {
                let found = self.quoted(data, at + 1, is_last, fields)?;
                fields.spans.push(found.span);
                lines += found.lines;
                is_open = found.is_open;
                found.after
            } else {
                let end = self.field_end(data, at, is_last)?;
                fields.spans.push(Span::plain(at, self.trimmed(data, at, end)));
                end
            };
            let separator = self.dialect.separator(&data[after..], is_last)?;
            if separator == 0 {
                let end = self.dialect.line_end(&data[after..], is_last)?;
                return Some(Found { end: after, next: after + end, lines, is_open });
            }
            at = after + separator;
        }
    }

    /// Return where a field without quotes that begins at `start` ends.
    #[inline]
    pub(super) fn field_end(&self, data: &[u8], start: usize, is_last: bool) -> Option<usize> {
        let [a, b, c] = self.ends;
        let mut at = start;
        loop {
            // Most fields are short: a call of `memchr` costs as much as a dozen bytes.
            let near = data[at..].iter().take(16).position(|byte| *byte == a || *byte == b || *byte == c);
            let found = near.or_else(|| memchr3(a, b, c, &data[at..]));
            let Some(found) = found else { return is_last.then_some(data.len()) };
            at += found;
            if self.is_simple(data[at]) {
                return Some(at);
            }
            let rest = &data[at..];
            if self.dialect.separator(rest, is_last)? > 0 || self.dialect.line_end(rest, is_last)? > 0 {
                return Some(at);
            }
            at += 1;
        }
    }

    /// Whether a byte ends a field, whatever follows it.
    #[inline]
    fn is_simple(&self, byte: u8) -> bool {
        (self.dialect.separator.len() == 1 && byte == self.ends[0])
            || (byte == b'\n' && self.dialect.line_end.is_none())
    }

    fn without_white_space(&self, data: &[u8], start: usize, is_last: bool) -> Option<usize> {
        let mut at = start;
        while at < data.len() && data[at] <= b' ' {
            let rest = &data[at..];
            if self.dialect.separator(rest, is_last)? > 0 || self.dialect.line_end(rest, is_last)? > 0 {
                return Some(at);
            }
            at += 1;
        }
        (at < data.len() || is_last).then_some(at)
    }

    /// Return the end of a field without the white space after it, if that is dropped.
    pub(super) fn trimmed(&self, data: &[u8], start: usize, end: usize) -> usize {
        if !self.dialect.trim_trailing {
            return end;
        }
        data[start..end].iter().rposition(|byte| *byte > b' ').map_or(start, |last| start + last + 1)
    }
}
