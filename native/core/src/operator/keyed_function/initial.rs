//! States without an event time of their own: an initial state, and a state that only rows without event time updated.
//!
//! An initial state counts as updated in the first batch, so timeouts start there. An event-time timeout of either starts
//! at the watermark. Before the watermark has moved for the first time, there is no start, so the row waits with the
//! deadline `UNARMED_MS`.

use super::{Timeout, after};
use crate::error::Result;
use crate::map::{Rows, StateMap};
use crate::operator::Pass;

/// The deadline of a state that waits for the watermark to move. It is then armed, and the function is not called.
/// INVARIANT: no other row has this deadline (`avoid_unarmed`).
const UNARMED_MS: i64 = 1;

/// The `updated_at` of an initial state that `init` wrote, before any batch.
const BEFORE_MS: i64 = -1;

/// Rewrite every row of the map as updated in this batch. Rows that wait for the watermark keep their `updated_at`.
pub(super) fn begin(map: &mut StateMap, timeout: Timeout, pass: &Pass) -> Result<()> {
    let mut rows = map.scan()?;
    let deadline = match timeout {
        Timeout::Never | Timeout::ArmedByBatchTime | Timeout::ArmedByEventTime => None,
        Timeout::BatchTime(timeout_ms) => Some(after(pass.batch_time_ms, timeout_ms)),
        Timeout::EventTime(timeout_ms) => Some(from_watermark(timeout_ms, pass)),
    };
    let updated_at = if deadline == Some(UNARMED_MS) { BEFORE_MS } else { pass.batch_time_ms };
    rows.updated_at.fill(updated_at);
    rows.deadline.fill(deadline);
    map.change(&rows.put())
}

/// Return the event-time deadline of a state without an event time of its own.
pub(super) fn from_watermark(timeout_ms: i64, pass: &Pass) -> i64 {
    match pass.watermark_ms {
        Some(watermark_ms) if watermark_ms > 0 => after(watermark_ms, timeout_ms),
        _ => UNARMED_MS,
    }
}

/// Return the rows of `due` that are really due. Rows that waited for the watermark are armed instead.
pub(super) fn arm(map: &mut StateMap, due: Rows, timeout: Timeout, pass: &Pass) -> Result<Rows> {
    let (Timeout::EventTime(timeout_ms), Some(watermark_ms)) = (timeout, pass.watermark_ms) else { return Ok(due) };
    let waits = |row: &u32| due.deadline[*row as usize] == Some(UNARMED_MS);
    #[expect(clippy::cast_possible_truncation, reason = "rows of a range are numbered by u32")]
    let (waiting, rest): (Vec<u32>, Vec<u32>) = (0..due.len() as u32).partition(waits);
    if waiting.is_empty() {
        return Ok(due);
    }
    let mut armed = due.take(&waiting)?;
    // A row that was updated by rows without event time keeps its `updated_at`.
    armed.updated_at.iter_mut().filter(|at| **at == BEFORE_MS).for_each(|at| *at = pass.batch_time_ms);
    armed.deadline.fill(Some(after(watermark_ms, timeout_ms)));
    map.change(&armed.put())?;
    due.take(&rest)
}

/// Return an event-time deadline that differs from `UNARMED_MS`: a deadline in that ms of 1970 moves one ms later.
pub(super) fn avoid_unarmed(deadline_ms: i64) -> i64 {
    if deadline_ms == UNARMED_MS { UNARMED_MS + 1 } else { deadline_ms }
}
