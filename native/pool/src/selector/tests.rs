use proptest::prelude::*;

use super::*;
use crate::object::System;

const SCHEMA: &str = "step:int[0..]! number:int[1..50] param:uint levtype:enum(sfc,pl,ml) level:real[0..1100] \
                      date:time expver:str=0001 final:bool levels:int[] raw:bytes i:int j:int u:uint";

fn schema() -> Schema {
    Schema::parse(SCHEMA).unwrap()
}

fn text(text: &str) -> Value {
    Value::Text(text.into())
}

fn variable(name: &str) -> Option<Value> {
    Some(match name {
        "index" => Value::Int(2),
        "count" => Value::Int(4),
        "kind" => text("pl"),
        "start" => text("2026-01-01"),
        "least" => Value::Real(500.0),
        "list" => Value::Ints([1].into()),
        _ => return None,
    })
}

fn field() -> Vec<(&'static str, Value)> {
    vec![
        ("step", Value::Int(12)),
        ("number", Value::Int(3)),
        ("param", Value::Uint(130)),
        ("levtype", text("pl")),
        ("level", Value::Real(500.0)),
        ("date", text("2026-11-27T12:00")),
        ("levels", Value::Ints([1, 2].into())),
    ]
}

fn system() -> System {
    System {
        t: 2.5,
        seq: 7,
        instance: "ifs".into(),
        index: Some(1),
        size: 4096,
        port: "fields".into(),
        ..System::default()
    }
}

fn chooses(selector: &str, set: Vec<(&'static str, Value)>) -> Result<bool, Undefined> {
    let schema = schema();
    let own = schema.complete(set).unwrap();
    let selector =
        Selector::compile(selector, &schema, variable).unwrap_or_else(|mistake| panic!("{selector}: {mistake}"));
    selector.matches(&Described { own: &own, system: &system() })
}

fn mistake(selector: &str) -> Mistake {
    Selector::compile(selector, &schema(), variable).expect_err(selector)
}

#[test]
fn a_selector_chooses_what_its_words_say() {
    for selector in [
        "step = 12",
        "step != 13",
        "step <= 12 and step >= 12 and not step < 12 and not step > 12",
        "step le 12 and step ge 12 and not step lt 12 and not step gt 12",
        "param in (129, 130)",
        "step in 0..12",
        "step in 0..24 step 6",
        "step in ($index)..20",
        "number = $index + 1",
        "step % 6 = 0",
        "(step + 1) * 2 - 26 = 0",
        "-step = -12",
        "step - -1 = 13",
        "(step) = (12)",
        "levtype = 'pl' or levtype = 'ml'",
        "'pl' = levtype",
        "levtype = $kind",
        "levtype in ('sfc', \"pl\")",
        "expver = '0001' and expver like '00?1' and expver like '*1'",
        "levtype like 'p*'",
        "date > '2026-11-27' and date < '2026-11-27T12:00:01Z' and date ge $start",
        "level = 500 and 500 = level and level >= $least and level < 500.5",
        "step = 12.0",
        "has(levels) and not has(raw) and has(step)",
        "sys.t > 2 and sys.seq = 7 and sys.instance = 'ifs' and sys.index = 1 and sys.size in 1..5000 and has(sys.shape)",
        "true",
        "not false",
        "not not step = 12",
        "step = 1 and step = 2 or step = 12",
        "step = 12 or step = 1 and step = 2",
        "not step = 1 and step = 12",
    ] {
        assert_eq!(chooses(selector, field()), Ok(true), "{selector}");
        assert_eq!(chooses(&format!("not ({selector})"), field()), Ok(false), "not ({selector})");
    }
}

#[test]
fn a_comparison_with_what_is_absent_is_false_and_its_negation_true() {
    let set = || vec![("step", Value::Int(1))];
    for selector in [
        "number = 3",
        "number != 3",
        "number < 3",
        "number in (1, 2)",
        "number in 1..50",
        "levtype like '*'",
        "level != 1.0",
        "number % 2 = 0",
        "number + step = 1",
        "-number = 1",
        "step in (number, 2)",
        "step in number..5",
        "step in 0..5 step number",
        "sys.dt_next > 0",
        "has(number)",
        "final = false",
    ] {
        assert_eq!(chooses(selector, set()), Ok(false), "{selector}");
        assert_eq!(chooses(&format!("not {selector}"), set()), Ok(true), "not {selector}");
    }
}

#[test]
fn whole_numbers_are_computed_exactly_or_not_at_all() {
    let with = |i: i64, j: i64, u: u64| {
        vec![("step", Value::Int(0)), ("i", Value::Int(i)), ("j", Value::Int(j)), ("u", Value::Uint(u))]
    };
    assert_eq!(chooses("u = 18446744073709551615 and u > i", with(-1, 0, u64::MAX)), Ok(true));
    assert_eq!(chooses("i = -9223372036854775808", with(i64::MIN, 0, 0)), Ok(true));
    assert_eq!(chooses("u - 1 + 1 = u", with(0, 0, u64::MAX)), Ok(true));
    assert_eq!(chooses("i = 9007199254740993.0", with(9_007_199_254_740_993, 0, 0)), Ok(false));
    for (i, j, remainder) in [(7, 3, 1), (-7, 3, 2), (7, -3, -2), (-7, -3, -1), (i64::MIN, -1, 0)] {
        assert_eq!(chooses(&format!("i % j = {remainder}"), with(i, j, 0)), Ok(true), "{i} % {j}");
    }
    for (selector, says) in [
        ("u + 1 = 0", "18446744073709551615 + 1 is too large for a whole number"),
        ("u * u = 0", "18446744073709551615 * 18446744073709551615 is too large for a whole number"),
        ("i - 1 = 0", "-9223372036854775808 - 1 is too large for a whole number"),
        ("-u = 0", "-(18446744073709551615) is too large for a whole number"),
        ("i % j = 0", "-9223372036854775808 % 0 has no result"),
        ("i in 0..5 step j", "a range has a step that is not more than 0"),
    ] {
        assert_eq!(
            chooses(selector, with(i64::MIN, 0, u64::MAX)),
            Err(Undefined { problem: says.into() }),
            "{selector}"
        );
    }
}

#[test]
fn mistakes_are_named_where_they_stand() {
    for (selector, at, says) in [
        ("", 0..0, "found the end, expected a value, or the name of an attribute"),
        ("step =", 6..6, "found the end, expected a value, or the name of an attribute"),
        ("step = 1 step = 2", 9..13, "found 'step', expected 'and', 'or', or the end"),
        ("(step = 1", 9..9, "found the end, expected ')'"),
        ("param = xyz", 8..11, "there is no attribute 'xyz'; a text stands between quotes"),
        ("step = 1 OR step = 2", 9..11, "found 'OR', expected 'and', 'or', or the end"),
        ("stpe = 1", 0..4, "there is no attribute 'stpe'; did you mean step?"),
        ("sys.sq = 1", 0..6, "there is no attribute 'sys.sq'; did you mean sys.seq?"),
        ("sys.redelivered > 0", 0..15, "nobody knows sys.redelivered when an object is chosen"),
        ("step = $indx", 7..12, "the reader has no parameter 'indx', and it is neither $index nor $count"),
        ("step = $list", 7..12, "$list is [1], and selectors compare single values only"),
        ("step = $", 7..8, "'$' is followed by the name of a parameter, by index or by count"),
        ("step", 0..4, "this is a whole number, and no condition: compare it, as in x = 1"),
        ("final", 0..5, "say what it is compared with, as in x = true"),
        ("step % 6", 0..8, "this is a number, and no condition: compare it, as in step % 6 = 0"),
        ("step = 'a'", 0..10, "a whole number and a text cannot be compared"),
        ("levtype = 'p'", 10..13, "there is no member 'p'; did you mean 'pl'?"),
        ("levtype = 'soil'", 10..16, "there is no member 'soil'; the members are sfc, pl, ml"),
        ("levtype < 'pl'", 0..14, "members of an enumeration have no order; compare them by =, != or in"),
        ("final < true", 0..12, "true and false have no order; compare them by = or !="),
        ("date = 'noon'", 7..13, "'noon' is no time; times look like 2026-11-27 and 2026-11-27T12:00Z"),
        ("date = expver", 0..13, "a time and a text cannot be compared"),
        (
            "1 <= step <= 5",
            10..12,
            "found '<=', expected 'and' or 'or': compare two values at a time, as in 1 <= x and x < 5",
        ),
        ("step in 1, 2", 9..10, "found ',', expected '..', as in 'in 0..10', or a list, as in 'in (1, 2)'"),
        ("step in (1, 2", 13..13, "found the end, expected ',' or ')'"),
        ("level in 0..5 step 2", 0..5, "ranges with a step are of whole numbers, and this is a number"),
        ("step in 0..5 step 0", 18..19, "a step is more than 0"),
        ("step like 'a*'", 0..4, "'like' compares texts, and this is a whole number"),
        ("expver like 5", 12..13, "found 5, expected a pattern in quotes, such as 'a*'"),
        ("level + 1 = 2", 0..5, "selectors compute with whole numbers only, and this is a number"),
        ("-levtype = 'a'", 1..8, "a member of an enumeration has no negative"),
        ("step % 0 = 1", 7..8, "there is no remainder by zero"),
        ("levels = 1", 0..6, "levels is int[], of which selectors can only ask has(levels)"),
        ("has levels", 4..10, "found 'levels', expected the name of an attribute in parentheses, as in has(levelist)"),
        ("has(levles)", 4..10, "there is no attribute 'levles'; did you mean levels?"),
        ("step = 1 & step = 2", 9..10, "'&' has no meaning in a selector; did you mean and?"),
        ("step / 2 = 1", 5..6, "'/' has no meaning in a selector: whole numbers are not divided"),
        ("expver = 'a", 9..11, "the text that begins here has no ' at its end"),
        ("step = 18446744073709551616", 7..27, "this number is too large"),
        ("step = 1e999", 7..12, "this number is too large"),
        ("step = 12h", 7..10, "a number ends where a word begins; quote what is a text"),
        ("(step = 1) = 2", 0..10, "this is a condition, where a value is expected"),
    ] {
        assert_eq!(mistake(selector), Mistake::new(at, says), "{selector}");
    }
}

#[test]
fn selectors_are_bounded() {
    let nested = |depth: usize| format!("{}step = 1{}", "(".repeat(depth), ")".repeat(depth));
    assert!(Selector::compile(&nested(99), &schema(), variable).is_ok());
    assert_eq!(mistake(&nested(100)).problem, "more than 100 parentheses lie within each other");
    let long = |count: usize| format!("step{} = 1", " + 1".repeat(count));
    assert!(Selector::compile(&long(1_000), &schema(), variable).is_ok());
    assert_eq!(mistake(&long(1_001)).problem, "a selector has at most 1000 operations");
    assert_eq!(mistake(&" ".repeat(MOST_BYTES + 1)).problem, "a selector has at most 65536 bytes");
    let wide = format!("x{}", "é".repeat(MOST_BYTES));
    let at = mistake(&wide).at;
    assert!(wide.is_char_boundary(at.start) && wide.is_char_boundary(at.end));
    let many = vec!["not step = 1"; 4_000].join(" or ");
    assert!(Selector::compile(&many, &schema(), variable).is_ok());
}

#[test]
fn ranges_in_parentheses_within_each_other_are_read_once() {
    let nested =
        |depth: usize| (0..depth).fold("step in (1)..2".to_owned(), |inner, _| format!("step in (({inner}))..1"));
    let (done, is_done) = std::sync::mpsc::channel();
    std::thread::spawn(move || done.send(mistake(&nested(40)).problem));
    // Read again at each depth, it would take years.
    let problem = is_done.recv_timeout(std::time::Duration::from_secs(60)).expect("read more than once");
    assert_eq!(problem, "this is a condition, where a value is expected");
    assert!(chooses("step in (1)..(2)", vec![("step", Value::Int(2))]).unwrap());
    assert_eq!(mistake("step in ('a')..2").at, 0..13);
}

#[test]
fn a_selector_that_no_object_can_meet_is_known() {
    for (selector, can) in [
        ("number = 51", false),
        ("number = 50", true),
        ("number > 50", false),
        ("number >= 50", true),
        ("number < 1", false),
        ("51 <= number", false),
        ("number in (0, 51)", false),
        ("number in (0, 50)", true),
        ("number in 60..70", false),
        ("number in 5..2", false),
        ("level > 1100", false),
        ("step = -1", false),
        ("u < 0", false),
        ("step = 1 and number = 51", false),
        ("step = 1 or number = 51", true),
        ("not number = 51", true),
        ("false", false),
        ("expver = 'x'", true),
        ("step % 6 = 7", true), // not found out
    ] {
        let compiled = Selector::compile(selector, &schema(), variable).unwrap();
        assert_eq!(compiled.can_match(&schema()), can, "{selector}");
    }
}

proptest! {
    #[test]
    fn no_text_is_more_than_a_mistake(selector in "[a-z0-9 .$()'\"=!<>,%*+é-]{0,60}") {
        let _ = Selector::compile(&selector, &schema(), variable);
    }

    #[test]
    fn words_in_any_order_are_compiled_or_refused_within_the_text(words in proptest::collection::vec(
        prop_oneof![
            Just("step"), Just("number"), Just("levtype"), Just("="), Just("!="), Just("<"), Just("in"), Just("("), Just(")"),
            Just("1"), Just("'pl'"), Just(".."), Just("and"), Just("or"), Just("not"), Just("%"), Just("-"), Just("has"), Just(","),
            Just("$index"), Just("2.5"), Just("like"), Just("true"),
        ], 0..20)) {
        let selector = words.join(" ");
        if let Err(mistake) = Selector::compile(&selector, &schema(), variable) {
            prop_assert!(mistake.at.start <= mistake.at.end && mistake.at.end <= selector.len());
        }
    }

    #[test]
    fn what_chooses_an_object_can_match(number in 1_i64..=50, least in -5_i64..60, most in -5_i64..60) {
        let selector = format!("number in {least}..{most}");
        let compiled = Selector::compile(&selector, &schema(), variable).unwrap();
        let chosen = chooses(&selector, vec![("step", Value::Int(0)), ("number", Value::Int(number))]).unwrap();
        prop_assert_eq!(chosen, (least..=most).contains(&number));
        prop_assert!(!chosen || compiled.can_match(&schema()));
    }
}

#[test]
fn the_variables_of_a_selector_are_known_without_their_values() {
    let names = variables("step % $six = $index and name = '$text' or step in ($six, $b2)").unwrap();
    assert_eq!(names.into_iter().collect::<Vec<_>>(), ["b2", "index", "six"]);
    assert_eq!(variables("step = $").unwrap_err().at, 7..8);
}

#[test]
fn a_parameter_is_read_as_what_it_is_compared_with() {
    let schema = Schema::parse("step:int share:real name:str level:enum(sfc,pl) on:bool").unwrap();
    let parameters = |name: &str| {
        let text = match name {
            "six" => "6",
            "half" => "0.5",
            "version" => "0001",
            "level" => "pl",
            "yes" => "true",
            _ => return None,
        };
        Some(Value::Text(text.into()))
    };
    let set = [
        ("step", Value::Int(12)),
        ("share", Value::Real(0.5)),
        ("name", Value::Text("0001".into())),
        ("level", Value::Text("pl".into())),
        ("on", Value::Bool(true)),
    ];
    let own = schema.complete(set).unwrap();
    let object = Described { own: &own, system: &System::default() };
    for selector in [
        "step % $six = 0",
        "$six < step",
        "step in 0..100 step $six",
        "share = $half",
        "name = $version",
        "level = $level",
        "on = $yes",
        "step = 2 * $six",
    ] {
        let compiled = Selector::compile(selector, &schema, parameters).unwrap_or_else(|mistake| panic!("{mistake}"));
        assert_eq!(compiled.matches(&object), Ok(true), "{selector}");
    }
    let mistake = Selector::compile("step = $level", &schema, parameters).unwrap_err();
    assert_eq!(mistake.problem, "the parameter 'level' of the reader is 'pl', and a number is needed here");
    assert_eq!(mistake.at, 7..13);
}
