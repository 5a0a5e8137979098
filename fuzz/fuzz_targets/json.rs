//! Gives any bytes to the reader of JSON: the result must be the same for every size of buffer, and nothing panics.

#![no_main]

use std::io::Cursor;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema};
use libfuzzer_sys::fuzz_target;
use tidemill_fuzz::check_same;
use tidemill_reader::block::Limits;
use tidemill_reader::json::{Allow, JsonOptions, JsonReader, MAX_DEPTH};
use tidemill_reader::text::bytes::Form;
use tidemill_reader::text::encoding::Charset;
use tidemill_reader::time::{Times, Zone};

fn schema() -> Schema {
    let item = Arc::new(Field::new("item", DataType::Int64, true));
    let fields = vec![Field::new("x", DataType::List(item), true), Field::new("y", DataType::Decimal128(10, 2), true)];
    Schema::new(vec![
        Field::new("a", DataType::Utf8, true),
        Field::new("b", DataType::Struct(fields.into()), true),
        Field::new("c", DataType::Date32, true),
    ])
}

fn read(data: &[u8], flags: u8, buffer_bytes: usize) -> Result<Vec<String>, String> {
    let options = JsonOptions {
        multi_line: flags & 1 == 1,
        allow: Allow {
            comments: flags & 2 == 2,
            unquoted_names: flags & 2 == 2,
            single_quotes: true,
            leading_zeros: flags & 2 == 2,
            any_backslash: flags & 2 == 2,
            unquoted_control: flags & 2 == 2,
            non_numeric: true,
        },
        max_depth: MAX_DEPTH,
        line_end: None,
        form: Form { charset: Charset::Utf8, format: "JSON", is_text: false, buffer_bytes },
        limits: Limits { block_rows: 7, block_bytes: 100, record_bytes: 1 << 20 },
        times: Times::iso(Zone::utc()),
    };
    let file = Box::new(Cursor::new(data.to_vec()));
    let mut reader = JsonReader::open(file, &schema(), options).map_err(|error| error.to_string())?;
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
