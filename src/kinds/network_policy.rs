//! Network policies: the connections that pods may accept and open. They are enforced if pods have a network of their
//! own (`network::rules`), and not if they share the machine's.

use ipnet::IpNet;
use k8s_openapi::api::networking::v1::{
    IPBlock, NetworkPolicy, NetworkPolicyPeer, NetworkPolicyPort, NetworkPolicySpec,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::columns::{Column, selector_cell};
use super::resource::Resource;
use apimachinery::default::set_text;
use apimachinery::validate::{FieldErrors, Path, names, selector};

const PROTOCOLS: &[&str] = &["TCP", "UDP", "SCTP"];
const INGRESS: &str = "Ingress";
const EGRESS: &str = "Egress";

impl Resource for NetworkPolicy {
    const WARNING: Option<&'static str> =
        Some("network policies are not enforced: every pod may talk to every other");
    const COLUMNS: &'static [Column<Self>] = &[
        Column::name(),
        Column::text(
            "Pod-Selector",
            "Selects the pods to which this NetworkPolicy object applies.",
            |policy, _| selector_cell(policy.spec.as_ref().and_then(|spec| spec.pod_selector.as_ref())),
        ),
        Column::age(),
    ];

    fn apply_defaults(&mut self) {
        let Some(spec) = &mut self.spec else { return };
        let ingress = spec.ingress.iter_mut().flatten().flat_map(|rule| rule.ports.iter_mut().flatten());
        let egress = spec.egress.iter_mut().flatten().flat_map(|rule| rule.ports.iter_mut().flatten());
        for port in ingress.chain(egress) {
            set_text(&mut port.protocol, "TCP");
        }
        if spec.policy_types.as_ref().is_none_or(Vec::is_empty) {
            let has_egress = spec.egress.as_ref().is_some_and(|rules| !rules.is_empty());
            let types = [INGRESS].into_iter().chain(has_egress.then_some(EGRESS));
            spec.policy_types = Some(types.map(String::from).collect());
        }
    }

    fn validate(&self, errors: &mut FieldErrors) {
        let empty = NetworkPolicySpec::default();
        let spec = self.spec.as_ref().unwrap_or(&empty);
        let path = Path::root("spec");
        if let Some(pods) = &spec.pod_selector {
            selector::label_selector(errors, &path.child("podSelector"), pods);
        }
        for (i, rule) in spec.ingress.iter().flatten().enumerate() {
            let list = path.child("ingress");
            let path = list.index(i);
            ports(errors, &path, rule.ports.as_deref());
            peers(errors, &path.child("from"), rule.from.as_deref());
        }
        for (i, rule) in spec.egress.iter().flatten().enumerate() {
            let list = path.child("egress");
            let path = list.index(i);
            ports(errors, &path, rule.ports.as_deref());
            peers(errors, &path.child("to"), rule.to.as_deref());
        }
        let types = spec.policy_types.as_deref().unwrap_or_default();
        let at = path.child("policyTypes");
        if types.len() > 2 {
            errors.invalid(&at, &types.to_vec(), "may not specify more than two policyTypes");
            return;
        }
        for (i, one) in types.iter().enumerate() {
            errors.one_of(&at.index(i), one, &[INGRESS, EGRESS]);
        }
    }
}

fn ports(errors: &mut FieldErrors, path: &Path<'_>, ports: Option<&[NetworkPolicyPort]>) {
    let list = path.child("ports");
    for (path, port) in list.each(ports.unwrap_or_default().iter()) {
        if let Some(protocol) = &port.protocol {
            errors.one_of(&path.child("protocol"), protocol, PROTOCOLS);
        }
        let (at, end) = (path.child("port"), path.child("endPort"));
        match (&port.port, port.end_port) {
            (Some(IntOrString::Int(number)), last) => {
                errors.invalid_each(&at, number, names::port_number((*number).into()));
                if let Some(last) = last {
                    if last < *number {
                        errors.invalid(&end, &last, "must be greater than or equal to `port`");
                    }
                    errors.invalid_each(&end, &last, names::port_number(last.into()));
                }
            }
            (Some(IntOrString::String(name)), last) => {
                if let Some(last) = last {
                    errors.invalid(&end, &last, "may not be specified when `port` is non-numeric");
                }
                errors.invalid_each(&at, name, names::port_name(name));
            }
            (None, Some(last)) => {
                errors.invalid(&end, &last, "may not be specified when `port` is not specified");
            }
            (None, None) => {}
        }
    }
}

fn peers(errors: &mut FieldErrors, list: &Path<'_>, peers: Option<&[NetworkPolicyPeer]>) {
    for (path, peer) in list.each(peers.unwrap_or_default().iter()) {
        let mut count = 0;
        for (field, own) in
            [("podSelector", &peer.pod_selector), ("namespaceSelector", &peer.namespace_selector)]
        {
            if let Some(own) = own {
                count += 1;
                selector::label_selector(errors, &path.child(field), own);
            }
        }
        if let Some(block) = &peer.ip_block {
            count += 1;
            ip_block(errors, &path.child("ipBlock"), block);
        }
        if count == 0 {
            errors.required(&path, "must specify a peer");
        } else if count > 1 && peer.ip_block.is_some() {
            errors.forbidden(&path, "may not specify both ipBlock and another peer");
        }
    }
}

fn ip_block(errors: &mut FieldErrors, path: &Path<'_>, block: &IPBlock) {
    let at = path.child("cidr");
    if block.cidr.is_empty() {
        errors.required(&at, "");
        return;
    }
    let Some(cidr) = cidr(errors, &at, &block.cidr) else { return };
    let list = path.child("except");
    for (path, text) in list.each(block.except.iter().flatten()) {
        if let Some(except) = self::cidr(errors, &path, text)
            && (!cidr.contains(&except) || cidr.prefix_len() >= except.prefix_len())
        {
            errors.invalid(&path, text, "must be a strict subset of `cidr`");
        }
    }
}

fn cidr(errors: &mut FieldErrors, path: &Path<'_>, text: &str) -> Option<IpNet> {
    errors.invalid_each(path, text, names::cidr(text));
    text.parse().ok()
}
