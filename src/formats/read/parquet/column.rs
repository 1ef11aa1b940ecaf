//! A column of a row group, read in batches and returned as cells.

use std::fmt::Write as _;

use ::parquet::basic::TimeUnit;
use ::parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use ::parquet::data_type::{
    BoolType, ByteArray, ByteArrayType, DataType, DoubleType, FixedLenByteArray,
    FixedLenByteArrayType, FloatType, Int32Type, Int64Type, Int96, Int96Type,
};
use half::f16;
use model::timestamp::Timestamp;

use super::super::cell::{Cell, TypedTime, WrittenZone};
use super::damage;
use super::kind::Kind;
use super::source::catch;

/// Number of rows decoded at a time. It is large enough to amortize the calls and small enough for files
/// with many columns.
const BATCH_ROWS: usize = 1024;

/// Seconds per day.
const DAY_SECONDS: i64 = 86_400;

/// Julian day of 1970-01-01. 96-bit timestamps count Julian days.
const JULIAN_1970: i64 = 2_440_588;

/// A column within a row group.
pub(super) struct ColumnBatch {
    values: Values,
    /// 1 for each row with a value, 0 for each row without. Empty if all rows have values.
    levels: Vec<i16>,
    n_rows: usize,
    next_row: usize,
    next_value: usize,
    /// Buffer for values that are converted to text.
    text: String,
}

/// A reader and its last decoded values.
enum Values {
    Boolean(ColumnReaderImpl<BoolType>, Vec<bool>),
    Int32(ColumnReaderImpl<Int32Type>, Vec<i32>),
    Int64(ColumnReaderImpl<Int64Type>, Vec<i64>),
    Int96(ColumnReaderImpl<Int96Type>, Vec<Int96>),
    Float(ColumnReaderImpl<FloatType>, Vec<f32>),
    Double(ColumnReaderImpl<DoubleType>, Vec<f64>),
    Bytes(ColumnReaderImpl<ByteArrayType>, Vec<ByteArray>),
    Fixed(ColumnReaderImpl<FixedLenByteArrayType>, Vec<FixedLenByteArray>),
}

impl ColumnBatch {
    pub(super) fn new(reader: ColumnReader) -> Self {
        let values = match reader {
            ColumnReader::BoolColumnReader(reader) => Values::Boolean(reader, Vec::new()),
            ColumnReader::Int32ColumnReader(reader) => Values::Int32(reader, Vec::new()),
            ColumnReader::Int64ColumnReader(reader) => Values::Int64(reader, Vec::new()),
            ColumnReader::Int96ColumnReader(reader) => Values::Int96(reader, Vec::new()),
            ColumnReader::FloatColumnReader(reader) => Values::Float(reader, Vec::new()),
            ColumnReader::DoubleColumnReader(reader) => Values::Double(reader, Vec::new()),
            ColumnReader::ByteArrayColumnReader(reader) => Values::Bytes(reader, Vec::new()),
            ColumnReader::FixedLenByteArrayColumnReader(reader) => {
                Values::Fixed(reader, Vec::new())
            }
        };
        let text = String::new();
        Self { values, levels: Vec::new(), n_rows: 0, next_row: 0, next_value: 0, text }
    }

    /// Returns the value of the next row, interpreted as `kind`.
    ///
    /// # Errors
    /// If the column is damaged, or shorter than its row group.
    pub(super) fn next_cell(&mut self, kind: Kind) -> Result<Cell<'_>, String> {
        if self.next_row >= self.n_rows {
            self.fill()?;
        }
        let level = self.levels.get(self.next_row).copied();
        self.next_row += 1;
        if level == Some(0) {
            return Ok(Cell::Absent);
        }
        let at = self.next_value;
        self.next_value += 1;
        let text = &mut self.text;
        let cell = match &self.values {
            Values::Boolean(_, values) => values.get(at).map(|truth| Cell::Boolean(*truth)),
            Values::Int32(_, values) => values.get(at).map(|number| match kind {
                Kind::Unsigned => Cell::Integer(i64::from(number.cast_unsigned())),
                Kind::Date => read_date(*number),
                kind => read_whole(i64::from(*number), kind, text),
            }),
            Values::Int64(_, values) => {
                values.get(at).map(|number| read_whole(*number, kind, text))
            }
            Values::Int96(_, values) => values.get(at).map(read_int96),
            Values::Float(_, values) => values.get(at).map(|number| Cell::Float((*number).into())),
            Values::Double(_, values) => values.get(at).map(|number| Cell::Float(*number)),
            Values::Bytes(_, values) => {
                values.get(at).map(|value| read_bytes(value.data(), kind, text))
            }
            Values::Fixed(_, values) => {
                values.get(at).map(|value| read_bytes(value.data(), kind, text))
            }
        };
        cell.ok_or_else(damage)
    }

    /// Returns the numbers from the next row to the end of its batch. Empty unless the next row begins a
    /// batch in which all rows have numbers.
    ///
    /// # Errors
    /// The same as for [`Self::next_cell`].
    pub(super) fn next_floats(&mut self) -> Result<&[f64], String> {
        if self.next_row >= self.n_rows {
            self.fill()?;
        }
        match &self.values {
            Values::Double(_, numbers) if self.next_row == 0 && numbers.len() == self.n_rows => {
                Ok(numbers)
            }
            _ => Ok(&[]),
        }
    }

    /// Skips `n_rows` rows, all of which have values.
    pub(super) fn skip(&mut self, n_rows: usize) {
        self.next_row += n_rows;
        self.next_value += n_rows;
    }

    fn fill(&mut self) -> Result<(), String> {
        (self.next_row, self.next_value) = (0, 0);
        self.levels.clear();
        let levels = &mut self.levels;
        self.n_rows = match &mut self.values {
            Values::Boolean(reader, values) => read_batch(reader, levels, values),
            Values::Int32(reader, values) => read_batch(reader, levels, values),
            Values::Int64(reader, values) => read_batch(reader, levels, values),
            Values::Int96(reader, values) => read_batch(reader, levels, values),
            Values::Float(reader, values) => read_batch(reader, levels, values),
            Values::Double(reader, values) => read_batch(reader, levels, values),
            Values::Bytes(reader, values) => read_batch(reader, levels, values),
            Values::Fixed(reader, values) => read_batch(reader, levels, values),
        }?;
        if self.n_rows == 0 {
            return Err("fewer rows than the file declares".to_owned());
        }
        Ok(())
    }
}

fn read_batch<T: DataType>(
    reader: &mut ColumnReaderImpl<T>,
    levels: &mut Vec<i16>,
    values: &mut Vec<T::T>,
) -> Result<usize, String> {
    values.clear();
    let read = catch(|| reader.read_records(BATCH_ROWS, Some(levels), None, values));
    read.map(|(n_rows, _, _)| n_rows)
}

fn read_whole(number: i64, kind: Kind, text: &mut String) -> Cell<'_> {
    match kind {
        Kind::Unsigned if number < 0 => Cell::Large(i128::from(number.cast_unsigned())),
        Kind::Decimal { n_decimals } => read_decimal(i128::from(number), n_decimals, text),
        Kind::Timestamp { unit, is_utc } => {
            let zone = if is_utc { WrittenZone::Utc } else { WrittenZone::None };
            match unit {
                TimeUnit::MILLIS => read_time(number.checked_mul(1_000), false, zone),
                TimeUnit::MICROS => read_time(Some(number), false, zone),
                TimeUnit::NANOS => {
                    read_time(Some(number.div_euclid(1_000)), number % 1_000 != 0, zone)
                }
            }
        }
        Kind::TimeOfDay(unit) => read_time_of_day(number, unit, text),
        _ => Cell::Integer(number),
    }
}

fn read_int96<'a>(value: &Int96) -> Cell<'a> {
    let [low, high, day] = *value.data() else { return Cell::Unfit("timestamp is damaged") };
    let nanos = ((u64::from(high) << 32) | u64::from(low)).cast_signed();
    let seconds = (i64::from(day) - JULIAN_1970).checked_mul(DAY_SECONDS);
    let micros = seconds.and_then(|seconds| seconds.checked_mul(1_000_000));
    let micros = micros.and_then(|micros| micros.checked_add(nanos.div_euclid(1_000)));
    read_time(micros, nanos % 1_000 != 0, WrittenZone::None)
}

fn read_bytes<'a>(bytes: &'a [u8], kind: Kind, text: &'a mut String) -> Cell<'a> {
    match kind {
        Kind::Decimal { n_decimals } => match whole_number(bytes) {
            Some(number) => read_decimal(number, n_decimals, text),
            None => Cell::Unfit("number has more than 38 digits"),
        },
        Kind::Half => match bytes.try_into() {
            Ok(bytes) => Cell::Float(f16::from_le_bytes(bytes).to_f64()),
            Err(_) => Cell::Unfit("number is damaged"),
        },
        Kind::Uuid => {
            text.clear();
            for (idx, byte) in bytes.iter().enumerate() {
                let mark = if matches!(idx, 4 | 6 | 8 | 10) { "-" } else { "" };
                // Writing to memory cannot fail.
                write!(text, "{mark}{byte:02x}").unwrap_or_default();
            }
            Cell::Text(text)
        }
        _ => match std::str::from_utf8(bytes) {
            Ok(text) => Cell::Text(text),
            Err(_) => Cell::Unfit("value is not UTF-8 text"),
        },
    }
}

/// Parses a signed big-endian integer. Returns `None` if it exceeds 16 bytes.
fn whole_number(bytes: &[u8]) -> Option<i128> {
    let is_negative = bytes.first().is_some_and(|first| first & 0x80 != 0);
    let fill = if is_negative { 0xff } else { 0 };
    let (extra, low) = bytes.split_at(bytes.len().saturating_sub(16));
    let mut number = [fill; 16];
    number.get_mut(16 - low.len()..)?.copy_from_slice(low);
    let number = i128::from_be_bytes(number);
    (extra.iter().all(|byte| *byte == fill) && (number < 0) == is_negative).then_some(number)
}

/// Divides `number` by ten to the power of `n_decimals`, and rounds the result to the nearest float. A
/// whole number that a float may not represent exactly is returned with all its digits.
fn read_decimal(number: i128, n_decimals: u32, text: &mut String) -> Cell<'_> {
    if n_decimals == 0 {
        return i64::try_from(number).map_or(Cell::Large(number), Cell::Integer);
    }
    text.clear();
    // Writing to memory cannot fail.
    let whole = 10_i128.checked_pow(n_decimals).filter(|factor| number % factor == 0);
    match whole.map(|factor| number / factor) {
        Some(whole) if whole.unsigned_abs() >= 1 << f64::MANTISSA_DIGITS => {
            if i64::try_from(whole).is_err() {
                return Cell::Large(whole);
            }
            write!(text, "{whole}.0").unwrap_or_default();
            Cell::Bare(text)
        }
        _ => {
            write!(text, "{number}e-{n_decimals}").unwrap_or_default();
            text.parse().map_or(Cell::Unfit("number is damaged"), Cell::Float)
        }
    }
}

fn read_date<'a>(days: i32) -> Cell<'a> {
    let micros = i64::from(days).checked_mul(DAY_SECONDS * 1_000_000);
    read_time(micros, false, WrittenZone::Date)
}

fn read_time<'a>(micros: Option<i64>, is_cut: bool, zone: WrittenZone) -> Cell<'a> {
    let at = micros.map(Timestamp::from_micros);
    match at.filter(|at| Some(at.micros()) == micros) {
        Some(at) => Cell::Time(TypedTime { at, is_cut, zone }),
        None => Cell::Unfit("timestamp is outside the years 0000 to 9999-12-29"),
    }
}

/// Formats a time of day as a text, with a fraction if it has one.
fn read_time_of_day(number: i64, unit: TimeUnit, text: &mut String) -> Cell<'_> {
    let (per_second, n_digits) = match unit {
        TimeUnit::MILLIS => (1_000, 3),
        TimeUnit::MICROS => (1_000_000, 6),
        TimeUnit::NANOS => (1_000_000_000, 9),
    };
    let (seconds, fraction) = (number.div_euclid(per_second), number.rem_euclid(per_second));
    if !(0..=DAY_SECONDS).contains(&seconds) {
        return Cell::Unfit("time of day is not within a day");
    }
    text.clear();
    let (hour, minute) = (seconds / 3600, seconds / 60 % 60);
    // Writing to memory cannot fail.
    write!(text, "{hour:02}:{minute:02}:{:02}", seconds % 60).unwrap_or_default();
    if fraction > 0 {
        write!(text, ".{fraction:0n_digits$}").unwrap_or_default();
    }
    Cell::Text(text)
}
