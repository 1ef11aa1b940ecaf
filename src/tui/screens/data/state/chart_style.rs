//! How a dataset is drawn: as which kind of chart, and with what beside its values.

use strum::VariantArray;

/// How a chart is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, VariantArray)]
pub(crate) enum ChartKind {
    #[default]
    Candles,
    /// As a line through the closes.
    Line,
    /// As candles, smoothed.
    Heikin,
}

/// What is drawn with a chart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, VariantArray)]
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
