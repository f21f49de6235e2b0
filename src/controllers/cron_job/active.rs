//! The active Jobs of a CronJob: detects ended ones, ends running ones, and deletes old ones.

use std::collections::HashSet;

use k8s_openapi::api::batch::v1::{CronJob, CronJobStatus, Job};

use super::{CronJobs, jobs};
use api::{Api, ApiError, DeleteOptions, Propagation};
use object::job::{COMPLETE, finished};
use object::owner::is_terminating;
use object::{Key, Kind, SharedObject};

impl CronJobs {
    /// Removes Jobs that ended or are missing from the active list, and warns about running Jobs that are not in it.
    pub(super) fn follow_jobs(
        &self,
        cron_job: &SharedObject<CronJob>,
        jobs: &[SharedObject<Job>],
        status: &mut CronJobStatus,
    ) {
        for job in jobs {
            let active = is_active(status, job.uid());
            match finished(job) {
                None if is_unexpected(&self.api, job, status) => self.recorder.warning(
                    cron_job.object(),
                    "UnexpectedJob",
                    format!("Saw a job that the controller did not create or forgot: {}", job.name()),
                ),
                Some(end) if active => {
                    remove(status, job.uid());
                    let message = format!("Saw completed job: {}, condition: {}", job.name(), end.type_);
                    self.recorder.normal(cron_job.object(), "SawCompletedJob", message);
                }
                _ => {}
            }
            let success = finished(job).filter(|end| end.type_ == COMPLETE);
            let at = success.and_then(|_| job.status.as_ref()?.completion_time.clone());
            if at.as_ref().map(|t| t.0) > status.last_successful_time.as_ref().map(|t| t.0) {
                status.last_successful_time = at;
            }
        }
        let seen: HashSet<&str> = jobs.iter().map(SharedObject::uid).collect();
        for reference in status.active.clone().unwrap_or_default() {
            let (uid, name) = (reference.uid.unwrap_or_default(), reference.name.unwrap_or_default());
            let key = Key::new(cron_job.namespace(), name.as_str());
            if !seen.contains(uid.as_str()) && !is_stored(&self.api, &key, &uid) {
                remove(status, &uid);
                let message = format!("Active job went missing: {name}");
                self.recorder.normal(cron_job.object(), "MissingJob", message);
            }
        }
    }

    /// Deletes the running Jobs.
    pub(super) fn remove_active(
        &self,
        cron_job: &SharedObject<CronJob>,
        status: &mut CronJobStatus,
    ) -> Result<(), ApiError> {
        for reference in status.active.clone().unwrap_or_default() {
            let key = Key::new(cron_job.namespace(), reference.name.unwrap_or_default());
            if let Ok(job) = self.api.get_as::<Job>(&key) {
                self.delete_job(cron_job, &job, status)?;
            }
        }
        Ok(())
    }

    /// Deletes finished Jobs beyond the limits of the history.
    pub(super) fn clean_up(
        &self,
        cron_job: &SharedObject<CronJob>,
        jobs: &[SharedObject<Job>],
        status: &mut CronJobStatus,
    ) {
        for job in jobs::beyond_history(cron_job, jobs) {
            if !is_terminating(&job.metadata) {
                // `delete_job` records a failure as an event, and the next change tries again.
                let _ = self.delete_job(cron_job, job, status);
            }
        }
    }

    fn delete_job(
        &self,
        cron_job: &SharedObject<CronJob>,
        job: &SharedObject<Job>,
        status: &mut CronJobStatus,
    ) -> Result<(), ApiError> {
        let this =
            DeleteOptions { propagation: Some(Propagation::Background), ..DeleteOptions::uid(job.uid()) };
        match self.api.delete(Kind::Job, &job.key(), &this) {
            Ok(_) => {
                let message = format!("Deleted job {}", job.name());
                self.recorder.normal(cron_job.object(), "SuccessfulDelete", message);
            }
            // Already deleted.
            Err(error) if error.is_not_found() => {}
            Err(error) => {
                let message = format!("Deleted job: {error}");
                self.recorder.warning(cron_job.object(), "FailedDelete", message);
                return Err(error);
            }
        }
        remove(status, job.uid());
        Ok(())
    }
}

/// Returns true if an unfinished Job is not in the active list.
fn is_unexpected(api: &Api, job: &SharedObject<Job>, status: &CronJobStatus) -> bool {
    !is_active(status, job.uid()) && is_stored(api, &job.key(), job.uid())
}

/// Returns true if the Job exists. The cache may still show a deleted Job, and not yet a new one.
fn is_stored(api: &Api, key: &Key, uid: &str) -> bool {
    api.get(Kind::Job, key).is_ok_and(|job| job.uid() == uid)
}

/// Returns true if the Job with this uid is in the active list.
pub(super) fn is_active(status: &CronJobStatus, uid: &str) -> bool {
    status.active.iter().flatten().any(|job| job.uid.as_deref() == Some(uid))
}

fn remove(status: &mut CronJobStatus, uid: &str) {
    if let Some(active) = &mut status.active {
        active.retain(|job| job.uid.as_deref() != Some(uid));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::test_cluster::TestCluster;

    /// Regression: the policy `Replace` warned about the Job that it had just deleted.
    #[tokio::test(start_paused = true)]
    async fn a_deleted_job_that_the_cache_still_shows_is_not_unexpected_cj_1() {
        let cluster = TestCluster::start(&[]);
        let job = || {
            cluster.create::<Job>(json!({"metadata": {"name": "report-1", "namespace": "default"},
                "spec": {"template": {"spec": {"restartPolicy": "Never",
                    "containers": [{"name": "c", "image": "i"}]}}}}))
        };
        let is_unexpected =
            |job: &SharedObject<Job>| is_unexpected(&cluster.api, job, &CronJobStatus::default());
        let deleted = job();
        assert!(is_unexpected(&deleted));
        cluster.api.delete(Kind::Job, &deleted.key(), &DeleteOptions::default()).unwrap();
        assert!(!is_unexpected(&deleted));
        let successor = job();
        assert!(!is_unexpected(&deleted) && is_unexpected(&successor));
        cluster.stop().await;
    }
}
