//! The rows of a visit as pandas frames, and the frames that a processor returns. Python code converts both
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

/// How to make frames.
pub(super) struct FrameKind {
    /// Called with the rows and the keys of a visit; returns the object that makes their frames.
    pub(super) open: Py<PyAny>,
    pub(super) key: SchemaRef,
    pub(super) row: SchemaRef,
}

/// The frames of one visit.
pub(super) struct Frames<'py>(Bound<'py, PyAny>);

impl<'py> Frames<'py> {
    /// Make the frames of a visit. A visit of timers has no rows.
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

    /// Return the key with the types that PySpark gives it: those of a pandas column.
    pub(super) fn key(&self, number: u32) -> PyResult<Bound<'py, PyAny>> {
        self.0.call_method1(intern!(self.0.py(), "key"), (number,))
    }

    /// Return an iterator of frames with these rows.
    pub(super) fn rows(&self, rows: Range<usize>) -> Result<Bound<'py, PyAny>> {
        self.0.call_method1(intern!(self.0.py(), "rows"), (rows.start, rows.end)).map_err(external)
    }

    /// Return one frame with these rows.
    pub(super) fn whole(&self, rows: Range<usize>) -> Result<Bound<'py, PyAny>> {
        self.0.call_method1(intern!(self.0.py(), "whole"), (rows.start, rows.end)).map_err(external)
    }

    /// Add the frames that a call returned.
    pub(super) fn take(&self, number: u32, answer: &Bound<'py, PyAny>, place: &MethodCall<'_, '_>) -> Result<()> {
        let taken = self.0.call_method1(intern!(self.0.py(), "take"), (number, answer));
        taken.map(|_| ()).map_err(|error| self.complaint(error, place))
    }

    /// Return how many rows the frames taken so far have.
    pub(super) fn taken(&self) -> PyResult<usize> {
        self.0.getattr(intern!(self.0.py(), "taken"))?.extract()
    }

    /// Return all returned rows, and the key number of each.
    pub(super) fn finish(&self) -> std::result::Result<(RecordBatch, Vec<u32>), Unfinished> {
        returned_frames::finish(&self.0)
    }

    /// Make the error for a call that raised, or returned frames that do not fit.
    pub(super) fn complaint(&self, error: PyErr, place: &MethodCall<'_, '_>) -> tidemill_core::Error {
        match returned_frames::misfit(&self.0, &error) {
            Some(why) => place.unfit(&why),
            None => place.raised(error),
        }
    }
}
