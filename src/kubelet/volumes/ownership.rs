//! Whose a volume's files are (`fsGroup`): the group's, with the rights Kubernetes gives it. Only root can give
//! files to a group; for others the pod gets a warning (`security::ignored`).

use std::io;
use std::os::unix::fs::{PermissionsExt, lchown};
use std::path::Path;

use k8s_openapi::api::core::v1::Pod;

use crate::spec;

/// What a group gets on the directories of a volume that it may write: all, and what is made there is its too.
pub(super) const WRITABLE_DIRECTORY: u32 = 0o2770;
/// What it gets on the directories of a volume that is only read.
pub(super) const READABLE_DIRECTORY: u32 = 0o2550;
/// What it gets on the files of a volume that is only read.
pub(super) const READABLE_FILE: u32 = 0o440;

/// Whose the files of a pod's volumes are, beside root.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Owners {
    /// The group of all files (`fsGroup`).
    pub(crate) group: Option<u32>,
    /// The user of tokens: the one that all containers run as.
    pub(crate) user: Option<u32>,
}

impl Owners {
    /// What a pod asks for, where the node's user may do it.
    pub(crate) fn of(pod: &Pod) -> Self {
        if rustix::process::geteuid().is_root() { Self::asked(pod) } else { Self::default() }
    }

    fn asked(pod: &Pod) -> Self {
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
            user: first.filter(|first| users.all(|user| user == Some(*first))).and_then(number),
        }
    }
}

/// Gives a path itself to the group, with further rights for it.
pub(super) fn give(path: &Path, group: u32, rights: u32) -> io::Result<()> {
    lchown(path, None, Some(group))?;
    let about = std::fs::symlink_metadata(path)?;
    if about.is_symlink() {
        return Ok(());
    }
    let mode = about.permissions().mode() & 0o7777;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode | rights))
}

/// Gives a directory of files to be read to the group, with everything in it.
pub(super) fn give_tree(directory: &Path, group: u32) -> io::Result<()> {
    give(directory, group, READABLE_DIRECTORY)?;
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            give_tree(&entry.path(), group)?;
        } else {
            give(&entry.path(), group, READABLE_FILE)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// POD-16: a token is its user's when all containers are the same one.
    #[test]
    fn owners_are_the_group_and_the_one_user() {
        let of = |of_pod: &serde_json::Value, own: [&serde_json::Value; 2]| {
            let containers = own.map(|own| json!({"name": "c", "securityContext": own}));
            Owners::asked(
                &serde_json::from_value(
                    json!({"spec": {"securityContext": of_pod, "containers": containers}}),
                )
                .unwrap(),
            )
        };
        let none = json!({});
        let owners = |group, user| Owners { group, user };
        assert_eq!(of(&none, [&none, &none]), owners(None, None));
        assert_eq!(of(&json!({"fsGroup": 7, "runAsUser": 5}), [&none, &none]), owners(Some(7), Some(5)));
        assert_eq!(of(&json!({"runAsUser": 5}), [&none, &json!({"runAsUser": 6})]), owners(None, None));
        assert_eq!(of(&none, [&json!({"runAsUser": 6}), &json!({"runAsUser": 6})]), owners(None, Some(6)));
    }
}
