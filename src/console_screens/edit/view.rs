//! Draws the editor: the text with problems at their lines, the diff, the conflict.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Wrap};
use serde_json::Value;
use unicode_width::UnicodeWidthStr;

use super::{Conflict, DryRunResult, Edit, EditStage};
use console_data::changes::merge::{Change, plain};
use console_data::context::Context;
use console_toolkit::command::Command;
use console_toolkit::difference::{self, LineChange};
use console_toolkit::text::{clean, counted, fit, wrapped};
use console_toolkit::theme::Theme;
use console_toolkit::widget::title::title_line;
use console_toolkit::widget::wrap::{self, mark_cut};
use console_toolkit::yaml_text;

/// Minimum number of lines visible above and below the cursor.
const MARGIN: usize = 3;

/// Draws the editor.
pub(super) fn draw(edit: &Edit, cx: &Context<'_>, frame: &mut Frame<'_>, area: Rect) {
    let theme = cx.theme;
    let (word, style) = state(edit, theme);
    let title = vec![
        Span::styled(format!(" {} ", clean(&edit.target.describe())), theme.frame.title),
        Span::styled("edit ", theme.body.accent),
        Span::styled(format!("{word} "), style),
    ];
    let title = title_line(title, area.width);
    let block = theme.block_focused("").title_top(title);
    let inner = block.inner(area);
    frame.render_widget(block, area);
    match &edit.stage {
        _ if edit.offers() => offer(edit, cx, frame, inner),
        EditStage::Loading => frame.render_widget(Line::styled("loading…", theme.body.dim), inner),
        EditStage::Failed(why) => {
            let line = Line::styled(format!("✖ {}", clean(why)), theme.status.failed);
            frame.render_widget(Paragraph::new(line).wrap(Wrap { trim: false }), inner);
        }
        EditStage::Reviewing | EditStage::Saving => {
            let mut lines = merge_note(theme, &edit.merged, usize::from(inner.width));
            lines.extend(difference(theme, &edit.before, &edit.text()));
            scrolled(edit, theme, frame, inner, lines);
        }
        EditStage::Conflict(conflict) => {
            let lines = conflict_lines(theme, conflict, usize::from(inner.width));
            scrolled(edit, theme, frame, inner, lines);
        }
        EditStage::Typing | EditStage::Checking => draw_text(edit, cx, frame, inner),
    }
}

/// Returns the state, for the title.
fn state(edit: &Edit, theme: &Theme) -> (String, Style) {
    let count = edit.problems.len();
    match (&edit.stage, edit.dry_run_result) {
        _ if edit.offers() => ("an edit was not saved".into(), theme.status.pending),
        (EditStage::Loading | EditStage::Failed(_), _) => (String::new(), theme.body.dim),
        (EditStage::Checking, _) => ("the server is checking it…".into(), theme.status.pending),
        (EditStage::Reviewing, _) => ("✔ the server would accept this".into(), theme.status.running),
        (EditStage::Saving, _) => ("saving…".into(), theme.status.pending),
        (EditStage::Conflict(_), _) => ("✖ changed by someone else too".into(), theme.status.failed),
        (EditStage::Typing, _) if !edit.is_changed() && edit.was_unsaved => {
            ("unchanged: your earlier text is lost".into(), theme.status.pending)
        }
        (EditStage::Typing, _) if !edit.is_changed() => ("unchanged".into(), theme.body.dim),
        (EditStage::Typing, DryRunResult::Unknown) => ("changed".into(), theme.body.dim),
        (EditStage::Typing, DryRunResult::Good) => {
            ("changed ✔ the server would accept it".into(), theme.status.running)
        }
        (EditStage::Typing, DryRunResult::Newer) => {
            ("changed ↻ the object changed too: saving merges both".into(), theme.status.pending)
        }
        (EditStage::Typing, DryRunResult::Wrong) if count == 1 => ("✖ 1 problem".into(), theme.status.failed),
        (EditStage::Typing, DryRunResult::Wrong) => (format!("✖ {count} problems"), theme.status.failed),
    }
}

/// Draws the offered draft: its time and the changes it would make.
fn offer(edit: &Edit, cx: &Context<'_>, frame: &mut Frame<'_>, area: Rect) {
    let Some(draft) = &edit.offered else { return };
    let theme = cx.theme;
    let key = |command| cx.bindings.key(command).map(|key| format!("<{key}>")).unwrap_or_default();
    let at = draft.at.strftime("%Y-%m-%d %H:%M UTC");
    let mut notes = vec![
        (format!("Unsaved edit of {at}, {} ago.", cx.age(draft.at)), theme.status.pending),
        (
            format!(
                "{} restores it, {} discards it, {} edits the current object and keeps it.",
                key(Command::DraftRestore),
                key(Command::DraftDiscard),
                key(Command::DraftLater)
            ),
            theme.body.text,
        ),
    ];
    if let EditStage::Failed(why) = &edit.stage {
        notes.push((format!("✖ {}", clean(why)), theme.status.failed));
    } else if edit.target.uid.as_ref().is_some_and(|uid| draft.uid().is_some_and(|of| of != uid.as_str())) {
        let text = "It belongs to an earlier object of this name, which was deleted.";
        notes.push((text.to_owned(), theme.status.failed));
    }
    let mut lines: Vec<Line<'static>> =
        notes.into_iter().flat_map(|(text, style)| sentence(&text, style, usize::from(area.width))).collect();
    lines.push(Line::default());
    let before = yaml_text::write(&console_data::changes::editable::strip(&draft.base));
    lines.extend(difference(theme, &before, &draft.text));
    scrolled(edit, theme, frame, area, lines);
}

fn draw_text(edit: &Edit, cx: &Context<'_>, frame: &mut Frame<'_>, area: Rect) {
    let theme = cx.theme;
    let general: Vec<Line<'_>> = edit
        .problems
        .iter()
        .filter(|problem| problem.line.is_none())
        .flat_map(|problem| wrapped(&format!("✖ {}", clean(&problem.text)), usize::from(area.width)))
        .map(|line| Line::styled(line, theme.prompt.error))
        .collect();
    let below = u16::try_from(general.len()).unwrap_or(u16::MAX).min(area.height / 3);
    let [area, foot] = Layout::vertical([Constraint::Min(1), Constraint::Length(below)]).areas(area);
    frame.render_widget(Paragraph::new(general), foot);

    let height = usize::from(area.height).max(1);
    let width = usize::from(area.width);
    let (row, column) = (edit.area.cursor().0, edit.area.cursor().1);
    let lines = edit.area.lines();
    let digits = lines.len().to_string().len().max(2);
    let left = (column + 1).saturating_sub(width.saturating_sub(digits + 3));
    let complaints = |number: usize| {
        let text_width = width.saturating_sub(digits + 5);
        let own = edit.problems.iter().filter(move |problem| problem.line == Some(number + 1));
        own.flat_map(move |problem| wrapped(&clean(&problem.text), text_width)).collect::<Vec<_>>()
    };
    let tall = |number: usize| 1 + complaints(number).len();
    let mut top = edit.top.get().min(row.saturating_sub(MARGIN.min(height / 4)));
    let margin = MARGIN.min(height / 4).min(lines.len().saturating_sub(row + 1));
    // Problems push the lines below them down.
    while top < row && (top..=row).map(tall).sum::<usize>() + margin > height {
        top += 1;
    }
    edit.top.set(top);
    let mut rows: Vec<Line<'_>> = Vec::new();
    for (number, line) in lines.iter().enumerate().skip(top) {
        if rows.len() >= height {
            break;
        }
        if number == row {
            let before: String = line.chars().skip(left).take(column - left).collect();
            let x = area.x + u16::try_from(digits + 2 + before.width()).unwrap_or(u16::MAX);
            let y = area.y + u16::try_from(rows.len()).unwrap_or(u16::MAX);
            edit.cursor_line.set(y.saturating_sub(area.y));
            if cx.focused {
                frame.set_cursor_position((x.min(area.right().saturating_sub(1)), y));
            }
        }
        let own = complaints(number);
        let (mark, gutter) =
            if own.is_empty() { (" ", theme.body.dim) } else { ("✖", theme.status.failed) };
        let mut spans = vec![Span::styled(format!("{:>digits$}{mark} ", number + 1), gutter)];
        let cut: String = line.chars().skip(left).collect();
        let coloured = yaml_text::colour(&cut, theme).spans;
        spans.extend(coloured.into_iter().map(|span| Span::styled(span.content.into_owned(), span.style)));
        let mut rendered = mark_cut(Line::from(spans), width, theme);
        if number == row {
            let used = rendered.width();
            rendered.push_span(Span::raw(" ".repeat(width.saturating_sub(used))));
            for span in &mut rendered.spans {
                span.style.bg = theme.table.cursor.bg;
            }
        }
        rows.push(rendered);
        for (index, part) in own.into_iter().enumerate() {
            let lead = if index == 0 { "╰ " } else { "  " };
            let lead = format!("{}{lead}", " ".repeat(digits + 2));
            rows.push(Line::styled(format!("{lead}{part}"), theme.prompt.error));
        }
    }
    rows.truncate(height);
    frame.render_widget(Paragraph::new(rows), area);
}

/// Draws lines that the user reads before a decision: long ones continue in the next row, and the border below the area
/// counts those that are not visible.
fn scrolled(edit: &Edit, theme: &Theme, frame: &mut Frame<'_>, area: Rect, lines: Vec<Line<'static>>) {
    let width = usize::from(area.width).max(1);
    let rows: Vec<Line<'static>> = lines.into_iter().flat_map(|line| wrap::wrapped(line, width)).collect();
    let count = rows.len();
    edit.review.draw(rows.into_iter(), frame, area);
    let below = count.saturating_sub(edit.review.last_drawn().end);
    if below > 0 {
        let border = Rect { y: area.bottom(), height: 1, ..area };
        let note = Line::styled(format!(" {} ", counted(below, "more line")), theme.body.accent);
        frame.render_widget(note.right_aligned(), border);
    }
}

/// Returns the lines above the diff that list the merged changes of other clients.
fn merge_note(theme: &Theme, changes: &[Change], width: usize) -> Vec<Line<'static>> {
    if changes.is_empty() {
        return Vec::new();
    }
    let mut lines =
        sentence("↻ Changed by someone else meanwhile; their values are kept:", theme.status.pending, width);
    lines.extend(changes.iter().map(|change| {
        let text = format!(
            "    {}: {} → {}",
            clean(&change.path),
            value_text(change.from.as_ref()),
            value_text(change.to.as_ref())
        );
        Line::styled(fit(&text, width).into_owned(), theme.body.text)
    }));
    lines.push(Line::default());
    lines.push(Line::styled("Your change on top of that:", theme.body.dim));
    lines
}

/// Returns the fields that both the user and another client changed, each with its old value and both new values.
fn conflict_lines(theme: &Theme, conflict: &Conflict, width: usize) -> Vec<Line<'static>> {
    let conflicts = &conflict.merged.conflicts;
    let text = "You and someone else changed the same field. Nothing is saved and nothing is lost.";
    let mut lines = sentence(text, theme.status.pending, width);
    lines.push(Line::default());
    for conflict in conflicts {
        lines.push(Line::styled(clean(&conflict.path).into_owned(), theme.yaml.key));
        for (word, value, style) in [
            ("it was", &conflict.base, theme.body.dim),
            ("yours", &conflict.mine, theme.diff.added),
            ("theirs", &conflict.theirs, theme.diff.removed),
        ] {
            let text = format!("    {word:<8}{}", value_text(value.as_ref()));
            lines.push(Line::styled(fit(&text, width).into_owned(), style));
        }
    }
    let besides: Vec<&Change> = conflict
        .changes
        .iter()
        .filter(|change| !conflicts.iter().any(|conflict| conflict.covers(change)))
        .collect();
    if !besides.is_empty() {
        lines.push(Line::default());
        let text = "They also changed these fields; this is kept either way:";
        lines.extend(sentence(text, theme.body.dim, width));
        for change in besides {
            let text = format!(
                "    {}: {} → {}",
                clean(&change.path),
                value_text(change.from.as_ref()),
                value_text(change.to.as_ref())
            );
            lines.push(Line::styled(fit(&text, width).into_owned(), theme.body.text));
        }
    }
    lines
}

/// Returns a value as short text.
fn value_text(value: Option<&Value>) -> String {
    value.map_or_else(|| "(absent)".to_owned(), |value| clean(&plain(value)).into_owned())
}

/// Returns the lines that differ, with three lines of context.
fn difference(theme: &Theme, before: &str, after: &str) -> Vec<Line<'static>> {
    let line = |(sign, line): (LineChange, String)| {
        Line::styled(format!("{} {}", sign.mark(), clean(&line)), theme.of_difference(sign))
    };
    difference::difference(before, after).into_iter().map(line).collect()
}

/// Returns the lines of a sentence.
fn sentence(text: &str, style: Style, width: usize) -> Vec<Line<'static>> {
    wrapped(text, width).into_iter().map(|line| Line::styled(line, style)).collect()
}
