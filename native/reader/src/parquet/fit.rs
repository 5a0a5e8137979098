//! Which columns of a file are those of a schema, at any depth, and whether their values fit.
//!
//! Columns and fields are matched by name: their own, else the only one that differs by the case of letters alone.
//! INVARIANT: a type fits only if no value can change.

use arrow_schema::{DataType, Field, Fields, Schema, TimeUnit};
use tidemill_core::ddl::ddl;

use crate::columns::{ByName, Index};
use crate::error::Unreadable;
use crate::shown::short;

/// The leaf columns to read, and how they become the columns that are asked for.
#[derive(Debug, Clone, Default)]
pub(super) struct Chosen {
    /// By their numbers in the file.
    pub(super) leaves: Vec<usize>,
    /// For each column that is asked for the name of its column in the file; `None` if the file lacks it.
    pub(super) names: Vec<Option<String>>,
}

/// The zone that marks times in 96 bits, because Arrow has no type for them. It is UTC, as is that of other instants.
pub(super) const IN_DAYS: &str = "+00:00";

/// Whether times with this zone are stored in 96 bits: as a day and nanoseconds.
pub(super) fn is_in_days(zone: Option<&str>) -> bool {
    zone == Some(IN_DAYS)
}

/// Choose the columns `asked` in a file that must have those of `schema`, of which they are some.
pub(super) fn choose(file: &Schema, schema: &Schema, asked: &Schema, by: &ByName) -> Result<Chosen, Unreadable> {
    let names: Vec<String> = file.fields().iter().map(|field| field.name().clone()).collect();
    let places = by.places(&names, &[], schema, "file")?;
    let mut starts = Vec::with_capacity(names.len());
    let mut before = 0;
    for field in file.fields() {
        starts.push(before);
        before += leaves(field.data_type());
    }
    let mut chosen = Chosen::default();
    for (wanted, place) in schema.fields().iter().zip(places) {
        let is_asked = asked.field_with_name(wanted.name()).is_ok();
        let Some(place) = place else {
            if is_asked {
                chosen.names.push(None);
            }
            continue;
        };
        let mut of_column = Vec::new();
        pick(file.field(place), wanted, starts[place], &mut of_column)
            .map_err(|why| Unreadable::file(format!("column `{}` is {why}", wanted.name())))?;
        if is_asked {
            chosen.leaves.append(&mut of_column);
            chosen.names.push(Some(names[place].clone()));
        }
    }
    Ok(chosen)
}

/// Return the place and the field of a name, if one field has it. The error has the names if there are several.
pub(super) fn named<'a>(fields: &'a Fields, wanted: &str) -> Result<Option<(usize, &'a Field)>, Vec<String>> {
    let names: Vec<String> = fields.iter().map(|field| field.name().clone()).collect();
    Ok(Index::new(&names).place(wanted)?.map(|place| (place, fields[place].as_ref())))
}

/// The number of leaf columns of a type.
fn leaves(kind: &DataType) -> usize {
    match kind {
        DataType::Struct(fields) => fields.iter().map(|field| leaves(field.data_type())).sum(),
        DataType::List(item) | DataType::Map(item, _) => leaves(item.data_type()),
        _ => 1,
    }
}

/// Add the leaf columns that `wanted` needs of `found`. The error says what was found and expected.
fn pick(found: &Field, wanted: &Field, before: usize, into: &mut Vec<usize>) -> Result<(), String> {
    match (found.data_type(), wanted.data_type()) {
        (DataType::Struct(have), DataType::Struct(want)) => {
            let start = into.len();
            for field in want {
                match named(have, field.name()).map_err(|_| differs(found, wanted))? {
                    Some((place, inner)) => {
                        let first: usize = have.iter().take(place).map(|one| leaves(one.data_type())).sum();
                        pick(inner, field, before + first, into)
                            .map_err(|why| format!("{why}, in field `{}`", field.name()))?;
                    }
                    None if field.is_nullable() => {}
                    None => return Err(differs(found, wanted)),
                }
            }
            if into.len() == start {
                into.push(before); // whether the struct is null must be known
            }
            Ok(())
        }
        (DataType::List(have), DataType::List(want)) => pick(have, want, before, into),
        (DataType::Map(have, _), DataType::Map(want, _)) => match (have.data_type(), want.data_type()) {
            (DataType::Struct(have), DataType::Struct(want)) if have.len() == 2 && want.len() == 2 => {
                pick(&have[0], &want[0], before, into)?;
                pick(&have[1], &want[1], before + leaves(have[0].data_type()), into)
            }
            _ => Err(differs(found, wanted)),
        },
        (DataType::Null, _) if wanted.is_nullable() => {
            into.push(before);
            Ok(())
        }
        (have, want) if fits(have, want) => {
            into.push(before);
            Ok(())
        }
        _ => Err(differs(found, wanted)),
    }
}

fn differs(found: &Field, wanted: &Field) -> String {
    format!("{}, expected {}", short(type_name(found.data_type()).as_bytes()), ddl(wanted.data_type()))
}

/// Whether each value of a leaf type is a value of another one.
fn fits(found: &DataType, wanted: &DataType) -> bool {
    match canonical(found) {
        Some(kind) => kind == *wanted || widens(&kind, wanted) || is_text(found, wanted) || has_room(found, wanted),
        None => false,
    }
}

/// Whether a type has room for one whose next larger type in Spark is too large, or whose meaning is open.
fn has_room(found: &DataType, wanted: &DataType) -> bool {
    match (found, wanted) {
        (DataType::UInt32, DataType::Float64) => true,
        // Nothing says whether times in 96 bits are instants. Spark reads them as either.
        (DataType::Timestamp(_, zone), DataType::Timestamp(_, None)) => is_in_days(zone.as_deref()),
        _ => false,
    }
}

/// Binary that is not marked as text is read as text, if it is UTF-8.
fn is_text(found: &DataType, wanted: &DataType) -> bool {
    matches!((found, wanted), (DataType::Binary, DataType::Utf8) | (DataType::Utf8, DataType::Binary))
}

/// Return the type of a schema that a type of a file is, or `None` if there is none.
pub(super) fn canonical(kind: &DataType) -> Option<DataType> {
    use DataType as T;
    Some(match kind {
        T::UInt8 => T::Int16,
        T::UInt16 => T::Int32,
        T::UInt32 => T::Int64,
        T::UInt64 => T::Decimal128(20, 0),
        T::Float16 => T::Float32,
        T::FixedSizeBinary(_) => T::Binary,
        T::Timestamp(_, zone) => T::Timestamp(TimeUnit::Microsecond, zone.as_ref().map(|_| "UTC".into())),
        T::Decimal128(precision, scale) if *scale >= 0 => T::Decimal128(*precision, *scale),
        T::Boolean | T::Int8 | T::Int16 | T::Int32 | T::Int64 | T::Float32 | T::Float64 => kind.clone(),
        T::Utf8 | T::Binary | T::Date32 => kind.clone(),
        _ => return None,
    })
}

fn widens(found: &DataType, wanted: &DataType) -> bool {
    use DataType as T;
    let digits = |kind: &DataType| match kind {
        T::Int8 => Some(3),
        T::Int16 => Some(5),
        T::Int32 => Some(10),
        T::Int64 => Some(19),
        _ => None,
    };
    match (digits(found), wanted) {
        (Some(have), T::Int8 | T::Int16 | T::Int32 | T::Int64) => digits(wanted).is_some_and(|want| have < want),
        (Some(have), T::Decimal128(precision, scale)) => i16::from(*precision) - i16::from(*scale) >= have,
        (Some(have), T::Float64) => have < 19,
        (None, T::Decimal128(precision, scale)) => match found {
            T::Decimal128(p, s) => {
                scale >= s && i16::from(*precision) - i16::from(*scale) >= i16::from(*p) - i16::from(*s)
            }
            _ => false,
        },
        (None, T::Float64) => *found == T::Float32,
        (None, T::Timestamp(_, None)) => *found == T::Date32,
        _ => false,
    }
}

/// Return the name of a type of a file for messages.
pub(super) fn type_name(kind: &DataType) -> String {
    match kind {
        DataType::Null => "void".into(),
        DataType::Time32(_) | DataType::Time64(_) => "time".into(),
        DataType::Struct(_) | DataType::List(_) | DataType::Map(_, _) => ddl(kind),
        other => canonical(other).map_or_else(|| other.to_string(), |known| ddl(&known)),
    }
}
