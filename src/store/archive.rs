//! Snapshot files: every object at one revision, written once and read back unchanged.
//!
//! The format is lines of JSON: a header, a line for each object, and an end line with the number of objects and a
//! digest, which reveals a truncated or changed file. Each object carries the key of its database record, so that
//! custom kinds are registered even before their definitions are read.

use std::io::{self, BufRead, Write};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::database::{decode, record_key};
use base::hex::hex;
use object::{Object, Revision};

/// The format name in the header.
const FORMAT: &str = "podium-snapshot/1";
/// Maximum length of a line in bytes, far above the API's limit for an object.
const LONGEST_LINE: usize = 64 << 20;

/// A snapshot file could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// The operating system reported an error.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The file is no snapshot, or is damaged.
    #[error("line {line}: {reason}")]
    Damaged {
        /// The line's number, counted from 1.
        line: usize,
        /// The reason.
        reason: String,
    },
}

#[derive(Serialize, Deserialize)]
struct Header<A> {
    format: String,
    revision: u64,
    about: A,
}

#[derive(Serialize, Deserialize)]
struct Trailer {
    objects: usize,
    sha256: String,
}

/// A writer that counts and digests the bytes passing through.
struct HashingWriter<W> {
    to: W,
    digest: Sha256,
    bytes: u64,
}

impl<W: Write> HashingWriter<W> {
    fn line(&mut self, text: &[u8]) -> io::Result<()> {
        for part in [text, b"\n"] {
            self.digest.update(part);
            self.to.write_all(part)?;
            self.bytes += part.len() as u64;
        }
        Ok(())
    }
}

/// Writes the objects of one revision and the caller's description `about`; returns the number of bytes written.
pub fn write(
    to: impl Write,
    revision: Revision,
    about: &impl Serialize,
    objects: &[Arc<Object>],
) -> io::Result<u64> {
    let mut out = HashingWriter { to, digest: Sha256::new(), bytes: 0 };
    let header = Header { format: FORMAT.to_owned(), revision: revision.0, about };
    out.line(&serde_json::to_vec(&header)?)?;
    let mut line = Vec::new();
    for object in objects {
        line.clear();
        serde_json::to_writer(&mut line, &record_key(object.kind(), &object.key()))?;
        line.push(b' ');
        object.write_json(&mut line);
        out.line(&line)?;
    }
    let end = Trailer { objects: objects.len(), sha256: hex(out.digest.clone().finalize()) };
    out.line(&serde_json::to_vec(&end)?)?;
    out.to.flush()?;
    Ok(out.bytes)
}

/// The contents of a snapshot file.
#[derive(Debug)]
pub struct Archive<A> {
    /// The revision of the whole state.
    pub revision: Revision,
    /// The description given when the file was written.
    pub about: A,
    /// The objects in the order of the file.
    pub objects: Vec<Object>,
}

/// Reads a file to its end.
pub fn read<A: for<'de> Deserialize<'de>>(from: impl BufRead) -> Result<Archive<A>, ArchiveError> {
    let mut lines = Lines { from, number: 0, digest: Sha256::new() };
    let header: Header<A> = header(&mut lines)?;
    let mut objects = Vec::new();
    loop {
        let sealed = lines.digest.clone();
        let Some(line) = lines.next()? else {
            return Err(lines.damaged("the file is incomplete: its last line is missing"));
        };
        if line.first() != Some(&b'"') {
            let end: Trailer = serde_json::from_slice(&line).map_err(|error| lines.damaged(error))?;
            if end.objects != objects.len() || end.sha256 != hex(sealed.finalize()) {
                return Err(lines.damaged("the checksum or the number of objects does not match"));
            }
            return Ok(Archive { revision: Revision(header.revision), about: header.about, objects });
        }
        let mut parts = serde_json::Deserializer::from_slice(&line).into_iter::<String>();
        let key = parts.next().and_then(Result::ok).ok_or_else(|| lines.damaged("the key is missing"))?;
        let text = &line[parts.byte_offset()..];
        objects.push(decode(key.as_bytes(), text).map_err(|reason| lines.damaged(reason))?);
    }
}

/// Reads a file's revision and description, without its objects.
pub fn read_about<A: for<'de> Deserialize<'de>>(from: impl BufRead) -> Result<(Revision, A), ArchiveError> {
    let mut lines = Lines { from, number: 0, digest: Sha256::new() };
    let header: Header<A> = header(&mut lines)?;
    Ok((Revision(header.revision), header.about))
}

fn header<A: for<'de> Deserialize<'de>, R: BufRead>(lines: &mut Lines<R>) -> Result<Header<A>, ArchiveError> {
    let line = lines.next()?.unwrap_or_default();
    match serde_json::from_slice::<Header<A>>(&line) {
        Ok(header) if header.format == FORMAT => Ok(header),
        Ok(header) => {
            Err(lines.damaged(format!("the file has the format {:?}, expected {FORMAT}", header.format)))
        }
        Err(_) => Err(lines.damaged("not a snapshot file")),
    }
}

struct Lines<R> {
    from: R,
    number: usize,
    digest: Sha256,
}

impl<R: BufRead> Lines<R> {
    /// Returns the next line without its newline; `None` at the end of the file or for an unfinished line.
    fn next(&mut self) -> Result<Option<Vec<u8>>, ArchiveError> {
        self.number += 1;
        let mut line = Vec::new();
        let most = LONGEST_LINE as u64;
        io::Read::take(&mut self.from, most).read_until(b'\n', &mut line)?;
        self.digest.update(&line);
        match line.pop() {
            Some(b'\n') => Ok(Some(line)),
            Some(_) if line.len() + 1 == LONGEST_LINE => Err(self.damaged("the line is too long")),
            _ => Ok(None),
        }
    }

    fn damaged(&self, reason: impl std::fmt::Display) -> ArchiveError {
        ArchiveError::Damaged { line: self.number, reason: format!("{reason}") }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;

    use super::*;
    use object::{Kind, Scope};

    fn objects() -> Vec<Arc<Object>> {
        let mut map = Object::new(ConfigMap::default());
        map.meta_mut().name = Some("a".into());
        map.meta_mut().namespace = Some("n\u{2028}".into());
        map.meta_mut().uid = Some("u".into());
        map.meta_mut().resource_version = Some("7".into());
        let widgets = Kind::custom("archive.example.com", "widgets", "Widget", Scope::Cluster).unwrap();
        let value = json!({"apiVersion": "archive.example.com/v1", "kind": "Widget",
            "metadata": {"name": "w", "resourceVersion": "9"}, "spec": {"text": "a\nb"}});
        [map, Object::from_value(widgets, value).unwrap()].map(Arc::new).into()
    }

    fn written() -> Vec<u8> {
        let mut file = Vec::new();
        let bytes = write(&mut file, Revision(12), &json!({"name": "first"}), &objects()).unwrap();
        assert_eq!(bytes, file.len() as u64);
        file
    }

    #[test]
    fn a_state_is_read_as_it_was_written_safe_8() {
        let file = written();
        let archive: Archive<serde_json::Value> = read(file.as_slice()).unwrap();
        assert_eq!((archive.revision, &archive.about), (Revision(12), &json!({"name": "first"})));
        let expected = objects();
        let expected: Vec<&Object> = expected.iter().map(|object| &**object).collect();
        assert_eq!(archive.objects.iter().collect::<Vec<_>>(), expected);
        let (revision, about) = read_about::<serde_json::Value>(file.as_slice()).unwrap();
        assert_eq!((revision, about), (Revision(12), json!({"name": "first"})));
    }

    #[test]
    fn objects_of_a_kind_that_was_built_in_once_keep_their_keys_safe_8() {
        let fences = Kind::custom("podium.dev", "nodefences", "NodeFence", Scope::Cluster).unwrap();
        let value = json!({"apiVersion": "podium.dev/v1alpha1", "kind": "NodeFence", "metadata": {"name": "n"},
            "spec": {"reason": "it hangs"}});
        let fence = Object::from_value(fences, value.clone()).unwrap();
        let key = record_key(fences, &fence.key());
        assert_eq!(key, "nodefences.podium.dev.v1alpha1\0\0n");
        assert_eq!(decode(key.as_bytes(), value.to_string().as_bytes()).unwrap(), fence);
    }

    /// A truncated or changed file is never accepted as a state.
    #[test]
    fn a_file_that_was_cut_or_changed_is_refused_safe_8() {
        let file = written();
        for length in 0..file.len() {
            let cut = read::<serde_json::Value>(&file[..length]);
            assert!(matches!(cut, Err(ArchiveError::Damaged { .. })), "{length}");
        }
        for place in 0..file.len() - 1 {
            let mut changed = file.clone();
            changed[place] ^= 1;
            // In the end line only the count and the digest are checked.
            if let Ok(archive) = read::<serde_json::Value>(changed.as_slice()) {
                panic!("{place}: {archive:?}");
            }
        }
        let other = r#"{"format":"podium-snapshot/2","revision":1,"about":{}}"#.to_owned() + "\n";
        let error = read::<serde_json::Value>(other.as_bytes()).unwrap_err().to_string();
        assert_eq!(
            error,
            "line 1: the file has the format \"podium-snapshot/2\", expected podium-snapshot/1"
        );
    }
}
