//! The environment and user of a container's processes: the image's and the pod's, and nothing of the host's own.

use std::path::{Path, PathBuf};

use super::user::User;
use crate::DEFAULT_PATH;
use crate::RuntimeError;
use crate::process_tree::MARKER;
use crate::protocol::Launch;

/// Adds pairs; later ones replace earlier ones but keep the position of the first.
pub(super) fn merge(env: &mut Vec<(String, String)>, more: impl IntoIterator<Item = (String, String)>) {
    for (name, value) in more {
        match env.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) => *known = value,
            None => env.push((name, value)),
        }
    }
}

/// The variables of every container, below those of its image and spec.
pub(super) fn base(hostname: &str, home: &Path, tty: bool) -> Vec<(String, String)> {
    let mut env = vec![
        ("PATH".to_owned(), DEFAULT_PATH.to_owned()),
        ("HOSTNAME".to_owned(), hostname.to_owned()),
        ("HOME".to_owned(), home.display().to_string()),
    ];
    if tty {
        env.push(("TERM".to_owned(), "xterm".to_owned()));
    }
    env
}

/// Adds a directory to the end of the search path.
pub(super) fn extend_search_path(env: &mut [(String, String)], directory: &Path) {
    if let Some((_, path)) = env.iter_mut().find(|(name, _)| name == "PATH") {
        path.push(':');
        path.push_str(&directory.to_string_lossy());
    }
}

/// The marker by which a container's processes are found.
pub(super) fn marker(id: &str) -> (String, String) {
    (MARKER.to_owned(), id.to_owned())
}

/// Without namespaces a program finds its volumes by `PODIUM_MOUNT_…`, named after the mount path.
pub(super) fn mount_variable(container_path: &Path, host_path: &Path) -> (String, String) {
    let path = container_path.display().to_string();
    let name: String = path
        .trim_matches('/')
        .chars()
        .map(|letter| if letter.is_ascii_alphanumeric() { letter.to_ascii_uppercase() } else { '_' })
        .collect();
    (format!("PODIUM_MOUNT_{name}"), host_path.display().to_string())
}

/// A user and home directory.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct UserAccount {
    /// The user to become; none keeps the current one.
    pub(super) user: Option<User>,
    pub(super) home: PathBuf,
}

/// Returns the account of a container: the user and group ids of its spec, else the image's user. Only root may become
/// another user.
pub(super) fn account(
    launch: &Launch,
    passwd: &str,
    group: &str,
    own_uid: u32,
) -> Result<UserAccount, RuntimeError> {
    let lines =
        || passwd.lines().map(|line| line.split(':').collect::<Vec<_>>()).filter(|line| line.len() > 5);
    let mut uid = launch.spec.run_as_user;
    let mut gid = launch.spec.run_as_group;
    if uid.is_none()
        && let Some(text) = launch.user.as_deref().filter(|text| !text.is_empty())
    {
        let (user, own_group) =
            text.split_once(':').map_or((text, None), |(user, own_group)| (user, Some(own_group)));
        let named = lines().find(|line| line[0] == user);
        uid = user.parse().ok().or_else(|| named.as_ref()?[2].parse().ok());
        if uid.is_none() {
            let text = format!("unable to find user {user}: no matching entries in passwd file");
            return Err(RuntimeError::StartFailed(text));
        }
        let number = |name: &str| {
            let line =
                group.lines().map(|line| line.split(':').collect::<Vec<_>>()).find(|line| line[0] == name)?;
            line.get(2)?.parse::<u32>().ok()
        };
        gid = gid.or_else(|| own_group.and_then(|name| name.parse().ok().or_else(|| number(name))));
    }
    let effective = uid.unwrap_or(own_uid);
    let entry = lines().find(|line| line[2].parse() == Ok(effective));
    let home = entry.as_ref().map_or_else(|| PathBuf::from("/"), |line| PathBuf::from(line[5]));
    let group_of_user = entry.as_ref().and_then(|line| line[3].parse().ok());
    if effective == 0 && launch.spec.security.non_root {
        let message = if launch.spec.run_as_user.is_some() {
            "container's runAsUser breaks non-root policy"
        } else {
            "container has runAsNonRoot and image will run as root"
        };
        return Err(RuntimeError::InvalidConfig(message.to_owned()));
    }
    // With an image's own files even root must be set: it has the image's groups, not this machine's.
    let is_requested =
        uid.is_some() || gid.is_some() || !launch.spec.security.groups.is_empty() || launch.has_own_root();
    if own_uid != 0 || !is_requested {
        return Ok(UserAccount { user: None, home });
    }
    let gid = gid.or(group_of_user).unwrap_or(0);
    let mut groups = launch.spec.security.groups.clone();
    if let Some(entry) = entry.filter(|_| !launch.spec.security.no_image_groups) {
        let further = groups_of(entry[0], group);
        groups.extend(further.into_iter().filter(|number| !launch.spec.security.groups.contains(number)));
    }
    Ok(UserAccount { user: Some(User { uid: effective, gid, groups }), home })
}

/// The supplementary groups of a user in a group file.
fn groups_of(user: &str, group: &str) -> Vec<u32> {
    let number = |line: &str| {
        let mut fields = line.split(':').skip(2);
        let number = fields.next()?.parse().ok()?;
        fields.next()?.split(',').any(|member| member.trim() == user).then_some(number)
    };
    group.lines().filter_map(number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Security;

    /// POD-16, IMG-3: a user gets the groups of its image, unless the pod allows only its own groups.
    #[test]
    fn a_user_has_the_images_groups_too() {
        let passwd = "root:x:0:0:root:/root:/bin/sh\napp:x:1000:1000:App:/srv:/bin/sh\n";
        let group = "root:x:0:root\ntape:x:26:app,root\nwheel:x:10:root\nstaff:x:50: app\nbad:x:x:app\n";
        let of = |user: Option<u32>, strict: bool, own_uid: u32| {
            let mut launch: Launch = serde_json::from_value(serde_json::json!({
                "spec": {"pod_uid": "p", "name": "c", "attempt": 0, "image": "i", "command": [], "args": [], "env": [],
                    "mounts": [], "stdin": false, "stdin_once": false, "tty": false, "termination_message_path": "/t"},
                "image_id": "", "argv": [], "image_env": [], "working_dir": "/", "stop_signal": 15, "programs": [],
                "directories": [], "host_view": false, "image_layers": ["/image"]}))
            .unwrap();
            launch.spec.run_as_user = user;
            launch.spec.security =
                Security { groups: vec![26, 7], no_image_groups: strict, ..Security::default() };
            account(&launch, passwd, group, own_uid)
                .unwrap()
                .user
                .map(|user| (user.uid, user.gid, user.groups))
        };
        assert_eq!(of(Some(1000), false, 0), Some((1000, 1000, vec![26, 7, 50])));
        assert_eq!(of(Some(1000), true, 0), Some((1000, 1000, vec![26, 7])));
        assert_eq!(of(Some(5), false, 0), Some((5, 0, vec![26, 7])), "the image has no such user");
        assert_eq!(of(None, false, 0), Some((0, 0, vec![26, 7, 0, 10])));
        assert_eq!(of(Some(1000), false, 500), None, "only root may become another user");
    }

    #[test]
    fn later_variables_win() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let mut env = base("web-1", Path::new("/root"), true);
        merge(&mut env, [pair("A", "1"), pair("PATH", "/x"), pair("A", "2")]);
        let expect =
            [("PATH", "/x"), ("HOSTNAME", "web-1"), ("HOME", "/root"), ("TERM", "xterm"), ("A", "2")];
        assert_eq!(env, expect.map(|(name, value)| pair(name, value)));
    }

    #[test]
    fn mounts_have_variables() {
        let (name, value) = mount_variable(Path::new("/usr/share/nginx-1/html/"), Path::new("/v"));
        assert_eq!((name.as_str(), value.as_str()), ("PODIUM_MOUNT_USR_SHARE_NGINX_1_HTML", "/v"));
    }
}
