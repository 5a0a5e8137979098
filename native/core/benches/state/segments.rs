//! Segments: writing and opening a base, and the size of a delta of random keys on disk.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int32Array};
use arrow_schema::{DataType, Field, Fields};
use bytes::Bytes;
use parquet::file::reader::{FileReader, SerializedFileReader};
use tidemill_core::{Changes, KeyRange, MapSchema, StateMap, segment};

use crate::world::{self, Key};
use crate::{Answer, Scenario, timed};

pub(crate) struct Segments {
    rows: u64,
    map: StateMap,
    bytes: Bytes,
}

impl Segments {
    pub(crate) fn new(keys: u64, rows: u64) -> Self {
        let map = world::map::<i64>(keys, |_| None);
        let bytes = segment::write(&map.runs()[0]).unwrap().into();
        Self { rows, map, bytes }
    }
}

impl Scenario for Segments {
    fn run(&mut self, command: &str, _number: u64) -> Answer {
        let run = &self.map.runs()[0];
        match command {
            "write" => {
                let (ns, bytes) = timed(|| segment::write(run).unwrap());
                Answer::default().with("ns", ns).with("bytes", bytes.len())
            }
            "open" => {
                let (ns, opened) = timed(|| segment::read(run.schema(), self.bytes.clone(), "base").unwrap());
                assert_eq!(
                    world::digest::<i64>(&opened),
                    world::digest::<i64>(run),
                    "the opened run equals the written run"
                );
                Answer::default().with("ns", ns)
            }
            "pages" => {
                let (ns, bytes) = timed(|| pages(&self.bytes));
                Answer::default().with("ns", ns).with("bytes", bytes)
            }
            "memory" => {
                // The memory of a column with nulls only is never touched.
                let untouched = if run.first_due().is_none() { run.len() * size_of::<i64>() } else { 0 };
                let (ns, filled) = timed(|| vec![1_u8; run.nbytes() - untouched]);
                Answer::default().with("ns", ns).with("bytes", filled.len())
            }
            "delta" => Answer::default().with("bytes", delta_bytes(self.rows)),
            other => panic!("segments cannot {other}"),
        }
    }
}

/// Decompresses all pages of a segment and drops them; returns their number of bytes.
fn pages(segment: &Bytes) -> usize {
    let file = SerializedFileReader::new(segment.clone()).unwrap();
    let groups = (0..file.num_row_groups()).map(|group| file.get_row_group(group).unwrap());
    groups
        .flat_map(|group| {
            (0..group.num_columns()).map(|column| group.get_column_page_reader(column).unwrap()).collect::<Vec<_>>()
        })
        .flatten()
        .map(|page| page.unwrap().buffer().len())
        .sum()
}

/// Returns the bytes of a delta of `keys` random keys with an int counter.
fn delta_bytes(keys: u64) -> usize {
    let key = Fields::from(vec![Field::new("key", DataType::Int64, true)]);
    let value = Fields::from(vec![Field::new("count", DataType::Int32, true)]);
    let schema = Arc::new(MapSchema::new("counters", &key, &Fields::empty(), &value).unwrap());
    let mut map = StateMap::open(schema, &[], KeyRange::ALL).unwrap();
    let rows = keys as usize;
    let counts: ArrayRef = Arc::new((0..keys).map(|key| (key % 100) as i32).collect::<Int32Array>());
    let changes = Changes {
        keys: vec![<i64 as Key>::column((0..keys).map(<i64 as Key>::of))],
        values: vec![counts],
        updated_at: vec![1_700_000_000_000; rows],
        deadline: vec![None; rows],
        deleted: vec![false; rows],
        ..Changes::default()
    };
    map.change(&changes).unwrap();
    segment::write(&map.delta().unwrap().unwrap()).unwrap().len()
}
