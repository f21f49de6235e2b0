//! Connections between leaves.

use std::io::{ErrorKind, Read, Write};

use super::{FabricProcess, users};

/// NET-5: own addresses, any port, every address of a leaf; the server sees the client's address; addresses without a
/// leaf are refused.
#[test]
fn leaves_have_addresses_and_ports_of_their_own_net_5() {
    for user in users() {
        let running = FabricProcess::with_leaves(user, 3).unwrap();
        let mut families = vec![("0.0.0.0:80", "10.244.1.1:80", "10.244.1.2:80", "10.244.1.3")];
        if fabric::has_ipv6() {
            families.push(("[::]:80", "[fd00:10:244::1:1]:80", "[fd00:10:244::1:2]:80", "fd00:10:244::1:3"));
        }
        for (everywhere, first, second, asker) in families {
            let listeners = [running.listen("l1", everywhere), running.listen("l2", everywhere)];
            for (listener, address) in listeners.iter().zip([first, second]) {
                let mut asking = running.connect("l3", address).unwrap();
                let (mut accepted, from) = listener.accept().unwrap();
                assert_eq!(from.ip().to_string(), asker, "{user:?}");
                asking.write_all(address.as_bytes()).unwrap();
                drop(asking);
                let mut received = String::new();
                accepted.read_to_string(&mut received).unwrap();
                assert_eq!(received, address);
            }
        }
        let refused = running.connect("l3", "10.244.1.1:81").unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        let error = running.connect("l3", "10.244.7.7:80").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::HostUnreachable);
    }
}

/// NET-5: a leaf that is created again replaces the one before it without waiting for its end.
#[test]
fn a_leaf_takes_the_place_of_one_before_it_net_5() {
    for user in users() {
        let running = FabricProcess::with_leaves(user, 2).unwrap();
        for round in 0..20 {
            running.fabric.remove_leaf("l1").unwrap();
            running.fabric.leaf(super::leaf(1)).unwrap();
            let listener = running.listen("l1", "10.244.1.1:80");
            running.connect("l2", "10.244.1.1:80").unwrap();
            listener.accept().unwrap();
            assert_eq!(
                running.fabric.leaf(super::leaf(1)).map_err(|error| error.to_string()),
                Ok(()),
                "{round}"
            );
        }
    }
}

/// NET-5: an error names the step that failed, and the process continues.
#[test]
fn a_fabric_error_names_the_step_that_failed_net_5() {
    let Some(user) = users().first().copied() else { return };
    let running = FabricProcess::with_leaves(user, 1).unwrap();
    let long = fabric::LeafSpec { link: "a-name-of-more-than-15-bytes".into(), ..super::leaf(2) };
    let error = running.fabric.leaf(long).unwrap_err();
    assert!(error.to_string().starts_with("leaf: veth pair eth0 and a-name-of"), "{error}");
    let missing = fabric::SocketSpec::new(fabric::SocketKind::TcpV4).in_leaf("l9");
    assert!(running.fabric.socket(&missing).unwrap_err().to_string().starts_with("leaf l9: "));
    let taken = "10.244.1.1:80".parse().ok();
    let socket = fabric::SocketSpec::new(fabric::SocketKind::TcpV4).in_leaf("l1");
    let first = fabric::SocketSpec { bind: taken, listen: Some(1), ..socket.clone() };
    let _first = running.fabric.socket(&first).unwrap();
    let second = fabric::SocketSpec { listen: Some(2), ..first };
    let error = running.fabric.socket(&second).unwrap_err();
    assert_eq!(error.source.kind(), ErrorKind::AddrInUse, "{error}");
    running.fabric.socket(&socket).unwrap();
}

/// NET-5, NET-8: source addresses cannot be forged: rules depend on the sender, and a process with `CAP_NET_RAW` may
/// write any source address.
#[test]
fn packets_of_a_leaf_with_a_forged_source_address_are_dropped_net_5() {
    for user in users() {
        let running = FabricProcess::with_leaves(user, 3).unwrap();
        for leaf in ["l1", "l2", "l3"] {
            running.until_up(leaf);
        }
        let heard = running.datagrams("l1", "10.244.1.1:99");
        let mut buffer = [0; 16];
        // The forged sources are another leaf's address, the router's, an unused one, and one of the world.
        for name in ["10.244.1.3:1", "10.244.0.1:1", "10.244.9.9:1", "203.0.113.7:1"] {
            running.datagrams_as("l2", name).send_to(b"forged", "10.244.1.1:99").unwrap();
            running.datagrams("l2", "10.244.1.2:1").send_to(b"own", "10.244.1.1:99").unwrap();
            let length = heard.recv(&mut buffer).unwrap();
            assert_eq!(&buffer[..length], b"own", "{name} as {user:?}");
        }
    }
}
