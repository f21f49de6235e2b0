//! Files saved with Ctrl-s, newest first (`:screendumps`), to view, edit or remove. They are in the console's own
//! directory, which files of earlier sessions and other consoles share.

mod text;

use std::path::PathBuf;

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

pub(crate) use text::DumpText;

use super::View;
use crate::object_commands;
use console_data::context::Context;
use console_data::message::{FileEdited, ScreenMessage};
use console_data::screen_dumps::{self, Dump, Dumps};
use console_operations::effect::{Dialog, Effect, Route};
use console_toolkit::command::{Command, KeyContext};
use console_toolkit::search::Filter;
use console_toolkit::text::{clean, fit, format_size, grouped, pad, tail};
use console_toolkit::widget::cursor::Cursor;
use console_toolkit::widget::notice;
use console_toolkit::widget::title::title_line;

/// Minimum width of a file's name beside its time.
const NAME: usize = 16;

/// Messages of the screen's tasks and its dialog.
#[derive(Debug)]
pub(crate) enum DumpsData {
    /// The directory was read.
    Listed(Result<Dumps, String>),
    /// The user removes a file.
    Remove(PathBuf),
    /// The file was removed, or why not.
    Removed(Result<PathBuf, String>),
}

/// The screen that lists saved files.
#[derive(Debug)]
pub struct DumpsScreen {
    dir: PathBuf,
    all: Option<Result<Dumps, String>>,
    cursor: Cursor,
    filter: Filter,
}

impl DumpsScreen {
    pub(crate) fn new(dir: PathBuf) -> Self {
        Self { dir, all: None, cursor: Cursor::default(), filter: Filter::default() }
    }

    fn list(&self) -> Effect {
        let dir = self.dir.clone();
        Effect::task("list", move |out| async move {
            let read = base::task::blocking(move || screen_dumps::list(&dir)).await;
            out.data(DumpsData::Listed(read.unwrap_or_else(|error| Err(error.to_string())))).await;
        })
    }

    fn visible_dumps(&self) -> Vec<&Dump> {
        let all = self.all.iter().flatten().flat_map(|all| &all.files);
        all.filter(|dump| self.filter.matches(&dump.name())).collect()
    }

    fn selected(&self) -> Option<Dump> {
        let shown = self.visible_dumps();
        shown.get(self.cursor.of(shown.len())).map(|dump| (*dump).clone())
    }

    fn command(&mut self, command: Command) -> Vec<Effect> {
        let lines = self.visible_dumps().len();
        if self.cursor.command(command, lines) {
            return Vec::new();
        }
        let selected = match command {
            Command::Refresh => return vec![self.list()],
            Command::Enter | Command::Edit | Command::Delete => self.selected(),
            _ => return Vec::new(),
        };
        let Some(dump) = selected else {
            return vec![Effect::info(object_commands::NOTHING_SELECTED)];
        };
        match command {
            Command::Enter => vec![Effect::open(Route::Dump(dump.path))],
            Command::Edit => vec![Effect::EditFile(dump.path)],
            _ => vec![Effect::dialog(removal(dump))],
        }
    }

    fn take(&mut self, data: DumpsData) -> Vec<Effect> {
        match data {
            DumpsData::Listed(all) => {
                // The last list stays if the directory cannot be read any more.
                let selected = self.selected().map(|dump| dump.path);
                self.all = Some(all);
                let at =
                    selected.and_then(|path| self.visible_dumps().iter().position(|dump| dump.path == path));
                if let Some(at) = at {
                    self.cursor.set_line(at);
                }
                Vec::new()
            }
            DumpsData::Remove(path) => vec![Effect::task("remove", move |out| async move {
                let removed = base::task::blocking(move || screen_dumps::remove(&path).map(|()| path)).await;
                out.data(DumpsData::Removed(removed.unwrap_or_else(|error| Err(error.to_string())))).await;
            })],
            DumpsData::Removed(Ok(path)) => {
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                vec![Effect::done(format!("{} was removed", clean(&name))), self.list()]
            }
            DumpsData::Removed(Err(why)) => vec![Effect::failed(clean(&why).into_owned()), self.list()],
        }
    }
}

/// Creates the dialog that confirms the removal of a file.
fn removal(dump: Dump) -> Dialog {
    let name = clean(&dump.name()).into_owned();
    let place = clean(&dump.path.display().to_string()).into_owned();
    let path = dump.path;
    Dialog::new(format!("Remove {name}"), "Remove", move |_, _| {
        Ok(vec![Effect::send(DumpsData::Remove(path.clone()))])
    })
    .line(place)
    .warning("it cannot be restored")
}

impl View for DumpsScreen {
    fn title(&self, _cx: &Context<'_>) -> String {
        "Screen dumps".to_owned()
    }

    fn key_contexts(&self, _cx: &Context<'_>) -> Vec<KeyContext> {
        vec![KeyContext::Dumps, KeyContext::List]
    }

    fn refuses(&self, _cx: &Context<'_>, command: Command) -> Option<String> {
        if self.visible_dumps().is_empty() { object_commands::refuses_without_row(command) } else { None }
    }

    fn update(&mut self, _cx: &Context<'_>, message: ScreenMessage) -> Vec<Effect> {
        match message {
            ScreenMessage::Opened | ScreenMessage::Shown => vec![self.list()],
            ScreenMessage::Command(command) => self.command(command),
            ScreenMessage::Data(data) if data.peek::<FileEdited>().is_some() => vec![self.list()],
            ScreenMessage::Data(data) => data.take().map(|data| self.take(data)).unwrap_or_default(),
            _ => Vec::new(),
        }
    }

    fn view(&self, cx: &Context<'_>, frame: &mut Frame<'_>, area: Rect) {
        let theme = cx.theme;
        let width = usize::from(area.width);
        let shown = self.visible_dumps();
        let place = self.dir.display().to_string();
        let mut title = vec![
            Span::styled(" Screen dumps ", theme.frame.title),
            Span::styled(
                format!("{} ", tail(&clean(&place), width.saturating_sub(50).max(10))),
                theme.body.accent,
            ),
        ];
        if let Some(Ok(all)) = &self.all {
            let more = match (all.omitted, all.is_cut) {
                (0, false) => String::new(),
                (0, true) => "and more ".to_owned(),
                (left_out, is_cut) => {
                    format!(
                        "the newest; {}{} left out ",
                        grouped(left_out as u64),
                        if is_cut { "+" } else { "" }
                    )
                }
            };
            title.push(Span::styled(format!("{} {more}", grouped(shown.len() as u64)), theme.body.dim));
        }
        if !self.filter.is_empty() {
            title.push(Span::styled(format!("/{} ", clean(self.filter.text())), theme.status.pending));
        }
        let block = theme.block("").title_top(title_line(title, area.width));
        let inner = block.inner(area);
        frame.render_widget(block, area);
        let note = match &self.all {
            None => Some("reading…".to_owned()),
            Some(Err(why)) => Some(why.clone()),
            Some(Ok(all)) if all.files.is_empty() => {
                Some("nothing is saved yet: ctrl-s saves a table, a text or a log".to_owned())
            }
            Some(Ok(_)) if shown.is_empty() => Some("none matches".to_owned()),
            Some(Ok(_)) => None,
        };
        if let Some(note) = note {
            notice::draw_centered(&note, theme.body.dim, frame, inner);
            return;
        }
        let window = self.cursor.window(usize::from(inner.height), shown.len());
        let cursor = self.cursor.of(shown.len());
        // The mark, the size, the time and the age, with a space before each; on a narrow screen the age is enough.
        let has_time = usize::from(inner.width) >= 2 + NAME + 11 + 21 + 8;
        let time_width = if has_time { 21 } else { 0 };
        let name_width = usize::from(inner.width).saturating_sub(2 + 11 + time_width + 8).max(8);
        let lines = window.map(|at| {
            let dump = shown[at];
            let time = dump.at.filter(|_| has_time).map(|at| at.strftime("%Y-%m-%d %H:%M:%SZ").to_string());
            let time = time.unwrap_or_default();
            let age = dump.at.map_or_else(|| "<unknown>".to_owned(), |at| cx.age(at));
            let line = Line::from(vec![
                Span::raw(if at == cursor { "▸ " } else { "  " }),
                Span::raw(pad(&fit(&clean(&dump.name()), name_width), name_width)),
                Span::styled(
                    format!(" {:>10}{time:>time_width$} {age:>7}", format_size(dump.size)),
                    theme.body.dim,
                ),
            ]);
            if at == cursor { theme.chosen(line) } else { line }
        });
        frame.render_widget(Paragraph::new(lines.collect::<Vec<_>>()), inner);
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
