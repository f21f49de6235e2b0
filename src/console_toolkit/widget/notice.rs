//! A text in place of a view's content: the reason why it is empty, or an error. It is wrapped, because the end of a
//! reason says as much as its start.

use ratatui::Frame;
use ratatui::layout::{Alignment, Rect};
use ratatui::style::Style;
use ratatui::text::Line;
use ratatui::widgets::Paragraph;

use crate::text::{clean, fit, wrapped};

/// Draws a text from the top of an area.
pub fn draw(text: &str, style: Style, frame: &mut Frame<'_>, area: Rect) {
    let lines = lines_of(text, style, area);
    frame.render_widget(Paragraph::new(lines), area);
}

/// Draws a text in the upper third of an area; a single line is centered.
pub fn draw_centered(text: &str, style: Style, frame: &mut Frame<'_>, area: Rect) {
    let lines = lines_of(text, style, area);
    let top = (area.height / 3).min(area.height.saturating_sub(lines.len() as u16));
    let place = Rect { y: area.y + top, height: area.height - top, ..area };
    let alignment = if lines.len() == 1 { Alignment::Center } else { Alignment::Left };
    frame.render_widget(Paragraph::new(lines).alignment(alignment), place);
}

/// Wraps a text to an area; `…` marks the end of a text that is longer.
fn lines_of(text: &str, style: Style, area: Rect) -> Vec<Line<'static>> {
    let (columns, rows) = (usize::from(area.width), usize::from(area.height));
    let mut lines: Vec<String> = text.lines().flat_map(|line| wrapped(&clean(line), columns)).collect();
    if lines.len() > rows {
        lines.truncate(rows);
        if let Some(last) = lines.last_mut() {
            *last = fit(&format!("{last} …"), columns).into_owned();
        }
    }
    lines.into_iter().map(|line| Line::styled(line, style)).collect()
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;

    fn drawn(
        text: &str,
        width: u16,
        height: u16,
        draw: fn(&str, Style, &mut Frame<'_>, Rect),
    ) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(text, Style::default(), frame, frame.area())).unwrap();
        let buffer = terminal.backend().buffer();
        let row = |row| (0..width).map(|column| buffer[(column, row)].symbol()).collect::<String>();
        (0..height).map(|at| row(at).trim_end().to_owned()).collect()
    }

    #[test]
    fn a_reason_is_wrapped_at_word_ends_and_marked_if_it_is_longer_con_18() {
        for (text, width, height, centered, lines) in [
            ("no pods here", 20, 3, false, &["no pods here", "", ""][..]),
            ("no pods here", 8, 3, false, &["no pods", "here", ""]),
            ("no pods here", 20, 3, true, &["", "    no pods here", ""]),
            ("one two three four", 9, 2, true, &["one two", "three …"]),
            ("first\nsec\tond\u{1b}", 20, 2, false, &["first", "sec ond␛"]),
            ("", 5, 1, true, &[""]),
        ] {
            let by = if centered { draw_centered } else { draw };
            assert_eq!(drawn(text, width, height, by), lines, "{text:?} in {width}×{height}");
        }
    }
}
