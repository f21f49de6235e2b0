//! Watches a tree of source files: inotify says that something may have changed, and a reading of the tree says what.
//!
//! Only directories that may contain watched files get a watch of the kernel: a crate that watches recursively would
//! also watch `target` and `node_modules`. Where the kernel's limits are reached, the tree is read again and again.

use std::collections::HashMap;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base::task::blocking;
use parking_lot::Mutex;
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::patterns::WatchRules;
use super::tree::SourceTree;

/// The shortest interval of readings without the kernel's help.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Readings without the kernel's help take at most this part of the time.
const POLL_SHARE: u32 = 20;

/// One watched tree.
#[derive(Clone)]
pub(super) struct SourceWatch(Arc<Inner>);

struct Inner {
    root: PathBuf,
    rules: Mutex<WatchRules>,
    state: Mutex<WatchState>,
    events: Option<AsyncFd<OwnedFd>>,
    /// Notified after each reading: the kernel may watch less or more than before.
    was_read: Notify,
}

#[derive(Default)]
struct WatchState {
    /// Directories by their watches, relative to the root.
    directories: HashMap<i32, PathBuf>,
    /// The kernel watches every directory of the last reading.
    is_complete: bool,
    /// The reason why it does not.
    shortage: Option<Errno>,
    /// The duration of the last reading.
    took: Duration,
}

impl SourceWatch {
    /// Creates a watch, which takes effect with the first [`SourceWatch::read`].
    pub(super) fn new(root: PathBuf, rules: WatchRules) -> Self {
        let created = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK);
        let events = created.ok().and_then(|events| registered(events).ok());
        let was_read = Notify::new();
        Self(Arc::new(Inner { root, rules: Mutex::new(rules), state: Mutex::default(), events, was_read }))
    }

    pub(super) fn root(&self) -> &Path {
        &self.0.root
    }

    /// Ignores one more path, relative to the root.
    pub(super) fn ignore(&self, path: &Path) {
        self.0.rules.lock().ignore(&path.to_string_lossy());
    }

    /// Reads the tree, and watches its directories from before they are read.
    pub(super) async fn read(&self) -> io::Result<SourceTree> {
        let inner = self.0.clone();
        blocking(move || inner.read()).await.map_err(io::Error::other)?
    }

    /// The reason why the kernel does not report changes, so that the tree is polled.
    pub(super) fn shortage(&self) -> Option<String> {
        if self.0.events.is_none() {
            return Some("inotify: too many instances (fs.inotify.max_user_instances)".into());
        }
        let error = self.0.state.lock().shortage?;
        Some(format!("inotify: {error} (fs.inotify.max_user_watches)"))
    }

    /// Completes when a watched file may have changed.
    pub(super) async fn changed(&self) {
        loop {
            let (is_complete, took) = {
                let state = self.0.state.lock();
                (state.is_complete, state.took)
            };
            match self.0.events.as_ref().filter(|_| is_complete) {
                None => {
                    tokio::time::sleep(POLL_INTERVAL.max(took * POLL_SHARE)).await;
                    return;
                }
                Some(events) => tokio::select! {
                    () = self.0.was_read.notified() => {}
                    ready = events.readable() => {
                        let Ok(mut ready) = ready else {
                            // Polls instead.
                            self.0.state.lock().is_complete = false;
                            continue;
                        };
                        let is_change = self.0.take_events(events.get_ref());
                        ready.clear_ready();
                        if is_change {
                            return;
                        }
                    }
                },
            }
        }
    }
}

/// Registers the descriptor of an inotify instance with the runtime.
#[expect(unsafe_code, reason = "registers a descriptor that stays open and the same")]
fn registered(events: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: `OwnedFd` keeps its descriptor open until it is dropped, and always returns the same one.
    unsafe { AsyncFd::register_with_interest(events, Interest::READABLE) }.map_err(Into::into)
}

impl Inner {
    fn read(&self) -> io::Result<SourceTree> {
        let began = Instant::now();
        let rules = self.rules.lock().clone();
        let mut directories: HashMap<i32, PathBuf> = HashMap::new();
        let (mut is_complete, mut shortage) = (self.events.is_some(), None);
        let tree = SourceTree::read(&self.root, &rules, &mut |directory| {
            let Some(events) = self.events.as_ref().filter(|_| is_complete) else { return };
            let changes = WatchFlags::CREATE
                | WatchFlags::DELETE
                | WatchFlags::MODIFY
                | WatchFlags::ATTRIB
                | WatchFlags::MOVED_FROM
                | WatchFlags::MOVED_TO
                | WatchFlags::DELETE_SELF
                | WatchFlags::MOVE_SELF
                | WatchFlags::ONLYDIR
                | WatchFlags::DONT_FOLLOW;
            match inotify::add_watch(events.get_ref(), self.root.join(directory), changes) {
                Ok(watch) => drop(directories.insert(watch, directory.to_path_buf())),
                Err(error) => {
                    is_complete = false;
                    // A directory that is gone is no shortage; it is polled until it is back.
                    shortage = Some(error).filter(|error| !matches!(*error, Errno::NOENT | Errno::NOTDIR));
                }
            }
        });
        let mut state = self.state.lock();
        // Watches of directories that are gone end by themselves, those of ignored ones are dropped.
        let unused = state.directories.keys().filter(|watch| !directories.contains_key(watch));
        for watch in unused {
            if let Some(events) = &self.events {
                // The directory may be gone, and its watch with it.
                let _ = inotify::remove_watch(events.get_ref(), *watch);
            }
        }
        *state = WatchState { directories, is_complete, shortage, took: began.elapsed() };
        drop(state);
        self.was_read.notify_one();
        tree
    }

    /// Takes all waiting events. Returns true if one is about a watched file.
    fn take_events(&self, events: &OwnedFd) -> bool {
        let mut buffer = [MaybeUninit::uninit(); 16 * 1024];
        let mut reader = inotify::Reader::new(events, &mut buffer);
        let state = self.state.lock();
        let rules = self.rules.lock();
        let mut is_change = false;
        // A stream of events must not hold the loop for ever.
        for _ in 0..100_000 {
            let Ok(event) = reader.next() else { break };
            let kind = event.events();
            if kind.contains(ReadFlags::IGNORED) {
                continue;
            }
            let directory = state.directories.get(&event.wd());
            let name = event.file_name().map(|name| name.to_string_lossy().into_owned());
            is_change |= match (directory, name) {
                (Some(directory), Some(name)) => {
                    let path = directory.join(name);
                    let path = path.to_string_lossy();
                    if kind.contains(ReadFlags::ISDIR) {
                        rules.enters_directory(&path)
                    } else {
                        rules.watches_file(&path)
                    }
                }
                // The directory itself changed, or events were lost.
                _ => true,
            };
        }
        is_change
    }
}
