//! Service accounts.

use k8s_openapi::api::core::v1::ServiceAccount;
use serde_json::json;

use super::columns::Column;
use super::resource::Resource;

impl Resource for ServiceAccount {
    const COLUMNS: &'static [Column<Self>] = &[
        Column::name(),
        Column::text("Secrets", "Secrets that pods running with this account may use.", |account, _| {
            json!(account.secrets.as_ref().map_or(0, Vec::len).to_string())
        }),
        Column::age(),
    ];
}
