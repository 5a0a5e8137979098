//! Running aggregates by key, optionally by window. The state of a key is one row of partials. A pass emits a row for
//! each key that it touched, or for each key that has ended if keys are emitted at their end.
//!
//! INVARIANT: for each key, the state is folded first, then its partials in chunk order, then row order.

use arrow_array::cast::AsArray;
use arrow_array::{ArrayRef, RecordBatch, UInt32Array};
use arrow_buffer::BooleanBuffer;
use arrow_schema::{Fields, SchemaRef};
use arrow_select::take::take;

use super::columns::{InputColumn, chunk_keys, keys_of, map_of, only_map};
use super::combiner::{Combiner, Kept, Values};
use super::groups::Groups;
use super::key_time::{KeyTime, KeyTimeSpec};
use super::output::due_at;
use super::partials::{Accumulators, Aggregates, Call, joined, one_by_one, partials_of, update};
use super::window::{Assigned, Ends, WindowSpec, Windows};
use super::{Chunks, Combine, Metrics, Operator, Origin, Output, Pass, Prepared, Signature};
use crate::error::Result;
use crate::key::Keys;
use crate::map::StateMap;

/// The name of the map: key → partials.
const MAP: &str = "partials";

/// The declaration of running aggregates.
#[derive(Clone, Debug)]
pub struct AggregateSpec {
    /// The operator's name, for messages.
    pub name: String,
    /// Key columns.
    pub key: Vec<String>,
    /// The columns of its input.
    pub input: SchemaRef,
    /// The aggregates to compute.
    pub functions: Vec<Call>,
    /// The windows that group rows besides the key.
    pub window: Option<WindowSpec>,
    /// The key column that is the event time, if any is. Windows then have no end of their own.
    pub key_time: Option<KeyTimeSpec>,
}

/// Running aggregates in operation.
#[derive(Debug)]
pub struct AggregateOperator {
    signature: Signature,
    key: Vec<InputColumn>,
    windows: Option<Windows>,
    key_time: Option<KeyTime>,
    aggregates: Aggregates,
    combiner: Combiner,
    /// The rows in the combiner, folded as they arrived; `None` if their keys are not numbered yet.
    running: Option<Accumulators>,
    metrics: Metrics,
}

/// Rows with their keys: those of windows are repeated for each window.
struct OfKeys {
    rows: RecordBatch,
    keys: Keys,
    /// Which of the given rows are missing because their key has ended.
    late: Option<BooleanBuffer>,
    /// The given row that each was made of; `None`: each row that is not late.
    made_of: Option<UInt32Array>,
}

/// The keys that a pass touched, and their aggregates.
struct Folded {
    keys: Keys,
    accumulators: Accumulators,
}

impl AggregateOperator {
    /// Create the operator; `InvalidInput` for a missing column, a type that a function does not accept, or two columns
    /// with one name.
    pub fn new(spec: &AggregateSpec) -> Result<Self> {
        let key = InputColumn::find_all(&spec.name, &spec.input, &spec.key)?;
        let windows = spec.window.as_ref().map(|window| Windows::new(&spec.name, &spec.input, window)).transpose()?;
        let (mut key_fields, mut shown_fields): (Vec<_>, Vec<_>) =
            key.iter().map(|column| (column.field(), column.field())).unzip();
        let mut names: Vec<Option<&str>> = key.iter().map(|column| Some(column.name.as_str())).collect();
        if let Some(windows) = &windows {
            let (place, fields) = (windows.place(), windows.key_fields());
            names.splice(place..place, fields.iter().map(|_| None));
            key_fields.splice(place..place, fields);
            shown_fields.insert(windows.place(), windows.output_field());
        }
        let key_time = spec.key_time.as_ref();
        let key_time = key_time.map(|time| KeyTime::new(&spec.name, &spec.input, &names, time)).transpose()?;
        let aggregates = Aggregates::new(&spec.name, &spec.input, &spec.functions)?;
        let output = joined(&spec.name, &Fields::from(shown_fields), &aggregates.result_fields()?)?;
        let map = map_of(&spec.name, MAP, &Fields::from(key_fields), &aggregates.partial_fields())?;
        let signature = Signature { name: spec.name.clone(), prepared: map.own_columns(), maps: vec![map], output };
        let (combiner, metrics) = (Combiner::default(), Metrics::default());
        Ok(Self { signature, key, windows, key_time, aggregates, combiner, running: None, metrics })
    }

    /// Limit the rows and bytes that the combiner collects.
    #[cfg(test)]
    pub(super) fn with_combiner_limits(&mut self, rows: usize, bytes: usize) {
        self.combiner = Combiner::new(super::combiner::Limits { rows, bytes });
    }

    /// How many key columns there are, including those of a window.
    fn key_width(&self) -> usize {
        self.signature.maps[0].key.len()
    }

    /// The places of the window's columns among the key columns.
    fn window_keys(&self, windows: &Windows) -> std::ops::Range<usize> {
        windows.place()..windows.place() + self.key_width() - self.key.len()
    }

    /// Add a block of rows to the combiner, and fold it if its keys are numbered already.
    fn keep(&mut self, keys: Keys, values: Values) -> Result<()> {
        self.combiner.add(keys, values, |block| {
            self.running = match (block, self.running.take()) {
                (None, _) => None, // the combiner sorts its rows later, and they are folded then
                (Some(block), running) => {
                    let mut running = running.map_or_else(|| self.aggregates.accumulators(0), Ok)?;
                    update(&mut running, block.keys, block.values, block.numbers)?;
                    Some(running)
                }
            };
            Ok(())
        })
    }

    /// Return the combined rows to exchange, in key order.
    fn combined(&mut self, kept: Kept) -> Result<RecordBatch> {
        let running = self.running.take();
        let (keys, partials) = match running.zip(kept.in_order()?) {
            Some((running, (keys, came))) => {
                let came = UInt32Array::from(came);
                let in_order = |partial: &ArrayRef| Ok(take(partial, &came, None)?);
                (keys, partials_of(&running)?.iter().map(in_order).collect::<Result<_>>()?)
            }
            None => {
                let (groups, values) = kept.grouped()?;
                let partials = self.aggregates.partials_of(groups.len(), &values, groups.numbers())?;
                (groups.keys, partials)
            }
        };
        Ok(RecordBatch::try_new(self.signature.prepared.clone(), [keys.columns(), &partials].concat())?)
    }

    /// Return rows with their keys.
    fn assign(&self, rows: &RecordBatch, pass: &Pass) -> Result<OfKeys> {
        let (rows, late) = match &self.key_time {
            None => (rows.clone(), None),
            Some(time) => time.open(&self.signature.name, rows, pass.late_ms)?,
        };
        let Some(windows) = &self.windows else {
            let keys = keys_of(&InputColumn::all_of(&self.key, &self.signature.name, &rows)?, rows.num_rows())?;
            return Ok(OfKeys { rows, keys, late, made_of: None });
        };
        let Assigned { rows, keys, outside, made_of } = windows.assign(&self.signature.name, &rows, pass.late_ms)?;
        let mut columns = InputColumn::all_of(&self.key, &self.signature.name, &rows)?;
        columns.splice(windows.place()..windows.place(), keys);
        let keys = keys_of(&columns, rows.num_rows())?;
        let made_of = match &late {
            None => made_of,
            Some(late) => {
                let open: UInt32Array =
                    (0u32..).zip(late).filter(|(_, is_late)| !is_late).map(|(row, _)| row).collect();
                take(&open, &made_of, None)?.as_primitive().clone()
            }
        };
        Ok(OfKeys { rows, keys, late: late_of_both(late, outside), made_of: Some(made_of) })
    }

    /// Return what happens at the end of a key.
    fn ends(&self) -> Ends {
        let by_window = self.windows.as_ref().map_or(Ends::Never, Windows::ends);
        self.key_time.as_ref().map_or(by_window, KeyTime::ends)
    }

    /// Return the first ms of the watermark at which each key ends; empty if keys never end.
    fn deadlines(&self, keys: &Keys) -> Result<Vec<Option<i64>>> {
        match (&self.key_time, &self.windows) {
            (Some(time), _) => time.deadlines(keys),
            (None, Some(windows)) => windows.deadlines(&keys.columns()[self.window_keys(windows)], keys.len()),
            (None, None) => Ok(Vec::new()),
        }
    }

    fn emit(&self, keys: Keys, accumulators: &Accumulators, origin: Origin, out: &mut Output) -> Result<()> {
        let mut columns = keys.columns().to_vec();
        if let Some(windows) = &self.windows {
            let place = self.window_keys(windows);
            let shown = windows.shown(&columns[place.clone()])?;
            columns.splice(place, [shown]);
        }
        for accumulator in accumulators {
            columns.push(accumulator.result()?);
        }
        out.emit(keys, RecordBatch::try_new(self.signature.output.clone(), columns)?, || origin)
    }

    fn update(&mut self, groups: Groups, chunks: &[RecordBatch], map: &mut StateMap, at_ms: i64) -> Result<Folded> {
        let accumulators = self.fold(&groups, chunks, map)?;
        let rows = groups.len();
        let deadline = self.deadlines(&groups.keys)?;
        map.put(groups.keys.clone(), partials_of(&accumulators)?, at_ms, deadline)?;
        self.metrics.rows += chunks.iter().map(|chunk| chunk.num_rows() as u64).sum::<u64>();
        self.metrics.rows_updated += rows as u64;
        Ok(Folded { keys: groups.keys, accumulators })
    }

    /// Forget the keys that have ended, and emit them if keys are emitted at their end.
    fn close(&mut self, ends: Ends, map: &mut StateMap, pass: &Pass, out: &mut Output) -> Result<()> {
        let Some(now_ms) = pass.watermark_ms else { return Ok(()) };
        let due = map.take_due(now_ms, pass.batch_time_ms)?;
        let rows = due.len();
        self.metrics.rows_removed += rows as u64;
        if ends == Ends::Emitted && rows > 0 {
            let mut accumulators = self.aggregates.accumulators(rows)?;
            self.aggregates.merge(&mut accumulators, &due.values, &one_by_one(rows))?;
            self.emit(keys_of(&due.keys, rows)?, &accumulators, due_at(&due.deadline), out)?;
        }
        Ok(())
    }

    /// Fold the state first, then the chunks.
    fn fold(&self, groups: &Groups, chunks: &[RecordBatch], map: &StateMap) -> Result<Accumulators> {
        let mut accumulators = self.aggregates.accumulators(groups.len())?;
        let state = map.values(&groups.keys)?;
        self.aggregates.merge(&mut accumulators, &state, &one_by_one(groups.len()))?;
        for (chunk, numbers) in chunks.iter().zip(groups.numbers()) {
            self.aggregates.merge(&mut accumulators, &chunk.columns()[self.key_width()..], numbers)?;
        }
        Ok(accumulators)
    }
}

impl Operator for AggregateOperator {
    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn prepare(&mut self, rows: &RecordBatch, pass: &Pass, combine: Combine) -> Result<Prepared> {
        let OfKeys { rows, keys, late, made_of } = self.assign(rows, pass)?;
        self.metrics.rows += rows.num_rows() as u64;
        let values = self.aggregates.values(&self.signature.name, &rows)?;
        let rows = match combine {
            Combine::Nothing => {
                let partials = self.aggregates.partials_of(keys.len(), &[values], &[one_by_one(keys.len())])?;
                RecordBatch::try_new(self.signature.prepared.clone(), [keys.columns(), &partials].concat())?
            }
            Combine::Split => {
                self.keep(keys, values)?;
                match self.combiner.take_if_full() {
                    Some(kept) => self.combined(kept)?,
                    None => RecordBatch::new_empty(self.signature.prepared.clone()),
                }
            }
        };
        Ok(Prepared { rows, late, made_of })
    }

    fn rest(&mut self) -> Result<Option<RecordBatch>> {
        self.combiner.take().map(|kept| self.combined(kept)).transpose()
    }

    fn apply(&mut self, chunks: &Chunks<'_>, maps: &mut [StateMap], pass: &Pass, out: &mut Output) -> Result<()> {
        let map = only_map(&self.signature, maps)?;
        let groups = Groups::new(&chunk_keys(&self.signature, chunks)?)?;
        let ends = self.ends();
        if !groups.is_empty() {
            let folded = self.update(groups, chunks, map, pass.batch_time_ms)?;
            if ends != Ends::Emitted {
                self.emit(folded.keys, &folded.accumulators, Origin::Keys, out)?;
            }
        }
        if ends == Ends::Never { Ok(()) } else { self.close(ends, map, pass, out) }
    }

    fn metrics(&self) -> Metrics {
        self.metrics
    }
}

/// Return the rows marked in `first`, or in `then`, which covers only the rows that `first` does not mark.
fn late_of_both(first: Option<BooleanBuffer>, then: Option<BooleanBuffer>) -> Option<BooleanBuffer> {
    let (Some(first), Some(then)) = (&first, &then) else { return first.or(then) };
    let mut left = then.iter();
    Some(first.iter().map(|marked| marked || left.next() == Some(true)).collect())
}
