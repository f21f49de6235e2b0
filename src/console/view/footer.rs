//! The footer: the keys of the screen, or the prompt with its suggestions.

use std::collections::BTreeSet;

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Clear, Paragraph};
use unicode_width::UnicodeWidthStr;

use crate::model::Model;
use base::sort::SliceOrder;
use console_data::context::Context;
use console_data::past;
use console_operations::effect::Dialog;
use console_toolkit::command::{Command, Entry, KeyContext, TABLE};
use console_toolkit::prompt::PromptKind;
use console_toolkit::text::{clean, tail, wrapped};

/// Columns between two keys of the footer.
const GAP: usize = 2;
/// The word after the help key if not all keys fit.
const MORE: &str = "more";

/// A key of the footer with a word for its command.
struct Hint {
    entry: &'static Entry,
    key: String,
}

impl Hint {
    /// Its width, with the gap after it.
    fn width(&self) -> usize {
        self.key.width() + self.entry.short.width() + 4
    }
}

/// Draws the keys that apply here, in the order of the command table. If not all fit, draws those with the lowest
/// [`Entry::rank`], and the help key.
pub(super) fn draw_keys(model: &Model, cx: &Context<'_>, frame: &mut Frame<'_>, area: Rect) {
    let mut hints = hints(model, cx);
    let width = usize::from(area.width).saturating_sub(1);
    // No key opens the help while every key is text.
    let help = cx.bindings.key(Command::Help).filter(|_| !model.top().1.takes_all_keys());
    let help = help.map(|key| key.to_string());
    let mut more = None;
    if hints.iter().map(Hint::width).sum::<usize>() > width + GAP {
        more = help;
        hints.retain(|hint| hint.entry.command != Command::Help);
        let mut left = width.saturating_sub(more.as_ref().map_or(0, |key| key.width() + 2 + MORE.width()));
        let mut ranked: Vec<usize> = (0..hints.len()).collect();
        ranked.order_by_key(|at| hints[*at].entry.rank());
        let fits = |at: &usize| {
            let fits = hints[*at].width() <= left;
            left -= if fits { hints[*at].width() } else { 0 };
            fits
        };
        let retained: BTreeSet<usize> = ranked.into_iter().filter(fits).collect();
        let mut at = 0..;
        hints.retain(|_| at.next().is_some_and(|at| retained.contains(&at)));
    }
    let mut spans = vec![Span::raw(" ")];
    for Hint { key, entry } in &hints {
        spans.push(Span::styled(format!("<{key}>"), cx.theme.help.key));
        spans.push(Span::styled(format!("{}{:GAP$}", entry.short, ""), cx.theme.help.text));
    }
    if let Some(key) = more {
        spans.push(Span::styled(format!("<{key}>"), cx.theme.help.key));
        spans.push(Span::styled(MORE, cx.theme.help.text));
    }
    frame.render_widget(Line::from(spans), area);
}

/// Draws the keys that bring back the frame and the view before, of a view that has the whole screen.
pub(super) fn draw_ways_back(cx: &Context<'_>, frame: &mut Frame<'_>, area: Rect) {
    let mut spans = vec![Span::raw(" ")];
    for (command, what) in [(Command::FullScreen, "frame"), (Command::Back, "back")] {
        let Some(key) = cx.bindings.key(command) else { continue };
        spans.push(Span::styled(format!("<{key}>"), cx.theme.help.key));
        spans.push(Span::styled(format!("{what}{:GAP$}", ""), cx.theme.help.text));
    }
    frame.render_widget(Line::from(spans), area);
}

/// Returns the keys that apply here. Keys that work everywhere are learned quickly: only three of them are shown.
fn hints(model: &Model, cx: &Context<'_>) -> Vec<Hint> {
    let mut contexts = model.key_contexts(cx.now);
    contexts.retain(|place| !matches!(place, KeyContext::Everywhere | KeyContext::Tabs | KeyContext::Panes));
    let of = |place| TABLE.iter().filter(move |entry| entry.context == place && !entry.short.is_empty());
    let is_reached = |entry: &&Entry| entry.applies_in(&contexts);
    let has_past = past::refused(cx.catalogue).is_none();
    let works = |entry: &&Entry| {
        let is_of_past = matches!(entry.command, Command::PastBackMore | Command::OpenVersions);
        (has_past || !is_of_past) && model.offers(entry, cx.now)
    };
    let here = contexts.iter().copied().flat_map(of).filter(is_reached).filter(works);
    let ways = [Command::Prompt, Command::Filter, Command::Help].map(Command::entry);
    let (_, screen) = model.top();
    // `/` opens its prompt everywhere, so that text typed after it gives no commands.
    let filters = |entry: &&Entry| entry.command != Command::Filter || screen.query().is_some();
    let ways = ways.into_iter().filter(|_| !screen.takes_all_keys()).filter(filters);
    let hint = |entry: &'static Entry| {
        let key = cx.bindings.keys(entry).first()?.to_string();
        Some(Hint { entry, key })
    };
    here.chain(ways).filter_map(hint).collect()
}

/// Draws the keys of a dialog, because the keys of the screen below do nothing while it is open.
pub(super) fn draw_dialog(dialog: &Dialog, cx: &Context<'_>, frame: &mut Frame<'_>, area: Rect) {
    let mut spans = vec![Span::raw(" ")];
    let mut used = 1;
    for (key, what) in dialog.hints() {
        // A truncated hint would be useless.
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

/// Draws an error that does not fit beside the typed text, complete, in the area of the suggestions.
fn draw_error(error: &str, cx: &Context<'_>, frame: &mut Frame<'_>, body: Rect) {
    let theme = cx.theme;
    let width = body.width.saturating_sub(2);
    let lines = wrapped(&format!("✖ {error}"), usize::from(width.saturating_sub(4)).max(1));
    let height = (lines.len() as u16 + 2).min(body.height.saturating_sub(1));
    let place =
        Rect { x: body.x + 1, y: body.bottom().saturating_sub(height + 1).max(body.y), width, height };
    let lines: Vec<Line<'_>> = lines.into_iter().map(|line| Line::styled(line, theme.prompt.error)).collect();
    frame.render_widget(Clear, place);
    frame.render_widget(Paragraph::new(lines).block(theme.block("").style(theme.dialog.text)), place);
}

pub(super) fn draw_prompt(model: &Model, cx: &Context<'_>, frame: &mut Frame<'_>, area: Rect, body: Rect) {
    let Some(prompt) = &model.prompt else { return };
    let theme = cx.theme;
    // After a long text there must be space for the error.
    let text_width =
        usize::from(area.width).saturating_sub(if prompt.error.is_some() { 42 } else { 4 }).max(8);
    let clean_text = clean(&prompt.text);
    let typed = tail(&clean_text, text_width);
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
        // The sign, the text and the gap before the error.
        usize::from(column - area.x) + 5 + error.width() > usize::from(area.width)
    });
    // A long error is shown above, complete.
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
    // Inside the screen's frame, so that its corner stays intact.
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
