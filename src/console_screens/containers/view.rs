//! Draws the containers, and below them the details of the one under the cursor.

use k8s_openapi::api::core::v1::Pod;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;
use unicode_width::UnicodeWidthStr;

use super::Containers;
use console_data::container_state::{ContainerFacts, command_line};
use console_data::context::Context;
use console_data::pod_status;
use console_data::rows::usage::format_bytes;
use console_data::thresholds::{Load, Resource, ThresholdLevel, percent};
use console_toolkit::text::{clean, fit, pad, wrapped};
use console_toolkit::widget::gauge::{bar, bar_text};
use console_toolkit::widget::notice;
use object::pod::PullProgress;

/// Width of the state column.
const STATE: usize = 22;
/// Minimum width of the image column if usage in percent is shown beside it.
const IMAGE: usize = 24;
/// Width of the bar of a pull among the details.
const PULL_BAR: usize = 24;
/// Width of the names of details.
const KEY: usize = 11;
/// Maximum number of lines of a message among the details; the description has all of it.
const MESSAGE: usize = 6;
/// Width of the columns for restarts and amounts.
const NUMBER: usize = 8;

pub(super) fn draw(
    screen: &Containers,
    pod: Option<&Pod>,
    all: &[ContainerFacts],
    cx: &Context<'_>,
    frame: &mut Frame<'_>,
    area: Rect,
) {
    let theme = cx.theme;
    let (target, cursor) = (&screen.pod, screen.at(all));
    let Some(pod) = pod else {
        let block = theme.block_focused(format!("Containers of {}", clean(&target.name)));
        let (text, style) = if cx.stores.pods().synced() {
            (format!("✖ {} is gone", target.describe()), theme.status.failed)
        } else {
            ("loading…".to_owned(), theme.body.dim)
        };
        let inner = block.inner(area);
        frame.render_widget(block, area);
        return notice::draw(&text, style, frame, inner);
    };
    let rows = u16::try_from(all.len()).unwrap_or(u16::MAX).saturating_add(3);
    let [list, detail] =
        Layout::vertical([Constraint::Length(rows.min(area.height * 3 / 5)), Constraint::Min(3)]).areas(area);
    let status = pod_status::of(pod);
    let title = format!(" Containers of {} ", clean(&target.describe()));
    let state = format!(" {} {} ", theme.state_sign(status.health), clean(&status.with_progress()));
    let block = theme
        .block_focused("")
        .title_top(Line::styled(
            fit(&title, usize::from(area.width).saturating_sub(state.width() + 6)).into_owned(),
            theme.frame.title,
        ))
        .title_top(Line::styled(state, theme.health(status.health)).right_aligned());
    let inner = block.inner(list);
    frame.render_widget(block, list);
    let columns = Columns::of(all, usize::from(inner.width), cx.stores.measures());
    let mut lines = vec![columns.header(cx)];
    let height = usize::from(inner.height).saturating_sub(1).max(1);
    let shown = screen.window.around(cursor, height, all.len());
    lines.extend(shown.map(|at| columns.row(cx, &all[at], at == cursor)));
    frame.render_widget(Paragraph::new(lines), inner);
    let Some(one) = all.get(cursor) else { return };
    let block = theme.block(fit(&clean(&one.name), usize::from(area.width).saturating_sub(6)).into_owned());
    let inner = block.inner(detail);
    frame.render_widget(block, detail);
    frame.render_widget(Paragraph::new(about(cx, one, usize::from(inner.width))), inner);
}

/// The layout of the columns; the least important ones are dropped on narrow screens.
struct Columns {
    name: usize,
    measured: bool,
    /// True if usage in percent fits.
    shares: bool,
    image: usize,
}

/// A container's usage, request and limit of one resource.
struct ResourceRow {
    resource: Resource,
    used: Option<i64>,
    request: Option<i64>,
    limit: Option<i64>,
    format_amount: fn(i64) -> String,
}

impl ResourceRow {
    fn cpu(one: &ContainerFacts) -> Self {
        let used = one.used.map(|used| used.cpu_millis);
        let format_amount = |millis| format!("{millis}m");
        Self { resource: Resource::Cpu, used, request: one.requests.0, limit: one.limits.0, format_amount }
    }

    fn memory(one: &ContainerFacts) -> Self {
        let used = one.used.map(|used| used.memory_bytes);
        let (request, limit) = (one.requests.1, one.limits.1);
        Self { resource: Resource::Memory, used, request, limit, format_amount: format_bytes }
    }

    fn load(&self) -> Load {
        let far = Load::Fixed(ThresholdLevel::Far);
        self.used.map_or(far, |used| Load::of(self.resource, used, self.limit, self.request))
    }

    fn share(&self, of: Option<i64>) -> Option<i32> {
        percent(self.used?, of)
    }

    /// Returns `uses 12m, asks for 10m (120%), limit 20m (60%)`.
    fn sentence(&self) -> String {
        let amount = |amount: Option<i64>| {
            let share = self.share(amount).map(|percent| format!(" ({percent}%)")).unwrap_or_default();
            amount.map_or_else(
                || "none".to_owned(),
                |amount| format!("{}{share}", (self.format_amount)(amount)),
            )
        };
        let used = self.used.map(|used| format!("uses {}, ", (self.format_amount)(used))).unwrap_or_default();
        format!("{used}requests {}, limit {}", amount(self.request), amount(self.limit))
    }
}

impl Columns {
    fn of(all: &[ContainerFacts], width: usize, measured: bool) -> Self {
        let longest = all.iter().map(|one| one.name.width() + one.role.width() + 4).max().unwrap_or(0);
        let name = longest.clamp(12, (width / 3).max(12));
        let fixed = 4 + name + STATE + 2 + NUMBER + if measured { 2 * NUMBER } else { 0 } + 2;
        // The image matters more than percentages if both do not fit.
        let shares = measured && width >= fixed + 4 * NUMBER + IMAGE;
        let fixed = fixed + if shares { 4 * NUMBER } else { 0 };
        Self { name, measured, shares, image: width.saturating_sub(fixed) }
    }

    fn header<'a>(&self, cx: &Context<'_>) -> Line<'a> {
        let names: &[&str] = match (self.measured, self.shares) {
            (false, _) => &[],
            (true, false) => &["CPU", "MEM"],
            (true, true) => &["CPU", "%CPU/R", "%CPU/L", "MEM", "%MEM/R", "%MEM/L"],
        };
        let used: Vec<String> = names.iter().map(|name| format!("{name:>NUMBER$}")).collect();
        let used = used.concat();
        let image = if self.image >= 8 { "  IMAGE" } else { "" };
        let text = format!(
            "    {}{}{:>NUMBER$}{used}{image}",
            pad("NAME", self.name),
            pad("STATE", STATE + 2),
            "RESTARTS"
        );
        Line::styled(text, cx.theme.table.header)
    }

    fn row<'a>(&self, cx: &Context<'_>, one: &ContainerFacts, selected: bool) -> Line<'a> {
        let theme = cx.theme;
        let name = match one.role {
            "" => clean(&one.name).into_owned(),
            role => format!("{} ({role})", clean(&one.name)),
        };
        let restarts = if one.restarts > 0 { theme.status.crashing } else { theme.body.dim };
        let mut spans = vec![
            Span::raw(if selected { "▸ " } else { "  " }),
            Span::styled(format!("{} ", theme.state_sign(one.health)), theme.health(one.health)),
            Span::raw(pad(&fit(&name, self.name.saturating_sub(1)), self.name)),
        ];
        let state = fit(&clean(&one.state), STATE).into_owned();
        match one.pull.and_then(PullProgress::share) {
            Some(share) => {
                let bar_columns = STATE.saturating_sub(state.width() + 1);
                spans.push(Span::styled(format!("{state} "), theme.health(one.health)));
                spans.extend(bar(share, bar_columns, theme.health(one.health), theme.chart.empty));
                spans.push(Span::raw("  "));
            }
            None => spans.push(Span::styled(pad(&state, STATE + 2), theme.health(one.health))),
        }
        spans.push(Span::styled(format!("{:>NUMBER$}", one.restarts), restarts));
        if self.measured {
            for of in [ResourceRow::cpu(one), ResourceRow::memory(one)] {
                let mut cell = |text: String, load: Load| {
                    let nearness = cx.thresholds.level(load);
                    let text = nearness.marked(&text, theme.spoken);
                    let style = theme.restless(style_of(cx, nearness));
                    spans.push(Span::styled(format!("{text:>NUMBER$}"), style));
                };
                cell(of.used.map_or_else(|| "–".to_owned(), of.format_amount), of.load());
                for most in [of.request, of.limit].into_iter().filter(|_| self.shares) {
                    let far = Load::Fixed(ThresholdLevel::Far);
                    match (of.used, of.share(most)) {
                        (None, _) => cell("–".to_owned(), far),
                        (Some(_), None) => cell("n/a".to_owned(), far),
                        (Some(_), Some(percent)) => {
                            let (resource, most) = (of.resource, ThresholdLevel::At);
                            cell(percent.to_string(), Load::Share { resource, percent, max_level: most });
                        }
                    }
                }
            }
        }
        if self.image >= 8 {
            spans.push(Span::styled(format!("  {}", fit(&clean(&one.image), self.image)), theme.body.dim));
        }
        let line = Line::from(spans);
        if selected { line.style(theme.table.cursor) } else { line }
    }
}

fn style_of(cx: &Context<'_>, nearness: ThresholdLevel) -> Style {
    match nearness {
        ThresholdLevel::Far => Style::default(),
        ThresholdLevel::Near => cx.theme.status.pending,
        ThresholdLevel::At => cx.theme.status.failed,
    }
}

/// Returns the details of a container in this many columns, problems first. Only the message may have several lines; in
/// the other fields a line end is a character as any other.
fn about(cx: &Context<'_>, one: &ContainerFacts, columns: usize) -> Vec<Line<'static>> {
    let theme = cx.theme;
    let mut lines: Vec<Line<'static>> = Vec::new();
    let value_columns = columns.saturating_sub(KEY).max(8);
    let mut rows = |key: &str, rows: Vec<String>, style: Style| {
        for (at, row) in rows.into_iter().enumerate() {
            let key = if at == 0 { key } else { "" };
            lines.push(Line::from(vec![
                Span::styled(format!("{key:<KEY$}"), theme.yaml.key),
                Span::styled(row, style),
            ]));
        }
    };
    if let Some(message) = &one.message {
        let mut text: Vec<String> =
            message.lines().flat_map(|line| wrapped(&clean(line), value_columns)).collect();
        if text.len() > MESSAGE {
            text.truncate(MESSAGE - 1);
            text.push("…".to_owned());
        }
        rows("message", text, theme.health(one.health));
    }
    let mut field =
        |key: &str, value: &str, style: Style| rows(key, wrapped(&clean(value), value_columns), style);
    if let Some(share) = one.pull.and_then(PullProgress::share) {
        field("pulling", &bar_text(share, PULL_BAR), theme.health(one.health));
    }
    if let Some((exit, at)) = &one.last_exit {
        let when = at.map(|at| format!(", {} ago", cx.age(at))).unwrap_or_default();
        field("last exit", &format!("{exit}{when}"), theme.status.crashing);
    }
    if let Some(at) = one.retry_at {
        let text =
            if at > cx.now { format!("in {}", cx.format_remaining(at)) } else { "any moment".to_owned() };
        field("again", &text, theme.status.pending);
    }
    if let Some(since) = one.since {
        field("running", &format!("for {}", cx.age(since)), theme.body.text);
    }
    field("image", &one.image, theme.body.text);
    if !one.ports.is_empty() {
        field("ports", &one.ports.join(", "), theme.body.text);
    }
    for (name, probe) in &one.probes {
        field(name, probe, theme.body.text);
    }
    for (name, of) in [("cpu", ResourceRow::cpu(one)), ("memory", ResourceRow::memory(one))] {
        let style = theme.restless(style_of(cx, cx.thresholds.level(of.load())));
        field(name, &of.sentence(), style);
    }
    // A script may be longer than the pane: the other fields come first.
    if !one.command.is_empty() {
        field("command", &command_line(&one.command), theme.body.text);
    }
    lines
}
