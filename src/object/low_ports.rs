//! Port mapping on nodes that do not let programs bind low ports (NET-1).
//!
//! One rule serves every user of a pod's port: the built-in web servers that listen, the probes and hooks, the
//! service proxy and port-forward that connect. Objects keep the declared port.

use k8s_openapi::api::core::v1::{ContainerPort, Node};

/// The number added to a low port to get the port at which it is served.
const OFFSET: u16 = 8000;

/// A node's first port that an ordinary program may bind; a port below it is served 8000 higher.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LowPorts {
    start: u16,
}

impl LowPorts {
    /// The Node's annotation with the first port that programs may bind; "0" if every port may be bound.
    pub const ANNOTATION: &str = "podium.dev/unprivileged-port-start";
    /// The environment variable that passes the annotation's value to containers; set only where ports are moved.
    pub const VARIABLE: &str = "PODIUM_UNPRIVILEGED_PORT_START";

    /// Creates the mapping of a node on which ports below `start` cannot be bound.
    pub const fn below(start: u16) -> Self {
        Self { start }
    }

    /// Returns a node's mapping; without the annotation every port may be bound.
    pub fn of_node(node: &Node) -> Self {
        let annotations = node.metadata.annotations.as_ref();
        Self::read(annotations.and_then(|all| all.get(Self::ANNOTATION)).map(String::as_str))
    }

    /// Reads the annotation's or the variable's value.
    pub fn read(text: Option<&str>) -> Self {
        Self { start: text.and_then(|text| text.trim().parse().ok()).unwrap_or(0) }
    }

    /// Returns the value of the annotation and the variable.
    pub fn text(self) -> String {
        self.start.to_string()
    }

    /// Returns true if any port is moved.
    pub fn are_moved(self) -> bool {
        self.start > 1
    }

    /// Returns the port on which a pod's port is actually served.
    pub fn served(self, port: u16) -> u16 {
        if port > 0 && port < self.start { port.checked_add(OFFSET).unwrap_or(port) } else { port }
    }

    /// Returns the declared ports that are moved, each with its actual port.
    pub fn moved<'a>(self, ports: impl IntoIterator<Item = &'a ContainerPort>) -> Vec<(u16, u16)> {
        let declared = ports.into_iter().filter_map(|port| u16::try_from(port.container_port).ok());
        declared.map(|port| (port, self.served(port))).filter(|(port, served)| port != served).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_that_may_not_be_bound_is_served_8000_higher_net_1() {
        for (start, port, served) in [
            ("1024", 80, 8080),
            ("1024", 1023, 9023),
            ("1024", 1024, 1024),
            ("1024", 8080, 8080),
            ("1024", 0, 0),
            ("80", 79, 8079),
            ("80", 80, 80),
            ("0", 1, 1),
            ("nonsense", 80, 80),
            ("65535", 60_000, 60_000),
        ] {
            assert_eq!(LowPorts::read(Some(start)).served(port), served, "{port} of {start}");
        }
        let mut node = Node::default();
        assert_eq!(LowPorts::of_node(&node), LowPorts::default());
        let annotations = [(LowPorts::ANNOTATION.to_string(), LowPorts::below(1024).text())];
        node.metadata.annotations = Some(annotations.into());
        assert_eq!(LowPorts::of_node(&node), LowPorts::below(1024));
        let port = |container_port| ContainerPort { container_port, ..ContainerPort::default() };
        assert_eq!(LowPorts::below(1024).moved(&[port(443), port(8080)]), [(443, 8443)]);
    }
}
