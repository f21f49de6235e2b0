//! The machine's own files as a container's root, as root: seen as they are, and never written. One layer in memory
//! over the machine's root takes what the container writes; what is mounted in it has a layer of its own, or may
//! only be read.
//!
//! Runs in the forked child, in a mount namespace of its own. An ordinary user has no need for it: the machine keeps
//! its directories from them.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_bind_recursive, mount_change};
use rustix::process::WaitOptions;
use rustix::thread::UnshareFlags;

use super::mount::{lock_all_read_only, make_directory, mount_points, remove_directory};
use super::view::{Overlay, RootLayout, UPPER, View};
use crate::daemon::os;

/// Directories that a container has of its own, or has no business in.
const NOT_SHOWN: [&str; 3] = ["/proc", "/dev", "/tmp"];
/// More mounts below one directory are shown with it as a whole.
const FEW: usize = 8;

/// Whether such a root can be made here: tried once, in a child.
pub(in crate::daemon) fn works(memory: &Path) -> bool {
    if !rustix::process::geteuid().is_root() {
        return false;
    }
    let place = memory.join("try-layers");
    let made = || -> io::Result<()> {
        let (root, layers) = (place.join("root"), place.join("layers"));
        fs::create_dir_all(&root)?;
        os::unshare(UnshareFlags::NEWNS)?;
        mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
        cover(Path::new("/"), &root, &layers, UPPER, None)?;
        fs::write(root.join("written"), "")
    };
    let worked = match os::fork() {
        Ok(os::Forked::Child) => os::exit_now(i32::from(made().is_err())),
        Ok(os::Forked::Parent(pid)) => {
            let status = rustix::process::waitpid(Some(pid), WaitOptions::empty());
            matches!(status, Ok(Some((_, status))) if status.exit_status() == Some(0))
        }
        Err(_) => false,
    };
    let _ = remove_directory(&place);
    worked
}

/// Puts the machine's files at the container's root, with a private layer over them.
pub(in crate::daemon) fn build(view: &View, overlay: &Overlay) -> io::Result<RootLayout> {
    let root = &view.root;
    cover(Path::new("/"), root, &view.layers, UPPER, overlay.beside.as_deref())?;
    // Unbindable: showing the directory that our own root lies in must not show the root in itself.
    mount_change(root, MountPropagationFlags::UNBINDABLE)?;
    let mut layout = RootLayout::default();
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    for (number, point) in
        shown(mount_points(&mounts).collect(), &overlay.memory, root).into_iter().enumerate()
    {
        let place = root.join(point.strip_prefix("/").unwrap_or(&point));
        if layout.machine.iter().any(|bound| point.starts_with(bound)) {
            continue;
        }
        let top = point.components().count() == 2 && point != Path::new("/sys");
        if top && cover(&point, &place, &view.layers, &format!("upper-mount-{number}"), None).is_ok() {
            layout.own.push(point);
        } else if mount_bind_recursive(&point, &place).is_ok() {
            // What was covered by a later mount cannot be shown, and need not be.
            lock_all_read_only(&place)?;
            layout.machine.push(point);
        }
    }
    Ok(layout)
}

/// Which mounts are shown, outer ones first.
fn shown(mut points: Vec<PathBuf>, memory: &Path, root: &Path) -> Vec<PathBuf> {
    let hidden = |point: &PathBuf| {
        point == Path::new("/")
            || NOT_SHOWN.iter().any(|path| point.starts_with(path))
            || point.starts_with(memory)
            || point.starts_with(root)
    };
    points.retain(|point| !hidden(point));
    points.sort();
    points.dedup();
    let top = |point: &PathBuf| point.components().take(2).collect::<PathBuf>();
    let mut below: BTreeMap<PathBuf, usize> = BTreeMap::new();
    for point in &points {
        *below.entry(top(point)).or_default() += 1;
    }
    let mut shown: Vec<PathBuf> = Vec::new();
    for point in points {
        let top = top(&point);
        if below[&top] <= FEW {
            shown.push(point);
        } else if !shown.contains(&top) {
            shown.push(top);
        }
    }
    shown
}

/// Shows a directory of the machine's at a place, with a layer over it that takes what is written there.
fn cover(
    directory: &Path,
    place: &Path,
    layers: &Path,
    name: &str,
    between: Option<&Path>,
) -> io::Result<()> {
    let (upper, work) = (layers.join(name), layers.join(format!("work-{name}")));
    make_directory(layers)?;
    make_directory(&upper)?;
    make_directory(&work)?;
    fs::set_permissions(&upper, fs::metadata(directory)?.permissions())?;
    let between = between.filter(|path| path.exists()).map(|path| format!("{}:", quoted(path)));
    let options = format!(
        "lowerdir={}{},upperdir={},workdir={}",
        between.unwrap_or_default(),
        quoted(directory),
        quoted(&upper),
        quoted(&work)
    );
    let options = std::ffi::CString::new(options).map_err(io::Error::other)?;
    Ok(mount("overlay", place, "overlay", MountFlags::empty(), options.as_c_str())?)
}

/// A path as the options of an overlay name it.
fn quoted(path: &Path) -> String {
    path.display().to_string().replace('\\', "\\\\").replace(':', "\\:").replace(',', "\\,")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_are_shown_outer_ones_first_and_many_as_one() {
        let many = (0..9).map(|number| format!("/snap/{number}"));
        let all = [
            "/",
            "/proc",
            "/proc/sys/x",
            "/dev/shm",
            "/tmp",
            "/sys",
            "/sys/fs/cgroup",
            "/home",
            "/mnt/data",
            "/own/m",
            "/own/m/pod/root",
            "/r",
        ];
        let points = all.iter().map(ToString::to_string).chain(many).map(PathBuf::from).collect();
        let shown = shown(points, Path::new("/own/m"), Path::new("/r"));
        let expect = ["/home", "/mnt/data", "/snap", "/sys", "/sys/fs/cgroup"].map(PathBuf::from);
        assert_eq!(shown, expect);
    }

    #[test]
    fn paths_with_signs_are_quoted() {
        assert_eq!(quoted(Path::new("/a:b,c\\d")), "/a\\:b\\,c\\\\d");
    }
}
