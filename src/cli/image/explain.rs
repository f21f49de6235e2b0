//! `podium image explain`: how a name resolves, and what its registry has.

use anyhow::{Result, anyhow};

use super::CatalogueArgs;
use crate::cli::output::print_line;
use crate::cli::runtime::runtime;
use images::{explain_registry, explain_sources};

/// The names to explain.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct ExplainRequest {
    #[command(flatten)]
    pub(super) catalogue: CatalogueArgs,
    /// Do not ask the registry
    #[arg(long)]
    offline: bool,
    /// Name of the image, as a pod has it
    #[arg(value_name = "NAME")]
    name: String,
}

pub(super) fn run(request: &ExplainRequest) -> Result<()> {
    let (images, problems) = request.catalogue.open()?;
    let sources = explain_sources(&images.catalogue, &request.name).map_err(|error| anyhow!(error))?;
    for line in &sources.lines {
        print_line(line);
    }
    for problem in problems {
        print_line(&format!("note: {problem}"));
    }
    if sources.asks_registry && !request.offline {
        print_line(&runtime()?.block_on(explain_registry(&images.puller, &request.name)));
    }
    if !sources.has_source {
        return Err(anyhow!("no source has the image"));
    }
    Ok(())
}
