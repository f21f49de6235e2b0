//! CronJobs when the clock, the schedule or the user's settings change: the part "CronJob limitations" of the CronJob
//! page, and the event for a schedule that cannot be parsed.

use k8s_openapi::api::batch::v1::{CronJob, Job};
use podium::api::{DeleteOptions, Part, WriteOptions};
use podium::object::{Kind, Object};
use serde_json::json;

use super::super::cluster::key;
use super::{Cluster, NO_NODES, cron_job};

#[tokio::test(start_paused = true)]
async fn a_clock_set_ahead_runs_one_job_and_set_back_none_again_cj_1() {
    let cluster = Cluster::start(NO_NODES);
    cluster.create::<CronJob>(cron_job("0 * * * *", &json!({})));
    cluster.pass(600).await;
    cluster.api.clock().set_skew_millis(9_000_000);
    // 02:40 by the clock; the controller checks again 50 minutes later.
    cluster.pass(3001).await;
    assert_eq!(cluster.times(), "03:00*", "the latest of three");
    cluster.pass(1800).await;
    assert_eq!(cluster.times(), "03:00* 04:00*");
    // Back to 01:30: past runs are not repeated.
    cluster.api.clock().set_skew_millis(0);
    cluster.pass(2 * 3600).await;
    assert_eq!(cluster.times(), "03:00* 04:00*");
    cluster.until(5, 1).await;
    assert_eq!(cluster.times(), "03:00* 04:00* 05:00*");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_start_past_its_deadline_is_missed_and_reported_once_cj_1() {
    let cluster = Cluster::start(NO_NODES);
    let busy = json!({"concurrencyPolicy": "Forbid", "startingDeadlineSeconds": 200});
    cluster.create::<CronJob>(cron_job("*/10 * * * *", &busy));
    cluster.until(0, 10).await;
    cluster.pass(1).await;
    assert_eq!(cluster.times(), "00:10*");
    // 00:20 waits for it, but not longer than its window.
    cluster.until(0, 22).await;
    assert_eq!(cluster.events("JobAlreadyActive").len(), 1);
    cluster.end_running(0).await;
    assert_eq!(cluster.times(), "00:10 00:20*", "120 seconds late");
    cluster.until(0, 35).await;
    cluster.end_running(0).await;
    assert_eq!(cluster.times(), "00:10 00:20", "300 seconds late: 00:30 is over");
    cluster.until(0, 41).await;
    assert_eq!(cluster.times(), "00:10 00:20 00:40*");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn suspending_stops_what_is_to_come_not_what_runs_cj_1() {
    let cluster = Cluster::start(NO_NODES);
    let no_history = json!({"successfulJobsHistoryLimit": 0, "failedJobsHistoryLimit": 0});
    cluster.create::<CronJob>(cron_job("0 * * * *", &no_history));
    cluster.until(1, 1).await;
    cluster.run().await;
    cluster.change::<CronJob>("report", |c| c.spec.suspend = Some(true));
    cluster.until(3, 1).await;
    assert_eq!((cluster.times().as_str(), cluster.pods().len()), ("01:00*", 1));
    cluster.end_running(0).await;
    assert_eq!((cluster.times().as_str(), cluster.pods().len()), ("", 0), "no job remains");
    let status = cluster.get::<CronJob>("report").status.clone().unwrap();
    assert!(status.last_successful_time.is_some(), "but known");
    // A change applies only to later Jobs.
    cluster.change::<CronJob>("report", |c| {
        c.spec.suspend = Some(false);
        c.spec.schedule = "30 * * * *".into();
        c.spec.job_template.spec.as_mut().unwrap().backoff_limit = Some(1);
    });
    cluster.until(3, 31).await;
    assert_eq!(cluster.times(), "03:30*");
    let job = cluster.api.list_as::<Job>(None).remove(0);
    assert_eq!(job.spec.as_ref().unwrap().backoff_limit, Some(1));
    // The CronJob's Jobs and their pods are deleted with it.
    cluster.run().await;
    cluster.api.delete(Kind::CronJob, &key("report"), &DeleteOptions::default()).unwrap();
    cluster.run().await;
    assert_eq!((cluster.times().as_str(), cluster.pods().len()), ("", 0));
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_invalid_schedule_is_reported_and_not_retried_before_a_change_cj_1() {
    for (schedule, zone, reason, message) in [
        (
            "every day",
            None,
            "UnparseableSchedule",
            "unparseable schedule: \"every day\" : expected exactly 5 fields, found 2: [every day]",
        ),
        (
            "0 0 31 2 *",
            None,
            "InvalidSchedule",
            "invalid schedule: 0 0 31 2 * : time difference between two schedules is less than 1 second",
        ),
        (
            "0 * * * *",
            Some("Nowhere/Land"),
            "UnknownTimeZone",
            "invalid timeZone: \"Nowhere/Land\": unknown time zone Nowhere/Land",
        ),
    ] {
        let cluster = Cluster::start(NO_NODES);
        cluster.create::<CronJob>(cron_job("0 * * * *", &json!({})));
        // As another version of the API may have stored it.
        let write = WriteOptions::default();
        cluster
            .api
            .change(Kind::CronJob, &key("report"), Part::System, &write, |current| {
                let mut next = CronJob::clone(current.get::<CronJob>().unwrap());
                next.spec.schedule = schedule.into();
                next.spec.time_zone = zone.map(Into::into);
                Ok(Object::new(next))
            })
            .unwrap();
        cluster.until(1, 30).await;
        assert_eq!((cluster.times().as_str(), cluster.events(reason)), ("", vec![message.to_string()]));
        cluster.change::<CronJob>("report", |c| {
            c.spec.schedule = "0 * * * *".into();
            c.spec.time_zone = None;
        });
        cluster.until(2, 1).await;
        assert_eq!(cluster.times(), "02:00*");
        cluster.stop().await;
    }
}
