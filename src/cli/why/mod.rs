//! `podium why-not-connected` checks the path of a connection step by step (NET-8).

mod collect;
mod console;
mod parse;
mod text;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use kube::Client;

use super::apply::{client_by, client_of};
use super::flags::InstanceArgs;
use super::output::{eprint_line, print_line};
use super::runtime::runtime;
use super::{DONE, FAILED, error_line};
use why::Report;

use collect::{Failure, report};
pub(super) use console::diagnosis;
use parse::question;

/// Exit code for an invalid question.
const MISUSED: u8 = 2;

#[derive(Debug, clap::Args)]
pub(super) struct WhyRequest {
    /// Pod that opens the connection: NAME, or NAMESPACE/NAME
    source: String,
    /// Destination: a name as programs use it (web, web.shop, example.com), svc/NAME, NAMESPACE/POD or pod/NAME, or an
    /// address; with :PORT by number or name, which is optional if there is only one
    #[arg(value_name = "DESTINATION[:PORT]")]
    destination: String,
    /// Namespace of the source if it specifies none
    #[arg(short, long, value_name = "NAME", default_value = "default")]
    namespace: String,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    output: Format,
    #[command(flatten)]
    instance: InstanceArgs,
    /// Path to the kubeconfig file of the user to query the API as [default: the instance's]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
}

/// The output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// Sentences
    Text,
    /// JSON
    Json,
}

/// Runs the command. The exit code is 0 if the connection works, 1 if it does not, and 2 if the question is invalid.
pub(super) fn run(request: &WhyRequest) -> ExitCode {
    let answered =
        runtime().map_err(Failure::from).and_then(|runtime| runtime.block_on(build_report(request)));
    match answered {
        Ok(report) => {
            match request.output {
                Format::Text => text::lines(&report).iter().for_each(|line| print_line(line)),
                Format::Json => {
                    print_line(&serde_json::to_string_pretty(&report).expect("a report is JSON"));
                }
            }
            ExitCode::from(if report.verdict.connected { DONE } else { FAILED })
        }
        Err(Failure::Misuse(misuse)) => {
            eprint_line(&format!("podium: {misuse}"));
            ExitCode::from(MISUSED)
        }
        Err(Failure::Other(error)) => {
            eprint_line(&format!("podium: {}", error_line(&error)));
            ExitCode::from(FAILED)
        }
    }
}

async fn build_report(request: &WhyRequest) -> Result<Report, Failure> {
    let question = question(&request.source, &request.destination, &request.namespace)?;
    let client = client(request).await?;
    report(&client, &question).await
}

async fn client(request: &WhyRequest) -> Result<Client> {
    client_for(&request.instance, request.kubeconfig.as_deref()).await
}

/// Returns a client with this kubeconfig, or with the instance's own.
pub(super) async fn client_for(instance: &InstanceArgs, kubeconfig: Option<&Path>) -> Result<Client> {
    match kubeconfig {
        Some(path) => client_by(path).await,
        None => client_of(instance).await,
    }
}
