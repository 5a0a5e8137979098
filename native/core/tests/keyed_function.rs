//! The keyed function operator compared with a naive model: a `BTreeMap` of states and deadlines, one key at a time.

#![expect(clippy::unwrap_used, reason = "a failing test may panic")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, TimestampMicrosecondType};
use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch, TimestampMicrosecondArray};
use arrow_schema::{DataType, Field, Fields, Schema, SchemaRef, TimeUnit};
use proptest::prelude::*;
use tidemill_core::operator::{
    Chunks, Combine, Fate, KeyedFunction, KeyedFunctionOperator, KeyedFunctionSpec, LateRows, Operator, Output, Pass,
    PassKind, Returned, Timeout, Visit,
};
use tidemill_core::{Changes, KeyRange, Result, StateMap};

/// What a row asks the function to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Ask {
    Look = 0,
    Add = 1,
    Remove = 2,
}

#[derive(Clone, Copy, Debug)]
struct Row {
    key: Option<i64>,
    ask: Ask,
    time_us: Option<i64>,
}

#[derive(Clone, Debug)]
struct Batch {
    rows: Vec<Row>,
    later_ms: i64,
}

/// (key, the state it saw before the call, whether it timed out).
type Emitted = (Option<i64>, Option<i64>, bool);

/// Emits what it sees. `Add` adds one to the state, `Remove` removes it.
struct Counting;

impl KeyedFunction for Counting {
    fn call(&mut self, visit: &Visit<'_>) -> Result<Returned> {
        let (mut fates, mut states, mut seen, mut by) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let stored = visit.states[0].as_primitive::<Int64Type>();
        let mut start = 0;
        for (key, &end) in (0u32..).zip(visit.ends) {
            let before = visit.exists[key as usize].then(|| stored.value(key as usize));
            let mut state = before;
            let mut updated = false;
            for at in &visit.rows[start..end] {
                by.push(key);
                seen.push(state);
                let ask = visit.chunks[at.chunk as usize].column_by_name("ask").unwrap().as_primitive::<Int64Type>();
                match ask.value(at.row as usize) {
                    1 => (state, updated) = (Some(state.unwrap_or(0) + 1), true),
                    2 => (state, updated) = (None, false),
                    _ => {}
                }
            }
            start = end;
            if visit.timing_out {
                by.push(key);
                seen.push(state);
            }
            fates.push(match (updated, before, state) {
                (true, _, Some(_)) => Fate::Updated,
                (_, Some(_), None) => Fate::Removed,
                _ => Fate::Kept,
            });
            if updated {
                states.push(state);
            }
        }
        let keys = visit.keys.columns()[0].as_primitive::<Int64Type>();
        let closed = vec![i64::from(visit.timing_out); by.len()];
        let outputs: Vec<ArrayRef> = vec![
            Arc::new(
                by.iter()
                    .map(|&key| keys.is_valid(key as usize).then(|| keys.value(key as usize)))
                    .collect::<Int64Array>(),
            ),
            Arc::new(Int64Array::from(seen)),
            Arc::new(Int64Array::from(closed)),
        ];
        let outputs = RecordBatch::try_new(output_schema(), outputs)?;
        let states: Vec<ArrayRef> = vec![Arc::new(Int64Array::from(states))];
        Ok(Returned {
            fates,
            deadlines: Vec::new(),
            states,
            outputs,
            emitted_by: by,
            emitted_for: Vec::new(),
            failed: Vec::new(),
        })
    }
}

fn output_schema() -> SchemaRef {
    let field = |name: &str| Field::new(name, DataType::Int64, true);
    Arc::new(Schema::new(vec![field("key"), field("seen"), field("closed")]))
}

fn input_schema() -> SchemaRef {
    let time = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
    Arc::new(Schema::new(vec![
        Field::new("ask", DataType::Int64, true),
        Field::new("time", time, true),
        Field::new("key", DataType::Int64, true),
        Field::new("_row", DataType::Int64, true),
    ]))
}

fn input(rows: &[Row]) -> RecordBatch {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(rows.iter().map(|row| Some(row.ask as i64)).collect::<Int64Array>()),
        Arc::new(rows.iter().map(|row| row.time_us).collect::<TimestampMicrosecondArray>().with_timezone("UTC")),
        Arc::new(rows.iter().map(|row| row.key).collect::<Int64Array>()),
        Arc::new((0i64..).take(rows.len()).map(Some).collect::<Int64Array>()),
    ];
    RecordBatch::try_new(input_schema(), columns).unwrap()
}

fn operator(timeout: Timeout, late: LateRows) -> KeyedFunctionOperator<Counting> {
    let spec = KeyedFunctionSpec {
        name: "counting".into(),
        key: vec!["key".into()],
        input: input_schema(),
        values: None,
        state: Fields::from(vec![Field::new("state", DataType::Int64, true)]),
        output: output_schema(),
        timeout,
        event_time: Some("time".into()),
        late,
    };
    KeyedFunctionOperator::new(spec, Counting).unwrap()
}

/// State, updated time and deadline by key, kept in the simplest way.
#[derive(Default)]
struct Model {
    states: BTreeMap<Option<i64>, (i64, i64, Option<i64>)>,
}

impl Model {
    fn pass(&mut self, rows: &[Row], pass: &Pass, timeout: Timeout, late: LateRows) -> Vec<Emitted> {
        let mut emitted = Vec::new();
        let keys: BTreeSet<Option<i64>> = rows.iter().map(|row| row.key).collect();
        for &key in &keys {
            let rows: Vec<&Row> = rows.iter().filter(|row| row.key == key).collect();
            let old = self.states.get(&key).copied();
            let mut state = old.map(|(state, updated, _)| (state, updated));
            for row in &rows {
                emitted.push((key, state.map(|state| state.0), false));
                match row.ask {
                    Ask::Look => {}
                    Ask::Add => state = Some((state.map_or(0, |state| state.0) + 1, pass.batch_time_ms)),
                    Ask::Remove => state = None,
                }
            }
            let latest = rows.iter().filter_map(|row| row.time_us).map(|us| us.div_euclid(1000)).max();
            let deadline = match timeout {
                Timeout::Never | Timeout::ArmedByBatchTime | Timeout::ArmedByEventTime => None,
                Timeout::BatchTime(ms) => Some(pass.batch_time_ms + ms + 1),
                Timeout::EventTime(ms) => {
                    let floor = if late == LateRows::Keep { pass.late_ms } else { None };
                    let armed = latest.map(|time| (time + ms + 1).max(floor.unwrap_or(i64::MIN)));
                    // The deadline 1 belongs to states that wait for the watermark.
                    let known = armed.map(|at| if at == 1 { 2 } else { at }).max(old.and_then(|old| old.2));
                    known.or_else(|| Some(from_watermark(ms, pass)))
                }
            };
            match state {
                Some((state, updated)) => self.states.insert(key, (state, updated, deadline)),
                None => self.states.remove(&key),
            };
        }
        let now = match (timeout, pass.kind) {
            (Timeout::BatchTime(_), PassKind::Data) => Some(pass.batch_time_ms),
            (Timeout::EventTime(_), _) => pass.watermark_ms,
            _ => None,
        };
        let is_due = |deadline: Option<i64>| deadline.zip(now).is_some_and(|(deadline, now)| deadline <= now);
        let due: Vec<_> = self.states.iter().filter(|(key, state)| !keys.contains(key) && is_due(state.2)).collect();
        let due: Vec<_> = due.into_iter().map(|(key, state)| (*key, *state)).collect();
        for (key, (state, updated, deadline)) in due {
            match timeout {
                Timeout::EventTime(ms) if deadline == Some(1) => {
                    self.states.insert(key, (state, updated, Some(from_watermark(ms, pass))));
                }
                _ => {
                    emitted.push((key, Some(state), true));
                    self.states.remove(&key);
                }
            }
        }
        emitted
    }
}

/// The deadline of a state without an event time: counted from the watermark, or 1 until there is one.
fn from_watermark(timeout_ms: i64, pass: &Pass) -> i64 {
    pass.watermark_ms.filter(|watermark| *watermark > 0).map_or(1, |watermark| watermark + timeout_ms + 1)
}

fn emitted(batch: &RecordBatch) -> Vec<Emitted> {
    let column = |place: usize| batch.column(place).as_primitive::<Int64Type>();
    let cell = |place: usize, row: usize| column(place).is_valid(row).then(|| column(place).value(row));
    (0..batch.num_rows()).map(|row| (cell(0, row), cell(1, row), cell(2, row) == Some(1))).collect()
}

/// Group rows by key, keeping the order of each key's rows.
fn by_key(mut rows: Vec<Emitted>) -> Vec<Emitted> {
    rows.sort_by_key(|row| row.0);
    rows
}

fn live(map: &StateMap) -> BTreeMap<Option<i64>, (i64, i64, Option<i64>)> {
    let rows = map.scan().unwrap();
    let (keys, states) = (rows.keys[0].as_primitive::<Int64Type>(), rows.values[0].as_primitive::<Int64Type>());
    let row = |i: usize| {
        let key = keys.is_valid(i).then(|| keys.value(i));
        (key, (states.value(i), rows.updated_at[i], rows.deadline[i]))
    };
    (0..keys.len()).map(row).collect()
}

fn a_row() -> impl Strategy<Value = Row> {
    let ask = prop_oneof![Just(Ask::Look), Just(Ask::Add), Just(Ask::Add), Just(Ask::Remove)];
    (prop::option::weighted(0.9, 0i64..6), ask, prop::option::weighted(0.8, -3_000i64..30_000))
        .prop_map(|(key, ask, time_us)| Row { key, ask, time_us })
}

fn a_batch() -> impl Strategy<Value = Batch> {
    (prop::collection::vec(a_row(), 0..12), 0i64..8).prop_map(|(rows, later_ms)| Batch { rows, later_ms })
}

fn a_timeout() -> impl Strategy<Value = Timeout> {
    prop_oneof![Just(Timeout::Never), (1i64..6).prop_map(Timeout::BatchTime), (1i64..6).prop_map(Timeout::EventTime)]
}

/// The rows that are not late, or all rows if late rows are kept.
fn on_time(rows: &[Row], late_ms: i64, timeout: Timeout, late: LateRows) -> Vec<Row> {
    let filters = matches!(timeout, Timeout::EventTime(_)) && late == LateRows::TakeOut;
    let is_late = |row: &Row| row.time_us.is_some_and(|us| us <= late_ms * 1000);
    rows.iter().copied().filter(|row| !(filters && is_late(row))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn does_what_the_model_does(
        batches in prop::collection::vec(a_batch(), 1..8),
        timeout in a_timeout(),
        keeps_late in any::<bool>(),
        cut in 1usize..5,
    ) {
        let late = if keeps_late { LateRows::Keep } else { LateRows::TakeOut };
        let mut operator = operator(timeout, late);
        let mut maps = [StateMap::open(Arc::new(operator.signature().maps[0].clone()), &[], KeyRange::ALL).unwrap()];
        let (mut model, mut now, mut watermark) = (Model::default(), 0, 0);
        for batch in batches {
            now += batch.later_ms;
            let mut pass = Pass { kind: PassKind::Data, batch_time_ms: now, late_ms: Some(watermark), watermark_ms: Some(watermark), begins: false };
            let prepared = operator.prepare(&input(&batch.rows), &pass, Combine::Split).unwrap();
            let rows = on_time(&batch.rows, watermark, timeout, late);
            let late_rows = prepared.late.map_or(0, |late| late.count_set_bits());
            prop_assert_eq!(prepared.rows.num_rows(), rows.len());
            prop_assert_eq!(late_rows, batch.rows.len() - rows.len());
            let chunks: Vec<RecordBatch> =
                (0..rows.len()).step_by(cut).map(|at| prepared.rows.slice(at, cut.min(rows.len() - at))).collect();
            let latest = batch.rows.iter().filter_map(|row| row.time_us).map(|us| us.div_euclid(1000) - 2).max();
            for (kind, chunks, rows) in [(PassKind::Data, chunks, rows), (PassKind::Due, vec![], vec![])] {
                if kind == PassKind::Due {
                    watermark = watermark.max(latest.unwrap_or(0));
                    pass = Pass { kind, watermark_ms: Some(watermark), ..pass };
                }
                let mut out = Output::new(operator.signature().output.clone());
                operator.apply(&Chunks::of_one_input(&chunks), &mut maps, &pass, &mut out).unwrap();
                let found = emitted(&out.into_rows().unwrap());
                prop_assert_eq!(by_key(found), by_key(model.pass(&rows, &pass, timeout, late)));
                prop_assert_eq!(live(&maps[0]), model.states.clone());
            }
        }
    }
}

fn one(key: i64, ask: Ask, time_us: Option<i64>) -> Row {
    Row { key: Some(key), ask, time_us }
}

fn apply(
    operator: &mut KeyedFunctionOperator<Counting>,
    maps: &mut [StateMap],
    rows: &[Row],
    pass: &Pass,
) -> RecordBatch {
    let chunk = operator.prepare(&input(rows), pass, Combine::Split).unwrap().rows;
    let mut out = Output::new(operator.signature().output.clone());
    operator.apply(&Chunks::of_one_input(&[chunk]), maps, pass, &mut out).unwrap();
    out.into_rows().unwrap()
}

#[test]
fn hidden_columns_are_not_exchanged_and_the_key_comes_first() {
    let names: Vec<String> = operator(Timeout::EventTime(1), LateRows::Keep)
        .signature()
        .prepared
        .fields()
        .iter()
        .map(|field| field.name().clone())
        .collect();
    assert_eq!(names, ["key", "time", "ask"]);
}

#[test]
fn outputs_are_sorted_by_hash_including_those_of_timeouts() {
    let mut operator = operator(Timeout::BatchTime(1), LateRows::Keep);
    let mut maps = [StateMap::open(Arc::new(operator.signature().maps[0].clone()), &[], KeyRange::ALL).unwrap()];
    let pass =
        |batch_time_ms| Pass { kind: PassKind::Data, batch_time_ms, late_ms: None, watermark_ms: None, begins: false };
    let rows: Vec<Row> = (0..40).map(|key| one(key, Ask::Add, None)).collect();
    apply(&mut operator, &mut maps, &rows, &pass(0));
    let out = apply(&mut operator, &mut maps, &rows[..20], &pass(10));
    let keys = tidemill_core::Keys::new(&out.columns()[..1]).unwrap();
    assert_eq!(out.num_rows(), 40);
    assert!((1..40).all(|row| keys.cmp_at(row - 1, &keys, row).is_lt()));
    assert_eq!(operator.metrics().timed_out, 20);
    assert_eq!(operator.metrics().rows_removed, 20);
}

#[test]
fn a_key_that_never_had_a_state_leaves_no_tombstone() {
    let mut operator = operator(Timeout::Never, LateRows::Keep);
    let mut maps = [StateMap::open(Arc::new(operator.signature().maps[0].clone()), &[], KeyRange::ALL).unwrap()];
    let pass = Pass { kind: PassKind::Data, batch_time_ms: 0, late_ms: None, watermark_ms: None, begins: false };
    apply(
        &mut operator,
        &mut maps,
        &[one(1, Ask::Add, None), one(1, Ask::Remove, None), one(2, Ask::Look, None)],
        &pass,
    );
    assert!(maps[0].delta().unwrap().is_none());
    assert_eq!(operator.metrics().rows_removed, 0);
}

#[test]
fn an_event_time_column_must_be_a_time() {
    let spec = KeyedFunctionSpec {
        name: "counting".into(),
        key: vec!["key".into()],
        input: input_schema(),
        values: Some(vec!["ask".into()]),
        state: Fields::from(vec![Field::new("state", DataType::Int64, true)]),
        output: output_schema(),
        timeout: Timeout::EventTime(1),
        event_time: Some("ask".into()),
        late: LateRows::Keep,
    };
    let text = |spec| KeyedFunctionOperator::new(spec, Counting).err().unwrap().to_string();
    assert!(text(spec.clone()).contains("reads event time from column `ask`, which is bigint"));
    assert!(text(KeyedFunctionSpec { event_time: None, ..spec }).contains("times out by event time"));
}

#[test]
fn a_row_is_late_to_the_microsecond() {
    let mut operator = operator(Timeout::EventTime(5), LateRows::TakeOut);
    let pass =
        Pass { kind: PassKind::Data, batch_time_ms: 0, late_ms: Some(-1), watermark_ms: Some(-1), begins: false };
    let rows = [one(1, Ask::Add, Some(-1000)), one(2, Ask::Add, Some(-999)), one(3, Ask::Add, None)];
    let prepared = operator.prepare(&input(&rows), &pass, Combine::Split).unwrap();
    assert_eq!(prepared.late.unwrap().iter().collect::<Vec<_>>(), [true, false, false]);
    let times = prepared.rows.column(1).as_primitive::<TimestampMicrosecondType>();
    assert_eq!(times.iter().collect::<Vec<_>>(), [Some(-999), None]);
}

fn seeded(operator: &KeyedFunctionOperator<Counting>) -> [StateMap; 1] {
    let mut map = StateMap::open(Arc::new(operator.signature().maps[0].clone()), &[], KeyRange::ALL).unwrap();
    map.change(&Changes {
        keys: vec![Arc::new(Int64Array::from(vec![Some(1), None]))],
        values: vec![Arc::new(Int64Array::from(vec![10, 20]))],
        updated_at: vec![-1; 2],
        deadline: vec![None; 2],
        deleted: vec![false; 2],
        ..Changes::default()
    })
    .unwrap();
    [map]
}

#[test]
fn an_initial_state_counts_as_updated_in_the_first_batch() {
    let mut operator = operator(Timeout::BatchTime(5), LateRows::Keep);
    let mut maps = seeded(&operator);
    let first = Pass { kind: PassKind::Data, batch_time_ms: 7, late_ms: None, watermark_ms: None, begins: true };
    let out = apply(&mut operator, &mut maps, &[one(1, Ask::Add, None)], &first);
    assert_eq!(out.num_rows(), 1);
    assert_eq!(live(&maps[0]), [(None, (20, 7, Some(13))), (Some(1), (11, 7, Some(13)))].into());
}

#[test]
fn by_event_time_an_initial_state_waits_for_the_watermark_and_is_armed_by_it() {
    let mut operator = operator(Timeout::EventTime(5), LateRows::TakeOut);
    let mut maps = seeded(&operator);
    let first = Pass { kind: PassKind::Data, batch_time_ms: 7, late_ms: Some(0), watermark_ms: Some(0), begins: true };
    apply(&mut operator, &mut maps, &[], &first);
    assert_eq!(live(&maps[0])[&None], (20, -1, Some(1)));
    let moved = Pass { kind: PassKind::Due, batch_time_ms: 8, watermark_ms: Some(100), begins: false, ..first };
    assert_eq!(apply(&mut operator, &mut maps, &[], &moved).num_rows(), 0);
    assert_eq!(live(&maps[0]), [(None, (20, 8, Some(106))), (Some(1), (10, 8, Some(106)))].into());
    let mut later = seeded(&operator);
    apply(&mut operator, &mut later, &[], &Pass { watermark_ms: Some(100), late_ms: Some(100), ..first });
    assert_eq!(live(&later[0])[&None], (20, 7, Some(106)));
}
