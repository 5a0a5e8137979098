//! Time windows: which windows a row falls into, when a window is over. Spark: `TimeWindowing`.
//!
//! A window is its start; it holds the times from there up to its end, which it does not hold. INVARIANT: which windows
//! a row falls into depends on its time alone.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::TimestampMicrosecondType;
use arrow_array::{Array, ArrayRef, RecordBatch, StructArray, TimestampMicrosecondArray, UInt32Array};
use arrow_buffer::BooleanBuffer;
use arrow_schema::{DataType, Field, Fields, TimeUnit};
use arrow_select::take::take_record_batch;

use super::columns::InputColumn;
use super::event_time::expiry_ms;
use crate::ddl::ddl;
use crate::error::{Error, Result};

const MS_US: i64 = 1_000;

/// Windows as declared. Times are microseconds.
#[derive(Clone, Debug)]
pub struct WindowSpec {
    /// The column whose time decides.
    pub column: String,
    /// How long a window is.
    pub size_us: i64,
    /// How far the starts of windows lie apart.
    pub slide_us: i64,
    /// A window starts so long after the epoch.
    pub start_us: i64,
    /// The key column that holds a window's start, and its place among the key columns.
    pub key: (String, usize),
    /// The column of the output that holds start and end.
    pub output: String,
    /// Whether windows end with the watermark, which is over the same column.
    pub ends: Ends,
}

/// What the end of a window is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// Nothing: there is no watermark.
    Never,
    /// The window is forgotten; its row was emitted with every change.
    Forgotten,
    /// The window is emitted, for the first and only time, and forgotten.
    Emitted,
}

/// Windows at work.
#[derive(Debug)]
pub(super) struct Windows {
    spec: WindowSpec,
    column: InputColumn,
}

/// Rows, each once for each open window that it falls into.
pub(super) struct Assigned {
    pub(super) rows: RecordBatch,
    /// The start of the window of each row.
    pub(super) starts: ArrayRef,
    /// Which of the rows given fall into no open window: their windows are over, or they have no time.
    pub(super) outside: Option<BooleanBuffer>,
}

impl Windows {
    /// The windows; `InvalidInput` for a column that is no timestamp.
    pub(super) fn new(operator: &str, input: &arrow_schema::Schema, spec: &WindowSpec) -> Result<Self> {
        let column = InputColumn::find(operator, input, &spec.column)?;
        if matches!(column.data_type, DataType::Timestamp(TimeUnit::Microsecond, _)) {
            return Ok(Self { spec: spec.clone(), column });
        }
        Err(Error::InvalidInput(format!(
            "operator `{operator}` has windows over column `{}`, which is {}, expected a timestamp",
            spec.column,
            ddl(&column.data_type)
        )))
    }

    /// Where the start stands among the key columns.
    pub(super) fn place(&self) -> usize {
        self.spec.key.1
    }

    pub(super) fn ends(&self) -> Ends {
        self.spec.ends
    }

    /// The key column that holds the start.
    pub(super) fn key_field(&self) -> Field {
        Field::new(&self.spec.key.0, self.column.data_type.clone(), true)
    }

    /// The column of the output.
    pub(super) fn output_field(&self) -> Field {
        Field::new(&self.spec.output, DataType::Struct(self.fields()), true)
    }

    fn fields(&self) -> Fields {
        ["start", "end"].iter().map(|name| Field::new(*name, self.column.data_type.clone(), true)).collect()
    }

    /// The windows of each row that are not over at `late_ms`.
    pub(super) fn assign(&self, operator: &str, rows: &RecordBatch, late_ms: Option<i64>) -> Result<Assigned> {
        let times = self.column.of(operator, rows)?;
        let times = times.as_primitive::<TimestampMicrosecondType>();
        let over_us = match (self.spec.ends, late_ms) {
            (Ends::Never, _) | (_, None) => i64::MIN,
            (_, Some(late_ms)) => late_ms.saturating_mul(MS_US),
        };
        let (mut picks, mut starts) = (Vec::with_capacity(times.len()), Vec::with_capacity(times.len()));
        let mut outside = vec![true; times.len()];
        for (row, time_us) in (0u32..).zip(times) {
            let Some(time_us) = time_us else { continue };
            let mut start_us = time_us - (time_us - self.spec.start_us).rem_euclid(self.spec.slide_us);
            while start_us + self.spec.size_us > time_us {
                if start_us + self.spec.size_us > over_us {
                    picks.push(row);
                    starts.push(start_us);
                    outside[row as usize] = false;
                }
                start_us -= self.spec.slide_us;
            }
        }
        let rows = take_record_batch(rows, &UInt32Array::from(picks))?;
        let outside = BooleanBuffer::from(outside);
        Ok(Assigned { rows, starts: self.times(starts), outside: (outside.count_set_bits() > 0).then_some(outside) })
    }

    /// Start and end of each window.
    pub(super) fn shown(&self, starts: &ArrayRef) -> Result<ArrayRef> {
        let ends = starts.as_primitive::<TimestampMicrosecondType>().unary(|us: i64| us + self.spec.size_us);
        let ends: TimestampMicrosecondArray = ends;
        let ends = Arc::new(ends.with_data_type(self.column.data_type.clone()));
        Ok(Arc::new(StructArray::try_new(self.fields(), vec![starts.clone(), ends], None)?))
    }

    /// The first ms of the watermark at which each window is over.
    pub(super) fn deadlines(&self, starts: &ArrayRef) -> Result<Vec<Option<i64>>> {
        if self.spec.ends == Ends::Never {
            return Ok(vec![None; starts.len()]);
        }
        let ends = self.shown(starts)?;
        Ok(expiry_ms(ends.as_struct().column(1).as_ref(), 0)?.iter().collect())
    }

    fn times(&self, us: Vec<i64>) -> ArrayRef {
        Arc::new(TimestampMicrosecondArray::from(us).with_data_type(self.column.data_type.clone()))
    }
}
