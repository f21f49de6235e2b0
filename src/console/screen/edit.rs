//! The editor: YAML of an object, checked by the server before it is saved.
//!
//! Saving first asks the server for a dry run; its errors are shown at their line. Then the difference
//! is shown, then it is saved with the resourceVersion it was read at, so that nobody's change is
//! overwritten unseen: a conflict is told and the newer version can be fetched beside what was typed.

use crossterm::event::{KeyCode, KeyEvent};
use kube::api::PostParams;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Wrap};
use serde_json::Value;
use similar::{ChangeTag, TextDiff};
use tui_textarea::TextArea;

use super::View;
use crate::console::action::{Action, Mutation, error_text};
use crate::console::command::{Command, Where};
use crate::console::context::Context;
use crate::console::dialog::Dialog;
use crate::console::effect::Effect;
use crate::console::message::{Data, ScreenMessage};
use crate::console::resource::ObjectRef;
use crate::console::text::clean;
use crate::console::toast::Toast;
use crate::console::widget::scroll::Scroll;
use crate::console::yaml_text;

/// What its tasks send it.
#[derive(Debug)]
pub enum Loaded {
    /// The object as the server has it.
    Object(Box<Value>),
    /// The text that came back from `$EDITOR`.
    External(String),
    /// The server would take it.
    Checked,
    /// The server would refuse it.
    Refused(String),
    /// It was saved; the new version.
    Saved(Box<Value>),
    /// Someone else was faster.
    Conflict(String),
    /// It could not be had or saved.
    Failed(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Stage {
    Loading,
    Typing,
    Checking,
    Reviewing,
    Saving,
}

/// The screen.
#[derive(Debug)]
pub struct Edit {
    target: ObjectRef,
    stage: Stage,
    before: String,
    revision: Option<Value>,
    area: TextArea<'static>,
    problem: Option<(Option<usize>, String)>,
    review: Scroll,
}

impl Edit {
    /// Of this object.
    pub fn new(target: ObjectRef) -> Self {
        Self {
            target,
            stage: Stage::Loading,
            before: String::new(),
            revision: None,
            area: TextArea::default(),
            problem: None,
            review: Scroll::default(),
        }
    }

    fn load(&self) -> Effect {
        let target = self.target.clone();
        Effect::task("load", move |out| async move {
            let loaded = match target.api(out.client()).get(&target.name).await {
                Ok(object) => Loaded::Object(Box::new(serde_json::to_value(object).unwrap_or_default())),
                Err(error) => Loaded::Failed(error_text(&error)),
            };
            out.data(Data::Edit(loaded)).await;
        })
    }

    fn text(&self) -> String {
        self.area.lines().join("\n") + "\n"
    }

    fn is_changed(&self) -> bool {
        self.stage != Stage::Loading && self.text() != self.before
    }

    fn set_text(&mut self, text: &str) {
        let cursor = self.area.cursor();
        self.area = TextArea::new(text.lines().map(str::to_owned).collect());
        self.area.move_cursor(tui_textarea::CursorMove::Jump(cursor.0 as u16, cursor.1 as u16));
    }

    fn take(&mut self, mut object: Value) {
        self.revision = object.pointer("/metadata/resourceVersion").cloned();
        if let Some(meta) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            meta.remove("managedFields");
        }
        // What the server owns is no use here, and status is not saved by this door.
        if let Some(object) = object.as_object_mut() {
            object.remove("status");
        }
        let text = yaml_text::write(&object);
        if self.stage == Stage::Loading {
            self.set_text(&text);
        }
        self.before = text;
        self.stage = Stage::Typing;
    }

    /// The typed text as an object to send, or what is wrong with it.
    fn parsed(&self) -> Result<Value, (Option<usize>, String)> {
        let mut value = yaml_text::read(&self.text())?;
        let name = value.pointer("/metadata/name").and_then(Value::as_str);
        if name != Some(&self.target.name) {
            return Err((None, format!("metadata.name must stay {}", self.target.name)));
        }
        if let (Some(revision), Some(meta)) =
            (&self.revision, value.get_mut("metadata").and_then(Value::as_object_mut))
        {
            meta.insert("resourceVersion".into(), revision.clone());
        }
        Ok(value)
    }

    fn check(&mut self) -> Vec<Effect> {
        if !self.is_changed() {
            return vec![Effect::Toast(Toast::note("nothing was changed"))];
        }
        let body = match self.parsed() {
            Ok(body) => body,
            Err(problem) => {
                self.complain(problem);
                return Vec::new();
            }
        };
        self.stage = Stage::Checking;
        self.problem = None;
        let target = self.target.clone();
        vec![Effect::task("check", move |out| async move {
            let loaded = match serde_json::from_value(body) {
                Ok(object) => {
                    let params = PostParams { dry_run: true, ..PostParams::default() };
                    match target.api(out.client()).replace(&target.name, &params, &object).await {
                        Ok(_) => Loaded::Checked,
                        Err(kube::Error::Api(status)) if status.code == 409 => {
                            Loaded::Conflict(status.message.clone())
                        }
                        Err(error) => Loaded::Refused(error_text(&error)),
                    }
                }
                Err(error) => Loaded::Refused(error.to_string()),
            };
            out.data(Data::Edit(loaded)).await;
        })]
    }

    fn save(&mut self) -> Vec<Effect> {
        let (Ok(body), Ok(old)) = (self.parsed(), yaml_text::read(&self.before)) else { return Vec::new() };
        self.stage = Stage::Saving;
        let target = self.target.clone();
        let action = action(&target, body, old);
        vec![Effect::task("save", move |out| async move {
            let loaded = match out.act(action).await {
                Ok(object) => Loaded::Saved(Box::new(object)),
                Err(kube::Error::Api(status)) if status.code == 409 => {
                    Loaded::Conflict(status.message.clone())
                }
                Err(error) => Loaded::Failed(error_text(&error)),
            };
            out.data(Data::Edit(loaded)).await;
        })]
    }

    fn complain(&mut self, (line, text): (Option<usize>, String)) {
        let line = line.or_else(|| self.line_of(&text));
        if let Some(line) = line {
            self.area.move_cursor(tui_textarea::CursorMove::Jump(line.saturating_sub(1) as u16, 0));
        }
        self.problem = Some((line, text));
    }

    /// The line a server's error is about: the last name of its field path that the text has.
    fn line_of(&self, error: &str) -> Option<usize> {
        let path = error.split(": ").find(|part| part.contains('.') && !part.contains(' '))?;
        let fields = path.split(['.', '[', ']']).rev().filter(|part| !part.is_empty());
        for field in fields {
            let key = format!("{field}:");
            let line = self
                .area
                .lines()
                .iter()
                .position(|line| line.trim_start_matches([' ', '-']).starts_with(&key));
            if let Some(line) = line {
                return Some(line + 1);
            }
        }
        None
    }

    fn leave(&self) -> Vec<Effect> {
        if !self.is_changed() {
            return vec![Effect::Back];
        }
        let dialog = Dialog::new("Leave the editor", "Discard", |_, _| Ok(vec![Effect::Back]))
            .line(format!("The changes of {} are not saved.", self.target.describe()));
        vec![Effect::Ask(Box::new(dialog))]
    }

    fn loaded(&mut self, loaded: Loaded) -> Vec<Effect> {
        match loaded {
            Loaded::Object(object) => self.take(*object),
            Loaded::External(text) => {
                self.set_text(&text);
                return self.check();
            }
            Loaded::Checked => self.stage = Stage::Reviewing,
            Loaded::Refused(why) => {
                self.stage = Stage::Typing;
                self.complain((None, why));
            }
            Loaded::Saved(_) => return vec![Effect::Back],
            Loaded::Conflict(why) => {
                // What was typed stays; saving again goes on top of what is there now.
                self.stage = Stage::Typing;
                self.problem = Some((
                    None,
                    format!("{why}\nnow at the newer version: save again to see the difference to it"),
                ));
                return vec![self.load()];
            }
            Loaded::Failed(why) => {
                if self.stage != Stage::Loading {
                    self.stage = Stage::Typing;
                }
                self.problem = Some((None, why));
            }
        }
        Vec::new()
    }

    fn key(&mut self, key: KeyEvent) -> Vec<Effect> {
        match self.stage {
            Stage::Reviewing => match key.code {
                KeyCode::Enter | KeyCode::Char('y') => return self.save(),
                KeyCode::Char('n' | 'q') => self.stage = Stage::Typing,
                KeyCode::Down | KeyCode::Char('j') => {
                    self.review.command(Command::Down);
                }
                KeyCode::Up | KeyCode::Char('k') => {
                    self.review.command(Command::Up);
                }
                _ => {}
            },
            Stage::Typing if self.area.input(key) => self.problem = None,
            _ => {}
        }
        Vec::new()
    }
}

/// Replaces the object; its inverse puts the old one back.
fn action(target: &ObjectRef, body: Value, old: Value) -> Action {
    let kubectl =
        format!("kubectl edit {}/{}{}", target.kind.kubectl_name(), target.name, target.kubectl_namespace());
    let replace = |title: String, body: Value| Action {
        title,
        target: target.clone(),
        kubectl: kubectl.clone(),
        mutation: Mutation::Replace { target: target.clone(), body },
        inverse: None,
        quiet: false,
    };
    let mut back = old;
    if let Some(meta) = back.get_mut("metadata").and_then(Value::as_object_mut) {
        meta.remove("resourceVersion");
    }
    let mut forward = replace(format!("edit {}", target.describe()), body);
    forward.inverse = Some(Box::new(replace(format!("take back the edit of {}", target.describe()), back)));
    forward
}

impl View for Edit {
    fn title(&self, _cx: &Context<'_>) -> String {
        format!("{} · edit", self.target.name)
    }

    fn places(&self, _cx: &Context<'_>) -> Vec<Where> {
        vec![Where::Editor]
    }

    fn takes_all_keys(&self) -> bool {
        true
    }

    fn update(&mut self, _cx: &Context<'_>, message: ScreenMessage) -> Vec<Effect> {
        match message {
            ScreenMessage::Opened => vec![self.load()],
            ScreenMessage::Key(key) => self.key(key),
            ScreenMessage::Paste(text) if self.stage == Stage::Typing => {
                self.area.insert_str(text);
                Vec::new()
            }
            ScreenMessage::Command(Command::EditorLeave) if self.stage == Stage::Reviewing => {
                self.stage = Stage::Typing;
                Vec::new()
            }
            ScreenMessage::Command(Command::EditorLeave) => self.leave(),
            ScreenMessage::Command(Command::EditorSave) => match self.stage {
                Stage::Typing => self.check(),
                Stage::Reviewing => self.save(),
                _ => Vec::new(),
            },
            ScreenMessage::Command(Command::EditorExternal) if self.stage == Stage::Typing => {
                vec![Effect::Editor(self.text())]
            }
            ScreenMessage::Data(Data::Edit(loaded)) => self.loaded(loaded),
            _ => Vec::new(),
        }
    }

    fn view(&self, cx: &Context<'_>, frame: &mut Frame<'_>, area: Rect) {
        let theme = cx.theme;
        let word = match self.stage {
            Stage::Loading => "loading…",
            Stage::Typing if self.is_changed() => "changed",
            Stage::Typing => "unchanged",
            Stage::Checking => "the server checks it…",
            Stage::Reviewing => "the server would take it · <enter> saves · <esc> goes on editing",
            Stage::Saving => "saving…",
        };
        let title = Line::from(vec![
            Span::styled(format!(" {} ", clean(&self.target.describe())), theme.frame.title),
            Span::styled("edit ", theme.body.accent),
            Span::styled(format!("{word} "), theme.body.dim),
        ]);
        let rows = self.problem.as_ref().map_or(0, |(_, text)| {
            let width = usize::from(area.width.saturating_sub(6)).max(1);
            text.lines().map(|line| line.len().max(1).div_ceil(width)).sum::<usize>().min(6) + 1
        });
        let block = theme.block_focused("").title_top(title);
        let inner = block.inner(area);
        frame.render_widget(block, area);
        let [body, problem] =
            Layout::vertical([Constraint::Min(3), Constraint::Length(rows as u16)]).areas(inner);
        if self.stage == Stage::Reviewing {
            self.draw_review(cx, frame, body);
        } else {
            self.draw_text(cx, frame, body);
        }
        if let Some((line, text)) = &self.problem {
            let at = line.map(|line| format!("line {line}: ")).unwrap_or_default();
            let mut lines = Vec::new();
            for (index, part) in text.lines().enumerate() {
                let mark = if index == 0 { format!("✖ {at}") } else { "  ".into() };
                lines.push(Line::styled(format!("{mark}{}", clean(part)), theme.prompt.error));
            }
            frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: false }), problem);
        }
    }
}

impl Edit {
    fn draw_text(&self, cx: &Context<'_>, frame: &mut Frame<'_>, area: Rect) {
        let theme = cx.theme;
        let height = usize::from(area.height).max(1);
        let cursor = self.area.cursor();
        let (row, column) = (cursor.0, cursor.1);
        let lines = self.area.lines();
        let digits = lines.len().to_string().len().max(2);
        let room = usize::from(area.width).saturating_sub(digits + 3);
        // The cursor's line stays in the middle third where there is text enough around it.
        let top = row.saturating_sub(height / 2).min(lines.len().saturating_sub(height));
        let left = (column + 1).saturating_sub(room);
        let wrong = self.problem.as_ref().and_then(|(line, _)| *line);
        let shown = lines.iter().enumerate().skip(top).take(height).map(|(number, line)| {
            let bad = wrong == Some(number + 1);
            let gutter = if bad { theme.status.failed } else { theme.body.dim };
            let mark = if bad { "✖" } else { " " };
            let mut spans = vec![Span::styled(format!("{:>digits$}{mark} ", number + 1), gutter)];
            let cut: String = line.chars().skip(left).collect();
            spans.extend(yaml_text::colour(&cut, theme).spans);
            let drawn = Line::from(spans);
            if number == row {
                drawn.patch_style(Style { bg: theme.table.cursor.bg, ..Style::default() })
            } else {
                drawn
            }
        });
        frame.render_widget(Paragraph::new(shown.collect::<Vec<_>>()), area);
        if self.stage == Stage::Typing {
            let before: String = lines
                .get(row)
                .map(|line| line.chars().skip(left).take(column - left).collect())
                .unwrap_or_default();
            let x = area.x + (digits + 2 + unicode_width::UnicodeWidthStr::width(before.as_str())) as u16;
            frame.set_cursor_position((x.min(area.right().saturating_sub(1)), area.y + (row - top) as u16));
        }
    }

    fn draw_review(&self, cx: &Context<'_>, frame: &mut Frame<'_>, area: Rect) {
        let theme = cx.theme;
        let text = self.text();
        let diff = TextDiff::from_lines(self.before.as_str(), text.as_str());
        let mut lines = Vec::new();
        for group in diff.grouped_ops(3) {
            if !lines.is_empty() {
                lines.push(Line::styled("  ⋯", theme.body.dim));
            }
            for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
                let (sign, style) = match change.tag() {
                    ChangeTag::Delete => ("- ", theme.diff.removed),
                    ChangeTag::Insert => ("+ ", theme.diff.added),
                    ChangeTag::Equal => ("  ", theme.body.dim),
                };
                lines.push(Line::styled(
                    format!("{sign}{}", clean(change.value().trim_end_matches('\n'))),
                    style,
                ));
            }
        }
        let top = self.review.window(usize::from(area.height), lines.len());
        let shown: Vec<Line<'_>> = lines.into_iter().skip(top).take(usize::from(area.height)).collect();
        frame.render_widget(Paragraph::new(shown), area);
    }
}

/// Runs `$VISUAL` or `$EDITOR` on a text, in a file of our own, and returns what was saved.
pub async fn external(text: String) -> Result<String, String> {
    let editor = std::env::var("VISUAL").or_else(|_| std::env::var("EDITOR")).unwrap_or_else(|_| "vi".into());
    let name = format!("podium-edit-{}.yaml", uuid::Uuid::new_v4());
    let path = std::env::temp_dir().join(name);
    let told = |error: std::io::Error| format!("{}: {error}", path.display());
    write_private(&path, &text).map_err(told)?;
    // The variable may hold arguments (`code --wait`), as every program that honours it allows.
    let status = tokio::process::Command::new("sh")
        .arg("-c")
        .arg(format!("{editor} \"$1\""))
        .arg("sh")
        .arg(&path)
        .status()
        .await;
    let edited = match status {
        Ok(status) if status.success() => std::fs::read_to_string(&path).map_err(told),
        Ok(status) => Err(format!("{editor}: {status}; nothing was changed")),
        Err(error) => Err(format!("{editor}: {error}")),
    };
    // A file that cannot be removed is in the temporary directory and ours alone to read.
    let _ = std::fs::remove_file(&path);
    edited
}

fn write_private(path: &std::path::Path, text: &str) -> std::io::Result<()> {
    use std::io::Write as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())
}
