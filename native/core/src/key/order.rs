//! Sorting rows by key. Because hashes are uniform, their leading bits split the rows into piles that fit into the
//! processor's cache, and the next bits split each pile into slots of one or two rows. Little is left to sort.

use std::any::Any;
use std::cmp::Ordering;
use std::sync::Mutex;

use super::Keys;

/// Rows in a pile, if hashes are uniform.
const PILE_ROWS: usize = 512;
/// With more piles, their ends would not stay in cache while rows are dealt.
const MAX_PILE_BITS: u32 = 10;
/// Fewer rows than this are sorted directly.
const FEW_ROWS: usize = 32;
/// With more slots, their ends would not stay in cache beside their rows.
const MAX_SLOT_BITS: u32 = 13;

/// The process keeps one buffer up to this size for the next sort, because fresh memory costs more than the sorting.
const MOST_KEPT_BYTES: usize = 32 << 20;

/// The buffer of the last sort; its content does not matter. A thread that finds it locked or in use allocates its own.
static KEPT: Mutex<Option<Box<dyn Any + Send>>> = Mutex::new(None);

/// Return the row numbers in key order. Rows of one key keep their order.
pub(super) fn order(keys: &Keys) -> Vec<u32> {
    let mut rows = Vec::with_capacity(keys.len());
    by_hash(
        &[keys.hashes()],
        |_, row| row,
        |pairs| {
            sort_ties(pairs, |&a, &b| keys.cmp_bytes(a as usize, keys, b as usize));
            rows.extend(pairs.iter().map(|&(_, row)| row));
        },
    );
    rows
}

/// Sort the rows with equal hashes among `pairs`, which are sorted by hash.
pub(crate) fn sort_ties<M>(pairs: &mut [(u64, M)], compare: impl Fn(&M, &M) -> Ordering) {
    for tie in pairs.chunk_by_mut(|a, b| a.0 == b.0).filter(|tie| tie.len() > 1) {
        tie.sort_by(|a, b| compare(&a.1, &b.1));
    }
}

/// Call `visit` with (hash, `mark(part, row)`) of all rows of `parts` in the order of their hashes. Each call gets many
/// rows, which are in the processor's cache; rows with one hash come in one call and keep their order.
pub(crate) fn by_hash<M: Copy + Default + Send + 'static>(
    parts: &[&[u64]],
    mark: impl Fn(u32, u32) -> M,
    mut visit: impl FnMut(&mut [(u64, M)]),
) {
    let mark = &mark;
    let marked = || {
        let parts = (0u32..).zip(parts);
        parts.flat_map(move |(part, hashes)| (0u32..).zip(*hashes).map(move |(row, &hash)| (hash, mark(part, row))))
    };
    let hashes = || parts.iter().copied().flatten().copied();
    let rows: usize = parts.iter().map(|hashes| hashes.len()).sum();
    if rows < FEW_ROWS || hashes().is_sorted() {
        let mut pairs: Vec<(u64, M)> = marked().collect();
        if rows < FEW_ROWS {
            insert_sort(&mut pairs);
        }
        return visit(&mut pairs);
    }
    let mut digits = Digits::of(hashes());
    let piles = digits.next((rows / PILE_ROWS).next_power_of_two().trailing_zeros().min(MAX_PILE_BITS));
    let kept = KEPT.try_lock().ok().and_then(|mut kept| kept.take());
    let mut pairs: Vec<(u64, M)> = kept.and_then(|kept| kept.downcast().ok()).map_or_else(Vec::new, |kept| *kept);
    if pairs.capacity() < rows {
        pairs = Vec::with_capacity(rows);
    }
    pairs.resize(rows, (0, M::default()));
    let mut ends = Vec::new();
    deal(&piles, hashes(), marked(), &mut pairs, &mut ends);
    let (mut spare, mut slot_ends, mut start) = (Vec::new(), Vec::new(), 0);
    for end in ends {
        sort_pile(&mut pairs[start..end], digits, &mut spare, &mut slot_ends);
        visit(&mut pairs[start..end]);
        start = end;
    }
    if pairs.capacity() * size_of::<(u64, M)>() <= MOST_KEPT_BYTES
        && let Ok(mut kept) = KEPT.try_lock()
    {
        *kept = Some(Box::new(pairs));
    }
}

/// The bits of hashes, minus the least hash, that have not been used yet.
#[derive(Clone, Copy)]
struct Digits {
    least: u64,
    low: u32,
}

/// One digit of the hashes: a few bits above the `low` lowest ones.
struct Digit {
    least: u64,
    low: u32,
    mask: u64,
}

impl Digits {
    /// Return all bits of `hashes`.
    fn of(hashes: impl Iterator<Item = u64>) -> Self {
        let (least, greatest) = hashes.fold((u64::MAX, 0), |(least, most), hash| (least.min(hash), most.max(hash)));
        Self { least, low: u64::BITS - greatest.saturating_sub(least).leading_zeros() }
    }

    /// Take the next `bits` bits, or as many as are left.
    fn next(&mut self, bits: u32) -> Digit {
        let bits = bits.min(self.low);
        self.low -= bits;
        Digit { least: self.least, low: self.low, mask: (1 << bits) - 1 }
    }
}

impl Digit {
    #[inline]
    fn of(&self, hash: u64) -> usize {
        // A shift by 64 is undefined. 64 bits are left only if all hashes fall into one pile.
        (((hash - self.least) >> self.low.min(u64::BITS - 1)) & self.mask) as usize
    }
}

/// Deal pairs, whose hashes are `hashes`, by one digit into `into`, keeping their order. `ends` gets the end of each
/// digit.
fn deal<M: Copy>(
    digit: &Digit,
    hashes: impl Iterator<Item = u64>,
    pairs: impl Iterator<Item = (u64, M)>,
    into: &mut [(u64, M)],
    ends: &mut Vec<usize>,
) {
    ends.clear();
    ends.resize(digit.mask as usize + 1, 0);
    hashes.for_each(|hash| ends[digit.of(hash)] += 1);
    let mut next = 0;
    for end in ends.iter_mut() {
        (*end, next) = (next, next + *end); // holds the start until the pairs are dealt
    }
    pairs.for_each(|pair| {
        let slot = &mut ends[digit.of(pair.0)];
        into[*slot] = pair;
        *slot += 1;
    });
}

/// Sort one pile by the remaining bits of the hashes.
fn sort_pile<M: Copy>(pile: &mut [(u64, M)], mut digits: Digits, spare: &mut Vec<(u64, M)>, ends: &mut Vec<usize>) {
    if pile.len() >= FEW_ROWS {
        let slots = digits.next(pile.len().ilog2().min(MAX_SLOT_BITS));
        spare.clear();
        spare.extend_from_slice(pile);
        deal(&slots, spare.iter().map(|pair| pair.0), spare.iter().copied(), pile, ends);
        let mut start = 0;
        for &end in &*ends {
            if end - start >= FEW_ROWS {
                pile[start..end].sort_by_key(|pair| pair.0); // fast if sorted already, as many rows of one key are
            }
            start = end;
        }
    }
    insert_sort(pile);
}

/// Sort pairs that are nearly in order.
fn insert_sort<M: Copy>(pairs: &mut [(u64, M)]) {
    for row in 1..pairs.len() {
        let (pair, mut place) = (pairs[row], row);
        while place > 0 && pairs[place - 1].0 > pair.0 {
            pairs[place] = pairs[place - 1];
            place -= 1;
        }
        pairs[place] = pair;
    }
}
