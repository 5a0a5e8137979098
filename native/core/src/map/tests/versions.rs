//! Chains of versions have few runs, rewrite few rows, and never change each other.

use super::super::merge_count;
use super::world::{Change, changes};
use super::{empty, put, remove, with};
use crate::offsets::with_columns_of_at_most;
use crate::run::fit;

#[test]
fn many_versions_have_few_runs_and_are_counted_one_by_one() {
    let (mut map, mut older) = (empty(), Vec::new());
    for number in 0..200 {
        let row = if number % 7 == 6 { remove(1) } else { put(number % 4, number as i64, Some(number as i64)) };
        map.change(&changes(&[row])).unwrap();
        assert_eq!((map.deltas(), map.runs().len() <= 9), (number, true));
        older.push((map.len(), map.scan().unwrap().deadline, map.clone()));
        map = map.next_version().unwrap();
        assert_eq!((map.deltas(), map.runs().len() <= 8), (number, true));
        assert!(map.delta().unwrap().is_none());
        assert_eq!((map.len(), map.scan().unwrap().deadline), (older[number].0, older[number].1.clone()));
        assert_eq!(map.next_deadline(), older[number].1.iter().flatten().min().copied());
    }
    for (rows, deadlines, version) in older {
        assert_eq!((version.len(), version.scan().unwrap().deadline), (rows, deadlines));
    }
}

#[test]
fn versions_work_if_one_run_cannot_hold_all_texts_and_hidden_rows_do_not_count() {
    let texts = |number: usize| -> Vec<Change> {
        (number * 5 + 2..number * 5 + 5).map(|key| put(key, number as i64 % 2, None)).collect()
    };
    let two = with(&[texts(0), texts(1)].concat()).base().unwrap();
    let most = (1..).find(|&most| fit(std::slice::from_ref(&two), most)).unwrap();
    with_columns_of_at_most(most, || {
        let (mut apart, mut rewritten) = (empty(), empty());
        for number in 0..14 {
            apart.change(&changes(&texts(number))).unwrap();
            apart = apart.next_version().unwrap();
            assert_eq!(apart.len(), 3 * (number + 1));
            rewritten.change(&changes(&texts(number % 2))).unwrap();
            rewritten = rewritten.next_version().unwrap();
            assert!(rewritten.runs().len() <= 8, "{}", rewritten.runs().len());
        }
        assert!(apart.runs().len() > 5);
        assert_eq!(rewritten.len(), 6);
        assert!(apart.base().is_err());
    });
}

#[test]
fn runs_are_merged_once_there_is_one_too_many() {
    assert_eq!(merge_count(&[]), 0);
    assert_eq!(merge_count(&[100]), 1);
    assert_eq!(merge_count(&[10; 8]), 1);
    assert_eq!(merge_count(&[10; 9]), 9);
    assert_eq!(merge_count(&[1000, 10, 10, 10, 10, 10, 10, 10, 10]), 8);
    assert_eq!(merge_count(&[1000, 100, 10, 10, 10, 10, 10, 10, 10]), 7);
    assert_eq!(merge_count(&[9000, 8000, 7000, 6000, 5000, 4000, 3000, 2000, 1]), 2);
}

/// The most runs at any time, and the rows written for each row changed, in batches of ten rows over a base.
fn many_batches(base: u64, batches: u64) -> (usize, u64) {
    let (mut runs, mut most, mut written) = (vec![base], 1, 0);
    for _ in 0..batches {
        runs.push(10);
        let merged: u64 = runs.split_off(runs.len() - merge_count(&runs)).iter().sum();
        written += merged;
        runs.push(merged);
        most = most.max(runs.len());
    }
    (most, written / (10 * batches))
}

#[test]
fn the_number_of_runs_is_bounded_and_few_rows_are_rewritten() {
    for base in [0, 10, 10_000, 1_000_000, 10_000_000_000] {
        let (runs, amplification) = many_batches(base, 10_000);
        assert!(runs <= 8, "{runs} runs above a base of {base}");
        assert!(amplification < 16, "a row is written {amplification} times above a base of {base}");
    }
    assert!(many_batches(10_000, 200).1 < 4, "two hundred batches of a thousandth of the base");
}
