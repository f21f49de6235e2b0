//! The layers of a root with an image's files: the image's below, a private writable one above. A built-in image also
//! has the machine's system directories, each beneath a writable layer of its own.
//!
//! The layers are named by descriptors: the kernel's options have room for short names only, and the characters of a
//! path need no escape.

use std::collections::HashSet;
use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::OFlags;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, MountPropagationFlags, fsconfig_create,
    fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen, mount_bind_recursive, mount_change,
};

use super::mapped::{self, Access};
use super::mount::{attach, hold, link, lock_all_read_only, make_directory, make_layer};
use super::view::{BindMount, ImageRoot, UPPER, View};
use crate::daemon::os;
use crate::daemon::user_namespace::PodUsers;
use base::layers::Layers;
use base::root_dir::RootDir;
use base::subordinate_ids::is_machine_root;

/// The extended attributes that mark what an overlay's layer hides.
#[derive(Clone, Copy, Debug)]
pub(super) enum Marks {
    /// Those that need no rights (`userxattr`): a layer that one user has unpacked means the same to every other.
    OfUsers,
    /// Those of root. A file system in memory has no others before Linux 6.6.
    OfRoot,
}

/// Mounts the image's files at the container's root, writable for it alone. Returns the mounts that it may write.
pub(super) fn build(view: &View, image: &ImageRoot) -> io::Result<Vec<OwnedFd>> {
    fs::create_dir_all(&view.layers)?;
    if let Some(users) = &view.users {
        mapped::cover(&view.layers, users, Access::Write)?;
        os::create_files_as(users.ids.first)?;
    }
    if !image.machine.is_empty() && image.beside.is_none() {
        make_mount_points(view, image)?;
    }
    let lowers = image.layers.directories().to_vec();
    if !mount_over(lowers, &hold(&view.root)?, view, image, UPPER)? {
        if view.users.is_some() {
            return Err(io::Error::other("the kernel mounts no overlay of layers with a pod's owners"));
        }
        // The kernel allows no overlay here, or not on this file system. A full copy is slower and takes space, but is
        // as private.
        image.layers.copy(&view.root)?;
        mount_bind_recursive(&view.root, &view.root)?;
    }
    // The root is unbindable: otherwise a mount of a directory that contains it would show the root within itself.
    mount_change(&view.root, MountPropagationFlags::UNBINDABLE)?;
    let mut own = vec![hold(&view.root)?];
    let root = RootDir::new(&view.root)?;
    for directory in &image.machine {
        // The files of a debug container's target may have changed: no link of them leads out of the root.
        let place = root.directory(directory)?;
        let mut lowers = parts_of(image, directory);
        lowers.push(directory.clone());
        if mount_over(lowers, &place, view, image, &upper_name(directory))? {
            own.push(root.open(directory, OFlags::PATH)?);
        } else {
            mount_bind_recursive(directory, link(&place))?;
            let top = root.open(directory, OFlags::PATH)?;
            lock_all_read_only(&link(&top))?;
        }
    }
    Ok(own)
}

/// Makes this process see the layers of the root and of image volumes with the owners of the pod: each once, because a
/// mapped mount cannot be mapped again.
pub(super) fn show_as_pods(view: &View, users: &PodUsers) -> io::Result<()> {
    let of_volumes = view.bind_mounts.iter().filter_map(|show| show.image.as_ref());
    let of_root = view
        .image
        .iter()
        .flat_map(|image| image.layers.directories().iter().chain(&image.beside).chain(&image.machine));
    let mut covered = HashSet::new();
    for layer in of_root.chain(of_volumes.flat_map(Layers::directories)) {
        if covered.insert(layer) {
            mapped::cover(layer, users, Access::Read)?;
        }
    }
    Ok(())
}

/// The layer's directory for one of the machine's directories.
fn upper_name(directory: &Path) -> String {
    format!("upper{}", directory.display().to_string().replace('/', "-"))
}

/// The parts that the image's layers have of one of the machine's directories.
fn parts_of(image: &ImageRoot, directory: &Path) -> Vec<PathBuf> {
    let inside = directory.strip_prefix("/").unwrap_or(directory);
    image.layers.directories().iter().map(|layer| layer.join(inside)).collect()
}

/// Mounts directories at a path, the first one on top, beneath a writable layer; returns false if the kernel refuses.
/// The root of the mount has the mode of the first one.
fn mount_over(
    lowers: Vec<PathBuf>,
    place: &OwnedFd,
    view: &View,
    image: &ImageRoot,
    name: &str,
) -> io::Result<bool> {
    let [upper, work] = make_layer(&view.layers, name)?;
    let beside = image.beside.as_ref().map(|layers| layers.join(name)).filter(|layer| layer.is_dir());
    let layers = Layers::new(beside.into_iter().chain(lowers).collect());
    fs::set_permissions(&upper, fs::metadata(layers.directory(0))?.permissions())?;
    // The layers of the store have the marks that need no rights.
    let of_root = !image.machine.is_empty() && is_machine_root();
    let marks = if of_root { Marks::OfRoot } else { Marks::OfUsers };
    let writable = WritableLayer { upper: hold(&upper)?, work: hold(&work)? };
    Ok(mount_layers(&layers, Some(&writable), place, marks).is_ok())
}

/// Mounts layers of the store over each other at a path, without a layer that could be written. The kernel demands two
/// layers at least: `empty` is an empty directory, and becomes the lowest one.
pub(super) fn mount_read_only(layers: &Layers, empty: &Path, place: &OwnedFd) -> io::Result<()> {
    let directories = layers.directories().iter().cloned().chain([empty.to_path_buf()]);
    mount_layers(&Layers::new(directories.collect()), None, place, Marks::OfUsers)
}

/// The layer above the others, which takes the writes.
pub(super) struct WritableLayer {
    pub(super) upper: OwnedFd,
    pub(super) work: OwnedFd,
}

/// Mounts layers over each other at a path, beneath a writable one if there is one.
pub(super) fn mount_layers(
    layers: &Layers,
    writable: Option<&WritableLayer>,
    place: &OwnedFd,
    marks: Marks,
) -> io::Result<()> {
    one_by_one(layers, writable, place, marks).or_else(|_| at_once(layers, writable, place, marks))
}

/// Mounts layers with one option for each, since Linux 6.5.
fn one_by_one(
    layers: &Layers,
    writable: Option<&WritableLayer>,
    place: &OwnedFd,
    marks: Marks,
) -> io::Result<()> {
    let overlay = fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(&overlay, "source", "overlay")?;
    for directory in layers.directories() {
        fsconfig_set_string(&overlay, "lowerdir+", link(&hold(directory)?))?;
    }
    if let Some(WritableLayer { upper, work }) = writable {
        fsconfig_set_string(&overlay, "upperdir", link(upper))?;
        fsconfig_set_string(&overlay, "workdir", link(work))?;
    }
    if matches!(marks, Marks::OfUsers) {
        fsconfig_set_flag(&overlay, "userxattr")?;
    }
    fsconfig_create(&overlay)?;
    let tree = fsmount(&overlay, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())?;
    attach(&tree, place)
}

/// Mounts layers with all options in one page of text, which has room for several hundred descriptors. Changes the
/// working directory.
fn at_once(
    layers: &Layers,
    writable: Option<&WritableLayer>,
    place: &OwnedFd,
    marks: Marks,
) -> io::Result<()> {
    let held: Vec<OwnedFd> =
        layers.directories().iter().map(|directory| hold(directory)).collect::<Result<_, _>>()?;
    let names: Vec<String> = held.iter().map(|directory| directory.as_raw_fd().to_string()).collect();
    let mut options = vec![format!("lowerdir={}", names.join(":"))];
    if let Some(WritableLayer { upper, work }) = writable {
        options.push(format!("upperdir={}", upper.as_raw_fd()));
        options.push(format!("workdir={}", work.as_raw_fd()));
    }
    if matches!(marks, Marks::OfUsers) {
        options.push("userxattr".to_owned());
    }
    let options = CString::new(options.join(",")).map_err(io::Error::other)?;
    rustix::process::chdir("/proc/self/fd")?;
    Ok(rustix::mount::mount("overlay", link(place), "overlay", MountFlags::empty(), options.as_c_str())?)
}

/// Creates missing mount points in the new layers.
fn make_mount_points(view: &View, image: &ImageRoot) -> io::Result<()> {
    for show in &view.bind_mounts {
        let of_machine = image.machine.iter().find(|directory| show.target.starts_with(directory));
        let (lowers, name, place) = match of_machine {
            Some(directory) => {
                let mut lowers = vec![directory.clone()];
                lowers.extend(parts_of(image, directory));
                (lowers, upper_name(directory), directory.as_path())
            }
            None => (image.layers.directories().to_vec(), UPPER.to_owned(), Path::new("/")),
        };
        let upper = view.layers.join(name);
        make_directory(&upper)?;
        make_mount_point(show, &lowers, &upper, place)?;
    }
    Ok(())
}

/// Creates a mount point in a new layer, unless one of the directories below it has the path; `place` is the path of the
/// layer in the container. In an overlay the kernel would create each directory in another one and move it; and an
/// ordinary user cannot create any in a directory of the machine's. Paths through links and parts of volumes are left
/// out: they are created on demand.
pub(super) fn make_mount_point(
    show: &BindMount,
    lowers: &[PathBuf],
    upper: &Path,
    place: &Path,
) -> io::Result<()> {
    let Ok(path) = show.target.strip_prefix(place) else { return Ok(()) };
    let is_plain = path.components().all(|part| matches!(part, Component::Normal(_)));
    // A missing source is skipped: its mount will report the error.
    let Ok(source) = show.source.metadata() else { return Ok(()) };
    if show.sub_path.is_some() || !is_plain || path.as_os_str().is_empty() {
        return Ok(());
    }
    let below = |path: &Path| lowers.iter().find_map(|lower| fs::symlink_metadata(lower.join(path)).ok());
    let mut so_far = PathBuf::new();
    let mut parents = Vec::new();
    for part in path.parent().into_iter().flat_map(Path::components) {
        so_far.push(part);
        let about = below(&so_far);
        if about.as_ref().is_some_and(|about| !about.is_dir()) {
            return Ok(());
        }
        parents.push((so_far.clone(), about));
    }
    if below(path).is_some() {
        return Ok(());
    }
    // The layer contains no links yet, so that plain names stay in it.
    for (parent, about) in parents {
        let made = upper.join(parent);
        if made.exists() {
            continue;
        }
        fs::create_dir(&made)?;
        if let Some(about) = about {
            fs::set_permissions(&made, about.permissions())?;
            if rustix::process::geteuid().is_root() {
                std::os::unix::fs::chown(&made, Some(about.uid()), Some(about.gid()))?;
            }
        }
    }
    let made = upper.join(path);
    if source.is_dir() { make_directory(&made) } else { fs::File::create(made).map(drop) }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use rustix::fs::{CWD, FileType, Mode, XattrFlags};
    use rustix::thread::UnshareFlags;

    use super::*;
    use base::layers::OPAQUE;

    type MountFn = fn(&Layers, Option<&WritableLayer>, &OwnedFd, Marks) -> io::Result<()>;

    /// IMG-3: the kernel shows the layers as they are stored, with both forms of its options, and writes to none.
    #[test]
    fn the_kernel_merges_the_layers() {
        if crate::needs::lacks(crate::needs::Need::Root, rustix::process::geteuid().is_root()) {
            return;
        }
        let around = tempfile::tempdir_in("/var/tmp").unwrap();
        let path = |name: &str| around.path().join(name);
        let directory = |name: &str| {
            fs::create_dir_all(path(name)).unwrap();
            path(name)
        };
        let lower = directory("lower:, \\");
        fs::write(lower.join("gone"), "old").unwrap();
        fs::write(lower.join("stays"), "lower").unwrap();
        fs::create_dir(lower.join("hidden")).unwrap();
        fs::write(lower.join("hidden/old"), "old").unwrap();
        let upper = directory("upper");
        let gone = upper.join("gone");
        rustix::fs::mknodat(CWD, &gone, FileType::CharacterDevice, Mode::empty(), 0).unwrap();
        fs::create_dir(upper.join("hidden")).unwrap();
        rustix::fs::lsetxattr(upper.join("hidden"), OPAQUE, b"y", XattrFlags::empty()).unwrap();
        let between = (0..200).map(|number| directory(&format!("layer-{number}")));
        let directories = std::iter::once(upper).chain(between).chain([lower.clone()]).collect();
        let layers = Layers::new(directories);
        for (name, mount) in [("new", one_by_one as MountFn), ("old", at_once)] {
            let [own, work, place] = ["own", "work", "root"].map(|part| directory(&format!("{name}/{part}")));
            let layers = &layers;
            std::thread::scope(|scope| {
                // In a mount namespace of the thread's own.
                let seen = scope.spawn(|| {
                    crate::daemon::os::unshare(UnshareFlags::NEWNS)?;
                    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
                    let writable = WritableLayer { upper: hold(&own)?, work: hold(&work)? };
                    mount(layers, Some(&writable), &hold(&place)?, Marks::OfUsers)?;
                    fs::write(place.join("stays"), "written")?;
                    fs::write(place.join("hidden/new"), "new")?;
                    let names = |path: &Path| -> io::Result<Vec<String>> {
                        let mut names = Vec::new();
                        for entry in fs::read_dir(path)? {
                            names.push(entry?.file_name().to_string_lossy().into_owned());
                        }
                        names.sort();
                        Ok(names)
                    };
                    io::Result::Ok((names(&place)?, names(&place.join("hidden"))?))
                });
                let (root, hidden) = seen.join().unwrap().unwrap();
                assert_eq!(
                    (root, hidden),
                    (vec!["hidden".into(), "stays".into()], vec!["new".to_owned()]),
                    "{name}"
                );
            });
            assert_eq!(fs::read_to_string(own.join("stays")).unwrap(), "written");
        }
        assert_eq!(fs::read_to_string(lower.join("stays")).unwrap(), "lower");
    }

    /// POD-16: missing mount points are made in the layer, below directories as the machine has them, and never outside
    /// of the layer.
    #[test]
    fn missing_mount_points_are_made_in_the_layer_pod_16() {
        let around = tempfile::tempdir().unwrap();
        let [first, second, upper, file] =
            ["first", "second", "upper", "file"].map(|name| around.path().join(name));
        for directory in [&first.join("share/there"), &second.join("own"), &upper] {
            fs::create_dir_all(directory).unwrap();
        }
        fs::write(&file, "").unwrap();
        fs::set_permissions(first.join("share"), fs::Permissions::from_mode(0o750)).unwrap();
        symlink("share", first.join("link")).unwrap();
        let lowers = [first, second];
        let show = |source: &Path, target: &str| BindMount::new(source.to_path_buf(), target.into());
        let directory = around.path();
        for show in [
            show(directory, "/usr/share/there"),
            show(directory, "/usr/share/nginx/html"),
            show(&file, "/usr/own/file"),
            show(&file, "/usr/new/deep/file"),
            show(directory, "/usr/link/below"),
            show(directory, "/usr/new/../../outside"),
            show(directory, "/usr"),
            show(directory, "/other"),
            show(directory, "relative"),
            show(&directory.join("missing"), "/usr/gone/away"),
            BindMount { sub_path: Some("sub".into()), ..show(directory, "/usr/part") },
        ] {
            make_mount_point(&show, &lowers, &upper, Path::new("/usr")).unwrap();
            make_mount_point(&show, &lowers, &upper, Path::new("/usr")).unwrap();
        }
        let names = |path: &Path| {
            let mut names: Vec<_> =
                fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            names.sort();
            names
        };
        assert_eq!(names(&upper), ["new", "own", "share"]);
        assert_eq!(names(&upper.join("share")), ["nginx"]);
        assert!(upper.join("share/nginx/html").is_dir() && upper.join("own/file").is_file());
        assert!(upper.join("new/deep/file").is_file());
        assert_eq!(fs::metadata(upper.join("share")).unwrap().permissions().mode() & 0o777, 0o750);
        assert_eq!(names(directory), ["file", "first", "second", "upper"]);
    }
}
