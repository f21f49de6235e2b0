//! Tar archives: unpacks one from a container, or packs one for it.
//!
//! Data from a container is hostile. A name outside of the requested path ends the copy; links, devices and pipes are
//! skipped and counted; memory is bounded, even if the archive claims large sizes. Blocking: runs in a thread of its
//! own.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use tar::{Builder, EntryType, Header};

/// Size of a block in bytes.
const BLOCK: usize = 512;
/// Maximum length of a name in bytes, as in Linux.
const LONGEST_NAME: u64 = 4096;
/// Maximum length of the attributes before an entry, in bytes.
const LONGEST_ATTRIBUTES: u64 = 64 << 10;
/// Maximum number of bytes after the end of an archive.
const LONGEST_REST: u64 = 1 << 20;

/// The progress of a copy, readable while it runs.
#[derive(Debug, Default)]
pub struct Progress {
    /// Number of file bytes so far.
    pub bytes: AtomicU64,
    /// Number of files so far.
    pub files: AtomicU64,
    /// Total number of bytes; 0 if it is unknown.
    pub total: AtomicU64,
    /// Number of skipped links, devices and pipes.
    pub skipped: AtomicU64,
}

fn wrong(message: impl Into<String>) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, message.into())
}

/// Unpacks an archive of `name` and everything below it to `to`. `to` must not exist, and its directory must not be
/// writable by anyone else.
pub(super) fn unpack(from: &mut impl Read, name: &str, to: &Path, progress: &Progress) -> io::Result<()> {
    let (mut long_name, mut long_size) = (None, None);
    while let Some(header) = next_header(from)? {
        let size = header.entry_size()?;
        match header.entry_type() {
            EntryType::GNULongName => {
                let mut name = small(from, size, LONGEST_NAME)?;
                name.truncate(name.iter().position(|byte| *byte == 0).unwrap_or(name.len()));
                long_name = Some(name);
                continue;
            }
            EntryType::XHeader => {
                let (name, size) = attributes(&small(from, size, LONGEST_ATTRIBUTES)?)?;
                long_name = name.or(long_name);
                long_size = size.or(long_size);
                continue;
            }
            EntryType::GNULongLink | EntryType::XGlobalHeader => {
                skip_data(from, size)?;
                continue;
            }
            _ => {}
        }
        let size = long_size.take().unwrap_or(size);
        let path = long_name.take().unwrap_or_else(|| header.path_bytes().into_owned());
        let place = entry_path(&path, name, to)?;
        match header.entry_type() {
            EntryType::Directory => {
                fs::create_dir_all(&place)?;
                skip_data(from, size)?;
            }
            EntryType::Regular | EntryType::Continuous => {
                let mode = (header.mode().unwrap_or(0o644) & 0o777) | 0o600;
                write_file(from, size, &place, mode, progress)?;
            }
            _ => {
                progress.skipped.fetch_add(1, Ordering::Relaxed);
                skip_data(from, size)?;
            }
        }
    }
    // The rest is read so that the sender can finish.
    if io::copy(&mut from.take(LONGEST_REST), &mut io::sink())? == LONGEST_REST {
        return Err(wrong("the archive has data after its end"));
    }
    if fs::symlink_metadata(to).is_err() {
        let only_links = progress.skipped.load(Ordering::Relaxed) > 0;
        let message = if only_links { "not a file or directory" } else { "the container sent nothing" };
        return Err(wrong(message));
    }
    Ok(())
}

/// Returns the next header; `None` at the end of the archive.
fn next_header(from: &mut impl Read) -> io::Result<Option<Header>> {
    let mut block = [0; BLOCK];
    let mut filled = 0;
    while filled < BLOCK {
        match from.read(&mut block[filled..])? {
            0 if filled == 0 => return Ok(None),
            0 => return Err(wrong("the archive is truncated")),
            count => filled += count,
        }
    }
    if block.iter().all(|byte| *byte == 0) {
        return Ok(None);
    }
    let header = Header::from_byte_slice(&block);
    let blank = 148..156;
    let sum: u32 = block
        .iter()
        .enumerate()
        .map(|(at, byte)| if blank.contains(&at) { u32::from(b' ') } else { u32::from(*byte) })
        .sum();
    if header.cksum().ok() != Some(sum) {
        return Err(wrong("the container did not send a tar archive"));
    }
    Ok(Some(header.clone()))
}

/// Returns the path of an entry on this machine.
fn entry_path(path: &[u8], name: &str, to: &Path) -> io::Result<PathBuf> {
    let shown = || String::from_utf8_lossy(&path[..path.len().min(200)]).into_owned();
    if path.len() as u64 > LONGEST_NAME {
        return Err(wrong("the archive has a name that is too long"));
    }
    let mut parts = path.split(|byte| *byte == b'/').filter(|part| !matches!(*part, [] | [b'.']));
    if parts.next() != Some(name.as_bytes()) {
        return Err(wrong(format!("the archive has the unexpected entry {:?}", shown())));
    }
    let mut place = to.to_path_buf();
    for part in parts {
        if part == b".." {
            return Err(wrong(format!("the archive's entry {:?} points outside of it", shown())));
        }
        place.push(OsStr::from_bytes(part));
    }
    Ok(place)
}

fn write_file(
    from: &mut impl Read,
    size: u64,
    path: &Path,
    mode: u32,
    progress: &Progress,
) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    // If a name occurs twice, the later entry wins, as in tar.
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    let mut left = size;
    let mut buffer = [0; 16 * 1024];
    while left > 0 {
        let most = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
        let count = from.read(&mut buffer[..most])?;
        if count == 0 {
            return Err(wrong("the archive is truncated"));
        }
        file.write_all(&buffer[..count])?;
        left -= count as u64;
        progress.bytes.fetch_add(count as u64, Ordering::Relaxed);
    }
    fs::set_permissions(path, Permissions::from_mode(mode))?;
    progress.files.fetch_add(1, Ordering::Relaxed);
    skip(from, padding(size))
}

/// Returns the number of padding bytes after `size` bytes of data.
fn padding(size: u64) -> u64 {
    size.wrapping_neg() % BLOCK as u64
}

/// Skips a number of bytes.
fn skip(from: &mut impl Read, bytes: u64) -> io::Result<()> {
    let skipped = io::copy(&mut from.take(bytes), &mut io::sink())?;
    if skipped == bytes { Ok(()) } else { Err(wrong("the archive is truncated")) }
}

/// Skips the data of an entry and its padding.
fn skip_data(from: &mut impl Read, size: u64) -> io::Result<()> {
    skip(from, size)?;
    skip(from, padding(size))
}

/// Reads the data of a small entry, and skips its padding.
fn small(from: &mut impl Read, size: u64, longest: u64) -> io::Result<Vec<u8>> {
    if size > longest {
        return Err(wrong("the archive has a name that is too long"));
    }
    let mut data = Vec::new();
    from.take(size).read_to_end(&mut data)?;
    if data.len() as u64 != size {
        return Err(wrong("the archive is truncated"));
    }
    skip(from, padding(size))?;
    Ok(data)
}

/// Returns the name and size that POSIX attributes (records of `LENGTH KEY=VALUE\n`) set for the next entry.
fn attributes(mut records: &[u8]) -> io::Result<(Option<Vec<u8>>, Option<u64>)> {
    let broken = || wrong("the archive has invalid attributes");
    let (mut name, mut size) = (None, None);
    while !records.is_empty() {
        let space = records.iter().position(|byte| *byte == b' ').ok_or_else(broken)?;
        let length: usize = std::str::from_utf8(&records[..space])
            .ok()
            .and_then(|text| text.parse().ok())
            .ok_or_else(broken)?;
        if length <= space + 1 || length > records.len() {
            return Err(broken());
        }
        let record = records[space + 1..length].strip_suffix(b"\n").ok_or_else(broken)?;
        let equals = record.iter().position(|byte| *byte == b'=').ok_or_else(broken)?;
        let value = &record[equals + 1..];
        match &record[..equals] {
            b"path" => name = Some(value.to_vec()),
            b"size" => {
                let number = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
                size = Some(number.ok_or_else(broken)?);
            }
            _ => {}
        }
        records = &records[length..];
    }
    Ok((name, size))
}

/// A local file or directory to pack.
struct ArchiveSource {
    path: PathBuf,
    name: PathBuf,
}

/// Packs a file, or a directory with its content, under this name.
pub(super) fn pack(source: &Path, name: &str, to: impl Write, progress: &Progress) -> io::Result<()> {
    progress.total.store(bytes_of(source)?, Ordering::Relaxed);
    let mut builder = Builder::new(to);
    let mut open = vec![ArchiveSource { path: source.to_path_buf(), name: PathBuf::from(name) }];
    // The source itself may be a link, which is followed; links below it are skipped.
    let mut metadata = fs::metadata(source)?;
    while let Some(ArchiveSource { path, name }) = open.pop() {
        let mut header = Header::new_gnu();
        header.set_mode(metadata.permissions().mode() & 0o777);
        if metadata.is_dir() {
            header.set_entry_type(EntryType::Directory);
            header.set_size(0);
            builder.append_data(&mut header, &name, io::empty())?;
            for entry in fs::read_dir(&path)? {
                let entry = entry?;
                open.push(ArchiveSource { path: entry.path(), name: name.join(entry.file_name()) });
            }
        } else if metadata.is_file() {
            let file = File::open(&path)?;
            let size = file.metadata()?.len();
            header.set_size(size);
            builder.append_data(&mut header, &name, ExactLengthFile { file: file.take(size), progress })?;
            progress.files.fetch_add(1, Ordering::Relaxed);
        } else {
            progress.skipped.fetch_add(1, Ordering::Relaxed);
        }
        if let Some(next) = open.last() {
            metadata = fs::symlink_metadata(&next.path)?;
        }
    }
    builder.into_inner()?.flush()
}

/// Returns the total size of all files in bytes.
fn bytes_of(source: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    let mut open = vec![source.to_path_buf()];
    let mut metadata = fs::metadata(source)?;
    while let Some(path) = open.pop() {
        if metadata.is_dir() {
            for entry in fs::read_dir(&path)? {
                open.push(entry?.path());
            }
        } else if metadata.is_file() {
            bytes += metadata.len();
        }
        if let Some(next) = open.last() {
            metadata = fs::symlink_metadata(next)?;
        }
    }
    Ok(bytes)
}

/// Reads exactly as many bytes as the header says, or fails: otherwise the rest of the archive would be misaligned.
struct ExactLengthFile<'a> {
    file: io::Take<File>,
    progress: &'a Progress,
}

impl Read for ExactLengthFile<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read(buffer)?;
        if count == 0 && self.file.limit() > 0 && !buffer.is_empty() {
            return Err(wrong("a file became shorter while it was read"));
        }
        self.progress.bytes.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns an archive of entries by type, name and data.
    fn archive(entries: &[(EntryType, &[u8], &[u8])]) -> Vec<u8> {
        let mut all = Vec::new();
        for (kind, name, data) in entries {
            let mut header = Header::new_gnu();
            header.as_old_mut().name[..name.len()].copy_from_slice(name);
            header.set_entry_type(*kind);
            header.set_mode(0o4755);
            header.set_size(data.len() as u64);
            header.set_cksum();
            all.extend_from_slice(header.as_bytes());
            all.extend_from_slice(data);
            all.resize(all.len().next_multiple_of(BLOCK), 0);
        }
        all.resize(all.len() + 2 * BLOCK, 0);
        all
    }

    fn unpacked(archive: &[u8]) -> (tempfile::TempDir, io::Result<()>, Progress) {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("in")).unwrap();
        let progress = Progress::default();
        let result = unpack(&mut &archive[..], "logs", &dir.path().join("in/to"), &progress);
        (dir, result, progress)
    }

    #[test]
    fn an_archive_entry_outside_the_requested_path_ends_the_copy_con_3_sec_3() {
        let file = EntryType::Regular;
        for (name, what) in [
            (&b"logs/../../evil"[..], "points outside"),
            (b"./logs/a/../../../evil", "points outside"),
            (b"../evil", "unexpected entry"),
            (b"/etc/evil", "unexpected entry"),
            (b"other", "unexpected entry"),
            (b"", "unexpected entry"),
        ] {
            let (dir, result, _) = unpacked(&archive(&[(file, name, b"x")]));
            let error = result.unwrap_err().to_string();
            assert!(error.contains(what), "{error}");
            assert!(!dir.path().join("evil").exists());
            assert_eq!(fs::read_dir(dir.path().join("in")).unwrap().count(), 0, "{name:?}");
        }
        // The name in POSIX attributes, and in a GNU long name.
        let longer = b"22 path=logs/../../ev\n";
        assert_eq!(longer.len(), 22);
        for kind in [(EntryType::XHeader, &longer[..]), (EntryType::GNULongName, b"logs/../../ev\0")] {
            let bytes = archive(&[(kind.0, b"x", kind.1), (file, b"logs", b"x")]);
            assert!(unpacked(&bytes).1.unwrap_err().to_string().contains("points outside"));
        }
    }

    #[test]
    fn links_and_devices_are_left_out_and_counted_con_3_sec_3() {
        let bytes = archive(&[
            (EntryType::Directory, b"logs/", b""),
            (EntryType::Symlink, b"logs/out", b""),
            (EntryType::Link, b"logs/hard", b""),
            (EntryType::Char, b"logs/null", b""),
            (EntryType::Fifo, b"logs/pipe", b""),
            // The link is skipped, so that the file below it gets a real directory.
            (EntryType::Regular, b"logs/out/passwd", b"mine"),
            (EntryType::Regular, b"logs/run", &[7; 1000]),
        ]);
        let (dir, result, progress) = unpacked(&bytes);
        result.unwrap();
        let to = dir.path().join("in/to");
        assert_eq!(fs::read(to.join("out/passwd")).unwrap(), b"mine");
        assert_eq!(fs::read(to.join("run")).unwrap(), [7; 1000]);
        let mode = fs::metadata(to.join("run")).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o755, "no set-user-ID bit is unpacked");
        let mut names: Vec<_> = fs::read_dir(&to).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["out", "run"]);
        assert_eq!(progress.skipped.load(Ordering::Relaxed), 4);
        assert_eq!(progress.bytes.load(Ordering::Relaxed), 1004);
    }

    #[test]
    fn archives_that_lie_about_sizes_or_are_none_are_refused_con_3_sec_3() {
        let whole = archive(&[(EntryType::Regular, b"logs", b"some text")]);
        for (bytes, what) in [
            (b"tar: not found, but with a lot to say about that ".repeat(20), "not send a tar archive"),
            (whole[..BLOCK + 4].to_vec(), "truncated"),
            (whole[..100].to_vec(), "truncated"),
            ([&whole[..], &vec![0; 2 << 20]].concat(), "after its end"),
            (Vec::new(), "sent nothing"),
            (archive(&[(EntryType::Symlink, b"logs", b"")]), "not a file or directory"),
            (
                archive(&[
                    (EntryType::XHeader, b"x", b"9999 path=logs\n"),
                    (EntryType::Regular, b"logs", b""),
                ]),
                "invalid attributes",
            ),
            (archive(&[(EntryType::GNULongName, b"x", &[b'a'; 5000])]), "too long"),
        ] {
            let error = unpacked(&bytes).1.unwrap_err().to_string();
            assert!(error.contains(what), "{what}: {error}");
        }
        // A claimed name length of eight exabytes must not allocate memory.
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::GNULongName);
        header.set_size(u64::MAX >> 1);
        header.set_cksum();
        assert!(unpacked(header.as_bytes()).1.unwrap_err().to_string().contains("too long"));
    }

    #[test]
    fn a_packed_directory_is_unpacked_unchanged_con_3() {
        let dir = tempfile::tempdir().unwrap();
        let source = dir.path().join("source");
        let long = "n".repeat(150);
        fs::create_dir_all(source.join("empty")).unwrap();
        fs::create_dir_all(source.join(&long)).unwrap();
        fs::write(source.join(&long).join(&long), vec![9; 100_000]).unwrap();
        fs::write(source.join("run.sh"), "#!/bin/sh\n").unwrap();
        fs::set_permissions(source.join("run.sh"), Permissions::from_mode(0o755)).unwrap();
        std::os::unix::fs::symlink("/etc", source.join("link")).unwrap();
        let (mut bytes, sent) = (Vec::new(), Progress::default());
        pack(&source, "logs", &mut bytes, &sent).unwrap();
        let (to, result, got) = unpacked(&bytes);
        result.unwrap();
        let to = to.path().join("in/to");
        assert_eq!(fs::read(to.join(&long).join(&long)).unwrap(), vec![9; 100_000]);
        assert_eq!(fs::metadata(to.join("run.sh")).unwrap().permissions().mode() & 0o777, 0o755);
        assert!(to.join("empty").is_dir() && !to.join("link").exists());
        for progress in [&sent, &got] {
            assert_eq!(progress.bytes.load(Ordering::Relaxed), 100_010);
            assert_eq!(progress.files.load(Ordering::Relaxed), 2);
        }
        assert_eq!(sent.total.load(Ordering::Relaxed), 100_010);
        assert_eq!(sent.skipped.load(Ordering::Relaxed), 1);
    }
}
