//! Merging sorted runs: the one loop behind scans, deltas, tiers and bases.

use std::cmp::Ordering;

use arrow_array::Array;

use super::SortedRun;
use crate::error::{Error, Result};
use crate::gather::{Pick, gather};
use crate::key::Keys;
use crate::memory;
use crate::offsets::counted;
use crate::range::KeyRange;

/// What is taken for each row at most besides its columns: where it lies, grown to up to twice of that, and its hash.
const ROW_BYTES: usize = 2 * size_of::<Pick>() + size_of::<u64>();

/// What a merge does with tombstones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tombstones {
    /// Keep them: something older may lie below.
    Keep,
    /// Drop them: the oldest run is among the merged ones.
    Drop,
}

/// One run of the rows of `runs`, oldest first, with a hash in `range`; the newest row of a key wins.
pub fn merge(runs: &[SortedRun], range: KeyRange, tombstones: Tombstones) -> Result<SortedRun> {
    let views: Vec<SortedRun> = runs.iter().map(|run| run.within(range)).collect();
    let Some(first) = views.first() else {
        return Err(Error::InvalidInput("cannot merge no runs: give at least one".into()));
    };
    if let Some(odd) = views.iter().find(|view| !view.schema().has_columns_of(first.schema())) {
        return Err(Error::InvalidInput(format!(
            "cannot merge runs of different columns: {} and {}",
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

/// Whether one run can hold all rows of `runs`: no column counts more than `most` bytes or items.
#[must_use]
pub fn fit(runs: &[SortedRun], most: usize) -> bool {
    let width = runs.first().map_or(0, |run| run.columns().len());
    (0..width).all(|column| {
        let counts = runs.iter().map(|run| counted(&run.columns()[column].slice(run.start, run.len())));
        counts.fold(0, usize::saturating_add) <= most
    })
}

/// `merge` where one run may not hold it all: runs of ranges that lie side by side and cover `range`, in their order.
/// Each holds at most `most` bytes or items a column, but for one hash that alone has more, which is `merge`'s to refuse.
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

/// The run of the rows at `picks`, which are in order.
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

/// One run's next row.
struct Cursor<'a> {
    source: usize,
    keys: &'a Keys,
    row: usize,
    end: usize,
    /// Where the rows with the hash of a tie end.
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

/// Calls `visit(source, row)` with the newest row of each key of `runs` (oldest first), in order of the keys.
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

/// The cursor with the least hash, and the least hash of the others if that is greater.
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

/// Visits the least key of several runs that stand at one hash, and steps over it in each of them; or all rows of that
/// hash, where they are rows of one key.
fn advance_tie(cursors: &mut [Cursor<'_>], visit: &mut impl FnMut(usize, usize)) {
    if cursors[0].keys.has_sub_keys() && advance_key(cursors, visit) {
        return;
    }
    let mut least = 0;
    for other in 1..cursors.len() {
        let (a, b) = (&cursors[other], &cursors[least]);
        if a.keys.cmp_at(a.row, b.keys, b.row) != Ordering::Greater {
            least = other; // of equal keys the later run is the newer one
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

/// Visits the newest row of each sub-key of the key at which the cursors with the least hash stand, and steps over all of
/// them; false, with nothing done, where rows with that hash are of several keys.
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

/// The row with the least sub-key of those that are left of a tie of one key; of equal ones that of the newest run.
fn least_sub_key<'a>(cursors: &[Cursor<'a>]) -> Option<(usize, &'a Keys, usize)> {
    let tied = cursors.iter().filter(|cursor| cursor.is_in_tie()).rev();
    let least = tied.min_by(|a, b| a.keys.cmp_sub_keys(a.row, b.keys, b.row))?;
    Some((least.source, least.keys, least.row))
}
