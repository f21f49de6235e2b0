//! Toasts: boxes in a corner, over the screen but never over a dialog or over the part that a screen reserves (see
//! `ToastArea`).

use jiff::Timestamp;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Clear, Paragraph};
use unicode_width::UnicodeWidthStr;

use console_data::context::Context;
use console_screens::ToastArea;
use console_toolkit::text::{clean, wrapped};
use console_toolkit::toast::{Severity, Toast};

/// Maximum width of a box.
const WIDEST: u16 = 76;
/// Width of border and padding on both sides.
const AROUND: u16 = 4;

/// Draws the newest toasts that fit, the newest closest to the edge.
pub(super) fn draw<'a>(
    toasts: impl DoubleEndedIterator<Item = &'a (Toast, Timestamp)>,
    toast_area: ToastArea,
    cx: &Context<'_>,
    frame: &mut Frame<'_>,
    area: Rect,
) {
    let top = area.y;
    let area = match toast_area {
        ToastArea::Above(lines) => Rect { height: area.height.saturating_sub(lines), ..area },
        ToastArea::Below(lines) => {
            let lines = lines.min(area.height);
            Rect { y: area.y + lines, height: area.height - lines, ..area }
        }
        ToastArea::BesideLine(line) if line >= area.height / 2 => {
            Rect { height: line.min(area.height), ..area }
        }
        ToastArea::BesideLine(line) => {
            Rect { y: area.y + line + 1, height: area.height.saturating_sub(line + 1), ..area }
        }
        ToastArea::Top | ToastArea::Bottom => area,
    };
    let from_top = match toast_area {
        ToastArea::Top | ToastArea::Below(_) => true,
        ToastArea::Bottom | ToastArea::Above(_) => false,
        ToastArea::BesideLine(_) => area.y == top,
    };
    let mut free = area;
    for (toast, ends) in toasts.rev() {
        cx.redraw_at(*ends);
        let (glyph, style) = match toast.severity {
            Severity::Done => ("✔", cx.theme.toast.done),
            Severity::Note | Severity::UnknownKey => ("·", cx.theme.toast.note),
            Severity::Warning => ("⚠", cx.theme.dialog.warning),
            Severity::Failed => ("✖", cx.theme.toast.failed),
        };
        let widest = free.width.saturating_sub(AROUND).min(WIDEST).saturating_sub(AROUND + 2);
        let mut lines = lines(&toast.text, usize::from(widest).max(1));
        let most = usize::from(free.height.saturating_sub(2));
        if free == area && most > 0 && lines.len() > most {
            lines.truncate(most - 1);
            lines.push("…".into());
        }
        let width = lines.iter().map(|line| line.width()).max().unwrap_or(0) as u16 + AROUND + 2;
        let height = lines.len() as u16 + 2;
        if height > free.height || width > free.width {
            break;
        }
        let y = if from_top { free.y } else { free.bottom() - height };
        if from_top {
            free.y += height;
        }
        free.height -= height;
        let place = Rect { x: free.right().saturating_sub(width + 2), y, width, height };
        let text: Vec<Line<'_>> =
            lines.into_iter().enumerate().map(|(at, line)| marked(at, line, glyph, style)).collect();
        frame.render_widget(Clear, place);
        let block = cx.theme.block("").border_style(style).style(cx.theme.dialog.text);
        frame.render_widget(Paragraph::new(text).block(block), place);
    }
}

fn marked<'a>(at: usize, line: String, glyph: &str, style: Style) -> Line<'a> {
    let mark = if at == 0 { format!("{glyph} ") } else { "  ".to_owned() };
    Line::from(vec![Span::styled(mark, style), Span::raw(line)])
}

/// Wraps each line of a text to `columns`.
fn lines(text: &str, columns: usize) -> Vec<String> {
    text.lines().flat_map(|line| wrapped(&clean(line), columns)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_wrapped_without_loss_con_15() {
        for (text, columns, described) in [
            ("saved", 10, vec!["saved"]),
            ("no room for one", 7, vec!["no room", "for one"]),
            ("abcdefghij", 4, vec!["abcd", "efgh", "ij"]),
            ("one\ntwo", 9, vec!["one", "two"]),
            ("a\n\nb", 9, vec!["a", "", "b"]),
            ("漢字漢字", 3, vec!["漢", "字", "漢", "字"]),
            ("漢", 1, vec!["漢"]),
        ] {
            assert_eq!(lines(text, columns), described, "{text}");
        }
    }
}
