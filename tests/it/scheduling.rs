//! The scheduler through the API: its verdicts about pods that fit on no node, as the console requests them.

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use podium::console_data::builtin_kinds;
use podium::console_data::resource::ObjectRef;
use podium::console_screens::pending::verdict::{Hint, Verdict, VerdictResponse, fetch};
use serde_json::json;

use crate::instance::DataDir;

fn reference(name: &str) -> ObjectRef {
    ObjectRef {
        kind: builtin_kinds::kind::<Pod>(),
        namespace: Some("default".into()),
        name: name.into(),
        uid: None,
    }
}

/// The verdict on a pod, once the scheduler has tried it.
async fn verdict(client: &kube::Client, name: &str) -> Verdict {
    let start = Instant::now();
    loop {
        match fetch(client.clone(), &reference(name)).await {
            VerdictResponse::Verdict(verdict) => return *verdict,
            VerdictResponse::Untried if start.elapsed() < Duration::from_secs(30) => {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn the_console_reads_the_verdict_that_the_api_serves_con_9_sch_9() {
    let home = DataDir::new();
    let instance = home.start(&["--ephemeral", "--nodes", "0", "--hollow-nodes", "3"]);
    let client = instance.client().await;
    let pods: Api<Pod> = Api::namespaced(client.clone(), "default");
    let huge: Pod = serde_json::from_value(json!({"metadata": {"name": "huge"}, "spec": {"containers": [
        {"name": "c", "image": "pause", "resources": {"requests": {"cpu": "4000"}}}]}}))
    .unwrap();
    assert_eq!(
        fetch(client.clone(), &reference("huge")).await,
        VerdictResponse::Untried,
        "there is no such pod"
    );
    pods.create(&PostParams::default(), &huge).await.unwrap();

    let verdict = verdict(&client, "huge").await;
    assert!(
        verdict.message.starts_with("0/3 nodes are available: 3 Insufficient cpu."),
        "{}",
        verdict.message
    );
    assert!(verdict.filters.iter().any(|filter| filter == "NodeResourcesFit"), "{:?}", verdict.filters);
    assert_eq!(verdict.nodes.len(), 3);
    for node in &verdict.nodes {
        assert_eq!(node.refusals[0].plugin, "NodeResourcesFit");
        assert_eq!(node.refusals[0].reasons, ["Insufficient cpu"]);
        assert_eq!(node.scores.len(), verdict.scored_by.len());
        assert!(verdict.total(node).is_some_and(|total| total > 0), "{node:?}");
    }
    // All three are alike: the hint is given once.
    let [Hint { alike: 2, changes, .. }] = &verdict.hints[..] else { panic!("{:?}", verdict.hints) };
    assert!(changes[0].starts_with("request at most "), "{changes:?}");
    pods.delete("huge", &DeleteParams::default().grace_period(0)).await.unwrap();
    assert_eq!(fetch(client, &reference("huge")).await, VerdictResponse::Untried);
    instance.stop();
}
