//! Permission queries (CON-16): the user's rules, the decision about one request, and the subjects that may make it,
//! from the server's authorization and RBAC.
//!
//! ```text
//!  ╭ who may get pods in shop ──────────────────────────╮
//!  │ ✔ you may get pods in shop                         │
//!  │   the server's reason                              │
//!  │ ✖ role bindings: not allowed: why                  │
//!  │                                                    │
//!  │ Group system:masters                               │
//!  │   ClusterRoleBinding admins → ClusterRole admin    │
//!  ╰─────────────────────────────────── as of 3s ago ───╯
//! ```
//!
//! [`read`] queries the server, `access` evaluates the responses, [`list`] and [`lines`] build the lines.

mod lines;
mod list;
mod read;

use jiff::Timestamp;
use k8s_openapi::api::authorization::v1::SubjectAccessReviewStatus;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::View;
use console_data::access::self_rules::SelfRules;
use console_data::access::who_can::{Policy, WhoCanReport, subjects_allowed};
use console_data::access::{AccessQuery, namespace_of};
use console_data::context::Context;
use console_data::message::ScreenMessage;
use console_operations::effect::Effect;
use console_toolkit::command::{Command, KeyContext};
use console_toolkit::search::Filter;
use console_toolkit::text::{clean, fit, wrapped};
use console_toolkit::widget::scroll::Scroll;
use console_toolkit::widget::title::title_line;

/// Results of the screen's tasks.
#[derive(Debug)]
pub(crate) enum AccessData {
    /// The user's rules in this namespace.
    Mine(String, Result<SelfRules, String>),
    /// The server's decision about the user.
    Decision(Result<SubjectAccessReviewStatus, String>),
    /// Roles and bindings, as far as they could be read.
    Policy(Box<Policy>),
}

/// The screen that answers one permission query.
#[derive(Debug)]
pub struct Access {
    question: AccessQuery,
    /// The namespace of the requested rules.
    namespace: String,
    own_rules: Option<SelfRules>,
    /// The reason why the last request for the rules failed; earlier rules stay readable.
    failed: Option<String>,
    whether: Option<Result<SubjectAccessReviewStatus, String>>,
    who: Option<WhoCanResult>,
    at: Option<Timestamp>,
    filter: Filter,
    scroll: Scroll,
}

/// The allowed subjects, and the parts of RBAC that could not be read.
#[derive(Debug)]
struct WhoCanResult {
    report: WhoCanReport,
    unread: Vec<(&'static str, String)>,
}

/// Lines of text, wrapped to `width` columns.
struct Lines {
    width: usize,
    lines: Vec<(String, Style)>,
}

impl Lines {
    fn new(width: usize) -> Self {
        Self { width, lines: Vec::new() }
    }

    /// Appends `text` after `first`; continuation lines are indented by the width of `first`.
    fn add(&mut self, first: &str, text: &str, style: Style) {
        let indent = unicode_width::UnicodeWidthStr::width(first);
        let available = self.width.saturating_sub(indent).max(8);
        for (at, piece) in wrapped(&clean(text), available).into_iter().enumerate() {
            let lead = if at == 0 { first.to_owned() } else { " ".repeat(indent) };
            self.lines.push((format!("{lead}{piece}"), style));
        }
    }

    fn blank(&mut self) {
        self.lines.push((String::new(), Style::default()));
    }
}

impl Access {
    pub(crate) fn new(question: AccessQuery) -> Self {
        Self {
            question,
            namespace: String::new(),
            own_rules: None,
            failed: None,
            whether: None,
            who: None,
            at: None,
            filter: Filter::default(),
            scroll: Scroll::default(),
        }
    }

    pub(crate) fn question(&self) -> &AccessQuery {
        &self.question
    }

    fn fetch(&mut self, cx: &Context<'_>) -> Vec<Effect> {
        match &self.question {
            AccessQuery::OwnRules => {
                let (namespace, _) = namespace_of(cx.scope);
                if self.namespace != namespace {
                    // Rules of the previous namespace do not apply to this one.
                    (self.own_rules, self.failed, self.at) = (None, None, None);
                    self.scroll = Scroll::default();
                    self.namespace.clone_from(&namespace);
                }
                vec![Effect::task("access", move |out| async move {
                    let rules = read::self_rules(out.client(), &namespace).await;
                    out.data(AccessData::Mine(namespace, rules)).await;
                })]
            }
            AccessQuery::SubjectsWith(attributes, _) => {
                let (mine, namespace) = (attributes.clone(), attributes.namespace.clone());
                vec![
                    Effect::task("access", move |out| async move {
                        let result = read::whether(out.client(), &mine).await;
                        out.data(AccessData::Decision(result)).await;
                    }),
                    Effect::task("policy", move |out| async move {
                        let read = read::policy(out.client(), namespace.as_deref()).await;
                        out.data(AccessData::Policy(Box::new(read))).await;
                    }),
                ]
            }
        }
    }

    fn take(&mut self, data: AccessData, now: Timestamp) {
        match (data, &self.question) {
            // The scope changed while the request was in flight.
            (AccessData::Mine(namespace, _), _) if namespace != self.namespace => return,
            (AccessData::Mine(_, Ok(mine)), _) => (self.own_rules, self.failed) = (Some(mine), None),
            (AccessData::Mine(_, Err(why)), _) => self.failed = Some(why),
            (AccessData::Decision(result), _) => self.whether = Some(result),
            (AccessData::Policy(read), AccessQuery::SubjectsWith(attributes, _)) => {
                let unread = read.unread().into_iter().map(|(what, why)| (what, why.to_owned())).collect();
                self.who = Some(WhoCanResult { report: subjects_allowed(attributes, &read), unread });
            }
            (AccessData::Policy(_), AccessQuery::OwnRules) => return,
        }
        self.at = Some(now);
    }

    fn matches(&self, text: &str) -> bool {
        self.filter.matches(text)
    }

    /// Returns the title: `who may get pods in shop`.
    fn heading(&self) -> String {
        match &self.question {
            AccessQuery::OwnRules => format!("my permissions in {}", self.namespace),
            AccessQuery::SubjectsWith(attributes, _) => format!("who may {attributes}"),
        }
    }

    fn lines(&self, cx: &Context<'_>, width: usize) -> Vec<(String, Style)> {
        match &self.question {
            AccessQuery::OwnRules => list::lines(self, cx, width),
            AccessQuery::SubjectsWith(attributes, notes) => lines::lines(self, attributes, notes, cx, width),
        }
    }
}

impl View for Access {
    fn title(&self, _cx: &Context<'_>) -> String {
        clean(&self.heading()).into_owned()
    }

    fn key_contexts(&self, _cx: &Context<'_>) -> Vec<KeyContext> {
        vec![KeyContext::List]
    }

    fn update(&mut self, cx: &Context<'_>, message: ScreenMessage) -> Vec<Effect> {
        match message {
            ScreenMessage::Opened | ScreenMessage::Command(Command::Refresh) => return self.fetch(cx),
            // The scope may have changed, here or while another screen was shown.
            ScreenMessage::Shown | ScreenMessage::ScopeChanged if self.question == AccessQuery::OwnRules => {
                return self.fetch(cx);
            }
            ScreenMessage::Data(data) => {
                if let Some(data) = data.take() {
                    self.take(data, cx.now);
                }
            }
            ScreenMessage::Mouse(event) => self.scroll.mouse(event),
            ScreenMessage::Command(command) => {
                // Commands that do not scroll do not concern this screen.
                let _ = self.scroll.command(command);
            }
            _ => {}
        }
        Vec::new()
    }

    fn view(&self, cx: &Context<'_>, frame: &mut Frame<'_>, area: Rect) {
        let theme = cx.theme;
        let width = usize::from(area.width).saturating_sub(6);
        let mut title =
            vec![Span::styled(format!(" {} ", fit(&clean(&self.heading()), width)), theme.frame.title)];
        if !self.filter.is_empty() {
            title.push(Span::styled(format!("/{} ", clean(self.filter.text())), theme.status.pending));
        }
        let mut block = theme.block_focused("").title_top(title_line(title, area.width));
        if let Some(at) = self.at {
            let state = format!(" as of {} ago ", cx.age(at));
            block = block.title_bottom(Line::styled(state, theme.body.dim).right_aligned());
        }
        let inner = block.inner(area);
        frame.render_widget(block, area);
        let lines = self.lines(cx, usize::from(inner.width));
        let lines = lines.into_iter().map(|(text, style)| Line::from(Span::styled(text, style)));
        self.scroll.draw(lines, frame, inner);
    }

    fn query(&self) -> Option<&str> {
        Some(self.filter.text())
    }

    fn set_query(&mut self, _cx: &Context<'_>, text: &str) -> Result<(), String> {
        self.filter = Filter::new(text)?;
        self.scroll = Scroll::default();
        Ok(())
    }
}
