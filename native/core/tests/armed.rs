//! A keyed function that arms deadlines itself, keeps some without a state, and fails for some keys.

#![expect(clippy::unwrap_used, reason = "a failing test may panic")]

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Fields, Schema, SchemaRef};
use tidemill_core::operator::{
    Chunks, Combine, Fate, KeyedFunction, KeyedFunctionOperator, KeyedFunctionSpec, LateRows, Operator, Output, Pass,
    PassKind, Returned, Timeout, Visit,
};
use tidemill_core::{KeyRange, Result, StateMap};

/// What the last row of a key asks for: (fate, deadline to arm).
type Asked = (Fate, Option<i64>);

/// Does what rows ask for. When a key times out, it keeps an even state, and fails if the state is 99.
struct Arming;

impl Arming {
    fn asked(visit: &Visit<'_>, key: usize, start: usize, end: usize) -> Asked {
        if let Some(at) = visit.rows[start..end].last() {
            let cell = |name: &str| {
                let column = visit.chunks[at.chunk as usize].column_by_name(name).unwrap();
                let column = column.as_primitive::<Int64Type>();
                column.is_valid(at.row as usize).then(|| column.value(at.row as usize))
            };
            let fates = [Fate::Kept, Fate::Updated, Fate::Removed, Fate::Failed];
            return (fates[usize::try_from(cell("fate").unwrap()).unwrap()], cell("arm"));
        }
        let state = visit.states[0].as_primitive::<Int64Type>();
        match visit.exists[key].then(|| state.value(key)) {
            Some(99) => (Fate::Failed, None),
            Some(even) if even % 2 == 0 => (Fate::Kept, visit.deadlines[key]),
            _ => (Fate::Removed, None),
        }
    }
}

impl KeyedFunction for Arming {
    fn call(&mut self, visit: &Visit<'_>) -> Result<Returned> {
        let (mut fates, mut deadlines, mut states, mut failed) = (vec![], vec![], vec![], vec![]);
        let mut start = 0;
        for (key, &end) in visit.ends.iter().enumerate() {
            let (fate, deadline) = Self::asked(visit, key, start, end);
            if fate == Fate::Updated {
                states.push(visit.keys.columns()[0].as_primitive::<Int64Type>().value(key));
            }
            if fate == Fate::Failed {
                failed.push("it failed".to_owned());
            }
            fates.push(fate);
            deadlines.push(deadline);
            start = end;
        }
        let emitted_by: Vec<u32> = (0..).take(fates.len()).collect();
        let kinds: ArrayRef = Arc::new(Int64Array::from(vec![i64::from(visit.timing_out); fates.len()]));
        let outputs = RecordBatch::try_new(outputs(), vec![visit.keys.columns()[0].clone(), kinds])?;
        let states: Vec<ArrayRef> = vec![Arc::new(Int64Array::from(states))];
        Ok(Returned { fates, deadlines, states, outputs, emitted_by, emitted_for: Vec::new(), failed })
    }
}

fn columns(names: [&str; 3]) -> SchemaRef {
    Arc::new(Schema::new(names.map(|name| Field::new(name, DataType::Int64, true)).to_vec()))
}

fn outputs() -> SchemaRef {
    Arc::new(Schema::new(["key", "timed_out"].map(|name| Field::new(name, DataType::Int64, true)).to_vec()))
}

struct World {
    operator: KeyedFunctionOperator<Arming>,
    maps: [StateMap; 1],
}

impl World {
    fn new() -> Self {
        let spec = KeyedFunctionSpec {
            name: "arming".into(),
            key: vec!["key".into()],
            input: columns(["key", "fate", "arm"]),
            values: None,
            state: Fields::from(vec![Field::new("state", DataType::Int64, true)]),
            output: outputs(),
            timeout: Timeout::ArmedByBatchTime,
            event_time: None,
            late: LateRows::TakeOut,
        };
        let operator = KeyedFunctionOperator::new(spec, Arming).unwrap();
        let map = StateMap::open(Arc::new(operator.signature().maps[0].clone()), &[], KeyRange::ALL).unwrap();
        Self { operator, maps: [map] }
    }

    /// One data pass over rows (key, fate, arm): which keys were called (and whether for a timeout), and which were
    /// quarantined.
    fn batch(&mut self, now_ms: i64, rows: &[(i64, i64, Option<i64>)]) -> (Vec<(i64, i64)>, Vec<u32>) {
        let input: Vec<ArrayRef> = vec![
            Arc::new(rows.iter().map(|row| Some(row.0)).collect::<Int64Array>()),
            Arc::new(rows.iter().map(|row| Some(row.1)).collect::<Int64Array>()),
            Arc::new(rows.iter().map(|row| row.2).collect::<Int64Array>()),
        ];
        let input = RecordBatch::try_new(columns(["key", "fate", "arm"]), input).unwrap();
        let pass =
            Pass { kind: PassKind::Data, batch_time_ms: now_ms, late_ms: None, watermark_ms: None, begins: false };
        let chunk = self.operator.prepare(&input, &pass, Combine::Split).unwrap().rows;
        let mut out = Output::new(outputs());
        self.operator.apply(&Chunks::of_one_input(&[chunk]), &mut self.maps, &pass, &mut out).unwrap();
        let quarantined =
            out.take_quarantined().into_iter().flat_map(|quarantined| quarantined.rows).map(|at| at.row).collect();
        let called = out.into_rows().unwrap();
        let cell = |column: usize, row: usize| called.column(column).as_primitive::<Int64Type>().value(row);
        let mut called: Vec<(i64, i64)> = (0..called.num_rows()).map(|row| (cell(0, row), cell(1, row))).collect();
        called.sort_unstable();
        (called, quarantined)
    }

    /// By key: the state if the key has one, and the deadline.
    fn rows(&self) -> Vec<(i64, Option<i64>, Option<i64>)> {
        let rows = self.maps[0].scan().unwrap();
        let (keys, states) = (rows.keys[0].as_primitive::<Int64Type>(), rows.values[0].as_primitive::<Int64Type>());
        let exists = rows.values[1].as_boolean();
        let state = |row: usize| exists.value(row).then(|| states.value(row));
        let mut found: Vec<_> = (0..keys.len()).map(|row| (keys.value(row), state(row), rows.deadline[row])).collect();
        found.sort_unstable();
        found
    }
}

const KEEP: i64 = 0;
const UPDATE: i64 = 1;
const REMOVE: i64 = 2;
const FAIL: i64 = 3;

#[test]
fn a_deadline_without_a_state_is_kept_until_nothing_is_armed() {
    let mut world = World::new();
    world.batch(0, &[(1, UPDATE, Some(50)), (2, KEEP, Some(50)), (3, REMOVE, None), (4, KEEP, None)]);
    assert_eq!(world.rows(), [(1, Some(1), Some(50)), (2, None, Some(50))]);
    world.batch(1, &[(1, REMOVE, Some(60)), (2, KEEP, None)]);
    assert_eq!(world.rows(), [(1, None, Some(60))]);
    world.batch(2, &[(1, UPDATE, None)]);
    assert_eq!(world.rows(), [(1, Some(1), None)]);
}

#[test]
fn a_key_that_is_left_due_after_its_rows_fires_in_the_same_pass_and_again_while_it_is_kept() {
    let mut world = World::new();
    world.batch(0, &[(2, UPDATE, Some(10)), (3, UPDATE, Some(10))]);
    let (called, _) = world.batch(10, &[(2, KEEP, Some(10)), (3, KEEP, Some(11))]);
    assert_eq!(called, [(2, 0), (2, 1), (3, 0)]);
    let (called, _) = world.batch(11, &[]);
    assert_eq!(called, [(2, 1), (3, 1)]);
    assert_eq!(world.rows(), [(2, Some(2), Some(10))]);
}

#[test]
fn a_key_that_fails_keeps_its_state_and_is_not_called_again_in_its_pass() {
    let mut world = World::new();
    world.batch(0, &[(5, UPDATE, Some(5)), (99, UPDATE, Some(5))]);
    let before = world.rows();
    let (called, quarantined) = world.batch(7, &[(5, UPDATE, None), (5, FAIL, Some(80))]);
    assert_eq!((called, quarantined), (vec![(5, 0), (99, 1)], vec![0, 1]));
    assert_eq!(world.rows(), before);
    let metrics = world.operator.metrics();
    assert_eq!((metrics.failed, metrics.timed_out), (2, 0));
    let (called, quarantined) = world.batch(8, &[]);
    assert_eq!((called, quarantined), (vec![(5, 1), (99, 1)], vec![]));
    assert_eq!(world.rows(), before[1..]);
}
