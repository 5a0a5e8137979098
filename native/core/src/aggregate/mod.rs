//! Aggregate functions by group: the list of functions, their types, and the accumulators that compute them.
//!
//! Keys, maps and passes are in `operator`. INVARIANT: an accumulator folds values in the order given and with the same
//! steps, so float sums are equal to the last bit however the rows were split over tasks.

mod by;
mod compare;
mod count;
mod distinct;
mod extreme;
mod mean;
mod moments;
mod number;
mod pick;
mod set;
mod sum;
mod types;

use arrow_array::ArrayRef;
use arrow_schema::{DataType, Field};

use crate::ddl::ddl;
use crate::error::{Error, Result};
use crate::schema::{has_map, is_key_type};

/// A function of the rows of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    /// The number of rows, or of values that are not null.
    Count,
    /// The sum of values that are not null.
    Sum,
    /// The least value that is not null.
    Min,
    /// The greatest value that is not null; NaN is greater than any number.
    Max,
    /// The mean of values that are not null.
    Mean,
    /// The value of the first row, null or not.
    First,
    /// The value of the last row, null or not.
    Last,
    /// The value of the row whose other column is least; of equal rows the last.
    MinBy,
    /// The value of the row whose other column is greatest; of equal rows the last.
    MaxBy,
    /// The value of the row whose other column is least; of equal rows the first.
    Earliest,
    /// The sample variance.
    Variance,
    /// The sample standard deviation.
    Deviation,
    /// The approximate number of distinct values that are not null, from a sketch of 2^this registers.
    ApproximateCount(u32),
    /// The distinct values that are not null, up to this many, the first ones.
    CollectSet(u32),
}

impl Function {
    const ALL: [(&'static str, Self); 14] = [
        ("count", Self::Count),
        ("sum", Self::Sum),
        ("min", Self::Min),
        ("max", Self::Max),
        ("mean", Self::Mean),
        ("first", Self::First),
        ("last", Self::Last),
        ("min_by", Self::MinBy),
        ("max_by", Self::MaxBy),
        ("earliest", Self::Earliest),
        ("var", Self::Variance),
        ("stddev", Self::Deviation),
        ("approx_count_distinct", Self::ApproximateCount(0)),
        ("collect_set", Self::CollectSet(0)),
    ];

    /// Return the function called `name`. `parameter` is its precision or limit, for the functions that have one.
    pub fn named(name: &str, parameter: Option<u32>) -> Result<Self> {
        let known = || Self::ALL.iter().map(|(known, _)| *known).collect::<Vec<&str>>().join(", ");
        let found = Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, function)| *function);
        let found = found.ok_or_else(|| {
            Error::InvalidInput(format!("there is no aggregate function `{name}`, expected one of {}", known()))
        })?;
        match (found, parameter) {
            (Self::ApproximateCount(_), Some(precision)) if distinct::PRECISIONS.contains(&precision) => {
                Ok(Self::ApproximateCount(precision))
            }
            (Self::CollectSet(_), Some(limit)) if limit > 0 => Ok(Self::CollectSet(limit)),
            (Self::ApproximateCount(_) | Self::CollectSet(_), _) | (_, Some(_)) => Err(Error::InvalidInput(format!(
                "the aggregate function `{name}` does not accept the parameter {parameter:?}; `approx_count_distinct` \
                 needs a precision of {} to {}, `collect_set` a limit above 0, and other functions have no parameter",
                distinct::PRECISIONS.start(),
                distinct::PRECISIONS.end()
            ))),
            _ => Ok(found),
        }
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        let is_same = |other: &Self| std::mem::discriminant(other) == std::mem::discriminant(&self);
        Self::ALL.iter().find(|(_, function)| is_same(function)).map_or("", |(name, _)| name)
    }
}

/// One aggregate: a function over a column or over rows, and the name of its output.
#[derive(Clone, Debug)]
pub struct Aggregate {
    /// The output column.
    pub output: String,
    /// The function.
    pub function: Function,
    /// The type of the input column; `None` counts rows. For two columns, value and order, it is their struct.
    pub input: Option<DataType>,
    /// Operator, function and column, for messages.
    pub label: String,
}

/// Folds one aggregate for several groups.
pub(crate) trait Accumulator: Send {
    /// Set the number of groups, which never decreases. New groups have folded nothing.
    fn grow(&mut self, groups: usize);

    /// Fold input rows: row i belongs to `groups[i]`. `values` is `None` for a count of rows.
    fn update(&mut self, values: Option<&ArrayRef>, groups: &[u32]) -> Result<()>;

    /// Fold partial rows, with the columns of `Aggregate::partial_fields`. A missing partial is null in all of them.
    fn merge(&mut self, partials: &[ArrayRef], groups: &[u32]) -> Result<()>;

    /// Return the partial of each group.
    fn partials(&self) -> Result<Vec<ArrayRef>>;

    /// Return the result of each group.
    fn result(&self) -> Result<ArrayRef>;
}

impl std::fmt::Debug for dyn Accumulator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Accumulator")
    }
}

impl Aggregate {
    /// Check that the function accepts its input type; otherwise `InvalidInput`.
    pub fn check(&self) -> Result<()> {
        self.result_type().map(|_| ())
    }

    /// Return the type of the output column, as in Spark.
    pub fn result_type(&self) -> Result<DataType> {
        let Some(input) = &self.input else {
            return match self.function {
                Function::Count => Ok(DataType::Int64),
                _ => Err(Error::InvalidInput(format!("{} needs a column; only `count` can count rows", self.label))),
            };
        };
        match self.function {
            Function::Count => Ok(DataType::Int64),
            Function::Sum => types::sum(input).ok_or_else(|| self.unfit("a number", input)),
            Function::Mean => types::mean(input).ok_or_else(|| self.unfit("a number", input)),
            Function::Min | Function::Max if compare::is_ordered(input) => Ok(input.clone()),
            Function::Min | Function::Max => Err(self.unfit("a type that has an order", input)),
            Function::First | Function::Last => Ok(input.clone()),
            Function::MinBy | Function::MaxBy | Function::Earliest => {
                let (value, order) = self.pair(input)?;
                if compare::is_ordered(order) {
                    Ok(value.clone())
                } else {
                    Err(self.unfit("a type that has an order", order))
                }
            }
            Function::ApproximateCount(_) if distinct::is_hashed(input) => Ok(DataType::Int64),
            Function::CollectSet(_) if is_key_type(input) && !has_map(input) => Ok(set::set_of(input)),
            Function::CollectSet(_) => Err(self.unfit("a type that has no map in it", input)),
            Function::ApproximateCount(_) => {
                Err(self.unfit("a boolean, number, decimal, string, binary, date or timestamp", input))
            }
            Function::Variance | Function::Deviation => {
                types::sum(input).map(|_| DataType::Float64).ok_or_else(|| self.unfit("a number", input))
            }
        }
    }

    /// Return the columns of a partial, all nullable.
    pub fn partial_fields(&self) -> Result<Vec<Field>> {
        let result = self.result_type()?;
        let field = |suffix: &str, data_type: DataType| Field::new(format!("{}{suffix}", self.output), data_type, true);
        Ok(match (self.function, &self.input) {
            (Function::Mean, Some(input)) => {
                let sum = types::sum_of_mean(input).ok_or_else(|| self.unfit("a number", input))?;
                vec![field(".sum", sum), field(".count", DataType::Int64)]
            }
            (Function::MinBy | Function::MaxBy | Function::Earliest, Some(input)) => {
                let (value, order) = self.pair(input)?;
                vec![field("", value.clone()), field(by::ORDER, order.clone())]
            }
            (Function::Variance | Function::Deviation, _) => {
                moments::PARTIALS.map(|suffix| field(suffix, DataType::Float64)).to_vec()
            }
            (Function::ApproximateCount(_), _) => vec![field("", DataType::Binary)],
            (Function::First | Function::Last, _) => vec![field("", result), field(".set", DataType::Boolean)],
            _ => vec![field("", result)],
        })
    }

    /// Return an accumulator for `groups` groups that have folded nothing.
    pub(crate) fn accumulator(&self, groups: usize) -> Result<Box<dyn Accumulator>> {
        let result = self.result_type()?;
        let label = self.label.clone();
        Ok(match (self.function, &self.input) {
            (Function::Count, _) | (_, None) => Box::new(count::Count::new(groups)),
            (Function::Sum, Some(_)) => sum::accumulator(label, &result, groups)?,
            (Function::Mean, Some(input)) => mean::accumulator(label, input, &result, groups)?,
            (Function::Min, Some(_)) => extreme::accumulator(extreme::Least, result, groups),
            (Function::Max, Some(_)) => extreme::accumulator(extreme::Greatest, result, groups),
            (Function::First, Some(_)) => Box::new(pick::Edge::first(&result, groups)),
            (Function::Last, Some(_)) => Box::new(pick::Edge::last(&result, groups)),
            (Function::MinBy, Some(input)) => Box::new(by::By::least(&result, self.pair(input)?.1, groups)),
            (Function::MaxBy, Some(input)) => Box::new(by::By::greatest(&result, self.pair(input)?.1, groups)),
            (Function::Earliest, Some(input)) => Box::new(by::By::first_least(&result, self.pair(input)?.1, groups)),
            (Function::ApproximateCount(precision), Some(_)) => {
                Box::new(distinct::ApproximateCount::new(precision, groups))
            }
            (Function::CollectSet(limit), Some(input)) => Box::new(set::Set::new(input, limit as usize, groups)),
            (Function::Variance, Some(_)) => Box::new(moments::Moments::new(moments::Spread::Variance, groups)),
            (Function::Deviation, Some(_)) => Box::new(moments::Moments::new(moments::Spread::Deviation, groups)),
        })
    }

    /// Return the types of value and order.
    fn pair<'a>(&self, input: &'a DataType) -> Result<(&'a DataType, &'a DataType)> {
        match input {
            DataType::Struct(fields) if fields.len() == 2 => Ok((fields[0].data_type(), fields[1].data_type())),
            _ => Err(Error::InvalidInput(format!(
                "{} needs two columns: a value, and the column to choose it by",
                self.label
            ))),
        }
    }

    fn unfit(&self, expected: &str, found: &DataType) -> Error {
        Error::InvalidInput(format!("{} needs a column of {expected}, found {}", self.label, ddl(found)))
    }
}
