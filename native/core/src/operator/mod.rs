//! The interface of keyed operators: their input in a pass, the rows they exchange, and the rows they emit.
//!
//! Each operator is one module here. It sees rows, keys and state maps, but no versions, objects or Python. INVARIANT:
//! the result depends on the rows and their order, never on how a batch was split over tasks.

mod aggregate;
mod chunks;
mod columns;
mod combiner;
mod deduplicate;
mod event_time;
mod exchange;
mod groups;
mod key_time;
mod keyed_function;
mod output;
mod partials;
mod plan_order;
mod processor;
mod session;
#[cfg(test)]
mod tests;
mod touching;
mod window;

use arrow_array::{RecordBatch, UInt32Array};
use arrow_buffer::BooleanBuffer;
use arrow_schema::SchemaRef;

pub use aggregate::{AggregateOperator, AggregateSpec};
pub use chunks::Chunks;
pub use deduplicate::{DeduplicateOperator, DeduplicateSpec, Forget};
pub use groups::{Groups, RowAt};
pub use key_time::KeyTimeSpec;
pub use keyed_function::{
    Fate, KeyedFunction, KeyedFunctionOperator, KeyedFunctionSpec, LateRows, Returned, Timeout, Visit,
};
pub use output::{Ordered, Origin, Output, Place, Quarantined};
pub use partials::Call;
pub use plan_order::{Blocks, Places, in_plan_order, places_of};
pub use processor::{
    Answer, Cause, Processor, ProcessorOperator, ProcessorSpec, Stored, TimeMode, Variable, Visit as ProcessorVisit,
    Written,
};
pub use session::{SessionOperator, SessionSpec};
pub use window::{Cut, Ends, WindowSpec};

use crate::error::Result;
use crate::map::StateMap;
use crate::schema::MapSchema;

/// Which pass of a batch this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PassKind {
    /// The batch's rows, then deadlines that are due by the watermark of the last commit. A sweep has no rows.
    Data,
    /// Deadlines that are due because the rows of the batch moved the watermark.
    Due,
}

/// One pass of a batch, and its times.
#[derive(Clone, Copy, Debug)]
pub struct Pass {
    /// Data pass or due pass.
    pub kind: PassKind,
    /// "Now" in this batch.
    pub batch_time_ms: i64,
    /// Rows at or before this time are late; `None`: there is no watermark.
    pub late_ms: Option<i64>,
    /// The time with which event-time deadlines are compared; `None`: there is no watermark.
    pub watermark_ms: Option<i64>,
    /// Whether this is the operator's first batch, so that the maps may hold an initial state that no batch has
    /// handled.
    pub begins: bool,
}

/// How `prepare` may combine rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Combine {
    /// The rows are the next block of a split. Rows of one key may be folded into one, within the block or, if they are
    /// collected until `rest`, within the split.
    Split,
    /// The rows are outputs of an upstream operator. They are not combined and keep their order.
    Nothing,
}

/// What an operator sends through the exchange.
#[derive(Debug)]
pub struct Prepared {
    /// Rows with the columns `Signature::prepared`; empty if they are collected until `rest`.
    pub rows: RecordBatch,
    /// Which of the given rows were late and are not in `rows`; `None`: no row was.
    pub late: Option<BooleanBuffer>,
    /// With `Combine::Nothing`: for each of `rows`, the given row that it was made of, rising. `None`: each given row
    /// that was not late has one.
    pub made_of: Option<UInt32Array>,
}

/// Counters of an operator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Metrics {
    /// Rows received: those that `prepare` let pass, and those that `apply` folded.
    pub rows: u64,
    /// State rows written.
    pub rows_updated: u64,
    /// State rows removed, by the function or because they timed out.
    pub rows_removed: u64,
    /// Keys that timed out.
    pub timed_out: u64,
    /// Keys whose calls failed, whether for rows or for timeouts. Their rows were quarantined.
    pub failed: u64,
}

/// The name of an operator, its state maps, and the columns of its rows.
#[derive(Clone, Debug)]
pub struct Signature {
    /// The operator's name, for messages.
    pub name: String,
    /// The state maps that it keeps, in the order in which `Operator::apply` gets them.
    pub maps: Vec<MapSchema>,
    /// The columns of `Prepared::rows`: key columns first.
    pub prepared: SchemaRef,
    /// The columns of the rows that it emits.
    pub output: SchemaRef,
}

/// A keyed operator: `prepare` before the exchange, `apply` after it.
///
/// An operator with several inputs has one object for each input that prepares its rows. The key columns come first and
/// have the same types in all of them; the other columns may differ.
pub trait Operator: Send {
    /// Return the operator's name, state maps and columns. They never change.
    fn signature(&self) -> &Signature;

    /// Remove late rows, and combine rows as far as `combine` allows.
    fn prepare(&mut self, rows: &RecordBatch, pass: &Pass, combine: Combine) -> Result<Prepared>;

    /// Return the rows of a split that `prepare` has collected but not returned, if any. Called at the end of each
    /// split.
    fn rest(&mut self) -> Result<Option<RecordBatch>> {
        Ok(None)
    }

    /// Fold the prepared rows into the maps, in the order of the chunks, then fire what is due.
    ///
    /// After an error the maps hold a part of the pass, so the caller must drop them.
    fn apply(&mut self, chunks: &Chunks<'_>, maps: &mut [StateMap], pass: &Pass, out: &mut Output) -> Result<()>;

    /// Return the counters since the operator was created.
    fn metrics(&self) -> Metrics;
}
