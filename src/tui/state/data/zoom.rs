//! How much of a dataset's past a chart shows: a resolution, and how dense its candles are.
//!
//! Zooming steps through both, so that no span is ever asked for that the resolution refuses.

use model::resolution::Resolution;

use crate::widget::candles::Body;

/// A step of the zoom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Zoom {
    /// How coarse.
    pub resolution: Resolution,
    /// How dense.
    pub density: Density,
}

/// How many candles, or points of a line, go into a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Density {
    /// A candle in four columns; a point in four.
    Wide,
    /// A candle in two columns; a point in one.
    Narrow,
    /// A candle in each column; four points.
    Dense,
    /// Sixteen points in a column. Candles are as in dense.
    Packed,
}

impl Density {
    /// From the least dense on.
    const ALL: [Self; 4] = [Self::Wide, Self::Narrow, Self::Dense, Self::Packed];

    /// The width of a candle.
    #[must_use]
    pub const fn body(self) -> Body {
        match self {
            Self::Wide => Body::Wide,
            Self::Narrow => Body::Narrow,
            Self::Dense | Self::Packed => Body::Dense,
        }
    }

    /// How many points of a line are shown in `width` columns.
    #[must_use]
    pub fn n_points(self, width: u16) -> usize {
        let width = usize::from(width);
        match self {
            Self::Wide => width / 4,
            Self::Narrow => width,
            Self::Dense => width * 4,
            Self::Packed => width * 16,
        }
    }

    /// How many points the crosshair of a line moves over, so that it moves by about a column.
    #[must_use]
    pub const fn stride(self) -> usize {
        match self {
            Self::Wide | Self::Narrow => 1,
            Self::Dense => 4,
            Self::Packed => 16,
        }
    }
}

impl Zoom {
    /// Where a dataset opens: raw values are what changes while one looks.
    pub const START: Self = Self { resolution: Resolution::Raw, density: Density::Narrow };

    /// Every step, the closest first. Each shows more than the one before.
    fn steps() -> impl DoubleEndedIterator<Item = Self> {
        Resolution::DOCUMENTED.into_iter().flat_map(|resolution| {
            Density::ALL.into_iter().map(move |density| Self { resolution, density })
        })
    }

    /// The next wider step of a line, or of candles, which are never packed.
    #[must_use]
    pub fn out(self, is_line: bool) -> Self {
        let is_fit = |step: &Self| is_line || step.density < Density::Packed;
        let mut wider = Self::steps().skip_while(|step| *step != self).skip(1).filter(is_fit);
        wider.next().unwrap_or(self)
    }

    /// The next closer step, as [`Self::out`].
    #[must_use]
    pub fn closer(self, is_line: bool) -> Self {
        let is_fit = |step: &Self| is_line || step.density < Density::Packed;
        let mut closer =
            Self::steps().rev().skip_while(|step| *step != self).skip(1).filter(is_fit);
        closer.next().unwrap_or(self)
    }

    /// The next coarser resolution, as dense as this.
    #[must_use]
    pub fn coarser(self) -> Self {
        let mut coarser =
            Resolution::DOCUMENTED.into_iter().filter(|other| *other > self.resolution);
        Self { resolution: coarser.next().unwrap_or(self.resolution), ..self }
    }

    /// The next finer resolution, as dense as this.
    #[must_use]
    pub fn finer(self) -> Self {
        let mut finer =
            Resolution::DOCUMENTED.into_iter().rev().filter(|other| *other < self.resolution);
        Self { resolution: finer.next().unwrap_or(self.resolution), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zooming_out_passes_through_every_resolution_and_back() {
        for is_line in [false, true] {
            let first = Zoom { resolution: Resolution::Raw, density: Density::Wide };
            let out: Vec<_> = std::iter::successors(Some(first), |zoom| {
                Some(zoom.out(is_line)).filter(|wider| wider != zoom)
            })
            .collect();
            assert_eq!(out.len(), if is_line { 16 } else { 12 });
            let last = *out.last().unwrap();
            let back: Vec<_> = std::iter::successors(Some(last), |zoom| {
                Some(zoom.closer(is_line)).filter(|closer| closer != zoom)
            })
            .collect();
            assert!(back.iter().rev().eq(&out), "{back:?}");
        }
    }

    #[test]
    fn resolutions_end_at_both_ends() {
        let start = Zoom::START;
        assert_eq!(start.finer(), start);
        let day = start.coarser().coarser().coarser();
        assert_eq!(day.resolution, Resolution::Day);
        assert_eq!((day.coarser(), day.finer().resolution), (day, Resolution::Hour));
    }
}
