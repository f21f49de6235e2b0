//! The scenarios of the CronJob page. Every cluster starts at midnight.

mod clocks;

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{CronJob, Job};
use podium::object::owner::controller_reference;
use podium::object::pod::is_active;
use serde_json::{Value, json};

use super::cluster::{Cluster, NO_NODES};
use super::jobs::job;

fn cron_job(schedule: &str, fields: &Value) -> Value {
    let spec = job("x", &json!({}))["spec"].clone();
    let mut cron_job = json!({"metadata": {"name": "report", "namespace": "default"},
        "spec": {"schedule": schedule, "jobTemplate": {"spec": spec}}});
    json_patch::merge(&mut cron_job["spec"], fields);
    cron_job
}

impl Cluster {
    /// Returns the times of day of the CronJob's Jobs, with `*` after the running ones.
    fn times(&self) -> String {
        let mut times: Vec<String> = self
            .api
            .list_as::<Job>(Some("default"))
            .iter()
            .filter_map(|job| {
                let minutes: i64 = job.name().strip_prefix("report-")?.parse().ok()?;
                let at = Timestamp::from_second(minutes * 60).unwrap();
                let runs = job.status.as_ref().and_then(|s| s.active).unwrap_or(0) > 0;
                Some(format!("{}{}", at.strftime("%H:%M"), if runs { "*" } else { "" }))
            })
            .collect();
        times.sort();
        times.join(" ")
    }

    /// Ends all running pods.
    async fn end_running(&self, exit_code: i32) {
        for pod in self.pods().into_iter().filter(|pod| is_active(pod)) {
            self.end(&pod, exit_code);
        }
        self.settle().await;
    }

    /// Waits until this time of day.
    async fn until(&self, hour: i64, minute: i64) {
        let midnight: Timestamp = "2026-11-21T00:00:00Z".parse().unwrap();
        let passed = self.api.clock().now().duration_since(midnight).as_secs();
        self.pass(u64::try_from(hour * 3600 + minute * 60 - passed).unwrap()).await;
    }

    fn active_jobs(&self) -> usize {
        self.get::<CronJob>("report").status.clone().unwrap_or_default().active.unwrap_or_default().len()
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_is_created_at_each_scheduled_time_and_few_are_retained_cj_1() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<CronJob>(cron_job("0 * * * *", &json!({})));
    cluster.until(0, 59).await;
    assert_eq!(cluster.times(), "");
    cluster.until(1, 0).await;
    cluster.pass(1).await;
    assert_eq!(cluster.times(), "01:00*");
    let job = cluster.api.list_as::<Job>(None)[0].clone();
    let annotation = "batch.kubernetes.io/cronjob-scheduled-timestamp";
    assert_eq!(job.metadata.annotations.as_ref().unwrap()[annotation], "2026-11-21T01:00:00Z");
    assert_eq!(cluster.events("SuccessfulCreate")[0], format!("Created job {}", job.name()));
    let status = cluster.get::<CronJob>("report").status.clone().unwrap();
    assert_eq!(status.active.unwrap()[0].name.as_deref(), Some(job.name()));
    assert_eq!(status.last_schedule_time.unwrap().0.to_string(), "2026-11-21T01:00:00Z");
    cluster.end_running(0).await;
    assert_eq!(
        cluster.events("SawCompletedJob"),
        [format!("Saw completed job: {}, condition: Complete", job.name())]
    );
    let status = cluster.get::<CronJob>("report").status.clone().unwrap();
    assert_eq!((status.active, status.last_successful_time.is_some()), (None, true));
    let revision = cluster.api.revision();
    cluster.until(1, 59).await;
    assert_eq!(cluster.api.revision(), revision, "nothing is polled or written in between");
    for hour in 2..6 {
        cluster.until(hour, 1).await;
        cluster.end_running(0).await;
    }
    assert_eq!(cluster.times(), "03:00 04:00 05:00");
    let deleted = cluster.events("SuccessfulDelete");
    assert_eq!(deleted.iter().filter(|m| m.starts_with("Deleted job report-")).count(), 2);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn failed_jobs_have_a_history_limit_of_their_own_cj_1() {
    let cluster = Cluster::start(NO_NODES);
    let once = json!({"jobTemplate": {"spec": {"backoffLimit": 0}}});
    cluster.create::<CronJob>(cron_job("0 * * * *", &once));
    for (hour, exit_code) in [(1, 1), (2, 0), (3, 1), (4, 0)] {
        cluster.until(hour, 1).await;
        cluster.end_running(exit_code).await;
    }
    assert_eq!(cluster.times(), "02:00 03:00 04:00");
    let seen = cluster.events("SawCompletedJob");
    assert!(seen[0].ends_with(", condition: Failed"), "{seen:?}");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_concurrency_policy_allows_forbids_or_replaces_a_running_job_cj_1() {
    for (policy, expected, active) in
        [("Allow", "01:00* 02:00* 03:00*", 3), ("Forbid", "01:00*", 1), ("Replace", "03:00*", 1)]
    {
        let cluster = Cluster::start(NO_NODES);
        cluster.create::<CronJob>(cron_job("0 * * * *", &json!({"concurrencyPolicy": policy})));
        for hour in 1..4 {
            cluster.until(hour, 1).await;
            cluster.run().await;
        }
        assert_eq!((cluster.times().as_str(), cluster.active_jobs()), (expected, active), "{policy}");
        assert_eq!(cluster.pods().len(), active, "{policy}");
        let unexpected = cluster.events("UnexpectedJob");
        assert!(unexpected.is_empty(), "{policy}: {unexpected:?}");
        if policy == "Forbid" {
            let message =
                "Not starting job because prior execution is running and concurrency policy is Forbid";
            assert_eq!(cluster.events("JobAlreadyActive"), [message]);
            cluster.end_running(0).await;
            // The delayed time is still the latest.
            assert_eq!(cluster.times(), "01:00 03:00*");
        }
        cluster.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_suspended_schedule_is_made_up_for_once_cj_1() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<CronJob>(cron_job("0 * * * *", &json!({"suspend": true})));
    cluster.until(4, 30).await;
    assert_eq!(cluster.times(), "");
    cluster.change::<CronJob>("report", |c| c.spec.suspend = Some(false));
    cluster.settle().await;
    assert_eq!(cluster.times(), "04:00*", "the latest of the four that were missed");
    cluster.change::<CronJob>("report", |c| {
        c.spec.suspend = Some(true);
        c.spec.starting_deadline_seconds = Some(60);
    });
    cluster.until(6, 30).await;
    cluster.change::<CronJob>("report", |c| c.spec.suspend = Some(false));
    cluster.until(6, 59).await;
    assert_eq!(cluster.times(), "04:00*", "06:00 is out of its window");
    cluster.until(7, 1).await;
    assert_eq!(cluster.times(), "04:00* 07:00*");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn over_a_hundred_missed_times_are_a_warning_unless_there_is_a_window_cj_1() {
    for (window, warnings) in [(None, 1), (Some(200), 0)] {
        let cluster = Cluster::start(NO_NODES);
        cluster.create::<CronJob>(cron_job("* * * * *", &json!({"startingDeadlineSeconds": window})));
        cluster.controllers.stop_one("cronjob").await;
        cluster.until(1, 42).await;
        cluster.pass(30).await;
        cluster.controllers.start_one("cronjob");
        cluster.settle().await;
        assert_eq!(cluster.times(), "01:42*", "{window:?}");
        let events = cluster.events("TooManyMissedTimes");
        let text =
            "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew";
        assert_eq!(events, vec![text; warnings], "{window:?}");
        cluster.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_schedule_has_a_time_zone_and_can_be_changed_cj_1() {
    let cluster = Cluster::start(NO_NODES);
    // 06:00 in Kolkata is 00:30 here.
    cluster.create::<CronJob>(cron_job("0 6 * * *", &json!({"timeZone": "Asia/Kolkata"})));
    cluster.until(0, 31).await;
    assert_eq!(cluster.times(), "00:30*");
    let job = cluster.api.list_as::<Job>(None)[0].clone();
    let annotation = "batch.kubernetes.io/cronjob-scheduled-timestamp";
    assert_eq!(job.metadata.annotations.as_ref().unwrap()[annotation], "2026-11-21T06:00:00+05:30");
    cluster.until(2, 0).await;
    cluster.change::<CronJob>("report", |c| {
        c.spec.schedule = "15 * * * *".into();
        c.spec.time_zone = None;
    });
    cluster.until(2, 14).await;
    assert_eq!(cluster.times(), "00:30*", "the times of the new schedule begin now");
    cluster.until(2, 16).await;
    assert_eq!(cluster.times(), "00:30* 02:15*");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_crash_makes_no_second_job_for_a_time_cj_1_safe_6() {
    for writes in 0..8 {
        let cluster = Cluster::start(NO_NODES);
        cluster.create::<CronJob>(cron_job("0 * * * *", &json!({})));
        cluster.until(0, 59).await;
        cluster.store.faults().fail_after(Some(writes));
        cluster.until(1, 1).await;
        cluster.controllers.stop_one("cronjob").await;
        cluster.store.faults().fail_after(None);
        cluster.controllers.start_one("cronjob");
        cluster.pass(600).await;
        assert_eq!((cluster.times().as_str(), cluster.active_jobs()), ("01:00*", 1), "after {writes} writes");
        cluster.end_running(0).await;
        cluster.until(2, 1).await;
        assert_eq!(cluster.times(), "01:00 02:00*", "after {writes} writes");
        cluster.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn jobs_made_by_hand_and_jobs_that_go_missing_are_noticed_cj_1() {
    let cluster = Cluster::start(NO_NODES);
    let report = cluster.create::<CronJob>(cron_job("0 * * * *", &json!({})));
    // kubectl create job --from=cronjob/report
    let mut by_hand = job("by-hand", &json!({}));
    by_hand["metadata"]["annotations"] = json!({"cronjob.kubernetes.io/instantiate": "manual"});
    by_hand["metadata"]["ownerReferences"] =
        json!([serde_json::to_value(controller_reference(report.object())).unwrap()]);
    cluster.create::<Job>(by_hand);
    cluster.settle().await;
    assert_eq!(
        cluster.events("UnexpectedJob"),
        ["Saw a job that the controller did not create or forgot: by-hand"]
    );
    cluster.until(1, 1).await;
    assert_eq!((cluster.times().as_str(), cluster.active_jobs()), ("01:00*", 1));
    let name =
        cluster.api.list_as::<Job>(None).iter().find(|j| j.name() != "by-hand").unwrap().name().to_string();
    let key = super::cluster::key(&name);
    cluster.api.delete(podium::object::Kind::Job, &key, &podium::api::DeleteOptions::default()).unwrap();
    cluster.settle().await;
    assert_eq!(cluster.events("MissingJob"), [format!("Active job went missing: {name}")]);
    assert_eq!(cluster.active_jobs(), 0);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn every_so_often_counts_from_the_start_cj_1() {
    let cluster = Cluster::start(NO_NODES);
    cluster.pass(1830).await;
    cluster.create::<CronJob>(cron_job("@every 1h30m", &json!({})));
    cluster.until(3, 32).await;
    assert_eq!(cluster.times(), "02:00* 03:30*");
    cluster.stop().await;
}
