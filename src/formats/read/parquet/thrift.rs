//! Checks of encoded metadata before the `parquet` crate decodes it. The crate allocates memory for
//! declared numbers, descends into groups of columns recursively, and reads a value in the type that it
//! expects, whatever type is declared. Therefore the types below must include every field that the crate
//! knows. The encoding is Thrift's compact protocol.

use self::Type::{Binary, Bool, Byte, Double, Element, I16, I32, I64, List, Noted, Struct};

/// Maximum number of groups around a column.
const GROUPS_MAX: usize = 64;

/// Maximum depth of lists and structs in each other in fields that the crate does not know.
const NESTING_MAX: usize = 16;

/// Type of a value.
enum Type {
    Bool,
    Byte,
    I16,
    I32,
    /// A 32-bit number that is checked.
    Noted,
    I64,
    Double,
    Binary,
    List(&'static Type),
    /// Numbers of the known fields with their types.
    Struct(&'static [(u64, Type)]),
    /// A struct with one checked number, or with none in the place of 0.
    Element(&'static [(u64, Type)]),
}

/// A struct without known fields, such as an alternative without details.
const EMPTY: Type = Struct(&[]);

/// Unit of a time.
const UNIT: Type = Struct(&[(1, EMPTY), (2, EMPTY), (3, EMPTY)]);

/// A logical type with a time zone and a unit.
const TIME: Type = Struct(&[(1, Bool), (2, UNIT)]);

/// Meaning of a column's values.
const LOGICAL_TYPE: Type = Struct(&[
    (1, EMPTY),
    (2, EMPTY),
    (3, EMPTY),
    (4, EMPTY),
    (5, Struct(&[(1, I32), (2, I32)])),
    (6, EMPTY),
    (7, TIME),
    (8, TIME),
    (10, Struct(&[(1, Byte), (2, Bool)])),
    (11, EMPTY),
    (12, EMPTY),
    (13, EMPTY),
    (14, EMPTY),
    (15, EMPTY),
    (16, Struct(&[(1, Byte)])),
    (17, Struct(&[(1, Binary)])),
    (18, Struct(&[(1, Binary), (2, I32)])),
    (19, EMPTY),
]);

/// An element of the schema. The checked number is that of its children.
const COLUMN: Type = Element(&[
    (1, I32),
    (2, I32),
    (3, I32),
    (4, Binary),
    (5, Noted),
    (6, I32),
    (7, I32),
    (8, I32),
    (9, I32),
    (10, LOGICAL_TYPE),
]);

/// A field of free metadata.
const KEY_VALUE: Type = Struct(&[(1, Binary), (2, Binary)]);

/// Extremes and counts of a column's values.
const STATISTICS: Type = Struct(&[
    (1, Binary),
    (2, Binary),
    (3, I64),
    (4, I64),
    (5, Binary),
    (6, Binary),
    (7, Bool),
    (8, Bool),
    (9, I64),
]);

/// Bounds of places on earth.
const BOX: Type = Struct(&[
    (1, Double),
    (2, Double),
    (3, Double),
    (4, Double),
    (5, Double),
    (6, Double),
    (7, Double),
    (8, Double),
]);

/// Description of the values of a column in a row group.
const COLUMN_METADATA: Type = Struct(&[
    (1, I32),
    (2, List(&I32)),
    (3, List(&Binary)),
    (4, I32),
    (5, I64),
    (6, I64),
    (7, I64),
    (8, List(&KEY_VALUE)),
    (9, I64),
    (10, I64),
    (11, I64),
    (12, STATISTICS),
    (13, List(&Struct(&[(1, I32), (2, I32), (3, I32)]))),
    (14, I64),
    (15, I32),
    (16, Struct(&[(1, I64), (2, List(&I64)), (3, List(&I64))])),
    (17, Struct(&[(1, BOX), (2, List(&I32))])),
]);

/// A column in a row group.
const COLUMN_CHUNK: Type = Struct(&[
    (1, Binary),
    (2, I64),
    (3, COLUMN_METADATA),
    (4, I64),
    (5, I32),
    (6, I64),
    (7, I32),
    (8, Struct(&[(1, EMPTY), (2, Struct(&[(1, List(&Binary)), (2, Binary)]))])),
    (9, Binary),
]);

/// Rows whose columns are stored next to each other.
const ROW_GROUP: Type = Struct(&[
    (1, List(&COLUMN_CHUNK)),
    (2, I64),
    (3, I64),
    (4, List(&Struct(&[(1, I32), (2, Bool), (3, Bool)]))),
    (5, I64),
    (6, I64),
    (7, I16),
]);

/// Parameters of an encryption.
const CIPHER: Type = Struct(&[(1, Binary), (2, Binary), (3, Bool)]);

/// The footer of a file.
const FOOTER: Type = Struct(&[
    (1, I32),
    (2, List(&COLUMN)),
    (3, I64),
    (4, List(&ROW_GROUP)),
    (5, List(&KEY_VALUE)),
    (6, Binary),
    (7, List(&Struct(&[(1, EMPTY), (2, EMPTY), (3, EMPTY)]))),
    (8, Struct(&[(1, CIPHER), (2, CIPHER)])),
    (9, Binary),
]);

/// The header of a page. The checked number is the decompressed length.
const PAGE: Type = Struct(&[
    (1, I32),
    (2, Noted),
    (3, I32),
    (4, I32),
    (5, Struct(&[(1, I32), (2, I32), (3, I32), (4, I32), (5, STATISTICS)])),
    (6, EMPTY),
    (7, Struct(&[(1, I32), (2, I32), (3, Bool)])),
    (
        8,
        Struct(&[
            (1, I32),
            (2, I32),
            (3, I32),
            (4, I32),
            (5, I32),
            (6, I32),
            (7, Bool),
            (8, STATISTICS),
        ]),
    ),
]);

/// Returns true if the footer of a file declares only what it has: its lists are not longer than the
/// footer, and the groups of its schema have as many children as they declare.
pub(super) fn is_sound_footer(footer: &[u8]) -> bool {
    let mut values = Values::new(footer);
    values.read(&FOOTER, STRUCT).is_some() && is_tree(&values.noted)
}

/// Returns true if `n_children` are the numbers of children of one tree, in which each element precedes
/// its children.
fn is_tree(n_children: &[u64]) -> bool {
    // Numbers of children that follow, of the last element and the groups around it.
    let mut open = vec![1];
    for (n_before, &n_children_here) in n_children.iter().enumerate() {
        while open.pop_if(|n_left| *n_left == 0).is_some() {}
        let Some(n_left) = open.last_mut() else { return false };
        *n_left -= 1;
        open.push(n_children_here);
        let n_after = n_children.len() - n_before - 1;
        if n_children_here > n_after as u64 || open.len() > GROUPS_MAX {
            return false;
        }
    }
    open.iter().all(|n_left| *n_left == 0)
}

/// Returns the decompressed length of the page whose header is at the beginning of `head`, or `None` if
/// the header is damaged. The header may continue after `head` if `is_cut` is true.
pub(super) fn page_bytes(head: &[u8], is_cut: bool) -> Option<u64> {
    let mut values = Values::new(head);
    let is_complete = values.read(&PAGE, STRUCT).is_some();
    match values.noted[..] {
        [n_bytes] if is_complete || is_cut => Some(n_bytes),
        _ => None,
    }
}

/// Parses a variable-length number with seven bits per byte, lowest bits first.
pub(super) fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (byte, after) = rest.split_first()?;
        *rest = after;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

/// Decodes a signed number. Returns `None` if it is negative.
fn positive(zigzag: u64) -> Option<u64> {
    (zigzag & 1 == 0).then_some(zigzag >> 1)
}

/// Code of the end of a struct in the encoding.
const END: u8 = 0;

/// Code of a list in the encoding.
const LIST: u8 = 9;

/// Code of a struct in the encoding.
const STRUCT: u8 = 12;

impl Type {
    /// Returns true if `code` stands for this type in the encoding.
    const fn has_code(&self, code: u8) -> bool {
        match self {
            Bool => matches!(code, 1 | 2), // true, false
            Byte => code == 3,
            I16 => code == 4,
            I32 | Noted => code == 5,
            I64 => code == 6,
            Double => code == 7,
            Binary => code == 8,
            List(_) => code == LIST,
            Struct(_) | Element(_) => code == STRUCT,
        }
    }
}

/// Encoded values. Each method returns `None` if they are damaged.
struct Values<'a> {
    rest: &'a [u8],
    /// The checked numbers that were read.
    noted: Vec<u64>,
}

impl<'a> Values<'a> {
    const fn new(rest: &'a [u8]) -> Self {
        Self { rest, noted: Vec::new() }
    }

    /// Reads a value of a known field, whose type has `code` in the encoding.
    fn read(&mut self, known: &Type, code: u8) -> Option<()> {
        if !known.has_code(code) {
            return None;
        }
        match known {
            Noted => {
                let number = positive(self.varint()?)?;
                self.noted.push(number);
                Some(())
            }
            List(item) => {
                let (n_items, code) = self.list()?;
                (0..n_items).try_for_each(|_| self.read(item, code))
            }
            Struct(fields) => self.fields(fields),
            Element(fields) => {
                let n_noted = self.noted.len();
                self.fields(fields)?;
                if self.noted.len() == n_noted {
                    self.noted.push(0);
                }
                (self.noted.len() == n_noted + 1).then_some(())
            }
            _ => self.skip(code, 0),
        }
    }

    /// Reads the fields of a struct.
    fn fields(&mut self, known: &[(u64, Type)]) -> Option<()> {
        let mut id = 0;
        loop {
            let code = self.field(&mut id)?;
            match known.iter().find(|(known_id, _)| *known_id == id) {
                _ if code == END => return Some(()),
                Some((_, known)) => self.read(known, code)?,
                None => self.skip(code, NESTING_MAX)?,
            }
        }
    }

    /// Reads the beginning of a struct's next field: its number, which replaces the previous one in `id`,
    /// and the code of its type, which is returned. After the last field, returns [`END`].
    fn field(&mut self, id: &mut u64) -> Option<u8> {
        let byte = self.byte()?;
        *id = match byte >> 4 {
            0 if byte == END => return Some(END),
            0 => positive(self.varint()?)?,
            distance => id.checked_add(u64::from(distance))?,
        };
        // The crate wraps larger numbers.
        (*id <= 0x7fff).then_some(byte & 0x0f)
    }

    /// Reads the beginning of a list: its length and the code of its items' type.
    fn list(&mut self) -> Option<(u64, u8)> {
        let byte = self.byte()?;
        let n_items = match byte >> 4 {
            15 => self.varint()?,
            few => u64::from(few),
        };
        // Each item has at least a byte.
        (n_items <= self.rest.len() as u64).then_some((n_items, byte & 0x0f))
    }

    fn byte(&mut self) -> Option<u8> {
        self.rest.split_off_first().copied()
    }

    fn varint(&mut self) -> Option<u64> {
        varint(&mut self.rest)
    }

    fn skip_bytes(&mut self, n: u64) -> Option<()> {
        self.rest = self.rest.get(usize::try_from(n).ok()?..)?;
        Some(())
    }

    /// Skips a value in a field, with at most `depth` lists and structs in each other.
    fn skip(&mut self, code: u8, depth: usize) -> Option<()> {
        match code {
            1 | 2 => Some(()), // the code is the value
            3 => self.skip_bytes(1),
            4..=6 => self.varint().map(|_| ()),
            7 => self.skip_bytes(8),
            8 => {
                let n_bytes = self.varint()?;
                self.skip_bytes(n_bytes)
            }
            LIST => {
                let depth = depth.checked_sub(1)?;
                let (n_items, code) = self.list()?;
                match code {
                    // The crate reads no bytes of such items, although each has one.
                    1 | 2 if n_items > 0 => None,
                    _ => (0..n_items).try_for_each(|_| self.skip(code, depth)),
                }
            }
            STRUCT => {
                let depth = depth.checked_sub(1)?;
                let mut id = 0;
                loop {
                    match self.field(&mut id)? {
                        END => return Some(()),
                        code => self.skip(code, depth)?,
                    }
                }
            }
            _ => None, // the format has no sets and no maps
        }
    }
}
