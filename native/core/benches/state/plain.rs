//! A batch of updates as plain loops that are told where each key lies: rows in the order of their hashes, the place of
//! each read in the columns of the state, the columns of the delta written. Types are known, nothing is compared, nothing
//! is null. Who asks what a batch costs at least on a machine may begin here.

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
}

/// The columns of a delta, the time of the update among them.
struct Delta<K> {
    hashes: Vec<u64>,
    keys: Vec<K>,
    counts: Vec<i64>,
    sums: Vec<f64>,
    times: Vec<i64>,
}

impl<K: Key> Delta<K> {
    fn new(rows: usize) -> Self {
        Self {
            hashes: Vec::with_capacity(rows),
            keys: Vec::with_capacity(rows),
            counts: Vec::with_capacity(rows),
            sums: Vec::with_capacity(rows),
            times: Vec::with_capacity(rows),
        }
    }

    fn push(&mut self, hash: u64, key: K, (count, sum): (i64, f64)) {
        self.hashes.push(hash);
        self.keys.push(key);
        self.counts.push(count);
        self.sums.push(sum);
        self.times.push(1);
    }

    fn digest(&self) -> u64 {
        let rows = self.keys.iter().zip(&self.counts).zip(&self.sums);
        rows.fold(0, |digest, ((key, &count), &sum)| digest.wrapping_add(digest_of(key.digest(), count, sum)))
    }
}

impl<K: Key> Plain<K> {
    /// The state of `map`, which has one run.
    pub(crate) fn new(map: &StateMap) -> Self {
        let [run] = map.runs() else { panic!("expected one run, found {}", map.runs().len()) };
        let batch = run.batch().unwrap();
        Self {
            hashes: run.hashes().to_vec(),
            keys: K::cells(batch.column(0)),
            counts: batch.column(1).as_primitive::<Int64Type>().values().clone(),
            sums: batch.column(2).as_primitive::<Float64Type>().values().clone(),
        }
    }

    /// The nanoseconds of a batch of keys that are all there, and the digest of its delta.
    pub(crate) fn run(&self, batch: &Batch) -> Answer {
        let place = |&hash: &u64| self.hashes.partition_point(|&found| found < hash) as u32;
        let places: Vec<u32> = keys_of(&batch.keys).hashes().iter().map(place).collect();
        let (ns, delta) = timed(|| self.update(batch, &places));
        Answer::default().with("ns", ns).with("digest", delta.digest())
    }

    fn update(&self, batch: &Batch, places: &[u32]) -> Delta<K> {
        let amounts = batch.amounts.as_primitive::<Float64Type>().values();
        let mut delta = Delta::new(places.len());
        let mut now: Option<(usize, (i64, f64))> = None;
        for row in keys_of(&batch.keys).order() {
            let (place, amount) = (places[row as usize] as usize, amounts[row as usize]);
            match &mut now {
                Some((at, (count, sum))) if *at == place => (*count, *sum) = (*count + 1, *sum + amount),
                _ => {
                    let totals = (self.counts[place] + 1, self.sums[place] + amount);
                    if let Some((at, totals)) = now.replace((place, totals)) {
                        delta.push(self.hashes[at], self.keys[at], totals);
                    }
                }
            }
        }
        if let Some((at, totals)) = now {
            delta.push(self.hashes[at], self.keys[at], totals);
        }
        delta
    }
}

fn keys_of(column: &ArrayRef) -> Keys {
    Keys::new(std::slice::from_ref(column)).unwrap()
}
