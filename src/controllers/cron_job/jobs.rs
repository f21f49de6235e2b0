//! The Jobs of a CronJob: their construction for a scheduled time, and the selection of old ones.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use base::sort::SliceOrder;
use object::job::{COMPLETE, FAILED, finished};
use object::owner::controller_reference;
use object::{Key, SharedObject};

/// The annotation with a Job's scheduled time.
const SCHEDULED_AT: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";

/// Returns the name of the Job for a scheduled time. As the name contains the time, no time gets a second Job.
pub(super) fn name_for(cron_job: &SharedObject<CronJob>, at: Timestamp) -> String {
    format!("{}-{}", cron_job.name(), at.as_second().div_euclid(60))
}

/// Builds the Job for a scheduled time. The annotation has the time in the CronJob's time zone, `zone`.
pub(super) fn job_for(cron_job: &SharedObject<CronJob>, at: Timestamp, zone: &TimeZone) -> Job {
    let template = cron_job.spec.job_template.clone();
    let meta = template.metadata.unwrap_or_default();
    let mut annotations = meta.annotations.unwrap_or_default();
    annotations.insert(SCHEDULED_AT.into(), written(at, zone));
    Job {
        metadata: ObjectMeta {
            labels: meta.labels,
            annotations: Some(annotations),
            owner_references: Some(vec![controller_reference(cron_job.object())]),
            ..Key::new(cron_job.namespace(), name_for(cron_job, at)).metadata()
        },
        spec: template.spec,
        status: None,
    }
}

fn written(at: Timestamp, zone: &TimeZone) -> String {
    let at = at.to_zoned(zone.clone());
    let offset = if at.offset().is_zero() { "Z".to_string() } else { at.strftime("%:z").to_string() };
    format!("{}{offset}", at.strftime("%Y-%m-%dT%H:%M:%S"))
}

/// Returns the finished Jobs beyond the limits of the history, oldest first.
pub(super) fn beyond_history<'a>(
    cron_job: &CronJob,
    jobs: &'a [SharedObject<Job>],
) -> Vec<&'a SharedObject<Job>> {
    let spec = &cron_job.spec;
    let kinds = [(COMPLETE, spec.successful_jobs_history_limit), (FAILED, spec.failed_jobs_history_limit)];
    let mut going = Vec::new();
    for (type_, limit) in kinds {
        let Some(limit) = limit else { continue };
        let mut ended: Vec<&SharedObject<Job>> =
            jobs.iter().filter(|job| finished(job).is_some_and(|c| c.type_ == type_)).collect();
        // A Job that never started counts as the newest.
        let start = |job: &Job| job.status.as_ref().and_then(|s| s.start_time.as_ref()).map(|t| t.0);
        ended.order_by_key(|job| (start(job).is_none(), start(job), job.name().to_string()));
        let most = usize::try_from(limit).unwrap_or(0);
        let surplus = ended.len().saturating_sub(most);
        going.extend(ended.into_iter().take(surplus));
    }
    going
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use base::time_zone::time_zone;

    fn cron_job(limits: (i32, i32)) -> SharedObject<CronJob> {
        SharedObject::from_value(
            serde_json::from_value(json!({
                "metadata": {"name": "report", "namespace": "n", "uid": "c"},
                "spec": {"schedule": "@daily", "successfulJobsHistoryLimit": limits.0,
                    "failedJobsHistoryLimit": limits.1, "jobTemplate": {
                        "metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}},
                        "spec": {"completions": 3, "template": {}}}}}))
            .unwrap(),
        )
    }

    #[test]
    fn a_job_is_named_for_its_minute_cj_1() {
        let at = "2026-11-21T09:00:00Z".parse().unwrap();
        for (zone, written) in [
            ("", "2026-11-21T09:00:00Z"),
            ("Asia/Kolkata", "2026-11-21T14:30:00+05:30"),
            ("Europe/London", "2026-11-21T09:00:00Z"),
            ("America/New_York", "2026-11-21T04:00:00-05:00"),
        ] {
            let job = job_for(&cron_job((3, 1)), at, &time_zone(zone).unwrap());
            let value = serde_json::to_value(&job).unwrap();
            assert_eq!(value["metadata"]["name"], "report-29920860");
            assert_eq!(value["metadata"]["annotations"], json!({"c": "d", SCHEDULED_AT: written}));
            assert_eq!(value["metadata"]["labels"], json!({"a": "b"}));
            assert_eq!(value["metadata"]["ownerReferences"][0]["controller"], true);
            assert_eq!(value["spec"]["completions"], 3);
        }
    }

    #[test]
    fn the_history_keeps_the_newest_of_each_kind_cj_1() {
        let job = |name: &str, type_: &str, start: Option<&str>| {
            let start = start.map(|s| format!("2026-11-21T{s}:00Z"));
            let job = json!({"metadata": {"name": name},
                "status": {"startTime": start, "conditions": [{"type": type_, "status": "True"}]}});
            SharedObject::from_value(serde_json::from_value::<Job>(job).unwrap())
        };
        let jobs = [
            job("s3", "Complete", Some("03:00")),
            job("s1", "Complete", Some("01:00")),
            job("s2", "Complete", Some("02:00")),
            job("never", "Complete", None),
            job("f2", "Failed", Some("02:00")),
            job("f1", "Failed", Some("01:00")),
            job("runs", "Suspended", Some("00:00")),
        ];
        for (limits, expected) in
            [((3, 1), "s1 f1"), ((0, 0), "s1 s2 s3 never f1 f2"), ((9, 9), ""), ((1, 2), "s1 s2 s3")]
        {
            let cron_job = cron_job(limits);
            let going: Vec<&str> = beyond_history(&cron_job, &jobs).iter().map(|j| j.name()).collect();
            assert_eq!(going.join(" "), expected, "{limits:?}");
        }
    }
}
