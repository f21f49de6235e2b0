//! Draws the timeline: one line for each entry, and the complete entry under the cursor below if it fits.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Wrap};

use super::entry::Entry;
use super::{HistoryLoad, Timeline};
use console_data::context::Context;
use console_data::point_in_time::clock;
use console_toolkit::text::{clean, counted, fit, grouped, pad};
use console_toolkit::widget::notice;
use console_toolkit::widget::title::title_line;

/// Height of the pane with a complete entry, including its frame.
const PANE: u16 = 5;
/// Minimum width for the time of day in each entry.
const WIDE: usize = 70;

pub(super) fn draw(timeline: &Timeline, cx: &Context<'_>, frame: &mut Frame<'_>, area: Rect) {
    let pane = if area.height >= 14 { PANE } else { 0 };
    let [area, pane] = Layout::vertical([Constraint::Min(0), Constraint::Length(pane)]).areas(area);
    timeline.lines(cx, |lines| {
        draw_lines(timeline, cx, lines, frame, area);
        if pane.height > 0 {
            whole(timeline, cx, lines, frame, pane);
        }
    });
}

/// Returns `1 entry`, `2 entries`.
fn entries(count: usize) -> String {
    if count == 1 { "1 entry".to_owned() } else { format!("{} entries", grouped(count as u64)) }
}

fn draw_lines(timeline: &Timeline, cx: &Context<'_>, lines: &[Entry], frame: &mut Frame<'_>, area: Rect) {
    let theme = cx.theme;
    let root = timeline.family.root();
    let mut title = vec![
        Span::styled(format!(" Timeline · {} ", root.describe()), theme.frame.title),
        Span::styled(
            format!("{} · {} ", counted(timeline.family.len(), "object"), entries(lines.len())),
            theme.body.dim,
        ),
    ];
    if !timeline.filter.is_empty() {
        title.push(Span::styled(format!("/{} ", clean(timeline.filter.text())), theme.status.pending));
    }
    if timeline.cursor.is_none() {
        let order = if timeline.newest_first { "newest first " } else { "oldest first " };
        title.extend(["following ", order].map(|part| Span::styled(part, theme.body.dim)));
    }
    let mut block = theme.block_focused("").title_top(title_line(title, area.width));
    // Gaps are reported: an absence of entries does not prove that nothing happened.
    let bounds = match (&timeline.before, timeline.dropped) {
        (HistoryLoad::Asking, _) => Some("reading the history…".to_owned()),
        (HistoryLoad::Unknown(why), _) => Some(format!("states since this view was opened: {why}")),
        (HistoryLoad::Loaded(_), dropped) if dropped > 0 => {
            Some(format!("{} older entries were dropped", grouped(dropped as u64)))
        }
        (HistoryLoad::Loaded(since), _) => since.map(|since| format!("states since {}", clock(since))),
    };
    if let Some(bounds) = bounds {
        let bounds = fit(&clean(&bounds), usize::from(area.width).saturating_sub(6)).into_owned();
        block = block.title_bottom(Line::styled(format!(" {bounds} "), theme.status.pending));
    }
    let inner = block.inner(area);
    frame.render_widget(block, area);
    if lines.is_empty() {
        return notice::draw("no known changes or events", theme.body.dim, frame, inner);
    }
    let (width, height) = (usize::from(inner.width), usize::from(inner.height).max(1));
    let cursor = timeline.at(lines);
    let visible = timeline.window.around(cursor, height, lines.len());
    let longest = lines[visible.clone()].iter().map(|line| line.about().chars().count()).max();
    let about = longest.unwrap_or(0).min(width / 3);
    let shown = lines.iter().enumerate().skip(visible.start).take(visible.len()).map(|(at, entry)| {
        let selected = at == cursor;
        let style = if entry.warns { theme.status.pending } else { theme.health(entry.health) };
        let time = if width >= WIDE { format!("{} ", clock(entry.time)) } else { String::new() };
        let head = format!("{}{time}{:>5} ", if selected { "▸ " } else { "  " }, cx.age(entry.time));
        let source = if width >= WIDE { format!("{:<6} ", entry.source()) } else { String::new() };
        let used = head.chars().count() + 2 + source.len() + about + 2;
        let line = Line::from(vec![
            Span::styled(head, theme.body.dim),
            Span::styled(format!("{} ", entry.sign(theme)), style),
            Span::styled(source, theme.body.dim),
            Span::styled(pad(&entry.about(), about), theme.body.accent),
            Span::raw("  "),
            Span::styled(fit(&entry.text, width.saturating_sub(used)).into_owned(), text_style(cx, entry)),
        ]);
        if selected { theme.chosen(line) } else { line }
    });
    frame.render_widget(Paragraph::new(shown.collect::<Vec<_>>()), inner);
}

/// States have the colour of their health; other entries have the text colour, except for warnings.
fn text_style(cx: &Context<'_>, entry: &Entry) -> Style {
    match entry.source() {
        "state" => cx.theme.health(entry.health),
        _ if entry.warns => cx.theme.status.pending,
        _ => Style::default(),
    }
}

fn whole(timeline: &Timeline, cx: &Context<'_>, lines: &[Entry], frame: &mut Frame<'_>, area: Rect) {
    let Some(entry) = lines.get(timeline.at(lines)) else {
        return frame.render_widget(cx.theme.block(""), area);
    };
    let revision = match entry.revision {
        0 => String::new(),
        revision => format!(" · revision {}", grouped(revision)),
    };
    let title = format!("{} · {} · {}{revision}", entry.source(), entry.object.describe(), clock(entry.time));
    let block = cx.theme.block(fit(&title, usize::from(area.width).saturating_sub(6)).into_owned());
    frame.render_widget(Paragraph::new(entry.text.as_str()).wrap(Wrap { trim: false }).block(block), area);
}
