//! Look-up of random keys: in a map of one run, and in a map twenty versions deep, merged by the tier rule.

use tidemill_core::map::merge_count;
use tidemill_core::run::{Tombstones, merge};
use tidemill_core::{KeyRange, Keys, SortedRun, StateMap};

use crate::updates::update;
use crate::world;
use crate::{Answer, Scenario, timed};

const VERSIONS: u64 = 20;

pub(crate) struct Depth {
    keys: u64,
    rows: u64,
    one: StateMap,
    deep: StateMap,
}

impl Depth {
    pub(crate) fn new(keys: u64, rows: u64) -> Self {
        let one = world::map::<i64>(keys, |_| None);
        let mut deep = one.clone();
        for version in 0..VERSIONS {
            let (_, delta) = update(&deep, &world::batch::<i64>(version, rows, keys), 1);
            deep = committed(&deep, delta).0;
        }
        Self { keys, rows, one, deep }
    }
}

/// Returns the map with `delta` on top, merged as the tier rule says, and the run that this made.
pub(crate) fn committed(map: &StateMap, delta: SortedRun) -> (StateMap, SortedRun) {
    let mut runs = map.runs().to_vec();
    runs.push(delta);
    let sizes: Vec<u64> = runs.iter().map(|run| run.len() as u64).collect();
    let merged = runs.split_off(runs.len() - merge_count(&sizes));
    let tombstones = if runs.is_empty() { Tombstones::Drop } else { Tombstones::Keep };
    let written = merge(&merged, KeyRange::ALL, tombstones).unwrap();
    runs.push(written.clone());
    (StateMap::open(map.schema().clone(), &runs, KeyRange::ALL).unwrap(), written)
}

impl Scenario for Depth {
    fn run(&mut self, command: &str, number: u64) -> Answer {
        let map = match command {
            "one" => &self.one,
            "deep" => &self.deep,
            other => panic!("depth cannot {other}"),
        };
        let keys = Keys::new(&[world::batch::<i64>(1000 + number, self.rows, self.keys).keys]).unwrap();
        let (ns, found) = timed(|| map.get(&keys).unwrap());
        let found = found.found.iter().filter(|&&found| found).count();
        Answer::default().with("ns", ns).with("runs", map.runs().len()).with("digest", found)
    }
}
