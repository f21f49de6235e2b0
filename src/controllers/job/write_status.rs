//! Writes the counts, and the end of the Job once nothing is left to count.

use std::collections::HashSet;

use k8s_openapi::api::batch::v1::{Job, JobStatus};

use super::back_off::BackOff;
use super::counts::Counts;
use super::outcome::JobOutcome;
use super::view::View;
use super::{Jobs, Request, conditions, track};
use api::{ApiError, Part, WriteOptions};
use object::job::TRACKING_FINALIZER;
use object::{Kind, Object, SharedObject};
use reconcile::preconditions;

impl Jobs {
    /// Takes the three steps of counting, and ends the Job once nothing is left to count.
    pub(super) fn write_counts(
        &self,
        job: &SharedObject<Job>,
        view: &View<'_>,
        counts: &Counts<'_>,
        ending: Option<&JobOutcome>,
        mut status: JobStatus,
        back_off: BackOff,
    ) -> Result<(), ApiError> {
        let mut tracked: HashSet<String> =
            view.members.iter().filter(|m| m.tracked).map(|m| m.uid().to_string()).collect();
        track::count_released(&mut status, &tracked);
        let result = track::track_finished_pods(view, counts, ending, &mut status);
        if let Some(ending) = ending {
            conditions::set_target(&mut status, ending, view.now);
        }
        let is_there = job.status.as_ref() == Some(&status);
        if let Some(left) = self.last_writes.hold(job.uid(), job.object().revision(), is_there, &status) {
            self.queue.add_after(Request::Job(job.key()), left);
            return Ok(());
        }
        let stored = self.write_status(job, status)?;
        if !is_there {
            self.last_writes.record_write(job.uid(), stored.object().revision());
        }
        self.back_offs.lock().insert(job.uid().to_string(), back_off);
        let mut failure = None;
        for pod in result.release {
            match preconditions::remove_finalizer(&self.api, &pod, TRACKING_FINALIZER) {
                Ok(()) => {
                    tracked.remove(pod.uid());
                }
                Err(error) => {
                    failure.get_or_insert(error);
                }
            }
        }
        let mut status = stored.status.clone().unwrap_or_default();
        track::count_released(&mut status, &tracked);
        let is_over = !result.full && !track::has_notes(&status) && status.terminating.unwrap_or(0) == 0;
        let over = ending.filter(|_| is_over && failure.is_none());
        if let Some(ending) = over {
            conditions::set_finished(&mut status, ending, view.now);
        }
        let stored = self.write_status(&stored, status)?;
        if let Some(ending) = over {
            self.record_end(&stored, ending);
        }
        failure.map_or(Ok(()), Err)
    }

    /// Writes a status over the version on which it is based, if it differs; returns the resulting version.
    fn write_status(
        &self,
        job: &SharedObject<Job>,
        status: JobStatus,
    ) -> Result<SharedObject<Job>, ApiError> {
        if job.status.as_ref() == Some(&status) {
            return Ok(job.clone());
        }
        let mut next = Job::clone(job);
        next.status = Some(status);
        let stored = self.api.update(&Object::new(next), Part::Status, &WriteOptions::default())?;
        SharedObject::from_object(&stored).ok_or_else(|| ApiError::not_found(Kind::Job, &job.key()))
    }

    fn record_end(&self, job: &SharedObject<Job>, ending: &JobOutcome) {
        let recorder = self.control.recorder();
        if !ending.success {
            return recorder.warning(job.object(), &ending.reason, ending.message.clone());
        }
        let succeeded = job.status.as_ref().and_then(|s| s.succeeded).unwrap_or(0);
        if job.spec.as_ref().and_then(|s| s.completions).is_some_and(|desired| succeeded > desired) {
            let message = "Too many succeeded pods running after completion count reached";
            recorder.warning(job.object(), "TooManySucceededPods", message);
        }
        recorder.normal(job.object(), "Completed", "Job completed");
    }
}
