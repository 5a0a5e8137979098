//! Facts about single runs and merges that the model test of `map` would not pinpoint.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Int64Array, StringArray};
use arrow_schema::{DataType, Field, Fields};

use super::{SortedRun, Tombstones, Unsorted, fit, merge, merge_in_parts};
use crate::error::Error;
use crate::key::{Keys, with_masked_hashes};
use crate::range::KeyRange;
use crate::schema::MapSchema;

fn schema() -> Arc<MapSchema> {
    let field = |name: &str, data_type| Fields::from(vec![Field::new(name, data_type, true)]);
    let (key, value) = (field("key", DataType::Int64), field("value", DataType::Utf8));
    Arc::new(MapSchema::new("test", &key, &Fields::empty(), &value).unwrap())
}

fn keys(numbers: &[i64]) -> Keys {
    Keys::new(&[Arc::new(Int64Array::from(numbers.to_vec()))]).unwrap()
}

/// (key, value or tombstone, deadline)
fn run(rows: &[(i64, Option<&str>, Option<i64>)]) -> SortedRun {
    let values: ArrayRef = Arc::new(rows.iter().map(|row| row.1.or(Some("left over"))).collect::<StringArray>());
    let unsorted = Unsorted {
        keys: &keys(&rows.iter().map(|row| row.0).collect::<Vec<_>>()),
        values: &[values],
        updated_at: &vec![7; rows.len()],
        deadline: &rows.iter().map(|row| row.2).collect::<Vec<_>>(),
        deleted: &rows.iter().map(|row| row.1.is_none()).collect::<Vec<_>>(),
    };
    SortedRun::from_unsorted(&schema(), &unsorted).unwrap()
}

fn contents(run: &SortedRun) -> Vec<(i64, Option<String>)> {
    let batch = run.batch().unwrap();
    let (keys, values) = (batch.column(0).as_primitive::<Int64Type>(), batch.column(1).as_string::<i32>());
    let mut rows: Vec<_> = keys.values().iter().copied().zip(values.iter().map(|v| v.map(str::to_owned))).collect();
    rows.sort();
    rows
}

fn numbers(run: &SortedRun) -> Vec<i64> {
    contents(run).into_iter().map(|row| row.0).collect()
}

#[test]
fn the_last_of_equal_keys_wins() {
    let run = run(&[(1, Some("a"), None), (2, Some("b"), None), (1, Some("c"), None)]);
    assert_eq!(contents(&run), [(1, Some("c".into())), (2, Some("b".into()))]);
}

#[test]
fn a_tombstone_has_no_value_and_no_deadline() {
    let run = run(&[(1, None, Some(5))]);
    assert_eq!(contents(&run), [(1, None)]);
    assert_eq!(run.first_due(), None);
    assert!(run.is_tombstone(0));
}

#[test]
fn an_empty_run_finds_nothing() {
    let run = run(&[]);
    assert!(run.is_empty());
    assert_eq!(run.find(&keys(&[1]), 0), None);
    assert_eq!((run.first_due(), run.nbytes(), run.batch().unwrap().num_rows()), (None, 0, 0));
}

#[test]
fn every_key_is_found_and_no_other() {
    for mask in [u64::MAX, 0xff << 56, 0xff, 0] {
        with_masked_hashes(mask, || {
            let run = run(&(0..3000).map(|key| (key * 2, Some("x"), None)).collect::<Vec<_>>());
            let asked = keys(&(0..6000).collect::<Vec<_>>());
            for i in 0..6000 {
                let found = run.find(&asked, i).map(|row| run.keys().cmp_at(row, &asked, i).is_eq());
                assert_eq!(found, (i % 2 == 0).then_some(true), "key {i} under mask {mask:x}");
            }
        });
    }
}

#[test]
fn a_part_of_a_run_shows_only_its_hashes() {
    let whole = run(&(0..1000).map(|key| (key, Some("x"), Some(key))).collect::<Vec<_>>());
    let middle = whole.hashes()[500];
    let low = whole.within(KeyRange::new(0, middle).unwrap());
    let high = whole.within(KeyRange::new(middle + 1, u64::MAX).unwrap());
    assert_eq!((low.len(), high.len()), (501, 499));
    assert_eq!(high.find(low.keys(), 500), None);
    assert!(low.find(low.keys(), 500).is_some());
    assert!(high.nbytes() < whole.nbytes());
}

#[test]
fn the_least_deadline_of_a_part_is_that_of_the_rows_it_shows() {
    let whole = run(&(0..200).map(|key| (key, Some("x"), (key % 3 > 0).then_some(key))).collect::<Vec<_>>());
    for &cut in whole.hashes() {
        for part in [whole.within(KeyRange { lo: 0, hi: cut }), whole.within(KeyRange { lo: cut, hi: u64::MAX })] {
            let least = numbers(&part).into_iter().filter(|key| key % 3 > 0).min();
            assert_eq!(part.first_due().map(|due| due.deadline_ms), least);
        }
    }
}

#[test]
fn the_newest_row_wins_a_merge_and_tombstones_stay() {
    let old = run(&[(1, Some("a"), None), (2, Some("b"), None), (3, Some("c"), None)]);
    let new = run(&[(2, None, None), (3, Some("d"), None), (4, None, None)]);
    let kept = merge(&[old.clone(), new.clone()], KeyRange::ALL, Tombstones::Keep).unwrap();
    assert_eq!(contents(&kept), [(1, Some("a".into())), (2, None), (3, Some("d".into())), (4, None)]);
    let dropped = merge(&[old, new], KeyRange::ALL, Tombstones::Drop).unwrap();
    assert_eq!(contents(&dropped), [(1, Some("a".into())), (3, Some("d".into()))]);
}

#[test]
fn a_merge_of_one_run_drops_its_tombstones_and_rows_outside_the_range() {
    let only = run(&[(1, Some("a"), None), (2, None, None)]);
    assert_eq!(numbers(&merge(std::slice::from_ref(&only), KeyRange::ALL, Tombstones::Drop).unwrap()), [1]);
    let hash = keys(&[2]).hash(0);
    let range = KeyRange::new(hash, hash).unwrap();
    assert_eq!(numbers(&merge(std::slice::from_ref(&only), range, Tombstones::Keep).unwrap()), [2]);
    assert!(merge(&[only], range, Tombstones::Drop).unwrap().is_empty());
}

#[test]
fn empty_lists_and_different_columns_cannot_be_merged() {
    let error = merge(&[], KeyRange::ALL, Tombstones::Keep).unwrap_err();
    assert!(matches!(error, Error::InvalidInput(_)));
    let field = Fields::from(vec![Field::new("key", DataType::Int64, true)]);
    let other = Arc::new(MapSchema::new("other", &field, &Fields::empty(), &Fields::empty()).unwrap());
    let unsorted = Unsorted { keys: &keys(&[1]), values: &[], updated_at: &[0], deadline: &[None], deleted: &[false] };
    let odd = SortedRun::from_unsorted(&other, &unsorted).unwrap();
    let error = merge(&[odd, run(&[])], KeyRange::ALL, Tombstones::Keep).unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot merge runs with different columns: (key: Int64) () -> () and (key: Int64) () -> (value: Utf8)"
    );
}

/// Deadlines of rows: the sorted deadlines, and the deadlines in the order in which the run returns the rows.
fn due(run: &SortedRun, now_ms: i64) -> Vec<i64> {
    let rows = run.due(now_ms);
    assert!(rows.is_sorted(), "due rows come in the order of their keys");
    let mut found: Vec<i64> = rows.iter().map(|&row| run.deadline(row as usize).unwrap()).collect();
    found.sort_unstable();
    found
}

#[test]
fn due_rows_are_found_by_a_scan_and_by_the_order_of_deadlines() {
    let far = i64::MAX;
    for span in [1, 1 << 20, 1 << 50] {
        let deadline = |key: i64| (key % 3 > 0).then(|| if key == 1 { far } else { (key * 7 % 500 - 250) * span });
        let whole = run(&(0..500).map(|key| (key, Some("x"), deadline(key))).collect::<Vec<_>>());
        for searches in 0..5 {
            let cut = whole.hashes()[100 * searches];
            let part = whole.within(KeyRange { lo: cut, hi: u64::MAX });
            let mut expected: Vec<i64> = numbers(&part).into_iter().filter_map(deadline).collect();
            expected.sort_unstable();
            for now in [i64::MIN, -span, 0, 100 * span, far - 1, far] {
                assert_eq!(due(&part, now), expected[..expected.partition_point(|&at| at <= now)]);
            }
            let in_order = |skip, count| -> Vec<i64> {
                part.by_deadline(skip, count).iter().map(|&row| part.deadline(row as usize).unwrap()).collect()
            };
            assert_eq!((in_order(0, 7), in_order(0, 1000)), (expected[..7].to_vec(), expected.clone()));
            assert_eq!((in_order(20, 7), in_order(600, 7)), (expected[20..27].to_vec(), Vec::new()));
        }
    }
}

#[test]
fn the_first_rows_by_deadline_are_found_before_the_order_is_built() {
    for count in [1, 2, 64, 700] {
        let run = run(&(0..600).map(|key| (key, Some("x"), (key % 2 == 0).then_some(600 - key))).collect::<Vec<_>>());
        let first: Vec<_> = run.by_deadline(0, count).iter().map(|&row| run.deadline(row as usize).unwrap()).collect();
        assert_eq!(first, (1..=300).map(|at| at * 2).take(count).collect::<Vec<i64>>());
    }
}

#[test]
fn a_run_without_deadlines_never_builds_their_order() {
    let run = run(&[(1, Some("x"), None), (2, None, Some(5))]);
    let bytes = run.nbytes();
    (0..9).for_each(|_| assert_eq!((run.due(i64::MAX), run.by_deadline(0, 9)), (Vec::new(), Vec::new())));
    assert_eq!(run.nbytes(), bytes);
}

#[test]
fn keys_that_a_run_holds_are_removed_and_the_others_keep_their_order() {
    for mask in [u64::MAX, 0xff << 56, 0xff, 0] {
        with_masked_hashes(mask, || {
            let run = run(&(0..1000).map(|key| (key * 3, Some("x"), None)).collect::<Vec<_>>());
            let part = run.within(KeyRange { lo: run.hashes()[100], hi: run.hashes()[800] });
            let asked = keys(&(0..3000).collect::<Vec<_>>());
            let by_hash = asked.order();
            // Rows in random order; in the run's order, close together; and with most rows between them.
            let orders =
                [(0..3000).rev().collect::<Vec<u32>>(), by_hash.clone(), by_hash.into_iter().step_by(400).collect()];
            for order in &orders {
                for (number, run) in [&run, &part, &run, &part].into_iter().enumerate() {
                    let (mut wanted, mut found): (Vec<u32>, Vec<(u32, usize)>) = (order.clone(), Vec::new());
                    match number {
                        0 | 1 => run.take_held(&asked, &mut wanted, |i, row| found.push((i, row))),
                        _ => run.take_few_held(&asked, &mut wanted, |i, row| found.push((i, row))),
                    }
                    let each = |i: u32| Some((i, run.find(&asked, i as usize)?));
                    assert_eq!(found, order.iter().copied().filter_map(each).collect::<Vec<_>>());
                    assert_eq!(wanted, order.iter().copied().filter(|&i| each(i).is_none()).collect::<Vec<_>>());
                }
            }
        });
    }
}

#[test]
fn a_filter_is_built_once_it_pays_and_counts_as_memory() {
    let run = run(&(0..1000).map(|key| (key, Some("x"), None)).collect::<Vec<_>>());
    let (asked, bytes) = (keys(&(2000..2099).collect::<Vec<_>>()), run.nbytes());
    run.take_few_held(&asked, &mut (0..99).collect(), |_, _| panic!("it holds none"));
    assert_eq!(run.nbytes(), bytes);
    run.take_few_held(&asked, &mut vec![0], |_, _| panic!("it holds none"));
    assert!((2000..=4008).contains(&(run.nbytes() - bytes)), "16 to 32 bits a row");
    let empty = self::run(&[]);
    empty.take_few_held(&asked, &mut vec![0], |_, _| panic!("it holds none"));
}

#[test]
fn rows_that_exceed_one_run_are_merged_in_parts_that_make_up_the_whole() {
    let older: Vec<_> = (0..300).map(|key| (key, Some("0123456789"), None)).collect();
    let newer: Vec<_> = (200..400).map(|key| (key, (key % 3 > 0).then_some("abcde"), None)).collect();
    let runs = [run(&older), run(&newer)];
    let all = 300 * 10 + (200..400).filter(|key| key % 3 > 0).count() * 5;
    assert_eq!((fit(&runs, all), fit(&runs, all - 1)), (true, false));
    for tombstones in [Tombstones::Keep, Tombstones::Drop] {
        let whole = contents(&merge(&runs, KeyRange::ALL, tombstones).unwrap());
        for most in [all, 1500, 100] {
            let parts = merge_in_parts(&runs, KeyRange::ALL, tombstones, most).unwrap();
            assert_eq!(parts.len() > 1, most < all);
            let mut found: Vec<_> = parts.iter().flat_map(|(_, part)| contents(part)).collect();
            found.sort();
            assert_eq!(found, whole);
            let mut next = Some(0);
            for (range, part) in &parts {
                assert_eq!(Some(range.lo), next);
                next = range.hi.checked_add(1);
                assert!(fit(std::slice::from_ref(part), most), "{range:?}");
                assert!(part.keys().hashes().iter().all(|&hash| range.contains(hash)));
            }
            assert_eq!(next, None);
        }
    }
    let one_hash = merge_in_parts(&runs, KeyRange::ALL, Tombstones::Keep, 0).unwrap();
    assert_eq!(one_hash.iter().map(|(_, part)| part.len()).sum::<usize>(), 400);
}
