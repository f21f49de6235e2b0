//! Draws the overview.

use jiff::SignedDuration;
use k8s_openapi::api::apps::v1::Deployment;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Paragraph};
use unicode_width::UnicodeWidthStr;

use super::overview::{Overview, Part, deployments, new_and_old, nodes};
use crate::console::context::Context;
use crate::console::resource::Uid;
use crate::console::rows::pod_status::Look;
use crate::console::rows::{event, node, workload};
use crate::console::text::{clean, fit, grouped};
use crate::console::widget::gauge::bar;

pub(super) fn draw(overview: &Overview, cx: &Context<'_>, frame: &mut Frame<'_>, area: Rect) {
    let looks = Look::ALL.iter().filter(|look| is_listed(cx, **look)).count() as u16;
    let node_count = cx.stores.nodes.len() as u16;
    let least_events = if area.height > 28 { 9 } else { 6 };
    let top_height = (looks.max(if area.height > 28 { 7 } else { 5 }) + 2).min(area.height / 2);
    let left = area.height.saturating_sub(top_height + least_events);
    let node_height = (node_count.max(1) + 2).min(left).max(3);
    let [top, nodes_area, events_area] = Layout::vertical([
        Constraint::Length(top_height),
        Constraint::Length(node_height),
        Constraint::Min(0),
    ])
    .areas(area);
    let phase_width = if area.width >= 110 { 38 } else { 30 };
    let [phases, rollouts] =
        Layout::horizontal([Constraint::Length(phase_width), Constraint::Min(0)]).areas(top);
    overview.areas.set([rollouts, nodes_area, events_area]);
    draw_phases(cx, frame, phases);
    draw_deployments(overview, cx, frame, rollouts);
    draw_nodes(overview, cx, frame, nodes_area);
    draw_events(overview, cx, frame, events_area);
}

fn is_listed(cx: &Context<'_>, look: Look) -> bool {
    // The ones everybody looks for are always there; a zero says something too.
    matches!(look, Look::Running | Look::Pending | Look::Failed | Look::Crashing)
        || cx.stores.looks().contains_key(&look)
}

fn framed<'a>(overview: &Overview, part: Part, cx: &Context<'_>, title: &str) -> Block<'a> {
    if overview.part == part { cx.theme.block_focused(title) } else { cx.theme.block(title) }
}

fn draw_phases(cx: &Context<'_>, frame: &mut Frame<'_>, area: Rect) {
    let theme = cx.theme;
    let total = cx.stores.pods.len();
    let block = theme
        .block("Pods")
        .title_top(Line::styled(format!(" {} ", grouped(total as u64)), theme.body.dim).right_aligned());
    let inner = block.inner(area);
    frame.render_widget(block, area);
    if !cx.stores.pods.synced() {
        waiting(cx, frame, inner);
        return;
    }
    let digits = total.to_string().len().max(2);
    let mut lines = Vec::new();
    for look in Look::ALL.into_iter().filter(|look| is_listed(cx, *look)) {
        let count = cx.stores.looks().get(&look).copied().unwrap_or(0);
        let style = if count == 0 { theme.body.dim } else { theme.look(look) };
        let mut spans = vec![
            Span::styled(format!("{} {:<12}", look.glyph(), look.word()), style),
            Span::styled(
                format!("{count:>digits$} "),
                if count == 0 { theme.body.dim } else { Style::default() },
            ),
        ];
        let room = usize::from(inner.width).saturating_sub(15 + digits);
        let share = if total == 0 { 0.0 } else { count as f64 / total as f64 };
        spans.extend(bar(share, room, theme.look(look), theme.chart.empty));
        lines.push(Line::from(spans));
    }
    frame.render_widget(Paragraph::new(lines), inner);
}

fn waiting(cx: &Context<'_>, frame: &mut Frame<'_>, inner: Rect) {
    frame.render_widget(Line::styled("waiting for the first list…", cx.theme.body.dim), inner);
}

/// The window of a list that has the cursor in it.
fn window<T: Clone>(list: &[T], cursor: Option<usize>, height: usize) -> (usize, Vec<T>) {
    let at = cursor.unwrap_or(0);
    let top = (at + 1).saturating_sub(height);
    (top, list.iter().skip(top).take(height).cloned().collect())
}

fn cursor_style(overview: &Overview, part: Part, chosen: bool, cx: &Context<'_>) -> Style {
    if chosen && overview.part == part { cx.theme.table.cursor } else { Style::default() }
}

fn draw_deployments(overview: &Overview, cx: &Context<'_>, frame: &mut Frame<'_>, area: Rect) {
    let theme = cx.theme;
    let all = deployments(cx);
    let moving = all.iter().filter(|(_, look)| !matches!(look, Look::Running | Look::Succeeded)).count();
    let note = match (all.len(), moving) {
        (0, _) => String::new(),
        (count, 0) => format!(" all {count} available "),
        (count, moving) => format!(" {moving} of {count} on the way "),
    };
    let block = framed(overview, Part::Deployments, cx, "Deployments")
        .title_top(Line::styled(note, theme.body.dim).right_aligned());
    let inner = block.inner(area);
    frame.render_widget(block, area);
    if !cx.stores.deployments.synced() {
        waiting(cx, frame, inner);
        return;
    }
    if all.is_empty() {
        let lines = vec![
            Line::styled("no deployments yet", theme.body.dim),
            Line::styled("kubectl apply -f sample-manifests", theme.body.accent),
        ];
        frame.render_widget(Paragraph::new(lines), inner);
        return;
    }
    let uids: Vec<Uid> = all.into_iter().map(|(uid, _)| uid).collect();
    let at = overview.deployment.as_ref().and_then(|uid| uids.iter().position(|known| known == uid));
    let (top, shown) = window(&uids, at, usize::from(inner.height));
    let names: Vec<String> = shown.iter().map(|uid| label(cx, uid)).collect();
    let width = names.iter().map(|name| name.width()).max().unwrap_or(0).min(usize::from(inner.width) / 3);
    for (line, (uid, name)) in shown.iter().zip(&names).enumerate() {
        let Some(deployment) = cx.stores.deployments.get(uid) else { continue };
        let chosen = top + line == at.unwrap_or(0);
        let place = Rect { y: inner.y + line as u16, height: 1, ..inner };
        let text = deployment_line(cx, deployment, name, width, usize::from(inner.width));
        frame.render_widget(text.style(cursor_style(overview, Part::Deployments, chosen, cx)), place);
    }
}

/// The name, with its namespace unless that is `default`.
fn label(cx: &Context<'_>, uid: &Uid) -> String {
    let Some(deployment) = cx.stores.deployments.get(uid) else { return String::new() };
    let name = deployment.metadata.name.as_deref().unwrap_or_default();
    match deployment.metadata.namespace.as_deref() {
        Some("default") | None => clean(name).into_owned(),
        Some(namespace) => clean(&format!("{namespace}/{name}")).into_owned(),
    }
}

fn deployment_line<'a>(
    cx: &Context<'_>,
    deployment: &Deployment,
    name: &str,
    width: usize,
    room: usize,
) -> Line<'a> {
    let theme = cx.theme;
    let (word, look) = workload::deployment_state(deployment);
    let want = i64::from(deployment.spec.replicas.unwrap_or(1));
    let (new, old) = new_and_old(cx, deployment);
    let name = fit(name, width);
    let pad = " ".repeat(width.saturating_sub(name.width()));
    let mut spans = vec![
        Span::styled(format!("{} ", look.glyph()), theme.look(look)),
        Span::raw(format!("{name}{pad}  ")),
    ];
    let bar_room = if room >= 70 { 16 } else { 8 };
    let share = |count: i64| if want == 0 { 0.0 } else { count as f64 / want as f64 };
    let full = if look == Look::Running { theme.status.running } else { theme.chart.full };
    spans.extend(bar(share(new), bar_room, full, theme.chart.empty));
    spans.push(Span::raw(format!(" {new}/{want}")));
    if old > 0 {
        spans.push(Span::styled("  old ", theme.body.dim));
        let old_room = (bar_room / 2).max(4);
        spans.extend(bar(share(old), old_room, theme.chart.second, theme.chart.empty));
        spans.push(Span::raw(format!(" {old}")));
    }
    let settled = matches!(look, Look::Running | Look::Succeeded);
    let style = if settled { theme.body.dim } else { theme.look(look) };
    spans.push(Span::styled(format!("  {word}"), style));
    if !settled && let Some(trouble) = trouble(cx, deployment) {
        spans.push(Span::styled(format!("  {trouble}"), theme.status.failed));
    }
    Line::from(spans)
}

/// Why the newest pods of a deployment do not run, in one word, with the image.
fn trouble(cx: &Context<'_>, deployment: &Deployment) -> Option<String> {
    let uid = Uid::from(deployment.metadata.uid.as_deref()?);
    for set in cx.stores.replica_sets.owned_by(&uid) {
        let set = Uid::from(set.metadata.uid.as_deref()?);
        for pod in cx.stores.pods.owned_by(&set) {
            let seen = crate::console::rows::pod_status::of(pod);
            if seen.look.is_fault() {
                return Some(clean(&seen.status).into_owned());
            }
            let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
            let unscheduled =
                conditions.into_iter().find(|c| c.type_ == "PodScheduled" && c.status == "False");
            if let Some(reason) = unscheduled.and_then(|condition| condition.reason.as_deref()) {
                return Some(clean(reason).into_owned());
            }
        }
    }
    None
}

fn draw_nodes(overview: &Overview, cx: &Context<'_>, frame: &mut Frame<'_>, area: Rect) {
    let theme = cx.theme;
    let all = nodes(cx);
    let ready = cx.stores.nodes.iter().filter(|(_, node)| node::is_ready(node)).count();
    let note = if all.is_empty() { String::new() } else { format!(" {ready} of {} ready ", all.len()) };
    let block = framed(overview, Part::Nodes, cx, "Nodes")
        .title_top(Line::styled(note, theme.body.dim).right_aligned());
    let inner = block.inner(area);
    frame.render_widget(block, area);
    if !cx.stores.nodes.synced() {
        waiting(cx, frame, inner);
        return;
    }
    if all.is_empty() {
        frame.render_widget(Line::styled("no nodes yet", theme.body.dim), inner);
        return;
    }
    let at = overview.node.as_ref().and_then(|uid| all.iter().position(|known| known == uid));
    let (top, shown) = window(&all, at, usize::from(inner.height));
    let shown: Vec<_> = shown.iter().filter_map(|uid| cx.stores.nodes.get(uid)).collect();
    let name_of = |node: &k8s_openapi::api::core::v1::Node| {
        clean(node.metadata.name.as_deref().unwrap_or_default()).into_owned()
    };
    let width = shown.iter().map(|node| name_of(node).width()).max().unwrap_or(0).min(28);
    let states = shown.iter().map(|node| short_status(node).0.width()).max().unwrap_or(0);
    let mut zones =
        shown.iter().filter_map(|node| node::zone(node)).map(UnicodeWidthStr::width).max().unwrap_or(0);
    // Three gauges share what the names leave.
    let fixed = 6 + width + states + "pods  123  cpu  100%  mem  100%".len();
    let room = usize::from(inner.width).saturating_sub(fixed);
    if room < zones + 2 + 3 * 4 {
        zones = 0;
    }
    let gauge = (room.saturating_sub(if zones > 0 { zones + 2 } else { 0 }) / 3).min(18);
    for (line, node) in shown.iter().enumerate() {
        let (word, look) = short_status(node);
        let usage = node::usage(node, cx.stores);
        let name = name_of(node);
        let mut spans = vec![
            Span::styled(format!("{} ", look.glyph()), theme.look(look)),
            Span::raw(format!("{:<width$}  ", fit(&name, width))),
            Span::styled(
                format!("{word:<states$}  "),
                if look == Look::Running { theme.body.dim } else { theme.look(look) },
            ),
        ];
        if zones > 0 {
            spans.push(Span::styled(
                format!("{:<zones$}  ", node::zone(node).unwrap_or_default()),
                theme.body.dim,
            ));
        }
        let fit_pods = usage.pods_allocatable.max(1) as f64;
        let parts = [
            ("pods", usage.pods as f64 / fit_pods, format!("{:>3}", usage.pods)),
            ("cpu", usage.cpu, format!("{:>3.0}%", usage.cpu * 100.0)),
            ("mem", usage.memory, format!("{:>3.0}%", usage.memory * 100.0)),
        ];
        for (at, (name, share, text)) in parts.into_iter().enumerate() {
            let full = if share > 0.9 { theme.status.failed } else { theme.chart.full };
            spans.push(Span::styled(format!("{name} "), theme.body.dim));
            spans.extend(bar(share, gauge, full, theme.chart.empty));
            spans.push(Span::raw(format!(" {text}{}", if at < 2 { "  " } else { "" })));
        }
        let chosen = top + line == at.unwrap_or(0);
        let place = Rect { y: inner.y + line as u16, height: 1, ..inner };
        frame.render_widget(Line::from(spans).style(cursor_style(overview, Part::Nodes, chosen, cx)), place);
    }
    if all.len() > shown.len() {
        let more = format!(" {} more: <n> ", all.len() - shown.len());
        let place = Rect { x: area.x + 2, y: area.bottom() - 1, width: more.width() as u16, height: 1 };
        frame.render_widget(Line::styled(more, theme.body.dim), place);
    }
}

/// The status in one word; the whole of it is in the table of nodes.
fn short_status(node: &k8s_openapi::api::core::v1::Node) -> (&'static str, Look) {
    let look = node::status(node).1;
    match (node::is_ready(node), node::is_cordoned(node)) {
        (true, true) => ("cordoned", look),
        (true, false) => ("Ready", look),
        (false, _) => ("NotReady", look),
    }
}

fn draw_events(overview: &Overview, cx: &Context<'_>, frame: &mut Frame<'_>, area: Rect) {
    let theme = cx.theme;
    let minute = SignedDuration::from_secs(60);
    let recent = overview
        .events
        .shown()
        .take(500)
        .filter_map(|row| cx.stores.events.get(&row.uid))
        .take_while(|event| event::last_seen(event).is_some_and(|at| cx.now.duration_since(at) < minute))
        .count();
    let note = if recent == 0 {
        " following ".to_owned()
    } else {
        format!(" following · {recent} in the last minute ")
    };
    let block = framed(overview, Part::Events, cx, "Events")
        .title_top(Line::styled(note, theme.body.dim).right_aligned());
    let inner = block.inner(area);
    frame.render_widget(block, area);
    if !cx.stores.events.synced() {
        waiting(cx, frame, inner);
        return;
    }
    let cursor = overview.event.as_ref().and_then(|uid| overview.events.place(uid)).unwrap_or(0);
    let height = usize::from(inner.height);
    let top = (cursor + 1).saturating_sub(height);
    let rows: Vec<_> = (top..top + height)
        .map_while(|place| overview.events.at(place))
        .filter_map(|row| cx.stores.events.get(&row.uid))
        .collect();
    let objects: Vec<String> = rows.iter().map(|event| event::object(event)).collect();
    let widest = objects.iter().map(|text| text.width()).max().unwrap_or(0);
    let object_width = widest.min(usize::from(inner.width) * 3 / 10);
    let reasons = rows
        .iter()
        .filter_map(|event| event.reason.as_deref())
        .map(UnicodeWidthStr::width)
        .max()
        .unwrap_or(0);
    let reason_width = reasons.min(20);
    for (line, (event, object)) in rows.iter().zip(&objects).enumerate() {
        let warning = event::is_warning(event);
        let age = event::last_seen(event).map(|at| cx.age(at)).unwrap_or_default();
        let count = event::count(event);
        let count = if count > 1 { format!(" ×{count}") } else { String::new() };
        let room =
            usize::from(inner.width).saturating_sub(9 + object_width + reason_width + 4 + count.width());
        let message = event.message.as_deref().unwrap_or_default().replace('\n', " ");
        let message = fit(&clean(&message), room).into_owned();
        let pad = " ".repeat(room.saturating_sub(message.width()));
        let loud = if warning { theme.status.pending } else { Style::default() };
        let object = fit(object, object_width).into_owned();
        let reason = fit(&clean(event.reason.as_deref().unwrap_or_default()), reason_width).into_owned();
        let text = Line::from(vec![
            Span::styled(format!("{age:>6} "), theme.body.dim),
            Span::styled(if warning { "⚠ " } else { "  " }, theme.status.pending),
            Span::raw(format!("{object:<object_width$}  ")),
            Span::styled(format!("{reason:<reason_width$}  "), loud),
            Span::styled(message, if warning { Style::default() } else { theme.body.dim }),
            Span::raw(pad),
            Span::styled(count, theme.body.dim),
        ]);
        let chosen = top + line == cursor;
        let place = Rect { y: inner.y + line as u16, height: 1, ..inner };
        frame.render_widget(text.style(cursor_style(overview, Part::Events, chosen, cx)), place);
    }
    if rows.is_empty() {
        frame.render_widget(Line::styled("nothing has happened yet", theme.body.dim), inner);
    }
}
