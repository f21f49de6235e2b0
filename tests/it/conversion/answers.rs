//! A converter's responses and their effects, and requests without a response.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::Method;
use serde_json::{Value, json};

use super::{
    V1, V2, answer, ask, converted, converter, correct_answer, define, get, merge, post, site, sites,
    sites_converted_by, stored,
};
use crate::http::{InMemoryServer, OWNER};
use crate::webhooks::server::{Reply, Webhook};

/// Changes a correct response into a wrong one.
type MutateAnswerFn = fn(&mut Value);

/// Starts a server that changes its next correct response in this way.
fn webhook_with_mutated_answer(how: MutateAnswerFn) -> Webhook {
    Webhook::start(move |_, review| {
        let mut answer = correct_answer(review);
        how(&mut answer);
        Reply::Json(answer)
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_conversion_response_gives_the_errors_of_kubernetes_api_14() {
    let of = "conversion webhook for conv.test/v1, Kind=Site";
    let invalid = format!("{of} returned invalid object: ");
    let cases: [(MutateAnswerFn, String); 11] = [
        (|a| a["response"]["uid"] = json!("x"), format!("{of} failed: expected response.uid=")),
        (
            |a| a["kind"] = json!("Review"),
            format!(
                "{of} failed: expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, got apiextensions.k8s.io/v1, Kind=Review"
            ),
        ),
        (
            |a| a["response"]["result"] = json!({"status": "Failed", "message": "not today"}),
            format!("{of} failed: not today"),
        ),
        (
            |a| a["response"]["result"] = json!(null),
            format!("{of} failed: response.result.status was '', not 'Success'"),
        ),
        (|a| a["response"]["convertedObjects"] = json!([]), format!("{of} returned 0 objects, expected 1")),
        (
            |a| a["response"]["convertedObjects"][0]["apiVersion"] = json!("conv.test/v3"),
            format!("{invalid}invalid groupVersion (expected conv.test/v2, received conv.test/v3)"),
        ),
        (
            |a| a["response"]["convertedObjects"][0]["kind"] = json!("Town"),
            format!("{invalid}invalid kind (expected Site, received Town)"),
        ),
        (
            |a| a["response"]["convertedObjects"][0]["metadata"]["name"] = json!("b"),
            format!("{invalid}must have the same name: a != b"),
        ),
        (
            |a| a["response"]["convertedObjects"][0]["metadata"]["uid"] = json!("b"),
            format!("{invalid}must have the same UID: "),
        ),
        (|a| a["response"]["convertedObjects"][0] = json!("text"), format!("{invalid}not an object")),
        (
            |a| a["response"]["convertedObjects"][0]["metadata"]["labels"] = json!({"-": "x"}),
            format!("{of} returned invalid metadata: metadata.labels: Invalid value: \"-\": "),
        ),
    ];
    for (how, expected) in cases {
        let (webhook, face) = (webhook_with_mutated_answer(how), InMemoryServer::new());
        define(&face, &sites_converted_by(&webhook, "v1"));
        assert_eq!(post(&face, V1, &site("v1", "a", &json!({"hostPort": "h:1"}))).await.0, 201);
        for path in [format!("{V2}/a"), V2.to_string()] {
            let (status, refused) = get(&face, &path).await;
            let message = refused["message"].as_str().unwrap_or_default();
            assert_eq!(status, 500, "{refused}");
            assert!(message.starts_with(&expected), "{message}\n{expected}");
        }
        assert_eq!(merge(&face, &format!("{V2}/a"), &json!({"spec": {"port": "2"}})).await.0, 500);
        assert_eq!(get(&face, &format!("{V1}/a")).await.0, 200, "as it is stored it needs no conversion");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn conversions_are_counted_by_how_they_go_api_19() {
    let turn = AtomicUsize::new(0);
    let webhook = Webhook::start(move |_, review| {
        let mut answer = correct_answer(review);
        match turn.fetch_add(1, Ordering::Relaxed) {
            0 => answer["response"]["uid"] = json!("x"),
            1 => answer["response"]["convertedObjects"] = json!([]),
            2 => answer["response"]["convertedObjects"][0]["kind"] = json!("Town"),
            3 => return Reply::Text(500, "oops".into()),
            _ => {}
        }
        Reply::Json(answer)
    });
    let face = InMemoryServer::new();
    let kind = define(&face, &sites_converted_by(&webhook, "v1"));
    assert_eq!(post(&face, V1, &site("v1", "a", &json!({"hostPort": "h:1"}))).await.0, 201);
    for status in [500, 500, 500, 500, 200] {
        assert_eq!(get(&face, &format!("{V2}/a")).await.0, status);
    }
    let series = async || {
        let answer = face.get("/metrics", &[OWNER]).await;
        let text = answer.body;
        let series =
            text.lines().filter(|line| line.contains("conversion_webhook") && !line.starts_with('#'));
        series.map(ToString::to_string).collect::<Vec<_>>()
    };
    let reported = series().await;
    let failures = ["malformed_response", "partial_response", "invalid_converted_object", "call"];
    let labels =
        failures.map(|why| format!("failure_type=\"conversion_webhook_{why}_failure\",result=\"failure\""));
    for labels in labels.into_iter().chain(["failure_type=\"\",result=\"success\"".to_string()]) {
        for name in ["request_total", "duration_seconds_count"] {
            let line = format!("apiserver_conversion_webhook_{name}{{{labels}}} 1");
            assert!(reported.contains(&line), "{line}: {reported:#?}");
        }
    }
    let of_sites = |succeeded: bool| {
        format!(
            "apiserver_crd_conversion_webhook_duration_seconds_count{{crd_name=\"sites.conv.test\",\
             from_version=\"v1\",succeeded=\"{succeeded}\",to_version=\"v2\"}}"
        )
    };
    for line in [format!("{} 4", of_sites(false)), format!("{} 1", of_sites(true))] {
        assert!(reported.contains(&line), "{line}: {reported:#?}");
    }
    face.api.undefine(kind);
    assert!(!series().await.iter().any(|line| line.contains("sites.conv.test")));
}

#[tokio::test(flavor = "multi_thread")]
async fn garbage_and_silence_are_refused_with_what_is_wrong_api_14() {
    let webhook = Webhook::start(|path, review| match path {
        "/garbage" => Reply::Text(200, "<html>".into()),
        "/long" => Reply::Text(200, "x".repeat(9 * 1024 * 1024)),
        "/deep" => {
            let deep = (0..300).fold(json!({}), |deep, _| json!({"a": deep}));
            let mut object = converted(&review["request"]["objects"][0], "conv.test/v2");
            object["spec"] = deep;
            Reply::Json(answer(review, &[object]))
        }
        "/many" => {
            let mut object = converted(&review["request"]["objects"][0], "conv.test/v2");
            object["spec"] = vec![json!({}); 30_000].into();
            Reply::Json(answer(review, &[object]))
        }
        "/old" => {
            assert_eq!(review["apiVersion"], "apiextensions.k8s.io/v1beta1");
            Reply::Json(correct_answer(review))
        }
        _ => Reply::Text(500, "oops\n".into()),
    });
    let of = "conversion webhook for conv.test/v1, Kind=Site";
    for (path, versions, expected) in [
        ("/garbage", json!(["v1"]), format!("{of} failed: couldn't get version/kind; json parse error: ")),
        ("/long", json!(["v1"]), format!("{of} failed: the response is longer than 8388608 bytes")),
        ("/deep", json!(["v1"]), format!("{of} ")),
        (
            "/many",
            json!(["v1"]),
            format!("{of} returned invalid object: the object has more than 20000 objects and list elements"),
        ),
        ("/error", json!(["v1"]), format!("{of} failed: an error on the server (\"oops\") has prevented")),
        ("/old", json!(["v1beta1", "v1"]), String::new()),
    ] {
        let face = InMemoryServer::new();
        let client = webhook.client_config(path);
        let conversion = json!({"strategy": "Webhook",
            "webhook": {"clientConfig": client, "conversionReviewVersions": versions}});
        define(&face, &sites(&conversion, "v1"));
        post(&face, V1, &site("v1", "a", &json!({"hostPort": "h:1"}))).await;
        let (status, shown) = get(&face, &format!("{V2}/a")).await;
        let message = shown["message"].as_str().unwrap_or_default();
        assert_eq!(status == 200, expected.is_empty(), "{path}: {shown}");
        assert!(message.starts_with(&expected), "{path}: {message}");
    }
    // No server listens.
    let face = InMemoryServer::new();
    let gone = { crate::conversion::converter().client_config("/") };
    let unreachable =
        json!({"strategy": "Webhook", "webhook": {"clientConfig": gone, "conversionReviewVersions": ["v1"]}});
    let kind = define(&face, &sites(&unreachable, "v1"));
    post(&face, V1, &site("v1", "a", &json!({"hostPort": "h:1"}))).await;
    let (status, refused) = get(&face, &format!("{V2}/a")).await;
    let message = refused["message"].as_str().unwrap();
    assert_eq!(status, 500);
    assert!(
        message.contains("?timeout=30s\": dial tcp 127.0.0.1:") && message.contains("connection refused"),
        "{message}"
    );
    let (status, _) = post(&face, V2, &site("v2", "b", &json!({"host": "h"}))).await;
    assert_eq!((status, face.api.count(kind)), (500, 1), "an object that cannot be converted is not stored");
}

/// A converter's error may be as long as its response, and would be sent to every watcher and to the log.
#[tokio::test(flavor = "multi_thread")]
async fn a_long_converter_error_is_truncated_api_14() {
    type LongLie = fn(&mut Value, &str);
    let long = "é".repeat(1024 * 1024);
    let lies: [(&str, LongLie); 5] = [
        ("failed: éé", |a, long| {
            a["response"]["result"] = json!({"status": "Failed", "message": long});
        }),
        ("failed: response.result.status was 'éé", |a, long| {
            a["response"]["result"] = json!({"status": long});
        }),
        ("failed: expected response.uid=", |a, long| a["response"]["uid"] = json!(long)),
        ("failed: expected webhook response of", |a, long| a["kind"] = json!(long)),
        ("returned invalid object: invalid kind (expected Site, received éé", |a, long| {
            a["response"]["convertedObjects"][0]["kind"] = json!(long);
        }),
    ];
    for (expected, lie) in lies {
        let complaint = long.clone();
        let webhook = Webhook::start(move |_, review| {
            let mut answer = correct_answer(review);
            lie(&mut answer, &complaint);
            Reply::Json(answer)
        });
        let face = InMemoryServer::new();
        define(&face, &sites_converted_by(&webhook, "v1"));
        post(&face, V1, &site("v1", "a", &json!({"hostPort": "h:1"}))).await;
        let (status, refused) = get(&face, V2).await;
        let message = refused["message"].as_str().unwrap();
        let begin = format!("conversion webhook for conv.test/v1, Kind=Site {expected}");
        assert!(message.starts_with(&begin), "{}", message.chars().take(200).collect::<String>());
        assert!(status == 500 && message.len() < 5000 && message.ends_with("..."), "{}", message.len());
    }
}

/// A conversion may change labels and annotations, and no other metadata.
#[tokio::test(flavor = "multi_thread")]
async fn a_conversion_changes_labels_and_annotations_alone_of_the_metadata_api_14() {
    let webhook = webhook_with_mutated_answer(|answer| {
        let metadata = &mut answer["response"]["convertedObjects"][0]["metadata"];
        metadata["labels"] = json!({"converted": "yes"});
        metadata["annotations"] = json!({"conv.test/from": "v1"});
        metadata["finalizers"] = json!(["conv.test/smuggled"]);
        metadata["resourceVersion"] = json!("1");
        metadata["ownerReferences"] = json!("garbage");
    });
    let face = InMemoryServer::new();
    let kind = define(&face, &sites_converted_by(&webhook, "v1"));
    post(&face, V1, &site("v1", "a", &json!({"hostPort": "h:1"}))).await;
    let (status, shown) = get(&face, &format!("{V2}/a")).await;
    assert_eq!(status, 200, "{shown}");
    assert_eq!(shown["metadata"]["labels"], json!({"converted": "yes"}));
    assert_eq!(shown["metadata"]["finalizers"], Value::Null);
    assert_eq!(shown["metadata"]["resourceVersion"], stored(&face, kind, "a")["metadata"]["resourceVersion"]);
    let (_, list) = get(&face, &format!("{V2}?labelSelector=converted%3Dyes")).await;
    assert_eq!(list["items"].as_array().unwrap().len(), 1, "it is selected by what it shows");
}

/// A converter that does not answer blocks neither threads nor other requests.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hanging_converter_does_not_block_other_requests_api_14() {
    let webhook = Webhook::start(|_, _| Reply::Hangs);
    let face = Arc::new(InMemoryServer::new());
    define(&face, &sites_converted_by(&webhook, "v1"));
    post(&face, V1, &site("v1", "a", &json!({"hostPort": "h:1"}))).await;
    let requests: Vec<_> = (0..100)
        .map(|i| {
            let face = face.clone();
            tokio::spawn(async move {
                match i % 3 {
                    0 => get(&face, &format!("{V2}/a")).await,
                    1 => get(&face, V2).await,
                    _ => merge(&face, &format!("{V2}/a"), &json!({"spec": {"port": "2"}})).await,
                }
            })
        })
        .collect();
    let both = async {
        // Eight reads are in progress, and as many writes.
        while webhook.seen().len() < 8 + 8 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_mins(1), both).await.expect("they are asked");
    assert_eq!(get(&face, &format!("{V1}/a")).await.0, 200);
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}});
    assert_eq!(post(&face, "/api/v1/namespaces/default/configmaps", &map).await.0, 201);
    webhook.release();
    for one in requests {
        assert_eq!(one.await.unwrap().0, 500, "the late answer is not a conversion");
    }
}

/// As many writes of one definition as may wait for webhooks: writes of another definition do not wait behind them, nor
/// do deletions, which call no webhook.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hanging_converter_does_not_block_writes_of_other_definitions_api_14_api_16() {
    let (hanging, working) = (Webhook::start(|_, _| Reply::Hangs), converter());
    let face = Arc::new(InMemoryServer::new());
    define(&face, &sites_converted_by(&hanging, "v1"));
    let mut towns = sites_converted_by(&working, "v1");
    towns["names"] = json!({"plural": "towns", "kind": "Town"});
    define(&face, &towns);
    for name in ["a", "b", "c"] {
        assert_eq!(post(&face, V1, &site("v1", name, &json!({"hostPort": "h:1"}))).await.0, 201);
    }
    let requests: Vec<_> = (0..80)
        .map(|_| {
            let face = face.clone();
            let patch = json!({"spec": {"port": "2"}});
            tokio::spawn(async move { merge(&face, &format!("{V2}/a"), &patch).await.0 })
        })
        .collect();
    let all_hang = async {
        while hanging.seen().len() < 8 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_mins(1), all_hang).await.expect("they are asked");
    let mut town = site("v2", "t", &json!({"host": "h", "port": "1"}));
    town["kind"] = json!("Town");
    let (status, made) = post(&face, "/apis/conv.test/v2/namespaces/default/towns", &town).await;
    assert_eq!(status, 201, "{made}");
    for path in [format!("{V1}/b"), format!("{V1}?fieldSelector=metadata.name%3Dc")] {
        let (status, gone) = ask(&face, Method::DELETE, &path, "application/json", &Value::Null).await;
        assert_eq!(status, 200, "{gone}");
    }
    assert!(requests.iter().all(|one| !one.is_finished()), "the patches still wait");
    assert_eq!(hanging.seen().len(), 8);
    hanging.release();
    for one in requests {
        assert_eq!(one.await.unwrap(), 500);
    }
}
