//! Merging sorted runs: the one loop that scans, deltas, tiers and bases share.

use std::cmp::Ordering;

use arrow_array::Array;

use super::SortedRun;
use crate::error::{Error, Result};
use crate::gather::{Pick, gather};
use crate::key::Keys;
use crate::memory;
use crate::offsets::counted;
use crate::range::KeyRange;

/// Most bytes for each row besides its columns: its position, in a vector that may double, and its hash.
const ROW_BYTES: usize = 2 * size_of::<Pick>() + size_of::<u64>();

/// How a merge treats tombstones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tombstones {
    /// Keep them, because older runs may hold rows that they hide.
    Keep,
    /// Drop them, because the oldest run is among the merged ones.
    Drop,
}

/// Merge the rows of `runs`, oldest first, with a hash in `range` into one run. The newest row of a key wins.
pub fn merge(runs: &[SortedRun], range: KeyRange, tombstones: Tombstones) -> Result<SortedRun> {
    let views: Vec<SortedRun> = runs.iter().map(|run| run.within(range)).collect();
    let Some(first) = views.first() else {
        return Err(Error::InvalidInput("cannot merge an empty list of runs".into()));
    };
    if let Some(odd) = views.iter().find(|view| !view.schema().has_columns_of(first.schema())) {
        return Err(Error::InvalidInput(format!(
            "cannot merge runs with different columns: {} and {}",
            first.schema().describe(),
            odd.schema().describe()
        )));
    }
    if let [only] = views.as_slice()
        && (tombstones == Tombstones::Keep || only.has_no_tombstones())
    {
        return Ok(only.by_itself());
    }
    let rows = views.iter().fold(0_usize, |rows, view| rows.saturating_add(view.len()));
    memory::check_available("merge runs", rows.saturating_mul(ROW_BYTES))?;
    let mut picks = Vec::with_capacity(views.iter().map(SortedRun::len).max().unwrap_or(0));
    newest(&views, |source, row| {
        if tombstones == Tombstones::Keep || !views[source].is_tombstone(row) {
            picks.push(Pick::new(source, row));
        }
    });
    collect(first, &views, &picks)
}

/// Whether one run can hold all rows of `runs`: no column has more than `most` bytes or items.
#[must_use]
pub fn fit(runs: &[SortedRun], most: usize) -> bool {
    let width = runs.first().map_or(0, |run| run.columns().len());
    (0..width).all(|column| {
        let counts = runs.iter().map(|run| counted(&run.columns()[column].slice(run.start, run.len())));
        counts.fold(0, usize::saturating_add) <= most
    })
}

/// Merge `runs` into one run, or into several if one cannot hold all rows. The ranges of the results are adjacent,
/// cover `range` and ascend. Each result has at most `most` bytes or items in a column. A single hash is never split:
/// if it exceeds the limit of a column, `merge` refuses it.
pub fn merge_in_parts(
    runs: &[SortedRun],
    range: KeyRange,
    tombstones: Tombstones,
    most: usize,
) -> Result<Vec<(KeyRange, SortedRun)>> {
    let views: Vec<SortedRun> = runs.iter().map(|run| run.within(range)).collect();
    if range.lo == range.hi || fit(&views, most) {
        return Ok(vec![(range, merge(&views, range, tombstones)?)]);
    }
    let middle = range.lo + (range.hi - range.lo) / 2;
    let mut parts = merge_in_parts(&views, KeyRange { lo: range.lo, hi: middle }, tombstones, most)?;
    parts.extend(merge_in_parts(&views, KeyRange { lo: middle + 1, hi: range.hi }, tombstones, most)?);
    Ok(parts)
}

/// Return the run of the rows at `picks`, which are in order.
fn collect(like: &SortedRun, views: &[SortedRun], picks: &[Pick]) -> Result<SortedRun> {
    let columns = (0..like.columns().len())
        .map(|column| {
            let sources: Vec<&dyn Array> = views.iter().map(|view| view.columns()[column].as_ref()).collect();
            gather(like.columns()[column].data_type(), &sources, picks)
        })
        .collect::<Result<Vec<_>>>()?;
    let hashes = picks.iter().map(|pick| views[pick.source()].keys().hash(pick.row())).collect();
    let keys = like.keys().with_columns(columns[..like.schema().key_width()].to_vec(), hashes)?;
    SortedRun::from_sorted(like.schema(), keys, columns)
}

/// The next row of one run.
struct Cursor<'a> {
    source: usize,
    keys: &'a Keys,
    row: usize,
    end: usize,
    /// Where the rows end whose hash is that of the current tie.
    tie_end: usize,
}

impl Cursor<'_> {
    fn hash(&self) -> u64 {
        self.keys.hash(self.row)
    }

    fn is_done(&self) -> bool {
        self.row == self.end
    }

    fn find_tie(&mut self, hash: u64) {
        let rows = self.keys.hashes()[self.row..self.end].iter();
        self.tie_end = self.row + rows.take_while(|&&found| found == hash).count();
    }

    fn is_in_tie(&self) -> bool {
        self.row < self.tie_end
    }
}

/// Call `visit(source, row)` with the newest row of each key of `runs` (oldest first), in key order.
pub(crate) fn newest(runs: &[SortedRun], mut visit: impl FnMut(usize, usize)) {
    let mut cursors: Vec<Cursor<'_>> = runs
        .iter()
        .enumerate()
        .filter(|(_, run)| !run.is_empty())
        .map(|(source, run)| Cursor { source, keys: run.keys(), row: run.start, end: run.end, tie_end: 0 })
        .collect();
    while cursors.len() > 1 {
        match lonely_least(&cursors) {
            (at, Some(limit)) => advance_below(&mut cursors[at], limit, &mut visit),
            (_, None) => advance_tie(&mut cursors, &mut visit),
        }
        cursors.retain(|cursor| !cursor.is_done());
    }
    for cursor in cursors {
        (cursor.row..cursor.end).for_each(|row| visit(cursor.source, row));
    }
}

/// Return the cursor with the lowest hash, and the lowest hash of the others if that is greater.
fn lonely_least(cursors: &[Cursor<'_>]) -> (usize, Option<u64>) {
    let (mut at, mut least, mut next) = (0, cursors[0].hash(), u64::MAX);
    for (other, cursor) in cursors.iter().enumerate().skip(1) {
        let hash = cursor.hash();
        if hash < least {
            (at, next, least) = (other, least, hash);
        } else {
            next = next.min(hash);
        }
    }
    (at, (least < next).then_some(next))
}

fn advance_below(cursor: &mut Cursor<'_>, limit: u64, visit: &mut impl FnMut(usize, usize)) {
    while !cursor.is_done() && cursor.hash() < limit {
        visit(cursor.source, cursor.row);
        cursor.row += 1;
    }
}

/// Visit the least key among the runs at the lowest hash, and advance past it in each run. If all rows with this hash
/// have one key, visit all of them.
fn advance_tie(cursors: &mut [Cursor<'_>], visit: &mut impl FnMut(usize, usize)) {
    if cursors[0].keys.has_sub_keys() && advance_key(cursors, visit) {
        return;
    }
    let mut least = 0;
    for other in 1..cursors.len() {
        let (a, b) = (&cursors[other], &cursors[least]);
        if a.keys.cmp_at(a.row, b.keys, b.row) != Ordering::Greater {
            least = other; // of equal keys the later run is newer
        }
    }
    let (source, keys, row) = (cursors[least].source, cursors[least].keys, cursors[least].row);
    visit(source, row);
    for cursor in cursors {
        if cursor.keys.eq_at(cursor.row, keys, row) {
            cursor.row += 1;
        }
    }
}

/// Visit the newest row of each sub-key of the key at the lowest hash, and advance past all of them. Return false and
/// do nothing if rows with this hash have different keys.
fn advance_key(cursors: &mut [Cursor<'_>], visit: &mut impl FnMut(usize, usize)) -> bool {
    let hash = cursors.iter().map(Cursor::hash).min().unwrap_or_default();
    cursors.iter_mut().for_each(|cursor| cursor.find_tie(hash));
    let Some(first) = cursors.iter().find(|cursor| cursor.is_in_tie()) else { return false };
    let is_of_key = |cursor: &Cursor<'_>, row: usize| cursor.keys.has_key_of(row, first.keys, first.row);
    let mut tied = cursors.iter().filter(|cursor| cursor.is_in_tie());
    if !tied.all(|cursor| is_of_key(cursor, cursor.row) && is_of_key(cursor, cursor.tie_end - 1)) {
        return false;
    }
    while let Some((source, keys, row)) = least_sub_key(cursors) {
        visit(source, row);
        for cursor in cursors.iter_mut() {
            if cursor.is_in_tie() && cursor.keys.cmp_sub_keys(cursor.row, keys, row).is_eq() {
                cursor.row += 1;
            }
        }
    }
    true
}

/// Return the row with the least sub-key among the rows left of a tie of one key. Of equal sub-keys the newest run
/// wins.
fn least_sub_key<'a>(cursors: &[Cursor<'a>]) -> Option<(usize, &'a Keys, usize)> {
    let tied = cursors.iter().filter(|cursor| cursor.is_in_tie()).rev();
    let least = tied.min_by(|a, b| a.keys.cmp_sub_keys(a.row, b.keys, b.row))?;
    Some((least.source, least.keys, least.row))
}
