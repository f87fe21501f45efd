//! Crash images: which of the pending changes arrived.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parking_lot::Mutex;
use staddle_base::{Rng, Seed};

use crate::content::{Content, SECTOR_BYTES, Sector, ZEROS};
use crate::disk::SimDisk;
use crate::folders::{self, Folders, Node, ROOT};
use crate::inode::{Inode, Version};
use crate::state::{Shared, State, Traits};

/// Which pending changes a crash keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Survivors {
    /// Everything written so far: a killed process on a machine that lives on.
    All,
    /// Only what was synced.
    None,
    /// What was written before some call, in order, and that call in part; its last sector may be torn.
    Prefix,
    /// Everything but one thing: a call, a sector, a file's bytes, a length or a name.
    AllButOne,
    /// Anything: sectors old, new, older than the newest, or torn; lengths and names apart from them.
    Random,
}

impl Survivors {
    /// Every strategy, to go through in turn.
    pub const EACH: [Self; 5] = [
        Self::All,
        Self::None,
        Self::Prefix,
        Self::AllButOne,
        Self::Random,
    ];
}

/// What becomes of one pending thing.
#[derive(Clone, Copy)]
enum Fate {
    /// The newest version made by a call before this one, or what was durable.
    Before(u64),
    /// As `Before`, and the next version after it is in flight.
    TornAfter(u64),
}

const NEWEST: Fate = Fate::Before(u64::MAX);
const DURABLE: Fate = Fate::Before(0);

/// The plan of one image: the fate of each thing.
enum Plan {
    Same(Fate),
    /// The call at which order stops, and how many of its sectors arrived.
    Cut {
        call: u64,
        sectors: u64,
        torn: bool,
        rest: bool,
    },
    Without(Victim),
    Random,
}

enum Victim {
    Call(u64),
    Sector {
        call: u64,
        file: u64,
        number: u64,
        torn: bool,
    },
    Bytes(u64),
    Length(u64),
}

/// Builds the disk that is left when the power goes.
pub(crate) fn crash(traits: &Traits, state: &State, survivors: Survivors, seed: Seed) -> SimDisk {
    let mut rng = seed.stream("crash image");
    let plan = plan(state, survivors, &mut rng);
    let folders = settle_folders(state, &plan, &mut rng);
    let mut inodes = BTreeMap::new();
    for id in folders.reachable() {
        let Some(inode) = state.inodes.get(&id) else {
            continue;
        };
        let content = if inode.is_clean() {
            Arc::clone(&inode.durable)
        } else {
            Arc::new(settle_file(id, inode, &plan, &mut rng))
        };
        inodes.insert(id, Inode::settled(content));
    }
    let state = State::new(folders, inodes, seed);
    SimDisk::from_shared(Shared {
        traits: traits.clone(),
        state: Mutex::new(state),
    })
}

fn plan(state: &State, survivors: Survivors, rng: &mut Rng) -> Plan {
    match survivors {
        Survivors::All => Plan::Same(NEWEST),
        Survivors::None => Plan::Same(DURABLE),
        Survivors::Random => Plan::Random,
        Survivors::Prefix => {
            let calls = pending_calls(state);
            let Some(call) = pick(&calls, rng) else {
                return Plan::Same(NEWEST);
            };
            let touched = state
                .inodes
                .values()
                .map(|inode| sectors_of(inode, call).count() as u64)
                .sum::<u64>();
            Plan::Cut {
                call,
                sectors: rng.below(touched + 1),
                torn: rng.chance(1, 2),
                rest: rng.chance(1, 2),
            }
        }
        Survivors::AllButOne => {
            let calls = pending_calls(state);
            let Some(call) = pick(&calls, rng) else {
                return Plan::Same(NEWEST);
            };
            Plan::Without(victim(state, call, rng))
        }
    }
}

fn victim(state: &State, call: u64, rng: &mut Rng) -> Victim {
    let touched: Vec<(u64, u64)> = state
        .inodes
        .iter()
        .flat_map(|(file, inode)| sectors_of(inode, call).map(|number| (*file, number)))
        .collect();
    let kind = rng.below(8);
    match touched.get(rng.index(touched.len())) {
        Some((file, number)) if kind < 3 => Victim::Sector {
            call,
            file: *file,
            number: *number,
            torn: rng.chance(1, 2),
        },
        Some((file, _)) if kind < 5 => Victim::Bytes(*file),
        Some((file, _)) if kind < 6 => Victim::Length(*file),
        _ => Victim::Call(call),
    }
}

/// The calls that some pending change comes from, in order.
fn pending_calls(state: &State) -> Vec<u64> {
    let mut calls: BTreeSet<u64> = state
        .folders
        .pending
        .iter()
        .map(|pending| pending.call)
        .collect();
    for inode in state.inodes.values() {
        calls.extend(inode.lens.iter().map(|(call, _)| *call));
        calls.extend(inode.pending.values().flatten().map(|version| version.call));
    }
    calls.into_iter().collect()
}

fn pick(calls: &[u64], rng: &mut Rng) -> Option<u64> {
    calls.get(rng.index(calls.len())).copied()
}

/// The sectors of a file that `call` wrote.
fn sectors_of(inode: &Inode, call: u64) -> impl Iterator<Item = u64> {
    let wrote = move |versions: &Vec<Version>| versions.iter().any(|version| version.call == call);
    inode
        .pending
        .iter()
        .filter(move |(_, versions)| wrote(versions))
        .map(|(number, _)| *number)
}

fn settle_folders(state: &State, plan: &Plan, rng: &mut Rng) -> Folders {
    let mut tree = state.folders.durable.clone();
    let eager = rng.below(5);
    for pending in &state.folders.pending {
        let keep = match plan {
            Plan::Same(Fate::Before(call) | Fate::TornAfter(call)) => {
                !pending.lost && pending.call < *call
            }
            Plan::Cut { call, rest, .. } => {
                !pending.lost && pending.call < *call + u64::from(*rest)
            }
            Plan::Without(Victim::Call(call)) => !pending.lost && pending.call != *call,
            Plan::Without(_) => !pending.lost,
            Plan::Random => rng.below(4) < eager,
        };
        if keep {
            folders::apply(&mut tree, &pending.change);
        }
    }
    // Only what the root reaches is there: a folder without a durable entry is gone with all that is in it.
    let mut reached = folders::Tree::new();
    let mut open = vec![ROOT];
    while let Some(id) = open.pop() {
        let names = tree.get(&id).cloned().unwrap_or_default();
        open.extend(names.values().filter_map(|node| match node {
            Node::Folder(inner) if !reached.contains_key(inner) => Some(*inner),
            _ => None,
        }));
        reached.insert(id, names);
    }
    Folders::settled(reached)
}

fn settle_file(id: u64, inode: &Inode, plan: &Plan, rng: &mut Rng) -> Content {
    let mut content = (*inode.durable).clone();
    let eager = rng.below(5);
    let (mut left, mut tearing) = match plan {
        Plan::Cut { sectors, torn, .. } => (*sectors, *torn),
        _ => (0, false),
    };
    for (number, versions) in &inode.pending {
        let fate = match plan {
            Plan::Same(fate) => *fate,
            Plan::Cut { call, .. } => {
                if !versions.iter().any(|version| version.call == *call) {
                    Fate::Before(*call)
                } else if left > 0 {
                    left -= 1;
                    Fate::Before(*call + 1)
                } else if std::mem::take(&mut tearing) {
                    Fate::TornAfter(*call)
                } else {
                    Fate::Before(*call)
                }
            }
            Plan::Without(Victim::Call(call))
                if versions.iter().any(|version| version.call == *call) =>
            {
                Fate::Before(*call)
            }
            Plan::Without(Victim::Sector {
                call,
                file,
                number: lost,
                torn,
            }) if file == &id && lost == number => {
                if *torn {
                    Fate::TornAfter(*call)
                } else {
                    Fate::Before(*call)
                }
            }
            Plan::Without(Victim::Bytes(file)) if *file == id => DURABLE,
            Plan::Without(_) => NEWEST,
            Plan::Random => random_fate(versions, eager, rng),
        };
        settle_sector(&mut content, inode, *number, versions, fate, rng);
    }
    content.settle(settle_len(id, inode, plan, rng));
    content
}

fn random_fate(versions: &[Version], eager: u64, rng: &mut Rng) -> Fate {
    let any = versions
        .get(rng.index(versions.len()))
        .map_or(0, |version| version.call);
    match rng.below(16) {
        0 => Fate::TornAfter(any),
        1 => Fate::Before(any),
        n if n % 4 < eager => NEWEST,
        _ => DURABLE,
    }
}

fn settle_sector(
    content: &mut Content,
    inode: &Inode,
    number: u64,
    versions: &[Version],
    fate: Fate,
    rng: &mut Rng,
) {
    let (Fate::Before(call) | Fate::TornAfter(call)) = fate;
    let arrived = versions
        .iter()
        .take_while(|version| version.call < call)
        .count();
    let old = match arrived.checked_sub(1).and_then(|last| versions.get(last)) {
        Some(version) => version.sector.clone(),
        None => inode.durable.sector(number).cloned(),
    };
    let next = versions
        .get(arrived)
        .filter(|_| matches!(fate, Fate::TornAfter(_)));
    let settled = match next {
        None => old,
        Some(next) => {
            let new = next.sector.as_deref().unwrap_or(&ZEROS);
            Some(Arc::new(torn(old.as_deref().unwrap_or(&ZEROS), new, rng)))
        }
    };
    content.put(number, settled);
}

/// A sector that was being written when the power went: the bytes that differ are old, new or garbage.
fn torn(old: &Sector, new: &Sector, rng: &mut Rng) -> Sector {
    let mut out = *old;
    let style = rng.below(3);
    let split = rng.index(SECTOR_BYTES);
    for (at, (to, new)) in out.iter_mut().zip(new).enumerate() {
        let differs = *to != *new;
        let garbage = rng.next_u64();
        match style {
            0 if at < split => *to = *new,
            1 if at >= split => *to = *new,
            2 if differs && garbage & 0x300 != 0 => *to = garbage as u8,
            _ => {}
        }
    }
    out
}

fn settle_len(id: u64, inode: &Inode, plan: &Plan, rng: &mut Rng) -> u64 {
    let durable = inode.durable.len();
    let before = |call: u64| {
        inode
            .lens
            .iter()
            .take_while(|(at, _)| *at < call)
            .last()
            .map_or(durable, |(_, len)| *len)
    };
    match plan {
        Plan::Same(Fate::Before(call) | Fate::TornAfter(call)) => before(*call),
        Plan::Cut { call, rest, .. } => before(*call + u64::from(*rest)),
        Plan::Without(Victim::Call(call)) if inode.lens.iter().any(|(at, _)| at == call) => {
            before(*call)
        }
        Plan::Without(Victim::Length(file)) if *file == id => durable,
        Plan::Without(_) => before(u64::MAX),
        Plan::Random => {
            let newest = before(u64::MAX);
            let any = inode
                .lens
                .get(rng.index(inode.lens.len()))
                .map_or(durable, |(_, len)| *len);
            match rng.below(5) {
                0 => durable,
                1 => any,
                // Growth may arrive page by page.
                2 if newest > durable => (durable + rng.below(newest - durable))
                    .next_multiple_of(4096)
                    .min(newest),
                _ => newest,
            }
        }
    }
}
