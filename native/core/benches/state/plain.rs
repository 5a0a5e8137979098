//! A batch of updates as plain loops that already know the place of each key. Rows are sorted by hash, the places are
//! read in the columns of the state, and the columns of the delta are written. Types are known, nothing is searched or
//! compared, and there are no nulls.
//!
//! This is the least that a batch costs on a machine in this layout: memory access and a sort.

use arrow_array::ArrayRef;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_buffer::ScalarBuffer;
use tidemill_core::{Keys, StateMap};

use crate::chance::digest_of;
use crate::world::{Batch, Key};
use crate::{Answer, timed};

/// A state of one run, (count, sum) by key.
pub(crate) struct Plain<K> {
    hashes: Vec<u64>,
    keys: Vec<K>,
    counts: ScalarBuffer<i64>,
    sums: ScalarBuffer<f64>,
    /// The same state stored row by row, made on first use: in this layout a key is one place.
    rows: Vec<Row<K>>,
}

#[derive(Clone, Copy)]
struct Row<K> {
    _hash: u64,
    key: K,
    count: i64,
    sum: f64,
    _updated_at: i64,
}

/// The places of a batch's keys in the state, ascending, and for each key the end of its rows.
struct KeyPlaces {
    places: Vec<u32>,
    ends: Vec<u32>,
}

/// The columns of a delta, including the time of the update.
struct Delta<K> {
    keys: Vec<K>,
    counts: Vec<i64>,
    sums: Vec<f64>,
    _hashes: Vec<u64>,
    _times: Vec<i64>,
}

impl<K: Key> Delta<K> {
    fn digest(&self) -> u64 {
        let rows = self.keys.iter().zip(&self.counts).zip(&self.sums);
        rows.fold(0, |digest, ((key, &count), &sum)| digest.wrapping_add(digest_of(key.digest(), count, sum)))
    }
}

impl<K: Key> Plain<K> {
    /// Returns the state of `map`, which has one run.
    pub(crate) fn new(map: &StateMap) -> Self {
        let [run] = map.runs() else { panic!("expected one run, found {}", map.runs().len()) };
        let batch = run.batch().unwrap();
        Self {
            hashes: run.hashes().to_vec(),
            keys: K::cells(batch.column(0)),
            counts: batch.column(1).as_primitive::<Int64Type>().values().clone(),
            sums: batch.column(2).as_primitive::<Float64Type>().values().clone(),
            rows: Vec::new(),
        }
    }

    /// The same as `run` for a state and delta that are stored row by row.
    pub(crate) fn run_by_rows(&mut self, batch: &Batch) -> Answer {
        if self.rows.is_empty() {
            let cells = self.hashes.iter().zip(&self.keys).zip(self.counts.iter().zip(self.sums.iter()));
            let row = |((&_hash, &key), (&count, &sum)): ((&u64, &K), (&i64, &f64))| Row {
                _hash,
                key,
                count,
                sum,
                _updated_at: 0,
            };
            self.rows = cells.map(row).collect();
        }
        let found = self.places_of(batch);
        let (sorting, order) = timed(|| keys_of(&batch.keys).order());
        let (memory, delta) = timed(|| self.update_rows(batch, &order, &found));
        let digest = delta
            .iter()
            .fold(0_u64, |digest, row| digest.wrapping_add(digest_of(row.key.digest(), row.count, row.sum)));
        Answer::default().with("ns", sorting + memory).with("sorting", sorting).with("digest", digest)
    }

    fn update_rows(&self, batch: &Batch, order: &[u32], found: &KeyPlaces) -> Vec<Row<K>> {
        let amounts = batch.amounts.as_primitive::<Float64Type>().values();
        let amounts: Vec<f64> = order.iter().map(|&row| amounts[row as usize]).collect();
        let mut delta: Vec<Row<K>> = found.places.iter().map(|&place| self.rows[place as usize]).collect();
        let mut start = 0;
        for (row, &end) in delta.iter_mut().zip(&found.ends) {
            row.count += i64::from(end - start);
            amounts[start as usize..end as usize].iter().for_each(|amount| row.sum += amount);
            row._updated_at = 1;
            start = end;
        }
        delta
    }

    /// Returns the nanoseconds of a batch of existing keys, how many of them sorting took, and the digest of the delta.
    pub(crate) fn run(&self, batch: &Batch) -> Answer {
        let found = self.places_of(batch);
        let (sorting, order) = timed(|| keys_of(&batch.keys).order());
        let (memory, delta) = timed(|| self.update(batch, &order, &found));
        Answer::default().with("ns", sorting + memory).with("sorting", sorting).with("digest", delta.digest())
    }

    fn places_of(&self, batch: &Batch) -> KeyPlaces {
        let keys = keys_of(&batch.keys);
        let mut found = KeyPlaces { places: Vec::new(), ends: Vec::new() };
        for (row, hash) in (0..).zip(keys.order().into_iter().map(|row| keys.hash(row as usize))) {
            let place = self.hashes.partition_point(|&found| found < hash) as u32;
            if found.places.last() != Some(&place) {
                found.places.push(place);
                found.ends.push(row);
            }
            *found.ends.last_mut().unwrap() = row + 1;
        }
        found
    }

    /// Updates each column in a loop of its own, so that the processor can overlap as many reads as possible.
    fn update(&self, batch: &Batch, order: &[u32], found: &KeyPlaces) -> Delta<K> {
        fn at<T: Copy>(cells: &[T], places: &[u32]) -> Vec<T> {
            places.iter().map(|&place| cells[place as usize]).collect()
        }
        let amounts = at(batch.amounts.as_primitive::<Float64Type>().values(), order);
        let mut delta = Delta {
            _hashes: at(&self.hashes, &found.places),
            keys: at(&self.keys, &found.places),
            counts: at(&self.counts, &found.places),
            sums: at(&self.sums, &found.places),
            _times: vec![1; found.places.len()],
        };
        let mut start = 0;
        for ((count, sum), &end) in delta.counts.iter_mut().zip(&mut delta.sums).zip(&found.ends) {
            *count += i64::from(end - start);
            amounts[start as usize..end as usize].iter().for_each(|amount| *sum += amount);
            start = end;
        }
        delta
    }
}

fn keys_of(column: &ArrayRef) -> Keys {
    Keys::new(std::slice::from_ref(column)).unwrap()
}
