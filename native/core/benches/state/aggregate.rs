//! The operator `agg` over one batch, many rows a key: a block combined, then folded into the state.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{DataType, Field, Schema};
use tidemill_core::StateMap;
use tidemill_core::aggregate::Function;
use tidemill_core::operator::{AggregateOperator, AggregateSpec, Call, Combine, Operator, Output, Pass, PassKind};

use crate::chance::{key_of, mix};
use crate::peer::{self, Totals};
use crate::world::{self, Key};
use crate::{Answer, Scenario, timed};

/// How many rows a key of the batch has, on average.
const ROWS_A_KEY: u64 = 10;

pub(crate) struct Aggregate {
    keys: u64,
    rows: u64,
    map: StateMap,
    operator: AggregateOperator,
    peer: Option<Totals<i64>>,
}

impl Aggregate {
    pub(crate) fn new(keys: u64, rows: u64) -> Self {
        let map = world::map::<i64>(keys, |_| None);
        let spec = AggregateSpec {
            name: "totals".into(),
            key: vec!["key".into()],
            input: Arc::new(columns()),
            functions: vec![call("count", Function::Count, None), call("sum", Function::Sum, Some("amount"))],
            window: None,
            key_time: None,
        };
        Self { keys, rows, map, operator: AggregateOperator::new(&spec).unwrap(), peer: None }
    }

    /// The keys of a batch: some of all, and each about ten times.
    fn numbers(&self, batch: u64) -> impl Iterator<Item = u64> + use<> {
        let (rows, keys, groups) = (self.rows, self.keys, (self.rows / ROWS_A_KEY).max(1));
        (0..rows).map(move |row| mix((batch << 32) | key_of(batch, row, groups)) % keys)
    }
}

fn columns() -> Schema {
    Schema::new(vec![Field::new("key", DataType::Int64, true), Field::new("amount", DataType::Float64, true)])
}

fn call(output: &str, function: Function, column: Option<&str>) -> Call {
    Call { output: output.into(), function, column: column.map(Into::into), by: None }
}

impl Scenario for Aggregate {
    fn run(&mut self, command: &str, number: u64) -> Answer {
        match command {
            "ours" => {
                let keys = <i64 as Key>::column(self.numbers(number).map(<i64 as Key>::of));
                let amounts = world::batch::<i64>(number, self.rows, self.keys).amounts;
                let rows = RecordBatch::try_new(Arc::new(columns()), vec![keys, amounts]).unwrap();
                let pass =
                    Pass { kind: PassKind::Data, batch_time_ms: 1, late_ms: None, watermark_ms: None, begins: false };
                let (ns, maps) = timed(|| {
                    let mut maps = [self.map.copy()];
                    let mut out = Output::new(self.operator.output_schema());
                    let prepared = self.operator.prepare(&rows, &pass, Combine::Block).unwrap();
                    self.operator.apply(&[prepared.rows], &mut maps, &pass, &mut out).unwrap();
                    maps
                });
                let delta = maps[0].delta().unwrap().unwrap();
                Answer::default().with("ns", ns).with("digest", world::digest::<i64>(&delta))
            }
            "hashbrown" => {
                let batch = peer::rows::<i64>(self.numbers(number));
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
