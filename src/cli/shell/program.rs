//! What becomes of this process: the command, and the exit code where there is none.

use std::ffi::{OsStr, OsString};
use std::io;

/// Where there is no other shell.
const ANY_SHELL: &str = "/bin/sh";
/// What shells end with when a command is not there.
const NOT_FOUND: i32 = 127;
/// What they end with when it is there and cannot be run.
const NOT_RUNNABLE: i32 = 126;

/// The command, or the user's shell.
pub(super) fn command(asked: &[OsString], shell: Option<OsString>) -> Vec<OsString> {
    if asked.is_empty() {
        vec![shell.filter(|shell| !shell.is_empty()).unwrap_or_else(|| ANY_SHELL.into())]
    } else {
        asked.to_vec()
    }
}

/// How shells tell that a command could not be run. That a directory of the path is forbidden says nothing of a command
/// that is in none of them.
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
        for (asked, shell, expected) in [
            (&[][..], Some("/bin/zsh"), &["/bin/zsh"][..]),
            (&[], Some(""), &["/bin/sh"]),
            (&[], None, &["/bin/sh"]),
            (&["curl", "web"], Some("/bin/zsh"), &["curl", "web"]),
        ] {
            assert_eq!(
                command(&words(asked), shell.map(OsString::from)),
                words(expected),
                "{asked:?} {shell:?}"
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
