//! An initial state in the map of a keyed function: it counts as updated in the first batch, so timeouts count from it.
//!
//! A timeout by event time counts from where the watermark stands then, and before the watermark has moved for the
//! first time there is nothing to count from: such a row waits for that with the deadline `UNARMED_MS`.

use super::{Timeout, after};
use crate::error::Result;
use crate::map::{Rows, StateMap};
use crate::operator::Pass;

/// The deadline of a state that is armed, and not called, once the watermark has moved. INVARIANT: of no other one
/// (`avoid_unarmed`).
const UNARMED_MS: i64 = 1;

/// The `updated_at` of an initial state as `init` writes it, before any batch.
const BEFORE_MS: i64 = -1;

/// Writes every row of the map again, as updated in this batch; where it has to wait for the watermark, as it was.
pub(super) fn begin(map: &mut StateMap, timeout: Timeout, pass: &Pass) -> Result<()> {
    let mut rows = map.scan()?;
    let deadline = match (timeout, pass.watermark_ms) {
        (Timeout::Never | Timeout::ArmedByBatchTime | Timeout::ArmedByEventTime, _) => None,
        (Timeout::BatchTime(timeout_ms), _) => Some(after(pass.batch_time_ms, timeout_ms)),
        (Timeout::EventTime(timeout_ms), Some(watermark_ms)) if watermark_ms > 0 => {
            Some(after(watermark_ms, timeout_ms))
        }
        (Timeout::EventTime(_), _) => Some(UNARMED_MS),
    };
    let updated_at = if deadline == Some(UNARMED_MS) { BEFORE_MS } else { pass.batch_time_ms };
    rows.updated_at.fill(updated_at);
    rows.deadline.fill(deadline);
    map.change(&rows.put())
}

/// What is really due of `due`; the rows of an initial state among it that wait for the watermark are armed by it.
pub(super) fn arm(map: &mut StateMap, due: Rows, timeout: Timeout, pass: &Pass) -> Result<Rows> {
    let (Timeout::EventTime(timeout_ms), Some(watermark_ms)) = (timeout, pass.watermark_ms) else { return Ok(due) };
    let waits = |row: &u32| due.deadline[*row as usize] == Some(UNARMED_MS);
    #[expect(clippy::cast_possible_truncation, reason = "rows of a range are numbered by u32")]
    let (waiting, rest): (Vec<u32>, Vec<u32>) = (0..due.len() as u32).partition(waits);
    if waiting.is_empty() {
        return Ok(due);
    }
    let mut armed = due.take(&waiting)?;
    // One that was updated by rows without event time waits too, and keeps the time of its update.
    armed.updated_at.iter_mut().filter(|at| **at == BEFORE_MS).for_each(|at| *at = pass.batch_time_ms);
    armed.deadline.fill(Some(after(watermark_ms, timeout_ms)));
    map.change(&armed.put())?;
    due.take(&rest)
}

/// A deadline by event time, apart from those that wait: in the first ms of 1970 it is one ms later.
pub(super) fn avoid_unarmed(deadline_ms: i64) -> i64 {
    if deadline_ms == UNARMED_MS { UNARMED_MS + 1 } else { deadline_ms }
}
