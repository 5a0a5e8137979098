//! Records and fields of CSV, compared with a slow splitter, for every size of buffer.

use std::io::Cursor;

use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_schema::{DataType, Field, Schema};
use proptest::prelude::*;

use super::*;
use crate::block::{Block, Limits};
use crate::columns::{ByName, Missing};
use crate::error::ReadError;
use crate::text::bytes::Form;
use crate::text::encoding::Charset;
use crate::time::{Times, Zone};

const BIG: usize = 1 << 20;

fn form(buffer_bytes: usize) -> Form {
    Form { charset: Charset::Utf8, format: "CSV", is_text: false, buffer_bytes }
}

fn options(dialect: Dialect, matching: Matching, buffer_bytes: usize) -> CsvOptions {
    let limits = Limits { block_rows: 1000, block_bytes: BIG, record_bytes: BIG };
    CsvOptions { dialect, matching, form: form(buffer_bytes), limits, times: Times::iso(Zone::utc()) }
}

fn schema(fields: &[(&str, DataType)]) -> Schema {
    Schema::new(fields.iter().map(|(name, kind)| Field::new(*name, kind.clone(), true)).collect::<Vec<_>>())
}

fn texts(count: usize) -> Schema {
    Schema::new((0..count).map(|n| Field::new(format!("c{n}"), DataType::Utf8, true)).collect::<Vec<_>>())
}

fn blocks(data: &[u8], schema: &Schema, options: CsvOptions) -> Result<Vec<Block>, ReadError> {
    let mut reader = CsvReader::open(Box::new(Cursor::new(data.to_vec())), schema, options)?;
    let mut found = Vec::new();
    while let Some(block) = reader.next_block()? {
        found.push(block);
    }
    Ok(found)
}

type Row = Vec<Option<String>>;
/// Line, reason and text of a reject.
type Text = (u64, String, String);

/// The rows as text with their numbers, and the rejects as (line, reason, text).
fn read(data: &[u8], schema: &Schema, options: CsvOptions) -> (Vec<(i64, Row)>, Vec<Text>) {
    let (mut rows, mut rejects) = (Vec::new(), Vec::new());
    for block in blocks(data, schema, options).unwrap() {
        let width = block.rows.num_columns() - 1;
        for row in 0..block.rows.num_rows() {
            let number = block.rows.column(width).as_primitive::<Int64Type>().value(row);
            let cell = |column: usize| {
                let array = block.rows.column(column);
                (!array.is_null(row)).then(|| match array.data_type() {
                    DataType::Int32 => array.as_primitive::<Int32Type>().value(row).to_string(),
                    _ => array.as_string::<i32>().value(row).to_owned(),
                })
            };
            rows.push((number, (0..width).map(cell).collect()));
        }
        rejects.extend(block.rejects.into_iter().map(|reject| (reject.line, reject.reason, reject.text)));
    }
    (rows, rejects)
}

fn cells(data: &str, width: usize, dialect: Dialect) -> Vec<Row> {
    let (rows, rejects) = read(data.as_bytes(), &texts(width), options(dialect, Matching::NoHeader, 64));
    assert_eq!(rejects, []);
    rows.into_iter().map(|(_, row)| row).collect()
}

fn one(data: &str) -> Row {
    let mut rows = cells(data, data.matches(',').count() + 1, Dialect::default());
    assert_eq!(rows.len(), 1, "{data:?}");
    rows.remove(0)
}

fn some(cells: &[&str]) -> Row {
    cells.iter().map(|cell| Some((*cell).to_owned())).collect()
}

#[test]
fn a_quote_opens_a_field_only_directly_after_a_separator() {
    let both = schema(&[("n", DataType::Int32), ("t", DataType::Utf8)]);
    let (rows, rejects) = read(b"1, \"p\n2,x\n3,q\"\n4,z\n", &both, options(Dialect::default(), Matching::NoHeader, 8));
    let rows: Vec<Row> = rows.into_iter().map(|(_, row)| row).collect();
    assert_eq!(rows, [some(&["1", " \"p"]), some(&["2", "x"]), some(&["3", "q\""]), some(&["4", "z"])]);
    assert_eq!(rejects, []);
}

#[test]
fn every_kind_of_line_end_ends_a_record() {
    let with_header = Matching::Name(ByName::lenient(Missing::Fail));
    let both = schema(&[("a", DataType::Int32), ("b", DataType::Utf8)]);
    for data in ["a,b\r1,x\r2,y\r", "a,b\r1,x\n2,y", "a,b\r\n1,x\r2,y\r\n", "a,b\n\n1,x\r\r\n2,y\n\n"] {
        let (rows, rejects) = read(data.as_bytes(), &both, options(Dialect::default(), with_header.clone(), 4));
        assert_eq!(rows, [(0, some(&["1", "x"])), (1, some(&["2", "y"]))], "{data:?}");
        assert_eq!(rejects, []);
    }
}

#[test]
fn line_ends_in_quotes_belong_to_the_field() {
    assert_eq!(cells("\"a\r\n,b\",c\n", 2, Dialect::default()), [some(&["a\r\n,b", "c"])]);
}

#[test]
fn a_backslash_escapes_a_quote_and_a_doubled_quote_makes_the_field_literal() {
    assert_eq!(one(r#""a\"b",c"#), some(&["a\"b", "c"]));
    assert_eq!(one(r#""a\\",c"#), some(&["a\\", "c"]));
    assert_eq!(one(r#""a\b",c"#), some(&["a\\b", "c"]));
    assert_eq!(one(r#""a""b",c"#), some(&["\"a\"\"b\"", "c"]));
    assert_eq!(one(r#"a\"b,c"#), some(&["a\\\"b", "c"]));
}

#[test]
fn a_doubled_quote_is_a_quote_if_the_quote_is_the_escape() {
    let doubled = Dialect { escape: Some(b'"'), escape_escape: None, ..Dialect::default() };
    assert_eq!(cells("\"a\"\"b\",\"\"\"\"\n", 2, doubled), [some(&["a\"b", "\""])]);
}

#[test]
fn text_after_a_closing_quote_makes_the_field_literal() {
    assert_eq!(one("\"a\"b,c"), some(&["\"a\"b", "c"]));
    assert_eq!(one("\"a\" b,c"), some(&["\"a\" b", "c"]));
    assert_eq!(one("\"a\" ,c"), some(&["a", "c"]));
}

#[test]
fn an_unclosed_quote_is_a_reject_on_the_last_line_and_else_an_error() {
    let read_one = |data: &[u8]| read(data, &texts(2), options(Dialect::default(), Matching::NoHeader, 4));
    let (rows, rejects) = read_one(b"1,a\n2,\"b\n");
    assert_eq!(rows, [(0, some(&["1", "a"]))]);
    assert_eq!(rejects, [(2, "a quote is not closed".into(), "2,\"b\n".into())]);
    let found = blocks(b"1,a\n2,\"b\n3,c\n", &texts(2), options(Dialect::default(), Matching::NoHeader, 4));
    let Err(ReadError::Content(open)) = found else { panic!("{found:?}") };
    assert_eq!(open.line, Some(2));
}

#[test]
fn text_that_begins_like_another_format_is_text() {
    for data in ["PARENT_ID,NAME\n1,x\n", "%PDF-,PK\n", "ORC,x\n", "PAR1,PAR1\n"] {
        assert!(
            blocks(data.as_bytes(), &texts(2), options(Dialect::default(), Matching::NoHeader, 64)).is_ok(),
            "{data}"
        );
    }
    for data in [&b"PAR1\x15\x00\x00"[..], b"a\0,\0b\0\n\0", b"\0a\0,\0b\0\n"] {
        let found = blocks(data, &texts(2), options(Dialect::default(), Matching::NoHeader, 64));
        assert!(matches!(found, Err(ReadError::Content(_))), "{found:?}");
    }
    let known =
        CsvOptions { form: Form { is_text: true, ..form(64) }, ..options(Dialect::default(), Matching::NoHeader, 64) };
    assert_eq!(read(b"PK\x03\x04,y\n", &texts(2), known).0, [(0, some(&["PK\u{3}\u{4}", "y"]))]);
}

#[test]
fn a_separator_may_have_several_characters() {
    let dialect = || Dialect { separator: b"||".to_vec(), ..Dialect::default() };
    assert_eq!(cells("a|b||\"c||d\"||e|\n", 3, dialect()), [some(&["a|b", "c||d", "e|"])]);
    let section = Dialect { separator: "§".as_bytes().to_vec(), ..Dialect::default() };
    assert_eq!(cells("é§ü\n", 2, section), [some(&["é", "ü"])]);
}

#[test]
fn white_space_is_dropped_on_request() {
    let dialect = Dialect { trim_leading: true, trim_trailing: true, ..Dialect::default() };
    assert_eq!(cells("  a\t, \"b\" ,  c d \n", 3, dialect), [some(&["a", "b", "c d"])]);
}

#[test]
fn comments_and_blank_lines_are_no_records() {
    let dialect = Dialect { comment: Some(b'#'), ..Dialect::default() };
    let (rows, _) = read(b"#x\n1\n\n  \n#y\n2", &texts(1), options(dialect, Matching::NoHeader, 4));
    assert_eq!(rows, [(0, some(&["1"])), (1, some(&["2"]))]);
}

#[test]
fn columns_are_matched_by_name_in_any_order() {
    let wanted = schema(&[("b", DataType::Int32), ("A", DataType::Utf8), ("new", DataType::Utf8)]);
    let matching = Matching::Name(ByName::lenient(Missing::Null));
    let (rows, rejects) = read(b"a,,b\nx,?,1\ny,2\n", &wanted, options(Dialect::default(), matching, 4));
    assert_eq!(rows, [(0, vec![Some("1".into()), Some("x".into()), None])]);
    assert_eq!(rejects, [(3, "too few columns: found 2, expected 3".into(), "y,2".into())]);
}

#[test]
fn a_header_without_any_column_of_the_schema_is_another_file() {
    let matching = Matching::Name(ByName::lenient(Missing::Null));
    let found = blocks(b"x,y\n1,2\n", &texts(2), options(Dialect::default(), matching, 64));
    let Err(ReadError::Content(other)) = found else { panic!("{found:?}") };
    assert_eq!(other.reason, "the header has the columns `x`, `y`, expected `c0`, `c1`");
    assert_eq!(other.line, Some(1));
}

#[test]
fn names_that_stand_twice_get_their_places() {
    let names = ["a", "A", "", "b"].map(|name| (!name.is_empty()).then(|| name.to_owned()));
    assert_eq!(header::safe(&names), ["a0", "A1", "_c2", "b"]);
}

#[test]
fn a_name_of_two_columns_is_no_column() {
    let matching = Matching::Name(ByName::lenient(Missing::Fail));
    for (header, name) in
        [("a,b,a", "a"), ("a,b,A", "aA"), ("a,b,A", "b,a,x"), (",_c0,x", "_c0"), ("a,a,A0,a0", "a0,A")]
    {
        let data = format!("{header}\n1,2,3\n");
        let columns: Vec<_> = name.split(',').map(|name| (name, DataType::Utf8)).collect();
        let found = blocks(data.as_bytes(), &schema(&columns), options(Dialect::default(), matching.clone(), 64));
        assert!(matches!(found, Err(ReadError::Content(_))), "{header}: {found:?}");
    }
}

#[test]
fn a_column_that_stands_twice_is_never_missing() {
    let matching = Matching::Name(ByName::lenient(Missing::Null));
    for header in ["note,note,id", "note,NOTE,id", "id,NOTE,Note"] {
        let data = format!("{header}\n1,2,3\n");
        let wanted = schema(&[("id", DataType::Utf8), ("note", DataType::Utf8)]);
        let found = blocks(data.as_bytes(), &wanted, options(Dialect::default(), matching.clone(), 64));
        let exact = header.matches("note").count() == 1;
        let Err(ReadError::Content(refused)) = found else {
            assert!(exact, "{header}: {found:?}");
            continue;
        };
        assert!(!exact && refused.reason.ends_with("expected one column `note`"), "{header}: {refused:?}");
    }
}

#[test]
fn a_name_is_that_in_the_header_or_that_of_spark() {
    let matching = Matching::Name(ByName::lenient(Missing::Fail));
    for (header, names, values) in [
        ("note,NOTE,id", "NOTE,note,id", "2,1,3"),
        ("note,NOTE,id", "note0,NOTE1,ID", "1,2,3"),
        ("a,a0,a", "a0", "2"),
        (",x,", "_c2,x,_c0", "3,2,1"),
    ] {
        let columns: Vec<_> = names.split(',').map(|name| (name, DataType::Utf8)).collect();
        let data = format!("{header}\n1,2,3\n");
        let found =
            blocks(data.as_bytes(), &schema(&columns), options(Dialect::default(), matching.clone(), 64)).unwrap();
        let read: Vec<_> = (0..columns.len()).map(|n| found[0].rows.column(n).as_string::<i32>().value(0)).collect();
        assert_eq!(read.join(","), values, "{header}: {names}");
    }
}

#[test]
fn a_value_that_does_not_fit_is_a_reject_with_its_column() {
    let both = schema(&[("n", DataType::Int32), ("t", DataType::Utf8)]);
    let found = blocks(b"1,a\nx,b\n3,c\n", &both, options(Dialect::default(), Matching::NoHeader, 4)).unwrap();
    assert_eq!(found.len(), 1);
    let reject = &found[0].rejects[0];
    assert_eq!((reject.line, reject.column, reject.text.as_str()), (2, Some(0), "x,b"));
    assert_eq!(reject.reason, "found `x`, expected int");
    assert_eq!(found[0].rows.column(2).as_primitive::<Int64Type>().values(), &[0, 2]);
}

#[test]
fn a_record_that_is_no_utf8_is_a_reject_and_its_neighbours_are_rows() {
    let (rows, rejects) = read(b"a\n\xe9\nb\n", &texts(1), options(Dialect::default(), Matching::NoHeader, 64));
    assert_eq!(rows, [(0, some(&["a"])), (2, some(&["b"]))]);
    assert_eq!(rejects, [(2, "not UTF-8".into(), "\\xe9".into())]);
}

#[test]
fn a_record_that_is_too_long_is_one_error() {
    let mut short = options(Dialect::default(), Matching::NoHeader, 4);
    short.limits.record_bytes = 100;
    let data = format!("1\n\"{}", "x\n".repeat(1000));
    let found = blocks(data.as_bytes(), &texts(1), short);
    let Err(ReadError::Content(long)) = found else { panic!("{found:?}") };
    assert_eq!(long.line, Some(2));
}

#[test]
fn blocks_are_cut_by_records_alone() {
    let data: String = (0..100).map(|n| format!("{n}\n")).collect();
    for buffer_bytes in [4, 7, 4096] {
        let mut small = options(Dialect::default(), Matching::NoHeader, buffer_bytes);
        small.limits = Limits { block_rows: 30, block_bytes: 50, record_bytes: BIG };
        let rows: Vec<usize> =
            blocks(data.as_bytes(), &texts(1), small).unwrap().iter().map(|block| block.rows.num_rows()).collect();
        assert_eq!(rows, [20, 17, 17, 17, 17, 12]);
    }
}

#[test]
fn a_long_header_is_read_in_linear_time() {
    let names: Vec<String> = (0..100_000).map(|n| format!("c{}", n % 75_000)).collect();
    let data = names.join(",") + "\n";
    let matching = Matching::Name(ByName::lenient(Missing::Null));
    let found =
        blocks(data.as_bytes(), &schema(&[("c74999", DataType::Utf8)]), options(Dialect::default(), matching, BIG));
    assert!(found.unwrap().is_empty());
}

#[test]
fn a_column_that_must_have_values_may_not_be_missing() {
    let needed = Schema::new(vec![Field::new("a", DataType::Utf8, true), Field::new("b", DataType::Utf8, false)]);
    let matching = Matching::Name(ByName::lenient(Missing::Null));
    let found = blocks(b"a\n1\n", &needed, options(Dialect::default(), matching, 64));
    assert!(matches!(found, Err(ReadError::Content(_))), "{found:?}");
}

#[test]
fn rejects_end_a_block_as_rows_do() {
    let data: String = (0..100).map(|n| if n % 3 == 0 { format!("{n}\n") } else { "x\n".into() }).collect();
    for buffer_bytes in [4, 7, BIG] {
        let mut small = options(Dialect::default(), Matching::NoHeader, buffer_bytes);
        small.limits.block_rows = 30;
        let found = blocks(data.as_bytes(), &schema(&[("n", DataType::Int32)]), small).unwrap();
        let sizes: Vec<_> = found.iter().map(|block| (block.rows.num_rows(), block.rejects.len())).collect();
        assert_eq!(sizes, [(15, 30), (15, 30), (4, 6)]);
    }
}

/// The model: a record ends at a line end outside of quotes; a quote opens only at the start of a field.
fn records(data: &str) -> Vec<String> {
    let text: Vec<char> = data.chars().collect();
    let (mut found, mut record, mut at, mut field_start) = (Vec::new(), String::new(), 0, true);
    while at < text.len() {
        let character = text[at];
        if field_start && character == '"' {
            let start = at;
            at += 1;
            while at < text.len() && text[at] != '"' {
                at += if text[at] == '\\' && at + 1 < text.len() { 2 } else { 1 };
            }
            while at < text.len() && text[at] == '"' {
                at += 1; // the closing quote, or doubled ones: with a backslash as escape each may close the field
            }
            record.extend(&text[start..at.min(text.len())]);
            field_start = false;
        } else if matches!(character, '\n' | '\r') {
            at += if text[at..].starts_with(&['\r', '\n']) { 2 } else { 1 };
            if !record.trim_matches(|c| c <= ' ').is_empty() {
                found.push(record.clone());
            }
            (record, field_start) = (String::new(), true);
        } else {
            record.push(character);
            field_start = character == ',';
            at += 1;
        }
    }
    if !record.trim_matches(|c| c <= ' ').is_empty() {
        found.push(record);
    }
    found
}

fn token() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["\"", "\"\"", "\\", ",", "\n", "\r", "\r\n", " ", "a", "bc", "é", "\"x\"", ",\"", "\","])
}

proptest! {
    #[test]
    fn every_record_is_one_row_or_one_reject_for_every_size_of_buffer(parts in prop::collection::vec(token(), 0..40)) {
        let data = parts.concat();
        let wanted = records(&data);
        let last = wanted.last().map_or("", |last| last.trim_end_matches(['\n', '\r']));
        if blocks(data.as_bytes(), &texts(2), options(Dialect::default(), Matching::NoHeader, BIG)).is_err() {
            prop_assert!(last.contains('"') && last.contains(['\n', '\r']), "{:?}", last);
            return Ok(());
        }
        let whole = read(data.as_bytes(), &texts(2), options(Dialect::default(), Matching::NoHeader, BIG));
        for buffer_bytes in [4, 5, 7, 64] {
            let found = read(data.as_bytes(), &texts(2), options(Dialect::default(), Matching::NoHeader, buffer_bytes));
            prop_assert_eq!(&found, &whole);
        }
        prop_assert_eq!(whole.0.len() + whole.1.len(), wanted.len());
        for (_, _, text) in &whole.1 {
            prop_assert!(wanted.contains(text), "{:?} is not among {:?}", text, wanted);
        }
    }

    #[test]
    fn random_bytes_are_rows_and_rejects_for_every_size_of_buffer(data in prop::collection::vec(any::<u8>(), 0..200)) {
        let read = |buffer_bytes| {
            let found = blocks(&data, &texts(2), options(Dialect::default(), Matching::NoHeader, buffer_bytes));
            found.map(|found| found.iter().map(|block| (block.rows.clone(), block.rejects.clone())).collect::<Vec<_>>())
        };
        match (read(4), read(BIG)) {
            (Ok(small), Ok(big)) => prop_assert_eq!(small, big),
            (Err(small), Err(big)) => prop_assert_eq!(small.to_string(), big.to_string()),
            (small, big) => prop_assert!(false, "{:?} {:?}", small, big),
        }
    }

    #[test]
    fn the_length_of_a_record_alone_decides_whether_it_is_too_long(
        parts in prop::collection::vec(token(), 0..40),
        record_bytes in 1usize..30,
        has_header: bool,
    ) {
        let data = parts.concat();
        let read = |buffer_bytes| {
            let matching = if has_header { Matching::Position } else { Matching::NoHeader };
            let mut short = options(Dialect { comment: Some(b'b'), ..Dialect::default() }, matching, buffer_bytes);
            short.limits.record_bytes = record_bytes;
            let found = blocks(data.as_bytes(), &texts(2), short);
            found.map(|found| found.len()).map_err(|error| error.to_string())
        };
        let whole = read(BIG);
        for buffer_bytes in [4, 5, 7, 64] {
            prop_assert_eq!(&read(buffer_bytes), &whole);
        }
        let longest = records(&data).iter().map(String::len).max().unwrap_or(0);
        if whole.is_ok() && !data.contains('b') {
            prop_assert!(longest <= record_bytes);
        }
    }
}
