//! One column of rows from text: values are appended in batches, and the rows that do not fit are reported.
//!
//! INVARIANT: `append` adds one value for each text, also for one that does not fit, so that columns stay level; the
//! caller takes the batch back with `truncate` and appends the good rows alone.

use std::sync::Arc;

use arrow_array::types::{
    Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    TimestampMicrosecondType,
};
use arrow_array::{ArrayRef, ArrowPrimitiveType, BinaryArray, BooleanArray, PrimitiveArray, StringArray};
use arrow_buffer::{BooleanBufferBuilder, Buffer, NullBufferBuilder, OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field, TimeUnit};

use super::decimal::decimal;
use super::number::{boolean, double, float, integer};
use crate::error::{ReadError, Result};
use crate::time::Times;

/// Texts of one column in consecutive rows. `None` is null.
pub trait Texts {
    /// The number of rows.
    fn len(&self) -> usize;
    /// The text of a row.
    fn text(&self, row: usize) -> Option<&[u8]>;
    /// The time of a row in µs since the epoch, if it is no text but a number. Only columns of timestamps ask for it.
    fn micros(&self, _row: usize) -> Option<i64> {
        None
    }
    /// Whether there are no rows.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The values of a column so far.
pub struct Column {
    data_type: DataType,
    is_nullable: bool,
    nulls: NullBufferBuilder,
    values: Values,
}

enum Values {
    Boolean(BooleanBufferBuilder),
    Int8(Vec<i8>),
    Int16(Vec<i16>),
    Int32(Vec<i32>),
    Int64(Vec<i64>),
    Float32(Vec<f32>),
    Float64(Vec<f64>),
    Date(Vec<i32>),
    Timestamp(Vec<i64>),
    WallTime(Vec<i64>),
    Decimal(Vec<i128>, u8, i8),
    Text(Vec<i32>, Vec<u8>),
    Bytes(Vec<i32>, Vec<u8>),
}

impl Column {
    /// Return an empty column of a field's type. Nested types have no text.
    pub fn new(field: &Field) -> Result<Self> {
        use DataType as T;
        let values = match field.data_type() {
            T::Boolean => Values::Boolean(BooleanBufferBuilder::new(0)),
            T::Int8 => Values::Int8(Vec::new()),
            T::Int16 => Values::Int16(Vec::new()),
            T::Int32 => Values::Int32(Vec::new()),
            T::Int64 => Values::Int64(Vec::new()),
            T::Float32 => Values::Float32(Vec::new()),
            T::Float64 => Values::Float64(Vec::new()),
            T::Date32 => Values::Date(Vec::new()),
            T::Timestamp(TimeUnit::Microsecond, Some(_)) => Values::Timestamp(Vec::new()),
            T::Timestamp(TimeUnit::Microsecond, None) => Values::WallTime(Vec::new()),
            T::Decimal128(precision, scale) => Values::Decimal(Vec::new(), *precision, *scale),
            T::Utf8 => Values::Text(vec![0], Vec::new()),
            T::Binary => Values::Bytes(vec![0], Vec::new()),
            other => return Err(ReadError::Internal(format!("text has no column of type {other}"))),
        };
        let data_type = field.data_type().clone();
        Ok(Self { data_type, is_nullable: field.is_nullable(), nulls: NullBufferBuilder::new(0), values })
    }

    /// The number of values.
    #[must_use]
    pub fn len(&self) -> usize {
        self.nulls.len()
    }

    /// Whether there are no values.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Keep only the first `length` values.
    pub fn truncate(&mut self, length: usize) {
        self.nulls.truncate(length);
        match &mut self.values {
            Values::Boolean(values) => values.truncate(length),
            Values::Int8(values) => values.truncate(length),
            Values::Int16(values) => values.truncate(length),
            Values::Int32(values) | Values::Date(values) => values.truncate(length),
            Values::Int64(values) | Values::Timestamp(values) | Values::WallTime(values) => values.truncate(length),
            Values::Float32(values) => values.truncate(length),
            Values::Float64(values) => values.truncate(length),
            Values::Decimal(values, _, _) => values.truncate(length),
            Values::Text(ends, bytes) | Values::Bytes(ends, bytes) => {
                ends.truncate(length + 1);
                bytes.truncate(usize::try_from(ends.last().copied().unwrap_or(0)).unwrap_or(0));
            }
        }
    }

    /// Append the values of `texts`; call `misfit` with each row that does not fit.
    pub fn append(&mut self, texts: &impl Texts, times: &Times, misfit: impl FnMut(usize)) {
        let mut to = Appending { nulls: &mut self.nulls, is_nullable: self.is_nullable, misfit };
        match &mut self.values {
            Values::Boolean(values) => to.each(texts, boolean, |value| values.append(value)),
            Values::Int8(values) => to.integers(texts, values),
            Values::Int16(values) => to.integers(texts, values),
            Values::Int32(values) => to.integers(texts, values),
            Values::Int64(values) => to.integers(texts, values),
            Values::Float32(values) => to.all(texts, values, float),
            Values::Float64(values) => to.all(texts, values, double),
            Values::Date(values) => to.all(texts, values, |text| times.date(text)),
            Values::Timestamp(values) => to.timestamps(texts, values, times),
            Values::WallTime(values) => to.all(texts, values, |text| times.timestamp_ntz(text)),
            Values::Decimal(values, precision, scale) => {
                to.all(texts, values, |text| decimal(text, *precision, *scale));
            }
            Values::Text(ends, bytes) | Values::Bytes(ends, bytes) => to.bytes(texts, ends, bytes),
        }
    }

    /// Return the column as an array. The column is empty afterwards.
    pub fn finish(&mut self) -> Result<ArrayRef> {
        let nulls = self.nulls.finish();
        let array: ArrayRef = match &mut self.values {
            Values::Boolean(values) => Arc::new(BooleanArray::new(values.finish(), nulls)),
            Values::Int8(values) => primitive::<Int8Type>(values, nulls, &self.data_type)?,
            Values::Int16(values) => primitive::<Int16Type>(values, nulls, &self.data_type)?,
            Values::Int32(values) => primitive::<Int32Type>(values, nulls, &self.data_type)?,
            Values::Int64(values) => primitive::<Int64Type>(values, nulls, &self.data_type)?,
            Values::Float32(values) => primitive::<Float32Type>(values, nulls, &self.data_type)?,
            Values::Float64(values) => primitive::<Float64Type>(values, nulls, &self.data_type)?,
            Values::Date(values) => primitive::<Date32Type>(values, nulls, &self.data_type)?,
            Values::Timestamp(values) | Values::WallTime(values) => {
                primitive::<TimestampMicrosecondType>(values, nulls, &self.data_type)?
            }
            Values::Decimal(values, _, _) => primitive::<Decimal128Type>(values, nulls, &self.data_type)?,
            Values::Text(ends, bytes) => {
                let (ends, bytes) = taken(ends, bytes);
                Arc::new(StringArray::try_new(ends, bytes, nulls).map_err(internal)?)
            }
            Values::Bytes(ends, bytes) => {
                let (ends, bytes) = taken(ends, bytes);
                Arc::new(BinaryArray::try_new(ends, bytes, nulls).map_err(internal)?)
            }
        };
        Ok(array)
    }
}

fn primitive<T: ArrowPrimitiveType>(
    values: &mut Vec<T::Native>,
    nulls: Option<arrow_buffer::NullBuffer>,
    data_type: &DataType,
) -> Result<ArrayRef> {
    let values = ScalarBuffer::from(std::mem::take(values));
    let array = PrimitiveArray::<T>::try_new(values, nulls).map_err(internal)?;
    Ok(Arc::new(array.with_data_type(data_type.clone())))
}

fn taken(ends: &mut Vec<i32>, bytes: &mut Vec<u8>) -> (OffsetBuffer<i32>, Buffer) {
    let ends = std::mem::replace(ends, vec![0]);
    (OffsetBuffer::new(ScalarBuffer::from(ends)), Buffer::from_vec(std::mem::take(bytes)))
}

/// Return an error of Arrow as one of the reader.
#[expect(clippy::needless_pass_by_value, reason = "it is an argument of `map_err`")]
#[must_use]
pub fn internal(error: arrow_schema::ArrowError) -> ReadError {
    ReadError::Internal(format!("Arrow rejected an array that the reader built: {error}"))
}

/// Where values of a batch go, beside the values themselves.
struct Appending<'a, M: FnMut(usize)> {
    nulls: &'a mut NullBufferBuilder,
    is_nullable: bool,
    misfit: M,
}

impl<M: FnMut(usize)> Appending<'_, M> {
    fn each<T: Default>(&mut self, texts: &impl Texts, parse: impl Fn(&[u8]) -> Option<T>, mut push: impl FnMut(T)) {
        for row in 0..texts.len() {
            let Some(text) = texts.text(row) else {
                self.null(row);
                push(T::default());
                continue;
            };
            self.nulls.append_non_null();
            match parse(text) {
                Some(value) => push(value),
                None => {
                    push(T::default());
                    (self.misfit)(row);
                }
            }
        }
    }

    fn all<T: Default>(&mut self, texts: &impl Texts, values: &mut Vec<T>, parse: impl Fn(&[u8]) -> Option<T>) {
        values.reserve(texts.len());
        self.each(texts, parse, |value| values.push(value));
    }

    fn timestamps(&mut self, texts: &impl Texts, values: &mut Vec<i64>, times: &Times) {
        values.reserve(texts.len());
        for row in 0..texts.len() {
            let (text, number) = (texts.text(row), texts.micros(row));
            if text.is_none() && number.is_none() {
                self.null(row);
                values.push(0);
                continue;
            }
            self.nulls.append_non_null();
            let found = number.or_else(|| text.and_then(|text| times.timestamp(text)));
            values.push(found.unwrap_or(0));
            if found.is_none() {
                (self.misfit)(row);
            }
        }
    }

    fn integers<T>(&mut self, texts: &impl Texts, values: &mut Vec<T>)
    where
        T: Default + Bounded,
    {
        self.all(texts, values, |text| integer(text, T::LEAST, T::GREATEST).map(T::of));
    }

    fn bytes(&mut self, texts: &impl Texts, ends: &mut Vec<i32>, bytes: &mut Vec<u8>) {
        ends.reserve(texts.len());
        for row in 0..texts.len() {
            match texts.text(row) {
                Some(text) => {
                    self.nulls.append_non_null();
                    bytes.extend_from_slice(text);
                }
                None => self.null(row),
            }
            #[expect(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "blocks are below 1 GiB")]
            ends.push(bytes.len() as i32);
        }
    }

    fn null(&mut self, row: usize) {
        self.nulls.append_null();
        if !self.is_nullable {
            (self.misfit)(row);
        }
    }
}

/// Integers of a width.
trait Bounded {
    const LEAST: i64;
    const GREATEST: i64;
    fn of(value: i64) -> Self;
}

macro_rules! bounded {
    ($($kind:ty),*) => {$(
        impl Bounded for $kind {
            const LEAST: i64 = <$kind>::MIN as i64;
            const GREATEST: i64 = <$kind>::MAX as i64;
            #[expect(clippy::allow_attributes, reason = "i64 needs no cast")]
            #[allow(clippy::cast_possible_truncation, clippy::unnecessary_cast, reason = "within the bounds")]
            fn of(value: i64) -> Self {
                value as $kind
            }
        }
    )*};
}
bounded!(i8, i16, i32, i64);
