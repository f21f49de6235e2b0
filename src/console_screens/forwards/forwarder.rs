//! Listens on local ports and forwards each connection to a pod: the requested one or, once that is gone, a ready pod
//! with the same labels. A replaced pod does not end the forward: the next connection goes to its successor.

use std::collections::{BTreeMap, HashMap};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use base::sort::{CollectMap, SliceOrder};
use base::task::JoinSet;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, Client};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::AbortHandle;
use tokio::time::timeout;

use console_data::action::error_text;
use console_data::decoded::{JsonObject, api_of};
use console_operations::effect::ForwardRequest;
use object::Kind;
use object::pod::is_ready;
use object::well_known::label::{POD_INDEX, POD_TEMPLATE_HASH, STATEFUL_SET_POD_NAME};

/// Maximum number of concurrent connections of one forward; more wait to be accepted.
const CONNECTIONS: usize = 128;
/// Timeout for connecting to a pod.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);
/// Labels that are unique to one pod; its successor has other values.
const POD_UNIQUE_LABELS: [&str; 4] =
    [POD_TEMPLATE_HASH, "controller-revision-hash", STATEFUL_SET_POD_NAME, POD_INDEX];

/// Requests to the task.
#[derive(Debug)]
pub enum Order {
    /// Start a forward with this id.
    Start(u64, ForwardRequest),
    /// Stop a forward and its connections.
    Stop(u64),
}

/// The state of a forward.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// The id of the forward.
    pub id: u64,
    /// Its state.
    pub state: State,
}

/// The state of a forward.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum State {
    /// Not listening yet.
    Starting,
    /// Listening.
    Listening {
        /// The local address.
        address: SocketAddr,
        /// Number of open connections.
        open: usize,
        /// Number of all connections so far.
        all: u64,
        /// The error of the last connection.
        last_error: Option<String>,
        /// The pod of the last connection; `None` before the first one.
        #[serde(default)]
        pod: Option<String>,
    },
    /// The forward could not start.
    Failed(String),
}

/// Receives the reports.
pub type ReportFn = Arc<dyn Fn(Report) -> BoxFuture<'static, ()> + Send + Sync>;

/// Starts and stops forwards on request, until the sender of the requests is dropped.
pub async fn run_forwards(client: Client, mut orders: mpsc::UnboundedReceiver<Order>, report_fn: ReportFn) {
    // Dropping this future drops the set, which aborts its tasks.
    let mut running = JoinSet::new();
    let mut handles: HashMap<u64, AbortHandle> = HashMap::new();
    while let Some(order) = orders.recv().await {
        while running.try_join_next().is_some() {}
        handles.retain(|_, handle| !handle.is_finished());
        match order {
            Order::Start(id, forward) => {
                let handle = running.spawn(listen(client.clone(), id, forward, report_fn.clone()));
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

/// Connection counts of one forward.
struct Counts {
    id: u64,
    address: SocketAddr,
    open: AtomicUsize,
    all: AtomicU64,
    /// The pod of the last connection.
    pod: Mutex<Option<String>>,
    report_fn: ReportFn,
}

impl Counts {
    async fn report(&self, last_error: Option<String>) {
        let (open, all) = (self.open.load(Ordering::Relaxed), self.all.load(Ordering::Relaxed));
        let pod = self.pod.lock().clone();
        let state = State::Listening { address: self.address, open, all, last_error, pod };
        (self.report_fn)(Report { id: self.id, state }).await;
    }
}

async fn listen(client: Client, id: u64, forward: ForwardRequest, report_fn: ReportFn) {
    let fails = |reason: String| (report_fn)(Report { id, state: State::Failed(reason) });
    let api = api_of(client, Kind::Pod, Some(forward.pod.namespace.as_deref().unwrap_or("default")));
    // The pod is read before listening, so that an error is reported at once, and the labels of a successor are known
    // when the pod is gone.
    let labels = match api.get(&forward.pod.name).await.and_then(JsonObject::decode) {
        Ok(pod) => successor_labels(&pod),
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
    let (open, all, pod) = (AtomicUsize::new(0), AtomicU64::new(0), Mutex::new(None));
    let counts = Arc::new(Counts { id, address, open, all, pod, report_fn });
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
                // Usually no file descriptor is free; connections that end free some.
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
            let ended = connect(&api, &forward, (*labels).as_ref(), stream, &counts).await;
            counts.open.fetch_sub(1, Ordering::Relaxed);
            counts.report(ended.err()).await;
            drop(place);
        });
    }
}

/// Returns the labels that a successor of the pod shares; `None` if no controller would create one.
fn successor_labels(pod: &Pod) -> Option<BTreeMap<String, String>> {
    pod.metadata.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))?;
    let labels = pod.metadata.labels.iter().flatten();
    let labels: BTreeMap<String, String> = labels
        .filter(|(key, _)| !POD_UNIQUE_LABELS.contains(&key.as_str()))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect_map();
    (!labels.is_empty()).then_some(labels)
}

/// Returns the pod for a connection: the requested one, or a ready one with the same labels.
async fn find(
    api: &Api<JsonObject>,
    forward: &ForwardRequest,
    labels: Option<&BTreeMap<String, String>>,
) -> Result<String, String> {
    let current = api.get_opt(&forward.pod.name).await;
    let current = current.and_then(|pod| pod.map(JsonObject::decode::<Pod>).transpose());
    let current = current.map_err(|error| error_text(&error))?;
    if current.is_some_and(|pod| serves(&pod)) {
        return Ok(forward.pod.name.clone());
    }
    let Some(labels) = labels else { return Err(format!("{} is not running", forward.pod.name)) };
    let selector: Vec<String> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let like = api.list(&ListParams::default().labels(&selector.join(","))).await;
    let like = like.and_then(|like| like.items.into_iter().map(JsonObject::decode).collect());
    let mut like: Vec<Pod> = like.map_err(|error| error_text(&error))?;
    like.retain(serves);
    // Ready pods come first; the name keeps the choice stable while the pod exists.
    like.order_by_key(|pod| (!is_ready(pod), pod.metadata.name.clone()));
    let first = like.into_iter().next().and_then(|pod| pod.metadata.name);
    first.ok_or_else(|| format!("{} is gone, and no similar pod is running", forward.pod.name))
}

fn serves(pod: &Pod) -> bool {
    let runs = pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running");
    runs && pod.metadata.deletion_timestamp.is_none()
}

/// Relays one connection until either end closes it.
async fn connect(
    api: &Api<JsonObject>,
    forward: &ForwardRequest,
    labels: Option<&BTreeMap<String, String>>,
    mut local: TcpStream,
    counts: &Counts,
) -> Result<(), String> {
    let opened = async {
        let name = find(api, forward, labels).await?;
        let last = counts.pod.lock().replace(name.clone());
        if last.as_ref() != Some(&name) {
            counts.report(None).await;
        }
        let forwarder = api.portforward(&name, &[forward.remote]).await;
        forwarder.map_err(|error| format!("{name}: {}", error_text(&error)))
    };
    let mut forwarder =
        timeout(CONNECT_TIMEOUT, opened).await.map_err(|_| "the pod does not answer".to_owned())??;
    let mut remote =
        forwarder.take_stream(forward.remote).ok_or_else(|| "the server opened no stream".to_owned())?;
    let error = forwarder.take_error(forward.remote);
    let copied = copy_bidirectional(&mut local, &mut remote).await;
    drop(remote);
    // The kubelet reports errors on a separate stream; the data stream only ends.
    if let Some(error) = error
        && let Ok(Some(why)) = timeout(Duration::from_millis(100), error).await
    {
        return Err(why.trim().to_owned());
    }
    forwarder.abort();
    // A peer may close the connection at any time; that is no error.
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
        let like = successor_labels(&pod(labels.clone(), true));
        assert_eq!(like, Some(BTreeMap::from([("app".to_owned(), "web".to_owned())])));
        assert_eq!(
            successor_labels(&pod(labels, false)),
            None,
            "a pod without a controller has no successor"
        );
        assert_eq!(
            successor_labels(&pod(json!({"pod-template-hash": "1"}), true)),
            None,
            "anybody would be its like"
        );
    }
}
