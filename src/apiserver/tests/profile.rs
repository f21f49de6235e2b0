//! The profile of the running server, and its authorization.

use super::*;

const THREADS: &str = "/debug/pprof/threads";

async fn text(client: &Client, path: &str, user: Option<&str>) -> (u16, String) {
    let mut request = Request::builder().uri(path).header(AUTHORIZATION, format!("Bearer {TOKEN}"));
    if let Some(user) = user {
        request = request.header("impersonate-user", user);
    }
    let response = client.server.handle(request.body(Body::empty()).unwrap()).await;
    let code = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (code, String::from_utf8(body.to_vec()).unwrap())
}

/// One test for all, because a process takes only one profile at a time.
#[tokio::test(start_paused = true)]
async fn a_profile_is_bounded_and_needs_permission_api_15_api_19() {
    let client = Client::new().await;
    for path in ["/debug/pprof", "/debug/pprof/"] {
        let (code, index) = text(&client, path, None).await;
        assert!(code == 200 && index.contains("threads?seconds=N"), "{code} {index}");
    }
    for (path, expected) in [
        ("/debug/pprof/heap", 404),
        ("/debug/pprofx", 404),
        ("/debug/pprof/threads?seconds=0", 400),
        ("/debug/pprof/threads?seconds=31", 400),
        ("/debug/pprof/threads?seconds=-1", 400),
        ("/debug/pprof/threads?seconds=1e9", 400),
    ] {
        assert_eq!(text(&client, path, None).await.0, expected, "{path}");
    }
    assert_eq!(client.post(THREADS, &json!({})).await.code, 405);
    // Of two concurrent requests one gets 429; the next request after the first succeeds.
    let url = format!("{THREADS}?seconds=30");
    let (first, second) = tokio::join!(text(&client, &url, None), text(&client, THREADS, None));
    assert_eq!((first.0, second.0), (200, 429), "{first:?} {second:?}");
    let (code, page) = text(&client, THREADS, None).await;
    assert!(code == 200 && page.starts_with("seconds 5.0") && page.contains("\nworkers "), "{page}");
    if cfg!(target_os = "linux") {
        assert!(!page.contains("\nthreads 0\n"), "{page}");
    }
    // A client that leaves frees the profile.
    drop(tokio::time::timeout(std::time::Duration::from_secs(1), text(&client, &url, None)).await);
    assert_eq!(text(&client, THREADS, None).await.0, 200);
    // Roles allow this by its path.
    let (code, refusal) = text(&client, THREADS, Some("jane")).await;
    assert!(code == 403 && refusal.contains("cannot get path \\\"/debug/pprof/threads\\\""), "{refusal}");
    let role = json!({"metadata": {"name": "profiles"}, "rules": [{"nonResourceURLs": ["/debug/pprof/*"], "verbs": ["get"]}]});
    assert_eq!(client.post("/apis/rbac.authorization.k8s.io/v1/clusterroles", &role).await.code, 201);
    let binding = json!({"metadata": {"name": "profiles"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io",
        "kind": "ClusterRole", "name": "profiles"}, "subjects": [{"kind": "User", "name": "jane",
        "apiGroup": "rbac.authorization.k8s.io"}]});
    assert_eq!(
        client.post("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", &binding).await.code,
        201
    );
    assert_eq!(text(&client, THREADS, Some("jane")).await.0, 200);
    assert_eq!(text(&client, "/metrics", Some("jane")).await.0, 403);
}
