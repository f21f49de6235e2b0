//! What was typed into editors and not saved, on disk, so that neither the end of the console nor a crash loses it. It is
//! offered when its object is edited again, and never applied by itself (CON-17). One JSON document for each cluster, for
//! its owner alone, beside the tabs.
//!
//! Secrets are never kept: what is typed into one is likely what must not lie on a disk.
//!
//! What is read is somebody's file, not ours: it is bounded, and what makes no sense in it is left out.

use std::path::Path;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::cluster_file::ClusterFiles;
use super::resource::{ObjectRef, ResourceKey, Uid};

/// Drafts of one cluster; the oldest go.
const MOST: usize = 16;
/// Bytes of a text, and of the version it is based on, as many as an API server takes.
const LONGEST: usize = 1 << 20;
/// Where they are.
const FILES: ClusterFiles =
    ClusterFiles { place: "drafts", longest: (MOST as u64 * 2 + 1) * LONGEST as u64, what: "unsaved edits" };
/// Bytes of a name.
const NAME: usize = 1_024;

/// Whose draft it is: the object by its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DraftKey {
    /// API group of its kind, empty for the core group.
    pub(crate) group: String,
    /// Its plural name in paths.
    pub(crate) plural: String,
    /// Its namespace.
    pub(crate) namespace: Option<String>,
    /// Its name.
    pub(crate) name: String,
}

impl DraftKey {
    /// Of this object.
    pub(crate) fn of(target: &ObjectRef) -> Self {
        Self {
            group: target.kind.resource.group.to_string(),
            plural: target.kind.resource.plural.to_string(),
            namespace: target.namespace.clone(),
            name: target.name.clone(),
        }
    }

    /// `deployments default/web`.
    pub(crate) fn describe(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("{} {namespace}/{}", self.plural, self.name),
            None => format!("{} {}", self.plural, self.name),
        }
    }
}

/// What was typed and not saved.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Draft {
    /// Of what.
    pub(crate) key: DraftKey,
    /// When it was typed last.
    pub(crate) at: Timestamp,
    /// The text.
    pub(crate) text: String,
    /// The version of the object that it is based on, whole: what others changed since is merged with it.
    pub(crate) base: Value,
}

/// Whether what is typed into an object of this kind may lie on a disk.
pub(crate) fn may_be_kept(resource: &ResourceKey) -> bool {
    !(resource.group.is_empty() && resource.plural == "secrets")
}

impl Draft {
    /// The uid of the object that it was typed for.
    pub(crate) fn uid(&self) -> Option<&str> {
        self.base["metadata"]["uid"].as_str()
    }

    /// Whether it makes sense.
    fn is_sound(&self) -> bool {
        let DraftKey { group, plural, namespace, name } = &self.key;
        let named = [group, plural, name].into_iter().chain(namespace).all(|text| text.len() <= NAME);
        let secret = group.is_empty() && plural == "secrets";
        named && !secret && !self.text.is_empty() && self.text.len() <= LONGEST && self.base.is_object()
    }
}

/// The drafts of a cluster, oldest first; none where there is no file, or none that can be read.
pub(crate) fn read(dir: &Path, cluster: &Uid) -> Vec<Draft> {
    let mut drafts: Vec<Draft> = FILES.read(dir, cluster).unwrap_or_default();
    drafts.retain(Draft::is_sound);
    drafts.drain(..drafts.len().saturating_sub(MOST));
    drafts
}

/// The draft of an object.
pub(crate) fn read_one(dir: &Path, cluster: &Uid, key: &DraftKey) -> Option<Draft> {
    read(dir, cluster).into_iter().find(|draft| draft.key == *key)
}

/// Keeps a draft in the place of an earlier one of its object. One that is too long to be kept is an error.
pub(crate) fn keep(dir: &Path, cluster: &Uid, mut draft: Draft) -> std::io::Result<()> {
    if let Some(metadata) = draft.base.get_mut("metadata").and_then(Value::as_object_mut) {
        // Nothing is merged by them.
        metadata.remove("managedFields");
    }
    if !draft.is_sound() || serde_json::to_vec(&draft.base)?.len() > LONGEST {
        let text = format!("the unsaved edit of {} is too long to be kept", draft.key.describe());
        return Err(std::io::Error::new(std::io::ErrorKind::FileTooLarge, text));
    }
    let mut drafts = read(dir, cluster);
    drafts.retain(|other| other.key != draft.key);
    drafts.push(draft);
    drafts.drain(..drafts.len().saturating_sub(MOST));
    write(dir, cluster, &drafts)
}

/// Forgets the draft of an object: it was saved, or is not wanted.
pub(crate) fn forget(dir: &Path, cluster: &Uid, key: &DraftKey) -> std::io::Result<()> {
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
    fn a_draft_is_kept_for_its_owner_alone_until_it_is_forgotten_con_17() {
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
        let kept = read_one(dir.path(), &cluster, &web).unwrap();
        assert_eq!((kept.text.as_str(), kept.uid()), ("c", Some("u1")));
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
        for n in 0..MOST + 3 {
            keep(dir.path(), &cluster, draft("pods", &format!("p{n}"), "x")).unwrap();
        }
        let kept = read(dir.path(), &cluster);
        assert_eq!((kept.len(), kept[0].key.name.as_str()), (MOST, "p3"), "the oldest go");
        let long = keep(dir.path(), &cluster, draft("pods", "long", &"x".repeat(LONGEST + 1)));
        assert!(long.unwrap_err().to_string().contains("pods default/long is too long"));
        keep(dir.path(), &cluster, draft("secrets", "token", "password")).unwrap_err();
        let file = dir.path().join("drafts/c1.json");
        assert!(!std::fs::read_to_string(&file).unwrap().contains("password"));
        // Nor from a file that somebody else wrote.
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
