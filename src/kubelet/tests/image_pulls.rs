//! Pulling by policy, and backing off, with the kubelet's events (IMG-1).

use super::*;

/// The events about images, in the order of their first occurrence.
fn image_events(scene: &KubeletFixture) -> Vec<String> {
    let about = ["Pulling", "Pulled", "Failed", "BackOff", "ErrImageNeverPull", "InspectFailed"];
    let is_about = |event: &String| about.iter().any(|reason| event.starts_with(&format!("{reason}:")));
    scene.events().into_iter().filter(is_about).collect()
}

#[tokio::test(start_paused = true)]
async fn pulls_back_off_from_ten_seconds_to_five_minutes_img_1() {
    let scene = KubeletFixture::new().await;
    let key = scene.create(json!({"containers": [{"name": "a", "image": "nginx:1.91"}]}));
    let mut waits = Vec::new();
    let mut from = 0;
    for count in 1..=8 {
        let waiting = async {
            while scene.runtime.faults().failed_pulls() < count {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(Duration::from_hours(1), waiting).await.expect("it is tried again");
        waits.push(scene.seconds() - from);
        from = scene.seconds();
        // Later events exceed the limit of events for one object (API-11).
        if count == 1 {
            scene.until(&key, "back-off", |s| show(s).contains("ImagePullBackOff")).await;
            let events = image_events(&scene);
            assert_eq!(events[0], "Pulling: Pulling image \"nginx:1.91\"");
            assert!(
                events[1].starts_with("Failed: Failed to pull image \"nginx:1.91\": manifest for"),
                "{events:#?}"
            );
            let rest = ["Failed: Error: ErrImagePull", "BackOff: Back-off pulling image \"nginx:1.91\""];
            assert_eq!(events[2..4], rest);
            assert_eq!(events[4], "Failed: Error: ImagePullBackOff");
        }
    }
    assert_eq!(waits, [0, 10, 20, 40, 80, 160, 300, 300]);
    scene.until(&key, "back-off", |s| show(s).contains("ImagePullBackOff")).await;
    let status = scene.status(&key);
    let waiting = status.container_statuses.as_ref().unwrap()[0].state.clone().unwrap().waiting.unwrap();
    let message = waiting.message.unwrap();
    let begin = "Back-off pulling image \"nginx:1.91\": ErrImagePull: manifest for nginx:1.91 not found";
    assert!(message.starts_with(begin), "{message}");
    scene.tasks.stop().await;
}

/// No event reports a pull that did not happen.
#[tokio::test(start_paused = true)]
async fn images_of_the_catalog_are_present_under_every_pull_policy_img_1() {
    let scene = KubeletFixture::new().await;
    for (name, policy) in [("p1", "IfNotPresent"), ("p2", "IfNotPresent"), ("p3", "Always"), ("p4", "Never")]
    {
        let container = json!({"name": name, "image": "pause:3.9", "imagePullPolicy": policy});
        let key = scene.create_named(name, json!({"containers": [container]}));
        scene.until(&key, "ready", is_ready).await;
    }
    let size = scene.runtime.image_status("pause:3.9").await.unwrap().size_bytes;
    let present =
        "Pulled: Container image \"pause:3.9\" already present on machine and can be accessed by the pod";
    assert_eq!(image_events(&scene), [present; 4], "there is no registry that anything could be pulled from");

    // SCH-4: the Node object lists the image.
    tokio::time::sleep(Duration::from_secs(15)).await;
    let node = scene.api.get_as::<NodeObject>(&Key::new("", "n1")).unwrap();
    let images = node.status.clone().unwrap().images.unwrap();
    let names = images[0].names.clone().unwrap();
    assert!(names[0].starts_with("pause@sha256:") && names[1] == "pause:3.9", "{names:?}");
    assert_eq!(images[0].size_bytes, Some(i64::try_from(size).unwrap()));
    scene.tasks.stop().await;
}

#[tokio::test(start_paused = true)]
async fn never_pulled_and_no_image_name_at_all_img_1() {
    let scene = KubeletFixture::new().await;
    let container = json!({"name": "a", "image": "nginx:1.91", "imagePullPolicy": "Never"});
    let key = scene.create_named("never", json!({"containers": [container]}));
    scene.until(&key, "never pulled", |s| show(s) == "Pending a=ErrImageNeverPull/0").await;
    let never = "Container image \"nginx:1.91\" is not present with pull policy of Never";
    assert_eq!(
        image_events(&scene)[..2],
        [format!("ErrImageNeverPull: {never}"), "Failed: Error: ErrImageNeverPull".to_owned()]
    );
    let key = scene.create_named("bad", json!({"containers": [{"name": "a", "image": "NGINX:1"}]}));
    scene.until(&key, "invalid name", |s| show(s) == "Pending a=InvalidImageName/0").await;
    let events = image_events(&scene);
    let invalid = "InspectFailed: Failed to apply default image tag \"NGINX:1\": couldn't parse image name \
                   \"NGINX:1\": invalid reference format: repository name must be lowercase";
    assert!(events.contains(&invalid.to_owned()), "{events:#?}");
    assert!(events.contains(&"Failed: Error: InvalidImageName".to_owned()), "{events:#?}");
    scene.tasks.stop().await;
}
