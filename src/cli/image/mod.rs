//! `podium image explain|list|load|prune|pull|push|rm`: the images of a data directory (CLI-4, IMG-3, IMG-7 to IMG-9).
//!
//! The commands work on the files of the data directory, with or without a running instance; a running one uses the
//! changed images from the next pull on.

mod explain;
mod list;
mod load;
mod pull;
mod push;

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Subcommand;

use super::flags::InstanceArgs;
use super::output::print_line;
use cluster::{ConfigFile, Images, default_data_dir, open_images};
use host::containers_of_image;
use images::ImageStore;
use images::store::Provenance;

/// The commands for images.
#[derive(Debug, Subcommand)]
pub(super) enum ImageCommand {
    /// Explain where the image of a name comes from: loaded, declared, built in, or its registry
    Explain(explain::ExplainRequest),
    /// List all images: built in, declared in DATA/images/*.yaml, loaded and pulled
    List {
        #[command(flatten)]
        catalogue: CatalogueArgs,
    },
    /// Load an image archive (docker save, podman save, OCI layout; also with gzip or zstd); it runs in its own root file system
    Load(load::LoadRequest),
    /// Pull images from their registries
    Pull(pull::PullRequest),
    /// Push the image of an archive to a registry
    Push(push::PushRequest),
    /// Remove the pulled and built images that no container uses
    Prune {
        #[command(flatten)]
        instance: InstanceArgs,
        /// Remove loaded images, too
        #[arg(long)]
        all: bool,
    },
    /// Remove loaded or pulled images by name or ID
    #[command(visible_alias = "remove")]
    Rm {
        #[command(flatten)]
        instance: InstanceArgs,
        /// NAME:TAG, or the prefix of an ID (repeatable)
        #[arg(required = true, value_name = "IMAGE")]
        images: Vec<String>,
    },
}

/// The catalogue and the registries that a command works with.
#[derive(Debug, clap::Args)]
pub(super) struct CatalogueArgs {
    #[command(flatten)]
    instance: InstanceArgs,
    /// Path to the config file, for the images that it declares and the settings of registries
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl CatalogueArgs {
    /// The images of the data directory, and the problems of their configuration.
    fn open(&self) -> Result<(Images, Vec<String>)> {
        let file: ConfigFile = match &self.config {
            Some(path) => {
                let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
                let value = manifest::from_yaml(&text).with_context(|| path.display().to_string())?;
                serde_json::from_value(value).with_context(|| path.display().to_string())?
            }
            None => ConfigFile::default(),
        };
        Ok(open_images(&file, &data_dir(&self.instance)?))
    }
}

pub(super) fn run(command: ImageCommand) -> Result<()> {
    match command {
        ImageCommand::Explain(request) => explain::run(&request),
        ImageCommand::List { catalogue } => list::run(&catalogue),
        ImageCommand::Pull(request) => pull::run(&request),
        ImageCommand::Push(request) => push::run(request),
        ImageCommand::Prune { instance, all } => prune(&instance, all),
        ImageCommand::Load(request) => load::run(request),
        ImageCommand::Rm { instance, images } => remove(&instance, &images),
    }
}

fn data_dir(instance: &InstanceArgs) -> Result<PathBuf> {
    let directory = match &instance.data_dir {
        Some(directory) => directory.clone(),
        None => default_data_dir()?,
    };
    // The canonical path, as the running instance has it, so that image roots can be compared.
    Ok(directory.canonicalize().unwrap_or(directory))
}

fn remove(instance: &InstanceArgs, images: &[String]) -> Result<()> {
    let data_dir = data_dir(instance)?;
    let store = ImageStore::of(&data_dir);
    let users = |image: &images::StoredImage| {
        let users = containers_of_image(&data_dir.join("nodes"), &image.id);
        (!users.is_empty()).then(|| users.join(", "))
    };
    for image in images {
        let removed = store.remove(image, users)?;
        for gone in removed {
            let action = if gone.starts_with("sha256:") { "deleted" } else { "untagged" };
            print_line(&format!("{action} {gone}"));
        }
    }
    Ok(())
}

fn prune(instance: &InstanceArgs, all: bool) -> Result<()> {
    let data_dir = data_dir(instance)?;
    let unused = |image: &images::StoredImage| {
        (all || image.provenance != Provenance::Loaded)
            && containers_of_image(&data_dir.join("nodes"), &image.id).is_empty()
    };
    let removed = ImageStore::of(&data_dir).prune(unused)?;
    for image in &removed {
        print_line(&format!("deleted {}", image.id));
    }
    let bytes = removed.iter().map(|image| image.size_bytes).sum();
    print_line(&format!("{} images removed, with {} of files", removed.len(), size(bytes)));
    Ok(())
}

/// `3.2MB`, in the decimal units image tools use.
fn size(bytes: u64) -> String {
    let units = ["B", "kB", "MB", "GB", "TB"];
    let (mut value, mut unit) = (bytes as f64, 0);
    while value >= 999.5 && unit + 1 < units.len() {
        value /= 1000.0;
        unit += 1;
    }
    if unit == 0 || value >= 99.5 {
        format!("{value:.0}{}", units[unit])
    } else {
        format!("{value:.1}{}", units[unit])
    }
}

/// Opens a file to load; an error contains its name.
fn open(path: &std::path::Path) -> Result<std::fs::File> {
    std::fs::File::open(path).with_context(|| path.display().to_string())
}
