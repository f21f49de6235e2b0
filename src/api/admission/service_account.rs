//! ServiceAccount: every pod has an identity; `default` when it names none.

use k8s_openapi::api::core::v1::Pod;

use crate::api::{Api, ApiError};
use crate::object::Object;

#[expect(clippy::unnecessary_wraps, reason = "the shape of every admission plugin")]
pub(super) fn admit(_api: &Api, object: &mut Object) -> Result<(), ApiError> {
    let Some(spec) = object.get_mut::<Pod>().and_then(|pod| pod.spec.as_mut()) else { return Ok(()) };
    let account = spec
        .service_account_name
        .take()
        .or_else(|| spec.service_account.take())
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "default".into());
    spec.service_account = Some(account.clone());
    spec.service_account_name = Some(account);
    Ok(())
}
