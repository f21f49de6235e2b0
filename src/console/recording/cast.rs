//! Drawing without a terminal, and what one would have been sent as a cast (asciicast v2, which asciinema plays).

use std::cell::RefCell;
use std::io::{self, Write};
use std::rc::Rc;
use std::time::Duration;

use ratatui::backend::CrosstermBackend;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::{Frame, Terminal, TerminalOptions, Viewport};
use serde_json::json;

/// Bytes of a cast that are kept.
const MOST_BYTES: usize = 256 * 1024 * 1024;

/// A session as a terminal's output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cast {
    size: (u16, u16),
    events: Vec<(Duration, &'static str, String)>,
}

impl Cast {
    /// The file's text.
    pub fn text(&self) -> String {
        let (width, height) = self.size;
        let mut text = json!({"version": 2, "width": width, "height": height}).to_string() + "\n";
        for (at, code, data) in &self.events {
            text += &(json!([at.as_secs_f64(), code, data]).to_string() + "\n");
        }
        text
    }
}

/// What a terminal would be sent.
#[derive(Clone, Default)]
struct Sink(Rc<RefCell<Vec<u8>>>);

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Something to draw on, of a size of its own.
pub(super) struct Drawing {
    sink: Sink,
    terminal: Terminal<CrosstermBackend<Sink>>,
    shown: Buffer,
    size: (u16, u16),
    events: Vec<(Duration, &'static str, String)>,
    bytes: usize,
}

fn terminal(sink: &Sink, columns: u16, rows: u16) -> io::Result<Terminal<CrosstermBackend<Sink>>> {
    let viewport = Viewport::Fixed(Rect::new(0, 0, columns, rows));
    Terminal::with_options(CrosstermBackend::new(sink.clone()), TerminalOptions { viewport })
}

impl Drawing {
    pub(super) fn new(columns: u16, rows: u16) -> io::Result<Self> {
        let sink = Sink::default();
        let terminal = terminal(&sink, columns, rows)?;
        Ok(Self {
            sink,
            terminal,
            shown: Buffer::empty(Rect::new(0, 0, columns, rows)),
            size: (columns, rows),
            events: Vec::new(),
            bytes: 0,
        })
    }

    /// It is of this size from now on.
    pub(super) fn resize(&mut self, columns: u16, rows: u16) {
        // Nothing of it can fail: it writes into memory.
        if let Ok(terminal) = terminal(&self.sink, columns, rows) {
            self.terminal = terminal;
            self.shown = Buffer::empty(Rect::new(0, 0, columns, rows));
        }
    }

    pub(super) fn draw(&mut self, at: Duration, view: impl FnOnce(&mut Frame<'_>)) {
        if let Ok(drawn) = self.terminal.draw(view) {
            self.shown.clone_from(drawn.buffer);
        }
        let sent = std::mem::take(&mut *self.sink.0.borrow_mut());
        let sent = String::from_utf8_lossy(&sent).into_owned();
        self.bytes = self.bytes.saturating_add(sent.len());
        if self.bytes <= MOST_BYTES {
            self.events.push((at, "o", sent));
        }
    }

    /// What was drawn last.
    pub(super) fn shown(&self) -> &Buffer {
        &self.shown
    }

    pub(super) fn cast(self) -> Cast {
        Cast { size: self.size, events: self.events }
    }
}
