//! Times of columns as ms since the epoch, rounded down like Spark's watermark.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType,
};
use arrow_array::{Array, PrimitiveArray};
use arrow_schema::{DataType, TimeUnit};

use crate::error::{Error, Result};

const DAY_MS: i64 = 86_400_000;

/// Return the (least, greatest) time of a timestamp or date column in ms since the epoch, rounded down; `None` if all
/// are null.
pub fn bounds_ms(column: &dyn Array) -> Result<Option<(i64, i64)>> {
    Ok(match column.data_type() {
        DataType::Date32 => bounds(column.as_primitive::<Date32Type>(), |day| i64::from(day) * DAY_MS),
        DataType::Timestamp(TimeUnit::Second, _) => {
            bounds(column.as_primitive::<TimestampSecondType>(), |s| s.saturating_mul(1_000))
        }
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            bounds(column.as_primitive::<TimestampMillisecondType>(), |ms| ms)
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            bounds(column.as_primitive::<TimestampMicrosecondType>(), |us| us.div_euclid(1_000))
        }
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            bounds(column.as_primitive::<TimestampNanosecondType>(), |ns| ns.div_euclid(1_000_000))
        }
        DataType::Null => None,
        other => {
            return Err(Error::InvalidInput(format!("event time must be a timestamp or a date, found {other}")));
        }
    })
}

fn bounds<T: ArrowPrimitiveType>(column: &PrimitiveArray<T>, to_ms: impl Fn(T::Native) -> i64) -> Option<(i64, i64)>
where
    T::Native: Ord,
{
    let (mut least, mut greatest) = (None, None);
    if column.null_count() == 0 {
        least = column.values().iter().min().copied();
        greatest = column.values().iter().max().copied();
    } else {
        for value in column.iter().flatten() {
            least = Some(least.map_or(value, |found: T::Native| found.min(value)));
            greatest = Some(greatest.map_or(value, |found: T::Native| found.max(value)));
        }
    }
    least.zip(greatest).map(|(least, greatest)| (to_ms(least), to_ms(greatest)))
}
