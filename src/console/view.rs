//! Draws the model: header, the top screen, footer, and what floats over them.
//!
//! ```text
//!  podium ▸ default ▸ Pods                3 nodes ● 3      42 pods ● 38 ◐ 2 ✖ 1        rev 1 204
//! ╭ the top screen ──────────────────────────────────────────────────────────────────────────────╮
//! ╰──────────────────────────────────────────────────────────────────────────────────── toasts ──╯
//!  footer, or the prompt
//! ```

use jiff::Timestamp;
use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Block, Clear, Paragraph, Wrap};
use unicode_width::UnicodeWidthStr;

use super::command::{Command, TABLE, Where};
use super::context::Context;
use super::dialog;
use super::model::Model;
use super::rows::node;
use super::rows::pod_status::Look;
use super::screen::View;
use super::text::{clean, fit, grouped};
use super::toast::Mood;

/// The smallest terminal the views are drawn in.
pub const SMALLEST: (u16, u16) = (60, 15);

/// Draws everything.
pub fn draw(model: &Model, now: Timestamp, frame: &mut Frame<'_>) {
    let area = frame.area();
    let theme = &model.shared.theme;
    frame.render_widget(Block::new().style(theme.body.text), area);
    if area.width < SMALLEST.0 || area.height < SMALLEST.1 {
        too_small(model, frame, area);
        return;
    }
    model.shared.wake.set(None);
    let (id, screen) = model.top();
    let cx = model.shared.context(*id, now);

    let bare = screen.full_screen();
    let head = u16::from(model.header && !bare);
    let foot = u16::from(!bare || model.prompt.is_some());
    let [header, body, footer] =
        Layout::vertical([Constraint::Length(head), Constraint::Min(0), Constraint::Length(foot)])
            .areas(area);
    if head > 0 {
        draw_header(model, &cx, frame, header);
    }
    screen.view(&cx, frame, body);
    if let Some(stopping) = &model.stopping {
        draw_stopping(stopping, &cx, frame, body);
    }
    draw_toasts(model, &cx, frame, body);
    if foot > 0 {
        if model.prompt.is_some() {
            draw_prompt(model, &cx, frame, footer, body);
        } else {
            draw_footer(model, &cx, frame, footer);
        }
    }
    if let Some((asker, dialog)) = &model.dialog {
        dialog::draw(dialog, &model.shared.context(*asker, now), frame, area);
    }
}

fn too_small(model: &Model, frame: &mut Frame<'_>, area: Rect) {
    let (width, height) = SMALLEST;
    let lines = vec![
        Line::styled("podium needs a little more room", model.shared.theme.body.accent),
        Line::raw(format!("{width}×{height} at least, this is {}×{}", area.width, area.height)),
        Line::raw("nothing is lost: make the window larger"),
    ];
    let top = area.height.saturating_sub(lines.len() as u16) / 2;
    let place = Rect { y: area.y + top, height: area.height - top, ..area };
    frame.render_widget(Paragraph::new(lines).alignment(Alignment::Center).wrap(Wrap { trim: true }), place);
}

fn draw_header(model: &Model, cx: &Context<'_>, frame: &mut Frame<'_>, area: Rect) {
    let theme = cx.theme;
    frame.render_widget(Block::new().style(theme.header.bar), area);
    let mut right = summary(model, cx);
    let room = usize::from(area.width);
    let width = |spans: &[Span<'_>]| spans.iter().map(Span::width).sum::<usize>();
    // What matters least goes first: the revision, the origin, the older crumbs.
    let mut left = crumbs(model, cx, Crumbs { origin: true, count: 3 });
    if width(&left) + width(&right.0) + width(&right.1) > room {
        right.1.clear();
    }
    for shape in [
        Crumbs { origin: true, count: 2 },
        Crumbs { origin: false, count: 2 },
        Crumbs { origin: false, count: 1 },
    ] {
        if width(&left) + width(&right.0) + width(&right.1) > room {
            left = crumbs(model, cx, shape);
        }
    }
    right.0.extend(right.1);
    let [left_area, right_area] =
        Layout::horizontal([Constraint::Min(0), Constraint::Length(width(&right.0) as u16)]).areas(area);
    frame.render_widget(Line::from(left), left_area);
    frame.render_widget(Line::from(right.0), right_area);
}

/// Whether the cluster runs in this very process.
fn is_ours(model: &Model) -> bool {
    model.setup.origin == "in process"
}

#[derive(Clone, Copy)]
struct Crumbs {
    origin: bool,
    count: usize,
}

/// The cluster and the way to the top screen.
fn crumbs<'a>(model: &Model, cx: &Context<'_>, shape: Crumbs) -> Vec<Span<'a>> {
    let theme = cx.theme;
    let mut left = vec![Span::styled(format!(" {} ", clean(&model.setup.cluster)), theme.header.title)];
    // Our own cluster is the usual one and needs no address.
    if shape.origin && !is_ours(model) && !model.setup.origin.is_empty() {
        left.push(Span::styled(format!("at {} ", clean(&model.setup.origin)), theme.body.dim));
    }
    let first = model.screens.len().saturating_sub(shape.count);
    for (id, screen) in &model.screens[first..] {
        left.push(Span::styled("▸ ", theme.body.dim));
        let title = screen.title(&model.shared.context(*id, cx.now));
        left.push(Span::raw(format!("{} ", fit(&clean(&title), 32))));
    }
    for (id, screen) in &model.parked {
        if let Some(line) = screen.background(&model.shared.context(*id, cx.now)) {
            left.push(Span::styled(format!("⧗ {} ", clean(&line)), theme.status.pending));
        }
    }
    if model.shared.read_only {
        left.push(Span::styled("read-only ", theme.status.pending));
    }
    left
}

/// Nodes and pods by look, what is broken first; and the revision.
fn summary<'a>(model: &Model, cx: &Context<'_>) -> (Vec<Span<'a>>, Vec<Span<'a>>) {
    let theme = cx.theme;
    let stores = cx.stores;
    let mut spans = Vec::new();
    if let Some((kind, why)) = model.broken.iter().next() {
        let why = clean(why);
        let text = format!("✖ {}: {}  ", kind.kind().plural, fit(&why, 40));
        spans.push(Span::styled(text, theme.status.failed));
    }
    if !stores.synced() {
        spans.push(Span::styled("◐ connecting… ", theme.status.pending));
        return (spans, Vec::new());
    }
    let ready = stores.nodes.iter().filter(|(_, node)| node::is_ready(node)).count();
    spans.push(Span::styled(format!("{} ", stores.nodes.len()), theme.header.value));
    spans.push(Span::styled("nodes ", theme.body.dim));
    spans.push(Span::styled(format!("● {ready} "), theme.status.running));
    if ready < stores.nodes.len() {
        spans.push(Span::styled(format!("✖ {} ", stores.nodes.len() - ready), theme.status.failed));
    }
    spans.push(Span::styled(format!("  {} ", grouped(stores.pods.len() as u64)), theme.header.value));
    spans.push(Span::styled("pods ", theme.body.dim));
    for look in Look::ALL {
        if let Some(count) = stores.looks().get(&look) {
            spans.push(Span::styled(
                format!("{} {} ", look.glyph(), grouped(*count as u64)),
                theme.look(look),
            ));
        }
    }
    let mut revision = Vec::new();
    // Elsewhere revisions are etcd's, of no use to a reader.
    if stores.latest_revision() > 0 && is_ours(model) {
        revision.push(Span::styled(format!("  rev {} ", grouped(stores.latest_revision())), theme.body.dim));
    }
    (spans, revision)
}

fn draw_footer(model: &Model, cx: &Context<'_>, frame: &mut Frame<'_>, area: Rect) {
    let mut keys: Vec<(String, &str)> = Vec::new();
    let mut places = model.places(cx.now);
    // What holds everywhere is known after a day; it comes last but for the three ways on.
    places.retain(|place| *place != Where::Everywhere);
    for place in places {
        for entry in TABLE.iter().filter(|entry| entry.place == place && !entry.short.is_empty()) {
            if let Some(key) = cx.bindings.key(entry.command) {
                keys.push((key.to_string(), entry.short));
            }
        }
    }
    if !model.top().1.takes_all_keys() {
        for command in [Command::Prompt, Command::Filter, Command::Help] {
            if let Some(key) = cx.bindings.key(command) {
                keys.push((key.to_string(), command.entry().short));
            }
        }
    }
    let mut spans = vec![Span::raw(" ")];
    let mut used = 1;
    for (index, (key, short)) in keys.iter().enumerate() {
        let width = key.width() + short.width() + 4;
        // Room is kept for `?`, which leads to all the others.
        let last = index + 1 == keys.len();
        if used + width + if last { 0 } else { 9 } > usize::from(area.width) {
            if let Some(key) = cx.bindings.key(Command::Help) {
                spans.push(Span::styled(format!("<{key}>"), cx.theme.help.key));
                spans.push(Span::styled("more", cx.theme.help.text));
            }
            break;
        }
        used += width;
        spans.push(Span::styled(format!("<{key}>"), cx.theme.help.key));
        spans.push(Span::styled(format!("{short}  "), cx.theme.help.text));
    }
    frame.render_widget(Line::from(spans), area);
}

fn draw_prompt(model: &Model, cx: &Context<'_>, frame: &mut Frame<'_>, area: Rect, body: Rect) {
    let Some(prompt) = &model.prompt else { return };
    let theme = cx.theme;
    let mut spans = vec![
        Span::styled(format!(" {}", prompt.ask.sign()), theme.body.accent),
        Span::styled(prompt.text.clone(), theme.prompt.text),
    ];
    let column = area.x + 2 + prompt.text.width() as u16;
    spans.push(Span::styled(clean(prompt.ghost()).into_owned(), theme.prompt.suggestion));
    if let Some(error) = &prompt.error {
        spans.push(Span::styled(format!("   ✖ {}", clean(error)), theme.prompt.error));
    } else if prompt.ask == super::prompt::Ask::Filter {
        spans.push(Span::styled("   regex · !not · -l label=value · -f fuzzy", theme.prompt.suggestion));
    }
    frame.render_widget(Line::from(spans), area);
    frame.set_cursor_position((column.min(area.right().saturating_sub(1)), area.y));

    if prompt.suggestions.is_empty() {
        return;
    }
    let height = (prompt.suggestions.len() as u16 + 2).min(body.height);
    let width = prompt.suggestions.iter().map(|text| text.width()).max().unwrap_or(0) as u16 + 4;
    let place = Rect {
        x: area.x + 1,
        y: body.bottom().saturating_sub(height),
        width: width.clamp(16, body.width.saturating_sub(2)),
        height,
    };
    let lines: Vec<Line<'_>> = prompt
        .suggestions
        .iter()
        .enumerate()
        .map(|(index, text)| {
            let style = if prompt.picked == Some(index) { theme.table.cursor } else { Style::default() };
            Line::styled(format!("{:<width$}", clean(text), width = usize::from(place.width)), style)
        })
        .collect();
    frame.render_widget(Clear, place);
    frame.render_widget(Paragraph::new(lines).block(theme.block("").style(theme.dialog.text)), place);
}

fn draw_toasts(model: &Model, cx: &Context<'_>, frame: &mut Frame<'_>, body: Rect) {
    // Inside the frame of the screen, so that the corner stays whole.
    let mut bottom = body.bottom().saturating_sub(1);
    for (toast, ends) in model.toasts.iter().rev() {
        cx.redraw_at(*ends);
        let (glyph, style) = match toast.mood {
            Mood::Done => ("✔", cx.theme.toast.done),
            Mood::Note => ("·", cx.theme.toast.note),
            Mood::Failed => ("✖", cx.theme.toast.failed),
        };
        let width = (toast.text.width() as u16 + 6).min(body.width.saturating_sub(4)).min(76);
        let inner = usize::from(width.saturating_sub(4)).max(1);
        let text: Text<'_> = toast
            .text
            .lines()
            .enumerate()
            .map(|(index, line)| {
                let mark = if index == 0 { format!("{glyph} ") } else { "  ".to_owned() };
                Line::from(vec![Span::styled(mark, style), Span::raw(clean(line).into_owned())])
            })
            .collect();
        let rows: usize = text
            .lines
            .iter()
            .map(|line| line.width().max(1).div_ceil(inner) + usize::from(line.width() > inner * 2))
            .sum();
        let height = rows as u16 + 2;
        if bottom.saturating_sub(height) <= body.y {
            break;
        }
        bottom -= height;
        let place = Rect { x: body.right().saturating_sub(width + 2), y: bottom, width, height };
        frame.render_widget(Clear, place);
        let block = cx.theme.block("").border_style(style).style(cx.theme.dialog.text);
        frame.render_widget(Paragraph::new(text).block(block).wrap(Wrap { trim: false }), place);
    }
}

fn draw_stopping(text: &str, cx: &Context<'_>, frame: &mut Frame<'_>, body: Rect) {
    let rows = text.lines().count() as u16;
    let width = text.lines().map(UnicodeWidthStr::width).max().unwrap_or(0) as u16 + 6;
    let width = width.clamp(30, body.width);
    let height = (rows + 4).min(body.height);
    let place =
        Rect { x: body.x + (body.width - width) / 2, y: body.y + (body.height - height) / 2, width, height };
    frame.render_widget(Clear, place);
    let block = cx.theme.block_focused("Stopping").style(cx.theme.dialog.text);
    let mut lines: Vec<Line<'_>> = vec![Line::default()];
    lines.extend(text.lines().map(|line| Line::raw(clean(line).into_owned())));
    frame.render_widget(Paragraph::new(lines).block(block).alignment(Alignment::Center), place);
}
