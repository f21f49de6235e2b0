//! The text of `podium image explain`, which nodes give to clients, too (IMG-9): how a name resolves, and what its
//! registry has.

use std::time::Duration;

use crate::{Catalogue, ImageReference, Puller};
use base::decimal_size::decimal_size;

/// The time that the registry has for its answer.
const PATIENCE: Duration = Duration::from_secs(20);

/// The sources of images and their relation to a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExplainedSources {
    /// The full name, and a line for each source in their order.
    pub lines: Vec<String>,
    /// A source has the image, or may have it.
    pub has_source: bool,
    /// The registry is one of the sources that apply: [`explain_registry`] tells what it has.
    pub asks_registry: bool,
}

/// Explains how a name resolves; an error says why it is not valid.
pub fn explain_sources(catalogue: &Catalogue, name: &str) -> Result<ExplainedSources, String> {
    let explanation = catalogue.explain(name)?;
    let chosen = explanation.steps.iter().position(|step| step.applies);
    let rows = explanation.steps.iter().enumerate().map(|(number, step)| {
        let mark = match chosen {
            Some(first) if first == number => "used",
            _ if step.applies => "if the ones above had none",
            _ => "-",
        };
        [format!("{}.", number + 1), step.source.to_owned(), mark.to_owned(), step.reason.clone()]
    });
    let mut lines = vec![explanation.name.clone()];
    lines.extend(aligned(&rows.collect::<Vec<_>>()));
    Ok(ExplainedSources {
        lines,
        has_source: chosen.is_some(),
        asks_registry: explanation.steps.last().is_some_and(|step| step.applies),
    })
}

/// The rows as lines with aligned columns.
fn aligned<const N: usize>(rows: &[[String; N]]) -> Vec<String> {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
    let widths: [usize; N] = std::array::from_fn(width);
    let line = |row: &[String; N]| {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}   "));
        cells.collect::<String>().trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

/// Describes the image that the registry has, or its error, in one line.
pub async fn explain_registry(puller: &Puller, name: &str) -> String {
    let query = async {
        let reference = ImageReference::parse(name).map_err(|error| error.to_string())?;
        let keyring = puller.keyring(&[]).map_err(|error| error.to_string())?;
        let remote = puller.client().open(&reference, &keyring).await.map_err(|error| error.to_string())?;
        let manifest = remote.manifest().await.map_err(|error| error.with_hint())?;
        let bytes: u64 = manifest.layers.iter().map(|layer| layer.size).sum();
        let (layers, size) = (manifest.layers.len(), decimal_size(bytes));
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
