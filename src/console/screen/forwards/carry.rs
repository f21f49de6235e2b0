//! Listens on local ports and carries each connection to a pod: to the one that was asked for, or, once that is gone, to
//! one that has its labels and is ready. Nothing is restarted when a pod is replaced: the next connection finds the
//! successor.

use std::collections::{BTreeMap, HashMap};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, Client};
use serde::{Deserialize, Serialize};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::timeout;

use crate::action::error_text;
use crate::effect::Forward;
use object::pod::is_ready;

/// Connections of one forward at once; more wait to be accepted.
const CONNECTIONS: usize = 128;
/// How long it may take to reach a pod.
const TO_CONNECT: Duration = Duration::from_secs(15);
/// Labels that tell a pod from its like: its successor has others.
const OF_ONE: [&str; 4] = [
    "pod-template-hash",
    "controller-revision-hash",
    "statefulset.kubernetes.io/pod-name",
    "apps.kubernetes.io/pod-index",
];

/// What the task is asked for.
#[derive(Debug)]
pub enum Order {
    /// To begin one, under this number.
    Start(u64, Forward),
    /// To end one, with its connections.
    Stop(u64),
}

/// What became of a forward.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Which.
    pub id: u64,
    /// What.
    pub state: State,
}

/// How a forward is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum State {
    /// It does not listen yet.
    Starting,
    /// It does.
    Listening {
        /// Where.
        address: SocketAddr,
        /// Connections now.
        open: usize,
        /// Connections there ever were.
        all: u64,
        /// What went wrong with the last one.
        last_error: Option<String>,
    },
    /// It could not begin.
    Failed(String),
}

/// Whom reports are told.
pub type Tell = Arc<dyn Fn(Report) -> BoxFuture<'static, ()> + Send + Sync>;

/// Begins and ends forwards as it is asked, until nobody can ask any more.
pub async fn carry(client: Client, mut orders: mpsc::UnboundedReceiver<Order>, tell: Tell) {
    // Ended with this future: a set aborts what it holds when it is dropped.
    let mut running = JoinSet::new();
    let mut handles: HashMap<u64, AbortHandle> = HashMap::new();
    while let Some(order) = orders.recv().await {
        while running.try_join_next().is_some() {}
        match order {
            Order::Start(id, forward) => {
                let handle = running.spawn(listen(client.clone(), id, forward, tell.clone()));
                handles.insert(id, handle);
            }
            Order::Stop(id) => {
                if let Some(handle) = handles.remove(&id) {
                    handle.abort();
                }
            }
        }
    }
}

/// Counts of one forward.
struct Counts {
    id: u64,
    address: SocketAddr,
    open: AtomicUsize,
    all: AtomicU64,
    tell: Tell,
}

impl Counts {
    async fn report(&self, last_error: Option<String>) {
        let (open, all) = (self.open.load(Ordering::Relaxed), self.all.load(Ordering::Relaxed));
        let state = State::Listening { address: self.address, open, all, last_error };
        (self.tell)(Report { id: self.id, state }).await;
    }
}

async fn listen(client: Client, id: u64, forward: Forward, tell: Tell) {
    let fails = |why: String| (tell)(Report { id, state: State::Failed(why) });
    let api: Api<Pod> = Api::namespaced(client, forward.pod.namespace.as_deref().unwrap_or("default"));
    // Before it listens, so that a mistake is told at once, and what its like are called is known when it is gone.
    let labels = match api.get(&forward.pod.name).await {
        Ok(pod) => labels_of_its_like(&pod),
        Err(error) => return fails(error_text(&error)).await,
    };
    let address = (Ipv4Addr::LOCALHOST, forward.local);
    let listener = match TcpListener::bind(address).await {
        Ok(listener) => listener,
        Err(error) => return fails(format!("127.0.0.1:{}: {error}", forward.local)).await,
    };
    let address = match listener.local_addr() {
        Ok(address) => address,
        Err(error) => return fails(error.to_string()).await,
    };
    let counts = Arc::new(Counts { id, address, open: AtomicUsize::new(0), all: AtomicU64::new(0), tell });
    counts.report(None).await;
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    let (forward, labels) = (Arc::new(forward), Arc::new(labels));
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        let Ok(place) = places.clone().acquire_owned().await else { return };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Out of descriptors, mostly: it gets better when connections end.
                counts.report(Some(error.to_string())).await;
                tokio::time::sleep(Duration::from_secs(1)).await;
                continue;
            }
        };
        let (api, forward, labels, counts) = (api.clone(), forward.clone(), labels.clone(), counts.clone());
        connections.spawn(async move {
            counts.open.fetch_add(1, Ordering::Relaxed);
            counts.all.fetch_add(1, Ordering::Relaxed);
            counts.report(None).await;
            let ended = connect(&api, &forward, (*labels).as_ref(), stream).await;
            counts.open.fetch_sub(1, Ordering::Relaxed);
            counts.report(ended.err()).await;
            drop(place);
        });
    }
}

/// The labels that a successor of the pod has, too; none where it has nobody who makes one.
fn labels_of_its_like(pod: &Pod) -> Option<BTreeMap<String, String>> {
    pod.metadata.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))?;
    let labels = pod.metadata.labels.iter().flatten();
    let labels: BTreeMap<String, String> = labels
        .filter(|(key, _)| !OF_ONE.contains(&key.as_str()))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    (!labels.is_empty()).then_some(labels)
}

/// The pod that a connection goes to: the one that was asked for, or one of its like that is ready.
async fn find(
    api: &Api<Pod>,
    forward: &Forward,
    labels: Option<&BTreeMap<String, String>>,
) -> Result<String, String> {
    let asked = api.get_opt(&forward.pod.name).await.map_err(|error| error_text(&error))?;
    if asked.is_some_and(|pod| serves(&pod)) {
        return Ok(forward.pod.name.clone());
    }
    let Some(labels) = labels else { return Err(format!("{} does not run", forward.pod.name)) };
    let selector: Vec<String> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let like = api.list(&ListParams::default().labels(&selector.join(","))).await;
    let mut like: Vec<Pod> = like.map_err(|error| error_text(&error))?.items;
    like.retain(serves);
    // One that is ready rather than one that is not, and the same one while it is there.
    like.sort_by_key(|pod| (!is_ready(pod), pod.metadata.name.clone()));
    let first = like.into_iter().next().and_then(|pod| pod.metadata.name);
    first.ok_or_else(|| format!("{} is gone, and none of its like runs", forward.pod.name))
}

/// Whether a pod can take connections.
fn serves(pod: &Pod) -> bool {
    let runs = pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running");
    runs && pod.metadata.deletion_timestamp.is_none()
}

/// Carries one connection until either end closes it.
async fn connect(
    api: &Api<Pod>,
    forward: &Forward,
    labels: Option<&BTreeMap<String, String>>,
    mut local: TcpStream,
) -> Result<(), String> {
    let opened = async {
        let name = find(api, forward, labels).await?;
        let forwarder = api.portforward(&name, &[forward.remote]).await;
        forwarder.map_err(|error| format!("{name}: {}", error_text(&error)))
    };
    let mut forwarder =
        timeout(TO_CONNECT, opened).await.map_err(|_| "the pod does not answer".to_owned())??;
    let mut remote =
        forwarder.take_stream(forward.remote).ok_or_else(|| "the server gave no stream".to_owned())?;
    let error = forwarder.take_error(forward.remote);
    let copied = copy_bidirectional(&mut local, &mut remote).await;
    drop(remote);
    // What the kubelet could not do is said beside the stream, which only ends.
    if let Some(error) = error
        && let Ok(Some(why)) = timeout(Duration::from_millis(100), error).await
    {
        return Err(why.trim().to_owned());
    }
    forwarder.abort();
    // That somebody hangs up in the middle is how connections end.
    copied.map(drop).or(Ok(()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_successor_has_the_labels_that_are_not_of_one_pod_con_16() {
        let pod = |labels: serde_json::Value, owned: bool| -> Pod {
            let owners = owned.then(|| {
                json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r",
                "uid": "r", "controller": true}])
            });
            serde_json::from_value(json!({"metadata": {"labels": labels, "ownerReferences": owners}}))
                .unwrap()
        };
        let labels =
            json!({"app": "web", "pod-template-hash": "1", "statefulset.kubernetes.io/pod-name": "w-0"});
        let like = labels_of_its_like(&pod(labels.clone(), true));
        assert_eq!(like, Some(BTreeMap::from([("app".to_owned(), "web".to_owned())])));
        assert_eq!(labels_of_its_like(&pod(labels, false)), None, "nobody makes another");
        assert_eq!(
            labels_of_its_like(&pod(json!({"pod-template-hash": "1"}), true)),
            None,
            "anybody would be its like"
        );
    }
}
