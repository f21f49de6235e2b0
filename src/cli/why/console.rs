//! Answers the console's queries about connections and policies.

use std::sync::Arc;

use console_operations::diagnostics::{Diagnostics, PolicyTarget};
use futures::FutureExt;
use futures::future::BoxFuture;
use kube::Client;
use serde_json::Value;

use super::collect::{Failure, meaning_of_policy, policies_of_pod, report};
use super::parse::question;
use crate::cli::error_line;
use object::Key;

/// The console's interface to these queries.
pub(in crate::cli) fn diagnosis() -> Arc<dyn Diagnostics> {
    Arc::new(Diagnosis)
}

#[derive(Debug)]
struct Diagnosis;

impl Diagnostics for Diagnosis {
    fn diagnose_connection(
        &self,
        client: Client,
        source: String,
        destination: String,
    ) -> BoxFuture<'static, Result<Value, String>> {
        async move {
            let question =
                question(&source, &destination, "default").map_err(|failure| describe(&failure))?;
            let report = report(&client, &question).await.map_err(|failure| describe(&failure))?;
            serde_json::to_value(report).map_err(|error| error.to_string())
        }
        .boxed()
    }

    fn policies(
        &self,
        client: Client,
        object: PolicyTarget,
    ) -> BoxFuture<'static, Result<Vec<String>, String>> {
        async move {
            let lines = match object {
                PolicyTarget::Pod { namespace, name } => {
                    policies_of_pod(&client, &Key::new(namespace, name)).await
                }
                PolicyTarget::Policy { namespace, name } => {
                    meaning_of_policy(&client, &Key::new(namespace, name)).await
                }
            };
            lines.map_err(|failure| describe(&failure))
        }
        .boxed()
    }
}

fn describe(failure: &Failure) -> String {
    match failure {
        Failure::Misuse(misuse) => misuse.clone(),
        Failure::Other(error) => error_line(error),
    }
}
