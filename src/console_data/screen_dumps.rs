//! Files that the user saves, and their list (`:screendumps`). Existing files are never replaced: if the name is taken,
//! a number is added to it.
//!
//! The files are in a directory of the console's own, but other programs may write to it: reads are bounded, links and
//! pipes are not treated as files, and only selected files are removed.

use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use base::sort::SliceOrder;
use jiff::Timestamp;
use tokio::io::AsyncWriteExt as _;

/// The directory, relative to the user's configuration directory.
const DIRECTORY: &str = "screen-dumps";
/// The maximum number of directory entries examined, and of files listed: the newest.
const LOOKED_AT: usize = 20_000;
const LISTED: usize = 2_000;
/// The maximum number of bytes shown of a file.
const MAX_BYTES: u64 = 8 << 20;

/// The maximum number of names tried; after that the directory counts as full.
const TRIES: u32 = 1_000;

/// Returns the directory for saved files, below the user's configuration directory.
pub fn directory(config_dir: &Path) -> PathBuf {
    config_dir.join(DIRECTORY)
}

/// Creates the directory, readable only by its owner, if it does not exist.
pub async fn make_directory(dir: &Path) -> std::io::Result<()> {
    tokio::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir).await
}

/// A saved file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dump {
    /// The path.
    pub path: PathBuf,
    /// The size in bytes.
    pub size: u64,
    /// The modification time, if known.
    pub at: Option<Timestamp>,
}

impl Dump {
    /// Returns its name; invalid UTF-8 is replaced.
    pub fn name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }
}

/// The files of a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dumps {
    /// The files, newest first.
    pub files: Vec<Dump>,
    /// The number of older files that are not listed.
    pub omitted: usize,
    /// Some files were not examined.
    pub is_cut: bool,
}

/// Lists a directory; an absent one is empty. Blocks.
pub fn list(dir: &Path) -> Result<Dumps, String> {
    let with_path = |error: std::io::Error| format!("{}: {error}", dir.display());
    let found = match std::fs::read_dir(dir) {
        Ok(found) => found,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Dumps::default()),
        Err(error) => return Err(with_path(error)),
    };
    let (mut all, mut is_cut) = (Dumps::default(), false);
    for (count, entry) in found.enumerate() {
        if count >= LOOKED_AT {
            is_cut = true;
            break;
        }
        let entry = entry.map_err(with_path)?;
        // A file may disappear meanwhile.
        let Ok(about) = entry.metadata() else { continue };
        if !about.is_file() {
            continue;
        }
        let at = about.modified().ok().and_then(|at| Timestamp::try_from(at).ok());
        all.files.push(Dump { path: entry.path(), size: about.len(), at });
    }
    all.files.order_by(|a, b| (b.at, &a.path).cmp(&(a.at, &b.path)));
    all.omitted = all.files.len().saturating_sub(LISTED);
    all.files.truncate(LISTED);
    Ok(Dumps { is_cut, ..all })
}

/// Reads the lines of a file to show, and whether the file has more. Blocks.
pub fn read(path: &Path) -> Result<(Vec<String>, bool), String> {
    let with_path = |error: std::io::Error| format!("{}: {error}", path.display());
    // Opening a named pipe would block. The path is opened non-blocking, and rejected if it is not a regular file.
    let flags = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits() | rustix::fs::OFlags::NOFOLLOW.bits());
    let file =
        std::fs::File::options().read(true).custom_flags(flags.unwrap_or(0)).open(path).map_err(with_path)?;
    if !file.metadata().map_err(with_path)?.is_file() {
        return Err(format!("{}: not a regular file", path.display()));
    }
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(with_path)?;
    let is_cut = bytes.len() as u64 > MAX_BYTES;
    bytes.truncate(usize::try_from(MAX_BYTES).unwrap_or(usize::MAX));
    let text = String::from_utf8_lossy(&bytes);
    Ok((text.lines().map(str::to_owned).collect(), is_cut))
}

/// Removes a file; an absent one is not an error. Blocks.
pub fn remove(path: &Path) -> Result<(), String> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(format!("{}: {error}", path.display())),
        _ => Ok(()),
    }
}

/// Writes a new file under this name, or under the first free one of `NAME-2.EXT` and so on; returns its path.
pub async fn write_new(dir: &Path, name: &str, text: &str) -> std::io::Result<PathBuf> {
    for number in 1..=TRIES {
        let path = dir.join(numbered(name, number));
        match tokio::fs::File::options().write(true).create_new(true).open(&path).await {
            Ok(mut file) => {
                file.write_all(text.as_bytes()).await?;
                file.flush().await?;
                return Ok(path);
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(std::io::Error::new(ErrorKind::AlreadyExists, format!("{TRIES} files of this name already exist")))
}

fn numbered(name: &str, number: u32) -> String {
    if number == 1 {
        return name.to_owned();
    }
    match name.rsplit_once('.').filter(|(stem, _)| !stem.is_empty()) {
        Some((stem, ending)) => format!("{stem}-{number}.{ending}"),
        None => format!("{name}-{number}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn screen_dumps_are_listed_newest_first_and_bounded_con_3() {
        let dir = tempfile::tempdir().unwrap();
        let place = directory(dir.path());
        assert_eq!(list(&place), Ok(Dumps::default()), "nothing was saved yet");
        make_directory(&place).await.unwrap();
        make_directory(&place).await.unwrap();
        let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&place).unwrap().permissions());
        assert_eq!(mode & 0o777, 0o700);
        let at = |seconds: i64| Timestamp::from_second(1_800_000_000 + seconds).unwrap();
        let write = |name: &str, text: &str, seconds: i64| {
            let path = place.join(name);
            std::fs::write(&path, text).unwrap();
            let file = std::fs::File::options().write(true).open(path).unwrap();
            file.set_modified(at(seconds).into()).unwrap();
        };
        for number in 0..LISTED as i64 {
            write(&format!("old-{number}"), "", number);
        }
        write("pods.csv", "a\nb\n", 9_000);
        write("odd\u{1b}[2J", "x", 8_000);
        // Directories and links are neither listed nor read.
        std::fs::create_dir(place.join("dir")).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", place.join("link")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, place.join("pipe"), rustix::fs::Mode::RWXU).unwrap();
        let all = list(&place).unwrap();
        assert_eq!((all.files.len(), all.omitted, all.is_cut), (LISTED, 2, false));
        assert_eq!(
            (all.files[0].name().as_str(), all.files[0].size, all.files[0].at),
            ("pods.csv", 4, Some(at(9_000)))
        );
        assert_eq!(all.files[1].name(), "odd\u{1b}[2J");
        assert!(all.files.iter().all(|dump| !["dir", "link", "pipe"].contains(&dump.name().as_str())));
        assert!(read(&place.join("link")).is_err(), "a link is not followed");
        assert!(read(&place.join("pipe")).unwrap_err().ends_with("not a regular file"));
        assert_eq!(read(&place.join("pods.csv")), Ok((vec!["a".to_owned(), "b".to_owned()], false)));
        std::fs::write(place.join("big"), vec![b'x'; MAX_BYTES as usize + 10]).unwrap();
        let (lines, is_cut) = read(&place.join("big")).unwrap();
        assert!(is_cut && lines[0].len() == MAX_BYTES as usize);
        remove(&place.join("big")).unwrap();
        remove(&place.join("big")).unwrap();
        assert!(remove(&place.join("dir")).is_err() && read(&place.join("big")).is_err());
        std::fs::remove_dir_all(&place).unwrap();
        assert_eq!(list(&place), Ok(Dumps::default()));
        std::fs::write(&place, "").unwrap();
        assert!(list(&place).is_err(), "an unreadable directory is an error");
    }

    /// Regression: the second `pods.csv` replaced the first.
    #[tokio::test]
    async fn a_screen_dump_never_replaces_an_earlier_one_con_3() {
        let dir = tempfile::tempdir().unwrap();
        for (text, name) in [("one", "pods.csv"), ("two", "pods-2.csv"), ("three", "pods-3.csv")] {
            let path = write_new(dir.path(), "pods.csv", text).await.unwrap();
            assert_eq!(path, dir.path().join(name));
            assert_eq!(std::fs::read_to_string(path).unwrap(), text);
        }
        assert_eq!(numbered("plain", 2), "plain-2");
        assert_eq!(numbered(".hidden", 2), ".hidden-2");
        assert!(write_new(&dir.path().join("nowhere"), "a", "").await.is_err());
    }
}
