//! Cells as what a terminal is told: as few bytes as say the same.
//!
//! A chart that moves is thousands of cells a second, most of them in one of a few colors. So a
//! color is told when it changes and not with the other one, a blank needs no color of a letter, and
//! a short way to the next cell is written over instead of jumped. Where the colors of a row alternate,
//! all cells of one color are told before those of the next.

use ratatui::{
    buffer::{Buffer, Cell},
    style::{Color, Modifier},
};
use unicode_width::UnicodeWidthStr as _;

/// The longest way that is written over: a jump is six bytes.
const GAP_MAX: u16 = 4;

/// What of a cell's weight is seen where nothing is written.
const SEEN_ON_BLANK: Modifier = Modifier::UNDERLINED
    .union(Modifier::REVERSED)
    .union(Modifier::CROSSED_OUT)
    .union(Modifier::SLOW_BLINK)
    .union(Modifier::RAPID_BLINK);

/// What switches each weight on.
const ON: [(Modifier, u8); 9] = [
    (Modifier::BOLD, 1),
    (Modifier::DIM, 2),
    (Modifier::ITALIC, 3),
    (Modifier::UNDERLINED, 4),
    (Modifier::SLOW_BLINK, 5),
    (Modifier::RAPID_BLINK, 6),
    (Modifier::REVERSED, 7),
    (Modifier::HIDDEN, 8),
    (Modifier::CROSSED_OUT, 9),
];

/// What switches weights off; the first two share one.
const OFF: [(Modifier, u8); 7] = [
    (Modifier::BOLD.union(Modifier::DIM), 22),
    (Modifier::ITALIC, 23),
    (Modifier::UNDERLINED, 24),
    (Modifier::SLOW_BLINK.union(Modifier::RAPID_BLINK), 25),
    (Modifier::REVERSED, 27),
    (Modifier::HIDDEN, 28),
    (Modifier::CROSSED_OUT, 29),
];

/// Adds to `out` what turns a screen that shows `shown` into one that shows `next`, of the same
/// size; nothing where they are the same. Colors are the terminal's own before and after.
///
/// Cells are told from the top left on, or those of a color together, whichever is shorter: where
/// colors are of sixteen million, a jump takes fewer bytes than another color.
pub(super) fn write(out: &mut Vec<u8>, shown: &Buffer, next: &Buffer) {
    let cells: Vec<Told<'_>> = shown.diff_iter(next).collect();
    let from = out.len();
    draw(out, next, &cells);
    // What becomes of half a wide letter depends on the order in which its cells are written.
    let is_wide = |(x, y, cell): &Told<'_>| {
        cell.symbol().width() != 1 || shown.cell((*x, *y)).is_none_or(|it| it.symbol().width() != 1)
    };
    if cells.iter().any(is_wide) {
        return;
    }
    let mut other = Vec::new();
    draw(&mut other, next, &by_color(&cells));
    if other.len() < out.len() - from {
        out.truncate(from);
        out.extend_from_slice(&other);
    }
}

/// A cell to be told of, by its column and row.
type Told<'a> = (u16, u16, &'a Cell);

/// Tells of `cells` in their order.
fn draw(out: &mut Vec<u8>, next: &Buffer, cells: &[Told<'_>]) {
    let mut pen = Pen { out, next, look: Look::default(), at: None };
    for (x, y, cell) in cells {
        pen.go(*x, *y);
        pen.put(cell);
    }
    if pen.look != Look::default() {
        pen.out.extend_from_slice(b"\x1b[m");
    }
}

/// The cells with those that look the same together, and among them those before the same
/// background. A blank goes with the cell before it, as long as that has its background.
fn by_color<'a>(cells: &[Told<'a>]) -> Vec<Told<'a>> {
    let mut grounds: Vec<Color> = Vec::new();
    let mut looks: Vec<Look> = Vec::new();
    let mut before: Option<(u16, u16, Look)> = None;
    let mut keyed = Vec::with_capacity(cells.len());
    for told in cells {
        let (x, y, cell) = *told;
        let own = Look { fg: cell.fg, bg: cell.bg, weight: cell.modifier };
        let is_blank = cell.symbol() == " " && !cell.modifier.intersects(SEEN_ON_BLANK);
        let look = match before {
            Some((left, row, look))
                if is_blank
                    && (left.saturating_add(1), row) == (x, y)
                    && look.bg == cell.bg
                    && !look.weight.intersects(SEEN_ON_BLANK) =>
            {
                look
            }
            _ => own,
        };
        let key = match (before, keyed.last()) {
            // Most cells look like the one before.
            (Some((.., known)), Some((key, _))) if known == look => *key,
            _ => (place(&mut grounds, look.bg), place(&mut looks, look)),
        };
        before = Some((x, y, look));
        keyed.push((key, *told));
    }
    keyed.sort_by_key(|(key, _)| *key);
    keyed.into_iter().map(|(_, told)| told).collect()
}

/// The place of `one` in `all`, at the end of which it is put if it is new.
fn place<T: PartialEq>(all: &mut Vec<T>, one: T) -> usize {
    all.iter().position(|known| *known == one).unwrap_or_else(|| {
        all.push(one);
        all.len() - 1
    })
}

/// How a cell looks.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
struct Look {
    fg: Color,
    bg: Color,
    weight: Modifier,
}

struct Pen<'a> {
    out: &'a mut Vec<u8>,
    next: &'a Buffer,
    look: Look,
    /// Where it stands; none where only the terminal knows.
    at: Option<(u16, u16)>,
}

impl Pen<'_> {
    fn go(&mut self, x: u16, y: u16) {
        match self.at {
            Some(at) if at == (x, y) => {}
            Some((from, row)) if row == y && from < x => {
                if !self.write_over(from, x, y) {
                    self.tell(&[x.saturating_add(1)], b'G');
                }
            }
            _ => self.tell(&[y.saturating_add(1), x.saturating_add(1)], b'H'),
        }
        self.at = Some((x, y));
    }

    /// Writes what is there already from column `from` to before `end`, if that is short.
    fn write_over(&mut self, from: u16, end: u16, y: u16) -> bool {
        let cells = (from..end).filter_map(|x| self.next.cell((x, y)));
        let is_plain = |cell: &Cell| cell.symbol().len() == 1 && self.look_of(cell) == self.look;
        if end - from > GAP_MAX || !cells.clone().all(is_plain) {
            return false;
        }
        self.out.extend(cells.flat_map(|cell| cell.symbol().bytes()));
        true
    }

    fn put(&mut self, cell: &Cell) {
        self.take(self.look_of(cell));
        self.out.extend_from_slice(cell.symbol().as_bytes());
        // Behind the last column a terminal stands on it still, or not, and how far a wide letter
        // takes it is its own affair: only it knows where it is then.
        let right = self.next.area.right();
        let is_plain = cell.symbol().width() == 1;
        let next = self.at.map(|(x, y)| (x.saturating_add(1), y));
        self.at = next.filter(|(x, _)| is_plain && *x < right);
    }

    /// How a cell is to look: of a blank only what is seen matters.
    fn look_of(&self, cell: &Cell) -> Look {
        let look = Look { fg: cell.fg, bg: cell.bg, weight: cell.modifier };
        let is_blank = cell.symbol() == " " && !cell.modifier.intersects(SEEN_ON_BLANK);
        if is_blank && !self.look.weight.intersects(SEEN_ON_BLANK) {
            return Look { bg: cell.bg, ..self.look };
        }
        look
    }

    /// Makes what is written from now on look like `wanted`.
    fn take(&mut self, wanted: Look) {
        if wanted == self.look {
            return;
        }
        let mut numbers: Vec<u16> = Vec::new();
        let gone = self.look.weight.difference(wanted.weight);
        let mut had = self.look.weight;
        for (weights, number) in OFF {
            if gone.intersects(weights) {
                numbers.push(number.into());
                had.remove(weights);
            }
        }
        let new = wanted.weight.difference(had);
        numbers.extend(
            ON.iter().filter(|(weight, _)| new.contains(*weight)).map(|it| u16::from(it.1)),
        );
        if wanted.fg != self.look.fg {
            color(&mut numbers, wanted.fg, 0);
        }
        if wanted.bg != self.look.bg {
            color(&mut numbers, wanted.bg, 10);
        }
        self.tell(&numbers, b'm');
        self.look = wanted;
    }

    /// Tells the terminal to do what `letter` stands for.
    fn tell(&mut self, numbers: &[u16], letter: u8) {
        let numbers: Vec<_> = numbers.iter().map(u16::to_string).collect();
        self.out.extend_from_slice(b"\x1b[");
        self.out.extend_from_slice(numbers.join(";").as_bytes());
        self.out.push(letter);
    }
}

/// Adds the numbers of a color of letters; of a background with 10 more on the first.
fn color(numbers: &mut Vec<u16>, color: Color, more: u16) {
    let named = match color {
        Color::Reset => 39,
        Color::Black => 30,
        Color::Red => 31,
        Color::Green => 32,
        Color::Yellow => 33,
        Color::Blue => 34,
        Color::Magenta => 35,
        Color::Cyan => 36,
        Color::Gray => 37,
        Color::DarkGray => 90,
        Color::LightRed => 91,
        Color::LightGreen => 92,
        Color::LightYellow => 93,
        Color::LightBlue => 94,
        Color::LightMagenta => 95,
        Color::LightCyan => 96,
        Color::White => 97,
        Color::Indexed(idx) => return numbers.extend([38 + more, 5, idx.into()]),
        Color::Rgb(red, green, blue) => {
            return numbers.extend([38 + more, 2, red.into(), green.into(), blue.into()]);
        }
    };
    numbers.push(named + more);
}

#[cfg(test)]
mod tests;
