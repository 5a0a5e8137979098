//! The rows of a visit as pandas frames, and the frames that a processor gives back, both made in Python
//! (`tidemill.operators.processor_frames`), for all keys of a visit from the same arrays.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{Schema, SchemaRef};
use pyo3::intern;
use pyo3::prelude::*;
use tidemill_core::Result;
use tidemill_core::operator::{Cause, ProcessorVisit as Visit};

use super::call_site::MethodCall;
use super::shown::InitialKind;
use crate::arrow::{batch, batch_out};
use crate::caller::unreadable;
use crate::error::external;
use crate::key_rows::Values;
use crate::returned_frames::{self, Unfinished};

/// How frames are made.
pub(super) struct FrameKind {
    /// Called with the rows and the keys of a visit; gives what makes their frames.
    pub(super) open: Py<PyAny>,
    pub(super) key: SchemaRef,
    pub(super) row: SchemaRef,
}

/// The frames of one visit.
pub(super) struct Frames<'py>(Bound<'py, PyAny>);

impl<'py> Frames<'py> {
    /// Those of the rows that `visit` has; of timers there are none.
    pub(super) fn open(
        py: Python<'py>,
        kind: &FrameKind,
        operator: &str,
        columns: &[String],
        initial: &InitialKind,
        visit: &Visit<'_>,
    ) -> Result<Self> {
        let rows = match visit.cause {
            Cause::Rows { chunks, rows, .. } => {
                let values = Values::new(operator, columns, chunks, rows)?;
                batch(Arc::clone(&kind.row), py.detach(|| values.all())?, rows.len())?
            }
            Cause::Initial { rows, .. } => initial.shown(rows)?,
            Cause::Timers(_) => RecordBatch::new_empty(Arc::new(Schema::empty())),
        };
        let keys = batch(Arc::clone(&kind.key), visit.keys.columns().to_vec(), visit.keys.len())?;
        let made = || kind.open.bind(py).call1((batch_out(py, &rows)?, batch_out(py, &keys)?));
        Ok(Self(made().map_err(|error| unreadable(py, operator, error, None))?))
    }

    /// The key as PySpark has it: what a pandas column holds of it.
    pub(super) fn key(&self, number: u32) -> PyResult<Bound<'py, PyAny>> {
        self.0.call_method1(intern!(self.0.py(), "key"), (number,))
    }

    /// An iterator of frames of these rows.
    pub(super) fn rows(&self, rows: Range<usize>) -> Result<Bound<'py, PyAny>> {
        self.0.call_method1(intern!(self.0.py(), "rows"), (rows.start, rows.end)).map_err(external)
    }

    /// One frame of these rows.
    pub(super) fn whole(&self, rows: Range<usize>) -> Result<Bound<'py, PyAny>> {
        self.0.call_method1(intern!(self.0.py(), "whole"), (rows.start, rows.end)).map_err(external)
    }

    /// Takes all that a call gives back.
    pub(super) fn take(&self, number: u32, answer: &Bound<'py, PyAny>, place: &MethodCall<'_, '_>) -> Result<()> {
        let taken = self.0.call_method1(intern!(self.0.py(), "take"), (number, answer));
        taken.map(|_| ()).map_err(|error| self.complaint(error, place))
    }

    /// All rows that were given back, and the key number of each.
    pub(super) fn finish(&self) -> std::result::Result<(RecordBatch, Vec<u32>), Unfinished> {
        returned_frames::finish(&self.0)
    }

    /// The error for a call that raised, or that gave back what does not fit.
    pub(super) fn complaint(&self, error: PyErr, place: &MethodCall<'_, '_>) -> tidemill_core::Error {
        match returned_frames::misfit(&self.0, &error) {
            Some(why) => place.unfit(&why),
            None => place.raised(error),
        }
    }
}
