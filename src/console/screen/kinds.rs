//! The kinds of the server with their short names; Enter opens one.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::View;
use crate::command::{Command, KeyContext};
use crate::context::Context;
use crate::effect::{Effect, TableRoute};
use crate::message::ScreenMessage;
use crate::query;
use crate::resource::Kind;
use crate::text::clean;

/// The screen.
#[derive(Debug, Default)]
pub struct Kinds {
    cursor: usize,
    query: String,
}

impl Kinds {
    fn shown<'a>(&self, cx: &Context<'a>) -> Vec<&'a Kind> {
        let wanted = query::pattern(&self.query).ok();
        let hit = |kind: &&Kind| {
            wanted.as_ref().is_none_or(|regex| {
                regex.is_match(&kind.resource.plural)
                    || regex.is_match(&kind.resource.group)
                    || kind.short_names.iter().any(|s| regex.is_match(s))
            })
        };
        cx.catalogue.kinds().iter().filter(hit).collect()
    }
}

impl View for Kinds {
    fn title(&self, _cx: &Context<'_>) -> String {
        "Kinds".into()
    }

    fn key_contexts(&self, _cx: &Context<'_>) -> Vec<KeyContext> {
        vec![KeyContext::List]
    }

    fn update(&mut self, cx: &Context<'_>, message: ScreenMessage) -> Vec<Effect> {
        let ScreenMessage::Command(command) = message else { return Vec::new() };
        let shown = self.shown(cx);
        let last = shown.len().saturating_sub(1);
        self.cursor = match command {
            Command::Up => self.cursor.saturating_sub(1),
            Command::Down => (self.cursor + 1).min(last),
            Command::PageUp => self.cursor.saturating_sub(20),
            Command::PageDown => (self.cursor + 20).min(last),
            Command::Top => 0,
            Command::Bottom => last,
            Command::Enter => {
                let kind = shown.get(self.cursor.min(last));
                return kind.map(|kind| Effect::open(TableRoute::of((*kind).clone()))).into_iter().collect();
            }
            _ => self.cursor,
        };
        Vec::new()
    }

    fn view(&self, cx: &Context<'_>, frame: &mut Frame<'_>, area: Rect) {
        let theme = cx.theme;
        let shown = self.shown(cx);
        let note = if cx.catalogue.discovered { "" } else { "asking the server… " };
        let block = theme.block("").title_top(Line::from(vec![
            Span::styled(" Kinds ", theme.frame.title),
            Span::styled(format!("{} {note}", shown.len()), theme.body.dim),
        ]));
        let inner = block.inner(area);
        frame.render_widget(block, area);
        let heads = format!("  {:<34}{:<12}{:<34}{}", "NAME", "SHORT", "API", "NAMESPACED");
        frame.render_widget(Line::styled(heads, theme.table.header), Rect { height: 1, ..inner });
        let body = Rect { y: inner.y + 1, height: inner.height.saturating_sub(1), ..inner };
        let height = usize::from(body.height).max(1);
        let cursor = self.cursor.min(shown.len().saturating_sub(1));
        let top = (cursor + 1).saturating_sub(height);
        let lines = shown.iter().enumerate().skip(top).take(height).map(|(at, kind)| {
            let lead = if at == cursor { "▸ " } else { "  " };
            let text = format!(
                "{lead}{:<34}{:<12}{:<34}{}",
                clean(&kind.resource.plural),
                clean(&kind.short_names.join(",")),
                clean(&kind.api_version()),
                if kind.namespaced { "yes" } else { "no" }
            );
            Line::styled(text, if at == cursor { theme.table.cursor } else { Style::default() })
        });
        frame.render_widget(Paragraph::new(lines.collect::<Vec<_>>()), body);
    }

    fn query(&self) -> &str {
        &self.query
    }

    fn set_query(&mut self, _cx: &Context<'_>, text: &str) -> Result<(), String> {
        query::pattern(text)?;
        text.clone_into(&mut self.query);
        self.cursor = 0;
        Ok(())
    }
}
