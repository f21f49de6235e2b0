//! The options of a cluster, and the errors of options that are not available.

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ListParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use podium::testing::{Builder, ClientOptions, Cluster, Controllers, HollowNode};
use serde_json::json;

use super::{create, deployment, gadgets, phase, pod, pods};

#[tokio::test(start_paused = true)]
async fn without_controllers_it_is_an_api_server_api_20() {
    let cluster =
        Cluster::builder().controllers(Controllers::None).crd_text(&gadgets(3)).start().await.unwrap();
    create::<Deployment>(&cluster, deployment("web", 1)).await;
    // Pods need no service account if no controller creates any.
    create::<Pod>(&cluster, pod("p", "Always")).await;
    cluster.advance(std::time::Duration::from_mins(10)).await.unwrap();
    let sets = Api::<ReplicaSet>::default_namespaced(cluster.client());
    assert!(sets.list(&ListParams::default()).await.unwrap().items.is_empty());
    assert_eq!(phase(&cluster, "p").await, "Pending");
}

#[tokio::test(start_paused = true)]
async fn chosen_controllers_run_and_no_others_api_20() {
    let chosen = Controllers::only(["deployment", "replicaset"]);
    let cluster = Cluster::builder().controllers(chosen).start().await.unwrap();
    create::<Deployment>(&cluster, deployment("web", 2)).await;
    cluster.settle().await.unwrap();
    let made = pods(&cluster).list(&ListParams::default()).await.unwrap().items;
    assert_eq!(made.len(), 2);
    assert!(made.iter().all(|pod| pod.spec.as_ref().unwrap().node_name.is_none()), "no scheduler runs");
}

fn gadget(cluster: &Cluster) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("made.test", "v1", "Gadget"));
    Api::default_namespaced_with(cluster.client(), &resource)
}

fn sized(name: &str, size: i64) -> DynamicObject {
    serde_json::from_value(json!({"apiVersion": "made.test/v1", "kind": "Gadget", "metadata": {"name": name},
        "spec": {"size": size}}))
    .unwrap()
}

/// Several clusters in one process, with definitions of the same names.
#[tokio::test(start_paused = true)]
async fn clusters_know_nothing_of_each_other_api_20() {
    let (small, large, none) = tokio::join!(
        Cluster::builder().crd_text(&gadgets(3)).start(),
        Cluster::builder().crd_text(&gadgets(9)).start(),
        Cluster::start()
    );
    let (small, large, none) = (small.unwrap(), large.unwrap(), none.unwrap());
    let create = async |cluster: &Cluster| {
        let made = gadget(cluster).create(&PostParams::default(), &sized("g", 5)).await;
        made.map(drop).map_err(|error| error.to_string())
    };
    let refused = create(&small).await.unwrap_err();
    assert!(refused.contains("should be less than or equal to 3"), "{refused}");
    create(&large).await.unwrap();
    assert!(create(&none).await.is_err(), "there is no such kind");
    assert!(gadget(&small).get_opt("g").await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn definitions_come_from_types_texts_and_files_and_are_established_api_20() {
    let directory = tempfile::tempdir().unwrap();
    // As generators write them: among other objects, which the test does not need.
    let text = format!(
        "---\n{}\n---\nkind: Role\napiVersion: rbac.authorization.k8s.io/v1\nmetadata: {{name: x}}\n",
        gadgets(3)
    );
    std::fs::write(directory.path().join("crds.yaml"), &text).unwrap();
    let typed: CustomResourceDefinition = serde_json::from_str(&gadgets(4)).unwrap();
    for (builder, most) in [
        (Cluster::builder().crd_files(directory.path()), 3),
        (Cluster::builder().crd_files(directory.path().join("crds.yaml")), 3),
        (Cluster::builder().crd(typed.clone()), 4),
    ] {
        let cluster = builder.start().await.unwrap();
        gadget(&cluster).create(&PostParams::default(), &sized("g", most)).await.unwrap();
        gadget(&cluster).create(&PostParams::default(), &sized("h", most + 1)).await.unwrap_err();
        let mut wider = typed.clone();
        wider.spec = serde_json::from_str::<CustomResourceDefinition>(&gadgets(100)).unwrap().spec;
        cluster.install([wider]).await.unwrap();
        gadget(&cluster).create(&PostParams::default(), &sized("h", 100)).await.unwrap();
    }
    let cluster = Cluster::start().await.unwrap();
    cluster.apply(&text.replace("kind: Role", "kind: ClusterRole")).await.unwrap();
    let error =
        cluster.apply("kind: Pod\napiVersion: v1\nmetadata: {name: p}\nspec: {containers: 7}\n").await;
    let error = error.unwrap_err().to_string();
    assert!(error.starts_with("manifests:4:"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn an_invalid_test_cluster_fails_to_start_with_the_reason_api_20() {
    let failure = async |builder: Builder| builder.start().await.err().expect("it cannot start").to_string();
    let other =
        gadgets(3).replace("gadgets.made.test", "others.made.test").replace("\"gadgets\"", "\"others\"");
    let both = format!("{}\n---\n{other}", gadgets(3));
    for (builder, expected) in [
        (
            Cluster::builder().controllers(Controllers::only(["deployments"])),
            "no component \"deployments\", did you mean deployment?",
        ),
        (Cluster::builder().without_admission("Quota"), "no admission plugin \"Quota\""),
        (
            Cluster::builder().config("timing: {}"),
            "the cluster's configuration: config:1:1: timing: unknown field \"timing\", did you mean timings?",
        ),
        (Cluster::builder().hollow_node(HollowNode::new("Big")), "Big"),
        (Cluster::builder().hollow_nodes(20_000), "16000"),
        (Cluster::builder().process_nodes(1), "need the machine's clock"),
        (Cluster::builder().crd_text("a: [b"), "crd_text:1:"),
        (Cluster::builder().crd_text("kind: Pod\napiVersion: v1\n"), "no CustomResourceDefinition in it"),
        (Cluster::builder().crd_files("/nonexistent/crds"), "/nonexistent/crds"),
        (
            Cluster::builder().crd_text(&gadgets(3).replace("\"storage\":true", "\"storage\":false")),
            "CustomResourceDefinition gadgets.made.test: ",
        ),
        (
            Cluster::builder().crd_text(&both),
            "CustomResourceDefinition others.made.test: \"GadgetList\" is already in use",
        ),
    ] {
        let message = failure(builder).await;
        assert!(message.contains(expected), "{expected}: {message}");
    }
}

#[tokio::test]
async fn a_program_that_is_not_there_is_named_api_20() {
    let builder = Cluster::builder().process_nodes(1).process_nodes_by("/nonexistent/podium");
    let error = builder.start().await.err().unwrap().to_string();
    assert!(
        error.contains("/nonexistent/podium, given by process_nodes_by(), is not an executable file"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn nodes_have_the_requested_capacity_labels_and_taints_api_20() {
    let gpu = HollowNode::new("gpu")
        .capacity("made.test/gpu", "2")
        .label("pool", "gpu")
        .taint("gpu", "", "NoSchedule");
    let cluster = Cluster::builder().hollow_nodes(2).hollow_node(gpu).start().await.unwrap();
    let nodes = Api::<Node>::all(cluster.client()).list(&ListParams::default()).await.unwrap().items;
    let names: Vec<_> = nodes.iter().map(|node| node.metadata.name.clone().unwrap()).collect();
    assert_eq!(names, ["gpu", "hollow-00001", "hollow-00002"]);
    create::<Pod>(&cluster, pod("plain", "Always")).await;
    let mut wants = pod("wants", "Always");
    wants["spec"]["tolerations"] = json!([{"key": "gpu", "operator": "Exists"}]);
    wants["spec"]["containers"][0]["resources"] = json!({"limits": {"made.test/gpu": "2"}});
    create::<Pod>(&cluster, wants).await;
    cluster.settle().await.unwrap();
    let node = async |name: &str| pods(&cluster).get(name).await.unwrap().spec.unwrap().node_name.unwrap();
    assert_eq!(node("wants").await, "gpu");
    assert_ne!(node("plain").await, "gpu");
}

/// An operator's own roles are enforced for its requests.
#[tokio::test(start_paused = true)]
async fn a_client_may_act_as_a_user_with_few_rights_api_20() {
    let cluster = Cluster::start().await.unwrap();
    let account = ClientOptions::new().service_account("default", "default");
    let client = cluster.client_with(&account).unwrap();
    let listed = Api::<Pod>::default_namespaced(client).list(&ListParams::default()).await;
    let refused = listed.unwrap_err().to_string();
    assert!(refused.contains("User \"system:serviceaccount:default:default\" cannot list"), "{refused}");
    assert!(cluster.client_with(&ClientOptions::new().user_agent("a\nb")).is_err());
}

/// kubectl, or a program in another language, finds it by the kubeconfig.
#[tokio::test(flavor = "multi_thread")]
async fn others_reach_a_cluster_that_listens_api_20() {
    let cluster = Cluster::builder().listen().start().await.unwrap();
    let kubeconfig = Kubeconfig::read_from(cluster.kubeconfig().unwrap()).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    assert_eq!(config.cluster_url.to_string().trim_end_matches('/'), cluster.url().unwrap());
    let nodes = Api::<Node>::all(Client::try_from(config).unwrap());
    assert_eq!(nodes.list(&ListParams::default()).await.unwrap().items.len(), 1);
    let quiet = Cluster::start().await.unwrap();
    assert_eq!((quiet.kubeconfig(), quiet.url()), (None, None));
}
