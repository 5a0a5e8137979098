//! Running aggregates by key. State of a key is one row of partials; each pass emits a row for every key it touched.
//!
//! INVARIANT: of a key the state is folded first, then its partials in chunk order, then row order.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{Field, Fields, Schema, SchemaRef};

use super::columns::{InputColumn, check_chunk, keys_of, map_of};
use super::groups::Groups;
use super::{Combine, Metrics, Operator, Output, Pass, Prepared};
use crate::aggregate::{Accumulator, Aggregate, Function};
use crate::error::{Error, Result};
use crate::key::Keys;
use crate::map::{Changes, StateMap};
use crate::schema::MapSchema;

/// The name of the map: key → partials.
const MAP: &str = "partials";

/// Running aggregates as declared.
#[derive(Clone, Debug)]
pub struct AggregateSpec {
    /// The operator's name, for messages.
    pub name: String,
    /// Key columns.
    pub key: Vec<String>,
    /// The columns of its input.
    pub input: SchemaRef,
    /// (output column, function, input column or `None` for a count of rows).
    pub functions: Vec<(String, Function, Option<String>)>,
}

/// Running aggregates at work.
#[derive(Debug)]
pub struct AggregateOperator {
    name: String,
    key: Vec<InputColumn>,
    aggregates: Vec<Part>,
    maps: [MapSchema; 1],
    prepared: SchemaRef,
    output: SchemaRef,
    metrics: Metrics,
}

/// One aggregate, its input, and where its partial stands among all partial columns.
#[derive(Debug)]
struct Part {
    aggregate: Aggregate,
    column: Option<InputColumn>,
    partials: std::ops::Range<usize>,
}

impl AggregateOperator {
    /// The operator; `InvalidInput` for a column that is not there, a type that a function does not take, or two
    /// columns of one name.
    pub fn new(spec: &AggregateSpec) -> Result<Self> {
        let key = InputColumn::find_all(&spec.name, &spec.input, &spec.key)?;
        let key_fields: Fields = key.iter().map(InputColumn::field).collect();
        let (aggregates, partial_fields) = parts(spec)?;
        let value = Fields::from(partial_fields);
        let results = aggregates
            .iter()
            .map(|part| Ok(Arc::new(Field::new(&part.aggregate.output, part.aggregate.result_type()?, true))));
        let results = results.collect::<Result<Vec<_>>>()?;
        let output = joined(&spec.name, &key_fields, &results)?;
        let prepared = joined(&spec.name, &key_fields, &value)?;
        let map = map_of(&spec.name, MAP, &key_fields, &value)?;
        let name = spec.name.clone();
        Ok(Self { name, key, aggregates, maps: [map], prepared, output, metrics: Metrics::default() })
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
            self.merge(&mut accumulators, &chunk.columns()[self.key.len()..], numbers)?;
        }
        Ok(accumulators)
    }

    fn chunk_keys(&self, chunks: &[RecordBatch]) -> Result<Vec<Keys>> {
        let keys = chunks.iter().map(|chunk| {
            check_chunk(&self.name, &self.prepared, chunk)?;
            keys_of(&chunk.columns()[..self.key.len()], chunk.num_rows())
        });
        keys.collect()
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

    fn prepare(&mut self, rows: &RecordBatch, _pass: &Pass, combine: Combine) -> Result<Prepared> {
        let given = keys_of(&InputColumn::all_of(&self.key, &self.name, rows)?, rows.num_rows())?;
        let (keys, numbers) = match combine {
            Combine::Nothing => (given, one_by_one(rows.num_rows())),
            Combine::Block => {
                let mut groups = Groups::new(std::slice::from_ref(&given))?;
                (groups.keys, groups.of.remove(0))
            }
        };
        let mut columns = keys.columns().to_vec();
        for (mut accumulator, part) in self.accumulators(keys.len())?.into_iter().zip(&self.aggregates) {
            let values = part.column.as_ref().map(|column| column.of(&self.name, rows)).transpose()?;
            accumulator.update(values.as_ref(), &numbers)?;
            columns.extend(accumulator.partials()?);
        }
        self.metrics.rows += rows.num_rows() as u64;
        Ok(Prepared { rows: RecordBatch::try_new(self.prepared.clone(), columns)?, late: None })
    }

    fn apply(&mut self, chunks: &[RecordBatch], maps: &mut [StateMap], pass: &Pass, out: &mut Output) -> Result<()> {
        let [map] = maps else {
            return Err(Error::InternalError(format!("operator `{}` keeps one map, not {}", self.name, maps.len())));
        };
        let groups = Groups::new(&self.chunk_keys(chunks)?)?;
        if groups.is_empty() {
            return Ok(());
        }
        let accumulators = self.fold(&groups, chunks, map)?;
        let rows = groups.len();
        let keys = groups.keys.columns().to_vec();
        let partials = accumulators.iter().map(|accumulator| accumulator.partials()).collect::<Result<Vec<_>>>()?;
        let results = accumulators.iter().map(|accumulator| accumulator.result()).collect::<Result<Vec<_>>>()?;
        map.change(&Changes {
            keys: keys.clone(),
            sub_keys: Vec::new(),
            values: partials.concat(),
            updated_at: vec![pass.batch_time_ms; rows],
            deadline: vec![None; rows],
            deleted: vec![false; rows],
        })?;
        self.metrics.rows += chunks.iter().map(|chunk| chunk.num_rows() as u64).sum::<u64>();
        self.metrics.rows_updated += rows as u64;
        let columns = [keys, results].concat();
        out.emit(groups.keys, RecordBatch::try_new(self.output.clone(), columns)?)
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
    for (output, function, column) in &spec.functions {
        let column = column.as_ref().map(|column| InputColumn::find(&spec.name, &spec.input, column)).transpose()?;
        let of = column.as_ref().map_or_else(|| "rows".to_owned(), |column| format!("column `{}`", column.name));
        let aggregate = Aggregate {
            output: output.clone(),
            function: *function,
            input: column.as_ref().map(|column| column.data_type.clone()),
            label: format!("operator `{}`: `{output}`, the {} of {of},", spec.name, function.name()),
        };
        let partial = aggregate.partial_fields()?;
        let start = fields.len();
        fields.extend(partial);
        parts.push(Part { aggregate, column, partials: start..fields.len() });
    }
    Ok((parts, fields))
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
