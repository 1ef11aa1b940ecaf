//! How a dataset is drawn: as which kind of chart, and with what beside its values.

/// How a chart is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum ChartKind {
    #[default]
    Candles,
    /// As a line through the closes.
    Line,
    /// As candles, smoothed.
    Heikin,
}

/// What is drawn with a chart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Indicators {
    /// Means over 20 and 50, and the mean weighted by volume.
    #[default]
    Averages,
    /// Means over 12 and 26 in which what is newer counts more.
    Exponential,
    /// A mean over 20, and two deviations above and below.
    Bands,
    Off,
}

impl ChartKind {
    pub(crate) const fn next(self) -> Self {
        match self {
            Self::Candles => Self::Line,
            Self::Line => Self::Heikin,
            Self::Heikin => Self::Candles,
        }
    }
}

impl Indicators {
    pub(crate) const fn next(self) -> Self {
        match self {
            Self::Averages => Self::Exponential,
            Self::Exponential => Self::Bands,
            Self::Bands => Self::Off,
            Self::Off => Self::Averages,
        }
    }
}
