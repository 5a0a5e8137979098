//! The rows of a key as an iterator of `Row`s, made one by one as they are asked for.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_select::interleave::interleave;
use pyo3::prelude::*;
use tidemill_core::Error;
use tidemill_core::operator::RowAt;

use crate::error::to_python;
use crate::value::{Decoder, Shape, Zone};

/// What a row looks like.
pub(super) struct RowKind {
    pub(super) shape: Shape,
    pub(super) columns: Vec<String>,
    pub(super) zone: Arc<Zone>,
}

/// The rows of a visit in the order in which they are visited, brought there a window at a time: to jump about in the
/// chunks for each row would miss the processor's cache each time.
pub(super) struct Feed {
    kind: Arc<RowKind>,
    /// By column, then chunk.
    chunks: Vec<Vec<ArrayRef>>,
    rows: Vec<RowAt>,
    window: Range<usize>,
    decoders: Vec<Decoder>,
}

impl Feed {
    const WINDOW: usize = 8192;

    /// The rows `rows` of `chunks`.
    pub(super) fn new(kind: Arc<RowKind>, chunks: &[RecordBatch], rows: &[RowAt]) -> tidemill_core::Result<Self> {
        let column = |name: &String, chunk: &RecordBatch| {
            let missing = || Error::InternalError(format!("a processor's column `{name}` was not sent"));
            chunk.column_by_name(name).cloned().ok_or_else(missing)
        };
        let of_chunks = |name| chunks.iter().map(|chunk| column(name, chunk)).collect::<tidemill_core::Result<_>>();
        let chunks = kind.columns.iter().map(of_chunks).collect::<tidemill_core::Result<_>>()?;
        Ok(Self { kind, chunks, rows: rows.to_vec(), window: 0..0, decoders: Vec::new() })
    }

    /// All rows of a batch that has the columns in their order.
    pub(super) fn by_place(kind: Arc<RowKind>, batch: &RecordBatch) -> Self {
        let chunks = batch.columns().iter().map(|column| vec![Arc::clone(column)]).collect();
        let rows = (0u32..).take(batch.num_rows()).map(|row| RowAt { chunk: 0, row }).collect();
        Self { kind, chunks, rows, window: 0..0, decoders: Vec::new() }
    }

    fn get<'py>(&mut self, py: Python<'py>, row: usize) -> PyResult<Bound<'py, PyAny>> {
        if !self.window.contains(&row) {
            self.turn_to(row).map_err(|error| to_python(py, error))?;
        }
        self.kind.shape.decode(&self.decoders, py, row - self.window.start, &self.kind.zone)
    }

    /// The columns of all rows, in the order in which they are visited.
    pub(super) fn all(&self) -> tidemill_core::Result<Vec<ArrayRef>> {
        self.gather(0..self.rows.len())
    }

    fn turn_to(&mut self, row: usize) -> tidemill_core::Result<()> {
        self.window = row..self.rows.len().min(row + Self::WINDOW);
        self.decoders = self.kind.shape.decoders(&self.gather(self.window.clone())?);
        Ok(())
    }

    fn gather(&self, rows: Range<usize>) -> tidemill_core::Result<Vec<ArrayRef>> {
        let picks: Vec<(usize, usize)> =
            self.rows[rows].iter().map(|at| (at.chunk as usize, at.row as usize)).collect();
        let column = |chunks: &Vec<ArrayRef>| {
            let chunks: Vec<&dyn Array> = chunks.iter().map(AsRef::as_ref).collect();
            interleave(&chunks, &picks)
        };
        Ok(self.chunks.iter().map(column).collect::<Result<Vec<_>, _>>()?)
    }
}

/// The rows of one key.
#[pyclass(name = "RowIterator", module = "tidemill._native")]
pub(crate) struct PyRows {
    pub(super) feed: Arc<Mutex<Feed>>,
    pub(super) rows: Range<usize>,
}

#[pymethods]
impl PyRows {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__<'py>(&mut self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(row) = self.rows.next() else { return Ok(None) };
        self.feed.lock().unwrap_or_else(PoisonError::into_inner).get(py, row).map(Some)
    }
}
