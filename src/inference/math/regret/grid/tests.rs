//! Grids beside regrets that are kept pair by pair.

use proptest::prelude::*;

use super::*;
use crate::math::statistics::count;

const PACE: Pace = Pace { alpha: 0.1, initial: -0.7 };

fn name(idx: usize) -> Address {
    format!("allo1{idx:03}").parse().unwrap()
}

fn family(numbers: &[Option<f64>]) -> Family {
    let known = numbers.iter().enumerate();
    known.filter_map(|(idx, number)| Some((name(idx), (*number)?))).collect()
}

/// Every regret of `grid`.
fn all(grid: &Grid) -> BTreeMap<(Address, Address), f64> {
    let of_row = |row: &Row| {
        let family = grid.family(row).into_iter();
        family.map(|(column, regret)| ((row.name.clone(), column), regret)).collect::<Vec<_>>()
    };
    grid.rows().iter().flat_map(of_row).collect()
}

/// How many pairs have a rest.
fn n_rest(grid: &Grid) -> usize {
    grid.rows().iter().map(|row| row.rest.len()).sum()
}

#[track_caller]
fn check(grid: &Grid, want: &BTreeMap<(Address, Address), f64>) {
    let got = all(grid);
    assert_eq!(got.keys().collect::<Vec<_>>(), want.keys().collect::<Vec<_>>());
    for ((pair, got), want) in got.iter().zip(want.values()) {
        assert!((got - want).abs() < 1e-12, "{pair:?}: {got} is not {want}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn regrets_are_those_of_each_pair_whoever_stays_away(
        epochs in prop::collection::vec(
            (
                prop::collection::vec(prop::option::weighted(0.7, -5.0..5.0_f64), 6),
                prop::collection::vec(prop::option::weighted(0.7, -5.0..5.0_f64), 6),
                -5.0..5.0_f64,
            ),
            1..40,
        ),
        gone in 0..6_usize,
    ) {
        let (mut grid, mut pairs) = (Grid::default(), BTreeMap::new());
        let n_epochs = epochs.len();
        for (idx, (references, losses, base)) in epochs.into_iter().enumerate() {
            let (references, losses) = (family(&references), family(&losses));
            grid.learn(&references, &losses, base, PACE);
            for (row, reference) in &references {
                for (column, loss) in &losses {
                    let regret = pairs.entry((row.clone(), column.clone())).or_insert(PACE.initial);
                    *regret = PACE.alpha * (reference - loss) + PACE.kept() * *regret;
                }
            }
            if idx == n_epochs / 2 {
                grid.retain(|row| *row != name(gone), |column| *column != name(gone));
                pairs.retain(|(row, column), _| *row != name(gone) && *column != name(gone));
            }
        }
        check(&grid, &pairs);
        let again = Grid::new(grid.rows().to_vec(), grid.columns().to_vec());
        prop_assert_eq!(again, Some(grid));
    }
}

/// A grid of `n` actors that all took part in `n_epochs`.
fn regular(n: usize, n_epochs: usize) -> Grid {
    let mut grid = Grid::default();
    for epoch in 0..n_epochs {
        let loss = |idx: usize| count((idx * 7 + epoch * 3) % 11).ln_1p();
        let losses: Family = (0..n).map(|idx| (name(idx), loss(idx))).collect();
        let references = losses.iter().map(|(name, loss)| (name.clone(), loss / 3.0)).collect();
        grid.learn(&references, &losses, 0.5, PACE);
    }
    grid
}

#[test]
fn actors_that_always_take_part_are_kept_by_their_number() {
    let grid = regular(9, 30);
    assert_eq!(n_rest(&grid), 0);
    assert_eq!(all(&grid).len(), 81);
}

#[test]
fn what_sets_a_pair_apart_fades_until_nothing_is_kept_of_it() {
    let mut grid = regular(5, 3);
    let losses: Family = (0..7).map(|idx| (name(idx), count(idx))).collect();
    for _ in 0..60 {
        grid.learn(&losses, &losses, 1.5, PACE);
    }
    assert_eq!(n_rest(&grid), 2 * 7 + 2 * 5, "the newcomers' rows and columns");
    for _ in 0..400 {
        grid.learn(&losses, &losses, 1.5, PACE);
    }
    assert_eq!(n_rest(&grid), 0);
}

#[test]
fn lines_say_who_is_new() {
    let mut grid = Grid::default();
    let of =
        |idx: &[usize]| -> Family { idx.iter().map(|idx| (name(*idx), count(*idx))).collect() };
    grid.learn(&of(&[1, 3]), &of(&[1, 3]), 0.0, Pace { alpha: 1.0, initial: 0.0 });
    grid.learn(&of(&[5]), &of(&[5]), 0.0, Pace { alpha: 1.0, initial: 0.0 });
    let names = [0, 1, 3, 5].map(name);
    let seats = grid.seats(&names.iter().collect::<Vec<_>>());
    assert_eq!(seats.columns, [None, Some(0), Some(1), Some(2)]);
    let mut line = vec![0.0; 4];
    grid.fill(grid.row(&name(3)), &seats, -9.0, &mut line);
    assert_eq!(line, [-9.0, 2.0, 0.0, -9.0]);
    grid.fill(grid.row(&name(0)), &seats, -9.0, &mut line);
    assert_eq!(line, [-9.0; 4]);
    assert_eq!(grid.get(&name(3), &name(1)), Some(2.0));
    assert_eq!(grid.get(&name(3), &name(5)), None);
}

#[test]
fn a_grid_out_of_order_is_none() {
    let column = |idx| Column { name: name(idx), level: 0.0 };
    let row = |idx, rest: &[usize]| Row {
        name: name(idx),
        level: 0.0,
        rest: rest.iter().map(|idx| (*idx, 1.0)).collect(),
    };
    assert!(Grid::new(vec![row(1, &[0, 1])], vec![column(1), column(2)]).is_some());
    assert_eq!(Grid::new(vec![row(1, &[0, 2])], vec![column(1), column(2)]), None);
    assert_eq!(Grid::new(vec![row(1, &[1, 0])], vec![column(1), column(2)]), None);
    assert_eq!(Grid::new(vec![row(1, &[])], vec![column(2), column(1)]), None);
    assert_eq!(Grid::new(vec![row(2, &[]), row(1, &[])], Vec::new()), None);
}
