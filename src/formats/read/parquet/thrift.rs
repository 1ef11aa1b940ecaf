//! Thrift's compact protocol, as far as a file is checked before the `parquet` crate decodes it.

/// Maximum number of groups around a column. The crate descends into groups recursively, without a
/// limit.
const SCHEMA_DEPTH_MAX: usize = 64;

/// Maximum depth of lists and structs in each other. The format needs six.
const NESTING_MAX: usize = 16;

const I32: u8 = 5;
const LIST: u8 = 9;
const STRUCT: u8 = 12;

/// Number of the field of a footer that has the schema, a list of elements.
const SCHEMA: u64 = 2;

/// Number of the field of a page's header that has the decompressed length.
const PAGE_BYTES: u64 = 2;

/// Number of the field of an element of the schema that has the number of its children.
const N_CHILDREN: u64 = 5;

/// Encoded values. Each method returns `None` if they are damaged.
struct Values<'a>(&'a [u8]);

/// Returns true if the footer of a file declares only what it has: no list is longer than the footer,
/// and the groups of the schema have as many children as they declare. The crate allocates memory for
/// declared numbers.
pub(super) fn is_sound_footer(footer: &[u8]) -> bool {
    let mut values = Values(footer);
    let mut id = 0;
    loop {
        match values.field(&mut id) {
            None => return false,
            Some(None) => return true,
            Some(Some(LIST)) if id == SCHEMA => {
                if values.schema().is_none() {
                    return false;
                }
            }
            Some(Some(kind)) => {
                if values.skip(kind, NESTING_MAX).is_none() {
                    return false;
                }
            }
        }
    }
}

/// Returns the decompressed length of the page whose header is at the beginning of `head`, or `None` if
/// the header is damaged. The header may continue after `head` if `is_cut` is true.
pub(super) fn page_bytes(head: &[u8], is_cut: bool) -> Option<u64> {
    let mut values = Values(head);
    let (mut id, mut n_bytes) = (0, None);
    loop {
        let kind = match values.field(&mut id) {
            Some(Some(kind)) => kind,
            Some(None) => return n_bytes,
            None => return n_bytes.filter(|_| is_cut),
        };
        if (id, kind) == (PAGE_BYTES, I32) {
            // The crate would use the last of several lengths.
            let again = n_bytes.replace(positive(values.varint()?)?);
            if again.is_some() {
                return None;
            }
        } else if values.skip(kind, NESTING_MAX).is_none() {
            return n_bytes.filter(|_| is_cut);
        }
    }
}

/// Decodes a signed number. Returns `None` if it is negative.
fn positive(zigzag: u64) -> Option<u64> {
    (zigzag & 1 == 0).then_some(zigzag >> 1)
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

impl Values<'_> {
    fn byte(&mut self) -> Option<u8> {
        self.0.split_off_first().copied()
    }

    fn varint(&mut self) -> Option<u64> {
        varint(&mut self.0)
    }

    fn skip_bytes(&mut self, n: u64) -> Option<()> {
        self.0 = self.0.get(usize::try_from(n).ok()?..)?;
        Some(())
    }

    /// Parses the beginning of a struct's next field: its number, which replaces the previous one in
    /// `id`, and its type, which is returned. `Some(None)` is the end of the struct.
    fn field(&mut self, id: &mut u64) -> Option<Option<u8>> {
        let byte = self.byte()?;
        if byte == 0 {
            return Some(None);
        }
        *id = match byte >> 4 {
            0 => positive(self.varint()?)?,
            distance => id.checked_add(u64::from(distance))?,
        };
        Some(Some(byte & 0x0f))
    }

    /// Parses the beginning of a list: its length and the type of its elements.
    fn list(&mut self) -> Option<(u64, u8)> {
        let byte = self.byte()?;
        let n_elements = match byte >> 4 {
            15 => self.varint()?,
            few => u64::from(few),
        };
        // Each element has at least a byte.
        (n_elements <= self.0.len() as u64).then_some((n_elements, byte & 0x0f))
    }

    /// Checks and skips the elements of the schema, each of which precedes its children.
    fn schema(&mut self) -> Option<()> {
        let (n_elements, kind) = self.list()?;
        // Numbers of children that follow, of the last element and the groups around it.
        let mut open: Vec<u64> = Vec::new();
        for n_left in (0..n_elements).rev() {
            while open.pop_if(|n_children| *n_children == 0).is_some() {}
            if let Some(n_children) = open.last_mut() {
                *n_children -= 1;
            }
            let n_children = self.n_children().filter(|_| kind == STRUCT)?;
            open.push(n_children);
            if n_children > n_left || open.len() > SCHEMA_DEPTH_MAX {
                return None;
            }
        }
        Some(())
    }

    /// Skips an element of the schema. Returns the number of its children.
    fn n_children(&mut self) -> Option<u64> {
        let (mut id, mut n_children) = (0, 0);
        while let Some(kind) = self.field(&mut id)? {
            if (id, kind) == (N_CHILDREN, I32) {
                n_children = positive(self.varint()?)?;
            } else {
                self.skip(kind, NESTING_MAX)?;
            }
        }
        Some(n_children)
    }

    /// Skips a value of type `kind` in a field, with at most `depth` lists and structs in each other.
    fn skip(&mut self, kind: u8, depth: usize) -> Option<()> {
        match kind {
            1 | 2 => Some(()), // the type is the value
            3 => self.skip_bytes(1),
            4..=6 => self.varint().map(|_| ()),
            7 => self.skip_bytes(8),
            8 => {
                let n_bytes = self.varint()?;
                self.skip_bytes(n_bytes)
            }
            LIST | 10 => {
                let depth = depth.checked_sub(1)?;
                let (n_elements, kind) = self.list()?;
                match kind {
                    1 | 2 => self.skip_bytes(n_elements),
                    _ => (0..n_elements).try_for_each(|_| self.skip(kind, depth)),
                }
            }
            STRUCT => {
                let depth = depth.checked_sub(1)?;
                let mut id = 0;
                while let Some(kind) = self.field(&mut id)? {
                    self.skip(kind, depth)?;
                }
                Some(())
            }
            _ => None, // the format has no maps
        }
    }
}
