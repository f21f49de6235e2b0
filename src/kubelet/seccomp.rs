//! The filter of a container's system calls: what the pod asks for (`seccompProfile`), and the profiles of the user
//! (`Localhost`), which are JSON files below `DATA/seccomp` (POD-17).

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use k8s_openapi::api::core::v1::{Container, Pod, SeccompProfile as RequestedProfile};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};

use crate::runtime::{Seccomp, SeccompProfile};
use crate::spec;

/// The maximum size of a profile's file; Docker's own has 15 KB.
const MAX_BYTES: u64 = 1 << 20;

/// Returns the filter for a container, and reads its profile from the directory if it has one of the user's. An error is
/// the message of the container's `CreateContainerError`.
pub(super) fn filter(pod: &Pod, container: &Container, directory: &Path) -> Result<Seccomp, String> {
    let Some(profile) = requested(pod, container) else { return Ok(Seccomp::Unconfined) };
    match (profile.type_.as_str(), &profile.localhost_profile) {
        ("RuntimeDefault", _) => Ok(Seccomp::RuntimeDefault),
        ("Localhost", Some(name)) => {
            let text = read(directory, name);
            let profile = text.and_then(|text| SeccompProfile::from_json(&text).map_err(io::Error::other));
            let profile = profile.map_err(|error| {
                let path = directory.join(name);
                format!("cannot load seccomp profile {:?}: {}", path.display().to_string(), reason(&error))
            })?;
            Ok(Seccomp::Localhost { name: name.clone(), profile: Box::new(profile) })
        }
        _ => Ok(Seccomp::Unconfined),
    }
}

/// The container's profile, or its pod's; none for a privileged container, which nothing confines.
fn requested<'a>(pod: &'a Pod, container: &'a Container) -> Option<&'a RequestedProfile> {
    let own = container.security_context.as_ref();
    if own.and_then(|context| context.privileged) == Some(true) {
        return None;
    }
    let of_pod = spec::spec(pod).security_context.as_ref();
    own.and_then(|context| context.seccomp_profile.as_ref()).or_else(|| of_pod?.seccomp_profile.as_ref())
}

/// Reads a file below the directory. No link may lead out of it.
fn read(directory: &Path, name: &str) -> io::Result<String> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = rustix::fs::openat(CWD, directory, flags, Mode::empty())?;
    // Opening anything but a regular file might block forever.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let inside = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let file = match rustix::fs::openat2(&directory, name, flags, Mode::empty(), inside) {
        Err(rustix::io::Errno::XDEV) => {
            return Err(io::Error::other("the path leads out of the directory of profiles"));
        }
        opened => File::from(opened?),
    };
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("not a file"));
    }
    let mut text = String::new();
    file.take(MAX_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_BYTES {
        return Err(io::Error::other("the file is larger than 1 MiB"));
    }
    Ok(text)
}

/// The operating system's words for an error, without a number.
fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use serde_json::{Value, json};

    use super::*;

    fn filter_of(of_pod: &Value, own: &Value, directory: &Path) -> Result<Seccomp, String> {
        let container = json!({"name": "c", "securityContext": own});
        let pod: Pod =
            serde_json::from_value(json!({"spec": {"securityContext": of_pod, "containers": [container]}}))
                .unwrap();
        filter(&pod, &spec::spec(&pod).containers[0], directory)
    }

    #[test]
    fn a_containers_profile_goes_before_its_pods_and_none_is_unconfined_pod_17() {
        let of = |of_pod: Value, own: Value| filter_of(&of_pod, &own, Path::new("/nonexistent")).unwrap();
        let profile = |kind: &str| json!({"seccompProfile": {"type": kind}});
        assert_eq!(of(json!({}), json!({})), Seccomp::Unconfined);
        assert_eq!(of(Value::Null, profile("RuntimeDefault")), Seccomp::RuntimeDefault);
        assert_eq!(of(profile("RuntimeDefault"), json!({})), Seccomp::RuntimeDefault);
        assert_eq!(of(profile("RuntimeDefault"), profile("Unconfined")), Seccomp::Unconfined);
        assert_eq!(of(profile("RuntimeDefault"), json!({"privileged": true})), Seccomp::Unconfined);
    }

    #[test]
    fn a_profile_is_read_below_its_directory_alone_pod_17() {
        let around = tempfile::tempdir().unwrap();
        let directory = around.path().join("seccomp");
        std::fs::create_dir_all(directory.join("profiles")).unwrap();
        let write = |path: &str, text: &str| std::fs::write(directory.join(path), text).unwrap();
        let good = r#"{"defaultAction": "SCMP_ACT_ALLOW"}"#;
        std::fs::write(around.path().join("outside.json"), good).unwrap();
        write("profiles/good.json", good);
        write("bad.json", "{");
        write("large.json", &" ".repeat(2 << 20));
        symlink("profiles/good.json", directory.join("inside.json")).unwrap();
        symlink("../outside.json", directory.join("up.json")).unwrap();
        symlink(around.path().join("outside.json"), directory.join("absolute.json")).unwrap();
        symlink("loop.json", directory.join("loop.json")).unwrap();
        let load = |name: &str| {
            let own = json!({"seccompProfile": {"type": "Localhost", "localhostProfile": name}});
            filter_of(&json!({}), &own, &directory)
        };
        for name in ["profiles/good.json", "inside.json"] {
            assert!(matches!(load(name), Ok(Seccomp::Localhost { name: loaded, .. }) if loaded == name));
        }
        for (name, expect) in [
            ("none.json", "No such file or directory"),
            ("profiles", "not a file"),
            ("bad.json", "EOF while parsing an object at line 1 column 1"),
            ("large.json", "the file is larger than 1 MiB"),
            ("up.json", "the path leads out of the directory of profiles"),
            ("absolute.json", "the path leads out of the directory of profiles"),
            ("../outside.json", "the path leads out of the directory of profiles"),
            ("loop.json", "Too many levels of symbolic links"),
        ] {
            let path = directory.join(name).display().to_string();
            assert_eq!(load(name), Err(format!("cannot load seccomp profile {path:?}: {expect}")));
        }
    }
}
