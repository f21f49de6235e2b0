//! The journal on disk: one JSON document per line, in one file per cluster, readable only by its owner (CON-17).
//!
//! For changes of Secrets only the title is written: neither their data nor a command that contains it. An unreadable
//! line is skipped: the journal is for people, and an older or newer console may have written it.

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use kube::api::PropagationPolicy;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Entry, UndoState};
use crate::action::{Action, EntryId, Mutation, Outcome, PatchKind, delete_params};
use crate::resource::{Kind, KindFacts, ObjectRef, ResourceKey, Uid};

/// The maximum number of lines that are read, and that remain when a file is shortened.
const MAX_LINES: usize = 1_000;
/// The size in bytes from which a file is shortened when it is read.
const SHORTEN_BYTES: u64 = 4 << 20;
/// The size in bytes above which a file is not read: the console never writes one.
const MAX_FILE_BYTES: u64 = 64 << 20;
/// The length in bytes above which a line is written without its undo.
const MAX_LINE_BYTES: usize = 256 << 10;

/// The subresources that a change may concern. A mutation has `&'static str` names, so a name read from a file is
/// looked up here.
const SUBRESOURCES: [&str; 3] = ["ephemeralcontainers", "scale", "status"];

#[derive(Serialize, Deserialize)]
struct SavedEntry {
    key: String,
    at: Timestamp,
    action: SavedAction,
    error: Option<String>,
    after: Option<Value>,
    undoes: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct SavedAction {
    title: String,
    kubectl: String,
    target: SavedRef,
    mutation: Option<SavedMutation>,
    inverse: Option<Box<SavedAction>>,
}

#[derive(Serialize, Deserialize)]
struct SavedRef {
    group: String,
    version: String,
    plural: String,
    kind: String,
    singular: String,
    namespaced: bool,
    namespace: Option<String>,
    name: String,
    uid: Option<String>,
}

#[derive(Serialize, Deserialize)]
enum SavedMutation {
    Patch { target: SavedRef, subresource: Option<String>, kind: PatchKind, body: Value },
    Replace { target: SavedRef, body: Value },
    Create { target: SavedRef, body: Value },
    Apply { target: SavedRef, body: Value, force: bool },
    Delete { target: SavedRef, grace_seconds: Option<u32>, policy: Option<String> },
    All(Vec<SavedMutation>),
}

/// Formats an entry as a line with its line end.
pub(crate) fn line(entry: &Entry, undoes: Option<&str>) -> String {
    let whole = SavedEntry {
        key: entry.key.clone(),
        at: entry.at,
        action: keep(&entry.outcome.action),
        error: entry.outcome.error.clone(),
        after: entry.outcome.after.clone().filter(|_| !touches_secrets(&entry.outcome.action)),
        undoes: undoes.map(ToOwned::to_owned),
    };
    let mut text = serde_json::to_string(&whole).expect("an entry is JSON");
    if text.len() > MAX_LINE_BYTES {
        let target = keep_ref(&entry.outcome.action.target);
        let title: String = whole.action.title.chars().take(500).collect();
        let short = SavedAction { title, kubectl: String::new(), target, mutation: None, inverse: None };
        let error = whole.error.map(|error| error.chars().take(2_000).collect());
        let short = SavedEntry { action: short, error, after: None, ..whole };
        text = serde_json::to_string(&short).expect("an entry is JSON");
    }
    text.push('\n');
    text
}

/// Parses a file's entries, oldest first, and marks the entries that were undone.
fn entries(text: &str) -> Vec<Entry> {
    let lines: Vec<&str> = text.lines().collect();
    let mut entries: Vec<Entry> = Vec::new();
    for line in &lines[lines.len().saturating_sub(MAX_LINES)..] {
        let Ok(saved) = base::json::from_str::<SavedEntry>(line) else { continue };
        if let Some(undone) = saved.undoes.as_deref().filter(|_| saved.error.is_none())
            && let Some(entry) = entries.iter_mut().find(|entry| entry.key == undone)
        {
            entry.undo_state = UndoState::Undone;
        }
        let action = take(saved.action);
        let action = Action { undoes: saved.undoes.as_ref().map(|_| EntryId::NONE), ..action };
        entries.push(Entry {
            id: EntryId::NONE,
            key: saved.key,
            at: saved.at,
            outcome: Outcome { action, error: saved.error, after: saved.after },
            undo_state: UndoState::InEffect,
            earlier: true,
        });
    }
    entries
}

/// Returns the path of a cluster's journal; the name comes from the uid, which is unique.
fn path(dir: &Path, cluster: &Uid) -> PathBuf {
    let name: String =
        cluster.as_str().chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').take(64).collect();
    dir.join("journal").join(format!("{name}.jsonl"))
}

/// Reads the entries of earlier runs for a cluster, oldest first; empty if there is no file or it is unreadable.
pub fn read(dir: &Path, cluster: &Uid) -> Vec<Entry> {
    let path = path(dir, cluster);
    let Ok(length) = std::fs::metadata(&path).map(|file| file.len()) else { return Vec::new() };
    if length > MAX_FILE_BYTES {
        tracing::warn!(path = %path.display(), length, "the console's journal is too long to read");
        return Vec::new();
    }
    let Ok(text) = std::fs::read(&path) else { return Vec::new() };
    let text = String::from_utf8_lossy(&text);
    if length > SHORTEN_BYTES
        && let Err(error) = shorten(&path, &text)
    {
        tracing::warn!(path = %path.display(), %error, "cannot shorten the console's journal");
    }
    entries(&text)
}

/// Shortens a file to the last half of its limit, atomically.
fn shorten(path: &Path, text: &str) -> std::io::Result<()> {
    let mut retained: Vec<&str> = Vec::new();
    let mut length = 0;
    for line in text.lines().rev().take(MAX_LINES) {
        length += line.len() as u64;
        if length > SHORTEN_BYTES / 2 {
            break;
        }
        retained.push(line);
    }
    let beside = path.with_extension(format!("{}.tmp", std::process::id()));
    let mut file = owners_alone().write(true).create(true).truncate(true).open(&beside)?;
    for line in retained.iter().rev() {
        writeln!(file, "{line}")?;
    }
    std::fs::rename(&beside, path).inspect_err(|_| drop(std::fs::remove_file(&beside)))
}

/// Appends lines with one write call, so that two consoles do not interleave theirs.
pub fn append(dir: &Path, cluster: &Uid, lines: &str) -> std::io::Result<()> {
    let path = path(dir, cluster);
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent)?;
    }
    let mut file = owners_alone().append(true).create(true).open(&path)?;
    file.write_all(lines.as_bytes())
}

fn owners_alone() -> std::fs::OpenOptions {
    let mut options = std::fs::OpenOptions::new();
    options.mode(0o600);
    options
}

fn is_secret(target: &ObjectRef) -> bool {
    target.kind.resource.group.is_empty() && target.kind.resource.plural == "secrets"
}

/// Reports whether an action changes a Secret: a manifest may contain one beside other objects.
fn touches_secrets(action: &Action) -> bool {
    fn has(mutation: &Mutation) -> bool {
        match mutation {
            Mutation::Patch { target, .. }
            | Mutation::Replace { target, .. }
            | Mutation::Create { target, .. }
            | Mutation::Apply { target, .. }
            | Mutation::Delete { target, .. }
            | Mutation::Evict { target, .. }
            | Mutation::Step { target, .. }
            | Mutation::PullImage { node: target, .. }
            | Mutation::RemoveImage { node: target, .. } => is_secret(target),
            Mutation::All(all) => all.iter().any(has),
        }
    }
    is_secret(&action.target) || has(&action.mutation)
}

fn keep(action: &Action) -> SavedAction {
    let target = keep_ref(&action.target);
    if touches_secrets(action) {
        let title = action.title.clone();
        return SavedAction { title, kubectl: String::new(), target, mutation: None, inverse: None };
    }
    SavedAction {
        title: action.title.clone(),
        kubectl: action.kubectl.clone(),
        target,
        mutation: keep_mutation(&action.mutation),
        inverse: action.inverse.as_ref().map(|inverse| Box::new(keep(inverse))),
    }
}

fn keep_ref(target: &ObjectRef) -> SavedRef {
    let kind = &target.kind;
    SavedRef {
        group: kind.resource.group.to_string(),
        version: kind.resource.version.to_string(),
        plural: kind.resource.plural.to_string(),
        kind: kind.kind.clone(),
        singular: kind.singular.clone(),
        namespaced: kind.namespaced,
        namespace: target.namespace.clone(),
        name: target.name.clone(),
        uid: target.uid.as_ref().map(ToString::to_string),
    }
}

/// Returns the form of a mutation on disk; `None` for mutations that are never undone.
fn keep_mutation(mutation: &Mutation) -> Option<SavedMutation> {
    Some(match mutation {
        Mutation::Patch { target, subresource, kind, body } => SavedMutation::Patch {
            target: keep_ref(target),
            subresource: subresource.map(ToOwned::to_owned),
            kind: *kind,
            body: body.clone(),
        },
        Mutation::Replace { target, body } => {
            SavedMutation::Replace { target: keep_ref(target), body: body.clone() }
        }
        Mutation::Create { target, body } => {
            SavedMutation::Create { target: keep_ref(target), body: body.clone() }
        }
        Mutation::Apply { target, body, force } => {
            SavedMutation::Apply { target: keep_ref(target), body: body.clone(), force: *force }
        }
        Mutation::Delete { target, params } => SavedMutation::Delete {
            target: keep_ref(target),
            grace_seconds: params.grace_period_seconds,
            policy: params.propagation_policy.as_ref().map(|policy| format!("{policy:?}")),
        },
        Mutation::Evict { .. }
        | Mutation::Step { .. }
        | Mutation::PullImage { .. }
        | Mutation::RemoveImage { .. } => return None,
        Mutation::All(all) => SavedMutation::All(all.iter().map(keep_mutation).collect::<Option<_>>()?),
    })
}

/// Restores the action of a line. An action has no undo if its change cannot be repeated.
fn take(saved: SavedAction) -> Action {
    let target = take_ref(saved.target);
    let inverse = saved.inverse.and_then(|inverse| {
        let can = inverse.mutation.is_some();
        let inverse = take(*inverse);
        (can && !matches!(&inverse.mutation, Mutation::All(all) if all.is_empty())).then(|| Box::new(inverse))
    });
    let mutation = saved.mutation.and_then(take_mutation);
    // Without the mutation the action cannot be repeated: the entry is for display only.
    let inverse = inverse.filter(|_| mutation.is_some());
    let mutation = mutation.unwrap_or_else(Mutation::nothing);
    Action { inverse, ..Action::new(&target, saved.title, saved.kubectl, mutation) }
}

fn take_ref(saved: SavedRef) -> ObjectRef {
    let kind = Kind::new(KindFacts {
        resource: ResourceKey {
            group: saved.group.into(),
            version: saved.version.into(),
            plural: saved.plural.into(),
        },
        kind: saved.kind,
        singular: saved.singular,
        namespaced: saved.namespaced,
        short_names: Vec::new(),
        verbs: std::collections::BTreeSet::new(),
        subresources: std::collections::BTreeMap::new(),
    });
    ObjectRef {
        kind,
        namespace: saved.namespace,
        name: saved.name,
        uid: saved.uid.map(|uid| Uid::from(uid.as_str())),
    }
}

fn take_mutation(saved: SavedMutation) -> Option<Mutation> {
    Some(match saved {
        SavedMutation::Patch { target, subresource, kind, body } => Mutation::Patch {
            target: take_ref(target),
            subresource: match subresource {
                Some(name) => Some(*SUBRESOURCES.iter().find(|known| **known == name)?),
                None => None,
            },
            kind,
            body,
        },
        SavedMutation::Replace { target, body } => Mutation::Replace { target: take_ref(target), body },
        SavedMutation::Create { target, body } => Mutation::Create { target: take_ref(target), body },
        SavedMutation::Apply { target, body, force } => {
            Mutation::Apply { target: take_ref(target), body, force }
        }
        SavedMutation::Delete { target, grace_seconds, policy } => {
            let target = take_ref(target);
            let policy = match policy.as_deref() {
                // Earlier consoles saved none; the server would orphan the dependents of a Job.
                None | Some("Background") => Some(PropagationPolicy::Background),
                Some("Foreground") => Some(PropagationPolicy::Foreground),
                Some("Orphan") => Some(PropagationPolicy::Orphan),
                Some(_) => return None,
            };
            let params = delete_params(&target, grace_seconds, policy);
            Mutation::Delete { target, params }
        }
        SavedMutation::All(all) => {
            Mutation::All(all.into_iter().map(take_mutation).collect::<Option<Vec<_>>>()?)
        }
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::journal::Journal;
    use serde_json::json;

    fn deployment(name: &str) -> ObjectRef {
        ObjectRef {
            kind: crate::builtin_kinds::kind::<k8s_openapi::api::apps::v1::Deployment>(),
            namespace: Some("default".to_owned()),
            name: name.to_owned(),
            uid: Some(Uid::from("u1")),
        }
    }

    /// A change with this title, and the one that undoes it.
    fn patch(
        target: &ObjectRef,
        title: String,
        subresource: Option<&'static str>,
        body: Value,
        inverse: Option<Action>,
    ) -> Action {
        let mutation = Mutation::Patch { target: target.clone(), subresource, kind: PatchKind::Merge, body };
        let kubectl = format!("kubectl {title}");
        Action::new(target, title, kubectl, mutation).undone_by(inverse)
    }

    fn scale(target: &ObjectRef, from: i32, to: i32) -> Action {
        let change = |from: i32, to: i32, inverse: Option<Action>| {
            let title = format!("scale {} {from} → {to}", target.describe());
            patch(target, title, Some("scale"), json!({"spec": {"replicas": to}}), inverse)
        };
        change(from, to, Some(change(to, from, None)))
    }

    fn cordon(node: &ObjectRef) -> Action {
        let change = |verb: &str, value: Value, inverse: Option<Action>| {
            let title = format!("{verb} {}", node.describe());
            patch(node, title, None, json!({"spec": {"unschedulable": value}}), inverse)
        };
        change("cordon", json!(true), Some(change("uncordon", json!(null), None)))
    }

    fn done(action: Action) -> Outcome {
        Outcome { action, error: None, after: Some(serde_json::json!({"spec": {"replicas": 3}})) }
    }

    /// The journal survives a restart, and its entries can be undone in the next run.
    #[test]
    fn the_journal_survives_a_restart_con_17() {
        let dir = tempfile::tempdir().unwrap();
        let cluster = Uid::from("../0c/ff-1");
        let mut journal = Journal::default();
        let at = Timestamp::from_second(1_000).unwrap();
        for action in
            [scale(&deployment("web"), 1, 3), cordon(&ObjectRef { namespace: None, ..deployment("node-1") })]
        {
            let line = journal.record(at, done(action));
            append(dir.path(), &cluster, &line).unwrap();
        }
        let back = journal.undo(journal.entries()[0].id).unwrap();
        append(dir.path(), &cluster, &journal.record(at, Outcome { after: None, ..done(back) })).unwrap();

        let file = dir.path().join("journal/0cff-1.jsonl");
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        let mut next = Journal::default();
        next.recall(read(dir.path(), &cluster));
        let entries: Vec<_> = next
            .entries()
            .iter()
            .map(|entry| (entry.outcome.action.title.as_str(), entry.undo_state))
            .collect();
        assert_eq!(
            entries,
            [
                ("scale Deployment default/web 1 → 3", UndoState::Undone),
                ("cordon Deployment node-1", UndoState::InEffect),
                ("scale Deployment default/web 3 → 1", UndoState::InEffect),
            ]
        );
        for (was, is) in journal.entries().iter().zip(next.entries()) {
            assert_eq!(format!("{:?}", was.outcome.after), format!("{:?}", is.outcome.after));
            assert_eq!(was.inverse().map(|one| one.kubectl), is.inverse().map(|one| one.kubectl));
            let [was, is] =
                [was, is].map(|entry| entry.inverse().ok().map(|one| format!("{:?}", one.mutation)));
            let facts =
                |text: Option<String>| text.map(|text| text.split("KindFacts").next().map(str::to_owned));
            assert_eq!(facts(was), facts(is));
        }
        // From there on it behaves as in a single run.
        let again = next.undo(next.entries()[1].id).unwrap();
        append(dir.path(), &cluster, &next.record(at, done(again))).unwrap();
        let third = read(dir.path(), &cluster);
        assert_eq!(third[1].undo_state, UndoState::Undone);
        assert!(read(dir.path(), &Uid::from("other")).is_empty(), "another cluster has its own");
    }

    #[test]
    fn a_line_of_an_earlier_console_is_read_and_written_unchanged_con_17() {
        let target = r#"{"group":"apps","version":"v1","plural":"deployments","kind":"Deployment","singular":"deployment","namespaced":true,"namespace":"default","name":"web","uid":"u1"}"#;
        let earlier = [
            r#"{"key":"1000-0000002a","at":"1970-01-01T00:00:01Z","#,
            r#""action":{"title":"scale web 1 → 3","kubectl":"kubectl scale","target":TARGET,"#,
            r#""mutation":{"Patch":{"target":TARGET,"subresource":"scale","kind":"Merge","body":{"a":[1]}}},"#,
            r#""inverse":{"title":"delete web","kubectl":"kubectl delete","target":TARGET,"#,
            r#""mutation":{"All":[{"Delete":{"target":TARGET,"grace_seconds":null,"policy":"Background"}}]},"#,
            r#""inverse":null}},"error":null,"after":{"b":null},"undoes":null}"#,
        ];
        let earlier = earlier.concat().replace("TARGET", target) + "\n";
        let read = entries(&earlier);
        assert!(read[0].inverse().is_ok());
        assert_eq!(line(&read[0], None), earlier);

        let without_policy = earlier.replace(r#""policy":"Background""#, r#""policy":null"#);
        assert_ne!(without_policy, earlier);
        assert_eq!(line(&entries(&without_policy)[0], None), earlier, "dependents are deleted");
    }

    #[test]
    fn a_journal_holds_no_secret_and_survives_what_is_not_its_own_con_17() {
        let mut journal = Journal::default();
        let mut target = deployment("token");
        target.kind = Kind::new(KindFacts {
            resource: ResourceKey { group: "".into(), version: "v1".into(), plural: "secrets".into() },
            ..(*target.kind).clone()
        });
        let mut action = scale(&target, 1, 3);
        action.kubectl = "kubectl patch -p hunter2".into();
        let at = Timestamp::UNIX_EPOCH;
        let outcome = Outcome { after: Some(serde_json::json!({"data": "hunter2"})), ..done(action) };
        let line = journal.record(at, outcome);
        assert!(!line.contains("hunter2") && !line.contains("replicas"), "{line}");
        let mut next = Journal::default();
        next.recall(entries(&format!("{{ half\n\n{line}nonsense\n{{\"key\": 1}}\n")));
        assert_eq!(next.entries().len(), 1);
        assert!(next.entries()[0].inverse().is_err(), "the entry is listed, but cannot be undone");
        let mut huge = scale(&deployment("web"), 1, 3);
        huge.kubectl = "x".repeat(MAX_LINE_BYTES);
        let line = journal.record(at, done(huge));
        assert!(line.len() < 4_096, "{}", line.len());
        assert_eq!(entries(&line).len(), 1);
        let many = line.repeat(MAX_LINES + 10);
        assert_eq!(entries(&many).len(), MAX_LINES);
        let dir = tempfile::tempdir().unwrap();
        let cluster = Uid::from("c");
        append(dir.path(), &cluster, &line.repeat(SHORTEN_BYTES as usize / line.len() + 10)).unwrap();
        assert_eq!(read(dir.path(), &cluster).len(), MAX_LINES);
        assert!(std::fs::metadata(path(dir.path(), &cluster)).unwrap().len() <= SHORTEN_BYTES / 2);
        assert_eq!(std::fs::read_dir(dir.path().join("journal")).unwrap().count(), 1, "nothing else is left");
    }
}
