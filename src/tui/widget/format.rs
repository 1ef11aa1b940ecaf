//! Formats numbers, ages, names and timestamps as short texts. Their width changes as little as
//! possible.
//!
//! A missing value and NaN are `—`. Thousands are separated by a plain space, which can be copied
//! to any program.

use std::borrow::Cow;
use std::time::Duration;

use model::escape::escape_line;
use model::timestamp::Timestamp;
use unicode_width::UnicodeWidthStr;

use crate::time_zone::{utc, utc_mark, zoned};

/// Text of a missing value.
pub(crate) const NONE: &str = "—";

/// Maximum number of decimals.
pub(crate) const DECIMALS_MAX: usize = 10;

/// Special number of decimals with which a value is written as a power of ten. It is used for
/// numbers below [`TINY`].
pub(crate) const POWERS: usize = usize::MAX;

/// Numbers below this have no digit other than zero among their first six decimals.
const TINY: f64 = 1e-6;

/// Maximum number of characters of a cut text for each of its columns: a letter and a few accents.
const MARKS_MAX: usize = 8;

/// Numbers from here on are written as powers of ten, since a float has only 15 significant
/// digits.
const POWER_FROM: f64 = 1e15;

/// Formats `value` with separated thousands: `67 431.22`.
pub(crate) fn grouped(value: f64, decimals: usize) -> String {
    let mut text = fixed(value, decimals);
    let start = usize::from(text.starts_with('-'));
    let end = text.find('.').unwrap_or(text.len());
    group_digits(&mut text, start, end);
    text
}

/// Formats `value` with a fixed number of decimals: `67431.22`. Infinity is `∞`.
pub(crate) fn fixed(value: f64, decimals: usize) -> String {
    if value.is_nan() {
        NONE.to_owned()
    } else if value.is_infinite() {
        if value > 0.0 { "∞" } else { "-∞" }.to_owned()
    } else if value.abs() >= POWER_FROM {
        format!("{value:.3e}")
    } else if decimals == POWERS {
        if value == 0.0 { "0".to_owned() } else { format!("{value:.2e}") }
    } else {
        let text = format!("{value:.*}", decimals.min(DECIMALS_MAX));
        // A negative number that is rounded to zero has no sign.
        let is_zero = text.bytes().all(|byte| matches!(byte, b'-' | b'0' | b'.'));
        if is_zero { text.trim_start_matches('-').to_owned() } else { text }
    }
}

/// Like [`grouped`]. Positive numbers have a sign, too: `+281.40`.
pub(crate) fn signed(value: f64, decimals: usize) -> String {
    let text = grouped(value, decimals);
    let is_above = value > 0.0 && text.bytes().any(|byte| matches!(byte, b'1'..=b'9'));
    if is_above || value == f64::INFINITY { format!("+{text}") } else { text }
}

/// Formats a change in percent: `+0.51`, `-0.0004`. The text has two decimals, or more if a smaller
/// change would be shown as zero.
pub(crate) fn percent(value: f64) -> String {
    plain(value, 2, signed)
}

/// Formats `value` by `write`, such as [`fixed`] or [`signed`]. If a value would be shown as zero, it
/// gets up to six decimals: `0.005`. Percentages are written so, not as powers of ten.
pub(crate) fn plain(value: f64, decimals: usize, write: impl Fn(f64, usize) -> String) -> String {
    let is_shown = |places: &usize| write(value, *places).contains(|it| ('1'..='9').contains(&it));
    let places = (decimals..=6).find(is_shown);
    write(value, places.unwrap_or(decimals))
}

/// Returns the number of decimals with which `value` has about seven digits: 2 for 67 431, 4 for
/// 1.08. Returns [`POWERS`] for tiny values such as 6.9e-9.
pub(crate) fn decimals_of(value: f64) -> usize {
    match value.abs() {
        size if !size.is_finite() || size >= 1_000.0 => 2,
        size if size >= 10.0 => 3,
        size if size >= 0.1 || size == 0.0 => 4,
        size if size >= 0.001 => 6,
        size if size >= TINY => DECIMALS_MAX,
        _ => POWERS,
    }
}

/// Returns the number of decimals for a column of values: as many as the values were written with,
/// but not more than [`decimals_of`] returns for the largest value. Returns more if the lowest and
/// the highest value would otherwise look equal.
pub(crate) fn decimals_for(values: impl IntoIterator<Item = f64>) -> usize {
    let (mut lowest, mut highest) = (f64::INFINITY, f64::NEG_INFINITY);
    let (mut size, mut decimals) = (0.0_f64, 0);
    for value in values.into_iter().filter(|value| value.is_finite()) {
        (lowest, highest) = (lowest.min(value), highest.max(value));
        size = size.max(value.abs());
        decimals = decimals.max(places(value));
    }
    if decimals_of(size) == POWERS {
        return POWERS;
    }
    let decimals = decimals.min(decimals_of(size));
    if highest > lowest && fixed(lowest, decimals) == fixed(highest, decimals) {
        // With these decimals, the difference has two digits.
        let places = super::paint::cells(1.0 - (highest - lowest).log10().floor(), u16::MAX);
        return usize::from(places).clamp(decimals, DECIMALS_MAX);
    }
    decimals
}

/// Returns the number of decimals with which `value` was probably written.
fn places(value: f64) -> usize {
    let is_exact = |decimals: &u8| {
        let scaled = value * 10_f64.powi(i32::from(*decimals));
        (scaled - scaled.round()).abs() <= scaled.abs() * 1e-9
    };
    (0..8).find(is_exact).unwrap_or(8).into()
}

/// Formats `value` by `write`, such as [`grouped`] or [`signed`]. If a value that is not zero
/// would be shown as zero, it is written as a power of ten: `-6.0e-8`.
pub(crate) fn telling(value: f64, decimals: usize, write: impl Fn(f64, usize) -> String) -> String {
    let text = write(value, decimals);
    let is_zero = !text.bytes().any(|byte| matches!(byte, b'1'..=b'9')) && value.is_finite();
    if is_zero && value != 0.0 {
        let sign = if write(1.0, 0).starts_with('+') && value > 0.0 { "+" } else { "" };
        return format!("{sign}{value:.1e}");
    }
    text
}

/// Formats `value` with four digits and, if it is large, a prefix of its unit: `412.8`, `31.07`,
/// `4.812M`, `6.9e-9`.
pub(crate) fn compact(value: f64) -> String {
    /// Unit prefixes, largest first.
    const LETTERS: [(f64, &str); 4] = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e4, "k")];
    /// Three decimals show fewer than two digits of a number below this.
    const COMPACT_MIN: f64 = 0.01;
    let size = value.abs();
    if !size.is_finite() || size >= POWER_FROM {
        return fixed(value, 0);
    }
    if size > 0.0 && size < COMPACT_MIN {
        return format!("{value:.1e}");
    }
    let (unit, letter) = LETTERS.into_iter().find(|(unit, _)| size >= *unit).unwrap_or((1.0, ""));
    let unit = if letter == "k" { 1e3 } else { unit };
    let scaled = value / unit;
    let decimals = match scaled.abs() {
        size if size >= 1_000.0 || size == 0.0 => 0,
        size if size >= 100.0 => 1,
        size if size >= 10.0 => 2,
        _ => 3,
    };
    format!("{}{letter}", grouped(scaled, decimals))
}

/// Formats `value` in at most `width` columns: with all digits if they fit, otherwise with four
/// digits.
pub(crate) fn short(value: f64, decimals: usize, width: usize) -> String {
    short_by(value, decimals, width, grouped)
}

/// Like [`short`]. `write` formats the value with all digits.
pub(crate) fn short_by(
    value: f64,
    decimals: usize,
    width: usize,
    write: impl Fn(f64, usize) -> String,
) -> String {
    let full = telling(value, decimals, write);
    if full.chars().count() <= width { full } else { compact(value) }
}

/// Like [`short`]. All digits are shown only if they fit for all numbers of `column`.
pub(crate) fn short_in(value: f64, column: &[f64], decimals: usize, width: usize) -> String {
    let ends = |pick: fn(f64, f64) -> f64| column.iter().copied().reduce(pick);
    let is_long = |end: f64| telling(end, decimals, grouped).chars().count() > width;
    if [ends(f64::min), ends(f64::max)].into_iter().flatten().any(is_long) {
        return compact(value);
    }
    short(value, decimals, width)
}

/// Formats a value by `write`. `None` is [`NONE`].
pub(crate) fn or_none(value: Option<f64>, write: impl FnOnce(f64) -> String) -> String {
    value.map_or_else(|| NONE.to_owned(), write)
}

/// Formats a count: `4 812 377`.
pub(crate) fn count(number: u64) -> String {
    let mut text = number.to_string();
    let end = text.len();
    group_digits(&mut text, 0, end);
    text
}

/// Formats an integer: `-4 812 377`.
pub(crate) fn integer(number: i64) -> String {
    let sign = if number < 0 { "-" } else { "" };
    format!("{sign}{}", count(number.unsigned_abs()))
}

/// Separates the thousands of the digits in `text` between the byte offsets `start` and `end`.
fn group_digits(text: &mut String, start: usize, end: usize) {
    if !text.bytes().take(end).skip(start).all(|byte| byte.is_ascii_digit()) {
        return;
    }
    let mut at = end;
    while at > start + 3 {
        at -= 3;
        text.insert(at, ' ');
    }
}

/// Formats a count with a noun in singular or plural: `1 epoch`, `4 812 epochs`.
pub(crate) fn counted(number: impl TryInto<u64>, one: &str) -> String {
    let number = number.try_into().unwrap_or(u64::MAX);
    let ending = if number == 1 { "" } else { "s" };
    format!("{} {one}{ending}", count(number))
}

/// Formats a size in bytes: `38 MiB`, `3.2 KiB`, `512 B`.
pub(crate) fn bytes(size: u64) -> String {
    /// Units that a `u64` can contain, smallest first. Each unit is 1024 times the previous unit.
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if size < 1024 {
        return format!("{size} B");
    }
    #[expect(clippy::cast_precision_loss, reason = "two digits are shown")]
    let mut scaled = size as f64 / 1024.0;
    let mut unit = 0;
    while scaled >= 1023.95 && unit + 1 < UNITS.len() {
        scaled /= 1024.0;
        unit += 1;
    }
    let decimals = usize::from(scaled < 9.95);
    format!("{scaled:.decimals$} {}", UNITS.get(unit).copied().unwrap_or_default())
}

/// Returns the unit in which [`coarse`] formats `length`: its seconds and its letter.
const fn coarse_unit(length: Duration) -> (u64, char) {
    match length.as_secs() {
        0..60 => (1, 's'),
        60..3_600 => (60, 'm'),
        3_600..172_800 => (3_600, 'h'),
        _ => (86_400, 'd'),
    }
}

/// Formats a duration in a single unit, rounded down: `0s`, `41s`, `6m`, `3h`, `5d`.
pub(crate) fn coarse(length: Duration) -> String {
    let (seconds, letter) = coarse_unit(length);
    format!("{}{letter}", length.as_secs() / seconds)
}

/// Like [`coarse`], with a space before the unit: `0 s`, `41 s`, `6 m`.
pub(crate) fn coarse_spaced(length: Duration) -> String {
    let (seconds, letter) = coarse_unit(length);
    format!("{} {letter}", length.as_secs() / seconds)
}

/// Returns the time after which [`coarse`] formats a growing age differently.
pub(crate) fn coarse_changes_in(age: Duration) -> Duration {
    let unit_ms = u128::from(coarse_unit(age).0) * 1_000;
    let left_ms = unit_ms - age.as_millis() % unit_ms;
    Duration::from_millis(u64::try_from(left_ms).unwrap_or(u64::MAX))
}

/// Formats an age in a single unit: `now`, `2s`, `6m`.
pub(crate) fn age(age: Duration) -> String {
    if age.as_secs() == 0 { "now".to_owned() } else { coarse(age) }
}

/// Formats an age for use in a sentence: `now`, `2s ago`.
pub(crate) fn ago(since: Duration) -> String {
    if since.as_secs() == 0 { "now".to_owned() } else { format!("{} ago", age(since)) }
}

/// Formats the remaining time of a countdown: `90s`, `6m`. The unit is seconds up to two minutes.
pub(crate) fn until(left: Duration) -> String {
    match left.as_secs() {
        seconds @ 0..=120 => format!("{seconds}s"),
        _ => coarse(left),
    }
}

/// Formats an elapsed time: `412 ms`, `1.8 s`, `12 m 05 s`, `3 h 20 m`.
pub(crate) fn elapsed(took: Duration) -> String {
    let seconds = took.as_secs();
    match seconds {
        0 => format!("{} ms", took.as_millis()),
        1..60 => format!("{:.1} s", took.as_secs_f64().min(59.9)),
        60..3_600 => format!("{} m {:02} s", seconds / 60, seconds % 60),
        _ => format!("{} h {:02} m", seconds / 3_600, seconds / 60 % 60),
    }
}

/// Formats a duration in one or two units: `31 s`, `12 m 05 s`, `3 h 45 m`, `5 d 3 h`.
pub(crate) fn span(length: Duration) -> String {
    match length.as_secs() {
        seconds @ 0..60 => format!("{seconds} s"),
        60..172_800 => elapsed(length),
        seconds => format!("{} d {} h", seconds / 86_400, seconds / 3_600 % 24),
    }
}

/// Returns the first `head` and the last `tail` characters of `text`, with `…` between them.
/// Returns the whole text if it is not longer.
pub(crate) fn shorten(text: &str, head: usize, tail: usize) -> Cow<'_, str> {
    let n_chars = text.chars().count();
    if n_chars <= head.saturating_add(tail).saturating_add(1) {
        return Cow::Borrowed(text);
    }
    let start = text.chars().take(head);
    let end = text.chars().skip(n_chars.saturating_sub(tail));
    Cow::Owned(start.chain(['…']).chain(end).collect())
}

/// Shortens a peer id to 19 columns: `12D3KooWRvAp…9GerdS`.
pub(crate) fn short_peer(peer: &str) -> Cow<'_, str> {
    shorten(peer, 12, 6)
}

/// Shortens a content id to 11 columns: `bafybe…q4mu`.
pub(crate) fn short_cid(cid: &str) -> Cow<'_, str> {
    shorten(cid, 6, 4)
}

/// Shortens an actor's address to 12 columns: `allo1v2…9n8y`.
pub(crate) fn short_address(address: &str) -> Cow<'_, str> {
    shorten(address, 7, 4)
}

/// Returns `text` with control characters escaped. If it is wider than `width` columns, it is cut
/// and ends with `…`.
pub(crate) fn fit(text: &str, width: usize) -> Cow<'_, str> {
    // Accents have no width, so a text can be very long and still fit. The text is first cut by its
    // number of characters.
    let n_max = width.saturating_mul(MARKS_MAX);
    let (start, is_cut) = match text.char_indices().nth(n_max) {
        Some((end, _)) => (text.get(..end).unwrap_or_default(), true),
        None => (text, false),
    };
    let escaped = escape_line(start);
    if !is_cut && escaped.width() <= width {
        return escaped;
    }
    let mut kept = escaped.into_owned();
    while kept.width() >= width && kept.pop().is_some() {}
    if width > 0 {
        kept.push('…');
    }
    Cow::Owned(kept)
}

/// Like [`fit`]. The text is padded with spaces on the right to `width` columns.
pub(crate) fn left(text: &str, width: usize) -> String {
    let text = fit(text, width);
    let room = width.saturating_sub(text.width());
    format!("{text}{:room$}", "")
}

/// Like [`fit`]. The text is padded with spaces on the left to `width` columns.
pub(crate) fn right(text: &str, width: usize) -> String {
    let text = fit(text, width);
    let room = width.saturating_sub(text.width());
    format!("{:room$}{text}", "")
}

/// Formats `time` in the screen's time zone by a pattern of `strftime`.
pub(crate) fn strftime(time: Timestamp, pattern: &str) -> String {
    zoned(time).strftime(pattern).to_string()
}

/// Returns the abbreviation of the screen's time zone at `time`, such as `UTC` or `CEST`.
pub(crate) fn zone(time: Timestamp) -> String {
    strftime(time, "%Z")
}

/// Formats the time of day: `14:02:31`.
pub(crate) fn clock(time: Timestamp) -> String {
    strftime(time, "%T")
}

/// Formats the time of day without seconds: `14:02`.
pub(crate) fn hour_minute(time: Timestamp) -> String {
    strftime(time, "%H:%M")
}

/// Formats the time of day. A date precedes it if it is not on the day of `now`: `14:02:31`,
/// `2025-11-03 14:02:31`.
pub(crate) fn clock_as_of(time: Timestamp, now: Timestamp) -> String {
    if is_same_day(time, now) { clock(time) } else { format!("{} {}", date(time), clock(time)) }
}

/// Returns true if both times are on the same day in the screen's time zone.
pub(crate) fn is_same_day(one: Timestamp, other: Timestamp) -> bool {
    zoned(one).date() == zoned(other).date()
}

/// Formats the date of a daily bucket, which starts at midnight UTC: `2026-07-30`. In another time
/// zone, `UTC` follows.
pub(crate) fn bucket_date(start: Timestamp) -> String {
    format!("{}{}", utc(start).strftime("%F"), utc_mark(start))
}

/// Formats the date: `2026-07-30`.
pub(crate) fn date(time: Timestamp) -> String {
    strftime(time, "%F")
}

#[cfg(test)]
mod tests;
