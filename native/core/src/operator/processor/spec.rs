//! The declaration of a processor: its variables, its time mode, and its maps.

use arrow_schema::{DataType, Field, Fields, SchemaRef};

use crate::error::Result;
use crate::operator::LateRows;
use crate::operator::columns::{InputColumn, map_in};
use crate::operator::exchange::{needed_event_time, shown_columns};
use crate::schema::MapSchema;

/// The name of the map of timers.
const TIMERS: &str = "timers";
/// The sub-key of a timer: when it is due, ms since the epoch.
const EXPIRY: &str = "expiry_ms";
/// The name of the map of the initial state. The first batch empties it.
const INITIAL: &str = "initial";
/// The sub-key of a row of the initial state: its number.
const ROW: &str = "row";

/// The clock of timers and time to live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeMode {
    /// No timers and no time to live.
    None,
    /// Batch time.
    ProcessingTime,
    /// The watermark, for timers. Values never expire.
    EventTime,
}

/// One variable of a processor, which has its own map.
#[derive(Clone, Debug)]
pub struct Variable {
    /// The name of its map.
    pub map: String,
    /// What distinguishes its rows of one key: nothing, a position, or the user's map key.
    pub sub_key: Fields,
    /// The columns of a value.
    pub value: Fields,
    /// How long a row lives after it was written, ms; `None`: for ever.
    pub ttl_ms: Option<i64>,
}

/// The declaration of a processor.
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
    /// The columns of the initial state besides the key; `None`: there is no initial state.
    pub initial: Option<Fields>,
    /// The clock of timers and time to live.
    pub time_mode: TimeMode,
    /// The event time column; required if `time_mode` is event time.
    pub event_time: Option<String>,
    /// How late rows are treated.
    pub late: LateRows,
    /// The columns of the rows that it emits.
    pub output: SchemaRef,
    /// The output column that downstream operators use as event time.
    pub output_event_time: Option<String>,
}

impl ProcessorSpec {
    /// Return the columns of the rows that the processor gets: all except hidden ones.
    #[must_use]
    pub fn value_columns(&self) -> Vec<String> {
        shown_columns(&self.input)
    }

    /// Return the input column `name`; `InvalidInput` if it is missing.
    pub fn column(&self, name: &str) -> Result<Field> {
        Ok(InputColumn::find(&self.name, &self.input, name)?.field())
    }

    /// Return one map for each variable, then the map of timers, then the map of the initial state if declared.
    pub(super) fn maps(&self, key: &Fields) -> Result<Vec<MapSchema>> {
        let expiry = Fields::from(vec![Field::new(EXPIRY, DataType::Int64, true)]);
        let map = |map: &str, sub_key: &Fields, value: &Fields| map_in(&self.name, map, key, sub_key, value);
        let variable = |one: &Variable| map(&one.map, &one.sub_key, &one.value);
        let timers = map(TIMERS, &expiry, &Fields::empty());
        let row = Fields::from(vec![Field::new(ROW, DataType::Int64, true)]);
        let initial = self.initial.as_ref().map(|state| map(INITIAL, &row, state));
        self.variables.iter().map(variable).chain([timers]).chain(initial).collect()
    }

    /// Return the event time column, if timers use it.
    pub(super) fn event_time_column(&self) -> Result<Option<InputColumn>> {
        if self.time_mode != TimeMode::EventTime {
            return Ok(None);
        }
        needed_event_time(&self.name, &self.input, self.event_time.as_deref(), "has timers of").map(Some)
    }
}
