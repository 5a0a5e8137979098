//! A keyed function as declared, and what follows from it.

use std::sync::Arc;

use arrow_schema::{DataType, Field, Fields, SchemaRef};

use crate::error::Result;
use crate::operator::columns::InputColumn;
use crate::operator::exchange::{needed_event_time, shown_columns};

/// The column that tells a state from a deadline without one.
const EXISTS: &str = "_exists";

/// When a key without data times out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timeout {
    /// Never.
    Never,
    /// This many ms of batch time after its last data.
    BatchTime(i64),
    /// When the watermark passes its latest event time by more than this many ms.
    EventTime(i64),
    /// When batch time has come to the deadline that the function armed for it.
    ArmedByBatchTime,
    /// When the watermark has come to the deadline that the function armed for it.
    ArmedByEventTime,
}

impl Timeout {
    /// Whether the function arms each key's deadline. Then a key may have a deadline and no state.
    #[must_use]
    pub fn is_armed(self) -> bool {
        matches!(self, Self::ArmedByBatchTime | Self::ArmedByEventTime)
    }

    /// Whether deadlines are those of event time.
    #[must_use]
    pub fn is_by_event_time(self) -> bool {
        matches!(self, Self::EventTime(_) | Self::ArmedByEventTime)
    }
}

/// What is done with late rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LateRows {
    /// `prepare` takes them out.
    TakeOut,
    /// They reach the function; no deadline is set before the late bound.
    Keep,
}

/// A keyed function as declared.
#[derive(Clone, Debug)]
pub struct KeyedFunctionSpec {
    /// The operator's name, for messages.
    pub name: String,
    /// Key columns.
    pub key: Vec<String>,
    /// The columns of its input.
    pub input: SchemaRef,
    /// The columns that the function is given; `None`: all but hidden ones.
    pub values: Option<Vec<String>>,
    /// The columns of the state.
    pub state: Fields,
    /// The columns of what it emits.
    pub output: SchemaRef,
    /// When a key times out.
    pub timeout: Timeout,
    /// The event time column; needed where `timeout` is by event time.
    pub event_time: Option<String>,
    /// What is done with late rows.
    pub late: LateRows,
}

impl KeyedFunctionSpec {
    /// The columns that the function is given: the declared ones, else all but hidden ones.
    #[must_use]
    pub fn value_columns(&self) -> Vec<String> {
        self.values.clone().unwrap_or_else(|| shown_columns(&self.input))
    }

    /// The column `name` of its input, as it is sent; `InvalidInput` where there is none.
    pub fn column(&self, name: &str) -> Result<Field> {
        Ok(InputColumn::find(&self.name, &self.input, name)?.field())
    }

    /// The event time column, where the timeout goes by it.
    pub(super) fn event_time_column(&self) -> Result<Option<InputColumn>> {
        if !self.timeout.is_by_event_time() {
            return Ok(None);
        }
        needed_event_time(&self.name, &self.input, self.event_time.as_deref(), "times out by").map(Some)
    }

    /// The columns of the map: those of the state, and where deadlines are armed, whether there is a state.
    pub(super) fn map_columns(&self) -> Fields {
        let marker = self.timeout.is_armed().then(|| Arc::new(Field::new(EXISTS, DataType::Boolean, true)));
        self.state.iter().cloned().chain(marker).collect()
    }
}
