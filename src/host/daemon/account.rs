//! The user of a container's processes, by the account files of its image or of this machine (POD-16).
//!
//! The files are hostile: every line counts only if it is complete, and nothing grows with their size.

use std::path::PathBuf;

use super::user::User;
use crate::RuntimeError;
use crate::protocol::Launch;

/// The maximum of groups that an image gives a user: all of them appear in the pod's status. The kernel would take
/// 65536.
const MAX_GROUPS: usize = 1024;

/// A user and home directory.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct UserAccount {
    /// The user to become; none keeps the current one.
    pub(super) user: Option<User>,
    pub(super) home: PathBuf,
}

/// A line of a password file.
#[derive(Clone, Copy, Debug)]
struct PasswordEntry<'a> {
    name: &'a str,
    uid: u32,
    gid: u32,
    home: &'a str,
}

/// A line of a group file.
#[derive(Clone, Copy, Debug)]
struct GroupEntry<'a> {
    name: &'a str,
    gid: u32,
    members: &'a str,
}

/// The largest id, as in runc. The kernel takes the largest number of 32 bits for no id: a process that asks for it stays
/// root.
const MAX_ID: u32 = i32::MAX.cast_unsigned();

/// Reads the id of an account file.
fn id(text: &str) -> Option<u32> {
    text.parse().ok().filter(|id| *id <= MAX_ID)
}

fn users(passwd: &str) -> impl Iterator<Item = PasswordEntry<'_>> {
    passwd.lines().filter_map(|line| {
        let mut fields = line.trim().split(':');
        let (name, _password) = (fields.next()?, fields.next()?);
        let (uid, gid) = (id(fields.next()?)?, id(fields.next()?)?);
        Some(PasswordEntry { name, uid, gid, home: fields.nth(1).unwrap_or_default() })
    })
}

fn groups(group: &str) -> impl Iterator<Item = GroupEntry<'_>> {
    group.lines().filter_map(|line| {
        let mut fields = line.trim().split(':');
        let (name, _password) = (fields.next()?, fields.next()?);
        let gid = id(fields.next()?)?;
        Some(GroupEntry { name, gid, members: fields.next().unwrap_or_default() })
    })
}

/// Returns the account of a container: the user and group ids of its spec, else the image's user. Only root may become
/// another user.
pub(super) fn account(
    launch: &Launch,
    passwd: &str,
    group: &str,
    own_uid: u32,
) -> Result<UserAccount, RuntimeError> {
    let security = &launch.spec.security;
    let (uid, gid) = ids(launch, passwd, group)?;
    if [uid, gid].into_iter().flatten().any(|id| id > MAX_ID) {
        return Err(RuntimeError::StartFailed(format!("uids and gids must be in range 0-{MAX_ID}")));
    }
    let effective = uid.unwrap_or(own_uid);
    if effective == 0 && security.non_root {
        let message = if launch.spec.run_as_user.is_some() {
            "container's runAsUser breaks non-root policy"
        } else {
            "container has runAsNonRoot and image will run as root"
        };
        return Err(RuntimeError::InvalidConfig(message.to_owned()));
    }
    let entry = users(passwd).find(|entry| entry.uid == effective);
    let home = entry.map(|entry| entry.home).filter(|home| !home.is_empty()).unwrap_or("/").into();
    // With an image's own files even root must be set: it has the image's groups, not this machine's.
    let is_requested =
        uid.is_some() || gid.is_some() || !security.groups.is_empty() || launch.has_image_files();
    if own_uid != 0 || !is_requested {
        return Ok(UserAccount { user: None, home });
    }
    let gid = gid.or_else(|| entry.map(|entry| entry.gid)).unwrap_or(0);
    // As in containerd, the primary group is a supplementary one, too: a program that changes its group keeps it.
    let mut all = vec![gid];
    let mut add = |number: u32| {
        if !all.contains(&number) {
            all.push(number);
        }
    };
    security.groups.iter().copied().for_each(&mut add);
    if let Some(entry) = entry.filter(|_| !security.no_image_groups) {
        let is_member = |of: &GroupEntry<'_>| of.members.split(',').any(|member| member.trim() == entry.name);
        for (count, further) in groups(group).filter(is_member).enumerate() {
            if count == MAX_GROUPS {
                let text = format!("user {} is in more than {MAX_GROUPS} groups of the image", entry.name);
                return Err(RuntimeError::StartFailed(text));
            }
            add(further.gid);
        }
    }
    Ok(UserAccount { user: Some(User { uid: effective, gid, groups: all }), home })
}

/// Returns the ids that the container asks for: its spec's, else those of the image's `user[:group]`.
fn ids(launch: &Launch, passwd: &str, group: &str) -> Result<(Option<u32>, Option<u32>), RuntimeError> {
    let (uid, gid) = (launch.spec.run_as_user, launch.spec.run_as_group);
    let Some(text) = launch.user.as_deref().filter(|_| uid.is_none()) else { return Ok((uid, gid)) };
    let (user, own_group) =
        text.split_once(':').map_or((text, None), |(user, own_group)| (user, Some(own_group)));
    let own_group = own_group.filter(|name| !name.is_empty());
    let missing = |kind: &str, name: &str, file: &str| {
        RuntimeError::StartFailed(format!("unable to find {kind} {name}: no matching entries in {file} file"))
    };
    let uid = match user.parse::<u32>() {
        _ if user.is_empty() => None,
        Ok(number) => Some(number),
        // As in Kubernetes, which does not read the image's files; built-in images are Podium's own.
        Err(_) if launch.spec.security.non_root && launch.has_image_files() => {
            return Err(RuntimeError::InvalidConfig(format!(
                "container has runAsNonRoot and image has non-numeric user ({user}), cannot verify user is non-root"
            )));
        }
        Err(_) => {
            let named = users(passwd).find(|entry| entry.name == user);
            Some(named.ok_or_else(|| missing("user", user, "passwd"))?.uid)
        }
    };
    let gid = match (gid, own_group) {
        (None, Some(name)) => {
            let number = name.parse().ok();
            let named = || groups(group).find(|entry| entry.name == name).map(|entry| entry.gid);
            Some(number.or_else(named).ok_or_else(|| missing("group", name, "group"))?)
        }
        (gid, _) => gid,
    };
    Ok((uid, gid))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Security;

    const PASSWD: &str = "root:x:0:0:root:/root:/bin/sh\nshort:x\nbad:x:x:0::/:\n\
        app:x:1000:1000:App:/srv:/bin/sh\nbare:x:7:8\nhomeless:x:9:9:::\nhuge:x:4294967295:0::/:\n";
    const GROUP: &str =
        "root:x:0:root\ntape:x:26:app,root\nwheel:x:10:root\nstaff:x:50: app\nbad:x:x:app\nshort:x\n";

    fn launch(user: Option<&str>, security: Security) -> Launch {
        let mut launch: Launch = serde_json::from_value(serde_json::json!({
            "spec": {"pod_uid": "p", "name": "c", "attempt": 0, "image": "i", "command": [], "args": [], "env": [],
                "mounts": [], "stdin": false, "stdin_once": false, "tty": false, "termination_message_path": "/t"},
            "image_id": "", "argv": [], "image_env": [], "working_dir": "/", "stop_signal": 15, "programs": [],
            "directories": [], "host_view": false, "image_layers": ["/image"]}))
        .unwrap();
        launch.user = user.map(str::to_owned);
        launch.spec.security = security;
        launch
    }

    /// POD-16, IMG-3: a user gets the groups of its image, unless the pod allows only its own groups.
    #[test]
    fn a_user_has_the_images_groups_too() {
        let of = |user: Option<u32>, strict: bool, own_uid: u32| {
            let security = Security { groups: vec![26, 7], no_image_groups: strict, ..Security::default() };
            let mut launch = launch(None, security);
            launch.spec.run_as_user = user;
            account(&launch, PASSWD, GROUP, own_uid)
                .unwrap()
                .user
                .map(|user| (user.uid, user.gid, user.groups))
        };
        assert_eq!(of(Some(1000), false, 0), Some((1000, 1000, vec![1000, 26, 7, 50])));
        assert_eq!(of(Some(1000), true, 0), Some((1000, 1000, vec![1000, 26, 7])));
        assert_eq!(of(Some(5), false, 0), Some((5, 0, vec![0, 26, 7])), "the image has no such user");
        assert_eq!(of(None, false, 0), Some((0, 0, vec![0, 26, 7, 10])));
        assert_eq!(of(Some(1000), false, 500), None, "only root may become another user");
    }

    /// POD-16, IMG-3: users and groups of an image are numbers or names of its own files.
    #[test]
    fn an_images_user_is_found_by_number_or_name() {
        let of = |user: &str| {
            let found = account(&launch(Some(user), Security::default()), PASSWD, GROUP, 0);
            found
                .map(|account| {
                    let user = account.user.unwrap();
                    (user.uid, user.gid, account.home.display().to_string())
                })
                .map_err(|error| error.to_string())
        };
        let known = |uid, gid, home: &str| Ok((uid, gid, home.to_owned()));
        for (user, expect) in [
            ("", known(0, 0, "/root")),
            ("app", known(1000, 1000, "/srv")),
            ("1000", known(1000, 1000, "/srv")),
            ("app:tape", known(1000, 26, "/srv")),
            ("app:77", known(1000, 77, "/srv")),
            ("app:", known(1000, 1000, "/srv")),
            (":staff", known(0, 50, "/root")),
            ("4000", known(4000, 0, "/")),
            ("bare", known(7, 8, "/")),
            ("homeless", known(9, 9, "/")),
        ] {
            assert_eq!(of(user), expect, "{user}");
        }
        // The kernel would take this number for no change, and leave the process with root's.
        let range = "uids and gids must be in range 0-2147483647";
        assert_eq!(of("4294967295"), Err(range.to_owned()));
        assert_eq!(of("7:2147483648"), Err(range.to_owned()));
        for user in ["nobody", "bad", "short", "huge", "-1", "4294967296"] {
            let text = format!("unable to find user {user}: no matching entries in passwd file");
            assert_eq!(of(user), Err(text));
        }
        for group in ["nobody", "bad", "short"] {
            let text = format!("unable to find group {group}: no matching entries in group file");
            assert_eq!(of(&format!("app:{group}")), Err(text));
        }
    }

    /// POD-16: `runAsNonRoot` needs a number: Kubernetes does not look the name up.
    #[test]
    fn an_image_with_a_named_user_is_not_known_to_be_other_than_root() {
        let of = |user: Option<&str>, run_as_user: Option<u32>| {
            let mut launch = launch(user, Security { non_root: true, ..Security::default() });
            launch.spec.run_as_user = run_as_user;
            account(&launch, PASSWD, GROUP, 0).map(|_| ()).map_err(|error| error.to_string())
        };
        let named =
            "container has runAsNonRoot and image has non-numeric user (app), cannot verify user is non-root";
        assert_eq!(of(Some("app"), None), Err(named.to_owned()));
        assert_eq!(of(Some("app"), Some(5)), Ok(()));
        assert_eq!(of(Some("1000:staff"), None), Ok(()));
        let root = "container has runAsNonRoot and image will run as root";
        assert_eq!(of(Some("0"), None), Err(root.to_owned()));
        assert_eq!(of(None, None), Err(root.to_owned()));
        assert_eq!(of(None, Some(0)), Err("container's runAsUser breaks non-root policy".to_owned()));
    }

    /// POD-16: an image cannot fill the pod's status.
    #[test]
    fn an_image_gives_a_user_a_limited_number_of_groups() {
        let lines: Vec<String> = (0..2000).map(|number| format!("g{number}:x:{number}:root")).collect();
        let group = lines.join("\n");
        let error = account(&launch(None, Security::default()), PASSWD, &group, 0).unwrap_err();
        assert_eq!(error.to_string(), "user root is in more than 1024 groups of the image");
    }
}
