//! Names of chains and sets, as long as the kernel takes them.

/// The kernel's names are no longer than 127 bytes; some room is for what comes after.
const NAME: usize = 90;

/// A name that the kernel takes.
pub(super) fn short(name: String) -> String {
    if name.len() <= NAME {
        return name;
    }
    let digest = digest(&name);
    let mut cut = NAME - digest.len();
    while !name.is_char_boundary(cut) {
        cut -= 1;
    }
    format!("{}{digest}", &name[..cut])
}

/// A few letters for a long text, the same in every process: FNV-1a.
fn digest(text: &str) -> String {
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}

/// A node's name as a part of another name.
pub(super) fn short_node(node: &str) -> String {
    if node.len() <= 20 { node.to_owned() } else { digest(node) }
}
