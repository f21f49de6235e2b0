//! Service CIDRs: address ranges of services. The one called `kubernetes` has the range with which the cluster was
//! started (`controllers::service_addresses`); no address is allocated from any other.

use ipnet::IpNet;
use k8s_openapi::api::networking::v1::ServiceCIDR;
use serde_json::json;

use super::columns::Column;
use super::resource::Resource;
use apimachinery::validate::{FieldErrors, Path};

const MAX_RANGES: usize = 2;

impl Resource for ServiceCIDR {
    const WARNING: Option<&'static str> =
        Some("Podium allocates service addresses only from the ServiceCIDR kubernetes");
    const COLUMNS: &'static [Column<Self>] = &[
        Column::name(),
        Column::text("CIDRs", "The address ranges, one of each IP family.", |range, _| {
            json!(ranges(range).join(","))
        }),
        Column::age(),
    ];

    fn complete_status(&mut self) {
        self.status.get_or_insert_default();
    }

    fn validate(&self, errors: &mut FieldErrors) {
        let path = Path::root("spec.cidrs");
        let ranges = ranges(self);
        if ranges.is_empty() {
            return errors.required(&path, "at least one CIDR required");
        }
        if ranges.len() > MAX_RANGES {
            let shown = object::json_of(&self.spec);
            return errors.invalid(&path, &shown, "may only hold up to 2 values");
        }
        let mut families = Vec::new();
        for (i, text) in ranges.iter().enumerate() {
            match text.parse::<IpNet>() {
                Ok(range) if range.trunc() == range && range.to_string() == *text => {
                    families.push(range.addr().is_ipv4());
                }
                Ok(range) => errors.invalid(
                    &path.index(i),
                    text,
                    format!("must be in canonical form ({})", base::quote::quote(&range.trunc().to_string())),
                ),
                Err(_) => {
                    let detail = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
                    errors.invalid(&path.index(i), text, detail);
                }
            }
        }
        if families.len() == MAX_RANGES && families[0] == families[1] {
            let detail =
                "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64";
            errors.invalid(&path, &ranges.to_vec(), detail);
        }
    }

    fn validate_update(&self, old: &Self, errors: &mut FieldErrors) {
        self.validate(errors);
        let path = Path::root("spec.cidrs");
        let (new, old) = (ranges(self).to_vec(), ranges(old).to_vec());
        // A range of the second family may be added.
        if new.len() == old.len() || old.len() == 1 && new.len() == MAX_RANGES {
            for (i, (new, old)) in new.iter().zip(&old).enumerate() {
                errors.immutable(&path.index(i), new, old);
            }
        } else {
            errors.immutable(&path, &new, &old);
        }
    }
}

fn ranges(range: &ServiceCIDR) -> &[String] {
    range.spec.as_ref().and_then(|spec| spec.cidrs.as_deref()).unwrap_or_default()
}
