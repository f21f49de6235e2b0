//! `podium why-not-connected`: the way of a connection, walked step by step (NET-8).

mod collect;
mod console;
mod question;
mod text;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};

use super::apply::client_of;
use super::flags::InstanceArgs;
use super::output::{note, say};
use super::runtime::runtime;
use super::{DONE, FAILED, error_line};
use network::why::Report;

use collect::{Failure, report};
pub(super) use console::diagnosis;
use question::question;

/// The question makes no sense.
const MISUSED: u8 = 2;

#[derive(Debug, clap::Args)]
pub(super) struct WhyRequest {
    /// The pod that would connect: NAME, or NAMESPACE/NAME.
    source: String,
    /// Whom to: a name as a program says it (web, web.shop, example.com), svc/NAME, NAMESPACE/POD or pod/NAME, an address;
    /// :PORT by number or name, which may be left out where there is one.
    #[arg(value_name = "DESTINATION[:PORT]")]
    destination: String,
    /// The source's namespace where it names none.
    #[arg(short, long, value_name = "NAME", default_value = "default")]
    namespace: String,
    /// How it is told.
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    output: Format,
    #[command(flatten)]
    instance: InstanceArgs,
    /// Ask as whom this kubeconfig says, not as the instance's own [default: the instance's].
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
}

/// How it is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// In sentences.
    Text,
    /// As JSON.
    Json,
}

/// Ends with 0 when the connection comes about, 1 when it does not, 2 when the question makes no sense.
pub(super) fn run(request: &WhyRequest) -> ExitCode {
    let answered = runtime().map_err(Failure::from).and_then(|runtime| runtime.block_on(answer(request)));
    match answered {
        Ok(report) => {
            match request.output {
                Format::Text => text::lines(&report).iter().for_each(|line| say(line)),
                Format::Json => say(&serde_json::to_string_pretty(&report).unwrap_or_default()),
            }
            ExitCode::from(if report.verdict.connected { DONE } else { FAILED })
        }
        Err(Failure::Misuse(misuse)) => {
            note(&format!("podium: {misuse}"));
            ExitCode::from(MISUSED)
        }
        Err(Failure::Other(error)) => {
            note(&format!("podium: {}", error_line(&error)));
            ExitCode::from(FAILED)
        }
    }
}

async fn answer(request: &WhyRequest) -> Result<Report, Failure> {
    let question = question(&request.source, &request.destination, &request.namespace)?;
    let client = client(request).await?;
    report(&client, &question).await
}

async fn client(request: &WhyRequest) -> Result<Client> {
    client_by(&request.instance, request.kubeconfig.as_deref()).await
}

/// A client with this kubeconfig, or with the instance's own.
pub(super) async fn client_by(instance: &InstanceArgs, kubeconfig: Option<&Path>) -> Result<Client> {
    let Some(path) = kubeconfig else { return client_of(instance).await };
    let kubeconfig = Kubeconfig::read_from(path).with_context(|| path.display().to_string())?;
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    Ok(Client::try_from(config)?)
}
