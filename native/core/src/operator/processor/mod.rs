//! A processor with several variables for each key (`transformWithState`). It is called once for each key that has
//! rows, and once for each expired timer.
//!
//! This module decides which rows are late, which timers fire in which order, which values have expired, and what is
//! written. The calls are behind `Processor`. INVARIANT: in the first batch, the initial state is handed over first.
//! Then keys with rows are visited in (hash, bytes) order, and then the timers that are due by (expiry, hash, bytes). A
//! timer that is registered while timers fire waits for the next pass. A timer that has fired is removed whatever its
//! call did. A key whose calls failed keeps its earlier state, and is not called again in that pass.

mod initial;
mod spec;
mod store;
#[cfg(test)]
mod tests;
mod visit;

use arrow_array::cast::AsArray;
use arrow_array::{Int64Array, RecordBatch, UInt32Array};
use arrow_schema::Fields;
use arrow_select::take::take;

pub use spec::{ProcessorSpec, TimeMode, Variable};
pub use visit::{Answer, Cause, Processor, Stored, Visit, Written};

use super::columns::{InputColumn, chunk_keys, keys_of};
use super::event_time::expiry_ms;
use super::exchange::ExchangeColumns;
use super::groups::places_without;
use super::{Chunks, Combine, Groups, Metrics, Operator, Origin, Output, Pass, PassKind, Prepared, Signature};
use crate::error::{Error, Result};
use crate::key::Keys;
use crate::map::StateMap;
use store::{Deadlines, fetch, write};

/// A processor in operation.
#[derive(Debug)]
pub struct ProcessorOperator<P> {
    signature: Signature,
    processor: P,
    exchange: ExchangeColumns,
    time_mode: TimeMode,
    /// The time to live of each variable.
    ttl_ms: Vec<Option<i64>>,
    output_event_time: Option<usize>,
    metrics: Metrics,
}

impl<P: Processor> ProcessorOperator<P> {
    /// Create the operator; `InvalidInput` for a missing column, for a type that cannot be stored, or for event-time
    /// timers without an event time.
    pub fn new(spec: ProcessorSpec, processor: P) -> Result<Self> {
        let key = InputColumn::find_all(&spec.name, &spec.input, &spec.key)?;
        let key_fields: Fields = key.iter().map(InputColumn::field).collect();
        let (event_time, values) = (spec.event_time_column()?, spec.value_columns());
        let exchange =
            ExchangeColumns::new(&spec.name, &spec.input, (&spec.key, &values), event_time.as_ref(), spec.late)?;
        let output_event_time = spec.output_event_time.as_ref().map(|name| spec.output.index_of(name));
        let (maps, prepared) = (spec.maps(&key_fields)?, exchange.schema.clone());
        Ok(Self {
            output_event_time: output_event_time.transpose()?,
            processor,
            exchange,
            time_mode: spec.time_mode,
            ttl_ms: spec.variables.iter().map(|variable| variable.ttl_ms).collect(),
            signature: Signature { name: spec.name, maps, prepared, output: spec.output },
            metrics: Metrics::default(),
        })
    }

    /// Call the processor for the keys that have rows; return the keys whose calls failed.
    fn call_with_rows(
        &mut self,
        groups: &Groups,
        chunks: &[RecordBatch],
        maps: &mut [StateMap],
        pass: &Pass,
        out: &mut Output,
    ) -> Result<Keys> {
        let (rows, ends) = groups.rows();
        self.metrics.rows += rows.len() as u64;
        let failed = self.visit(&groups.keys, Cause::Rows { chunks, rows, ends }, maps, pass, out)?;
        for (key, reason) in &failed {
            let start = key.checked_sub(1).map_or(0, |before| ends[before as usize]);
            out.quarantine(&rows[start..ends[*key as usize]], reason.clone());
        }
        groups.keys.take(&failed.into_iter().map(|(key, _)| key).collect::<Vec<_>>())
    }

    /// Fire the timers that are due, except those of the keys `excluded`.
    fn call_due(&mut self, excluded: &Keys, maps: &mut [StateMap], pass: &Pass, out: &mut Output) -> Result<()> {
        let now_ms = match (self.time_mode, pass.kind) {
            (TimeMode::ProcessingTime, PassKind::Data) => Some(pass.batch_time_ms),
            (TimeMode::EventTime, _) => pass.watermark_ms,
            (TimeMode::None, _) | (TimeMode::ProcessingTime, PassKind::Due) => None,
        };
        let (Some(now_ms), [.., timers]) = (now_ms, &mut *maps) else { return Ok(()) };
        let due = timers.due(now_ms)?;
        let [expiry] = due.sub_keys.as_slice() else { return Ok(()) };
        let (mut all, mut expiries): (Keys, Int64Array) =
            (keys_of(&due.keys, due.len())?, expiry.as_primitive().clone());
        if !excluded.is_empty() {
            let left = places_without(&all, excluded);
            expiries = take(&expiries, &UInt32Array::from(left.clone()), None)?.as_primitive().clone();
            all = all.take(&left)?;
        }
        let (keys, mut fires) = by_key(&all, expiries.values())?;
        if fires.is_empty() {
            return Ok(());
        }
        fires.sort_unstable_by_key(|&(key, expiry_ms)| (expiry_ms, key));
        let failed = self.visit(&keys, Cause::Timers(&fires), maps, pass, out)?;
        failed.iter().for_each(|(_, reason)| out.quarantine(&[], reason.clone()));
        let fired = fires.iter().filter(|fire| failed.binary_search_by_key(&fire.0, |one| one.0).is_err());
        self.metrics.timed_out += fired.count() as u64;
        Ok(())
    }

    /// Hand over the rows of the initial state, each once.
    fn call_initial(
        &mut self,
        maps: &mut [StateMap],
        initial: &mut StateMap,
        pass: &Pass,
        out: &mut Output,
    ) -> Result<()> {
        let Some(found) = initial::take(initial, pass.batch_time_ms)? else { return Ok(()) };
        let cause = Cause::Initial { rows: &found.rows, ends: &found.ends };
        match self.visit(&found.keys, cause, maps, pass, out)?.into_iter().next() {
            None => Ok(()),
            Some((_, reason)) => Err(Error::InvalidInput(reason)),
        }
    }

    /// How many maps hold variables and timers.
    fn variables_and_timers(&self) -> usize {
        self.ttl_ms.len() + 1
    }

    /// Read the stored rows of `keys`, make the calls, and write the results; return the keys that failed.
    fn visit(
        &mut self,
        keys: &Keys,
        cause: Cause<'_>,
        maps: &mut [StateMap],
        pass: &Pass,
        out: &mut Output,
    ) -> Result<Vec<(u32, String)>> {
        let now_ms = pass.batch_time_ms;
        let expired_ms = |map: usize| self.ttl_ms.get(map).copied().flatten().map(|_| now_ms);
        let stored = maps.iter().enumerate().map(|(number, map)| fetch(map, keys, expired_ms(number)));
        let stored: Vec<Stored> = stored.collect::<Result<_>>()?;
        let answer = self.processor.call(&Visit { pass, keys, stored: &stored, cause })?;
        self.check(&answer, matches!(cause, Cause::Timers(_)), pass)?;
        for (number, written) in answer.written.into_iter().enumerate() {
            let deadlines = match self.ttl_ms.get(number) {
                None => Deadlines::SubKey,
                Some(None) => Deadlines::Never,
                Some(Some(ttl_ms)) => Deadlines::At(now_ms.saturating_add(*ttl_ms)),
            };
            let (put, removed) = write(&mut maps[number], keys, &stored[number], written, deadlines, now_ms)?;
            self.metrics.rows_updated += put;
            self.metrics.rows_removed += removed;
        }
        self.metrics.failed += answer.failed.len() as u64;
        let expiries_ms = answer.expiries_ms;
        out.emit_by(keys, answer.emitted_by, answer.outputs, |by| match cause {
            Cause::Rows { rows, ends, .. } => {
                Origin::Rows(by.iter().map(|&key| rows[ends[key as usize] - 1]).collect())
            }
            Cause::Initial { .. } => Origin::Keys,
            Cause::Timers(_) => Origin::Due(expiries_ms),
        })?;
        Ok(answer.failed)
    }

    /// Remove values whose time to live has ended.
    fn forget(&mut self, maps: &mut [StateMap], pass: &Pass) -> Result<()> {
        for (map, _) in maps.iter_mut().zip(&self.ttl_ms).filter(|(_, ttl_ms)| ttl_ms.is_some()) {
            self.metrics.rows_removed += map.take_due(pass.batch_time_ms, pass.batch_time_ms)?.len() as u64;
        }
        Ok(())
    }

    fn check(&self, answer: &Answer, timers: bool, pass: &Pass) -> Result<()> {
        let of_timers = if timers { answer.outputs.num_rows() } else { 0 };
        if answer.written.len() != self.variables_and_timers()
            || answer.emitted_by.len() != answer.outputs.num_rows()
            || answer.expiries_ms.len() != of_timers
        {
            return Err(Error::InternalError(format!(
                "the processor of operator `{}` returned an incomplete answer",
                self.signature.name
            )));
        }
        let (Some(column), Some(late_ms)) = (self.output_event_time, pass.late_ms) else { return Ok(()) };
        let times_ms = expiry_ms(answer.outputs.column(column).as_ref(), 0)?;
        match times_ms.iter().flatten().find(|&time_ms| time_ms <= late_ms) {
            None => Ok(()),
            Some(time_ms) => Err(Error::InvalidInput(format!(
                "operator `{}` emitted a row with event time {time_ms} ms in column `{}`, which is not after the \
                 watermark of {late_ms} ms\nhint: emit a later time: downstream operators would treat this row as late",
                self.signature.name,
                self.signature.output.field(column).name()
            ))),
        }
    }
}

impl<P: Processor> Operator for ProcessorOperator<P> {
    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn prepare(&mut self, rows: &RecordBatch, pass: &Pass, _combine: Combine) -> Result<Prepared> {
        let prepared = self.exchange.prepare(&self.signature.name, rows, pass)?;
        self.metrics.rows += prepared.rows.num_rows() as u64;
        Ok(prepared)
    }

    fn apply(&mut self, chunks: &Chunks<'_>, maps: &mut [StateMap], pass: &Pass, out: &mut Output) -> Result<()> {
        if maps.len() != self.signature.maps.len() {
            let (found, expected) = (maps.len(), self.signature.maps.len());
            return Err(Error::InternalError(format!(
                "operator `{}` received {found} state maps, expected {expected}",
                self.signature.name
            )));
        }
        let (maps, rest) = maps.split_at_mut(self.variables_and_timers());
        if let ([initial], true, PassKind::Data) = (rest, pass.begins, pass.kind) {
            self.call_initial(maps, initial, pass, out)?;
        }
        let groups = Groups::new(&chunk_keys(&self.signature, chunks)?)?;
        let failed = match groups.is_empty() {
            true => groups.keys,
            false => self.call_with_rows(&groups, chunks, maps, pass, out)?,
        };
        self.call_due(&failed, maps, pass, out)?;
        self.forget(maps, pass)
    }

    fn metrics(&self) -> Metrics {
        self.metrics
    }
}

/// Return the distinct keys of sorted rows, and for each row the number of its key with its expiry.
fn by_key(rows: &Keys, expiries_ms: &[i64]) -> Result<(Keys, Vec<(u32, i64)>)> {
    let mut firsts: Vec<u32> = Vec::new();
    let mut fires = Vec::with_capacity(rows.len());
    #[expect(clippy::cast_possible_truncation, reason = "rows of a range are numbered by u32")]
    for (row, &expiry_ms) in expiries_ms.iter().enumerate() {
        if row == 0 || !rows.eq_at(row - 1, rows, row) {
            firsts.push(row as u32);
        }
        fires.push((firsts.len() as u32 - 1, expiry_ms));
    }
    Ok((rows.take(&firsts)?, fires))
}
