//! Encodes keys of a `MapState` as bytes that sort like the keys: column by column, null first, numbers and times by
//! value, texts and binary values by their bytes. Equal keys have equal bytes: −0.0 equals 0.0, and all NaN are equal.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    TimestampMicrosecondType,
};
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use pyo3::prelude::*;

use crate::value::Value;

/// Encode row `row` of these columns, whose types can be keys.
pub(super) fn of_row(columns: &[ArrayRef], row: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    for column in columns {
        if column.is_null(row) {
            bytes.push(0);
            continue;
        }
        bytes.push(1);
        match column.data_type() {
            DataType::Boolean => push_int(&mut bytes, i64::from(column.as_boolean().value(row))),
            DataType::Int8 => push_int(&mut bytes, i64::from(column.as_primitive::<Int8Type>().value(row))),
            DataType::Int16 => push_int(&mut bytes, i64::from(column.as_primitive::<Int16Type>().value(row))),
            DataType::Int32 => push_int(&mut bytes, i64::from(column.as_primitive::<Int32Type>().value(row))),
            DataType::Date32 => push_int(&mut bytes, i64::from(column.as_primitive::<Date32Type>().value(row))),
            DataType::Int64 => push_int(&mut bytes, column.as_primitive::<Int64Type>().value(row)),
            DataType::Float32 => push_float(&mut bytes, f64::from(column.as_primitive::<Float32Type>().value(row))),
            DataType::Float64 => push_float(&mut bytes, column.as_primitive::<Float64Type>().value(row)),
            DataType::Decimal128(_, _) => push_wide(&mut bytes, column.as_primitive::<Decimal128Type>().value(row)),
            DataType::Utf8 => push_bytes(&mut bytes, column.as_string::<i32>().value(row).as_bytes()),
            DataType::Binary => push_bytes(&mut bytes, column.as_binary::<i32>().value(row)),
            _ => push_int(&mut bytes, column.as_primitive::<TimestampMicrosecondType>().value(row)),
        }
    }
    bytes
}

/// Encode a key that was parsed as a row of such columns.
pub(super) fn of_value(py: Python<'_>, key: &Value) -> PyResult<Vec<u8>> {
    let mut bytes = Vec::new();
    let cells = match key {
        Value::Struct(cells) => cells.as_slice(),
        one => std::slice::from_ref(one),
    };
    for cell in cells {
        bytes.push(u8::from(!matches!(cell, Value::Null)));
        match cell {
            Value::Bool(value) => push_int(&mut bytes, i64::from(*value)),
            Value::Int(value) => push_int(&mut bytes, *value),
            Value::Float(value) => push_float(&mut bytes, *value),
            Value::Decimal(value) => push_wide(&mut bytes, *value),
            Value::Text(text) => push_bytes(&mut bytes, text.to_str(py)?.as_bytes()),
            Value::Bytes(value) => push_bytes(&mut bytes, value),
            Value::Null | Value::Struct(_) | Value::List(_) | Value::Map(_) => {} // nested types cannot be keys
        }
    }
    Ok(bytes)
}

fn push_int(bytes: &mut Vec<u8>, value: i64) {
    bytes.extend((value.cast_unsigned() ^ (1 << 63)).to_be_bytes());
}

fn push_wide(bytes: &mut Vec<u8>, value: i128) {
    bytes.extend((value.cast_unsigned() ^ (1 << 127)).to_be_bytes());
}

/// NaN is greater than any number, as in Spark.
fn push_float(bytes: &mut Vec<u8>, value: f64) {
    let bits = if value.is_nan() { f64::NAN.to_bits() & !(1 << 63) } else { (value + 0.0).to_bits() };
    let sign = 1 << 63;
    bytes.extend(if bits & sign == 0 { bits | sign } else { !bits }.to_be_bytes());
}

/// Zero bytes are escaped, so that a text sorts before every longer text that begins with it.
fn push_bytes(bytes: &mut Vec<u8>, value: &[u8]) {
    for &byte in value {
        bytes.push(byte);
        if byte == 0 {
            bytes.push(0xff);
        }
    }
    bytes.extend([0, 0]);
}
