//! CronJobs: Jobs at set times.
//!
//! Nothing is polled: a CronJob is synced when it or one of its Jobs changes, and at its next time. A Job's name
//! contains its scheduled time, so that a restarted controller never creates it twice.

mod active;
mod jobs;
mod schedule;

use std::time::Duration;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::{CronJob, CronJobStatus, Job};

use super::context::Context;
use active::is_active;
use api::{Api, ApiError, Change, ChangeKind, Part, WriteOptions};
use base::clock::time;
use base::cron::CronSchedule;
use base::mistakes::Mistake;
use base::time_zone::time_zone;
use object::owner::{is_controlled_by, is_terminating};
use object::{Key, Object, SharedObject};
use reconcile::{Cache, ReconcileError, Reconciler, Recorder, WorkQueue, ignore_not_found, reference_to};
use schedule::ScheduleTimes;

pub(super) fn start(context: &Context) {
    context
        .controller(|queue| CronJobs {
            api: context.api.clone(),
            jobs: context.caches.of(),
            recorder: Recorder::new(&context.api, "cronjob-controller"),
            zone: context.settings.time_zone.clone().unwrap_or(TimeZone::UTC),
            queue,
        })
        .keys_of::<CronJob>()
        .watches::<CronJob, _>(CronJobs::cron_job_changed)
        .owns::<Job, CronJob>()
        .workers(5)
        .run(&context.tasks);
}

struct CronJobs {
    api: Api,
    jobs: Cache<Job>,
    recorder: Recorder,
    /// The time zone of schedules that name none.
    zone: TimeZone,
    queue: WorkQueue<Key>,
}

impl Reconciler for CronJobs {
    type Key = Key;

    fn reconcile(&self, key: &Key) -> Result<(), ReconcileError> {
        // Read from the store, not from the cache: the active Jobs are in this controller's own last write.
        let Ok(cron_job) = self.api.get_as::<CronJob>(key) else { return Ok(()) };
        let jobs = self.jobs.controlled_by(cron_job.uid());
        let mut status = cron_job.status.clone().unwrap_or_default();
        let outcome = self.sync(&cron_job, &jobs, &mut status);
        self.clean_up(&cron_job, &jobs, &mut status);
        self.write_status(&cron_job, status)?;
        if let Some(next) = outcome? {
            self.queue.add_after(key.clone(), next);
        }
        Ok(())
    }
}

impl CronJobs {
    fn cron_job_changed(&self, change: &Change) {
        let key = change.object.key();
        let spec = |object: &Object| {
            object.get::<CronJob>().map(|c| (c.spec.schedule.clone(), c.spec.time_zone.clone()))
        };
        let before = change.previous.as_ref().and_then(|p| spec(p));
        if change.kind == ChangeKind::Modified && before != spec(&change.object) {
            // Missed times of the previous schedule are not made up for.
            if let Some(next) =
                SharedObject::from_object(&change.object).and_then(|cron_job| self.until_next(&cron_job))
            {
                return self.queue.add_after(key, next);
            }
        }
        if change.kind != ChangeKind::Deleted {
            self.queue.add(key);
        }
    }

    fn until_next(&self, cron_job: &SharedObject<CronJob>) -> Option<Duration> {
        let schedule = CronSchedule::parse(&cron_job.spec.schedule).ok()?;
        let zone = self.zone_of(cron_job).ok()?;
        ScheduleTimes { cron_job, schedule: &schedule, zone: &zone }.until_next(self.api.clock().now())
    }

    /// Returns the time zone of the schedule.
    fn zone_of(&self, cron_job: &CronJob) -> Result<TimeZone, String> {
        match cron_job.spec.time_zone.as_deref() {
            None => Ok(self.zone.clone()),
            Some(name) => time_zone(name).map_err(|error| format!("invalid timeZone: {name:?}: {error}")),
        }
    }

    /// Updates the active list and creates the due Job; returns the time until the next sync.
    fn sync(
        &self,
        cron_job: &SharedObject<CronJob>,
        jobs: &[SharedObject<Job>],
        status: &mut CronJobStatus,
    ) -> Result<Option<Duration>, ApiError> {
        self.follow_jobs(cron_job, jobs, status);
        let suspended = cron_job.spec.suspend == Some(true);
        if is_terminating(&cron_job.metadata) {
            return Ok(None);
        }
        let zone = match self.zone_of(cron_job) {
            Ok(zone) => zone,
            Err(message) => {
                self.recorder.warning(cron_job.object(), "UnknownTimeZone", message);
                return Ok(None);
            }
        };
        if suspended {
            return Ok(None);
        }
        let text = &cron_job.spec.schedule;
        let schedule = match CronSchedule::parse(text) {
            Ok(schedule) => schedule,
            Err(error) => {
                let message = format!("unparseable schedule: {text:?} : {error}");
                self.recorder.warning(cron_job.object(), "UnparseableSchedule", message);
                return Ok(None);
            }
        };
        let now = self.api.clock().now();
        let times = ScheduleTimes { cron_job, schedule: &schedule, zone: &zone };
        let due = match times.due(now) {
            Ok(due) => due,
            Err(error) => {
                let message = format!("invalid schedule: {text} : {error}");
                self.recorder.warning(cron_job.object(), "InvalidSchedule", message);
                return Ok(None);
            }
        };
        let next = times.until_next(now);
        let Some(due) = due else { return Ok(next) };
        if due.too_many_missed {
            self.recorder.warning(
                cron_job.object(),
                "TooManyMissedTimes",
                "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew",
            );
        }
        if !self.may_start(cron_job, due.at, now, status) {
            return Ok(next);
        }
        if cron_job.spec.concurrency_policy.as_deref() == Some("Replace") {
            self.remove_active(cron_job, status)?;
        }
        self.start_job(cron_job, due.at, status)?;
        Ok(next)
    }

    /// Returns true if a Job may be created for a due time.
    fn may_start(
        &self,
        cron_job: &SharedObject<CronJob>,
        at: Timestamp,
        now: Timestamp,
        status: &CronJobStatus,
    ) -> bool {
        let spec = &cron_job.spec;
        let window = spec.starting_deadline_seconds.map(SignedDuration::from_secs);
        let closes = window.and_then(|window| at.checked_add(window).ok());
        if closes.is_some_and(|closes| closes < now) {
            let written = at.strftime("%a, %d %b %Y %H:%M:%S +0000");
            let message = format!("Missed scheduled time to start a job: {written}");
            self.recorder.warning(cron_job.object(), "MissSchedule", message);
            return false;
        }
        let name = jobs::name_for(cron_job, at);
        let mut active = status.active.iter().flatten();
        let done = status.last_schedule_time.as_ref().is_some_and(|last| last.0 == at);
        if done || active.any(|job| job.name.as_ref() == Some(&name)) {
            return false;
        }
        let busy = status.active.as_ref().is_some_and(|active| !active.is_empty());
        let forbids =
            spec.concurrency_policy.as_deref() == Some("Forbid") && !Mistake::IgnoreForbid.is_enabled();
        if forbids && busy {
            self.recorder.normal(
                cron_job.object(),
                "JobAlreadyActive",
                "Not starting job because prior execution is running and concurrency policy is Forbid",
            );
            return false;
        }
        true
    }

    /// Creates the Job for a scheduled time, or finds the Job if an earlier sync created it and stopped before it wrote
    /// the status.
    fn start_job(
        &self,
        cron_job: &SharedObject<CronJob>,
        at: Timestamp,
        status: &mut CronJobStatus,
    ) -> Result<(), ApiError> {
        let zone = cron_job.spec.time_zone.as_deref().and_then(|name| time_zone(name).ok());
        let job = jobs::job_for(cron_job, at, &zone.unwrap_or(TimeZone::UTC));
        let name = job.metadata.name.clone().unwrap_or_default();
        let job = match self.api.create_as(job) {
            Ok(job) => {
                let message = format!("Created job {name}");
                self.recorder.normal(cron_job.object(), "SuccessfulCreate", message);
                job
            }
            Err(error) if error.is_already_exists() => {
                let job = self.api.get_as::<Job>(&Key::new(cron_job.namespace(), name))?;
                // Another owner's Job has this name: skip this time.
                if !is_controlled_by(&job.metadata, cron_job.uid()) {
                    return Ok(());
                }
                job
            }
            Err(error) => {
                if !error.is_namespace_terminating() {
                    let message = format!("Error creating job: {error}");
                    self.recorder.warning(cron_job.object(), "FailedCreate", message);
                }
                return Err(error);
            }
        };
        if !is_active(status, job.uid()) {
            status.active.get_or_insert_default().push(reference_to(job.object()));
        }
        status.last_schedule_time = Some(time(at));
        Ok(())
    }

    fn write_status(
        &self,
        cron_job: &SharedObject<CronJob>,
        mut status: CronJobStatus,
    ) -> Result<(), ApiError> {
        status.active = status.active.filter(|active| !active.is_empty());
        if cron_job.status.clone().unwrap_or_default() == status {
            return Ok(());
        }
        let mut next = CronJob::clone(cron_job);
        next.status = Some(status);
        ignore_not_found(self.api.update(&Object::new(next), Part::Status, &WriteOptions::default()))
    }
}
