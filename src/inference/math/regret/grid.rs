//! Grids: the regrets of many actors against many quantities, each of which leaves one actor out
//! or lets one in.
//!
//! A regret moves toward what its row loses less what its column does. So where rows and columns
//! always met it is a level of the row less one of the column, and only what differs from that is
//! kept for each pair: it fades with every epoch in which the two meet, and is dropped once it no
//! longer changes the regret's last digit. A network whose actors are regular takes room, and time,
//! by their number and not by its square.

use std::collections::BTreeMap;

use model::topic::Address;

use super::{Family, Pace};

/// What stands for the rest of a pair that never met: the one number that no regret differs by.
const UNMET: f64 = f64::INFINITY;

/// One regret for each pair of a row and a column that met.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Grid {
    rows: Vec<Row>,
    columns: Vec<Column>,
}

/// The regrets against one quantity.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Whom the quantity leaves out or lets in.
    pub name: Address,
    /// Where its regrets lie.
    pub level: f64,
    /// By column, in order: what a regret is above the row's level less the column's.
    pub rest: Vec<(usize, f64)>,
}

/// Whose regrets a grid holds.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    /// The actor.
    pub name: Address,
    /// How far below the row's level its regrets lie.
    pub level: f64,
}

/// Where the actors of an epoch stand among a grid's columns.
#[derive(Debug, Clone)]
pub struct Seats {
    /// By position in the epoch: the actor's column, if it has one.
    pub columns: Vec<Option<usize>>,
    /// By column: the actor's position, if it takes part.
    pub positions: Vec<Option<usize>>,
}

impl Grid {
    /// Returns the grid of `rows` and `columns`, each in the order of its names, or none where a
    /// row speaks of a column that there is not.
    pub fn new(rows: Vec<Row>, columns: Vec<Column>) -> Option<Self> {
        let is_fit = |row: &Row| {
            row.rest.iter().all(|(idx, _)| *idx < columns.len())
                && row.rest.is_sorted_by(|a, b| a.0 < b.0)
        };
        let are_sorted = rows.is_sorted_by(|a, b| a.name < b.name)
            && columns.is_sorted_by(|a, b| a.name < b.name);
        (are_sorted && rows.iter().all(is_fit)).then_some(Self { rows, columns })
    }

    /// Returns the grid with the regrets of `families`, by row.
    pub fn of<'a>(families: impl Iterator<Item = (&'a Address, &'a Family)>) -> Self {
        let mut grid = Self::default();
        for (name, family) in families {
            grid.add(std::iter::once(name), family.keys(), None);
            grid.put(name, family.iter().map(|(column, regret)| (column, *regret)));
        }
        grid
    }

    /// About how many bytes of memory it takes.
    pub fn n_bytes(&self) -> usize {
        let n_rests: usize = self.rows.iter().map(|row| row.rest.len()).sum();
        size_of::<Row>() * self.rows.len()
            + size_of::<Column>() * self.columns.len()
            + size_of::<(usize, f64)>() * n_rests
    }

    /// The rows, by name.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// The columns, by name.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The row of `name`.
    pub fn row(&self, name: &Address) -> Option<&Row> {
        let idx = self.rows.binary_search_by(|row| row.name.cmp(name)).ok()?;
        self.rows.get(idx)
    }

    /// The regret of `column` against the quantity of `row`; none where the two never met.
    pub fn get(&self, row: &Address, column: &Address) -> Option<f64> {
        let row = self.row(row)?;
        self.regret(row, self.column(column)?)
    }

    /// The regrets of `row`, by column.
    pub fn family(&self, row: &Row) -> Family {
        let regrets = self
            .columns
            .iter()
            .enumerate()
            .filter_map(|(idx, column)| Some((column.name.clone(), self.regret(row, idx)?)));
        regrets.collect()
    }

    /// Where each of `names`, which are in order, stands among the columns.
    pub fn seats(&self, names: &[&Address]) -> Seats {
        let mut positions = vec![None; self.columns.len()];
        let mut columns = Vec::with_capacity(names.len());
        let mut next = self.columns.iter().enumerate().peekable();
        for (position, name) in names.iter().enumerate() {
            while next.next_if(|(_, column)| column.name < **name).is_some() {}
            let seat = next.next_if(|(_, column)| column.name == **name).map(|(idx, _)| idx);
            if let Some(place) = seat.and_then(|idx| positions.get_mut(idx)) {
                *place = Some(position);
            }
            columns.push(seat);
        }
        Seats { columns, positions }
    }

    /// Writes the regrets of `row` to `line`, by the positions of `seats`; `newcomer` for who never
    /// met it.
    pub fn fill(&self, row: Option<&Row>, seats: &Seats, newcomer: f64, line: &mut [f64]) {
        let Some(row) = row else { return line.fill(newcomer) };
        for (place, seat) in line.iter_mut().zip(&seats.columns) {
            let column = seat.and_then(|idx| self.columns.get(idx));
            *place = column.map_or(newcomer, |column| row.level - column.level);
        }
        for (idx, rest) in &row.rest {
            let position = seats.positions.get(*idx).copied().flatten();
            if let Some(place) = position.and_then(|position| line.get_mut(position)) {
                *place = if is_unmet(*rest) { newcomer } else { *place + rest };
            }
        }
    }

    /// Moves every regret of a row of `references` and a column of `losses` a part of the way to
    /// their difference. Both are taken less `base`, so that they are of the regrets' own size.
    pub fn learn(&mut self, references: &Family, losses: &Family, base: f64, pace: Pace) {
        if references.is_empty() || losses.is_empty() {
            return;
        }
        self.add(references.keys(), losses.keys(), Some(pace.initial));
        let moved = |level: f64, newest: &f64| pace.alpha * (newest - base) + pace.kept() * level;
        let columns: Vec<Option<f64>> = self
            .columns
            .iter()
            .map(|column| Some(moved(column.level, losses.get(&column.name)?)))
            .collect();
        let here = |is_here: bool| -> Vec<usize> {
            let found = columns.iter().enumerate().filter(|(_, to)| to.is_some() == is_here);
            found.map(|(idx, _)| idx).collect()
        };
        let (present, absent) = (here(true), here(false));
        for row in &mut self.rows {
            let to = references.get(&row.name).map(|newest| moved(row.level, newest));
            // Pairs of one who takes part and one who does not keep their regret, though one of
            // the two levels moves.
            let apart = if to.is_some() { &absent } else { &present };
            let level = to.unwrap_or(row.level);
            let rest = merged(&row.rest, apart).filter_map(|(idx, rest)| {
                let from = self.columns.get(idx)?.level;
                let column = columns.get(idx)?.unwrap_or(from);
                let rest = match (to, columns.get(idx)?) {
                    (Some(_), Some(_)) if is_unmet(rest) => {
                        pace.kept() * (pace.initial - row.level + from)
                    }
                    (Some(_), Some(_)) => pace.kept() * rest,
                    _ => rest + (row.level - level) + (column - from),
                };
                counts(level, column, rest).then_some((idx, rest))
            });
            row.rest = rest.collect();
            row.level = level;
        }
        for (column, to) in self.columns.iter_mut().zip(columns) {
            column.level = to.unwrap_or(column.level);
        }
    }

    /// Moves the regrets of `row` against `losses`, which are those of this row alone, a part of the
    /// way to `reference` less the loss. A grid learns in this way alone, or never.
    pub fn learn_row(&mut self, row: &Address, reference: f64, losses: &Family, pace: Pace) {
        self.add(std::iter::once(row), losses.keys(), None);
        let regrets: Vec<(Address, f64)> = losses
            .iter()
            .map(|(name, loss)| {
                let before = self.get(row, name).unwrap_or(pace.initial);
                (name.clone(), pace.alpha * (reference - loss) + pace.kept() * before)
            })
            .collect();
        self.put(row, regrets.iter().map(|(name, regret)| (name, *regret)));
    }

    /// Forgets the rows and the columns that are not to be kept.
    pub fn retain(
        &mut self,
        is_row_kept: impl Fn(&Address) -> bool,
        is_column_kept: impl Fn(&Address) -> bool,
    ) {
        self.rows.retain(|row| is_row_kept(&row.name));
        let mut n_kept = 0;
        let to = |column: &Column| {
            let place = is_column_kept(&column.name).then_some(n_kept);
            n_kept += usize::from(place.is_some());
            place
        };
        let places: Vec<Option<usize>> = self.columns.iter().map(to).collect();
        if n_kept == self.columns.len() {
            return;
        }
        self.columns.retain(|column| is_column_kept(&column.name));
        for row in &mut self.rows {
            let rest = row.rest.iter();
            let kept = rest.filter_map(|(idx, rest)| Some(((*places.get(*idx)?)?, *rest)));
            row.rest = kept.collect();
        }
    }

    fn column(&self, name: &Address) -> Option<usize> {
        self.columns.binary_search_by(|column| column.name.cmp(name)).ok()
    }

    fn regret(&self, row: &Row, column_idx: usize) -> Option<f64> {
        let own = row.level - self.columns.get(column_idx)?.level;
        let found = row.rest.binary_search_by_key(&column_idx, |(idx, _)| *idx);
        match found.ok().and_then(|idx| row.rest.get(idx)) {
            None => Some(own),
            Some((_, rest)) => (!is_unmet(*rest)).then_some(own + rest),
        }
    }

    /// Sets regrets of `row`, all of whose columns there are.
    fn put<'a>(&mut self, row: &Address, regrets: impl Iterator<Item = (&'a Address, f64)>) {
        let found = self.rows.binary_search_by(|other| other.name.cmp(row));
        let Some(row) = found.ok().and_then(|idx| self.rows.get_mut(idx)) else { return };
        let mut rests: BTreeMap<usize, f64> = row.rest.iter().copied().collect();
        for (name, regret) in regrets {
            let found = self.columns.binary_search_by(|column| column.name.cmp(name));
            if let Some((idx, column)) = found.ok().and_then(|i| Some((i, self.columns.get(i)?))) {
                rests.insert(idx, regret - (row.level - column.level));
            }
        }
        let column = |idx: usize| self.columns.get(idx).map_or(0.0, |column| column.level);
        let counting = |(idx, rest): &(usize, f64)| counts(row.level, column(*idx), *rest);
        row.rest = rests.into_iter().filter(counting).collect();
    }

    /// Makes room for `rows` and `columns`. The first ones of all have the regret `first`, if there
    /// is one; later ones have not met those that are there.
    fn add<'a>(
        &mut self,
        rows: impl Iterator<Item = &'a Address>,
        columns: impl Iterator<Item = &'a Address>,
        first: Option<f64>,
    ) {
        let first = first.filter(|_| self.rows.is_empty() && self.columns.is_empty());
        let level = -first.unwrap_or(0.0);
        let new_columns: Vec<Column> = columns
            .filter(|name| self.column(name).is_none())
            .map(|name| Column { name: name.clone(), level })
            .collect();
        self.add_columns(new_columns);
        let rest: Vec<(usize, f64)> = match first {
            Some(_) => Vec::new(),
            None => (0..self.columns.len()).map(|idx| (idx, UNMET)).collect(),
        };
        let new_rows: Vec<Row> = rows
            .filter(|name| self.row(name).is_none())
            .map(|name| Row { name: name.clone(), level: 0.0, rest: rest.clone() })
            .collect();
        self.rows.extend(new_rows);
        self.rows.sort_by(|a, b| a.name.cmp(&b.name));
    }

    fn add_columns(&mut self, new: Vec<Column>) {
        if new.is_empty() {
            return;
        }
        let n_before = self.columns.len();
        let all = std::mem::take(&mut self.columns).into_iter().chain(new);
        let mut all: Vec<(usize, Column)> = all.enumerate().collect();
        all.sort_by(|(_, a), (_, b)| a.name.cmp(&b.name));
        let mut places = vec![0; all.len()];
        for (to, (from, _)) in all.iter().enumerate() {
            if let Some(place) = places.get_mut(*from) {
                *place = to;
            }
        }
        for row in &mut self.rows {
            let unmet = (n_before..all.len()).map(|idx| (idx, UNMET));
            let rest = std::mem::take(&mut row.rest).into_iter().chain(unmet);
            row.rest = rest.filter_map(|(idx, rest)| Some((*places.get(idx)?, rest))).collect();
            row.rest.sort_unstable_by_key(|(idx, _)| *idx);
        }
        self.columns = all.into_iter().map(|(_, column)| column).collect();
    }
}

/// Whether `rest` says that a pair never met.
pub(crate) fn is_unmet(rest: f64) -> bool {
    rest.is_infinite()
}

/// Whether `rest` is more than the last digits of a row's level and a column's.
fn counts(level: f64, column: f64, rest: f64) -> bool {
    let size = level.abs() + column.abs();
    size + rest.abs() > size
}

/// The pairs of `rest`, and 0 for each of `columns` that is not among them; all in order.
fn merged(rest: &[(usize, f64)], columns: &[usize]) -> impl Iterator<Item = (usize, f64)> {
    let (mut rest, mut columns) = (rest.iter().copied().peekable(), columns.iter().peekable());
    std::iter::from_fn(move || match (rest.peek(), columns.peek()) {
        (Some((idx, _)), Some(column)) if idx > *column => columns.next().map(|c| (*c, 0.0)),
        (Some((idx, _)), Some(column)) => {
            if idx == *column {
                columns.next();
            }
            rest.next()
        }
        (Some(_), None) => rest.next(),
        (None, _) => columns.next().map(|column| (*column, 0.0)),
    })
}

#[cfg(test)]
mod tests;
