//! Reads `WWW-Authenticate` headers (RFC 9110, section 11).

use std::collections::BTreeMap;

/// The maximum size of all headers that are read.
const HEADER_BYTES: usize = 8 << 10;
/// The maximum number of parameters of one challenge.
const PARAMETERS: usize = 32;

/// One way to authenticate that a registry offers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Challenge {
    /// In lower case: `basic`, `bearer`.
    pub(super) scheme: String,
    /// By name in lower case; of equal names the first counts.
    pub(super) parameters: BTreeMap<String, String>,
}

/// Reads the challenges of a header; what follows a defect is left out.
pub(crate) fn challenges(header: &str) -> Vec<Challenge> {
    let mut reader = Reader { rest: &header[..floor_boundary(header, HEADER_BYTES)] };
    let mut found: Vec<Challenge> = Vec::new();
    loop {
        reader.skip(|c| c.is_ascii_whitespace() || c == ',');
        let Some(name) = reader.token() else { return found };
        let after_name = reader.rest;
        reader.skip(|c| c.is_ascii_whitespace());
        // A name before an equals sign is a parameter of the challenge before; any other begins a challenge.
        if let Some(challenge) = found.last_mut()
            && let Some(value) = reader.rest.strip_prefix('=')
        {
            reader.rest = value;
            reader.skip(|c| c.is_ascii_whitespace());
            let Some(value) = reader.value() else { return found };
            if challenge.parameters.len() < PARAMETERS {
                challenge.parameters.entry(name.to_ascii_lowercase()).or_insert(value);
            }
            continue;
        }
        if !after_name.is_empty() && !after_name.starts_with([' ', '\t', ',']) {
            return found;
        }
        found.push(Challenge { scheme: name.to_ascii_lowercase(), parameters: BTreeMap::new() });
    }
}

fn floor_boundary(text: &str, limit: usize) -> usize {
    (0..=limit.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default()
}

struct Reader<'a> {
    rest: &'a str,
}

impl<'a> Reader<'a> {
    fn skip(&mut self, is_skipped: impl Fn(char) -> bool) {
        self.rest = self.rest.trim_start_matches(is_skipped);
    }

    fn token(&mut self) -> Option<&'a str> {
        let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
        let end = self.rest.find(|c| !is_token(c)).unwrap_or(self.rest.len());
        let (token, rest) = self.rest.split_at(end);
        self.rest = rest;
        (!token.is_empty()).then_some(token)
    }

    /// A quoted text, or a plain one up to the next comma or space, which some registries use for URLs.
    fn value(&mut self) -> Option<String> {
        let Some(quoted) = self.rest.strip_prefix('"') else {
            let end = self.rest.find([',', ' ', '\t']).unwrap_or(self.rest.len());
            let (value, rest) = self.rest.split_at(end);
            self.rest = rest;
            return Some(value.to_owned());
        };
        let mut value = String::new();
        let mut characters = quoted.char_indices();
        while let Some((at, c)) = characters.next() {
            match c {
                '"' => {
                    self.rest = &quoted[at + 1..];
                    return Some(value);
                }
                '\\' => value.push(characters.next()?.1),
                c => value.push(c),
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// IMG-6: challenges as registries write them, and defects.
    #[test]
    fn challenges_are_read_as_registries_write_them() {
        let table = [
            ("Basic realm=\"Registry\"", "basic realm=Registry"),
            (
                "Bearer realm=\"https://auth.docker.io/token\",service=\"registry.docker.io\",scope=\"repository:a/b:pull,push\"",
                "bearer realm=https://auth.docker.io/token scope=repository:a/b:pull,push service=registry.docker.io",
            ),
            ("BEARER Realm = \"a\" , error=invalid_token", "bearer error=invalid_token realm=a"),
            ("Negotiate, Basic realm=\"a\\\"b\"", "negotiate|basic realm=a\"b"),
            ("Bearer realm=http://a/t,service=s", "bearer realm=http://a/t service=s"),
            ("Bearer", "bearer"),
            ("Bearer realm=a, realm=b", "bearer realm=a"),
            ("", ""),
            ("Bearer realm=\"open", "bearer"),
            ("realm=\"a\"", ""),
            ("Basic realm=\"a\" \u{7f}x", "basic realm=a"),
        ];
        for (header, expect) in table {
            let shown = |challenge: Challenge| {
                let parameters = challenge.parameters.iter().map(|(name, value)| format!(" {name}={value}"));
                challenge.scheme + &parameters.collect::<String>()
            };
            let shown: Vec<String> = challenges(header).into_iter().map(shown).collect();
            assert_eq!(shown.join("|"), expect, "{header}");
        }
        // SEC-2: more than is read, and a character at the limit.
        let _ = challenges(&"ü".repeat(HEADER_BYTES));
        let many: Vec<String> = (0..1000).map(|n| format!("a{n}=1")).collect();
        let many = many.join(",");
        assert_eq!(challenges(&format!("Bearer {many}"))[0].parameters.len(), PARAMETERS);
    }
}
