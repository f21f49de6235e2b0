//! The describe screen: the current object with its events, updated while the screen is shown.
//!
//! The object comes from its own watch, so that every kind works; events and relatives come from the stores. Never
//! shows a Secret's data.

mod document;
mod follow;
mod past;

use std::cell::Cell;
use std::ops::Range;

use k8s_openapi::api::core::v1::{Pod, Service};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line as TextLine, Span};
use ratatui::widgets::Paragraph;
use serde_json::Value;

use super::View;
use crate::object_commands;
use console_data::context::Context;
use console_data::message::ScreenMessage;
use console_data::point_in_time::{PointInTime, TimeSelector, TimeTravel, WayBack};
use console_data::related::{is_about, is_unscheduled};
use console_data::resource::{ObjectRef, Uid};
use console_data::store::StoredObject;
use console_operations::command_availability;
use console_operations::effect::Effect;
use console_toolkit::command::{Command, KeyContext};
use console_toolkit::search::Search;
use console_toolkit::text::{clean, fit, fit_parts};
use console_toolkit::widget::notice;
use console_toolkit::widget::scroll::Scroll;
use console_toolkit::widget::wrap::{RowIndex, wrapped};
use document::{Line, RelatedObjects, Tone, describe};
use follow::{follow, follow_beside, follow_policies};
use object::TypedKind;

/// Results of the screen's tasks.
#[derive(Debug)]
pub enum DescribeData {
    /// The current object.
    Object(Box<Value>),
    /// Related objects that are in no store: a Node's Lease, a Service's EndpointSlices.
    Beside(Vec<Value>),
    /// The effect of network policies on the object, one line each.
    Policies(Vec<String>),
    /// The object does not exist, or was deleted.
    Deleted,
    /// The object cannot be read; the watch retries.
    Failed(String),
    /// The result of a step of time travel.
    Travelled(Box<past::TimeTravelResult>),
}

/// The screen that describes one object.
#[derive(Debug)]
pub struct Describe {
    target: ObjectRef,
    object: Option<Value>,
    beside: Vec<Value>,
    /// The effect of network policies on the object.
    policies: Vec<String>,
    deleted: bool,
    error: Option<String>,
    /// The past state that is shown instead of the current one.
    past: Option<Box<past::PastDescription>>,
    /// The point in time to show first.
    opens_at: Option<TimeSelector>,
    back_target: WayBack,
    /// Counts lines, or rows if they are wrapped.
    scroll: Scroll,
    wrap: bool,
    /// The width of the last draw.
    width: Cell<usize>,
    full: bool,
    query: String,
    search: Option<Search>,
    current: Option<usize>,
}

impl Describe {
    pub(crate) fn new(target: ObjectRef) -> Self {
        Self {
            target,
            object: None,
            beside: Vec::new(),
            policies: Vec::new(),
            deleted: false,
            error: None,
            past: None,
            opens_at: None,
            back_target: WayBack::Now,
            scroll: Scroll::default(),
            wrap: false,
            width: Cell::new(80),
            full: false,
            query: String::new(),
            search: None,
            current: None,
        }
    }

    /// Creates the screen for an object at a point in the past.
    pub(crate) fn at(target: ObjectRef, when: TimeSelector) -> Self {
        Self { opens_at: Some(when), back_target: WayBack::ViewBelow, ..Self::new(target) }
    }

    pub(crate) fn target(&self) -> &ObjectRef {
        &self.target
    }

    /// Returns the lines of the current or the past state.
    fn lines(&self, cx: &Context<'_>) -> Vec<Line> {
        match &self.past {
            Some(then) => self.lines_of(&then.view.context(cx), then.object.as_ref(), &[], &[]),
            None => self.lines_of(cx, self.object.as_ref(), &self.beside, &self.policies),
        }
    }

    fn lines_of(
        &self,
        cx: &Context<'_>,
        object: Option<&Value>,
        beside: &[Value],
        policies: &[String],
    ) -> Vec<Line> {
        let Some(object) = object else { return Vec::new() };
        let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
        let shown = ObjectRef { uid: Some(Uid::from(uid)), ..self.target.clone() };
        let events = cx.stores.events().entries().filter(|event| is_about(event, &shown));
        let events = events.map(StoredObject::whole).collect();
        let others: Vec<Value> = match self.target.kind.kind.as_str() {
            "Deployment" => {
                let uid = Uid::from(uid);
                let sets = cx.stores.replica_sets().owned_by(&uid);
                sets.map(TypedKind::to_value).collect()
            }
            "Node" => {
                let pods = cx.stores.pods_on(&self.target.name);
                pods.map(TypedKind::to_value).collect()
            }
            _ => Vec::new(),
        };
        describe(object, &RelatedObjects { events, others, beside, policies }, cx.known_time())
    }

    fn jump(&mut self, cx: &Context<'_>, forward: bool) -> Vec<Effect> {
        let Some(search) = &self.search else {
            return vec![Effect::info("search with / first")];
        };
        let lines = self.lines(cx);
        let found: Vec<usize> = (0..lines.len()).filter(|at| search.matches(&lines[*at].text())).collect();
        let rows = self.wrap.then(|| rows_of(&lines, self.width.get()));
        let at = match (forward, self.current) {
            (true, Some(current)) => found.iter().find(|at| **at > current).or(found.first()),
            (false, Some(current)) => found.iter().rev().find(|at| **at < current).or(found.last()),
            (_, None) => {
                let top = self.scroll.last_drawn().start;
                let top = rows.as_ref().map_or(top, |rows| rows.line(top));
                found.iter().find(|at| **at >= top).or(found.first())
            }
        };
        let Some(at) = at.copied() else { return vec![Effect::info("no match")] };
        self.current = Some(at);
        let line = drawn_text(&lines[at]);
        let found = search.ranges(&line).into_iter().next().unwrap_or_default();
        self.scroll.show_part(at, &line, found, rows.as_ref());
        Vec::new()
    }

    /// Wraps long lines, or stops it; the first visible line stays.
    fn toggle_wrap(&mut self, cx: &Context<'_>) {
        self.wrap = !self.wrap;
        self.scroll.rewrap(&rows_of(&self.lines(cx), self.width.get()), self.wrap);
    }

    fn text(&self, cx: &Context<'_>) -> String {
        self.lines(cx).iter().map(|line| line.text() + "\n").collect()
    }

    fn command(&mut self, cx: &Context<'_>, command: Command) -> Vec<Effect> {
        if self.scroll.command(command) {
            return Vec::new();
        }
        match command {
            Command::Wrap => self.toggle_wrap(cx),
            Command::FullScreen => self.full = !self.full,
            Command::SearchNext => return self.jump(cx, true),
            Command::SearchPrevious => return self.jump(cx, false),
            Command::Copy => return vec![Effect::Copy(self.text(cx))],
            Command::Save => {
                let then = self.moment().map(|moment| format!("-{}", moment.for_a_file()));
                let then = then.unwrap_or_default();
                let name = format!("{}-{}{then}.txt", self.target.kind.singular, self.target.name);
                return vec![Effect::Save { name, text: self.text(cx) }];
            }
            Command::Enter => {}
            _ => {
                let target = self.target.clone();
                return match self.moment() {
                    Some(moment) => object_commands::at(cx, command, target, moment.when()),
                    None => object_commands::on(cx, command, Some(target)),
                };
            }
        }
        Vec::new()
    }

    fn draw_line(&self, cx: &Context<'_>, at: usize, line: &Line) -> TextLine<'static> {
        let theme = cx.theme;
        let tone = match line.tone {
            Tone::Plain => theme.body.text,
            Tone::Dim => theme.body.dim,
            Tone::Good => theme.status.running,
            Tone::Waiting => theme.status.pending,
            Tone::Bad => theme.status.failed,
            Tone::Header => theme.table.header,
        };
        let key = drawn_key(line);
        let value = clean(&line.value).into_owned();
        let mut spans = vec![Span::styled(key, theme.yaml.key)];
        let found = self.search.as_ref().map(|search| search.ranges(&value)).unwrap_or_default();
        let mut from = 0;
        let mut piece = |range: Range<usize>, style| spans.push(Span::styled(value[range].to_owned(), style));
        for range in found {
            piece(from..range.start, tone);
            let mut style = tone.patch(theme.log.found);
            if self.current == Some(at) {
                style = style.add_modifier(Modifier::BOLD | Modifier::UNDERLINED);
            }
            from = range.end;
            piece(range, style);
        }
        piece(from..value.len(), tone);
        TextLine::from(spans)
    }
}

/// Returns the key of a line as it is drawn.
fn drawn_key(line: &Line) -> String {
    format!("{}{}", " ".repeat(line.indent), clean(&line.key))
}

/// Returns the text of a line as it is drawn.
fn drawn_text(line: &Line) -> String {
    drawn_key(line) + &clean(&line.value)
}

/// Returns the rows of lines that are wrapped to this width.
fn rows_of(lines: &[Line], width: usize) -> RowIndex {
    RowIndex::new(lines.iter().map(drawn_text), width)
}

impl View for Describe {
    fn title(&self, _cx: &Context<'_>) -> String {
        format!("{} · describe", self.target.name)
    }

    fn key_contexts(&self, cx: &Context<'_>) -> Vec<KeyContext> {
        let mut places =
            vec![KeyContext::Describe, KeyContext::Text, KeyContext::TimeTravel, KeyContext::List];
        if self.target.kind.is::<Pod>() || self.target.kind.is::<Service>() {
            places.insert(0, KeyContext::ConnectionEnds);
        }
        if is_unscheduled(cx, &self.target) {
            places.insert(0, KeyContext::Unscheduled);
        }
        places
    }

    fn refuses(&self, cx: &Context<'_>, command: Command) -> Option<String> {
        command_availability::refuses(cx.catalogue, &self.target.kind, command)
    }

    fn update(&mut self, cx: &Context<'_>, message: ScreenMessage) -> Vec<Effect> {
        match message {
            ScreenMessage::Opened => {
                let [target, beside, policed] = [(); 3].map(|()| self.target.clone());
                let mut effects = vec![
                    Effect::task("object", move |out| follow(out, target)),
                    Effect::task("beside", move |out| follow_beside(out, beside)),
                    Effect::task("policies", move |out| follow_policies(out, policed)),
                ];
                if let Some(when) = self.opens_at.take() {
                    effects.extend(self.travel(cx, TimeTravel::To(when)));
                }
                effects
            }
            ScreenMessage::Travel(go) => self.travel(cx, go),
            ScreenMessage::Command(command) => self.command(cx, command),
            ScreenMessage::Mouse(event) => {
                self.scroll.mouse(event);
                Vec::new()
            }
            ScreenMessage::Data(data) => {
                let Some(loaded) = data.take() else { return Vec::new() };
                match loaded {
                    DescribeData::Object(object) => {
                        self.object = Some(*object);
                        self.deleted = false;
                        self.error = None;
                    }
                    DescribeData::Beside(beside) => self.beside = beside,
                    DescribeData::Policies(policies) => self.policies = policies,
                    // The last state stays readable.
                    DescribeData::Deleted => self.deleted = true,
                    DescribeData::Failed(error) => self.error = Some(error),
                    DescribeData::Travelled(gone) => return self.travelled(*gone),
                }
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    fn view(&self, cx: &Context<'_>, frame: &mut Frame<'_>, area: Rect) {
        let lines = self.lines(cx);
        let columns = if self.full { area } else { cx.theme.block_focused(String::new()).inner(area) }.width;
        let columns = usize::from(columns).max(1);
        self.width.set(columns);
        let rows = self.wrap.then(|| rows_of(&lines, columns));
        let count = rows.as_ref().map_or(lines.len(), RowIndex::len);
        let inner = if self.full {
            area
        } else {
            let width = usize::from(area.width).saturating_sub(6);
            let mut block = cx
                .theme
                .block_focused(fit(&format!("describe · {}", self.target.describe()), width).into_owned());
            let height = usize::from(area.height).saturating_sub(2);
            let mut state = Vec::new();
            if let Some(search) = &self.search {
                let found = lines.iter().filter(|line| search.matches(&line.text())).count();
                state.push(format!("/{} {found} found", clean(search.text())));
            }
            let deleted = self.deleted && self.past.is_none();
            if deleted {
                state.push("✖ deleted".to_owned());
            }
            if count > height {
                let top = self.scroll.window(height, count);
                state.push(format!("{}–{} of {count}", top + 1, (top + height).min(count)));
            }
            if !state.is_empty() {
                let style = if deleted { cx.theme.status.failed } else { cx.theme.body.dim };
                let state = format!(" {} ", fit_parts(&state, " · ", width));
                block = block.title_bottom(TextLine::styled(state, style).right_aligned());
            }
            let inner = block.inner(area);
            frame.render_widget(block, area);
            inner
        };
        let height = usize::from(inner.height);
        let top = self.scroll.window(height, count);
        if lines.is_empty() {
            let absent =
                self.past.is_some().then(|| format!("{} did not exist then", self.target.describe()));
            let (text, style): (String, Style) = match (&absent.or_else(|| self.error.clone()), self.deleted)
            {
                (Some(error), _) => (clean(error).into_owned(), cx.theme.status.failed),
                (None, true) => (format!("{} is gone", self.target.describe()), cx.theme.status.failed),
                (None, false) => ("loading…".to_owned(), cx.theme.body.dim),
            };
            return notice::draw(&text, style, frame, inner);
        }
        let (first, hidden) = rows.as_ref().map_or((top, 0), |rows| rows.place(top));
        let visible = lines.iter().enumerate().skip(first).take(height);
        let visible = visible.map(|(at, line)| self.draw_line(cx, at, line));
        if self.wrap {
            let shown = visible.flat_map(|line| wrapped(line, columns)).skip(hidden).take(height);
            frame.render_widget(Paragraph::new(shown.collect::<Vec<_>>()), inner);
        } else {
            self.scroll.draw_unwrapped(visible.collect(), cx.theme, frame, inner);
        }
        // The ages in the table of events must advance.
        if self.past.is_none()
            && let Some(object) = &self.object
            && object["kind"] != "Secret"
        {
            cx.redraw_in(10);
        }
    }

    fn moment(&self) -> Option<PointInTime> {
        self.past.as_ref().map(|then| then.view.moment)
    }

    fn back_target(&self) -> WayBack {
        self.back_target
    }

    fn full_screen(&self) -> bool {
        self.full
    }

    fn query(&self) -> Option<&str> {
        Some(&self.query)
    }

    fn set_query(&mut self, cx: &Context<'_>, query: &str) -> Result<(), String> {
        self.search = Search::new(query)?;
        query.clone_into(&mut self.query);
        self.current = None;
        if self.search.is_some() {
            // A search without a match yet must not show a toast at each key.
            let _ = self.jump(cx, true);
        }
        Ok(())
    }
}
