//! Everything in the catalogue, for `podium image list` (CLI-4).

use super::{BUILTINS, Builtin, Catalogue, ImageEntry, ImageSource, find_program};

/// The origin of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ImageOrigin {
    /// The user declared it.
    User,
    /// An archive was loaded.
    Loaded,
    /// Podium brings it along.
    Builtin,
}

/// One image of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CatalogueImage {
    /// The repository; `None` for a loaded image that lost its names.
    pub repository: Option<String>,
    /// The tags that exist; empty means every tag.
    pub tags: Vec<String>,
    /// The image's origin.
    pub origin: ImageOrigin,
    /// `sha256:HEX` of a loaded image.
    pub id: Option<String>,
    /// The image's size on disk, if it has files of its own.
    pub size_bytes: Option<u64>,
    /// The program that runs, or the reason why none can run.
    pub program: String,
}

impl Catalogue {
    /// Every image: the user's first, then loaded ones, then the built-in ones.
    pub fn list(&self) -> Vec<CatalogueImage> {
        let user = self.user.current();
        let own = user.entries.iter().map(|entry| self.describe_entry(entry));
        let loaded = self.all_loaded().into_iter().flat_map(|(image, names)| {
            let run = &image.run;
            let line = [run.entrypoint.as_slice(), run.cmd.as_slice()].concat().join(" ");
            let row = CatalogueImage {
                repository: None,
                tags: Vec::new(),
                origin: ImageOrigin::Loaded,
                id: Some(image.id.clone()),
                size_bytes: Some(image.size_bytes),
                program: if line.is_empty() { "no default command".to_owned() } else { line },
            };
            let named = |name: &String| match super::ImageReference::parse(name) {
                Ok(parsed) => CatalogueImage {
                    repository: Some(parsed.name()),
                    tags: parsed.tag.into_iter().collect(),
                    ..row.clone()
                },
                Err(_) => row.clone(),
            };
            let rows: Vec<_> = names.iter().map(named).collect();
            if rows.is_empty() { vec![row] } else { rows }
        });
        let own_names = BUILTINS.iter().flat_map(|image| image.names.iter().map(move |name| (*name, image)));
        let mapped =
            self.builtin_aliases.iter().filter_map(|name| Some((name.as_str(), self.builtin(name)?)));
        let built_in = own_names.chain(mapped).map(|(name, image)| self.describe_builtin(name, image));
        own.chain(loaded).chain(built_in).collect()
    }

    fn describe_entry(&self, entry: &ImageEntry) -> CatalogueImage {
        let program = entry.entrypoint.first().or(entry.cmd.first());
        let found = program.map(|name| (name, find_program(name, &self.search_path)));
        CatalogueImage {
            repository: Some(entry.name.clone()),
            tags: entry.tags.clone(),
            origin: ImageOrigin::User,
            id: None,
            size_bytes: None,
            program: match found {
                Some((_, Some(path))) => path.display().to_string(),
                // The program may be relative to the working directory, or come with a volume.
                Some((name, None)) => format!("{name} (not found in PATH)"),
                None => "the command as given".to_owned(),
            },
        }
    }

    fn describe_builtin(&self, name: &str, image: &Builtin) -> CatalogueImage {
        let found = |names: &[&str]| names.iter().find_map(|name| find_program(name, &self.search_path));
        let program = match image.source {
            ImageSource::Inside(_) => "built into podium".to_owned(),
            ImageSource::Tools => "this machine's shell and tools".to_owned(),
            ImageSource::AsGiven => "the command as given, on this machine's files".to_owned(),
            ImageSource::HostProgram(names) => match found(names) {
                Some(path) => path.display().to_string(),
                None => format!("{} is not installed", names.join(" or ")),
            },
        };
        CatalogueImage {
            repository: Some(name.to_owned()),
            tags: Vec::new(),
            origin: ImageOrigin::Builtin,
            id: None,
            size_bytes: None,
            program,
        }
    }
}
