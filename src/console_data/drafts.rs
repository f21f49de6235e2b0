//! Unsaved editor texts, on disk, so that neither the end of the console nor a crash loses them. A draft is offered
//! when its object is edited again, and never applied automatically (CON-17). One JSON document per cluster, readable
//! only by its owner, beside the tabs.
//!
//! Drafts of Secrets are never saved: their text is likely to be confidential.
//!
//! The files are untrusted input: their size is bounded, and invalid entries are dropped.

use std::path::Path;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::cluster_file::ClusterFiles;
use super::resource::{ObjectRef, ResourceKey, Uid};

/// The maximum number of drafts per cluster; the oldest are dropped.
const MAX_DRAFTS: usize = 16;
/// The maximum size in bytes of a text and of its base version; an API server accepts no more.
const MAX_TEXT_BYTES: usize = 1 << 20;
/// The location of the files.
const FILES: ClusterFiles = ClusterFiles {
    directory: "drafts",
    max_bytes: (MAX_DRAFTS as u64 * 2 + 1) * MAX_TEXT_BYTES as u64,
    description: "unsaved edits",
};
/// The maximum length of a name in bytes.
const MAX_NAME_BYTES: usize = 1_024;

/// The object that a draft belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DraftKey {
    /// API group of its kind, empty for the core group.
    pub group: String,
    /// Its plural name in paths.
    pub plural: String,
    /// Its namespace, if it has one.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
}

impl DraftKey {
    /// Returns the key of an object's draft.
    pub fn of(target: &ObjectRef) -> Self {
        Self {
            group: target.kind.resource.group.to_string(),
            plural: target.kind.resource.plural.to_string(),
            namespace: target.namespace.clone(),
            name: target.name.clone(),
        }
    }

    /// Returns `deployments default/web`.
    pub fn describe(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("{} {namespace}/{}", self.plural, self.name),
            None => format!("{} {}", self.plural, self.name),
        }
    }
}

/// An unsaved text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Draft {
    /// The object that is edited.
    pub key: DraftKey,
    /// The time of the last keystroke.
    pub at: Timestamp,
    /// The text in the editor.
    pub text: String,
    /// The complete object that the edit started from; later changes by others are merged against it.
    pub base: Value,
}

/// Reports whether drafts of this kind may be written to disk.
pub fn is_storable(resource: &ResourceKey) -> bool {
    !(resource.group.is_empty() && resource.plural == "secrets")
}

impl Draft {
    /// Returns the uid of the edited object.
    pub fn uid(&self) -> Option<&str> {
        self.base["metadata"]["uid"].as_str()
    }

    /// Reports whether the draft is valid and within bounds.
    fn is_sound(&self) -> bool {
        let DraftKey { group, plural, namespace, name } = &self.key;
        let named =
            [group, plural, name].into_iter().chain(namespace).all(|text| text.len() <= MAX_NAME_BYTES);
        let secret = group.is_empty() && plural == "secrets";
        named
            && !secret
            && !self.text.is_empty()
            && self.text.len() <= MAX_TEXT_BYTES
            && self.base.is_object()
    }
}

/// Reads the drafts of a cluster, oldest first; empty if the file is absent or unreadable.
pub fn read(dir: &Path, cluster: &Uid) -> Vec<Draft> {
    let mut drafts: Vec<Draft> = FILES.read(dir, cluster).unwrap_or_default();
    drafts.retain(Draft::is_sound);
    drafts.drain(..drafts.len().saturating_sub(MAX_DRAFTS));
    drafts
}

/// Returns the draft of one object, if there is one.
pub fn read_one(dir: &Path, cluster: &Uid, key: &DraftKey) -> Option<Draft> {
    read(dir, cluster).into_iter().find(|draft| draft.key == *key)
}

/// Saves a draft and replaces an earlier one of the same object. A draft over the size limit is an error.
pub fn keep(dir: &Path, cluster: &Uid, mut draft: Draft) -> std::io::Result<()> {
    if let Some(metadata) = draft.base.get_mut("metadata").and_then(Value::as_object_mut) {
        // The merge does not use them.
        metadata.remove("managedFields");
    }
    if !draft.is_sound() || serde_json::to_vec(&draft.base)?.len() > MAX_TEXT_BYTES {
        let text = format!("the unsaved edit of {} is too long to save", draft.key.describe());
        return Err(std::io::Error::new(std::io::ErrorKind::FileTooLarge, text));
    }
    let mut drafts = read(dir, cluster);
    drafts.retain(|other| other.key != draft.key);
    drafts.push(draft);
    drafts.drain(..drafts.len().saturating_sub(MAX_DRAFTS));
    write(dir, cluster, &drafts)
}

/// Removes the draft of an object after it was saved or discarded.
pub fn forget(dir: &Path, cluster: &Uid, key: &DraftKey) -> std::io::Result<()> {
    let mut drafts = read(dir, cluster);
    let before = drafts.len();
    drafts.retain(|draft| draft.key != *key);
    if drafts.len() == before { Ok(()) } else { write(dir, cluster, &drafts) }
}

fn write(dir: &Path, cluster: &Uid, drafts: &[Draft]) -> std::io::Result<()> {
    if drafts.is_empty() { FILES.remove(dir, cluster) } else { FILES.write(dir, cluster, &drafts) }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use serde_json::json;

    use super::*;

    fn draft(plural: &str, name: &str, text: &str) -> Draft {
        let key = DraftKey {
            group: String::new(),
            plural: plural.into(),
            namespace: Some("default".into()),
            name: name.into(),
        };
        let base = json!({"metadata": {"name": name, "uid": "u1", "managedFields": [{"manager": "x"}]}});
        Draft { key, at: "2026-05-01T14:03:00Z".parse().unwrap(), text: text.into(), base }
    }

    #[test]
    fn a_draft_is_private_to_its_owner_until_it_is_removed_con_17() {
        let dir = tempfile::tempdir().unwrap();
        let cluster = Uid::from("../c1");
        keep(dir.path(), &cluster, draft("pods", "web", "a")).unwrap();
        keep(dir.path(), &cluster, draft("pods", "api", "b")).unwrap();
        keep(dir.path(), &cluster, draft("pods", "web", "c")).unwrap();
        let texts: Vec<String> = read(dir.path(), &cluster).into_iter().map(|draft| draft.text).collect();
        assert_eq!(texts, ["b", "c"], "one of each object");
        let file = dir.path().join("drafts/c1.json");
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        let web = draft("pods", "web", "").key;
        let saved = read_one(dir.path(), &cluster, &web).unwrap();
        assert_eq!((saved.text.as_str(), saved.uid()), ("c", Some("u1")));
        assert!(read_one(dir.path(), &Uid::from("other"), &web).is_none());
        forget(dir.path(), &cluster, &web).unwrap();
        forget(dir.path(), &cluster, &web).unwrap();
        assert!(read_one(dir.path(), &cluster, &web).is_none());
        forget(dir.path(), &cluster, &draft("pods", "api", "").key).unwrap();
        assert!(!file.exists(), "nothing is left");
    }

    #[test]
    fn drafts_are_bounded_and_never_of_secrets_con_17() {
        let dir = tempfile::tempdir().unwrap();
        let cluster = Uid::from("c1");
        for n in 0..MAX_DRAFTS + 3 {
            keep(dir.path(), &cluster, draft("pods", &format!("p{n}"), "x")).unwrap();
        }
        let saved = read(dir.path(), &cluster);
        assert_eq!((saved.len(), saved[0].key.name.as_str()), (MAX_DRAFTS, "p3"), "the oldest go");
        let long = keep(dir.path(), &cluster, draft("pods", "long", &"x".repeat(MAX_TEXT_BYTES + 1)));
        assert!(long.unwrap_err().to_string().contains("pods default/long is too long"));
        keep(dir.path(), &cluster, draft("secrets", "token", "password")).unwrap_err();
        let file = dir.path().join("drafts/c1.json");
        assert!(!std::fs::read_to_string(&file).unwrap().contains("password"));
        // Drafts of Secrets are not read from a foreign file either.
        let foreign =
            serde_json::to_vec(&[draft("secrets", "token", "x"), draft("pods", "ok", "y")]).unwrap();
        std::fs::write(&file, foreign).unwrap();
        assert_eq!(read(dir.path(), &cluster).len(), 1);
        for text in ["", "{}", "[7]", "[{\"key\":{}}]", "not JSON \u{1b}[2J"] {
            std::fs::write(&file, text).unwrap();
            assert_eq!(read(dir.path(), &cluster), Vec::new(), "{text:?}");
        }
        std::fs::remove_file(&file).unwrap();
        std::fs::create_dir(&file).unwrap();
        assert_eq!(read(dir.path(), &cluster), Vec::new());
    }
}
