//! Fields in quotes: escapes, doubled quotes, and text after a closing quote.
//!
//! Behaves like the parser that Spark uses, with its default `unescapedQuoteHandling="STOP_AT_DELIMITER"`.
//! INVARIANT: no byte of a field is lost: it is in the value, or it is a quote or an escape that the dialect removes.

use memchr::memchr2;

use super::split::{Fields, Quoted, Span, Splitter};

/// What the last byte was, as far as it decides what the next one means.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Last {
    Other,
    Quote,
    Escape,
}

impl Splitter {
    /// Find the end of a field whose text begins at `start`, after its opening quote.
    pub(super) fn quoted(&self, data: &[u8], start: usize, is_last: bool, fields: &mut Fields) -> Option<Quoted> {
        let quote = self.dialect.quote?;
        let found = match self.dialect.escape {
            Some(escape) if escape != quote => memchr2(quote, escape, &data[start..]),
            _ => memchr::memchr(quote, &data[start..]),
        };
        let Some(found) = found else { return is_last.then(|| self.unclosed(data, start)) };
        let end = start + found;
        if data[end] == quote && self.ends_at(data, end + 1, is_last)? {
            let lines = self.line_ends(&data[start..end]);
            return Some(Quoted { span: Span::quoted(start, end), after: end + 1, lines, is_open: false });
        }
        self.escaped(data, start, quote, is_last, fields)
    }

    /// Whether a field ends at `at`: at a separator, a line end, or the end of the file.
    fn ends_at(&self, data: &[u8], at: usize, is_last: bool) -> Option<bool> {
        if at == data.len() {
            return is_last.then_some(true);
        }
        let rest = &data[at..];
        Some(self.dialect.separator(rest, is_last)? > 0 || self.dialect.line_end(rest, is_last)? > 0)
    }

    fn unclosed(&self, data: &[u8], start: usize) -> Quoted {
        let lines = self.line_ends(&data[start..]);
        Quoted { span: Span::quoted(start, data.len()), after: data.len(), lines, is_open: true }
    }

    /// Read a field byte by byte where it has quotes or escapes; its text goes to the side buffer.
    fn escaped(&self, data: &[u8], start: usize, quote: u8, is_last: bool, fields: &mut Fields) -> Option<Quoted> {
        // Without an escape a doubled quote is two quotes, as with one that stands nowhere.
        let escape = self.dialect.escape;
        let escape_escape = self.dialect.escape_escape;
        let side = fields.side.len();
        let (mut at, mut last) = (start, Last::Other);
        while at < data.len() {
            let byte = data[at];
            if last == Last::Quote && self.closes(data, at, is_last)? {
                return self.after_closing(data, (start, at), side, is_last, fields);
            }
            match (byte, last) {
                _ if byte == quote && last == Last::Escape => {
                    fields.side.push(quote);
                    last = Last::Other;
                }
                _ if byte == quote && last == Last::Quote => {
                    fields.side.push(quote); // a doubled quote; with a backslash as escape, the second may close, too
                    last = if escape == Some(quote) { Last::Other } else { Last::Quote };
                }
                _ if byte == quote => last = Last::Quote,
                (_, Last::Quote) => return self.literal(data, (start, at), side, is_last, fields),
                _ if Some(byte) == escape && last == Last::Escape => {
                    fields.side.push(byte);
                    last = if escape_escape == escape { Last::Other } else { Last::Escape };
                }
                _ if Some(byte) == escape => last = Last::Escape,
                _ => {
                    if last == Last::Escape {
                        fields.side.extend(escape);
                    }
                    let next = memchr2(quote, escape.unwrap_or(quote), &data[at..]);
                    let end = next.map_or(data.len(), |found| at + found);
                    fields.side.extend_from_slice(&data[at..end]);
                    last = Last::Other;
                    at = end;
                    continue;
                }
            }
            at += 1;
        }
        if !is_last {
            return None;
        }
        if last == Last::Escape {
            fields.side.extend(escape);
        }
        let span = Span::side(side, fields.side.len());
        let lines = self.line_ends(&data[start..]);
        Some(Quoted { span, after: data.len(), lines, is_open: last != Last::Quote })
    }

    /// Whether a quote before `at` closes the field: white space or the end of the field follows it.
    fn closes(&self, data: &[u8], at: usize, is_last: bool) -> Option<bool> {
        Some(data[at] <= b' ' || self.ends_at(data, at, is_last)?)
    }

    /// Read on after a closing quote. White space before the end of the field is dropped.
    fn after_closing(
        &self,
        data: &[u8],
        (start, after): (usize, usize),
        side: usize,
        is_last: bool,
        fields: &mut Fields,
    ) -> Option<Quoted> {
        let mut at = after;
        while at < data.len() && !self.ends_at(data, at, is_last)? {
            if data[at] > b' ' {
                return self.literal(data, (start, after), side, is_last, fields);
            }
            at += 1;
        }
        if at == data.len() && !is_last {
            return None;
        }
        let lines = self.line_ends(&data[start..after]);
        Some(Quoted { span: Span::side(side, fields.side.len()), after: at, lines, is_open: false })
    }

    /// Read a field with text after its closing quote: the quotes and that text belong to it, up to the separator.
    fn literal(
        &self,
        data: &[u8],
        (start, after): (usize, usize),
        side: usize,
        is_last: bool,
        fields: &mut Fields,
    ) -> Option<Quoted> {
        let end = self.field_end(data, after, is_last)?;
        let quote = data[start - 1];
        fields.side.insert(side, quote);
        fields.side.push(quote);
        fields.side.extend_from_slice(&data[after..self.trimmed(data, after, end)]);
        let lines = self.line_ends(&data[start..after]);
        Some(Quoted { span: Span::side(side, fields.side.len()), after: end, lines, is_open: false })
    }

    /// Count the line ends in the text of a field: each line feed, and each carriage return without one.
    fn line_ends(&self, text: &[u8]) -> u64 {
        let mut count = 0;
        for place in memchr::memchr2_iter(b'\n', b'\r', text) {
            count += u64::from(text[place] == b'\n' || text.get(place + 1) != Some(&b'\n'));
        }
        count
    }
}
