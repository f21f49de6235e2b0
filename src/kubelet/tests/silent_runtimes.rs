//! Runtimes that do not answer, and actions that fail.

use super::*;

fn ready(scene: &KubeletFixture) -> (String, String, String) {
    let node = scene.api.get_as::<NodeObject>(&Key::new("", "n1")).unwrap();
    let ready =
        node.status.as_ref().unwrap().conditions.iter().flatten().find(|c| c.type_ == "Ready").unwrap();
    (ready.status.clone(), ready.reason.clone().unwrap(), ready.message.clone().unwrap())
}

/// The node is not ready after three minutes, as with Kubernetes' PLEG (NODE-2).
#[tokio::test(start_paused = true)]
async fn a_runtime_that_falls_silent_makes_its_node_not_ready_until_it_answers() {
    let scene = KubeletFixture::new().await;
    let key = scene.create(json!({"containers": [{"name": "a"}]}));
    scene.until(&key, "ready", is_ready).await;
    scene.runtime.faults().set_answering(false);
    tokio::time::sleep(Duration::from_secs(170)).await;
    assert_eq!(ready(&scene).0, "True", "it has three minutes");
    tokio::time::sleep(Duration::from_secs(90)).await;
    let (status, reason, message) = ready(&scene);
    assert_eq!((status.as_str(), reason.as_str()), ("False", "KubeletNotReady"));
    assert!(message.starts_with("PLEG is not healthy: pleg was last seen active 3m"), "{message}");
    assert!(message.ends_with("ago; threshold is 3m0s"), "{message}");
    let reasons = |scene: &KubeletFixture| -> Vec<String> {
        let events = scene.api.list_as::<Event>(None);
        let about_node = events.iter().filter(|e| e.involved_object.kind.as_deref() == Some("Node"));
        about_node.map(|e| e.reason.clone().unwrap_or_default()).collect()
    };
    assert!(reasons(&scene).contains(&"NodeNotReady".to_string()), "{:?}", reasons(&scene));

    // A pod that is deleted meanwhile waits, and is removed when the runtime answers again.
    scene.api.delete(Kind::Pod, &key, &DeleteOptions::default()).unwrap();
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert!(scene.api.get(Kind::Pod, &key).is_ok(), "the pod stays until its processes are known to be dead");
    scene.runtime.faults().set_answering(true);
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert_eq!(ready(&scene).0, "True");
    assert!(reasons(&scene).contains(&"NodeReady".to_string()), "{:?}", reasons(&scene));
    scene.until_deleted(&key).await;
    scene.tasks.stop().await;
}

/// Found by the simulator: the kubelet withdrew the condition that the node controller had set, which set it again,
/// fifty times a second.
#[tokio::test(start_paused = true)]
async fn a_pod_with_a_silent_runtime_is_not_reported_ready_again_node_2() {
    let scene = KubeletFixture::new().await;
    let key = scene.create(json!({"containers": [{"name": "a"}]}));
    scene.until(&key, "ready", is_ready).await;
    scene.runtime.faults().set_answering(false);
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert_eq!(ready(&scene).0, "False");
    let modified = scene.api.modify_status::<Pod>(&key, |pod| {
        let conditions = pod.status.iter_mut().flat_map(|status| status.conditions.iter_mut().flatten());
        for condition in conditions.filter(|condition| condition.type_ == "Ready") {
            condition.status = "False".into();
            condition.reason = Some("NodeNotReady".into());
        }
        Ok(())
    });
    let reported = modified.unwrap().object().revision();
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert_eq!(scene.pod(&key).object().revision(), reported, "the reported status is not overwritten");
    scene.runtime.faults().set_answering(true);
    scene.until(&key, "ready again", is_ready).await;
    scene.tasks.stop().await;
}

/// A stop gives up on a runtime that does not answer once the grace periods are over (CLI-5).
#[tokio::test(start_paused = true)]
async fn a_stop_does_not_wait_for_a_runtime_that_does_not_answer() {
    let scene = KubeletFixture::new().await;
    let key = scene.create(json!({"containers": [{"name": "a"}], "terminationGracePeriodSeconds": 20}));
    scene.until(&key, "ready", is_ready).await;
    scene.runtime.faults().set_answering(false);
    let from = scene.seconds();
    let stopping = tokio::time::timeout(Duration::from_hours(1), scene.kubelet.shutdown(|_| {}));
    assert!(!stopping.await.expect("the node ends"), "its host has to be killed");
    assert_eq!(scene.seconds() - from, 30, "the grace, and the time to answer");
    scene.tasks.stop().await;
}

/// The first request to stop takes effect, however long the pods' grace periods are (CLI-5).
#[tokio::test(start_paused = true)]
async fn a_stop_cuts_graces_at_its_limit() {
    let scene = KubeletFixture::new().await;
    let hook = json!({"preStop": {"sleep": {"seconds": 100_000}}});
    let container = json!({"name": "a", "lifecycle": hook});
    let spec = json!({"containers": [container], "terminationGracePeriodSeconds": i64::MAX});
    let (retained, deleted) = (scene.create_named("kept", spec.clone()), scene.create_named("deleted", spec));
    scene.until(&retained, "ready", is_ready).await;
    scene.until(&deleted, "ready", is_ready).await;
    scene.api.delete(Kind::Pod, &deleted, &DeleteOptions::default()).unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    let from = scene.seconds();
    let stopping = tokio::time::timeout(Duration::from_hours(24), scene.kubelet.shutdown(|_| {}));
    assert!(stopping.await.expect("the node ends"), "by itself");
    let took = scene.seconds() - from;
    assert!((600..=610).contains(&took), "{took} s: ten minutes, and the moment to obey");
    scene.tasks.stop().await;
}

/// A file that could not be removed caused 3 400 attempts a second.
#[tokio::test(start_paused = true)]
async fn failed_removals_back_off_despite_events_meanwhile() {
    let scene = KubeletFixture::new().await;
    let key = scene.create(json!({"containers": [{"name": "a"}]}));
    scene.until(&key, "ready", is_ready).await;
    let uid = scene.pod(&key).uid().to_string();
    scene.runtime.faults().refuse_removals(Some("Operation not permitted"));
    scene.api.delete(Kind::Pod, &key, &DeleteOptions::default()).unwrap();
    // A host reports each of its tries like this.
    for _ in 0..600 {
        scene.kubelets.workers.push_event(&uid, PodEvent::Resync);
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let tries = scene.runtime.faults().refused_removals();
    // 1 + 2 + 4 … 64 s, then every two minutes.
    assert!((10..=12).contains(&tries), "{tries} tries in ten minutes");
    scene.runtime.faults().refuse_removals(None);
    scene.until_deleted(&key).await;
    scene.tasks.stop().await;
}
