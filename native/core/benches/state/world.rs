//! Keys of both kinds, batches of updates, and a map of many keys in one run.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{ArrayRef, Float64Array, Int64Array, StringArray};
use arrow_schema::{DataType, Field, Fields};
use tidemill_core::{Changes, KeyRange, MapSchema, SortedRun, StateMap};

use crate::chance::{amount_of, digest_of, first_amount, key_of, mix};

/// A key of 16 bytes of text.
pub(crate) type Text = [u8; 16];

/// A type of keys: numbers or texts.
pub(crate) trait Key: Copy + Eq + 'static {
    const TYPE: DataType;
    fn of(number: u64) -> Self;
    fn hash(&self) -> u64;
    fn column(keys: impl Iterator<Item = Self>) -> ArrayRef;
    /// The keys of a column.
    fn cells(column: &ArrayRef) -> Vec<Self>;
    /// The keys of a column as numbers for digests.
    fn digests(column: &ArrayRef) -> Vec<u64>;
    fn digest(&self) -> u64;
}

impl Key for i64 {
    const TYPE: DataType = DataType::Int64;

    fn of(number: u64) -> Self {
        mix(number).cast_signed()
    }

    fn hash(&self) -> u64 {
        let x = self.cast_unsigned().wrapping_mul(0x9e37_79b9_7f4a_7c15);
        x ^ (x >> 32)
    }

    fn column(keys: impl Iterator<Item = Self>) -> ArrayRef {
        Arc::new(Int64Array::from_iter_values(keys))
    }

    fn cells(column: &ArrayRef) -> Vec<Self> {
        column.as_primitive::<Int64Type>().values().to_vec()
    }

    fn digests(column: &ArrayRef) -> Vec<u64> {
        column.as_primitive::<Int64Type>().values().iter().map(Self::digest).collect()
    }

    fn digest(&self) -> u64 {
        self.cast_unsigned()
    }
}

impl Key for Text {
    const TYPE: DataType = DataType::Utf8;

    fn of(number: u64) -> Self {
        let text = format!("{:016x}", mix(number));
        text.as_bytes().try_into().unwrap()
    }

    fn hash(&self) -> u64 {
        xxhash_rust::xxh3::xxh3_64(self)
    }

    fn column(keys: impl Iterator<Item = Self>) -> ArrayRef {
        let keys: Vec<Self> = keys.collect();
        Arc::new(StringArray::from_iter_values(keys.iter().map(|key| std::str::from_utf8(key).unwrap())))
    }

    fn cells(column: &ArrayRef) -> Vec<Self> {
        column.as_string::<i32>().iter().flatten().map(|text| text.as_bytes().try_into().unwrap()).collect()
    }

    fn digests(column: &ArrayRef) -> Vec<u64> {
        let texts = column.as_string::<i32>();
        texts.iter().flatten().map(|text| u64::from_str_radix(text, 16).unwrap()).collect()
    }

    fn digest(&self) -> u64 {
        u64::from_str_radix(std::str::from_utf8(self).unwrap(), 16).unwrap()
    }
}

/// Updates as arrays, one row each.
pub(crate) struct Batch {
    pub(crate) keys: ArrayRef,
    pub(crate) amounts: ArrayRef,
}

/// Returns batch `number`: `rows` updates of `keys` keys.
pub(crate) fn batch<K: Key>(number: u64, rows: u64, keys: u64) -> Batch {
    Batch {
        keys: K::column((0..rows).map(|row| K::of(key_of(number, row, keys)))),
        amounts: Arc::new(Float64Array::from_iter_values((0..rows).map(amount_of))),
    }
}

/// The schema of a map from key to (count, sum).
pub(crate) fn schema(key: DataType) -> Arc<MapSchema> {
    let key = Fields::from(vec![Field::new("key", key, true)]);
    let value =
        Fields::from(vec![Field::new("count", DataType::Int64, true), Field::new("sum", DataType::Float64, true)]);
    Arc::new(MapSchema::new("totals", &key, &Fields::empty(), &value).unwrap())
}

/// Returns a map of `keys` keys in one run; `deadline` returns the deadline of each key.
pub(crate) fn map<K: Key>(keys: u64, deadline: impl Fn(u64) -> Option<i64>) -> StateMap {
    let schema = schema(K::TYPE);
    let mut map = StateMap::open(Arc::clone(&schema), &[], KeyRange::ALL).unwrap();
    let rows = keys as usize;
    let changes = Changes {
        keys: vec![K::column((0..keys).map(K::of))],
        sub_keys: Vec::new(),
        values: vec![
            Arc::new(Int64Array::from(vec![1; rows])),
            Arc::new(Float64Array::from_iter_values((0..keys).map(first_amount))),
        ],
        updated_at: vec![0; rows],
        deadline: (0..keys).map(deadline).collect(),
        deleted: vec![false; rows],
    };
    map.change(&changes).unwrap();
    StateMap::open(schema, &map.delta().unwrap().into_iter().collect::<Vec<_>>(), KeyRange::ALL).unwrap()
}

/// Returns the digest of all rows of a run of [`schema`].
pub(crate) fn digest<K: Key>(run: &SortedRun) -> u64 {
    let batch = run.batch().unwrap();
    let (counts, sums) = (batch.column(1).as_primitive::<Int64Type>(), batch.column(2).as_primitive::<Float64Type>());
    let keys = K::digests(batch.column(0));
    let rows = keys.iter().zip(counts.values()).zip(sums.values());
    rows.fold(0, |digest, ((&key, &count), &sum)| digest.wrapping_add(digest_of(key, count, sum)))
}
