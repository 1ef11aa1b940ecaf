//! The kind of a chart, its indicators and its zoom.
//!
//! The zoom has steps, each a resolution and a density. The span of every step is permitted for
//! its resolution.

use model::resolution::Resolution;
use strum::VariantArray;

use crate::widget::candles::Density;

/// Kind of a chart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, VariantArray)]
pub(crate) enum ChartKind {
    #[default]
    Candles,
    /// A line through the closing values.
    Line,
    /// Heikin-Ashi candles, which smooth the prices.
    Heikin,
}

/// Indicators of a chart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, VariantArray)]
pub(crate) enum Indicators {
    /// Mean over 20 candles, mean over 50 candles, and volume-weighted mean.
    #[default]
    Averages,
    /// Exponential means over 12 and 26 candles.
    Exponential,
    /// Mean over 20 candles, with bands two standard deviations above and below.
    Bands,
    Off,
}

/// A step of the zoom.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd)]
pub(crate) struct Zoom {
    pub(crate) resolution: Resolution,
    pub(crate) density: Density,
}

impl Density {
    /// Returns the number of points of a line in four columns.
    const fn points_in_four(self) -> usize {
        match self {
            Self::Wide => 1,
            Self::Narrow => 4,
            Self::Dense => 16,
            Self::Packed => 64,
        }
    }

    /// Returns the number of points of a line that is `width` columns wide.
    pub(crate) fn n_points(self, width: u16) -> usize {
        usize::from(width) * self.points_in_four() / 4
    }

    /// Returns the number of points by which a key moves the crosshair of a line, about one
    /// column.
    pub(crate) fn stride(self) -> usize {
        (self.points_in_four() / 4).max(1)
    }
}

impl Default for Zoom {
    fn default() -> Self {
        Self::START
    }
}

impl Zoom {
    /// Initial zoom of a dataset: raw values, so that each new row is visible.
    pub(crate) const START: Self = Self { resolution: Resolution::Raw, density: Density::Narrow };

    /// Returns all steps through the resolutions `served`, from the closest to the farthest.
    fn steps(
        served: &'static [Resolution],
        is_line: bool,
    ) -> impl DoubleEndedIterator<Item = Self> {
        let densities = Density::VARIANTS.iter().copied();
        // Several candles do not fit into a column, so the densest step is only for lines.
        let densities = densities.filter(move |one| is_line || *one < Density::Packed);
        served.iter().flat_map(move |resolution| {
            densities.clone().map(|density| Self { resolution: *resolution, density })
        })
    }

    /// Returns the next step with a longer period.
    pub(crate) fn out(self, is_line: bool, served: &'static [Resolution]) -> Self {
        Self::steps(served, is_line).find(|step| *step > self).unwrap_or(self)
    }

    /// Returns the next step with a shorter period.
    pub(crate) fn closer(self, is_line: bool, served: &'static [Resolution]) -> Self {
        Self::steps(served, is_line).rfind(|step| *step < self).unwrap_or(self)
    }

    /// Returns the next coarser resolution of `served`, with the same density.
    pub(crate) fn coarser(self, served: &[Resolution]) -> Self {
        let coarser = served.iter().find(|other| **other > self.resolution);
        Self { resolution: coarser.copied().unwrap_or(self.resolution), ..self }
    }

    /// Returns the next finer resolution of `served`, with the same density.
    pub(crate) fn finer(self, served: &[Resolution]) -> Self {
        let finer = served.iter().rfind(|other| **other < self.resolution);
        Self { resolution: finer.copied().unwrap_or(self.resolution), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zooming_out_and_in_passes_every_resolution() {
        for served in [&Resolution::ALL[..], &Resolution::DOCUMENTED[..]] {
            for (is_line, n_densities) in [(false, 3), (true, 4)] {
                let first = Zoom { resolution: Resolution::Raw, density: Density::Wide };
                let out: Vec<_> = std::iter::successors(Some(first), |zoom| {
                    Some(zoom.out(is_line, served)).filter(|wider| wider != zoom)
                })
                .collect();
                assert_eq!(out.len(), n_densities * served.len());
                let last = *out.last().unwrap();
                let back: Vec<_> = std::iter::successors(Some(last), |zoom| {
                    Some(zoom.closer(is_line, served)).filter(|closer| closer != zoom)
                })
                .collect();
                assert!(back.iter().rev().eq(&out), "{back:?}");
            }
        }
    }

    #[test]
    fn zooming_in_at_the_finest_or_out_at_the_coarsest_resolution_changes_nothing() {
        let (start, all) = (Zoom::START, &Resolution::DOCUMENTED);
        assert_eq!(start.finer(all), start);
        let day = start.coarser(all).coarser(all).coarser(all);
        assert_eq!(day.resolution, Resolution::Day);
        assert_eq!((day.coarser(all), day.finer(all).resolution), (day, Resolution::Hour));
    }

    #[test]
    fn zooming_from_an_unsupported_resolution_chooses_a_supported_neighbor() {
        let lost = Zoom { resolution: Resolution::FifteenMinutes, density: Density::Wide };
        let served = &Resolution::DOCUMENTED;
        assert_eq!(lost.out(false, served).resolution, Resolution::Hour);
        assert_eq!(lost.closer(false, served).resolution, Resolution::FiveMinutes);
    }
}
