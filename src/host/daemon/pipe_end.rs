//! The host's ends of pipes and terminals, read and written without blocking its one thread.

use std::cell::RefCell;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::OFlags;
use rustix::pipe::PipeFlags;
use rustix::process::Pid;
use rustix::termios::Winsize;
use tokio::io::unix::AsyncFd;
use tokio::sync::watch;

use base::session::TerminalSize;

/// The size of a read; one buffer serves all pipe ends.
const CHUNK_BYTES: usize = 64 << 10;

thread_local! {
    static CHUNK: RefCell<Vec<u8>> = RefCell::new(vec![0; CHUNK_BYTES]);
}

/// One end of a pipe, or the master side of a terminal.
#[derive(Debug)]
pub(super) struct PipeEnd(AsyncFd<OwnedFd>);

impl PipeEnd {
    pub(super) fn new(descriptor: OwnedFd) -> io::Result<Self> {
        let flags = rustix::fs::fcntl_getfl(&descriptor)?;
        rustix::fs::fcntl_setfl(&descriptor, flags | OFlags::NONBLOCK)?;
        super::os::watch(descriptor).map(Self)
    }

    /// Writes everything, waiting for the reader as often as necessary.
    pub(super) async fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let mut ready = self.0.writable().await?;
            match ready.try_io(|inner| rustix::io::write(inner, bytes).map_err(Into::into)) {
                Ok(Ok(count)) => bytes = &bytes[count..],
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(Err(error)) => return Err(error),
                Err(_not_ready) => {}
            }
        }
        Ok(())
    }

    /// Waits for bytes and passes them to `take`; false at the end.
    async fn read<T>(&self, take: impl FnOnce(&[u8]) -> T) -> io::Result<Option<T>> {
        loop {
            let mut ready = self.0.readable().await?;
            let read = CHUNK.with_borrow_mut(|chunk| {
                let result =
                    ready.try_io(|inner| rustix::io::read(inner, &mut chunk[..]).map_err(Into::into));
                (result.ok()).map(|result| result.map(|count| count.min(chunk.len())))
            });
            match read {
                Some(Ok(0)) => return Ok(None),
                Some(Ok(count)) => return Ok(Some(CHUNK.with_borrow(|chunk| take(&chunk[..count])))),
                // A terminal without users returns EIO.
                Some(Err(error)) if error.raw_os_error() == Some(libc::EIO) => return Ok(None),
                Some(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Some(Err(error)) => return Err(error),
                None => {}
            }
        }
    }

    /// Reads the available bytes, without waiting.
    fn read_now<T>(&self, take: impl FnOnce(&[u8]) -> T) -> Option<T> {
        CHUNK.with_borrow_mut(|chunk| match rustix::io::read(self.0.as_fd(), &mut chunk[..]) {
            Ok(count) if count > 0 => Some(take(&chunk[..count])),
            _ => None,
        })
    }

    /// The next bytes; none at the end. Once `over` is true only bytes already in the pipe are read: other processes
    /// may hold the other end open for ever.
    pub(super) async fn next<T>(
        &self,
        over: &mut watch::Receiver<bool>,
        take: impl Fn(&[u8]) -> T,
    ) -> Option<T> {
        tokio::select! {
            biased;
            read = self.read(&take) => read.ok().flatten(),
            _ = over.wait_for(|over| *over) => self.read_now(&take),
        }
    }

    pub(super) fn resize(&self, size: TerminalSize) {
        let size = Winsize { ws_row: size.rows, ws_col: size.columns, ws_xpixel: 0, ws_ypixel: 0 };
        // A pipe, or a closed terminal: nothing to resize.
        let _ = rustix::termios::tcsetwinsize(self.0.as_fd(), size);
    }
}

/// Creates a pipe: (read end, write end).
pub(super) fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    rustix::pipe::pipe_with(PipeFlags::CLOEXEC).map_err(Into::into)
}

/// Opens /dev/null, for unused streams.
pub(super) fn nothing() -> io::Result<OwnedFd> {
    std::fs::File::options().read(true).write(true).open("/dev/null").map(Into::into)
}

/// Reads the number of a process that another process created.
pub(super) fn reported_pid(pipe: &OwnedFd) -> io::Result<Pid> {
    let mut number = [0; 4];
    let count = rustix::io::read(pipe, &mut number)?;
    Pid::from_raw(i32::from_ne_bytes(number))
        .filter(|_| count == 4)
        .ok_or_else(|| io::Error::other("the process was not created"))
}
