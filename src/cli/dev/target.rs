//! The images that a run builds: from entries with `build:`, and from `--build NAME=DIR`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::patterns::WatchRules;
use super::watch::SourceWatch;
use images::{ImageBuild, ImageEntry, ImageReference};

/// The names of Containerfiles in a directory, the preferred one first.
const CONTAINERFILES: [&str; 2] = ["Containerfile", "Dockerfile"];
/// The name of a directory's own build program.
const BUILD_PROGRAM: &str = "build";
/// The maximum size of an ignore file.
const IGNORE_FILE_BYTES: u64 = 1 << 20;

/// An image to build.
pub(super) struct BuildTarget {
    /// The entry that its versions are made of.
    pub(super) entry: ImageEntry,
    pub(super) recipe: Recipe,
    /// The watched sources: the build's directory, and the Containerfile if it is outside.
    pub(super) watches: Vec<SourceWatch>,
}

/// The way to build an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Recipe {
    /// A command, whose result is a file: a program or an image archive.
    Command {
        /// The words of the command; none if the file is used as it is.
        words: Vec<String>,
        directory: PathBuf,
        /// The result, unless the command writes to `$PODIUM_OUTPUT`.
        output: Option<PathBuf>,
    },
    /// A Containerfile and the directory that it copies from.
    Containerfile { file: PathBuf, context: PathBuf },
}

impl BuildTarget {
    pub(super) fn name(&self) -> &str {
        &self.entry.name
    }

    /// The words of the image's entry that mean the result of its build.
    pub(super) fn words_of_built_file(&self) -> Vec<String> {
        let Recipe::Command { directory, output: Some(output), .. } = &self.recipe else { return Vec::new() };
        self.entry.words().filter(|word| directory.join(word) == *output).map(str::to_owned).collect()
    }

    /// Returns true if a manifest's image is this one, under any tag. Without a slash the name matches in every
    /// repository, as the entries of a config file do.
    pub(super) fn is_image_of(&self, reference: &str) -> bool {
        let Ok(image) = ImageReference::parse(reference) else { return false };
        let name = self.name();
        ImageReference::parse(name).is_ok_and(|own| own.name() == image.name())
            || (!name.contains('/') && image.base_name() == name)
    }
}

/// The targets of a run. `entries` come with the directory from which their relative paths start; `requested` is
/// `NAME=DIR`.
pub(super) fn targets(entries: Vec<(ImageEntry, PathBuf)>, requested: &[String]) -> Result<Vec<BuildTarget>> {
    let mut targets: Vec<BuildTarget> = Vec::new();
    for request in requested {
        let Some((name, directory)) =
            request.split_once('=').filter(|(name, path)| !name.is_empty() && !path.is_empty())
        else {
            bail!("--build {request}: expected NAME=DIR, such as app=./app");
        };
        if targets.iter().any(|target| target.name() == name) {
            bail!("--build {request}: the image {name} is already built from another directory");
        }
        let declared = entries.iter().find(|(entry, _)| entry.name == name).map(|(entry, _)| entry.clone());
        let entry = declared.unwrap_or_else(|| ImageEntry::named(name));
        if let Some((field, reason)) = entry.faults().into_iter().find(|(field, _)| field == "name") {
            bail!("--build {request}: {field}: {reason}");
        }
        targets.push(
            requested_target(entry, Path::new(directory)).with_context(|| format!("--build {request}"))?,
        );
    }
    for (entry, base) in entries {
        let Some(build) = entry.build.clone() else { continue };
        if !targets.iter().any(|target| target.name() == entry.name) {
            let name = entry.name.clone();
            targets.push(declared_target(entry, &build, &base).with_context(|| format!("image {name}"))?);
        }
    }
    Ok(targets)
}

fn requested_target(entry: ImageEntry, directory: &Path) -> Result<BuildTarget> {
    let root = real(directory)?;
    if !root.is_dir() {
        bail!("{} is not a directory", root.display());
    }
    let found = CONTAINERFILES.iter().map(|name| root.join(name)).find(|file| file.is_file());
    let program = root.join(BUILD_PROGRAM);
    let recipe = match found {
        Some(file) => Recipe::Containerfile { file, context: root.clone() },
        None if is_executable(&program) => Recipe::Command {
            words: vec![program.display().to_string()],
            directory: root.clone(),
            output: entry.program().map(|program| root.join(program)),
        },
        None if program.is_file() => bail!("{} is not executable", program.display()),
        None => bail!(
            "{} has no Containerfile, no Dockerfile and no executable file named build, and no `build:` in the config \
             file describes the image",
            root.display()
        ),
    };
    Ok(new_target(entry, recipe, root))
}

fn declared_target(entry: ImageEntry, build: &ImageBuild, base: &Path) -> Result<BuildTarget> {
    let directory = real(&base.join(build.directory.as_deref().unwrap_or(Path::new("."))))?;
    if let Some(file) = &build.containerfile {
        let file = directory.join(file);
        let parent = file.parent().unwrap_or(&directory);
        let context =
            build.context.as_ref().map_or_else(|| parent.to_path_buf(), |context| directory.join(context));
        let context = real(&context)?;
        return Ok(new_target(entry, Recipe::Containerfile { file, context: context.clone() }, context));
    }
    let program = entry.program().filter(|program| program.contains('/'));
    let output = build.output.clone().or_else(|| program.map(PathBuf::from));
    let output = output.map(|output| directory.join(output));
    let recipe = Recipe::Command { words: build.command.clone(), directory: directory.clone(), output };
    Ok(new_target(entry, recipe, directory))
}

fn new_target(entry: ImageEntry, recipe: Recipe, root: PathBuf) -> BuildTarget {
    let ignore_lines = ignore_lines(&recipe, &root);
    let patterns = entry.watch.iter().map(String::as_str);
    let mut rules = WatchRules::new(patterns, ignore_lines.lines());
    // The result of a build is no source, unless it is used as it is.
    if let Recipe::Command { words, output: Some(output), .. } = &recipe
        && !words.is_empty()
        && let Ok(inside) = output.strip_prefix(&root)
    {
        rules.ignore(&inside.to_string_lossy());
    }
    let mut watches = Vec::new();
    if let Recipe::Containerfile { file, .. } = &recipe
        && !file.starts_with(&root)
        && let (Some(parent), Some(name)) = (file.parent(), file.file_name())
    {
        let rules = WatchRules::new([&*name.to_string_lossy()], []);
        watches.push(SourceWatch::new(parent.to_path_buf(), rules));
    }
    watches.insert(0, SourceWatch::new(root, rules));
    BuildTarget { entry, recipe, watches }
}

/// The lines of the ignore file that applies, if there is one.
fn ignore_lines(recipe: &Recipe, root: &Path) -> String {
    let beside = match recipe {
        Recipe::Containerfile { file, .. } => {
            let mut name = file.as_os_str().to_owned();
            name.push(".dockerignore");
            Some(PathBuf::from(name))
        }
        Recipe::Command { .. } => None,
    };
    let files = beside.into_iter().chain([root.join(".containerignore"), root.join(".dockerignore")]);
    let is_small = |file: &PathBuf| {
        fs::metadata(file).is_ok_and(|about| about.is_file() && about.len() <= IGNORE_FILE_BYTES)
    };
    let file = files.into_iter().find(is_small);
    file.map(base::optional_file::read_optional).unwrap_or_default()
}

fn real(path: &Path) -> Result<PathBuf> {
    path.canonicalize().with_context(|| path.display().to_string())
}

fn is_executable(file: &Path) -> bool {
    fs::metadata(file).is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(text: &str) -> ImageEntry {
        serde_json::from_str(text).unwrap()
    }

    fn refusal(entries: Vec<(ImageEntry, PathBuf)>, requested: &[String]) -> String {
        let error = targets(entries, requested).err().unwrap();
        format!("{error:#}")
    }

    #[tokio::test]
    async fn a_directory_is_built_by_its_containerfile_or_build_program_dev_1() {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().canonicalize().unwrap();
        let request = [format!("app={}", root.display())];
        let error = refusal(Vec::new(), &request);
        assert!(
            error.contains("has no Containerfile, no Dockerfile and no executable file named build"),
            "{error}"
        );
        fs::write(root.join("build"), "#!/bin/sh\n").unwrap();
        assert!(refusal(Vec::new(), &request).ends_with("build is not executable"));
        fs::set_permissions(root.join("build"), fs::Permissions::from_mode(0o755)).unwrap();
        let found = targets(Vec::new(), &request).unwrap();
        let words = vec![root.join("build").display().to_string()];
        assert_eq!(found[0].recipe, Recipe::Command { words, directory: root.clone(), output: None });
        fs::write(root.join("Dockerfile"), "FROM x\n").unwrap();
        let found = targets(Vec::new(), &request).unwrap();
        assert_eq!(found[0].recipe, Recipe::Containerfile { file: root.join("Dockerfile"), context: root });
        for (wrong, expect) in
            [("app", "expected NAME=DIR"), ("=x", "expected NAME=DIR"), ("App=/", "name: ")]
        {
            let error = refusal(Vec::new(), &[wrong.to_owned()]);
            assert!(error.contains(expect), "{error}");
        }
    }

    #[tokio::test]
    async fn an_entry_names_its_build_relative_to_its_file_dev_1() {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().canonicalize().unwrap();
        fs::create_dir(root.join("app")).unwrap();
        let text = r#"{"name":"app","build":{"command":["make"],"directory":"app","output":"out/app"}}"#;
        let found = targets(vec![(entry(text), root.clone())], &[]).unwrap();
        let directory = root.join("app");
        let output = Some(directory.join("out/app"));
        assert_eq!(found[0].recipe, Recipe::Command { words: vec!["make".into()], directory, output });
        let missing = r#"{"name":"app","build":{"command":["make"],"directory":"missing"}}"#;
        assert!(refusal(vec![(entry(missing), root.clone())], &[]).contains("missing"));
        assert!(targets(vec![(entry(r#"{"name":"plain"}"#), root)], &[]).unwrap().is_empty());
    }

    #[tokio::test]
    async fn an_image_is_recognized_under_every_tag_dev_3() {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().canonicalize().unwrap();
        let target = |name: &str| {
            let recipe = Recipe::Containerfile { file: root.join("x"), context: root.clone() };
            new_target(ImageEntry::named(name), recipe, root.clone())
        };
        let table = [
            ("app", "app", true),
            ("app", "app:v1", true),
            ("app", "ghcr.io/me/app:v1", true),
            ("me/app", "me/app:v1", true),
            ("me/app", "app:v1", false),
            ("app", "web", false),
            ("app", "not an image", false),
        ];
        for (name, image, expect) in table {
            assert_eq!(target(name).is_image_of(image), expect, "{name} {image}");
        }
    }
}
