//! Kubernetes' named formats: `format.dns1123Label().validate(self)`.

use crate::validate::names;

/// The names of formats.
const NAMES: [&str; 14] = [
    "dns1123Label", "dns1123Subdomain", "dns1035Label", "qualifiedName", "dns1123LabelPrefix",
    "dns1123SubdomainPrefix", "dns1035LabelPrefix", "labelValue", "uri", "uuid", "byte", "date", "datetime",
    "duration",
];

/// Returns the format of this name.
pub(super) fn find(name: &str) -> Option<&'static str> {
    NAMES.into_iter().find(|known| *known == name)
}

/// Returns the errors of a text in a format.
pub(super) fn validate(format: &str, text: &str) -> Vec<String> {
    let as_prefix = names::as_prefix(text);
    match format {
        "dns1123Label" => names::dns_1123_label(text),
        "dns1123Subdomain" => names::dns_1123_subdomain(text),
        "dns1035Label" => names::dns_1035_label(text),
        "dns1123LabelPrefix" => names::dns_1123_label(&as_prefix),
        "dns1123SubdomainPrefix" => names::dns_1123_subdomain(&as_prefix),
        "dns1035LabelPrefix" => names::dns_1035_label(&as_prefix),
        "qualifiedName" => names::qualified_name(text),
        "labelValue" => names::label_value(text),
        "datetime" => faults("date-time", text),
        other => faults(other, text),
    }
}

fn faults(format: &str, text: &str) -> Vec<String> {
    if crate::formats::holds(format, text) { Vec::new() } else { vec![format!("invalid {format}")] }
}
