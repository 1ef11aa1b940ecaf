//! Something that goes on, in one cell.

use model::timestamp::Timestamp;

use crate::pacer::ANIMATION_EVERY;

/// Its pictures, in their order.
const PICTURES: [char; 8] = ['⣷', '⣯', '⣟', '⡿', '⢿', '⣻', '⣽', '⣾'];

/// The frame of the spinner at `now`.
pub(crate) fn picture(now: Timestamp) -> char {
    let step = i64::try_from(ANIMATION_EVERY.as_micros()).unwrap_or(1);
    let number = usize::try_from(now.micros().div_euclid(step).rem_euclid(8)).unwrap_or(0);
    PICTURES.get(number).copied().unwrap_or('·')
}
