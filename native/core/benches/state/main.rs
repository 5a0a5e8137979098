//! The program that `benchmarks/state_core.py` drives: one scenario a process, one measurement for each input line.
//!
//!     state SCENARIO KEYS ROWS [KIND]
//!
//! A line is a command and a number. The answer is a line of `name=value`. Times are nanoseconds of CPU time of this
//! thread, so other processes disturb them little. The driver can take turns with other programs. It compares digests to
//! check that all programs have the same result.

#![expect(clippy::print_stdout, reason = "the answers go to stdout")]
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a measurement that fails ends the program"
)]

mod aggregate;
mod chance;
mod depth;
mod due;
mod peer;
mod plain;
mod segments;
mod tiers;
mod updates;
mod world;

use std::fmt::Write as _;
use std::io::{BufRead, Write as _};

use cpu_time::ThreadTime;

/// The results of a command, by name.
#[derive(Default)]
struct Answer(String);

impl Answer {
    fn with(mut self, name: &str, value: impl std::fmt::Display) -> Self {
        write!(self.0, "{name}={value} ").unwrap();
        self
    }
}

/// Measurements over one world.
trait Scenario {
    fn run(&mut self, command: &str, number: u64) -> Answer;
}

/// Returns the nanoseconds of `work`, and its result.
fn timed<T>(work: impl FnOnce() -> T) -> (u128, T) {
    let start = ThreadTime::now();
    let made = std::hint::black_box(work());
    (start.elapsed().as_nanos(), made)
}

fn main() {
    let mut given = std::env::args().skip(1).filter(|argument| argument != "--bench");
    let Some(name) = given.next() else { return };
    let mut size = || given.next().and_then(|text| text.parse().ok()).expect("two numbers: KEYS ROWS");
    let (keys, rows) = (size(), size());
    let kind = given.next().unwrap_or_else(|| "number".to_owned());
    let mut scenario: Box<dyn Scenario> = match (name.as_str(), kind.as_str()) {
        ("updates", "number") => Box::new(updates::Updates::<i64>::new(keys, rows)),
        ("updates", "text") => Box::new(updates::Updates::<world::Text>::new(keys, rows)),
        ("depth", _) => Box::new(depth::Depth::new(keys, rows)),
        ("due", _) => Box::new(due::Due::new(keys, rows)),
        ("tiers", _) => Box::new(tiers::Tiers::new(keys, rows)),
        ("aggregate", "number") => Box::new(aggregate::Aggregate::<i64>::new(keys, rows)),
        ("aggregate", "text") => Box::new(aggregate::Aggregate::<world::Text>::new(keys, rows)),
        ("segments", _) => Box::new(segments::Segments::new(keys, rows)),
        (other, _) => panic!("there is no scenario {other}"),
    };
    println!("ready=1");
    for line in std::io::stdin().lock().lines() {
        let line = line.unwrap();
        let (command, number) = line.split_once(' ').unwrap_or((&line, "0"));
        println!("{}", scenario.run(command, number.parse().unwrap()).0);
        std::io::stdout().flush().unwrap();
    }
}
