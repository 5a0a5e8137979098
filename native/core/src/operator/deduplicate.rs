//! The first row of each key (`dropDuplicates`). Later rows of the key are dropped until the key is forgotten.
//!
//! The state of a key is a row without values; its deadline is when the key is forgotten. INVARIANT: among a key's rows
//! in a pass, the first in plan order wins; keys are forgotten after the rows of the pass, as in Spark.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch};
use arrow_buffer::BooleanBuffer;
use arrow_schema::{Fields, SchemaRef};
use arrow_select::filter::filter_record_batch;

use super::columns::{InputColumn, chunk_keys, keys_of, map_of, only_map};
use super::event_time::expiry_ms;
use super::exchange::{ExchangeColumns, column_names, needed_event_time};
use super::{Chunks, Combine, Groups, LateRows, Metrics, Operator, Origin, Output, Pass, Prepared, RowAt, Signature};
use crate::error::Result;
use crate::gather::{Pick, gather};
use crate::key::Keys;
use crate::map::StateMap;

/// The name of the map: key → nothing.
const MAP: &str = "seen";

/// When a key is forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forget {
    /// Never.
    Never,
    /// When the watermark reaches the event time, which is a key column. A key with a null there is never forgotten.
    AtEventTime,
    /// When the watermark reaches the event time of the key's first row plus this many ms. A null counts as the epoch.
    After(i64),
}

/// The declaration of a deduplication.
#[derive(Clone, Debug)]
pub struct DeduplicateSpec {
    /// The operator's name, for messages.
    pub name: String,
    /// Key columns.
    pub key: Vec<String>,
    /// The columns of its input and of its output.
    pub input: SchemaRef,
    /// The event time column: rows at or before the watermark are late. `None`: no row is late.
    pub event_time: Option<String>,
    /// When a key is forgotten; anything but `Never` needs an event time.
    pub forget: Forget,
}

impl DeduplicateSpec {
    /// Return the event time column; `InvalidInput` if it is not a time, or is needed and missing.
    fn event_time_column(&self) -> Result<Option<InputColumn>> {
        match &self.event_time {
            None if self.forget == Forget::Never => Ok(None),
            name => needed_event_time(&self.name, &self.input, name.as_deref(), "forgets keys by").map(Some),
        }
    }
}

/// A deduplication in operation.
#[derive(Debug)]
pub struct DeduplicateOperator {
    signature: Signature,
    exchange: ExchangeColumns,
    key_columns: usize,
    /// For each output column, its place among the exchanged columns.
    places: Vec<usize>,
    forget: Forget,
    metrics: Metrics,
}

impl DeduplicateOperator {
    /// Create the operator; `InvalidInput` for a missing column, or for an event time that is not a time.
    pub fn new(spec: DeduplicateSpec) -> Result<Self> {
        let (event_time, all) = (spec.event_time_column()?, column_names(&spec.input));
        let key = InputColumn::find_all(&spec.name, &spec.input, &spec.key)?;
        let key_fields: Fields = key.iter().map(InputColumn::field).collect();
        let exchange =
            ExchangeColumns::new(&spec.name, &spec.input, (&spec.key, &all), event_time.as_ref(), LateRows::TakeOut)?;
        let places =
            all.iter().map(|name| exchange.schema.index_of(name)).collect::<std::result::Result<Vec<_>, _>>()?;
        let output = Arc::new(exchange.schema.project(&places)?);
        let map = map_of(&spec.name, MAP, &key_fields, &Fields::empty())?;
        let signature = Signature { name: spec.name, maps: vec![map], prepared: exchange.schema.clone(), output };
        let (forget, key_columns, metrics) = (spec.forget, key.len(), Metrics::default());
        Ok(Self { signature, exchange, key_columns, places, forget, metrics })
    }

    fn keys(&self, rows: &RecordBatch) -> Result<Keys> {
        keys_of(&rows.columns()[..self.key_columns], rows.num_rows())
    }

    /// Emit the first row of each new key, and store these keys.
    fn pass_new(&self, chunks: &[RecordBatch], map: &mut StateMap, pass: &Pass, out: &mut Output) -> Result<u64> {
        let groups = Groups::new(&chunk_keys(&self.signature, chunks)?)?;
        if groups.is_empty() {
            return Ok(0);
        }
        let known = map.get(&groups.keys)?.found;
        #[expect(clippy::cast_possible_truncation, reason = "rows of a pass are numbered by u32")]
        let fresh: Vec<u32> = (0..groups.len()).filter(|&group| !known[group]).map(|group| group as u32).collect();
        if fresh.is_empty() {
            return Ok(0);
        }
        let mut firsts = firsts(&groups, &fresh);
        let deadline = match self.exchange.event_time {
            None => vec![None; firsts.len()],
            Some(at) => self.deadlines(of_chunks(chunks, at, &firsts)?.as_ref())?,
        };
        let keys = groups.keys.take(&fresh)?;
        map.put(keys.clone(), Vec::new(), pass.batch_time_ms, deadline)?;
        let by = if out.prefers_plan_order() {
            put_in_plan_order(chunks, &mut firsts)
        } else {
            (0u32..).take(firsts.len()).collect()
        };
        let column = |&at: &usize| of_chunks(chunks, at, &firsts);
        let rows = self.places.iter().map(column).collect::<Result<_>>()?;
        out.emit_by(&keys, by, RecordBatch::try_new(self.signature.output.clone(), rows)?, |_| {
            Origin::Rows(firsts.iter().map(|pick| RowAt { chunk: pick.source, row: pick.row }).collect())
        })?;
        Ok(fresh.len() as u64)
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
}

impl Operator for DeduplicateOperator {
    fn signature(&self) -> &Signature {
        &self.signature
    }

    /// Remove late rows. If rows may be combined, keep only the first row of each key of a block.
    fn prepare(&mut self, rows: &RecordBatch, pass: &Pass, combine: Combine) -> Result<Prepared> {
        let mut prepared = self.exchange.prepare(&self.signature.name, rows, pass)?;
        self.metrics.rows += prepared.rows.num_rows() as u64;
        if combine == Combine::Split {
            let firsts = first_of_each(&self.keys(&prepared.rows)?)?;
            prepared.rows = filter_record_batch(&prepared.rows, &BooleanArray::new(firsts, None))?;
        }
        Ok(prepared)
    }

    fn apply(&mut self, chunks: &Chunks<'_>, maps: &mut [StateMap], pass: &Pass, out: &mut Output) -> Result<()> {
        let map = only_map(&self.signature, maps)?;
        self.metrics.rows += chunks.iter().map(|chunk| chunk.num_rows() as u64).sum::<u64>();
        self.metrics.rows_updated += self.pass_new(chunks, map, pass, out)?;
        if let Some(now_ms) = pass.watermark_ms {
            self.metrics.rows_removed += map.take_due(now_ms, pass.batch_time_ms)?.len() as u64;
        }
        Ok(())
    }

    fn metrics(&self) -> Metrics {
        self.metrics
    }
}

/// Collect the cells of a column at some rows of the chunks.
fn of_chunks(chunks: &[RecordBatch], column: usize, picks: &[Pick]) -> Result<ArrayRef> {
    let parts: Vec<&dyn Array> = chunks.iter().map(|chunk| chunk.column(column).as_ref()).collect();
    gather(parts[0].data_type(), &parts, picks)
}

/// Return which rows are the first of their key.
fn first_of_each(keys: &Keys) -> Result<BooleanBuffer> {
    let groups = Groups::new(std::slice::from_ref(keys))?;
    let mut seen = vec![false; groups.len()];
    Ok(groups.numbers()[0].iter().map(|&group| !std::mem::replace(&mut seen[group as usize], true)).collect())
}

/// Return the first row of some groups.
fn firsts(groups: &Groups, some: &[u32]) -> Vec<Pick> {
    let (rows, ends) = groups.rows();
    let first = |&group: &u32| rows[group.checked_sub(1).map_or(0, |before| ends[before as usize])];
    some.iter().map(first).map(|at| Pick { source: at.chunk, row: at.row }).collect()
}

/// Put distinct rows of the chunks into the order of the chunks. Return the place that each had before. Rows are marked
/// in a list of all rows, which takes less time than sorting them.
fn put_in_plan_order(chunks: &[RecordBatch], picks: &mut Vec<Pick>) -> Vec<u32> {
    const NONE: u32 = u32::MAX;
    let mut marks: Vec<Vec<u32>> = chunks.iter().map(|chunk| vec![NONE; chunk.num_rows()]).collect();
    for (place, pick) in (0u32..).zip(picks.iter()) {
        marks[pick.source()][pick.row()] = place;
    }
    let mut places = Vec::with_capacity(picks.len());
    picks.clear();
    for (source, marks) in (0u32..).zip(&marks) {
        for (row, &place) in (0u32..).zip(marks).filter(|(_, place)| **place != NONE) {
            picks.push(Pick { source, row });
            places.push(place);
        }
    }
    places
}

#[cfg(test)]
mod tests {
    use arrow_array::Int64Array;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn marked_rows_come_in_the_order_of_sorted_ones(
            picked in prop::collection::vec(prop::collection::vec(any::<bool>(), 0..20), 0..5),
            shift in 0u32..11,
        ) {
            let chunk = |rows: usize| {
                let column: ArrayRef = Arc::new(Int64Array::from(vec![0; rows]));
                RecordBatch::try_from_iter([("c", column)]).unwrap()
            };
            let chunks: Vec<RecordBatch> = picked.iter().map(|rows| chunk(rows.len())).collect();
            let mut picks: Vec<Pick> = Vec::new();
            for (source, rows) in picked.iter().enumerate() {
                picks.extend((0..rows.len()).filter(|&row| rows[row]).map(|row| Pick::new(source, row)));
            }
            let sorted = picks.clone();
            picks.sort_by_key(|pick| (pick.row * 7 + pick.source * 3 + shift) % 11);
            let given = picks.clone();
            let places = put_in_plan_order(&chunks, &mut picks);
            prop_assert_eq!(&picks, &sorted);
            let at: Vec<Pick> = places.iter().map(|&place| given[place as usize]).collect();
            prop_assert_eq!(at, sorted);
        }
    }
}
