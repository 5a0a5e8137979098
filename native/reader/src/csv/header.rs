//! The header of a CSV file: which of its columns are those of the schema.
//!
//! A name is that in the header, or Spark's: an empty one is `_c` and its place, and one that stands twice, in any case of
//! letters, gets its place as a suffix.

use std::collections::HashMap;

use arrow_schema::Schema;

use crate::columns::ByName;
use crate::error::Unreadable;

/// How columns of files are found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Matching {
    /// There is no header. The columns are those of the schema, in order.
    NoHeader,
    /// The header is skipped. The columns are those of the schema, in order.
    Position,
    /// By the names in the header.
    Name(ByName),
}

/// Where the columns of the schema stand in a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Places {
    /// How many fields a record has.
    pub(super) width: usize,
    /// For each column of the schema its field, `None` if the file lacks it.
    pub(super) places: Vec<Option<usize>>,
}

impl Places {
    /// The columns of the schema, in order.
    pub(super) fn in_order(schema: &Schema) -> Self {
        let width = schema.fields().len();
        Self { width, places: (0..width).map(Some).collect() }
    }

    /// Whether a record has the columns of the schema, in order.
    pub(super) fn are_in_order(&self) -> bool {
        self.places.len() == self.width && self.places.iter().enumerate().all(|(n, place)| *place == Some(n))
    }

    /// Match the names of a header, which is on a line.
    pub(super) fn named(
        header: &[Option<String>],
        schema: &Schema,
        by: &ByName,
        line: u64,
    ) -> Result<Self, Unreadable> {
        let names = safe(header);
        let written = header.iter().zip(&names).map(|(written, safe)| match written {
            Some(written) if !written.is_empty() => written.clone(),
            _ => safe.clone(),
        });
        let written: Vec<String> = written.collect();
        let places = by.places(&written, &names, schema, "header");
        places
            .map(|places| Self { width: names.len(), places })
            .map_err(|found| Unreadable { line: Some(line), ..found })
    }
}

/// Return the names of a header as Spark makes them.
pub(super) fn safe(header: &[Option<String>]) -> Vec<String> {
    let lower: Vec<Option<String>> = header.iter().map(|name| name.as_ref().map(|name| name.to_lowercase())).collect();
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for name in lower.iter().flatten() {
        *counts.entry(name).or_default() += 1;
    }
    let name = |(place, name): (usize, &Option<String>)| match name {
        None => format!("_c{place}"),
        Some(name) if name.is_empty() => format!("_c{place}"),
        Some(name) if lower[place].as_deref().is_some_and(|name| counts[name] > 1) => format!("{name}{place}"),
        Some(name) => name.clone(),
    };
    header.iter().enumerate().map(name).collect()
}
