//! Names of chains and sets within the kernel's length limit.

/// Maximum length in bytes. The kernel allows 127; the rest is for suffixes.
const NAME: usize = 90;

/// Shortens a name if necessary; a digest keeps it unique.
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

/// Returns a short digest of a text that is the same in every process: FNV-1a.
fn digest(text: &str) -> String {
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}

/// Returns a node's name, or its digest, as a part of another name.
pub(super) fn short_node(node: &str) -> String {
    if node.len() <= 20 { node.to_owned() } else { digest(node) }
}
