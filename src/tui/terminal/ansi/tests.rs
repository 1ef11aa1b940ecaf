use proptest::{collection::vec, prelude::*};
use ratatui::{backend::CrosstermBackend, style::Style};

use super::*;
use crate::{harness::Harness, theme};

/// The number that switches each modifier on.
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

/// The most bytes of a key that selects another node at 200×60: two rows in another background,
/// and what is known of the node.
const KEY_BYTES_MAX: usize = 570;

const AREA: Rect = Rect::new(0, 0, 12, 4);

/// A backend that shows `shown`.
fn backend(shown: &Buffer) -> AnsiBackend<Vec<u8>> {
    let mut backend = AnsiBackend::new(Vec::new(), || AREA.as_size());
    backend.shown = shown.clone();
    backend.erases_in_background = true;
    backend
}

fn encoded(shown: &Buffer, next: &Buffer) -> Vec<u8> {
    let mut backend = backend(shown);
    backend.draw(shown.diff_iter(next)).unwrap();
    assert!(backend.shown.diff_iter(next).next().is_none(), "the backend keeps what it sent");
    backend.frame
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap().replace('\x1b', "~")
}

#[track_caller]
fn check(before: &str, after: &str, want: &str) {
    let (mut shown, mut next) = (Buffer::empty(AREA), Buffer::empty(AREA));
    for (buf, text) in [(&mut shown, before), (&mut next, after)] {
        buf.set_style(AREA, Style::new().bg(Color::Blue));
        buf.set_string(0, 0, text, Style::new().fg(Color::Red));
    }
    assert_eq!(text(encoded(&shown, &next)), want, "{before} to {after}");
}

#[test]
fn unchanged_cells_are_not_sent() {
    check("abc", "abc", "");
    check("abc", "abd", "~[1;3H~[31;44md");
}

#[test]
fn a_short_gap_is_written_over_and_a_long_one_jumped() {
    check("a c", "b d", "~[1;1H~[31;44mb d");
    check("a.......c", "b.......d", "~[1;1H~[31;44mb~[9Gd");
}

#[test]
fn a_blank_is_sent_without_a_color_of_letters() {
    check("abcd", "    ", "~[1;1H~[44m    ");
}

#[test]
fn a_run_of_blanks_is_erased() {
    check("abcdefghijkl", "", "~[1;1H~[44m~[12X");
    check("abcdefghijkl", "abc        l", "~[1;4H~[44m~[8X");
    check("abcdefghijkl", "abc        x", "~[1;4H~[44m        ~[31mx");
}

#[test]
fn a_key_takes_less_than_half_the_bytes_of_crossterm() {
    let mut screen = Harness::ready(200, 60);
    let mut shown = screen.drawn(theme::Name::Dark);
    let mut backend = backend(&shown);
    for key in ["j", "k", "j", "j", "k"] {
        screen.press(key);
        let next = screen.drawn(theme::Name::Dark);
        let mut crossterm = Vec::new();
        CrosstermBackend::new(&mut crossterm).draw(shown.diff_iter(&next)).unwrap();
        backend.draw(shown.diff_iter(&next)).unwrap();
        let bytes = std::mem::take(&mut backend.frame);
        let (n_bytes, n_crossterm) = (bytes.len(), crossterm.len());
        assert!(n_bytes * 2 < n_crossterm, "{n_bytes} bytes, {n_crossterm} of crossterm");
        assert!(n_bytes <= KEY_BYTES_MAX, "{n_bytes} bytes for {key}: {}", text(bytes));
        shown = next;
    }
}

#[test]
fn the_cursor_is_unknown_behind_the_last_column() {
    check("", "0123456789ab", "~[1;1H~[31;44m0123456789ab");
    let (shown, mut next) = (Buffer::empty(AREA), Buffer::empty(AREA));
    next.set_string(11, 0, "x", Style::new());
    next.set_string(0, 1, "y", Style::new());
    assert_eq!(text(encoded(&shown, &next)), "~[1;12Hx~[2;1Hy");
}

#[test]
fn the_cursor_is_unknown_behind_a_wide_letter() {
    check("日 x", "本 y", "~[1;1H~[31;44m本~[1;4Hy");
}

#[test]
fn rows_of_alternating_colors_are_sent_color_by_color() {
    let rgb = |n| Style::new().fg(Color::Rgb(200, 200, n)).bg(Color::Rgb(17, 19, 26));
    let (shown, mut next) = (Buffer::empty(AREA), Buffer::empty(AREA));
    for y in 0..3 {
        next.set_string(0, y, "ab ", rgb(1));
        next.set_string(3, y, "cd", rgb(2));
    }
    let red = "~[38;2;200;200;1;48;2;17;19;26m";
    let want = format!("~[1;1H{red}ab ~[2;1Hab ~[3;1Hab ~[1;4H~[38;2;200;200;2mcd~[2;4Hcd~[3;4Hcd");
    assert_eq!(text(encoded(&shown, &next)), want);
}

/// A text somewhere in a color.
type Stroke = (u16, u16, &'static str, Color, Color, Modifier);

fn stroke() -> impl Strategy<Value = Stroke> {
    // No wide letters: terminals differ in what they leave of one that is cut.
    let texts = prop::sample::select(vec!["a", " ", "ab  cd", "⣿⡀ ⠉", "         "]);
    let colors = [Color::Reset, Color::Red, Color::Gray, Color::Indexed(200), Color::Rgb(1, 2, 3)];
    let color = || prop::sample::select(colors.to_vec());
    let modifiers = [
        Modifier::empty(),
        Modifier::BOLD,
        Modifier::DIM,
        Modifier::REVERSED,
        Modifier::BOLD.union(Modifier::UNDERLINED),
    ];
    (
        0..AREA.width,
        0..AREA.height,
        texts,
        color(),
        color(),
        prop::sample::select(modifiers.to_vec()),
    )
}

fn painted(strokes: &[Stroke]) -> Buffer {
    let mut buf = Buffer::empty(AREA);
    for (x, y, text, fg, bg, modifier) in strokes {
        // As all our widgets do: the modifiers of before go.
        let style = Style::new().fg(*fg).bg(*bg).remove_modifier(Modifier::all());
        buf.set_string(*x, *y, text, style.add_modifier(*modifier));
    }
    buf
}

proptest! {
    #[test]
    fn a_terminal_shows_the_frame(
        frames in vec(vec(stroke(), 0..12), 1..5),
    ) {
        let (height, width) = (AREA.height.try_into().unwrap(), AREA.width.try_into().unwrap());
        let mut terminal = vt100::Parser::new(height, width, 0);
        let mut shown = Buffer::empty(AREA);
        let mut backend = backend(&shown);
        for strokes in &frames {
            let next = painted(strokes);
            backend.draw(shown.diff_iter(&next)).unwrap();
            terminal.process(&std::mem::take(&mut backend.frame));
            shown = next;
        }
        // A terminal that gets every cell with its whole style.
        let mut whole = vt100::Parser::new(height, width, 0);
        for (y, row) in shown.content().chunks(usize::from(AREA.width)).enumerate() {
            let mut skip = 0;
            for (x, cell) in row.iter().enumerate() {
                if skip > 0 {
                    skip -= 1;
                    continue;
                }
                skip = cell.symbol().width().max(1) - 1;
                let mut numbers = Vec::new();
                push_color(&mut numbers, cell.fg, 0);
                push_color(&mut numbers, cell.bg, 10);
                let on = ON.iter().filter(|(modifier, _)| cell.modifier.contains(*modifier));
                numbers.extend(on.map(|(_, number)| u16::from(*number)));
                let numbers: Vec<_> = numbers.iter().map(u16::to_string).collect();
                let (y, x, numbers) = (y + 1, x + 1, numbers.join(";"));
                whole.process(format!("\x1b[{y};{x}H\x1b[0;{numbers}m{}", cell.symbol()).as_bytes());
            }
        }
        for y in 0..AREA.height {
            for x in 0..AREA.width {
                let [is, want] = [&terminal, &whole].map(|it| it.screen().cell(y, x).unwrap());
                let text = |cell: &vt100::Cell| {
                    if cell.contents().is_empty() { " ".to_owned() } else { cell.contents().to_owned() }
                };
                prop_assert_eq!(text(is), text(want));
                prop_assert_eq!(is.bgcolor(), want.bgcolor());
                prop_assert_eq!((is.underline(), is.inverse()), (want.underline(), want.inverse()));
                if text(want) != " " || want.inverse() || want.underline() {
                    prop_assert_eq!(is.fgcolor(), want.fgcolor());
                    prop_assert_eq!((is.bold(), is.dim()), (want.bold(), want.dim()));
                }
            }
        }
    }
}
