//! The cursor of a list, and the visible window of the list. A page is the window's height, less one line.

use std::cell::Cell;
use std::ops::Range;

use crossterm::event::{MouseEvent, MouseEventKind};

use super::scroll::WHEEL;
use crate::command::Command;

/// The window of a list whose owner knows the line of the cursor, such as that of the selected object. The owner passes
/// the length of the list to each call, because it may change between a key and a draw.
#[derive(Clone, Debug, Default)]
pub struct Window {
    /// Height in lines, as of the last draw.
    height: Cell<usize>,
    top: Cell<usize>,
}

impl Window {
    /// Returns the line to which a command moves the cursor; `None` if it is not a movement.
    pub fn step(&self, command: Command, at: usize, lines: usize) -> Option<usize> {
        let last = lines.saturating_sub(1);
        let page = self.height.get().max(2) - 1;
        let to = match command {
            Command::Up => at.saturating_sub(1),
            Command::Down => at + 1,
            Command::PageUp => at.saturating_sub(page),
            Command::PageDown => at + page,
            Command::Top => 0,
            Command::Bottom => last,
            _ => return None,
        };
        Some(to.min(last))
    }

    /// Returns the line to which the mouse wheel moves the cursor; `None` for other events.
    pub fn wheel(event: MouseEvent, at: usize, lines: usize) -> Option<usize> {
        let to = match event.kind {
            MouseEventKind::ScrollDown => at + WHEEL,
            MouseEventKind::ScrollUp => at.saturating_sub(WHEEL),
            _ => return None,
        };
        Some(to.min(lines.saturating_sub(1)))
    }

    /// Returns the visible lines in a window of this height: those around the cursor, scrolled as little as possible.
    /// Called while drawing.
    pub fn around(&self, at: usize, height: usize, lines: usize) -> Range<usize> {
        let height = height.max(1);
        let at = at.min(lines.saturating_sub(1));
        let most = lines.saturating_sub(height);
        let top = self.top.get().clamp((at + 1).saturating_sub(height), at).min(most);
        self.height.set(height);
        self.top.set(top);
        top..(top + height).min(lines)
    }

    /// Returns the lines that were visible in the last draw, if the list is that long.
    pub fn last_drawn(&self) -> Range<usize> {
        let top = self.top.get();
        top..top + self.height.get()
    }
}

/// The cursor of a list of lines without an identity.
#[derive(Clone, Debug, Default)]
pub struct Cursor {
    at: usize,
    window: Window,
}

impl Cursor {
    /// Returns the current line of a list of `lines` lines.
    pub fn of(&self, lines: usize) -> usize {
        self.at.min(lines.saturating_sub(1))
    }

    /// Moves the cursor to a line.
    pub fn set_line(&mut self, line: usize) {
        self.at = line;
    }

    /// Handles a command; returns whether it was a movement.
    pub fn command(&mut self, command: Command, lines: usize) -> bool {
        let to = self.window.step(command, self.of(lines), lines);
        self.at = to.unwrap_or(self.at);
        to.is_some()
    }

    /// Returns the visible lines in a window of this height. Called while drawing.
    pub fn window(&self, height: usize, lines: usize) -> Range<usize> {
        self.window.around(self.of(lines), height, lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_cursor_always_stays_in_the_window_con_1(
            steps in proptest::collection::vec((0usize..6, 0usize..30, 0usize..12), 1..60),
        ) {
            let mut cursor = Cursor::default();
            let moves = [Command::Up, Command::Down, Command::PageUp, Command::PageDown, Command::Top, Command::Bottom];
            for (step, lines, height) in steps {
                prop_assert!(cursor.command(moves[step], lines));
                let window = cursor.window(height, lines);
                prop_assert!(window.end <= lines && window.len() <= height.max(1));
                prop_assert!(lines == 0 || window.contains(&cursor.of(lines)));
                // No line is left empty while the list has lines above.
                prop_assert_eq!(window.len(), lines.min(height.max(1)));
            }
        }
    }

    #[test]
    fn the_window_stays_until_the_cursor_leaves_it_con_1() {
        let mut cursor = Cursor::default();
        cursor.set_line(5);
        assert_eq!(cursor.window(3, 10), 3..6);
        assert!(cursor.command(Command::Up, 10) && !cursor.command(Command::Enter, 10));
        assert_eq!((cursor.of(10), cursor.window(3, 10)), (4, 3..6));
        cursor.command(Command::PageUp, 10);
        assert_eq!((cursor.of(10), cursor.window(3, 10)), (2, 2..5));
    }
}
