//! What users bring: columns in the file formats of k9s, so that what one has goes on working (CON-16).
//!
//! Files are read from the console's own configuration directory, and from that of k9s where `console.toml` asks for it
//! (`k9s = true`, or `k9s = "DIR"`); what is in the console's own goes before. They are read again when they change.
//! What cannot be read is told with file, line and key, and the rest is used.

mod views;

use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) use views::{Attributes, CustomColumn, CustomView, Order, Seen, Side};

use crate::catalogue::Catalogue;
use crate::resource::Kind;

/// The files that are read of a directory.
pub(crate) const FILES: [&str; 1] = ["views.yaml"];
/// The directories in it whose files are read.
pub(crate) const DIRECTORIES: [&str; 0] = [];

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
    views: Vec<CustomView>,
    errors: Vec<String>,
}

impl Extensions {
    /// Reads all files; blocks.
    pub fn read(sources: &Sources) -> Self {
        let mut read = Read::default();
        for dir in &sources.0 {
            let path = dir.join("views.yaml");
            if let Some(text) = read.text(&path) {
                let (views, errors) = views::parse(&text, &path.display().to_string());
                // A view of a directory that was read before has the same key and goes before.
                let known = read.views.len();
                let is_new =
                    |view: &CustomView| read.views[..known].iter().all(|old| !old.is_called_as(view));
                let views: Vec<CustomView> = views.into_iter().filter(is_new).collect();
                read.views.extend(views);
                read.errors.extend(errors.iter().map(ToString::to_string));
            }
        }
        Self(Arc::new(read))
    }

    /// What could not be read.
    pub(crate) fn errors(&self) -> &[String] {
        &self.0.errors
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
