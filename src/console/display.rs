//! How the model is shown: drawn, with what the mouse selects, or read line by line (CON-20).

use std::io::Stdout;

use crossterm::event::{MouseButton, MouseEvent, MouseEventKind};
use jiff::Timestamp;
use ratatui::buffer::Buffer;
use ratatui::layout::Position;

use super::linear::{Reader, Voice};
use super::model::Model;
use super::terminal::{self, Screen};
use super::view::{self, ascii::in_ascii, links, selection::Selection};

/// How the model is shown.
pub(crate) enum Display {
    /// On the terminal's screen.
    Drawn(Box<Drawn>),
    /// Line by line.
    Read(Box<Reader>, Voice<Stdout>),
}

/// A screen, and what the mouse selects on it.
pub(crate) struct Drawn {
    pub(crate) screen: Screen,
    /// In ASCII alone.
    ascii: bool,
    /// With links that the terminal opens.
    links: bool,
    /// Where the button of the mouse went down; it is down for as long.
    down: Option<Position>,
    /// What is selected.
    pub(crate) selection: Option<Selection>,
    /// What was drawn last: what the mouse is over.
    last: Buffer,
}

impl Drawn {
    /// Of the terminal that is taken.
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

    /// Draws the model with what is selected.
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
                // What the mouse selects is text.
                last.clone_from(frame.buffer_mut());
                if *links {
                    links::mark(frame.buffer_mut(), &model.shared.anchors.borrow());
                }
            })
        })
        .map(drop)
    }

    /// Whether a move of the mouse selects text; then it is nobody else's.
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
                    // The button went down in another window.
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

    /// What was selected when the button came up again. It stays in sight until the next key.
    pub(crate) fn selected(&mut self, mouse: MouseEvent) -> Option<String> {
        if mouse.kind != MouseEventKind::Up(MouseButton::Left) {
            return None;
        }
        self.down = None;
        self.selection.map(|selection| selection.text(&self.last)).filter(|text| !text.trim().is_empty())
    }
}
