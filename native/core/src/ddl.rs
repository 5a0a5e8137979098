//! The spelling of types in messages: DDL, as users write it in schemas.

use arrow_schema::{DataType, TimeUnit};

/// Return a type as users write it.
#[must_use]
pub fn ddl(data_type: &DataType) -> String {
    match data_type {
        DataType::Boolean => "boolean".into(),
        DataType::Int8 => "tinyint".into(),
        DataType::Int16 => "smallint".into(),
        DataType::Int32 => "int".into(),
        DataType::Int64 => "bigint".into(),
        DataType::Float32 => "float".into(),
        DataType::Float64 => "double".into(),
        DataType::Utf8 => "string".into(),
        DataType::Binary => "binary".into(),
        DataType::Date32 => "date".into(),
        DataType::Timestamp(TimeUnit::Microsecond, Some(_)) => "timestamp".into(),
        DataType::Timestamp(TimeUnit::Microsecond, None) => "timestamp_ntz".into(),
        DataType::Decimal128(precision, scale) => format!("decimal({precision},{scale})"),
        DataType::List(item) => format!("array<{}>", ddl(item.data_type())),
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(pair) if pair.len() == 2 => {
                format!("map<{},{}>", ddl(pair[0].data_type()), ddl(pair[1].data_type()))
            }
            other => other.to_string(),
        },
        DataType::Struct(fields) => {
            let fields: Vec<String> =
                fields.iter().map(|field| format!("{}:{}", field.name(), ddl(field.data_type()))).collect();
            format!("struct<{}>", fields.join(","))
        }
        other => other.to_string(),
    }
}
