use proptest::{collection::vec, prelude::*};
use ratatui::{layout::Rect, style::Style};

use super::*;

const AREA: Rect = Rect::new(0, 0, 12, 4);

fn written(shown: &Buffer, next: &Buffer) -> String {
    let mut out = Vec::new();
    write(&mut out, shown, next);
    String::from_utf8(out).unwrap().replace('\x1b', "~")
}

#[track_caller]
fn check(before: &str, after: &str, want: &str) {
    let (mut shown, mut next) = (Buffer::empty(AREA), Buffer::empty(AREA));
    for (buf, text) in [(&mut shown, before), (&mut next, after)] {
        buf.set_style(AREA, Style::new().bg(Color::Blue));
        buf.set_string(0, 0, text, Style::new().fg(Color::Red));
    }
    assert_eq!(written(&shown, &next), want, "{before} to {after}");
}

#[test]
fn what_has_not_changed_is_not_told() {
    check("abc", "abc", "");
    check("abc", "abd", "~[1;3H~[31;44md~[m");
}

#[test]
fn a_short_way_is_written_over_and_a_long_one_jumped() {
    check("a c", "b d", "~[1;1H~[31;44mb d~[m");
    check("a.......c", "b.......d", "~[1;1H~[31;44mb~[9Gd~[m");
}

#[test]
fn a_blank_needs_no_color_of_letters() {
    check("abcd", "    ", "~[1;1H~[44m    ~[m");
}

#[test]
fn behind_the_last_column_nothing_is_taken_for_known() {
    check("", "0123456789ab", "~[1;1H~[31;44m0123456789ab~[m");
    let (shown, mut next) = (Buffer::empty(AREA), Buffer::empty(AREA));
    next.set_string(11, 0, "x", Style::new());
    next.set_string(0, 1, "y", Style::new());
    assert_eq!(written(&shown, &next), "~[1;12Hx~[2;1Hy");
}

#[test]
fn behind_a_wide_letter_it_jumps() {
    check("日 x", "本 y", "~[1;1H~[31;44m本~[1;4Hy~[m");
}

#[test]
fn rows_whose_colors_alternate_are_told_color_by_color() {
    let rgb = |n| Style::new().fg(Color::Rgb(200, 200, n)).bg(Color::Rgb(17, 19, 26));
    let (shown, mut next) = (Buffer::empty(AREA), Buffer::empty(AREA));
    for y in 0..3 {
        next.set_string(0, y, "ab ", rgb(1));
        next.set_string(3, y, "cd", rgb(2));
    }
    let red = "~[38;2;200;200;1;48;2;17;19;26m";
    let want =
        format!("~[1;1H{red}ab ~[2;1Hab ~[3;1Hab ~[1;4H~[38;2;200;200;2mcd~[2;4Hcd~[3;4Hcd~[m");
    assert_eq!(written(&shown, &next), want);
}

/// A text somewhere in a color.
type Stroke = (u16, u16, &'static str, Color, Color, Modifier);

fn stroke() -> impl Strategy<Value = Stroke> {
    // No wide letters: what is left of one that is cut, each terminal shows in its own way.
    let texts = prop::sample::select(vec!["a", " ", "ab  cd", "⣿⡀ ⠉", "         "]);
    let colors = [Color::Reset, Color::Red, Color::Gray, Color::Indexed(200), Color::Rgb(1, 2, 3)];
    let color = || prop::sample::select(colors.to_vec());
    let weights = [
        Modifier::empty(),
        Modifier::BOLD,
        Modifier::DIM,
        Modifier::REVERSED,
        Modifier::BOLD.union(Modifier::UNDERLINED),
    ];
    (0..AREA.width, 0..AREA.height, texts, color(), color(), prop::sample::select(weights.to_vec()))
}

fn painted(strokes: &[Stroke]) -> Buffer {
    let mut buf = Buffer::empty(AREA);
    for (x, y, text, fg, bg, weight) in strokes {
        // As everything here writes: the weight of what was there before goes.
        let style = Style::new().fg(*fg).bg(*bg).remove_modifier(Modifier::all());
        buf.set_string(*x, *y, text, style.add_modifier(*weight));
    }
    buf
}

proptest! {
    #[test]
    fn a_terminal_shows_what_was_meant(
        frames in vec(vec(stroke(), 0..12), 1..5),
    ) {
        let (height, width) = (AREA.height.try_into().unwrap(), AREA.width.try_into().unwrap());
        let mut terminal = vt100::Parser::new(height, width, 0);
        let mut shown = Buffer::empty(AREA);
        for strokes in &frames {
            let next = painted(strokes);
            let mut out = Vec::new();
            write(&mut out, &shown, &next);
            terminal.process(&out);
            shown = next;
        }
        // A terminal that is told everything at once.
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
                color(&mut numbers, cell.fg, 0);
                color(&mut numbers, cell.bg, 10);
                let on = ON.iter().filter(|(weight, _)| cell.modifier.contains(*weight));
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
