//! Directories of manifests on the user's disk, and a preview of applying them (`:dir`, `:apply`).
//!
//! Nothing is applied without confirmation: the dialog shows the result of a dry run for each object.

mod plan;

use std::path::{Path, PathBuf};

use manifest::Document;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::View;
use crate::object_commands;
use base::sort::SliceOrder;
use console_data::context::Context;
use console_data::message::{FileEdited, ScreenMessage};
use console_data::resource::ObjectRef;
use console_operations::effect::{Effect, FilesRoute, Route};
use console_operations::operations;
use console_toolkit::command::{Command, KeyContext};
use console_toolkit::search::Filter;
use console_toolkit::text::{clean, fit, format_size, grouped, pad, tail};
use console_toolkit::widget::cursor::Cursor;
use console_toolkit::widget::notice;
use console_toolkit::widget::title::title_line;
use plan::PlannedObject;

/// Maximum number of listed entries of a directory.
const MAX_ENTRIES: usize = 2_000;

/// A directory or a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The name; `..` for the parent directory.
    pub name: String,
    /// True for a directory.
    pub is_dir: bool,
    /// The size in bytes.
    pub size: u64,
}

/// The content of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// The canonical path.
    pub dir: PathBuf,
    /// The entries, directories first.
    pub entries: Vec<Entry>,
    /// True if the directory has more entries.
    pub cut: bool,
    /// The entry that the cursor starts on.
    pub at: Option<String>,
}

/// The operation that manifests are read for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Apply the objects.
    Apply,
    /// Delete the objects.
    Delete,
}

/// Results of the screen's tasks.
#[derive(Debug)]
pub enum FilesData {
    /// The content of a directory.
    Listed(Result<Listing, String>),
    /// The parsed manifests, and the errors in others.
    Read(PathBuf, Purpose, Vec<Document>, Vec<String>),
    /// The result of the dry run.
    Tried(PathBuf, Vec<PlannedObject>),
    /// The canonical path of a file to show, or why it does not exist.
    Look(Result<PathBuf, String>),
    /// The objects that exist, and the errors of lookups that failed.
    Found(Vec<ObjectRef>, Vec<String>),
}

/// The screen that lists a directory.
#[derive(Debug)]
pub struct Files {
    route: FilesRoute,
    listing: Option<Result<Listing, String>>,
    cursor: Cursor,
    filter: Filter,
    /// The pending request, shown in the frame.
    busy: Option<String>,
}

impl Files {
    /// Creates the screen for a directory, or for the directory of a file.
    pub(crate) fn new(route: FilesRoute) -> Self {
        Self { route, listing: None, cursor: Cursor::default(), filter: Filter::default(), busy: None }
    }

    /// Returns the current directory, or the one being loaded.
    pub(crate) fn directory(&self) -> &std::path::Path {
        match &self.listing {
            Some(Ok(listing)) => &listing.dir,
            _ => &self.route.path,
        }
    }

    fn list(path: PathBuf) -> Effect {
        Effect::task("list", move |out| async move {
            let read = base::task::blocking(move || list(&path)).await;
            out.data(FilesData::Listed(read.unwrap_or_else(|error| Err(error.to_string())))).await;
        })
    }

    /// Reads the directory again, with the cursor on the file at `path` if that still exists.
    fn list_after(&self, path: PathBuf) -> Effect {
        let dir = match &self.listing {
            Some(Ok(listing)) => listing.dir.clone(),
            _ => self.route.path.clone(),
        };
        Effect::task("list", move |out| async move {
            let read = base::task::blocking(move || list(&path).or_else(|_| list(&dir))).await;
            out.data(FilesData::Listed(read.unwrap_or_else(|error| Err(error.to_string())))).await;
        })
    }

    /// Opens the text of a file; symbolic links are resolved.
    fn look(path: PathBuf) -> Effect {
        Effect::task("look", move |out| async move {
            let path_text = path.display().to_string();
            let found = base::task::blocking(move || std::fs::canonicalize(path)).await;
            let found = found.map_err(std::io::Error::other).flatten();
            out.data(FilesData::Look(found.map_err(|error| format!("{path_text}: {error}")))).await;
        })
    }

    fn read(&mut self, path: PathBuf, purpose: Purpose) -> Vec<Effect> {
        self.busy = Some(format!("reading {}…", path.display()));
        vec![Effect::task("plan", move |out| async move {
            let read = base::task::blocking(move || {
                let (documents, errors) = read(&path);
                (path, documents, errors)
            });
            if let Ok((path, documents, errors)) = read.await {
                out.data(FilesData::Read(path, purpose, documents, errors)).await;
            }
        })]
    }

    fn visible_entries(&self) -> Vec<&Entry> {
        let Some(Ok(listing)) = &self.listing else { return Vec::new() };
        listing.entries.iter().filter(|entry| self.filter.matches(&entry.name)).collect()
    }

    fn selected_path(&self) -> Option<(PathBuf, bool)> {
        let Some(Ok(listing)) = &self.listing else { return None };
        let shown = self.visible_entries();
        let entry = shown.get(self.cursor.of(shown.len()))?;
        Some((listing.dir.join(&entry.name), entry.is_dir))
    }

    fn command(&mut self, cx: &Context<'_>, command: Command) -> Vec<Effect> {
        let lines = self.visible_entries().len();
        if self.cursor.command(command, lines) {
            return Vec::new();
        }
        match command {
            Command::Refresh => {
                if let Some(Ok(listing)) = &self.listing {
                    return vec![Self::list(listing.dir.clone())];
                }
                return vec![Self::list(self.route.path.clone())];
            }
            Command::Left => {
                if let Some(Ok(listing)) = &self.listing
                    && listing.dir.parent().is_some()
                {
                    // The cursor moves to the directory that the user leaves.
                    return vec![Self::list(listing.dir.join(".."))];
                }
            }
            Command::Enter | Command::Right => match self.selected_path() {
                Some((path, true)) => return vec![Self::list(path)],
                Some((path, false)) if command == Command::Enter => {
                    return self.request_read(cx, path, Purpose::Apply);
                }
                _ => {}
            },
            Command::Edit | Command::Yaml => {
                return match self.selected_path() {
                    Some((path, false)) if command == Command::Yaml => vec![Self::look(path)],
                    Some((path, false)) => vec![Effect::EditFile(path)],
                    Some((_, true)) => {
                        vec![Effect::info("that is a directory: enter opens it")]
                    }
                    None => vec![Effect::info(object_commands::NOTHING_SELECTED)],
                };
            }
            Command::FilesApply | Command::Delete => {
                let purpose = if command == Command::FilesApply { Purpose::Apply } else { Purpose::Delete };
                return match self.selected_path() {
                    Some((path, _)) if path.ends_with("..") => {
                        vec![Effect::info("that is the parent directory: enter opens it")]
                    }
                    Some((path, _)) => self.request_read(cx, path, purpose),
                    None => vec![Effect::info(object_commands::NOTHING_SELECTED)],
                };
            }
            _ => {}
        }
        Vec::new()
    }

    fn request_read(&mut self, cx: &Context<'_>, path: PathBuf, purpose: Purpose) -> Vec<Effect> {
        if cx.read_only {
            return vec![Effect::failed("read-only: manifests change the cluster")];
        }
        self.read(path, purpose)
    }

    fn listed(&mut self, cx: &Context<'_>, read: Result<Listing, String>) -> Vec<Effect> {
        let applies = std::mem::take(&mut self.route.apply);
        match read {
            Ok(listing) => {
                self.filter = Filter::default();
                let at = listing.at.as_ref();
                let at = at.and_then(|at| listing.entries.iter().position(|one| one.name == *at));
                self.cursor.set_line(at.unwrap_or(0));
                self.listing = Some(Ok(listing));
            }
            // The current list stays if another directory cannot be opened.
            Err(error) if matches!(self.listing, Some(Ok(_))) => return vec![Effect::failed(error)],
            Err(error) => self.listing = Some(Err(error)),
        }
        match (applies, &self.listing) {
            (true, Some(Ok(listing))) => {
                let path = listing.at.as_ref().map_or(listing.dir.clone(), |at| listing.dir.join(at));
                self.request_read(cx, path, Purpose::Apply)
            }
            _ => Vec::new(),
        }
    }

    fn take(&mut self, cx: &Context<'_>, data: FilesData) -> Vec<Effect> {
        if !matches!(data, FilesData::Listed(_) | FilesData::Look(_)) {
            self.busy = None;
        }
        match data {
            FilesData::Listed(read) => self.listed(cx, read),
            FilesData::Read(path, purpose, documents, mut errors) => {
                let targets = plan::plan_targets(cx, documents, &mut errors);
                if !errors.is_empty() || targets.is_empty() {
                    if errors.is_empty() {
                        errors.push(format!("{}: the file has no objects", path.display()));
                    }
                    return vec![Effect::failed(plan::listed(&errors))];
                }
                self.busy = Some("running a dry run on the server…".to_owned());
                vec![match purpose {
                    Purpose::Apply => Effect::task("plan", move |out| async move {
                        let planned = plan::try_all(&out.client(), targets).await;
                        out.data(FilesData::Tried(path, planned)).await;
                    }),
                    Purpose::Delete => Effect::task("plan", move |out| async move {
                        let (found, errors) = plan::find_all(&out.client(), targets).await;
                        out.data(FilesData::Found(found, errors)).await;
                    }),
                }]
            }
            FilesData::Look(Ok(path)) => vec![Effect::open(Route::Dump(path))],
            FilesData::Look(Err(why)) => vec![Effect::failed(clean(&why).into_owned())],
            FilesData::Tried(path, planned) => plan::confirm_apply(&path, planned),
            FilesData::Found(found, errors) => {
                let mut effects = Vec::new();
                if !errors.is_empty() {
                    effects.push(Effect::failed(plan::listed(&errors)));
                }
                if found.is_empty() && errors.is_empty() {
                    effects.push(Effect::info("none of its objects exist"));
                } else if !found.is_empty() {
                    effects.push(Effect::dialog(operations::delete::dialog(found, 0)));
                }
                effects
            }
        }
    }
}

impl View for Files {
    fn title(&self, _cx: &Context<'_>) -> String {
        match &self.listing {
            Some(Ok(listing)) => {
                let name = listing.dir.file_name().map(|name| name.to_string_lossy().into_owned());
                format!("dir {}", clean(&name.unwrap_or_else(|| "/".to_owned())))
            }
            _ => "dir".to_owned(),
        }
    }

    fn key_contexts(&self, _cx: &Context<'_>) -> Vec<KeyContext> {
        vec![KeyContext::Files, KeyContext::List]
    }

    fn refuses(&self, _cx: &Context<'_>, command: Command) -> Option<String> {
        if self.visible_entries().is_empty() { object_commands::refuses_without_row(command) } else { None }
    }

    fn update(&mut self, cx: &Context<'_>, message: ScreenMessage) -> Vec<Effect> {
        match message {
            ScreenMessage::Opened => vec![Self::list(self.route.path.clone())],
            ScreenMessage::Command(command) => self.command(cx, command),
            ScreenMessage::Data(data) if data.peek::<FileEdited>().is_some() => {
                data.take().map(|FileEdited(path)| self.list_after(path)).into_iter().collect()
            }
            ScreenMessage::Data(data) => match data.take() {
                Some(data) => self.take(cx, data),
                None => Vec::new(),
            },
            _ => Vec::new(),
        }
    }

    fn view(&self, cx: &Context<'_>, frame: &mut Frame<'_>, area: Rect) {
        let theme = cx.theme;
        let width = usize::from(area.width);
        let (place, cut) = match &self.listing {
            Some(Ok(listing)) => (listing.dir.display().to_string(), listing.cut),
            _ => (self.route.path.display().to_string(), false),
        };
        let mut title = vec![
            Span::styled(" Manifests ", theme.frame.title),
            Span::styled(
                format!("{} ", tail(&clean(&place), width.saturating_sub(40).max(10))),
                theme.body.accent,
            ),
        ];
        if cut {
            title.push(Span::styled(format!("the first {} ", grouped(MAX_ENTRIES as u64)), theme.body.dim));
        }
        if let Some(busy) = &self.busy {
            title.push(Span::styled(format!("{} ", fit(&clean(busy), 40)), theme.body.dim));
        }
        let block = theme.block("").title_top(title_line(title, area.width));
        let inner = block.inner(area);
        frame.render_widget(block, area);
        let shown = self.visible_entries();
        let note = match &self.listing {
            None => Some("reading…".to_owned()),
            Some(Err(error)) => Some(error.clone()),
            Some(Ok(_)) if shown.is_empty() && !self.filter.is_empty() => Some("none matches".to_owned()),
            Some(Ok(listing)) if listing.entries.iter().all(|entry| entry.name == "..") => {
                Some("no directory and no *.yaml, *.yml or *.json file here".to_owned())
            }
            Some(Ok(_)) => None,
        };
        if let Some(note) = note {
            notice::draw_centered(&note, theme.body.dim, frame, inner);
        }
        let window = self.cursor.window(usize::from(inner.height), shown.len());
        let cursor = self.cursor.of(shown.len());
        let name_width = usize::from(inner.width).saturating_sub(16).max(8);
        let lines = window.map(|at| {
            let entry = shown[at];
            let name = if entry.is_dir { format!("{}/", entry.name) } else { entry.name.clone() };
            let size = if entry.is_dir { String::new() } else { format_size(entry.size) };
            let lead = if at == cursor { "▸ " } else { "  " };
            let name = fit(&clean(&name), name_width).into_owned();
            let line = Line::from(vec![
                Span::raw(lead),
                Span::styled(
                    pad(&name, name_width),
                    if entry.is_dir { theme.body.accent } else { Style::default() },
                ),
                Span::styled(format!("{size:>10}"), theme.body.dim),
            ]);
            line.style(if at == cursor { theme.table.cursor } else { Style::default() })
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

/// Reads a directory, or the directory of a file. Blocks.
fn list(path: &Path) -> Result<Listing, String> {
    let with_path = |error: std::io::Error| format!("{}: {error}", path.display());
    let from = (path.file_name().is_none()).then(|| path.parent().map(Path::to_owned)).flatten();
    let whole = std::fs::canonicalize(path).map_err(with_path)?;
    let (dir, mut at) = if whole.is_dir() {
        (whole, None)
    } else {
        let name = whole.file_name().map(|name| name.to_string_lossy().into_owned());
        (whole.parent().unwrap_or(&whole).to_owned(), name)
    };
    // `DIR/..` is the parent directory, with the cursor on `DIR`.
    if let Some(left) = from.and_then(|from| from.file_name().map(|name| name.to_string_lossy().into_owned()))
    {
        at = Some(left);
    }
    let mut entries = Vec::new();
    let mut cut = false;
    for found in std::fs::read_dir(&dir).map_err(with_path)? {
        let Ok(found) = found else { continue };
        // Names that are not UTF-8 cannot be displayed unambiguously.
        let Ok(name) = found.file_name().into_string() else { continue };
        let Ok(about) = std::fs::metadata(found.path()) else { continue };
        let is_manifest =
            about.is_file() && [".yaml", ".yml", ".json"].iter().any(|ending| name.ends_with(ending));
        if name.starts_with('.') || !(about.is_dir() || is_manifest) {
            continue;
        }
        if entries.len() >= MAX_ENTRIES {
            cut = true;
            break;
        }
        entries.push(Entry { name, is_dir: about.is_dir(), size: about.len() });
    }
    entries.order_by(|a, b| (!a.is_dir, &a.name).cmp(&(!b.is_dir, &b.name)));
    if dir.parent().is_some() {
        entries.insert(0, Entry { name: "..".to_owned(), is_dir: true, size: 0 });
    }
    Ok(Listing { dir, entries, cut, at })
}

/// Reads the manifests of a file, or of all files of a directory. Blocks.
fn read(path: &Path) -> (Vec<Document>, Vec<String>) {
    // Reading a pipe or a device would never end.
    match std::fs::metadata(path) {
        Ok(about) if about.is_file() || about.is_dir() => {}
        Ok(_) => return (Vec::new(), vec![format!("{}: not a regular file", path.display())]),
        Err(error) => return (Vec::new(), vec![format!("{}: {error}", path.display())]),
    }
    let (documents, errors) = manifest::read_all(&[path.display().to_string()], false);
    (documents, errors.iter().map(ToString::to_string).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_lists_directories_and_manifests_and_nothing_else_con_3() {
        let dir = tempfile::tempdir().expect("a directory");
        for name in ["b.yaml", "a.yml", "c.json", "notes.txt", ".hidden.yaml"] {
            std::fs::write(dir.path().join(name), "x").expect("written");
        }
        std::fs::create_dir(dir.path().join("zoo")).expect("made");
        let names = |listing: &Listing| {
            listing.entries.iter().map(|entry| entry.name.clone()).collect::<Vec<_>>().join(" ")
        };
        let listing = list(dir.path()).expect("read");
        assert_eq!(names(&listing), ".. zoo a.yml b.yaml c.json");
        assert_eq!(listing.at, None);
        let of_file = list(&dir.path().join("b.yaml")).expect("read");
        assert_eq!((names(&of_file), of_file.at.as_deref()), (names(&listing), Some("b.yaml")));
        let up = list(&dir.path().join("zoo").join("..")).expect("read");
        assert_eq!(
            (&up.dir, up.at.as_deref()),
            (&listing.dir, Some("zoo")),
            "the cursor is on what was left"
        );
        assert!(list(&dir.path().join("none")).expect_err("it is not there").contains("none"));
    }

    #[test]
    fn a_path_that_is_no_regular_file_is_not_read_con_3() {
        let (documents, errors) = read(Path::new("/dev/zero"));
        assert!(documents.is_empty());
        assert_eq!(errors, ["/dev/zero: not a regular file"]);
    }
}
