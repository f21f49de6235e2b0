//! Pods that are deleted while they start.

use super::*;

/// 16 of 200 pods that were deleted while they started stayed Terminating for ever.
#[tokio::test(start_paused = true)]
async fn pods_deleted_while_they_start_all_go_pod_7() {
    // A real container takes as long, so that deletions fall before, into and after its start.
    let hollow = HollowConfig { start_delay: Seconds(Duration::from_millis(60)), ..HollowConfig::default() };
    let scene = KubeletFixture::with(hollow).await;
    let deletions = (0..200_u64).map(|n| {
        let scene = &scene;
        async move {
            tokio::time::sleep(Duration::from_millis(n)).await;
            let key = scene.create_named(
                &format!("p{n}"),
                json!({"containers": [{"name": "a"}], "terminationGracePeriodSeconds": 2}),
            );
            tokio::time::sleep(Duration::from_millis(n * 7 % 121)).await;
            scene.api.delete(Kind::Pod, &key, &DeleteOptions::default()).unwrap();
        }
    });
    futures::future::join_all(deletions).await;
    tokio::time::sleep(Duration::from_mins(2)).await;
    let left = scene.api.list_as::<Pod>(Some("default"));
    assert!(left.is_empty(), "{} of 200 are left", left.len());
    assert!(scene.runtime.list().await.unwrap().is_empty(), "and nothing of them on the node");
    scene.tasks.stop().await;
}
