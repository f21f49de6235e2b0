//! The history of objects in podium.dev (SAFE-8).

use std::time::Duration;

use super::*;
use object::Revision;

const HISTORY: &str = "/apis/podium.dev/v1alpha1/history";

fn describe_items(answered: &TestResponse) -> Vec<String> {
    let items = answered.body["items"].as_array().unwrap();
    let one = |item: &Value| {
        let (object, time) = (&item["object"], item["time"].as_str().unwrap());
        format!("{} {} {} {}", item["type"], object["metadata"]["name"], object["data"]["k"], &time[11..19])
    };
    items.iter().map(|item| one(item).replace('"', "")).collect()
}

#[tokio::test(start_paused = true)]
async fn the_history_of_an_object_and_of_a_kind_is_served_safe_8() {
    let client = Client::new().await;
    let map = |name: &str, value: &str| json!({"metadata": {"name": name}, "data": {"k": value}});
    let clock = client.server.api().clock().clone();
    assert_eq!(client.post(MAPS, &map("a", "1")).await.code, 201);
    clock.sleep(Duration::from_secs(5)).await;
    assert_eq!(client.post(MAPS, &map("b", "1")).await.code, 201);
    assert_eq!(client.put(&format!("{MAPS}/a"), &map("a", "2")).await.code, 200);
    clock.sleep(Duration::from_secs(5)).await;
    assert_eq!(client.delete(&format!("{MAPS}/a"), &json!({})).await.code, 200);

    let all = client.get(&format!("{HISTORY}{MAPS}")).await;
    let at = |answered: &TestResponse| {
        describe_items(answered).iter().map(|line| line[..line.len() - 9].to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(at(&all), ["ADDED a 1", "ADDED b 1", "MODIFIED a 2", "DELETED a 2"]);
    let seconds = |line: &str| line[line.len() - 2..].parse::<i64>().unwrap();
    let lines = describe_items(&all);
    assert_eq!((seconds(&lines[3]) - seconds(&lines[1])).rem_euclid(60), 5, "{lines:?}");
    let now = client.server.api().revision().to_string();
    assert_eq!((&all.body["metadata"]["resourceVersion"], &all.body["older"]), (&json!(now), &json!(0)));
    // Up to a revision, up to a time, and after a revision; without objects on request.
    let revisions: Vec<&str> = all.body["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|i| i["resourceVersion"].as_str().unwrap())
        .collect();
    let until = client.get(&format!("{HISTORY}{MAPS}?until={}", revisions[1])).await;
    assert_eq!(at(&until), ["ADDED a 1", "ADDED b 1"]);
    let first = all.body["items"][0]["time"].as_str().unwrap();
    let until = client.get(&format!("{HISTORY}{MAPS}?until={first}")).await;
    assert_eq!(at(&until), ["ADDED a 1"]);
    let up_to: u64 = until.body["until"].as_str().unwrap().parse().unwrap();
    assert!(up_to >= revisions[0].parse().unwrap() && up_to < revisions[1].parse().unwrap(), "{up_to}");
    let before = client.get(&format!("{HISTORY}{MAPS}?until=1969-01-01T00:00:00Z")).await;
    assert_eq!((at(&before).len(), &before.body["until"]), (0, &json!("0")));
    let on = client.get(&format!("{HISTORY}{MAPS}?after={}&limit=1", revisions[0])).await;
    assert_eq!((at(&on), &on.body["newer"]), (vec!["ADDED b 1".to_owned()], &json!(2)));
    let bare = client.get(&format!("{HISTORY}{MAPS}?includeObject=None")).await;
    let items = bare.body["items"].as_array().unwrap();
    assert!(items.len() == 4 && items.iter().all(|item| item.get("object").is_none()), "{items:?}");
    for bad in ["until=yesterday", "until=-1", "after=x"] {
        assert_eq!(client.get(&format!("{HISTORY}{MAPS}?{bad}")).await.code, 400, "{bad}");
    }
    let one = client.get(&format!("{HISTORY}{MAPS}/a?limit=2")).await;
    assert_eq!(at(&one), ["MODIFIED a 2", "DELETED a 2"]);
    assert_eq!(one.body["older"], 1);
    let versions = one.body["items"].as_array().unwrap();
    assert_eq!(versions[1]["resourceVersion"], json!(now));
    // As far back as history reaches.
    client.server.api().compact(Revision(now.parse::<u64>().unwrap() - 1));
    let left = client.get(&format!("{HISTORY}/api/v1/configmaps")).await;
    assert_eq!(at(&left), ["DELETED a 2"]);
    assert_eq!(left.body["after"], json!((now.parse::<u64>().unwrap() - 1).to_string()));
    assert_eq!(client.get(&format!("{HISTORY}/api/v1/nosuch")).await.code, 404);
    assert_eq!(client.post(&format!("{HISTORY}{MAPS}"), &map("c", "1")).await.code, 405);
    assert_eq!(client.get(&format!("{HISTORY}{MAPS}?watch=true")).await.code, 405);
}

/// A client that may not read a path may not read its past, with any query.
#[tokio::test(start_paused = true)]
async fn history_needs_permission_to_read_the_present_state_safe_8_api_15() {
    let client = Client::new().await;
    let rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
    let role = json!({"metadata": {"name": "r"}, "rules": [
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"], "resourceNames": ["mine"]},
        {"apiGroups": [""], "resources": ["endpoints"], "verbs": ["list"]}]});
    assert_eq!(client.post(&format!("{rbac}/roles"), &role).await.code, 201);
    let binding = json!({"metadata": {"name": "r"},
        "subjects": [{"kind": "User", "name": "bob", "apiGroup": "rbac.authorization.k8s.io"}],
        "roleRef": {"kind": "Role", "name": "r", "apiGroup": "rbac.authorization.k8s.io"}});
    assert_eq!(client.post(&format!("{rbac}/rolebindings"), &binding).await.code, 201);
    let code_of = async |path: &str| {
        let request = Request::builder()
            .uri(format!("{HISTORY}{path}"))
            .header(AUTHORIZATION, format!("Bearer {TOKEN}"))
            .header("impersonate-user", "bob")
            .body(Body::empty())
            .unwrap();
        client.server.handle(request).await.status().as_u16()
    };
    let endpoints = "/api/v1/namespaces/default/endpoints";
    for (path, expected) in [
        (format!("{MAPS}/mine"), 200),
        (format!("{MAPS}/other"), 403),
        (MAPS.to_owned(), 403),
        (format!("{MAPS}?fieldSelector=metadata.name%3Dmine"), 403),
        (endpoints.to_owned(), 200),
        ("/api/v1/endpoints".to_owned(), 403),
        ("/api/v1/namespaces/default/secrets".to_owned(), 403),
    ] {
        assert_eq!(code_of(&path).await, expected, "{path}");
    }
}
