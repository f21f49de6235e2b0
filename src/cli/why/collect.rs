//! Collects the facts for a walk along a connection's path: objects from the API, and facts from the nodes of the pods.
//!
//! Objects that the user may not read are left out and reported as missing; kinds that may only be listed per namespace
//! are listed in the namespaces concerned.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use futures::future::join_all;
use k8s_openapi::api::core::v1::{Event, Namespace, Node, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::Client;
use kube::api::ListParams;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use api::node_access::Attempt;
use base::optional_file::read_optional;
use base::resolv_conf::ResolvConf;
use base::sort::{CollectMap, SliceOrder};
use console_data::decoded::TypedApi;
use network_policy::Protocol;
use object::well_known::parameter::PODIUM_NETWORK;
use object::{Key, TypedKind};
use why::{
    ConnectionQuestion, Destination, Facts, Outcome, ProbeResults, Report, SelectingPolicies, meaning,
    outside_name, selecting, walk,
};

/// Timeout of name lookups by the machine's resolvers.
const LOOK_UP: Duration = Duration::from_secs(5);
/// Configuration of the machine's own resolvers.
const RESOLV_CONF: &str = "/etc/resolv.conf";
/// Maximum number of probe events to read.
const EVENTS: u32 = 500;

/// The reason for a missing report.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The question is invalid; the text explains the valid forms.
    Misuse(String),
    /// The API request failed.
    Other(anyhow::Error),
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::Other(error)
    }
}

/// Walks the path of a connection and returns the report.
pub(crate) async fn report(client: &Client, question: &ConnectionQuestion) -> Result<Report, Failure> {
    let mut namespaces = BTreeSet::from([question.source.namespace.clone()]);
    if let Destination::Pod(key) | Destination::Service(key) = &question.destination {
        namespaces.insert(key.namespace.clone());
    }
    let mut facts = Box::pin(facts(client, &namespaces)).await?;
    facts.own_network = has_own_network(&facts, &question.source);
    if let Some(name) = outside_name(&facts, question) {
        let found = look_up(&name).await;
        facts.outside.insert(name, found);
    }
    let walk = walk(&facts, question).map_err(|misuse| Failure::Misuse(misuse.to_string()))?;
    let protocol = walk.protocol();
    let listeners = walk.listeners().into_iter().map(|pod| async move {
        let found = listeners(client, &pod, protocol).await;
        (pod, found)
    });
    let attempts = walk
        .attempts()
        .into_iter()
        .map(|to| async move { (to, attempt(client, &question.source, to).await) });
    let (listeners, attempts) = futures::join!(join_all(listeners), join_all(attempts));
    let probed = ProbeResults { listeners: listeners.collect_map(), attempts: attempts.collect_map() };
    Ok(walk.conclude(&facts, &probed))
}

/// Describes the policies of a pod, in lines.
pub(super) async fn policies_of_pod(client: &Client, pod: &Key) -> Result<Vec<String>, Failure> {
    let facts = Box::pin(facts(client, &BTreeSet::from([pod.namespace.clone()]))).await?;
    let lines =
        selecting(&facts, pod).into_iter().flat_map(|SelectingPolicies { direction, policies, text }| {
            [format!("{direction}: isolated by {}", policies.join(", ")), format!("  lets through {text}")]
        });
    Ok(lines.collect())
}

/// Describes the pods that a policy selects and the connections that it allows, in lines.
pub(super) async fn meaning_of_policy(client: &Client, policy: &Key) -> Result<Vec<String>, Failure> {
    let facts = Box::pin(facts(client, &BTreeSet::from([policy.namespace.clone()]))).await?;
    Ok(meaning(&facts, policy))
}

async fn facts(client: &Client, namespaces: &BTreeSet<String>) -> Result<Facts, Failure> {
    let (pods, services, slices, policies, all_namespaces, nodes, events) = futures::join!(
        listed::<Pod>(client, namespaces, "pods"),
        listed::<Service>(client, namespaces, "services"),
        listed::<EndpointSlice>(client, namespaces, "endpointslices"),
        listed::<NetworkPolicy>(client, namespaces, "networkpolicies"),
        whole::<Namespace>(client, "namespaces"),
        whole::<Node>(client, "nodes"),
        failed_probes(client, namespaces),
    );
    // Pods are the first list, so its failure means that the API is unreachable.
    let pods = pods?;
    let mut facts = Facts {
        searches: ResolvConf::parse(&read_optional(RESOLV_CONF)).searches,
        probes: events,
        ..Facts::default()
    };
    let unseen = &mut facts.read_errors;
    facts.pods = note_unseen(Ok(pods), unseen)?;
    facts.services = note_unseen(services, unseen)?;
    facts.slices = note_unseen(slices, unseen)?;
    facts.policies = note_unseen(policies, unseen)?;
    facts.namespaces = note_unseen(all_namespaces, unseen)?;
    facts.nodes = note_unseen(nodes, unseen)?;
    Ok(facts)
}

/// The objects that could be read, and the reason if some could not.
type PartialList<K> = (Vec<K>, Option<String>);

fn note_unseen<K>(
    listed: anyhow::Result<PartialList<K>>,
    unseen: &mut Vec<String>,
) -> Result<Vec<K>, Failure> {
    let (objects, why) = listed?;
    unseen.extend(why);
    Ok(objects)
}

/// Lists all objects of a kind; only those of these namespaces if the user may not list all.
async fn listed<K: TypedKind>(
    client: &Client,
    namespaces: &BTreeSet<String>,
    plural: &str,
) -> anyhow::Result<PartialList<K>> {
    match TypedApi::<K>::all(client.clone()).list(&ListParams::default()).await {
        Ok(list) => Ok((list, None)),
        Err(error) if is_forbidden(&error) => {
            let (mut objects, mut missing) = (Vec::new(), Vec::new());
            for namespace in namespaces {
                match TypedApi::<K>::namespaced(client.clone(), namespace).list(&ListParams::default()).await
                {
                    Ok(list) => objects.extend(list),
                    Err(error) if is_forbidden(&error) => missing.push(namespace.as_str()),
                    Err(error) => return Err(error.into()),
                }
            }
            let reason = if missing.is_empty() {
                format!("no permission to list {plural} of other namespaces")
            } else {
                format!("no permission to list {plural} of {}", missing.join(", "))
            };
            Ok((objects, Some(reason)))
        }
        Err(error) => Err(error.into()),
    }
}

/// Lists all objects of a cluster-scoped kind.
async fn whole<K: TypedKind>(client: &Client, plural: &str) -> anyhow::Result<PartialList<K>> {
    match TypedApi::<K>::all(client.clone()).list(&ListParams::default()).await {
        Ok(list) => Ok((list, None)),
        Err(error) if is_forbidden(&error) => {
            Ok((Vec::new(), Some(format!("no permission to list {plural}"))))
        }
        Err(error) => Err(error.into()),
    }
}

fn is_forbidden(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 403)
}

/// Returns the last message of each failed readiness probe; empty if the user may not read events.
async fn failed_probes(client: &Client, namespaces: &BTreeSet<String>) -> BTreeMap<Key, String> {
    let mut messages = BTreeMap::new();
    let params = ListParams::default().fields("reason=Unhealthy").limit(EVENTS);
    for namespace in namespaces {
        let listed = TypedApi::<Event>::namespaced(client.clone(), namespace).list(&params).await;
        let mut events = match listed {
            Ok(events) => events,
            Err(error) => {
                tracing::debug!("cannot list the events of {namespace}: {error}");
                continue;
            }
        };
        events.order_by_key(|event| event.last_timestamp.clone());
        for event in events {
            let message = event.message.unwrap_or_default();
            let (Some(text), Some(name)) =
                (message.strip_prefix("Readiness probe "), event.involved_object.name)
            else {
                continue;
            };
            let text = text.strip_prefix("failed: ").unwrap_or(text);
            messages.insert(Key::new(namespace.as_str(), name), text.to_owned());
        }
    }
    messages
}

/// Returns false if the pod has a loopback address, which means that pods share the machine's network.
fn has_own_network(facts: &Facts, source: &Key) -> bool {
    let ip = |pod: &Pod| pod.status.as_ref()?.pod_ip.as_ref()?.parse::<IpAddr>().ok();
    let source = facts.pods.iter().find(|pod| Key::of(&pod.metadata) == *source);
    !source.and_then(ip).is_some_and(|ip| ip.is_loopback())
}

async fn look_up(name: &str) -> Vec<IpAddr> {
    match tokio::time::timeout(LOOK_UP, tokio::net::lookup_host((name, 0))).await {
        Ok(Ok(found)) => found.map(|address| address.ip()).collect(),
        _ => Vec::new(),
    }
}

/// Sends a query to the node of a pod.
async fn query_node<T: DeserializeOwned>(client: &Client, pod: &Key, question: &str) -> Result<T, String> {
    let Key { namespace, name } = pod;
    let path = format!("/api/v1/namespaces/{namespace}/pods/{name}/exec?{PODIUM_NETWORK}={question}");
    let request = http::Request::get(path).body(Vec::new()).map_err(|error| error.to_string())?;
    client.request(request).await.map_err(|error| match error {
        kube::Error::Api(status) => status.message,
        other => other.to_string(),
    })
}

async fn listeners(client: &Client, pod: &Key, protocol: Protocol) -> Result<Vec<SocketAddr>, String> {
    #[derive(Deserialize)]
    struct Listeners {
        listeners: Vec<SocketAddr>,
    }
    let question = format!("listeners&protocol={protocol}");
    query_node::<Listeners>(client, pod, &question).await.map(|answer| answer.listeners)
}

async fn attempt(client: &Client, source: &Key, to: SocketAddr) -> Outcome {
    #[derive(Deserialize)]
    struct AttemptResponse {
        attempt: Attempt,
    }
    match query_node::<AttemptResponse>(client, source, &format!("connect&to={to}")).await {
        Ok(AttemptResponse { attempt: Attempt::Connected }) => Outcome::Connected,
        Ok(AttemptResponse { attempt: Attempt::Refused }) => Outcome::Refused,
        Ok(AttemptResponse { attempt: Attempt::TimedOut }) => Outcome::TimedOut,
        Ok(AttemptResponse { attempt: Attempt::Unreachable(why) }) => Outcome::Unreachable(why),
        Err(why) => Outcome::Untried(why),
    }
}
