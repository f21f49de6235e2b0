//! Draws logs: only the visible lines, the explanation while there are none, and the borders.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Wrap};
use unicode_width::UnicodeWidthStr;

use super::{Level, LogLine, Logs, Position, Subject};
use base::sort::SliceOrder;
use console_data::context::Context;
use console_data::related::events_about;
use console_data::resource::ObjectRef;
use console_data::rows::event::{is_warning, last_seen};
use console_operations::effect::{ContainerFilter, LogRun, LogStart};
use console_toolkit::log_line::LineOrigin;
use console_toolkit::text::{clean, fit, fit_parts, grouped};
use console_toolkit::theme::Theme;
use console_toolkit::widget::wrap::{mark_cut, wrapped};

/// Maximum number of events shown if there are no lines.
const EVENTS: usize = 8;

pub(super) fn draw(logs: &Logs, cx: &Context<'_>, frame: &mut Frame<'_>, area: Rect) {
    let inner = if logs.full {
        area
    } else {
        let width = usize::from(area.width).saturating_sub(6);
        let state = logs.state(cx);
        let block = cx.theme.block_focused(fit(&logs.heading(), width).into_owned()).title_bottom(
            Line::styled(format!(" {} ", fit_parts(state.split(" · "), " · ", width)), cx.theme.body.dim)
                .right_aligned(),
        );
        let inner = block.inner(area);
        frame.render_widget(block, area);
        inner
    };
    let height = usize::from(inner.height);
    logs.height.set(height.max(1));
    logs.width.set(usize::from(inner.width).max(1));
    if logs.buffer.visible_count() == 0 || !logs.buffer.has_output() {
        let mut lines = logs.lines(cx, usize::from(inner.width), height);
        lines.extend(empty_text(logs, cx));
        return frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: false }), inner);
    }
    frame.render_widget(Paragraph::new(logs.lines(cx, usize::from(inner.width), height)), inner);
}

/// Returns the explanation for an empty log: the reason, and related events.
fn empty_text(logs: &Logs, cx: &Context<'_>) -> Vec<Line<'static>> {
    let theme = cx.theme;
    let (text, style) = match (&logs.error, logs.buffer.filtering()) {
        (Some(error), _) => (clean(error).into_owned(), theme.status.failed),
        (None, true) => return vec![Line::styled("no line matches", theme.body.dim)],
        (None, false) if logs.is_deleted(cx) => {
            (format!("{} not found", logs.target.describe()), theme.status.failed)
        }
        (None, false) if logs.run == LogRun::Previous => return Vec::new(),
        (None, false) => ("waiting for the first line …".to_owned(), theme.body.dim),
    };
    let mut lines = vec![Line::styled(text, style)];
    let events = events_about(cx, &logs.target);
    if !events.is_empty() {
        lines.push(Line::default());
        lines.push(Line::styled("Meanwhile, its events:", theme.body.dim));
    }
    for event in events.into_iter().take(EVENTS) {
        let (glyph, style) =
            if is_warning(event) { ("⚠", theme.status.pending) } else { (" ", theme.body.text) };
        let age = last_seen(event).map(|at| cx.age(at)).unwrap_or_default();
        let reason = clean(event.reason.as_deref().unwrap_or_default()).into_owned();
        let message = clean(event.message.as_deref().unwrap_or_default().trim_end()).into_owned();
        lines.push(Line::from(vec![
            Span::styled(format!("{age:>6} {glyph} "), theme.body.dim),
            Span::styled(format!("{reason}  "), style),
            Span::styled(message, theme.body.text),
        ]));
    }
    lines
}

/// Returns the colour of a container's name: stable for each name, and usually different for different names.
fn source_style(theme: &Theme, source: &str) -> Style {
    let yaml = &theme.yaml;
    Theme::pick(source, [theme.log.source, yaml.key, yaml.text, yaml.number, yaml.literal])
}

impl Logs {
    /// Returns the prefix of a line that names its container.
    fn prefix(&self, line: &LogLine) -> String {
        if self.one_source() || line.source.is_empty() {
            return String::new();
        }
        match (&self.subject, line.source.split_once('/')) {
            (Subject::Pod, Some((_, container))) => format!("{container} "),
            (Subject::Workload(_) | Subject::Selected(_), Some((pod, container))) => {
                // All pods of a workload have the same prefix; the suffix distinguishes them.
                let short = pod.strip_prefix(&self.target.name).unwrap_or(pod).trim_start_matches('-');
                format!("{short}/{container} ")
            }
            (Subject::Project, Some(_)) | (_, None) => format!("{} ", line.source),
        }
    }

    /// Returns the time of a line as drawn, if times are shown.
    fn time<'a>(&self, line: &'a LogLine) -> Option<&'a str> {
        let is_shown = self.timestamps && line.kind == LineOrigin::Output && !line.at.is_empty();
        is_shown.then(|| line.at.get(11..23).unwrap_or(&line.at).trim_end_matches('Z'))
    }

    /// Returns the whole text of a line as drawn.
    pub(super) fn shown_text(&self, line: &LogLine) -> String {
        let time = self.time(line).map(|time| format!("{time} ")).unwrap_or_default();
        match line.kind {
            LineOrigin::Mark => format!("── {}", line.text),
            LineOrigin::Note => format!("{}▪ {}", self.prefix(line), line.text),
            LineOrigin::Output => format!("{time}{}{}", self.prefix(line), line.text),
        }
    }

    /// Returns one line as drawn, from the left edge of the view on.
    fn draw_line(&self, cx: &Context<'_>, number: u64, line: &LogLine, width: usize) -> Line<'static> {
        let theme = cx.theme;
        match line.kind {
            LineOrigin::Mark => {
                let text = self.shown_text(line) + " ";
                let fill = "─".repeat(width.saturating_sub(text.width()));
                return Line::styled(text + &fill, theme.body.accent);
            }
            LineOrigin::Note => {
                let text = self.shown_text(line);
                let from = if self.wrap { 0 } else { byte_at_column(&text, self.left) };
                return Line::styled(text[from..].to_owned(), theme.body.dim);
            }
            LineOrigin::Output => {}
        }
        let mut spans = Vec::new();
        if let Some(time) = self.time(line) {
            spans.push(Span::styled(format!("{time} "), theme.log.timestamp));
        }
        let prefix = self.prefix(line);
        if !prefix.is_empty() {
            spans.push(Span::styled(prefix, source_style(theme, &line.source)));
        }
        let base = match line.level {
            Level::Plain => theme.log.text,
            Level::Warning => theme.log.warning,
            Level::Error => theme.log.error,
        };
        let found = self.buffer.query().map(|query| query.ranges(&line.text)).unwrap_or_default();
        let used: usize = spans.iter().map(Span::width).sum();
        let from = if self.wrap { 0 } else { first_byte(&line.text, width.saturating_sub(used), self.left) };
        if self.left == 0 && from > 0 {
            spans.push(Span::styled("…", theme.body.dim));
        }
        let mut edges: Vec<usize> = vec![from, line.text.len()];
        for range in found.iter().chain(line.styles.iter().map(|(range, _)| range)) {
            edges.extend([range.start, range.end]);
        }
        edges.retain(|edge| *edge >= from);
        edges.order();
        edges.dedup();
        for pair in edges.windows(2) {
            let piece = pair[0]..pair[1];
            let inside =
                |range: &std::ops::Range<usize>| range.start <= piece.start && piece.end <= range.end;
            let mut style = base;
            for (range, own) in &line.styles {
                if inside(range) {
                    style = style.patch(*own);
                }
            }
            if found.iter().any(inside) {
                style = style.patch(theme.log.found);
                if self.current == Some(number) {
                    style = style.add_modifier(Modifier::BOLD | Modifier::UNDERLINED);
                }
            }
            spans.push(Span::styled(line.text[piece].to_owned(), style));
        }
        Line::from(spans)
    }

    /// Returns the subject and the options, for the upper border.
    fn heading(&self) -> String {
        let ObjectRef { namespace, name, .. } = &self.target;
        let namespace = namespace.as_ref().map(|namespace| format!("{namespace}/")).unwrap_or_default();
        let mut parts = vec![format!("logs · {namespace}{name}")];
        match &self.subject {
            Subject::Workload(_) | Subject::Selected(_) => parts.push("all pods".to_owned()),
            Subject::Project => parts.push("builds and all pods".to_owned()),
            Subject::Pod => {}
        }
        match (&self.which, &self.subject) {
            (Some(ContainerFilter::One(container)), _) => parts.push(container.clone()),
            (_, Subject::Pod) => parts.push("all containers".to_owned()),
            (_, _) => {}
        }
        if self.run == LogRun::Previous {
            parts.push("the previous run".to_owned());
        }
        parts.push(match self.start {
            LogStart::Tail(count) => format!("last {}", grouped(count.unsigned_abs())),
            LogStart::Head => "from the start".to_owned(),
            LogStart::Since(seconds) if seconds % 3600 == 0 => format!("since {}h", seconds / 3600),
            LogStart::Since(seconds) if seconds % 60 == 0 => format!("since {}m", seconds / 60),
            LogStart::Since(seconds) => format!("since {seconds}s"),
        });
        parts.join(" · ")
    }

    /// Returns the state of the view, for the lower border.
    fn state(&self, cx: &Context<'_>) -> String {
        let mut parts = Vec::new();
        if let Some(query) = self.buffer.query() {
            let found = self.buffer.match_count();
            let at = self.current.and_then(|number| self.buffer.match_index(number));
            let count = match at {
                Some(at) => format!("{at}/{found}"),
                None => format!("{found} found"),
            };
            parts.push(format!("/{} {count}", clean(query.text())));
            if self.buffer.filtering() {
                parts.push("only matches".to_owned());
            }
        }
        let shown = self.buffer.visible_count();
        parts.push(format!("{} {}", grouped(shown as u64), if shown == 1 { "line" } else { "lines" }));
        if self.wrap {
            parts.push("wrap".to_owned());
        } else if self.left > 0 {
            parts.push(format!("→{}", self.left));
        }
        parts.push(match self.position {
            // The log of an ended run does not grow.
            Position::End if self.run == LogRun::Previous => "■ the end".to_owned(),
            Position::End if cx.links.silent_since().is_some() => "✖ no connection".to_owned(),
            Position::End => "● following".to_owned(),
            Position::At(..) => {
                let (last, row) = self.down(self.top(), self.height.get());
                let below = self.buffer.visible_count().saturating_sub(last + usize::from(row > 0));
                let waits = if *self.gate.borrow() { "" } else { ", reading waits" };
                format!("‖ held, {} below{waits}", grouped(below as u64))
            }
        });
        parts.join(" · ")
    }

    /// Returns the rows to draw, exactly filling the height unless there are fewer.
    fn lines(&self, cx: &Context<'_>, width: usize, height: usize) -> Vec<Line<'static>> {
        let (top, mut hidden) = self.top();
        let mut rows = Vec::with_capacity(height);
        if (top, hidden) == (0, 0) && self.buffer.dropped() > 0 {
            rows.push(Line::styled(
                format!("… {} lines dropped here", grouped(self.buffer.dropped())),
                cx.theme.status.pending,
            ));
        }
        for place in top..top + height {
            if rows.len() >= height {
                break;
            }
            let Some((number, line)) = self.buffer.visible_line(place) else { break };
            let rendered = self.draw_line(cx, number, line, width);
            if self.wrap {
                rows.extend(wrapped(rendered, width).into_iter().skip(std::mem::take(&mut hidden)));
            } else {
                rows.push(mark_cut(rendered, width, cx.theme));
            }
        }
        rows
    }
}

/// Returns the byte offset from which a line of JSON that is wider than the view is drawn: its message, or further left
/// if the rest of the line is shorter than the view. Other lines start at 0.
fn message_start(text: &str, width: usize) -> usize {
    const MESSAGES: [&str; 4] = ["\"msg\":", "\"message\":", "\"log\":", "\"event\":"];
    let columns = text.width();
    if !text.starts_with('{') || columns <= width {
        return 0;
    }
    let Some(message) = MESSAGES.iter().find_map(|key| text.find(key)) else { return 0 };
    // One column is for the mark at the left edge.
    let last_full = columns - width.saturating_sub(1);
    byte_at_column(text, text[..message].width().min(last_full))
}

/// Returns the byte offset of the first visible character of a line that is not wrapped and has this many columns.
pub(super) fn first_byte(text: &str, columns: usize, left: usize) -> usize {
    if left == 0 { message_start(text, columns) } else { byte_at_column(text, left) }
}

fn byte_at_column(text: &str, column: usize) -> usize {
    let mut seen = 0;
    for (index, character) in text.char_indices() {
        if seen >= column {
            return index;
        }
        seen += unicode_width::UnicodeWidthChar::width(character).unwrap_or(0);
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wide_line_of_json_starts_at_its_message_con_10() {
        for (text, width, start) in [
            (r#"{"ts":1,"msg":"hello there"}"#, 40, 0),
            (r#"{"ts":1,"msg":"hello there, and much more"}"#, 20, r#"{"ts":1,"#.len()),
            (r#"{"ts":1,"level":"info","message":"hello"}"#, 24, 41 - 23),
            (r#"{"message":"hello there, and much more"}"#, 20, 1),
            (r#"{"a":"no message in this line of JSON"}"#, 20, 0),
            (r#"not json: "msg": hello there, and much more"#, 20, 0),
        ] {
            assert_eq!(message_start(text, width), start, "{text}");
        }
    }
}
