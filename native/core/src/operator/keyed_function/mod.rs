//! A function that is called with the rows and the state of a key, and again when the key times out (`mapWithState`,
//! `GroupState`).
//!
//! This module decides which rows are late, what happens to a key's state and deadline, and which keys are due. The
//! function itself is behind `KeyedFunction`. INVARIANT: keys are visited in (hash, bytes) order, rows of a key in
//! chunk order, then row order. If the operator keeps the time, a key that got rows in a pass does not time out in that
//! pass. If the function arms deadlines, those that are due after its rows fire in the same pass. A key whose calls
//! failed is not called again in that pass.

mod initial;
mod key_states;
mod spec;
mod visit;
mod writes;

use arrow_array::{Array, RecordBatch};
use arrow_schema::Fields;

pub use spec::{KeyedFunctionSpec, LateRows, Timeout};
pub use visit::{Fate, KeyedFunction, Returned, Visit};

use super::columns::{InputColumn, chunk_keys, map_of, only_map};
use super::event_time::event_times_ms;
use super::exchange::ExchangeColumns;
use super::output::due_at;
use super::{Chunks, Combine, Groups, Metrics, Operator, Origin, Output, Pass, PassKind, Prepared, RowAt, Signature};
use crate::error::{Error, Result};
use crate::key::Keys;
use crate::map::StateMap;
use key_states::KeyStates;
use writes::StateWrites;

/// The name of the map: key → state.
const MAP: &str = "state";

/// A keyed function in operation.
#[derive(Debug)]
pub struct KeyedFunctionOperator<F> {
    signature: Signature,
    function: F,
    exchange: ExchangeColumns,
    timeout: Timeout,
    late: LateRows,
    metrics: Metrics,
}

/// The arguments of the function: keys, their states, and their rows.
struct Given<'a> {
    keys: &'a Keys,
    known: &'a KeyStates,
    chunks: &'a [RecordBatch],
    rows: &'a [RowAt],
    ends: &'a [usize],
    timing_out: bool,
}

impl Given<'_> {
    /// Return why rows were emitted: for a row of their key, or else for its last one, or because the key was due.
    fn origin(&self, by: &[u32], emitted_for: &[u32]) -> Origin {
        if self.timing_out {
            return due_at(&by.iter().map(|&key| self.known.deadline[key as usize]).collect::<Vec<_>>());
        }
        if self.rows.is_empty() {
            return Origin::Keys;
        }
        if emitted_for.is_empty() {
            return Origin::Rows(by.iter().map(|&key| self.rows[self.ends[key as usize] - 1]).collect());
        }
        Origin::Rows(emitted_for.iter().map(|&row| self.rows[row as usize]).collect())
    }
}

impl<F: KeyedFunction> KeyedFunctionOperator<F> {
    /// Create the operator; `InvalidInput` for a missing column, or for an event-time timeout without an event time.
    pub fn new(spec: KeyedFunctionSpec, function: F) -> Result<Self> {
        let key = InputColumn::find_all(&spec.name, &spec.input, &spec.key)?;
        let key_fields: Fields = key.iter().map(InputColumn::field).collect();
        let (event_time, values) = (spec.event_time_column()?, spec.value_columns());
        let exchange =
            ExchangeColumns::new(&spec.name, &spec.input, (&spec.key, &values), event_time.as_ref(), spec.late)?;
        let map = map_of(&spec.name, MAP, &key_fields, &spec.map_columns())?;
        let (prepared, output) = (exchange.schema.clone(), spec.output);
        Ok(Self {
            signature: Signature { name: spec.name, maps: vec![map], prepared, output },
            function,
            exchange,
            timeout: spec.timeout,
            late: spec.late,
            metrics: Metrics::default(),
        })
    }

    /// Call the function for the keys that have rows; return the keys that must not be called again in this pass.
    fn call_with_rows(
        &mut self,
        groups: &Groups,
        chunks: &[RecordBatch],
        map: &mut StateMap,
        pass: &Pass,
        out: &mut Output,
    ) -> Result<Keys> {
        let known = KeyStates::of_found(map.get(&groups.keys)?, self.timeout);
        let (rows, ends) = groups.rows();
        let given = Given { keys: &groups.keys, known: &known, chunks, rows, ends, timing_out: false };
        let returned = self.call(&given, pass)?;
        let by_rule =
            if self.timeout.is_armed() { None } else { Some(self.deadlines(groups, chunks, &known.deadline, pass)?) };
        self.metrics.rows += rows.len() as u64;
        let failed = self.write_back(&given, returned, by_rule.as_deref(), map, pass, out)?;
        if self.timeout.is_armed() { groups.keys.take(&failed) } else { Ok(groups.keys.clone()) }
    }

    /// Call the function for the keys that have an initial state and no rows.
    fn call_initial(&mut self, with_rows: &Keys, map: &mut StateMap, pass: &Pass, out: &mut Output) -> Result<()> {
        let (keys, known) = KeyStates::of_rows(map.scan()?, with_rows, self.timeout)?;
        let ends = vec![0; keys.len()];
        let given = Given { keys: &keys, known: &known, chunks: &[], rows: &[], ends: &ends, timing_out: false };
        let returned = self.call(&given, pass)?;
        let by_rule = (!self.timeout.is_armed()).then(|| known.deadline.clone());
        self.write_back(&given, returned, by_rule.as_deref(), map, pass, out)?;
        Ok(())
    }

    /// Call the function for the keys that are due, except `excluded`. If the operator keeps the time, their states are
    /// removed afterwards.
    fn call_due(&mut self, excluded: &Keys, map: &mut StateMap, pass: &Pass, out: &mut Output) -> Result<()> {
        let now_ms = match (self.timeout, pass.kind) {
            (Timeout::BatchTime(_) | Timeout::ArmedByBatchTime, PassKind::Data) => Some(pass.batch_time_ms),
            (Timeout::EventTime(_) | Timeout::ArmedByEventTime, _) => pass.watermark_ms,
            (Timeout::Never, _) | (Timeout::BatchTime(_) | Timeout::ArmedByBatchTime, PassKind::Due) => None,
        };
        let Some(now_ms) = now_ms else { return Ok(()) };
        let due = map.due(now_ms)?;
        let due = initial::arm(map, due, self.timeout, pass)?;
        let (keys, known) = KeyStates::of_rows(due, excluded, self.timeout)?;
        if keys.is_empty() {
            return Ok(());
        }
        let ends = vec![0; keys.len()];
        let given = Given { keys: &keys, known: &known, chunks: &[], rows: &[], ends: &ends, timing_out: true };
        let mut returned = self.call(&given, pass)?;
        let by_rule = if self.timeout.is_armed() {
            None
        } else {
            let called = returned.fates.iter_mut().filter(|fate| **fate != Fate::Failed);
            called.for_each(|fate| *fate = Fate::Removed);
            Some(vec![None; keys.len()])
        };
        let failed = self.write_back(&given, returned, by_rule.as_deref(), map, pass, out)?;
        self.metrics.timed_out += (keys.len() - failed.len()) as u64;
        Ok(())
    }

    fn call(&mut self, given: &Given<'_>, pass: &Pass) -> Result<Returned> {
        let visit = Visit {
            pass,
            keys: given.keys,
            chunks: given.chunks,
            rows: given.rows,
            ends: given.ends,
            states: &given.known.states,
            exists: &given.known.exists,
            deadlines: &given.known.deadline,
            timing_out: given.timing_out,
        };
        let returned = self.function.call(&visit)?;
        self.check(&visit, &returned)?;
        Ok(returned)
    }

    /// Write the new states and deadlines, emit rows, and quarantine the rows of keys whose calls failed; return these
    /// keys.
    fn write_back(
        &mut self,
        given: &Given<'_>,
        returned: Returned,
        by_rule: Option<&[Option<i64>]>,
        map: &mut StateMap,
        pass: &Pass,
        out: &mut Output,
    ) -> Result<Vec<u32>> {
        let deadlines = by_rule.unwrap_or(&returned.deadlines);
        let writes = StateWrites::new(given.keys, given.known, &returned, deadlines, pass.batch_time_ms);
        self.metrics.rows_updated += writes.updated();
        self.metrics.rows_removed += writes.removed();
        match writes.has_all_new() {
            true => {
                let (keys, states) = (given.keys.clone(), returned.states.clone());
                map.put(keys, states, pass.batch_time_ms, deadlines.to_vec())?;
            }
            false => map.change(&writes.changes()?)?,
        }
        let fates = (0u32..).zip(&returned.fates);
        let failed: Vec<u32> = fates.filter(|(_, fate)| **fate == Fate::Failed).map(|(key, _)| key).collect();
        self.metrics.failed += failed.len() as u64;
        for (&key, reason) in failed.iter().zip(returned.failed) {
            let start = key.checked_sub(1).map_or(0, |before| given.ends[before as usize]);
            out.quarantine(&given.rows[start..given.ends[key as usize]], reason);
        }
        let emitted_for = &returned.emitted_for;
        out.emit_by(given.keys, returned.emitted_by, returned.outputs, |by| given.origin(by, emitted_for))?;
        Ok(failed)
    }

    /// Return the deadline of each key after its rows, for keys whose state stays.
    fn deadlines(
        &self,
        groups: &Groups,
        chunks: &[RecordBatch],
        old: &[Option<i64>],
        pass: &Pass,
    ) -> Result<Vec<Option<i64>>> {
        match self.timeout {
            Timeout::Never | Timeout::ArmedByBatchTime | Timeout::ArmedByEventTime => Ok(vec![None; groups.len()]),
            Timeout::BatchTime(timeout_ms) => Ok(vec![Some(after(pass.batch_time_ms, timeout_ms)); groups.len()]),
            Timeout::EventTime(timeout_ms) => {
                let floor = if self.late == LateRows::Keep { pass.late_ms } else { None };
                let latest = self.latest_event_times(groups, chunks)?;
                let deadline = |(old, latest): (&Option<i64>, Option<i64>)| {
                    let armed = latest.map(|time_ms| after(time_ms, timeout_ms).max(floor.unwrap_or(i64::MIN)));
                    let known = armed.map(initial::avoid_unarmed).max(*old);
                    known.or_else(|| Some(initial::from_watermark(timeout_ms, pass)))
                };
                Ok(old.iter().zip(latest).map(deadline).collect())
            }
        }
    }

    fn latest_event_times(&self, groups: &Groups, chunks: &[RecordBatch]) -> Result<Vec<Option<i64>>> {
        let mut latest = vec![None; groups.len()];
        let Some(column) = self.exchange.event_time else { return Ok(latest) };
        for (chunk, numbers) in chunks.iter().zip(groups.numbers()) {
            for (&group, time_ms) in numbers.iter().zip(&event_times_ms(chunk.column(column).as_ref())?) {
                // `None` is less than any time.
                latest[group as usize] = time_ms.max(latest[group as usize]);
            }
        }
        Ok(latest)
    }

    fn check(&self, visit: &Visit<'_>, returned: &Returned) -> Result<()> {
        let updated = returned.fates.iter().filter(|&&fate| fate == Fate::Updated).count();
        let failed = returned.fates.iter().filter(|&&fate| fate == Fate::Failed).count();
        let states_fit = returned.states.iter().all(|column| column.len() == updated);
        if returned.fates.len() == visit.keys.len()
            && (!self.timeout.is_armed() || returned.deadlines.len() == visit.keys.len())
            && returned.failed.len() == failed
            && states_fit
            && returned.states.len() == visit.states.len()
            && returned.emitted_by.len() == returned.outputs.num_rows()
            && (returned.emitted_for.is_empty() || returned.emitted_for.len() == returned.emitted_by.len())
        {
            return Ok(());
        }
        Err(Error::InternalError(format!(
            "the function of operator `{}` did not return a result for every key",
            self.signature.name
        )))
    }
}

impl<F: KeyedFunction> Operator for KeyedFunctionOperator<F> {
    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn prepare(&mut self, rows: &RecordBatch, pass: &Pass, _combine: Combine) -> Result<Prepared> {
        let prepared = self.exchange.prepare(&self.signature.name, rows, pass)?;
        self.metrics.rows += prepared.rows.num_rows() as u64;
        Ok(prepared)
    }

    fn apply(&mut self, chunks: &Chunks<'_>, maps: &mut [StateMap], pass: &Pass, out: &mut Output) -> Result<()> {
        let map = only_map(&self.signature, maps)?;
        if pass.begins && pass.kind == PassKind::Data {
            initial::begin(map, self.timeout, pass)?;
        }
        let groups = Groups::new(&chunk_keys(&self.signature, chunks)?)?;
        if pass.begins && pass.kind == PassKind::Data && self.function.is_called_for_initial_states() {
            self.call_initial(&groups.keys, map, pass, out)?;
        }
        let called = match groups.is_empty() {
            true => groups.keys,
            false => self.call_with_rows(&groups, chunks, map, pass, out)?,
        };
        self.call_due(&called, map, pass, out)
    }

    fn metrics(&self) -> Metrics {
        self.metrics
    }
}

/// Return the first ms that is more than `timeout_ms` after `time_ms`.
fn after(time_ms: i64, timeout_ms: i64) -> i64 {
    time_ms.saturating_add(timeout_ms).saturating_add(1)
}
