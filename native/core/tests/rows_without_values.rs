//! Rows with a deadline and no value: timers without a state. They are live, become due, and survive a round trip to
//! files.
#![expect(clippy::unwrap_used, reason = "a failing test may panic")]

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, Int64Array, StringArray};
use arrow_schema::{DataType, Field, Fields};
use bytes::Bytes;
use tidemill_core::run::{Tombstones, merge};
use tidemill_core::{Changes, KeyRange, Keys, MapSchema, SortedRun, StateMap, segment};

/// Keys from 0 on. Odd keys have no value, and each key's deadline is its number in ms.
const KEYS: i64 = 200;

fn schema(values: bool) -> Arc<MapSchema> {
    let fields = |names: &[(&str, DataType)]| -> Fields {
        names.iter().map(|(name, data_type)| Field::new(*name, data_type.clone(), true)).collect()
    };
    let value = if values { fields(&[("n", DataType::Int64), ("text", DataType::Utf8)]) } else { Fields::empty() };
    Arc::new(MapSchema::new("timers", &fields(&[("key", DataType::Int64)]), &Fields::empty(), &value).unwrap())
}

fn keys(keys: impl IntoIterator<Item = i64>) -> Keys {
    Keys::new(&[Arc::new(Int64Array::from_iter_values(keys)) as ArrayRef]).unwrap()
}

fn map(values: bool) -> StateMap {
    let mut map = StateMap::open(schema(values), &[], KeyRange::ALL).unwrap();
    let some = |key: i64| key % 2 == 0;
    let columns: [ArrayRef; 2] = [
        Arc::new((0..KEYS).map(|key| some(key).then_some(key)).collect::<Int64Array>()),
        Arc::new((0..KEYS).map(|key| some(key).then(|| key.to_string())).collect::<StringArray>()),
    ];
    let rows = KEYS as usize;
    map.change(&Changes {
        keys: keys(0..KEYS).columns().to_vec(),
        sub_keys: Vec::new(),
        values: if values { columns.to_vec() } else { Vec::new() },
        updated_at: vec![7; rows],
        deadline: (0..KEYS).map(Some).collect(),
        deleted: vec![false; rows],
    })
    .unwrap();
    map
}

fn check(mut map: StateMap, values: bool) {
    assert_eq!((map.len(), map.next_deadline()), (KEYS as usize, Some(0)));
    let due = map.due(9).unwrap();
    let mut found: Vec<_> = due.keys[0].as_primitive::<Int64Type>().values().to_vec();
    found.sort_unstable();
    assert_eq!(found, (0..10).collect::<Vec<_>>());
    let wanted = keys([4, 5, KEYS]);
    let rows = map.get(&wanted).unwrap();
    assert_eq!((rows.found, rows.deadline), (vec![true, true, false], vec![Some(4), Some(5), None]));
    assert_eq!(rows.values.len(), if values { 2 } else { 0 });
    for column in rows.values {
        assert_eq!((0..3).map(|row| column.is_valid(row)).collect::<Vec<_>>(), [true, false, false]);
    }
    let (columns, row) = map.find_one(&keys([5])).unwrap();
    assert!(columns.iter().all(|column| column.is_null(row)));
}

fn there_and_back(run: &SortedRun) -> SortedRun {
    segment::read(run.schema(), Bytes::from(segment::write(run).unwrap()), "s").unwrap()
}

#[test]
fn rows_without_values_are_live_and_due_and_survive_segments_and_merges() {
    for values in [true, false] {
        let changed = map(values);
        check(changed.copy(), values);
        let delta = there_and_back(&changed.delta().unwrap().unwrap());
        let runs = [delta.clone(), delta];
        check(StateMap::open(schema(values), &runs[..1], KeyRange::ALL).unwrap(), values);
        let base = there_and_back(&merge(&runs, KeyRange::ALL, Tombstones::Drop).unwrap());
        assert!(base.first_due().is_some_and(|due| due.deadline_ms == 0) && base.len() == KEYS as usize);
        check(StateMap::open(schema(values), &[base], KeyRange::ALL).unwrap(), values);
    }
}

#[test]
fn rows_without_values_come_back_from_the_disk_cache() {
    let delta = map(true).delta().unwrap().unwrap();
    let path = std::env::temp_dir().join(format!("tidemill-timers-{}", std::process::id()));
    let file = std::fs::File::create_new(&path).unwrap();
    segment::cache::write(&delta, "abc", &file).unwrap();
    let found = segment::cache::map(delta.schema(), "abc", &std::fs::File::open(&path).unwrap(), true);
    std::fs::remove_file(&path).unwrap();
    check(StateMap::open(schema(true), &[found.unwrap()], KeyRange::ALL).unwrap(), true);
}

#[test]
fn a_row_that_loses_its_deadline_stays_until_it_is_removed() {
    let mut timers = map(true);
    let put = |deleted: bool| Changes {
        keys: keys([5]).columns().to_vec(),
        sub_keys: Vec::new(),
        values: vec![Arc::new(Int64Array::from(vec![None])), Arc::new(StringArray::new_null(1))],
        updated_at: vec![8],
        deadline: vec![None],
        deleted: vec![deleted],
    };
    timers.change(&put(false)).unwrap();
    assert_eq!(timers.len(), KEYS as usize);
    assert_eq!(timers.get(&keys([5])).unwrap().found, [true]);
    assert_eq!(timers.due(9).unwrap().updated_at.len(), 9);
    timers.change(&put(true)).unwrap();
    assert_eq!((timers.len(), timers.get(&keys([5])).unwrap().found), (KEYS as usize - 1, vec![false]));
}
