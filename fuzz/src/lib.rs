//! Shared by the fuzz targets: which panics count, the schema that a file claims, the invariants of an opened run, and
//! the comparison of two reads.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow_schema::{FieldRef, Fields};
use bytes::Bytes;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use tidemill_core::{KeyRange, Keys, MapSchema, SortedRun, StateMap, segment};
use xxhash_rust::xxh3::xxh3_64;

/// Makes our own panics abort the process. `segment::read` catches panics of other crates.
pub fn own_panics_abort() {
    std::panic::set_hook(Box::new(|info| {
        if !info.location().is_some_and(|place| place.file().contains("/registry/src/")) {
            eprintln!("{info}");
            std::process::abort();
        }
    }));
}

/// Returns the schema of the state map that `data` claims to be a segment of.
pub fn claimed_schema(data: &Bytes) -> Option<Arc<MapSchema>> {
    // The Parquet crate takes seconds for footers that claim long lists. The reader refuses them first.
    let any = Arc::new(MapSchema::new("fuzz", &Fields::empty(), &Fields::empty(), &Fields::empty()).ok()?);
    let refused = segment::read(&any, data.clone(), "fuzz").err();
    if refused.is_some_and(|error| error.to_string().contains("its footer is truncated")) {
        return None;
    }
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    let found = catch_unwind(AssertUnwindSafe(|| ArrowReaderMetadata::load(data, options))).ok()?.ok()?;
    let entries = found.metadata().file_metadata().key_value_metadata()?;
    let number = |name: &str| {
        let entry = entries.iter().find(|entry| entry.key == format!("tidemill.{name}_columns"))?;
        entry.value.as_ref()?.parse::<usize>().ok()
    };
    let (keys, sub_keys) = (number("key")?, number("sub_key")?);
    let fields: Vec<FieldRef> = found.schema().fields().iter().cloned().collect();
    let own = fields.len().checked_sub(3)?; // the last three are `updated_at`, `deadline`, `deleted`
    let part = |from: usize, to: usize| fields.get(from..to).map(|part| part.iter().cloned().collect::<Fields>());
    let first_value = keys.checked_add(sub_keys)?;
    let schema = MapSchema::new("fuzz", &part(0, keys)?, &part(keys, first_value)?, &part(first_value, own)?);
    schema.ok().map(Arc::new)
}

/// Corrects the checksums of all row groups and of the footer, so that the decoder sees the changed bytes.
pub fn right_checksums(data: &mut [u8]) {
    if let Some(end) = right_groups(data) {
        seal(&mut data[end..]);
    }
}

/// Corrects the checksums of all row groups and returns the end of the last one, or `None` if a line is malformed.
fn right_groups(data: &mut [u8]) -> Option<usize> {
    let name = b"tidemill.row_groups";
    let footer = data.windows(name.len()).rposition(|window| window == name)?;
    let (mut at, mut start) = (footer, 4usize);
    while at + 50 <= data.len() {
        let hex = |from: usize| data[from..from + 16].iter().all(u8::is_ascii_hexdigit);
        if !(hex(at) && data[at + 16] == b' ' && hex(at + 17) && data[at + 33] == b' ' && hex(at + 34)) {
            at += 1;
            continue;
        }
        let digits = data[..at - 1].iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
        let length: usize = std::str::from_utf8(&data[at - 1 - digits..at - 1]).ok()?.parse().ok()?;
        let end = start.checked_add(length).filter(|&end| end <= footer)?;
        let sum = format!("{:016x}", xxh3_64(&data[start..end]));
        data[at + 34..at + 50].copy_from_slice(sum.as_bytes());
        (at, start) = (at + 50, end);
    }
    Some(start)
}

/// Corrects the checksum of the footer, if the footer still has one.
fn seal(footer: &mut [u8]) {
    let name = b"tidemill.footer";
    let Some(place) = footer.windows(name.len()).rposition(|window| window == name) else { return };
    let value = place + name.len() + 2; // Thrift: the kind of the field, and the length of the text
    if value + 16 <= footer.len() {
        footer[value..value + 16].fill(b'0');
        let sum = format!("{:016x}", xxh3_64(footer));
        footer[value..value + 16].copy_from_slice(sum.as_bytes());
    }
}

/// Checks the invariants of a run; panics if one does not hold.
pub fn check(run: &SortedRun) {
    let schema = run.schema();
    assert!(run.hashes().is_sorted());
    let batch = run.batch().expect("its rows");
    let map = StateMap::open(Arc::clone(schema), std::slice::from_ref(run), KeyRange::ALL).expect("a map of it");
    let live = map.scan().expect("its live rows");
    assert_eq!(map.len(), live.updated_at.len());
    let armed = live.deadline.iter().flatten();
    assert_eq!(map.copy().next_deadline(), armed.clone().min().copied());
    assert_eq!(map.copy().due(i64::MAX).expect("what is due").deadline.len(), armed.count());
    let width = schema.key.len();
    let keys = Keys::with_sub_keys(
        &batch.columns()[..width],
        &batch.columns()[width..width + schema.sub_key.len()],
        batch.num_rows(),
    );
    let found = map.get(&keys.expect("its keys")).expect("look-ups").found;
    assert_eq!(found.iter().filter(|&&found| found).count(), map.len());
}

/// Checks that the blocks of a file, or the error, are the same for two sizes of buffer.
///
/// Of two errors of a file, that which is met first counts: damage is met when more is read.
pub fn check_same(small: &Result<Vec<String>, String>, large: &Result<Vec<String>, String>) {
    let is_damaged = |found: &Result<Vec<String>, String>| found.as_ref().is_err_and(|why| why.contains("is damaged"));
    if is_damaged(small) || is_damaged(large) {
        assert!(small.is_err() && large.is_err(), "{small:?} {large:?}");
    } else {
        assert_eq!(small, large);
    }
}
