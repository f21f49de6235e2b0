//! Sets the commit and date that `/version` reports.
//!
//! Without a repository, as in an archive of the sources, the build succeeds all the same.

#![expect(clippy::disallowed_methods, reason = "a build has no clock but the machine's")]

use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

/// The text that stands for an unknown commit.
const NO_COMMIT: &str = "0000000000000000000000000000000000000000";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=SOURCE_DATE_EPOCH");
    // Only release builds depend on the commit: otherwise developers would wait for a rebuild after each
    // commit.
    if std::env::var("PROFILE").is_ok_and(|profile| profile == "release")
        && let Some(head) = git(&["rev-parse", "--git-path", "logs/HEAD"])
    {
        println!("cargo::rerun-if-changed={head}");
    }
    let commit = git(&["rev-parse", "HEAD"]).filter(|commit| commit.len() == NO_COMMIT.len());
    let tree = match (&commit, git(&["status", "--porcelain", "--untracked-files=no"])) {
        (None, _) => "archive",
        (Some(_), Some(changes)) if !changes.is_empty() => "dirty",
        _ => "clean",
    };
    let compiler = std::env::var("RUSTC").ok().and_then(|rustc| output(Command::new(rustc).arg("--version")));
    let compiler =
        compiler.as_deref().and_then(|text| text.split(' ').nth(1)).unwrap_or_default().to_string();
    let source_date = std::env::var("SOURCE_DATE_EPOCH").ok().and_then(|seconds| seconds.parse::<u64>().ok());
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
    println!("cargo::rustc-env=PODIUM_GIT_COMMIT={}", commit.as_deref().unwrap_or(NO_COMMIT));
    println!("cargo::rustc-env=PODIUM_GIT_TREE_STATE={tree}");
    println!("cargo::rustc-env=PODIUM_COMPILER=rustc{compiler}");
    println!("cargo::rustc-env=PODIUM_BUILD_EPOCH={}", source_date.unwrap_or(now));
}

fn git(arguments: &[&str]) -> Option<String> {
    output(Command::new("git").args(arguments))
}

fn output(command: &mut Command) -> Option<String> {
    let output = command.output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_string())
}
