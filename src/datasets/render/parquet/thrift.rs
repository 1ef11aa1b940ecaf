//! Thrift's compact protocol, as much as the descriptions in a Parquet file need.

/// The type of a field: true.
const TRUE: u8 = 1;
/// The type of a field: false.
const FALSE: u8 = 2;
/// The type of a field: a 32-bit number.
const I32: u8 = 5;
/// The type of a field: a 64-bit number.
const I64: u8 = 6;
/// The type of a field: text.
const TEXT: u8 = 8;
/// The type of a field: a list.
const LIST: u8 = 9;
/// The type of a field: a structure.
const STRUCTURE: u8 = 12;

/// A structure being written, field by field in ascending order.
#[derive(Debug, Default)]
pub(super) struct Thrift {
    bytes: Vec<u8>,
    last_field: u8,
}

impl Thrift {
    pub(super) fn i32(&mut self, field: u8, number: i32) {
        self.field(field, I32);
        self.signed(i64::from(number));
    }

    pub(super) fn i64(&mut self, field: u8, number: usize) {
        self.field(field, I64);
        self.signed(i64::try_from(number).unwrap_or(i64::MAX));
    }

    pub(super) fn truth(&mut self, field: u8, truth: bool) {
        self.field(field, if truth { TRUE } else { FALSE });
    }

    pub(super) fn text(&mut self, field: u8, text: &str) {
        self.field(field, TEXT);
        self.push_text(text);
    }

    pub(super) fn structure(&mut self, field: u8, write: impl FnOnce(&mut Self)) {
        self.field(field, STRUCTURE);
        self.nested(write);
    }

    pub(super) fn list_of_i32(&mut self, field: u8, numbers: &[i32]) {
        self.list(field, I32, numbers.len());
        for number in numbers {
            self.signed(i64::from(*number));
        }
    }

    pub(super) fn list_of_texts(&mut self, field: u8, texts: &[&str]) {
        self.list(field, TEXT, texts.len());
        for text in texts {
            self.push_text(text);
        }
    }

    pub(super) fn list_of_structures(
        &mut self,
        field: u8,
        n: usize,
        mut write: impl FnMut(usize, &mut Self),
    ) {
        self.list(field, STRUCTURE, n);
        for idx in 0..n {
            self.nested(|element| write(idx, element));
        }
    }

    /// The bytes of the whole structure.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.bytes.push(0);
        self.bytes
    }

    fn nested(&mut self, write: impl FnOnce(&mut Self)) {
        let last_field = std::mem::take(&mut self.last_field);
        write(self);
        self.bytes.push(0);
        self.last_field = last_field;
    }

    /// Fields are told apart by how far each is from the one before: in the documents that are
    /// written here never more than fifteen.
    fn field(&mut self, field: u8, kind: u8) {
        let step = field.saturating_sub(self.last_field);
        self.bytes.push(step << 4 | kind);
        self.last_field = field;
    }

    fn list(&mut self, field: u8, kind: u8, n: usize) {
        self.field(field, LIST);
        match u8::try_from(n) {
            Ok(n) if n < 15 => self.bytes.push(n << 4 | kind),
            _ => {
                self.bytes.push(0xf0 | kind);
                push_varint(&mut self.bytes, n);
            }
        }
    }

    fn push_text(&mut self, text: &str) {
        push_varint(&mut self.bytes, text.len());
        self.bytes.extend_from_slice(text.as_bytes());
    }

    fn signed(&mut self, number: i64) {
        let zigzag = ((number << 1) ^ (number >> 63)).cast_unsigned();
        push_u64(&mut self.bytes, zigzag);
    }
}

/// Writes a number in groups of seven bits, the lowest first.
pub(super) fn push_varint(to: &mut Vec<u8>, number: usize) {
    push_u64(to, u64::try_from(number).unwrap_or(u64::MAX));
}

fn push_u64(to: &mut Vec<u8>, number: u64) {
    let mut rest = number;
    loop {
        let [low, ..] = (rest & 0x7f).to_le_bytes();
        rest >>= 7;
        to.push(if rest == 0 { low } else { low | 0x80 });
        if rest == 0 {
            return;
        }
    }
}
