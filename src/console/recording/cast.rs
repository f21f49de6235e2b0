//! Draws without a terminal, and records the output as a cast (asciicast v2, for asciinema).

use std::cell::RefCell;
use std::io::{self, Write};
use std::rc::Rc;
use std::time::Duration;

use ratatui::backend::CrosstermBackend;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::{Frame, Terminal, TerminalOptions, Viewport};
use serde_json::json;

/// The maximum size of a cast in bytes.
const MAX_BYTES: usize = 256 * 1024 * 1024;

/// A session as terminal output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cast {
    size: (u16, u16),
    events: Vec<(Duration, &'static str, String)>,
}

impl Cast {
    /// Returns the content of the file.
    pub fn text(&self) -> String {
        let (width, height) = self.size;
        let mut text = format!("{{\"version\":2,\"width\":{width},\"height\":{height}}}\n");
        for (at, code, data) in &self.events {
            text += &(json!([at.as_secs_f64(), code, data]).to_string() + "\n");
        }
        text
    }
}

/// Collects the bytes that a terminal would receive.
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

/// A drawing surface of a given size.
pub(super) struct CastRenderer {
    sink: Sink,
    terminal: Terminal<CrosstermBackend<Sink>>,
    last_frame: Buffer,
    size: (u16, u16),
    events: Vec<(Duration, &'static str, String)>,
    bytes: usize,
}

fn terminal(sink: &Sink, columns: u16, rows: u16) -> io::Result<Terminal<CrosstermBackend<Sink>>> {
    let viewport = Viewport::Fixed(Rect::new(0, 0, columns, rows));
    Terminal::with_options(CrosstermBackend::new(sink.clone()), TerminalOptions { viewport })
}

impl CastRenderer {
    pub(super) fn new(columns: u16, rows: u16) -> io::Result<Self> {
        let sink = Sink::default();
        let terminal = terminal(&sink, columns, rows)?;
        Ok(Self {
            sink,
            terminal,
            last_frame: Buffer::empty(Rect::new(0, 0, columns, rows)),
            size: (columns, rows),
            events: Vec::new(),
            bytes: 0,
        })
    }

    /// Changes its size.
    pub(super) fn resize(&mut self, columns: u16, rows: u16) {
        // This cannot fail, because it writes into memory.
        if let Ok(terminal) = terminal(&self.sink, columns, rows) {
            self.terminal = terminal;
            self.last_frame = Buffer::empty(Rect::new(0, 0, columns, rows));
        }
    }

    pub(super) fn draw(&mut self, at: Duration, view: impl FnOnce(&mut Frame<'_>)) {
        if let Ok(drawn) = self.terminal.draw(view) {
            self.last_frame.clone_from(drawn.buffer);
        }
        let sent = std::mem::take(&mut *self.sink.0.borrow_mut());
        let sent = String::from_utf8_lossy(&sent).into_owned();
        self.bytes = self.bytes.saturating_add(sent.len());
        if self.bytes <= MAX_BYTES {
            self.events.push((at, "o", sent));
        }
    }

    pub(super) fn last_frame(&self) -> &Buffer {
        &self.last_frame
    }

    pub(super) fn cast(self) -> Cast {
        Cast { size: self.size, events: self.events }
    }
}
