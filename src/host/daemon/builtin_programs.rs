//! Shows programs inside this binary to shells, as files in the last directory of a container's search path.
//!
//! It is the last directory so that a program of the machine with the same name takes precedence.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::Host;
use super::rootfs::BindMount;
use crate::Program;

/// The programs' directory in a container with a mount namespace.
const DIRECTORY: &str = "/.podium/bin";

impl Host {
    /// The directory with these programs, for the search path; its mounts are added to `shows`.
    pub(super) fn inside_programs(
        &self,
        programs: &[(String, Program)],
        shows: &mut Vec<BindMount>,
    ) -> Option<PathBuf> {
        // `main` recognizes these programs by the name in `argv[0]`; programs under other names work only as a
        // container's command.
        let named = programs.iter().filter(|(name, program)| *program == Program::Inside(name.clone()));
        let names: Vec<&String> = named.map(|(name, _)| name).collect();
        if names.is_empty() {
            return None;
        }
        let own = own_file()?;
        if self.isolation.namespaces {
            let directory = Path::new(DIRECTORY);
            shows.extend(names.into_iter().map(|name| BindMount {
                read_only: true,
                of_system: true,
                ..BindMount::new(own.clone(), directory.join(name))
            }));
            return Some(directory.to_path_buf());
        }
        let directory = self.dir.join("bin");
        fs::create_dir_all(&directory).ok()?;
        for name in names {
            let link = directory.join(name);
            // An earlier host may have left a link to another build.
            if fs::read_link(&link).ok().as_ref() != Some(&own) {
                let _ = fs::remove_file(&link);
                symlink(&own, &link).ok()?;
            }
        }
        Some(directory)
    }
}

/// This binary's file, or the one that replaced it.
fn own_file() -> Option<PathBuf> {
    let own = std::env::current_exe().ok()?;
    let replaced = own.to_str().and_then(|path| path.strip_suffix(" (deleted)")).map(PathBuf::from);
    Some(replaced.unwrap_or(own)).filter(|path| path.is_file())
}
