//! A bitmap of the leading bits of a run's hashes, which rules out most absent keys by one bit.
//!
//! A filter pays for a run that lacks most keys it is asked for, such as a run above a base. It is built once the run
//! has been asked for enough keys. INVARIANT: a filter never rules out a key that the run holds.

use std::sync::atomic::{AtomicUsize, Ordering};

use once_cell::race::OnceBox;

/// Bits for each row, at least; at most twice as many. One absent key in 16 to 32 passes the filter.
const BITS: usize = 16;
/// Build the filter after one look-up for this many rows. Setting a bit costs a tenth of what ruling out a key saves.
const ROWS_A_KEY: usize = 10;

/// The filter of a run, once it pays.
#[derive(Debug, Default)]
pub(super) struct Filter {
    asked: AtomicUsize,
    /// Built by the first thread that needs it. No thread waits for another: after a fork, that thread may not exist.
    prefixes: OnceBox<Prefixes>,
}

/// One bit for each value of the leading bits of hashes, relative to the lowest hash.
#[derive(Debug)]
pub(super) struct Prefixes {
    first: u64,
    span: u64,
    shift: u32,
    words: Vec<u64>,
}

impl Filter {
    /// Return the filter of a run with these ascending `hashes` for a look-up of `keys` keys; `None` if it does not pay
    /// yet.
    pub(super) fn for_search(&self, hashes: &[u64], keys: usize) -> Option<&Prefixes> {
        let made = self.prefixes.get();
        if made.is_none() {
            let asked = self.asked.fetch_add(keys, Ordering::Relaxed).saturating_add(keys);
            if asked < hashes.len() / ROWS_A_KEY {
                return None;
            }
        }
        Some(self.prefixes.get_or_init(|| Box::new(Prefixes::new(hashes))))
    }

    /// Bytes of memory in use.
    pub(super) fn nbytes(&self) -> usize {
        self.prefixes.get().map_or(0, |prefixes| prefixes.words.len() * size_of::<u64>())
    }
}

impl Prefixes {
    fn new(hashes: &[u64]) -> Self {
        let (first, last) = (hashes.first().copied().unwrap_or(0), hashes.last().copied().unwrap_or(0));
        let span = last - first;
        let bits = hashes.len().saturating_mul(BITS).max(1).next_power_of_two().trailing_zeros();
        let shift = (u64::BITS - span.leading_zeros()).saturating_sub(bits);
        let mut words = vec![0; ((span >> shift) / u64::from(u64::BITS)) as usize + 1];
        for &hash in hashes {
            let place = (hash - first) >> shift;
            words[(place / u64::from(u64::BITS)) as usize] |= 1 << (place % u64::from(u64::BITS));
        }
        Self { first, span, shift, words }
    }

    /// Whether a row may have this hash. False is certain, true is not.
    #[inline]
    pub(super) fn may_have(&self, hash: u64) -> bool {
        let distance = hash.wrapping_sub(self.first);
        if distance > self.span {
            return false;
        }
        let place = distance >> self.shift;
        let word = self.words[(place / u64::from(u64::BITS)) as usize];
        word >> (place % u64::from(u64::BITS)) & 1 == 1
    }
}
