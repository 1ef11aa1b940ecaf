//! Compact storage for the fields of log lines, of which the screen stores tens of thousands.

/// Names and values, alternating and concatenated in one text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Fields {
    text: Box<str>,
    /// Offset in `text` at which each name and each value ends.
    ends: Box<[usize]>,
}

impl Fields {
    /// Returns each name with its value.
    pub fn pairs(&self) -> impl Iterator<Item = (&str, &str)> + Clone {
        let mut start = 0;
        self.ends.chunks_exact(2).filter_map(move |ends| {
            let &[middle, end] = ends else { return None };
            let name = self.text.get(start..middle)?;
            start = end;
            Some((name, self.text.get(middle..end)?))
        })
    }

    /// Returns the number of fields.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len() / 2
    }

    /// Returns true if there are no fields.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }
}

impl<N: AsRef<str>, V: AsRef<str>> FromIterator<(N, V)> for Fields {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(pairs: I) -> Self {
        let (mut text, mut ends) = (String::new(), Vec::new());
        for (name, value) in pairs {
            for part in [name.as_ref(), value.as_ref()] {
                text.push_str(part);
                ends.push(text.len());
            }
        }
        Self { text: text.into(), ends: ends.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pairs: &[(&str, &str)]) {
        let fields: Fields = pairs.iter().copied().collect();
        assert_eq!(fields.pairs().collect::<Vec<_>>(), pairs);
        assert_eq!((fields.len(), fields.is_empty()), (pairs.len(), pairs.is_empty()));
    }

    #[test]
    fn fields_round_trip() {
        check(&[]);
        check(&[("", "")]);
        check(&[("peer", "12D3"), ("exit", ""), ("größe", "3 µs")]);
    }
}
