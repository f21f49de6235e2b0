//! A long chain of rules in parts, so that one rule that changes has few others written anew.
//!
//! A chain of few rules holds them itself. Of more it leads to one part after the other, each a chain of its own. Which part
//! a rule is in goes by the hash of whom it lets through: the hashes are split by their first bit, and each half by the
//! next, for as long as a half has more rules than a part may have. So it depends on nothing but the rules there are, and one that
//! comes, changes or goes concerns its own part, and at most the one that this is split off from.
//!
//! A part is named for its place and for what it says: one that says something else is another chain, which is
//! written before anything leads to it.
//!
//! Invariant: the rules let through and never refuse, so that their order says nothing. They end with `Accept`: from a part
//! `Return` would lead to the next part.

use std::hash::{DefaultHasher, Hash, Hasher};

use fabric::nft::{Part, Rule, Verdict};

use super::piece::Half;

/// The most rules of a part, and of a chain that has none: few beside what a change takes anyway, many beside the jump that
/// a part costs a packet.
pub(super) const MOST: usize = 64;
/// Bits of a hash.
const BITS: u32 = u64::BITS;

/// Rules, each with the hash by which it has its place.
#[derive(Default)]
pub(super) struct Rules {
    /// Those that most packets meet: asked before all others.
    first: Vec<Rule>,
    others: Vec<(u64, Rule)>,
}

impl Rules {
    /// A rule that is asked before others.
    pub(super) fn first(&mut self, rule: Rule) {
        self.first.push(rule);
    }

    /// A rule of whom it lets through.
    pub(super) fn of(&mut self, whom: impl Hash, rule: Rule) {
        self.others.push((hash_of(whom), rule));
    }

    /// Writes the chain `name`, which refuses what no rule lets through, with parts of at most so many rules, whose names
    /// begin with `parts`.
    pub(super) fn write(self, half: &mut Half, (name, parts): (String, &str), most: usize) {
        let Self { first: mut rules, mut others } = self;
        if others.len() <= most {
            rules.extend(others.into_iter().map(|(_, rule)| rule));
        } else {
            others.sort_by_key(|(hash, _)| *hash);
            let mut jump = |name: String, part: Vec<Rule>| {
                rules.push(vec![Part::Verdict(Verdict::Jump(name.clone()))]);
                half.chain(name, part);
            };
            split(&others, (1, 0), most, &mut |place, part: Vec<Rule>| {
                jump(format!("{parts}/{place:x}/{:x}", hash_of(&part)), part);
            });
        }
        rules.push(vec![Part::Verdict(Verdict::Drop)]);
        half.chain(name, rules);
    }
}

/// Splits rules, in the order of their hashes, whose first bits are the same, and hands the parts over with their places:
/// both halves of place `n` are at `2n` and `2n + 1`.
fn split(
    rules: &[(u64, Rule)],
    (place, bits): (u64, u32),
    most: usize,
    write: &mut impl FnMut(u64, Vec<Rule>),
) {
    // As many of one hash as there may be are one part.
    if rules.len() <= most || bits + 1 == BITS {
        if !rules.is_empty() {
            write(place, rules.iter().map(|(_, rule)| rule.clone()).collect());
        }
        return;
    }
    let bit = 1 << (BITS - 1 - bits);
    let (clear, set) = rules.split_at(rules.partition_point(|(hash, _)| hash & bit == 0));
    split(clear, (2 * place, bits + 1), most, write);
    split(set, (2 * place + 1, bits + 1), most, write);
}

/// The same for the same in every process of this build.
fn hash_of(what: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use fabric::nft::{Field, Key};

    use super::*;

    fn rule(number: u32, port: u16) -> Rule {
        let is = |field, key| Part::Is(vec![field], key);
        vec![
            is(Field::Mark, Key::new().number(number)),
            is(Field::DestinationPort, Key::new().port(port)),
            Part::Verdict(Verdict::Accept),
        ]
    }

    fn written(all: &[(u32, u16)], most: usize) -> Half {
        let (mut rules, mut half) = (Rules::default(), Half::default());
        for (number, port) in all {
            rules.of(number, rule(*number, *port));
        }
        rules.write(&mut half, ("main".to_owned(), "parts"), most);
        half
    }

    /// The chains of both, but for the main one, that the other one does not have.
    fn others(now: &Half, before: &Half) -> Vec<usize> {
        let others = now.chains.iter().filter(|(name, _)| before.chains.get(*name) != now.chains.get(*name));
        others.filter(|(name, _)| *name != "main").map(|(_, chain)| chain.rules.len()).collect()
    }

    #[test]
    fn a_chain_of_few_rules_has_no_parts_net_8() {
        let all: Vec<(u32, u16)> = (0..64).map(|number| (number, 80)).collect();
        let half = written(&all, MOST);
        assert_eq!(half.chains.len(), 1);
        let rules: Vec<Rule> = all.iter().map(|(number, port)| rule(*number, *port)).collect();
        let drop = vec![Part::Verdict(Verdict::Drop)];
        assert_eq!(half.chains["main"].rules, [rules, vec![drop]].concat(), "in the order they came in");
    }

    #[test]
    fn every_rule_is_in_one_part_and_every_part_is_led_to_net_8() {
        for (count, most) in [(65, 64), (1000, 64), (1000, 1), (7, 0)] {
            let all: Vec<(u32, u16)> = (0..count).map(|number| (number, 80)).collect();
            let half = written(&all, most);
            let (end, jumps) = half.chains["main"].rules.split_last().unwrap();
            assert_eq!(end, &[Part::Verdict(Verdict::Drop)]);
            let mut rules = Vec::new();
            for jump in jumps {
                let [Part::Verdict(Verdict::Jump(name))] = &jump[..] else { panic!("{jump:?}") };
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

    /// NET-8: whichever rule of a thousand comes, changes or goes.
    #[test]
    fn one_rule_concerns_its_part_alone_net_8() {
        let all: Vec<(u32, u16)> = (0..1000).map(|number| (number, 80)).collect();
        let before = written(&all, MOST);
        for place in 0..all.len() {
            let mut changed = all.clone();
            changed[place].1 = 81;
            let now = written(&changed, MOST);
            assert!(matches!(others(&now, &before)[..], [one] if one <= MOST), "{place} changes");
            let mut without = all.clone();
            without.remove(place);
            let without = written(&without, MOST);
            // It may be split, or be one again.
            for (now, before) in [(&without, &before), (&before, &without)] {
                let others = others(now, before);
                assert!(others.len() <= 2 && others.iter().sum::<usize>() <= MOST + 1, "{place}: {others:?}");
            }
        }
    }
}
