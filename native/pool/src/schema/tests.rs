use super::*;

#[test]
fn a_text_gives_attributes() {
    let schema = Schema::parse("step:int[0..]! e:enum(a,b)=a is:int[] rs:real[] t:time s:str x:bytes b:bool").unwrap();
    let own = schema.read(" step=3 is=[1, -2] rs=[] t=2026-11-27 s=\"it's\"\nx=raw b=true").unwrap();
    let set = [
        ("step", Value::Int(3)),
        ("is", Value::Ints([1, -2].into())),
        ("rs", Value::Reals([].into())),
        ("t", Value::Text("2026-11-27".into())),
        ("s", Value::Text("it's".into())),
        ("x", Value::Bytes((*b"raw").into())),
        ("b", Value::Bool(true)),
    ];
    assert_eq!(own, schema.complete(set).unwrap());
}

#[test]
fn a_text_that_gives_none_is_told_with_its_place() {
    let schema = Schema::parse("step:int[0..]! e:enum(a,b) is:int[]").unwrap();
    for (text, at, problem) in [
        ("stap=3", 0..4, "there is no attribute 'stap'; did you mean step?"),
        ("step=3 e", 8..8, "found the end, expected '=' and a value of e"),
        ("step=-3", 0..7, "step: -3 is not allowed: it is int[0..]"),
        ("step=3,e=a", 0..10, "step: '3,e=a' is no int[0..]"),
        ("step=3 e='a'is=[1]", 12..13, "found 'i', expected white space before the next attribute"),
        ("is=[1,x] step=1", 0..8, "is: '[1,x]' is no int[]"),
        ("is=[1 step=1", 12..12, "found the end, expected ']' behind the last number"),
        ("e=a", 0..3, "step is missing, which is required (int[0..])"),
        ("step=1 sys.t=3", 0..14, "sys.t cannot be set: every object has it by itself"),
    ] {
        assert_eq!(schema.read(text), Err(Mistake::new(at, problem)), "{text}");
    }
}

const MARS: &str = "step:int[0..]! number:int[1..50]! param:uint! levtype:enum(sfc,pl,ml)! levelist:int[1..137] \
                    date:time! expver:str=0001";

fn schema() -> Schema {
    Schema::parse(MARS).unwrap()
}

fn field() -> Vec<(&'static str, Value)> {
    vec![
        ("step", Value::Int(3)),
        ("number", Value::Int(1)),
        ("param", Value::Int(130)),
        ("levtype", Value::Text("pl".into())),
        ("date", Value::Text("2026-11-27".into())),
    ]
}

fn with(name: &'static str, value: Value) -> Result<Vec<Option<Value>>, String> {
    schema().complete(field().into_iter().chain([(name, value)]))
}

#[test]
fn an_object_gets_the_types_and_defaults_of_its_schema() {
    let values = schema().complete(field()).unwrap();
    assert_eq!(values[2], Some(Value::Uint(130)));
    assert_eq!(values[4], None);
    assert_eq!(values[5], Some(Value::Time(Time::parse("2026-11-27").unwrap())));
    assert_eq!(values[6], Some(Value::Text("0001".into())));
}

#[test]
fn a_schema_is_read_as_it_is_shown() {
    let shown = |schema: &Schema| schema.attributes().iter().map(Attribute::to_string).collect::<Vec<_>>().join(" ");
    let text = "a:bool=true b:int[-3..] c:uint[..7]! d:real[0.5..1.5] e:str='x y' f:enum(p,q)='q' g:time h:int[] i:real[][0..1] j:bytes!";
    let schema = Schema::parse(text).unwrap();
    assert_eq!(shown(&schema), text);
    assert_eq!(Schema::parse(&shown(&schema)).unwrap(), schema);
}

#[test]
fn what_an_object_may_not_have_is_refused_with_what_is_allowed() {
    for (name, value, says) in [
        ("stpe", Value::Int(3), "there is no attribute 'stpe'; did you mean step?"),
        ("step", Value::Int(-1), "step = -1 is not allowed: it is int[0..]"),
        ("step", Value::Real(1.0), "step = 1.0 is not allowed: it is int[0..]"),
        ("number", Value::Int(51), "number = 51 is not allowed: it is int[1..50]"),
        ("param", Value::Int(-1), "param = -1 is not allowed: it is uint"),
        (
            "levtype",
            Value::Text("sf".into()),
            "levtype = 'sf' is not allowed: it is enum(sfc,pl,ml); did you mean 'sfc'?",
        ),
        ("date", Value::Text("yesterday".into()), "date = 'yesterday' is not allowed: it is time"),
        ("sys.seq", Value::Int(1), "sys.seq cannot be set: every object has it by itself"),
    ] {
        assert_eq!(with(name, value).unwrap_err(), says);
    }
}

#[test]
fn a_required_attribute_is_missed_by_name() {
    let without = field().into_iter().filter(|(name, _)| *name != "number");
    assert_eq!(schema().complete(without).unwrap_err(), "number is missing, which is required (int[1..50])");
}

#[test]
fn numbers_that_are_none_lie_in_no_range() {
    let schema = Schema::parse("x:real y:real[]").unwrap();
    assert!(schema.complete([("x", Value::Real(f64::NAN))]).is_err());
    assert!(schema.complete([("y", Value::Reals([1.0, f64::NAN].into()))]).is_err());
    assert!(schema.complete([("x", Value::Real(f64::INFINITY))]).is_ok());
}

#[test]
fn schemas_are_bounded() {
    let many: Vec<String> = (0..10_000).map(|number| format!("m{number}")).collect();
    assert!(Schema::parse(&format!("e:enum({})", many.join(","))).is_ok());
    let problem = |text: &str| Schema::parse(text).unwrap_err().problem;
    assert_eq!(problem(&" ".repeat(MOST_BYTES + 1)), "a schema has at most 65536 bytes");
    assert_eq!(problem(&"é".repeat(MOST_BYTES)), "a schema has at most 65536 bytes");
}

#[test]
fn mistakes_in_a_schema_are_named_where_they_stand() {
    for (text, at, says) in [
        ("step", 4..4, "found the end, expected ':' and the type of step"),
        (
            "step:",
            5..5,
            "found the end, expected a type: bool, int, uint, real, str, enum, time, bytes, int[] or real[]",
        ),
        ("a:int b:inte", 8..12, "there is no type 'inte'; did you mean int?"),
        ("a:int a:int", 6..7, "the attribute a is declared twice"),
        ("a:int[5..1]", 5..11, "'[5..1]' is no range of this type; ranges look like [0..], [..100] and [1..50]"),
        ("a:uint[-1..]", 6..12, "'[-1..]' is no range of this type; ranges look like [0..], [..100] and [1..50]"),
        ("a:real[nan..]", 6..13, "'[nan..]' is no range of this type; ranges look like [0..], [..100] and [1..50]"),
        ("a:int[1..", 9..9, "found the end, expected ']' behind the range"),
        ("a:enum", 6..6, "found the end, expected the members of the enumeration, as in enum(sfc,pl,ml)"),
        ("a:enum(p,p)", 6..11, "the member 'p' is declared twice"),
        ("a:enum(p,,q)", 6..12, "members of an enumeration are words with commas between, as in enum(sfc,pl,ml)"),
        ("a:str[]", 2..7, "there are no lists of str, only int[] and real[]"),
        ("a:int[0..3]=7", 11..13, "the default 7 is not allowed: it is int[0..3]"),
        ("a:int=x", 5..7, "the default 'x' is no int"),
        ("a:int!=3", 0..8, "a is required, so that its default is never used: leave out '!' or the default"),
        ("a:bytes=x", 7..9, "an attribute of type bytes has no default"),
        ("in:int", 0..2, "'in' is a word of selectors, and cannot name an attribute"),
        ("a:int;b:int", 5..6, "found ';', expected '!', '=' with a default, or white space before the next attribute"),
        ("é:int", 0..2, "found 'é', expected a name, such as step"),
    ] {
        assert_eq!(Schema::parse(text), Err(Mistake::new(at, says)), "{text}");
    }
}
