//! Protobuf responses over HTTP (API-19).

use bytes::Bytes;
use http_body_util::BodyExt;

use super::*;
use crate::protobuf;

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// Content type, status and body of a response.
async fn fetch(client: &Client, path: &str, accept: &str) -> (String, u16, Bytes) {
    let response = client.get_as(path, accept).await;
    let content_type = response.headers()[CONTENT_TYPE].to_str().unwrap().to_string();
    let (status, mut body) = (response.status().as_u16(), response.into_body());
    // The first chunk of a watch is enough.
    let bytes = if path.contains("watch=") {
        body.frame().await.unwrap().unwrap().into_data().unwrap()
    } else {
        body.collect().await.unwrap().to_bytes()
    };
    (content_type, status, bytes)
}

#[tokio::test(start_paused = true)]
async fn objects_refusals_lists_and_watches_are_messages_for_who_asks_api_19() {
    let client = Client::new().await;
    for name in ["a", "b"] {
        let map = json!({"metadata": {"name": name, "labels": {"x": "y"}}, "data": {"k": "v"}});
        assert_eq!(client.post(MAPS, &map).await.code, 201);
    }
    let a = format!("{MAPS}/a");
    let (content_type, _, bytes) = fetch(&client, &a, PROTOBUF).await;
    assert_eq!(content_type, PROTOBUF);
    assert_eq!(protobuf::decode(&bytes).unwrap(), client.get(&a).await.body);

    let (content_type, status, bytes) = fetch(&client, &format!("{MAPS}/none"), PROTOBUF).await;
    assert_eq!((content_type.as_str(), status), (PROTOBUF, 404));
    let refused = protobuf::decode(&bytes).unwrap();
    assert_eq!((&refused["kind"], &refused["reason"]), (&json!("Status"), &json!("NotFound")));

    let (content_type, _, list) = fetch(&client, MAPS, &format!("{PROTOBUF},application/json")).await;
    assert_eq!(content_type, PROTOBUF);
    let message = |name: &str| {
        let api = client.server.api();
        let object = api.get(object::Kind::ConfigMap, &object::Key::new("default", name)).unwrap();
        protobuf::object(object::Kind::ConfigMap.into(), &object).unwrap()
    };
    for item in [message("a"), message("b")] {
        assert!(list.windows(item.len()).any(|part| part == item));
    }

    let watch = format!("{MAPS}?watch=true");
    let (content_type, _, events) = fetch(&client, &watch, &format!("{PROTOBUF};stream=watch")).await;
    assert_eq!(content_type, "application/vnd.kubernetes.protobuf;stream=watch");
    let first = protobuf::event("ADDED", &protobuf::enveloped("v1", "ConfigMap", &message("a")));
    let second = protobuf::event("ADDED", &protobuf::enveloped("v1", "ConfigMap", &message("b")));
    assert_eq!(events, [first, second].concat());
    let expired = format!(
        "{MAPS}?watch=true&resourceVersion=999999&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    );
    let (_, _, refusal) = fetch(&client, &expired, &format!("{PROTOBUF};stream=watch")).await;
    assert!(refusal.windows(5).any(|part| part == b"ERROR"), "{refusal:?}");
}

#[tokio::test(start_paused = true)]
async fn metadata_alone_is_a_message_and_what_has_none_is_json_api_19() {
    let client = Client::new().await;
    assert_eq!(client.post(MAPS, &json!({"metadata": {"name": "a"}, "data": {"k": "v"}})).await.code, 201);
    let partial = format!("{PROTOBUF};as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json");
    let a = format!("{MAPS}/a");
    let (content_type, _, bytes) = fetch(&client, &a, &partial).await;
    assert_eq!(content_type, PROTOBUF);
    let object = client.server.api().get(object::Kind::ConfigMap, &object::Key::new("default", "a")).unwrap();
    let message = protobuf::partial(&object).unwrap();
    assert_eq!(bytes, protobuf::enveloped("meta.k8s.io/v1", "PartialObjectMetadata", &message));

    // Definitions have no protobuf form here, discovery has none at all.
    for path in ["/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "/apis", "/api/v1"] {
        let (content_type, status, _) = fetch(&client, path, &format!("{PROTOBUF},application/json")).await;
        assert_eq!((content_type.as_str(), status), ("application/json", 200), "{path}");
    }
}
