//! The versions of built images in a data directory: each has a tag of its own, `NAME:dev-HASH`, by its content. The
//! current and the previous version stay, so that a rollout can be undone, and those that pods use.
//!
//! ```text
//! DATA/dev/NAME.json            the versions, the newest last
//! DATA/dev/NAME.work/PID/       the result of a build until it is stored
//! DATA/dev/NAME.lock            held while a run builds the image
//! PROGRAMS/NAME/HASH/FILE       the program of a version (`program_files` says which directory it is)
//! DATA/images/podium-dev-NAME.yaml  the entries of these programs, which the cluster reads at each use
//! DATA/images/store             versions that are images, as `podium image load` stores them
//! ```

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, FileExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::program_files;
use super::state_files::{directory, file_name, lock, replace};
use base::hex::hex;
use base::removal::{remove_tree, unless_missing};
use images::store::{Input, LoadOptions, Provenance};
use images::{ImageEntry, ImageReference, ImageStore, remove_unused_names};

/// The number of versions that stay although nothing uses them: the current and the previous one.
const RETAINED: usize = 2;
/// The length of the hash in a tag.
const HASH_LETTERS: usize = 12;
/// The beginning of the tags.
const TAG_PREFIX: &str = "dev-";
/// The beginning of the names of files with entries.
const ENTRIES_PREFIX: &str = "podium-dev-";

/// The versions of one image. Only one run at a time has them.
pub(super) struct ImageVersions {
    data_dir: PathBuf,
    entry: ImageEntry,
    /// The image's name as the name of a file.
    file_name: String,
    versions: Vec<Version>,
    /// The directory of the image's programs.
    programs: PathBuf,
    _lock: File,
}

/// A directory for the result of a build, which is removed when this is dropped: the result may be large.
pub(super) struct WorkDirectory(PathBuf);

impl WorkDirectory {
    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for WorkDirectory {
    fn drop(&mut self) {
        // The next run removes what cannot be removed now.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// One version.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Version {
    /// `dev-HASH`.
    pub(super) tag: String,
    /// The entry of a program; none for an image in the store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    entry: Option<ImageEntry>,
}

impl ImageVersions {
    /// Opens the versions of an image; fails if another run builds it.
    pub(super) fn open(data_dir: &Path, entry: &ImageEntry) -> Result<Self> {
        let file_name = file_name(&entry.name);
        let directory = directory(data_dir)?;
        let lock = lock(&directory.join(format!("{file_name}.lock")))?;
        let Some(lock) = lock else {
            bail!("another `podium dev` builds the image {} for {}", entry.name, data_dir.display());
        };
        let text = base::optional_file::read_optional(directory.join(format!("{file_name}.json")));
        // Without the record the versions are made again.
        let versions = base::json::from_str(&text).ok().unwrap_or_default();
        let programs = program_files::directory(data_dir)?.join(&file_name);
        let data_dir = data_dir.to_path_buf();
        let versions = Self { data_dir, entry: entry.clone(), file_name, versions, programs, _lock: lock };
        versions.remove_remains();
        Ok(versions)
    }

    /// Removes what a killed run has left: the result of its build, and copies of programs that are no versions.
    fn remove_remains(&self) {
        // The directories may not exist, and what cannot be removed now is removed by the next run.
        let _ = fs::remove_dir_all(self.work());
        for directory in fs::read_dir(&self.programs).into_iter().flatten().flatten() {
            let hash = directory.file_name();
            let is_of = |version: &Version| {
                version.tag.strip_prefix(TAG_PREFIX) == hash.to_str() && version.entry.is_some()
            };
            if !self.versions.iter().any(is_of) {
                let _ = fs::remove_dir_all(directory.path());
            }
        }
    }

    /// An empty directory for a build's result. No other run has the same: a build of a killed run may go on.
    pub(super) fn work_directory(&self) -> io::Result<WorkDirectory> {
        let work = self.work().join(std::process::id().to_string());
        remove_tree(&work)?;
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&work)?;
        Ok(WorkDirectory(work))
    }

    /// The directory for the results of builds.
    pub(super) fn work(&self) -> PathBuf {
        self.data_dir.join("dev").join(format!("{}.work", self.file_name))
    }

    /// `NAME:dev-HASH` of a version.
    pub(super) fn reference(&self, version: &Version) -> String {
        format!("{}:{}", self.entry.name, version.tag)
    }

    /// Adds the result of a build, unless it equals a version that is there; it becomes the current one.
    /// `is_built_file` is true for the words of the image's entry that mean the result.
    pub(super) fn add(&mut self, result: &Path, is_built_file: impl Fn(&str) -> bool) -> Result<Version> {
        let mut file = File::open(result).with_context(|| result.display().to_string())?;
        let about = file.metadata()?;
        if !about.is_file() || about.len() == 0 {
            bail!("the result of the build, {}, is empty or not a file", result.display());
        }
        let version = if is_archive(&file)? {
            self.load(file, result)?
        } else {
            let tag = self.program_tag(&mut file)?;
            let hash = tag.trim_start_matches(TAG_PREFIX);
            let base_name = self.entry.name.rsplit('/').next().unwrap_or(&self.entry.name);
            let name = result.file_name().filter(|_| !result.starts_with(self.work()));
            let copy = self.programs.join(hash).join(name.unwrap_or(base_name.as_ref()));
            // The copy may have been lost with the directory of temporary files.
            if !copy.is_file() {
                copy_program(result, &copy).with_context(|| copy.display().to_string())?;
            }
            let entry = self.entry.of_version(&tag, is_built_file, &copy);
            Version { tag, entry: Some(entry) }
        };
        self.versions.retain(|known| known.tag != version.tag);
        self.versions.push(version.clone());
        self.write()?;
        Ok(version)
    }

    /// The tag of a program: by its content and by the settings of its containers.
    fn program_tag(&self, file: &mut File) -> Result<String> {
        let mut sum = Sha256::new();
        let mut settings = self.entry.clone();
        settings.build = None;
        settings.watch.clear();
        sum.update(serde_json::to_vec(&settings)?);
        let mut buffer = vec![0; 1 << 17];
        loop {
            match file.read(&mut buffer)? {
                0 => break,
                count => sum.update(&buffer[..count]),
            }
        }
        Ok(tag(&hex(sum.finalize())))
    }

    fn load(&self, file: File, result: &Path) -> Result<Version> {
        let store = ImageStore::of(&self.data_dir);
        // The name of the latest version, until its id is known.
        let options = LoadOptions {
            tag: Some(format!("{}:dev", self.entry.name)),
            provenance: Provenance::Built,
            ..LoadOptions::default()
        };
        let mut id = String::new();
        store
            .load(Input::File(file), &options, |loaded| id.clone_from(&loaded.image.id))
            // The error's own text has its source.
            .map_err(|error| anyhow!("{}: {error}", result.display()))?;
        let tag = tag(id.trim_start_matches("sha256:"));
        let name = ImageReference::parse(&format!("{}:{tag}", self.entry.name))?;
        store.add_names_to(&id, &[name], Provenance::Built)?;
        Ok(Version { tag, entry: None })
    }

    /// Removes the versions that nothing needs: neither the current and the previous one nor those of `used`.
    pub(super) fn prune(&mut self, used: &BTreeSet<String>) -> Result<Vec<String>> {
        let last = self.versions.len().saturating_sub(RETAINED);
        let is_needed =
            |number: usize, version: &Version| number >= last || used.contains(&self.reference(version));
        let removed: Vec<Version> = (self.versions.iter().enumerate())
            .filter(|(number, version)| !is_needed(*number, version))
            .map(|(_, version)| version.clone())
            .collect();
        if removed.is_empty() {
            return Ok(Vec::new());
        }
        let images = removed.iter().filter(|version| version.entry.is_none());
        let images: Vec<String> = images.map(|version| self.reference(version)).collect();
        let store = ImageStore::of(&self.data_dir);
        let gone_images = match images.as_slice() {
            [] => Vec::new(),
            images => remove_unused_names(&store, &self.data_dir.join("nodes"), images)?,
        };
        // A container that is ending may use an image: the next build tries again.
        let is_gone =
            |version: &Version| version.entry.is_some() || gone_images.contains(&self.reference(version));
        let gone: Vec<Version> = removed.into_iter().filter(is_gone).collect();
        let names = gone.iter().map(|version| self.reference(version)).collect();
        self.versions.retain(|version| !gone.contains(version));
        self.write()?;
        for version in gone.iter().filter(|version| version.entry.is_some()) {
            let hash = version.tag.trim_start_matches(TAG_PREFIX);
            remove_tree(&self.programs.join(hash))?;
        }
        Ok(names)
    }

    fn write(&self) -> Result<()> {
        let directory = directory(&self.data_dir)?;
        replace(
            &directory.join(format!("{}.json", self.file_name)),
            &serde_json::to_vec_pretty(&self.versions)?,
        )?;
        let entries: Vec<&ImageEntry> =
            self.versions.iter().filter_map(|version| version.entry.as_ref()).collect();
        let images = self.data_dir.join("images");
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&images)?;
        let file = images.join(format!("{ENTRIES_PREFIX}{}.yaml", self.file_name));
        if entries.is_empty() {
            return unless_missing(fs::remove_file(&file)).with_context(|| file.display().to_string());
        }
        // JSON is YAML.
        replace(&file, &serde_json::to_vec_pretty(&entries)?)
    }
}

/// Removes all versions of a data directory whose cluster is gone, except images in its store, and the files of runs.
pub(super) fn remove_all(data_dir: &Path) {
    program_files::remove(data_dir);
    // The whole data directory may be gone already.
    let _ = fs::remove_dir_all(data_dir.join("dev"));
    let images = data_dir.join("images");
    for entry in fs::read_dir(&images).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(ENTRIES_PREFIX) {
            let _ = fs::remove_file(entry.path());
        }
    }
    // Only an empty directory is removed.
    let _ = fs::remove_dir(&images);
}

/// Returns true if an entry is that of a version, which earlier runs wrote, and not the user's.
pub(super) fn is_version(entry: &ImageEntry) -> bool {
    entry.words().any(program_files::is_copy)
}

fn tag(digest: &str) -> String {
    format!("{TAG_PREFIX}{}", &digest[..HASH_LETTERS.min(digest.len())])
}

/// Returns true if the file begins as a tar archive or as one that is compressed.
fn is_archive(file: &File) -> io::Result<bool> {
    let mut begin = [0; 262];
    let mut count = 0;
    while count < begin.len() {
        match file.read_at(&mut begin[count..], count as u64)? {
            0 => break,
            more => count += more,
        }
    }
    let begin = &begin[..count];
    let is_tar = begin.get(257..262).is_some_and(|magic| magic == b"ustar");
    Ok(is_tar || begin.starts_with(&[0x1f, 0x8b]) || begin.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]))
}

fn copy_program(from: &Path, to: &Path) -> io::Result<()> {
    let directory = to.parent().unwrap_or(Path::new("/"));
    fs::DirBuilder::new().recursive(true).mode(0o755).create(directory)?;
    let new = directory.join(".new");
    let copied = fs::copy(from, &new)
        .and_then(|_| fs::set_permissions(&new, fs::Permissions::from_mode(0o755)))
        .and_then(|()| fs::rename(&new, to));
    if copied.is_err() {
        // A part of a copy fills the disk, and an empty directory is no version.
        let _ = fs::remove_file(new);
        let _ = fs::remove_dir(directory);
    }
    copied
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_current_and_the_previous_version_stay_and_those_in_use_dev_5() {
        let home = tempfile::tempdir().unwrap();
        let entry: ImageEntry =
            serde_json::from_str(r#"{"name":"me/app","entrypoint":["/src/app","-v"]}"#).unwrap();
        let mut versions = ImageVersions::open(home.path(), &entry).unwrap();
        assert!(ImageVersions::open(home.path(), &entry).is_err(), "another run has them");
        let source = home.path().join("built");
        let mut tags = Vec::new();
        for content in ["one", "two", "three", "four", "three"] {
            fs::write(&source, content).unwrap();
            let version = versions.add(&source, |word| word == "/src/app").unwrap();
            assert!(version.tag.starts_with("dev-"));
            tags.push(version.tag);
        }
        assert_eq!(tags[2], tags[4], "the same content is the same version");
        let used = BTreeSet::from([format!("me/app:{}", tags[0])]);
        let removed = versions.prune(&used).unwrap();
        assert_eq!(removed, [format!("me/app:{}", tags[1])]);
        let known = cluster::declared_images(home.path());
        assert!(known.problems.is_empty(), "{:?}", known.problems);
        let programs: Vec<String> =
            known.entries.iter().map(|entry| fs::read_to_string(entry.program().unwrap()).unwrap()).collect();
        assert_eq!(programs, ["one", "four", "three"]);
        assert!(known.entries.iter().all(is_version) && !is_version(&entry));
        // A killed run leaves a result and a part of a copy.
        let remains = [versions.work().join("1/output"), versions.programs.join("0123456789ab/.new")];
        for file in &remains {
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, "half").unwrap();
        }
        drop(versions);
        let mut versions = ImageVersions::open(home.path(), &entry).unwrap();
        assert!(!remains.iter().any(|file| file.parent().unwrap().exists()), "{remains:?}");
        assert_eq!(versions.prune(&BTreeSet::new()).unwrap().len(), 1, "versions are known to the next run");
        assert!(versions.add(Path::new("/dev/null"), |_| false).is_err());
    }
}
