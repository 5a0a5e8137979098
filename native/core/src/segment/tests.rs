//! Segments written and read back, and the errors for bytes that are not a segment.

use std::sync::Arc;

use arrow_array::builder::{Float32Builder, Int64Builder, StringBuilder};
use arrow_array::builder::{ListBuilder, MapBuilder};
use arrow_array::types::Decimal128Type;
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Date32Array, Float32Array, Float64Array, Int8Array, Int16Array,
    Int32Array, Int64Array, PrimitiveArray, StringArray, StructArray, TimestampMicrosecondArray,
};
use arrow_schema::{DataType, Field, Fields};
use bytes::Bytes;
use proptest::prelude::*;

use super::footer::seal;
use super::{ROW_GROUP_ROWS, read, write};
use crate::error::Error;
use crate::key::Keys;
use crate::run::{SortedRun, Unsorted};
use crate::schema::MapSchema;

fn fields(columns: &[(&str, ArrayRef)]) -> Fields {
    columns.iter().map(|(name, column)| Field::new(*name, column.data_type().clone(), true)).collect()
}

fn run(
    keys: &[(&str, ArrayRef)],
    sub_keys: &[(&str, ArrayRef)],
    values: &[(&str, ArrayRef)],
    rows: usize,
) -> SortedRun {
    let schema = Arc::new(MapSchema::new("test", &fields(keys), &fields(sub_keys), &fields(values)).unwrap());
    let columns = |named: &[(&str, ArrayRef)]| named.iter().map(|column| Arc::clone(&column.1)).collect::<Vec<_>>();
    let unsorted = Unsorted {
        keys: &Keys::with_sub_keys(&columns(keys), &columns(sub_keys), rows).unwrap(),
        values: &columns(values),
        updated_at: &(0..rows as i64).collect::<Vec<_>>(),
        deadline: &(0..rows as i64).map(|row| (row % 3 == 0).then_some(row)).collect::<Vec<_>>(),
        deleted: &(0..rows).map(|row| row % 5 == 4).collect::<Vec<_>>(),
    };
    SortedRun::from_unsorted(&schema, &unsorted).unwrap()
}

fn numbered(rows: usize) -> SortedRun {
    let keys: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows as i64));
    let values: ArrayRef = Arc::new(Float64Array::from_iter_values((0..rows).map(|row| row as f64)));
    run(&[("key", keys)], &[], &[("value", values)], rows)
}

fn there_and_back(run: &SortedRun) {
    let data = write(run).unwrap();
    let found = read(run.schema(), Bytes::from(data.clone()), "s").unwrap();
    assert_eq!(found.batch().unwrap(), run.batch().unwrap());
    assert_eq!(found.hashes(), run.hashes());
    assert_eq!(write(&found).unwrap(), data, "the same run gives the same bytes");
}

fn refused(run: &SortedRun, data: Vec<u8>) -> String {
    match read(run.schema(), Bytes::from(data), "state/x.parquet") {
        Err(Error::CorruptState(text)) => text,
        other => panic!("expected CorruptState, found {other:?}"),
    }
}

#[test]
fn every_key_type_comes_back() {
    let decimal = PrimitiveArray::<Decimal128Type>::from(vec![Some(-1), None, Some(i128::from(i64::MAX)), Some(0)]);
    let keys: Vec<(&str, ArrayRef)> = vec![
        ("bool", Arc::new(BooleanArray::from(vec![Some(true), None, Some(false), Some(true)]))),
        ("i8", Arc::new(Int8Array::from(vec![Some(-1), None, Some(1), Some(0)]))),
        ("i16", Arc::new(Int16Array::from(vec![Some(-1), None, Some(1), Some(0)]))),
        ("i32", Arc::new(Int32Array::from(vec![Some(-1), None, Some(1), Some(0)]))),
        ("i64", Arc::new(Int64Array::from(vec![Some(i64::MIN), None, Some(1), Some(0)]))),
        ("f32", Arc::new(Float32Array::from(vec![Some(-0.0), None, Some(f32::INFINITY), Some(0.5)]))),
        ("f64", Arc::new(Float64Array::from(vec![Some(-0.0), None, Some(f64::INFINITY), Some(0.5)]))),
        ("text", Arc::new(StringArray::from(vec![Some(""), None, Some("日本"), Some("a")]))),
        ("binary", Arc::new(BinaryArray::from(vec![Some(b"".as_slice()), None, Some(b"\xff\0"), Some(b"a")]))),
        ("date", Arc::new(Date32Array::from(vec![Some(-1), None, Some(1), Some(0)]))),
        ("at", Arc::new(TimestampMicrosecondArray::from(vec![Some(-1), None, Some(1), Some(0)]).with_timezone("UTC"))),
        ("local", Arc::new(TimestampMicrosecondArray::from(vec![Some(-1), None, Some(1), Some(0)]))),
        ("decimal", Arc::new(decimal.with_precision_and_scale(38, 10).unwrap())),
    ];
    there_and_back(&run(&keys, &[], &[], 4));
    there_and_back(&run(&[], &keys, &[], 4));
    let values: Vec<(&str, ArrayRef)> = keys.iter().map(|(name, column)| (*name, Arc::clone(column))).collect();
    there_and_back(&run(&[("key", Arc::new(Int8Array::from(vec![1, 2, 3, 4])))], &[], &values, 4));
}

#[test]
fn nested_values_come_back() {
    let mut list = ListBuilder::new(Int64Builder::new());
    list.extend([Some(vec![Some(1), None]), None, Some(vec![]), Some(vec![Some(2)])]);
    let mut map = MapBuilder::new(None, StringBuilder::new(), Int64Builder::new());
    for (row, name) in ["a", "b", "c", "d"].iter().enumerate() {
        map.keys().append_value(name);
        map.values().append_option((row != 2).then_some(row as i64));
        map.append(row != 1).unwrap();
    }
    let inner = Field::new("x", DataType::Int32, false);
    let strict = StructArray::from(vec![(Arc::new(inner), Arc::new(Int32Array::from(vec![1, 2, 3, 4])) as ArrayRef)]);
    let values: Vec<(&str, ArrayRef)> =
        vec![("list", Arc::new(list.finish())), ("map", Arc::new(map.finish())), ("struct", Arc::new(strict))];
    there_and_back(&run(&[("key", Arc::new(Int8Array::from(vec![1, 2, 3, 4])))], &[], &values, 4));
}

#[test]
fn nested_keys_come_back() {
    let mut list = ListBuilder::new(Float32Builder::new());
    list.extend([Some(vec![Some(-0.0), None]), None, Some(vec![]), Some(vec![Some(f32::NAN)])]);
    let list: ArrayRef = Arc::new(list.finish());
    let field = Arc::new(Field::new("list", list.data_type().clone(), true));
    let inner: ArrayRef = Arc::new(StructArray::from(vec![(field, list)]));
    let mut map = MapBuilder::new(None, StringBuilder::new(), Int64Builder::new());
    for row in 0..4 {
        map.keys().append_value("a");
        map.values().append_option((row != 2).then_some(row));
        map.append(row != 1).unwrap();
    }
    let keys: Vec<(&str, ArrayRef)> = vec![("struct", inner), ("map", Arc::new(map.finish()))];
    there_and_back(&run(&keys, &[], &[("n", Arc::new(Int8Array::from(vec![1, 2, 3, 4])))], 4));
}

#[test]
fn empty_segments_and_several_row_groups_come_back() {
    there_and_back(&numbered(0));
    there_and_back(&numbered(ROW_GROUP_ROWS));
    there_and_back(&numbered(2 * ROW_GROUP_ROWS + 1));
}

/// Pages without nulls, of nulls only, and of both, in one row group and in several.
#[test]
fn numbers_are_decoded_from_all_kinds_of_pages() {
    let rows = ROW_GROUP_ROWS * 2 + 77;
    let keys = Keys::new(&[Arc::new(Int64Array::from_iter_values(0..rows as i64))]).unwrap();
    let order = keys.order();
    let keys = keys.take(&order).unwrap();
    let whole: ArrayRef = Arc::new(Int64Array::from_iter_values((0..rows as i64).map(|row| row << 40 ^ row)));
    let with_nulls = |is_null: &dyn Fn(usize) -> bool| -> ArrayRef {
        Arc::new((0..rows).map(|row| (!is_null(row)).then_some(row as f64 / 3.0)).collect::<Float64Array>())
    };
    let values: Vec<(&str, ArrayRef)> = vec![
        ("whole", whole),
        ("none", with_nulls(&|_| true)),
        ("first", with_nulls(&|row| row < ROW_GROUP_ROWS)),
        ("last", with_nulls(&|row| row >= ROW_GROUP_ROWS)),
        ("one", with_nulls(&|row| row == ROW_GROUP_ROWS + 5)),
        ("local", Arc::new(TimestampMicrosecondArray::from_iter_values((0..rows as i64).map(|row| -row)))),
    ];
    let key = Fields::from(vec![Field::new("key", DataType::Int64, true)]);
    let schema = Arc::new(MapSchema::new("test", &key, &Fields::empty(), &fields(&values)).unwrap());
    let columns: Vec<ArrayRef> = values.into_iter().map(|(_, column)| column).collect();
    for deadline in [
        Vec::new(),
        (0..rows as i64).map(Some).collect(),
        (0..rows as i64).map(|row| (row > 9).then_some(row)).collect(),
    ] {
        there_and_back(&SortedRun::from_ordered(&schema, keys.clone(), columns.clone(), 7, deadline).unwrap());
    }
}

#[test]
fn a_part_of_a_run_is_written_without_the_rest() {
    let whole = numbered(1000);
    let part = whole.within(crate::range::KeyRange::new(whole.hashes()[100], whole.hashes()[199]).unwrap());
    assert_eq!(part.len(), 100);
    there_and_back(&part);
}

#[test]
fn other_columns_are_refused_by_name() {
    let data = write(&numbered(3)).unwrap();
    let other =
        run(&[("key", Arc::new(Int64Array::from(vec![1])))], &[], &[("value", Arc::new(Int64Array::from(vec![1])))], 1);
    let text = refused(&other, data.clone());
    let first = text.lines().next().unwrap();
    assert!(
        first.starts_with("cannot read segment `state/x.parquet` of state map `test`: it has the columns (key"),
        "{text}"
    );
    assert!(first.contains("value: Float64") && first.contains("value: Int64"), "{text}");
    let as_sub_key = run(
        &[],
        &[("key", Arc::new(Int64Array::from(vec![1])))],
        &[("value", Arc::new(Float64Array::from(vec![1.0])))],
        1,
    );
    assert!(refused(&as_sub_key, data).contains("`tidemill.key_columns` is `1`, expected `0`"));
}

#[test]
fn a_flipped_bit_in_the_rows_fails_the_checksum() {
    let run = numbered(100);
    let mut data = write(&run).unwrap();
    data[50] ^= 1;
    assert!(refused(&run, data).contains("row group 0 does not match its checksum"));
}

#[test]
fn rows_out_of_order_are_refused() {
    let run = numbered(100);
    let batch = run.batch().unwrap();
    let order: arrow_array::UInt32Array = (0..100).rev().collect();
    let columns = batch.columns().iter().map(|c| arrow_select::take::take(c, &order, None).unwrap()).collect();
    let forged = SortedRun::from_sorted(run.schema(), Keys::new(&[batch.column(0).clone()]).unwrap(), columns).unwrap();
    assert!(refused(&run, write(&forged).unwrap()).contains("its rows are out of order: row 1 "));
}

#[test]
fn wrong_hash_bounds_are_refused() {
    let run = numbered(100);
    let data = write(&run).unwrap();
    let bound = format!("{:016x}", run.hashes()[0]);
    let at = data.windows(16).position(|window| window == bound.as_bytes()).unwrap();
    let mut forged = data;
    forged[at..at + 16].copy_from_slice(b"0000000000000000");
    assert!(refused(&run, forged.clone()).contains("its footer does not match its checksum"));
    assert!(refused(&run, resealed(forged)).contains("row group 0 has the key hashes"));
}

/// Where the footer of a Parquet file begins, computed from the length at the end.
fn footer_of(data: &[u8]) -> usize {
    let [.., a, b, c, d, _, _, _, _] = data else { panic!("no Parquet") };
    data.len() - 8 - u32::from_le_bytes([*a, *b, *c, *d]) as usize
}

/// Return the file with a correct footer checksum.
fn resealed(mut data: Vec<u8>) -> Vec<u8> {
    let name = b"tidemill.footer";
    let value = data.windows(name.len()).rposition(|window| window == name).unwrap() + name.len() + 2;
    data[value..value + 16].fill(b'0');
    let footer = footer_of(&data);
    seal(&mut data[footer..]).unwrap();
    data
}

#[test]
fn no_bit_of_the_footer_changes_what_is_read() {
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values((0..20).map(|row| format!("key {row}"))));
    let run = run(&[("key", texts)], &[], &[("flag", Arc::new(BooleanArray::from(vec![true; 20])))], 20);
    let data = write(&run).unwrap();
    assert_eq!(resealed(data.clone()), data);
    let mut read_all_the_same = 0;
    for place in footer_of(&data)..data.len() {
        for bit in 0..8 {
            let mut changed = data.clone();
            changed[place] ^= 1 << bit;
            match read(run.schema(), Bytes::from(changed), "s") {
                Ok(found) => {
                    assert_eq!(found.batch().unwrap(), run.batch().unwrap(), "bit {bit} of byte {place}");
                    read_all_the_same += 1;
                }
                Err(error) => assert!(matches!(error, Error::CorruptState(_)), "{error}"),
            }
        }
    }
    // Damage in the entry's own name makes the file look like one from before there was a footer checksum.
    assert!(read_all_the_same <= 8 * "tidemill.footer".len() + 8, "{read_all_the_same}");
}

#[test]
fn a_segment_without_a_footer_checksum_is_read_as_an_old_one() {
    let run = numbered(100);
    let mut data = write(&run).unwrap();
    let name = b"tidemill.footer";
    let place = data.windows(name.len()).rposition(|window| window == name).unwrap();
    data[place] = b'T';
    let found = read(run.schema(), Bytes::from(data), "s").unwrap();
    assert_eq!(found.batch().unwrap(), run.batch().unwrap());
}

#[test]
fn null_keys_of_maps_are_refused() {
    let mut maps = MapBuilder::new(None, StringBuilder::new(), Int64Builder::new());
    for number in 0..4 {
        maps.keys().append_value("k");
        maps.values().append_value(number);
        maps.append(true).unwrap();
    }
    let keys: ArrayRef = Arc::new(Int64Array::from_iter_values(0..4));
    let run = run(&[("key", keys)], &[], &[("map", Arc::new(maps.finish()))], 4);
    let data = write(&run).unwrap();
    let footer = footer_of(&data);
    let mut refusals = 0;
    for place in footer..data.len() {
        for bit in 0..8 {
            let mut forged = data.clone();
            forged[place] ^= 1 << bit;
            let Ok(forged) = std::panic::catch_unwind(|| resealed(forged)) else { continue };
            match read(run.schema(), Bytes::from(forged), "s") {
                Ok(found) => found.columns().iter().for_each(|column| column.to_data().validate_full().unwrap()),
                Err(_) => refusals += 1,
            }
        }
    }
    assert!(refusals > 0);
}

#[test]
fn truncated_and_empty_bytes_are_refused() {
    let run = numbered(100);
    let data = write(&run).unwrap();
    for length in 0..data.len() {
        refused(&run, data[..length].to_vec());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// Such bytes are refused or have no effect; nothing panics.
    #[test]
    fn hostile_bytes_never_panic(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4)) {
        let run = numbered(100);
        let mut data = write(&run).unwrap();
        for (at, byte) in changes {
            let at = at.index(data.len());
            data[at] = byte;
        }
        match read(run.schema(), Bytes::from(data), "s") {
            Ok(found) => prop_assert_eq!(found.batch().unwrap(), run.batch().unwrap()),
            Err(error) => prop_assert!(matches!(error, Error::CorruptState(_)), "{}", error),
        }
    }
}
