//! The scroll position of a long text, and the keys that move it.

use std::cell::Cell;
use std::ops::Range;

use crossterm::event::{KeyCode, KeyEvent, MouseEvent, MouseEventKind};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Line;
use ratatui::widgets::Paragraph;
use unicode_width::UnicodeWidthStr;

use super::wrap::{CUT, RowIndex, row_of};
use crate::command::Command;
use crate::theme::Theme;

/// Lines that one step of the mouse wheel scrolls.
pub const WHEEL: usize = 3;
/// Columns that one step to the left or right scrolls.
const COLUMNS: usize = 8;

/// A scroll position. The window's height is known only after the first draw.
#[derive(Clone, Debug, Default)]
pub struct Scroll {
    top: Cell<usize>,
    left: Cell<usize>,
    height: Cell<usize>,
    /// The width of the last draw without wrapping; 0 before it.
    width: Cell<usize>,
    lines: Cell<usize>,
}

impl Scroll {
    /// Returns the first visible line for this window and text. Called while drawing.
    pub fn window(&self, height: usize, lines: usize) -> usize {
        self.height.set(height);
        self.lines.set(lines);
        let top = self.top.get().min(lines.saturating_sub(height));
        self.top.set(top);
        top
    }

    /// Draws the visible lines.
    pub fn draw(
        &self,
        lines: impl ExactSizeIterator<Item = Line<'static>>,
        frame: &mut Frame<'_>,
        area: Rect,
    ) {
        let height = usize::from(area.height);
        let top = self.window(height, lines.len());
        frame.render_widget(Paragraph::new(lines.skip(top).take(height).collect::<Vec<_>>()), area);
    }

    /// Draws visible lines that are not wrapped, from the first visible column; a row whose line continues is marked.
    pub fn draw_unwrapped(&self, lines: Vec<Line<'_>>, theme: &Theme, frame: &mut Frame<'_>, area: Rect) {
        self.width.set(usize::from(area.width));
        let left = self.left();
        let widths: Vec<usize> = lines.iter().map(Line::width).collect();
        let text = Paragraph::new(lines).scroll((0, u16::try_from(left).unwrap_or(u16::MAX)));
        frame.render_widget(text, area);
        let end = left + usize::from(area.width);
        if theme.spoken || area.width == 0 {
            return;
        }
        for (width, row) in widths.into_iter().zip(area.rows()) {
            if width > end
                && let Some(cell) = frame.buffer_mut().cell_mut((row.right() - 1, row.y))
            {
                cell.set_symbol(CUT).set_style(theme.body.accent);
            }
        }
    }

    /// Returns the first visible column.
    pub fn left(&self) -> usize {
        self.left.get()
    }

    /// Scrolls a line into view.
    pub fn show(&self, line: usize) {
        let (top, height) = (self.top.get(), self.height.get().max(1));
        if line < top || line - top >= height {
            self.top.set(line.saturating_sub(height / 3));
        }
    }

    /// Scrolls a part of a line into view; `rows` are those of the lines if they are wrapped.
    pub fn show_part(&self, at: usize, line: &str, part: Range<usize>, rows: Option<&RowIndex>) {
        if let Some(rows) = rows {
            self.show(rows.row(at) + row_of(line, part.start, rows.width()));
        } else {
            self.show(at);
            self.show_columns(line[..part.start].width()..line[..part.end].width());
        }
    }

    /// Scrolls to the left or right until these columns are visible.
    fn show_columns(&self, columns: Range<usize>) {
        // The last column may have the mark of a line that continues.
        let (left, room) = (self.left.get(), self.width.get().saturating_sub(1));
        if room > 0 && (columns.start < left || columns.end > left + room) {
            self.left.set(if columns.end <= room { 0 } else { columns.start.saturating_sub(room / 3) });
        }
    }

    /// Keeps the first visible line when wrapping begins or ends.
    pub fn rewrap(&self, rows: &RowIndex, begins: bool) {
        let top = self.last_drawn().start;
        self.top.set(if begins { rows.row(top) } else { rows.line(top) });
    }

    /// Handles a command; returns whether it was a movement.
    pub fn command(&self, command: Command) -> bool {
        if matches!(command, Command::Left | Command::Right) {
            self.left.set(column(command, self.left.get()));
            return true;
        }
        if command == Command::Bottom {
            // The next draw knows the last line: the text may have changed since the last one.
            self.top.set(usize::MAX);
            return true;
        }
        let top = top_after(command, self.top.get(), self.height.get(), self.lines.get());
        self.top.set(top.unwrap_or(self.top.get()));
        top.is_some()
    }

    /// Handles a plain key where no key bindings apply; returns whether it was a movement.
    pub fn key(&self, key: KeyEvent) -> bool {
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
    pub fn mouse(&self, event: MouseEvent) {
        let top = top_after_wheel(event, self.top.get(), self.height.get(), self.lines.get());
        self.top.set(top.unwrap_or(self.top.get()));
    }

    /// Returns the first visible line and the lines below it that were visible in the last draw.
    pub fn last_drawn(&self) -> Range<usize> {
        let top = self.top.get();
        top..top.saturating_add(self.height.get()).min(self.lines.get())
    }
}

/// Returns the first visible line after a command, for a window of this height; `None` if it is not a movement.
fn top_after(command: Command, top: usize, height: usize, lines: usize) -> Option<usize> {
    let last = lines.saturating_sub(height);
    let page = height.max(2) - 1;
    let to = match command {
        Command::Up => top.saturating_sub(1),
        Command::Down => top.saturating_add(1),
        Command::Top => 0,
        Command::Bottom => last,
        Command::PageUp => top.saturating_sub(page),
        Command::PageDown => top.saturating_add(page),
        _ => return None,
    };
    Some(to.min(last))
}

/// Returns the first visible line after a step of the mouse wheel; `None` for other events.
fn top_after_wheel(event: MouseEvent, top: usize, height: usize, lines: usize) -> Option<usize> {
    let to = match event.kind {
        MouseEventKind::ScrollDown => top.saturating_add(WHEEL),
        MouseEventKind::ScrollUp => top.saturating_sub(WHEEL),
        _ => return None,
    };
    Some(to.min(lines.saturating_sub(height)))
}

/// Returns the first visible column after a step to the left or right.
pub fn column(command: Command, left: usize) -> usize {
    if command == Command::Left { left.saturating_sub(COLUMNS) } else { left + COLUMNS }
}
