//! What was changed from here: when, what, how it ended, the kubectl command, and the way back.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Wrap};

use super::View;
use crate::console::action::Entry;
use crate::console::command::{Command, Where};
use crate::console::context::Context;
use crate::console::effect::Effect;
use crate::console::message::ScreenMessage;
use crate::console::text::{clean, fit};
use crate::console::toast::Toast;

/// The screen. Newest first; the cursor holds the entry by its number, which never changes.
#[derive(Debug, Default)]
pub struct JournalScreen {
    cursor: Option<usize>,
}

impl JournalScreen {
    fn at(&self, cx: &Context<'_>) -> Option<usize> {
        let count = cx.journal.entries().len();
        Some(self.cursor.unwrap_or(usize::MAX).min(count.checked_sub(1)?))
    }

    fn command(&mut self, cx: &Context<'_>, command: Command) -> Vec<Effect> {
        let Some(at) = self.at(cx) else { return Vec::new() };
        let entry = &cx.journal.entries()[at];
        match command {
            Command::Down => self.cursor = Some(at.saturating_sub(1)),
            Command::Up => self.cursor = Some(at + 1),
            Command::Bottom => self.cursor = Some(0),
            Command::Top => self.cursor = None,
            Command::JournalCopy => return vec![Effect::Copy(entry.outcome.action.kubectl.clone())],
            Command::JournalUndo => return vec![undo(entry, at)],
            _ => {}
        }
        Vec::new()
    }
}

fn undo(entry: &Entry, at: usize) -> Effect {
    let why_not = match () {
        () if entry.outcome.error.is_some() => "it failed: there is nothing to take back",
        () if entry.undone => "it was taken back already",
        () if entry.outcome.action.inverse.is_none() => "it has no inverse",
        () => return Effect::TakeBack(at),
    };
    Effect::Toast(Toast::note(why_not))
}

impl View for JournalScreen {
    fn title(&self, _cx: &Context<'_>) -> String {
        "Journal".into()
    }

    fn places(&self, _cx: &Context<'_>) -> Vec<Where> {
        vec![Where::Journal, Where::List]
    }

    fn update(&mut self, cx: &Context<'_>, message: ScreenMessage) -> Vec<Effect> {
        match message {
            ScreenMessage::Command(command) => self.command(cx, command),
            _ => Vec::new(),
        }
    }

    fn view(&self, cx: &Context<'_>, frame: &mut Frame<'_>, area: Rect) {
        let theme = cx.theme;
        let entries = cx.journal.entries();
        let [list, detail] = Layout::vertical([Constraint::Min(5), Constraint::Length(8)]).areas(area);
        let block = theme.block("").title_top(Line::from(vec![
            Span::styled(" Journal ", theme.frame.title),
            Span::styled(format!("{} changes from here ", entries.len()), theme.body.dim),
        ]));
        let inner = block.inner(list);
        frame.render_widget(block, list);
        let Some(cursor) = self.at(cx) else {
            let place = Rect { y: inner.y + inner.height / 3, height: 1, ..inner };
            frame.render_widget(
                Line::styled("nothing was changed from here yet", theme.body.dim).centered(),
                place,
            );
            frame.render_widget(theme.block("Command"), detail);
            return;
        };
        let height = usize::from(inner.height).max(1);
        let newest = entries.len() - 1;
        let top = (newest - cursor).saturating_sub(height - 1);
        let lines = entries.iter().enumerate().rev().skip(top).take(height).map(|(number, entry)| {
            let (glyph, style) = match &entry.outcome.error {
                None => ("✔", theme.toast.done),
                Some(_) => ("✖", theme.toast.failed),
            };
            let back = match (&entry.outcome.action.inverse, entry.undone) {
                (_, true) => "taken back",
                (Some(_), false) if entry.outcome.error.is_none() => "<u> undo",
                _ => "",
            };
            let room = usize::from(inner.width).saturating_sub(24);
            let title = fit(&clean(&entry.outcome.action.title), room).into_owned();
            let line = Line::from(vec![
                Span::raw(if number == cursor { "▸ " } else { "  " }),
                Span::styled(format!("{:>6}  ", cx.age(entry.at)), theme.body.dim),
                Span::styled(format!("{glyph} "), style),
                Span::raw(format!("{title:<room$}  ")),
                Span::styled(format!("{back:>10}"), theme.body.dim),
            ]);
            line.style(if number == cursor { theme.table.cursor } else { Style::default() })
        });
        frame.render_widget(Paragraph::new(lines.collect::<Vec<_>>()), inner);

        let entry = &entries[cursor];
        let mut lines =
            vec![Line::styled(clean(&entry.outcome.action.kubectl).into_owned(), theme.body.accent)];
        if let Some(inverse) = &entry.outcome.action.inverse {
            lines.push(Line::from(vec![
                Span::styled("undo  ", theme.body.dim),
                Span::raw(clean(&inverse.kubectl).into_owned()),
            ]));
        }
        if let Some(error) = &entry.outcome.error {
            lines
                .extend(error.lines().map(|line| Line::styled(clean(line).into_owned(), theme.toast.failed)));
        }
        frame.render_widget(
            Paragraph::new(lines).wrap(Wrap { trim: false }).block(theme.block("Command")),
            detail,
        );
    }
}
