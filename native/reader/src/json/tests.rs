//! Values and records of JSON, for every size of buffer.

use std::io::Cursor;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Float64Type, Int64Type, TimestampMicrosecondType};
use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, Field, Fields, Schema, TimeUnit};
use proptest::prelude::*;

use super::*;
use crate::block::{Block, Limits};
use crate::error::ReadError;
use crate::text::bytes::Form;
use crate::text::encoding::Charset;
use crate::time::{Times, Zone};

const BIG: usize = 1 << 20;

fn options(buffer_bytes: usize) -> JsonOptions {
    JsonOptions {
        multi_line: false,
        allow: Allow {
            comments: false,
            unquoted_names: false,
            single_quotes: true,
            leading_zeros: false,
            any_backslash: false,
            unquoted_control: false,
            non_numeric: true,
        },
        max_depth: MAX_DEPTH,
        line_end: None,
        form: Form { charset: Charset::Utf8, format: "JSON", is_text: false, buffer_bytes },
        limits: Limits { block_rows: 1000, block_bytes: BIG, record_bytes: BIG },
        times: Times::iso(Zone::utc()),
    }
}

fn schema(fields: &[(&str, DataType)]) -> Schema {
    Schema::new(fields.iter().map(|(name, kind)| Field::new(*name, kind.clone(), true)).collect::<Vec<_>>())
}

fn blocks(data: &[u8], schema: &Schema, options: JsonOptions) -> Result<Vec<Block>, ReadError> {
    let mut reader = JsonReader::open(Box::new(Cursor::new(data.to_vec())), schema, options)?;
    let mut found = Vec::new();
    while let Some(block) = reader.next_block()? {
        found.push(block);
    }
    Ok(found)
}

fn column(data: &str, kind: DataType) -> ArrayRef {
    let found = blocks(data.as_bytes(), &schema(&[("v", kind)]), options(64)).unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].rejects, []);
    Arc::clone(found[0].rows.column(0))
}

fn strings(data: &str) -> Vec<Option<String>> {
    column(data, DataType::Utf8).as_string::<i32>().iter().map(|text| text.map(str::to_owned)).collect()
}

fn reasons(data: &str, kind: DataType) -> Vec<String> {
    let found = blocks(data.as_bytes(), &schema(&[("v", kind)]), options(4)).unwrap();
    found.iter().flat_map(|block| block.rejects.iter().map(|reject| reject.reason.clone())).collect()
}

#[test]
fn a_string_column_has_the_exact_text_of_every_value() {
    let lines = "{\"v\":1.10}\n{\"v\":12345678901234567.89}\n{\"v\":{\"a\": [1.0, 2]}}\n{\"v\":true}\n{\"v\":\"x\"}\n{\"v\":null}\n{}\n";
    let texts = ["1.10", "12345678901234567.89", "{\"a\": [1.0, 2]}", "true", "x"];
    let mut wanted: Vec<Option<String>> = texts.iter().map(|text| Some((*text).to_owned())).collect();
    wanted.extend([None, None]);
    assert_eq!(strings(lines), wanted);
}

#[test]
fn the_last_of_equal_names_counts() {
    assert_eq!(column("{\"v\":1,\"v\":2}", DataType::Int64).as_primitive::<Int64Type>().values(), &[2]);
}

#[test]
fn names_and_strings_may_have_escapes() {
    assert_eq!(strings(r#"{"\u0076":"a\n\u00e9\ud83d\ude00\"\/"}"#), [Some("a\né😀\"/".to_owned())]);
    assert_eq!(reasons("{\"v\":\"\\ud83d\"}", DataType::Utf8).len(), 1);
}

#[test]
fn decimals_keep_every_digit() {
    let found = column("{\"v\":12345678901234567.89}\n{\"v\":\"1.005\"}\n", DataType::Decimal128(38, 2));
    assert_eq!(found.as_primitive::<Decimal128Type>().values(), &[1_234_567_890_123_456_789, 101]);
}

#[test]
fn numbers_are_not_read_from_strings_or_fractions() {
    let lines = "{\"v\":\"1\"}\n{\"v\":1.0}\n{\"v\":1e2}\n{\"v\":9223372036854775808}\n{\"v\":true}\n";
    assert_eq!(
        reasons(lines, DataType::Int64),
        [
            "found `\"1\"`, expected bigint",
            "found `1.0`, expected bigint",
            "found `1e2`, expected bigint",
            "found `9223372036854775808`, expected bigint",
            "found `true`, expected bigint"
        ]
    );
}

#[test]
fn a_double_may_be_spelled() {
    let found = column("{\"v\":\"NaN\"}\n{\"v\":-INF}\n{\"v\":\"+Infinity\"}\n{\"v\":-0}\n", DataType::Float64);
    let found = found.as_primitive::<Float64Type>().values().to_vec();
    assert!(found[0].is_nan() && found[3].is_sign_negative());
    assert_eq!(&found[1..3], &[f64::NEG_INFINITY, f64::INFINITY]);
}

#[test]
fn a_number_is_a_timestamp_in_seconds() {
    let kind = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
    let found = column("{\"v\":1}\n{\"v\":\"1970-01-01T00:00:02Z\"}\n", kind);
    assert_eq!(found.as_primitive::<TimestampMicrosecondType>().values(), &[1_000_000, 2_000_000]);
}

#[test]
fn binary_is_base64() {
    let found = column("{\"v\":\"aGk=\"}\n{\"v\":\"aGk\"}\n{\"v\":\"\"}\n", DataType::Binary);
    assert_eq!(found.as_binary::<i32>().iter().flatten().collect::<Vec<_>>(), [&b"hi"[..], b"hi", b""]);
    assert_eq!(reasons("{\"v\":\"a\"}\n{\"v\":\"a=\"}\n{\"v\":\"????\"}\n{\"v\":1}\n", DataType::Binary).len(), 4);
}

fn nested() -> DataType {
    let pair = Fields::from(vec![Field::new("key", DataType::Utf8, false), Field::new("value", DataType::Int64, true)]);
    let map = DataType::Map(Arc::new(Field::new("entries", DataType::Struct(pair), false)), false);
    let item = Field::new("item", DataType::Int64, true);
    DataType::Struct(Fields::from(vec![
        Field::new("list", DataType::List(Arc::new(item)), true),
        Field::new("map", map, true),
    ]))
}

#[test]
fn nested_values_are_read_at_any_depth() {
    let found = column(
        "{\"v\":{\"map\":{\"a\":1,\"b\":null,\"a\":3},\"list\":[1,null]}}\n{\"v\":null}\n{\"v\":{}}\n",
        nested(),
    );
    let found = found.as_struct();
    assert!(found.is_null(1));
    let (list, map) = (found.column(0).as_list::<i32>(), found.column(1).as_map());
    assert_eq!(list.value(0).as_primitive::<Int64Type>().iter().collect::<Vec<_>>(), [Some(1), None]);
    assert_eq!(map.value(0).column(0).as_string::<i32>().iter().flatten().collect::<Vec<_>>(), ["b", "a"]);
    assert!(list.is_null(2) && map.is_null(2));
}

#[test]
fn a_misfit_at_any_depth_rejects_its_record_alone() {
    let lines =
        "{\"v\":{\"list\":[1]}}\n{\"v\":{\"list\":[\"x\"]}}\n{\"v\":{\"map\":{\"a\":1.5}}}\n{\"v\":[]}\n{\"v\":{}}\n";
    let found = blocks(lines.as_bytes(), &schema(&[("v", nested())]), options(4)).unwrap();
    assert_eq!(found[0].rows.column(1).as_primitive::<Int64Type>().values(), &[0, 4]);
    assert_eq!(found[0].rejects.iter().map(|reject| reject.line).collect::<Vec<_>>(), [2, 3, 4]);
}

#[test]
fn an_array_on_a_line_has_a_record_an_element() {
    let found =
        blocks(b"[{\"v\":1},{\"v\":\"x\"},{\"v\":3}]\n[]\n{\"v\":4}\n", &schema(&[("v", DataType::Int64)]), options(4));
    let found = found.unwrap();
    assert_eq!(found[0].rows.column(0).as_primitive::<Int64Type>().values(), &[1, 3, 4]);
    assert_eq!(found[0].rows.column(1).as_primitive::<Int64Type>().values(), &[0, 2, 3]);
    assert_eq!(found[0].rejects[0].text, "{\"v\":\"x\"}");
}

#[test]
fn what_is_no_object_is_a_reject_with_its_text() {
    for text in [
        "1",
        "null",
        "\"x\"",
        "{",
        "{\"v\":1",
        "{\"v\":1}}",
        "{\"v\":1} {\"v\":2}",
        "{v:1}",
        "{\"v\":01}",
        "[1]",
        "{\"v\":\"\u{1}\"}",
        "{\"v\":1,}",
    ] {
        let found =
            blocks(format!("{text}\n{{\"v\":2}}").as_bytes(), &schema(&[("v", DataType::Int64)]), options(4)).unwrap();
        assert_eq!(found[0].rejects.len(), 1, "{text}");
        assert_eq!(found[0].rejects[0].text, text.trim_matches(&['[', ']'][..]));
        assert_eq!(found[0].rows.num_rows(), 1, "{text}");
    }
}

#[test]
fn options_allow_more() {
    let all = || {
        let mut options = options(16);
        options.allow = Allow {
            comments: true,
            unquoted_names: true,
            single_quotes: true,
            leading_zeros: true,
            any_backslash: true,
            unquoted_control: true,
            non_numeric: true,
        };
        options
    };
    for text in ["{v:1}", "{'v':1}", "{\"v\":01}", "/* x */{\"v\":1}// y", "{\"v\":1,\"w\":\"\\q\u{1}\"}"] {
        let found = blocks(text.as_bytes(), &schema(&[("v", DataType::Int64)]), all()).unwrap();
        assert_eq!(found[0].rejects, [], "{text}");
        assert_eq!(found[0].rows.column(0).as_primitive::<Int64Type>().values(), &[1], "{text}");
    }
}

#[test]
fn deep_nesting_is_a_reject() {
    let text = format!("{{\"v\":{}1{}}}", "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(reasons(&text, DataType::Utf8), ["not a JSON object: byte 1005: nested too deeply"]);
}

#[test]
fn the_elements_of_an_array_fill_blocks_as_lines_do() {
    let data = format!("{{\"v\":0}}\n[{}]\n{{\"v\":9}}\n", ["{\"v\":1}", "7"].repeat(2000).join(","));
    for buffer_bytes in [4, BIG] {
        let mut small = options(buffer_bytes);
        small.limits.block_rows = 700;
        let found = blocks(data.as_bytes(), &schema(&[("v", DataType::Int64)]), small).unwrap();
        let sizes: Vec<_> = found.iter().map(|block| (block.rows.num_rows(), block.rejects.len())).collect();
        assert_eq!(sizes, [(700, 698), (699, 700), (603, 602)]);
        let numbers = |block: &Block| block.rows.column(1).as_primitive::<Int64Type>().values().to_vec();
        let rows: Vec<i64> = found.iter().flat_map(numbers).collect();
        assert_eq!(rows, (0..1).chain((1..4001).step_by(2)).chain(4001..4002).collect::<Vec<_>>());
        assert!(found.iter().flat_map(|block| &block.rejects).all(|reject| reject.line == 2 && reject.text == "7"));
        assert_eq!(found[2].rows.column(0).as_primitive::<Int64Type>().values().last(), Some(&9));
    }
}

#[test]
fn a_name_with_a_lone_surrogate_is_no_other_name() {
    let found = blocks(b"{\"v\":1,\"v\\ud800zz\":2}\n", &schema(&[("v", DataType::Int64)]), options(64)).unwrap();
    assert_eq!(found[0].rows.column(0).as_primitive::<Int64Type>().values(), &[1]);
}

#[test]
fn a_line_of_comments_is_no_record() {
    let mut comments = options(64);
    comments.allow.comments = true;
    let found = blocks(b"// x\n{\"v\":1} // y\n/* z */\n", &schema(&[("v", DataType::Int64)]), comments).unwrap();
    assert_eq!((found[0].rows.num_rows(), found[0].rejects.len()), (1, 0));
}

#[test]
fn rejects_end_a_block_as_rows_do() {
    for buffer_bytes in [4, 7, BIG] {
        let mut small = options(buffer_bytes);
        small.limits.block_rows = 30;
        let found = blocks("x\n".repeat(100).as_bytes(), &schema(&[("v", DataType::Int64)]), small).unwrap();
        assert_eq!(found.iter().map(|block| block.rejects.len()).collect::<Vec<_>>(), [30, 30, 30, 10]);
    }
}

fn many(data: &str, buffer_bytes: usize) -> Result<Vec<Block>, ReadError> {
    let options = JsonOptions { multi_line: true, ..options(buffer_bytes) };
    blocks(data.as_bytes(), &schema(&[("v", DataType::Int64)]), options)
}

#[test]
fn values_may_stand_over_several_lines() {
    for text in ["[\n{\"v\":\n1},\r\n{\"v\": 2}\n]\n", "{\"v\":1}\n\n{\"v\"\n:2}", "[{\"v\":1}]\n[{\"v\":2}]"] {
        for buffer_bytes in [4, 7, BIG] {
            let found = many(text, buffer_bytes).unwrap();
            assert_eq!(found[0].rows.column(0).as_primitive::<Int64Type>().values(), &[1, 2], "{text}");
        }
    }
    assert!(many("", 4).unwrap().is_empty());
    let found = many("[\n{\"v\":1},\n{\"v\":\"x\"}]", 4).unwrap();
    assert_eq!((found[0].rejects[0].line, found[0].rejects[0].text.as_str()), (3, "{\"v\":\"x\"}"));
}

#[test]
fn a_file_that_ends_within_a_value_is_unreadable() {
    for text in ["[{\"v\":1}", "[{\"v\":1},", "{\"v\":1}{", "[{\"v\":1} {\"v\":2}]", "]", "[{\"v\":1},]"] {
        assert!(matches!(many(text, 4), Err(ReadError::Content(_))), "{text}");
    }
}

fn token() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"v\"",
        "\"w\"",
        "1",
        "-2.5e3",
        "true",
        "null",
        "\"",
        "\\",
        "'x'",
        "\n",
        "\r",
        "\r\n",
        " ",
        "{\"v\":1}",
        "{\"v\":\"a\"}",
        "NaN",
        "é",
        "\\u00e9",
        "\\ud800",
    ])
}

/// The model: lines that are not blank.
fn lines(data: &str) -> Vec<String> {
    let text = data.replace("\r\n", "\n").replace('\r', "\n");
    text.split('\n').filter(|line| !line.trim_matches(&[' ', '\t'][..]).is_empty()).map(str::to_owned).collect()
}

proptest! {
    #[test]
    fn every_line_is_rows_or_one_reject_for_every_size_of_buffer(parts in prop::collection::vec(token(), 0..30)) {
        let data = parts.concat();
        let wanted = schema(&[("v", DataType::Utf8), ("w", nested())]);
        let read = |buffer_bytes| {
            let found = blocks(data.as_bytes(), &wanted, options(buffer_bytes)).unwrap();
            found.into_iter().map(|block| (block.rows, block.rejects)).collect::<Vec<_>>()
        };
        let whole = read(BIG);
        for buffer_bytes in [4, 7, 64] {
            prop_assert_eq!(&read(buffer_bytes), &whole);
        }
        let lines = lines(&data);
        let records: usize = whole.iter().map(|(rows, rejects)| rows.num_rows() + rejects.len()).sum();
        prop_assert!(records >= lines.iter().filter(|line| !line.trim_start().starts_with('[')).count());
        for (_, rejects) in &whole {
            for reject in rejects {
                prop_assert!(lines.iter().any(|line| line.contains(&reject.text)), "{:?}", reject);
            }
        }
    }

    #[test]
    fn random_bytes_never_panic(data in prop::collection::vec(any::<u8>(), 0..200), multi_line: bool) {
        let read = |buffer_bytes| {
            let options = JsonOptions { multi_line, ..options(buffer_bytes) };
            let found = blocks(&data, &schema(&[("v", nested())]), options);
            found.map(|found| found.into_iter().map(|block| (block.rows, block.rejects)).collect::<Vec<_>>())
                .map_err(|error| error.to_string())
        };
        prop_assert_eq!(read(4), read(BIG));
    }

    #[test]
    fn the_length_of_a_record_alone_decides_whether_it_is_too_long(
        parts in prop::collection::vec(token(), 0..30),
        record_bytes in 1usize..40,
        multi_line: bool,
    ) {
        let data = parts.concat();
        let read = |buffer_bytes| {
            let mut short = JsonOptions { multi_line, ..options(buffer_bytes) };
            short.limits.record_bytes = record_bytes;
            let found = blocks(data.as_bytes(), &schema(&[("v", nested())]), short);
            // Text that is no value at all may be refused for that, before it is too long.
            found.map(|found| found.len()).map_err(|error| if multi_line { String::new() } else { error.to_string() })
        };
        let whole = read(BIG);
        for buffer_bytes in [4, 5, 7, 64] {
            prop_assert_eq!(&read(buffer_bytes), &whole);
        }
        if whole.is_ok() && !multi_line {
            prop_assert!(lines(&data).iter().all(|line| line.len() <= record_bytes));
        }
    }
}
