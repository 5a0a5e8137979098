//! Columns by name and type: what an operator reads from its batches, and the errors about them.

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Fields, Schema};

use super::Signature;
use crate::ddl::ddl;
use crate::error::{Error, Result};
use crate::key::Keys;
use crate::map::StateMap;
use crate::schema::MapSchema;

/// A column of an operator's input. It is found when the operator is created, and looked up in every batch.
#[derive(Clone, Debug)]
pub(super) struct InputColumn {
    pub(super) name: String,
    pub(super) data_type: DataType,
}

impl InputColumn {
    /// Find the column `name` of `schema`.
    pub(super) fn find(operator: &str, schema: &Schema, name: &str) -> Result<Self> {
        match schema.column_with_name(name) {
            Some((_, field)) => Ok(Self { name: name.to_owned(), data_type: field.data_type().clone() }),
            None => Err(Error::InvalidInput(format!(
                "operator `{operator}` names the column `{name}`, but its input has {}",
                listed(schema)
            ))),
        }
    }

    /// Find the columns `names` of `schema`, in this order.
    pub(super) fn find_all(operator: &str, schema: &Schema, names: &[String]) -> Result<Vec<Self>> {
        names.iter().map(|name| Self::find(operator, schema, name)).collect()
    }

    /// Return the column as a key column.
    pub(super) fn field(&self) -> Field {
        Field::new(&self.name, self.data_type.clone(), true)
    }

    /// Return this column of a batch.
    pub(super) fn of(&self, operator: &str, rows: &RecordBatch) -> Result<ArrayRef> {
        match rows.column_by_name(&self.name) {
            Some(column) if *column.data_type() == self.data_type => Ok(column.clone()),
            Some(column) => Err(Error::InvalidInput(format!(
                "operator `{operator}` received column `{}` as {}, expected {}",
                self.name,
                named(column.data_type()),
                named(&self.data_type)
            ))),
            None => Err(Error::InvalidInput(format!(
                "operator `{operator}` received rows without its column `{}`; the rows have {}",
                self.name,
                listed(rows.schema_ref())
            ))),
        }
    }

    /// Return these columns of a batch.
    pub(super) fn all_of(columns: &[Self], operator: &str, rows: &RecordBatch) -> Result<Vec<ArrayRef>> {
        columns.iter().map(|column| column.of(operator, rows)).collect()
    }
}

/// Return the keys of `rows` rows with these key columns.
pub(super) fn keys_of(columns: &[ArrayRef], rows: usize) -> Result<Keys> {
    if columns.is_empty() { Ok(Keys::empty_key(rows)) } else { Keys::new(columns) }
}

/// Return the schema of an operator's map without sub-keys. Errors name the operator.
pub(super) fn map_of(operator: &str, map: &str, key: &Fields, value: &Fields) -> Result<MapSchema> {
    map_in(operator, map, key, &Fields::empty(), value)
}

/// Return the schema of an operator's map, whose columns may have any names. Errors name the operator.
pub(super) fn map_in(operator: &str, map: &str, key: &Fields, sub_key: &Fields, value: &Fields) -> Result<MapSchema> {
    MapSchema::with_distinct_names(map, key, sub_key, value).map_err(|error| match error {
        Error::InvalidInput(text) => Error::InvalidInput(format!("operator `{operator}`: {text}")),
        other => other,
    })
}

/// Return the map of an operator that keeps exactly one.
pub(super) fn only_map<'a>(operator: &Signature, maps: &'a mut [StateMap]) -> Result<&'a mut StateMap> {
    match maps {
        [map] => Ok(map),
        _ => Err(Error::InternalError(format!(
            "operator `{}` received {} state maps, expected 1",
            operator.name,
            maps.len()
        ))),
    }
}

/// Return the keys of each chunk; `InternalError` for a chunk that `prepare` did not make.
pub(super) fn chunk_keys(operator: &Signature, chunks: &[RecordBatch]) -> Result<Vec<Keys>> {
    let width = operator.maps[0].key.len();
    let keys = chunks.iter().map(|chunk| {
        check_chunk(operator, chunk)?;
        keys_of(&chunk.columns()[..width], chunk.num_rows())
    });
    keys.collect()
}

fn check_chunk(operator: &Signature, chunk: &RecordBatch) -> Result<()> {
    if same_columns(operator.prepared.fields(), chunk.schema_ref().fields()) {
        return Ok(());
    }
    Err(Error::InternalError(format!(
        "operator `{}` received a chunk with {}, expected {}",
        operator.name,
        listed(chunk.schema_ref()),
        listed(&operator.prepared)
    )))
}

fn same_columns(expected: &Fields, found: &Fields) -> bool {
    expected.len() == found.len()
        && expected.iter().zip(found).all(|(a, b)| a.name() == b.name() && a.data_type() == b.data_type())
}

/// Return a type as users write it. For nested types, Arrow's names inside may differ even if the DDL is equal.
fn named(data_type: &DataType) -> String {
    if data_type.is_nested() { format!("{} ({data_type})", ddl(data_type)) } else { ddl(data_type) }
}

fn listed(schema: &Schema) -> String {
    let columns: Vec<String> =
        schema.fields().iter().map(|f| format!("`{}` {}", f.name(), ddl(f.data_type()))).collect();
    if columns.is_empty() { "no columns".to_owned() } else { columns.join(", ") }
}
