//! A saved file as text: read once, and again on request; searchable with `/`.

use std::path::PathBuf;

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use crate::View;
use console_data::context::Context;
use console_data::message::{FileEdited, ScreenMessage};
use console_data::screen_dumps;
use console_operations::effect::Effect;
use console_toolkit::command::{Command, KeyContext};
use console_toolkit::text::{clean, fit, grouped};
use console_toolkit::widget::notice;
use console_toolkit::widget::text_pane::TextPane;
use console_toolkit::widget::title::title_line;

/// The lines of the file and whether it has more, or why it cannot be read.
#[derive(Debug)]
pub(crate) struct TextData(Result<(Vec<String>, bool), String>);

/// The screen that shows a saved file.
#[derive(Debug)]
pub struct DumpText {
    path: PathBuf,
    /// The lines, sanitized for drawing.
    pane: TextPane,
    read: Option<Result<bool, String>>,
}

impl DumpText {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, pane: TextPane::default(), read: None }
    }

    fn load(&self) -> Effect {
        let path = self.path.clone();
        Effect::task("read", move |out| async move {
            let read = base::task::blocking(move || {
                let (lines, is_cut) = screen_dumps::read(&path)?;
                Ok((lines.iter().map(|line| clean(line).into_owned()).collect(), is_cut))
            });
            out.data(TextData(read.await.unwrap_or_else(|error| Err(error.to_string())))).await;
        })
    }

    fn take(&mut self, TextData(read): TextData) {
        match read {
            Ok((lines, is_cut)) => {
                self.pane.set_lines(lines);
                self.read = Some(Ok(is_cut));
            }
            // The last text stays, with the reason why it could not be read again.
            Err(why) => self.read = Some(Err(why)),
        }
    }

    fn name(&self) -> String {
        clean(&self.path.file_name().unwrap_or_default().to_string_lossy()).into_owned()
    }
}

impl View for DumpText {
    fn title(&self, _cx: &Context<'_>) -> String {
        self.name()
    }

    fn key_contexts(&self, _cx: &Context<'_>) -> Vec<KeyContext> {
        vec![KeyContext::DumpText, KeyContext::Text, KeyContext::List]
    }

    fn full_screen(&self) -> bool {
        self.pane.is_full()
    }

    fn update(&mut self, _cx: &Context<'_>, message: ScreenMessage) -> Vec<Effect> {
        match message {
            ScreenMessage::Opened => return vec![self.load()],
            ScreenMessage::Mouse(event) => self.pane.mouse(event),
            ScreenMessage::Data(data) if data.peek::<FileEdited>().is_some() => return vec![self.load()],
            ScreenMessage::Data(data) => {
                if let Some(data) = data.take() {
                    self.take(data);
                }
            }
            ScreenMessage::Command(command) if self.pane.command(command) => {}
            ScreenMessage::Command(command) => match command {
                Command::Refresh => return vec![self.load()],
                Command::Edit => return vec![Effect::EditFile(self.path.clone())],
                Command::Copy => return vec![Effect::Copy(self.pane.text())],
                Command::Save => {
                    return vec![Effect::Save { name: self.name(), text: self.pane.text() + "\n" }];
                }
                _ => {}
            },
            _ => {}
        }
        Vec::new()
    }

    fn view(&self, cx: &Context<'_>, frame: &mut Frame<'_>, area: Rect) {
        let theme = cx.theme;
        let mut title = vec![
            Span::styled(
                format!(" {} ", fit(&self.name(), usize::from(area.width).saturating_sub(40).max(10))),
                theme.frame.title,
            ),
            Span::styled(format!("{} lines ", grouped(self.pane.len() as u64)), theme.body.dim),
        ];
        let found = self.pane.match_label();
        title.extend(found.map(|found| Span::styled(found, theme.status.pending)));
        let mut block = theme.block("").title_top(title_line(title, area.width));
        let title_width = usize::from(area.width).saturating_sub(8);
        match &self.read {
            Some(Err(why)) if !self.pane.is_empty() => {
                let reason = fit(&clean(why), title_width).into_owned();
                block = block.title_bottom(Line::styled(format!(" ✖ {reason} "), theme.status.failed));
            }
            Some(Ok(true)) => {
                let more = fit("the file is longer than shown; an editor shows all of it", title_width);
                block = block.title_bottom(Line::styled(format!(" {more} "), theme.status.pending));
            }
            Some(Ok(false) | Err(_)) | None => {}
        }
        let inner = block.inner(area);
        frame.render_widget(block, area);
        if self.pane.is_empty() {
            return match &self.read {
                None => notice::draw("reading…", theme.body.dim, frame, inner),
                Some(Err(why)) => notice::draw(&format!("✖ {why}"), theme.status.failed, frame, inner),
                Some(Ok(_)) => notice::draw("the file is empty", theme.body.dim, frame, inner),
            };
        }
        self.pane.draw(theme, frame, inner, |_, line| Line::raw(line));
    }

    fn query(&self) -> Option<&str> {
        Some(self.pane.query())
    }

    fn set_query(&mut self, _cx: &Context<'_>, text: &str) -> Result<(), String> {
        self.pane.set_query(text)
    }
}
