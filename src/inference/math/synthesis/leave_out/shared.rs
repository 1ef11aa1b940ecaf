//! What the inferers of an epoch sum to without each of them, from sums that all share.
//!
//! Where a grid has no rest, leaving out one inferer or another only shifts the exponents of all
//! weights by the same amount, the row's level. So the sum of the weights is a function of that one
//! number, and smooth: its poles lie π off the line of real numbers. It is taken at a few points and
//! interpolated between them. A pair that has a rest is taken out of the sum and weighed by itself.
//! Absent on purpose: forecasters, each of which has its own regret in every case.

use std::f64::consts::PI;

use super::Against;
use crate::math::{
    regret::grid::{Grid, Row, Seats, is_unmet},
    statistics::count,
    synthesis::{
        Values,
        combine::{Table, dot},
        weights::{Curve, Heights},
    },
};

/// Points of an interpolation. With poles at π and a reach of 1 the error falls by more than five
/// times with each, so this many leave less than the last digits.
const N_POINTS: usize = 22;

/// How far from the middle of its points a sum is interpolated.
const REACH: f64 = 1.0;

/// The least reach, which keeps points apart where all rows have one level.
const REACH_MIN: f64 = 1e-6;

/// Where less than this part of the weight is left, the rest is walked: taken out of the sum, it
/// would have lost its digits.
const LEFT_MIN: f64 = 1e-3;

/// Where more than this part of the inferers is to be weighed by itself, walking all is as good.
const APART_MAX: f64 = 0.25;

/// What the inferers sum to without one of them.
#[derive(Debug)]
pub(super) struct Part {
    /// The least exponent there may be.
    pub(super) least: f64,
    /// The [shift](Heights::shift) of the sums.
    pub(super) shift: f64,
    /// The sum of the weights.
    pub(super) weight: f64,
    /// The sum of the weighted values, by label.
    pub(super) sums: Values,
    /// Inferers that are not in the sums: their exponents and positions.
    pub(super) apart: Vec<(f64, usize)>,
}

/// Whose value is weighed.
#[derive(Debug, Clone, Copy)]
pub(super) enum Source<'v> {
    /// That of the inferer at this position.
    Submitted(usize),
    /// One that a forecaster implies, by label.
    Implied(&'v [f64]),
}

/// The inferers of an epoch, and their regrets without each of them.
#[derive(Debug)]
pub(super) struct Crowd<'t, 'a> {
    table: &'t Table<'a>,
    grid: &'t Grid,
    seats: &'t Seats,
    curve: Curve,
    /// By position, the exponent in a row whose level is 0; ∞ for newcomers.
    exponents: Vec<f64>,
    /// The least of them.
    least: f64,
    /// The newcomers' positions.
    newcomers: Vec<usize>,
}

/// A row whose inferer takes part.
#[derive(Debug, Clone, Copy)]
struct Present<'t> {
    /// By how much it lowers all exponents.
    depth: f64,
    row: &'t Row,
    position: usize,
}

/// Sums at points between which they are interpolated.
#[derive(Debug)]
struct Points {
    middle: f64,
    reach: f64,
    heights: Heights,
    /// Between -1 and 1, and how much each counts.
    places: Vec<(f64, f64)>,
    /// At each point, the sum of the weights and those of the weighted values.
    sums: Vec<Values>,
}

impl<'t, 'a> Crowd<'t, 'a> {
    pub(super) fn new(table: &'t Table<'a>, against: &'t Against<'_, '_>, curve: Curve) -> Self {
        let (grid, seats) = (&against.versus.inferer, &against.inferers);
        let level = |seat: &Option<usize>| Some(grid.columns().get((*seat)?)?.level);
        let exponents: Vec<f64> = seats
            .columns
            .iter()
            .map(|seat| level(seat).map_or(f64::INFINITY, |level| curve.exponent(-level)))
            .collect();
        let newcomers = seats.columns.iter().enumerate().filter(|(_, seat)| seat.is_none());
        Self {
            table,
            grid,
            seats,
            curve,
            least: exponents.iter().copied().fold(f64::INFINITY, f64::min),
            exponents,
            newcomers: newcomers.map(|(position, _)| position).collect(),
        }
    }

    fn are_too_many(&self, n_apart: usize) -> bool {
        count(n_apart) > APART_MAX * count(self.exponents.len())
    }

    /// The rows that can be taken together, by depth.
    fn rows(&self) -> Vec<Present<'t>> {
        let positions = self.table.inferers().iter().enumerate();
        let mut rows: Vec<Present<'t>> = positions
            .filter_map(|(position, name)| {
                self.seats.columns.get(position).copied().flatten()?;
                let row = self.grid.row(name)?;
                Some(Present { depth: self.curve.slope * row.level, row, position })
            })
            .collect();
        rows.sort_by(|a, b| a.depth.total_cmp(&b.depth));
        rows
    }

    /// The sums where all exponents are lowered by each of the points around `middle`.
    fn points(&self, middle: f64, reach: f64) -> Points {
        let heights = Heights::below(self.least - middle);
        let at = |cosine: f64| {
            let depth = middle + reach * cosine;
            let weights: Vec<f64> =
                self.exponents.iter().map(|exponent| heights.at(exponent - depth)).collect();
            let sums = self.table.values().iter().map(|values| dot(values, &weights));
            std::iter::once(weights.iter().sum()).chain(sums).collect()
        };
        let places: Vec<(f64, f64)> = chebyshev().collect();
        Points {
            middle,
            reach,
            heights,
            sums: places.iter().map(|(x, _)| at(*x)).collect(),
            places,
        }
    }

    /// The sums without the inferer of `present`, if they keep their digits.
    fn without(&self, points: &Points, present: Present<'_>) -> Option<Part> {
        let Present { depth, row, position } = present;
        let newcomer = self.curve.exponent(self.table.newcomer());
        let mut apart: Vec<(f64, usize)> =
            self.newcomers.iter().map(|position| (newcomer, *position)).collect();
        let mut taken_out = vec![position];
        for (column, rest) in &row.rest {
            let Some(other) = self.seats.positions.get(*column).copied().flatten() else {
                continue;
            };
            if other != position {
                let own = self.exponents.get(other)? - depth;
                let lowered = own - self.curve.slope * rest;
                apart.push((if is_unmet(*rest) { newcomer } else { lowered }, other));
                taken_out.push(other);
            }
        }
        if self.are_too_many(apart.len()) {
            return None;
        }
        let mut sums = points.at(depth);
        let whole = *sums.first()?;
        for position in taken_out {
            let height = points.heights.at(self.exponents.get(position)? - depth);
            let values = self.table.values().iter().map(|values| values.get(position).copied());
            let parts = std::iter::once(Some(1.0)).chain(values);
            for (sum, part) in sums.iter_mut().zip(parts) {
                *sum -= height * part?;
            }
        }
        let weight = sums.remove(0);
        (weight > LEFT_MIN * whole).then_some(Part {
            least: self.least - depth,
            shift: points.heights.shift,
            weight,
            sums,
            apart,
        })
    }
}

impl Points {
    /// The sums where exponents are lowered by `depth`, by the barycentric formula.
    fn at(&self, depth: f64) -> Values {
        let place = (depth - self.middle) / self.reach;
        let mut sums = vec![0.0; self.sums.first().map_or(0, Vec::len)];
        let mut divisor = 0.0;
        for ((cosine, share), of_point) in self.places.iter().zip(&self.sums) {
            let off = place - cosine;
            if off == 0.0 {
                return of_point.clone();
            }
            let share = share / off;
            divisor += share;
            for (sum, number) in sums.iter_mut().zip(of_point) {
                *sum += share * number;
            }
        }
        sums.into_iter().map(|sum| sum / divisor).collect()
    }
}

/// The points of Chebyshev between -1 and 1, and how much each counts in an interpolation.
fn chebyshev() -> impl Iterator<Item = (f64, f64)> {
    (0..N_POINTS).map(|idx| {
        let angle = PI * (count(idx) + 0.5) / count(N_POINTS);
        (angle.cos(), if idx % 2 == 0 { angle.sin() } else { -angle.sin() })
    })
}

/// What the inferers of `crowd` sum to without each of them, by position. None for those that are
/// to be walked.
pub(super) fn parts(crowd: &Crowd<'_, '_>) -> Vec<Option<Part>> {
    let mut parts: Vec<Option<Part>> = crowd.exponents.iter().map(|_| None).collect();
    if crowd.are_too_many(crowd.newcomers.len()) {
        return parts;
    }
    let rows = crowd.rows();
    let mut left = rows.as_slice();
    while let Some(first) = left.first() {
        let n_near = left.partition_point(|row| row.depth - first.depth <= 2.0 * REACH);
        let (near, further) = left.split_at(n_near);
        left = further;
        // Walking as many rows as there are points costs the same, and loses no digit.
        let Some(last) = near.last().filter(|_| n_near > N_POINTS) else { continue };
        let reach = ((last.depth - first.depth) / 2.0).max(REACH_MIN);
        let points = crowd.points(first.depth.midpoint(last.depth), reach);
        for present in near {
            if let Some(place) = parts.get_mut(present.position) {
                *place = crowd.without(&points, *present);
            }
        }
    }
    parts
}
