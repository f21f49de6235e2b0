//! The program that replaces this process, and the exit code if it cannot be started.

use std::ffi::{OsStr, OsString};
use std::io;

/// The shell for users that have none.
const ANY_SHELL: &str = "/bin/sh";
/// Exit code of shells for a command that does not exist.
const NOT_FOUND: i32 = 127;
/// Exit code of shells for a command that cannot be executed.
const NOT_RUNNABLE: i32 = 126;

/// Returns the command, or the user's shell.
pub(super) fn command(requested: &[OsString], shell: Option<OsString>) -> Vec<OsString> {
    if requested.is_empty() {
        vec![shell.filter(|shell| !shell.is_empty()).unwrap_or_else(|| ANY_SHELL.into())]
    } else {
        requested.to_vec()
    }
}

/// The exit code with which shells report that a command could not be started. If no directory of the path has the
/// command, the code is 127, even if the error is that one of the directories is forbidden.
pub(super) fn exit_code(name: &OsStr, path: Option<OsString>, error: &io::Error) -> i32 {
    let is_path = name.as_encoded_bytes().contains(&b'/');
    let is_there = || {
        let path = path.unwrap_or_default();
        std::env::split_paths(&path).any(|directory| directory.join(name).exists())
    };
    if error.kind() == io::ErrorKind::NotFound || (!is_path && !is_there()) {
        NOT_FOUND
    } else {
        NOT_RUNNABLE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_goes_before_the_users_shell_net_7() {
        let words = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        for (requested, shell, expected) in [
            (&[][..], Some("/bin/zsh"), &["/bin/zsh"][..]),
            (&[], Some(""), &["/bin/sh"]),
            (&[], None, &["/bin/sh"]),
            (&["curl", "web"], Some("/bin/zsh"), &["curl", "web"]),
        ] {
            assert_eq!(
                command(&words(requested), shell.map(OsString::from)),
                words(expected),
                "{requested:?} {shell:?}"
            );
        }
        let code = |name: &str, kind: io::ErrorKind| {
            exit_code(OsStr::new(name), Some("/nowhere:/bin".into()), &kind.into())
        };
        for (name, kind, expected) in [
            ("none", io::ErrorKind::NotFound, 127),
            ("none", io::ErrorKind::PermissionDenied, 127),
            ("sh", io::ErrorKind::PermissionDenied, 126),
            ("./none", io::ErrorKind::PermissionDenied, 126),
        ] {
            assert_eq!(code(name, kind), expected, "{name} {kind}");
        }
    }
}
