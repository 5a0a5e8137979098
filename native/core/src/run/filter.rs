//! Which leading bits the hashes of a run have: most keys that a run does not hold are told by one bit.
//!
//! Made for a run that is asked for keys most of which it does not hold, as one above a base is, once it has been asked
//! for so many that it pays. INVARIANT: a key that the run holds is never ruled out.

use std::sync::atomic::{AtomicUsize, Ordering};

use once_cell::race::OnceBox;

/// Bits a row, at least; up to twice as many. So one key of 16 to 32 that is not there is looked for in vain.
const BITS: usize = 16;
/// Rows for which a key must have been asked for: setting a bit takes a tenth of the time that ruling out a key saves.
const ROWS_A_KEY: usize = 10;

/// The filter of a run, once it is worth it.
#[derive(Debug, Default)]
pub(super) struct Filter {
    asked: AtomicUsize,
    /// By whoever is first: nobody waits, least of all a forked process for a thread that it does not have.
    prefixes: OnceBox<Prefixes>,
}

/// A bit for each value of the leading bits of hashes, counted from the least hash.
#[derive(Debug)]
pub(super) struct Prefixes {
    first: u64,
    span: u64,
    shift: u32,
    words: Vec<u64>,
}

impl Filter {
    /// The filter of a run with these `hashes`, which ascend, for `keys` more of them; `None` while it does not pay.
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

    /// Bytes that it takes.
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

    /// False only for a hash that no row has.
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
