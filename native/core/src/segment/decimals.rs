//! A check for decimals with more digits than their type. Bytes can hold such values, but a writer would truncate them.

use arrow_array::types::Decimal128Type;
use arrow_array::{Array, ArrayRef, PrimitiveArray};
use arrow_data::ArrayData;
use arrow_schema::{ArrowError, DataType};

/// Check that no decimal in a column, including those in lists, maps and structs, has more digits than its type.
pub(super) fn check_digits(column: &ArrayRef) -> Result<(), ArrowError> {
    match column.data_type() {
        DataType::Decimal128(_, _) => check(&column.to_data()),
        other if other.is_nested() => check(&column.to_data()),
        _ => Ok(()),
    }
}

fn check(data: &ArrayData) -> Result<(), ArrowError> {
    if let DataType::Decimal128(digits, _) = data.data_type() {
        PrimitiveArray::<Decimal128Type>::from(data.clone()).validate_decimal_precision(*digits)?;
    }
    data.child_data().iter().try_for_each(check)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{Decimal128Array, Int64Array, ListArray};
    use arrow_buffer::OffsetBuffer;
    use arrow_schema::{Field, Fields};
    use bytes::Bytes;

    use super::*;
    use crate::map::{Changes, StateMap};
    use crate::range::KeyRange;
    use crate::schema::MapSchema;
    use crate::segment::footer::seal;
    use crate::segment::{read, write};

    /// Two precisions whose values take the same number of bytes.
    const FEWER: u8 = 22;
    const MORE: u8 = 23;

    fn decimal(digits: u8, value: i128) -> ArrayRef {
        Arc::new(Decimal128Array::from(vec![None, Some(value)]).with_data_type(DataType::Decimal128(digits, 2)))
    }

    fn list(items: ArrayRef) -> ArrayRef {
        let item = Arc::new(Field::new("item", items.data_type().clone(), true));
        Arc::new(ListArray::new(item, OffsetBuffer::new(vec![0, 1, 2].into()), items, None))
    }

    fn schema(key: &ArrayRef, value: &ArrayRef) -> Arc<MapSchema> {
        let fields =
            |name: &str, column: &ArrayRef| Fields::from(vec![Field::new(name, column.data_type().clone(), true)]);
        Arc::new(MapSchema::new("test", &fields("key", key), &Fields::empty(), &fields("value", value)).unwrap())
    }

    fn written(key: &ArrayRef, value: &ArrayRef) -> Result<Vec<u8>, String> {
        let mut map = StateMap::open(schema(key, value), &[], KeyRange::ALL).unwrap();
        let (keys, values) = (vec![Arc::clone(key)], vec![Arc::clone(value)]);
        let (updated_at, deadline, deleted) = (vec![1; 2], vec![None; 2], vec![false; 2]);
        map.change(&Changes { keys, sub_keys: Vec::new(), values, updated_at, deadline, deleted }).unwrap();
        write(&map.base().unwrap()).map_err(|error| error.to_string())
    }

    /// Return a segment of type `MORE` whose footer claims type `FEWER`.
    fn forged(mut data: Vec<u8>) -> Bytes {
        let length: [u8; 4] = data[data.len() - 8..data.len() - 4].try_into().unwrap();
        let end = data.len() - 8 - u32::from_le_bytes(length) as usize;
        // In Thrift: the scale, then the precision, each stored as twice its value.
        let precision = |digits: u8| [0x15, 4, 0x15, 2 * digits];
        let places: Vec<usize> = data[end..]
            .windows(4)
            .enumerate()
            .filter(|(_, bytes)| *bytes == precision(MORE))
            .map(|(at, _)| at)
            .collect();
        assert_eq!(places.len(), 2);
        places.iter().for_each(|at| data[end + at..][..4].copy_from_slice(&precision(FEWER)));
        let name = b"tidemill.footer";
        let sum = end + data[end..].windows(name.len()).rposition(|bytes| bytes == name).unwrap() + name.len() + 2;
        data[sum..sum + 16].fill(b'0');
        seal(&mut data[end..]).unwrap();
        Bytes::from(data)
    }

    #[test]
    fn decimals_with_too_many_digits_are_neither_written_nor_read() {
        let plain: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
        let most = 10_i128.pow(u32::from(FEWER)) - 1;
        type Place = fn(ArrayRef) -> ArrayRef;
        for place in [(|column| column) as Place, list as Place] {
            for (value, fits) in [(most, true), (-most, true), (most + 1, false), (-most - 1, false)] {
                let column = |digits| place(decimal(digits, value));
                let as_key = forged(written(&column(MORE), &plain).unwrap());
                let as_value = forged(written(&plain, &column(MORE)).unwrap());
                for (name, data, schema) in [
                    ("key", as_key, schema(&column(FEWER), &plain)),
                    ("value", as_value, schema(&plain, &column(FEWER))),
                ] {
                    let read = read(&schema, data, "forged").map_err(|error| error.to_string());
                    let written = match name {
                        "key" => written(&column(FEWER), &plain),
                        _ => written(&plain, &column(FEWER)),
                    };
                    assert_eq!((read.is_ok(), written.is_ok()), (fits, fits), "{name} {value}");
                    for said in [read.err(), written.err()].into_iter().flatten() {
                        assert!(said.contains(&format!("column `{name}`: ")), "{said}");
                        assert!(
                            said.contains("too large to store in a Decimal128 of precision 22")
                                || said.contains("too small to store in a Decimal128 of precision 22"),
                            "{said}"
                        );
                    }
                }
            }
        }
    }
}
