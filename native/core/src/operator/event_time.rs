//! Event times of rows, and which rows are late. A null event time is never late. A time in ms is rounded down where it
//! moves the watermark, and rounded up where it is compared with the watermark.

use arrow_array::cast::AsArray;
use arrow_array::types::{Date32Type, TimestampMicrosecondType, TimestampMillisecondType};
use arrow_array::{Array, BooleanArray, Int64Array, RecordBatch, TimestampMicrosecondArray};
use arrow_buffer::{BooleanBuffer, NullBuffer};
use arrow_schema::{DataType, Schema, TimeUnit};
use arrow_select::filter::filter_record_batch;

use super::columns::InputColumn;
use crate::ddl::ddl;
use crate::error::{Error, Result};

const DAY_MS: i64 = 86_400_000;

/// Whether a column of this type can be an event time.
fn is_event_time(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Date32 | DataType::Timestamp(TimeUnit::Microsecond | TimeUnit::Millisecond, _))
        || window_time(data_type).is_some()
}

/// Return the type of start and end, if a column holds windows as operators emit them.
fn window_time(data_type: &DataType) -> Option<&DataType> {
    let DataType::Struct(fields) = data_type else { return None };
    let [start, end] = fields.as_ref() else { return None };
    let is_time = matches!(start.data_type(), DataType::Timestamp(TimeUnit::Microsecond, _));
    (is_time && start.data_type() == end.data_type() && start.name() == "start" && end.name() == "end")
        .then(|| start.data_type())
}

/// Return the times by which rows fall into windows, in microseconds. The time of a window is its last microsecond.
pub(super) fn times_us(column: &dyn Array) -> Result<TimestampMicrosecondArray> {
    match column.data_type() {
        DataType::Timestamp(TimeUnit::Microsecond, _) => Ok(column.as_primitive().clone()),
        _ => Ok(ends_of(column)?.unary(|end_us: i64| end_us.saturating_sub(1))),
    }
}

/// Return the end of each window; null for a null.
fn ends_of(column: &dyn Array) -> Result<TimestampMicrosecondArray> {
    if window_time(column.data_type()).is_none() {
        return Err(Error::InternalError(format!("a time column has type {}", column.data_type())));
    }
    let ends = column.as_struct().column(1).as_primitive::<TimestampMicrosecondType>();
    let nulls = NullBuffer::union(column.nulls(), ends.nulls());
    Ok(TimestampMicrosecondArray::new(ends.values().clone(), nulls))
}

/// Return the column `name`, over which `what` is defined, and its time type; `InvalidInput` if it is missing, or
/// neither a timestamp nor a window.
pub(super) fn time_column(operator: &str, input: &Schema, name: &str, what: &str) -> Result<(InputColumn, DataType)> {
    let column = InputColumn::find(operator, input, name)?;
    let found = match &column.data_type {
        timestamp @ DataType::Timestamp(TimeUnit::Microsecond, _) => Some(timestamp),
        other => window_time(other),
    };
    match found.cloned() {
        Some(time_type) => Ok((column, time_type)),
        None => Err(Error::InvalidInput(format!(
            "operator `{operator}` has {what} over column `{name}`, which is {}, expected a timestamp",
            ddl(&column.data_type)
        ))),
    }
}

/// Return a column in ms since the epoch. The time of a window is its end.
pub(super) fn event_times_ms(column: &dyn Array) -> Result<Int64Array> {
    match column.data_type() {
        DataType::Date32 => Ok(column.as_primitive::<Date32Type>().unary(|day| i64::from(day) * DAY_MS)),
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            Ok(column.as_primitive::<TimestampMicrosecondType>().unary(|us| us.div_euclid(1_000)))
        }
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            Ok(column.as_primitive::<TimestampMillisecondType>().unary(|ms| ms))
        }
        DataType::Struct(_) => event_times_ms(&ends_of(column)?),
        other => Err(Error::InternalError(format!("an event time column has type {other}"))),
    }
}

/// Return the first ms that is not before a column's time plus `after_ms`; null for a null.
pub(super) fn expiry_ms(column: &dyn Array, after_ms: i64) -> Result<Int64Array> {
    let times_ms = match column.data_type() {
        DataType::Timestamp(TimeUnit::Microsecond, _) => column
            .as_primitive::<TimestampMicrosecondType>()
            .unary(|us| us.div_euclid(1_000) + i64::from(us % 1_000 != 0)),
        DataType::Struct(_) => expiry_ms(&ends_of(column)?, 0)?,
        _ => event_times_ms(column)?,
    };
    Ok(times_ms.unary(|ms: i64| ms.saturating_add(after_ms)))
}

/// Return the event time column `name` of an operator's input; `InvalidInput` if it is missing or not a time.
pub(super) fn event_time_column(operator: &str, input: &Schema, name: &str) -> Result<InputColumn> {
    let column = InputColumn::find(operator, input, name)?;
    if is_event_time(&column.data_type) {
        return Ok(column);
    }
    Err(Error::InvalidInput(format!(
        "operator `{operator}` reads event time from column `{name}`, which is {}, expected a timestamp or a date",
        ddl(&column.data_type)
    )))
}

/// Return the rows that are not late, and which of the given rows are. `column` is the place of the event time.
pub(super) fn without_late(
    rows: RecordBatch,
    column: Option<usize>,
    late_ms: Option<i64>,
) -> Result<(RecordBatch, Option<BooleanBuffer>)> {
    let (Some(column), Some(late_ms)) = (column, late_ms) else { return Ok((rows, None)) };
    let late = late_rows(rows.column(column).as_ref(), late_ms)?;
    Ok((without(rows, late.as_ref())?, late))
}

/// Return the rows that are not late.
pub(super) fn without(rows: RecordBatch, late: Option<&BooleanBuffer>) -> Result<RecordBatch> {
    match late {
        None => Ok(rows),
        Some(late) => Ok(filter_record_batch(&rows, &BooleanArray::new(!late, None))?),
    }
}

/// Return which rows are at or before `late_ms`, to the microsecond; `None` if no row is.
pub(super) fn late_rows(column: &dyn Array, late_ms: i64) -> Result<Option<BooleanBuffer>> {
    let times_ms = expiry_ms(column, 0)?;
    let values = times_ms.values();
    let late = BooleanBuffer::collect_bool(values.len(), |row| values[row] <= late_ms);
    let late = match times_ms.nulls() {
        None => late,
        Some(nulls) => &late & nulls.inner(),
    };
    Ok((late.count_set_bits() > 0).then_some(late))
}
