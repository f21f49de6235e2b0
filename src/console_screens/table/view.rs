//! Draws a table: only visible rows are formatted.

use std::cell::Cell as Slot;

use k8s_openapi::api::core::v1::Event;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Wrap};
use unicode_width::UnicodeWidthStr;

use super::Table;
use super::column_layout::{GAP, VisibleColumns};
use super::empty;
use base::sort::SliceOrder;
use console_data::clusters::Freshness;
use console_data::context::Context;
use console_data::rows::cell::Align;
use console_data::rows::event;
use console_data::rows::{Cell, Row};
use console_data::sort_memory::Direction;
use console_data::thresholds::{Load, ThresholdLevel};
use console_operations::effect::RowScope;
use console_toolkit::text::{clean, fit, fit_middle, grouped, wrapped};
use console_toolkit::widget::gauge::bar;

pub(super) fn draw(table: &Table, cx: &Context<'_>, frame: &mut Frame<'_>, area: Rect) {
    let theme = cx.theme;
    // An event's message is longer than any column: the one under the cursor is shown in full.
    let pane =
        if table.kind.is::<Event>() && area.height >= 14 && !table.index.is_empty() { PANE } else { 0 };
    let [area, pane] = Layout::vertical([Constraint::Min(0), Constraint::Length(pane)]).areas(area);
    if pane.height > 0 {
        message(table, cx, frame, pane);
    }
    let block = theme.block("").title_top(title(table, cx));
    let right_width = usize::from(area.width).saturating_sub(title(table, cx).width() + 8);
    let right = right_title(table, cx, right_width);
    let block = if title(table, cx).width() + right.width() + 8 < usize::from(area.width) {
        block.title_top(right.right_aligned())
    } else {
        block
    };
    let inner = block.inner(area);
    frame.render_widget(block, area);
    if inner.height < 2 {
        return;
    }
    let inner = draw_notes(table, cx, frame, inner);
    let rows = usize::from(inner.height) - 1;
    table.body.set(Rect { y: inner.y + 1, height: inner.height - 1, ..inner });
    let cursor = table.cursor_row();
    let offset = table.window.around(cursor, rows, table.index.len()).start;
    if table.index.is_empty() {
        no_rows(table, cx, frame, inner);
        return;
    }

    let visible: Vec<&Row> = (offset..offset + rows).map_while(|place| table.index.at(place)).collect();
    let stale = table.stale_clusters(cx);
    let since = |row: &Row| row.cluster.and_then(|cluster| stale.get(&cluster).copied());
    let texts: Vec<Vec<String>> = visible
        .iter()
        .map(|row| {
            // The ages in stale rows do not advance.
            let then = since(row).map(|since| since.min(cx.now));
            let still = Slot::new(None);
            let of = Context {
                now: then.unwrap_or(cx.now),
                redraw_at_time: if then.is_some() { &still } else { cx.redraw_at_time },
                ..*cx
            };
            row.cells.iter().map(|cell| cell.show(&of).into_owned()).collect()
        })
        .collect();
    let shape = VisibleColumns::of(table, cx, usize::from(inner.width));

    frame.render_widget(header(table, cx, &shape), Rect { height: 1, ..inner });
    let (left, right) = (table.shift.get(), shape.hidden);
    if left > 0 || right > 0 {
        // The number of hidden columns is shown, because users would not look for them otherwise.
        let left = if left > 0 { format!(" ← {left}") } else { String::new() };
        let right = if right > 0 { format!(" {right} →") } else { String::new() };
        let more = Line::styled(format!("{left}{right}"), theme.body.accent).right_aligned();
        let width = more.width() as u16;
        frame.render_widget(more, Rect { x: inner.right().saturating_sub(width), width, height: 1, ..inner });
    }
    let hosts = hosts(table);
    for (line, (row, texts)) in visible.iter().zip(&texts).enumerate() {
        let place = Rect { y: inner.y + 1 + line as u16, height: 1, ..inner };
        let selected = offset + line == cursor;
        let rendered = draw_row(table, cx, &shape, row, texts, selected);
        let rendered = if selected { theme.chosen(rendered) } else { rendered };
        frame.render_widget(rendered, place);
        if since(row).is_some() {
            frame.buffer_mut().set_style(place, theme.body.dim.add_modifier(Modifier::DIM));
        }
        if let Some(hosts) = hosts {
            link_hosts(cx, &shape, hosts, texts, place);
        }
    }
    scrollbar(table, cx, frame, area, offset, rows);
}

/// Lists the kinds without rows below the rows; returns the remaining area.
fn draw_notes(table: &Table, cx: &Context<'_>, frame: &mut Frame<'_>, inner: Rect) -> Rect {
    let Some(line) = table.line_of_notes(cx, usize::from(inner.width)).filter(|_| inner.height > 2) else {
        return inner;
    };
    let [rows, notes] = Layout::vertical([Constraint::Min(0), Constraint::Length(1)]).areas(inner);
    frame.render_widget(line, notes);
    rows
}

/// Returns the columns of hosts and ports, if the kind is Ingress.
fn hosts(table: &Table) -> Option<(usize, Option<usize>)> {
    let resource = &table.kind.resource;
    let at = |name: &str| table.columns.iter().position(|column| column.name == name);
    let is_ingress = resource.plural == "ingresses" && resource.group == "networking.k8s.io";
    at("HOSTS").filter(|_| is_ingress).map(|hosts| (hosts, at("PORTS")))
}

/// Makes hosts that are shown in full clickable links.
fn link_hosts(
    cx: &Context<'_>,
    shape: &VisibleColumns,
    (hosts, ports): (usize, Option<usize>),
    texts: &[String],
    row: Rect,
) {
    let mut x = row.x + LEAD;
    for (column, width) in &shape.columns {
        if *column != Some(hosts) {
            x = x.saturating_add((*width + GAP) as u16);
            continue;
        }
        let Some(text) = texts.get(hosts).filter(|text| text.width() <= *width && text.is_ascii()) else {
            return;
        };
        let secure = ports.and_then(|ports| texts.get(ports)).is_some_and(|ports| ports.contains("443"));
        let scheme = if secure { "https" } else { "http" };
        let mut at = 0;
        for host in text.split(',') {
            let is_host = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-');
            if !host.is_empty()
                && host.contains(|c: char| c.is_ascii_alphanumeric())
                && host.chars().all(is_host)
            {
                let place = Rect { x: x + at, y: row.y, width: host.len() as u16, height: 1 };
                cx.add_link(place.intersection(row), format!("{scheme}://{host}/"));
            }
            at += host.len() as u16 + 1;
        }
        return;
    }
}

/// The shortest bar that is drawn behind a status: a shorter one says nothing.
const LEAST_BAR: usize = 3;

/// Width before a row for the mark or the cursor.
const LEAD: u16 = 2;

/// Height of the pane with a complete event, including its frame.
const PANE: u16 = 5;

/// Shows the complete message of the event under the cursor.
fn message(table: &Table, cx: &Context<'_>, frame: &mut Frame<'_>, area: Rect) {
    let theme = cx.theme;
    let event = table.index.at(table.cursor_row()).and_then(|row| {
        let of = row.cluster.and_then(|cluster| cx.clusters.get(cluster));
        of.map_or(cx.stores, |of| of.stores).events().get(&row.uid)
    });
    let Some(event) = event else { return frame.render_widget(theme.block(""), area) };
    let count = event::count(event);
    let since = event.first_timestamp.as_ref().map(|first| cx.age(first.0));
    let since = since.filter(|age| !age.is_empty()).map(|age| format!(" over {age}")).unwrap_or_default();
    let often = if count > 1 { format!(" · ×{count}{since}") } else { String::new() };
    let from = event.source.as_ref().and_then(|source| source.component.as_deref());
    let from = event.reporting_component.as_deref().filter(|name| !name.is_empty()).or(from);
    let from = from.map(|from| format!(" · from {from}")).unwrap_or_default();
    let reason = event.reason.as_deref().unwrap_or_default();
    let title = clean(&format!("{} {reason}{often}{from}", event::object(event))).into_owned();
    let block = theme.block(fit(&title, usize::from(area.width).saturating_sub(6)).into_owned());
    let text = event.message.as_deref().unwrap_or_default().trim_end();
    let lines: Vec<Line<'_>> = text.lines().map(|line| Line::raw(clean(line).into_owned())).collect();
    frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: false }).block(block), area);
}

fn title<'a>(table: &Table, cx: &Context<'_>) -> Line<'a> {
    let theme = cx.theme;
    let place = match &table.only {
        RowScope::All if table.kind.namespaced => cx.scope.label().to_owned(),
        RowScope::All => String::new(),
        RowScope::In(name) => name.clone(),
        RowScope::OnNode(name) => format!("on {name}"),
        RowScope::UsingImage(used) => format!("using {}", used.describe()),
        RowScope::OwnedBy(object)
        | RowScope::Selected(object)
        | RowScope::Using(object)
        | RowScope::About(object) => {
            format!("of {}", object.name)
        }
    };
    let mut spans = vec![Span::styled(format!(" {} ", clean(&table.kind.heading())), theme.frame.title)];
    if !place.is_empty() {
        spans.push(Span::styled(format!("{} ", clean(&place)), theme.body.accent));
    }
    if let Some(only) = table.narrowed_to(cx) {
        spans.push(Span::styled(format!("@{} only ", clean(only)), cx.style_of_cluster(only)));
    }
    let (shown, total) = (table.index.len(), table.index.total());
    let count = if shown == total {
        grouped(total as u64)
    } else {
        format!("{} of {}", grouped(shown as u64), grouped(total as u64))
    };
    // The first pages of a long list are shown while the others are being loaded.
    let loaded = if table.over().is_some() { table.is_loaded(cx) } else { table.loaded };
    let more = if loaded || total == 0 { "" } else { "+" };
    spans.push(Span::styled(format!("{count}{more} "), theme.body.dim));
    if !table.query.is_empty() {
        spans.push(Span::styled(format!("/{} ", clean(&table.query)), theme.status.pending));
    }
    if table.index.is_filtering() {
        spans.push(Span::styled("… ", theme.status.pending));
    }
    if table.index.filter().faults {
        spans.push(Span::styled("faults only ", theme.status.pending));
    }
    if table.is_grouped() {
        spans.push(Span::styled("grouped ", theme.body.accent));
    }
    if table.warnings {
        spans.push(Span::styled("warnings only ", theme.status.pending));
    }
    if !table.marks.is_empty() {
        let hidden = table.hidden_marks();
        let hidden = if hidden > 0 { format!(", {hidden} hidden") } else { String::new() };
        spans.push(Span::styled(format!("◆ {} marked{hidden} ", table.marks.len()), theme.table.mark));
    }
    Line::from(spans)
}

fn right_title<'a>(table: &Table, cx: &Context<'_>, max_width: usize) -> Line<'a> {
    let theme = cx.theme;
    if table.over().is_some() {
        return states(table, cx, max_width);
    }
    if table.travelling {
        return Line::styled(" ◐ reading the past… ", theme.status.pending);
    }
    if table.displayed_time().is_some() {
        return Line::styled(" as it was ", theme.status.pending);
    }
    if let Some(refusal) = cx.links.refused(&table.kind.resource) {
        return Line::styled(format!(" {} ", refusal.label()), theme.body.dim);
    }
    if table.kind.is::<Event>() {
        return if table.paused {
            let missed = match table.missed {
                0 => String::new(),
                count => format!("· {} new ", grouped(count as u64)),
            };
            Line::styled(format!(" ‖ held {missed}"), theme.status.pending)
        } else {
            Line::styled(" following ", theme.body.dim)
        };
    }
    if table.only != RowScope::All || !table.kind.namespaced {
        return Line::default();
    }
    let mut spans = vec![Span::raw(" ")];
    let mut entry = |key: usize, name: &str, chosen: bool| {
        spans.push(Span::styled(format!("{key}"), theme.help.key));
        let style = if chosen { theme.body.accent } else { theme.body.dim };
        spans.push(Span::styled(format!(" {} ", fit(&clean(name), 16)), style));
    };
    entry(0, "all", *cx.scope == console_data::scope::Scope::All);
    for (index, name) in cx.favourites.iter().enumerate() {
        entry(index + 1, name, matches!(cx.scope, console_data::scope::Scope::One(one) if one == name));
    }
    // Favourites that do not fit are left out: a number key is of no use without its visible name.
    while spans.iter().map(Span::width).sum::<usize>() >= max_width && spans.len() > 3 {
        spans.truncate(spans.len() - 2);
    }
    Line::from(spans)
}

/// Returns the freshness of each cluster's rows: clusters with problems by name first, then the others as far as they
/// fit.
fn states<'a>(table: &Table, cx: &Context<'_>, max_width: usize) -> Line<'a> {
    let theme = cx.theme;
    let mut all = table.states(cx);
    all.order_by_key(|state| state.fresh == Freshness::Live);
    let mut spans = vec![Span::raw(" ")];
    let mut used = 1;
    for (at, state) in all.iter().enumerate() {
        let left = all.len() - at;
        let name = fit(&state.name, 20).into_owned();
        let label = if state.fresh == Freshness::Live { String::new() } else { format!(" {}", state.label) };
        let width = state.fresh.glyph().width() + 1 + name.width() + label.width() + 2;
        let more = format!("+{left} ");
        // Space is reserved for the number of clusters that are not named.
        if used + width + if left > 1 { more.width() } else { 0 } > max_width {
            spans.push(Span::styled(more, theme.body.dim));
            break;
        }
        used += width;
        let style = match state.fresh {
            Freshness::Live => theme.status.running,
            Freshness::CatchingUp => theme.status.pending,
            Freshness::Silent(_) => theme.status.failed,
            Freshness::NotAllowed | Freshness::Absent => theme.body.dim,
        };
        spans.push(Span::styled(format!("{} ", state.fresh.glyph()), style));
        spans.push(Span::styled(name, cx.style_of_cluster(&state.name)));
        spans.push(Span::styled(format!("{label}  "), style));
    }
    Line::from(spans)
}

/// Draws the reason why a table over several clusters has no rows, with the message of each cluster.
fn draw_empty_reason(table: &Table, cx: &Context<'_>, frame: &mut Frame<'_>, inner: Rect) {
    let width = usize::from(inner.width).saturating_sub(4);
    let states = table.states(cx);
    let each = (usize::from(inner.height) / states.len().max(1)).max(1);
    let mut lines: Vec<Line<'_>> = Vec::new();
    for state in &states {
        let message = match &state.reason {
            Some(why) => format!("{}: {why}", state.label),
            None if state.fresh == Freshness::Live => format!("no {}", table.kind.resource.plural),
            None => state.label.clone(),
        };
        let lead = format!("{} {}", state.fresh.glyph(), state.name);
        let text_width = width.saturating_sub(lead.width() + 2);
        let mut parts = wrapped(&clean(&message), text_width);
        if parts.len() > each {
            parts.truncate(each);
            if let Some(last) = parts.last_mut() {
                *last = fit(&format!("{last} …"), text_width).into_owned();
            }
        }
        let indent = " ".repeat(lead.width());
        for (at, part) in parts.into_iter().enumerate() {
            let lead = if at == 0 { lead.clone() } else { indent.clone() };
            lines.push(Line::from(vec![
                Span::styled(lead, cx.style_of_cluster(&state.name)),
                Span::styled(format!("  {part}"), cx.theme.body.dim),
            ]));
        }
    }
    lines.truncate(usize::from(inner.height));
    let top = (inner.height / 3).min(inner.height.saturating_sub(lines.len() as u16));
    let place = Rect {
        x: inner.x + 2,
        y: inner.y + top,
        width: inner.width.saturating_sub(4),
        height: inner.height - top,
    };
    frame.render_widget(Paragraph::new(lines), place);
}

fn no_rows(table: &Table, cx: &Context<'_>, frame: &mut Frame<'_>, inner: Rect) {
    if table.over().is_some() && table.index.total() == 0 {
        return draw_empty_reason(table, cx, frame, inner);
    }
    empty::draw(table, cx, frame, inner);
}

fn header<'a>(table: &Table, cx: &Context<'_>, shape: &VisibleColumns) -> Line<'a> {
    let theme = cx.theme;
    let sort = table.index.sort();
    let mut spans = vec![Span::raw("  ")];
    for (column, width) in &shape.columns {
        let (name, align) = match column {
            None => ("NAMESPACE", Align::Left),
            Some(index) => (table.columns[*index].heading(shape.is_tight), table.columns[*index].align),
        };
        let sorted = *column == sort.column && column.is_some()
            || sort.column.is_none() && *column == Some(table.name_column());
        let arrow = match sort.direction {
            Direction::Up if sorted => " ↑",
            Direction::Down if sorted => " ↓",
            _ => "",
        };
        let text = format!("{name}{arrow}");
        let style = if column.is_some() && *column == table.picked {
            theme.table.mark
        } else if sorted {
            theme.table.header.patch(theme.body.accent)
        } else {
            theme.table.header
        };
        spans.push(Span::styled(aligned(&text, *width, align), style));
        spans.push(Span::raw(" ".repeat(GAP)));
    }
    Line::from(spans)
}

fn aligned(text: &str, width: usize, align: Align) -> String {
    let text = fit(text, width);
    let pad = " ".repeat(width.saturating_sub(text.width()));
    match align {
        Align::Left => format!("{text}{pad}"),
        Align::Right => format!("{pad}{text}"),
    }
}

fn draw_row<'a>(
    table: &Table,
    cx: &Context<'_>,
    shape: &VisibleColumns,
    row: &Row,
    texts: &[String],
    selected: bool,
) -> Line<'a> {
    let theme = cx.theme;
    let flash = table.flashes.get(&row.key()).filter(|(_, until)| *until > cx.now);
    if let Some((_, until)) = flash {
        cx.redraw_at(*until);
    }
    let marked = table.marks.contains(&row.key());
    let lead = match (marked, selected) {
        (true, _) => Span::styled("◆ ", theme.table.mark),
        (false, true) => Span::raw("▸ "),
        (false, false) => Span::raw("  "),
    };
    let mut spans = vec![lead];
    for (column, width) in &shape.columns {
        let Some(index) = column else {
            let namespace = clean(row.namespace.as_deref().unwrap_or_default()).into_owned();
            let style = if selected { Style::default() } else { theme.body.dim };
            spans.push(Span::styled(aligned(&namespace, *width, Align::Left), style));
            spans.push(Span::raw(" ".repeat(GAP)));
            continue;
        };
        let (Some(cell), Some(text)) = (row.cells.get(*index), texts.get(*index)) else { continue };
        let align = table.columns[*index].align;
        let changed = flash.is_some_and(|(mask, _)| mask >> (*index).min(63) & 1 == 1);
        let mut style = cell_style(cell, row, cx);
        if table.shows_context() && *index == 0 {
            style = cx.style_of_cluster(text);
            if selected {
                style = theme.table.cursor.patch(style);
            }
        } else if selected {
            // In the cursor's row only a state keeps its own colour; other cells have the colours of the cursor.
            style = if matches!(cell, Cell::Status(..) | Cell::Progress(..) | Cell::Warning(_)) {
                theme.table.cursor.patch(style)
            } else {
                Style::default()
            };
        }
        if changed {
            style = style.patch(theme.table.flash);
        }
        if marked && *index == table.name_column() {
            style = theme.table.mark;
        }
        let text = match cell {
            Cell::Status(_, health) | Cell::Progress(_, health, _) => format!("{} {text}", health.glyph()),
            Cell::Warning(_) => format!("⚠ {text}"),
            // The end of its name distinguishes a pod from the others of its workload.
            _ if *index == table.name_column() => fit_middle(text, *width).into_owned(),
            _ => text.clone(),
        };
        let bar_columns = width.saturating_sub(text.width() + 1);
        if let Cell::Progress(_, _, percent) = cell
            && bar_columns >= LEAST_BAR
        {
            spans.push(Span::styled(format!("{text} "), style));
            spans.extend(bar(f64::from(*percent) / 100.0, bar_columns, style, theme.chart.empty));
        } else {
            spans.push(Span::styled(aligned(&text, *width, align), style));
        }
        spans.push(Span::raw(" ".repeat(GAP)));
    }
    Line::from(spans)
}

fn cell_style(cell: &Cell, row: &Row, cx: &Context<'_>) -> Style {
    use console_toolkit::health::Health;
    let theme = cx.theme;
    match cell {
        Cell::Status(_, health) | Cell::Progress(_, health, _) => theme.health(*health),
        Cell::Warning(_) => theme.status.pending,
        Cell::Used { text, load, .. } => match cx.thresholds.level(*load) {
            ThresholdLevel::At => theme.status.failed,
            ThresholdLevel::Near => theme.status.pending,
            ThresholdLevel::Far if text == "0" && matches!(load, Load::Share { .. }) => theme.body.dim,
            ThresholdLevel::Far => usual(row, cx),
        },
        Cell::Dim(_) | Cell::Age(_) | Cell::Until(_) | Cell::Restarts(0, _) | Cell::Number(0) => {
            theme.body.dim
        }
        Cell::Restarts(..) => theme.status.crashing,
        Cell::Ratio(have, want) if have < want && row.health != Some(Health::Succeeded) => {
            theme.status.pending
        }
        _ => usual(row, cx),
    }
}

/// Returns the style of a cell without a state.
fn usual(row: &Row, cx: &Context<'_>) -> Style {
    use console_toolkit::health::Health;
    let is_over = matches!(row.health, Some(Health::Succeeded | Health::Terminating));
    if is_over { cx.theme.body.dim } else { Style::default() }
}

fn scrollbar(table: &Table, cx: &Context<'_>, frame: &mut Frame<'_>, area: Rect, offset: usize, rows: usize) {
    let total = table.index.len();
    if total <= rows || area.height < 4 {
        return;
    }
    let track = usize::from(area.height) - 3;
    let size = (track * rows / total).max(1);
    let at = (track - size) * offset / (total - rows).max(1);
    for line in at..at + size {
        let position = (area.right() - 1, area.y + 2 + line as u16);
        if let Some(cell) = frame.buffer_mut().cell_mut(position) {
            cell.set_symbol("┃").set_style(cx.theme.frame.focus);
        }
    }
}
