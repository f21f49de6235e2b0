//! `podium image explain`: how a name resolves, and what its registry has.

use std::time::Duration;

use anyhow::{Result, anyhow};

use super::CatalogueArgs;
use crate::cli::flags::InstanceArgs;
use crate::cli::output::{print_line, print_table};
use crate::cli::runtime::runtime;
use images::{ImageReference, Puller};

/// The time that the registry has for its answer.
const PATIENCE: Duration = Duration::from_secs(20);

/// The names to explain.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct ExplainRequest {
    #[command(flatten)]
    catalogue: CatalogueArgs,
    /// Do not ask the registry
    #[arg(long)]
    offline: bool,
    /// Name of the image, as a pod has it
    #[arg(value_name = "NAME")]
    name: String,
}

impl ExplainRequest {
    pub(super) fn instance(&self) -> &InstanceArgs {
        &self.catalogue.instance
    }
}

pub(super) fn run(request: &ExplainRequest) -> Result<()> {
    let (images, problems) = request.catalogue.open()?;
    let explanation = images.catalogue.explain(&request.name).map_err(|error| anyhow!(error))?;
    print_line(&explanation.name);
    let chosen = explanation.steps.iter().position(|step| step.applies);
    let rows = explanation.steps.iter().enumerate().map(|(number, step)| {
        let mark = match chosen {
            Some(first) if first == number => "used",
            _ if step.applies => "if the ones above had none",
            _ => "-",
        };
        [format!("{}.", number + 1), step.source.to_owned(), mark.to_owned(), step.reason.clone()]
    });
    print_table(&rows.collect::<Vec<_>>());
    for problem in problems {
        print_line(&format!("note: {problem}"));
    }
    let asks = explanation.steps.last().is_some_and(|step| step.applies) && !request.offline;
    if asks {
        print_line(&runtime()?.block_on(ask(&images.puller, &request.name)));
    }
    if chosen.is_none() {
        return Err(anyhow!("no source has the image"));
    }
    Ok(())
}

/// Describes the image that the registry has.
async fn ask(puller: &Puller, name: &str) -> String {
    let query = async {
        let reference = ImageReference::parse(name).map_err(|error| error.to_string())?;
        let keyring = puller.keyring(&[]).map_err(|error| error.to_string())?;
        let remote = puller.client().open(&reference, &keyring).await.map_err(|error| error.to_string())?;
        let manifest = remote.manifest().await.map_err(|error| error.with_hint())?;
        let bytes: u64 = manifest.layers.iter().map(|layer| layer.size).sum();
        let (layers, size) = (manifest.layers.len(), super::size(bytes));
        Ok(format!("registry: {} with {layers} layers ({size}) from {}", manifest.digest, manifest.origin))
    };
    match tokio::time::timeout(PATIENCE, query).await {
        Ok(Ok(found)) => found,
        Ok(Err(error)) => {
            let error: String = error;
            format!("registry: {error}")
        }
        Err(_) => format!("registry: no answer within {} s", PATIENCE.as_secs()),
    }
}
