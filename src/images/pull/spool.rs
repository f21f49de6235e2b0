//! A file that a download fills and a thread reads at the same time.
//!
//! The reader never sees more than was written, waits for more, and fails if the download does: also if it is dropped.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::task::blocking;
use bytes::Bytes;
use parking_lot::{Condvar, Mutex};

use super::layer_locks::LayerLock;

/// The size of a write. Chunks of a connection are small, and each write costs a change of threads.
const WRITE_BYTES: usize = 1 << 20;

/// The state of a download.
#[derive(Default)]
enum State {
    /// It has not started.
    #[default]
    Waiting,
    /// The store has the layer already.
    Present(LayerLock),
    /// It has started: the file, and the lock until the reader takes them.
    Running { file: Option<(File, LayerLock)>, written: u64 },
    /// It is complete.
    Complete { file: Option<(File, LayerLock)>, written: u64 },
    /// It has failed, or was cancelled.
    Failed,
}

#[derive(Default)]
struct SharedSpool {
    state: Mutex<State>,
    changed: Condvar,
}

/// The thread's end.
pub(super) struct Spool(Arc<SharedSpool>);

/// The download's end, before the download starts.
pub(super) struct SpoolWriter(Arc<SharedSpool>);

/// Makes both ends.
pub(super) fn spool() -> (Spool, SpoolWriter) {
    let shared = Arc::new(SharedSpool::default());
    (Spool(shared.clone()), SpoolWriter(shared))
}

/// The origin of a layer.
pub(super) enum Source {
    /// The store has it.
    Present(LayerLock),
    /// A download.
    Download(SpoolReader, LayerLock),
}

fn cancelled() -> io::Error {
    io::Error::other("the download failed")
}

impl Spool {
    /// Waits until the download has started, or is not needed.
    pub(super) fn wait(self) -> io::Result<Source> {
        let mut state = self.0.state.lock();
        loop {
            match &mut *state {
                State::Waiting => self.0.changed.wait(&mut state),
                State::Running { file, .. } | State::Complete { file, .. } => {
                    let (file, lock) = file.take().ok_or_else(cancelled)?;
                    drop(state);
                    let reader = SpoolReader { shared: self.0, file, offset: 0 };
                    return Ok(Source::Download(reader, lock));
                }
                State::Present(_) => {
                    let present = std::mem::replace(&mut *state, State::Failed);
                    let State::Present(lock) = present else { return Err(cancelled()) };
                    return Ok(Source::Present(lock));
                }
                State::Failed => return Err(cancelled()),
            }
        }
    }
}

/// Reads the file as it grows.
pub(super) struct SpoolReader {
    shared: Arc<SharedSpool>,
    file: File,
    offset: u64,
}

impl Read for SpoolReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut state = self.shared.state.lock();
        let available = loop {
            match &*state {
                State::Running { written, .. } if *written > self.offset => break *written - self.offset,
                State::Complete { written, .. } => break *written - self.offset,
                State::Running { .. } => self.shared.changed.wait(&mut state),
                State::Waiting | State::Present(_) | State::Failed => return Err(cancelled()),
            }
        };
        drop(state);
        let length = buffer.len().min(usize::try_from(available).unwrap_or(usize::MAX));
        let count = self.file.read_at(&mut buffer[..length], self.offset)?;
        if count == 0 && length > 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.offset += count as u64;
        Ok(count)
    }
}

impl SharedSpool {
    fn set(&self, state: State) {
        *self.state.lock() = state;
        self.changed.notify_all();
    }

    /// Marks the download as failed, unless it is over.
    fn abandon(&self) {
        let mut state = self.state.lock();
        if matches!(*state, State::Waiting | State::Running { .. }) {
            *state = State::Failed;
            self.changed.notify_all();
        }
    }
}

impl Drop for SpoolWriter {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

impl SpoolWriter {
    /// The store has the layer: nothing is downloaded.
    pub(super) fn present(self, lock: LayerLock) {
        self.0.set(State::Present(lock));
    }

    /// Begins the download into a new file.
    pub(super) fn begin(self, path: &Path, lock: LayerLock) -> io::Result<SpoolFile> {
        let file = File::options().read(true).write(true).create_new(true).open(path)?;
        self.0.set(State::Running { file: Some((file.try_clone()?, lock)), written: 0 });
        Ok(SpoolFile { writer: self, file, path: path.to_path_buf(), pending: Vec::new(), written: 0 })
    }
}

/// A download's file.
pub(super) struct SpoolFile {
    writer: SpoolWriter,
    file: File,
    path: PathBuf,
    pending: Vec<u8>,
    written: u64,
}

impl SpoolFile {
    /// Adds a part of the content.
    pub(super) async fn write(mut self, chunk: Bytes) -> io::Result<Self> {
        self.pending.extend_from_slice(&chunk);
        if self.pending.len() < WRITE_BYTES { Ok(self) } else { self.flush().await }
    }

    async fn flush(self) -> io::Result<Self> {
        let Self { writer, file, path, pending, written } = self;
        let flushed = blocking(move || {
            let result = file.write_all_at(&pending, written);
            (result, file, pending)
        });
        let (result, file, mut pending) = flushed.await.map_err(|_| cancelled())?;
        result?;
        let written = written + pending.len() as u64;
        pending.clear();
        if let State::Running { written: known, .. } = &mut *writer.0.state.lock() {
            *known = written;
        }
        writer.0.changed.notify_all();
        Ok(Self { writer, file, path, pending, written })
    }

    /// Completes the content. The file's name goes at once, and its content when the reader has read it.
    pub(super) async fn finish(self) -> io::Result<()> {
        let done = self.flush().await?;
        {
            let mut state = done.writer.0.state.lock();
            if let State::Running { file, written } = &mut *state {
                *state = State::Complete { file: file.take(), written: *written };
            }
        }
        done.writer.0.changed.notify_all();
        // The directory goes with the image's writer anyway.
        let _ = std::fs::remove_file(&done.path);
        Ok(())
    }
}
