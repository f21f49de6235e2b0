//! The contexts of the user's kubeconfig, and clients for them (CON-16).
//!
//! The file is read each time, because other programs write it. The console requests the version of a cluster before it
//! switches to it, so that a cluster that does not answer is reported and the present one stays open.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use kube::Client;
use kube::config::KubeConfigOptions;
use serde::{Deserialize, Serialize};

use super::action::{error_text, silence_text};
use super::kubeconfig;

/// The timeout for a cluster's answer, including any credential plugin.
const TIMEOUT: Duration = Duration::from_secs(20);
/// The maximum number of contexts listed; no hand-written file has more.
const MAX_CONTEXTS: usize = 1_000;

/// A context of the kubeconfig.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContextEntry {
    /// Its name.
    pub name: String,
    /// The cluster's name in the file.
    pub cluster: String,
    /// The server's URL.
    pub server: String,
    /// The user's name in the file.
    pub user: String,
    /// The namespace to start in.
    pub namespace: Option<String>,
    /// It is kubectl's current context.
    pub is_current: bool,
}

/// A cluster that the console has connected to.
#[derive(Clone)]
pub struct ConnectedCluster {
    /// The context; none for the cluster that the console was started on.
    pub name: Option<String>,
    /// The server's address.
    pub origin: String,
    /// The namespace to start in.
    pub namespace: Option<String>,
    /// The client.
    pub client: Client,
}

impl fmt::Debug for ConnectedCluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connected")
            .field("name", &self.name)
            .field("origin", &self.origin)
            .finish_non_exhaustive()
    }
}

/// The context, cluster and user that the console uses, and the kubeconfig with them, for other programs such as
/// plugins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// The context of the kubeconfig.
    pub context: String,
    /// The cluster's name in it.
    pub cluster: String,
    /// The user's name in it.
    pub user: String,
    /// The kubeconfig; empty if programs find it by default.
    pub kubeconfig: String,
}

/// Returns the identity of a context, or of the current one, for other programs. Reads files.
pub fn identity(path: Option<&Path>, context: Option<&str>) -> Identity {
    let kubeconfig = path.map(|path| path.display().to_string()).unwrap_or_default();
    #[expect(
        clippy::disallowed_methods,
        reason = "the list of contexts shows the error of an unreadable file"
    )]
    let entries = list(path).unwrap_or_default();
    let is = |entry: &&ContextEntry| match context {
        Some(name) => entry.name == name,
        None => entry.is_current,
    };
    match entries.iter().find(is) {
        Some(entry) => Identity {
            context: entry.name.clone(),
            cluster: entry.cluster.clone(),
            user: entry.user.clone(),
            kubeconfig,
        },
        None => {
            Identity { context: context.unwrap_or_default().to_owned(), kubeconfig, ..Identity::default() }
        }
    }
}

/// Returns the address of a context's server, such as `127.0.0.1:6443`; `None` if the file names none. Reads files.
pub fn server_address(path: Option<&Path>, context: &str) -> Option<String> {
    let entries = list(path).ok()?;
    let entry = entries.iter().find(|entry| entry.name == context)?;
    let url: http::Uri = entry.server.parse().ok()?;
    url.authority().map(ToString::to_string)
}

/// Lists the contexts of a kubeconfig in the order of the file; without a path, of kubectl's default file. Reads files.
pub fn list(path: Option<&Path>) -> Result<Vec<ContextEntry>, String> {
    let config = kubeconfig::read(path)?;
    let current = config.current_context.clone();
    let entries = config.contexts.iter().take(MAX_CONTEXTS).map(|named| {
        let context = named.context.clone().unwrap_or_default();
        let cluster = config.clusters.iter().find(|cluster| cluster.name == context.cluster);
        let server = cluster.and_then(|cluster| cluster.cluster.as_ref()?.server.clone());
        ContextEntry {
            is_current: current.as_deref() == Some(named.name.as_str()),
            name: named.name.clone(),
            server: server.unwrap_or_default(),
            cluster: context.cluster,
            user: context.user.unwrap_or_default(),
            namespace: context.namespace.filter(|namespace| !namespace.is_empty()),
        }
    });
    Ok(entries.collect())
}

/// Creates the console's client of a cluster; also returns the server's address.
pub fn client(mut config: kube::Config) -> Result<(String, Client), kube::Error> {
    // kube would silently retry a refused eviction (429) for minutes; the drain shows and times its own retries.
    config.default_retry = false;
    let origin = config.cluster_url.authority().map(ToString::to_string).unwrap_or_default();
    Ok((origin, Client::try_from(config)?))
}

/// Connects to the cluster of a context.
pub async fn connect(path: Option<&Path>, name: &str) -> Result<ConnectedCluster, String> {
    let config = kubeconfig::read(path)?;
    if !config.contexts.iter().any(|context| context.name == name) {
        return Err(format!("the kubeconfig has no context {name:?}"));
    }
    let options = KubeConfigOptions { context: Some(name.to_owned()), ..KubeConfigOptions::default() };
    let connect = async {
        let config = kube::Config::from_custom_kubeconfig(config, &options).await;
        let config = config.map_err(|error| format!("context {name}: {error}"))?;
        let namespace = Some(config.default_namespace.clone());
        let (origin, client) =
            client(config).map_err(|error| format!("context {name}: {}", error_text(&error)))?;
        let connected = ConnectedCluster { name: Some(name.to_owned()), origin, namespace, client };
        verify_reachable(connected, &format!("context {name}")).await
    };
    match tokio::time::timeout(TIMEOUT, connect).await {
        Ok(connected) => connected,
        Err(_) => Err(format!("context {name}: no answer within {} s", TIMEOUT.as_secs())),
    }
}

/// Requests a cluster's version within the timeout; an error names the cluster.
pub async fn verify_reachable(connected: ConnectedCluster, called: &str) -> Result<ConnectedCluster, String> {
    match tokio::time::timeout(TIMEOUT, connected.client.apiserver_version()).await {
        Ok(Ok(_)) => Ok(connected),
        Ok(Err(error)) => Err(silence_text(called, &error)),
        Err(_) => Err(format!("{called}: no answer within {} s", TIMEOUT.as_secs())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "
apiVersion: v1
kind: Config
current-context: dev
clusters:
- name: here
  cluster: {server: 'https://127.0.0.1:1'}
contexts:
- name: dev
  context: {cluster: here, user: me, namespace: shop}
- name: prod
  context: {cluster: elsewhere, user: admin}
users:
- name: me
  user: {token: t}
";

    #[tokio::test]
    async fn contexts_are_listed_and_unreachable_ones_are_reported_con_16() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config");
        std::fs::write(&path, FILE).unwrap();
        let all = list(Some(&path)).unwrap();
        let listed: Vec<_> =
            all.iter().map(|one| (one.name.as_str(), one.server.as_str(), one.is_current)).collect();
        assert_eq!(listed, [("dev", "https://127.0.0.1:1", true), ("prod", "", false)]);
        assert_eq!((all[0].namespace.as_deref(), all[1].namespace.as_deref()), (Some("shop"), None));
        let silent = connect(Some(&path), "dev").await.unwrap_err();
        assert!(silent.starts_with("context dev does not answer: "), "{silent}");
        assert!(!silent.contains("no answer"), "said once: {silent}");
        let none = connect(Some(&path), "qa").await.unwrap_err();
        assert_eq!(none, "the kubeconfig has no context \"qa\"");
        let missing = list(Some(&dir.path().join("nothing"))).unwrap_err();
        let file = dir.path().join("nothing");
        let expected = format!("cannot read the kubeconfig {}: No such file or directory", file.display());
        assert!(missing.starts_with(&expected), "{missing}");
        std::fs::write(&path, "{ half").unwrap();
        assert!(list(Some(&path)).is_err());
    }
}
