//! Detects when a user's extension file changes, appears or disappears, and reloads the files.
//!
//! It polls on purpose: editors replace files, and directories may appear later, which inotify watches would have to
//! follow.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tokio::sync::mpsc;

use base::clock::Clock;
use base::sort::SliceOrder;
use console_data::extensions::{DIRECTORIES, Extensions, FILES, Sources};
use console_data::message::Message;

/// The polling interval.
const EVERY: Duration = Duration::from_secs(2);
/// The maximum number of entries examined in a directory.
const ENTRIES: usize = 1_000;

/// Identifies the versions of the files: path, modification time, and length.
type FileStamps = Vec<(PathBuf, Option<SystemTime>, u64)>;

/// Sends the content of the files after each change, until the loop ends.
pub(crate) async fn follow(sources: Sources, clock: Clock, messages: mpsc::Sender<Message>) {
    if sources.0.is_empty() {
        return;
    }
    let mut known = None;
    loop {
        let (looked_at, before) = (sources.clone(), known.clone());
        let seen = base::task::blocking(move || {
            let now = stamp(&looked_at);
            let changed = before.is_some_and(|before| before != now);
            (changed.then(|| Extensions::read(&looked_at)), now)
        });
        let Ok((read, now)) = seen.await else { return };
        known = Some(now);
        if let Some(read) = read
            && messages.send(Message::Extensions(read)).await.is_err()
        {
            return;
        }
        clock.sleep(EVERY).await;
    }
}

fn stamp(sources: &Sources) -> FileStamps {
    let mut stamp = Vec::new();
    for dir in &sources.0 {
        for name in FILES {
            note(&dir.join(name), &mut stamp);
        }
        for name in DIRECTORIES {
            let mut open = vec![dir.join(name)];
            let mut left = ENTRIES;
            while let Some(dir) = open.pop() {
                let Ok(entries) = std::fs::read_dir(dir) else { continue };
                for entry in entries.flatten().take(left) {
                    left -= 1;
                    note(&entry.path(), &mut stamp);
                    if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                        open.push(entry.path());
                    }
                }
            }
        }
    }
    stamp.order();
    stamp
}

fn note(path: &Path, stamp: &mut FileStamps) {
    if let Ok(meta) = std::fs::metadata(path) {
        stamp.push((path.to_owned(), meta.modified().ok(), meta.len()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the names of the aliases in the next message.
    async fn aliases(messages: &mut mpsc::Receiver<Message>) -> Vec<String> {
        match messages.recv().await.expect("it goes on") {
            Message::Extensions(read) => read.aliases().keys().cloned().collect(),
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_file_that_changes_comes_or_goes_is_read_again_con_16() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("aliases.yaml");
        let (sender, mut messages) = mpsc::channel(4);
        let following = tokio::spawn(follow(Sources(vec![dir.path().to_owned()]), Clock::machine(), sender));
        // Before its first look, nothing counts as a change.
        let mut name = String::from("a");
        let read = loop {
            std::fs::write(&path, format!("aliases: {{{name}: pods}}\n")).unwrap();
            tokio::select! {
                read = aliases(&mut messages) => break read,
                () = tokio::time::sleep(EVERY) => name.push('a'),
            }
            assert!(name.len() < 1_000, "it never sees a change");
        };
        assert!(read.len() == 1 && read[0].starts_with('a'), "{read:?}");
        std::fs::remove_file(&path).unwrap();
        while !aliases(&mut messages).await.is_empty() {}
        // Files below a new directory are detected as well.
        std::fs::create_dir_all(dir.path().join("plugins/mine")).unwrap();
        std::fs::write(dir.path().join("plugins/mine/x.yaml"), "command: [").unwrap();
        loop {
            let Some(Message::Extensions(read)) = messages.recv().await else { panic!("it goes on") };
            if read.errors().iter().any(|error| error.contains("x.yaml:1:")) {
                break;
            }
        }
        drop(messages);
        std::fs::write(&path, "aliases: {b: pods}\n").unwrap();
        following.await.expect("it ends with the loop");
    }
}
