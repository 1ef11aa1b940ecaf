//! Thrift's compact protocol, as far as Parquet's metadata goes: read into a tree, bounded in depth.

/// Structs inside structs: Parquet's metadata has five at most.
const DEPTH_MAX: usize = 16;

/// Bytes that are read from the front.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bytes<'a>(pub(super) &'a [u8]);

/// A value of Thrift.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Tree<'a> {
    Boolean(bool),
    Integer(i64),
    Bytes(&'a [u8]),
    List(Vec<Tree<'a>>),
    Struct(Vec<(i64, Tree<'a>)>),
    /// Of a kind that Parquet's metadata has no use for here.
    Other,
}

impl<'a> Bytes<'a> {
    pub(super) fn take(&mut self, n_bytes: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(n_bytes)?;
        self.0 = rest;
        Some(taken)
    }

    pub(super) fn byte(&mut self) -> Option<u8> {
        let (byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*byte)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    /// A number of seven bits in each byte, the lowest first.
    pub(super) fn varint(&mut self) -> Option<u64> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f).checked_shl(shift)?;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    /// A number whose sign is its lowest bit.
    pub(super) fn zigzag(&mut self) -> Option<i64> {
        let number = self.varint()?;
        Some((number >> 1).cast_signed() ^ -(number & 1).cast_signed())
    }

    /// A struct. None: it is damaged.
    pub(super) fn tree(&mut self) -> Option<Tree<'a>> {
        self.value(12, 0)
    }

    fn value(&mut self, kind: u8, depth: usize) -> Option<Tree<'a>> {
        Some(match kind {
            1 => Tree::Boolean(true),
            2 => Tree::Boolean(false),
            3 => Tree::Integer(i64::from(self.byte()?.cast_signed())),
            4..=6 => Tree::Integer(self.zigzag()?),
            7 => {
                self.take(8)?;
                Tree::Other
            }
            8 => {
                let n_bytes = usize::try_from(self.varint()?).ok()?;
                Tree::Bytes(self.take(n_bytes)?)
            }
            9 | 10 if depth < DEPTH_MAX => self.list(depth + 1)?,
            11 if depth < DEPTH_MAX => self.map(depth + 1)?,
            12 if depth < DEPTH_MAX => self.members(depth + 1)?,
            _ => return None,
        })
    }

    fn list(&mut self, depth: usize) -> Option<Tree<'a>> {
        let head = self.byte()?;
        let n_values = match head >> 4 {
            15 => usize::try_from(self.varint()?).ok()?,
            n_values => usize::from(n_values),
        };
        let kind = head & 0xf;
        // Each value takes a byte at least, so a count that lies ends here.
        let mut values = Vec::new();
        for _ in 0..n_values {
            values.push(match kind {
                // In a list a truth takes a byte of its own.
                1 | 2 => Tree::Boolean(self.byte()? == 1),
                kind => self.value(kind, depth)?,
            });
        }
        Some(Tree::List(values))
    }

    fn map(&mut self, depth: usize) -> Option<Tree<'a>> {
        let n_pairs = self.varint()?;
        if n_pairs > 0 {
            let kinds = self.byte()?;
            for _ in 0..n_pairs {
                self.value(kinds >> 4, depth)?;
                self.value(kinds & 0xf, depth)?;
            }
        }
        Some(Tree::Other)
    }

    fn members(&mut self, depth: usize) -> Option<Tree<'a>> {
        let mut members = Vec::new();
        let mut id = 0;
        loop {
            let head = self.byte()?;
            if head == 0 {
                return Some(Tree::Struct(members));
            }
            id = match head >> 4 {
                0 => self.zigzag()?,
                step => id + i64::from(step),
            };
            members.push((id, self.value(head & 0xf, depth)?));
        }
    }
}

impl<'a> Tree<'a> {
    /// The member of this number.
    pub(super) fn member(&self, id: i64) -> Option<&Self> {
        let Self::Struct(members) = self else { return None };
        members.iter().find(|(member, _)| *member == id).map(|(_, value)| value)
    }

    pub(super) fn integer(&self, id: i64) -> Option<i64> {
        match self.member(id)? {
            Self::Integer(number) => Some(*number),
            _ => None,
        }
    }

    pub(super) fn size(&self, id: i64) -> Option<usize> {
        usize::try_from(self.integer(id)?).ok()
    }

    pub(super) fn truth(&self, id: i64) -> Option<bool> {
        match self.member(id)? {
            Self::Boolean(truth) => Some(*truth),
            _ => None,
        }
    }

    pub(super) fn text(&self, id: i64) -> Option<&'a str> {
        match self.member(id)? {
            Self::Bytes(bytes) => std::str::from_utf8(bytes).ok(),
            _ => None,
        }
    }

    pub(super) fn list(&self, id: i64) -> Option<&[Self]> {
        match self.member(id)? {
            Self::List(values) => Some(values),
            _ => None,
        }
    }
}
