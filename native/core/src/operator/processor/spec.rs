//! A processor as declared: its variables, its clock, and which columns are sent through the exchange.

use arrow_schema::{DataType, Field, Fields, SchemaRef};

use crate::error::{Error, Result};
use crate::operator::LateRows;
use crate::operator::columns::InputColumn;
use crate::operator::event_time::event_time_column;
use crate::operator::keyed_function::is_hidden;
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
        self.input.fields().iter().map(|field| field.name().clone()).filter(|name| !is_hidden(name)).collect()
    }

    /// The column `name` of its input; `InvalidInput` where there is none.
    pub fn column(&self, name: &str) -> Result<Field> {
        Ok(InputColumn::find(&self.name, &self.input, name)?.field())
    }

    /// One map for each variable, then that of the timers, then, where there is one, that of the initial state.
    pub(super) fn maps(&self, key: &Fields) -> Result<Vec<MapSchema>> {
        let expiry = Fields::from(vec![Field::new(EXPIRY, DataType::Int64, true)]);
        let variable = |one: &Variable| MapSchema::new(&one.map, key, &one.sub_key, &one.value);
        let timers = MapSchema::new(TIMERS, key, &expiry, &Fields::empty());
        let row = Fields::from(vec![Field::new(ROW, DataType::Int64, true)]);
        let initial = self.initial.as_ref().map(|state| MapSchema::new(INITIAL, key, &row, state));
        let maps = self.variables.iter().map(variable).chain([timers]).chain(initial).collect::<Result<_>>();
        maps.map_err(|error| match error {
            Error::InvalidInput(text) => Error::InvalidInput(format!("operator `{}`: {text}", self.name)),
            other => other,
        })
    }

    /// The event time column, where timers go by it.
    pub(super) fn event_time_column(&self) -> Result<Option<InputColumn>> {
        match (self.time_mode, &self.event_time) {
            (TimeMode::EventTime, Some(name)) => event_time_column(&self.name, &self.input, name).map(Some),
            (TimeMode::EventTime, None) => Err(Error::InvalidInput(format!(
                "operator `{}` has timers of event time, its input has no event time column\n\
                 hint: call `.withWatermark(column, delay)` before `.groupBy`",
                self.name
            ))),
            _ => Ok(None),
        }
    }

    /// What is sent: key columns, then the event time, then the columns that the processor is given, each once.
    pub(super) fn sent_columns(&self) -> Result<Vec<InputColumn>> {
        let event_time = self.event_time_column()?.map(|column| column.name);
        let mut sent: Vec<InputColumn> = Vec::new();
        for name in self.key.iter().cloned().chain(event_time).chain(self.value_columns()) {
            if sent.iter().all(|column| column.name != name) {
                sent.push(InputColumn::find(&self.name, &self.input, &name)?);
            }
        }
        Ok(sent)
    }
}
