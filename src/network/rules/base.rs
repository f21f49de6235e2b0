//! What is in the tables from the start: where packets are asked about, and the sets that services' elements go into.

use fabric::nft::{Base, Family, Field, Hook, Key, Kind, Part, Reject, Set, Verdict};

use super::piece::{Half, Piece};

/// Where services are served: address, protocol and port → their chain.
pub(super) const SERVICES: &str = "services";
/// Where nobody serves, in the same way → a chain that refuses.
pub(super) const REFUSED: &str = "refused";
/// Endpoints, twice each: who reaches itself through a service.
pub(super) const HAIRPIN: &str = "hairpin";
/// The chain that refuses, so that the client hears of it.
pub(super) const REJECT: &str = "reject";

/// A connection that begins.
const NEW: u32 = 8;
/// A connection whose destination was changed.
const TRANSLATED: u32 = 32;
/// TCP.
pub(super) const TCP: u8 = 6;
/// UDP.
pub(super) const UDP: u8 = 17;

/// What a service is found by.
fn place() -> Vec<Field> {
    vec![Field::DestinationAddress, Field::Protocol, Field::DestinationPort]
}

/// For these families.
pub(super) fn base(families: &[Family]) -> Piece {
    let mut piece = Piece::default();
    for family in families {
        half(piece.half(*family));
    }
    piece
}

fn half(half: &mut Half) {
    let both = [Field::SourceAddress, Field::DestinationAddress];
    half.set(Set::new(SERVICES, &place()).of_verdicts());
    half.set(Set::new(REFUSED, &place()).of_verdicts());
    half.set(Set::new(HAIRPIN, &both));
    let tcp = Part::Is(vec![Field::Protocol], Key::new().protocol(TCP));
    half.chain(
        REJECT,
        vec![vec![tcp, Part::Reject(Reject::Reset)], vec![Part::Reject(Reject::PortUnreachable)]],
    );
    // Before addresses are changed: one that nobody serves leads nowhere else.
    let refuse = Base { kind: Kind::Filter, hook: Hook::PreRouting, priority: -110 };
    let refused = Part::Dispatch(place(), REFUSED.to_owned());
    half.base_chain("refuse", refuse, vec![vec![Part::HasBits(Field::ConnectionState, NEW), refused]]);
    let translate = Base { kind: Kind::Nat, hook: Hook::PreRouting, priority: -100 };
    half.base_chain("translate", translate, vec![vec![Part::Dispatch(place(), SERVICES.to_owned())]]);
    let masquerade = Base { kind: Kind::Nat, hook: Hook::PostRouting, priority: 100 };
    let to_itself = vec![
        Part::HasBits(Field::ConnectionStatus, TRANSLATED),
        Part::In(both.to_vec(), HAIRPIN.to_owned()),
        Part::Masquerade,
    ];
    half.base_chain("masquerade", masquerade, vec![to_itself]);
}

/// The verdict that refuses.
pub(super) fn reject() -> Verdict {
    Verdict::Goto(REJECT.to_owned())
}
