//! Ownership of a volume's files (`fsGroup`): they belong to the group, with the rights Kubernetes gives it. Only root
//! can give files to a group; for others the pod gets a warning (`security::ignored`).

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::Pod;
use rustix::fs::{AtFlags, Dir, FileType, Gid, Mode, OFlags, ResolveFlags};

use crate::spec;

/// A group's rights on the directories and files of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GroupRights {
    /// Files created in a directory belong to the group, too.
    pub(super) directory: u32,
    pub(super) file: u32,
}

impl GroupRights {
    fn of(self, is_directory: bool) -> u32 {
        if is_directory { self.directory } else { self.file }
    }
}

/// Rights on a volume that the group may write.
pub(super) const WRITABLE: GroupRights = GroupRights { directory: 0o2770, file: 0o660 };
/// Rights on a volume that the group may only read.
pub(super) const READABLE: GroupRights = GroupRights { directory: 0o2550, file: 0o440 };

/// The owners of a pod's volume files, besides root.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Owners {
    /// The group of all files (`fsGroup`).
    pub(crate) group: Option<u32>,
    /// The owner of tokens: the user that all containers run as.
    pub(crate) user: Option<u32>,
    /// Leaves a persistent volume unchanged if its root directory already belongs to the group (`fsGroupChangePolicy`).
    pub(crate) on_root_mismatch: bool,
}

impl Owners {
    /// The owners that a pod requests, if the node's user may set them.
    pub(crate) fn of(pod: &Pod) -> Self {
        if rustix::process::geteuid().is_root() { Self::requested(pod) } else { Self::default() }
    }

    fn requested(pod: &Pod) -> Self {
        let context = spec::spec(pod).security_context.as_ref();
        let number = |id: i64| u32::try_from(id).ok();
        let of_pod = context.and_then(|context| context.run_as_user);
        let mut users = spec::init_containers(pod)
            .map(|(_, c)| c)
            .chain(spec::app_containers(pod))
            .map(|c| c.security_context.as_ref().and_then(|own| own.run_as_user).or(of_pod));
        let first = users.next().flatten();
        Self {
            group: context.and_then(|context| context.fs_group).and_then(number),
            on_root_mismatch: context.and_then(|context| context.fs_group_change_policy.as_deref())
                == Some("OnRootMismatch"),
            user: first.filter(|first| users.all(|user| user == Some(*first))).and_then(number),
        }
    }
}

/// Gives a path itself to the group, with further rights for it. Of a link only the group changes.
pub(super) fn set_group(path: &Path, group: u32, rights: u32) -> io::Result<()> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    set_group_of(rustix::fs::open(path, flags, Mode::empty())?.as_fd(), group, rights)
}

/// Like [`set_group`], of a file that is open, with `O_PATH` at least: its path may lead to another file by now.
fn set_group_of(file: BorrowedFd<'_>, group: u32, rights: u32) -> io::Result<()> {
    rustix::fs::chownat(file, "", None, Some(Gid::from_raw(group)), AtFlags::EMPTY_PATH)?;
    let mode = rustix::fs::fstat(file)?.st_mode;
    if FileType::from_raw_mode(mode).is_symlink() {
        return Ok(());
    }
    // `fchmod` accepts no file that is open with `O_PATH`.
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(rustix::fs::chmod(path, Mode::from_raw_mode(mode | rights))?)
}

/// Gives a directory to the group, with everything in it.
pub(super) fn set_group_recursively(directory: &Path, group: u32, rights: GroupRights) -> io::Result<()> {
    walk(directory, |_, opened, is_directory| set_group_of(opened?, group, rights.of(is_directory)))
}

/// Gives a persistent volume to the pod's group. Failures are only logged for debugging, as by Kubernetes' kubelet:
/// some file systems have groups of their own.
pub(super) fn set_persistent_group(directory: &Path, owners: Owners) -> io::Result<()> {
    let Some(group) = owners.group.filter(|_| directory.is_dir()) else { return Ok(()) };
    if owners.on_root_mismatch && belongs_to_group(directory, group)? {
        return Ok(());
    }
    walk(directory, |path, opened, is_directory| {
        let given = opened.and_then(|opened| set_group_of(opened, group, WRITABLE.of(is_directory)));
        if let Err(error) = given {
            tracing::debug!("cannot give {} to group {group}: {error}", directory.join(path).display());
        }
        Ok(())
    })
}

fn belongs_to_group(directory: &Path, group: u32) -> io::Result<bool> {
    let about = std::fs::metadata(directory)?;
    Ok(about.gid() == group && about.permissions().mode() & WRITABLE.directory == WRITABLE.directory)
}

/// Visits a directory and everything in it: each path below the directory, the open file, and whether it is a
/// directory. No link below the directory is ever followed, even if a container replaces files meanwhile. At any depth
/// only one directory is open at a time.
fn walk(
    directory: &Path,
    mut visit: impl FnMut(&Path, io::Result<BorrowedFd<'_>>, bool) -> io::Result<()>,
) -> io::Result<()> {
    let entry_flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let root_flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::open(directory, root_flags, Mode::empty())?;
    let mut next = vec![PathBuf::from(".")];
    while let Some(path) = next.pop() {
        let open = open_directory(&root, &path)?;
        visit(&path, Ok(open.as_fd()), true)?;
        for entry in Dir::read_from(&open)? {
            let entry = entry?;
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            let below = path.join(OsStr::from_bytes(name.to_bytes()));
            match rustix::fs::openat(&open, name, entry_flags, Mode::empty()) {
                Ok(opened) if is_directory(&opened)? => next.push(below),
                Ok(opened) => visit(&below, Ok(opened.as_fd()), false)?,
                Err(error) => visit(&below, Err(error.into()), false)?,
            }
        }
    }
    Ok(())
}

/// Opens a directory below the root; fails if a link leads there.
fn open_directory(root: &OwnedFd, path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let how = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    Ok(rustix::fs::openat2(root, path, flags, Mode::empty(), how)?)
}

fn is_directory(file: &OwnedFd) -> io::Result<bool> {
    Ok(FileType::from_raw_mode(rustix::fs::fstat(file)?.st_mode).is_dir())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// POD-16: a token belongs to the user if all containers run as that user.
    #[test]
    fn owners_are_the_group_and_the_one_user() {
        let of = |of_pod: &serde_json::Value, own: [&serde_json::Value; 2]| {
            let containers = own.map(|own| json!({"name": "c", "securityContext": own}));
            Owners::requested(
                &serde_json::from_value(
                    json!({"spec": {"securityContext": of_pod, "containers": containers}}),
                )
                .unwrap(),
            )
        };
        let none = json!({});
        let owners = |group, user| Owners { group, user, on_root_mismatch: false };
        assert_eq!(of(&none, [&none, &none]), owners(None, None));
        assert_eq!(of(&json!({"fsGroup": 7, "runAsUser": 5}), [&none, &none]), owners(Some(7), Some(5)));
        assert_eq!(of(&json!({"runAsUser": 5}), [&none, &json!({"runAsUser": 6})]), owners(None, None));
        assert_eq!(of(&none, [&json!({"runAsUser": 6}), &json!({"runAsUser": 6})]), owners(None, Some(6)));
    }

    /// VOL-2, POD-16: a persistent volume gets its pod's group: always in full, or only if its directory does not have
    /// that group yet.
    #[test]
    fn a_volume_that_lasts_is_its_groups_vol_2_pod_16() {
        // Only root may give files to other users and groups.
        crate::needs::needs!(Root);
        let place = tempfile::tempdir().unwrap();
        let volume = place.path().join("volume");
        let at = |name: &str| volume.join(name);
        std::fs::create_dir_all(at("dir")).unwrap();
        let set = |path: &Path, mode: u32| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        std::fs::write(place.path().join("outside"), "").unwrap();
        set(&place.path().join("outside"), 0o600);
        std::os::unix::fs::symlink(place.path().join("outside"), at("link")).unwrap();
        std::fs::write(at("dir/file"), "").unwrap();
        set(&at("dir/file"), 0o600);
        set(&at("dir"), 0o700);
        let about = |path: &Path| {
            let about = std::fs::symlink_metadata(path).unwrap();
            (about.gid(), about.permissions().mode() & 0o7777)
        };
        let security_context = |group, policy: &str| {
            let context = json!({"fsGroup": group, "fsGroupChangePolicy": policy});
            Owners::requested(
                &serde_json::from_value(json!({"spec": {"securityContext": context, "containers": []}}))
                    .unwrap(),
            )
        };
        set_persistent_group(&volume, security_context(4711, "OnRootMismatch")).unwrap();
        assert_eq!(about(&at("dir")), (4711, 0o2770));
        assert_eq!(about(&at("dir/file")), (4711, 0o660));
        assert_eq!(about(&at("link")).0, 4711);
        assert_eq!(about(&place.path().join("outside")).1, 0o600, "a link is not followed");
        // The directory already has the group: its content is unchanged unless the policy is `Always`.
        std::os::unix::fs::lchown(at("dir/file"), None, Some(7)).unwrap();
        set_persistent_group(&volume, security_context(4711, "OnRootMismatch")).unwrap();
        assert_eq!(about(&at("dir/file")).0, 7);
        set_persistent_group(&volume, security_context(4711, "Always")).unwrap();
        assert_eq!(about(&at("dir/file")).0, 4711);
        set(&volume, 0o2750);
        std::os::unix::fs::lchown(at("dir/file"), None, Some(7)).unwrap();
        set_persistent_group(&volume, security_context(4711, "OnRootMismatch")).unwrap();
        assert_eq!(about(&at("dir/file")).0, 4711, "the group could not write the directory");
        set_persistent_group(&at("dir/file"), security_context(8, "Always")).unwrap();
        set_persistent_group(&at("none"), security_context(8, "Always")).unwrap();
        assert_eq!(about(&at("dir/file")).0, 4711, "it is no directory");
    }

    /// A container that exchanges files and directories for links while its volume gets a group changes nothing outside
    /// the volume.
    #[test]
    fn a_link_that_replaces_a_file_is_not_followed_vol_2_sec_2() {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        use std::sync::atomic::{AtomicBool, Ordering};
        crate::needs::needs!(Root);
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        std::fs::create_dir_all(at("volume/dir")).unwrap();
        std::fs::create_dir_all(at("outside/dir")).unwrap();
        std::fs::write(at("volume/file"), "").unwrap();
        std::fs::write(at("outside/file"), "").unwrap();
        for name in ["dir", "file"] {
            std::os::unix::fs::symlink(at("outside").join(name), at("volume").join(format!("link-{name}")))
                .unwrap();
        }
        let outside = ["outside/dir", "outside/file"].map(at);
        let about = |path: &PathBuf| {
            let about = std::fs::metadata(path).unwrap();
            (about.gid(), about.permissions().mode())
        };
        let before = outside.each_ref().map(about);
        let owners = Owners { group: Some(4711), ..Owners::default() };
        let is_done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_done.load(Ordering::Relaxed) {
                    for name in ["dir", "file"] {
                        let (own, link) =
                            (at("volume").join(name), at("volume").join(format!("link-{name}")));
                        renameat_with(CWD, &own, CWD, &link, RenameFlags::EXCHANGE).unwrap();
                    }
                }
            });
            for _ in 0..2000 {
                // A directory that was replaced meanwhile is an error, and the kubelet tries again.
                let _ = set_persistent_group(&at("volume"), owners);
            }
            is_done.store(true, Ordering::Relaxed);
        });
        assert_eq!(outside.each_ref().map(about), before);
    }
}
