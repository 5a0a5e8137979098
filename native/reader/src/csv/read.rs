//! Rows of a CSV file in the columns of a schema, block by block.
//!
//! Records are split in small batches, which stay in the processor's cache, and converted column by column.
//! INVARIANT: every record is a row or a reject and has a number; blank lines and comments are neither and have none.

use std::io::Read;
use std::sync::Arc;

use arrow_array::{Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};

use super::dialect::Dialect;
use super::header::{Matching, Places, safe};
use super::split::{Fields, Found, Splitter, Step};
use crate::block::{Block, Limits};
use crate::error::{Reject, Result, Unreadable};
use crate::shown::{lossless, misfit};
use crate::text::bytes::{Buffer, Form};
use crate::text::column::{Column, Texts, internal};
use crate::time::Times;

/// How many records are split before they are converted.
const BATCH_RECORDS: usize = 1024;
const FITS: u32 = u32::MAX;

/// How a CSV file is read.
#[derive(Clone)]
pub struct CsvOptions {
    /// Separators and quotes.
    pub dialect: Dialect,
    /// How columns are found.
    pub matching: Matching,
    /// The encoding, and how much is read at once.
    pub form: Form,
    /// When a block is complete.
    pub limits: Limits,
    /// How dates and times are written.
    pub times: Times,
}

/// A CSV file that is being read.
pub struct CsvReader {
    buffer: Buffer,
    splitter: Splitter,
    matching: Matching,
    limits: Limits,
    times: Times,
    charset: &'static str,
    schema: SchemaRef,
    places: Places,
    header: Option<String>,
    columns: Vec<Column>,
    rows: Vec<i64>,
    rejects: Vec<Reject>,
    /// The memory of the last batch.
    spare: Batch,
    next_row: i64,
    line: u64,
    block_bytes: usize,
    is_done: bool,
}

impl CsvReader {
    /// Open a file and read its header, if it has one. `schema` are the columns of the rows, none of them nested.
    pub fn open(file: Box<dyn Read + Send>, schema: &Schema, options: CsvOptions) -> Result<Self> {
        let columns = schema.fields().iter().map(|field| Column::new(field)).collect::<Result<_>>()?;
        let mut fields: Vec<Arc<Field>> = schema.fields().iter().cloned().collect();
        fields.push(Arc::new(Field::new("_row", DataType::Int64, true)));
        let mut reader = Self {
            buffer: Buffer::open(file, options.form)?,
            splitter: Splitter::new(options.dialect),
            matching: options.matching,
            limits: options.limits,
            times: options.times,
            charset: options.form.charset.name(),
            schema: Arc::new(Schema::new(fields)),
            places: Places::in_order(schema),
            header: None,
            columns,
            rows: Vec::new(),
            rejects: Vec::new(),
            spare: Batch::default(),
            next_row: 0,
            line: 1,
            block_bytes: 0,
            is_done: false,
        };
        if reader.matching != Matching::NoHeader {
            reader.read_header(schema)?;
        }
        Ok(reader)
    }

    /// The header as it is in the file, unless it names the columns of the schema in order.
    #[must_use]
    pub fn header(&self) -> Option<&str> {
        self.header.as_deref()
    }

    /// Return the next block, or `None` at the end of the file. After an error there are no more blocks.
    pub fn next_block(&mut self) -> Result<Option<Block>> {
        while !self.is_done && self.room() > 0 {
            let read = self.read_batch();
            if let Err(error) = read {
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
        let mut arrays = self.columns.iter_mut().map(Column::finish).collect::<Result<Vec<_>>>()?;
        arrays.push(Arc::new(Int64Array::from(std::mem::take(&mut self.rows))));
        let rows = RecordBatch::try_new(Arc::clone(&self.schema), arrays).map_err(internal)?;
        Ok(Some(Block { rows, rejects: std::mem::take(&mut self.rejects) }))
    }

    /// Return the names of the columns of a file, as Spark makes them: those of its header, or `_c0`, `_c1` and so on.
    pub fn names(file: Box<dyn Read + Send>, options: CsvOptions) -> Result<Vec<String>> {
        let has_header = options.matching != Matching::NoHeader;
        let mut reader = Self::open(file, &Schema::empty(), CsvOptions { matching: Matching::NoHeader, ..options })?;
        let mut fields = Fields::default();
        if reader.first_record(&mut fields)?.is_none() {
            return Ok(Vec::new());
        }
        let data = reader.buffer.bytes();
        let null = &reader.splitter.dialect.null_value;
        let name = |text: &[u8]| (has_header && text != null.as_slice()).then(|| lossless(text));
        let names: Vec<_> = fields.spans.iter().map(|span| name(span.text(data, &fields.side))).collect();
        Ok(safe(&names))
    }

    fn room(&self) -> usize {
        self.limits.room(self.rows.len(), self.rejects.len(), self.block_bytes)
    }

    fn read_header(&mut self, schema: &Schema) -> Result<()> {
        let mut fields = Fields::default();
        let Some((found, at)) = self.first_record(&mut fields)? else { return Ok(()) };
        let data = self.buffer.bytes();
        let text = &data[at..found.end];
        if found.is_open {
            return Err(unclosed(self.line).into());
        }
        if std::str::from_utf8(text).is_err() {
            let reason = format!("the header is not {}", self.charset);
            return Err(Unreadable { line: Some(self.line), reason, hint: Some(ENCODING.into()) }.into());
        }
        if let Matching::Name(by) = &self.matching {
            let null = &self.splitter.dialect.null_value;
            let name = |text: &[u8]| (text != null.as_slice()).then(|| lossless(text));
            let names: Vec<_> = fields.spans.iter().map(|span| name(span.text(data, &fields.side))).collect();
            self.places = Places::named(&names, schema, by, self.line)?;
            self.header = (!self.places.are_in_order()).then(|| lossless(text));
        }
        self.line += found.lines;
        self.buffer.consume(found.next);
        Ok(())
    }

    /// Find the first record and where it begins. Lines before it are counted.
    fn first_record(&mut self, fields: &mut Fields) -> Result<Option<(Found, usize)>> {
        let mut at = 0;
        loop {
            fields.spans.clear();
            fields.side.clear();
            match self.splitter.next(self.buffer.bytes(), at, self.buffer.is_last(), fields) {
                Step::Record(found) => {
                    self.check_length(found.end - at)?;
                    return Ok(Some((found, at)));
                }
                Step::Blank { next } => {
                    self.check_length(next - at)?;
                    at = next;
                    self.line += 1;
                }
                Step::End => return Ok(None),
                Step::More => {
                    self.buffer.consume(at);
                    at = 0;
                    self.more()?;
                }
            }
        }
    }

    /// Read more bytes of a record, unless it is too long already. What ends the record is not counted, so that its
    /// length alone decides.
    fn more(&mut self) -> Result<()> {
        let dialect = &self.splitter.dialect;
        let end = dialect.line_end.as_ref().map_or(2, Vec::len).max(dialect.separator.len());
        self.check_length(self.buffer.bytes().len().saturating_sub(end))?;
        self.buffer.more()
    }

    fn check_length(&self, bytes: usize) -> Result<()> {
        if bytes <= self.limits.record_bytes {
            return Ok(());
        }
        let reason = format!(
            "the record on line {} has more than {} bytes: a line end or a closing quote is missing",
            self.line, self.limits.record_bytes
        );
        let hint = "if the record is right, raise maxRecordBytes".to_owned();
        Err(Unreadable { line: Some(self.line), reason, hint: Some(hint) }.into())
    }

    /// Refuse a record whose last quote is not closed, if it has several lines: they would be one reject.
    fn check_open(&self, text: &[u8]) -> Result<()> {
        let end = text.iter().rposition(|byte| !matches!(byte, b'\n' | b'\r')).map_or(0, |last| last + 1);
        if memchr::memchr2(b'\n', b'\r', &text[..end]).is_none() {
            return Ok(());
        }
        let reason = format!(
            "a quote of the record on line {} is not closed, so that the rest of the file would be one value",
            self.line
        );
        let hint = "correct the record; if quotes mean nothing in this file, declare quote=\"\"".to_owned();
        Err(Unreadable { line: Some(self.line), reason, hint: Some(hint) }.into())
    }

    /// Split and convert some records; at most as many as the block has room for.
    fn read_batch(&mut self) -> Result<()> {
        let mut batch = std::mem::take(&mut self.spare);
        batch.fields.spans.clear();
        batch.fields.side.clear();
        batch.records.clear();
        let (consumed, needs_more) = self.split(&mut batch)?;
        self.convert(&batch);
        self.spare = batch;
        self.buffer.consume(consumed);
        if needs_more { self.more() } else { Ok(()) }
    }

    /// Fill `batch` with records of the right width. Return where the next record begins, and whether it needs more
    /// bytes.
    fn split(&mut self, batch: &mut Batch) -> Result<(usize, bool)> {
        let (room, rejects) = (self.room().min(BATCH_RECORDS), self.rejects.len());
        let (data, is_last) = (self.buffer.bytes(), self.buffer.is_last());
        let mut at = 0;
        while batch.records.len() + self.rejects.len() - rejects < room && self.block_bytes < self.limits.block_bytes {
            let (spans, side) = (batch.fields.spans.len(), batch.fields.side.len());
            match self.splitter.next(data, at, is_last, &mut batch.fields) {
                Step::Record(found) => {
                    let record = Record { start: at, end: found.end, line: self.line, row: self.next_row };
                    let width = batch.fields.spans.len() - spans;
                    self.check_length(found.end - at)?;
                    if found.is_open {
                        self.check_open(&data[at..found.end])?;
                    }
                    if width == self.places.width && !found.is_open {
                        batch.records.push(record);
                    } else {
                        batch.fields.spans.truncate(spans);
                        batch.fields.side.truncate(side);
                        let reason = match record.is_utf8(data) {
                            true => wrong(width, self.places.width, found.is_open),
                            false => format!("not {}", self.charset),
                        };
                        self.rejects.push(record.reject(data, None, reason));
                    }
                    self.next_row += 1;
                    self.line += found.lines;
                    self.block_bytes += found.next - at;
                    at = found.next;
                }
                Step::Blank { next } => {
                    self.check_length(next - at)?;
                    self.line += 1;
                    at = next;
                }
                Step::More => {
                    batch.fields.spans.truncate(spans);
                    batch.fields.side.truncate(side);
                    return Ok((at, true));
                }
                Step::End => {
                    self.is_done = true;
                    break;
                }
            }
        }
        Ok((at, false))
    }

    /// Append the records of a batch to the columns, and those that do not fit to the rejects.
    fn convert(&mut self, batch: &Batch) {
        let count = batch.records.len();
        if count == 0 {
            return;
        }
        let data = self.buffer.bytes();
        let cells = |column: usize| Cells {
            batch,
            data,
            dialect: &self.splitter.dialect,
            width: self.places.width,
            place: self.places.places[column],
        };
        let whole = &data[batch.records[0].start..batch.records[count - 1].end];
        let is_utf8 = std::str::from_utf8(whole).is_ok();
        let before = self.rows.len();
        let mut misfits: Vec<u32> = Vec::new();
        if !is_utf8 {
            misfits = batch.records.iter().map(|record| if record.is_utf8(data) { FITS } else { NOT_TEXT }).collect();
        }
        for (place, column) in self.columns.iter_mut().enumerate() {
            column.append(&cells(place), &self.times, |row| {
                misfits.resize(count, FITS);
                #[expect(clippy::cast_possible_truncation, reason = "a schema has fewer columns")]
                let found = place as u32;
                misfits[row] = misfits[row].min(found);
            });
        }
        if misfits.iter().all(|found| *found == FITS) {
            self.rows.extend(batch.records.iter().map(|record| record.row));
            return;
        }
        let good: Vec<usize> = (0..count).filter(|row| misfits[*row] == FITS).collect();
        for (place, column) in self.columns.iter_mut().enumerate() {
            column.truncate(before);
            column.append(&Chosen { cells: cells(place), rows: &good }, &self.times, |_| {});
        }
        self.rows.extend(good.iter().map(|row| batch.records[*row].row));
        for row in (0..count).filter(|row| misfits[*row] != FITS) {
            let record = batch.records[row];
            if !record.is_utf8(data) {
                self.rejects.push(record.reject(data, None, format!("not {}", self.charset)));
                continue;
            }
            let column = misfits[row] as usize;
            let reason = misfit(cells(column).text(row), self.schema.field(column));
            self.rejects.push(record.reject(data, Some(column), reason));
        }
        self.rejects.sort_by_key(|reject| reject.row);
    }
}

const ENCODING: &str = "declare the encoding of the file, for example encoding=\"windows-1252\"";
const NOT_TEXT: u32 = u32::MAX - 1;

fn unclosed(line: u64) -> Unreadable {
    Unreadable { line: Some(line), reason: "a quote of the header is not closed".into(), hint: None }
}

fn wrong(found: usize, expected: usize, is_open: bool) -> String {
    if is_open {
        return "a quote is not closed".into();
    }
    let what = if found < expected { "too few columns" } else { "too many columns" };
    format!("{what}: found {found}, expected {expected}")
}

/// Records that are split and not converted yet.
#[derive(Default)]
struct Batch {
    fields: Fields,
    records: Vec<Record>,
}

#[derive(Clone, Copy)]
struct Record {
    start: usize,
    end: usize,
    line: u64,
    row: i64,
}

impl Record {
    fn is_utf8(self, data: &[u8]) -> bool {
        std::str::from_utf8(&data[self.start..self.end]).is_ok()
    }

    fn reject(self, data: &[u8], column: Option<usize>, reason: String) -> Reject {
        Reject { row: self.row, line: self.line, column, reason, text: lossless(&data[self.start..self.end]) }
    }
}

/// One column of a batch.
struct Cells<'a> {
    batch: &'a Batch,
    data: &'a [u8],
    dialect: &'a Dialect,
    width: usize,
    place: Option<usize>,
}

impl Texts for Cells<'_> {
    fn len(&self) -> usize {
        self.batch.records.len()
    }

    #[inline]
    fn text(&self, row: usize) -> Option<&[u8]> {
        let span = self.batch.fields.spans[row * self.width + self.place?];
        let mut text = span.text(self.data, &self.batch.fields.side);
        if text.is_empty() {
            if !span.is_quoted() {
                return None;
            }
            text = &self.dialect.empty_value;
        }
        (text != self.dialect.null_value.as_slice()).then_some(text)
    }
}

/// Some rows of a column.
struct Chosen<'a> {
    cells: Cells<'a>,
    rows: &'a [usize],
}

impl Texts for Chosen<'_> {
    fn len(&self) -> usize {
        self.rows.len()
    }

    fn text(&self, row: usize) -> Option<&[u8]> {
        self.cells.text(self.rows[row])
    }
}
