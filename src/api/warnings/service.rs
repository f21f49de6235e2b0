//! Warnings about Services if pods share the machine's network.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::ServiceSpec;

/// Warns about external addresses outside of 127.0.0.0/8: such an address belongs to the machine or its
/// network, and Podium must not answer on it.
pub(super) fn external_addresses(warnings: &mut Vec<String>, spec: &ServiceSpec) {
    for (i, text) in spec.external_ips.iter().flatten().enumerate() {
        if text.parse::<IpAddr>().is_ok_and(|ip| !ip.is_loopback()) {
            warnings.push(format!(
                "spec.externalIPs[{i}]: {text} is not served: pods share the machine's network, where the cluster has \
                 only addresses in 127.0.0.0/8"
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_external_address_that_is_not_served_is_named_api_17() {
        let external_ips = Some(["127.9.9.9", "203.0.113.10", "fd00::1"].map(str::to_owned).to_vec());
        let mut warnings = Vec::new();
        external_addresses(&mut warnings, &ServiceSpec { external_ips, ..ServiceSpec::default() });
        let starts: Vec<&str> =
            warnings.iter().filter_map(|text| text.split(" is not served").next()).collect();
        assert_eq!(starts, ["spec.externalIPs[1]: 203.0.113.10", "spec.externalIPs[2]: fd00::1"]);
    }
}
