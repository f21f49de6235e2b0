//! Lifecycle hooks (POD-6): exec, httpGet, tcpSocket, sleep. `sync_pod/start.rs` runs postStart hooks, and
//! `sync_pod/background.rs` preStop hooks.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, HTTPGetAction, LifecycleHandler};

use super::probe::check::{self, Target};
use base::tls_client::PLAIN_HTTP;

/// A limit longer than any hook takes: only the pod's end cuts the hook short.
pub(super) const UNLIMITED: Duration = Duration::from_hours(365 * 24);

/// The success of a hook.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct HookSuccess {
    /// The `HOST:PORT` of the server without TLS that got the HTTPS request again as HTTP.
    pub(super) http_fallback: Option<String>,
}

/// Runs a hook to its end, for `limit` at most.
pub(super) async fn run(
    target: &Target,
    container: &Container,
    hook: &LifecycleHandler,
    limit: Duration,
) -> Result<HookSuccess, String> {
    let work = async {
        if let Some(exec) = &hook.exec {
            let command = exec.command.clone().unwrap_or_default();
            let output = target.runtime.exec_sync(&target.id, command.clone(), limit).await;
            return match output {
                Ok(output) if output.exit_code == 0 => Ok(HookSuccess::default()),
                Ok(output) => Err(format!(
                    "command '{}' exited with {}: {}",
                    command.join(" "),
                    output.exit_code,
                    String::from_utf8_lossy(&output.output)
                )),
                Err(error) => Err(error.to_string()),
            };
        }
        if let Some(sleep) = &hook.sleep {
            tokio::time::sleep(super::spec::seconds(Some(sleep.seconds), 0)).await;
            return Ok(HookSuccess::default());
        }
        if target.hollow {
            return Ok(HookSuccess::default());
        }
        if let Some(get) = &hook.http_get {
            return http_get(target, container, get).await;
        }
        if let Some(socket) = &hook.tcp_socket {
            check::tcp_connect(&*target.runtime.dialer(), target.endpoint, container, socket).await?;
        }
        Ok(HookSuccess::default())
    };
    match tokio::time::timeout(limit, work).await {
        Ok(result) => result,
        Err(_) => Err("the hook did not finish within the grace period".into()),
    }
}

/// Sends a hook's request; any status is a success. As in Kubernetes, a server without TLS gets an HTTPS request again
/// as HTTP, without credentials.
async fn http_get(
    target: &Target,
    container: &Container,
    get: &HTTPGetAction,
) -> Result<HookSuccess, String> {
    let Err(error) = send(target, container, get).await else { return Ok(HookSuccess::default()) };
    if !error.ends_with(PLAIN_HTTP) {
        return Err(error);
    }
    let mut plain = HTTPGetAction { scheme: Some("HTTP".into()), ..get.clone() };
    if let Some(headers) = &mut plain.http_headers {
        headers.retain(|header| !header.name.eq_ignore_ascii_case("authorization"));
    }
    Box::pin(send(target, container, &plain)).await.map_err(|_| error)?;
    Ok(HookSuccess { http_fallback: Some(check::authority(target.endpoint, container, get)) })
}

async fn send(target: &Target, container: &Container, get: &HTTPGetAction) -> Result<(), String> {
    let dialer = target.runtime.dialer();
    check::http_get(&*dialer, target.endpoint, container, get, "kube-lifecycle/1.37").await.map(|_| ())
}
