//! A long text in a window: scrolled, wrapped, searched with `/`. The screen styles each line, and only visible ones.

use std::cell::{Cell, RefCell};

use crossterm::event::MouseEvent;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Line;
use ratatui::widgets::Paragraph;

use super::scroll::Scroll;
use super::wrap::{RowIndex, wrapped};
use crate::command::Command;
use crate::search::Search;
use crate::text::clean;
use crate::theme::Theme;

/// The text and the position in it.
#[derive(Debug, Default)]
pub struct TextPane {
    lines: Vec<String>,
    wrap: bool,
    full: bool,
    query: String,
    search: Option<Search>,
    /// Lines that match.
    matches: Vec<usize>,
    /// Index of the current match.
    current: usize,
    /// Counts lines, or rows if they are wrapped.
    scroll: Scroll,
    /// The width of the last draw.
    width: Cell<usize>,
    /// The rows of the wrapped lines at the last width for which they were counted.
    rows: RefCell<Option<RowIndex>>,
}

impl TextPane {
    /// Replaces the text; the scroll position stays, as far as the new text reaches.
    pub fn set_lines(&mut self, lines: Vec<String>) {
        self.lines = lines;
        *self.rows.borrow_mut() = None;
        self.find();
    }

    /// Returns the number of lines.
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// Returns whether there is no text.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Returns the whole text, without a newline at its end.
    pub fn text(&self) -> String {
        self.lines.join("\n")
    }

    /// Reports whether the pane fills the whole screen.
    pub fn is_full(&self) -> bool {
        self.full
    }

    /// Returns the text of the search.
    pub fn query(&self) -> &str {
        &self.query
    }

    /// Searches for a new pattern, starting at the first match; an error if the pattern is invalid.
    pub fn set_query(&mut self, text: &str) -> Result<(), String> {
        self.search = Search::new(text)?;
        text.clone_into(&mut self.query);
        self.current = 0;
        self.find();
        self.go(0);
        Ok(())
    }

    /// Returns `/web 2 of 7 `; `None` without a search.
    pub fn match_label(&self) -> Option<String> {
        let at = if self.matches.is_empty() { 0 } else { self.current + 1 };
        let label = || format!("/{} {at} of {} ", clean(&self.query), self.matches.len());
        (!self.query.is_empty()).then(label)
    }

    fn find(&mut self) {
        let lines = self.lines.iter().enumerate();
        let hits = lines.filter(|(_, line)| self.search.as_ref().is_some_and(|search| search.matches(line)));
        self.matches = hits.map(|(at, _)| at).collect();
        self.current = self.current.min(self.matches.len().saturating_sub(1));
    }

    fn go(&mut self, by: isize) {
        let count = self.matches.len() as isize;
        if count > 0 {
            self.current = (self.current as isize + by).rem_euclid(count) as usize;
            let at = self.matches[self.current];
            let line = &self.lines[at];
            let found = self.search.as_ref().and_then(|search| search.ranges(line).into_iter().next());
            let found = found.unwrap_or_default();
            if self.wrap {
                self.with_rows(|rows| self.scroll.show_part(at, line, found, Some(rows)));
            } else {
                self.scroll.show_part(at, line, found, None);
            }
        }
    }

    /// Reads the rows of the wrapped lines.
    fn with_rows<R>(&self, read: impl FnOnce(&RowIndex) -> R) -> R {
        let mut rows = self.rows.borrow_mut();
        let width = self.width.get();
        let known = rows.take().filter(|rows| rows.width() == width);
        read(rows.insert(known.unwrap_or_else(|| RowIndex::new(&self.lines, width))))
    }

    /// Wraps long lines, or stops it; the first visible line stays.
    fn toggle_wrap(&mut self) {
        self.wrap = !self.wrap;
        self.with_rows(|rows| self.scroll.rewrap(rows, self.wrap));
    }

    /// Handles a command; returns whether it was a movement or an option of the view.
    pub fn command(&mut self, command: Command) -> bool {
        match command {
            Command::SearchNext => self.go(1),
            Command::SearchPrevious => self.go(-1),
            Command::Wrap => self.toggle_wrap(),
            Command::FullScreen => self.full = !self.full,
            _ => return self.scroll.command(command),
        }
        true
    }

    /// Handles the mouse wheel.
    pub fn mouse(&self, event: MouseEvent) {
        self.scroll.mouse(event);
    }

    /// Draws the visible lines. `dress` styles a line, given its index and as much of its text as can be visible.
    pub fn draw<'a>(
        &'a self,
        theme: &Theme,
        frame: &mut Frame<'_>,
        area: Rect,
        dress: impl Fn(usize, &'a str) -> Line<'a>,
    ) {
        let (height, width) = (usize::from(area.height), usize::from(area.width));
        self.width.set(width);
        let (first, hidden) = if self.wrap {
            self.with_rows(|rows| rows.place(self.scroll.window(height, rows.len())))
        } else {
            (self.scroll.window(height, self.lines.len()), 0)
        };
        // A line may be megabytes long.
        let most = if self.wrap { width * (hidden + height) } else { self.scroll.left() + width + 1 };
        let current = self.matches.get(self.current).copied();
        let seen = self.lines.iter().enumerate().skip(first).take(height).map(|(number, line)| {
            let end = line.char_indices().nth(most).map_or(line.len(), |(at, _)| at);
            let mut dressed = dress(number, &line[..end]);
            let style = match self.matches.binary_search(&number) {
                Ok(_) if current == Some(number) => theme.log.found,
                Ok(_) => theme.table.flash,
                Err(_) => return dressed,
            };
            // The style also applies to parts with their own background.
            for span in &mut dressed.spans {
                span.style = span.style.patch(style);
            }
            dressed
        });
        if self.wrap {
            let seen: Vec<Line<'static>> =
                seen.flat_map(|line| wrapped(line, width)).skip(hidden).take(height).collect();
            return frame.render_widget(Paragraph::new(seen), area);
        }
        self.scroll.draw_unwrapped(seen.collect(), theme, frame, area);
    }
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;

    fn pane(lines: &[&str]) -> TextPane {
        let mut pane = TextPane::default();
        pane.set_lines(lines.iter().map(ToString::to_string).collect());
        pane
    }

    fn drawn(pane: &TextPane) -> String {
        let mut terminal = Terminal::new(TestBackend::new(20, 4)).unwrap();
        let plain = |_, text| Line::raw(text);
        terminal.draw(|frame| pane.draw(&Theme::linear(), frame, frame.area(), plain)).unwrap();
        terminal.backend().to_string()
    }

    #[test]
    fn the_end_of_wrapped_lines_can_be_reached_con_10() {
        let words = |line: usize| (0..20).map(|word| format!("w{line}-{word}")).collect::<Vec<_>>().join(" ");
        let mut pane = TextPane::default();
        pane.set_lines((0..3).map(words).collect());
        drawn(&pane);
        pane.command(Command::Wrap);
        pane.command(Command::Bottom);
        drawn(&pane);
        pane.command(Command::Bottom);
        assert!(drawn(&pane).contains("w2-19"), "{}", drawn(&pane));
        pane.set_query("w1-15").unwrap();
        assert!(drawn(&pane).contains("w1-15"), "{}", drawn(&pane));
        // The line at the top stays there.
        pane.command(Command::Wrap);
        assert!(drawn(&pane).contains("w1-0 "), "{}", drawn(&pane));
        pane.set_query("w0-15").unwrap();
        assert!(drawn(&pane).contains("w0-15"), "a match to the right: {}", drawn(&pane));
        pane.set_query("w0-1 ").unwrap();
        assert!(drawn(&pane).contains("w0-0 w0-1"), "back to the left: {}", drawn(&pane));
    }

    #[test]
    fn matches_are_gone_through_around_the_ends_and_outlive_another_text_con_10() {
        let mut pane = pane(&["a", "web 1", "b", "Web 2", "web 3"]);
        assert_eq!(pane.match_label(), None);
        pane.set_query("web").unwrap();
        assert_eq!(pane.match_label().as_deref(), Some("/web 1 of 3 "));
        assert!(pane.command(Command::SearchPrevious));
        assert_eq!(pane.match_label().as_deref(), Some("/web 3 of 3 "));
        // The new text has fewer matches.
        pane.set_lines(vec!["web".to_owned()]);
        assert_eq!(pane.match_label().as_deref(), Some("/web 1 of 1 "));
        pane.set_lines(Vec::new());
        assert_eq!(pane.match_label().as_deref(), Some("/web 0 of 0 "));
        assert!(pane.command(Command::SearchNext), "nothing to go to is no harm");
        assert!(pane.set_query("a(").unwrap_err().contains("unclosed group"));
        assert_eq!(pane.query(), "web", "an invalid pattern changes nothing");
        assert!(!pane.command(Command::Copy));
    }
}
