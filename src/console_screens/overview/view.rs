//! Draws the overview: the layout, and the pods by phase.

use k8s_openapi::api::core::v1::Pod;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;
use unicode_width::UnicodeWidthStr;

use super::list::{uncounted, waiting};
use super::{Overview, OverviewPanel, deployments, events, nodes};
use console_data::context::Context;
use console_toolkit::command::Command;
use console_toolkit::health::Health;
use console_toolkit::text::grouped;
use console_toolkit::widget::gauge::bar;

/// Minimum size for showing all parts at once, in columns and lines.
const ROOMY: (u16, u16) = (60, 13);

pub(super) fn draw(overview: &Overview, cx: &Context<'_>, frame: &mut Frame<'_>, area: Rect) {
    if area.width < ROOMY.0 || area.height < ROOMY.1 {
        return draw_one(overview, cx, frame, area);
    }
    let tall = area.height > 28;
    let health_counts = Health::ALL.iter().filter(|health| is_listed(cx, **health)).count() as u16;
    let least_events = if tall { 9 } else { 6 };
    // Five rows hold the usual health states, so that the frame does not move when one appears or disappears.
    let top_height = (health_counts.max(if tall { 7 } else { 5 }) + 2).min(area.height / 2);
    let left = area.height.saturating_sub(top_height + least_events);
    let node_height = (cx.stores.nodes().len() as u16).clamp(1, left.saturating_sub(2).max(1)) + 2;
    let [top, nodes_area, events_area] = Layout::vertical([
        Constraint::Length(top_height),
        Constraint::Length(node_height),
        Constraint::Min(0),
    ])
    .areas(area);
    let phase_width = if area.width >= 110 { 38 } else { 30 };
    let [phases, rollouts] =
        Layout::horizontal([Constraint::Length(phase_width), Constraint::Min(0)]).areas(top);
    draw_phases(overview, cx, frame, phases);
    overview.areas.set([
        (rollouts, deployments::draw(overview, cx, frame, rollouts)),
        (nodes_area, nodes::draw(overview, cx, frame, nodes_area)),
        (events_area, events::draw(overview, cx, frame, events_area)),
    ]);
}

/// The note while a step of time travel is in progress.
const ASKING: &str = " ◐ reading the past… ";

/// Draws the pods in one line, and the list with the focus; the key for the next list shows the others.
fn draw_one(overview: &Overview, cx: &Context<'_>, frame: &mut Frame<'_>, area: Rect) {
    let theme = cx.theme;
    let [line, part] = Layout::vertical([Constraint::Length(1), Constraint::Min(0)]).areas(area);
    let mut spans = vec![Span::styled(" Pods ", theme.frame.title)];
    if overview.travelling {
        spans.push(Span::styled(ASKING, theme.status.pending));
    }
    spans.extend(uncounted::<Pod>(overview, cx));
    for health in Health::ALL.into_iter().filter(|health| is_listed(cx, *health)) {
        let count = cx.stores.pod_health_counts().get(&health).copied().unwrap_or(0);
        let style = if count == 0 { theme.body.dim } else { theme.health(health) };
        spans.push(Span::styled(format!(" {} {}", theme.pods_sign(health), grouped(count as u64)), style));
    }
    if let Some(key) = cx.bindings.key(Command::NextPart) {
        spans.push(Span::styled(format!("  <{key}> next part"), theme.body.dim));
    }
    frame.render_widget(Line::from(spans), line);
    let empty = (Rect::ZERO, 0);
    let mut areas = [empty; 3];
    match overview.part {
        OverviewPanel::Deployments => areas[0] = (part, deployments::draw(overview, cx, frame, part)),
        OverviewPanel::Nodes => areas[1] = (part, nodes::draw(overview, cx, frame, part)),
        OverviewPanel::Events => areas[2] = (part, events::draw(overview, cx, frame, part)),
    }
    overview.areas.set(areas);
}

fn is_listed(cx: &Context<'_>, health: Health) -> bool {
    // The most important states are always shown, even with a count of zero.
    matches!(health, Health::Running | Health::Pending | Health::Failed | Health::Crashing)
        || cx.stores.pod_health_counts().contains_key(&health)
}

fn draw_phases(overview: &Overview, cx: &Context<'_>, frame: &mut Frame<'_>, area: Rect) {
    let theme = cx.theme;
    let total = cx.stores.pods().len();
    let synced = cx.stores.pods().synced();
    let note = if synced { format!(" {} ", grouped(total as u64)) } else { String::new() };
    let note = if overview.travelling {
        Span::styled(ASKING, theme.status.pending)
    } else {
        uncounted::<Pod>(overview, cx).unwrap_or_else(|| Span::styled(note, theme.body.dim))
    };
    let block = theme.block("Pods").title_top(Line::from(note).right_aligned());
    let inner = block.inner(area);
    frame.render_widget(block, area);
    if !synced {
        waiting::<Pod>(cx, frame, inner);
        return;
    }
    let digits = grouped(total as u64).width().max(2);
    let mut lines = Vec::new();
    for health in Health::ALL.into_iter().filter(|health| is_listed(cx, *health)) {
        let count = cx.stores.pod_health_counts().get(&health).copied().unwrap_or(0);
        let style = if count == 0 { theme.body.dim } else { theme.health(health) };
        let number = if count == 0 { theme.body.dim } else { Style::default() };
        let mut spans = vec![
            Span::styled(format!("{} {:<12}", theme.state_sign(health), health.label()), style),
            Span::styled(format!("{:>digits$} ", grouped(count as u64)), number),
        ];
        let bar_width = usize::from(inner.width).saturating_sub(15 + digits);
        let share = if total == 0 { 0.0 } else { count as f64 / total as f64 };
        spans.extend(bar(share, bar_width, theme.health(health), theme.chart.empty));
        lines.push(Line::from(spans));
    }
    frame.render_widget(Paragraph::new(lines), inner);
}
