//! Rows of a file of JSON in the columns of a schema, block by block.
//!
//! A record is the object on a line, or an element of the array on a line. With `multi_line` it is a value of the file,
//! or an element of a top-level array. INVARIANT: every record is a row or a reject and has a number; a line that is
//! no JSON is one reject, and blank lines are skipped.

use std::collections::HashMap;
use std::io::Read;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use arrow_select::concat::concat;

use super::convert::{NONE, Places, Values};
use super::shape::Shape;
use super::tape::{Allow, Kind, Node, Parser, Stop};
use crate::block::{Block, Limits};
use crate::error::{Reject, Result, Unreadable};
use crate::shown::{lossless, misfit};
use crate::text::bytes::{Buffer, Form};
use crate::text::column::{Column, internal};
use crate::time::Times;

/// How many records are parsed before they are converted.
const BATCH_RECORDS: usize = 512;
const FITS: u32 = u32::MAX;

/// How a file of JSON is read.
#[derive(Clone)]
pub struct JsonOptions {
    /// Whether a file is JSON values over any number of lines, and not one value a line.
    pub multi_line: bool,
    /// The options that allow more than strict JSON.
    pub allow: Allow,
    /// How deep values may be nested.
    pub max_depth: usize,
    /// What ends a line; `None` means a line feed, a carriage return, or both.
    pub line_end: Option<Vec<u8>>,
    /// The encoding, and how much is read at once.
    pub form: Form,
    /// When a block is complete.
    pub limits: Limits,
    /// How dates and times are written.
    pub times: Times,
}

/// A file of JSON that is being read.
pub struct JsonReader {
    buffer: Buffer,
    options: JsonOptions,
    schema: SchemaRef,
    places: HashMap<Vec<u8>, usize>,
    columns: Vec<Part>,
    rows: Vec<i64>,
    rejects: Vec<Reject>,
    /// The memory of the last batch.
    spare: Batch,
    next_row: i64,
    line: u64,
    block_bytes: usize,
    /// The elements that are left of an array on a line.
    rest: Option<Rest>,
    /// With `multi_line`: whether the next record is in an array.
    in_array: Inside,
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

/// A column of a block that is not complete yet.
enum Part {
    Flat(Column),
    Nested(Vec<ArrayRef>),
}

/// A record that is parsed and not converted yet.
#[derive(Clone, Copy)]
struct Record {
    /// Where its value is in the tape.
    node: u32,
    start: usize,
    end: usize,
    line: u64,
    row: i64,
}

impl Record {
    fn no_object(self, data: &[u8]) -> Reject {
        let text = lossless(&data[self.start..self.end]);
        Reject { row: self.row, line: self.line, column: None, reason: "not a JSON object".to_owned(), text }
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

#[derive(Default)]
struct Batch {
    tape: Vec<Node>,
    records: Vec<Record>,
    rejects: Vec<Reject>,
}

impl JsonReader {
    /// Open a file. `schema` are the columns of the rows.
    pub fn open(file: Box<dyn Read + Send>, schema: &Schema, options: JsonOptions) -> Result<Self> {
        let part = |field: &Arc<Field>| match field.data_type().is_nested() {
            true => Ok(Part::Nested(Vec::new())),
            false => Column::new(field).map(Part::Flat),
        };
        let columns = schema.fields().iter().map(part).collect::<Result<_>>()?;
        let mut fields: Vec<Arc<Field>> = schema.fields().iter().cloned().collect();
        let places =
            fields.iter().enumerate().map(|(place, field)| (field.name().as_bytes().to_vec(), place)).collect();
        fields.push(Arc::new(Field::new("_row", DataType::Int64, true)));
        Ok(Self {
            buffer: Buffer::open(file, options.form)?,
            options,
            schema: Arc::new(Schema::new(fields)),
            places,
            columns,
            rows: Vec::new(),
            rejects: Vec::new(),
            spare: Batch::default(),
            next_row: 0,
            line: 1,
            block_bytes: 0,
            rest: None,
            in_array: Inside::Nothing,
            is_done: false,
        })
    }

    /// Return the next block, or `None` at the end of the file. After an error there are no more blocks.
    pub fn next_block(&mut self) -> Result<Option<Block>> {
        while !self.is_done && self.room() > 0 {
            if let Err(error) = self.read_batch() {
                self.is_done = true;
                self.rows.clear();
                self.rejects.clear();
                return Err(error);
            }
        }
        if self.rows.is_empty() && self.rejects.is_empty() {
            return Ok(None);
        }
        self.block_bytes = 0;
        let fields = self.schema.fields();
        let mut arrays = Vec::with_capacity(fields.len());
        for (part, field) in self.columns.iter_mut().zip(fields) {
            arrays.push(part.finish(field)?);
        }
        arrays.push(Arc::new(Int64Array::from(std::mem::take(&mut self.rows))));
        let rows = RecordBatch::try_new(Arc::clone(&self.schema), arrays).map_err(internal)?;
        Ok(Some(Block { rows, rejects: std::mem::take(&mut self.rejects) }))
    }

    /// Return what values the next records have, how many records these are, and the rejects; `None` at the end.
    ///
    /// The schema plays no part. After an error there is nothing more.
    pub fn next_shape(&mut self) -> Result<Option<(Shape, usize, Vec<Reject>)>> {
        let (mut shape, mut count) = (Shape::default(), 0);
        let limits = self.options.limits;
        while !self.is_done && limits.room(count, self.rejects.len(), self.block_bytes) > 0 {
            count += self.look_at_batch(&mut shape).inspect_err(|_| self.is_done = true)?;
        }
        self.block_bytes = 0;
        let rejects = std::mem::take(&mut self.rejects);
        Ok((count > 0 || !rejects.is_empty()).then_some((shape, count, rejects)))
    }

    fn look_at_batch(&mut self, shape: &mut Shape) -> Result<usize> {
        let (batch, parsed) = self.parse_batch()?;
        let values = self.values(&batch);
        let mut count = 0;
        let mut others = Vec::new();
        for record in &batch.records {
            if batch.tape[record.node as usize].kind == Kind::Object {
                shape.add(&values, record.node, 0);
                count += 1;
            } else {
                others.push(record.no_object(values.data));
            }
        }
        self.rejects.append(&mut others);
        self.rejects.sort_by_key(|reject| reject.row);
        self.finish_batch(batch, parsed)?;
        Ok(count)
    }

    fn read_batch(&mut self) -> Result<()> {
        let (batch, parsed) = self.parse_batch()?;
        self.convert(&batch)?;
        self.finish_batch(batch, parsed)
    }

    /// Parse some records. Return them, where the next one begins, and whether it needs more bytes.
    fn parse_batch(&mut self) -> Result<(Batch, (usize, bool))> {
        let mut batch = std::mem::take(&mut self.spare);
        if self.rest.is_none() {
            batch.tape.clear();
        }
        batch.records.clear();
        let parsed =
            if self.options.multi_line { self.parse_values(&mut batch)? } else { self.parse_lines(&mut batch)? };
        self.rejects.append(&mut batch.rejects);
        Ok((batch, parsed))
    }

    fn finish_batch(&mut self, batch: Batch, (consumed, needs_more): (usize, bool)) -> Result<()> {
        self.spare = batch;
        self.buffer.consume(consumed);
        if needs_more {
            // What ends the record is not counted, so that its length alone decides.
            let end = self.options.line_end.as_ref().map_or(1, Vec::len);
            self.check_length(self.buffer.bytes().len().saturating_sub(end))?;
            self.buffer.more()?;
        }
        Ok(())
    }

    fn values<'a>(&'a self, batch: &'a Batch) -> Values<'a> {
        let data = self.buffer.bytes();
        Values { data, tape: &batch.tape, times: &self.options.times, non_numeric: self.options.allow.non_numeric }
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

    fn room(&self) -> usize {
        self.options.limits.room(self.rows.len(), self.rejects.len(), self.block_bytes)
    }

    /// Return how many records may still be added to a batch.
    fn room_of(&self, batch: &Batch) -> usize {
        self.room().min(BATCH_RECORDS).saturating_sub(batch.records.len() + batch.rejects.len())
    }

    /// Parse lines. Return where the next one begins, and whether it needs more bytes.
    fn parse_lines(&mut self, batch: &mut Batch) -> Result<(usize, bool)> {
        let mut at = 0;
        let mut checked = Checked::default();
        if let Some(rest) = self.rest.take() {
            let next = rest.next;
            if !self.elements(batch, rest) {
                return Ok((0, false));
            }
            self.block_bytes += next;
            self.line += 1;
            return Ok((next, false));
        }
        while self.room_of(batch) > 0 {
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
                    if !self.elements(batch, rest) {
                        if at > 0 {
                            // Read it again, as the first line of a batch of its own.
                            (self.rest, self.next_row) = (None, row);
                            batch.records.truncate(records);
                            batch.tape.truncate(before);
                        }
                        return Ok((at, false));
                    }
                }
                self.block_bytes += next - at;
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
                no_json(parsed.err().as_ref(), start, end)
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
    fn elements(&mut self, batch: &mut Batch, mut rest: Rest) -> bool {
        let room = batch.records.len() + self.room_of(batch);
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
    fn parse_values(&mut self, batch: &mut Batch) -> Result<(usize, bool)> {
        let mut at = 0;
        while self.room_of(batch) > 0 {
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
                    self.block_bytes += end - at;
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

    /// Append the records of a batch to the columns, and those that do not fit to the rejects.
    fn convert(&mut self, batch: &Batch) -> Result<()> {
        let count = batch.records.len();
        if count == 0 {
            return Ok(());
        }
        let before = self.rows.len();
        let data = self.buffer.bytes();
        let values =
            Values { data, tape: &batch.tape, times: &self.options.times, non_numeric: self.options.allow.non_numeric };
        let mut at = vec![vec![NONE; count]; self.columns.len()];
        let mut misfits = vec![FITS; count];
        find(&values, &self.places, batch, &mut at, &mut misfits);
        #[expect(clippy::cast_possible_truncation, reason = "a batch has few records")]
        let all: Vec<u32> = (0..count as u32).collect();
        for (place, part) in self.columns.iter_mut().enumerate() {
            let places = Places { at: &at[place], rows: &all };
            part.append(&values, self.schema.field(place), places, &mut |row| {
                #[expect(clippy::cast_possible_truncation, reason = "a schema has fewer columns")]
                let found = place as u32;
                misfits[row] = misfits[row].min(found);
            })?;
        }
        if misfits.iter().all(|found| *found == FITS) {
            self.rows.extend(batch.records.iter().map(|record| record.row));
            return Ok(());
        }
        let good: Vec<usize> = (0..count).filter(|row| misfits[*row] == FITS).collect();
        for (place, part) in self.columns.iter_mut().enumerate() {
            part.take_back(before);
            let kept: Vec<u32> = good.iter().map(|row| at[place][*row]).collect();
            let places = Places { at: &kept, rows: &all[..kept.len()] };
            part.append(&values, self.schema.field(place), places, &mut |_| {})?;
        }
        self.rows.extend(good.iter().map(|row| batch.records[*row].row));
        for row in (0..count).filter(|row| misfits[*row] != FITS) {
            let record = batch.records[row];
            let text = lossless(&data[record.start..record.end]);
            let (column, reason) = match misfits[row] {
                NO_OBJECT => (None, "not a JSON object".to_owned()),
                found => {
                    let node = at[found as usize][row];
                    let raw = (node != NONE).then(|| batch.tape[node as usize].raw(data));
                    let raw = raw.filter(|raw| *raw != b"null");
                    (Some(found as usize), misfit(raw, self.schema.field(found as usize)))
                }
            };
            self.rejects.push(Reject { row: record.row, line: record.line, column, reason, text });
        }
        self.rejects.sort_by_key(|reject| reject.row);
        Ok(())
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

const NO_OBJECT: u32 = u32::MAX - 1;

/// Find the value of each column in each record; the last of equal names counts.
fn find(values: &Values<'_>, names: &HashMap<Vec<u8>, usize>, batch: &Batch, at: &mut [Vec<u32>], misfits: &mut [u32]) {
    // Records of a file mostly have the same names in the same order, so that the place of a name in the record before
    // is tried first.
    let mut order: Vec<(u32, Option<usize>)> = Vec::new();
    let mut made = Vec::new();
    let mut other = Vec::new();
    for (row, record) in batch.records.iter().enumerate() {
        if batch.tape[record.node as usize].kind != Kind::Object {
            misfits[row] = NO_OBJECT;
            continue;
        }
        for (number, (key, value)) in values.pairs(record.node).enumerate() {
            let name = values.key(key, &mut made);
            let known =
                order.get(number).filter(|(before, _)| values.key(*before, &mut other) == name).map(|one| one.1);
            let column = known.unwrap_or_else(|| names.get(name).copied());
            if known.is_none() {
                order.resize(order.len().max(number + 1), (key, column));
                order[number] = (key, column);
            }
            if let Some(column) = column {
                at[column][row] = value;
            }
        }
    }
}

impl Part {
    fn append(
        &mut self,
        values: &Values<'_>,
        field: &Field,
        places: Places<'_>,
        misfit: &mut dyn FnMut(usize),
    ) -> Result<()> {
        match self {
            Self::Flat(column) => values.append(column, field, places, misfit),
            Self::Nested(arrays) => arrays.push(values.array(field, places, misfit)?),
        }
        Ok(())
    }

    /// Forget what the last batch appended. `length` is the number of rows before it.
    fn take_back(&mut self, length: usize) {
        match self {
            Self::Flat(column) => column.truncate(length),
            Self::Nested(arrays) => drop(arrays.pop()),
        }
    }

    fn finish(&mut self, field: &Field) -> Result<ArrayRef> {
        match self {
            Self::Flat(column) => column.finish(),
            Self::Nested(arrays) => {
                let arrays = std::mem::take(arrays);
                if let [one] = &arrays[..] {
                    return Ok(Arc::clone(one));
                }
                if arrays.is_empty() {
                    return Ok(arrow_array::new_empty_array(field.data_type()));
                }
                let parts: Vec<&dyn arrow_array::Array> = arrays.iter().map(AsRef::as_ref).collect();
                concat(&parts).map_err(internal)
            }
        }
    }
}

fn no_json(stop: Option<&Stop>, start: usize, end: usize) -> String {
    let (place, why) = match stop {
        Some(Stop::Invalid(place, why)) => (*place, *why),
        _ => (end, "the line ends within a value; values over several lines need multiLine=True"),
    };
    format!("not a JSON object: byte {}: {why}", place - start + 1)
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
