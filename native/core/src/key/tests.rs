//! The rules of `docs/format.md` and its test vectors. None of these numbers may ever change.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow_array::builder::{Int64Builder, MapBuilder, StringBuilder};
use arrow_array::types::Decimal128Type;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array, Int8Array,
    Int16Array, Int32Array, Int64Array, ListArray, MapArray, PrimitiveArray, StringArray, StructArray,
    TimestampMicrosecondArray, UInt32Array,
};
use arrow_schema::{DataType, Field, Fields};

use proptest::prelude::*;

use super::table::KeyTable;
use super::{Keys, by_hash, text_hash, with_masked_hashes};
use crate::error::Error;

fn keys(columns: &[ArrayRef]) -> Keys {
    Keys::new(columns).unwrap()
}

fn hashes(column: impl Array + 'static) -> Vec<u64> {
    keys(&[Arc::new(column)]).hashes().to_vec()
}

#[test]
fn text_hashes_to_the_vectors() {
    let vectors = vec![0x2d06_8005_38d3_94c2, 0xe6c6_32b6_1e96_4e1f, 0xbea6_f108_f503_4d96];
    assert_eq!(hashes(StringArray::from(vec!["", "a", "tidemill"])), vectors);
    assert_eq!(hashes(BinaryArray::from(vec![b"".as_slice(), b"a", b"tidemill"])), vectors);
    assert_eq!(text_hash("tidemill"), vectors[2]);
}

#[test]
fn integers_of_all_widths_hash_alike() {
    let vectors = vec![0xc77b_3abb_6f87_acd9, 0x2fbc_5935_64db_792e];
    assert_eq!(hashes(Int8Array::from(vec![0, 1])), vectors);
    assert_eq!(hashes(Int16Array::from(vec![0, 1])), vectors);
    assert_eq!(hashes(Int32Array::from(vec![0, 1])), vectors);
    assert_eq!(hashes(Int64Array::from(vec![0, 1])), vectors);
    assert_eq!(hashes(Date32Array::from(vec![0, 1])), vectors);
    assert_eq!(hashes(TimestampMicrosecondArray::from(vec![0, 1]).with_timezone("UTC")), vectors);
    assert_eq!(hashes(Int8Array::from(vec![-1])), hashes(Int64Array::from(vec![-1])));
}

#[test]
fn other_types_hash_to_their_vectors() {
    let floats = vec![0xc77b_3abb_6f87_acd9, 0x2561_a488_9ff6_3458, 0x0aa6_1dcf_a381_c167];
    assert_eq!(hashes(Float64Array::from(vec![0.0, 1.5, f64::NAN])), floats);
    assert_eq!(hashes(Int64Array::from(vec![-1])), [0x5111_c7e4_7d78_4413]);
    assert_eq!(hashes(BooleanArray::from(vec![false, true])), [0xc44b_dff4_074e_ecdb, 0xe12e_f9d2_eb86_ceeb]);
    let decimals = vec![0xd0a6_6a65_c752_8968, 0xe37b_fb67_d3a5_b49d, 0xc45e_b2bb_5d16_f1a5];
    assert_eq!(hashes(decimal(&[0, 125, -125])), decimals);
    assert_eq!(hashes(StringArray::from(vec![None::<&str>])), [0xd6bc_ec3c_6b29_d72e]);
}

fn texts_and_numbers(rows: &[Option<(Option<&str>, Option<i32>)>]) -> StructArray {
    let fields = vec![Field::new("a", DataType::Utf8, true), Field::new("n", DataType::Int32, true)];
    // Values under a null struct are not part of it.
    let text: StringArray = rows.iter().map(|row| row.map_or(Some("hidden"), |cells| cells.0)).collect();
    let number: Int32Array = rows.iter().map(|row| row.and_then(|cells| cells.1)).collect();
    let nulls = rows.iter().map(Option::is_some).collect::<Vec<_>>().into();
    StructArray::new(Fields::from(fields), vec![Arc::new(text), Arc::new(number)], Some(nulls))
}

fn lists(rows: &[Option<&[Option<i64>]>]) -> ListArray {
    ListArray::from_iter_primitive::<Int64Type, _, _>(rows.iter().map(|row| row.map(<[_]>::to_vec)))
}

fn maps(rows: &[&[(&str, Option<i64>)]]) -> MapArray {
    let mut map = MapBuilder::new(None, StringBuilder::new(), Int64Builder::new());
    for row in rows {
        for (key, value) in *row {
            map.keys().append_value(key);
            map.values().append_option(*value);
        }
        map.append(true).unwrap();
    }
    map.finish()
}

#[test]
fn nested_types_hash_to_their_vectors() {
    let structs = texts_and_numbers(&[Some((Some("a"), Some(1))), Some((None, None)), None]);
    assert_eq!(hashes(structs), [0xe90b_ffd9_5f17_ef2b, 0x3325_230e_1f28_5505, 0xd6bc_ec3c_6b29_d72e]);
    let numbers = lists(&[Some(&[]), Some(&[Some(1)]), Some(&[None]), Some(&[Some(1), Some(2)])]);
    let vectors = [0x48b2_c926_16fc_193d, 0xbae4_ee74_3c6f_e24e, 0xd1dd_927e_d529_f768, 0x0796_d595_a7f6_7a82];
    assert_eq!(hashes(numbers), vectors);
    let floats = ListArray::from_iter_primitive::<Float64Type, _, _>([Some([Some(-0.0)]), Some([Some(-f64::NAN)])]);
    assert_eq!(hashes(floats), [0x75e6_7b41_d84d_1eab, 0x6458_db0c_1481_bc08]);
    let either: &[_] = &[("a", Some(1)), ("b", Some(2))];
    let other: &[_] = &[("b", Some(2)), ("a", Some(1))];
    assert_eq!(hashes(maps(&[either, other])), [0x432a_9820_50ca_623d; 2], "a map has no order");
}

#[test]
fn nested_keys_are_equal_only_if_all_their_parts_are() {
    let rows = texts_and_numbers(&[
        Some((Some("ab"), None)),
        Some((Some("a"), Some(98))),
        Some((Some(""), None)),
        Some((None, Some(0))),
        Some((None, None)),
        None,
        Some((None, None)),
    ]);
    let found = with_masked_hashes(0, || keys(&[Arc::new(rows)]));
    for i in 0..found.len() {
        for j in 0..found.len() {
            assert_eq!(found.eq_at(i, &found, j), i == j || (i.min(j), i.max(j)) == (4, 6), "{i} and {j}");
        }
    }
    assert_eq!(found.order()[0], 5, "null comes first");
    let sliced = lists(&[Some(&[Some(7)]), None, Some(&[]), Some(&[Some(7)])]);
    let all = keys(&[Arc::new(sliced.clone())]);
    assert!(all.eq_at(0, &keys(&[Arc::new(sliced.slice(2, 2))]), 1));
    assert_eq!(keys(&[Arc::new(sliced.slice(1, 3))]).hashes(), &all.hashes()[1..]);
}

#[test]
fn floats_inside_structs_lists_and_maps_are_canonical() {
    let doubles = ListArray::from_iter_primitive::<Float64Type, _, _>([Some([Some(-0.0), Some(-f64::NAN), None])]);
    let field = Field::new("doubles", doubles.data_type().clone(), false);
    let column: ArrayRef = Arc::new(StructArray::from(vec![(Arc::new(field), Arc::new(doubles) as ArrayRef)]));
    let found = keys(&[column]);
    let list = found.columns()[0].as_any().downcast_ref::<StructArray>().unwrap().column(0);
    let doubles = list.as_any().downcast_ref::<ListArray>().unwrap().values();
    let doubles = doubles.as_any().downcast_ref::<Float64Array>().unwrap();
    assert_eq!((doubles.value(0).to_bits(), doubles.value(1).to_bits()), (0, 0x7ff8_0000_0000_0000));
    assert!(doubles.is_null(2));
}

#[test]
fn columns_chain_by_seed() {
    let text = |cell: Option<&str>| -> ArrayRef { Arc::new(StringArray::from(vec![cell])) };
    let number = |cell: Option<i64>| -> ArrayRef { Arc::new(Int64Array::from(vec![cell])) };
    assert_eq!(keys(&[text(Some("a")), number(Some(1))]).hashes(), [0x5a7d_172a_dc5e_bdab]);
    assert_eq!(keys(&[text(None), number(None)]).hashes(), [0x00ce_cdfe_2cf2_f0e2]);
}

#[test]
fn a_key_of_no_columns_hashes_to_zero() {
    assert_eq!(Keys::empty_key(2).hashes(), [0, 0]);
    assert_eq!(Keys::with_sub_keys(&[], &[Arc::new(Int64Array::from(vec![7]))], 1).unwrap().hashes(), [0]);
}

#[test]
fn floats_have_one_zero_and_one_nan() {
    let odd_nan = f64::from_bits(0xfff8_0000_0000_0001);
    let doubles = keys(&[Arc::new(Float64Array::from(vec![0.0, -0.0, f64::NAN, odd_nan, 1.5]))]);
    let floats = keys(&[Arc::new(Float32Array::from(vec![0.0, -0.0, f32::NAN, -f32::NAN, 1.5]))]);
    assert_eq!(doubles.hash(0), doubles.hash(1));
    assert_eq!(doubles.hash(2), doubles.hash(3));
    assert_eq!(doubles.hashes(), floats.hashes());
    assert!(doubles.eq_at(2, &floats, 3));
    let canonical: &Float64Array = doubles.columns()[0].as_any().downcast_ref().unwrap();
    assert_eq!(canonical.value(1).to_bits(), 0);
    assert_eq!(canonical.value(3).to_bits(), 0x7ff8_0000_0000_0000);
}

#[test]
fn nulls_are_a_key_and_come_first() {
    let column = || -> ArrayRef { Arc::new(BinaryArray::from(vec![None, Some(b"\xff".as_slice()), None])) };
    let found = keys(&[column()]);
    assert!(found.eq_at(0, &found, 2));
    assert_eq!(found.hash(0), found.hash(1), "the marker is a byte that binary may hold");
    assert_eq!(found.cmp_at(0, &found, 1), Ordering::Less);
    assert!(!found.eq_at(0, &found, 1));
}

#[test]
fn ties_order_by_little_endian_bytes() {
    let found = with_masked_hashes(0, || keys(&[Arc::new(Int64Array::from(vec![1, 256, -1, 0]))]));
    assert_eq!(found.order(), [3, 1, 0, 2]);
}

#[test]
fn order_keeps_the_order_of_equal_keys() {
    let found = keys(&[Arc::new(StringArray::from(vec!["b", "a", "b", "a"]))]);
    let order = found.order();
    let of = |name: &str| -> Vec<u32> {
        order.iter().copied().filter(|&row| found.hash(row as usize) == text_hash(name)).collect()
    };
    assert_eq!(of("a"), [1, 3]);
    assert_eq!(of("b"), [0, 2]);
}

#[test]
fn many_rows_are_ordered_with_any_part_of_the_hashes() {
    for mask in [u64::MAX, u64::MAX >> 20, 0xff << 56, 0xfff, 1 << 63, 0] {
        let numbers: Vec<i64> = (0..5000).map(|i| i * 7919 % 3001).collect();
        let found = with_masked_hashes(mask, || keys(&[Arc::new(Int64Array::from(numbers))]));
        let order = found.order();
        let before = |a: u32, b: u32| found.cmp_at(a as usize, &found, b as usize).then(a.cmp(&b)).is_lt();
        assert_eq!(order.len(), 5000);
        assert!(order.windows(2).all(|pair| before(pair[0], pair[1])), "mask {mask:x}");
    }
}

#[test]
fn slices_and_selections_keep_hashes() {
    let whole: ArrayRef = Arc::new(StringArray::from(vec![Some("x"), None, Some("a"), Some("tidemill")]));
    let all = keys(&[Arc::clone(&whole)]);
    assert_eq!(keys(&[whole.slice(1, 3)]).hashes(), &all.hashes()[1..]);
    let taken = all.take(&[3, 1]).unwrap();
    assert_eq!(taken.hashes(), [all.hash(3), all.hash(1)]);
    assert!(taken.eq_at(1, &all, 1));
}

#[test]
fn a_type_that_cannot_be_a_key_is_refused() {
    let error = Keys::new(&[Arc::new(UInt32Array::from(vec![1]))]).unwrap_err();
    assert!(matches!(&error, Error::InvalidInput(text) if text.contains("UInt32")), "{error}");
}

fn decimal(unscaled: &[i128]) -> Decimal128Array {
    PrimitiveArray::<Decimal128Type>::from(unscaled.to_vec()).with_precision_and_scale(10, 2).unwrap()
}

/// Return the 8 bytes whose XXH3-64 with seed 0 is given.
fn word_of(hash: u64) -> u64 {
    const FACTOR: u64 = 0x9fb2_1c65_1e98_df25;
    const SECRET: u64 = 0x1cad_21f7_2c81_017c ^ 0xdb97_9083_e96d_d4de;
    // The inverse of an odd number by Newton's method; each step doubles the number of correct bits.
    let inverse = (0..6).fold(FACTOR, |x, _| x.wrapping_mul(2u64.wrapping_sub(FACTOR.wrapping_mul(x))));
    let mut x = hash ^ (hash >> 28) ^ (hash >> 56);
    x = x.wrapping_mul(inverse);
    x = (x ^ ((x >> 35) + 8)).wrapping_mul(inverse);
    // The 64th power of this step is the identity, so its 63rd is its inverse.
    x = (0..63).fold(x, |x, _| x ^ x.rotate_left(49) ^ x.rotate_left(24));
    (x ^ SECRET).rotate_left(32)
}

proptest! {
    #[test]
    fn the_hash_of_a_number_identifies_it(numbers in prop::collection::vec(any::<i64>(), 1..50)) {
        let keys = Keys::new(&[Arc::new(Int64Array::from(numbers.clone())) as ArrayRef]).unwrap();
        prop_assert!(keys.are_unique_by_hash(&keys));
        let found: Vec<i64> = keys.hashes().iter().map(|&hash| word_of(hash).cast_signed()).collect();
        prop_assert_eq!(found, numbers);
    }
}

#[test]
fn texts_nulls_and_several_columns_are_not_unique_by_hash() {
    let number: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    let null: ArrayRef = Arc::new(Int64Array::from(vec![None]));
    let text: ArrayRef = Arc::new(StringArray::from(vec!["a"]));
    for columns in [vec![text], vec![null], vec![number.clone(), number.clone()]] {
        let keys = Keys::new(&columns).unwrap();
        assert!(!keys.are_unique_by_hash(&keys));
    }
    let with_sub_key = Keys::with_sub_keys(std::slice::from_ref(&number), std::slice::from_ref(&number), 1).unwrap();
    assert!(!with_sub_key.are_unique_by_hash(&with_sub_key));
}

proptest! {
    #[test]
    fn rows_of_parts_are_sorted_by_hash_and_keep_their_order(
        parts in prop::collection::vec(prop::collection::vec(prop_oneof![any::<u64>(), 0u64..4, Just(u64::MAX)], 0..600), 0..4),
        bits in 0u32..64,
    ) {
        let parts: Vec<Vec<u64>> = parts.into_iter().map(|hashes| hashes.iter().map(|hash| hash >> bits).collect()).collect();
        let mut expected: Vec<(u64, (u32, u32))> = Vec::new();
        for (part, hashes) in (0u32..).zip(&parts) {
            expected.extend((0u32..).zip(hashes).map(|(row, &hash)| (hash, (part, row))));
        }
        expected.sort();
        let parts: Vec<&[u64]> = parts.iter().map(Vec::as_slice).collect();
        let mut found: Vec<(u64, (u32, u32))> = Vec::new();
        let mut is_cut_in_a_tie = false;
        by_hash(&parts, |part, row| (part, row), |pairs| {
            let (last, next) = (found.last().map(|pair| pair.0), pairs.first().map(|pair| pair.0));
            is_cut_in_a_tie |= last.is_some() && last == next;
            found.extend_from_slice(pairs);
        });
        prop_assert_eq!(found, expected);
        prop_assert!(!is_cut_in_a_tie);
    }
}

/// Whether row i of `rows` is key `numbers[i]` of `known`.
fn are_at(known: &Keys, rows: &Keys, numbers: &[u32]) -> bool {
    let (mut found, all) = (KeyTable::default(), (0..known.len() as u32).collect::<Vec<u32>>());
    let (first, second) = all.split_at(all.len() / 2);
    assert!(found.add(known, first) && found.add(known, second));
    found.are_at(rows, numbers)
}

#[test]
fn texts_in_the_table_are_compared_by_every_byte() {
    let text = |length: usize| -> Vec<u8> { (0..length).map(|at| b'a' + (at % 26) as u8).collect() };
    let keys = |texts: &[Vec<u8>]| {
        let column: ArrayRef = Arc::new(texts.iter().map(Some).collect::<BinaryArray>());
        Keys::new(&[column]).unwrap()
    };
    let texts: Vec<Vec<u8>> = (0..40).map(text).collect();
    let all = keys(&texts);
    let numbers: Vec<u32> = (0..40).rev().collect();
    let reversed: Vec<Vec<u8>> = texts.iter().rev().cloned().collect();
    assert!(are_at(&all, &keys(&reversed), &numbers));
    assert!(!are_at(&all, &keys(&reversed[1..]), &numbers[..39]));
    for text in &texts {
        for at in 0..text.len() {
            let mut other = text.clone();
            other[at] ^= 1;
            assert!(!are_at(&all, &keys(&[other]), &[text.len() as u32]), "byte {at} of {}", text.len());
        }
    }
    assert!(!are_at(&all, &keys(&[b"abc\0".to_vec()]), &[3]) && !are_at(&all, &keys(&[b"ab".to_vec()]), &[3]));
}

#[test]
fn keys_in_the_table_compare_all_columns_including_nulls() {
    let columns: [(ArrayRef, ArrayRef); 4] = [
        (Arc::new(StringArray::from(vec![None, Some(""), Some("a")])), Arc::new(StringArray::from(vec!["", "", "b"]))),
        (Arc::new(Int32Array::from(vec![None, Some(0), Some(7)])), Arc::new(Int32Array::from(vec![0, 0, 8]))),
        (
            Arc::new(Decimal128Array::from(vec![None, Some(0), Some(7)])),
            Arc::new(Decimal128Array::from(vec![0, 0, 7 + (1 << 64)])),
        ),
        (
            Arc::new(BooleanArray::from(vec![None, Some(false), Some(true)])),
            Arc::new(BooleanArray::from(vec![false; 3])),
        ),
    ];
    let ones: ArrayRef = Arc::new(Int32Array::from(vec![1, 1, 1]));
    for (with_null, without) in columns {
        for columns in [vec![with_null.clone()], vec![ones.clone(), with_null.clone()]] {
            let some = Keys::new(&columns).unwrap();
            assert!(are_at(&some, &some, &[0, 1, 2]));
            assert!([[1, 1, 2], [0, 0, 2], [0, 1, 1]].iter().all(|numbers| !are_at(&some, &some, numbers)));
            let other: Vec<ArrayRef> = columns[1..].iter().map(|_| ones.clone()).chain([without.clone()]).collect();
            let other = Keys::new(&other).unwrap();
            let same = |number: u32, row: usize| are_at(&some, &other.take(&[row as u32]).unwrap(), &[number]);
            assert!(same(1, 1) && !same(0, 1) && !same(2, 2), "{}", with_null.data_type());
        }
    }
}
