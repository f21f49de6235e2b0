//! Conversions that are cached for all lists and watches: of stored objects, and available even if the converter hangs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::Method;
use serde_json::{Value, json};

use super::{V1, V2, V3, ask, calls, converter, correct_answer, define, get, post, site, sites_converted_by};
use crate::http::InMemoryServer;
use crate::webhooks::server::{Reply, Webhook};

/// The result of a dry run has the uid and the revision of the stored object, and must not be cached as it.
#[tokio::test(flavor = "multi_thread")]
async fn the_conversion_of_a_dry_run_result_is_not_cached_api_14() {
    let webhook = converter();
    let one = format!("{V2}/a?dryRun=All");
    let all = format!("{V2}?dryRun=All");
    let next = site("v2", "a", &json!({"host": "h", "port": "99"}));
    let patch = json!({"spec": {"port": "99"}});
    for (method, path, type_, body) in [
        (Method::PUT, &one, "application/json", &next),
        (Method::PATCH, &one, "application/merge-patch+json", &patch),
        (Method::DELETE, &one, "application/json", &Value::Null),
        (Method::DELETE, &all, "application/json", &Value::Null),
    ] {
        let face = InMemoryServer::new();
        define(&face, &sites_converted_by(&webhook, "v1"));
        let mut held = site("v1", "a", &json!({"hostPort": "h:1"}));
        held["metadata"]["finalizers"] = json!(["conv.test/held"]);
        let (status, made) = post(&face, V1, &held).await;
        assert_eq!(status, 201, "{made}");
        let mut tried = body.clone();
        if method == Method::PUT {
            tried["metadata"]["resourceVersion"] = made["metadata"]["resourceVersion"].clone();
        }
        let (status, shown) = ask(&face, method.clone(), path, type_, &tried).await;
        assert_eq!(status, 200, "{method} {path}: {shown}");
        let (_, list) = get(&face, V2).await;
        let item = &list["items"][0];
        assert_eq!(item["spec"]["port"], "1", "{method} {path}: {list}");
        assert_eq!(item["metadata"]["deletionTimestamp"], Value::Null, "{method} {path}: {list}");
    }
}

/// Eight reads occupy all permits for a definition's converter; a list that needs no call does not wait for them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cached_conversion_does_not_wait_for_a_hanging_converter_api_14() {
    let hangs = Arc::new(AtomicBool::new(false));
    let webhook = Webhook::start({
        let hangs = hangs.clone();
        move |_, review| {
            if hangs.load(Ordering::SeqCst) { Reply::Hangs } else { Reply::Json(correct_answer(review)) }
        }
    });
    let face = Arc::new(InMemoryServer::new());
    define(&face, &sites_converted_by(&webhook, "v1"));
    post(&face, V1, &site("v1", "a", &json!({"hostPort": "h:1"}))).await;
    assert_eq!(get(&face, V2).await.0, 200);
    calls(&webhook);
    hangs.store(true, Ordering::SeqCst);
    let requests: Vec<_> = (0..8)
        .map(|_| {
            let face = face.clone();
            tokio::spawn(async move { get(&face, &format!("{V2}/a")).await.0 })
        })
        .collect();
    let all_hang = async {
        while webhook.seen().len() < requests.len() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_mins(1), all_hang).await.expect("they are asked");
    let (status, list) = get(&face, V2).await;
    assert_eq!((status, &list["items"][0]["spec"]["port"]), (200, &json!("1")), "{list}");
    assert!(requests.iter().all(|one| !one.is_finished()), "the list has waited for them");
    webhook.release();
    for one in requests {
        assert_eq!(one.await.unwrap(), 500);
    }
}

/// The objects of a page are converted to another version from the stored object, not from the first conversion.
#[tokio::test(flavor = "multi_thread")]
async fn a_list_goes_on_in_the_version_that_it_began_in_api_2_api_14() {
    let (webhook, face) = (converter(), InMemoryServer::new());
    define(&face, &sites_converted_by(&webhook, "v1"));
    for name in ["a", "b"] {
        let mut site = site("v1", name, &json!({"hostPort": "h:1"}));
        site["metadata"]["labels"] = json!({"n": "1"});
        assert_eq!(post(&face, V1, &site).await.0, 201);
    }
    let query = "labelSelector=n%3D1&limit=1";
    let (_, first) = get(&face, &format!("{V2}?{query}")).await;
    let token = first["metadata"]["continue"].as_str().unwrap();
    let (status, refused) = get(&face, &format!("{V3}?{query}&continue={token}")).await;
    assert_eq!(status, 400, "{refused}");
    let (status, rest) = get(&face, &format!("{V2}?{query}&continue={token}")).await;
    assert_eq!((status, &rest["items"][0]["spec"]["port"]), (200, &json!("1")), "{rest}");
    calls(&webhook);
    assert_eq!(get(&face, V3).await.0, 200);
    let from: Vec<_> =
        webhook.seen().iter().map(|review| review["objects"][0]["apiVersion"].clone()).collect();
    assert_eq!(from, ["conv.test/v1"]);
}
