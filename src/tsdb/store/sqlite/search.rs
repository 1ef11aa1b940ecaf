//! Finds the datasets that are visible to a key and match a filter.
//!
//! The datasets that are visible to a key, and the datasets with a metadata field, are sets (see
//! [`postings`]). A text is looked up in three indexes: sorted names for a prefix, runs of three
//! letters, and single letters and pairs for words that are too short for runs.

use db::statement::Statements as _;
use model::key::KeyId;
use roaring::RoaringBitmap;
use rusqlite::Connection;

use super::postings::{self, Term};
use super::{Result, catalog};
use crate::catalog::{Filter, Listed};
use crate::store::datasets::page_of;
use crate::store::session::ready;

/// Maximum number of matches of a text after the page that are counted. If there are more, the result has
/// no count, since counting half a million matches would take a fifth of a second.
const COUNTED_MAX: usize = 5000;

/// Maximum number of visible datasets whose texts are searched one by one. For so few, this is faster
/// than an index, which can find a million datasets that are not visible to the key.
const SEARCHED_MAX: u64 = 1000;

/// Maximum number of matches of an index whose texts are read, to check the words that the index did not
/// check. Reading this many takes about 0.1 s.
const CHECKED_MAX: usize = 20_000;

/// Minimum number of letters of a word that can be looked up in the index of runs.
const RUN_CHARS: usize = 3;

/// Returns the datasets that are visible to `key` and match the filter. A text filter sorts the datasets
/// by relevance, other filters by id.
pub(super) fn list(
    connection: &Connection,
    key: KeyId,
    filter: &Filter,
    skip: u64,
    limit: usize,
) -> Result<Listed> {
    let skip = usize::try_from(skip).unwrap_or(usize::MAX);
    let seen = visible(connection, key)?;
    let found = match filter {
        Filter::All => Found::among(&seen, skip, limit),
        Filter::Metadata(fields) => {
            let terms: Vec<_> =
                fields.iter().map(|(field, value)| Term::Field(field, value)).collect();
            Found::among(&(seen & postings::all_of(connection, &terms)?), skip, limit)
        }
        Filter::Text(text) => {
            let text = text.to_lowercase();
            let text = text.trim();
            if seen.len() <= SEARCHED_MAX {
                search_all(connection, &seen, text, skip, limit)?
            } else {
                look_up(connection, &seen, text, skip, limit)?
            }
        }
    };
    let ids: Vec<i64> = found.page.into_iter().map(i64::from).collect();
    ready(page_of(&mut &*connection, &ids, found.count, found.is_last))
}

/// Returns the datasets that are visible to a key: its own datasets and all datasets with a tag that it
/// holds.
fn visible(connection: &Connection, key: KeyId) -> Result<RoaringBitmap> {
    let held = "SELECT tag FROM key_tags WHERE key = ?1";
    let mut terms = connection.all(held, [key.get()], |row| Ok(Term::Tag(row.get(0)?)))?;
    terms.push(Term::Owner(key));
    postings::any_of(connection, &terms)
}

/// A page of matching datasets, given by their ids.
struct Found {
    count: Option<u64>,
    is_last: bool,
    page: Vec<u32>,
}

impl Found {
    fn among(ids: &RoaringBitmap, skip: usize, limit: usize) -> Self {
        let first = u32::try_from(skip).ok().and_then(|skip| ids.select(skip));
        let page = first.map_or_else(Vec::new, |first| ids.range(first..).take(limit).collect());
        let is_last = skip.saturating_add(limit) as u64 >= ids.len();
        Self { count: Some(ids.len()), is_last, page }
    }
}

/// Rank of a matching dataset. Better matches have lower ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    /// The name equals the text or begins with it. Sorted by name.
    Prefix,
    /// The name contains every word. Sorted by id.
    Name,
    /// The description contains every word. Sorted by id.
    Description,
    /// Name and description together contain every word. Sorted by id.
    Across,
}

/// Ranks a dataset by the words of `text` in its name and description. All arguments are in lower case.
/// Returns `None` if a word is in neither of them.
fn rank(text: &str, name: &str, description: &str) -> Option<Rank> {
    let mut words = text.split_whitespace();
    if name.starts_with(text) {
        Some(Rank::Prefix)
    } else if words.clone().all(|word| name.contains(word)) {
        Some(Rank::Name)
    } else if words.clone().all(|word| description.contains(word)) {
        Some(Rank::Description)
    } else if words.all(|word| name.contains(word) || description.contains(word)) {
        Some(Rank::Across)
    } else {
        None
    }
}

/// Searches the texts of all visible datasets one by one.
fn search_all(
    connection: &Connection,
    seen: &RoaringBitmap,
    text: &str,
    skip: usize,
    limit: usize,
) -> Result<Found> {
    let mut matches = Vec::new();
    for id in seen {
        match rank_of(connection, id, text)? {
            Some((Rank::Prefix, name)) => matches.push((Rank::Prefix, name, id)),
            Some((rank, _)) => matches.push((rank, String::new(), id)),
            None => {}
        }
    }
    matches.sort_unstable();
    let is_last = skip.saturating_add(limit) >= matches.len();
    let count = u64::try_from(matches.len()).ok();
    let page = matches.into_iter().skip(skip).take(limit).map(|(.., id)| id).collect();
    Ok(Found { count, is_last, page })
}

/// Searches with the indexes. The best matches come first.
fn look_up(
    connection: &Connection,
    seen: &RoaringBitmap,
    text: &str,
    skip: usize,
    limit: usize,
) -> Result<Found> {
    let until = skip.saturating_add(limit);
    let mut walk = Walk {
        seen,
        taken: RoaringBitmap::new(),
        in_order: Vec::new(),
        n_max: until.saturating_add(COUNTED_MAX),
        n_checked: 0,
    };
    let with_prefix = "SELECT id FROM datasets WHERE folded >= ?1 AND folded < ?1 || char(1114111)
         ORDER BY folded, id";
    let words: Vec<&str> = text.split_whitespace().collect();
    // If some words are long, only these are looked up in an index. The short words are then searched in
    // the texts of the matches.
    let is_short = |word: &&str| word.chars().count() < RUN_CHARS;
    let has_short = words.iter().any(is_short);
    let (kind, phrases): (_, Vec<String>) = if words.iter().all(is_short) {
        ("grams", words.iter().map(|word| format!("\"{}\"", catalog::hex(word))).collect())
    } else {
        let long = words.iter().filter(|word| !is_short(word));
        ("runs", long.map(|word| format!("\"{}\"", word.replace('"', "\"\""))).collect())
    };
    let within = |field: &str| {
        let index = format!("{field}_{kind}");
        format!("SELECT rowid FROM {index} WHERE {index} MATCH ?1")
    };
    let checked = |rank| (has_short && kind == "runs").then_some((text, rank));
    let all = phrases.join(" AND ");
    let mut steps = vec![(with_prefix.to_owned(), text.to_owned(), None)];
    // An index ignores everything after a NUL character in the text, so such a text cannot be looked up.
    if !words.is_empty() && !text.contains('\0') {
        steps.push((within("name"), all.clone(), checked(Rank::Name)));
        steps.push((within("description"), all, checked(Rank::Description)));
        if words.len() > 1 {
            steps.push((within("name"), phrases.join(" OR "), Some((text, Rank::Across))));
        }
    }
    let mut is_whole = true;
    for (sql, text, checked) in steps {
        is_whole = is_whole && walk.take_all(connection, &sql, &text, checked)?;
    }
    let n_taken = walk.in_order.len();
    let count = if is_whole { u64::try_from(n_taken).ok() } else { None };
    let page = walk.in_order.into_iter().skip(skip).take(limit).collect();
    Ok(Found { count, is_last: n_taken <= until, page })
}

/// Reads the texts of a dataset and returns its rank for `text`, with its lowercase name. See [`rank`].
fn rank_of(connection: &Connection, id: u32, text: &str) -> Result<Option<(Rank, String)>> {
    let sql = "SELECT folded, description FROM datasets WHERE id = ?1";
    let texts: Option<(String, String)> =
        connection.find(sql, [id], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(texts.and_then(|(name, description)| {
        rank(text, &name, &description.to_lowercase()).map(|rank| (rank, name))
    }))
}

/// Matches from several indexes, collected in the order of these indexes. A dataset counts only in the
/// first index that finds it.
struct Walk<'a> {
    seen: &'a RoaringBitmap,
    taken: RoaringBitmap,
    in_order: Vec<u32>,
    /// Number of matches that are counted.
    n_max: usize,
    n_checked: usize,
}

impl Walk<'_> {
    /// Adds the matches of the statement `sql` with the parameter `text`. If `checked` has a text and a
    /// rank, reads each dataset and only adds it if [`rank`] gives it this rank or a better one for the
    /// text. Returns false if there are too many matches to count or to check.
    fn take_all(
        &mut self,
        connection: &Connection,
        sql: &str,
        text: &str,
        checked: Option<(&str, Rank)>,
    ) -> Result<bool> {
        let mut statement = connection.prepare_cached(sql)?;
        let mut rows = statement.query([text])?;
        while let Some(row) = rows.next()? {
            let id = postings::to_u32(row.get(0)?)?;
            if !self.seen.contains(id) || self.taken.contains(id) {
                continue;
            }
            if let Some((words, rank)) = checked {
                self.n_checked += 1;
                if self.n_checked > CHECKED_MAX {
                    return Ok(false);
                }
                if rank_of(connection, id, words)?.is_none_or(|(found, _)| found > rank) {
                    continue;
                }
            }
            self.taken.insert(id);
            self.in_order.push(id);
            if self.in_order.len() > self.n_max {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests;
