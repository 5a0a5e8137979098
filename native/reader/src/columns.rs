//! Which column of a file is a column of a schema, and what becomes of those without a partner.
//!
//! INVARIANT: a name finds one column or none; one that could mean several is an error.

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

/// How columns are matched by name, and what becomes of the others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ByName {
    /// What columns that the schema lacks are.
    pub extra: Extra,
    /// What columns that the file lacks are.
    pub missing: Missing,
    /// Columns whose values come from elsewhere. A file may have them; they are not read.
    pub elsewhere: Vec<String>,
}

impl ByName {
    /// Columns that the schema lacks are ignored.
    #[must_use]
    pub fn lenient(missing: Missing) -> Self {
        Self { extra: Extra::Ignore, missing, elsewhere: Vec::new() }
    }

    /// Return the place of each column of the schema among the names of a file; `None` if the file lacks it.
    ///
    /// `others` are names by which a column is found if none of `names` is its own. `what` is what has the names:
    /// "header" or "file".
    pub(crate) fn places(
        &self,
        names: &[String],
        others: &[String],
        schema: &Schema,
        what: &str,
    ) -> Result<Vec<Option<usize>>, Unreadable> {
        let (index, other_index) = (Index::new(names), Index::new(others));
        let mut places = Vec::with_capacity(schema.fields().len());
        for field in schema.fields() {
            let found = index.place(field.name()).and_then(|found| match found {
                None => other_index.place(field.name()),
                found => Ok(found),
            });
            places.push(found.map_err(|several| is_ambiguous(field.name(), &several, what))?);
        }
        let lacks: Vec<String> = unmatched(schema, &places, |_| true);
        let needs = unmatched(schema, &places, |is_nullable| !is_nullable);
        if lacks.len() == places.len() && !places.is_empty() {
            return Err(is_another(names, schema, what));
        }
        let refused = if self.missing == Missing::Fail { &lacks } else { &needs };
        if !refused.is_empty() {
            let hint = needs.first().map_or_else(
                || "if older files lack the column, read it as null with missingColumns=\"null\"".into(),
                |name| must_have_values(name),
            );
            return Err(lacking(names, refused, what).with_hint(hint));
        }
        if self.extra == Extra::Fail {
            self.refuse_more(names, &places, what)?;
        }
        Ok(places)
    }

    fn refuse_more(&self, names: &[String], places: &[Option<usize>], what: &str) -> Result<(), Unreadable> {
        let matched: HashSet<usize> = places.iter().flatten().copied().collect();
        let elsewhere: HashSet<String> = self.elsewhere.iter().map(|name| name.to_lowercase()).collect();
        let is_more =
            |(place, name): &(usize, &String)| !matched.contains(place) && !elsewhere.contains(&name.to_lowercase());
        let more: Vec<String> = names.iter().enumerate().filter(is_more).map(|(_, name)| name.clone()).collect();
        if more.is_empty() {
            return Ok(());
        }
        Err(Unreadable::file(format!("the {what} has {}, which the schema lacks", listed(&more)))
            .with_hint("declare the columns, or leave them out with extraColumns=\"ignore\""))
    }
}

fn unmatched(schema: &Schema, places: &[Option<usize>], which: impl Fn(bool) -> bool) -> Vec<String> {
    let fields = schema.fields().iter().zip(places);
    fields
        .filter(|(field, place)| place.is_none() && which(field.is_nullable()))
        .map(|(field, _)| field.name().clone())
        .collect()
}

fn lacking(names: &[String], lacks: &[String], what: &str) -> Unreadable {
    Unreadable::file(format!("the {what} lacks {}; found {}", listed(lacks), listed(names)))
}

fn must_have_values(name: &str) -> String {
    format!("`{name}` is declared not null; if files may lack it, allow nulls and use missingColumns=\"null\"")
}

fn is_another(names: &[String], schema: &Schema, what: &str) -> Unreadable {
    let expected: Vec<String> = schema.fields().iter().map(|field| field.name().clone()).collect();
    let or = if what == "header" { ", or has it no header" } else { "" };
    Unreadable::file(format!("the {what} has the columns {}, expected {}", listed(names), listed(&expected)))
        .with_hint(format!("no column of the schema is in the {what}: is this another file{or}?"))
}

fn is_ambiguous(wanted: &str, several: &[String], what: &str) -> Unreadable {
    Unreadable::file(format!("the {what} has {}, expected one column `{wanted}`", listed(several)))
        .with_hint("column names may not be ambiguous: rename the columns in the file")
}

/// Names of columns or fields, to be looked up.
pub(crate) struct Index<'a> {
    names: &'a [String],
    exact: HashMap<&'a str, Vec<usize>>,
    lower: HashMap<String, Vec<usize>>,
}

impl<'a> Index<'a> {
    pub(crate) fn new(names: &'a [String]) -> Self {
        let mut exact: HashMap<&str, Vec<usize>> = HashMap::new();
        let mut lower: HashMap<String, Vec<usize>> = HashMap::new();
        for (place, name) in names.iter().enumerate() {
            exact.entry(name).or_default().push(place);
            lower.entry(name.to_lowercase()).or_default().push(place);
        }
        Self { names, exact, lower }
    }

    /// Return the place of the only column with a name, else of the only one that differs by the case of letters alone.
    /// The error has the names if there are several.
    pub(crate) fn place(&self, wanted: &str) -> Result<Option<usize>, Vec<String>> {
        let alike = self.exact.get(wanted).or_else(|| self.lower.get(&wanted.to_lowercase()));
        match alike.map_or(&[][..], Vec::as_slice) {
            [] => Ok(None),
            [only] => Ok(Some(*only)),
            several => Err(several.iter().map(|place| self.names[*place].clone()).collect()),
        }
    }
}
