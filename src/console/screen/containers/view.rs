//! Draws the containers, and below them all there is to say of the one under the cursor.

use k8s_openapi::api::core::v1::Pod;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Wrap};
use unicode_width::UnicodeWidthStr;

use crate::container_state::ContainerFacts;
use crate::context::Context;
use crate::pod_status;
use crate::resource::ObjectRef;
use crate::rows::usage::{Nearness, bytes_in_words};
use crate::text::{clean, fit, pad};

/// Columns of a state.
const STATE: usize = 22;
/// Columns of a number of restarts, and of an amount.
const NUMBER: usize = 8;

/// Draws the screen.
pub(super) fn draw(
    target: &ObjectRef,
    pod: Option<&Pod>,
    all: &[ContainerFacts],
    cursor: usize,
    cx: &Context<'_>,
    frame: &mut Frame<'_>,
    area: Rect,
) {
    let theme = cx.theme;
    let Some(pod) = pod else {
        let block = theme.block_focused(format!("Containers of {}", clean(&target.name)));
        let (text, style) = if cx.stores.pods().synced() {
            (format!("✖ {} is gone", target.describe()), theme.status.failed)
        } else {
            ("loading …".to_owned(), theme.body.dim)
        };
        return frame.render_widget(Paragraph::new(Line::styled(text, style)).block(block), area);
    };
    let rows = u16::try_from(all.len()).unwrap_or(u16::MAX).saturating_add(3);
    let [list, detail] =
        Layout::vertical([Constraint::Length(rows.min(area.height * 3 / 5)), Constraint::Min(3)]).areas(area);
    let status = pod_status::of(pod);
    let title = format!(" Containers of {} ", clean(&target.describe()));
    let state = format!(" {} {} ", status.health.glyph(), clean(&status.status));
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
    let top = (cursor + 1).saturating_sub(height);
    for (at, one) in all.iter().enumerate().skip(top).take(height) {
        lines.push(columns.row(cx, one, at == cursor));
    }
    frame.render_widget(Paragraph::new(lines), inner);
    let Some(one) = all.get(cursor) else { return };
    let block = theme.block(fit(&clean(&one.name), usize::from(area.width).saturating_sub(6)).into_owned());
    frame.render_widget(Paragraph::new(about(cx, one)).wrap(Wrap { trim: false }).block(block), detail);
}

/// Where the columns are; what matters least goes where there is no room.
struct Columns {
    name: usize,
    measured: bool,
    image: usize,
}

impl Columns {
    fn of(all: &[ContainerFacts], room: usize, measured: bool) -> Self {
        let longest = all.iter().map(|one| one.name.width() + one.role.width() + 4).max().unwrap_or(0);
        let name = longest.clamp(12, (room / 3).max(12));
        let fixed = 4 + name + STATE + 2 + NUMBER + if measured { 2 * NUMBER } else { 0 } + 2;
        Self { name, measured, image: room.saturating_sub(fixed) }
    }

    fn header<'a>(&self, cx: &Context<'_>) -> Line<'a> {
        let used =
            if self.measured { format!("{:>NUMBER$}{:>NUMBER$}", "CPU", "MEM") } else { String::new() };
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
            Span::styled(format!("{} ", one.health.glyph()), theme.health(one.health)),
            Span::raw(pad(&fit(&name, self.name.saturating_sub(1)), self.name)),
            Span::styled(pad(&fit(&clean(&one.state), STATE), STATE + 2), theme.health(one.health)),
            Span::styled(format!("{:>NUMBER$}", one.restarts), restarts),
        ];
        if self.measured {
            let limits = [one.limits.0, one.limits.1];
            let used = one.used.map(|used| [used.cpu_millis, used.memory_bytes]);
            for (at, limit) in limits.into_iter().enumerate() {
                let (text, nearness) = match used {
                    Some(used) if at == 0 => (format!("{}m", used[0]), Nearness::of(used[0], limit)),
                    Some(used) => (bytes_in_words(used[1]), Nearness::of(used[1], limit)),
                    None => ("–".to_owned(), Nearness::Far),
                };
                let text = format!("{}{text}", nearness.mark());
                spans.push(Span::styled(format!("{text:>NUMBER$}"), style_of(cx, nearness)));
            }
        }
        if self.image >= 8 {
            spans.push(Span::styled(format!("  {}", fit(&clean(&one.image), self.image)), theme.body.dim));
        }
        let line = Line::from(spans);
        if selected { line.style(theme.table.cursor) } else { line }
    }
}

fn style_of(cx: &Context<'_>, nearness: Nearness) -> Style {
    match nearness {
        Nearness::Far => Style::default(),
        Nearness::Near => cx.theme.status.pending,
        Nearness::At => cx.theme.status.failed,
    }
}

/// All there is to say of a container, what hurts first.
fn about(cx: &Context<'_>, one: &ContainerFacts) -> Vec<Line<'static>> {
    let theme = cx.theme;
    let mut lines: Vec<Line<'static>> = Vec::new();
    let mut field = |key: &str, value: String, style: Style| {
        for (at, piece) in value.lines().enumerate() {
            let key = if at == 0 { format!("{key:<11}") } else { " ".repeat(11) };
            lines.push(Line::from(vec![
                Span::styled(key, theme.yaml.key),
                Span::styled(clean(piece).into_owned(), style),
            ]));
        }
    };
    if let Some(message) = &one.message {
        field("message", message.clone(), theme.health(one.health));
    }
    if let Some((exit, at)) = &one.last_exit {
        let when = at.map(|at| format!(", {} ago", cx.age(at))).unwrap_or_default();
        field("last exit", format!("{exit}{when}"), theme.status.crashing);
    }
    if let Some(at) = one.retry_at {
        let text = if at > cx.now { format!("in {}", cx.left(at)) } else { "any moment".to_owned() };
        field("again", text, theme.status.pending);
    }
    if let Some(since) = one.since {
        field("running", format!("for {}", cx.age(since)), theme.body.text);
    }
    field("image", one.image.clone(), theme.body.text);
    if !one.command.is_empty() {
        field("command", one.command.join(" ").replace('\n', " "), theme.body.text);
    }
    if !one.ports.is_empty() {
        field("ports", one.ports.join(", "), theme.body.text);
    }
    for (name, probe) in &one.probes {
        field(name, probe.clone(), theme.body.text);
    }
    let cpu = |amount: Option<i64>| amount.map_or_else(|| "none".to_owned(), |millis| format!("{millis}m"));
    let memory = |amount: Option<i64>| amount.map_or_else(|| "none".to_owned(), bytes_in_words);
    let used = |of: fn(crate::store::Used) -> String| {
        one.used.map(of).map(|used| format!("uses {used}, ")).unwrap_or_default()
    };
    let nearness = one.used.map(|used| {
        (Nearness::of(used.cpu_millis, one.limits.0), Nearness::of(used.memory_bytes, one.limits.1))
    });
    let (cpu_near, memory_near) = nearness.unwrap_or((Nearness::Far, Nearness::Far));
    field(
        "cpu",
        format!(
            "{}asks for {}, limit {}",
            used(|used| format!("{}m", used.cpu_millis)),
            cpu(one.requests.0),
            cpu(one.limits.0)
        ),
        style_of(cx, cpu_near),
    );
    field(
        "memory",
        format!(
            "{}asks for {}, limit {}",
            used(|used| bytes_in_words(used.memory_bytes)),
            memory(one.requests.1),
            memory(one.limits.1)
        ),
        style_of(cx, memory_near),
    );
    lines
}
