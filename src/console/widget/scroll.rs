//! The scroll position of a long text, and the keys that move it.

use std::cell::Cell;

use crossterm::event::{KeyCode, KeyEvent, MouseEvent, MouseEventKind};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Line;
use ratatui::widgets::Paragraph;

use crate::command::Command;

/// A scroll position. The window's height is known only after the first draw.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scroll {
    top: Cell<usize>,
    left: Cell<usize>,
    height: Cell<usize>,
    lines: Cell<usize>,
}

impl Scroll {
    /// Returns the first visible line for this window and text. Called while drawing.
    pub(crate) fn window(&self, height: usize, lines: usize) -> usize {
        self.height.set(height);
        self.lines.set(lines);
        let top = self.top.get().min(lines.saturating_sub(height));
        self.top.set(top);
        top
    }

    /// Draws the visible lines.
    pub(crate) fn draw(
        &self,
        lines: impl ExactSizeIterator<Item = Line<'static>>,
        frame: &mut Frame<'_>,
        area: Rect,
    ) {
        let height = usize::from(area.height);
        let top = self.window(height, lines.len());
        frame.render_widget(Paragraph::new(lines.skip(top).take(height).collect::<Vec<_>>()), area);
    }

    /// Returns the first visible column.
    pub(crate) fn left(&self) -> usize {
        self.left.get()
    }

    /// Scrolls a line into view.
    pub(crate) fn show(&self, line: usize) {
        let (top, height) = (self.top.get(), self.height.get().max(1));
        if line < top || line >= top + height {
            self.top.set(line.saturating_sub(height / 3));
        }
    }

    /// Handles a command; returns whether it was a movement.
    pub(crate) fn command(&self, command: Command) -> bool {
        let page = self.height.get().max(2) - 1;
        let last = self.lines.get().saturating_sub(self.height.get());
        let top = self.top.get();
        self.top.set(match command {
            Command::Up => top.saturating_sub(1),
            Command::Down => (top + 1).min(last),
            Command::Top => 0,
            Command::Bottom => last,
            Command::PageUp => top.saturating_sub(page),
            Command::PageDown => (top + page).min(last),
            Command::Left => {
                self.left.set(self.left.get().saturating_sub(8));
                top
            }
            Command::Right => {
                self.left.set(self.left.get() + 8);
                top
            }
            _ => return false,
        });
        true
    }

    /// Handles a plain key where no key bindings apply; returns whether it was a movement.
    pub(crate) fn key(&self, key: KeyEvent) -> bool {
        self.command(match key.code {
            KeyCode::Up | KeyCode::Char('k') => Command::Up,
            KeyCode::Down | KeyCode::Char('j') => Command::Down,
            KeyCode::PageUp => Command::PageUp,
            KeyCode::PageDown | KeyCode::Char(' ') => Command::PageDown,
            KeyCode::Home | KeyCode::Char('g') => Command::Top,
            KeyCode::End | KeyCode::Char('G') => Command::Bottom,
            _ => return false,
        })
    }

    /// Handles the mouse wheel.
    pub(crate) fn mouse(&self, event: MouseEvent) {
        let command = match event.kind {
            MouseEventKind::ScrollDown => Command::Down,
            MouseEventKind::ScrollUp => Command::Up,
            _ => return,
        };
        for _ in 0..3 {
            self.command(command);
        }
    }
}
