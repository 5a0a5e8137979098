//! Combining before the exchange: blocks of a split together, and folded as they arrive.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, TimestampMicrosecondType};
use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray};
use arrow_schema::{DataType, Field, Schema, TimeUnit};

use super::super::{
    AggregateOperator, AggregateSpec, Call, Combine, Operator, Pass, PassKind, SessionOperator, SessionSpec,
};
use crate::aggregate::Function;
use crate::key::with_masked_hashes;

/// Totals of `amount` by `key`, and the pass in which rows are prepared.
fn totals() -> (AggregateOperator, Schema, Pass) {
    let input = Schema::new(vec![
        Field::new("key", DataType::Utf8, true),
        Field::new("amount", DataType::Int64, true),
        Field::new("note", DataType::Utf8, true),
    ]);
    let call = |output: &str, function, column: Option<&str>| Call {
        output: output.into(),
        function,
        column: column.map(Into::into),
        by: None,
    };
    let spec = AggregateSpec {
        name: "totals".into(),
        key: vec!["key".into()],
        input: Arc::new(input.clone()),
        functions: vec![call("n", Function::Count, None), call("sum", Function::Sum, Some("amount"))],
        window: None,
        key_time: None,
    };
    let pass = Pass { kind: PassKind::Data, batch_time_ms: 0, late_ms: None, watermark_ms: None, begins: false };
    (AggregateOperator::new(&spec).unwrap(), input, pass)
}

/// A block of `rows` rows with `keys` keys, chosen by `seed`. The amount of a row is its number. Its note is null or
/// one of a few texts of 1 to 24 bytes, which many rows share.
fn block(schema: &Schema, seed: usize, rows: usize, keys: usize, width: usize) -> RecordBatch {
    let key = (0..rows).map(|row| Some(format!("{:0width$}", (row * 31 + seed) % keys))).collect::<StringArray>();
    let amount = (0..rows as i64).collect::<Int64Array>();
    let note = |row: usize| !(row * 17 + seed).is_multiple_of(7);
    let text = |row: usize| format!("{:0width$}", (row * 13 + seed * 5) % 23, width = [1, 5, 16, 17, 24][row % 5]);
    let note = (0..rows).map(|row| note(row).then(|| text(row))).collect::<StringArray>();
    RecordBatch::try_new(Arc::new(schema.clone()), vec![Arc::new(key), Arc::new(amount), Arc::new(note)]).unwrap()
}

/// (rows, amount) by key of partial rows, which have each key once.
fn partials(rows: &RecordBatch) -> BTreeMap<String, (i64, i64)> {
    let (keys, counts) = (rows.column(0).as_string::<i32>(), rows.column(1).as_primitive::<Int64Type>());
    let sums = rows.column(2).as_primitive::<Int64Type>();
    let found: BTreeMap<_, _> =
        (0..rows.num_rows()).map(|row| (keys.value(row).to_owned(), (counts.value(row), sums.value(row)))).collect();
    assert_eq!(found.len(), rows.num_rows());
    found
}

fn expected(blocks: &[RecordBatch]) -> BTreeMap<String, (i64, i64)> {
    let mut totals = BTreeMap::<String, (i64, i64)>::new();
    for rows in blocks {
        let (keys, amounts) = (rows.column(0).as_string::<i32>(), rows.column(1).as_primitive::<Int64Type>());
        for row in 0..rows.num_rows() {
            let total = totals.entry(keys.value(row).to_owned()).or_default();
            *total = (total.0 + 1, total.1 + amounts.value(row));
        }
    }
    totals
}

#[test]
fn blocks_of_a_split_are_combined_together() {
    let (mut operator, schema, pass) = totals();
    for splits in 0..2 {
        let blocks: Vec<RecordBatch> = (0..3).map(|seed| block(&schema, seed + splits, 50, 20 + seed, 1)).collect();
        for rows in &blocks {
            assert_eq!(operator.prepare(rows, &pass, Combine::Split).unwrap().rows.num_rows(), 0);
            let nothing = rows.slice(0, 0);
            assert_eq!(operator.prepare(&nothing, &pass, Combine::Split).unwrap().rows.num_rows(), 0);
        }
        assert_eq!(partials(&operator.rest().unwrap().unwrap()), expected(&blocks));
        assert!(operator.rest().unwrap().is_none());
    }
    assert_eq!(operator.prepare(&block(&schema, 0, 0, 1, 1), &pass, Combine::Split).unwrap().rows.num_rows(), 0);
    assert!(operator.rest().unwrap().is_none());
}

#[test]
fn rows_are_folded_once_if_keys_become_too_many_for_the_table() {
    let (mut operator, schema, pass) = totals();
    operator.with_combiner_limits(20_000, usize::MAX);
    // Up to a third of the rows may have keys of their own; the second block has more.
    for (few, many) in [((6_000, 10), (7_500, 7_500)), ((100, 10), (9_000, 9_000)), ((9_000, 10), (9_000, 700))] {
        let blocks =
            [block(&schema, 0, few.0, few.1, 1), block(&schema, 3, many.0, many.1, 5), block(&schema, 5, 400, 9, 1)];
        for rows in &blocks {
            assert_eq!(operator.prepare(rows, &pass, Combine::Split).unwrap().rows.num_rows(), 0);
        }
        assert_eq!(partials(&operator.rest().unwrap().unwrap()), expected(&blocks));
    }
}

#[test]
fn every_function_folds_blocks_one_by_one_as_it_folds_them_together() {
    let functions = ["count", "sum", "min", "max", "mean", "first", "last", "var", "stddev"].map(|name| (name, None));
    let more = [("approx_count_distinct", Some(9)), ("collect_set", Some(4))];
    let by = ["min_by", "max_by", "earliest"];
    let (_, schema, pass) = totals();
    let columns = |name: &str| if ["min", "max"].contains(&name) { vec!["amount", "note"] } else { vec!["amount"] };
    let mut calls = Vec::new();
    for (name, parameter) in functions.into_iter().chain(more).chain(by.map(|name| (name, None))) {
        for column in columns(name) {
            calls.push(Call {
                output: format!("{name} {column}"),
                function: Function::named(name, parameter).unwrap(),
                column: Some(column.into()),
                by: by.contains(&name).then(|| "note".into()),
            });
        }
    }
    let spec = AggregateSpec {
        name: "all".into(),
        key: vec!["key".into()],
        input: Arc::new(schema.clone()),
        functions: calls,
        window: None,
        key_time: None,
    };
    // New keys in each block, and keys of earlier blocks.
    let blocks: Vec<RecordBatch> = (0..4).map(|seed| block(&schema, seed, 200, 10 + 25 * seed, 1)).collect();
    let combined = |mask: u64| {
        with_masked_hashes(mask, || {
            let mut operator = AggregateOperator::new(&spec).unwrap();
            for rows in &blocks {
                operator.prepare(rows, &pass, Combine::Split).unwrap();
            }
            let rows = operator.rest().unwrap().unwrap();
            let row = |row: usize| -> Vec<String> {
                rows.columns().iter().map(|column| format!("{:?}", column.slice(row, 1))).collect()
            };
            let mut found: Vec<Vec<String>> = (0..rows.num_rows()).map(row).collect();
            found.sort();
            found
        })
    };
    let as_they_come = combined(u64::MAX);
    assert_eq!(as_they_come.len(), 85);
    assert_eq!(as_they_come, combined(0)); // no hash identifies a key, so rows are sorted before they are folded
}

#[test]
fn the_combiner_collects_no_more_than_its_limits() {
    let check = |blocks: [RecordBatch; 2]| {
        let (mut operator, _, pass) = totals();
        let sent = blocks.each_ref().map(|rows| operator.prepare(rows, &pass, Combine::Split).unwrap().rows);
        assert_eq!(sent[0].num_rows(), 0);
        assert_eq!(partials(&sent[1]), expected(&blocks));
        assert!(operator.rest().unwrap().is_none());
    };
    let (_, schema, _) = totals();
    check([0, 1].map(|seed| block(&schema, seed, 1 << 19, 100, 1))); // 2^20 rows
    check([0, 1].map(|seed| block(&schema, seed, 1 << 10, 10, 1 << 15))); // 64 MiB of keys
}

#[test]
fn collected_rows_are_returned_at_the_limits_and_the_combiner_starts_over() {
    for (enough, expected) in [((100, usize::MAX), [2, 2, 1]), ((usize::MAX, 1), [1, 1, 1]), ((51, 1 << 20), [2, 2, 1])]
    {
        let (mut operator, schema, pass) = totals();
        operator.with_combiner_limits(enough.0, enough.1);
        let blocks: Vec<RecordBatch> = (0..5).map(|seed| block(&schema, seed, 50, 20, 1)).collect();
        let (mut sent, mut held) = (Vec::new(), Vec::new());
        for rows in &blocks {
            held.push(rows.clone());
            let prepared = operator.prepare(rows, &pass, Combine::Split).unwrap().rows;
            if prepared.num_rows() > 0 {
                assert_eq!(partials(&prepared), self::expected(&held));
                sent.push(std::mem::take(&mut held).len());
            }
        }
        if let Some(rest) = operator.rest().unwrap() {
            assert_eq!(partials(&rest), self::expected(&held));
            sent.push(held.len());
        }
        assert_eq!(sent[..3], expected);
    }
}

/// Sessions of 10 s by `key`, and how many rows each has.
fn sessions() -> (SessionOperator, Schema, Pass) {
    let ts = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
    let input = Schema::new(vec![Field::new("key", DataType::Utf8, true), Field::new("ts", ts, true)]);
    let n = Call { output: "n".into(), function: Function::Count, column: None, by: None };
    let spec = SessionSpec {
        name: "sessions".into(),
        key: vec!["key".into()],
        input: Arc::new(input.clone()),
        functions: vec![n],
        column: "ts".into(),
        gap_us: 10_000_000,
        place: 1,
    };
    let pass = Pass { kind: PassKind::Data, batch_time_ms: 0, late_ms: None, watermark_ms: None, begins: false };
    (SessionOperator::new(&spec).unwrap(), input, pass)
}

fn at_seconds(schema: &Schema, rows: &[(&str, Option<i64>)]) -> RecordBatch {
    let keys = rows.iter().map(|row| Some(row.0)).collect::<StringArray>();
    let times = rows.iter().map(|row| row.1.map(|s| s * 1_000_000)).collect::<TimestampMicrosecondArray>();
    let columns: Vec<ArrayRef> = vec![Arc::new(keys), Arc::new(times.with_timezone("UTC"))];
    RecordBatch::try_new(Arc::new(schema.clone()), columns).unwrap()
}

#[test]
fn each_session_of_a_split_is_one_row_for_any_blocks() {
    let (mut operator, schema, pass) = sessions();
    let rows = [
        ("a", Some(0)),
        ("b", Some(5)),
        ("a", Some(30)),
        ("a", None),
        ("a", Some(8)),
        ("b", Some(50)),
        ("a", Some(18)),
    ];
    let expected = [("a", 0, 28, 3), ("a", 30, 40, 1), ("b", 5, 15, 1), ("b", 50, 60, 1)];
    for cuts in [vec![7], vec![3, 4], vec![1, 1, 5]] {
        let mut rest = &rows[..];
        for count in cuts {
            let (block, left) = rest.split_at(count);
            let prepared = operator.prepare(&at_seconds(&schema, block), &pass, Combine::Split).unwrap();
            assert_eq!(prepared.rows.num_rows(), 0);
            assert_eq!(
                prepared.late.map_or(0, |late| late.count_set_bits()),
                block.iter().filter(|row| row.1.is_none()).count()
            );
            rest = left;
        }
        let sent = operator.rest().unwrap().unwrap();
        let seconds = |column: usize, row: usize| {
            sent.column(column).as_primitive::<TimestampMicrosecondType>().value(row) / 1_000_000
        };
        let (keys, counts) = (sent.column(0).as_string::<i32>(), sent.column(3).as_primitive::<Int64Type>());
        let mut found: Vec<_> = (0..sent.num_rows())
            .map(|row| (keys.value(row), seconds(1, row), seconds(2, row), counts.value(row)))
            .collect();
        found.sort_unstable();
        assert_eq!(found, expected);
        assert!(operator.rest().unwrap().is_none());
    }
}
