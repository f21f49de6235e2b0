//! The console's kinds follow the definitions of custom resources: events announce each change, without polling (CON-2,
//! CON-14).

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use podium::base::clock::Clock;
use podium::console_data::catalogue::Catalogue;
use podium::console_data::feed::{Feed, retry_policy};
use podium::console_data::message::Message;
use podium::testing::Cluster;
use serde_json::json;
use tokio::sync::mpsc;

fn definition(plural: &str, kind: &str) -> CustomResourceDefinition {
    serde_json::from_value(json!({
        "metadata": {"name": format!("{plural}.made.test")},
        "spec": {"group": "made.test", "scope": "Namespaced", "names": {"plural": plural, "kind": kind},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}]},
    }))
    .unwrap()
}

/// Waits until the set of test kinds differs from `from`, and returns it. There is no timeout: a console that gets no
/// event hangs the test.
async fn changed(inbox: &mut mpsc::Receiver<Message>, from: &[&str]) -> Vec<&'static str> {
    loop {
        if let Message::Catalogue(kinds) = inbox.recv().await.expect("the feed goes on") {
            let now = test_kinds(&kinds);
            if now != from {
                return now;
            }
        }
    }
}

/// The test kinds in this catalogue.
fn test_kinds(kinds: &Catalogue) -> Vec<&'static str> {
    let mut made = Vec::new();
    for name in ["Gadget", "Widget"] {
        made.extend(kinds.by_gvk("made.test/v1", name).map(|_| name));
    }
    made
}

/// A kind is available once its definition exists and until it is deleted; it neither flickers nor comes back.
#[tokio::test(start_paused = true)]
async fn a_kind_comes_with_its_definition_and_goes_with_it_con_2_con_14() {
    let cluster = Cluster::start().await.unwrap();
    let (client, (sender, mut inbox)) = (cluster.client(), mpsc::channel(64));
    let definitions = Api::<CustomResourceDefinition>::all(client.clone());
    let feed = Feed::start(&client, "default", &sender, &Clock::machine(), retry_policy("localhost"));
    // The built-in kinds come first: the test's kinds come by events.
    while !matches!(inbox.recv().await.expect("the feed goes on"), Message::Catalogue(kinds) if test_kinds(&kinds).is_empty())
    {
    }
    for (plural, kind) in [("gadgets", "Gadget"), ("widgets", "Widget")] {
        definitions.create(&PostParams::default(), &definition(plural, kind)).await.unwrap();
    }
    // Both kinds may appear at once, or one after the other; neither disappears meanwhile.
    let mut seen = Vec::new();
    while seen.len() < 2 {
        let now = changed(&mut inbox, &seen).await;
        assert!(seen.iter().all(|kind| now.contains(kind)), "{seen:?} {now:?}");
        seen = now;
    }
    definitions.delete("gadgets.made.test", &DeleteParams::default()).await.unwrap();
    assert_eq!(changed(&mut inbox, &seen).await, ["Widget"]);
    // The kind appears again with its definition.
    definitions.create(&PostParams::default(), &definition("gadgets", "Gadget")).await.unwrap();
    assert_eq!(changed(&mut inbox, &["Widget"]).await, ["Gadget", "Widget"]);
    for plural in ["gadgets", "widgets"] {
        definitions.delete(&format!("{plural}.made.test"), &DeleteParams::default()).await.unwrap();
    }
    while !seen.is_empty() {
        let now = changed(&mut inbox, &seen).await;
        assert!(now.iter().all(|kind| seen.contains(kind)), "{seen:?} {now:?}");
        seen = now;
    }
    drop(feed);
}
