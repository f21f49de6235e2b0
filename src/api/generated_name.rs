//! Names that the API generates from `metadata.generateName`.

use rand::RngExt;

use object::names::ALPHABET;

/// Returns `prefix` and five random letters; a long prefix is cut so that the name stays valid.
pub(super) fn generated_name(prefix: &str) -> String {
    let mut random = base::random::rng();
    let mut name: String = prefix.chars().take(58).collect();
    name.extend((0..5).map(|_| char::from(ALPHABET[random.random_range(0..ALPHABET.len())])));
    name
}
