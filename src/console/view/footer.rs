//! The line at the bottom: the keys of the screen, or the prompt with what it suggests.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Clear, Paragraph};
use unicode_width::UnicodeWidthStr;

use crate::command::{Command, KeyContext, TABLE};
use crate::context::Context;
use crate::effect::Dialog;
use crate::model::Model;
use crate::prompt::PromptKind;
use crate::screen::View;
use crate::text::{clean, tail, wrapped};

pub(super) fn draw_keys(model: &Model, cx: &Context<'_>, frame: &mut Frame<'_>, area: Rect) {
    let mut keys: Vec<(String, &str)> = Vec::new();
    let mut contexts = model.key_contexts(cx.now);
    // What holds everywhere is known after a day; it comes last but for the three ways on.
    contexts.retain(|place| !matches!(place, KeyContext::Everywhere | KeyContext::Tabs | KeyContext::Panes));
    for place in contexts {
        for entry in TABLE.iter().filter(|entry| entry.context == place && !entry.short.is_empty()) {
            if let Some(key) = cx.bindings.key(entry.command).filter(|_| model.offers(entry.command, cx.now))
            {
                keys.push((key.to_string(), entry.short));
            }
        }
    }
    if !model.top().1.takes_all_keys() {
        for command in [Command::Prompt, Command::Filter, Command::Help] {
            if let Some(key) = cx.bindings.key(command) {
                keys.push((key.to_string(), command.entry().short));
            }
        }
    }
    let mut spans = vec![Span::raw(" ")];
    let mut used = 1;
    for (index, (key, short)) in keys.iter().enumerate() {
        let width = key.width() + short.width() + 4;
        // Room is kept for `?`, which leads to all the others.
        let last = index + 1 == keys.len();
        if used + width + if last { 0 } else { 9 } > usize::from(area.width) {
            if let Some(key) = cx.bindings.key(Command::Help) {
                spans.push(Span::styled(format!("<{key}>"), cx.theme.help.key));
                spans.push(Span::styled("more", cx.theme.help.text));
            }
            break;
        }
        used += width;
        spans.push(Span::styled(format!("<{key}>"), cx.theme.help.key));
        spans.push(Span::styled(format!("{short}  "), cx.theme.help.text));
    }
    frame.render_widget(Line::from(spans), area);
}

/// The keys of a dialog: those of the screen behind it do nothing while it is open.
pub(super) fn draw_dialog(dialog: &Dialog, cx: &Context<'_>, frame: &mut Frame<'_>, area: Rect) {
    let mut spans = vec![Span::raw(" ")];
    let mut used = 1;
    for (key, what) in dialog.hints() {
        // Half a hint is none.
        used += key.width() + what.width() + 2;
        if used > usize::from(area.width) {
            break;
        }
        used += 2;
        spans.push(Span::styled(format!("<{key}>"), cx.theme.help.key));
        spans.push(Span::styled(format!("{what}  "), cx.theme.help.text));
    }
    frame.render_widget(Line::from(spans), area);
}

/// An error of the prompt that has no room beside what is typed, whole, in the place of suggestions.
fn draw_error(error: &str, cx: &Context<'_>, frame: &mut Frame<'_>, body: Rect) {
    let theme = cx.theme;
    let width = body.width.saturating_sub(2);
    let lines = wrapped(&format!("✖ {error}"), usize::from(width.saturating_sub(4)).max(1));
    let height = (lines.len() as u16 + 2).min(body.height.saturating_sub(1));
    let place =
        Rect { x: body.x + 1, y: body.bottom().saturating_sub(height + 1).max(body.y), width, height };
    let lines: Vec<Line<'_>> =
        lines.into_iter().map(|line| Line::styled(format!(" {line}"), theme.prompt.error)).collect();
    frame.render_widget(Clear, place);
    frame.render_widget(Paragraph::new(lines).block(theme.block("").style(theme.dialog.text)), place);
}

pub(super) fn draw_prompt(model: &Model, cx: &Context<'_>, frame: &mut Frame<'_>, area: Rect, body: Rect) {
    let Some(prompt) = &model.prompt else { return };
    let theme = cx.theme;
    // Behind a long text there must still be room for what is wrong with it.
    let room = usize::from(area.width).saturating_sub(if prompt.error.is_some() { 42 } else { 4 }).max(8);
    let clean_text = clean(&prompt.text);
    let typed = tail(&clean_text, room);
    let column = area.x + 2 + typed.width() as u16;
    let mut spans = vec![
        Span::styled(format!(" {}", prompt.kind.sign()), theme.body.accent),
        Span::styled(
            typed.into_owned(),
            if prompt.replaceable {
                theme.prompt.text.add_modifier(Modifier::REVERSED)
            } else {
                theme.prompt.text
            },
        ),
    ];
    spans.push(Span::styled(clean(prompt.ghost()).into_owned(), theme.prompt.suggestion));
    let long = prompt.error.as_deref().map(clean).filter(|error| {
        // The sign, the text and what stands before the error.
        usize::from(column - area.x) + 5 + error.width() > usize::from(area.width)
    });
    // A long one stands above, whole.
    if let Some(error) = prompt.error.as_deref().filter(|_| long.is_none()) {
        spans.push(Span::styled(format!("   ✖ {}", clean(error)), theme.prompt.error));
    } else if prompt.kind == PromptKind::Filter && prompt.error.is_none() {
        spans.push(Span::styled("   regex · !not · -l label=value · -f fuzzy", theme.prompt.suggestion));
    }
    frame.render_widget(Line::from(spans), area);
    frame.set_cursor_position((column.min(area.right().saturating_sub(1)), area.y));

    if let Some(error) = long {
        return draw_error(&error, cx, frame, body);
    }
    if prompt.suggestions.is_empty() {
        return;
    }
    // Inside the frame of the screen, so that its corner stays whole.
    let height = (prompt.suggestions.len() as u16 + 2).min(body.height.saturating_sub(1));
    let width = prompt.suggestions.iter().map(|text| text.width()).max().unwrap_or(0) as u16 + 4;
    let place = Rect {
        x: area.x + 1,
        y: body.bottom().saturating_sub(height + 1).max(body.y),
        width: width.clamp(16, body.width.saturating_sub(2)),
        height,
    };
    let lines: Vec<Line<'_>> = prompt
        .suggestions
        .iter()
        .enumerate()
        .map(|(index, text)| {
            let style = if prompt.picked == Some(index) { theme.table.cursor } else { Style::default() };
            Line::styled(format!("{:<width$}", clean(text), width = usize::from(place.width)), style)
        })
        .collect();
    frame.render_widget(Clear, place);
    frame.render_widget(Paragraph::new(lines).block(theme.block("").style(theme.dialog.text)), place);
}
