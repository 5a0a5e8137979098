//! A function called for every row with the state of its key, and once more when the key times out (`mapWithState`).
//!
//! Here: which rows are late, rows by key, what becomes of a key's state and deadline, what is due. The function itself
//! stands behind `KeyedFunction`. INVARIANT: keys are visited in (hash, bytes) order, rows of a key in chunk order, then
//! row order; a key that got rows in a pass does not time out in it.

mod initial;
mod settle;
mod spec;
mod visit;

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow_schema::{Fields, Schema, SchemaRef};
use arrow_select::take::take;

pub(super) use spec::is_hidden;
pub use spec::{KeyedFunctionSpec, LateRows, Timeout};
pub use visit::{Fate, KeyedFunction, Returned, Visit};

use super::columns::{InputColumn, chunk_keys, keys_of, map_of, only_map};
use super::event_time::{event_times_ms, without_late};
use super::{Combine, Groups, Metrics, Operator, Output, Pass, PassKind, Prepared};
use crate::error::{Error, Result};
use crate::key::Keys;
use crate::map::{Changes, Rows, StateMap};
use crate::schema::MapSchema;
use settle::Settled;

/// The name of the map: key → state.
const MAP: &str = "state";

/// A keyed function at work.
#[derive(Debug)]
pub struct KeyedFunctionOperator<F> {
    name: String,
    function: F,
    key: Vec<InputColumn>,
    sent: Vec<InputColumn>,
    event_time: Option<usize>,
    timeout: Timeout,
    late: LateRows,
    maps: [MapSchema; 1],
    prepared: SchemaRef,
    output: SchemaRef,
    metrics: Metrics,
}

impl<F: KeyedFunction> KeyedFunctionOperator<F> {
    /// The operator; `InvalidInput` for a column that is not there and for an event timeout without an event time.
    pub fn new(spec: KeyedFunctionSpec, function: F) -> Result<Self> {
        let key = InputColumn::find_all(&spec.name, &spec.input, &spec.key)?;
        let key_fields: Fields = key.iter().map(InputColumn::field).collect();
        let sent = spec.sent_columns()?;
        let event_time = spec.event_time_column()?;
        let event_time = event_time.and_then(|column| sent.iter().position(|other| other.name == column.name));
        let prepared = Arc::new(Schema::new(sent.iter().map(InputColumn::field).collect::<Fields>()));
        let map = map_of(&spec.name, MAP, &key_fields, &spec.state)?;
        Ok(Self {
            name: spec.name,
            function,
            key,
            sent,
            event_time,
            timeout: spec.timeout,
            late: spec.late,
            maps: [map],
            prepared,
            output: spec.output,
            metrics: Metrics::default(),
        })
    }

    fn call_with_rows(
        &mut self,
        groups: &Groups,
        chunks: &[RecordBatch],
        map: &mut StateMap,
        pass: &Pass,
        out: &mut Output,
    ) -> Result<()> {
        let found = map.get(&groups.keys)?;
        let (rows, ends) = groups.rows();
        let visit = Visit {
            pass,
            keys: &groups.keys,
            chunks,
            rows: &rows,
            ends: &ends,
            states: &found.values,
            exists: &found.found,
            timing_out: false,
        };
        let returned = self.function.call(&visit)?;
        self.check(&visit, &returned)?;
        let deadlines = self.deadlines(groups, chunks, &found.deadline, pass)?;
        let settled = Settled::new(&groups.keys, &found, &returned, &deadlines, pass.batch_time_ms);
        self.metrics.rows += rows.len() as u64;
        self.metrics.rows_updated += settled.updated();
        self.metrics.rows_removed += settled.removed();
        map.change(&settled.changes()?)?;
        emit(out, &groups.keys, returned)
    }

    /// The deadline that each key has after its rows, if its state lives.
    fn deadlines(
        &self,
        groups: &Groups,
        chunks: &[RecordBatch],
        old: &[Option<i64>],
        pass: &Pass,
    ) -> Result<Vec<Option<i64>>> {
        match self.timeout {
            Timeout::Never => Ok(vec![None; groups.len()]),
            Timeout::BatchTime(timeout_ms) => Ok(vec![Some(after(pass.batch_time_ms, timeout_ms)); groups.len()]),
            Timeout::EventTime(timeout_ms) => {
                let floor = if self.late == LateRows::Keep { pass.late_ms } else { None };
                let latest = self.latest_event_times(groups, chunks)?;
                let deadline = |(old, latest): (&Option<i64>, Option<i64>)| {
                    let armed =
                        latest.map(|time_ms| after(time_ms, timeout_ms)).map(|at| floor.map_or(at, |f| at.max(f)));
                    armed.max(*old)
                };
                Ok(old.iter().zip(latest).map(deadline).collect())
            }
        }
    }

    fn latest_event_times(&self, groups: &Groups, chunks: &[RecordBatch]) -> Result<Vec<Option<i64>>> {
        let mut latest = vec![None; groups.len()];
        let Some(column) = self.event_time else { return Ok(latest) };
        for (chunk, numbers) in chunks.iter().zip(&groups.of) {
            for (&group, time_ms) in numbers.iter().zip(&event_times_ms(chunk.column(column).as_ref())?) {
                // None is less than any time.
                latest[group as usize] = time_ms.max(latest[group as usize]);
            }
        }
        Ok(latest)
    }

    /// Calls the function for the keys that are due, but for those in `with_rows`, and forgets them.
    fn call_due(&mut self, with_rows: &Keys, map: &mut StateMap, pass: &Pass, out: &mut Output) -> Result<()> {
        let now_ms = match (self.timeout, pass.kind) {
            (Timeout::BatchTime(_), PassKind::Data) => Some(pass.batch_time_ms),
            (Timeout::EventTime(_), _) => pass.watermark_ms,
            (Timeout::Never, _) | (Timeout::BatchTime(_), PassKind::Due) => None,
        };
        let Some(now_ms) = now_ms else { return Ok(()) };
        let due = initial::arm(map, map.due(now_ms)?, self.timeout, pass)?;
        let (keys, states) = without(due, with_rows)?;
        if keys.is_empty() {
            return Ok(());
        }
        let (ends, exists) = (vec![0; keys.len()], vec![true; keys.len()]);
        let visit = Visit {
            pass,
            keys: &keys,
            chunks: &[],
            rows: &[],
            ends: &ends,
            states: &states,
            exists: &exists,
            timing_out: true,
        };
        let returned = self.function.call(&visit)?;
        self.check(&visit, &returned)?;
        self.metrics.timed_out += keys.len() as u64;
        self.metrics.rows_removed += keys.len() as u64;
        map.change(&Changes::removed(keys.columns().to_vec(), states, keys.len(), pass.batch_time_ms))?;
        emit(out, &keys, returned)
    }

    fn check(&self, visit: &Visit<'_>, returned: &Returned) -> Result<()> {
        let updated = returned.fates.iter().filter(|&&fate| fate == Fate::Updated).count();
        let states_fit = returned.states.iter().all(|column| column.len() == updated);
        if returned.fates.len() == visit.keys.len()
            && states_fit
            && returned.states.len() == self.maps[0].value.len()
            && returned.emitted_by.len() == returned.outputs.num_rows()
        {
            return Ok(());
        }
        Err(Error::InternalError(format!("the function of operator `{}` did not answer for every key", self.name)))
    }
}

impl<F: KeyedFunction> Operator for KeyedFunctionOperator<F> {
    fn maps(&self) -> &[MapSchema] {
        &self.maps
    }

    fn output_schema(&self) -> SchemaRef {
        self.output.clone()
    }

    fn prepared_schema(&self) -> SchemaRef {
        self.prepared.clone()
    }

    fn prepare(&mut self, rows: &RecordBatch, pass: &Pass, _combine: Combine) -> Result<Prepared> {
        let columns = InputColumn::all_of(&self.sent, &self.name, rows)?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        let sent = RecordBatch::try_new_with_options(self.prepared.clone(), columns, &options)?;
        let late_ms = if self.late == LateRows::TakeOut { pass.late_ms } else { None };
        let (rows, late) = without_late(sent, self.event_time, late_ms)?;
        self.metrics.rows += rows.num_rows() as u64;
        Ok(Prepared { rows, late })
    }

    fn apply(&mut self, chunks: &[RecordBatch], maps: &mut [StateMap], pass: &Pass, out: &mut Output) -> Result<()> {
        let map = only_map(&self.name, maps)?;
        if pass.begins && pass.kind == PassKind::Data {
            initial::begin(map, self.timeout, pass)?;
        }
        let groups = Groups::new(&chunk_keys(&self.name, &self.prepared, self.key.len(), chunks)?)?;
        if !groups.is_empty() {
            self.call_with_rows(&groups, chunks, map, pass, out)?;
        }
        self.call_due(&groups.keys, map, pass, out)
    }

    fn metrics(&self) -> Metrics {
        self.metrics
    }
}

/// The first ms that is more than `timeout_ms` after `time_ms`.
fn after(time_ms: i64, timeout_ms: i64) -> i64 {
    time_ms.saturating_add(timeout_ms).saturating_add(1)
}

/// The keys and states of `rows` without those of `excluded`; both are sorted.
fn without(rows: Rows, excluded: &Keys) -> Result<(Keys, Vec<ArrayRef>)> {
    let keys = keys_of(&rows.keys, rows.updated_at.len())?;
    let mut left = Vec::with_capacity(keys.len());
    let mut next = 0;
    for row in 0..keys.len() {
        while next < excluded.len() && excluded.cmp_at(next, &keys, row).is_lt() {
            next += 1;
        }
        if next == excluded.len() || !excluded.eq_at(next, &keys, row) {
            #[expect(clippy::cast_possible_truncation, reason = "rows of a range are numbered by u32")]
            left.push(row as u32);
        }
    }
    if left.len() == keys.len() {
        return Ok((keys, rows.values));
    }
    let picks = UInt32Array::from(left.clone());
    let states = rows.values.iter().map(|column| take(column, &picks, None)).collect::<std::result::Result<_, _>>()?;
    Ok((keys.take(&left)?, states))
}

fn emit(out: &mut Output, keys: &Keys, returned: Returned) -> Result<()> {
    out.emit(keys.take(&returned.emitted_by)?, returned.outputs)
}
