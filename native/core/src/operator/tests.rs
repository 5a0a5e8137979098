//! Groups beside a plain map, also where hashes collide, and the order of outputs.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};
use proptest::prelude::*;

use super::{Groups, Output, RowAt};
use crate::key::{Keys, with_masked_hashes};

type Key = (Option<i64>, Option<String>);

fn keys(rows: &[Key]) -> Keys {
    let numbers: ArrayRef = Arc::new(rows.iter().map(|row| row.0).collect::<Int64Array>());
    let texts: ArrayRef = Arc::new(rows.iter().map(|row| row.1.clone()).collect::<StringArray>());
    Keys::new(&[numbers, texts]).unwrap()
}

fn key_at(keys: &Keys, row: usize) -> Key {
    let (numbers, texts) = (keys.columns()[0].as_primitive::<Int64Type>(), keys.columns()[1].as_string::<i32>());
    (numbers.is_valid(row).then(|| numbers.value(row)), texts.is_valid(row).then(|| texts.value(row).to_owned()))
}

fn check(chunks: &[Vec<Key>]) -> Result<(), TestCaseError> {
    let groups = Groups::new(&chunks.iter().map(|rows| keys(rows)).collect::<Vec<_>>()).unwrap();
    let mut expected: BTreeMap<Key, Vec<RowAt>> = BTreeMap::new();
    for (chunk, rows) in (0u32..).zip(chunks) {
        for (row, key) in (0u32..).zip(rows) {
            expected.entry(key.clone()).or_default().push(RowAt { chunk, row });
            let number = groups.of[chunk as usize][row as usize];
            prop_assert_eq!(&key_at(&groups.keys, number as usize), key);
        }
    }
    prop_assert_eq!(groups.len(), expected.len());
    prop_assert!((1..groups.len()).all(|row| groups.keys.cmp_at(row - 1, &groups.keys, row).is_lt()));
    let (rows, ends) = groups.rows();
    let mut start = 0;
    for (group, &end) in ends.iter().enumerate() {
        prop_assert_eq!(&rows[start..end], expected[&key_at(&groups.keys, group)].as_slice());
        start = end;
    }
    prop_assert_eq!(start, rows.len());
    Ok(())
}

fn a_chunk(rows: usize) -> impl Strategy<Value = Vec<Key>> {
    prop::collection::vec((prop::option::of(0i64..9), prop::option::of("[ab]{0,2}")), 0..rows)
}

proptest! {
    #[test]
    fn groups_are_those_of_a_map(chunks in prop::collection::vec(a_chunk(40), 0..4)) {
        check(&chunks)?;
    }

    #[test]
    fn keys_with_one_hash_are_kept_apart(
        chunks in prop::collection::vec(a_chunk(40), 1..4),
        mask in prop::sample::select(vec![0, 1, 3 << 62]),
    ) {
        with_masked_hashes(mask, || check(&chunks))?;
    }
}

#[test]
fn many_rows_are_parted_and_still_grouped() {
    let rows: Vec<Key> = (0..60_000i64).map(|row| (Some(row * 7919 % 20_011), None)).collect();
    check(&[rows[..25_000].to_vec(), rows[25_000..].to_vec()]).unwrap();
}

#[test]
fn outputs_leave_by_key_and_rows_of_a_key_as_they_were_emitted() {
    let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, true)]));
    let rows = |cells: &[i64]| {
        RecordBatch::try_new(schema.clone(), vec![Arc::new(Int64Array::from(cells.to_vec())) as ArrayRef]).unwrap()
    };
    let key = |n: i64| (Some(n), None);
    let mut out = Output::new(schema.clone());
    out.emit(keys(&[key(1), key(1), key(2)]), rows(&[10, 11, 20])).unwrap();
    out.emit(keys(&[key(3), key(1)]), rows(&[30, 12])).unwrap();
    let found = out.into_rows().unwrap();
    let cells: Vec<i64> = found.column(0).as_primitive::<Int64Type>().values().to_vec();
    let mut order: Vec<i64> = vec![1, 2, 3];
    order.sort_by_key(|&n| keys(&[key(n)]).hash(0));
    let expected: Vec<i64> =
        order.into_iter().flat_map(|n| if n == 1 { vec![10, 11, 12] } else { vec![n * 10] }).collect();
    assert_eq!(cells, expected);
    assert!(Output::new(schema.clone()).into_rows().unwrap().num_rows() == 0);
    assert!(Output::new(schema.clone()).emit(keys(&[key(1)]), rows(&[1, 2])).is_err());
}
