//! Draws an emulated terminal into an area.
//!
//! Never changes the emulator: resizing it to the area is the owner's work, which also notifies the container.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::widgets::Widget;
use tui_term::widget::{Cursor, PseudoTerminal};

use super::emulator::Emulator;

/// A view of an [`Emulator`].
pub struct TerminalView<'a> {
    emulator: &'a Emulator,
    style: Style,
    cursor: bool,
}

impl<'a> TerminalView<'a> {
    /// Creates a view with the terminal's default style and no cursor.
    pub fn new(emulator: &'a Emulator) -> Self {
        Self { emulator, style: Style::default(), cursor: false }
    }

    /// Sets the style of cells that the program did not colour.
    #[must_use]
    pub fn style(mut self, style: Style) -> Self {
        self.style = style;
        self
    }

    /// Shows the cursor while the program shows it and the view is not scrolled up.
    #[must_use]
    pub fn cursor(mut self, shown: bool) -> Self {
        self.cursor = shown;
        self
    }
}

impl Widget for TerminalView<'_> {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        let screen = self.emulator.screen();
        let cursor = Cursor::default()
            .visibility(self.cursor && !screen.hide_cursor() && self.emulator.scrolled() == 0)
            .symbol("█")
            .style(Style::default())
            // Reverse video also works without colours.
            .overlay_style(Style::default().add_modifier(Modifier::REVERSED));
        PseudoTerminal::new(screen).style(self.style).cursor(cursor).render(area, buffer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CON-8: the pane shows exactly what the program drew.
    #[test]
    fn the_grid_and_the_cursor_are_drawn() {
        let mut emulator = Emulator::new(2, 8);
        emulator.process(b"$ ls\r\n\x1b[1mab\x1b[0m");
        let area = Rect::new(0, 0, 8, 2);
        let mut buffer = Buffer::empty(area);
        TerminalView::new(&emulator).cursor(true).render(area, &mut buffer);
        let row = |y| (0..8).map(|x| buffer[(x, y)].symbol()).collect::<String>();
        assert_eq!(row(0).trim_end(), "$ ls");
        assert_eq!(row(1).trim_end(), "ab█");
        assert!(buffer[(0, 1)].modifier.contains(Modifier::BOLD));
    }
}
