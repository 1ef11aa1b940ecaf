//! Charts, strips, bars and panes: ratatui widgets that ratatui itself does not have.
//!
//! A widget is a value that is rendered into an area. It has no state and draws nothing outside its
//! area. It accepts any area, including empty areas, and any number, including NaN.

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
