//! Services.

use super::*;

#[test]
fn services_have_rules_api_8() {
    check(
        Kind::Service,
        r#"
spec: {ports: [{port: 80}]}
spec: {}
  ! spec.ports: Required value
spec: {clusterIP: None}
spec: {type: Magic, ports: [{port: 80}]}
  ! spec.type: Unsupported value: "Magic": supported values: "ClusterIP", "ExternalName", "LoadBalancer", "NodePort"
spec: {ports: [{port: 0}, {port: 80, name: a}, {port: 80, name: a, targetPort: Web}]}
  ! spec.ports[0].name: Required value
  ! spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive
  ! spec.ports[0].targetPort: Invalid value: 0: must be between 1 and 65535, inclusive
  ! spec.ports[2].name: Duplicate value: "a"
  ! spec.ports[2].targetPort: Invalid value: "Web": must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)
  ! spec.ports[2]: Duplicate value: {"name":"a","port":80,"protocol":"TCP","targetPort":"Web"}
spec: {ports: [{port: 80, nodePort: 30000}]}
  ! spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'
spec: {type: ExternalName, clusterIP: 1.2.3.4}
  ! spec.clusterIPs: Forbidden: may not be set for ExternalName services
  ! spec.externalName: Required value
spec: {type: NodePort, clusterIP: None, ports: [{port: 80}]}
  ! spec.clusterIPs[0]: Invalid value: "None": may not be set to 'None' for NodePort services
spec: {trafficDistribution: PreferSameZone, ports: [{port: 80}]}
spec: {trafficDistribution: PreferClose, ports: [{port: 80}]}
spec: {trafficDistribution: Random, ports: [{port: 80, appProtocol: ''}]}
  ! spec.ports[0].appProtocol: Invalid value: "": name part must be non-empty
  ! spec.ports[0].appProtocol: Invalid value: "": <qualified-name>
  ! spec.trafficDistribution: Unsupported value: "Random": supported values: "PreferClose", "PreferSameNode", "PreferSameZone"
spec: {externalIPs: [203.0.113.10], ports: [{port: 80}]}
spec: {externalIPs: [0.0.0.0, 127.0.0.1, 169.254.1.1], ports: [{port: 80}]}
  ! spec.externalIPs[0]: Invalid value: "0.0.0.0": may not be unspecified (0.0.0.0)
  ! spec.externalIPs[1]: Invalid value: "127.0.0.1": may not be in the loopback range (127.0.0.0/8, ::1/128)
  ! spec.externalIPs[2]: Invalid value: "169.254.1.1": may not be in the link-local range (169.254.0.0/16, fe80::/10)
metadata: {annotations: {service.beta.kubernetes.io/load-balancer-source-ranges: '10.0.0.0/8, 1'}}\nspec: {ports: [{port: 80}]}
  ! metadata.annotations[service.beta.kubernetes.io/load-balancer-source-ranges]: Forbidden: may only be used when `type` is 'LoadBalancer'
  ! metadata.annotations[service.beta.kubernetes.io/load-balancer-source-ranges]: Invalid value: "1": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)
spec: {sessionAffinity: Sticky, ports: [{port: 80}]}
  ! spec.sessionAffinity: Unsupported value: "Sticky": supported values: "ClientIP", "None"
spec: {externalTrafficPolicy: Local, ports: [{port: 80}]}
  ! spec.externalTrafficPolicy: Invalid value: "Local": may only be set for externally-accessible services
spec: {type: LoadBalancer, loadBalancerClass: example.com/pool, loadBalancerSourceRanges: [' 10.0.0.0/8 '], externalTrafficPolicy: Local, healthCheckNodePort: 30500, ports: [{port: 80}]}
spec: {type: LoadBalancer, loadBalancerClass: no name, loadBalancerSourceRanges: [10.0.0.1], healthCheckNodePort: 30500, ports: [{port: 80}]}
  ! spec.LoadBalancerSourceRanges[0]: Invalid value: "10.0.0.1": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)
  ! spec.loadBalancerClass: Invalid value: "no name": <qualified-name>
  ! spec.healthCheckNodePort: Invalid value: 30500: may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'
spec: {loadBalancerClass: a, loadBalancerSourceRanges: [10.0.0.0/8], allocateLoadBalancerNodePorts: true, ports: [{port: 80}]}
  ! spec.LoadBalancerSourceRanges: Forbidden: may only be used when `type` is 'LoadBalancer'
  ! spec.allocateLoadBalancerNodePorts: Forbidden: may only be used when `type` is 'LoadBalancer'
  ! spec.loadBalancerClass: Forbidden: may only be used when `type` is 'LoadBalancer'
"#,
    );
    check_change(
        Kind::Service,
        r#"
spec: {clusterIP: 10.0.0.1, ports: [{port: 80}]}
-> spec: {clusterIP: 10.0.0.2, ports: [{port: 80}]}
  ! spec.clusterIPs[0]: Invalid value: ["10.0.0.2"]: may not change once set
spec: {clusterIP: 10.0.0.1, ports: [{port: 80}]}
-> spec: {type: ExternalName, externalName: a.b}
spec: {type: LoadBalancer, loadBalancerClass: a, ports: [{port: 80}]}
-> spec: {type: LoadBalancer, loadBalancerClass: b, ports: [{port: 80}]}
  ! spec.loadBalancerClass: Invalid value: "b": may not change once set
"#,
    );
}
