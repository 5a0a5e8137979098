//! The header of a CSV file: which of its columns are those of the schema.
//!
//! Names are Spark's: an empty one is `_c` and its place, and one that stands twice, in any case of letters, gets its
//! place as a suffix. INVARIANT: a column is matched by one name or not at all.

use std::collections::{HashMap, HashSet};

use arrow_schema::Schema;

use crate::error::Unreadable;
use crate::shown::listed;

/// What a column that the schema lacks is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extra {
    /// It is ignored.
    Ignore,
    /// The file is refused.
    Fail,
}

/// What a column that the file lacks is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    /// It is null in each row.
    Null,
    /// The file is refused.
    Fail,
}

/// How columns of files are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Matching {
    /// There is no header. The columns are those of the schema, in order.
    NoHeader,
    /// The header is skipped. The columns are those of the schema, in order.
    Position,
    /// By the names in the header.
    Name(Extra, Missing),
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

    /// Match the names of a header.
    pub(super) fn named(
        header: &[Option<String>],
        schema: &Schema,
        extra: Extra,
        missing: Missing,
        line: u64,
    ) -> Result<Self, Unreadable> {
        let names = safe(header);
        let places: Vec<Option<usize>> = schema.fields().iter().map(|field| place(&names, field.name())).collect();
        let lacks: Vec<String> = unmatched(schema, &places);
        let is_other = lacks.len() == places.len() && !places.is_empty();
        let is_needed =
            schema.fields().iter().zip(&places).any(|(field, place)| place.is_none() && !field.is_nullable());
        if is_other || is_needed || (missing == Missing::Fail && !lacks.is_empty()) {
            return Err(misses(&names, schema, &lacks, is_other, line));
        }
        let matched: HashSet<usize> = places.iter().flatten().copied().collect();
        let has: Vec<String> =
            (0..names.len()).filter(|place| !matched.contains(place)).map(|place| names[place].clone()).collect();
        if extra == Extra::Fail && !has.is_empty() {
            let reason = format!("the header has {}, which the schema lacks", listed(&has));
            let hint = "declare the columns, or leave them out with extraColumns=\"ignore\"".into();
            return Err(Unreadable { line: Some(line), reason, hint: Some(hint) });
        }
        Ok(Self { width: names.len(), places })
    }
}

fn unmatched(schema: &Schema, places: &[Option<usize>]) -> Vec<String> {
    let fields = schema.fields().iter().zip(places);
    fields.filter(|(_, place)| place.is_none()).map(|(field, _)| field.name().clone()).collect()
}

fn misses(names: &[String], schema: &Schema, lacks: &[String], is_other: bool, line: u64) -> Unreadable {
    let expected: Vec<String> = schema.fields().iter().map(|field| field.name().clone()).collect();
    let reason = if is_other {
        format!("the header names {}, expected {}", listed(names), listed(&expected))
    } else {
        format!("the header lacks {}; found {}", listed(lacks), listed(names))
    };
    let hint = if is_other {
        "no column of the schema is in the header: is this another file, or has it no header?".into()
    } else {
        "if older files lack the column, read it as null with missingColumns=\"null\"".into()
    };
    Unreadable { line: Some(line), reason, hint: Some(hint) }
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

/// Return the place of the only column with a name, else of the only one that differs by the case of letters alone.
///
/// Two columns may have one name if the place of one makes it the name of another, as in `a,a0,a`.
fn place(names: &[String], wanted: &str) -> Option<usize> {
    let only = |is_alike: &dyn Fn(&String) -> bool| {
        let mut alike = names.iter().enumerate().filter(|(_, name)| is_alike(name));
        let first = alike.next().map(|(place, _)| place);
        (first, alike.next().is_some())
    };
    let lower = wanted.to_lowercase();
    match (only(&|name| name == wanted), only(&|name| name.to_lowercase() == lower)) {
        ((Some(exact), false), _) => Some(exact),
        ((None, _), (Some(alike), false)) => Some(alike),
        _ => None,
    }
}
