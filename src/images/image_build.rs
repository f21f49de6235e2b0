//! The `build:` of an image entry: the way `podium dev` makes the image from source files (DEV-1).
//!
//! This file holds its shape and validation; the command line runs builds.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The longest list of words or patterns in an entry.
const MOST_WORDS: usize = 4096;

/// The build of an image: a command, or a Containerfile.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct ImageBuild {
    /// The program to run and its arguments; empty if `output` is used as it is, or with a Containerfile.
    pub command: Vec<String>,
    /// The directory in which the command runs. Relative paths start at the file that declares the entry.
    pub directory: Option<PathBuf>,
    /// The built program, or the built image as an archive, relative to `directory`; the entry's program if unset.
    pub output: Option<PathBuf>,
    /// The Containerfile or Dockerfile from which buildah builds the image.
    pub containerfile: Option<PathBuf>,
    /// The directory whose files the Containerfile may copy; the Containerfile's own if unset.
    pub context: Option<PathBuf>,
}

impl ImageBuild {
    /// The invalid fields, each with the reason.
    pub(crate) fn faults(&self) -> Vec<(&'static str, String)> {
        let mut faults = Vec::new();
        if self.containerfile.is_some() {
            if !self.command.is_empty() || self.output.is_some() {
                faults.push(("build.containerfile", "cannot be combined with command or output".into()));
            }
        } else if self.context.is_some() {
            faults.push(("build.context", "needs a containerfile".into()));
        } else if self.command.is_empty() && self.output.is_none() {
            faults.push(("build", "needs a command, an output or a containerfile".into()));
        }
        if self.command.first().is_some_and(String::is_empty) {
            faults.push(("build.command[0]", "the program's name is empty".into()));
        }
        if self.command.iter().any(|word| word.contains('\0')) {
            faults.push(("build.command", "an argument cannot contain a NUL byte".into()));
        }
        if self.command.len() > MOST_WORDS {
            faults.push(("build.command", format!("more than {MOST_WORDS} arguments")));
        }
        let paths = [
            ("build.directory", &self.directory),
            ("build.output", &self.output),
            ("build.containerfile", &self.containerfile),
            ("build.context", &self.context),
        ];
        for (field, path) in paths {
            let Some(path) = path else { continue };
            let bytes = path.as_os_str().as_encoded_bytes();
            if bytes.is_empty() || bytes.contains(&0) {
                faults.push((field, "must be a path".into()));
            }
        }
        faults
    }
}

/// The invalid patterns of a `watch:` list, each with the reason.
pub(crate) fn watch_faults(patterns: &[String]) -> Vec<(String, String)> {
    if patterns.len() > MOST_WORDS {
        return vec![("watch".into(), format!("more than {MOST_WORDS} patterns"))];
    }
    let is_wrong = |pattern: &str| {
        let path = pattern.trim_start_matches('!');
        path.is_empty() || path.contains('\0') || path.split('/').any(|part| part == "..")
    };
    let wrong = patterns.iter().enumerate().filter(|(_, pattern)| is_wrong(pattern));
    wrong
        .map(|(number, pattern)| {
            (
                format!("watch[{number}]"),
                format!("{pattern:?} is not a path or glob below the build's directory"),
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ImageEntry;

    /// DEV-1: invalid builds are reported with their field.
    #[test]
    fn a_build_is_a_command_or_a_containerfile_dev_1() {
        let table = [
            (r#"{"command":["make"],"output":"app"}"#, ""),
            (r#"{"output":"main.py"}"#, ""),
            (r#"{"containerfile":"Containerfile","context":"."}"#, ""),
            (r"{}", "build"),
            (r#"{"containerfile":"C","command":["make"]}"#, "build.containerfile"),
            (r#"{"context":".","command":["make"]}"#, "build.context"),
            (r#"{"command":[""]}"#, "build.command[0]"),
            (r#"{"command":["a","b\u0000"]}"#, "build.command"),
            (r#"{"command":["a"],"directory":""}"#, "build.directory"),
        ];
        for (text, expect) in table {
            let build: ImageBuild = serde_json::from_str(text).unwrap();
            let fields: Vec<&str> = build.faults().into_iter().map(|(field, _)| field).collect();
            let expect: Vec<&str> = Some(expect).filter(|field| !field.is_empty()).into_iter().collect();
            assert_eq!(fields, expect, "{text}");
        }
        let entry: ImageEntry =
            serde_json::from_str(r#"{"name":"a","watch":["src/**","!src/gen","../x",""]}"#).unwrap();
        let fields: Vec<String> = entry.faults().into_iter().map(|(field, _)| field).collect();
        assert_eq!(fields, ["watch[2]", "watch[3]"]);
        assert!(serde_json::from_str::<ImageEntry>(r#"{"name":"a","build":{"comand":[]}}"#).is_err());
    }
}
