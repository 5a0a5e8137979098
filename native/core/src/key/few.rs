//! Numbering of repeated keys by a table of their hashes. The table of a few keys is smaller than their rows, so it
//! stays in the processor's cache.
//!
//! INVARIANT: the table finds the same groups as sorting.

use super::Keys;
use super::order::by_hash;
use super::table::KeyTable;

/// Fewer rows than this are sorted instead.
const LEAST_ROWS: usize = 4096;
/// A table pays if each key has at least this many rows on average.
const ROWS_A_KEY: usize = 3;
/// In the first 1/`FIRST_PART` of the rows, at least a tenth must repeat a key; otherwise the table is abandoned.
const FIRST_PART: usize = 16;
/// A table of more keys than this would not stay in cache.
const MOST_KEYS: usize = 1 << 18;
/// The first table has two to the power of this many slots.
const FIRST_SLOT_BITS: u32 = 12;
/// Rows whose slots are read together.
const TOGETHER: usize = 64;
/// Most slots between a hash and its own slot. Only hashes chosen to collide need more.
const MOST_STEPS: usize = 256;

/// The numbered keys of blocks of rows, which are added one after the other.
#[derive(Debug)]
pub(crate) struct Numbering {
    table: Table,
    keys: KeyTable,
    /// Whether hashes alone identify all keys so far. A block with a null needs its keys compared.
    all_unique_by_hash: bool,
    /// (block, row) of the first row of each key, in the order in which the keys first appeared.
    firsts: Vec<(u32, u32)>,
    /// For each row of each block, the index of its key in `firsts`.
    numbers: Vec<Vec<u32>>,
    rows: usize,
    first_part: usize,
    most: usize,
}

/// The distinct keys sorted by their hashes, which are all different.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct InOrder {
    pub(crate) hashes: Vec<u64>,
    /// (block, row) of the first row of each key.
    pub(crate) firsts: Vec<(u32, u32)>,
    /// The number of each key in the order of first appearance.
    pub(crate) came: Vec<u32>,
}

impl Numbering {
    /// Start empty; about `rows` rows will be added.
    pub(crate) fn new(rows: usize) -> Self {
        Self {
            table: Table { hashes: Vec::new(), slots: Table::slots(FIRST_SLOT_BITS) },
            keys: KeyTable::default(),
            all_unique_by_hash: true,
            firsts: Vec::new(),
            numbers: Vec::new(),
            rows: 0,
            first_part: rows / FIRST_PART,
            most: (rows / ROWS_A_KEY).min(MOST_KEYS),
        }
    }

    /// Whether a table can pay for this many rows.
    pub(crate) fn pays_for(rows: usize) -> bool {
        rows >= LEAST_ROWS
    }

    /// Add a block. Return false if there are so many keys that sorting is better, or if two keys have one hash; the
    /// numbering must not be used afterwards.
    #[expect(clippy::cast_possible_truncation, reason = "blocks of a split are numbered by u32")]
    pub(crate) fn add(&mut self, keys: &Keys) -> bool {
        let (block, before) = (self.numbers.len() as u32, self.firsts.len());
        let mut of = Vec::with_capacity(keys.len());
        for (start, some) in (0u32..).step_by(TOGETHER).zip(keys.hashes().chunks(TOGETHER)) {
            self.table.touch(some);
            for (row, &hash) in (start..).zip(some) {
                let Some(number) = self.table.number(hash) else { return false };
                if number as usize == self.firsts.len() {
                    self.firsts.push((block, row));
                }
                of.push(number);
            }
            let is_first = self.rows < self.first_part;
            self.rows += some.len();
            let count = self.firsts.len();
            let are_many = count > self.most || is_first && self.rows >= self.first_part && count * 10 > self.rows * 9;
            if are_many || !self.table.make_room() {
                return false;
            }
        }
        let have_their_keys = self.have_their_keys(keys, &of, before);
        self.numbers.push(of);
        have_their_keys
    }

    /// Whether each row of a block has the key of its number. The check is needed because a slot stores only most bits
    /// of a hash. Keys from number `new` on are new.
    fn have_their_keys(&mut self, keys: &Keys, numbers: &[u32], new: usize) -> bool {
        let rows: Vec<u32> = self.firsts[new..].iter().map(|&(_, row)| row).collect();
        if !self.keys.add(keys, &rows) {
            return false;
        }
        self.all_unique_by_hash &= keys.are_unique_by_hash(keys);
        if self.all_unique_by_hash {
            let hashes = &self.table.hashes;
            return numbers.iter().zip(keys.hashes()).all(|(&number, &hash)| hashes[number as usize] == hash);
        }
        self.keys.are_at(keys, numbers)
    }

    /// How many distinct keys were added.
    pub(crate) fn len(&self) -> usize {
        self.firsts.len()
    }

    /// For each row of the last block, the number of its key; empty before the first block.
    pub(crate) fn last(&self) -> &[u32] {
        self.numbers.last().map_or(&[], Vec::as_slice)
    }

    /// Whether there are so few keys that renumbering the rows is faster than sorting them.
    pub(crate) fn are_few(&self) -> bool {
        Self::pays_for(self.rows) && self.len() <= self.rows / ROWS_A_KEY
    }

    /// Return the keys sorted by their hashes.
    pub(crate) fn in_order(&self) -> InOrder {
        let count = self.len();
        let room = || Vec::with_capacity(count);
        let mut found = InOrder { hashes: Vec::with_capacity(count), firsts: Vec::with_capacity(count), came: room() };
        let number = |_, number| number;
        by_hash(&[&self.table.hashes], number, |pairs| {
            for &mut (hash, number) in pairs {
                found.hashes.push(hash);
                found.firsts.push(self.firsts[number as usize]);
                found.came.push(number);
            }
        });
        found
    }

    /// For each row of each block, return the place of its key in `order`.
    pub(crate) fn places(self, order: &InOrder) -> Vec<Vec<u32>> {
        let mut places = vec![0; order.came.len()];
        (0u32..).zip(&order.came).for_each(|(place, &number)| places[number as usize] = place);
        let mut numbers = self.numbers;
        for number in numbers.iter_mut().flatten() {
            *number = places[*number as usize];
        }
        numbers
    }
}

/// An open-addressing table of hashes by their low bits. Hashes are numbered in the order of insertion; if a slot is
/// occupied, the next slot is tried.
///
/// Low bits are uniform even if the rows are sorted or come from one range of hashes.
#[derive(Debug)]
struct Table {
    hashes: Vec<u64>,
    /// The leading bits of a hash, and its number.
    slots: Vec<u64>,
}

impl Table {
    const NUMBER: u64 = (1 << 20) - 1;
    /// An empty slot: no hash has this number.
    const EMPTY: u64 = u64::MAX;
    /// Extra slots at the end, for hashes whose own slots are the last ones.
    const SPARE: usize = MOST_STEPS;

    /// Return two to the power of `bits` empty slots.
    fn slots(bits: u32) -> Vec<u64> {
        vec![Self::EMPTY; (1 << bits) + Self::SPARE]
    }

    #[inline]
    fn slot(&self, hash: u64) -> usize {
        hash as usize & (self.slots.len() - Self::SPARE - 1)
    }

    /// Read the slots of `hashes` ahead of their use. The reads are independent, so the processor overlaps them.
    #[inline]
    fn touch(&self, hashes: &[u64]) {
        let slot = |&hash: &u64| self.slots.get(self.slot(hash)).copied().unwrap_or(0);
        std::hint::black_box(hashes.iter().fold(0, |seen, hash| seen ^ slot(hash)));
    }

    /// Return the number of `hash`, adding it if it is new; `None` if no slot is free near its own.
    #[inline]
    fn number(&mut self, hash: u64) -> Option<u32> {
        let slot = self.slot(hash);
        for found in &mut self.slots[slot..slot + MOST_STEPS] {
            if *found == Self::EMPTY {
                let number = self.hashes.len() as u64;
                *found = hash & !Self::NUMBER | number;
                self.hashes.push(hash);
                return Some(number as u32);
            }
            if (*found ^ hash) & !Self::NUMBER == 0 {
                return Some((*found & Self::NUMBER) as u32);
            }
        }
        None
    }

    /// Grow unless at least half of the slots stay free after the next `TOGETHER` hashes. False if a hash finds no
    /// slot.
    fn make_room(&mut self) -> bool {
        let slots = self.slots.len() - Self::SPARE;
        if (self.hashes.len() + TOGETHER) * 2 <= slots {
            return true;
        }
        self.slots = Self::slots(slots.trailing_zeros() + 2);
        for start in (0..self.hashes.len()).step_by(TOGETHER) {
            let some = start..self.hashes.len().min(start + TOGETHER);
            self.touch(&self.hashes[some.clone()]);
            // The hashes have their numbers already, so only a free slot matters here.
            for number in some {
                let hash = self.hashes[number];
                let slot = self.slot(hash);
                let mut free = self.slots[slot..slot + MOST_STEPS].iter_mut().filter(|found| **found == Self::EMPTY);
                let Some(free) = free.next() else { return false };
                *free = hash & !Self::NUMBER | number as u64;
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Int64Array};
    use proptest::prelude::*;

    use super::super::TWIN_OF_NULL;
    use super::*;

    /// Keys that are identified by these hashes alone.
    fn keys(hashes: &[u64]) -> Keys {
        let numbers: Int64Array = hashes.iter().map(|hash| hash.cast_signed()).collect();
        Keys::of_canonical(vec![Arc::new(numbers)], 1, hashes.to_vec().into()).unwrap()
    }

    /// The sorted keys, and for each row the place of its key; `None` if the rows are left to sorting.
    fn few_keys(parts: &[&[u64]]) -> Option<(InOrder, Vec<Vec<u32>>)> {
        let mut numbering = Numbering::new(parts.iter().map(|part| part.len()).sum());
        if !parts.iter().all(|part| numbering.add(&keys(part))) || !numbering.are_few() {
            return None;
        }
        let order = numbering.in_order();
        let places = numbering.places(&order);
        Some((order, places))
    }

    /// The same result by sorting, for any number of keys.
    fn expected(parts: &[&[u64]]) -> (InOrder, Vec<Vec<u32>>) {
        let mut all: Vec<(u64, (u32, u32))> = Vec::new();
        for (part, hashes) in (0u32..).zip(parts) {
            all.extend((0u32..).zip(*hashes).map(|(row, &hash)| (hash, (part, row))));
        }
        all.sort_unstable();
        all.dedup_by_key(|pair| pair.0);
        let (hashes, firsts): (Vec<u64>, Vec<(u32, u32)>) = all.into_iter().unzip();
        let place = |hash: &u64| hashes.binary_search(hash).unwrap() as u32;
        let places = parts.iter().map(|part| part.iter().map(place).collect()).collect();
        let mut as_they_came = firsts.clone();
        as_they_came.sort_unstable();
        let came = firsts.iter().map(|first| as_they_came.binary_search(first).unwrap() as u32).collect();
        (InOrder { hashes, firsts, came }, places)
    }

    fn mixed(number: u64) -> u64 {
        let x = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (x ^ (x >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn the_table_finds_the_groups_that_sorting_finds(
            rows in LEAST_ROWS..8 * LEAST_ROWS, distinct in 1u64..12_000, cut in 0usize..LEAST_ROWS, bits in 0u32..64,
            lowest in prop_oneof![Just(0), any::<u64>()],
        ) {
            // Hashes with all leading bits, or only those of a narrow range.
            let hash = |row: u64| lowest.saturating_add(mixed(mixed(row) % distinct) >> bits);
            let hashes: Vec<u64> = (0..rows as u64).map(hash).collect();
            let parts = [&hashes[..cut], &[], &hashes[cut..]];
            if let Some(found) = few_keys(&parts) {
                prop_assert_eq!(found, expected(&parts));
            } else {
                prop_assert!(bits > 16 || distinct * 10 > rows as u64);
            }
        }
    }

    #[test]
    fn many_hashes_are_left_to_sorting() {
        let hashes: Vec<u64> = (0..10_000).map(mixed).collect();
        assert_eq!(few_keys(&[&hashes]), None);
        assert_eq!(few_keys(&[&hashes[..100]]), None);
        let twice: Vec<u64> = hashes.iter().chain(&hashes).copied().collect();
        assert_eq!(few_keys(&[&twice]), None);
        let first_few: Vec<u64> = std::iter::repeat_n(7, 2000).chain(hashes.iter().copied()).collect();
        assert_eq!(few_keys(&[&first_few]), None);
    }

    #[test]
    fn hashes_that_a_slot_cannot_distinguish_are_left_to_sorting() {
        let pair = [1 << 50, (1 << 50) | (1 << 16)];
        let hashes: Vec<u64> = (0..LEAST_ROWS).map(|row| pair[row % 2]).collect();
        assert_eq!(few_keys(&[&hashes]), None);
        let distinguished = [1 << 50, (1 << 50) | (1 << 20), 0, u64::MAX];
        let hashes: Vec<u64> = (0..LEAST_ROWS).map(|row| distinguished[row % 4]).collect();
        assert_eq!(few_keys(&[&hashes]).unwrap(), expected(&[&hashes]));
    }

    #[test]
    fn hashes_that_collide_after_the_table_has_grown_are_left_to_sorting() {
        // With 4,096 slots, `first` and `last` have slots of their own. With 16,384, `next` has the slot of `last`, the
        // slot after it is that of `first`, and the bits in a slot do not tell `first` from `last`.
        let (first, next, last) = (7 << 20 | 0x1000, 8 << 20 | 0x0fff, 7 << 20 | 0x0fff);
        let others = (0..1982).map(|number: u64| (1000 + number) << 20 | (0x2010 + 2 * number) & 0x3fff);
        let rows = std::iter::repeat_n(first, 600).chain([next]).chain(others).chain([last]);
        let hashes: Vec<u64> = rows.chain(std::iter::repeat_n(first, 6000)).chain([last]).collect();
        assert_eq!(few_keys(&[&hashes]), None);
    }

    #[test]
    fn hashes_chosen_to_meet_in_one_slot_are_left_to_sorting() {
        let hashes: Vec<u64> = (0..9_000).map(|row| (row % 300) << 20).collect();
        assert_eq!(few_keys(&[&hashes]), None);
        // Each hash finds a slot near its own until the table grows into the bits in which they differ.
        let hashes: Vec<u64> = (0..40_000).map(|row| (row % 4_000) << 14).collect();
        if let Some(found) = few_keys(&[&hashes]) {
            assert_eq!(found, expected(&[&hashes]));
        }
    }

    #[test]
    fn sorted_hashes_need_no_more_slots_than_others() {
        let mut hashes: Vec<u64> = (0..40_000).map(|row| mixed(row % 5_000)).collect();
        hashes.sort_unstable();
        assert_eq!(few_keys(&[&hashes]).unwrap(), expected(&[&hashes]));
    }

    /// Integers as keys, some of them null.
    fn numbers(cells: &[Option<i64>]) -> Keys {
        Keys::new(&[Arc::new(cells.iter().copied().collect::<Int64Array>()) as ArrayRef]).unwrap()
    }

    #[test]
    fn numbers_of_blocks_with_and_without_nulls_are_numbered_together() {
        for blocks in [
            vec![vec![Some(1), Some(2), Some(3)], vec![Some(3), None], vec![None, Some(4)], vec![Some(4), Some(1)]],
            vec![vec![None, Some(5)], vec![Some(6), Some(5)], vec![None, Some(6), Some(7)]],
        ] {
            let mut numbering = Numbering::new(1 << 20);
            let mut seen: Vec<Option<i64>> = Vec::new();
            for block in &blocks {
                assert!(numbering.add(&numbers(block)));
                for (cell, &number) in block.iter().zip(numbering.last()) {
                    if number as usize == seen.len() {
                        seen.push(*cell);
                    }
                    assert_eq!(seen[number as usize], *cell);
                }
                assert_eq!(numbering.len(), seen.len());
            }
        }
    }

    #[test]
    fn the_number_that_has_the_hash_of_null_is_another_key() {
        let (null, twin) = (numbers(&[None, Some(5)]), numbers(&[Some(TWIN_OF_NULL)]));
        assert_eq!(null.hash(0), twin.hash(0));
        for order in [[&null, &twin], [&twin, &null]] {
            let mut numbering = Numbering::new(1 << 20);
            assert!(numbering.add(order[0]) && !numbering.add(order[1]));
        }
    }

    #[test]
    fn the_table_grows() {
        let hashes: Vec<u64> = (0..400_000).map(|row| mixed(mixed(row) % 50_000)).collect();
        assert_eq!(few_keys(&[&hashes]).unwrap(), expected(&[&hashes]));
    }
}
