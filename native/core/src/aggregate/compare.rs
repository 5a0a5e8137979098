//! The order of values, as in Spark: NaN is greatest, −0.0 equals 0.0, strings compare by bytes, and structs and arrays
//! by element with null first. Maps have no order.

use std::cmp::Ordering;

use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, TimestampMicrosecondType,
};
use arrow_schema::{DataType, TimeUnit};

/// Whether values of this type have an order.
pub(super) fn is_ordered(data_type: &DataType) -> bool {
    use DataType::{
        Binary, Boolean, Date32, Decimal128, Float32, Float64, Int8, Int16, Int32, Int64, List, Struct, Timestamp, Utf8,
    };
    match data_type {
        Boolean | Int8 | Int16 | Int32 | Int64 | Float32 | Float64 | Decimal128(_, _) | Utf8 | Binary | Date32 => true,
        Timestamp(TimeUnit::Microsecond, _) => true,
        Struct(fields) => fields.iter().all(|field| is_ordered(field.data_type())),
        List(item) => is_ordered(item.data_type()),
        _ => false,
    }
}

/// Compare two floats.
pub(super) fn floats<F: PartialOrd>(a: &F, b: &F) -> Ordering {
    // Only NaN does not compare with itself.
    a.partial_cmp(b).unwrap_or_else(|| is_nan(a).cmp(&is_nan(b)))
}

#[expect(clippy::eq_op, reason = "only NaN differs from itself")]
fn is_nan<F: PartialOrd>(value: &F) -> bool {
    value != value
}

/// Compare row `i` of `a` with row `j` of `b`, which have the same ordered type. Null is first.
pub(super) fn rows(a: &dyn Array, i: usize, b: &dyn Array, j: usize) -> Ordering {
    match (a.is_null(i), b.is_null(j)) {
        (true, true) => Ordering::Equal,
        (true, false) => Ordering::Less,
        (false, true) => Ordering::Greater,
        (false, false) => values(a, i, b, j),
    }
}

fn values(a: &dyn Array, i: usize, b: &dyn Array, j: usize) -> Ordering {
    match a.data_type() {
        DataType::Utf8 => a.as_string::<i32>().value(i).as_bytes().cmp(b.as_string::<i32>().value(j).as_bytes()),
        DataType::Binary => a.as_binary::<i32>().value(i).cmp(b.as_binary::<i32>().value(j)),
        DataType::Boolean => a.as_boolean().value(i).cmp(&b.as_boolean().value(j)),
        DataType::Int8 => numbers::<Int8Type>(a, i, b, j),
        DataType::Int16 => numbers::<Int16Type>(a, i, b, j),
        DataType::Int32 => numbers::<Int32Type>(a, i, b, j),
        DataType::Int64 => numbers::<Int64Type>(a, i, b, j),
        DataType::Date32 => numbers::<Date32Type>(a, i, b, j),
        DataType::Timestamp(_, _) => numbers::<TimestampMicrosecondType>(a, i, b, j),
        DataType::Decimal128(_, _) => numbers::<Decimal128Type>(a, i, b, j),
        DataType::Float32 => {
            floats(&a.as_primitive::<Float32Type>().value(i), &b.as_primitive::<Float32Type>().value(j))
        }
        DataType::Float64 => {
            floats(&a.as_primitive::<Float64Type>().value(i), &b.as_primitive::<Float64Type>().value(j))
        }
        DataType::Struct(_) => {
            let pairs = a.as_struct().columns().iter().zip(b.as_struct().columns());
            first_difference(pairs.map(|(a, b)| rows(a.as_ref(), i, b.as_ref(), j)))
        }
        DataType::List(_) => {
            let (a, b) = (a.as_list::<i32>().value(i), b.as_list::<i32>().value(j));
            first_difference((0..a.len().min(b.len())).map(|k| rows(a.as_ref(), k, b.as_ref(), k)))
                .then_with(|| a.len().cmp(&b.len()))
        }
        // Not reached: `is_ordered` was checked when the operator was created.
        _ => Ordering::Equal,
    }
}

fn numbers<T: ArrowPrimitiveType>(a: &dyn Array, i: usize, b: &dyn Array, j: usize) -> Ordering
where
    T::Native: Ord,
{
    a.as_primitive::<T>().value(i).cmp(&b.as_primitive::<T>().value(j))
}

fn first_difference(mut orders: impl Iterator<Item = Ordering>) -> Ordering {
    orders.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}
