//! Policies through the API.

mod mutating;
mod type_check;
mod validating;

use serde_json::{Value, json};

use crate::warning_recorder::WarningRecorder;
use crate::{Api, ApiConfig, ApiError, WriteOptions};
use base::clock::Clock;
use object::{Kind, Object};
use store::Store;

/// A cluster with a namespace `n`.
fn api() -> Api {
    let clock = Clock::starting_at(jiff::Timestamp::UNIX_EPOCH);
    let api = Api::new(Store::ephemeral(), clock, ApiConfig::default());
    create(&api, Kind::Namespace, json!({"metadata": {"name": "n", "labels": {"team": "a"}}})).unwrap();
    api
}

fn create(api: &Api, kind: Kind, value: Value) -> Result<Vec<String>, ApiError> {
    let options = WriteOptions { warnings: WarningRecorder::for_listener(), ..WriteOptions::default() };
    api.create(Object::from_value(kind, value).unwrap(), &options)?;
    Ok(options.warnings.take_warnings())
}

fn extend(value: &mut Value, more: Value) {
    let Value::Object(more) = more else { panic!("{more} is no object") };
    value.as_object_mut().unwrap().extend(more);
}
