//! XXH3-64 over canonical bytes; columns are chained by seed. The hash never changes, because stored state is sorted by
//! it.

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::cells::{Cell, Cells};
use crate::error::Result;
use crate::offsets;

/// The bytes of null: no UTF-8 text contains this byte, and no number is as short.
const NULL_MARKER: [u8; 1] = [0xff];

/// Return the hash of each row. Column 0 has seed 0, and each later column has the hash so far as its seed; without
/// columns the hash is 0.
pub(super) fn hashes(columns: &[Cells], rows: usize) -> Result<Vec<u64>> {
    let mut hashes = offsets::filled(0, rows)?;
    for column in columns {
        match column.plain_i64() {
            Some(words) => {
                for (word, hash) in words.iter().zip(&mut hashes) {
                    *hash = bytes(&word.to_le_bytes(), *hash);
                }
            }
            None => {
                for (row, hash) in hashes.iter_mut().enumerate() {
                    *hash = cell(&column.cell(row), *hash);
                }
            }
        }
    }
    if MASKING {
        hashes.iter_mut().for_each(|hash| *hash = masked(*hash));
    }
    Ok(hashes)
}

pub(super) fn bytes(bytes: &[u8], seed: u64) -> u64 {
    xxh3_64_with_seed(bytes, seed)
}

#[inline]
fn cell(cell: &Cell<'_>, seed: u64) -> u64 {
    match cell {
        Cell::Null => bytes(&NULL_MARKER, seed),
        Cell::Bit(bit) => bytes(&[*bit], seed),
        Cell::Word(word) => bytes(&word.to_le_bytes(), seed),
        Cell::Wide(wide) => bytes(&wide.to_le_bytes(), seed),
        Cell::Bytes(text) => bytes(text, seed),
    }
}

const MASKING: bool = cfg!(test);

/// Whether hashes lose bits, which happens only in tests.
#[cfg(not(test))]
pub(super) const fn is_masked() -> bool {
    false
}

#[cfg(test)]
pub(super) fn is_masked() -> bool {
    MASK.get() != u64::MAX
}

#[cfg(not(test))]
#[inline]
pub(super) const fn masked(hash: u64) -> u64 {
    hash
}

#[cfg(test)]
thread_local! {
    static MASK: std::cell::Cell<u64> = const { std::cell::Cell::new(u64::MAX) };
}

#[cfg(test)]
pub(super) fn masked(hash: u64) -> u64 {
    hash & MASK.get()
}

/// The bigint that has the same hash as null.
#[cfg(test)]
pub(crate) const TWIN_OF_NULL: i64 = 6_325_366_514_327_521_934;

/// Run `body` with hashes that keep only the bits of `mask`, so that different keys collide.
#[cfg(test)]
pub(crate) fn with_masked_hashes<T>(mask: u64, body: impl FnOnce() -> T) -> T {
    struct Restore;
    impl Drop for Restore {
        fn drop(&mut self) {
            MASK.set(u64::MAX);
        }
    }
    let _restore = Restore;
    MASK.set(mask);
    body()
}
