//! Writes the journal of a node host: appends each entry, and rewrites the file when much of it is outdated.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::{Entry, JOURNAL};

/// A journal is rewritten once it has grown by this much, and to twice its size.
const GROWTH_BYTES: u64 = 1 << 20;

/// The journal of this host.
pub(crate) struct Journal {
    path: PathBuf,
    file: File,
    size_bytes: u64,
    /// The journal's size after the last rewrite, in bytes.
    compact_bytes: u64,
    /// An entry could not be written, or not all of it: the journal must be rewritten.
    behind: bool,
}

impl Journal {
    /// Replaces the journal by a new one; a reader sees the old or the new one.
    pub(crate) fn write<'a>(
        directory: &Path,
        entries: impl IntoIterator<Item = Entry<'a>>,
    ) -> io::Result<Self> {
        let path = directory.join(JOURNAL);
        let fresh = path.with_extension("new");
        let mut text = Vec::new();
        for entry in entries {
            line(&mut text, &entry)?;
        }
        // An unfinished file of an earlier host may be readable for other users.
        let _ = fs::remove_file(&fresh);
        let mut file = File::options().create_new(true).append(true).mode(0o600).open(&fresh)?;
        file.write_all(&text)?;
        fs::rename(&fresh, &path)?;
        let size_bytes = text.len() as u64;
        Ok(Self { path, file, size_bytes, compact_bytes: size_bytes, behind: false })
    }

    /// Appends an entry; returns false if the journal should be rewritten, now that the entry is in effect.
    pub(crate) fn append(&mut self, entry: &Entry<'_>) -> bool {
        // A line end separates the new entry from the incomplete one before it.
        let mut text = if self.behind { vec![b'\n'] } else { Vec::new() };
        let written = line(&mut text, entry).and_then(|()| self.file.write_all(&text));
        if let Err(error) = written {
            eprintln!("{}: {error}", self.path.display());
            self.behind = true;
        }
        self.size_bytes += text.len() as u64;
        !self.behind && self.size_bytes < 2 * self.compact_bytes + GROWTH_BYTES
    }
}

fn line(text: &mut Vec<u8>, entry: &Entry<'_>) -> io::Result<()> {
    serde_json::to_writer(&mut *text, entry)?;
    text.push(b'\n');
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use serde_json::{Value, json};

    use super::*;
    use crate::journal::{self, JournaledPods};

    /// A sandbox as the journal records it.
    fn sandbox(uid: &str) -> Value {
        json!({"spec": {"pod_uid": uid, "namespace": "shop", "name": uid, "hostname": uid, "ip": "127.0.0.9",
            "share_process_namespace": false, "resolv_conf": null, "hosts": null},
            "created_at": "2026-11-21T03:27:14Z"})
    }

    fn container(uid: &str, id: &str, second: u8) -> Value {
        json!({
            "record": {"id": id, "name": "main", "attempt": 0, "image": "i", "image_id": "", "pid": 7,
                "started_at": format!("2026-11-21T03:27:{second:02}Z"), "exit": null},
            "launch": {"image_id": "", "argv": ["sleep"], "image_env": [], "working_dir": "/", "user": null,
                "stop_signal": 15, "programs": [], "directories": [], "host_view": false,
                "spec": {"pod_uid": uid, "name": "main", "attempt": 0, "image": "i", "command": [], "args": [],
                    "env": [], "working_dir": null, "mounts": [], "stdin": false, "stdin_once": false,
                    "tty": false, "memory_limit_bytes": null, "cpu_limit_millicores": null,
                    "run_as_user": null, "run_as_group": null, "target": null,
                    "termination_message_path": "/dev/termination-log"}}})
    }

    fn entry(value: Value) -> Entry<'static> {
        serde_json::from_value(value).unwrap()
    }

    fn sandbox_entry(uid: &str) -> Entry<'static> {
        entry(json!({"Sandbox": sandbox(uid)}))
    }

    fn started(uid: &str, id: &str, second: u8) -> Entry<'static> {
        let mut value = container(uid, id, second);
        value["pod"] = uid.into();
        entry(json!({"Container": value}))
    }

    fn ended(id: &str) -> Entry<'static> {
        let exit = json!({"exit_code": 3, "signal": null, "oom_killed": false, "message": null,
            "finished_at": "2026-11-21T03:28:00Z"});
        entry(json!({"Exit": {"id": id, "exit": exit}}))
    }

    /// Formats the journal as `uid: id, id(exit code)` for each pod.
    fn describe(journaled: &JournaledPods) -> Vec<String> {
        let container = |known: &journal::JournaledContainer| match &known.record.exit {
            Some(exit) => format!("{}({})", known.record.id.0, exit.exit_code),
            None => known.record.id.0.clone(),
        };
        let pod = |(uid, pod): (&String, &journal::JournaledPod)| {
            format!("{uid}: {}", pod.containers.iter().map(container).collect::<Vec<_>>().join(", "))
        };
        journaled.iter().map(pod).collect()
    }

    /// SAFE-7: the next host reads every written entry, even beside a torn line.
    #[test]
    fn written_entries_are_read_and_torn_lines_are_not() {
        let directory = tempfile::tempdir().unwrap();
        let mut journal = Journal::write(directory.path(), [sandbox_entry("a")]).unwrap();
        for entry in
            [started("a", "2", 20), started("a", "1", 10), sandbox_entry("b"), ended("1"), sandbox_entry("a")]
        {
            assert!(journal.append(&entry), "not yet to be written anew");
        }
        assert_eq!(
            describe(&journal::read(directory.path())),
            ["a: 1(3), 2", "b: "],
            "oldest first; ended ones stay"
        );

        let mut file = File::options().append(true).open(directory.path().join(JOURNAL)).unwrap();
        file.write_all(br#"{"Exit":{"id":"2","exit":{"exit_co"#).unwrap();
        assert_eq!(describe(&journal::read(directory.path())), ["a: 1(3), 2", "b: "]);
        journal.behind = true;
        assert!(!journal.append(&entry(json!({"SandboxGone": "b"}))), "to be written anew");
        assert_eq!(
            describe(&journal::read(directory.path())),
            ["a: 1(3), 2"],
            "a line after a torn one is one of its own"
        );
        journal.append(&entry(json!({"ContainerGone": "1"})));
        assert_eq!(describe(&journal::read(directory.path())), ["a: 2"]);
    }

    /// SAFE-7, IMG-3: a container's root was one directory up to protocol 4.
    #[test]
    fn a_root_of_an_earlier_host_version_is_one_layer() {
        for (root, expect) in
            [(json!("/store/sha256-1/rootfs"), vec!["/store/sha256-1/rootfs"]), (Value::Null, vec![])]
        {
            let mut value = container("a", "1", 10);
            value["launch"]["image_root"] = root;
            value["pod"] = "a".into();
            let directory = tempfile::tempdir().unwrap();
            Journal::write(directory.path(), [sandbox_entry("a"), entry(json!({"Container": value}))])
                .unwrap();
            let pods = journal::read(directory.path());
            let layers = &pods["a"].containers[0].launch.image_layers;
            assert_eq!(*layers, expect.into_iter().map(std::path::PathBuf::from).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_journal_is_rewritten_when_most_of_it_is_history() {
        let directory = tempfile::tempdir().unwrap();
        let mut journal = Journal::write(directory.path(), [sandbox_entry("a")]).unwrap();
        let lines = (1..100_000).find(|_| !journal.append(&ended("none"))).unwrap();
        assert!(lines > 1000 && journal.size_bytes > GROWTH_BYTES, "{lines}");
        let journal = Journal::write(directory.path(), [sandbox_entry("a")]).unwrap();
        assert_eq!(directory.path().join(JOURNAL).metadata().unwrap().len(), journal.size_bytes);
        assert_eq!(describe(&journal::read(directory.path())), ["a: "]);
    }

    /// SAFE-7: a host of protocol 2 died, and then this version came.
    #[test]
    fn records_of_an_earlier_host_version_are_taken_over() {
        let directory = tempfile::tempdir().unwrap();
        let node = directory.path();
        let old = node.join("pods/a");
        fs::create_dir_all(old.join("1")).unwrap();
        fs::create_dir_all(old.join("volumes/data")).unwrap();
        fs::write(old.join("sandbox.json"), sandbox("a").to_string()).unwrap();
        fs::write(old.join("1/record.json"), container("a", "1", 10).to_string()).unwrap();
        fs::write(old.join("1/log"), "said").unwrap();
        fs::create_dir(node.join("pods/torn")).unwrap();
        fs::write(node.join("pods/torn/sandbox.json"), "{").unwrap();
        assert_eq!(describe(&journal::read(node)), ["a: 1"]);

        Journal::write(node, [sandbox_entry("a"), started("a", "1", 10)]).unwrap();
        assert_eq!(describe(&journal::read(node)), ["a: 1"], "known twice for a moment");
        let id = crate::ContainerId("1".to_owned());
        journal::migrate(node, &"a".to_owned(), std::slice::from_ref(&id));
        assert_eq!(describe(&journal::read(node)), ["a: 1"]);
        assert_eq!(fs::read_to_string(journal::container_dir(node, &id).join("log")).unwrap(), "said");
        assert!(old.join("volumes/data").is_dir() && !old.join("1").exists());
        fs::remove_file(node.join(JOURNAL)).unwrap();
        assert_eq!(journal::read(node).len(), 0, "nothing of the old is read again");
    }
}
