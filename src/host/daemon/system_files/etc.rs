//! The part of the machine's `/etc` that a built-in image has.
//!
//! This is a list of what is shown, not of what is hidden: any program may keep a password, a key or a token in a file
//! of its own there, so that no list of secrets could be complete. A file is missing here until someone needs it, and
//! that is an error that people see. Of the listed files, those that not every user of the machine may read are left
//! out, too.

use std::fs;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

/// Files and directories that programs and libraries need to work as installed; a component may have one `*`. In this
/// order: the loader of shared libraries; names of protocols, of the system, of time zones, languages and types of files;
/// the programs behind general names; certificates of authorities; shells and editors; changes of the user; interpreters.
const SHOWN: &[&str] = &[
    "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "ld-musl-*.path", "ethertypes", "host.conf", "gai.conf",
    "networks", "protocols", "rpc", "services", "*-release", "*_version", "issue", "localtime", "timezone",
    "locale.alias", "locale.conf", "default/locale", "magic", "magic.mime", "mime.types", "terminfo",
    "xattr.conf", "alternatives", "ca-certificates", "ca-certificates.conf", "ssl/certs", "ssl/cert.pem",
    "ssl/openssl.cnf", "pki/ca-trust/extracted", "pki/tls/certs", "pki/tls/cert.pem", "pki/tls/openssl.cnf",
    "crypto-policies", "gnutls", "bash.bashrc", "bashrc", "inputrc", "profile", "shells", "vim/vimrc*",
    "login.defs", "pam.conf", "pam.d", "security", "java-*", "perl", "php/*/cli", "php/*/mods-available",
    "php.d", "php.ini", "python*",
];

/// The copy ends at this size: a machine may have anything in these directories.
const MAXIMUM_BYTES: u64 = 32 << 20;
const MAXIMUM_ENTRIES: usize = 20_000;
const MAXIMUM_DEPTH: usize = 16;

/// The remaining size of a copy.
struct Budget {
    bytes: u64,
    entries: usize,
    /// Something was left out.
    exceeded: bool,
}

/// Copies the shown files of the machine's `/etc`.
pub(super) fn copy(machine: &Path, to: &Path) -> io::Result<()> {
    let mut budget = Budget { bytes: MAXIMUM_BYTES, entries: MAXIMUM_ENTRIES, exceeded: false };
    for pattern in SHOWN {
        copy_matches(machine, machine, to, pattern, &mut budget)?;
    }
    if budget.exceeded {
        eprintln!(
            "the files of {} for built-in images exceed {MAXIMUM_ENTRIES} files or {} MiB; the rest is left out",
            machine.display(),
            MAXIMUM_BYTES >> 20
        );
    }
    Ok(())
}

/// Copies the entries of a directory that match the pattern.
fn copy_matches(
    machine: &Path,
    from: &Path,
    to: &Path,
    pattern: &str,
    budget: &mut Budget,
) -> io::Result<()> {
    let (first, rest) = pattern.split_once('/').map_or((pattern, None), |(first, rest)| (first, Some(rest)));
    for name in names(from, first) {
        let (source, place) = (from.join(&name), to.join(&name));
        if let Some(rest) = rest {
            copy_matches(machine, &source, &place, rest, budget)?;
            continue;
        }
        // Only a listed name is followed to another directory, as of a certificate store below /var.
        let outside = fs::canonicalize(&source).ok().filter(|real| leads_away(machine, real));
        let source = outside.filter(|_| source.is_symlink()).unwrap_or(source);
        copy_tree(&source, &place, budget, MAXIMUM_DEPTH)?;
    }
    Ok(())
}

/// Returns true if a container does not have this path of the machine's.
fn leads_away(machine: &Path, real: &Path) -> bool {
    let root = machine.parent().unwrap_or(machine);
    !real.starts_with(machine) && !real.starts_with(root.join("usr"))
}

/// The names in a directory that match one component of a pattern.
fn names(directory: &Path, pattern: &str) -> Vec<PathBuf> {
    let Some((start, end)) = pattern.split_once('*') else { return vec![pattern.into()] };
    let matches = |name: &[u8]| {
        name.len() >= start.len() + end.len()
            && name.starts_with(start.as_bytes())
            && name.ends_with(end.as_bytes())
    };
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.file_name())
        .filter(|name| matches(name.as_bytes()))
        .map(PathBuf::from)
        .collect()
}

/// Copies a file, a link, or a directory with everything in it that every user may read.
fn copy_tree(from: &Path, to: &Path, budget: &mut Budget, depth: usize) -> io::Result<()> {
    let Ok(about) = fs::symlink_metadata(from) else { return Ok(()) };
    if budget.entries == 0 || depth == 0 {
        budget.exceeded = true;
        return Ok(());
    }
    budget.entries -= 1;
    to.parent().map_or(Ok(()), fs::create_dir_all)?;
    let made = if about.is_symlink() {
        fs::read_link(from).and_then(|target| symlink(target, to))
    } else if about.is_dir() {
        // Without the right to enter it, no other user can read the files in it.
        if about.mode() & 0o005 == 0o005 { copy_directory(from, to, budget, depth) } else { Ok(()) }
    } else if about.is_file() {
        copy_file(from, to, budget)
    } else {
        Ok(())
    };
    let Err(error) = made else { return Ok(()) };
    match error.kind() {
        io::ErrorKind::StorageFull => Err(error),
        // Two patterns have the same name, or it changed meanwhile, or this user may not read it.
        io::ErrorKind::AlreadyExists | io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied => Ok(()),
        _ => {
            eprintln!("cannot copy {} for built-in images: {error}", from.display());
            Ok(())
        }
    }
}

fn copy_directory(from: &Path, to: &Path, budget: &mut Budget, depth: usize) -> io::Result<()> {
    fs::create_dir(to)?;
    fs::set_permissions(to, fs::Permissions::from_mode(0o755))?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        copy_tree(&entry.path(), &to.join(entry.file_name()), budget, depth - 1)?;
    }
    Ok(())
}

fn copy_file(from: &Path, to: &Path, budget: &mut Budget) -> io::Result<()> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let source = fs::File::options().read(true).custom_flags(flags).open(from)?;
    // The rights of the file that is read count.
    let about = source.metadata()?;
    if !about.is_file() || about.mode() & 0o004 == 0 {
        return Ok(());
    }
    if about.len() > budget.bytes {
        budget.exceeded = true;
        return Ok(());
    }
    let mut place = fs::File::options().write(true).create_new(true).open(to)?;
    budget.bytes -= io::copy(&mut source.take(budget.bytes), &mut place)?;
    place.set_permissions(fs::Permissions::from_mode(0o644 | about.mode() & 0o111))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// IMG-2: of `/etc`, an image has the listed files, and of these only what every user may read.
    #[test]
    fn listed_files_that_everyone_may_read_are_copied_img_2() {
        let around = tempfile::tempdir().unwrap();
        let [machine, to, store] = ["etc", "to", "var/certs"].map(|name| around.path().join(name));
        fs::create_dir(&to).unwrap();
        for path in
            ["etc/ssl/certs", "etc/ssl/private", "etc/ssh", "etc/php/8.2/cli", "etc/php/8.2/fpm", "var/certs"]
        {
            fs::create_dir_all(around.path().join(path)).unwrap();
        }
        let files = [
            ("ssl/certs/ca.pem", 0o644, true),
            ("ssl/certs/key.pem", 0o640, false),
            ("ssl/private/key", 0o644, false),
            ("ssh/ssh_host_key", 0o644, false),
            ("php/8.2/cli/php.ini", 0o644, true),
            ("php/8.2/fpm/pool.conf", 0o644, false),
            ("os-release", 0o644, true),
            ("protocols", 0o600, false),
            ("api.token", 0o644, false),
            ("shadow", 0o644, false),
        ];
        for (path, mode, _) in files {
            fs::write(machine.join(path), path).unwrap();
            fs::set_permissions(machine.join(path), fs::Permissions::from_mode(mode)).unwrap();
        }
        fs::write(store.join("bundle"), "roots").unwrap();
        symlink("../../var/certs/bundle", machine.join("ssl/cert.pem")).unwrap();
        symlink("../usr/share/zoneinfo/UTC", machine.join("localtime")).unwrap();
        copy(&machine, &to).unwrap();
        for (path, _, shown) in files {
            assert_eq!(to.join(path).exists(), shown, "{path}");
        }
        assert_eq!(fs::read_to_string(to.join("ssl/cert.pem")).unwrap(), "roots");
        assert!(to.join("localtime").is_symlink(), "links into the system's directories stay links");
        assert!(!to.join("ssh").exists());

        let mut small = Budget { bytes: 3, entries: 2, exceeded: false };
        let other = around.path().join("other");
        copy_tree(&machine.join("ssl"), &other, &mut small, MAXIMUM_DEPTH).unwrap();
        let count = |path: &Path| fs::read_dir(path).map_or(0, Iterator::count);
        assert!(
            count(&other) <= 1 && count(&other.join("certs")) == 0 && small.exceeded,
            "a copy ends at its size"
        );
    }
}
