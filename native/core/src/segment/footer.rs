//! What a segment's footer says beside Parquet's own words: format, key widths, and each row group's bounds.
//!
//! Key-value metadata: `tidemill.format`, `tidemill.key_columns`, `tidemill.sub_key_columns`, and
//! `tidemill.row_groups`, one line a row group: rows, bytes, least hash, greatest hash, checksum (the last three hex).

use parquet::file::metadata::KeyValue;

use crate::schema::MapSchema;

const FORMAT: &str = "1";
const FORMAT_KEY: &str = "tidemill.format";
const KEY_COLUMNS: &str = "tidemill.key_columns";
const SUB_KEY_COLUMNS: &str = "tidemill.sub_key_columns";
const ROW_GROUPS: &str = "tidemill.row_groups";

/// What is known of a row group without decoding it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RowGroup {
    pub(super) rows: usize,
    /// Its length in the file. Row groups follow each other from byte 4.
    pub(super) bytes: usize,
    pub(super) lo: u64,
    pub(super) hi: u64,
    /// XXH3-64 of its bytes.
    pub(super) checksum: u64,
}

/// The entries for a segment of `schema` with these row groups.
pub(super) fn entries(schema: &MapSchema, groups: &[RowGroup]) -> Vec<KeyValue> {
    let lines: Vec<String> = groups.iter().map(RowGroup::line).collect();
    vec![
        KeyValue::new(FORMAT_KEY.into(), FORMAT.to_owned()),
        KeyValue::new(KEY_COLUMNS.into(), schema.key.len().to_string()),
        KeyValue::new(SUB_KEY_COLUMNS.into(), schema.sub_key.len().to_string()),
        KeyValue::new(ROW_GROUPS.into(), lines.join("\n")),
    ]
}

/// The row groups that `entries` tell, or what is wrong with them.
pub(super) fn parse(schema: &MapSchema, entries: Option<&Vec<KeyValue>>) -> Result<Vec<RowGroup>, String> {
    let entries = entries.map(Vec::as_slice).unwrap_or_default();
    expect(entries, FORMAT_KEY, FORMAT)?;
    expect(entries, KEY_COLUMNS, &schema.key.len().to_string())?;
    expect(entries, SUB_KEY_COLUMNS, &schema.sub_key.len().to_string())?;
    let lines = value(entries, ROW_GROUPS)?;
    lines
        .lines()
        .map(|line| RowGroup::parse(line).ok_or_else(|| format!("`{ROW_GROUPS}` has the line `{line}`")))
        .collect()
}

impl RowGroup {
    fn line(&self) -> String {
        let Self { rows, bytes, lo, hi, checksum } = self;
        format!("{rows} {bytes} {lo:016x} {hi:016x} {checksum:016x}")
    }

    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split(' ');
        let group = Self {
            rows: words.next()?.parse().ok()?,
            bytes: words.next()?.parse().ok()?,
            lo: u64::from_str_radix(words.next()?, 16).ok()?,
            hi: u64::from_str_radix(words.next()?, 16).ok()?,
            checksum: u64::from_str_radix(words.next()?, 16).ok()?,
        };
        words.next().is_none().then_some(group)
    }
}

fn expect(entries: &[KeyValue], key: &str, expected: &str) -> Result<(), String> {
    match value(entries, key)? {
        found if found == expected => Ok(()),
        found => Err(format!("`{key}` is `{found}`, expected `{expected}`")),
    }
}

fn value<'a>(entries: &'a [KeyValue], key: &str) -> Result<&'a str, String> {
    let entry = entries.iter().find(|entry| entry.key == key);
    entry.and_then(|entry| entry.value.as_deref()).ok_or_else(|| format!("its footer has no `{key}`"))
}
