//! The machine's own files as the root of a container of a user's entry that runs as root: the container sees them as
//! they are, and never writes them. A layer in memory over the machine's root takes the container's writes. A mount in
//! the machine's root has a layer of its own, or is read-only.
//!
//! Runs in the forked child, in a mount namespace of its own. A container that runs as an ordinary user does not need
//! it: the machine's permissions protect its directories.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_bind_recursive, mount_change};
use rustix::process::WaitOptions;
use rustix::thread::UnshareFlags;

use super::layers::make_mount_point;
use super::mount::{lock_all_read_only, make_layer};
use super::view::{Overlay, RootLayout, UPPER, View};
use crate::daemon::os;
use base::removal::remove_tree;
use base::sort::SliceOrder;
use base::subordinate_ids::real_user;

/// Directories that a container has of its own, or must not see.
const HIDDEN_PATHS: [&str; 3] = ["/proc", "/dev", "/tmp"];
/// A directory below a top-level one with mounts in more than this many of its subdirectories is shown as a whole,
/// read-only: the cost of a container must not grow with the machine's mounts. A top-level directory such as /var or
/// /run must stay writable, so that each mount in it is shown for itself.
const FEW: usize = 8;

/// Returns true if such a root can be built here, and containers with the machine's files run as root: tried once, in a
/// child.
pub(in crate::daemon) fn works(memory: &Path) -> bool {
    if !rustix::process::geteuid().is_root() || real_user().is_some() {
        return false;
    }
    let place = memory.join("try-layers");
    let made = || -> io::Result<()> {
        let (root, layers) = (place.join("root"), place.join("layers"));
        fs::create_dir_all(&root)?;
        os::unshare(UnshareFlags::NEWNS)?;
        mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
        cover(Path::new("/"), &root, &make_layer(&layers, UPPER)?, None)?;
        fs::write(root.join("written"), "")
    };
    let worked = match os::fork() {
        Ok(os::ForkResult::Child) => os::exit_now(i32::from(made().is_err())),
        Ok(os::ForkResult::Parent(pid)) => {
            let status = rustix::process::waitpid(Some(pid), WaitOptions::empty());
            matches!(status, Ok(Some((_, status))) if status.exit_status() == Some(0))
        }
        Err(_) => false,
    };
    let _ = remove_tree(&place);
    worked
}

/// Mounts the machine's files at the container's root, with a private layer over them.
pub(in crate::daemon) fn build(view: &View, overlay: &Overlay) -> io::Result<RootLayout> {
    let root = &view.root;
    let layer = make_layer(&view.layers, UPPER)?;
    if overlay.beside.is_none() {
        for show in &view.bind_mounts {
            make_mount_point(show, &[PathBuf::from("/")], &layer[0], Path::new("/"))?;
        }
    }
    let beside = overlay.beside.as_ref().map(|layers| layers.join(UPPER));
    cover(Path::new("/"), root, &layer, beside.as_deref())?;
    // The root is unbindable: otherwise a mount of a directory that contains it would show the root within itself.
    mount_change(root, MountPropagationFlags::UNBINDABLE)?;
    let mut layout = RootLayout::default();
    let shown = visible_mounts(overlay.mounts.clone(), &overlay.memory, root).into_iter();
    // A container with a network of its own gets a /sys of its own (`layout`).
    let shown = shown.filter(|point| !(view.own_network && point.starts_with("/sys")));
    for (number, point) in shown.enumerate() {
        let place = root.join(point.strip_prefix("/").unwrap_or(&point));
        if layout.machine.iter().any(|bound| point.starts_with(bound)) {
            continue;
        }
        let top = point.components().count() == 2 && point != Path::new("/sys");
        let covered =
            || cover(&point, &place, &make_layer(&view.layers, &format!("upper-mount-{number}"))?, None);
        if top && covered().is_ok() {
            layout.own.push(point);
        } else if mount_bind_recursive(&point, &place).is_ok() {
            // A mount that a later one covers cannot be shown, and need not be.
            lock_all_read_only(&place)?;
            layout.machine.push(point);
        }
    }
    Ok(layout)
}

/// Selects the mounts and directories with mounts to show, outer ones first.
fn visible_mounts(mut points: Vec<PathBuf>, memory: &Path, root: &Path) -> Vec<PathBuf> {
    let hidden = |point: &PathBuf| {
        point == Path::new("/")
            || HIDDEN_PATHS.iter().any(|path| point.starts_with(path))
            || point.starts_with(memory)
            || point.starts_with(root)
    };
    points.retain(|point| !hidden(point));
    points.order();
    points.dedup();
    let mut shown: Vec<PathBuf> = Vec::new();
    add_visible(Path::new("/"), &points, &mut shown);
    shown
}

/// Adds the mounts below a directory, which are sorted.
fn add_visible(directory: &Path, mounts: &[PathBuf], shown: &mut Vec<PathBuf>) {
    let depth = directory.components().count();
    let child = |point: &PathBuf| point.components().take(depth + 1).collect::<PathBuf>();
    if mounts.len() <= FEW {
        shown.extend_from_slice(mounts);
        return;
    }
    let parts: Vec<&[PathBuf]> = mounts.chunk_by(|one, other| child(one) == child(other)).collect();
    if parts.len() > FEW && depth > 2 {
        shown.push(directory.to_path_buf());
        return;
    }
    for part in parts {
        let (own, below): (&[PathBuf], &[PathBuf]) =
            if part[0] == child(&part[0]) { part.split_at(1) } else { (&[], part) };
        shown.extend_from_slice(own);
        add_visible(&child(&part[0]), below, shown);
    }
}

/// Mounts a directory of the machine's at a path, with a writable layer over it.
fn cover(
    directory: &Path,
    place: &Path,
    [upper, work]: &[PathBuf; 2],
    between: Option<&Path>,
) -> io::Result<()> {
    fs::set_permissions(upper, fs::metadata(directory)?.permissions())?;
    let between = between.filter(|path| path.exists()).map(|path| format!("{}:", quoted(path)));
    let options = format!(
        "lowerdir={}{},upperdir={},workdir={}",
        between.unwrap_or_default(),
        quoted(directory),
        quoted(upper),
        quoted(work)
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

    /// Every mount of the machine is visible: for itself, or in a directory that is shown as a whole.
    #[test]
    fn mounts_are_shown_outer_ones_first_and_many_as_one_pod_16() {
        let many = (0..9).flat_map(|number| {
            [
                format!("/snap/{number}"),
                format!("/run/x/{number}"),
                format!("/var/lib/d/layers/{number}/merged"),
            ]
        });
        let all = [
            "/", "/proc", "/proc/sys/x", "/dev/shm", "/tmp", "/sys", "/sys/fs/cgroup", "/run", "/run/lock",
            "/var/lib/d", "/home", "/mnt/data", "/own/m", "/own/m/pod/root", "/r",
        ];
        let points = all.iter().map(ToString::to_string).chain(many).map(PathBuf::from).collect();
        let shown = visible_mounts(points, Path::new("/own/m"), Path::new("/r"));
        let snaps: Vec<String> = (0..9).map(|number| format!("/snap/{number}")).collect();
        let mut expect = vec!["/home", "/mnt/data", "/run", "/run/lock", "/run/x"];
        expect.extend(snaps.iter().map(String::as_str));
        expect.extend(["/sys", "/sys/fs/cgroup", "/var/lib/d", "/var/lib/d/layers"]);
        assert_eq!(shown, expect.into_iter().map(PathBuf::from).collect::<Vec<_>>());
    }

    #[test]
    fn paths_with_signs_are_quoted() {
        assert_eq!(quoted(Path::new("/a:b,c\\d")), "/a\\:b\\,c\\\\d");
    }
}
