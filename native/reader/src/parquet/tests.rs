//! Files with other columns than the schema, and files of which some bytes are changed.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, TimestampMicrosecondType};
use arrow_array::{
    Array, ArrayRef, BinaryArray, Date32Array, Int32Array, Int64Array, ListArray, RecordBatch, StringArray, StructArray,
};
use arrow_schema::{DataType, Field, Fields, Schema, TimeUnit};
use bytes::Bytes;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, Int96, Int96Type};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

use super::*;
use crate::columns::{ByName, Extra, Missing};
use crate::error::{ReadError, Result};

fn write(columns: Vec<(&str, ArrayRef)>, properties: WriterProperties) -> Bytes {
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.into_inner().unwrap().into()
}

fn plain(columns: Vec<(&str, ArrayRef)>) -> Bytes {
    write(columns, WriterProperties::builder().build())
}

fn schema(fields: Vec<(&str, DataType)>) -> Arc<Schema> {
    Arc::new(Schema::new(fields.into_iter().map(|(name, kind)| Field::new(name, kind, true)).collect::<Vec<_>>()))
}

fn read(data: &Bytes, schema: &Arc<Schema>, missing: Missing) -> Result<Vec<RecordBatch>> {
    let file = ParquetFile::open(data.clone(), "UTC")?;
    let last = file.row_groups().len().max(1) - 1;
    let mut rows = file.read(schema, Arc::clone(schema), &ByName::lenient(missing), 0..=last, 100)?;
    let mut found = Vec::new();
    while let Some(batch) = rows.next_batch()? {
        assert_eq!(batch.schema(), *schema);
        found.push(batch);
    }
    Ok(found)
}

fn reason(found: Result<Vec<RecordBatch>>) -> String {
    match found {
        Err(ReadError::Content(found)) => found.reason,
        other => panic!("{other:?}"),
    }
}

fn ints(values: &[i32]) -> ArrayRef {
    Arc::new(Int32Array::from(values.to_vec()))
}

fn inner() -> ArrayRef {
    let fields = Fields::from(vec![Field::new("x", DataType::Int32, true), Field::new("y", DataType::Utf8, true)]);
    let text: ArrayRef = Arc::new(StringArray::from(vec!["a", "b"]));
    Arc::new(StructArray::new(fields, vec![ints(&[1, 2]), text], None))
}

#[test]
fn columns_and_fields_are_found_by_name_at_any_depth() {
    let list = ListArray::new(
        Arc::new(Field::new("item", inner().data_type().clone(), true)),
        arrow_buffer::OffsetBuffer::from_lengths([2, 0]),
        inner(),
        None,
    );
    let data = plain(vec![("a", ints(&[1, 2])), ("s", inner()), ("l", Arc::new(list))]);
    let part =
        DataType::Struct(vec![Field::new("z", DataType::Utf8, true), Field::new("X", DataType::Int64, true)].into());
    let item = DataType::List(Arc::new(Field::new("item", part.clone(), true)));
    let wanted = schema(vec![("l", item), ("S", part), ("new", DataType::Utf8)]);
    let found = read(&data, &wanted, Missing::Null).unwrap();
    let part = found[0].column(1).as_struct();
    assert_eq!(part.column(1).as_primitive::<Int64Type>().values(), &[1, 2]);
    assert!(part.column(0).is_null(0) && found[0].column(2).is_null(0));
    assert_eq!(
        found[0].column(0).as_list::<i32>().value(0).as_struct().column(1).as_primitive::<Int64Type>().values(),
        &[1, 2]
    );
    assert_eq!(reason(read(&data, &wanted, Missing::Fail)), "the file lacks `new`; found `a`, `s`, `l`");
}

#[test]
fn columns_that_are_not_asked_for_must_fit_and_are_not_read() {
    let data = plain(vec![("a", ints(&[1, 2])), ("b", ints(&[3, 4]))]);
    let file = ParquetFile::open(data, "UTC").unwrap();
    let asked = schema(vec![("new", DataType::Utf8)]);
    let read = |kind| {
        let all = schema(vec![("a", kind), ("new", DataType::Utf8)]);
        file.read(&all, Arc::clone(&asked), &ByName::lenient(Missing::Null), 0..=0, 100)
    };
    let batch = read(DataType::Int32).unwrap().next_batch().unwrap().unwrap();
    assert_eq!((batch.num_rows(), batch.num_columns(), batch.column(0).null_count()), (2, 1, 2));
    assert!(matches!(read(DataType::Utf8), Err(ReadError::Content(_))));
}

#[test]
fn a_file_is_not_read_without_any_column_of_the_schema() {
    let data = plain(vec![("a", ints(&[1]))]);
    let found = reason(read(&data, &schema(vec![("x", DataType::Int32)]), Missing::Null));
    assert_eq!(found, "the file has the columns `a`, expected `x`");
}

#[test]
fn columns_that_the_schema_lacks_are_refused_if_they_shall_be() {
    let data = plain(vec![("a", ints(&[1])), ("B", ints(&[1])), ("c", ints(&[1])), ("DAY", ints(&[1]))]);
    let file = ParquetFile::open(data, "UTC").unwrap();
    let read = |name: &str, elsewhere: Vec<String>| {
        let by = ByName { extra: Extra::Fail, missing: Missing::Fail, elsewhere };
        let all = schema(vec![("a", DataType::Int32), (name, DataType::Int32), ("c", DataType::Int32)]);
        file.read(&all, Arc::clone(&all), &by, 0..=0, 100)
    };
    assert!(read("b", vec!["day".into()]).is_ok());
    let Err(ReadError::Content(found)) = read("b", vec![]) else { panic!("it fits") };
    assert_eq!(found.reason, "the file has `DAY`, which the schema lacks");
}

#[test]
fn a_name_of_several_columns_is_refused() {
    let data = plain(vec![("aB", ints(&[1])), ("Ab", ints(&[2])), ("c", ints(&[3]))]);
    let read = |name| read(&data, &schema(vec![("c", DataType::Int32), (name, DataType::Int32)]), Missing::Null);
    assert_eq!(read("aB").unwrap()[0].num_rows(), 1);
    assert_eq!(reason(read("ab")), "the file has `aB`, `Ab`, expected one column `ab`");
}

#[test]
fn a_type_that_could_change_a_value_does_not_fit() {
    let data = plain(vec![("a", Arc::new(Int64Array::from(vec![1])))]);
    for (kind, expected) in [(DataType::Int32, "int"), (DataType::Float64, "double"), (DataType::Utf8, "string")] {
        let found = reason(read(&data, &schema(vec![("a", kind)]), Missing::Fail));
        assert_eq!(found, format!("column `a` is bigint, expected {expected}"));
    }
}

#[test]
fn binary_is_text_only_if_it_is_utf8() {
    let data = plain(vec![("a", Arc::new(BinaryArray::from_vec(vec!["é".as_bytes()])))]);
    let wanted = schema(vec![("a", DataType::Utf8)]);
    assert_eq!(read(&data, &wanted, Missing::Fail).unwrap()[0].column(0).as_string::<i32>().value(0), "é");
    let data = plain(vec![("a", Arc::new(BinaryArray::from_vec(vec![b"\xe9"])))]);
    assert_eq!(reason(read(&data, &wanted, Missing::Fail)), "column `a`: a value is not UTF-8");
}

#[test]
fn text_is_utf8_whatever_its_mark_is() {
    for mark in ["UTF8", "JSON", "ENUM", "STRING"] {
        let kind = Arc::new(parse_message_type(&format!("message m {{ required binary t ({mark}); }}")).unwrap());
        let properties = Arc::new(WriterProperties::builder().build());
        let mut writer = SerializedFileWriter::new(Vec::new(), kind, properties).unwrap();
        let mut group = writer.next_row_group().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        let values = [ByteArray::from("a"), ByteArray::from(vec![0xe9, 0x28])];
        column.typed::<ByteArrayType>().write_batch(&values, None, None).unwrap();
        column.close().unwrap();
        group.close().unwrap();
        let data: Bytes = writer.into_inner().unwrap().into();
        let found = reason(read(&data, &schema(vec![("t", DataType::Utf8)]), Missing::Fail));
        assert!(found.to_lowercase().contains("utf"), "{mark}: {found}");
    }
}

#[test]
fn times_in_96_bits_have_room_for_every_year() {
    let kind = Arc::new(parse_message_type("message m { required int96 t; }").unwrap());
    let mut writer =
        SerializedFileWriter::new(Vec::new(), kind, Arc::new(WriterProperties::builder().build())).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    let days = [1_721_426u32, 2_440_588, 5_373_484]; // 0001-01-01, 1970-01-01, 9999-12-31 as Julian days
    let mut values = vec![];
    for day in days {
        let mut value = Int96::new();
        value.set_data(1_000, 0, day);
        values.push(value);
    }
    column.typed::<Int96Type>().write_batch(&values, None, None).unwrap();
    column.close().unwrap();
    group.close().unwrap();
    let data: Bytes = writer.into_inner().unwrap().into();
    let wanted = schema(vec![("t", DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())))]);
    let found = read(&data, &wanted, Missing::Fail).unwrap();
    let day_us = 86_400_000_000;
    assert_eq!(
        found[0].column(0).as_primitive::<TimestampMicrosecondType>().values(),
        &[-719_162 * day_us + 1, 1, 2_932_896 * day_us + 1]
    );
    let local = schema(vec![("t", DataType::Timestamp(TimeUnit::Microsecond, None))]);
    let found = read(&data, &local, Missing::Fail).unwrap();
    assert_eq!(found[0].column(0).as_primitive::<TimestampMicrosecondType>().value(1), 1);
}

#[test]
fn days_that_an_old_spark_wrote_keep_their_date() {
    let mark = KeyValue::new("org.apache.spark.version".to_owned(), "2.4.8".to_owned());
    let properties = WriterProperties::builder().set_key_value_metadata(Some(vec![mark])).build();
    let data = write(vec![("d", Arc::new(Date32Array::from(vec![-719_164, 0])))], properties);
    let found = read(&data, &schema(vec![("d", DataType::Date32)]), Missing::Fail).unwrap();
    assert_eq!(found[0].column(0).as_primitive::<arrow_array::types::Date32Type>().values(), &[-719_162, 0]);
}

#[test]
fn a_changed_byte_is_an_error_or_leaves_as_many_rows() {
    let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("é"), None, Some("abc")]));
    let mut found = 0;
    for compression in [Compression::UNCOMPRESSED, Compression::ZSTD(ZstdLevel::default()), Compression::SNAPPY] {
        let properties =
            WriterProperties::builder().set_compression(compression).set_write_page_header_statistics(true);
        let data = write(vec![("a", ints(&[1, 2, 3])), ("t", Arc::clone(&texts))], properties.build());
        let wanted = schema(vec![("a", DataType::Int64), ("t", DataType::Utf8)]);
        for place in 0..data.len() {
            for change in [0x01, 0x80, 0xff] {
                let mut mutant = data.to_vec();
                mutant[place] ^= change;
                match read(&mutant.into(), &wanted, Missing::Fail) {
                    Ok(batches) => {
                        let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
                        assert_eq!(rows, 3, "{place} {change}");
                    }
                    Err(ReadError::Content(_)) => found += 1,
                    Err(other) => panic!("{place} {change}: {other:?}"),
                }
            }
        }
        for length in 0..data.len() {
            assert!(
                matches!(read(&data.slice(..length), &wanted, Missing::Fail), Err(ReadError::Content(_))),
                "{length}"
            );
        }
    }
    assert!(found > 1000, "{found}");
}
