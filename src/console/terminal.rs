//! The user's terminal: taken over on entry, restored on every way out.
//!
//! Invariant: after [`Guard`] is dropped, or after a panic inside the loop, the terminal is in its original state.
//! Panics in other parts of the process (a control loop of an in-process cluster) are contained by their own
//! supervisors; they go to the log and leave the screen alone.

use std::cell::Cell;
use std::io::{self, IsTerminal, Stdout, Write};
use std::mem::ManuallyDrop;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use crossterm::event::{
    DisableBracketedPaste, DisableFocusChange, DisableMouseCapture, EnableBracketedPaste, EnableFocusChange,
    EnableMouseCapture,
};
use crossterm::terminal::{
    BeginSynchronizedUpdate, EndSynchronizedUpdate, EnterAlternateScreen, LeaveAlternateScreen,
    disable_raw_mode, enable_raw_mode,
};
use crossterm::{cursor, execute, queue};
use ratatui::backend::CrosstermBackend;
use ratatui::buffer::Buffer;
use ratatui::{Frame, Terminal};

static ACQUIRED: AtomicBool = AtomicBool::new(false);
/// The console draws on the taken terminal.
static DRAWING: AtomicBool = AtomicBool::new(false);

thread_local! {
    static IN_LOOP: Cell<bool> = const { Cell::new(false) };
    /// A panic on this thread would be caught now, and the console would continue.
    static CONTAINED: Cell<bool> = const { Cell::new(false) };
}

/// Reports whether there is a terminal to draw on.
pub(crate) fn present() -> bool {
    io::stdout().is_terminal() && io::stdin().is_terminal()
}

/// The receiver of mouse events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MouseCapture {
    /// The console.
    Captured,
    /// The terminal.
    Released,
}

/// The parts of the terminal to take over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TerminalMode {
    /// The alternate screen, for drawing.
    Whole(MouseCapture),
    /// The keys alone: output continues below the earlier content, and remains.
    Keys,
}

/// Holds the terminal until dropped.
#[derive(Debug)]
pub(crate) struct Guard {
    hold: TerminalMode,
}

impl Guard {
    /// Takes over the terminal in raw mode.
    pub(crate) fn take(hold: TerminalMode) -> io::Result<Self> {
        install_hook();
        enable_raw_mode()?;
        DRAWING.store(hold != TerminalMode::Keys, Ordering::SeqCst);
        ACQUIRED.store(true, Ordering::SeqCst);
        let guard = Self { hold };
        execute!(io::stdout(), EnableBracketedPaste, EnableFocusChange)?;
        if let TerminalMode::Whole(mouse) = hold {
            execute!(io::stdout(), EnterAlternateScreen, cursor::Hide)?;
            if mouse == MouseCapture::Captured {
                execute!(io::stdout(), EnableMouseCapture)?;
            }
        }
        Ok(guard)
    }

    /// Restores the terminal while `during` runs, then takes it over again.
    pub(crate) async fn lend<T>(&self, during: impl Future<Output = T>) -> io::Result<T> {
        restore();
        let result = during.await;
        let taken = Self::take(self.hold)?;
        // The outer guard remains responsible for restoring the terminal.
        std::mem::forget(taken);
        Ok(result)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        restore();
    }
}

/// Restores the terminal if the console has taken it over; safe to call from anywhere, and twice.
pub fn restore() {
    if !ACQUIRED.swap(false, Ordering::SeqCst) {
        return;
    }
    base::stdio::replace_dead();
    let mut out = io::stdout();
    // A closed terminal cannot be restored.
    let _ = execute!(out, DisableFocusChange, DisableBracketedPaste);
    if DRAWING.load(Ordering::SeqCst) {
        let _ = execute!(out, DisableMouseCapture, LeaveAlternateScreen, cursor::Show);
    }
    let _ = disable_raw_mode();
    let _ = out.flush();
}

/// The drawing surface.
///
/// Ratatui's terminal is never dropped: its destructor would show the cursor and, if the user's terminal is closed,
/// print an error, which panics on a closed terminal. [`Guard`] shows the cursor. A console creates only one screen.
#[derive(Debug)]
pub(crate) struct Screen(ManuallyDrop<Terminal<CrosstermBackend<Stdout>>>);

impl Screen {
    /// Creates a surface that covers the whole terminal.
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self(ManuallyDrop::new(Terminal::new(CrosstermBackend::new(io::stdout()))?)))
    }

    /// Draws the difference to the last frame, atomically if the terminal supports it (mode 2026), and returns the
    /// present content.
    pub(crate) fn draw(&mut self, view: impl FnOnce(&mut Frame<'_>)) -> io::Result<&Buffer> {
        queue!(io::stdout(), BeginSynchronizedUpdate)?;
        let buffer = self.0.draw(view).map(|frame| frame.buffer);
        execute!(io::stdout(), EndSynchronizedUpdate)?;
        buffer
    }

    /// Discards the last frame, after another program drew on the terminal or the window changed its size for a moment.
    /// Ratatui's own `clear` would request the cursor position and wait for a reply that the event stream has consumed.
    pub(crate) fn forget(&mut self) -> io::Result<()> {
        let size = self.0.size()?;
        self.0.resize(size.into())
    }
}

/// Runs a part of the loop; a panic in it restores the terminal before the message is printed.
pub(crate) fn in_loop<T>(part: impl FnOnce() -> T) -> T {
    IN_LOOP.set(true);
    let result = part();
    IN_LOOP.set(false);
    result
}

/// Runs code of one screen; a panic in it closes that screen but not the console. The error is the panic message.
pub(crate) fn contained<T>(part: impl FnOnce() -> T) -> Result<T, String> {
    let before = CONTAINED.replace(true);
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(part));
    CONTAINED.set(before);
    result.map_err(|panic| base::panics::panic_text(panic.as_ref()))
}

fn install_hook() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if IN_LOOP.get() && !CONTAINED.get() {
                restore();
            }
            if ACQUIRED.load(Ordering::SeqCst) {
                tracing::error!("{panic}");
            } else {
                before(panic);
            }
        }));
    });
}

/// Reports whether the user's locale supports more than ASCII.
pub(crate) fn is_unicode(variable: impl Fn(&str) -> Option<String>) -> bool {
    let set = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().filter_map(variable);
    let locale = set.into_iter().find(|value| !value.is_empty());
    // Containers set none of these variables, but the terminal in front of them supports Unicode.
    locale.is_none_or(|locale| {
        let locale = locale.to_lowercase();
        locale.ends_with("utf-8") || locale.ends_with("utf8") || locale == "c" || locale == "posix"
    })
}

/// Writes an escape sequence that draws nothing.
pub(crate) fn write_sequence(sequence: &str) -> io::Result<()> {
    let mut out = io::stdout();
    out.write_all(sequence.as_bytes())?;
    out.flush()
}

/// Copies text to the terminal's clipboard (OSC 52), which also works over ssh.
pub(crate) fn copy(text: &str) -> io::Result<()> {
    use base64::Engine as _;
    let encoded = base64::engine::general_purpose::STANDARD.encode(text);
    let mut out = io::stdout();
    write!(out, "\u{1b}]52;c;{encoded}\u{7}")?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_locale_tells_whether_there_is_more_than_ascii_con_20() {
        for (set, unicode) in [
            (&[][..], true),
            (&[("LANG", "C")], true),
            (&[("LANG", "en_US.UTF-8")], true),
            (&[("LANG", "de_DE.utf8")], true),
            (&[("LANG", "de_DE.ISO-8859-1")], false),
            (&[("LANG", "en_US.UTF-8"), ("LC_ALL", "de_DE@euro")], false),
            (&[("LANG", "de_DE.ISO-8859-1"), ("LC_ALL", "")], false),
        ] {
            let variable = |name: &str| {
                set.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
            };
            assert_eq!(is_unicode(variable), unicode, "{set:?}");
        }
    }
}
