//! Charts, strips, bars and panes, as ratatui widgets where ratatui has none.
//!
//! A widget is a value that is rendered into an area. It keeps nothing between frames, draws nothing
//! outside its area, and takes any area, also an empty one, and any number, also NaN. It knows no
//! screen: the views decide what is shown where.

pub mod axis;
pub mod braille;
pub mod candles;
pub mod diverge;
pub mod format;
pub mod line;
pub mod note;
pub mod paint;
pub mod pane;
pub mod plot;
pub mod share;
pub mod sparkline;
pub mod stats;
pub mod strip;
pub mod symbols;

#[cfg(test)]
mod tests;
