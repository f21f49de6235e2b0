//! `podium image load`.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::cli::flags::InstanceArgs;
use crate::cli::output::{self, print_line};
use images::ImageStore;
use images::store::{Input, LoadOptions};

/// The archive to load.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct LoadRequest {
    #[command(flatten)]
    pub(super) instance: InstanceArgs,
    /// Name for the image, instead of the archive's own
    #[arg(short, long, value_name = "NAME:TAG")]
    tag: Option<String>,
    /// Path to the archive, or - for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

pub(super) fn run(request: LoadRequest) -> Result<()> {
    let data_dir = super::data_dir(&request.instance)?;
    let store = ImageStore::of(&data_dir);
    let is_stdin = request.file == Path::new("-");
    let input = if is_stdin {
        if std::io::stdin().is_terminal() {
            bail!("standard input is a terminal; pipe an archive into it, or name a file");
        }
        Input::Stream(Box::new(std::io::stdin()))
    } else if request.file.is_dir() {
        let file = request.file.display();
        bail!("{file} is a directory: pack an OCI layout with \"tar -C {file} -cf image.tar .\" first");
    } else {
        Input::File(super::open(&request.file)?)
    };
    let options = LoadOptions { tag: request.tag, ..LoadOptions::default() };
    let loaded = store.load(input, &options, |loaded| {
        // The message names the data directory, because a cluster does not find an image that was loaded into another
        // cluster's directory.
        let place = data_dir.display();
        let again = if loaded.was_present { " (already loaded)" } else { "" };
        for name in &loaded.names {
            print_line(&format!("loaded {name} {} into {place}{again}", loaded.image.id));
        }
        for note in &loaded.notes {
            output::eprint_line(&format!("note: {note}"));
        }
    });
    loaded
        .with_context(|| if is_stdin { "standard input".into() } else { request.file.display().to_string() })
}
