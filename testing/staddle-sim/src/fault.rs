//! Faults by call number or rate.

use staddle_base::{Error, Rng};

use crate::call::Op;

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// EIO. A write has done a part of its work; a sync has lost its pages.
    Io,
    /// ENOSPC. A write has done a part of its work.
    NoSpace,
    /// EDQUOT. A write has done a part of its work.
    Quota,
    /// A read gives fewer bytes than the file has, without an error.
    ShortRead,
    /// A read finds one bit flipped on the medium; it stays flipped.
    BitRot,
    /// A write lands one sector away, without an error.
    Misdirect,
}

impl Fault {
    /// The error a caller sees, or `None` for silent faults.
    pub(crate) fn error(self, op: Op, path: &str) -> Option<Error> {
        let code = match self {
            Self::Io => 5,
            Self::NoSpace => 28,
            Self::Quota => 122,
            Self::ShortRead | Self::BitRot | Self::Misdirect => return None,
        };
        let action = format!("{op:?} (injected fault)");
        Some(Error::io(
            &action,
            path,
            std::io::Error::from_raw_os_error(code),
        ))
    }

    fn fits(self, op: Op) -> bool {
        match self {
            Self::Io | Self::NoSpace | Self::Quota => true,
            Self::ShortRead | Self::BitRot => op == Op::Read,
            Self::Misdirect => op == Op::Write,
        }
    }
}

/// Which calls a rule looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum On {
    /// Every call.
    Any,
    /// Calls that change the disk.
    Mutating,
    /// Calls of one kind.
    Only(Op),
}

impl On {
    fn covers(self, op: Op) -> bool {
        match self {
            Self::Any => true,
            Self::Mutating => op.mutates(),
            Self::Only(only) => only == op,
        }
    }
}

/// Which of the calls that a rule looks at it hits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// The n-th, counted from 1 since the rule was injected.
    Nth(u64),
    /// The n-th and all after it.
    From(u64),
    /// This many out of so many, drawn from the disk's seed.
    Rate(u64, u64),
}

/// A fault, and where it strikes.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// The calls looked at; those that the fault cannot strike (a short read of a rename) are passed over.
    pub on: On,
    /// Which of them.
    pub when: When,
    /// What happens.
    pub fault: Fault,
}

/// The rules of a disk, with their counters.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    rules: Vec<(Rule, u64)>,
    /// How often any rule struck.
    pub(crate) struck: u64,
}

impl Faults {
    pub(crate) fn add(&mut self, rule: Rule) {
        self.rules.push((rule, 0));
    }

    pub(crate) fn clear(&mut self) {
        self.rules.clear();
    }

    /// The fault that strikes this call, if any.
    pub(crate) fn strike(&mut self, op: Op, rng: &mut Rng) -> Option<Fault> {
        let mut struck = None;
        for (rule, seen) in &mut self.rules {
            if !rule.on.covers(op) || !rule.fault.fits(op) {
                continue;
            }
            *seen += 1;
            let hit = match rule.when {
                When::Nth(n) => *seen == n,
                When::From(n) => *seen >= n,
                When::Rate(numerator, denominator) => rng.chance(numerator, denominator),
            };
            if hit && struck.is_none() {
                struck = Some(rule.fault);
            }
        }
        self.struck += u64::from(struck.is_some());
        struck
    }
}
