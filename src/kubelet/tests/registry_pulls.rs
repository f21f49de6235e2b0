//! Pulls from a registry: their events, their progress, pull secrets, back-off, and what cancels them (IMG-8).

use std::sync::atomic::{AtomicUsize, Ordering};

use futures::FutureExt;
use k8s_openapi::api::core::v1::Secret;

use super::*;
use crate::runtime::{Image, ImagePull, PullProgress, PullSecret, RuntimeError};
use object::pod::waiting_pull_progress;

const IMAGE: &str = "registry.example/me/app:v1";

pub(super) fn image() -> Image {
    Image { image_id: "sha256:abc".into(), size_bytes: 1234 }
}

/// Makes the node pull from a registry in which each pull takes `delay` and then has this result; returns the number of
/// pulls, of those that began and of those that ended.
pub(super) fn registry(
    scene: &KubeletFixture,
    delay: Duration,
    result: impl Fn(usize) -> Result<Image, RuntimeError> + Send + Sync + 'static,
) -> (Arc<AtomicUsize>, Arc<AtomicUsize>) {
    let (started, ended) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let counts = (started.clone(), ended.clone());
    scene.runtime.set_registry(Arc::new(move |_: &ImagePull| {
        let (result, ended) = (result(started.fetch_add(1, Ordering::SeqCst)), ended.clone());
        async move {
            tokio::time::sleep(delay).await;
            ended.fetch_add(1, Ordering::SeqCst);
            result
        }
        .boxed()
    }));
    counts
}

fn pod(policy: &str) -> Value {
    json!({"containers": [{"name": "a", "image": IMAGE, "imagePullPolicy": policy}]})
}

fn waiting_message(status: &PodStatus) -> Option<String> {
    status.container_statuses.as_ref()?[0].state.as_ref()?.waiting.as_ref()?.message.clone()
}

fn image_events(scene: &KubeletFixture) -> Vec<String> {
    let about = ["Pulling:", "Pulled:", "Failed:", "BackOff:", "FailedToRetrieveImagePullSecret:"];
    scene.events().into_iter().filter(|event| about.iter().any(|begin| event.starts_with(begin))).collect()
}

#[tokio::test(start_paused = true)]
async fn a_pull_runs_beside_the_pod_and_shows_its_progress_img_8() {
    let scene = KubeletFixture::new().await;
    registry(&scene, Duration::from_millis(12_500), |_| Ok(image()));
    scene.runtime.set_pull_progress(Some(PullProgress { done: 1_250_000, total: Some(40_000_000) }));
    let key = scene.create(pod("IfNotPresent"));
    scene.until(&key, "pulling", |s| waiting_message(s).as_deref() == Some("1.2 of 40.0 MB")).await;
    assert_eq!(show(&scene.status(&key)), "Pending a=ContainerCreating/0");
    // Clients read it from there.
    let read = waiting_pull_progress("ContainerCreating", "1.2 of 40.0 MB");
    assert_eq!(read, Some(PullProgress { done: 1_200_000, total: Some(40_000_000) }));
    tokio::time::sleep(Duration::from_secs(7)).await;
    scene.runtime.set_pull_progress(Some(PullProgress { done: 20_000_000, total: None }));
    scene.until(&key, "ready", is_ready).await;
    assert_eq!(scene.status(&key).container_statuses.unwrap()[0].image_id, "sha256:abc");
    let pulled = format!(
        "Pulled: Successfully pulled image \"{IMAGE}\" in 12.5s (12.5s including waiting). Image size: 1234 bytes."
    );
    assert_eq!(image_events(&scene), [format!("Pulling: Pulling image \"{IMAGE}\""), pulled]);
    scene.tasks.stop().await;
}

#[tokio::test(start_paused = true)]
async fn long_pulls_are_reported_by_an_event_every_ten_seconds_img_8() {
    let scene = KubeletFixture::new().await;
    registry(&scene, Duration::from_secs(25), |_| Ok(image()));
    let key = scene.create(pod("IfNotPresent"));
    for second in 0..24 {
        scene.runtime.set_pull_progress(Some(PullProgress { done: second * 1_000_000, total: None }));
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    scene.until(&key, "ready", is_ready).await;
    let reported = image_events(&scene).into_iter().filter(|event| event.contains(" MB")).count();
    assert_eq!(reported, 2);
    scene.tasks.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pull_that_fails_backs_off_and_is_tried_again_img_8() {
    let scene = KubeletFixture::new().await;
    let refused = || RuntimeError::PullFailed("connection refused".into());
    let (started, _) =
        registry(
            &scene,
            Duration::from_secs(1),
            move |pull| {
                if pull < 3 { Err(refused()) } else { Ok(image()) }
            },
        );
    let key = scene.create(pod("IfNotPresent"));
    scene.until(&key, "failed", |s| show(s) == "Pending a=ErrImagePull/0").await;
    assert_eq!(waiting_message(&scene.status(&key)).as_deref(), Some("connection refused"));
    scene.until(&key, "backing off", |s| show(s) == "Pending a=ImagePullBackOff/0").await;
    scene.until(&key, "ready", is_ready).await;
    // Waits of 10, 20 and 40 s, and four pulls of a second.
    assert_eq!((started.load(Ordering::SeqCst), scene.seconds()), (4, 74));
    let failed = format!("Failed: Failed to pull image \"{IMAGE}\": connection refused");
    assert!(image_events(&scene).contains(&failed));
    scene.tasks.stop().await;
}

#[tokio::test(start_paused = true)]
async fn only_always_asks_the_registry_again_img_8() {
    let scene = KubeletFixture::new().await;
    let (started, _) = registry(&scene, Duration::from_secs(1), |_| Ok(image()));
    for (name, policy, pulls) in
        [("p1", "IfNotPresent", 1), ("p2", "IfNotPresent", 1), ("p3", "Never", 1), ("p4", "Always", 2)]
    {
        let key = scene.create_named(name, pod(policy));
        scene.until(&key, "ready", is_ready).await;
        assert_eq!(started.load(Ordering::SeqCst), pulls, "{name}");
    }
    let key = scene.create_named(
        "p5",
        json!({"containers": [{"name": "a", "image": "else:1", "imagePullPolicy": "Never"}]}),
    );
    scene.until(&key, "never", |s| show(s) == "Pending a=ErrImageNeverPull/0").await;
    assert_eq!(started.load(Ordering::SeqCst), 2);
    scene.tasks.stop().await;
}

#[tokio::test(start_paused = true)]
async fn pull_secrets_reach_the_registry_and_missing_ones_are_reported_img_8() {
    let scene = KubeletFixture::new().await;
    let seen: Arc<parking_lot::Mutex<Vec<String>>> = Arc::default();
    let known = seen.clone();
    scene.runtime.set_registry(Arc::new(move |pull: &ImagePull| {
        known.lock().extend(pull.secrets.iter().map(|secret| match secret {
            PullSecret::Config(content) => format!("config {}", String::from_utf8_lossy(content)),
            PullSecret::Registries(content) => format!("registries {}", String::from_utf8_lossy(content)),
        }));
        async { Ok(image()) }.boxed()
    }));
    for (name, type_, key, content) in [
        ("one", "kubernetes.io/dockerconfigjson", ".dockerconfigjson", "{\"auths\":{}}"),
        ("two", "kubernetes.io/dockercfg", ".dockercfg", "{}"),
        ("other", "Opaque", "x", "y"),
    ] {
        let secret = json!({"metadata": {"name": name, "namespace": "default"}, "type": type_,
            "stringData": {key: content}});
        scene.api.create_as::<Secret>(serde_json::from_value(secret).unwrap()).unwrap();
    }
    let mut spec = pod("IfNotPresent");
    spec["imagePullSecrets"] = json!([{"name": "one"}, {"name": "two"}, {"name": "none"}, {"name": "other"}]);
    let key = scene.create(spec);
    scene.until(&key, "ready", is_ready).await;
    assert_eq!(*seen.lock(), ["config {\"auths\":{}}", "registries {}"]);
    let reported = "FailedToRetrieveImagePullSecret: Unable to retrieve some image pull secrets (none, other); attempting \
                to pull the image may not succeed.";
    assert!(image_events(&scene).contains(&reported.to_owned()), "{:#?}", image_events(&scene));
    scene.tasks.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_deleted_pod_cancels_its_pull_img_8() {
    let scene = KubeletFixture::new().await;
    let (started, ended) = registry(&scene, Duration::from_mins(10), |_| Ok(image()));
    let key = scene.create(pod("IfNotPresent"));
    scene.until(&key, "pulling", |s| show(s) == "Pending a=ContainerCreating/0").await;
    scene.api.delete(Kind::Pod, &key, &DeleteOptions::default()).unwrap();
    scene.until_deleted(&key).await;
    assert!(scene.seconds() < 60, "the deletion does not wait for the pull");
    tokio::time::sleep(Duration::from_mins(20)).await;
    assert_eq!((started.load(Ordering::SeqCst), ended.load(Ordering::SeqCst)), (1, 0));
    scene.tasks.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_new_image_replaces_the_pull_of_the_former_one_img_8() {
    let scene = KubeletFixture::new().await;
    let (started, _) = registry(&scene, Duration::from_mins(10), |_| Ok(image()));
    scene.runtime.set_pull_progress(Some(PullProgress { done: 0, total: None }));
    let key = scene.create(pod("IfNotPresent"));
    scene.until(&key, "pulling", |s| waiting_message(s).is_some()).await;
    let change = |pod: &mut Pod| {
        pod.spec.as_mut().unwrap().containers[0].image = Some("pause:3.9".into());
        Ok(())
    };
    scene.api.modify(&key, change).unwrap();
    scene.until(&key, "ready", is_ready).await;
    assert!(scene.seconds() < 60, "the new image does not wait for the former one");
    assert_eq!(started.load(Ordering::SeqCst), 1);
    scene.tasks.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_new_image_does_not_wait_for_the_back_off_of_the_former_one_img_1() {
    let scene = KubeletFixture::new().await;
    let refused = || RuntimeError::PullFailed("connection refused".into());
    let (started, _) = registry(&scene, Duration::from_secs(1), move |_| Err(refused()));
    let key = scene.create(pod("IfNotPresent"));
    scene.until(&key, "backing off", |s| show(s) == "Pending a=ImagePullBackOff/0").await;
    let change = |pod: &mut Pod| {
        pod.spec.as_mut().unwrap().containers[0].image = Some("pause:3.9".into());
        Ok(())
    };
    scene.api.modify(&key, change).unwrap();
    scene.until(&key, "ready", is_ready).await;
    assert!(scene.seconds() < 10, "the first back-off takes ten seconds");
    assert_eq!(started.load(Ordering::SeqCst), 1);
    scene.tasks.stop().await;
}
