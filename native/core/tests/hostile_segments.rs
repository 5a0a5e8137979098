//! Forged segments: bytes are changed at random and the checksums corrected, so that the decoder sees the changes. It
//! must read or refuse them within memory proportional to the file. Valid segments with the most rows in the fewest
//! bytes must always be read.
//!
//! Give `TIDEMILL_FUZZ_CASES` and `TIDEMILL_FUZZ_SEED` to cargo for more and other cases.
#![expect(clippy::unwrap_used, reason = "a failing test may panic")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::types::Int32Type;
use arrow_array::{Array, ArrayRef, BooleanArray, Decimal128Array, Float64Array, Int64Array, ListArray, StringArray};
use arrow_schema::{Field, Fields};
use bytes::Bytes;
use parquet::file::metadata::{FileMetaData, ParquetMetaData, ParquetMetaDataReader, ParquetMetaDataWriter};
use tidemill_core::{Changes, Error, KeyRange, MapSchema, SortedRun, StateMap, segment};
use xxhash_rust::xxh3::xxh3_64;

/// Taking more memory than this is out of proportion for files of some kilobytes.
const MOST_BYTES: usize = 16 << 20;
/// Tests measure the memory of the process, so they must run one after another.
static ALONE: Mutex<()> = Mutex::new(());

/// Counts the bytes requested from the system's allocator.
struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

/// Panics in the engine itself. `segment::read` catches all panics, but only those of the Parquet reader are expected.
static OWN_PANICS: AtomicUsize = AtomicUsize::new(0);

#[expect(unsafe_code, reason = "implementing an allocator is unsafe; this one forwards every call")]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        PEAK.fetch_max(NOW.fetch_add(layout.size(), Relaxed) + layout.size(), Relaxed);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Relaxed);
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A seeded sequence of numbers.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end as u64) as usize
    }
}

fn run(rows: usize) -> SortedRun {
    let some = |row: usize| !row.is_multiple_of(7);
    let key: ArrayRef = Arc::new((0..rows).map(|row| some(row).then(|| format!("key {row}"))).collect::<StringArray>());
    let number: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows as i64));
    let lists = (0..rows).map(|row| some(row).then(|| vec![Some(row as i32); row % 4]));
    let values: Vec<ArrayRef> = vec![
        Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(lists)),
        Arc::new((0..rows).map(|row| some(row).then_some(row as f64)).collect::<Float64Array>()),
        Arc::new((0..rows).map(|row| Some(row % 2 == 0)).collect::<BooleanArray>()),
        Arc::new(Decimal128Array::from_iter_values((0..rows as i128).map(|row| row << 70))),
    ];
    let fields = |names: &[&str], columns: &[ArrayRef]| -> Fields {
        names.iter().zip(columns).map(|(name, column)| Field::new(*name, column.data_type().clone(), true)).collect()
    };
    let (key_fields, value_fields) =
        (fields(&["key"], std::slice::from_ref(&key)), fields(&["list", "x", "flag", "amount"], &values));
    let sub_key = fields(&["number"], std::slice::from_ref(&number));
    let schema = Arc::new(MapSchema::new("test", &key_fields, &sub_key, &value_fields).unwrap());
    let mut map = StateMap::open(schema, &[], KeyRange::ALL).unwrap();
    let changes = Changes {
        keys: vec![key],
        sub_keys: vec![number],
        values,
        updated_at: vec![1; rows],
        deadline: (0..rows).map(|row| some(row).then_some(row as i64)).collect(),
        deleted: (0..rows).map(|row| row % 5 == 4).collect(),
    };
    map.change(&changes).unwrap();
    map.delta().unwrap().unwrap()
}

/// Change some bytes, often to an extreme value of a length or number.
fn spoil(data: &mut [u8], from: usize, to: usize, dice: &mut Dice) {
    for _ in 0..=dice.below(3) {
        let at = from + dice.below(to - from);
        match dice.below(5) {
            0 => data[at] ^= 1 << dice.below(8),
            1 => data[at] = dice.below(256) as u8,
            2 => data[at..to.min(at + 1 + dice.below(9))].fill(0xff),
            3 => data[at..to.min(at + 1 + dice.below(9))].fill([0, 0x7f, 0x80][dice.below(3)]),
            _ => {
                let other = from + dice.below(to - from);
                let length = (1 + dice.below(16)).min(to - at).min(to - other);
                data.copy_within(other..other + length, at);
            }
        }
    }
}

/// Return where the only row group ends, and where its checksum is.
fn places(data: &[u8]) -> (usize, usize) {
    let sum = |end: usize| format!("{:016x}", xxh3_64(&data[4..end]));
    let name = b"tidemill.row_groups";
    let footer = data.windows(name.len()).rposition(|window| window == name).unwrap();
    (5..footer)
        .find_map(|end| {
            let sum = sum(end);
            let at = data[footer..].windows(16).position(|window| window == sum.as_bytes())?;
            Some((end, footer + at))
        })
        .unwrap()
}

/// Correct the checksum of the footer, which begins at `end`, if it still has a place.
fn seal(data: &mut [u8], end: usize) -> bool {
    let name = b"tidemill.footer";
    let place = data[end..].windows(name.len()).rposition(|window| window == name);
    let Some(value) = place.map(|place| end + place + name.len() + 2).filter(|value| value + 16 <= data.len()) else {
        return false;
    };
    data[value..value + 16].fill(b'0');
    let sum = format!("{:016x}", xxh3_64(&data[end..]));
    data[value..value + 16].copy_from_slice(sum.as_bytes());
    true
}

/// Read `data`; return the result and the most memory in use.
fn measured(schema: &Arc<MapSchema>, data: Vec<u8>) -> (Result<SortedRun, Error>, usize) {
    let before = NOW.load(Relaxed);
    PEAK.store(before, Relaxed);
    let found = segment::read(schema, Bytes::from(data), "s");
    (found, PEAK.load(Relaxed).saturating_sub(before))
}

/// A run of int64 keys or sub-keys, counted from 0, without values.
fn counted(key: &str, sub_key: &str, rows: usize) -> SortedRun {
    let column: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows as i64));
    let of = |name: &str| -> (Fields, Vec<ArrayRef>) {
        let fields = Field::new(name, column.data_type().clone(), true);
        if name.is_empty() { (Fields::empty(), vec![]) } else { (Fields::from(vec![fields]), vec![column.clone()]) }
    };
    let ((key, keys), (sub_key, sub_keys)) = (of(key), of(sub_key));
    let schema = Arc::new(MapSchema::new("test", &key, &sub_key, &Fields::empty()).unwrap());
    let mut map = StateMap::open(schema, &[], KeyRange::ALL).unwrap();
    let (updated_at, deadline, deleted) = (vec![1; rows], vec![None; rows], vec![false; rows]);
    map.change(&Changes { keys, sub_keys, values: vec![], updated_at, deadline, deleted }).unwrap();
    map.delta().unwrap().unwrap()
}

#[test]
fn the_densest_valid_segments_are_read() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    for rows in [1, 10, 100, 1000, 10_000, 131_072, 300_000] {
        for run in [counted("key", "", rows), counted("", "position", rows)] {
            let data = segment::write(&run).unwrap();
            println!("{rows} rows: {} a byte", rows as f64 / data.len() as f64);
            assert_eq!(segment::read(run.schema(), Bytes::from(data), "s").unwrap().len(), rows);
        }
    }
}

#[test]
fn pages_and_row_groups_that_claim_more_than_they_hold_take_no_memory() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let run = counted("", "position", 131_072);
    let good = segment::write(&run).unwrap();
    let (end, checksum) = places(&good);
    let (found, honest) = measured(run.schema(), good.clone());
    assert_eq!(found.unwrap().len(), 131_072);
    // Thrift, first page header: the type, then the uncompressed size in four bytes, which can encode 128 MB.
    assert_eq!((&good[4..7], good[10] & 0x80), (&[0x15, 0x00, 0x15][..], 0));
    let mut forged = good.clone();
    forged[7..11].copy_from_slice(&[0xfe, 0xff, 0xff, 0x7f]);
    let sum = format!("{:016x}", xxh3_64(&forged[4..end]));
    forged[checksum..checksum + 16].copy_from_slice(sum.as_bytes());
    assert!(seal(&mut forged, end));
    let (found, taken) = measured(run.schema(), forged);
    let said = found.unwrap_err().to_string();
    assert!(said.contains("row group 0, column `position`: a page claims 134217727 bytes, more than its"), "{said}");
    assert!(taken < honest / 4, "{taken} bytes, {honest} for the honest one");
    // As many rows as a file of its size may have, claimed in its footer and in each page.
    for (rows, expected) in
        [(1 << 20, "it has 131072 values, expected 1048576"), (1 << 40, "claims 1099511627776 rows")]
    {
        let (found, taken) = measured(run.schema(), claiming(&good, end, rows));
        let said = found.unwrap_err().to_string();
        assert!(said.contains(expected), "{said}");
        assert!(taken < honest / 4, "{taken} bytes, {honest} for the honest one");
    }
}

/// The fuzzer found this: the Parquet crate steps over lists of booleans as if they took no bytes, for any claimed
/// length. That took seconds for a footer of 4 kB.
#[test]
fn footers_that_claim_long_lists_are_refused_before_they_are_parsed() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let schema = counted("key", "", 1).schema().clone();
    // A version, then, in a field that Parquet does not define, a list of 268 million booleans.
    let footer = [&[0x15, 0x02, 0xd9, 0xf1, 0xff, 0xff, 0xff, 0x7f], [0; 4000].as_slice()].concat();
    let length = (footer.len() as u32).to_le_bytes();
    let data = [b"PAR1", footer.as_slice(), &length, b"PAR1"].concat();
    let (found, taken) = measured(&schema, data);
    let said = found.unwrap_err().to_string();
    assert!(said.contains("not a valid Tidemill segment: its footer is truncated"), "{said}");
    assert!(taken < 1 << 16, "{taken} bytes");
}

/// Return `good`, whose row groups end at `end`, with a footer that claims `rows` rows.
fn claiming(good: &[u8], end: usize, rows: i64) -> Vec<u8> {
    let found = ParquetMetaDataReader::new().parse_and_finish(&Bytes::from(good.to_vec())).unwrap();
    let group = found.row_group(0).clone().into_builder().set_num_rows(rows).build().unwrap();
    let file = found.file_metadata();
    let entries = file.key_value_metadata().unwrap().iter().cloned().map(|mut entry| {
        let value = entry.value.take().unwrap();
        let line = value.split_once(' ').map(|(_, rest)| format!("{rows} {rest}"));
        entry.value = Some(if entry.key == "tidemill.row_groups" { line.unwrap() } else { value });
        entry
    });
    let (entries, columns) = (Some(entries.collect()), file.schema_descr_ptr());
    let file = FileMetaData::new(file.version(), rows, file.created_by().map(str::to_owned), entries, columns, None);
    let mut forged = good[..end].to_vec();
    ParquetMetaDataWriter::new(&mut forged, &ParquetMetaData::new(file, vec![group])).finish().unwrap();
    assert!(seal(&mut forged, end));
    forged
}

#[test]
fn forged_segments_are_read_or_refused_within_bounds() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let number = |given: Option<&str>, default: u64| given.map_or(default, |text| text.parse().unwrap());
    let (cases, seed) =
        (number(option_env!("TIDEMILL_FUZZ_CASES"), 3000), number(option_env!("TIDEMILL_FUZZ_SEED"), 20_261_121));
    std::panic::set_hook(Box::new(|info| {
        let of = |part: &str| info.location().is_some_and(|place| place.file().contains(part));
        if of("native/core/src/") {
            OWN_PANICS.fetch_add(1, Relaxed);
        }
        if !of("/parquet-") && !of("/arrow-") {
            eprintln!("{info}");
        }
    }));
    let runs = [run(60), run(3000)];
    let good: Vec<(Vec<u8>, usize, usize)> = runs
        .iter()
        .map(|run| {
            let data = segment::write(run).unwrap();
            let (end, checksum) = places(&data);
            (data, end, checksum)
        })
        .collect();
    let (mut dice, mut read, mut greatest) = (Dice(seed), 0, 0);
    for case in 0..cases {
        let which = dice.below(runs.len());
        let (mut data, end, checksum) = good[which].clone();
        let length = data.len();
        let kind = dice.below(4);
        match kind {
            0 => spoil(&mut data, end, length, &mut dice),
            1 => {
                spoil(&mut data, end, length, &mut dice);
                spoil(&mut data, 4, end, &mut dice);
            }
            _ => spoil(&mut data, 4, end, &mut dice),
        }
        if dice.below(10) > 0 {
            let sum = format!("{:016x}", xxh3_64(&data[4..end]));
            data[checksum..checksum + 16].copy_from_slice(sum.as_bytes());
        }
        let is_sealed = dice.below(10) > 0 && seal(&mut data, end);
        let (found, taken) = measured(runs[which].schema(), data);
        match found {
            Ok(found) => {
                assert!(found.hashes().is_sorted(), "case {case} of seed {seed}");
                let rows = found.batch().unwrap();
                if kind == 0 && !is_sealed {
                    assert_eq!(rows, runs[which].batch().unwrap(), "case {case} of seed {seed}");
                }
                rows.columns().iter().for_each(|column| column.to_data().validate_full().unwrap());
                read += 1;
            }
            Err(error) => assert!(matches!(error, Error::CorruptState(_)), "case {case} of seed {seed}: {error}"),
        }
        assert!(taken < MOST_BYTES, "case {case} of seed {seed} took {taken} bytes");
        greatest = greatest.max(taken);
    }
    assert!(read > 0 && greatest > 0);
    assert_eq!(OWN_PANICS.load(Relaxed), 0, "the engine itself panicked: see above");
    println!("{cases} cases, {read} read, at most {greatest} bytes");
}
