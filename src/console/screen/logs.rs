//! The logs screen: one container, all of a pod, or all pods of a workload (CON-10).
//!
//! Draws only the lines that are seen. The place of the view is a line's number, so that nothing jumps
//! while lines come in above or below; at the end it follows.

use std::cell::Cell;

use crossterm::event::MouseEventKind;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Wrap};
use unicode_width::UnicodeWidthStr;

use super::View;
use crate::console::command::{Command, Where};
use crate::console::context::Context;
use crate::console::effect::{Effect, Outbox};
use crate::console::logs::line::Sort;
use crate::console::logs::source::{follow, next_batch};
use crate::console::logs::{Buffer, Follow, Level, LogLine, Pods, Query, Start, Which};
use crate::console::message::{Data, ScreenMessage};
use crate::console::pane::session::default_container;
use crate::console::resource::ObjectRef;
use crate::console::text::{clean, fit, grouped};

/// Lines shown of a log when nothing else is asked for.
const TAIL: i64 = 1_000;
/// The same for each container when several are read at once.
const TAIL_OF_MANY: i64 = 200;

/// What its tasks send it.
#[derive(Debug)]
pub enum Loaded {
    /// Lines, as they came.
    Lines(Vec<LogLine>),
    /// The labels of the pods to read, found on the server.
    Selector(Result<String, String>),
}

/// Which run of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Run {
    /// The one now.
    Current,
    /// The one before the last restart.
    Previous,
}

/// Whose logs.
#[derive(Clone, Debug)]
enum Subject {
    /// One pod.
    Pod,
    /// The pods with these labels, once known.
    Workload(Option<String>),
}

/// Where the view is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Position {
    /// At the end, following.
    End,
    /// The line of this number is the first one seen.
    At(u64),
}

/// The screen.
#[derive(Debug)]
pub struct Logs {
    target: ObjectRef,
    subject: Subject,
    run: Run,
    which: Option<Which>,
    start: Start,
    buffer: Buffer,
    query: String,
    position: Position,
    /// The match `n` stands on.
    current: Option<u64>,
    wrap: bool,
    timestamps: bool,
    full: bool,
    left: usize,
    marks: u32,
    error: Option<String>,
    /// Lines the view had when it was drawn last.
    height: Cell<usize>,
}

impl Logs {
    /// Of a pod, or of all pods of a workload.
    pub fn new(target: ObjectRef, run: Run) -> Self {
        let is_pod = target.kind.kind == "Pod";
        Self {
            target,
            subject: if is_pod { Subject::Pod } else { Subject::Workload(None) },
            run,
            which: None,
            start: Start::Tail(if is_pod { TAIL } else { TAIL_OF_MANY }),
            buffer: Buffer::default(),
            query: String::new(),
            position: Position::End,
            current: None,
            wrap: false,
            timestamps: false,
            full: false,
            left: 0,
            marks: 0,
            error: None,
            height: Cell::new(20),
        }
    }

    fn pod<'a>(&self, cx: &'a Context<'_>) -> Option<&'a Pod> {
        let namespace = self.target.namespace.as_deref().unwrap_or_default();
        cx.stores.pods.by_name(namespace, &self.target.name).map(|pod| &**pod)
    }

    /// Starts reading anew, with an empty buffer.
    fn restart(&mut self, cx: &Context<'_>) -> Vec<Effect> {
        self.buffer.clear();
        self.position = Position::End;
        self.current = None;
        self.error = None;
        if self.which.is_none() {
            self.which = match (&self.subject, self.pod(cx).and_then(default_container)) {
                (Subject::Pod, Some(container)) => Some(Which::One(container)),
                _ => Some(Which::All),
            };
        }
        let namespace = self.target.namespace.clone().unwrap_or_else(|| "default".to_owned());
        let pods = match &self.subject {
            Subject::Pod => Pods::Named(self.target.name.clone()),
            Subject::Workload(Some(labels)) => Pods::Selected(labels.clone()),
            Subject::Workload(None) => {
                let target = self.target.clone();
                return vec![Effect::task("logs", move |out| find_selector(out, target))];
            }
        };
        let follow = Follow {
            namespace,
            pods,
            which: self.which.clone().unwrap_or(Which::All),
            start: self.start,
            previous: self.run == Run::Previous,
        };
        vec![Effect::task("logs", move |out| read(out, follow))]
    }

    fn since(&mut self, cx: &Context<'_>, start: Start) -> Vec<Effect> {
        self.start = start;
        let effects = self.restart(cx);
        if start == Start::Head {
            self.position = Position::At(0);
        }
        effects
    }

    fn toggle_all(&mut self, cx: &Context<'_>) -> Vec<Effect> {
        self.which = match self.which {
            Some(Which::All) => self.pod(cx).and_then(default_container).map(Which::One),
            _ => Some(Which::All),
        };
        self.restart(cx)
    }

    fn next_container(&mut self, cx: &Context<'_>) -> Vec<Effect> {
        let names = self.pod(cx).map(container_names).unwrap_or_default();
        if names.len() < 2 {
            return vec![Effect::Toast(crate::console::toast::Toast::note("there is only one container"))];
        }
        let at = match &self.which {
            Some(Which::One(name)) => names.iter().position(|other| other == name).map_or(0, |at| at + 1),
            _ => 0,
        };
        self.which = Some(Which::One(names[at % names.len()].clone()));
        self.restart(cx)
    }

    /// The place of the first line seen.
    fn top(&self) -> usize {
        let last_top = self.buffer.shown().saturating_sub(self.height.get());
        match self.position {
            Position::End => last_top,
            Position::At(number) => self.buffer.place_of(number),
        }
    }

    /// Moves the view; at the end it follows again.
    fn scroll_to(&mut self, place: usize) {
        let last_top = self.buffer.shown().saturating_sub(self.height.get());
        self.position = match self.buffer.shown_at(place) {
            Some((number, _)) if place < last_top => Position::At(number),
            _ => Position::End,
        };
    }

    fn scroll(&mut self, lines: isize) {
        self.scroll_to(self.top().saturating_add_signed(lines));
    }

    /// Shows the next or previous match, a third from the top.
    fn jump(&mut self, forward: bool) -> Vec<Effect> {
        let from = self.current.or_else(|| {
            let place = if forward { self.top() } else { self.top() + self.height.get() };
            self.buffer.shown_at(place).map(|(number, _)| number)
        });
        let found = match (forward, from) {
            (true, Some(from)) if self.current.is_none() => self.buffer.next_found(from.saturating_sub(1)),
            (true, from) => self.buffer.next_found(from.unwrap_or(u64::MAX)),
            (false, from) => self.buffer.previous_found(from.unwrap_or(u64::MAX)),
        };
        let Some(number) = found else {
            return vec![Effect::Toast(crate::console::toast::Toast::note("no match"))];
        };
        self.current = Some(number);
        let place = self.buffer.place_of(number).saturating_sub(self.height.get() / 3);
        if let Some((top, _)) = self.buffer.shown_at(place) {
            self.position = Position::At(top);
        }
        Vec::new()
    }

    fn command(&mut self, cx: &Context<'_>, command: Command) -> Vec<Effect> {
        let page = self.height.get().saturating_sub(1).max(1) as isize;
        match command {
            Command::LogsTail => {
                return self.since(cx, Start::Tail(if self.one_source() { TAIL } else { TAIL_OF_MANY }));
            }
            Command::LogsHead => return self.since(cx, Start::Head),
            Command::Logs1m => return self.since(cx, Start::Since(60)),
            Command::Logs5m => return self.since(cx, Start::Since(300)),
            Command::Logs15m => return self.since(cx, Start::Since(900)),
            Command::Logs30m => return self.since(cx, Start::Since(1800)),
            Command::Logs1h => return self.since(cx, Start::Since(3600)),
            Command::LogsAllContainers => return self.toggle_all(cx),
            Command::LogsContainer => return self.next_container(cx),
            Command::LogsPrevious => {
                self.run = if self.run == Run::Current { Run::Previous } else { Run::Current };
                return self.restart(cx);
            }
            Command::LogsAutoscroll => {
                let top = self.buffer.shown_at(self.top()).map(|(number, _)| number);
                self.position = match (self.position, top) {
                    (Position::End, Some(number)) => Position::At(number),
                    _ => Position::End,
                };
            }
            Command::LogsTimestamps => self.timestamps = !self.timestamps,
            Command::LogsMark => {
                self.marks += 1;
                let time = cx.now.strftime("%H:%M:%S");
                self.buffer.extend(vec![LogLine::mark(format!("mark {} · {time}", self.marks))]);
            }
            Command::LogsClear => {
                self.buffer.clear();
                self.position = Position::End;
            }
            Command::LogsFilter => {
                if self.buffer.query().is_none() {
                    return vec![Effect::Toast(crate::console::toast::Toast::note(
                        "search with / first; then F shows only lines that match",
                    ))];
                }
                let at = self.buffer.shown_at(self.top()).map(|(number, _)| number);
                self.buffer.filter(!self.buffer.filtering());
                if let (Position::At(_), Some(number)) = (self.position, at) {
                    self.scroll_to(self.buffer.place_of(number));
                }
            }
            Command::SearchNext => return self.jump(true),
            Command::SearchPrevious => return self.jump(false),
            Command::Wrap => self.wrap = !self.wrap,
            Command::FullScreen => self.full = !self.full,
            Command::Copy => return vec![Effect::Copy(self.visible_text())],
            Command::Save => {
                let time = cx.now.strftime("%Y%m%dT%H%M%S");
                let name = format!("{}-{time}.log", self.target.name);
                return vec![Effect::Save { name, text: self.buffer.to_text() }];
            }
            Command::Up => self.scroll(-1),
            Command::Down => self.scroll(1),
            Command::PageUp => self.scroll(-page),
            Command::PageDown => self.scroll(page),
            Command::Top => self.scroll_to(0),
            Command::Bottom => self.position = Position::End,
            Command::Left => self.left = self.left.saturating_sub(8),
            Command::Right => self.left += 8,
            Command::Back | Command::Leave => return vec![Effect::Back],
            _ => {}
        }
        Vec::new()
    }

    fn visible_text(&self) -> String {
        let top = self.top();
        (top..top + self.height.get())
            .filter_map(|place| self.buffer.shown_at(place))
            .map(|(_, line)| line.text.clone() + "\n")
            .collect()
    }

    fn one_source(&self) -> bool {
        matches!(self.subject, Subject::Pod) && matches!(self.which, Some(Which::One(_)))
    }

    /// What stands before each line to tell whose it is.
    fn prefix(&self, line: &LogLine) -> String {
        if self.one_source() || line.source.is_empty() {
            return String::new();
        }
        match (&self.subject, line.source.split_once('/')) {
            (Subject::Pod, Some((_, container))) => format!("{container} "),
            (Subject::Workload(_), Some((pod, container))) => {
                // All pods of a workload start alike; the end tells them apart.
                let short = pod.strip_prefix(&self.target.name).unwrap_or(pod).trim_start_matches('-');
                format!("{short}/{container} ")
            }
            (_, None) => format!("{} ", line.source),
        }
    }

    /// One line as it is drawn, from the left edge of the view on.
    fn draw_line(&self, cx: &Context<'_>, number: u64, line: &LogLine, width: usize) -> Line<'static> {
        let theme = cx.theme;
        match line.sort {
            Sort::Mark => {
                let text = format!("── {} ", line.text);
                let fill = "─".repeat(width.saturating_sub(text.width()));
                return Line::styled(text + &fill, theme.body.accent);
            }
            Sort::Note => {
                return Line::styled(format!("{}▪ {}", self.prefix(line), line.text), theme.body.dim);
            }
            Sort::Output => {}
        }
        let mut spans = Vec::new();
        if self.timestamps && !line.at.is_empty() {
            let time = line.at.get(11..23).unwrap_or(&line.at);
            spans.push(Span::styled(format!("{} ", time.trim_end_matches('Z')), theme.log.timestamp));
        }
        let prefix = self.prefix(line);
        if !prefix.is_empty() {
            spans.push(Span::styled(prefix, theme.log.source));
        }
        let base = match line.level {
            Level::Plain => theme.log.text,
            Level::Warning => theme.log.warning,
            Level::Error => theme.log.error,
        };
        let found = self.buffer.query().map(|query| query.ranges(&line.text)).unwrap_or_default();
        let from = if self.wrap { 0 } else { byte_at_column(&line.text, self.left) };
        let mut edges: Vec<usize> = vec![from, line.text.len()];
        for range in found.iter().chain(line.styles.iter().map(|(range, _)| range)) {
            edges.extend([range.start, range.end]);
        }
        edges.retain(|edge| *edge >= from);
        edges.sort_unstable();
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
                    style = style
                        .add_modifier(ratatui::style::Modifier::BOLD | ratatui::style::Modifier::UNDERLINED);
                }
            }
            spans.push(Span::styled(line.text[piece].to_owned(), style));
        }
        Line::from(spans)
    }

    /// What is read and how it is shown, for the upper border.
    fn heading(&self) -> String {
        let mut parts = vec![format!("logs · {}", self.target.name)];
        match (&self.subject, &self.which) {
            (Subject::Workload(_), _) => parts.push("all pods".to_owned()),
            (_, Some(Which::One(container))) => parts.push(container.clone()),
            (_, _) => parts.push("all containers".to_owned()),
        }
        if self.run == Run::Previous {
            parts.push("the run before".to_owned());
        }
        parts.push(match self.start {
            Start::Tail(count) => format!("last {}", grouped(count.unsigned_abs())),
            Start::Head => "from the start".to_owned(),
            Start::Since(seconds) if seconds >= 3600 => format!("since {}h", seconds / 3600),
            Start::Since(seconds) => format!("since {}m", seconds / 60),
        });
        parts.join(" · ")
    }

    /// How it is shown, for the lower border.
    fn state(&self) -> String {
        let mut parts = Vec::new();
        if let Some(query) = self.buffer.query() {
            let found = self.buffer.found();
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
        parts.push(format!("{} lines", grouped(self.buffer.shown() as u64)));
        if self.wrap {
            parts.push("wrap".to_owned());
        } else if self.left > 0 {
            parts.push(format!("→{}", self.left));
        }
        parts.push(match self.position {
            // A run that is over says nothing more.
            Position::End if self.run == Run::Previous => "■ the end".to_owned(),
            Position::End => "● following".to_owned(),
            Position::At(_) => {
                let below = self.buffer.shown().saturating_sub(self.top() + self.height.get());
                format!("‖ held, {} below", grouped(below as u64))
            }
        });
        parts.join(" · ")
    }

    /// The lines to draw, exactly filling the height unless there are fewer.
    fn lines(&self, cx: &Context<'_>, width: usize, height: usize) -> Vec<Line<'static>> {
        let top = self.top();
        let mut lines = Vec::with_capacity(height);
        if top == 0 && self.buffer.dropped() > 0 {
            lines.push(Line::styled(
                format!("… {} lines dropped here", grouped(self.buffer.dropped())),
                cx.theme.status.pending,
            ));
        }
        for place in top..top + height {
            let Some((number, line)) = self.buffer.shown_at(place) else { break };
            lines.push(self.draw_line(cx, number, line, width));
        }
        lines
    }
}

impl View for Logs {
    fn title(&self, _cx: &Context<'_>) -> String {
        format!("{} · logs", self.target.name)
    }

    fn places(&self, _cx: &Context<'_>) -> Vec<Where> {
        vec![Where::Logs, Where::Text, Where::List]
    }

    fn update(&mut self, cx: &Context<'_>, message: ScreenMessage) -> Vec<Effect> {
        match message {
            ScreenMessage::Opened => self.restart(cx),
            ScreenMessage::Command(command) => self.command(cx, command),
            ScreenMessage::Mouse(mouse) => {
                match mouse.kind {
                    MouseEventKind::ScrollUp => self.scroll(-3),
                    MouseEventKind::ScrollDown => self.scroll(3),
                    _ => {}
                }
                Vec::new()
            }
            ScreenMessage::Data(Data::Logs(Loaded::Lines(lines))) => {
                self.buffer.extend(lines);
                Vec::new()
            }
            ScreenMessage::Data(Data::Logs(Loaded::Selector(Ok(labels)))) => {
                self.subject = Subject::Workload(Some(labels));
                self.restart(cx)
            }
            ScreenMessage::Data(Data::Logs(Loaded::Selector(Err(error)))) => {
                self.error = Some(error);
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    fn view(&self, cx: &Context<'_>, frame: &mut Frame<'_>, area: Rect) {
        let inner = if self.full {
            area
        } else {
            let width = usize::from(area.width).saturating_sub(6);
            let state = self.state();
            let block = cx.theme.block_focused(fit(&self.heading(), width).into_owned()).title_bottom(
                Line::styled(format!(" {} ", fit(&state, width)), cx.theme.body.dim).right_aligned(),
            );
            let inner = block.inner(area);
            frame.render_widget(block, area);
            inner
        };
        let height = usize::from(inner.height);
        self.height.set(height.max(1));
        if self.buffer.shown() == 0 {
            let (text, style): (String, Style) = match (&self.error, self.buffer.filtering()) {
                (Some(error), _) => (clean(error).into_owned(), cx.theme.status.failed),
                (None, true) => ("no line matches".to_owned(), cx.theme.body.dim),
                (None, false) => ("waiting for the first line …".to_owned(), cx.theme.body.dim),
            };
            return frame
                .render_widget(Paragraph::new(Line::styled(text, style)).wrap(Wrap { trim: false }), inner);
        }
        let lines = self.lines(cx, usize::from(inner.width), height);
        if !self.wrap {
            return frame.render_widget(Paragraph::new(lines), inner);
        }
        let width = usize::from(inner.width).max(1);
        let mut rows: Vec<Line<'static>> = lines.into_iter().flat_map(|line| wrapped(line, width)).collect();
        // Wrapped lines need more rows than there are; at the end the last one must be seen.
        if self.position == Position::End {
            rows.drain(..rows.len().saturating_sub(height));
        }
        frame.render_widget(Paragraph::new(rows), inner);
    }

    fn full_screen(&self) -> bool {
        self.full
    }

    fn query(&self) -> &str {
        &self.query
    }

    fn set_query(&mut self, _cx: &Context<'_>, query: &str) -> Result<(), String> {
        let compiled = Query::new(query)?;
        let held = self.buffer.shown_at(self.top()).map(|(number, _)| number);
        query.clone_into(&mut self.query);
        self.buffer.search(compiled);
        self.current = None;
        if let (Position::At(_), Some(number)) = (self.position, held) {
            self.position = Position::At(number);
        }
        Ok(())
    }
}

/// A line cut into rows of a width, at any character: a log line is not prose.
fn wrapped(line: Line<'static>, width: usize) -> Vec<Line<'static>> {
    if line.width() <= width {
        return vec![line];
    }
    let style = line.style;
    let mut rows = vec![Line::default().style(style)];
    let mut used = 0;
    for span in line.spans {
        let mut piece = String::new();
        for character in span.content.chars() {
            let columns = unicode_width::UnicodeWidthChar::width(character).unwrap_or(0);
            if used + columns > width {
                if let Some(row) = rows.last_mut() {
                    row.spans.push(Span::styled(std::mem::take(&mut piece), span.style));
                }
                rows.push(Line::default().style(style));
                used = 0;
            }
            piece.push(character);
            used += columns;
        }
        if let Some(row) = rows.last_mut() {
            row.spans.push(Span::styled(piece, span.style));
        }
    }
    rows
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

/// The pod's containers in the order they run, debuggers last.
fn container_names(pod: &Pod) -> Vec<String> {
    let Some(spec) = &pod.spec else { return Vec::new() };
    let plain = spec.init_containers.iter().flatten().chain(&spec.containers);
    let ephemeral = spec.ephemeral_containers.iter().flatten().map(|container| container.name.clone());
    plain.map(|container| container.name.clone()).chain(ephemeral).collect()
}

async fn read(out: Outbox, what: Follow) {
    let (reading, mut batches) = follow(out.client(), what);
    let forward = async {
        while let Some(lines) = next_batch(&mut batches).await {
            out.data(Data::Logs(Loaded::Lines(lines))).await;
        }
    };
    tokio::join!(reading, forward);
}

/// Asks the server which pods a workload has, by its selector.
async fn find_selector(out: Outbox, target: ObjectRef) {
    let answer = out.fetch(&target).await.and_then(|object| {
        selector_of(&object).ok_or_else(|| format!("{} {} has no selector", target.kind.kind, target.name))
    });
    out.data(Data::Logs(Loaded::Selector(answer))).await;
}

/// The selector of a workload or a Service in the query form.
fn selector_of(object: &serde_json::Value) -> Option<String> {
    let selector = object.pointer("/spec/selector")?;
    let parsed = serde_json::from_value(selector.clone()).ok();
    let structured = selector.get("matchLabels").is_some() || selector.get("matchExpressions").is_some();
    if structured {
        let field: LabelSelector = parsed?;
        return kube::core::Selector::try_from(field).ok().map(|selector| selector.to_string());
    }
    let pairs = selector.as_object()?.iter().map(|(key, value)| Some(format!("{key}={}", value.as_str()?)));
    let pairs: Vec<String> = pairs.collect::<Option<_>>()?;
    (!pairs.is_empty()).then(|| pairs.join(","))
}
