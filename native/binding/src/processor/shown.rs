//! What a processor is shown: keys, rows, and rows of its initial state.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{Schema, SchemaRef};
use pyo3::prelude::*;
use tidemill_core::Result;
use tidemill_core::operator::{Cause, ProcessorVisit as Visit};

use crate::value::{Decoder, Shape, Zone};

/// What a key looks like, which is not the same everywhere, as in Spark.
pub(super) struct KeyKind {
    /// With rows: a tuple of what Arrow has in its cells.
    with_rows: Shape,
    /// With a timer: a `Row`, as state variables have it.
    with_timer: Shape,
}

impl KeyKind {
    /// A key of these columns.
    pub(super) fn new(py: Python<'_>, columns: &Schema) -> PyResult<Self> {
        let fields = columns.fields();
        Ok(Self { with_rows: Shape::tuple_of_arrow(py, fields)?, with_timer: Shape::record(py, fields, None)? })
    }
}

/// What a row looks like.
pub(super) struct RowKind {
    pub(super) shape: Arc<Shape>,
    pub(super) columns: Vec<String>,
}

/// What a row of the initial state looks like: its columns in the order in which they were given.
pub(super) struct InitialKind {
    pub(super) shape: Arc<Shape>,
    pub(super) schema: SchemaRef,
    /// Where each column lies in what is stored, which begins with the key.
    pub(super) places: Vec<usize>,
}

impl InitialKind {
    /// The rows that the processor is shown, of those that are stored.
    pub(super) fn shown(&self, stored: &RecordBatch) -> Result<RecordBatch> {
        crate::arrow::batch(
            Arc::clone(&self.schema),
            stored.project(&self.places)?.columns().to_vec(),
            stored.num_rows(),
        )
    }
}

/// The keys of one visit.
pub(super) struct Keys<'a> {
    columns: Vec<Decoder>,
    shape: &'a Shape,
    zone: &'a Zone,
}

impl<'a> Keys<'a> {
    /// Those of `visit`. `aware` and `zone`: of times with rows, and with timers.
    pub(super) fn of(kind: &'a KeyKind, visit: &Visit<'_>, aware: &'a Zone, zone: &'a Zone) -> Self {
        let (shape, zone) = match visit.cause {
            Cause::Rows { .. } | Cause::Initial { .. } => (&kind.with_rows, aware),
            Cause::Timers(_) => (&kind.with_timer, zone),
        };
        Self { columns: shape.decoders(visit.keys.columns()), shape, zone }
    }

    /// Key number `number`.
    pub(super) fn get<'py>(&self, py: Python<'py>, number: usize) -> PyResult<Bound<'py, PyAny>> {
        self.shape.decode(&self.columns, py, number, self.zone)
    }
}
