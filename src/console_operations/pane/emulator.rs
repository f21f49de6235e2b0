//! The emulated terminal of a pane: bytes from the container in, a grid of cells out.
//!
//! Does no I/O. Queries of a program (cursor position, device attributes) are answered as bytes from
//! [`Emulator::take_replies`], which the owner sends back; requests that concern the user's own terminal (clipboard,
//! window size) are dropped (SEC-3).

use super::keys::KeyModes;

/// Maximum number of lines above the screen.
const SCROLLBACK_LINES: usize = 10_000;

/// A vt100 terminal with scrollback.
pub struct Emulator {
    parser: vt100::Parser<EmulatorCallbacks>,
}

/// Output of a program besides text: queries to answer, the title, bells.
#[derive(Default)]
struct EmulatorCallbacks {
    replies: Vec<u8>,
    title: String,
    bells: u64,
}

impl Emulator {
    /// Creates a blank terminal of this many rows and columns (at least one each).
    pub fn new(rows: u16, columns: u16) -> Self {
        Self {
            parser: vt100::Parser::new_with_callbacks(
                rows.max(1),
                columns.max(1),
                SCROLLBACK_LINES,
                EmulatorCallbacks::default(),
            ),
        }
    }

    /// Processes output of the container. New output scrolls the view only if it was at the bottom, so that a busy
    /// program does not disturb reading.
    pub fn process(&mut self, bytes: &[u8]) {
        self.parser.process(bytes);
    }

    /// Adds a dimmed line of the console's own.
    pub fn note(&mut self, text: &str) {
        let column = self.parser.screen().cursor_position().1;
        let start = if column == 0 { "" } else { "\r\n" };
        let clean: String = text.chars().filter(|character| !character.is_control()).collect();
        self.parser.process(format!("{start}\x1b[0;2m{clean}\x1b[0m\r\n").as_bytes());
    }

    /// Undoes what a program that has ended left behind: the alternate screen, modes, margins, colours and the title. The
    /// text of the main screen stays.
    pub fn reset(&mut self) {
        if self.parser.screen().alternate_screen() {
            self.parser.process(b"\x1b[?1049l");
        }
        // Cursor keys, keypad, cursor, paste, and three modes of the mouse.
        self.parser.process(b"\x1b[?1l\x1b>\x1b[?25h\x1b[?2004l\x1b[?1000l\x1b[?1002l\x1b[?1003l");
        // A change of the margins moves the cursor.
        self.parser.process(b"\x1b7\x1b[r\x1b8\x1b[0m");
        self.parser.callbacks_mut().title.clear();
    }

    /// Resizes the terminal; returns true if the size changed, and must be sent to the container.
    pub fn resize(&mut self, rows: u16, columns: u16) -> bool {
        let size = (rows.max(1), columns.max(1));
        if self.parser.screen().size() == size {
            return false;
        }
        self.parser.screen_mut().set_size(size.0, size.1);
        true
    }

    /// Returns the number of rows and columns.
    pub fn size(&self) -> (u16, u16) {
        self.parser.screen().size()
    }

    /// Returns the grid to draw.
    pub(crate) fn screen(&self) -> &vt100::Screen {
        self.parser.screen()
    }

    /// Returns the window title set by the program, without control characters; empty if none.
    pub fn title(&self) -> &str {
        &self.parser.callbacks().title
    }

    /// Returns the number of bells so far.
    #[cfg(test)]
    pub(crate) fn bells(&self) -> u64 {
        self.parser.callbacks().bells
    }

    /// Replies to the program's queries, to be sent as input.
    pub fn take_replies(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.parser.callbacks_mut().replies)
    }

    /// Returns the current encoding of keys.
    pub fn key_modes(&self) -> KeyModes {
        let screen = self.parser.screen();
        KeyModes {
            application_cursor: screen.application_cursor(),
            bracketed_paste: screen.bracketed_paste(),
        }
    }

    /// Returns the number of lines that the view is scrolled up; 0 at the bottom.
    pub fn scrolled(&self) -> usize {
        self.parser.screen().scrollback()
    }

    /// Scrolls up by a number of lines (negative: down), within the scrollback.
    pub fn scroll(&mut self, lines: isize) {
        let target = self.scrolled().saturating_add_signed(lines);
        self.parser.screen_mut().set_scrollback(target);
    }

    /// Scrolls down to the live screen.
    pub fn scroll_to_bottom(&mut self) {
        self.parser.screen_mut().set_scrollback(0);
    }

    /// Returns the text of the cursor's line.
    pub fn cursor_line(&self) -> String {
        let screen = self.parser.screen();
        let (row, _) = screen.cursor_position();
        let (_, columns) = screen.size();
        screen.rows(0, columns).nth(usize::from(row)).unwrap_or_default()
    }

    /// Returns the line of the cursor, counted from the top of the screen, while it is visible.
    pub fn cursor_row(&self) -> Option<u16> {
        let screen = self.parser.screen();
        let is_visible = !screen.hide_cursor() && self.scrolled() == 0;
        is_visible.then(|| screen.cursor_position().0)
    }

    /// Returns the visible text.
    pub fn text(&self) -> String {
        self.parser.screen().contents()
    }

    /// Returns the number of lines above the screen.
    pub fn lines_above(&mut self) -> usize {
        let at = self.scrolled();
        self.parser.screen_mut().set_scrollback(usize::MAX);
        let all = self.scrolled();
        self.parser.screen_mut().set_scrollback(at);
        all
    }

    /// Returns all text, with the lines above the screen, for copying.
    pub fn whole_text(&mut self) -> String {
        let (at, above) = (self.scrolled(), self.lines_above());
        let (rows, columns) = self.size();
        let mut text = String::new();
        let mut row = 0;
        while row < above + usize::from(rows) {
            // The view is moved by pages; the last one may overlap with the one before.
            let back = above.saturating_sub(row);
            self.parser.screen_mut().set_scrollback(back);
            let screen = self.parser.screen();
            for (line, content) in (0..rows).zip(screen.rows(0, columns)).skip(row - (above - back)) {
                text.push_str(&content);
                if !screen.row_wrapped(line) {
                    text.push('\n');
                }
                row += 1;
            }
        }
        self.parser.screen_mut().set_scrollback(at);
        text.truncate(text.trim_end().len());
        text
    }
}

impl vt100::Callbacks for EmulatorCallbacks {
    fn audible_bell(&mut self, _: &mut vt100::Screen) {
        self.bells += 1;
    }

    fn visual_bell(&mut self, _: &mut vt100::Screen) {
        self.bells += 1;
    }

    fn set_window_title(&mut self, _: &mut vt100::Screen, title: &[u8]) {
        self.title = String::from_utf8_lossy(title).chars().filter(|c| !c.is_control()).take(120).collect();
    }

    fn unhandled_csi(
        &mut self,
        screen: &mut vt100::Screen,
        intermediate: Option<u8>,
        _: Option<u8>,
        parameters: &[&[u16]],
        command: char,
    ) {
        let first = parameters.first().and_then(|group| group.first()).copied().unwrap_or(0);
        match (intermediate, command, first) {
            // Device attributes: a VT102, which is what vt100 emulates.
            (None, 'c', 0) => self.replies.extend_from_slice(b"\x1b[?6c"),
            (Some(b'>'), 'c', 0) => self.replies.extend_from_slice(b"\x1b[>0;10;1c"),
            // Device status: no malfunction; and the cursor's position, counted from one.
            (None, 'n', 5) => self.replies.extend_from_slice(b"\x1b[0n"),
            (None, 'n', 6) => {
                let (row, column) = screen.cursor_position();
                self.replies.extend_from_slice(format!("\x1b[{};{}R", row + 1, column + 1).as_bytes());
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(emulator: &Emulator, index: usize) -> String {
        emulator.text().lines().nth(index).unwrap_or_default().to_owned()
    }

    /// CON-8: output is drawn, scrolled and resized as in a terminal.
    #[test]
    fn scrollback_is_read_while_the_program_goes_on() {
        let mut emulator = Emulator::new(3, 20);
        for number in 0..10 {
            emulator.process(format!("line {number}\r\n").as_bytes());
        }
        assert_eq!(row(&emulator, 0), "line 8");
        emulator.scroll(4);
        assert_eq!((emulator.scrolled(), row(&emulator, 0)), (4, "line 4".to_owned()));
        emulator.process(b"line 10\r\n");
        assert_eq!(row(&emulator, 0), "line 4", "reading back is not disturbed");
        emulator.scroll(isize::MAX);
        assert_eq!(row(&emulator, 0), "line 0");
        emulator.scroll(-1);
        assert_eq!(row(&emulator, 0), "line 1");
        emulator.scroll_to_bottom();
        assert_eq!((emulator.scrolled(), row(&emulator, 0)), (0, "line 9".to_owned()));
    }

    #[test]
    fn all_text_is_copied_with_the_lines_above_and_long_lines_in_one_con_8() {
        let mut emulator = Emulator::new(3, 10);
        assert_eq!((emulator.whole_text().as_str(), emulator.lines_above()), ("", 0));
        let lines: Vec<String> = (0..10).map(|number| format!("line {number}")).collect();
        let text = format!("{}\na line that is wrapped\n$", lines.join("\n"));
        emulator.process(text.replace('\n', "\r\n").as_bytes());
        emulator.scroll(4);
        assert_eq!(emulator.whole_text(), text);
        assert_eq!((emulator.scrolled(), emulator.lines_above()), (4, 11), "the view does not move");
    }

    #[test]
    fn a_program_gets_the_answers_it_asks_its_terminal_for() {
        let mut emulator = Emulator::new(5, 20);
        emulator.process(b"ab\x1b[6n\x1b[5n\x1b[c\x1b[>c");
        assert_eq!(emulator.take_replies(), b"\x1b[1;3R\x1b[0n\x1b[?6c\x1b[>0;10;1c");
        assert!(emulator.take_replies().is_empty());
    }

    #[test]
    fn modes_titles_and_bells_are_seen_and_the_users_own_terminal_is_left_alone() {
        let mut emulator = Emulator::new(5, 20);
        emulator.process(b"\x1b[?1h\x1b[?2004h\x1b]2;my\x07title\x1b\\\x07");
        assert_eq!(emulator.key_modes(), KeyModes { application_cursor: true, bracketed_paste: true });
        assert_eq!(emulator.title(), "my");
        assert_eq!(emulator.bells(), 1);
        emulator.process(b"\x1b]52;c;aGVsbG8=\x07\x1b[8;1;1t");
        assert_eq!(emulator.size(), (5, 20), "a program cannot resize the pane or reach the clipboard");
    }

    #[test]
    fn a_new_session_begins_without_the_modes_of_the_last_one_con_8() {
        let mut emulator = Emulator::new(5, 20);
        emulator.process(
            b"$ top\r\n\x1b[?1049h\x1b[?1h\x1b[?25l\x1b[?2004h\x1b[2;3r\x1b[31m\x1b]2;top\x07load: 1",
        );
        emulator.reset();
        assert_eq!(emulator.key_modes(), KeyModes { application_cursor: false, bracketed_paste: false });
        assert_eq!((emulator.title(), emulator.cursor_row()), ("", Some(1)));
        emulator.process(b"$ ls\r\na\r\nb\r\nc\r\n$ ");
        assert_eq!(emulator.text(), "$ ls\na\nb\nc\n$ ", "the whole screen scrolls");
        assert_eq!(emulator.lines_above(), 1);
        // Without an alternate screen the cursor stays where it is.
        let mut emulator = Emulator::new(5, 20);
        emulator.process(b"one\r\ntwo");
        emulator.reset();
        assert_eq!((emulator.cursor_row(), emulator.cursor_line().as_str()), (Some(1), "two"));
    }

    #[test]
    fn a_note_stands_on_its_own_line_without_escapes() {
        let mut emulator = Emulator::new(4, 30);
        emulator.process(b"$ exi");
        emulator.note("exit \x1b[31mcode 3");
        assert_eq!(row(&emulator, 0), "$ exi");
        assert_eq!(row(&emulator, 1), "exit [31mcode 3");
    }

    #[test]
    fn resizing_reports_only_changes_and_never_vanishes() {
        let mut emulator = Emulator::new(4, 30);
        assert!(!emulator.resize(4, 30));
        assert!(emulator.resize(0, 0));
        assert_eq!(emulator.size(), (1, 1));
    }
}
