//! Screens as SVG pictures. Box-drawing characters, blocks and braille are drawn as shapes, so that they
//! join without gaps in any font. Equal screens result in equal bytes.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::time::Duration;

use vt100::{Cell, Color, Screen};

/// Width and height of a cell. The width is 0.6 of the font size.
const CELL: (f64, f64) = (12.0, 26.4);

/// Font size.
const FONT_SIZE: f64 = 20.0;

/// Distance of the baseline from the top of a cell.
const BASELINE: f64 = 19.4;

/// Margin around the screen.
const MARGIN: f64 = 12.0;

/// Half the width of a thin and of a thick line.
const HALF_STROKE: [f64; 2] = [0.8, 1.8];

/// Radius of a braille dot.
const DOT_RADIUS: f64 = 1.7;

/// Radius of round corners.
const CORNER_RADIUS: f64 = 6.0;

/// Default background and text color of a picture.
pub(crate) type Ground = [&'static str; 2];

/// Default colors of the dark theme.
pub(crate) const DARK: Ground = ["#11131a", "#d5d9e6"];

/// Default colors of the light theme.
pub(crate) const LIGHT: Ground = ["#fbfbfd", "#1c2030"];

/// The sixteen named ANSI colors.
const NAMED: [&str; 16] = [
    "#1d2029", "#f2707b", "#3fc294", "#f2b84b", "#6ea8fe", "#b794f6", "#56c7e8", "#d5d9e6",
    "#6b7388", "#ff8d96", "#63dcb0", "#ffd27a", "#93bfff", "#cdb2ff", "#84dcf5", "#ffffff",
];

/// Style that all cells of a run have.
#[derive(Clone, PartialEq)]
struct Style {
    text: String,
    background: String,
    is_bold: bool,
    is_italic: bool,
    is_underlined: bool,
}

/// Draws `screen` on `ground`.
pub(crate) fn draw(screen: &Screen, ground: Ground) -> String {
    let mut svg = start(screen, ground);
    for (top, cells) in rows(screen) {
        draw_row(&mut svg, top, &cells, ground);
    }
    svg.push_str("</g>\n</svg>\n");
    svg
}

/// Draws `frames`, which must have the same size, as an endless animation that shows each frame for its
/// duration. Viewers that do not support animations show the first frame.
pub(crate) fn animate(frames: &[(Screen, Duration)], ground: Ground) -> String {
    let whole: f64 = frames.iter().map(|(_, duration)| duration.as_secs_f64()).sum();
    let mut svg = start(&frames[0].0, ground);
    let mut ids = HashMap::new();
    let mut rest = String::new();
    let mut elapsed = 0.0;
    for (n, (screen, duration)) in frames.iter().enumerate() {
        let until = elapsed + duration.as_secs_f64();
        let (visibility, values, times) = match n {
            0 => ("visible", "visible;hidden", format!("0;{:.4}", until / whole)),
            _ => ("hidden", "hidden;visible;hidden", {
                format!("0;{:.4};{:.4}", elapsed / whole, (until / whole).min(0.9999))
            }),
        };
        writeln!(
            rest,
            "<g visibility=\"{visibility}\"><animate attributeName=\"visibility\" values=\"{values}\" \
             keyTimes=\"{times}\" dur=\"{whole}s\" calcMode=\"discrete\" repeatCount=\"indefinite\"/>"
        )
        .unwrap();
        for (top, cells) in rows(screen) {
            let mut row = String::new();
            draw_row(&mut row, 0.0, &cells, ground);
            // Equal rows of several frames are written only once.
            let next = ids.len();
            let id = *ids.entry(row.clone()).or_insert_with(|| {
                writeln!(svg, "<defs><g id=\"r{next}\">{row}</g></defs>").unwrap();
                next
            });
            writeln!(rest, "<use href=\"#r{id}\" y=\"{top:.1}\"/>").unwrap();
        }
        rest.push_str("</g>\n");
        elapsed = until;
    }
    svg + &rest + "</g>\n</svg>\n"
}

/// Returns the beginning of a picture with the size of `screen`.
fn start(screen: &Screen, ground: Ground) -> String {
    let (rows, columns) = screen.size();
    let (width, height) = (
        f64::from(columns.get()) * CELL.0 + 2.0 * MARGIN,
        f64::from(rows.get()) * CELL.1 + 2.0 * MARGIN,
    );
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"{}\"/>\n\
         <g transform=\"translate({MARGIN},{MARGIN})\" font-size=\"{FONT_SIZE}\" \
         font-family=\"JetBrains Mono, DejaVu Sans Mono, monospace\" xml:space=\"preserve\">\n",
        ground[0],
    )
}

/// Returns the cells of each row, with the distance of the row from the top.
fn rows(screen: &Screen) -> impl Iterator<Item = (f64, Vec<&Cell>)> {
    let (rows, columns) = screen.size();
    (0..rows.get()).map(move |row| {
        let cells = (0..columns.get()).filter_map(|column| screen.cell(row, column)).collect();
        (f64::from(row) * CELL.1, cells)
    })
}

fn draw_row(svg: &mut String, top: f64, cells: &[&Cell], ground: Ground) {
    let styled: Vec<_> = cells.iter().map(|cell| (letter(cell), style(cell, ground))).collect();
    for (at, run) in runs(&styled, |a, b| a.1.background == b.1.background) {
        let [(_, first), ..] = run else { continue };
        if first.background != ground[0] {
            let width = count(run.len()) * CELL.0;
            rect(svg, (count(at) * CELL.0, top, width, CELL.1), &first.background);
        }
    }
    let is_text = |letter: char| letter != ' ' && !is_shape(letter);
    for (at, run) in runs(&styled, |a, b| a.1 == b.1 && is_text(a.0) && is_text(b.0)) {
        let [(first, style), ..] = run else { continue };
        let left = count(at) * CELL.0;
        if is_shape(*first) {
            shape(svg, (left, top), *first, &style.text);
        } else if *first != ' ' || style.is_underlined {
            letters(svg, (left, top), cells.get(at..at + run.len()).unwrap_or_default(), style);
        }
    }
}

/// Splits `items` into runs in which all neighbors satisfy `together`. Returns each run with the position
/// of its first item.
fn runs<T>(items: &[T], together: impl Fn(&T, &T) -> bool) -> Vec<(usize, &[T])> {
    let mut at = 0;
    let runs = items.chunk_by(together).map(|run| {
        at += run.len();
        (at - run.len(), run)
    });
    runs.collect()
}

fn letters(svg: &mut String, (left, top): (f64, f64), cells: &[&Cell], style: &Style) {
    let text: String = cells.iter().map(|cell| cell.contents()).collect();
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let (width, base) = (count(cells.len()) * CELL.0, top + BASELINE);
    let mut extra = String::new();
    for (is_on, attribute) in [
        (style.is_bold, " font-weight=\"bold\""),
        (style.is_italic, " font-style=\"italic\""),
        (style.is_underlined, " text-decoration=\"underline\""),
    ] {
        if is_on {
            extra.push_str(attribute);
        }
    }
    add(
        svg,
        &format!(
            "<text x=\"{left:.1}\" y=\"{base:.1}\" fill=\"{}\" textLength=\"{width:.1}\" \
             lengthAdjust=\"spacingAndGlyphs\"{extra}>{text}</text>",
            style.text,
        ),
    );
}

fn is_shape(letter: char) -> bool {
    block(letter).is_some() || rule(letter).is_some() || matches!(letter, '\u{2801}'..='\u{28ff}')
}

fn shape(svg: &mut String, (left, top): (f64, f64), letter: char, color: &str) {
    let (width, height) = CELL;
    if let Some((x, y, w, h)) = block(letter) {
        rect(svg, (left + x * width, top + y * height, w * width, h * height), color);
    } else if let Some(arms) = rule(letter) {
        draw_rule(svg, (left, top), letter, arms, color);
    } else {
        let dots = u32::from(letter) - 0x2800;
        // The lowest six bits are the upper three dots of each column, the highest two are the lowest
        // dots.
        let places = [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (0, 3), (1, 3)];
        for (bit, (column, row)) in places.into_iter().enumerate() {
            if dots >> bit & 1 == 1 {
                let x = left + width * (0.25 + 0.5 * f64::from(column));
                let y = top + height * (0.125 + 0.25 * f64::from(row));
                add(
                    svg,
                    &format!(
                        "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{DOT_RADIUS}\" fill=\"{color}\"/>"
                    ),
                );
            }
        }
    }
}

/// Returns the part of its cell that a block character fills: left, top, width and height as fractions
/// of the cell.
fn block(letter: char) -> Option<(f64, f64, f64, f64)> {
    let number = f64::from(u32::from(letter));
    Some(match letter {
        '▀' => (0.0, 0.0, 1.0, 0.5),
        '▁'..='█' => {
            let share = (number - f64::from(0x2580)) / 8.0;
            (0.0, 1.0 - share, 1.0, share)
        }
        '▉'..='▏' => (0.0, 0.0, (f64::from(0x2590) - number) / 8.0, 1.0),
        '▐' => (0.5, 0.0, 0.5, 1.0),
        '▔' => (0.0, 0.0, 1.0, 0.125),
        '▕' => (0.875, 0.0, 0.125, 1.0),
        _ => return None,
    })
}

/// Returns the left, right, upper and lower arm of a box-drawing character: 0 means none, 1 thin, 2
/// thick.
fn rule(letter: char) -> Option<[usize; 4]> {
    Some(match letter {
        '─' => [1, 1, 0, 0],
        '━' => [2, 2, 0, 0],
        '│' => [0, 0, 1, 1],
        '┃' => [0, 0, 2, 2],
        '╭' | '┌' => [0, 1, 0, 1],
        '╮' | '┐' => [1, 0, 0, 1],
        '╰' | '└' => [0, 1, 1, 0],
        '╯' | '┘' => [1, 0, 1, 0],
        '├' => [0, 1, 1, 1],
        '┤' => [1, 0, 1, 1],
        '┬' => [1, 1, 0, 1],
        '┴' => [1, 1, 1, 0],
        '┼' => [1, 1, 1, 1],
        '╴' => [1, 0, 0, 0],
        '╶' => [0, 1, 0, 0],
        '╵' => [0, 0, 1, 0],
        '╷' => [0, 0, 0, 1],
        '╽' => [0, 0, 1, 2],
        '╿' => [0, 0, 2, 1],
        _ => return None,
    })
}

fn draw_rule(
    svg: &mut String,
    (left, top): (f64, f64),
    letter: char,
    arms: [usize; 4],
    color: &str,
) {
    let (width, height) = CELL;
    let (x, y) = (left + width / 2.0, top + height / 2.0);
    if matches!(letter, '╭' | '╮' | '╰' | '╯') {
        let (end_x, bow_x) =
            if arms[1] > 0 { (left + width, x + CORNER_RADIUS) } else { (left, x - CORNER_RADIUS) };
        let (end_y, bow_y) =
            if arms[3] > 0 { (top + height, y + CORNER_RADIUS) } else { (top, y - CORNER_RADIUS) };
        let stroke = 2.0 * HALF_STROKE[0];
        return add(
            svg,
            &format!(
                "<path d=\"M{end_x:.1} {y:.1}H{bow_x:.1}Q{x:.1} {y:.1} {x:.1} {bow_y:.1}V{end_y:.1}\" \
                 fill=\"none\" stroke=\"{color}\" stroke-width=\"{stroke}\"/>"
            ),
        );
    }
    for (arm, &weight) in arms.iter().enumerate() {
        let Some(half) = weight.checked_sub(1).and_then(|index| HALF_STROKE.get(index)) else {
            continue;
        };
        let area = match arm {
            0 => (left, y - half, width / 2.0 + half, 2.0 * half),
            1 => (x - half, y - half, width / 2.0 + half, 2.0 * half),
            2 => (x - half, top, 2.0 * half, height / 2.0 + half),
            _ => (x - half, y - half, 2.0 * half, height / 2.0 + half),
        };
        rect(svg, area, color);
    }
}

fn rect(svg: &mut String, (x, y, width, height): (f64, f64, f64, f64), color: &str) {
    add(
        svg,
        &format!(
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" \
             fill=\"{color}\" shape-rendering=\"crispEdges\"/>"
        ),
    );
}

fn add(svg: &mut String, element: &str) {
    svg.push_str(element);
    svg.push('\n');
}

fn letter(cell: &Cell) -> char {
    cell.contents().chars().next().unwrap_or(' ')
}

fn style(cell: &Cell, [background, text]: Ground) -> Style {
    let (mut background, mut text) =
        (color(cell.bgcolor(), background), color(cell.fgcolor(), text));
    if cell.inverse() {
        std::mem::swap(&mut background, &mut text);
    }
    Style {
        text,
        background,
        is_bold: cell.bold(),
        is_italic: cell.italic(),
        is_underlined: cell.underline(),
    }
}

fn color(color: Color, default: &str) -> String {
    match color {
        Color::Default => default.to_owned(),
        Color::Rgb(red, green, blue) => format!("#{red:02x}{green:02x}{blue:02x}"),
        Color::Idx(index) => match (index, NAMED.get(usize::from(index))) {
            (_, Some(named)) => (*named).to_owned(),
            // Indexed colors: a cube of 6 × 6 × 6 colors, then 24 grays.
            (16..=231, None) => {
                let at = index - 16;
                let level = |digit: u8| if digit == 0 { 0 } else { 55 + 40 * digit };
                let (red, green, blue) = (level(at / 36), level(at / 6 % 6), level(at % 6));
                format!("#{red:02x}{green:02x}{blue:02x}")
            }
            (_, None) => {
                let gray = 8 + 10 * (index - 232);
                format!("#{gray:02x}{gray:02x}{gray:02x}")
            }
        },
    }
}

/// Converts a number of cells to a float.
fn count(n_cells: usize) -> f64 {
    f64::from(u32::try_from(n_cells).unwrap_or(u32::MAX))
}

#[track_caller]
fn check(written: &str, wanted: &[&str]) {
    let mut parser = vt100::Parser::default();
    parser.process(written.as_bytes());
    let svg = draw(parser.screen(), DARK);
    for wanted in wanted {
        assert!(svg.contains(wanted), "`{wanted}` is in:\n{svg}");
    }
}

#[test]
fn letters_of_one_style_are_drawn_as_one_svg_element() {
    check(
        "\x1b[1;38;2;1;2;3ma<b\x1b[m c",
        &[
            "fill=\"#010203\" textLength=\"36.0\" lengthAdjust=\"spacingAndGlyphs\" \
             font-weight=\"bold\">a&lt;b</text>",
            "fill=\"#d5d9e6\" textLength=\"12.0\" lengthAdjust=\"spacingAndGlyphs\">c</text>",
        ],
    );
}

#[test]
fn blocks_lines_and_braille_are_drawn_as_svg_shapes() {
    check("▄", &["<rect x=\"0.0\" y=\"13.2\" width=\"12.0\" height=\"13.2\" fill=\"#d5d9e6\""]);
    check("▌", &["<rect x=\"0.0\" y=\"0.0\" width=\"6.0\" height=\"26.4\""]);
    check("\x1b[48;5;196m \x1b[m", &["height=\"26.4\" fill=\"#ff0000\""]);
    check("╭", &["<path d=\"M12.0 13.2H12.0Q6.0 13.2 6.0 19.2V26.4\""]);
    check("⠁", &["<circle cx=\"3.0\" cy=\"3.3\""]);
}
