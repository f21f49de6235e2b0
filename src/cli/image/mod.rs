//! `podium image explain|list|load|prune|pull|push|rm`: the images of a data directory (CLI-4, IMG-3, IMG-7 to IMG-9).
//!
//! The commands work on the files of the data directory, with or without a running instance; a running one uses the
//! changed images from the next pull on.

mod explain;
mod list;
mod load;
mod pull;
mod push;

use std::cell::OnceCell;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Subcommand;

use super::flags::InstanceArgs;
use super::output::{eprint_line, print_line};
use super::user_ids;
use base::count::counted;
use base::decimal_size::decimal_size;
use cluster::{ClusterConfig, ConfigFile, Images, open_images, parse_config};
use host::ImageUsers;
use images::store::Provenance;
use images::{ImageStore, remove_unused};

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
        let file = match &self.config {
            Some(path) => {
                let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
                // The cluster's command line may set other numbers of nodes, so that no name counts as one of them.
                let config =
                    ClusterConfig { nodes: Some(0), hollow_nodes: Some(0), ..ClusterConfig::default() };
                parse_config(&text, &path.display().to_string(), &config)?
            }
            None => ConfigFile::default(),
        };
        Ok(open_images(&file, &data_dir(&self.instance)?))
    }
}

impl ImageCommand {
    fn instance(&self) -> &InstanceArgs {
        match self {
            Self::Explain(request) => &request.catalogue.instance,
            Self::List { catalogue } => &catalogue.instance,
            Self::Pull(request) => &request.catalogue.instance,
            Self::Push(request) => &request.catalogue.instance,
            Self::Prune { instance, .. } | Self::Rm { instance, .. } => instance,
            Self::Load(request) => &request.instance,
        }
    }
}

pub(super) fn run(command: ImageCommand) -> Result<()> {
    // Before there are threads. All commands see the layers that a cluster of this user would use.
    let own = user_ids::of_user(command.instance().data_dir.as_deref());
    let single_id = own.and_then(|own| user_ids::start_over(Some(&own)));
    if let (ImageCommand::Load(_) | ImageCommand::Pull(_), Some(why)) = (&command, single_id) {
        eprint_line(&format!("note: all files of images get a single owner: {why}"));
    }
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
    let directory = instance.directory()?;
    // The canonical path, as the running instance has it, so that image roots can be compared.
    Ok(directory.canonicalize().unwrap_or(directory))
}

fn remove(instance: &InstanceArgs, images: &[String]) -> Result<()> {
    let data_dir = data_dir(instance)?;
    let store = ImageStore::of(&data_dir);
    for image in images {
        let removed = remove_unused(&store, &data_dir.join("nodes"), image)?;
        for gone in removed {
            let action = if gone.starts_with("sha256:") { "deleted" } else { "untagged" };
            print_line(&format!("{action} {gone}"));
        }
    }
    Ok(())
}

fn prune(instance: &InstanceArgs, all: bool) -> Result<()> {
    let data_dir = data_dir(instance)?;
    // Read when the store is locked for the removal.
    let users = OnceCell::new();
    let read = || ImageUsers::read(&data_dir.join("nodes"));
    let unused = |image: &images::StoredImage| {
        (all || image.provenance != Provenance::Loaded) && !users.get_or_init(read).uses(&image.id)
    };
    let removed = ImageStore::of(&data_dir).prune(unused)?;
    for image in &removed {
        print_line(&format!("deleted {}", image.id));
    }
    let bytes = removed.iter().map(|image| image.size_bytes).sum();
    let images = counted(removed.len(), "image");
    print_line(&format!("{images} removed, with {} of files", decimal_size(bytes)));
    Ok(())
}

/// Opens a file to load; an error contains its name.
fn open(path: &std::path::Path) -> Result<std::fs::File> {
    std::fs::File::open(path).with_context(|| path.display().to_string())
}
