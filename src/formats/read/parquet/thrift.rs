//! Checks of encoded metadata before the `parquet` crate decodes it. The crate allocates memory for
//! declared numbers, descends into groups of columns recursively, and reads a value in the type that it
//! expects, whatever type is declared. Therefore the types below must include every field that the crate
//! knows. The encoding is Thrift's compact protocol.

use self::Type::{
    Binary, Bool, Byte, Double, Element, I16, I32, I64, List, Noted, Struct, Unknown,
};

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
    /// Types of the fields in the order of their numbers, which begin with 1.
    Struct(&'static [Type]),
    /// A struct with one checked number, or with none in the place of 0.
    Element(&'static [Type]),
    /// The type of a field that the crate does not know.
    Unknown,
}

/// A struct without known fields, such as an alternative without details.
const EMPTY: Type = Struct(&[]);

/// Names from the root of the schema to a column, or to the key of a column.
const PATH: Type = List(&Binary);

/// Counts, one for each level or for each page.
const COUNTS: Type = List(&I64);

/// Alternatives of a setting, as numbers.
const CHOICES: Type = List(&I32);

/// Digits of a decimal.
const DECIMAL: Type = Struct(&[I32, I32]);

/// Unit of a time.
const UNIT: Type = Struct(&[EMPTY, EMPTY, EMPTY]);

/// A logical type with a time zone and a unit.
const TIME: Type = Struct(&[Bool, UNIT]);

/// Width and sign of an integer.
const INTEGER: Type = Struct(&[Byte, Bool]);

/// Version of the encoding of values of several types.
const VARIANT: Type = Struct(&[Byte]);

/// Coordinate system of shapes.
const GEOMETRY: Type = Struct(&[Binary]);

/// Coordinate system of shapes on earth, and the course of their edges.
const GEOGRAPHY: Type = Struct(&[Binary, I32]);

/// Meaning of a column's values.
const LOGICAL: Type = Struct(&[
    EMPTY, EMPTY, EMPTY, EMPTY, DECIMAL, EMPTY, TIME, TIME, Unknown, INTEGER, EMPTY, EMPTY, EMPTY,
    EMPTY, EMPTY, VARIANT, GEOMETRY, GEOGRAPHY, EMPTY,
]);

/// An element of the schema. The checked number is that of its children.
const COLUMN: Type = Element(&[I32, I32, I32, Binary, Noted, I32, I32, I32, I32, LOGICAL]);

/// Fields of free metadata.
const KEY_VALUES: Type = List(&Struct(&[Binary, Binary]));

/// Extremes and counts of a column's values.
const STATISTICS: Type = Struct(&[Binary, Binary, I64, I64, Binary, Binary, Bool, Bool, I64]);

/// Number of pages of each kind and encoding.
const PAGES: Type = List(&Struct(&[I32, I32, I32]));

/// Length of a column's texts, and counts of its levels.
const SIZES: Type = Struct(&[I64, COUNTS, COUNTS]);

/// Bounds of places on earth.
const BOX: Type = Struct(&[Double, Double, Double, Double, Double, Double, Double, Double]);

/// Bounds and kinds of a column's shapes.
const SHAPES: Type = Struct(&[BOX, CHOICES]);

/// Description of the values of a column in a row group.
const METADATA: Type = Struct(&[
    I32, CHOICES, PATH, I32, I64, I64, I64, KEY_VALUES, I64, I64, I64, STATISTICS, PAGES, I64, I32,
    SIZES, SHAPES,
]);

/// Key of an encrypted column.
const KEY: Type = Struct(&[EMPTY, Struct(&[PATH, Binary])]);

/// A column in a row group.
const CHUNK: Type = Struct(&[Binary, I64, METADATA, I64, I32, I64, I32, KEY, Binary]);

/// Columns by which rows are sorted.
const SORTING: Type = List(&Struct(&[I32, Bool, Bool]));

/// Rows whose columns are stored next to each other.
const ROW_GROUP: Type = Struct(&[List(&CHUNK), I64, I64, SORTING, I64, I64, I16]);

/// Parameters of an encryption.
const CIPHER: Type = Struct(&[Binary, Binary, Bool]);

/// The footer of a file.
const FOOTER: Type = Struct(&[
    I32,
    List(&COLUMN),
    I64,
    List(&ROW_GROUP),
    KEY_VALUES,
    Binary,
    List(&Struct(&[EMPTY, EMPTY, EMPTY])),
    Struct(&[CIPHER, CIPHER]),
    Binary,
]);

/// Details of a page with data.
const DATA_PAGE: Type = Struct(&[I32, I32, I32, I32, STATISTICS]);

/// Details of a page with the different values of a column.
const DICTIONARY: Type = Struct(&[I32, I32, Bool]);

/// Details of a page with data in the newer form.
const DATA_V2: Type = Struct(&[I32, I32, I32, I32, I32, I32, Bool, STATISTICS]);

/// The header of a page. The checked number is the decompressed length.
const PAGE: Type = Struct(&[I32, Noted, I32, I32, DATA_PAGE, EMPTY, DICTIONARY, DATA_V2]);

/// Returns true if the footer of a file declares only what it has: its lists are not longer than the
/// footer, and the groups of its schema have as many children as they declare.
pub(super) fn is_sound_footer(footer: &[u8]) -> bool {
    let mut values = ThriftReader { rest: footer, noted: Vec::new() };
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
    let mut values = ThriftReader { rest: head, noted: Vec::new() };
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
            Unknown => true,
        }
    }
}

/// Reader of encoded values. Each method returns `None` if they are damaged.
struct ThriftReader<'a> {
    rest: &'a [u8],
    /// The checked numbers that were read.
    noted: Vec<u64>,
}

impl ThriftReader<'_> {
    /// Reads a value of a known field, whose type has `code` in the encoding.
    fn read(&mut self, known: &Type, code: u8) -> Option<()> {
        if !known.has_code(code) {
            return None;
        }
        match known {
            Noted => {
                let number = positive(varint(&mut self.rest)?)?;
                self.noted.push(number);
                Some(())
            }
            List(item) => {
                let (n_items, code) = self.list()?;
                (0..n_items).try_for_each(|_| self.read(item, code))
            }
            Struct(fields) => self.fields(fields, NESTING_MAX),
            Element(fields) => {
                let n_noted = self.noted.len();
                self.fields(fields, NESTING_MAX)?;
                if self.noted.len() == n_noted {
                    self.noted.push(0);
                }
                (self.noted.len() == n_noted + 1).then_some(())
            }
            Unknown => self.skip(code, NESTING_MAX),
            _ => self.skip(code, 0),
        }
    }

    /// Reads the fields of a struct. Those that are not `known` are skipped, with at most `depth` lists
    /// and structs in each other.
    fn fields(&mut self, known: &[Type], depth: usize) -> Option<()> {
        let mut id = 0_usize;
        loop {
            let code = self.field(&mut id)?;
            match id.checked_sub(1).and_then(|idx| known.get(idx)) {
                _ if code == END => return Some(()),
                Some(known) => self.read(known, code)?,
                None => self.skip(code, depth)?,
            }
        }
    }

    /// Reads the beginning of a struct's next field: its number, which replaces the previous one in `id`,
    /// and the code of its type, which is returned. After the last field, returns [`END`].
    fn field(&mut self, id: &mut usize) -> Option<u8> {
        let byte = self.byte()?;
        *id = match byte >> 4 {
            0 if byte == END => return Some(END),
            0 => usize::try_from(positive(varint(&mut self.rest)?)?).ok()?,
            distance => id.checked_add(usize::from(distance))?,
        };
        // The crate wraps larger numbers.
        (*id <= 0x7fff).then_some(byte & 0x0f)
    }

    /// Reads the beginning of a list: its length and the code of its items' type.
    fn list(&mut self) -> Option<(u64, u8)> {
        let byte = self.byte()?;
        let n_items = match byte >> 4 {
            15 => varint(&mut self.rest)?,
            few => u64::from(few),
        };
        // Each item has at least a byte.
        (n_items <= self.rest.len() as u64).then_some((n_items, byte & 0x0f))
    }

    fn byte(&mut self) -> Option<u8> {
        self.rest.split_off_first().copied()
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
            4..=6 => varint(&mut self.rest).map(|_| ()),
            7 => self.skip_bytes(8),
            8 => {
                let n_bytes = varint(&mut self.rest)?;
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
            STRUCT => self.fields(&[], depth.checked_sub(1)?),
            _ => None, // the format has no sets and no maps
        }
    }
}
