//! The cost of finding due rows, counted in rows read: it grows with the rows that are due, not with the map.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array};
use arrow_schema::{DataType, Field, Fields};

use super::{Changes, StateMap};
use crate::range::KeyRange;
use crate::run::looks;
use crate::schema::MapSchema;

fn schema() -> Arc<MapSchema> {
    let field = |name: &str| Fields::from(vec![Field::new(name, DataType::Int64, true)]);
    Arc::new(MapSchema::new("test", &field("k"), &Fields::empty(), &field("v")).unwrap())
}

/// Put `keys`, with the deadline that `deadline` returns for each.
fn put(map: &mut StateMap, keys: std::ops::Range<i64>, deadline: impl Fn(i64) -> i64) {
    let column: ArrayRef = Arc::new(Int64Array::from_iter_values(keys.clone()));
    let rows = column.len();
    let changes = Changes {
        keys: vec![Arc::clone(&column)],
        sub_keys: Vec::new(),
        values: vec![column],
        updated_at: vec![0; rows],
        deadline: keys.map(|key| Some(deadline(key))).collect(),
        deleted: vec![false; rows],
    };
    map.change(&changes).unwrap();
}

/// A map of `rows` keys in one run, in which key k is due at k, after enough searches to build its order of deadlines.
fn searched(rows: i64) -> StateMap {
    let mut map = StateMap::open(schema(), &[], KeyRange::ALL).unwrap();
    put(&mut map, 0..rows, |key| key);
    let mut map = StateMap::open(schema(), &[map.base().unwrap()], KeyRange::ALL).unwrap();
    for _ in 0..4 {
        assert_eq!(map.copy().due(-1).unwrap().updated_at.len(), 0);
    }
    assert_eq!(map.next_deadline(), Some(0));
    map
}

fn due(map: &mut StateMap, now_ms: i64) -> (usize, usize) {
    let (found, looked) = looks::during(|| map.due(now_ms).unwrap().updated_at.len());
    (found, looked)
}

#[test]
fn rows_that_are_not_due_are_read_only_by_a_binary_search() {
    for rows in [1_000, 100_000] {
        let mut map = searched(rows);
        let (nothing, looked) = due(&mut map, -1);
        assert!(nothing == 0 && looked <= 64, "{looked} of {rows}");
        for count in [1, 100, 900] {
            let (found, looked) = due(&mut map.copy(), count - 1);
            assert_eq!(found, count as usize);
            assert!(looked <= 2 * found + 64, "{looked} for {found} of {rows}");
        }
    }
}

#[test]
fn rows_that_have_fired_are_not_read_again() {
    let mut map = searched(100_000);
    assert_eq!(due(&mut map, 49_999).0, 50_000);
    let mut gone = StateMap::open(schema(), map.runs(), KeyRange::ALL).unwrap();
    put(&mut gone, 0..50_000, |_| 1_000_000);
    assert_eq!(due(&mut gone, 50_009).0, 10); // also records how far newer runs hide the base
    let mut later = StateMap::open(schema(), gone.runs(), KeyRange::ALL).unwrap();
    for _ in 0..4 {
        later.copy().due(50_009).unwrap();
    }
    let (found, looked) = due(&mut later, 50_019);
    assert!(found == 20 && looked <= 6 * found + 128, "{looked} for {found}");
}

#[test]
fn rows_that_were_taken_are_not_searched_again() {
    let mut map = searched(100_000);
    assert_eq!(map.take_due(49_999, 1).unwrap().updated_at.len(), 50_000);
    let (next, looked) = looks::during(|| map.next_deadline());
    assert!(next == Some(50_000) && looked <= 256, "{looked}");
}

#[test]
fn a_run_is_spent_once_all_its_rows_are_hidden_and_no_older_one_is_left() {
    let below = |map: &mut StateMap, keys: std::ops::Range<i64>, due: fn(i64) -> i64| {
        put(map, keys, due);
        *map = StateMap::open(schema(), map.runs(), KeyRange::ALL).unwrap();
    };
    let mut map = StateMap::open(schema(), &[], KeyRange::ALL).unwrap();
    for (keys, due) in [(0..100, (|_| 10) as fn(i64) -> i64), (100..200, |_| 20), (0..50, |_| 30)] {
        below(&mut map, keys, due);
    }
    assert_eq!((map.runs().len(), map.spent_runs()), (3, 0)); // keys 50..100 are live in the first run
    map.take_due(10, 1).unwrap();
    assert_eq!(map.spent_runs(), 1);
    let mut next = StateMap::open(schema(), map.runs(), KeyRange::ALL).unwrap();
    next.take_due(20, 1).unwrap();
    assert_eq!((next.runs().len(), next.spent_runs(), next.len()), (5, 2, 50));
    assert_eq!(StateMap::open(schema(), &next.runs()[2..], KeyRange::ALL).unwrap().len(), 50);
    next.take_due(30, 1).unwrap();
    assert_eq!((next.spent_runs(), next.len()), (4, 0)); // includes a run that has only tombstones
}

#[test]
fn a_row_without_a_deadline_is_never_spent() {
    let mut map = searched(10);
    let column: ArrayRef = Arc::new(Int64Array::from(vec![100]));
    let changes = Changes {
        keys: vec![Arc::clone(&column)],
        sub_keys: Vec::new(),
        values: vec![column],
        updated_at: vec![0],
        deadline: vec![None],
        deleted: vec![false],
    };
    map.change(&changes).unwrap();
    let mut map = StateMap::open(schema(), &[map.base().unwrap()], KeyRange::ALL).unwrap();
    assert_eq!(map.take_due(50, 1).unwrap().updated_at.len(), 10);
    assert_eq!((map.spent_runs(), map.len()), (0, 1));
}

#[test]
fn keys_that_every_batch_postpones_are_not_read_while_they_wait() {
    let mut map = searched(50_000);
    let (mut now, mut most) = (0, 0);
    for batch in 0..40 {
        now = batch * 10;
        let mut changed = map.next_version().unwrap();
        put(&mut changed, now + 1_000..now + 1_500, |key| key + 100_000);
        put(&mut changed, now..now + 10, |_| i64::MAX - 1);
        for _ in 0..4 {
            changed.copy().due(-1).unwrap(); // builds the order of the new run, too
        }
        let (found, looked) = due(&mut changed, now + 9);
        assert_eq!(found, 0);
        most = most.max(looked);
        map = changed;
    }
    assert!(now == 390 && most <= 1_000, "{most}");
}

#[test]
fn the_next_deadline_is_found_without_reading_the_others() {
    for rows in [1_000, 100_000] {
        let mut map = searched(rows);
        let (next, looked) = looks::during(|| map.next_deadline());
        assert!(next == Some(0) && looked <= 256, "{looked} of {rows}");
    }
}
