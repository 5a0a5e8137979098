//! The columns that operators over whole rows send through the exchange: key columns, then the event time, then the
//! other columns that they need, each once. These operators call a user's function, or deduplicate. Late rows are
//! removed first.

use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::{Fields, Schema, SchemaRef};

use super::columns::InputColumn;
use super::event_time::{event_time_column, without_late};
use super::{LateRows, Pass, Prepared};
use crate::error::{Error, Result};

/// Columns that are exchanged but hidden from functions.
const HIDDEN: [&str; 2] = ["_row", "_metadata"];

/// Return the columns of an operator's input that a function gets by default.
pub(super) fn shown_columns(input: &Schema) -> Vec<String> {
    let names = input.fields().iter().map(|field| field.name());
    names.filter(|name| !HIDDEN.contains(&name.as_str())).cloned().collect()
}

/// Return all columns of an operator's input.
pub(super) fn column_names(input: &Schema) -> Vec<String> {
    input.fields().iter().map(|field| field.name().clone()).collect()
}

/// Return the event time column `name`, which the action `what` needs; `InvalidInput` if it is missing or
/// not a time.
pub(super) fn needed_event_time(operator: &str, input: &Schema, name: Option<&str>, what: &str) -> Result<InputColumn> {
    let Some(name) = name else {
        return Err(Error::InvalidInput(format!(
            "operator `{operator}` {what} event time, but its input has no event time column\n\
             hint: call `.withWatermark(column, delay)` upstream of it"
        )));
    };
    event_time_column(operator, input, name)
}

/// The columns to exchange, and how to prepare rows for that.
#[derive(Debug)]
pub(super) struct ExchangeColumns {
    columns: Vec<InputColumn>,
    /// The place of the event time among the columns, if rows can be late.
    pub(super) event_time: Option<usize>,
    pub(super) schema: SchemaRef,
    late: LateRows,
}

impl ExchangeColumns {
    /// Choose the key columns, the event time if rows can be late, and the other columns that are needed (`values`).
    pub(super) fn new(
        operator: &str,
        input: &Schema,
        (key, values): (&[String], &[String]),
        event_time: Option<&InputColumn>,
        late: LateRows,
    ) -> Result<Self> {
        let mut columns: Vec<InputColumn> = Vec::new();
        for name in key.iter().chain(event_time.map(|column| &column.name)).chain(values) {
            if columns.iter().all(|column| column.name != *name) {
                columns.push(InputColumn::find(operator, input, name)?);
            }
        }
        let place = |time: &InputColumn| columns.iter().position(|column| column.name == time.name);
        let event_time = event_time.and_then(place);
        let schema = Arc::new(Schema::new(columns.iter().map(InputColumn::field).collect::<Fields>()));
        Ok(Self { columns, event_time, schema, late })
    }

    /// Return the rows to exchange, without late rows. Rows are not combined.
    pub(super) fn prepare(&self, operator: &str, rows: &RecordBatch, pass: &Pass) -> Result<Prepared> {
        let columns = InputColumn::all_of(&self.columns, operator, rows)?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        let sent = RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)?;
        let late_ms = if self.late == LateRows::TakeOut { pass.late_ms } else { None };
        let (rows, late) = without_late(sent, self.event_time, late_ms)?;
        Ok(Prepared { rows, late, made_of: None })
    }
}
