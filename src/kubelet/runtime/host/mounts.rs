//! A container's view of the files: the machine's programs, its own root, /tmp, /dev and volumes.
//!
//! Runs in the forked child, in a mount namespace of its own. Nothing on the machine changes: mount points
//! that do not exist are made in the container's private directory, or in a private layer over the machine's.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, StatVfsMountFlags};
use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind_recursive, mount_change,
    mount_remount, unmount,
};
use rustix::thread::UnshareFlags;

use super::image_root::{self, ImageRoot};
use super::os;
use super::program::os_text;

/// One thing to show at a path of the container's.
#[derive(Clone, Debug)]
pub(super) struct Show {
    /// A directory or file of the machine's.
    pub(super) source: PathBuf,
    /// Where the container sees it.
    pub(super) target: PathBuf,
    pub(super) read_only: bool,
}

/// What a container is to see.
#[derive(Clone, Debug)]
pub(super) struct View {
    /// The container's private root directory.
    pub(super) root: PathBuf,
    /// Its /tmp.
    pub(super) tmp: PathBuf,
    /// Where private layers over the machine's directories go; never shared between containers.
    pub(super) layers: PathBuf,
    /// Beside the usual, in order of mounting.
    pub(super) shows: Vec<Show>,
    /// A directory that must exist, the working directory.
    pub(super) working_dir: PathBuf,
    /// The machine's own /tmp and /dev are shown.
    pub(super) of_machine: bool,
    /// An image's files are the root, instead of the machine's.
    pub(super) image: Option<ImageRoot>,
}

/// Directories under `/` that the container gets anew.
const OWN: &[&str] = &["proc", "dev", "tmp"];

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
    let mut own = build_root(view, root).map_err(|error| format!("root: {}", os_text(&error)))?;
    // Sources and layers are held by descriptors: after the pivot their paths mean something else.
    let layers = hold(&view.layers).map_err(at("layers"))?;
    let sources = view.shows.iter().map(|show| {
        hold(&show.source).map_err(|error| {
            format!("error mounting {:?}: {}", show.source.display(), os_text(&error.into()))
        })
    });
    let sources: Vec<OwnedFd> = sources.collect::<Result<_, _>>()?;

    rustix::process::chdir(root).map_err(at("chdir"))?;
    rustix::process::pivot_root(".", ".").map_err(at("pivot_root"))?;
    mount_change("/", MountPropagationFlags::PRIVATE).map_err(at("private root"))?;

    let mut layer_count = 0;
    for (show, source) in view.shows.iter().zip(&sources) {
        let place = |error: io::Error| {
            format!(
                "error mounting {:?} to rootfs at {:?}: {}",
                show.source.display().to_string(),
                show.target.display().to_string(),
                os_text(&error)
            )
        };
        let is_directory = fs::metadata(link(source)).map_err(place)?.is_dir();
        prepare(&show.target, is_directory, &mut own, &layers, &mut layer_count).map_err(place)?;
        bind(source, &show.target, show.read_only).map_err(place)?;
        own.add(&show.target, !show.read_only);
    }
    prepare(&view.working_dir, true, &mut own, &layers, &mut layer_count)
        .map_err(|error| format!("working directory {}: {}", view.working_dir.display(), os_text(&error)))?;
    // The old root lies over the new one at `.`: from here on it is out of reach.
    unmount(".", UnmountFlags::DETACH).map_err(at("old root"))?;
    rustix::process::chdir("/").map_err(at("chdir"))
}

/// Which parts of the view are the container's own to make mount points in: the longest prefix decides.
struct Own(Vec<(PathBuf, bool)>);

impl Own {
    fn add(&mut self, path: &Path, own: bool) {
        self.0.push((path.to_path_buf(), own));
    }

    /// Later entries are mounted over earlier ones.
    fn is_own(&self, path: &Path) -> bool {
        let covering = self.0.iter().filter(|(prefix, _)| path.starts_with(prefix));
        covering.max_by_key(|(prefix, _)| prefix.components().count()).is_some_and(|(_, own)| *own)
    }
}

/// Puts the machine's top-level directories, and own /proc, /dev and /tmp, under `root`.
fn build_root(view: &View, root: &Path) -> io::Result<Own> {
    let mut own = Own(vec![(PathBuf::from("/"), true)]);
    fs::create_dir_all(root)?;
    mount_bind_recursive(root, root)?;
    // Unbindable: showing the directory that our own root lies in must not show the root in itself.
    mount_change(root, MountPropagationFlags::UNBINDABLE)?;
    for entry in fs::read_dir("/")? {
        let entry = entry?;
        let (name, kind) = (entry.file_name(), entry.file_type()?);
        let place = root.join(&name);
        let renewed = OWN.iter().any(|own| name == *own) && !(view.of_machine && name != "proc");
        if renewed {
        } else if kind.is_symlink() {
            let _ = symlink(fs::read_link(entry.path())?, &place);
        } else if kind.is_dir() {
            make_directory(&place)?;
            mount_bind_recursive(entry.path(), &place)?;
            own.add(&Path::new("/").join(&name), false);
        }
    }
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    make_directory(&root.join("proc"))?;
    mount("proc", root.join("proc"), "proc", flags, None)?;
    own.add(Path::new("/proc"), false);
    if !view.of_machine {
        fs::set_permissions(&view.tmp, fs::Permissions::from_mode(0o1777))?;
        make_directory(&root.join("tmp"))?;
        mount_bind_recursive(&view.tmp, root.join("tmp"))?;
        build_dev(&root.join("dev"))?;
    }
    Ok(own)
}

/// A small /dev: the harmless devices, terminals and shared memory.
pub(super) fn build_dev(dev: &Path) -> io::Result<()> {
    make_directory(dev)?;
    mount("tmpfs", dev, "tmpfs", MountFlags::NOSUID, c"mode=755,size=65536k")?;
    for device in ["null", "zero", "full", "random", "urandom", "tty", "ptmx"] {
        let (source, place) = (Path::new("/dev").join(device), dev.join(device));
        if source.exists() {
            fs::File::create(&place)?;
            mount_bind_recursive(&source, &place)?;
        }
    }
    make_directory(&dev.join("pts"))?;
    if Path::new("/dev/pts").exists() {
        mount_bind_recursive("/dev/pts", dev.join("pts"))?;
    }
    make_directory(&dev.join("shm"))?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    mount("shm", dev.join("shm"), "tmpfs", flags, c"mode=1777,size=65536k")?;
    for (link, target) in [("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2")] {
        symlink(format!("/proc/self/fd{target}"), dev.join(link))?;
    }
    Ok(())
}

/// Makes sure that something of the right kind is at `target`, without touching the machine's files.
fn prepare(
    target: &Path,
    is_directory: bool,
    own: &mut Own,
    layers: &OwnedFd,
    layer_count: &mut usize,
) -> io::Result<()> {
    match fs::metadata(target) {
        Ok(about) if about.is_dir() == is_directory => return Ok(()),
        Ok(_) if is_directory => return Err(io::ErrorKind::NotADirectory.into()),
        Ok(_) => return Err(io::ErrorKind::IsADirectory.into()),
        Err(_) => {}
    }
    let nearest = target.ancestors().skip(1).find(|path| path.exists()).unwrap_or(Path::new("/"));
    let nearest = fs::canonicalize(nearest)?;
    if !own.is_own(&nearest) {
        cover(&nearest, layers, *layer_count)?;
        *layer_count += 1;
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
fn cover(directory: &Path, layers: &OwnedFd, number: usize) -> io::Result<()> {
    let (upper, work) = (format!("upper-{number}"), format!("work-{number}"));
    let layers = link(layers);
    make_directory(&layers.join(&upper))?;
    make_directory(&layers.join(&work))?;
    let original = hold(directory)?;
    let about = fs::metadata(link(&original))?.permissions();
    fs::set_permissions(layers.join(&upper), about)?;
    let rights = if rustix::process::geteuid().is_root() { "" } else { ",userxattr" };
    let options = format!(
        "lowerdir={},upperdir={},workdir={}{rights}",
        link(&original).display(),
        layers.join(&upper).display(),
        layers.join(&work).display()
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

fn bind(source: &OwnedFd, target: &Path, read_only: bool) -> io::Result<()> {
    mount_bind_recursive(link(source), target)?;
    if read_only { lock_read_only(target) } else { Ok(()) }
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

fn make_directory(path: &Path) -> io::Result<()> {
    match fs::create_dir(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}
