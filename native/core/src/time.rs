//! Times of columns as ms since the epoch, rounded down like Spark's watermark.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType,
};
use arrow_array::{Array, BooleanArray, PrimitiveArray};
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

/// Return which rows of a timestamp or date column are after `limit_ms`, in ms since the epoch rounded down. A null is
/// not.
pub fn after_ms(column: &dyn Array, limit_ms: i64) -> Result<BooleanArray> {
    Ok(match column.data_type() {
        DataType::Date32 => after(column.as_primitive::<Date32Type>(), limit_ms, |day| i64::from(day) * DAY_MS),
        DataType::Timestamp(TimeUnit::Second, _) => {
            after(column.as_primitive::<TimestampSecondType>(), limit_ms, |s| s.saturating_mul(1_000))
        }
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            after(column.as_primitive::<TimestampMillisecondType>(), limit_ms, |ms| ms)
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            after(column.as_primitive::<TimestampMicrosecondType>(), limit_ms, |us| us.div_euclid(1_000))
        }
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            after(column.as_primitive::<TimestampNanosecondType>(), limit_ms, |ns| ns.div_euclid(1_000_000))
        }
        DataType::Null => BooleanArray::from(vec![false; column.len()]),
        other => {
            return Err(Error::InvalidInput(format!("event time must be a timestamp or a date, found {other}")));
        }
    })
}

fn after<T: ArrowPrimitiveType>(
    column: &PrimitiveArray<T>,
    limit_ms: i64,
    to_ms: impl Fn(T::Native) -> i64,
) -> BooleanArray {
    column.iter().map(|value| Some(value.is_some_and(|value| to_ms(value) > limit_ms))).collect()
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Date32Array, NullArray, StringArray, TimestampMicrosecondArray, TimestampSecondArray};

    use super::*;

    fn found(column: &ArrayRef, limit_ms: i64) -> Vec<bool> {
        after_ms(column.as_ref(), limit_ms).unwrap().iter().map(Option::unwrap).collect()
    }

    #[test]
    fn a_time_is_after_the_limit_only_from_the_next_ms_on() {
        let column = TimestampMicrosecondArray::from(vec![Some(5_999), Some(6_000), None, Some(-1), Some(i64::MAX)]);
        assert_eq!(found(&(Arc::new(column) as ArrayRef), 5), [false, true, false, false, true]);
        let before = TimestampMicrosecondArray::from(vec![-1, -1_000, -1_001]);
        assert_eq!(found(&(Arc::new(before) as ArrayRef), -2), [true, true, false]);
    }

    #[test]
    fn seconds_and_days_are_compared_in_ms() {
        assert_eq!(
            found(&(Arc::new(TimestampSecondArray::from(vec![1, 2, i64::MAX])) as ArrayRef), 1_000),
            [false, true, true]
        );
        assert_eq!(found(&(Arc::new(Date32Array::from(vec![0, 1])) as ArrayRef), DAY_MS - 1), [false, true]);
        assert_eq!(found(&(Arc::new(NullArray::new(2)) as ArrayRef), 0), [false, false]);
    }

    #[test]
    fn a_column_without_times_is_refused() {
        assert!(after_ms(&StringArray::from(vec!["now"]), 0).is_err());
    }
}
