//! Hollow containers on virtual time.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use super::{ContainerBehavior, HollowConfig, HollowRuntime};
use crate::runtime::{ContainerSpec, Runtime, RuntimeError, RuntimeEvent, SandboxSpec, example_sandbox};
use base::session::SessionStreams;
use images::Catalogue;
use object::config::Seconds;

fn runtime(config: HollowConfig) -> HollowRuntime {
    let start = Instant::now();
    let wall = move || Timestamp::UNIX_EPOCH + start.elapsed();
    HollowRuntime::new(config, Arc::new(Catalogue::new(Vec::new(), "CONFIG")), Arc::new(wall))
}

fn sandbox(uid: &str) -> SandboxSpec {
    let text = || uid.to_owned();
    SandboxSpec { pod_uid: text(), name: text(), hostname: text(), ..example_sandbox() }
}

fn container(uid: &str, attempt: u32, image: &str) -> ContainerSpec {
    ContainerSpec {
        pod_uid: uid.to_owned(),
        name: "main".to_owned(),
        attempt,
        image: image.to_owned(),
        termination_message_path: PathBuf::from("/dev/termination-log"),
        ..ContainerSpec::default()
    }
}

/// NODE-7: start delay and planned ends follow virtual time alone.
#[tokio::test(start_paused = true)]
async fn containers_start_late_and_end_by_themselves() {
    let config = HollowConfig {
        start_delay: Seconds(Duration::from_secs(3)),
        run_duration: Some(Seconds(Duration::from_mins(1))),
        exit_failure_rate: 1.0,
        ..HollowConfig::default()
    };
    let runtime = runtime(config);
    let mut events = runtime.events();
    runtime.run_sandbox(sandbox("a")).await.unwrap();
    let record = runtime.start_container(container("a", 0, "whatever:v1")).await.unwrap();
    assert_eq!(record.started_at.as_second(), 3);
    let again = runtime.start_container(container("a", 0, "whatever:v1")).await.unwrap();
    assert_eq!(again.id, record.id, "starting twice is starting once");

    assert_eq!(events.recv().await, Some(RuntimeEvent::PodChanged("a".to_owned())));
    let known = runtime.inspect(&"a".to_owned()).await.unwrap().unwrap();
    let exit = known.containers[0].exit.clone().unwrap();
    assert_eq!((exit.exit_code, exit.finished_at.as_second()), (1, 63));

    runtime.remove_sandbox(&"a".to_owned()).await.unwrap();
    assert!(runtime.list().await.unwrap().is_empty());
}

/// The restartPolicy decides whether a pod's work ends: after a short time, unless `run_duration` sets another.
#[tokio::test(start_paused = true)]
async fn containers_that_complete_end_with_exit_code_0_after_their_time_node_7() {
    for (run_duration, expected) in [(None, 1), (Some(Seconds(Duration::from_mins(1))), 60)] {
        let config = HollowConfig { run_duration, ..HollowConfig::default() };
        let completes = |_: &SandboxSpec, _: &ContainerSpec| ContainerBehavior::Completes;
        let runtime = runtime(config).with_behavior(Arc::new(completes));
        let mut events = runtime.events();
        runtime.run_sandbox(sandbox("a")).await.unwrap();
        let started_at = runtime.start_container(container("a", 0, "work:v1")).await.unwrap().started_at;
        events.recv().await.unwrap();
        let known = runtime.inspect(&"a".to_owned()).await.unwrap().unwrap();
        let exit = known.containers[0].exit.clone().unwrap();
        assert_eq!((exit.exit_code, exit.finished_at.duration_since(started_at).as_secs()), (0, expected));
    }
}

#[tokio::test(start_paused = true)]
async fn a_hollow_node_takes_every_image_but_those_known_to_be_missing_img_2() {
    let runtime = runtime(HollowConfig::default());
    let pinned = format!("nginx:1.25@sha256:{}", "ab".repeat(32));
    for image in
        ["my-company/unknown:v7", "ghcr.io/acme/nginx:9", "nginx:1.29", "redis:8.2.1-alpine", &pinned]
    {
        assert!(runtime.image_status(image).await.is_ok(), "{image}");
    }
    assert!(matches!(runtime.image_status("nginx:1.91").await, Err(RuntimeError::ImageNotFound(_))));
    assert!(matches!(runtime.image_status("Ünfug").await, Err(RuntimeError::InvalidImageName(_))));
}

#[tokio::test(start_paused = true)]
async fn stopping_kills_and_asking_ends_cleanly() {
    let runtime = runtime(HollowConfig::default());
    runtime.run_sandbox(sandbox("a")).await.unwrap();
    let started = runtime.start_container(container("a", 0, "x")).await.unwrap();
    runtime.terminate_container(&started.id).await.unwrap();
    runtime.start_container(container("a", 1, "x")).await.unwrap();
    runtime.stop_sandbox(&"a".to_owned()).await.unwrap();
    let known = runtime.inspect(&"a".to_owned()).await.unwrap().unwrap();
    assert!(!known.ready);
    let codes: Vec<i32> =
        known.containers.iter().map(|container| container.exit.as_ref().unwrap().exit_code).collect();
    assert_eq!(codes, [0, 137]);
    assert!(matches!(runtime.start_container(container("a", 2, "x")).await, Err(RuntimeError::NotFound(_))));
    assert!(runtime.exec(&started.id, vec![], SessionStreams::default()).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_fails_the_same_starts() {
    let outcome = |seed| async move {
        let config = HollowConfig { start_failure_rate: 0.5, seed, ..HollowConfig::default() };
        let runtime = runtime(config);
        runtime.run_sandbox(sandbox("a")).await.unwrap();
        let mut outcome = Vec::new();
        for attempt in 0..32 {
            outcome.push(runtime.start_container(container("a", attempt, "x")).await.is_ok());
        }
        outcome
    };
    assert_eq!(outcome(1).await, outcome(1).await);
    assert_ne!(outcome(1).await, outcome(2).await);
}
