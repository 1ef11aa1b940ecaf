//! Rows as a Parquet file: groups of columns, and a description of them at the end.
//!
//! Written by hand, as little of the format as rows need: plain values in pages compressed with
//! zstd, one page for each column of a group. The numbers below are those of `parquet.thrift`.

mod thrift;

use model::dataset::Dtype;

use self::thrift::Thrift;
use super::{TIMESTAMP, arrow::bits, document::Field};
use crate::block::{Block, Series};

/// Rows of a group: four megabytes of seven columns, and some eighty groups for five million rows.
pub(super) const GROUP_ROWS: usize = 65_536;

/// Starts and ends every file.
const MAGIC: &[u8; 4] = b"PAR1";

/// How pages are compressed: quicker than it is sent.
const ZSTD_LEVEL: i32 = 1;

/// The codec zstd.
const CODEC_ZSTD: i32 = 6;

/// No codec.
const CODEC_NONE: i32 = 0;

/// Plain values.
const PLAIN: i32 = 0;

/// Runs of levels.
const RLE: i32 = 3;

/// The physical type of moments and integers.
const INT64: i32 = 2;

/// A file being written.
#[derive(Debug)]
pub(super) struct File {
    fields: Vec<Field>,
    /// Bytes written so far.
    position: usize,
    groups: Vec<Group>,
}

#[derive(Debug)]
struct Group {
    n: usize,
    columns: Vec<Chunk>,
}

/// One column of one group.
#[derive(Debug)]
struct Chunk {
    position: usize,
    codec: i32,
    /// With the header of the page.
    plain_bytes: usize,
    stored_bytes: usize,
}

impl File {
    pub(super) const fn new(fields: Vec<Field>) -> Self {
        Self { fields, position: 0, groups: Vec::new() }
    }

    pub(super) fn begin(&mut self, to: &mut Vec<u8>) {
        to.extend_from_slice(MAGIC);
        self.position += MAGIC.len();
    }

    /// Writes a group of rows.
    pub(super) fn group(&mut self, to: &mut Vec<u8>, block: &Block) {
        let mut columns = Vec::with_capacity(1 + self.fields.len());
        let times: Vec<u8> =
            block.times.iter().flat_map(|time| time.micros().to_le_bytes()).collect();
        columns.push(self.page(to, block.len(), times));
        for idx in 0..self.fields.len() {
            let is_nullable = self.fields.get(idx).is_some_and(|field| field.is_nullable);
            let Some(series) = block.columns.get(idx) else { continue };
            let mut values = Vec::new();
            push_values(&mut values, series, is_nullable);
            columns.push(self.page(to, block.len(), values));
        }
        self.groups.push(Group { n: block.len(), columns });
    }

    /// Writes the description of all there is, without which the file is not whole.
    pub(super) fn end(&mut self, to: &mut Vec<u8>) {
        let mut thrift = Thrift::default();
        self.describe(&mut thrift);
        let description = thrift.finish();
        to.extend_from_slice(&description);
        let length = u32::try_from(description.len()).unwrap_or(u32::MAX);
        to.extend_from_slice(&length.to_le_bytes());
        to.extend_from_slice(MAGIC);
    }

    /// Writes a page: its header, and its values, compressed where that makes them fewer.
    fn page(&mut self, to: &mut Vec<u8>, n: usize, values: Vec<u8>) -> Chunk {
        let plain_bytes = values.len();
        let packed = zstd::bulk::compress(&values, ZSTD_LEVEL).ok();
        let (codec, values) = match packed.filter(|packed| packed.len() < plain_bytes) {
            Some(packed) => (CODEC_ZSTD, packed),
            None => (CODEC_NONE, values),
        };
        let mut header = Thrift::default();
        header.i32(1, 0);
        header.i32(2, number(plain_bytes));
        header.i32(3, number(values.len()));
        header.structure(5, |header| {
            header.i32(1, number(n));
            header.i32(2, PLAIN);
            header.i32(3, RLE);
            header.i32(4, RLE);
        });
        let header = header.finish();
        let position = self.position;
        to.extend_from_slice(&header);
        to.extend_from_slice(&values);
        self.position += header.len() + values.len();
        Chunk {
            position,
            codec,
            plain_bytes: header.len() + plain_bytes,
            stored_bytes: header.len() + values.len(),
        }
    }

    fn describe(&self, thrift: &mut Thrift) {
        thrift.i32(1, 1);
        thrift.list_of_structures(2, 2 + self.fields.len(), |idx, element| match idx {
            0 => {
                element.text(4, "rows");
                element.i32(5, number(1 + self.fields.len()));
            }
            1 => describe_moments(element),
            _ => {
                if let Some(field) = self.fields.get(idx - 2) {
                    describe_field(element, field);
                }
            }
        });
        let n_rows = self.groups.iter().map(|group| group.n).sum();
        thrift.i64(3, n_rows);
        thrift.list_of_structures(4, self.groups.len(), |idx, element| {
            if let Some(group) = self.groups.get(idx) {
                self.describe_group(element, group);
            }
        });
        thrift.text(6, concat!("triptych ", env!("CARGO_PKG_VERSION")));
    }

    fn describe_group(&self, thrift: &mut Thrift, group: &Group) {
        thrift.list_of_structures(1, group.columns.len(), |idx, element| {
            let Some(chunk) = group.columns.get(idx) else { return };
            let field = idx.checked_sub(1).and_then(|idx| self.fields.get(idx));
            element.i64(2, chunk.position);
            element.structure(3, |metadata| {
                metadata.i32(1, field.map_or(INT64, |field| physical(field.dtype)));
                metadata.list_of_i32(2, &[PLAIN, RLE]);
                metadata.list_of_texts(3, &[field.map_or(TIMESTAMP, |field| &field.name)]);
                metadata.i32(4, chunk.codec);
                metadata.i64(5, group.n);
                metadata.i64(6, chunk.plain_bytes);
                metadata.i64(7, chunk.stored_bytes);
                metadata.i64(9, chunk.position);
            });
        });
        thrift.i64(2, group.columns.iter().map(|chunk| chunk.plain_bytes).sum());
        thrift.i64(3, group.n);
    }
}

const fn physical(dtype: Dtype) -> i32 {
    match dtype {
        Dtype::Boolean => 0,
        Dtype::Integer => INT64,
        Dtype::Float => 5,
        Dtype::String => 6,
    }
}

fn describe_moments(element: &mut Thrift) {
    element.i32(1, INT64);
    element.i32(3, 0);
    element.text(4, TIMESTAMP);
    element.i32(6, 10);
    // A timestamp in UTC, in microseconds.
    element.structure(10, |logical| {
        logical.structure(8, |timestamp| {
            timestamp.truth(1, true);
            timestamp.structure(2, |unit| unit.structure(2, |_| {}));
        });
    });
}

fn describe_field(element: &mut Thrift, field: &Field) {
    element.i32(1, physical(field.dtype));
    element.i32(3, i32::from(field.is_nullable));
    element.text(4, &field.name);
    if field.dtype == Dtype::String {
        element.i32(6, 0);
        element.structure(10, |logical| logical.structure(1, |_| {}));
    }
}

fn number(n: usize) -> i32 {
    i32::try_from(n).unwrap_or(i32::MAX)
}

/// Writes which values are there, where some may be missing, and those that are.
fn push_values(to: &mut Vec<u8>, series: &Series, is_nullable: bool) {
    match series {
        Series::Float(values) => {
            push_presence(to, values, is_nullable);
            to.extend(values.iter().flatten().flat_map(|number| number.to_le_bytes()));
        }
        Series::Integer(values) => {
            push_presence(to, values, is_nullable);
            to.extend(values.iter().flatten().flat_map(|number| number.to_le_bytes()));
        }
        Series::Boolean(values) => {
            push_presence(to, values, is_nullable);
            to.extend(bits(values.iter().flatten().copied()));
        }
        Series::String(values) => {
            push_presence(to, values, is_nullable);
            for text in values.iter().flatten() {
                to.extend_from_slice(&u32::try_from(text.len()).unwrap_or(u32::MAX).to_le_bytes());
                to.extend_from_slice(text.as_bytes());
            }
        }
    }
}

/// Writes one bit for each row, or one run where they are all alike; in front of it its length.
fn push_presence<T>(to: &mut Vec<u8>, values: &[Option<T>], is_nullable: bool) {
    if !is_nullable {
        return;
    }
    let mut runs = Vec::new();
    let n_present = values.iter().flatten().count();
    if n_present == 0 || n_present == values.len() {
        thrift::push_varint(&mut runs, values.len() << 1);
        runs.push(u8::from(n_present > 0));
    } else {
        thrift::push_varint(&mut runs, values.len().div_ceil(8) << 1 | 1);
        runs.extend(bits(values.iter().map(Option::is_some)));
    }
    to.extend_from_slice(&u32::try_from(runs.len()).unwrap_or(u32::MAX).to_le_bytes());
    to.extend_from_slice(&runs);
}
