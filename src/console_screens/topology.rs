//! The topology: zones, their nodes, and the pods of each node as signs of their health (CON-2, CON-19).
//!
//! ```text
//! ╭ Topology ─ 3 nodes in 2 zones ─────────────────────────────────╮
//! │ zone-a                                              7 pods      │
//! │ ▸ ● node-1  Ready        ●●●◐●↻                                 │
//! │   ? node-10 NotReady                                            │
//! ╰─────────────────────────────────────────────────────────────────╯
//! ```

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Node;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;
use unicode_width::UnicodeWidthStr;

use super::View;
use crate::object_commands;
use base::sort::SliceOrder;
use console_data::context::Context;
use console_data::message::ScreenMessage;
use console_data::resource::ObjectRef;
use console_data::rows::cell::natural;
use console_data::rows::node;
use console_operations::command_availability;
use console_operations::effect::Effect;
use console_toolkit::command::{Command, KeyContext};
use console_toolkit::health::Health;
use console_toolkit::text::{clean, counted, fit, pad};
use console_toolkit::widget::cursor::Window;
use console_toolkit::widget::notice;
use console_toolkit::widget::title::title_line;

/// The topology screen.
#[derive(Debug, Default)]
pub struct Topology {
    /// The node under the cursor, by name.
    cursor: Option<String>,
    window: Window,
}

/// Returns the nodes by zone, in display order.
fn zones<'a>(cx: &Context<'a>) -> Vec<(String, Vec<&'a Node>)> {
    let mut zones: BTreeMap<String, Vec<&Node>> = BTreeMap::new();
    for (_, node) in cx.stores.nodes().iter() {
        zones.entry(node::zone(node).unwrap_or_default().to_owned()).or_default().push(node);
    }
    let mut zones: Vec<_> = zones.into_iter().collect();
    zones.order_by(|(a, _), (b, _)| a.is_empty().cmp(&b.is_empty()).then_with(|| natural(a, b)));
    for (_, nodes) in &mut zones {
        nodes.order_by(|a, b| natural(name_of(a), name_of(b)));
    }
    zones
}

fn name_of(node: &Node) -> &str {
    node.metadata.name.as_deref().unwrap_or_default()
}

/// Returns the health of a node's pods in scope, unhealthy ones first.
fn healths(cx: &Context<'_>, node: &str) -> Vec<Health> {
    let pods = cx.stores.entries_on(node).filter(|pod| cx.scope.holds(pod.namespace()));
    let mut healths: Vec<Health> = pods.map(|pod| pod.summary.health).collect();
    healths.order_by_key(|health| {
        (!health.is_fault(), matches!(health, Health::Running | Health::Succeeded), *health)
    });
    healths
}

impl Topology {
    fn at(&self, names: &[&str]) -> usize {
        self.cursor.as_ref().and_then(|name| names.iter().position(|one| one == name)).unwrap_or(0)
    }

    fn command(&mut self, cx: &Context<'_>, command: Command) -> Vec<Effect> {
        let zones = zones(cx);
        let names: Vec<&str> =
            zones.iter().flat_map(|(_, nodes)| nodes.iter().map(|node| name_of(node))).collect();
        if let Some(to) = self.window.step(command, self.at(&names), names.len()) {
            self.cursor = names.get(to).map(|name| (*name).to_owned());
            return Vec::new();
        }
        object_commands::on(cx, command, self.selected(cx))
    }
}

/// Returns the signs of pods in `width` columns; pods that do not fit are counted.
fn glyphs(cx: &Context<'_>, healths: &[Health], width: usize) -> Vec<Span<'static>> {
    if cx.theme.spoken {
        let counts = Health::ALL.map(|of| (of, healths.iter().filter(|health| **health == of).count()));
        let counts = counts.into_iter().filter(|(_, count)| *count > 0);
        let counts: Vec<String> = counts.map(|(of, count)| format!("{count} {}", of.label())).collect();
        return vec![Span::raw(counts.join(", "))];
    }
    let shown = if healths.len() <= width { healths.len() } else { width.saturating_sub(6) };
    let mut spans: Vec<Span<'static>> = Vec::new();
    let mut at = 0;
    while at < shown {
        let run = healths[at..shown].iter().take_while(|health| **health == healths[at]).count();
        spans.push(Span::styled(healths[at].glyph().repeat(run), cx.theme.health(healths[at])));
        at += run;
    }
    if shown < healths.len() {
        spans.push(Span::styled(format!(" +{}", healths.len() - shown), cx.theme.body.dim));
    }
    spans
}

impl View for Topology {
    fn title(&self, _cx: &Context<'_>) -> String {
        "Topology".into()
    }

    fn key_contexts(&self, _cx: &Context<'_>) -> Vec<KeyContext> {
        vec![KeyContext::Topology, KeyContext::List]
    }

    fn update(&mut self, cx: &Context<'_>, message: ScreenMessage) -> Vec<Effect> {
        match message {
            ScreenMessage::Command(command) => self.command(cx, command),
            _ => Vec::new(),
        }
    }

    fn refuses(&self, cx: &Context<'_>, command: Command) -> Option<String> {
        let refuses_without_row = || match self.selected(cx) {
            Some(_) => None,
            None => object_commands::refuses_without_row(command),
        };
        command_availability::refuses(cx.catalogue, &cx.catalogue.kind::<Node>(), command)
            .or_else(refuses_without_row)
    }

    fn selected(&self, cx: &Context<'_>) -> Option<ObjectRef> {
        let zones = zones(cx);
        let nodes: Vec<&Node> = zones.iter().flat_map(|(_, nodes)| nodes.iter().copied()).collect();
        let names: Vec<&str> = nodes.iter().map(|node| name_of(node)).collect();
        nodes.get(self.at(&names)).map(|node| ObjectRef::of(cx.catalogue.kind::<Node>(), *node))
    }

    fn view(&self, cx: &Context<'_>, frame: &mut Frame<'_>, area: Rect) {
        let theme = cx.theme;
        let zones = zones(cx);
        let names: Vec<&str> =
            zones.iter().flat_map(|(_, nodes)| nodes.iter().map(|node| name_of(node))).collect();
        let block = theme.block("").title_top(title_line(
            vec![
                Span::styled(" Topology ", theme.frame.title),
                Span::styled(format!("{} ", cx.scope.label()), theme.body.accent),
                Span::styled(
                    format!("{} in {} ", counted(names.len(), "node"), counted(zones.len(), "zone")),
                    theme.body.dim,
                ),
            ],
            area.width,
        ));
        let inner = block.inner(area);
        frame.render_widget(block, area);
        if names.is_empty() {
            let text = if cx.stores.nodes().synced() { "no nodes" } else { "loading…" };
            return notice::draw(text, theme.body.dim, frame, inner);
        }
        let cursor = self.at(&names);
        let width = usize::from(inner.width);
        let name_width =
            names.iter().map(|name| name.width()).max().unwrap_or(0).clamp(6, (width / 3).max(6));
        let (mut lines, mut at, mut cursor_line) = (Vec::new(), 0, 0);
        for (zone, nodes) in &zones {
            let pods: usize = nodes.iter().map(|node| healths(cx, name_of(node)).len()).sum();
            let zone = if zone.is_empty() { "no zone" } else { zone };
            lines.push(Line::from(vec![
                Span::styled(fit(&clean(zone), width.saturating_sub(14)).into_owned(), theme.table.header),
                Span::styled(format!("  {}", counted(pods, "pod")), theme.body.dim),
            ]));
            for node in nodes {
                let (word, health) = node::status_with_fence(node, cx.stores);
                let selected = at == cursor;
                if selected {
                    cursor_line = lines.len();
                }
                let state_width = 14.min(width / 4);
                let mut spans = vec![
                    Span::raw(if selected { "▸ " } else { "  " }),
                    Span::styled(format!("{} ", theme.state_sign(health)), theme.health(health)),
                    Span::raw(pad(&fit(&clean(name_of(node)), name_width), name_width + 2)),
                    Span::styled(
                        pad(&fit(&clean(&word), state_width), state_width + 2),
                        theme.health(health),
                    ),
                ];
                let pods_width = width.saturating_sub(8 + name_width + state_width);
                spans.extend(glyphs(cx, &healths(cx, name_of(node)), pods_width));
                let style = if selected { theme.table.cursor } else { Style::default() };
                lines.push(Line::from(spans).style(style));
                at += 1;
            }
        }
        let shown = self.window.around(cursor_line, usize::from(inner.height), lines.len());
        let shown: Vec<Line<'_>> = lines.drain(shown).collect();
        frame.render_widget(Paragraph::new(shown), inner);
    }
}
