//! Arrays of a file as arrays of a schema: widened, rebased to today's calendar, with fields in the schema's order.
//!
//! INVARIANT: each value is exact; a value that its type cannot hold makes the file unreadable.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Decimal128Type, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type,
    Int32Type, Int64Type, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{
    Array, ArrayRef, BinaryArray, ListArray, MapArray, PrimitiveArray, RecordBatch, RecordBatchOptions, StringArray,
    StructArray, new_null_array,
};
use arrow_schema::{DataType, Field, SchemaRef, TimeUnit};

use super::fit::{Chosen, is_in_days, named, type_name};
use super::old_calendar::{OldCalendar, Stored};
use crate::error::{ReadError, Result, Unreadable};
use crate::text::column::internal;

const DAY_US: i64 = 86_400_000_000;

/// Return a batch of a file in the columns of the schema.
pub(super) fn columns(
    batch: &RecordBatch,
    schema: &SchemaRef,
    chosen: &Chosen,
    calendar: &OldCalendar,
) -> Result<RecordBatch> {
    let mut made = Vec::with_capacity(chosen.names.len());
    for (field, name) in schema.fields().iter().zip(&chosen.names) {
        let column = name.as_ref().and_then(|name| batch.column_by_name(name));
        let array = match column {
            None => new_null_array(field.data_type(), batch.num_rows()),
            Some(array) => adapted(array, field, calendar).map_err(|error| named_column(error, field.name()))?,
        };
        if !field.is_nullable() && array.null_count() > 0 {
            return Err(named_column(no_value(), field.name()));
        }
        made.push(array);
    }
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::clone(schema), made, &options).map_err(internal)
}

fn named_column(error: ReadError, name: &str) -> ReadError {
    match error {
        ReadError::Content(found) => Unreadable::file(format!("column `{name}`: {}", found.reason)).into(),
        other => other,
    }
}

fn adapted(array: &ArrayRef, field: &Field, calendar: &OldCalendar) -> Result<ArrayRef> {
    let made = match (array.data_type(), field.data_type()) {
        (DataType::Null, wanted) => new_null_array(wanted, array.len()),
        (DataType::Struct(_), DataType::Struct(wanted)) => {
            let given = array.as_struct();
            let mut children = Vec::with_capacity(wanted.len());
            for field in wanted {
                let named = named(given.fields(), field.name());
                children.push(match named.map_err(|_| unexpected(array, field))? {
                    None => new_null_array(field.data_type(), array.len()),
                    Some((place, _)) => adapted(given.column(place), field, calendar)?,
                });
            }
            Arc::new(StructArray::try_new(wanted.clone(), children, given.nulls().cloned()).map_err(refused)?)
        }
        (DataType::List(_), DataType::List(item)) => {
            let given = array.as_list::<i32>();
            let values = adapted(given.values(), item, calendar)?;
            let made = ListArray::try_new(Arc::clone(item), given.offsets().clone(), values, given.nulls().cloned());
            Arc::new(made.map_err(refused)?)
        }
        (DataType::Map(_, _), DataType::Map(entries, sorted)) => {
            let DataType::Struct(pair) = entries.data_type() else { return Err(unexpected(array, field)) };
            let given = array.as_map();
            let keys = adapted(given.keys(), &pair[0], calendar)?;
            let values = adapted(given.values(), &pair[1], calendar)?;
            let pairs = StructArray::try_new(pair.clone(), vec![keys, values], None).map_err(refused)?;
            let offsets = given.offsets().clone();
            let made = MapArray::try_new(Arc::clone(entries), offsets, pairs, given.nulls().cloned(), *sorted);
            Arc::new(made.map_err(refused)?)
        }
        _ => leaf(array, field, calendar)?,
    };
    Ok(made)
}

fn no_value() -> ReadError {
    Unreadable::file("found a null, expected a value, because it is declared not null").into()
}

/// A null for a field that has none, for example: the file does not keep what it says of itself.
#[expect(clippy::needless_pass_by_value, reason = "it is an argument of `map_err`")]
fn refused(error: arrow_schema::ArrowError) -> ReadError {
    let why = error.to_string();
    if why.contains("non-nullable") { no_value() } else { Unreadable::file(why).into() }
}

fn unexpected(array: &ArrayRef, field: &Field) -> ReadError {
    ReadError::Internal(format!("cannot read {} as {}", array.data_type(), field.data_type()))
}

fn leaf(array: &ArrayRef, field: &Field, calendar: &OldCalendar) -> Result<ArrayRef> {
    use DataType as T;
    let made: ArrayRef = match (array.data_type(), field.data_type()) {
        (T::Date32, T::Date32) if calendar.has_old_dates() => {
            Arc::new(array.as_primitive::<Date32Type>().unary::<_, Date32Type>(|days| calendar.days(days)))
        }
        (T::Date32, T::Timestamp(_, None)) => {
            let days = array.as_primitive::<Date32Type>();
            let micros = |days| i64::from(calendar.days(days)).checked_mul(DAY_US).ok_or_else(too_late);
            Arc::new(days.try_unary::<_, TimestampMicrosecondType, ReadError>(micros)?)
        }
        (T::Timestamp(unit, from), T::Timestamp(_, zone)) => {
            let mut micros = micros(array, *unit)?;
            if zone.is_some() {
                let stored = if is_in_days(from.as_deref()) { Stored::InDays } else { Stored::InUnits };
                micros = calendar.micros(micros, stored);
            }
            Arc::new(micros.with_timezone_opt(zone.clone()))
        }
        (T::Decimal128(precision, scale), T::Decimal128(wanted, to)) => {
            let given = array.as_primitive::<Decimal128Type>();
            check_digits(given, *precision, *scale)?;
            let factor = power(*to - *scale);
            let made = given.unary::<_, Decimal128Type>(|value| value.wrapping_mul(factor));
            Arc::new(made.with_precision_and_scale(*wanted, *to).map_err(internal)?)
        }
        (T::Utf8, T::Utf8) => {
            // The library checks only text that has the older of two marks.
            let given = array.as_string::<i32>();
            let made = StringArray::try_new(given.offsets().clone(), given.values().clone(), given.nulls().cloned());
            Arc::new(made.map_err(|_| not_utf8())?)
        }
        (found, wanted) if found == wanted => Arc::clone(array),
        (T::UInt64, T::Decimal128(precision, scale)) => {
            let made = array
                .as_primitive::<UInt64Type>()
                .unary::<_, Decimal128Type>(|value| i128::from(value) * power(*scale));
            Arc::new(made.with_precision_and_scale(*precision, *scale).map_err(internal)?)
        }
        (T::Float16, T::Float32) => Arc::new(array.as_primitive::<Float16Type>().unary::<_, Float32Type>(f32::from)),
        (T::Float16, T::Float64) => Arc::new(array.as_primitive::<Float16Type>().unary::<_, Float64Type>(f64::from)),
        (T::Float32, T::Float64) => Arc::new(array.as_primitive::<Float32Type>().unary::<_, Float64Type>(f64::from)),
        (T::Binary, T::Utf8) => {
            let given = array.as_binary::<i32>();
            let made = StringArray::try_new(given.offsets().clone(), given.values().clone(), given.nulls().cloned());
            Arc::new(made.map_err(|_| not_utf8())?)
        }
        (T::Utf8, T::Binary) => {
            let given = array.as_string::<i32>();
            let made = BinaryArray::try_new(given.offsets().clone(), given.values().clone(), given.nulls().cloned());
            Arc::new(made.map_err(internal)?)
        }
        (T::FixedSizeBinary(_), T::Binary) => Arc::new(array.as_fixed_size_binary().iter().collect::<BinaryArray>()),
        (_, wanted) => {
            let Some(whole) = integers(array) else { return Err(unexpected(array, field)) };
            widened(&whole, wanted).ok_or_else(|| unexpected(array, field))??
        }
    };
    Ok(made)
}

fn not_utf8() -> ReadError {
    Unreadable::file("a value is not UTF-8").with_hint("declare the column as binary").into()
}

/// Return integers of any width but unsigned 64 bits as 64 bits.
fn integers(array: &ArrayRef) -> Option<PrimitiveArray<Int64Type>> {
    fn wide<T: ArrowPrimitiveType>(array: &ArrayRef) -> PrimitiveArray<Int64Type>
    where
        i64: From<T::Native>,
    {
        array.as_primitive::<T>().unary(i64::from)
    }
    Some(match array.data_type() {
        DataType::Int8 => wide::<Int8Type>(array),
        DataType::Int16 => wide::<Int16Type>(array),
        DataType::Int32 => wide::<Int32Type>(array),
        DataType::Int64 => wide::<Int64Type>(array),
        DataType::UInt8 => wide::<UInt8Type>(array),
        DataType::UInt16 => wide::<UInt16Type>(array),
        DataType::UInt32 => wide::<UInt32Type>(array),
        _ => return None,
    })
}

#[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "`fit` has checked the widths")]
fn widened(given: &PrimitiveArray<Int64Type>, wanted: &DataType) -> Option<Result<ArrayRef>> {
    Some(Ok(match wanted {
        DataType::Int16 => Arc::new(given.unary::<_, Int16Type>(|value| value as i16)),
        DataType::Int32 => Arc::new(given.unary::<_, Int32Type>(|value| value as i32)),
        DataType::Int64 => Arc::new(given.clone()),
        DataType::Float64 => Arc::new(given.unary::<_, Float64Type>(|value| value as f64)),
        DataType::Decimal128(precision, scale) => {
            let made = given.unary::<_, Decimal128Type>(|value| i128::from(value) * power(*scale));
            match made.with_precision_and_scale(*precision, *scale) {
                Ok(made) => Arc::new(made),
                Err(error) => return Some(Err(internal(error))),
            }
        }
        _ => return None,
    }))
}

fn power(scale: i8) -> i128 {
    10i128.checked_pow(u32::try_from(scale).unwrap_or(0)).unwrap_or(1)
}

/// Refuse decimals with more digits than their type has, because they would become other numbers.
fn check_digits(given: &PrimitiveArray<Decimal128Type>, precision: u8, scale: i8) -> Result<()> {
    let Some(limit) = 10i128.checked_pow(u32::from(precision)) else { return Ok(()) };
    let beyond = given.iter().flatten().find(|value| *value >= limit || *value <= -limit);
    match beyond {
        None => Ok(()),
        Some(value) => {
            let what = format!(
                "not a valid Parquet file: {value} does not fit in precision of decimal128({precision}, {scale})"
            );
            Err(Unreadable::file(what).into())
        }
    }
}

fn too_late() -> ReadError {
    Unreadable::file("a time is beyond the range of microseconds").into()
}

fn micros(array: &ArrayRef, unit: TimeUnit) -> Result<PrimitiveArray<TimestampMicrosecondType>> {
    match unit {
        TimeUnit::Microsecond => Ok(array.as_primitive::<TimestampMicrosecondType>().clone()),
        TimeUnit::Millisecond => {
            let given = array.as_primitive::<TimestampMillisecondType>();
            given.try_unary(|value| value.checked_mul(1000).ok_or_else(too_late))
        }
        TimeUnit::Nanosecond => {
            let given = array.as_primitive::<TimestampNanosecondType>();
            given.try_unary(|value| {
                if value % 1000 != 0 {
                    let what = format!("the time {value} ns has parts of a microsecond, so reading it would lose data");
                    return Err(ReadError::from(Unreadable::file(what)));
                }
                Ok(value / 1000)
            })
        }
        TimeUnit::Second => {
            Err(ReadError::Internal(format!("Parquet has no times in seconds: {}", type_name(array.data_type()))))
        }
    }
}
