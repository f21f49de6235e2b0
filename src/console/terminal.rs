//! The user's terminal: taken on entry, given back on every way out.
//!
//! Invariant: after [`Guard`] is dropped, or after a panic inside the loop, the terminal is as it was.
//! Panics elsewhere in the process (a control loop of an in-process cluster) are contained by whoever
//! runs them; they go to the log and leave the screen alone.

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

static TAKEN: AtomicBool = AtomicBool::new(false);
/// Whether it is drawn on while it is taken.
static DRAWN_ON: AtomicBool = AtomicBool::new(false);

thread_local! {
    static IN_LOOP: Cell<bool> = const { Cell::new(false) };
    /// A panic is caught where it is now, and the console goes on.
    static CONTAINED: Cell<bool> = const { Cell::new(false) };
}

/// Whether there is a terminal to draw on.
pub(crate) fn present() -> bool {
    io::stdout().is_terminal() && io::stdin().is_terminal()
}

/// Who gets the mouse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Capture {
    /// The console.
    Taken,
    /// The terminal.
    Released,
}

/// What is taken of the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hold {
    /// Its other screen, drawn on.
    Whole(Capture),
    /// Its keys alone: what is said goes on below what was there, and stays.
    Keys,
}

/// Holds the terminal.
#[derive(Debug)]
pub(crate) struct Guard {
    hold: Hold,
}

impl Guard {
    /// Takes the terminal: raw.
    pub(crate) fn take(hold: Hold) -> io::Result<Self> {
        install_hook();
        enable_raw_mode()?;
        DRAWN_ON.store(hold != Hold::Keys, Ordering::SeqCst);
        TAKEN.store(true, Ordering::SeqCst);
        let guard = Self { hold };
        execute!(io::stdout(), EnableBracketedPaste, EnableFocusChange)?;
        if let Hold::Whole(mouse) = hold {
            execute!(io::stdout(), EnterAlternateScreen, cursor::Hide)?;
            if mouse == Capture::Taken {
                execute!(io::stdout(), EnableMouseCapture)?;
            }
        }
        Ok(guard)
    }

    /// Gives the terminal back for as long as `during` runs, then takes it again.
    pub(crate) async fn lend<T>(&self, during: impl Future<Output = T>) -> io::Result<T> {
        give_back();
        let result = during.await;
        let taken = Self::take(self.hold)?;
        // The outer guard stays the one that gives it back.
        std::mem::forget(taken);
        Ok(result)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        give_back();
    }
}

/// Restores the terminal if it is taken; can be called from anywhere, also twice.
pub fn give_back() {
    if !TAKEN.swap(false, Ordering::SeqCst) {
        return;
    }
    base::streams::replace_dead();
    let mut out = io::stdout();
    // Nothing can be done about a terminal that is gone.
    let _ = execute!(out, DisableFocusChange, DisableBracketedPaste);
    if DRAWN_ON.load(Ordering::SeqCst) {
        let _ = execute!(out, DisableMouseCapture, LeaveAlternateScreen, cursor::Show);
    }
    let _ = disable_raw_mode();
    let _ = out.flush();
}

/// What is drawn on.
///
/// Ratatui's terminal is never dropped: it would show the cursor, and where the user's terminal is gone, print that it
/// cannot, which is a panic there. [`Guard`] shows the cursor. There is one in the life of a console.
#[derive(Debug)]
pub(crate) struct Screen(ManuallyDrop<Terminal<CrosstermBackend<Stdout>>>);

impl Screen {
    /// The whole of the terminal that is taken.
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self(ManuallyDrop::new(Terminal::new(CrosstermBackend::new(io::stdout()))?)))
    }

    /// Draws what differs from what was drawn last, all of it at once where the terminal can (mode 2026), and says what
    /// is drawn now.
    pub(crate) fn draw(&mut self, view: impl FnOnce(&mut Frame<'_>)) -> io::Result<&Buffer> {
        queue!(io::stdout(), BeginSynchronizedUpdate)?;
        let drawn = self.0.draw(view).map(|frame| frame.buffer);
        execute!(io::stdout(), EndSynchronizedUpdate)?;
        drawn
    }

    /// Forgets what was drawn: something else has drawn there, or the window had another size for a moment. Ratatui's own
    /// `clear` would ask the terminal where the cursor is, and wait for an answer that the stream of events has taken.
    pub(crate) fn forget(&mut self) -> io::Result<()> {
        let size = self.0.size()?;
        self.0.resize(size.into())
    }
}

/// Runs a part of the loop; a panic in it restores the terminal before it is printed.
pub(crate) fn in_loop<T>(part: impl FnOnce() -> T) -> T {
    IN_LOOP.set(true);
    let result = part();
    IN_LOOP.set(false);
    result
}

/// Runs what one screen does; a panic in it is that screen's end and not the console's. What it said, where it panicked.
pub(crate) fn contained<T>(part: impl FnOnce() -> T) -> Result<T, String> {
    let before = CONTAINED.replace(true);
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(part));
    CONTAINED.set(before);
    result.map_err(|panic| base::contained::panic_text(panic.as_ref()))
}

fn install_hook() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if IN_LOOP.get() && !CONTAINED.get() {
                give_back();
            }
            if TAKEN.load(Ordering::SeqCst) {
                tracing::error!("{panic}");
            } else {
                before(panic);
            }
        }));
    });
}

/// Whether the user's locale has more than ASCII.
pub(crate) fn is_unicode(variable: impl Fn(&str) -> Option<String>) -> bool {
    let set = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().filter_map(variable);
    let locale = set.into_iter().find(|value| !value.is_empty());
    // A container has none of them, and a terminal in front of it that can.
    locale.is_none_or(|locale| {
        let locale = locale.to_lowercase();
        locale.ends_with("utf-8") || locale.ends_with("utf8") || locale == "c" || locale == "posix"
    })
}

/// Writes a sequence that draws nothing.
pub(crate) fn tell(sequence: &str) -> io::Result<()> {
    let mut out = io::stdout();
    out.write_all(sequence.as_bytes())?;
    out.flush()
}

/// Puts text on the clipboard of the terminal (OSC 52), which works over ssh too.
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
