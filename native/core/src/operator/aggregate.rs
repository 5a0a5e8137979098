//! Running aggregates by key, and by window. State of a key is one row of partials; each pass emits a row for every key
//! it touched, or, for windows that are emitted at their end, for every window that is over.
//!
//! INVARIANT: of a key the state is folded first, then its partials in chunk order, then row order.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, StructArray};
use arrow_buffer::BooleanBuffer;
use arrow_schema::{DataType, Field, Fields, Schema, SchemaRef};

use super::columns::{InputColumn, chunk_keys, keys_of, map_of, only_map};
use super::groups::Groups;
use super::window::{Assigned, Ends, WindowSpec, Windows};
use super::{Combine, Metrics, Operator, Output, Pass, Prepared};
use crate::aggregate::{Accumulator, Aggregate, Function};
use crate::error::{Error, Result};
use crate::key::Keys;
use crate::map::{Changes, StateMap};
use crate::schema::MapSchema;

/// The name of the map: key → partials.
const MAP: &str = "partials";

/// One aggregate as declared.
#[derive(Clone, Debug)]
pub struct Call {
    /// The output column.
    pub output: String,
    /// The function.
    pub function: Function,
    /// The input column, or `None` for a count of rows.
    pub column: Option<String>,
    /// The column that a value is chosen by, for functions of two.
    pub by: Option<String>,
}

/// Running aggregates as declared.
#[derive(Clone, Debug)]
pub struct AggregateSpec {
    /// The operator's name, for messages.
    pub name: String,
    /// Key columns.
    pub key: Vec<String>,
    /// The columns of its input.
    pub input: SchemaRef,
    /// What is computed.
    pub functions: Vec<Call>,
    /// The windows by which rows are grouped beside their key.
    pub window: Option<WindowSpec>,
}

/// Running aggregates at work.
#[derive(Debug)]
pub struct AggregateOperator {
    name: String,
    key: Vec<InputColumn>,
    windows: Option<Windows>,
    aggregates: Vec<Part>,
    maps: [MapSchema; 1],
    prepared: SchemaRef,
    output: SchemaRef,
    metrics: Metrics,
}

/// What a pass made of the keys that it touched.
struct Folded {
    keys: Keys,
    accumulators: Vec<Box<dyn Accumulator>>,
}

/// One aggregate, its input, and where its partial stands among all partial columns.
#[derive(Debug)]
struct Part {
    aggregate: Aggregate,
    column: Option<InputColumn>,
    by: Option<InputColumn>,
    partials: std::ops::Range<usize>,
}

impl Part {
    /// What the function is given of `rows`: nothing, a column, or two as a struct.
    fn values(&self, operator: &str, rows: &RecordBatch) -> Result<Option<ArrayRef>> {
        let Some(column) = &self.column else { return Ok(None) };
        let values = column.of(operator, rows)?;
        let Some(by) = &self.by else { return Ok(Some(values)) };
        let pair = StructArray::try_new(pair_fields(column, by), vec![values, by.of(operator, rows)?], None)?;
        Ok(Some(Arc::new(pair)))
    }
}

impl AggregateOperator {
    /// The operator; `InvalidInput` for a column that is not there, a type that a function does not take, or two
    /// columns of one name.
    pub fn new(spec: &AggregateSpec) -> Result<Self> {
        let key = InputColumn::find_all(&spec.name, &spec.input, &spec.key)?;
        let windows = spec.window.as_ref().map(|window| Windows::new(&spec.name, &spec.input, window)).transpose()?;
        let (mut key_fields, mut shown_fields): (Vec<_>, Vec<_>) =
            key.iter().map(|column| (column.field(), column.field())).unzip();
        if let Some(windows) = &windows {
            key_fields.insert(windows.place(), windows.key_field());
            shown_fields.insert(windows.place(), windows.output_field());
        }
        let (key_fields, shown_fields) = (Fields::from(key_fields), Fields::from(shown_fields));
        let (aggregates, partial_fields) = parts(spec)?;
        let value = Fields::from(partial_fields);
        let results = aggregates
            .iter()
            .map(|part| Ok(Arc::new(Field::new(&part.aggregate.output, part.aggregate.result_type()?, true))));
        let results = results.collect::<Result<Vec<_>>>()?;
        let output = joined(&spec.name, &shown_fields, &results)?;
        let prepared = joined(&spec.name, &key_fields, &value)?;
        let map = map_of(&spec.name, MAP, &key_fields, &value)?;
        let name = spec.name.clone();
        Ok(Self { name, key, windows, aggregates, maps: [map], prepared, output, metrics: Metrics::default() })
    }

    /// How many columns a key has, a window's start too.
    fn key_width(&self) -> usize {
        self.maps[0].key.len()
    }

    /// Rows with their windows, without those that fall into none that is open.
    fn assign(&self, rows: &RecordBatch, pass: &Pass) -> Result<(RecordBatch, Keys, Option<BooleanBuffer>)> {
        let Some(windows) = &self.windows else {
            let keys = keys_of(&InputColumn::all_of(&self.key, &self.name, rows)?, rows.num_rows())?;
            return Ok((rows.clone(), keys, None));
        };
        let Assigned { rows, starts, outside } = windows.assign(&self.name, rows, pass.late_ms)?;
        let mut columns = InputColumn::all_of(&self.key, &self.name, &rows)?;
        columns.insert(windows.place(), starts);
        let keys = keys_of(&columns, rows.num_rows())?;
        Ok((rows, keys, outside))
    }

    fn emit(&self, keys: Keys, accumulators: &[Box<dyn Accumulator>], out: &mut Output) -> Result<()> {
        let mut columns = keys.columns().to_vec();
        if let Some(windows) = &self.windows {
            columns[windows.place()] = windows.shown(&columns[windows.place()])?;
        }
        for accumulator in accumulators {
            columns.push(accumulator.result()?);
        }
        out.emit(keys, RecordBatch::try_new(self.output.clone(), columns)?)
    }

    fn update(&mut self, groups: Groups, chunks: &[RecordBatch], map: &mut StateMap, at_ms: i64) -> Result<Folded> {
        let accumulators = self.fold(&groups, chunks, map)?;
        let rows = groups.len();
        let keys = groups.keys.columns().to_vec();
        let partials = accumulators.iter().map(|accumulator| accumulator.partials()).collect::<Result<Vec<_>>>()?;
        let deadline = match &self.windows {
            None => vec![None; rows],
            Some(windows) => windows.deadlines(&keys[windows.place()])?,
        };
        map.change(&Changes {
            keys,
            sub_keys: Vec::new(),
            values: partials.concat(),
            updated_at: vec![at_ms; rows],
            deadline,
            deleted: vec![false; rows],
        })?;
        self.metrics.rows += chunks.iter().map(|chunk| chunk.num_rows() as u64).sum::<u64>();
        self.metrics.rows_updated += rows as u64;
        Ok(Folded { keys: groups.keys, accumulators })
    }

    /// Forgets the windows that are over, and emits them where that is when they are.
    fn close(&mut self, ends: Ends, map: &mut StateMap, pass: &Pass, out: &mut Output) -> Result<()> {
        let Some(now_ms) = pass.watermark_ms else { return Ok(()) };
        let due = map.due(now_ms)?;
        let rows = due.updated_at.len();
        if rows == 0 {
            return Ok(());
        }
        if ends == Ends::Emitted {
            let mut accumulators = self.accumulators(rows)?;
            self.merge(&mut accumulators, &due.values, &one_by_one(rows))?;
            self.emit(keys_of(&due.keys, rows)?, &accumulators, out)?;
        }
        self.metrics.rows_removed += rows as u64;
        map.change(&Changes::removed(due.keys, due.values, rows, pass.batch_time_ms))
    }

    fn accumulators(&self, groups: usize) -> Result<Vec<Box<dyn Accumulator>>> {
        self.aggregates.iter().map(|part| part.aggregate.accumulator(groups)).collect()
    }

    fn merge(&self, into: &mut [Box<dyn Accumulator>], partials: &[ArrayRef], groups: &[u32]) -> Result<()> {
        for (accumulator, part) in into.iter_mut().zip(&self.aggregates) {
            accumulator.merge(&partials[part.partials.clone()], groups)?;
        }
        Ok(())
    }

    /// State first, then the chunks.
    fn fold(&self, groups: &Groups, chunks: &[RecordBatch], map: &StateMap) -> Result<Vec<Box<dyn Accumulator>>> {
        let mut accumulators = self.accumulators(groups.len())?;
        let state = map.get(&groups.keys)?;
        self.merge(&mut accumulators, &state.values, &one_by_one(groups.len()))?;
        for (chunk, numbers) in chunks.iter().zip(&groups.of) {
            self.merge(&mut accumulators, &chunk.columns()[self.key_width()..], numbers)?;
        }
        Ok(accumulators)
    }
}

impl Operator for AggregateOperator {
    fn maps(&self) -> &[MapSchema] {
        &self.maps
    }

    fn output_schema(&self) -> SchemaRef {
        self.output.clone()
    }

    fn prepared_schema(&self) -> SchemaRef {
        self.prepared.clone()
    }

    fn prepare(&mut self, rows: &RecordBatch, pass: &Pass, combine: Combine) -> Result<Prepared> {
        let (rows, given, late) = self.assign(rows, pass)?;
        let (keys, numbers) = match combine {
            Combine::Nothing => (given, one_by_one(rows.num_rows())),
            Combine::Block => {
                let mut groups = Groups::new(std::slice::from_ref(&given))?;
                (groups.keys, groups.of.remove(0))
            }
        };
        let mut columns = keys.columns().to_vec();
        for (mut accumulator, part) in self.accumulators(keys.len())?.into_iter().zip(&self.aggregates) {
            let values = part.values(&self.name, &rows)?;
            accumulator.update(values.as_ref(), &numbers)?;
            columns.extend(accumulator.partials()?);
        }
        self.metrics.rows += rows.num_rows() as u64;
        Ok(Prepared { rows: RecordBatch::try_new(self.prepared.clone(), columns)?, late })
    }

    fn apply(&mut self, chunks: &[RecordBatch], maps: &mut [StateMap], pass: &Pass, out: &mut Output) -> Result<()> {
        let map = only_map(&self.name, maps)?;
        let groups = Groups::new(&chunk_keys(&self.name, &self.prepared, self.key_width(), chunks)?)?;
        let ends = self.windows.as_ref().map_or(Ends::Never, Windows::ends);
        if !groups.is_empty() {
            let folded = self.update(groups, chunks, map, pass.batch_time_ms)?;
            if ends != Ends::Emitted {
                self.emit(folded.keys, &folded.accumulators, out)?;
            }
        }
        if ends == Ends::Never { Ok(()) } else { self.close(ends, map, pass, out) }
    }

    fn metrics(&self) -> Metrics {
        self.metrics
    }
}

/// Group i for row i.
#[expect(clippy::cast_possible_truncation, reason = "rows of a batch are numbered by u32")]
fn one_by_one(rows: usize) -> Vec<u32> {
    (0..rows as u32).collect()
}

fn parts(spec: &AggregateSpec) -> Result<(Vec<Part>, Vec<Field>)> {
    let (mut parts, mut fields) = (Vec::with_capacity(spec.functions.len()), Vec::new());
    for call in &spec.functions {
        let find = |column: &Option<String>| {
            column.as_ref().map(|column| InputColumn::find(&spec.name, &spec.input, column)).transpose()
        };
        let (column, by) = (find(&call.column)?, find(&call.by)?);
        let names: Vec<&str> = column.iter().chain(&by).map(|column| column.name.as_str()).collect();
        let of = if names.is_empty() { "rows".to_owned() } else { format!("column `{}`", names.join("`, `")) };
        let input = match (&column, &by) {
            (Some(column), Some(by)) => Some(DataType::Struct(pair_fields(column, by))),
            (column, _) => column.as_ref().map(|column| column.data_type.clone()),
        };
        let aggregate = Aggregate {
            output: call.output.clone(),
            function: call.function,
            input,
            label: format!("operator `{}`: `{}`, the {} of {of},", spec.name, call.output, call.function.name()),
        };
        let partial = aggregate.partial_fields()?;
        let start = fields.len();
        fields.extend(partial);
        parts.push(Part { aggregate, column, by, partials: start..fields.len() });
    }
    Ok((parts, fields))
}

/// A value and what it is chosen by, as one type.
fn pair_fields(value: &InputColumn, by: &InputColumn) -> Fields {
    let field = |(name, column): (&str, &InputColumn)| Field::new(name, column.data_type.clone(), true);
    [("value", value), ("by", by)].into_iter().map(field).collect()
}

fn joined(operator: &str, key: &Fields, more: &[Arc<Field>]) -> Result<SchemaRef> {
    let fields: Vec<Arc<Field>> = key.iter().chain(more).cloned().collect();
    for (place, field) in fields.iter().enumerate() {
        if fields[..place].iter().any(|other| other.name() == field.name()) {
            return Err(Error::InvalidInput(format!(
                "operator `{operator}` has two columns named `{}`; names of outputs and key columns must differ",
                field.name()
            )));
        }
    }
    Ok(Arc::new(Schema::new(fields)))
}
