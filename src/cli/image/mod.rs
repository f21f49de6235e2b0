//! `podium image list|load|rm`: the images of a data directory (CLI-4, IMG-3).
//!
//! The commands work on the files of the data directory, with or without a running instance; a running one uses the
//! changed images from the next pull on.

mod list;
mod load;

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Subcommand;

use super::flags::InstanceArgs;
use super::output::print_line;
use cluster::default_data_dir;
use host::containers_of_image;
use images::ImageStore;

/// The commands for images.
#[derive(Debug, Subcommand)]
pub(super) enum ImageCommand {
    /// List all images: built in, declared in DATA/images/*.yaml, and loaded
    List {
        #[command(flatten)]
        instance: InstanceArgs,
        /// Path to the config file, for the images it declares
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
    },
    /// Load an image archive (docker save, podman save, OCI layout; also with gzip or zstd); it runs in its own root file system
    Load(load::LoadRequest),
    /// Remove loaded images by name or ID
    Rm {
        #[command(flatten)]
        instance: InstanceArgs,
        /// NAME:TAG, or the prefix of an ID (repeatable)
        #[arg(required = true, value_name = "IMAGE")]
        images: Vec<String>,
    },
}

pub(super) fn run(command: ImageCommand) -> Result<()> {
    match command {
        ImageCommand::List { instance, config } => list::run(&instance, config.as_deref()),
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

/// Opens a file to load; an error contains its name.
fn open(path: &std::path::Path) -> Result<std::fs::File> {
    std::fs::File::open(path).with_context(|| path.display().to_string())
}
