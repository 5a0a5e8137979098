//! Many small batches into a large map: the time of each batch with merging and writing, and the rows that it wrote.

use tidemill_core::StateMap;
use tidemill_core::segment;

use crate::depth::committed;
use crate::updates::update;
use crate::world;
use crate::{Answer, Scenario, timed};

pub(crate) struct Tiers {
    keys: u64,
    rows: u64,
    map: StateMap,
}

impl Tiers {
    pub(crate) fn new(keys: u64, rows: u64) -> Self {
        Self { keys, rows, map: world::map::<i64>(keys, |_| None) }
    }
}

impl Scenario for Tiers {
    /// Adds one batch. `written` and `delta` are rows of the stored run and changed rows.
    fn run(&mut self, command: &str, number: u64) -> Answer {
        assert_eq!(command, "batch", "tiers can do batches alone");
        let batch = world::batch::<i64>(number, self.rows, self.keys);
        let (ns, (next, delta, written, bytes)) = timed(|| {
            let (_, delta) = update(&self.map, &batch, 1);
            let rows = delta.len();
            let (next, written) = committed(&self.map, delta);
            let bytes = segment::write(&written).unwrap().len();
            (next, rows, written.len(), bytes)
        });
        self.map = next;
        let runs = self.map.runs().len();
        let answer = Answer::default().with("ns", ns).with("delta", delta).with("written", written);
        answer.with("bytes", bytes).with("runs", runs)
    }
}
