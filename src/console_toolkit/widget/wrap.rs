//! Lines that continue in the next row, at any character: logs, YAML and descriptions are not prose.

use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthChar;

use crate::text::fit;
use crate::theme::Theme;

/// The mark in the last column of a line that continues beyond the view.
pub(super) const CUT: &str = "›";

/// Splits a line into rows of at most `width` columns.
pub fn wrapped(line: Line<'_>, width: usize) -> Vec<Line<'static>> {
    let style = line.style;
    let mut rows = vec![Line::default().style(style)];
    let mut used = 0;
    for span in line.spans {
        let mut piece = String::new();
        for character in span.content.chars() {
            let columns = character.width().unwrap_or(0);
            if used + columns > width {
                if let Some(row) = rows.last_mut() {
                    row.spans.push(Span::styled(std::mem::take(&mut piece), span.style));
                }
                rows.push(Line::default().style(style));
                used = 0;
            }
            piece.push(character);
            used += columns;
        }
        if let Some(row) = rows.last_mut() {
            row.spans.push(Span::styled(piece, span.style));
        }
    }
    rows
}

/// Marks the end of a line that is wider than the view, so that it is not mistaken for a complete line.
pub fn mark_cut(line: Line<'static>, width: usize, theme: &Theme) -> Line<'static> {
    if line.width() <= width || width == 0 {
        return line;
    }
    let mut rows = wrapped(line, width - 1);
    let mut first = rows.swap_remove(0);
    first.spans.push(Span::styled(CUT, theme.body.accent));
    first
}

/// Cuts a line that is wider than the view, with `…` at the end of the first text that does not fit.
pub fn fit_line(line: Line<'_>, width: usize) -> Line<'_> {
    if line.width() <= width {
        return line;
    }
    let mut cut = Line::default().style(line.style);
    for span in line.spans {
        let left = width.saturating_sub(cut.width());
        let is_whole = span.width() <= left;
        cut.push_span(Span::styled(fit(&span.content, left).into_owned(), span.style));
        if !is_whole {
            break;
        }
    }
    cut
}

/// Returns the number of rows that [`wrapped`] makes of a text.
pub fn row_count(text: &str, width: usize) -> usize {
    row_of(text, text.len(), width) + 1
}

/// Returns the index of the row that [`wrapped`] puts the character at this byte into.
pub fn row_of(text: &str, byte: usize, width: usize) -> usize {
    let (mut row, mut used) = (0, 0);
    for (at, character) in text.char_indices() {
        let columns = character.width().unwrap_or(0);
        if used + columns > width {
            (row, used) = (row + 1, 0);
        }
        if at >= byte {
            break;
        }
        used += columns;
    }
    row
}

/// The rows of wrapped lines.
#[derive(Debug, Default)]
pub struct RowIndex {
    width: usize,
    /// The number of rows up to the end of each line.
    ends: Vec<usize>,
}

impl RowIndex {
    /// Counts the rows of lines that are wrapped to this many columns.
    pub fn new<S: AsRef<str>>(lines: impl IntoIterator<Item = S>, width: usize) -> Self {
        let mut rows = 0;
        let count = |line: S| {
            rows += row_count(line.as_ref(), width);
            rows
        };
        Self { width, ends: lines.into_iter().map(count).collect() }
    }

    /// Returns the width that the rows are for.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.ends.last().copied().unwrap_or_default()
    }

    /// Returns whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns the index of the first row of a line.
    pub fn row(&self, line: usize) -> usize {
        line.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or_default()
    }

    /// Returns the index of the line that a row belongs to.
    pub fn line(&self, row: usize) -> usize {
        self.ends.partition_point(|end| *end <= row)
    }

    /// Returns the index of the line that a row belongs to, and the number of the line's rows above it.
    pub fn place(&self, row: usize) -> (usize, usize) {
        let line = self.line(row);
        (line, row - self.row(line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_and_lines_are_found_by_each_other_con_10() {
        let rows = RowIndex::new(["0123456789ab", "", "01234"], 5);
        assert_eq!(rows.len(), 5);
        assert_eq!([0, 1, 2].map(|line| rows.row(line)), [0, 3, 4]);
        assert_eq!([0, 1, 2, 3, 4].map(|row| rows.line(row)), [0, 0, 0, 1, 2]);
        assert_eq!([0, 2, 3, 4].map(|row| rows.place(row)), [(0, 0), (0, 2), (1, 0), (2, 0)]);
        assert!(RowIndex::new([""; 0], 5).is_empty());
    }

    #[test]
    fn a_text_has_as_many_rows_as_are_drawn_con_10() {
        for (text, width, rows) in [
            ("", 5, &[""][..]),
            ("short", 5, &["short"]),
            ("longer", 5, &["longe", "r"]),
            ("日本語", 5, &["日本", "語"]),
            ("a日b", 2, &["a", "日", "b"]),
            ("0123456789", 5, &["01234", "56789"]),
        ] {
            let drawn: Vec<String> =
                wrapped(Line::raw(text), width).iter().map(ToString::to_string).collect();
            assert_eq!(drawn, rows, "{text}");
            assert_eq!(row_count(text, width), rows.len(), "{text}");
            for (row, content) in rows.iter().enumerate().filter(|(_, content)| !content.is_empty()) {
                let start = text.find(content).expect("a row is a part of the text");
                assert_eq!(row_of(text, start, width), row, "{text}, byte {start}");
            }
        }
    }

    #[test]
    fn a_line_wider_than_the_view_ends_with_a_mark_con_10() {
        let theme = Theme::linear();
        for (text, width, drawn) in
            [("short", 5, "short"), ("longer", 5, "long›"), ("日本語", 5, "日本›"), ("日本語", 4, "日›")]
        {
            assert_eq!(mark_cut(Line::raw(text), width, &theme).to_string(), drawn);
        }
    }

    #[test]
    fn a_line_is_cut_in_the_text_that_does_not_fit_con_2() {
        for (texts, width, drawn) in [
            (&["short"][..], 5, "short"),
            (&["a", "longer"], 5, "alon…"),
            (&["日本", "日本語", "x"], 7, "日本日…"),
        ] {
            let line: Line<'_> = texts.iter().map(|text| Span::raw(*text)).collect();
            assert_eq!(fit_line(line, width).to_string(), drawn);
        }
    }
}
