//! The server's kinds with their short names; Enter opens one.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::View;
use console_data::context::Context;
use console_data::message::ScreenMessage;
use console_data::resource::Kind;
use console_operations::effect::{Effect, TableRoute};
use console_toolkit::command::{Command, KeyContext};
use console_toolkit::search::Filter;
use console_toolkit::text::clean;
use console_toolkit::widget::cursor::Cursor;
use console_toolkit::widget::title::title_line;

/// The screen that lists the kinds.
#[derive(Debug, Default)]
pub struct Kinds {
    cursor: Cursor,
    filter: Filter,
}

impl Kinds {
    fn visible_kinds<'a>(&self, cx: &Context<'a>) -> Vec<&'a Kind> {
        let hit = |kind: &&Kind| {
            self.filter.matches(&kind.resource.plural)
                || self.filter.matches(&kind.resource.group)
                || kind.short_names.iter().any(|short| self.filter.matches(short))
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
        let shown = self.visible_kinds(cx);
        if self.cursor.command(command, shown.len()) || command != Command::Enter {
            return Vec::new();
        }
        let kind = shown.get(self.cursor.of(shown.len()));
        kind.map(|kind| Effect::open(TableRoute::of((*kind).clone()))).into_iter().collect()
    }

    fn view(&self, cx: &Context<'_>, frame: &mut Frame<'_>, area: Rect) {
        let theme = cx.theme;
        let shown = self.visible_kinds(cx);
        let note = if cx.catalogue.discovered { "" } else { "asking the server… " };
        let block = theme.block("").title_top(title_line(
            vec![
                Span::styled(" Kinds ", theme.frame.title),
                Span::styled(format!("{} {note}", shown.len()), theme.body.dim),
            ],
            area.width,
        ));
        let inner = block.inner(area);
        frame.render_widget(block, area);
        let heads = format!("  {:<34}{:<12}{:<34}{}", "NAME", "SHORT", "API", "NAMESPACED");
        frame.render_widget(Line::styled(heads, theme.table.header), Rect { height: 1, ..inner });
        let body = Rect { y: inner.y + 1, height: inner.height.saturating_sub(1), ..inner };
        let cursor = self.cursor.of(shown.len());
        let lines = self.cursor.window(usize::from(body.height), shown.len()).map(|at| {
            let kind = shown[at];
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

    fn query(&self) -> Option<&str> {
        Some(self.filter.text())
    }

    fn set_query(&mut self, _cx: &Context<'_>, text: &str) -> Result<(), String> {
        self.filter = Filter::new(text)?;
        self.cursor.set_line(0);
        Ok(())
    }
}
