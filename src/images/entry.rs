//! An entry of the user's image catalogue, as written in `--config` or `DATA/images/*.yaml` (IMG-1).
//!
//! This file holds its shape and validation; other modules read the YAML.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use super::ImageReference;
use super::image_build::{ImageBuild, watch_faults};
use super::signal::signal_number;

/// One image that the user declares.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ImageEntry {
    /// The repository, with or without a registry. Without any slash it matches under every registry.
    pub name: String,
    /// The tags that exist; empty means every tag.
    #[serde(default)]
    pub(crate) tags: Vec<String>,
    /// The program and its fixed arguments; a pod's `command` replaces it.
    #[serde(default)]
    pub(crate) entrypoint: Vec<String>,
    /// The default arguments; a pod's `args` replace them.
    #[serde(default)]
    pub(crate) cmd: Vec<String>,
    /// The environment, below the pod's own.
    #[serde(default)]
    pub(crate) env: ImageEnv,
    /// The working directory; `/` if unset.
    #[serde(default)]
    pub(crate) working_dir: Option<PathBuf>,
    /// `user`, `user:group`, or their numbers.
    #[serde(default)]
    pub(crate) user: Option<String>,
    /// The stop signal of the program: `SIGQUIT`, `QUIT` or its number.
    #[serde(default)]
    pub(crate) stop_signal: Option<String>,
    /// The way `podium dev` builds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build: Option<ImageBuild>,
    /// The files whose changes cause a build, below the build's directory: paths and globs, `!` before those to ignore;
    /// empty means all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub watch: Vec<String>,
}

/// Environment of an image: a map, or a list of `NAME=value` as image files have it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ImageEnv {
    /// `{NAME: value}`.
    Map(IndexMap<String, String>),
    /// `["NAME=value"]`.
    List(Vec<String>),
}

impl Default for ImageEnv {
    fn default() -> Self {
        Self::List(Vec::new())
    }
}

impl ImageEnv {
    /// Names and values in order.
    pub(crate) fn pairs(&self) -> Vec<(String, String)> {
        match self {
            Self::Map(map) => map.iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
            Self::List(list) => list
                .iter()
                .map(|item| item.split_once('=').unwrap_or((item, "")))
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect(),
        }
    }
}

impl ImageEntry {
    /// An entry without settings.
    pub fn named(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::default() }
    }

    /// The program and all arguments of its containers.
    pub fn words(&self) -> impl Iterator<Item = &str> {
        self.entrypoint.iter().chain(&self.cmd).map(String::as_str)
    }

    /// The program of its containers, if the entry has one.
    pub fn program(&self) -> Option<&str> {
        self.entrypoint.first().or(self.cmd.first()).map(String::as_str)
    }

    /// The entry of one built version: it has this tag, and runs `copy` for every word that means the built file, or
    /// else for its program.
    pub fn of_version(&self, tag: &str, is_built_file: impl Fn(&str) -> bool, copy: &Path) -> Self {
        let copy = copy.to_string_lossy().into_owned();
        let mut entry = Self { tags: vec![tag.to_owned()], build: None, watch: Vec::new(), ..self.clone() };
        let words = entry.entrypoint.iter_mut().chain(&mut entry.cmd);
        let mut is_used = false;
        for word in words.filter(|word| is_built_file(word)) {
            word.clone_from(&copy);
            is_used = true;
        }
        if !is_used {
            match entry.entrypoint.first_mut() {
                Some(program) => *program = copy,
                None => entry.entrypoint.push(copy),
            }
        }
        entry
    }

    /// The invalid fields, each with the reason.
    pub fn faults(&self) -> Vec<(String, String)> {
        let mut faults = Vec::new();
        let mut fault = |field: &str, reason: String| faults.push((field.to_owned(), reason));
        match ImageReference::parse(&self.name) {
            Err(error) => fault("name", format!("{:?}: {error}", self.name)),
            Ok(_) if ImageReference::parse(&format!("{}:x", self.name)).is_err() => {
                fault(
                    "name",
                    format!("{:?}: put the tag in the field \"tags\"; digests are not supported", self.name),
                );
            }
            Ok(_) => {}
        }
        for (number, tag) in self.tags.iter().enumerate() {
            if ImageReference::parse(&format!("name:{tag}")).is_err() {
                fault(&format!("tags[{number}]"), format!("invalid tag {tag:?}"));
            }
        }
        for (field, words) in [("entrypoint", &self.entrypoint), ("cmd", &self.cmd)] {
            if let Some(number) = words.iter().position(|word| word.contains('\0')) {
                fault(&format!("{field}[{number}]"), "an argument cannot contain a NUL byte".into());
            }
        }
        if self.entrypoint.first().is_some_and(String::is_empty) {
            fault("entrypoint[0]", "the program's name is empty".into());
        }
        for (name, value) in self.env.pairs() {
            if name.is_empty() || name.contains(['=', '\0']) {
                fault("env", format!("invalid variable name {name:?}"));
            } else if value.contains('\0') {
                fault("env", format!("the value of {name} contains a NUL byte"));
            }
        }
        if self.working_dir.as_deref().is_some_and(|path| !path.is_absolute()) {
            fault("workingDir", "must be an absolute path".into());
        }
        if self.working_dir.as_deref().and_then(Path::to_str).is_some_and(|path| path.contains('\0')) {
            fault("workingDir", "a path cannot contain a NUL byte".into());
        }
        if self.user.as_deref().is_some_and(|user| user.contains(['\0', '\n'])) {
            fault("user", "invalid user name".into());
        }
        if let Some(signal) = self.stop_signal.as_deref().filter(|signal| signal_number(signal).is_none()) {
            fault("stopSignal", format!("unknown signal {signal:?}"));
        }
        for (field, reason) in self.build.iter().flat_map(ImageBuild::faults) {
            fault(field, reason);
        }
        faults.extend(watch_faults(&self.watch));
        faults
    }

    /// Returns true if some reference matches both entries.
    pub fn collides(&self, other: &Self) -> bool {
        let same_name = match (ImageReference::parse(&self.name), ImageReference::parse(&other.name)) {
            (Ok(one), Ok(two)) => one.name() == two.name(),
            _ => self.name == other.name,
        };
        let same_tags = self.tags.is_empty() && other.tags.is_empty();
        same_name && (same_tags || self.tags.iter().any(|tag| other.tags.contains(tag)))
    }
}

/// The user's entries at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserImages {
    /// The entries; of several that match a reference equally well the first is used.
    pub entries: Vec<ImageEntry>,
    /// Read errors with their locations: part of the message for every image that is not found.
    pub problems: Vec<String>,
}

/// The storage of the user's entries; read at each lookup of an image.
pub trait UserImageSource: Send + Sync {
    /// The entries now.
    fn current(&self) -> Arc<UserImages>;
}

/// Entries that never change.
impl UserImageSource for Arc<UserImages> {
    fn current(&self) -> Arc<UserImages> {
        self.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(text: &str) -> ImageEntry {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn environment_reads_as_map_and_as_list() {
        for text in [r#"{"name":"x","env":{"A":"1","B":""}}"#, r#"{"name":"x","env":["A=1","B"]}"#] {
            assert_eq!(entry(text).env.pairs(), [("A".into(), "1".into()), ("B".into(), String::new())]);
        }
        assert!(serde_json::from_str::<ImageEntry>(r#"{"name":"x","entryPoint":[]}"#).is_err());
    }

    /// IMG-1, SEC-2: invalid values are reported with their field.
    #[test]
    fn hostile_values_are_rejected_by_field() {
        let table = [
            (r#"{"name":"me/app","tags":["v1"],"stopSignal":"INT","workingDir":"/x"}"#, ""),
            (r#"{"name":""}"#, "name"),
            (r#"{"name":"../../etc"}"#, "name"),
            (r#"{"name":"App"}"#, "name"),
            (r#"{"name":"app:v1"}"#, "name"),
            (r#"{"name":"app","tags":["v1","a/b"]}"#, "tags[1]"),
            (r#"{"name":"app","entrypoint":[""]}"#, "entrypoint[0]"),
            (r#"{"name":"app","cmd":["a","b\u0000c"]}"#, "cmd[1]"),
            (r#"{"name":"app","env":{"A=B":"1"}}"#, "env"),
            (r#"{"name":"app","env":["=x"]}"#, "env"),
            (r#"{"name":"app","env":{"A":"\u0000"}}"#, "env"),
            (r#"{"name":"app","workingDir":"here"}"#, "workingDir"),
            (r#"{"name":"app","user":"me\nroot"}"#, "user"),
            (r#"{"name":"app","stopSignal":"SIGNOPE"}"#, "stopSignal"),
        ];
        for (text, expect) in table {
            let fields: Vec<String> = entry(text).faults().into_iter().map(|(field, _)| field).collect();
            let expect: Vec<&str> = Some(expect).filter(|field| !field.is_empty()).into_iter().collect();
            assert_eq!(fields, expect, "{text}");
        }
    }

    #[test]
    fn entries_that_mean_the_same_collide() {
        let table = [
            (r#"{"name":"a"}"#, r#"{"name":"a"}"#, true),
            (r#"{"name":"a"}"#, r#"{"name":"docker.io/library/a"}"#, true),
            (r#"{"name":"a","tags":["1"]}"#, r#"{"name":"a","tags":["2","1"]}"#, true),
            (r#"{"name":"a","tags":["1"]}"#, r#"{"name":"a","tags":["2"]}"#, false),
            // The entry with tags applies to these tags, the other one to all others.
            (r#"{"name":"a","tags":["1"]}"#, r#"{"name":"a"}"#, false),
            (r#"{"name":"a"}"#, r#"{"name":"x.io/a"}"#, false),
        ];
        for (one, two, expect) in table {
            assert_eq!(entry(one).collides(&entry(two)), expect, "{one} {two}");
        }
    }
}
