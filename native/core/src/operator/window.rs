//! Time windows: which windows a row falls into, and when a window ends. See Spark's `TimeWindowing`.
//!
//! A window includes its start and excludes its end. Its start identifies it; windows that an upstream operator emitted
//! are identified by start and end. INVARIANT: which windows a row falls into depends only on its time.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::TimestampMicrosecondType;
use arrow_array::{ArrayRef, RecordBatch, StructArray, TimestampMicrosecondArray, UInt32Array};
use arrow_buffer::BooleanBuffer;
use arrow_schema::{DataType, Field, Fields};
use arrow_select::take::{take, take_record_batch};

use super::columns::InputColumn;
use super::event_time::{expiry_ms, time_column, times_us};
use crate::ddl::ddl;
use crate::error::{Error, Result};

const MS_US: i64 = 1_000;

/// Times further than this from 1970, some 73,000 years, fall into no window, because writers use the least and the
/// greatest time for "never". No duration is longer, so the sum of a time and a duration fits into 64 bits.
const FAR_US: i64 = 1 << 61;

/// The declaration of windows. Times are in microseconds.
#[derive(Clone, Debug)]
pub struct WindowSpec {
    /// The column whose time assigns rows to windows.
    pub column: String,
    /// Which windows there are.
    pub cut: Cut,
    /// The key columns for a window's start and, if windows are read from a column, its end.
    pub key: [String; 2],
    /// The place of these key columns, and of the window in the output, among the key columns.
    pub place: usize,
    /// The column of the output that holds start and end.
    pub output: String,
    /// What happens when the watermark, which is over the same column, reaches the end of a window.
    pub ends: Ends,
}

/// How windows are defined. Times are in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Windows of one size, adjacent or overlapping.
    Every {
        /// The size of a window.
        size_us: i64,
        /// The distance between the starts of windows.
        slide_us: i64,
        /// The offset of the first window from the epoch.
        start_us: i64,
    },
    /// The windows that the column holds.
    AsGiven,
}

/// What happens at the end of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// Nothing, because there is no watermark.
    Never,
    /// The window is forgotten. Its row was emitted with every change.
    Forgotten,
    /// The window is emitted for the first and only time, and forgotten.
    Emitted,
}

/// Windows in operation.
#[derive(Debug)]
pub(super) struct Windows {
    spec: WindowSpec,
    column: InputColumn,
    time_type: DataType,
}

/// Rows, repeated for each open window that they fall into.
pub(super) struct Assigned {
    pub(super) rows: RecordBatch,
    /// The window of each row, as key columns.
    pub(super) keys: Vec<ArrayRef>,
    /// Which of the given rows fall into no open window: their windows have ended, or they have no time or one beyond
    /// all windows.
    pub(super) outside: Option<BooleanBuffer>,
    /// The given row of each.
    pub(super) made_of: UInt32Array,
}

impl Windows {
    /// Create the windows; `InvalidInput` for a column that holds neither timestamps nor windows.
    pub(super) fn new(operator: &str, input: &arrow_schema::Schema, spec: &WindowSpec) -> Result<Self> {
        let (column, time_type) = time_column(operator, input, &spec.column, "windows")?;
        if spec.cut == Cut::AsGiven && column.data_type == time_type {
            return Err(Error::InvalidInput(format!(
                "operator `{operator}` reads windows from column `{}`, which is {}, expected windows",
                spec.column,
                ddl(&column.data_type)
            )));
        }
        if let Cut::Every { size_us, slide_us, start_us } = spec.cut
            && !((1..=size_us).contains(&slide_us)
                && size_us <= FAR_US
                && start_us.checked_abs().is_some_and(|us| us < slide_us))
        {
            return Err(Error::InvalidInput(format!(
                "operator `{operator}` has windows of {size_us} µs with a slide of {slide_us} µs and a start time of \
                 {start_us} µs; expected a size of at most {FAR_US} µs, a slide no longer than the size, and a start time \
                 shorter than the slide"
            )));
        }
        Ok(Self { spec: spec.clone(), column, time_type })
    }

    /// The place of the window's key columns, and of the window in the output, among the key columns.
    pub(super) fn place(&self) -> usize {
        self.spec.place
    }

    pub(super) fn ends(&self) -> Ends {
        self.spec.ends
    }

    /// Return the key columns that identify a window.
    pub(super) fn key_fields(&self) -> Vec<Field> {
        let count = if self.spec.cut == Cut::AsGiven { 2 } else { 1 };
        self.spec.key[..count].iter().map(|name| Field::new(name, self.time_type.clone(), true)).collect()
    }

    /// Return the column of the output.
    pub(super) fn output_field(&self) -> Field {
        Field::new(&self.spec.output, DataType::Struct(self.fields()), true)
    }

    fn fields(&self) -> Fields {
        ["start", "end"].iter().map(|name| Field::new(*name, self.time_type.clone(), true)).collect()
    }

    /// Return the windows of each row that have not ended at `late_ms`.
    pub(super) fn assign(&self, operator: &str, rows: &RecordBatch, late_ms: Option<i64>) -> Result<Assigned> {
        let column = self.column.of(operator, rows)?;
        let times = times_us(column.as_ref())?;
        let over_us = match (self.spec.ends, late_ms) {
            (Ends::Never, _) | (_, None) => i64::MIN,
            (_, Some(late_ms)) => late_ms.saturating_mul(MS_US),
        };
        let (picks, starts) = match self.spec.cut {
            Cut::Every { size_us, slide_us, start_us } => {
                open_windows_of(&times, (size_us, slide_us, start_us), over_us)
            }
            Cut::AsGiven => {
                let is_open = |(_, last_us): &(u32, Option<i64>)| last_us.is_some_and(|us| us >= over_us);
                ((0u32..).zip(&times).filter(is_open).map(|(row, _)| row).collect(), Vec::new())
            }
        };
        let mut outside = vec![true; times.len()];
        picks.iter().for_each(|&row| outside[row as usize] = false);
        let picks = UInt32Array::from(picks);
        let keys = match self.spec.cut {
            Cut::Every { .. } => vec![self.times(starts)],
            Cut::AsGiven => {
                column.as_struct().columns().iter().map(|part| Ok(take(part, &picks, None)?)).collect::<Result<_>>()?
            }
        };
        let outside = BooleanBuffer::from(outside);
        let rows = take_record_batch(rows, &picks)?;
        let outside = (outside.count_set_bits() > 0).then_some(outside);
        Ok(Assigned { rows, keys, outside, made_of: picks })
    }

    /// Return start and end of each window, from its key columns.
    pub(super) fn shown(&self, keys: &[ArrayRef]) -> Result<ArrayRef> {
        let (starts, ends) = match (self.spec.cut, keys) {
            (Cut::AsGiven, [starts, ends]) => (starts.clone(), ends.clone()),
            (Cut::Every { size_us, .. }, [starts]) => {
                let of = starts.as_primitive::<TimestampMicrosecondType>();
                let ends: TimestampMicrosecondArray = of.unary(|us: i64| us + size_us);
                (starts.clone(), Arc::new(ends.with_data_type(self.time_type.clone())) as ArrayRef)
            }
            _ => return Err(Error::InternalError(format!("windows have {} key columns", keys.len()))),
        };
        Ok(Arc::new(StructArray::try_new(self.fields(), vec![starts, ends], None)?))
    }

    /// Return the first ms of the watermark at which each window ends.
    pub(super) fn deadlines(&self, keys: &[ArrayRef], rows: usize) -> Result<Vec<Option<i64>>> {
        if self.spec.ends == Ends::Never {
            return Ok(vec![None; rows]);
        }
        Ok(expiry_ms(self.shown(keys)?.as_ref(), 0)?.iter().collect())
    }

    fn times(&self, us: Vec<i64>) -> ArrayRef {
        Arc::new(TimestampMicrosecondArray::from(us).with_data_type(self.time_type.clone()))
    }
}

/// Return the row and the window's start, for each row and each open window that its time falls into.
fn open_windows_of(times: &TimestampMicrosecondArray, cut: (i64, i64, i64), over_us: i64) -> (Vec<u32>, Vec<i64>) {
    let (size_us, slide_us, first_us) = cut;
    let (mut picks, mut starts) = (Vec::with_capacity(times.len()), Vec::with_capacity(times.len()));
    for (row, time_us) in (0u32..).zip(times) {
        let Some(time_us) = time_us.filter(|us| (-FAR_US..=FAR_US).contains(us)) else { continue };
        let mut start_us = time_us - (time_us - first_us).rem_euclid(slide_us);
        while start_us + size_us > time_us {
            if start_us + size_us > over_us {
                picks.push(row);
                starts.push(start_us);
            }
            start_us -= slide_us;
        }
    }
    (picks, starts)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_US: i64 = 3_600_000_000;

    fn starts(times: &[i64], cut: (i64, i64, i64), over_us: i64) -> (Vec<u32>, Vec<i64>) {
        open_windows_of(&TimestampMicrosecondArray::from(times.to_vec()), cut, over_us)
    }

    #[test]
    fn a_time_beyond_all_windows_falls_into_none() {
        let hours = (HOUR_US, HOUR_US, 0);
        let far = [i64::MIN, i64::MIN + HOUR_US, -FAR_US - 1, FAR_US + 1, i64::MAX - HOUR_US, i64::MAX];
        assert_eq!(starts(&far, hours, i64::MIN), (vec![], vec![]));
        assert_eq!(starts(&[i64::MIN, 5, i64::MAX], hours, i64::MIN), (vec![1], vec![0]));
    }

    #[test]
    fn the_furthest_windows_hold_the_furthest_times() {
        for (size_us, slide_us) in [(HOUR_US, HOUR_US), (FAR_US, FAR_US), (FAR_US, FAR_US - 1), (3, 1)] {
            let (picks, starts) = starts(&[-FAR_US, FAR_US], (size_us, slide_us, slide_us - 1), i64::MIN);
            assert!(picks.contains(&0) && picks.contains(&1));
            for (row, start_us) in picks.into_iter().zip(starts) {
                let time_us = [-FAR_US, FAR_US][row as usize];
                assert!(start_us <= time_us && time_us < start_us + size_us, "{size_us} by {slide_us}: {start_us}");
            }
        }
    }
}
