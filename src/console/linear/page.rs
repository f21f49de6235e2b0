//! A drawing as lines: each framed part by itself with its title, from top to bottom, without frames, bars and glyphs.

use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Modifier;
use ratatui::{Frame, Terminal};

use crate::health::Health;
use crate::view::frame;

/// What is on it.
#[derive(Debug, Default)]
pub(super) struct Page {
    /// Line by line.
    pub(super) lines: Vec<String>,
    /// The line under the cursor.
    pub(super) selected: Option<String>,
}

impl Page {
    /// What is drawn on a page of this size.
    pub(super) fn draw(width: u16, height: u16, view: impl FnOnce(&mut Frame<'_>, Rect)) -> Self {
        let Ok(mut terminal) = Terminal::new(TestBackend::new(width, height));
        // A page in memory does not fail.
        let Ok(_) = terminal.draw(|frame| view(frame, frame.area()));
        let mut page = Self::default();
        let buffer = terminal.backend().buffer();
        page.read(buffer, buffer.area);
        page
    }

    /// Reads a part: what stands beside frames first, line by line, then what each of them holds.
    fn read(&mut self, buffer: &Buffer, area: Rect) {
        let frames = frame::outermost(buffer, area);
        for y in area.top()..area.bottom() {
            let outside = |x: u16| !frames.iter().any(|frame| frame.contains((x, y).into()));
            let (mut line, mut turned, mut drawn) = (String::new(), 0, 0);
            let mut skip = 0;
            for x in area.left()..area.right() {
                let Some(cell) = buffer.cell((x, y)).filter(|_| outside(x)) else { continue };
                // A wide sign has taken the next place as well.
                if skip > 0 {
                    skip -= 1;
                    continue;
                }
                skip = unicode_width::UnicodeWidthStr::width(cell.symbol()).saturating_sub(1);
                spell(cell.symbol(), &mut line);
                if cell.symbol() != " " {
                    drawn += 1;
                    turned += usize::from(cell.modifier.contains(Modifier::REVERSED));
                }
            }
            let line = in_words(&line);
            if line.is_empty() {
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
                self.lines.push(format!("Part: {title}"));
            }
            self.read(buffer, frame::inside(frame));
            let foot = border(buffer, frame, frame.bottom() - 1);
            if !foot.is_empty() {
                self.lines.push(foot);
            }
        }
    }
}

/// What is drawn in one line.
pub(super) fn one_line(width: u16, view: impl FnOnce(&mut Frame<'_>, Rect)) -> String {
    Page::draw(width, 1, view).lines.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ")
}

/// What is written in a border.
fn border(buffer: &Buffer, frame: Rect, y: u16) -> String {
    let mut text = String::new();
    for x in frame.left() + 1..frame.right().saturating_sub(1) {
        if let Some(cell) = buffer.cell((x, y)) {
            spell(cell.symbol(), &mut text);
        }
    }
    in_words(&text).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A line of words: gaps of columns are two spaces, bars of dots are silent, a state that is a sign and a word is said once.
/// What it begins with stays: it tells what belongs to what.
fn in_words(line: &str) -> String {
    let text = line.trim_start();
    let mut words = line[..line.len() - text.len()].to_owned();
    let mut last = "";
    for column in text.split("  ").map(str::trim).filter(|column| !column.is_empty()) {
        for (index, word) in column.split(' ').enumerate() {
            let is_bar = word.chars().all(|c| c == '·') && (word.chars().count() > 1 || last.is_empty());
            let is_said = word == last && Health::ALL.iter().any(|health| health.word() == word);
            if is_bar || is_said {
                continue;
            }
            if !words.trim().is_empty() {
                words.push_str(if index == 0 { "  " } else { " " });
            }
            words.push_str(word);
            last = word;
        }
    }
    words.trim_end().to_owned()
}

/// A sign as it is read: what draws lines and bars is silent, what stands for a state is its word.
fn spell(symbol: &str, line: &mut String) {
    if let Some(health) = Health::ALL.into_iter().find(|health| health.glyph() == symbol && symbol != "?") {
        line.push_str(health.word());
        return;
    }
    match symbol {
        "▸" | "▏" | "▎" => line.push(' '),
        "⚠" => line.push_str("warning:"),
        "◆" => line.push_str("marked"),
        "⧗" => line.push_str("at work:"),
        "‖" => line.push_str("held"),
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
    use ratatui::text::Line;
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
            frame.render_widget(Paragraph::new("● 3\nfoo ███░").block(part("Left")), left);
            let right = Rect { x: 20, ..left };
            let inner = Rect { x: 21, y: 3, width: 18, height: 1 };
            frame.render_widget(
                Paragraph::new("one").block(part("Right").title_bottom(" enter opens ")),
                right,
            );
            let chosen = Line::raw("▸ 日本 two").style(Style::new().add_modifier(Modifier::REVERSED));
            frame.render_widget(chosen, inner);
        });
        let lines: Vec<&str> = page.lines.iter().map(|line| line.trim()).collect();
        assert_eq!(
            lines,
            ["over all", "Part: Left", "Running 3", "foo", "Part: Right", "one", "日本 two", "enter opens"]
        );
        assert_eq!(page.selected.as_deref().map(str::trim), Some("日本 two"));
    }

    #[test]
    fn what_looks_like_a_frame_and_is_none_is_read_as_text_con_20() {
        let page = Page::draw(12, 3, |frame, area| {
            frame.render_widget(Paragraph::new("╭ no end\nplain"), area);
        });
        let lines: Vec<&str> = page.lines.iter().map(|line| line.trim()).collect();
        assert_eq!(lines, ["no end", "plain"]);
    }

    #[test]
    fn a_line_is_its_words_con_20() {
        for (line, words) in [
            ("  kind: Pod", "  kind: Pod"),
            ("web    3/3        Available   ", "web  3/3  Available"),
            ("Running Running     10        ····", "Running  10"),
            ("Running node-1  Ready  pods  ·········   7", "Running node-1  Ready  pods  7"),
            ("1 · 2 of 2", "1 · 2 of 2"),
            ("   ", ""),
            ("a a", "a a"),
        ] {
            assert_eq!(in_words(line), words, "{line:?}");
        }
    }
}
