//! The definitions of Podium's own kinds on the manual clock: what users change or delete returns.

use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use podium::api::{DeleteOptions, WriteOptions};
use podium::extension::cluster_snapshot::ClusterSnapshot;
use podium::extension::node_fence::NodeFence;
use podium::object::{Key, Object, SharedObject, TypedKind, conditions};
use podium::testing::Cluster;
use serde_json::json;

fn definition(cluster: &Cluster, name: &str) -> SharedObject<CustomResourceDefinition> {
    let definition = cluster.api().get_as::<CustomResourceDefinition>(&Key::new("", name)).unwrap();
    let status = definition.status.as_ref().and_then(|status| status.conditions.as_ref());
    assert!(conditions::is_true(status, "Established"), "{status:?}");
    definition
}

fn create<T: TypedKind>(cluster: &Cluster, name: &str) {
    let manifest = json!({"apiVersion": "podium.dev/v1alpha1", "metadata": {"name": name}, "spec": {}});
    let object = Object::from_value(T::kind(), manifest).unwrap();
    cluster.api().create(object, &WriteOptions::default()).unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_changed_definition_of_ours_is_reverted_and_keeps_its_objects_api_14() {
    let cluster = Cluster::builder().hollow_nodes(1).start().await.unwrap();
    create::<ClusterSnapshot>(&cluster, "a");
    cluster.settle().await.unwrap();
    let name = "clustersnapshots.podium.dev";
    let before = definition(&cluster, name);
    let edited = cluster.api().modify::<CustomResourceDefinition>(&before.key(), |fresh| {
        fresh.metadata.labels = Some([("team".into(), "a".into())].into());
        fresh.spec.names.short_names = Some(vec!["snap".into()]);
        let version = &mut fresh.spec.versions[0];
        version.additional_printer_columns = None;
        Ok(())
    });
    assert_ne!(edited.unwrap().spec, before.spec);
    cluster.settle().await.unwrap();
    let after = definition(&cluster, name);
    assert_eq!((after.uid(), &after.spec), (before.uid(), &before.spec));
    assert_eq!(after.metadata.labels.as_ref().unwrap()["team"], "a", "labels are the user's");
    let snapshot = cluster.api().get_as::<ClusterSnapshot>(&Key::new("", "a")).unwrap();
    assert_eq!(snapshot.status.as_ref().unwrap().conditions.as_ref().unwrap()[0].status, "True");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_deleted_definition_of_ours_returns_without_its_objects_api_14() {
    let cluster = Cluster::builder().hollow_nodes(1).start().await.unwrap();
    create::<ClusterSnapshot>(&cluster, "a");
    create::<NodeFence>(&cluster, "elsewhere");
    cluster.settle().await.unwrap();
    for kind in [ClusterSnapshot::kind(), NodeFence::kind()] {
        let name = kind.info().qualified_plural();
        let before = definition(&cluster, &name);
        let options = DeleteOptions::default();
        cluster.api().delete(before.object().kind(), &before.key(), &options).unwrap();
        cluster.advance(Duration::from_secs(5)).await.unwrap();
        let after = definition(&cluster, &name);
        assert_ne!(after.uid(), before.uid());
        assert_eq!(after.spec, before.spec);
        assert_eq!(cluster.api().list(kind, None).objects.len(), 0, "{kind}");
    }
    // The kinds work as before, under the same names.
    create::<ClusterSnapshot>(&cluster, "a");
    create::<NodeFence>(&cluster, "elsewhere");
    cluster.settle().await.unwrap();
    let snapshot = cluster.api().get_as::<ClusterSnapshot>(&Key::new("", "a")).unwrap();
    assert_eq!(snapshot.status.as_ref().unwrap().conditions.as_ref().unwrap()[0].reason, "Saved");
    let fence = cluster.api().get_as::<NodeFence>(&Key::new("", "elsewhere")).unwrap();
    assert_eq!(fence.status.as_ref().unwrap().conditions.as_ref().unwrap()[0].reason, "NoSuchNode");
    cluster.stop().await;
}
