//! Charts, strips, bars and panes: from plain values to the cells of a buffer.
//!
//! A widget is a value with a `draw(area, buf, theme)`. It holds nothing from one frame to the
//! next, draws nothing outside its area, and takes any area, from no cells at all, and any number,
//! also one that is none. It knows no screen: what is shown where is the views' part.

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
pub(crate) mod shot;
#[cfg(test)]
mod tests;
