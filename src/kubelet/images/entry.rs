//! An entry of the user's image catalogue, as written in `--config` or `DATA/images/*.yaml` (IMG-1).
//!
//! Only its shape; the YAML is read elsewhere.

use std::path::PathBuf;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

/// One image the user declares.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ImageEntry {
    /// The repository, with or without a registry. Without any slash it matches under every registry.
    pub name: String,
    /// The tags that exist; none means every tag.
    #[serde(default)]
    pub tags: Vec<String>,
    /// The program and its fixed arguments; a pod's `command` replaces it.
    #[serde(default)]
    pub entrypoint: Vec<String>,
    /// The default arguments; a pod's `args` replace them.
    #[serde(default)]
    pub cmd: Vec<String>,
    /// The environment, below the pod's own.
    #[serde(default)]
    pub env: ImageEnv,
    /// The working directory; `/` when not given.
    #[serde(default)]
    pub working_dir: Option<PathBuf>,
    /// `user`, `user:group`, or their numbers.
    #[serde(default)]
    pub user: Option<String>,
    /// The signal that asks the program to end: `SIGQUIT`, `QUIT` or its number.
    #[serde(default)]
    pub stop_signal: Option<String>,
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
    pub fn pairs(&self) -> Vec<(String, String)> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn environment_reads_as_map_and_as_list() {
        for text in [r#"{"name":"x","env":{"A":"1","B":""}}"#, r#"{"name":"x","env":["A=1","B"]}"#] {
            let entry: ImageEntry = serde_json::from_str(text).unwrap();
            assert_eq!(entry.env.pairs(), [("A".into(), "1".into()), ("B".into(), String::new())]);
        }
        assert!(serde_json::from_str::<ImageEntry>(r#"{"name":"x","entryPoint":[]}"#).is_err());
    }
}
