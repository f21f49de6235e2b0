//! Draws why a pod is pending: hints, the table of nodes and filters, and the details of the row under the cursor.
//!
//! ```text
//!  ✖ none of 4 nodes accepts it · tried 12s ago
//!    node-2  uncordon the node                        hints, smallest change first
//!  ───────────────────────────────────────────
//!  NODE     cordon taints resources  SCORE  REASON
//!  node-2     ✖      ✔       ✔         512  …         rows: nodes, or groups that open
//!  ─ node-2 ──────────────────────────────────
//!  ✖ NodeUnschedulable  node(s) were unschedulable    the row in full
//! ```

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Wrap};
use unicode_width::UnicodeWidthStr;

use super::groups::{GroupExpansion, Row, RowNesting, reasons};
use super::scheduler_event::scheduler_message;
use super::verdict::{Hint, Verdict, VerdictResponse};
use super::{PendingScreen, event_view};
use console_data::context::Context;
use console_data::related::{events_about, waits_for_a_node};
use console_toolkit::text::{clean, fit, grouped, pad};
use console_toolkit::widget::notice;

pub(super) fn draw(pending: &PendingScreen, cx: &Context<'_>, frame: &mut Frame<'_>, area: Rect) {
    let theme = cx.theme;
    let title = format!("why pending · {}", pending.target.describe());
    let mut block = theme.block_focused(fit(&title, usize::from(area.width).saturating_sub(6)).into_owned());
    if !pending.filter.is_empty() {
        let search = format!(" /{} ", clean(pending.filter.text()));
        block = block.title_bottom(Line::styled(search, theme.status.pending).right_aligned());
    }
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let width = usize::from(inner.width);
    let mut head = vec![fit_line(state(pending, cx), width)];
    head.extend(nominated_node_line(pending, cx).map(|line| fit_line(line, width)));
    head.extend(stale(pending, cx, width));
    match &pending.response {
        None => {
            head.push(Line::styled("asking the scheduler …", theme.body.dim));
            frame.render_widget(Paragraph::new(head), inner);
        }
        Some(VerdictResponse::Verdict(verdict)) => {
            head.extend(hint(verdict, cx, width));
            draw_verdict(pending, verdict, head, cx, frame, inner);
        }
        Some(answer) => {
            let message =
                pending.pod(cx).and_then(|pod| scheduler_message(pod, &events_about(cx, &pending.target)));
            head.extend(event_view::lines(answer, message.as_ref(), cx, width));
            frame.render_widget(Paragraph::new(head).wrap(Wrap { trim: false }), inner);
        }
    }
}

/// Returns the state of the pod in one line.
fn state(pending: &PendingScreen, cx: &Context<'_>) -> Line<'static> {
    let theme = cx.theme;
    let Some(pod) = pending.pod(cx) else {
        let (text, style) = if cx.stores.pods().synced() {
            ("✖ the pod is gone".to_owned(), theme.status.failed)
        } else {
            ("loading …".to_owned(), theme.body.dim)
        };
        return Line::styled(text, style);
    };
    let spec = pod.spec.as_ref();
    if let Some(node) = spec.and_then(|spec| spec.node_name.as_deref()).filter(|name| !name.is_empty()) {
        return Line::styled(
            format!("✔ scheduled to {}; below is the previous attempt", clean(node)),
            theme.status.succeeded,
        );
    }
    if !waits_for_a_node(pod) {
        return Line::styled("◌ it is terminating and needs no node", theme.status.terminating);
    }
    let waits = pod.metadata.creation_timestamp.as_ref().map(|time| format!("waits for {}", cx.age(time.0)));
    let gates: Vec<&str> = spec
        .and_then(|spec| spec.scheduling_gates.as_ref())
        .into_iter()
        .flatten()
        .map(|gate| gate.name.as_str())
        .collect();
    let mut parts = Vec::new();
    let glyph = if gates.is_empty() {
        match (pending.verdict(), &pending.response) {
            (Some(verdict), _) => {
                parts.push(match verdict.nodes.len() {
                    0 => "no nodes".to_owned(),
                    1 => "the only node does not accept it".to_owned(),
                    nodes => format!("none of {} nodes accepts it", grouped(nodes as u64)),
                });
                parts.push(format!("tried {} ago", cx.age(verdict.attempted_at.0)));
                "✖"
            }
            (None, Some(VerdictResponse::Untried)) => {
                parts.push("the scheduler has not tried it".to_owned());
                "◐"
            }
            (None, _) => {
                parts.push("no node has accepted it".to_owned());
                "◐"
            }
        }
    } else {
        parts.push(format!("not tried while it has gates: {}", clean(&gates.join(", "))));
        "◌"
    };
    parts.extend(waits);
    let style = if glyph == "✖" { theme.status.failed } else { theme.status.pending };
    Line::styled(format!("{glyph} {}", parts.join(" · ")), style)
}

/// Returns the node nominated for the pod, while preemption victims terminate.
fn nominated_node_line(pending: &PendingScreen, cx: &Context<'_>) -> Option<Line<'static>> {
    let pod = pending.pod(cx).filter(|pod| waits_for_a_node(pod))?;
    let node = pod.status.as_ref()?.nominated_node_name.as_deref().filter(|name| !name.is_empty())?;
    let text = format!("◐ nominated to {}: pods of lower priority are leaving it", clean(node));
    Some(Line::styled(text, cx.theme.status.pending))
}

/// Warns that the nodes have changed since the attempt.
fn stale(pending: &PendingScreen, cx: &Context<'_>, width: usize) -> Option<Line<'static>> {
    let changes = pending.changes_since(cx);
    let (first, more) = (changes.first()?, changes.len() - 1);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let text = format!("⚠ stale: {}{more} since then", clean(first));
    Some(Line::styled(fit(&text, width).into_owned(), cx.theme.dialog.warning))
}

fn hint(verdict: &Verdict, cx: &Context<'_>, width: usize) -> Vec<Line<'static>> {
    let theme = cx.theme;
    if verdict.hints.is_empty() {
        return Vec::new();
    }
    let names = verdict.hints.iter().map(|hint| hinted_nodes(hint).width()).max().unwrap_or(0);
    let names = names.min(width / 3);
    let mut lines = vec![Line::styled("To make it fit, smallest change first:", theme.body.dim)];
    lines.extend(verdict.hints.iter().enumerate().map(|(at, hint)| {
        let style = if at == 0 { theme.body.accent } else { theme.body.text };
        let changes = clean(&hint.changes.join(" and ")).into_owned();
        Line::from(vec![
            Span::styled(if at == 0 { "▸ " } else { "  " }, theme.body.accent),
            Span::styled(pad(&hinted_nodes(hint), names), style),
            Span::raw("  "),
            Span::styled(fit(&changes, width.saturating_sub(names + 4)).into_owned(), theme.body.text),
        ])
    }));
    lines
}

/// Returns the node of a hint, and the number of others with the same hint.
fn hinted_nodes(hint: &Hint) -> String {
    let alike = if hint.alike > 0 { format!(" +{}", hint.alike) } else { String::new() };
    format!("{}{alike}", clean(&hint.node))
}

fn draw_verdict(
    pending: &PendingScreen,
    verdict: &Verdict,
    head: Vec<Line<'static>>,
    cx: &Context<'_>,
    frame: &mut Frame<'_>,
    area: Rect,
) {
    let rows = pending.rows();
    let place = pending.cursor_row(verdict, &rows);
    let below = rows.get(place).map(|row| details(verdict, row, cx)).unwrap_or_default();
    // The table has at least four rows; the details of the row under the cursor use the remaining height.
    let head_height = u16::try_from(head.len()).unwrap_or(u16::MAX).min(area.height / 2);
    let rest = area.height.saturating_sub(head_height + 2);
    let desired = wrapped_height(&below, area.width).min(rest.saturating_sub(5).max(rest / 2));
    let [top, rule, table, under, bottom] = Layout::vertical([
        Constraint::Length(head_height),
        Constraint::Length(1),
        Constraint::Min(1),
        Constraint::Length(1),
        Constraint::Length(desired),
    ])
    .areas(area);
    frame.render_widget(Paragraph::new(head), top);
    frame.render_widget(ruled("", cx, rule.width), rule);
    draw_table(pending, verdict, &rows, place, cx, frame, table);
    let name = rows.get(place).map(|row| row_name(verdict, row)).unwrap_or_default();
    frame.render_widget(ruled(&name, cx, under.width), under);
    frame.render_widget(Paragraph::new(below).wrap(Wrap { trim: false }), bottom);
}

fn ruled(title: &str, cx: &Context<'_>, width: u16) -> Line<'static> {
    let title = if title.is_empty() { String::new() } else { format!("─ {} ", clean(title)) };
    let title = fit(&title, usize::from(width)).into_owned();
    let rest = "─".repeat(usize::from(width).saturating_sub(title.width()));
    Line::from(vec![Span::styled(title, cx.theme.frame.title), Span::styled(rest, cx.theme.frame.border)])
}

fn wrapped_height(lines: &[Line<'_>], width: u16) -> u16 {
    let width = usize::from(width.max(1));
    let rows: usize = lines.iter().map(|line| line.width().div_ceil(width).max(1)).sum();
    u16::try_from(rows).unwrap_or(u16::MAX)
}

/// The columns of the table.
struct Columns<'v> {
    name: usize,
    /// Filters with their column titles; those that no node fails are dropped first on narrow screens.
    filters: Vec<(&'v str, &'v str)>,
    score: usize,
    reason: usize,
}

impl<'v> Columns<'v> {
    fn of(verdict: &'v Verdict, rows: &[Row<'_>], width: usize) -> Self {
        let mut filters: Vec<(&str, &str)> =
            verdict.filters.iter().map(|filter| (filter.as_str(), short(filter))).collect();
        let names = rows.iter().map(|row| row_name(verdict, row).width() + 4).max().unwrap_or(0);
        let name = names.clamp(12, (width / 3).max(12));
        let scores = rows.iter().filter_map(|row| score(verdict, row)).map(|text| text.width());
        let score = scores.max().unwrap_or(0);
        let score = if score == 0 { 0 } else { score.max("SCORE".len()) + 1 };
        let taken =
            |filters: &[(&str, &str)]| filters.iter().map(|(_, short)| short.width() + 1).sum::<usize>();
        let refused = |filter: &str| {
            verdict.nodes.iter().any(|node| node.refusals.iter().any(|refusal| refusal.plugin == filter))
        };
        while name + score + taken(&filters) > width {
            // Filters that every node passes are the least useful.
            let Some(at) = filters.iter().rposition(|(filter, _)| !refused(filter)) else { break };
            filters.remove(at);
        }
        let reason = width.saturating_sub(name + score + taken(&filters) + 1);
        Self { name, filters, score, reason: if reason < 12 { 0 } else { reason } }
    }
}

/// Returns the title of a filter's column.
fn short(filter: &str) -> &str {
    match filter {
        "NodeUnschedulable" => "cordon",
        "NodeName" => "name",
        "TaintToleration" => "taints",
        "NodeAffinity" => "affinity",
        "NodePorts" => "ports",
        "NodeResourcesFit" => "resources",
        "PodTopologySpread" => "spread",
        "InterPodAffinity" => "pods",
        "VolumeBinding" => "volumes",
        "VolumeRestrictions" => "vol. use",
        "VolumeZone" => "vol. zone",
        other => other,
    }
}

fn draw_table(
    pending: &PendingScreen,
    verdict: &Verdict,
    rows: &[Row<'_>],
    cursor: usize,
    cx: &Context<'_>,
    frame: &mut Frame<'_>,
    area: Rect,
) {
    let theme = cx.theme;
    let columns = Columns::of(verdict, rows, usize::from(area.width));
    let mut heads = pad("NODE", columns.name);
    // For a screen reader, each row names its filters.
    for (_, short) in columns.filters.iter().filter(|_| !theme.spoken) {
        heads.push_str(short);
        heads.push(' ');
    }
    if columns.score > 0 {
        heads.push_str(&" ".repeat(columns.score.saturating_sub("SCORE".len())));
        heads.push_str("SCORE");
    }
    if columns.reason > 0 {
        heads.push_str(" REASON");
    }
    frame.render_widget(Line::styled(heads, theme.table.header), Rect { height: 1, ..area });
    let body = Rect { y: area.y + 1, height: area.height.saturating_sub(1), ..area };
    if rows.is_empty() {
        let text = if pending.filter.is_empty() { "no nodes" } else { "no node and no reason matches" };
        return notice::draw(text, theme.body.dim, frame, body);
    }
    let shown = pending.window.around(cursor, usize::from(body.height), rows.len());
    let lines: Vec<Line<'_>> = rows[shown.clone()]
        .iter()
        .zip(shown)
        .map(|(row, at)| row_line(verdict, row, &columns, at == cursor, cx))
        .collect();
    frame.render_widget(Paragraph::new(lines), body);
}

/// Returns the visible rows around the cursor.
fn row_name(verdict: &Verdict, row: &Row<'_>) -> String {
    match row {
        Row::Group(group, _) => format!("{} nodes", grouped(group.nodes.len() as u64)),
        Row::Node(position, _) => verdict.nodes[*position].name.clone(),
    }
}

/// Returns the score of a node, or the range of a group.
fn score(verdict: &Verdict, row: &Row<'_>) -> Option<String> {
    let total = |position: usize| verdict.total(&verdict.nodes[position]);
    match row {
        Row::Node(position, _) => total(*position).map(|total| total.to_string()),
        Row::Group(group, _) => {
            let (best, worst) = (total(*group.nodes.first()?)?, total(*group.nodes.last()?)?);
            Some(if best == worst { best.to_string() } else { format!("{worst}–{best}") })
        }
    }
}

fn row_line(
    verdict: &Verdict,
    row: &Row<'_>,
    columns: &Columns<'_>,
    selected: bool,
    cx: &Context<'_>,
) -> Line<'static> {
    let theme = cx.theme;
    let on = |style: Style| if selected { theme.table.cursor.patch(style) } else { style };
    let ground = |style: Style| if selected { theme.table.cursor } else { style };
    let lead = match row {
        Row::Group(_, GroupExpansion::Yes) => "▾ ",
        Row::Group(_, GroupExpansion::No) => "▸ ",
        Row::Node(_, RowNesting::Yes) => "    ",
        Row::Node(_, RowNesting::No) => "  ",
    };
    let node = row.example(verdict);
    let name = format!("{lead}{}", clean(&row_name(verdict, row)));
    let mut spans = vec![Span::styled(pad(&name, columns.name), ground(theme.body.text))];
    for (filter, short) in &columns.filters {
        let refused = node.refusals.iter().any(|refusal| refusal.plugin == *filter);
        let (glyph, style) =
            if refused { ("✖", theme.status.failed) } else { ("✔", theme.status.running) };
        if theme.spoken {
            let label = if refused { "no" } else { "yes" };
            spans.push(Span::styled(format!("  {short} {label}"), ground(Style::default())));
            continue;
        }
        let before = short.width() / 2;
        spans.push(Span::styled(" ".repeat(before), ground(Style::default())));
        spans.push(Span::styled(glyph, on(style)));
        spans.push(Span::styled(" ".repeat(short.width() - before), ground(Style::default())));
    }
    if columns.score > 0 {
        let score = score(verdict, row).unwrap_or_default();
        spans.push(Span::styled(format!("{score:>width$}", width = columns.score), ground(theme.body.dim)));
    }
    if columns.reason > 0 {
        // The reasons of nodes in a group are in the group's row.
        let reasons =
            if matches!(row, Row::Node(_, RowNesting::Yes)) { String::new() } else { reasons(node) };
        let text = format!(" {}", pad(&clean(&reasons), columns.reason));
        spans.push(Span::styled(text, ground(theme.body.text)));
    }
    Line::from(spans)
}

/// Returns the details of the row under the cursor.
fn details(verdict: &Verdict, row: &Row<'_>, cx: &Context<'_>) -> Vec<Line<'static>> {
    let theme = cx.theme;
    let node = row.example(verdict);
    let mut lines: Vec<Line<'static>> = node
        .refusals
        .iter()
        .map(|refusal| {
            Line::from(vec![
                Span::styled(format!("✖ {}  ", clean(&refusal.plugin)), theme.status.failed),
                Span::styled(clean(&refusal.reasons.join(", ")).into_owned(), theme.body.text),
            ])
        })
        .collect();
    let passes = |filter: &&String| !node.refusals.iter().any(|refusal| refusal.plugin == **filter);
    let passed: Vec<&str> = verdict.filters.iter().filter(passes).map(String::as_str).collect();
    if !passed.is_empty() {
        lines.push(Line::from(vec![
            Span::styled("✔ ", theme.status.running),
            Span::styled(clean(&passed.join(", ")).into_owned(), theme.body.dim),
        ]));
    }
    if let Some(hint) = verdict.hints.iter().find(|hint| hint.node == node.name) {
        lines.push(Line::from(vec![
            Span::styled("▸ ", theme.body.accent),
            Span::styled(clean(&hint.changes.join(" and ")).into_owned(), theme.body.text),
        ]));
    }
    if let Some(total) = verdict.total(node) {
        let label = match row {
            Row::Group(..) => format!("the best of them, {}, would score {total}", clean(&node.name)),
            Row::Node(..) => format!("it would score {total}"),
        };
        let parts: Vec<String> = verdict
            .scored_by
            .iter()
            .zip(&node.scores)
            .map(|(by, score)| format!("{} {score}×{}", clean(&by.plugin), by.weight))
            .collect();
        lines.push(Line::styled(format!("{label}: {}", parts.join(" + ")), theme.body.dim));
    }
    lines
}

fn fit_line(line: Line<'static>, width: usize) -> Line<'static> {
    let text: String = line.spans.iter().map(|span| span.content.as_ref()).collect();
    if text.width() <= width { line } else { Line::styled(fit(&text, width).into_owned(), line.style) }
}
