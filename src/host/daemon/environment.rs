//! The environment of a container's processes: the image's and the pod's, and nothing of the host's own.

use std::path::Path;

use crate::DEFAULT_PATH;
use crate::process_tree::MARKER;

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

#[cfg(test)]
mod tests {
    use super::*;

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
