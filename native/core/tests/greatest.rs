//! A test-only operator: the greatest value of each key. It is one file, keeps its state in an ordinary state map, and
//! uses none of Tidemill's own operators, which shows that the interface is sufficient.

#![expect(clippy::unwrap_used, reason = "a failing test may panic")]

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Fields, Schema};
use tidemill_core::operator::{
    Chunks, Combine, Groups, Metrics, Operator, Origin, Output, Pass, PassKind, Prepared, Signature,
};
use tidemill_core::{Changes, KeyRange, Keys, MapSchema, Result, StateMap};

struct Greatest {
    signature: Signature,
    metrics: Metrics,
}

impl Greatest {
    fn new() -> Result<Self> {
        let key = Fields::from(vec![Field::new("user", DataType::Utf8, true)]);
        let value = Fields::from(vec![Field::new("greatest", DataType::Int64, true)]);
        let columns = Arc::new(Schema::new(key.iter().chain(&value).cloned().collect::<Fields>()));
        let maps = vec![MapSchema::new("greatest", &key, &Fields::empty(), &value)?];
        let signature = Signature { name: "greatest".into(), maps, prepared: columns.clone(), output: columns };
        Ok(Self { signature, metrics: Metrics::default() })
    }

    fn columns(&self, keys: &Keys, greatest: Vec<Option<i64>>) -> Result<RecordBatch> {
        let columns: Vec<ArrayRef> = vec![keys.columns()[0].clone(), Arc::new(Int64Array::from(greatest))];
        Ok(RecordBatch::try_new(self.signature.output.clone(), columns)?)
    }
}

fn numbers(batch: &RecordBatch) -> &Int64Array {
    batch.column(1).as_primitive::<Int64Type>()
}

impl Operator for Greatest {
    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn prepare(&mut self, rows: &RecordBatch, _pass: &Pass, _combine: Combine) -> Result<Prepared> {
        let groups = Groups::new(&[Keys::new(&rows.columns()[..1])?])?;
        let mut greatest = vec![None; groups.len()];
        for (&group, number) in groups.numbers()[0].iter().zip(numbers(rows)) {
            greatest[group as usize] = number.max(greatest[group as usize]);
        }
        Ok(Prepared { rows: self.columns(&groups.keys, greatest)?, late: None, made_of: None })
    }

    fn apply(&mut self, chunks: &Chunks<'_>, maps: &mut [StateMap], pass: &Pass, out: &mut Output) -> Result<()> {
        let keys = chunks.iter().map(|chunk| Keys::new(&chunk.columns()[..1]));
        let groups = Groups::new(&keys.collect::<Result<Vec<_>>>()?)?;
        if groups.is_empty() {
            return Ok(());
        }
        let found = maps[0].get(&groups.keys)?;
        let mut greatest: Vec<Option<i64>> = found.values[0].as_primitive::<Int64Type>().iter().collect();
        for (chunk, of) in chunks.iter().zip(groups.numbers()) {
            for (&group, number) in of.iter().zip(numbers(chunk)) {
                greatest[group as usize] = number.max(greatest[group as usize]);
            }
        }
        let rows = self.columns(&groups.keys, greatest)?;
        maps[0].change(&Changes {
            keys: vec![rows.column(0).clone()],
            values: vec![rows.column(1).clone()],
            updated_at: vec![pass.batch_time_ms; groups.len()],
            deadline: vec![None; groups.len()],
            deleted: vec![false; groups.len()],
            ..Changes::default()
        })?;
        self.metrics.rows_updated += groups.len() as u64;
        out.emit(groups.keys, rows, || Origin::Keys)
    }

    fn metrics(&self) -> Metrics {
        self.metrics
    }
}

fn rows(cells: &[(&str, i64)]) -> RecordBatch {
    let users: ArrayRef = Arc::new(cells.iter().map(|cell| Some(cell.0)).collect::<StringArray>());
    let values: ArrayRef = Arc::new(cells.iter().map(|cell| Some(cell.1)).collect::<Int64Array>());
    let schema =
        Schema::new(vec![Field::new("user", DataType::Utf8, true), Field::new("value", DataType::Int64, true)]);
    RecordBatch::try_new(Arc::new(schema), vec![users, values]).unwrap()
}

fn cells(batch: &RecordBatch) -> Vec<(String, i64)> {
    let users = batch.column(0).as_string::<i32>();
    let mut cells: Vec<_> =
        users.iter().zip(numbers(batch)).map(|(user, n)| (user.unwrap().to_owned(), n.unwrap())).collect();
    cells.sort();
    cells
}

#[test]
fn a_test_only_operator_runs_through_the_same_maps() {
    let pass = Pass { kind: PassKind::Data, batch_time_ms: 7, late_ms: None, watermark_ms: None, begins: false };
    let mut operator: Box<dyn Operator> = Box::new(Greatest::new().unwrap());
    let mut maps = [StateMap::open(Arc::new(operator.signature().maps[0].clone()), &[], KeyRange::ALL).unwrap()];
    let blocks = [rows(&[("ann", 3), ("bob", 9), ("ann", 5)]), rows(&[("cid", 1), ("ann", 4)])];
    let chunks: Vec<RecordBatch> =
        blocks.iter().map(|block| operator.prepare(block, &pass, Combine::Split).unwrap().rows).collect();
    assert_eq!(chunks.iter().map(RecordBatch::num_rows).collect::<Vec<_>>(), [2, 2]);

    let mut out = Output::new(operator.signature().output.clone());
    operator.apply(&Chunks::of_one_input(&chunks), &mut maps, &pass, &mut out).unwrap();
    let expected = [("ann".to_owned(), 5), ("bob".to_owned(), 9), ("cid".to_owned(), 1)];
    assert_eq!(cells(&out.into_rows().unwrap()), expected);

    let mut out = Output::new(operator.signature().output.clone());
    let chunks = [rows(&[("bob", 2), ("cid", 8)])];
    operator.apply(&Chunks::of_one_input(&chunks), &mut maps, &pass, &mut out).unwrap();
    assert_eq!(cells(&out.into_rows().unwrap()), [("bob".to_owned(), 9), ("cid".to_owned(), 8)]);
    assert_eq!(maps[0].len(), 3);
    assert_eq!(operator.metrics().rows_updated, 5);
}
