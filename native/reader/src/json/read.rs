//! Rows of a file of JSON in the columns of a schema, block by block.
//!
//! INVARIANT: every record is a row or a reject.

use std::collections::HashMap;
use std::io::Read;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use arrow_select::concat::concat;

use super::convert::{NONE, Places, Values};
use super::options::JsonOptions;
use super::records::{Batch, Filled, Records};
use super::shape::Shape;
use super::tape::Kind;
use crate::block::Block;
use crate::error::{Reject, Result};
use crate::shown::misfit;
use crate::text::column::{Column, internal};

const FITS: u32 = u32::MAX;
const NO_OBJECT: u32 = u32::MAX - 1;

/// A file of JSON that is being read.
pub struct JsonReader {
    records: Records,
    schema: SchemaRef,
    places: HashMap<Vec<u8>, usize>,
    columns: Vec<Part>,
    rows: Vec<i64>,
    rejects: Vec<Reject>,
    /// The memory of the last batch.
    spare: Batch,
    block_bytes: usize,
    has_failed: bool,
}

/// A column of a block that is not complete yet.
enum Part {
    Flat(Column),
    Nested(Vec<ArrayRef>),
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
            records: Records::open(file, options)?,
            schema: Arc::new(Schema::new(fields)),
            places,
            columns,
            rows: Vec::new(),
            rejects: Vec::new(),
            spare: Batch::default(),
            block_bytes: 0,
            has_failed: false,
        })
    }

    /// Return the next block, or `None` at the end of the file. After an error there are no more blocks.
    pub fn next_block(&mut self) -> Result<Option<Block>> {
        while self.goes_on(self.rows.len()) {
            if let Err(error) = self.read_batch() {
                self.has_failed = true;
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
        while self.goes_on(count) {
            count += self.look_at_batch(&mut shape, count).inspect_err(|_| self.has_failed = true)?;
        }
        self.block_bytes = 0;
        let rejects = std::mem::take(&mut self.rejects);
        Ok((count > 0 || !rejects.is_empty()).then_some((shape, count, rejects)))
    }

    /// Whether a block with so many rows is not complete, and there may be more.
    fn goes_on(&self, rows: usize) -> bool {
        let limits = self.records.options().limits;
        !self.has_failed && !self.records.is_done() && limits.room(rows, self.rejects.len(), self.block_bytes) > 0
    }

    fn look_at_batch(&mut self, shape: &mut Shape, rows: usize) -> Result<usize> {
        let batch = self.parse_batch(rows)?;
        let values = self.values(&batch);
        let mut count = 0;
        let mut others = Vec::new();
        for record in &batch.records {
            if batch.tape[record.node as usize].kind == Kind::Object {
                shape.add(&values, record.node, 0);
                count += 1;
            } else {
                others.push(record.reject(values.data, None, no_object()));
            }
        }
        self.rejects.append(&mut others);
        self.rejects.sort_by_key(|reject| reject.row);
        self.spare = batch;
        self.records.advance()?;
        Ok(count)
    }

    fn read_batch(&mut self) -> Result<()> {
        let batch = self.parse_batch(self.rows.len())?;
        self.convert(&batch)?;
        self.spare = batch;
        self.records.advance()
    }

    /// Parse some records of a block that has so many rows.
    fn parse_batch(&mut self, rows: usize) -> Result<Batch> {
        let mut batch = std::mem::take(&mut self.spare);
        self.records.parse(&mut batch, Filled { rows, rejects: self.rejects.len(), bytes: self.block_bytes })?;
        self.rejects.append(&mut batch.rejects);
        self.block_bytes += batch.bytes;
        Ok(batch)
    }

    fn values<'a>(&'a self, batch: &'a Batch) -> Values<'a> {
        let options = self.records.options();
        let non_numeric = options.allow.non_numeric;
        Values { data: self.records.data(), tape: &batch.tape, times: &options.times, non_numeric }
    }

    /// Append the records of a batch to the columns, and those that do not fit to the rejects.
    fn convert(&mut self, batch: &Batch) -> Result<()> {
        let count = batch.records.len();
        if count == 0 {
            return Ok(());
        }
        let before = self.rows.len();
        let options = self.records.options();
        let (data, non_numeric) = (self.records.data(), options.allow.non_numeric);
        let values = Values { data, tape: &batch.tape, times: &options.times, non_numeric };
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
            let (column, reason) = match misfits[row] {
                NO_OBJECT => (None, no_object()),
                found => {
                    let node = at[found as usize][row];
                    let raw = (node != NONE).then(|| batch.tape[node as usize].raw(data));
                    let raw = raw.filter(|raw| *raw != b"null");
                    (Some(found as usize), misfit(raw, self.schema.field(found as usize)))
                }
            };
            self.rejects.push(batch.records[row].reject(data, column, reason));
        }
        self.rejects.sort_by_key(|reject| reject.row);
        Ok(())
    }
}

fn no_object() -> String {
    "not a JSON object".to_owned()
}

/// Find the value of each column in each record; the last of equal names counts.
fn find(values: &Values<'_>, names: &HashMap<Vec<u8>, usize>, batch: &Batch, at: &mut [Vec<u32>], misfits: &mut [u32]) {
    // Records of a file mostly have the same names in the same order, so that the name at this place of the record
    // before is compared first.
    let mut order: Vec<Option<(&[u8], Option<usize>)>> = Vec::new();
    let mut made = Vec::new();
    for (row, record) in batch.records.iter().enumerate() {
        if batch.tape[record.node as usize].kind != Kind::Object {
            misfits[row] = NO_OBJECT;
            continue;
        }
        for (number, (key, value)) in values.pairs(record.node).enumerate() {
            let node = batch.tape[key as usize];
            let written = node.text(values.data);
            let column = match order.get(number) {
                Some(Some((before, column))) if is_same(before, written) => *column,
                _ if node.kind == Kind::Escaped => names.get(values.key(key, &mut made)).copied(),
                _ => {
                    let column = names.get(written).copied();
                    order.resize(order.len().max(number + 1), None);
                    order[number] = Some((written, column));
                    column
                }
            };
            if let Some(column) = column {
                at[column][row] = value;
            }
        }
    }
}

/// Whether two names are equal. They are short, so that a call of `memcmp` would cost more than to compare them here.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.iter().zip(other).all(|(one, other)| one == other)
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
