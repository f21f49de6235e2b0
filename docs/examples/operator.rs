//! An operator for web sites: a `Website` becomes a Deployment, and its host name is entered in a registry that other
//! namespaces share. Its tests, below, run it against a cluster in the same process ([docs/test/rust.md](../test/rust.md)).
//!
//! `cargo run --example operator crd | kubectl apply -f -`, then `cargo run --example operator`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, Patch, PatchParams};
use kube::runtime::controller::{Action, Controller};
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::runtime::finalizer::{self, finalizer};
use kube::runtime::watcher;
use kube::{Client, CustomResource, CustomResourceExt, KubeSchema, Resource, ResourceExt};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// A site that is to be served.
#[derive(CustomResource, KubeSchema, Clone, Debug, Deserialize, Serialize)]
#[kube(group = "example.com", version = "v1", kind = "Website", namespaced, status = "WebsiteStatus")]
#[kube(printcolumn(name = "Host", type_ = "string", json_path = ".spec.host"))]
#[x_kube(validation = Rule::new("self.replicas <= self.limit").message("more replicas than the limit"))]
pub(crate) struct WebsiteSpec {
    /// Where it is served.
    #[x_kube(validation = Rule::new("self == oldSelf").message("a site keeps its host"))]
    host: String,
    /// How many pods serve it.
    replicas: i32,
    /// The most that may.
    limit: i32,
}

/// What is so.
#[derive(Clone, Debug, Default, Deserialize, Serialize, KubeSchema)]
pub(crate) struct WebsiteStatus {
    /// Pods that serve.
    ready: i32,
}

const OPERATOR: &str = "website-operator";
const FINALIZER: &str = "example.com/host";
/// The hosts that are taken, and by whom.
const REGISTRY: &str = "hosts";
const REGISTRY_NAMESPACE: &str = "default";
/// What others change in the registry is mended within this time.
const RESYNC: Duration = Duration::from_mins(5);

struct Context {
    client: Client,
    recorder: Recorder,
}

/// Serves every site until it is stopped.
async fn run(client: Client) {
    let recorder = Recorder::new(client.clone(), Reporter { controller: OPERATOR.into(), instance: None });
    let sites = Api::<Website>::all(client.clone());
    let deployments = Api::<Deployment>::all(client.clone());
    Controller::new(sites, watcher::Config::default())
        .owns(deployments, watcher::Config::default())
        .run(reconcile, on_error, Arc::new(Context { client, recorder }))
        .for_each(|_| std::future::ready(()))
        .await;
}

/// What goes wrong is tried again.
fn on_error(_: Arc<Website>, _: &finalizer::Error<kube::Error>, _: Arc<Context>) -> Action {
    Action::requeue(Duration::from_secs(10))
}

async fn reconcile(
    site: Arc<Website>,
    context: Arc<Context>,
) -> Result<Action, finalizer::Error<kube::Error>> {
    let sites = Api::<Website>::namespaced(context.client.clone(), &site.namespace().unwrap_or_default());
    finalizer(&sites, FINALIZER, site, |event| async {
        match event {
            finalizer::Event::Apply(site) => serve(&site, &context).await,
            finalizer::Event::Cleanup(site) => register(&site, &context, &BTreeMap::new()).await,
        }
    })
    .await
}

/// Brings a site nearer to what its spec says.
async fn serve(site: &Website, context: &Context) -> Result<Action, kube::Error> {
    let (name, namespace) = (site.name_any(), site.namespace().unwrap_or_default());
    let again =
        register(site, context, &[(site.spec.host.clone(), format!("{namespace}.{name}"))].into()).await?;
    let labels = json!({"site": name});
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "ownerReferences": [site.controller_owner_ref(&())]},
        "spec": {"replicas": site.spec.replicas, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels},
                "spec": {"containers": [{"name": "web", "image": "nginx:1.27"}]}}}});
    let deployments = Api::<Deployment>::namespaced(context.client.clone(), &namespace);
    let ours = PatchParams::apply(OPERATOR).force();
    let deployment = deployments.patch(&name, &ours, &Patch::Apply(deployment)).await?;
    if site.status.is_none() {
        let note = Some(format!("{} is served by {} pods", site.spec.host, site.spec.replicas));
        let event = Event {
            type_: EventType::Normal,
            reason: "Published".into(),
            note,
            action: "Publish".into(),
            secondary: None,
        };
        context.recorder.publish(&event, &site.object_ref(&())).await?;
    }
    let ready = deployment.status.and_then(|status| status.ready_replicas).unwrap_or(0);
    if site.status.as_ref().is_none_or(|status| status.ready != ready) {
        let sites = Api::<Website>::namespaced(context.client.clone(), &namespace);
        let status = json!({"status": WebsiteStatus { ready }});
        sites.patch_status(&name, &PatchParams::default(), &Patch::Merge(status)).await?;
    }
    Ok(again)
}

/// Enters these hosts for a site, in the place of those it had.
async fn register(
    site: &Website,
    context: &Context,
    hosts: &BTreeMap<String, String>,
) -> Result<Action, kube::Error> {
    // A manager a site: what it no longer applies goes, and nothing of the others'.
    let manager = format!("{OPERATOR}-{}", site.uid().unwrap_or_default());
    let registry =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": REGISTRY}, "data": hosts});
    let maps = Api::<ConfigMap>::namespaced(context.client.clone(), REGISTRY_NAMESPACE);
    maps.patch(REGISTRY, &PatchParams::apply(&manager), &Patch::Apply(registry)).await?;
    Ok(Action::requeue(RESYNC))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    match std::env::args().nth(1).as_deref() {
        Some("crd") => println!("{}", serde_json::to_string_pretty(&Website::crd())?),
        _ => run(Client::try_default().await?).await,
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use kube::api::{DeleteParams, ListParams, PostParams};
    use podium::testing::{ClientOptions, Cluster, Error, Failure, Requests};

    use super::*;

    /// A cluster with the operator in it, and the sites of its namespace `default`.
    async fn start() -> Result<(Cluster, Api<Website>), Error> {
        let cluster = Cluster::builder().crd(Website::crd()).start().await?;
        let operator = cluster.client_with(&ClientOptions::new().user_agent(OPERATOR))?;
        tokio::spawn(run(operator));
        let sites = Api::default_namespaced(cluster.client());
        Ok((cluster, sites))
    }

    fn site(name: &str, replicas: i32) -> Website {
        Website::new(name, WebsiteSpec { host: format!("{name}.example.com"), replicas, limit: 5 })
    }

    /// Returns the hosts that are in use.
    async fn hosts(cluster: &Cluster) -> String {
        let maps = Api::<ConfigMap>::default_namespaced(cluster.client());
        let data = maps.get(REGISTRY).await.unwrap().data.unwrap_or_default();
        data.into_keys().collect::<Vec<_>>().join(" ")
    }

    #[tokio::test(start_paused = true)]
    async fn a_site_is_served_and_says_so() {
        let (cluster, sites) = start().await.unwrap();
        sites.create(&PostParams::default(), &site("blog", 2)).await.unwrap();
        cluster.settle().await.unwrap();
        // The Deployment's own controller, the scheduler and a node have done their parts.
        assert_eq!(sites.get("blog").await.unwrap().status.unwrap().ready, 2);
        assert_eq!(hosts(&cluster).await, "blog.example.com");
        let events = Api::<k8s_openapi::api::events::v1::Event>::default_namespaced(cluster.client());
        let events = events.list(&ListParams::default()).await.unwrap();
        let published = events.iter().find(|event| event.reason.as_deref() == Some("Published")).unwrap();
        assert_eq!(published.note.as_deref(), Some("blog.example.com is served by 2 pods"));
    }

    #[tokio::test(start_paused = true)]
    async fn what_breaks_the_rules_is_refused() {
        let (_cluster, sites) = start().await.unwrap();
        let refused = sites.create(&PostParams::default(), &site("blog", 9)).await.unwrap_err();
        assert!(refused.to_string().contains("more replicas than the limit"), "{refused}");
        sites.create(&PostParams::default(), &site("blog", 1)).await.unwrap();
        let moved = Patch::Merge(json!({"spec": {"host": "elsewhere.example.com"}}));
        let refused = sites.patch("blog", &PatchParams::default(), &moved).await.unwrap_err();
        assert!(refused.to_string().contains("a site keeps its host"), "{refused}");
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_left_of_a_site_that_is_deleted() {
        let (cluster, sites) = start().await.unwrap();
        for name in ["blog", "shop"] {
            sites.create(&PostParams::default(), &site(name, 1)).await.unwrap();
        }
        cluster.settle().await.unwrap();
        sites.delete("blog", &DeleteParams::default()).await.unwrap();
        cluster.settle().await.unwrap();
        assert_eq!(hosts(&cluster).await, "shop.example.com");
        // The garbage collector has followed the owner reference.
        let deployments = Api::<Deployment>::default_namespaced(cluster.client());
        assert!(deployments.get_opt("blog").await.unwrap().is_none());
        assert!(sites.get_opt("blog").await.unwrap().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn the_registry_is_mended_within_five_minutes() {
        let (cluster, sites) = start().await.unwrap();
        sites.create(&PostParams::default(), &site("blog", 1)).await.unwrap();
        cluster.settle().await.unwrap();
        let maps = Api::<ConfigMap>::default_namespaced(cluster.client());
        maps.delete(REGISTRY, &DeleteParams::default()).await.unwrap();
        cluster.advance(RESYNC).await.unwrap();
        assert_eq!(hosts(&cluster).await, "blog.example.com");
    }

    #[tokio::test(start_paused = true)]
    async fn an_api_that_fails_is_tried_again() {
        let (cluster, sites) = start().await.unwrap();
        let writes = Requests::to("deployments.apps").writing().from(OPERATOR);
        let outage = cluster.fail_next(3, writes, Failure::Unavailable);
        sites.create(&PostParams::default(), &site("blog", 1)).await.unwrap();
        cluster.advance(Duration::from_mins(1)).await.unwrap();
        assert_eq!(outage.hits(), 3);
        assert_eq!(sites.get("blog").await.unwrap().status.unwrap().ready, 1);
        // A watch that has lost its place lists again, and misses nothing.
        assert_eq!(cluster.expire_watches(&Requests::to("websites").from(OPERATOR)), 1);
        sites.create(&PostParams::default(), &site("shop", 1)).await.unwrap();
        cluster.advance(Duration::from_mins(1)).await.unwrap();
        assert_eq!(hosts(&cluster).await, "blog.example.com shop.example.com");
    }
}
