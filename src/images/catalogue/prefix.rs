//! Finds the files of the machine that belong to a program: its installation prefix. A container of a built-in image
//! sees the machine's system directories and, of all others, only these.

use std::fs;
use std::path::{Component, Path, PathBuf};

use base::optional_file::read_optional;
use base::sort::SliceOrder;

/// The machine's directories that every built-in image shows.
const SYSTEM: [&str; 7] = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"];
/// Directories in which all programs share their libraries.
const STORES: [&str; 2] = ["/nix/store", "/gnu/store"];
/// Directories of programs below a prefix.
const OF_PROGRAMS: [&str; 4] = ["bin", "sbin", "shims", "libexec"];
/// One of these beside them says that the directory above is an installation. Otherwise it may be a project or a whole
/// disk, of which only the programs are shown.
const OF_INSTALLATIONS: [&str; 10] = [
    "lib", "lib64", "libexec", "share", "versions", "installs", "tools", "candidates", "pyvenv.cfg", "go.env",
];
/// A program is found through at most this many links.
const MAXIMUM_LINKS: usize = 40;

/// Returns the paths to show for a program: its prefix, and those of the programs that it is a link to. Of a home
/// directory only the program itself is shown.
pub(super) fn installation_prefixes(program: &Path) -> Vec<PathBuf> {
    let mut paths = links(program);
    paths.retain(|path| !SYSTEM.iter().any(|directory| path.starts_with(directory)));
    if paths.is_empty() {
        return Vec::new();
    }
    let passwd = read_optional("/etc/passwd");
    let homes: Vec<&Path> = passwd.lines().filter_map(|line| line.split(':').nth(5)).map(Path::new).collect();
    let mut prefixes: Vec<PathBuf> = Vec::new();
    for path in paths {
        let (prefix, further) = prefix_of(&path, &homes);
        prefixes.extend([Some(prefix), further].into_iter().flatten());
    }
    prefixes.order();
    prefixes.dedup();
    let all = prefixes.clone();
    let inside = |prefix: &PathBuf| all.iter().any(|other| prefix != other && prefix.starts_with(other));
    prefixes.retain(|prefix| !inside(prefix) && prefix.exists());
    prefixes
}

/// The paths by which a program is found: as given, and each target of a link, also with the links in its directory
/// resolved.
fn links(program: &Path) -> Vec<PathBuf> {
    let Ok(mut path) = std::path::absolute(program) else { return Vec::new() };
    let mut paths = Vec::new();
    for _ in 0..MAXIMUM_LINKS {
        let real = path.parent().zip(path.file_name());
        let real = real.and_then(|(parent, name)| Some(fs::canonicalize(parent).ok()?.join(name)));
        let Some(real) = real else { break };
        let target = fs::read_link(&real).ok();
        let next = target.and_then(|target| Some(join(real.parent()?, &target)));
        paths.extend([path, real]);
        match next {
            Some(next) => path = next,
            None => break,
        }
    }
    paths
}

/// The path of a link's target, which may climb up from the link's directory. That contains no links.
fn join(directory: &Path, target: &Path) -> PathBuf {
    let mut path = directory.to_path_buf();
    for part in target.components() {
        if part == Component::ParentDir {
            path.pop();
        } else {
            path.push(part);
        }
    }
    path
}

/// Returns the prefix of a program at this path, and a directory that belongs to it.
fn prefix_of(path: &Path, homes: &[&Path]) -> (PathBuf, Option<PathBuf>) {
    let program = || (path.to_path_buf(), None);
    if let Some(store) = STORES.iter().find(|store| path.starts_with(store)) {
        return (PathBuf::from(store), None);
    }
    let Some(directory) = path.parent() else { return program() };
    let of_programs = |directory: &&Path| OF_PROGRAMS.iter().any(|name| directory.ends_with(name));
    let Some(above) = Some(directory).filter(of_programs).and_then(Path::parent) else { return program() };
    if above.ends_with(".cargo") {
        // Rust's programs are one that starts those of a toolchain beside it; a registry's token is in this directory.
        return (directory.to_path_buf(), above.parent().map(|home| home.join(".rustup")));
    }
    let is_shared = above.components().count() < 3 || homes.iter().any(|home| home.starts_with(above));
    // A keyring may be in `.local`.
    if is_shared || above.ends_with(".local") {
        return program();
    }
    let is_installation = OF_INSTALLATIONS.iter().any(|name| above.join(name).exists());
    (if is_installation { above } else { directory }.to_path_buf(), None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// IMG-2: a program is shown with its installation, and nothing else of a home directory.
    #[test]
    fn a_program_is_shown_with_its_installation_img_2() {
        let homes = [Path::new("/root"), Path::new("/home/me")];
        let around = tempfile::tempdir().unwrap();
        let place = fs::canonicalize(around.path()).unwrap();
        for path in ["pyenv/shims", "pyenv/versions/3/bin", "node/bin", "node/lib", "project/bin"] {
            fs::create_dir_all(place.join(path)).unwrap();
        }
        let own = |path: &str| place.join(path).display().to_string();
        let rust = Some("/root/.rustup".to_owned());
        let table = [
            ("/root/bin/tool".to_owned(), "/root/bin/tool".to_owned(), None),
            ("/home/me/tool".to_owned(), "/home/me/tool".to_owned(), None),
            ("/home/me/.local/bin/tool".to_owned(), "/home/me/.local/bin/tool".to_owned(), None),
            ("/root/.cargo/bin/cargo".to_owned(), "/root/.cargo/bin".to_owned(), rust),
            ("/opt/bin/tool".to_owned(), "/opt/bin/tool".to_owned(), None),
            ("/opt/tool".to_owned(), "/opt/tool".to_owned(), None),
            ("/nix/store/x-python/bin/python".to_owned(), "/nix/store".to_owned(), None),
            (own("pyenv/shims/python3"), own("pyenv"), None),
            (own("project/bin/tool"), own("project/bin"), None),
        ];
        for (path, prefix, further) in table {
            let expect = (PathBuf::from(prefix), further.map(PathBuf::from));
            assert_eq!(prefix_of(Path::new(&path), &homes), expect, "{path}");
        }

        // A program may be a link to another installation, through a directory that is a link.
        fs::write(place.join("node/bin/node"), "").unwrap();
        symlink("node", place.join("current")).unwrap();
        symlink("../../current/bin/node", place.join("pyenv/shims/node")).unwrap();
        let found = installation_prefixes(&place.join("pyenv/shims/node"));
        assert_eq!(found, [place.join("current"), place.join("node"), place.join("pyenv")]);
        let found = installation_prefixes(&place.join("current/bin/node"));
        assert_eq!(found, [place.join("current"), place.join("node")]);
        assert_eq!(installation_prefixes(Path::new("/bin/sh")), [] as [&Path; 0]);
    }
}
