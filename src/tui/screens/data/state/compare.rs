//! Comparison of the charted dataset with others: lines in percent, spread and correlation.
//!
//! Datasets are aligned by intervals of time: the buckets of the chart, or the usual interval
//! between raw rows, whose timestamps differ. A common interval is one in which every dataset has
//! a value. The values of the first visible common interval are 0%.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use model::dataset::{Dataset, DatasetId};
use model::page::Limit;
use model::resolution::Resolution;
use model::row::Bucket;
use model::timestamp::Timestamp;

use crate::event::{DataEvent, NamedRow, Rows, RowsEvent, RowsPage, RowsQuery, StreamEvent};
use crate::screens::data::state::State;
use crate::screens::data::state::chart::{CANDLES_MAX, Chart, Shape};
use crate::screens::data::state::live::is_gone;
use crate::screens::data::state::rows::query_before;
use crate::screens::data::update::BUCKETS_AGAIN;
use crate::state::resource::{Failure, Outcome, Resource};
use crate::widget::line::Point;

/// Maximum number of datasets that are compared with the charted one. Each has a stream.
pub(crate) const COMPARED_MAX: usize = 3;

/// Number of common intervals over which the correlation is computed.
const CORRELATED: usize = 30;

/// Minimum number of common intervals for a correlation.
const CORRELATED_MIN: usize = 10;

/// Standard deviation of returns up to which they are considered constant, since rounding causes
/// deviations of this size.
const ROUNDING: f64 = 1e-14;

/// A dataset that the user chose for comparison. It is followed even while it is charted itself.
#[derive(Debug, Clone)]
pub(crate) struct Compared {
    pub(crate) dataset: Dataset,
    pub(crate) chart: Chart,
    /// Loading of the rows.
    pub(crate) rows: Resource<()>,
    /// Start of the loaded rows. `None` if they have to be loaded again.
    pub(crate) loaded_from: Option<Timestamp>,
}

impl Compared {
    /// Drops all rows and selects a resolution.
    pub(crate) fn reset(&mut self, resolution: Resolution) {
        self.chart = Chart::new(resolution);
        self.rows = Resource::EMPTY;
        self.loaded_from = None;
    }

    /// Returns the query for the next page, or `None` if the loaded rows cover the time of
    /// `charted`. `newest` is the query for the first page. Times without charted candles are
    /// skipped.
    pub(crate) fn next_page(&self, newest: RowsQuery, charted: &[Bucket]) -> Option<RowsQuery> {
        let newest = RowsQuery { dataset: self.dataset.id, ..newest };
        let Some(loaded_from) = self.loaded_from else { return Some(newest) };
        // The newest charted candle before the loaded rows. Its end is the end of the next page, so
        // that times without candles are skipped.
        let n_older = charted.partition_point(|candle| candle.timestamp < loaded_from);
        let candle = charted.get(n_older.checked_sub(1)?)?;
        let end = candle.timestamp + newest.resolution.bucket().unwrap_or(Duration::from_secs(1));
        let has_room = self.chart.candles().len() < CANDLES_MAX;
        has_room.then(|| query_before(newest, loaded_from.min(end)))
    }

    /// Adds a page with these `samples`. The next page is older.
    pub(crate) fn add_page(
        &mut self,
        query: RowsQuery,
        result: &Outcome<RowsPage>,
        samples: Vec<Bucket>,
        now: Timestamp,
    ) {
        self.rows.settle(result.as_ref().map(|_| ()).map_err(Failure::clone), now);
        let Ok(page) = result else { return };
        self.chart.add_service_candles(samples);
        let (end, span_max) = (query.end.unwrap_or(now), query.resolution.span_max());
        let start = query.start.or_else(|| Some(end - span_max?)).unwrap_or(Timestamp::MIN);
        let from = page.next.unwrap_or(start).min(end);
        self.loaded_from = Some(self.loaded_from.map_or(from, |earlier| earlier.min(from)));
    }
}

impl State {
    /// Adds the charted dataset to the compared ones, or removes it. Its rows and its stream are
    /// those of the chart.
    pub(crate) fn toggle_compared(&mut self) {
        let Some(dataset) = self.dataset().cloned().filter(|_| self.can_compare()) else { return };
        if self.remove_compared(|it| it.dataset.id == dataset.id).is_empty() {
            let loaded_from = self.chart.candles().first().map(|candle| candle.timestamp);
            let (chart, rows) = (self.chart.clone(), self.rows.clone());
            self.compared.push(Compared { dataset, chart, rows, loaded_from });
        }
    }

    /// Removes compared datasets and closes their streams. Returns their names.
    pub(crate) fn remove_compared(
        &mut self,
        is_removed: impl Fn(&mut Compared) -> bool,
    ) -> Vec<String> {
        let removed: Vec<_> = self.compared.extract_if(.., is_removed).collect();
        self.close_unneeded_streams(removed.iter().map(|it| it.dataset.id));
        removed.into_iter().map(|it| it.dataset.name).collect()
    }

    /// Removes the compared dataset that is deleted or not visible according to `event`. Returns
    /// its name.
    pub(crate) fn remove_gone(&mut self, event: &DataEvent) -> Option<String> {
        let (dataset, why) = match event {
            DataEvent::Rows { query, result: Err(why) } => (query.dataset, why),
            DataEvent::Stream { dataset, news: StreamEvent::Lost { why, .. } } => (*dataset, why),
            _ => return None,
        };
        self.remove_compared(|it| it.dataset.id == dataset && is_gone(why)).pop()
    }

    /// Loads the rows of compared datasets again. Earlier candles remain until they are replaced.
    pub(crate) fn reload_compared(&mut self, is_reloaded: impl Fn(&Compared) -> bool) {
        for it in self.compared.iter_mut().filter(|it| is_reloaded(it)) {
            it.chart.note_gap();
            (it.rows, it.loaded_from) = (Resource::EMPTY, None);
        }
        self.load_compared();
    }

    /// Loads missing rows of the compared datasets, at the resolution of the chart and back to its
    /// oldest candle.
    pub(crate) fn load_compared(&mut self) {
        let candles = self.chart.candles();
        let is_drawn = self.is_shown && !candles.is_empty();
        let Some(newest) = self.first_page().filter(|_| is_drawn) else { return };
        let mut queries = Vec::new();
        for it in self.compared.iter_mut().filter(|it| it.dataset.id != newest.dataset) {
            if it.chart.resolution() != newest.resolution {
                it.reset(newest.resolution);
            }
            let query = it.next_page(newest, candles).filter(|_| it.rows.failure().is_none());
            queries.extend(query.filter(|_| it.rows.begin()));
        }
        for query in queries {
            self.ask(query);
        }
    }

    /// Adds a page of rows to the compared dataset to which it belongs, if any.
    pub(crate) fn add_compared_page(
        &mut self,
        query: RowsQuery,
        result: &Outcome<RowsPage>,
        now: Timestamp,
    ) {
        let is_this = |it: &Compared| {
            it.dataset.id == query.dataset && it.chart.resolution() == query.resolution
        };
        let Some(idx) = self.compared.iter().position(is_this) else { return };
        let samples = match result.as_ref().map(|page| &page.rows) {
            Ok(Rows::Buckets(buckets)) => buckets.clone(),
            Ok(Rows::Raw(rows)) => self.compared_samples(&self.compared[idx], rows),
            Err(_) => Vec::new(),
        };
        self.compared[idx].add_page(query, result, samples, now);
    }

    /// Handles an event of the stream of `dataset`, if it is compared. While the screen is paused,
    /// rows are ignored. They are loaded when it resumes.
    pub(crate) fn on_compared_event(
        &mut self,
        dataset: DatasetId,
        news: &RowsEvent,
        now: Timestamp,
    ) {
        match news {
            // The stream repeats missed rows but no missed buckets.
            StreamEvent::Connected | StreamEvent::Reset => {
                self.reload_compared(|it| it.dataset.id == dataset);
            }
            StreamEvent::Item(rows) if !self.live.is_paused() => {
                self.add_compared_rows(dataset, rows, now);
            }
            _ => {}
        }
    }

    /// Adds rows of the stream. Loads the latest buckets again once a bucket has ended.
    fn add_compared_rows(&mut self, dataset: DatasetId, rows: &[NamedRow], now: Timestamp) {
        let is_this = |it: &Compared| it.dataset.id == dataset;
        let Some(idx) = self.compared.iter().position(is_this) else { return };
        let samples = self.compared_samples(&self.compared[idx], rows);
        let Compared { chart, rows: loading, .. } = &mut self.compared[idx];
        let resolution = chart.resolution();
        let newest = |chart: &Chart| chart.nth_newest(0).map(|candle| candle.timestamp);
        let before = newest(chart);
        chart.add_live_rows(samples);
        // A charted dataset has its own updates.
        if Some(dataset) == self.selected {
            return;
        }
        let has_ended = before.is_some() && newest(chart) > before;
        if has_ended && resolution != Resolution::Raw && loading.begin() {
            self.ask(RowsQuery::newest(dataset, resolution, Limit::clamp(BUCKETS_AGAIN)));
        }
        self.add_sparkline_rows(dataset, &Rows::Raw(rows.to_vec()), now);
    }

    /// Converts rows of a compared dataset to candles. The service has buckets only of the default
    /// column, so rows are not added to them if the user chose another column.
    fn compared_samples(&self, compared: &Compared, rows: &[NamedRow]) -> Vec<Bucket> {
        let Dataset { id, metadata, .. } = &compared.dataset;
        let is_raw = compared.chart.resolution() == Resolution::Raw;
        let is_charted = |_: &Shape| is_raw || !self.chosen_columns.contains_key(id);
        let shape = self.shape_for(*id, metadata, rows.first()).filter(is_charted);
        rows.iter().filter_map(|row| shape.as_ref()?.sample(row)).collect()
    }

    /// Returns true if `dataset` was chosen for comparison.
    pub(crate) fn is_compared(&self, dataset: DatasetId) -> bool {
        self.compared.iter().any(|it| it.dataset.id == dataset)
    }

    /// Returns the datasets that are drawn next to the charted one, with their position among the
    /// chosen ones.
    pub(crate) fn others(&self) -> impl Iterator<Item = (usize, &Compared)> {
        let others = self.compared.iter().enumerate();
        others.filter(|(_, it)| Some(it.dataset.id) != self.selected)
    }

    /// Returns true if the chart compares datasets.
    pub(crate) fn is_comparing(&self) -> bool {
        self.others().next().is_some() && self.shape() != Some(Shape::Nothing)
    }

    /// Returns true if the charted dataset is already compared, or can be.
    pub(crate) fn can_compare(&self) -> bool {
        self.compared.len() < COMPARED_MAX || self.selected.is_some_and(|id| self.is_compared(id))
    }
}

/// A dataset in percent of its value in the first common interval.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Rebased {
    /// Visible points. They are NaN if the dataset is not comparable: it has no common interval
    /// with the others, or its value there is not positive.
    pub(crate) points: Vec<Point>,
    /// Last visible value, or the value at the crosshair.
    pub(crate) value: Option<f64>,
}

/// The charted dataset and others in percent.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Comparison {
    /// The charted dataset, followed by the others.
    pub(crate) lines: Vec<Rebased>,
    /// Difference of two datasets in percentage points. `None` for any other number of comparable
    /// datasets.
    pub(crate) spread: Option<f64>,
    /// Correlation of the latest returns of two datasets. `None` for any other number of
    /// comparable datasets.
    pub(crate) correlation: Option<f64>,
}

impl Comparison {
    /// Compares the `visible` candles with the candles of other datasets at the same time. `every`
    /// is the length of an interval. Values are those at the time `at`, or the last visible ones.
    pub(crate) fn new(
        visible: &[Bucket],
        others: &[&[Bucket]],
        every: Duration,
        at: Option<Timestamp>,
    ) -> Self {
        let length = i64::try_from(every.as_micros()).unwrap_or(i64::MAX).max(1);
        let interval = |time: Timestamp| time.micros().div_euclid(length);
        let Some((first, last)) = visible.first().zip(visible.last()) else {
            return Self::default();
        };
        let ends = interval(first.timestamp)..=interval(last.timestamp);
        let points_of = |candles: &[Bucket]| -> Vec<Point> {
            let seen = candles.iter().filter(|it| ends.contains(&interval(it.timestamp)));
            seen.map(|it| Point { time: it.timestamp, value: it.close }).collect()
        };
        let datasets = std::iter::once(visible).chain(others.iter().copied());
        let datasets: Vec<Vec<Point>> = datasets.map(points_of).collect();
        let closes_of = |points: &Vec<Point>| -> BTreeMap<i64, f64> {
            let finite = points.iter().filter(|point| point.value.is_finite());
            finite.map(|point| (interval(point.time), point.value)).collect()
        };
        let closes: Vec<_> = datasets.iter().map(closes_of).collect();
        let common = common_intervals(&closes);
        let base_of = |closes: &BTreeMap<i64, f64>| {
            closes.get(common.first()?).copied().filter(|base| *base > 0.0)
        };
        let bases: Vec<Option<f64>> = closes.iter().map(base_of).collect();
        let at = at.map_or(i64::MAX, interval);
        let lines = datasets.into_iter().zip(&bases).map(|(mut points, base)| {
            for point in &mut points {
                point.value = percent(point.value, base.unwrap_or(f64::NAN));
            }
            let is_shown = |it: &&Point| interval(it.time) <= at && it.value.is_finite();
            let value = points.iter().rfind(is_shown).map(|point| point.value);
            Rebased { points, value }
        });
        let mut comparison = Self { lines: lines.collect(), ..Self::default() };
        if let ([one, other], [Some(one_base), Some(other_base)]) = (&closes[..], &bases[..]) {
            let pair = |idx: &i64| Some((*one.get(idx)?, *other.get(idx)?));
            let pairs: Vec<_> = common.range(..=at).filter_map(pair).collect();
            let spread =
                |(one, other): &(f64, f64)| percent(*one, *one_base) - percent(*other, *other_base);
            comparison.spread = pairs.last().map(spread).filter(|spread| spread.is_finite());
            comparison.correlation = correlation(&pairs);
        }
        comparison
    }
}

/// Returns the change from `base` to `value` in percent.
fn percent(value: f64, base: f64) -> f64 {
    (value / base - 1.0) * 100.0
}

/// Returns the intervals in which all datasets have a value. A dataset is ignored if it has none
/// in common with the datasets before it.
fn common_intervals(closes: &[BTreeMap<i64, f64>]) -> BTreeSet<i64> {
    let Some((first, others)) = closes.split_first() else { return BTreeSet::new() };
    let mut common: BTreeSet<i64> = first.keys().copied().collect();
    for closes in others {
        let shared: BTreeSet<i64> =
            common.iter().copied().filter(|idx| closes.contains_key(idx)).collect();
        if !shared.is_empty() {
            common = shared;
        }
    }
    common
}

/// Returns the correlation of the returns from each pair of values to the next, over the last
/// [`CORRELATED`] pairs. Returns `None` if there are too few pairs, or if the returns of a dataset
/// are constant.
fn correlation(pairs: &[(f64, f64)]) -> Option<f64> {
    let pairs = pairs.get(pairs.len().saturating_sub(CORRELATED)..)?;
    let changes = pairs.iter().zip(pairs.iter().skip(1));
    let positive = changes.filter(|(before, _)| before.0 > 0.0 && before.1 > 0.0);
    let returns: Vec<_> = positive
        .map(|(before, after)| (after.0 / before.0 - 1.0, after.1 / before.1 - 1.0))
        .filter(|(one, other)| one.is_finite() && other.is_finite())
        .collect();
    if returns.len() + 1 < CORRELATED_MIN {
        return None;
    }
    let n = f64::from(u8::try_from(returns.len()).ok()?);
    let mean = |of: fn(&(f64, f64)) -> f64| returns.iter().map(|it| of(it) / n).sum::<f64>();
    let (one_mean, other_mean) = (mean(|it| it.0), mean(|it| it.1));
    let sum = |of: fn(f64, f64) -> f64| {
        let deviations = returns.iter().map(|it| (it.0 - one_mean, it.1 - other_mean));
        deviations.map(|(one, other)| of(one, other) / n).sum::<f64>()
    };
    let one_deviation = sum(|one, _| one * one).sqrt();
    let other_deviation = sum(|_, other| other * other).sqrt();
    if one_deviation <= ROUNDING || other_deviation <= ROUNDING {
        return None;
    }
    let correlation = sum(|one, other| one * other) / one_deviation / other_deviation;
    correlation.is_finite().then(|| correlation.clamp(-1.0, 1.0))
}

#[cfg(test)]
mod tests;
