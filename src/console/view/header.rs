//! The header: breadcrumbs, and the cluster in a few numbers.

use base::wildcard;
use k8s_openapi::api::core::v1::{Node, Pod};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::Block;

use crate::model::Model;
use console_data::clusters::Freshness;
use console_data::context::Context;
use console_data::resource::ResourceKey;
use console_data::rows::node;
use console_screens::Screen;
use console_screens::table::Table;
use console_toolkit::health::Health;
use console_toolkit::text::{clean, fit_middle, grouped};

/// The maximum width of a breadcrumb.
const TITLE: usize = 32;

pub(super) fn draw(model: &Model, cx: &Context<'_>, frame: &mut Frame<'_>, area: Rect) {
    let theme = cx.theme;
    frame.render_widget(Block::new().style(theme.header.bar), area);
    let mut right = summary(model, cx);
    let max_width = usize::from(area.width);
    let width = |spans: &[Span<'_>]| spans.iter().map(Span::width).sum::<usize>();
    // The least important parts are dropped first: the revision, the origin, the older breadcrumbs.
    let mut left = crumbs(model, cx, Crumbs { origin: true, count: 3, title_columns: TITLE });
    if width(&left) + width(&right.0) + width(&right.1) > max_width {
        right.1.clear();
    }
    for shape in [
        Crumbs { origin: true, count: 2, title_columns: TITLE },
        Crumbs { origin: false, count: 2, title_columns: TITLE },
        Crumbs { origin: false, count: 1, title_columns: TITLE },
    ] {
        if width(&left) + width(&right.0) + width(&right.1) > max_width {
            left = crumbs(model, cx, shape);
        }
    }
    // On a narrow screen the pods matter more than the nodes, and the breadcrumbs more than both.
    if width(&left) + width(&right.0) > max_width && model.top().1.over().is_none() {
        right.0 = pods_alone(cx);
    }
    if width(&left) + width(&right.0) > max_width {
        right.0.clear();
    }
    // Without space for anything else, the title is cut with a mark, and the rest is dropped whole.
    let excess = width(&left).saturating_sub(max_width);
    if excess > 0 {
        let title_columns = TITLE.saturating_sub(excess).max(TITLE / 2);
        left = crumbs(model, cx, Crumbs { origin: false, count: 1, title_columns });
        while width(&left) > max_width && left.len() > 3 {
            left.remove(3);
        }
    }
    right.0.extend(right.1);
    let [left_area, right_area] =
        Layout::horizontal([Constraint::Min(0), Constraint::Length(width(&right.0) as u16)]).areas(area);
    frame.render_widget(Line::from(left), left_area);
    frame.render_widget(Line::from(right.0), right_area);
}

/// Returns the origin of the top screen's cluster.
fn origin<'a>(cx: &Context<'a>) -> &'a str {
    cx.clusters.get(cx.cluster).map_or("", |cluster| cluster.origin)
}

/// Returns whether the cluster runs in this process.
fn is_in_process(cx: &Context<'_>) -> bool {
    origin(cx) == "in process"
}

/// Returns the cluster that keys and commands apply to, in its colour; for a table over several clusters their number.
fn cluster<'a>(model: &Model, cx: &Context<'_>) -> Span<'a> {
    let theme = cx.theme;
    let of = match model.top().1.over() {
        Some([one]) => *one,
        Some(several) => return Span::styled(format!(" {} contexts ", several.len()), theme.header.title),
        None => cx.cluster,
    };
    let name = model.shared.cluster_name(of);
    // If there are several clusters, they differ by colour, not by name alone.
    let own = cx.cluster_styles.iter().find(|(known, _)| wildcard::matches(known, name));
    let style = match own {
        Some((_, style)) => *style,
        None if is_in_process(cx) => theme.header.title,
        None => theme.of_cluster(name),
    };
    Span::styled(format!(" {} ", clean(name)), style)
}

#[derive(Clone, Copy)]
struct Crumbs {
    origin: bool,
    count: usize,
    /// The maximum width of a title.
    title_columns: usize,
}

/// Returns the cluster and the breadcrumbs.
fn crumbs<'a>(model: &Model, cx: &Context<'_>, shape: Crumbs) -> Vec<Span<'a>> {
    let theme = cx.theme;
    let mut left = vec![cluster(model, cx)];
    // The console's own cluster is the usual one and needs no address.
    if shape.origin && model.top().1.over().is_none() && !is_in_process(cx) && !origin(cx).is_empty() {
        left.push(Span::styled(format!("at {} ", clean(origin(cx))), theme.body.dim));
    }
    let first = model.screens.len().saturating_sub(shape.count);
    for (id, screen) in &model.screens[first..] {
        left.push(Span::styled("▸ ", theme.body.dim));
        let title = screen.title(&model.shared.context_of(*id, cx.now));
        left.push(Span::raw(format!("{} ", fit_middle(&clean(&title), shape.title_columns))));
    }
    for (id, screen) in model.background(cx.now) {
        if let Some(line) = screen.background(&model.shared.context_of(id, cx.now)) {
            left.push(Span::styled(format!("⧗ {} ", clean(&line)), theme.status.pending));
        }
    }
    if model.shared.read_only {
        left.push(Span::styled("read-only ", theme.status.pending));
    }
    left
}

/// Returns nodes and pods by health, problems first; and the revision.
fn summary<'a>(model: &Model, cx: &Context<'_>) -> (Vec<Span<'a>>, Vec<Span<'a>>) {
    let theme = cx.theme;
    let stores = cx.stores;
    let mut spans = Vec::new();
    if let Screen::Table(table) = &model.top().1
        && table.over().is_some()
    {
        return (freshness(table, cx), Vec::new());
    }
    let (nodes_resource, pods_resource) = (ResourceKey::of::<Node>(), ResourceKey::of::<Pod>());
    let missing = |resource| !stores.synced(resource) && cx.links.refused(resource).is_none();
    if missing(&nodes_resource) || missing(&pods_resource) && stores.pods().is_empty() {
        spans.push(Span::styled("◐ connecting… ", theme.status.pending));
        return (spans, Vec::new());
    }
    // These numbers are current, even if a screen shows the past.
    if model.top().1.moment().is_some() {
        spans.push(Span::styled("now ", theme.body.dim));
    }
    // A refusal is shown in a word, and the rest as usual.
    match cx.links.refused(&nodes_resource) {
        Some(refusal) => spans.push(Span::styled(format!("nodes {} ", refusal.label()), theme.body.dim)),
        None => spans.extend(nodes(cx)),
    }
    match cx.links.refused(&pods_resource) {
        Some(refusal) => spans.push(Span::styled(format!("  pods {} ", refusal.label()), theme.body.dim)),
        None => spans.extend(pods(cx)),
    }
    if cx.links.silent_since().is_some() {
        for span in &mut spans {
            span.style = theme.body.dim;
        }
    }
    let mut revision = Vec::new();
    // In other clusters revisions are etcd's, of no use to the user.
    if stores.latest_revision() > 0 && is_in_process(cx) {
        revision.push(Span::styled(format!("  rev {} ", grouped(stores.latest_revision())), theme.body.dim));
    }
    (spans, revision)
}

/// Returns the number of live clusters in a table over several.
fn freshness<'a>(table: &Table, cx: &Context<'_>) -> Vec<Span<'a>> {
    let all = table.freshness(cx);
    let live = all.iter().filter(|(_, fresh)| *fresh == Freshness::Live).count();
    let style = if live == all.len() { cx.theme.status.running } else { cx.theme.status.pending };
    let glyph = if live == all.len() { Freshness::Live } else { Freshness::CatchingUp }.glyph();
    vec![Span::styled(format!("{glyph} {live} of {} live ", all.len()), style)]
}

/// Returns only the pods that are not healthy.
fn pods_alone<'a>(cx: &Context<'_>) -> Vec<Span<'a>> {
    let counts = cx.stores.pod_health_counts();
    let bad = Health::ALL.into_iter().filter(|health| health.is_fault() || *health == Health::Pending);
    let spans = bad.filter_map(|health| counts.get(&health).map(|count| (health, count)));
    spans
        .map(|(health, count)| {
            let text = format!("{} {} ", cx.theme.pods_sign(health), grouped(*count as u64));
            Span::styled(text, cx.theme.health(health))
        })
        .collect()
}

fn nodes<'a>(cx: &Context<'_>) -> Vec<Span<'a>> {
    let (theme, nodes) = (cx.theme, cx.stores.nodes());
    let ready = nodes.iter().filter(|(_, node)| node::is_ready(node)).count();
    let mut spans = vec![
        Span::styled(format!("{} ", nodes.len()), theme.header.value),
        Span::styled(if nodes.len() == 1 { "node " } else { "nodes " }, theme.body.dim),
        Span::styled(format!("{} {ready} ", theme.sign("●", "Ready")), theme.status.running),
    ];
    if ready < nodes.len() {
        let sign = theme.sign("✖", "NotReady");
        spans.push(Span::styled(format!("{sign} {} ", nodes.len() - ready), theme.status.failed));
    }
    spans
}

fn pods<'a>(cx: &Context<'_>) -> Vec<Span<'a>> {
    let (theme, stores) = (cx.theme, cx.stores);
    // The first pages of a long list are shown while the others are being loaded.
    let more = if stores.pods().synced() || stores.pods().is_empty() { "" } else { "+" };
    let mut spans = vec![
        Span::styled(format!("  {}{} ", grouped(stores.pods().len() as u64), more), theme.header.value),
        Span::styled(
            if stores.pods().len() == 1 && more.is_empty() { "pod " } else { "pods " },
            theme.body.dim,
        ),
    ];
    for health in Health::ALL {
        if let Some(count) = stores.pod_health_counts().get(&health) {
            spans.push(Span::styled(
                format!("{} {} ", theme.pods_sign(health), grouped(*count as u64)),
                theme.health(health),
            ));
        }
    }
    spans
}
