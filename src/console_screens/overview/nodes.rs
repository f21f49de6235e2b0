//! The nodes of the overview: state, zone, and resource requests of their pods.

use k8s_openapi::api::core::v1::Node;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::Span;
use unicode_width::UnicodeWidthStr;

use super::list::{draw_empty, draw_hidden_count, draw_row, framed, uncounted, waiting};
use super::{Overview, OverviewPanel};
use base::sort::SliceOrder;
use console_data::context::Context;
use console_data::resource::Uid;
use console_data::rows::cell::natural;
use console_data::rows::node;
use console_data::thresholds::{Load, Resource, ThresholdLevel};
use console_toolkit::health::Health;
use console_toolkit::text::{clean, pad};
use console_toolkit::widget::gauge::bar;

/// Returns the nodes that match the filter, by name.
pub(super) fn list(overview: &Overview, cx: &Context<'_>) -> Vec<Uid> {
    let mut all: Vec<_> =
        cx.stores.nodes().iter().filter(|(uid, _)| overview.matches::<Node>(cx, uid)).collect();
    let name = |node: &Node| node.metadata.name.clone().unwrap_or_default();
    all.order_by(|(_, a), (_, b)| natural(&name(a), &name(b)));
    all.into_iter().map(|(uid, _)| uid.clone()).collect()
}

/// Draws the list; returns the index of the first visible row.
pub(super) fn draw(overview: &Overview, cx: &Context<'_>, frame: &mut Frame<'_>, area: Rect) -> usize {
    let theme = cx.theme;
    let all = list(overview, cx);
    let total = cx.stores.nodes().len();
    let ready = cx.stores.nodes().iter().filter(|(_, node)| node::is_ready(node)).count();
    let note = if total == 0 { String::new() } else { format!(" requested · {ready} of {total} ready ") };
    let note = uncounted::<Node>(overview, cx).unwrap_or_else(|| Span::styled(note, theme.body.dim));
    let block = framed(overview, OverviewPanel::Nodes, cx, area.width, "Nodes", vec![note]);
    let inner = block.inner(area);
    frame.render_widget(block, area);
    if !cx.stores.nodes().synced() {
        waiting::<Node>(cx, frame, inner);
        return 0;
    }
    if all.is_empty() {
        draw_empty(overview, cx, frame, inner, "no nodes yet");
        return 0;
    }
    let at = overview.node.as_ref().and_then(|uid| all.iter().position(|known| known == uid)).unwrap_or(0);
    let height = usize::from(inner.height);
    let top = overview.windows[OverviewPanel::Nodes as usize].around(at, height, all.len()).start;
    let shown: Vec<_> =
        all.iter().skip(top).take(height).filter_map(|uid| cx.stores.nodes().get(uid)).collect();
    let columns = Columns::of(&shown, usize::from(inner.width));
    for (line, node) in shown.iter().enumerate() {
        let place = Rect { y: inner.y + line as u16, height: 1, ..inner };
        draw_row(overview, OverviewPanel::Nodes, top + line == at, cx, frame, place, columns.row(cx, node));
    }
    draw_hidden_count(cx, frame, area, all.len().saturating_sub(top + shown.len()));
    top
}

fn name_of(node: &Node) -> String {
    clean(node.metadata.name.as_deref().unwrap_or_default()).into_owned()
}

fn zone_of(node: &Node) -> String {
    clean(node::zone(node).unwrap_or_default()).into_owned()
}

/// Returns the status as one word; the table of nodes shows it in full.
fn short_status(node: &Node) -> (&'static str, Health) {
    let health = node::status(node).1;
    match (node::is_ready(node), node::is_cordoned(node)) {
        (true, true) => ("cordoned", health),
        (true, false) => ("Ready", health),
        (false, _) => ("NotReady", health),
    }
}

/// The column widths for all rows.
struct Columns {
    name: usize,
    state: usize,
    zone: usize,
    gauge: usize,
}

impl Columns {
    fn of(nodes: &[&Node], width: usize) -> Self {
        let widest = |text: &dyn Fn(&Node) -> usize| nodes.iter().map(|node| text(node)).max().unwrap_or(0);
        let name = widest(&|node| name_of(node).width()).min(28);
        let state = widest(&|node| short_status(node).0.width());
        let mut zone = widest(&|node| zone_of(node).width()).min(20);
        // Three gauges share the width that the text leaves; the zone is dropped first.
        let fixed = "● ".width() + name + 2 + state + 2 + "pods  123  cpu  100%  mem  100%".len();
        let left = width.saturating_sub(fixed);
        if left < zone + 2 + 3 * 4 {
            zone = 0;
        }
        let gauge = left.saturating_sub(if zone > 0 { zone + 2 } else { 0 }) / 3;
        Self { name, state, zone, gauge }
    }

    fn row<'a>(&self, cx: &Context<'_>, node: &Node) -> Vec<Span<'a>> {
        let theme = cx.theme;
        let (word, health) = short_status(node);
        let calm = if health == Health::Running { theme.body.dim } else { theme.health(health) };
        let mut spans = vec![
            Span::styled(format!("{} ", theme.state_sign(health)), theme.health(health)),
            Span::raw(format!("{}  ", pad(&name_of(node), self.name))),
            Span::styled(format!("{}  ", pad(word, self.state)), calm),
        ];
        if self.zone > 0 {
            spans.push(Span::styled(format!("{}  ", pad(&zone_of(node), self.zone)), theme.body.dim));
        }
        let requests = node::requested(node, cx.stores);
        let pods = requests.pods as f64 / requests.pods_allocatable.max(1) as f64;
        let parts = [
            ("pods", pods, format!("{:>3}", requests.pods), None),
            ("  cpu", requests.cpu, format!("{:>3.0}%", requests.cpu * 100.0), Some(Resource::Cpu)),
            ("  mem", requests.memory, format!("{:>3.0}%", requests.memory * 100.0), Some(Resource::Memory)),
        ];
        for (name, share, text, resource) in parts {
            let nearness = match resource {
                Some(resource) => cx.thresholds.level(Load::Share {
                    resource,
                    percent: (share * 100.0).round() as i32,
                    max_level: ThresholdLevel::At,
                }),
                None if share > 0.9 => ThresholdLevel::At,
                None => ThresholdLevel::Far,
            };
            let full = match nearness {
                ThresholdLevel::Far => theme.chart.full,
                ThresholdLevel::Near => theme.status.pending,
                ThresholdLevel::At => theme.status.failed,
            };
            // The number of pods changes often; their requests do not.
            let restless = |style| if resource.is_some() { theme.restless(style) } else { style };
            spans.push(Span::styled(format!("{name} "), restless(theme.body.dim)));
            spans.extend(bar(share, self.gauge, full, theme.chart.empty));
            spans.push(Span::styled(format!(" {text}"), restless(Style::default())));
        }
        spans
    }
}
