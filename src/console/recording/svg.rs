//! Renders a screen as text and as SVG: a rectangle for each background and a text for each run of one style.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use ratatui::buffer::{Buffer, Cell};
use ratatui::style::{Color, Modifier};
use unicode_width::UnicodeWidthStr;

use console_toolkit::theme::depth::rgb;

/// The width and height of a cell in SVG units.
const CELL: (f32, f32) = (8.43, 18.0);
/// The margin around the screen.
const MARGIN: f32 = 8.0;
/// The background colour for `Reset`.
const GROUND: &str = "#1c1c1c";
const INK: &str = "#d0d0d0";

/// Adjacent cells of a row with the same style.
struct CellRun {
    column: u16,
    columns: u16,
    symbols: Vec<String>,
    look: CellStyle,
}

#[derive(Clone, PartialEq, Eq)]
struct CellStyle {
    ink: String,
    ground: String,
    modifier: Modifier,
}

impl CellStyle {
    fn of(cell: &Cell) -> Self {
        let (mut ink, mut ground) = (colour(cell.fg, INK), colour(cell.bg, GROUND));
        if cell.modifier.contains(Modifier::REVERSED) {
            std::mem::swap(&mut ink, &mut ground);
        }
        Self { ink, ground, modifier: cell.modifier }
    }
}

/// Returns the lines of a screen without trailing blanks.
pub(super) fn lines(buffer: &Buffer) -> Vec<String> {
    let area = buffer.area;
    let line = |row| {
        let mut text = String::new();
        let mut column = area.left();
        while column < area.right() {
            let symbol = buffer[(column, row)].symbol();
            text.push_str(symbol);
            column += columns_of(symbol);
        }
        text.trim_end().to_owned()
    };
    (area.top()..area.bottom()).map(line).collect()
}

/// Renders the screen as SVG.
pub(super) fn picture(buffer: &Buffer) -> String {
    let area = buffer.area;
    let (whole_width, whole_height) =
        (f32::from(area.width) * CELL.0 + 2.0 * MARGIN, f32::from(area.height) * CELL.1 + 2.0 * MARGIN);
    let ground = dominant_background(buffer);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {whole_width:.0} {whole_height:.0}\" font-family=\"'DejaVu Sans Mono', \
         ui-monospace, Menlo, Consolas, monospace\" font-size=\"14\">\n<rect width=\"{whole_width:.0}\" \
         height=\"{whole_height:.0}\" rx=\"6\" fill=\"{ground}\"/>\n"
    );
    let y = |row: u16| MARGIN + f32::from(row - area.top()) * CELL.1;
    let x = |column: u16| MARGIN + f32::from(column - area.left()) * CELL.0;
    let width = |columns: u16| f32::from(columns) * CELL.0;
    let rows: Vec<(u16, Vec<CellRun>)> =
        (area.top()..area.bottom()).map(|row| (row, runs(buffer, row))).collect();
    // All backgrounds come first, so that they never cover text if the font is wider.
    for (row, run) in rows.iter().flat_map(|(row, runs)| runs.iter().map(move |run| (*row, run))) {
        if run.look.ground != ground {
            let _ = writeln!(
                svg,
                "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{}\"/>",
                x(run.column),
                y(row),
                width(run.columns),
                CELL.1,
                run.look.ground
            );
        }
    }
    for (row, run) in rows.iter().flat_map(|(row, runs)| runs.iter().map(move |run| (*row, run))) {
        // One element per word, so that a different font displaces nothing beyond the word.
        for (column, columns, word) in split_words(run) {
            let _ = writeln!(
                svg,
                "<text x=\"{:.1}\" y=\"{:.1}\" textLength=\"{:.1}\" lengthAdjust=\"spacingAndGlyphs\" \
                 fill=\"{}\"{}>{}</text>",
                x(column),
                y(row) + 13.5,
                width(columns),
                run.look.ink,
                attributes(run.look.modifier),
                escaped(&word)
            );
        }
    }
    svg + "</svg>\n"
}

/// Returns the most frequent background.
fn dominant_background(buffer: &Buffer) -> String {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for cell in &buffer.content {
        *counts.entry(CellStyle::of(cell).ground).or_default() += 1;
    }
    counts.into_iter().max_by_key(|(_, count)| *count).map_or_else(|| GROUND.to_owned(), |(ground, _)| ground)
}

/// Splits a run into words, each with its column and width.
fn split_words(run: &CellRun) -> Vec<(u16, u16, String)> {
    let mut words: Vec<(u16, u16, String)> = Vec::new();
    let (mut column, mut within) = (run.column, false);
    for symbol in &run.symbols {
        let columns = columns_of(symbol);
        let is_blank = symbol.trim().is_empty();
        match words.last_mut().filter(|_| within && !is_blank) {
            Some((_, length, word)) => {
                *length += columns;
                word.push_str(symbol);
            }
            None if !is_blank => words.push((column, columns, symbol.clone())),
            None => {}
        }
        within = !is_blank;
        column += columns;
    }
    words
}

fn runs(buffer: &Buffer, row: u16) -> Vec<CellRun> {
    let area = buffer.area;
    let mut runs: Vec<CellRun> = Vec::new();
    let mut column = area.left();
    while column < area.right() {
        let cell = &buffer[(column, row)];
        let (look, columns) = (CellStyle::of(cell), columns_of(cell.symbol()));
        match runs.last_mut() {
            Some(run) if run.look == look => {
                run.symbols.push(cell.symbol().to_owned());
                run.columns += columns;
            }
            _ => runs.push(CellRun { column, columns, symbols: vec![cell.symbol().to_owned()], look }),
        }
        column += columns;
    }
    runs
}

fn columns_of(symbol: &str) -> u16 {
    u16::try_from(symbol.width()).unwrap_or(1).max(1)
}

fn attributes(modifier: Modifier) -> String {
    let mut all = String::new();
    for (which, attribute) in [
        (Modifier::BOLD, " font-weight=\"bold\""),
        (Modifier::ITALIC, " font-style=\"italic\""),
        (Modifier::UNDERLINED, " text-decoration=\"underline\""),
        (Modifier::CROSSED_OUT, " text-decoration=\"line-through\""),
        (Modifier::DIM, " opacity=\"0.6\""),
    ] {
        if modifier.contains(which) {
            all.push_str(attribute);
        }
    }
    all
}

fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            // XML forbids control characters.
            letter if letter.is_control() => escaped.push('\u{fffd}'),
            letter => escaped.push(letter),
        }
    }
    escaped
}

/// Returns a colour as in CSS, and `reset` for the terminal's default.
fn colour(colour: Color, reset: &str) -> String {
    let hex = |(red, green, blue): (u8, u8, u8)| format!("#{red:02x}{green:02x}{blue:02x}");
    rgb(colour).map_or_else(|| reset.to_owned(), hex)
}

#[cfg(test)]
mod tests {
    use ratatui::layout::Rect;
    use ratatui::style::Style;

    use super::*;

    #[test]
    fn a_screen_is_text_and_a_picture_con_21() {
        let mut buffer = Buffer::empty(Rect::new(0, 0, 8, 2));
        buffer.set_string(0, 0, "a<b", Style::new().fg(Color::Rgb(1, 2, 3)));
        buffer.set_string(3, 0, "日本", Style::new().bg(Color::Red).add_modifier(Modifier::BOLD));
        buffer.set_string(1, 1, "x", Style::new().add_modifier(Modifier::REVERSED));
        assert_eq!(lines(&buffer), ["a<b日本", " x"]);
        let svg = picture(&buffer);
        for part in [
            "fill=\"#010203\">a&lt;b</text>",
            "width=\"33.7\" height=\"18.0\" fill=\"#cd0000\"/>",
            "font-weight=\"bold\">日本</text>",
            "fill=\"#1c1c1c\">x</text>",
        ] {
            assert!(svg.contains(part), "{part}: {svg}");
        }
        assert_eq!(svg.matches("<text").count(), 3);
    }
}
