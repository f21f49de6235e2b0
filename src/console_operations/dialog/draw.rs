//! Draws a dialog in the middle of the screen.

use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Flex, Layout, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Clear, Paragraph, Wrap};
use unicode_width::UnicodeWidthStr;

use super::{Dialog, Field, Focus, Note, Value};
use console_data::context::Context;
use console_toolkit::text::{clean, fit};

/// A screen lower than this has no space for a margin.
const LOW: u16 = 14;

/// Draws a dialog over the screen; returns its area.
pub fn draw<E>(dialog: &Dialog<E>, cx: &Context<'_>, frame: &mut Frame<'_>, screen: Rect) -> Rect {
    let theme = cx.theme;
    let width = screen.width.saturating_sub(4).min(72);
    let inner_width = usize::from(width.saturating_sub(4)).max(1);
    let place = dialog.context.iter().map(|name| {
        let named = Span::styled(clean(name).into_owned(), cx.style_of_cluster(name));
        Line::from(vec![Span::raw("in the context "), named, Span::raw(dialog.number_text())])
    });
    let mut lines: Vec<Line<'_>> = place.chain(dialog.number_alone().map(Line::raw)).collect();
    lines.extend(dialog.text.iter().flat_map(|note| note_lines(note, cx)));
    if !lines.is_empty() && !dialog.fields.is_empty() {
        lines.push(Line::default());
    }
    let labels = dialog.fields.iter().map(|field| field.label.width()).max().unwrap_or(0);
    let fields = lines.len();
    for (index, field) in dialog.fields.iter().enumerate() {
        lines.push(field_line(field, dialog.focus == Focus::Field(index), labels, cx));
    }
    let notes = dialog.current_notes(cx);
    if !notes.is_empty() {
        lines.push(Line::default());
        lines.extend(notes.iter().flat_map(|note| note_lines(note, cx)));
    }
    if let Some(error) = &dialog.error {
        lines.push(Line::default());
        lines.push(Line::styled(format!("✖ {}", clean(error)), theme.prompt.error));
    }
    lines.push(Line::default());

    let rows_of = |lines: &[Line<'_>]| -> usize {
        lines.iter().map(|line| line.width().max(1).div_ceil(inner_width)).sum()
    };
    let rows = rows_of(&lines);
    // On a low screen the dialog takes the full height.
    let around = if screen.height < LOW { 0 } else { 2 };
    let height = (rows as u16 + 3).min(screen.height.saturating_sub(around));
    let [column] = Layout::horizontal([Constraint::Length(width)]).flex(Flex::Center).areas(screen);
    let [area] = Layout::vertical([Constraint::Length(height)]).flex(Flex::Center).areas(column);
    frame.render_widget(Clear, area);
    let title_width = usize::from(width.saturating_sub(4));
    let seen = usize::from(height.saturating_sub(3)).max(1);
    // If it does not fit, it scrolls to the field with the focus; with the focus on a button, to the end.
    // The last line is empty.
    let scrolled = dialog.scroll.window(seen, rows.saturating_sub(1));
    let scroll = match dialog.focus {
        _ if dialog.has_scrolled => scrolled,
        Focus::Cancel => 0,
        Focus::Field(index) => rows_of(&lines[..(fields + index + 1).min(lines.len())]).saturating_sub(seen),
        Focus::Submit => rows.saturating_sub(seen),
    };
    let mut block =
        theme.block_focused(fit(&clean(&dialog.title), title_width).into_owned()).style(theme.dialog.text);
    let below = rows.saturating_sub(1).saturating_sub(scroll + seen);
    if below > 0 {
        block = block.title_bottom(Line::styled(format!(" ↓ {below} more, pgdn "), theme.dialog.warning));
    }
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let [body, buttons] = Layout::vertical([Constraint::Min(0), Constraint::Length(1)]).areas(inner);
    let text = Paragraph::new(Text::from(lines)).wrap(Wrap { trim: false });
    frame.render_widget(text.scroll((u16::try_from(scroll).unwrap_or(u16::MAX), 0)), body);
    frame.render_widget(Paragraph::new(button_line(dialog, cx)).alignment(Alignment::Right), buttons);
    area
}

fn note_lines<'a>(note: &Note, cx: &Context<'_>) -> Vec<Line<'a>> {
    let (text, style) = match note {
        Note::Plain(text) => (text, Style::default()),
        Note::Warning(text) => (text, cx.theme.dialog.warning),
    };
    let mark = if matches!(note, Note::Warning(_)) { "⚠ " } else { "" };
    text.lines()
        .enumerate()
        .map(|(index, line)| {
            let mark = if index == 0 { mark } else { "" };
            Line::styled(format!("{mark}{}", clean(line)), style)
        })
        .collect()
}

fn field_line<'a>(field: &Field, focused: bool, labels: usize, cx: &Context<'_>) -> Line<'a> {
    let theme = cx.theme;
    let shown = match &field.value {
        Value::Text(text) | Value::Number(text) => format!(" {text}{} ", if focused { "▏" } else { " " }),
        Value::Switch(true) => "[x]".to_owned(),
        Value::Switch(false) => "[ ]".to_owned(),
        Value::Choice { .. } => format!("‹ {} ›", field.value.text()),
    };
    let style = if focused { theme.dialog.focus } else { theme.dialog.button };
    let pad = " ".repeat(labels.saturating_sub(field.label.width()));
    let cursor = if focused { "▸ " } else { "  " };
    Line::from(vec![
        Span::raw(format!("{cursor}{}{pad}  ", clean(&field.label))),
        Span::styled(clean(&shown).into_owned(), style),
        Span::styled(format!("  {}", field.hint), theme.body.dim),
    ])
}

fn button_line<'a, E>(dialog: &Dialog<E>, cx: &Context<'_>) -> Line<'a> {
    let theme = cx.theme;
    let button = |text: &str, focused: bool| {
        let style = if focused { theme.dialog.focus } else { theme.dialog.button };
        Span::styled(format!("{} {text} ", if focused { "▸" } else { " " }), style)
    };
    Line::from(vec![
        button("Cancel", dialog.focus == Focus::Cancel),
        Span::raw("   "),
        button(&dialog.verb, dialog.focus == Focus::Submit),
    ])
}
