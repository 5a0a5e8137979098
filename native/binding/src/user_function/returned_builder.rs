//! Builds the result of a visit: what happened to each key, the new states, and the output.
//!
//! INVARIANT: if keys may be quarantined, no result of a key is added before all its calls have succeeded.

use arrow_array::{Array, ArrayRef};
use arrow_schema::SchemaRef;
use pyo3::prelude::*;
use tidemill_core::Result;
use tidemill_core::operator::{Fate, Returned};

use crate::caller::OnError;
use crate::lent_value::{Current, KeyOutcome};
use crate::value::{Builder, Refused, Shape, Value, Zone};

/// Builds a `Returned`, key by key.
pub(crate) struct ReturnedBuilder {
    fates: Vec<Fate>,
    deadlines: Vec<Option<i64>>,
    states: Vec<Builder>,
    outputs: Vec<Builder>,
    emitted_by: Vec<u32>,
    emitted_for: Vec<u32>,
    failed: Vec<String>,
    on_error: OnError,
    /// The output of the current key's calls, while the key may still be quarantined.
    pending: Vec<(Value, Option<u32>)>,
}

impl ReturnedBuilder {
    /// Start an empty result for `keys` keys.
    pub(crate) fn new(keys: usize, state: &Shape, output: &Shape, on_error: OnError) -> Self {
        Self {
            fates: Vec::with_capacity(keys),
            deadlines: Vec::new(),
            states: state.builders(),
            outputs: output.builders(),
            emitted_by: Vec::new(),
            emitted_for: Vec::new(),
            failed: Vec::new(),
            on_error,
            pending: Vec::new(),
        }
    }

    /// Add an output row of key `number`. `of` is the place in the visit of the row that it is for; a function that is
    /// given all rows of a key has none.
    pub(crate) fn emit(
        &mut self,
        number: u32,
        of: Option<u32>,
        row: &Bound<'_, PyAny>,
        shape: &Shape,
        zone: &Zone,
    ) -> std::result::Result<(), Refused> {
        match self.on_error {
            OnError::Fail => {
                shape.parse_into(row, zone, &mut self.outputs)?;
                self.emitted_by.push(number);
                self.emitted_for.extend(of);
            }
            OnError::Quarantine => self.pending.push((shape.parse(row, zone)?, of)),
        }
        Ok(())
    }

    /// Add the outcome of key `number`, whose calls have all succeeded.
    pub(crate) fn finish_key(
        &mut self,
        py: Python<'_>,
        number: u32,
        shapes: (&Shape, &Shape),
        existed: bool,
        outcome: &KeyOutcome,
    ) -> PyResult<()> {
        let (state, output) = shapes;
        for (row, of) in std::mem::take(&mut self.pending) {
            output.append(py, &row, &mut self.outputs)?;
            self.emitted_by.push(number);
            self.emitted_for.extend(of);
        }
        self.fates.push(match &outcome.current {
            Current::Absent if existed => Fate::Removed,
            Current::Absent | Current::Stored(_) => Fate::Kept,
            Current::Updated(value) => {
                state.append(py, value, &mut self.states)?;
                Fate::Updated
            }
        });
        self.deadlines.push(outcome.deadline);
        Ok(())
    }

    /// Add a key whose calls failed. It keeps its state and its `deadline`.
    pub(crate) fn fail_key(&mut self, reason: String, deadline: Option<i64>) {
        self.pending.clear();
        self.fates.push(Fate::Failed);
        self.deadlines.push(deadline);
        self.failed.push(reason);
    }

    /// Return the result with the rows that were emitted here.
    pub(crate) fn finish(mut self, output_schema: &SchemaRef) -> Result<Returned> {
        let outputs = columns(std::mem::take(&mut self.outputs))?;
        let outputs = crate::arrow::batch(output_schema.clone(), outputs, self.emitted_by.len())?;
        let emitted_by = std::mem::take(&mut self.emitted_by);
        self.finish_with(outputs, emitted_by)
    }

    /// Return the result with output rows that were collected elsewhere.
    pub(crate) fn finish_with(self, outputs: arrow_array::RecordBatch, emitted_by: Vec<u32>) -> Result<Returned> {
        let Self { fates, deadlines, states, emitted_for, failed, .. } = self;
        let mut states = columns(states)?;
        states.iter_mut().for_each(Array::shrink_to_fit); // a run keeps these columns
        Ok(Returned { fates, deadlines, states, outputs, emitted_by, emitted_for, failed })
    }
}

fn columns(builders: Vec<Builder>) -> Result<Vec<ArrayRef>> {
    builders.into_iter().map(Builder::finish).collect()
}
