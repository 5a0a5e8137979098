//! The rows of a visit as Python objects, in the order in which keys are visited, and `KeyRows`, the rows of one key.
//!
//! INVARIANT: a `KeyRows` that user code kept returns only rows of its own key.
//! INVARIANT: no Python code runs while the row source is locked, so that no thread waits for the lock with the GIL.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_select::interleave::interleave;
use pyo3::prelude::*;
use tidemill_core::operator::RowAt;
use tidemill_core::{Error, Result};

use crate::error::Raise;
use crate::value::{Decoder, Shape, Zone};

/// Value columns in the order in which rows are visited. They are gathered one window of rows at a time, because random
/// access for each call would miss the CPU's cache.
pub(crate) struct Values {
    /// By column, then chunk.
    chunks: Vec<Vec<ArrayRef>>,
    rows: Vec<RowAt>,
    window: Range<usize>,
    columns: Arc<Vec<Decoder>>,
}

impl Values {
    const WINDOW: usize = 8192;

    /// Select the columns `names` of the rows `rows` of `chunks`.
    pub(crate) fn new(operator: &str, names: &[String], chunks: &[RecordBatch], rows: &[RowAt]) -> Result<Self> {
        let column = |name: &String, chunk: &RecordBatch| {
            let missing = || Error::InternalError(format!("operator `{operator}` did not send `{name}`"));
            chunk.column_by_name(name).cloned().ok_or_else(missing)
        };
        let of_chunks = |name| chunks.iter().map(|chunk| column(name, chunk)).collect::<Result<_>>();
        let chunks = names.iter().map(of_chunks).collect::<Result<_>>()?;
        Ok(Self { chunks, rows: rows.to_vec(), window: 0..0, columns: Arc::default() })
    }

    /// Select all columns and rows of a batch.
    pub(crate) fn of_batch(batch: &RecordBatch) -> Self {
        let chunks = batch.columns().iter().map(|column| vec![Arc::clone(column)]).collect();
        let rows = (0u32..).take(batch.num_rows()).map(|row| RowAt { chunk: 0, row }).collect();
        Self { chunks, rows, window: 0..0, columns: Arc::default() }
    }

    /// Return the columns with the row visited as number `row`, and its position in them.
    #[inline]
    pub(crate) fn at(&mut self, row: usize, shape: &Shape) -> Result<(&Arc<Vec<Decoder>>, usize)> {
        if !self.window.contains(&row) {
            let window = row..self.rows.len().min(row + Self::WINDOW);
            self.columns = Arc::new(shape.decoders(&self.gather(window.clone())?));
            self.window = window;
        }
        Ok((&self.columns, row - self.window.start))
    }

    /// Gather the columns of all rows, in the order in which they are visited.
    pub(crate) fn all(&self) -> Result<Vec<ArrayRef>> {
        self.gather(0..self.rows.len())
    }

    /// Gather the columns of some rows, in the order in which they are visited.
    fn gather(&self, rows: Range<usize>) -> Result<Vec<ArrayRef>> {
        let picks: Vec<(usize, usize)> =
            self.rows[rows].iter().map(|at| (at.chunk as usize, at.row as usize)).collect();
        let column = |chunks: &Vec<ArrayRef>| {
            let chunks: Vec<&dyn Array> = chunks.iter().map(AsRef::as_ref).collect();
            interleave(&chunks, &picks)
        };
        Ok(self.chunks.iter().map(column).collect::<std::result::Result<Vec<_>, _>>()?)
    }
}

/// The source of the rows of all keys of a visit.
pub(crate) struct RowSource {
    values: Mutex<Values>,
    shape: Arc<Shape>,
    zone: Arc<Zone>,
}

impl RowSource {
    /// Make a source of rows with this shape.
    pub(crate) fn new(values: Values, shape: &Arc<Shape>, zone: &Arc<Zone>) -> Arc<Self> {
        Arc::new(Self { values: Mutex::new(values), shape: Arc::clone(shape), zone: Arc::clone(zone) })
    }

    /// Return the columns with the row visited as number `row`, and its position in them.
    fn at(&self, row: usize) -> Result<(Arc<Vec<Decoder>>, usize)> {
        let mut values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
        let (columns, place) = values.at(row, &self.shape)?;
        Ok((Arc::clone(columns), place))
    }
}

/// An iterator over the rows of one key, in plan order.
#[pyclass(name = "KeyRows", module = "tidemill._native")]
pub(crate) struct PyKeyRows {
    source: Arc<RowSource>,
    rows: Range<usize>,
}

impl PyKeyRows {
    /// Iterate over the rows visited as the numbers `rows`.
    pub(crate) fn new(source: Arc<RowSource>, rows: Range<usize>) -> Self {
        Self { source, rows }
    }
}

#[pymethods]
impl PyKeyRows {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__<'py>(&mut self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(row) = self.rows.next() else { return Ok(None) };
        let source = &self.source;
        let (columns, place) = source.at(row).raise(py)?;
        source.shape.decode(&columns, py, place, &source.zone).map(Some)
    }

    fn __length_hint__(&self) -> usize {
        self.rows.len()
    }
}
