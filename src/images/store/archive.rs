//! Reads the outer archive: lists its members, and reads them in any order.
//!
//! Layers may come before the manifest that names them, so an input that cannot be read twice (standard input, a
//! compressed file) is first copied to a file. Nothing of the archive is unpacked here.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use super::compression::{self, Compression};
use super::options::{Input, Limits, LoadError};

/// Maximum size of one entry's headers, long names and attributes.
pub(super) const ENTRY_HEAD_BYTES: u64 = 4 << 20;

/// An archive with readable members.
pub(super) struct Archive {
    file: Arc<File>,
    members: BTreeMap<String, Member>,
}

#[derive(Debug)]
enum Member {
    File {
        offset: u64,
        size: u64,
    },
    /// A link to another member: old versions of `docker save` link a layer that two images share.
    Link(String),
}

impl Archive {
    /// Opens an input; a copy, if one is needed, goes into `spool`.
    pub(super) fn open(input: Input, spool: &Path, limits: &Limits) -> Result<Self, LoadError> {
        let failed = |context: &str| LoadError::io(context.to_owned());
        let file = match input {
            Input::File(mut file) => {
                let is_file = file.metadata().map_err(failed("the archive"))?.is_file();
                let mut begin = [0; 4];
                let compression = if is_file {
                    let count = file.read_at(&mut begin, 0).map_err(failed("the archive"))?;
                    file.seek(SeekFrom::Start(0)).map_err(failed("the archive"))?;
                    Compression::of(&begin[..count])
                } else {
                    Compression::None
                };
                match compression {
                    Compression::None if is_file => file,
                    _ => write_down(Box::new(file), spool, limits)?,
                }
            }
            Input::Stream(stream) => write_down(stream, spool, limits)?,
        };
        Self::index(file, limits)
    }

    fn index(file: File, limits: &Limits) -> Result<Self, LoadError> {
        let file = Arc::new(file);
        let end = file.metadata().map_err(LoadError::io("the archive".into()))?.len();
        let left = Rc::new(Cell::new(ENTRY_HEAD_BYTES));
        let whole = Section { file: file.clone(), offset: 0, remaining: end };
        let mut tar = tar::Archive::new(LimitedReader::new(whole, left.clone()));
        let mut members = BTreeMap::new();
        let unreadable =
            |error: io::Error| LoadError::NotAnImage(format!("not a tar archive, or damaged: {error}"));
        for entry in tar.entries_with_seek().map_err(unreadable)? {
            let entry = entry.map_err(unreadable)?;
            left.set(ENTRY_HEAD_BYTES);
            if members.len() >= limits.members {
                return Err(LoadError::TooLarge(format!(
                    "the archive has more than {} members",
                    limits.members
                )));
            }
            let Ok(name) = String::from_utf8(entry.path_bytes().into_owned()) else { continue };
            let kind = entry.header().entry_type();
            if kind.is_file() {
                let (offset, size) = (entry.raw_file_position(), entry.size());
                members.insert(plain(&name, ""), Member::File { offset, size });
            } else if kind.is_symlink() || kind.is_hard_link() {
                let target = entry.link_name_bytes().unwrap_or_default().into_owned();
                let Ok(target) = String::from_utf8(target) else { continue };
                let base = if kind.is_symlink() { name.rsplit_once('/').map_or("", |(d, _)| d) } else { "" };
                members.insert(plain(&name, ""), Member::Link(plain(&target, base)));
            }
        }
        Ok(Self { file, members })
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    fn find(&self, name: &str) -> Option<(u64, u64)> {
        let mut name = plain(name, "");
        // One link may lead to another; the limit ends cycles.
        for _ in 0..8 {
            match self.members.get(&name)? {
                Member::File { offset, size } => return Some((*offset, *size)),
                Member::Link(target) => name.clone_from(target),
            }
        }
        None
    }

    /// A member from its beginning.
    pub(super) fn reader(&self, name: &str) -> Result<Section, LoadError> {
        let (offset, size) = self
            .find(name)
            .ok_or_else(|| LoadError::NotAnImage(format!("the archive has no member {name:?}")))?;
        Ok(Section { file: self.file.clone(), offset, remaining: size })
    }

    /// A small member as a whole.
    pub(super) fn bytes(&self, name: &str, limits: &Limits) -> Result<Vec<u8>, LoadError> {
        let mut reader = self.reader(name)?;
        if reader.remaining > limits.document_bytes {
            return Err(LoadError::TooLarge(format!(
                "{name} is larger than {} bytes",
                limits.document_bytes
            )));
        }
        let mut bytes = Vec::new();
        reader.read_to_end(&mut bytes).map_err(LoadError::io(name.to_owned()))?;
        Ok(bytes)
    }
}

/// Normalizes a name: `a/b` for `./a//b`, or for `../b` relative to `a/c`; a path out of the archive names no member.
fn plain(name: &str, base: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in base.split('/').chain(name.split('/')) {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Copies a stream, decompressed, to a file without a name.
fn write_down(stream: Box<dyn Read + Send>, spool: &Path, limits: &Limits) -> Result<File, LoadError> {
    let at = LoadError::io("the archive".into());
    let mut stream = compression::plain(BufReader::new(stream)).map_err(at)?;
    let path = spool.join("archive");
    let mut file = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(&path)
        .map_err(LoadError::io(path.display().to_string()))?;
    // The name is not needed any more, and without it a crash leaves no file.
    std::fs::remove_file(&path).map_err(LoadError::io(path.display().to_string()))?;
    let mut buffer = vec![0; 1 << 18];
    let mut total = 0_u64;
    loop {
        let count = stream
            .read(&mut buffer)
            .map_err(|error| LoadError::NotAnImage(format!("cannot read the whole archive: {error}")))?;
        if count == 0 {
            break;
        }
        total += count as u64;
        if total > limits.unpacked_bytes {
            return Err(LoadError::TooLarge(format!(
                "the archive is larger than {} bytes",
                limits.unpacked_bytes
            )));
        }
        file.write_all(&buffer[..count]).map_err(LoadError::io(path.display().to_string()))?;
    }
    Ok(file)
}

/// A part of a file, read without moving the position of other readers.
pub(super) struct Section {
    file: Arc<File>,
    offset: u64,
    remaining: u64,
}

impl Section {
    /// The bytes that are left.
    pub(super) fn len(&self) -> u64 {
        self.remaining
    }
}

impl Read for Section {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = usize::try_from(self.remaining).unwrap_or(usize::MAX).min(buffer.len());
        let count = self.file.read_at(&mut buffer[..length], self.offset)?;
        self.offset += count as u64;
        self.remaining -= count as u64;
        Ok(count)
    }
}

impl Seek for Section {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let SeekFrom::Current(by) = to else { return Err(io::ErrorKind::Unsupported.into()) };
        let by = u64::try_from(by).map_err(|_| io::Error::from(io::ErrorKind::Unsupported))?;
        let by = by.min(self.remaining);
        self.offset += by;
        self.remaining -= by;
        Ok(self.offset)
    }
}

/// Fails after a limited number of bytes, so that oversized headers of an entry cannot fill the memory.
pub(super) struct LimitedReader<R> {
    inner: R,
    remaining: Rc<Cell<u64>>,
}

impl<R> LimitedReader<R> {
    pub(super) fn new(inner: R, left: Rc<Cell<u64>>) -> Self {
        Self { inner, remaining: left }
    }
}

impl<R: Read> Read for LimitedReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.remaining.get()).unwrap_or(usize::MAX);
        if left == 0 && !buffer.is_empty() {
            return Err(io::Error::other("an entry is larger than allowed"));
        }
        let length = left.min(buffer.len());
        let count = self.inner.read(&mut buffer[..length])?;
        self.remaining.set(self.remaining.get() - count as u64);
        Ok(count)
    }
}

impl<R: Seek> Seek for LimitedReader<R> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.inner.seek(to)
    }
}
