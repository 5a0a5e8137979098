//! Tests of state maps: a model test (`random`) and facts that deserve a name.

mod random;
mod versions;
mod world;

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, Int64Array, StringArray};
use arrow_schema::{DataType, Field, Fields};

use self::world::{Change, changes, keys_of, map_schema};
use super::{Changes, StateMap};
use crate::error::Error;
use crate::key::Keys;
use crate::range::KeyRange;
use crate::run::{Tombstones, merge};
use crate::schema::MapSchema;

fn empty() -> StateMap {
    StateMap::open(map_schema(), &[], KeyRange::ALL).unwrap()
}

fn put(key: usize, value: i64, deadline: Option<i64>) -> Change {
    Change { key, value: Some(value), updated_at: 1, deadline }
}

fn remove(key: usize) -> Change {
    Change { key, value: None, updated_at: 2, deadline: None }
}

fn with(rows: &[Change]) -> StateMap {
    let mut map = empty();
    map.change(&changes(rows)).unwrap();
    map
}

/// Reopen the map from the runs it was opened with and the segment of its changes.
fn committed(map: &StateMap) -> StateMap {
    let runs: Vec<_> = map.runs[..map.opened].iter().cloned().chain(map.delta().unwrap()).collect();
    StateMap::open(map_schema(), &runs, map.range()).unwrap()
}

#[test]
fn a_remove_hides_older_rows_and_a_later_put_is_visible() {
    let mut map = committed(&with(&[put(1, 10, None), put(2, 20, None)]));
    map.change(&changes(&[remove(1)])).unwrap();
    assert_eq!(map.get(&keys_of(&[1, 2])).unwrap().found, [false, true]);
    assert_eq!(map.len(), 1);
    map.change(&changes(&[put(1, 11, None)])).unwrap();
    assert_eq!(map.get(&keys_of(&[1, 2])).unwrap().found, [true, true]);
}

#[test]
fn remove_and_put_of_one_key_in_one_change_keeps_the_last() {
    let map = with(&[put(1, 10, None), remove(1), put(2, 1, None), put(1, 12, Some(5)), remove(2)]);
    let found = map.get(&keys_of(&[1, 2])).unwrap();
    assert_eq!(found.found, [true, false]);
    assert_eq!((found.deadline[0], found.updated_at[0], found.updated_at[1]), (Some(5), 1, 0));
}

#[test]
fn values_of_many_keys_are_those_that_get_finds() {
    let field = |name| Fields::from(vec![Field::new(name, DataType::Int64, true)]);
    let schema = Arc::new(MapSchema::new("many", &field("key"), &Fields::empty(), &field("n")).unwrap());
    let column = |cells: Vec<i64>| -> Vec<ArrayRef> { vec![Arc::new(Int64Array::from(cells))] };
    let changed = |keys: Vec<i64>, factor: i64| Changes {
        values: column(keys.iter().map(|key| key * factor).collect()),
        updated_at: vec![1; keys.len()],
        deadline: vec![None; keys.len()],
        deleted: vec![factor == 0; keys.len()],
        keys: column(keys),
        ..Changes::default()
    };
    let mut map = StateMap::open(Arc::clone(&schema), &[], KeyRange::ALL).unwrap();
    map.change(&changed((0..15_000).collect(), 1)).unwrap();
    let base = map.delta().unwrap().unwrap();
    let mut map = StateMap::open(schema, &[base], KeyRange::ALL).unwrap();
    map.change(&changed((0..15_000).step_by(7).collect(), 0)).unwrap();
    map.change(&changed((0..15_000).step_by(35).collect(), 2)).unwrap();
    let expected = |key: i64| match (key % 7, key % 35) {
        _ if key >= 15_000 => None,
        (_, 0) => Some(key * 2),
        (0, _) => None,
        _ => Some(key),
    };
    let asked = Keys::new(&column((0..16_000).collect())).unwrap();
    for keys in [&asked, &asked.take(&asked.order()).unwrap()] {
        let (found, values) = (map.get(keys).unwrap(), map.values(keys).unwrap());
        let all: Int64Array =
            keys.columns()[0].as_primitive::<Int64Type>().values().iter().map(|&key| expected(key)).collect();
        assert_eq!(values[0].as_primitive::<Int64Type>(), &all);
        assert_eq!(found.values, values);
        assert!(found.found.iter().zip(&all).all(|(&found, value)| found == value.is_some()));
    }
}

#[test]
fn removing_an_unknown_key_adds_a_tombstone_and_no_row() {
    let map = with(&[remove(3)]);
    assert_eq!((map.len(), map.delta().unwrap().unwrap().len()), (0, 1));
    assert_eq!(map.scan().unwrap().updated_at.len(), 0);
}

#[test]
fn nothing_changed_means_no_delta() {
    let mut map = committed(&with(&[put(1, 1, None)]));
    map.change(&changes(&[])).unwrap();
    assert!(map.delta().unwrap().is_none());
}

#[test]
fn a_refreshed_deadline_replaces_the_old_one() {
    let mut map = committed(&with(&[put(1, 1, Some(10)), put(2, 2, Some(50))]));
    map.change(&changes(&[put(1, 1, Some(100))])).unwrap();
    assert_eq!(map.due(10).unwrap().updated_at.len(), 0);
    assert_eq!(map.next_deadline(), Some(50));
    map.change(&changes(&[remove(2)])).unwrap();
    assert_eq!(map.next_deadline(), Some(100));
    map.change(&changes(&[put(1, 1, None)])).unwrap();
    assert_eq!(map.next_deadline(), None);
    assert_eq!(map.due(i64::MAX).unwrap().updated_at.len(), 0);
}

/// Rows with deadlines and integer keys, key by key.
fn armed(rows: impl Iterator<Item = (i64, Option<i64>)>) -> Changes {
    let (keys, deadline): (Vec<_>, Vec<_>) = rows.unzip();
    let (updated_at, deleted) = (vec![0; keys.len()], vec![false; keys.len()]);
    Changes { keys: vec![Arc::new(Int64Array::from(keys))], updated_at, deadline, deleted, ..Changes::default() }
}

#[test]
fn due_rows_that_are_taken_are_removed_and_can_be_put_again() {
    let (none, key) = (Fields::empty(), Fields::from(vec![Field::new("key", DataType::Int64, true)]));
    let schema = Arc::new(MapSchema::new("timers", &key, &none, &none).unwrap());
    let mut map = StateMap::open(schema, &[], KeyRange::ALL).unwrap();
    map.change(&armed((0..9).map(|key| (key, (key < 6).then_some(key))))).unwrap();
    let whole = map.copy();
    let due = map.take_due(3, 70).unwrap();
    assert_eq!((due.len(), due.is_empty(), map.len(), map.next_deadline()), (4, false, 5, Some(4)));
    assert!(map.take_due(3, 70).unwrap().is_empty());
    assert_eq!(map.get(&Keys::new(&due.keys).unwrap()).unwrap().found, [false; 4]);
    let some = due.take(&[2, 0]).unwrap();
    assert_eq!(some.deadline, [due.deadline[2], due.deadline[0]]);
    map.change(&some.put()).unwrap();
    assert_eq!((map.len(), map.due(3).unwrap().len()), (7, 2));
    map.change(&due.put()).unwrap();
    assert_eq!(map.scan().unwrap().deadline, whole.scan().unwrap().deadline);
}

#[test]
fn the_next_deadline_is_exact_if_newer_rows_hide_many() {
    let (none, key) = (Fields::empty(), Fields::from(vec![Field::new("key", DataType::Int64, true)]));
    let schema = Arc::new(MapSchema::new("timers", &key, &none, &none).unwrap());
    let mut base = StateMap::open(Arc::clone(&schema), &[], KeyRange::ALL).unwrap();
    base.change(&armed((0..3000).map(|key| (key, Some(key))))).unwrap();
    let base = base.delta().unwrap().unwrap();
    for refreshed in [0, 1, 63, 500, 2999, 3000] {
        let mut map = StateMap::open(Arc::clone(&schema), std::slice::from_ref(&base), KeyRange::ALL).unwrap();
        map.change(&armed((0..refreshed).map(|key| (key, (key % 2 == 0).then_some(9000 + key))))).unwrap();
        let least = if refreshed < 3000 { refreshed } else { 9000 };
        assert_eq!(map.next_deadline(), Some(least), "{refreshed} refreshed");
        assert_eq!(map.due(least - 1).unwrap().updated_at.len(), 0);
        assert_eq!(map.due(least).unwrap().deadline, [Some(least)]);
    }
}

/// Open the next version with its changes; `due_places` of the older runs is passed on to it.
fn next(mut map: StateMap) -> StateMap {
    let places = map.due_places();
    assert_eq!(places.len(), map.opened);
    let below = map.runs[..map.opened].iter().zip(places).map(|(run, place)| run.by_itself().with_due_from(place));
    let runs: Vec<_> = below.chain(map.delta().unwrap()).collect();
    StateMap::open(Arc::clone(map.schema()), &runs, map.range()).unwrap()
}

/// All keys wait for the same ms or each for its own, are postponed in many batches, and one key never is.
#[test]
fn postponed_rows_are_looked_up_once_over_all_versions() {
    const KEYS: i64 = 3000;
    let (none, key) = (Fields::empty(), Fields::from(vec![Field::new("key", DataType::Int64, true)]));
    let schema = Arc::new(MapSchema::new("timers", &key, &none, &none).unwrap());
    for (deadline, straggler) in
        [(|_| 500, Some(1234)), (|key| key, Some(2900)), (|key| key, None)] as [(fn(i64) -> i64, _); 3]
    {
        let mut map = StateMap::open(Arc::clone(&schema), &[], KeyRange::ALL).unwrap();
        map.change(&armed((0..KEYS).map(|key| (key, Some(deadline(key)))))).unwrap();
        let mut map = next(map);
        let mut passed = 0;
        for batch in 0..60 {
            let refreshed = (batch * 50..(batch + 1) * 50).filter(|&key| Some(key) != straggler);
            map.change(&armed(refreshed.map(|key| (key, Some(10_000))))).unwrap();
            let ahead = map.runs[0].by_deadline(0, usize::MAX).len();
            map = next(map);
            passed += ahead - map.runs[0].by_deadline(0, usize::MAX).len();
            let least = map.next_deadline().unwrap();
            let hidden = map.runs[0].due(least - 1);
            assert_eq!(hidden, [0; 0], "batch {batch}: rows that a search looks up once more");
        }
        let left = map.runs[0].by_deadline(0, usize::MAX);
        assert_eq!(left.len() + passed, KEYS as usize);
        let keys = map.runs[0].columns()[0].as_primitive::<Int64Type>();
        assert_eq!(left.first().map(|&row| keys.value(row as usize)), straggler);
        assert_eq!(map.next_deadline(), Some(straggler.map_or(10_000, deadline)));
    }
}

#[test]
fn a_fork_of_a_version_ignores_what_another_fork_hides() {
    let mut map = committed(&with(&[put(1, 1, Some(10)), put(2, 2, Some(20))]));
    let mut fork = map.copy();
    map.change(&changes(&[put(1, 1, None), remove(2)])).unwrap();
    assert_eq!((map.next_deadline(), fork.next_deadline()), (None, Some(10)));
    assert_eq!(map.due(100).unwrap().updated_at.len(), 0);
    assert_eq!(map.runs[0].due(100).len(), 0);
    assert_eq!(fork.due(100).unwrap().updated_at.len(), 2);
    let mut base =
        StateMap::open(map_schema(), &[merge(&map.runs[..1], KeyRange::ALL, Tombstones::Keep).unwrap()], KeyRange::ALL)
            .unwrap();
    assert_eq!(base.next_deadline(), Some(10)); // a run by itself has no newer runs that hide its rows
}

/// The least deadlines are anywhere, and most get hidden; searched before and after the order is built.
#[test]
fn deadlines_are_found_in_a_large_map_and_in_a_part_of_it() {
    const ROWS: i64 = 64 * 64 * 66;
    let (none, key) = (Fields::empty(), Fields::from(vec![Field::new("key", DataType::Int64, true)]));
    let schema = Arc::new(MapSchema::new("timers", &key, &none, &none).unwrap());
    let mut base = StateMap::open(Arc::clone(&schema), &[], KeyRange::ALL).unwrap();
    base.change(&armed((0..ROWS).map(|key| (key, (key % 1000 == 0).then_some(key))))).unwrap();
    let base = base.delta().unwrap().unwrap();
    let middle = base.hashes()[base.len() / 2 + 7];
    for (range, refreshed) in [(KeyRange::ALL, 0), (KeyRange::ALL, 200_000), (KeyRange { lo: 99, hi: middle }, 0)] {
        let mut map = StateMap::open(Arc::clone(&schema), std::slice::from_ref(&base), range).unwrap();
        map.change(&armed((0..refreshed).map(|key| (key, None)))).unwrap();
        let live = map.scan().unwrap();
        let mut deadlines: Vec<i64> = live.deadline.iter().copied().flatten().collect();
        deadlines.sort_unstable();
        assert_eq!(map.next_deadline(), deadlines.first().copied());
        for now in [-1, 0, 199_999, 200_000, 230_000, i64::MAX] {
            let mut due: Vec<i64> = map.due(now).unwrap().deadline.into_iter().flatten().collect();
            due.sort_unstable();
            assert_eq!(due, deadlines[..deadlines.partition_point(|&deadline| deadline <= now)]);
        }
    }
}

#[test]
fn the_live_change_counts_only_rows_that_were_added_or_removed() {
    let mut map = committed(&with(&[put(1, 1, None), put(2, 2, None), put(3, 3, None)]));
    map.change(&changes(&[remove(1)])).unwrap();
    map = committed(&map);
    assert_eq!(map.live_change(), 0);
    map.change(&changes(&[put(1, 9, None), put(2, 9, None), remove(9)])).unwrap();
    assert_eq!(map.live_change(), 1);
    map.change(&changes(&[remove(1), remove(2), remove(3), remove(3), put(4, 1, None)])).unwrap();
    assert_eq!(map.live_change(), -1);
}

#[test]
fn a_deadline_is_due_at_its_own_millisecond() {
    let mut map = with(&[put(1, 1, Some(10)), put(2, 1, Some(i64::MAX)), put(3, 1, Some(i64::MIN))]);
    let mut due = |now| map.due(now).unwrap().updated_at.len();
    assert_eq!((due(i64::MIN), due(9), due(10), due(i64::MAX)), (1, 1, 2, 3));
}

#[test]
fn a_change_outside_the_range_is_refused_and_changes_nothing() {
    let hash = keys_of(&[1]).hash(0);
    let mut map = StateMap::open(map_schema(), &[], KeyRange::new(hash, hash).unwrap()).unwrap();
    map.change(&changes(&[put(1, 1, None)])).unwrap();
    let error = map.change(&changes(&[put(1, 2, None), put(3, 3, None)])).unwrap_err();
    assert!(matches!(&error, Error::InvalidInput(text) if text.contains("outside the key range")), "{error}");
    assert_eq!(map.len(), 1);
}

#[test]
fn wrong_columns_are_refused_by_name() {
    let mut map = empty();
    let mut odd = changes(&[put(1, 1, None)]);
    odd.values[0] = Arc::new(Int64Array::from(vec![1]));
    let text = map.change(&odd).unwrap_err().to_string();
    assert_eq!(text, "cannot change state map `test`: column `value` has type Int64, expected Float64");
    let short = Changes { deadline: Vec::new(), ..changes(&[put(1, 1, None)]) };
    assert!(map.change(&short).unwrap_err().to_string().contains("a column has 0 rows, expected 1"));
    let keys = Keys::new(&[Arc::new(StringArray::from(vec!["a"]))]).unwrap();
    assert!(map.get(&keys).unwrap_err().to_string().contains("cannot look up keys of (Utf8), 1 of them hashed"));
}

#[test]
fn a_map_of_the_empty_key_and_no_value_counts_its_one_row() {
    let none = Fields::empty();
    let schema = Arc::new(MapSchema::new("one", &none, &none, &none).unwrap());
    let mut map = StateMap::open(schema, &[], KeyRange::ALL).unwrap();
    let row =
        Changes { updated_at: vec![5, 6], deadline: vec![None; 2], deleted: vec![false; 2], ..Changes::default() };
    map.change(&row).unwrap();
    let found = map.get(&Keys::empty_key(3)).unwrap();
    assert_eq!((found.found, found.updated_at, map.len()), (vec![true; 3], vec![6; 3], 1));
}

#[test]
fn one_key_is_scanned_by_sub_key_across_runs() {
    // 12, 37 and 62 are one key with the sub-keys null, 1 and 256. 13 and 38 are another key.
    let mut map = committed(&with(&[put(12, 1, None), put(37, 2, None), put(13, 9, None)]));
    map.change(&changes(&[remove(37), put(62, 3, Some(4)), put(12, 5, None), put(38, 8, None)])).unwrap();
    let whole = |keys: &[usize]| Keys::new(&keys_of(keys).columns()[..2]).unwrap();
    let (rows, ends) = map.of_keys(&whole(&[13, 12, 14])).unwrap();
    assert_eq!(ends, [2, 4, 4]);
    let positions: Vec<_> = rows.sub_keys[0].as_primitive::<Int64Type>().iter().collect();
    assert_eq!(positions, [None, Some(1), None, Some(256)]); // for each key, null first
    assert_eq!(rows.deadline, [None, None, None, Some(4)]);
    let error = map.of_keys(&keys_of(&[12])).unwrap_err().to_string();
    assert!(error.contains("cannot scan keys of (Utf8, Int32, Int64)"), "{error}");
}

#[test]
fn absent_values_are_null() {
    let found = empty().get(&keys_of(&[1, 2])).unwrap();
    assert_eq!(found.values[0].null_count(), 2);
    let found = with(&[put(1, 1, None)]).get(&keys_of(&[2, 1])).unwrap();
    assert!(found.values[0].is_null(0) && found.values[0].is_valid(1));
}
