//! A table over the leading bits of a run's hashes. Hashes are uniform, so it leads to within a row or two of a key.

use arrow_buffer::ScalarBuffer;

/// Average rows in a bucket.
const BUCKET_ROWS: usize = 16;

/// For each prefix, the first row with at least that prefix.
#[derive(Debug)]
pub(super) struct PrefixTable {
    first: u64,
    span: u64,
    shift: u32,
    starts: ScalarBuffer<u32>,
}

impl PrefixTable {
    /// Build the table of `hashes`, which ascend.
    pub(super) fn new(hashes: &[u64]) -> Self {
        let (Some(&first), Some(&last)) = (hashes.first(), hashes.last()) else {
            return Self { first: 0, span: 0, shift: 0, starts: Vec::new().into() };
        };
        let span = last - first;
        let table_bits = (hashes.len() / BUCKET_ROWS).max(1).next_power_of_two().trailing_zeros();
        let shift = (u64::BITS - span.leading_zeros()).saturating_sub(table_bits).min(u64::BITS - 1);
        let mut starts = Vec::with_capacity((span >> shift) as usize + 2);
        for (row, &hash) in (0u32..).zip(hashes) {
            let prefix = ((hash - first) >> shift) as usize;
            while starts.len() <= prefix {
                starts.push(row);
            }
        }
        starts.push(hashes.len() as u32);
        Self { first, span, shift, starts: starts.into() }
    }

    /// Return the parts from which `of_parts` rebuilds the table.
    pub(super) fn parts(&self) -> ([u64; 3], &ScalarBuffer<u32>) {
        ([self.first, self.span, u64::from(self.shift)], &self.starts)
    }

    pub(super) fn of_parts([first, span, shift]: [u64; 3], starts: ScalarBuffer<u32>) -> Self {
        Self { first, span, shift: shift as u32, starts }
    }

    /// Return the row where `hash` would be, mostly off by one or two; `None` if no row can have it.
    #[inline]
    pub(super) fn guess(&self, hash: u64) -> Option<usize> {
        let distance = hash.wrapping_sub(self.first);
        if distance > self.span || self.starts.is_empty() {
            return None;
        }
        let prefix = (distance >> self.shift) as usize;
        let (from, to) = (self.starts[prefix] as usize, self.starts[prefix + 1] as usize);
        // The position within the bucket, from the next bits of the hash, as a fraction of 2^16.
        let part = (distance << (u64::BITS - 1 - self.shift) << 1) >> (u64::BITS - 16);
        let last = self.starts[self.starts.len() - 1] as usize - 1;
        Some((from + (((to - from) as u64 * part) >> 16) as usize).min(last))
    }

    /// Bytes of memory in use.
    pub(super) fn nbytes(&self) -> usize {
        self.starts.len() * size_of::<u32>()
    }
}
