//! Every key that works on the screen it was asked from, out of the command table.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::View;
use crate::console::command::{TABLE, Touches, Where};
use crate::console::context::Context;
use crate::console::effect::Effect;
use crate::console::message::ScreenMessage;
use crate::console::query;
use crate::console::widget::scroll::Scroll;

/// The screen.
#[derive(Debug)]
pub struct Help {
    places: Vec<Where>,
    query: String,
    scroll: Scroll,
}

impl Help {
    /// For the contexts of the screen below.
    pub fn new(mut places: Vec<Where>) -> Self {
        if !places.contains(&Where::Everywhere) {
            places.push(Where::Everywhere);
        }
        Self { places, query: String::new(), scroll: Scroll::default() }
    }

    fn section<'a>(&self, cx: &Context<'_>, place: Where, width: usize) -> Vec<Line<'a>> {
        let theme = cx.theme;
        let wanted = query::pattern(&self.query).ok();
        let mut lines = Vec::new();
        for entry in TABLE.iter().filter(|entry| entry.place == place) {
            let keys: Vec<String> = cx.bindings.keys(entry.command).iter().map(ToString::to_string).collect();
            let keys = keys.join(" ");
            let line = format!("{keys} {} {}", entry.name, entry.about);
            if wanted.as_ref().is_some_and(|regex| !regex.is_match(&line)) {
                continue;
            }
            let mut spans = vec![
                Span::styled(format!("  {keys:>14}  "), theme.help.key),
                Span::raw(crate::console::text::fit(entry.about, width.saturating_sub(20)).into_owned()),
            ];
            if entry.touches == Touches::Cluster {
                spans.push(Span::styled(" ✎", theme.status.pending));
            }
            lines.push(Line::from(spans));
        }
        if !lines.is_empty() {
            lines.insert(0, Line::styled(format!(" {}", place.title()), theme.frame.title));
            lines.push(Line::default());
        }
        lines
    }
}

impl View for Help {
    fn title(&self, _cx: &Context<'_>) -> String {
        "Help".into()
    }

    fn places(&self, _cx: &Context<'_>) -> Vec<Where> {
        vec![Where::List]
    }

    fn update(&mut self, _cx: &Context<'_>, message: ScreenMessage) -> Vec<Effect> {
        match message {
            ScreenMessage::Command(command) => {
                self.scroll.command(command);
            }
            ScreenMessage::Mouse(event) => self.scroll.mouse(event),
            _ => {}
        }
        Vec::new()
    }

    fn view(&self, cx: &Context<'_>, frame: &mut Frame<'_>, area: Rect) {
        let theme = cx.theme;
        let hint = Line::styled(" ✎ changes the cluster · keys are set in console.toml ", theme.body.dim);
        let block = theme.block_focused("Keys").title_bottom(hint.right_aligned());
        let inner = block.inner(area);
        frame.render_widget(block, area);
        let two = inner.width >= 100;
        let width = if two { usize::from(inner.width) / 2 } else { usize::from(inner.width) };
        let sections: Vec<Vec<Line<'_>>> =
            self.places.iter().map(|place| self.section(cx, *place, width)).collect();
        let total: usize = sections.iter().map(Vec::len).sum();
        let mut columns: [Vec<Line<'_>>; 2] = [Vec::new(), Vec::new()];
        for section in sections {
            let column = usize::from(two && columns[0].len() + section.len() / 2 > total.div_ceil(2));
            columns[column].extend(section);
        }
        let longest = columns.iter().map(Vec::len).max().unwrap_or(0);
        let top = self.scroll.window(usize::from(inner.height), longest);
        for (index, lines) in columns.into_iter().enumerate() {
            let place = Rect { x: inner.x + (index * width) as u16, width: width as u16, ..inner };
            if index == 0 || two {
                frame.render_widget(Paragraph::new(lines).scroll((top as u16, 0)), place);
            }
        }
    }

    fn query(&self) -> &str {
        &self.query
    }

    fn set_query(&mut self, _cx: &Context<'_>, text: &str) -> Result<(), String> {
        query::pattern(text)?;
        text.clone_into(&mut self.query);
        Ok(())
    }
}
