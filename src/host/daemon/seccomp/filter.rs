//! Compiles a profile to the kernel's program.
//!
//! A program of `seccompiler` has two outcomes, and a profile may have more. So each action of the profile is a program
//! of its own, and they run in turn, the strictest first: a program that decides nothing passes the call on to the
//! next. The last one decides about the calls that no rule names. This is what the kernel does with several filters,
//! but in one filter: the first of several could forbid the installation of the next.

use std::collections::BTreeMap;

use rustix::thread::CapabilitySet;
use seccompiler::{
    BpfProgram, SeccompAction as Action, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition as Condition,
    SeccompFilter, SeccompRule as Conditions, TargetArch,
};

use super::numbers::number;
use crate::seccomp::{
    SeccompAction, SeccompCondition, SeccompOperator, SeccompProfile, SeccompRule, SeccompScope,
};
use base::sort::{CollectMap, SliceOrder};

/// The maximum of instructions that the kernel takes.
const MAX_INSTRUCTIONS: usize = 4096;
/// Ends the program with a result.
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
/// Continues at another instruction.
const JUMP: u16 = (libc::BPF_JMP | libc::BPF_JA) as u16;

/// The container's rights and the kernel, on which rules depend.
#[derive(Clone, Copy, Debug)]
pub(super) struct Machine {
    /// The capabilities that the container may have.
    pub(super) capabilities: CapabilitySet,
    /// The first two numbers of the kernel's version.
    pub(super) kernel: (u32, u32),
}

/// The rules of system calls, by number; a call without alternatives matches always.
type Rules = BTreeMap<i64, Vec<Conditions>>;

/// Returns the program for this profile.
pub(super) fn compile(profile: &SeccompProfile, machine: &Machine) -> Result<Vec<libc::sock_filter>, String> {
    let processor = processor()?;
    let fallback = action(profile.default_action, profile.default_errno_ret);
    let mut by_action: Vec<(Action, Rules)> = Vec::new();
    let mut named = Rules::new();
    let applying = profile.syscalls.iter().filter(|rule| applies(rule, machine));
    for rule in applying {
        let own = action(rule.action, rule.errno_ret);
        if own == fallback {
            continue;
        }
        let alternatives = alternatives(&rule.args)?;
        let position = by_action.iter().position(|(known, _)| *known == own).unwrap_or_else(|| {
            by_action.push((own.clone(), Rules::new()));
            by_action.len() - 1
        });
        for number in rule.names.iter().filter_map(|name| number(name)) {
            add(&mut by_action[position].1, number, &alternatives);
            add(&mut named, number, &alternatives);
        }
    }
    by_action.retain(|(own, _)| *own != Action::Allow);
    // Stable: of two error numbers for the same call, the profile's first applies.
    by_action.order_by_key(|(own, _)| strictness(own));
    let mut programs = Vec::new();
    for (own, rules) in by_action {
        programs.push(program(rules, Action::Allow, own, processor)?);
    }
    if fallback != Action::Allow {
        programs.push(program(named, fallback, Action::Allow, processor)?);
    }
    let joined = [refuse_x32(), join(programs)].concat();
    if joined.len() > MAX_INSTRUCTIONS {
        let count = joined.len();
        return Err(format!("it needs {count} instructions, and the kernel takes {MAX_INSTRUCTIONS}"));
    }
    Ok(joined)
}

/// Returns the program that permits these system calls; others fail with EPERM.
pub(super) fn only(calls: &[libc::c_long]) -> Result<Vec<libc::sock_filter>, String> {
    let rules = calls.iter().map(|call| (*call, Vec::new())).collect_map();
    let refused = Action::Errno(libc::EPERM.unsigned_abs());
    Ok(join(vec![program(rules, refused, Action::Allow, processor()?)?]))
}

fn processor() -> Result<TargetArch, String> {
    let name = std::env::consts::ARCH;
    name.try_into().map_err(|_| format!("no system calls are filtered on {name}"))
}

fn program(
    rules: Rules,
    mismatch: Action,
    matching: Action,
    processor: TargetArch,
) -> Result<BpfProgram, String> {
    let filter = SeccompFilter::new(rules, mismatch, matching, processor);
    filter.and_then(BpfProgram::try_from).map_err(|error| error.to_string())
}

/// Returns instructions that answer the system calls of the x32 ABI as a kernel without it does. They have the numbers of
/// other calls with one more bit, so that no rule would name them.
fn refuse_x32() -> Vec<libc::sock_filter> {
    /// The bit of x32 calls in their numbers. The number -1 is that of a call that a tracer cancelled.
    const X32: u32 = 0x4000_0000;
    if std::env::consts::ARCH != "x86_64" {
        return Vec::new();
    }
    let step = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    let jump = libc::BPF_JMP | libc::BPF_K;
    vec![
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        step(jump | libc::BPF_JGE, 0, 2, X32),
        step(jump | libc::BPF_JEQ, 1, 0, u32::MAX),
        step(RETURN.into(), 0, 0, u32::from(Action::Errno(libc::ENOSYS.unsigned_abs()))),
    ]
}

/// Joins programs: one that permits a call continues with the next instead.
fn join(programs: Vec<BpfProgram>) -> Vec<libc::sock_filter> {
    let permit = u32::from(Action::Allow);
    let mut joined = Vec::new();
    let last = programs.len().saturating_sub(1);
    for (position, program) in programs.into_iter().enumerate() {
        let length = program.len();
        joined.extend(program.into_iter().enumerate().map(|(index, step)| {
            let (code, k) = if position < last && (step.code, step.k) == (RETURN, permit) {
                (JUMP, (length - index - 1) as u32)
            } else {
                (step.code, step.k)
            };
            libc::sock_filter { code, jt: step.jt, jf: step.jf, k }
        }));
    }
    if joined.is_empty() {
        joined.push(libc::sock_filter { code: RETURN, jt: 0, jf: 0, k: permit });
    }
    joined
}

fn action(action: SeccompAction, number: Option<u32>) -> Action {
    let number = number.unwrap_or(libc::EPERM.unsigned_abs());
    match action {
        SeccompAction::Allow => Action::Allow,
        SeccompAction::Log => Action::Log,
        SeccompAction::Trace => Action::Trace(number),
        SeccompAction::Errno => Action::Errno(number),
        SeccompAction::Trap => Action::Trap,
        SeccompAction::KillThread => Action::KillThread,
        SeccompAction::KillProcess => Action::KillProcess,
    }
}

/// The kernel's order of the actions.
fn strictness(action: &Action) -> u8 {
    match action {
        Action::KillProcess => 0,
        Action::KillThread => 1,
        Action::Trap => 2,
        Action::Errno(_) => 3,
        Action::Trace(_) => 4,
        Action::Log => 5,
        Action::Allow => 6,
    }
}

/// Adds a rule with alternatives to a call's other rules; a rule without conditions replaces them all.
fn add(rules: &mut Rules, number: i64, alternatives: &[Conditions]) {
    match rules.get_mut(&number) {
        Some(known) if known.is_empty() => {}
        Some(known) if alternatives.is_empty() => known.clear(),
        Some(known) => known.extend_from_slice(alternatives),
        None => drop(rules.insert(number, alternatives.to_vec())),
    }
}

/// Returns the conditions as alternatives. As with runc, two conditions on the same argument make each condition an
/// alternative.
fn alternatives(conditions: &[SeccompCondition]) -> Result<Vec<Conditions>, String> {
    let compiled = conditions.iter().map(condition).collect::<Result<Vec<_>, String>>()?;
    let is_repeated = |(position, one): (usize, &SeccompCondition)| {
        conditions[..position].iter().any(|earlier| earlier.index == one.index)
    };
    let rule = |conditions| Conditions::new(conditions).map_err(|error| error.to_string());
    if compiled.is_empty() {
        Ok(Vec::new())
    } else if conditions.iter().enumerate().any(is_repeated) {
        compiled.into_iter().map(|one| rule(vec![one])).collect()
    } else {
        Ok(vec![rule(compiled)?])
    }
}

fn condition(given: &SeccompCondition) -> Result<Condition, String> {
    let (comparison, value) = match given.op {
        SeccompOperator::NotEqual => (SeccompCmpOp::Ne, given.value),
        SeccompOperator::Less => (SeccompCmpOp::Lt, given.value),
        SeccompOperator::LessOrEqual => (SeccompCmpOp::Le, given.value),
        SeccompOperator::Equal => (SeccompCmpOp::Eq, given.value),
        SeccompOperator::GreaterOrEqual => (SeccompCmpOp::Ge, given.value),
        SeccompOperator::Greater => (SeccompCmpOp::Gt, given.value),
        SeccompOperator::MaskedEqual => (SeccompCmpOp::MaskedEq(given.value), given.value_two),
    };
    let index = u8::try_from(given.index).map_err(|error| error.to_string())?;
    Condition::new(index, SeccompCmpArgLen::Qword, comparison, value).map_err(|error| error.to_string())
}

/// Returns true if a rule's circumstances are those of the container.
fn applies(rule: &SeccompRule, machine: &Machine) -> bool {
    let holds = |name: &String| {
        let name = name.strip_prefix("CAP_").unwrap_or(name);
        CapabilitySet::from_name(name).is_some_and(|one| machine.capabilities.contains(one))
    };
    let is_processor = |name: &String| name == processor_name();
    let is_old = |scope: &SeccompScope| {
        let version = scope.min_kernel.as_deref().and_then(version);
        version.map(|version| machine.kernel < version)
    };
    let (with, without) = (&rule.includes, &rule.excludes);
    with.caps.iter().all(holds)
        && (with.arches.is_empty() || with.arches.iter().any(is_processor))
        && is_old(with) != Some(true)
        && !without.caps.iter().any(holds)
        && !without.arches.iter().any(is_processor)
        && is_old(without) != Some(false)
}

/// The processor's name in Docker's profiles.
fn processor_name() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        name => name,
    }
}

/// The first two numbers of a version of the kernel.
pub(super) fn version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.split(|letter: char| !letter.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MACHINE: Machine = Machine { capabilities: CapabilitySet::empty(), kernel: (6, 1) };

    /// Runs a program as the kernel does, for the few instructions that there are. The result's upper half is the
    /// action.
    fn decide(program: &[libc::sock_filter], name: &str, arguments: &[u64]) -> u32 {
        decide_number(program, number(name).unwrap() as u32, arguments)
    }

    fn decide_number(program: &[libc::sock_filter], number: u32, arguments: &[u64]) -> u32 {
        let mut data = [0_u8; 64];
        data[..4].copy_from_slice(&number.to_ne_bytes());
        let processor: u32 = if cfg!(target_arch = "x86_64") { 0xc000_003e } else { 0xc000_00b7 };
        data[4..8].copy_from_slice(&processor.to_ne_bytes());
        for (index, argument) in arguments.iter().enumerate() {
            data[16 + index * 8..][..8].copy_from_slice(&argument.to_ne_bytes());
        }
        let (mut value, mut next) = (0_u32, 0_usize);
        loop {
            let step = program[next];
            next += 1;
            let (taken, not_taken) = (usize::from(step.jt), usize::from(step.jf));
            match u32::from(step.code) {
                0x06 => return step.k,
                0x05 => next += step.k as usize,
                0x20 => value = u32::from_ne_bytes(data[step.k as usize..][..4].try_into().unwrap()),
                0x54 => value &= step.k,
                0x15 => next += if value == step.k { taken } else { not_taken },
                0x25 => next += if value > step.k { taken } else { not_taken },
                0x35 => next += if value >= step.k { taken } else { not_taken },
                code => panic!("instruction {code:#x}"),
            }
        }
    }

    const ALLOW: u32 = 0x7fff_0000;
    const fn errno(number: i32) -> u32 {
        0x0005_0000 | number.unsigned_abs()
    }

    /// POD-17: what containerd's default profile permits, and what a capability adds.
    #[test]
    fn the_default_profile_permits_what_containerds_does() {
        let of = |capabilities| {
            compile(&crate::daemon::seccomp::default::profile(), &Machine { capabilities, ..MACHINE })
                .unwrap()
        };
        let (plain, admin) = (of(CapabilitySet::empty()), of(CapabilitySet::SYS_ADMIN));
        let denied = errno(libc::EPERM);
        for (name, arguments, expect, of_admin) in [
            ("read", &[][..], ALLOW, ALLOW),
            ("ptrace", &[], ALLOW, ALLOW),
            ("clone", &[0x11], ALLOW, ALLOW),
            ("clone", &[0x1000_0011], denied, ALLOW),
            ("clone3", &[], errno(libc::ENOSYS), ALLOW),
            ("unshare", &[0], denied, ALLOW),
            ("mount", &[], denied, ALLOW),
            ("personality", &[0xffff_ffff], ALLOW, ALLOW),
            ("personality", &[1], denied, denied),
            ("socket", &[2, 1, 0], ALLOW, ALLOW),
            ("socket", &[40, 1, 0], denied, denied),
            ("socket", &[0x1_0000_0028, 1, 0], denied, denied),
            ("keyctl", &[], denied, denied),
            ("io_uring_setup", &[], denied, denied),
            ("init_module", &[], denied, denied),
            ("chroot", &[], denied, denied),
        ] {
            assert_eq!(decide(&plain, name, arguments), expect, "{name} {arguments:?}");
            assert_eq!(decide(&admin, name, arguments), of_admin, "{name} {arguments:?} with CAP_SYS_ADMIN");
        }
        assert_eq!(decide(&of(CapabilitySet::SYS_CHROOT), "chroot", &[]), ALLOW);
    }

    /// POD-17: a profile has any number of actions, of which the strictest applies.
    #[test]
    fn the_strictest_rule_of_a_profile_applies() {
        let profile = |text: &str| compile(&SeccompProfile::from_json(text).unwrap(), &MACHINE).unwrap();
        let denying = profile(
            r#"{"defaultAction": "SCMP_ACT_KILL_PROCESS", "syscalls": [
            {"names": ["read", "write", "no_such_call"], "action": "SCMP_ACT_ALLOW"},
            {"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO", "errnoRet": 28},
            {"names": ["write"], "action": "SCMP_ACT_TRAP", "args": [{"index": 0, "value": 7, "op": "SCMP_CMP_EQ"}]},
            {"names": ["kill"], "action": "SCMP_ACT_ALLOW", "args": [
                {"index": 1, "value": 9, "op": "SCMP_CMP_EQ"}, {"index": 1, "value": 15, "op": "SCMP_CMP_EQ"}]},
            {"names": ["lseek"], "action": "SCMP_ACT_ALLOW", "args": [
                {"index": 0, "value": 1, "op": "SCMP_CMP_GT"}, {"index": 2, "value": 2, "op": "SCMP_CMP_NE"}]}]}"#,
        );
        let kill = 0x8000_0000;
        for (name, arguments, expect) in [
            ("read", &[][..], ALLOW),
            ("mkdirat", &[], errno(28)),
            ("write", &[7], 0x0003_0000),
            ("write", &[8], ALLOW),
            ("kill", &[1, 9], ALLOW),
            ("kill", &[1, 15], ALLOW),
            ("kill", &[1, 1], kill),
            ("lseek", &[5, 0, 0], ALLOW),
            ("lseek", &[5, 0, 2], kill),
            ("lseek", &[1, 0, 0], kill),
            ("openat", &[], kill),
        ] {
            assert_eq!(decide(&denying, name, arguments), expect, "{name} {arguments:?}");
        }
        let permitting = profile(
            r#"{"defaultAction": "SCMP_ACT_ALLOW", "defaultErrnoRet": 13, "syscalls": [
            {"names": ["mkdirat"], "action": "SCMP_ACT_LOG"}, {"names": ["mkdirat"], "action": "SCMP_ACT_ERRNO"},
            {"names": ["seccomp"], "action": "SCMP_ACT_ERRNO", "errnoRet": 1},
            {"names": ["kill"], "action": "SCMP_ACT_KILL", "includes": {"minKernel": "99.0"}},
            {"names": ["tkill"], "action": "SCMP_ACT_KILL", "excludes": {"arches": ["amd64", "arm64"]}}]}"#,
        );
        // As with runc, the default error number is only that of the default action.
        assert_eq!(decide(&permitting, "mkdirat", &[]), errno(libc::EPERM));
        assert_eq!(decide(&permitting, "seccomp", &[]), errno(1));
        assert_eq!(decide(&permitting, "read", &[]), ALLOW);
        assert_eq!(decide(&permitting, "kill", &[]), ALLOW);
        assert_eq!(decide(&permitting, "tkill", &[]), ALLOW);
        assert_eq!(decide(&profile(r#"{"defaultAction": "SCMP_ACT_ALLOW"}"#), "read", &[]), ALLOW);
    }

    /// POD-17: the x32 ABI is no way around a profile that names what it forbids.
    #[cfg(target_arch = "x86_64")]
    #[test]
    fn calls_of_the_x32_abi_are_refused_pod_17() {
        let text = r#"{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [
            {"names": ["mkdir"], "action": "SCMP_ACT_ERRNO"}]}"#;
        let program = compile(&SeccompProfile::from_json(text).unwrap(), &MACHINE).unwrap();
        let mkdir = number("mkdir").unwrap() as u32;
        assert_eq!(decide_number(&program, mkdir, &[]), errno(libc::EPERM));
        assert_eq!(decide_number(&program, mkdir | 0x4000_0000, &[]), errno(libc::ENOSYS));
        assert_eq!(decide_number(&program, u32::MAX, &[]), ALLOW);
    }

    #[test]
    fn a_profile_that_the_kernel_does_not_take_is_refused() {
        let condition = r#"{"index": 0, "value": 1, "op": "SCMP_CMP_EQ"}"#;
        let conditions = vec![condition; 2000].join(",");
        let text = format!(
            r#"{{"defaultAction": "SCMP_ACT_ERRNO",
            "syscalls": [{{"names": ["read"], "action": "SCMP_ACT_ALLOW", "args": [{conditions}]}}]}}"#
        );
        let refused = compile(&SeccompProfile::from_json(&text).unwrap(), &MACHINE).unwrap_err();
        assert!(refused.contains("4096"), "{refused}");
    }
}
