//! Many selectors at once: which of them could choose an object is looked up by the value that they ask for.

use std::collections::HashMap;

use crate::object::Described;
use crate::schema::Place;
use crate::time::Time;
use crate::value::Operand;

use super::needs::Need;
use super::Selector;

/// So many selectors must ask for values of an attribute before a table pays.
const WORTH_A_TABLE: usize = 8;

/// Selectors by their numbers, found by the value of an attribute that each asks for: `param` of `param = 130 and step < 6`, or of
/// `param in (130, 131)`.
#[derive(Debug, Default)]
pub struct Index {
    tables: Vec<(Place, HashMap<Key, Vec<usize>>)>,
    /// Those that ask for no value, or for one of an attribute that few ask for.
    others: Vec<usize>,
}

/// A value of an attribute that equals only itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key {
    Bool(bool),
    Integer(i128),
    Text(Box<str>),
    Time(Time),
}

impl Key {
    /// `None`: a real number, which equals whole ones, too.
    fn of(value: Operand<'_>) -> Option<Key> {
        Some(match value {
            Operand::Bool(value) => Key::Bool(value),
            Operand::Integer(value) => Key::Integer(value),
            Operand::Text(value) => Key::Text(value.into()),
            Operand::Time(value) => Key::Time(value),
            Operand::Real(_) => return None,
        })
    }
}

impl Index {
    /// Of these selectors, which are numbered from 0.
    pub fn new<'a>(selectors: impl IntoIterator<Item = &'a Selector>) -> Index {
        let asked: Vec<_> = selectors.into_iter().map(asked).collect();
        let mut counts: HashMap<Place, usize> = HashMap::new();
        asked.iter().flatten().for_each(|(place, _)| *counts.entry(*place).or_default() += 1);
        let mut index = Index::default();
        for (number, asked) in asked.into_iter().enumerate() {
            match asked {
                Some((place, keys)) if counts[&place] >= WORTH_A_TABLE => {
                    let table = match index.tables.iter().position(|(known, _)| *known == place) {
                        Some(table) => table,
                        None => {
                            index.tables.push((place, HashMap::new()));
                            index.tables.len() - 1
                        }
                    };
                    for key in keys {
                        let numbers = index.tables[table].1.entry(key).or_default();
                        if numbers.last() != Some(&number) {
                            numbers.push(number);
                        }
                    }
                }
                _ => index.others.push(number),
            }
        }
        index
    }

    /// The numbers of the selectors that may choose an object; no other one does. Each comes once.
    pub fn candidates<'a>(&'a self, object: &Described<'a>) -> impl Iterator<Item = usize> + 'a {
        let object = *object;
        let found = self.tables.iter().filter_map(move |(place, table)| table.get(&Key::of(object.operand(*place)?)?));
        self.others.iter().chain(found.flatten()).copied()
    }
}

/// The first attribute that a selector asks values of, with these values; `None`: it asks for none that a table holds.
fn asked(selector: &Selector) -> Option<(Place, Vec<Key>)> {
    selector.needs().into_iter().find_map(|(place, need)| match need {
        Need::OneOf(values) => {
            let keys: Option<_> = values.iter().map(|value| Key::of(value.operand()?)).collect();
            Some((place, keys?))
        }
        Need::Within { .. } => None,
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::object::System;
    use crate::schema::Schema;
    use crate::value::Value;

    const ATTRIBUTES: &str = "step:int param:uint level:enum(a,b,c) name:str at:time wet:bool share:real";

    fn compiled(texts: &[String]) -> Vec<Selector> {
        let schema = Schema::parse(ATTRIBUTES).unwrap();
        texts.iter().map(|text| Selector::compile(text, &schema, |_| None).unwrap()).collect()
    }

    /// The numbers of the selectors that choose an object, or cannot be compared with it: by the index, and by asking each.
    fn by_both(index: &Index, selectors: &[Selector], object: &Described<'_>) -> (Vec<usize>, Vec<usize>) {
        let is_one = |number: &usize| selectors[*number].matches(object) != Ok(false);
        let mut found: Vec<usize> = index.candidates(object).filter(is_one).collect();
        found.sort_unstable();
        (found, (0..selectors.len()).filter(|number| is_one(number)).collect())
    }

    #[test]
    fn of_ten_thousand_selectors_those_are_looked_at_that_ask_for_the_value() {
        let texts: Vec<String> = (0..10_000).map(|number| format!("param = {number} and step < 3")).collect();
        let selectors = compiled(&texts);
        let index = Index::new(&selectors);
        let schema = Schema::parse(ATTRIBUTES).unwrap();
        let own = schema.complete([("param", Value::Uint(77)), ("step", Value::Int(1))]).unwrap();
        let system = System::default();
        let object = Described { own: &own, system: &system };
        assert_eq!(index.candidates(&object).collect::<Vec<_>>(), [77]);
        assert_eq!(selectors[77].matches(&object), Ok(true));
    }

    #[test]
    fn the_index_finds_what_asking_each_finds() {
        let mut seed = 11_u64;
        let mut chance = move |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % below
        };
        let part = |chance: &mut dyn FnMut(u64) -> u64| match chance(12) {
            0 => format!("param = {}", chance(9)),
            1 => format!("{} = step", chance(9)),
            2 => format!("param in ({}, {}, {})", chance(9), chance(9), chance(9)),
            3 => format!("level = '{}'", ["a", "b", "c"][chance(3) as usize]),
            4 => format!("name = 'n{}'", chance(5)),
            5 => format!("at = '2026-11-0{}'", 1 + chance(5)),
            6 => format!("wet = {}", chance(2) == 0),
            7 => format!("share = {}.5", chance(3)),
            8 => format!("step % param = {}", chance(3)),
            9 => format!("not param = {}", chance(9)),
            10 => format!("step in {}..{} step 2", chance(4), 4 + chance(4)),
            _ => format!("sys.instance = 'w{}'", chance(3)),
        };
        let schema = Schema::parse(ATTRIBUTES).unwrap();
        for _ in 0..40 {
            let texts: Vec<String> = (0..60)
                .map(|_| {
                    let parts: Vec<String> = (0..=chance(2)).map(|_| part(&mut chance)).collect();
                    parts.join(if chance(5) == 0 { " or " } else { " and " })
                })
                .collect();
            let selectors = compiled(&texts);
            let index = Index::new(&selectors);
            for _ in 0..50 {
                let mut set: Vec<(&str, Value)> = Vec::new();
                let mut may_set = |chance: &mut dyn FnMut(u64) -> u64, name, value| {
                    if chance(5) > 0 {
                        set.push((name, value));
                    }
                };
                let small = |chance: &mut dyn FnMut(u64) -> u64| chance(9) as i64;
                let (step, param) = (Value::Int(small(&mut chance)), Value::Int(small(&mut chance)));
                may_set(&mut chance, "step", step);
                may_set(&mut chance, "param", param);
                let level = Value::Text(["a", "b", "c"][chance(3) as usize].into());
                may_set(&mut chance, "level", level);
                let name = Value::Text(format!("n{}", chance(5)).into());
                may_set(&mut chance, "name", name);
                let at = Value::Text(format!("2026-11-0{}", 1 + chance(5)).into());
                may_set(&mut chance, "at", at);
                let wet = Value::Bool(chance(2) == 0);
                may_set(&mut chance, "wet", wet);
                let share = Value::Real(chance(3) as f64 + 0.5);
                may_set(&mut chance, "share", share);
                let own = schema.complete(set).unwrap();
                let instance: Arc<str> = format!("w{}", chance(3)).into();
                let system = System { instance, ..System::default() };
                let (found, asked) = by_both(&index, &selectors, &Described { own: &own, system: &system });
                assert_eq!(found, asked);
            }
        }
    }
}
