//! The records of a file of JSON, parsed and not converted yet.
//!
//! A record is the object on a line, or an element of the array on a line. With `multi_line` it is a value of the file,
//! or an element of a top-level array. INVARIANT: every record has a number; a line that is no JSON is one reject, and
//! blank lines are skipped.

use std::io::Read;

use super::options::JsonOptions;
use super::tape::{Kind, Node, Parser, Stop};
use crate::error::{Reject, Result, Unreadable};
use crate::shown::lossless;
use crate::text::bytes::Buffer;

/// How many records are parsed before they are converted.
const BATCH_RECORDS: usize = 512;

/// Cuts a file into records.
pub(super) struct Records {
    buffer: Buffer,
    options: JsonOptions,
    next_row: i64,
    line: u64,
    /// The elements that are left of an array on a line.
    rest: Option<Rest>,
    /// With `multi_line`: whether the next record is in an array.
    in_array: Inside,
    /// How many bytes were parsed, and whether the next record needs more bytes than there are.
    parsed: (usize, bool),
    is_done: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Inside {
    Nothing,
    /// After the opening bracket.
    Start,
    /// After an element.
    Element,
}

/// A record that is parsed and not converted yet.
#[derive(Clone, Copy)]
pub(super) struct Record {
    /// Where its value is in the tape.
    pub(super) node: u32,
    start: usize,
    end: usize,
    line: u64,
    pub(super) row: i64,
}

impl Record {
    /// Return the reject for this record, because of one of its columns or of all of it.
    pub(super) fn reject(self, data: &[u8], column: Option<usize>, reason: String) -> Reject {
        Reject { row: self.row, line: self.line, column, reason, text: lossless(&data[self.start..self.end]) }
    }
}

/// The elements that are left of an array on the first line of the buffer, whose tape is that of the last batch.
struct Rest {
    /// The next element.
    node: u32,
    /// The end of the elements in the tape.
    end: u32,
    /// Where the next line begins.
    next: usize,
}

/// Some records of a file.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) tape: Vec<Node>,
    pub(super) records: Vec<Record>,
    /// Lines and values that are no records.
    pub(super) rejects: Vec<Reject>,
    /// How many bytes all of these have in the file.
    pub(super) bytes: usize,
}

/// What a block has already.
#[derive(Clone, Copy)]
pub(super) struct Filled {
    pub(super) rows: usize,
    pub(super) rejects: usize,
    pub(super) bytes: usize,
}

impl Records {
    pub(super) fn open(file: Box<dyn Read + Send>, options: JsonOptions) -> Result<Self> {
        Ok(Self {
            buffer: Buffer::open(file, options.form)?,
            options,
            next_row: 0,
            line: 1,
            rest: None,
            in_array: Inside::Nothing,
            parsed: (0, false),
            is_done: false,
        })
    }

    /// Whether all records were parsed.
    pub(super) fn is_done(&self) -> bool {
        self.is_done
    }

    /// The bytes in which the records of the last batch are.
    pub(super) fn data(&self) -> &[u8] {
        self.buffer.bytes()
    }

    pub(super) fn options(&self) -> &JsonOptions {
        &self.options
    }

    /// Parse some records, as many as a block has room for at most. `batch` is the last one, whose memory is used again.
    pub(super) fn parse(&mut self, batch: &mut Batch, filled: Filled) -> Result<()> {
        if self.rest.is_none() {
            batch.tape.clear();
        }
        batch.records.clear();
        batch.rejects.clear();
        batch.bytes = 0;
        self.parsed =
            if self.options.multi_line { self.parse_values(batch, filled)? } else { self.parse_lines(batch, filled)? };
        Ok(())
    }

    /// Go to what follows the records of the last batch.
    pub(super) fn advance(&mut self) -> Result<()> {
        let (consumed, needs_more) = std::mem::take(&mut self.parsed);
        self.buffer.consume(consumed);
        if needs_more {
            // What ends the record is not counted, so that its length alone decides.
            let end = self.options.line_end.as_ref().map_or(1, Vec::len);
            self.check_length(self.buffer.bytes().len().saturating_sub(end))?;
            self.buffer.more()?;
        }
        Ok(())
    }

    /// Return how many records may still be added to a batch.
    fn room(&self, batch: &Batch, filled: Filled) -> usize {
        let room = self.options.limits.room(filled.rows, filled.rejects, filled.bytes + batch.bytes);
        room.min(BATCH_RECORDS).saturating_sub(batch.records.len() + batch.rejects.len())
    }

    fn check_length(&self, bytes: usize) -> Result<()> {
        let most = self.options.limits.record_bytes;
        if bytes <= most {
            return Ok(());
        }
        let what = if self.options.multi_line { "value" } else { "line" };
        let reason = format!("the {what} that begins on line {} has more than {most} bytes", self.line);
        let hint = "if it is right, raise maxRecordBytes; if the file is one JSON value, declare multiLine=True";
        Err(Unreadable { line: Some(self.line), reason, hint: Some(hint.into()) }.into())
    }

    /// Parse lines. Return where the next one begins, and whether it needs more bytes.
    fn parse_lines(&mut self, batch: &mut Batch, filled: Filled) -> Result<(usize, bool)> {
        let mut at = 0;
        let mut checked = Checked::default();
        if let Some(rest) = self.rest.take() {
            let next = rest.next;
            if !self.elements(batch, rest, filled) {
                return Ok((0, false));
            }
            batch.bytes += next;
            self.line += 1;
            return Ok((next, false));
        }
        while self.room(batch, filled) > 0 {
            let data = self.buffer.bytes();
            if at == data.len() && self.buffer.is_last() {
                self.is_done = true;
                break;
            }
            let Some((end, next)) = self.line_at(at) else { return Ok((at, true)) };
            self.check_length(end - at)?;
            let line = &data[at..end];
            if line.iter().any(|byte| !matches!(byte, b' ' | b'\t' | b'\r' | b'\n')) {
                let is_utf8 = checked.is_utf8(data, at, end);
                let before = batch.tape.len();
                if self.parse_line(batch, at, end, is_utf8) {
                    #[expect(clippy::cast_possible_truncation, reason = "tapes of a batch are below 1 GiB")]
                    let rest = Rest { node: before as u32 + 1, end: batch.tape[before].next, next };
                    let (records, row) = (batch.records.len(), self.next_row);
                    if !self.elements(batch, rest, filled) {
                        if at > 0 {
                            // Read it again, as the first line of a batch of its own.
                            (self.rest, self.next_row) = (None, row);
                            batch.records.truncate(records);
                            batch.tape.truncate(before);
                        }
                        return Ok((at, false));
                    }
                }
                batch.bytes += next - at;
            }
            self.line += 1;
            at = next;
        }
        Ok((at, false))
    }

    /// Return where the line at `start` ends, and where the next one begins.
    fn line_at(&self, start: usize) -> Option<(usize, usize)> {
        let (data, is_last) = (self.buffer.bytes(), self.buffer.is_last());
        let rest = &data[start..];
        let at_end = is_last.then_some((data.len(), data.len()));
        if let Some(wanted) = &self.options.line_end {
            let found = memchr::memmem::find(rest, wanted);
            return found.map(|end| (start + end, start + end + wanted.len())).or(at_end);
        }
        let Some(end) = memchr::memchr2(b'\n', b'\r', rest) else { return at_end };
        let end = start + end;
        match &data[end..] {
            [b'\r'] if !is_last => None,
            [b'\r', b'\n', ..] => Some((end, end + 2)),
            _ => Some((end, end + 1)),
        }
    }

    /// Add the record of a line; a line of comments has none. Return whether it is an array instead, whose elements are
    /// the records.
    fn parse_line(&mut self, batch: &mut Batch, start: usize, end: usize, is_utf8: bool) -> bool {
        let (before, line) = (batch.tape.len(), self.line);
        let data = &self.buffer.bytes()[..end];
        let parser = Parser { data, allow: self.options.allow, max_depth: self.options.max_depth };
        if is_utf8 && self.options.allow.comments && parser.space(start) == Ok(end) {
            return false;
        }
        let parsed = parser.value(start, true, &mut batch.tape).and_then(|after| {
            let after = parser.space(after)?;
            if after == end { Ok(()) } else { Err(Stop::Invalid(after, "expected the end of the line")) }
        });
        if parsed.is_err() || !is_utf8 {
            batch.tape.truncate(before);
            let reason = if is_utf8 {
                no_json(parsed.err().as_ref(), &data[start..end], start)
            } else {
                format!("not {}", self.options.form.charset.name())
            };
            let text = lossless(&data[start..end]);
            batch.rejects.push(Reject { row: self.next_row, line, column: None, reason, text });
            self.next_row += 1;
            return false;
        }
        if batch.tape[before].kind == Kind::Array {
            return true;
        }
        #[expect(clippy::cast_possible_truncation, reason = "tapes of a batch are below 1 GiB")]
        let node = before as u32;
        batch.records.push(Record { node, start, end, line, row: self.next_row });
        self.next_row += 1;
        false
    }

    /// Add elements of the array on a line, as many as there is room for. Return whether these are all; else `rest` has
    /// those that are left.
    fn elements(&mut self, batch: &mut Batch, mut rest: Rest, filled: Filled) -> bool {
        let room = batch.records.len() + self.room(batch, filled);
        while rest.node < rest.end && batch.records.len() < room {
            let element = batch.tape[rest.node as usize];
            let quotes = usize::from(matches!(element.kind, Kind::Plain | Kind::Escaped));
            let (start, end) = (element.start as usize - quotes, element.end as usize + quotes);
            batch.records.push(Record { node: rest.node, start, end, line: self.line, row: self.next_row });
            self.next_row += 1;
            rest.node = element.next;
        }
        let is_complete = rest.node >= rest.end;
        self.rest = (!is_complete).then_some(rest);
        is_complete
    }

    /// Parse values, or elements of arrays, over any number of lines.
    fn parse_values(&mut self, batch: &mut Batch, filled: Filled) -> Result<(usize, bool)> {
        let mut at = 0;
        while self.room(batch, filled) > 0 {
            let data = self.buffer.bytes();
            let is_last = self.buffer.is_last();
            let white = white_space(&data[at..], is_last);
            self.line += lines(&data[at..at + white]);
            at += white;
            let parser = Parser { data, allow: self.options.allow, max_depth: self.options.max_depth };
            let before = batch.tape.len();
            match step(&parser, at, is_last, self.in_array, &mut batch.tape) {
                Ok(Found::Nothing) => {
                    self.check_length(data.len() - at)?;
                    self.is_done = true;
                    return Ok((data.len(), false));
                }
                Ok(Found::Opened(after)) => {
                    self.check_length(after - at)?;
                    self.line += lines(&data[at..after]);
                    (self.in_array, at) = (Inside::Start, after);
                }
                Ok(Found::Closed(after)) => {
                    self.check_length(after - at)?;
                    self.line += lines(&data[at..after]);
                    (self.in_array, at) = (Inside::Nothing, after);
                }
                Ok(Found::Value(start, end)) => {
                    let line = self.line + lines(&data[at..start]);
                    self.check_length(end - at)?;
                    self.line += lines(&data[at..end]);
                    batch.bytes += end - at;
                    if self.in_array != Inside::Nothing {
                        self.in_array = Inside::Element;
                    }
                    let row = self.next_row;
                    self.next_row += 1;
                    if std::str::from_utf8(&data[start..end]).is_ok() {
                        #[expect(clippy::cast_possible_truncation, reason = "tapes of a batch are below 1 GiB")]
                        let node = before as u32;
                        batch.records.push(Record { node, start, end, line, row });
                    } else {
                        batch.tape.truncate(before);
                        let reason = format!("not {}", self.options.form.charset.name());
                        batch.rejects.push(Reject {
                            row,
                            line,
                            column: None,
                            reason,
                            text: lossless(&data[start..end]),
                        });
                    }
                    at = end;
                }
                Err(Stop::Ends) if !is_last => {
                    batch.tape.truncate(before);
                    return Ok((at, true));
                }
                Err(stop) => {
                    let (place, why) = match stop {
                        Stop::Ends => (data.len(), "the file ends within a value"),
                        Stop::Invalid(place, why) => (place, why),
                    };
                    let line = self.line + lines(&data[at..place]);
                    let reason = format!("not JSON: {why}");
                    let hint = "if the file has one object a line, leave out multiLine".to_owned();
                    return Err(Unreadable { line: Some(line), reason, hint: Some(hint) }.into());
                }
            }
        }
        Ok((at, false))
    }
}

/// How far data was checked to be UTF-8. Many lines are checked at once, because a check of a short one costs as much.
#[derive(Default)]
struct Checked {
    end: usize,
}

const CHECKED_BYTES: usize = 16 * 1024;

impl Checked {
    /// Whether a line is UTF-8. Lines are asked for in order.
    fn is_utf8(&mut self, data: &[u8], start: usize, end: usize) -> bool {
        if end <= self.end {
            return true;
        }
        let more = &data[start..data.len().min(start + CHECKED_BYTES)];
        let valid = match std::str::from_utf8(more) {
            Ok(_) => more.len(),
            Err(error) => error.valid_up_to(),
        };
        self.end = start + valid;
        end <= self.end || (end - start > valid && std::str::from_utf8(&data[start..end]).is_ok())
    }
}

fn no_json(stop: Option<&Stop>, line: &[u8], start: usize) -> String {
    let (place, why) = match stop {
        Some(Stop::Invalid(place, why)) => (*place - start, *why),
        _ => (line.len(), "the line ends within a value; values over several lines need multiLine=True"),
    };
    let found =
        if line[place.min(line.len())..].starts_with("\u{feff}".as_bytes()) { "a byte order mark, " } else { "" };
    format!("not a JSON object: byte {}: {found}{why}", place + 1)
}

/// What stands next in a file of values.
enum Found {
    Nothing,
    Opened(usize),
    Closed(usize),
    Value(usize, usize),
}

fn step(
    parser: &Parser<'_>,
    at: usize,
    is_last: bool,
    inside: Inside,
    tape: &mut Vec<Node>,
) -> std::result::Result<Found, Stop> {
    let mut start = parser.space(at)?;
    match (inside, parser.data.get(start)) {
        (_, None) if !is_last => return Err(Stop::Ends),
        (Inside::Nothing, None) => return Ok(Found::Nothing),
        (_, None) => return Err(Stop::Ends),
        (Inside::Nothing, Some(b'[')) => return Ok(Found::Opened(start + 1)),
        (Inside::Start | Inside::Element, Some(b']')) => return Ok(Found::Closed(start + 1)),
        (Inside::Element, Some(b',')) => {
            start = parser.space(start + 1)?;
            if start == parser.data.len() {
                return Err(Stop::Ends);
            }
        }
        (Inside::Element, Some(_)) => return Err(Stop::Invalid(start, "expected a comma or the end of the array")),
        _ => {}
    }
    let end = parser.value(start, is_last, tape)?;
    Ok(Found::Value(start, end))
}

/// Count the white space at the start of a text, without a carriage return whose line feed may still follow.
fn white_space(text: &[u8], is_last: bool) -> usize {
    let count = text.iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n')).count();
    let may_go_on = count == text.len() && text.last() == Some(&b'\r') && !is_last;
    count - usize::from(may_go_on)
}

/// Count the line ends in a text.
fn lines(text: &[u8]) -> u64 {
    let is_end = |place: &usize| text[*place] == b'\n' || text.get(place + 1) != Some(&b'\n');
    memchr::memchr2_iter(b'\n', b'\r', text).filter(is_end).count() as u64
}
