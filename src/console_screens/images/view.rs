//! Draws the images of nodes, and below them more about the one under the cursor.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Wrap};
use unicode_width::UnicodeWidthStr;

use super::{Images, NodeAnswer};
use base::decimal_size::decimal_size;
use console_data::context::Context;
use console_data::node_images::{ImageColumn, ImageRow, PullRow};
use console_operations::effect::ImageScope;
use console_toolkit::health::Health;
use console_toolkit::text::{clean, fit, grouped, pad};
use console_toolkit::widget::gauge::bar;
use console_toolkit::widget::notice;

/// The space between two columns.
const GAP: usize = 2;
/// The width of the sign before each row.
const LEAD: usize = 2;
/// The width that names keep while there are other columns to leave out.
const LEAST_NAME: usize = 26;
/// The height of the pane below the rows, and the height of the screen from which there is one.
const PANE: u16 = 5;
const LEAST_HEIGHT: u16 = 14;
/// The width of `◐ Pulling 43%`, for which a name is cut.
const LEAST_PULL: usize = 13;
/// The longest and the shortest bar of a pull, and the shortest one with the amounts beside it.
const LONGEST_BAR: usize = 20;
const LEAST_BAR: usize = 3;
const LEAST_BAR_WITH_AMOUNTS: usize = 8;
/// The width from which the row of a failed pull has the beginning of the reason.
const LEAST_REASON: usize = 60;

pub(super) fn draw(screen: &Images, cx: &Context<'_>, frame: &mut Frame<'_>, area: Rect) {
    let theme = cx.theme;
    let visible = screen.visible();
    let cursor = screen.at(&visible);
    let pane = if area.height >= LEAST_HEIGHT && !visible.is_empty() { PANE } else { 0 };
    let [area, pane] = Layout::vertical([Constraint::Min(0), Constraint::Length(pane)]).areas(area);
    let title = title(screen, cx, visible.len());
    let note = note(screen, cx, usize::from(area.width).saturating_sub(title.width() + 6));
    let block = theme.block_focused("").title_top(title).title_top(note.right_aligned());
    let inner = block.inner(area);
    frame.render_widget(block, area);
    if visible.is_empty() {
        let text = match () {
            () if screen.rows.is_empty() && screen.answers.is_empty() => "asking the nodes…",
            () if screen.rows.is_empty() => "no images",
            () => "none matches",
        };
        return notice::draw_centered(text, theme.body.dim, frame, inner);
    }
    let columns = Columns::of(screen, &visible, usize::from(inner.width));
    let mut lines = vec![columns.header(screen, cx)];
    let height = usize::from(inner.height).saturating_sub(1).max(1);
    let shown = screen.window.around(cursor, height, visible.len());
    lines.extend(shown.map(|at| {
        let line = columns.row(cx, visible[at], at == cursor);
        if at == cursor { theme.chosen(line) } else { line }
    }));
    frame.render_widget(Paragraph::new(lines), inner);
    if pane.height > 0 {
        let row = visible[cursor];
        let name = fit(&clean(row.name()), usize::from(pane.width).saturating_sub(6)).into_owned();
        let columns = usize::from(pane.width).saturating_sub(4);
        let mut text = Paragraph::new(about(cx, row, columns)).block(theme.block(name));
        if row.pull.is_some() {
            // The reason of a failure is a long sentence.
            text = text.wrap(Wrap { trim: false });
        }
        frame.render_widget(text, pane);
    }
}

fn title<'a>(screen: &Images, cx: &Context<'_>, shown: usize) -> Line<'a> {
    let theme = cx.theme;
    let of = match &screen.only {
        ImageScope::All => String::new(),
        ImageScope::Node(name) => format!("on {name} "),
        ImageScope::Pod(pod) => format!("of {} ", pod.name),
    };
    let count = match screen.rows.len() {
        total if total == shown => grouped(total as u64),
        total => format!("{} of {}", grouped(shown as u64), grouped(total as u64)),
    };
    let mut spans = vec![
        Span::styled(" Images ", theme.frame.title),
        Span::styled(clean(&of).into_owned(), theme.body.accent),
        Span::styled(format!("{count} "), theme.body.dim),
    ];
    if !screen.filter.is_empty() {
        spans.push(Span::styled(format!("/{} ", clean(screen.filter.text())), theme.status.pending));
    }
    Line::from(spans)
}

/// Returns the note about nodes that do not list their images, the worst first.
fn note<'a>(screen: &Images, cx: &Context<'_>, width: usize) -> Line<'a> {
    let theme = cx.theme;
    let mut incomplete = 0;
    let mut omitted = 0;
    for (node, answer) in &screen.answers {
        match answer {
            NodeAnswer::Failed(why) | NodeAnswer::Forbidden(why) => {
                let text = format!(" ✖ {}: {} ", clean(node), clean(why));
                return Line::styled(fit(&text, width).into_owned(), theme.status.failed);
            }
            NodeAnswer::Absent => incomplete += 1,
            NodeAnswer::Images(listed) => omitted += listed.omitted,
        }
    }
    let text = match (incomplete, screen.answers.len()) {
        _ if omitted > 0 => format!(" {} more left out ", grouped(omitted as u64)),
        (0, _) => return Line::default(),
        (some, all) if some == all => " names and sizes only ".to_owned(),
        (1, _) => " 1 node: names and sizes only ".to_owned(),
        (some, _) => format!(" {some} nodes: names and sizes only "),
    };
    Line::styled(fit(&text, width).into_owned(), theme.body.dim)
}

/// The layout of the columns; the least important ones are dropped on narrow screens.
struct Columns {
    all: Vec<(ImageColumn, usize)>,
}

impl Columns {
    fn of(screen: &Images, rows: &[&ImageRow], width: usize) -> Self {
        let node = rows.iter().map(|row| clean(&row.node).width()).max().unwrap_or(0).clamp(6, 20);
        let name = rows.iter().map(|row| clean(row.name()).width()).max().unwrap_or(0).max(7);
        let mut all: Vec<(ImageColumn, usize)> = ImageColumn::ALL
            .into_iter()
            .filter(|column| *column != ImageColumn::Node || screen.only == ImageScope::All)
            .map(|column| {
                let width = match column {
                    ImageColumn::Node => node,
                    ImageColumn::Name => 0,
                    ImageColumn::Id => 12,
                    ImageColumn::Size => 7,
                    ImageColumn::Pods | ImageColumn::LastUsed => 6,
                    ImageColumn::Source => 8,
                };
                (column, width)
            })
            .collect();
        let left = |all: &[(ImageColumn, usize)]| {
            let used: usize = all.iter().map(|(_, width)| width + GAP).sum();
            width.saturating_sub(LEAD + used)
        };
        let least = name.min(LEAST_NAME);
        for dropped in [
            ImageColumn::Id,
            ImageColumn::Source,
            ImageColumn::LastUsed,
            ImageColumn::Node,
            ImageColumn::Pods,
        ] {
            if left(&all) < least {
                all.retain(|(column, _)| *column != dropped);
            }
        }
        // Wide screens leave their space at the end, so that the columns stay together.
        let name = left(&all).min(name.max(LEAST_NAME));
        for (column, width) in &mut all {
            if *column == ImageColumn::Name {
                *width = name;
            }
        }
        Self { all }
    }

    fn header<'a>(&self, screen: &Images, cx: &Context<'_>) -> Line<'a> {
        let theme = cx.theme;
        let mut spans = vec![Span::raw(" ".repeat(LEAD))];
        for (column, width) in &self.all {
            let arrow = match () {
                () if *column != screen.sort => "",
                () if screen.is_descending => " ↓",
                () => " ↑",
            };
            let style = match () {
                () if Some(*column) == screen.picked => theme.table.mark,
                () if *column == screen.sort => theme.table.header.patch(theme.body.accent),
                () => theme.table.header,
            };
            let text = format!("{}{arrow}", column.heading());
            spans.push(Span::styled(aligned(*column, &text, *width), style));
            spans.push(Span::raw(" ".repeat(GAP)));
        }
        Line::from(spans)
    }

    fn row<'a>(&self, cx: &Context<'_>, row: &ImageRow, is_selected: bool) -> Line<'a> {
        let theme = cx.theme;
        let mut spans = vec![Span::raw(if is_selected { "▸ " } else { "  " })];
        let end = self.all.iter().position(|(column, _)| *column == ImageColumn::Name).unwrap_or(0);
        let rest: usize = self.all.iter().skip(end + 1).map(|(_, width)| width + GAP).sum();
        let rest = rest.saturating_sub(GAP);
        for (at, (column, width)) in self.all.iter().enumerate() {
            if at > end
                && let Some(pull) = &row.pull
            {
                spans.extend(pull_spans(cx, pull, rest.max(LEAST_PULL)));
                break;
            }
            let cut = if at == end && row.pull.is_some() { LEAST_PULL.saturating_sub(rest) } else { 0 };
            let width = width.saturating_sub(cut);
            let text = match column {
                ImageColumn::Node => row.node.clone(),
                ImageColumn::Name => row.name().to_owned(),
                ImageColumn::Id => row.short_id().to_owned(),
                ImageColumn::Size => row.size_bytes.map(decimal_size).unwrap_or_default(),
                ImageColumn::Pods => row.pods.len().to_string(),
                ImageColumn::LastUsed => row.last_used.map(|time| cx.age(time)).unwrap_or_default(),
                ImageColumn::Source => row.source.word().to_owned(),
            };
            let text = if text.is_empty() { "-".to_owned() } else { clean(&text).into_owned() };
            let is_quiet = match column {
                ImageColumn::Pods => row.pods.is_empty(),
                ImageColumn::Id | ImageColumn::LastUsed | ImageColumn::Source => true,
                ImageColumn::Node | ImageColumn::Name | ImageColumn::Size => text == "-",
            };
            let style = if is_quiet && !is_selected { theme.body.dim } else { theme.body.text };
            let style = if is_selected { ratatui::style::Style::default() } else { style };
            spans.push(Span::styled(aligned(*column, &text, width), style));
            spans.push(Span::raw(" ".repeat(GAP)));
        }
        Line::from(spans)
    }
}

fn aligned(column: ImageColumn, text: &str, width: usize) -> String {
    let text = fit(text, width).into_owned();
    match column {
        ImageColumn::Size | ImageColumn::Pods | ImageColumn::LastUsed => {
            format!("{}{text}", " ".repeat(width.saturating_sub(text.width())))
        }
        _ => pad(&text, width),
    }
}

/// Returns the state of a pull in this width: the percentage, a bar and the amounts, as far as they fit.
fn pull_spans<'a>(cx: &Context<'_>, pull: &PullRow, width: usize) -> Vec<Span<'a>> {
    let theme = cx.theme;
    match pull {
        PullRow::Failed(error) => {
            // A part of the reason says nothing: the pane below has all of it.
            let error = if width >= LEAST_REASON { format!(": {}", clean(error)) } else { String::new() };
            let text = format!("{} Pull failed{error}", Health::Failed.glyph());
            vec![Span::styled(fit(&text, width).into_owned(), theme.health(Health::Failed))]
        }
        PullRow::Running(progress) => {
            let style = theme.health(Health::Pending);
            let percent = progress.percent().map(|percent| format!(" {percent}%")).unwrap_or_default();
            let text = format!("{} Pulling{percent}", Health::Pending.glyph());
            let amounts = progress.to_string();
            let left = width.saturating_sub(text.width() + 1);
            let with_amounts = left.saturating_sub(amounts.width() + 1);
            let mut spans = vec![Span::styled(fit(&text, width).into_owned(), style)];
            let Some(share) = progress.share() else {
                if left > amounts.width() {
                    spans.push(Span::styled(format!(" {amounts}"), theme.body.dim));
                }
                return spans;
            };
            let (columns, has_amounts) =
                if with_amounts >= LEAST_BAR_WITH_AMOUNTS { (with_amounts, true) } else { (left, false) };
            if columns >= LEAST_BAR {
                spans.push(Span::raw(" "));
                spans.extend(bar(share, columns.min(LONGEST_BAR), style, theme.chart.empty));
            }
            if has_amounts {
                spans.push(Span::styled(format!(" {amounts}"), theme.body.dim));
            }
            spans
        }
    }
}

/// Joins the first values that fit into this many columns, and counts the others.
fn first_of(values: &[String], columns: usize) -> String {
    let mut text = String::new();
    for (at, value) in values.iter().enumerate() {
        let value = clean(value);
        let more = match values.len() - at - 1 {
            0 => String::new(),
            more => format!("  +{more}"),
        };
        let next = if at == 0 { value.into_owned() } else { format!("{text}  {value}") };
        if next.width() + more.width() <= columns {
            text = next;
            continue;
        }
        let left = format!("  +{}", values.len() - at);
        return if at == 0 { fit(&next, columns).into_owned() } else { format!("{text}{left}") };
    }
    text
}

/// Returns more about the row under the cursor, in this many columns: a failed pull's reason, or names and pods.
fn about(cx: &Context<'_>, row: &ImageRow, columns: usize) -> Vec<Line<'static>> {
    let theme = cx.theme;
    if let Some(PullRow::Failed(error)) = &row.pull {
        return vec![Line::styled(clean(error).into_owned(), theme.status.failed)];
    }
    let mut lines = Vec::new();
    if let Some(PullRow::Running(progress)) = &row.pull {
        lines.push(Line::from(vec![
            Span::styled("pull  ", theme.yaml.key),
            Span::styled(progress.to_string(), theme.health(Health::Pending)),
        ]));
    }
    let mut field = |key: &str, values: &[String]| {
        if !values.is_empty() {
            lines.push(Line::from(vec![
                Span::styled(format!("{key:<6}"), theme.yaml.key),
                Span::styled(first_of(values, columns.saturating_sub(6)), theme.body.text),
            ]));
        }
    };
    field("pods", &row.pods);
    field("names", &row.names);
    if !row.id.is_empty() {
        field("id", std::slice::from_ref(&row.id));
    }
    lines
}
