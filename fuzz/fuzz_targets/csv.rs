//! Gives any bytes to the reader of CSV: the result must be the same for every size of buffer, and nothing panics.

#![no_main]

use std::io::Cursor;

use arrow_schema::{DataType, Field, Schema, TimeUnit};
use libfuzzer_sys::fuzz_target;
use tidemill_fuzz::check_same;
use tidemill_reader::block::Limits;
use tidemill_reader::columns::{ByName, Missing};
use tidemill_reader::csv::{CsvOptions, CsvReader, Dialect, Matching};
use tidemill_reader::text::bytes::Form;
use tidemill_reader::text::encoding::Charset;
use tidemill_reader::time::{Times, Zone};

fn schema() -> Schema {
    Schema::new(vec![
        Field::new("a", DataType::Int32, true),
        Field::new("b", DataType::Utf8, true),
        Field::new("c", DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())), true),
    ])
}

fn read(data: &[u8], flags: u8, buffer_bytes: usize) -> Result<Vec<String>, String> {
    let has = |flag: u8| flags & flag != 0;
    let default = Dialect::default();
    let dialect = Dialect {
        separator: if has(2) { b"||".to_vec() } else { default.separator.clone() },
        escape: if has(4) { default.quote } else { default.escape },
        escape_escape: if has(4) { None } else { default.escape_escape },
        comment: has(8).then_some(b'#'),
        trim_leading: has(16),
        trim_trailing: has(16),
        line_end: has(32).then(|| b"\r\n".to_vec()),
        ..default
    };
    let options = CsvOptions {
        dialect,
        matching: if has(1) { Matching::NoHeader } else { Matching::Name(ByName::lenient(Missing::Null)) },
        form: Form {
            charset: if has(64) { Charset::Utf16 } else { Charset::Utf8 },
            format: "CSV",
            is_text: false,
            buffer_bytes,
        },
        limits: Limits { block_rows: 7, block_bytes: 100, record_bytes: 1 << 20 },
        times: Times::iso(Zone::utc()),
    };
    let file = Box::new(Cursor::new(data.to_vec()));
    let mut reader = CsvReader::open(file, &schema(), options).map_err(|error| error.to_string())?;
    let mut found = Vec::new();
    while let Some(block) = reader.next_block().map_err(|error| error.to_string())? {
        found.push(format!("{:?} {:?}", block.rows, block.rejects));
    }
    Ok(found)
}

fuzz_target!(|data: &[u8]| {
    let Some((flags, data)) = data.split_first() else { return };
    let (small, large) = (read(data, *flags, 4), read(data, *flags, 1 << 16));
    check_same(&small, &large);
});
