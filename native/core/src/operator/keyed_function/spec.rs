//! The declaration of a keyed function.

use std::sync::Arc;

use arrow_schema::{DataType, Field, Fields, SchemaRef};

use crate::error::Result;
use crate::operator::columns::InputColumn;
use crate::operator::exchange::{needed_event_time, shown_columns};

/// The column that distinguishes a state from a deadline without a state.
const EXISTS: &str = "_exists";

/// When a key without data times out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timeout {
    /// Never.
    Never,
    /// When batch time is more than this many ms after the batch time of its last data.
    BatchTime(i64),
    /// When the watermark passes its latest event time by more than this many ms.
    EventTime(i64),
    /// When batch time reaches the deadline that the function armed for the key.
    ArmedByBatchTime,
    /// When the watermark reaches the deadline that the function armed for the key.
    ArmedByEventTime,
}

impl Timeout {
    /// Whether the function arms deadlines itself. A key can then have a deadline and no state.
    #[must_use]
    pub fn is_armed(self) -> bool {
        matches!(self, Self::ArmedByBatchTime | Self::ArmedByEventTime)
    }

    /// Whether deadlines are in event time.
    #[must_use]
    pub fn is_by_event_time(self) -> bool {
        matches!(self, Self::EventTime(_) | Self::ArmedByEventTime)
    }
}

/// How late rows are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LateRows {
    /// `prepare` removes them.
    TakeOut,
    /// They reach the function. No deadline is set before the late bound.
    Keep,
}

/// The declaration of a keyed function.
#[derive(Clone, Debug)]
pub struct KeyedFunctionSpec {
    /// The operator's name, for messages.
    pub name: String,
    /// Key columns.
    pub key: Vec<String>,
    /// The columns of its input.
    pub input: SchemaRef,
    /// The columns that the function gets; `None`: all except hidden ones.
    pub values: Option<Vec<String>>,
    /// The columns of the state.
    pub state: Fields,
    /// The columns of the rows that it emits.
    pub output: SchemaRef,
    /// When a key times out.
    pub timeout: Timeout,
    /// The event time column; required if `timeout` uses event time.
    pub event_time: Option<String>,
    /// How late rows are treated.
    pub late: LateRows,
}

impl KeyedFunctionSpec {
    /// Return the columns that the function gets: the declared ones, or all except hidden ones.
    #[must_use]
    pub fn value_columns(&self) -> Vec<String> {
        self.values.clone().unwrap_or_else(|| shown_columns(&self.input))
    }

    /// Return the input column `name` as it is exchanged; `InvalidInput` if it is missing.
    pub fn column(&self, name: &str) -> Result<Field> {
        Ok(InputColumn::find(&self.name, &self.input, name)?.field())
    }

    /// Return the event time column, if timeouts use it.
    pub(super) fn event_time_column(&self) -> Result<Option<InputColumn>> {
        if !self.timeout.is_by_event_time() {
            return Ok(None);
        }
        needed_event_time(&self.name, &self.input, self.event_time.as_deref(), "times out by").map(Some)
    }

    /// Return the columns of the map: those of the state, then, if the function arms deadlines, whether there is a
    /// state.
    pub(super) fn map_columns(&self) -> Fields {
        let marker = self.timeout.is_armed().then(|| Arc::new(Field::new(EXISTS, DataType::Boolean, true)));
        self.state.iter().cloned().chain(marker).collect()
    }
}
