//! A long text in a window: scrolled, wrapped, searched with `/`. The screen styles each line, and only visible ones.

use crossterm::event::MouseEvent;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Line;
use ratatui::widgets::{Paragraph, Wrap};

use super::scroll::Scroll;
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
    scroll: Scroll,
}

impl TextPane {
    /// Replaces the text; the scroll position stays, as far as the new text reaches.
    pub fn set_lines(&mut self, lines: Vec<String>) {
        self.lines = lines;
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
            self.scroll.show(self.matches[self.current]);
        }
    }

    /// Handles a command; returns whether it was a movement or an option of the view.
    pub fn command(&mut self, command: Command) -> bool {
        match command {
            Command::SearchNext => self.go(1),
            Command::SearchPrevious => self.go(-1),
            Command::Wrap => self.wrap = !self.wrap,
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
        let top = self.scroll.window(height, self.lines.len());
        // A line may be megabytes long.
        let most = if self.wrap { width * height } else { self.scroll.left() + width + 1 };
        let current = self.matches.get(self.current).copied();
        let seen = self.lines.iter().enumerate().skip(top).take(height).map(|(number, line)| {
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
        let seen: Vec<Line<'a>> = seen.collect();
        if self.wrap {
            return frame.render_widget(Paragraph::new(seen).wrap(Wrap { trim: false }), area);
        }
        self.scroll.draw_unwrapped(seen, theme, frame, area);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pane(lines: &[&str]) -> TextPane {
        let mut pane = TextPane::default();
        pane.set_lines(lines.iter().map(ToString::to_string).collect());
        pane
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
