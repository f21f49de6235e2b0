//! `podium image pull`.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use anyhow::Result;

use super::CatalogueArgs;
use crate::cli::output::print_line;
use crate::cli::runtime::runtime;
use base::decimal_size::decimal_size;
use images::Puller;

/// The interval at which a terminal shows the progress.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(200);

/// The images to pull.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct PullRequest {
    #[command(flatten)]
    pub(super) catalogue: CatalogueArgs,
    /// Name of the image (repeatable); credentials come from Docker's configuration
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,
}

pub(super) fn run(request: &PullRequest) -> Result<()> {
    let (images, _) = request.catalogue.open()?;
    runtime()?.block_on(async {
        for name in &request.names {
            let image = tokio::select! {
                image = images.puller.pull(name, &[]) => image,
                () = show_progress(&images.puller, name) => continue,
            };
            clear();
            let image = image?;
            print_line(&format!("pulled {name} {} ({})", image.id, decimal_size(image.size_bytes)));
        }
        Ok(())
    })
}

/// Shows the progress on a terminal; never returns.
async fn show_progress(puller: &Puller, name: &str) {
    loop {
        tokio::time::sleep(PROGRESS_INTERVAL).await;
        let Some((done, total)) = puller.progress(name).filter(|_| std::io::stderr().is_terminal()) else {
            continue;
        };
        let total = total.map(|total| format!(" of {}", decimal_size(total))).unwrap_or_default();
        let _ = write!(std::io::stderr(), "\r\u{1b}[K{}{total}", decimal_size(done));
    }
}

fn clear() {
    if std::io::stderr().is_terminal() {
        let _ = write!(std::io::stderr(), "\r\u{1b}[K");
    }
}
