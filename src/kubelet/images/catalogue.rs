//! The image catalogue: from a reference to what runs (IMG-1, IMG-2).
//!
//! User entries come first, then the built-in ones, under any registry. The catalogue looks for programs on
//! the machine; it never starts or downloads anything.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::builtin::{BUILTINS, Builtin, Stand, TOOLS, called};
use super::{ImageEntry, ImageReference};
use crate::kubelet::runtime::RuntimeError;

/// A program name that means something other than what the search path says.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Program {
    /// Part of this binary: `podium image-program NAME`.
    Inside(String),
    /// A program of the machine.
    Path(PathBuf),
}

/// What an image reference means on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvedImage {
    /// The reference that was resolved.
    pub reference: ImageReference,
    /// The identity, `sha256:HEX`: changes when the program behind it does.
    pub image_id: String,
    /// What its program takes on disk.
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
    /// The signal that asks its main process to end.
    pub stop_signal: i32,
    /// Names that its containers call and what they mean.
    pub programs: Vec<(String, Program)>,
    /// Directories it brings along, private to each container.
    pub directories: Vec<PathBuf>,
    /// Its containers see the machine's files as they are.
    pub host_view: bool,
}

/// Why a reference resolves to nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    /// The reference cannot be read.
    #[error("{0}")]
    Invalid(String),
    /// The image is known, the tag is not.
    #[error("{0}")]
    UnknownTag(String),
    /// No entry has this name.
    #[error("{0}")]
    UnknownName(String),
    /// The image stands for a program this machine does not have.
    #[error("{0}")]
    ProgramMissing(String),
}

impl From<ResolveError> for RuntimeError {
    fn from(error: ResolveError) -> Self {
        match error {
            ResolveError::Invalid(text) => Self::InvalidImageName(text),
            ResolveError::UnknownTag(text)
            | ResolveError::UnknownName(text)
            | ResolveError::ProgramMissing(text) => Self::ImageNotFound(text),
        }
    }
}

/// The images this machine knows.
#[derive(Clone, Debug)]
pub struct Catalogue {
    entries: Vec<ImageEntry>,
    /// Where a user adds entries; named by errors.
    place: String,
    search_path: OsString,
}

impl Catalogue {
    /// A catalogue with the user's entries; `place` is where errors tell the user to add more
    /// (`/data/images/*.yaml`). Programs are looked for along this process' `PATH`.
    pub fn new(entries: Vec<ImageEntry>, place: impl Into<String>) -> Self {
        let search_path = std::env::var_os("PATH").unwrap_or_else(|| DEFAULT_PATH.into());
        Self { entries, place: place.into(), search_path }
    }

    /// Names and tags of all images: the user's first, then the built-in ones.
    pub fn list(&self) -> Vec<(String, Vec<String>)> {
        let own = self.entries.iter().map(|entry| (entry.name.clone(), entry.tags.clone()));
        let built_in = BUILTINS
            .iter()
            .map(|image| (image.name.to_owned(), image.tags.iter().map(|&tag| tag.to_owned()).collect()));
        own.chain(built_in).collect()
    }

    /// What the reference means here.
    pub fn resolve(&self, reference: &str) -> Result<ResolvedImage, ResolveError> {
        let parsed = ImageReference::parse(reference).map_err(|error| {
            ResolveError::Invalid(format!(
                "Failed to apply default image tag \"{reference}\": couldn't parse image name \
                 \"{reference}\": {error}"
            ))
        })?;
        if let Some(resolved) = self.resolve_user_entry(&parsed)? {
            return Ok(resolved);
        }
        let Some(image) = BUILTINS.iter().find(|image| image.name == parsed.base_name()) else {
            return Err(ResolveError::UnknownName(format!(
                "pull access denied for {}, repository does not exist: nothing is downloaded here; \
                 declare the image in {} or use a built-in one such as nginx, busybox or python",
                parsed.name(),
                self.place
            )));
        };
        self.check_tag(&parsed, image.tags.iter().copied())?;
        self.resolve_builtin(parsed, image)
    }

    fn resolve_user_entry(&self, parsed: &ImageReference) -> Result<Option<ResolvedImage>, ResolveError> {
        let named = |entry: &&ImageEntry| {
            ImageReference::parse(&entry.name).is_ok_and(|own| own.name() == parsed.name())
                || (!entry.name.contains('/') && entry.name == parsed.base_name())
        };
        let candidates: Vec<&ImageEntry> = self.entries.iter().filter(named).collect();
        let tag_known = |entry: &&&ImageEntry| {
            entry.tags.is_empty() || parsed.tag.as_ref().is_none_or(|tag| entry.tags.contains(tag))
        };
        let Some(entry) = candidates.iter().find(tag_known) else {
            if candidates.is_empty() || BUILTINS.iter().any(|image| image.name == parsed.base_name()) {
                return Ok(None);
            }
            let tags = candidates.iter().flat_map(|entry| entry.tags.iter().map(String::as_str));
            self.check_tag(parsed, tags)?;
            return Ok(None);
        };
        let program = entry.entrypoint.first().or(entry.cmd.first());
        let path = program.and_then(|program| find_program(program, &self.search_path));
        let directory = path.as_deref().and_then(Path::parent).map(Path::to_path_buf);
        let stop_signal = match &entry.stop_signal {
            Some(name) => signal_number(name).ok_or_else(|| {
                ResolveError::ProgramMissing(format!(
                    "image {} in {}: stopSignal: {name:?} is no signal",
                    entry.name, self.place
                ))
            })?,
            None => libc::SIGTERM,
        };
        let identity = format!("{entry:?}");
        let (image_id, size_bytes) = self.identify(&identity, path.as_deref(), parsed)?;
        Ok(Some(ResolvedImage {
            reference: parsed.clone(),
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
            host_view: false,
        }))
    }

    fn resolve_builtin(
        &self,
        parsed: ImageReference,
        image: &'static Builtin,
    ) -> Result<ResolvedImage, ResolveError> {
        let (path, mut programs) = match image.stand {
            Stand::Inside(program) => {
                let names = called(program).iter();
                let programs =
                    names.map(|&name| (name.to_owned(), Program::Inside(program.to_owned()))).collect();
                (std::env::current_exe().ok(), programs)
            }
            Stand::Tools => (find_program("sh", &self.search_path), self.shell_for(image)),
            Stand::HostProgram(names) => {
                let found = names.iter().find_map(|name| find_program(name, &self.search_path));
                let path = found.ok_or_else(|| self.program_missing(&parsed, names))?;
                let alias = |&name: &&str| (name.to_owned(), Program::Path(path.clone()));
                let mut programs: Vec<_> = names.iter().map(alias).collect();
                programs.retain(|(name, _)| find_program(name, &self.search_path).is_none());
                (Some(path.clone()), programs)
            }
            Stand::AsGiven => (None, Vec::new()),
        };
        if matches!(image.stand, Stand::Tools | Stand::HostProgram(_)) {
            programs.extend(self.tools_that_lack());
        }
        let identity = format!("{}:{}", image.name, parsed.tag.as_deref().unwrap_or_default());
        let (image_id, size_bytes) = self.identify(&identity, path.as_deref(), &parsed)?;
        let owned = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
        let mut env: Vec<_> =
            image.env.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
        match image.stand {
            Stand::Inside("nginx") => {
                env.push(("NGINX_VERSION".to_owned(), web_version(&parsed, "1.27.4")));
            }
            Stand::Inside("httpd") => {
                env.push(("HTTPD_VERSION".to_owned(), web_version(&parsed, "2.4.63")));
            }
            _ => {}
        }
        let own_directory = match image.stand {
            Stand::HostProgram(_) => path.as_deref().and_then(Path::parent),
            _ => None,
        };
        Ok(ResolvedImage {
            reference: parsed,
            image_id,
            size_bytes,
            entrypoint: owned(image.entrypoint),
            cmd: owned(image.cmd),
            env: with_search_path(env, own_directory),
            working_dir: PathBuf::from(image.working_dir),
            user: None,
            stop_signal: image.stop_signal,
            programs,
            directories: image.directories.iter().map(PathBuf::from).collect(),
            host_view: image.stand == Stand::AsGiven,
        })
    }

    /// `bash` images run the plain shell on machines without one.
    fn shell_for(&self, image: &Builtin) -> Vec<(String, Program)> {
        let Some(shell) = image.cmd.first().filter(|shell| shell.ends_with("bash")) else {
            return Vec::new();
        };
        match (find_program(shell, &self.search_path), find_program("sh", &self.search_path)) {
            (None, Some(sh)) => vec![((*shell).to_owned(), Program::Path(sh))],
            _ => Vec::new(),
        }
    }

    /// Tools that everybody's manifests call and this binary has, where the machine has none.
    fn tools_that_lack(&self) -> impl Iterator<Item = (String, Program)> {
        let lacking = TOOLS.iter().filter(|name| find_program(name, &self.search_path).is_none());
        lacking.map(|&name| (name.to_owned(), Program::Inside(name.to_owned())))
    }

    fn check_tag<'a>(
        &self,
        parsed: &ImageReference,
        tags: impl Iterator<Item = &'a str> + Clone,
    ) -> Result<(), ResolveError> {
        let Some(tag) = &parsed.tag else { return Ok(()) };
        if tags.clone().next().is_none() || tags.clone().any(|known| known == tag) {
            return Ok(());
        }
        let known: Vec<&str> = tags.collect();
        Err(ResolveError::UnknownTag(format!(
            "manifest for {parsed} not found: manifest unknown: {} has the tags {} here; declare others in {}",
            parsed.name(),
            known.join(", "),
            self.place
        )))
    }

    fn program_missing(&self, parsed: &ImageReference, names: &[&str]) -> ResolveError {
        ResolveError::ProgramMissing(format!(
            "image {parsed} stands for the program {} of this machine, which is not installed (looked along \
             PATH): install it or declare the image in {}",
            names.join(" or "),
            self.place
        ))
    }

    /// The identity covers the program's file as it is now: a rebuilt program is a new image.
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
        let mut image_id = "sha256:".to_owned();
        for byte in hash.finalize() {
            // Writing to a String cannot fail.
            let _ = write!(image_id, "{byte:02x}");
        }
        match &parsed.digest {
            Some(digest) if *digest != image_id => Err(ResolveError::UnknownTag(format!(
                "manifest for {parsed} not found: manifest unknown: {} is {image_id} here; declare others in {}",
                parsed.name(),
                self.place
            ))),
            _ => Ok((image_id, size_bytes)),
        }
    }
}

/// The search path of containers whose image sets none.
pub const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Adds a search path that also finds the image's own program, when the usual one would not.
fn with_search_path(mut env: Vec<(String, String)>, program: Option<&Path>) -> Vec<(String, String)> {
    let Some(directory) = program.and_then(Path::to_str) else { return env };
    let usual = DEFAULT_PATH.split(':').any(|known| known == directory);
    if !usual && !env.iter().any(|(name, _)| name == "PATH") {
        env.push(("PATH".to_owned(), format!("{directory}:{DEFAULT_PATH}")));
    }
    env
}

/// The version a web server's tag stands for.
fn web_version(reference: &ImageReference, newest: &str) -> String {
    match reference.tag.as_deref() {
        Some(tag) if tag.starts_with(|first: char| first.is_ascii_digit()) && tag.contains('.') => {
            let version = tag.split('-').next().unwrap_or(tag);
            if version.matches('.').count() == 1 { format!("{version}.0") } else { version.to_owned() }
        }
        _ => newest.to_owned(),
    }
}

/// Where a program is, along a search path; a name with a slash is its own path.
fn find_program(name: &str, search_path: &std::ffi::OsStr) -> Option<PathBuf> {
    let is_program = |path: &PathBuf| {
        path.metadata().is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0)
    };
    if name.contains('/') {
        return Some(PathBuf::from(name)).filter(is_program);
    }
    std::env::split_paths(search_path).map(|directory| directory.join(name)).find(is_program)
}

/// The number of `SIGTERM`, `TERM` or `15`.
pub(super) fn signal_number(text: &str) -> Option<i32> {
    let upper = text.to_ascii_uppercase();
    let name = upper.strip_prefix("SIG").unwrap_or(&upper);
    let number = match name {
        "HUP" => libc::SIGHUP,
        "INT" => libc::SIGINT,
        "QUIT" => libc::SIGQUIT,
        "ABRT" => libc::SIGABRT,
        "KILL" => libc::SIGKILL,
        "USR1" => libc::SIGUSR1,
        "USR2" => libc::SIGUSR2,
        "ALRM" => libc::SIGALRM,
        "TERM" => libc::SIGTERM,
        "CONT" => libc::SIGCONT,
        "STOP" => libc::SIGSTOP,
        "WINCH" => libc::SIGWINCH,
        other => other.parse().ok().filter(|number| (1..=64).contains(number))?,
    };
    Some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn catalogue() -> Catalogue {
        let entry = |text: &str| serde_json::from_str::<ImageEntry>(text).unwrap();
        Catalogue::new(
            vec![
                entry(r#"{"name":"shop","tags":["v1","v2"],"entrypoint":["sh"],"cmd":["-c","true"]}"#),
                entry(r#"{"name":"ghcr.io/me/api","entrypoint":["./api"],"stopSignal":"SIGINT"}"#),
                entry(r#"{"name":"nginx","tags":["mine"],"entrypoint":["sh"]}"#),
            ],
            "/data/images/*.yaml",
        )
    }

    /// IMG-1, IMG-2: what resolves, and to which program.
    #[test]
    fn references_resolve_to_the_users_entries_then_to_built_in_ones() {
        let table: &[(&str, &[&str], &[&str])] = &[
            ("shop:v1", &["sh"], &["-c", "true"]),
            ("registry.example/any/shop:v2", &["sh"], &["-c", "true"]),
            ("ghcr.io/me/api:anything", &["./api"], &[]),
            ("nginx:mine", &["sh"], &[]),
            ("nginx", &[], &["nginx", "-g", "daemon off;"]),
            ("nginx:1.7.9", &[], &["nginx", "-g", "daemon off;"]),
            ("docker.io/library/nginx:alpine", &[], &["nginx", "-g", "daemon off;"]),
            ("httpd:2.4", &[], &["httpd-foreground"]),
            ("k8s.gcr.io/pause:3.9", &["/pause"], &[]),
            ("busybox:1.28", &[], &["sh"]),
            ("host", &[], &[]),
        ];
        for (reference, entrypoint, cmd) in table {
            let image = catalogue().resolve(reference).unwrap();
            assert_eq!(
                (&image.entrypoint[..], &image.cmd[..]),
                (
                    &entrypoint.iter().map(|&text| text.to_owned()).collect::<Vec<_>>()[..],
                    &cmd.iter().map(|&text| text.to_owned()).collect::<Vec<_>>()[..]
                ),
                "{reference}"
            );
            assert!(image.image_id.starts_with("sha256:") && image.image_id.len() == 71, "{reference}");
        }
        assert_eq!(catalogue().resolve("ghcr.io/me/api").unwrap().stop_signal, libc::SIGINT);
        assert_eq!(catalogue().resolve("nginx").unwrap().stop_signal, libc::SIGQUIT);
    }

    /// IMG-2: nginx:1.91 does not exist, and the error names the fix.
    #[test]
    fn what_does_not_resolve_names_the_fix() {
        let error = catalogue().resolve("nginx:1.91").unwrap_err();
        assert!(matches!(error, ResolveError::UnknownTag(_)));
        let text = error.to_string();
        assert!(text.starts_with("manifest for nginx:1.91 not found: manifest unknown"), "{text}");
        assert!(text.contains("1.7.9, 1.9.1") && text.contains("/data/images/*.yaml"), "{text}");

        assert!(matches!(catalogue().resolve("shop:v3"), Err(ResolveError::UnknownTag(_))));
        assert!(matches!(catalogue().resolve("ghcr.io/other/api"), Err(ResolveError::UnknownName(_))));
        assert!(matches!(catalogue().resolve("No/Way:x:y"), Err(ResolveError::Invalid(_))));
        let mut bare = catalogue();
        bare.search_path = OsString::from("/nowhere");
        let missing = bare.resolve("redis:7").unwrap_err();
        assert!(matches!(&missing, ResolveError::ProgramMissing(text) if text.contains("redis-server")));
    }

    #[test]
    fn a_digest_must_be_the_images_own() {
        let known = catalogue().resolve("nginx:1.25").unwrap();
        let by_both = format!("nginx:1.25@{}", known.image_id);
        assert_eq!(catalogue().resolve(&by_both).unwrap().image_id, known.image_id);
        let other = format!("nginx@sha256:{}", "0".repeat(64));
        assert!(matches!(catalogue().resolve(&other), Err(ResolveError::UnknownTag(_))));
    }

    #[test]
    fn tags_become_versions() {
        for (tag, expect) in
            [("1.9.1", "1.9.1"), ("1.25", "1.25.0"), ("alpine", "9.9.9"), ("2.4-alpine", "2.4.0")]
        {
            let reference = ImageReference::parse(&format!("nginx:{tag}")).unwrap();
            assert_eq!(web_version(&reference, "9.9.9"), expect);
        }
    }

    #[test]
    fn signals_have_names_and_numbers() {
        for (text, expect) in
            [("SIGQUIT", Some(3)), ("quit", Some(3)), ("9", Some(9)), ("0", None), ("SIGNOPE", None)]
        {
            assert_eq!(signal_number(text), expect, "{text}");
        }
    }
}
