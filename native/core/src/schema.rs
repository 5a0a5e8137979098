//! The columns of a state map, and the Arrow types that they can have.
//!
//! INVARIANT: key and value columns of a run are nullable, because a key can be null and a tombstone has no value.

use std::collections::HashSet;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Fields, Schema, SchemaRef, TimeUnit};

use crate::error::{Error, Result};

/// When the row was last written, ms. The map adds this column to the user's columns, like the next two.
pub const UPDATED_AT: &str = "updated_at";
/// The first ms at which the row is due.
pub const DEADLINE: &str = "deadline";
/// Whether the row is a tombstone.
pub const DELETED: &str = "deleted";
/// The names that a map reserves.
pub const TAKEN: [&str; 3] = [UPDATED_AT, DEADLINE, DELETED];

/// The columns of a state map, which maps (key, sub-key) to (value, `updated_at`, `deadline`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapSchema {
    /// The map's name, for messages.
    pub name: String,
    /// Key columns. Their hash decides which task has a row.
    pub key: Fields,
    /// Sub-key columns. They order the rows of one key.
    pub sub_key: Fields,
    /// Value columns.
    pub value: Fields,
}

impl MapSchema {
    /// Return the schema of these columns; `InvalidInput` for a type that cannot be a key or be stored, or for two
    /// equal names.
    pub fn new(name: impl Into<String>, key: &Fields, sub_key: &Fields, value: &Fields) -> Result<Self> {
        let schema = Self::of_types(name.into(), key, sub_key, value)?;
        schema.check_names()?;
        Ok(schema)
    }

    /// Return the schema of columns with any names; a column whose name is reserved or used is renamed
    /// (`distinct_names`). `InvalidInput` for a type that cannot be a key or be stored.
    pub fn with_distinct_names(
        name: impl Into<String>,
        key: &Fields,
        sub_key: &Fields,
        value: &Fields,
    ) -> Result<Self> {
        let Self { name, key, sub_key, value } = Self::of_types(name.into(), key, sub_key, value)?;
        let [keys, sub_keys, values] = distinct_names(&named(&key), &named(&sub_key), &named(&value));
        let (key, sub_key, value) = (renamed(&key, keys), renamed(&sub_key, sub_keys), renamed(&value, values));
        Ok(Self { name, key, sub_key, value })
    }

    fn of_types(name: String, key: &Fields, sub_key: &Fields, value: &Fields) -> Result<Self> {
        for field in key.iter().chain(sub_key).chain(value) {
            check_has_fields(&name, field.name(), field.data_type())?;
        }
        for field in key.iter().chain(sub_key) {
            check_key_type(&name, field)?;
        }
        for field in value {
            check_value_type(&name, field.name(), field.data_type())?;
        }
        Ok(Self { name, key: nullable(key), sub_key: nullable(sub_key), value: nullable(value) })
    }

    /// The columns of a run: key…, sub-key…, value…, `updated_at`, `deadline`, `deleted`.
    #[must_use]
    pub fn columns(&self) -> SchemaRef {
        let mut fields = self.live_fields();
        fields.push(Arc::new(Field::new(DELETED, DataType::Boolean, false)));
        Arc::new(Schema::new(fields))
    }

    /// The columns of a live row: all but `deleted`.
    #[must_use]
    pub fn live_columns(&self) -> SchemaRef {
        Arc::new(Schema::new(self.live_fields()))
    }

    /// key…, sub-key…, value…: the columns of rows on their way to a map.
    #[must_use]
    pub fn own_columns(&self) -> SchemaRef {
        Arc::new(Schema::new(self.own_fields()))
    }

    /// How many leading columns of a run are key or sub-key columns.
    #[must_use]
    pub fn key_width(&self) -> usize {
        self.key.len() + self.sub_key.len()
    }

    /// Whether `other` has the same key, sub-key and value columns. The map's name does not matter.
    #[must_use]
    pub fn has_columns_of(&self, other: &Self) -> bool {
        self.key == other.key && self.sub_key == other.sub_key && self.value == other.value
    }

    /// Describe the columns for a message: `(key) (sub-key) -> (value)`.
    #[must_use]
    pub fn describe(&self) -> String {
        format!("({}) ({}) -> ({})", names(&self.key), names(&self.sub_key), names(&self.value))
    }

    fn own_fields(&self) -> Vec<Arc<Field>> {
        self.key.iter().chain(&self.sub_key).chain(&self.value).cloned().collect()
    }

    fn live_fields(&self) -> Vec<Arc<Field>> {
        let mut fields = self.own_fields();
        fields.push(Arc::new(Field::new(UPDATED_AT, time_type(), false)));
        fields.push(Arc::new(Field::new(DEADLINE, time_type(), true)));
        fields
    }

    fn check_names(&self) -> Result<()> {
        let columns = self.columns();
        let mut names: Vec<&str> = columns.fields().iter().map(|field| field.name().as_str()).collect();
        names.sort_unstable();
        match names.windows(2).find(|pair| pair[0] == pair[1]) {
            None => Ok(()),
            Some(pair) => Err(Error::InvalidInput(format!(
                "state map `{}` has two columns named `{}`; names must be unique, and `{UPDATED_AT}`, `{DEADLINE}` and \
                 `{DELETED}` are reserved\nhint: rename the column",
                self.name, pair[0]
            ))),
        }
    }
}

/// Return the names of an operator's columns in its map, unique regardless of case. A name that the map or an earlier
/// column uses becomes `key.…`, `sub_key.…` or `value.…`; other names stay.
#[must_use]
pub fn distinct_names(key: &[&str], sub_key: &[&str], value: &[&str]) -> [Vec<String>; 3] {
    let mut used: HashSet<String> = TAKEN.map(str::to_owned).into();
    let mut apart = |part: &str, names: &[&str]| {
        let free = |name: &&str| {
            let mut name = (*name).to_owned();
            while !used.insert(name.to_lowercase()) {
                name = format!("{part}.{name}");
            }
            name
        };
        names.iter().map(free).collect()
    };
    [apart("key", key), apart("sub_key", sub_key), apart("value", value)]
}

/// The type of `updated_at` and `deadline`: ms since the epoch, UTC.
#[must_use]
pub fn time_type() -> DataType {
    DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into()))
}

/// Whether rows can be keyed by a column of this type.
#[must_use]
pub fn is_key_type(data_type: &DataType) -> bool {
    use DataType::{Binary, Boolean, Date32, Decimal128, Float32, Float64, Int8, Int16, Int32, Int64, Timestamp, Utf8};
    match data_type {
        Boolean | Int8 | Int16 | Int32 | Int64 | Float32 | Float64 | Utf8 | Binary | Date32 | Decimal128(_, _) => true,
        Timestamp(TimeUnit::Microsecond, zone) => zone.as_deref().is_none_or(|zone| zone == "UTC"),
        DataType::Struct(fields) => fields.iter().all(|field| is_key_type(field.data_type())),
        DataType::List(item) => is_key_type(item.data_type()),
        DataType::Map(entries, _) => is_key_type(entries.data_type()),
        _ => false,
    }
}

/// Whether a type is or contains a map. Spark groups by maps, but refuses them when it drops duplicates.
#[must_use]
pub fn has_map(data_type: &DataType) -> bool {
    match data_type {
        DataType::Map(_, _) => true,
        DataType::Struct(fields) => fields.iter().any(|field| has_map(field.data_type())),
        DataType::List(item) => has_map(item.data_type()),
        _ => false,
    }
}

/// Refuse structs without fields, which Parquet does not support.
fn check_has_fields(map: &str, path: &str, data_type: &DataType) -> Result<()> {
    match data_type {
        DataType::Struct(fields) if fields.is_empty() => Err(Error::InvalidInput(format!(
            "state map `{map}` cannot store `{path}`, a struct without fields, which Parquet does not support\n\
             hint: remove the column, or give the struct a field"
        ))),
        DataType::Struct(fields) => {
            fields.iter().try_for_each(|f| check_has_fields(map, &format!("{path}.{}", f.name()), f.data_type()))
        }
        DataType::List(item) => check_has_fields(map, &format!("{path}[]"), item.data_type()),
        DataType::Map(entries, _) => check_has_fields(map, path, entries.data_type()),
        _ => Ok(()),
    }
}

fn check_key_type(map: &str, field: &Field) -> Result<()> {
    if is_key_type(field.data_type()) {
        return Ok(());
    }
    Err(Error::InvalidInput(format!(
        "state map `{map}` cannot be keyed by `{}` of type {}; expected a boolean, number, decimal, string, binary, \
         date or timestamp[us], or a struct, list or map of these",
        field.name(),
        field.data_type()
    )))
}

fn check_value_type(map: &str, path: &str, data_type: &DataType) -> Result<()> {
    match data_type {
        DataType::Struct(fields) => {
            fields.iter().try_for_each(|f| check_value_type(map, &format!("{path}.{}", f.name()), f.data_type()))
        }
        DataType::List(item) => check_value_type(map, &format!("{path}[]"), item.data_type()),
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(pair) => {
                pair.iter().try_for_each(|f| check_value_type(map, &format!("{path}.{}", f.name()), f.data_type()))
            }
            _ => unkept(map, path, data_type),
        },
        simple if is_key_type(simple) || *simple == time_type() => Ok(()),
        other => unkept(map, path, other),
    }
}

fn unkept(map: &str, path: &str, data_type: &DataType) -> Result<()> {
    Err(Error::InvalidInput(format!("state map `{map}` cannot store `{path}` of type {data_type}")))
}

fn nullable(fields: &Fields) -> Fields {
    fields.iter().map(|f| Field::new(f.name(), f.data_type().clone(), true)).collect()
}

fn named(fields: &Fields) -> Vec<&str> {
    fields.iter().map(|field| field.name().as_str()).collect()
}

fn renamed(fields: &Fields, names: Vec<String>) -> Fields {
    fields.iter().zip(names).map(|(field, name)| field.as_ref().clone().with_name(name)).collect()
}

fn names(fields: &Fields) -> String {
    let name = |field: &Arc<Field>| format!("{}: {}", field.name(), field.data_type());
    fields.iter().map(name).collect::<Vec<_>>().join(", ")
}
