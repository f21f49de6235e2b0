//! The output of the model: drawn, with mouse selection, or read line by line (CON-20).

use std::io::Stdout;

use crossterm::event::{MouseButton, MouseEvent, MouseEventKind};
use jiff::Timestamp;
use ratatui::buffer::Buffer;
use ratatui::layout::Position;

use super::linear::{Reader, SpeechWriter};
use super::model::Model;
use super::terminal::{self, Screen};
use super::view::{self, ascii::in_ascii, links, selection::Selection};

/// The output mode.
pub(crate) enum Display {
    /// Drawn on the terminal's screen.
    Drawn(Box<DrawnScreen>),
    /// Printed line by line (linear mode).
    Read(Box<Reader>, SpeechWriter<Stdout>),
}

/// A screen, and the mouse selection on it.
pub(crate) struct DrawnScreen {
    pub(crate) screen: Screen,
    /// Draws with ASCII only.
    ascii: bool,
    /// Prints URLs as hyperlinks.
    links: bool,
    /// The position at which the mouse button was pressed; `None` once it is released.
    down: Option<Position>,
    /// The selected text.
    pub(crate) selection: Option<Selection>,
    /// The last frame, from which the mouse selects.
    last: Buffer,
}

impl DrawnScreen {
    /// Takes over the terminal.
    pub(crate) fn new(ascii: bool, links: bool) -> std::io::Result<Self> {
        Ok(Self {
            screen: Screen::new()?,
            ascii,
            links,
            down: None,
            selection: None,
            last: Buffer::default(),
        })
    }

    /// Draws the model and the selection.
    pub(crate) fn draw(&mut self, model: &Model, now: Timestamp) -> std::io::Result<()> {
        let Self { screen, ascii, links, selection, last, .. } = self;
        terminal::in_loop(|| {
            screen.draw(|frame| {
                view::draw(model, now, frame);
                if *ascii {
                    in_ascii(frame.buffer_mut());
                }
                if let Some(selection) = selection {
                    selection.paint(frame.buffer_mut());
                }
                // The mouse selects text from this copy of the frame.
                last.clone_from(frame.buffer_mut());
                if *links {
                    links::mark(frame.buffer_mut(), &model.shared.anchors.borrow());
                }
            })
        })
        .map(drop)
    }

    /// Reports whether a mouse event selects text; then no other component receives it.
    pub(crate) fn selects(&mut self, mouse: MouseEvent) -> bool {
        let place = Position { x: mouse.column, y: mouse.row };
        match mouse.kind {
            MouseEventKind::Down(MouseButton::Left) => {
                self.down = Some(place);
                self.selection = None;
                false
            }
            MouseEventKind::Drag(MouseButton::Left) => {
                match (&mut self.selection, self.down) {
                    (Some(selection), _) => selection.reach(place),
                    (None, Some(from)) => self.selection = Some(Selection::new(&self.last, from, place)),
                    // The button was pressed in another window.
                    (None, None) => {}
                }
                true
            }
            MouseEventKind::Up(MouseButton::Left) => false,
            _ => {
                self.selection = None;
                false
            }
        }
    }

    /// Returns the selected text when the button is released. The selection stays visible until the next key.
    pub(crate) fn selected(&mut self, mouse: MouseEvent) -> Option<String> {
        if mouse.kind != MouseEventKind::Up(MouseButton::Left) {
            return None;
        }
        self.down = None;
        self.selection.map(|selection| selection.text(&self.last)).filter(|text| !text.trim().is_empty())
    }
}
