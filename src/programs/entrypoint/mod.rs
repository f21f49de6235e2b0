//! The entrypoints of built-in images that stand for well-known ones: they accept the same arguments and environment,
//! initialise the data directory, and switch to the same user (IMG-2).
//!
//! At its end, each replaces its process by the server's program (exec), which is the one installed on the machine.

mod account;
mod arguments;
mod postgres;
mod redis;
mod scripts;
mod settings;

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use account::ServerAccount;
use arguments::Rule;
use base::removal::unless_missing;

/// Runs the entrypoint of an image, and replaces this process by the resulting command; returns only on an error.
pub(super) fn run(image: &str, arguments: &[String]) -> io::Error {
    let Some(rule) = Rule::of(image) else {
        return io::Error::other(format!("no entrypoint for image {image:?}"));
    };
    let words = rule.command_line(arguments, |name| find(name).is_some());
    match prepare(image, rule, words) {
        Ok(mut command) => {
            let program = command.get_program().to_string_lossy().into_owned();
            let error = command.exec();
            io::Error::new(error.kind(), format!("exec {program}: {error}"))
        }
        Err(error) => error,
    }
}

/// Returns the command to execute, after preparing everything that it needs.
fn prepare(image: &str, rule: &Rule, mut words: Vec<String>) -> io::Result<Command> {
    let is_server = words.first().is_some_and(|word| rule.names.contains(&word.as_str()));
    if is_server {
        // The machine may have the program under another of its names.
        if let Some(path) = rule.names.iter().find_map(|name| find(name)) {
            words[0] = path.display().to_string();
        }
    }
    match image {
        "postgres" if is_server => postgres::prepare(&words),
        "redis" if is_server => redis::prepare(words),
        _ => Ok(command(&words, None)),
    }
}

/// Returns a command that runs as the account, or as this process's user if there is none.
fn command(words: &[String], account: Option<&ServerAccount>) -> Command {
    let (program, arguments) =
        words.split_first().map_or(("", words), |(first, rest)| (first.as_str(), rest));
    let mut command = Command::new(program);
    command.args(arguments);
    if let Some(account) = account {
        command.uid(account.uid).gid(account.gid).env("HOME", &account.home);
    }
    command
}

/// Returns the path of an executable file of this name along `PATH`; a name with a slash is a path already.
fn find(name: &str) -> Option<PathBuf> {
    let is_program = |path: &PathBuf| {
        path.metadata().is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0)
    };
    if name.contains('/') {
        return Some(PathBuf::from(name)).filter(is_program);
    }
    let search_path = std::env::var_os("PATH")?;
    std::env::split_paths(&search_path).map(|directory| directory.join(name)).find(is_program)
}

/// Returns the real path of one of the image's directories: without a mount namespace, an environment variable contains
/// it.
pub(super) fn real_path(directory: &str) -> PathBuf {
    let name: String = directory
        .trim_matches('/')
        .chars()
        .map(|letter| if letter.is_ascii_alphanumeric() { letter.to_ascii_uppercase() } else { '_' })
        .collect();
    std::env::var_os(format!("PODIUM_MOUNT_{name}")).map_or_else(|| PathBuf::from(directory), PathBuf::from)
}

/// Returns true if the container has a mount namespace. Without one, environment variables contain the paths of its
/// files.
fn has_own_mounts() -> bool {
    std::env::var_os("PODIUM_TERMINATION_LOG").is_none()
}

/// Removes the file that marks a directory as the image's own: programs expect their directories to be empty.
fn unmark(directory: &Path) -> io::Result<()> {
    let removed = unless_missing(std::fs::remove_file(directory.join(super::IMAGE_DIRECTORY)));
    removed.map_err(|error| at(directory, &error))
}

/// Returns the pod's address if pods share the machine's loopback interface: a server that listens on every address
/// would then conflict with those of other pods.
fn shared_loopback() -> Option<String> {
    let address = std::env::var("POD_IP").ok()?;
    address.parse::<std::net::IpAddr>().ok().filter(std::net::IpAddr::is_loopback).map(|_| address)
}

fn at(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// Runs a command to its end; fails if the command fails.
fn complete(command: &mut Command) -> io::Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let status = command.status().map_err(|error| at(Path::new(&program), &error))?;
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("{program} failed: {status}"))) }
}
