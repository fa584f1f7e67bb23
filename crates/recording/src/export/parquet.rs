//! Parquet: the same table as [CSV](super::csv) has, typed, for DuckDB, Arrow and Spark.
//!
//! A row group has [`ROWS`] rows, and of these some thousands are in memory at a time. Texts are kept
//! once in a group's dictionary, which is what makes it small; it is not compressed beyond that.

use std::io::{self, Write};
use std::sync::Arc;

use parquet::basic::{LogicalType, Repetition, Type as PhysicalType};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, Int64Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::{Type, TypePtr};

use super::ExportOptions;
use super::columns::{COLUMNS, CallRows, Column, ColumnType, Field};
use super::timeline::{TimelineMoment, timeline};
use crate::{Event, Recording};

/// Rows of a group: what DuckDB's own writer takes (its ROW_GROUP_SIZE).
const ROWS: usize = 122_880;

/// Values of a column that are handed over at once.
const BATCH: usize = 4096;

/// Writes the calls of a recording as Parquet.
///
/// # Errors
/// Those of `out`.
pub fn write(
    recording: &Recording,
    out: &mut dyn Write,
    _options: &ExportOptions,
) -> io::Result<()> {
    let calls = timeline(recording).into_iter().filter_map(|(_, moment)| match moment {
        TimelineMoment::Call(event, _) => Some(event),
        _ => None,
    });
    let calls: Vec<&Event> = calls.collect();
    table(recording, &calls, out).map_err(|error| match error {
        ParquetError::External(source) => match source.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(other) => io::Error::other(other),
        },
        error => io::Error::other(error),
    })
}

fn table(recording: &Recording, calls: &[&Event], out: &mut dyn Write) -> Result<()> {
    let mut rows = CallRows::of(recording);
    let properties = WriterProperties::builder().set_created_by("becalm".to_owned()).build();
    // What is written goes through memory a group at a time: `out` need not be sent to threads.
    let mut file = SerializedFileWriter::new(Vec::new(), schema()?, Arc::new(properties))?;
    for group in calls.chunks(ROWS) {
        let mut columns = file.next_row_group()?;
        for (column, _) in COLUMNS {
            let Some(mut values) = columns.next_column()? else { break };
            for batch in group.chunks(BATCH) {
                put(&mut values, batch.iter().map(|event| rows.field(column, event)), column)?;
            }
            values.close()?;
        }
        columns.close()?;
        file.flush()?;
        out.write_all(&std::mem::take(file.inner_mut()))?;
    }
    out.write_all(&file.into_inner()?)?;
    Ok(())
}

/// Values of a column, one after the other; of what may be missing, also whether it is.
fn put<'a>(
    column: &mut SerializedColumnWriter,
    fields: impl Iterator<Item = Field<'a>>,
    of: Column,
) -> Result<()> {
    let (mut numbers, mut flags, mut texts) = (Vec::new(), Vec::new(), Vec::new());
    let mut is_there: Vec<i16> = Vec::new();
    for field in fields {
        match field {
            Field::Unsigned(number) => numbers.push(number as i64),
            Field::Flag(flag) => flags.push(flag),
            Field::Signed(number) => {
                is_there.push(number.is_some().into());
                numbers.extend(number);
            }
            Field::Text(text) => {
                is_there.push(text.is_some().into());
                texts.extend(text.map(|text| ByteArray::from(text.into_owned().into_bytes())));
            }
        }
    }
    match of.kind() {
        ColumnType::Unsigned => column.typed::<Int64Type>().write_batch(&numbers, None, None),
        ColumnType::Signed => {
            column.typed::<Int64Type>().write_batch(&numbers, Some(&is_there), None)
        }
        ColumnType::Flag => column.typed::<BoolType>().write_batch(&flags, None, None),
        ColumnType::Text => {
            column.typed::<ByteArrayType>().write_batch(&texts, Some(&is_there), None)
        }
    }?;
    Ok(())
}

fn schema() -> Result<TypePtr> {
    let fields = COLUMNS.iter().map(|(column, name)| {
        let (physical, logical) = match column.kind() {
            ColumnType::Unsigned => (PhysicalType::INT64, Some(LogicalType::integer(64, false))),
            ColumnType::Signed => (PhysicalType::INT64, None),
            ColumnType::Flag => (PhysicalType::BOOLEAN, None),
            ColumnType::Text => (PhysicalType::BYTE_ARRAY, Some(LogicalType::String)),
        };
        let repetition = match column.kind() {
            ColumnType::Unsigned | ColumnType::Flag => Repetition::REQUIRED,
            ColumnType::Signed | ColumnType::Text => Repetition::OPTIONAL,
        };
        let column = Type::primitive_type_builder(name, physical).with_repetition(repetition);
        column.with_logical_type(logical).build().map(Arc::new)
    });
    let fields = fields.collect::<Result<Vec<_>>>()?;
    Ok(Arc::new(Type::group_type_builder("becalm").with_fields(fields).build()?))
}
