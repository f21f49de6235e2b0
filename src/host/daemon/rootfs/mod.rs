//! A container's root file system: an `image`'s files, or all files of the machine (`layout`, over an `overlay` as root)
//! for users' entries and the image `host`; with volumes and other sources mounted in it.
//!
//! Runs in the forked child, in a mount namespace of its own. The child may be outside of the container's PID namespace:
//! the container's /proc then does not have it, and it finds itself in the machine's /proc only. Nothing on the machine changes: missing mount points are
//! created in the container's private directory, or in a private layer over the machine's.

mod dev;
mod devices;
mod image;
mod image_volumes;
mod kernel;
mod layers;
mod layout;
mod mapped;
mod mapped_probe;
mod masked;
mod mount;
mod overlay;
mod view;

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::FileType;
use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind_recursive, mount_change, unmount,
};
use rustix::thread::UnshareFlags;

use super::os;
use super::program::os_text;
use base::subordinate_ids::is_machine_root;
pub(super) use mapped_probe::works as user_namespaces_work;
pub(super) use masked::MaskedDirectory;
pub(super) use mount::mount_points;
use mount::{
    cover_with_memory, hold, link, lock_all_read_only, lock_read_only, make_directory, make_layer,
    show_entries,
};
pub(super) use overlay::works as overlays_work;
use view::RootLayout;
pub(super) use view::{BindMount, ImageRoot, Overlay, ProcSource, UPPER, View, user_of_machine};

/// Applies the view to this process, for good.
pub(super) fn enter(view: &View) -> Result<(), String> {
    let at = |context: &str| {
        let context = context.to_owned();
        move |error: rustix::io::Errno| format!("{context}: {}", os_text(&error.into()))
    };
    os::unshare(UnshareFlags::NEWNS).map_err(|error| format!("mount namespace: {}", os_text(&error)))?;
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .map_err(at("private mounts"))?;
    if let Some(users) = &view.users {
        layers::show_as_pods(view, users).map_err(|error| format!("layers: {}", os_text(&error)))?;
    }
    image_volumes::mount(view)?;
    if let Some(image) = &view.image {
        return image::enter(view, image);
    }
    let root = &view.root;
    let built = layout::build(view).map_err(|error| format!("root: {}", os_text(&error)))?;
    // Sources and layers are held by descriptors: after the pivot their paths lead to other files.
    let dir = LazyDirectory::new(&view.dir).map_err(at("container directory"))?;
    let layers = LazyDirectory::new(&view.layers).map_err(at("layers"))?;
    let sources = view.bind_mounts.iter().map(|show| show.hold().map_err(|error| show.failure(&error)));
    let sources: Vec<OwnedFd> = sources.collect::<Result<_, _>>()?;

    rustix::process::chdir(root).map_err(at("chdir"))?;
    rustix::process::pivot_root(".", ".").map_err(at("pivot_root"))?;
    mount_change("/", MountPropagationFlags::PRIVATE).map_err(at("private root"))?;

    let mut own = OwnedPaths::new(dir, layers, &built);
    // All mount points are created before any mount: a directory that gets a layer for one hides earlier mounts in it.
    for (show, source) in view.bind_mounts.iter().zip(&sources) {
        let inside =
            |other: &BindMount| other.target != show.target && show.target.starts_with(&other.target);
        if !view.bind_mounts.iter().any(inside) {
            mount_step(show, source, |is_directory| prepare(&show.target, is_directory, &mut own))?;
        }
    }
    let in_mount = view.bind_mounts.iter().any(|show| view.working_dir.starts_with(&show.target));
    if view.read_only || !in_mount {
        working_dir(view, &mut own)?;
    }
    if view.read_only {
        // From here on nothing can be created in the root.
        own.close(&built.machine).map_err(|error| format!("read-only root: {}", os_text(&error)))?;
    }
    for (show, source) in view.bind_mounts.iter().zip(&sources) {
        mount_step(show, source, |is_directory| {
            prepare(&show.target, is_directory, &mut own)?;
            mount::show(source, &show.target)?;
            show.lock(&show.target)
        })?;
        own.add(&show.target, !show.read_only);
    }
    working_dir(view, &mut own)?;
    // The old root covers the new one at `.`: once it is unmounted, it is out of reach.
    unmount(".", UnmountFlags::DETACH).map_err(at("old root"))?;
    rustix::process::chdir("/").map_err(at("chdir"))?;
    if view.every_device || view.of_machine {
        return Ok(());
    }
    built.devices.forbid_other_devices().map_err(|error| format!("devices: {}", os_text(&error)))
}

/// Executes one step of a mount, with its errors in runc's words.
fn mount_step(
    show: &BindMount,
    source: &OwnedFd,
    act: impl FnOnce(bool) -> io::Result<()>,
) -> Result<(), String> {
    let about = rustix::fs::fstat(source).map_err(io::Error::from);
    let is_directory = |about: rustix::fs::Stat| FileType::from_raw_mode(about.st_mode).is_dir();
    about.and_then(|about| act(is_directory(about))).map_err(|error| show.failure(&error))
}

/// Creates the working directory if it is missing: on disk, since a program may write much into it.
fn working_dir(view: &View, own: &mut OwnedPaths) -> Result<(), String> {
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

/// The paths below which mount points may be created (true) or may not (false): the longest prefix of a path decides.
struct OwnedPaths {
    prefixes: Vec<(PathBuf, bool)>,
    /// The container's own directory on disk.
    dir: LazyDirectory,
    layers: LazyDirectory,
    layer_count: usize,
}

/// A directory that is created on demand, by its parent's descriptor: its path is in the old root, which the process
/// has left.
struct LazyDirectory {
    parent: OwnedFd,
    name: OsString,
}

impl LazyDirectory {
    fn new(path: &Path) -> rustix::io::Result<Self> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(rustix::io::Errno::INVAL);
        };
        Ok(Self { parent: hold(parent)?, name: name.to_owned() })
    }

    /// Creates the directory, unless it exists.
    fn make(&self) -> io::Result<PathBuf> {
        let path = link(&self.parent).join(&self.name);
        make_directory(&path)?;
        Ok(path)
    }
}

impl OwnedPaths {
    fn new(dir: LazyDirectory, layers: LazyDirectory, layout: &RootLayout) -> Self {
        let own = layout.own.iter().map(|path| (path.clone(), true));
        let of_machine = layout.machine.iter().map(|path| (path.clone(), false));
        Self {
            prefixes: [("/".into(), true)].into_iter().chain(own).chain(of_machine).collect(),
            dir,
            layers,
            layer_count: 0,
        }
    }

    fn add(&mut self, path: &Path, own: bool) {
        self.prefixes.push((path.to_path_buf(), own));
    }

    /// Returns true if mount points may be created at this path. Of equal prefixes the later one decides, because it is
    /// mounted over the earlier one.
    fn is_own(&self, path: &Path) -> bool {
        let covering = self.prefixes.iter().filter(|(prefix, _)| path.starts_with(prefix));
        covering.max_by_key(|(prefix, _)| prefix.components().count()).is_some_and(|(_, own)| *own)
    }

    /// Makes all mounts read-only: from here on the container can write no existing file.
    fn close(&mut self, mounted: &[PathBuf]) -> io::Result<()> {
        let layers: Vec<PathBuf> =
            self.prefixes.iter().filter(|(_, own)| *own).map(|(path, _)| path.clone()).collect();
        for path in mounted.iter().filter(|path| *path != Path::new("/proc")) {
            // The machine's terminals stay usable; mounts in its other directories stay unchanged.
            if path == Path::new("/dev") { lock_read_only(path) } else { lock_all_read_only(path) }?;
        }
        for path in &layers {
            lock_read_only(path)?;
        }
        if Path::new("/tmp").exists() && !mounted.iter().any(|path| path == Path::new("/tmp")) {
            lock_read_only(Path::new("/tmp"))?;
        }
        self.prefixes.iter_mut().for_each(|(_, own)| *own = false);
        Ok(())
    }
}

/// Ensures a mount point of the right type at `target`, without touching the machine's files.
fn prepare(target: &Path, is_directory: bool, own: &mut OwnedPaths) -> io::Result<()> {
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

/// Covers a directory of the machine's with a private layer that shows its entries and takes new ones.
fn cover(directory: &Path, layers: &Path, number: usize) -> io::Result<()> {
    let [upper, work] = make_layer(layers, &format!("upper-{number}"))?;
    let original = hold(directory)?;
    let about = fs::metadata(link(&original))?.permissions();
    fs::set_permissions(&upper, about)?;
    let rights = if is_machine_root() { "" } else { ",userxattr" };
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
    // This kernel allows no overlay.
    cover_with_memory(directory)?;
    show_entries(&original, directory)
}
