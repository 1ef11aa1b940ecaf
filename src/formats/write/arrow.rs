//! Renders rows as an Arrow IPC stream: a schema, batches of columns, and an end marker.
//!
//! This implements only the parts of the format that rows need: four types of columns and the
//! timestamps, without dictionaries and compression. Building Arrow's crates would take more time than
//! building all other formats together. The messages are described in Arrow's `Message.fbs` and
//! `Schema.fbs`, which define the numbers below.

use flatbuffers::{
    FlatBufferBuilder, Push, TableFinishedWIPOffset as Table, TableUnfinishedWIPOffset, Vector,
    WIPOffset as Offset,
};
use model::block::{Block, Series};
use model::dataset::{Dtype, TIMESTAMP};

use super::Field;

/// Number of rows in a batch: half a megabyte of seven columns.
pub(super) const BATCH_ROWS: usize = 8192;

/// Start of a message. If a length of 0 follows, the stream is complete.
const CONTINUES: [u8; 4] = [0xff; 4];

/// Metadata version 5, used since Arrow 1.0.
const VERSION: i16 = 4;

/// Type of a message with a schema.
const HEADER_SCHEMA: u8 = 1;

/// Type of a message with a batch.
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
        let mut flat = FlatBufferBuilder::new();
        let mut fields = vec![push_field(&mut flat, None)];
        for field in &self.fields {
            fields.push(push_field(&mut flat, Some(field)));
        }
        let fields = flat.create_vector(&fields);
        // The byte order is little-endian, which is the default.
        let schema = Members::new(&mut flat).set(0, 0_i16).set(1, fields).end();
        push_message(to, flat, HEADER_SCHEMA, schema, &[]);
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
        let mut flat = FlatBufferBuilder::new();
        let n = i64::try_from(block.len()).unwrap_or(i64::MAX);
        let nodes = push_pairs(&mut flat, &body.nodes);
        let buffers = push_pairs(&mut flat, &body.buffers);
        let batch = Members::new(&mut flat).set(0, n).set(1, nodes).set(2, buffers).end();
        push_message(to, flat, HEADER_BATCH, batch, &body.bytes);
    }

    /// Writes the end marker, without which the stream is incomplete.
    pub(super) fn end(to: &mut Vec<u8>) {
        to.extend_from_slice(&CONTINUES);
        to.extend_from_slice(&[0; 4]);
    }
}

/// Builder of a table. Members are identified by their numbers in the schema.
struct Members<'a, 'f> {
    flat: &'a mut FlatBufferBuilder<'f>,
    start: Offset<TableUnfinishedWIPOffset>,
}

impl<'a, 'f> Members<'a, 'f> {
    fn new(flat: &'a mut FlatBufferBuilder<'f>) -> Self {
        let start = flat.start_table();
        Self { flat, start }
    }

    fn set(self, number: u16, member: impl Push) -> Self {
        // The index of a table begins with two lengths of two bytes.
        self.flat.push_slot_always(4 + 2 * number, member);
        self
    }

    fn end(self) -> Offset<Table> {
        self.flat.end_table(self.start)
    }
}

/// Writes a field of the schema. `None` is the column of the timestamps.
fn push_field(flat: &mut FlatBufferBuilder<'_>, field: Option<&Field>) -> Offset<Table> {
    let name = flat.create_string(field.map_or(TIMESTAMP, |field| &field.name));
    let (kind, dtype) = match field.map(|field| field.dtype) {
        // Timestamps in microseconds, in UTC.
        None => {
            let zone = flat.create_string("UTC");
            (10_u8, Members::new(flat).set(0, 2_i16).set(1, zone).end())
        }
        // Floats of double precision.
        Some(Dtype::Float) => (3, Members::new(flat).set(0, 2_i16).end()),
        // Signed integers of 64 bits.
        Some(Dtype::Integer) => (2, Members::new(flat).set(0, 64_i32).set(1, true).end()),
        Some(Dtype::String) => (5, Members::new(flat).end()),
        Some(Dtype::Boolean) => (6, Members::new(flat).end()),
    };
    let children = flat.create_vector::<Offset<Table>>(&[]);
    let is_nullable = field.is_some_and(|field| field.is_nullable);
    let members = Members::new(flat).set(0, name).set(1, is_nullable).set(2, kind);
    members.set(3, dtype).set(5, children).end()
}

/// Writes a vector of pairs of numbers.
fn push_pairs<'f>(flat: &mut FlatBufferBuilder<'f>, pairs: &[[i64; 2]]) -> Offset<Vector<'f, i64>> {
    flat.start_vector::<i64>(2 * pairs.len());
    for number in pairs.iter().flatten().rev() {
        flat.push(*number);
    }
    flat.end_vector(pairs.len())
}

/// Writes a message: its metadata, with padding to align the body, then the body.
fn push_message(
    to: &mut Vec<u8>,
    mut flat: FlatBufferBuilder<'_>,
    kind: u8,
    header: Offset<Table>,
    body: &[u8],
) {
    let length = i64::try_from(body.len()).unwrap_or(i64::MAX);
    let message = Members::new(&mut flat).set(0, VERSION).set(1, kind).set(2, header);
    let message = message.set(3, length).end();
    flat.finish_minimal(message);
    let metadata = flat.finished_data();
    let padded = metadata.len().next_multiple_of(8);
    to.extend_from_slice(&CONTINUES);
    to.extend_from_slice(&u32::try_from(padded).unwrap_or(u32::MAX).to_le_bytes());
    to.extend_from_slice(metadata);
    to.resize(to.len() + padded - metadata.len(), 0);
    to.extend_from_slice(body);
}

/// Columns of a batch and their positions in its body.
#[derive(Debug, Default)]
struct Body {
    bytes: Vec<u8>,
    /// Number of values and number of missing values of each column.
    nodes: Vec<[i64; 2]>,
    /// Offset and length of each buffer.
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
                self.buffer(values.iter().flat_map(|value| value.unwrap_or(0.0).to_le_bytes()));
            }
            Series::Integer(values) => {
                self.presence(values);
                self.buffer(values.iter().flat_map(|value| value.unwrap_or(0).to_le_bytes()));
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

    /// Writes the validity bitmap: a bit for each row, which is set if the row has a value. Writes
    /// nothing if all rows have values.
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

/// Packs booleans into bytes, lowest bit first.
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
