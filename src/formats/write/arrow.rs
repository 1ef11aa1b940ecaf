//! Rows as an Arrow IPC stream: a schema, batches of columns, and a mark of the end.
//!
//! Written by hand, as little of the format as rows need: four types of column beside the timestamps,
//! no dictionaries, no compression of its own. The messages are described in Arrow's `Message.fbs`
//! and `Schema.fbs`; the numbers below are theirs.

mod flat;

use model::{
    block::{Block, Series},
    dataset::{Dtype, TIMESTAMP},
};

use self::flat::{Flat, Slot};
use super::Field;

/// Rows of a batch: half a megabyte of seven columns.
pub(super) const BATCH_ROWS: usize = 8192;

/// Marks the start of a message, and with a length of 0 behind it the end of the stream.
const CONTINUES: [u8; 4] = [0xff; 4];

/// Metadata version 5, of Arrow 1.0 and later.
const VERSION: i16 = 4;

/// What a message holds: a schema.
const HEADER_SCHEMA: u8 = 1;

/// What a message holds: a batch.
const HEADER_BATCH: u8 = 3;

/// A stream of batches.
#[derive(Debug)]
pub(super) struct Stream {
    fields: Vec<Field>,
}

impl Stream {
    pub(super) const fn new(fields: Vec<Field>) -> Self {
        Self { fields }
    }

    /// Writes the schema.
    pub(super) fn begin(&self, to: &mut Vec<u8>) {
        let mut flat = Flat::new();
        let header = message(&mut flat, HEADER_SCHEMA, 0);
        let schema = flat.table(&[Slot::I16(0), Slot::Offset]);
        flat.point(header, schema.at);
        let n_fields = 1 + self.fields.len();
        let (vector, places) = flat.vector_of_offsets(n_fields);
        flat.point(schema.offset(0), vector);
        for (idx, place) in places.into_iter().enumerate() {
            let field = idx.checked_sub(1).and_then(|idx| self.fields.get(idx));
            let at = push_field(&mut flat, field);
            flat.point(place, at);
        }
        push_message(to, &flat.finish(), &[]);
    }

    /// Writes a batch.
    pub(super) fn batch(to: &mut Vec<u8>, block: &Block) {
        let mut body = Body::default();
        let times = block.times.iter().flat_map(|time| time.micros().to_le_bytes());
        body.node(block.len(), 0);
        body.buffer(std::iter::empty());
        body.buffer(times);
        for series in &block.columns {
            body.series(series);
        }
        let mut flat = Flat::new();
        let header = message(&mut flat, HEADER_BATCH, body.bytes.len());
        let n = i64::try_from(block.len()).unwrap_or(i64::MAX);
        let batch = flat.table(&[Slot::I64(n), Slot::Offset, Slot::Offset]);
        flat.point(header, batch.at);
        let nodes = flat.vector_of_pairs(&body.nodes);
        flat.point(batch.offset(0), nodes);
        let buffers = flat.vector_of_pairs(&body.buffers);
        flat.point(batch.offset(1), buffers);
        push_message(to, &flat.finish(), &body.bytes);
    }

    /// Writes the mark of the end, without which the stream is not whole.
    pub(super) fn end(to: &mut Vec<u8>) {
        to.extend_from_slice(&CONTINUES);
        to.extend_from_slice(&[0; 4]);
    }
}

/// Begins a message; the place of the offset to its header.
fn message(flat: &mut Flat, header: u8, body_bytes: usize) -> usize {
    let length = i64::try_from(body_bytes).unwrap_or(i64::MAX);
    let message =
        flat.table(&[Slot::I16(VERSION), Slot::U8(header), Slot::Offset, Slot::I64(length)]);
    flat.root(message.at);
    message.offset(0)
}

/// Writes a column of the schema, or without one that of the timestamps; where it is.
fn push_field(flat: &mut Flat, field: Option<&Field>) -> usize {
    let name = field.map_or(TIMESTAMP, |field| &field.name);
    let is_nullable = field.is_some_and(|field| field.is_nullable);
    let kind = match field.map(|field| field.dtype) {
        None => 10,
        Some(Dtype::Float) => 3,
        Some(Dtype::Integer) => 2,
        Some(Dtype::String) => 5,
        Some(Dtype::Boolean) => 6,
    };
    let table = flat.table(&[
        Slot::Offset,
        Slot::U8(u8::from(is_nullable)),
        Slot::U8(kind),
        Slot::Offset,
        Slot::Nothing,
        Slot::Offset,
    ]);
    let at = flat.text(name);
    flat.point(table.offset(0), at);
    let dtype = match field.map(|field| field.dtype) {
        // Microseconds, in UTC.
        None => {
            let kind = flat.table(&[Slot::I16(2), Slot::Offset]);
            let zone = flat.text("UTC");
            flat.point(kind.offset(0), zone);
            kind
        }
        // Of double precision.
        Some(Dtype::Float) => flat.table(&[Slot::I16(2)]),
        // Of 64 bits, with a sign.
        Some(Dtype::Integer) => flat.table(&[Slot::I32(64), Slot::U8(1)]),
        Some(Dtype::String | Dtype::Boolean) => flat.table(&[]),
    };
    flat.point(table.offset(1), dtype.at);
    let (children, _) = flat.vector_of_offsets(0);
    flat.point(table.offset(2), children);
    table.at
}

/// Writes a message: its metadata, padded so that the body is aligned, and the body.
fn push_message(to: &mut Vec<u8>, metadata: &[u8], body: &[u8]) {
    let padded = metadata.len().next_multiple_of(8);
    to.extend_from_slice(&CONTINUES);
    to.extend_from_slice(&u32::try_from(padded).unwrap_or(u32::MAX).to_le_bytes());
    to.extend_from_slice(metadata);
    to.resize(to.len() + padded - metadata.len(), 0);
    to.extend_from_slice(body);
}

/// The columns of a batch, and where they are.
#[derive(Debug, Default)]
struct Body {
    bytes: Vec<u8>,
    /// Values and missing values of each column.
    nodes: Vec<[i64; 2]>,
    /// Place and length of each buffer.
    buffers: Vec<[i64; 2]>,
}

impl Body {
    fn node(&mut self, n: usize, n_missing: usize) {
        self.nodes.push([n, n_missing].map(|n| i64::try_from(n).unwrap_or(i64::MAX)));
    }

    fn buffer(&mut self, bytes: impl IntoIterator<Item = u8>) {
        let start = self.bytes.len();
        self.bytes.extend(bytes);
        let length = self.bytes.len() - start;
        self.buffers.push([start, length].map(|n| i64::try_from(n).unwrap_or(i64::MAX)));
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
    }

    fn series(&mut self, series: &Series) {
        match series {
            Series::Float(values) => {
                self.presence(values);
                self.buffer(
                    values.iter().flat_map(|value| value.unwrap_or_default().to_le_bytes()),
                );
            }
            Series::Integer(values) => {
                self.presence(values);
                self.buffer(
                    values.iter().flat_map(|value| value.unwrap_or_default().to_le_bytes()),
                );
            }
            Series::Boolean(values) => {
                self.presence(values);
                self.buffer(bits(values.iter().map(|value| *value == Some(true))));
            }
            Series::String(values) => {
                self.presence(values);
                let mut end = 0_i32;
                let ends = values.iter().map(|text| {
                    let length = text.as_deref().map_or(0, str::len);
                    end = end.saturating_add(i32::try_from(length).unwrap_or(i32::MAX));
                    end
                });
                let offsets: Vec<i32> = std::iter::once(0).chain(ends).collect();
                self.buffer(offsets.into_iter().flat_map(i32::to_le_bytes));
                self.buffer(values.iter().flatten().flat_map(|text| text.bytes()));
            }
        }
    }

    /// Which values are there: a bit for each, or nothing where all are.
    fn presence<T>(&mut self, values: &[Option<T>]) {
        let n_missing = values.iter().filter(|value| value.is_none()).count();
        self.node(values.len(), n_missing);
        if n_missing == 0 {
            self.buffer(std::iter::empty());
        } else {
            self.buffer(bits(values.iter().map(Option::is_some)));
        }
    }
}

/// Packs truths into bytes, the lowest bit first.
pub(super) fn bits(truths: impl Iterator<Item = bool>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (idx, truth) in truths.enumerate() {
        if idx % 8 == 0 {
            bytes.push(0);
        }
        if let Some(byte) = bytes.last_mut() {
            *byte |= u8::from(truth) << (idx % 8);
        }
    }
    bytes
}
