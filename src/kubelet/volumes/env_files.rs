//! Reads the environment files of a pod's volumes (`fileKeyRef`), before a container starts.
//!
//! The pod can write such a file: it is looked up so that no link leads out of its volume, and its size is limited.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::{Container, FileKeySelector, Pod, Volume};
use rustix::fs::OFlags;

use super::{claims, in_memory, lies_in_memory, volume_dir};
use crate::environment::{EnvError, EnvFile, TOTAL_BYTES};
use crate::node::Node;
use crate::spec;
use base::disk_fault::DiskFault;
use base::root_dir::RootDir;
use object::SharedObject;

/// The maximum size of a file: more than all variables of a program may have together.
const FILE_BYTES: u64 = 4 << 20;

/// The environment files that a container's variables name, by volume and path.
pub(crate) struct EnvFiles {
    files: BTreeMap<(String, String), EnvFile>,
    /// The names of volumes that the pod does not have.
    missing: BTreeSet<String>,
}

impl EnvFiles {
    /// Reads the files that a container needs; none on a node without processes.
    pub(crate) async fn read(node: &Node, pod: &SharedObject<Pod>, container: &Container) -> Self {
        let mut files = Self { files: BTreeMap::new(), missing: BTreeSet::new() };
        let variables = container.env.iter().flatten();
        let references = variables.filter_map(|variable| variable.value_from.as_ref()?.file_key_ref.clone());
        let references: Vec<FileKeySelector> =
            if node.config.hollow { Vec::new() } else { references.collect() };
        if references.is_empty() {
            return files;
        }
        let mut roots = BTreeMap::new();
        for reference in &references {
            let name = &reference.volume_name;
            match spec::spec(pod).volumes.iter().flatten().find(|volume| volume.name == *name) {
                Some(volume) => {
                    roots.entry(name.clone()).or_insert_with(|| root(node, pod, volume));
                }
                None => {
                    files.missing.insert(name.clone());
                }
            }
        }
        let failing = node.disk.fault().filter(|fault| matches!(fault, DiskFault::Failing));
        if let Some(error) = failing.and_then(DiskFault::error) {
            for root in roots.values_mut() {
                *root = Err(error.to_string());
            }
        }
        // A volume may be on a disk that does not respond.
        let read = base::task::blocking(move || read_all(&roots, &references));
        if let Ok(read) = read.await {
            files.files = read;
        }
        files
    }

    /// The value of a key, empty if its file does not have it.
    pub(crate) fn value(&self, reference: &FileKeySelector) -> Result<String, EnvError> {
        let name = &reference.volume_name;
        if self.missing.contains(name) {
            return Err(EnvError::NoVolume(name.clone()));
        }
        let unread = || EnvFile::unreadable("the file was not read".into()).value(reference);
        let file = self.files.get(&(name.clone(), reference.path.clone()));
        file.map_or_else(unread, |file| file.value(reference))
    }
}

/// The path of a volume for this process.
fn root(node: &Node, pod: &SharedObject<Pod>, volume: &Volume) -> Result<PathBuf, String> {
    let dir = volume_dir(node, pod, &volume.name);
    if let Some(source) = &volume.host_path {
        return Ok(PathBuf::from(&source.path));
    }
    if claims::used_by(pod, &volume.name).is_some() {
        return std::fs::read_link(&dir).map_err(|error| error.to_string());
    }
    let memory = node.runtime.memory().filter(|_| lies_in_memory(pod, volume));
    Ok(memory.map_or(dir, |memory| in_memory(&memory.reach(pod.uid()), &volume.name)))
}

fn read_all(
    roots: &BTreeMap<String, Result<PathBuf, String>>,
    references: &[FileKeySelector],
) -> BTreeMap<(String, String), EnvFile> {
    let mut keys: BTreeMap<(String, String), BTreeSet<&str>> = BTreeMap::new();
    for reference in references {
        let file = (reference.volume_name.clone(), reference.path.clone());
        keys.entry(file).or_default().insert(reference.key.as_str());
    }
    let mut left = TOTAL_BYTES;
    let mut files = BTreeMap::new();
    for ((volume, path), keys) in keys {
        let Some(root) = roots.get(&volume) else { continue };
        let text = root.clone().and_then(|root| read(&root, &path).map_err(|error| error.to_string()));
        let mut file = text.map_or_else(EnvFile::unreadable, |text| EnvFile::parse(&text));
        file.retain(|key| keys.contains(key));
        // No program could be started with more.
        match left.checked_sub(file.bytes()) {
            Some(rest) => left = rest,
            None => {
                file =
                    EnvFile::unreadable(format!("all values together are longer than {TOTAL_BYTES} bytes"));
            }
        }
        files.insert((volume, path), file);
    }
    files
}

/// The text of a file; links in its path are resolved inside the volume.
fn read(root: &Path, path: &str) -> io::Result<String> {
    // Another type of file might never end, or block for ever.
    let file = File::from(RootDir::new(root)?.open(Path::new(path), OFlags::RDONLY | OFlags::NONBLOCK)?);
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(FILE_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > FILE_BYTES {
        return Err(io::Error::other(format!("longer than {FILE_BYTES} bytes")));
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(root: &Path, path: &str) -> Result<String, String> {
        let reference = FileKeySelector {
            key: "K".into(),
            path: path.into(),
            volume_name: "v".into(),
            ..FileKeySelector::default()
        };
        let roots = BTreeMap::from([("v".to_string(), Ok(root.to_path_buf()))]);
        let files = read_all(&roots, std::slice::from_ref(&reference));
        let files = EnvFiles { files, missing: BTreeSet::new() };
        files.value(&reference).map_err(|error| error.to_string())
    }

    #[test]
    fn environment_files_never_come_from_outside_their_volume_sec_2() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("volume");
        std::fs::create_dir_all(root.join("sub")).unwrap();
        std::fs::write(dir.path().join("outside"), "K='secret'").unwrap();
        std::fs::write(root.join("sub/e"), "K='v'").unwrap();
        std::os::unix::fs::symlink("/sub/e", root.join("absolute")).unwrap();
        std::os::unix::fs::symlink(dir.path().join("outside"), root.join("out")).unwrap();
        std::os::unix::fs::symlink("../outside", root.join("up")).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            root.join("fifo").as_path(),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        std::fs::File::create(root.join("long")).unwrap().set_len(FILE_BYTES + 1).unwrap();
        for path in ["sub/e", "absolute", "./sub/../sub/e"] {
            assert_eq!(value(&root, path), Ok("v".into()), "{path}");
        }
        for (path, why) in [
            ("out", "No such file"),
            ("up", "No such file"),
            ("../outside", "No such file"),
            ("none", "No such file"),
            ("fifo", "not a regular file"),
            ("sub", "not a regular file"),
            ("long", "longer than 4194304 bytes"),
        ] {
            let text = value(&root, path).unwrap_err();
            assert!(text.starts_with("couldn't parse env file \"v/") && text.contains(why), "{path}: {text}");
        }
    }
}
