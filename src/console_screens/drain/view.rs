//! Draws a drain: a row for each pod with its obstacles and its progress, and the switches below.

use std::collections::HashMap;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;
use unicode_width::UnicodeWidthStr;

use super::options::SWITCHES;
use super::replacement::{Replacement, replacements};
use super::{Cursor, Drain, DrainStage};
use console_data::context::Context;
use console_data::resource::Uid;
use console_data::saved_tabs::{SavedDrain, SavedStage};
use console_data::store::StoredObject;
use console_operations::operations::drain::{BudgetDecision, EvictionState, PodDeleteStatus, Row};
use console_toolkit::command::{Command, KeyContext};
use console_toolkit::text::{age, clean, fit, fit_middle, fit_parts, pad, seconds_until, wrapped};
use console_toolkit::widget::gauge;

/// Width of the progress bar in the border, in columns.
const BAR: usize = 20;

/// Width of a row before the name of the pod: cursor and label.
const LEAD: usize = 10;

/// Minimum height for the list, the rule and the footer, in lines.
const LIST_AND_FOOT: usize = 5;

pub(super) fn draw(drain: &Drain, cx: &Context<'_>, frame: &mut Frame<'_>, area: Rect) {
    let theme = cx.theme;
    let rows = drain.rows(cx);
    let width = usize::from(area.width).saturating_sub(4);
    let left = drain.leftover_pods(cx);
    let behind = drain.stage == DrainStage::Over && left.describe().is_some();
    let title = if behind { theme.status.pending } else { theme.frame.title };
    let heading = format!(" {} ", fit(&heading(drain, cx, &rows), width));
    let mut block = theme.block_focused("").title(Span::styled(heading, title));
    let (gone, leaving) = drain.progress();
    // A refused pod keeps the bar from reaching 100 %.
    let all = leaving + rows.iter().flatten().filter(|row| row.delete_status.refuses()).count();
    if drain.stage != DrainStage::Preview && all > 0 && width > 60 {
        let share = gone as f64 / all as f64;
        let full = if behind { theme.status.pending } else { theme.status.running };
        let mut bar = gauge::bar(share, BAR, full, theme.chart.empty);
        bar.insert(0, Span::raw(" "));
        bar.push(Span::raw(" "));
        block = block.title_top(Line::from(bar).right_aligned());
    }
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let mut switches = switches(drain, cx, usize::from(inner.width));
    // On a low screen the pods matter most: of the switches, only the line under the cursor stays.
    if switches.len() + LIST_AND_FOOT > usize::from(inner.height) {
        let at =
            switches.iter().position(|line| line.spans.iter().any(|span| span.style == theme.table.cursor));
        let index = at.filter(|_| matches!(drain.cursor, Cursor::Option(_))).unwrap_or(0);
        let others = switches.len() - 1;
        switches = switches.into_iter().skip(index).take(1).collect();
        if let Some(line) = switches.first_mut().filter(|_| others > 0) {
            line.push_span(Span::styled(format!("+{others} more lines"), theme.body.dim));
        }
    }
    let [list, rule, below, foot] = Layout::vertical([
        Constraint::Min(1),
        Constraint::Length(1),
        Constraint::Length(u16::try_from(switches.len()).unwrap_or(u16::MAX)),
        Constraint::Length(1),
    ])
    .areas(inner);
    drain.foot.set(rule.height + below.height + foot.height);
    let (lines, cursor) = list_lines(drain, cx, &rows, usize::from(list.width));
    let visible = drain.window.around(cursor, usize::from(list.height), lines.len());
    frame.render_widget(Paragraph::new(lines.into_iter().skip(visible.start).collect::<Vec<_>>()), list);
    let line = "─".repeat(usize::from(rule.width));
    frame.render_widget(Line::styled(line, theme.frame.border), rule);
    frame.render_widget(Paragraph::new(switches), below);
    let line = fit_parts(foot_text(drain, cx).split(" · "), " · ", usize::from(foot.width));
    frame.render_widget(Line::styled(line, theme.body.dim).right_aligned(), foot);
}

fn heading(drain: &Drain, cx: &Context<'_>, rows: &[Vec<Row>]) -> String {
    let pods: usize = rows.iter().map(Vec::len).sum();
    let (gone, leaving) = drain.progress();
    let stays = rows.iter().flatten().filter(|row| row.delete_status.refuses()).count();
    let stays = if stays > 0 { format!(", {stays} refused") } else { String::new() };
    let name = drain.name();
    match drain.stage {
        DrainStage::Preview => {
            let never = |row: &&Row| {
                let never =
                    matches!(row.budget_decision, BudgetDecision::Never(_) | BudgetDecision::Refused(_));
                never && row.delete_status.leaves()
            };
            let never = rows.iter().flatten().filter(never).count();
            let leaving = rows.iter().flatten().filter(|row| row.delete_status.leaves()).count() - never;
            let stays = if never > 0 { format!(", {never} never{stays}") } else { stays };
            let (noun, verb) =
                (if pods == 1 { "pod" } else { "pods" }, if leaving == 1 { "leaves" } else { "leave" });
            let last = drain.last.as_ref().map(|last| format!(" ── {}", so_far(last))).unwrap_or_default();
            format!("Drain {name} ── {pods} {noun}, {leaving} {verb}{stays}{last}")
        }
        DrainStage::Running => format!("Drain {name} ── {gone} of {leaving} gone{stays}"),
        DrainStage::Stopped => format!("Drain {name} ── stopped, {gone} of {leaving} gone{stays}"),
        DrainStage::Over => match drain.leftover_pods(cx).describe() {
            None if gone < leaving => format!("Drain {name} ── ended, {gone} of {leaving} gone"),
            None => format!("Drain {name} ── done, {gone} of {leaving} gone"),
            Some(words) => format!("Drain {name} ── ◐ {words}, {gone} of {leaving} gone"),
        },
    }
}

/// Returns the progress of a drain when the last session ended.
fn so_far(last: &SavedDrain) -> String {
    let SavedDrain { gone, leaving, .. } = last;
    match last.stage {
        SavedStage::Preview => String::new(),
        SavedStage::Running => format!("interrupted by the console's end, {gone} of {leaving} were gone"),
        SavedStage::Stopped => format!("stopped before, {gone} of {leaving} were gone"),
        SavedStage::Over => format!("ended before, {gone} of {leaving} were gone"),
    }
}

/// A pod's row before its layout.
struct RowParts<'a> {
    row: &'a Row,
    label: &'static str,
    reason: (String, Style),
    eviction: (String, Style),
}

/// Returns the rows of all nodes, and the line of the cursor.
fn list_lines(
    drain: &Drain,
    cx: &Context<'_>,
    rows: &[Vec<Row>],
    width: usize,
) -> (Vec<Line<'static>>, usize) {
    let replacements = find_replacements(drain, cx, rows);
    let parts: Vec<Vec<RowParts<'_>>> = rows
        .iter()
        .enumerate()
        .map(|(node, rows)| {
            rows.iter().map(|row| parts(drain, cx, row, node, replacements.get(&row.uid))).collect()
        })
        .collect();
    let all = || parts.iter().flatten();
    let name_width = all().map(|part| part.row.name.width()).max().unwrap_or(0);
    let eviction_width = all().map(|part| part.eviction.0.width()).max().unwrap_or(0);
    let name_width = name_width.clamp(8, (width * 2 / 5).max(8));
    let rest = width.saturating_sub(LEAD + name_width + 1);
    let eviction_width = eviction_width.min(width / 3).min(rest / 2);
    let reason_width = rest.saturating_sub(eviction_width + 1);
    let mut lines = Vec::new();
    let mut cursor = 0;
    for (node, parts) in parts.into_iter().enumerate() {
        if drain.nodes.len() > 1 {
            lines.push(node_line(drain, cx, node));
        } else if let Some(Err(error)) = &drain.states[node].result {
            lines.push(Line::styled(format!("✖ {}", clean(error)), cx.theme.status.failed));
        }
        if parts.is_empty() {
            lines.push(Line::styled("  no pods on this node", cx.theme.body.dim));
        }
        for RowParts { row, label: word, reason: why, eviction } in parts {
            let selected = drain.cursor == Cursor::Pod(row.uid.clone());
            if selected {
                cursor = lines.len();
            }
            let label_style = match row.delete_status {
                delete_status if delete_status.refuses() => cx.theme.dialog.warning,
                PodDeleteStatus::SkipDaemonSet | PodDeleteStatus::SkipMirror => cx.theme.body.dim,
                _ => cx.theme.body.accent,
            };
            // In a row without an eviction, the reason also takes the width of that column.
            let (why_width, eviction_width) =
                if eviction.0.is_empty() { (rest, 0) } else { (reason_width, eviction_width) };
            let is_cut = why.0.width() > why_width || eviction.0.width() > eviction_width;
            let mut line = Line::from(vec![
                Span::styled(if selected { "▸ " } else { "  " }, cx.theme.body.accent),
                Span::styled(pad(word, 8), label_style),
                Span::styled(pad(&fit_middle(&clean(&row.name), name_width), name_width), cx.theme.body.text),
                Span::raw(" "),
                Span::styled(pad(&clean(&why.0), why_width), why.1),
                Span::raw(" "),
                Span::styled(pad(&eviction.0, eviction_width), eviction.1),
            ]);
            if selected {
                for span in &mut line.spans {
                    span.style = span.style.patch(cx.theme.table.cursor);
                }
            }
            lines.push(line);
            // The row of the cursor shows the texts that do not fit below it.
            if selected && is_cut {
                let texts = [(clean(&why.0).into_owned(), why.1), eviction];
                let whole = texts.into_iter().filter(|(text, _)| !text.is_empty());
                lines.extend(whole.flat_map(|(text, style)| {
                    let rows = wrapped(&text, width.saturating_sub(LEAD).max(8));
                    rows.into_iter().map(move |row| Line::styled(format!("{:LEAD$}{row}", ""), style))
                }));
                cursor = lines.len() - 1;
            }
        }
    }
    if matches!(drain.cursor, Cursor::Option(_)) {
        cursor = lines.len().saturating_sub(1);
    }
    (lines, cursor)
}

/// Returns the pods that replaced those that are gone.
fn find_replacements(drain: &Drain, cx: &Context<'_>, rows: &[Vec<Row>]) -> HashMap<Uid, Replacement> {
    let Some(since) = drain.started else { return HashMap::new() };
    let left = drain.states.iter().zip(rows).flat_map(|(state, rows)| {
        rows.iter().filter(|row| {
            matches!(
                state.evictions.get(&row.uid),
                Some(EvictionState::Deleted { .. } | EvictionState::Ending { .. })
            )
        })
    });
    replacements(left, since, |owner| {
        let made = cx.stores.pods().entries_owned_by(owner);
        // Most pods are older than the drain, so they are filtered out before they are unpacked.
        made.filter(|pod| pod.created.is_some_and(|at| at.as_second() >= since.as_second()))
            .map(StoredObject::whole)
            .collect()
    })
}

fn parts<'a>(
    drain: &Drain,
    cx: &Context<'_>,
    row: &'a Row,
    node: usize,
    replacement: Option<&Replacement>,
) -> RowParts<'a> {
    let theme = cx.theme;
    let eviction = drain.states.get(node).and_then(|state| state.evictions.get(&row.uid));
    let (why, why_style) = match (eviction, &row.budget_decision) {
        // The first words of the server's message are left out, because every row would repeat them.
        (Some(EvictionState::Waiting { message, .. }), _) => (
            message.strip_prefix("The disruption budget ").unwrap_or(message).to_owned(),
            theme.status.pending,
        ),
        // The prediction is obsolete; the replacement matters now.
        (Some(EvictionState::Deleted { .. } | EvictionState::Ending { .. }), _) => {
            replacement_text(cx, row, replacement)
        }
        (_, BudgetDecision::Allowed(text)) => (text.clone(), theme.body.text),
        (_, BudgetDecision::Blocked(text)) => (text.clone(), theme.status.pending),
        (_, BudgetDecision::Never(text) | BudgetDecision::Refused(text)) => {
            (text.clone(), theme.status.failed)
        }
        (_, BudgetDecision::Free) if row.delete_status.refuses() => {
            (row.delete_status.reason().to_owned(), theme.dialog.warning)
        }
        (_, BudgetDecision::Free) => (row.delete_status.reason().to_owned(), theme.body.dim),
    };
    let label = match &row.budget_decision {
        BudgetDecision::Blocked(_) if drain.stage == DrainStage::Preview => "waits",
        BudgetDecision::Never(_) | BudgetDecision::Refused(_) if drain.stage == DrainStage::Preview => {
            "never"
        }
        _ => row.delete_status.label(),
    };
    RowParts { row, label, reason: (why, why_style), eviction: eviction_text(drain, cx, row, eviction) }
}

fn replacement_text(cx: &Context<'_>, row: &Row, replacement: Option<&Replacement>) -> (String, Style) {
    let theme = cx.theme;
    match replacement {
        Some(Replacement { name, node, problem: Some(trouble), .. }) => {
            let on = node.as_deref().map(|node| format!(" on {node}")).unwrap_or_default();
            (format!("✖ {name}{on}: {trouble}"), theme.status.failed)
        }
        Some(Replacement { name, node: Some(node), ready: true, .. }) => {
            (format!("replaced by {name} on {node}"), theme.body.text)
        }
        Some(Replacement { name, node: Some(node), ready: false, .. }) => {
            (format!("{name} starts on {node}"), theme.status.pending)
        }
        Some(Replacement { name, node: None, .. }) => {
            (format!("{name} has no node yet"), theme.status.pending)
        }
        None if row.delete_status == PodDeleteStatus::Evict => {
            ("not replaced yet".to_owned(), theme.body.dim)
        }
        None => (row.delete_status.reason().to_owned(), theme.body.dim),
    }
}

/// Returns the progress of a pod's eviction as sign, text and colour.
fn eviction_text(
    drain: &Drain,
    cx: &Context<'_>,
    row: &Row,
    eviction: Option<&EvictionState>,
) -> (String, Style) {
    let theme = cx.theme;
    match eviction {
        None => {
            let decision = match row.delete_status {
                PodDeleteStatus::RefuseUnmanaged => "[ ] evict it anyway",
                PodDeleteStatus::EvictLost => "[x] evict it anyway",
                PodDeleteStatus::RefuseData => "[ ] delete the data",
                PodDeleteStatus::EvictData => "[x] delete the data",
                _ => "",
            };
            let style = if row.delete_status.refuses() { theme.dialog.warning } else { theme.body.text };
            (decision.to_owned(), style)
        }
        Some(EvictionState::InFlight) => ("◌ asking".to_owned(), theme.status.pending),
        Some(EvictionState::Waiting { .. }) if drain.stage != DrainStage::Running => {
            ("‖ was blocked".to_owned(), theme.status.unknown)
        }
        Some(EvictionState::Waiting { since, retry_at, .. }) => {
            cx.redraw_in(1);
            let (waited, retry) = (seconds_until(*since, cx.now), seconds_until(cx.now, *retry_at));
            (format!("◐ waiting {}, retry in {retry}s", age(waited)), theme.status.pending)
        }
        Some(EvictionState::Ending { since }) => {
            cx.redraw_in(1);
            (format!("◌ terminating {}", age(seconds_until(*since, cx.now))), theme.status.terminating)
        }
        Some(EvictionState::Deleted { after }) => {
            (format!("✔ evicted in {}", age(after.as_secs().max(0))), theme.status.succeeded)
        }
        Some(EvictionState::Failed(message)) => (format!("✖ {}", clean(message)), theme.status.failed),
    }
}

/// Returns the line above a node's pods if there are several nodes.
fn node_line(drain: &Drain, cx: &Context<'_>, node: usize) -> Line<'static> {
    let state = &drain.states[node];
    let name = clean(&drain.nodes[node].name);
    let (gone, leaving) = state.progress();
    let (text, style) = match (&state.result, &state.rows) {
        (Some(Ok(())), _) if state.leftover_pods(cx).describe().is_some() => {
            let summary = state.leftover_pods(cx).describe().unwrap_or_default();
            (format!("◐ {name}  {summary}, {gone} of {leaving} gone"), cx.theme.status.pending)
        }
        (Some(Ok(())), _) => (format!("✔ {name}  {gone} of {leaving} gone"), cx.theme.status.succeeded),
        (Some(Err(error)), _) => (format!("✖ {name}  {}", clean(error)), cx.theme.status.failed),
        (None, Some(_)) if drain.stage == DrainStage::Running => {
            (format!("◐ {name}  {gone} of {leaving} gone"), cx.theme.status.pending)
        }
        (None, Some(_)) => (format!("‖ {name}  {gone} of {leaving} gone"), cx.theme.status.unknown),
        (None, None) => (format!("· {name}"), cx.theme.body.accent),
    };
    Line::styled(text, style)
}

/// Returns the options, wrapped to the width.
fn switches(drain: &Drain, cx: &Context<'_>, width: usize) -> Vec<Line<'static>> {
    let mut lines = vec![Line::default()];
    let mut used = 0;
    for (index, switch) in SWITCHES.iter().enumerate() {
        let text = switch.text(&drain.options);
        let columns = text.width() + 4;
        if used + columns > width && used > 0 {
            lines.push(Line::default());
            used = 0;
        }
        used += columns;
        let style = match (drain.cursor == Cursor::Option(index), switch.is_risky(&drain.options)) {
            (true, _) => cx.theme.table.cursor,
            (false, true) => cx.theme.dialog.warning,
            (false, false) => cx.theme.body.text,
        };
        if let Some(line) = lines.last_mut() {
            line.push_span(Span::styled(format!(" {text} "), style));
            line.push_span(Span::raw("  "));
        }
    }
    lines
}

fn foot_text(drain: &Drain, cx: &Context<'_>) -> String {
    let key = |command| {
        cx.bindings.key_in(command, KeyContext::Drain).map(|key| key.to_string()).unwrap_or_default()
    };
    let start = key(Command::DrainStart);
    match drain.stage {
        DrainStage::Preview => match drain.only_refused(cx) {
            Some(refused) => {
                format!("no pod can be evicted: {refused} refused · space on a pod or an option allows it")
            }
            None => match &drain.last {
                Some(_) if drain.is_cordoned(cx) => {
                    let uncordon = key(Command::Uncordon);
                    format!("nodes still cordoned · {start} resumes · {uncordon} uncordons · esc goes back")
                }
                Some(last) if last.stage == SavedStage::Running => {
                    format!("it does not resume by itself · {start} drains the rest · esc goes back")
                }
                Some(_) => format!("{start} drains the current pods · esc goes back"),
                None => format!("nothing has happened yet · {start} starts · esc goes back"),
            },
        },
        DrainStage::Running => format!("{} stops · esc goes back, the drain continues", key(Command::Stop)),
        DrainStage::Stopped | DrainStage::Over if !drain.is_cordoned(cx) => {
            format!("nodes accept new pods again · {start} drains again")
        }
        DrainStage::Stopped => {
            let uncordon = key(Command::Uncordon);
            format!("evicted pods stay evicted, nodes cordoned · {start} resumes · {uncordon} uncordons")
        }
        DrainStage::Over => format!("{} uncordons · {start} drains again", key(Command::Uncordon)),
    }
}
