//! Numeric columns of any width, read as the type in which they are summed.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
};
use arrow_array::{Array, ArrayRef};
use arrow_buffer::ArrowNativeType;
use arrow_schema::DataType;

use crate::error::{Error, Result};

/// A type in which sums are kept.
pub(super) trait Number: ArrowNativeType {
    /// The corresponding Arrow type.
    type Arrow: ArrowPrimitiveType<Native = Self>;

    /// Call `fold(row, value)` for every value of `column` that is not null, in row order.
    fn each(column: &ArrayRef, fold: impl FnMut(usize, Self)) -> Result<()>;
}

impl Number for i64 {
    type Arrow = Int64Type;

    fn each(column: &ArrayRef, mut fold: impl FnMut(usize, Self)) -> Result<()> {
        match column.data_type() {
            DataType::Int8 => values::<Int8Type>(column, |row, value| fold(row, Self::from(value))),
            DataType::Int16 => values::<Int16Type>(column, |row, value| fold(row, Self::from(value))),
            DataType::Int32 => values::<Int32Type>(column, |row, value| fold(row, Self::from(value))),
            DataType::Int64 => values::<Int64Type>(column, fold),
            other => return Err(unexpected(other)),
        }
        Ok(())
    }
}

impl Number for f64 {
    type Arrow = Float64Type;

    fn each(column: &ArrayRef, mut fold: impl FnMut(usize, Self)) -> Result<()> {
        match column.data_type() {
            DataType::Float32 => values::<Float32Type>(column, |row, value| fold(row, Self::from(value))),
            DataType::Float64 => values::<Float64Type>(column, fold),
            #[expect(clippy::cast_precision_loss, reason = "Spark casts bigint to double for a mean as well")]
            _ => i64::each(column, |row, value| fold(row, value as Self))?,
        }
        Ok(())
    }
}

impl Number for i128 {
    type Arrow = Decimal128Type;

    fn each(column: &ArrayRef, fold: impl FnMut(usize, Self)) -> Result<()> {
        match column.data_type() {
            DataType::Decimal128(_, _) => values::<Decimal128Type>(column, fold),
            other => return Err(unexpected(other)),
        }
        Ok(())
    }
}

/// Call `fold(row, value)` for every value that is not null.
pub(super) fn values<T: ArrowPrimitiveType>(column: &dyn Array, mut fold: impl FnMut(usize, T::Native)) {
    let column = column.as_primitive::<T>();
    match column.nulls() {
        None => column.values().iter().enumerate().for_each(|(row, &value)| fold(row, value)),
        Some(nulls) => nulls.valid_indices().for_each(|row| fold(row, column.values()[row])),
    }
}

fn unexpected(found: &DataType) -> Error {
    Error::InternalError(format!("an aggregate of numbers received a column of type {found}"))
}
