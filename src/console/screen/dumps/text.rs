//! A file that was saved, as text: read once and again on ask; searched with `/`.

use std::path::PathBuf;

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Wrap};
use regex::Regex;

use crate::command::{Command, KeyContext};
use crate::context::Context;
use crate::effect::Effect;
use crate::message::{FileEdited, ScreenMessage};
use crate::query;
use crate::saved;
use crate::screen::View;
use crate::text::{clean, fit, grouped};
use crate::widget::scroll::Scroll;

/// The file was read: its lines, and whether there are more; or why not.
#[derive(Debug)]
pub(crate) struct TextData(Result<(Vec<String>, bool), String>);

/// The screen.
#[derive(Debug)]
pub struct DumpText {
    path: PathBuf,
    /// Its lines, fit to be drawn.
    lines: Vec<String>,
    read: Option<Result<bool, String>>,
    wrap: bool,
    full: bool,
    query: String,
    wanted: Option<Regex>,
    /// Lines that match.
    matches: Vec<usize>,
    found: usize,
    scroll: Scroll,
}

impl DumpText {
    /// Of this file.
    pub(crate) fn new(path: PathBuf) -> Self {
        Self {
            path,
            lines: Vec::new(),
            read: None,
            wrap: false,
            full: false,
            query: String::new(),
            wanted: None,
            matches: Vec::new(),
            found: 0,
            scroll: Scroll::default(),
        }
    }

    fn load(&self) -> Effect {
        let path = self.path.clone();
        Effect::task("read", move |out| async move {
            let read = tokio::task::spawn_blocking(move || {
                let (lines, is_cut) = saved::read(&path)?;
                Ok((lines.iter().map(|line| clean(line).into_owned()).collect(), is_cut))
            });
            out.data(TextData(read.await.unwrap_or_else(|error| Err(error.to_string())))).await;
        })
    }

    fn take(&mut self, TextData(read): TextData) {
        match read {
            Ok((lines, is_cut)) => {
                self.lines = lines;
                self.read = Some(Ok(is_cut));
                self.search();
            }
            // What was read stays, with why it is not read anew.
            Err(why) => self.read = Some(Err(why)),
        }
    }

    fn search(&mut self) {
        let wanted = self.wanted.as_ref();
        let hit = |line: &String| wanted.is_some_and(|wanted| wanted.is_match(line));
        self.matches = (0..self.lines.len()).filter(|at| hit(&self.lines[*at])).collect();
        self.found = self.found.min(self.matches.len().saturating_sub(1));
    }

    fn go(&mut self, by: isize) {
        let count = self.matches.len() as isize;
        if count > 0 {
            self.found = (self.found as isize + by).rem_euclid(count) as usize;
            self.scroll.show(self.matches[self.found]);
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
        self.full
    }

    fn update(&mut self, _cx: &Context<'_>, message: ScreenMessage) -> Vec<Effect> {
        match message {
            ScreenMessage::Opened => return vec![self.load()],
            ScreenMessage::Mouse(event) => self.scroll.mouse(event),
            ScreenMessage::Data(data) if data.peek::<FileEdited>().is_some() => return vec![self.load()],
            ScreenMessage::Data(data) => {
                if let Some(data) = data.take() {
                    self.take(data);
                }
            }
            ScreenMessage::Command(command) if self.scroll.command(command) => {}
            ScreenMessage::Command(command) => match command {
                Command::Refresh => return vec![self.load()],
                Command::DumpTextEdit => return vec![Effect::EditFile(self.path.clone())],
                Command::SearchNext => self.go(1),
                Command::SearchPrevious => self.go(-1),
                Command::Wrap => self.wrap = !self.wrap,
                Command::FullScreen => self.full = !self.full,
                Command::Copy => return vec![Effect::Copy(self.lines.join("\n"))],
                Command::Save => {
                    return vec![Effect::Save { name: self.name(), text: self.lines.join("\n") + "\n" }];
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
            Span::styled(format!("{} lines ", grouped(self.lines.len() as u64)), theme.body.dim),
        ];
        if !self.query.is_empty() {
            let at = if self.matches.is_empty() { 0 } else { self.found + 1 };
            let count = self.matches.len();
            title.push(Span::styled(
                format!("/{} {at} of {count} ", clean(&self.query)),
                theme.status.pending,
            ));
        }
        let mut block = theme.block("").title_top(Line::from(title));
        let room = usize::from(area.width).saturating_sub(8);
        match &self.read {
            Some(Err(why)) => {
                let why = fit(&clean(why), room).into_owned();
                block = block.title_bottom(Line::styled(format!(" ✖ {why} "), theme.status.failed));
            }
            Some(Ok(true)) => {
                let more = " more is in the file than is shown; an editor shows it whole ";
                block = block.title_bottom(Line::styled(more, theme.status.pending));
            }
            Some(Ok(false)) | None => {}
        }
        let inner = block.inner(area);
        frame.render_widget(block, area);
        if self.lines.is_empty() && !matches!(self.read, Some(Err(_))) {
            let note = if self.read.is_none() { "reading…" } else { "the file is empty" };
            frame.render_widget(Line::styled(note, theme.body.dim), inner);
            return;
        }
        let height = usize::from(inner.height);
        let top = self.scroll.window(height, self.lines.len());
        let current = self.matches.get(self.found).copied();
        let visible = self.lines.iter().enumerate().skip(top).take(height).map(|(number, line)| {
            // As much as can come into sight: a line may be megabytes long.
            let most = if self.wrap {
                usize::from(inner.width) * height
            } else {
                self.scroll.left() + usize::from(inner.width)
            };
            let end = line.char_indices().nth(most).map_or(line.len(), |(at, _)| at);
            let style = match (self.wanted.as_ref().is_some_and(|wanted| wanted.is_match(line)), current) {
                (true, Some(current)) if current == number => theme.log.found,
                (true, _) => theme.table.flash,
                _ => ratatui::style::Style::default(),
            };
            Line::styled(line[..end].to_owned(), style)
        });
        let text = Paragraph::new(visible.collect::<Vec<_>>());
        let left = u16::try_from(self.scroll.left()).unwrap_or(u16::MAX);
        let text = if self.wrap { text.wrap(Wrap { trim: false }) } else { text.scroll((0, left)) };
        frame.render_widget(text, inner);
    }

    fn query(&self) -> &str {
        &self.query
    }

    fn set_query(&mut self, _cx: &Context<'_>, text: &str) -> Result<(), String> {
        self.wanted = if text.is_empty() { None } else { Some(query::pattern(text)?) };
        text.clone_into(&mut self.query);
        self.found = 0;
        self.search();
        self.go(0);
        Ok(())
    }
}
