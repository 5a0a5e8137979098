//! The map under test beside a model so simple that it cannot be wrong: a `BTreeMap` from key to value.

use std::collections::BTreeMap;
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{Array, ArrayRef, Float64Array, Int32Array, Int64Array, ListArray, StringArray, StructArray};
use arrow_schema::{DataType, Field, Fields};
use bytes::Bytes;

use super::super::{Changes, Rows, StateMap, merge_count};
use crate::key::Keys;
use crate::range::KeyRange;
use crate::run::{SortedRun, Tombstones, merge};
use crate::schema::MapSchema;
use crate::segment;

const TEXTS: [Option<&str>; 5] = [None, Some(""), Some("a"), Some("b"), Some("ab")];
const NUMBERS: [Option<i32>; 5] = [None, Some(-1), Some(0), Some(1), Some(256)];
const POSITIONS: [Option<i64>; 3] = [None, Some(1), Some(256)];
/// How many different (key, sub-key) pairs there are. Tests refer to them by number.
pub(super) const KEYS: usize = TEXTS.len() * NUMBERS.len() * POSITIONS.len();

std::thread_local! {
    static NESTED: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Run `body` with a struct of an integer and a list as the second key column.
pub(super) fn with_nested_keys(body: impl FnOnce()) {
    NESTED.set(true);
    body();
    NESTED.set(false);
}

/// One row to put, or to remove if it has no value.
#[derive(Clone, Debug)]
pub(super) struct Change {
    pub(super) key: usize,
    pub(super) value: Option<i64>,
    pub(super) updated_at: i64,
    pub(super) deadline: Option<i64>,
}

pub(super) fn map_schema() -> Arc<MapSchema> {
    let number = second_column(&[]).data_type().clone();
    let key = Fields::from(vec![Field::new("text", DataType::Utf8, true), Field::new("number", number, true)]);
    let sub_key = Fields::from(vec![Field::new("position", DataType::Int64, true)]);
    let value =
        Fields::from(vec![Field::new("value", DataType::Float64, true), Field::new("note", DataType::Utf8, true)]);
    Arc::new(MapSchema::new("test", &key, &sub_key, &value).unwrap())
}

fn second_column(keys: &[usize]) -> ArrayRef {
    let place = |key: &usize| key / TEXTS.len() % NUMBERS.len();
    if !NESTED.get() {
        return Arc::new(keys.iter().map(|key| NUMBERS[place(key)]).collect::<Int32Array>());
    }
    // A null, a struct with a null, and three structs that differ only in the items of their lists.
    let number: Int32Array = keys.iter().map(|key| NUMBERS[place(key)].filter(|&number| number < 0)).collect();
    let items = |key: &usize| (place(key) > 1).then(|| (2..place(key)).map(|item| (item > 2).then_some(0)));
    let list = ListArray::from_iter_primitive::<Int32Type, _, _>(keys.iter().map(items));
    let field = |name: &str, column: &dyn Array| Field::new(name, column.data_type().clone(), true);
    let fields = Fields::from(vec![field("number", &number), field("list", &list)]);
    let nulls = keys.iter().map(|key| place(key) > 0).collect::<Vec<_>>().into();
    let columns: Vec<ArrayRef> = vec![Arc::new(number), Arc::new(list)];
    Arc::new(StructArray::try_new_with_length(fields, columns, Some(nulls), keys.len()).unwrap())
}

fn key_columns(keys: &[usize]) -> (Vec<ArrayRef>, Vec<ArrayRef>) {
    let texts: StringArray = keys.iter().map(|key| TEXTS[key % TEXTS.len()]).collect();
    let positions: Int64Array = keys.iter().map(|key| POSITIONS[key / TEXTS.len() / NUMBERS.len()]).collect();
    (vec![Arc::new(texts), second_column(keys)], vec![Arc::new(positions)])
}

pub(super) fn keys_of(keys: &[usize]) -> Keys {
    let (key, sub_key) = key_columns(keys);
    Keys::with_sub_keys(&key, &sub_key, keys.len()).unwrap()
}

pub(super) fn changes(rows: &[Change]) -> Changes {
    let (keys, sub_keys) = key_columns(&rows.iter().map(|row| row.key).collect::<Vec<_>>());
    let values: Float64Array = rows.iter().map(|row| row.value.map(|value| value as f64)).collect();
    let notes: StringArray = rows.iter().map(|row| row.value.map(|value| format!("note {value}"))).collect();
    Changes {
        keys,
        sub_keys,
        values: vec![Arc::new(values), Arc::new(notes)],
        updated_at: rows.iter().map(|row| row.updated_at).collect(),
        deadline: rows.iter().map(|row| row.deadline).collect(),
        deleted: rows.iter().map(|row| row.value.is_none()).collect(),
    }
}

/// (value, updated at, deadline)
type Cell = (i64, i64, Option<i64>);
type Model = BTreeMap<usize, Cell>;

/// A version, and what it should hold.
#[derive(Clone)]
pub(super) struct World {
    segments: Vec<SortedRun>,
    map: StateMap,
    model: Model,
    /// The rows at the time of opening.
    opened: usize,
}

impl World {
    pub(super) fn new() -> Self {
        let map = StateMap::open(map_schema(), &[], KeyRange::ALL).unwrap();
        Self { segments: Vec::new(), map, model: Model::new(), opened: 0 }
    }

    pub(super) fn fork(&self) -> Self {
        Self { segments: self.segments.clone(), map: self.map.copy(), model: self.model.clone(), opened: self.opened }
    }

    pub(super) fn change(&mut self, rows: &[Change]) {
        self.map.change(&changes(rows)).unwrap();
        for row in rows {
            match row.value {
                Some(value) => self.model.insert(row.key, (value, row.updated_at, row.deadline)),
                None => self.model.remove(&row.key),
            };
        }
    }

    /// Put the rows that have a value, each key once, in key order, with the `updated_at` of the first row.
    pub(super) fn put(&mut self, rows: &[Change]) {
        let rows: BTreeMap<usize, &Change> = rows.iter().rev().map(|row| (row.key, row)).collect();
        let rows: Vec<&Change> = rows.into_values().filter(|row| row.value.is_some()).collect();
        let keys = keys_of(&rows.iter().map(|row| row.key).collect::<Vec<_>>());
        let order = keys.order();
        let rows: Vec<Change> = order.iter().map(|&row| rows[row as usize].clone()).collect();
        let updated_at = rows.first().map_or(0, |row| row.updated_at);
        let deadlines = rows.iter().map(|row| row.deadline).collect();
        self.map.put(keys.take(&order).unwrap(), changes(&rows).values, updated_at, deadlines).unwrap();
        let cells = rows.iter().filter_map(|row| Some((row.key, (row.value?, updated_at, row.deadline))));
        self.model.extend(cells);
    }

    pub(super) fn get_one(&self, key: usize) {
        let found = self.map.find_one(&keys_of(&[key]));
        let found = found.map(|(values, row)| values[0].as_primitive::<Float64Type>().value(row) as i64);
        assert_eq!(found, self.model.get(&key).map(|cell| cell.0), "key {key}");
    }

    pub(super) fn updated_before(&self, threshold_ms: i64) {
        let expected = self.model.iter().filter(|(_, cell)| cell.1 < threshold_ms);
        let rows = self.map.updated_before(threshold_ms).unwrap();
        self.compare(&rows, &expected.map(|(key, cell)| (*key, *cell)).collect());
    }

    /// Write and read the whole map as one run; it holds what the map holds, and the map does not change.
    pub(super) fn base(&self) {
        let base = self.map.base().unwrap();
        assert_eq!(base.len(), self.model.len());
        let mut alone = StateMap::open(map_schema(), &[there_and_back(&base)], KeyRange::ALL).unwrap();
        self.compare(&alone.scan().unwrap(), &self.model);
        assert_eq!(alone.next_deadline(), self.model.values().filter_map(|cell| cell.2).min());
    }

    /// A fork that is compacted and changed is still correct, and so are the segments with its delta on top.
    pub(super) fn compact(&self, rows: &[Change]) {
        let mut fork = self.fork();
        fork.map.compact().unwrap();
        assert_eq!(fork.map.deltas(), 0);
        fork.compare(&fork.map.scan().unwrap(), &fork.model);
        fork.change(rows);
        let runs: Vec<_> = fork.segments.iter().cloned().chain(fork.map.delta().unwrap()).collect();
        let committed = StateMap::open(map_schema(), &runs, fork.map.range()).unwrap();
        fork.compare(&committed.scan().unwrap(), &fork.model);
        let next = fork.map.next_version().unwrap();
        fork.compare(&next.scan().unwrap(), &fork.model);
        assert!(next.delta().unwrap().is_none());
    }

    /// Continue with the next version; the previous version stays unchanged.
    pub(super) fn next_version(&mut self) {
        let next = self.map.next_version().unwrap();
        self.compare(&self.map.scan().unwrap(), &self.model);
        assert!(next.delta().unwrap().is_none());
        assert!(next.deltas() <= self.map.deltas());
        self.segments = next.runs().to_vec();
        self.map = next;
        self.opened = self.model.len();
    }

    pub(super) fn get(&self, keys: &[usize]) {
        let found = self.map.get(&keys_of(keys)).unwrap();
        assert_eq!(self.map.values(&keys_of(keys)).unwrap(), found.values);
        for (i, key) in keys.iter().enumerate() {
            let expected = self.model.get(key);
            assert_eq!(found.found[i], expected.is_some(), "key {key}");
            assert_eq!(cell(&found.values, &found.updated_at, &found.deadline, i), expected.copied(), "key {key}");
        }
    }

    pub(super) fn due(&mut self, now_ms: i64) {
        let due = self.map.due(now_ms).unwrap();
        let expected = self.model.iter().filter(|(_, cell)| cell.2.is_some_and(|due| due <= now_ms));
        self.compare(&due, &expected.map(|(key, cell)| (*key, *cell)).collect());
    }

    pub(super) fn take_due(&mut self, now_ms: i64) {
        let due = self.map.take_due(now_ms, 1_000).unwrap();
        let is_due = |cell: &Cell| cell.2.is_some_and(|due| due <= now_ms);
        let (taken, left): (Model, Model) =
            self.model.iter().map(|(key, cell)| (*key, *cell)).partition(|(_, cell)| is_due(cell));
        self.compare(&due, &taken);
        self.model = left;
    }

    /// How many rows of the opened runs a search up to `now_ms` looks up.
    fn looked_up(&self, now_ms: i64) -> usize {
        self.map.runs[..self.map.opened].iter().map(|run| run.due(now_ms).len()).sum()
    }

    /// Check everything that takes no argument.
    pub(super) fn look(&mut self) {
        self.compare(&self.map.scan().unwrap(), &self.model);
        assert_eq!(self.map.len(), self.model.len());
        assert_eq!(self.map.live_change(), self.model.len() as i64 - self.opened as i64);
        self.scan_keys();
        let least = self.model.values().filter_map(|cell| cell.2).min();
        assert_eq!(self.map.next_deadline(), least);
        assert_eq!(self.looked_up(least.map_or(i64::MAX, |least| least - 1)), 0, "rows that were found hidden");
    }

    /// Check the scan of every single key, including keys without rows: its rows are in the order of sub-keys.
    fn scan_keys(&self) {
        let whole = TEXTS.len() * NUMBERS.len();
        let wanted: Vec<usize> = (0..whole).collect();
        let (rows, ends) = self.map.of_keys(&Keys::new(&key_columns(&wanted).0).unwrap()).unwrap();
        let positions = rows.sub_keys[0].as_primitive::<Int64Type>();
        let mut start = 0;
        for (key, end) in wanted.into_iter().zip(ends) {
            let found: Vec<_> = (start..end)
                .map(|row| {
                    let position = positions.is_valid(row).then(|| positions.value(row));
                    (position, cell(&rows.values, &rows.updated_at, &rows.deadline, row).unwrap())
                })
                .collect();
            // Bytes are little-endian, so 256 comes before 1.
            let expected = [0, 2, 1]
                .into_iter()
                .filter_map(|place| self.model.get(&(key + place * whole)).map(|cell| (POSITIONS[place], *cell)));
            assert_eq!(found, expected.collect::<Vec<_>>(), "key {key}");
            start = end;
        }
        assert_eq!(start, rows.updated_at.len());
    }

    /// Write the changes as a segment, read it back, and open the next version.
    pub(super) fn commit(&mut self) {
        let places = self.map.due_places();
        assert_eq!(self.segments.len(), places.len());
        let live = self.segments.iter().zip(places).skip(self.map.spent_runs());
        self.segments = live.map(|(run, place)| run.with_due_from(place)).collect();
        if let Some(delta) = self.map.delta().unwrap() {
            self.segments.push(there_and_back(&delta));
        }
        self.reopen();
    }

    /// Merge as many of the newest segments as the tier rule says, or all of them.
    pub(super) fn merge(&mut self, count: Option<usize>) {
        self.commit();
        let sizes: Vec<u64> = self.segments.iter().map(|run| run.len() as u64).collect();
        let count = count.unwrap_or_else(|| merge_count(&sizes)).min(sizes.len());
        let newest = self.segments.split_off(sizes.len() - count);
        let tombstones = if self.segments.is_empty() { Tombstones::Drop } else { Tombstones::Keep };
        if !newest.is_empty() {
            self.segments.push(there_and_back(&merge(&newest, KeyRange::ALL, tombstones).unwrap()));
        }
        self.reopen();
    }

    /// The ranges below and above a hash together hold what the whole holds, and can be merged separately.
    pub(super) fn split(&mut self, key: usize) {
        self.commit();
        let hash = keys_of(&[key]).hash(0);
        let ranges = [Some((0, hash)), hash.checked_add(1).map(|lo| (lo, u64::MAX))];
        let mut parts = Vec::new();
        for (lo, hi) in ranges.into_iter().flatten() {
            let range = KeyRange::new(lo, hi).unwrap();
            let mut map = StateMap::open(map_schema(), &self.segments, range).unwrap();
            let part: Model = self
                .model
                .iter()
                .filter(|(key, _)| range.contains(keys_of(&[**key]).hash(0)))
                .map(|(key, cell)| (*key, *cell))
                .collect();
            self.compare(&map.scan().unwrap(), &part);
            assert_eq!(map.next_deadline(), part.values().filter_map(|cell| cell.2).min());
            if !self.segments.is_empty() {
                parts.push(merge(&self.segments, range, Tombstones::Drop).unwrap());
            }
        }
        self.segments = parts;
        self.reopen();
    }

    fn reopen(&mut self) {
        self.segments.retain(|run| !run.is_empty());
        self.map = StateMap::open(map_schema(), &self.segments, KeyRange::ALL).unwrap();
        self.opened = self.model.len();
    }

    /// Check that `rows` equal `expected`, in order.
    fn compare(&self, rows: &Rows, expected: &Model) {
        let numbers: Vec<usize> = expected.keys().copied().collect();
        let wanted = keys_of(&numbers);
        let order = wanted.order();
        let found = Keys::with_sub_keys(&rows.keys, &rows.sub_keys, rows.updated_at.len()).unwrap();
        assert_eq!(found.len(), order.len());
        for (i, &at) in order.iter().enumerate() {
            assert!(found.eq_at(i, &wanted, at as usize), "row {i} is not key {}", numbers[at as usize]);
            let cell = cell(&rows.values, &rows.updated_at, &rows.deadline, i);
            assert_eq!(cell, Some(expected[&numbers[at as usize]]));
        }
    }
}

fn cell(values: &[ArrayRef], updated_at: &[i64], deadline: &[Option<i64>], i: usize) -> Option<Cell> {
    let (value, note) = (values[0].as_primitive::<Float64Type>(), values[1].as_string::<i32>());
    assert_eq!(value.is_null(i), note.is_null(i));
    if value.is_null(i) {
        assert_eq!((updated_at[i], deadline[i]), (0, None));
        return None;
    }
    assert_eq!(note.value(i), format!("note {}", value.value(i) as i64));
    Some((value.value(i) as i64, updated_at[i], deadline[i]))
}

/// Write and read as a segment, and every other time also through the cache on disk.
fn there_and_back(run: &SortedRun) -> SortedRun {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let data = segment::write(run).unwrap();
    let read = segment::read(run.schema(), Bytes::from(data), "s").unwrap();
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    if number.is_multiple_of(2) {
        return read;
    }
    let path = std::env::temp_dir().join(format!("tidemill-world-{}-{number}", std::process::id()));
    segment::cache::write(&read, "s", File::create(&path).unwrap()).unwrap();
    let kept = segment::cache::map(run.schema(), "s", &File::open(&path).unwrap(), true);
    std::fs::remove_file(&path).unwrap();
    kept.unwrap()
}
