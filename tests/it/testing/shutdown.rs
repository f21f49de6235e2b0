//! A cluster's end: it leaves nothing behind, however it ended.

use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::watcher;
use podium::testing::{Cluster, PodBehaviour};
use tokio::runtime::Handle;

use super::{create, pod, pods};
use crate::instance::WAIT_TIMEOUT;

/// A cluster with a pod, a client that watches, and a weak reference that shows if any part of its nodes is alive.
async fn busy() -> (Cluster, PathBuf, Weak<()>) {
    let held = Arc::new(());
    let alive = Arc::downgrade(&held);
    let behaviour = move |_: &Pod| {
        let _ = &held;
        PodBehaviour::Runs
    };
    let cluster = Cluster::builder().listen().pod_behaviour(behaviour).start().await.unwrap();
    create::<Pod>(&cluster, pod("p", "Always")).await;
    let mut watch = Box::pin(watcher(pods(&cluster), watcher::Config::default()));
    watch.next().await.unwrap().unwrap();
    let directory = cluster.kubeconfig().unwrap().parent().unwrap().to_path_buf();
    assert!(directory.exists() && alive.upgrade().is_some());
    (cluster, directory, alive)
}

/// Waits until nothing of a cluster is left: no additional task, no directory, no memory of its nodes.
async fn nothing_is_left(tasks: usize, directory: &std::path::Path, alive: &Weak<()>) {
    let waiting = async {
        while Handle::current().metrics().num_alive_tasks() > tasks || alive.upgrade().is_some() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let waited = tokio::time::timeout(WAIT_TIMEOUT, waiting).await;
    let tasks = Handle::current().metrics().num_alive_tasks();
    assert!(waited.is_ok(), "{tasks} tasks; nodes alive: {}", alive.upgrade().is_some());
    assert!(!directory.exists(), "{}", directory.display());
}

#[tokio::test]
async fn nothing_is_left_of_a_cluster_that_is_dropped_api_20() {
    let before = Handle::current().metrics().num_alive_tasks();
    let (cluster, directory, alive) = busy().await;
    drop(cluster);
    nothing_is_left(before, &directory, &alive).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_left_of_a_cluster_that_is_dropped_by_one_of_many_threads_api_20() {
    let before = Handle::current().metrics().num_alive_tasks();
    let (cluster, directory, alive) = busy().await;
    drop(cluster);
    nothing_is_left(before, &directory, &alive).await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_left_of_a_cluster_that_is_stopped_api_20() {
    let before = Handle::current().metrics().num_alive_tasks();
    let (cluster, directory, alive) = busy().await;
    cluster.stop().await;
    nothing_is_left(before, &directory, &alive).await;
}

#[tokio::test]
async fn nothing_is_left_of_the_cluster_of_a_test_that_fails_api_20() {
    let before = Handle::current().metrics().num_alive_tasks();
    let (sender, heard) = tokio::sync::oneshot::channel();
    let failing = tokio::spawn(async move {
        let (_cluster, directory, alive) = busy().await;
        sender.send((directory, alive)).unwrap();
        panic!("a test fails");
    });
    assert!(failing.await.unwrap_err().is_panic());
    let (directory, alive) = heard.await.unwrap();
    nothing_is_left(before, &directory, &alive).await;
}

/// A start that is given up halfway, as by a time-out around it.
#[tokio::test]
async fn nothing_is_left_of_a_start_that_is_given_up_api_20() {
    let before = Handle::current().metrics().num_alive_tasks();
    for steps in 0..40 {
        let held = Arc::new(());
        let alive = Arc::downgrade(&held);
        let behaviour = move |_: &Pod| {
            let _ = &held;
            PodBehaviour::Runs
        };
        let mut start = Box::pin(Cluster::builder().pod_behaviour(behaviour).start());
        for _ in 0..steps {
            if futures::poll!(&mut start).is_ready() {
                break;
            }
            tokio::task::yield_now().await;
        }
        drop(start);
        nothing_is_left(before, std::path::Path::new("/nonexistent"), &alive).await;
    }
}
