//! Canonical columns: floats have one zero and one NaN, and the entries of a map are sorted by the bytes of their keys.
//! This also holds inside structs, lists and maps. All other values are canonical already.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef, ListArray, MapArray, PrimitiveArray, StructArray, UInt32Array};
use arrow_schema::DataType;
use arrow_select::take::take;

use super::cells::canonical_f64;
use super::nested::entry_order;
use crate::error::Result;

/// Return `column` with −0.0 as 0.0 and every NaN as the one NaN; the same array if nothing changes.
pub(super) fn canonical(column: &ArrayRef) -> Result<ArrayRef> {
    Ok(match column.data_type() {
        DataType::Float32 => {
            floats::<Float32Type>(column, |x| x.to_bits() == canonical_f32(x).to_bits(), canonical_f32)
        }
        DataType::Float64 => {
            floats::<Float64Type>(column, |x| x.to_bits() == canonical_f64(x).to_bits(), canonical_f64)
        }
        nested if nested.is_nested() && needs_work(nested) => nested_canonical(column)?,
        _ => Arc::clone(column),
    })
}

fn needs_work(data_type: &DataType) -> bool {
    match data_type {
        DataType::Float32 | DataType::Float64 | DataType::Map(_, _) => true,
        DataType::Struct(fields) => fields.iter().any(|field| needs_work(field.data_type())),
        DataType::List(item) => needs_work(item.data_type()),
        _ => false,
    }
}

/// Return a struct, list or map with canonical child columns.
fn nested_canonical(column: &ArrayRef) -> Result<ArrayRef> {
    Ok(match column.data_type() {
        DataType::Struct(fields) => {
            let rows = column.as_struct();
            let columns = rows.columns().iter().map(canonical).collect::<Result<_>>()?;
            Arc::new(StructArray::try_new_with_length(fields.clone(), columns, rows.nulls().cloned(), rows.len())?)
        }
        DataType::List(item) => {
            let list = column.as_list::<i32>();
            let (offsets, nulls) = (list.offsets().clone(), list.nulls().cloned());
            Arc::new(ListArray::try_new(Arc::clone(item), offsets, canonical(list.values())?, nulls)?)
        }
        DataType::Map(entries, sorted) => {
            let map = column.as_map();
            let (offsets, nulls) = (map.offsets().clone(), map.nulls().cloned());
            let pairs: ArrayRef = Arc::new(map.entries().clone());
            let pairs = nested_canonical(&pairs)?;
            let pairs = match entry_order(pairs.as_struct().column(0).as_ref(), &offsets)? {
                Some(order) => take(&pairs, &UInt32Array::from(order), None)?,
                None => pairs,
            };
            let pairs = pairs.as_struct().clone();
            Arc::new(MapArray::try_new(Arc::clone(entries), offsets, pairs, nulls, *sorted)?)
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
