//! The hash that selects a value's register: XXH64 with seed 42 over the bytes that Spark hashes (`XxHash64`).

use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, TimestampMicrosecondType,
};
use arrow_schema::{DataType, TimeUnit};
use xxhash_rust::xxh64::xxh64;

use crate::aggregate::number::values;
use crate::error::{Error, Result};

const SEED: u64 = 42;
/// Decimals with more digits are hashed by the bytes of their unscaled value.
const LONG_DIGITS: u8 = 18;

/// Whether values of this type can be hashed.
pub(super) fn is_hashed(data_type: &DataType) -> bool {
    use DataType::{Binary, Boolean, Date32, Decimal128, Float32, Float64, Int8, Int16, Int32, Int64, Timestamp, Utf8};
    match data_type {
        Boolean | Int8 | Int16 | Int32 | Int64 | Float32 | Float64 | Decimal128(_, _) | Utf8 | Binary | Date32 => true,
        Timestamp(unit, _) => *unit == TimeUnit::Microsecond,
        _ => false,
    }
}

/// Call `visit(row, hash)` for every value that is not null.
pub(super) fn each(column: &dyn Array, mut visit: impl FnMut(usize, u64)) -> Result<()> {
    match column.data_type() {
        DataType::Boolean => {
            let bits = column.as_boolean().iter().enumerate();
            bits.for_each(|(row, bit)| bit.into_iter().for_each(|bit| visit(row, int(i32::from(bit)))));
        }
        DataType::Int8 => fixed::<Int8Type>(column, |value| int(value.into()), visit),
        DataType::Int16 => fixed::<Int16Type>(column, |value| int(value.into()), visit),
        DataType::Int32 => fixed::<Int32Type>(column, int, visit),
        DataType::Date32 => fixed::<Date32Type>(column, int, visit),
        DataType::Int64 => fixed::<Int64Type>(column, long, visit),
        DataType::Timestamp(TimeUnit::Microsecond, _) => fixed::<TimestampMicrosecondType>(column, long, visit),
        DataType::Float32 => fixed::<Float32Type>(column, |value| bytes(&one_zero_f32(value).to_le_bytes()), visit),
        DataType::Float64 => fixed::<Float64Type>(column, |value| bytes(&one_zero_f64(value).to_le_bytes()), visit),
        DataType::Decimal128(precision, _) if *precision <= LONG_DIGITS => {
            fixed::<Decimal128Type>(column, |value| bytes(&value.to_le_bytes()[..8]), visit);
        }
        DataType::Decimal128(_, _) => fixed::<Decimal128Type>(column, wide, visit),
        DataType::Utf8 => {
            let texts = column.as_string::<i32>().iter().enumerate();
            texts.for_each(|(row, text)| text.into_iter().for_each(|text| visit(row, bytes(text.as_bytes()))));
        }
        DataType::Binary => {
            let cells = column.as_binary::<i32>().iter().enumerate();
            cells.for_each(|(row, cell)| cell.into_iter().for_each(|cell| visit(row, bytes(cell))));
        }
        other => {
            return Err(Error::InternalError(format!("a count of distinct values received a column of type {other}")));
        }
    }
    Ok(())
}

fn fixed<T: ArrowPrimitiveType>(
    column: &dyn Array,
    hash: impl Fn(T::Native) -> u64,
    mut visit: impl FnMut(usize, u64),
) {
    values::<T>(column, |row, value| visit(row, hash(value)));
}

fn int(value: i32) -> u64 {
    bytes(&value.to_le_bytes())
}

fn long(value: i64) -> u64 {
    bytes(&value.to_le_bytes())
}

/// Hash the shortest big-endian two's complement of a number, like Java's `BigInteger`.
fn wide(value: i128) -> u64 {
    let all = value.to_be_bytes();
    let fill = if value < 0 { 0xff } else { 0 };
    let is_spare = |at: usize| all[at] == fill && (all[at + 1] & 0x80) == (fill & 0x80);
    let first = (0..all.len() - 1).find(|&at| !is_spare(at)).unwrap_or(all.len() - 1);
    bytes(&all[first..])
}

fn one_zero_f32(value: f32) -> u32 {
    if value.is_nan() { f32::NAN.to_bits() } else { (value + 0.0).to_bits() }
}

fn one_zero_f64(value: f64) -> u64 {
    if value.is_nan() { f64::NAN.to_bits() } else { (value + 0.0).to_bits() }
}

fn bytes(bytes: &[u8]) -> u64 {
    xxh64(bytes, SEED)
}
