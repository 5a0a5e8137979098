//! Groups compared with a plain map, with and without hash collisions, and the order of outputs.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, BinaryArray, Int64Array, RecordBatch, StringArray};
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, Field, Schema};
use proptest::prelude::*;

use super::super::groups::Grouping;
use super::super::{Groups, Origin, Output, RowAt};
use crate::key::{Keys, TWIN_OF_NULL, with_masked_hashes};

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

/// The groups of chunks that arrive one after the other, with an estimate of `rows` rows.
fn grouped_in_turn(chunks: &[Keys], rows: usize) -> Groups {
    let mut grouping = Grouping::new(rows);
    chunks.iter().for_each(|keys| grouping.add(keys));
    grouping.groups(chunks).unwrap()
}

fn check(chunks: &[Vec<Key>]) -> Result<(), TestCaseError> {
    let keys: Vec<Keys> = chunks.iter().map(|rows| keys(rows)).collect();
    check_groups(&Groups::new(&keys).unwrap(), chunks)?;
    // Estimates above and below the real number of rows.
    [1 << 20, 1 << 10].iter().try_for_each(|&rows| check_groups(&grouped_in_turn(&keys, rows), chunks))
}

fn check_groups(groups: &Groups, chunks: &[Vec<Key>]) -> Result<(), TestCaseError> {
    let mut expected: BTreeMap<Key, Vec<RowAt>> = BTreeMap::new();
    for (chunk, rows) in (0u32..).zip(chunks) {
        for (row, key) in (0u32..).zip(rows) {
            expected.entry(key.clone()).or_default().push(RowAt { chunk, row });
            let number = groups.numbers()[chunk as usize][row as usize];
            prop_assert_eq!(&key_at(&groups.keys, number as usize), key);
        }
    }
    prop_assert_eq!(groups.len(), expected.len());
    prop_assert!((1..groups.len()).all(|row| groups.keys.cmp_at(row - 1, &groups.keys, row).is_lt()));
    check_rows(groups, |group| expected[&key_at(&groups.keys, group)].clone())
}

/// The rows of each group are those `expected`, and there are no other groups.
fn check_rows(groups: &Groups, expected: impl Fn(usize) -> Vec<RowAt>) -> Result<(), TestCaseError> {
    let (rows, ends) = groups.rows();
    let mut start = 0;
    for (group, &end) in ends.iter().enumerate() {
        prop_assert_eq!(rows[start..end].to_vec(), expected(group));
        start = end;
    }
    prop_assert_eq!(start, rows.len());
    Ok(())
}

/// Groups of keys of one text, some of which have bytes under a null or outside a slice.
fn check_texts(chunks: &[Vec<Option<Vec<u8>>>], is_binary: bool) -> Result<(), TestCaseError> {
    let column = |rows: &[Option<Vec<u8>>]| -> ArrayRef {
        let hidden = || std::iter::once(Some(b"not a key, and long".to_vec()));
        let nulls = rows.iter().map(|row| Some(row.clone().unwrap_or_else(|| b"under a null".to_vec())));
        let column: BinaryArray = hidden().chain(nulls).collect();
        let valid = [true].into_iter().chain(rows.iter().map(Option::is_some)).collect::<Vec<_>>();
        let nulls = rows.iter().any(Option::is_none).then(|| NullBuffer::from(valid));
        let column = BinaryArray::new(column.offsets().clone(), column.values().clone(), nulls);
        let column: ArrayRef =
            if is_binary { Arc::new(column) } else { Arc::new(StringArray::try_from_binary(column).unwrap()) };
        column.slice(1, rows.len())
    };
    let text = |column: &ArrayRef, row: usize| {
        let text = if is_binary {
            column.as_binary::<i32>().value(row)
        } else {
            column.as_string::<i32>().value(row).as_bytes()
        };
        column.is_valid(row).then(|| text.to_vec())
    };
    let keys: Vec<Keys> = chunks.iter().map(|rows| Keys::new(&[column(rows)]).unwrap()).collect();
    let groups = Groups::new(&keys).unwrap();
    let mut expected: BTreeMap<(u64, Option<Vec<u8>>), Vec<RowAt>> = BTreeMap::new();
    for ((chunk, rows), keys) in (0u32..).zip(chunks).zip(&keys) {
        for (row, key) in (0u32..).zip(rows) {
            expected.entry((keys.hash(row as usize), key.clone())).or_default().push(RowAt { chunk, row });
        }
    }
    let found = (0..groups.len()).map(|row| (groups.keys.hash(row), text(&groups.keys.columns()[0], row)));
    prop_assert_eq!(found.collect::<Vec<_>>(), expected.keys().cloned().collect::<Vec<_>>());
    prop_assert_eq!(groups.keys.columns()[0].data_type(), keys[0].columns()[0].data_type());
    prop_assert_eq!(groups.keys.columns()[0].null_count(), expected.keys().filter(|(_, key)| key.is_none()).count());
    let expected: Vec<Vec<RowAt>> = expected.into_values().collect();
    check_rows(&groups, |group| expected[group].clone())?;
    for (rows, group) in expected.iter().zip(0u32..) {
        prop_assert!(rows.iter().all(|at| groups.numbers()[at.chunk as usize][at.row as usize] == group));
    }
    Ok(())
}

/// Texts of 0 to 20 bytes, mostly at most 16, that differ little and contain zero bytes.
fn some_texts(rows: usize) -> impl Strategy<Value = Vec<Option<Vec<u8>>>> {
    let lengths = prop::sample::select(vec![0usize, 1, 2, 7, 8, 9, 15, 16]);
    let text = (lengths, 0usize..16, prop::sample::select(vec![0u8, 1, b'a', 0x7f])).prop_map(|(length, at, byte)| {
        let mut text = vec![0; length];
        text.iter_mut().skip(at).take(1).for_each(|cell| *cell = byte);
        text
    });
    prop::collection::vec(prop::option::weighted(0.95, text), 0..rows)
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

    #[test]
    fn rows_in_key_order_are_grouped_in_that_order(
        rows in a_chunk(60), mask in prop::sample::select(vec![u64::MAX, 3 << 62, 0]), is_first: bool,
    ) {
        with_masked_hashes(mask, || {
            let in_order: Vec<Key> = keys(&rows).order().into_iter().map(|row| rows[row as usize].clone()).collect();
            check(&if is_first { [in_order, Vec::new()] } else { [Vec::new(), in_order] })
        })?;
    }
}

proptest! {
    #[test]
    fn texts_are_grouped_whatever_their_lengths(
        chunks in prop::collection::vec(some_texts(300), 1..4), longer in prop::option::of(16usize..20),
        is_binary: bool, mask in prop::sample::select(vec![u64::MAX, 0xff << 56, 3, 0]),
    ) {
        let mut chunks = chunks;
        chunks[0].extend(longer.into_iter().flat_map(|zeros| [1, 2].map(|last| Some([vec![0; zeros], vec![last]].concat()))));
        with_masked_hashes(mask, || check_texts(&chunks, is_binary))?;
    }
}

#[test]
fn many_texts_are_grouped_with_any_hashes() {
    let rows: Vec<Option<Vec<u8>>> = (0..60_000u32)
        .map(|row| {
            (row % 1009 > 0)
                .then(|| format!("{:0>width$}", row * 7919 % 40_009, width = row as usize % 16).into_bytes())
        })
        .collect();
    for mask in [u64::MAX, 0xfff << 52, 0xfff] {
        let chunks = [rows[..25_000].to_vec(), Vec::new(), rows[25_000..].to_vec()];
        with_masked_hashes(mask, || check_texts(&chunks, false)).unwrap();
    }
}

#[test]
fn many_rows_for_each_key_are_grouped_with_any_hashes() {
    let key = |row: i64| (Some(row * 7919 % 61), (row % 3 == 0).then(|| format!("text {}", row % 5)));
    let rows: Vec<Key> = (0..9_000).map(key).collect();
    // Keep all bits; the low ones; those that a slot of a table does not store; the leading ones; none.
    for mask in [u64::MAX, 0xff, 0xf << 14, 3 << 62, 0] {
        with_masked_hashes(mask, || check(&[rows[..2_000].to_vec(), Vec::new(), rows[2_000..].to_vec()])).unwrap();
    }
    let numbers: Vec<Key> = (0..9_000i64).map(|row| (Some(row * 7919 % 61), None)).collect();
    check(&[numbers]).unwrap();
}

#[test]
fn numbers_and_nulls_of_many_chunks_are_grouped() {
    let number = |row: i64| [Some(row % 50), Some(row % 70), None, Some(TWIN_OF_NULL)][row as usize % 4];
    let rows: Vec<Option<i64>> = (0..9_000).map(number).collect();
    let with_null = rows[..3_000].to_vec();
    let without: Vec<Option<i64>> = rows[3_000..].iter().copied().filter(Option::is_some).collect();
    let alone = |cell: Option<i64>| vec![cell; 3_000];
    for chunks in [
        vec![without.clone(), with_null.clone()],
        vec![with_null.clone(), without.clone(), with_null.clone()],
        vec![alone(None), alone(number(3))],
        vec![alone(number(3)), alone(None), without],
    ] {
        let keys: Vec<Keys> = chunks
            .iter()
            .map(|cells| Keys::new(&[Arc::new(cells.iter().copied().collect::<Int64Array>()) as ArrayRef]).unwrap())
            .collect();
        for groups in [Groups::new(&keys).unwrap(), grouped_in_turn(&keys, 1 << 20)] {
            let found = groups.keys.columns()[0].as_primitive::<Int64Type>();
            let distinct: std::collections::BTreeSet<Option<i64>> = chunks.iter().flatten().copied().collect();
            assert_eq!(found.iter().collect::<std::collections::BTreeSet<_>>(), distinct);
            assert_eq!(groups.len(), distinct.len());
            for (cells, numbers) in chunks.iter().zip(groups.numbers()) {
                let numbered =
                    numbers.iter().map(|&group| found.is_valid(group as usize).then(|| found.value(group as usize)));
                assert!(numbered.eq(cells.iter().copied()));
            }
        }
    }
}

#[test]
fn many_rows_in_several_piles_are_grouped() {
    let rows: Vec<Key> = (0..60_000i64).map(|row| (Some(row * 7919 % 20_011), None)).collect();
    check(&[rows[..25_000].to_vec(), rows[25_000..].to_vec()]).unwrap();
}

#[test]
fn outputs_are_sorted_by_key_and_rows_of_a_key_keep_their_order() {
    let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, true)]));
    let rows = |cells: &[i64]| {
        RecordBatch::try_new(schema.clone(), vec![Arc::new(Int64Array::from(cells.to_vec())) as ArrayRef]).unwrap()
    };
    let key = |n: i64| (Some(n), None);
    let mut out = Output::new(schema.clone());
    out.emit(keys(&[key(1), key(1), key(2)]), rows(&[10, 11, 20]), || Origin::Keys).unwrap();
    out.emit(keys(&[key(3), key(1)]), rows(&[30, 12]), || Origin::Keys).unwrap();
    let found = out.into_rows().unwrap();
    let cells: Vec<i64> = found.column(0).as_primitive::<Int64Type>().values().to_vec();
    let mut order: Vec<i64> = vec![1, 2, 3];
    order.sort_by_key(|&n| keys(&[key(n)]).hash(0));
    let expected: Vec<i64> =
        order.into_iter().flat_map(|n| if n == 1 { vec![10, 11, 12] } else { vec![n * 10] }).collect();
    assert_eq!(cells, expected);
    // The same rows emitted by key number, in one emission and in two, sorted and unsorted.
    let (all, emitted) = (keys(&[key(3), key(1), key(2)]), [(1, 10), (0, 30), (1, 11), (2, 20), (1, 12)]);
    for cut in 0..=emitted.len() {
        let mut out = Output::new(schema.clone());
        for part in [&emitted[..cut], &emitted[cut..]] {
            let (by, cells): (Vec<u32>, Vec<i64>) = part.iter().copied().unzip();
            out.emit_by(&all, by, rows(&cells), |_| Origin::Keys).unwrap();
        }
        assert_eq!(out.into_rows().unwrap().column(0).as_primitive::<Int64Type>().values(), &expected[..]);
    }
    let ascending = all.take(&all.order()).unwrap();
    let mut out = Output::new(schema.clone());
    out.emit_by(&ascending, vec![0, 0, 2], rows(&[5, 4, 3]), |_| Origin::Keys).unwrap();
    assert_eq!(out.into_rows().unwrap().column(0).as_primitive::<Int64Type>().values(), &[5, 4, 3]);
    assert!(Output::new(schema.clone()).emit_by(&all, vec![0], rows(&[1, 2]), |_| Origin::Keys).is_err());
    assert!(Output::new(schema.clone()).into_rows().unwrap().num_rows() == 0);
    assert!(Output::new(schema.clone()).emit(keys(&[key(1)]), rows(&[1, 2]), || Origin::Keys).is_err());
}
