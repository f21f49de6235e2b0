//! Splits a long chain of rules into parts, so that a change of one rule rewrites few others.
//!
//! A short chain holds its rules itself. A longer one jumps to one part after the other, each a chain of its own. The
//! hash of a rule's peers determines its part: the rules are split by the first bit of the hash, and each half by the
//! next bit, for as long as a half has more rules than a part may have. The parts therefore depend on the current rules
//! alone, and a rule that is added, changed or removed affects its own part, and at most the one that this part is
//! split from.
//!
//! The name of a part consists of its position and a digest of its rules: a part with other rules is another chain,
//! written before anything jumps to it.
//!
//! Invariant: the rules only accept, so that their order does not matter. They end with `Accept`: from a part, `Return`
//! would continue with the next part.

use std::hash::{DefaultHasher, Hash, Hasher};

use fabric::nft::{Rule, Statement, Verdict};

use super::owner_rules::FamilyRules;
use base::sort::SliceOrder;

/// Maximum number of rules in a part, and in a chain without parts: few compared to the cost of any change, many
/// compared to the jump that each part costs a packet.
pub(super) const MAX_RULES: usize = 64;
/// Bits of a hash.
const BITS: u32 = u64::BITS;

/// Rules, each with the hash that determines its part.
#[derive(Default)]
pub(super) struct Rules {
    /// Rules that match most packets; they come before all others.
    first: Vec<Rule>,
    others: Vec<(u64, Rule)>,
}

impl Rules {
    /// Adds a rule that comes before the others.
    pub(super) fn first(&mut self, rule: Rule) {
        self.first.push(rule);
    }

    /// Adds a rule with the peers that it accepts, whose hash determines its part.
    pub(super) fn of(&mut self, peers: impl Hash, rule: Rule) {
        self.others.push((hash_of(peers), rule));
    }

    /// Writes the chain `name`, which drops what no rule accepts, with parts of at most `most` rules, whose names begin
    /// with `parts`.
    pub(super) fn write(self, half: &mut FamilyRules, (name, parts): (String, &str), most: usize) {
        let Self { first: mut rules, mut others } = self;
        if others.len() <= most {
            rules.extend(others.into_iter().map(|(_, rule)| rule));
        } else {
            others.order_by_key(|(hash, _)| *hash);
            let mut jump = |name: String, part: Vec<Rule>| {
                rules.push(vec![Statement::Verdict(Verdict::Jump(name.clone()))]);
                half.chain(name, part);
            };
            split(&others, (1, 0), most, &mut |place, part: Vec<Rule>| {
                jump(format!("{parts}/{place:x}/{:x}", hash_of(&part)), part);
            });
        }
        rules.push(vec![Statement::Verdict(Verdict::Drop)]);
        half.chain(name, rules);
    }
}

/// Splits rules, sorted by hash and with equal leading bits, and passes each part with its position to `write`: the
/// halves of position `n` are at `2n` and `2n + 1`.
fn split(
    rules: &[(u64, Rule)],
    (place, bits): (u64, u32),
    max_rules: usize,
    write: &mut impl FnMut(u64, Vec<Rule>),
) {
    // Rules with the same hash cannot be split, however many they are.
    if rules.len() <= max_rules || bits + 1 == BITS {
        if !rules.is_empty() {
            write(place, rules.iter().map(|(_, rule)| rule.clone()).collect());
        }
        return;
    }
    let bit = 1 << (BITS - 1 - bits);
    let (clear, set) = rules.split_at(rules.partition_point(|(hash, _)| hash & bit == 0));
    split(clear, (2 * place, bits + 1), max_rules, write);
    split(set, (2 * place + 1, bits + 1), max_rules, write);
}

/// Hashes a value; the result is the same in every process of this build.
fn hash_of(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use fabric::nft::{Field, Key};

    use super::*;

    fn rule(number: u32, port: u16) -> Rule {
        let is = |field, key| Statement::Is(vec![field], key);
        vec![
            is(Field::Mark, Key::new().number(number)),
            is(Field::DestinationPort, Key::new().port(port)),
            Statement::Verdict(Verdict::Accept),
        ]
    }

    fn written(all: &[(u32, u16)], most: usize) -> FamilyRules {
        let (mut rules, mut half) = (Rules::default(), FamilyRules::default());
        for (number, port) in all {
            rules.of(number, rule(*number, *port));
        }
        rules.write(&mut half, ("main".to_owned(), "parts"), most);
        half
    }

    /// Returns the rule counts of chains, without the main one, that the other version does not have.
    fn others(now: &FamilyRules, before: &FamilyRules) -> Vec<usize> {
        let others = now.chains.iter().filter(|(name, _)| before.chains.get(*name) != now.chains.get(*name));
        others.filter(|(name, _)| *name != "main").map(|(_, chain)| chain.rules.len()).collect()
    }

    #[test]
    fn a_chain_of_few_rules_has_no_parts_net_8() {
        let all: Vec<(u32, u16)> = (0..64).map(|number| (number, 80)).collect();
        let half = written(&all, MAX_RULES);
        assert_eq!(half.chains.len(), 1);
        let rules: Vec<Rule> = all.iter().map(|(number, port)| rule(*number, *port)).collect();
        let drop = vec![Statement::Verdict(Verdict::Drop)];
        assert_eq!(half.chains["main"].rules, [rules, vec![drop]].concat(), "in the order they came in");
    }

    #[test]
    fn every_rule_is_in_one_part_and_every_part_is_led_to_net_8() {
        for (count, most) in [(65, 64), (1000, 64), (1000, 1), (7, 0)] {
            let all: Vec<(u32, u16)> = (0..count).map(|number| (number, 80)).collect();
            let half = written(&all, most);
            let (end, jumps) = half.chains["main"].rules.split_last().unwrap();
            assert_eq!(end, &[Statement::Verdict(Verdict::Drop)]);
            let mut rules = Vec::new();
            for jump in jumps {
                let [Statement::Verdict(Verdict::Jump(name))] = &jump[..] else { panic!("{jump:?}") };
                let part = &half.chains[name].rules;
                assert!(!part.is_empty() && part.len() <= most.max(1), "{} of {most}", part.len());
                rules.extend(part.clone());
            }
            assert_eq!(half.chains.len(), jumps.len() + 1);
            assert_eq!(rules.len(), all.len());
            let expected: BTreeSet<Rule> = all.iter().map(|(number, port)| rule(*number, *port)).collect();
            assert_eq!(rules.into_iter().collect::<BTreeSet<_>>(), expected);
        }
    }

    /// NET-8: any one of a thousand rules that is added, changed or removed.
    #[test]
    fn one_rule_concerns_its_part_alone_net_8() {
        let all: Vec<(u32, u16)> = (0..1000).map(|number| (number, 80)).collect();
        let before = written(&all, MAX_RULES);
        for place in 0..all.len() {
            let mut changed = all.clone();
            changed[place].1 = 81;
            let now = written(&changed, MAX_RULES);
            assert!(matches!(others(&now, &before)[..], [one] if one <= MAX_RULES), "{place} changes");
            let mut without = all.clone();
            without.remove(place);
            let without = written(&without, MAX_RULES);
            // The part may be split, or merged again.
            for (now, before) in [(&without, &before), (&before, &without)] {
                let others = others(now, before);
                assert!(
                    others.len() <= 2 && others.iter().sum::<usize>() <= MAX_RULES + 1,
                    "{place}: {others:?}"
                );
            }
        }
    }
}
