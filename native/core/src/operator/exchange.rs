//! What operators over whole rows (of a user's function, or deduplicated) send through the exchange: key columns, then
//! the event time, then the other columns that are needed, each once. Late rows are taken out on the way.

use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::{Fields, Schema, SchemaRef};

use super::columns::InputColumn;
use super::event_time::{event_time_column, without_late};
use super::{LateRows, Pass, Prepared};
use crate::error::{Error, Result};

/// Columns that travel along hidden and are not shown to functions.
const HIDDEN: [&str; 2] = ["_row", "_metadata"];

/// The columns of an operator's input that a function is shown, where it names none.
pub(super) fn shown_columns(input: &Schema) -> Vec<String> {
    let names = input.fields().iter().map(|field| field.name());
    names.filter(|name| !HIDDEN.contains(&name.as_str())).cloned().collect()
}

/// All columns of an operator's input.
pub(super) fn column_names(input: &Schema) -> Vec<String> {
    input.fields().iter().map(|field| field.name().clone()).collect()
}

/// The event time column `name`, which `what` goes by; `InvalidInput` where there is none, or it is no time.
pub(super) fn needed_event_time(operator: &str, input: &Schema, name: Option<&str>, what: &str) -> Result<InputColumn> {
    let Some(name) = name else {
        return Err(Error::InvalidInput(format!(
            "operator `{operator}` {what} event time, its input has no event time column\n\
             hint: call `.withWatermark(column, delay)` before it"
        )));
    };
    event_time_column(operator, input, name)
}

/// What is sent, and how rows are made ready for that.
#[derive(Debug)]
pub(super) struct ExchangeColumns {
    columns: Vec<InputColumn>,
    /// Where among them the event time stands, if rows may be late.
    pub(super) event_time: Option<usize>,
    pub(super) schema: SchemaRef,
    late: LateRows,
}

impl ExchangeColumns {
    /// Key columns, the event time where rows may be late, and what is needed beside (`values`).
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

    /// The rows that are sent, without late ones; none is combined with another.
    pub(super) fn prepare(&self, operator: &str, rows: &RecordBatch, pass: &Pass) -> Result<Prepared> {
        let columns = InputColumn::all_of(&self.columns, operator, rows)?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        let sent = RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)?;
        let late_ms = if self.late == LateRows::TakeOut { pass.late_ms } else { None };
        let (rows, late) = without_late(sent, self.event_time, late_ms)?;
        Ok(Prepared { rows, late })
    }
}
