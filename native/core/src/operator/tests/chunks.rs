//! Chunks know their inputs, and an order that a batch never makes is refused.

use std::sync::Arc;

use arrow_array::{Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema};

use crate::operator::Chunks;

fn chunk(values: Vec<i64>) -> RecordBatch {
    let schema = Schema::new(vec![Field::new("n", DataType::Int64, false)]);
    RecordBatch::try_new(Arc::new(schema), vec![Arc::new(Int64Array::from(values))]).unwrap()
}

#[test]
fn a_chunk_knows_the_number_of_its_input() {
    let rows = [chunk(vec![1]), chunk(vec![2, 3]), chunk(vec![4])];
    let chunks = Chunks::of_inputs(&rows, &[0, 0, 1]).unwrap();
    assert_eq!((0..3).map(|at| chunks.port(at)).collect::<Vec<_>>(), [0, 0, 1]);
    assert_eq!(chunks.iter().map(RecordBatch::num_rows).collect::<Vec<_>>(), [1, 2, 1]);
    assert_eq!(Chunks::of_one_input(&rows).port(2), 0);
}

#[test]
fn inputs_that_are_mixed_or_missing_are_refused() {
    let rows = [chunk(vec![1]), chunk(vec![2])];
    for ports in [&[1, 0][..], &[0][..], &[0, 0, 1][..]] {
        let error = Chunks::of_inputs(&rows, ports).unwrap_err().to_string();
        assert!(error.contains("2 chunks are of the inputs"), "{error}");
    }
}
