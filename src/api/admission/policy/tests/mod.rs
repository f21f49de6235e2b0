//! Policies through the API.

mod mutating;
mod type_check;
mod validating;

use serde_json::{Value, json};

use crate::test_api;
use crate::warning_recorder::WarningRecorder;
use crate::{Api, ApiError, WriteOptions};
use object::{Kind, Object};

/// A cluster with a namespace `n`.
fn api() -> Api {
    let api = test_api::api(&[]);
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
