//! Conversions that are kept for all who list and watch: of what is stored, and at hand whatever the converter does.

use http::Method;
use serde_json::{Value, json};

use super::{V1, V2, ask, by, converter, define, get, post, site};
use crate::http::Face;

/// What a dry run comes to has the uid and the revision of what is stored, and is not it.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_dry_run_comes_to_is_shown_to_nobody_else_api_14() {
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
        let face = Face::new();
        define(&face, &by(&webhook, "v1"));
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
