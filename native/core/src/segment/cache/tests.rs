//! Cached runs written and mapped back, and files that are refused.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{Array, ArrayRef, Float64Array, Int64Array, ListArray, StringArray};
use arrow_schema::{Field, Fields};

use super::{map, write};
use crate::key::Keys;
use crate::range::KeyRange;
use crate::run::{SortedRun, Unsorted};
use crate::schema::MapSchema;

/// A file that is deleted at the end of the test.
struct Scratch(PathBuf);

impl Scratch {
    fn of(bytes: &[u8], name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("tidemill-kept-{name}-{}", std::process::id()));
        File::create(&path).unwrap().write_all(bytes).unwrap();
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        std::fs::remove_file(&self.0).unwrap();
    }
}

fn run(rows: usize) -> SortedRun {
    let key: ArrayRef = Arc::new((0..rows).map(|row| (row > 0).then(|| format!("key {row}"))).collect::<StringArray>());
    let number: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows as i64));
    let list =
        ListArray::from_iter_primitive::<Int32Type, _, _>((0..rows).map(|row| Some(vec![Some(row as i32); row % 3])));
    let values: [ArrayRef; 2] =
        [Arc::new(Float64Array::from_iter_values((0..rows).map(|row| row as f64))), Arc::new(list)];
    let fields = |columns: &[(&str, &ArrayRef)]| -> Fields {
        columns.iter().map(|(name, column)| Field::new(*name, column.data_type().clone(), true)).collect()
    };
    let key_fields = fields(&[("key", &key), ("number", &number)]);
    let schema =
        MapSchema::new("test", &key_fields, &Fields::empty(), &fields(&[("x", &values[0]), ("list", &values[1])]));
    let unsorted = Unsorted {
        keys: &Keys::new(&[key, number]).unwrap(),
        values: &values,
        updated_at: &(0..rows as i64).collect::<Vec<_>>(),
        deadline: &(0..rows as i64).map(|row| (row % 3 == 0).then_some(row)).collect::<Vec<_>>(),
        deleted: &(0..rows).map(|row| row % 5 == 4).collect::<Vec<_>>(),
    };
    SortedRun::from_unsorted(&Arc::new(schema.unwrap()), &unsorted).unwrap()
}

fn bytes(run: &SortedRun) -> Vec<u8> {
    let mut bytes = Vec::new();
    write(run, "abc", &mut bytes).unwrap();
    bytes
}

fn mapped(run: &SortedRun, bytes: &[u8], name: &str) -> Result<SortedRun, String> {
    let file = Scratch::of(bytes, name);
    map(run.schema(), "abc", &File::open(&file.0).unwrap(), true)
}

#[test]
fn a_mapped_run_equals_the_run_that_was_written() {
    for rows in [0usize, 1, 5000] {
        let run = run(rows);
        let found = mapped(&run, &bytes(&run), "same").unwrap();
        assert_eq!(found.batch().unwrap(), run.batch().unwrap());
        assert_eq!(found.hashes(), run.hashes());
        assert_eq!(found.first_due(), run.first_due());
        for row in 0..rows {
            assert_eq!(found.find(run.keys(), row), Some(row));
        }
        let now_ms = rows as i64 / 2 + 100;
        assert_eq!(found.due(now_ms), self::run(rows).due(now_ms)); // the first uses its stored order, the second scans
        assert_eq!(found.by_deadline(3, 500), run.by_deadline(3, 500));
    }
}

#[test]
fn a_part_of_a_run_caches_only_the_rows_it_shows() {
    let whole = run(1000);
    for (first, last) in [(10, 20), (0, 998), (1, 999), (500, 500)] {
        let part = whole.within(KeyRange { lo: whole.hashes()[first], hi: whole.hashes()[last] });
        let found = mapped(&whole, &bytes(&part), "part").unwrap();
        assert_eq!(found.batch().unwrap(), part.batch().unwrap());
        assert_eq!((found.hashes(), found.first_due()), (part.hashes(), part.first_due()));
        for row in 0..whole.len() {
            assert_eq!(found.find(whole.keys(), row), (first..=last).contains(&row).then(|| row - first));
        }
    }
    let none = whole.within(KeyRange { lo: whole.hashes()[10] + 1, hi: whole.hashes()[11] - 1 });
    assert!(mapped(&whole, &bytes(&none), "none").unwrap().is_empty());
}

#[test]
fn every_flipped_bit_and_truncation_is_detected() {
    let run = run(40);
    let kept = bytes(&run);
    for at in 0..kept.len() {
        let mut damaged = kept.clone();
        damaged[at] ^= 1 << (at % 8);
        assert!(mapped(&run, &damaged, "flip").is_err(), "byte {at} of {}", kept.len());
    }
    for length in (0..kept.len()).step_by(7) {
        assert!(mapped(&run, &kept[..length], "cut").is_err(), "{length} bytes of {}", kept.len());
    }
}

#[test]
fn a_file_with_another_key_or_other_columns_is_refused() {
    let run = run(10);
    let file = Scratch::of(&bytes(&run), "other");
    assert!(map(run.schema(), "abd", &File::open(&file.0).unwrap(), true).unwrap_err().contains("checksum"));
    let schema = MapSchema::new("test", &run.schema().key, &Fields::empty(), &Fields::empty()).unwrap();
    let refused = map(&Arc::new(schema), "abc", &File::open(&file.0).unwrap(), true);
    assert_eq!(refused.unwrap_err(), "its columns are not those of the state map");
}
