//! Charts, strips, bars and panes, as ratatui widgets where ratatui has none.
//!
//! A widget is a value that is rendered into an area. It keeps nothing between frames, draws nothing
//! outside its area, and takes any area, also an empty one, and any number, also NaN. It knows no
//! screen: the views decide what is shown where.

pub(crate) mod axis;
pub(crate) mod bars;
pub(crate) mod braille;
pub(crate) mod candles;
pub(crate) mod format;
pub(crate) mod line;
pub(crate) mod paint;
pub(crate) mod pane;
pub(crate) mod plot;
pub(crate) mod stats;
pub(crate) mod strip;
pub mod symbols;

#[cfg(test)]
mod tests;
