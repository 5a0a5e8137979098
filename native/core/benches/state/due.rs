//! The search for due rows: by deadline, and by a look at every row; also with keys that each batch refreshes.

use tidemill_core::{Changes, Rows, StateMap};

use crate::world;
use crate::{Answer, Scenario, timed};

pub(crate) struct Due {
    rows: u64,
    map: StateMap,
    other: Vec<u64>,
}

/// Twice the size, in words, of the processor cache of the first measurements.
const OTHER_WORDS: u64 = 1 << 23;

impl Due {
    pub(crate) fn new(keys: u64, rows: u64) -> Self {
        // Key k is due at millisecond k, so the keys up to `now` are due, spread over all hashes.
        let map = world::map::<i64>(keys, |key| Some(key.cast_signed()));
        Self { rows, map, other: (0..OTHER_WORDS).collect() }
    }
}

fn answer(ns: u128, due: &Rows) -> Answer {
    let digest = due.deadline.iter().flatten().fold(0i64, |digest, at| digest.wrapping_add(at * at));
    Answer::default().with("ns", ns).with("rows", due.deadline.len()).with("digest", digest)
}

impl Scenario for Due {
    fn run(&mut self, command: &str, _number: u64) -> Answer {
        let now_ms = self.rows.cast_signed() - 1;
        match command {
            "ours" => {
                let (ns, due) = timed(|| self.map.due(now_ms).unwrap());
                answer(ns, &due)
            }
            "cold" => {
                // Earlier work of a batch has filled the processor's cache with other data.
                std::hint::black_box(self.other.iter().fold(0, |seen, word| seen ^ word));
                let (ns, due) = timed(|| self.map.due(now_ms).unwrap());
                answer(ns, &due)
            }
            "scan" => {
                let (ns, due) = timed(|| scanned(&self.map, now_ms));
                answer(ns, &due)
            }
            "refreshed" => {
                let mut waiting = self.refreshed(now_ms);
                let (ns, due) = timed(|| waiting.due(now_ms).unwrap());
                answer(ns, &due)
            }
            "waiting" => {
                let mut later = self.refreshed(now_ms);
                later.next_deadline();
                let mut later = later.next_version().unwrap();
                let (ns, due) = timed(|| later.due(now_ms).unwrap());
                answer(ns, &due)
            }
            other => panic!("due cannot {other}"),
        }
    }
}

/// Returns the due rows, found by a look at every deadline.
fn scanned(map: &StateMap, now_ms: i64) -> Rows {
    let all = map.scan().unwrap();
    let deadline = all.deadline.into_iter().filter(|at| at.is_some_and(|at| at <= now_ms)).collect();
    Rows { deadline, ..Rows::default() }
}

impl Due {
    /// Returns the map after a batch that postponed the deadlines of all due keys.
    fn refreshed(&self, now_ms: i64) -> StateMap {
        let mut later = self.map.copy();
        let due = later.due(now_ms).unwrap();
        let rows = due.updated_at.len();
        let changes = Changes {
            keys: due.keys,
            sub_keys: due.sub_keys,
            values: due.values,
            updated_at: due.updated_at,
            deadline: vec![Some(i64::MAX - 1); rows],
            deleted: vec![false; rows],
        };
        later.change(&changes).unwrap();
        later.next_version().unwrap()
    }
}
