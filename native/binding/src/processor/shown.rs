//! The arguments of a processor's calls: keys, rows, and rows of the initial state.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{Schema, SchemaRef};
use pyo3::prelude::*;
use tidemill_core::Result;
use tidemill_core::operator::{Cause, ProcessorVisit as Visit};

use crate::value::{Decoder, Shape, Zone};

/// The shapes of a key. As in Spark, they differ between calls with rows and calls with a timer.
pub(super) struct KeyKind {
    /// With rows: a tuple with Arrow's types.
    with_rows: Shape,
    /// With a timer: a `Row` with the types of variables.
    with_timer: Shape,
}

impl KeyKind {
    /// Make the shapes of a key with these columns.
    pub(super) fn new(py: Python<'_>, columns: &Schema) -> PyResult<Self> {
        let fields = columns.fields();
        Ok(Self { with_rows: Shape::tuple_of_arrow(py, fields)?, with_timer: Shape::record(py, fields, None)? })
    }
}

/// The shape of a row.
pub(super) struct RowKind {
    pub(super) shape: Arc<Shape>,
    pub(super) columns: Vec<String>,
}

/// The shape of a row of the initial state: its columns in the order in which the user gave them.
pub(super) struct InitialKind {
    pub(super) shape: Arc<Shape>,
    pub(super) schema: SchemaRef,
    /// The position of each column among the stored columns, which begin with the key.
    pub(super) places: Vec<usize>,
}

impl InitialKind {
    /// Convert stored rows to the rows that the processor is given.
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
    /// Make the keys of a visit. `aware` is the time zone for calls with rows, `zone` for calls with a timer.
    pub(super) fn of(kind: &'a KeyKind, visit: &Visit<'_>, aware: &'a Zone, zone: &'a Zone) -> Self {
        let (shape, zone) = match visit.cause {
            Cause::Rows { .. } | Cause::Initial { .. } => (&kind.with_rows, aware),
            Cause::Timers(_) => (&kind.with_timer, zone),
        };
        Self { columns: shape.decoders(visit.keys.columns()), shape, zone }
    }

    /// Return key number `number`.
    pub(super) fn get<'py>(&self, py: Python<'py>, number: usize) -> PyResult<Bound<'py, PyAny>> {
        self.shape.decode(&self.columns, py, number, self.zone)
    }
}
