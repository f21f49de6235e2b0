//! The user's own images: entries of the config file, and of `DATA/images/*.yaml`, which are read again whenever they
//! change (IMG-1).
//!
//! An invalid file prevents a cluster from starting. If a file becomes invalid while the cluster runs, its last valid
//! entries stay in force, and the error is part of the message for every image that is not found.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use super::config::ConfigFile;
use super::error::StartError;
use base::clock::Clock;
use base::sort::CollectMap;
use images::registry::DockerConfig;
use images::{Catalogue, ImageEntry, ImageStore, Puller, UserImageSource, UserImages};
use manifest::Document;

/// The maximum size of a catalogue file.
const MAX_BYTES: u64 = 4 << 20;

/// The end of the error text for a path that is a pipe, a device or a directory.
const NO_FILE: &str = ": not a file";

/// The images of a data directory.
pub struct Images {
    /// The meaning of names.
    pub catalogue: Catalogue,
    /// The loaded and pulled images.
    pub store: Arc<ImageStore>,
    /// Pulls more of them.
    pub puller: Puller,
}

/// The images of a cluster.
pub(super) fn images(config: &ConfigFile, data_dir: &Path) -> Result<Images, StartError> {
    let (images, problems) = open_images(config, data_dir);
    // A path that is not a regular file has no content that the user could correct, so it does not prevent the start.
    let (passed, wrong): (Vec<_>, Vec<_>) = problems.into_iter().partition(|what| what.ends_with(NO_FILE));
    for what in passed {
        tracing::warn!("image catalogue: {what}");
    }
    match wrong.first() {
        None => Ok(images),
        Some(problem) => Err(StartError::Image { reason: problem.clone() }),
    }
}

/// The images of a data directory, and the errors of its files and of the config file's entries.
pub fn open_images(config: &ConfigFile, data_dir: &Path) -> (Images, Vec<String>) {
    let directory = data_dir.join("images");
    let pattern = directory.join("*.yaml").display().to_string();
    let faults = config.images.iter().flat_map(|entry| {
        let describe = |(field, why)| format!("config file: images: {}: {field}: {why}", entry.name);
        entry.faults().into_iter().map(describe)
    });
    let mut problems: Vec<String> = faults.collect();
    let files = Files { configured: config.images.clone(), directory, read: Mutex::new(None) };
    problems.extend(files.current().problems.iter().cloned());
    let store = Arc::new(ImageStore::of(data_dir));
    let catalogue = Catalogue::live(Box::new(files), Some(store.clone()), pattern);
    let faults = config.registry.faults().into_iter();
    problems.extend(faults.map(|(field, why)| format!("config file: registry.{field}: {why}")));
    let (catalogue, refused) = catalogue.with_registry(&config.registry);
    let describe = |(position, why)| format!("config file: registry.builtin[{position}]: {why}");
    problems.extend(refused.into_iter().map(describe));
    let docker = DockerConfig::of_user();
    let puller = Puller::new(store.clone(), config.registry.clone(), docker, Clock::machine());
    (Images { catalogue, store, puller }, problems)
}

/// The entries of a data directory's files, and the errors of these files.
pub fn declared_images(data_dir: &Path) -> Arc<UserImages> {
    let directory = data_dir.join("images");
    Files { configured: Vec::new(), directory, read: Mutex::new(None) }.current()
}

/// The entries of a directory's files.
struct Files {
    configured: Vec<ImageEntry>,
    directory: PathBuf,
    // Locked while files are read, so that many pods that start at once cause only one read.
    read: Mutex<Option<ImageFiles>>,
}

/// The content of the files at the last read.
struct ImageFiles {
    files: BTreeMap<PathBuf, ImageFile>,
    together: Arc<UserImages>,
}

/// The content of a file at its last read.
struct ImageFile {
    stamp: FileStamp,
    entries: Vec<ImageEntry>,
    problems: Vec<String>,
}

/// Identifies a version of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileStamp(u64, i64, i64, u64);

impl UserImageSource for Files {
    fn current(&self) -> Arc<UserImages> {
        let now: BTreeMap<PathBuf, FileStamp> = files(&self.directory).collect_map();
        let mut read = self.read.lock();
        let same = |known: &&ImageFiles| {
            let stamps = known.files.iter().map(|(file, one)| (file, &one.stamp));
            stamps.eq(&now)
        };
        if let Some(known) = read.as_ref().filter(same) {
            return known.together.clone();
        }
        let first = read.is_none();
        let mut before = read.take().map(|known| known.files).unwrap_or_default();
        let mut files = BTreeMap::new();
        for (file, stamp) in now {
            let one = match before.remove(&file) {
                Some(known) if known.stamp == stamp => known,
                known => {
                    let (mut entries, problems) = read_file(&file);
                    for problem in problems.iter().filter(|_| !first) {
                        tracing::warn!("image catalogue: {problem}");
                    }
                    if !problems.is_empty() {
                        entries = known.map(|known| known.entries).unwrap_or(entries);
                    }
                    ImageFile { stamp, entries, problems }
                }
            };
            files.insert(file, one);
        }
        let together = Arc::new(together(&self.configured, &files));
        *read = Some(ImageFiles { files, together: together.clone() });
        together
    }
}

/// All entries in order, except those that collide with an earlier one.
fn together(configured: &[ImageEntry], files: &BTreeMap<PathBuf, ImageFile>) -> UserImages {
    let mut all = UserImages { entries: configured.to_vec(), problems: Vec::new() };
    let mut origin = vec![PathBuf::from("the config file"); configured.len()];
    for (file, one) in files {
        all.problems.extend(one.problems.iter().cloned());
        for entry in &one.entries {
            if let Some(earlier) = all.entries.iter().position(|known| known.collides(entry)) {
                all.problems.push(format!(
                    "{}: image {:?} is already declared in {}",
                    file.display(),
                    entry.name,
                    origin[earlier].display()
                ));
            } else {
                all.entries.push(entry.clone());
                origin.push(file.clone());
            }
        }
    }
    all
}

/// The YAML files of a directory by name; none when it is not there.
fn files(directory: &Path) -> Vec<(PathBuf, FileStamp)> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|e| e == "yaml" || e == "yml"))
        .filter_map(|path| {
            let about = path.metadata().ok()?;
            Some((path, FileStamp(about.ino(), about.mtime(), about.mtime_nsec(), about.size())))
        })
        .collect()
}

/// The entries of a file, each mistake with its line and column.
fn read_file(file: &Path) -> (Vec<ImageEntry>, Vec<String>) {
    let name = file.display().to_string();
    let about = match file.metadata() {
        Ok(about) if !about.is_file() => return (Vec::new(), vec![format!("{name}{NO_FILE}")]),
        Ok(about) if about.len() > MAX_BYTES => {
            return (Vec::new(), vec![format!("{name}: larger than {MAX_BYTES} bytes")]);
        }
        Ok(_) => std::fs::read(file),
        Err(error) => Err(error),
    };
    let text = match about.map(String::from_utf8) {
        Ok(Ok(text)) => text,
        Ok(Err(_)) => return (Vec::new(), vec![format!("{name}: not UTF-8: is this a text file?")]),
        Err(error) => return (Vec::new(), vec![format!("{name}: {error}")]),
    };
    let (mut entries, mut problems) = (Vec::new(), Vec::new());
    for document in manifest::parse_values(&text, &name) {
        match document {
            Ok(document) => match read_entry(&document) {
                Ok(entry) => entries.push(entry),
                Err(wrong) => problems.extend(wrong),
            },
            Err(error) => problems.push(error.to_string()),
        }
    }
    (entries, problems)
}

fn read_entry(document: &Document) -> Result<ImageEntry, Vec<String>> {
    let entry: ImageEntry = base::json::from_value(document.value.clone())
        .map_err(|error| vec![document.error(error.path(), error.to_string()).to_string()])?;
    let faults = entry.faults();
    if faults.is_empty() {
        return Ok(entry);
    }
    Err(faults.into_iter().map(|(field, why)| document.error(&field, why).to_string()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Data(tempfile::TempDir);

    impl Data {
        fn new() -> Self {
            let data = tempfile::tempdir().unwrap();
            std::fs::create_dir(data.path().join("images")).unwrap();
            Self(data)
        }

        /// Replaces the file by a new one, as an editor does when it saves.
        fn write(&self, name: &str, text: &str) {
            let file = self.0.path().join("images").join(name);
            let new = file.with_extension("new");
            std::fs::write(&new, text).unwrap();
            std::fs::rename(new, file).unwrap();
        }

        fn problems(&self) -> Vec<String> {
            let place = format!("{}/images/", self.0.path().display());
            open_images(&ConfigFile::default(), self.0.path())
                .1
                .iter()
                .map(|text| text.replace(&place, ""))
                .collect()
        }
    }

    #[test]
    fn images_of_the_data_directory_are_known_img_1() {
        let data = Data::new();
        data.write("one.yaml", "name: mine\ntags: ['1']\nentrypoint: [sleep, '5']\n");
        data.write(
            "more.yaml",
            "- {name: a, entrypoint: [sh]}\n- {name: b, entrypoint: [sh]}\n---\nname: c\n",
        );
        data.write("notes.txt", "not an image");
        let known = images(&ConfigFile::default(), data.0.path()).unwrap().catalogue;
        assert!(known.resolve("mine:1").is_ok());
        assert!(known.resolve("mine:2").is_err());
        assert!(known.resolve("b").is_ok() && known.resolve("c:any").is_ok());
        data.write("broken.yaml", "name: [\n");
        let error = images(&ConfigFile::default(), data.0.path()).err().unwrap().to_string();
        assert!(error.contains("broken.yaml:"), "{error}");
    }

    #[test]
    fn files_are_read_again_when_they_change_img_1() {
        let data = Data::new();
        let known = images(&ConfigFile::default(), data.0.path()).unwrap().catalogue;
        assert!(known.resolve("mine").is_err());
        data.write("one.yaml", "name: mine\nentrypoint: [sh]\n");
        assert_eq!(known.resolve("mine").unwrap().entrypoint, ["sh"]);
        data.write("one.yaml", "name: mine\nentrypoint: [cat]\n");
        assert_eq!(known.resolve("mine").unwrap().entrypoint, ["cat"]);
        // An invalid file keeps its last valid entries, and is reported.
        data.write("one.yaml", "name: mine\nentryPoint: [tee]\n");
        assert_eq!(known.resolve("mine").unwrap().entrypoint, ["cat"]);
        data.write("two.yaml", "name: other\n");
        assert!(known.resolve("other").is_ok());
        let error = known.resolve("third").unwrap_err().to_string();
        assert!(error.contains("one.yaml:2:1: entryPoint: unknown field `entryPoint`"), "{error}");
        assert!(error.contains("images/*.yaml") && error.contains("podium image load"), "{error}");
        std::fs::remove_file(data.0.path().join("images/one.yaml")).unwrap();
        assert!(known.resolve("mine").is_err());
        std::fs::remove_file(data.0.path().join("images/two.yaml")).unwrap();
        assert!(known.resolve("other").is_err());
    }

    #[test]
    fn errors_in_image_files_name_line_and_column_img_1() {
        let data = Data::new();
        let table = [
            ("- {name: a}\n- name: b\n  tags: 7\n", "x.yaml:3:3: tags: invalid type"),
            ("entrypoint: [sh]\n", "x.yaml:1:1: missing field `name`"),
            ("name: a\ncolour: red\n", "x.yaml:2:1: colour: unknown field `colour`"),
            ("name: a\nstopSignal: SIGNOPE\n", "x.yaml:2:1: stopSignal: unknown signal \"SIGNOPE\""),
            ("name: a\ncmd: [ok, \"b\\0\"]\n", "x.yaml:2:11: cmd[1]: an argument cannot contain a NUL byte"),
            ("name: a\n  b: [\n", "x.yaml:2:"),
            ("just a text", "x.yaml:1:1: invalid type"),
            ("name: A\n", "x.yaml:1:1: name: \"A\": invalid reference format"),
        ];
        for (text, expect) in table {
            data.write("x.yaml", text);
            let problems = data.problems();
            assert!(problems.len() == 1 && problems[0].starts_with(expect), "{text:?}: {problems:?}");
        }
        let bomb = (1..30).fold("a: &a0 [x]\n".to_owned(), |text, n| {
            let before = n - 1;
            text + &format!("b{n}: &a{n} [*a{before}, *a{before}]\n")
        });
        data.write("x.yaml", &bomb);
        assert_eq!(data.problems().len(), 1);
        std::fs::write(data.0.path().join("images/x.yaml"), [0xff, 0xfe, 0x00]).unwrap();
        assert_eq!(data.problems(), ["x.yaml: not UTF-8: is this a text file?"]);
    }

    #[test]
    fn an_image_is_declared_once_img_1() {
        let data = Data::new();
        data.write("a.yaml", "- {name: app, tags: ['1'], cmd: [sh]}\n- {name: app, cmd: [cat]}\n");
        let known = images(&ConfigFile::default(), data.0.path()).unwrap().catalogue;
        assert_eq!(
            (known.resolve("app:1").unwrap().cmd, known.resolve("app:2").unwrap().cmd),
            (vec!["sh".to_owned()], vec!["cat".to_owned()])
        );
        data.write("b.yaml", "{name: docker.io/library/app, tags: ['1']}\n");
        let problems = data.problems();
        assert!(
            problems[0].contains("image \"docker.io/library/app\" is already declared in "),
            "{problems:?}"
        );
    }
}
