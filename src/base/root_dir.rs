//! A directory that path lookups cannot leave: paths are resolved as for a process that has it as its root.
//!
//! Symbolic links of an image may point anywhere; here they always resolve inside the directory. Used for unpacking
//! images and for reading their files from outside.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;

/// The root directory.
#[derive(Debug)]
pub struct RootDir {
    root: OwnedFd,
}

/// An entry below the root: its parent directory, opened, and its name.
#[derive(Debug)]
pub struct ParentAndName {
    /// The directory that contains the entry.
    pub directory: OwnedFd,
    /// Its name there.
    pub name: String,
}

/// The mode of directories that unpacking creates for missing parents, until the archive sets their own.
const DEFAULT_MODE: u32 = 0o755;

/// The limit for files that are read as text.
const MAX_TEXT_BYTES: u64 = 4 << 20;

impl RootDir {
    /// Opens the directory at `root`.
    pub fn new(root: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self { root: rustix::fs::open(root, flags, Mode::empty())? })
    }

    /// Opens a path as a process inside would.
    pub fn open(&self, path: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let how = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        rustix::fs::openat2(&self.root, path, flags | OFlags::CLOEXEC, Mode::empty(), how)
    }

    /// Returns the text of a file inside, with replacement characters for bytes that are not text; `None` if it is not a
    /// regular file below 4 MiB.
    pub fn read(&self, path: &Path) -> Option<String> {
        // Opening or reading anything but a regular file might block forever.
        let file = File::from(self.open(path, OFlags::RDONLY | OFlags::NONBLOCK).ok()?);
        let is_file = file.metadata().is_ok_and(|about| about.is_file() && about.len() < MAX_TEXT_BYTES);
        let mut bytes = Vec::new();
        if !is_file || file.take(MAX_TEXT_BYTES).read_to_end(&mut bytes).is_err() {
            return None;
        }
        Some(
            String::from_utf8(bytes)
                .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()),
        )
    }

    /// Returns the directory that holds `path`, creating it if it is missing.
    pub fn ensure_parent(&self, path: &Path) -> io::Result<ParentAndName> {
        match self.existing_parent(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.make(path.parent().unwrap_or(Path::new("")))?;
                self.existing_parent(path)
            }
            known => known,
        }
    }

    /// Returns the directory that holds `path`, which must exist.
    pub fn existing_parent(&self, path: &Path) -> io::Result<ParentAndName> {
        let name = path.file_name().and_then(|name| name.to_str());
        let name = name.ok_or(io::ErrorKind::InvalidInput)?.to_owned();
        let parent = path.parent().unwrap_or(Path::new(""));
        Ok(ParentAndName { directory: self.open(parent, OFlags::PATH | OFlags::DIRECTORY)?, name })
    }

    /// Returns a directory inside, creating it if it is missing.
    pub fn directory(&self, path: &Path) -> io::Result<OwnedFd> {
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        match self.open(path, flags) {
            Err(Errno::NOENT) => {
                self.make(path)?;
                Ok(self.open(path, flags)?)
            }
            opened => Ok(opened?),
        }
    }

    /// Opens the file or directory at this path. If the path is missing, creates directories there, with the mode of
    /// the root and, if the root has the set-group-ID bit, with its group.
    pub fn any(&self, path: &Path) -> io::Result<OwnedFd> {
        match self.open(path, OFlags::PATH) {
            Err(Errno::NOENT) => {
                let mode = Mode::from_raw_mode(rustix::fs::fstat(&self.root)?.st_mode);
                self.make_through(path, 40, Some(mode))?;
                Ok(self.open(path, OFlags::PATH)?)
            }
            opened => Ok(opened?),
        }
    }

    /// Returns a file inside, creating it if it is missing; also creates the target of a dangling link.
    pub fn file(&self, path: &Path) -> io::Result<OwnedFd> {
        match self.open(path, OFlags::PATH) {
            Err(Errno::NOENT) => {
                let place = self.ensure_parent(path)?;
                place.remove()?;
                let flags =
                    OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                rustix::fs::openat(&place.directory, &place.name, flags, Mode::from_raw_mode(0o644))?;
                Ok(self.open(path, OFlags::PATH)?)
            }
            opened => {
                let opened = opened?;
                let is_directory = FileType::from_raw_mode(rustix::fs::fstat(&opened)?.st_mode).is_dir();
                if is_directory { Err(io::ErrorKind::IsADirectory.into()) } else { Ok(opened) }
            }
        }
    }

    /// Creates a directory and its parents, following dangling links.
    fn make(&self, path: &Path) -> io::Result<()> {
        self.make_through(path, 40, None)
    }

    /// Sets exactly `mode` on new directories; without it they get [`DEFAULT_MODE`] less the umask.
    fn make_through(&self, path: &Path, links_left: u8, mode: Option<Mode>) -> io::Result<()> {
        let mut so_far = PathBuf::new();
        for part in path.components() {
            let Component::Normal(name) = part else {
                if part == Component::ParentDir {
                    so_far.push("..");
                }
                continue;
            };
            let above = self.open(&so_far, OFlags::PATH | OFlags::DIRECTORY)?;
            let whole = so_far.join(name);
            match rustix::fs::mkdirat(&above, name, Mode::from_raw_mode(DEFAULT_MODE)) {
                Err(Errno::EXIST) if matches!(self.open(&whole, OFlags::PATH), Err(Errno::NOENT)) => {
                    let links_left = links_left.checked_sub(1).ok_or(Errno::LOOP)?;
                    let target = rustix::fs::readlinkat(&above, name, Vec::new())?.into_bytes();
                    let target = PathBuf::from(String::from_utf8(target).map_err(io::Error::other)?);
                    let target = if target.is_absolute() { target } else { so_far.join(target) };
                    self.make_through(&target, links_left, mode)?;
                }
                Ok(()) => {
                    if let Some(mode) = mode {
                        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                        let made = rustix::fs::openat(&above, name, flags, Mode::empty())?;
                        rustix::fs::fchmod(made, mode)?;
                    }
                }
                // An entry exists; the next round fails if it is no directory.
                Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
            so_far = whole;
        }
        Ok(())
    }
}

impl ParentAndName {
    /// Returns the entry's metadata without following a link; `None` if there is no entry.
    pub fn stat(&self) -> rustix::io::Result<Option<Stat>> {
        match rustix::fs::statat(&self.directory, &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => Ok(None),
            about => about.map(Some),
        }
    }

    /// Returns true if the entry is a directory.
    pub fn is_directory(&self) -> rustix::io::Result<bool> {
        Ok(self.stat()?.is_some_and(|about| FileType::from_raw_mode(about.st_mode).is_dir()))
    }

    /// Removes the entry with everything in it; succeeds if there is none.
    pub fn remove(&self) -> io::Result<()> {
        match self.stat()? {
            None => Ok(()),
            // `remove_dir_all` does not follow links either, and its path starts from the open directory.
            Some(about) if FileType::from_raw_mode(about.st_mode).is_dir() => fs::remove_dir_all(self.path()),
            Some(_) => Ok(rustix::fs::unlinkat(&self.directory, &self.name, AtFlags::empty())?),
        }
    }

    /// Returns a path on the machine that refers to this entry.
    pub(crate) fn path(&self) -> PathBuf {
        let number = self.directory.as_fd().as_raw_fd();
        PathBuf::from(format!("/proc/self/fd/{number}")).join(&self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn directories_made_for_a_sub_path_have_the_mode_of_the_root_vol_1() {
        use std::os::unix::fs::PermissionsExt;
        let around = tempfile::tempdir().unwrap();
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o7777;
        for file_mode in [0o777, 0o2770, 0o1777, 0o750] {
            let root = around.path().join(format!("{file_mode:o}"));
            fs::create_dir(&root).unwrap();
            fs::set_permissions(&root, fs::Permissions::from_mode(file_mode)).unwrap();
            let inside = RootDir::new(&root).unwrap();
            inside.directory(Path::new("of-an-image")).unwrap();
            fs::set_permissions(root.join("of-an-image"), fs::Permissions::from_mode(0o700)).unwrap();
            inside.any(Path::new("of-an-image/a/b")).unwrap();
            let modes =
                ["of-an-image", "of-an-image/a", "of-an-image/a/b"].map(|path| mode(&root.join(path)));
            assert_eq!(modes, [0o700, file_mode, file_mode], "existing directories keep their mode");
        }
    }

    /// IMG-3: all links lead to places inside.
    #[test]
    fn no_link_leads_outside() {
        let around = tempfile::tempdir().unwrap();
        let root = around.path().join("root");
        fs::create_dir_all(root.join("etc")).unwrap();
        fs::write(around.path().join("secret"), "outside").unwrap();
        fs::write(root.join("secret"), "inside").unwrap();
        fs::write(root.join("etc/passwd"), "root:x:0:0::/root:/bin/sh").unwrap();
        symlink("/etc/passwd", root.join("absolute")).unwrap();
        symlink("../../../secret", root.join("up")).unwrap();
        symlink("/etc", root.join("run")).unwrap();
        symlink("/nowhere", root.join("dangling")).unwrap();
        symlink("/proc/self/root/etc/passwd", root.join("magic")).unwrap();
        let inside = RootDir::new(&root).unwrap();
        assert_eq!(inside.read(Path::new("absolute")).unwrap(), "root:x:0:0::/root:/bin/sh");
        assert_eq!(inside.read(Path::new("/up")).unwrap(), "inside");
        assert_eq!(inside.read(Path::new("../secret")).unwrap(), "inside");
        for nothing in ["magic", "dangling", "etc", "none"] {
            assert_eq!(inside.read(Path::new(nothing)), None, "{nothing}");
        }
        fs::write(root.join("latin"), b"app:x:1:1:M\xfcller").unwrap();
        assert_eq!(inside.read(Path::new("latin")).unwrap(), "app:x:1:1:M\u{fffd}ller");
        File::create(root.join("huge")).unwrap().set_len(1 << 30).unwrap();
        assert_eq!(inside.read(Path::new("huge")), None, "nothing of its size is read");
        inside.ensure_parent(Path::new("run/a/b")).unwrap();
        assert!(root.join("etc/a").is_dir());
        // The targets of links are created inside, and a link to itself does not loop forever.
        symlink("../../../../nowhere/at/all", root.join("far")).unwrap();
        symlink("/loop", root.join("loop")).unwrap();
        inside.file(Path::new("/dangling")).unwrap();
        inside.directory(Path::new("/far/away")).unwrap();
        assert!(root.join("nowhere/at/all/away").is_dir() && root.join("dangling").is_file());
        assert!(inside.directory(Path::new("/loop/a")).is_err());
        assert!(inside.directory(Path::new("/secret")).is_err() && inside.file(Path::new("/etc")).is_err());
        assert!(!Path::new("/nowhere").exists());
    }
}
