//! Seeded numbers, the same as in the JVM's program, and digests of changes.

/// Scrambles a number; different numbers stay different.
pub(crate) fn mix(number: u64) -> u64 {
    let mut x = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Returns the key of row `row` of batch `batch`, one of `keys` keys.
pub(crate) fn key_of(batch: u64, row: u64, keys: u64) -> u64 {
    mix((batch + 1) << 32 | row) % keys
}

/// Returns the amount that row `row` adds to the sum of its key.
pub(crate) fn amount_of(row: u64) -> f64 {
    f64::from((row % 100) as u32)
}

/// Returns the initial sum of a key: one row of this amount.
pub(crate) fn first_amount(key: u64) -> f64 {
    f64::from((key % 1000) as u32)
}

/// Returns one key and its (count, sum) as a number. Digests of many keys are added, wrapping.
pub(crate) fn digest_of(key: u64, count: i64, sum: f64) -> u64 {
    mix(key ^ mix(count.cast_unsigned() ^ mix(sum.to_bits())))
}
