//! Image volumes: their images are pulled like a container's, for all containers together (IMG-11).

use std::sync::atomic::Ordering;

use futures::FutureExt;

use super::registry_pulls::{image, registry};
use super::*;
use crate::runtime::{ImagePull, PullProgress, RuntimeError};

const DATA: &str = "registry.example/data:1";

fn pod(policy: &str) -> Value {
    let mount = json!([{"name": "v", "mountPath": "/v"}]);
    json!({
        "containers": [{"name": "a", "image": "pause:3.9", "volumeMounts": mount},
            {"name": "b", "image": "pause:3.9", "volumeMounts": mount}, {"name": "c", "image": "pause:3.9"}],
        "volumes": [{"name": "v", "image": {"reference": DATA, "pullPolicy": policy}}]})
}

fn events_of_pod(scene: &KubeletFixture) -> Vec<String> {
    let about_data = |event: &String| event.contains(DATA);
    scene.events().into_iter().filter(about_data).collect()
}

#[tokio::test(start_paused = true)]
async fn a_volumes_image_is_pulled_once_for_all_containers_img_11() {
    let scene = KubeletFixture::new().await;
    let (started, _) = registry(&scene, Duration::from_secs(5), |_| Ok(image()));
    scene.runtime.set_pull_progress(Some(PullProgress { done: 1_500_000, total: None }));
    let key = scene.create(pod("Always"));
    let pulling = "Pending a=ContainerCreating/0 b=ContainerCreating/0 c=ready/0";
    scene.until(&key, "pulling", |s| show(s) == pulling).await;
    let message = |status: &PodStatus| {
        let state = status.container_statuses.as_ref()?[1].state.clone()?;
        state.waiting?.message
    };
    scene.until(&key, "progress", |s| message(s).as_deref() == Some("1.5 MB")).await;
    scene.until(&key, "ready", is_ready).await;
    assert_eq!(started.load(Ordering::SeqCst), 1);
    let pulled = format!(
        "Pulled: Successfully pulled image \"{DATA}\" in 5s (5s including waiting). Image size: 1234 bytes."
    );
    assert_eq!(events_of_pod(&scene), [format!("Pulling: Pulling image \"{DATA}\""), pulled]);
    let status = scene.status(&key).container_statuses.unwrap();
    let shown = status[0].volume_mounts.as_ref().unwrap()[0].volume_status.clone().unwrap();
    assert_eq!(shown.image.unwrap().image_ref, "sha256:abc");

    // A container that restarts shows the files that the pod has had: the registry is not queried again.
    scene.exit(&key, "a", 1).await;
    scene.until(&key, "restarted", |s| show(s).contains("a=ready/1")).await;
    assert_eq!(started.load(Ordering::SeqCst), 1);
    scene.tasks.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_new_image_replaces_one_that_was_pulled_before_the_volumes_img_11() {
    let scene = KubeletFixture::new().await;
    scene.runtime.set_registry(Arc::new(|pull: &ImagePull| {
        let delay = Duration::from_secs(if pull.image == DATA { 60 } else { 1 });
        async move {
            tokio::time::sleep(delay).await;
            Ok(image())
        }
        .boxed()
    }));
    let [former, new] = ["registry.example/me/app:v1", "registry.example/me/app:v2"];
    let mut spec = pod("IfNotPresent");
    spec["containers"][0]["image"] = json!(former);
    let key = scene.create(spec);
    let has = |event: &str| scene.events().iter().any(|known| known.starts_with(event));
    scene.until(&key, "pulled", |_| has(&format!("Pulled: Successfully pulled image \"{former}\""))).await;
    let change = |pod: &mut Pod| {
        pod.spec.as_mut().unwrap().containers[0].image = Some(new.into());
        Ok(())
    };
    scene.api.modify(&key, change).unwrap();
    scene.until(&key, "ready", is_ready).await;
    assert!(has(&format!("Pulled: Successfully pulled image \"{new}\"")));
    assert!(!has("Failed: "), "{:#?}", scene.events());
    scene.tasks.stop().await;
}

#[tokio::test(start_paused = true)]
async fn only_containers_with_the_volume_wait_for_a_failed_pull_img_11() {
    let scene = KubeletFixture::new().await;
    let refused = || RuntimeError::PullFailed("connection refused".into());
    let (started, _) =
        registry(
            &scene,
            Duration::from_secs(1),
            move |pull| {
                if pull < 2 { Err(refused()) } else { Ok(image()) }
            },
        );
    let key = scene.create(pod("IfNotPresent"));
    let failed = "Pending a=ErrImagePull/0 b=ErrImagePull/0 c=ready/0";
    scene.until(&key, "failed", |s| show(s) == failed).await;
    let backing_off = "Pending a=ImagePullBackOff/0 b=ImagePullBackOff/0 c=ready/0";
    scene.until(&key, "backing off", |s| show(s) == backing_off).await;
    let waiting = scene.status(&key).container_statuses.unwrap()[0].state.clone().unwrap().waiting.unwrap();
    let message = format!("Back-off pulling image \"{DATA}\": ErrImagePull: connection refused");
    assert_eq!(waiting.message, Some(message));
    let events = events_of_pod(&scene);
    assert_eq!(events[1], format!("Failed: Failed to pull image \"{DATA}\": connection refused"));
    assert_eq!(events[2], format!("BackOff: Back-off pulling image \"{DATA}\""));
    scene.until(&key, "ready", is_ready).await;
    // Waits of 10 and 20 s, and three pulls of a second.
    assert_eq!((started.load(Ordering::SeqCst), scene.seconds()), (3, 33));
    scene.tasks.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_volumes_pull_policy_counts_and_a_deleted_pod_cancels_its_pull_img_11() {
    let scene = KubeletFixture::new().await;
    let (started, ended) = registry(&scene, Duration::from_mins(10), |_| Ok(image()));
    let key = scene.create_named("never", pod("Never"));
    let never = "Pending a=ErrImageNeverPull/0 b=ErrImageNeverPull/0 c=ready/0";
    scene.until(&key, "never pulled", |s| show(s) == never).await;
    let key = scene.create_named("deleted", pod("IfNotPresent"));
    scene
        .until(&key, "pulling", |s| show(s).contains("a=ContainerCreating/0 b=ContainerCreating/0 c=ready/0"))
        .await;
    scene.api.delete(Kind::Pod, &key, &DeleteOptions::default()).unwrap();
    scene.until_deleted(&key).await;
    tokio::time::sleep(Duration::from_mins(20)).await;
    assert_eq!((started.load(Ordering::SeqCst), ended.load(Ordering::SeqCst)), (1, 0));
    scene.tasks.stop().await;
}
