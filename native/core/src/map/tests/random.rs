//! Random operations on map and model side by side, also with hashes that nearly all collide.

use proptest::prelude::*;

use super::world::{Change, KEYS, World, with_nested_keys};
use crate::key::with_masked_hashes;

#[derive(Clone, Debug)]
enum Step {
    Change(Vec<Change>),
    Put(Vec<Change>),
    Get(Vec<usize>),
    GetOne(usize),
    UpdatedBefore(i64),
    Due(i64),
    TakeDue(i64),
    Look,
    Fork,
    Switch(prop::sample::Index),
    Commit,
    NextVersion,
    Base,
    Compact(Vec<Change>),
    MergeByTiers,
    MergeNewest(usize),
    Split(usize),
}

fn change() -> impl Strategy<Value = Change> {
    let value = prop::option::weighted(0.7, -5i64..5);
    (0..KEYS, value, 0i64..100, prop::option::of(0i64..60)).prop_map(|(key, value, updated_at, deadline)| Change {
        key,
        value,
        updated_at: updated_at + 1,
        deadline,
    })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => prop::collection::vec(change(), 0..40).prop_map(Step::Change),
        2 => prop::collection::vec(change(), 0..40).prop_map(Step::Put),
        3 => prop::collection::vec(0..KEYS, 0..40).prop_map(Step::Get),
        2 => (0..KEYS).prop_map(Step::GetOne),
        2 => (0i64..102).prop_map(Step::UpdatedBefore),
        3 => (-1i64..61).prop_map(Step::Due),
        1 => (-1i64..61).prop_map(Step::TakeDue),
        2 => Just(Step::Look),
        1 => Just(Step::Fork),
        1 => any::<prop::sample::Index>().prop_map(Step::Switch),
        2 => Just(Step::Commit),
        2 => Just(Step::NextVersion),
        1 => Just(Step::Base),
        1 => prop::collection::vec(change(), 0..20).prop_map(Step::Compact),
        1 => Just(Step::MergeByTiers),
        1 => (1usize..4).prop_map(Step::MergeNewest),
        1 => (0..KEYS).prop_map(Step::Split),
    ]
}

fn play(steps: &[Step]) {
    let mut worlds = vec![World::new()];
    let mut at = 0;
    for step in steps {
        let world = &mut worlds[at];
        match step {
            Step::Change(rows) => world.change(rows),
            Step::Put(rows) => world.put(rows),
            Step::Get(keys) => world.get(keys),
            Step::GetOne(key) => world.get_one(*key),
            Step::UpdatedBefore(threshold_ms) => world.updated_before(*threshold_ms),
            Step::Due(now_ms) => world.due(*now_ms),
            Step::TakeDue(now_ms) => world.take_due(*now_ms),
            Step::Look => world.look(),
            Step::Commit => world.commit(),
            Step::NextVersion => world.next_version(),
            Step::Base => world.base(),
            Step::Compact(rows) => world.compact(rows),
            Step::MergeByTiers => world.merge(None),
            Step::MergeNewest(count) => world.merge(Some(*count)),
            Step::Split(key) => world.split(*key),
            Step::Fork => {
                let fork = world.fork();
                worlds.push(fork);
            }
            Step::Switch(index) => at = index.index(worlds.len()),
        }
    }
    worlds.iter_mut().for_each(World::look);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn a_state_map_is_a_sorted_dictionary(steps in prop::collection::vec(step(), 1..40)) {
        play(&steps);
    }

    #[test]
    fn colliding_hashes_change_nothing(steps in prop::collection::vec(step(), 1..40), shift in prop::sample::select(vec![0, 28, 56])) {
        with_masked_hashes(0xff << shift, || play(&steps));
    }

    #[test]
    fn nested_keys_are_keys_like_others(steps in prop::collection::vec(step(), 1..40), mask in prop::sample::select(vec![u64::MAX, 0xff, 0])) {
        with_nested_keys(|| with_masked_hashes(mask, || play(&steps)));
    }

    #[test]
    fn one_hash_for_all_keys_changes_nothing(steps in prop::collection::vec(step(), 1..40)) {
        with_masked_hashes(0, || play(&steps));
    }
}
