//! Draws a dialog in the middle of the screen.

use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Flex, Layout, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Clear, Paragraph};
use unicode_width::UnicodeWidthStr;

use super::{Dialog, Field, Focus, Note, Value};
use console_data::context::Context;
use console_toolkit::text::{clean, fit, wrapped};

/// Minimum width of a hint beside a value if it is wrapped.
const LEAST_HINT: usize = 24;
/// A screen lower than this has no space for a margin.
const LOW: u16 = 14;

/// Draws a dialog over the screen; returns its area.
pub fn draw<E>(dialog: &Dialog<E>, cx: &Context<'_>, frame: &mut Frame<'_>, screen: Rect) -> Rect {
    let theme = cx.theme;
    let width = screen.width.saturating_sub(4).min(72);
    let inner_width = usize::from(width.saturating_sub(4)).max(1);
    let place = dialog.context.iter().map(|name| {
        let (lead, number) = ("in the context ", dialog.number_text());
        let columns = inner_width.saturating_sub(lead.width() + number.width());
        let named = Span::styled(fit(&clean(name), columns).into_owned(), cx.style_of_cluster(name));
        Line::from(vec![Span::raw(lead), named, Span::raw(number)])
    });
    let notes_of = |notes: &[Note]| -> Vec<Line<'static>> {
        notes.iter().flat_map(|note| note_lines(note, cx, inner_width)).collect()
    };
    let mut lines: Vec<Line<'_>> = place.chain(dialog.number_alone().map(Line::raw)).collect();
    lines.extend(notes_of(&dialog.text));
    if !lines.is_empty() && !dialog.fields.is_empty() {
        lines.push(Line::default());
    }
    let labels = dialog.fields.iter().map(|field| field.label.width()).max().unwrap_or(0);
    let mut focused_field_end = 0;
    for (index, field) in dialog.fields.iter().enumerate() {
        let is_focused = dialog.focus == Focus::Field(index);
        lines.extend(field_lines(field, is_focused, labels, cx, inner_width));
        if is_focused {
            focused_field_end = lines.len();
        }
    }
    let notes = dialog.current_notes(cx);
    if !notes.is_empty() {
        lines.push(Line::default());
        lines.extend(notes_of(&notes));
    }
    if let Some(error) = &dialog.error {
        lines.push(Line::default());
        lines.extend(styled_lines(&format!("✖ {}", clean(error)), theme.prompt.error, inner_width));
    }
    lines.push(Line::default());

    let rows = lines.len();
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
        Focus::Field(_) => focused_field_end.saturating_sub(seen),
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
    let seen: Vec<Line<'_>> = lines.into_iter().skip(scroll).collect();
    frame.render_widget(Paragraph::new(seen), body);
    frame.render_widget(Paragraph::new(button_line(dialog, cx)).alignment(Alignment::Right), buttons);
    area
}

/// Wraps a text to `columns`.
fn styled_lines(text: &str, style: Style, columns: usize) -> Vec<Line<'static>> {
    wrapped(text, columns).into_iter().map(|line| Line::styled(line, style)).collect()
}

fn note_lines(note: &Note, cx: &Context<'_>, columns: usize) -> Vec<Line<'static>> {
    let (text, style) = match note {
        Note::Plain(text) => (text, Style::default()),
        Note::Warning(text) => (text, cx.theme.dialog.warning),
    };
    let mark = if matches!(note, Note::Warning(_)) { "⚠ " } else { "" };
    let lines = text.lines().enumerate().flat_map(|(index, line)| {
        let mark = if index == 0 { mark } else { "" };
        styled_lines(&format!("{mark}{}", clean(line)), style, columns)
    });
    lines.collect()
}

/// Returns the lines of a field: its label, its value, and its hint. A long value or hint continues below itself, not
/// below the label.
fn field_lines(
    field: &Field,
    focused: bool,
    labels: usize,
    cx: &Context<'_>,
    columns: usize,
) -> Vec<Line<'static>> {
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
    let lead = format!("{cursor}{}{pad}  ", clean(&field.label));
    let indent = lead.width();
    let mut lines: Vec<Line<'static>> = wrapped(&clean(&shown), columns.saturating_sub(indent).max(8))
        .into_iter()
        .enumerate()
        .map(|(at, part)| {
            let lead = if at == 0 { lead.clone() } else { " ".repeat(indent) };
            Line::from(vec![Span::raw(lead), Span::styled(part, style)])
        })
        .collect();
    if field.hint.is_empty() {
        return lines;
    }
    let hint = clean(&field.hint);
    // A hint starts beside the value if that leaves it enough columns, else below.
    let beside = columns.saturating_sub(lines.last().map_or(0, Line::width) + 2);
    let starts_beside = hint.width() <= beside || beside >= LEAST_HINT;
    let hint_columns = if starts_beside { beside } else { columns.saturating_sub(indent).max(8) };
    let hint_indent = columns.saturating_sub(hint_columns);
    let mut parts = wrapped(&hint, hint_columns).into_iter();
    if let Some((last, part)) =
        lines.last_mut().filter(|_| starts_beside).and_then(|last| Some((last, parts.next()?)))
    {
        last.push_span(Span::styled(format!("  {part}"), theme.body.dim));
    }
    lines
        .extend(parts.map(|part| Line::styled(format!("{}{part}", " ".repeat(hint_indent)), theme.body.dim)));
    lines
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
