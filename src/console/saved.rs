//! Files the user asks for, and the list of them (`:screendumps`). What is there already stays: the next one gets a number.
//!
//! They are in a directory of the console's own, which others may write to all the same: what is read of it is bounded, links
//! and pipes in it are no files, and nothing but what was picked is removed.

use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use tokio::io::AsyncWriteExt as _;

/// The directory, below the one of the user's configuration.
const DIRECTORY: &str = "screen-dumps";
/// Files that are looked at, and that are listed: the newest.
const LOOKED_AT: usize = 20_000;
const LISTED: usize = 2_000;
/// Bytes of a file that are shown.
const SHOWN: u64 = 8 << 20;

/// Names that are tried; who has saved as often finds the directory full.
const TRIES: u32 = 1_000;

/// Where files are saved, given the directory of the user's configuration.
pub(crate) fn directory(config_dir: &Path) -> PathBuf {
    config_dir.join(DIRECTORY)
}

/// Makes the directory, for its owner alone, where it is not there.
pub(crate) async fn make_directory(dir: &Path) -> std::io::Result<()> {
    tokio::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir).await
}

/// A file that was saved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Dump {
    /// Where it is.
    pub(crate) path: PathBuf,
    /// Its bytes.
    pub(crate) size: u64,
    /// When it was written the last time, where that is known.
    pub(crate) at: Option<Timestamp>,
}

impl Dump {
    /// Its name; what is no text in it is replaced.
    pub(crate) fn name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }
}

/// The files of a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Dumps {
    /// The newest first.
    pub(crate) files: Vec<Dump>,
    /// How many older ones are left out.
    pub(crate) left_out: usize,
    /// Whether there are files that were not even looked at.
    pub(crate) is_cut: bool,
}

/// Lists a directory; nothing was saved yet where it is not there. Blocks.
pub(crate) fn list(dir: &Path) -> Result<Dumps, String> {
    let told = |error: std::io::Error| format!("{}: {error}", dir.display());
    let found = match std::fs::read_dir(dir) {
        Ok(found) => found,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Dumps::default()),
        Err(error) => return Err(told(error)),
    };
    let (mut all, mut is_cut) = (Dumps::default(), false);
    for (count, entry) in found.enumerate() {
        if count >= LOOKED_AT {
            is_cut = true;
            break;
        }
        let entry = entry.map_err(told)?;
        // One that goes meanwhile is gone.
        let Ok(about) = entry.metadata() else { continue };
        if !about.is_file() {
            continue;
        }
        let at = about.modified().ok().and_then(|at| Timestamp::try_from(at).ok());
        all.files.push(Dump { path: entry.path(), size: about.len(), at });
    }
    all.files.sort_by(|a, b| (b.at, &a.path).cmp(&(a.at, &b.path)));
    all.left_out = all.files.len().saturating_sub(LISTED);
    all.files.truncate(LISTED);
    Ok(Dumps { is_cut, ..all })
}

/// A file as it is shown: its lines as they are in it, and whether more is in it than that. Blocks.
pub(crate) fn read(path: &Path) -> Result<(Vec<String>, bool), String> {
    let told = |error: std::io::Error| format!("{}: {error}", path.display());
    // A pipe in its place would keep us waiting: it is opened without, and is no file.
    let flags = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits() | rustix::fs::OFlags::NOFOLLOW.bits());
    let file =
        std::fs::File::options().read(true).custom_flags(flags.unwrap_or(0)).open(path).map_err(told)?;
    if !file.metadata().map_err(told)?.is_file() {
        return Err(format!("{}: it is no file", path.display()));
    }
    let mut bytes = Vec::new();
    file.take(SHOWN + 1).read_to_end(&mut bytes).map_err(told)?;
    let is_cut = bytes.len() as u64 > SHOWN;
    bytes.truncate(usize::try_from(SHOWN).unwrap_or(usize::MAX));
    let text = String::from_utf8_lossy(&bytes);
    Ok((text.lines().map(str::to_owned).collect(), is_cut))
}

/// Removes a file; that it is gone already is no error. Blocks.
pub(crate) fn remove(path: &Path) -> Result<(), String> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(format!("{}: {error}", path.display())),
        _ => Ok(()),
    }
}

/// Writes a new file of this name, or of the first free one of `NAME-2.EXT` and so on; says where it is.
pub(crate) async fn write_new(dir: &Path, name: &str, text: &str) -> std::io::Result<PathBuf> {
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
    Err(std::io::Error::new(ErrorKind::AlreadyExists, format!("there are {TRIES} of this name already")))
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
    async fn what_was_saved_is_listed_newest_first_and_bounded_con_3() {
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
        // What is no file is none of ours: neither listed nor read.
        std::fs::create_dir(place.join("dir")).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", place.join("link")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, place.join("pipe"), rustix::fs::Mode::RWXU).unwrap();
        let all = list(&place).unwrap();
        assert_eq!((all.files.len(), all.left_out, all.is_cut), (LISTED, 2, false));
        assert_eq!(
            (all.files[0].name().as_str(), all.files[0].size, all.files[0].at),
            ("pods.csv", 4, Some(at(9_000)))
        );
        assert_eq!(all.files[1].name(), "odd\u{1b}[2J");
        assert!(all.files.iter().all(|dump| !["dir", "link", "pipe"].contains(&dump.name().as_str())));
        assert!(read(&place.join("link")).is_err(), "a link is not followed");
        assert!(read(&place.join("pipe")).unwrap_err().ends_with("it is no file"));
        assert_eq!(read(&place.join("pods.csv")), Ok((vec!["a".to_owned(), "b".to_owned()], false)));
        std::fs::write(place.join("big"), vec![b'x'; SHOWN as usize + 10]).unwrap();
        let (lines, is_cut) = read(&place.join("big")).unwrap();
        assert!(is_cut && lines[0].len() == SHOWN as usize);
        remove(&place.join("big")).unwrap();
        remove(&place.join("big")).unwrap();
        assert!(remove(&place.join("dir")).is_err() && read(&place.join("big")).is_err());
        std::fs::remove_dir_all(&place).unwrap();
        assert_eq!(list(&place), Ok(Dumps::default()));
        std::fs::write(&place, "").unwrap();
        assert!(list(&place).is_err(), "what cannot be read is told");
    }

    /// The second `pods.csv` replaced the first.
    #[tokio::test]
    async fn what_was_saved_before_stays_con_3() {
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
