//! Steps of the wall clock while pods run: every deadline stays as it is (FAULT-1).

use super::*;

const HOUR_MILLIS: i64 = 3_600_000;

/// A clock set back by an hour during a pod's grace period delayed its SIGKILL by an hour.
#[tokio::test(start_paused = true)]
async fn a_grace_period_is_unaffected_by_wall_clock_steps() {
    for step in [-HOUR_MILLIS, HOUR_MILLIS] {
        let scene = KubeletFixture::new().await;
        let hook = json!({"preStop": {"sleep": {"seconds": 20}}});
        let spec =
            json!({"containers": [{"name": "a", "lifecycle": hook}], "terminationGracePeriodSeconds": 20});
        let key = scene.create(spec);
        scene.until(&key, "ready", is_ready).await;
        scene.api.delete(Kind::Pod, &key, &DeleteOptions::default()).unwrap();
        tokio::time::sleep(Duration::from_secs(5)).await;
        let from = scene.seconds();
        scene.api.clock().set_skew_millis(step);
        // Five of the eight seconds have passed since the first deletion; the hook would take twenty.
        let shorter = DeleteOptions { grace_period_seconds: Some(8), ..DeleteOptions::default() };
        scene.api.delete(Kind::Pod, &key, &shorter).unwrap();
        scene.until_deleted(&key).await;
        assert_eq!(scene.seconds() - from, 3, "{step}");
        scene.tasks.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn back_offs_are_unaffected_by_wall_clock_steps() {
    for step in [-HOUR_MILLIS, HOUR_MILLIS] {
        let scene = KubeletFixture::new().await;
        let key = scene.create(json!({"containers": [{"name": "a"}, {"name": "b", "image": "nginx:1.91"}]}));
        scene.until(&key, "started", |s| show(s).contains("a=ready/0")).await;
        scene.exit(&key, "a", 1).await;
        scene.until(&key, "restarted", |s| show(s).contains("a=ready/1")).await;
        // The clock steps before, during and after the exit.
        for (restarts, wait) in [(2, 10), (3, 20), (4, 40), (5, 80)] {
            scene.exit(&key, "a", 1).await;
            let from = scene.seconds();
            scene.until(&key, "backing off", |s| show(s).contains("a=CrashLoopBackOff")).await;
            let skew = if restarts % 2 == 0 { step } else { 0 };
            scene.api.clock().set_skew_millis(skew);
            let again = format!("a=ready/{restarts}");
            scene.until(&key, "restarted", |s| show(s).contains(&again)).await;
            assert_eq!(scene.seconds() - from, wait, "{step}: restart {restarts}");
        }
        // 10 + 20 + 40 + 80 s of tries, regardless of the clock.
        let pulls = scene.runtime.faults().failed_pulls();
        assert!((4..=5).contains(&pulls), "{step}: {pulls} pulls");
        scene.tasks.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_active_deadline_is_unaffected_by_wall_clock_steps() {
    for step in [-HOUR_MILLIS, HOUR_MILLIS] {
        let scene = KubeletFixture::new().await;
        let key = scene.create(json!({"containers": [{"name": "a"}], "activeDeadlineSeconds": 100}));
        scene.until(&key, "ready", is_ready).await;
        let from = scene.seconds();
        scene.api.clock().set_skew_millis(step);
        scene.until(&key, "failed", |s| s.phase.as_deref() == Some("Failed")).await;
        assert!((99..=101).contains(&(scene.seconds() - from)), "{step}: {} s", scene.seconds() - from);
        scene.tasks.stop().await;
    }
}

/// A container that starts after the clock was set back belongs to its sandbox all the same.
#[tokio::test(start_paused = true)]
async fn init_containers_are_not_run_again_because_the_wall_clock_went_back_init_2() {
    let scene = KubeletFixture::new().await;
    let key = scene.create(json!({"initContainers": [{"name": "i1"}, {"name": "i2"}],
        "containers": [{"name": "a"}], "restartPolicy": "Never"}));
    scene.until(&key, "first", |s| show(s).starts_with("Pending i1=running")).await;
    scene.api.clock().set_skew_millis(-HOUR_MILLIS);
    scene.exit(&key, "i1", 0).await;
    scene.until(&key, "second", |s| show(s).contains("i2=running")).await;
    scene.exit(&key, "i2", 0).await;
    scene.until(&key, "ready", is_ready).await;
    assert_eq!(show(&scene.status(&key)), "Running i1=Completed(0)/0 i2=Completed(0)/0 a=ready/0");
    scene.tasks.stop().await;
}
