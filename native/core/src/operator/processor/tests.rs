//! What the operator decides itself: the order of timers, which values have expired, and what is written. The processor
//! in these tests counts rows and reports its timers.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Fields, Schema, SchemaRef};

use super::{
    Answer, Cause, Chunks, Processor, ProcessorOperator, ProcessorSpec, Stored, TimeMode, Variable, Visit, Written,
};
use crate::operator::{Combine, LateRows, Operator, Output, Pass, PassKind};
use crate::{KeyRange, Result, StateMap};

/// Each row of a key adds one element, its number, and a timer at that number. A timer that fires removes one element
/// and emits (expiry, elements before).
struct Elements;

impl Processor for Elements {
    fn call(&mut self, visit: &Visit<'_>) -> Result<Answer> {
        let (elements, timers) = (&visit.stored[0], &visit.stored[1]);
        match visit.cause {
            Cause::Rows { chunks, rows, ends } => {
                let (mut keys, mut numbers, mut start) = (Vec::new(), Vec::new(), 0);
                for (key, &end) in (0u32..).zip(ends) {
                    for at in &rows[start..end] {
                        let column = chunks[at.chunk as usize].column(1).as_primitive::<Int64Type>();
                        keys.push(key);
                        numbers.push(column.value(at.row as usize));
                    }
                    start = end;
                }
                let put = |values: bool| Written {
                    removed: Vec::new(),
                    keys: keys.clone(),
                    sub_keys: vec![Arc::new(Int64Array::from(numbers.clone())) as ArrayRef],
                    values: if values { vec![Arc::new(Int64Array::from(numbers.clone()))] } else { Vec::new() },
                };
                answer(vec![put(true), put(false)], &[], &[], &[])
            }
            Cause::Initial { .. } => answer(vec![nothing(true), nothing(false)], &[], &[], &[]),
            Cause::Timers(fires) => {
                let expiries = timers.sub_keys[0].as_primitive::<Int64Type>();
                let removed = |stored: &Stored, limit: usize| -> Vec<usize> {
                    let fired = |&(key, _): &(u32, i64)| stored.rows_of(key as usize).take(limit);
                    let mut rows: Vec<usize> = fires.iter().flat_map(fired).collect();
                    rows.sort_unstable();
                    rows.dedup();
                    rows
                };
                let is_fired = |row: &usize| fires.iter().any(|fire| fire.1 == expiries.value(*row));
                let emitted: Vec<(i64, i64)> = fires
                    .iter()
                    .map(|&(key, expiry_ms)| (expiry_ms, elements.rows_of(key as usize).len() as i64))
                    .collect();
                let gone = removed(timers, usize::MAX).into_iter().filter(is_fired).collect();
                let of_elements = Written { removed: removed(elements, 1), ..nothing(true) };
                let by: Vec<u32> = fires.iter().map(|fire| fire.0).collect();
                let expiries: Vec<i64> = fires.iter().map(|fire| fire.1).collect();
                answer(vec![of_elements, Written { removed: gone, ..nothing(false) }], &emitted, &by, &expiries)
            }
        }
    }
}

fn nothing(has_value: bool) -> Written {
    let none = || Arc::new(Int64Array::from(Vec::<i64>::new())) as ArrayRef;
    Written { sub_keys: vec![none()], values: has_value.then(none).into_iter().collect(), ..Written::default() }
}

fn answer(written: Vec<Written>, emitted: &[(i64, i64)], by: &[u32], expiries_ms: &[i64]) -> Result<Answer> {
    let column = |take: fn(&(i64, i64)) -> i64| Arc::new(emitted.iter().map(take).collect::<Int64Array>()) as ArrayRef;
    let outputs = RecordBatch::try_new(output_schema(), vec![column(|one| one.0), column(|one| one.1)])?;
    Ok(Answer { written, outputs, emitted_by: by.to_vec(), expiries_ms: expiries_ms.to_vec(), failed: Vec::new() })
}

fn output_schema() -> SchemaRef {
    let field = |name: &str| Field::new(name, DataType::Int64, true);
    Arc::new(Schema::new(vec![field("expiry"), field("elements")]))
}

struct World {
    operator: ProcessorOperator<Elements>,
    maps: Vec<StateMap>,
}

impl World {
    fn new(time_mode: TimeMode, ttl_ms: Option<i64>) -> Result<Self> {
        let field = |name: &str| Field::new(name, DataType::Int64, true);
        let spec = ProcessorSpec {
            name: "elements".into(),
            key: vec!["key".into()],
            input: Arc::new(Schema::new(vec![field("key"), field("number")])),
            variables: vec![Variable {
                map: "var-elements".into(),
                sub_key: Fields::from(vec![field("position")]),
                value: Fields::from(vec![field("n")]),
                ttl_ms,
            }],
            initial: None,
            time_mode,
            event_time: None,
            late: LateRows::Keep,
            output: output_schema(),
            output_event_time: None,
        };
        let operator = ProcessorOperator::new(spec, Elements)?;
        let open = |schema: &crate::MapSchema| StateMap::open(Arc::new(schema.clone()), &[], KeyRange::ALL);
        let maps = operator.signature().maps.iter().map(open).collect::<Result<_>>()?;
        Ok(Self { operator, maps })
    }

    /// The emitted rows as (expiry, elements), in order.
    fn pass(&mut self, rows: &[(i64, i64)], kind: PassKind, now_ms: i64) -> Result<Vec<(i64, i64)>> {
        let pass = Pass { kind, batch_time_ms: now_ms, late_ms: None, watermark_ms: None, begins: false };
        let column = |take: fn(&(i64, i64)) -> i64| Arc::new(rows.iter().map(take).collect::<Int64Array>()) as ArrayRef;
        let given = RecordBatch::try_new(
            self.operator.signature().prepared.clone(),
            vec![column(|row| row.0), column(|row| row.1)],
        )?;
        let prepared = self.operator.prepare(&given, &pass, Combine::Split)?;
        let mut out = Output::new(output_schema());
        self.operator.apply(&Chunks::of_one_input(&[prepared.rows]), &mut self.maps, &pass, &mut out)?;
        let rows = out.into_rows()?;
        let columns = [0, 1].map(|column| rows.column(column).as_primitive::<Int64Type>().values().to_vec());
        Ok(columns[0].iter().copied().zip(columns[1].iter().copied()).collect())
    }

    fn sizes(&self) -> Vec<usize> {
        self.maps.iter().map(StateMap::len).collect()
    }
}

#[test]
fn timers_fire_when_due_and_are_removed() -> Result<()> {
    let mut world = World::new(TimeMode::ProcessingTime, None)?;
    assert!(world.pass(&[(1, 30), (1, 50), (1, 40)], PassKind::Data, 10)?.is_empty());
    assert_eq!(world.sizes(), [3, 3]);
    assert!(world.pass(&[], PassKind::Due, 60)?.is_empty(), "batch time fires in the data pass alone");
    assert_eq!(world.pass(&[], PassKind::Data, 40)?, [(30, 3), (40, 3)]);
    assert_eq!(world.pass(&[], PassKind::Data, 40)?, []);
    assert_eq!(world.sizes(), [2, 1]);
    assert_eq!(
        world.pass(&[(1, 45)], PassKind::Data, 60)?,
        [(45, 3), (50, 3)],
        "the timer was registered in this pass"
    );
    assert_eq!(world.sizes(), [2, 0]);
    Ok(())
}

#[test]
fn without_a_time_mode_nothing_fires() -> Result<()> {
    let mut world = World::new(TimeMode::None, None)?;
    world.pass(&[(1, 30)], PassKind::Data, 10)?;
    assert!(world.pass(&[], PassKind::Data, 1_000)?.is_empty());
    Ok(())
}

#[test]
fn expired_rows_are_neither_visible_nor_kept() -> Result<()> {
    let mut world = World::new(TimeMode::ProcessingTime, Some(10))?;
    world.pass(&[(1, 18), (2, 99)], PassKind::Data, 0)?;
    world.pass(&[(1, 19)], PassKind::Data, 5)?;
    assert_eq!(world.sizes(), [3, 3]);
    assert!(world.pass(&[], PassKind::Data, 9)?.is_empty());
    assert_eq!(world.sizes(), [3, 3], "alive to the last ms");
    assert!(world.pass(&[], PassKind::Data, 10)?.is_empty());
    assert_eq!(world.sizes(), [1, 3], "both rows of time 0 are removed, also for a key that was not visited");
    assert_eq!(world.pass(&[], PassKind::Data, 18)?, [(18, 0)], "a row that expires now is not visible");
    assert_eq!(world.sizes(), [0, 2]);
    Ok(())
}

#[test]
fn a_type_that_cannot_be_a_user_key_is_refused_by_name() {
    let field = |name: &str| Field::new(name, DataType::Int64, true);
    let list = DataType::List(Arc::new(Field::new("item", DataType::UInt8, true)));
    let spec = ProcessorSpec {
        name: "elements".into(),
        key: vec!["key".into()],
        input: Arc::new(Schema::new(vec![field("key")])),
        variables: vec![Variable {
            map: "var-tags".into(),
            sub_key: Fields::from(vec![Field::new("tags", list, true)]),
            value: Fields::from(vec![field("n")]),
            ttl_ms: None,
        }],
        initial: None,
        time_mode: TimeMode::None,
        event_time: None,
        late: LateRows::Keep,
        output: output_schema(),
        output_event_time: None,
    };
    let refused = ProcessorOperator::new(spec, Elements).map(|_| ()).map_err(|error| error.to_string());
    assert!(refused.is_err_and(|text| text.contains("`elements`") && text.contains("`tags`")));
}
