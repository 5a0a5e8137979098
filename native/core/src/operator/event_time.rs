//! Event times of rows in ms since the epoch, floored, and which rows are late. A null event time is never late.

use arrow_array::cast::AsArray;
use arrow_array::types::{Date32Type, TimestampMicrosecondType, TimestampMillisecondType};
use arrow_array::{Array, BooleanArray, Int64Array, RecordBatch};
use arrow_buffer::BooleanBuffer;
use arrow_schema::{DataType, Schema, TimeUnit};
use arrow_select::filter::filter_record_batch;

use super::columns::InputColumn;
use crate::ddl::ddl;
use crate::error::{Error, Result};

const DAY_MS: i64 = 86_400_000;

/// Whether a column of this type can be an event time.
fn is_event_time(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Date32 | DataType::Timestamp(TimeUnit::Microsecond | TimeUnit::Millisecond, _))
}

/// The column in ms since the epoch.
pub(super) fn event_times_ms(column: &dyn Array) -> Result<Int64Array> {
    match column.data_type() {
        DataType::Date32 => Ok(column.as_primitive::<Date32Type>().unary(|day| i64::from(day) * DAY_MS)),
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            Ok(column.as_primitive::<TimestampMicrosecondType>().unary(|us| us.div_euclid(1_000)))
        }
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            Ok(column.as_primitive::<TimestampMillisecondType>().unary(|ms| ms))
        }
        other => Err(Error::InternalError(format!("an event time column has type {other}"))),
    }
}

/// The first ms that is not before a column's time plus `after_ms`; null for a null.
pub(super) fn expiry_ms(column: &dyn Array, after_ms: i64) -> Result<Int64Array> {
    let times_ms = match column.data_type() {
        DataType::Timestamp(TimeUnit::Microsecond, _) => column
            .as_primitive::<TimestampMicrosecondType>()
            .unary(|us| us.div_euclid(1_000) + i64::from(us % 1_000 != 0)),
        _ => event_times_ms(column)?,
    };
    Ok(times_ms.unary(|ms: i64| ms.saturating_add(after_ms)))
}

/// The event time column `name` of an operator's input; `InvalidInput` where it is missing, or no time.
pub(super) fn event_time_column(operator: &str, input: &Schema, name: &str) -> Result<InputColumn> {
    let column = InputColumn::find(operator, input, name)?;
    if is_event_time(&column.data_type) {
        return Ok(column);
    }
    Err(Error::InvalidInput(format!(
        "operator `{operator}` takes event time from column `{name}`, which is {}, expected a timestamp or a date",
        ddl(&column.data_type)
    )))
}

/// The rows that are not late, and which of those given were; `column` is the place of the event time.
pub(super) fn without_late(
    rows: RecordBatch,
    column: Option<usize>,
    late_ms: Option<i64>,
) -> Result<(RecordBatch, Option<BooleanBuffer>)> {
    let (Some(column), Some(late_ms)) = (column, late_ms) else { return Ok((rows, None)) };
    let late = late_rows(rows.column(column).as_ref(), late_ms)?;
    let kept = match &late {
        None => rows,
        Some(late) => filter_record_batch(&rows, &BooleanArray::new(!late, None))?,
    };
    Ok((kept, late))
}

/// Which rows are at or before `late_ms`, to the microsecond; `None`: none is.
fn late_rows(column: &dyn Array, late_ms: i64) -> Result<Option<BooleanBuffer>> {
    let times_ms = expiry_ms(column, 0)?;
    let values = times_ms.values();
    let late = BooleanBuffer::collect_bool(values.len(), |row| values[row] <= late_ms);
    let late = match times_ms.nulls() {
        None => late,
        Some(nulls) => &late & nulls.inner(),
    };
    Ok((late.count_set_bits() > 0).then_some(late))
}
