//! A container's view of the files: its root (`skeleton`) with volumes and other things shown in it.
//!
//! Runs in the forked child, in a mount namespace of its own. Nothing on the machine changes: mount points
//! that do not exist are made in the container's private directory, or in a private layer over the machine's.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, StatVfsMountFlags};
use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind_recursive, mount_change,
    mount_remount, unmount,
};
use rustix::thread::UnshareFlags;

use super::image_root::{self, ImageRoot};
use super::layered::{Bones, Layered};
use super::os;
use super::program::os_text;
use super::skeleton::{self, make_directory};
use crate::base::root_dir::RootDir;

/// One thing to show at a path of the container's.
#[derive(Clone, Debug)]
pub(super) struct Show {
    /// A directory or file of the machine's.
    pub(super) source: PathBuf,
    /// What of it: looked up in it as if it were the root, and made as a directory when it is not there.
    pub(super) beneath: Option<PathBuf>,
    /// Where the container sees it.
    pub(super) target: PathBuf,
    pub(super) read_only: bool,
    /// Nor may what is mounted in it be written.
    pub(super) recursive: bool,
}

impl Show {
    /// A directory or file that may be written.
    pub(super) fn new(source: PathBuf, target: PathBuf) -> Self {
        Self { source, beneath: None, target, read_only: false, recursive: false }
    }

    /// The path of what is shown.
    pub(super) fn path(&self) -> PathBuf {
        self.beneath.as_ref().map_or_else(|| self.source.clone(), |inside| self.source.join(inside))
    }

    /// A descriptor of what is shown.
    pub(super) fn hold(&self) -> io::Result<OwnedFd> {
        match &self.beneath {
            None => Ok(hold(&self.source)?),
            Some(inside) => RootDir::new(&self.source)?.any(inside),
        }
    }

    /// Makes what is mounted at a path as read only as it should be.
    pub(super) fn lock(&self, place: &Path) -> io::Result<()> {
        match (self.read_only, self.recursive) {
            (false, _) => Ok(()),
            (true, false) => lock_read_only(place),
            (true, true) => lock_all_read_only(place),
        }
    }
}

/// What a container is to see.
#[derive(Clone, Debug)]
pub(super) struct View {
    /// The container's private root directory, in memory.
    pub(super) root: PathBuf,
    /// Its /tmp, on disk.
    pub(super) tmp: PathBuf,
    /// Its own directory on disk, made when one is needed: a working directory that is not there is made below it.
    /// Never shared between containers, and neither are the layers.
    pub(super) dir: PathBuf,
    /// Where private layers over the machine's directories go, in memory; made when one is needed.
    pub(super) layers: PathBuf,
    /// Beside the usual, in order of mounting.
    pub(super) shows: Vec<Show>,
    /// A directory that must exist, the working directory.
    pub(super) working_dir: PathBuf,
    /// The machine's own /tmp and /dev are shown.
    pub(super) of_machine: bool,
    /// Only what is shown may be written.
    pub(super) read_only: bool,
    /// An image's files are the root, instead of the machine's.
    pub(super) image: Option<ImageRoot>,
    /// What is written over the machine's files goes into a layer.
    pub(super) layered: Option<Layered>,
}

/// Gives this process the view, for good.
pub(super) fn enter(view: &View) -> Result<(), String> {
    let at = |what: &str| {
        let what = what.to_owned();
        move |error: rustix::io::Errno| format!("{what}: {}", os_text(&error.into()))
    };
    os::unshare(UnshareFlags::NEWNS).map_err(|error| format!("mount namespace: {}", os_text(&error)))?;
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .map_err(at("private mounts"))?;
    if let Some(image) = &view.image {
        return image_root::enter(view, image);
    }
    let root = &view.root;
    let bones = skeleton::build(view).map_err(|error| format!("root: {}", os_text(&error)))?;
    // Sources and layers are held by descriptors: after the pivot their paths mean something else.
    let dir = Unmade::new(&view.dir).map_err(at("container directory"))?;
    let layers = Unmade::new(&view.layers).map_err(at("layers"))?;
    let sources = view.shows.iter().map(|show| {
        show.hold()
            .map_err(|error| format!("error mounting {:?}: {}", show.path().display(), os_text(&error)))
    });
    let sources: Vec<OwnedFd> = sources.collect::<Result<_, _>>()?;

    rustix::process::chdir(root).map_err(at("chdir"))?;
    rustix::process::pivot_root(".", ".").map_err(at("pivot_root"))?;
    mount_change("/", MountPropagationFlags::PRIVATE).map_err(at("private root"))?;

    let mut own = Own::new(dir, layers, &bones);
    if view.read_only {
        // Mount points must be there before nothing can be made any more.
        for (show, source) in view.shows.iter().zip(&sources) {
            let inside = |other: &Show| other.target != show.target && show.target.starts_with(&other.target);
            if !view.shows.iter().any(inside) {
                place(show, source, |is_directory| prepare(&show.target, is_directory, &mut own))?;
            }
        }
        working_dir(view, &mut own)?;
        own.close(&bones.machine).map_err(|error| format!("read-only root: {}", os_text(&error)))?;
    }
    for (show, source) in view.shows.iter().zip(&sources) {
        place(show, source, |is_directory| {
            prepare(&show.target, is_directory, &mut own)?;
            mount_bind_recursive(link(source), &show.target)?;
            show.lock(&show.target)
        })?;
        own.add(&show.target, !show.read_only);
    }
    working_dir(view, &mut own)?;
    // The old root lies over the new one at `.`: from here on it is out of reach.
    unmount(".", UnmountFlags::DETACH).map_err(at("old root"))?;
    rustix::process::chdir("/").map_err(at("chdir"))
}

/// Does something about showing a thing, with a failure told as runc does.
fn place(show: &Show, source: &OwnedFd, act: impl FnOnce(bool) -> io::Result<()>) -> Result<(), String> {
    fs::metadata(link(source)).and_then(|about| act(about.is_dir())).map_err(|error| {
        format!(
            "error mounting {:?} to rootfs at {:?}: {}",
            show.path().display().to_string(),
            show.target.display().to_string(),
            os_text(&error)
        )
    })
}

/// Makes sure that the working directory is there: on disk, since a program may write much into it.
fn working_dir(view: &View, own: &mut Own) -> Result<(), String> {
    let path = &view.working_dir;
    let mut made = || {
        if !path.exists() {
            prepare(path, true, own)?;
            let source = own.dir.make()?.join("working-dir");
            make_directory(&source)?;
            return mount_bind_recursive(source, path).map_err(Into::into);
        }
        prepare(path, true, own)
    };
    made().map_err(|error| format!("working directory {}: {}", path.display(), os_text(&error)))
}

/// Which parts of the view are the container's own to make mount points in: the longest prefix decides.
struct Own {
    places: Vec<(PathBuf, bool)>,
    /// The container's own directory on disk.
    dir: Unmade,
    /// Where its layers lie.
    layers: Unmade,
    layer_count: usize,
}

/// A directory that is made when it is needed, by a process that has left the root in which it has its path.
struct Unmade {
    parent: OwnedFd,
    name: OsString,
}

impl Unmade {
    fn new(path: &Path) -> rustix::io::Result<Self> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(rustix::io::Errno::INVAL);
        };
        Ok(Self { parent: hold(parent)?, name: name.to_owned() })
    }

    /// The directory, which is there from now on.
    fn make(&self) -> io::Result<PathBuf> {
        let path = link(&self.parent).join(&self.name);
        make_directory(&path)?;
        Ok(path)
    }
}

impl Own {
    fn new(dir: Unmade, layers: Unmade, bones: &Bones) -> Self {
        let own = bones.own.iter().map(|path| (path.clone(), true));
        let of_machine = bones.machine.iter().map(|path| (path.clone(), false));
        Self {
            places: [("/".into(), true)].into_iter().chain(own).chain(of_machine).collect(),
            dir,
            layers,
            layer_count: 0,
        }
    }

    fn add(&mut self, path: &Path, own: bool) {
        self.places.push((path.to_path_buf(), own));
    }

    /// Later entries are mounted over earlier ones.
    fn is_own(&self, path: &Path) -> bool {
        let covering = self.places.iter().filter(|(prefix, _)| path.starts_with(prefix));
        covering.max_by_key(|(prefix, _)| prefix.components().count()).is_some_and(|(_, own)| *own)
    }

    /// From here on nothing that is there may be written.
    fn close(&mut self, mounted: &[PathBuf]) -> io::Result<()> {
        let layers: Vec<PathBuf> =
            self.places.iter().filter(|(_, own)| *own).map(|(path, _)| path.clone()).collect();
        for path in mounted.iter().filter(|path| *path != Path::new("/proc")) {
            // The machine's terminals stay usable; what is mounted in its other directories is as they are.
            if path == Path::new("/dev") { lock_read_only(path) } else { lock_all_read_only(path) }?;
        }
        for path in &layers {
            lock_read_only(path)?;
        }
        if Path::new("/tmp").exists() && !mounted.iter().any(|path| path == Path::new("/tmp")) {
            lock_read_only(Path::new("/tmp"))?;
        }
        self.places.iter_mut().for_each(|(_, own)| *own = false);
        Ok(())
    }
}

/// Makes sure that something of the right kind is at `target`, without touching the machine's files.
fn prepare(target: &Path, is_directory: bool, own: &mut Own) -> io::Result<()> {
    match fs::metadata(target) {
        Ok(about) if about.is_dir() == is_directory => return Ok(()),
        Ok(_) if is_directory => return Err(io::ErrorKind::NotADirectory.into()),
        Ok(_) => return Err(io::ErrorKind::IsADirectory.into()),
        Err(_) => {}
    }
    let nearest = target.ancestors().skip(1).find(|path| path.exists()).unwrap_or(Path::new("/"));
    let nearest = fs::canonicalize(nearest)?;
    if !own.is_own(&nearest) {
        cover(&nearest, &own.layers.make()?, own.layer_count)?;
        own.layer_count += 1;
        own.add(&nearest, true);
    }
    if is_directory {
        fs::create_dir_all(target)
    } else {
        target.parent().map_or(Ok(()), fs::create_dir_all)?;
        fs::File::create(target).map(drop)
    }
}

/// Covers a directory of the machine's with a private layer that shows it and takes new entries.
fn cover(directory: &Path, layers: &Path, number: usize) -> io::Result<()> {
    let (upper, work) = (layers.join(format!("upper-{number}")), layers.join(format!("work-{number}")));
    make_directory(&upper)?;
    make_directory(&work)?;
    let original = hold(directory)?;
    let about = fs::metadata(link(&original))?.permissions();
    fs::set_permissions(&upper, about)?;
    let rights = if rustix::process::geteuid().is_root() { "" } else { ",userxattr" };
    let options = format!(
        "lowerdir={},upperdir={},workdir={}{rights}",
        link(&original).display(),
        upper.display(),
        work.display()
    );
    let options = std::ffi::CString::new(options).map_err(io::Error::other)?;
    if mount("overlay", directory, "overlay", MountFlags::empty(), options.as_c_str()).is_ok() {
        return Ok(());
    }
    mirror(directory, &original)
}

/// Where layering is not possible: a private directory with every entry of the original bound into it.
fn mirror(directory: &Path, original: &OwnedFd) -> io::Result<()> {
    mount("tmpfs", directory, "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, c"mode=755,size=65536k")?;
    for entry in fs::read_dir(link(original))? {
        let entry = entry?;
        let (kind, place) = (entry.file_type()?, directory.join(entry.file_name()));
        if kind.is_symlink() {
            symlink(fs::read_link(entry.path())?, &place)?;
        } else {
            if kind.is_dir() {
                make_directory(&place)?;
            } else {
                fs::File::create(&place)?;
            }
            mount_bind_recursive(entry.path(), &place)?;
        }
    }
    Ok(())
}

/// Makes a mount read only, and everything that is mounted in it.
pub(super) fn lock_all_read_only(target: &Path) -> io::Result<()> {
    match os::lock_mounts_read_only(target) {
        Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => {}
        done => return done,
    }
    // A kernel before 5.12 wants them one by one.
    let target = fs::canonicalize(target)?;
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    mount_points(&mounts)
        .filter(|point| point.starts_with(&target))
        .try_for_each(|point| lock_read_only(&point))
}

/// Where something is mounted, by `/proc/self/mountinfo`.
pub(super) fn mount_points(mountinfo: &str) -> impl Iterator<Item = PathBuf> {
    mountinfo.lines().filter_map(|line| {
        let bytes = line.split(' ').nth(4)?.as_bytes();
        let mut path = Vec::with_capacity(bytes.len());
        let mut rest = bytes;
        while let Some((first, after)) = rest.split_first() {
            // Spaces and the like are octal numbers there.
            let number = after.get(..3).filter(|_| *first == b'\\');
            let number = number.and_then(|text| u8::from_str_radix(std::str::from_utf8(text).ok()?, 8).ok());
            path.push(number.unwrap_or(*first));
            rest = if number.is_some() { &after[3..] } else { after };
        }
        Some(PathBuf::from(std::ffi::OsString::from_vec(path)))
    })
}

/// Makes a mount read only.
pub(super) fn lock_read_only(target: &Path) -> io::Result<()> {
    // Flags that the machine locked must be repeated, or the change is refused.
    let locked = rustix::fs::statvfs(target)?.f_flag;
    let mut flags = MountFlags::BIND | MountFlags::RDONLY;
    for (set, flag) in [
        (StatVfsMountFlags::NOSUID, MountFlags::NOSUID),
        (StatVfsMountFlags::NODEV, MountFlags::NODEV),
        (StatVfsMountFlags::NOEXEC, MountFlags::NOEXEC),
        (StatVfsMountFlags::NOATIME, MountFlags::NOATIME),
        (StatVfsMountFlags::NODIRATIME, MountFlags::NODIRATIME),
        (StatVfsMountFlags::RELATIME, MountFlags::RELATIME),
    ] {
        if locked.contains(set) {
            flags |= flag;
        }
    }
    Ok(mount_remount(target, flags, c"")?)
}

/// A descriptor that only names a file.
pub(super) fn hold(path: &Path) -> rustix::io::Result<OwnedFd> {
    rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
}

/// A path that means what the descriptor holds.
pub(super) fn link(descriptor: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", descriptor.as_raw_fd()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_points_are_read_with_their_spaces() {
        let text =
            "1 2 0:1 / / rw - ext4 a rw\n3 1 0:2 / /mnt/a\\040b\\134 rw shared:1 - tmpfs t rw\nshort\n";
        let points: Vec<_> = mount_points(text).collect();
        assert_eq!(points, [Path::new("/"), Path::new("/mnt/a b\\")]);
    }
}
