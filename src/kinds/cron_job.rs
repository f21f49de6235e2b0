//! Cron jobs.

use k8s_openapi::api::batch::v1::{CronJob, CronJobSpec, JobTemplateSpec};
use serde_json::json;

use super::columns::{Column, NONE, or_none, selector_cell};
use super::job;
use super::resource::{PodShape, Resource};
use apimachinery::default::{set, set_text};
use apimachinery::validate::{FieldErrors, Path};
use base::cron::CronSchedule;
use base::time_zone::time_zone;
use object::time::human_age_of;

/// The maximum length of a name. The name of a Job is its CronJob's name, a hyphen and ten digits.
const MAX_NAME: usize = 52;

const EXPLICIT: &str = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";

impl Resource for CronJob {
    const COLUMNS: &'static [Column<Self>] = &[
        Column::name(),
        Column::text("Schedule", "The schedule in Cron format.", |job, _| json!(job.spec.schedule)),
        Column::text("Timezone", "The time zone of the schedule.", |job, _| {
            or_none(job.spec.time_zone.as_deref())
        }),
        Column::text("Suspend", "True if later runs are suspended.", |job, _| {
            json!(if job.spec.suspend == Some(true) { "True" } else { "False" })
        }),
        Column::number("Active", "The number of running jobs.", |job, _| {
            json!(job.status.as_ref().and_then(|s| s.active.as_ref()).map_or(0, Vec::len))
        }),
        Column::text("Last Schedule", "The time at which a job was last scheduled.", |job, now| {
            let last = job.status.as_ref().and_then(|s| s.last_schedule_time.as_ref());
            json!(last.map_or_else(|| NONE.into(), |last| human_age_of(Some(last), now)))
        }),
        Column::age(),
        Column::containers().only_wide(),
        Column::images().only_wide(),
        Column::selector(|job, _| {
            selector_cell(job.spec.job_template.spec.as_ref().and_then(|s| s.selector.as_ref()))
        }),
    ];

    fn apply_defaults(&mut self) {
        let spec = &mut self.spec;
        set_text(&mut spec.concurrency_policy, "Allow");
        set(&mut spec.suspend, false);
        set(&mut spec.successful_jobs_history_limit, 3);
        set(&mut spec.failed_jobs_history_limit, 1);
        if let Some(template) = &mut spec.job_template.spec {
            job::default_any_spec(template);
        }
    }

    fn complete_status(&mut self) {
        self.status.get_or_insert_default();
    }

    fn validate_create(&self, errors: &mut FieldErrors) {
        spec(errors, &self.spec, None);
        let name = self.metadata.name.clone().unwrap_or_default();
        if name.len() > MAX_NAME {
            let path = Path::root("metadata.name");
            errors.invalid(&path, &name, format!("must be no more than {MAX_NAME} characters"));
        }
    }

    fn validate_update(&self, old: &Self, errors: &mut FieldErrors) {
        spec(errors, &self.spec, Some(&old.spec));
    }

    fn pod(&self) -> Option<PodShape<'_>> {
        PodShape::of("spec.jobTemplate.spec.template.spec", &self.spec.job_template.spec.as_ref()?.template)
    }
}

fn spec(errors: &mut FieldErrors, spec: &CronJobSpec, old: Option<&CronJobSpec>) {
    let path = Path::root("spec");
    schedule(errors, &path.child("schedule"), spec, old);
    let seconds = spec.starting_deadline_seconds.unwrap_or(0);
    errors.non_negative(&path.child("startingDeadlineSeconds"), seconds);
    if let Some(zone) =
        spec.time_zone.as_ref().filter(|z| old.is_none_or(|o| o.time_zone.as_ref() != Some(z)))
    {
        named_zone(errors, &path.child("timeZone"), zone);
    }
    errors.required_one_of(
        &path.child("concurrencyPolicy"),
        spec.concurrency_policy.as_deref(),
        &["Allow", "Forbid", "Replace"],
    );
    template(errors, &path.child("jobTemplate"), &spec.job_template);
    for (field, limit) in [
        ("successfulJobsHistoryLimit", spec.successful_jobs_history_limit),
        ("failedJobsHistoryLimit", spec.failed_jobs_history_limit),
    ] {
        errors.non_negative(&path.child(field), limit.unwrap_or(0));
    }
}

fn schedule(errors: &mut FieldErrors, path: &Path<'_>, spec: &CronJobSpec, old: Option<&CronJobSpec>) {
    let text = &spec.schedule;
    if text.is_empty() {
        return errors.required(path, "");
    }
    if let Err(wrong) = CronSchedule::parse(text) {
        errors.invalid(path, text, wrong.to_string());
    }
    if !text.contains("TZ") {
        return;
    }
    // CronJobs that were stored with a time zone in the schedule may keep it.
    if !old.is_some_and(|old| old.schedule.contains("TZ")) {
        errors.invalid(path, text, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead");
    } else if spec.time_zone.is_some() {
        errors.invalid(path, text, "cannot use both timeZone field and TZ or CRON_TZ in schedule");
    }
}

fn named_zone(errors: &mut FieldErrors, path: &Path<'_>, zone: &String) {
    if zone.is_empty() {
        return errors.invalid(path, zone, "timeZone must be nil or non-empty string");
    }
    if zone.eq_ignore_ascii_case("local") {
        errors.invalid(path, zone, EXPLICIT);
        // Another spelling, such as `local`, gets a second error below: it does not load as a time zone.
        if zone == "Local" {
            return;
        }
    }
    let part_is_good = |part: &str| {
        !matches!(part, "." | "..")
            && !part.starts_with('-')
            && (1..=14).contains(&part.len())
            && part.bytes().all(|c| c.is_ascii_alphanumeric() || b".-_+".contains(&c))
    };
    if !zone.split('/').all(part_is_good) || time_zone(zone).is_err() {
        errors.invalid(path, zone, format!("unknown time zone {zone}"));
    }
}

/// Validates a Job template, which must not have a selector: the API generates it.
fn template(errors: &mut FieldErrors, path: &Path<'_>, template: &JobTemplateSpec) {
    let path = path.child("spec");
    let Some(spec) = &template.spec else { return errors.required(&path, "") };
    job::validate_spec(errors, &path, spec);
    if let Some(selector) = &spec.selector {
        errors.invalid(&path.child("selector"), selector, "`selector` will be auto-generated");
    }
    if spec.manual_selector == Some(true) {
        errors.unsupported(&path.child("manualSelector"), &true, &["nil", "false"]);
    }
}
