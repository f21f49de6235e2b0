//! `podium image push`.

use std::path::PathBuf;

use anyhow::{Context, Result, anyhow};

use super::CatalogueArgs;
use crate::cli::output::print_line;
use crate::cli::runtime::runtime;
use images::registry::ByteCount;
use images::store::{Input, LoadOptions};
use images::{ImageReference, push};

/// The image to push.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct PushRequest {
    #[command(flatten)]
    pub(super) catalogue: CatalogueArgs,
    /// Name of the image in the archive, if it contains several
    #[arg(long, value_name = "NAME:TAG")]
    image: Option<String>,
    /// Path to the archive (docker save, podman save, OCI layout; also with gzip or zstd)
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Name in the registry; credentials come from Docker's configuration
    #[arg(value_name = "NAME")]
    name: String,
}

pub(super) fn run(request: PushRequest) -> Result<()> {
    let (images, _) = request.catalogue.open()?;
    let name = ImageReference::parse(&request.name)
        .map_err(|error| anyhow!("image name {:?}: {error}", request.name))?;
    let input = Input::File(super::open(&request.file)?);
    let options = LoadOptions { tag: request.image, ..LoadOptions::default() };
    let image = images.store.blobs(input, &options).with_context(|| request.file.display().to_string())?;
    let keyring = images.puller.keyring(&[])?;
    let pushed =
        runtime()?.block_on(push::push(images.puller.client(), &keyring, &name, &image, &ByteCount::new()));
    let digest = pushed.map_err(|error| anyhow!(error.with_hint()))?;
    print_line(&format!("pushed {} {digest}", name.full_name()));
    Ok(())
}
