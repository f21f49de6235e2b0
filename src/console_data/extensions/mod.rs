//! The user's extensions: columns, plugins, hotkeys and aliases in k9s' file formats, so that existing files continue
//! to work (CON-16).
//!
//! Files are read from the console's own configuration directory, and from k9s' if `console.toml` says so (`k9s =
//! true`, or `k9s = "DIR"`); the console's own take precedence. They are reloaded when they change. Errors are reported
//! with file, line and key, and the rest is used.

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
pub use hotkeys::HotKey;
pub use plugins::{Input, InputKind, Plugin};
pub use program::PluginRun;
pub use program::{BackgroundReport, Program, ProgramTarget};
pub use variables::Variables;
pub use views::Order;
pub(crate) use views::{
    Attributes, ColumnAlignment, ColumnSource, CustomColumn, CustomView, CustomVisibility,
};

use crate::catalogue::Catalogue;
use crate::resource::Kind;
use base::sort::SliceOrder;

/// The files that are read in a directory.
pub const FILES: [&str; 4] = ["views.yaml", "plugins.yaml", "hotkeys.yaml", "aliases.yaml"];
/// The subdirectories that are read.
pub const DIRECTORIES: [&str; 1] = ["plugins"];
/// The maximum number of files in a subdirectory.
const MAX_FILES: usize = 1_000;

/// The maximum size of a file in bytes.
const LARGEST: u64 = 1 << 20;

/// The directories with the files, the console's own first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sources(pub Vec<PathBuf>);

/// All extensions. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Extensions(Arc<LoadedExtensions>);

#[derive(Debug, Default)]
struct LoadedExtensions {
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
        let mut read = LoadedExtensions { directories: sources.0.clone(), ..LoadedExtensions::default() };
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

    /// Returns the errors of reading.
    pub fn errors(&self) -> &[String] {
        &self.0.errors
    }

    /// Returns the directories; themes read k9s' skins from them, too.
    pub fn directories(&self) -> &[PathBuf] {
        &self.0.directories
    }

    /// Returns the plugins, by name within each file.
    pub fn plugins(&self) -> &[Plugin] {
        &self.0.plugins
    }

    /// Returns the user's hotkeys.
    pub fn hotkeys(&self) -> &[HotKey] {
        &self.0.hotkeys
    }

    /// Returns the user's aliases.
    pub fn aliases(&self) -> &Aliases {
        &self.0.aliases
    }

    /// Expands the first word of a command if it is an alias.
    pub fn expand(&self, text: &str) -> String {
        aliases::expand(&self.0.aliases, text)
    }

    /// Returns the columns of a kind in a namespace, or in all namespaces.
    pub fn view(&self, catalogue: &Catalogue, kind: &Kind, namespace: Option<&str>) -> Option<&CustomView> {
        views::find(&self.0.views, catalogue, kind, namespace)
    }

    /// Reports whether the columns of a kind need more than an object's metadata.
    pub fn reads_whole_objects(&self, catalogue: &Catalogue, kind: &Kind) -> bool {
        views::reads_whole_objects(&self.0.views, catalogue, kind)
    }
}

impl LoadedExtensions {
    /// Adds the views of a file, except for those with the key of a view that was read before.
    fn views(&mut self, path: &Path) {
        let Some(text) = self.text(path) else { return };
        let (views, errors) = views::parse(&text, &path.display().to_string());
        let known = self.views.len();
        for view in views {
            if !self.views[..known].iter().any(|old| old.has_same_key(&view)) {
                self.views.push(view);
            }
        }
        self.errors.extend(errors.iter().map(ToString::to_string));
    }

    /// Adds the plugins of a file, except for those with the name of a plugin that was read before.
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

    /// Adds the hotkeys of a file, except for those with the name of a hotkey that was read before.
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

    /// Adds the aliases of a file, except for those with the name of an alias that was read before.
    fn aliases(&mut self, path: &Path) {
        let Some(text) = self.text(path) else { return };
        let (aliases, errors) = aliases::parse(&text, &path.display().to_string());
        for (word, stands_for) in aliases {
            self.aliases.entry(word).or_insert(stands_for);
        }
        self.errors.extend(errors.iter().map(ToString::to_string));
    }

    /// Returns the YAML files of a directory and its subdirectories, by name.
    fn files(&mut self, dir: &Path) -> Vec<PathBuf> {
        let (mut open, mut files) = (vec![dir.to_owned()], Vec::new());
        while let Some(dir) = open.pop() {
            let Ok(entries) = std::fs::read_dir(&dir) else { continue };
            for entry in entries.flatten() {
                let path = entry.path();
                let is_yaml = path.extension().is_some_and(|end| end == "yaml" || end == "yml");
                // A link is read only if it leads to a file, so that a cycle of directories is not followed.
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    open.push(path);
                } else if is_yaml {
                    files.push(path);
                }
                if files.len() + open.len() >= MAX_FILES {
                    self.errors.push(format!(
                        "{}: more than {MAX_FILES} files; the others are not read",
                        dir.display()
                    ));
                    open.clear();
                    break;
                }
            }
        }
        files.order();
        files
    }

    /// Reads a file, if it exists.
    fn text(&mut self, path: &Path) -> Option<String> {
        let place = path.display();
        match std::fs::metadata(path) {
            Ok(meta) if meta.len() > LARGEST => {
                self.errors.push(format!("{place}: larger than {} KiB", LARGEST >> 10));
                return None;
            }
            Ok(meta) if !meta.is_file() => {
                self.errors.push(format!("{place}: not a file"));
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
