//! A processor as declared: its variables, its clock, and its maps.

use arrow_schema::{DataType, Field, Fields, SchemaRef};

use crate::error::Result;
use crate::operator::LateRows;
use crate::operator::columns::{InputColumn, map_in};
use crate::operator::exchange::{needed_event_time, shown_columns};
use crate::schema::MapSchema;

/// The name of the map of timers.
const TIMERS: &str = "timers";
/// Its sub-key: when the timer is due, ms since the epoch.
const EXPIRY: &str = "expiry_ms";
/// The name of the map of the initial state, which the first batch empties.
const INITIAL: &str = "initial";
/// Its sub-key: which row of the initial state.
const ROW: &str = "row";

/// What timers and time to live go by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeMode {
    /// There are neither.
    None,
    /// Batch time.
    ProcessingTime,
    /// The watermark; values live for ever.
    EventTime,
}

/// One variable of a processor, which has a map of its own.
#[derive(Clone, Debug)]
pub struct Variable {
    /// The name of its map.
    pub map: String,
    /// What tells its rows of one key apart: nothing, a position, the user's key.
    pub sub_key: Fields,
    /// The columns of a value.
    pub value: Fields,
    /// How long a row lives after it was written; `None`: for ever.
    pub ttl_ms: Option<i64>,
}

/// A processor as declared.
#[derive(Clone, Debug)]
pub struct ProcessorSpec {
    /// The operator's name, for messages.
    pub name: String,
    /// Key columns.
    pub key: Vec<String>,
    /// The columns of its input.
    pub input: SchemaRef,
    /// Its variables.
    pub variables: Vec<Variable>,
    /// The columns of the initial state beside the key; `None`: there is none.
    pub initial: Option<Fields>,
    /// What timers and time to live go by.
    pub time_mode: TimeMode,
    /// The event time column; needed where `time_mode` is event time.
    pub event_time: Option<String>,
    /// What is done with late rows.
    pub late: LateRows,
    /// The columns of what it emits.
    pub output: SchemaRef,
    /// The column of its output that is the event time of what reads it.
    pub output_event_time: Option<String>,
}

impl ProcessorSpec {
    /// The columns of the rows that the processor is given: all but hidden ones.
    #[must_use]
    pub fn value_columns(&self) -> Vec<String> {
        shown_columns(&self.input)
    }

    /// The column `name` of its input; `InvalidInput` where there is none.
    pub fn column(&self, name: &str) -> Result<Field> {
        Ok(InputColumn::find(&self.name, &self.input, name)?.field())
    }

    /// One map for each variable, then that of the timers, then, where there is one, that of the initial state.
    pub(super) fn maps(&self, key: &Fields) -> Result<Vec<MapSchema>> {
        let expiry = Fields::from(vec![Field::new(EXPIRY, DataType::Int64, true)]);
        let map = |map: &str, sub_key: &Fields, value: &Fields| map_in(&self.name, map, key, sub_key, value);
        let variable = |one: &Variable| map(&one.map, &one.sub_key, &one.value);
        let timers = map(TIMERS, &expiry, &Fields::empty());
        let row = Fields::from(vec![Field::new(ROW, DataType::Int64, true)]);
        let initial = self.initial.as_ref().map(|state| map(INITIAL, &row, state));
        self.variables.iter().map(variable).chain([timers]).chain(initial).collect()
    }

    /// The event time column, where timers go by it.
    pub(super) fn event_time_column(&self) -> Result<Option<InputColumn>> {
        if self.time_mode != TimeMode::EventTime {
            return Ok(None);
        }
        needed_event_time(&self.name, &self.input, self.event_time.as_deref(), "has timers of").map(Some)
    }
}
