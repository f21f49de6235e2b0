//! Finds manifests: a file, the manifests of a directory, or standard input.

use std::fs;
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::ManifestError;
use base::sort::SliceOrder;

/// The maximum size of one file.
const MAX_FILE_BYTES: u64 = 32 * 1024 * 1024;

/// The maximum depth of directories, which also ends a loop of symbolic links.
const MAX_DIRECTORY_DEPTH: usize = 32;

/// The text of one file.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    /// The file's path as shown, or `-`.
    pub(crate) name: String,
    /// Its content.
    pub(crate) bytes: Vec<u8>,
}

/// Reads a path: a file of any name, the `*.yaml`, `*.yml` and `*.json` of a directory in order of their names (with
/// `recursive`, those of its subdirectories too), or standard input for `-`.
pub(crate) fn collect(path: &str, recursive: bool) -> Result<Vec<Source>, ManifestError> {
    if path == "-" {
        let bytes = bounded(io::stdin().lock(), path)?;
        return Ok(vec![Source { name: path.to_string(), bytes }]);
    }
    if path.starts_with("http://") || path.starts_with("https://") {
        let message = "apply reads files only; download the manifest first";
        return Err(ManifestError::of_file(path, message));
    }
    let of_path = Path::new(path);
    let metadata = fs::metadata(of_path).map_err(|e| unreadable(path, &e))?;
    if !metadata.is_dir() {
        return Ok(vec![read(of_path)?]);
    }
    let mut sources = Vec::new();
    directory(of_path, recursive, 0, &mut sources)?;
    if sources.is_empty() {
        let hint = if recursive { "" } else { " (--recursive also reads its subdirectories)" };
        let message = format!("no *.yaml, *.yml or *.json file here{hint}");
        return Err(ManifestError::of_file(path, message));
    }
    Ok(sources)
}

fn directory(
    path: &Path,
    recursive: bool,
    depth: usize,
    sources: &mut Vec<Source>,
) -> Result<(), ManifestError> {
    let shown = path.display().to_string();
    let entries = fs::read_dir(path).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    let mut paths: Vec<_> =
        entries.map_err(|e| unreadable(&shown, &e))?.into_iter().map(|entry| entry.path()).collect();
    paths.order();
    for path in paths {
        if path.is_dir() {
            if recursive && depth < MAX_DIRECTORY_DEPTH {
                directory(&path, recursive, depth + 1, sources)?;
            }
        } else if path.extension().is_some_and(|e| e == "yaml" || e == "yml" || e == "json") {
            sources.push(read_listed(&path)?);
        }
    }
    Ok(())
}

fn read(path: &Path) -> Result<Source, ManifestError> {
    let name = path.display().to_string();
    let file = fs::File::open(path).map_err(|e| unreadable(&name, &e))?;
    let bytes = bounded(file, &name)?;
    Ok(Source { name, bytes })
}

/// Reads a file that was found in a directory. A pipe or a device is an error: it is no manifest, and reading it could
/// block for ever.
fn read_listed(path: &Path) -> Result<Source, ManifestError> {
    let name = path.display().to_string();
    let opened = fs::OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path);
    let file = opened.map_err(|e| unreadable(&name, &e))?;
    if !file.metadata().map_err(|e| unreadable(&name, &e))?.is_file() {
        return Err(ManifestError::of_file(&name, "neither a file nor a directory"));
    }
    let bytes = bounded(file, &name)?;
    Ok(Source { name, bytes })
}

fn bounded(reader: impl io::Read, name: &str) -> Result<Vec<u8>, ManifestError> {
    let mut bytes = Vec::new();
    reader.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(|e| unreadable(name, &e))?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        let message = format!("larger than {} MiB", MAX_FILE_BYTES / 1024 / 1024);
        return Err(ManifestError::of_file(name, message));
    }
    Ok(bytes)
}

fn unreadable(name: &str, error: &io::Error) -> ManifestError {
    let message = match error.kind() {
        io::ErrorKind::NotFound => "no such file or directory".to_string(),
        io::ErrorKind::PermissionDenied => "permission denied".to_string(),
        _ => error.to_string(),
    };
    ManifestError::of_file(name, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_give_their_manifests_in_order_api_12() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        fs::create_dir(root.join("sub")).unwrap();
        for name in ["b.yaml", "a.json", "c.yml", "notes.txt", "sub/d.yaml"] {
            fs::write(root.join(name), name).unwrap();
        }
        let names = |recursive| -> Vec<String> {
            collect(&root.display().to_string(), recursive)
                .unwrap()
                .iter()
                .map(|s| s.name.strip_prefix(&format!("{}/", root.display())).unwrap().to_string())
                .collect()
        };
        assert_eq!(names(false), ["a.json", "b.yaml", "c.yml"]);
        assert_eq!(names(true), ["a.json", "b.yaml", "c.yml", "sub/d.yaml"]);
        let file = collect(&root.join("notes.txt").display().to_string(), false).unwrap();
        assert_eq!(file[0].bytes, b"notes.txt");
    }

    /// Reading a pipe would block for ever.
    #[test]
    fn a_pipe_in_a_directory_is_refused_and_not_read() {
        let directory = tempfile::tempdir().unwrap();
        let pipe = directory.path().join("b.yaml");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0)
            .unwrap();
        let error = collect(&directory.path().display().to_string(), false).unwrap_err();
        assert_eq!(error.to_string(), format!("{}: neither a file nor a directory", pipe.display()));
    }

    #[test]
    fn an_unreadable_path_is_named_in_the_error_api_12() {
        let directory = tempfile::tempdir().unwrap();
        let missing = directory.path().join("x.yaml").display().to_string();
        let error = collect(&missing, false).unwrap_err();
        assert_eq!(error.to_string(), format!("{missing}: no such file or directory"));
        assert!(collect(&directory.path().display().to_string(), false).is_err());
        assert!(collect("https://example.com/x.yaml", false).is_err());
    }
}
