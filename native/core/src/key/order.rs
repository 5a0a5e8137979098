//! Sorting rows by key. Hashes are uniform, so nearly all of the work is sorting numbers.

use super::Keys;

/// The row numbers in the order of their keys; rows of one key keep the order they had.
pub(super) fn order(keys: &Keys) -> Vec<u32> {
    let mut pairs = sort_by_hash(keys.hashes());
    for_each_tie(&mut pairs, |tie| tie.sort_by(|a, b| keys.cmp_bytes(a.1 as usize, keys, b.1 as usize)));
    pairs.into_iter().map(|(_, row)| row).collect()
}

/// (hash, row) by hash, then row.
pub(crate) fn sort_by_hash(hashes: &[u64]) -> Vec<(u64, u32)> {
    let mut pairs: Vec<(u64, u32)> = hashes.iter().copied().zip(0u32..).collect();
    if !pairs.is_sorted() {
        pairs.sort_unstable();
    }
    pairs
}

fn for_each_tie(pairs: &mut [(u64, u32)], mut sort: impl FnMut(&mut [(u64, u32)])) {
    for tie in pairs.chunk_by_mut(|a, b| a.0 == b.0) {
        if tie.len() > 1 {
            sort(tie);
        }
    }
}
