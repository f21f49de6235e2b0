//! Requests that fail on purpose, and watches that end.

use std::time::Duration;

use futures::TryStreamExt;
use http_body_util::BodyExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use podium::testing::{ClientOptions, Cluster, Failure, Requests};
use serde_json::json;

fn maps(cluster: &Cluster, agent: &str) -> Api<ConfigMap> {
    let client = cluster.client_with(&ClientOptions::new().user_agent(agent)).unwrap();
    Api::default_namespaced(client)
}

fn map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}})).unwrap()
}

fn describe<T: std::fmt::Debug>(answer: kube::Result<T>) -> String {
    match answer {
        Ok(_) => "done".into(),
        Err(kube::Error::Api(status)) => format!("{} {}", status.code, status.reason),
        Err(error) => format!("{error}"),
    }
}

#[tokio::test(start_paused = true)]
async fn only_matching_requests_fail_and_as_often_as_requested_api_20_fault_1() {
    let cluster = Cluster::start().await.unwrap();
    let (ours, test) = (maps(&cluster, "operator"), maps(&cluster, "test"));
    let writes = || Requests::to("configmaps").writing().from("operator");
    for (failure, expected) in [
        (Failure::Conflict, "409 Conflict"),
        (Failure::NotFound, "404 NotFound"),
        (Failure::Forbidden("not now".into()), "403 Forbidden"),
        (Failure::TooManyRequests(1), "429 TooManyRequests"),
        (Failure::Internal("oops".into()), "500 InternalError"),
        (Failure::Unavailable, "503 ServiceUnavailable"),
        (Failure::Timeout, "504 Timeout"),
    ] {
        let fault = cluster.fail_next(2, writes(), failure);
        let create = async |maps: &Api<ConfigMap>, name| {
            describe(maps.create(&PostParams::default(), &map(name)).await)
        };
        assert_eq!(create(&test, "test").await, "done", "it is about the operator");
        assert_eq!(describe(ours.get("test").await), "done", "it is about writes");
        assert_eq!(create(&ours, "ours").await, expected);
        assert_eq!(describe(test.get("ours").await), "404 NotFound", "nothing was done");
        assert_eq!(create(&ours, "ours").await, expected);
        assert_eq!(create(&ours, "ours").await, "done");
        assert_eq!(fault.hits(), 2);
        test.delete_collection(&DeleteParams::default(), &ListParams::default()).await.unwrap();
    }
    let fault = cluster.fail(writes(), Failure::Unavailable);
    for _ in 0..3 {
        assert_eq!(describe(ours.create(&PostParams::default(), &map("x")).await), "503 ServiceUnavailable");
    }
    fault.heal();
    assert_eq!(describe(ours.create(&PostParams::default(), &map("x")).await), "done");
    assert_eq!(fault.hits(), 3);
}

/// The hardest failure of all: the client cannot know whether it was done.
#[tokio::test(start_paused = true)]
async fn an_answer_is_lost_though_the_write_was_done_api_20_fault_1() {
    let cluster = Cluster::start().await.unwrap();
    let maps = maps(&cluster, "operator");
    cluster.fail_next(1, Requests::to("configmaps").verb("create"), Failure::AnswerLost);
    assert_eq!(describe(maps.create(&PostParams::default(), &map("m")).await), "504 Timeout");
    assert_eq!(describe(maps.create(&PostParams::default(), &map("m")).await), "409 AlreadyExists");
}

#[tokio::test(start_paused = true)]
async fn a_delay_is_one_of_the_clusters_time_api_20_fault_1() {
    let cluster = Cluster::start().await.unwrap();
    let maps = maps(&cluster, "operator");
    cluster
        .fail(Requests::to("configmaps").verb("get").named("slow"), Failure::Delay(Duration::from_mins(2)));
    let before = cluster.now();
    assert_eq!(describe(maps.get("fast").await), "404 NotFound");
    assert!(cluster.now().duration_since(before).as_secs() < 1);
    assert_eq!(describe(maps.get("slow").await), "404 NotFound");
    assert_eq!(cluster.now().duration_since(before).as_secs(), 120);
}

#[tokio::test(start_paused = true)]
async fn watches_end_or_expire_when_a_test_wants_them_to_api_20_fault_1() {
    let cluster = Cluster::start().await.unwrap();
    let maps = maps(&cluster, "operator");
    maps.create(&PostParams::default(), &map("m")).await.unwrap();
    let watched = Requests::to("configmaps").from("operator");
    assert_eq!(cluster.end_watches(&watched), 0);
    for expires in [false, true] {
        let version = maps.get("m").await.unwrap().metadata.resource_version.unwrap();
        let stream = maps.watch(&WatchParams::default(), &version).await.unwrap();
        let mut stream = Box::pin(stream);
        let patch = Patch::Merge(json!({"data": {"expires": format!("{expires}")}}));
        maps.patch("m", &PatchParams::default(), &patch).await.unwrap();
        assert!(matches!(stream.try_next().await.unwrap(), Some(WatchEvent::Modified(_))));
        let system = Requests::to("configmaps").namespace("kube-system");
        assert_eq!(cluster.expire_watches(&system), 0);
        let end = if expires { Cluster::expire_watches } else { Cluster::end_watches };
        assert_eq!(end(&cluster, &watched), 1);
        let last = stream.try_next().await.unwrap();
        match last {
            Some(WatchEvent::Error(status)) => assert_eq!((expires, status.code), (true, 410)),
            None => assert!(!expires),
            other => panic!("{other:?}"),
        }
        assert!(stream.try_next().await.unwrap().is_none());
        assert_eq!(end(&cluster, &watched), 0);
    }
}

/// As client-go watches built-in kinds.
#[tokio::test(start_paused = true)]
async fn watches_in_protobuf_end_or_expire_as_well_api_20_fault_1() {
    let cluster = Cluster::start().await.unwrap();
    let maps = maps(&cluster, "operator");
    maps.create(&PostParams::default(), &map("m")).await.unwrap();
    let client = cluster.client_with(&ClientOptions::new().user_agent("operator")).unwrap();
    let watched = Requests::to("configmaps").from("operator").verb("watch");
    for (expires, text) in [(false, "a"), (true, "b")] {
        let version = maps.get("m").await.unwrap().metadata.resource_version.unwrap();
        let path = format!("/api/v1/namespaces/default/configmaps?watch=true&resourceVersion={version}");
        let request = http::Request::get(path)
            .header("accept", "application/vnd.kubernetes.protobuf;stream=watch")
            .body(kube::client::Body::empty())
            .unwrap();
        let mut events = client.send(request).await.unwrap().into_body();
        let patch = Patch::Merge(json!({"data": {"text": text}}));
        maps.patch("m", &PatchParams::default(), &patch).await.unwrap();
        let event = events.frame().await.unwrap().unwrap().into_data().unwrap();
        assert!(event.windows(8).any(|part| part == b"MODIFIED"), "{event:?}");
        assert_ne!(event.last(), Some(&b'\n'), "it does not look like a line");
        let end = if expires { Cluster::expire_watches } else { Cluster::end_watches };
        assert_eq!(end(&cluster, &watched), 1);
        let next = tokio::time::timeout(Duration::from_secs(5), events.frame()).await;
        let next = next.expect("it has ended");
        assert_eq!(next.is_some(), expires);
        if let Some(last) = next {
            let last = last.unwrap().into_data().unwrap();
            let length = u32::from_be_bytes(last[..4].try_into().unwrap()) as usize;
            assert_eq!(last.len(), 4 + length);
            assert!(last.windows(7).any(|part| part == b"Expired"), "{last:?}");
            assert!(events.frame().await.is_none());
        }
        assert_eq!(end(&cluster, &watched), 0);
    }
}
