//! Charts, strips, bars and panes, as ratatui widgets where ratatui has none.
//!
//! A widget is a value that is rendered into an area. It has no state, draws nothing outside its
//! area, and accepts any area, including empty ones, and any number, including NaN.

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
