//! The image catalogue: resolves a reference on this machine (IMG-1, IMG-2, IMG-3).
//!
//! Images that were loaded or pulled come first, then the user's entries, then built-in images under the names they
//! stand for and those that the user maps to them. What is left belongs to its registry. The catalogue searches the
//! machine for programs; it never starts or downloads anything.

mod explain;
mod list;
mod prefix;
mod program;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sha2::{Digest, Sha256};

pub use explain::{Explanation, Step};
pub use list::{CatalogueImage, ImageOrigin};
use prefix::installation_prefixes;
use program::{find_program, with_search_path};

use super::builtin::{BUILTINS, Builtin, ImageSource, MissingTag, TOOLS, called, named_like, stands_for};
use super::entry::{UserImageSource, UserImages};
use super::registry::{PullMode, RegistryConfig};
use super::signal::signal_number;
use super::store::{self, ImageStore, Provenance, StoredImage};
use super::{ImageEntry, ImageReference};
use base::hex::hex;
use host::{DEFAULT_PATH, Program, RuntimeError};

/// The meaning of an image reference on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvedImage {
    /// The reference that was resolved.
    pub reference: ImageReference,
    /// The identity, `sha256:HEX`: changes when the program behind it does.
    pub image_id: String,
    /// The image as a pod's status names it: `repository@sha256:HEX` if it has a digest in its repository, or its
    /// identity.
    pub image_ref: String,
    /// The size of its program on disk.
    pub size_bytes: u64,
    /// The program and its fixed arguments.
    pub entrypoint: Vec<String>,
    /// The default arguments.
    pub cmd: Vec<String>,
    /// The image's environment.
    pub env: Vec<(String, String)>,
    /// The working directory.
    pub working_dir: PathBuf,
    /// `user[:group]` to run as.
    pub user: Option<String>,
    /// The stop signal of its main process.
    pub stop_signal: i32,
    /// Names that its containers call, with the programs behind them.
    pub programs: Vec<(String, Program)>,
    /// Directories it brings along, private to each container.
    pub directories: Vec<PathBuf>,
    /// Files it brings along, with their content.
    pub files: Vec<(PathBuf, String)>,
    /// The user that its server becomes, which the machine may not have: a name and a home directory.
    pub account: Option<(String, PathBuf)>,
    /// Its containers see the machine's files as they are.
    pub host_view: bool,
    /// The layers of its own root file system, the topmost one first, which containers see instead of the machine's
    /// files and never write; none if it has no files of its own.
    pub layers: Vec<PathBuf>,
    /// The installation prefixes of its programs, if its containers see the machine's system directories instead of all
    /// its files.
    pub system_root: Option<Vec<PathBuf>>,
}

/// The reason why a reference does not resolve.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    /// The reference cannot be read.
    #[error("{0}")]
    Invalid(String),
    /// The image is known, but the tag is not.
    #[error("{0}")]
    UnknownTag(String),
    /// No entry has this name.
    #[error("{0}")]
    UnknownName(String),
    /// The name is known, but no image of it has this digest.
    #[error("{0}")]
    UnknownDigest(String),
    /// The image is there, but the owners of its files are not those that this run can give them.
    #[error("{0}")]
    OtherOwners(String),
    /// The image stands for a program that this machine does not have.
    #[error("{0}")]
    ProgramMissing(String),
}

impl ResolveError {
    /// Returns true if the reference is valid, and a registry may have it.
    pub fn is_unknown(&self) -> bool {
        !matches!(self, Self::Invalid(_) | Self::UnknownTag(_))
    }
}

impl From<ResolveError> for RuntimeError {
    fn from(error: ResolveError) -> Self {
        match error {
            ResolveError::Invalid(text) => Self::InvalidImageName(text),
            ResolveError::UnknownTag(text)
            | ResolveError::UnknownName(text)
            | ResolveError::UnknownDigest(text)
            | ResolveError::OtherOwners(text)
            | ResolveError::ProgramMissing(text) => Self::ImageNotFound(text),
        }
    }
}

/// The images this machine knows.
pub struct Catalogue {
    user: Box<dyn UserImageSource>,
    store: Option<Arc<ImageStore>>,
    /// The location where a user adds entries; named by errors.
    location: String,
    /// Further repositories that built-in images stand for, without tags.
    builtin_aliases: Vec<String>,
    pull: PullMode,
    search_path: OsString,
}

impl std::fmt::Debug for Catalogue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Catalogue").field("place", &self.location).finish_non_exhaustive()
    }
}

impl Catalogue {
    /// A catalogue with the user's entries; `place` is the location that errors name for further entries
    /// (`/data/images/*.yaml`). Programs are searched along this process's `PATH`.
    pub fn new(entries: Vec<ImageEntry>, place: impl Into<String>) -> Self {
        let user = Arc::new(UserImages { entries, problems: Vec::new() });
        Self::live(Box::new(user), None, place)
    }

    /// A catalogue whose entries and loaded images may change at any time.
    pub fn live(
        user: Box<dyn UserImageSource>,
        store: Option<Arc<ImageStore>>,
        place: impl Into<String>,
    ) -> Self {
        let search_path = std::env::var_os("PATH").unwrap_or_else(|| DEFAULT_PATH.into());
        let pull = PullMode::Never;
        Self { user, store, location: place.into(), builtin_aliases: Vec::new(), pull, search_path }
    }

    /// Selects between built-in images and registries, and makes built-in images stand for further repositories
    /// (`registry.builtin`): each for those with the same last component. Also returns the errors of refused
    /// repositories, with their positions.
    pub fn with_registry(mut self, config: &RegistryConfig) -> (Self, Vec<(usize, String)>) {
        self.pull = config.pull;
        let mut refused = Vec::new();
        for (position, repository) in config.builtin.iter().enumerate() {
            match repository_of(repository) {
                Ok(name) if named_like(&name).is_some() => self.builtin_aliases.push(name),
                Ok(name) => {
                    let last = name.rsplit('/').next().unwrap_or(&name);
                    refused
                        .push((position, format!("{repository:?}: no built-in image has the name {last}")));
                }
                Err(why) => refused.push((position, format!("{repository:?}: {why}"))),
            }
        }
        (self, refused)
    }

    /// The built-in image behind a repository's familiar name. If registries come first, built-in images stand only for
    /// what the user has mapped to them, and for the machine itself.
    fn builtin(&self, name: &str) -> Option<&'static Builtin> {
        let is_mapped = self.builtin_aliases.iter().any(|own| own == name);
        let by_name = stands_for(name).filter(|image| {
            is_mapped || self.pull != PullMode::Registry || image.source == ImageSource::AsGiven
        });
        by_name.or_else(|| named_like(name).filter(|_| is_mapped))
    }

    /// Resolves a reference on this machine.
    pub fn resolve(&self, reference: &str) -> Result<ResolvedImage, ResolveError> {
        let parsed = ImageReference::parse(reference).map_err(|error| {
            ResolveError::Invalid(format!(
                "Failed to apply default image tag \"{reference}\": couldn't parse image name \
                 \"{reference}\": {error}"
            ))
        })?;
        let user = self.user.current();
        if let Some(image) = self.loaded(&parsed) {
            return Ok(self.resolve_loaded(&image, parsed));
        }
        if let Some(image) = self.of_other_owners(&parsed) {
            return Err(ResolveError::OtherOwners(other_owners(&parsed.to_string(), &image)));
        }
        let candidates = candidates(&user.entries, &parsed);
        if let Some(entry) = best_match(&candidates, &parsed) {
            return self.resolve_user_entry(entry, &parsed);
        }
        if let Some(image) = self.builtin(&parsed.name()) {
            if let Some(missing) = missing_tag(image, &parsed) {
                return Err(self.unknown_tag(&parsed, missing.reason(), &user));
            }
            return self.resolve_builtin(parsed, image);
        }
        let loaded = self.store.as_ref().map(|store| store.tags_of(&parsed.name())).unwrap_or_default();
        let declared = candidates.iter().flat_map(|entry| entry.tags.iter());
        let known: Vec<&str> = declared.chain(&loaded).map(String::as_str).collect();
        if known.is_empty() {
            return Err(self.unknown_name(&parsed, &user));
        }
        self.check_tag(&parsed, &known, &user)?;
        Err(self.unknown_digest(&parsed, &format!("the tags {}", known.join(", "))))
    }

    /// Returns true if the registry of a reference may be queried for the image.
    pub fn can_pull(&self, reference: &str) -> bool {
        let Ok(parsed) = ImageReference::parse(reference) else { return false };
        let is_nonexistent = || {
            let missing = self.builtin(&parsed.name()).and_then(|image| missing_tag(image, &parsed));
            missing.is_some_and(|missing| matches!(missing, MissingTag::Nonexistent(_)))
        };
        // No registry is queried for an image that a user has loaded.
        let is_loaded =
            || self.of_other_owners(&parsed).is_some_and(|image| image.provenance == Provenance::Loaded);
        self.pull != PullMode::Never && !is_nonexistent() && !is_loaded()
    }

    /// Returns what a user can do on this machine if a reference's registry does not give the image.
    pub fn hint(&self, reference: &str) -> Option<String> {
        match self.resolve(reference) {
            Ok(_) => None,
            Err(ResolveError::UnknownName(_)) => {
                let name = ImageReference::parse(reference).ok()?.name();
                let hint = mapping_hint(&name).map(|hint| format!("or {hint}"));
                let problems = self.user.current().problems.clone();
                let unread = (!problems.is_empty()).then(|| format!("cannot read: {}", problems.join("; ")));
                let parts: Vec<String> = hint.into_iter().chain(unread).collect();
                (!parts.is_empty()).then(|| parts.join("; "))
            }
            Err(error) => Some(error.to_string()),
        }
    }

    /// Returns the stored image behind a reference.
    pub fn find_loaded(&self, reference: &str) -> Option<StoredImage> {
        self.loaded(&ImageReference::parse(reference).ok()?)
    }

    /// Every loaded image with its names.
    pub fn all_loaded(&self) -> Vec<(StoredImage, Vec<String>)> {
        self.store.as_ref().map(|store| store.list()).unwrap_or_default()
    }

    /// Records that a container uses the image of a reference now, for garbage collection.
    pub fn record_use(&self, reference: &str) {
        let Some((store, image)) = self.store.as_ref().zip(self.find_loaded(reference)) else { return };
        if let Err(error) = store.touch(&image) {
            tracing::debug!("cannot record the use of {reference}: {error}");
        }
    }

    /// The digests of a stored image in its repositories.
    pub fn repository_digests(&self, id: &str) -> Vec<String> {
        self.store.as_ref().map(|store| store.repository_digests(id)).unwrap_or_default()
    }

    fn loaded(&self, parsed: &ImageReference) -> Option<StoredImage> {
        self.store.as_ref()?.find(parsed)
    }

    fn of_other_owners(&self, parsed: &ImageReference) -> Option<StoredImage> {
        self.store.as_ref()?.find_of_other_owners(parsed)
    }

    fn resolve_loaded(&self, image: &StoredImage, reference: ImageReference) -> ResolvedImage {
        let run = &image.run;
        let pair = |text: &String| {
            let (name, value) = text.split_once('=').unwrap_or((text, ""));
            (name.to_owned(), value.to_owned())
        };
        ResolvedImage {
            image_ref: self.shown_reference(image, &reference),
            reference,
            image_id: image.id.clone(),
            size_bytes: image.size_bytes,
            entrypoint: run.entrypoint.clone(),
            cmd: run.cmd.clone(),
            env: run.env.iter().map(pair).collect(),
            // A relative path starts at the root.
            working_dir: Path::new("/").join(&run.working_dir),
            user: Some(run.user.clone()).filter(|user| !user.is_empty()),
            stop_signal: signal_number(&run.stop_signal).unwrap_or(libc::SIGTERM),
            programs: Vec::new(),
            directories: Vec::new(),
            files: Vec::new(),
            account: None,
            host_view: false,
            layers: self.store.as_ref().map(|store| store.layer_roots(image)).unwrap_or_default(),
            system_root: None,
        }
    }

    /// The digest that a stored image has in the repository of a reference, or the image's id.
    fn shown_reference(&self, image: &StoredImage, reference: &ImageReference) -> String {
        let known = self.repository_digests(&image.id);
        let parsed = known.iter().filter_map(|name| ImageReference::parse(name).ok());
        let here: Vec<ImageReference> = parsed.filter(|known| known.name() == reference.name()).collect();
        // The digest of an index of several platforms, rather than that of the manifest below it.
        let manifest = image.manifest_digest.as_ref().map(store::Digest::as_str);
        let best = here.iter().find(|known| known.digest.as_deref() != manifest).or(here.first());
        best.map_or_else(|| image.id.clone(), ImageReference::full_name)
    }

    fn resolve_user_entry(
        &self,
        entry: &ImageEntry,
        parsed: &ImageReference,
    ) -> Result<ResolvedImage, ResolveError> {
        let program = entry.entrypoint.first().or(entry.cmd.first());
        let path = program.and_then(|program| find_program(program, &self.search_path));
        let directory = path.as_deref().and_then(Path::parent).map(Path::to_path_buf);
        let stop_signal = match &entry.stop_signal {
            Some(name) => signal_number(name).ok_or_else(|| {
                ResolveError::ProgramMissing(format!(
                    "image {} in {}: stopSignal: unknown signal {name:?}",
                    entry.name, self.location
                ))
            })?,
            None => libc::SIGTERM,
        };
        let identity = format!("{entry:?}");
        let (image_id, size_bytes) = self.identify(&identity, path.as_deref(), parsed)?;
        Ok(ResolvedImage {
            reference: parsed.clone(),
            image_ref: image_id.clone(),
            image_id,
            size_bytes,
            entrypoint: entry.entrypoint.clone(),
            cmd: entry.cmd.clone(),
            env: with_search_path(entry.env.pairs(), directory.as_deref()),
            working_dir: entry.working_dir.clone().unwrap_or_else(|| PathBuf::from("/")),
            user: entry.user.clone(),
            stop_signal,
            programs: Vec::new(),
            directories: Vec::new(),
            files: Vec::new(),
            account: None,
            host_view: false,
            layers: Vec::new(),
            system_root: None,
        })
    }

    fn resolve_builtin(
        &self,
        parsed: ImageReference,
        image: &'static Builtin,
    ) -> Result<ResolvedImage, ResolveError> {
        let (path, mut programs) = match image.source {
            ImageSource::Inside(program) => {
                let names = called(program).iter();
                let programs =
                    names.map(|&name| (name.to_owned(), Program::Inside(program.to_owned()))).collect();
                (std::env::current_exe().ok(), programs)
            }
            ImageSource::Tools => (find_program("sh", &self.search_path), self.shell_for(image)),
            ImageSource::HostProgram(names) => {
                let found = names.iter().find_map(|name| find_program(name, &self.search_path));
                let path = found.ok_or_else(|| self.program_missing(&parsed, names))?;
                let alias = |&name: &&str| (name.to_owned(), Program::Path(path.clone()));
                let mut programs: Vec<_> = names.iter().map(alias).collect();
                programs.retain(|(name, _)| find_program(name, &self.search_path).is_none());
                (Some(path.clone()), programs)
            }
            ImageSource::AsGiven => (None, Vec::new()),
        };
        if matches!(image.source, ImageSource::Tools | ImageSource::HostProgram(_)) {
            programs.extend(self.missing_tools());
        }
        for &program in image.own_programs {
            let named = |&name: &&str| (name.to_owned(), Program::Inside(program.to_owned()));
            // The programs of this binary take precedence over the machine's programs of these names.
            programs.splice(..0, called(program).iter().map(named));
        }
        let identity = format!("{}:{}", image.name(), parsed.tag.as_deref().unwrap_or_default());
        let (image_id, size_bytes) = self.identify(&identity, path.as_deref(), &parsed)?;
        let owned = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
        let mut env: Vec<_> =
            image.env.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
        if let Some((variable, newest)) = image.version {
            env.push((variable.to_owned(), version(&parsed, newest)));
        }
        let system_root = match image.source {
            ImageSource::AsGiven => None,
            ImageSource::Inside(_) => Some(Vec::new()),
            ImageSource::Tools | ImageSource::HostProgram(_) => {
                Some(path.as_deref().map(installation_prefixes).unwrap_or_default())
            }
        };
        let own_directory = match image.source {
            ImageSource::HostProgram(_) => path.as_deref().and_then(Path::parent),
            _ => None,
        };
        Ok(ResolvedImage {
            reference: parsed,
            image_ref: image_id.clone(),
            image_id,
            size_bytes,
            entrypoint: owned(image.entrypoint),
            cmd: owned(image.cmd),
            env: with_search_path(env, own_directory),
            working_dir: PathBuf::from(image.working_dir),
            user: image.user.map(str::to_owned),
            stop_signal: image.stop_signal,
            programs,
            directories: image.directories.iter().map(PathBuf::from).collect(),
            files: image.files.iter().map(|&(path, text)| (path.into(), text.to_owned())).collect(),
            account: image.account.map(|(name, home)| (name.to_owned(), home.into())),
            host_view: image.source == ImageSource::AsGiven,
            layers: Vec::new(),
            system_root,
        })
    }

    /// `bash` images run the plain shell on machines without bash.
    fn shell_for(&self, image: &Builtin) -> Vec<(String, Program)> {
        let Some(shell) = image.cmd.first().filter(|shell| shell.ends_with("bash")) else {
            return Vec::new();
        };
        match (find_program(shell, &self.search_path), find_program("sh", &self.search_path)) {
            (None, Some(sh)) => vec![((*shell).to_owned(), Program::Path(sh))],
            _ => Vec::new(),
        }
    }

    /// Tools that many manifests call, that this binary contains and that the machine lacks.
    fn missing_tools(&self) -> impl Iterator<Item = (String, Program)> {
        let lacking = TOOLS.iter().filter(|name| find_program(name, &self.search_path).is_none());
        lacking.map(|&name| (name.to_owned(), Program::Inside(name.to_owned())))
    }

    fn check_tag(
        &self,
        parsed: &ImageReference,
        available_tags: &[&str],
        user: &UserImages,
    ) -> Result<(), ResolveError> {
        let missing = parsed.tag.as_deref().filter(|tag| !available_tags.contains(tag));
        let reason = || format!("{} has the tags {} here", parsed.name(), available_tags.join(", "));
        missing.map_or(Ok(()), |_| Err(self.unknown_tag(parsed, &reason(), user)))
    }

    fn unknown_tag(&self, parsed: &ImageReference, reason: &str, user: &UserImages) -> ResolveError {
        ResolveError::UnknownTag(Self::with_problems(
            user,
            format!(
                "manifest for {parsed} not found: manifest unknown: {reason}; declare others in {} or load them with \
                 \"podium image load FILE\"",
                self.location
            ),
        ))
    }

    /// Returns the error for an unknown repository.
    fn unknown_name(&self, parsed: &ImageReference, user: &UserImages) -> ResolveError {
        let name = parsed.name();
        let hint = match mapping_hint(&name) {
            Some(hint) => format!(", or {hint}"),
            None => " or use a built-in one such as nginx, busybox or python".to_owned(),
        };
        ResolveError::UnknownName(Self::with_problems(
            user,
            format!(
                "no image of this machine has the name {name}: load it with \"podium image load FILE\", declare it in \
                 {}{hint}",
                self.location
            ),
        ))
    }

    fn unknown_digest(&self, parsed: &ImageReference, known: &str) -> ResolveError {
        ResolveError::UnknownDigest(format!(
            "manifest for {parsed} not found: manifest unknown: {} has {known} here; declare others in {} or load \
             them with \"podium image load FILE\"",
            parsed.name(),
            self.location
        ))
    }

    /// Adds the read errors, since an unreadable entry may explain a missing image.
    fn with_problems(user: &UserImages, text: String) -> String {
        match user.problems.as_slice() {
            [] => text,
            problems => format!("{text}; cannot read: {}", problems.join("; ")),
        }
    }

    fn program_missing(&self, parsed: &ImageReference, names: &[&str]) -> ResolveError {
        ResolveError::ProgramMissing(format!(
            "image {parsed} runs this machine's program {}, which is not installed (not found in PATH): \
             install it or declare the image in {}",
            names.join(" or "),
            self.location
        ))
    }

    /// Computes the image's identity and size. The identity covers the program's current file: a rebuilt program is a
    /// new image.
    fn identify(
        &self,
        identity: &str,
        program: Option<&Path>,
        parsed: &ImageReference,
    ) -> Result<(String, u64), ResolveError> {
        let mut hash = Sha256::new();
        hash.update(identity);
        let mut size_bytes = 0;
        if let Some((path, about)) = program.and_then(|path| Some((path, path.metadata().ok()?))) {
            size_bytes = about.len();
            hash.update(path.as_os_str().as_encoded_bytes());
            for number in [about.len(), about.mtime().cast_unsigned(), about.mtime_nsec().cast_unsigned()] {
                hash.update(number.to_le_bytes());
            }
        }
        let image_id = format!("sha256:{}", hex(hash.finalize()));
        match &parsed.digest {
            Some(digest) if *digest != image_id => {
                Err(self.unknown_digest(parsed, &format!("the digest {image_id}")))
            }
            _ => Ok((image_id, size_bytes)),
        }
    }
}

/// The user's entries of a reference's name.
fn candidates<'a>(entries: &'a [ImageEntry], parsed: &ImageReference) -> Vec<&'a ImageEntry> {
    let named = |entry: &&ImageEntry| {
        ImageReference::parse(&entry.name).is_ok_and(|own| own.name() == parsed.name())
            || (!entry.name.contains('/') && entry.name == parsed.base_name())
    };
    entries.iter().filter(named).collect()
}

/// Returns the best match: the first entry for this very tag, or else the first entry for every tag.
fn best_match<'a>(candidates: &[&'a ImageEntry], parsed: &ImageReference) -> Option<&'a ImageEntry> {
    let exact = |entry: &&&ImageEntry| parsed.tag.as_ref().is_none_or(|tag| entry.tags.contains(tag));
    let any = |entry: &&&ImageEntry| entry.tags.is_empty();
    candidates.iter().find(exact).or_else(|| candidates.iter().find(any)).copied()
}

/// The way to run a built-in image in place of a repository whose name has the same last component.
fn mapping_hint(name: &str) -> Option<String> {
    let builtin = named_like(name)?.name();
    Some(format!(
        "list {name} under registry.builtin in the config file to run Podium's own {builtin} in its place"
    ))
}

/// Returns the reason why a built-in image does not stand for a reference's tag.
fn missing_tag(image: &Builtin, parsed: &ImageReference) -> Option<MissingTag> {
    image.missing.zip(parsed.tag.as_deref()).and_then(|(reason, tag)| reason(tag))
}

/// Reads a repository without tag and digest, into its familiar form.
fn repository_of(text: &str) -> Result<String, String> {
    let parsed = ImageReference::parse(text).map_err(|error| error.to_string())?;
    if ImageReference::parse(&format!("{text}:x")).is_err() {
        return Err("use the repository's name without tag and digest".to_owned());
    }
    Ok(parsed.name())
}

/// The version that a tag stands for.
fn version(reference: &ImageReference, newest: &str) -> String {
    match reference.tag.as_deref() {
        Some(tag) if tag.starts_with(|first: char| first.is_ascii_digit()) && tag.contains('.') => {
            let version = tag.split('-').next().unwrap_or(tag);
            if version.matches('.').count() == 1 { format!("{version}.0") } else { version.to_owned() }
        }
        _ => newest.to_owned(),
    }
}

/// The message about an image whose files have the owners of another kind of run, with the remedy.
fn other_owners(name: &str, image: &StoredImage) -> String {
    let now = if base::subordinate_ids::real_user().is_some() {
        "without the subordinate ids that it has now"
    } else {
        "with subordinate ids that it does not have now"
    };
    let remedy = match image.provenance {
        Provenance::Loaded => "load it again with podium image load",
        Provenance::Pulled => "pull it again",
    };
    format!("image {name} was unpacked by a podium {now}, so that its files have other owners: {remedy}")
}
