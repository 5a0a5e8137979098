//! The types of sums and means, as in Spark: widths of integers, digits of decimals.

use arrow_schema::DataType;

const DECIMAL_DIGITS: u8 = 38;

/// Return the type of a sum; `None` for a type that is not a number.
pub(super) fn sum(input: &DataType) -> Option<DataType> {
    match input {
        DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64 => Some(DataType::Int64),
        DataType::Float32 | DataType::Float64 => Some(DataType::Float64),
        DataType::Decimal128(precision, scale) => Some(DataType::Decimal128(bounded(*precision, 10), *scale)),
        _ => None,
    }
}

/// Return the type of the sum that a mean keeps; `None` for a type that is not a number.
pub(super) fn sum_of_mean(input: &DataType) -> Option<DataType> {
    match sum(input)? {
        DataType::Int64 => Some(DataType::Float64),
        other => Some(other),
    }
}

/// Return the type of a mean; `None` for a type that is not a number.
pub(super) fn mean(input: &DataType) -> Option<DataType> {
    match (input, sum(input)?) {
        (DataType::Decimal128(precision, scale), _) => {
            Some(DataType::Decimal128(bounded(*precision, 4), scale.saturating_add(4).min(38)))
        }
        _ => Some(DataType::Float64),
    }
}

fn bounded(precision: u8, more: u8) -> u8 {
    precision.saturating_add(more).min(DECIMAL_DIGITS)
}
