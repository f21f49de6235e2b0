//! Scenarios (`podium.dev`, FAULT-2): workloads, deliberate faults and checks, which `cluster::scenarios` runs.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};

use super::columns::Column;
use super::resource::Resource;
use apimachinery::cel::is_identifier;
use apimachinery::expression::{Expression, ResultType};
use apimachinery::validate::{FieldErrors, Path, depth, names, selector};
use object::scenario::{CHECK_KINDS, Scenario, ScenarioCheck, ScenarioObject, ScenarioSpec, ScenarioStep};
use object::time::{go_duration, read_go_duration};

/// The maximum number of objects of the setup, of steps, of checks, of hints, and of variables.
const MAX_ITEMS: usize = 64;
/// The maximum number of objects in one step, and of additional objects of one check.
const MAX_OBJECTS: usize = 16;
/// The maximum size of a briefing, a hint or a verdict, in bytes.
const LONGEST_TEXT: usize = 8 * 1024;
/// The maximum size of a title, in bytes.
const LONGEST_TITLE: usize = 200;
/// The maximum duration of a scenario.
const LONGEST: Duration = Duration::from_hours(24);
/// Names that expressions already use for variables of Podium's.
const RESERVED: &[&str] = &["certificates", "chosen", "now", "object", "objects"];

impl Resource for Scenario {
    const COLUMNS: &'static [Column<Self>] = &[
        Column::name(),
        Column::text("Title", "The title of the scenario.", |scenario, _| json!(scenario.spec.title)),
        Column::text("Phase", "The phase of the scenario.", |scenario, _| {
            json!(format!("{:?}", scenario.phase()))
        }),
        Column::text("Score", "The score, at most 100.", |scenario, _| {
            let score = scenario.status.as_ref().and_then(|status| status.score);
            json!(score.map_or_else(|| "<none>".to_owned(), |score| score.to_string()))
        }),
        Column::age(),
        Column::wide("Message", "The explanation of the phase.", |scenario, _| {
            json!(scenario.status.as_ref().and_then(|status| status.message.as_deref()).unwrap_or_default())
        }),
    ];

    fn validate(&self, errors: &mut FieldErrors) {
        let (spec, path) = (&self.spec, Path::root("spec"));
        texts(errors, &path, spec);
        for (field, count) in [
            ("hints", spec.hints.len()),
            ("setup", spec.setup.len()),
            ("ready", spec.ready.len()),
            ("variables", spec.variables.len()),
            ("steps", spec.steps.len()),
            ("check", spec.check.len()),
        ] {
            if count > MAX_ITEMS {
                return errors.too_many(&path.child(field), count, MAX_ITEMS);
            }
        }
        let at = path.child("setup");
        for (index, object) in spec.setup.iter().enumerate() {
            manifest(errors, &at.index(index), object);
        }
        let at = path.child("ready");
        for (index, one) in spec.ready.iter().enumerate() {
            check(errors, &at.index(index), one);
            if one.kind.is_some() {
                errors.forbidden(&at.index(index).child("kind"), "may not be set for checks in ready");
            }
        }
        variables(errors, &path, spec);
        steps(errors, &path, spec);
        let at = path.child("check");
        for (index, one) in spec.check.iter().enumerate() {
            check(errors, &at.index(index), one);
            errors.required_one_of(&at.index(index).child("kind"), one.kind.as_deref(), CHECK_KINDS);
        }
        distinct(errors, &at, "name", spec.check.iter().map(|one| one.name.as_str()));
        distinct(errors, &path.child("ready"), "name", spec.ready.iter().map(|one| one.name.as_str()));
        if !spec.check.iter().any(|one| one.kind() == "Repair") {
            errors
                .required(&at, "must have a check of kind Repair: the scenario cannot be passed without one");
        }
        limits(errors, &path, spec);
    }

    fn validate_update(&self, old: &Self, errors: &mut FieldErrors) {
        let path = Path::root("spec");
        let without =
            |spec: &ScenarioSpec| ScenarioSpec { hints_requested: None, stop: None, ..spec.clone() };
        if without(&self.spec) != without(&old.spec) {
            errors.forbidden(&path, "only hintsAsked and stop can be changed");
        }
        if self.spec.hints_requested.unwrap_or_default() < old.spec.hints_requested.unwrap_or_default() {
            errors
                .forbidden(&path.child("hintsAsked"), "may not decrease: hints that were shown still count");
        }
        if old.spec.stop == Some(true) && self.spec.stop != Some(true) {
            errors.forbidden(
                &path.child("stop"),
                "may not be unset: a scenario that was given up cannot continue",
            );
        }
    }
}

fn texts(errors: &mut FieldErrors, path: &Path<'_>, spec: &ScenarioSpec) {
    if spec.title.trim().is_empty() {
        errors.required(&path.child("title"), "");
    }
    if spec.title.len() > LONGEST_TITLE {
        errors.too_long(&path.child("title"), LONGEST_TITLE);
    }
    let at = path.child("hints");
    for (index, hint) in spec.hints.iter().enumerate() {
        long(errors, &at.index(index), hint);
    }
    long(errors, &path.child("briefing"), &spec.briefing);
    if let Some(verdict) = &spec.verdict {
        let path = path.child("verdict");
        long(errors, &path.child("passed"), &verdict.passed);
        long(errors, &path.child("failed"), &verdict.failed);
    }
}

fn long(errors: &mut FieldErrors, path: &Path<'_>, text: &str) {
    if text.len() > LONGEST_TEXT {
        errors.too_long(path, LONGEST_TEXT);
    }
}

fn limits(errors: &mut FieldErrors, path: &Path<'_>, spec: &ScenarioSpec) {
    if let Some(limit) = duration(errors, &path.child("timeLimit"), spec.time_limit.as_deref())
        && limit.is_zero()
    {
        errors.invalid_itself(&path.child("timeLimit"), "must be greater than 0");
    }
    if let Some(scoring) = &spec.scoring {
        let path = path.child("scoring");
        duration(errors, &path.child("detectWithin"), scoring.detect_within.as_deref());
        duration(errors, &path.child("repairWithin"), scoring.repair_within.as_deref());
        if let Some(cost) = scoring.hint_cost
            && !(0..=100).contains(&cost)
        {
            errors.invalid(&path.child("hintCost"), &cost, "must be between 0 and 100, inclusive");
        }
    }
    let most = i32::try_from(spec.hints.len()).unwrap_or(i32::MAX);
    if let Some(requested) = spec.hints_requested
        && !(0..=most).contains(&requested)
    {
        errors.invalid(
            &path.child("hintsAsked"),
            &requested,
            format!("must be between 0 and {most}, inclusive"),
        );
    }
}

/// Reads a duration and checks that it is not too long; `None` if it is absent or invalid.
fn duration(errors: &mut FieldErrors, path: &Path<'_>, text: Option<&str>) -> Option<Duration> {
    let text = text?;
    match read_go_duration(text) {
        None => errors.invalid(path, text, "must be a duration such as 30s or 1h30m"),
        Some(time) if time > LONGEST => {
            errors.invalid(path, text, format!("must be at most {}", go_duration(LONGEST)));
        }
        read => return read,
    }
    None
}

fn variables(errors: &mut FieldErrors, path: &Path<'_>, spec: &ScenarioSpec) {
    let path = path.child("variables");
    for (index, variable) in spec.variables.iter().enumerate() {
        let path = path.index(index);
        if !is_identifier(&variable.name) {
            errors.invalid(&path.child("name"), &variable.name, "must be an identifier such as node");
        }
        subject(errors, &path.child("object"), &variable.object);
        expression(errors, &path.child("value"), &variable.value, &["object", "objects"], ResultType::String);
    }
    distinct(errors, &path, "name", spec.variables.iter().map(|variable| variable.name.as_str()));
}

fn steps(errors: &mut FieldErrors, path: &Path<'_>, spec: &ScenarioSpec) {
    let path = path.child("steps");
    let mut last = Duration::ZERO;
    let mut faults = BTreeSet::new();
    for (index, step) in spec.steps.iter().enumerate() {
        let path = path.index(index);
        let at = path.child("at");
        if step.at.is_empty() {
            errors.required(&at, "");
        } else if let Some(time) = duration(errors, &at, Some(&step.at)) {
            if time < last {
                errors.invalid(&at, &step.at, "must not be earlier than the previous step");
            }
            if time >= spec.time_limit() {
                errors.invalid(&at, &step.at, "must be before the time limit");
            }
            last = last.max(time);
        }
        one_step(errors, &path, step);
        if let Some(name) = &step.heal
            && !faults.contains(name.as_str())
        {
            errors.not_found(&path.child("heal"), name);
        }
        if let Some(fault) = &step.fault
            && !faults.insert(fault.name.as_str())
        {
            errors.duplicate(&path.child("fault").child("name"), &fault.name);
        }
    }
}

fn one_step(errors: &mut FieldErrors, path: &Path<'_>, step: &ScenarioStep) {
    let ways = [step.fault.is_some(), step.heal.is_some(), !step.apply.is_empty(), !step.delete.is_empty()];
    let detail = "must specify exactly one of fault, heal, apply, delete";
    match ways.iter().filter(|way| **way).count() {
        0 => errors.required(path, detail),
        1 => {}
        _ => errors.forbidden(path, detail),
    }
    if let Some(fault) = &step.fault {
        let path = path.child("fault");
        errors.required_name(&path.child("name"), &fault.name, names::dns_1123_label);
        let at = path.child("spec");
        if !fault.spec.is_object() {
            errors.required(&at, "");
        }
        shallow(errors, &at, &fault.spec);
    }
    for (field, count) in [("apply", step.apply.len()), ("delete", step.delete.len())] {
        if count > MAX_OBJECTS {
            return errors.too_many(&path.child(field), count, MAX_OBJECTS);
        }
    }
    let at = path.child("apply");
    for (index, object) in step.apply.iter().enumerate() {
        manifest(errors, &at.index(index), object);
    }
    let at = path.child("delete");
    for (index, object) in step.delete.iter().enumerate() {
        subject(errors, &at.index(index), object);
        if object.name.is_none() && object.selector.is_none() {
            errors.required(&at.index(index).child("name"), "must specify `name` or `selector`");
        }
    }
}

/// Requires that an object to be applied has a kind and a name. The API validates the rest when the object is applied.
fn manifest(errors: &mut FieldErrors, path: &Path<'_>, object: &Value) {
    for (field, pointer) in
        [("apiVersion", "/apiVersion"), ("kind", "/kind"), ("metadata.name", "/metadata/name")]
    {
        if object.pointer(pointer).and_then(Value::as_str).is_none_or(str::is_empty) {
            errors.required(&path.child(field), "");
        }
    }
    shallow(errors, path, object);
}

fn shallow(errors: &mut FieldErrors, path: &Path<'_>, value: &Value) {
    if let Err(error) = depth::check_value(value) {
        errors.invalid_itself(path, error.to_string());
    }
}

fn check(errors: &mut FieldErrors, path: &Path<'_>, check: &ScenarioCheck) {
    errors.required_name(&path.child("name"), &check.name, names::dns_1123_label);
    subject(errors, &path.child("object"), &check.object);
    let at = path.child("with");
    if check.with.len() > MAX_OBJECTS {
        return errors.too_many(&at, check.with.len(), MAX_OBJECTS);
    }
    for (name, object) in &check.with {
        if !is_identifier(name) || RESERVED.contains(&name.as_str()) {
            errors.invalid(
                &at.key(name),
                name,
                "must be an identifier other than certificates, chosen, now, object and objects",
            );
        }
        subject(errors, &at.key(name), object);
    }
    let more = check.with.keys().map(String::as_str);
    let known: Vec<&str> = ["object", "objects", "chosen", "certificates"].into_iter().chain(more).collect();
    expression(errors, &path.child("holds"), &check.holds, &known, ResultType::Bool);
    duration(errors, &path.child("for"), check.for_.as_deref());
}

fn expression(
    errors: &mut FieldErrors,
    path: &Path<'_>,
    source: &str,
    variables: &[&str],
    result_type: ResultType,
) {
    if source.trim().is_empty() {
        errors.required(path, "");
    } else if let Err(error) = Expression::compile(source, variables, result_type) {
        errors.invalid(path, source, error);
    }
}

fn subject(errors: &mut FieldErrors, path: &Path<'_>, object: &ScenarioObject) {
    for (field, text) in [("apiVersion", &object.api_version), ("kind", &object.kind)] {
        if text.is_empty() {
            errors.required(&path.child(field), "");
        }
    }
    if object.name.is_some() && object.selector.is_some() {
        errors.forbidden(&path.child("selector"), "may not be set with `name`");
    }
    if let Some(labels) = &object.selector {
        selector::label_selector(errors, &path.child("selector"), labels);
    }
    if let Some(namespace) = &object.namespace {
        errors.required_name(&path.child("namespace"), namespace, names::dns_1123_label);
    }
}

fn distinct<'a>(
    errors: &mut FieldErrors,
    path: &Path<'_>,
    field: &str,
    names: impl Iterator<Item = &'a str>,
) {
    let mut seen = BTreeSet::new();
    for (index, name) in names.enumerate() {
        if !seen.insert(name) {
            errors.duplicate(&path.index(index).child(field), name);
        }
    }
}
