//! Reads any bytes as a segment, with corrected checksums. The segment must be refused, or read as a consistent run
//! that is equal after it is written and read again.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use tidemill_core::{Error, segment};

fuzz_target!(init: tidemill_fuzz::own_panics_abort(), |data: &[u8]| {
    let mut data = data.to_vec();
    tidemill_fuzz::right_checksums(&mut data);
    let data = Bytes::from(data);
    let Some(schema) = tidemill_fuzz::claimed_schema(&data) else { return };
    match segment::read(&schema, data, "fuzz") {
        Ok(run) => {
            tidemill_fuzz::check(&run);
            let again = segment::write(&run).expect("what was read can be written");
            let again = segment::read(&schema, Bytes::from(again), "again").expect("what was written can be read");
            assert_eq!((again.hashes(), again.first_due()), (run.hashes(), run.first_due()));
        }
        Err(Error::InvalidInput(text)) => assert!(text.contains("not enough memory for "), "{text}"),
        Err(error) => assert!(matches!(error, Error::CorruptState(_)), "{error}"),
    }
});
