//! The cursor of a list, and the visible window of the list.

use std::cell::Cell;
use std::ops::Range;

use crate::command::Command;

/// The cursor of a list. The owner passes the length of the list to each call, because it may change between a key and
/// a draw.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cursor {
    at: usize,
    /// Height of the window in lines, as of the last draw.
    height: Cell<usize>,
    top: Cell<usize>,
}

impl Cursor {
    /// Returns the current line of a list of `lines` lines.
    pub(crate) fn of(&self, lines: usize) -> usize {
        self.at.min(lines.saturating_sub(1))
    }

    /// Moves the cursor to a line.
    pub(crate) fn set_line(&mut self, line: usize) {
        self.at = line;
    }

    /// Handles a command; returns whether it was a movement.
    pub(crate) fn command(&mut self, command: Command, lines: usize) -> bool {
        let (at, last) = (self.of(lines), lines.saturating_sub(1));
        let page = self.height.get().max(2) - 1;
        self.at = match command {
            Command::Up => at.saturating_sub(1),
            Command::Down => (at + 1).min(last),
            Command::PageUp => at.saturating_sub(page),
            Command::PageDown => (at + page).min(last),
            Command::Top => 0,
            Command::Bottom => last,
            _ => return false,
        };
        true
    }

    /// Returns the visible lines in a window of this height: those around the cursor, scrolled as little as possible.
    /// Called while drawing.
    pub(crate) fn window(&self, height: usize, lines: usize) -> Range<usize> {
        let height = height.max(1);
        let at = self.of(lines);
        let most = lines.saturating_sub(height);
        let top = self.top.get().clamp((at + 1).saturating_sub(height), at).min(most);
        self.height.set(height);
        self.top.set(top);
        top..(top + height).min(lines)
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
