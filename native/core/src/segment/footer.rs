//! Tidemill's entries in the footer of a segment: format, key widths, and the bounds of each row group.
//!
//! They are key-value metadata: `tidemill.format`, `tidemill.key_columns`, `tidemill.sub_key_columns`;
//! `tidemill.row_groups`, one line for each row group: rows, bytes, lowest hash, highest hash, checksum (the last three
//! in hex); and `tidemill.footer`, the checksum of everything after the row groups, computed with sixteen zeros in its
//! place.

use parquet::file::metadata::KeyValue;
use xxhash_rust::xxh3::xxh3_64;

use crate::schema::MapSchema;

const FORMAT: &str = "1";
const FORMAT_KEY: &str = "tidemill.format";
const KEY_COLUMNS: &str = "tidemill.key_columns";
const SUB_KEY_COLUMNS: &str = "tidemill.sub_key_columns";
const ROW_GROUPS: &str = "tidemill.row_groups";
const FOOTER: &str = "tidemill.footer";
/// The placeholder for the footer's checksum while it is computed.
const UNSEALED: &str = "0000000000000000";

/// The facts about a row group that are known before it is decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RowGroup {
    pub(super) rows: usize,
    /// Its length in the file. Row groups follow each other from byte 4 on.
    pub(super) bytes: usize,
    pub(super) lo: u64,
    pub(super) hi: u64,
    /// XXH3-64 of its bytes.
    pub(super) checksum: u64,
}

/// Return the entries for a segment of `schema` with these row groups.
pub(super) fn entries(schema: &MapSchema, groups: &[RowGroup]) -> Vec<KeyValue> {
    let lines: Vec<String> = groups.iter().map(RowGroup::line).collect();
    vec![
        KeyValue::new(FORMAT_KEY.into(), FORMAT.to_owned()),
        KeyValue::new(KEY_COLUMNS.into(), schema.key.len().to_string()),
        KeyValue::new(SUB_KEY_COLUMNS.into(), schema.sub_key.len().to_string()),
        KeyValue::new(ROW_GROUPS.into(), lines.join("\n")),
        KeyValue::new(FOOTER.into(), UNSEALED.to_owned()),
    ]
}

/// Store the checksum in `footer`, which is everything after the row groups. `None` if there is no place for it.
pub(super) fn seal(footer: &mut [u8]) -> Option<()> {
    let place = place_of(footer, UNSEALED)?;
    let sum = format!("{:016x}", xxh3_64(footer));
    footer[place..place + sum.len()].copy_from_slice(sum.as_bytes());
    Some(())
}

/// Check the footer against its checksum. Files written before footers had a checksum pass.
pub(super) fn check_seal(footer: &[u8], entries: Option<&Vec<KeyValue>>) -> Result<(), String> {
    let stored = entries.into_iter().flatten().find(|entry| entry.key == FOOTER);
    let Some(stored) = stored.map(|entry| entry.value.as_deref().unwrap_or_default()) else { return Ok(()) };
    let mut unsealed = footer.to_vec();
    if stored.len() == UNSEALED.len()
        && let Some(place) = place_of(footer, stored)
    {
        unsealed[place..place + stored.len()].copy_from_slice(UNSEALED.as_bytes());
    }
    match format!("{:016x}", xxh3_64(&unsealed)) == stored {
        true => Ok(()),
        false => Err(format!("its footer does not match its checksum `{stored}`")),
    }
}

/// Return the position of the value of the entry `FOOTER`, which is the last entry.
fn place_of(footer: &[u8], value: &str) -> Option<usize> {
    let name = footer.windows(FOOTER.len()).rposition(|window| window == FOOTER.as_bytes())?;
    let place = footer[name..].windows(value.len()).position(|window| window == value.as_bytes())?;
    Some(name + place)
}

/// Parse the row groups from `entries`; the error says what is wrong with them.
pub(super) fn parse(schema: &MapSchema, entries: Option<&Vec<KeyValue>>) -> Result<Vec<RowGroup>, String> {
    let entries = entries.map(Vec::as_slice).unwrap_or_default();
    expect(entries, FORMAT_KEY, FORMAT)?;
    expect(entries, KEY_COLUMNS, &schema.key.len().to_string())?;
    expect(entries, SUB_KEY_COLUMNS, &schema.sub_key.len().to_string())?;
    let lines = value(entries, ROW_GROUPS)?;
    lines
        .lines()
        .map(|line| RowGroup::parse(line).ok_or_else(|| format!("`{ROW_GROUPS}` has the invalid line `{line}`")))
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
