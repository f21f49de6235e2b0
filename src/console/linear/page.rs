//! A drawing as lines: each framed part separately with its title, from top to bottom, without frames, bars and glyphs.

use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Modifier;
use ratatui::{Frame, Terminal};

use crate::view::frame;
use console_toolkit::theme::RESTLESS;

/// The beginning of the line with the title of a part.
const PART: &str = "Part: ";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PageLine {
    /// The whole line.
    pub(super) text: String,
    /// The line without values that change constantly. Linear mode announces the line if this text changes.
    pub(super) news: String,
    /// The line is the title or the foot of a part.
    pub(super) is_edge: bool,
}

impl PageLine {
    /// Creates a line that has no constantly changing values.
    pub(super) fn of(text: String) -> Self {
        Self { news: text.clone(), text, is_edge: false }
    }

    /// Creates the title or the foot of a part.
    pub(super) fn edge(text: String) -> Self {
        Self { is_edge: true, ..Self::of(text) }
    }
}

/// The content of a drawing.
#[derive(Debug, Default)]
pub(super) struct Page {
    pub(super) lines: Vec<PageLine>,
    /// The line under the cursor.
    pub(super) selected: Option<PageLine>,
}

impl Page {
    /// Draws on a page of this size.
    pub(super) fn draw(width: u16, height: u16, view: impl FnOnce(&mut Frame<'_>, Rect)) -> Self {
        let Ok(mut terminal) = Terminal::new(TestBackend::new(width, height));
        // Drawing in memory cannot fail.
        let Ok(_) = terminal.draw(|frame| view(frame, frame.area()));
        let mut page = Self::default();
        let buffer = terminal.backend().buffer();
        page.read(buffer, buffer.area);
        page
    }

    /// Reads an area: first the text outside of frames, line by line, then the content of each frame.
    fn read(&mut self, buffer: &Buffer, area: Rect) {
        let frames = frame::outermost(buffer, area);
        for y in area.top()..area.bottom() {
            let outside = |x: u16| !frames.iter().any(|frame| frame.contains((x, y).into()));
            let (mut text, mut news) = (String::new(), String::new());
            let (mut turned, mut drawn, mut skip) = (0, 0, 0);
            for x in area.left()..area.right() {
                let Some(cell) = buffer.cell((x, y)).filter(|_| outside(x)) else { continue };
                // A wide character occupies the next cell as well.
                if skip > 0 {
                    skip -= 1;
                    continue;
                }
                let symbol = if is_of_a_bar(buffer, x, y) { " " } else { cell.symbol() };
                skip = unicode_width::UnicodeWidthStr::width(cell.symbol()).saturating_sub(1);
                spell(symbol, &mut text);
                spell(if cell.modifier.contains(RESTLESS) { " " } else { symbol }, &mut news);
                if cell.symbol() != " " {
                    drawn += 1;
                    turned += usize::from(cell.modifier.contains(Modifier::REVERSED));
                }
            }
            let line =
                PageLine { text: format_for_speech(&text), news: format_for_speech(&news), is_edge: false };
            if line.text.is_empty() {
                continue;
            }
            if turned * 2 > drawn {
                self.selected = Some(line.clone());
            }
            self.lines.push(line);
        }
        for frame in frames {
            let title = border(buffer, frame, frame.top());
            if !title.is_empty() {
                self.lines.push(PageLine::edge(format!("{PART}{title}")));
            }
            self.read(buffer, frame::inside(frame));
            let foot = border(buffer, frame, frame.bottom() - 1);
            if !foot.is_empty() {
                self.lines.push(PageLine::edge(foot));
            }
        }
    }
}

/// Returns a drawing of one line as text.
pub(super) fn one_line(width: u16, view: impl FnOnce(&mut Frame<'_>, Rect)) -> String {
    Page::draw(width, 1, view).lines.iter().map(|line| line.text.trim()).collect::<Vec<_>>().join(" ")
}

/// Returns the text in a border.
fn border(buffer: &Buffer, frame: Rect, y: u16) -> String {
    let mut text = String::new();
    for x in frame.left() + 1..frame.right().saturating_sub(1) {
        if let Some(cell) = buffer.cell((x, y)) {
            spell(if is_of_a_bar(buffer, x, y) { " " } else { cell.symbol() }, &mut text);
        }
    }
    format_for_speech(&text).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Reports whether a dot is the empty part of a bar: next to another dot or a full part. A single dot separates words.
fn is_of_a_bar(buffer: &Buffer, x: u16, y: u16) -> bool {
    let symbol = |x: Option<u16>| x.and_then(|x| buffer.cell((x, y))).map_or(" ", |cell| cell.symbol());
    let is_part = |symbol: &str| symbol == "·" || symbol.chars().next().is_some_and(is_block);
    let [before, after] = [x.checked_sub(1), x.checked_add(1)].map(symbol);
    symbol(Some(x)) == "·" && (is_part(before) || is_part(after))
}

/// Reports whether a character draws a bar.
fn is_block(letter: char) -> bool {
    matches!(letter, '\u{2580}'..='\u{259f}')
}

/// Converts a line for reading: column gaps become two spaces, leading dots are silent. The indentation stays, because
/// it shows what belongs together; so does the one after a line number.
fn format_for_speech(line: &str) -> String {
    let text = line.trim_start();
    let unnumbered = text.trim_start_matches(|letter: char| letter.is_ascii_digit());
    let is_numbered = unnumbered.len() < text.len() && unnumbered.starts_with("  ");
    let text = if is_numbered { unnumbered.trim_start() } else { text };
    let mut spoken = line[..line.len() - text.len()].to_owned();
    let text = text.strip_prefix("· ").unwrap_or(text);
    let columns = text.split("  ").map(str::trim).filter(|column| !column.is_empty());
    spoken.push_str(&columns.collect::<Vec<_>>().join("  "));
    spoken.trim_end().to_owned()
}

/// Converts a character for reading: frame lines, bars, and glyphs beside the word with the same meaning are silent.
fn spell(symbol: &str, line: &mut String) {
    match symbol {
        "▸" | "▾" | "▴" | "▲" | "●" | "○" | "◌" | "↻" | "‖" => line.push(' '),
        "✔" => line.push_str("ok:"),
        "✖" => line.push_str("failed:"),
        "◐" => line.push_str("under way:"),
        "⚠" => line.push_str("warning:"),
        "◆" => line.push_str("marked"),
        "⧗" => line.push_str("at work:"),
        "◀" => line.push_str("past:"),
        // Lines, blocks, arrows of columns, dots of curves.
        _ if symbol.chars().all(|c| matches!(c, '\u{2500}'..='\u{259f}' | '\u{2800}'..='\u{28ff}')) => {
            line.push(' ');
        }
        _ => line.push_str(symbol),
    }
}

#[cfg(test)]
mod tests {
    use ratatui::style::Style;
    use ratatui::text::{Line, Span};
    use ratatui::widgets::{Block, BorderType, Borders, Paragraph};

    use super::*;

    #[test]
    fn parts_are_read_one_after_the_other_without_their_frames_con_20() {
        let page = Page::draw(40, 8, |frame, area| {
            let part = |title: &str| {
                Block::new()
                    .borders(Borders::ALL)
                    .border_type(BorderType::Rounded)
                    .title(format!(" {title} "))
            };
            frame.render_widget(Line::raw("over all"), Rect { height: 1, ..area });
            let left = Rect { y: 1, width: 20, height: 5, ..area };
            frame.render_widget(Paragraph::new("✖ 3\n● foo ███░").block(part("Left")), left);
            let right = Rect { x: 20, ..left };
            let inner = Rect { x: 21, y: 3, width: 18, height: 1 };
            frame.render_widget(
                Paragraph::new("one").block(part("Right").title_bottom(" enter opens ")),
                right,
            );
            let chosen = Line::raw("▸ 日本 two").style(Style::new().add_modifier(Modifier::REVERSED));
            frame.render_widget(chosen, inner);
        });
        let lines: Vec<&str> = page.lines.iter().map(|line| line.text.trim()).collect();
        assert_eq!(
            lines,
            ["over all", "Part: Left", "failed: 3", "foo", "Part: Right", "one", "日本 two", "enter opens"]
        );
        assert_eq!(page.selected.map(|line| line.text.trim().to_owned()).as_deref(), Some("日本 two"));
    }

    #[test]
    fn incomplete_borders_are_read_as_text_con_20() {
        let page = Page::draw(12, 3, |frame, area| {
            frame.render_widget(Paragraph::new("╭ no end\nplain"), area);
        });
        let lines: Vec<&str> = page.lines.iter().map(|line| line.text.trim()).collect();
        assert_eq!(lines, ["no end", "plain"]);
    }

    #[test]
    fn bars_are_silent_however_full_and_what_never_rests_is_no_news_con_20() {
        for (drawn, read) in [
            ("cpu ········ 0", "cpu  0"),
            ("cpu ███████· 9", "cpu  9"),
            ("cpu ███▍···· 4", "cpu  4"),
            ("cpu ████████ 9", "cpu  9"),
            ("1 · 2 of 2", "1 · 2 of 2"),
        ] {
            let page = Page::draw(20, 1, |frame, area| frame.render_widget(Line::raw(drawn), area));
            assert_eq!(page.lines, [PageLine::of(read.to_owned())], "{drawn}");
        }
        let page = Page::draw(20, 1, |frame, area| {
            let used = Span::styled(" 12", Style::new().add_modifier(RESTLESS));
            frame.render_widget(Line::from(vec![Span::raw("main  ready"), used]), area);
        });
        let news = "main  ready".to_owned();
        let line = PageLine { text: "main  ready 12".to_owned(), news, is_edge: false };
        assert_eq!(page.lines, [line]);
    }

    #[test]
    fn a_line_is_its_words_con_20() {
        for (line, words) in [
            ("  kind: Pod", "  kind: Pod"),
            ("web    3/3        Available   ", "web  3/3  Available"),
            ("Running     10", "Running  10"),
            ("Error Error", "Error Error"),
            ("1 · 2 of 2", "1 · 2 of 2"),
            ("   ", ""),
            ("a a", "a a"),
            ("61      resources:", "61      resources:"),
            ("63          cpu: 50m      ", "63          cpu: 50m"),
            ("63", "63"),
        ] {
            assert_eq!(format_for_speech(line), words, "{line:?}");
        }
    }
}
