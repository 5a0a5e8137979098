//! A batch of random updates of (count, sum) with its delta: look-up, sum, change; beside the peer's map.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, Float64Array, Int64Array};
use cpu_time::ThreadTime;
use tidemill_core::operator::Groups;
use tidemill_core::{Keys, SortedRun, StateMap};

use crate::chance::key_of;
use crate::peer::{self, Totals};
use crate::plain::Plain;
use crate::world::{self, Batch, Key};
use crate::{Answer, Scenario, timed};

pub(crate) struct Updates<K> {
    keys: u64,
    rows: u64,
    map: StateMap,
    peer: Option<Totals<K>>,
    plain: Option<Plain<K>>,
}

impl<K: Key> Updates<K> {
    pub(crate) fn new(keys: u64, rows: u64) -> Self {
        Self { keys, rows, map: world::map::<K>(keys, |_| None), peer: None, plain: None }
    }

    fn peer(&mut self) -> &mut Totals<K> {
        let keys = self.keys;
        self.peer.get_or_insert_with(|| Totals::new(keys))
    }
}

/// Returns the version after `batch`, and its changes.
pub(crate) fn update(map: &StateMap, batch: &Batch, at_ms: i64) -> (StateMap, SortedRun) {
    update_watched(map, batch, at_ms, |_| ())
}

/// The same; calls `done` with the name of each step after the step.
fn update_watched(map: &StateMap, batch: &Batch, at_ms: i64, mut done: impl FnMut(&str)) -> (StateMap, SortedRun) {
    let mut next = map.copy();
    let keys = Keys::new(std::slice::from_ref(&batch.keys)).unwrap();
    done("hash");
    let groups = Groups::new(&[keys]).unwrap();
    done("group");
    let mut found = next.values(&groups.keys).unwrap();
    done("look_up");
    let (mut counts, mut sums) = (or_zero::<Int64Type>(found.remove(0)), or_zero::<Float64Type>(found.remove(0)));
    let amounts = batch.amounts.as_primitive::<Float64Type>().values();
    // The processor overlaps more reads in a loop that does little than in a loop that does everything.
    let (rows, ends) = groups.rows();
    let amounts: Vec<f64> = rows.iter().map(|at| amounts[at.row as usize]).collect();
    let mut start = 0;
    for ((count, sum), &end) in counts.iter_mut().zip(&mut sums).zip(ends) {
        *count += (end - start) as i64;
        amounts[start..end].iter().for_each(|amount| *sum += amount);
        start = end;
    }
    done("add");
    let values: Vec<ArrayRef> = vec![Arc::new(Int64Array::from(counts)), Arc::new(Float64Array::from(sums))];
    next.put(groups.keys, values, at_ms, Vec::new()).unwrap();
    let delta = next.delta().unwrap().unwrap();
    done("put");
    (next, delta)
}

/// Returns the numbers of a column that has no other owner, with 0 for null.
fn or_zero<T: ArrowPrimitiveType>(column: ArrayRef) -> Vec<T::Native> {
    let numbers = column.as_primitive::<T>().clone();
    drop(column);
    match numbers.nulls() {
        None => numbers.into_parts().1.into_inner().into_vec().unwrap(),
        Some(_) => numbers.iter().map(Option::unwrap_or_default).collect(),
    }
}

impl<K: Key> Scenario for Updates<K> {
    fn run(&mut self, command: &str, number: u64) -> Answer {
        let numbers = |rows: u64, keys: u64| (0..rows).map(move |row| key_of(number, row, keys));
        let (rows, keys) = (self.rows, self.keys);
        match command {
            "ours" => {
                let batch = world::batch::<K>(number, rows, keys);
                let (ns, (next, delta)) = timed(|| update(&self.map, &batch, 1));
                drop(next);
                Answer::default().with("ns", ns).with("digest", world::digest::<K>(&delta))
            }
            "steps" => {
                let batch = world::batch::<K>(number, rows, keys);
                let (mut answer, mut start) = (Answer::default(), ThreadTime::now());
                let made = update_watched(&self.map, &batch, 1, |step| {
                    answer = std::mem::take(&mut answer).with(step, start.elapsed().as_nanos());
                    start = ThreadTime::now();
                });
                drop(made);
                answer
            }
            "hashbrown" => {
                let batch = peer::rows::<K>(numbers(rows, keys));
                let peer = self.peer();
                let (ns, delta) = timed(|| peer.update(number, &batch));
                peer.restore(numbers(rows, keys));
                Answer::default().with("ns", ns).with("digest", peer::digest(&delta))
            }
            "plain" => {
                let plain = self.plain.get_or_insert_with(|| Plain::new(&self.map));
                plain.run(&world::batch::<K>(number, rows, keys))
            }
            "plain_rows" => {
                let plain = self.plain.get_or_insert_with(|| Plain::new(&self.map));
                plain.run_by_rows(&world::batch::<K>(number, rows, keys))
            }
            "fork" => {
                const FORKS: u128 = 1000;
                let (ns, _) =
                    timed(|| (0..FORKS).map(|_| std::hint::black_box(self.map.copy()).deltas()).sum::<usize>());
                #[expect(clippy::cast_precision_loss, reason = "a thousandth of a short time")]
                Answer::default().with("ns", ns as f64 / FORKS as f64)
            }
            "clone" => {
                let (ns, _) = timed(|| self.peer().clone());
                Answer::default().with("ns", ns)
            }
            "memory" => Answer::default().with("bytes", self.map.runs().iter().map(SortedRun::nbytes).sum::<usize>()),
            other => panic!("updates cannot {other}"),
        }
    }
}
