//! A ratatui [`Backend`] that encodes changed cells as short ANSI sequences.
//!
//! `CrosstermBackend` sends both colors where either changes, colors of letters for blanks, and an
//! absolute jump over every gap. Here only what differs is sent, blanks are erased in one sequence,
//! and a short gap is written over. Colors of sixteen million take more bytes than jumps, so all
//! cells of a color are sent together, on stretches erased before, where that is shorter than row by
//! row. The test
//! `a_key_takes_less_than_half_the_bytes_of_crossterm` holds what this saves on a key that moves a
//! selection: it is why this backend exists.

use std::io;

use ratatui::{
    backend::{Backend, ClearType, WindowSize},
    buffer::{Buffer, Cell},
    layout::{Position, Rect, Size},
    style::{Color, Modifier},
};
use unicode_width::UnicodeWidthStr as _;

/// Starts a frame, for terminals with synchronized output.
const FRAME_START: &[u8] = b"\x1b[?2026h";
/// Ends what [`FRAME_START`] starts.
pub(super) const FRAME_END: &[u8] = b"\x1b[?2026l";

/// Blanks the screen, in the terminal's own colors.
const BLANK: &[u8] = b"\x1b[m\x1b[2J";
/// Resets the look, which is not reset at the end of a frame.
pub(super) const RESET_LOOK: &[u8] = b"\x1b[m";

/// The modifiers that show on a cell without a symbol.
const VISIBLE_ON_BLANK: Modifier = Modifier::UNDERLINED
    .union(Modifier::REVERSED)
    .union(Modifier::CROSSED_OUT)
    .union(Modifier::SLOW_BLINK)
    .union(Modifier::RAPID_BLINK);

/// The number that switches modifiers off; some share one.
const OFF: [(Modifier, u8); 7] = [
    (Modifier::BOLD.union(Modifier::DIM), 22),
    (Modifier::ITALIC, 23),
    (Modifier::UNDERLINED, 24),
    (Modifier::SLOW_BLINK.union(Modifier::RAPID_BLINK), 25),
    (Modifier::REVERSED, 27),
    (Modifier::HIDDEN, 28),
    (Modifier::CROSSED_OUT, 29),
];

/// Writes each frame to `W` at once, on flush.
pub(super) struct AnsiBackend<W> {
    out: W,
    size: fn() -> Size,
    /// What is not flushed yet.
    frame: Vec<u8>,
    /// What the terminal shows once `frame` is written.
    shown: Buffer,
    /// The look it writes in then. It stays from frame to frame, most of which begin with a color of
    /// the last one.
    look: Look,
    /// Whether erased cells take the background. GNU screen alone leaves them in its own.
    erases_in_background: bool,
}

impl<W> AnsiBackend<W> {
    /// A backend of a terminal whose size is what `size` returns.
    pub(super) fn new(out: W, size: fn() -> Size) -> Self {
        let is_set = |name: &str| std::env::var_os(name).is_some();
        let is_screen = std::env::var("TERM").is_ok_and(|term| term.starts_with("screen"));
        Self {
            out,
            size,
            frame: Vec::new(),
            shown: Buffer::empty(Rect::from(size())),
            look: Look::default(),
            erases_in_background: !is_screen || is_set("TMUX"),
        }
    }

    /// What the terminal shows after the next flush.
    pub(super) const fn screen(&self) -> &Buffer {
        &self.shown
    }

    /// Keeps `cells` as shown.
    fn show(&mut self, cells: &[ChangedCell<'_>]) {
        for (x, y, cell) in cells {
            let width = u16::try_from(cell.symbol().width()).unwrap_or(1);
            // A wide symbol covers the cells behind it.
            for covered in (1..width).map(|n| x.saturating_add(n)) {
                if let Some(covered) = self.shown.cell_mut((covered, *y)) {
                    *covered = Cell::EMPTY;
                }
            }
            if let Some(shown) = self.shown.cell_mut((*x, *y)) {
                shown.clone_from(cell);
            }
        }
    }

    /// The bytes that show `cells` in this order, on what is erased of `stretches`, and the look after
    /// them.
    fn encode(&self, cells: &[ChangedCell<'_>], stretches: Vec<Stretch>) -> (Vec<u8>, Look) {
        let mut encoder = Encoder {
            out: Vec::new(),
            screen: &self.shown,
            look: self.look,
            cursor: None,
            erases: self.erases_in_background,
            stretches,
        };
        encoder.write_all(cells);
        encoder.erase(|_| true);
        (encoder.out, encoder.look)
    }
}

impl<W: io::Write> Backend for AnsiBackend<W> {
    type Error = io::Error;

    fn draw<'a, I>(&mut self, content: I) -> io::Result<()>
    where
        I: Iterator<Item = ChangedCell<'a>>,
    {
        let cells: Vec<ChangedCell<'_>> = content.collect();
        // What is left of half a wide symbol depends on the order in which its cells are written.
        let has_wide = cells.iter().any(|(x, y, cell)| {
            let shown = self.shown.cell((*x, *y));
            cell.symbol().width() != 1 || shown.is_none_or(|it| it.symbol().width() != 1)
        });
        self.show(&cells);
        let (mut bytes, mut look) = self.encode(&cells, Vec::new());
        if !has_wide {
            let (written, stretches) = if self.erases_in_background {
                take_stretches(&cells)
            } else {
                (cells, Vec::new())
            };
            let (other, other_look) = self.encode(&by_look(&written, self.look), stretches);
            if other.len() < bytes.len() {
                (bytes, look) = (other, other_look);
            }
        }
        self.frame.append(&mut bytes);
        self.look = look;
        Ok(())
    }

    /// Does nothing: the cursor is hidden as long as the screen is open.
    fn hide_cursor(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn show_cursor(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn get_cursor_position(&mut self) -> io::Result<Position> {
        Ok(Position::ORIGIN)
    }

    /// Does nothing: nobody sees where the hidden cursor is, and each frame begins with a jump.
    fn set_cursor_position<P: Into<Position>>(&mut self, _position: P) -> io::Result<()> {
        Ok(())
    }

    fn clear(&mut self) -> io::Result<()> {
        self.frame = BLANK.to_vec();
        self.shown = Buffer::empty(Rect::from((self.size)()));
        self.look = Look::default();
        Ok(())
    }

    /// Clears the whole screen: ratatui clears parts of it for inline viewports alone.
    fn clear_region(&mut self, _region: ClearType) -> io::Result<()> {
        self.clear()
    }

    fn size(&self) -> io::Result<Size> {
        Ok((self.size)())
    }

    fn window_size(&mut self) -> io::Result<WindowSize> {
        Ok(WindowSize { columns_rows: (self.size)(), pixels: Size::ZERO })
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.frame.is_empty() {
            return Ok(());
        }
        let frame = [FRAME_START, &self.frame, FRAME_END].concat();
        self.frame.clear();
        self.out.write_all(&frame)?;
        self.out.flush()
    }
}

/// A cell that differs from what is shown, by its column and row.
type ChangedCell<'a> = (u16, u16, &'a Cell);

/// Whether `cell` shows nothing but its background.
fn is_blank(cell: &Cell) -> bool {
    cell.symbol() == " " && !cell.modifier.intersects(VISIBLE_ON_BLANK)
}

/// Changed cells of one background beside one another, erased before the symbols on them are written.
#[derive(Clone, Copy)]
struct Stretch {
    x: u16,
    y: u16,
    length: u16,
    bg: Color,
}

/// The stretches of `cells` that are better erased first, and the cells that are still to be written.
fn take_stretches<'a>(cells: &[ChangedCell<'a>]) -> (Vec<ChangedCell<'a>>, Vec<Stretch>) {
    /// What a jump and an erasure take.
    const ERASURE_BYTES: usize = 12;
    let (mut written, mut stretches) = (Vec::new(), Vec::new());
    for beside in cells.chunk_by(|(left, row, one), (x, y, other)| {
        (left.saturating_add(1), *row, one.bg) == (*x, *y, other.bg)
    }) {
        let symbols = || beside.iter().filter(|(_, _, cell)| !is_blank(cell));
        let n_blanks = beside.len() - symbols().count();
        match beside.first() {
            Some((x, y, cell)) if n_blanks > ERASURE_BYTES => {
                let length = u16::try_from(beside.len()).unwrap_or(u16::MAX);
                stretches.push(Stretch { x: *x, y: *y, length, bg: cell.bg });
                written.extend(symbols());
            }
            _ => written.extend(beside),
        }
    }
    (written, stretches)
}

/// The cells of each look together: from `look` on, each look before the one that takes the fewest
/// bytes to change to. A blank goes with the cell before it if that has its background.
fn by_look<'a>(cells: &[ChangedCell<'a>], mut look: Look) -> Vec<ChangedCell<'a>> {
    let mut groups: Vec<(Look, Vec<ChangedCell<'a>>)> = Vec::new();
    // The place of the cell before, and the number of its group.
    let mut before: Option<(u16, u16, usize)> = None;
    for changed in cells {
        let (x, y, cell) = *changed;
        let own = Look::from_cell(cell);
        let of_before = before.and_then(|(left, row, idx)| {
            let (known, _) = groups.get(idx)?;
            let is_beside = (left.saturating_add(1), row) == (x, y);
            let shows_blank = known.bg == cell.bg && !known.modifier.intersects(VISIBLE_ON_BLANK);
            Some((idx, *known, is_beside && is_blank(cell) && shows_blank))
        });
        let idx = match of_before {
            Some((idx, known, joins)) if joins || known == own => idx,
            _ => groups.iter().position(|(known, _)| *known == own).unwrap_or(groups.len()),
        };
        match groups.get_mut(idx) {
            Some((_, cells)) => cells.push(*changed),
            None => groups.push((own, vec![*changed])),
        }
        before = Some((x, y, idx));
    }
    let mut ordered = Vec::with_capacity(cells.len());
    while let Some((idx, _)) =
        groups.iter().enumerate().min_by_key(|(_, (next, _))| look.distance(*next))
    {
        let (next, cells) = groups.remove(idx);
        ordered.extend(cells);
        look = next;
    }
    ordered
}

/// How a cell looks, but for its symbol.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
struct Look {
    fg: Color,
    bg: Color,
    modifier: Modifier,
}

impl Look {
    const fn from_cell(cell: &Cell) -> Self {
        Self { fg: cell.fg, bg: cell.bg, modifier: cell.modifier }
    }

    /// About how many bytes it takes to change to `next`.
    fn distance(self, next: Self) -> usize {
        let color = |from: Color, to: Color| match to {
            _ if from == to => 0,
            Color::Rgb(..) => 17,
            Color::Indexed(_) => 9,
            _ => 3,
        };
        let modifier = if self.modifier == next.modifier { 0 } else { 3 };
        color(self.fg, next.fg) + color(self.bg, next.bg) + modifier
    }
}

struct Encoder<'a> {
    out: Vec<u8>,
    /// What is to be shown.
    screen: &'a Buffer,
    look: Look,
    /// Where the terminal writes next; `None` where only the terminal knows.
    cursor: Option<(u16, u16)>,
    erases: bool,
    /// What is still to be erased before anything is written on its background.
    stretches: Vec<Stretch>,
}

impl Encoder<'_> {
    fn write_all(&mut self, cells: &[ChangedCell<'_>]) {
        let mut rest = cells;
        while let [(x, y, cell), after @ ..] = rest {
            if self.stretches.iter().any(|it| it.bg == cell.bg) {
                self.change_look(self.look_of(cell));
                self.erase(|bg| bg == cell.bg);
            }
            let n_blanks = if self.erases && is_blank(cell) { n_erasable(rest) } else { 0 };
            self.move_to(*x, *y);
            self.change_look(self.look_of(cell));
            if n_blanks > 0 {
                self.sequence(&[n_blanks], b'X');
                rest = rest.get(usize::from(n_blanks)..).unwrap_or_default();
            } else {
                self.write(cell);
                rest = after;
            }
        }
    }

    /// Erases the stretches of the backgrounds that `is_due`.
    fn erase(&mut self, is_due: impl Fn(Color) -> bool) {
        let due: Vec<Stretch> = self.stretches.extract_if(.., |it| is_due(it.bg)).collect();
        for Stretch { x, y, length, bg } in due {
            self.move_to(x, y);
            let modifier = self.look.modifier.difference(VISIBLE_ON_BLANK);
            self.change_look(Look { bg, modifier, ..self.look });
            self.sequence(&[length], b'X');
        }
    }

    fn move_to(&mut self, x: u16, y: u16) {
        match self.cursor {
            Some(at) if at == (x, y) => {}
            Some((from, row)) if row == y && from < x => {
                let to_column = sequence_len(x.saturating_add(1));
                let jump = sequence_len(x - from).min(to_column);
                if self.write_gap(from, x, y, jump) {
                } else if jump < to_column {
                    self.sequence(&[x - from], b'C');
                } else {
                    self.sequence(&[x.saturating_add(1)], b'G');
                }
            }
            _ => self.sequence(&[y.saturating_add(1), x.saturating_add(1)], b'H'),
        }
        self.cursor = Some((x, y));
    }

    /// Writes what is there already from column `from` to before `end`, if that needs no other look
    /// and at most `bytes_max`.
    fn write_gap(&mut self, from: u16, end: u16, y: u16, bytes_max: usize) -> bool {
        if usize::from(end - from) > bytes_max {
            return false;
        }
        let screen = self.screen;
        let cells = || (from..end).filter_map(|x| screen.cell((x, y)));
        let is_same = |cell: &Cell| cell.symbol().width() == 1 && self.look_of(cell) == self.look;
        let n_bytes: usize = cells().map(|cell| cell.symbol().len()).sum();
        if n_bytes > bytes_max || !cells().all(is_same) {
            return false;
        }
        for cell in cells() {
            self.out.extend_from_slice(cell.symbol().as_bytes());
        }
        true
    }

    fn write(&mut self, cell: &Cell) {
        self.out.extend_from_slice(cell.symbol().as_bytes());
        // Behind the last column some terminals stay on it, and terminals differ in how far a wide
        // symbol takes them.
        let right = self.screen.area.right();
        let is_narrow = cell.symbol().width() == 1;
        let next = self.cursor.map(|(x, y)| (x.saturating_add(1), y));
        self.cursor = next.filter(|(x, _)| is_narrow && *x < right);
    }

    /// The look to write `cell` in: of a blank only the background matters.
    fn look_of(&self, cell: &Cell) -> Look {
        if is_blank(cell) && !self.look.modifier.intersects(VISIBLE_ON_BLANK) {
            return Look { bg: cell.bg, ..self.look };
        }
        Look::from_cell(cell)
    }

    fn change_look(&mut self, next: Look) {
        if next == self.look {
            return;
        }
        if next == Look::default() {
            self.out.extend_from_slice(b"\x1b[m");
            self.look = next;
            return;
        }
        let mut numbers: Vec<u16> = Vec::new();
        let gone = self.look.modifier.difference(next.modifier);
        let mut left = self.look.modifier;
        for (modifiers, number) in OFF {
            if gone.intersects(modifiers) {
                numbers.push(number.into());
                left.remove(modifiers);
            }
        }
        let new = next.modifier.difference(left);
        numbers.extend(numbers_on(new));
        if next.fg != self.look.fg {
            push_color(&mut numbers, next.fg, 0);
        }
        if next.bg != self.look.bg {
            push_color(&mut numbers, next.bg, 10);
        }
        self.sequence(&numbers, b'm');
        self.look = next;
    }

    /// Adds the control sequence of `numbers` that ends in `letter`. A single 1 is left out: it is
    /// what all these sequences mean without a number.
    fn sequence(&mut self, numbers: &[u16], letter: u8) {
        self.out.extend_from_slice(b"\x1b[");
        if numbers != [1] || letter == b'm' {
            for (idx, number) in numbers.iter().enumerate() {
                if idx > 0 {
                    self.out.push(b';');
                }
                self.out.extend_from_slice(number.to_string().as_bytes());
            }
        }
        self.out.push(letter);
    }
}

/// How many of the first cells are better erased than written; 0 if writing is shorter.
fn n_erasable(cells: &[ChangedCell<'_>]) -> u16 {
    let Some((x, y, first)) = cells.first() else { return 0 };
    let is_in_run = |(column, (at, row, cell)): &(u16, &ChangedCell<'_>)| {
        (*column, y) == (*at, row) && is_blank(cell) && cell.bg == first.bg
    };
    let n = (*x..).zip(cells).take_while(is_in_run).count();
    let n = u16::try_from(n).unwrap_or(u16::MAX);
    let next = cells.get(usize::from(n));
    // Erasing leaves the cursor where it is, before cells that may have to be written next.
    let is_followed = next.is_some_and(|(at, row, _)| (*at, *row) == (x.saturating_add(n), *y));
    let n_sequences = 1 + usize::from(is_followed);
    if usize::from(n) > sequence_len(n) * n_sequences { n } else { 0 }
}

/// The bytes of a control sequence of one number.
const fn sequence_len(number: u16) -> usize {
    match number {
        1 => 3,
        0..10 => 4,
        10..100 => 5,
        100..1_000 => 6,
        _ => 8,
    }
}

/// The numbers that switch `modifiers` on: ratatui's flags are the bits of these, from one on.
fn numbers_on(modifiers: Modifier) -> impl Iterator<Item = u16> {
    (1..=9).filter(move |number| modifiers.bits() >> (number - 1) & 1 == 1)
}

/// Adds the numbers of a color of symbols; of a background with 10 as `offset`.
fn push_color(numbers: &mut Vec<u16>, color: Color, offset: u16) {
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
        Color::Indexed(idx) => return numbers.extend([38 + offset, 5, idx.into()]),
        Color::Rgb(red, green, blue) => {
            return numbers.extend([38 + offset, 2, red.into(), green.into(), blue.into()]);
        }
    };
    numbers.push(named + offset);
}

#[cfg(test)]
mod tests;
