//! Draws a controller: its state, its keys, and the full result of the one under the cursor.

use jiff::Timestamp;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;
use unicode_width::UnicodeWidthStr;

use super::{Controller, ListSection, Row};
use console_data::context::Context;
use console_data::rows::controller::{
    ControllerStatus, KeyStatus, Quantiles, QueueStatus, format_micros, pausing, remaining,
};
use console_toolkit::text::{clean, fit, fit_parts, grouped, pad, wrapped};

/// Maximum number of lines for the details of the row under the cursor.
const DETAILS: usize = 8;

pub(super) fn draw(screen: &Controller, cx: &Context<'_>, frame: &mut Frame<'_>, area: Rect) {
    let theme = cx.theme;
    let title = format!("controller {}", clean(&screen.target.name));
    let mut block = theme.block_focused(fit(&title, usize::from(area.width).saturating_sub(6)).into_owned());
    if !screen.filter.is_empty() {
        let search = format!(" /{} ", clean(screen.filter.text()));
        block = block.title_bottom(Line::styled(search, theme.status.pending).right_aligned());
    }
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let width = usize::from(inner.width);
    let rows = screen.rows();
    let at = screen.cursor_row(&rows);
    let head = head(screen, cx, width);
    let details = details(rows.get(at), cx, width);
    let height = usize::from(inner.height);
    let head_height = head.len().min(height);
    // The list matters most: the details of one row take a third of the height at most.
    let details_height = details.len().min(DETAILS).min(height.saturating_sub(head_height) / 3);
    let [above, list, below] = Layout::vertical([
        Constraint::Length(u16::try_from(head_height).unwrap_or(u16::MAX)),
        Constraint::Fill(1),
        Constraint::Length(u16::try_from(details_height).unwrap_or(u16::MAX)),
    ])
    .areas(inner);
    frame.render_widget(Paragraph::new(head), above);
    draw_list(screen, &rows, at, cx, frame, list);
    frame.render_widget(Paragraph::new(details), below);
}

/// Returns the state of the controller, one line for each aspect.
fn head(screen: &Controller, cx: &Context<'_>, width: usize) -> Vec<Line<'static>> {
    let theme = cx.theme;
    let mut lines = Vec::new();
    if let Some(why) = screen.failure.as_ref().and_then(super::response::ControllerResponse::error_message) {
        let message = clean(&why).into_owned();
        lines.extend(wrapped(&message, width.saturating_sub(2).max(8)).into_iter().enumerate().map(
            |(at, piece)| {
                Line::styled(format!("{}{piece}", if at == 0 { "✖ " } else { "  " }), theme.status.failed)
            },
        ));
        if let Some((_, at)) = &screen.status {
            lines.push(Line::styled(format!("  below is its state {} ago", cx.age(*at)), theme.body.dim));
        }
    }
    let Some((status, _)) = &screen.status else {
        if lines.is_empty() {
            lines.push(Line::styled("asking the server …", theme.body.dim));
        }
        return lines;
    };
    lines.push(state(status, cx, width));
    if !status.runs() {
        lines.push(Line::styled("a stopped controller reports nothing more", theme.body.dim));
        return lines;
    }
    let waits = status.queue.as_ref().map_or_else(|| vec!["none".to_owned()], waits);
    let (one, several) = status.work();
    let mut done = vec![
        format!("{} {}", grouped(status.reconciles), if status.reconciles == 1 { one } else { several }),
        format!("{} in the last minute", grouped(status.last_minute)),
        format!("{} errors", grouped(status.errors)),
    ];
    if status.panics > 0 {
        done.push(format!("{} panics", grouped(status.panics)));
    }
    let troubled = if status.errors + status.panics > 0 { theme.status.pending } else { theme.body.text };
    let waited = status.queue.is_some().then_some(("waits", status.queue_duration));
    let times = waited.into_iter().chain([("takes", status.work_duration)]);
    let times: Vec<String> = times.map(|(what, all)| format!("{what} {}", quantiles(all))).collect();
    let mut line = |name: &str, text: &str, style: Style| {
        let spans = [
            Span::styled(pad(name, 7), theme.body.dim),
            Span::styled(fit(text, width.saturating_sub(7)).into_owned(), style),
        ];
        lines.push(Line::from_iter(spans));
    };
    // These numbers change all the time: linear mode must not announce each change.
    line("queue", &waits.join(" · "), theme.restless(theme.body.text));
    line("done", &done.join(" · "), theme.restless(troubled));
    line("times", &times.join(" · "), theme.restless(theme.body.text));
    if !status.counts.is_empty() {
        let counts: Vec<String> =
            status.counts.iter().map(|one| format!("{} {}", grouped(one.count), clean(&one.name))).collect();
        line("counts", &counts.join(" · "), theme.restless(theme.body.text));
    }
    if let Some(why) = &status.cannot_pause {
        line("pause", &format!("not possible: {}", clean(why)), theme.body.dim);
    }
    lines
}

/// Returns the keys of the queue by state.
fn waits(queue: &QueueStatus) -> Vec<String> {
    let mut waits = vec![match queue.oldest_microseconds {
        Some(oldest) => format!("{} due, the oldest for {}", grouped(queue.depth), format_micros(oldest)),
        None => format!("{} due", grouped(queue.depth)),
    }];
    waits.push(format!("{} in flight", grouped(queue.in_flight)));
    waits.push(format!("{} later", grouped(queue.delayed)));
    waits.extend(queue.unschedulable.map(|count| format!("{} unschedulable", grouped(count))));
    waits.extend(queue.gated.map(|count| format!("{} gated", grouped(count))));
    waits
}

/// Returns `p50 1.2ms, p99 20ms of the last 256`.
fn quantiles(quantiles: Option<Quantiles>) -> String {
    quantiles.map_or_else(
        || "–".to_owned(),
        |all| {
            let (p50, p99) = (format_micros(all.p50_microseconds), format_micros(all.p99_microseconds));
            format!("p50 {p50}, p99 {p99} of the last {}", all.samples)
        },
    )
}

fn state(status: &ControllerStatus, cx: &Context<'_>, width: usize) -> Line<'static> {
    let health = status.health();
    let mut first = format!("{} {}", cx.theme.state_sign(health), clean(&status.state));
    if status.is_paused() {
        let faults = pausing(cx.stores, status);
        let names: Vec<String> = faults
            .iter()
            .filter_map(|fault| fault.metadata.name.as_deref())
            .map(|name| clean(name).into_owned())
            .collect();
        // The names of the faults are missing if the user may not read faults.
        if !names.is_empty() {
            first = format!("{first} by fault {}", names.join(", "));
        }
    }
    let mut parts = vec![first];
    if let Some(started) = &status.started_at {
        parts.push(format!("started {} ago", cx.age(started.0)));
    }
    if status.workers > 0 {
        parts.push(match status.workers {
            1 => "1 worker".to_owned(),
            workers => format!("{workers} workers"),
        });
    }
    Line::styled(fit_parts(&parts, " · ", width), cx.theme.health(health))
}

fn draw_list(
    screen: &Controller,
    rows: &[Row<'_>],
    at: usize,
    cx: &Context<'_>,
    frame: &mut Frame<'_>,
    area: Rect,
) {
    let Some((status, reported_at)) = &screen.status else { return };
    let (width, height) = (usize::from(area.width), usize::from(area.height).max(1));
    let name = rows.iter().map(|row| clean(&row.key.key).width()).max().unwrap_or(0).clamp(3, width / 2);
    let mut lines = Vec::new();
    let mut cursor_line = 0;
    for part in ListSection::ALL {
        let of_part: Vec<(usize, &Row<'_>)> =
            rows.iter().enumerate().filter(|(_, row)| row.part == part).collect();
        if of_part.is_empty() {
            continue;
        }
        let heading = heading(part, status, of_part.len());
        lines.push(Line::styled(fit(&heading, width).into_owned(), cx.theme.table.header));
        for (index, row) in of_part {
            let style = match () {
                () if index == at => cx.theme.table.cursor,
                () if part == ListSection::Errors || is_error(row.key) => cx.theme.status.failed,
                () => cx.theme.body.text,
            };
            if index == at {
                cursor_line = lines.len();
            }
            let lead = if index == at { "▸ " } else { "  " };
            let text = format!(
                "{lead}{}  {}",
                pad(&fit(&clean(&row.key.key), name), name),
                row_text(row, *reported_at, cx)
            );
            lines.push(Line::styled(pad(&fit(&text, width), width), style));
        }
    }
    if lines.is_empty() {
        let text = match screen.filter.is_empty() {
            true if !status.runs() => "",
            true if status.queue.is_none() => "no reconcile has run yet",
            true => "nothing is queued, and no reconcile has run yet",
            false => "nothing here matches",
        };
        lines.push(Line::styled(text, cx.theme.body.dim));
    }
    // If the cursor is on the first row, the heading above it stays visible.
    let target = if at == 0 && height > 1 { 0 } else { cursor_line };
    let shown = screen.window.around(target, height, lines.len());
    frame.render_widget(Paragraph::new(lines.split_off(shown.start)), area);
}

fn is_error(key: &KeyStatus) -> bool {
    matches!(key.result.as_str(), "Failed" | "Panicked")
}

/// Returns the heading of a section, with the number of visible rows and of all rows.
fn heading(part: ListSection, status: &ControllerStatus, shown: usize) -> String {
    let queue = status.queue.clone().unwrap_or_default();
    let (name, all) = match part {
        ListSection::InFlight => ("IN FLIGHT", queue.in_flight.max(shown as u64)),
        ListSection::Due => ("DUE", queue.depth),
        ListSection::Later => ("LATER", queue.delayed),
        ListSection::Recent => (last_work(status), shown as u64),
        ListSection::Errors => ("LAST ERRORS", shown as u64),
    };
    if all > shown as u64 { format!("{name} {shown} of {}", grouped(all)) } else { format!("{name} {shown}") }
}

/// Returns the heading of the last work.
fn last_work(status: &ControllerStatus) -> &'static str {
    match status.work().1 {
        "rounds" => "LAST ROUNDS",
        "reconciles" => "LAST RECONCILES",
        _ => "LAST SYNCS",
    }
}

/// Returns the text of a row after its key.
fn row_text(row: &Row<'_>, reported_at: Timestamp, cx: &Context<'_>) -> String {
    let key = row.key;
    let failures = match key.failures {
        0 => String::new(),
        1 => ", failed once".to_owned(),
        times => format!(", failed {times} times"),
    };
    let duration = |micros: Option<u64>| micros.map_or_else(|| "–".to_owned(), format_micros);
    match row.part {
        ListSection::InFlight => format!("for {}", duration(key.worked_microseconds)),
        ListSection::Due => match key.waited_microseconds {
            Some(waited) => format!("for {}{failures}", format_micros(waited)),
            None => "not queued yet".to_owned(),
        },
        ListSection::Later => {
            let due = key.due_in_microseconds.map(|due| remaining(due, reported_at, cx.now));
            format!("in {}{failures}", duration(due))
        }
        ListSection::Recent | ListSection::Errors => {
            let ago = key.at.as_ref().map(|at| format!(", {} ago", cx.age(at.0))).unwrap_or_default();
            let detail = match (&key.message, key.requeued_after_microseconds) {
                (Some(why), _) => format!(": {why}"),
                (None, Some(after)) => format!(", requeued after {}", format_micros(after)),
                (None, None) => String::new(),
            };
            let text = format!("{} in {}{ago}{detail}", key.result, duration(key.worked_microseconds));
            clean(&text.replace(['\n', '\r'], " ")).into_owned()
        }
    }
}

/// Returns the full text of a row, below a separator.
fn details(row: Option<&Row<'_>>, cx: &Context<'_>, width: usize) -> Vec<Line<'static>> {
    let Some(row) = row else { return Vec::new() };
    let key = row.key;
    let of = match &key.object {
        Some(object) => format!("{} {}", object.kind, object.name),
        None => key.key.clone(),
    };
    let mut text = Vec::new();
    if let Some(waited) = key.waited_microseconds.filter(|_| key.at.is_some()) {
        text.push(format!("It had waited for {}.", format_micros(waited)));
    }
    text.extend(key.message.clone());
    if text.is_empty() {
        return Vec::new();
    }
    let rule = format!("─ {} ", fit(&clean(&of), width.saturating_sub(4)));
    let rule = format!("{rule}{}", "─".repeat(width.saturating_sub(rule.width())));
    let mut lines = vec![Line::styled(rule, cx.theme.body.dim)];
    for paragraph in text {
        let paragraph = clean(&paragraph).into_owned();
        lines.extend(
            wrapped(&paragraph, width.max(8))
                .into_iter()
                .map(|piece| Line::styled(piece, cx.theme.body.text)),
        );
    }
    lines
}
