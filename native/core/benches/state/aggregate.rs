//! The operator `agg` over one batch, many rows a key: blocks combined, then folded into the state.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{DataType, Field, Schema};
use cpu_time::ThreadTime;
use tidemill_core::StateMap;
use tidemill_core::aggregate::Function;
use tidemill_core::operator::{
    AggregateOperator, AggregateSpec, Call, Chunks, Combine, Operator, Output, Pass, PassKind,
};

use crate::chance::{key_of, mix};
use crate::peer::{self, Totals};
use crate::plain::Plain;
use crate::world::{self, Key};
use crate::{Answer, Scenario, timed};

/// Rows for each key of the batch, on average.
const ROWS_A_KEY: u64 = 10;
/// Rows of a block: the default of a pipeline.
const BLOCK_ROWS: usize = 131_072;

pub(crate) struct Aggregate<K> {
    keys: u64,
    rows: u64,
    map: StateMap,
    operator: AggregateOperator,
    peer: Option<Totals<K>>,
    plain: Option<Plain<K>>,
}

impl<K: Key> Aggregate<K> {
    pub(crate) fn new(keys: u64, rows: u64) -> Self {
        let map = world::map::<K>(keys, |_| None);
        let spec = AggregateSpec {
            name: "totals".into(),
            key: vec!["key".into()],
            input: Arc::new(columns::<K>()),
            functions: vec![call("count", Function::Count, None), call("sum", Function::Sum, Some("amount"))],
            window: None,
            key_time: None,
        };
        Self { keys, rows, map, operator: AggregateOperator::new(&spec).unwrap(), peer: None, plain: None }
    }

    /// Returns the keys of a batch: a part of all keys, each about ten times.
    fn numbers(&self, batch: u64) -> impl Iterator<Item = u64> + use<K> {
        let (rows, keys, groups) = (self.rows, self.keys, (self.rows / ROWS_A_KEY).max(1));
        (0..rows).map(move |row| mix((batch << 32) | key_of(batch, row, groups)) % keys)
    }
}

fn columns<K: Key>() -> Schema {
    Schema::new(vec![Field::new("key", K::TYPE, true), Field::new("amount", DataType::Float64, true)])
}

fn call(output: &str, function: Function, column: Option<&str>) -> Call {
    Call { output: output.into(), function, column: column.map(Into::into), by: None }
}

impl<K: Key> Scenario for Aggregate<K> {
    fn run(&mut self, command: &str, number: u64) -> Answer {
        match command {
            "ours" | "steps" => {
                let keys = K::column(self.numbers(number).map(K::of));
                let amounts = world::batch::<K>(number, self.rows, self.keys).amounts;
                let rows = RecordBatch::try_new(Arc::new(columns::<K>()), vec![keys, amounts]).unwrap();
                let pass =
                    Pass { kind: PassKind::Data, batch_time_ms: 1, late_ms: None, watermark_ms: None, begins: false };
                let (mut steps, mut start) = (Answer::default(), ThreadTime::now());
                let mut done = |step: &str| {
                    steps = std::mem::take(&mut steps).with(step, start.elapsed().as_nanos());
                    start = ThreadTime::now();
                };
                let (ns, maps) = timed(|| {
                    let mut maps = [self.map.copy()];
                    let mut out = Output::new(self.operator.signature().output.clone());
                    let mut chunks = Vec::new();
                    for start in (0..rows.num_rows()).step_by(BLOCK_ROWS) {
                        let block = rows.slice(start, BLOCK_ROWS.min(rows.num_rows() - start));
                        let prepared = self.operator.prepare(&block, &pass, Combine::Split).unwrap();
                        chunks.extend(Some(prepared.rows).filter(|rows| rows.num_rows() > 0));
                    }
                    done("prepare");
                    chunks.extend(self.operator.rest().unwrap());
                    done("combine");
                    self.operator.apply(&Chunks::of_one_input(&chunks), &mut maps, &pass, &mut out).unwrap();
                    done("apply");
                    maps
                });
                if command == "steps" {
                    return steps;
                }
                let delta = maps[0].delta().unwrap().unwrap();
                Answer::default().with("ns", ns).with("digest", world::digest::<K>(&delta))
            }
            "plain" => {
                let keys = K::column(self.numbers(number).map(K::of));
                let batch = world::Batch { keys, ..world::batch::<K>(number, self.rows, self.keys) };
                self.plain.get_or_insert_with(|| Plain::new(&self.map)).run(&batch)
            }
            "hashbrown" => {
                let batch = peer::rows::<K>(self.numbers(number));
                let numbers = self.numbers(number);
                let peer = self.peer.get_or_insert_with(|| Totals::new(self.keys));
                let (ns, ()) = timed(|| peer.add(number, &batch));
                let delta = peer.totals_of(&batch);
                peer.restore(numbers);
                Answer::default().with("ns", ns).with("digest", peer::digest(&delta))
            }
            other => panic!("aggregate cannot {other}"),
        }
    }
}
