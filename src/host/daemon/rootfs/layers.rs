//! Mounts an image's layers over each other, with a writable one on top.
//!
//! The layers are named by descriptors: the kernel's options have room for short names only, and the characters of a
//! path need no escape.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::CWD;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, MoveMountFlags, fsconfig_create,
    fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen, move_mount,
};

use super::mount::{hold, link};
use base::layers::Layers;

/// Mounts the layers at `place`; writes go to `upper`. May change the working directory.
///
/// The marks of removed files are attributes that need no rights (`userxattr`), for root too: a layer that one user has
/// unpacked means the same to every other.
pub(super) fn mount(layers: &Layers, upper: &Path, work: &Path, place: &Path) -> io::Result<()> {
    let (upper, work) = (hold(upper)?, hold(work)?);
    one_by_one(layers, &upper, &work, place).or_else(|_| at_once(layers, &upper, &work, place))
}

/// With one option for each layer, since Linux 6.5.
fn one_by_one(layers: &Layers, upper: &OwnedFd, work: &OwnedFd, place: &Path) -> io::Result<()> {
    let overlay = fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(&overlay, "source", "overlay")?;
    for directory in layers.directories() {
        fsconfig_set_string(&overlay, "lowerdir+", link(&hold(directory)?))?;
    }
    fsconfig_set_string(&overlay, "upperdir", link(upper))?;
    fsconfig_set_string(&overlay, "workdir", link(work))?;
    fsconfig_set_flag(&overlay, "userxattr")?;
    fsconfig_create(&overlay)?;
    let tree = fsmount(&overlay, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())?;
    Ok(move_mount(&tree, "", CWD, place, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?)
}

/// With all options in one page of text, which has room for several hundred descriptors.
fn at_once(layers: &Layers, upper: &OwnedFd, work: &OwnedFd, place: &Path) -> io::Result<()> {
    let held: Vec<OwnedFd> =
        layers.directories().iter().map(|directory| hold(directory)).collect::<Result<_, _>>()?;
    let names: Vec<String> = held.iter().map(|directory| directory.as_raw_fd().to_string()).collect();
    let options = format!(
        "lowerdir={},upperdir={},workdir={},userxattr",
        names.join(":"),
        upper.as_raw_fd(),
        work.as_raw_fd()
    );
    let options = CString::new(options).map_err(io::Error::other)?;
    rustix::process::chdir("/proc/self/fd")?;
    Ok(rustix::mount::mount("overlay", place, "overlay", MountFlags::empty(), options.as_c_str())?)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rustix::fs::{FileType, Mode, XattrFlags};
    use rustix::mount::{MountPropagationFlags, mount_change};
    use rustix::thread::UnshareFlags;

    use super::*;
    use base::layers::OPAQUE;

    type MountFn = fn(&Layers, &OwnedFd, &OwnedFd, &Path) -> io::Result<()>;

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
                    mount(layers, &hold(&own)?, &hold(&work)?, &place)?;
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
}
