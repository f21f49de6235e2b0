//! The pages "Service Accounts" and "Configure Service Accounts for Pods" (SA-1), on virtual time.

use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use podium::api::DeleteOptions;
use podium::object::{Kind, SharedObject};
use serde_json::{Value, json};

use super::cluster::{Cluster, NO_NODES, key};

fn token_secret(name: &str, account: &str) -> Value {
    json!({"metadata": {"name": name, "namespace": "default",
            "annotations": {"kubernetes.io/service-account.name": account}},
        "type": "kubernetes.io/service-account-token"})
}

fn robot(cluster: &Cluster) -> SharedObject<ServiceAccount> {
    cluster.create(json!({"metadata": {"name": "robot", "namespace": "default"}}))
}

async fn delete(cluster: &Cluster, kind: Kind, name: &str) {
    cluster.api.delete(kind, &key(name), &DeleteOptions::default()).unwrap();
    cluster.settle().await;
}

/// The value of a Secret's key.
fn data(cluster: &Cluster, secret: &str, key: &str) -> String {
    let secret = cluster.get::<Secret>(secret);
    let value = secret.data.as_ref().and_then(|d| d.get(key)).cloned().unwrap_or_default();
    String::from_utf8(value.0).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_namespace_s_own_account_comes_back_as_another_sa_1() {
    let cluster = Cluster::start(NO_NODES);
    cluster.settle().await;
    let first = cluster.get::<ServiceAccount>("default");
    delete(&cluster, Kind::ServiceAccount, "default").await;
    assert_ne!(cluster.get::<ServiceAccount>("default").uid(), first.uid());
    robot(&cluster);
    delete(&cluster, Kind::ServiceAccount, "robot").await;
    assert!(cluster.api.get(Kind::ServiceAccount, &key("robot")).is_err(), "others stay gone");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_token_in_a_secret_lasts_as_long_as_the_secret_and_its_account_sa_1() {
    let cluster = Cluster::start(NO_NODES);
    let account = robot(&cluster);
    cluster.create::<Secret>(token_secret("robot-secret", "robot"));
    cluster.settle().await;
    let token = data(&cluster, "robot-secret", "token");
    assert_eq!(
        (data(&cluster, "robot-secret", "namespace"), data(&cluster, "robot-secret", "ca.crt")),
        ("default".into(), "the CA".into())
    );
    let annotations = cluster.get::<Secret>("robot-secret").metadata.annotations.clone().unwrap();
    assert_eq!(annotations["kubernetes.io/service-account.uid"], account.uid());
    let who = |token: &str| cluster.api.authenticate(token, &[]).map(|(user, _)| user.name);
    assert_eq!(who(&token).unwrap(), "system:serviceaccount:default:robot");
    // The token does not expire, and existing data is not replaced.
    cluster.pass(365 * 24 * 3600).await;
    assert_eq!(who(&token).unwrap(), "system:serviceaccount:default:robot");
    cluster.change::<Secret>("robot-secret", |s| drop(s.data.as_mut().unwrap().remove("ca.crt")));
    cluster.settle().await;
    assert_eq!(data(&cluster, "robot-secret", "ca.crt"), "the CA", "removed data is restored");
    assert_eq!(data(&cluster, "robot-secret", "token"), token);
    // A deleted Secret invalidates its token; a new one has another token.
    delete(&cluster, Kind::Secret, "robot-secret").await;
    assert!(who(&token).is_err());
    cluster.create::<Secret>(token_secret("robot-secret", "robot"));
    cluster.settle().await;
    let second = data(&cluster, "robot-secret", "token");
    assert!(second != token && who(&second).is_ok());
    // The account is deleted and recreated with another uid: the Secret belonged to the first one.
    delete(&cluster, Kind::ServiceAccount, "robot").await;
    assert!(cluster.api.get(Kind::Secret, &key("robot-secret")).is_err() && who(&second).is_err());
    robot(&cluster);
    cluster.settle().await;
    assert!(who(&second).is_err());
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_token_secret_without_its_service_account_is_removed_and_others_stay_sa_1() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<Secret>(token_secret("lost", "missing"));
    let account = robot(&cluster);
    let mut of_another = token_secret("of-another", "robot");
    of_another["metadata"]["annotations"]["kubernetes.io/service-account.uid"] = json!("older");
    cluster.create::<Secret>(of_another);
    let mut opaque = token_secret("opaque", "robot");
    opaque["type"] = json!("Opaque");
    cluster.create::<Secret>(opaque);
    cluster.settle().await;
    let left: Vec<String> =
        cluster.api.list_as::<Secret>(Some("default")).iter().map(|s| s.name().to_string()).collect();
    assert_eq!(left, ["opaque"]);
    assert!(cluster.get::<Secret>("opaque").data.is_none());
    assert_eq!(cluster.get::<ServiceAccount>("robot").uid(), account.uid());
    cluster.stop().await;
}
