//! Sorting rows by key. Hashes are uniform, so their leading bits deal the rows into small piles that sort in cache.

use super::Keys;

/// Fewer rows than this are sorted as they are.
const PILE_ROWS: usize = 256;
/// More piles than this would not keep their ends in cache while rows are dealt.
const MAX_PILE_BITS: u32 = 11;

/// The row numbers in the order of their keys; rows of one key keep the order they had.
pub(super) fn order(keys: &Keys) -> Vec<u32> {
    let mut pairs = sorted_by_hash(keys.hashes());
    for tie in pairs.chunk_by_mut(|a, b| a.0 == b.0).filter(|tie| tie.len() > 1) {
        tie.sort_by(|a, b| keys.cmp_bytes(a.1 as usize, keys, b.1 as usize));
    }
    pairs.into_iter().map(|(_, row)| row).collect()
}

/// (hash, row) by hash, then row.
fn sorted_by_hash(hashes: &[u64]) -> Vec<(u64, u32)> {
    if hashes.is_sorted() {
        return hashes.iter().copied().zip(0u32..).collect();
    }
    if hashes.len() < PILE_ROWS {
        let mut pairs: Vec<(u64, u32)> = hashes.iter().copied().zip(0u32..).collect();
        pairs.sort_unstable();
        return pairs;
    }
    let (mut pairs, ends) = deal(hashes);
    let mut start = 0;
    for end in ends {
        pairs[start..end].sort_unstable();
        start = end;
    }
    pairs
}

/// (hash, row) in piles of ascending leading bits, and where each pile ends.
fn deal(hashes: &[u64]) -> (Vec<(u64, u32)>, Vec<usize>) {
    let least = hashes.iter().copied().min().unwrap_or(0);
    let span = hashes.iter().copied().max().unwrap_or(0) - least;
    let pile_bits = (hashes.len() / PILE_ROWS).next_power_of_two().trailing_zeros().min(MAX_PILE_BITS);
    // What is left of the span after the shift fits into `pile_bits` bits; a task sees a small part of all hashes.
    let shift = (u64::BITS - span.leading_zeros()).saturating_sub(pile_bits);
    let pile_of = |hash: u64| ((hash - least) >> shift.min(u64::BITS - 1)) as usize;
    let mut ends = vec![0; pile_of(least + span) + 1];
    for &hash in hashes {
        ends[pile_of(hash)] += 1;
    }
    let mut next = 0;
    for end in &mut ends {
        (*end, next) = (next, next + *end); // the start, for now
    }
    let mut pairs = vec![(0, 0); hashes.len()];
    for (&hash, row) in hashes.iter().zip(0u32..) {
        let slot = &mut ends[pile_of(hash)];
        pairs[*slot] = (hash, row);
        *slot += 1;
    }
    (pairs, ends)
}
