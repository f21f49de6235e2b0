//! The contexts of the user's kubeconfig, and the cluster that the console was started on; Enter switches (CON-16).

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;
use unicode_width::UnicodeWidthStr;

use super::View;
use console_data::context::Context;
use console_data::contexts::ContextEntry;
use console_data::message::ScreenMessage;
use console_operations::effect::Effect;
use console_toolkit::command::{Command, KeyContext};
use console_toolkit::search::Filter;
use console_toolkit::text::{clean, fit, pad};
use console_toolkit::widget::cursor::Cursor;
use console_toolkit::widget::notice;
use console_toolkit::widget::title::title_line;

/// The contexts, or why the kubeconfig cannot be read; sent by the shell.
#[derive(Debug)]
pub struct ContextsData(pub Result<Vec<ContextEntry>, String>);

/// The screen that lists the contexts.
#[derive(Debug)]
pub struct Contexts {
    /// The name and the address of the cluster that the console was started on.
    home: (String, String),
    /// The current context; `None` is the cluster that the console was started on.
    used: Option<String>,
    all: Option<Result<Vec<ContextEntry>, String>>,
    cursor: Cursor,
    filter: Filter,
}

impl Contexts {
    /// Creates the screen for the cluster that the console was started on and the current context.
    pub fn new(home: (String, String), used: Option<String>) -> Self {
        Self { home, used, all: None, cursor: Cursor::default(), filter: Filter::default() }
    }

    /// Returns the contexts that match the filter. `None`, the cluster that the console was started on, comes first.
    fn visible_contexts(&self) -> Vec<Option<&ContextEntry>> {
        let is_match = |text: &str| self.filter.matches(text);
        let all = self.all.iter().flatten().flatten();
        let named = all.filter(|one| is_match(&one.name) || is_match(&one.cluster) || is_match(&one.server));
        let home = Some(None).filter(|_| is_match(&self.home.0));
        home.into_iter().chain(named.map(Some)).collect()
    }

    fn command(&mut self, command: Command) -> Vec<Effect> {
        let lines = self.visible_contexts().len();
        if self.cursor.command(command, lines) {
            return Vec::new();
        }
        match command {
            Command::Refresh => vec![Effect::ListContexts],
            Command::Enter => {
                let shown = self.visible_contexts();
                let Some(chosen) = shown.get(self.cursor.of(lines)) else { return Vec::new() };
                let name = chosen.map(|one| one.name.clone());
                if name == self.used {
                    return vec![Effect::info("this cluster is already open")];
                }
                vec![Effect::UseContext(name)]
            }
            _ => Vec::new(),
        }
    }
}

impl View for Contexts {
    fn title(&self, _cx: &Context<'_>) -> String {
        "Contexts".into()
    }

    fn key_contexts(&self, _cx: &Context<'_>) -> Vec<KeyContext> {
        vec![KeyContext::List]
    }

    fn update(&mut self, _cx: &Context<'_>, message: ScreenMessage) -> Vec<Effect> {
        match message {
            ScreenMessage::Opened | ScreenMessage::Shown => return vec![Effect::ListContexts],
            ScreenMessage::Data(data) => {
                let Some(ContextsData(all)) = data.take() else { return Vec::new() };
                let first = self.all.is_none();
                self.all = Some(all);
                // The cursor starts on the current context.
                if first && let Some(used) = &self.used {
                    let at = self
                        .visible_contexts()
                        .iter()
                        .position(|one| one.is_some_and(|one| one.name == *used));
                    self.cursor.set_line(at.unwrap_or(0));
                }
            }
            ScreenMessage::Command(command) => return self.command(command),
            _ => {}
        }
        Vec::new()
    }

    fn view(&self, cx: &Context<'_>, frame: &mut Frame<'_>, area: Rect) {
        let theme = cx.theme;
        let shown = self.visible_contexts();
        let mut title = vec![
            Span::styled(" Contexts ", theme.frame.title),
            Span::styled(format!("{} ", shown.len()), theme.body.dim),
        ];
        if !self.filter.is_empty() {
            title.push(Span::styled(format!("/{} ", clean(self.filter.text())), theme.status.pending));
        }
        let block = theme.block_focused("").title_top(title_line(title, area.width));
        let inner = block.inner(area);
        frame.render_widget(block, area);
        let width = usize::from(inner.width);
        let names =
            shown.iter().map(|one| one.map_or(self.home.0.as_str(), |one| one.name.as_str()).width()).max();
        let names = names.unwrap_or(0).clamp(8, (width / 2).max(8));
        let cursor = self.cursor.of(shown.len());
        let lines = self.cursor.window(usize::from(inner.height), shown.len()).map(|at| {
            let one = &shown[at];
            let used = one.map(|one| &one.name) == self.used.as_ref();
            let (name, rest) = match one {
                None => (self.home.0.as_str(), format!("started on · {}", self.home.1)),
                Some(one) => {
                    let namespace = one.namespace.as_deref().unwrap_or("default");
                    let current = if one.is_current { "kubectl's · " } else { "" };
                    (one.name.as_str(), format!("{current}{} · {namespace} · as {}", one.server, one.user))
                }
            };
            let line = Line::from(vec![
                Span::raw(if at == cursor { "▸ " } else { "  " }),
                Span::styled(if used { theme.sign("● ", "in use ") } else { "  " }, theme.status.running),
                Span::styled(pad(&clean(name), names), theme.of_cluster(name)),
                Span::styled(
                    format!("  {}", fit(&clean(&rest), width.saturating_sub(names + 6))),
                    theme.body.dim,
                ),
            ]);
            if at == cursor { theme.chosen(line) } else { line }
        });
        let lines: Vec<Line<'_>> = lines.collect();
        // A line is free between the contexts and the reason why there are no others.
        let used = (lines.len() as u16 + 1).min(inner.height);
        let below = Rect { y: inner.y + used, height: inner.height - used, ..inner };
        frame.render_widget(Paragraph::new(lines), inner);
        match &self.all {
            None => notice::draw("  reading the kubeconfig…", theme.body.dim, frame, below),
            Some(Err(why)) => notice::draw(&format!("✖ {why}"), theme.status.failed, frame, below),
            Some(Ok(all)) if all.is_empty() => {
                notice::draw("  the kubeconfig has no contexts", theme.body.dim, frame, below);
            }
            Some(Ok(_)) => {}
        }
    }

    fn query(&self) -> Option<&str> {
        Some(self.filter.text())
    }

    fn set_query(&mut self, _cx: &Context<'_>, text: &str) -> Result<(), String> {
        self.filter = Filter::new(text)?;
        self.cursor.set_line(0);
        Ok(())
    }
}
