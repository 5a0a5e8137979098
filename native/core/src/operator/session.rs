//! Session windows: rows of a key whose times are no more than a gap apart. See Spark's `session_window`.
//!
//! A session starts at its first time and ends one gap after its last. Sessions that touch are merged. The state of a
//! key is a row for each open session, under its start. INVARIANT: for each session the state is folded first, then its
//! partials in chunk order, and those of a chunk by their start, however the rows were split over tasks.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::TimestampMicrosecondType;
use arrow_array::{ArrayRef, RecordBatch, StructArray, TimestampMicrosecondArray, UInt32Array};
use arrow_buffer::BooleanBuffer;
use arrow_schema::{DataType, Field, Fields, SchemaRef};
use arrow_select::take::{take, take_record_batch};

use super::columns::{InputColumn, chunk_keys, keys_of, map_in, only_map};
use super::combiner::{Combiner, Kept, Values};
use super::event_time::{expiry_ms, time_column, times_us};
use super::output::due_at;
use super::partials::{Accumulators, Aggregates, Call, joined, one_by_one};
use super::touching::{Piece, Touching};
use super::{Chunks, Combine, Groups, Metrics, Operator, Output, Pass, Prepared, Signature};
use crate::error::{Error, Result};
use crate::key::{Keys, word_order};
use crate::map::{Rows, StateMap, take_rows};

/// The name of the map: key, start → end and partials.
const MAP: &str = "sessions";
/// The sub-key: when a session starts.
const START: &str = "session_start";
/// The value column: when a session ends.
const END: &str = "session_end";
/// The output column with start and end.
const SHOWN: &str = "session_window";
const MS_US: i64 = 1_000;

/// The declaration of sessions.
#[derive(Clone, Debug)]
pub struct SessionSpec {
    /// The operator's name, for messages.
    pub name: String,
    /// Key columns.
    pub key: Vec<String>,
    /// The columns of its input.
    pub input: SchemaRef,
    /// The aggregates of each session.
    pub functions: Vec<Call>,
    /// The column whose time assigns rows to sessions. The watermark is over it.
    pub column: String,
    /// How long after its last row a session stays open.
    pub gap_us: i64,
    /// The place of the session among the key columns of the output.
    pub place: usize,
}

/// Sessions in operation.
#[derive(Debug)]
pub struct SessionOperator {
    signature: Signature,
    key: Vec<InputColumn>,
    time: InputColumn,
    time_type: DataType,
    gap_us: i64,
    place: usize,
    aggregates: Aggregates,
    /// Its values are those of the aggregates, then the times of the rows.
    combiner: Combiner,
    metrics: Metrics,
}

/// Rows of open sessions, with their times, and which of the given rows are not among them.
struct Open {
    rows: RecordBatch,
    times: TimestampMicrosecondArray,
    outside: Option<BooleanBuffer>,
}

/// The start and the end of some sessions.
struct Spans {
    starts: ArrayRef,
    ends: ArrayRef,
}

impl SessionOperator {
    /// Create the operator; `InvalidInput` for a missing column, a type that is not accepted, or two columns with one
    /// name.
    pub fn new(spec: &SessionSpec) -> Result<Self> {
        let name = spec.name.clone();
        let key = InputColumn::find_all(&name, &spec.input, &spec.key)?;
        let (time, time_type) = time_column(&name, &spec.input, &spec.column, "sessions")?;
        let at = |name: &str| Field::new(name, time_type.clone(), true);
        let aggregates = Aggregates::new(&name, &spec.input, &spec.functions)?;
        let key_fields: Fields = key.iter().map(InputColumn::field).collect();
        let value = with_first(at(END), &aggregates.partial_fields());
        let mut shown: Vec<Field> = key.iter().map(InputColumn::field).collect();
        shown.insert(spec.place, Field::new(SHOWN, DataType::Struct(span_fields(&time_type)), true));
        let output = joined(&name, &Fields::from(shown), &aggregates.result_fields()?)?;
        let map = map_in(&name, MAP, &key_fields, &Fields::from(vec![at(START)]), &value)?;
        let (gap_us, place) = (spec.gap_us, spec.place);
        let signature = Signature { name, prepared: map.own_columns(), maps: vec![map], output };
        let (combiner, metrics) = (Combiner::default(), Metrics::default());
        Ok(Self { signature, key, time, time_type, gap_us, place, aggregates, combiner, metrics })
    }

    /// Return the single-row sessions of rows at these times, in these groups.
    fn pieces_at<'a>(&self, groups: &'a [u32], times_us: &'a [i64]) -> impl Iterator<Item = Piece> + use<'a> {
        let gap_us = self.gap_us;
        let piece = move |(&group, &start_us)| Piece { group, start_us, end_us: start_us.saturating_add(gap_us) };
        groups.iter().zip(times_us).map(piece)
    }

    /// Return sessions as rows to exchange: keys, spans and partials. Row i of block b is part of session
    /// `numbers[b][i]`.
    fn prepared_rows(
        &self,
        keys: &Keys,
        sessions: &[Piece],
        values: &[Values],
        numbers: &[Vec<u32>],
    ) -> Result<RecordBatch> {
        let Spans { starts, ends } = self.spans(sessions);
        let mut columns = keys.columns().to_vec();
        columns.extend([starts, ends]);
        columns.extend(self.aggregates.partials_of(sessions.len(), values, numbers)?);
        Ok(RecordBatch::try_new(self.signature.prepared.clone(), columns)?)
    }

    /// Return the combined rows to exchange, one for each session.
    fn combined(&self, kept: Kept) -> Result<RecordBatch> {
        let (groups, values) = kept.grouped()?;
        let rows = groups.numbers();
        let mut pieces = Vec::with_capacity(rows.iter().map(Vec::len).sum());
        for (groups, values) in rows.iter().zip(&values) {
            let Some(Some(at)) = values.last() else {
                return Err(Error::InternalError(format!(
                    "operator `{}` combined rows without their times",
                    self.signature.name
                )));
            };
            pieces.extend(self.pieces_at(groups, times(at)));
        }
        let Touching { sessions, of } = Touching::new(groups.len(), &pieces);
        let mut of = of.into_iter().flatten();
        let numbers: Vec<Vec<u32>> = rows.iter().map(|rows| of.by_ref().take(rows.len()).collect()).collect();
        let chosen: Vec<u32> = sessions.iter().map(|session| session.group).collect();
        self.prepared_rows(&groups.keys.take(&chosen)?, &sessions, &values, &numbers)
    }

    /// Return the rows that have a time and whose own session has not ended.
    fn open_rows(&self, rows: &RecordBatch, pass: &Pass) -> Result<Open> {
        let times = times_us(self.time.of(&self.signature.name, rows)?.as_ref())?;
        let over_us = pass.late_ms.map_or(i64::MIN, |late_ms| late_ms.saturating_mul(MS_US));
        let is_open = |time_us: Option<i64>| time_us.is_some_and(|us| us.saturating_add(self.gap_us) > over_us);
        let outside: BooleanBuffer = times.iter().map(|time_us| !is_open(time_us)).collect();
        if outside.count_set_bits() == 0 {
            return Ok(Open { rows: rows.clone(), times, outside: None });
        }
        let picks: UInt32Array =
            (0u32..).zip(outside.iter()).filter(|(_, is_outside)| !is_outside).map(|(row, _)| row).collect();
        let times = take(&times, &picks, None)?.as_primitive().clone();
        Ok(Open { rows: take_record_batch(rows, &picks)?, times, outside: Some(outside) })
    }

    fn spans(&self, sessions: &[Piece]) -> Spans {
        let column = |time_us: fn(&Piece) -> i64| -> ArrayRef {
            let times = TimestampMicrosecondArray::from_iter_values(sessions.iter().map(time_us));
            Arc::new(times.with_data_type(self.time_type.clone()))
        };
        Spans { starts: column(|piece| piece.start_us), ends: column(|piece| piece.end_us) }
    }

    /// Merge the sessions of the state that rows of the pass touch with the sessions of the rows, and store the result.
    fn fold(&mut self, groups: &Groups, chunks: &[RecordBatch], map: &mut StateMap, at_ms: i64) -> Result<()> {
        let (state, ends) = map.of_keys(&groups.keys)?;
        let known = state.len();
        let merged =
            Touching::new(groups.len(), &self.pieces(&state, &ends, groups, chunks)).touched_from(known, word_order);
        let mut accumulators = self.aggregates.accumulators(merged.sessions.len())?;
        // If a session has several parts, the earlier part is folded first. The map has them in the order of their
        // bytes.
        let mut parts: Vec<(u32, u32)> =
            (0u32..).zip(&merged.of[..known]).filter_map(|(row, of)| of.map(|of| (row, of))).collect();
        let starts = if known == 0 { &[] } else { times(&state.sub_keys[0]) };
        parts.sort_by_key(|&(row, of)| (of, starts[row as usize]));
        let (old, numbers): (Vec<u32>, Vec<u32>) = parts.into_iter().unzip();
        let old_values = take_rows(&state.values, &old)?;
        self.aggregates.merge(&mut accumulators, &old_values[1..], &numbers)?;
        let mut next = known;
        for chunk in chunks {
            let numbers: Vec<u32> = merged.of[next..next + chunk.num_rows()].iter().flatten().copied().collect();
            next += chunk.num_rows();
            self.aggregates.merge(&mut accumulators, &chunk.columns()[self.key.len() + 2..], &numbers)?;
        }
        self.forget_moved(&state, &old, &merged, map, at_ms)?;
        self.put(groups, &merged, &accumulators, map, at_ms)
    }

    /// Return the sessions of the state, in the order of `state`, then those of the chunks.
    fn pieces(&self, state: &Rows, ends: &[usize], groups: &Groups, chunks: &[RecordBatch]) -> Vec<Piece> {
        let rows: usize = chunks.iter().map(RecordBatch::num_rows).sum();
        let mut pieces = Vec::with_capacity(state.len() + rows);
        let mut row = 0;
        for (group, &end) in (0u32..).zip(ends) {
            let spans = (times(&state.sub_keys[0]), times(&state.values[0]));
            pieces.extend((row..end).map(|row| Piece { group, start_us: spans.0[row], end_us: spans.1[row] }));
            row = end;
        }
        for (chunk, numbers) in chunks.iter().zip(groups.numbers()) {
            let width = self.key.len();
            let spans = times(chunk.column(width)).iter().zip(times(chunk.column(width + 1)));
            let piece = |(&group, (&start_us, &end_us)): (&u32, (&i64, &i64))| Piece { group, start_us, end_us };
            pieces.extend(numbers.iter().zip(spans).map(piece));
        }
        pieces
    }

    /// Remove sessions that were merged into one that starts earlier.
    fn forget_moved(
        &mut self,
        state: &Rows,
        old: &[u32],
        merged: &Touching,
        map: &mut StateMap,
        at_ms: i64,
    ) -> Result<()> {
        let starts = state.sub_keys.first().map_or(&[][..], times);
        let has_moved = |&row: &u32| {
            let session = merged.of[row as usize].map(|number| merged.sessions[number as usize].start_us);
            session.is_some_and(|start_us| start_us != starts[row as usize])
        };
        let moved: Vec<u32> = old.iter().copied().filter(has_moved).collect();
        self.metrics.rows_removed += moved.len() as u64;
        map.change(&state.take(&moved)?.removed(at_ms))
    }

    fn put(
        &mut self,
        groups: &Groups,
        merged: &Touching,
        accumulators: &Accumulators,
        map: &mut StateMap,
        at_ms: i64,
    ) -> Result<()> {
        let rows = merged.sessions.len();
        let numbers: Vec<u32> = merged.sessions.iter().map(|session| session.group).collect();
        let Spans { starts, ends } = self.spans(&merged.sessions);
        let deadline = expiry_ms(ends.as_ref(), 0)?.iter().collect();
        let mut values = vec![ends];
        for accumulator in accumulators {
            values.extend(accumulator.partials()?);
        }
        self.metrics.rows_updated += rows as u64;
        map.put(groups.keys.take(&numbers)?.with_sub_key(&starts)?, values, at_ms, deadline)
    }

    /// Emit the sessions that have ended, sorted by start for each key, and forget them.
    fn close(&mut self, map: &mut StateMap, pass: &Pass, out: &mut Output) -> Result<()> {
        let Some(now_ms) = pass.watermark_ms else { return Ok(()) };
        let due = map.take_due(now_ms, pass.batch_time_ms)?;
        let rows = due.len();
        if rows == 0 {
            return Ok(());
        }
        let due = due.take(&by_start(&keys_of(&due.keys, rows)?, times(&due.sub_keys[0])))?;
        let (keys, starts, values) = (keys_of(&due.keys, rows)?, &due.sub_keys, &due.values);
        let mut accumulators = self.aggregates.accumulators(rows)?;
        self.aggregates.merge(&mut accumulators, &values[1..], &one_by_one(rows))?;
        let span =
            StructArray::try_new(span_fields(&self.time_type), vec![starts[0].clone(), values[0].clone()], None)?;
        let mut columns = keys.columns().to_vec();
        columns.insert(self.place, Arc::new(span));
        for accumulator in &accumulators {
            columns.push(accumulator.result()?);
        }
        out.emit(keys, RecordBatch::try_new(self.signature.output.clone(), columns)?, || due_at(&due.deadline))?;
        self.metrics.rows_removed += rows as u64;
        Ok(())
    }
}

impl Operator for SessionOperator {
    fn signature(&self) -> &Signature {
        &self.signature
    }

    /// Remove rows whose own session has ended. If rows may be combined, combine the rows of each session.
    fn prepare(&mut self, rows: &RecordBatch, pass: &Pass, combine: Combine) -> Result<Prepared> {
        let Open { rows, times, outside } = self.open_rows(rows, pass)?;
        let keys = keys_of(&InputColumn::all_of(&self.key, &self.signature.name, &rows)?, rows.num_rows())?;
        let mut values = self.aggregates.values(&self.signature.name, &rows)?;
        self.metrics.rows += rows.num_rows() as u64;
        let rows = match combine {
            Combine::Nothing => {
                let numbers = one_by_one(keys.len());
                let sessions: Vec<Piece> = self.pieces_at(&numbers, times.values()).collect();
                self.prepared_rows(&keys, &sessions, &[values], &[numbers])?
            }
            Combine::Split => {
                values.push(Some(Arc::new(times)));
                self.combiner.add(keys, values, |_| Ok(()))?;
                match self.combiner.take_if_full() {
                    Some(kept) => self.combined(kept)?,
                    None => RecordBatch::new_empty(self.signature.prepared.clone()),
                }
            }
        };
        Ok(Prepared { rows, late: outside, made_of: None })
    }

    fn rest(&mut self) -> Result<Option<RecordBatch>> {
        self.combiner.take().map(|kept| self.combined(kept)).transpose()
    }

    fn apply(&mut self, chunks: &Chunks<'_>, maps: &mut [StateMap], pass: &Pass, out: &mut Output) -> Result<()> {
        let map = only_map(&self.signature, maps)?;
        let groups = Groups::new(&chunk_keys(&self.signature, chunks)?)?;
        if !groups.is_empty() {
            self.fold(&groups, chunks, map, pass.batch_time_ms)?;
        }
        self.metrics.rows += chunks.iter().map(|chunk| chunk.num_rows() as u64).sum::<u64>();
        self.close(map, pass, out)
    }

    fn metrics(&self) -> Metrics {
        self.metrics
    }
}

/// Return the row numbers by key, in the order given, and by start for each key.
fn by_start(keys: &Keys, starts: &[i64]) -> Vec<u32> {
    let mut order = one_by_one(keys.len());
    for rows in order.chunk_by_mut(|&a, &b| keys.eq_at(a as usize, keys, b as usize)) {
        rows.sort_unstable_by_key(|&row| starts[row as usize]);
    }
    order
}

fn times(column: &ArrayRef) -> &[i64] {
    column.as_primitive::<TimestampMicrosecondType>().values()
}

fn span_fields(time_type: &DataType) -> Fields {
    ["start", "end"].iter().map(|name| Field::new(*name, time_type.clone(), true)).collect()
}

fn with_first(first: Field, more: &Fields) -> Fields {
    std::iter::once(Arc::new(first)).chain(more.iter().cloned()).collect()
}
