//! Canonical columns: floats have one zero and one NaN. Everything else is canonical as it comes.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef, PrimitiveArray};
use arrow_schema::DataType;

use crate::error::Result;

/// `column` with −0.0 as 0.0 and every NaN as the one NaN; the same array where there is nothing to change.
pub(super) fn canonical(column: &ArrayRef) -> Result<ArrayRef> {
    Ok(match column.data_type() {
        DataType::Float32 => {
            floats::<Float32Type>(column, |x| x.to_bits() == canonical_f32(x).to_bits(), canonical_f32)
        }
        DataType::Float64 => {
            floats::<Float64Type>(column, |x| x.to_bits() == canonical_f64(x).to_bits(), canonical_f64)
        }
        _ => Arc::clone(column),
    })
}

fn floats<T: ArrowPrimitiveType>(
    column: &ArrayRef,
    is_canonical: impl Fn(T::Native) -> bool,
    to_canonical: impl Fn(T::Native) -> T::Native,
) -> ArrayRef {
    let array: &PrimitiveArray<T> = column.as_primitive();
    if array.values().iter().all(|&x| is_canonical(x)) {
        return Arc::clone(column);
    }
    Arc::new(array.unary::<_, T>(to_canonical))
}

fn canonical_f32(x: f32) -> f32 {
    if x.is_nan() { f32::from_bits(0x7fc0_0000) } else { x + 0.0 }
}

/// −0.0 + 0.0 is 0.0, and every other number keeps its bits.
pub(super) fn canonical_f64(x: f64) -> f64 {
    if x.is_nan() { f64::from_bits(0x7ff8_0000_0000_0000) } else { x + 0.0 }
}
