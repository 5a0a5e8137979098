//! A HyperLogLog++ sketch. Each of 2^precision registers stores the greatest rank of the hashes that fell into it.
//!
//! If few registers are set, they are kept as a list, so that a key with few values takes few bytes.
//! INVARIANT: the bytes of a sketch depend only on its registers, not on how it was built.

use super::bias;

/// Bits of the rank in a word that holds a register and its rank.
const RANK_BITS: u32 = 8;
/// Bytes of a register in a list.
const LISTED: usize = size_of::<u32>();

/// The registers of some values. Every call gets the same precision.
#[derive(Clone, Debug)]
pub(super) enum Sketch {
    /// The registers that are set, possibly more than once, each as (register, rank) in one word.
    Few(Vec<u32>),
    /// The rank of each register.
    All(Vec<u8>),
}

impl Default for Sketch {
    fn default() -> Self {
        Self::Few(Vec::new())
    }
}

impl Sketch {
    /// Add a value by its hash. The leading bits are the register; the zeros after them determine the rank.
    #[expect(clippy::cast_possible_truncation, reason = "a register has at most 18 bits, a rank is at most 61")]
    pub(super) fn add(&mut self, hash: u64, precision: u32) {
        let register = (hash >> (u64::BITS - precision)) as u32;
        let rest = (hash << precision) | (1 << (precision - 1));
        self.raise(register, (rest.leading_zeros() + 1) as u8, precision);
    }

    /// Add all values of another sketch, given as bytes.
    pub(super) fn merge(&mut self, bytes: &[u8], precision: u32) {
        if bytes.len() == registers(precision) {
            let ranks = (0u32..).zip(bytes).filter(|&(_, &rank)| rank > 0);
            ranks.for_each(|(register, &rank)| self.raise(register, rank, precision));
            return;
        }
        for listed in bytes.chunks_exact(LISTED) {
            let (register, rank) = parted(listed.iter().rev().fold(0, |word, &byte| word << 8 | u32::from(byte)));
            self.raise(register, rank, precision);
        }
    }

    /// Return all registers, or only those that are set if that takes fewer bytes.
    pub(super) fn to_bytes(&self, precision: u32) -> Vec<u8> {
        match self {
            Self::Few(words) => {
                let words = greatest(words);
                if is_few(words.len(), precision) {
                    return words.iter().flat_map(|word| word.to_le_bytes()).collect();
                }
                all(&words, precision)
            }
            Self::All(ranks) => {
                let set = ranks.iter().filter(|&&rank| rank > 0).count();
                if !is_few(set, precision) {
                    return ranks.clone();
                }
                let words = (0u32..).zip(ranks).filter(|&(_, &rank)| rank > 0);
                words.flat_map(|(register, &rank)| joined(register, rank).to_le_bytes()).collect()
            }
        }
    }

    /// Estimate how many distinct values were added.
    pub(super) fn estimate(&self, precision: u32) -> i64 {
        match self {
            Self::Few(words) => estimate(&all(&greatest(words), precision), precision),
            Self::All(ranks) => estimate(ranks, precision),
        }
    }

    fn raise(&mut self, register: u32, rank: u8, precision: u32) {
        match self {
            Self::All(ranks) => {
                let held = &mut ranks[register as usize];
                *held = rank.max(*held);
            }
            Self::Few(words) => {
                words.push(joined(register, rank));
                if !is_few(words.len() / 2, precision) {
                    *words = greatest(words);
                    if !is_few(words.len(), precision) {
                        *self = Self::All(all(words, precision));
                    }
                }
            }
        }
    }
}

fn registers(precision: u32) -> usize {
    1 << precision
}

/// Whether a list of `set` registers takes fewer bytes than all registers.
fn is_few(set: usize, precision: u32) -> bool {
    set * LISTED < registers(precision)
}

fn joined(register: u32, rank: u8) -> u32 {
    register << RANK_BITS | u32::from(rank)
}

fn parted(word: u32) -> (u32, u8) {
    (word >> RANK_BITS, word.to_le_bytes()[0])
}

/// Return each register once, with its greatest rank, in register order.
fn greatest(words: &[u32]) -> Vec<u32> {
    let mut words = words.to_vec();
    words.sort_unstable_by(|a, b| b.cmp(a));
    words.dedup_by_key(|word| *word >> RANK_BITS);
    words.reverse();
    words
}

fn all(words: &[u32], precision: u32) -> Vec<u8> {
    let mut ranks = vec![0; registers(precision)];
    for &word in words {
        let (register, rank) = parted(word);
        ranks[register as usize] = rank;
    }
    ranks
}

/// Estimate by HyperLogLog++ (Heule, Nunkesser and Hall, 2013): linear counting for few values, the harmonic mean of
/// the registers for many, and a correction of its bias in between.
#[expect(clippy::cast_precision_loss, reason = "there are few registers")]
fn estimate(ranks: &[u8], precision: u32) -> i64 {
    let m = ranks.len() as f64;
    let sum: f64 = ranks.iter().map(|&rank| 0.5f64.powi(i32::from(rank))).sum();
    let empty = ranks.iter().filter(|&&rank| rank == 0).count();
    let raw = scale(precision, m) * m * m / sum;
    let corrected = if raw < 5.0 * m { raw - bias::of(raw, precision) } else { raw };
    if empty > 0 {
        let counted = m * (m / empty as f64).ln();
        if counted <= bias::threshold(precision) || raw <= 2.5 * m {
            return java_round(counted);
        }
    }
    java_round(corrected)
}

fn scale(precision: u32, m: f64) -> f64 {
    match precision {
        4 => 0.673,
        5 => 0.697,
        6 => 0.709,
        _ => 0.7213 / (1.0 + 1.079 / m),
    }
}

/// Round half up, as Java does.
#[expect(clippy::cast_possible_truncation, reason = "a count of values")]
fn java_round(value: f64) -> i64 {
    (value + 0.5).floor() as i64
}

#[cfg(test)]
mod tests {
    use super::Sketch;
    use xxhash_rust::xxh64::xxh64;

    fn of(values: std::ops::Range<u64>, precision: u32) -> Sketch {
        let mut sketch = Sketch::default();
        values.for_each(|value| sketch.add(xxh64(&value.to_le_bytes(), 42), precision));
        sketch
    }

    #[test]
    fn bytes_do_not_depend_on_the_way_a_sketch_was_built() {
        for count in [0, 1, 3, 30, 100, 127, 128, 129, 200, 5_000] {
            let whole = of(0..count, 9);
            let mut parts = Sketch::default();
            for part in [of(count / 3..count, 9), of(0..count / 2, 9), of(0..count / 3, 9)] {
                parts.merge(&part.to_bytes(9), 9);
            }
            assert_eq!(whole.to_bytes(9), parts.to_bytes(9), "{count} values");
            assert_eq!(whole.estimate(9), parts.estimate(9));
            assert!(whole.to_bytes(9).len() <= 512);
        }
    }

    #[test]
    fn estimates_keep_within_four_standard_errors() {
        for precision in 4..=14 {
            let error = 1.04 / f64::from(1u32 << precision).sqrt();
            for count in [1, 10, 100, 1_000, 10_000, 100_000] {
                #[expect(clippy::cast_precision_loss, reason = "small numbers")]
                let (found, count) = (of(0..count, precision).estimate(precision) as f64, count as f64);
                assert!((found - count).abs() <= (4.0 * error * count).max(1.0), "{precision}: {found} of {count}");
            }
        }
    }
}
