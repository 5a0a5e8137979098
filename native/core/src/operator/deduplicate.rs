//! The first row of each key (`dropDuplicates`): what comes later under a key vanishes until the key is forgotten.
//!
//! State of a key is a row without values; when it is forgotten is its deadline. INVARIANT: of a key's rows in a pass
//! the first in plan order counts; a key is forgotten after the rows of the pass, as in Spark.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow_buffer::BooleanBuffer;
use arrow_schema::{Fields, Schema, SchemaRef};
use arrow_select::filter::filter_record_batch;
use arrow_select::interleave::interleave;

use super::columns::{InputColumn, chunk_keys, keys_of, map_of, only_map};
use super::event_time::{event_time_column, expiry_ms, without_late};
use super::{Combine, Groups, Metrics, Operator, Output, Pass, Prepared};
use crate::error::{Error, Result};
use crate::key::Keys;
use crate::map::{Changes, StateMap};
use crate::schema::MapSchema;

/// The name of the map: key → nothing.
const MAP: &str = "seen";

/// When a key is forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forget {
    /// Never.
    Never,
    /// When the watermark reaches the event time, which is a key column; a null there is never reached.
    AtEventTime,
    /// When the watermark reaches the event time of the key's first row plus so many ms; a null counts as the epoch.
    After(i64),
}

/// Deduplication as declared.
#[derive(Clone, Debug)]
pub struct DeduplicateSpec {
    /// The operator's name, for messages.
    pub name: String,
    /// Key columns.
    pub key: Vec<String>,
    /// The columns of its input, which are those of its output.
    pub input: SchemaRef,
    /// The event time column: rows at or before the watermark are late. `None`: no row is.
    pub event_time: Option<String>,
    /// When a key is forgotten; anything but `Never` needs an event time.
    pub forget: Forget,
}

/// Deduplication at work.
#[derive(Debug)]
pub struct DeduplicateOperator {
    name: String,
    sent: Vec<InputColumn>,
    key_columns: usize,
    /// For each output column its place among those sent.
    places: Vec<usize>,
    event_time: Option<usize>,
    forget: Forget,
    maps: [MapSchema; 1],
    prepared: SchemaRef,
    output: SchemaRef,
    metrics: Metrics,
}

impl DeduplicateOperator {
    /// The operator; `InvalidInput` for a column that is not there, and for an event time that is none.
    pub fn new(spec: DeduplicateSpec) -> Result<Self> {
        let event_time = needed_event_time(&spec)?;
        let key = InputColumn::find_all(&spec.name, &spec.input, &spec.key)?;
        let key_fields: Fields = key.iter().map(InputColumn::field).collect();
        let key_columns = key.len();
        let mut sent = key;
        for field in spec.input.fields() {
            if sent.iter().all(|column| column.name != *field.name()) {
                sent.push(InputColumn::find(&spec.name, &spec.input, field.name())?);
            }
        }
        let place = |name: &str| sent.iter().position(|column| column.name == name);
        let places: Vec<usize> = spec.input.fields().iter().filter_map(|field| place(field.name())).collect();
        let event_time = event_time.and_then(|column| place(&column.name));
        let prepared = Arc::new(Schema::new(sent.iter().map(InputColumn::field).collect::<Fields>()));
        let output = Arc::new(Schema::new(places.iter().map(|&at| sent[at].field()).collect::<Fields>()));
        let map = map_of(&spec.name, MAP, &key_fields, &Fields::empty())?;
        let (name, forget, metrics) = (spec.name, spec.forget, Metrics::default());
        Ok(Self { name, sent, key_columns, places, event_time, forget, maps: [map], prepared, output, metrics })
    }

    fn keys(&self, rows: &RecordBatch) -> Result<Keys> {
        keys_of(&rows.columns()[..self.key_columns], rows.num_rows())
    }

    /// Emits the first row of each key that is not known, and remembers those keys.
    fn pass_new(&self, chunks: &[RecordBatch], map: &mut StateMap, pass: &Pass, out: &mut Output) -> Result<u64> {
        let groups = Groups::new(&chunk_keys(&self.name, &self.prepared, self.key_columns, chunks)?)?;
        if groups.is_empty() {
            return Ok(0);
        }
        let known = map.get(&groups.keys)?.found;
        let firsts = firsts(&groups);
        #[expect(clippy::cast_possible_truncation, reason = "rows of a pass are numbered by u32")]
        let fresh: Vec<u32> = (0..groups.len()).filter(|&group| !known[group]).map(|group| group as u32).collect();
        if fresh.is_empty() {
            return Ok(0);
        }
        let picks: Vec<(usize, usize)> = fresh.iter().map(|&group| firsts[group as usize]).collect();
        let column = |at: usize| -> Result<ArrayRef> {
            let parts: Vec<&dyn Array> = chunks.iter().map(|chunk| chunk.column(at).as_ref()).collect();
            Ok(interleave(&parts, &picks)?)
        };
        let deadline = match self.event_time {
            None => vec![None; picks.len()],
            Some(at) => self.deadlines(column(at)?.as_ref())?,
        };
        let keys = groups.keys.take(&fresh)?;
        map.change(&Changes {
            keys: keys.columns().to_vec(),
            updated_at: vec![pass.batch_time_ms; picks.len()],
            deleted: vec![false; picks.len()],
            deadline,
            ..Changes::default()
        })?;
        let rows = self.places.iter().map(|&at| column(at)).collect::<Result<_>>()?;
        out.emit(keys, RecordBatch::try_new(self.output.clone(), rows)?)?;
        Ok(picks.len() as u64)
    }

    fn deadlines(&self, event_times: &dyn Array) -> Result<Vec<Option<i64>>> {
        match self.forget {
            Forget::Never => Ok(vec![None; event_times.len()]),
            Forget::AtEventTime => Ok(expiry_ms(event_times, 0)?.iter().collect()),
            Forget::After(delay_ms) => {
                Ok(expiry_ms(event_times, delay_ms)?.iter().map(|time_ms| time_ms.or(Some(delay_ms))).collect())
            }
        }
    }

    /// Forgets the keys that are due.
    fn forget_due(map: &mut StateMap, pass: &Pass) -> Result<u64> {
        let Some(now_ms) = pass.watermark_ms else { return Ok(0) };
        let due = map.due(now_ms)?;
        let rows = due.updated_at.len();
        map.change(&Changes::removed(due.keys, due.values, rows, pass.batch_time_ms))?;
        Ok(rows as u64)
    }
}

impl Operator for DeduplicateOperator {
    fn maps(&self) -> &[MapSchema] {
        &self.maps
    }

    fn output_schema(&self) -> SchemaRef {
        self.output.clone()
    }

    fn prepared_schema(&self) -> SchemaRef {
        self.prepared.clone()
    }

    /// Late rows are out; of the rows of a block the first of each key stays.
    fn prepare(&mut self, rows: &RecordBatch, pass: &Pass, combine: Combine) -> Result<Prepared> {
        let columns = InputColumn::all_of(&self.sent, &self.name, rows)?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        let sent = RecordBatch::try_new_with_options(self.prepared.clone(), columns, &options)?;
        let (mut kept, late) = without_late(sent, self.event_time, pass.late_ms)?;
        self.metrics.rows += kept.num_rows() as u64;
        if combine == Combine::Split {
            kept = filter_record_batch(&kept, &BooleanArray::new(first_of_each(&self.keys(&kept)?)?, None))?;
        }
        Ok(Prepared { rows: kept, late })
    }

    fn apply(&mut self, chunks: &[RecordBatch], maps: &mut [StateMap], pass: &Pass, out: &mut Output) -> Result<()> {
        let map = only_map(&self.name, maps)?;
        self.metrics.rows += chunks.iter().map(|chunk| chunk.num_rows() as u64).sum::<u64>();
        self.metrics.rows_updated += self.pass_new(chunks, map, pass, out)?;
        self.metrics.rows_removed += Self::forget_due(map, pass)?;
        Ok(())
    }

    fn metrics(&self) -> Metrics {
        self.metrics
    }
}

/// The event time column; `InvalidInput` where it is no time, or is missing and needed.
fn needed_event_time(spec: &DeduplicateSpec) -> Result<Option<InputColumn>> {
    let Some(name) = &spec.event_time else {
        if spec.forget == Forget::Never {
            return Ok(None);
        }
        return Err(Error::InvalidInput(format!(
            "operator `{}` forgets keys by event time, its input has no event time column\n\
             hint: call `.withWatermark(column, delay)` before",
            spec.name
        )));
    };
    event_time_column(&spec.name, &spec.input, name).map(Some)
}

/// Which rows are the first of their key.
fn first_of_each(keys: &Keys) -> Result<BooleanBuffer> {
    let groups = Groups::new(std::slice::from_ref(keys))?;
    let mut seen = vec![false; groups.len()];
    Ok(groups.of[0].iter().map(|&group| !std::mem::replace(&mut seen[group as usize], true)).collect())
}

/// (chunk, row) of the first row of each group.
fn firsts(groups: &Groups) -> Vec<(usize, usize)> {
    let mut firsts = vec![None; groups.len()];
    for (chunk, numbers) in groups.of.iter().enumerate() {
        for (row, &group) in numbers.iter().enumerate() {
            firsts[group as usize].get_or_insert((chunk, row));
        }
    }
    firsts.into_iter().flatten().collect()
}
