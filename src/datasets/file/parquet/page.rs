//! The pages of one column of a row group, decoded one after the other.

use model::timestamp::Timestamp;

use super::{
    super::cell::Cell,
    codec::uncompressed,
    schema::{Chunk, ColumnSchema, Meaning, Physical},
    thrift::{Bytes, Tree},
};

/// Seconds of a day.
const DAY_SECONDS: i64 = 86_400;

/// 1970-01-01 as a Julian day, which Int96 moments count.
const JULIAN_1970: i64 = 2_440_588;

/// A value as it is stored: text by its place in a buffer.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Stored {
    Boolean(bool),
    Integer(i64),
    Float(f64),
    Moment(Timestamp),
    Text { begin: usize, end: usize },
}

/// Values and the text that they point into.
#[derive(Debug, Default)]
struct Values {
    stored: Vec<Stored>,
    text: Vec<u8>,
}

/// A column of a row group, read value by value.
#[derive(Debug)]
pub(super) struct ColumnReader {
    bytes: Vec<u8>,
    at: usize,
    codec: i64,
    dictionary: Values,
    page: Values,
    /// Whether the page's values are places in the dictionary.
    is_of_dictionary: bool,
    /// One for each row of the page: whether it has a value.
    present: Vec<bool>,
    next_row: usize,
    next_value: usize,
}

impl ColumnReader {
    /// Reads `bytes`, which are those of `chunk`.
    pub(super) fn new(bytes: Vec<u8>, chunk: Chunk) -> Self {
        Self {
            bytes,
            at: 0,
            codec: chunk.codec,
            dictionary: Values::default(),
            page: Values::default(),
            is_of_dictionary: false,
            present: Vec::new(),
            next_row: 0,
            next_value: 0,
        }
    }

    /// The next value.
    ///
    /// # Errors
    /// What is wrong with the column.
    pub(super) fn next(&mut self, schema: &ColumnSchema) -> Result<Cell<'_>, String> {
        while self.next_row >= self.present.len() {
            self.next_page(schema)?;
        }
        let is_present = self.present.get(self.next_row).copied().unwrap_or(false);
        self.next_row += 1;
        if !is_present {
            return Ok(Cell::Absent);
        }
        let value = self.page.stored.get(self.next_value).copied();
        self.next_value += 1;
        let (values, value) = match value {
            Some(Stored::Integer(place)) if self.is_of_dictionary => {
                let place = usize::try_from(place).unwrap_or(usize::MAX);
                (&self.dictionary, self.dictionary.stored.get(place).copied())
            }
            value => (&self.page, value),
        };
        let value = value.ok_or("a page of it is too short")?;
        Ok(match value {
            Stored::Boolean(truth) => Cell::Boolean(truth),
            Stored::Integer(number) => Cell::Integer(number),
            Stored::Float(number) => Cell::Float(number),
            Stored::Moment(moment) => Cell::Moment(moment),
            Stored::Text { begin, end } => {
                let text = values.text.get(begin..end).unwrap_or_default();
                Cell::Text(std::str::from_utf8(text).map_err(|_| "it holds bytes, not text")?)
            }
        })
    }

    fn next_page(&mut self, schema: &ColumnSchema) -> Result<(), String> {
        let damaged = || "a page of it is damaged".to_owned();
        let mut rest = Bytes(self.bytes.get(self.at..).unwrap_or_default());
        let header = rest.tree().ok_or_else(damaged)?;
        let sizes = header.size(2).zip(header.size(3));
        let (size_bytes, stored_bytes) = sizes.ok_or_else(damaged)?;
        let body = rest.take(stored_bytes).ok_or_else(damaged)?;
        let at = self.bytes.len() - rest.0.len();
        match header.integer(1) {
            Some(2) => {
                let page = header.member(7).ok_or_else(damaged)?;
                let text = uncompressed(self.codec, body, size_bytes)?;
                let n_values = page.size(1).ok_or_else(damaged)?;
                self.dictionary = plain(&mut Bytes(&text), schema, n_values).ok_or_else(damaged)?;
            }
            Some(0) => {
                let page = header.member(5).ok_or_else(damaged)?;
                let text = uncompressed(self.codec, body, size_bytes)?;
                let n_rows = page.size(1).ok_or_else(damaged)?;
                let mut rest = Bytes(&text);
                let mut present = vec![true; n_rows];
                if schema.is_optional {
                    let n_bytes = rest.array().map(u32::from_le_bytes).ok_or_else(damaged)?;
                    let levels = rest.take(n_bytes as usize).ok_or_else(damaged)?;
                    present = levels_of(levels, n_rows).ok_or_else(damaged)?;
                }
                let encoding = page.integer(2);
                self.take_page(rest, schema, encoding, present)?;
            }
            Some(3) => {
                let page = header.member(8).ok_or_else(damaged)?;
                let (text, levels) = self.second_version(page, body, size_bytes)?;
                let n_rows = page.size(1).ok_or_else(damaged)?;
                let present = if schema.is_optional {
                    levels_of(&levels, n_rows).ok_or_else(damaged)?
                } else {
                    vec![true; n_rows]
                };
                self.take_page(Bytes(&text), schema, page.integer(4), present)?;
            }
            // An index of pages, which nobody here needs.
            _ => {}
        }
        self.at = at;
        Ok(())
    }

    /// The values and the levels of a page of the second version, whose levels are not compressed.
    fn second_version(
        &self,
        page: &Tree<'_>,
        body: &[u8],
        size_bytes: usize,
    ) -> Result<(Vec<u8>, Vec<u8>), String> {
        let damaged = || "a page of it is damaged".to_owned();
        let sizes = page.size(6).zip(page.size(5));
        let (n_repeats, n_levels) = sizes.ok_or_else(damaged)?;
        let mut rest = Bytes(body);
        rest.take(n_repeats).ok_or_else(damaged)?;
        let levels = rest.take(n_levels).ok_or_else(damaged)?.to_vec();
        let codec = if page.truth(7) == Some(false) { 0 } else { self.codec };
        let size_bytes = size_bytes.checked_sub(n_repeats + n_levels).ok_or_else(damaged)?;
        // Where all values are absent there is nothing, not even an empty stream.
        let text =
            if rest.0.is_empty() { Vec::new() } else { uncompressed(codec, rest.0, size_bytes)? };
        Ok((text, levels))
    }

    fn take_page(
        &mut self,
        mut rest: Bytes<'_>,
        schema: &ColumnSchema,
        encoding: Option<i64>,
        present: Vec<bool>,
    ) -> Result<(), String> {
        let n_values = present.iter().filter(|is_present| **is_present).count();
        self.is_of_dictionary = matches!(encoding, Some(2 | 8));
        let page = match encoding {
            Some(0) => plain(&mut rest, schema, n_values),
            Some(2 | 8) => {
                let n_bits = if n_values == 0 { Some(0) } else { rest.byte() };
                n_bits.and_then(|n_bits| runs(rest.0, n_bits.into(), n_values)).map(|places| {
                    let stored = places.into_iter().map(Stored::Integer).collect();
                    Values { stored, text: Vec::new() }
                })
            }
            Some(3) if schema.physical == Physical::Boolean => {
                rest.take(4).and_then(|_length| runs(rest.0, 1, n_values)).map(|truths| {
                    let truth = |number| Stored::Boolean(number == 1);
                    let stored = truths.into_iter().map(truth).collect();
                    Values { stored, text: Vec::new() }
                })
            }
            _ => {
                return Err("it is written in an encoding that is not read; write it with the \
                            defaults of pyarrow or pandas"
                    .to_owned());
            }
        };
        self.page = page.ok_or("a page of it is damaged")?;
        self.present = present;
        (self.next_row, self.next_value) = (0, 0);
        Ok(())
    }
}

/// Which rows have a value. None: the levels are damaged.
fn levels_of(levels: &[u8], n_rows: usize) -> Option<Vec<bool>> {
    let levels = runs(levels, 1, n_rows)?;
    Some(levels.into_iter().map(|level| level == 1).collect())
}

/// Numbers of `n_bits`, in runs of one number or packed by eights.
fn runs(bytes: &[u8], n_bits: u32, n_values: usize) -> Option<Vec<i64>> {
    if n_bits > 32 {
        return None;
    }
    let mut rest = Bytes(bytes);
    let mut values = Vec::new();
    while values.len() < n_values {
        let head = rest.varint()?;
        let n_run = usize::try_from(head >> 1).ok()?;
        let n_left = n_values - values.len();
        if head & 1 == 0 {
            let bytes = rest.take(n_bits.div_ceil(8) as usize)?;
            let value = bytes.iter().rev().fold(0, |value, byte| (value << 8) | i64::from(*byte));
            if n_run == 0 {
                return None;
            }
            values.extend(std::iter::repeat_n(value, n_run.min(n_left)));
        } else {
            let packed = rest.take(n_run.checked_mul(n_bits as usize)?)?;
            values.extend((0..(n_run * 8).min(n_left)).map(|idx| bits(packed, idx, n_bits)));
            if n_run == 0 {
                return None;
            }
        }
    }
    Some(values)
}

/// The number at place `idx` of those packed.
fn bits(packed: &[u8], idx: usize, n_bits: u32) -> i64 {
    let first = idx * n_bits as usize;
    let (byte, shift) = (first / 8, first % 8);
    let bytes = packed.iter().skip(byte).take(8).enumerate();
    let window = bytes.fold(0_u64, |window, (at, byte)| window | (u64::from(*byte) << (8 * at)));
    let value = (window >> shift) & ((1_u64 << n_bits) - 1);
    value.cast_signed()
}

/// Values one after the other. None: there are fewer.
fn plain(rest: &mut Bytes<'_>, schema: &ColumnSchema, n_values: usize) -> Option<Values> {
    let mut values = Values::default();
    if schema.physical == Physical::Boolean {
        let packed = rest.take(n_values.div_ceil(8))?;
        let truth = |idx| Stored::Boolean(bits(packed, idx, 1) == 1);
        values.stored = (0..n_values).map(truth).collect();
        return Some(values);
    }
    for _ in 0..n_values {
        let stored = match schema.physical {
            Physical::Int32 => {
                let number = i32::from_le_bytes(rest.array()?);
                match schema.meaning {
                    Meaning::Unsigned => Stored::Integer(number.cast_unsigned().into()),
                    meaning => meant(number.into(), meaning),
                }
            }
            Physical::Int64 => meant(i64::from_le_bytes(rest.array()?), schema.meaning),
            Physical::Int96 => {
                let nanos = i64::from_le_bytes(rest.array()?);
                let day = i64::from(u32::from_le_bytes(rest.array()?));
                let seconds = (day - JULIAN_1970).checked_mul(DAY_SECONDS)?;
                let micros =
                    seconds.checked_mul(1_000_000)?.checked_add(nanos.div_euclid(1_000))?;
                Stored::Moment(Timestamp::from_micros(micros))
            }
            Physical::Float => Stored::Float(f32::from_le_bytes(rest.array()?).into()),
            Physical::Double => Stored::Float(f64::from_le_bytes(rest.array()?)),
            Physical::ByteArray => {
                let n_bytes = u32::from_le_bytes(rest.array()?) as usize;
                let begin = values.text.len();
                values.text.extend_from_slice(rest.take(n_bytes)?);
                Stored::Text { begin, end: values.text.len() }
            }
            Physical::Boolean => return None,
        };
        values.stored.push(stored);
    }
    Some(values)
}

fn meant(number: i64, meaning: Meaning) -> Stored {
    let micros = match meaning {
        Meaning::Plain | Meaning::Unsigned => return Stored::Integer(number),
        Meaning::Days => number.saturating_mul(DAY_SECONDS * 1_000_000),
        Meaning::Millis => number.saturating_mul(1_000),
        Meaning::Micros => number,
        Meaning::Nanos => number.div_euclid(1_000),
    };
    Stored::Moment(Timestamp::from_micros(micros))
}
