//! The user that an image's server runs as, and the files that this user must own.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, lchown};
use std::path::{Path, PathBuf};

use super::at;

/// A user that the server's process switches to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ServerAccount {
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) home: PathBuf,
}

impl ServerAccount {
    /// Returns the account that replaces root. `None` if this process keeps its user: it is not root, or its
    /// directories lie below Podium's own, which only root can access.
    pub(super) fn instead_of_root(name: &str) -> io::Result<Option<Self>> {
        if !rustix::process::geteuid().is_root() || !super::has_own_mounts() {
            return Ok(None);
        }
        let passwd = fs::read_to_string("/etc/passwd")?;
        let missing = || {
            io::Error::other(format!(
                "user {name} does not exist on this machine; create it, or set securityContext.runAsUser to another \
                 user"
            ))
        };
        Self::named(name, &passwd).ok_or_else(missing).map(Some)
    }

    fn named(name: &str, passwd: &str) -> Option<Self> {
        let lines = passwd.lines().map(|line| line.split(':').collect::<Vec<_>>());
        let fields = lines.into_iter().find(|fields| fields.len() > 5 && fields[0] == name)?;
        let (uid, gid) = (fields[2].parse().ok()?, fields[3].parse().ok()?);
        Some(Self { uid, gid, home: fields[5].into() })
    }

    /// Changes the owner of each file in a directory to this account, unless the account owns it already.
    pub(super) fn take(&self, directory: &Path) -> io::Result<()> {
        let about = fs::symlink_metadata(directory).map_err(|error| at(directory, &error))?;
        if about.uid() != self.uid {
            lchown(directory, Some(self.uid), Some(self.gid)).map_err(|error| at(directory, &error))?;
        }
        if about.is_dir() {
            for entry in fs::read_dir(directory).map_err(|error| at(directory, &error))? {
                self.take(&entry?.path())?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_are_read_from_a_password_file() {
        let passwd =
            "root:x:0:0:root:/root:/bin/sh\npostgres:x:70:71::/var/lib/postgresql:/bin/sh\nbad:x:y:1::/:\n";
        let expect = ServerAccount { uid: 70, gid: 71, home: "/var/lib/postgresql".into() };
        assert_eq!(ServerAccount::named("postgres", passwd), Some(expect));
        assert_eq!(ServerAccount::named("bad", passwd), None);
        assert_eq!(ServerAccount::named("redis", passwd), None);
    }
}
