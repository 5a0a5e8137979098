//! The aggregates of an operator: their declaration, input columns, and partial columns.
//!
//! Keys, windows and maps are in the modules of the operators.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, StructArray};
use arrow_schema::{DataType, Field, Fields, Schema, SchemaRef};

use super::columns::InputColumn;
use super::combiner::Values;
use crate::aggregate::{Accumulator, Aggregate, Function};
use crate::error::{Error, Result};

/// The declaration of one aggregate.
#[derive(Clone, Debug)]
pub struct Call {
    /// The output column.
    pub output: String,
    /// The function.
    pub function: Function,
    /// The input column, or `None` for a count of rows.
    pub column: Option<String>,
    /// The column by which a value is chosen, for functions with two columns.
    pub by: Option<String>,
}

/// All aggregates of an operator.
#[derive(Debug)]
pub(super) struct Aggregates {
    parts: Vec<BoundAggregate>,
    partials: Vec<Field>,
}

/// One aggregate, its input columns, and the places of its partial columns.
#[derive(Debug)]
struct BoundAggregate {
    aggregate: Aggregate,
    column: Option<InputColumn>,
    by: Option<InputColumn>,
    partials: Range<usize>,
}

/// One accumulator for each aggregate.
pub(super) type Accumulators = Vec<Box<dyn Accumulator>>;

impl Aggregates {
    /// Bind the aggregates of `operator`; `InvalidInput` for a missing column, or for a type that is not accepted.
    pub(super) fn new(operator: &str, input: &Schema, calls: &[Call]) -> Result<Self> {
        let (mut parts, mut partials) = (Vec::with_capacity(calls.len()), Vec::new());
        for call in calls {
            let part = BoundAggregate::new(operator, input, call, partials.len())?;
            partials.extend(part.aggregate.partial_fields()?);
            parts.push(BoundAggregate { partials: part.partials.start..partials.len(), ..part });
        }
        Ok(Self { parts, partials })
    }

    /// Return the columns of all partials.
    pub(super) fn partial_fields(&self) -> Fields {
        self.partials.iter().cloned().collect()
    }

    /// Return the columns of all results.
    pub(super) fn result_fields(&self) -> Result<Vec<Arc<Field>>> {
        let field = |part: &BoundAggregate| {
            Ok(Arc::new(Field::new(&part.aggregate.output, part.aggregate.result_type()?, true)))
        };
        self.parts.iter().map(field).collect()
    }

    /// Return accumulators for `groups` groups that have folded nothing.
    pub(super) fn accumulators(&self, groups: usize) -> Result<Accumulators> {
        self.parts.iter().map(|part| part.aggregate.accumulator(groups)).collect()
    }

    /// Return the input of each aggregate in `rows`; `None` if it counts rows.
    pub(super) fn values(&self, operator: &str, rows: &RecordBatch) -> Result<Values> {
        self.parts.iter().map(|part| part.values(operator, rows)).collect()
    }

    /// Return the partial columns of chunks of input rows, given their `values` and the group of each row, below
    /// `groups`.
    pub(super) fn partials_of(&self, groups: usize, values: &[Values], numbers: &[Vec<u32>]) -> Result<Vec<ArrayRef>> {
        let mut accumulators = self.accumulators(groups)?;
        for (values, numbers) in values.iter().zip(numbers) {
            update(&mut accumulators, groups, values, numbers)?;
        }
        partials_of(&accumulators)
    }

    /// Fold partial rows: row i of `partials` belongs to `groups[i]`.
    pub(super) fn merge(&self, into: &mut Accumulators, partials: &[ArrayRef], groups: &[u32]) -> Result<()> {
        for (accumulator, part) in into.iter_mut().zip(&self.parts) {
            accumulator.merge(&partials[part.partials.clone()], groups)?;
        }
        Ok(())
    }
}

impl BoundAggregate {
    /// Bind the aggregate; its first partial column is number `start`.
    fn new(operator: &str, input: &Schema, call: &Call, start: usize) -> Result<Self> {
        let find = |column: &Option<String>| {
            column.as_ref().map(|column| InputColumn::find(operator, input, column)).transpose()
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
            label: format!("operator `{operator}`: `{}`, the {} of {of},", call.output, call.function.name()),
        };
        Ok(Self { aggregate, column, by, partials: start..start })
    }

    /// Return the input of the function in `rows`: nothing, a column, or two columns as a struct.
    fn values(&self, operator: &str, rows: &RecordBatch) -> Result<Option<ArrayRef>> {
        let Some(column) = &self.column else { return Ok(None) };
        let values = column.of(operator, rows)?;
        let Some(by) = &self.by else { return Ok(Some(values)) };
        let pair = StructArray::try_new(pair_fields(column, by), vec![values, by.of(operator, rows)?], None)?;
        Ok(Some(Arc::new(pair)))
    }
}

/// Fold a chunk of input rows, given their `values` and the group of each row, below `groups`.
pub(super) fn update(into: &mut Accumulators, groups: usize, values: &Values, numbers: &[u32]) -> Result<()> {
    for (accumulator, values) in into.iter_mut().zip(values) {
        accumulator.grow(groups);
        accumulator.update(values.as_ref(), numbers)?;
    }
    Ok(())
}

/// Return the partial columns of each group.
pub(super) fn partials_of(accumulators: &Accumulators) -> Result<Vec<ArrayRef>> {
    let partials = accumulators.iter().map(|accumulator| accumulator.partials()).collect::<Result<Vec<_>>>()?;
    Ok(partials.concat())
}

/// Return group i for row i.
#[expect(clippy::cast_possible_truncation, reason = "rows of a batch are numbered by u32")]
pub(super) fn one_by_one(rows: usize) -> Vec<u32> {
    (0..rows as u32).collect()
}

/// Return a value and the column to choose it by as the fields of one struct.
fn pair_fields(value: &InputColumn, by: &InputColumn) -> Fields {
    let field = |(name, column): (&str, &InputColumn)| Field::new(name, column.data_type.clone(), true);
    [("value", value), ("by", by)].into_iter().map(field).collect()
}

/// Return key columns, then `more`; `InvalidInput` for two with one name.
pub(super) fn joined(operator: &str, key: &Fields, more: &[Arc<Field>]) -> Result<SchemaRef> {
    let fields: Vec<Arc<Field>> = key.iter().chain(more).cloned().collect();
    for (place, field) in fields.iter().enumerate() {
        if fields[..place].iter().any(|other| other.name() == field.name()) {
            return Err(Error::InvalidInput(format!(
                "operator `{operator}` has two columns named `{}`; the names of outputs and key columns must be unique",
                field.name()
            )));
        }
    }
    Ok(Arc::new(Schema::new(fields)))
}
