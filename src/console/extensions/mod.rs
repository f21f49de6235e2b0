//! What users bring: columns, plugins, hotkeys and aliases in the file formats of k9s, so that what one has goes on
//! working (CON-16).
//!
//! Files are read from the console's own configuration directory, and from that of k9s where `console.toml` asks for it
//! (`k9s = true`, or `k9s = "DIR"`); what is in the console's own goes before. They are read again when they change.
//! What cannot be read is told with file, line and key, and the rest is used.

mod aliases;
mod hotkeys;
mod plugins;
mod program;
mod shortcut;
mod variables;
mod views;

use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) use aliases::Aliases;
pub(crate) use hotkeys::HotKey;
pub(crate) use plugins::{Input, InputKind, Plugin};
pub use program::Run;
pub(crate) use program::{Place, Program, Told};
pub(crate) use variables::Variables;
pub(crate) use views::{Attributes, CustomColumn, CustomView, Finder, Order, Seen, Side};

use crate::catalogue::Catalogue;
use crate::resource::Kind;

/// The files that are read of a directory.
pub(crate) const FILES: [&str; 4] = ["views.yaml", "plugins.yaml", "hotkeys.yaml", "aliases.yaml"];
/// The directories in it whose files are read.
pub(crate) const DIRECTORIES: [&str; 1] = ["plugins"];
/// Files of such a directory at most.
const MOST: usize = 1_000;

/// Bytes of a file at most.
const LARGEST: u64 = 1 << 20;

/// Where the files are, the console's own directory first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sources(pub(crate) Vec<PathBuf>);

/// All that was read. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Extensions(Arc<Read>);

#[derive(Debug, Default)]
struct Read {
    directories: Vec<PathBuf>,
    views: Vec<CustomView>,
    plugins: Vec<Plugin>,
    hotkeys: Vec<HotKey>,
    aliases: Aliases,
    errors: Vec<String>,
}

impl Extensions {
    /// Reads all files; blocks.
    pub fn read(sources: &Sources) -> Self {
        let mut read = Read { directories: sources.0.clone(), ..Read::default() };
        for dir in &sources.0 {
            read.views(&dir.join("views.yaml"));
            read.plugins(&dir.join("plugins.yaml"));
            for path in read.files(&dir.join("plugins")) {
                read.plugins(&path);
            }
            read.hotkeys(&dir.join("hotkeys.yaml"));
            read.aliases(&dir.join("aliases.yaml"));
        }
        Self(Arc::new(read))
    }

    /// What could not be read.
    pub(crate) fn errors(&self) -> &[String] {
        &self.0.errors
    }

    /// Where all of it was read, also what others read there: skins.
    pub(crate) fn directories(&self) -> &[PathBuf] {
        &self.0.directories
    }

    /// The plugins, in the order of their names within each file.
    pub(crate) fn plugins(&self) -> &[Plugin] {
        &self.0.plugins
    }

    /// The hotkeys.
    pub(crate) fn hotkeys(&self) -> &[HotKey] {
        &self.0.hotkeys
    }

    /// The aliases.
    pub(crate) fn aliases(&self) -> &Aliases {
        &self.0.aliases
    }

    /// What is typed after `:`, with its first word in full where that is an alias.
    pub(crate) fn expand(&self, text: &str) -> String {
        aliases::expand(&self.0.aliases, text)
    }

    /// The columns of a kind in a namespace, or in all of them.
    pub(crate) fn view(
        &self,
        catalogue: &Catalogue,
        kind: &Kind,
        namespace: Option<&str>,
    ) -> Option<&CustomView> {
        views::find(&self.0.views, catalogue, kind, namespace)
    }

    /// Whether the columns of a kind read more of an object than its metadata.
    pub(crate) fn reads_whole_objects(&self, catalogue: &Catalogue, kind: &Kind) -> bool {
        views::reads_whole_objects(&self.0.views, catalogue, kind)
    }
}

impl Read {
    /// Adds what a file holds, but for what a file that was read before has under the same name.
    fn views(&mut self, path: &Path) {
        let Some(text) = self.text(path) else { return };
        let (views, errors) = views::parse(&text, &path.display().to_string());
        let known = self.views.len();
        for view in views {
            if !self.views[..known].iter().any(|old| old.is_called_as(&view)) {
                self.views.push(view);
            }
        }
        self.errors.extend(errors.iter().map(ToString::to_string));
    }

    /// The same of plugins.
    fn plugins(&mut self, path: &Path) {
        let Some(text) = self.text(path) else { return };
        let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        let (plugins, errors) = plugins::parse(&text, &path.display().to_string(), &stem);
        for plugin in plugins {
            if !self.plugins.iter().any(|old| old.name == plugin.name) {
                self.plugins.push(plugin);
            }
        }
        self.errors.extend(errors.iter().map(ToString::to_string));
    }

    /// The same of hotkeys.
    fn hotkeys(&mut self, path: &Path) {
        let Some(text) = self.text(path) else { return };
        let (hotkeys, errors) = hotkeys::parse(&text, &path.display().to_string());
        for hotkey in hotkeys {
            if !self.hotkeys.iter().any(|old| old.name == hotkey.name) {
                self.hotkeys.push(hotkey);
            }
        }
        self.errors.extend(errors.iter().map(ToString::to_string));
    }

    /// The same of aliases.
    fn aliases(&mut self, path: &Path) {
        let Some(text) = self.text(path) else { return };
        let (aliases, errors) = aliases::parse(&text, &path.display().to_string());
        for (word, stands_for) in aliases {
            self.aliases.entry(word).or_insert(stands_for);
        }
        self.errors.extend(errors.iter().map(ToString::to_string));
    }

    /// The YAML files of a directory and of those in it, in the order of their names.
    fn files(&mut self, dir: &Path) -> Vec<PathBuf> {
        let (mut open, mut files) = (vec![dir.to_owned()], Vec::new());
        while let Some(dir) = open.pop() {
            let Ok(entries) = std::fs::read_dir(&dir) else { continue };
            for entry in entries.flatten() {
                let path = entry.path();
                let is_yaml = path.extension().is_some_and(|end| end == "yaml" || end == "yml");
                // What a link leads to is read as a file alone, so that no circle is walked.
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    open.push(path);
                } else if is_yaml {
                    files.push(path);
                }
                if files.len() + open.len() >= MOST {
                    self.errors
                        .push(format!("{}: more than {MOST} files; the others are not read", dir.display()));
                    open.clear();
                    break;
                }
            }
        }
        files.sort();
        files
    }

    /// The text of a file, where there is one.
    fn text(&mut self, path: &Path) -> Option<String> {
        let place = path.display();
        match std::fs::metadata(path) {
            Ok(meta) if meta.len() > LARGEST => {
                self.errors.push(format!("{place}: larger than {} KiB", LARGEST >> 10));
                return None;
            }
            Ok(meta) if !meta.is_file() => {
                self.errors.push(format!("{place}: is no file"));
                return None;
            }
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
            Err(error) => {
                self.errors.push(format!("{place}: {error}"));
                return None;
            }
        }
        match std::fs::read_to_string(path) {
            Ok(text) => Some(text),
            Err(error) => {
                self.errors.push(format!("{place}: {error}"));
                None
            }
        }
    }
}
