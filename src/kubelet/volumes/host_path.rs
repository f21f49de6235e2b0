//! Checks hostPaths, and creates missing ones (VOL-1).

use std::io;
use std::path::Path;

use k8s_openapi::api::core::v1::HostPathVolumeSource;

/// Checks a hostPath's type; `…OrCreate` creates a missing path.
pub(super) fn host_path(source: &HostPathVolumeSource) -> Result<(), String> {
    use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
    let path = Path::new(&source.path);
    let found = std::fs::metadata(path).ok();
    let type_ = source.type_.as_deref().unwrap_or_default();
    let wrong =
        |expected: &str| Err(format!("hostPath type check failed: {} is not {expected}", source.path));
    let failure = |error: io::Error| format!("{}: {error}", source.path);
    match (type_, found) {
        ("DirectoryOrCreate", None) => make_directory(path).map_err(failure),
        ("FileOrCreate", None) => {
            let mut options = std::fs::File::options();
            options.write(true).create_new(true).mode(0o644).open(path).map(drop).map_err(failure)
        }
        ("" | "Directory" | "DirectoryOrCreate", Some(m)) if type_.is_empty() || m.is_dir() => Ok(()),
        ("", None) => Ok(()),
        ("File" | "FileOrCreate", Some(m)) if m.is_file() => Ok(()),
        ("Socket", Some(m)) if m.file_type().is_socket() => Ok(()),
        ("CharDevice", Some(m)) if m.file_type().is_char_device() => Ok(()),
        ("BlockDevice", Some(m)) if m.file_type().is_block_device() => Ok(()),
        ("Directory" | "DirectoryOrCreate", _) => wrong("a directory"),
        ("File" | "FileOrCreate", _) => wrong("a file"),
        ("Socket", _) => wrong("a socket file"),
        ("CharDevice", _) => wrong("a character device"),
        ("BlockDevice", _) => wrong("a block device"),
        (other, _) => Err(format!("unknown hostPath type \"{other}\"")),
    }
}

/// Creates the directory of a hostPath without a type if nothing is at its path, as container runtimes do.
pub(super) fn make_host_directory(source: &HostPathVolumeSource) -> Result<(), String> {
    let path = Path::new(&source.path);
    // If the path cannot be read, the attempt to create it returns the reason.
    if source.type_.as_deref().unwrap_or_default().is_empty() && path.metadata().is_err() {
        make_directory(path).map_err(|error| format!("failed to mkdir \"{}\": {error}", source.path))?;
    }
    Ok(())
}

/// Creates a directory with its parents.
fn make_directory(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new().recursive(true).mode(0o755).create(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// VOL-1: the files that each hostPath type requires, and those that it creates.
    #[test]
    fn host_paths_are_what_they_say_vol_1() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name).display().to_string();
        std::fs::write(path("file"), "").unwrap();
        std::fs::create_dir(path("dir")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(path("socket")).unwrap();
        let check = |type_: &str, name: &str| {
            let path = if name.starts_with('/') { name.to_string() } else { path(name) };
            host_path(&HostPathVolumeSource { path, type_: Some(type_.into()) })
        };
        for (type_, name, is_not) in [
            ("", "none", None),
            ("Directory", "dir", None),
            ("Directory", "file", Some("a directory")),
            ("Directory", "none", Some("a directory")),
            ("DirectoryOrCreate", "new/deep", None),
            ("DirectoryOrCreate", "file", Some("a directory")),
            ("File", "file", None),
            ("File", "dir", Some("a file")),
            ("FileOrCreate", "fresh", None),
            ("Socket", "socket", None),
            ("Socket", "file", Some("a socket file")),
            ("CharDevice", "/dev/null", None),
            ("CharDevice", "file", Some("a character device")),
            ("BlockDevice", "/dev/null", Some("a block device")),
        ] {
            let failure = check(type_, name);
            match is_not {
                None => assert_eq!(failure, Ok(()), "{type_} {name}"),
                Some(what) => {
                    let text = failure.unwrap_err();
                    assert!(
                        text.starts_with("hostPath type check failed: ") && text.ends_with(what),
                        "{text}"
                    );
                }
            }
        }
        assert!(dir.path().join("new/deep").is_dir() && dir.path().join("fresh").is_file());
    }

    /// VOL-1: a missing hostPath without a type is created as a directory for the containers that mount it.
    #[test]
    fn a_host_path_of_no_type_is_made_as_a_directory_vol_1() {
        use std::os::unix::fs::MetadataExt;
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let make = |name: &str, type_: Option<&str>| {
            let path = path(name).display().to_string();
            make_host_directory(&HostPathVolumeSource { path, type_: type_.map(Into::into) })
        };
        std::fs::write(path("file"), "").unwrap();
        std::os::unix::fs::symlink(path("nowhere"), path("dangling")).unwrap();
        for (name, type_) in
            [("new/deep", None), ("empty", Some("")), ("file", None), ("none", Some("Directory"))]
        {
            assert_eq!(make(name, type_), Ok(()), "{name}");
        }
        assert_eq!(path("new/deep").metadata().unwrap().mode() & 0o7777, 0o755);
        assert!(path("empty").is_dir() && path("file").is_file() && !path("none").exists());
        for name in ["file/below", "dangling"] {
            let error = make(name, None).unwrap_err();
            assert!(error.starts_with(&format!("failed to mkdir \"{}\": ", path(name).display())), "{error}");
        }
    }
}
