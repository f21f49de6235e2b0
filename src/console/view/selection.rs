//! Text selection with the mouse: from the position of the button press to the current one, within the frame where it
//! started (CON-20).

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::style::Modifier;
use unicode_width::UnicodeWidthStr;

use super::frame;

/// A selection in the drawing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Selection {
    from: Position,
    to: Position,
    /// The inside of the frame where the selection started.
    within: Rect,
}

impl Selection {
    /// Creates a selection in the innermost frame around its start.
    pub(crate) fn new(buffer: &Buffer, from: Position, to: Position) -> Self {
        let mut within = buffer.area;
        while let Some(frame) =
            frame::outermost(buffer, within).into_iter().find(|frame| frame.contains(from))
        {
            let inside = frame::inside(frame);
            if !inside.contains(from) {
                break;
            }
            within = inside;
        }
        let mut selection = Self { from, to: from, within };
        selection.reach(to);
        selection
    }

    /// Moves the end of the selection.
    pub(crate) fn reach(&mut self, to: Position) {
        let (right, bottom) = (self.within.right().saturating_sub(1), self.within.bottom().saturating_sub(1));
        self.to = Position {
            x: to.x.clamp(self.within.x, right.max(self.within.x)),
            y: to.y.clamp(self.within.y, bottom.max(self.within.y)),
        };
    }

    /// Returns the selected parts of lines, from the top.
    fn lines(&self) -> impl Iterator<Item = Rect> {
        let order = |place: Position| (place.y, place.x);
        let (first, last) =
            if order(self.from) <= order(self.to) { (self.from, self.to) } else { (self.to, self.from) };
        let within = self.within;
        (first.y..=last.y).map(move |y| {
            let left = if y == first.y { first.x } else { within.x };
            let right = if y == last.y { last.x + 1 } else { within.right() };
            Rect { x: left, y, width: right.saturating_sub(left), height: 1 }
        })
    }

    /// Highlights the selection.
    pub(crate) fn paint(&self, buffer: &mut Buffer) {
        for line in self.lines() {
            for place in line.intersection(buffer.area).positions() {
                if let Some(cell) = buffer.cell_mut(place) {
                    cell.modifier.toggle(Modifier::REVERSED);
                }
            }
        }
    }

    /// Returns the selected text, line by line, without trailing spaces.
    pub(crate) fn text(&self, buffer: &Buffer) -> String {
        let lines = self.lines().map(|line| {
            let (mut text, mut skip) = (String::new(), 0);
            for place in line.intersection(buffer.area).positions() {
                if skip > 0 {
                    skip -= 1;
                    continue;
                }
                let symbol = buffer[place].symbol();
                skip = symbol.width().saturating_sub(1);
                text.push_str(symbol);
            }
            text.trim_end().to_owned()
        });
        lines.collect::<Vec<_>>().join("\n")
    }
}

#[cfg(test)]
mod tests {
    use ratatui::style::Style;

    use super::*;

    fn buffer_of(lines: &[&str]) -> Buffer {
        let mut buffer = Buffer::empty(Rect::new(0, 0, 12, lines.len() as u16));
        for (y, line) in lines.iter().enumerate() {
            buffer.set_string(0, y as u16, line, Style::default());
        }
        buffer
    }

    #[test]
    fn a_dragged_selection_is_copied_within_its_frame_con_20() {
        let buffer =
            buffer_of(&["╭ a ─╮╭ b ─╮", "│one ││two │", "│日本││four│", "│six ││    │", "╰────╯╰────╯"]);
        for (from, to, text) in [
            ((1, 1), (3, 1), "one"),
            ((2, 1), (2, 2), "ne\n日"),
            ((2, 2), (2, 1), "ne\n日"),
            // A selection enters no other frame, and does not leave its own.
            ((1, 1), (11, 3), "one\n日本\nsix"),
            ((7, 1), (0, 9), "two\nfour"),
            ((8, 2), (8, 2), "o"),
            // A selection that starts on a border is not bounded by the frame.
            ((0, 0), (11, 0), "╭ a ─╮╭ b ─╮"),
        ] {
            let selection = Selection::new(&buffer, from.into(), to.into());
            assert_eq!(selection.text(&buffer).trim_end(), text, "{from:?} to {to:?}");
        }
    }

    #[test]
    fn a_selection_stays_visible_at_any_window_size_con_20() {
        let mut buffer = buffer_of(&["abc", "def"]);
        let selection = Selection::new(&buffer, (1, 0).into(), (1, 1).into());
        selection.paint(&mut buffer);
        let turned = |x: u16, y: u16| buffer[(x, y)].modifier.contains(Modifier::REVERSED);
        assert!(
            !turned(0, 0) && turned(1, 0) && turned(11, 0) && turned(0, 1) && turned(1, 1) && !turned(2, 1)
        );
        // The window became smaller meanwhile.
        let mut small = Buffer::empty(Rect::new(0, 0, 2, 1));
        selection.paint(&mut small);
        assert_eq!(selection.text(&small).trim(), "");
    }
}
