//! Pictures of buffers, for looking at widgets and screens: the cells as SVG.
//!
//! Only for tests that are run manually to look at their pictures. They are not compared.

use std::fmt::Write as _;

use ratatui::buffer::{Buffer, Cell};
use ratatui::style::{Color, Modifier};

use crate::theme::depth;

/// The size of a cell. A monospaced font at 20 px is 12 px wide, and blocks fill 26 px.
const CELL: (u32, u32) = (12, 26);

fn hex(color: Color, otherwise: &str) -> String {
    match color {
        Color::Rgb(r, g, b) => format!("#{r:02x}{g:02x}{b:02x}"),
        Color::Indexed(index) => {
            let [r, g, b] = depth::rgb_of_256(index);
            format!("#{r:02x}{g:02x}{b:02x}")
        }
        Color::Red => "#cc3333".to_owned(),
        Color::Green => "#33aa33".to_owned(),
        Color::Yellow => "#bb9922".to_owned(),
        Color::Blue => "#4477dd".to_owned(),
        Color::Magenta => "#aa55aa".to_owned(),
        Color::Cyan => "#33aaaa".to_owned(),
        Color::DarkGray => "#666666".to_owned(),
        _ => otherwise.to_owned(),
    }
}

/// Returns the rectangles of a block symbol, in eighths of a cell: x, y, width, height.
fn block(symbol: char) -> Option<(u32, u32, u32, u32)> {
    Some(match symbol {
        '█' => (0, 0, 8, 8),
        '▀' => (0, 0, 8, 4),
        '▐' => (4, 0, 4, 8),
        '▁'..='▇' => {
            let n = u32::from(symbol) - 0x2580;
            (0, 8 - n, 8, n)
        }
        '▉'..='▏' => (0, 0, 0x2590 - u32::from(symbol), 8),
        _ => return None,
    })
}

/// Returns the colors of a cell's symbol and of its background.
fn colors(cell: &Cell) -> (String, String) {
    let (fg, bg) = (hex(cell.fg, "#cccccc"), hex(cell.bg, "#000000"));
    if cell.modifier.contains(Modifier::REVERSED) { (bg, fg) } else { (fg, bg) }
}

fn draw_background(out: &mut String, x: u32, y: u32, cell: &Cell) {
    let (w, h) = CELL;
    let (left, top) = (x * w, y * h);
    let bg = colors(cell).1;
    writeln!(out, r#"<rect x="{left}" y="{top}" width="{w}" height="{h}" fill="{bg}"/>"#).unwrap();
}

fn draw_cell(out: &mut String, x: u32, y: u32, cell: &Cell) {
    let (w, h) = CELL;
    let (left, top) = (x * w, y * h);
    let fg = colors(cell).0;
    let symbol = cell.symbol().chars().next().unwrap_or(' ');
    let opacity = if cell.modifier.contains(Modifier::DIM) { 0.6 } else { 1.0 };
    if let Some((bx, by, bw, bh)) = block(symbol) {
        let (x, y) =
            (f64::from(left) + f64::from(bx * w) / 8.0, f64::from(top) + f64::from(by * h) / 8.0);
        let (w, h) = (f64::from(bw * w) / 8.0, f64::from(bh * h) / 8.0);
        writeln!(
            out,
            r#"<rect x="{x}" y="{y}" width="{w}" height="{h}" fill="{fg}" opacity="{opacity}"/>"#
        )
        .unwrap();
        return;
    }
    if let Some(bits) = u32::from(symbol).checked_sub(0x2800).filter(|bits| *bits < 256) {
        for (bit, column, row) in
            [(0, 0, 0), (1, 0, 1), (2, 0, 2), (3, 1, 0), (4, 1, 1), (5, 1, 2), (6, 0, 3), (7, 1, 3)]
        {
            if bits >> bit & 1 == 1 {
                let (x, y) = (left + 3 + column * 6, top + 3 + row * 13 / 2);
                writeln!(out, r#"<circle cx="{x}" cy="{y}" r="1.7" fill="{fg}"/>"#).unwrap();
            }
        }
        return;
    }
    if symbol == ' ' {
        return;
    }
    let weight = if cell.modifier.contains(Modifier::BOLD) { "bold" } else { "normal" };
    let line = if cell.modifier.contains(Modifier::UNDERLINED) { "underline" } else { "none" };
    let text = cell.symbol().replace('&', "&amp;").replace('<', "&lt;");
    let base = top + 20;
    writeln!(
        out,
        r#"<text x="{left}" y="{base}" fill="{fg}" font-weight="{weight}" text-decoration="{line}" opacity="{opacity}">{text}</text>"#
    )
    .unwrap();
}

/// Draws a part of a cell at a column and row.
type Draw = fn(&mut String, u32, u32, &Cell);

/// Renders the cells of `buf` as an SVG picture.
pub(crate) fn svg(buf: &Buffer) -> String {
    let (width, height) = (u32::from(buf.area.width) * CELL.0, u32::from(buf.area.height) * CELL.1);
    let mut out = format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="JetBrains Mono" font-size="20" xml:space="preserve">"#
    );
    // Backgrounds first, because a glyph can extend beyond its cell.
    for draw in [draw_background as Draw, draw_cell] {
        for (idx, cell) in buf.content().iter().enumerate() {
            let (x, y) = buf.pos_of(idx);
            draw(&mut out, u32::from(x - buf.area.x), u32::from(y - buf.area.y), cell);
        }
    }
    out.push_str("</svg>\n");
    out
}

/// Writes the picture of `buf` to `{TUI_SHOTS}/{name}.svg`. `TUI_SHOTS` must name a directory.
pub(crate) fn write(name: &str, buf: &Buffer) {
    let folder = std::env::var("TUI_SHOTS").expect("TUI_SHOTS names a folder for pictures");
    std::fs::write(std::path::Path::new(&folder).join(format!("{name}.svg")), svg(buf)).unwrap();
}

/// Returns the symbols of `buf`, row by row and framed by `│`.
pub(crate) fn text(buf: &Buffer) -> String {
    let width = usize::from(buf.area.width).max(1);
    let rows = buf.content().chunks(width).map(|row| {
        let row: String = row.iter().map(Cell::symbol).collect();
        format!("│{row}│")
    });
    rows.collect::<Vec<_>>().join("\n")
}
