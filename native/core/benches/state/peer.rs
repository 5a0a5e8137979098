//! The peer: a `hashbrown` map updated in place, which also reports the changed keys and their new totals.

use std::hash::{BuildHasherDefault, Hasher};

use hashbrown::HashMap;

use crate::chance::{amount_of, digest_of, first_amount};
use crate::world::Key;

/// A hasher that returns the hash of `Key::hash` unchanged.
#[derive(Default)]
pub(crate) struct Given(u64);

impl Hasher for Given {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _bytes: &[u8]) {}

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

/// A key with the fastest possible hash.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hashed<K>(K);

impl<K: Key> std::hash::Hash for Hashed<K> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0.hash());
    }
}

/// (count, sum), and the last batch that changed them.
#[derive(Clone, Copy)]
pub(crate) struct Total {
    count: i64,
    sum: f64,
    changed_in: u64,
}

/// A map from key to total.
#[derive(Clone)]
pub(crate) struct Totals<K> {
    map: HashMap<Hashed<K>, Total, BuildHasherDefault<Given>>,
}

/// The changes of a batch: keys and their new totals.
pub(crate) type Delta<K> = Vec<(K, Total)>;

impl<K: Key> Totals<K> {
    pub(crate) fn new(keys: u64) -> Self {
        let mut map = HashMap::with_capacity_and_hasher(keys as usize, BuildHasherDefault::default());
        for key in 0..keys {
            map.insert(Hashed(K::of(key)), Total { count: 1, sum: first_amount(key), changed_in: u64::MAX });
        }
        Self { map }
    }

    /// Adds each amount to the total of its key.
    pub(crate) fn update(&mut self, batch: u64, rows: &[(K, f64)]) -> Delta<K> {
        let mut changed = Vec::with_capacity(rows.len());
        for &(key, amount) in rows {
            let total = self.map.entry(Hashed(key)).or_insert(Total { count: 0, sum: 0.0, changed_in: u64::MAX });
            total.count += 1;
            total.sum += amount;
            if total.changed_in != batch {
                total.changed_in = batch;
                changed.push((key, *total));
            }
        }
        for (key, total) in &mut changed {
            *total = self.map[&Hashed(*key)];
        }
        changed
    }

    /// The same without a report of changes.
    pub(crate) fn add(&mut self, batch: u64, rows: &[(K, f64)]) {
        for &(key, amount) in rows {
            let total = self.map.entry(Hashed(key)).or_insert(Total { count: 0, sum: 0.0, changed_in: batch });
            total.count += 1;
            total.sum += amount;
        }
    }

    /// Returns the current totals of the keys of some rows, each key once.
    pub(crate) fn totals_of(&mut self, rows: &[(K, f64)]) -> Delta<K> {
        let nothing: Vec<(K, f64)> = rows.iter().map(|&(key, _)| (key, 0.0)).collect();
        let mut delta = self.update(u64::MAX - 1, &nothing);
        let mut times: HashMap<Hashed<K>, i64, BuildHasherDefault<Given>> = HashMap::default();
        nothing.iter().for_each(|&(key, _)| *times.entry(Hashed(key)).or_default() += 1);
        delta.iter_mut().for_each(|(key, total)| total.count -= times[&Hashed(*key)]);
        delta
    }

    /// Reverts the changes of `update` to the first totals.
    pub(crate) fn restore(&mut self, numbers: impl Iterator<Item = u64>) {
        for number in numbers {
            let key = Hashed(K::of(number));
            self.map.insert(key, Total { count: 1, sum: first_amount(number), changed_in: u64::MAX });
        }
    }
}

pub(crate) fn digest<K: Key>(delta: &Delta<K>) -> u64 {
    let digests = delta.iter().map(|(key, total)| digest_of(key.digest(), total.count, total.sum));
    digests.fold(0, u64::wrapping_add)
}

/// Returns the rows of a batch in the peer's form.
pub(crate) fn rows<K: Key>(numbers: impl Iterator<Item = u64>) -> Vec<(K, f64)> {
    (0..).zip(numbers).map(|(row, number)| (K::of(number), amount_of(row))).collect()
}
