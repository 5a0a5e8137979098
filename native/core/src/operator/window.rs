//! Time windows: which windows a row falls into, when a window is over. Spark: `TimeWindowing`.
//!
//! A window holds the times from its start up to its end, which it does not hold; it is known by its start, or, where it
//! is given by an operator before, by both. INVARIANT: which windows a row falls into depends on its time alone.

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

/// Times further from 1970, some 73,000 years, fall into no window: writers mean "never" by the least and the greatest.
/// No duration is longer, so that a time and a duration add up in 64 bits.
const FAR_US: i64 = 1 << 61;

/// Windows as declared. Times are microseconds.
#[derive(Clone, Debug)]
pub struct WindowSpec {
    /// The column whose time decides.
    pub column: String,
    /// Which windows there are.
    pub cut: Cut,
    /// The key columns that hold a window's start and, where it is given, its end.
    pub key: [String; 2],
    /// Where they, and the windows of the output, stand among the key columns.
    pub place: usize,
    /// The column of the output that holds start and end.
    pub output: String,
    /// Whether windows end with the watermark, which is over the same column.
    pub ends: Ends,
}

/// Which windows there are. Times are microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Windows of one size, one after the other or overlapping.
    Every {
        /// How long a window is.
        size_us: i64,
        /// How far the starts of windows lie apart.
        slide_us: i64,
        /// A window starts so long after the epoch.
        start_us: i64,
    },
    /// Those that the column holds.
    AsGiven,
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
    time_type: DataType,
}

/// Rows, each once for each open window that it falls into.
pub(super) struct Assigned {
    pub(super) rows: RecordBatch,
    /// The window of each row, as key columns.
    pub(super) keys: Vec<ArrayRef>,
    /// Which of the rows given fall into no open window: their windows are over, or they have no time, or one
    /// beyond all windows.
    pub(super) outside: Option<BooleanBuffer>,
}

impl Windows {
    /// The windows; `InvalidInput` for a column that is neither a timestamp nor windows.
    pub(super) fn new(operator: &str, input: &arrow_schema::Schema, spec: &WindowSpec) -> Result<Self> {
        let (column, time_type) = time_column(operator, input, &spec.column, "windows")?;
        if spec.cut == Cut::AsGiven && column.data_type == time_type {
            return Err(Error::InvalidInput(format!(
                "operator `{operator}` takes windows from column `{}`, which is {}, expected windows",
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
                "operator `{operator}` has windows of {size_us} µs by {slide_us} µs from {start_us} µs, expected at most \
                 {FAR_US} µs, by a slide that is no longer, from a start that is less than the slide"
            )));
        }
        Ok(Self { spec: spec.clone(), column, time_type })
    }

    /// Where the key columns, and the windows of the output, stand among the key columns.
    pub(super) fn place(&self) -> usize {
        self.spec.place
    }

    pub(super) fn ends(&self) -> Ends {
        self.spec.ends
    }

    /// The key columns that a window is known by.
    pub(super) fn key_fields(&self) -> Vec<Field> {
        let count = if self.spec.cut == Cut::AsGiven { 2 } else { 1 };
        self.spec.key[..count].iter().map(|name| Field::new(name, self.time_type.clone(), true)).collect()
    }

    /// The column of the output.
    pub(super) fn output_field(&self) -> Field {
        Field::new(&self.spec.output, DataType::Struct(self.fields()), true)
    }

    fn fields(&self) -> Fields {
        ["start", "end"].iter().map(|name| Field::new(*name, self.time_type.clone(), true)).collect()
    }

    /// The windows of each row that are not over at `late_ms`.
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
        Ok(Assigned { rows, keys, outside: (outside.count_set_bits() > 0).then_some(outside) })
    }

    /// Start and end of each window, which has these key columns.
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

    /// The first ms of the watermark at which each window is over.
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

/// For each row and each open window that its time falls into: the row, and the window's start.
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
