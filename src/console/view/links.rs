//! Hyperlinks in the drawing, for terminals that support them (OSC 8, CON-20): URLs that are fully visible, and areas
//! that screens declare as links.
//!
//! The target of a link is the visible text, or a host that a screen has validated. It contains only plain characters,
//! so that text from a server cannot end the escape sequence. Each cell contains the complete link, so that redrawing
//! single cells keeps it.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::num::NonZeroU16;

use ratatui::buffer::{Buffer, CellDiffOption};
use ratatui::layout::Rect;

/// Maximum number of characters in a link.
const LONGEST: usize = 1_000;

/// Returns whether the terminal can be expected to support or ignore links.
pub(crate) fn are_supported(variable: impl Fn(&str) -> Option<String>) -> bool {
    let term = variable("TERM").unwrap_or_default();
    // The Linux console prints unknown sequences.
    !matches!(term.as_str(), "" | "linux" | "dumb")
        && !term.starts_with("screen.linux")
        && !term.starts_with("vt")
}

/// Adds links for all URLs and for these areas.
pub(crate) fn mark(buffer: &mut Buffer, anchors: &[(Rect, String)]) {
    let area = buffer.area;
    for y in area.top()..area.bottom() {
        for (from, to, url) in urls(buffer, y) {
            link(buffer, Rect { x: from, y, width: to - from, height: 1 }, &url);
        }
    }
    for (place, url) in anchors {
        if url.len() <= LONGEST && url.chars().all(is_of_a_url) {
            link(buffer, place.intersection(area), url);
        }
    }
}

fn link(buffer: &mut Buffer, place: Rect, url: &str) {
    // A common id lets the terminal highlight the cells of one link together.
    let mut id = DefaultHasher::new();
    (place.x, place.y, url).hash(&mut id);
    let id = id.finish();
    for place in place.positions() {
        let Some(cell) = buffer.cell_mut(place) else { continue };
        if !matches!(cell.symbol().as_bytes(), [b' '..=b'~']) {
            continue;
        }
        let linked = format!("\u{1b}]8;id={id:x};{url}\u{1b}\\{}\u{1b}]8;;\u{1b}\\", cell.symbol());
        cell.set_symbol(&linked).set_diff_option(CellDiffOption::ForcedWidth(NonZeroU16::MIN));
    }
}

/// Returns the fully visible URLs of a row: start, end and text.
fn urls(buffer: &Buffer, y: u16) -> Vec<(u16, u16, String)> {
    let area = buffer.area;
    let symbol =
        |x: u16| if x < area.right() { buffer.cell((x, y)).map_or("", |cell| cell.symbol()) } else { "" };
    let mut found = Vec::new();
    let mut x = area.left();
    while x < area.right() {
        if symbol(x) != "h" {
            x += 1;
            continue;
        }
        let from = x;
        let mut url = String::new();
        while let [byte] = symbol(x).as_bytes()
            && is_of_a_url(char::from(*byte))
            && url.len() < LONGEST
        {
            url.push(char::from(*byte));
            x += 1;
        }
        // A URL before `…`, or one that may continue on the next line, is not complete.
        let is_cut = symbol(x) == "…" || is_edge(symbol(x)) || (symbol(x) == " " && is_edge(symbol(x + 1)));
        let whole = url.trim_end_matches(['.', ',', ';', ':', '!', '?', ')', ']', '\'']);
        let host = whole.strip_prefix("https://").or_else(|| whole.strip_prefix("http://"));
        let starts = host.and_then(|host| host.chars().next());
        if !is_cut && starts.is_some_and(|c| c.is_ascii_alphanumeric() || c == '[') {
            found.push((from, from + whole.len() as u16, whole.to_owned()));
        }
        x = x.max(from + 1);
    }
    found
}

/// Returns whether a frame or the screen ends here.
fn is_edge(symbol: &str) -> bool {
    matches!(symbol, "" | "│" | "┃" | "║" | "|")
}

/// Returns whether a URL may contain the character (RFC 3986), except for those that end a quoted text.
fn is_of_a_url(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-._~:/?#[]@!$&'()*+,;=%".contains(c)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::backend::{Backend as _, CrosstermBackend};
    use ratatui::buffer::Cell;

    /// Returns each link of a line: its text and its target.
    fn linked(line: &str, anchors: &[(Rect, String)]) -> Vec<(String, String)> {
        let mut buffer = Buffer::with_lines([line]);
        mark(&mut buffer, anchors);
        let mut found: Vec<(String, String)> = Vec::new();
        let mut last = None;
        for cell in buffer.content() {
            let Some(rest) = cell.symbol().strip_prefix("\u{1b}]8;id=") else {
                last = None;
                continue;
            };
            let (id, rest) = rest.split_once(';').unwrap();
            let (url, rest) = rest.split_once("\u{1b}\\").unwrap();
            let text = rest.strip_suffix("\u{1b}]8;;\u{1b}\\").unwrap();
            if last.as_deref() == Some(id) {
                found.last_mut().unwrap().0.push_str(text);
            } else {
                found.push((text.to_owned(), url.to_owned()));
            }
            last = Some(id.to_owned());
        }
        found
    }

    #[test]
    fn a_url_that_is_seen_whole_is_a_link_con_20() {
        for (line, expected) in [
            ("see https://a.example/x?y=1#z.   ", Some("https://a.example/x?y=1#z")),
            ("(http://a.example:8080/)         ", Some("http://a.example:8080/")),
            ("'https://[::1]:6443'             ", Some("https://[::1]:6443")),
            ("│ url: \"https://a.example\"     │", Some("https://a.example")),
            // Truncated, or continued on the next line.
            ("https://a.example/lo…            ", None),
            ("│ x: https://a.example/long │     ", None),
            ("│ x: https://a.example/long│      ", None),
            ("https://a.example/long", None),
            ("https:// http:/x ftp://a.example  ", None),
            ("https://-a                       ", None),
        ] {
            let found = linked(line, &[]);
            assert_eq!(found.first().map(|(text, _)| text.as_str()), expected, "{line}");
            assert!(found.iter().all(|(text, url)| text == url), "{found:?}");
        }
        assert_eq!(linked("http://a.b http://c.d   ", &[]).len(), 2);
    }

    #[test]
    fn a_place_that_a_screen_names_is_a_link_con_20() {
        let place = Rect { x: 2, y: 0, width: 3, height: 1 };
        assert_eq!(
            linked("a bcd e", &[(place, "https://bcd/".into())]),
            [("bcd".into(), "https://bcd/".into())]
        );
        for hostile in ["https://a/\u{1b}\\x", "https://a/\u{7}", "https://a/\nb", "https://é/"] {
            assert_eq!(linked("a bcd e", &[(place, hostile.into())]), [], "{hostile:?}");
        }
        let outside = Rect { x: 5, y: 0, width: 90, height: 9 };
        assert_eq!(linked("a bcd e", &[(outside, "https://x/".into())])[0].0, " e");
    }

    #[test]
    fn no_text_ends_a_link_from_within_con_20() {
        let mut buffer = Buffer::with_lines(["https://a.example/x       "]);
        for (at, symbol) in [(18, "\u{1b}"), (19, "\u{7}")] {
            buffer.cell_mut((at, 0)).unwrap().set_symbol(symbol);
        }
        mark(&mut buffer, &[]);
        let linked: Vec<&str> = buffer.content().iter().map(Cell::symbol).filter(|s| s.len() > 1).collect();
        assert!(!linked.is_empty());
        for symbol in linked {
            assert_eq!(symbol.matches('\u{1b}').count(), 4, "{symbol:?}");
            assert!(!symbol.contains('\u{7}'), "{symbol:?}");
        }
    }

    #[test]
    fn links_move_nothing_on_the_screen_con_20() {
        let line = "see https://a.example/x and then some";
        let mut buffer = Buffer::with_lines([line]);
        let before = Buffer::empty(buffer.area);
        mark(&mut buffer, &[]);
        let mut written = Vec::new();
        let changes = before.diff(&buffer);
        CrosstermBackend::new(&mut written).draw(changes.into_iter()).unwrap();
        let mut terminal = vt100::Parser::new(1, 60, 0);
        terminal.process(&written);
        assert_eq!(terminal.screen().contents(), line);
    }

    #[test]
    fn terminals_that_would_show_a_link_as_text_get_none_con_20() {
        for (term, known) in [
            ("xterm-256color", true),
            ("tmux-256color", true),
            ("linux", false),
            ("dumb", false),
            ("vt100", false),
            ("", false),
        ] {
            assert_eq!(are_supported(|_| Some(term.to_owned())), known, "{term}");
        }
    }
}
