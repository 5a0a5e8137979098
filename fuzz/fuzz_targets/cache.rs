//! Reads any bytes as a file of the cache on disk, checked as on first use. The file must be refused, or read as a
//! consistent run. Checksums are not corrected, because the reader trusts bytes with a correct checksum on purpose.

#![no_main]

use std::fs::File;
use std::io::Write;
use std::sync::{Arc, LazyLock};

use arrow_schema::{DataType, Field, Fields};
use libfuzzer_sys::fuzz_target;
use tidemill_core::{MapSchema, segment};

static SCHEMA: LazyLock<Arc<MapSchema>> = LazyLock::new(|| {
    let fields = |name: &str, kind: DataType| Fields::from(vec![Field::new(name, kind, true)]);
    let (key, value) = (fields("key", DataType::Utf8), fields("value", DataType::Int64));
    Arc::new(MapSchema::new("fuzz", &key, &Fields::empty(), &value).expect("a schema"))
});

fuzz_target!(init: tidemill_fuzz::own_panics_abort(), |data: &[u8]| {
    let path = std::env::temp_dir().join(format!("tidemill-fuzz-{}", std::process::id()));
    File::create(&path).and_then(|mut file| file.write_all(data)).expect("a file");
    let file = File::open(&path).expect("the file");
    std::fs::remove_file(&path).expect("the file's name");
    if let Ok(run) = segment::cache::map(&SCHEMA, "fuzz", &file, true) {
        tidemill_fuzz::check(&run);
    }
});
